# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""VirtualiZarr and icechunk: virtual datasets of files, combined, written, read."""

import inspect
import os
import pickle

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.hdu import walk
from fitscodecs.header import is_compressed, is_plain_image
from fitscodecs.references import describe_file
from fitscodecs.source import open_source
from fitscodecs.virtual import VirtualGroup, stack
from tests.conftest import same_bits, shared_files
from tests.folder_server import FolderServer
from tests.making import plain_hdu, sample, write_compressed
from tests.test_kerchunk import open_references

xr = pytest.importorskip("xarray", reason="virtual datasets are xarray's")
zarr = pytest.importorskip("zarr", minversion="3", reason="virtual arrays are read by zarr 3")
virtualizarr = pytest.importorskip("virtualizarr", reason="VirtualiZarr makes virtual datasets")
from obspec_utils.registry import ObjectStoreRegistry  # noqa: E402
from obstore.store import HTTPStore, LocalStore  # noqa: E402

from fitscodecs.adapters.kerchunk import write_json  # noqa: E402
from fitscodecs.adapters.virtualizarr import FitsParser, to_kerchunk  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning"),
]

REGISTRY = ObjectStoreRegistry({"file://": LocalStore()})


def uri(path):
    """As object stores have it: characters are not quoted."""
    return f"file://{path}"


def parsed(path, **settings):
    return virtualizarr.open_virtual_dataset(
        uri(path), registry=REGISTRY, parser=FitsParser(**settings)
    )


def image_hdus(path):
    return [
        hdu
        for hdu in walk(open_source(path))
        if is_compressed(hdu.header) or is_plain_image(hdu.header)
    ]


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """Files of one shape and different headers, seeds and tiles."""
    folder = tmp_path_factory.mktemp("night")
    array, paths = sample("float32", (16, 24)), []
    for i in range(12):
        quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=1 + 37 * i)
        cards = [("EXTNAME", "SCI"), ("OBSID", i), ("FILTER", "r")]
        cards += [(f"KEY{n}", n) for n in range(9 * i)]
        paths.append(write_compressed(folder / f"{i}.fits", array + i, fc.Rice1(),
                     (1 + i % 4, 24), cards, quantize, bool(i % 2)))  # fmt: skip
    return paths


# ---------------------------------------------------------------------------- one file


@pytest.mark.parametrize("path", shared_files("real"))
def test_real_file(path):
    hdus = image_hdus(path)
    if not hdus:
        with pytest.raises(fc.HeaderError, match="found no image"):
            parsed(path)
        return
    store = FitsParser()(uri(path), REGISTRY)
    group = zarr.open_group(store, mode="r", zarr_format=3)
    names = list(describe_file(path).group.arrays)
    assert sorted(name for name, _ in group.arrays()) == sorted(names)
    dataset = parsed(path)
    for name, hdu in zip(names, hdus, strict=True):
        want = fc.open(path, hdu=hdu.index)[...]
        assert (dataset[name].shape, dataset[name].dtype) == (want.shape, want.dtype)
        assert same_bits(group[name][...], want), name


def test_settings(tmp_path):
    array = sample("int16", (4, 5))
    path = tmp_path / "a.fits"
    path.write_bytes(
        plain_hdu(array, True, [("BSCALE", 0.5), ("OBJECT", "M13")])
        + plain_hdu(array, False, [("EXTNAME", "A")])
    )
    dataset = parsed(path)
    assert set(dataset.variables) == {"PRIMARY", "A"}
    assert dataset.attrs["OBJECT"] == "M13"
    assert dataset["A"].dims == ("y", "x")
    assert dataset["PRIMARY"].dtype == "float32"
    assert parsed(path, scaled=False)["PRIMARY"].dtype == "int16"
    assert set(parsed(path, extension="a").variables) == {"A"}
    assert "OBJECT" not in parsed(path, primary_attributes=False).attrs
    facts = dataset.attrs["fitscodecs_targets"][uri(path)]
    assert facts["size"] == path.stat().st_size
    hint = parsed(path, hints=True)["A"].data.metadata.codecs[0].to_dict()["configuration"]
    assert hint["index_nbytes"] == 2880
    assert "hints=True" in repr(FitsParser(hints=True))


