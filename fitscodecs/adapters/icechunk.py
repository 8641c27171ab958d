# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""icechunk: repositories of references to the images of FITS files."""

import asyncio
import errno
import os
import re
import threading
from datetime import datetime, timedelta
from urllib.parse import quote, unquote, urlsplit

import icechunk

from ..atomic import replacing_folder
from ..zarr_metadata import chunk_places, documents, dumps

UNKEPT = re.compile(r"[\0-\x1f\x7f\ud800-\udfff]")
SCHEMES = ("file", "http", "https", "s3", "s3a", "gs", "gcs")
LARGEST_REQUEST = 2**23  # bytes; more is read in several requests at the same time

__all__ = ["containers_of", "leave_to_read", "open_repository", "quiet", "write_icechunk"]


def write_icechunk(group, path, *, containers=None, storage_options=None, overwrite=False):
    """Write the references of a group to a new icechunk repository on disk.

    Where the ETag of an object is known, or the time when a file was changed last, icechunk refuses
    to read from it once it has changed. Of a web server this needs one that knows
    ``If-Unmodified-Since``.

    Parameters
    ----------
    group : VirtualGroup
    path : path-like
        Folder of the repository, which appears whole or not at all.
    containers : list of icechunk.VirtualChunkContainer, optional
        Places that files may be in; by default see `containers_of`.
    storage_options : dict, optional
        Those that fsspec had, for the places of files.
    overwrite : bool
        Whether a repository that is there may be replaced.
    """
    with replacing_folder(path, overwrite, "snapshots", "icechunk repository") as new:
        fill_repository(group, new, containers, storage_options)


def fill_repository(group, path, containers, storage_options):
    """Make a repository with one commit."""
    if containers is None:
        urls = {place.url for _, place in chunk_places(group) if place.data is None}
        containers = containers_of(urls, storage_options)
    config = icechunk.RepositoryConfig.default()
    for container in containers:
        config.set_virtual_chunk_container(container)
    allowed = leave_to_read([c.url_prefix for c in containers])
    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(path), config, authorize_virtual_chunk_access=allowed
    )
    repository.save_config()
    session = repository.writable_session("main")
    run(put_documents(session.store, group))
    put_chunks(session.store, group, group.targets)
    session.commit("references to FITS files")


def quiet():
    """Keep icechunk from printing warnings among what a program prints."""
    icechunk.set_logs_filter("error")


def open_repository(path):
    """A repository on disk, with leave to read from all the places that it names.

    Only for repositories of people one trusts: files are read wherever they say.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    icechunk.Repository

    Raises
    ------
    FileNotFoundError, ValueError
        If there is nothing, or no repository.
    """
    path = os.fspath(path)
    if not os.path.isdir(os.path.join(path, "snapshots")):
        if not os.path.lexists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        raise ValueError(f"{path} is no icechunk repository, wanted a folder with snapshots in it")
    storage = icechunk.local_filesystem_storage(path)
    config = icechunk.Repository.fetch_config(storage) or icechunk.RepositoryConfig.default()
    prefixes = list(config.virtual_chunk_containers or {})
    config.storage = one_request_each(config.storage or storage.default_settings())
    return icechunk.Repository.open(
        storage, config, authorize_virtual_chunk_access=leave_to_read(prefixes)
    )


def one_request_each(settings):
    """Let a range of a file be one request: icechunk makes five of it, however small it is.

    The setting is that of the storage of the repository, and counts for virtual chunks too.
    """
    settings.concurrency = icechunk.StorageConcurrencySettings(
        max_concurrent_requests_for_object=settings.concurrency.max_concurrent_requests_for_object,
        ideal_concurrent_request_size=LARGEST_REQUEST,
    )
    return settings


def leave_to_read(prefixes):
    """Credentials for places that need none, or that the environment gives them for.

    Parameters
    ----------
    prefixes : list of str
        Those of containers, ``url_prefix``.

    Returns
    -------
    dict
        For ``authorize_virtual_chunk_access``.
    """
    access = {
        "file": getattr(icechunk.credentials, "LocalFileSystemAccess", None),
        "http": getattr(icechunk.credentials, "HttpAccess", None),
    }
    access["https"] = access["http"]
    return icechunk.containers_credentials({p: access.get(p.partition(":")[0]) for p in prefixes})


# ---------------------------------------------------------------------------- contents


async def put_documents(store, group):
    from zarr.core.buffer import default_buffer_prototype

    buffer = default_buffer_prototype().buffer
    for key, document in documents(group):
        await store.set(key, buffer.from_bytes(dumps(document).encode()))
    for key, place in chunk_places(group):
        if place.data is not None:
            await store.set(key, buffer.from_bytes(place.data))


