# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The codecs of `fitscodecs.codecs` with the names and arguments that astropy's own have.

They take the place of ``astropy.io.fits.hdu.compressed._codecs``. astropy is not imported here
until a tile is damaged: it may be in the middle of its own import.
"""

from contextvars import Context
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ... import codecs
from ...codecs.base import Codec
from ...codecs.buffers import as_array, as_bytes
from ...errors import EncodeError
from .errors import encoding_as_astropy, raising_as_astropy

__all__ = ["PLIO1", "Gzip1", "Gzip2", "HCompress1", "NoCompress", "Rice1"]

# Where an HCOMPRESS_1 stream has its scale. A negative one means lossless, as 0 does; our codec
# does not write it.
SCALE = slice(10, 14)


@lru_cache(maxsize=64)
def made(cls, **settings):
    """One of our codecs. astropy makes a new one for each tile; those of the same size share ours.

    Parameters
    ----------
    cls : type
        A class of `fitscodecs.codecs`.
    **settings
        Its configuration.
    """
    return cls(**settings)


def alone(method, *args):
    """Call a codec's method outside all ``with`` blocks of the caller: they speak of other tiles.

    Nor is there a context to be given: the tile's row, which errors would name, is not known here.
    """
    return Context().run(method, *args)


class DropIn(Codec):
    """Base of the classes: one of our codecs with the constructor, and the types, of astropy's."""

    gzipped: ClassVar[bool] = False

    def codec(self):
        """Our codec for a tile of the size that this one is for."""
        raise NotImplementedError

    def pixels(self, array):
        """The pixels to compress, of the type that is stored."""
        return array

    def stream(self, buf):
        """The bytes to decompress."""
        return buf

    def encode(self, buf):
        """Compress one tile.

        Parameters
        ----------
        buf : buffer
            Pixels of either byte order.

        Returns
        -------
        bytes

        Raises
        ------
        EncodeError
            If the codec cannot hold the pixels; it is a ValueError.
        """
        return bytes(alone(self.codec().encode, self.pixels(as_array(buf))))

    def decode(self, buf, out=None):
        """Decompress one tile.

        Parameters
        ----------
        buf : buffer
            The bytes from the heap.
        out : writable contiguous buffer, optional
            Memory of exactly the right number of bytes for the result.

        Returns
        -------
        ndarray
            One-dimensional; a view of `out` if given.

        Raises
        ------
        DecodeError
            If the stream is damaged or too short; it is also of the type that astropy raises.
        """
        with raising_as_astropy(self.gzipped):
            return np.asarray(alone(self.codec().decode, self.stream(buf), out)).reshape(-1)


@dataclass(frozen=True, kw_only=True)
class NoCompress(DropIn):
    """Pixels as big-endian bytes; `decode` gives the bytes."""

    codec_id: ClassVar[str] = "FITS_NOCOMPRESS"

    def codec(self):
        return made(codecs.NoCompress)


@dataclass(frozen=True, kw_only=True)
class Gzip1(DropIn):
    """Deflated big-endian pixels; `decode` gives the bytes."""

    codec_id: ClassVar[str] = "FITS_GZIP1"
    gzipped: ClassVar[bool] = True

    def codec(self):
        return made(codecs.Gzip1)


@dataclass(frozen=True, kw_only=True)
class Gzip2(DropIn):
    """Deflated big-endian pixels whose bytes are shuffled; `decode` gives them in order.

    Parameters
    ----------
    itemsize : int
        Bytes of a pixel when decoding. Encoding goes by the type of the pixels, and takes this
        for buffers of plain bytes only.
    """

    codec_id: ClassVar[str] = "FITS_GZIP2"
    gzipped: ClassVar[bool] = True

    itemsize: int

    def codec(self):
        return made(codecs.Gzip2, itemsize=self.itemsize)

    def encode(self, buf):
        array = as_array(buf)
        typed = isinstance(buf, np.ndarray) or array.itemsize > 1
        return bytes(alone((made(codecs.Gzip2) if typed else self.codec()).encode, array))


