# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Many tiles at once: choose the codec of each tile's column, unpack, decode into the image."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from . import _native
from .codecs import Gzip1, NoCompress
from .codecs.base import PIXEL_TYPES
from .deflate import MAX_RATIO
from .errors import DecodeError
from .grid import Plan
from .table import COLUMNS, Entries
from .threads import in_threads

__all__ = ["Batch", "Jobs", "Streams", "decode_tiles", "shares"]

# Pixels of one task: enough that a task is worth its overhead of some 50 us, few enough that what
# has been unpacked or encoded and went nowhere yet stays small. What is decoded goes to its place.
TASK_NPIXELS = 2**20
DIRECT_NPIXELS = 2**22
LEAST_NPIXELS = 2**18
# Below this, a millisecond or two, a second thread costs more than it brings.
THREADS_NPIXELS = 2**20

LEFT = -1  # bytes used, of a tile that the C library leaves to be unpacked here


@dataclass(frozen=True)
class Streams:
    """Bytes of tiles: buffers, and for each tile which buffer, where in it, and how many."""

    buffers: list
    which: np.ndarray
    begin: np.ndarray
    nbytes: np.ndarray

    def part(self, chosen):
        """The same for some of the tiles."""
        return Streams(self.buffers, self.which[chosen], self.begin[chosen], self.nbytes[chosen])

    def __getitem__(self, i):
        view = memoryview(self.buffers[self.which[i]])
        return view[self.begin[i] : self.begin[i] + self.nbytes[i]]


@dataclass(frozen=True)
class Batch:
    """What is the same for all tiles of one native call; see fitscodecs_batch in fitscodecs.h."""

    label: str  # how errors name the algorithm
    native: str
    parameters: tuple
    gzip: bool  # whether C unpacks the streams
    tile_type: int
    image_type: int
    itemsize: int
    offset: int
    clip: bool
    flip: bool
    quantized: bool
    dither: int
    seed: int
    ndim: int
    strides: np.ndarray


@dataclass(frozen=True)
class Jobs:
    """Arrays with one entry per tile; see fitscodecs_job in fitscodecs.h."""

    buffers: list
    buffer: np.ndarray
    begin: np.ndarray
    nbytes: np.ndarray
    row: np.ndarray
    shape: np.ndarray
    start: np.ndarray
    step: np.ndarray
    count: np.ndarray
    offset: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    blank: np.ndarray
    has_blank: np.ndarray


@dataclass(frozen=True)
class Tiles:
    """Tiles to decode: their rows of the table, their bytes, and what of them goes where."""

    entries: Entries
    streams: Streams
    plan: Plan

    def __len__(self):
        return len(self.plan)

    def part(self, chosen):
        """Some of them, by a slice or an index array."""
        if isinstance(chosen, slice) and chosen == slice(0, len(self)):
            return self
        return Tiles(self.entries.part(chosen), self.streams.part(chosen), self.plan.part(chosen))


