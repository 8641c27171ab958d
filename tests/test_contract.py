# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What is promised of every codec. No codec is known by name here."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fitscodecs as fc
from tests.conftest import same_bits
from tests.making import sample

SHAPE = (6, 11)
ROUND_TRIPS = 10_000
THREADS = 8


def instances():
    """Codecs with a context to use them in and pixels that they keep exactly."""
    for cls in fc.CODECS:
        yield cls(), sample("int32", SHAPE)
        if "tile_shape" in {f.name for f in fields(cls)}:
            yield cls(tile_shape=(SHAPE[0] * SHAPE[1],)), sample("int32", SHAPE)
        for name, values in SETTINGS.items():
            if name in {f.name for f in fields(cls)}:
                for value, dtype in values:
                    yield cls(**{name: value}), sample(dtype, SHAPE)
    yield fc.Quantize(scale=0.25, zero=3.0), np.round(sample("float32", SHAPE))
    yield fc.Quantize(scale=0.25, zero=3.0, dtype="float64"), np.round(sample("float64", SHAPE))
    for dtype in ("uint8", "int8", "uint16", "int32", "int64", "float32", "float64"):
        yield fc.FitsTile(), sample(dtype, SHAPE)
    yield fc.FitsTile(quantize=fc.Quantize(level=-1)), np.round(sample("float32", SHAPE))


# Settings worth trying, by name: value, and the type of pixels that go with it.
SETTINGS = {
    "bytepix": [(1, "uint8"), (2, "int16")],
    "blocksize": [(1, "int32"), (16, "int32"), (1000, "int32")],
    "smooth": [(1, "int32")],
    "itemsize": [(4, "float32"), (8, "float64")],
}
CASES = [pytest.param(c, p, id=f"{i}-{c.codec_id}-{p.dtype}") for i, (c, p) in
         enumerate(instances())]  # fmt: skip
CODECS = [pytest.param(c, id=f"{i}-{c.codec_id}") for i, (c, _) in enumerate(instances())]


def context_of(pixels):
    return fc.DecodeContext(row=7, shape=pixels.shape, dtype=pixels.dtype)


def as_numbers(decoded):
    return np.asarray(decoded)


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_round_trip(codec, pixels):
    stream = codec.encode(pixels, context=context_of(pixels))
    assert isinstance(stream, memoryview)
    assert (stream.format, stream.ndim) in (("B", 1), ("i", 2))
    decoded = codec.decode(stream, context=context_of(pixels))
    assert isinstance(decoded, memoryview)
    assert decoded.shape == SHAPE
    array = as_numbers(decoded)
    assert array.dtype.isnative
    assert np.array_equal(array, pixels)


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_any_buffer_in(codec, pixels):
    before = pixels.copy()
    wide = np.zeros((SHAPE[0], 2 * SHAPE[1]), pixels.dtype)
    wide[:, ::2] = pixels
    frozen = pixels.copy()
    frozen.flags.writeable = False
    stream = bytes(codec.encode(pixels, context=context_of(pixels)))
    for same in (
        pixels.astype(pixels.dtype.newbyteorder(">")),
        memoryview(pixels),
        wide[:, ::2],
        np.asfortranarray(pixels),
        frozen,
    ):
        assert bytes(codec.encode(same, context=context_of(pixels))) == stream
    assert same_bits(pixels, before)
    want = as_numbers(codec.decode(stream, context=context_of(pixels)))
    spread = np.zeros(2 * len(stream), np.uint8)
    spread[::2] = np.frombuffer(stream, np.uint8)
    for same in (bytearray(stream), memoryview(stream), np.frombuffer(stream, "u1"), spread[::2]):
        copy = bytes(same)
        assert same_bits(codec.decode(same, context=context_of(pixels)), want)
        assert bytes(same) == copy


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_out(codec, pixels):
    stream = codec.encode(pixels, context=context_of(pixels))
    want = as_numbers(codec.decode(stream, context=context_of(pixels)))
    for out in (np.empty_like(want), bytearray(want.nbytes), np.empty(want.nbytes, np.int8)):
        got = codec.decode(stream, out, context=context_of(pixels))
        assert isinstance(got, memoryview)
        assert same_bits(got, want)
        assert bytes(memoryview(out).cast("B")) == want.tobytes()
        if isinstance(out, np.ndarray):
            assert np.shares_memory(as_numbers(got), out)
    other = np.empty(want.shape, want.dtype.newbyteorder("S"))
    codec.decode(stream, other, context=context_of(pixels))
    assert np.array_equal(other, want)
    unaligned = memoryview(bytearray(want.nbytes + 1))[1:]
    assert same_bits(codec.decode(stream, out=unaligned, context=context_of(pixels)), want)
    assert bytes(unaligned) == want.tobytes()


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_out_that_does_not_fit(codec, pixels):
    stream = codec.encode(pixels, context=context_of(pixels))
    nbytes = codec.decode(stream, context=context_of(pixels)).nbytes
    for out in (bytearray(nbytes - 1), bytearray(nbytes + 8), bytes(nbytes),
                memoryview(bytearray(2 * nbytes))[::2]):  # fmt: skip
        with pytest.raises(fc.DecodeError, match="out "):
            codec.decode(stream, out, context=context_of(pixels))


