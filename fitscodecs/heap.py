# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Streams on their way from the encoder to an HDU: their checksum, and the file that they go to."""

from dataclasses import replace

from .checksum import continued_sum, ones_sum

__all__ = ["Heap", "HeapFile", "put_together"]

# Pieces below this are put together before they are written.
LARGE_NBYTES = 2**18
# Bytes that are moved at once.
CHUNK = 2**22


def put_together(pieces):
    """The same bytes, where small pieces become larger ones; large ones are not copied."""
    part, size = [], 0
    for piece in pieces:
        is_large = len(piece) >= LARGE_NBYTES
        if part and (is_large or size >= LARGE_NBYTES):
            yield b"".join(part)
            part, size = [], 0
        if is_large:
            yield piece
        else:
            part.append(piece)
            size += len(piece)
    yield b"".join(part)


class Heap:
    """A heap that stays in memory.

    Attributes
    ----------
    nbytes, total : int
        Length and checksum of the streams that were taken so far.
    """

    def __init__(self):
        self.nbytes = self.total = 0

    def take(self, tiles):
        """Take the next `EncodedTiles`; gives what is to be kept of them."""
        for piece in put_together(tiles.heap):
            self.total = continued_sum(self.total, self.nbytes, ones_sum([piece]))
            self.nbytes += len(piece)
            self.store(piece)
        return self.kept(tiles)

    def store(self, piece):
        """Put a piece where it is to be."""

    def kept(self, tiles):
        """What is left of tiles whose streams were stored."""
        return tiles


class HeapFile(Heap):
    """A heap that is written while it grows.

    What stands before it in the file, header and table, is known last: room is left for it.

    Parameters
    ----------
    file : binary file
        Writable and readable.
    start : int
        Where the heap is to begin, or to begin at least.
    """

    def __init__(self, file, start):
        super().__init__()
        self.file, self.start = file, start
        file.seek(start)

    def store(self, piece):
        """Write a piece."""
        self.file.write(piece)

    def kept(self, tiles):
        """Tiles without their streams."""
        return replace(tiles, heap=[])

    def move(self, start):
        """Move what was written, so that it begins at `start`, which is not before where it was."""
        left = self.nbytes if start != self.start else 0
        while left:
            n = min(left, CHUNK)
            left -= n
            self.file.seek(self.start + left)
            piece = self.file.read(n)
            self.file.seek(start + left)
            self.file.write(piece)
        self.start = start
