# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""open_dataset: references and stores of every kind, in blocks of whole tiles."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.references import describe_file
from fitscodecs.virtual import VirtualGroup, stack
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.folder_server import FolderServer
from tests.making import plain_hdu, sample
from tests.serving import FileServer

for package in ("xarray", "zarr", "dask.array", "fsspec"):
    pytest.importorskip(package, reason="datasets need xarray, zarr, dask and fsspec")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import zarr  # noqa: E402
from astropy.io import fits  # noqa: E402

from fitscodecs.adapters.kerchunk import (  # noqa: E402
    process_file,
    process_files,
    write_json,
    write_parquet,
)
from fitscodecs.adapters.xarray import open_dataset  # noqa: E402

SHAPE, TILES = (60, 50), (10, 25)

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:The 'fastparquet' engine"),
]


def write_file(path, number, tiles=TILES, name="SCI"):
    array = sample("f4", SHAPE, number)
    fc.write(path, array, {"EXTNAME": name}, tile_shape=tiles)
    return array


@pytest.fixture
def night(tmp_path):
    """Three files of equal tiles, and their pixels."""
    paths = [tmp_path / f"{i}.fits.fz" for i in range(3)]
    return paths, np.stack([write_file(path, i) for i, path in enumerate(paths)])


# ---------------------------------------------------------------------------- carriers


def cube(paths):
    return stack([describe_file(path).group for path in paths], "time")


def as_mapping(paths, folder):
    return process_files(paths, new_axis="time")


def as_json(paths, folder):
    write_json(cube(paths), folder / "night.json")
    return folder / "night.json"


def as_parquet(paths, folder):
    pytest.importorskip("fastparquet", reason="Parquet references need fastparquet")
    write_parquet(cube(paths), folder / "night.parquet")
    return str(folder / "night.parquet")


def as_repository(paths, folder):
    pytest.importorskip("icechunk", reason="repositories are icechunk's")
    from fitscodecs.adapters.icechunk import open_repository, quiet, write_icechunk

    quiet()
    write_icechunk(cube(paths), folder / "night.icechunk")
    with pytest.raises(ValueError, match="wanted what open_repository"):
        open_dataset(folder / "night.icechunk")
    return open_repository(folder / "night.icechunk")


def as_session(paths, folder):
    return as_repository(paths, folder).readonly_session("main")


def as_manifests(paths, folder):
    pytest.importorskip("virtualizarr", reason="ManifestStore is VirtualiZarr's")
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.manifests import ManifestGroup, ManifestStore

    from fitscodecs.adapters.virtualizarr import manifest_array

    group = cube([f"file://{path}" for path in paths])
    arrays = {name: manifest_array(array, False) for name, array in group.arrays.items()}
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    return ManifestStore(ManifestGroup(arrays), registry=registry)


def as_zarr(paths, folder):
    import zarr

    from fitscodecs.adapters.zarr import FitsTiled

    group = zarr.create_group(folder / "night.zarr")
    array = group.create_array(
        "SCI", shape=(3, *SHAPE), chunks=(1, *SHAPE), dtype="f4", compressors=None,
        serializer=FitsTiled(tile_shape=TILES), dimension_names=["time", "y", "x"],
    )  # fmt: skip
    array[...] = np.stack([fc.open(path)[...] for path in paths])
    return str(folder / "night.zarr")


CARRIERS = [as_mapping, as_json, as_parquet, as_repository, as_session, as_manifests, as_zarr]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_carriers(night, tmp_path, carrier):
    paths, want = night
    target = carrier(paths, tmp_path)
    data = open_dataset(target, "8kB")
    assert data["SCI"].chunks == ((1, 1, 1), (40, 20), (50,))
    assert dict(data.chunks) == {"time": (1, 1, 1), "y": (40, 20), "x": (50,)}
    assert same_bits(data["SCI"].values, want)
    lazy = open_dataset(target, None)
    assert lazy["SCI"].chunks is None
    assert same_bits(lazy["SCI"][1, 5:9].values, want[1, 5:9])


# ---------------------------------------------------------------------------- blocks


