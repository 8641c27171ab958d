# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""References: where HDUs are, what is said of them, files combined, files refused."""

import gzip
import json
import math
import os
import threading
from contextlib import closing

import numpy as np
import pytest
import ref_build

import fitscodecs as fc
from fitscodecs.attributes import json_attributes
from fitscodecs.hdu import walk
from fitscodecs.header import is_compressed, is_plain_image
from fitscodecs.references import (
    ALL,
    changed_targets,
    describe_file,
    describe_source,
    each,
    reference_url,
)
from fitscodecs.source import open_source
from fitscodecs.virtual import concatenate, stack
from fitscodecs.zarr_metadata import literal_bytes, metadata_v2, metadata_v3, store_items
from tests.conftest import same_bits, shared_files
from tests.making import plain_hdu, sample, write_compressed


def packed(path, array, *cards, codec=None, tile_shape=None):
    codec = codec or fc.Gzip1()
    return write_compressed(path, array, codec, tile_shape or array.shape, list(cards))


def one(path, **settings):
    """The only array of a file."""
    (array,) = describe_file(path, **settings).group.arrays.values()
    return array


def plain_file(path, *hdus):
    """A file of uncompressed images: (array, cards) each, the first one in the primary HDU."""
    parts = [plain_hdu(array, i == 0, cards) for i, (array, cards) in enumerate(hdus)]
    path.write_bytes(b"".join(parts))
    return path


def contents(group, zarr_format=3):
    """What a store holds, with JSON parsed."""
    items = dict(store_items(group, zarr_format))
    return {
        k: json.loads(v) if isinstance(v, str) and v.startswith("{") else v
        for k, v in items.items()
    }


# ---------------------------------------------------------------------------- one file


@pytest.mark.parametrize("path", shared_files("real"))
def test_real_file(path):
    """Every image HDU is there, and the bytes of its chunk are that HDU alone."""
    hdus = [
        hdu
        for hdu in walk(open_source(path))
        if is_compressed(hdu.header) or is_plain_image(hdu.header)
    ]
    if not hdus:
        with pytest.raises(fc.HeaderError, match="found no image"):
            describe_file(path)
        return
    content = path.read_bytes()
    arrays = list(describe_file(path).group.arrays.values())
    assert len(arrays) == len(hdus)
    for hdu, array in zip(hdus, arrays, strict=True):
        image = fc.open(path, hdu=hdu.index)
        assert (array.shape, array.dtype) == (image.shape, image.dtype)
        json.dumps(metadata_v3(array), allow_nan=False)
        json.dumps(metadata_v2(array), allow_nan=False)
        (place,) = array.places.values()
        chunk = content[place.start : place.start + place.nbytes]
        assert chunk.startswith(hdu.raw)
        assert len(chunk) == hdu.stop - hdu.start
        alone = primary_hdu() * (hdu.index > 0) + chunk
        assert same_bits(fc.open(alone, hdu=min(1, hdu.index))[...], image[...])


