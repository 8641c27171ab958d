# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""With numpy alone: the package imports, every codec works, images are read."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fitscodecs
from tests.conftest import VECTORS

CODE = """
import sys
import numpy as np
import fitscodecs as fc

for absent in ("numcodecs", "astropy", "fsspec", "zarr", "pytest"):
    try:
        __import__(absent)
    except ImportError:
        continue
    raise SystemExit(f"{absent} is here: the environment is not the one wanted")

pixels = np.arange(60, dtype="i4").reshape(6, 10)
context = fc.DecodeContext(shape=pixels.shape, dtype="int32")
for cls in fc.CODECS:
    codec = cls()
    assert np.array_equal(codec.decode(codec.encode(pixels), context=context), pixels)
    assert cls.from_config(codec.get_config()) == codec
floats = np.random.default_rng(1).normal(size=(6, 10)).astype("f4")
context = fc.DecodeContext()
quantize = fc.Quantize(level=-0.01)
back = quantize.decode(quantize.encode(floats, context=context), context=context)
assert abs(np.asarray(back) - floats).max() < 0.006
assert np.array_equal(fc.FitsTile().decode(fc.FitsTile().encode(floats)), floats)

from pathlib import Path
count = 0
for path in sorted(Path(sys.argv[1]).glob("*.fits")):
    want = np.load(path.with_suffix(".npy"))
    got = fc.open(path, scaled=False)[...]
    assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f"), path
    count += 1
try:
    fc.open(path).header
except ImportError as error:
    assert "fitscodecs[astropy]" in str(error)
try:
    fc.open("http://127.0.0.1/a.fits")
except ImportError as error:
    assert "fitscodecs[fsspec]" in str(error)
print(f"read {count} files with numpy alone")
"""


def test_numpy_alone(tmp_path):
    """A folder with numpy and this package, in an interpreter without site-packages."""
    for source in (Path(np.__file__).parent, Path(fitscodecs.__file__).parent):
        try:
            (tmp_path / source.name).symlink_to(source)
        except OSError as error:
            pytest.skip(f"symbolic links are not allowed here: {error}")
        if (libraries := source.parent / f"{source.name}.libs").exists():
            (tmp_path / libraries.name).symlink_to(libraries)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{CODE}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(VECTORS / "files")],
        capture_output=True, text=True, env={k: v for k, v in os.environ.items()
                                             if not k.startswith("PYTHON")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "read 24 files with numpy alone\n"
