# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The names under which zarr, numcodecs and fsspec find the codecs, and zarr v2 arrays of them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import plain_hdu, sample, tiles_of
from tests.serving import place, reference_store

zarr = pytest.importorskip("zarr", reason="the adapter needs zarr")

from zarr.storage import MemoryStore  # noqa: E402

from fitscodecs.adapters.zarr import FitsTiled  # noqa: E402
from fitscodecs.adapters.zarr import codecs as tile_codecs  # noqa: E402

ROOT = Path(fc.__file__).parent.parent
TILES = (*fc.CODECS, fc.Quantize, fc.FitsTile)

PIPELINES = ["BatchedCodecPipeline"]
if hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
    PIPELINES.append("FusedCodecPipeline")


@pytest.fixture(params=PIPELINES)
def pipeline(request):
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{request.param}"}):
        yield request.param


# ---------------------------------------------------------------------------- entry points


def test_entry_points():
    """Each codec of tiles has its two lines, and the whole HDU as well; there are no others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = project["entry-points"]["zarr.codecs"]
    wanted = {
        "fitscodecs.tiled": "fitscodecs.adapters.zarr:FitsTiled",
        "numcodecs.fits_tiled": "fitscodecs.adapters.zarr.codecs:WholeHDU",
    }
    for cls in TILES:
        target = f"fitscodecs.adapters.zarr.codecs:{cls.__name__}"
        wanted[f"numcodecs.{cls.codec_id}"] = target
        wanted[f"fitscodecs.{cls.codec_id.removeprefix('fits_')}"] = target
    for name, target in wanted.items():
        assert found.get(name) == target, f'missing line in pyproject.toml: "{name}" = "{target}"'
    assert set(found) == set(wanted)


def test_zarr_finds_every_name():
    """In a fresh process that has not imported the package, which is imported when asked for."""
    names = [name for cls in TILES for name in getattr(tile_codecs, cls.__name__).names()]
    code = (
        "import sys, json, zarr\n"
        "from zarr.registry import get_codec_class\n"
        "assert 'fitscodecs' not in sys.modules\n"
        f"names = {names}\n"
        "names += ['fitscodecs.tiled', 'numcodecs.fits_tiled']\n"
        "print(json.dumps([get_codec_class(n).__name__ for n in names]))\n"
        "import fsspec\n"
        "print(fsspec.get_filesystem_class('fitsref').__name__)\n"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    classes, filesystem = done.stdout.split("\n")[:2]
    assert len(json.loads(classes)) == 2 * len(TILES) + 2
    assert filesystem == "CheckedReferences"


@pytest.mark.parametrize("cls", TILES)
def test_configuration(cls):
    """Both names lead to one class; what it writes, it reads."""
    wrapper = getattr(tile_codecs, cls.__name__)
    for name in wrapper.names():
        codec = wrapper.from_dict({"name": name})
        assert codec.to_dict()["name"] == name
        assert wrapper.from_dict(json.loads(json.dumps(codec.to_dict()))) == codec
        assert cls.from_config(codec.codec_config) == codec.codec
        assert codec.codec_config["id"] == cls.codec_id
    with pytest.raises(ValueError, match="name is 'other', wanted one of fitscodecs"):
        wrapper(name="other")


def test_whole_hdu_configuration():
    config = {"layout": "hdu", "scaled": True, "tile_shape": [1, 300], "dtype": "int16",
              "shape": [40, 300]}  # fmt: skip
    codec = tile_codecs.WholeHDU.from_dict(
        {"name": "numcodecs.fits_tiled", "configuration": config}
    )
    assert codec.to_dict() == {"name": "numcodecs.fits_tiled", "configuration": config}
    assert codec.codec_config == {"id": "fits_tiled", **config}
    assert isinstance(codec, FitsTiled)


# ---------------------------------------------------------------------------- v3 arrays of tiles


@pytest.mark.parametrize(
    "codec, dtype",
    [
        (tile_codecs.Rice1(bytepix=2), "int16"),
        (tile_codecs.Rice1(), "uint8"),
        (tile_codecs.Plio1(), "uint16"),
        (tile_codecs.HCompress1(), "int32"),
        (tile_codecs.Gzip1(), "int64"),
        (tile_codecs.Gzip2(), "float64"),
        (tile_codecs.NoCompress(), "float32"),
        (tile_codecs.FitsTile(), "uint64"),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_tiles_in_a_v3_array(pipeline, codec, dtype):
    array = sample(dtype, (40, 60))
    store = MemoryStore()
    written = zarr.create_array(store, shape=(40, 60), chunks=(16, 32), dtype=dtype,
                                serializer=codec, compressors=None, filters=None)  # fmt: skip
    written[...] = array
    assert same_bits(zarr.open_array(store, mode="r")[...], array)
    assert same_bits(zarr.open_array(store, mode="r")[3:35, 7:50:3], array[3:35, 7:50:3])


def test_quantize_before_rice(pipeline):
    """A filter with fixed scale and zero point, and a codec of integers."""
    array = np.round(sample("f4", (40, 60)) * 4) / 4
    array[3, 4] = np.nan
    store = MemoryStore()
    written = zarr.create_array(
        store, shape=(40, 60), chunks=(20, 60), dtype="f4", compressors=None,
        filters=[tile_codecs.Quantize(scale=0.25, zero=0.0)], serializer=tile_codecs.Rice1(),
    )  # fmt: skip
    written[...] = array
    assert same_bits(zarr.open_array(store, mode="r")[...], array)
    with pytest.raises(ValueError, match="found no scale and zero, wanted both"):
        zarr.create_array(MemoryStore(), shape=(40, 60), chunks=(20, 60), dtype="f4",
                          filters=[tile_codecs.Quantize()],
                          serializer=tile_codecs.Rice1())  # fmt: skip


def test_pixels_of_another_type():
    """What a chunk holds is not taken for what the array says."""
    store = MemoryStore()
    written = zarr.create_array(store, shape=(40, 60), chunks=(40, 60), dtype="f4",
                                serializer=tile_codecs.FitsTile(), compressors=None)  # fmt: skip
    frame = fc.FitsTile().encode(sample("i2", (40, 60)))
    store._store_dict["c/0/0"] = zarr.core.buffer.cpu.Buffer.from_bytes(bytes(frame))
    with pytest.raises(fc.DecodeError, match=r"found pixels of type int16, wanted .* float32"):
        written[...]


def test_tile_options_of_tiles(pipeline):
    quantize = fc.Quantize(level=4)
    codec = tile_codecs.FitsTile(quantize=quantize, tile_options=lambda context: {"level": 500})
    sizes = []
    for one in (codec, tile_codecs.FitsTile(quantize=quantize)):
        store = MemoryStore()
        written = zarr.create_array(store, shape=(40, 60), chunks=(40, 60), dtype="f4",
                                    serializer=one, compressors=None)  # fmt: skip
        written[...] = sample("f4", (40, 60))
        sizes.append(len(store._store_dict["c/0/0"]))
    assert sizes[0] > 1.5 * sizes[1]


# ---------------------------------------------------------------------------- v2


@pytest.mark.parametrize(
    "settings, dtype",
    [
        ({"compressors": fc.Rice1(bytepix=2, tile_shape=(16, 32))}, "int16"),
        ({"compressors": fc.Plio1(tile_shape=(16, 32))}, "int32"),
        ({"compressors": fc.HCompress1(tile_shape=(16, 32))}, "int32"),
        ({"compressors": fc.FitsTile()}, "float64"),
        ({"compressors": fc.FitsTile(quantize=fc.Quantize(level=-0.25))}, "float32"),
        ({"compressors": fc.TiledHDU(dtype="f4")}, "float32"),
        ({"compressors": fc.TiledHDU()}, "uint16"),
        ({"filters": [fc.Quantize(scale=0.25, zero=0.0)],
          "compressors": fc.Rice1(tile_shape=(16, 32))}, "float32"),
        ({"filters": [fc.Rice1(bytepix=2, tile_shape=(16, 32))], "compressors": None}, "int16"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_v2_arrays(pipeline, settings, dtype):
    """The codecs of numcodecs as compressor and as filters; the array is opened by its metadata."""
    array = sample(dtype, (40, 60))
    array = np.round(array * 4) / 4 if array.dtype.kind == "f" else array
    store = MemoryStore()
    written = zarr.create_array(store, shape=(40, 60), chunks=(16, 32), dtype=dtype, zarr_format=2,
                                **{"filters": None, **settings})  # fmt: skip
    written[...] = array
    assert same_bits(zarr.open_array(store, mode="r", zarr_format=2)[...], array.astype(dtype))


NOT_AS_WRITTEN = "found an array in Fortran order|found pixels of type .*, wanted"


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<f4", ">f4", "|u1"])
@pytest.mark.parametrize("place_of_codec", ["compressors", "filters"])
def test_v2_arrays_of_any_order(dtype, order, place_of_codec):
    """Pixels come back as they were written, or are refused when they are written."""
    array = np.round(sample(np.dtype(dtype).newbyteorder("="), (40, 60)) / 4).astype(dtype)
    good = {fc.FitsTile(): True, fc.TiledHDU(dtype=dtype): order == "C",
            fc.TiledHDU(): order == "C" and array.dtype.isnative}  # fmt: skip
    for codec, is_kept in good.items():
        codecs = {"compressors": None, "filters": None, place_of_codec: [codec]}
        written = zarr.create_array(MemoryStore(), shape=(40, 60), chunks=(20, 30), dtype=dtype,
                                    zarr_format=2, order=order, **codecs)  # fmt: skip
        if not is_kept:
            with pytest.raises(fc.EncodeError, match=NOT_AS_WRITTEN):
                written[...] = array
            continue
        written[...] = array
        assert np.array_equal(written[...], array), codec


def test_whole_hdu_of_a_type():
    """The type of a codec has a byte order, which its configuration keeps."""
    codec = fc.TiledHDU(dtype=">i2")
    assert codec.get_config()["dtype"] == ">i2"
    assert fc.TiledHDU.from_config(json.loads(json.dumps(codec.get_config()))) == codec
    assert fc.TiledHDU(dtype="<i2").get_config()["dtype"] == "int16"
    pixels = sample("i2", (6, 8))
    hdu = fc.encode_image(pixels)
    assert bytes(codec.decode(hdu)) == pixels.astype(">i2").tobytes()
    for out in (np.empty((6, 8), "<i2"), np.empty((6, 8), ">i2")):
        codec.decode(hdu, out)
        assert np.array_equal(out, pixels)
    with pytest.raises(fc.EncodeError, match="found pixels of type <i2, wanted >i2"):
        codec.encode(pixels)


def v2_references(path, hdu, pixels, chunk_shape, **config):
    metadata = {"zarr_format": 2, "shape": chunk_shape, "chunks": chunk_shape,
                "dtype": np.dtype(pixels).str,
                "compressor": {"id": "fits_tiled", **config}, "filters": None, "order": "C",
                "fill_value": 0}  # fmt: skip
    chunk = ".".join("0" * len(chunk_shape))
    return {".zgroup": json.dumps({"zarr_format": 2}), "SCI/.zarray": json.dumps(metadata),
            f"SCI/{chunk}": [str(path), *place(path, hdu)]}  # fmt: skip


@pytest.mark.parametrize("name", ["quantized", "uint16", "plain", "3-D"])
def test_v2_references_to_whole_hdus(tmp_path, pipeline, name):
    """Stock zarr reads them bit for bit, full chunks only."""
    hdus = {
        "quantized": lambda: fc.encode_image(sample("f4", (40, 60)), None, "GZIP_1", (7, 60),
                                             fc.Quantize(method="SUBTRACTIVE_DITHER_2")),
        "uint16": lambda: fc.encode_image(sample("u2", (40, 60)), None, "PLIO_1"),
        "plain": lambda: plain_hdu(sample("i4", (40, 60))),
        "3-D": lambda: fc.encode_image(sample("i2", (3, 40, 60)), None, "RICE_1", (2, 7, 60)),
    }  # fmt: skip
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + hdus[name]())
    expected = fc.open(path, 1)[...]
    refs = v2_references(path, 1, expected.dtype, expected.shape)
    store = reference_store(refs, protocol="file")
    found = zarr.open_group(store, mode="r", zarr_format=2)["SCI"]
    assert same_bits(found[...], expected)
    assert same_bits(found[..., 3:9, ::7], expected[..., 3:9, ::7])


def test_v2_references_to_another_image(tmp_path):
    """A v2 array takes bytes for its own type, unless the configuration says what they are."""
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + fc.encode_image(sample("i4", (40, 60))))
    for config, message in [
        ({"dtype": "float32"}, "found scaled pixels of type int32, wanted float32"),
        ({"shape": [60, 40]}, r"found an image of shape \(40, 60\), wanted the chunk's \(60, 40\)"),
    ]:
        refs = v2_references(path, 1, "f4", (40, 60), **config)
        store = reference_store(refs, protocol="file")
        found = zarr.open_group(store, mode="r", zarr_format=2)["SCI"]
        with pytest.raises(fc.HeaderError, match=message):
            found[...]


# ---------------------------------------------------------------------------- VirtualiZarr


def virtual(refs, tmp_path):
    """The arrays of v2 references as VirtualiZarr's own reader understands them.

    The codec stands among the filters, which means the same: versions of VirtualiZarr take a
    compressor for a list.
    """
    pytest.importorskip("virtualizarr", reason="needs VirtualiZarr")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import KerchunkJSONParser

    metadata = json.loads(refs["SCI/.zarray"])
    metadata |= {"filters": [metadata["compressor"]], "compressor": None}
    refs = {**refs, "SCI/.zarray": json.dumps(metadata)}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    parser = KerchunkJSONParser(fs_root="file:///")
    return zarr.open_group(parser(f"file://{tmp_path}/refs.json", registry), mode="r")


def test_virtualizarr_reads_v2_references_to_whole_hdus(tmp_path):
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + fc.encode_image(sample("i2", (40, 60))))
    refs = v2_references(path, 1, "i2", (40, 60), layout="hdu", scaled=True)
    refs["SCI/.zattrs"] = json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]})
    found = virtual(refs, tmp_path)["SCI"]
    expected = fc.open(path)[...]
    assert same_bits(found[...], expected)
    assert same_bits(found[3:9, 5:50:7], expected[3:9, 5:50:7])


def test_virtualizarr_reads_v2_references_to_tiles(tmp_path):
    """One chunk for each tile of a lossless integer image, and the codec of its bytes."""
    array = sample("i2", (40, 60))
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + fc.encode_image(array, tile_shape=(8, 30)))
    image = fc.open(path)
    metadata = {"zarr_format": 2, "shape": [40, 60], "chunks": [8, 30], "dtype": "<i2",
                "compressor": fc.Rice1(bytepix=2, tile_shape=(8, 30)).get_config(),
                "filters": None, "order": "C", "fill_value": 0}  # fmt: skip
    refs = {".zgroup": json.dumps({"zarr_format": 2}), "SCI/.zarray": json.dumps(metadata),
            "SCI/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"]})}  # fmt: skip
    for row, where in enumerate(tiles_of((40, 60), (8, 30))):
        key = f"SCI/{where[0].start // 8}.{where[1].start // 30}"
        start = image.hdu.data_start + int(image.table.start[row])
        refs[key] = [str(path), start, int(image.table.nbytes[row])]
    store = reference_store(refs, protocol="file")
    assert same_bits(zarr.open_group(store, mode="r", zarr_format=2)["SCI"][...], array)
    assert same_bits(virtual(refs, tmp_path)["SCI"][...], array)
