# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""FitsTile: one self-describing chunk, which carries its context with it.

Layout of a frame, version 1, integers big-endian:

====== ======== ==========================================================================
offset bytes    content
====== ======== ==========================================================================
0      4        ``FTIL``
4      1        version, 1
5      3        length of the description
8      that     description: a JSON object in UTF-8, with the keys ``context`` (the tile, see
                `DecodeContext.to_dict`), ``compression`` (configuration of the codec of the
                stream) and ``quantize`` (configuration, or null if the pixels are not quantized);
                and where that is so of the pixels to give back, ``byteorder``, "big", and
                ``order``, "F"
...    the rest the stream, exactly as it would stand in the heap of a FITS file
====== ======== ==========================================================================
"""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..context import DecodeContext, current_context
from ..errors import DecodeError, EncodeError, NotQuantizable
from ..scaling import from_stored, stored_dtype, to_stored
from .base import Codec, TileCodec
from .buffers import as_array, as_bytes, contiguous, deliver, receive
from .gzip import Gzip1, Gzip2
from .options import options_of
from .quantize import Quantize
from .rice import Rice1

__all__ = ["FitsTile"]

FITS_TYPES = {
    *("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float32", "float64"),
}
MAGIC = b"FTIL"
VERSION = 1
HEAD_NBYTES = 8


def configured(value, classes):
    """A codec from its configuration; a codec or None is what it is."""
    if value is None or isinstance(value, Codec):
        return value
    for cls in classes:
        if cls.codec_id == value.get("id"):
            return cls.from_config(value)
    raise ValueError(f"no codec with id {value.get('id')!r}")


def holds_unsigned(compression, dtype):
    """Whether the codec takes unsigned pixels as they are, and not as FITS stores them."""
    return compression is not None and compression.unsigned_offset and dtype.kind == "u"


@dataclass(frozen=True, kw_only=True)
class FitsTile(Codec):
    """One tile, compressed, in a frame that holds all that is needed to decode it.

    What a plain zarr array or numcodecs user wants, above all for floats: scale, zero point and
    null integer of the tile travel with its bytes. `encode` takes any type that FITS holds and
    `decode` gives it back, in its byte order if it was encoded without a context.

    Parameters
    ----------
    compression : TileCodec, optional
        None: RICE_1 for integers up to 32 bits and quantized floats, GZIP_2 for the rest.
    quantize : Quantize, optional
        None: floats stay lossless. A tile that cannot be quantized stays lossless as well.
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given; None: the shape of what is encoded.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.FitsTile(quantize=fc.Quantize(level=-0.5))
    >>> codec.decode(codec.encode(np.array([1.0, 2.5, np.nan], "f4"))).tolist()
    [1.0, 2.5, nan]
    """

    codec_id: ClassVar[str] = "fits_tile"

    compression: TileCodec | None = None
    quantize: Quantize | None = None
    tile_shape: tuple | None = None

    def __post_init__(self):
        set_field = object.__setattr__
        set_field(self, "compression", configured(self.compression, TileCodec.listed))
        set_field(self, "quantize", configured(self.quantize, [Quantize]))
        if self.tile_shape is not None:
            set_field(self, "tile_shape", tuple(int(n) for n in self.tile_shape))

    def get_config(self):
        """Configuration as nested dictionaries of JSON types, with the key ``id``."""
        return {
            "id": self.codec_id,
            "compression": self.compression and self.compression.get_config(),
            "quantize": self.quantize and self.quantize.get_config(),
            "tile_shape": self.tile_shape and list(self.tile_shape),
        }

    # ------------------------------------------------------------------ encode

    def encode(self, buf, *, context=None):
        """Compress one tile into a frame.

        Parameters
        ----------
        buf : buffer
            Pixels of a type that FITS holds, of either byte order. Without a context the frame
            keeps how they lie in memory: their byte order, and C or Fortran order.
        context : DecodeContext, optional
            The tile; its row selects the dither values. It is not changed.

        Returns
        -------
        memoryview
            The frame, format ``'B'``, one-dimensional.

        Raises
        ------
        EncodeError
            If the codec that was asked for cannot hold the pixels.
        """
        array = as_array(buf)
        if array.dtype.newbyteorder("=").name not in FITS_TYPES or array.size == 0:
            raise EncodeError(
                f"FitsTile: {array.size} pixels of type {array.dtype}, wanted a type of FITS"
            )
        context, byteorder, is_fortran = context or current_context(), None, False
        if context is None:
            context, byteorder = DecodeContext(), array.dtype.str[0]
            is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        pixels = contiguous(array, array.dtype.newbyteorder("="))
        shape = context.shape or self.tile_shape or pixels.shape
        tile = DecodeContext(row=context.row, shape=shape, dtype=pixels.dtype)
        if tile.npixels != pixels.size:
            raise EncodeError(f"FitsTile: {pixels.size} pixels, wanted {tile.npixels}")
        quantize, compression, stream = self._compress(pixels, tile)
        parts = {
            "context": tile.to_dict(),
            "compression": compression.get_config(),
            "quantize": quantize and quantize.get_config(),
        }
        if byteorder == ">":
            parts["byteorder"] = "big"
        if is_fortran and array.shape == shape:
            parts["order"] = "F"
        description = json.dumps(parts).encode()
        return memoryview(
            MAGIC
            + bytes([VERSION])
            + len(description).to_bytes(3, "big")
            + description
            + bytes(stream)
        )

    def _compress(self, pixels, tile):
        """The codecs used and the stream; the tile's context gets what decoding will need."""
        options = options_of(tile, "FitsTile")
        quantize = self.quantize if pixels.dtype.kind == "f" else None
        stored = to_stored(pixels)
        if holds_unsigned(self.compression, pixels.dtype):
            stored = pixels.astype(np.int64)
        if quantize is not None:
            try:
                quantize = quantize.adjusted(options)
                stored = np.asarray(quantize.encode(pixels, context=tile))
            except NotQuantizable:
                quantize = None
        compression = self._compression(stored).adjusted(options)
        bitpix = to_stored(pixels[:0]).itemsize * (-8 if pixels.dtype.kind == "f" else 8)
        if quantize is None and bitpix not in compression.bitpix:
            if stored.dtype.kind != "f":
                raise EncodeError(f"{compression.zcmptype[0]} cannot hold {pixels.dtype}")
            tile.column, compression = "GZIP_COMPRESSED_DATA", Gzip1()
        return quantize, compression, compression.encode(stored)

    def _compression(self, stored):
        if self.compression is not None:
            return self.compression
        if stored.dtype.kind != "f" and stored.itemsize <= 4:
            return Rice1.for_dtype(stored.dtype)
        return Gzip2()

    # ------------------------------------------------------------------ decode

    def decode(self, buf, out=None, *, context=None):
        """Decompress one frame.

        Parameters
        ----------
        buf : buffer
            A frame, as `encode` gives it.
        out : writable contiguous buffer, optional
            Memory of exactly the right number of bytes for the result. If it is typed as the
            pixels are, its byte order is the one that is given.
        context : DecodeContext, optional
            If it has a shape, the frame's must be the same.

        Returns
        -------
        memoryview
            Pixels of the type that was encoded, with the shape of the tile, in memory as the
            frame tells.

        Raises
        ------
        DecodeError
            If the frame is damaged, of another version, or of another shape.
        """
        stream = as_bytes(buf)
        tile, compression, quantize, (byteorder, order), start = self._open(stream)
        context = context or current_context()
        if context is not None and context.shape not in (None, tile.shape):
            raise DecodeError(f"FitsTile: tile of shape {tile.shape}, wanted {context.shape}")
        dtype = np.dtype(tile.dtype)
        place = f"FitsTile tile {tile.row}"
        work, target = receive(out, dtype.newbyteorder(byteorder), tile.shape, place)
        stored = DecodeContext(
            row=tile.row,
            shape=tile.shape,
            dtype=stored_dtype(dtype),
            scale=tile.scale,
            zero=tile.zero,
            blank=tile.blank,
            column=tile.column,
        )
        pixels = np.asarray(compression.decode(stream[start:], context=stored))
        if stored.quantized:
            quantize.decode(pixels, work, context=stored)
        else:
            if not holds_unsigned(compression, dtype):
                pixels = from_stored(pixels.astype(stored.dtype, copy=False), dtype)
            work[...] = pixels
        if out is None and order == "F":
            target = np.empty(tile.shape, target.dtype, order)
        return deliver(work, target)

    def _open(self, frame):
        """Context, codec, quantizer, byte order and order of the pixels, start of the stream."""
        head = frame[:HEAD_NBYTES].tobytes()
        if len(head) < HEAD_NBYTES or head[:4] != MAGIC:
            raise DecodeError(f"FitsTile: frame starts with {head[:4]!r}, wanted {MAGIC!r}")
        if head[4] != VERSION:
            raise DecodeError(f"FitsTile: frame of version {head[4]}, wanted {VERSION}")
        start = HEAD_NBYTES + int.from_bytes(head[5:8], "big")
        if start > len(frame):
            raise DecodeError(f"FitsTile: frame of {len(frame)} bytes, wanted at least {start}")
        try:
            description = json.loads(frame[HEAD_NBYTES:start].tobytes())
            tile = DecodeContext.from_dict(description["context"])
            compression = configured(description["compression"], TileCodec.listed)
            quantize = configured(description["quantize"], [Quantize])
            layout = (
                {"little": "<", "big": ">"}[description.get("byteorder", "little")],
                {"C": "C", "F": "F"}[description.get("order", "C")],
            )
            complete = (
                tile.shape is not None
                and tile.dtype.name in FITS_TYPES
                and compression is not None
                and (
                    (quantize is not None and tile.zero is not None and tile.dtype.kind == "f")
                    or not tile.quantized
                )
            )
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise DecodeError(f"FitsTile: description of the frame: {error}") from error
        if not complete:
            raise DecodeError("FitsTile: description of the frame is not complete")
        return tile, compression, quantize, layout, start
