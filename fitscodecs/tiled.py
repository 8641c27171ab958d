# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Chunks that are HDUs, for arrays of other packages: configuration, encoding, decoding."""

import operator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .chunk import whole_chunk
from .codecs import Codec, Quantize, TileCodec, codec_class
from .codecs.buffers import as_array, as_bytes, check_memory, receive
from .codecs.frame import configured
from .context import tile_options
from .errors import EncodeError
from .scaling import stored_dtype
from .settle import settle
from .writer import encode_image

__all__ = ["HduFormat", "TiledHDU"]


@dataclass(frozen=True)
class HduFormat:
    """What is the same for all chunks of an array of HDUs.

    Parameters
    ----------
    layout : str
        ``"hdu"``: a chunk is one HDU, from its header to its last byte.
    tile_shape : tuple of int, optional
        Decoded shape of a tile, slow axis first. Encoding makes such tiles; for decoding it is a
        hint to users, since every header tells its own.
    index_nbytes : int, optional
        How much of a chunk to read at first: about its header and table. Not more than the
        smallest chunk has.
    scaled : bool
        Whether BSCALE, BZERO and BLANK are applied.
    compression : str, TileCodec or None
        How to encode; see `encode_image`. A mapping is the configuration of a codec.
    quantize : Quantize or None
        As well.
    encodes : bool
        Whether the configuration says how to encode; else encoding uses the defaults.
    """

    layout: str = "hdu"
    tile_shape: tuple | None = None
    index_nbytes: int | None = None
    scaled: bool = True
    compression: object = None
    quantize: Quantize | None = None
    encodes: bool = False

    @classmethod
    def from_config(cls, config):
        """From a configuration with the keys layout, tile_shape, index_nbytes, scaled, encode."""
        known = ("layout", "tile_shape", "index_nbytes", "scaled", "encode")
        if unknown := set(config) - set(known):
            raise ValueError(f"found {', '.join(sorted(unknown))} in the configuration, "
                             f"wanted {', '.join(known)}")  # fmt: skip
        if config.get("layout", "hdu") != "hdu":
            raise ValueError(f"layout is {config['layout']!r}, wanted 'hdu'")
        scaled = config.get("scaled", True)
        if not isinstance(scaled, (bool, np.bool_)):
            raise ValueError(f"scaled is {scaled!r}, wanted true or false")
        return cls(
            "hdu",
            positive_lengths(config.get("tile_shape")),
            positive("index_nbytes", config.get("index_nbytes")),
            bool(scaled),
            *encoding(config.get("encode") or {}),
            config.get("encode") is not None,
        )

    def to_config(self):
        """The configuration, of JSON types; what is not set is left out."""
        config = {"layout": self.layout}
        if self.tile_shape is not None:
            config["tile_shape"] = list(self.tile_shape)
        if self.index_nbytes is not None:
            config["index_nbytes"] = self.index_nbytes
        config["scaled"] = self.scaled
        if self.encodes:
            config["encode"] = {"compression": plain(self.compression),
                                "quantize": plain(self.quantize)}  # fmt: skip
        return config

    def check_encodes(self, dtype, shape=None):
        """EncodeError if pixels of this type would not come back as they are.

        With the shape of chunks, and a configuration that says how to encode, also if they cannot
        be encoded so.
        """
        dtype = np.dtype(dtype)
        if not self.scaled and stored_dtype(dtype) != dtype.newbyteorder("="):
            raise EncodeError(f"pixels of type {dtype} come back only with scaled=true: FITS "
                              f"stores them as {stored_dtype(dtype)}")  # fmt: skip
        if self.encodes and shape is not None and 0 not in shape:
            settle(shape, dtype, self.compression, self.quantize, self._tiles(len(shape)))

    def _tiles(self, ndim):
        """The tiles to write, with axes of length 1 in front as the chunk has; None: any."""
        tiles = self.tile_shape
        return tiles and (1,) * (ndim - len(tiles)) + tiles

    def encode(self, array, options=None, threads=None):
        """The bytes of an image extension.

        Parameters
        ----------
        array : ndarray
        options : callable, optional
            See `tile_options`.
        threads : int, optional
        """
        self.check_encodes(array.dtype)
        tiles = self._tiles(array.ndim)
        with nullcontext() if options is None else tile_options(options):
            return encode_image(array, None, self.compression, tiles, self.quantize, threads)

    def decode(self, data, shape=None, dtype=None, threads=None):
        """All pixels of a chunk; see `whole_chunk`."""
        return whole_chunk(data, shape, dtype, self.scaled, threads)


