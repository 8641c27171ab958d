# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The house: modules import one way, importing the package is light, names stay in their room."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fitscodecs

PACKAGE = Path(fitscodecs.__file__).parent

# Each module may import from the ones before it. Adapters and cli come last and import from all.
ORDER = [
    "errors", "_native", "context", "scaling", "deflate", "codecs.buffers", "codecs.base",
    "codecs.nocompress", "codecs.gzip", "codecs.rice", "codecs.plio", "codecs.hcompress",
    "codecs.quantize", "codecs.options", "codecs.frame", "codecs", "cpu", "checksum", "atomic",
    "header", "cards", "grid", "table", "source", "hdu", "threads", "tile", "encoded",
    "settle", "encode", "restore", "pixels",
    "image", "chunk", "check", "heap", "writer", "tiled", "pack", "readback", "repack",
    "attributes", "virtual", "zarr_metadata", "naming", "references", "_version", "",
]  # fmt: skip

# Imported when it is called: a method of images that needs the package of the adapter.
WHEN_CALLED = {"image": "adapters.dask"}


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def modules():
    return {module_name(p): p for p in sorted(PACKAGE.rglob("*.py"))}


def imported(name, path):
    """Modules of the package that a module imports, at its top or inside functions."""
    here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    here = [part for part in here if part]
    known = modules()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1] + (node.module or "").split(".")
            base = ".".join(part for part in base if part)
            for alias in node.names:
                longer = f"{base}.{alias.name}".strip(".")
                yield longer if longer in known or longer == "_native" else base


@pytest.mark.parametrize(
    "name", [m for m in modules() if m.split(".")[0] not in ("cli", "adapters")]
)
def test_imports_point_one_way(name):
    if name not in ORDER:
        assert name.startswith("codecs."), f"{name} has no place in ORDER"
        return  # a further codec: it stands beside the others
    further = [m for m in modules() if m.startswith("codecs.") and m not in ORDER]
    allowed = ORDER[: ORDER.index(name)] + (further if name == "codecs" else [])
    for other in imported(name, modules()[name]):
        if other != WHEN_CALLED.get(name):
            assert other in allowed, f"{name or 'fitscodecs'} imports {other}, which comes after it"


@pytest.mark.parametrize("name", [m for m in modules() if m.startswith("adapters.")])
def test_adapters_do_not_know_each_other(name):
    room = name.split(".")[1]
    for other in imported(name, modules()[name]):
        parts = other.split(".")
        assert parts[0] != "adapters" or parts[1:2] in ([], [room]), f"{name} imports {other}"


def test_import_is_light():
    """A fresh interpreter that imports the package loads no adapter's library."""
    heavy = ["astropy", "zarr", "dask", "kerchunk", "virtualizarr", "fsspec", "matplotlib", "rich"]
    code = f"import sys, fitscodecs; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_codecs_are_asked_not_named():
    """Outside codecs/ no code tests which algorithm it has."""
    names = "|".join(name for cls in fitscodecs.CODECS for name in cls.zcmptype)
    pattern = re.compile(rf"(==|!=|\bin\b).*[\"']({names})[\"']")
    for name, path in modules().items():
        if name.split(".")[0] != "codecs":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert not pattern.search(line), f"{path}:{number}: {line.strip()}"
