# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From pixels to tiles: settle how an image is to be compressed, then encode its tiles."""

import math
import operator
from dataclasses import dataclass, field, replace

import numpy as np

from . import _native
from .codecs import Gzip1, Gzip2, Quantize, Rice1, TileCodec, codec_class
from .codecs.base import native_shape
from .codecs.options import options_of
from .context import DecodeContext
from .errors import EncodeError, NotQuantizable
from .grid import plan
from .scaling import stored_dtype, to_stored
from .table import COLUMNS
from .tile import TASK_NPIXELS, THREADS_NPIXELS, in_threads, tasks

__all__ = ["EncodeContext", "EncodedTile", "Settings", "encode_tiles", "settle"]


@dataclass(slots=True)
class EncodeContext(DecodeContext):
    """A tile about to be encoded, as `tile_options` sees it.

    Attributes
    ----------
    position : tuple of int
        First pixel of the tile in the image, slow axis first.
    pixels : ndarray
        The pixels of the tile; they must not be changed.
    """

    position: tuple = ()
    pixels: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def noise(self):
        """Noise of the tile: the smallest of three estimates, 0 if it cannot be measured."""
        return noise(self.pixels)


def noise(pixels):
    """Noise of a tile along its rows, as quantization measures it.

    Integers are measured in double precision, in which their differences are exact.
    """
    floats = pixels if pixels.dtype.kind == "f" else pixels.astype(np.float64)
    nx, ny = native_shape(pixels.shape)
    estimates = _native.noise(np.ascontiguousarray(floats), floats.itemsize == 8, nx, ny)
    measured = [n for n in estimates if n > 0]
    return min(measured, default=0.0)


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


@dataclass(frozen=True, slots=True)
class EncodedTile:
    """One row of the table and its stream."""

    column: int  # index in COLUMNS
    stream: bytes
    scale: float = 0.0
    zero: float = 0.0
    has_nan: bool = False
    blank: int | None = None  # null integer, where tiles of an image have different ones


# ---------------------------------------------------------------------------- settings


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


# ---------------------------------------------------------------------------- tiles


def encode_tiles(settings, array, threads=1, done=None):
    """Encode all tiles of an image.

    Parameters
    ----------
    settings : Settings
    array : ndarray
        Of the settings' shape, of any byte order and strides.
    threads : int
    done : callable, optional
        Called with the number of pixels of each part that is finished.

    Returns
    -------
    list of EncodedTile
        In the order of the table.

    Raises
    ------
    EncodeError
        For the first tile with pixels that the codec cannot hold.
    """
    pieces = plan(settings.shape, settings.tile_shape, [range(n) for n in settings.shape])
    grid = [-(-n // t) for n, t in zip(settings.shape, settings.tile_shape, strict=True)]
    npixels = math.prod(settings.shape)
    parts = tasks(pieces, min(TASK_NPIXELS, max(THREADS_NPIXELS // 2, npixels // (2 * threads))))

    def work(rows):
        corners = np.stack(np.unravel_index(pieces.tiles[rows], grid), axis=-1)
        corners *= settings.tile_shape
        encoded = [
            encode_tile(settings, array, row, tuple(corner), tuple(shape))
            for row, corner, shape in zip(pieces.tiles[rows].tolist(), corners.tolist(),
                                          pieces.shape[rows].tolist(), strict=True)
        ]  # fmt: skip
        if done is not None:
            done(int(np.prod(pieces.shape[rows], axis=1).sum()))
        return encoded

    return [tile for encoded in in_threads(work, parts, threads) for tile in encoded]


def encode_tile(settings, array, row, corner, shape):
    """Encode one tile, given by its first pixel and its shape."""
    where = tuple(slice(a, a + n) for a, n in zip(corner, shape, strict=True))
    tile = np.ascontiguousarray(array[where], settings.dtype)
    seen = tile.view()
    seen.flags.writeable = False  # it may be the caller's own memory
    context = EncodeContext(row=row, shape=shape, dtype=settings.dtype, position=corner,
                            pixels=seen)  # fmt: skip
    options = options_of(context, f"tile {row}")
    codec = settings.compression.adjusted(options)
    if settings.quantize is not None:
        return quantized_tile(settings, codec, options, tile, context)
    pixels = to_stored(tile)
    if settings.offset:
        pixels = pixels.astype(np.int32) + settings.offset
    undefined = settings.blank is not None and bool((pixels == settings.blank).any())
    codec = scaled_codec(settings, codec, pixels, undefined)
    return EncodedTile(0, bytes(codec.encode(pixels, context=context)))


def quantized_tile(settings, codec, options, tile, context):
    """A float tile as integers, or as it is if it cannot be quantized."""
    # Noise is measured along the first axis longer than 1, which is not the last one of every tile.
    nx, ny = native_shape(tile.shape)
    context.shape = (ny, nx)
    try:
        integers = settings.quantize.adjusted(options).encode(tile, context=context)
    except NotQuantizable:
        column = COLUMNS.index("GZIP_COMPRESSED_DATA")
        return EncodedTile(column, bytes(Gzip1().encode(tile, context=context)))
    has_nan = bool(np.isnan(tile).any())
    pixels = np.asarray(integers).reshape(tile.shape)
    context.shape = tile.shape
    codec = scaled_codec(settings, codec, pixels, has_nan)
    stream = bytes(codec.encode(pixels, context=context))
    return EncodedTile(0, stream, context.scale, context.zero, has_nan)


def scaled_codec(settings, codec, pixels, undefined):
    """The codec with the scale of this tile.

    A lossy stream would change the integers that stand for undefined pixels: tiles that hold some
    are stored without loss.
    """
    if "scale" not in codec.per_tile:
        return codec
    request = settings.scale_request
    if request is None and (codec.scale <= 1 or not undefined):
        return codec
    if undefined:
        return replace(codec, scale=0)
    wanted = request * noise(pixels) if request > 0 else -request
    if not wanted < 2**31 - 1:
        raise EncodeError(f"a scale of {wanted:g} for this tile, wanted less than 2**31")
    return replace(codec, scale=int(np.float32(wanted) + np.float32(0.5)))
