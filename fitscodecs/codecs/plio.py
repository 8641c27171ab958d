# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""PLIO_1: the IRAF pixel list, run lengths for masks (FITS Standard 4.0, section 10.4.3)."""

from dataclasses import dataclass
from typing import ClassVar

from .base import TileCodec

__all__ = ["Plio1"]


@dataclass(frozen=True, kw_only=True)
class Plio1(TileCodec):
    """IRAF pixel list codec, for masks and other images of few values.

    `encode` takes integers from 0 to 2**24 - 1 and gives big-endian 16-bit words; `decode` gives
    int32. The stream does not say how many pixels it has: decoding needs a context or
    `tile_shape`, and pixels that the list does not reach are 0.

    Parameters
    ----------
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.Plio1(tile_shape=(10,))
    >>> stream = codec.encode(np.array([0, 0, 1, 1, 1, 0, 5, 5, 0, 7]))
    >>> codec.decode(stream).tolist()
    [0, 0, 1, 1, 1, 0, 5, 5, 0, 7]
    """

    codec_id: ClassVar[str] = "fits_plio_1"
    zcmptype: ClassVar[tuple] = ("PLIO_1",)
    native: ClassVar[str] = "PLIO_1"
    heap_letter: ClassVar[str] = "I"
    unsigned_offset: ClassVar[bool] = True
    holds_negative: ClassVar[bool] = False