def positive(name, value):
    try:
        number = value if value is None else operator.index(value)
    except TypeError:
        number = 0
    if number is not None and (number < 1 or isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, wanted a positive integer")
    return number


def positive_lengths(shape):
    if shape is None:
        return None
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        raise ValueError(f"tile_shape is {shape!r}, wanted a list of integers")
    return tuple(positive("an item of tile_shape", n) for n in shape)


def encoding(config):
    """Compression and quantizer from the part of a configuration that tells of them."""
    if not isinstance(config, dict) or set(config) - {"compression", "quantize"}:
        raise ValueError(f"encode is {config!r}, wanted a mapping of compression and quantize")
    compression = config.get("compression")
    if isinstance(compression, str):
        codec_class(compression)  # the name is known
    else:
        compression = configured(compression, TileCodec.listed)
    return compression, configured(config.get("quantize"), [Quantize])


def plain(codec):
    """A codec as its configuration; a name or None as it is."""
    return codec.get_config() if isinstance(codec, Codec) else codec


@dataclass(frozen=True, init=False, repr=False)
class TiledHDU(Codec):
    """One whole image HDU, header and data, as a compressed buffer.

    What zarr v2 references name as codec: the chunk is the part of a FITS file that holds
    the HDU, compressed or plain, and `decode` gives all of its pixels.

    Parameters
    ----------
    layout, tile_shape, index_nbytes, scaled
        See `HduFormat`. The hints are kept and not needed here.
    encode : mapping, optional
        ``{"compression": ..., "quantize": ...}``: how to encode.
    shape : tuple of int, optional
        That decoded images must have; axes of length 1 may stand in front.
    dtype : dtype-like, optional
        That decoded pixels must have, and the byte order in which they are given, by default the
        native one. A zarr v2 array takes the bytes for its own type whatever they are, so
        references had better say it.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.TiledHDU()
    >>> hdu = codec.encode(np.arange(6, dtype="i2").reshape(2, 3))
    >>> np.asarray(codec.decode(hdu)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """

    codec_id: ClassVar[str] = "fits_tiled"

    format: HduFormat
    shape: tuple | None
    dtype: np.dtype | None

    def __init__(self, *, shape=None, dtype=None, **config):
        put = object.__setattr__
        put(self, "format", HduFormat.from_config(config))
        put(self, "shape", positive_lengths(shape))
        put(self, "dtype", None if dtype is None else np.dtype(dtype))

    def __repr__(self):
        config = self.get_config()
        items = (f"{k}={v!r}" for k, v in config.items() if k not in ("id", "layout"))
        return f"TiledHDU({', '.join(items)})"

    def get_config(self):
        """Configuration as a dictionary of JSON types, with the key ``id``."""
        config = {"id": self.codec_id, **self.format.to_config()}
        if self.shape is not None:
            config["shape"] = list(self.shape)
        if self.dtype is not None:
            config["dtype"] = self.dtype.name if self.dtype.isnative else self.dtype.str
        return config

    def encode(self, buf):
        """The bytes of an image extension that holds an array.

        Parameters
        ----------
        buf : buffer
            Typed, of the shape that the image shall have, and as `decode` will give it: in C
            order, and of the codec's `dtype` or else of native byte order.

        Returns
        -------
        memoryview

        Raises
        ------
        EncodeError
            If the pixels would not come back as they are.
        """
        array = as_array(buf)
        check_memory(array, self.dtype or array.dtype.newbyteorder("="), "HDU")
        return memoryview(self.format.encode(array))

    def decode(self, buf, out=None):
        """All pixels of an HDU.

        Parameters
        ----------
        buf : buffer
            Header and data.
        out : writable contiguous buffer, optional
            Memory of exactly the right number of bytes. If it is typed as the pixels are, its
            byte order is the one that is given.

        Returns
        -------
        memoryview
            Pixels in the byte order of the codec's `dtype`, by default the native one, in the
            shape of the image; a view of `out` if given.

        Raises
        ------
        FitsCodecsError
            If the bytes are no such HDU, or are damaged.
        """
        pixels = self.format.decode(as_bytes(buf), self.shape, self.dtype)
        dtype = self.dtype or pixels.dtype
        if out is None:
            return memoryview(pixels.astype(dtype, copy=False))
        _, target = receive(out, dtype, pixels.shape, "HDU")
        target[...] = pixels
        return memoryview(target)
