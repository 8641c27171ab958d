# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What all codecs share: configuration, buffers, context, errors."""

import math
import operator
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from .. import _native
from ..context import current_context
from ..errors import DecodeError, EncodeError
from .buffers import as_array, as_bytes, contiguous, deliver, receive

try:
    from numcodecs.abc import Codec as _NumcodecsCodec
except ImportError:

    class _NumcodecsCodec:
        """Stands for `numcodecs.abc.Codec` where that is not installed."""

        codec_id = None


__all__ = ["PIXEL_TYPES", "Codec", "TileCodec", "native_shape", "where"]

# Pixel types in the order of enum fitscodecs_pixel.
PIXEL_TYPES = {
    name: i for i, name in enumerate(["uint8", "int16", "int32", "int64", "float32", "float64"])
}


def where(name, context):
    """How an error names its place: the algorithm, and the tile if there is a context."""
    return name if context is None else f"{name} tile {context.row}"


def whole_number(name, value):
    """A setting as an int; ValueError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise ValueError(f"{name} {value!r}, wanted an integer") from None


def native_shape(shape):
    """nx and ny of a tile: its last axis longer than 1, and the product of the others."""
    nx = next((n for n in reversed(shape) if n > 1), 1)
    return nx, math.prod(shape) // nx


class Codec(_NumcodecsCodec):
    """Base of everything with ``encode``, ``decode`` and a JSON configuration.

    Subclasses are frozen keyword-only dataclasses; their fields are the configuration, and their
    equality, hash and repr come from them.
    """

    per_tile: ClassVar[tuple] = ()  # fields that `tile_options` may choose: readers need none

    def adjusted(self, options):
        """The codec with those of the options that it may be given for one tile."""
        changes = {name: options[name] for name in options if name in self.per_tile}
        return replace(self, **changes) if changes else self

    def get_config(self):
        """Configuration as a dictionary of JSON types, with the key ``id``."""
        config = {"id": self.codec_id}
        for field in fields(self):
            value = getattr(self, field.name)
            config[field.name] = list(value) if isinstance(value, tuple) else value
        return config

    @classmethod
    def from_config(cls, config):
        """Codec from a configuration, with or without the key ``id``."""
        return cls(**{key: value for key, value in config.items() if key != "id"})

    def encode(self, buf):
        raise NotImplementedError

    def decode(self, buf, out=None):
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class TileCodec(Codec):
    """Base of the compression algorithms: one tile of integers or bytes to one stream.

    A subclass says what is true of its algorithm in class attributes, and is listed in `CODECS`
    by being defined. The defaults serve an algorithm whose C function takes the fields of the
    class that `parameters` names.

    Parameters
    ----------
    tile_shape : tuple of int, optional
        Shape of a tile, slow axis first, when no context is given.
    """

    codec_id: ClassVar[str]
    zcmptype: ClassVar[tuple]  # values of ZCMPTYPE, the one to write first
    parameters: ClassVar[tuple] = ()  # ZNAMEs, each a field in lower case
    native: ClassVar[str]  # name of the codec in the C library
    heap_letter: ClassVar[str] = "B"  # element type of the heap that holds streams
    unsigned_offset: ClassVar[bool] = False  # holds unsigned integers as they are, without BZERO
    holds_negative: ClassVar[bool] = True
    needs_2d: ClassVar[bool] = False
    clips: ClassVar[bool] = False  # lossy values may leave the image's type and are clipped
    bitpix: ClassVar[tuple] = (8, 16, 32)  # of images whose pixels the streams can hold

    wrapped: ClassVar[bool] = False  # a stream has to be unpacked before the C function
    native_parameters_vary: ClassVar[bool] = False  # they depend on the length of the stream

    listed: ClassVar[list] = []

    tile_shape: tuple | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "zcmptype" in cls.__dict__:
            TileCodec.listed.append(cls)

    def __post_init__(self):
        for field in fields(self):  # numbers as JSON has them, whatever they came as
            value = getattr(self, field.name)
            if field.name != "tile_shape" and value is not None:
                object.__setattr__(self, field.name, whole_number(field.name, value))
        if self.tile_shape is not None:
            shape = tuple(int(n) for n in self.tile_shape)
            if not shape or any(n < 1 for n in shape):
                raise ValueError(f"tile_shape {shape}, wanted positive lengths")
            object.__setattr__(self, "tile_shape", shape)

    # ------------------------------------------------------------------ what layers may ask

    def stored_dtype(self, context=None):
        """Type of the integers that a stream holds."""
        return np.dtype("int32")

    @classmethod
    def for_dtype(cls, dtype):
        """The codec with the parameters that files of such pixels have."""
        return cls()

    def default_tile_shape(self, image_shape):
        """Tiles of one row, the standard's default."""
        return (1,) * (len(image_shape) - 1) + tuple(image_shape[-1:])

    def check_tiles(self, image_shape, tile_shape):
        """EncodeError if tiles of this shape, or those at the far edges, cannot be held."""

    def largest_change(self, stream):
        """How far an integer can be from the one that was encoded into this stream."""
        return 0

    def setting(self, name, value):
        """Value of a field from the ZVAL of a header; ValueError if it can be none."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} is {value!r}, wanted an integer")
        return value

    def unpack(self, stream, npixels, place):
        """The bytes for the C function, and how many bytes of the stream hold them."""
        return stream, len(stream)

    def native_parameters(self, nbytes, npixels, place):
        """Parameters of the C function for a tile of `nbytes` unpacked bytes."""
        return tuple(int(getattr(self, name.lower())) for name in self.parameters)

    @property
    def gzip_level(self):
        """Level at which C deflates streams, if it does so and inflates them as well; else 0.

        A class with an `encode` or `unpack` of its own has to say this itself.
        """
        return 0

    def parameters_for(self, dtype):
        """Parameters of the C function and type of its pixels, for tiles of pixels of a type.

        None if `encode` is not what that function does.
        """
        if type(self).encode is not TileCodec.encode or self.wrapped or self.native_parameters_vary:
            return None
        parameters = self.native_parameters(0, 1, self.zcmptype[0])
        return parameters, self.native_dtype(parameters, False)

    def native_dtype(self, parameters, floats):
        """Type of the pixels that the C function gives; `floats` if they may be floats."""
        return self.stored_dtype()

    # ------------------------------------------------------------------ the contract of a codec

    def encode(self, buf, *, context=None):
        """Compress one tile.

        Parameters
        ----------
        buf : buffer
            Integers of any width and byte order whose values the codec can hold, in any shape
            with as many pixels as the tile has.
        context : DecodeContext, optional
            The tile; without one, `tile_shape` or the shape of `buf` is used.

        Returns
        -------
        memoryview
            The bytes for the heap, format ``'B'``, one-dimensional.

        Raises
        ------
        EncodeError
            If a value, the type or the number of pixels is not what the codec can hold.
        """
        context = context or current_context()
        place = where(self.zcmptype[0], context)
        array = as_array(buf)
        shape = self._shape(context, array.shape)
        if array.size != math.prod(shape):
            raise EncodeError(f"{place}: {array.size} pixels, wanted {math.prod(shape)}")
        pixels = self.narrow(array, place)
        nx, ny = self._native_shape(shape, EncodeError, place)
        parameters = self.native_parameters(pixels.nbytes, pixels.size, place)
        return memoryview(_native.encode(self.native, place, pixels, nx, ny, parameters))

    def decode(self, buf, out=None, *, context=None):
        """Decompress one tile.

        Parameters
        ----------
        buf : buffer
            The bytes from the heap; surplus bytes at the end are ignored.
        out : writable contiguous buffer, optional
            Memory of exactly the right number of bytes for the result.
        context : DecodeContext, optional
            The tile; without one, `tile_shape` tells its shape.

        Returns
        -------
        memoryview
            Pixels in native byte order with the shape of the tile; a view of `out` if given.

        Raises
        ------
        DecodeError
            If the stream is damaged or too short, or the shape is not known.
        """
        context = context or current_context()
        place = where(self.zcmptype[0], context)
        stream = as_bytes(buf)
        shape = self._shape(context, self.shape_in_stream(stream))
        if shape is None:
            raise DecodeError(
                f"{place}: the number of pixels is not known; "
                "give a context with a shape, or tile_shape"
            )
        work, target = receive(out, self.stored_dtype(context), shape, place)
        nx, ny = self._native_shape(shape, DecodeError, place)
        parameters = self.native_parameters(stream.nbytes, work.size, place)
        try:
            _native.decode(self.native, place, stream, nx, ny, parameters, work)
        except MemoryError as error:
            raise DecodeError(f"{place}: no memory for {shape} pixels") from error
        return deliver(work, target)

    # ------------------------------------------------------------------ for subclasses

    def shape_in_stream(self, stream):
        """Shape that the stream itself tells, or None."""
        return None

    def narrow(self, array, place):
        """Integers in native byte order and of the type that the codec holds, contiguous."""
        dtype = self.stored_dtype()
        if array.dtype.kind not in "iu":
            raise EncodeError(f"{place}: pixels of type {array.dtype}, wanted integers")
        info = np.iinfo(dtype)
        if array.size and not np.can_cast(array.dtype, dtype):
            low, high = int(array.min()), int(array.max())
            if low < info.min or high > info.max:
                raise EncodeError(
                    f"{place}: pixel values {low} to {high}, wanted {info.min} to {info.max}"
                )
        return contiguous(array, dtype)

    def _shape(self, context, otherwise):
        if context is not None and context.shape is not None:
            return context.shape
        return self.tile_shape or otherwise

    def _native_shape(self, shape, error, place):
        if self.needs_2d and sum(n > 1 for n in shape) > 2:
            raise error(f"{place}: tile of shape {shape}, wanted at most two axes longer than 1")
        return native_shape(shape)
