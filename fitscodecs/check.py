# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Whether the tiles of an image can be decoded, and what they leave unused."""

from dataclasses import dataclass

import numpy as np

from .errors import DecodeError, FitsCodecsError
from .grid import Plan
from .source import coalesce
from .threads import THREADS
from .tile import decode_tiles

__all__ = ["HeapUse", "TileCheck", "check_tiles", "heap_use"]

# Pixels that are decoded between two reports: enough for all threads, little enough for progress.
BATCH_NPIXELS = 2**22


@dataclass(frozen=True)
class TileCheck:
    """What came of decoding some tiles.

    Attributes
    ----------
    tiles : ndarray of int64
        Table rows, from 0.
    nbytes : ndarray of int64
        Length of each stream.
    used : ndarray of int64
        Bytes that the decoder needed of each stream; -1 for a tile at fault.
    faults : dict of int to str
        What is wrong, by table row.
    """

    tiles: np.ndarray
    nbytes: np.ndarray
    used: np.ndarray
    faults: dict

    @property
    def surplus(self):
        """Bytes after the end of each stream; 0 for a tile at fault."""
        return np.where(self.used < 0, 0, self.nbytes - self.used)


@dataclass(frozen=True)
class HeapUse:
    """Bytes of the heap of a compressed image.

    Attributes
    ----------
    used : int
        Bytes that belong to some tile.
    gap : int
        Bytes between the table and the heap.
    unreferenced : int
        Bytes of the heap that belong to no tile.
    shared : int
        Bytes that are saved because tiles name the very same stream.
    overlapping : int
        Bytes that belong to streams which differ and yet overlap.
    """

    used: int
    gap: int
    unreferenced: int
    shared: int
    overlapping: int


def heap_use(image):
    """How the streams of a compressed image cover its heap.

    Parameters
    ----------
    image : TiledImage
        Every table row is read.

    Returns
    -------
    HeapUse
        Descriptors that leave the heap count for nothing.
    """
    structure, entries = image.structure, image.table.describe()
    there = (entries.start >= 0) & (entries.nbytes > 0)
    streams = np.stack([entries.start[there], entries.nbytes[there]], axis=-1)
    different = np.unique(streams, axis=0)
    ranges, _, _ = coalesce(different[:, 0], different.sum(axis=1), 0)
    used = sum(stop - start for start, stop in ranges)
    return HeapUse(
        used=used,
        gap=structure.heap_start - structure.row_nbytes * structure.nrows,
        unreferenced=structure.heap_nbytes - used,
        shared=int(streams[:, 1].sum() - different[:, 1].sum()),
        overlapping=int(different[:, 1].sum()) - used,
    )


def whole_tiles(structure, tiles):
    """A plan that lays whole tiles one after the other."""
    position = np.stack(np.unravel_index(tiles, structure.grid_shape), axis=-1)
    tile_shape = np.array(structure.tile_shape, np.int64)
    shape = np.minimum(tile_shape, np.array(structure.shape) - position * tile_shape)
    return Plan(
        out_shape=(len(tiles) * structure.tile_shape[0], *structure.tile_shape[1:]),
        tiles=tiles,
        shape=shape,
        start=np.zeros_like(shape),
        step=np.ones_like(shape),
        count=shape,
        offset=np.arange(len(tiles)) * np.prod(tile_shape),
    )


def decode_and_forget(image, tiles):
    """Lengths of the streams of some tiles, and how much of each was used."""
    plan = whole_tiles(image.structure, tiles)
    entries, streams = image._fetch(tiles)
    try:
        pixels = np.empty(plan.out_shape, image.structure.dtype)
    except (MemoryError, ValueError) as error:
        raise DecodeError(f"no memory for tile {tiles[0]}") from error
    used = decode_tiles(image.structure, entries, streams, plan, pixels, THREADS)
    return entries.nbytes, used


def check_some(image, tiles):
    """Decode tiles together; if that fails, in halves, down to the ones at fault."""
    try:
        return TileCheck(tiles, *decode_and_forget(image, tiles), {})
    except FitsCodecsError as error:
        if len(tiles) == 1:
            return TileCheck(
                tiles, np.zeros(1, np.int64), -np.ones(1, np.int64), {int(tiles[0]): str(error)}
            )
    middle = len(tiles) // 2
    left, right = check_some(image, tiles[:middle]), check_some(image, tiles[middle:])
    return TileCheck(
        tiles,
        np.concatenate([left.nbytes, right.nbytes]),
        np.concatenate([left.used, right.used]),
        left.faults | right.faults,
    )


def check_tiles(image):
    """Decode every tile of an image and keep none.

    Parameters
    ----------
    image : TiledImage

    Yields
    ------
    TileCheck
        For one batch of tiles after the other, in the order of the table.

    Raises
    ------
    HeaderError
        If the table cannot be read; faults of tiles are told and not raised.
    """
    count = len(image.table)
    step = max(1, BATCH_NPIXELS // int(np.prod(image.tile_shape)))
    for start in range(0, count, step):
        yield check_some(image, np.arange(start, min(start + step, count)))
