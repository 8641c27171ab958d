# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Tiles of a CompImageHDU, byte for byte as astropy writes them, made in one batch.

Where astropy's own tiles do not give the pixels back (a lossy HCOMPRESS_1 tile with undefined
pixels, some PLIO_1 masks) ours differ; see the documentation of the adapter.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from astropy.io.fits import FITS_rec
from astropy.io.fits.hdu.compressed import _tiled_compression
from astropy.utils.exceptions import AstropyUserWarning

from ...codecs import HCompress1, Quantize
from ...encode import encode_tiles
from ...header import tile_codec
from ...scaling import Scaling
from ...settle import Settings
from ...threads import THREADS
from ...writer import put_tiles
from .codecs import SCALE
from .counting import count
from .errors import encoding_as_astropy
from .quantization import DEFAULT_LEVEL, DITHER_METHODS, NAMES, seed_of
from .reading import tile_shape_of

__all__ = ["TileRows", "compress_image_data"]

NULL_INTEGER = -2147483648  # what astropy writes for NaN


class TileRows(FITS_rec):
    """The rows of a table of tiles, of which no arrays are made.

    astropy says the same of an array that it then replaces by a view, which knows nothing of that:
    it would make an array of each tile in each column, which takes longer than to compress them.
    """

    _load_variable_length_data = False


@dataclass(frozen=True, kw_only=True)
class AstropyQuantize(Quantize):
    """Quantization by astropy's rules.

    The noise is that of the tile as one row, a NaN counts as the lowest value of its tile when
    scale and zero point are found, and is stored as -2147483648.
    """

    def encode(self, buf, *, context=None):
        tile = np.asarray(buf)
        undefined = np.isnan(tile)
        any_undefined = bool(undefined.any())
        if any_undefined:
            lowest = 0 if undefined.all() else np.nanmin(tile)
            tile = np.where(undefined, tile.dtype.type(lowest), tile)
        shape, context.shape = context.shape, (1, tile.size)
        integers = super().encode(tile, context=context)
        context.shape = shape
        if any_undefined:
            integers = np.array(integers).reshape(tile.shape)
            integers[undefined] = context.blank = NULL_INTEGER
        return integers

    def batch_settings(self):
        """As one row, and tiles with NaN one by one."""
        plain = Quantize(level=self.level, method=self.method, seed=self.seed)
        return {**plain.batch_settings(), "is_flat": True, "leaves_nan": True}


@dataclass(frozen=True, kw_only=True)
class NegativeScale(HCompress1):
    """HCOMPRESS_1 without loss, whose streams name the negative scale that was asked for."""

    request: int

    def encode(self, buf, *, context=None):
        stream = bytearray(super().encode(buf, context=context))
        stream[SCALE] = self.request.to_bytes(4, "big", signed=True)
        return memoryview(stream)


def setting(header, name, default):
    """The ZVAL of a ZNAME."""
    return _tiled_compression._get_compression_setting(header, name, default)


def compression_of(header):
    """The codec that a table header asks for; its SCALE is the divisor itself."""
    codec = tile_codec(header)
    if "scale" not in codec.per_tile:
        return codec
    scale = int(setting(header, "SCALE", 0))
    return NegativeScale(request=scale) if scale < 0 else replace(codec, scale=scale)


def quantization_of(header):
    """The quantization that a table header asks for."""
    method = header.get("ZQUANTIZ", "NO_DITHER")
    return AstropyQuantize(
        level=setting(header, "noisebit", 0) or DEFAULT_LEVEL,
        method=NAMES[DITHER_METHODS[method]],
        seed=seed_of(int(header.get("ZDITHER0", 1))),
    )


