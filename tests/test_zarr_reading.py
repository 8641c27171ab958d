# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How zarr reads HDUs: few requests, indexes read once, and never pixels of something else."""

import asyncio
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.header import BLOCK
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import plain_hdu, sample
from tests.serving import (
    FileServer,
    array_metadata,
    open_references,
    place,
    reference_store,
    references,
)

zarr = pytest.importorskip("zarr", reason="the adapter needs zarr")
pytest.importorskip("fsspec", reason="references need fsspec")
pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")

from zarr.storage import (  # noqa: E402
    FsspecStore,
    LocalStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
)

from fitscodecs.adapters.zarr import FitsTiled, index  # noqa: E402
from fitscodecs.adapters.zarr.index import Abandoned, IndexCache, Place  # noqa: E402

Buffer = zarr.core.buffer.cpu.Buffer

# fsspec leaves its HTTP session to the interpreter, which closes it when nobody needs it.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

QUANTIZE = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=3)


@pytest.fixture(scope="module")
def quantized():
    """A file with a quantized float image of 1024 x 1500 pixels."""
    return PRIMARY + fc.encode_image(sample("f4", (1024, 1500)), quantize=QUANTIZE)


@pytest.fixture
def serve():
    servers = []

    def start(**files):
        servers.append(FileServer(**files))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def memory(hdu, metadata=None):
    """A writable store with one chunk."""
    image = fc.open(PRIMARY + hdu, 1)
    metadata = metadata or array_metadata(image.shape, image.shape, image.dtype)
    chunk = "/".join(["c"] + ["0"] * image.ndim)
    items = {"zarr.json": metadata.encode(), chunk: hdu}
    return MemoryStore({key: Buffer.from_bytes(value) for key, value in items.items()})


def folder(path, hdu):
    """A store with one chunk that is a local file."""
    for key, value in memory(hdu)._store_dict.items():
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(value.to_bytes())
    return LocalStore(path)


class Counting(WrapperStore):
    """Notes each range that is read, and how many reads go on at the same time."""

    def __init__(self, store):
        super().__init__(store)
        self.log, self.open, self.most, self.lock = [], 0, 0, threading.Lock()

    async def get(self, key, prototype, byte_range=None):
        with self.lock:
            self.log.append((key, byte_range))
            self.open += 1
            self.most = max(self.most, self.open)
        await asyncio.sleep(0.01)
        try:
            return await self._store.get(key, prototype, byte_range)
        finally:
            with self.lock:
                self.open -= 1

    def _with_store(self, store):
        return type(self)(store)

    def with_read_only(self, read_only=False):
        return self

    @property
    def read_only(self):
        return True

    @property
    def root(self):
        return getattr(self._store, "root", None)

    def ranges(self):
        return [r for key, r in self.log if not key.endswith("zarr.json")]


# ---------------------------------------------------------------------------- requests


@pytest.mark.parametrize("hint", [None, 40320])
def test_cutout(serve, quantized, hint):
    """A cutout over HTTP: at most 3 requests and 15 % of the file; a further one, one request."""
    server = serve(image=quantized)
    config = {} if hint is None else {"index_nbytes": hint}
    array = open_references(references(server.url("image"), quantized, **config))
    expected = fc.open(quantized)[...]
    server.ranges()
    assert same_bits(array[200:240, 300:500], expected[200:240, 300:500])
    ranges = server.ranges()
    assert len(ranges) <= (3 if hint is None else 2), ranges
    assert sum(stop - start for start, stop in ranges) <= 0.15 * len(quantized)
    assert same_bits(array[700:740, 100:300], expected[700:740, 100:300])
    ranges = server.ranges()
    assert len(ranges) == 1
    assert ranges[0][1] - ranges[0][0] <= 0.06 * len(quantized)


