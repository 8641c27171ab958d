# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""RICE_1: adaptive Rice coding of differences (FITS Standard 4.0, section 10.4.1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import TileCodec

__all__ = ["Rice1"]


@dataclass(frozen=True, kw_only=True)
class Rice1(TileCodec):
    """Rice coder of the FITS tiled-image convention.

    Fast, and close to the best ratio on noisy images. The stream does not say how many pixels it
    has: decoding needs a context or `tile_shape`.

    Parameters
    ----------
    blocksize : int
        Pixels that share one code. Files have 32, or rarely 16; encode with one of these.
    bytepix : {4, 2, 1}
        Bytes of a pixel: `encode` takes, and `decode` gives, int32, int16 or uint8. Wider
        integers are narrowed if their values fit.
    tile_shape : tuple of int, optional
        Shape of a tile when no context is given.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> codec = fc.Rice1(bytepix=2, tile_shape=(1, 5))
    >>> bytes(codec.encode(np.array([10, 12, 11, 11, 9], "i2"))).hex()
    '000a185880'
    >>> codec.decode(bytes.fromhex("000a185880")).tolist()
    [[10, 12, 11, 11, 9]]
    """

    codec_id: ClassVar[str] = "fits_rice_1"
    zcmptype: ClassVar[tuple] = ("RICE_1", "RICE_ONE")
    parameters: ClassVar[tuple] = ("BLOCKSIZE", "BYTEPIX")
    native: ClassVar[str] = "RICE_1"

    blocksize: int = 32
    bytepix: int = 4

    def __post_init__(self):
        super().__post_init__()
        if self.bytepix not in (1, 2, 4):
            raise ValueError(f"bytepix {self.bytepix}, wanted 1, 2 or 4")
        if not 1 <= self.blocksize <= 2**31 - 1:
            raise ValueError(f"blocksize {self.blocksize}, wanted 1 or more")

    @classmethod
    def for_dtype(cls, dtype):
        """BYTEPIX as wide as the pixels."""
        return cls(bytepix=min(4, np.dtype(dtype).itemsize))

    def stored_dtype(self, context=None):
        """uint8, int16 or int32, whatever the image's type is."""
        return np.dtype({1: "u1", 2: "i2", 4: "i4"}[self.bytepix])