def run(coroutine):
    """Run a coroutine to its end, also where a loop is running, as in a notebook."""
    result = []

    def work():
        try:
            result.append((asyncio.run(coroutine), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    value, error = result[0]
    if error is not None:
        raise error
    return value


def put_chunks(store, group, targets, prefix=""):
    for name, array in group.arrays.items():
        chunks = [
            chunk_spec(at, place, targets.get(place.url, {}))
            for at, place in array.places.items()
            if place.data is None
        ]
        failed = store.set_virtual_refs(f"/{prefix}{name}", chunks, validate_containers=True)
        if failed:
            urls = sorted({array.places[tuple(at)].url for at in failed})
            raise ValueError(f"no container for {urls[0]}, wanted one for each place of files")
    for name, inner in group.groups.items():
        put_chunks(store, inner, targets, f"{prefix}{name}/")


def chunk_spec(at, place, facts):
    checks = {}
    # It takes the quotes off ETags, which stores of objects understand and web servers do not.
    if "etag" in facts and not place.url.startswith(("http:", "https:")):
        checks["etag_checksum"] = facts["etag"]
    elif "modified" in facts:
        modified = datetime.fromisoformat(facts["modified"])
        if modified.microsecond:  # it counts whole seconds
            modified = modified.replace(microsecond=0) + timedelta(seconds=1)
        checks["last_updated_at_checksum"] = modified
    return icechunk.VirtualChunkSpec(
        list(at), location(place.url), place.start, place.nbytes, **checks
    )


def location(url):
    """A URL, of local files as well."""
    return url if "://" in url else file_url(url)


def file_url(path):
    """The URL of a local path, which keeps a slash at its end."""
    return "file://" + quote(os.fsencode(path), safe="/!$&'()*+,;=:@")


# ---------------------------------------------------------------------------- places


def containers_of(urls, storage_options=None):
    """Containers that hold some files: for each server or bucket one, for local files a folder.

    Parameters
    ----------
    urls : iterable of str
    storage_options : dict, optional
        Those that fsspec had; of S3 ``anon``, ``endpoint_url`` and ``client_kwargs`` count.

    Returns
    -------
    list of icechunk.VirtualChunkContainer

    Raises
    ------
    ValueError
        If icechunk cannot read such files; see `refuse_url`.
    """
    for url in urls:
        refuse_url(url)
    parts = [urlsplit(location(url)) for url in urls]
    containers = []
    folders = [os.path.dirname(unquote(part.path)) for part in parts if part.scheme == "file"]
    if folders:
        folder = os.path.commonpath(folders).rstrip("/") + "/"
        # icechunk compares prefixes with URLs when references are put, with unquoted ones when they
        # are followed.
        for prefix in sorted({file_url(folder), f"file://{folder}"}):
            store = icechunk.local_filesystem_store(folder)
            containers.append(icechunk.VirtualChunkContainer(prefix, store))
    for scheme, host in sorted({(p.scheme, p.netloc) for p in parts if p.scheme != "file"}):
        store = remote_store(scheme, storage_options or {})
        containers.append(icechunk.VirtualChunkContainer(f"{scheme}://{host}/", store))
    return containers


def refuse_url(url):
    """Raise ValueError if icechunk cannot read the file of a URL or path."""
    part = urlsplit(location(url))
    if not hasattr(icechunk.credentials, "HttpAccess"):  # before version 2
        if part.port is not None:
            raise ValueError(
                f"icechunk {icechunk.__version__} loses the port of {url}: wanted icechunk 2"
            )
        if part.scheme == "file" and "%" in part.path:
            raise ValueError(
                f"icechunk {icechunk.__version__} does not find {url}: wanted icechunk 2, or a "
                "name of ASCII without blanks, % and brackets"
            )
    if part.scheme == "file" and UNKEPT.search(unquote(part.path, errors="surrogateescape")):
        raise ValueError(f"{url!r}: wanted a name of Unicode without tabs and line breaks, which "
                         "icechunk keeps")  # fmt: skip
    if part.scheme not in SCHEMES:
        raise ValueError(f"no icechunk store for {part.scheme}://, wanted a local file, http, s3 "
                         "or gs")  # fmt: skip


def remote_store(scheme, options):
    if scheme in ("http", "https"):
        return icechunk.http_store({"allow_http": "true"} if scheme == "http" else None)
    if scheme in ("s3", "s3a"):
        client = options.get("client_kwargs", {})
        endpoint = options.get("endpoint_url") or client.get("endpoint_url")
        return icechunk.s3_store(
            region=client.get("region_name"), anonymous=bool(options.get("anon")),
            endpoint_url=endpoint, allow_http=str(endpoint or "").startswith("http:"),
            s3_compatible=endpoint is not None, force_path_style=endpoint is not None,
        )  # fmt: skip
    return icechunk.gcs_store()
