# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Gzip members (RFC 1952), and which library packs and unpacks them: chosen once, at import.

zlib is the reference. What the faster libraries do not plainly accept goes to it, so that pixels,
errors and the number of bytes that were used are the same with all of them. The one exception are
streams with Huffman codes that RFC 1951 does not allow: zlib refuses them, the others take some of
them for others, and accept the stream if its CRC and length are right then. The bytes of what is
deflated differ.
"""

import os
import zlib

from . import _native
from .errors import DecodeError

try:
    from isal import isal_zlib
except ImportError:
    isal_zlib = None

__all__ = ["GZIP_WRAPPER", "MAGIC", "MAX_RATIO", "deflate", "deflate_engine", "inflate",
           "native_level"]  # fmt: skip

GZIP_WRAPPER = 31  # zlib's window bits for a gzip header and trailer
MAGIC = b"\x1f\x8b"
# Deflate cannot do better than 1032 to 1 (a 258-byte match in 2 bits), which bounds what a stream
# can honestly claim.
MAX_RATIO = 1032
ZLIB_LEVEL = 6
# Twice to three times as fast as zlib's level 1 on noise, and as small; the next levels gain at
# most a few percent on images, at half the speed.
LIBDEFLATE_LEVEL = 1


def _choose(built, wanted):
    """The name of the engine, from what is there and what FITSCODECS_DEFLATE asks for."""
    if wanted not in ("", "libdeflate", "python"):
        raise ValueError(f"FITSCODECS_DEFLATE is {wanted!r}, wanted libdeflate or python")
    if wanted == "libdeflate" and not built:
        raise ValueError("FITSCODECS_DEFLATE is 'libdeflate', which this build has not")
    if built and wanted != "python":
        return "libdeflate"
    return "zlib" if isal_zlib is None else "isal"


_engine = _choose(_native.HAS_GZIP, os.environ.get("FITSCODECS_DEFLATE", "").strip().lower())


def deflate_engine():
    """What inflates GZIP tiles.

    The environment variable ``FITSCODECS_DEFLATE``, read at import, can be ``python`` where
    libdeflate is not wanted, or ``libdeflate`` where nothing else is.

    Returns
    -------
    str
        ``'libdeflate'``, which decodes and encodes tiles in C; else ``'isal'`` if that package is
        installed, or ``'zlib'``.
    """
    return _engine


def native_level():
    """Level at which the C library deflates; 0 if it neither deflates nor inflates."""
    return LIBDEFLATE_LEVEL if _engine == "libdeflate" else 0


def deflate(raw):
    """One gzip member, without a time stamp, so that equal pixels give equal bytes."""
    level = native_level()
    if level and memoryview(raw).nbytes >= _native.GZIP_LEAST:
        return _native.deflate(raw, level)
    compressor = zlib.compressobj(ZLIB_LEVEL, zlib.DEFLATED, GZIP_WRAPPER)
    return compressor.compress(raw) + compressor.flush()


def inflate(stream, most, place):
    """The contents of one or more gzip members; bytes that are no member are ignored at the end.

    Parameters
    ----------
    stream : buffer
        Bytes, which must start with a gzip member.
    most : int or None
        The largest number of bytes to accept.
    place : str
        Where the stream is, for errors.

    Returns
    -------
    contents : bytes
    used_nbytes : int
        Bytes of the stream that are members.
    """
    if most is None:
        most = len(stream) * MAX_RATIO
    return _inflate_quickly(stream, most) or _inflate_carefully(stream, most, place)


def _inflate_quickly(stream, most):
    """The same by the chosen engine; None for everything that is not one sound member."""
    claimed = int.from_bytes(bytes(stream[-4:]), "little")  # the length of a member's contents
    if claimed > min(most, len(stream) * MAX_RATIO) or len(stream) < 18:
        return None
    if _engine == "libdeflate":
        try:
            return _native.inflate(stream, claimed)
        except MemoryError:  # what other bytes than a length may claim
            return None
    if _engine == "isal" and not stream[3]:  # no flags: what else is in the header is not checked
        member = isal_zlib.decompressobj(GZIP_WRAPPER)
        try:
            contents = member.decompress(stream, claimed + 1)
        except isal_zlib.error:
            return None
        if member.eof and not member.unused_data and len(contents) == claimed:
            return contents, len(stream)
    return None


def _inflate_carefully(stream, most, place):
    """The same by zlib, with the reason if it cannot be done."""
    rest = bytes(stream)
    parts, room = [], most + 1
    while not parts or rest.startswith(MAGIC):
        member = zlib.decompressobj(GZIP_WRAPPER)
        try:
            part = member.decompress(rest, room)
        except zlib.error as error:
            raise DecodeError(f"{place}: not a valid gzip member: {error}") from error
        parts.append(part)
        room -= len(part)
        if room <= 0:
            raise DecodeError(f"{place}: data inflate to more than {most} bytes")
        if not member.eof:
            raise DecodeError(f"{place}: gzip member ends early, after {len(part)} bytes of pixels")
        rest = member.unused_data
    return b"".join(parts), len(stream) - len(rest)
