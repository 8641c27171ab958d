# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The shell tool: what commands print, write and refuse, and their exit statuses."""

import contextlib
import functools
import gzip
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.check import check_tiles, heap_use
from fitscodecs.checksum import ones_sum
from fitscodecs.cli import COMMANDS, main
from fitscodecs.cli.section import parse_section, resolve
from tests.conftest import VECTORS, same_bits
from tests.making import plain_hdu, sample, write_compressed

fits = pytest.importorskip("astropy.io.fits", reason="the shell tool shows headers with astropy")
pytest.importorskip("rich", reason="the shell tool draws tables with rich")
pytest.importorskip("matplotlib", reason="the shell tool draws pictures with matplotlib")

FILES = sorted((VECTORS / "files").glob("*.fits"))
FALLBACK = VECTORS / "files" / "cf_rice_f32_fallback.fits"
ROWS = VECTORS / "files" / "cf_gzip2_i16.fits"


def run(*args):
    return main([str(arg) for arg in args])


def opened(path, which=1):
    """Pixels of an HDU as astropy gives them, in native byte order."""
    with fits.open(path, memmap=False) as hdus:
        data = hdus[which].data
        return data.astype(data.dtype.newbyteorder("="))


@pytest.fixture
def star_field(tmp_path):
    """A compressed image with coordinates, tiles of 16 x 16 pixels."""
    header = fits.Header()
    header.update(
        CTYPE1="RA---TAN", CTYPE2="DEC--TAN", CRVAL1=150.0, CRVAL2=-41.5, CRPIX1=40.5, CRPIX2=30.5,
        CDELT1=-0.001, CDELT2=0.001, CUNIT1="deg", CUNIT2="deg", LTV1=-10.0, LTM1_1=0.5,
        OBJECT="field", EXTNAME="SCI",
    )  # fmt: skip
    path = tmp_path / "field.fits.fz"
    hdu = fits.CompImageHDU(sample("int16", (60, 80)), header, compression_type="RICE_1",
                            tile_shape=(16, 16))  # fmt: skip
    fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path, checksum=True)
    return path


def damaged(path, target, *tiles):
    """A copy of a file of which some tiles of HDU 1 hold ones only."""
    raw = bytearray(path.read_bytes())
    with fc.open(path) as image:
        ranges = image.table.heap_ranges()
        base = image.hdu.data_start
    for tile in tiles:
        start, stop = ranges[tile]
        raw[base + start : base + stop] = b"\xff" * (stop - start)
    target.write_bytes(raw)
    return target


# ---------------------------------------------------------------------------- the tool


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_examples(command, capsys):
    assert run(command, "--help") == 0
    out = capsys.readouterr().out
    description, _, examples = out.partition("examples:\n")
    assert f"fitscodecs {command} " in examples
    assert len(description.splitlines()) > 8


def test_help_names_all_commands(capsys):
    assert run("--help") == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^ +{command}\s", out, re.MULTILINE) for command in COMMANDS)


@pytest.mark.parametrize("args", [
    [], ["nonsense"], ["info"], ["cutout", "a.fits", "-o", "b.fits"],
    ["cutout", "a.fits", "[1;2]", "-o", "b.fits"], ["cutout", "a.fits", "1:2:0,*", "-o", "b.fits"],
    ["cutout", "a.fits", "*,*", "--size", "3", "-o", "b"], ["cutout", "a.fits", "*,*"],
    ["cutout", "a.fits", "--center", "1", "2", "-o", "b"], ["preview", "a.fits"],
    ["preview", "a.fits", "-o", "b.png", "--stretch", "nonsense"], ["verify"],
])  # fmt: skip
def test_wrong_command_lines(args, capsys):
    assert run(*args) == 2
    assert "usage: fitscodecs" in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from fitscodecs.cli import main; assert main(['--help']) == 0; "
        "print({'astropy', 'matplotlib', 'rich', 'fsspec'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")


