# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""fitscodecs export: the chunks of an array as FITS files."""

import json

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.cli import main
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import plain_hdu, sample
from tests.serving import array_metadata, references

zarr = pytest.importorskip("zarr", reason="arrays of zarr are exported")
pytest.importorskip("rich", reason="the shell tool needs rich")

from fitscodecs.adapters.zarr import FitsTiled  # noqa: E402


def create(path, array, chunks, **settings):
    codec = settings.pop("serializer", FitsTiled())
    written = zarr.create_array(str(path), shape=array.shape, chunks=chunks, dtype=array.dtype,
                                serializer=codec, compressors=None, filters=None,
                                **settings)  # fmt: skip
    written[...] = array
    return written


def export(*args):
    return main(["export", *map(str, args)])


def test_every_chunk_is_a_file(tmp_path, capsys):
    """astropy reads them, checksums included; a chunk that was never written has none."""
    fits = pytest.importorskip("astropy.io.fits", reason="another reader of FITS files")
    array = sample("u2", (3, 40, 60))
    array[1] = 0
    create(tmp_path / "cube.zarr", array, (1, 40, 30))
    out = tmp_path / "planes"
    out.mkdir()
    assert export(tmp_path / "cube.zarr", "-o", out) == 0
    assert "4 files" in capsys.readouterr().out
    names = [f"cube_{i}_0_{k}.fits" for i in (0, 2) for k in (0, 1)]
    assert sorted(p.name for p in out.iterdir()) == sorted(names)
    with fits.open(out / "cube_2_0_1.fits", checksum=True) as hdus:
        hdus.verify("exception")
        assert np.array_equal(hdus[1].data[0], array[2, :, 30:])
    assert same_bits(fc.open(out / "cube_0_0_0.fits")[0], array[0, :, :30])


def test_existing_files_stay(tmp_path, capsys):
    array = sample("f4", (40, 60))
    create(tmp_path / "a.zarr", array, (40, 60))
    assert export(tmp_path / "a.zarr", "-o", tmp_path) == 0
    assert same_bits(fc.open(tmp_path / "a.fits")[...], array)
    assert export(tmp_path / "a.zarr", "-o", tmp_path) == 1
    assert "exists: choose another name, or say --overwrite" in capsys.readouterr().err
    assert export(tmp_path / "a.zarr", "-o", tmp_path, "--overwrite") == 0


@pytest.mark.parametrize("primary", [True, False])
def test_references_are_exported(tmp_path, primary):
    """An image that was the primary HDU is that again."""
    array = sample("i2", (40, 60))
    path = tmp_path / "plain.fits"
    path.write_bytes(plain_hdu(array, True) if primary else PRIMARY + plain_hdu(array))
    refs = references(str(path), path, 0 if primary else 1)
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    options = {"fo": str(tmp_path / "refs.json"), "remote_protocol": "file", "asynchronous": True}
    out = tmp_path / "out"
    out.mkdir()
    assert export("reference://SCI", "-o", out, "--storage-options", json.dumps(options)) == 0
    found = fc.open(out / "SCI.fits", hdu=0 if primary else 1)
    assert same_bits(found[...], array)
    assert (out / "SCI.fits").read_bytes() == path.read_bytes()


def test_other_arrays_are_refused(tmp_path, capsys):
    array = sample("i2", (40, 60))
    create(tmp_path / "plain.zarr", array, (40, 60), serializer="auto")
    assert export(tmp_path / "plain.zarr", "-o", tmp_path) == 1
    assert "found the codecs BytesCodec, wanted FitsTiled alone" in capsys.readouterr().err
    assert export(tmp_path / "none.zarr", "-o", tmp_path) == 1
    assert "none.zarr: cannot be opened as a zarr array" in capsys.readouterr().err
    create(tmp_path / "a.zarr", array, (40, 60))
    assert export(tmp_path / "a.zarr", "-o", tmp_path / "nowhere") == 1
    assert "nowhere is no folder" in capsys.readouterr().err
    assert export(tmp_path / "a.zarr", "-o", f"{tmp_path}/here/") == 0
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["a.fits"]


def test_chunk_that_is_no_hdu(tmp_path, capsys):
    folder = tmp_path / "a.zarr"
    (folder / "c" / "0").mkdir(parents=True)
    (folder / "zarr.json").write_text(array_metadata((40, 60), (40, 60), "i2"))
    (folder / "c" / "0" / "0").write_bytes(b"no HDU" * 1000)
    assert export(folder, "-o", tmp_path) == 1
    assert "c/0/0: chunk starts with b'no HDUno H', wanted the header" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.fits"))
