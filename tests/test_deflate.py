# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Gzip members on every engine: the same pixels, errors and numbers of bytes that were used."""

import gzip
import itertools
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs import _native, deflate
from fitscodecs.grid import plan
from fitscodecs.tile import Streams, decode_tiles
from tests.making import plain_hdu, write_compressed

ENGINES = ["zlib"]
if _native.HAS_GZIP:
    ENGINES.append("libdeflate")
if deflate.isal_zlib is not None:
    ENGINES.append("isal")

FEXTRA, FNAME, FCOMMENT, FHCRC, RESERVED = 4, 8, 16, 2, 32


@pytest.fixture(params=ENGINES)
def engine(request, monkeypatch):
    """Each engine in turn."""
    monkeypatch.setattr(deflate, "_engine", request.param)
    return request.param


def member(contents, level=6, flags=0, strategy=zlib.Z_DEFAULT_STRATEGY):
    """One gzip member with any fields in its header."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    head = struct.pack("<4BIBB", 0x1F, 0x8B, 8, flags, 1234, 0, 3)
    if flags & FEXTRA:
        head += struct.pack("<H", 5) + b"extra"
    if flags & FNAME:
        head += b"name\0"
    if flags & FCOMMENT:
        head += b"comment\0"
    if flags & FHCRC:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    tail = struct.pack("<II", zlib.crc32(contents), len(contents))
    return head + packer.compress(contents) + packer.flush() + tail


def changed(stream, at, value=None):
    """The stream with one byte changed, counted from either end."""
    stream = bytearray(stream)
    stream[at] = stream[at] ^ 0x55 if value is None else value
    return bytes(stream)


def corpus(raw, rng):
    """Streams by name that hold these bytes, or almost do."""
    good = member(raw)
    yield "one member", good
    for level, strategy in itertools.product((0, 1, 9), (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED)):
        yield f"level {level} strategy {strategy}", member(raw, level, strategy=strategy)
    yield "stdlib", gzip.compress(raw, mtime=5)
    for flags in (1, FEXTRA, FNAME, FCOMMENT, FHCRC, FEXTRA | FNAME | FCOMMENT, 31, RESERVED, 128):
        yield f"flags {flags}", member(raw, flags=flags)
    yield "wrong header CRC", changed(member(raw, flags=FHCRC), 11)
    yield "endless name", good[:3] + bytes([FNAME]) + good[4:10] + b"n" * 30
    for cut in (0, 1, len(raw) // 2, len(raw)):
        yield f"two members cut at {cut}", member(raw[:cut]) + member(raw[cut:])
    yield "two members, zeros", member(raw[:8]) + member(raw[8:]) + bytes(7)
    yield "empty members between", member(b"") * 3 + member(raw) + member(b"") * 2
    yield "second member cut off", member(raw[:8]) + member(raw[8:])[:-3]
    yield "second member of nothing but its start", good + b"\x1f\x8b"
    yield "second member bad", good + changed(member(b""), -8)
    yield "second member after zeros", member(raw[:8]) + bytes(3) + member(raw[8:])
    for n in (1, 2, 3, 4, 7, 100):
        yield f"{n} zeros behind", good + bytes(n)
        yield f"{n} bytes behind", good + rng.integers(32, 128, n, np.uint8).tobytes()
    yield "length of a tile behind", good + struct.pack("<I", len(raw))
    for at in (-1, -4, -5, -8, 0, 1, 2, len(good) // 2):
        yield f"byte {at} changed", changed(good, at)
    for n in (0, 1, 2, 3, 9, 10, 17, 18, len(good) // 2, len(good) - 8, len(good) - 1):
        yield f"first {n} bytes", good[:n]
    yield "short by a byte", member(raw[:-1])
    yield "long by a byte", member(raw + b"x")
    for times in (2, 4, 8, 16):
        yield f"items {times} times as large", member(raw * times)
    yield "items half as large", member(raw[: len(raw) // 2])
    yield "nothing inside", member(b"")
    yield "much more", member(bytes(10**6))
    yield "zlib stream", zlib.compress(raw)
    yield "deflate stream", good[10:-8]
    yield "no stream", raw
    for i in range(300):
        at = rng.integers(0, len(good), rng.integers(1, 4))
        wrong = bytearray(good)
        for k in at:
            wrong[k] = rng.integers(0, 256)
        yield f"random {i}", bytes(wrong)


def outcome(function, *arguments, **settings):
    """What a call gives, or the error that it raises."""
    try:
        return function(*arguments, **settings)
    except fc.FitsCodecsError as error:
        return type(error).__name__, str(error)


def each_engine(monkeypatch, function):
    """The outcome of a call on each engine; they have to be equal."""
    found = []
    for name in ENGINES:
        monkeypatch.setattr(deflate, "_engine", name)
        found.append(outcome(function))
    assert all(same == found[0] for same in found), dict(zip(ENGINES, found, strict=True))
    return found[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [None, 64, 96 * 8])
def test_inflate(most, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 20, 96, np.uint8).tobytes()
    sound = 0
    for _, stream in corpus(raw, rng):
        found = each_engine(monkeypatch, lambda s=stream: deflate.inflate(s, most, "here"))
        sound += found[0] == raw
    assert sound > 20 or most == 64


def as_streams(streams):
    n = len(streams)
    nbytes = np.array([len(stream) for stream in streams], np.int64)
    return Streams(streams, np.arange(n), np.zeros(n, np.int64), nbytes)


class Tiles:
    """A file of six tiles, and how its image decodes when they have other streams."""

    def __init__(self, path):
        with fc.open(path) as image:
            self.structure = image.structure
            self.plan = plan(image.shape, image.tile_shape, [range(n) for n in image.shape])
            self.entries, self.streams = image._fetch(self.plan.tiles)
            self.pixels = image[...]

    def decode(self, streams):
        """The bytes of the pixels, and how many bytes of each stream were used."""
        out = np.zeros(self.structure.shape, self.structure.dtype)
        used = decode_tiles(self.structure, self.entries, as_streams(streams), self.plan, out)
        return out.tobytes(), used.tolist()


CODECS = pytest.mark.parametrize("codec", [fc.Gzip1(), fc.Gzip2()], ids=["GZIP_1", "GZIP_2"])


@CODECS
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "float64"])
def test_tiles(codec, dtype, monkeypatch, tmp_path):
    """Many tiles at once, sound ones and others, and the codec alone."""
    rng = np.random.default_rng(1)
    tile = rng.integers(0, 100, (4, 6)).astype(dtype)
    tiles = Tiles(write_compressed(tmp_path / "i.fits", np.tile(tile, (3, 2)), codec, (4, 6)))
    raw = zlib.decompress(bytes(codec.encode(tile)), 31)
    good = member(raw)
    context = fc.DecodeContext(row=2, shape=(4, 6), dtype=dtype)
    for name, stream in corpus(raw, rng):
        streams = [good, good, stream, good, good, stream]
        found = each_engine(monkeypatch, lambda s=streams: tiles.decode(s))
        alone = each_engine(
            monkeypatch, lambda s=stream: codec.decode(s, context=context).tobytes()
        )
        assert (found[0] == "DecodeError") == (alone[0] == "DecodeError"), name
        if name == "one member":
            assert found == (tiles.pixels.tobytes(), [len(s) for s in streams])
            assert alone == tile.tobytes()


@CODECS
@pytest.mark.parametrize("items", ["u1", ">i2", ">i4", ">i8"])
def test_quantized_tiles(codec, items, monkeypatch, tmp_path):
    """Integers of the size that writers use, and of others."""
    rng = np.random.default_rng(2)
    pixels = rng.normal(0, 10, (12, 12)).astype("f4")
    quantize = fc.Quantize(level=-0.5, method="SUBTRACTIVE_DITHER_1", seed=3)
    tiles = Tiles(write_compressed(tmp_path / "i.fits", pixels, codec, (4, 6), quantize=quantize))
    integers = rng.integers(0, 100, (4, 6)).astype(items)
    raw = integers.tobytes()
    if codec.zcmptype == ("GZIP_2",):
        raw = np.ascontiguousarray(integers.view("u1").reshape(24, -1).T).tobytes()
    own = bytes(tiles.streams[0])
    for _, stream in corpus(raw, rng):
        each_engine(monkeypatch, lambda s=stream: tiles.decode([own, s, own, own, s, own]))
    sound = each_engine(monkeypatch, lambda: tiles.decode([own, member(raw)] * 3))
    assert sound[1] == [len(own), len(member(raw))] * 3


def test_fallback_column(engine):
    """Tiles that could not be quantized, beside those that could."""
    pixels = np.random.default_rng(4).normal(0, 1, (20, 30)).astype("f4")
    pixels[5] = 7  # no noise
    pixels[6, 3] = np.inf
    raw = fc.encode_image(pixels, quantize=fc.Quantize(), compression="GZIP_2", tile_shape=(1, 30))
    with fc.open(plain_hdu(np.zeros((2, 2), "i2"), primary=True) + raw) as image:
        columns = image.table.column
        assert np.flatnonzero(columns == "GZIP_COMPRESSED_DATA").tolist() == [5, 6]
        assert np.array_equal(image[5:7], pixels[5:7])
        assert np.allclose(image[:5], pixels[:5], atol=0.3)


@pytest.mark.parametrize("compression", ["GZIP_1", "GZIP_2", "NOCOMPRESS"])
@pytest.mark.parametrize("dtype", ["u1", "i2", ">i2", "u2", "i4", "u4", "i8", "u8", "f4", ">f8"])
def test_many_tiles_are_as_single_ones(compression, dtype, engine):
    """Streams of native calls equal those of the codec, and come back."""
    pixels = np.random.default_rng(5).integers(0, 100, (50, 70)).astype(dtype)
    many = fc.encode_image(pixels, compression=compression, tile_shape=(16, 32))
    with fc.tile_options(lambda context: {}):
        single = fc.encode_image(pixels, compression=compression, tile_shape=(16, 32))
    assert many == single
    with fc.open(plain_hdu(np.zeros((2, 2), "i2"), primary=True) + many) as image:
        assert np.array_equal(image[...], pixels)
        assert np.array_equal(image[40:3:-3, 60:10:-7], pixels[40:3:-3, 60:10:-7])


def test_no_time_in_header(engine):
    stream = bytes(fc.Gzip1().encode(np.arange(100)))
    assert stream[4:8] == bytes(4)
    assert stream == bytes(fc.Gzip1().encode(np.arange(100)))


def test_memory_is_not_taken_on_the_word_of_a_length(engine):
    """The last bytes, which would be a length, are text."""
    raw = b"x" * 100
    assert deflate.inflate(member(raw) + b"\xff" * 8, None, "here") == (raw, len(member(raw)))


@pytest.mark.parametrize("wanted", ["", "python", "libdeflate", "LibDeflate ", "zlib"])
def test_choice(wanted):
    """FITSCODECS_DEFLATE, read at import."""
    env = {**os.environ, "FITSCODECS_DEFLATE": wanted}
    code = "import fitscodecs; print(fitscodecs.deflate_engine())"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if wanted == "zlib":
        assert "FITSCODECS_DEFLATE is 'zlib', wanted libdeflate or python" in done.stderr
    elif "lib" in wanted.lower() and not _native.HAS_GZIP:
        assert "which this build has not" in done.stderr
    else:
        engines = ENGINES if wanted != "python" else [e for e in ENGINES if e != "libdeflate"]
        best = max(engines, key=["zlib", "isal", "libdeflate"].index)
        assert done.stdout.strip() == best, done.stderr