@dataclass(frozen=True, kw_only=True)
class Rice1(DropIn):
    """Rice coder; `decode` gives signed integers of `bytepix` bytes.

    Parameters
    ----------
    blocksize : int
        Pixels that share one code.
    bytepix : {4, 2, 1}
        Bytes of a pixel. Encoding casts to it without a check.
    tilesize : int
        Number of pixels when decoding. Encoding takes as many as it is given.
    """

    codec_id: ClassVar[str] = "FITS_RICE1"

    blocksize: int
    bytepix: int
    tilesize: int

    def codec(self):
        shape = (self.tilesize,)
        return made(codecs.Rice1, blocksize=self.blocksize, bytepix=self.bytepix, tile_shape=shape)

    def encode(self, buf):
        codec = made(codecs.Rice1, blocksize=self.blocksize, bytepix=self.bytepix)
        pixels = as_array(buf).astype(f"i{codec.bytepix}", copy=False)
        return bytes(alone(codec.encode, pixels.view(codec.stored_dtype())))

    def decode(self, buf, out=None):
        return super().decode(buf, out).view(f"i{self.codec().bytepix}")


@dataclass(frozen=True, kw_only=True)
class PLIO1(DropIn):
    """IRAF pixel list, whose 16-bit words are in native byte order here; `decode` gives int32.

    `decode` takes the words of an array or of plain bytes as native ones, and those of a
    big-endian array as what they are.

    Parameters
    ----------
    tilesize : int
        Number of pixels.
    """

    codec_id: ClassVar[str] = "FITS_PLIO1"

    tilesize: int

    def codec(self):
        return made(codecs.Plio1, tile_shape=(self.tilesize,))

    def pixels(self, array):
        return array.astype("i4", copy=False)

    def stream(self, buf):
        array = as_array(buf)
        return swapped(as_bytes(array.astype(array.dtype.newbyteorder("="), copy=False)))

    def encode(self, buf):
        with encoding_as_astropy(self.codec()):
            stream = super().encode(buf)
        return swapped(np.frombuffer(stream, np.uint8)).tobytes()


def swapped(raw):
    """16-bit words from native to big-endian or back; a last byte that is none is left out."""
    return raw[: raw.size // 2 * 2].view("=i2").astype(">i2")


@dataclass(frozen=True, kw_only=True)
class HCompress1(DropIn):
    """H-transform codec for two-dimensional tiles; `decode` gives int32.

    Parameters
    ----------
    scale : int
        Divisor of the coefficients when encoding; 1 and less is lossless. Decoding takes it from
        the stream.
    smooth : bool
        Whether decoding smooths a lossy stream.
    bytepix : {4, 8}
        Bytes of a pixel. Encoding casts to it without a check; the values must then be within
        the range of int32.
    nx, ny : int
        Length of the slow and of the fast axis of the tile, each at least 4 when encoding.
    """

    codec_id: ClassVar[str] = "FITS_HCOMPRESS1"

    scale: int
    smooth: bool
    bytepix: int
    nx: int
    ny: int

    def codec(self):
        if self.bytepix not in (4, 8):
            raise ValueError(f"bytepix {self.bytepix}, wanted 4 or 8")
        scale, smooth = max(self.scale, 0), bool(self.smooth)
        return made(codecs.HCompress1, scale=scale, smooth=smooth, tile_shape=(self.nx, self.ny))

    def pixels(self, array):
        return array.astype(f"i{self.bytepix}", copy=False)

    def encode(self, buf):
        if min(self.nx, self.ny) < 4:
            raise EncodeError(
                f"HCOMPRESS_1: tile of shape ({self.nx}, {self.ny}), wanted at least 4 x 4 pixels"
            )
        stream = bytearray(super().encode(buf))
        if self.scale < 0:
            stream[SCALE] = int(self.scale).to_bytes(4, "big", signed=True)
        return bytes(stream)
