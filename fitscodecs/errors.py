# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The exceptions of the package; all of them are `ValueError`."""

__all__ = [
    "DecodeError",
    "EncodeError",
    "FitsCodecsError",
    "HeaderError",
    "NotQuantizable",
]


class FitsCodecsError(ValueError):
    """Base of all exceptions that this package raises for bad data."""


class DecodeError(FitsCodecsError):
    """Compressed data do not hold what their header and table say.

    The message names the tile (0-based table row), what was found and what was wanted.
    """


class EncodeError(FitsCodecsError):
    """Pixels cannot be held by the codec that was asked for."""


class NotQuantizable(EncodeError):
    """A float tile has to be stored without quantization.

    Raised for a tile of one pixel, without measurable noise, with an infinity, or with a range
    that 32-bit integers cannot hold at the step size that was asked for.
    """


class HeaderError(FitsCodecsError):
    """A header or a table is missing something, or contradicts itself or the standard."""
