# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""References of every kind lead to the same pixels in as few requests."""

import json

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import sample
from tests.serving import FileServer, place, reference_store, references

zarr = pytest.importorskip("zarr", reason="the adapter needs zarr")
pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")

from zarr.storage import FsspecStore  # noqa: E402

from fitscodecs.adapters.zarr import FitsTiled  # noqa: E402

HINT = 40320  # header and table

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore:The specified chunks separate the stored chunks",
)


@pytest.fixture(scope="module")
def quantized():
    """A file with a quantized float image of 1024 x 1500 pixels."""
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=3)
    return PRIMARY + fc.encode_image(sample("f4", (1024, 1500)), quantize=quantize)


@pytest.fixture(scope="module")
def expected(quantized):
    return fc.open(quantized)[...]


@pytest.fixture(scope="module")
def server(quantized):
    started = FileServer(image=quantized)
    yield started
    started.close()


def json_references(server, quantized, tmp_path):
    """A JSON file of references, opened by its URL."""
    refs = references(server.url("image"), quantized, index_nbytes=HINT)
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return zarr.open_group("reference://", mode="r", zarr_format=3, storage_options={
        "fo": str(path), "remote_protocol": "http", "remote_options": {"asynchronous": True},
        "asynchronous": True})["SCI"]  # fmt: skip


def parquet_references(server, quantized, tmp_path):
    """A folder of Parquet, whose v2 metadata is there for the arithmetic of keys."""
    pytest.importorskip("fastparquet", reason="Parquet references need fastparquet")
    import fsspec
    from fsspec.implementations.reference import LazyReferenceMapper

    refs = references(server.url("image"), quantized, index_nbytes=HINT)
    folder = str(tmp_path / "refs.parq")
    out = LazyReferenceMapper.create(folder, fs=fsspec.filesystem("file"), record_size=100)
    metadata = json.loads(refs["SCI/zarr.json"])
    metadata["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
    out.zmetadata["zarr.json"] = json.loads(refs["zarr.json"])
    out.zmetadata["SCI/zarr.json"] = metadata
    out["SCI/.zarray"] = json.dumps({
        "zarr_format": 2, "shape": metadata["shape"], "chunks": metadata["shape"], "dtype": "<f4",
        "compressor": {"id": "fits_tiled"}, "filters": None, "order": "C", "fill_value": 0,
    }).encode()  # fmt: skip
    out["SCI/0.0"] = refs["SCI/c/0/0"]
    out.flush()
    return zarr.open_group(reference_store(folder), mode="r", zarr_format=3)["SCI"]


def checked_references(server, quantized, tmp_path):
    """References that are followed while the file is the same."""
    refs = references(server.url("image"), quantized, index_nbytes=HINT)
    targets = {server.url("image"): {"size": len(quantized)}}
    store = reference_store(refs, scheme="fitsref", targets=targets)
    return zarr.open_group(store, mode="r", zarr_format=3)["SCI"]


def manifest_store(server, quantized, tmp_path):
    """VirtualiZarr's store."""
    pytest.importorskip("virtualizarr", reason="needs VirtualiZarr")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore
    from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
    from zarr.core.metadata.v3 import ArrayV3Metadata

    refs = references(server.url("image"), quantized, index_nbytes=HINT)
    start, nbytes = place(quantized)
    url = server.url("image")
    manifest = ChunkManifest({"0.0": {"path": url, "offset": start, "length": nbytes}})
    metadata = ArrayV3Metadata.from_dict(json.loads(refs["SCI/zarr.json"]))
    group = ManifestGroup(arrays={"SCI": ManifestArray(metadata=metadata, chunkmanifest=manifest)})
    root = url.rsplit("/", 1)[0]
    registry = ObjectStoreRegistry(
        {root: HTTPStore.from_url(root, client_options={"allow_http": True})}
    )
    return zarr.open_group(ManifestStore(group, registry=registry), mode="r")["SCI"]


def icechunk_repository(server, quantized, tmp_path):
    """A repository with a virtual chunk."""
    icechunk = pytest.importorskip("icechunk", reason="needs Icechunk")
    if icechunk.__version__.startswith("1."):
        pytest.skip(f"icechunk {icechunk.__version__} drops the port of a URL")
    icechunk.set_logs_filter("error")
    url = server.url("image")
    root = url.rsplit("/", 1)[0] + "/"
    config = icechunk.RepositoryConfig.default()
    container = icechunk.VirtualChunkContainer(root, icechunk.http_store())
    config.set_virtual_chunk_container(container)
    # Without it, one range becomes five of a fifth of its length.
    concurrency = icechunk.StorageConcurrencySettings(ideal_concurrent_request_size=2**23)
    config.storage = icechunk.StorageSettings(concurrency=concurrency)
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(),
        config,
        authorize_virtual_chunk_access={root: icechunk.credentials.HttpAccess},
    )
    session = repository.writable_session("main")
    image = fc.open(quantized)
    group = zarr.create_group(session.store)
    codec = FitsTiled(index_nbytes=HINT)
    group.create_array("SCI", shape=image.shape, chunks=image.shape, dtype=image.dtype,
                       serializer=codec, compressors=None, filters=None)  # fmt: skip
    start, nbytes = place(quantized)
    session.store.set_virtual_ref("SCI/c/0/0", url, offset=start, length=nbytes)
    session.commit("an image")
    return zarr.open_group(repository.readonly_session("main").store, mode="r")["SCI"]


