# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Contexts, quantization, frames and options of single tiles."""

import contextlib
import json
import pickle
import threading

import numpy as np
import pytest
import ref_quantize
from hypothesis import given, settings
from hypothesis import strategies as st

import fitscodecs as fc
from tests.conftest import same_bits
from tests.making import sample

METHODS = ["NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"]


# ---------------------------------------------------------------------------- contexts


def test_context_as_json():
    context = fc.DecodeContext(row=7, shape=(1, 4), dtype=">f4", scale=0.1, zero=-3.5, blank=-1)
    again = fc.DecodeContext.from_dict(json.loads(json.dumps(context.to_dict())))
    assert again == context
    assert again.to_dict()["dtype"] == "float32"
    assert pickle.loads(pickle.dumps(context)) == context
    assert fc.DecodeContext.from_dict(fc.DecodeContext().to_dict()) == fc.DecodeContext()


def test_stored_dtype():
    context = fc.DecodeContext(dtype="float64")
    assert (context.quantized, context.stored_dtype) == (False, np.float64)
    context.scale = 2.0
    assert (context.quantized, context.stored_dtype) == (True, np.int32)
    context.column = "GZIP_COMPRESSED_DATA"
    assert (context.quantized, context.stored_dtype) == (False, np.float64)
    assert fc.DecodeContext(shape=(3, 4)).npixels == 12
    assert fc.DecodeContext().npixels is None


def test_context_keeps_plain_numbers():
    context = fc.DecodeContext(scale=np.float32(1), blank=np.int32(3), row=np.int64(2))
    context.dtype = "float32"
    context.shape = [np.int64(2), 3]
    assert json.loads(json.dumps(context.to_dict()))["blank"] == 3
    stream = fc.Gzip1().encode(np.zeros(6, "f4"))
    context.scale = None
    assert fc.Gzip1().decode(stream, context=context).format == "f"


def test_configuration_keeps_plain_numbers():
    for codec in (fc.Rice1(bytepix=np.int64(2), blocksize=32.0), fc.Quantize(level=np.float32(4)),
                  fc.Quantize(scale=np.float32(1), zero=0), fc.HCompress1(scale=np.int8(3)),
                  fc.Gzip2(itemsize=np.int16(2))):  # fmt: skip
        assert type(codec).from_config(json.loads(json.dumps(codec.get_config()))) == codec
    for bad in ({"blocksize": 16.5}, {"blocksize": "16"}, {"bytepix": 3}, {"tile_shape": (0,)}):
        with pytest.raises(ValueError, match="wanted"):
            fc.Rice1(**bad)


def test_misaligned_pixels():
    memory = bytearray(1000)
    for dtype in ("i2", "i4", "f4", "f8"):
        pixels = np.ndarray((8, 8), dtype, memory, offset=1)
        pixels[...] = sample(dtype, (8, 8))
        codec = fc.FitsTile(quantize=fc.Quantize(level=-1e-9))
        assert np.allclose(codec.decode(codec.encode(pixels)), pixels, atol=1e-6)
        if pixels.dtype.kind == "i":
            codec = fc.Rice1(tile_shape=(8, 8))
            assert np.array_equal(codec.decode(codec.encode(pixels)), pixels)


@pytest.mark.parametrize("bad", [{"row": -1}, {"shape": (0, 3)}, {"shape": (-1,)}, {"dtype": "x"}])
def test_bad_context(bad):
    with pytest.raises((ValueError, TypeError)):
        fc.DecodeContext(**bad)


def test_context_of_another_thread_is_not_seen():
    codec = fc.Rice1()
    stream = codec.encode(np.arange(4))
    seen = []

    def work():
        try:
            codec.decode(stream)
        except fc.DecodeError as error:
            seen.append(str(error))

    with fc.DecodeContext(shape=(4,)):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert codec.decode(stream).tolist() == [0, 1, 2, 3]
    assert "not known" in seen[0]


# ---------------------------------------------------------------------------- types


def test_narrowing():
    codec = fc.Rice1(bytepix=2)
    assert codec.encode(np.array([1, -5], "i8")) == codec.encode(np.array([1, -5], "i2"))
    for values, dtype in (([40000], "u2"), ([-40000], "i4"), ([2**63], "u8")):
        with pytest.raises(fc.EncodeError, match="wanted -32768 to 32767"):
            codec.encode(np.array(values, dtype))
    with pytest.raises(fc.EncodeError, match="wanted 0 to 255"):
        fc.Rice1(bytepix=1).encode(np.array([-1], "i1"))
    for bad in (np.zeros(3, "f4"), np.zeros(3, "c8"), np.array(["a"])):
        with pytest.raises(fc.EncodeError, match="wanted integers"):
            codec.encode(bad)
    with pytest.raises(fc.EncodeError):
        codec.encode(np.zeros(0, "i2"))


