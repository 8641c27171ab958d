# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""NOCOMPRESS: pixels as they are, big-endian (FITS Standard 4.0, section 10.4)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _native
from ..context import current_context
from ..errors import DecodeError, EncodeError
from .base import TileCodec, where
from .buffers import (
    allocate,
    as_array,
    as_bytes,
    contiguous,
    deliver,
    receive,
)

__all__ = ["NoCompress", "RawCodec"]


@dataclass(frozen=True, kw_only=True)
class RawCodec(TileCodec):
    """Base of the codecs whose streams are big-endian pixels, wrapped in something or not.

    They hold pixels of any type. How many bytes a pixel has is read from the length of the
    unwrapped stream, not from the image's type.
    """

    native: ClassVar[str] = "NOCOMPRESS"
    bitpix: ClassVar[tuple] = (8, 16, 32, 64, -32, -64)
    native_parameters_vary: ClassVar[bool] = True
    shuffled: ClassVar[bool] = False
    largest_itemsize: ClassVar[int] = 8

    def wrap(self, raw):
        """The stream that holds these bytes."""
        return raw

    def stored_dtype(self, context=None):
        """Type of the context's stored pixels; bytes without a context."""
        known = None if context is None else context.stored_dtype
        return np.dtype("uint8") if known is None else known

    def native_parameters(self, nbytes, npixels, place):
        itemsize, rest = divmod(nbytes, npixels)
        if rest or itemsize not in (1, 2, 4, 8):
            raise DecodeError(
                f"{place}: {nbytes} bytes for {npixels} pixels, wanted 1, 2, 4 or 8 for each"
            )
        return (itemsize, int(self.shuffled))

    def parameters_for(self, dtype):
        if type(self).encode is not RawCodec.encode or (self.wrapped and not self.gzip_level):
            return None
        return (dtype.itemsize, int(self.shuffled)), dtype

    def native_dtype(self, parameters, floats):
        itemsize = parameters[0]
        if floats and itemsize >= 4:
            return np.dtype(f"f{itemsize}")
        return np.dtype("u1" if itemsize == 1 else f"i{itemsize}")

    def encode(self, buf, *, context=None):
        """Compress one tile of any numeric type and byte order; see `TileCodec.encode`."""
        context = context or current_context()
        place = where(self.zcmptype[0], context)
        array = as_array(buf)
        if array.dtype.kind not in "iufb" or array.itemsize not in (1, 2, 4, 8):
            raise EncodeError(f"{place}: pixels of type {array.dtype}, wanted 1, 2, 4 or 8 bytes")
        if array.size == 0:
            raise EncodeError(f"{place}: a tile without pixels")
        npixels = context.npixels if context is not None else None
        if npixels is not None and npixels != array.size:
            raise EncodeError(f"{place}: {array.size} pixels, wanted {npixels}")
        return memoryview(self.wrap(self._to_big_endian(array, place)))

    def _to_big_endian(self, array, place):
        pixels = contiguous(array, array.dtype.newbyteorder("="))
        parameters = (pixels.itemsize, int(self.shuffled))
        return _native.encode(self.native, place, pixels, pixels.size, 1, parameters)

    def decode(self, buf, out=None, *, context=None):
        """Decompress one tile.

        With a context that has a shape and a dtype, pixels of ``context.stored_dtype``, native
        and tile-shaped. Otherwise the bytes, big-endian and not shuffled. See `TileCodec.decode`.
        """
        context = context or current_context()
        place = where(self.zcmptype[0], context)
        stream = as_bytes(buf)
        if context is None or context.shape is None or context.stored_dtype is None:
            shape = self._shape(context, None)
            npixels = None if shape is None else int(np.prod(shape, dtype=np.int64))
            raw = as_bytes(self._big_endian(stream, npixels, place))
            work, target = receive(out, raw.dtype, raw.shape, place)
            work[...] = raw
            return deliver(work, target)

        npixels = context.npixels
        raw, _ = self.unpack(stream, npixels, place)
        parameters = self.native_parameters(len(raw), npixels, place)
        dtype = context.stored_dtype
        same = parameters[0] == dtype.itemsize
        found = dtype if same else self.native_dtype(parameters, dtype.kind == "f")
        work, target = receive(out, dtype, context.shape, place)
        pixels = work if found == dtype else allocate(context.shape, found, place)
        _native.decode(self.native, place, raw, npixels, 1, parameters, pixels)
        if pixels is not work:
            self._convert(pixels, work, place)
        return deliver(work, target)

    def _big_endian(self, stream, npixels, place):
        """The unwrapped bytes when the type of pixel is not known."""
        return self.unpack(stream, npixels, place)[0]

    def _convert(self, pixels, out, place):
        """Pixels of another size than the image's, if their values fit."""
        if (pixels.dtype.kind == "f") != (out.dtype.kind == "f"):
            raise DecodeError(
                f"{place}: pixels of {pixels.itemsize} bytes, "
                f"wanted {out.dtype.itemsize} for {out.dtype}"
            )
        if out.dtype.kind != "f":
            info = np.iinfo(out.dtype)
            low, high = int(pixels.min()), int(pixels.max())
            if low < info.min or high > info.max:
                raise DecodeError(
                    f"{place}: pixel values {low} to {high}, wanted {info.min} to {info.max}"
                )
        out[...] = pixels


@dataclass(frozen=True, kw_only=True)
class NoCompress(RawCodec):
    """Pixels as big-endian bytes.

    Parameters
    ----------
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> bytes(fc.NoCompress().encode(np.array([1, 2], "i2")))
    b'\\x00\\x01\\x00\\x02'
    """

    codec_id: ClassVar[str] = "fits_nocompress"
    zcmptype: ClassVar[tuple] = ("NOCOMPRESS",)
