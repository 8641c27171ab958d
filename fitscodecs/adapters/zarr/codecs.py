# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The codecs of single tiles as zarr v3 codecs, one class for each.

A codec has two names in zarr: ``fitscodecs.rice_1``, and ``numcodecs.fits_rice_1``, under which
VirtualiZarr looks for the codec of a v2 array. The configuration is that of numcodecs without the
id. `Quantize` turns arrays into arrays; all others turn an array into bytes.
"""

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
from zarr.dtype import Int32

from ... import codecs
from ...context import DecodeContext, tile_options
from ...errors import DecodeError
from ...tiled import TiledHDU
from .ranges import contents
from .spec import native_dtype
from .tiled import FitsTiled
from .workers import off_the_loop

__all__ = ["FilterCodec", "TileCodec", "WholeHDU"]


@dataclass(frozen=True, init=False)
class Wrapper:
    """Names and configuration of a zarr codec that wraps one of ours.

    Parameters
    ----------
    name : str, optional
        The name in ``zarr.json``.
    tile_options : callable, optional
        See `fitscodecs.tile_options`; not part of the configuration.
    **config
        Of the codec.
    """

    wrapped = None  # class of the codec
    is_fixed_size = False

    name: str
    codec: object
    tile_options: object = field(compare=False)

    def __init__(self, *, name=None, tile_options=None, **config):
        known = self.names()
        if name is not None and name not in known:
            raise ValueError(f"name is {name!r}, wanted one of {', '.join(known)}")
        put = object.__setattr__
        put(self, "name", name or known[0])
        put(self, "codec", self.wrapped.from_config(config))
        put(self, "tile_options", tile_options)

    @classmethod
    def names(cls):
        """The names of the codec in zarr, the one to write first."""
        codec_id = cls.wrapped.codec_id
        return f"fitscodecs.{codec_id.removeprefix('fits_')}", f"numcodecs.{codec_id}"

    @classmethod
    def from_dict(cls, data):
        """The codec of an item of ``codecs`` in ``zarr.json``."""
        return cls(name=data["name"], **dict(data.get("configuration") or {}))

    def to_dict(self):
        """The item of ``codecs`` in ``zarr.json``."""
        return {"name": self.name, "configuration": self.configuration()}

    def configuration(self):
        """The settings of the codec that are set, without the id."""
        config = self.codec.get_config()
        return {key: value for key, value in config.items() if key != "id" and value is not None}

    @property
    def codec_config(self):
        """The configuration of numcodecs, id included: what writers of v2 metadata look for."""
        return {"id": self.codec.codec_id, **self.configuration()}

    def compute_encoded_size(self, input_byte_length, chunk_spec):
        """Not known before encoding."""
        raise NotImplementedError(f"{self.name}: chunks have no fixed size")

    def encoded(self, chunk_data, spec):
        """A chunk of the array, encoded."""
        array = np.ascontiguousarray(chunk_data.as_numpy_array())
        options = tile_options(self.tile_options) if self.tile_options else nullcontext()
        with options:
            return self.codec.encode(array, context=context_of(spec))

    def decoded(self, chunk_data, spec):
        """An encoded chunk as an array of the type and shape that zarr wants."""
        context = context_of(spec)
        pixels = np.asarray(self.codec.decode(chunk_data, context=context))
        if pixels.shape != spec.shape:
            raise DecodeError(f"{self.name}: found pixels of shape {pixels.shape}, "
                              f"wanted the chunk's {spec.shape}")  # fmt: skip
        pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
        cast = pixels.astype(context.dtype, copy=False)
        kinds = {pixels.dtype.kind, cast.dtype.kind}
        if cast is not pixels and ("f" in kinds or not np.array_equal(cast, pixels)):
            raise DecodeError(f"{self.name}: found pixels of type {pixels.dtype}, "
                              f"wanted the array's {context.dtype}")  # fmt: skip
        return spec.prototype.nd_buffer.from_numpy_array(cast)

    async def _decode_single(self, chunk_data, chunk_spec):
        return await off_the_loop(self._decode_sync, chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data, chunk_spec):
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)


def context_of(spec):
    """What zarr knows of a tile: everything but its place in the array."""
    return DecodeContext(shape=spec.shape, dtype=native_dtype(spec.dtype))


class TileCodec(Wrapper, ArrayBytesCodec):
    """A codec that turns a tile into bytes."""

    def _decode_sync(self, chunk_data, chunk_spec):
        return self.decoded(contents(chunk_data), chunk_spec)

    def _encode_sync(self, chunk_data, chunk_spec):
        return chunk_spec.prototype.buffer.from_bytes(bytes(self.encoded(chunk_data, chunk_spec)))


class FilterCodec(Wrapper, ArrayArrayCodec):
    """A codec that turns floats into int32: scale and zero point are in its configuration."""

    def resolve_metadata(self, chunk_spec):
        """What the next codec is given."""
        return replace(chunk_spec, dtype=Int32(), fill_value=np.int32(0))

    def validate(self, *, shape, dtype, chunk_grid):
        """Raise for arrays that are not of floats, and where pixels could not be decoded."""
        if native_dtype(dtype).kind != "f":
            raise ValueError(f"{self.name}: found an array of {native_dtype(dtype)}, wanted floats")
        if self.codec.scale is None:
            raise ValueError(f"{self.name}: found no scale and zero, wanted both: zarr has no "
                             "place for those of a tile; fitscodecs.tile has")  # fmt: skip

    def _decode_sync(self, chunk_data, chunk_spec):
        return self.decoded(chunk_data.as_numpy_array(), chunk_spec)

    def _encode_sync(self, chunk_data, chunk_spec):
        integers = np.asarray(self.encoded(chunk_data, chunk_spec)).reshape(chunk_spec.shape)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(integers)


class WholeHDU(FitsTiled):
    """`FitsTiled` under the name and with the configuration that a v2 array would have.

    Parameters
    ----------
    shape, dtype : optional
        See `fitscodecs.TiledHDU`; a v3 array knows both itself.
    **config
        See `FitsTiled`.
    """

    def __init__(self, *, shape=None, dtype=None, tile_options=None, **config):
        super().__init__(tile_options=tile_options, **config)
        object.__setattr__(self, "_codec", TiledHDU(shape=shape, dtype=dtype, **config))

    def __getstate__(self):
        return {**super().__getstate__(), "_codec": self._codec}

    @property
    def codec_config(self):
        """The configuration of numcodecs, id included: what writers of v2 metadata look for."""
        return self._codec.get_config()

    def to_dict(self):
        """The item of ``codecs`` in ``zarr.json``."""
        config = self.codec_config
        return {"name": f"numcodecs.{config.pop('id')}", "configuration": config}


def wrapper(wrapped):
    """The zarr codec of one of ours."""
    base = FilterCodec if wrapped is codecs.Quantize else TileCodec
    doc = f"`fitscodecs.{wrapped.__name__}` as a zarr codec; see `Wrapper`."
    names = {"wrapped": wrapped, "__doc__": doc, "__module__": __name__}
    return type(wrapped.__name__, (base,), names)


# Classes of this module, by the name of what they wrap: where entry points look for them.
CLASSES = {cls.__name__: wrapper(cls) for cls in (*codecs.CODECS, codecs.Quantize, codecs.FitsTile)}
globals().update(CLASSES)