@pytest.mark.parametrize(
    ("chunks", "want"),
    [
        ("auto", ((3,), (60,), (50,))),
        ("tiles", ((1, 1, 1), (10,) * 6, (25, 25))),
        ("30kB", ((2, 1), (60,), (50,))),  # whole HDUs
        ({"time": -1}, ((3,), (60,), (50,))),
        ({"time": 1, "x": "tiles"}, ((1, 1, 1), (60,), (25, 25))),
        ({"y": (20, 40), "x": "auto"}, ((3,), (20, 40), (50,))),
    ],
)
def test_chunks(night, chunks, want):
    paths, pixels = night
    data = open_dataset(process_files(paths, new_axis="time"), chunks)
    assert data["SCI"].chunks == want
    assert data["SCI"].dtype == "f4" and same_bits(data["SCI"].values, pixels)


def test_auto_follows_the_configuration(night):
    refs = process_files(night[0], new_axis="time")
    with dask.config.set({"array.chunk-size": "5kB"}):
        assert open_dataset(refs)["SCI"].data.chunksize == (1, 20, 50)


def test_cut_tiles_are_warned_of(night):
    refs = process_files(night[0], new_axis="time")
    with pytest.warns(da.PerformanceWarning, match="SCI: .* 36 tiles are decoded 48") as caught:
        data = open_dataset(refs, {"y": 15, "x": -1})
    assert caught[0].filename == __file__
    assert same_bits(data["SCI"].values, night[1])
    with pytest.raises(ValueError, match="chunks for z, wanted some of time, y, x"):
        open_dataset(refs, {"z": 1})


def test_images_of_one_file_have_the_same_blocks(tmp_path):
    """Types and tiles differ; blocks are whole tiles of all."""
    hdus = [("SCI", "f4", (4, 50)), ("DQ", "i2", (6, 50)), ("VAR", "f8", (60, 10))]
    data = PRIMARY + b"".join(
        fc.encode_image(sample(dtype, SHAPE), {"EXTNAME": name}, tile_shape=tiles)
        for name, dtype, tiles in hdus
    )
    path = tmp_path / "a.fits"
    path.write_bytes(data)
    dataset = open_dataset(process_file(path, extension="*"), {"y": "tiles"})
    assert {v.chunks for v in dataset.data_vars.values()} == {((60,), (50,))}
    two = open_dataset(process_file(path, extension=["SCI", "DQ"]), "tiles")
    assert dict(two.chunks) == {"y": (12,) * 5, "x": (50,)}
    for name, dtype, _ in hdus:
        assert same_bits(dataset[name].values, sample(dtype, SHAPE))


def test_tiles_that_differ(tmp_path):
    """Then those of the first file are looked up in its header."""
    paths = [tmp_path / f"{i}.fits.fz" for i in range(2)]
    pixels = [write_file(path, i, (6 * (i + 1), 50)) for i, path in enumerate(paths)]
    refs = process_files(paths, new_axis="time")
    assert "tile_shape" not in refs["SCI/zarr.json"]
    data = open_dataset(refs, {"time": 1, "y": "tiles"})
    assert data["SCI"].chunks == ((1, 1), (6,) * 10, (50,))
    assert same_bits(data["SCI"].values, np.stack(pixels))
    del refs["SCI/c/0/0/0"]
    without = open_dataset(refs, "tiles")["SCI"]
    assert without.chunks == ((1, 1), (60,), (50,))
    assert np.isnan(without[0].values).all() and same_bits(without[1].values, pixels[1])


def test_format_2_has_whole_hdus(night):
    """Its readers decode whole ones, so blocks are that."""
    refs = process_files(night[0], new_axis="time", zarr_format=2)
    data = open_dataset(refs, "tiles")
    assert data["SCI"].chunks == ((1, 1, 1), (60,), (50,))
    assert same_bits(data["SCI"].values, night[1])


