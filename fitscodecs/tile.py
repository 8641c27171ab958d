# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Many tiles at once: choose the codec of each tile's column, unpack, decode into the image."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from . import _native
from .codecs import Gzip1, NoCompress, TileCodec
from .codecs.base import PIXEL_TYPES
from .errors import DecodeError
from .table import COLUMNS
from .threads import in_threads

__all__ = ["Batch", "Jobs", "Streams", "decode_tiles", "tasks"]

# Pixels that one task decodes: enough that a task is worth its overhead, few enough that what has
# been unpacked and not decoded yet stays small.
TASK_NPIXELS = 2**20
# Below this a second thread costs more than it brings.
THREADS_NPIXELS = 2**18


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


def column_codec(structure, column):
    """The codec of a column, and whether its tiles are quantized.

    The fallback columns hold values of the image's own type, whatever ZCMPTYPE is.
    """
    if COLUMNS[column] == "COMPRESSED_DATA":
        return structure.codec, structure.quantize is not None
    return (Gzip1() if COLUMNS[column] == "GZIP_COMPRESSED_DATA" else NoCompress()), False


def unpacked(codec: TileCodec, streams, npixels, places):
    """Streams ready for the C library, and the bytes that each used (None: C will tell)."""
    if not codec.wrapped:
        return streams, None
    raw, used = [], []
    for i, place in enumerate(places):
        contents, nbytes = codec.unpack(streams[i], int(npixels[i]), place)
        raw.append(contents)
        used.append(nbytes)
    n = len(raw)
    return Streams(
        raw, np.arange(n), np.zeros(n, np.int64), np.array([len(r) for r in raw], np.int64)
    ), used


def make_batch(structure, codec, quantized, parameters, out, label, flip):
    """The constants of a native call, with the types of tile and image settled."""
    floats = structure.bitpix < 0 and not quantized
    tile_dtype = codec.native_dtype(parameters, floats)
    if floats and tile_dtype.kind != "f":
        raise DecodeError(f"found {tile_dtype} pixels without ZSCALE, wanted {structure.dtype}")
    own = codec is structure.codec
    quantize = structure.quantize
    return Batch(
        label=label,
        native=codec.native,
        parameters=parameters,
        tile_type=PIXEL_TYPES[tile_dtype.name],
        image_type=PIXEL_TYPES[out.dtype.name],
        itemsize=out.itemsize,
        offset=structure.codec_offset if own else 0,
        clip=codec.clips,
        flip=flip,
        quantized=quantized,
        dither=quantize.dither if quantized else 0,
        seed=quantize.seed if quantized else 1,
        ndim=out.ndim,
        strides=np.array(out.strides, np.int64),
    )


def decode_column(structure, column, entries, streams, plan, out, flip):
    """Decode tiles that all are in one column; gives the number of bytes each stream used."""
    codec, quantized = column_codec(structure, column)
    label = codec.zcmptype[0] if column == 0 else COLUMNS[column]
    npixels = np.prod(plan.shape, axis=1)
    places = [f"{label} tile {row}" for row in plan.tiles] if codec.wrapped else ()
    streams, used = unpacked(codec, streams, npixels, places)
    groups = {}
    if codec.native_parameters_vary:
        for i, (nbytes, n) in enumerate(
            zip(streams.nbytes.tolist(), npixels.tolist(), strict=True)
        ):
            place = f"{label} tile {plan.tiles[i]}"
            groups.setdefault(codec.native_parameters(nbytes, n, place), []).append(i)
    else:
        groups[codec.native_parameters(0, 1, label)] = slice(None)

    total = np.zeros(len(plan), np.int64)
    for parameters, chosen in groups.items():
        part, rows, where = plan.part(chosen), entries.part(chosen), streams.part(chosen)
        try:
            batch = make_batch(structure, codec, quantized, parameters, out, label, flip)
        except DecodeError as error:
            raise DecodeError(f"{label} tile {part.tiles[0]}: {error}") from None
        jobs = Jobs(
            where.buffers,
            where.which,
            where.begin,
            where.nbytes,
            part.tiles,
            part.shape,
            part.start,
            part.step,
            part.count,
            part.offset * out.itemsize,
            rows.scale,
            rows.zero,
            rows.blank,
            rows.has_blank,
        )
        part_used = np.empty(len(part), np.int64)
        _native.decode_tiles(batch, jobs, out, part_used)
        total[chosen] = part_used
    return total if used is None else np.array(used, np.int64)


def decode_part(structure, entries, streams, plan, out, flip):
    """Decode tiles of any columns, one column after the other."""
    total = np.zeros(len(plan), np.int64)
    for column in np.unique(entries.column):
        chosen = np.flatnonzero(entries.column == column)
        if len(chosen) == len(plan):
            chosen = slice(None)
        total[chosen] = decode_column(
            structure,
            column,
            entries.part(chosen),
            streams.part(chosen),
            plan.part(chosen),
            out,
            flip,
        )
    unify_blanks(structure, entries, plan, out)
    return total


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


def tasks(plan, npixels_per_task):
    """Slices of the plan of about that many pixels each."""
    number = (np.cumsum(np.prod(plan.shape, axis=1)) - 1) // npixels_per_task
    cuts = np.flatnonzero(np.diff(number)) + 1
    return [slice(a, b) for a, b in pairwise([0, *cuts.tolist(), len(plan)])]


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
    npixels = int(np.prod(plan.shape, axis=1).sum())
    size = min(TASK_NPIXELS, max(THREADS_NPIXELS // 2, npixels // max(1, 2 * threads)))
    parts = tasks(plan, size)

    def work(chosen):
        return decode_part(
            structure, entries.part(chosen), streams.part(chosen), plan.part(chosen), out, flip
        )

    if npixels < THREADS_NPIXELS:
        threads = 1
    return np.concatenate(in_threads(work, parts, threads))
