# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""References read by fsspec and stock zarr: pixels, cubes, few requests, Parquet."""

import json
import warnings

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.hdu import walk
from fitscodecs.header import is_compressed, is_plain_image
from fitscodecs.references import describe_file
from fitscodecs.source import open_source
from fitscodecs.virtual import VirtualGroup, stack
from tests.conftest import same_bits, shared_files
from tests.making import plain_hdu, sample, write_compressed

zarr = pytest.importorskip("zarr", minversion="3", reason="references are read by zarr 3")
fsspec = pytest.importorskip("fsspec", reason="references are read by fsspec")

from fitscodecs.adapters.kerchunk import (  # noqa: E402
    process_file,
    process_files,
    write_json,
    write_parquet,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore:.*Zarr:UserWarning"
)


def open_references(refs, zarr_format=3, protocol=None, **settings):
    """What stock fsspec and zarr make of references: a dictionary, or the path of some."""
    options = {"remote_options": {"asynchronous": True}, "asynchronous": True}
    options["remote_protocol"] = protocol
    options["fo"] = refs if isinstance(refs, dict) else str(refs)
    fs = fsspec.filesystem("reference", skip_instance_cache=True, **options)
    store = zarr.storage.FsspecStore(fs, read_only=True, path="")
    return zarr.open_group(store, mode="r", zarr_format=zarr_format, **settings)


@pytest.fixture
def parquet():
    pytest.importorskip("kerchunk", reason="fsspec writes Parquet references with kerchunk")
    pytest.importorskip("pandas", reason="Parquet references need pandas")
    pytest.importorskip("fastparquet", reason="fsspec reads Parquet references with fastparquet")


def image_hdus(path):
    return [
        hdu
        for hdu in walk(open_source(path))
        if is_compressed(hdu.header) or is_plain_image(hdu.header)
    ]


def packed(path, array, *cards, codec=None, tile_shape=None, quantize=None, wide=False):
    return write_compressed(path, array, codec or fc.Gzip1(), tile_shape or array.shape,
                            list(cards), quantize, wide)  # fmt: skip


# ---------------------------------------------------------------------------- one file


@pytest.mark.parametrize("path", shared_files("real"))
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_real_file(path, zarr_format):
    """Every image HDU equals what `fitscodecs.open` gives."""
    hdus = image_hdus(path)
    if not hdus:
        with pytest.raises(fc.HeaderError, match="found no image"):
            process_file(path, extension="*", zarr_format=zarr_format)
        return
    refs = process_file(path, extension="*", zarr_format=zarr_format)
    names = list(describe_file(path).group.arrays)
    group = open_references(json.loads(json.dumps(refs)), zarr_format)
    for name, hdu in zip(names, hdus, strict=True):
        want = fc.open(path, hdu=hdu.index)[...]
        got = group[name]
        assert (got.shape, got.dtype) == (want.shape, want.dtype), name
        assert same_bits(got[...], want), name


@pytest.mark.parametrize("path", shared_files("real"))
def test_real_file_in_parquet(path, tmp_path, parquet):
    """One folder, read as zarr 3 and as zarr 2."""
    hdus = image_hdus(path)
    if not hdus:
        return
    group = describe_file(path).group
    write_parquet(group, tmp_path / "a.parquet")
    for settings in ({"zarr_format": 3}, {"zarr_format": 2, "use_consolidated": False}):
        opened = open_references(tmp_path / "a.parquet", **settings)
        for name, hdu in zip(group.arrays, hdus, strict=True):
            want = fc.open(path, hdu=hdu.index)[...]
            assert same_bits(opened[name][...], want), name


def test_unscaled(tmp_path):
    array = sample("int16", (20, 30))
    path = tmp_path / "a.fits"
    path.write_bytes(plain_hdu(array, True, [("BSCALE", 0.5), ("BZERO", 10.0), ("BLANK", 0)]))
    want = fc.open(path, hdu=0)[...]
    assert np.isnan(want).any()
    for zarr_format in (2, 3):
        got = open_references(process_file(path, zarr_format=zarr_format), zarr_format)
        assert same_bits(got["PRIMARY"][...], want)
        got = open_references(
            process_file(path, zarr_format=zarr_format, scaled=False), zarr_format
        )
        assert same_bits(got["PRIMARY"][...], array)


