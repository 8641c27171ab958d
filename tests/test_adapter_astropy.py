# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The astropy adapter: on and off, the same pixels and bytes, and what it mends."""

import contextlib
import copy
import gzip
import io
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ref_build

import fitscodecs as fc
from tests.conftest import same_bits, shared_files
from tests.making import image_cards, sample, write_compressed

fits = pytest.importorskip("astropy.io.fits", reason="the adapter is for astropy")

from astropy.io.fits.hdu.compressed import _tiled_compression, compressed, section  # noqa: E402
from astropy.io.fits.hdu.compressed._compression import CfitsioException  # noqa: E402
from astropy.io.fits.verify import VerifyWarning  # noqa: E402
from astropy.utils.exceptions import AstropyUserWarning  # noqa: E402

from fitscodecs.adapters import astropy as fca  # noqa: E402
from fitscodecs.adapters.astropy import names, plugin  # noqa: E402
from fitscodecs.encoded import EncodedTile, EncodedTiles  # noqa: E402
from fitscodecs.writer import put_tiles  # noqa: E402

ODD = Path(__file__).parent / "data" / "odd"
M13 = Path(compressed.__file__).parent / "tests" / "data"


@pytest.fixture
def adapter():
    with fca.enabled():
        yield


def read(path, hdu=1, **kwargs):
    """The pixels of an HDU, in memory of their own."""
    with fits.open(path, **kwargs) as hdul:
        return np.array(hdul[hdu].data)


def failure(path):
    """The exception that reading raises; None if it gives pixels."""
    try:
        read(path)
    except Exception as error:
        return error
    return None


def written(tmp_path, array, name="image.fits", **kwargs):
    """A file of one compressed image."""
    path = tmp_path / name
    fits.CompImageHDU(array, **kwargs).writeto(path, overwrite=True)
    return path


def heap(path):
    """The data unit of HDU 1."""
    with fits.open(path, disable_image_compression=True) as hdul:
        start, nbytes = hdul[1]._data_offset, hdul[1]._data_size
    return path.read_bytes()[start : start + nbytes]


# ---------------------------------------------------------------------------- on and off


def functions():
    """Those of modules; methods stay, and ask whether the adapter is on."""
    return [getattr(seam.holder(), seam.name) for seam in names.SEAMS if not seam.owner]


def test_enable_and_disable():
    before = functions()
    fca.disable()  # when it is off
    fca.enable()
    fca.enable()  # a second time
    assert fca.is_enabled()
    assert not set(functions()) & set(before)
    fca.disable()
    assert functions() == before
    assert not fca.is_enabled()


def test_on_and_off_many_times(tmp_path):
    """More often than Python tells versions of a class apart: 1000 in 3.13."""
    array = sample("int16", (6, 7))
    path = written(tmp_path, array, tile_shape=(6, 7))
    with fits.open(path) as hdul:
        section = hdul[1].section
        for _ in range(1100):
            start = fca.counts().decoded
            with fca.enabled():
                assert section[2, 3] == array[2, 3]
            assert fca.counts().decoded == start + 1
            assert section[2, 3] == array[2, 3]
            assert fca.counts().decoded == start + 1


def test_enabled_blocks():
    before = functions()
    with fca.enabled():
        with fca.enabled():
            pass
        assert fca.is_enabled()
    assert functions() == before
    with pytest.raises(KeyError), fca.enabled():
        raise KeyError
    assert functions() == before


