# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What zarr says of an array, as numpy says it."""

import numpy as np

__all__ = ["native_dtype"]


def native_dtype(dtype):
    """The numpy type, in native byte order, of a data type of zarr."""
    dtype = dtype.to_native_dtype() if hasattr(dtype, "to_native_dtype") else np.dtype(dtype)
    return dtype.newbyteorder("=")
