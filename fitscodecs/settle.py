# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How an image is to be compressed: choose what is left open, refuse what cannot be written."""

import math
import operator
from dataclasses import dataclass

import numpy as np

from . import _native
from .codecs import Gzip2, Quantize, Rice1, TileCodec, codec_class
from .errors import EncodeError
from .scaling import stored_dtype

__all__ = ["Settings", "settle"]


@dataclass(frozen=True)
class Settings:
    """How an image is compressed; made by `settle`, which checks that all of it agrees.

    Attributes
    ----------
    shape, tile_shape : tuple of int
    dtype : numpy.dtype
        Of the pixels as they are given.
    compression : TileCodec
    quantize : Quantize or None
    scale_request : float or None
        Scale of a lossy HCOMPRESS_1: a multiple of the noise of each tile, or, below 0, minus the
        scale itself. It is what the header tells; None: the scale of the codec.
    blank : int or None
        Stored integer that means "undefined".
    offset : int
        What to add to stored integers for a codec that holds unsigned ones.
    zcmptype : str
        Name of the algorithm in the header.
    """

    shape: tuple
    tile_shape: tuple
    dtype: np.dtype
    compression: TileCodec
    quantize: Quantize | None = None
    scale_request: float | None = None
    blank: int | None = None
    offset: int = 0
    zcmptype: str = ""

    @property
    def stored_dtype(self):
        """Type of the pixels in the file."""
        return stored_dtype(self.dtype)

    @property
    def bitpix(self):
        """ZBITPIX."""
        stored = self.stored_dtype
        return stored.itemsize * (-8 if stored.kind == "f" else 8)

    @property
    def lossy_integers(self):
        """Whether a lossy codec changes the integers."""
        request = self.scale_request
        if request is None:
            return "scale" in self.compression.per_tile and self.compression.scale > 1
        return request != 0

    def parameter(self, name):
        """ZVAL of a parameter of the codec."""
        if name == "SCALE":
            request = self.scale_request
            return float(self.compression.scale if request is None else request)
        return int(getattr(self.compression, name.lower()))

    @property
    def ntiles(self):
        return math.prod(-(-n // t) for n, t in zip(self.shape, self.tile_shape, strict=True))


def settle(shape, dtype, compression=None, quantize=None, tile_shape=None, scale_request=None,
           blank=None, unsigned=None, as_cfitsio=False):  # fmt: skip
    """Choose what is left open, and refuse what cannot be written.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype-like
        A type that FITS holds, of either byte order.
    compression : str, TileCodec or None
        ZCMPTYPE or codec. None: RICE_1 for integers up to 32 bits and for quantized floats,
        GZIP_2 for the rest.
    quantize : Quantize or None
        None: floats are kept without loss.
    tile_shape : tuple of int or None
        None: what the standard, or the codec, has as default.
    scale_request, blank
        See `Settings`.
    unsigned : bool, optional
        Whether stored 16-bit integers stand for unsigned ones; by default what `dtype` says.
    as_cfitsio : bool
        Write the alias of an algorithm where cfitsio does: with SUBTRACTIVE_DITHER_2, so that
        readers that do not know this method stop.

    Returns
    -------
    Settings

    Raises
    ------
    EncodeError
        If the codec cannot hold such pixels or tiles.
    """
    dtype = np.dtype(dtype).newbyteorder("=")
    shape = tuple(int(n) for n in shape)
    check_image(shape, dtype)
    floats = dtype.kind == "f"
    if quantize is not None and not floats:
        raise EncodeError(f"quantize is for floats, the image is {dtype}")
    codec = chosen_codec(compression, stored_dtype(dtype), quantize)
    name = codec.zcmptype[0]
    bitpix = 32 if quantize is not None else stored_dtype(dtype).itemsize * (-8 if floats else 8)
    if bitpix not in codec.bitpix:
        hint = "; quantize them, or use GZIP_2" if floats else ""
        raise EncodeError(f"{name} cannot hold {dtype} pixels{hint}")
    if quantize is not None and not codec.holds_negative:
        raise EncodeError(f"{name} cannot hold quantized floats, which may be negative")
    if codec.clips and quantize is not None and quantize.method == "SUBTRACTIVE_DITHER_2":
        raise EncodeError(f"{name} does not go with SUBTRACTIVE_DITHER_2, whose zeros a lossy "
                          "stream would change; use SUBTRACTIVE_DITHER_1")  # fmt: skip
    if scale_request is not None and "scale" not in codec.per_tile:
        raise EncodeError(f"{name} has no scale")
    if scale_request is not None and not abs(scale_request) < 2**31:
        raise EncodeError(f"scale {scale_request}, wanted a number below 2**31")
    tile_shape = chosen_tiles(codec, shape, tile_shape)
    if unsigned is None:
        unsigned = dtype == np.uint16
    offset = 2**15 if unsigned and codec.unsigned_offset and bitpix == 16 else 0
    alias = as_cfitsio and quantize is not None and quantize.method == "SUBTRACTIVE_DITHER_2"
    name = codec.zcmptype[-1 if alias else 0]
    return Settings(
        shape, tile_shape, dtype, codec, quantize, scale_request, blank, offset, name
    )  # fmt: skip


def check_image(shape, dtype):
    if dtype.kind not in "iuf" or dtype.itemsize not in (
        (4, 8) if dtype.kind == "f" else (1, 2, 4, 8)
    ):
        raise EncodeError(f"pixels of type {dtype}, which FITS does not hold")
    if not 1 <= len(shape) <= _native.MAX_DIMENSIONS:
        raise EncodeError(f"{len(shape)} axes, wanted 1 to {_native.MAX_DIMENSIONS}")
    if math.prod(shape) == 0:
        raise EncodeError(f"image of shape {shape} has no pixels")


def chosen_codec(compression, stored, quantize):
    """The codec to use, for pixels that are stored as this type."""
    integers = np.dtype("int32") if quantize is not None else stored
    if compression is None:
        compression = Rice1 if integers.kind != "f" and integers.itemsize <= 4 else Gzip2
    elif isinstance(compression, str):
        compression = codec_class(compression)
    if isinstance(compression, type):
        return compression.for_dtype(integers)
    if not isinstance(compression, TileCodec):
        raise TypeError(f"compression is {compression!r}, wanted a ZCMPTYPE or a codec")
    return compression


def chosen_tiles(codec, shape, tile_shape):
    """Tiles within the image; EncodeError if the codec cannot hold them all."""
    if tile_shape is None:
        tile_shape = codec.tile_shape or codec.default_tile_shape(shape)
    try:
        tile_shape = tuple(operator.index(n) for n in tile_shape)
    except TypeError:
        raise EncodeError(f"tile_shape {tile_shape!r}, wanted integers") from None
    if len(tile_shape) != len(shape) or any(n < 1 for n in tile_shape):
        raise EncodeError(f"tile_shape {tile_shape}, wanted {len(shape)} positive lengths")
    tile_shape = tuple(min(t, n) for t, n in zip(tile_shape, shape, strict=True))
    codec.check_tiles(shape, tile_shape)
    return tile_shape
