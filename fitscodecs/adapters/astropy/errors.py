# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Faults of tiles as astropy raises them.

Programs catch what astropy raises: ``CfitsioException`` for the algorithms that it has in C, what
the gzip module raises for the others. The errors here are of both families, so that they are
caught by code written for either package.
"""

import contextlib
import gzip
import zlib

from ...errors import DecodeError, EncodeError

__all__ = ["GzipTileError", "as_astropy", "encoding_as_astropy", "raising_as_astropy"]

# How astropy's own decoders say that a stream is too short; every such message of ours has "ends".
SHORT_STREAM = "decompression error: hit end of compressed byte stream"
# How it says that a mask has other values than 24-bit unsigned integers.
MASK_VALUES = "data out of range for PLIO compression (0 - 2**24)"


class GzipTileError(gzip.BadGzipFile, EOFError, zlib.error, DecodeError):
    """A fault of a gzipped tile, of each type that the gzip module raises."""

    def __str__(self):
        return str(self.args[0])  # OSError would look for an errno


def __getattr__(name):
    """`TileError`, made when it is first needed: astropy may be in the middle of its own import."""
    if name != "TileError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from astropy.io.fits.hdu.compressed._compression import CfitsioException

        bases = (CfitsioException, DecodeError)
    except ImportError:  # an astropy that has no C code of its own any more, or none at all
        bases = (DecodeError,)
    doc = "A fault of a tile whose algorithm astropy has in C."
    cls = globals()[name] = type(name, bases, {"__module__": __name__, "__doc__": doc})
    return cls


def as_astropy(error, wrapped):
    """A DecodeError that is also of the type that astropy raises.

    Parameters
    ----------
    error : DecodeError or HeaderError
    wrapped : bool
        Whether the stream is one of gzip.
    """
    text = str(error)
    if wrapped:
        return GzipTileError(text)
    cls = globals().get("TileError") or __getattr__("TileError")
    return cls(f"{text} ({SHORT_STREAM})" if "ends" in text else text)


@contextlib.contextmanager
def raising_as_astropy(wrapped):
    """Let DecodeError leave the block as astropy's types."""
    try:
        yield
    except DecodeError as error:
        raise as_astropy(error, wrapped) from error


@contextlib.contextmanager
def encoding_as_astropy(codec):
    """Let EncodeError leave the block with astropy's text for negative and large mask values."""
    try:
        yield
    except EncodeError as error:
        if codec.holds_negative or "pixel value" not in str(error):
            raise
        raise EncodeError(f"{error} ({MASK_VALUES})") from error