def test_refusals(tmp_path):
    path = tmp_path / "a.fits"
    path.write_bytes(b"no FITS file at all" * 200)
    with pytest.raises(fc.HeaderError, match=r"a\.fits: file starts with"):
        parsed(path)


def test_few_requests(tmp_path):
    """A small file is one request, and a cutout of a virtual array at most three more."""
    write_compressed(tmp_path / "a.fits", sample("int16", (300, 400)), fc.Rice1(bytepix=2),
                     (1, 400))  # fmt: skip
    want = fc.open(tmp_path / "a.fits")[100:110, 7:50]
    with FolderServer(tmp_path) as server:
        root = server.url("")
        store = HTTPStore.from_url(root, client_options={"allow_http": True})
        registry = ObjectStoreRegistry({root.rstrip("/"): store})
        made = FitsParser()(server.url("a.fits"), registry)
        assert [entry.method for entry in server.log] == ["GET"]
        server.log.clear()
        array = zarr.open_group(made, mode="r", zarr_format=3)["1"]
        assert same_bits(array[100:110, 7:50], want)
        assert len([e for e in server.log if e.method == "GET"]) <= 3, server.log
        server.log.clear()
        assert same_bits(array[100:110, 7:50], want)
        assert len(server.log) == 1


# ---------------------------------------------------------------------------- many files


def test_cube(night):
    """Files of different headers, tiles and seeds stack and concatenate."""
    want = np.array([fc.open(path)[...] for path in night])
    datasets = [parsed(path) for path in night]
    cube = xr.concat(datasets, dim="time", coords="minimal", compat="override",
                     combine_attrs="drop_conflicts")  # fmt: skip
    assert cube["SCI"].attrs["FILTER"] == "r"
    assert "OBSID" not in cube["SCI"].attrs
    for zarr_format in (3, 2):
        refs = to_kerchunk(cube, zarr_format)
        array = open_references(refs["refs"], zarr_format)["SCI"]
        assert array.shape == (12, 16, 24)
        assert same_bits(array[...], want)
    long = xr.concat(datasets, dim="y", coords="minimal", compat="override")
    refs = to_kerchunk(long.drop_attrs())
    assert same_bits(open_references(refs["refs"])["SCI"][...], np.concatenate(want))


def test_checked_references(night):
    """What is recorded of local files is what fsspec sees of them."""
    pytest.importorskip("dask.array", reason="datasets in blocks need dask")
    from fitscodecs.adapters.xarray import open_dataset

    os.utime(night[0], ns=(0, 1_700_000_000_123_456_789))  # rounds up
    refs = to_kerchunk(parsed(night[0]))["refs"]
    read = open_dataset(refs, chunks=None, checked=True)["SCI"].values
    assert same_bits(read, fc.open(night[0])[...])


def test_mfdataset(night):
    parser = pickle.loads(pickle.dumps(FitsParser()))  # as it goes to other processes
    cube = virtualizarr.open_virtual_mfdataset(
        [uri(path) for path in night], registry=REGISTRY, parser=parser, combine="nested",
        concat_dim="time", coords="minimal", compat="override", combine_attrs="override",
    )  # fmt: skip
    array = open_references(to_kerchunk(cube)["refs"])["SCI"]
    assert same_bits(array[...], np.array([fc.open(path)[...] for path in night]))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_own_parser_of_references(night, tmp_path, zarr_format):
    """VirtualiZarr reads references that are written here."""
    writer = inspect.signature(parsed(night[0]).vz.to_kerchunk)
    if zarr_format == 3 and "zarr_format" not in writer.parameters:
        pytest.skip(f"virtualizarr {virtualizarr.__version__} parses the zarr format 2 alone")
    from virtualizarr.parsers import KerchunkJSONParser

    write_json(describe_file(night[0]).group, tmp_path / "a.json", zarr_format=zarr_format)
    store = KerchunkJSONParser()(uri(tmp_path / "a.json"), REGISTRY)
    group = zarr.open_group(store, mode="r", zarr_format=3)
    assert same_bits(group["SCI"][...], fc.open(night[0])[...])


