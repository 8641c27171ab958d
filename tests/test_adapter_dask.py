# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""to_dask: blocks of whole tiles, in threads and in other processes."""

import gzip
import io
import math
import os
import pickle
import sys
import threading
import warnings

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.grid import block_shape
from fitscodecs.image import TiledImage
from fitscodecs.threads import THREADS
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.making import plain_hdu, sample
from tests.serving import FileServer

dask = pytest.importorskip("dask", reason="to_dask needs dask")
da = pytest.importorskip("dask.array", reason="to_dask needs the arrays of dask")

SHAPE, TILES = (210, 170), (40, 50)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def path(tmp_path):
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=3)
    path = tmp_path / "a.fits.fz"
    fc.write(path, sample("f4", SHAPE), tile_shape=TILES, quantize=quantize)
    return path


@pytest.fixture
def reads(monkeypatch):
    """What is asked of images: indexes and numbers of threads."""
    log, select = [], TiledImage.select

    def logged(self, key, threads=None):
        log.append((key, threads))
        return select(self, key, threads)

    monkeypatch.setattr(TiledImage, "select", logged)
    return log


# ---------------------------------------------------------------------------- chunks


@pytest.mark.parametrize(
    ("chunks", "want"),
    [
        ("auto", ((210,), (170,))),
        ("tiles", ((40, 40, 40, 40, 40, 10), (50, 50, 50, 20))),
        ("32kB", ((80, 80, 50), (100, 70))),
        ("1B", ((40, 40, 40, 40, 40, 10), (50, 50, 50, 20))),
        (-1, ((210,), (170,))),
        ((80, 100), ((80, 80, 50), (100, 70))),
        (("tiles", None), ((40, 40, 40, 40, 40, 10), (170,))),
        ({0: 120}, ((120, 90), (170,))),
        (((120, 90), "auto"), ((120, 90), (170,))),
    ],
)
def test_chunks(path, chunks, want):
    image = fc.open(path)
    array = image.to_dask(chunks)
    assert array.chunks == want
    assert (array.shape, array.dtype, array._meta.dtype) == (SHAPE, image.dtype, image.dtype)
    assert same_bits(array.compute(), image[...])


def test_auto_follows_the_configuration(path):
    with dask.config.set({"array.chunk-size": "20kB"}):
        array = fc.open(path).to_dask({0: 80, 1: "auto"})
    assert array.chunks == ((80, 80, 50), (50, 50, 50, 20))
    assert array.npartitions == 12


def test_cut_tiles_are_warned_of(path):
    image = fc.open(path)
    with pytest.warns(da.PerformanceWarning, match="24 tiles are decoded 32 times") as caught:
        array = image.to_dask((70, 100))
    assert caught[0].filename == __file__
    assert array.chunks[0] == (70, 70, 70)
    assert same_bits(array.compute(), image[...])


@pytest.mark.parametrize("chunks", [(1, 2, 3), "many", ((3, 4), 5)])
def test_wrong_chunks(path, chunks):
    with pytest.raises(ValueError, match=r"wanted 2|many|do not add up"):
        fc.open(path).to_dask(chunks)


def test_block_shape():
    """Blocks are whole tiles, hold what is asked if tiles are smaller, and are not half empty."""
    rng = np.random.default_rng(5)
    for _ in range(500):
        ndim = rng.integers(1, 5)
        shape = [int(n) for n in rng.integers(1, 200, ndim)]
        tiles = [int(rng.integers(1, n + 1)) for n in shape]
        npixels = int(rng.integers(1, 10**6))
        block = block_shape(shape, tiles, npixels)
        message = f"{shape} {tiles} {npixels}: {block}"
        for n, t, b in zip(shape, tiles, block, strict=True):
            assert b == n or b % t == 0, message
        assert math.prod(block) <= max(npixels, math.prod(tiles)), message
        if npixels >= math.prod(shape):
            assert list(block) == shape, message
    # Planes of a cube stay apart while they do not fit.
    assert block_shape((9, 100, 100), (1, 1, 100), 5000) == (1, 50, 100)
    assert block_shape((9, 100, 100), (1, 1, 100), 35000) == (3, 100, 100)


# ---------------------------------------------------------------------------- reading


def test_a_selection_reads_its_own_pixels(path, reads):
    array = fc.open(path).to_dask()
    want = fc.open(path).read()
    assert same_bits(array[45:60, 3:9].compute(), want[45:60, 3:9])
    assert [key for key, _ in reads] == [(slice(45, 60), slice(3, 9))]
    assert same_bits(array[::-3, [5, 1]].compute(), want[::-3, [5, 1]])


def test_blocks_share_threads(path, reads):
    """Eight blocks at a time ask for no more threads than the process has."""
    array = fc.open(path).to_dask("tiles")
    barrier = threading.Barrier(8)
    array = array.map_blocks(lambda block: (barrier.wait(30), block)[1], meta=array._meta)
    array.compute(scheduler="threads", num_workers=8)
    assert len(reads) == array.npartitions == 24
    assert {threads for _, threads in reads} <= set(range(1, THREADS + 1))


@pytest.mark.parametrize("scaled", [True, False])
def test_kinds_of_images(tmp_path, scaled):
    """Plain images, cubes, unsigned integers, one axis, no pixels."""
    arrays = [
        sample("i2", (40, 50)), sample("u2", (3, 20, 30)), sample("f8", (70,)),
        np.zeros((0, 5), "i4"),
    ]  # fmt: skip
    for array in arrays:
        if array.size:
            data = PRIMARY + fc.encode_image(array)
            image = fc.open(data, scaled=scaled)
            assert same_bits(image.to_dask("tiles").compute(), image[...])
    plain = fc.open(plain_hdu(arrays[0], True, [("BSCALE", 0.5)]), 0, scaled=scaled)
    assert same_bits(plain.to_dask((7, "auto")).compute(), plain[...])
    empty = fc.open(plain_hdu(arrays[3], True), 0, scaled=scaled)
    assert empty.to_dask().compute().shape == (0, 5)


