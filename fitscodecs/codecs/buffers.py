# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Any buffer in, memoryview out: the one place that knows how arrays and buffers convert."""

import math

import numpy as np

from ..errors import DecodeError

__all__ = ["allocate", "as_array", "as_bytes", "contiguous", "deliver", "receive"]


def as_array(buf):
    """An array over the memory of any buffer, of at least one axis, as it is typed."""
    array = buf if isinstance(buf, np.ndarray) else np.asarray(memoryview(buf))
    return np.atleast_1d(array)


def as_bytes(buf):
    """The bytes of any buffer as a one-dimensional uint8 array; a copy only if not contiguous."""
    array = np.ascontiguousarray(as_array(buf))
    return array.reshape(-1).view(np.uint8)


def contiguous(array, dtype):
    """The array as C takes it: contiguous, aligned, of this type; a copy only if it is not."""
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def receive(out, dtype, shape, where):
    """An array to decode into, and the array to return: the memory of `out`, if it is given.

    The two differ when the memory of `out` is not aligned for `dtype`.
    """
    if out is None:
        array = allocate(shape, dtype, where)
        return array, array
    view = memoryview(out)
    wanted = dtype.itemsize * math.prod(shape)
    if view.readonly or not view.contiguous:
        raise DecodeError(f"{where}: out is read-only or not contiguous")
    if view.nbytes != wanted:
        raise DecodeError(f"{where}: out has {view.nbytes} bytes, wanted {wanted}")
    if not view.c_contiguous:  # Fortran order: pixels go where the same index finds them
        if (view.shape, view.itemsize) != (tuple(shape), dtype.itemsize):
            raise DecodeError(
                f"{where}: out in Fortran order has shape {view.shape}, wanted {tuple(shape)}"
            )
        return np.empty(shape, dtype), np.asarray(view).view(dtype)
    array = np.frombuffer(view.cast("B"), np.uint8).view(dtype).reshape(shape)
    return (array if array.flags.aligned else np.empty(shape, dtype)), array


def deliver(work, target):
    """The memoryview of a result, moved to where `receive` said it belongs."""
    if work is not target:
        target[...] = work
    return memoryview(target)


def allocate(shape, dtype, where):
    """An empty array; a shape that memory cannot hold is a fault of whoever claims it."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise DecodeError(f"{where}: no memory for {shape} pixels of {dtype}") from error
