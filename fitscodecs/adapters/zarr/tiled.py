# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""FitsTiled: the zarr v3 codec whose chunks are FITS image HDUs."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin

from ...chunk import drive, index_steps, is_whole, pixel_steps, without_integers
from ...image import Named
from ...threads import THREADS
from ...tiled import HduFormat
from ...zarr_metadata import CODEC_NAME
from .index import Abandoned, IndexCache, Place, place_of
from .ranges import Missing, Requests, contents, fetch_sync
from .spec import native_dtype
from .workers import off_the_loop

__all__ = ["FitsTiled"]


@dataclass(frozen=True, init=False, repr=False)
class FitsTiled(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """An array whose chunks are image HDUs of FITS files, header and data.

    It stands alone in the chain of codecs. Then a selection reads the header and table of each
    chunk it touches, once, and the tiles that hold its pixels; with other codecs beside it whole
    chunks are read. Compressed and plain images are read alike. Everything that differs from file
    to file is in the header of the chunk, so that arrays of many files can be concatenated.

    Parameters
    ----------
    layout : str
        ``"hdu"``: a chunk is one HDU, from the first byte of its header to the last of its data.
    tile_shape : tuple of int, optional
        Decoded shape of a tile, slow axis first. A hint when reading; the tiles to write.
    index_nbytes : int, optional
        How much of a chunk to read at first, best as much as its header and table. It must not be
        larger than the smallest chunk.
    scaled : bool
        Whether BSCALE, BZERO and BLANK are applied. The array has the type that results.
    encode : mapping, optional
        ``{"compression": ..., "quantize": ...}``, for writing: a ZCMPTYPE or a codec, and a
        `Quantize`, or their configurations. Without it integers and floats are kept without loss.
    tile_options : callable, optional
        Settings for each tile that is encoded, see `fitscodecs.tile_options`. It belongs to this
        object and is never part of the configuration.

    Notes
    -----
    The shape of a chunk is that of the image, with any number of axes of length 1 in front.
    A chunk that is not there is filled with the fill value of the array.

    For stores that are opened read-only and for references, indexes of chunks are kept in memory,
    up to 64 MB: of local files while they are the same, of remote ones for as many seconds as the
    setting ``fitscodecs.index_seconds`` of zarr says, by default 60.

    A header that is not that of an image of the array's type and shape is a `HeaderError`. Where
    the store tells the length of a chunk (references, and every chunk that is read whole), so is
    a header of an HDU of another length. This detects a file that was replaced when a header is
    read, unless by one whose HDU has the same place, length, type and shape, which is read as it
    is; a remote file that is replaced while its index is kept is not detected so.
    ``CheckedReferences`` of `fitscodecs.adapters.fsspec` compares the size and ETag of files.

    Examples
    --------
    >>> import numpy as np, zarr                             # doctest: +SKIP
    >>> from fitscodecs.adapters.zarr import FitsTiled       # doctest: +SKIP
    >>> array = zarr.create_array("a.zarr", shape=(512, 512), chunks=(256, 256), dtype="i2",
    ...                           serializer=FitsTiled(), compressors=None)   # doctest: +SKIP
    """

    is_fixed_size = False

    format: HduFormat
    tile_options: object = field(compare=False)

    def __init__(self, *, tile_options=None, **config):
        put = object.__setattr__
        put(self, "format", HduFormat.from_config(config))
        if tile_options is not None and not callable(tile_options):
            raise TypeError("tile_options is a function of a DecodeContext")
        put(self, "tile_options", tile_options)
        self._start()

    def _start(self):
        object.__setattr__(self, "_cache", IndexCache())
        object.__setattr__(self, "_requests", Requests())

    def __getstate__(self):
        return {"format": self.format, "tile_options": self.tile_options}

    def __setstate__(self, state):
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self._start()

    def __repr__(self):
        config = self.to_dict()["configuration"]
        items = (f"{k}={v!r}" for k, v in config.items() if k != "layout")
        return f"FitsTiled({', '.join(items)})"

    tile_shape = property(lambda self: self.format.tile_shape)
    index_nbytes = property(lambda self: self.format.index_nbytes)
    scaled = property(lambda self: self.format.scaled)

    # ------------------------------------------------------------------ configuration

    @classmethod
    def from_dict(cls, data):
        """The codec of an item of ``codecs`` in ``zarr.json``."""
        return cls(**dict(data.get("configuration") or {}))

    def to_dict(self):
        """The item of ``codecs`` in ``zarr.json``."""
        return {"name": CODEC_NAME, "configuration": self.format.to_config()}

    def validate(self, *, shape, dtype, chunk_grid):
        """Raise for an array whose chunks can be no FITS images, or none as `encode` says."""
        if not shape:
            raise ValueError(f"{CODEC_NAME}: found an array without axes, wanted 1 or more")
        dtype = native_dtype(dtype)
        if dtype.kind not in "iuf" or dtype.itemsize not in (1, 2, 4, 8) or dtype == np.float16:
            raise ValueError(f"{CODEC_NAME}: found an array of {dtype}, wanted a type of FITS "
                             "images: integers of 8 to 64 bits, float32, float64")  # fmt: skip
        self.format.check_encodes(dtype, getattr(chunk_grid, "chunk_shape", None))

    def compute_encoded_size(self, input_byte_length, chunk_spec):
        """Not known before encoding."""
        raise NotImplementedError(f"{CODEC_NAME}: chunks have no fixed size")

    # ------------------------------------------------------------------ whole chunks

    def _decode_sync(self, chunk_data, chunk_spec):
        return self._decode(contents(chunk_data), chunk_spec, Place("chunk"), ())

    def _encode_sync(self, chunk_data, chunk_spec):
        self._cache.close()
        hdu = self.format.encode(chunk_data.as_numpy_array(), self.tile_options)
        return chunk_spec.prototype.buffer.from_bytes(hdu)

    async def _decode_single(self, chunk_data, chunk_spec):
        return await off_the_loop(self._decode_sync, chunk_data, chunk_spec)

    async def _encode_single(self, chunk_data, chunk_spec):
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    def _decode(self, data, spec, place, selection):
        with Named(place):
            pixels = self.format.decode(data, spec.shape, native_dtype(spec.dtype))
        pixels = without_integers(pixels, selection)
        return spec.prototype.nd_buffer.from_numpy_array(pixels)

    # ------------------------------------------------------------------ parts of chunks

    async def _decode_partial_single(self, byte_getter, selection, chunk_spec):
        place, prototype = place_of(byte_getter), chunk_spec.prototype
        try:
            if is_whole(selection, chunk_spec.shape):
                data = await self._requests.one(byte_getter, prototype, None, None)
                return await off_the_loop(self._decode, data, chunk_spec, place, selection)

            async def read(steps):
                ranges = next(steps)
                try:
                    while True:
                        data = await self._requests.many(byte_getter, prototype, ranges)
                        ranges = steps.send(data)
                except StopIteration as stop:
                    return stop.value

            with Named(place):
                index = await self._index(place, read)
                index.check_type(native_dtype(chunk_spec.dtype), self.scaled)
                steps = pixel_steps(index, selection, chunk_spec.shape, self.scaled)
                pixels = await off_the_loop(await read(steps), THREADS)
        except Missing:
            return None
        return prototype.nd_buffer.from_numpy_array(np.asarray(pixels))

    def _decode_partial_sync(self, byte_getter, selection, chunk_spec):
        place, prototype = place_of(byte_getter), chunk_spec.prototype
        try:
            if is_whole(selection, chunk_spec.shape):
                data = contents(byte_getter.get_sync(prototype=prototype))
                return self._decode(data, chunk_spec, place, selection)

            def read(steps):
                return drive(steps, lambda ranges: fetch_sync(byte_getter, prototype, ranges))

            with Named(place):
                index = self._index_sync(place, read)
                index.check_type(native_dtype(chunk_spec.dtype), self.scaled)
                steps = pixel_steps(index, selection, chunk_spec.shape, self.scaled)
                pixels = read(steps)(THREADS)
        except Missing:
            return None
        return prototype.nd_buffer.from_numpy_array(np.asarray(pixels))

    # ------------------------------------------------------------------ indexes

    def _index_steps(self, place):
        return index_steps(self.index_nbytes, place.size)

    async def _index(self, place, read):
        """The index of a chunk: kept, being read by someone else, or read now."""
        if place.key is None:
            return await read(self._index_steps(place))
        while True:
            future, mine = self._cache.claim(place)
            if not mine:
                try:
                    return await asyncio.wrap_future(future)
                except Abandoned:
                    continue
            try:
                index = await read(self._index_steps(place))
            except BaseException as error:
                self._cache.abandon(place, future, error)
                raise
            self._cache.fulfil(place, future, index)
            return index

    def _index_sync(self, place, read):
        """The same for readers without an event loop."""
        if place.key is None:
            return read(self._index_steps(place))
        while True:
            future, mine = self._cache.claim(place)
            if not mine:
                try:
                    return future.result()
                except Abandoned:
                    continue
            try:
                index = read(self._index_steps(place))
            except BaseException as error:
                self._cache.abandon(place, future, error)
                raise
            self._cache.fulfil(place, future, index)
            return index
