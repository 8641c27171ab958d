# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What the README shows has to run."""

import re
import shlex
import textwrap
from pathlib import Path

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.cli import main
from tests.conftest import HERE
from tests.making import plain_hdu, write_compressed

ROOT = HERE.parent
README = ROOT / "README.rst"


def blocks(text, language):
    """The code blocks of a language, as programs."""
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the blocks start from: an image in the current folder."""
    if not README.exists():
        pytest.skip("README.rst is not beside the tests")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    pixels = rng.normal(1000, 20, (300, 400)).astype("int16")
    write_compressed("image.fits.fz", pixels, fc.Rice1(bytepix=2), (1, 400))
    return {"image": pixels}


def test_python(names):
    image = names.pop("image")
    first, *others = blocks(README.read_text(encoding="utf-8"), "python")
    exec(first, names)
    np.testing.assert_array_equal(names["cutout"], image[100:200, ::2])
    np.testing.assert_array_equal(np.ravel(names["pixels"]), np.arange(4096))
    for block in others:
        exec(block, names)


def test_shell(names, capsys):
    """The lines work in their order."""
    for package in ("astropy", "matplotlib", "rich"):
        pytest.importorskip(package, reason="the shell tool needs it")
    Path("image.fits.fz").unlink()
    Path("image.fits").write_bytes(plain_hdu(names["image"], True))
    text = README.read_text(encoding="utf-8").partition("In the shell\n---")[2]
    lines = blocks(text, "sh")[0].splitlines()
    for line in filter(None, lines):
        assert main(shlex.split(line, comments=True)[1:]) == 0
    assert Path("restored.fits").exists()


def test_make_targets_exist():
    makefile = ROOT / "Makefile"
    if not (README.exists() and makefile.exists()):
        pytest.skip("README.rst and Makefile are not beside the tests")
    shown = re.findall(r"\bmake (\w+)", "".join(blocks(README.read_text(encoding="utf-8"), "sh")))
    targets = re.findall(r"^(\w+):", makefile.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown
    assert set(shown) <= set(targets)
