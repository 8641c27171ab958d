# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""FITS tiled-image compression: codecs, contexts, images.

`open` reads images, `write` and `encode_image` make them. The codecs (`Rice1`, `Plio1`,
`HCompress1`, `Gzip1`, `Gzip2`, `NoCompress`), `Quantize` and `FitsTile` work on single tiles.
"""

from . import codecs
from ._version import __version__
from .codecs import *  # noqa: F403
from .context import DecodeContext, tile_options
from .cpu import cpu_features
from .deflate import deflate_engine
from .errors import DecodeError, EncodeError, FitsCodecsError, HeaderError, NotQuantizable
from .image import TiledImage, open_all
from .image import open_image as open
from .tiled import TiledHDU
from .writer import encode_image, write

__all__ = [
    "DecodeContext",
    "DecodeError",
    "EncodeError",
    "FitsCodecsError",
    "HeaderError",
    "NotQuantizable",
    "TiledHDU",
    "TiledImage",
    "__version__",
    "cpu_features",
    "deflate_engine",
    "encode_image",
    "open",
    "open_all",
    "tile_options",
    "write",
    *codecs.__all__,
]
