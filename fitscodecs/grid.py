# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From a selection of pixels to the tiles that hold them and the places where they land.

The same answer serves images, zarr, dask and writers. Shapes are in C order, slow axis first;
tiles are numbered with the fast axis changing first, which is C order of the grid as well.
"""

import functools
import math
import operator
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Gather",
    "Group",
    "Plan",
    "Selection",
    "block_shape",
    "gather",
    "normalize",
    "plan",
    "times_decoded",
]


@dataclass(frozen=True)
class Plan:
    """Parts of tiles, one entry or row per tile, and where they go in an array.

    The part of tile ``i`` along axis ``k`` is ``start[i, k] + step[i, k] * arange(count[i, k])``;
    its first pixel goes to the pixel ``offset[i]`` of the result, counted in C order.
    """

    out_shape: tuple
    tiles: np.ndarray
    shape: np.ndarray  # of each tile; smaller at the far edges
    start: np.ndarray
    step: np.ndarray
    count: np.ndarray
    offset: np.ndarray

    def __len__(self):
        return len(self.tiles)

    @property
    def npixels(self):
        """Number of pixels of each tile."""
        # Axis by axis: the product of many short rows takes numpy ten times as long.
        return functools.reduce(np.multiply, self.shape.T)

    def part(self, chosen):
        """The plan for some of the tiles, by a slice or an index array."""
        return Plan(
            self.out_shape,
            self.tiles[chosen],
            self.shape[chosen],
            self.start[chosen],
            self.step[chosen],
            self.count[chosen],
            self.offset[chosen],
        )


@dataclass(frozen=True)
class Selection:
    """A numpy index, made explicit.

    ``ranges`` has a range for each axis. Axes in ``dropped`` were indexed by integers. If
    ``points`` is not None it maps axes to index arrays, broadcast against each other, and the
    ranges of those axes mean nothing; their dimensions stand at ``position`` of the result.
    """

    ranges: tuple
    dropped: tuple
    points: dict | None = None
    position: int = 0


# ---------------------------------------------------------------------------- selections


def expand(key, ndim):
    """The index as a list of one entry per axis, with boolean masks turned into integers."""
    entries = []
    for entry in key if isinstance(key, tuple) else (key,):
        if entry is None:
            raise IndexError("newaxis is not supported: index the array that you get instead")
        if isinstance(entry, (bool, np.bool_)):
            raise IndexError("a boolean is not supported as an index")
        if entry is Ellipsis or isinstance(entry, (slice, int, np.integer)):
            entries.append(entry)
            continue
        array = np.asarray(entry)
        if array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.intp)  # what an empty list means
        if array.dtype.kind == "b":
            entries.append(array)
        elif array.dtype.kind in "iu":
            entries.append(array.astype(np.intp) if array.ndim else int(array))
        elif array.ndim == 0 and hasattr(entry, "__index__"):
            entries.append(operator.index(entry))
        else:
            raise IndexError(
                f"cannot index with {entry!r}: wanted integers, slices, Ellipsis, "
                "or arrays of integers or booleans"
            )
    used = sum(
        e.ndim if isinstance(e, np.ndarray) and e.dtype.kind == "b" else 1
        for e in entries
        if e is not Ellipsis
    )
    if sum(e is Ellipsis for e in entries) > 1:
        raise IndexError("more than one Ellipsis in an index")
    if used > ndim:
        raise IndexError(f"{used} indices for an image of {ndim} axes")
    if not any(e is Ellipsis for e in entries):
        entries.append(Ellipsis)
    at = next(i for i, e in enumerate(entries) if e is Ellipsis)
    # An Ellipsis that stands for no axis stays: it still separates index arrays.
    filled = [slice(None)] * (ndim - used) or [Ellipsis]
    return entries[:at] + filled + entries[at + 1 :]


def masks_to_points(entries, shape):
    """Boolean masks as index arrays; a mask of n axes stands for n entries."""
    result = []
    for entry in entries:
        if not (isinstance(entry, np.ndarray) and entry.dtype.kind == "b"):
            result.append(entry)
            continue
        axis = sum(e is not Ellipsis for e in result)
        if entry.shape != tuple(shape[axis : axis + entry.ndim]) or entry.ndim == 0:
            raise IndexError(
                f"mask of shape {entry.shape}, wanted {tuple(shape[axis : axis + entry.ndim])}"
            )
        result.extend(np.nonzero(entry))
    return result


def separated(entries):
    """Whether a slice or an Ellipsis stands between indices that are broadcast together."""
    picked = [i for i, e in enumerate(entries) if not (e is Ellipsis or isinstance(e, slice))]
    return bool(picked) and picked != list(range(picked[0], picked[-1] + 1))


def checked(index, length, axis):
    """Integers, one or many, within an axis, negative ones counted from its end."""
    index = np.asarray(index)
    bad = (index < -length) | (index >= length)
    if bad.any():
        raise IndexError(
            f"index {index[bad].flat[0]} is out of bounds for axis {axis} of length {length}"
        )
    return np.where(index < 0, index + length, index)


def normalize(key, shape):
    """What an index means for an image of this shape, as numpy defines it.

    Parameters
    ----------
    key : index
        Integers, slices, Ellipsis, and arrays of integers or booleans.
    shape : tuple of int
        Shape of the image.

    Returns
    -------
    Selection
    """
    entries = masks_to_points(expand(key, len(shape)), shape)
    together = not separated(entries)
    entries = [entry for entry in entries if entry is not Ellipsis]
    ranges, points, dropped = [], {}, []
    advanced = any(isinstance(entry, np.ndarray) for entry in entries)
    for axis, (entry, length) in enumerate(zip(entries, shape, strict=True)):
        if isinstance(entry, slice):
            ranges.append(range(*entry.indices(length)))
            continue
        index = checked(entry, length, axis)
        if advanced:
            points[axis] = index
            ranges.append(range(0))
        else:
            dropped.append(axis)
            ranges.append(range(int(index), int(index) + 1))
    if not points:
        return Selection(tuple(ranges), tuple(dropped))
    try:
        arrays = np.broadcast_arrays(*points.values())
    except ValueError as error:
        raise IndexError(f"index arrays do not broadcast: {error}") from error
    return Selection(
        tuple(ranges),
        (),
        dict(zip(points, arrays, strict=True)),
        next(iter(points)) if together else 0,
    )


# ---------------------------------------------------------------------------- plans


def axis_parts(wanted, length, tile):
    """For a range along one axis: the parts of the tiles that it touches.

    Returns
    -------
    ndarray of int64
        Six rows: the tile, the position in the result of the first pixel of its part, the length of
        the tile, and start, step and count of the part.
    """
    if len(wanted) == 0:
        return np.zeros((6, 0), np.int64)
    if len(wanted) == 1:
        wanted = range(wanted[0], wanted[0] + 1)  # whose step was any, up to those that overflow
    size = abs(wanted.step)
    low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1])
    first_tile, last_tile = low // tile, high // tile
    parts = np.empty((6, last_tile - first_tile + 1), np.int64)
    tiles, place, lengths, start, step, count = parts
    tiles[:] = np.arange(first_tile, last_tile + 1)
    begin = tiles * tile
    end = np.minimum(begin + tile, length)
    # Positions in the range (counted from its lower end) of the first pixels at or after both ends.
    first = np.maximum((begin + (size - 1 - low)) // size, 0)
    last = np.minimum((end + (size - 1 - low)) // size, len(wanted))
    if wanted.step > 0:
        place[:], start[:] = first, first * size + low - begin
    else:  # the same pixels, read from the far end
        place[:], start[:] = len(wanted) - last, (last - 1) * size + low - begin
    lengths[:], step[:], count[:] = end - begin, wanted.step, last - first
    return parts if size <= tile else parts[:, count > 0]


def plan(shape, tile_shape, ranges):
    """The parts of tiles that hold a block of pixels.

    Parameters
    ----------
    shape, tile_shape : tuple of int
        Of the image and of its tiles.
    ranges : sequence of range
        The pixels wanted along each axis.

    Returns
    -------
    Plan
        In the order of the tiles' numbers.
    """
    ndim = len(shape)
    out_shape = tuple(len(r) for r in ranges)
    parts = [axis_parts(r, n, t) for r, n, t in zip(ranges, shape, tile_shape, strict=True)]
    counts = tuple(part.shape[1] for part in parts)
    ntiles = math.prod(counts)
    # For all combinations of parts: numbers in C order, of the tile in the grid and of a pixel in
    # the result, and what is told for each axis.
    numbers = np.zeros((2, *counts), np.int64)
    told = np.empty((4, *counts, ndim), np.int64)
    strides = np.ones((2, 1), np.int64)
    for k in reversed(range(ndim)):
        along = [-1 if axis == k else 1 for axis in range(ndim)]
        numbers += (parts[k][:2] * strides).reshape(2, *along)
        told[..., k] = parts[k][2:].reshape(4, *along)
        strides *= [[-(-shape[k] // tile_shape[k])], [out_shape[k]]]
    tiles, offset = numbers.reshape(2, ntiles)
    return Plan(out_shape, tiles, *told.reshape(4, ntiles, ndim), offset)


# ---------------------------------------------------------------------------- index arrays


@dataclass(frozen=True)
class Group:
    """The points of an index that lie in one tile, or in one row of tiles.

    ``plan`` decodes a block; with the indexed axes of the block moved to its front, its pixels at
    ``local`` are the ones of the points numbered ``points``.
    """

    plan: Plan
    points: np.ndarray
    local: tuple


@dataclass(frozen=True)
class Gather:
    """What index arrays pick, tile by tile: each tile is decoded once.

    Results are put together with the points as one flat axis in front, see `empty`, and then
    given the shape that numpy defines, see `shaped`.
    """

    selection: Selection
    groups: list

    @property
    def axes(self):
        """The axes that are indexed by arrays."""
        return list(self.selection.points)

    @property
    def tiles(self):
        """All tiles that are touched, each once, ascending."""
        parts = [group.plan.tiles for group in self.groups]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)

    def empty(self, dtype):
        """An array for the points and the axes that are not indexed by arrays."""
        kept = [len(r) for axis, r in enumerate(self.selection.ranges) if axis not in self.axes]
        npoints = self.selection.points[self.axes[0]].size
        return np.empty((npoints, *kept), dtype)

    def put(self, group, block, result):
        """Take the pixels of one group from its decoded block."""
        front = np.moveaxis(block, self.axes, range(len(self.axes)))
        result[group.points] = front[group.local]

    def shaped(self, result):
        """The result with the points in their own shape, where numpy puts them."""
        shape = self.selection.points[self.axes[0]].shape
        result = result.reshape(*shape, *result.shape[1:])
        dims = range(len(shape))
        return np.moveaxis(result, dims, [self.selection.position + d for d in dims])


def gather(shape, tile_shape, selection):
    """Group the points of index arrays by the tiles that hold them.

    Parameters
    ----------
    shape, tile_shape : tuple of int
        Of the image and of its tiles.
    selection : Selection
        With ``points``.

    Returns
    -------
    Gather
    """
    axes = list(selection.points)
    points = np.stack([selection.points[axis].ravel() for axis in axes])
    if points.shape[1] == 0 or any(
        len(r) == 0 for axis, r in enumerate(selection.ranges) if axis not in axes
    ):
        return Gather(selection, [])
    lengths = np.array([tile_shape[axis] for axis in axes])[:, np.newaxis]
    blocks, member = np.unique(points // lengths, axis=1, return_inverse=True)
    member = member.ravel()
    order = np.argsort(member, kind="stable")
    ends = np.cumsum(np.bincount(member, minlength=blocks.shape[1]))
    groups = []
    for block, chosen in zip(blocks.T, np.split(order, ends[:-1]), strict=True):
        ranges, corner = list(selection.ranges), block * lengths[:, 0]
        for axis, start in zip(axes, corner.tolist(), strict=True):
            ranges[axis] = range(start, min(start + tile_shape[axis], shape[axis]))
        local = tuple(points[:, chosen] - corner[:, np.newaxis])
        groups.append(Group(plan(shape, tile_shape, ranges), chosen, local))
    return Gather(selection, groups)


# ---------------------------------------------------------------------------- blocks of whole tiles


def block_shape(shape, tile_shape, npixels):
    """A shape for blocks of whole tiles, with at most so many pixels if a tile has no more.

    Axes along which tiles have more than one pixel grow together. The others grow after them, the
    fastest first: planes that are tiled by themselves stay apart as long as possible.

    Parameters
    ----------
    shape, tile_shape : tuple of int
    npixels : int

    Returns
    -------
    tuple of int
        Along each axis a multiple of the tile's length, or the length of the axis.

    Examples
    --------
    >>> block_shape((4000, 3000), (1, 3000), 2**20)
    (349, 3000)
    >>> block_shape((9, 4000, 3000), (1, 100, 100), 2**20)
    (1, 1000, 1000)
    """
    block = [min(t, n) for t, n in zip(tile_shape, shape, strict=True)]
    single = [axis for axis in reversed(range(len(shape))) if tile_shape[axis] == 1]
    for axes in [[a for a in range(len(shape)) if a not in single], *([a] for a in single)]:
        grow(block, shape, tile_shape, axes, npixels)
        if any(block[axis] < shape[axis] for axis in axes):
            break
    return tuple(block)


def grow(block, shape, tile_shape, axes, npixels):
    """Lengthen a block along some axes, in place."""
    free = [axis for axis in axes if block[axis] < shape[axis]]

    def factor():
        return (npixels / max(1, math.prod(block))) ** (1 / len(free))

    while full := [axis for axis in free if block[axis] * factor() >= shape[axis]]:
        block[full[0]] = shape[full[0]]
        free.remove(full[0])
    while free:
        axis = free[0]
        block[axis] = tile_shape[axis] * max(1, int(factor()))
        free.remove(axis)


def times_decoded(blocks, tile_shape):
    """How often tiles are decoded if an image is read block by block.

    Parameters
    ----------
    blocks : sequence of sequence of int
        The lengths of the blocks along each axis.
    tile_shape : tuple of int

    Returns
    -------
    ntiles, times : int
        The number of tiles, and how many are decoded in all; the same if blocks cut no tile.

    Examples
    --------
    >>> times_decoded([(70, 70, 70)], (40,))
    (6, 8)
    """
    ntiles = times = 1
    for lengths, tile in zip(blocks, tile_shape, strict=True):
        stop = np.cumsum(lengths)
        start = stop - lengths
        ntiles *= -(-int(stop[-1]) // tile)
        times *= int((-(-stop // tile) - start // tile).sum())
    return ntiles, times
