# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What `tile_options` chose for a tile, checked."""

from ..context import current_options
from ..errors import EncodeError
from .base import TileCodec
from .quantize import Quantize

__all__ = ["options_of"]


def options_of(context, place):
    """The choices of the innermost `tile_options` for a tile; EncodeError for unknown names."""
    options = current_options(context)
    known = {name for cls in (Quantize, *TileCodec.listed) for name in cls.per_tile}
    if unknown := set(options) - known:
        raise EncodeError(
            f"{place}: tile_options chose {', '.join(sorted(unknown))}, "
            f"wanted one of {', '.join(sorted(known))}"
        )
    return options