# ---------------------------------------------------------------------------- names


def test_names(path):
    """The same pixels have the same name; others have another."""
    name = fc.open(path).to_dask().name
    assert fc.open(str(path)).to_dask().name == name
    assert fc.open(path).to_dask("tiles").name != name
    assert fc.open(path, scaled=False).to_dask().name != name
    data = path.read_bytes()
    assert fc.open(data).to_dask().name == fc.open(bytearray(data)).to_dask().name
    assert fc.open(data).to_dask().name != fc.open(data[:-2880] + bytes(2880)).to_dask().name
    file = fc.open(io.BytesIO(data))
    assert file.to_dask().name != file.to_dask().name  # who knows what is in it by now
    os.utime(path, (1, 1))
    assert fc.open(path).to_dask().name != name


def test_url(path):
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    data = path.read_bytes()
    server = FileServer(image=data)
    try:
        image = fc.open(server.url("image"))
        array = image.to_dask("tiles")
        assert fc.open(server.url("image")).to_dask("tiles").name == array.name
        copy = pickle.loads(pickle.dumps(array))
        assert same_bits(copy.compute(), fc.open(data)[...])
        server.files["image"] = data + bytes(2880)
        with pytest.raises(OSError, match="has changed since"):
            pickle.loads(pickle.dumps(array)).compute()
    finally:
        server.close()


# ---------------------------------------------------------------------------- processes


def test_graph_is_small(path):
    """Its size does not depend on the number of blocks."""
    image = fc.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", da.PerformanceWarning)
        arrays = [image.to_dask(chunks) for chunks in ((40, 50), (1, 2))]
    few, many = (len(pickle.dumps(array.dask)) for array in arrays)
    assert arrays[1].npartitions == 17850
    assert many < few + 100_000 and few < 2 * path.stat().st_size + 30_000
    assert [len(array.dask.layers) for array in arrays] == [2, 2]


def test_changed_file_is_noticed(path):
    array = fc.open(path).to_dask()
    sent = pickle.dumps(array)
    assert same_bits(pickle.loads(sent).compute(), fc.open(path)[...])
    os.utime(path, (1, 1))
    with pytest.raises(OSError, match="has changed since"):
        pickle.loads(sent).compute()


def test_file_that_was_replaced_before(path, tmp_path):
    """What is mapped counts, not what has its name by now."""
    image, want = fc.open(path), fc.open(path)[...]
    name = image.to_dask().name
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    with open(other, "r+b") as file:
        file.seek(-5000, 2)
        file.write(b"other pixels")
    os.replace(other, path)
    array = image.to_dask()
    assert array.name == name
    assert same_bits(array.compute(), want)
    assert fc.open(path).to_dask().name != name
    with pytest.raises(OSError, match="has changed since"):
        pickle.loads(pickle.dumps(array)).compute()


def test_file_of_the_same_size_and_time(path, tmp_path):
    """Names differ for another file in its place, whatever its time says."""
    image, before = fc.open(path), path.stat()
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert fc.open(path).to_dask().name != image.to_dask().name


def test_overwritten_file_is_noticed_here(tmp_path):
    """The pages of a mapped file change with it."""
    path = tmp_path / "plain.fits"
    path.write_bytes(plain_hdu(sample("i2", (40, 60)), primary=True))
    array = fc.open(path, 0).to_dask()
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(-100, 2)
        file.write(bytes(100))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    with pytest.raises(OSError, match="has changed since"):
        array.compute(scheduler="threads")


def test_gzipped_file_is_compared_as_well(path, tmp_path):
    """Workers inflate it again from its path."""
    packed = tmp_path / "a.fits.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    sent = pickle.dumps(fc.open(packed).to_dask())
    assert same_bits(pickle.loads(sent).compute(), fc.open(path)[...])
    fc.write(path, sample("f4", SHAPE, 5), overwrite=True)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(OSError, match="has changed since"):
        pickle.loads(sent).compute()


def test_file_objects_stay_here(path):
    with open(path, "rb") as file:
        array = fc.open(file).to_dask("tiles")
        assert same_bits(array.compute(), fc.open(path)[...])
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(array)


def block_facts(block):
    """The process that computes a block, and how many threads it may have."""
    from fitscodecs.adapters.dask import allotted_threads

    return np.array([[(os.getpid(), allotted_threads())]], "i8,i8").view("i8").reshape(1, 2)


def test_two_processes(path):
    distributed = pytest.importorskip("distributed", reason="clusters need distributed")
    image = fc.open(path)
    want = image[...]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        array = image.to_dask("tiles")
        assert same_bits(client.compute(array).result(60), want)
        total = client.compute(array.astype("f8").sum()).result(60)
        assert np.isclose(total, want.astype("f8").sum())
        facts = array.map_blocks(block_facts, dtype="i8", chunks=((1,) * 6, (2,) * 4))
        facts = client.compute(facts).result(60)
        pids, threads = facts[:, ::2], facts[:, 1::2]
        assert len(np.unique(pids)) == 2 and os.getpid() not in pids
        assert (threads == 1).all()
        same = client.compute(fc.open(path.read_bytes()).to_dask()).result(60)
        assert same_bits(same, want)


def test_dask_is_missing(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fitscodecs.adapters.dask", None)
    with pytest.raises(ImportError, match=r"needs dask: pip install 'fitscodecs\[dask\]'"):
        fc.open(path).to_dask()
