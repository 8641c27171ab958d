# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Configuration of Sphinx."""

import sys
from importlib.util import find_spec
from pathlib import Path

import fitscodecs
from fitscodecs.cli import make_parser

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from codec_pages import write_pages  # noqa: E402
from command_help import write_help  # noqa: E402
from performance_pages import write_performance  # noqa: E402

write_pages(fitscodecs.CODECS, HERE / "codecs")
write_help(make_parser(), HERE / "guide" / "commands.inc")
write_performance(HERE.parent / "benchmarks" / "results" / "recorded", HERE / "performance")

project = "fitscodecs"
author = "The fitscodecs developers"
copyright = "2026, the fitscodecs developers"
version = release = fitscodecs.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
default_role = "py:obj"
highlight_language = "python"
nitpicky = False

# Pages of adapters can be made without their libraries.
autodoc_mock_imports = [
    name
    for name in ("dask", "fsspec", "icechunk", "virtualizarr", "xarray", "zarr")
    if find_spec(name) is None
]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"fitscodecs {release}"
html_static_path = []