CARRIERS = [json_references, parquet_references, checked_references, manifest_store,
            icechunk_repository]  # fmt: skip


@pytest.mark.parametrize("carrier", CARRIERS)
def test_cutout(server, quantized, expected, tmp_path, carrier):
    """The first cutout of an array is two requests, the next one is one."""
    array = carrier(server, quantized, tmp_path)
    server.ranges()
    assert same_bits(array[200:240, 300:500], expected[200:240, 300:500])
    ranges = server.ranges()
    assert len(ranges) == 2, ranges
    assert sum(stop - start for start, stop in ranges) <= 0.15 * len(quantized)
    assert same_bits(array[700:740:3, 100:300], expected[700:740:3, 100:300])
    assert len(server.ranges()) == 1
    assert array[5, 7] == expected[5, 7]
    assert same_bits(array[...], expected)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_unreachable_target_is_an_error(quantized, tmp_path, carrier):
    """A file that is gone is no missing chunk, whoever refers to it."""
    own = FileServer(image=quantized)
    try:
        array = carrier(own, quantized, tmp_path)
        own.files.clear()
        for key in [(...,), (slice(3, 5), slice(7, 9))]:
            with pytest.raises(Exception, match=r"failed to fetch|cannot be compared|not found"):
                array[key]
    finally:
        own.close()


def test_carriers_without_a_hint(server, quantized, expected):
    """Nobody has to know how long a header is."""
    store = reference_store(references(server.url("image"), quantized))
    array = zarr.open_group(FsspecStore(store.fs, read_only=False), mode="r")["SCI"]
    server.ranges()
    assert same_bits(array[200:240, 300:500], expected[200:240, 300:500])
    assert len(server.ranges()) <= 3
    assert same_bits(array[700:740, 100:300], expected[700:740, 100:300])
    assert len(server.ranges()) == 1


def test_xarray_and_dask(server, quantized, expected):
    """Chunks of dask in multiples of tiles are cutouts."""
    xr = pytest.importorskip("xarray", reason="needs xarray")
    pytest.importorskip("dask", reason="needs dask")
    import dask.array

    refs = references(server.url("image"), quantized, index_nbytes=HINT)
    metadata = json.loads(refs["SCI/zarr.json"]) | {"dimension_names": ["y", "x"]}
    refs["SCI/zarr.json"] = json.dumps(metadata)
    store = reference_store(refs)
    data = xr.open_zarr(store, consolidated=False, zarr_format=3, chunks={"y": 64, "x": 1500})
    server.ranges()
    cutout = data["SCI"].isel(y=slice(200, 240), x=slice(300, 500))
    assert same_bits(cutout.values, expected[200:240, 300:500])
    assert sum(stop - start for start, stop in server.ranges()) <= 0.25 * len(quantized)
    assert same_bits(data["SCI"].values, expected)
    array = dask.array.from_zarr(zarr.open_group(store, mode="r")["SCI"], chunks=(128, 1500))
    assert same_bits(array[100:300, 5:9].compute(scheduler="threads"), expected[100:300, 5:9])
    total = array.astype("f8").sum().compute(scheduler="threads")
    assert np.isclose(total, expected.astype("f8").sum())