@pytest.mark.parametrize("cards", [5, 60, 400])
def test_header_of_any_length(serve, cards):
    """No read passes the end of the chunk, and a long header costs few."""
    header = {f"KEY{i}": i for i in range(cards)}
    array = sample("i2", (40, 300))
    data = PRIMARY + fc.encode_image(array, header)
    server = serve(image=data)
    refs = references(server.url("image"), data)
    found = open_references(refs)
    server.ranges()
    assert same_bits(found[3:5, 7:20], array[3:5, 7:20])
    ranges = server.ranges()
    assert len(ranges) <= 4
    assert max(stop for _, stop in ranges) <= len(data)


def test_header_of_unknown_length():
    """Also where the store does not tell the length of the chunk."""
    array = sample("i2", (40, 300))
    hdu = fc.encode_image(array, {f"KEY{i}": i for i in range(400)})
    store = Counting(memory(hdu))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    assert same_bits(found[3:5, 7:20], array[3:5, 7:20])
    assert len(store.ranges()) <= 5  # it grows by what the first cards promise of the data
    assert max(r.end for r in store.ranges()) <= len(hdu)


def test_image_of_a_stack_is_one_read():
    """An integer on an axis of length 1 wants the whole chunk as much as a slice does."""
    array = sample("i2", (40, 300))
    metadata = array_metadata((1, 40, 300), (1, 40, 300), "int16")
    items = {"zarr.json": metadata.encode(), "c/0/0/0": fc.encode_image(array)}
    store = Counting(MemoryStore({key: Buffer.from_bytes(v) for key, v in items.items()}))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    assert same_bits(found[0], array)
    assert same_bits(found[-1, :, :], array)
    assert store.ranges() == [None, None]
    assert same_bits(found[0, 3], array[3])
    assert None not in store.ranges()[2:]


def test_large_table_is_read_in_pages(tmp_path):
    """Only the pages of rows that are needed, once each."""
    array = sample("i2", (200, 400))
    hdu = fc.encode_image(array, tile_shape=(2, 1))  # 40000 rows of 8 bytes
    store = Counting(folder(tmp_path, hdu))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    image = fc.open(PRIMARY + hdu, 1)
    assert len(image.table) * image.structure.row_nbytes > 300000
    assert same_bits(found[0:2, 0:30], array[0:2, 0:30])
    table = [r for r in store.ranges() if r.end > 2 * BLOCK]
    assert sum(r.end - r.start for r in table) < 100000
    store.log.clear()
    assert same_bits(found[0:2, 10:20], array[0:2, 10:20])
    assert len(store.ranges()) == 1
    assert same_bits(found[::50, ::3], array[::50, ::3])
    assert same_bits(found[...], array)


def test_concurrency_is_bounded():
    """Tiles that lie apart are read at the same time, but not more than zarr allows."""
    array = np.random.default_rng(0).integers(-32768, 32767, (64, 100000), dtype="i2")
    hdu = fc.encode_image(array)
    store = Counting(memory(hdu))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    with zarr.config.set({"async.concurrency": 4}):
        assert same_bits(found[::2, 5:9], array[::2, 5:9])
    assert len(store.ranges()) > 20
    assert 2 <= store.most <= 4


def test_decoding_leaves_the_event_loop(monkeypatch):
    """Pixels are decoded in another thread than the one that serves all reads."""
    import fitscodecs.chunk

    threads = []
    decode = fitscodecs.chunk.decode_block

    def noting(*args):
        threads.append(threading.current_thread().name)
        return decode(*args)

    monkeypatch.setattr(fitscodecs.chunk, "decode_block", noting)
    array = sample("i2", (40, 300))
    found = zarr.open_array(memory(fc.encode_image(array)), mode="r", zarr_format=3)
    assert same_bits(found[3:5], array[3:5])
    assert same_bits(found[...], array)
    assert len(threads) == 2
    assert not any("zarr_io" in name or name == "MainThread" for name in threads)