def test_as_a_module():
    command = [sys.executable, "-W", "error", "-m", "fitscodecs.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"fitscodecs {fc.__version__}\n"


def test_a_pipe_that_nobody_reads():
    command = [sys.executable, "-m", "fitscodecs.cli", "info", "--tiles", *map(str, FILES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_messages_keep_blanks_and_lose_line_breaks():
    from fitscodecs.cli.failures import one_line

    assert one_line(ValueError("wanted 'SIMPLE  ='\n\n  here\r\n")) == "wanted 'SIMPLE  =' here"
    assert one_line(ValueError()) == "ValueError"


@pytest.mark.parametrize("text", ["info {} --json {}", "info --hdu 1 {} --tiles --json {}"])
def test_files_and_options_in_any_order(text, capsys):
    assert run(*text.format(ROWS, FALLBACK).split()) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_missing_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("info", ROWS) == 1
    assert capsys.readouterr().err == "fitscodecs: missing: rich: pip install 'fitscodecs[cli]'\n"


# ---------------------------------------------------------------------------- info


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_info_as_json_agrees_with_the_image(path, capsys):
    assert run("info", "--json", "--tiles", path) == 0
    (report,) = json.loads(capsys.readouterr().out)
    facts = report["hdus"][1]
    with fc.open(path) as image:
        assert facts["kind"] == "compressed image"
        assert tuple(facts["shape"]) == image.shape == tuple(facts["axes"][::-1])
        assert facts["dtype"] == image.dtype.name
        assert facts["codec"] == image.codec.zcmptype[0]
        assert sum(facts["tiles"].values()) == len(image.table) == len(facts["tile_list"])
        assert [tile["nbytes"] for tile in facts["tile_list"]] == image.table.nbytes.tolist()


def test_info_as_text(star_field, capsys):
    assert run("info", star_field, FALLBACK) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == str(star_field)
    assert "shape (numpy)" in lines[1] and "axes (FITS)" in lines[1]
    assert lines[3].split("  ")[0] == "1"
    for part in ("SCI", "(60, 80)", "80 x 60", "int16", "RICE_1 BLOCKSIZE=32 BYTEPIX=2",
                 "(16, 16)", "(4, 5)"):  # fmt: skip
        assert part in lines[3]
    assert "GZIP_COMPRESSED_DATA" in out and "ZSCALE" in out and "SUBTRACTIVE_DITHER" in out


def test_info_of_one_hdu(star_field, capsys):
    assert run("info", "--json", "--hdu", "sci,1", star_field) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert [hdu["index"] for hdu in report["hdus"]] == [1]
    assert run("info", "--hdu", "7", star_field) == 1
    assert "wanted HDU 7" in capsys.readouterr().err


@pytest.mark.parametrize(("codec", "scale"), [
    ({"compression_type": "HCOMPRESS_1", "hcomp_scale": 3}, 3),
    ({"compression_type": "HCOMPRESS_1"}, 0),
    ({"compression_type": "RICE_1"}, None),
])  # fmt: skip
def test_scale_of_the_header_is_shown(codec, scale, tmp_path, capsys):
    path = tmp_path / "image.fits.fz"
    pixels = sample("int16", (32, 40))
    fits.HDUList([fits.PrimaryHDU(), fits.CompImageHDU(pixels, **codec)]).writeto(path)
    assert run("info", path) == 0
    assert re.findall(r"SCALE=(\S+)", capsys.readouterr().out) == [str(scale)][: scale is not None]
    assert run("info", "--json", path) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["hdus"][1]["parameters"].get("SCALE") == scale
    title = preview_title(path)
    assert "SCALE" not in title if scale is None else f"SCALE={scale} SMOOTH=0" in title


def preview_title(path):
    from fitscodecs.cli.preview import title

    with fc.open(path) as image:
        return title(image, path.name)


def test_scale_that_is_no_number(tmp_path, capsys):
    path = tmp_path / "image.fits.fz"
    hdu = fits.CompImageHDU(sample("int16", (32, 40)), compression_type="HCOMPRESS_1")
    fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path)
    raw = path.read_bytes()
    card = raw[(at := raw.index(b"ZVAL1   =")) : at + 30]
    path.write_bytes(raw.replace(card, b"ZVAL1   = 'many    '".ljust(30)))
    assert run("info", path) == 0
    assert "SCALE=0" in capsys.readouterr().out


def test_words_of_the_tables_are_explained(capsys):
    assert run("info", "--help") == 0
    _, _, terms = capsys.readouterr().out.partition("words in the tables:\n")
    told = {line.split("  ")[1].strip() for line in terms.splitlines()}
    assert {"ratio", "gap", "unreferenced", "shared", "overlapping"} <= told


def test_info_counts_one_row(tmp_path, capsys):
    path = tmp_path / "table.fits"
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=[1])])
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(path)
    assert run("info", path) == 0
    out = capsys.readouterr().out
    assert "1 row, 1 column" in out and "1 rows" not in out


