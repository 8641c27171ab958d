# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Which instruction sets the native kernels use: chosen once, at import."""

import os

from . import _native

__all__ = ["cpu_features"]


def _choose(found, limit):
    """Bits of the features to use: all up to and including the one named by FITSCODECS_CPU.

    Bits without a name, which tell what a CPU does slowly, are kept.
    """
    if not limit:
        return found
    if limit != "portable" and limit not in _native.FEATURES:
        names = ", ".join(["portable", *_native.FEATURES])
        raise ValueError(f"FITSCODECS_CPU is {limit!r}, wanted one of {names}")
    highest = 0 if limit == "portable" else _native.FEATURES[limit]
    beyond = sum(bit for bit in _native.FEATURES.values() if bit > highest)
    return found & ~beyond


_found = _native.cpu_features()
_used = _choose(_found, os.environ.get("FITSCODECS_CPU", "").strip().lower())
_native.init(_used)


def cpu_features():
    """Instruction sets of this machine, and those that the kernels may use.

    The environment variable ``FITSCODECS_CPU``, read at import, limits them: ``portable``,
    ``sse41``, ``avx2``, ``avx512`` or ``neon``.

    Returns
    -------
    dict
        ``found`` and ``used``: lists of names.
    """

    def names(bits):
        return [name for name, bit in _native.FEATURES.items() if bits & bit]

    return {"found": names(_found), "used": names(_used)}