class ColumnDecoder:
    """Decoding of tiles of one column of the table into an array.

    The fallback columns hold values of the image's own type, whatever ZCMPTYPE is. All methods that
    take tiles return an array of the number of bytes that each stream used.
    """

    def __init__(self, structure, column, out, flip):
        self.structure, self.out, self.flip = structure, out, flip
        self.is_main = COLUMNS[column] == "COMPRESSED_DATA"
        if self.is_main:
            self.codec, self.label = structure.codec, structure.codec.zcmptype[0]
        else:
            self.label = COLUMNS[column]
            self.codec = Gzip1() if self.label == "GZIP_COMPRESSED_DATA" else NoCompress()
        self.quantized = self.is_main and structure.quantize is not None
        self.batches = {}

    def place(self, row):
        return f"{self.label} tile {row}"

    def decode(self, tiles):
        if not self.codec.wrapped:
            return self.decode_streams(tiles)
        used = self.decode_gzip(tiles)
        left = np.flatnonzero(used == LEFT)
        if len(left):
            used[left] = self.unpack_and_decode(tiles.part(left))
        return used

    def decode_gzip(self, tiles):
        """Unpack and decode in C what can be, of the size of pixels that is usual; else LEFT."""
        used = np.full(len(tiles), LEFT, np.int64)
        dtype = np.dtype("int32") if self.quantized else self.structure.dtype
        native = self.codec.parameters_for(dtype)
        if self.codec.gzip_level and native is not None:
            # For others no memory is taken on the word of a header.
            honest = tiles.plan.npixels // MAX_RATIO <= tiles.streams.nbytes // dtype.itemsize
            chosen = np.flatnonzero(honest)
            used[chosen] = self.call(tiles.part(chosen), native[0], True)
        return used

    def unpack_and_decode(self, tiles):
        """Unpack in Python, with an error that says what is wrong."""
        raw, used = [], []
        for i, npixels in enumerate(tiles.plan.npixels.tolist()):
            place = self.place(tiles.plan.tiles[i])
            contents, nbytes = self.codec.unpack(tiles.streams[i], npixels, place)
            raw.append(contents)
            used.append(nbytes)
        n = len(raw)
        nbytes = np.array([len(contents) for contents in raw], np.int64)
        streams = Streams(raw, np.arange(n), np.zeros(n, np.int64), nbytes)
        self.decode_streams(Tiles(tiles.entries, streams, tiles.plan))
        return np.array(used, np.int64)

    def decode_streams(self, tiles):
        """Decode bytes that are as the C function wants them, grouped by its parameters."""
        codec = self.codec
        if not codec.native_parameters_vary:
            return self.call(tiles, codec.native_parameters(0, 1, self.label))
        groups = {}
        sizes = zip(tiles.streams.nbytes.tolist(), tiles.plan.npixels.tolist(), strict=True)
        for i, (nbytes, npixels) in enumerate(sizes):
            place = self.place(tiles.plan.tiles[i])
            groups.setdefault(codec.native_parameters(nbytes, npixels, place), []).append(i)
        used = np.empty(len(tiles), np.int64)
        for parameters, chosen in groups.items():
            used[chosen] = self.call(tiles.part(chosen), parameters)
        return used

    def call(self, tiles, parameters, gzip=False):
        """One native call."""
        used = np.empty(len(tiles), np.int64)
        if len(tiles) == 0:
            return used
        try:
            batch = self.batch(parameters, gzip)
        except DecodeError as error:
            raise DecodeError(f"{self.place(tiles.plan.tiles[0])}: {error}") from None
        rows, streams, plan = tiles.entries, tiles.streams, tiles.plan
        jobs = Jobs(
            streams.buffers,
            streams.which,
            streams.begin,
            streams.nbytes,
            plan.tiles,
            plan.shape,
            plan.start,
            plan.step,
            plan.count,
            plan.offset * self.out.itemsize,
            rows.scale,
            rows.zero,
            rows.blank,
            rows.has_blank,
        )
        _native.decode_tiles(batch, jobs, self.out, used)
        return used

    def batch(self, parameters, gzip):
        """The constants of a native call, made once."""
        if (parameters, gzip) not in self.batches:
            self.batches[parameters, gzip] = self.make_batch(parameters, gzip)
        return self.batches[parameters, gzip]

    def make_batch(self, parameters, gzip):
        """The constants, with the types of tile and image settled."""
        structure, codec, quantize = self.structure, self.codec, self.structure.quantize
        floats = structure.bitpix < 0 and not self.quantized
        tile_dtype = codec.native_dtype(parameters, floats)
        if floats and tile_dtype.kind != "f":
            raise DecodeError(f"found {tile_dtype} pixels without ZSCALE, wanted {structure.dtype}")
        return Batch(
            label=self.label,
            native=codec.native,
            parameters=parameters,
            gzip=gzip,
            tile_type=PIXEL_TYPES[tile_dtype.name],
            image_type=PIXEL_TYPES[self.out.dtype.name],
            itemsize=self.out.itemsize,
            offset=structure.codec_offset if self.is_main else 0,
            clip=codec.clips,
            flip=self.flip,
            quantized=self.quantized,
            dither=quantize.dither if self.quantized else 0,
            seed=quantize.seed if self.quantized else 1,
            ndim=self.out.ndim,
            strides=np.array(self.out.strides, np.int64),
        )