def primary_hdu():
    cards = [("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0)]
    return ref_build.block([ref_build.card(*card) for card in cards])


def test_metadata(tmp_path):
    array = sample("int16", (40, 50))
    cards = [("EXTNAME", "sci"), ("CRPIX1", 3.5), ("BUNIT", "adu")]
    path = packed(tmp_path / "a.fits", array, *cards, tile_shape=(8, 50), codec=fc.Rice1(bytepix=2))
    items = contents(describe_file(path).group)
    assert list(items) == ["zarr.json", "SCI/zarr.json", "SCI/c/0/0"]
    hdu = list(walk(open_source(path)))[1]
    assert items["SCI/c/0/0"] == [str(path), hdu.start, path.stat().st_size - hdu.start]
    metadata = items["SCI/zarr.json"]
    assert metadata["attributes"] == {
        "NAXIS": 2, "NAXIS1": 50, "NAXIS2": 40, "EXTNAME": "sci", "CRPIX1": 3.5, "BUNIT": "adu",
        "fitscodecs_tile_shape": [8, 50],
    }  # fmt: skip
    assert metadata["shape"] == [40, 50]
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [40, 50]
    assert (metadata["data_type"], metadata["fill_value"]) == ("int16", 0)
    assert metadata["dimension_names"] == ["y", "x"]
    (codec,) = metadata["codecs"]
    assert codec["name"] == "fitscodecs.tiled"
    index_nbytes = -(-(hdu.data_start - hdu.start + 5 * 8) // 2880) * 2880
    assert codec["configuration"] == {
        "layout": "hdu", "scaled": True, "tile_shape": [8, 50], "index_nbytes": index_nbytes
    }  # fmt: skip


def test_metadata_v2(tmp_path):
    path = packed(tmp_path / "a.fits", sample("int16", (4, 5)), ("EXTNAME", "A"))
    items = contents(describe_file(path).group, 2)
    assert list(items) == [".zgroup", ".zattrs", "A/.zarray", "A/.zattrs", "A/0.0"]
    metadata = items["A/.zarray"]
    assert (metadata["dtype"], metadata["fill_value"]) == ("<i2", None)
    assert metadata["compressor"] is None
    (codec,) = metadata["filters"]
    assert codec["id"] == "fits_tiled"
    assert codec["layout"] == "hdu"
    assert items["A/.zattrs"]["_ARRAY_DIMENSIONS"] == ["y", "x"]
    with pytest.raises(ValueError, match="zarr_format is 4, wanted 2 or 3"):
        contents(describe_file(path).group, 4)


@pytest.mark.parametrize(
    ("cards", "scaled", "dtype", "fill", "undefined"),
    [
        ([], True, "int16", 0, False),
        ([("BLANK", -1)], True, "float32", math.nan, False),
        ([("BLANK", -1)], False, "int16", -1, True),
        ([("BSCALE", 0.5), ("BZERO", 3.0)], True, "float32", math.nan, False),
        ([("BSCALE", 1.0), ("BZERO", 32768.0)], True, "uint16", 0, False),
        ([("BSCALE", 1.0), ("BZERO", 32768.0), ("BLANK", 5)], True, "uint16", 32773, True),
        ([("BSCALE", 1.0), ("BZERO", 32768.0)], False, "int16", 0, False),
        ([("BZERO", 32768.0), ("BLANK", 99999)], True, "uint16", 0, False),
    ],
)
def test_scaling(tmp_path, cards, scaled, dtype, fill, undefined):
    path = plain_file(tmp_path / "a.fits", (sample("int16", (4, 5)), cards))
    array = one(path, scaled=scaled)
    assert array.dtype == fc.open(path, hdu=0, scaled=scaled).dtype == dtype
    metadata = metadata_v3(array)
    assert metadata["fill_value"] == ("NaN" if fill != fill else fill)
    assert metadata["attributes"].get("_FillValue") == (fill if undefined else None)
    v2 = metadata_v2(array)["fill_value"]
    assert v2 == ("NaN" if fill != fill else fill if undefined else None)
    assert metadata["codecs"][0]["configuration"]["scaled"] is scaled
    told = {k for k in ("BSCALE", "BZERO", "BLANK") if k in metadata["attributes"]}
    assert told == (set() if scaled else {name for name, _ in cards})
    if not scaled and ("BZERO", 32768.0) in cards:
        assert metadata["attributes"]["add_offset"] == 32768
        assert metadata["attributes"]["scale_factor"] == 1


def test_scale_beyond_a_double(tmp_path):
    """JSON holds no infinity."""
    path = plain_file(tmp_path / "a.fits", (sample("int16", (4, 5)), [("BSCALE", 2.5)]))
    path.write_bytes(path.read_bytes().replace(b"  2.5", b"1E999"))
    attributes = contents(describe_file(path, scaled=False).group)["PRIMARY/zarr.json"][
        "attributes"
    ]
    assert attributes["BSCALE"] == "1E999"
    assert "scale_factor" not in attributes


def test_extensions(tmp_path):
    small, large = sample("int16", (4, 5)), sample("float32", (6, 7))
    named = [
        ("EXTNAME", "SCI"), ("EXTNAME", "DQ"), ("EXTNAME", "SCI"), ("EXTNAME", "a/b"),
        ("EXTNAME", "__x"),
    ]  # fmt: skip
    path = plain_file(
        tmp_path / "a.fits", (small, []), (small, [named[0]]), (large, [named[1]]),
        (small, [named[2], ("EXTVER", 2)]), (small, [named[3]]), (small, [named[2]]), (small, []),
        (small, [named[4]]),
    )  # fmt: skip
    arrays = describe_file(path).group.arrays
    assert list(arrays) == ["PRIMARY", "SCI", "DQ", "SCI_2", "A_B", "SCI_1", "6", "HDU__X"]
    assert {a.dims for name, a in arrays.items() if name != "DQ"} == {("y", "x")}
    assert arrays["DQ"].dims == ("y_DQ", "x_DQ")

    def chosen(extension):
        return list(describe_file(path, extension).group.arrays)

    assert chosen(None) == ["PRIMARY"]
    assert chosen(2) == chosen("dq") == chosen([("DQ", 1)]) == ["DQ"]
    assert chosen(("SCI", 2)) == ["SCI_2"]
    assert chosen([6, "SCI", np.int64(0)]) == ["PRIMARY", "SCI", "6"]
    for extension, message in [
        (17, "found none in 8 HDUs, wanted HDU 17"),
        (["SCI", "ERR"], "found none in 8 HDUs, wanted EXTNAME 'ERR'"),
        (("DQ", 3), "wanted EXTNAME 'DQ' with EXTVER 3"),
    ]:
        with pytest.raises(fc.HeaderError, match=message):
            chosen(extension)
    for extension in (1.5, True, ("SCI", "2"), [None]):
        with pytest.raises(TypeError):
            chosen(extension)
    for extension in (-1, []):
        with pytest.raises(ValueError, match="wanted"):
            chosen(extension)


def test_names_that_are_taken(tmp_path):
    names = ["A", "A_1", "A", "A", "A_3", "A", "1"]
    small = sample("int16", (4, 5))
    path = plain_file(tmp_path / "a.fits", (small, []), *((small, [("EXTNAME", n)]) for n in names))
    arrays = describe_file(path).group.arrays
    assert len(arrays) == 8
    assert list(arrays)[:3] == ["PRIMARY", "A", "A_1"]
    assert [place.start for array in arrays.values() for place in array.places.values()] == [
        hdu.start for hdu in walk(open_source(path))
    ]


def test_first_image_has_pixels(tmp_path):
    """Without a choice an image without pixels does not count, as for kerchunk."""
    empty = np.zeros((0, 5), "int16")
    path = plain_file(tmp_path / "a.fits", (empty, []), (sample("int16", (2, 3)), []))
    assert list(describe_file(path, None).group.arrays) == ["1"]
    arrays = describe_file(path, ALL).group.arrays
    assert arrays["PRIMARY"].shape == (0, 5)
    assert arrays["PRIMARY"].chunks == (1, 5)
    assert not arrays["PRIMARY"].places
    configuration = metadata_v3(arrays["PRIMARY"])["codecs"][0]["configuration"]
    assert configuration == {"layout": "hdu", "scaled": True}


def test_axes(tmp_path):
    path = plain_file(tmp_path / "a.fits", (sample("int16", (2, 3, 4, 5, 6)), []))
    assert one(path).dims == ("axis5", "axis4", "z", "y", "x")


def test_primary_attributes(tmp_path):
    path = packed(tmp_path / "a.fits", sample("int16", (4, 5)))
    content = path.read_bytes()
    cards = [("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("OBJECT", "M13"), ("EXPTIME", 30.0)]
    header = ref_build.block([ref_build.card(*card) for card in cards])
    path.write_bytes(header + content[2880:])
    assert describe_file(path).group.attributes == {}
    group = describe_file(path, primary_attr_to_group=True).group
    assert group.attributes == {"OBJECT": "M13", "EXPTIME": 30.0}


def test_what_is_left_out(tmp_path):
    fits = pytest.importorskip("astropy.io.fits", reason="tables are made with astropy")
    table = fits.BinTableHDU.from_columns([fits.Column("A", "J", array=np.arange(5))], name="T")
    path = tmp_path / "a.fits"
    image = fits.ImageHDU(sample("int16", (3, 4)))
    fits.HDUList([fits.PrimaryHDU(), table, image]).writeto(path)
    contents = describe_file(path)
    assert contents.left_out == ["HDU 1 (T): BINTABLE, no image"]
    assert list(contents.group.arrays) == ["2"]
    with pytest.raises(fc.HeaderError, match=r"HDU 1 \(T\): no image, wanted one with pixels"):
        describe_file(path, "T")


def test_inline(tmp_path):
    path = packed(tmp_path / "a.fits", sample("int16", (4, 5)))
    (place,) = one(path, inline_threshold=place_nbytes(path)).places.values()
    assert place.data == path.read_bytes()[place.start :]
    (place,) = one(path, inline_threshold=place_nbytes(path) - 1).places.values()
    assert place.data is None


def place_nbytes(path):
    (place,) = one(path).places.values()
    return place.nbytes


# ---------------------------------------------------------------------------- attributes


def card(text):
    return text.ljust(80).encode("latin-1")


def test_attributes():
    lines = [
        "OBJECT  = 'it''s'             / name", "EXPTIME =                  1.5", "N       = 3",
        "FLAG    =                    T", "EMPTY   =", "N       = 4",
        "HIERARCH ESO DET  ID = 'x'    / long name", "COMMENT first", "COMMENT   second",
        "HISTORY once", "HUGE    = 1E999 / too much", "CPLX    = (1.5, -2)", "BAD     = (1.5, x)",
        "LONG    = 'abc&'", "CONTINUE  'def&'", "CONTINUE  'ghi' / end", "AMP     = 'a&'",
        "", "CONTINUE  'z'", "EXPO    = 1.0D3", "ODD CARD",
    ]  # fmt: skip
    assert json_attributes([card(line) for line in lines]) == {
        "OBJECT": "it's", "EXPTIME": 1.5, "N": 3, "FLAG": True, "ESO DET ID": "x",
        "HUGE": "1E999", "CPLX": [1.5, -2.0], "LONG": "abcdefghi", "AMP": "a&", "EXPO": 1000.0,
        "COMMENT": "first\n  second", "HISTORY": "once",
    }  # fmt: skip


def test_attributes_equal_astropy(tmp_path):
    """Of a real header, every value that astropy gives."""
    fits = pytest.importorskip("astropy.io.fits")
    header = fits.Header()
    header["HIERARCH ESO INS MODE"] = "a mode"
    header["LONGSTR"] = "long " * 40 + "end"
    header["CRVAL1"] = 202.4695750000001
    header["NEG"] = -17
    header["TINY"] = 1e-300
    header["YES"] = True
    header["QUOTE"] = "don't"
    header.add_history("a " * 60)
    path = tmp_path / "a.fits"
    fits.CompImageHDU(sample("int16", (8, 9)), header, name="X").writeto(path)
    found = one(path).attributes
    with fits.open(path) as hdus:
        for keyword in [k for k in header if k != "HISTORY"]:
            value = hdus[1].header[keyword]
            assert found[keyword] == value, keyword
            assert type(found[keyword]) is type(value), keyword
        assert found["HISTORY"] == str(hdus[1].header["HISTORY"])


# ---------------------------------------------------------------------------- refusals


def test_refusals(tmp_path):
    path = packed(tmp_path / "a.fits", sample("int16", (40, 50)))
    content = path.read_bytes()
    packed_whole = tmp_path / "a.fits.gz"
    packed_whole.write_bytes(gzip.compress(content))
    short = tmp_path / "short.fits"
    short.write_bytes(content[: list(walk(open_source(path)))[1].data_start + 10])
    alien = tmp_path / "alien.fits"
    alien.write_bytes(content.replace(b"'GZIP_1  '", b"'ZIP_99  '"))
    for file, message in [
        (packed_whole, "gzipped as a whole"),
        (short, r"HDU 1.*: file ends after \d+ of \d+ bytes of data"),
        (alien, "HDU 1.*: ZCMPTYPE is 'ZIP_99'"),
        ("simplecache::http://example.org/a.fits", "chain of URLs"),
    ]:
        with pytest.raises(fc.HeaderError, match=message):
            describe_file(file)
    with pytest.raises(FileNotFoundError):
        describe_file(tmp_path / "none.fits")


def test_last_block_cut_short(tmp_path):
    """The padding at the end of a file may be missing: the chunk ends where the file does."""
    path = packed(tmp_path / "a.fits", sample("int16", (4, 5)))
    hdu = list(walk(open_source(path)))[1]
    path.write_bytes(path.read_bytes()[: hdu.data_start + hdu.data_nbytes])
    (place,) = one(path).places.values()
    assert place.start + place.nbytes == path.stat().st_size
    assert one(path).index_nbytes <= place.nbytes


def test_reference_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert reference_url("a.fits") == str(tmp_path / "a.fits")
    assert reference_url("s3://bucket/a.fits") == "s3://bucket/a.fits"


# ---------------------------------------------------------------------------- many files


@pytest.fixture
def three(tmp_path):
    """Files of one shape whose headers, codecs, tiles and names of keywords differ."""
    array = sample("int16", (8, 10))
    paths = []
    for i in range(3):
        cards = [("EXTNAME", "SCI"), ("OBSID", i), ("FILTER", "r")]
        cards += [(f"K{n}", n) for n in range(40 * i)]
        codec = (fc.Rice1(bytepix=2), fc.Gzip2(), fc.Rice1(bytepix=2))[i]
        paths.append(packed(tmp_path / f"{i}.fits", array + i, *cards, codec=codec,
                            tile_shape=((1, 10), (8, 10), (4, 5))[i]))  # fmt: skip
    return paths


def test_stack(three):
    groups = [describe_file(path).group for path in three]
    (array,) = stack(groups, "time").arrays.values()
    assert (array.shape, array.chunks, array.dims) == ((3, 8, 10), (1, 8, 10), ("time", "y", "x"))
    assert [array.places[i, 0, 0].url for i in range(3)] == [str(path) for path in three]
    assert array.attributes["FILTER"] == "r"
    assert "OBSID" not in array.attributes
    assert array.tile_shape is None
    configuration = array.configuration()
    assert "tile_shape" not in configuration
    assert configuration["index_nbytes"] <= min(p.nbytes for p in array.places.values())
    again = stack([stack(groups, "time"), stack(groups, "time")], "night").arrays["SCI"]
    assert (again.shape, again.chunks) == ((2, 3, 8, 10), (1, 1, 8, 10))
    assert again.places[1, 2, 0, 0].url == str(three[2])


def test_concatenate(three):
    groups = [describe_file(path).group for path in three]
    (array,) = concatenate(groups, "y").arrays.values()
    assert (array.shape, array.chunks, array.dims) == ((24, 10), (8, 10), ("y", "x"))
    assert [array.places[i, 0].url for i in range(3)] == [str(path) for path in three]
    (array,) = concatenate([stack(groups, "t"), stack(groups[:1] * 3, "t")], "t").arrays.values()
    assert array.shape == (6, 8, 10)
    assert array.places[4, 0, 0].url == str(three[0])
    assert set(concatenate(groups, "x").targets) == {str(path) for path in three}


def test_what_cannot_be_combined(tmp_path, three):
    first = describe_file(three[0]).group
    other = sample("int16", (8, 10))
    cases = {
        "shape": (packed(tmp_path / "s.fits", other[:4], ("EXTNAME", "SCI")), r"SCI: shape \(4, 1"),
        "dtype": (packed(tmp_path / "d.fits", other.astype("int32"), ("EXTNAME", "SCI")),
                  "SCI: dtype int32, wanted int16"),
        "name": (packed(tmp_path / "n.fits", other, ("EXTNAME", "ERR")),
                 "images ERR, wanted SCI"),
    }  # fmt: skip
    for path, message in cases.values():
        with pytest.raises(fc.FitsCodecsError, match=message):
            stack([first, describe_file(path).group], "t")
    with pytest.raises(fc.FitsCodecsError, match="new axis 'x' is one of"):
        stack([first], "x")
    with pytest.raises(fc.FitsCodecsError, match="axis 'q' is none of"):
        concatenate([first], "q")
    with pytest.raises(fc.FitsCodecsError, match="nothing"):
        stack([], "t")


def test_many_at_once():
    """As many files are asked at the same time as is allowed, and results keep their order."""
    barrier = threading.Barrier(4, timeout=30)

    def work(i):
        barrier.wait()
        if i == 5:
            raise fc.HeaderError("bad")
        return i * i

    found = dict(each(work, range(8), 4))
    assert isinstance(found.pop(5), fc.HeaderError)
    assert found == {i: i * i for i in range(8) if i != 5}
    with pytest.raises(ZeroDivisionError):
        list(each(lambda i: 1 // i, [1, 0], 2))


# ---------------------------------------------------------------------------- targets


def test_changed_targets(three):
    groups = [describe_file(path).group for path in three]
    targets = stack(groups, "t").targets
    targets = json.loads(json.dumps(targets))
    assert set(targets) == {str(path) for path in three}
    assert changed_targets(targets) == {}
    three[0].write_bytes(three[0].read_bytes() + bytes(2880))
    status = three[1].stat()
    os.utime(three[1], (status.st_atime, status.st_mtime + 5))
    three[2].unlink()
    changed = changed_targets(targets)
    assert changed[str(three[0])].startswith("size is")
    assert changed[str(three[1])].startswith("modified is")
    assert changed[str(three[2])].startswith("cannot be read")


def test_facts_are_those_of_the_file_that_was_read(three, tmp_path):
    """Not of one that was put in its place meanwhile."""
    with closing(open_source(three[0])) as source:
        other = tmp_path / "other"
        other.write_bytes(three[0].read_bytes())
        os.utime(other, (1, 1))
        os.replace(other, three[0])
        targets = describe_source(source, str(three[0])).group.targets
    assert changed_targets(targets)[str(three[0])].startswith("modified is 1970")


def test_literals():
    assert literal_bytes(np.array([1.5, 2.0])) == np.array([1.5, 2.0], "<f8").tobytes()
    assert literal_bytes(np.array(["é", "ab"])) == (
        b"\2\0\0\0\2\0\0\0" + "é".encode() + b"\2\0\0\0ab"
    )
