# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""references in the shell: formats, cubes, refusals, many files at once, changed files."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.atomic import replacing_folder
from fitscodecs.cli import main
from tests.conftest import same_bits
from tests.folder_server import FolderServer
from tests.making import plain_hdu, sample, write_compressed

zarr = pytest.importorskip("zarr", minversion="3", reason="references are read by zarr 3")
pytest.importorskip("rich", reason="the shell tool draws progress with rich")

from tests.test_kerchunk import open_references  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def run(*args):
    return main(["references", *(str(arg) for arg in args)])


@pytest.fixture
def night(tmp_path):
    """Six files of one shape in a folder."""
    folder = tmp_path / "night"
    folder.mkdir()
    for i in range(6):
        cards = [("EXTNAME", "SCI"), ("DATE-OBS", f"2024-03-0{i + 1}"), ("AIRMASS", 1 + i / 10)]
        cards += [("FILTER", "r"), ("N", i)] + [("ODD", i)] * (i % 2)
        write_compressed(folder / f"{i}.fits.fz", sample("int16", (16, 24)) + np.int16(i),
                         fc.Rice1(bytepix=2), (1 + i % 3, 24), cards)  # fmt: skip
    return folder


def pixels(night):
    return np.array([fc.open(path)[...] for path in sorted(night.iterdir())])


# ---------------------------------------------------------------------------- what is written


def test_one_file(night, tmp_path, capsys):
    out = tmp_path / "refs.json"
    assert run(night / "0.fits.fz", "-o", out) == 0
    assert same_bits(open_references(out)["SCI"][...], pixels(night)[0])
    text = capsys.readouterr().out
    assert f"{out}: {out.stat().st_size / 1000:.1f} kB, 1 file in " in text
    assert "  SCI: y 16, x 24; int16, 1 HDU\n" in text
    assert run(night / "0.fits.fz", "-o", out) == 1
    assert "exists" in capsys.readouterr().err
    assert run(night / "1.fits.fz", "-o", out, "--overwrite", "--zarr-format", 2) == 0
    assert same_bits(open_references(out, 2)["SCI"][...], pixels(night)[1])


def test_cube(night, tmp_path, capsys):
    out = tmp_path / "cube.json"
    keep = ["--keep", "DATE-OBS", "--keep", "AIRMASS", "--keep", "N", "--keep", "ODD"]
    assert run(night, "-o", out, "--new-axis", "time", *keep) == 0
    group = open_references(out)
    assert same_bits(group["SCI"][...], pixels(night))
    assert group["SCI"].metadata.dimension_names == ("time", "y", "x")
    assert group["SCI"].attrs["FILTER"] == "r"
    assert list(group["DATE-OBS"][...]) == [f"2024-03-0{i}" for i in range(1, 7)]
    assert list(group["N"][...]) == list(range(6))
    np.testing.assert_array_equal(group["AIRMASS"][...], [1 + i / 10 for i in range(6)])
    np.testing.assert_array_equal(group["ODD"][...], [np.nan, 1, np.nan, 3, np.nan, 5])
    out = capsys.readouterr().out
    assert "  SCI: time 6, y 16, x 24; int16, 6 HDUs\n  DATE-OBS: 6 values\n" in out


def test_other_ways_together(night, tmp_path):
    want = pixels(night)
    assert run(night, "-o", tmp_path / "a.json") == 0
    array = open_references(tmp_path / "a.json")["SCI"]
    assert array.metadata.dimension_names == ("file", "y", "x")
    assert same_bits(array[...], want)
    assert run(night, "-o", tmp_path / "b.json", "--axis", "y") == 0
    assert same_bits(open_references(tmp_path / "b.json")["SCI"][...], np.concatenate(want))
    other = tmp_path / "0.fits"
    other.write_bytes(plain_hdu(sample("float32", (3, 4)), True))
    assert run(night, other, "-o", tmp_path / "c.json", "--groups") == 0
    group = open_references(tmp_path / "c.json")
    assert same_bits(group["3/SCI"][...], want[3])
    assert same_bits(group["0_2/PRIMARY"][...], sample("float32", (3, 4)))
    path = night / "2.fits.fz"
    assert run(path, path, "-o", tmp_path / "d.json") == 0
    assert same_bits(open_references(tmp_path / "d.json")["SCI"][...], want[[2, 2]])