@pytest.mark.parametrize("codec", CODECS)
def test_configuration(codec):
    config = json.loads(json.dumps(codec.get_config()))
    assert config["id"] == codec.codec_id
    again = type(codec).from_config(config)
    assert again == codec
    assert hash(again) == hash(codec)
    assert again.get_config() == codec.get_config()
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert eval(repr(codec), vars(fc)) == codec
    name = fields(codec)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(codec, name, getattr(codec, name))
    with pytest.raises(TypeError):
        type(codec)(getattr(codec, name))
    assert codec != object()


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_context_of_a_block(codec, pixels):
    context = context_of(pixels)
    want = bytes(codec.encode(pixels, context=context_of(pixels)))
    with context:
        stream = codec.encode(pixels.ravel())
        assert bytes(stream) == want
        with context_of(pixels):
            assert codec.decode(stream).shape == SHAPE
        assert codec.decode(stream).shape == SHAPE


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_wrong_number_of_pixels(codec, pixels):
    short = fc.DecodeContext(row=7, shape=(SHAPE[0], SHAPE[1] - 1), dtype=pixels.dtype)
    with pytest.raises(fc.EncodeError, match=r"66 pixels, wanted 60"):
        codec.encode(pixels, context=short)


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_truncated_stream(codec, pixels):
    stream = bytes(codec.encode(pixels, context=context_of(pixels)))
    cuts = range(len(stream)) if len(stream) < 400 else range(0, len(stream), 7)
    for cut in cuts:
        if len(stream) == pixels.nbytes and cut in (pixels.size, 2 * pixels.size, 4 * pixels.size):
            continue  # plain pixels of a smaller type
        with pytest.raises(fc.DecodeError) as caught:
            codec.decode(stream[:cut], context=context_of(pixels))
        assert "tile 7" in str(caught.value) or "FitsTile" in str(caught.value)


@pytest.mark.parametrize("cls", fc.CODECS)
def test_unknown_number_of_pixels(cls):
    codec = cls()
    stream = bytes(codec.encode(sample("int32", SHAPE)))
    try:
        decoded = codec.decode(stream)
    except fc.DecodeError as error:
        assert "tile_shape" in str(error)
    else:  # the stream tells its shape, or its bytes are what is asked for
        assert decoded.shape in (SHAPE, (4 * SHAPE[0] * SHAPE[1],))
        assert (decoded.format == "B") == (decoded.ndim == 1)


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_surplus_bytes(codec, pixels):
    stream = bytes(codec.encode(pixels, context=context_of(pixels)))
    exact = codec.codec_id in ("fits_nocompress", "fits_quantize", "fits_tile")
    if exact:
        return  # their length is the number of pixels, or is told by the frame
    want = codec.decode(stream, context=context_of(pixels))
    assert same_bits(codec.decode(stream + b"\0\0\0", context=context_of(pixels)), want)


@pytest.mark.parametrize(("codec", "pixels"), CASES)
def test_threads(codec, pixels):
    """One codec object, many threads, each with pixels of its own."""
    inputs = [np.roll(pixels, k, axis=1) for k in range(THREADS)]
    streams = [bytes(codec.encode(p, context=context_of(p))) for p in inputs]

    def work(k):
        wrong = 0
        for _ in range(ROUND_TRIPS // THREADS):
            stream = codec.encode(inputs[k], context=context_of(pixels))
            decoded = codec.decode(stream, context=context_of(pixels))
            wrong += bytes(stream) != streams[k] or not np.array_equal(decoded, inputs[k])
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(work, range(THREADS))) == 0


shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=40)


@pytest.mark.parametrize("cls", fc.CODECS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_integers(cls, data):
    """Every codec keeps every integer that it says it can hold, or refuses to encode it."""
    codec = cls()
    dtype = data.draw(st.sampled_from(["u1", "i1", ">i2", "<u2", ">i4", "<i8"]))
    pixels = data.draw(hnp.arrays(dtype, shapes))
    context = fc.DecodeContext(shape=pixels.shape, dtype=pixels.dtype)
    try:
        stream = codec.encode(pixels, context=context)
    except fc.EncodeError:
        two_axes = sum(n > 1 for n in pixels.shape) <= 2
        fits = np.can_cast(pixels.dtype, codec.stored_dtype(context))
        assert not (fits and two_axes and pixels.min() >= 0 and pixels.max() < 2**24)
        return
    assert np.array_equal(codec.decode(stream, context=context), pixels)


@settings(deadline=None, max_examples=150)
@given(
    pixels=hnp.arrays(
        st.sampled_from(["u1", "i1", ">i2", "<u2", ">i4", "<u4", "<i8", ">u8", "<f4", ">f8"]),
        shapes,
    ),
    compression=st.sampled_from([None, fc.Gzip1(), fc.Gzip2(), fc.NoCompress()]),
)
def test_any_frame(pixels, compression):
    """A frame keeps every bit of every type."""
    codec = fc.FitsTile(compression=compression)
    decoded = np.asarray(codec.decode(codec.encode(pixels)))
    assert decoded.dtype == pixels.dtype
    assert decoded.tobytes() == pixels.tobytes()


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("byteorder", "<>")
@pytest.mark.parametrize("dtype", ["i2", "f4", "u8"])
def test_frame_keeps_memory(dtype, byteorder, order):
    """Who knows an array by its bytes, as zarr v2 does, gets the bytes that were encoded."""
    given = sample(dtype, SHAPE).astype(byteorder + dtype, order=order)
    decoded = np.asarray(fc.FitsTile().decode(fc.FitsTile().encode(given)))
    assert np.array_equal(decoded, given)
    assert decoded.dtype == given.dtype
    assert decoded.tobytes("A") == given.tobytes("A")