def test_xarray(tmp_path):
    """xarray gives names of axes, attributes, and undefined pixels of integers as NaN."""
    xr = pytest.importorskip("xarray", reason="xarray opens references")
    array = sample("int16", (20, 30))
    path = tmp_path / "a.fits"
    cards = [("BSCALE", 0.5), ("BZERO", 10.0), ("BLANK", 0), ("BUNIT", "adu")]
    path.write_bytes(plain_hdu(array, True, cards))
    want = fc.open(path, hdu=0)[...]
    for zarr_format in (2, 3):
        for scaled in (True, False):
            refs = process_file(path, zarr_format=zarr_format, scaled=scaled)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                data = xr.open_dataset(
                    "reference://", engine="zarr", consolidated=False,
                    backend_kwargs={"zarr_format": zarr_format, "storage_options": {
                        "fo": refs, "asynchronous": True,
                        "remote_options": {"asynchronous": True}}},
                )["PRIMARY"]  # fmt: skip
            assert data.dims == ("y", "x")
            assert data.attrs["BUNIT"] == "adu"
            np.testing.assert_allclose(data.values, want, rtol=1e-6)


def test_zeros_are_pixels(tmp_path):
    """The fill value of zarr v2 masks pixels in xarray: integers must not have one."""
    xr = pytest.importorskip("xarray", reason="xarray opens references")
    array = sample("int16", (20, 30))
    assert (array == 0).any()
    refs = process_file(packed(tmp_path / "a.fits", array, ("EXTNAME", "A")), zarr_format=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = xr.open_dataset(
            "reference://", engine="zarr", consolidated=False,
            backend_kwargs={"zarr_format": 2, "storage_options": {
                "fo": refs, "asynchronous": True, "remote_options": {"asynchronous": True}}},
        )["A"]  # fmt: skip
        assert same_bits(data.values, array)


def test_out(tmp_path):
    path = packed(tmp_path / "a.fits", sample("int16", (4, 5)))
    out = {}
    assert process_file(path, out=out) is out
    assert out == process_file(path)
    assert set(process_file(path, zarr_format=2)) >= {".zgroup", "1/.zarray", "1/0.0"}


def test_arguments_are_those_of_kerchunk():
    module = pytest.importorskip(
        "kerchunk.fits", reason="compared with kerchunk, which needs astropy"
    )
    import inspect

    theirs = inspect.signature(module.process_file).parameters
    ours = inspect.signature(process_file).parameters
    assert [(p.name, p.default) for p in theirs.values()] == [
        (p.name, p.default) for p in list(ours.values())[: len(theirs)]
    ]


def test_inline(tmp_path):
    array = sample("int16", (20, 30))
    path = packed(tmp_path / "a.fits", array)
    refs = process_file(path, inline_threshold=10**6)
    assert refs["1/c/0/0"].startswith("base64:")
    path.unlink()
    assert same_bits(open_references(refs)["1"][...], array)


# ---------------------------------------------------------------------------- Parquet


def test_parquet(tmp_path, parquet):
    """One set of references, which both formats of zarr read."""
    array = sample("float32", (20, 30))
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=3)
    groups, want = [], []
    for i in range(5):
        path = packed(tmp_path / f"{i}.fits", array + i, ("EXTNAME", "A"), codec=fc.Rice1(),
                      tile_shape=(1, 30), quantize=quantize)  # fmt: skip
        groups.append(describe_file(path).group)
        want.append(fc.open(path)[...])
    times = np.array([f"2024-01-0{i}" for i in range(1, 6)])
    group = stack(groups, "t")
    group = VirtualGroup(
        {"A": 1}, group.arrays, targets=group.targets,
        literals={"DATE": (times, ("t",)), "N": (np.arange(5), ("t",))},
    )  # fmt: skip
    write_parquet(group, tmp_path / "refs.parquet")
    for settings in ({"zarr_format": 3}, {"zarr_format": 2, "use_consolidated": False}):
        opened = open_references(tmp_path / "refs.parquet", protocol="file", **settings)
        assert opened.attrs["A"] == 1
        assert opened["A"].shape == (5, 20, 30)
        assert same_bits(opened["A"][...], np.array(want))
        assert list(opened["DATE"][...]) == list(times)
        assert list(opened["N"][...]) == list(range(5))
    assert set(opened.attrs["fitscodecs_targets"]) == set(group.targets)
    cube = open_references(tmp_path / "refs.parquet", protocol="file")["A"]
    assert same_bits(cube[2, 4:6, ::7], want[2][4:6, ::7])
    mapper = fsspec.implementations.reference.LazyReferenceMapper(
        str(tmp_path / "refs.parquet"), fs=fsspec.filesystem("file")
    )
    listed = [value[0] for value in mapper.values() if isinstance(value, list)]
    assert {url for url in listed if url} == set(group.targets)  # no NaN, where fsspec would fail
    with pytest.raises(FileExistsError):
        write_parquet(group, tmp_path / "refs.parquet")
    write_parquet(groups[0], tmp_path / "refs.parquet", overwrite=True)
    assert same_bits(open_references(tmp_path / "refs.parquet")["A"][...], want[0])
    with pytest.raises(ValueError, match="no groups in a group"):
        write_parquet(VirtualGroup(groups={"x": group}), tmp_path / "none.parquet")
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="no folder of references"):
        write_parquet(group, tmp_path / "mine", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.endswith(".fits")) == [
        "mine", "refs.parquet"
    ]  # fmt: skip


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_mapper(tmp_path, parquet, zarr_format):
    """The mapper of fsspec as `out`, which is how kerchunk writes Parquet."""
    from fsspec.implementations.reference import LazyReferenceMapper

    array = sample("int16", (20, 30))
    path = packed(tmp_path / "a.fits", array, ("EXTNAME", "A"))
    out = LazyReferenceMapper.create(str(tmp_path / "p"), fs=fsspec.filesystem("file"))
    assert process_file(path, out=out, zarr_format=zarr_format) is out
    assert same_bits(open_references(tmp_path / "p", zarr_format)["A"][...], array)


