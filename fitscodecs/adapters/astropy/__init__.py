# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""``astropy.io.fits`` on the engine of fitscodecs.

`enable` makes every ``CompImageHDU`` decode and encode its tiles here, `disable` undoes it, and
`enabled` does both around a block. The module is a pytest plugin as well:
``pytest -p fitscodecs.adapters.astropy`` runs any tests with the adapter on.

`codecs` and `quantization` hold classes with the names and arguments of astropy's own.
"""

from .counting import TileCounts, counts
from .plugin import *  # noqa: F403  the hooks, which pytest looks for here
from .switch import disable, enable, enabled, is_enabled

__all__ = ["TileCounts", "counts", "disable", "enable", "enabled", "is_enabled"]
