# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""An HDU as a chunk: bytes counted from its header, which tells everything that follows.

No I/O happens here. Reading is written once, as generators that yield lists of ranges
``(start, stop)`` and are sent their bytes: `drive` serves them from a function, and whoever reads
asynchronously does so from a coroutine.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from .errors import DecodeError, HeaderError
from .grid import Selection, gather, normalize, plan
from .hdu import EXTENSION, header_nbytes
from .header import BLOCK, data_nbytes, image_structure, parse_header
from .pixels import decode_block, decode_points
from .source import AHEAD_NBYTES, SIMPLE, coalesce
from .table import TileTable, make_table
from .threads import number_of_threads
from .tile import Streams

__all__ = ["ChunkIndex", "drive", "index_steps", "is_whole", "pixel_steps", "whole_chunk",
           "without_integers"]  # fmt: skip

# The smallest HDU with pixels: a block of header, a block of data.
SMALLEST_NBYTES = 2 * BLOCK
# Tables up to this size are read as a whole, larger ones in pages of rows that are needed.
SMALL_TABLE_NBYTES = 2**18
PAGE_NBYTES = 2**16
# Ranges closer than this are read as one, and one is not made longer than that.
GAP_NBYTES = 2**16
RANGE_NBYTES = 2**24
# Plans of images up to this number of tiles are kept.
SMALL_PLAN = 4096


