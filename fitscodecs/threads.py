# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How many threads a block may decode with, where a caller decodes several blocks at a time."""

import threading
from contextlib import contextmanager

from .image import THREADS

__all__ = ["share"]


class Share:
    """The threads of this process, shared by the blocks that are being decoded."""

    def __init__(self):
        self._lock = threading.Lock()
        self._blocks = 0

    @contextmanager
    def one(self, limit=THREADS):
        """The number of threads for one more block.

        Parameters
        ----------
        limit : int
            How many all blocks together may have.
        """
        with self._lock:
            self._blocks += 1
            threads = max(1, limit // self._blocks)
        try:
            yield threads
        finally:
            with self._lock:
                self._blocks -= 1


share = Share()
