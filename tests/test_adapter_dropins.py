# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The classes that can take the place of astropy's own, beside astropy's own."""

import gzip
import inspect
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest

import fitscodecs as fc

fits = pytest.importorskip("astropy.io.fits", reason="compares with the codecs of astropy")
from astropy.io.fits.hdu.compressed import _codecs as own  # noqa: E402
from astropy.io.fits.hdu.compressed import _quantization as own_quantization  # noqa: E402

from fitscodecs.adapters.astropy import codecs as ours  # noqa: E402
from fitscodecs.adapters.astropy import quantization as our_quantization  # noqa: E402
from tests.conftest import same_bits  # noqa: E402
from tests.making import sample  # noqa: E402

PATCH = Path(__file__).parent.parent / "docs" / "adapters" / "astropy-imports.patch"
COMPRESSED = Path("astropy/io/fits/hdu/compressed")
NAMES = ours.__all__


def both(name, settings):
    return getattr(own, name)(**settings), getattr(ours, name)(**settings)


def as_stream(stream):
    """A stream as astropy's classes take it, which need an array."""
    return np.frombuffer(stream, np.uint8)


def test_own_classes_are_astropys():
    """Nobody has put something else where the others are taken from."""
    assert sorted(own.__all__) == sorted(NAMES)
    home = Path(fits.__file__).parent
    for holder, names in ((own, NAMES), (own_quantization, ["Quantize"])):
        for name in names:
            cls = getattr(holder, name)
            for _, function in inspect.getmembers(cls, inspect.isfunction):
                if "code" in function.__name__:
                    assert Path(inspect.getsourcefile(function)).is_relative_to(home)
        for name, value in vars(holder).items():
            if name.endswith("_c"):
                assert isinstance(value, types.BuiltinFunctionType), name


# --------------------------------------------------------------------------- what they look like


@pytest.mark.parametrize("name", [*NAMES, "Quantize"])
def test_constructors(name):
    theirs = getattr(own, name, own_quantization.Quantize)
    cls = getattr(ours, name, our_quantization.Quantize)
    parameters = inspect.signature(theirs).parameters.values()
    assert [(p.name, p.kind, p.default) for p in parameters] == [
        (p.name, p.kind, p.default) for p in inspect.signature(cls).parameters.values()
    ]
    settings = {p.name: 4 for p in parameters}
    assert vars(cls(**settings)) == vars(theirs(**settings)) == settings
    assert pickle.loads(pickle.dumps(cls(**settings))) == cls(**settings)
    for parameter in settings:
        assert cls(**settings | {parameter: 5}) != cls(**settings)


@pytest.mark.parametrize("name", NAMES)
def test_configuration(name):
    settings = dict.fromkeys(inspect.signature(getattr(ours, name)).parameters, 4)
    theirs, codec = both(name, settings)
    assert codec.codec_id == theirs.codec_id
    config = json.loads(json.dumps(codec.get_config()))
    assert config == {"id": theirs.codec_id, **settings}
    assert type(codec).from_config(config) == codec
    base = type(theirs).__base__  # that of numcodecs, where that is installed
    assert isinstance(codec, base) or base.__module__ == own.__name__


def test_they_are_not_listed_as_algorithms():
    assert not {getattr(ours, name) for name in NAMES} & set(fc.CODECS)


def test_import_does_not_need_astropy():
    """astropy imports them while it is itself being imported."""
    room = "fitscodecs.adapters.astropy"
    code = f"import sys, {room}.codecs, {room}.quantization; print('astropy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# ------------------------------------------------------------------------------------- streams


def integers(dtype, npixels, seed=0):
    """Pixels of many kinds: what a codec is made for, and what it is not."""
    info, rng = np.iinfo(dtype), np.random.default_rng(seed)
    slope = np.cumsum(rng.integers(-3, 4, npixels))
    yield np.clip(rng.normal(100, 4, npixels), info.min, info.max).astype(dtype)
    yield np.full(npixels, info.min, dtype)
    yield np.where(rng.random(npixels) < 0.5, info.min, info.max).astype(dtype)
    yield rng.integers(info.min, info.max, npixels, dtype=dtype, endpoint=True)
    yield np.clip(slope, info.min, info.max).astype(dtype)
    yield np.where(rng.random(npixels) < 0.02, 90, 0).astype(dtype)