class Decoder:
    """Decoding of tiles of any columns into an array, one column after the other."""

    def __init__(self, structure, out, flip):
        self.structure, self.out, self.flip = structure, out, flip
        self.of_columns = {}

    def of_column(self, column):
        """The decoder of a column, made once; two threads may make one each."""
        if column not in self.of_columns:
            self.of_columns[column] = ColumnDecoder(self.structure, column, self.out, self.flip)
        return self.of_columns[column]

    def decode(self, tiles):
        """Decode tiles; returns the number of bytes that each stream used."""
        columns = tiles.entries.column
        if (columns == columns[0]).all():
            used = self.of_column(int(columns[0])).decode(tiles)
        else:
            used = np.zeros(len(tiles), np.int64)
            for column in np.unique(columns).tolist():
                chosen = np.flatnonzero(columns == column)
                used[chosen] = self.of_column(column).decode(tiles.part(chosen))
        unify_blanks(self.structure, tiles.entries, tiles.plan, self.out)
        return used


def unify_blanks(structure, entries, plan, out):
    """Give undefined pixels of integer tiles the null integer of the image.

    A column ZBLANK says for each tile which integer stands for them there.
    """
    blank = structure.scaling.blank
    if structure.bitpix < 0 or "ZBLANK" not in structure.columns:
        return
    info = np.iinfo(out.dtype)
    for i in np.flatnonzero(entries.blank != blank) if info.min <= blank <= info.max else ():
        corner = np.unravel_index(plan.offset[i], plan.out_shape)
        tile = out[tuple(slice(a, a + n) for a, n in zip(corner, plan.count[i], strict=True))]
        tile[tile == entries.blank[i]] = blank


def shares(plan, threads, most=TASK_NPIXELS, at_once=1):
    """Slices of the plan for threads to work on, and the number of threads that it is worth.

    A slice has about `most` pixels. For several threads, each is a part of what is left, so that
    the last ones are small and the threads end together; but if there are enough for all threads,
    no slice has less than the `at_once` tiles that take as long as one.
    """
    last = np.cumsum(plan.npixels)
    npixels = int(last[-1])
    if npixels < THREADS_NPIXELS:
        threads = 1
    if threads == 1 and npixels <= most:
        return [slice(0, len(plan))], 1
    least = max(LEAST_NPIXELS, min(at_once * int(last[0]), npixels // threads))
    ends, done = [], 0
    while done < npixels:
        size = most if threads == 1 else max(least, (npixels - done) // (2 * threads))
        done += min(most, size)
        ends.append(done)
    cuts = np.unique(np.searchsorted(last, ends[:-1]) + 1)
    cuts = cuts[cuts < len(plan)].tolist()
    return [slice(a, b) for a, b in pairwise([0, *cuts, len(plan)])], threads


def decode_tiles(structure, entries, streams, plan, out, threads=1, flip=False):
    """Decode the parts of tiles that a plan names into an array.

    Parameters
    ----------
    structure : ImageStructure
    entries : Entries
        The rows of the plan's tiles, checked.
    streams : Streams
        Their bytes.
    plan : Plan
    out : ndarray
        C-contiguous, of the plan's shape and the structure's stored type.
    threads : int
        Largest number of threads to use.
    flip : bool
        Whether integers are to be moved to the type of the other signedness, see `Scaling`.

    Returns
    -------
    ndarray of int64
        The number of bytes that each stream used.

    Raises
    ------
    DecodeError
        For the first tile at fault of the plan.
    """
    if len(plan) == 0:
        return np.zeros(0, np.int64)
    codec = NoCompress() if structure.codec is None else structure.codec
    most = TASK_NPIXELS if codec.wrapped else DIRECT_NPIXELS
    parts, threads = shares(plan, threads, most, _native.tiles_at_once(codec.native))
    tiles = Tiles(entries, streams, plan)
    decoder = Decoder(structure, out, flip)
    used = in_threads(lambda chosen: decoder.decode(tiles.part(chosen)), parts, threads)
    return used[0] if len(used) == 1 else np.concatenate(used)