def test_own_writer(night):
    """What VirtualiZarr itself writes in the zarr format 3 is right."""
    writer = parsed(night[0]).vz.to_kerchunk
    if "zarr_format" not in inspect.signature(writer).parameters:
        pytest.skip(f"virtualizarr {virtualizarr.__version__} writes the zarr format 2 alone")
    refs = writer(format="dict", zarr_format=3)["refs"]
    want = fc.open(night[0])[...]
    assert same_bits(open_references(refs)["SCI"][...], want)
    theirs, ours = open_references(refs)["SCI"], open_references(
        to_kerchunk(parsed(night[0]))["refs"])["SCI"]  # fmt: skip
    assert dict(theirs.attrs) == dict(ours.attrs)
    assert theirs.metadata.dimension_names == ours.metadata.dimension_names == ("y", "x")


def test_references_of_datasets(tmp_path):
    """Undefined pixels, coordinates, and what cannot be held."""
    path = tmp_path / "a b.fits"
    path.write_bytes(plain_hdu(sample("int16", (4, 5)), True, [("BZERO", 32768.0), ("BLANK", 3)]))
    dataset = parsed(path)
    dataset = dataset.assign_coords(x=("x", np.arange(5.0)), name=("y", list("abcd")))
    refs = to_kerchunk(dataset)["refs"]
    assert refs["PRIMARY/c/0/0"][0] == str(path)
    group = open_references(refs)
    assert group["PRIMARY"].attrs["_FillValue"] == 32771
    assert list(group["x"][...]) == [0, 1, 2, 3, 4]
    assert list(group["name"][...]) == list("abcd")
    assert same_bits(group["PRIMARY"][...], fc.open(path, hdu=0)[...])
    dates = dataset.assign_coords(t=("y", np.zeros(4, "M8[ns]")))
    with pytest.raises(ValueError, match="variable t of type datetime64"):
        to_kerchunk(dates)


# ---------------------------------------------------------------------------- icechunk


@pytest.fixture
def icechunk():
    return pytest.importorskip("icechunk", reason="icechunk keeps repositories of references")


def test_to_icechunk(night, tmp_path, icechunk):
    """VirtualiZarr's writer, with all files in one cube."""
    folder = f"{night[0].parent}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(f"file://{folder}", icechunk.local_filesystem_store(folder))
    )
    from fitscodecs.adapters.icechunk import leave_to_read

    repository = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "store")), config,
        authorize_virtual_chunk_access=leave_to_read([f"file://{folder}"]),
    )  # fmt: skip
    cube = xr.concat([parsed(path) for path in night], dim="time", coords="minimal",
                     compat="override", combine_attrs="drop_conflicts")  # fmt: skip
    session = repository.writable_session("main")
    cube.vz.to_icechunk(session.store)
    session.commit("a cube")
    store = repository.readonly_session("main").store
    array = zarr.open_group(store, mode="r", zarr_format=3)["SCI"]
    assert same_bits(array[...], np.array([fc.open(path)[...] for path in night]))