def masks(npixels, seed=0):
    """Pixels for PLIO_1.

    astropy's memory for a stream holds two words a pixel, and some of these need three: zeros at
    the end, which need none, make room.
    """
    rng = np.random.default_rng(seed)
    for mask in (
        (rng.random(npixels) < 0.1) * 7,
        rng.integers(0, 2**24, npixels),
        np.repeat(rng.integers(0, 5000, npixels), 3)[:npixels],
        np.abs(np.cumsum(rng.integers(-5000, 5000, npixels))),
        np.full(npixels, 2**24 - 1),
        np.zeros(npixels),
    ):
        yield np.concatenate((mask, np.zeros(npixels))).astype("i4")


def rice_cases():
    # The last block of 16 or 32 pixels is alone, partial, full, a pixel long.
    for bytepix, blocksize, npixels in itertools.product((1, 2, 4), (16, 32), (1, 31, 32, 33, 999)):
        settings = {"blocksize": blocksize, "bytepix": bytepix, "tilesize": npixels}
        for pixels in integers(f"i{bytepix}", npixels, npixels):
            yield "Rice1", settings, pixels


def hcompress_cases():
    sides = [(4, 4), (5, 7), (16, 16), (33, 20)]
    scales = (-3, 0, 1, 2, 25, 1000)
    for (nx, ny), scale, smooth, bytepix in itertools.product(sides, scales, (0, 1), (4, 8)):
        settings = {"scale": scale, "smooth": smooth, "bytepix": bytepix, "nx": nx, "ny": ny}
        # With bytepix 4 astropy computes in 32 bits, and the coefficients grow with the tile.
        for pixels in integers("i2" if bytepix == 4 else "i4", nx * ny, nx):
            lossless = scale <= 1
            if lossless or abs(pixels.astype("i8")).max() < 2**30:  # else pixels leave int32
                yield "HCompress1", settings, pixels.reshape(nx, ny)


def cases():
    yield from rice_cases()
    yield from hcompress_cases()
    for npixels in (1, 2, 100, 2000):
        for mask in masks(npixels, npixels):
            yield "PLIO1", {"tilesize": mask.size}, mask
    for dtype in ("u1", "i1", "i2", "i4", "i8", "f4", "f8"):
        pixels = sample(dtype, (7, 9))
        yield "NoCompress", {}, pixels
        yield "Gzip1", {}, pixels
        yield "Gzip2", {"itemsize": pixels.itemsize}, pixels


def of_one_name(found):
    """Cases in groups that are one test each, by codec and settings."""
    groups = {}
    for name, settings, pixels in found:
        key = "-".join([name, *(f"{k}{v}" for k, v in settings.items())])
        groups.setdefault(key, (name, settings, []))[2].append(pixels)
    return [pytest.param(*group, id=key) for key, group in groups.items()]


CASES = of_one_name(cases())
FEW = of_one_name(
    [
        ("Rice1", {"blocksize": 32, "bytepix": 2, "tilesize": 63}, sample("i2", (7, 9))),
        ("Rice1", {"blocksize": 32, "bytepix": 1, "tilesize": 63}, sample("u1", (7, 9))),
        ("PLIO1", {"tilesize": 63}, sample("i4", (7, 9))),
        ("HCompress1", {"scale": 0, "smooth": False, "bytepix": 8, "nx": 7, "ny": 9},
         sample("i4", (7, 9))),
        ("HCompress1", {"scale": -1, "smooth": False, "bytepix": 8, "nx": 7, "ny": 9},
         sample("i4", (7, 9))),
        ("Gzip1", {}, sample("f4", (7, 9))),
        ("Gzip2", {"itemsize": 8}, sample("f8", (7, 9))),
        ("NoCompress", {}, sample("i2", (7, 9))),
    ]
)  # fmt: skip