@pytest.mark.parametrize("value", [-1, 2**24, 2**31 - 1])
def test_plio_range(value):
    with pytest.raises(fc.EncodeError, match=r"PLIO_1 tile 3: pixel value .* wanted 0 to 16777215"):
        fc.Plio1().encode(np.array([0, value]), context=fc.DecodeContext(row=3))


@pytest.mark.parametrize("gap", [4094, 4095, 4096, 8190, 12285])
@pytest.mark.parametrize("count", [1, 2, 4096])
def test_plio_gaps(gap, count):
    """A lone pixel after a multiple of 4095 zeros, which other encoders lose."""
    pixels = np.zeros(gap + count + 5, "i4")
    pixels[gap : gap + count] = 9
    codec = fc.Plio1(tile_shape=pixels.shape)
    assert same_bits(codec.decode(codec.encode(pixels)), pixels)


def test_plio_worst_case():
    """Three words for every pixel, which overflows the buffers of other encoders."""
    pixels = np.tile([2**24 - 1, 1], 5000).astype("i4")
    codec = fc.Plio1(tile_shape=pixels.shape)
    stream = codec.encode(pixels)
    assert stream.nbytes == 2 * (3 * pixels.size + 7)
    assert same_bits(codec.decode(stream), pixels)


def test_plio_old_head():
    words = [0, 0, 5, 0x4003, 0x0002]
    stream = np.array(words, ">i2").tobytes()
    assert fc.Plio1(tile_shape=(6,)).decode(stream).tolist() == [1, 1, 1, 0, 0, 0]


def test_hcompress_shape():
    codec = fc.HCompress1()
    stream = codec.encode(np.arange(60).reshape(6, 10))
    assert codec.decode(stream).shape == (6, 10)
    with pytest.raises(fc.DecodeError, match=r"tile 2: .*rows|tile 2: .*columns"):
        codec.decode(stream, context=fc.DecodeContext(row=2, shape=(10, 6)))
    with pytest.raises(fc.EncodeError, match="at most two axes"):
        codec.encode(np.zeros((2, 3, 4), "i4"))
    huge = bytearray(stream)
    huge[2:10] = b"\x7f\xff\xff\xff" * 2
    with pytest.raises(fc.DecodeError):
        codec.decode(huge)


@pytest.mark.parametrize(
    "shape", [(29, 40), (30, 40), (31, 40), (100, 7), (1003, 5), (3, 50, 9), (8,)]
)
def test_hcompress_default_tiles(shape):
    tile = fc.HCompress1().default_tile_shape(shape)
    assert len(tile) == len(shape)
    assert tile[-1] == shape[-1]
    if len(shape) > 1:
        rest = shape[-2] % tile[-2]
        assert rest == 0 or rest >= 4 or tile[-2] == 17
        assert tile[-2] == shape[-2] or 14 <= tile[-2] <= 30
    assert fc.Rice1().default_tile_shape(shape) == (1,) * (len(shape) - 1) + shape[-1:]


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_gzip_item_size_comes_from_the_length(itemsize):
    """4-byte items in a 16-bit image, 2-byte items in a quantized tile: all are read."""
    pixels = np.array([[1, 2, 3], [100, 5, 6]], "u1" if itemsize == 1 else f"i{itemsize}")
    for codec in (fc.Gzip1(), fc.Gzip2(), fc.NoCompress()):
        stream = codec.encode(pixels)
        for dtype in ("uint8", "int16", "int32", "int64"):
            context = fc.DecodeContext(shape=pixels.shape, dtype=dtype)
            assert same_bits(codec.decode(stream, context=context), pixels.astype(dtype))
        context = fc.DecodeContext(shape=pixels.shape, dtype="float32", scale=1.0, zero=0.0)
        assert same_bits(codec.decode(stream, context=context), pixels.astype("i4"))
    with pytest.raises(fc.DecodeError, match="wanted 0 to 255"):
        big = fc.Gzip1().encode(np.array([300], "i4"))
        fc.Gzip1().decode(big, context=fc.DecodeContext(shape=(1,), dtype="uint8"))


