# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Cards, structures from mappings, and the image header restored from that of its table."""

import warnings

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.header import data_nbytes, image_structure, parse_header, parse_value
from tests.conftest import VECTORS
from tests.making import sample, write_compressed

FILES = sorted((VECTORS / "files").glob("*.fits"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("                   T / yes", True),
        ("                   F", False),
        ("                  -7 / seven", -7),
        ("+12", 12),
        ("               1.5E3", 1500.0),
        ("                1.D2", 100.0),
        ("                 .5/", 0.5),
        ("'RICE_1  '           / quoted", "RICE_1"),
        ("'it''s / here'", "it's / here"),
        ("''", ""),
        ("'open", None),
        ("", None),
        ("(1.0, 2.0)", None),
        ("0x10", None),
        ("1_000", None),
        ("nan", None),
        ("9" * 70, int("9" * 70)),
    ],
)
def test_values(text, value):
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_first_card_counts():
    cards = ["A       =  1", "A       =  2", "HIERARCH A B = 3", "COMMENT = 4", "B =  5", "END",
             "C       =  6"]  # fmt: skip
    raw = "".join(c.ljust(80) for c in cards).encode()
    assert parse_header(raw) == {"A": 1, "COMMENT": 4}


@pytest.mark.parametrize(
    ("header", "nbytes"),
    [
        ({"BITPIX": 8, "NAXIS": 0}, 0),
        ({"BITPIX": -64, "NAXIS": 2, "NAXIS1": 3, "NAXIS2": 5}, 120),
        ({"BITPIX": 16, "NAXIS": 1, "NAXIS1": 0}, 0),
        ({"BITPIX": 16, "NAXIS": 2, "NAXIS1": 0, "NAXIS2": 4, "GROUPS": True, "PCOUNT": 3,
          "GCOUNT": 10}, 140),
        ({"BITPIX": 8, "NAXIS": 2, "NAXIS1": 8, "NAXIS2": 2, "PCOUNT": 100, "GCOUNT": 1}, 116),
    ],
)  # fmt: skip
def test_data_size(header, nbytes):
    assert data_nbytes(header) == nbytes


@pytest.mark.parametrize("change", [{"BITPIX": 12}, {"NAXIS": -1}, {"NAXIS1": 2**62},
                                    {"NAXIS1": "x"}, {"PCOUNT": -1}, {"NAXIS": 1000}])  # fmt: skip
def test_bad_data_size(change):
    with pytest.raises(fc.HeaderError, match=next(iter(change)) + "|data unit"):
        data_nbytes({"BITPIX": 16, "NAXIS": 1, "NAXIS1": 7, **change})


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_structure_from_astropy_header(path):
    fits = pytest.importorskip("astropy.io.fits")
    with fits.open(path, disable_image_compression=True) as hdus, fc.open(path) as image:
        assert image_structure(hdus[1].header) == image.structure


def reference(path):
    fits = pytest.importorskip("astropy.io.fits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fits.getheader(path, 1)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_restored_header(path):
    """The cards of the image that was compressed, and none of its table."""
    want = reference(path)
    with fc.open(path) as image:
        got = image.header
    structural = {"SIMPLE", "XTENSION", "PCOUNT", "GCOUNT", "EXTEND", "CHECKSUM", "DATASUM"}
    assert [got[f"NAXIS{i + 1}"] for i in range(got["NAXIS"])] == list(image.shape[::-1])
    assert got["BITPIX"] == image.structure.bitpix
    assert not [k for k in got if k.startswith(("Z", "TFORM", "TTYPE"))]
    for keyword in want:
        if keyword not in structural and keyword != "EXTNAME":
            assert got[keyword] == want[keyword], keyword


def test_odd_cards_survive(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    header = fits.Header()
    header["BUNIT"] = ("adu", "unit")
    header["HIERARCH ESO DET ID"] = 3
    header["LONGSTR"] = "x" * 200
    header.add_comment("a comment")
    header.add_history("a history")
    header.append(("", ""), end=True)
    header["CRPIX1"] = 5.5
    array = sample("int16", (10, 20))
    path = tmp_path / "a.fits"
    fits.CompImageHDU(array, header, name="SCI").writeto(path)
    with fc.open(path) as image:
        got = image.header
        assert np.array_equal(image[...], array)
    for keyword in ("BUNIT", "ESO DET ID", "LONGSTR", "CRPIX1"):
        assert got[keyword] == header[keyword]
    assert got.comments["BUNIT"] == "unit"
    assert list(got["COMMENT"]) == ["a comment"]
    assert list(got["HISTORY"]) == ["a history"]
    assert got["EXTNAME"] == "SCI"


def test_primary_image_is_restored(tmp_path):
    array = sample("int16", (4, 5))
    more = [
        ("ZSIMPLE", True),
        ("ZEXTEND", True),
        ("ZHECKSUM", "abc"),
        ("EXTNAME", "COMPRESSED_IMAGE"),
    ]
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=2), (1, 5), more)
    pytest.importorskip("astropy.io.fits")
    header = fc.open(path).header
    assert list(header) == ["SIMPLE", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "EXTEND", "CHECKSUM"]
    assert header["CHECKSUM"] == "abc"


def test_header_of_a_plain_image(tmp_path):
    pytest.importorskip("astropy.io.fits")
    from tests.making import plain_hdu

    path = tmp_path / "a.fits"
    path.write_bytes(plain_hdu(np.zeros((2, 3), "f4"), primary=True, more=[("OBJECT", "M13")]))
    header = fc.open(path, hdu=0).header
    assert (header["SIMPLE"], header["OBJECT"], header["NAXIS2"]) == (True, "M13", 2)
