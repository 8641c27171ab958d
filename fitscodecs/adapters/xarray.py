# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""xarray: datasets of references and stores of FITS images, in blocks of whole tiles."""

import math
import operator
import os
import uuid
import warnings
from collections.abc import Mapping

import dask
import fsspec
import numpy as np
import xarray as xr
import zarr
from dask.array import PerformanceWarning
from dask.utils import parse_bytes
from fsspec.core import split_protocol
from fsspec.implementations.reference import ReferenceFileSystem
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore

from ..chunk import drive, index_steps
from ..grid import block_shape, times_decoded
from ..tiled import HduFormat

__all__ = ["open_dataset"]


def open_dataset(
    target, chunks="auto", *, group=None, storage_options=None, checked=False, **settings
):
    """A dataset of FITS images, from references or any store of zarr.

    It is opened by ``xarray.open_zarr``, with the format and the protocol that the references
    have, and without consolidated metadata. Variables that share a dimension have the same blocks
    along it.

    Parameters
    ----------
    target : str, path-like, mapping, Store, or repository or session of icechunk
        References as a JSON file, a folder of Parquet files, or a mapping; or what ``open_zarr``
        takes: a folder, a URL, a store such as a ``ManifestStore``. Of a repository it is the
        branch ``main``.
    chunks : str, int, dict or None
        ``"auto"``: blocks of whole tiles, as many as fit into dask's ``array.chunk-size``; so does
        a size such as ``"64MiB"``. Blocks stay within one HDU unless whole ones fit. ``"tiles"``:
        single tiles. A number is a length along every dimension, -1 all of it. A dictionary has
        a length or a tuple of lengths, -1 or None for all, ``"auto"`` or ``"tiles"`` for each
        dimension, ``"auto"`` where it has none. Blocks that cut tiles are warned of. None: no
        dask; selections are read when they are made.
    group : str, optional
        Path of a group in the store.
    storage_options : dict, optional
        For fsspec, to read the files that references name, or the store at a URL.
    checked : bool
        Whether references are only followed while files are what they were, see
        `fitscodecs.adapters.fsspec.CheckedReferences`.
    **settings
        For ``xarray.open_zarr``.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    ValueError
        If references are to files of several protocols, a file holds no references, or there are
        groups to choose from.
    """
    target, zarr_format, storage_options = store_of(target, storage_options, checked)
    settings = {"consolidated": False, "zarr_format": zarr_format} | settings
    data = xr.open_zarr(
        target, group=group, chunks=None, storage_options=storage_options, **settings
    )
    if not data.variables:
        refuse_groups(target, group, storage_options)
    if chunks is None:
        return data
    grains = {
        name: Grain.of(variable, lambda name=name: array_of(target, group, name, storage_options))
        for name, variable in data.variables.items()
        if variable.encoding.get("chunks") and name not in data.indexes
    }
    grains = {name: grain for name, grain in grains.items() if not grain.small}
    lengths = blocks_of(chunks, data, grains)
    blocked = {}
    for name, grain in grains.items():
        blocked[name] = in_blocks(name, data.variables[name], lengths, grain)
    return data.assign(blocked)


# ---------------------------------------------------------------------------- stores


def store_of(target, storage_options, checked):
    """What zarr can open, the format if it is known, and options that are left for zarr."""
    if hasattr(target, "readonly_session"):
        target = target.readonly_session("main")
    if hasattr(target, "store") and hasattr(target, "snapshot_id"):
        return target.store, None, storage_options  # which compares files by itself
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    if isinstance(target, Mapping) or (isinstance(target, str) and holds_references(target)):
        return *reference_store(target, storage_options or {}, checked), None
    if checked:
        raise ValueError(
            f"checked=True with {target!r}, wanted references: other stores do not know what "
            "files were"
        )
    return target, None, storage_options


def holds_references(path):
    """Whether a path or URL is that of references, and not of a store."""
    if "://" in path or "::" in path:
        if path.lower().endswith((".fits", ".fit", ".fz", ".fits.gz")):
            raise ValueError(no_references(path))
        return path.rstrip("/").endswith((".json", ".parq", ".parquet"))
    if os.path.isdir(os.path.join(path, "snapshots")):
        raise ValueError(
            f"{path} is a repository of icechunk, wanted what open_repository of "
            "fitscodecs.adapters.icechunk makes of it, with leave to read the files it names"
        )
    is_store = any(os.path.exists(os.path.join(path, n)) for n in ("zarr.json", ".zgroup"))
    has_metadata = os.path.exists(os.path.join(path, ".zmetadata"))
    return os.path.isfile(path) or (has_metadata and not is_store)


