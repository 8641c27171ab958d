# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Virtual arrays: chunks that are whole HDUs of files, and the zarr metadata that describe them.

A chunk is the bytes of one image HDU, header and data, so that everything that differs from file to
file stays in the file. Nothing here knows of files or of zarr: places and dictionaries only.
"""

import base64
import json
import math
from dataclasses import dataclass, field, replace

import numpy as np

from .errors import FitsCodecsError

__all__ = [
    "CODEC_ID",
    "CODEC_NAME",
    "Place",
    "VirtualArray",
    "VirtualGroup",
    "metadata_v2",
    "metadata_v3",
    "store_items",
]

CODEC_NAME = "fitscodecs.tiled"  # zarr v3
CODEC_ID = "fits_tiled"  # numcodecs
BLOCK = 2880

# More is not read ahead: of the table of a large image, a cutout needs a part.
LARGEST_INDEX_NBYTES = 2**18


@dataclass(frozen=True)
class Place:
    """Where the bytes of a chunk are."""

    url: str
    start: int
    nbytes: int
    index_nbytes: int = 0  # header and table, or header of a plain image
    data: bytes | None = None  # the bytes themselves, where they are kept in the references


@dataclass(frozen=True)
class VirtualArray:
    """An array whose chunks are HDUs; shapes in C order.

    Attributes
    ----------
    shape, chunks : tuple of int
        Of the array, and of the image in each HDU behind axes of length 1.
    dtype : numpy.dtype
        Native type of the decoded pixels.
    dims : tuple of str
        A name for each axis.
    fill_value : int or float
        What a chunk without a place holds.
    undefined : bool
        Whether pixels equal to `fill_value` are undefined; those of floats are NaN anyway.
    scaled : bool
        Whether the codec is to apply BSCALE, BZERO and BLANK.
    tile_shape : tuple of int or None
        Of the tiles; None if it differs between HDUs.
    places : dict
        `Place` by chunk coordinates.
    """

    shape: tuple
    chunks: tuple
    dtype: np.dtype
    dims: tuple
    fill_value: int | float = 0
    undefined: bool = False
    scaled: bool = True
    tile_shape: tuple | None = None
    attributes: dict = field(default_factory=dict)
    places: dict = field(default_factory=dict)

    @property
    def index_nbytes(self):
        """How much of a chunk to read at first; never more than the smallest has."""
        if not self.places:
            return BLOCK
        wanted = max(place.index_nbytes for place in self.places.values())
        smallest = min(place.nbytes for place in self.places.values())
        return min(-(-wanted // BLOCK) * BLOCK, LARGEST_INDEX_NBYTES, smallest)

    @property
    def all_attributes(self):
        """Attributes, with the shape of the tiles, which helps to choose chunks."""
        if self.tile_shape is None:
            return dict(self.attributes)
        return self.attributes | {"fitscodecs_tile_shape": list(self.tile_shape)}

    def configuration(self, hints=True):
        """Configuration of the codec.

        Parameters
        ----------
        hints : bool
            Whether to tell what saves readers a request and may differ from file to file.
        """
        settings = {"layout": "hdu", "scaled": self.scaled}
        if hints:
            settings["index_nbytes"] = self.index_nbytes
            if self.tile_shape is not None:
                settings["tile_shape"] = list(self.tile_shape)
        return settings


@dataclass(frozen=True)
class VirtualGroup:
    """Arrays and groups by name.

    Attributes
    ----------
    targets : dict
        Facts of the files that hold the chunks, by URL: size, and ETag or time of change.
    literals : dict
        Small numpy arrays that are stored in the group itself, by name: (array, dims).
    """

    attributes: dict = field(default_factory=dict)
    arrays: dict = field(default_factory=dict)
    groups: dict = field(default_factory=dict)
    targets: dict = field(default_factory=dict)
    literals: dict = field(default_factory=dict)

    @property
    def all_attributes(self):
        """Attributes, with what is known of the targets among them."""
        if not self.targets:
            return self.attributes
        return self.attributes | {"fitscodecs_targets": self.targets}


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
    encoding = {"name": "default", "configuration": {"separator": "/"}}
    if separator is not None:
        encoding = {"name": "v2", "configuration": {"separator": separator}}
    attributes = array.all_attributes
    if array.undefined:
        attributes["_FillValue"] = array.fill_value
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": encoding,
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
    fill = array.fill_value if array.undefined or array.dtype.kind == "f" else None
    return {
        "zarr_format": 2,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "dtype": array.dtype.newbyteorder("<").str,
        "compressor": {"id": CODEC_ID, **array.configuration()},
        "filters": None,
        "fill_value": json_fill(fill),
        "order": "C",
        "dimension_separator": ".",
    }


def json_fill(value):
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def group_v3(group):
    """The zarr.json of a group, as a dictionary."""
    return {"zarr_format": 3, "node_type": "group", "attributes": group.all_attributes}


def literal_v3(array, dims):
    """The zarr.json of a numpy array of numbers or strings, as a dictionary."""
    text = array.dtype.kind == "U"
    codec = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": "string" if text else array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
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


def store_items(group, zarr_format=3, prefix=""):
    """Keys and values of a store that holds a group, as references of fsspec.

    Parameters
    ----------
    group : VirtualGroup
    zarr_format : int
        3 or 2.
    prefix : str
        Path of the group with a slash at its end, or empty.

    Yields
    ------
    key : str
    value : str or list
        A JSON document, text of base64, or ``[url, start, nbytes]``.
    """
    if zarr_format not in (2, 3):
        raise ValueError(f"zarr_format is {zarr_format!r}, wanted 2 or 3")
    if zarr_format == 3:
        yield f"{prefix}zarr.json", dumps(group_v3(group))
    else:
        yield f"{prefix}.zgroup", dumps({"zarr_format": 2})
        yield f"{prefix}.zattrs", dumps(group.all_attributes)
    for name, array in group.arrays.items():
        yield from array_items(array, zarr_format, f"{prefix}{name}/")
    for name, (array, dims) in group.literals.items():
        yield from literal_items(array, dims, zarr_format, f"{prefix}{name}/")
    for name, inner in group.groups.items():
        yield from store_items(inner, zarr_format, f"{prefix}{name}/")


def array_items(array, zarr_format, prefix):
    yield from metadata_items(array, zarr_format, prefix)
    for coordinates, place in array.places.items():
        yield chunk_key(prefix, coordinates, zarr_format), reference(place)


def reference(place):
    """A place, or the bytes of it, as fsspec has them in references."""
    if place.data is not None:
        return "base64:" + base64.b64encode(place.data).decode()
    return [place.url, place.start, place.nbytes]


def metadata_items(array, zarr_format, prefix):
    """Keys and values that describe an array."""
    if zarr_format == 3:
        yield f"{prefix}zarr.json", dumps(metadata_v3(array))
    else:
        yield f"{prefix}.zarray", dumps(metadata_v2(array))
        yield f"{prefix}.zattrs", dumps(attributes_v2(array.all_attributes, array.dims))


def attributes_v2(attributes, dims):
    """Attributes with the names of the axes where readers of zarr v2 look for them."""
    return {**attributes, "_ARRAY_DIMENSIONS": list(dims)}


def literal_items(array, dims, zarr_format, prefix):
    if zarr_format == 3:
        yield f"{prefix}zarr.json", dumps(literal_v3(array, dims))
    else:
        yield f"{prefix}.zarray", dumps(literal_v2(array))
        yield f"{prefix}.zattrs", dumps(attributes_v2({}, dims))
    value = "base64:" + base64.b64encode(literal_bytes(array)).decode()
    yield chunk_key(prefix, (0,) * array.ndim, zarr_format), value


def chunk_key(prefix, coordinates, zarr_format):
    """The key of a chunk."""
    if zarr_format == 3:
        return prefix + "/".join(["c", *map(str, coordinates)])
    return prefix + ".".join(map(str, coordinates))


def dumps(document):
    """JSON that every reader takes: no NaN and no infinity."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


