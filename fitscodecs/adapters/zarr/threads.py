# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How many threads a chunk may decode with: zarr decodes several chunks at a time itself."""

import threading
from contextlib import contextmanager

from ...image import THREADS

__all__ = ["Share"]


class Share:
    """The threads of this process, shared by the chunks that are being decoded."""

    def __init__(self):
        self._lock = threading.Lock()
        self._chunks = 0

    @contextmanager
    def one(self):
        """The number of threads for one more chunk."""
        with self._lock:
            self._chunks += 1
            threads = max(1, THREADS // self._chunks)
        try:
            yield threads
        finally:
            with self._lock:
                self._chunks -= 1


share = Share()