@dataclass(frozen=True)
class ChunkIndex:
    """What has to be known of a chunk before its pixels can be found.

    Attributes
    ----------
    structure : ImageStructure
    table : TileTable
        Fed with the rows that have been read.
    data_start : int
        Bytes of the header.
    data_nbytes : int
        Bytes of the data unit, without padding.
    """

    structure: object
    table: TileTable
    data_start: int
    data_nbytes: int

    @classmethod
    def from_header(cls, raw):
        """The index that a header, bytes of whole blocks, begins."""
        header = parse_header(raw)
        structure = image_structure(header)
        return cls(structure, make_table(structure), len(raw), data_nbytes(header))

    @property
    def nbytes(self):
        """Memory that the index takes once all rows are read, about."""
        rows = self.structure.row_nbytes * self.structure.nrows
        return self.data_start + rows + AHEAD_NBYTES

    def check_length(self, nbytes):
        """HeaderError if a chunk of this length is not this HDU, with or without padding."""
        end = self.data_start + self.data_nbytes
        padded = self.data_start + -(-self.data_nbytes // BLOCK) * BLOCK
        if not end <= nbytes <= padded:
            raise HeaderError(
                f"found a header of an HDU of {padded} bytes, wanted one of the chunk's {nbytes}: "
                "the file is not the one that was referenced"
            )

    def check_type(self, dtype, scaled):
        """HeaderError if the pixels of the image are not of this type."""
        scaling = self.structure.scaling
        found = scaling.dtype if scaled else scaling.stored_dtype
        if dtype is not None and found != np.dtype(dtype).newbyteorder("="):
            how = "scaled" if scaled else "stored"
            raise HeaderError(f"found {how} pixels of type {found}, wanted {np.dtype(dtype)}")

    def shapes(self, chunk_shape):
        """Shape of the image and of its tiles, with axes of length 1 in front as the chunk has.

        Raises HeaderError if the chunk is of another shape.
        """
        own, tile_shape = self.structure.shape, self.structure.tile_shape
        if chunk_shape is None:
            return own, tile_shape
        wanted = tuple(chunk_shape)
        ones = (1,) * (len(wanted) - len(own))
        if ones + own != wanted:
            raise HeaderError(f"found an image of shape {own}, wanted the chunk's {wanted}")
        return wanted, ones + tile_shape

    def row_ranges(self, tiles):
        """Ranges of the chunk with rows that these tiles need: the whole of a small table."""
        width, nrows = self.structure.row_nbytes, self.structure.nrows
        if width * nrows <= SMALL_TABLE_NBYTES:
            ranges = self.table.row_ranges()
        else:
            page = max(1, PAGE_NBYTES // width) * width
            ranges = [(start // page * page, min(-(-stop // page) * page, width * nrows))
                      for start, stop in self.table.row_ranges(tiles)]  # fmt: skip
        if not ranges:
            return []
        start, stop = (np.array(x, np.int64) + self.data_start for x in zip(*ranges, strict=True))
        return coalesce(start, stop, GAP_NBYTES, RANGE_NBYTES)[0]

    def feed(self, start, data):
        """Take bytes of the chunk from its byte `start`, which may hold rows."""
        if self.structure.row_nbytes and start + len(data) > self.data_start:
            skipped = max(0, self.data_start - start)
            self.table.feed(start + skipped - self.data_start, memoryview(data)[skipped:])

    def entries(self, tiles):
        """The rows of these tiles, checked."""
        entries = self.table.describe(tiles)
        self.table.check(entries)
        return entries


# ---------------------------------------------------------------------------- reading


def drive(steps, fetch):
    """Run a generator of ranges to its end; ``fetch(ranges)`` gives a list of bytes.

    Returns
    -------
    object
        What the generator returns.
    """
    try:
        ranges = next(steps)
        while True:
            ranges = steps.send(fetch(ranges))
    except StopIteration as stop:
        return stop.value


def index_steps(first_nbytes=None, size=None):
    """Ranges to read for the header and, where they come with it, the rows of a chunk.

    No range passes the end of the chunk, unless `first_nbytes` does: some stores refuse that.

    Parameters
    ----------
    first_nbytes : int, optional
        How much to read at first; not more than the chunk has.
    size : int, optional
        Length of the chunk, if it is known.

    Yields
    ------
    list of (int, int)

    Returns
    -------
    ChunkIndex
    """
    stop = first_nbytes or (SMALLEST_NBYTES if size is None else AHEAD_NBYTES)
    stop = stop if size is None else min(stop, size)
    data, nbytes = b"", None
    while nbytes is None:
        if len(data) == size:
            raise HeaderError(f"found a chunk of {size} bytes, wanted one with the END of a header")
        stop = stop if not data else next_stop(data, size)
        (more,) = yield [(len(data), stop)]
        data = bytes(data) + bytes(more) if data else more
        if len(data) < stop:
            size = len(data)  # a store that cuts ranges off at the end of the chunk
        if bytes(data[:9]) not in (EXTENSION, SIMPLE):
            raise HeaderError(
                f"chunk starts with {bytes(data[:10])!r}, wanted the header of an HDU"
            )
        nbytes = header_nbytes(data)
    index = ChunkIndex.from_header(bytes(data[:nbytes]))
    if size is not None:
        index.check_length(size)
    index.feed(0, data)
    return index


def exactly(data, nbytes):
    if len(data) != nbytes:
        raise DecodeError(f"found {len(data)} bytes of the chunk, wanted {nbytes}")
    return data


def next_stop(data, size):
    """How far to read on in a header that goes on: not beyond what its first cards promise."""
    try:
        promised = data_nbytes(parse_header(bytes(data)))
    except HeaderError:  # not even those are complete
        promised = 0
    more = min(AHEAD_NBYTES, BLOCK + -(-promised // BLOCK) * BLOCK)
    return len(data) + more if size is None else min(len(data) + more, size)


def pixel_steps(index, key, shape=None, scaled=True):
    """Ranges to read for pixels of a chunk.

    Parameters
    ----------
    index : ChunkIndex
    key : index
        As numpy takes it, for an array of `shape`.
    shape : tuple of int, optional
        Of the chunk: that of the image, with axes of length 1 in front if there are any.
    scaled : bool

    Yields
    ------
    list of (int, int)

    Returns
    -------
    callable
        Decodes: it takes a number of threads and gives an ndarray. It is not called here because
        decoding is work, which some readers leave to another thread.
    """
    selection, todo = picked(index, key, shape)
    if rows := index.row_ranges(todo.tiles):
        for (start, stop), data in zip(rows, (yield rows), strict=True):
            index.feed(start, exactly(data, stop - start))
    entries = index.entries(todo.tiles)
    start = entries.start + index.data_start
    ranges, which, begin = coalesce(start, start + entries.nbytes, GAP_NBYTES, RANGE_NBYTES)
    buffers = (yield ranges) if ranges else []
    for (first, last), data in zip(ranges, buffers, strict=True):
        exactly(data, last - first)
    streams = Streams(buffers, which, begin, entries.nbytes)
    return partial(decoded, index.structure, scaled, entries, streams, todo, selection)


def picked(index, key, shape):
    """What a key selects, and the plan or the gather for it."""
    shape, tile_shape = index.shapes(shape)
    selection = unmeshed(normalize(key, shape))
    if selection.points is not None:
        return selection, gather(shape, tile_shape, selection)
    ntiles = math.prod(-(-n // t) for n, t in zip(shape, tile_shape, strict=True))
    planned = kept_plan if ntiles <= SMALL_PLAN else plan
    return selection, planned(shape, tile_shape, selection.ranges)


@lru_cache(maxsize=8)
def kept_plan(shape, tile_shape, ranges):
    """The plan for a block of pixels; kept, since the next chunk of a stack has the same."""
    made = plan(shape, tile_shape, ranges)
    for array in (made.tiles, made.shape, made.start, made.step, made.count, made.offset):
        array.flags.writeable = False
    return made


def decoded(structure, scaled, entries, streams, todo, selection, threads):
    """Pixels of a selection, of the shape that numpy defines for it."""
    if selection.points is not None:
        return decode_points(structure, scaled, entries, streams, todo, threads)
    array = decode_block(structure, scaled, entries, streams, todo, None, threads)
    return array.reshape([n for k, n in enumerate(array.shape) if k not in selection.dropped])


def whole_chunk(data, shape=None, dtype=None, scaled=True, threads=None):
    """All pixels of a chunk that is in memory.

    Parameters
    ----------
    data : buffer
    shape : tuple of int, optional
        That the pixels must have; axes of length 1 may stand in front.
    dtype : dtype-like, optional
        That they must have.
    scaled : bool
    threads : int, optional

    Returns
    -------
    ndarray

    Raises
    ------
    FitsCodecsError
        If the bytes are no image HDU of this length, shape and type, or are damaged.
    """
    data = memoryview(data).cast("B")

    index = drive(index_steps(len(data), len(data)), lambda ranges: [data])
    index.check_type(dtype, scaled)
    selection, todo = picked(index, (), shape)
    entries = index.entries(todo.tiles)
    zeros = np.zeros(len(entries.tiles), np.int64)
    streams = Streams([data], zeros, entries.start + index.data_start, entries.nbytes)
    threads = number_of_threads(threads)
    return decoded(index.structure, scaled, entries, streams, todo, selection, threads)


# ---------------------------------------------------------------------------- selections


def progression(values):
    """The range that holds these numbers in this order, or None."""
    step = int(values[1] - values[0]) if len(values) > 1 else 1
    if step == 0 or (np.diff(values) != step).any():
        return None
    return range(int(values[0]), int(values[0]) + step * len(values), step)


def unmeshed(selection):
    """The selection, with ranges in place of index arrays that are the axes of an open mesh.

    Orthogonal selections arrive as ``numpy.ix_`` makes them, with every pixel of a slice listed.
    Unless two axes or more need arrays, the same pixels are ranges along axes.
    """
    points, ndim = selection.points, len(selection.ranges)
    if points is None or len(points) != ndim or any(not a.size for a in points.values()):
        return selection
    values = []
    for axis, array in points.items():
        if array.ndim != ndim:
            return selection
        others = [k for k in range(ndim) if k != axis]
        if any(array.strides[k] and array.shape[k] > 1 for k in others):
            return selection
        values.append(array[tuple(slice(None) if k == axis else 0 for k in range(ndim))])
    ranges = [progression(v) for v in values]
    listed = [axis for axis, r in enumerate(ranges) if r is None]
    if len(listed) > 1:
        return selection
    ranges = tuple(range(0) if r is None else r for r in ranges)
    if not listed:
        return Selection(ranges, ())
    return Selection(ranges, (), {axis: values[axis] for axis in listed}, listed[0])


def is_whole(key, shape):
    """Whether a selection is all of a chunk, in its order.

    Integers are for axes of length 1, as a stack of images has one in front.
    """
    keys = key if isinstance(key, tuple) else (key,)
    return len(keys) <= len(shape) and all(
        k.indices(n) == (0, n, 1) if isinstance(k, slice) else is_integer(k) and n == 1
        for k, n in zip(keys, shape, strict=False)
    ) and math.prod(shape) > 0  # fmt: skip


def is_integer(key):
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)


def without_integers(array, key):
    """All of a chunk, without the axes that integers select from; see `is_whole`."""
    keys = key if isinstance(key, tuple) else (key,)
    dropped = {k for k, item in enumerate(keys) if is_integer(item)}
    return array.reshape([n for k, n in enumerate(array.shape) if k not in dropped])