# ---------------------------------------------------------------------------- many files


def stack(groups, dim):
    """Groups of equal arrays as one, along a new first axis.

    Parameters
    ----------
    groups : list of VirtualGroup
    dim : str
        Name of the axis.

    Raises
    ------
    FitsCodecsError
        If groups differ in more than attributes; see `difference`.
    """
    return combine(groups, dim, stack_arrays)


def concatenate(groups, dim):
    """Groups of equal arrays as one, along an axis that they have; see `stack`."""
    return combine(groups, dim, concatenate_arrays)


def combine(groups, dim, how):
    if not groups:
        raise FitsCodecsError("nothing to combine")
    for group in groups[1:]:
        if reason := difference(groups[0], group):
            raise FitsCodecsError(reason)
    targets = {url: facts for group in groups for url, facts in group.targets.items()}
    return VirtualGroup(
        attributes=common([group.attributes for group in groups]),
        arrays={
            name: how([group.arrays[name] for group in groups], dim) for name in groups[0].arrays
        },
        targets=targets,
    )


def difference(first, other):
    """Why two groups cannot be combined, or an empty string."""
    if list(first.arrays) != list(other.arrays):
        return f"images {', '.join(other.arrays)}, wanted {', '.join(first.arrays)}"
    for name, array in other.arrays.items():
        wanted = first.arrays[name]
        for what in ("shape", "dtype", "scaled", "undefined", "dims"):
            found, want = getattr(array, what), getattr(wanted, what)
            if found != want:
                return f"{name}: {what} {found}, wanted {want}"
        if array.undefined and array.fill_value != wanted.fill_value:
            return f"{name}: undefined pixels are {array.fill_value}, wanted {wanted.fill_value}"
    return ""


