# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Examples in docstrings run in a folder of their own, where they may write."""

from importlib.util import find_spec

import pytest

# Adapters import their library at their top: without it there is nothing to collect.
LIBRARIES = {"astropy": "astropy", "fsspec.py": "fsspec", "icechunk.py": "icechunk",
             "virtualizarr.py": "virtualizarr", "zarr": "zarr"}  # fmt: skip
ABSENT = {name: library for name, library in LIBRARIES.items() if find_spec(library) is None}
collect_ignore = [f"fitscodecs/adapters/{name}" for name in ABSENT]


def pytest_report_header():
    """Name the adapters whose docstrings are not looked into, and why."""
    return [f"not collected: adapters/{name}, which needs {ABSENT[name]}" for name in ABSENT]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(request):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
