# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""GZIP_1 and GZIP_2: deflated pixels, plain or shuffled (FITS Standard 4.0, section 10.4.2)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _native
from ..deflate import deflate, inflate, native_level
from ..errors import DecodeError, EncodeError
from .nocompress import RawCodec

__all__ = ["Gzip1", "Gzip2"]


@dataclass(frozen=True, kw_only=True)
class Gzip1(RawCodec):
    """Deflated big-endian pixels of any type.

    `encode` writes one gzip member with no time in its header. `decode` joins several members,
    checks their CRCs, and ignores what follows them.

    Parameters
    ----------
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.Gzip1()
    >>> context = fc.DecodeContext(shape=(2, 2), dtype="float32")
    >>> codec.decode(codec.encode(np.ones((2, 2), "f4")), context=context).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    codec_id: ClassVar[str] = "fits_gzip_1"
    zcmptype: ClassVar[tuple] = ("GZIP_1",)
    wrapped: ClassVar[bool] = True

    def wrap(self, raw):
        return deflate(raw)

    @property
    def gzip_level(self):
        return native_level()

    def unpack(self, stream, npixels, place):
        most = None if npixels is None else npixels * self.largest_itemsize
        return inflate(stream, most, place)


@dataclass(frozen=True, kw_only=True)
class Gzip2(Gzip1):
    """Like `Gzip1`, with the bytes shuffled first: all most significant ones, then all next ones.

    Smaller than `Gzip1` on most images, and what lossless floats are best stored with.

    Parameters
    ----------
    itemsize : {None, 1, 2, 4, 8}
        Bytes of a pixel, for decoding without a context, and for encoding buffers of plain bytes
        that hold big-endian pixels. None: what the type of the pixels says.
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.
    """

    codec_id: ClassVar[str] = "fits_gzip_2"
    zcmptype: ClassVar[tuple] = ("GZIP_2",)
    shuffled: ClassVar[bool] = True

    itemsize: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.itemsize not in (None, 1, 2, 4, 8):
            raise ValueError(f"itemsize {self.itemsize}, wanted 1, 2, 4 or 8")

    def parameters_for(self, dtype):
        native = super().parameters_for(dtype)
        return native if self.itemsize in (None, dtype.itemsize) else None

    def _to_big_endian(self, array, place):
        if self.itemsize is not None and array.itemsize != self.itemsize:
            if array.itemsize != 1 or array.size % self.itemsize:
                raise EncodeError(
                    f"{place}: {array.size} pixels of {array.itemsize} bytes, "
                    f"wanted items of {self.itemsize}"
                )
            array = np.ascontiguousarray(array).reshape(-1).view(f">i{self.itemsize}")
        return super()._to_big_endian(array, place)

    def _big_endian(self, stream, npixels, place):
        raw, _ = self.unpack(stream, npixels, place)
        itemsize = self.itemsize
        if itemsize is None:
            if npixels is None:
                raise DecodeError(
                    f"{place}: the size of a pixel is not known; "
                    "give a context, tile_shape or itemsize"
                )
            itemsize = self.native_parameters(len(raw), npixels, place)[0]
        npixels, rest = divmod(len(raw), itemsize)
        if rest or not npixels:
            raise DecodeError(f"{place}: {len(raw)} bytes, wanted a multiple of {itemsize}")
        pixels = np.empty(npixels, f"u{itemsize}")
        _native.decode(self.native, place, raw, npixels, 1, (itemsize, 1), pixels)
        return pixels.astype(f">u{itemsize}")
