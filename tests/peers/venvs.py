# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Virtual environments with this checkout in them, for the programs beside this file."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
SOURCES = ["pyproject.toml", "setup.py", "README.rst", "LICENSE.rst", "MANIFEST.in", "fitscodecs",
           "cextern"]  # fmt: skip


def build_wheel(folder):
    """A wheel of this checkout, built from a copy: building writes into the sources."""
    copy = folder / "sources"
    for name in SOURCES:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, copy / name, ignore=shutil.ignore_patterns("*.so", "_native.c"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(path, copy / name)
    run_pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(folder), str(copy))
    return next(folder.glob("fitscodecs-*.whl"))


def make_venv(folder, requirements):
    """A fresh environment; gives its interpreter."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    run_pip(python, "install", *map(str, requirements))
    return python


def run_pip(python, *arguments):
    """Run pip; what it says is shown only if it fails."""
    command = [str(python), "-m", "pip", "-q", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