def contents(stream):
    """What a gzipped stream holds, which must be one member without a time."""
    member = zlib.decompressobj(31)
    raw = member.decompress(stream)
    assert member.eof
    assert not member.unused_data
    assert stream[4:8] == bytes(4)
    return raw


@pytest.mark.parametrize(("name", "settings", "tiles"), CASES)
def test_streams(name, settings, tiles):
    theirs, codec = both(name, settings)
    for pixels in tiles:
        for order in "<>":
            turned = pixels.astype(pixels.dtype.newbyteorder(order))
            stream = codec.encode(turned)
            assert type(stream) is bytes
            if name.startswith("Gzip"):
                assert contents(stream) == gzip.decompress(theirs.encode(turned))
            else:
                assert stream == theirs.encode(turned)


@pytest.mark.parametrize(("name", "settings", "tiles"), CASES)
def test_pixels(name, settings, tiles):
    theirs, codec = both(name, settings)
    for pixels in tiles:
        for stream in (theirs.encode(pixels), codec.encode(pixels)):
            decoded = codec.decode(as_stream(stream))
            assert type(decoded) is np.ndarray
            assert same_bits(decoded, theirs.decode(as_stream(stream)))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">u2", "u4", ">i8", "f4", ">f8"])
def test_casts_without_a_check(dtype):
    """Values that the stored type does not hold wrap around, fractions are cut off."""
    lowest = 0 if "u" in dtype else -(2**17)
    pixels = np.random.default_rng(1).uniform(lowest, 2**17, 320)
    pixels = (pixels if "f" in dtype else pixels.astype("i8")).astype(dtype)
    for bytepix in (1, 2, 4):
        theirs, codec = both("Rice1", {"blocksize": 32, "bytepix": bytepix, "tilesize": 320})
        assert codec.encode(pixels) == theirs.encode(pixels)
    settings = {"scale": 0, "smooth": 0, "nx": 16, "ny": 20}
    for bytepix in (4, 8):
        theirs, codec = both("HCompress1", settings | {"bytepix": bytepix})
        assert codec.encode(pixels) == theirs.encode(pixels)


@pytest.mark.parametrize("values", [[2**32 + 5, 2**33, 7, 0], [3.75, 0.5, 1e5, 0.0]])
def test_casts_to_a_mask(values):
    mask = np.array(values * 4)
    theirs, codec = both("PLIO1", {"tilesize": mask.size})
    assert codec.encode(mask) == theirs.encode(mask)
    assert same_bits(codec.decode(codec.encode(mask)), mask.astype("i4"))


def test_plio_words_of_any_type():
    """Words in an array are numbers; in bytes, and arrays of bytes, they are native."""
    mask = next(masks(500))
    theirs, codec = both("PLIO1", {"tilesize": mask.size})
    stream = codec.encode(mask)
    words = np.frombuffer(stream, "=i2")
    for same in (words, words.astype(">i2"), words.astype("<i2"), words.view("u1")):
        assert same_bits(codec.decode(same), mask)
        assert same_bits(codec.decode(same), theirs.decode(same))
    assert same_bits(codec.decode(memoryview(words.astype(">i2"))), mask)
    assert same_bits(codec.decode(stream + b"\0"), mask)


@pytest.mark.parametrize("nzeros", [4095, 8190])
def test_plio_keeps_a_pixel_after_a_long_gap(nzeros):
    """The case in which astropy's stream is another one, and loses zeros."""
    mask = np.zeros(nzeros + 2, "i4")
    mask[nzeros] = 1
    codec = ours.PLIO1(tilesize=mask.size)
    assert same_bits(codec.decode(codec.encode(mask)), mask)


