# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What differs from tile to tile: the third thing, beside bytes and codec, that a tile needs."""

import math
import operator
from contextvars import ContextVar
from dataclasses import dataclass, fields

import numpy as np

__all__ = ["DecodeContext", "current_context", "tile_options"]

FALLBACK_COLUMNS = ("GZIP_COMPRESSED_DATA", "UNCOMPRESSED_DATA")

# Both are tuples used as stacks, so that entering and leaving needs no state on the objects.
_contexts = ContextVar("fitscodecs_contexts", default=())
_options = ContextVar("fitscodecs_tile_options", default=())


def _row(value):
    row = operator.index(value)
    if not 0 <= row < 2**63:
        raise ValueError(f"row {row}, wanted a table row from 0")
    return row


def _shape(value):
    shape = tuple(operator.index(n) for n in value)
    if any(n < 1 for n in shape):
        raise ValueError(f"tile shape {shape}, wanted positive lengths")
    return shape


def _blank(value):
    blank = operator.index(value)
    if not -(2**63) <= blank < 2**63:
        raise ValueError(f"blank {blank}, wanted a 64-bit integer")
    return blank


_CONVERT = {
    "row": _row,
    "shape": _shape,
    "dtype": lambda value: np.dtype(value).newbyteorder("="),
    "scale": float,
    "zero": float,
    "blank": _blank,
}


@dataclass(slots=True)
class DecodeContext:
    """One tile of a compressed image, as its table row describes it.

    A codec is what is constant for an image; a context is what its tiles do not share. It is
    small and mutable: `Quantize.encode` writes the scale, zero point and null integer into it.
    Used in a ``with`` block it is the context of every codec call in that block (of this thread or
    asynchronous task) that is given no other.

    Parameters
    ----------
    row : int
        Table row of the tile, from 0; with the seed it selects the dither values.
    shape : tuple of int, optional
        Shape of the tile, slow axis first. Tiles at the far edges are smaller than others.
    dtype : dtype-like, optional
        Type of the image's pixels.
    column : str
        Table column that supplied the bytes: ``COMPRESSED_DATA``, or one of the fallbacks
        ``GZIP_COMPRESSED_DATA`` and ``UNCOMPRESSED_DATA``, which hold values of `dtype`.
    scale, zero : float, optional
        ZSCALE and ZZERO of a quantized tile.
    blank : int, optional
        Integer that stands for NaN in a quantized tile.

    Examples
    --------
    >>> import fitscodecs as fc
    >>> context = fc.DecodeContext(row=7, shape=(1, 4), dtype="int16")
    >>> fc.Rice1(bytepix=2).decode(b"\\x00\\x05\\x00", context=context).tolist()
    [[5, 5, 5, 5]]
    """

    row: int = 0
    shape: tuple | None = None
    dtype: np.dtype | None = None
    column: str = "COMPRESSED_DATA"
    scale: float | None = None
    zero: float | None = None
    blank: int | None = None

    def __setattr__(self, name, value):
        """Keep plain numbers and native types, whatever a field is given as."""
        convert = _CONVERT.get(name)
        if convert is not None and value is not None:
            value = convert(value)
        object.__setattr__(self, name, value)

    @property
    def npixels(self):
        """Number of pixels, or None while the shape is not known."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def quantized(self):
        """Whether the tile holds integers to be scaled to floats."""
        return self.scale is not None and self.column not in FALLBACK_COLUMNS

    @property
    def stored_dtype(self):
        """Type of the pixels that the byte codec holds: int32 when quantized, else `dtype`."""
        return np.dtype("int32") if self.quantized else self.dtype

    def to_dict(self):
        """The context as a dictionary of JSON types."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["shape"] = None if self.shape is None else list(self.shape)
        values["dtype"] = None if self.dtype is None else np.dtype(self.dtype).name
        return values

    @classmethod
    def from_dict(cls, values):
        """The context that `to_dict` described."""
        return cls(**values)

    def __enter__(self):
        _contexts.set((*_contexts.get(), self))
        return self

    def __exit__(self, *exc_info):
        _contexts.set(_contexts.get()[:-1])


def current_context():
    """The context of the innermost ``with`` block, or None."""
    stack = _contexts.get()
    return stack[-1] if stack else None


class tile_options:
    """Let encoders ask a function for settings of each tile, inside a ``with`` block.

    Parameters
    ----------
    function : callable
        Called with the `DecodeContext` of a tile about to be encoded, whose `row`, `shape` and
        `dtype` are set. It returns a dictionary of what to change for this tile: ``level`` of a
        `Quantize`, ``scale`` of an `HCompress1`. An empty one or None changes nothing; a codec
        without such a field is not changed; other names are an `EncodeError`, because a reader
        would have to know them.

    Notes
    -----
    The function is never stored. What it chose can be read by every reader.

    Examples
    --------
    >>> import fitscodecs as fc
    >>> with fc.tile_options(lambda context: {"level": 16 if context.row == 0 else 4}):
    ...     pass
    """

    def __init__(self, function):
        if not callable(function):
            raise TypeError("tile_options takes a function of a DecodeContext")
        self.function = function

    def __enter__(self):
        _options.set((*_options.get(), self.function))
        return self

    def __exit__(self, *exc_info):
        _options.set(_options.get()[:-1])


def has_options():
    """Whether any `tile_options` holds here."""
    return bool(_options.get())


def current_options(context):
    """What the innermost `tile_options` says about a tile: a dictionary."""
    stack = _options.get()
    return dict(stack[-1](context) or {}) if stack else {}