def test_json_file(tmp_path):
    array = sample("int16", (20, 30))
    group = describe_file(packed(tmp_path / "a.fits", array, ("EXTNAME", "A"))).group
    nested = VirtualGroup(groups={"x": group, "y": group})
    for zarr_format in (2, 3):
        path = tmp_path / f"{zarr_format}.json"
        write_json(nested, path, zarr_format=zarr_format)
        assert same_bits(open_references(path, zarr_format)["y/A"][...], array)
        with pytest.raises(FileExistsError):
            write_json(nested, path)


# ---------------------------------------------------------------------------- many files


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    return write_night(tmp_path_factory.mktemp("night"), 200)


def write_night(folder, number):
    """Files of one shape; headers, seeds, tiles and column orders differ."""
    array, paths = sample("float32", (16, 24)), []
    for i in range(number):
        method = ("SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2", "NO_DITHER")[i % 3]
        quantize = fc.Quantize(level=4, method=method, seed=1 + 37 * i)
        cards = [("EXTNAME", "SCI"), ("OBSID", i), ("FILTER", "r")]
        cards += [(f"KEY{n}", n) for n in range(3 * (i % 50))]
        path = packed(folder / f"obs{i:03d}.fits", array + i, *cards, codec=fc.Rice1(),
                      tile_shape=(1 + i % 4, 24), quantize=quantize, wide=bool(i % 2))  # fmt: skip
        if i % 5 == 0:
            reorder_columns(path)
        paths.append(path)
    return paths


def reorder_columns(path):
    """Put the descriptors of a compressed image behind its scales, of 16 bytes together."""
    hdu = list(walk(open_source(path.read_bytes())))[1]
    content = path.read_bytes()
    moved = {f"{what}{old}".ljust(8): f"{what}{new}".ljust(8)
             for what in ("TTYPE", "TFORM") for old, new in ((1, 3), (2, 1), (3, 2))}  # fmt: skip
    lines = [hdu.raw[i : i + 80].decode() for i in range(0, len(hdu.raw), 80)]
    header = "".join(moved.get(line[:8], line[:8]) + line[8:] for line in lines).encode()
    nrows, width = hdu.header["NAXIS2"], hdu.header["NAXIS1"]
    stop = hdu.data_start + nrows * width
    rows = np.frombuffer(content[hdu.data_start : stop], np.uint8).reshape(nrows, width)
    table = np.roll(rows, 16, axis=1).tobytes()
    path.write_bytes(content[: hdu.start] + header + table + content[stop:])


