# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""HCOMPRESS_1: H-transform and quadtree coding (FITS Standard 4.0, section 10.4.4; White 1992)."""

from dataclasses import dataclass
from typing import ClassVar

from ..errors import EncodeError
from .base import TileCodec

__all__ = ["HCompress1"]


@dataclass(frozen=True, kw_only=True)
class HCompress1(TileCodec):
    """H-transform codec for two-dimensional tiles, lossless or lossy.

    `encode` takes integers within the range of int32 and `decode` gives int32; pixels of a lossy
    stream that leave that range are clipped to it. The stream tells its shape, which is checked
    against the context or `tile_shape` if there is one.

    Parameters
    ----------
    scale : int
        Divisor of the coefficients when encoding; 0 and 1 are lossless. Decoding takes it from
        the stream.
    smooth : {0, 1}
        Whether decoding smooths a lossy stream.
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.HCompress1()
    >>> codec.decode(codec.encode(np.arange(16).reshape(4, 4))).tolist()[1]
    [4, 5, 6, 7]
    """

    codec_id: ClassVar[str] = "fits_hcompress_1"
    zcmptype: ClassVar[tuple] = ("HCOMPRESS_1",)
    parameters: ClassVar[tuple] = ("SCALE", "SMOOTH")
    native: ClassVar[str] = "HCOMPRESS_1"
    needs_2d: ClassVar[bool] = True
    clips: ClassVar[bool] = True
    per_tile: ClassVar[tuple] = ("scale",)

    scale: int = 0
    smooth: int = 0

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.scale <= 2**31 - 1:
            raise ValueError(f"scale {self.scale}, wanted an integer from 0")
        if self.smooth not in (0, 1):
            raise ValueError(f"smooth {self.smooth}, wanted 0 or 1")

    def default_tile_shape(self, image_shape):
        """Strips of whole rows, of a height that leaves no sliver at the far edge.

        The first of the usual heights whose last strip is full or has at least 4 rows.
        """
        if len(image_shape) < 2:
            return tuple(image_shape)
        *outer, ny, nx = image_shape
        heights = (ny,) if ny <= 30 else (16, 24, 20, 30, 28, 26, 22, 18, 14)
        height = next((h for h in heights if ny % h == 0 or ny % h > 3), 17)
        return (*(1 for _ in outer), height, nx)

    def setting(self, name, value):
        """SCALE in a header is what the writer asked for, often relative to noise: not used.

        SMOOTH is any number that is not 0, or a logical value.
        """
        if name == "SCALE":
            return 0
        return int(value) if isinstance(value, bool) else int(bool(super().setting(name, value)))

    def check_tiles(self, image_shape, tile_shape):
        """Two axes, each of 4 pixels at least, at the far edges as well: what readers expect."""
        long = [(n, t) for n, t in zip(image_shape, tile_shape, strict=True) if t > 1]
        edges = [n % t or t for n, t in long]
        if len(long) != 2 or min(edges) < 4:
            raise EncodeError(
                f"HCOMPRESS_1 tiles of shape {tile_shape} in an image of shape {image_shape}, "
                "wanted two axes longer than 1, with 4 pixels or more in every tile"
            )

    def largest_change(self, stream):
        """A bound from the scale in the head of the stream.

        Each level of the transform adds three coefficients, each off by half a scale (and as much
        again if they are smoothed), and halves what the coarser levels are off by.
        """
        scale = int.from_bytes(stream[10:14], "big", signed=True)
        return 0 if scale <= 1 else 3 * scale + 4

    def shape_in_stream(self, stream):
        """Rows and columns from the head of the stream."""
        if stream.size < 10:
            return (1, 1)  # too short to decode: the C function says so
        shape = tuple(int(n) for n in stream[2:10].view(">i4"))
        return shape if min(shape) > 0 else (1, 1)