def test_parquet(night, tmp_path):
    for package in ("kerchunk", "pandas", "fastparquet"):
        pytest.importorskip(package, reason="writing Parquet needs it")
    assert run(night, "-o", tmp_path / "a.parquet") == 0
    assert same_bits(open_references(tmp_path / "a.parquet")["SCI"][...], pixels(night))
    old = open_references(tmp_path / "a.parquet", 2, use_consolidated=False)
    assert same_bits(old["SCI"][...], pixels(night))
    assert run("--check", tmp_path / "a.parquet") == 0


def test_icechunk(night, tmp_path, capsys):
    pytest.importorskip("icechunk", reason="icechunk keeps repositories of references")
    from fitscodecs.adapters.icechunk import open_repository

    assert run(night, "-o", tmp_path / "a.icechunk", "--keep", "DATE-OBS") == 0
    store = open_repository(tmp_path / "a.icechunk").readonly_session("main").store
    group = zarr.open_group(store, mode="r", zarr_format=3)
    assert same_bits(group["SCI"][...], pixels(night))
    assert list(group["DATE-OBS"][...]) == [f"2024-03-0{i}" for i in range(1, 7)]
    assert run("--check", tmp_path / "a.icechunk") == 0
    assert "6 files unchanged" in capsys.readouterr().out


def test_icechunk_says_what_is_wrong(night, tmp_path, capsys, monkeypatch):
    icechunk = pytest.importorskip("icechunk", reason="icechunk keeps repositories of references")
    from fitscodecs.adapters import icechunk as adapter

    (tmp_path / "mine.icechunk").mkdir()
    assert run("--check", tmp_path / "mine.icechunk") == 1
    assert "is no icechunk repository" in capsys.readouterr().err

    def fail(*args, **kwargs):
        raise icechunk.IcechunkError("a wall\nof text")

    monkeypatch.setattr(adapter, "write_icechunk", fail)
    assert run(night, "-o", tmp_path / "a.icechunk") == 1
    assert "a.icechunk: a wall of text\n" in capsys.readouterr().err


def test_server_without_ranges(tmp_path, capsys, monkeypatch):
    """A cache, which would help to read such a file, is no place to refer to."""
    from fitscodecs import references
    from fitscodecs.source import not_longer

    url = "http://example.org/a.fits"
    monkeypatch.setattr(references, "open_source", lambda *args: not_longer(b"ab", 0, 1, url))
    assert run(url, "-o", tmp_path / "a.json") == 1
    assert capsys.readouterr().err == (
        f"fitscodecs: {url}: gave 2 bytes for a range of 1: it does not support ranges, which "
        "references need; copy the file elsewhere\n"
    )


def test_choices(tmp_path, capsys):
    array = sample("int16", (4, 5))
    path = tmp_path / "a.fits"
    table = b"XTENSION= 'BINTABLE'".ljust(80)
    table += b"".join(
        f"{k:8}= {v:>20}".ljust(80).encode()
        for k, v in [("BITPIX", 8), ("NAXIS", 2), ("NAXIS1", 4), ("NAXIS2", 3), ("PCOUNT", 0),
                     ("GCOUNT", 1), ("TFIELDS", 1), ("TFORM1", "'J       '")]
    )  # fmt: skip
    table = (table + b"END").ljust(2880) + bytes(2880)
    path.write_bytes(plain_hdu(array, True, [("BSCALE", 0.5)]) + table
                     + plain_hdu(array, False, [("EXTNAME", "A")]))  # fmt: skip
    out = tmp_path / "refs.json"
    assert run(path, "-o", out) == 0
    assert set(open_references(out)) == {"PRIMARY", "A"}
    assert open_references(out)["PRIMARY"].dtype == "float32"
    assert "left out: HDU 1: BINTABLE, no image\n" in capsys.readouterr().out
    assert run(path, "-o", out, "--overwrite", "--hdu", "a", "--unscaled") == 0
    assert set(open_references(out)) == {"A"}
    assert run(path, "-o", out, "--overwrite", "--hdu", 0, "--unscaled") == 0
    assert same_bits(open_references(out)["PRIMARY"][...], array)


