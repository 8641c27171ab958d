# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""zarr gives the pixels of every codec, type and tiling for every kind of selection."""

import shutil

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import plain_hdu
from tests.serving import open_references, references

zarr = pytest.importorskip("zarr", reason="the adapter needs zarr")

from zarr.storage import MemoryStore  # noqa: E402

FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"
PIPELINES = ["zarr.core.codec_pipeline.BatchedCodecPipeline"]
if hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
    PIPELINES.append(FUSED)

DITHER = {method: fc.Quantize(level=4, method=method, seed=77)
          for method in ("SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2")}  # fmt: skip
ALGORITHMS = ["RICE_1", "HCOMPRESS_1", "PLIO_1", "GZIP_1", "GZIP_2"]
KINDS = ["uint8", "int16", "uint16", "int32", "dither 1", "dither 2", "fallback"]
TILINGS = {"row": ((37, 53), (1, 53)), "square": ((37, 53), (16, 16)),
           "3-D": ((5, 23, 31), (2, 10, 31))}  # fmt: skip


def pixels(kind, shape):
    """Noise on a slope; floats have NaN, and "fallback" an infinity in one tile."""
    rng = np.random.default_rng(len(kind))
    array = 100 + np.linspace(0, 20, np.prod(shape)).reshape(shape) + rng.normal(0, 3, shape)
    if kind in KINDS[:4]:
        array = array.astype(kind)
        return array + np.uint16(40000) if kind == "uint16" else array
    array[rng.random(shape) < 0.03] = np.nan
    array[rng.random(shape) < 0.03] = 0
    if kind == "fallback":
        array[(0,) * len(shape)] = np.inf
    return array.astype("f4")


