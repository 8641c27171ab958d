# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Arrays that zarr writes: every chunk is an image HDU that any FITS reader can read."""

import io
import json

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import sample

zarr = pytest.importorskip("zarr", reason="the adapter needs zarr")

from zarr.codecs import GzipCodec, ShardingCodec  # noqa: E402
from zarr.storage import MemoryStore  # noqa: E402

from fitscodecs.adapters.zarr import FitsTiled  # noqa: E402
from fitscodecs.adapters.zarr import codecs as tile_codecs  # noqa: E402

PIPELINES = ["BatchedCodecPipeline"]
if hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
    PIPELINES.append("FusedCodecPipeline")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have a Zarr V3 specification",
    "ignore:Combining a `sharding_indexed` codec disables partial",
)


@pytest.fixture(params=PIPELINES)
def pipeline(request):
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{request.param}"}):
        yield request.param


def create(codec, shape, chunks, dtype, store=None, **settings):
    """An array of chunks that the codec makes, and its store."""
    store = MemoryStore() if store is None else store
    array = zarr.create_array(store, shape=shape, chunks=chunks, dtype=dtype, serializer=codec,
                              compressors=None, filters=None, **settings)  # fmt: skip
    return array, store


def chunk(store, key):
    return store._store_dict[key].to_bytes()


@pytest.mark.parametrize(
    "dtype",
    [
        "uint8",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
    ],
)
def test_every_type(pipeline, dtype):
    """Pixels come back as they are, also from chunks at the far edges."""
    array = sample(dtype, (70, 90))
    written, store = create(FitsTiled(), array.shape, (32, 40), dtype)
    written[...] = array
    assert same_bits(written[...], array)
    assert same_bits(written[5:60:7, 33:90], array[5:60:7, 33:90])
    again = zarr.open_array(store, mode="r")
    assert same_bits(again[...], array)
    assert same_bits(again[30:40, 38:45], array[30:40, 38:45])


@pytest.mark.parametrize(
    "encode, dtype",
    [
        ({"compression": "RICE_1"}, "int16"),
        ({"compression": "GZIP_2"}, "float64"),
        ({"compression": fc.HCompress1(scale=2)}, "int32"),
        ({"compression": {"id": "fits_plio_1"}}, "int16"),
        ({"compression": {"id": "fits_rice_1", "blocksize": 16, "bytepix": 2}}, "uint16"),
        ({"quantize": fc.Quantize(level=8, method="SUBTRACTIVE_DITHER_1")}, "float32"),
        ({"compression": "NOCOMPRESS"}, "uint8"),
    ],
)
def test_chunks_are_fits_files(pipeline, encode, dtype):
    """With a primary header in front, astropy reads them, and their checksums are right."""
    fits = pytest.importorskip("astropy.io.fits", reason="another reader of FITS files")
    array = sample(dtype, (40, 60))
    array = np.abs(array) if array.dtype.kind != "u" else array
    written, store = create(FitsTiled(tile_shape=(8, 60), encode=encode), (40, 60), (20, 60), dtype)
    written[...] = array
    for i in range(2):
        data = PRIMARY + chunk(store, f"c/{i}/0")
        image = fc.open(data)
        assert image.tile_shape == (8, 60)
        assert same_bits(image[...], written[20 * i : 20 * i + 20])
        with fits.open(io.BytesIO(data), checksum=True) as hdus:
            hdus.verify("exception")
            assert np.array_equal(hdus[1].data, image[...])


def test_configuration_survives():
    """What is in zarr.json is all that another process needs to write on."""
    quantize = fc.Quantize(level=8, method="SUBTRACTIVE_DITHER_1")
    codec = FitsTiled(tile_shape=(8, 60), encode={"compression": "RICE_1", "quantize": quantize})
    array = sample("f4", (40, 60))
    written, store = create(codec, (40, 60), (20, 60), "f4")
    metadata = json.loads(store._store_dict["zarr.json"].to_bytes())
    (item,) = metadata["codecs"]
    assert item["name"] == "fitscodecs.tiled"
    assert set(item["configuration"]) == {"layout", "tile_shape", "scaled", "encode"}
    assert FitsTiled.from_dict(item) == codec
    written[:20] = array[:20]
    zarr.open_array(store, mode="r+")[20:] = array[20:]
    image = fc.open(PRIMARY + chunk(store, "c/1/0"))
    assert (image.tile_shape, image.quantize.method) == ((8, 60), "SUBTRACTIVE_DITHER_1")
    again = FitsTiled.from_dict({"name": "fitscodecs.tiled"})
    assert again == FitsTiled()
    assert "encode" not in again.to_dict()["configuration"]


