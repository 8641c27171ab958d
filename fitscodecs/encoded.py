# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What encoding gives: the rows of the table and their streams."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

__all__ = ["EncodedTile", "EncodedTiles"]


@dataclass(frozen=True, slots=True)
class EncodedTile:
    """One row of the table and its stream."""

    column: int  # index in COLUMNS
    stream: bytes
    scale: float = 0.0
    zero: float = 0.0
    has_nan: bool = False
    blank: int | None = None  # null integer, where tiles of an image have different ones


def given(blanks):
    """The null integers, or None if there are none."""
    return blanks if any(blank is not None for blank in blanks) else None


@dataclass(frozen=True)
class EncodedTiles:
    """Rows of the table as arrays, in its order, and the heap that belongs to them.

    Attributes
    ----------
    column, nbytes : ndarray of int64
        Index in COLUMNS, and length of the stream.
    scale, zero : ndarray of float64
    has_nan : ndarray of bool
    blank : list or None
        Null integers or None, where tiles of an image have different ones.
    heap : list of bytes
        The streams, one after the other, each within one element.
    """

    column: np.ndarray
    nbytes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    has_nan: np.ndarray
    blank: list | None
    heap: list

    def __len__(self):
        return len(self.column)

    def __getitem__(self, i):
        i = range(len(self))[i]
        starts = list(accumulate(map(len, self.heap), initial=0))
        start = int(self.nbytes[:i].sum())
        # Streams that are empty may lie at the end of any element: a slice of it is empty as well.
        k = max(0, int(np.searchsorted(starts, start, side="right")) - 1)
        stream = b""
        if self.nbytes[i]:
            stream = self.heap[k][start - starts[k] : start - starts[k] + int(self.nbytes[i])]
        return EncodedTile(int(self.column[i]), stream, float(self.scale[i]), float(self.zero[i]),
                           bool(self.has_nan[i]), self.blank and self.blank[i])  # fmt: skip

    @property
    def heap_nbytes(self):
        """Bytes of all streams."""
        return int(self.nbytes.sum())

    @classmethod
    def of(cls, tiles):
        """From a list of `EncodedTile`."""
        return cls(
            np.array([tile.column for tile in tiles], np.int64),
            np.array([len(tile.stream) for tile in tiles], np.int64),
            np.array([tile.scale for tile in tiles], np.float64),
            np.array([tile.zero for tile in tiles], np.float64),
            np.array([tile.has_nan for tile in tiles], bool),
            given([tile.blank for tile in tiles]),
            [tile.stream for tile in tiles],
        )

    @classmethod
    def joined(cls, parts):
        """Those of one part after the other."""
        arrays = ("column", "nbytes", "scale", "zero", "has_nan")
        return cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in arrays),
            given([b for part in parts for b in part.blank or [None] * len(part)])
            if any(part.blank for part in parts)
            else None,
            [streams for part in parts for streams in part.heap],
        )
