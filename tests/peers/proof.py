# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What the programs about zarr share: the folder of the project to import from, claims, versions.

Import it before `tests` and `benchmarks`.
"""

import os
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["SHARED", "Claims", "versions"]

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = Path(os.environ.get("FITSCODECS_SHARED", ROOT.parent / "shared"))
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracles")]
# Workers of dask are told by the environment alone.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
warnings.simplefilter("ignore")  # of zarr and fsspec, about themselves


class Claims:
    """What has to hold; what does not is printed.

    Attributes
    ----------
    failed : int
    """

    def __init__(self):
        self.failed = self.held = 0

    def check(self, holds, what):
        """Count a claim."""
        if holds:
            self.held += 1
        else:
            self.failed += 1
            print("FAULT", what)

    def end(self):
        """Print the sum, and give the exit status."""
        print(f"{self.held} claims hold, {self.failed} do not")
        return self.failed > 0 or self.held == 0


def versions(*packages):
    """Python and packages, as a line."""
    found = [f"Python {sys.version.split()[0]}"]
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)