def reference_store(target, storage_options, checked):
    """A store over references, and its format."""
    try:
        known = ReferenceFileSystem(target, fs={}).references
        lazy = hasattr(known, "zmetadata")
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(target, Mapping):
            raise
        raise ValueError(no_references(target)) from error
    if lazy:
        documents, urls = known.zmetadata, parquet_urls(known)
    else:
        documents = known
        urls = (value[0] for value in known.values() if isinstance(value, list))
    protocols = {split_protocol(url)[0] or "file" for url in urls} or {"file"}
    if len(protocols) > 1:
        found = ", ".join(sorted(protocols))
        raise ValueError(f"found references to files of {found}, wanted one protocol")
    (protocol,) = protocols
    options = dict(storage_options)
    if fsspec.get_filesystem_class(protocol).async_impl:
        options["asynchronous"] = True
    files = fsspec.filesystem(
        "fitsref" if checked else "reference", fo=target, remote_protocol=protocol,
        remote_options=options, asynchronous=True,
    )  # fmt: skip
    zarr_format = 3 if "zarr.json" in documents else 2
    return ReferenceStore(files, documents, zarr_format), zarr_format


def no_references(target):
    return (
        f"{target}: found no references, wanted some such as `fitscodecs references` makes; "
        "a FITS file by itself is an array with fitscodecs.open(...).to_dask()"
    )


class ReferenceStore(FsspecStore):
    """References as a store that knows its arrays and groups by their documents.

    Listing by fsspec would find no groups of groups in some versions of zarr, nothing in Parquet
    references at a URL, and in others the documents of both formats.
    """

    def __init__(self, files, documents, zarr_format):
        super().__init__(files, read_only=True, path="")
        self.inside = {}
        for key in documents:
            node, _, name = key.rpartition("/")
            if name in DOCUMENTS[zarr_format] and node:
                folder, _, name = node.rpartition("/")
                self.inside.setdefault(folder, {})[name] = None

    async def list_dir(self, prefix):
        """The names of arrays and groups in a group."""
        for name in self.inside.get(prefix.strip("/"), ()):
            yield name


DOCUMENTS = {2: (".zarray", ".zgroup"), 3: ("zarr.json",)}


def parquet_urls(mapper):
    """The first URL of each array of Parquet references."""
    for key in mapper.zmetadata:
        name, _, document = key.rpartition("/")
        if document != ".zarray":
            continue
        try:
            paths = mapper.open_refs(name, 0).get("path", ())
        except FileNotFoundError:
            continue
        # Of chunks that are in the references themselves the path is empty, or none.
        yield from next(([path] for path in paths if isinstance(path, str) and path), [])


def refuse_groups(target, group, storage_options):
    """Raise ValueError for a group that holds no arrays but groups."""
    if groups := list(opened_group(target, group, storage_options).group_keys()):
        raise ValueError(f"found the groups {', '.join(groups)} and no arrays, wanted one of them: "
                         "say group=")  # fmt: skip


def array_of(target, group, name, storage_options):
    """The array of zarr that a variable is."""
    return opened_group(target, group, storage_options)[name]


def opened_group(target, group, storage_options):
    options = {} if storage_options is None else {"storage_options": storage_options}
    return zarr.open_group(target, mode="r", path=group or "", **options)


# ---------------------------------------------------------------------------- blocks


class Grain:
    """The smallest piece of a variable that is read by itself, and the piece that is one HDU.

    Attributes
    ----------
    tile, stored : tuple of int
        Their shapes.
    small : bool
        Whether the variable is not worth blocks: one chunk that is no HDU, such as a coordinate.
    """

    def __init__(self, variable, tile, stored, small=False):
        self.dims, self.shape = variable.dims, variable.shape
        self.itemsize = variable.dtype.itemsize
        self.tile, self.stored, self.small = tile, stored, small

    @classmethod
    def of(cls, variable, array):
        """That of a variable; ``array()`` is its array of zarr."""
        stored = tuple(variable.encoding["chunks"])
        serializer = variable.encoding.get("serializer")
        if not isinstance(getattr(serializer, "format", None), HduFormat):
            whole_hdu = "fitscodecs_tile_shape" in variable.attrs  # in the format 2
            single = all(c >= n for c, n in zip(stored, variable.shape, strict=True))
            return cls(variable, stored, stored, single and not whole_hdu)
        tile = (
            variable.attrs.get("fitscodecs_tile_shape")
            or serializer.format.tile_shape
            or tile_shape_of(array())
            or stored
        )
        return cls(variable, (1,) * (variable.ndim - len(tile)) + tuple(tile), stored)