def test_fused_reads_parts():
    """The pipeline without an event loop reads parts of chunks as well."""
    if not hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
        pytest.skip(f"zarr {zarr.__version__} has no Fused pipeline")

    class Logged(MemoryStore):
        nbytes = 0

        def get_sync(self, key, **kwargs):
            buffer = super().get_sync(key, **kwargs)
            Logged.nbytes += len(buffer)
            return buffer

    array = sample("i2", (400, 300))
    hdu = fc.encode_image(array)
    store = Logged(memory(hdu)._store_dict)
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        found = zarr.open_array(store, mode="r", zarr_format=3)
        assert same_bits(found[3:5, 7:20], array[3:5, 7:20])
        assert 0 < Logged.nbytes < 0.2 * len(hdu)
        assert same_bits(found[...], array)


# ---------------------------------------------------------------------------- indexes


def test_index_is_read_once(tmp_path):
    """Threads that start with nothing known share one read of the index."""
    array = sample("i2", (400, 300))
    store = Counting(folder(tmp_path, fc.encode_image(array)))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: found[i : i + 3, 5:9], range(0, 80, 10)))
    for i, part in zip(range(0, 80, 10), parts, strict=True):
        assert same_bits(part, array[i : i + 3, 5:9])
    assert len([r for r in store.ranges() if r.start == 0]) == 1


def test_reader_that_is_stopped_leaves_the_index_to_others():
    cache, place_ = IndexCache(), Place("a", None, ("a",))
    future, mine = cache.claim(place_)
    assert mine
    assert cache.claim(place_) == (future, False)
    cache.abandon(place_, future, asyncio.CancelledError())
    with pytest.raises(Abandoned):
        future.result()
    assert cache.claim(place_)[1]


def test_index_cache_is_bounded():
    class Index:
        nbytes = 40

    cache = IndexCache(limit_nbytes=100)
    for name in "abcab":
        future, mine = cache.claim(Place(name, None, (name,)))
        if mine:
            cache.fulfil(Place(name, None, (name,)), future, Index())
        assert cache.nbytes <= 100
    assert len(cache) == 2
    cache.close()
    future, mine = cache.claim(Place("d", None, ("d",)))
    assert mine
    cache.fulfil(Place("d", None, ("d",)), future, Index())
    assert (len(cache), cache.nbytes) == (0, 0)


FIRST = sample("i2", (40, 300))
SECOND = FIRST[::-1].copy()  # as long a file, with the tiles in other places


def view_of_memory(path, hdu):
    """A read-only view of a store that others of this process write to."""
    store = memory(hdu)
    put = Buffer.from_bytes
    return store, lambda new: store._store_dict.__setitem__("c/0/0", put(new))


def view_of_a_folder(path, hdu):
    folder(path, hdu)
    return LocalStore(path, read_only=True), (path / "c" / "0" / "0").write_bytes


def obstore_of_a_folder(path, hdu):
    obstore = pytest.importorskip("obstore", reason="needs obstore")
    _, write = view_of_a_folder(path, hdu)
    return ObjectStore(obstore.store.LocalStore(path), read_only=True), write


def obstore_of_memory(path, hdu):
    obstore = pytest.importorskip("obstore", reason="needs obstore")
    inner = obstore.store.MemoryStore()
    for key, value in memory(hdu)._store_dict.items():
        inner.put(key, value.to_bytes())
    return ObjectStore(inner, read_only=True), lambda new: inner.put("c/0/0", new)


def fsspec_of_a_folder(path, hdu):
    _, write = view_of_a_folder(path, hdu)
    return FsspecStore.from_url(f"file://{path}", read_only=True), write


def referring(url, hdu, protocol):
    import fsspec

    def write(new):
        with fsspec.open(url, "wb") as file:
            file.write(new)

    write(hdu)
    metadata = memory(hdu)._store_dict["zarr.json"].to_bytes().decode()
    refs = {"zarr.json": metadata, "c/0/0": [url, 0, len(hdu)]}
    return reference_store(refs, protocol=protocol), write


def references_to_memory(path, hdu):
    return referring(f"memory:/{path}/a.fits", hdu, "memory")


def references_to_a_url(path, hdu):
    return referring(f"file://{path}/a%20b.fits", hdu, "file")


def references_to_a_path(path, hdu):
    return referring(f"{path}/a.fits", hdu, "file")


