# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""zarr v3: arrays whose chunks are FITS image HDUs, and arrays of single tiles.

`FitsTiled` is the codec ``fitscodecs.tiled``; zarr finds it by its entry point. `codecs` has the
codecs of single tiles under the names ``fitscodecs.*`` and ``numcodecs.fits_*``.
"""

from .tiled import FitsTiled

__all__ = ["FitsTiled"]
