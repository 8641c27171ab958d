# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""``python -m fitscodecs.cli``."""

import sys

from . import main

sys.exit(main())
