# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""`fitscodecs.Quantize` with the names and arguments that astropy's own quantization has.

It takes the place of ``astropy.io.fits.hdu.compressed._quantization``, and does not import
astropy, which may be in the middle of its own import.
"""

from dataclasses import dataclass

import numpy as np

from ... import codecs
from ...codecs.quantize import DITHER_LENGTH
from ...context import DecodeContext
from ...errors import NotQuantizable
from .codecs import made

__all__ = ["DITHER_METHODS", "QuantizationFailedException", "Quantize"]

DITHER_METHODS = {
    "NONE": 0,
    "NO_DITHER": -1,
    "SUBTRACTIVE_DITHER_1": 1,
    "SUBTRACTIVE_DITHER_2": 2,
}
NAMES = {number: name for name, number in DITHER_METHODS.items()} | {0: "NO_DITHER"}
DEFAULT_LEVEL = 4.0  # what a level of 0 means to the software of the field


def seed_of(number):
    """The seed, from 1 to 10000, with which a number that may be none starts in the dither table.

    The table is taken as a ring.
    """
    return (number - 1) % DITHER_LENGTH + 1


class QuantizationFailedException(NotQuantizable):
    """A float tile has to be stored without quantization."""


@dataclass(frozen=True, kw_only=True)
class Quantize:
    """Linear quantization of one float tile.

    Parameters
    ----------
    row : int
        Table row of the tile, from 0, plus the seed ZDITHER0.
    dither_method : {-1, 0, 1, 2}
        A value of `DITHER_METHODS`; the first two are no dither.
    quantize_level : float or None
        If positive, the step is the noise of the tile divided by it; if negative, it is the step
        with the other sign; 0 and None are 4.
    bitpix : {-32, -64}
        Type of decoded pixels, as BITPIX has it.
    """

    row: int
    dither_method: int
    quantize_level: float | None
    bitpix: int

    @property
    def codec(self):
        """Our codec of these settings."""
        if self.dither_method not in NAMES:
            raise ValueError(f"dither_method {self.dither_method}, wanted one of {sorted(NAMES)}")
        level = self.quantize_level or DEFAULT_LEVEL
        return made(codecs.Quantize, level=level, method=NAMES[self.dither_method], seed=1)

    def context(self, **values):
        """The tile as it is numbered with a seed of 1."""
        return DecodeContext(row=seed_of(self.row) - 1, **values)

    def encode_quantized(self, buf):
        """Quantize one tile.

        Parameters
        ----------
        buf : array_like
            float32 or float64 pixels of either byte order. Their noise is that of one row.

        Returns
        -------
        integers : ndarray of int32
            One-dimensional.
        scale, zero : float

        Raises
        ------
        QuantizationFailedException
            If the tile has to be stored losslessly.
        """
        context = self.context()
        try:
            integers = self.codec.encode(np.asarray(buf).reshape(1, -1), context=context)
        except NotQuantizable as error:
            reason = str(error).partition(": ")[2]  # before it a tile, which is not the table's
            raise QuantizationFailedException(reason) from error
        return np.asarray(integers).reshape(-1), context.scale, context.zero

    def decode_quantized(self, buf, scale, zero):
        """Floats from the integers of one tile.

        Parameters
        ----------
        buf : array_like
            Integers of any width and byte order.
        scale, zero : float

        Returns
        -------
        ndarray or memoryview
            With dither a one-dimensional memoryview of the type that `bitpix` names, without it
            an array of float64 in the shape of `buf`.

        Raises
        ------
        TypeError
            If there is dither and `bitpix` is none of a float.
        """
        integers = np.asarray(buf)
        if integers.itemsize == 1:
            integers = integers.astype(np.int16)  # our codec takes bytes as int32 in pieces
        codec = self.codec
        if not codec.dither:
            context = self.context(dtype="float64", scale=scale, zero=zero)
            return np.asarray(codec.decode(integers, context=context)).reshape(integers.shape)
        if self.bitpix not in (-32, -64):
            raise TypeError(f"bitpix {self.bitpix}, wanted -32 or -64")
        context = self.context(dtype=f"f{-self.bitpix // 8}", scale=scale, zero=zero)
        return codec.decode(integers.reshape(-1), context=context)