def manifests_of_a_folder(path, hdu):
    manifests = pytest.importorskip("virtualizarr.manifests", reason="needs VirtualiZarr")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore as Files
    from zarr.core.metadata.v3 import ArrayV3Metadata

    file = path / "a.fits"
    file.write_bytes(hdu)
    entry = {"path": f"file://{file}", "offset": 0, "length": len(hdu)}
    document = json.loads(memory(hdu)._store_dict["zarr.json"].to_bytes())
    made = manifests.ManifestArray(
        metadata=ArrayV3Metadata.from_dict(document),
        chunkmanifest=manifests.ChunkManifest({"0.0": entry}),
    )
    group = manifests.ManifestGroup(arrays={"A": made})
    registry = ObjectStoreRegistry({"file://": Files()})
    return manifests.ManifestStore(group, registry=registry), file.write_bytes


def icechunk_session(path, hdu):
    """A read-only view of a session in which others write."""
    icechunk = pytest.importorskip("icechunk", reason="needs Icechunk")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    store = repository.writable_session("main").store

    def put(key, value):
        asyncio.run(store.set(key, Buffer.from_bytes(value)))

    for key, value in memory(hdu)._store_dict.items():
        put(key, value.to_bytes())
    return store, lambda new: put("c/0/0", new)


@pytest.mark.parametrize("view", [
    view_of_memory, view_of_a_folder, obstore_of_a_folder, obstore_of_memory, fsspec_of_a_folder,
    references_to_memory, references_to_a_url, references_to_a_path, manifests_of_a_folder,
    icechunk_session,
], ids=lambda view: view.__name__)  # fmt: skip
def test_view_of_what_others_write(tmp_path, view):
    """In this process or on the local disk, an index is not used for what came after it."""
    hdus = [fc.encode_image(array) for array in (FIRST, SECOND)]
    assert len(hdus[0]) == len(hdus[1])
    store, write = view(tmp_path, hdus[0])
    name = "A" if view is manifests_of_a_folder else ""
    found = zarr.open_array(store, path=name, mode="r", zarr_format=3)
    assert same_bits(found[3:5, 7:20], FIRST[3:5, 7:20])
    write(hdus[1])
    assert same_bits(found[3:5, 7:20], SECOND[3:5, 7:20])


def test_longer_header_in_memory(tmp_path):
    """An HDU of another length than a reference recorded is an error at each read."""
    store, write = references_to_memory(tmp_path, plain_hdu(FIRST))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    assert same_bits(found[3:5, 7:20], FIRST[3:5, 7:20])
    write(plain_hdu(SECOND, more=[(f"K{i}", i) for i in range(60)]))
    with pytest.raises(fc.HeaderError, match="not the one that was referenced"):
        found[3:5, 7:20]


@pytest.mark.parametrize("seconds", [None, 0, 5])
def test_remote_indexes_age(serve, monkeypatch, seconds):
    """What only a request could tell is asked again after a minute, or when users want it."""
    hdus = [PRIMARY + fc.encode_image(array) for array in (FIRST, SECOND)]
    server = serve(image=hdus[0])
    found = open_references(references(server.url("image"), hdus[0]))
    limit = index.SECONDS if seconds is None else seconds
    config = {} if seconds is None else {"fitscodecs.index_seconds": seconds}
    start, past = time.monotonic(), [0]
    monkeypatch.setattr(index.time, "monotonic", lambda: start + past[0])
    with zarr.config.set(config):
        assert same_bits(found[3:5, 7:20], FIRST[3:5, 7:20])
        server.ranges()
        past[0] = max(0, limit - 1)
        assert same_bits(found[3:5, 7:20], FIRST[3:5, 7:20])
        assert (len(server.ranges()) == 1) == (limit > 0)
        server.files["image"] = hdus[1]
        past[0] = limit
        assert same_bits(found[3:5, 7:20], SECOND[3:5, 7:20])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_fork_while_an_index_is_read(tmp_path):
    """A child does not wait for what a thread of its parent was about to read."""
    folder(tmp_path, fc.encode_image(FIRST))
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path], capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


