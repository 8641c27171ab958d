# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Where test data are: what is committed, and what may lie beside the project."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ORACLES = HERE / "oracles"
VECTORS = ORACLES / "vectors"
SHARED = Path(os.environ.get("FITSCODECS_SHARED", HERE.parent.parent / "shared"))

collect_ignore = ["oracles", "peers"]  # programs, not tests
sys.path.insert(0, str(ORACLES))  # the oracles import each other by name


def vectors(group):
    """The stored vectors of a group: pytest parameters with name, settings and arrays."""
    index = json.loads((VECTORS / "index.json").read_text())
    index = [item for item in index if item["group"] == group]
    if group == "files":
        return [pytest.param(i["name"], i["params"], {}, id=i["name"]) for i in index]
    with np.load(VECTORS / f"{group}.npz") as arrays:
        return [
            pytest.param(
                i["name"],
                i["params"],
                {k: arrays[f"{i['name']}.{k}"] for k in i["arrays"]},
                id=i["name"],
            )
            for i in index
        ]


def shared_files(folder):
    """Files of the shared data; a test over none of them is skipped, and says why."""
    files = sorted((SHARED / "data" / folder).glob("*.f*"))
    if files:
        return [pytest.param(f, id=f.name) for f in files]
    reason = f"{SHARED / 'data' / folder} is absent: set FITSCODECS_SHARED to the shared folder"
    return [pytest.param(None, marks=pytest.mark.skip(reason=reason), id=folder)]


def same_bits(a, b):
    """Equal shape, type and pixels, where NaN equals NaN and 0.0 does not equal -0.0."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        if not np.array_equal(nan, np.isnan(b)):
            return False
        return a[~nan].tobytes() == b[~nan].tobytes()
    return a.tobytes() == b.tobytes()


def pytest_terminal_summary(terminalreporter):
    """Say how many image HDUs of other people's files were compared."""
    reports = terminalreporter.getreports("passed")
    counts = [value for r in reports for name, value in r.user_properties if name == "image_hdus"]
    if counts:
        terminalreporter.write_line(
            f"real files: {sum(counts)} image HDUs of {len(counts)} files equal to astropy's"
        )