@pytest.mark.parametrize("width", [200, 80, 20])
def test_info_on_a_terminal(width, star_field, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("info", star_field) == 0
    out = capsys.readouterr().out
    assert out.count("\u256d") == 2 if width == 200 else out.count("\u256d") > 2
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert max(map(len, plain.splitlines())) <= width
    assert "16)" in out


def test_info_shows_hdus_beside_a_broken_one(tmp_path, capsys):
    path = tmp_path / "broken.fits"
    hdus = [fits.CompImageHDU(sample("int16", (9, 9)), name=name) for name in ("A", "B", "C")]
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=[1, 2])], name="T")
    fits.HDUList([fits.PrimaryHDU(), *hdus, table]).writeto(path)
    raw = path.read_bytes()
    at = raw.index(b"ZCMPTYPE", raw.index(b"ZCMPTYPE") + 1)
    path.write_bytes(raw[:at] + raw[at:].replace(b"'RICE_1", b"'DICE_1", 1))
    assert run("info", path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "ZCMPTYPE is 'DICE_1'" in lines[4]
    assert all("RICE_1" in lines[i] for i in (3, 5))
    assert "2 rows, 1 column" in lines[6] and "1 columns" not in lines[6]


def test_info_of_a_file_that_ends_early(star_field, capsys):
    star_field.write_bytes(star_field.read_bytes()[:-3000])
    assert run("info", star_field) == 1
    assert "file ends after" in capsys.readouterr().out


def test_info_of_what_is_no_fits_file(tmp_path, star_field, capsys):
    (tmp_path / "text").write_text("hello")
    assert run("info", tmp_path / "text", tmp_path / "absent", star_field) == 1
    out, err = capsys.readouterr()
    assert "RICE_1" in out
    assert [line.split(":")[0] for line in err.splitlines()] == ["fitscodecs"] * 2
    assert "wanted a FITS file" in err and "No such file" in err


# ---------------------------------------------------------------------------- sections


@pytest.mark.parametrize(("text", "x", "y"), [
    ("[3:5,1:2]", range(2, 5), range(2)),
    ("3:5, *", range(2, 5), range(8)),
    ("7,*:3", range(6, 7), range(0, 8, 3)),
    ("[1:10:4,-*]", range(0, 10, 4), range(7, -1, -1)),
    ("[9:2:2,5:5]", range(8, 0, -2), range(4, 5)),
])  # fmt: skip
def test_sections(text, x, y):
    assert [list(r) for r in resolve(parse_section(text), (10, 8))] == [list(x), list(y)]


@pytest.mark.parametrize("section", ["1:81,1:5", "0:3,1:5", "1:5,61", "1:5", "1:5,1:5,1"])
def test_sections_outside_the_image(section, star_field, tmp_path, capsys):
    assert run("cutout", star_field, section, "-o", tmp_path / "out.fits") == 1
    err = capsys.readouterr().err
    assert err.startswith("fitscodecs: section") and err.count("\n") == 1
    assert os.listdir(tmp_path) == [star_field.name]


# ---------------------------------------------------------------------------- cutouts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cutout_equals_the_slice(path, tmp_path):
    out = tmp_path / "out.fits"
    assert run("cutout", path, "[5:30:3,4:19]", "-o", out) == 0
    with fits.open(out, do_not_scale_image_data=True) as hdus:
        stored = hdus[0].data.astype(hdus[0].data.dtype.newbyteorder("="))
    assert same_bits(stored, np.load(path.with_suffix(".npy"))[3:19, 4:30:3])
    with fc.open(path) as image:
        assert same_bits(opened(out, 0), image[3:19, 4:30:3])


@pytest.mark.parametrize(("dtype", "cards"), [
    ("int16", [("BZERO", 32768.0), ("BSCALE", 1.0)]),
    ("int32", [("BZERO", 2147483648.0)]),
    ("uint8", [("BZERO", -128)]),
    ("int16", [("BSCALE", 0.5), ("BZERO", 7.0)]),
    ("int16", [("BLANK", 100)]),
    ("int32", [("BLANK", 101), ("BSCALE", 2.0)]),
    ("float32", []),
    ("float64", [("BSCALE", 2.0), ("BZERO", 1.0)]),
])  # fmt: skip
@pytest.mark.parametrize("compressed", [True, False])
def test_cutout_keeps_types_and_scaling(dtype, cards, compressed, tmp_path):
    path, out = tmp_path / "in.fits", tmp_path / "out.fits"
    pixels = sample(dtype, (20, 30))
    if compressed:
        codec = fc.Gzip2() if pixels.dtype.kind == "f" else fc.Rice1(bytepix=pixels.itemsize)
        write_compressed(path, pixels, codec, (4, 30), cards)
    else:
        path.write_bytes(plain_hdu(pixels, primary=True, more=cards))
    which = 1 if compressed else 0
    assert run("cutout", path, "[2:9,20:3]", "--hdu", which, "-o", out) == 0
    assert same_bits(opened(out, 0), opened(path, which)[19:1:-1, 1:9])
    with fits.open(out, do_not_scale_image_data=True) as hdus:
        assert same_bits(hdus[0].data.astype(dtype), pixels[19:1:-1, 1:9])


def test_cutout_of_a_cube(tmp_path):
    path, out = tmp_path / "cube.fits", tmp_path / "plane.fits"
    cube = sample("int16", (5, 12, 10))
    fits.HDUList([fits.PrimaryHDU(), fits.CompImageHDU(cube, tile_shape=(1, 4, 10))]).writeto(path)
    assert run("cutout", path, "*,2:7,3", "-o", out) == 0
    assert same_bits(opened(out, 0), cube[2:3, 1:7])


@pytest.mark.parametrize("section", ["[11:50,21:60]", "[11:80:3,60:1:3]", "[*,*]"])
@pytest.mark.parametrize("kind", ["CDELT", "CD", "PC", "CROTA", "SIP"])
def test_coordinates_of_a_cutout(section, kind, star_field, tmp_path):
    wcs = pytest.importorskip("astropy.wcs")
    more = {
        "CDELT": {},
        "CD": {"CD1_1": -1e-3, "CD1_2": 2e-4, "CD2_1": 1e-4, "CD2_2": 1.1e-3},
        "PC": {"PC1_2": 0.3, "PC2_1": -0.2},
        "CROTA": {"CROTA2": 25.0},
        "SIP": {"CTYPE1": "RA---TAN-SIP", "CTYPE2": "DEC--TAN-SIP", "A_ORDER": 2, "B_ORDER": 2,
                "A_2_0": 1e-4, "A_1_1": 2e-4, "B_0_2": -1e-4, "B_1_1": 3e-5},
    }[kind]  # fmt: skip
    with fits.open(star_field, mode="update") as hdus:
        hdus[1].header.update(more)
        if kind == "CD":
            del hdus[1].header["CDELT*"]
    out = tmp_path / "out.fits"
    assert run("cutout", star_field, section, "-o", out) == 0
    x, y = resolve(parse_section(section), (80, 60))
    before = wcs.WCS(fits.getheader(star_field, 1))
    after = wcs.WCS(fits.getheader(out))
    i, j = np.meshgrid(np.arange(len(x)), np.arange(len(y)))
    want = before.all_pix2world(x[0] + x.step * i, y[0] + y.step * j, 0)
    np.testing.assert_allclose(after.all_pix2world(i, j, 0), want, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore::astropy.io.fits.verify.VerifyWarning")
def test_cutout_with_a_card_that_cannot_be_read(star_field, tmp_path, capsys):
    raw = star_field.read_bytes()
    star_field.write_bytes(raw.replace(b"'field   '", b"  fi\xe9ld   "))
    assert run("cutout", star_field, "*,*", "-o", tmp_path / "out.fits") == 1
    assert capsys.readouterr().err.startswith("fitscodecs: HDU 1 (SCI): ")
    assert os.listdir(tmp_path) == [star_field.name]


def test_header_of_a_cutout(star_field, tmp_path):
    out = tmp_path / "out.fits"
    assert run("cutout", star_field, "[11:50:2,*]", "-o", out) == 0
    header = fits.getheader(out)
    assert (header["LTV1"], header["LTM1_1"]) == ((-10 - 11) / 2 + 1, 0.25)
    assert header["OBJECT"] == "field"
    assert header.comments["CRPIX1"] == fits.getheader(star_field, 1).comments["CRPIX1"]
    assert not {"CHECKSUM", "DATASUM", "XTENSION", "TFIELDS", "ZIMAGE", "ZCMPTYPE", "ZHECKSUM",
                "PCOUNT", "GCOUNT"} & set(header)  # fmt: skip
    with fits.open(out) as hdus:
        hdus.verify("exception")


@pytest.mark.parametrize(("center", "size", "box"), [
    (("150.0", "-41.5"), ["10"], (slice(25, 35), slice(35, 45))),
    (("10:00:00", "-41:30:00"), ["0.01deg", "36arcsec"], (slice(25, 35), slice(35, 45))),
    (("10h", "-41d30m"), ["6", "4"], (slice(28, 32), slice(37, 43))),
    (("150.0", "-41.5"), ["70", "200"], (slice(0, 60), slice(5, 75))),
])  # fmt: skip
def test_cutout_around_a_place_on_the_sky(center, size, box, star_field, tmp_path):
    out = tmp_path / "out.fits"
    assert run("cutout", star_field, "-o", out, "--center", *center, "--size", *size) == 0
    assert same_bits(opened(out, 0), opened(star_field)[box])


@pytest.mark.parametrize("text", [
    "FILE -o OUT [3:20,5:9]",
    "-o OUT FILE [3:20,5:9]",
    "FILE [3:20,5:9] -o OUT",
    "FILE --hdu 1 [3:20,5:9] -o OUT",
    "-o OUT -- FILE [3:20,5:9]",
])  # fmt: skip
def test_section_anywhere_on_the_line(text, star_field, tmp_path):
    out = tmp_path / "out.fits"
    assert run("cutout", *in_order(text, star_field, out)) == 0
    assert same_bits(opened(out, 0), opened(star_field)[4:9, 2:20])


def in_order(text, file, out):
    return [{"FILE": file, "OUT": out}.get(word, word) for word in text.split()]


@pytest.mark.parametrize(("text", "height"), [
    ("--center 150.0 -41.5 --size 6 FILE -o OUT", 6),
    ("--center 150.0 -41.5 --size 6 4 FILE -o OUT", 4),
    ("--size 6,4 FILE --center 150.0 -41.5 -o OUT", 4),
    ("-o OUT --size 6 4 --center 150.0 -41.5 FILE", 4),
    ("FILE -o OUT --center 150.0 -41.5 --size 6 14.4arcsec", 4),
    ("FILE -o OUT --center 10:00:00 -41:30:00 --size=6,4", 4),
])  # fmt: skip
def test_center_and_size_anywhere_on_the_line(text, height, star_field, tmp_path):
    out = tmp_path / "out.fits"
    assert run("cutout", *in_order(text, star_field, out)) == 0
    box = (slice(30 - height // 2, 30 + height // 2), slice(37, 43))
    assert same_bits(opened(out, 0), opened(star_field)[box])


def test_center_is_said_to_be_icrs(capsys):
    assert run("cutout", "--help") == 0
    assert "middle of the box, ICRS" in capsys.readouterr().out


@pytest.mark.parametrize(("center", "size", "message"), [
    (("10.0", "41.5"), "5", "outside"),
    (("150.0", "-41.0"), "5", "outside the image"),
    (("nonsense", "here"), "5", "no place on the sky"),
    (("150.0", "-41.5"), "5kg", "--size 5kg"),
    (("150.0", "-41.5"), "-3", "--size -3"),
    (("150.0", "-41.5"), "3,4,5", "--size 3,4,5"),
])  # fmt: skip
def test_cutout_of_no_place(center, size, message, star_field, tmp_path, capsys):
    out = tmp_path / "out.fits"
    assert run("cutout", star_field, "--center", *center, "--size", size, "-o", out) == 1
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_cutout_without_coordinates(tmp_path, capsys):
    args = ("--center", "1", "2", "--size", "5", "-o", tmp_path / "out.fits")
    assert run("cutout", ROWS, *args) == 1
    assert "no celestial coordinates" in capsys.readouterr().err


def test_cutout_tells_what_it_read(star_field, tmp_path, capsys):
    assert run("cutout", star_field, "1:16,17:40", "-o", tmp_path / "out.fits") == 0
    out = capsys.readouterr().out
    assert "16 x 24 pixels [1:16,17:40] of HDU 1 (SCI); 2 of 20 tiles decoded" in out


def test_cutout_counts_bytes_once(tmp_path, capsys):
    path, out = tmp_path / "image.fits", tmp_path / "out.fits"
    pixels = sample("int16", (504, 400))  # which fill their last block
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(pixels)]).writeto(path)
    size = f"{path.stat().st_size / 1000:.1f} kB"
    assert run("cutout", path, "*,*", "--hdu", 1, "-o", out) == 0
    assert f"; {size} of {size} read" in capsys.readouterr().out


def test_cutout_from_what_opening_has_read(tmp_path, capsys):
    path = tmp_path / "image.fits"
    codec = {"compression_type": "GZIP_1", "tile_shape": (5, 400)}
    hdu = fits.CompImageHDU(sample("int16", (500, 400)), **codec)
    fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path)
    size = f"{path.stat().st_size / 1000:.1f} kB"
    assert run("cutout", path, "1,1", "--hdu", 1, "-o", tmp_path / "out.fits") == 0
    assert f"; 1 of 100 tiles decoded, 23.0 kB of {size} read" in capsys.readouterr().out


def test_cutout_of_a_gzipped_file_tells_no_bytes(star_field, tmp_path, capsys):
    path = tmp_path / "image.fits.gz"
    path.write_bytes(gzip.compress(star_field.read_bytes()))
    assert run("cutout", path, "1:16,1:16", "-o", tmp_path / "out.fits") == 0
    out = capsys.readouterr().out
    assert out.endswith("; 1 of 20 tiles decoded\n")


@pytest.mark.parametrize("suffix", [".gz", ".fz", ".GZ", ".bz2"])
def test_cutout_with_a_suffix_of_compressed_files(suffix, star_field, tmp_path, capsys):
    out = tmp_path / f"out.fits{suffix}"
    assert run("cutout", star_field, "*,*", "-o", out) == 1
    err = capsys.readouterr().err
    assert f"leave {suffix} out of its name" in err and err.count("\n") == 1
    assert not out.exists()


def test_cutout_is_not_overwritten(star_field, tmp_path, capsys):
    out = tmp_path / "out.fits"
    out.write_text("precious")
    assert run("cutout", star_field, "*,*", "-o", out) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert run("cutout", star_field, "*,*", "-o", out, "--overwrite") == 0
    assert same_bits(opened(out, 0), opened(star_field))


@pytest.mark.parametrize("command", [("cutout", "1:9,1:9"), ("preview",)])
def test_truncated_file_is_named(command, tmp_path, capsys):
    (tmp_path / "cut.fits").write_bytes(ROWS.read_bytes()[:-2500])
    name, *section = command
    assert run(name, tmp_path / "cut.fits", *section, "-o", tmp_path / "out.png") == 1
    assert capsys.readouterr().err.startswith(f"fitscodecs: {tmp_path / 'cut.fits'}: ")


@pytest.mark.parametrize("command", ["info", "verify", "preview"])
def test_folders_are_no_files(command, tmp_path, capsys):
    args = ["-o", tmp_path / "out.png"] if command == "preview" else []
    assert run(command, tmp_path, *args) == 1
    assert capsys.readouterr().err == f"fitscodecs: {tmp_path} is a folder, wanted a file\n"


def test_unknown_options(capsys):
    assert run("info", "a.fits", "--tlies") == 2
    err = capsys.readouterr().err
    assert "usage: fitscodecs info" in err
    assert "fitscodecs info: error: unrecognized arguments: --tlies\n" in err


@pytest.mark.parametrize("command", [("cutout", ROWS, "*,*"), ("preview", ROWS)])
def test_target_in_no_folder(command, tmp_path, capsys):
    assert run(*command, "-o", tmp_path / "absent" / "out") == 1
    assert (
        capsys.readouterr().err == f"fitscodecs: {tmp_path / 'absent'} is no folder to write to\n"
    )


def test_failed_cutout_leaves_nothing(tmp_path, capsys):
    path = damaged(ROWS, tmp_path / "bad.fits", 7)
    out = tmp_path / "out.fits"
    assert run("cutout", path, "*,5:10", "-o", out) == 1
    assert "tile 7" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["bad.fits"]
    assert run("cutout", path, "*,1:7", "-o", out) == 0


def test_failed_write_leaves_the_old_file(star_field, tmp_path, monkeypatch):
    out = tmp_path / "out.fits"
    out.write_text("precious")

    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert run("cutout", star_field, "*,*", "-o", out, "--overwrite") == 1
    assert out.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == [star_field.name, "out.fits"]


# ---------------------------------------------------------------------------- previews

ODD = {
    "nan": np.full((9, 8), np.nan, "f4"),
    "constant": np.full((9, 8), 5, "i2"),
    "infinite": np.where(np.eye(9, 8), np.inf, sample("float32", (9, 8))).astype("f4"),
    "huge": np.where(np.eye(9, 8), 1.7e308, -1.7e308),
    "mask": np.eye(9, 8, dtype="u1"),
    "line": sample("int16", (500,)),
    "long line": sample("int16", (7001,)),
    "pixel": np.ones((1, 1), "i2"),
    "strip": sample("int16", (2, 900)),
    "cube": sample("int16", (4, 9, 8)),
    "hypercube": sample("int16", (3, 4, 9, 8)),
    "large mask": np.eye(1700, 30, dtype="u1"),
    "large": sample("int16", (1601, 40)),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("compressed", [True, False])
def test_preview(name, compressed, tmp_path):
    path, out = tmp_path / "image $1 [a].fits", tmp_path / "out.png"
    kind = fits.CompImageHDU if compressed else fits.ImageHDU
    more = {"compression_type": "GZIP_2", "quantize_level": 0} if compressed else {}
    fits.HDUList([fits.PrimaryHDU(), kind(ODD[name], **more)]).writeto(path)
    assert run("preview", path, "-o", out, "--hdu", "1") == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stretch", ["zscale", "minmax", "percentile", "linear", "sqrt", "log",
                                     "asinh"])  # fmt: skip
