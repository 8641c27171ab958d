# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Where bytes come from: memory, mapped files, file objects, URLs, anything with ranges."""

import contextlib
import mmap
import os
import threading
import zlib

import numpy as np

from .deflate import GZIP_WRAPPER, MAGIC, inflate
from .errors import DecodeError, HeaderError

__all__ = ["AHEAD_NBYTES", "Source", "coalesce", "open_source"]


# What is read at once where a header is expected: most headers are shorter, and what follows them
# (the next header, or the first rows of a table) is wanted soon.
AHEAD_NBYTES = 8 * 2880

SIMPLE = b"SIMPLE  ="  # how every FITS file starts


class Source:
    """Bytes with random access.

    Attributes
    ----------
    name : str
        For errors and reprs.
    whole : memoryview or None
        All bytes, where they are in memory or mapped.
    gap : int
        Ranges closer than this are better read as one.
    """

    name = "bytes"
    whole = None
    gap = 0
    closed = False
    _first = None

    @property
    def size(self):
        """Number of bytes, or None if it is not known."""
        return None if self.whole is None else len(self.whole)

    def read_ranges(self, ranges):
        """Buffers for ``(start, stop)`` ranges; one that passes the end is cut short."""
        return [self.read_range(start, stop) for start, stop in ranges]

    def read_range(self, start, stop):
        raise NotImplementedError

    def first(self):
        """The first bytes, read once."""
        if self._first is None:
            self._first = bytes(self.read_range(0, AHEAD_NBYTES))
            if self.whole is None and len(self._first) < AHEAD_NBYTES:
                self.whole = memoryview(self._first)  # there is no more
        return self._first

    def release(self):
        """Let go of memory that can be had again by reading."""

    def close(self):
        """Release what is held; reading afterwards is an error."""
        self.closed = True

    def require_open(self):
        """Raise if the bytes cannot be read any more."""
        if self.closed:
            raise ValueError(f"{self.name} is closed")

    def __reduce__(self):
        raise TypeError(f"{self.name} cannot be pickled: open the image from a path or URL")


class BytesSource(Source):
    """A buffer in memory."""

    def __init__(self, data, name="bytes"):
        self.whole = memoryview(data).cast("B")
        self.name = name

    @property
    def size(self):
        return len(self.whole)

    def read_range(self, start, stop):
        return self.whole[start:stop]

    def __reduce__(self):
        return BytesSource, (bytes(self.whole), self.name)


