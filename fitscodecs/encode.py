# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From pixels to tiles."""

import threading
from dataclasses import dataclass, field, replace

import numpy as np

from . import _native
from .codecs import Gzip1
from .codecs.base import PIXEL_TYPES, native_shape
from .codecs.options import options_of
from .context import DecodeContext, has_options
from .encoded import EncodedTile, EncodedTiles
from .errors import EncodeError, NotQuantizable
from .grid import plan
from .scaling import to_stored
from .table import COLUMNS
from .threads import in_threads
from .tile import shares

__all__ = ["EncodeContext", "encode_tiles", "noise"]


ROOM_NBYTES = 2**20  # for the streams of a native call


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


def encode_tiles(settings, array, threads=1, done=None, then=None):
    """Encode all tiles of an image.

    Parameters
    ----------
    settings : Settings
    array : ndarray
        Of the settings' shape, of any byte order and strides.
    threads : int
    done : callable, optional
        Called with the number of pixels of each part that is finished.
    then : callable, optional
        Called with the `EncodedTiles` of each part, in the order of the table, while other parts
        are encoded. What it returns is kept.

    Returns
    -------
    EncodedTiles
        In the order of the table.

    Raises
    ------
    EncodeError
        For the first tile with pixels that the codec cannot hold.
    """
    pieces = plan(settings.shape, settings.tile_shape, [range(n) for n in settings.shape])
    grid = [-(-n // t) for n, t in zip(settings.shape, settings.tile_shape, strict=True)]
    parts, threads = shares(pieces, threads)

    batch = make_batch(settings, array)
    own = threading.local()

    def work(rows):
        tiles = pieces.tiles[rows]
        corners = np.stack(np.unravel_index(tiles, grid), axis=-1)
        corners *= settings.tile_shape
        if batch is not None:
            space = own.__dict__.setdefault("space", _native.Workspace())
            shapes = pieces.shape[rows]
            encoded = encode_batch(settings, batch, array, tiles, corners, shapes, space)
        else:
            encoded = EncodedTiles.of(
                [
                    encode_tile(settings, array, row, tuple(corner), tuple(shape))
                    for row, corner, shape in zip(tiles.tolist(), corners.tolist(),
                                                  pieces.shape[rows].tolist(), strict=True)
                ]
            )  # fmt: skip
        if done is not None:
            done(int(pieces.part(rows).npixels.sum()))
        return encoded

    return EncodedTiles.joined(in_threads(work, parts, threads, then))


# ---------------------------------------------------------------------------- many at once


@dataclass(frozen=True)
class EncodeBatch:
    """What is the same for all tiles of one native call; see fitscodecs_batch in fitscodecs.h."""

    label: str  # how errors name the algorithm
    native: str
    parameters: tuple
    tile_type: int
    image_type: int
    itemsize: int
    offset: int
    flip: bool
    quantized: bool
    is_big_endian: bool
    gzip_level: int
    level: float = 1.0
    is_flat: bool = False
    leaves_nan: bool = False
    dither: int = 0
    seed: int = 1


def make_batch(settings, array):
    """The constants of native calls; None if tiles need what only Python knows.

    That is a codec or quantization that encodes in a way of its own, choices for single tiles, and
    integers that have to be checked to become narrower.
    """
    codec, quantize, stored = settings.compression, settings.quantize, settings.stored_dtype
    quantization = {} if quantize is None else quantize.batch_settings()
    native = codec.parameters_for(stored if quantize is None else np.dtype("int32"))
    if (
        has_options()
        or quantization is None
        or native is None
        or ("scale" in codec.per_tile and (settings.scale_request is not None or codec.scale > 1))
        or (codec.needs_2d and sum(n > 1 for n in settings.tile_shape) > 2)
    ):
        return None
    parameters, tile_dtype = native
    if quantize is not None:
        fits = tile_dtype == np.int32
    else:
        fits = np.can_cast(stored, tile_dtype) and (not settings.offset or stored == np.int16)
    swapped = not array.dtype.isnative
    if not fits or (swapped and array.dtype.newbyteorder(">") != array.dtype):
        return None
    return EncodeBatch(
        label=codec.zcmptype[0],
        native=codec.native,
        parameters=parameters,
        tile_type=PIXEL_TYPES[tile_dtype.name],
        image_type=PIXEL_TYPES[stored.name],
        itemsize=array.dtype.itemsize,
        offset=settings.offset,
        flip=stored != settings.dtype,
        quantized=quantize is not None,
        is_big_endian=swapped,
        gzip_level=codec.gzip_level,
        **quantization,
    )


def encode_batch(settings, batch, array, tiles, corners, shapes, workspace):
    """Encode tiles in native calls, and those that are left one by one."""
    n = len(tiles)
    nbytes, has_nan = np.empty(n, np.int64), np.empty(n, np.int64)
    scale, zero = np.empty(n), np.empty(n)
    streams = _native.encode_tiles(
        batch, array, tiles, corners, shapes, ROOM_NBYTES, workspace, nbytes, scale, zero, has_nan
    )
    encoded = EncodedTiles(
        np.zeros(n, np.int64), nbytes, scale, zero, has_nan.astype(bool), None, streams
    )
    if not (encoded.nbytes < 0).any():
        return encoded
    heap, first, rows = memoryview(b"".join(streams)), 0, []
    for i, row in enumerate(tiles.tolist()):
        if nbytes[i] < 0:
            rows.append(encode_tile(settings, array, row, tuple(corners[i]), tuple(shapes[i])))
        else:
            stream = heap[first : first + nbytes[i]]
            rows.append(EncodedTile(0, stream, scale[i], zero[i], has_nan[i]))
            first += nbytes[i]
    return EncodedTiles.of(rows)


# ---------------------------------------------------------------------------- one by one


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
