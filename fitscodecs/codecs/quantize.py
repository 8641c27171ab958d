# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Floats to integers and back, with subtractive dithering (FITS Standard 4.0, section 10.2)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .. import _native
from ..context import DecodeContext, current_context
from ..errors import DecodeError, EncodeError
from .base import PIXEL_TYPES, Codec, where, whole_number
from .buffers import allocate, as_array, contiguous, deliver, receive

__all__ = ["METHODS", "NULL_INTEGER", "Quantize"]

# Values of ZQUANTIZ, in the order of enum fitscodecs_dither.
METHODS = ("NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2")
NULL_INTEGER = -2147483647
DITHER_LENGTH = 10000
SEEDS = ("checksum", "clock")


@dataclass(frozen=True, kw_only=True)
class Quantize(Codec):
    """Linear quantization of float tiles, as FITS tile compression does it.

    A tile becomes int32 by ``round((pixel - zero) / scale)``, dithered if `method` says so. Scale
    and zero point are found for each tile from its noise and range; they leave and enter through
    the context.

    Parameters
    ----------
    level : float
        If positive, the step is the noise of the tile divided by `level`; if negative, it is
        ``-level``.
    method : {"NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"}
        The second of the dithering methods keeps pixels that are exactly 0.
    seed : int or {"checksum", "clock"}
        ZDITHER0, from 1 to 10000. With the row of the tile it selects the dither values. The names
        are for writers of files, which replace them by a number: from the bytes of the first tile,
        so that equal images give equal files, or from the time.
    scale, zero : float, optional
        Fix both for all tiles; then no context is needed and nothing is measured.
    dtype : str
        Type of decoded pixels when the context does not say it.

    Notes
    -----
    The noise is the smallest of three estimates from the median absolute differences of order 2,
    3 and 5 along rows (Pence, White and Seaman 2010). Integers, scales and zero points are the
    ones that cfitsio computes, decoded pixels are equal bit for bit in all software.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> tile = np.random.default_rng(1).normal(100, 5, (1, 1000)).astype("f4")
    >>> context = fc.DecodeContext(row=0)
    >>> quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=42)
    >>> integers = quantize.encode(tile, context=context)
    >>> pixels = quantize.decode(integers, context=context)
    >>> bool(abs(np.asarray(pixels) - tile).max() <= 0.51 * context.scale)
    True
    """

    codec_id: ClassVar[str] = "fits_quantize"
    per_tile: ClassVar[tuple] = ("level",)

    level: float = 4.0
    method: str = "NO_DITHER"
    seed: int = 1
    scale: float | None = None
    zero: float | None = None
    dtype: str = "float32"

    def __post_init__(self):
        for name in ("level", "scale", "zero"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, float(getattr(self, name)))
        if not self.level or not math.isfinite(self.level):
            raise ValueError(f"level {self.level}, wanted noise / step above 0, or minus the step")
        if self.method not in METHODS:
            raise ValueError(f"method {self.method!r}, wanted one of {', '.join(METHODS)}")
        if self.seed not in SEEDS:
            seed = whole_number("seed", self.seed)
            if not 1 <= seed <= DITHER_LENGTH:
                raise ValueError(f"seed {seed}, wanted 1 to 10000, or one of {SEEDS}")
            object.__setattr__(self, "seed", seed)
        if (self.scale is None) != (self.zero is None):
            raise ValueError("scale and zero are given together or not at all")
        if self.scale is not None and not (self.scale and math.isfinite(self.scale)):
            raise ValueError(f"scale {self.scale}, wanted a number other than 0")
        if self.zero is not None and not math.isfinite(self.zero):
            raise ValueError(f"zero {self.zero}, wanted a number")
        if np.dtype(self.dtype).name not in ("float32", "float64"):
            raise ValueError(f"dtype {self.dtype!r}, wanted float32 or float64")
        object.__setattr__(self, "dtype", np.dtype(self.dtype).name)

    def with_seed(self, first_tile, seconds):
        """The same with a seed that is a number.

        Parameters
        ----------
        first_tile : ndarray
            Pixels of the first tile of the image.
        seconds : float
            The time.
        """
        if self.seed not in SEEDS:
            return self
        if self.seed == "clock":
            number = int(seconds * 100)
        else:  # a sum of bytes, which does not depend on their order
            raw = np.ascontiguousarray(first_tile).reshape(-1).view(np.uint8)
            number = int(raw.sum(dtype=np.uint64))
        return replace(self, seed=number % DITHER_LENGTH + 1)

    @property
    def dither(self):
        """Number of the method in the C library."""
        return METHODS.index(self.method)

    def encode(self, buf, *, context=None):
        """Quantize one tile.

        Parameters
        ----------
        buf : buffer
            float32 or float64 pixels of either byte order; NaN is allowed.
        context : DecodeContext, optional
            The tile. Its `scale`, `zero` and `blank` are set; `shape` and `dtype` too if they
            were None. Needed unless `scale` and `zero` are fixed.

        Returns
        -------
        memoryview
            int32 integers with the shape of the tile; NaN is -2147483647.

        Raises
        ------
        NotQuantizable
            If the tile has to be stored losslessly.
        """
        context = context or current_context()
        place = where("Quantize", context)
        array = as_array(buf)
        if array.dtype.kind != "f" or array.itemsize not in (4, 8):
            raise EncodeError(f"{place}: pixels of type {array.dtype}, wanted float32 or float64")
        pixels = contiguous(array, array.dtype.newbyteorder("="))
        shape = context.shape if context is not None and context.shape else array.shape
        if math.prod(shape) != pixels.size or pixels.size == 0:
            raise EncodeError(f"{place}: {pixels.size} pixels, wanted {math.prod(shape) or 1}")
        if self.seed in SEEDS and self.dither:
            raise EncodeError(f"{place}: seed {self.seed!r}, wanted a number for a single tile")
        integers = np.empty(shape, np.int32)
        scale, zero = self._encode(place, pixels, integers, context)
        if context is not None:
            context.scale, context.zero, context.blank = scale, zero, NULL_INTEGER
            context.shape = context.shape or shape
            context.dtype = context.dtype or pixels.dtype
        return memoryview(integers)

    def batch_settings(self):
        """What a native call for many tiles needs to do as `encode`; None if none can.

        A subclass with an `encode` of its own has to say this itself.
        """
        if type(self).encode is not Quantize.encode or self.scale is not None:
            return None
        if self.seed in SEEDS and self.dither:
            return None
        seed = self.seed if self.dither else 1
        return {"level": self.level, "dither": self.dither, "seed": seed}

    def _encode(self, place, pixels, integers, context):
        row = 0 if context is None else context.row
        is_f64 = pixels.itemsize == 8
        if self.scale is not None:
            _native.quantize_with(
                place,
                pixels,
                is_f64,
                pixels.size,
                self.dither,
                self.seed,
                row,
                self.scale,
                self.zero,
                integers,
            )
            return self.scale, self.zero
        if context is None:
            raise EncodeError(
                f"{place}: a context is needed to hold scale and zero, unless both are fixed"
            )
        nx = integers.shape[-1]
        return _native.quantize(
            place,
            pixels,
            is_f64,
            nx,
            pixels.size // nx,
            self.level,
            self.dither,
            self.seed,
            row,
            integers,
        )

    def decode(self, buf, out=None, *, context=None):
        """Floats from the integers of one tile.

        Parameters
        ----------
        buf : buffer
            Integers of any width and byte order; plain bytes are native int32.
        out : writable contiguous buffer, optional
            Memory of exactly the right number of bytes for the result.
        context : DecodeContext, optional
            The tile, with `scale` and `zero`; needed unless both are fixed. Integers equal to
            its `blank` become NaN.

        Returns
        -------
        memoryview
            Floats of ``context.dtype`` with the shape of the tile.

        Raises
        ------
        DecodeError
            If scale and zero point are not known, or the number of pixels is not right.
        """
        context = context or current_context()
        place = where("Quantize", context)
        integers = self._integers(as_array(buf), place)
        context = context or DecodeContext()
        pinned = self.scale is not None  # and with it the null integer that encode writes
        blank = NULL_INTEGER if pinned and context.blank is None else context.blank
        scale = context.scale if self.scale is None else self.scale
        zero = context.zero if self.scale is None else self.zero
        if scale is None or zero is None:
            raise DecodeError(f"{place}: scale and zero are neither in the context nor fixed")
        shape = context.shape or integers.shape
        if math.prod(shape) != integers.size:
            raise DecodeError(f"{place}: {integers.size} pixels, wanted {math.prod(shape)}")
        dtype = np.dtype(self.dtype if context.dtype is None else context.dtype)
        if dtype.kind != "f":
            raise DecodeError(f"{place}: pixels of type {dtype}, wanted float32 or float64")
        work, target = receive(out, dtype, shape, place)
        _native.dequantize(
            place,
            integers,
            PIXEL_TYPES[integers.dtype.name],
            integers.size,
            self.dither,
            self.seed,
            context.row,
            scale,
            zero,
            blank,
            work,
            dtype.itemsize == 8,
        )
        return deliver(work, target)

    def _integers(self, array, place):
        """Contiguous native integers of a width that C knows."""
        if array.dtype == np.uint8:
            raw = np.ascontiguousarray(array).reshape(-1)
            if raw.size % 4:
                raise DecodeError(f"{place}: {raw.size} bytes, wanted int32 integers")
            integers = allocate(raw.size // 4, np.int32, place)  # aligned, which bytes need not be
            integers.view(np.uint8)[...] = raw
            return integers
        if array.dtype.kind not in "iu":
            raise DecodeError(f"{place}: pixels of type {array.dtype}, wanted integers")
        wider = {"int8": "i2", "uint16": "i4", "uint32": "i8", "uint64": "i8"}
        dtype = array.dtype.newbyteorder("=")
        return np.require(array, wider.get(dtype.name, dtype), ["C_CONTIGUOUS", "ALIGNED"])
