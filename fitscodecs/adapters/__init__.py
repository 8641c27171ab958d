# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Bridges to other packages, each in a room of its own; none is imported with fitscodecs."""
