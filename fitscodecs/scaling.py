# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From stored integers to what they mean: BSCALE, BZERO and BLANK (FITS Standard 4.0, 4.4.2.5)."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Scaling", "from_stored", "offset_of", "stored_dtype", "to_stored"]

# Types that FITS has no BITPIX for, by the type they are stored as: BZERO is minus the lowest
# value of one of the two, and moving by it is flipping the highest bit.
_STORED = {"int8": "uint8", "uint16": "int16", "uint32": "int32", "uint64": "int64"}
_OFFSET = {8: -(2**7), 16: 2**15, 32: 2**31, 64: 2**63}


def stored_dtype(dtype):
    """The type in which FITS stores pixels of a native type."""
    dtype = np.dtype(dtype).newbyteorder("=")
    return np.dtype(_STORED.get(dtype.name, dtype))


def offset_of(dtype):
    """BZERO of a type that is stored with another signedness, 0 of others."""
    dtype = np.dtype(dtype)
    return _OFFSET[8 * dtype.itemsize] if dtype.name in _STORED else 0


def _flip(array, dtype):
    """A view of `array`, flipped in place, as the type of the same size that differs in sign."""
    bits = array.view(f"u{array.itemsize}")
    bits ^= np.array(1 << (8 * array.itemsize - 1), bits.dtype)
    return array.view(dtype)


def from_stored(array, dtype):
    """Stored integers as `dtype`, in place if the types differ: the inverse of `to_stored`."""
    return array if array.dtype == dtype else _flip(array, dtype)


def to_stored(array):
    """Pixels as FITS stores them; a copy if that differs."""
    stored = stored_dtype(array.dtype)
    return array if array.dtype == stored else _flip(array.copy(), stored)


@dataclass(frozen=True)
class Scaling:
    """How stored pixels become the pixels of an image.

    Parameters
    ----------
    bitpix : int
        Type of the stored pixels.
    bscale, bzero : float
        ``pixel = stored * bscale + bzero``.
    blank : int, optional
        Stored integer that means "undefined"; ignored in float images.
    """

    bitpix: int
    bscale: float = 1
    bzero: float = 0
    blank: int | None = None

    @property
    def stored_dtype(self):
        """Type of the stored pixels."""
        return np.dtype({8: "u1", 16: "i2", 32: "i4", 64: "i8", -32: "f4", -64: "f8"}[self.bitpix])

    @property
    def is_offset(self):
        """Whether the scaling only moves integers to a type of the other signedness."""
        return self.bitpix > 0 and self.bscale == 1 and self.bzero == _OFFSET[self.bitpix]

    @property
    def has_blank(self):
        return self.bitpix > 0 and self.blank is not None

    @property
    def dtype(self):
        """Type of the scaled pixels: float32 holds scaled 8 and 16-bit integers, float64 wider.

        An unsigned type has no NaN: there, undefined pixels keep the value that BLANK stands for.
        """
        if self.is_offset:
            return next(
                np.dtype(name)
                for name, stored in _STORED.items()
                if np.dtype(stored) == self.stored_dtype
            )
        if self.bitpix < 0 or (self.bscale == 1 and self.bzero == 0 and not self.has_blank):
            return self.stored_dtype
        return np.dtype("f4" if self.bitpix in (8, 16) else "f8")

    def apply(self, stored):
        """Scaled pixels of a contiguous native array, which may be changed or reused.

        Each step is rounded to the type of the result, as the field's software does it.
        """
        if self.is_offset:
            return from_stored(stored, self.dtype)
        if self.dtype == stored.dtype and self.bscale == 1 and self.bzero == 0:
            return stored
        scaled = stored.astype(self.dtype, copy=False)
        undefined = stored == self.blank if self.has_blank else None
        with np.errstate(all="ignore"):  # a header may ask for infinity
            if self.bscale != 1:
                np.multiply(scaled, self.bscale, out=scaled)
            if self.bzero != 0:
                np.add(scaled, self.bzero, out=scaled)
        if undefined is not None:
            scaled[undefined] = np.nan
        return scaled