def test_gzip_members():
    context = fc.DecodeContext(row=1, shape=(4,), dtype="int16")
    halves = [bytes(fc.Gzip1().encode(np.array(v, "i2"))) for v in ([1, 2], [3, 4])]
    assert fc.Gzip1().decode(b"".join(halves), context=context).tolist() == [1, 2, 3, 4]
    assert fc.Gzip1().decode(b"".join(halves) + b"\0junk", context=context).tolist() == [1, 2, 3, 4]
    with pytest.raises(fc.DecodeError, match="4 bytes for 3 pixels"):
        fc.Gzip1().decode(halves[0], context=fc.DecodeContext(shape=(3,), dtype="int16"))
    broken = bytearray(halves[0])
    broken[-8] ^= 1
    with pytest.raises(fc.DecodeError, match="GZIP_1 tile 1: not a valid gzip member"):
        fc.Gzip1().decode(broken, context=context)
    assert fc.Gzip1().encode(np.arange(9)) == fc.Gzip1().encode(np.arange(9))
    assert bytes(fc.Gzip1().encode(np.arange(9)))[4:8] == bytes(4)  # no time


def test_gzip_without_context():
    pixels = np.array([1, 256], "i4")
    big_endian = pixels.astype(">i4").tobytes()
    for codec in (fc.Gzip1(), fc.Gzip2(itemsize=4), fc.Gzip2(tile_shape=(2,)), fc.NoCompress()):
        assert bytes(codec.decode(codec.encode(pixels))) == big_endian
    assert fc.Gzip2(itemsize=4).encode(big_endian) == fc.Gzip2().encode(pixels)
    with pytest.raises(fc.DecodeError, match="itemsize"):
        fc.Gzip2().decode(fc.Gzip2().encode(pixels))
    with pytest.raises(fc.EncodeError, match="wanted items of 4"):
        fc.Gzip2(itemsize=4).encode(pixels.astype("i2"))


# ---------------------------------------------------------------------------- quantize


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(2,), (9,), (1, 40), (5, 30), (40, 8), (3, 4, 20)]),
    dtype=st.sampled_from(["f4", "f8"]),
    level=st.sampled_from([4.0, 16.0, 0.5, -0.1, -2.0]),
    method=st.sampled_from(METHODS),
    kind=st.sampled_from(["noise", "counts", "constant", "spikes"]),
    nans=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_quantize_as_the_oracle(seed, shape, dtype, level, method, kind, nans):
    rng = np.random.default_rng(seed)
    values = {
        "noise": lambda: rng.normal(100, 5, shape),
        "counts": lambda: rng.poisson(3, shape),
        "constant": lambda: np.full(shape, 7.5),
        "spikes": lambda: np.where(rng.random(shape) < 0.1, 1e6, 0),
    }[kind]()
    tile = np.asarray(values, dtype)
    tile[rng.random(shape) < nans] = np.nan
    marked = np.where(np.isnan(tile), -999, tile).astype(dtype)
    row, dither = int(rng.integers(0, 30000)), int(rng.integers(1, 10001))
    want = ref_quantize.quantize(marked, shape[-1], tile.size // shape[-1], level, method, row,
                                 dither, -999)  # fmt: skip
    codec = fc.Quantize(level=level, method=method, seed=dither)
    context = fc.DecodeContext(row=row)
    if want is None:
        with pytest.raises(fc.NotQuantizable, match=f"tile {row}: "):
            codec.encode(tile, context=context)
        return
    got = codec.encode(tile, context=context)
    assert got.format == "i"
    assert got.shape == shape == context.shape
    assert np.asarray(got).ravel().tolist() == want[0].tolist()
    assert [context.scale, context.zero, context.blank] == [*want[1:], ref_quantize.NULL]
    back = codec.decode(got, context=context)
    want_back = ref_quantize.dequantize(want[0], *want[1:], dtype, row, dither, method,
                                        ref_quantize.NULL)  # fmt: skip
    assert same_bits(np.asarray(back).ravel(), want_back)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("level", [4, -1])
def test_infinity_is_not_quantized(value, level):
    tile = sample("f4", (1, 50))
    tile[0, 7] = value
    with pytest.raises(fc.NotQuantizable, match="infinity"):
        fc.Quantize(level=level).encode(tile, context=fc.DecodeContext())


def test_far_from_zero_is_not_quantized():
    """More than 64 bits of steps from 0: refused, because the integers would mean nothing."""
    tile = np.full((1, 20), 1e20, "f4")
    with pytest.raises(fc.NotQuantizable):
        fc.Quantize(level=-1).encode(tile, context=fc.DecodeContext())


