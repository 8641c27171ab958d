# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files of other people: every image HDU as astropy reads it, odd files as they should be read."""

import json
import warnings

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.hdu import walk
from fitscodecs.header import is_compressed, is_plain_image
from fitscodecs.source import open_source
from tests.conftest import HERE, same_bits, shared_files

ODD = HERE / "data" / "odd"


def image_hdus(path):
    return [
        hdu
        for hdu in walk(open_source(path))
        if is_compressed(hdu.header) or is_plain_image(hdu.header)
    ]


@pytest.mark.parametrize("path", shared_files("real"))
def test_real_file(path, record_property):
    fits = pytest.importorskip("astropy.io.fits")
    hdus = image_hdus(path)
    with warnings.catch_warnings(), fits.open(path) as reference:
        warnings.simplefilter("ignore")
        for hdu in hdus:
            want = reference[hdu.index].data
            want = want.astype(want.dtype.newbyteorder("="))
            with fc.open(path, hdu=hdu.index) as img:
                assert (img.shape, img.dtype) == (want.shape, want.dtype), hdu.label
                assert same_bits(img[...], want), hdu.label
    record_property("image_hdus", len(hdus))


@pytest.mark.parametrize(
    ("name", "expect"), list(json.loads((ODD / "expect.json").read_text()).items())
)
def test_odd_file(name, expect):
    path = ODD / f"{name}.fits"
    if expect == "error":
        with pytest.raises(fc.FitsCodecsError, match=r"HDU 1: GZIP_1 tile 0: .*gzip"):
            fc.open(path)[...]
        return
    want = np.load(ODD / f"{name}.npy")
    got = fc.open(path, scaled=False)[...]
    assert same_bits(got, want.astype(want.dtype.newbyteorder("=")))
