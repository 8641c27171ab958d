# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The C list, CODECS, the entry points and the docs pages name the same codecs."""

import importlib.util
import inspect
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fitscodecs as fc
from fitscodecs import _native

ROOT = Path(fc.__file__).parent.parent
OTHERS = (fc.Quantize, fc.FitsTile, fc.TiledHDU)  # codecs that are no tile compression algorithm


def entry_points():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["entry-points"]["numcodecs.codecs"]


def test_c_list():
    natives = {cls.native for cls in fc.CODECS}
    for name in _native.codec_list():
        assert name in natives, f"codecs.c lists {name}: no class in fitscodecs/codecs names it"
    for cls in fc.CODECS:
        assert cls.native in _native.codec_list(), (
            f"{cls.__name__} names {cls.native}: missing line in cextern/fitscodecs/codecs.c"
        )


@pytest.mark.parametrize("cls", fc.CODECS)
def test_parameters(cls):
    """What a header may set is what the C function takes, and is a field of the class."""
    fields = inspect.signature(cls).parameters
    for name in cls.parameters:
        assert name.lower() in fields
    if cls.parameters:
        assert cls.parameters == _native.codec_list()[cls.native]


@pytest.mark.parametrize("cls", [*fc.CODECS, *OTHERS])
def test_entry_point(cls):
    room = "fitscodecs.tiled" if cls is fc.TiledHDU else "fitscodecs.codecs"
    line = f'{cls.codec_id} = "{room}:{cls.__name__}"'
    assert entry_points().get(cls.codec_id) == f"{room}:{cls.__name__}", (
        f"missing line in pyproject.toml: {line}"
    )
    assert getattr(fc, cls.__name__) is cls


def test_no_other_entry_points():
    assert set(entry_points()) == {cls.codec_id for cls in (*fc.CODECS, *OTHERS)}


@pytest.mark.parametrize("cls", fc.CODECS)
def test_names(cls):
    """Names come from ZCMPTYPE, mechanically."""
    name = cls.zcmptype[0]
    assert cls.codec_id == f"fits_{name.lower()}"
    assert cls.__module__ == f"fitscodecs.codecs.{name.lower().split('_')[0]}"
    assert cls.__name__.lower() == name.lower().replace("_", "")
    for alias in cls.zcmptype:
        assert type(fc.get_codec(alias)) is cls


def test_unknown_name():
    with pytest.raises(ValueError, match="GZIP_ONE"):
        fc.get_codec("GZIP_ONE")


def test_docs_pages(tmp_path):
    path = ROOT / "docs" / "codec_pages.py"
    spec = importlib.util.spec_from_file_location("codec_pages", path)
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    pages.write_pages(fc.CODECS, tmp_path)
    for cls in fc.CODECS:
        page = tmp_path / f"{cls.__module__.rpartition('.')[2]}.rst"
        assert cls.__name__ in page.read_text(), f"no page of the docs names {cls.__name__}"


def test_numcodecs_finds_every_codec():
    """In a fresh process that has not imported the package."""
    pytest.importorskip("numcodecs")
    ids = [cls.codec_id for cls in (*fc.CODECS, *OTHERS)]
    code = (
        "import sys, json, numcodecs\n"
        "assert 'fitscodecs' not in sys.modules\n"
        f"codecs = [numcodecs.get_codec({{'id': i}}) for i in {ids}]\n"
        "assert all(isinstance(c, numcodecs.abc.Codec) for c in codecs)\n"
        "print(json.dumps([c.codec_id for c in codecs]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ids
