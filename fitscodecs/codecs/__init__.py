# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The codecs. An algorithm is listed by one import line here: its class lists itself."""

from .base import Codec, TileCodec
from .frame import FitsTile
from .gzip import Gzip1, Gzip2
from .hcompress import HCompress1
from .nocompress import NoCompress
from .plio import Plio1
from .quantize import Quantize
from .rice import Rice1

CODECS = tuple(TileCodec.listed)


def get_codec(zcmptype, **parameters):
    """The codec of an algorithm, by its name in FITS headers.

    Parameters
    ----------
    zcmptype : str
        Value of ZCMPTYPE; aliases such as ``RICE_ONE`` are known.
    **parameters
        Configuration of the codec.

    Examples
    --------
    >>> import fitscodecs as fc
    >>> fc.get_codec("RICE_1", bytepix=2)
    Rice1(tile_shape=None, blocksize=32, bytepix=2)
    """
    return codec_class(zcmptype)(**parameters)


def codec_class(zcmptype):
    """The class of an algorithm, by its name in FITS headers."""
    for codec in CODECS:
        if zcmptype in codec.zcmptype:
            return codec
    names = sorted(name for codec in CODECS for name in codec.zcmptype)
    raise ValueError(f"no codec for ZCMPTYPE {zcmptype!r}, wanted one of {', '.join(names)}")


__all__ = [
    "CODECS",
    "Codec",
    "FitsTile",
    "Quantize",
    "get_codec",
    *(codec.__name__ for codec in CODECS),
]