def test_list_of_files(night, tmp_path, monkeypatch):
    paths = sorted(night.iterdir())
    lines = tmp_path / "list.txt"
    lines.write_text("# files\n" + "".join(f"{path}\n" for path in paths[1:3]) + "\n")
    assert run(paths[5], "--from", lines, "-o", tmp_path / "a.json") == 0
    assert same_bits(open_references(tmp_path / "a.json")["SCI"][...], pixels(night)[[5, 1, 2]])
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(f"{paths[4]}\n"))
    assert run("--from", "-", "-o", tmp_path / "b.json") == 0
    assert same_bits(open_references(tmp_path / "b.json")["SCI"][...], pixels(night)[4])


# ---------------------------------------------------------------------------- refusals


def test_refused_files(night, tmp_path, capsys):
    """Each has a line that says why; all have to be like most of them, not like the first."""
    bad = {
        "shape": plain_hdu(sample("int16", (4, 5)), True, [("EXTNAME", "SCI")]),
        "text": b"hello".ljust(2880),
        "cut": (night / "0.fits.fz").read_bytes()[:6000],
    }
    for name, content in bad.items():
        (tmp_path / f"{name}.fits").write_bytes(content)
    paths = [tmp_path / "shape.fits", *sorted(night.iterdir()), tmp_path / "text.fits",
             tmp_path / "cut.fits", tmp_path / "none.fits"]  # fmt: skip
    out = tmp_path / "cube.json"
    assert run(*paths, "-o", out) == 1
    assert same_bits(open_references(out)["SCI"][...], pixels(night))
    lines = capsys.readouterr().err.splitlines()
    for name, reason in {
        "shape": "SCI: shape (4, 5), wanted (16, 24)",
        "text": "file starts with b'hello",
        "cut": "HDU 1",
        "none": "No such file",
    }.items():
        (line,) = [x for x in lines if f"{name}.fits" in x]
        assert line.startswith(f"fitscodecs: {tmp_path}/{name}.fits: ")
        assert reason in line
        assert line.count(f"{name}.fits") == 1
    assert lines[-1] == "fitscodecs: 4 of 10 files refused"