FORK = """
import asyncio, os, sys, threading, time, warnings
import zarr
from zarr.storage import LocalStore
warnings.simplefilter("ignore")  # of Python: a process with threads that forks

class Slow(LocalStore):
    seconds, begun = 0, threading.Event()

    async def get(self, key, prototype=None, byte_range=None):
        if Slow.seconds:
            Slow.begun.set()
            await asyncio.sleep(Slow.seconds)
        return await super().get(key, prototype, byte_range)

array = zarr.open_array(Slow(sys.argv[1], read_only=True), mode="r", zarr_format=3)
Slow.seconds = 2
reader = threading.Thread(target=lambda: array[3:5, 7:20])
reader.start()
Slow.begun.wait()
child = os.fork()
if child == 0:
    Slow.seconds = 0
    array[3:5, 7:20]
    os._exit(0)
for _ in range(200):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        reader.join()
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, 9)
sys.exit("the child waits for ever")
"""


def test_writable_store_is_read_afresh(tmp_path):
    """Who else writes to a store that is not read-only is not known: no index of it is kept."""
    first, second = sample("i2", (40, 300)), sample("i2", (40, 300), 1) * 3
    (tmp_path / "c" / "0").mkdir(parents=True)
    (tmp_path / "zarr.json").write_text(array_metadata((40, 300), (40, 300), "i2"))
    chunk = tmp_path / "c" / "0" / "0"
    chunk.write_bytes(fc.encode_image(first))
    found = zarr.open_array(LocalStore(tmp_path), mode="r+", zarr_format=3)
    assert same_bits(found[3:5, 7:20], first[3:5, 7:20])
    chunk.write_bytes(fc.encode_image(second, {"OBJECT": "another"}, "GZIP_2"))
    assert same_bits(found[3:5, 7:20], second[3:5, 7:20])


@pytest.mark.parametrize("local", ["folder", "references"])
def test_local_file_that_changes_is_read_afresh(tmp_path, local):
    """The index of a chunk is not used for what was put in its place."""
    first = sample("i2", (40, 300))
    second = first[::-1].copy()  # as long a file, with the tiles in other places
    (tmp_path / "c" / "0").mkdir(parents=True)
    (tmp_path / "zarr.json").write_text(array_metadata((40, 300), (40, 300), "i2"))
    chunk = tmp_path / "c" / "0" / "0"
    chunk.write_bytes(fc.encode_image(first))
    if local == "folder":
        found = zarr.open_array(tmp_path, mode="r", zarr_format=3)
    else:
        refs = {"zarr.json": (tmp_path / "zarr.json").read_text(),
                "c/0/0": [str(chunk), 0, chunk.stat().st_size]}  # fmt: skip
        found = zarr.open_array(reference_store(refs, protocol="file"), mode="r", zarr_format=3)
    assert same_bits(found[3:5, 7:20], first[3:5, 7:20])
    new = tmp_path / "new"
    new.write_bytes(fc.encode_image(second))
    assert new.stat().st_size == chunk.stat().st_size
    new.replace(chunk)
    assert same_bits(found[3:5, 7:20], second[3:5, 7:20])


def test_pickle(quantized, tmp_path):
    """An array can be sent to another process; indexes stay behind."""
    path = tmp_path / "image.fits"
    path.write_bytes(quantized)
    codec = FitsTiled(tile_shape=(1, 1500), index_nbytes=5760, encode={"compression": "RICE_1"})
    assert pickle.loads(pickle.dumps(codec)) == codec
    (tmp_path / "c" / "0").mkdir(parents=True)
    refs = references(str(path), path)
    (tmp_path / "zarr.json").write_text(refs["SCI/zarr.json"])
    start, nbytes = place(path)
    (tmp_path / "c" / "0" / "0").write_bytes(quantized[start : start + nbytes])
    found = zarr.open_array(tmp_path, mode="r", zarr_format=3)
    expected = fc.open(path)[...]
    assert same_bits(found[5:9, 5:9], expected[5:9, 5:9])
    assert same_bits(pickle.loads(pickle.dumps(found))[5:9, 5:9], expected[5:9, 5:9])