def narrowed(array, compression_type, codec, header):
    """64-bit integers as 32-bit ones, for an algorithm that has no others.

    The header is changed with the array.
    """
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or 64 in codec.bitpix:
        return array
    dtype = np.dtype(f"{array.dtype.kind}4")
    info = np.iinfo(dtype)
    refusal = f"{compression_type} compression doesn't support 64 integers, "
    if array.size and not (info.min <= array.min() and array.max() <= info.max):
        raise ValueError(
            refusal + "but data cannot be converted to 32 bits without overflow: "
            f"found {array.min()} to {array.max()}, wanted {info.min} to {info.max}"
        )
    header["ZBITPIX"] = 32
    if dtype.kind == "u":
        header["BZERO"] = 2**31
    warnings.warn(refusal + "data has been converted to 32 bits", AstropyUserWarning, stacklevel=2)
    return array.astype(dtype)


def unmasked(array, quantized):
    """What astropy stores for masked pixels: the fill value, or, if quantized, what they hide."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    return array.data if quantized else array.filled()


def integers_again(array, header):
    """The integers that an array of floats stands for, if its image is one of integers.

    BLANK alone makes floats of an image whose header goes on to say that it has integers.
    """
    if array.dtype.kind != "f" or header["ZBITPIX"] < 0:
        return array
    dtype = Scaling(bitpix=header["ZBITPIX"]).stored_dtype
    return np.where(np.isnan(array), header.get("BLANK", 0), array).astype(dtype)


def settings_of(array, header, quantized):
    """How to compress an array as the header of its table says, and the array to compress."""
    codec = compression_of(header)
    array = integers_again(array, header)
    if array.dtype.kind == "f" and not quantized and -8 * array.dtype.itemsize not in codec.bitpix:
        # Floats at quantize_level 0 in an algorithm that has integers only: their whole parts.
        array = array.astype(codec.stored_dtype().newbyteorder("="))
    settings = Settings(
        shape=array.shape,
        tile_shape=tuple(int(n) for n in np.minimum(tile_shape_of(header), array.shape)),
        dtype=array.dtype.newbyteorder("="),
        compression=codec,
        quantize=quantization_of(header) if quantized and array.dtype.kind == "f" else None,
        blank=header.get("BLANK") if array.dtype.kind != "f" else None,
    )
    return settings, array


def compress_image_data(image_data, compression_type, compressed_header, compressed_coldefs):
    """Compress an image into the data unit of its table.

    Parameters
    ----------
    image_data : ndarray
    compression_type : str
        ZCMPTYPE, as errors and warnings name it.
    compressed_header : astropy.io.fits.Header
        Of the table. ZBLANK is set if NaN was stored as an integer, ZBITPIX and BZERO if 64-bit
        integers were narrowed.
    compressed_coldefs : astropy.io.fits.ColDefs
        The columns of the table.

    Returns
    -------
    bytes
        The rows, then the heap.
    """
    if not isinstance(image_data, np.ndarray):
        raise TypeError("Image data must be a numpy.ndarray")
    _tiled_compression._check_compressed_header(compressed_header)
    codec = compression_of(compressed_header)
    kind, itemsize = image_data.dtype.kind, image_data.dtype.itemsize
    if not codec.holds_negative and kind == "u" and itemsize > 1:
        raise ValueError(
            f"{compression_type} compression does not support unsigned integers larger than 8 bits"
        )
    dtype = compressed_coldefs.dtype.newbyteorder(">")
    quantized = "ZSCALE" in dtype.names
    array = narrowed(unmasked(image_data, quantized), compression_type, codec, compressed_header)
    if array.size == 0:
        return b""
    settings, array = settings_of(array, compressed_header, quantized)
    with encoding_as_astropy(codec):
        tiles = encode_tiles(settings, array, THREADS)
    if tiles.has_nan.any():
        compressed_header["ZBLANK"] = NULL_INTEGER
    rows = np.zeros(len(tiles), dtype)
    put_tiles(rows, tiles, codec.heap_letter)
    count(encoded=len(tiles))
    return b"".join([rows.tobytes(), *tiles.heap])