def test_pinned_scale():
    codec = fc.Quantize(scale=0.5, zero=10.0)
    tile = np.array([[10, 10.5, np.nan, 1e30, -1e30]], "f4")
    integers = codec.encode(tile)
    assert integers.tolist() == [[0, 1, -2147483647, 2147483647, -2147483637]]
    back = np.asarray(codec.decode(integers))
    assert back[0, :2].tolist() == [10, 10.5]
    assert np.isnan(back[0, 2])
    context = fc.DecodeContext(row=3)
    codec.encode(tile, context=context)
    assert (context.scale, context.zero) == (0.5, 10.0)


def test_pinned_scale_keeps_nan_with_any_context():
    codec = fc.Quantize(scale=0.1, zero=0.0, method="SUBTRACTIVE_DITHER_1")
    tile = np.array([[1, np.nan, 3, 4]], "f4")
    integers = codec.encode(tile, context=fc.DecodeContext(row=3))
    for context in (fc.DecodeContext(row=3), fc.DecodeContext(row=3, shape=(1, 4))):
        back = np.asarray(codec.decode(integers, context=context))
        assert np.isnan(back).tolist() == [[False, True, False, False]]
        assert abs(back - tile)[0, ::2].max() < 0.06


def test_quantize_needs_a_place_for_scale():
    with pytest.raises(fc.EncodeError, match="context"):
        fc.Quantize().encode(sample("f4", (1, 50)))
    with pytest.raises(fc.DecodeError, match="neither in the context nor fixed"):
        fc.Quantize().decode(np.zeros(4, "i4"))


@pytest.mark.parametrize("bad", [{"level": 0}, {"level": float("nan")}, {"method": "DITHER"},
                                 {"seed": 0}, {"seed": 10001}, {"scale": 1.0}, {"zero": 1.0},
                                 {"scale": 0.0, "zero": 0.0}, {"dtype": "int16"},
                                 {"level": float("inf")}, {"scale": 1.0, "zero": float("nan")},
                                 {"seed": 1.5}])  # fmt: skip
def test_bad_quantize(bad):
    with pytest.raises(ValueError, match=r"wanted|together"):
        fc.Quantize(**bad)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", ">u2", ">i4", "u4", "i8", "u8"])
def test_quantize_decodes_any_integers(dtype):
    context = fc.DecodeContext(scale=0.5, zero=1.0, dtype="float64")
    integers = np.array([0, 1, 100, 7], "i4")
    given = integers if dtype == "u1" else integers.astype(dtype)
    raw = given.tobytes() if dtype == "u1" else given
    assert fc.Quantize().decode(raw, context=context).tolist() == [1.0, 1.5, 51.0, 4.5]


# ---------------------------------------------------------------------------- frames


def test_frame_keeps_what_cannot_be_quantized():
    codec = fc.FitsTile(quantize=fc.Quantize(level=4))
    for tile in (np.full((3, 4), np.pi), np.array([[np.inf, 1.0] * 20])):
        assert same_bits(codec.decode(codec.encode(tile)), tile)
    noise = sample("f8", (4, 100))
    assert not np.array_equal(codec.decode(codec.encode(noise)), noise)


def test_frame_row_selects_dither():
    codec = fc.FitsTile(quantize=fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=5))
    tile = sample("f4", (1, 200))
    for row in (0, 9, 20000):
        context = fc.DecodeContext(row=row)
        decoded = codec.decode(codec.encode(tile, context=context))
        plain = fc.DecodeContext(row=row)
        want = codec.quantize.decode(codec.quantize.encode(tile, context=plain), context=plain)
        assert same_bits(decoded, want)
        assert context == fc.DecodeContext(row=row)


def test_frame_integers_are_never_changed():
    with pytest.raises(fc.EncodeError, match="RICE_1 cannot hold int64"):
        fc.FitsTile(compression=fc.Rice1()).encode(np.array([2**40]))
    with pytest.raises(fc.EncodeError, match="PLIO_1: pixel value"):
        fc.FitsTile(compression=fc.Plio1()).encode(np.array([-3], "i2"))
    floats = sample("f4", (3, 5))
    codec = fc.FitsTile(compression=fc.Rice1())
    assert same_bits(codec.decode(codec.encode(floats)), floats)  # lossless in the fallback


