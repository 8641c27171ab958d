# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The speed of this machine: what is measured, beside whom, and what is refused."""

import json
import sys
import time

import numpy as np
import pytest

from fitscodecs.cli import main
from fitscodecs.cli.bench import cases
from fitscodecs.cli.measure import IMAGES, image, interleave, ratio
from fitscodecs.cli.programs import PEERS, WORKS, Ours, Program, cutout_of, different, installed

SMALL = ["--size", "256", "--seconds", "0"]


def run(*args):
    return main(["bench", *map(str, args)])


@pytest.fixture
def no_peers(monkeypatch):
    """As where nothing but this package is installed."""
    for package in ("astropy", "astropy.io", "fitsio"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setenv("PATH", "")


def test_table_and_json(tmp_path, capsys):
    path = tmp_path / "bench.json"
    assert run(*SMALL, "--json", path) == 0
    lines = capsys.readouterr().out.splitlines()
    result = json.loads(path.read_text())
    assert result["about"]["size"] == 256
    names = [case.name for case in cases(256)]
    assert [(row["image"], row["work"]) for row in result["rows"]] == [
        (name, work) for name in names for work in WORKS
    ]
    assert all(row["MB/s"] > 0 and row["seconds"]["ours"] > 0 for row in result["rows"])
    assert all(any(line.startswith(name) for line in lines) for name in names)


def test_beside_astropy(tmp_path):
    pytest.importorskip("astropy.io.fits", reason="compares with astropy")
    path = tmp_path / "bench.json"
    assert run(*SMALL, "--only", "rice", "--json", path) == 0
    rows = json.loads(path.read_text())["rows"]
    assert all(row["x astropy"] > 0 for row in rows)


def test_without_peers(no_peers, capsys):
    assert run(*SMALL, "--only", "plio") == 0
    out = capsys.readouterr().out
    assert "mask PLIO_1" in out
    assert "not installed: astropy, fitsio, fpack" in out
    assert "x astropy" not in out


@pytest.mark.parametrize("args", [["--size", "255"], ["--only", "nonsense"], ["--seconds", "soon"]])
def test_wrong_command_lines(args, capsys):
    assert run(*args) == 2
    assert "usage: fitscodecs bench" in capsys.readouterr().err


class Wrong(Program):
    name = "wrong"

    def read(self, path):
        pixels = Ours().read(path)
        pixels[-1, -1] += 1
        return pixels


def test_programs_that_see_other_pixels_are_named(tmp_path, monkeypatch, capsys):
    case = next(cases(256))
    pixels, path = case.pixels(256), tmp_path / "a.fits.fz"
    Ours().write(path, pixels, case.packing)
    assert different([Ours(), Wrong()], path, pixels, case.packing) == ["wrong"]
    monkeypatch.setattr("fitscodecs.cli.bench.PEERS", (Wrong,))
    assert run(*SMALL, "--only", case.name) == 1
    assert f"{case.name}: other pixels are read by wrong" in capsys.readouterr().err


def test_all_that_are_installed_agree(tmp_path):
    programs, _ = installed([Ours, *PEERS])
    for case in cases(256):
        pixels = case.pixels(256)
        for writer in programs:
            path = tmp_path / "a.fits.fz"
            writer.prepare(path, pixels)
            writer.write(path, pixels, case.packing)
            assert Ours().shape(path) == pixels.shape
            assert different(programs, path, pixels, case.packing) == [], writer.name


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_the_same_in_every_run(name):
    first = image(name, 256).copy()
    image.cache_clear()
    assert first.shape == (256, 256)
    assert first.std() > 0
    np.testing.assert_array_equal(image(name, 256), first)


def test_cutouts_begin_inside_of_tiles():
    assert cutout_of((2048, 300)) == (slice(682, 1194), slice(100, 250))


def test_contestants_take_turns():
    turns = []
    times = interleave({name: lambda n=name: turns.append(n) for name in "ab"}, repeats=2)
    assert turns == ["a", "b", "b", "a", "a", "b"]  # the first round is not counted
    assert [len(spent) for spent in times.values()] == [2, 2]


def test_rounds_end_at_the_limit():
    times = interleave({"slow": lambda: time.sleep(0.02)}, repeats=1000, limit=0.1)
    assert 1 <= len(times["slow"]) <= 4


def test_what_contestants_tell_counts():
    times = interleave({"ours": lambda: 0.5, "peer": lambda: 2.0}, repeats=3)
    assert times == {"ours": [0.5] * 3, "peer": [2.0] * 3}
    assert ratio(times, "ours", "peer") == 4