def test_parts_are_written(pipeline):
    """A part of a chunk is merged with what is there; what no one wrote is the fill value."""
    expected = np.full((40, 60), 7, "i2")
    written, store = create(FitsTiled(), (40, 60), (20, 30), "i2", fill_value=7)
    assert same_bits(written[...], expected)
    for key, value in [((slice(3, 9), slice(5, 40)), 100), ((5, slice(None)), -3), ((39, 59), 1)]:
        written[key] = expected[key] = value
        assert same_bits(written[...], expected)
        assert same_bits(written[2:8, 3:50], expected[2:8, 3:50])
    assert "c/1/0" not in store._store_dict


def test_written_chunk_is_read_as_it_is_now(pipeline):
    """No index of a chunk outlives it."""
    first, second = sample("i2", (40, 300)), sample("i2", (40, 300), 1) * 3
    written, store = create(FitsTiled(), (40, 300), (40, 300), "i2")
    reader = zarr.open_array(store, mode="r")
    for array in (first, second, first[::-1].copy()):
        written[...] = array
        assert same_bits(written[3:9, 5:8], array[3:9, 5:8])
        assert same_bits(zarr.open_array(store, mode="r")[3:9, 5:8], array[3:9, 5:8])
    assert reader[0, 0] == first[-1, 0]


def test_tiles_that_cannot_be_quantized(pipeline):
    """They are kept without loss in the fallback column; NaN stays NaN."""
    array = sample("f4", (40, 60))
    array[9, 5] = np.inf
    array[20, 3:9] = np.nan
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_2")
    written, store = create(FitsTiled(encode={"quantize": quantize}), (40, 60), (40, 60), "f4")
    written[...] = array
    columns = fc.open(PRIMARY + chunk(store, "c/0/0")).table.column
    assert columns[9] == "GZIP_COMPRESSED_DATA"
    assert (columns == "COMPRESSED_DATA").sum() >= 38
    assert same_bits(written[9], array[9])
    found = written[...]
    assert np.array_equal(np.isnan(found), np.isnan(array))
    finite = np.isfinite(array)
    assert abs(found[finite] - array[finite]).max() < 1
    assert same_bits(written[8:11, ::7], found[8:11, ::7])


def test_tile_options(pipeline):
    """Settings for each tile, chosen by a function that is nowhere in the metadata."""
    seen = []

    def finer_first(context):
        seen.append(context.row)
        return {"level": 256 if context.row == 0 else 2}

    quantize = fc.Quantize(level=8)
    array = sample("f4", (40, 60))
    codec = FitsTiled(encode={"quantize": quantize}, tile_options=finer_first)
    written, store = create(codec, (40, 60), (20, 60), "f4")
    written[...] = array
    assert sorted(seen) == sorted([*range(20), *range(20)])
    scale = fc.open(PRIMARY + chunk(store, "c/0/0")).table.scale
    assert scale[0] * 50 < scale[1:].min()
    assert b"tile_options" not in store._store_dict["zarr.json"].to_bytes()
    assert "tile_options" not in codec.to_dict()["configuration"]
    assert same_bits(zarr.open_array(store, mode="r")[...], written[...])


def test_leading_axes(pipeline):
    """Tiles may be given without the axes of length 1 in front."""
    array = sample("i2", (3, 40, 60))
    written, store = create(FitsTiled(tile_shape=(8, 60)), (3, 40, 60), (1, 40, 60), "i2")
    written[...] = array
    assert fc.open(PRIMARY + chunk(store, "c/2/0/0")).tile_shape == (1, 8, 60)
    assert same_bits(written[1:, 3:9, ::7], array[1:, 3:9, ::7])


def test_empty_chunks_and_order(pipeline):
    array = np.zeros((40, 60), "i2", order="F")
    array[25:, :] = np.arange(60)
    written, store = create(FitsTiled(), (40, 60), (20, 30), "i2")
    written[...] = array
    assert sorted(k for k in store._store_dict if k.startswith("c")) == ["c/1/0", "c/1/1"]
    assert same_bits(written[...], np.ascontiguousarray(array))


# ---------------------------------------------------------------------------- sharding, neighbours