@pytest.mark.parametrize(("name", "settings", "tiles"), FEW)
def test_any_buffer(name, settings, tiles):
    codec = getattr(ours, name)(**settings)
    pixels = tiles[0]
    wide = np.zeros((pixels.shape[0], 2 * pixels.shape[1]), pixels.dtype)
    wide[:, ::2] = pixels
    turned = pixels.astype(pixels.dtype.newbyteorder(">"))
    stream = codec.encode(pixels)
    for same in (memoryview(pixels), wide[:, ::2], turned, memoryview(turned)):
        assert codec.encode(same) == stream
    spread = np.zeros(2 * len(stream), np.uint8)
    spread[::2] = as_stream(stream)
    want = codec.decode(as_stream(stream))
    for same in (stream, bytearray(stream), memoryview(stream), spread[::2]):
        copy = bytes(same)
        assert same_bits(codec.decode(same), want)
        assert bytes(same) == copy


@pytest.mark.parametrize(("name", "settings", "tiles"), FEW)
def test_out(name, settings, tiles):
    codec = getattr(ours, name)(**settings)
    stream = codec.encode(tiles[0])
    want = codec.decode(stream)
    out = np.empty(want.nbytes, np.uint8)
    got = codec.decode(stream, out)
    assert same_bits(got, want)
    assert np.shares_memory(got, out)
    assert out.tobytes() == want.tobytes()
    with pytest.raises(fc.DecodeError, match="out has"):
        codec.decode(stream, out[1:])


def test_plain_bytes_are_pixels_of_the_itemsize():
    pixels = sample(">f8", (5, 6))
    codec = ours.Gzip2(itemsize=8)
    assert codec.encode(pixels.tobytes()) == codec.encode(pixels)
    assert codec.decode(codec.encode(pixels.tobytes())).tobytes() == pixels.tobytes()
    narrow = ours.Gzip2(itemsize=8).encode(pixels.astype("i4"))  # quantized pixels of an f8 image
    assert ours.Gzip2(itemsize=4).decode(narrow).tobytes() == pixels.astype(">i4").tobytes()


@pytest.mark.parametrize(("name", "settings", "tiles"), FEW)
def test_blocks_around_them_speak_of_other_tiles(name, settings, tiles):
    codec = getattr(ours, name)(**settings)
    stream, want = codec.encode(tiles[0]), codec.decode(codec.encode(tiles[0]))
    with fc.DecodeContext(row=1, shape=(2, 3), dtype="int16"):
        assert codec.encode(tiles[0]) == stream
        assert same_bits(codec.decode(stream), want)


# ------------------------------------------------------------------------------------ failures

RICE = {"blocksize": 32, "bytepix": 4, "tilesize": 400}
NOISE = np.random.default_rng(3).integers(-500, 500, 400).astype("i4")
HCOMPRESS = {"scale": 0, "smooth": 0, "bytepix": 8, "nx": 4, "ny": 4}
MEMBER = gzip.compress(bytes(range(80)))
FAILURES = {
    "rice, nothing": ("Rice1", RICE, "decode", np.zeros(0, "u1")),
    "rice, short": ("Rice1", RICE, "decode", as_stream(own.Rice1(**RICE).encode(NOISE))[:-9]),
    "rice, ones": ("Rice1", RICE, "decode", np.full(30, 255, "u1")),
    "plio, negative": ("PLIO1", {"tilesize": 2}, "encode", np.array([0, -1])),
    "plio, large": ("PLIO1", {"tilesize": 2}, "encode", np.array([2**24, 0])),
    "hcompress, zeros": ("HCompress1", HCOMPRESS, "decode", np.zeros(100, "u1")),
    "hcompress, bytepix 2": ("HCompress1", HCOMPRESS | {"bytepix": 2}, "encode", np.eye(4)),
    "hcompress, bytepix 1": ("HCompress1", HCOMPRESS | {"bytepix": 1}, "decode", NOISE),
    "hcompress, small": ("HCompress1", HCOMPRESS | {"nx": 3}, "encode", np.zeros((3, 4), "i4")),
    "hcompress, large": ("HCompress1", HCOMPRESS, "encode", np.zeros((4, 5), "i4")),
    "gzip, short": ("Gzip1", {}, "decode", as_stream(MEMBER[:-3])),
    "gzip, sum": ("Gzip1", {}, "decode", as_stream(MEMBER[:-8] + bytes(8))),
    "gzip, zeros": ("Gzip1", {}, "decode", np.zeros(30, "u1")),
    "gzip, data": ("Gzip1", {}, "decode", as_stream(MEMBER[:10] + b"\xff" + MEMBER[11:])),
    "shuffle, itemsize": ("Gzip2", {"itemsize": 3}, "decode", as_stream(MEMBER)),
    "shuffle, none": ("Gzip2", {"itemsize": 0}, "decode", as_stream(MEMBER)),
}