def test_other_variables(night, tmp_path):
    """Coordinates and small variables have no blocks."""
    import zarr

    target = as_zarr(night[0], tmp_path)
    group = zarr.open_group(target)
    times = group.create_array("time", shape=(3,), dtype="f8", dimension_names=["time"])
    times[...] = [1, 2, 4]
    group.create_array("DATE", shape=(3,), dtype="f8", dimension_names=["time"])
    group.create_array("LONG", shape=(3, 70), chunks=(1, 30), dtype="i2",
                       dimension_names=["time", "z"])  # fmt: skip
    data = open_dataset(target, "tiles")
    assert data["DATE"].chunks is None
    assert data["LONG"].chunks == ((1, 1, 1), (30, 30, 10))
    assert same_bits(data["SCI"].sel(time=4).values, night[1][2])


# ---------------------------------------------------------------------------- places


def test_over_http(night):
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    paths, want = night
    server = FileServer(**{path.name: path.read_bytes() for path in paths})
    try:
        urls = [server.url(path.name) for path in paths]
        refs = process_files(urls, new_axis="time")
        data = open_dataset(refs, "8kB")
        server.ranges()
        assert same_bits(data["SCI"][1, 3:9].values, want[1, 3:9])
        assert len(server.ranges()) == 2  # table and tiles of one file
        assert same_bits(open_dataset(refs, checked=True)["SCI"].values, want)
        server.files[paths[0].name] += bytes(2880)
        with pytest.raises(OSError, match="found size"):
            open_dataset(refs, checked=True)["SCI"].values  # noqa: B018
        mixed = dict(refs, **{"SCI/c/0/0/0": [str(paths[0]), *refs["SCI/c/0/0/0"][1:]]})
        with pytest.raises(ValueError, match="files of file, http, wanted one"):
            open_dataset(mixed)
        server.files["night.json"] = json.dumps({"version": 1, "refs": refs}).encode()
        assert same_bits(open_dataset(server.url("night.json"))["SCI"][2].values, want[2])
    finally:
        server.close()


def test_two_processes(night, tmp_path):
    distributed = pytest.importorskip("distributed", reason="clusters need distributed")
    paths, want = night
    targets = [as_mapping(paths, tmp_path), as_json(paths, tmp_path)]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for target in targets:
            data = open_dataset(target, "tiles")
            assert same_bits(client.compute(data["SCI"]).result(60).values, want)
            pids = data["SCI"].data.map_blocks(
                lambda block: np.full((1, 1, 1), os.getpid()), dtype="i8", chunks=(1, 1, 1)
            )
            pids = client.compute(pids).result(60)
            assert os.getpid() not in pids and len(np.unique(pids)) == 2


# ---------------------------------------------------------------------------- values


def linear_file(path, bscale, bzero, start=0):
    pixels = np.arange(start, start + 12, dtype="i2").reshape(3, 4)
    path.write_bytes(plain_hdu(pixels, True, [("BSCALE", bscale), ("BZERO", bzero)]))


def test_scaling_that_is_left_to_readers(tmp_path):
    """Equal BSCALE and BZERO become attributes; files that differ do not go into one array."""
    for name, bzero in (("a", 10.0), ("b", 10.0), ("c", 500.0)):
        linear_file(tmp_path / f"{name}.fits", 2.0, bzero)
    a, b, c = (tmp_path / f"{name}.fits" for name in "abc")
    same = open_dataset(process_files([a, b], new_axis="t", scaled=False), chunks=None)
    assert same.PRIMARY[1, 0].values.tolist() == [10, 12, 14, 16]
    with pytest.raises(fc.FitsCodecsError, match=r"BSCALE 2.0 and BZERO 500.0, wanted .*BZERO 10"):
        process_files([a, c], new_axis="t", scaled=False)
    both = open_dataset(process_files([a, c], new_axis="t"), chunks=None)
    assert both.PRIMARY[1, 0].values.tolist() == [500, 502, 504, 506]


def test_undefined_pixels_beyond_2_53(tmp_path):
    """A null integer that float64 cannot tell from its neighbours is no _FillValue."""
    path = tmp_path / "a.fits"
    pixels = np.arange(2**63, 2**63 + 12, dtype="u8").reshape(3, 4)
    fc.write(path, pixels, {"BLANK": 5}, compression="GZIP_1")
    data = open_dataset(process_file(path), chunks=None)
    (name,) = data.data_vars
    assert data[name].dtype == np.uint64
    assert data[name].values.tolist() == pixels.tolist()
    assert data[name].attrs["fitscodecs_undefined"] == 2**63 + 5


