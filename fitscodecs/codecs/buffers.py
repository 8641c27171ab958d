# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Any buffer in, memoryview out: the one place that knows how arrays and buffers convert."""

import math

import numpy as np

from ..errors import DecodeError, EncodeError

__all__ = ["allocate", "as_array", "as_bytes", "check_memory", "contiguous", "deliver", "receive"]


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


def check_memory(array, dtype, where):
    """EncodeError for an array whose bytes would not be the bytes that decoding gives.

    For callers who know an array by its bytes, as arrays of zarr's format 2 do.

    Parameters
    ----------
    array : ndarray
    dtype : dtype
        That decoded pixels will have.
    where : str
    """
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        raise EncodeError(
            f"{where}: found an array in Fortran order, wanted C order, in which pixels come back"
        )
    if array.dtype != dtype:
        raise EncodeError(
            f"{where}: found pixels of type {array.dtype.str}, wanted {dtype.str}, as which they "
            "would come back; FitsTile keeps the type, and a context or a TiledHDU may say it"
        )


def receive(out, dtype, shape, where):
    """An array to decode into, native, and the array to return: the memory of `out`, if given.

    The two differ where the memory is not aligned or the result is not of native byte order. An
    `out` that is typed as the pixels are is filled in its own byte order.
    """
    native = dtype.newbyteorder("=")
    if out is None:
        array = allocate(shape, native, where)
        return array, (array if dtype.isnative else allocate(shape, dtype, where))
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
        return np.empty(shape, native), np.asarray(view).view(typed(view, dtype))
    array = np.frombuffer(view.cast("B"), np.uint8).view(typed(view, dtype)).reshape(shape)
    return (
        array if array.flags.aligned and array.dtype.isnative else np.empty(shape, native)
    ), array


def typed(view, dtype):
    """The type in the byte order of memory that is typed so, else as it is."""
    own = np.asarray(view).dtype
    return own if own.newbyteorder("=") == dtype.newbyteorder("=") else dtype


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
