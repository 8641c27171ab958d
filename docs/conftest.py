# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The examples of the documentation: each page runs in an empty folder with one image."""

import re
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = HERE.parent / "tests" / "oracles" / "vectors" / "files"
IMAGES = {
    "image.fits.fz": "cf_rice_f32_d2.fits",  # 21 x 37 float32, quantized, tiles of one row
    "mask.fits.fz": "cf_plio_u16.fits",  # 21 x 37 uint16
}

collect_ignore = ["_build", "codecs", "conf.py", "performance"]


def pytest_collection_modifyitems(items):
    """pandas warns of the engine that fsspec's form of Parquet is written with."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:The 'fastparquet' engine"))


@pytest.fixture(autouse=True)
def example_folder(request, tmp_path, monkeypatch):
    """A folder with the example images; a page that needs what is absent is skipped.

    A page says what it needs in a comment, ``.. needs: astropy`` or ``.. needs: icechunk 2``.
    """
    text = request.path.read_text(encoding="utf-8")
    for name, wanted in re.findall(r"^\.\. needs: ([\w.]+)(?: ([\d.]+))?$", text, re.MULTILINE):
        reason = f"the examples of {request.path.name} need {name} {wanted}".rstrip()
        pytest.importorskip(name, minversion=wanted or None, reason=reason)
    for name, original in IMAGES.items():
        shutil.copy(FILES / original, tmp_path / name)
    monkeypatch.chdir(tmp_path)