# ---------------------------------------------------------------------------- many files


def test_unlike_files_are_one_array(tmp_path):
    """Other headers, seeds, columns, tiles, algorithms, and no compression, behind one codec."""
    arrays = [sample("f4", (40, 300), seed) for seed in range(5)]
    arrays[1][3, 4] = np.nan
    arrays[2][7, 8] = np.inf
    hdus = [
        fc.encode_image(arrays[0], None, "RICE_1", None, QUANTIZE),
        fc.encode_image(arrays[1], {f"K{i}": i for i in range(90)}, "GZIP_2", (16, 16)),
        fc.encode_image(arrays[2], None, "HCOMPRESS_1", (20, 150),
                        fc.Quantize(level=8, method="SUBTRACTIVE_DITHER_1", seed=9)),
        plain_hdu(arrays[3]),
        fc.encode_image(arrays[4], None, "RICE_1", (3, 70),
                        fc.Quantize(level=2, method="SUBTRACTIVE_DITHER_2", seed=5)),
    ]  # fmt: skip
    metadata = array_metadata((7, 40, 300), (1, 40, 300), "f4", fill_value=-1.5)
    refs = {"A/zarr.json": metadata}
    expected = np.full((7, 40, 300), -1.5, "f4")  # 3 and 6 are missing
    for plane, hdu in zip([0, 1, 2, 4, 5], hdus, strict=True):
        path = tmp_path / f"{plane}.fits"
        path.write_bytes(PRIMARY + hdu)
        refs[f"A/c/{plane}/0/0"] = [str(path), len(PRIMARY), len(hdu)]
        expected[plane] = fc.open(path, 1)[...]
    refs["zarr.json"] = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    found = open_references(refs, "A", protocol="file")
    assert same_bits(found[...], expected)
    assert same_bits(found[:, 3:30:4, 100], expected[:, 3:30:4, 100])
    assert same_bits(found.oindex[[6, 2, 5], [1, 39], 5:80], expected[[6, 2, 5]][:, [1, 39], 5:80])
    picked = tuple(np.random.default_rng(0).integers(0, n, 50) for n in expected.shape)
    assert same_bits(found.vindex[picked], expected[picked])
    mask = np.random.default_rng(1).random(expected.shape) < 0.01
    assert same_bits(found.vindex[mask], expected[mask])


# ---------------------------------------------------------------------------- errors


def test_missing_chunk_is_fill_value():
    store = MemoryStore({"zarr.json": Buffer.from_bytes(
        array_metadata((6, 8), (3, 8), "i2", fill_value=-7).encode())})  # fmt: skip
    found = zarr.open_array(store, mode="r", zarr_format=3)
    assert (found[...] == -7).all()
    assert (found[1:4, 2] == -7).all()


def test_unreachable_target_is_an_error(serve, quantized):
    """A file that is not there is no missing chunk."""
    server = serve(image=quantized)
    refs = references(server.url("image"), quantized)
    del server.files["image"]
    found = open_references(refs)
    for key in [(...,), (slice(3, 5), slice(7, 9))]:
        with pytest.raises(Exception, match=r"Reference .* failed to fetch target"):
            found[key]


@pytest.mark.parametrize("key", [(...,), (slice(1, 5), slice(7, 9))])
@pytest.mark.parametrize(
    "shape, dtype, message",
    [
        ((40, 301), "i2", r"found an image of shape \(40, 300\), wanted the chunk's \(40, 301\)"),
        ((80, 300), "i2", r"found an image of shape \(40, 300\), wanted the chunk's \(80, 300\)"),
        ((12000,), "i2", r"found an image of shape \(40, 300\), wanted the chunk's \(12000,\)"),
        ((2, 40, 300), "i2", r"found an image of shape \(40, 300\), wanted the chunk's \(2, 40"),
        ((40, 300), "i4", "found scaled pixels of type int16, wanted int32"),
        ((40, 300), "u2", "found scaled pixels of type int16, wanted uint16"),
    ],
)
def test_other_image_than_the_array_says(key, shape, dtype, message):
    hdu = fc.encode_image(sample("i2", (40, 300)))
    store = memory(hdu, array_metadata(shape, shape, dtype))
    chunk = "/".join(["c"] + ["0"] * len(shape))
    store._store_dict[chunk] = Buffer.from_bytes(hdu)
    found = zarr.open_array(store, mode="r", zarr_format=3)
    key = key if key == (...,) else key[: len(shape)]
    with pytest.raises(fc.HeaderError, match=message):
        found[key]


