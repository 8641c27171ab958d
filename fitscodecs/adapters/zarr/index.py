# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Indexes of chunks that were read: kept while they are small, and read once by many readers."""

import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field

__all__ = ["Abandoned", "IndexCache", "Place", "place_of"]

LIMIT_NBYTES = 2**26


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
        What its index is kept by; None if the chunk may change and must not be kept.
    store : object
        Held as long as its index is, so that its identity is not given to another.
    """

    label: str
    size: int | None = None
    key: tuple | None = None
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
    reference = reference_of(store, path)
    if isinstance(reference, (list, tuple)):
        size = int(reference[2]) if len(reference) == 3 else None
        return Place(path, size, (id(store), path, *reference, state_of(reference[0])), store)
    root = getattr(store, "root", None)
    state = state_of(os.path.join(root, path)) if isinstance(root, os.PathLike) else None
    key = (id(store), path, state) if getattr(store, "read_only", False) else None
    return Place(path, state and state[0], key, store)


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


class Abandoned(Exception):
    """Whoever was reading an index was stopped; another reader may try."""


class IndexCache:
    """Indexes by key, the least recently used ones dropped when they take too much memory."""

    def __init__(self, limit_nbytes=LIMIT_NBYTES):
        self.limit_nbytes = limit_nbytes
        self.nbytes = 0
        self._entries = OrderedDict()  # key: (future, place)
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self):
        return len(self._entries)

    def claim(self, place):
        """The future of an index, and whether it is the caller's to fulfil."""
        with self._lock:
            entry = self._entries.get(place.key)
            if entry is not None:
                self._entries.move_to_end(place.key)
                return entry[0], False
            future = Future()
            future.set_running_or_notify_cancel()  # a reader who gives up must not cancel it
            self._entries[place.key] = future, place
            return future, True

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
            for key, (future, _) in list(self._entries.items()):
                if self.nbytes <= self.limit_nbytes:
                    break
                if future.done():
                    self.nbytes -= future.result().nbytes
                    del self._entries[key]

    def close(self):
        """Drop everything, and keep nothing from now on: chunks are being written."""
        with self._lock:
            self._closed = True
            self._entries.clear()
            self.nbytes = 0
