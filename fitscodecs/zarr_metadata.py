# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What a zarr store of virtual arrays says: metadata of both formats, and keys of chunks."""

import base64
import json
import math

from .tiled import TiledHDU
from .virtual import Place

__all__ = [
    "CODEC_ID",
    "CODEC_NAME",
    "chunk_places",
    "documents",
    "literal_bytes",
    "metadata_v2",
    "metadata_v3",
    "store_items",
]

CODEC_NAME = "fitscodecs.tiled"  # zarr v3
CODEC_ID = TiledHDU.codec_id  # numcodecs


# ---------------------------------------------------------------------------- metadata


def metadata_v3(array, hints=True, separator=None):
    """The zarr.json of an array, as a dictionary.

    Parameters
    ----------
    array : VirtualArray
    hints : bool
        See `VirtualArray.configuration`.
    separator : str, optional
        Between chunk coordinates, in keys of the form of zarr v2; by default keys have the form of
        zarr v3.
    """
    attributes = array.all_attributes
    if array.masked:
        attributes["_FillValue"] = array.fill_value
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": key_encoding(separator),
        "codecs": [{"name": CODEC_NAME, "configuration": array.configuration(hints)}],
        "fill_value": json_fill(array.fill_value),
        "dimension_names": list(array.dims),
        "attributes": attributes,
        "storage_transformers": [],
    }


def metadata_v2(array):
    """The .zarray of an array, as a dictionary.

    Readers take the fill value of this format for undefined pixels: integers have none, unless
    BLANK gives one.
    """
    fill = array.fill_value if array.masked or array.dtype.kind == "f" else None
    return {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": array.dtype.newbyteorder("<").str,
        # Not the compressor, which VirtualiZarr before version 2.6 takes for a list.
        "compressor": None,
        "filters": [{"id": CODEC_ID, **array.configuration()}],
        "fill_value": json_fill(fill),
        "order": "C",
        "dimension_separator": ".",
    }


def json_fill(value):
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def group_v3(group):
    """The zarr.json of a group, as a dictionary."""
    return {"zarr_format": 3, "node_type": "group", "attributes": group.all_attributes}


def literal_v3(array, dims, separator=None):
    """The zarr.json of a numpy array of numbers or strings, as a dictionary."""
    text = array.dtype.kind == "U"
    codec = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": "string" if text else array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.shape)}},
        "chunk_key_encoding": key_encoding(separator),
        "codecs": [{"name": "vlen-utf8"} if text else codec],
        "fill_value": "" if text else json_fill(array.dtype.type(0).item()),
        "dimension_names": list(dims),
        "attributes": {},
        "storage_transformers": [],
    }


def literal_v2(array):
    """The .zarray of a numpy array of numbers or strings, as a dictionary."""
    text = array.dtype.kind == "U"
    return {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.shape),
        "dtype": "|O" if text else array.dtype.newbyteorder("<").str,
        "compressor": None,
        "filters": [{"id": "vlen-utf8"}] if text else None,
        "fill_value": "" if text else None,
        "order": "C",
        "dimension_separator": ".",
    }


def literal_bytes(array):
    """The one chunk of a numpy array: little-endian numbers, or strings with their lengths."""
    if array.dtype.kind != "U":
        return array.astype(array.dtype.newbyteorder("<")).tobytes()
    items = [str(item).encode() for item in array.ravel()]
    length = len(items).to_bytes(4, "little")
    return length + b"".join(len(item).to_bytes(4, "little") + item for item in items)


# ---------------------------------------------------------------------------- keys


def store_items(group, zarr_format=3):
    """Keys and values of a store that holds a group, as references of fsspec.

    Parameters
    ----------
    group : VirtualGroup
    zarr_format : int
        3 or 2.

    Yields
    ------
    key : str
    value : str or list
        A JSON document, text of base64, or ``[url, start, nbytes]``.
    """
    for key, document in documents(group, zarr_format):
        yield key, dumps(document)
    for key, place in chunk_places(group, ".") if zarr_format == 2 else chunk_places(group):
        yield key, reference(place)


def reference(place):
    """A place, or the bytes of it, as fsspec has them in references."""
    if place.data is not None:
        return "base64:" + base64.b64encode(place.data).decode()
    return [place.url, place.start, place.nbytes]


def documents(group, zarr_format=3, separator=None, prefix=""):
    """The metadata of a group and all that is in it, as dictionaries by key.

    Parameters
    ----------
    group : VirtualGroup
    zarr_format : int
        3 or 2.
    separator : str, optional
        See `metadata_v3`.
    prefix : str
        Path of the group with a slash at its end, or empty.
    """
    if zarr_format not in (2, 3):
        raise ValueError(f"zarr_format is {zarr_format!r}, wanted 2 or 3")
    if zarr_format == 2:
        yield f"{prefix}.zgroup", {"zarr_format": 2}
        yield f"{prefix}.zattrs", group.all_attributes
    else:
        yield f"{prefix}zarr.json", group_v3(group)
    for name, array in group.arrays.items():
        if zarr_format == 2:
            yield f"{prefix}{name}/.zarray", metadata_v2(array)
            yield f"{prefix}{name}/.zattrs", attributes_v2(array.all_attributes, array.dims)
        else:
            yield f"{prefix}{name}/zarr.json", metadata_v3(array, separator=separator)
    for name, (array, dims) in group.literals.items():
        if zarr_format == 2:
            yield f"{prefix}{name}/.zarray", literal_v2(array)
            yield f"{prefix}{name}/.zattrs", attributes_v2({}, dims)
        else:
            yield f"{prefix}{name}/zarr.json", literal_v3(array, dims, separator)
    for name, inner in group.groups.items():
        yield from documents(inner, zarr_format, separator, f"{prefix}{name}/")


def attributes_v2(attributes, dims):
    """Attributes with the names of the axes where readers of zarr v2 look for them."""
    return {**attributes, "_ARRAY_DIMENSIONS": list(dims)}


def chunk_places(group, separator=None, prefix=""):
    """The places of all chunks by key; see `documents`."""
    for name, array in group.arrays.items():
        for coordinates, place in array.places.items():
            yield chunk_key(f"{prefix}{name}/", coordinates, separator), place
    for name, (array, _) in group.literals.items():
        data = literal_bytes(array)
        key = chunk_key(f"{prefix}{name}/", (0,) * array.ndim, separator)
        yield key, Place("", 0, len(data), data=data)
    for name, inner in group.groups.items():
        yield from chunk_places(inner, separator, f"{prefix}{name}/")


def chunk_key(prefix, coordinates, separator):
    """The key of a chunk, in the form of zarr v3 unless there is a separator."""
    if separator is None:
        return prefix + "/".join(["c", *map(str, coordinates)])
    return prefix + separator.join(map(str, coordinates))


def key_encoding(separator):
    """How metadata of zarr v3 tell the form of chunk keys."""
    if separator is None:
        return {"name": "default", "configuration": {"separator": "/"}}
    return {"name": "v2", "configuration": {"separator": separator}}


def dumps(document):
    """JSON that every reader takes: no NaN and no infinity."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))