@pytest.mark.parametrize("key", [(...,), (slice(3, 5), slice(7, 9))])
@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda h: h[:100], "chunk|wanted"),
        (lambda h: h[:-BLOCK], "found a header of an HDU of|bytes of the chunk, wanted"),
        (lambda h: b"X" * len(h), "chunk starts with b'XXXXXXXXXX', wanted the header of an HDU"),
        (lambda h: h.replace(b"RICE_1", b"MICE_1"), "ZCMPTYPE is 'MICE_1'"),
        (lambda h: h.replace(b"END     ", b"NED     "), "END"),
    ],
)
def test_damaged_chunk(key, damage, message):
    hdu = fc.encode_image(sample("i2", (40, 300)))
    store = memory(hdu)
    store._store_dict["c/0/0"] = Buffer.from_bytes(damage(hdu))
    found = zarr.open_array(store, mode="r", zarr_format=3)
    last = (slice(38, 40), slice(7, 9)) if len(damage(hdu)) < len(hdu) else key
    with pytest.raises(fc.FitsCodecsError, match=message):
        found[last if key != (...,) else key]


def test_error_names_chunk_and_tile(quantized):
    """Which chunk, which tile, what was found, what was wanted."""
    hdu = bytearray(fc.encode_image(sample("i2", (40, 300))))
    index = fc.open(PRIMARY + bytes(hdu), 1)
    row = index.hdu.data_start - BLOCK + 17 * index.structure.row_nbytes
    hdu[row : row + 4] = (10**6).to_bytes(4, "big")
    found = zarr.open_array(memory(bytes(hdu)), mode="r", zarr_format=3)
    with pytest.raises(fc.HeaderError, match=r"c/0/0: RICE_1 tile 17: descriptor .* wanted"):
        found[17, 3]
    assert found[16, 3] == index[16, 3]


# ---------------------------------------------------------------------------- changed files


def test_replaced_file_is_an_error(serve, quantized):
    """An HDU of another length at the place of the referenced one, on stock zarr and fsspec."""
    server = serve(image=quantized)
    refs = references(server.url("image"), quantized)
    server.files["image"] = PRIMARY + fc.encode_image(
        sample("f4", (1024, 1500), 9) * 30, quantize=fc.Quantize(level=16)
    )
    found = open_references(refs)
    for key in [(...,), (slice(3, 5), slice(7, 9))]:
        with pytest.raises(fc.HeaderError, match="not the one that was referenced"):
            found[key]


def checked(server, refs, **settings):
    """The array of references that are followed only while files are the same."""
    return open_references(refs, scheme="fitsref", **settings)


def recorded(refs, url, **facts):
    """References with facts of the file in the attributes of their root group."""
    group = {"zarr_format": 3, "node_type": "group",
             "attributes": {"fitscodecs_targets": {url: facts}}}  # fmt: skip
    return {**refs, "zarr.json": json.dumps(group)}


@pytest.mark.parametrize("fact", ["size", "etag"])
def test_checked_references(serve, quantized, fact):
    """The same HDU in a file of another size, or ETag, is an error as well."""
    server = serve(image=quantized)
    url = server.url("image")
    facts = {"size": len(quantized)} if fact == "size" else {"etag": f'"{hash(quantized):x}"'}
    refs = recorded(references(url, quantized), url, **facts)
    expected = fc.open(quantized)[...]
    assert same_bits(checked(server, refs)[3:5, 7:20], expected[3:5, 7:20])
    server.files["image"] = quantized + bytes(BLOCK)
    with pytest.raises(OSError, match=f"found {fact} .*, wanted .* when the references were made"):
        checked(server, refs)[3:5, 7:20]
    assert same_bits(open_references(refs)[3:5, 7:20], expected[3:5, 7:20])  # HDU is the same
    del server.files["image"]
    with pytest.raises(OSError, match="cannot be compared"):
        checked(server, refs)[3:5, 7:20]


