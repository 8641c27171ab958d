# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The table of tiles: which bytes each tile has, in which column, and with which context.

No I/O happens here: a table says which ranges it needs, and is fed with bytes. All positions are
counted from the start of the data unit.
"""

import threading
from dataclasses import dataclass

import numpy as np

from .codecs.quantize import NULL_INTEGER
from .context import DecodeContext
from .errors import HeaderError
from .header import ELEMENT_NBYTES

__all__ = ["ABSENT", "COLUMNS", "Entries", "PlainTable", "TileTable", "make_table"]

COLUMNS = ("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA", "UNCOMPRESSED_DATA")
ABSENT = -1


@dataclass(frozen=True)
class Entries:
    """Some rows of a table: arrays with one element per tile."""

    tiles: np.ndarray
    column: np.ndarray  # index in COLUMNS, or ABSENT
    count: np.ndarray  # descriptor: number of elements
    start: np.ndarray  # first byte, from the start of the data unit
    nbytes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    blank: np.ndarray
    has_blank: np.ndarray  # 0 or 1

    def part(self, chosen):
        """The same for some of the tiles, by a slice or an index array."""
        return Entries(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


class TileTable:
    """All contexts of a compressed image: one row per tile, columns as arrays.

    Parameters
    ----------
    structure : ImageStructure
        What the header says.

    Notes
    -----
    The arrays `column`, `start`, `nbytes`, `scale`, `zero` and `blank` need every row to have
    been fed.
    """

    def __init__(self, structure):
        self.structure = structure
        self._rows = np.empty((0, structure.row_nbytes), np.uint8)
        self._known = None  # which rows were fed; None before the first
        self.is_known = False  # whether every row was fed
        self._lock = threading.Lock()

    def __len__(self):
        return self.structure.nrows

    def __repr__(self):
        return f"<{type(self).__name__} of {len(self)} tiles>"

    # ------------------------------------------------------------------ bytes

    def row_ranges(self, tiles=None):
        """Ranges ``(start, stop)`` of rows that are needed to describe tiles, and not fed yet."""
        tiles = self._all() if tiles is None else ascending(tiles)
        if self._known is not None:
            tiles = tiles[~self._known[tiles]]
        if tiles.size == 0:
            return []
        breaks = np.flatnonzero(np.diff(tiles) != 1)
        first = tiles[np.concatenate(([0], breaks + 1))]
        last = tiles[np.concatenate((breaks, [tiles.size - 1]))]
        width = self.structure.row_nbytes
        return [(int(a) * width, (int(b) + 1) * width) for a, b in zip(first, last, strict=True)]

    def feed(self, offset, data):
        """Take bytes of the data unit that start at `offset`; rows that are cut are left out."""
        width, nrows = self.structure.row_nbytes, self.structure.nrows
        raw = np.frombuffer(data, np.uint8)
        first = -(-offset // width)
        last = min((offset + raw.size) // width, nrows)
        if last <= first:
            return
        rows = raw[first * width - offset : last * width - offset].reshape(-1, width)
        with self._lock:
            if first == 0 and last == nrows:
                self._rows, self._known = rows, np.ones(nrows, bool)
            elif self._known is None:
                self._rows, self._known = np.empty((nrows, width), np.uint8), np.zeros(nrows, bool)
            if not self._known[first:last].all():
                self._rows[first:last] = rows
                self._known[first:last] = True
            self.is_known = bool(self._known.all())

    def keep(self):
        """Take the rows out of the memory that they were fed from, which may go away."""
        with self._lock:
            if not self._rows.flags.owndata:
                self._rows = self._rows.copy()

    # ------------------------------------------------------------------ rows

    def _all(self):
        return np.arange(len(self), dtype=np.int64)

    def _numbers(self, name, rows):
        """A scalar column as it is; None if there is no such column."""
        column = self.structure.columns.get(name)
        if column is None:
            return None
        kind = {"B": "u1", "I": ">i2", "J": ">i4", "K": ">i8", "E": ">f4", "D": ">f8"}
        dtype = np.dtype(kind[column.letter])
        cells = self._rows[rows, column.offset : column.offset + dtype.itemsize]
        return np.ascontiguousarray(cells).view(dtype)[:, 0]

    def _descriptors(self, name, rows):
        """Element counts and heap offsets."""
        column = self.structure.columns[name]
        dtype = np.dtype(">i4" if column.letter == "P" else ">i8")
        cells = self._rows[rows, column.offset : column.offset + 2 * dtype.itemsize]
        return np.ascontiguousarray(cells).view(dtype).T.astype(np.int64, order="C")

    def _sources(self, rows, n):
        """The first column with bytes for each of n tiles: its index, elements, offset, item size.

        Without bytes in any column: ABSENT and zeros.
        """
        found = np.zeros((4, n), np.int64)
        found[0] = ABSENT
        for i, name in enumerate(COLUMNS):
            if name not in self.structure.columns:
                continue
            count, offset = self._descriptors(name, rows)
            here = (found[0] == ABSENT) & (count != 0)
            all_here = bool(here.all())
            chosen = slice(None) if all_here else here
            found[0, chosen] = i
            found[1, chosen], found[2, chosen] = count[chosen], offset[chosen]
            found[3, chosen] = ELEMENT_NBYTES[self.structure.columns[name].element]
            if all_here:
                break
        return found

    def describe(self, tiles=None):
        """What the rows of these tiles say; `check` tells whether it can be true.

        A tile is in the first of `COLUMNS` whose descriptor is not empty.
        """
        tiles = self._all() if tiles is None else np.asarray(tiles, np.int64)
        rows = as_slice(tiles, len(self))
        fed = self.is_known or (self._known is not None and self._known[rows].all())
        if len(tiles) and not fed:
            raise HeaderError("table ends before its last row")
        column, count, offset, element = self._sources(rows, len(tiles))
        heap = self.structure.heap_nbytes  # below 2**62, so that sums with it do not overflow
        countable = (count >= 0) & (count <= heap // np.maximum(element, 1))
        nbytes = count * element
        if not countable.all():
            nbytes[~countable] = 0
        start = offset + self.structure.heap_start
        start[~countable | (offset < 0) | (offset > heap - nbytes)] = -1
        return Entries(tiles, column, count, start, nbytes, *self._scaling(rows, len(tiles)))

    def _scaling(self, rows, n):
        """Scale, zero and blank of n tiles, from columns or keywords."""
        structure = self.structure

        def filled(values, keyword, dtype):
            if values is not None:
                return values.astype(dtype)
            array = np.zeros(n, dtype)
            if keyword:
                array[:] = keyword
            return array

        blank = self._numbers("ZBLANK", rows)
        if blank is not None and blank.dtype.kind == "f":  # any number; NaN is no integer
            blank = np.nan_to_num(blank.astype(np.float64)).clip(-(2.0**62), 2.0**62)
        known = blank is not None or (structure.quantize and structure.blank is not None)
        has_blank = (np.ones if known else np.zeros)(n, np.int64)
        return (
            filled(self._numbers("ZSCALE", rows), structure.scale, np.float64),
            filled(self._numbers("ZZERO", rows), structure.zero, np.float64),
            filled(blank, structure.blank, np.int64),
            has_blank,
        )

    def place(self, tile):
        """How errors name a tile."""
        codec = self.structure.codec
        return f"{codec.zcmptype[0] if codec else 'plain image'} tile {tile}"

    def check(self, entries):
        """Raise HeaderError for a tile that is absent or leaves the heap."""
        bad = (entries.column == ABSENT) | (entries.start < 0)
        if not bad.any():
            return
        i = int(bad.argmax())
        place = self.place(entries.tiles[i])
        if entries.column[i] == ABSENT:
            raise HeaderError(f"{place}: found no bytes in any column, wanted a compressed tile")
        raise HeaderError(
            f"{place}: descriptor in {COLUMNS[entries.column[i]]} names "
            f"{entries.count[i]} elements that leave the heap, "
            f"wanted them within its {self.structure.heap_nbytes} bytes"
        )

    def heap_ranges(self, tiles=None):
        """Ranges ``(start, stop)`` of the streams of these tiles."""
        entries = self.describe(tiles)
        self.check(entries)
        return list(
            zip(entries.start.tolist(), (entries.start + entries.nbytes).tolist(), strict=True)
        )

    def context(self, row):
        """The context of one tile.

        Parameters
        ----------
        row : int
            Table row, from 0.
        """
        structure = self.structure
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a table of {len(self)}")
        entry = self.describe([row])
        self.check(entry)
        position = np.unravel_index(row, structure.grid_shape)
        shape = tuple(
            min(t, n - int(p) * t)
            for p, t, n in zip(position, structure.tile_shape, structure.shape, strict=True)
        )
        column = COLUMNS[entry.column[0]]
        quantized = structure.quantize is not None and entry.column[0] == 0
        return DecodeContext(
            row=row,
            shape=shape,
            dtype=structure.dtype,
            column=column,
            scale=float(entry.scale[0]) if quantized else None,
            zero=float(entry.zero[0]) if quantized else None,
            blank=int(entry.blank[0]) if quantized and entry.has_blank[0] else None,
        )

    # ------------------------------------------------------------------ columns as arrays

    @property
    def column(self):
        """Name of the column that supplies each tile; an empty string if it is absent."""
        names = np.array([*COLUMNS, ""])
        return names[self.describe().column]

    @property
    def start(self):
        """First byte of each stream, counted from the start of the data unit; -1 if outside."""
        return self.describe().start

    @property
    def nbytes(self):
        """Length of each stream."""
        return self.describe().nbytes

    @property
    def scale(self):
        """ZSCALE of each tile, 0 where it has none."""
        return self.describe().scale

    @property
    def zero(self):
        """ZZERO of each tile, 0 where it has none."""
        return self.describe().zero

    @property
    def blank(self):
        """Null integer of each tile; -2147483647 where no keyword or column tells one."""
        entries = self.describe()
        return np.where(entries.has_blank == 1, entries.blank, NULL_INTEGER)


def ascending(tiles):
    """Each of some tiles once, in the order of the table, which most callers have already."""
    tiles = np.asarray(tiles, np.int64)
    return tiles if (np.diff(tiles) > 0).all() else np.unique(tiles)


def as_slice(tiles, nrows):
    """Tiles that follow each other as a slice, which numpy takes faster; others as they are.

    So are those outside a table of so many rows, which a slice would leave out without an error.
    """
    n = len(tiles)
    inside = n and tiles[0] >= 0 and tiles[-1] < nrows
    if inside and tiles[-1] - tiles[0] == n - 1 and (tiles[1:] - tiles[:-1] == 1).all():
        return slice(int(tiles[0]), int(tiles[-1]) + 1)
    return tiles


class PlainTable(TileTable):
    """The table that a plain image would have: its tiles lie one after the other."""

    def __len__(self):
        return int(np.prod(self.structure.grid_shape, dtype=np.int64))

    def row_ranges(self, tiles=None):
        """Nothing has to be read to know where tiles are."""
        return []

    def feed(self, offset, data):
        """Nothing is learned from bytes."""

    def describe(self, tiles=None):
        structure = self.structure
        tiles = self._all() if tiles is None else np.asarray(tiles, np.int64)
        position = np.stack(np.unravel_index(tiles, structure.grid_shape), axis=-1)
        first = position * structure.tile_shape
        shape = np.minimum(structure.tile_shape, np.array(structure.shape) - first)
        strides = np.ones(len(structure.shape), np.int64)
        strides[:-1] = np.cumprod(structure.shape[:0:-1], dtype=np.int64)[::-1]
        itemsize = structure.dtype.itemsize
        npixels = np.prod(shape, axis=-1, dtype=np.int64)
        zeros = np.zeros(len(tiles))
        return Entries(
            tiles,
            np.full(len(tiles), COLUMNS.index("UNCOMPRESSED_DATA")),
            npixels,
            (first @ strides) * itemsize,
            npixels * itemsize,
            zeros,
            zeros,
            zeros.astype(np.int64),
            zeros.astype(np.int64),
        )


def make_table(structure):
    """The table of an image, compressed or plain."""
    return PlainTable(structure) if structure.codec is None else TileTable(structure)