def test_cube(night, tmp_path):
    """One array of 200 files that differ in everything but shape."""
    headers = [list(walk(open_source(path)))[1] for path in night]
    assert len({hdu.data_start for hdu in headers}) > 2
    assert len({hdu.header["TTYPE1"] for hdu in headers}) == 2
    assert len({hdu.header.get("ZDITHER0") for hdu in headers}) > 100
    refs = process_files(night, new_axis="time")
    assert len(json.dumps(refs)) < 100_000
    cube = open_references(refs)["SCI"]
    want = np.array([fc.open(path)[...] for path in night])
    assert cube.shape == (200, 16, 24)
    assert same_bits(cube[...], want)
    assert same_bits(cube[17:190:13, 3:5, ::7], want[17:190:13, 3:5, ::7])
    assert cube.attrs["FILTER"] == "r"
    assert "OBSID" not in cube.attrs
    assert cube.metadata.dimension_names == ("time", "y", "x")
    with pytest.raises(TypeError, match=r"found 'night/\*.fz', wanted a list of paths"):
        process_files("night/*.fz", new_axis="time")
    long = open_references(process_files(night[:20], axis="y"))["SCI"]
    assert same_bits(long[...], np.concatenate(want[:20]))
    old = open_references(process_files(night[:20], new_axis="t", zarr_format=2), 2)["SCI"]
    assert same_bits(old[...], want[:20])


def test_combined_by_kerchunk(night):
    """kerchunk itself combines references of the older format."""
    combine = pytest.importorskip("kerchunk.combine", reason="kerchunk combines references")
    refs = [json.loads(json.dumps(process_file(path, zarr_format=2))) for path in night[:4]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        combined = combine.MultiZarrToZarr(
            refs, concat_dims=["t"], coo_map={"t": "INDEX"}, remote_protocol="file"
        ).translate()
    array = open_references(combined["refs"], 2)["SCI"]
    assert same_bits(array[...], np.array([fc.open(path)[...] for path in night[:4]]))


def test_files_that_cannot_be_combined(night, tmp_path):
    other = packed(tmp_path / "other.fits", sample("float32", (16, 25)), ("EXTNAME", "SCI"))
    with pytest.raises(fc.FitsCodecsError, match=r"other.fits: SCI: shape \(16, 25\), wanted \(16"):
        process_files([night[0], other], new_axis="t")
    (tmp_path / "text.fits").write_text("hello")
    with pytest.raises(fc.HeaderError, match=r"text.fits: file starts with b'hello'"):
        process_files([night[0], tmp_path / "text.fits"], new_axis="t")
    with pytest.raises(FileNotFoundError, match=r"none\.fits"):
        process_files([tmp_path / "none.fits"], new_axis="t")
    with pytest.raises(TypeError, match="either new_axis or axis"):
        process_files(night)


# ---------------------------------------------------------------------------- remote


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")
    from tests.folder_server import FolderServer

    with FolderServer(tmp_path) as server:
        yield server


def test_requests_for_references(tmp_path, server):
    """A file costs one range request for its headers, and a question for its size."""
    packed(tmp_path / "a.fits", sample("int16", (300, 400)), tile_shape=(1, 400))
    process_file(server.url("a.fits"))
    assert [entry.method for entry in server.log] == ["GET", "HEAD"]
    assert server.log[0].nbytes <= 8 * 2880


def test_targets_over_http(tmp_path, server):
    path = packed(tmp_path / "a.fits", sample("int16", (30, 40)))
    refs = process_file(server.url("a.fits"))
    targets = json.loads(refs["zarr.json"])["attributes"]["fitscodecs_targets"]
    facts = targets[server.url("a.fits")]
    assert facts["size"] == path.stat().st_size
    assert facts["etag"] == server.etag("a.fits")
    assert facts["modified"].startswith("20")


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_cutout_over_http(tmp_path, server, kind, request):
    """A cutout through references: its header and table, and the bytes of its tiles."""
    array = sample("float32", (1024, 1500))
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=7)
    path = packed(tmp_path / "a.fits", array, ("EXTNAME", "A"), codec=fc.Rice1(),
                  tile_shape=(1, 1500), quantize=quantize)  # fmt: skip
    want = fc.open(path)[300:340, 700:900]
    group = describe_file(server.url("a.fits")).group
    if kind == "json":
        write_json(group, refs := tmp_path / "refs.json")
    else:
        request.getfixturevalue("parquet")
        write_parquet(group, refs := tmp_path / "refs.parquet")
    server.log.clear()
    assert same_bits(open_references(refs)["A"][300:340, 700:900], want)
    assert len(server.log) <= 3, server.log
    assert sum(entry.nbytes for entry in server.log) <= 0.15 * path.stat().st_size
