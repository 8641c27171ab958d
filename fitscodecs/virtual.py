# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Virtual arrays: chunks that are whole HDUs of files.

A chunk is the bytes of one image HDU, header and data, so that everything that differs from file to
file stays in the file. Nothing here knows of files or of zarr: places and facts only.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from .errors import FitsCodecsError
from .header import BLOCK

__all__ = [
    "LARGEST_EXACT",
    "Place",
    "VirtualArray",
    "VirtualGroup",
    "common",
    "concatenate",
    "difference",
    "stack",
]

# More is not read ahead: of the table of a large image, a cutout needs a part.
LARGEST_INDEX_NBYTES = 2**18
LARGEST_EXACT = 2**53  # of the integers that float64 holds without a gap


@dataclass(frozen=True)
class Place:
    """Where the bytes of a chunk are."""

    url: str
    start: int
    nbytes: int
    index_nbytes: int | None = None  # of header and table, or header of a plain image, if known
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
    linear : tuple of float or None
        BSCALE and BZERO, where applying them is left to readers.
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
    linear: tuple | None = None
    tile_shape: tuple | None = None
    attributes: dict = field(default_factory=dict)
    places: dict = field(default_factory=dict)

    @property
    def index_nbytes(self):
        """How much of a chunk to read at first, if known; never more than the smallest has."""
        wanted = {place.index_nbytes for place in self.places.values()}
        if not wanted or None in wanted:
            return None
        smallest = min(place.nbytes for place in self.places.values())
        return min(-(-max(wanted) // BLOCK) * BLOCK, LARGEST_INDEX_NBYTES, smallest)

    @property
    def masked(self):
        """Whether readers can be told which pixels are undefined.

        They compare in float64, where an integer beyond 2**53 equals its neighbours.
        """
        return self.undefined and abs(self.fill_value) <= LARGEST_EXACT

    @property
    def all_attributes(self):
        """Attributes, with the scaling, and the shape of tiles, which helps to choose chunks."""
        attributes = dict(self.attributes)
        if self.linear is not None:
            attributes["scale_factor"], attributes["add_offset"] = self.linear
        if self.tile_shape is not None:
            attributes["fitscodecs_tile_shape"] = list(self.tile_shape)
        if self.undefined and not self.masked:
            attributes["fitscodecs_undefined"] = self.fill_value
        return attributes

    def configuration(self, hints=True):
        """Configuration of the codec.

        Parameters
        ----------
        hints : bool
            Whether to tell what saves readers a request and may differ from file to file.
        """
        settings = {"layout": "hdu", "scaled": self.scaled}
        if hints and self.index_nbytes is not None:
            settings["index_nbytes"] = self.index_nbytes
        if hints and self.tile_shape is not None:
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
            raise FitsCodecsError(": ".join([*list(group.targets)[:1], reason]))
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
        if array.linear != wanted.linear:
            found, want = (
                "BSCALE {} and BZERO {}".format(*(a.linear or (1, 0))) for a in (array, wanted)
            )
            return f"{name}: {found}, wanted {want}: differing ones need scaled=True"
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