@pytest.mark.parametrize(("name", "settings", "method", "argument"), FAILURES.values(),
                         ids=list(FAILURES))  # fmt: skip
def test_failures(name, settings, method, argument):
    """What astropy refuses is refused, with an error that catches the same."""
    theirs, codec = both(name, settings)
    with pytest.raises(Exception) as expected:
        getattr(theirs, method)(argument)
    with pytest.raises(expected.type):
        getattr(codec, method)(argument)


def test_messages_that_programs_look_for():
    with pytest.raises(ValueError, match="data out of range for PLIO compression"):
        ours.PLIO1(tilesize=2).encode(np.array([2**24, 0]))
    with pytest.raises(fc.DecodeError, match="hit end of compressed byte stream"):
        ours.Rice1(**RICE).decode(b"\0\0\0\1")


def test_what_astropy_cannot_refuse():
    """Streams and tiles over whose end astropy reads."""
    codec = ours.PLIO1(tilesize=400)
    stream = codec.encode(np.arange(400))
    for damaged in (stream[:-20], stream[:3], b"\xff" * 40):
        with pytest.raises(fc.DecodeError, match=r"^PLIO_1: "):
            codec.decode(damaged)
    for wrong in (np.arange(399), np.arange(401)):
        with pytest.raises(fc.EncodeError, match="wanted 400"):
            codec.encode(wrong)
    with pytest.raises(fc.EncodeError, match="wanted -2147483648 to 2147483647"):
        ours.HCompress1(**HCOMPRESS).encode(np.full((4, 4), 2**31))
    with pytest.raises(fc.DecodeError, match="stream holds 4 rows, wanted 5"):
        ours.HCompress1(**HCOMPRESS | {"nx": 5}).decode(
            ours.HCompress1(**HCOMPRESS).encode(np.zeros((4, 4), "i4"))
        )


# -------------------------------------------------------------------------------- quantization

LEVELS = (0, 4, 16, -0.5)
ROWS = (1, 2, 9999, 10000, 10001, 54321, 2**31 + 7)
# Tiles around the 10000 dither values, from which a tile takes 9501 at least in a run.
SHAPES = [(2,), (9,), (1, 40), (3, 30), (2, 3, 40), (1, 9501), (2, 10001)]