@pytest.mark.parametrize(
    "codec",
    [
        FitsTiled(tile_shape=(4, 10)),
        tile_codecs.FitsTile(quantize=fc.Quantize(level=-0.25), compression=fc.Gzip2()),
        tile_codecs.FitsTile(),
        tile_codecs.Gzip2(),
    ],
    ids=lambda codec: type(codec).__name__,
)
def test_inside_sharding(pipeline, codec):
    """zarr's own sharding takes the codecs for its inner chunks."""
    array = np.round(sample("f4", (40, 60)) * 4) / 4
    sharding = ShardingCodec(chunk_shape=(10, 20), codecs=[codec])
    written, store = create(sharding, (40, 60), (20, 60), "f4")
    written[...] = array
    assert same_bits(written[...], array)
    again = zarr.open_array(store, mode="r")
    assert same_bits(again[3:35, 7:50:3], array[3:35, 7:50:3])
    assert same_bits(again[7], array[7])


def test_with_neighbours(pipeline):
    """Other codecs may stand beside it; whole chunks are read then."""
    array = sample("i2", (40, 60))
    store = MemoryStore()
    written = zarr.create_array(store, shape=(40, 60), chunks=(20, 60), dtype="i2",
                                filters=[{"name": "transpose", "configuration": {"order": [1, 0]}}],
                                serializer=FitsTiled(), compressors=GzipCodec())  # fmt: skip
    written[...] = array
    assert same_bits(written[3:35, 7:50:3], array[3:35, 7:50:3])


# ---------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "config, message",
    [
        ({"layout": "data"}, "layout is 'data', wanted 'hdu'"),
        ({"tile_shape": [0, 5]}, "an item of tile_shape is 0, wanted a positive integer"),
        ({"tile_shape": "row"}, "tile_shape is 'row', wanted a list of integers"),
        ({"index_nbytes": -1}, "index_nbytes is -1, wanted a positive integer"),
        ({"index_nbytes": 2.5}, "index_nbytes is 2.5, wanted a positive integer"),
        ({"scaled": "no"}, "scaled is 'no', wanted true or false"),
        ({"encode": {"level": 3}}, "wanted a mapping of compression and quantize"),
        ({"encode": {"compression": "LZW"}}, "no codec for ZCMPTYPE 'LZW'"),
        ({"encode": {"quantize": {"id": "fits_rice_1"}}}, "no codec with id 'fits_rice_1'"),
        ({"speed": 11}, "found speed in the configuration, wanted layout"),
    ],
)
def test_bad_configuration(config, message):
    for make in (FitsTiled, fc.TiledHDU):
        with pytest.raises(ValueError, match=message):
            make(**config)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "float16"])
def test_types_that_fits_does_not_hold(dtype):
    with pytest.raises(ValueError, match="wanted a type of FITS images"):
        create(FitsTiled(), (40, 60), (20, 60), dtype)


def test_unsigned_needs_scaling():
    with pytest.raises(fc.EncodeError, match="uint16 come back only with scaled=true"):
        create(FitsTiled(scaled=False), (40, 60), (20, 60), "uint16")
    array = sample("i2", (40, 60))
    written, _ = create(FitsTiled(scaled=False), (40, 60), (20, 60), "i2")
    written[...] = array
    assert same_bits(written[3:9], array[3:9])


def test_codec_that_cannot_hold_the_pixels(pipeline):
    codec = FitsTiled(encode={"compression": "PLIO_1"})
    written, _ = create(codec, (40, 60), (20, 60), "i4")
    with pytest.raises(fc.EncodeError, match="PLIO_1"):
        written[...] = np.full((40, 60), -5, "i4")


@pytest.mark.parametrize(
    "settings, dtype, message",
    [
        ({"tile_shape": (1, 60), "encode": {"compression": "HCOMPRESS_1"}}, "i2",
         "HCOMPRESS_1 tiles of shape .*, wanted two axes longer than 1"),
        ({"tile_shape": (18, 60), "encode": {"compression": "HCOMPRESS_1"}}, "i2",
         "with 4 pixels or more in every tile"),
        ({"encode": {"compression": "RICE_1"}}, "f4", "RICE_1 cannot hold float32 pixels"),
        ({"encode": {"quantize": fc.Quantize()}}, "i2", "quantize is for floats"),
        ({"tile_shape": (1, 1, 20, 60), "encode": {}}, "i2", "wanted 2 positive lengths"),
    ],
)  # fmt: skip
def test_chunks_that_cannot_be_encoded(settings, dtype, message):
    """They are refused before there is an array that nobody can write to."""
    store = MemoryStore()
    with pytest.raises(fc.EncodeError, match=message):
        create(FitsTiled(**settings), (40, 60), (20, 60), dtype, store)
    assert not store._store_dict


def test_options_are_a_function():
    with pytest.raises(TypeError, match="tile_options is a function"):
        FitsTiled(tile_options={"level": 3})