def tile_shape_of(array):
    """The shape of the tiles in the first chunk of an array, None if it is not there."""
    key = array.metadata.encode_chunk_key((0,) * array.ndim)
    path = f"{array.path}/{key}".lstrip("/")

    def fetch(ranges):
        parts = [
            sync(array.store.get(path, default_buffer_prototype(), RangeByteRequest(*r)))
            for r in ranges
        ]
        if None in parts:
            raise KeyError(path)
        return [part.to_bytes() for part in parts]

    try:
        return drive(index_steps(), fetch).structure.tile_shape
    except KeyError:
        return None


def blocks_of(chunks, data, grains):
    """Lengths of blocks by dimension."""
    limit = parse_bytes(dask.config.get("array.chunk-size"))
    if isinstance(chunks, str) and chunks not in ("auto", "tiles"):
        limit, chunks = parse_bytes(chunks), "auto"
    if isinstance(chunks, str) or hasattr(chunks, "__index__"):
        chunks = dict.fromkeys(data.sizes, chunks)
    elif not isinstance(chunks, Mapping):
        raise TypeError(f"chunks {chunks!r}, wanted 'auto', 'tiles', a size, a number or a dict")
    elif unknown := set(chunks) - set(data.sizes):
        raise ValueError(f"found chunks for {', '.join(map(str, unknown))}, "
                         f"wanted some of {', '.join(map(str, data.sizes))}")  # fmt: skip
    common = {
        piece: {dim: common_length(dim, piece, grains.values(), data) for dim in data.sizes}
        for piece in ("tile", "stored")
    }
    lengths = {}
    for dim, length in chunks.items():
        if length == "tiles":
            lengths[dim] = common["tile"][dim]
        elif length != "auto":
            lengths[dim] = checked_length(dim, length, data.sizes[dim])
    npixels = limit // max([1, *(grain.itemsize for grain in grains.values())])
    for grain in sorted(grains.values(), key=lambda g: math.prod(g.shape), reverse=True):
        free = [dim for dim in grain.dims if dim not in lengths]
        fixed = math.prod(np.max(lengths[dim]) for dim in grain.dims if dim in lengths)
        tile, stored = ([common[piece][dim] for dim in free] for piece in ("tile", "stored"))
        block = block_shape(stored, tile, npixels // max(1, int(fixed)))
        if list(block) == stored:
            sizes = [data.sizes[dim] for dim in free]
            block = block_shape(sizes, stored, npixels // max(1, int(fixed)))
        lengths |= zip(free, block, strict=True)
    return lengths


def checked_length(dim, length, size):
    """A length of blocks, or a tuple of lengths, that fits a dimension."""
    if length is None or (isinstance(length, int) and length == -1):
        return size
    many = isinstance(length, (tuple, list))
    lengths = list(length) if many else [length]
    wanted = "a number from 1, -1, None, 'auto', 'tiles', or lengths that make up the dimension"
    if not all(hasattr(n, "__index__") and not isinstance(n, bool) and n > 0 for n in lengths):
        raise ValueError(f"chunks {length!r} for {dim}, wanted {wanted}")
    if many and sum(lengths) != size:
        raise ValueError(f"chunks {length!r} for {dim} of length {size}, wanted {wanted}")
    return tuple(lengths) if many else operator.index(length)


def common_length(dim, piece, grains, data):
    """The length of pieces along a dimension that no variable's pieces are cut by."""
    lengths = [getattr(g, piece)[g.dims.index(dim)] for g in grains if dim in g.dims]
    return min(math.lcm(*lengths), max(1, data.sizes[dim])) if lengths else data.sizes[dim]


def in_blocks(name, variable, lengths, grain):
    """A variable as an array of dask."""
    own = {dim: lengths[dim] for dim in variable.dims}
    # Stores have no time of change, so no two arrays are known to be the same.
    settings = {"name": f"fits-{name}-{uuid.uuid4().hex}"}
    result = variable.chunk(own, from_array_kwargs=settings)
    ntiles, times = times_decoded(result.chunks, grain.tile)
    if times > ntiles:
        warnings.warn(
            f"{name}: blocks of {result.data.chunksize} cut tiles of {grain.tile}: {ntiles} tiles "
            f"are decoded {times} times in all; wanted multiples of the tiles, as chunks='auto' "
            "makes them",
            PerformanceWarning,
            stacklevel=3,
        )
    return result
