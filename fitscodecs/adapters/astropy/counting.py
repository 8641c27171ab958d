# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How many tiles went through the adapter: proof that it was on."""

import threading
from typing import NamedTuple

__all__ = ["TileCounts", "count", "counts"]


class TileCounts(NamedTuple):
    """Numbers of tiles since the process started."""

    decoded: int
    encoded: int


_lock = threading.Lock()
_total = TileCounts(0, 0)


def count(decoded=0, encoded=0):
    """Add tiles to the totals."""
    global _total
    with _lock:
        _total = TileCounts(_total.decoded + decoded, _total.encoded + encoded)


def counts():
    """Tiles that were decoded and encoded for astropy by this process.

    Returns
    -------
    TileCounts
        A tuple with the fields ``decoded`` and ``encoded``.
    """
    return _total