def test_nothing_is_written_of_nothing(tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.fits").write_text("hello")
    assert run(tmp_path / "a.fits", tmp_path / "b.fits", "-o", tmp_path / "refs.json") == 1
    assert "2 of 2 files refused; nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "refs.json").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a.fits"], "-o/--output"),
        (["-o", "x.json"], "no FILE"),
        (["a.fits", "-o", "x.zip"], "suffix '.zip', wanted .json, .parquet or .icechunk"),
        (["a.fits", "-o", "s3://b/x.json"], "written to a disk"),
        (["a.fits", "-o", "x.json", "--storage-options", "{"], "is no JSON"),
        (["a.fits", "-o", "x.json", "--storage-options", "[]"], "is no dictionary"),
        (["a.fits", "-o", "x.json", "--axis", "y", "--new-axis", "t"], "not allowed with"),
        (["a.fits", "-o", "x.parquet", "--groups"], "--groups is none of Parquet"),
        (["a.fits", "-o", "x.icechunk", "--zarr-format", "2"], "icechunk has the format 3 alone"),
        (["ftp://h/a.fits", "-o", "x.icechunk"], "x.icechunk: no icechunk store for ftp://"),
        (["--check", "x.json", "-o", "y.json"], "goes without --output"),
        (["a.fits", "-o", "x.json", "-j", "0"], "no number above 0"),
        (["a.fits", "-o", "none/x.json"], "no folder to write to"),
    ],
)
def test_wrong_command_lines(args, message, capsys, tmp_path, monkeypatch):
    pytest.importorskip("icechunk", reason="its format is asked for")
    monkeypatch.chdir(tmp_path)
    assert run(*args) in (1, 2)
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--keep", "XYZ"], "--keep XYZ: no file has this keyword"),
        (["--keep", "SCI"], "--keep SCI"),
        (["--new-axis", "x"], "new axis 'x' is one of"),
        (["--axis", "q"], "axis 'q' is none of"),
        (["--axis", "y", "--keep", "N"], "--keep goes with --new-axis"),
    ],
)
def test_impossible_cubes(night, args, message, tmp_path, capsys):
    assert run(night, "-o", tmp_path / "x.json", *args) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


# ---------------------------------------------------------------------------- many at once


def test_over_http(night, tmp_path, capsys):
    """Many files at the same time, each of them one small range and one question for its size."""
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    for i in range(6, 40):
        (night / f"{i}.fits.fz").write_bytes((night / f"{i % 6}.fits.fz").read_bytes())
    paths = sorted(night.iterdir())
    with FolderServer(night, latency=0.05) as server:
        urls = [server.url(path.name) for path in paths]
        (tmp_path / "urls.txt").write_text("\n".join([*urls, server.url("none.fits")]))
        args = ["--from", tmp_path / "urls.txt", "-o", tmp_path / "a.json", "--jobs", 16]
        assert run(*args) == 1
        assert len(server.log) == 2 * len(urls)
        assert max(entry.nbytes for entry in server.log) <= 8 * 2880
        assert 8 <= server.busiest <= 16
        server.latency = 0
        assert f"fitscodecs: {server.url('none.fits')}: no such file" in capsys.readouterr().err
        cube = open_references(tmp_path / "a.json")["SCI"]
        assert same_bits(cube[...], pixels(night))
        server.log.clear()
        assert run("--check", tmp_path / "a.json") == 0
        assert [entry.method for entry in server.log] == ["HEAD"] * len(urls)


def test_dask(night, tmp_path):
    distributed = pytest.importorskip("distributed", reason="a cluster needs dask")
    want = pixels(night)
    (night / "text.fits").write_text("hello")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        args = ["-o", tmp_path / "a.json", "--scheduler", cluster.scheduler_address]
        assert run(night, *args) == 1
    assert same_bits(open_references(tmp_path / "a.json")["SCI"][...], want)


# ---------------------------------------------------------------------------- changed files


def test_check(night, tmp_path, capsys):
    out = tmp_path / "refs.json"
    for zarr_format in (2, 3):
        assert run(night, "-o", out, "--overwrite", "--zarr-format", zarr_format) == 0
        assert run("--check", out) == 0
    capsys.readouterr()
    path = night / "3.fits.fz"
    path.write_bytes(path.read_bytes() + bytes(2880))
    (night / "4.fits.fz").unlink()
    assert run("--check", out) == 1
    text = capsys.readouterr().out
    assert f"{path}: size is {path.stat().st_size}, was {path.stat().st_size - 2880}" in text
    assert f"{night / '4.fits.fz'}: cannot be read: " in text
    assert f"{out}: 2 of 6 files changed\n" in text


def test_no_record(night, tmp_path, capsys):
    pytest.importorskip("icechunk", reason="icechunk keeps repositories of references")
    for name in ("a.json", "a.icechunk"):
        assert run(night, "-o", tmp_path / name, "--no-record") == 0
        assert run("--check", tmp_path / name) == 1
        assert "no fitscodecs_targets among its attributes" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.json", "a.parquet", "a b.icechunk"])
