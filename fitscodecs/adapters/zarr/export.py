# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The chunks of an array of HDUs as FITS files."""

import itertools

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from ...chunk import drive, index_steps
from ...header import BLOCK
from ...image import Named
from ...source import SIMPLE
from ...writer import PRIMARY
from .ranges import contents
from .tiled import FitsTiled

__all__ = ["chunk_files", "file_of"]


def chunk_files(array):
    """The chunks of an array as the contents of FITS files.

    Parameters
    ----------
    array : zarr.Array
        Of format 3, whose only codec is `FitsTiled`.

    Yields
    ------
    position : tuple of int
        Of the chunk in the grid of chunks.
    file : list of bytes or None
        Parts of the file, with an empty primary HDU in front of an extension; None if there is no
        such chunk.

    Raises
    ------
    ValueError
        If the chunks of the array are no HDUs.
    FitsCodecsError
        If a chunk is none.
    """
    codecs = getattr(array.metadata, "codecs", ())
    if len(codecs) != 1 or not isinstance(codecs[0], FitsTiled):
        names = ", ".join(type(codec).__name__ for codec in codecs) or "those of format 2"
        raise ValueError(f"found the codecs {names}, wanted FitsTiled alone")
    for position in itertools.product(*(range(n) for n in array.cdata_shape)):
        key = array.metadata.encode_chunk_key(position)
        buffer = sync((array.store_path / key).get(default_buffer_prototype()))
        if buffer is None:
            yield position, None
            continue
        with Named(key):
            yield position, file_of(contents(buffer))


def file_of(hdu):
    """The parts of a file with one HDU; FitsCodecsError if the bytes are no image HDU."""
    drive(index_steps(len(hdu), len(hdu)), lambda ranges: [hdu])
    front = [] if bytes(hdu[: len(SIMPLE)]) == SIMPLE else [PRIMARY]
    return [*front, hdu, bytes(-len(hdu) % BLOCK)]