def test_frame_damage():
    codec = fc.FitsTile(quantize=fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_2"))
    frame = bytes(codec.encode(sample("f4", (5, 60))))
    rng = np.random.default_rng(3)
    for _ in range(2000):
        changed = bytearray(frame)
        for _ in range(rng.integers(1, 5)):
            changed[rng.integers(0, len(frame))] = rng.integers(0, 256)
        with contextlib.suppress(fc.DecodeError):
            codec.decode(changed)
    for head in (b"", b"FTIL", b"FTIL\x02" + frame[5:], b"XTIL" + frame[4:], frame[:9]):
        with pytest.raises(fc.DecodeError, match="FitsTile"):
            codec.decode(head)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4"])
def test_frame_of_a_codec_of_unsigned_integers(dtype):
    """PLIO_1 holds unsigned pixels as they are."""
    pixels = np.array([[0, 1, 49, 255], [7, 7, 0, 0]], dtype)
    if pixels.itemsize > 1:
        pixels[0, 3] = 65535
    codec = fc.FitsTile(compression=fc.Plio1())
    assert same_bits(codec.decode(codec.encode(pixels)), pixels)


@pytest.mark.parametrize("pixels", [np.ones((4, 4), "f2"), np.empty(0, "i4"), np.ones(3, "c8"),
                                    np.ones(3, bool), np.array(["a"])])  # fmt: skip
def test_frame_of_what_fits_does_not_hold(pixels):
    with pytest.raises(fc.EncodeError, match="wanted a type of FITS"):
        fc.FitsTile().encode(pixels)


@pytest.mark.parametrize(
    ("key", "value"),
    [("row", 1e400), ("row", 10**40), ("row", "x"), ("shape", [1e400]), ("shape", 3),
     ("scale", "x"), ("zero", "x"), ("zero", None), ("blank", "x"), ("blank", float("nan")),
     ("blank", 1e400), ("dtype", "float16"), ("dtype", "longdouble"), ("dtype", "int32"),
     ("dtype", []), ("column", 3), ("seed", 1e400), ("tile_shape", [1e400]), ("level", "x")],
)  # fmt: skip
def test_frame_with_a_bad_description(key, value):
    codec = fc.FitsTile(compression=fc.Rice1(), quantize=fc.Quantize(level=-1))
    frame = bytes(codec.encode(np.array([[1.0, 2.0, 3.0]])))
    start = 8 + int.from_bytes(frame[5:8], "big")
    description = json.loads(frame[8:start])
    part = {"seed": "quantize", "level": "quantize", "tile_shape": "compression"}
    description[part.get(key, "context")][key] = value
    text = json.dumps(description).encode()
    changed = frame[:5] + len(text).to_bytes(3, "big") + text + frame[start:]
    if key == "column":
        codec.decode(changed)  # any other name than the fallbacks is the first column
        return
    with pytest.raises(fc.DecodeError):
        codec.decode(changed)
    nested = b"[" * 100_000
    with pytest.raises(fc.DecodeError, match="description"):
        codec.decode(frame[:5] + len(nested).to_bytes(3, "big") + nested)


def test_frame_of_another_shape():
    codec = fc.FitsTile()
    frame = codec.encode(np.zeros((2, 3)))
    with pytest.raises(fc.DecodeError, match=r"shape \(2, 3\), wanted \(3, 2\)"):
        codec.decode(frame, context=fc.DecodeContext(shape=(3, 2)))


# ---------------------------------------------------------------------------- options


def test_tile_options():
    codec = fc.FitsTile(compression=fc.HCompress1(), quantize=fc.Quantize(level=4))
    tile = sample("f4", (16, 40))
    seen = []

    def finer(context):
        seen.append((context.row, context.shape, context.dtype))
        return {"level": 64.0, "scale": 2} if context.row == 1 else None

    plain = [bytes(codec.encode(tile, context=fc.DecodeContext(row=row))) for row in (0, 1)]
    with fc.tile_options(finer):
        chosen = [bytes(codec.encode(tile, context=fc.DecodeContext(row=row))) for row in (0, 1)]
    assert chosen[0] == plain[0]
    assert chosen[1] != plain[1]
    assert seen == [(0, (16, 40), np.float32), (1, (16, 40), np.float32)]
    with fc.tile_options(lambda context: {"level": 64.0}):
        fine = codec.encode(tile)
    error = [abs(np.asarray(codec.decode(f)) - tile).max() for f in (plain[0], fine)]
    assert error[1] < error[0] / 8
    with fc.tile_options(lambda context: {"seed": 3}), pytest.raises(fc.EncodeError, match="seed"):
        codec.encode(tile)
    with pytest.raises(TypeError):
        fc.tile_options(3)