def selections(shape):
    """Name, how to ask zarr, and how to ask numpy."""
    rng = np.random.default_rng(1)
    axes = [np.sort(rng.choice(n, 3, replace=False)) for n in shape]
    mixed = [rng.integers(0, n, 6) for n in shape]
    mask = rng.random(shape) < 0.05
    rows = rng.random(shape[0]) < 0.5
    rows[1] = True
    rest = (slice(None),) * (len(shape) - 1)
    basic = {
        "all": (...,),
        "row": (3,),
        "pixel": tuple(n // 2 for n in shape),
        "block": tuple(slice(n // 4, n // 2 + 1) for n in shape),
        "from the end": (slice(-3, None), -1),
        "steps": tuple(slice(k, None, 3 + k) for k in range(len(shape))),
        "last axis": (..., slice(5, 19, 4)),
    }
    for name, key in basic.items():
        yield name, lambda a, k=key: a[k], lambda n, k=key: n[k]
    orthogonal = {
        "oindex of all axes": tuple(axes),
        "oindex of one axis": (axes[0], *rest),
        "oindex beside integers": (*(2 for _ in rest), axes[-1]),
        "oindex unsorted": (np.array([4, 0, 4, 2]), *rest),
        "oindex of rows by mask": (rows, *rest),
        "oindex beside steps": (*(slice(1, None, 2) for _ in rest), axes[-1]),
    }
    for name, key in orthogonal.items():
        yield (name, lambda a, k=key: a.oindex[k],
               lambda n, k=key: zarr.core.indexing.oindex(n, k))  # fmt: skip
    yield "vindex", lambda a: a.vindex[tuple(mixed)], lambda n: n[tuple(mixed)]
    grid = tuple(m.reshape(2, 3) for m in mixed)
    yield "vindex in two axes", lambda a: a.vindex[grid], lambda n: n[grid]
    yield "mask", lambda a: a.vindex[mask], lambda n: n[mask]


def stores(tmp_path, hdu):
    """The HDU as a chunk in each kind of store: of references, and read without an event loop."""
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + hdu)
    refs = references(str(path), path, 1)
    yield "references", open_references(refs, protocol="file")
    yield "references, hint", open_references(references(str(path), path, 1, index_nbytes=5760),
                                              protocol="file")  # fmt: skip
    chunk = "/".join(["c"] + ["0"] * fc.open(path, 1).ndim)
    items = {"zarr.json": refs["SCI/zarr.json"].encode(), chunk: hdu}
    memory = MemoryStore({
        key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in items.items()
    })  # fmt: skip
    yield "memory", zarr.open_array(memory, mode="r", zarr_format=3)
    for key, value in items.items():
        (tmp_path / "array" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "array" / key).write_bytes(value)
    yield "folder", zarr.open_array(tmp_path / "array", mode="r", zarr_format=3)
    shutil.rmtree(tmp_path / "array")


def check(tmp_path, hdu, expected, pipelines=PIPELINES):
    """Every selection of every store on every pipeline is what numpy takes from `expected`."""
    count = 0
    for pipeline in pipelines:
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            for store, array in stores(tmp_path, hdu):
                for name, ask, numpy_asks in selections(expected.shape):
                    found = np.asarray(ask(array))
                    wanted = np.asarray(numpy_asks(expected))
                    assert same_bits(found, wanted), f"{name} of {store} on {pipeline}"
                    count += 1
    return count


def image(algorithm, kind, tiling):
    """Pixels, and the HDU that they are in; EncodeError where there is no such image."""
    shape, tile_shape = TILINGS[tiling]
    array = pixels(kind, shape)
    quantize = None
    if array.dtype.kind == "f":
        quantize = DITHER["SUBTRACTIVE_DITHER_2" if kind == "dither 2" else "SUBTRACTIVE_DITHER_1"]
    if algorithm == "HCOMPRESS_1":  # at most two axes longer than 1, each at least 4
        tile_shape = {"row": (16, 53), "square": (19, 16), "3-D": (1, 12, 31)}[tiling]
    return array, fc.encode_image(array, {"OBJECT": "m13"}, algorithm, tile_shape, quantize)


@pytest.mark.parametrize("tiling", TILINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_selections(tmp_path, algorithm, kind, tiling):
    try:
        array, hdu = image(algorithm, kind, tiling)
    except fc.EncodeError as error:
        pytest.skip(f"no such image: {error}")
    expected = fc.open(PRIMARY + hdu)[...]
    if array.dtype.kind != "f":
        assert same_bits(expected, array)
    if kind == "fallback":
        assert "GZIP_COMPRESSED_DATA" in fc.open(PRIMARY + hdu).table.column
    assert check(tmp_path, hdu, expected) == len(PIPELINES) * 4 * 16


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(37, 53), (5, 23, 31)])
def test_plain_images(tmp_path, dtype, shape):
    """Images that are not compressed go through the same codec."""
    array = pixels("int16", shape).astype(dtype)
    assert check(tmp_path, plain_hdu(array), array) == len(PIPELINES) * 4 * 16


@pytest.mark.parametrize("scaled", [True, False])
def test_scaling(tmp_path, scaled):
    """The array has the type of the scaled or the stored pixels, with NaN for BLANK."""
    array = pixels("int16", (37, 53))
    array[3, 4] = -5
    header = {"BSCALE": 0.5, "BZERO": 10.0, "BLANK": -5}
    path = tmp_path / "scaled.fits"
    path.write_bytes(PRIMARY + plain_hdu(array, more=list(header.items())))
    expected = fc.open(path, 1, scaled=scaled)[...]
    assert expected.dtype == ("float32" if scaled else "int16")
    found = open_references(references(str(path), path, 1, scaled), protocol="file")
    assert same_bits(found[2:9, 1:8], expected[2:9, 1:8])
    assert same_bits(found[...], expected)


def test_zarrs_falls_back(tmp_path):
    """The Rust pipeline says that it does not know the codec, and leaves the array to zarr's."""
    pytest.importorskip("zarrs", reason="the Rust pipeline needs zarrs")
    hdu = fc.encode_image(pixels("int16", (37, 53)))
    path = tmp_path / "image.fits"
    path.write_bytes(PRIMARY + hdu)
    expected = fc.open(path)[...]
    refs = references(str(path), path)
    (tmp_path / "array" / "c" / "0").mkdir(parents=True)
    (tmp_path / "array" / "zarr.json").write_text(refs["SCI/zarr.json"])
    (tmp_path / "array" / "c" / "0" / "0").write_bytes(hdu)
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        with pytest.warns(UserWarning, match="unsupported by ZarrsCodecPipeline"):
            array = zarr.open_array(tmp_path / "array", mode="r", zarr_format=3)
        assert same_bits(array[3:9, ::5], expected[3:9, ::5])
        array = open_references(refs, protocol="file")
        assert same_bits(array[3:9, ::5], expected[3:9, ::5])
