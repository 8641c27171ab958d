# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Adding a codec touches three places: done here, in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fitscodecs as fc

ROOT = Path(fc.__file__).parent.parent

C_FILE = r"""
/* SPDX-License-Identifier: BSD-3-Clause */
/* INVERT_1: every byte of big-endian 32-bit pixels inverted. */
#include "common.h"

static enum fitscodecs_status check(const struct fitscodecs_tile *tile,
                                    struct fitscodecs_result *result)
{
    return fitscodecs_check_npixels(tile, result);
}

static size_t pixel_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return 4;
}

static size_t encode_bound(const struct fitscodecs_tile *tile)
{
    return 4 * tile->nx * tile->ny;
}

static size_t scratch_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return 0;
}

static enum fitscodecs_status encode(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result)
{
    const uint32_t *p = pixels;
    size_t n = tile->nx * tile->ny;

    (void)scratch;
    if (out_nbytes < 4 * n) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT, "too small", 0, 0);
    }
    for (size_t i = 0; i < n; i++) {
        store_be32(out + 4 * i, ~p[i]);
    }
    result->nbytes = 4 * n;
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    uint32_t *p = pixels;
    size_t n = tile->nx * tile->ny;

    (void)scratch;
    if (in_nbytes < 4 * n) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                               "data ends after {found} of {wanted} pixels",
                               (int64_t)(in_nbytes / 4), (int64_t)n);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = ~load_be32(in + 4 * i);
    }
    result->nbytes = 4 * n;
    return FITSCODECS_OK;
}

const struct fitscodecs_codec fitscodecs_invert_1 = {
    .name = "INVERT_1",
    .parameters = {NULL},
    .check = check,
    .pixel_nbytes = pixel_nbytes,
    .encode_bound = encode_bound,
    .scratch_nbytes = scratch_nbytes,
    .encode = encode,
    .decode = decode,
};
"""

PY_FILE = '''
# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""INVERT_1: an example of a further algorithm."""

from dataclasses import dataclass
from typing import ClassVar

from .base import TileCodec

__all__ = ["Invert1"]


@dataclass(frozen=True, kw_only=True)
class Invert1(TileCodec):
    """Every byte inverted."""

    codec_id: ClassVar[str] = "fits_invert_1"
    zcmptype: ClassVar[tuple] = ("INVERT_1",)
    native: ClassVar[str] = "INVERT_1"
'''

USE = """
import numpy as np
import fitscodecs as fc
from tests.making import sample, write_compressed

pixels = sample("int16", (20, 30))
write_compressed("new.fits", pixels, fc.Invert1(), (8, 9))
img = fc.open("new.fits")
assert img.codec == fc.Invert1() == fc.get_codec("INVERT_1")
assert np.array_equal(img[...], pixels)
"""


def insert(path, after, line):
    """Add one line behind the first one that starts with a text."""
    lines = path.read_text().splitlines(keepends=True)
    at = next(i for i, text in enumerate(lines) if text.strip().startswith(after))
    path.write_text("".join([*lines[: at + 1], line + "\n", *lines[at + 1 :]]))


def run(tree, *command):
    env = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'tests' / 'oracles'}"}
    done = subprocess.run([sys.executable, *command], cwd=tree, env=env, capture_output=True,
                          text=True)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what is needed to build and test, with the codec added."""
    pytest.importorskip("Cython", reason="building needs Cython")
    if not (ROOT / "setup.py").exists():
        pytest.skip("no source tree beside the package")
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "_native.c", "data", "real")
    for name in ("cextern", "fitscodecs", "tests", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.rst", "LICENSE.rst"):
        shutil.copy(ROOT / name, tree)

    library = tree / "cextern" / "fitscodecs"
    (library / "invert.c").write_text(C_FILE)
    insert(library / "codecs.c", "codec(fitscodecs_hcompress_1)",
           "    codec(fitscodecs_invert_1) \\")  # fmt: skip
    codecs = tree / "fitscodecs" / "codecs"
    (codecs / "invert.py").write_text(PY_FILE)
    insert(codecs / "__init__.py", "from .hcompress import", "from .invert import Invert1")
    insert(tree / "pyproject.toml", "fits_hcompress_1 =",
           'fits_invert_1 = "fitscodecs.codecs:Invert1"')  # fmt: skip
    status, output = run(tree, "setup.py", "-q", "build_ext", "--inplace")
    assert status == 0, output
    return tree


def test_three_places_are_enough(tree):
    status, output = run(tree, "-c", USE)
    assert status == 0, output
    status, output = run(
        tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_contract.py",
        "tests/test_registration.py", "tests/test_layers.py", "-k",
        "(invert or Invert or c_list or layers) and not threads and not numcodecs",
    )  # fmt: skip
    assert status == 0, output
    assert " passed" in output
    assert "Invert1" in run(tree, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
                            "tests/test_contract.py")[1]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("pyproject.toml", "fits_invert_1 =", "missing line in pyproject.toml: fits_invert_1"),
        ("fitscodecs/codecs/__init__.py", "from .invert", "codecs.c lists INVERT_1"),
    ],
)
def test_a_place_left_out_is_named(tree, name, line, said):
    path = tree / name
    complete = path.read_text()
    kept = [text for text in complete.splitlines(keepends=True) if not text.startswith(line)]
    path.write_text("".join(kept))
    try:
        status, output = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                             "tests/test_registration.py")  # fmt: skip
    finally:
        path.write_text(complete)
    assert status == 1
    assert said in output