def test_write_icechunk(night, tmp_path, icechunk):
    from fitscodecs.adapters.icechunk import open_repository, write_icechunk

    want = np.array([fc.open(path)[...] for path in night])
    cube = stack([describe_file(path).group for path in night], "time")
    times = np.array([f"t{i}" for i in range(12)])
    group = VirtualGroup({"A": 1}, cube.arrays, {"inner": cube}, cube.targets,
                         {"when": (times, ("time",))})  # fmt: skip
    path = tmp_path / "cube.icechunk"
    write_icechunk(group, path)
    store = open_repository(path).readonly_session("main").store
    opened = zarr.open_group(store, mode="r", zarr_format=3)
    assert opened.attrs["A"] == 1
    assert same_bits(opened["SCI"][...], want)
    assert same_bits(opened["inner/SCI"][3:5, ::3, 7], want[3:5, ::3, 7])
    assert list(opened["when"][...]) == list(times)
    with pytest.raises(FileExistsError):
        write_icechunk(cube, path)
    write_icechunk(describe_file(night[3]).group, path, overwrite=True)
    store = open_repository(path).readonly_session("main").store
    assert same_bits(zarr.open_group(store, mode="r")["SCI"][...], want[3])
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileExistsError, match="no icechunk repository"):
        write_icechunk(cube, tmp_path / "mine", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cube.icechunk", "mine"]


def test_changed_file(tmp_path, icechunk):
    """icechunk refuses to read from a file that has changed since."""
    from fitscodecs.adapters.icechunk import open_repository, write_icechunk

    path = write_compressed(tmp_path / "a.fits", sample("int16", (8, 9)), fc.Gzip1(), (8, 9))
    write_icechunk(describe_file(path).group, tmp_path / "store")

    def read():
        store = open_repository(tmp_path / "store").readonly_session("main").store
        return zarr.open_group(store, mode="r", zarr_format=3)["1"][...]

    assert same_bits(read(), sample("int16", (8, 9)))
    status = path.stat()
    os.utime(path, (status.st_atime, status.st_mtime + 60))
    with pytest.raises(icechunk.IcechunkError):
        read()


def test_icechunk_over_http(tmp_path, icechunk):
    from fitscodecs.adapters.icechunk import open_repository, write_icechunk

    path = write_compressed(tmp_path / "a.fits", sample("int16", (300, 400)),
                            fc.Rice1(bytepix=2), (1, 400))  # fmt: skip
    with FolderServer(tmp_path) as server:
        group = describe_file(server.url("a.fits")).group
        if not hasattr(icechunk.credentials, "HttpAccess"):
            with pytest.raises(ValueError, match=r"icechunk 1\..* loses the port"):
                write_icechunk(group, tmp_path / "store")
            return
        write_icechunk(group, tmp_path / "store")
        store = open_repository(tmp_path / "store").readonly_session("main").store
        array = zarr.open_group(store, mode="r", zarr_format=3)["1"]
        server.log.clear()
        assert same_bits(array[100:110, 7:50], fc.open(path)[100:110, 7:50])
        assert sum(entry.nbytes for entry in server.log) <= 0.2 * path.stat().st_size
        assert len(server.log) == 2  # header and table, then tiles: ranges are not split
        status = path.stat()
        os.utime(path, (status.st_atime, status.st_mtime + 60))
        with pytest.raises(icechunk.IcechunkError, match="has changed"):
            array[100:110, 50:60]


@pytest.mark.parametrize(
    "name", ["a b", "50%", "a%20b", "\u00e4\u2192", "a#b?c", "a[b", "+,@(:&$!)*=;'"]
)
def test_icechunk_names(name, tmp_path, icechunk):
    from fitscodecs.adapters.icechunk import open_repository, write_icechunk

    (tmp_path / name).mkdir()
    array = sample("int16", (6, 8))
    path = write_compressed(tmp_path / name / f"{name}.fits", array, fc.Rice1(bytepix=2), (1, 8))
    if not hasattr(icechunk.credentials, "HttpAccess") and name[0] != "+":
        with pytest.raises(ValueError, match=r"icechunk 1\..* does not find"):
            write_icechunk(describe_file(path).group, tmp_path / f"{name}.icechunk")
        return
    write_icechunk(describe_file(path).group, tmp_path / f"{name}.icechunk")
    store = open_repository(tmp_path / f"{name}.icechunk").readonly_session("main").store
    assert same_bits(zarr.open_group(store, mode="r", zarr_format=3)["1"][...], array)


@pytest.mark.parametrize("name", ["a\tb.fits", "a\nb.fits"])
def test_icechunk_refuses_names(name, tmp_path, icechunk):
    from fitscodecs.adapters.icechunk import write_icechunk

    path = write_compressed(tmp_path / name, sample("int16", (6, 8)), fc.Rice1(bytepix=2), (1, 8))
    with pytest.raises(ValueError, match=r"wanted a name|does not find"):
        write_icechunk(describe_file(path).group, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_no_repository(tmp_path, icechunk):
    from fitscodecs.adapters.icechunk import open_repository

    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="nosuch"):
        open_repository(tmp_path / "nosuch")
    with pytest.raises(ValueError, match=r"a\.json is no icechunk repository"):
        open_repository(tmp_path / "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_containers(icechunk):
    from fitscodecs.adapters.icechunk import containers_of

    urls = ["/a/b/1.fits", "/a/c/2.fits", "s3://bucket/x.fits", "s3://bucket/y.fits",
            "https://example.org/z.fits"]  # fmt: skip
    assert [c.url_prefix for c in containers_of(urls, {"anon": True})] == [
        "file:///a/", "https://example.org/", "s3://bucket/"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no icechunk store for ftp"):
        containers_of(["ftp://example.org/a.fits"])