def floats(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(1000, 30, shape)
    yield noise.astype(dtype)
    yield (noise * 1e20).astype(dtype)
    yield np.round(rng.normal(0, 3, shape)).astype(dtype)
    yield np.where(rng.random(shape) < 0.5, 0, noise).astype(dtype)


def pair(**settings):
    return own_quantization.Quantize(**settings), our_quantization.Quantize(**settings)


def quantized(quantize, pixels):
    """Integers, scale and zero; or nothing, if they are to be stored losslessly."""
    try:
        return quantize.encode_quantized(pixels)
    except (own_quantization.QuantizationFailedException,
            our_quantization.QuantizationFailedException):  # fmt: skip
        return None


@pytest.mark.parametrize("dither", [-1, 1, 2])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
def test_quantize(dtype, level, dither):
    rows = itertools.cycle(ROWS if dither > 0 else (0,))
    done = 0
    for shape in SHAPES:
        for pixels in floats(dtype, shape):
            theirs, quantize = pair(row=next(rows), dither_method=dither, quantize_level=level,
                                    bitpix=-8 * pixels.itemsize)  # fmt: skip
            want, got = quantized(theirs, pixels), quantized(quantize, pixels)
            assert (want is None) == (got is None)
            if want is not None:
                assert same_bits(got[0], want[0])
                assert got[1:] == want[1:]
                assert [type(value) for value in got] == [type(value) for value in want]
                done += 1
    assert done > 15


@pytest.mark.parametrize("bitpix", [-32, -64])
@pytest.mark.parametrize("dither", [-1, 1, 2])
@pytest.mark.parametrize("dtype", ["<i4", ">i4", "<i2", ">i2", "u1"])
def test_dequantize(dtype, dither, bitpix):
    rng = np.random.default_rng(5)
    info = np.iinfo(dtype)
    for row, shape in itertools.product(ROWS if dither > 0 else (0,), SHAPES):
        integers = rng.integers(info.min, info.max, shape, "i8").astype(dtype)
        if info.min < -(2**30):
            integers.flat[::3] = -2147483646  # 0.0 to SUBTRACTIVE_DITHER_2
        theirs, quantize = pair(row=row, dither_method=dither, quantize_level=None, bitpix=bitpix)
        for scale, zero in ((0.37, 1e4), (-1e-9, 0.0), (np.float64(3e30), np.float64(-2e35))):
            want = theirs.decode_quantized(integers, scale, zero)
            got = quantize.decode_quantized(integers, scale, zero)
            assert type(got) is type(want)
            assert same_bits(got, want)


@pytest.mark.parametrize(
    "tile", [np.zeros(50), np.full(50, 3.5), np.ones(1), np.array([0, 1e300, 2, 5] * 9),
             np.full(20, np.inf)],
    ids=["zeros", "constant", "one", "range", "infinities"],
)  # fmt: skip
@pytest.mark.parametrize("level", [0, 4])
def test_tiles_that_cannot_be_quantized(tile, level):
    theirs, quantize = pair(row=1, dither_method=1, quantize_level=level, bitpix=-64)
    with pytest.raises(own_quantization.QuantizationFailedException):
        theirs.encode_quantized(tile)
    with pytest.raises(
        our_quantization.QuantizationFailedException, match=r"^(tile|range)"
    ) as error:
        quantize.encode_quantized(tile)
    assert isinstance(error.value, fc.NotQuantizable)


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_an_infinity_is_not_quantized(infinity):
    """astropy gives single-precision tiles with one an infinite scale."""
    tile = sample("f4", (33,))
    tile[4] = infinity
    quantize = our_quantization.Quantize(row=1, dither_method=1, quantize_level=4, bitpix=-32)
    with pytest.raises(our_quantization.QuantizationFailedException, match="infinity"):
        quantize.encode_quantized(tile)


def test_level_none_is_4():
    tile = sample("f4", (40,))
    settings = {"row": 0, "dither_method": -1, "bitpix": -32}
    want = our_quantization.Quantize(quantize_level=4, **settings).encode_quantized(tile)
    got = our_quantization.Quantize(quantize_level=None, **settings).encode_quantized(tile)
    assert same_bits(got[0], want[0])
    assert got[1:] == want[1:]


@pytest.mark.parametrize("row", [0, -3])
def test_rows_before_the_first_go_round(row):
    """astropy looks before the start of its dither values."""
    settings = {"dither_method": 1, "quantize_level": 4, "bitpix": -32}
    quantize = our_quantization.Quantize(row=row, **settings)
    same = our_quantization.Quantize(row=row + 10000, **settings)
    integers, scale, zero = quantize.encode_quantized(sample("f4", (40,)))
    assert same_bits(same.encode_quantized(sample("f4", (40,)))[0], integers)
    assert same_bits(quantize.decode_quantized(integers, scale, zero),
                     same.decode_quantized(integers, scale, zero))  # fmt: skip


def test_dither_methods():
    assert our_quantization.DITHER_METHODS == own_quantization.DITHER_METHODS
    integers = np.arange(9)
    plain = [
        our_quantization.Quantize(row=1, dither_method=method, quantize_level=4, bitpix=-64)
        for method in (-1, 0)
    ]
    assert same_bits(*(q.decode_quantized(integers, 0.5, 3.0) for q in plain))
    settings = {"row": 1, "quantize_level": 4}
    theirs, quantize = pair(bitpix=16, dither_method=1, **settings)
    for refusing in (theirs, quantize):
        with pytest.raises(TypeError, match="bitpix"):
            refusing.decode_quantized(integers, 0.5, 3.0)
    unknown = our_quantization.Quantize(bitpix=-32, dither_method=3, **settings)
    with pytest.raises(ValueError, match="dither_method 3"):
        unknown.decode_quantized(integers, 0.5, 3.0)


# ------------------------------------------------------------------------- astropy, with them in

TALLY = """
from astropy.io.fits.hdu.compressed import _codecs, _quantization, _tiled_compression
from fitscodecs.adapters.astropy import codecs, quantization

calls = {"own": 0, "ours": 0}

def tallied(function, whose):
    def wrapper(*args):
        calls[whose] += 1
        return function(*args)
    return wrapper

codecs.alone = tallied(codecs.alone, "ours")
for name in ("encode_quantized", "decode_quantized"):
    function = getattr(quantization.Quantize, name)
    setattr(quantization.Quantize, name, tallied(function, "ours"))
for module in (_codecs, _quantization):
    for name in list(vars(module)):
        if name.endswith("_c") or name.startswith("gzip_"):
            setattr(module, name, tallied(getattr(module, name), "own"))

def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line("calls {own} own, {ours} ours".format(**calls))
"""


def linked_tree(root, copied):
    """astropy with links to the installed one, except for the folders above a file, and the file.

    Nothing is written into the installed package.
    """
    source, here = Path(fits.__file__).parents[3], root
    for part in copied.parts[:-1]:
        here, source = here / part, source / part
        here.mkdir()
        for entry in source.iterdir():
            if entry.name != "__pycache__" and entry.name not in copied.parts:
                try:
                    (here / entry.name).symlink_to(entry)
                except OSError as error:
                    pytest.skip(f"symbolic links are not allowed here: {error}")
    (here / copied.name).write_bytes((source / copied.name).read_bytes())
    tests = here / "tests"
    tests.unlink()
    tests.mkdir()  # a real folder: pytest is to see it under the root
    for entry in (source / "tests").iterdir():
        if entry.name != "__pycache__":
            (tests / entry.name).symlink_to(entry)


def apply_patch(root, patch):
    """Apply a unified diff of one file, whose hunks may lie anywhere in it but only there."""
    path = root / Path(*Path(re.search(r"^\+\+\+ (\S+)$", patch, re.M)[1]).parts[1:])
    text = path.read_text()
    _, *hunks = re.split(r"^(?=@@ )", patch, flags=re.M)
    for hunk in hunks:
        head, *lines = hunk.splitlines(keepends=True)
        lines = [line if line[0] in "+-" else f" {line.removeprefix(' ')}" for line in lines]
        old = [line[1:] for line in lines if line[0] != "+"]
        new = [line[1:] for line in lines if line[0] != "-"]
        numbers = re.fullmatch(r"@@ -\d+,(\d+) \+\d+,(\d+) @@\n", head)
        assert (len(old), len(new)) == tuple(map(int, numbers.groups()))
        assert text.count("".join(old)) == 1
        text = text.replace("".join(old), "".join(new))
    path.write_text(text)


@pytest.mark.skipif(not PATCH.exists(), reason="no docs folder beside the tests")
def test_astropy_passes_its_tests_with_them(tmp_path):
    linked_tree(tmp_path, COMPRESSED / "_tiled_compression.py")
    apply_patch(tmp_path, PATCH.read_text())
    (tmp_path / "tally.py").write_text(TALLY)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # no settings of others
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    path = os.pathsep.join([str(tmp_path), str(Path(fc.__file__).parents[1])])
    environment |= {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-q", "-p", "tally",
         "-k", "not test_plio_1_out_of_range",  # the only one that calls a class by its old name
         str(tmp_path / COMPRESSED / "tests" / "test_tiled_compression.py")],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    calls = re.search(r"^calls (\d+) own, (\d+) ours$", done.stdout, re.M)
    assert int(calls[1]) == 0
    assert int(calls[2]) > 1000