@pytest.mark.parametrize("name", ["\\b", "a\\b", "a/b", "..", "a\tb"])
def test_names_are_found(tmp_path, name):
    path = tmp_path / "a.fits"
    fc.write(path, np.ones((3, 4), "i2"))
    fits.setval(path, "EXTNAME", value=name.replace("\t", " "), ext=1)
    assert len(open_dataset(process_file(path), chunks=None).data_vars) == 1


# ---------------------------------------------------------------------------- groups, URLs


def test_groups(night, tmp_path):
    paths, pixels = night
    groups = {name: describe_file(paths[i]).group for i, name in enumerate(["image", "cube"])}
    write_json(VirtualGroup(groups=groups), tmp_path / "groups.json")
    data = open_dataset(tmp_path / "groups.json", group="cube")
    assert same_bits(data.SCI.values, pixels[1])
    with pytest.raises(ValueError, match=r"the groups image, cube .* say group="):
        open_dataset(tmp_path / "groups.json")


def test_parquet_at_a_url(night, tmp_path):
    """A variable in the references has records with an empty path; a server lists nothing."""
    pytest.importorskip("aiohttp", reason="fsspec needs it for URLs")
    paths, pixels = night
    with FolderServer(tmp_path) as server:
        group = cube([server.url(path.name) for path in paths])
        kept = replace(group, literals={"A": (np.array(["x", "y", "z"]), ("time",))})
        write_parquet(kept, tmp_path / "night.parquet")
        for target in (tmp_path / "night.parquet", server.url("night.parquet")):
            data = open_dataset(target, chunks=None)
            assert same_bits(data.SCI.values, pixels)
            assert data.A.values.tolist() == ["x", "y", "z"]


# ---------------------------------------------------------------------------- what is refused


def test_files_are_no_references(night, tmp_path):
    paths, _ = night
    (tmp_path / "a.json").write_text("[]")
    for target in (paths[0], "https://example.org/a.fits.fz", tmp_path / "a.json"):
        with pytest.raises(ValueError, match=r"found no references, wanted .*to_dask\(\)"):
            open_dataset(target)


def test_checked_needs_references():
    store = zarr.storage.MemoryStore()
    zarr.create_group(store)
    with pytest.raises(ValueError, match="wanted references"):
        open_dataset(store, checked=True)


def test_parquet_in_a_folder_with_a_pattern(night, tmp_path):
    paths, pixels = night
    target = tmp_path / "o[1]*.parquet"
    write_parquet(cube(paths), target)
    assert same_bits(open_dataset(target, chunks=None).SCI.values, pixels)


@pytest.mark.parametrize(
    ("chunks", "want"),
    [
        (-1, ((3,), (60,), (50,))),
        (20, ((3,), (20, 20, 20), (20, 20, 10))),
        ({"y": None, "x": 25}, ((3,), (60,), (25, 25))),
        ({"time": 1, "y": (20, 40), "x": -1}, ((1, 1, 1), (20, 40), (50,))),
    ],
)
@pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")
def test_lengths_of_blocks(night, chunks, want):
    paths, pixels = night
    data = open_dataset(as_mapping(paths, None), chunks)
    assert data.SCI.chunks == want
    assert same_bits(data.SCI.values, pixels)


@pytest.mark.parametrize(
    ("chunks", "error", "message"),
    [
        ({"y": 0}, ValueError, "chunks 0 for y"),
        ({"y": "10kB"}, ValueError, "chunks '10kB' for y"),
        ({"y": (20, 20)}, ValueError, "for y of length 60"),
        ({"z": 3}, ValueError, "found chunks for z"),
        ((1, 16, 25), TypeError, "wanted 'auto'"),
    ],
)
def test_lengths_that_are_none(night, chunks, error, message):
    with pytest.raises(error, match=message):
        open_dataset(as_mapping(night[0], None), chunks)