def test_stretches(stretch, tmp_path):
    out = tmp_path / "out.svg"
    assert run("preview", FALLBACK, "-o", out, "--stretch", stretch) == 0
    assert b"<svg" in out.read_bytes()


@pytest.mark.parametrize("name", ["x.xyz", "x", "x.jpg"])
def test_preview_with_another_suffix(name, tmp_path, capsys):
    assert run("preview", ROWS, "-o", tmp_path / name) == 1
    err = capsys.readouterr().err
    assert ".png, .pdf, .svg" in err and err.count("\n") == 1
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("npixels", [3, 1000])
@pytest.mark.parametrize("compressed", [True, False])
def test_title_of_a_line_stands_above_its_panels(npixels, compressed, tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from fitscodecs.cli.picture import TileMap, draw_line
    from fitscodecs.cli.preview import place_title, title

    path = tmp_path / "line.fits"
    kind = fits.CompImageHDU if compressed else fits.ImageHDU
    fits.HDUList([fits.PrimaryHDU(), kind(sample("int16", (npixels,)))]).writeto(path)
    figure = Figure(dpi=100)
    canvas = FigureCanvasAgg(figure)
    with fc.open(path, 1) as image:
        draw_line(figure, image, TileMap(image) if compressed else None, "zscale")
        place_title(figure, title(image, path.name))
    canvas.draw()
    (text,) = figure.texts
    below = text.get_window_extent().y0
    assert all(panel.get_tightbbox().y1 < below for panel in figure.axes)


def test_block_means_leave_out_what_is_not_finite():
    from fitscodecs.cli.values import block_mean

    pixels = np.arange(35.0).reshape(5, 7)
    pixels[0, 0], pixels[4, 6] = np.nan, np.inf
    got = block_mean(pixels, (2, 3))
    finite = np.where(np.isinf(pixels), np.nan, pixels)
    assert np.isnan(got[2, 2])  # the infinity is alone in its block
    got[2, 2] = 0
    want = [[np.nanmean(finite[i : i + 2, j : j + 3]) for j in (0, 3, 6)] for i in (0, 2)]
    last = [finite[4, :3].mean(), finite[4, 3:6].mean(), 0]
    want = [*want, last]
    np.testing.assert_array_equal(got, want)


def test_preview_of_damage(tmp_path, capsys):
    path = damaged(ROWS, tmp_path / "bad.fits", 3)
    assert run("preview", path, "-o", tmp_path / "out.png") == 1
    assert "tile 3" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["bad.fits"]


# ---------------------------------------------------------------------------- verify


def test_verify_good_files(capsys):
    assert run("verify", *FILES) == 0
    out = capsys.readouterr().out
    assert "fault" not in out and len([x for x in out.splitlines() if ": ok: " in x]) == len(FILES)


def test_verify_names_all_bad_tiles(tmp_path, capsys):
    path = damaged(ROWS, tmp_path / "bad.fits", 0, 7, 20)
    assert run("verify", path, ROWS) == 1
    out = capsys.readouterr().out
    assert [row for row in range(21) if f" tile {row}: " in out] == [0, 7, 20]
    assert "row" not in out  # the number of a tile stands there once
    assert "DATASUM is" in out and "CHECKSUM is wrong" in out
    assert f"{path}: 5 FAULTS: 1 compressed image, 21 tiles (3 bad)" in out
    assert f"{ROWS}: ok" in out


def test_verify_tells_the_file_before_its_faults(tmp_path, capsys):
    path = damaged(ROWS, tmp_path / "bad.fits", 7)
    assert run("verify", ROWS, path, FALLBACK) == 1
    lines = capsys.readouterr().out.splitlines()
    files = [i for i, line in enumerate(lines) if not line.startswith("  ")]
    assert [lines[i].split(": ")[0] for i in files] == [str(ROWS), str(path), str(FALLBACK)]
    assert files[0] + 1 == files[1] and files[1] + 3 < files[2] + 1
    assert all(line.startswith("  fault: HDU 1") for line in lines[files[1] + 1 : files[2]])


def test_verify_sums_up_many_bad_tiles(tmp_path, capsys):
    bad = [*range(11), 13, *range(15, 19)]
    path = damaged(ROWS, tmp_path / "bad.fits", *bad)
    assert run("verify", path) == 1
    out = capsys.readouterr().out
    assert [row for row in range(21) if f" tile {row}: " in out] == list(range(10))
    assert "(COMPRESSED_IMAGE): ... and 6 more: tiles 10, 13, 15-18\n" in out
    assert f"{len(bad) + 2} FAULTS: 1 compressed image, 21 tiles ({len(bad)} bad)" in out
    assert run("verify", path, "--all") == 1
    out = capsys.readouterr().out
    assert [row for row in range(21) if f" tile {row}: " in out] == bad
    assert "more" not in out and f"{len(bad) + 2} FAULTS" in out


def test_ranges_of_tiles():
    from fitscodecs.cli.verify import row_ranges

    assert row_ranges([4]) == "4"
    assert row_ranges([4, 5, 6, 9, 11, 12]) == "4-6, 9, 11-12"
    assert row_ranges(range(0, 100, 2)) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ..."


def test_verify_of_plain_images(tmp_path, capsys):
    plain, summed = tmp_path / "plain.fits", tmp_path / "summed.fits"
    hdu = fits.PrimaryHDU(sample("int16", (9, 8)))
    hdu.writeto(plain)
    hdu.writeto(summed, checksum=True)
    assert run("verify", plain, summed) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{plain}: nothing to verify: no compressed image and no checksum"
    assert second.startswith(f"{summed}: ok: ") and second.endswith(", 2 checksums")
    raw = bytearray(summed.read_bytes())
    raw[2880] ^= 1
    summed.write_bytes(raw)
    assert run("verify", summed) == 1
    assert "DATASUM is" in capsys.readouterr().out


def test_verify_finds_changed_headers(star_field, capsys):
    assert run("verify", star_field) == 0
    star_field.write_bytes(star_field.read_bytes().replace(b"'field ", b"'Field "))
    assert run("verify", star_field) == 1
    out = capsys.readouterr().out
    assert "CHECKSUM is wrong" in out and "DATASUM" not in out


def test_verify_of_a_file_that_ends_early(star_field, capsys):
    star_field.write_bytes(star_field.read_bytes()[:-3500])
    assert run("verify", star_field) == 1
    out = capsys.readouterr().out
    assert "file ends after" in out and "tile 19: " in out


def test_verify_notes_surplus_bytes(tmp_path, capsys):
    path = tmp_path / "surplus.fits"

    class Padded(fc.Gzip1):
        def encode(self, buf, *, context=None):
            return memoryview(bytes(super().encode(buf, context=context)) + b"\0" * 5)

    write_compressed(path, sample("int16", (6, 10)), Padded(), (2, 10), gap=16)
    assert run("verify", path) == 0
    out = capsys.readouterr().out
    assert "note: HDU 1: 15 bytes after the end of 3 streams" in out
    assert "note: HDU 1: 16 bytes between the table and the heap" in out


def test_verify_against_the_original(star_field, tmp_path, capsys):
    plain = tmp_path / "plain.fits"
    pixels = opened(star_field)
    fits.PrimaryHDU(pixels).writeto(plain)
    assert run("verify", star_field, "--against", plain) == 0
    assert "1 image compared" in capsys.readouterr().out
    pixels[7, 9] += 3
    fits.PrimaryHDU(pixels).writeto(plain, overwrite=True)
    assert run("verify", star_field, "--against", plain) == 1
    assert "1 of 4800 pixels differ, first at (7, 9), by 3 at most" in capsys.readouterr().out


def test_verify_against_other_images(star_field, tmp_path, capsys):
    other = tmp_path / "other.fits"
    hdus = [fits.PrimaryHDU(), fits.ImageHDU(opened(star_field).astype("i4"), name="X")]
    fits.HDUList(hdus).writeto(other)
    assert run("verify", star_field, "--against", other) == 1
    assert "int32" in capsys.readouterr().out
    fits.HDUList([*hdus, fits.ImageHDU(sample("uint8", (3, 3)))]).writeto(other, overwrite=True)
    assert run("verify", star_field, "--against", other) == 1
    assert f"1 image, {other} has 2" in capsys.readouterr().out
    assert run("verify", other, "--against", star_field) == 1
    assert "no image to compare with" in capsys.readouterr().out


def test_verify_compares_bits(tmp_path):
    """NaN equals NaN whatever its payload is; zero does not equal minus zero."""
    paths = [tmp_path / f"{i}.fits" for i in range(3)]
    pixels = np.array([[1, 0], [np.nan, np.inf]], "f4")
    other = pixels.copy()
    other.view("u4")[1, 0] |= 0x155
    signed = pixels.copy()
    signed[0, 1] = -0.0
    for path, array in zip(paths, (pixels, other, signed), strict=True):
        path.write_bytes(plain_hdu(array, primary=True))
    assert run("verify", paths[0], "--against", paths[1]) == 0
    assert run("verify", paths[0], "--against", paths[2]) == 1


def test_progress_on_a_terminal(monkeypatch, star_field):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("verify", star_field) == 0


def test_check_tiles_counts_used_bytes():
    for path in FILES:
        with fc.open(path) as image:
            parts = list(check_tiles(image))
            assert np.concatenate([p.tiles for p in parts]).tolist() == list(
                range(len(image.table))
            )
            assert all(not p.faults and (p.surplus >= 0).all() for p in parts)
            use = heap_use(image)
            assert use.used == image.table.nbytes.sum() and use.overlapping == 0


def test_ones_sum_of_pieces():
    data = np.random.default_rng(5).integers(0, 256, 1003, np.uint8).tobytes()
    words = np.frombuffer(data + b"\0", ">u4")
    want = sum(int(w) for w in words) % (2**32 - 1)
    assert ones_sum([data]) % (2**32 - 1) == want
    assert ones_sum([data[:5], data[5:6], b"", data[6:]]) % (2**32 - 1) == want


# ---------------------------------------------------------------------------- demo, remote


def test_demo(tmp_path, capsys):
    from fitscodecs.cli import demo

    try:
        images = demo.find_images()
    except Exception as error:
        pytest.skip(str(error))
    assert run("demo", tmp_path / "demo") == 0
    names = {f"{path.stem}{end}" for path in images for end in (".png", "_cutout.fits")}
    assert set(os.listdir(tmp_path / "demo")) == names
    out = capsys.readouterr().out
    assert "all pixels in" in out and "\n\n\n" not in out


def test_demo_without_test_data(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("fitscodecs.cli.demo.IMAGES", ())
    assert run("demo", tmp_path / "demo") == 1
    assert "without its test data" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_with_a_python_that_does_not_run(tmp_path):
    shim = tmp_path / "python3.9"
    shim.write_text("#!/bin/sh\necho 'not found'\nprintf 'choose\\none\\n' >&2\nexit 127\n")
    shim.chmod(0o755)
    makefile = Path(__file__).parents[1] / "Makefile"
    if not makefile.exists():
        pytest.skip("there is no Makefile")
    command = ["make", "-s", "-f", makefile, "check", f"PYTHON={shim}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    told = "missing: Python 3.11 or later ({} does not run; set PYTHON=...)\n"
    assert done.stdout == told.format(shim)
    assert all(line.startswith("make") for line in done.stderr.splitlines())


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """A server of files that answers requests for ranges."""

    protocol_version = "HTTP/1.1"
    sent = []  # first byte and number of bytes of each answer

    def do_GET(self):
        try:
            with open(self.translate_path(self.path), "rb") as file:
                data = file.read()
        except OSError:
            self.send_error(404)
            return
        first, last = 0, len(data) - 1
        if wanted := self.headers.get("Range"):
            low, _, high = wanted.removeprefix("bytes=").partition("-")
            first, last = int(low), min(int(high or last), last)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        self.sent.append((first, last + 1 - first))
        self.wfile.write(data[first : last + 1])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    """A function that serves a folder on the loopback interface and gives its URL."""
    pytest.importorskip("aiohttp", reason="reading a URL needs fsspec and aiohttp")
    pytest.importorskip("fsspec", reason="reading a URL needs fsspec and aiohttp")
    with contextlib.ExitStack() as stack:

        def serve(folder):
            handler = functools.partial(RangeHandler, directory=str(folder))
            web = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            web.daemon_threads = True
            threading.Thread(target=web.serve_forever, daemon=True).start()
            stack.callback(web.shutdown)
            return f"http://127.0.0.1:{web.server_port}"

        yield serve


def test_remote(server, star_field, tmp_path, capsys):
    url = f"{server(tmp_path)}/{star_field.name}"
    assert run("info", url) == 0
    assert "RICE_1" in capsys.readouterr().out
    out = tmp_path / "out.fits"
    assert run("cutout", url, "[3:20,5:9]", "-o", out) == 0
    assert same_bits(opened(out, 0), opened(star_field)[4:9, 2:20])
    capsys.readouterr()
    assert run("info", f"{url}.absent", url.replace("http", "nonsense")) == 1
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 2 and all(line.startswith("fitscodecs: ") for line in err)
    assert err[0] == f"fitscodecs: {url}.absent: no such file"


def test_remote_cutout_fetches_nothing_twice(server, tmp_path, monkeypatch, capsys):
    path = tmp_path / "image.fits"
    codec = {"compression_type": "GZIP_1", "tile_shape": (50, 400)}
    hdu = fits.CompImageHDU(sample("int16", (800, 400)), **codec)
    fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path)
    monkeypatch.setattr(RangeHandler, "sent", [])
    url = f"{server(tmp_path)}/{path.name}"
    assert run("cutout", url, "[3:20,505:509]", "--hdu", 1, "-o", tmp_path / "out.fits") == 0
    starts = [first for first, _ in RangeHandler.sent]
    assert starts.count(0) == 1
    read = sum(nbytes for _, nbytes in RangeHandler.sent)
    told = f"{read / 1000:.1f} kB of {path.stat().st_size / 1000:.1f} kB read"
    assert told in capsys.readouterr().out