@pytest.mark.parametrize(
    ("holder", "name"),
    [
        (section.CompImageSection, "__getitem__"),
        (compressed.CompImageHDU, "_get_bintable_without_data"),
        (_tiled_compression, "compress_image_data"),
        (_tiled_compression, "_check_compressed_header"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_name_that_moved(monkeypatch, holder, name):
    monkeypatch.delattr(holder, name)
    before = [getattr(seam.holder(), seam.name, None) for seam in names.SEAMS]
    with pytest.raises(
        ImportError, match=rf"astropy \d.* nothing was changed.*{name} is not there"
    ):
        fca.enable()
    assert [getattr(seam.holder(), seam.name, None) for seam in names.SEAMS] == before
    assert not fca.is_enabled()


def test_function_that_takes_something_else(monkeypatch):
    monkeypatch.setattr(compressed, "compress_image_data", lambda pixels, options: None)
    with pytest.raises(ImportError, match=r"compressed\.compress_image_data takes \(pixels, opt"):
        fca.enable()
    assert not fca.is_enabled()


def test_objects_that_were_there_before(tmp_path):
    """Images that are open when the adapter comes or goes are read all the same."""
    array = sample("int16", (60, 70))
    path = written(tmp_path, array)
    with fits.open(path) as hdul:
        start = fca.counts().decoded
        assert np.array_equal(hdul[1].section[3:9], array[3:9])
        assert fca.counts().decoded == start
        with fca.enabled():
            assert np.array_equal(hdul[1].section[3:9], array[3:9])
        assert fca.counts().decoded == start + 6
        assert np.array_equal(hdul[1].section[3:9], array[3:9])
        assert fca.counts().decoded == start + 6


# ---------------------------------------------------------------------------- the same pixels


@pytest.mark.parametrize("path", sorted(M13.glob("*.fits")), ids=lambda p: p.name)
def test_files_of_astropy(path):
    with fits.open(path) as hdul:
        images = [i for i, hdu in enumerate(hdul) if isinstance(hdu, fits.CompImageHDU)]
        plain = [np.array(hdul[i].data) for i in images]
        cards = [str(hdul[i].header) for i in images]
    with fca.enabled(), fits.open(path) as hdul:
        assert all(same_bits(hdul[i].data, want) for i, want in zip(images, plain, strict=True))
        assert [str(hdul[i].header) for i in images] == cards


@pytest.mark.parametrize("path", shared_files("real"))
def test_real_files(path):
    """A piece of each compressed image of other people's files."""
    warnings.simplefilter("ignore")  # of astropy, about headers
    with fits.open(path) as hdul:
        for hdu in hdul:
            if not isinstance(hdu, fits.CompImageHDU) or 0 in hdu.shape:
                continue
            piece = tuple(slice(n // 3, n // 3 + 40) for n in hdu.shape)
            want = hdu.section[piece]
            with fca.enabled():
                assert same_bits(hdu.section[piece], want)


KEYS = [
    ..., 0, -1, (3, 4), (..., -2), slice(5, 40), slice(None, None, -1), slice(40, 5, -7),
    slice(9, 2), slice(0, 0), (slice(None), 3), (slice(2, 50, 9), slice(69, None, -13)),
    (5, slice(None, None, 3)), (slice(-5, None), slice(None, -60)), slice(1000, 2000),
    (np.int64(2), np.uint8(3)), [3, 4], slice(-64, 8, -5), slice(-61, None, -3), slice(-8, -11),
    (slice(99, None, -2), slice(-70, -71, -1)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("scaled", [True, False])
def test_sections(tmp_path, adapter, key, scaled):
    """Sections are what the array gives; a list is a tuple, as in astropy."""
    stored = sample("int16", (60, 70))
    hdu = fits.CompImageHDU(stored, tile_shape=(16, 32))
    hdu.header["BSCALE"], hdu.header["BZERO"] = 0.5, 3
    hdu.writeto(tmp_path / "a.fits")
    want = stored * np.float32(0.5) + np.float32(3) if scaled else stored
    index = tuple(key) if isinstance(key, list) else key
    with fits.open(tmp_path / "a.fits", do_not_scale_image_data=not scaled) as hdul:
        got = hdul[1].section[key]
        assert same_bits(got, want[index])
        assert same_bits(hdul[1].section[...], want)
    with fca.enabled(), fits.open(tmp_path / "a.fits", do_not_scale_image_data=not scaled) as hdul:
        assert type(got) is type(hdul[1].section[key])


@pytest.mark.parametrize("key", [None, (0, 0, 0), 99, "x", 1.5, (..., ...), [[1, 2]]], ids=str)
def test_section_errors(tmp_path, key):
    """What astropy refuses is refused in the same words."""
    path = written(tmp_path, sample("int16", (20, 30)))
    with fits.open(path) as hdul:
        with pytest.raises(Exception) as plain:
            hdul[1].section[key]
        with fca.enabled(), pytest.raises(plain.type) as ours:
            hdul[1].section[key]
    assert str(ours.value) == str(plain.value)


@pytest.mark.filterwarnings("ignore::astropy.io.fits.verify.VerifyWarning")
@pytest.mark.parametrize(
    ("card", "damaged"),
    [(b"ZBITPIX ", b"zbitpix "), (b"ZNAXIS1 ", b"znaxis1 "), (b"CONTINUE  '", b"CONTINUE  x")],
)
def test_cards_that_astropy_puts_up_with(tmp_path, card, damaged):
    array = sample("int16", (20, 30))
    path = written(tmp_path, array, header=fits.Header({"NOTE": "x" * 100}))
    raw = path.read_bytes()
    path.write_bytes(raw.replace(card, damaged, 1))
    want = read(path)
    with fca.enabled():
        assert same_bits(read(path), want)


def test_section_of_an_array(adapter):
    array = sample("int16", (20, 30))
    assert np.array_equal(fits.CompImageHDU(array).section[3:5], array[3:5])


def test_blocks_of_tiles(tmp_path, adapter):
    """The function that others may have imported: tiles from first to last, both included."""
    array = sample("int32", (60, 70))
    path = written(tmp_path, array, tile_shape=(16, 32))
    with fits.open(path) as hdul:
        hdu, table = hdul[1], hdul[1]._bintable
        args = (table.data, "RICE_1", table.header, table, hdu.header)
        got = _tiled_compression.decompress_image_data_section(*args, np.array([1, 1]), (3, 2))
    assert same_bits(got, array[16:, 32:])


@pytest.mark.parametrize("memmap", [True, False])
@pytest.mark.parametrize("opened", ["path", "object", "bytes", "gzip", "fsspec"])
def test_ways_to_open(tmp_path, adapter, memmap, opened):
    array = sample("float32", (60, 70))
    path = written(tmp_path, array, quantize_level=8)
    want, kwargs = fc.open(path)[...], {}
    if opened == "gzip":
        target = tmp_path / "image.fits.gz"
        target.write_bytes(gzip.compress(path.read_bytes()))
    elif opened == "bytes":
        target = io.BytesIO(path.read_bytes())
    elif opened == "fsspec":
        fsspec = pytest.importorskip("fsspec", reason="remote files need fsspec")
        fsspec.filesystem("memory").pipe("/image.fits", path.read_bytes())
        target, kwargs = "memory://image.fits", {"use_fsspec": True}
    else:
        target = path
    file = path.open("rb") if opened == "object" else target
    with fits.open(file, memmap=memmap, **kwargs) as hdul:
        assert same_bits(hdul[1].section[7:20, 3:9], want[7:20, 3:9])
        assert same_bits(hdul[1].data, want)
    if opened == "object":
        file.close()


def test_few_reads_of_a_remote_file(tmp_path, adapter):
    """Tiles that lie close together are read at once."""

    class Counting(io.BytesIO):
        reads = 0

        def read(self, *args):
            Counting.reads += 1
            return super().read(*args)

    path = written(tmp_path, sample("int16", (400, 50)))
    with fits.open(Counting(path.read_bytes())) as hdul:
        hdul[1].section[0]
        before = Counting.reads
        hdul[1].section[100:300]
    assert Counting.reads - before <= 2


def test_ranges_of_a_remote_file(tmp_path, adapter, monkeypatch):
    """Tiles that lie apart are asked for at once."""
    fsspec = pytest.importorskip("fsspec", reason="remote files need fsspec")
    array = np.random.default_rng(3).integers(0, 2**31, (256, 256), "i4")
    path = written(tmp_path, array, tile_shape=(128, 64))
    fs = fsspec.filesystem("memory")
    fs.pipe("/apart.fits", path.read_bytes())
    asked = []
    plain = type(fs).cat_ranges
    monkeypatch.setattr(
        type(fs),
        "cat_ranges",
        lambda self, *args, **kw: asked.append(args) or plain(self, *args, **kw),
    )
    with fits.open("memory://apart.fits", use_fsspec=True) as hdul:
        assert np.array_equal(hdul[1].section[100:150, 70:90], array[100:150, 70:90])
    [(paths, starts, stops)] = asked
    assert len(paths) == 2
    assert sum(b - a for a, b in zip(starts, stops, strict=True)) < path.stat().st_size / 3


@pytest.mark.parametrize("compression", ["RICE_1", "GZIP_2", "PLIO_1", "NOCOMPRESS"])
def test_image_without_pixels(tmp_path, compression):
    """astropy can write images of no rows, and reads them as None."""
    array, settings = np.zeros((0, 10), "i2"), {"compression_type": compression}
    with fca.enabled():
        path = written(tmp_path, array, **settings)
        with fits.open(path) as hdul:
            assert hdul[1].data is None
            assert hdul[1].header["NAXIS2"] == 0
            assert hdul[1].section[:, 2:4].shape == (0, 2)
    assert path.stat().st_size == written(tmp_path, array, **settings).stat().st_size


def test_getdata_and_headers(tmp_path, adapter):
    array = sample("uint16", (30, 40))
    path = written(tmp_path, array, header=fits.Header({"OBJECT": "M 13"}))
    data, header = fits.getdata(path, header=True)
    assert same_bits(data, array)
    assert header["OBJECT"] == "M 13"


# ---------------------------------------------------------------------------- the same bytes


def with_nan(array):
    array = array.copy()
    array[3, 5:9] = np.nan
    array[17] = np.nan
    return array


NOISE = sample("float32", (50, 60))
CASES = {
    "rice_u1": (sample("uint8", (50, 60)), {}),
    "rice_i1": (sample("int8", (50, 60)) - np.int8(50), {}),
    "rice_i2_tiles": (sample(">i2", (50, 60)), {"tile_shape": (16, 32)}),
    "rice_u2": (sample("uint16", (50, 60)), {"tile_shape": (7, 60)}),
    "rice_i4": (sample("int32", (50, 60)), {}),
    "rice_u4": (sample("uint32", (50, 60)), {}),
    "rice_i8": (sample("int64", (50, 60)), {}),
    "rice_u8": (sample("uint64", (50, 60)), {}),
    "rice_3d": (sample("int16", (7, 20, 30)), {"tile_shape": (3, 8, 16)}),
    "hcompress": (sample("int16", (50, 60)), {"compression_type": "HCOMPRESS_1"}),
    "hcompress_lossy": (sample("int32", (64, 64)),
                        {"compression_type": "HCOMPRESS_1", "hcomp_scale": 4, "hcomp_smooth": 1,
                         "tile_shape": (32, 32)}),
    "hcompress_3d": (sample("int16", (3, 20, 30)),
                     {"compression_type": "HCOMPRESS_1", "tile_shape": (1, 10, 15)}),
    "hcompress_negative": (sample("int16", (32, 32)), {"compression_type": "HCOMPRESS_1",
                                                       "hcomp_scale": -3}),
    "hcompress_nan": (with_nan(NOISE), {"compression_type": "HCOMPRESS_1", "hcomp_scale": 1}),
    "hcompress_quantized": (NOISE, {"compression_type": "HCOMPRESS_1", "quantize_method": 1,
                                    "dither_seed": 5}),
    "plio": (sample("uint8", (50, 60)) // 50, {"compression_type": "PLIO_1"}),
    "plio_i2": (sample("int16", (50, 60)), {"compression_type": "PLIO_1", "tile_shape": (9, 11)}),
    "nocompress": (sample("float64", (50, 60)),
                   {"compression_type": "NOCOMPRESS", "quantize_level": 0}),
    "quantized": (NOISE, {"quantize_level": 16}),
    "quantized_tiles": (NOISE, {"quantize_level": 4, "tile_shape": (16, 32)}),
    "quantized_big_endian": (NOISE.astype(">f8"), {"quantize_level": 4, "tile_shape": (9, 60)}),
    "quantized_step": (NOISE, {"quantize_level": -0.25, "quantize_method": 2, "dither_seed": 9999}),
    "quantized_dither_1": (NOISE, {"quantize_method": 1, "dither_seed": -1}),
    "quantized_dither_2": (NOISE, {"quantize_method": 2, "dither_seed": 10000,
                                   "tile_shape": (16, 32)}),
    "nan": (with_nan(NOISE), {"quantize_method": 1, "dither_seed": 3}),
    "nan_tiles": (with_nan(NOISE), {"tile_shape": (16, 32)}),
    "nan_step": (with_nan(NOISE), {"quantize_level": -0.5}),
    "whole_parts": (NOISE, {"quantize_level": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_same_bytes(tmp_path, case):
    array, settings = CASES[case]
    warnings.simplefilter("ignore", AstropyUserWarning)  # 64-bit integers are narrowed
    want = written(tmp_path, array, "astropy.fits", **settings)
    with fca.enabled():
        got = written(tmp_path, array, "ours.fits", **settings)
        ours = read(got)
    # An array that is not quantized has no gzip streams, whose bytes would differ.
    lossless = [tile for tile in fc.open(want).table.column if tile.startswith("GZIP")]
    if not lossless:
        assert got.read_bytes() == want.read_bytes()
    assert same_bits(ours, read(want))
    assert same_bits(ours, read(got))


@pytest.mark.parametrize("compression", ["GZIP_1", "GZIP_2"])
@pytest.mark.parametrize("array", [sample("int16", (50, 60)), NOISE, with_nan(NOISE)], ids=str)
@pytest.mark.parametrize("level", [0, 8])
def test_same_gzipped_pixels(tmp_path, compression, array, level):
    settings = {"compression_type": compression, "quantize_level": level}
    want = written(tmp_path, array, "astropy.fits", **settings)
    with fca.enabled():
        got = written(tmp_path, array, "ours.fits", **settings)
    assert same_bits(read(got), read(want))
    a, b = fc.open(want), fc.open(got)
    same = [
        zlib.decompress(bytes(x), 31) == zlib.decompress(bytes(y), 31)
        for x, y in zip(streams(a), streams(b), strict=True)
    ]
    assert len(same) == 50
    assert all(same)
    assert np.array_equal(a.table.scale, b.table.scale)


def streams(image):
    return [image._fetch(np.array([i]))[1][0] for i in range(len(image.table))]


def test_equal_gzipped_images_are_equal_files(tmp_path, adapter):
    """No time is written into the streams."""
    first = written(tmp_path, NOISE, "1.fits", compression_type="GZIP_2", quantize_level=0)
    again = written(tmp_path, NOISE, "2.fits", compression_type="GZIP_2", quantize_level=0)
    assert first.read_bytes() == again.read_bytes()


def test_tile_options_reach_the_adapter(tmp_path, adapter):
    """A choice per tile, where astropy has one for the whole image."""
    coarse = written(tmp_path, NOISE, "coarse.fits", quantize_level=4)
    with fc.tile_options(lambda tile: {"level": 64 if tile.row == 7 else 4}):
        mixed = written(tmp_path, NOISE, "mixed.fits", quantize_level=4)
    differs = fc.open(coarse).table.scale != fc.open(mixed).table.scale
    assert np.flatnonzero(differs).tolist() == [7]
    assert abs(read(mixed)[7] - NOISE[7]).max() < abs(read(coarse)[7] - NOISE[7]).max() / 4


def test_heap_beyond_the_descriptors():
    """32-bit descriptors cannot say where the tiles of a heap above 2 GiB are."""

    class Large(bytes):
        def __len__(self):
            return 2**30

    tiles = EncodedTiles.of([EncodedTile(0, Large()) for _ in range(4)])
    narrow = np.zeros(4, [("COMPRESSED_DATA", ">i4", (2,))])
    with pytest.raises(fc.EncodeError, match="4294967296 bytes, wanted at most 2147483647"):
        put_tiles(narrow, tiles, "B")
    wide = np.zeros(4, [("COMPRESSED_DATA", ">i8", (2,))])
    put_tiles(wide, tiles, "B")
    assert wide["COMPRESSED_DATA"][3, 1] == 3 * 2**30


# ---------------------------------------------------------------------------- errors


def damaged(tmp_path, compression, cut):
    """A file whose first tile has lost its last bytes, or has others at its start."""
    path = written(tmp_path, sample("int16", (32, 64)), "damaged.fits",
                   compression_type=compression, tile_shape=(16, 64))  # fmt: skip
    with fits.open(path, disable_image_compression=True) as hdul:
        rows, tiles = hdul[1]._data_offset, hdul[1]._data_offset + hdul[1]._theap
    raw = bytearray(path.read_bytes())
    if cut:
        raw[rows : rows + 4] = (int.from_bytes(raw[rows : rows + 4], "big") - 9).to_bytes(4, "big")
    else:
        raw[tiles : tiles + 8] = b"\xff" * 8
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("compression", ["RICE_1", "HCOMPRESS_1", "GZIP_1", "GZIP_2"])
@pytest.mark.parametrize("cut", [True, False])
def test_damaged_tile(tmp_path, compression, cut):
    path = damaged(tmp_path, compression, cut)
    plain = failure(path)
    with fca.enabled():
        ours = failure(path)
    assert isinstance(ours, fc.DecodeError)
    assert f"{compression} tile 0" in str(ours)
    family = (gzip.BadGzipFile, EOFError, zlib.error) if "GZIP" in compression else CfitsioException
    assert isinstance(ours, family)
    if plain is not None:  # astropy reads some damaged streams without a word
        assert isinstance(ours, type(plain))
    again = pickle.loads(pickle.dumps(ours))
    assert (type(again), str(again)) == (type(ours), str(ours))


def test_truncated_file(tmp_path, adapter):
    """The tile is named whose bytes are not there."""
    path = written(tmp_path, sample("int32", (300, 300)))
    path.write_bytes(path.read_bytes()[:-20000])
    for memmap in (True, False):
        warnings.simplefilter("ignore", AstropyUserWarning)  # the file may have been truncated
        with (
            fits.open(path, memmap=memmap) as hdul,
            pytest.raises(fc.DecodeError, match=r"RICE_1 tile \d+: file ends before byte \d+"),
        ):
            hdul[1].section[250:]


def test_descriptor_outside_the_heap(tmp_path, adapter):
    path = written(tmp_path, sample("int16", (32, 64)))
    with fits.open(path, disable_image_compression=True) as hdul:
        start = hdul[1]._data_offset
    raw = bytearray(path.read_bytes())
    raw[start + 12 : start + 16] = (2**30).to_bytes(4, "big")
    path.write_bytes(raw)
    assert "RICE_1 tile 1: descriptor in COMPRESSED_DATA" in str(failure(path))


@pytest.mark.parametrize(
    ("array", "settings"),
    [
        (np.full((8, 9), -1, "i2"), {"compression_type": "PLIO_1"}),
        (np.full((8, 9), 2**24, "i4"), {"compression_type": "PLIO_1"}),
        (np.full((8, 9), 1, "u2"), {"compression_type": "PLIO_1"}),
        (np.zeros((0, 9), "u2"), {"compression_type": "PLIO_1"}),
        (np.full((8, 9), 2**40, "i8"), {"compression_type": "RICE_1"}),
        (np.full((8, 9), -(2**40), ">i8"), {"compression_type": "HCOMPRESS_1"}),
        (np.full((8, 9), 2**63, "u8"), {"compression_type": "RICE_1"}),
    ],
)
def test_refused_pixels(tmp_path, array, settings):
    """The same type and, up to what was found and wanted, the same words as astropy's."""
    with pytest.raises(ValueError, match=r"PLIO|doesn't") as plain:
        written(tmp_path, array, **settings)
    with fca.enabled(), pytest.raises(ValueError, match=r"PLIO|doesn't") as ours:
        written(tmp_path, array, **settings)
    assert str(plain.value).split(" (0")[0] in str(ours.value)


def test_warning_of_narrowed_integers(tmp_path, adapter):
    with pytest.warns(AstropyUserWarning, match="RICE_1 compression doesn't support 64 integers"):
        path = written(tmp_path, sample("int64", (20, 30)))
    assert read(path).dtype == np.int32


# ---------------------------------------------------------------------------- what is mended


def odd(name):
    """A file of the collection of odd ones, and the pixels that it holds."""
    return ODD / f"{name}.fits", np.load(ODD / f"{name}.npy")


def test_missing_tile_shape():
    path, want = odd("no_ztile")
    assert isinstance(failure(path), KeyError)
    with fca.enabled():
        assert same_bits(read(path), want)


def test_trailing_bytes():
    path, want = odd("trailing_bytes")
    assert isinstance(failure(path), CfitsioException)
    with fca.enabled():
        assert same_bits(read(path), want)


@pytest.mark.parametrize("name", ["zscale_keyword", "zdither0_missing"])
def test_wrong_pixels(name):
    """Scale and zero point as keywords; dithering without a seed, which is seed 1."""
    path, want = odd(name)
    assert not same_bits(read(path), want)
    with fca.enabled():
        assert same_bits(read(path), want)


def test_negative_scale(tmp_path):
    """astropy writes a negative HCOMPRESS scale into the streams, which are lossless."""
    array = sample("int16", (32, 32))
    settings = {"compression_type": "HCOMPRESS_1", "hcomp_scale": -3}
    path = written(tmp_path, array, **settings)
    assert same_bits(fc.open(path)[...], array)
    assert b"\xdd\x99" + bytes([0, 0, 0, 16, 0, 0, 0, 32, 255, 255, 255, 253]) in heap(path)
    with fca.enabled():
        assert same_bits(read(path), array)
        assert same_bits(read(written(tmp_path, array, **settings)), array)


def test_seeds_that_are_none(tmp_path):
    """ZDITHER0 outside 1 to 10000 counts on around the table: for all rows that astropy can read
    without leaving it, the same pixels."""
    path = written(tmp_path, NOISE, quantize_method=1, dither_seed=7)
    raw = path.read_bytes()
    for seed in (0, 20000, 12345):
        other = raw.replace(b"ZDITHER0=                    7", b"ZDITHER0=%21d" % seed)
        path.write_bytes(other)
        want = read(path)
        with fca.enabled():
            assert same_bits(read(path)[1:], want[1:])


def test_gzip_bomb(tmp_path):
    """A tile that inflates to more than its pixels: astropy inflates all of it."""
    path = tmp_path / "bomb.fits"
    codec, array = fc.Gzip1(), np.zeros((4, 100), "i2")
    write_compressed(path, array, codec, (1, 100))
    bomb = gzip.compress(b"\0" * 2**26)
    with fits.open(path, disable_image_compression=True) as hdul:
        header = hdul[1].header
        column = fits.Column("COMPRESSED_DATA", "1PB()", array=np.array(
            [np.frombuffer(bomb, "u1")] * 4, dtype=object))  # fmt: skip
        fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns([column], header)]).writeto(
            path, overwrite=True
        )
    assert isinstance(failure(path), ValueError)  # after inflating it: the shape does not fit
    with fca.enabled():
        assert "GZIP_1 tile 0: data inflate to more than 800 bytes" in str(failure(path))


def test_mask_of_cfitsio(tmp_path):
    """cfitsio stores unsigned 16-bit masks as they are: astropy is off by 32768."""
    array = sample("uint16", (20, 30))
    path = tmp_path / "mask.fits"
    fc.write(path, array, compression="PLIO_1")
    assert np.array_equal(read(path), array + np.uint16(32768))
    with fca.enabled():
        assert same_bits(read(path), array)


def test_mask_that_astropy_loses(tmp_path):
    """One pixel after 4095 zeros comes back too early from astropy's stream."""
    array = np.zeros((1, 5000), "i4")
    array[0, 4095] = 1
    settings = {"compression_type": "PLIO_1"}
    assert not np.array_equal(read(written(tmp_path, array, **settings)), array)
    with fca.enabled():
        path = written(tmp_path, array, **settings)
    assert np.array_equal(read(path), array)  # by astropy's own decoder


@pytest.mark.parametrize("undefined", ["nan", "blank"])
def test_undefined_pixels_of_lossy_hcompress(tmp_path, undefined):
    """A lossy stream smears the null integer into its neighbours."""
    header = None
    array = sample("float32", (64, 64)) + 1000
    array[10, 20] = np.nan
    if undefined == "blank":
        header = fits.Header({"BLANK": -32768})
        array = np.nan_to_num(array, nan=-32768).astype("i2")
    want = np.zeros((64, 64), bool)
    want[10, 20] = True
    settings = {"compression_type": "HCOMPRESS_1", "hcomp_scale": 50, "header": header}
    assert not np.array_equal(np.isnan(read(written(tmp_path, array, **settings))), want)
    with fca.enabled():
        path = written(tmp_path, array, **settings)
    assert np.array_equal(np.isnan(read(path)), want)


def test_null_integer_of_each_tile(tmp_path):
    """A column ZBLANK in an integer image, with tiles of different null integers."""
    array = np.arange(1, 41, dtype="i2").reshape(4, 10)
    codec, blanks, path = fc.Rice1(bytepix=2), [3, 13, 99, 39], tmp_path / "blanks.fits"
    rows = [[bytes(codec.encode(tile)), blank] for tile, blank in zip(array, blanks, strict=True)]
    columns = [("COMPRESSED_DATA", "PB"), ("ZBLANK", "J")]
    ref_build.build(path, columns, rows, image_cards(array, (1, 10), codec))
    want = array.astype("f4")
    want[[0, 1, 3], [2, 2, 8]] = np.nan
    assert same_bits(fc.open(path)[...], want)
    assert fc.open(path, scaled=False)[0, 2] == -32768
    with fca.enabled(), pytest.warns(AstropyUserWarning, match="BLANK"):
        assert same_bits(read(path), want)


def test_hcompress_in_threads(tmp_path, adapter):
    """astropy's decoder shares memory between threads and gives wrong pixels now and then."""
    array = sample("int16", (512, 512))
    path = written(tmp_path, array, compression_type="HCOMPRESS_1", tile_shape=(64, 64))
    wrong = []

    def work(seed, hdu):
        rng = np.random.default_rng(seed)
        for y, x in rng.integers(0, 440, (100, 2)):
            key = slice(y, y + 70), slice(x, x + 70)
            if not np.array_equal(hdu.section[key], array[key]):
                wrong.append(key)

    for memmap in (True, False):
        with fits.open(path, memmap=memmap) as hdul:
            threads = [threading.Thread(target=work, args=(i, hdul[1])) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not wrong


# ---------------------------------------------------------------------------- headers alone


def update(path, look, **kwargs):
    with fits.open(path, mode="update", **kwargs) as hdul:
        if look == "data":
            assert hdul[1].data.size
        elif look == "section":
            assert hdul[1].section[0].size
        hdul[1].header["STEP"] = hdul[1].header.get("STEP", 0) + 1


LOSSY = {
    "quantized": (NOISE, {"quantize_level": 2, "quantize_method": 1, "dither_seed": 4}),
    "quantized_nan": (with_nan(NOISE), {"quantize_level": 2, "tile_shape": (16, 32)}),
    "hcompress": (sample("int16", (64, 64)), {"compression_type": "HCOMPRESS_1",
                                              "hcomp_scale": 20}),
    "hcompress_unsigned": (sample("uint16", (64, 64)) + 99, {"compression_type": "HCOMPRESS_1",
                                                        "hcomp_scale": 20}),
}  # fmt: skip


@pytest.mark.parametrize("case", LOSSY)
@pytest.mark.parametrize("look", ["", "section", "data"])
@pytest.mark.parametrize("memmap", [None, False])
def test_header_updates_keep_tiles(tmp_path, adapter, case, look, memmap):
    array, settings = LOSSY[case]
    path = written(tmp_path, array, **settings)
    tiles, pixels = heap(path), read(path)
    for _ in range(3):
        update(path, look, memmap=memmap)
    assert heap(path) == tiles
    assert same_bits(read(path), pixels)
    with fits.open(path, checksum=True) as hdul:
        assert hdul[1].header["STEP"] == 3
    fca.disable()
    assert same_bits(read(path), pixels)


def test_header_updates_of_astropy_lose_more_each_time(tmp_path):
    """What the adapter mends: the pixels move away from what they were."""
    path = written(tmp_path, NOISE, quantize_level=2, quantize_method=1, dither_seed=4)
    before = read(path)
    update(path, "")
    assert not same_bits(read(path), before)


def test_update_with_changed_pixels(tmp_path, adapter):
    path = written(tmp_path, NOISE, quantize_level=2)
    with fits.open(path, mode="update") as hdul:
        hdul[1].data[5] = 77
        hdul[1].header["STEP"] = 1
    again = read(path)
    assert abs(again[5] - 77).max() < 0.01
    assert abs(again - NOISE).max() > 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_type", "GZIP_2"),
        ("tile_shape", (10, 60)),
        ("quantize_level", 64.0),
        ("quantize_method", 2),
        ("dither_seed", 77),
    ],
)
def test_update_with_changed_settings(tmp_path, adapter, name, value):
    """Settings that are no longer those of the tiles: compressed again, as asked for."""
    path = written(tmp_path, NOISE, quantize_level=2, quantize_method=1, dither_seed=4)
    tiles = heap(path)
    with fits.open(path, mode="update") as hdul:
        setattr(hdul[1], name, value)
        hdul[1].header["STEP"] = 1
    assert heap(path) != tiles
    with fits.open(path) as hdul:
        assert getattr(hdul[1], name) == value
        assert hdul[1].header["STEP"] == 1


def test_many_new_cards(tmp_path, adapter):
    """The header grows past its blocks, between other HDUs; comments and history stay in place."""
    header = fits.Header({"OBJECT": "M 13"})
    header["HISTORY"] = "first"
    path = tmp_path / "a.fits"
    hdus = [fits.CompImageHDU(NOISE, header, name=f"I{k}", quantize_level=2) for k in range(3)]
    fits.HDUList([fits.PrimaryHDU(), *hdus, fits.ImageHDU(NOISE)]).writeto(path)
    before = [read(path, k) for k in (1, 2, 3, 4)]
    with fits.open(path, mode="update") as hdul:
        for k in range(200):
            hdul["I1"].header[f"KEY{k}"] = (k, "a comment")
        hdul["I1"].header["HISTORY"] = "second"
        del hdul["I1"].header["OBJECT"]
        hdul["I1"].name = "RENAMED"
    assert all(same_bits(read(path, k + 1), want) for k, want in enumerate(before))
    with fits.open(path) as hdul:
        hdul.verify("exception")
        header = hdul["RENAMED"].header
        assert header["KEY199"] == 199
        assert "OBJECT" not in header
        assert [*header["HISTORY"]] == ["first", "second"]
        assert [hdu.name for hdu in hdul[1:4]] == ["I0", "RENAMED", "I2"]
        cards = hdul[2]._bintable.header
        assert [cards[f"TTYPE{k}"] for k in (1, 2, 3, 4)] == [
            *("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA", "ZSCALE", "ZZERO")
        ]


@pytest.mark.parametrize("look", ["", "section", "data"])
@pytest.mark.parametrize("checksum", [False, True])
def test_copy_to_another_file(tmp_path, adapter, look, checksum):
    """A copy has the tiles of its original, whatever was looked at."""
    path = written(tmp_path, NOISE, quantize_level=2)
    tiles = heap(path)
    with fits.open(path) as hdul:
        if look:
            assert getattr(hdul[1], look)[0].size
        hdul[1].header["STEP"] = 1
        hdul.writeto(tmp_path / "copy.fits", checksum=checksum)
    assert heap(tmp_path / "copy.fits") == tiles
    with warnings.catch_warnings(action="error"), fits.open(
        tmp_path / "copy.fits", checksum=True
    ) as hdul:  # fmt: skip
        assert hdul[1].header["STEP"] == 1


def test_copy_after_a_section(tmp_path):
    """astropy leaves the heap out when it copies a table of which it has read the rows only."""
    path = written(tmp_path, NOISE, quantize_level=2)
    before = read(path)

    def copied(name):
        with fits.open(path) as hdul:
            assert hdul[1].section[0].size
            hdul.writeto(tmp_path / name)
        return tmp_path / name

    warnings.simplefilter("ignore", AstropyUserWarning)  # the file may have been truncated
    assert failure(copied("astropy.fits")) is not None
    with fca.enabled():
        copy = copied("ours.fits")
    assert same_bits(read(copy), before)


def test_scaled_integers(tmp_path, adapter):
    """The integers stay, as long as nobody asks for the floats that they stand for."""
    hdu = fits.CompImageHDU(sample("int16", (50, 60)))
    hdu.header["BSCALE"], hdu.header["BZERO"], hdu.header["BLANK"] = 0.25, 10, -5
    path = tmp_path / "a.fits"
    hdu.writeto(path)
    tiles, pixels = heap(path), read(path)
    update(path, "")
    assert heap(path) == tiles
    assert same_bits(read(path), pixels)
    warnings.simplefilter("ignore", VerifyWarning)  # BLANK is still in the header for a moment
    update(path, "data")  # as astropy: from here on it is an image of floats
    assert read(path).dtype == np.float32
    assert abs(read(path) - pixels).max() < 0.5


def test_several_flushes(tmp_path, adapter):
    """Pixels, then settings as numpy numbers, then a card: each flush is what it should be."""
    path = written(tmp_path, NOISE, quantize_level=2, tile_shape=(16, 32))
    with fits.open(path, mode="update") as hdul:
        hdul[1].data[5] = 77
        hdul.flush()
        hdul[1].tile_shape = tuple(np.array([10, 60]))
        hdul[1].header["STEP"] = 1
        hdul.flush()
        hdul[1].header["STEP"] = 2
    with fits.open(path) as hdul:
        assert hdul[1].tile_shape == (10, 60)
        assert hdul[1].header["STEP"] == 2
        assert abs(hdul[1].data[5] - 77).max() < 1


def test_flush_of_an_image_with_blank(tmp_path, adapter):
    """The floats that BLANK makes of integers become integers again; astropy writes their bits, or
    undefined pixels as whatever a NaN is cast to."""
    array = sample("int16", (20, 30))
    array[7, 8] = 60
    want = array.astype("f4")
    want[array == 60] = np.nan
    want[3, 4] = 5
    for compression in ("GZIP_1", "RICE_1"):
        header = fits.Header({"BLANK": 60})
        path = written(tmp_path, array, compression_type=compression, header=header)
        assert np.isnan(read(path)[7, 8])
        warnings.simplefilter("ignore", VerifyWarning)  # BLANK is of no use to the floats
        with fits.open(path, mode="update") as hdul:
            hdul[1].data[3, 4] = 5
            hdul.flush()
        assert fits.getheader(path, 1)["BITPIX"] == 16
        assert same_bits(read(path), want)


@pytest.mark.parametrize("case", LOSSY)
def test_order_of_cards(tmp_path, case):
    """The cards that astropy would write, where it would write them."""
    array, settings = LOSSY[case]
    plain, ours = (written(tmp_path, array, f"{k}.fits", **settings) for k in (1, 2))
    update(plain, "")
    with fca.enabled():
        update(ours, "")
    a, b = (
        {c.keyword: c.value for c in fits.getheader(p, 1, disable_image_compression=True).cards}
        for p in (plain, ours)
    )
    assert a.pop("ZBLANK", None) == b.pop("ZBLANK", None)  # at the end, or with the other settings
    assert [*a] == [*b]
    assert {k for k in a if a[k] != b[k]} <= {"PCOUNT", "TFORM1", "TFORM2"}  # of other tiles


def test_cards_of_fpack_stay(tmp_path, adapter):
    """A table that another program made keeps its columns and parameters."""
    path = tmp_path / "m13.fits"
    path.write_bytes((M13 / "compressed_with_nan.fits").read_bytes())
    before = fits.getheader(path, 1, disable_image_compression=True)
    tiles = heap(path)
    update(path, "section")
    after = fits.getheader(path, 1, disable_image_compression=True)
    assert heap(path) == tiles
    ours = {card.keyword: card.value for card in after.cards}
    lost = {c.keyword for c in before.cards if c.keyword and ours.get(c.keyword) != c.value}
    assert lost <= {"CHECKSUM", "DATASUM", "HISTORY", "COMMENT"}
    assert after["STEP"] == 1


def test_changed_rows_are_not_lost(tmp_path, adapter):
    """Whoever changes the table itself gets what astropy does with it."""
    path = written(tmp_path, NOISE, quantize_level=2)
    with fits.open(path) as hdul:
        hdul[1].compressed_data["ZZERO"][0] += 100
        assert hdul[1].section[0].mean() > 150
        hdul[1].header["STEP"] = 1
        hdul.writeto(tmp_path / "b.fits")
    assert read(tmp_path / "b.fits")[0].mean() > 150


def test_file_that_is_closed(tmp_path, adapter):
    """The pixels that were read can still be written."""
    path = written(tmp_path, NOISE, quantize_level=16)
    hdul = fits.open(path)
    before = np.array(hdul[1].data)
    hdul.close()
    hdul[1].header["STEP"] = 1
    hdul[1].writeto(tmp_path / "b.fits")
    assert abs(read(tmp_path / "b.fits") - before).max() < 0.3


@pytest.mark.parametrize("memmap", [True, False])
def test_section_of_a_closed_file(tmp_path, adapter, memmap):
    path = written(tmp_path, sample("int16", (20, 30)))
    with fits.open(path, memmap=memmap) as hdul:
        section = hdul[1].section
        assert section[:2].size == 60
    with pytest.raises(ValueError, match="closed file"):
        section[2:]


@pytest.mark.parametrize("case", ["replaced", "unscaled", "blank"])
def test_scaling_that_was_taken_away(tmp_path, case):
    """Whoever removes BSCALE or BLANK wants it gone, also if the stored integers stay."""
    stored = sample("int16", (20, 30))
    cards = {"BLANK": 100} if case == "blank" else {"BSCALE": 0.5, "BZERO": 3}
    results = []
    for context in (contextlib.nullcontext(), fca.enabled()):
        hdu = fits.CompImageHDU(stored)
        hdu.header.update(cards)
        hdu.writeto(tmp_path / "a.fits", overwrite=True)
        options = {"unscaled": {"do_not_scale_image_data": True}, "blank": {"ignore_blank": True}}
        with context, warnings.catch_warnings(action="ignore"):
            with fits.open(tmp_path / "a.fits", mode="update", **options.get(case, {})) as hdul:
                assert hdul[1].data.size
                if case == "replaced":
                    hdul[1].data = stored.copy()
                for keyword in cards if case != "replaced" else ():
                    del hdul[1].header[keyword]
            results.append(read(tmp_path / "a.fits"))
    assert same_bits(*results)
    assert case == "blank" or same_bits(results[1], stored)  # the array had NaN, which become 0


def test_card_after_a_flush_that_moved_the_file(tmp_path, adapter):
    """The file is mapped then, and scaled pixels cannot be; nothing of the flush may be lost."""
    path = written(tmp_path, sample("uint16", (20, 30)))
    with fits.open(path, mode="update") as hdul:
        assert hdul[1].data.size
        hdul[1].header.update({f"KEY{k}": k for k in range(60)})
        hdul.flush()
        hdul[1].header["NEW"] = hdul[0].header["NEW"] = 1
    assert fits.getheader(path, 0)["NEW"] == fits.getheader(path, 1)["NEW"] == 1
    assert same_bits(read(path), sample("uint16", (20, 30)))


def test_section_outside_the_tiles(tmp_path, adapter):
    """An array that became larger has no tiles for its new pixels."""
    with fits.open(written(tmp_path, sample("int16", (20, 30)))) as hdul:
        hdul[1].data = np.zeros((200, 200), "i2")
        with pytest.raises(IndexError, match="wanted one of tiles of shape"):
            hdul[1].section[150:152]
        hdul[1].data = np.zeros((2, 20, 30), "i2")
        with pytest.raises(IndexError, match="wanted one of tiles of shape"):
            hdul[1].section[0]


@pytest.mark.parametrize("settings", [{}, {"compression_type": "PLIO_1"}], ids=str)
def test_masked_arrays(tmp_path, settings):
    array = np.ma.masked_less(sample("int16", (20, 30)), 105)
    array.fill_value = 77
    plain = written(tmp_path, array, "plain.fits", **settings)
    with fca.enabled():
        ours = written(tmp_path, array, "ours.fits", **settings)
    assert ours.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("smooth", [True, 1.0, 0])
def test_smooth(tmp_path, smooth):
    settings = {"compression_type": "HCOMPRESS_1", "hcomp_scale": 8, "hcomp_smooth": smooth}
    array = sample("int32", (32, 32))
    plain = written(tmp_path, array, "plain.fits", **settings)
    with fca.enabled():
        ours = written(tmp_path, array, "ours.fits", **settings)
    assert ours.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("level", [0, 16])
def test_writing_makes_no_array_of_each_tile(tmp_path, adapter, monkeypatch, level):
    def refuse(*args):
        raise AssertionError("an array for each tile")

    monkeypatch.setattr(fits.FITS_rec, "_convert_p", refuse)
    path = written(tmp_path, NOISE, quantize_level=level)
    monkeypatch.undo()
    with fits.open(path, disable_image_compression=True) as hdul:
        assert len(hdul[1].data["COMPRESSED_DATA"][3]) > 10


def test_written_image_can_be_used(tmp_path, adapter):
    """After its first writing an image is written again, changed, pickled and copied."""
    hdu = fits.CompImageHDU(sample("int16", (20, 30)))
    hdu.writeto(tmp_path / "a.fits")
    copy.deepcopy(hdu).writeto(tmp_path / "b.fits")
    pickle.loads(pickle.dumps(hdu)).writeto(tmp_path / "c.fits")
    assert (tmp_path / "a.fits").read_bytes() == (tmp_path / "b.fits").read_bytes()
    assert (tmp_path / "a.fits").read_bytes() == (tmp_path / "c.fits").read_bytes()
    hdu.data[3, 4] += 1
    hdu.writeto(tmp_path / "a.fits", overwrite=True)
    assert np.array_equal(read(tmp_path / "a.fits"), hdu.data)


def test_objects_of_astropy_stay_clean(tmp_path, adapter):
    """What was read can be pickled and copied as before."""
    content = io.BytesIO(written(tmp_path, sample("int16", (20, 30))).read_bytes())
    with fits.open(content) as hdul:
        assert hdul[1].data.size
        assert hdul[1].section[0].size
        assert same_bits(pickle.loads(pickle.dumps(hdul[1])).data, hdul[1].data)
        copy.deepcopy(hdul[0])


def test_blocks_of_threads():
    """The adapter stays on until the last block of any thread ends, or for good."""
    first, second = fca.enabled(), fca.enabled()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert fca.is_enabled()
    second.__exit__(None, None, None)
    assert not fca.is_enabled()
    with fca.enabled():
        fca.enable()
    assert fca.is_enabled()
    fca.disable()


def test_after_the_end_of_the_main_thread(tmp_path):
    """No new threads can be started then: the one that asks does the work."""
    array = np.random.default_rng(1).integers(0, 99, (700, 700), "i2")
    path = written(tmp_path, array)
    code = f"""
import threading, numpy as np, fitscodecs as fc
def work():
    threading.main_thread().join()
    array = fc.open({str(path)!r}).read(threads=2)
    fc.write({str(tmp_path / "out.fits")!r}, array, threads=2)
threading.Thread(target=work).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
    assert same_bits(read(tmp_path / "out.fits"), array)


# ---------------------------------------------------------------------------- pytest


def test_counts(tmp_path, adapter):
    start = fca.counts()
    path = written(tmp_path, sample("int16", (60, 70)), tile_shape=(20, 35))
    assert read(path).size
    assert fca.counts() == (start.decoded + 6, start.encoded + 6)


TEST = """
import numpy as np
from astropy.io import fits

def test_there_and_back(tmp_path):
    fits.CompImageHDU(np.ones((7, 20), "i2")).writeto(tmp_path / "a.fits")
    assert fits.getdata(tmp_path / "a.fits").sum() == 140
"""


def test_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*args):
        command = [sys.executable, "-m", "pytest", *args, "test_it.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    text = run("-p", "fitscodecs.adapters.astropy")
    assert "fitscodecs: decoded 7 tiles, encoded 7 tiles" in text
    assert "1 passed" in text
    assert "fitscodecs: " not in run()


def test_plugin_adds_up_its_workers(monkeypatch):
    """With pytest-xdist the tiles go through other processes."""
    monkeypatch.setattr(plugin, "_of_workers", [])
    monkeypatch.setattr(plugin, "counts", lambda: fca.TileCounts(1, 2))
    worker = SimpleNamespace(config=SimpleNamespace(workeroutput={}))
    plugin.pytest_sessionfinish(worker)
    node = SimpleNamespace(workeroutput=worker.config.workeroutput)
    for _ in range(2):
        plugin.Workers().pytest_testnodedown(node, None)
    lines = []
    plugin.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    assert lines == ["fitscodecs: decoded 3 tiles, encoded 6 tiles"]


def test_astropys_own_tests(tmp_path):
    """Those of compressed images; without plugins, which nothing here needs."""
    folder = Path(compressed.__file__).parent / "tests"
    (tmp_path / "patient.py").write_text(  # a busy machine is no fault
        "from hypothesis import settings\n"
        "settings.register_profile('patient', deadline=None)\n"
        "settings.load_profile('patient')\n"
    )
    chosen = ["-m", "not remote_data and not slow", "-k", "not test_fitsio"]  # tests/peers has them
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder),
         "-p", "no:cacheprovider", "-p", "patient", "-p", "fitscodecs.adapters.astropy", *chosen,
         str(folder)],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    [(decoded, encoded)] = re.findall(
        r"^fitscodecs: decoded (\d+) tiles, encoded (\d+) tiles$", done.stdout, re.MULTILINE
    )
    assert int(decoded) > 10000
    assert int(encoded) > 5000
    assert int(re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)[1]) > 500