def test_checked_references_compare_again(serve, quantized):
    """A file that changes under an open array: noticed at the next comparison."""
    server = serve(image=quantized)
    url = server.url("image")
    refs = recorded(references(url, quantized), url, size=len(quantized))
    found = checked(server, refs, recheck=0)
    found[3:5, 7:20]
    server.files["image"] = quantized + bytes(BLOCK)
    with pytest.raises(OSError, match="found size"):
        found[3:5, 7:20]
    server.files["image"] = quantized
    server.ranges()
    patient = checked(server, refs)
    patient[3:5, 7:20], patient[9:12, 7:20]
    assert sum(method == "HEAD" for method, *_ in server.log) == 1


def test_checked_references_of_local_files(tmp_path, quantized):
    import os

    from fitscodecs.references import time_text

    path = tmp_path / "image.fits"
    path.write_bytes(quantized)
    modified = time_text(os.stat(path).st_mtime)
    refs = recorded(references(str(path), path), str(path), size=len(quantized), modified=modified)
    expected = fc.open(path)[...]
    found = open_references(refs, protocol="file", scheme="fitsref", recheck=0)
    assert same_bits(found[3:5, 7:20], expected[3:5, 7:20])
    os.utime(path, (1, 1))
    with pytest.raises(OSError, match="found modified '1970"):
        found[3:5, 7:20]


def test_checked_references_need_facts(quantized, tmp_path):
    path = tmp_path / "image.fits"
    path.write_bytes(quantized)
    refs = references(str(path), path)
    with pytest.raises(ValueError, match="fitscodecs_targets"):
        reference_store(refs, protocol="file", scheme="fitsref")
    found = open_references(refs, protocol="file", scheme="fitsref", targets={"other": {"size": 1}})
    with pytest.raises(OSError, match="nothing was recorded of this file"):
        found[3:5, 7:20]


def test_checked_references_without_zarr(quantized, tmp_path):
    """The file system itself, as anyone uses it."""
    import fsspec

    path = tmp_path / "image.fits"
    path.write_bytes(quantized)
    refs = recorded(references(str(path), path), str(path), size=len(quantized))
    start, nbytes = place(path)
    fs = fsspec.filesystem("fitsref", fo=refs, remote_protocol="file", recheck=0)
    key = "SCI/c/0/0"
    for same in (key, f"fitsref://{key}"):
        assert fs.cat(same) == quantized[start : start + nbytes]
    assert fs.cat_file(key, 3, 9) == quantized[start + 3 : start + 9]
    with fs.open(key) as file:
        assert file.read(8) == b"XTENSION"
    path.write_bytes(quantized + b"more")
    for read in (fs.cat, fs.cat_file, fs.open):
        for same in (key, f"fitsref://{key}"):
            with pytest.raises(OSError, match="found size"):
                read(same)
    with pytest.raises(OSError, match="found size"):
        fs.cat(["zarr.json", f"fitsref://{key}"])


def test_checks_do_not_outlive_their_event_loop(quantized, tmp_path):
    import fsspec

    path = tmp_path / "image.fits"
    path.write_bytes(quantized)
    refs = recorded(references(str(path), path), str(path), size=len(quantized))
    fs = fsspec.filesystem("fitsref", fo=refs, remote_protocol="file", asynchronous=True)
    for _ in range(3):
        assert asyncio.run(fs._cat_file("SCI/c/0/0", 0, 8)) == b"XTENSION"
        gc.collect()
        assert len(fs._checks) == 0
    path.write_bytes(quantized + b"more")
    with pytest.raises(OSError, match="found size"):
        asyncio.run(fs._cat_file("SCI/c/0/0", 0, 8))