def test_check_names_what_is_not_recorded(night, tmp_path, capsys, monkeypatch, name):
    """As of references that were combined elsewhere, with the record of one file."""
    pytest.importorskip({"t": "fastparquet", "k": "icechunk", "n": "json"}[name[-1]])
    from fitscodecs.cli import references

    together = references.together

    def with_one_record(*args):
        group = together(*args)
        return replace(group, targets=dict(list(group.targets.items())[:5]))

    monkeypatch.setattr(references, "together", with_one_record)
    assert run(night, "-o", tmp_path / name, "--keep", "DATE-OBS") == 0
    capsys.readouterr()
    assert run("--check", tmp_path / name) == 1
    out = capsys.readouterr().out
    assert f"{night / '5.fits.fz'}: nothing is recorded of it\n" in out
    assert out.endswith("5 files unchanged, 1 not recorded\n")


def test_check_of_other_things(tmp_path, capsys):
    path = tmp_path / "a.json"
    for content, message in [
        ("{}", "no references"),
        ("hello", "no references"),
        ('{"refs": {".zattrs": "{}"}}', "no fitscodecs_targets among its attributes"),
        (json.dumps({"zarr.json": json.dumps({"attributes": {}})}), "no fitscodecs_targets"),
    ]:
        path.write_text(content)
        assert run("--check", path) == 1
        assert message in capsys.readouterr().err
    assert run("--check", os.path.join(tmp_path, "none.json")) == 1
    assert "none.json" in capsys.readouterr().err


def test_kept_numbers_are_not_changed(tmp_path):
    """Integers that no type of numpy holds together with others become text."""
    cases = {
        "BIG": (2**53 + 1, None, 2**53 + 3),
        "HUGE": (2**64 - 1, 0, 1),
        "MIXED": (2**64 - 1, -1, 1),
        "SMALL": (1, None, 3),
    }
    for i in range(3):
        cards = [("EXTNAME", "SCI")] + [(k, v[i]) for k, v in cases.items() if v[i] is not None]
        write_compressed(tmp_path / f"{i}.fits", np.zeros((2, 3), "i2"), fc.Rice1(bytepix=2),
                         (1, 3), cards)  # fmt: skip
    out = tmp_path / "o.json"
    keep = [word for keyword in cases for word in ("--keep", keyword)]
    assert (
        run(*(tmp_path / f"{i}.fits" for i in range(3)), "-o", out, "--new-axis", "t", *keep) == 0
    )
    group = open_references(out)
    assert list(group["BIG"][:]) == ["9007199254740993", "", "9007199254740995"]
    assert group["HUGE"][:].tolist() == [2**64 - 1, 0, 1]
    assert list(group["MIXED"][:]) == ["18446744073709551615", "-1", "1"]
    assert group["SMALL"][:].tolist()[::2] == [1, 3]


def test_folders_are_not_replaced_unasked(tmp_path):
    """What appears while a folder is made stays."""
    target = tmp_path / "o.parquet"
    with pytest.raises(FileExistsError, match="exists"):  # noqa: SIM117
        with replacing_folder(target, False, ".zmetadata", "folder of references") as new:
            os.mkdir(new)
            target.mkdir()
            (target / "precious").touch()
    assert [path.name for path in target.iterdir()] == ["precious"]
    assert [path.name for path in tmp_path.iterdir()] == ["o.parquet"]


def test_folders_come_back(tmp_path, monkeypatch):
    """If the new one cannot take its place, the old one is there."""
    target = tmp_path / "o.parquet"
    target.mkdir()
    (target / ".zmetadata").touch()
    monkeypatch.setattr(os, "rename", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117
        with replacing_folder(target, True, ".zmetadata", "folder of references") as new:
            os.mkdir(new)
    assert [path.name for path in target.iterdir()] == [".zmetadata"]
