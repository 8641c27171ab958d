# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""kerchunk: references to the images of FITS files, in its JSON and in its Parquet form.

A reference is one whole HDU, so there is one for each image, and the codec ``fitscodecs.tiled`` (in
zarr v2 ``fits_tiled``) does the rest. Nothing of kerchunk is needed to make or read JSON; writing
Parquet needs it.
"""

import json
import os
from dataclasses import replace

from ..atomic import replacing, replacing_folder
from ..references import CONCURRENCY, describe_file, each
from ..virtual import concatenate, stack
from ..zarr_metadata import chunk_places, documents, reference, store_items

__all__ = ["process_file", "process_files", "write_json", "write_parquet"]

# To the mapper every key that is not of zarr v2 is a chunk of some array, and to find the
# protocol of its targets it may look into any. It finds nothing in this one.
NOTHING = {"shape": [0], "chunks": [1]}
NOWHERE = ["", 0, 0]  # a reference in which it finds none either

LARGEST_RECORD = 100_000  # references in one Parquet file; smaller sets get one as long as they are


def process_file(
    url,
    storage_options=None,
    extension=None,
    inline_threshold=100,
    primary_attr_to_group=False,
    out=None,
    *,
    zarr_format=3,
    scaled=True,
):
    """References to the images of a FITS file, compressed or not.

    The arguments are those of ``kerchunk.fits.process_file``, and more.

    Parameters
    ----------
    url : str or path-like
        References to a local file say its absolute path.
    storage_options : dict, optional
        For fsspec.
    extension : None, int, str, (str, int) or list of these
        None: the first image with pixels. A position, 0 being the primary HDU; an EXTNAME; or an
        EXTNAME and EXTVER. ``"*"``: all images.
    inline_threshold : int
        HDUs of at most so many bytes are put into the references themselves.
    primary_attr_to_group : bool
        Whether the cards of the primary HDU become attributes of the group.
    out : mutable mapping, optional
        Where to put the references; a ``LazyReferenceMapper`` of fsspec for Parquet, which then has
        both formats of zarr if `zarr_format` is 3.
    zarr_format : int
        3: parts of an image are read by few small requests. 2: for readers of the older format,
        which read whole HDUs.
    scaled : bool
        Whether pixels are scaled by BSCALE, BZERO and BLANK, as `fitscodecs.open` does it. Else
        they are as stored, and the scaling is in CF attributes.

    Returns
    -------
    dict or `out`
        References by key.

    Raises
    ------
    HeaderError
        If this is no FITS file, the HDU is not there or no image, or it cannot be read.
    """
    contents = describe_file(
        url, extension, storage_options=storage_options, scaled=scaled,
        primary_attr_to_group=primary_attr_to_group, inline_threshold=inline_threshold,
    )  # fmt: skip
    return put(contents.group, {} if out is None else out, zarr_format)


def process_files(
    urls,
    *,
    new_axis=None,
    axis=None,
    extension=None,
    storage_options=None,
    concurrency=CONCURRENCY,
    out=None,
    zarr_format=3,
    scaled=True,
    primary_attr_to_group=False,
):
    """References to many files as one cube, the files in their order along an axis.

    Attributes are those that all files have in common.

    Parameters
    ----------
    urls : list of str or path-like
    new_axis, axis : str
        One of the two: the name of a further, first axis, or of one that the images have.
    extension, storage_options, out, zarr_format, scaled, primary_attr_to_group
        See `process_file`.
    concurrency : int
        Number of files that are asked at the same time.

    Returns
    -------
    dict or `out`

    Raises
    ------
    FitsCodecsError
        If a file cannot be read, or differs from the first in shape or type; it says which.
    """
    if (new_axis is None) == (axis is None):
        raise TypeError("wanted either new_axis or axis")
    if isinstance(urls, (str, os.PathLike)):
        raise TypeError(f"found {os.fspath(urls)!r}, wanted a list of paths or URLs")

    def describe(url):
        return describe_file(url, extension, storage_options=storage_options, scaled=scaled,
                             primary_attr_to_group=primary_attr_to_group).group  # fmt: skip

    groups = []
    for url, group in each(describe, urls, concurrency):
        if isinstance(group, OSError):
            raise group
        if isinstance(group, Exception):
            text = str(group)
            raise type(group)(text if str(url) in text else f"{url}: {text}") from group
        groups.append(group)
    combined = stack(groups, new_axis) if axis is None else concatenate(groups, axis)
    return put(combined, {} if out is None else out, zarr_format)


def put(group, out, zarr_format):
    """Fill a mapping with references."""
    if hasattr(out, "zmetadata"):
        put_parquet(group, out, zarr_format)
        out.flush()
    else:
        for key, value in store_items(group, zarr_format):
            out[key] = value
    return out


def put_parquet(group, mapper, zarr_format):
    """Fill the mapper of fsspec, which knows keys of zarr v2 alone.

    Documents of zarr v3 go beside those of v2, under their own keys and with chunk keys of the form
    that the mapper can compute with; so both formats read the same references.
    """
    if group.groups:
        raise ValueError("Parquet references hold no groups in a group, wanted arrays alone")
    for key, document in documents(group, 2):
        mapper[key] = json.dumps(document)
    if zarr_format == 3:
        # What is known of the targets is long, and once is enough.
        for key, document in documents(replace(group, targets={}), 3, separator="."):
            mapper.zmetadata[key] = document
        mapper.zmetadata["zarr.json/.zarray"] = NOTHING
    elif zarr_format != 2:
        raise ValueError(f"zarr_format is {zarr_format!r}, wanted 2 or 3")
    for key, place in chunk_places(group, "."):
        value = reference(place)
        mapper[key] = value if isinstance(value, list) else place.data
    for name, (array, _) in group.literals.items():
        # A record has as many rows as chunks are in the largest array. To find the protocol of its
        # targets fsspec looks into any row, and fails at one that was never set.
        for i in range(1, mapper.record_size if array.ndim else 1):
            mapper[f"{name}/{'0.' * (array.ndim - 1)}{i}"] = NOWHERE


def write_json(group, path, *, zarr_format=3, overwrite=False):
    """Write the references of a group as JSON; the file appears whole or not at all.

    Parameters
    ----------
    group : VirtualGroup
    path : path-like
        Local.
    zarr_format : int
    overwrite : bool
        Whether a file that is there may be replaced.
    """
    refs = dict(store_items(group, zarr_format))
    text = json.dumps({"version": 1, "refs": refs}, allow_nan=False, separators=(",", ":"))
    with replacing(path, overwrite) as file:
        file.write(text.encode())


def write_parquet(group, path, *, zarr_format=3, overwrite=False):
    """Write the references of a group as a folder of Parquet files; see `write_json`.

    With the `zarr_format` 3 it can be opened in both formats. Only the older one shows the
    attribute ``fitscodecs_targets``.
    """
    from fsspec.implementations.local import LocalFileSystem
    from fsspec.implementations.reference import LazyReferenceMapper

    with replacing_folder(path, overwrite, ".zmetadata", "folder of references") as new:
        nchunks = max([1, *(len(array.places) for array in group.arrays.values())])
        mapper = LazyReferenceMapper.create(
            new, fs=LocalFileSystem(), engine=parquet_engine(),
            record_size=min(nchunks, LARGEST_RECORD),
        )  # fmt: skip
        put(group, mapper, zarr_format)


def parquet_engine():
    """The library that writes Parquet; any can read what another has written."""
    from importlib.util import find_spec

    for needed in ("kerchunk", "pandas"):
        if find_spec(needed) is None:
            raise ImportError(
                f"writing Parquet needs {needed}: pip install 'fitscodecs[kerchunk]'", name=needed
            )
    engines = [name for name in ("fastparquet", "pyarrow") if find_spec(name)]
    if not engines:
        raise ImportError(
            "writing Parquet needs fastparquet or pyarrow: pip install 'fitscodecs[kerchunk]'",
            name="pyarrow",
        )
    return engines[0]