class FileSource(Source):
    """A file on disk, mapped, so that only the pages that are touched are read.

    Attributes
    ----------
    opened : os.stat_result
        What the system told of the file that is mapped when it was opened. At its path there may be
        another one since.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self.name = str(self.path)
        with open(self.path, "rb") as file:
            self.opened = os.fstat(file.fileno())
            empty = self.opened.st_size == 0
            self._map = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.whole = memoryview(self._map)

    @property
    def size(self):
        return len(self._map)

    def read_range(self, start, stop):
        return self.whole[start:stop]

    def release(self):
        """Take mapped pages out of this process; the system still has them."""
        if self._map and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self):
        super().close()
        self.whole = memoryview(b"")
        self._map = b""  # unmapped when the last view of it is gone

    def require_open(self):
        """Raise if the bytes cannot be read any more.

        Touching a page that is no longer in the file would end the process.
        """
        super().require_open()
        if self._map and self._map.size() < len(self._map):
            raise OSError(f"{self.name} has become shorter since it was opened")

    @property
    def overwritten(self):
        """Whether the file that is mapped is known to have changed.

        One that was put in its place has not changed it, nor has one that took it away.
        """
        try:
            now = os.stat(self.path)
        except OSError:
            return False
        before = self.opened
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            return False
        return (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns)

    def __reduce__(self):
        return open_source, (self.path,)


class ObjectSource(Source):
    """A file object with seek and read; one thread at a time."""

    gap = 2**12

    def __init__(self, file):
        self.file = file
        self.name = str(getattr(file, "name", type(file).__name__))
        self._lock = threading.Lock()

    @property
    def size(self):
        with self._lock:
            return self.file.seek(0, os.SEEK_END)

    def read_range(self, start, stop):
        with self._lock:
            self.file.seek(start)
            parts = []
            while start < stop and (part := self.file.read(stop - start)):
                parts.append(part)
                start += len(part)
        return b"".join(parts)


def not_longer(data, start, stop, name):
    """What was read, if it can be the range that was asked for."""
    if len(data) > stop - start:
        raise OSError(
            f"{name} gave {len(data)} bytes for a range of {stop - start}: it does not support "
            "ranges; copy the file first (with fsspec: simplecache::URL)"
        )
    return data


class RangeSource(Source):
    """An object with ``read_range(start, stop)``, and a ``size`` if it knows."""

    gap = 2**16

    def __init__(self, reader):
        self.reader = reader
        self.name = type(reader).__name__

    @property
    def size(self):
        size = getattr(self.reader, "size", None)
        return size() if callable(size) else size

    def read_range(self, start, stop):
        size = self.size
        if size is not None:
            stop = max(start, min(stop, size))
        return not_longer(self.reader.read_range(start, stop), start, stop, self.name)

    def __reduce__(self):
        return RangeSource, (self.reader,)


@contextlib.contextmanager
def reading(url):
    """Make an OSError of whatever the library of a protocol raises."""
    try:
        yield
    except FileNotFoundError as error:
        if error.strerror:
            raise
        raise FileNotFoundError(f"{url}: no such file") from error  # its text is the address only
    except (OSError, ImportError):
        raise
    except Exception as error:
        raise OSError(f"{url}: {error}") from error


class UrlSource(Source):
    """A URL that fsspec can read, range by range, several at a time."""

    gap = 2**16

    def __init__(self, url, storage_options=None):
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ImportError(
                "reading a URL needs fsspec: pip install 'fitscodecs[fsspec]'"
            ) from error
        self.url = self.name = url
        self.storage_options = dict(storage_options or {})
        with reading(url):
            self.fs, self.path = url_to_fs(url, **self.storage_options)
        self._info = None

    @property
    def info(self):
        """What the file system tells of the file without its contents, asked for once."""
        if self._info is None:
            with reading(self.url):
                self._info = self.fs.info(self.path)
        return self._info

    @property
    def size(self):
        return len(self.whole) if self.whole is not None else self.info.get("size")

    def read_ranges(self, ranges):
        if not ranges:
            return []
        if self.whole is not None:
            return [self.whole[start:stop] for start, stop in ranges]
        starts, stops = zip(*ranges, strict=True)
        with reading(self.url):
            parts = self.fs.cat_ranges(
                [self.path] * len(ranges), list(starts), list(stops), on_error="raise"
            )
        return [
            not_longer(part, start, stop, self.name)
            for part, (start, stop) in zip(parts, ranges, strict=True)
        ]

    def read_range(self, start, stop):
        return self.read_ranges([(start, stop)])[0]

    def __reduce__(self):
        return open_source, (self.url, self.storage_options)


def raw_source(target, storage_options):
    if isinstance(target, Source):
        return target
    if isinstance(target, (str, os.PathLike)):
        text = os.fspath(target)
        if isinstance(text, str) and ("://" in text or "::" in text):
            return UrlSource(text, storage_options)
        return FileSource(target)
    if hasattr(target, "read_range"):
        return RangeSource(target)
    if hasattr(target, "read") and hasattr(target, "seek"):
        return ObjectSource(target)
    try:
        return BytesSource(target)
    except TypeError as error:
        raise TypeError(
            f"cannot read from {type(target).__name__}: wanted a path, a URL, bytes, a "
            "file object, or an object with read_range(start, stop)"
        ) from error


def open_source(target, storage_options=None):
    """Bytes with random access from whatever a user has.

    Parameters
    ----------
    target : str, path-like, buffer, file object or object with ``read_range(start, stop)``
        A string with ``://`` or ``::`` is a URL for fsspec. A file that is gzipped as a whole is
        inflated into memory, whatever its name is.
    storage_options : dict, optional
        For fsspec.
    """
    source = raw_source(target, storage_options)
    if not source.first().startswith(MAGIC):
        return source
    contents = inflated_contents(source)
    source.close()
    return InflatedSource(
        contents,
        target if isinstance(source, (FileSource, UrlSource)) else None,
        storage_options,
        source.name,
    )


def inflated_contents(source):
    """All bytes of a file that was gzipped as a whole, if a FITS file is inside."""
    try:
        start = zlib.decompressobj(GZIP_WRAPPER).decompress(source.first(), len(SIMPLE))
    except zlib.error as error:
        raise HeaderError(f"{source.name}: not a valid gzip file: {error}") from error
    if start != SIMPLE:
        raise HeaderError(
            f"{source.name}: gzipped file starts with {start!r} inside, wanted a FITS file"
        )
    size = source.size
    if size is None:
        raise HeaderError(f"{source.name}: gzipped as a whole and of unknown size: cannot be read")
    try:
        return inflate(source.read_range(0, size), None, source.name)[0]
    except DecodeError as error:
        raise HeaderError(str(error)) from error
    except MemoryError as error:
        raise HeaderError(f"{source.name}: no memory for what is inside") from error


class InflatedSource(BytesSource):
    """The contents of a file that was gzipped as a whole."""

    def __init__(self, contents, target, storage_options, name):
        super().__init__(contents, name)
        self.target, self.storage_options = target, storage_options

    def __reduce__(self):
        if self.target is None:
            return super().__reduce__()
        return open_source, (self.target, self.storage_options)


def coalesce(start, stop, gap, largest=None):
    """Merge ranges that touch, overlap, or are closer than `gap`.

    Parameters
    ----------
    start, stop : ndarray of int64
        Ranges in any order; empty ones are allowed.
    gap : int
        Largest distance to bridge.
    largest : int, optional
        Merged ranges are cut, between two of the given ones, where they would begin to be longer.

    Returns
    -------
    ranges : list of (int, int)
        Merged ranges, ascending.
    which, begin : ndarray of int64
        For each input range, the merged one that holds it and its place in that.
    """
    if len(start) == 0:
        return [], np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(start, kind="stable")
    s, e = start[order], stop[order]
    reach = np.maximum.accumulate(e)
    new = np.concatenate(([True], s[1:] > reach[:-1] + gap))
    if largest is not None:
        begin = s[new][np.cumsum(new) - 1]
        new[1:] |= np.diff((s - begin) // largest) != 0
    group = np.cumsum(new) - 1
    first = s[new]
    last = reach[np.concatenate((np.flatnonzero(new)[1:] - 1, [len(s) - 1]))]
    which = np.empty(len(start), np.int64)
    which[order] = group
    ranges = list(zip(first.tolist(), last.tolist(), strict=True))
    return ranges, which, start - first[which]
