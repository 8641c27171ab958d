# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Damaged files: an error that names its place, or pixels; never anything else.

Random cases print their seed in the name of the test.
"""

import re

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.hdu import walk
from fitscodecs.source import open_source
from tests.conftest import VECTORS, same_bits
from tests.making import sample

FILES = sorted((VECTORS / "files").glob("*.fits"))
MUTATIONS = 60


def touch(raw):
    """Open and read in every way; only the package's own errors may come out."""
    errors = []
    for scaled in (True, False):
        try:
            with fc.open(raw, scaled=scaled) as image:
                if image.nbytes > 2**28:
                    continue
                image[...]
                image[..., -1]
                image.table.column.tolist()
        except fc.FitsCodecsError as error:
            errors.append(str(error))
    return errors


def headers(raw):
    hdu = next(h for h in walk(open_source(raw)) if h.header.get("ZIMAGE") is True)
    return hdu.start, hdu.data_start, hdu.data_start + hdu.data_nbytes


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_cut_off(path):
    """A file that ends early is an error, wherever it ends, unless nothing was lost."""
    raw = path.read_bytes()
    _, start, stop = headers(raw)
    want = fc.open(raw)[...]
    for end in [*range(0, len(raw), 911), start, start + 1, stop - 1, stop]:
        if errors := touch(raw[:end]):
            assert all(re.search(r"HDU|FITS file", e) for e in errors)
        else:
            assert np.array_equal(fc.open(raw[:end])[...], want, equal_nan=want.dtype.kind == "f")
            assert end >= start


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_mutated_cards(path, seed):
    """Values of the structural cards changed, digit by digit and as a whole."""
    rng = np.random.default_rng(seed)
    raw = path.read_bytes()
    start, data, _ = headers(raw)
    cards = [i for i in range(start, data, 80) if raw[i + 8 : i + 10] == b"= "]
    for _ in range(MUTATIONS):
        changed = bytearray(raw)
        at = int(rng.choice(cards))
        if rng.random() < 0.5:
            value = rng.choice(["-1", "0", "1", "2147483648", "99999999999999999999", "1.5E400",
                                "T", "'RICE_1'", "'1PB(9)'", "", "NaN"])  # fmt: skip
            changed[at + 10 : at + 80] = str(value).rjust(20).encode().ljust(70)
        else:
            for _ in range(rng.integers(1, 4)):
                changed[at + rng.integers(0, 40)] = rng.choice(list(b" 0123456789-'ATP"))
        touch(bytes(changed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_mutated_data(path, seed):
    """Bytes of rows and heap changed; an error names the tile."""
    rng = np.random.default_rng(seed)
    raw = path.read_bytes()
    _, start, stop = headers(raw)
    for _ in range(MUTATIONS):
        changed = bytearray(raw)
        for _ in range(rng.integers(1, 10)):
            changed[rng.integers(start, stop)] = rng.integers(0, 256)
        for error in touch(bytes(changed)):
            assert re.search(r"HDU 1.* tile \d+: ", error), error


@pytest.mark.parametrize("seed", range(200))
def test_garbage(seed):
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, rng.integers(0, 20000), np.uint8).tobytes()
    assert touch(raw)
    assert touch(b"SIMPLE  =                    T".ljust(80) + raw)


def test_header_without_end():
    raw = FILES[0].read_bytes()
    start, data, _ = headers(raw)
    cards = raw[start:data].replace(b"END".ljust(80), b" " * 80)
    with pytest.raises(fc.HeaderError, match="without END"):
        fc.open(raw[:start] + cards)


@pytest.mark.parametrize("text", ["7" * 70, "'" + "x" * 69, "-" * 70, "1E" + "9" * 68])
def test_long_values(text):
    raw = FILES[0].read_bytes()
    start, data, _ = headers(raw)
    for at in range(start, data, 80):
        if raw[at : at + 5] in (b"ZVAL1", b"ZTILE", b"ZBLAN", b"BZERO", b"NAXIS"):
            touch(raw[: at + 10] + text.encode().ljust(70)[:70] + raw[at + 80 :])


@pytest.mark.parametrize("claimed", [2**20, 2**31, 2**40])
def test_inflated_size_is_bounded(claimed):
    """A tile that inflates to more than its pixels need is refused before it fills memory."""
    stream = fc.Gzip1().encode(np.zeros(2**20, "u1"))
    context = fc.DecodeContext(row=3, shape=(4, 4), dtype="int16")
    with pytest.raises(fc.DecodeError, match="tile 3: data inflate to more than 128 bytes"):
        fc.Gzip1().decode(bytes(stream) * (claimed // 2**20 % 3 + 1), context=context)


@pytest.mark.parametrize("tile_shape", [(1, 300), (60, 50)])
def test_cutout_before_the_damage(tmp_path, tile_shape):
    """RICE_1 tiles are decoded as far as they are wanted: what is cut off behind is not missed."""
    pixels = sample("int16", (120, 300))
    fc.write(tmp_path / "image.fits", pixels, compression="RICE_1", tile_shape=tile_shape)
    raw = bytearray((tmp_path / "image.fits").read_bytes())
    hdu = fc.open(bytes(raw)).hdu
    length = slice(hdu.data_start, hdu.data_start + 4)  # of the descriptor of tile 0
    raw[length] = (int.from_bytes(raw[length], "big") - 20).to_bytes(4, "big")
    img = fc.open(bytes(raw))
    assert same_bits(img[:1, :10], pixels[:1, :10])
    for damaged in (tuple(n - 1 for n in tile_shape), ...):
        with pytest.raises(fc.DecodeError, match="RICE_1 tile 0: data ends after"):
            img[damaged]
