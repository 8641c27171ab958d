# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Version of the package, from its metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fitscodecs")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0.0.0"
