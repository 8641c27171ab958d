# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Indexes of chunks that were read: kept while they are small, and read once by many readers."""

import os
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field

from zarr.core.config import config

from ...threads import start_anew_in_children

__all__ = ["Abandoned", "IndexCache", "Place", "place_of"]

LIMIT_NBYTES = 2**26

# How long an index may be used of a chunk that cannot be looked at without a request, and where
# users say it.
SECONDS = 60.0
SETTING = "fitscodecs.index_seconds"

# Protocols of places that take a request to look at. Memory and local disks are read again instead.
REMOTE = {"http", "https", "s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "oci",
          "oss", "r2", "hf", "ftp", "sftp", "ssh", "webhdfs", "github"}  # fmt: skip
REMOTE_STORES = {"HTTPStore", "S3Store", "GCSStore", "AzureStore"}  # of obstore


@dataclass(frozen=True)
class Place:
    """Where a chunk comes from.

    Attributes
    ----------
    label : str
        How errors name the chunk.
    size : int or None
        Its length, where the store tells it without asking anyone.
    key : tuple or None
        What its index is kept by; None if the chunk may change unnoticed and must not be kept.
    ages : bool
        Whether nothing but time tells that the index may not be used any more.
    store : object
        Held as long as its index is, so that its identity is not given to another.
    """

    label: str
    size: int | None = None
    key: tuple | None = None
    ages: bool = False
    store: object = field(default=None, compare=False, repr=False)


def place_of(byte_getter):
    """The place that zarr wants bytes from.

    A reference to part of a file tells the length of the chunk, and a write would replace it.
    Other chunks are kept for stores that are opened for reading only. A local file that is not what
    it was is another place.
    """
    store, path = getattr(byte_getter, "store", None), getattr(byte_getter, "path", None)
    if store is None or path is None:
        return Place("chunk")
    reference, size = reference_of(store, path), None
    if isinstance(reference, (list, tuple)):
        size = int(reference[2]) if len(reference) == 3 else None
        file, remote = target_of(store.fs, reference[0])
        kept = True
    else:
        reference = ()
        file, remote = origin_of(store, path)
        kept = getattr(store, "read_only", False)
    state = state_of(file)
    if size is None and state is not None:
        size = state[0]
    kept = kept and (state is not None or remote)
    key = (id(store), path, *reference, state) if kept else None
    return Place(path, size, key, state is None, store)


def state_of(path):
    """Size, time of change and number of a local file; None for what is none."""
    try:
        found = os.stat(path)
    except (OSError, TypeError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def reference_of(store, path):
    """What a reference file system refers a key to; None for other stores and keys."""
    references = getattr(getattr(store, "fs", None), "references", None)
    if references is None:
        return None
    root = str(getattr(store, "path", "")).strip("/")
    try:
        return references[f"{root}/{path}" if root else path]
    except KeyError:
        return None


def target_of(fs, url):
    """The local file that a file system of fsspec reads for a URL, or None; and if it is remote."""
    from fsspec.core import split_protocol
    from fsspec.implementations.local import LocalFileSystem

    url = getattr(fs, "target", None) if url is None else url
    if not isinstance(url, str):
        return None, False
    protocol, _ = split_protocol(url)
    systems = getattr(fs, "fss", {})  # of a reference file system
    protocols = getattr(systems.get(protocol, systems.get(None, fs)), "protocol", ())
    protocols = {protocols} if isinstance(protocols, str) else set(protocols)
    if protocols & {"file", "local"}:
        return LocalFileSystem._strip_protocol(url), False
    return None, bool(protocols & REMOTE)


def origin_of(store, path):
    """The local file that a store reads for a key, or None; and whether it is a remote one.

    Of stores that are not known to be either, neither is true.
    """
    root, fs = getattr(store, "root", None), getattr(store, "fs", None)
    if isinstance(root, os.PathLike):  # LocalStore
        return os.path.join(root, path), False
    if fs is not None:  # FsspecStore
        return target_of(fs, f"{getattr(store, 'path', '').rstrip('/')}/{path}")
    inner = getattr(store, "store", None)
    if type(inner).__module__.startswith("obstore"):  # ObjectStore
        if type(inner).__name__ == "LocalStore":
            return os.path.join(inner.prefix or "/", path), False
        return None, type(inner).__name__ in REMOTE_STORES
    if type(store).__module__.startswith("icechunk"):  # a snapshot, and files that it checks
        return None, getattr(store.session, "read_only", False)
    places = getattr(getattr(store, "_registry", None), "map", None) or ()  # ManifestStore
    return None, bool(places) and {getattr(key, "scheme", None) for key in places} <= REMOTE


class Abandoned(Exception):
    """Whoever was reading an index was stopped; another reader may try."""


class IndexCache:
    """Indexes by key, the least recently used ones dropped when they take too much memory."""

    def __init__(self, limit_nbytes=LIMIT_NBYTES):
        self.limit_nbytes = limit_nbytes
        self._closed = False
        self.forget()
        start_anew_in_children(self)

    def forget(self):
        """Start anew, with nothing kept and nobody waiting."""
        self._entries = OrderedDict()  # key: (future, place, when it was begun)
        self._lock = threading.Lock()
        self.nbytes = 0

    def __len__(self):
        return len(self._entries)

    def claim(self, place):
        """The future of an index, and whether it is the caller's to fulfil."""
        with self._lock:
            now = time.monotonic()
            entry = self._entries.get(place.key)
            if entry is not None and place.ages and now - entry[2] >= config.get(SETTING, SECONDS):
                self._drop(place.key)
                entry = None
            if entry is not None:
                self._entries.move_to_end(place.key)
                return entry[0], False
            future = Future()
            future.set_running_or_notify_cancel()  # a reader who gives up must not cancel it
            self._entries[place.key] = future, place, now
            return future, True

    def _drop(self, key):
        """Forget an index. Who waits for it gets it still."""
        future = self._entries.pop(key)[0]
        if future.done():
            self.nbytes -= future.result().nbytes

    def fulfil(self, place, future, index):
        """Hand an index to all who wait, and keep it if it is one and there is room."""
        with self._lock:
            held = self._entries.get(place.key, (None,))[0] is future
            if held and (index is None or self._closed or index.nbytes > self.limit_nbytes):
                del self._entries[place.key]
            elif held:
                self.nbytes += index.nbytes
            future.set_result(index)
        self._shrink()

    def abandon(self, place, future, error):
        """Tell all who wait that there will be no index."""
        with self._lock:
            if self._entries.get(place.key, (None,))[0] is future:
                del self._entries[place.key]
        future.set_exception(error if isinstance(error, Exception) else Abandoned())

    def _shrink(self):
        with self._lock:
            for key, (future, *_) in list(self._entries.items()):
                if self.nbytes <= self.limit_nbytes:
                    break
                if future.done():
                    self._drop(key)

    def close(self):
        """Drop everything, and keep nothing from now on: chunks are being written."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self.nbytes = 0