def stack_arrays(arrays, dim):
    first = arrays[0]
    if dim in first.dims:
        raise FitsCodecsError(f"new axis {dim!r} is one of {first.dims}")
    return replace(
        merged(arrays),
        shape=(len(arrays), *first.shape),
        chunks=(1, *first.chunks),
        dims=(dim, *first.dims),
        places={
            (i, *coordinates): place
            for i, array in enumerate(arrays)
            for coordinates, place in array.places.items()
        },
    )


def concatenate_arrays(arrays, dim):
    first = arrays[0]
    if dim not in first.dims:
        raise FitsCodecsError(f"axis {dim!r} is none of {first.dims}")
    axis = first.dims.index(dim)
    if first.shape[axis] % first.chunks[axis]:
        raise FitsCodecsError(
            f"axis {dim!r} of length {first.shape[axis]}, wanted whole chunks of "
            f"{first.chunks[axis]}"
        )
    step = first.shape[axis] // first.chunks[axis]
    shape, places = list(first.shape), {}
    shape[axis] *= len(arrays)
    for i, array in enumerate(arrays):
        for at, place in array.places.items():
            places[(*at[:axis], at[axis] + i * step, *at[axis + 1 :])] = place
    return replace(merged(arrays), shape=tuple(shape), places=places)


def merged(arrays):
    """The first of equal arrays, with what all have in common."""
    same_tiles = len({array.tile_shape for array in arrays}) == 1
    return replace(
        arrays[0],
        tile_shape=arrays[0].tile_shape if same_tiles else None,
        attributes=common([array.attributes for array in arrays]),
    )


def common(dictionaries):
    """The entries that are the same in all dictionaries."""
    first, *others = dictionaries
    return {
        key: value
        for key, value in first.items()
        if all(key in other and same(value, other[key]) for other in others)
    }


def same(a, b):
    return type(a) is type(b) and a == b
