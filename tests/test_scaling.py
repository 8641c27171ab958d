# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""BSCALE, BZERO and BLANK: types and values as astropy's ``.data`` gives them."""

import itertools
import warnings

import numpy as np
import pytest

import fitscodecs as fc
from tests.conftest import same_bits
from tests.making import plain_hdu, write_compressed

fits = pytest.importorskip("astropy.io.fits")

SCALINGS = [
    (), (1, 0), (1, 2**15), (1, 2**31), (1, 2**63), (1, -128), (2, 0), (1, 5), (0.1, 10),
    (2, 2**15), (-1.5, 0.3),
]  # fmt: skip
DTYPES = ["uint8", "int16", "int32", "int64", "float32", "float64"]


def cards(scaling, blank):
    more = [] if not scaling else [("BSCALE", scaling[0]), ("BZERO", scaling[1])]
    return more + ([] if blank is None else [("BLANK", blank)])


def write(path, array, compressed, more):
    if compressed:
        return write_compressed(path, array, fc.Gzip1(), (1, 6), more)
    primary = plain_hdu(np.zeros(1, "u1"), primary=True)
    path.write_bytes(primary + plain_hdu(array, more=more))
    return path


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "plain"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_as_astropy(tmp_path, dtype, compressed):
    array = np.arange(24).reshape(4, 6).astype(dtype)
    array[3] = np.iinfo(dtype).max if array.dtype.kind != "f" else 1e9
    for scaling, blank in itertools.product(SCALINGS, [None, 3]):
        if blank is not None and (array.dtype.kind == "f" or scaling == (1, -128)):
            continue  # see test_deviations
        path = write(tmp_path / "a.fits", array, compressed, cards(scaling, blank))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = fits.getdata(path, 1)
        with fc.open(path, hdu=1) as image:
            assert image.dtype == want.dtype.newbyteorder("=")
            assert same_bits(image[...], want.astype(image.dtype)), (scaling, blank)
            assert same_bits(image[1:3, ::-2], want.astype(image.dtype)[1:3, ::-2])
            out = np.empty(image.shape, image.dtype)
            assert same_bits(image.read(out=out), want.astype(image.dtype))
        with fc.open(path, hdu=1, scaled=False) as image:
            assert same_bits(image[...], array)


def test_deviations(tmp_path):
    """Where astropy fails or leaves the standard: see docs/deviations.rst."""
    floats = np.arange(6, dtype="f4").reshape(1, 6)
    path = write(tmp_path / "a.fits", floats, True, [("BLANK", 3)])
    assert same_bits(fc.open(path)[...], floats)  # BLANK is for integers
    small = np.arange(6, dtype="u1").reshape(1, 6)
    path = write(tmp_path / "b.fits", small, True, cards((1, -128), 3))
    assert same_bits(fc.open(path)[...], (small.astype("i2") - 128).astype("i1"))


@pytest.mark.parametrize("offset", [2**15, 0])
def test_plio_holds_unsigned(tmp_path, offset):
    """PLIO_1 of an unsigned 16-bit image holds physical values (as cfitsio writes it)."""
    physical = np.array([[0, 1, 40000, 65535, 7, 7]], "u2")
    stored = (physical.astype("i4") - 2**15).astype("i2")
    streams = physical if offset else physical % 1000
    path = write_compressed(tmp_path / "a.fits", streams.astype("i4"), fc.Plio1(), (1, 6),
                            [("BZERO", offset)] if offset else [])  # fmt: skip
    raw = path.read_bytes().replace(
        b"ZBITPIX =                   32", b"ZBITPIX =                   16"
    )
    if offset:
        assert same_bits(fc.open(raw)[...], physical)
        assert same_bits(fc.open(raw, scaled=False)[...], stored)
    else:
        assert same_bits(fc.open(raw)[...], (physical % 1000).astype("i2"))


@pytest.mark.parametrize("name", ["BSCALE", "BZERO"])
@pytest.mark.parametrize("value", ["'text'", "T"])
def test_bad_values(tmp_path, name, value):
    path = write(tmp_path / "a.fits", np.zeros((4, 6), "i2"), True, [(name, 1)])
    card = f"{name:8}= {1:>20}".encode()
    raw = path.read_bytes().replace(card, f"{name:8}= {value:>20}".encode())
    with pytest.raises(fc.HeaderError, match=f"{name} is"):
        fc.open(raw)


def test_infinite_scaling(tmp_path):
    array = np.arange(6, dtype="i2").reshape(1, 6)
    path = write(tmp_path / "a.fits", array, True, [("BSCALE", 2.0), ("BZERO", 1e300)])
    raw = path.read_bytes().replace(b"2.0 ", b"1E999 ".ljust(4)[:4])
    assert np.isinf(fc.open(path)[...]).all()
    assert fc.open(raw)[...].dtype == np.float32
