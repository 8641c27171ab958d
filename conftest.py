# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Examples in docstrings run in a folder of their own, where they may write."""

import pytest


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(request):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch = request.getfixturevalue("monkeypatch")
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
