# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""TiledImage: selections, HDUs, sources, tables, against arrays that are known."""

import gzip
import io
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import ref_build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fitscodecs as fc
from fitscodecs.cpu import _choose as choose_features
from tests.conftest import VECTORS, same_bits
from tests.making import image_cards, plain_hdu, sample, tiles_of, write_compressed

SHAPE = (7, 23, 31)


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    """Images of one shape in different tilings, with the array that they hold."""
    folder = tmp_path_factory.mktemp("cubes")
    array = sample("int16", SHAPE)
    codecs = [
        (fc.Rice1(bytepix=2), (1, 1, 31)),
        (fc.Rice1(bytepix=2), (2, 5, 8)),
        (fc.Gzip2(), (3, 23, 4)),
        (fc.HCompress1(), (1, 9, 10)),
        (fc.Plio1(), (7, 23, 31)),
        (fc.NoCompress(), (4, 4, 4)),
    ]
    images = []
    for i, (codec, tile_shape) in enumerate(codecs):
        path = write_compressed(folder / f"{i}.fits", array, codec, tile_shape)
        images.append(fc.open(path))
    plain = folder / "plain.fits"
    plain.write_bytes(plain_hdu(array, primary=True))
    images.append(fc.open(plain, hdu=0))
    yield images, array
    for image in images:
        image.close()


# ---------------------------------------------------------------------------- selections


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_basic_selections(cubes, data):
    images, array = cubes
    key = data.draw(hnp.basic_indices(SHAPE, allow_newaxis=False))
    image = data.draw(st.sampled_from(images))
    got, want = image[key], array[key]
    assert type(got) is type(want)
    assert same_bits(got, want)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_index_arrays(cubes, data):
    images, array = cubes
    arrays = hnp.broadcastable_shapes((2, 3), max_dims=2)
    key = []
    for n in SHAPE:
        entry = st.one_of(
            st.integers(-n, n - 1),
            st.slices(n),
            arrays.flatmap(lambda s, n=n: hnp.arrays(np.int64, s, elements=st.integers(-n, n - 1))),
        )
        key.append(data.draw(entry))
    if data.draw(st.booleans()):
        key.insert(data.draw(st.integers(0, len(SHAPE))), ...)
    key = tuple(key)
    image = data.draw(st.sampled_from(images))
    assert same_bits(image[key], array[key])


@pytest.mark.parametrize("step", [sys.maxsize, -sys.maxsize, -sys.maxsize - 1, 2**70, -(2**70)])
def test_steps_longer_than_any_axis(cubes, step):
    """One pixel is left, whatever the step is: none of them may overflow."""
    images, array = cubes
    for image in images:
        for key in (np.s_[::step], np.s_[2, ::step, 3:9], np.s_[:, 5::step, ::step]):
            assert same_bits(image[key], array[key]), key


def test_masks(cubes):
    images, array = cubes
    rng = np.random.default_rng(2)
    full, rows = rng.random(SHAPE) < 0.05, rng.random(SHAPE[0]) < 0.5
    plane = rng.random(SHAPE[1:]) < 0.1
    for image in images:
        assert same_bits(image[full], array[full])
        assert same_bits(image[rows], array[rows])
        assert same_bits(image[2, plane], array[2, plane])
        assert same_bits(image[..., plane], array[..., plane])
        assert same_bits(image[[]], array[[]])
        assert same_bits(image[[3, 1]], array[[3, 1]])
        assert same_bits(image[[5], :, [[1], [2]]], array[[5], :, [[1], [2]]])


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "newaxis"),
        ((0, np.newaxis), "newaxis"),
        ((0, 0, 0, 0), "4 indices for an image of 3 axes"),
        (7, "index 7 is out of bounds for axis 0 of length 7"),
        ((0, -24), "index -24"),
        ((..., 0, ...), "more than one Ellipsis"),
        (True, "boolean"),
        (1.5, "cannot index"),
        ("a", "cannot index"),
        (np.zeros((7, 22), bool), "mask of shape"),
        (([0, 1], [0, 1, 2]), "broadcast"),
        ([0, 9], "index 9"),
    ],
)
def test_refused_selections(cubes, key, said):
    for image in cubes[0]:
        with pytest.raises(IndexError, match=said):
            image[key]


def test_an_empty_ellipsis_separates(cubes):
    """As in numpy, an Ellipsis between index arrays sends them to the front."""
    images, array = cubes
    for key in ((slice(None), [0, 1, 2], ..., 0), (slice(None), [0, 1], ..., [0, 1]),
                (slice(None), 0, ..., [1, 2]), ([0, 1], ..., [0, 1], slice(None)),
                (..., [0, 1], [2, 3], slice(None))):  # fmt: skip
        assert same_bits(images[0][key], array[key]), key


def test_blocks(cubes):
    images, array = cubes
    for image in images:
        grid = image.grid_shape
        assert image.blocks.shape == grid
        assert len(image.table) == np.prod(grid)
        for row, where in enumerate(tiles_of(SHAPE, image.tile_shape)):
            block = np.unravel_index(row, grid)
            assert same_bits(image.blocks[block], array[where])
            assert image.table.context(row).shape == array[where].shape
        assert same_bits(image.blocks[-1], array[(grid[0] - 1) * image.tile_shape[0] :])
        assert same_bits(image.blocks[...], array)
        with pytest.raises(IndexError):
            image.blocks[grid]
        assert image.blocks[2:1].shape == (0, *SHAPE[1:])
        for key in (np.s_[::2], np.s_[::-1]):
            if grid[0] > 1:
                with pytest.raises(IndexError, match="step 1"):
                    image.blocks[key]


def test_rows_outside_the_table(cubes):
    for image in filter(lambda image: image.compressed, cubes[0]):
        n = len(image.table)
        for rows in ([n], [n - 1, n], [n + 1, n + 2]):
            with pytest.raises(IndexError):
                image.table.describe(rows)


def test_attributes(cubes):
    images, array = cubes
    for image in images:
        assert (image.shape, image.ndim, image.size) == (SHAPE, 3, array.size)
        assert (image.dtype, image.nbytes, len(image)) == (array.dtype, array.nbytes, SHAPE[0])
        assert same_bits(np.asarray(image), array)
        assert np.array(image, dtype="f8").dtype == np.float64
        with pytest.raises(ValueError, match="copy"):
            np.array(image, copy=False)
        assert str(SHAPE) in repr(image)


def test_read(cubes):
    images, array = cubes
    for image in images:
        out = np.zeros_like(array)
        assert image.read(out=out) is out
        assert same_bits(out, array)
        spread = np.zeros((*SHAPE[:2], 2 * SHAPE[2]), array.dtype)[..., ::2]
        assert image.read(out=spread, threads=4) is spread
        assert same_bits(spread, array)
        frozen = np.zeros_like(array)
        frozen.flags.writeable = False
        memory = bytearray(array.nbytes)
        assert image.read(out=memory) is memory
        assert bytes(memory) == array.tobytes()
        with pytest.raises(fc.DecodeError, match="out has"):
            image.read(out=memory[:-1])
        other = np.zeros(array.size, "u2")
        assert image.read(out=other) is other
        assert other.tobytes() == array.tobytes()
        fortran = np.zeros(SHAPE, array.dtype, order="F")
        assert image.read(out=fortran) is fortran
        assert np.array_equal(fortran, array)
        for bad in (np.zeros(SHAPE, "i4"), np.zeros(SHAPE[1:], "i2"), frozen, frozen[::2]):
            with pytest.raises(fc.DecodeError, match="out "):
                image.read(out=bad)


def test_threads_on_one_image(cubes):
    """Rows fed by one thread while another reads, on images that nobody has read yet."""
    images, array = cubes
    for image in images:
        fresh = pickle.loads(pickle.dumps(image))
        with ThreadPoolExecutor(8) as pool:
            planes = pool.map(lambda k, img=fresh: img[k % 7, ::2], range(56))
            for k, plane in enumerate(planes):
                assert same_bits(plane, array[k % 7, ::2])


def test_large_image_on_threads(tmp_path):
    array = sample("int32", (700, 1000))
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(), (64, 128))
    with fc.open(path) as image:
        for threads in (1, 2, 5):
            assert same_bits(image.read(threads=threads), array)


# ---------------------------------------------------------------------------- sources


def test_sources(tmp_path, cubes):
    _images, array = cubes
    path = tmp_path / "a.fits.fz"
    path.write_bytes(gzip.compress(b""))
    write_compressed(path, array, fc.Rice1(bytepix=2), (2, 5, 8))
    raw = path.read_bytes()

    class Ranges:
        size = len(raw)

        def read_range(self, start, stop):
            return raw[start:stop]

    with open(path, "rb") as file:
        for target in (path, str(path), raw, bytearray(raw), memoryview(raw), io.BytesIO(raw),
                       file, Ranges(), path.as_uri(), "simplecache::" + path.as_uri()):  # fmt: skip
            if isinstance(target, str) and "://" in target:
                pytest.importorskip("fsspec")
            with fc.open(target) as image:
                assert same_bits(image[3:5, ::3], array[3:5, ::3])
                assert same_bits(image[...], array)
    for target in (3, None, object()):
        with pytest.raises(TypeError, match="cannot read from"):
            fc.open(target)
    with pytest.raises(FileNotFoundError):
        fc.open(tmp_path / "absent.fits")


def test_pickle(cubes, tmp_path):
    images, array = cubes
    for image in images:
        again = pickle.loads(pickle.dumps(image))
        assert same_bits(again[2], array[2])
        assert repr(again) == repr(image)
    raw = write_compressed(tmp_path / "a.fits", array, fc.Gzip1(), SHAPE).read_bytes()
    assert same_bits(pickle.loads(pickle.dumps(fc.open(raw)))[...], array)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(fc.open(io.BytesIO(raw)))


@pytest.mark.parametrize("name", ["a.fits.gz", "a.fits"])
def test_gzipped_as_a_whole(tmp_path, cubes, name):
    _, array = cubes
    plain = write_compressed(tmp_path / "b.fits", array, fc.Rice1(bytepix=2), (2, 5, 8))
    path = tmp_path / name
    path.write_bytes(gzip.compress(plain.read_bytes()))
    for target in (path, path.read_bytes(), io.BytesIO(path.read_bytes())):
        assert same_bits(fc.open(target)[...], array)
    assert same_bits(pickle.loads(pickle.dumps(fc.open(path)))[...], array)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(fc.HeaderError, match="ends early"):
        fc.open(path)


@pytest.mark.parametrize("start", [b"", b"BZh91AY&SY", b"PK\x03\x04", b"SIMPLE", b"\x1f\x8b"])
def test_no_fits_file(tmp_path, start):
    for content in (start, start.ljust(5000, b"\0")):
        path = tmp_path / "a.fits"
        path.write_bytes(content)
        with pytest.raises(fc.HeaderError):
            fc.open(path)


def test_closed(tmp_path, cubes):
    _, array = cubes
    path = write_compressed(tmp_path / "a.fits", array, fc.Gzip1(), SHAPE)
    with fc.open(path) as image:
        part = image[0]
    assert same_bits(part, array[0])
    with pytest.raises(ValueError, match=r"a\.fits is closed"):
        image[0]
    with open(path, "rb") as file:
        fc.open(file).close()
        assert not file.closed
    first, second = fc.open_all(path)[0], fc.open(path)
    first.close()
    with pytest.raises(ValueError, match="closed"):
        _ = first.table
    assert same_bits(second[0], array[0])


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be cut there")
def test_a_file_that_shrinks(tmp_path, cubes):
    """Reading pages that are gone would end the process."""
    _, array = cubes
    path = write_compressed(tmp_path / "a.fits", array, fc.NoCompress(), SHAPE)
    image = fc.open(path)
    table = image.table
    start = table.start.tolist()
    os.truncate(path, 0)
    with pytest.raises(OSError, match="shorter"):
        image[0]
    assert table.start.tolist() == start


# ---------------------------------------------------------------------------- HDUs


@pytest.fixture
def many(tmp_path):
    """Primary image, SCI, table, SCI 2 (compressed), MASK (compressed), extension without name."""
    a = [sample("int16", (5, 6), seed) for seed in range(5)]
    parts = [plain_hdu(a[0], primary=True), plain_hdu(a[1], more=[("EXTNAME", "SCI")])]
    header = ref_build.block(
        [ref_build.card(*c) for c in [("XTENSION", "BINTABLE"), ("BITPIX", 8), ("NAXIS", 2),
                                      ("NAXIS1", 4), ("NAXIS2", 3), ("PCOUNT", 0), ("GCOUNT", 1),
                                      ("TFIELDS", 1), ("TTYPE1", "X"), ("TFORM1", "1J")]]
    )  # fmt: skip
    parts.append(header + ref_build.pad(bytes(12)))
    for i, more in ((2, [("EXTNAME", "SCI"), ("EXTVER", 2)]), (3, [("EXTNAME", "Mask")])):
        path = write_compressed(tmp_path / "x.fits", a[i], fc.Rice1(bytepix=2), (1, 6), more)
        parts.append(path.read_bytes()[2880:])
    parts.append(plain_hdu(a[4]))
    path = tmp_path / "many.fits"
    path.write_bytes(b"".join(parts))
    return path, a


def test_choice_of_hdu(many):
    path, a = many
    for hdu, want in (
        (None, 2), (0, 0), (1, 1), (3, 2), (4, 3), (5, 4), (-1, 4), (-2, 3), ("SCI", 1),
        ("sci", 1), (("SCI", 2), 2), (("SCI", 1), 1), ("MASK", 3), (np.int64(4), 3),
    ):  # fmt: skip
        with fc.open(path, hdu=hdu) as image:
            assert same_bits(image[...], a[want])
            assert image.compressed == (want in (2, 3))
    assert [image.hdu.index for image in fc.open_all(path)] == [3, 4]
    for hdu in (1.5, True, (1, 2), ("SCI",)):
        with pytest.raises(TypeError, match="hdu is"):
            fc.open(path, hdu=hdu)
    for hdu, said in ((6, "found 6 HDUs, wanted HDU 6"), (-7, "found 6 HDUs"),
                      ("ERR", "EXTNAME 'ERR'"), (("SCI", 3), "EXTVER 3"),
                      (2, "HDU 2: found BINTABLE")):  # fmt: skip
        with pytest.raises(fc.HeaderError, match=said):
            fc.open(path, hdu=hdu)


def test_nothing_compressed(tmp_path):
    path = tmp_path / "a.fits"
    path.write_bytes(plain_hdu(sample("uint8", (3, 4)), primary=True))
    with pytest.raises(fc.HeaderError, match="found none in 1 HDUs, wanted a compressed image"):
        fc.open(path)
    assert fc.open_all(path) == []


def test_what_follows_the_last_hdu_is_ignored(many):
    path, a = many
    raw = path.read_bytes()
    for rest in (b"\0" * 2880, b" " * 100, b"special records".ljust(2880)):
        assert same_bits(fc.open(raw + rest, hdu=-1)[...], a[4])


def test_unpadded_last_block(tmp_path):
    array = sample("int16", (9, 12))
    raw = write_compressed(tmp_path / "a.fits", array, fc.Gzip1(), (3, 12)).read_bytes()
    assert same_bits(fc.open(raw.rstrip(b"\0") + b"\0\0\0\0")[...], array)


# ---------------------------------------------------------------------------- tables

LAYOUTS = {
    "wide descriptors": {"wide": True},
    "gap before the heap": {"gap": 1000},
    "both": {"wide": True, "gap": 3},
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("codec", [fc.Rice1(bytepix=2), fc.Plio1()], ids=lambda c: c.codec_id)
def test_layouts(tmp_path, codec, layout):
    array = sample("int16", (10, 20))
    path = write_compressed(tmp_path / "a.fits", array, codec, (3, 7), **layout)
    assert same_bits(fc.open(path)[...], array)


def table_file(path, columns, rows, heap, cards):
    """A table whose rows and heap are given as they are; columns are (name, TFORM)."""
    head = [("XTENSION", "BINTABLE"), ("BITPIX", 8), ("NAXIS", 2), ("NAXIS1", len(rows[0])),
            ("NAXIS2", len(rows)), ("PCOUNT", len(heap)), ("GCOUNT", 1),
            ("TFIELDS", len(columns))]  # fmt: skip
    for i, (name, form) in enumerate(columns, 1):
        head += [(f"TTYPE{i}", name), (f"TFORM{i}", form)]
    primary = [("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", True)]
    blocks = [ref_build.block([ref_build.card(*c) for c in cs]) for cs in (primary, head + cards)]
    path.write_bytes(b"".join(blocks) + ref_build.pad(b"".join(rows) + heap))
    return path


def pair(count, offset):
    return np.array([count, offset], ">i4").tobytes()


def test_shared_and_shuffled_offsets(tmp_path):
    array = np.array([[1, 2, 3], [4, 5, 6], [1, 2, 3]], "i4")
    streams = [bytes(fc.NoCompress().encode(row)) for row in array[:2]]
    rows = [pair(12, 20), pair(12, 4), pair(12, 20)]
    heap = b"junk" + streams[1] + b"1234" + streams[0]
    cards = image_cards(array, (1, 3), fc.NoCompress())
    path = table_file(tmp_path / "a.fits", [("compressed_data", "PB")], rows, heap, cards)
    assert same_bits(fc.open(path)[...], array)
    assert fc.open(path).table.start.tolist() == [24 + 20, 24 + 4, 24 + 20]


def test_fallback_columns(tmp_path):
    """Each tile in another column; scales of fallback tiles mean nothing."""
    array = np.array([[1.5, np.nan, -0.0, 3], [1, 2, 3, 4], [5, np.inf, 7, 8]], "f4")
    quantize = fc.Quantize(scale=1.0, zero=0.0)
    parts = [
        bytes(fc.Gzip1().encode(array[0])),
        bytes(fc.Rice1().encode(quantize.encode(array[1]))),
        array[2].astype(">f4").tobytes(),
    ]
    at = np.cumsum([0, *map(len, parts)])
    number = np.array([1.0, 0.0], ">f8").tobytes()
    rows = [
        pair(0, 0) + pair(len(parts[0]), at[0]) + pair(0, 0) + bytes(16),
        pair(len(parts[1]), at[1]) + pair(0, 0) + pair(0, 0) + number,
        pair(0, 0) + pair(0, 0) + pair(4, at[2]) + bytes(16),
    ]
    columns = [("COMPRESSED_DATA", "1PB(9)"), ("GZIP_COMPRESSED_DATA", "1PB"),
               ("UNCOMPRESSED_DATA", "1PE"), ("ZSCALE", "1D"), ("ZZERO", "1D")]  # fmt: skip
    cards = image_cards(array, (1, 4), fc.Rice1())
    path = table_file(tmp_path / "a.fits", columns, rows, b"".join(parts), cards)
    image = fc.open(path)
    assert same_bits(image[...], array)
    assert image.table.column.tolist() == [
        "GZIP_COMPRESSED_DATA", "COMPRESSED_DATA", "UNCOMPRESSED_DATA"]  # fmt: skip
    assert [image.table.context(row).quantized for row in range(3)] == [False, True, False]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_blank_column_wins_over_keyword(tmp_path, order):
    """Columns are found by name, wherever they stand and however they are written."""
    integers = np.array([[5, 6, 7], [5, 6, 7]], "i4")
    streams = [bytes(fc.Rice1().encode(row)) for row in integers]
    cells = [
        [pair(len(streams[0]), 0), pair(len(streams[1]), len(streams[0]))],
        [np.array(v, ">f8").tobytes() for v in (2, 3)],
        [np.array(v, ">f4").tobytes() for v in (1, 0)],
        [np.array(v, ">i4").tobytes() for v in (5, 7)],
    ]
    names = [("Compressed_Data", "PB"), ("zscale", "D"), ("ZZero", "1E"), ("ZBLANK", "J")]
    rows = [b"".join(cells[i][row] for i in order) for row in range(2)]
    cards = image_cards(integers.astype("f8"), (1, 3), fc.Rice1(), [("ZBLANK", 6)])
    path = table_file(tmp_path / "a.fits", [names[i] for i in order], rows, b"".join(streams),
                      cards)  # fmt: skip
    want = np.array([[np.nan, 13, 15], [15, 18, np.nan]])
    assert same_bits(fc.open(path)[...], want)


@pytest.mark.parametrize("ndim", range(1, 10))
def test_dimensions(tmp_path, ndim):
    shape = (2, 3, 2, 2, 3, 2, 1, 3, 4)[-ndim:]
    tile_shape = (1, 2, 2, 1, 2, 2, 1, 2, 3)[-ndim:]
    array = sample("int16", shape)
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=2), tile_shape)
    image = fc.open(path)
    assert same_bits(image[...], array)
    assert same_bits(image[..., ::-2], array[..., ::-2])


@pytest.mark.parametrize("squeezed", [(16, 1, 20), (16, 20, 1), (1, 16, 20)])
def test_two_long_axes_anywhere(tmp_path, squeezed):
    array = sample("int32", squeezed)
    path = write_compressed(tmp_path / "a.fits", array, fc.HCompress1(), squeezed)
    assert same_bits(fc.open(path)[...], array)


def test_tile_larger_than_image(tmp_path):
    array = sample("int16", (5, 6))
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=2), (5, 6))
    raw = path.read_bytes()
    for n, keyword in ((6, "ZTILE1"), (5, "ZTILE2")):
        raw = raw.replace(ref_build.card(keyword, n), ref_build.card(keyword, 4096))
    image = fc.open(raw)
    assert image.tile_shape == (5, 6)
    assert same_bits(image[...], array)


@pytest.mark.parametrize("bytepix", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_bytepix_is_honoured(tmp_path, bytepix, dtype):
    array = sample(dtype, (6, 50))
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=bytepix), (1, 50))
    assert same_bits(fc.open(path)[...], array)


@pytest.mark.parametrize("codec", [fc.Gzip1(), fc.Gzip2(), fc.NoCompress()],
                         ids=lambda c: c.codec_id)  # fmt: skip
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "float64"])
def test_every_type(tmp_path, codec, dtype):
    array = sample(dtype, (6, 50))
    if array.dtype.kind == "f":
        array[2, :4] = np.nan, np.inf, -0.0, 1e-40
    path = write_compressed(tmp_path / "a.fits", array, codec, (2, 17))
    assert fc.open(path)[...].tobytes() == array.tobytes()


@pytest.mark.parametrize("method", ["NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("codec", [fc.Rice1(), fc.Gzip1(), fc.Gzip2(), fc.HCompress1()],
                         ids=lambda c: c.codec_id)  # fmt: skip
def test_quantized(tmp_path, codec, dtype, method):
    import ref_tile

    array = sample(dtype, (30, 40))
    array[3, 4:9] = np.nan
    quantize = fc.Quantize(level=4, method=method, seed=9999)
    path = write_compressed(tmp_path / "a.fits", array, codec, (16, 17), quantize=quantize)
    with fc.open(path) as image:
        got = image[...]
        assert image.quantize.method == method
    assert np.array_equal(np.isnan(got), np.isnan(array))
    import builtins

    raw = path.read_bytes()
    builtin_open = builtins.open
    try:  # the oracle reads by path, and leaves its file open
        builtins.open = lambda *args: io.BytesIO(raw)
        want, _ = ref_tile.read(path, 1)
    finally:
        builtins.open = builtin_open
    assert same_bits(got, want)


# ---------------------------------------------------------------------------- faults


def heap_file(tmp_path, descriptors, heap, more=(), array=None):
    array = np.zeros((len(descriptors), 4), "i2") if array is None else array
    cards = image_cards(array, (1, 4), fc.Rice1(bytepix=2), more)
    rows = [pair(*d) for d in descriptors]
    return table_file(tmp_path / "a.fits", [("COMPRESSED_DATA", "1PB")], rows, heap, cards)


@pytest.mark.parametrize(
    ("descriptor", "said"),
    [
        ((0, 0), "found no bytes in any column"),
        ((5, 7), "leave the heap"),
        ((-1, 0), "leave the heap"),
        ((4, -1), "leave the heap"),
        ((2**31 - 1, 2**31 - 1), "leave the heap"),
        ((2, 0), "data ends after 0 of 4 pixels"),
    ],
)
def test_bad_descriptor(tmp_path, descriptor, said):
    stream = bytes(fc.Rice1(bytepix=2).encode(np.zeros(4, "i2")))
    good = (len(stream), 0)
    path = heap_file(tmp_path, [good, good, descriptor], stream.ljust(10, b"\0"))
    image = fc.open(path)
    assert same_bits(image[:2], np.zeros((2, 4), "i2"))
    error = fc.DecodeError if "pixels" in said else fc.HeaderError
    with pytest.raises(error, match=f"HDU 1: RICE_1 tile 2: .*{said}"):
        image[...]


def with_card(raw, keyword, value):
    """The file with another value on a card of HDU 1."""
    key = keyword.ljust(8).encode()
    at = next(i for i in range(2880, len(raw), 80) if raw[i : i + 8] == key)
    return raw[:at] + ref_build.card(keyword, value) + raw[at + 80 :]


CARDS = {
    "NAXIS2": (4, "one row for each of 3 tiles"),
    "NAXIS1": (9, "wanted 8 for these columns"),
    "ZCMPTYPE": ("BZIP2_1", "ZCMPTYPE is 'BZIP2_1'"),
    "ZBITPIX": (17, "ZBITPIX is 17"),
    "ZNAXIS1": (-4, "ZNAXIS1 is -4"),
    "ZTILE1": (0, "ZTILE1 is 0"),
    "ZVAL1": (0, "blocksize 0"),
    "ZVAL2": (8, "bytepix 8"),
    "TFORM1": ("1PQ", "TFORM1 is '1PQ'"),
    "TTYPE1": ("DATA", "no column COMPRESSED_DATA"),
    "TFIELDS": ("one", "TFIELDS is 'one'"),
    "PCOUNT": (2**62, "data unit"),
    "ZNAXIS": (40, "ZNAXIS3 is None"),
}


@pytest.mark.parametrize("keyword", CARDS)
def test_bad_card(tmp_path, keyword):
    value, said = CARDS[keyword]
    raw = heap_file(tmp_path, [(9, 0)] * 3, bytes(9)).read_bytes()
    raw = with_card(raw, keyword, value)
    with pytest.raises(fc.HeaderError, match=said):
        fc.open(raw)


def test_types_that_do_not_fit(tmp_path):
    long = np.zeros((2, 4), "i8")
    with pytest.raises(fc.HeaderError, match="ZBITPIX is 64"):
        fc.open(heap_file(tmp_path, [(9, 0)] * 2, bytes(9), array=long))
    floats = np.zeros((2, 4), "f4")
    with pytest.raises(fc.DecodeError, match=r"tile 0: found int16 pixels without ZSCALE"):
        fc.open(heap_file(tmp_path, [(9, 0)] * 2, bytes(9), array=floats))[...]
    more = [("ZQUANTIZ", "DITHER"), ("ZSCALE", 1.0), ("ZZERO", 0.0)]
    with pytest.raises(fc.HeaderError, match="ZQUANTIZ is 'DITHER'"):
        fc.open(heap_file(tmp_path, [(9, 0)] * 2, bytes(9), array=floats, more=more))
    with pytest.raises(fc.HeaderError, match="found ZSCALE alone"):
        fc.open(heap_file(tmp_path, [(9, 0)] * 2, bytes(9), array=floats, more=[("ZSCALE", 1.0)]))


def test_value_outside_the_type(tmp_path):
    array = np.full((2, 50), 70000, "i4")
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(), (1, 50))
    raw = path.read_bytes().replace(ref_build.card("ZBITPIX", 32), ref_build.card("ZBITPIX", 16))
    with pytest.raises(fc.DecodeError, match="tile 0: pixel value 70000, wanted at most 32767"):
        fc.open(raw)[...]


def test_table_larger_than_its_file(tmp_path):
    raw = heap_file(tmp_path, [(9, 0)] * 3, bytes(9)).read_bytes()
    raw = with_card(with_card(raw, "NAXIS2", 10**12), "ZNAXIS2", 10**12)
    for target in (raw, io.BytesIO(raw)):
        with pytest.raises(fc.HeaderError, match="wanted a table of 8000000000000 bytes"):
            fc.open(target)


def test_lossy_values_are_clipped(tmp_path):
    array = np.where(np.add.outer(np.arange(32), np.arange(32)) % 2, 32767, -32768).astype("i4")
    array[::5] = 32767
    path = write_compressed(tmp_path / "a.fits", array, fc.HCompress1(scale=4001), (32, 32))
    raw = path.read_bytes().replace(ref_build.card("ZBITPIX", 32), ref_build.card("ZBITPIX", 16))
    wide, narrow = fc.open(path)[...], fc.open(raw)[...]
    assert wide.max() > 32767 or wide.min() < -32768
    assert same_bits(narrow, np.clip(wide, -32768, 32767).astype("i2"))


def test_environment():
    """FITSCODECS_THREADS and FITSCODECS_CPU are read at import."""
    code = "import fitscodecs as fc; from fitscodecs.threads import THREADS; " \
           "print(THREADS, fc.cpu_features()['used'])"  # fmt: skip
    env = {**os.environ, "FITSCODECS_THREADS": "3", "FITSCODECS_CPU": "portable"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "3 []"
    env["FITSCODECS_CPU"] = "abacus"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "FITSCODECS_CPU is 'abacus', wanted one of portable" in done.stderr


@pytest.mark.parametrize(
    ("limit", "used"),
    [("", 23), ("portable", 16), ("sse41", 17), ("avx2", 19), ("avx512", 23)],
)
def test_limit_of_the_cpu(limit, used):
    """What a CPU does slowly (bit 4) stays known below a limit."""
    assert choose_features(1 | 2 | 4 | 16, limit) == used


def test_a_file_made_by_others():
    path = VECTORS / "files" / "cf_rice_f32_nan_2d.fits"
    want = np.load(path.with_suffix(".npy"))
    with fc.open(path) as image:
        assert same_bits(image[5:20:3, ::-1], want[5:20:3, ::-1])
        assert same_bits(image.blocks[0, 0], want[: image.tile_shape[0], : image.tile_shape[1]])


def test_infinite_parameter(tmp_path):
    raw = heap_file(tmp_path, [(9, 0)] * 3, bytes(9)).read_bytes()
    at = raw.index(b"ZVAL1   =")
    for text in (b"1E999", b"1.5", b"T", b"'32'"):
        with pytest.raises(fc.HeaderError, match="BLOCKSIZE is"):
            fc.open(raw[: at + 10] + text.rjust(20).ljust(70) + raw[at + 80 :])


@pytest.mark.parametrize("letter", ["B", "D"])
@pytest.mark.parametrize("codec", [fc.Rice1(bytepix=2), fc.NoCompress(), fc.Gzip1()],
                         ids=lambda c: c.codec_id)  # fmt: skip
def test_descriptors_beyond_64_bits(tmp_path, codec, letter):
    array = np.zeros((1, 4), "i2")
    cards = image_cards(array, (1, 4), codec)
    for count, offset in ((2**62 - 1, 0), (9, 2**63 - 200), (2**63 - 1, 2**63 - 1)):
        row = np.array([count, offset], ">i8").tobytes()
        columns = [("COMPRESSED_DATA", f"1Q{letter}")]
        raw = table_file(tmp_path / "a.fits", columns, [row], bytes(99), cards).read_bytes()
        for pcount in (99, 2**61):
            for target in (raw, io.BytesIO(raw)):
                changed = with_card(raw, "PCOUNT", pcount)
                target = changed if target is raw else io.BytesIO(changed)
                with pytest.raises(fc.FitsCodecsError, match="tile 0"):
                    fc.open(target)[...]


def test_plain_image_larger_than_its_file():
    raw = plain_hdu(np.zeros((4, 4), "i2"), primary=True)
    at = raw.index(b"NAXIS2  =")
    raw = raw[:at] + ref_build.card("NAXIS2", 3 * 10**9) + raw[at + 80 :]
    for target in (raw, io.BytesIO(raw)):
        with pytest.raises(fc.HeaderError, match="wanted a plain image of 24000000000 bytes"):
            fc.open(target, hdu=0)


def test_one_tile_of_a_claimed_giant(tmp_path):
    """What a header claims costs nothing before the stream is looked at."""
    raw = heap_file(tmp_path, [(9, 0)], bytes(9)).read_bytes()
    for keyword in ("ZNAXIS1", "ZTILE1", "ZNAXIS2", "ZTILE2"):
        raw = with_card(raw, keyword, 10**7)
    with pytest.raises(fc.DecodeError):
        fc.open(raw)[0, 0]


def test_gzipped_something_else(tmp_path):
    for content in (b"no fits file", b"", b"\0" * 10**6):
        with pytest.raises(fc.HeaderError, match="inside, wanted a FITS file"):
            fc.open(gzip.compress(content))
    with pytest.raises(fc.HeaderError, match="not a valid gzip file"):
        fc.open(b"\x1f\x8b" + b"junk" * 10)


def test_reader_with_a_size_method(tmp_path, cubes):
    """A reader that refuses to read beyond its end, and tells its size by a method."""
    _, array = cubes
    raw = write_compressed(tmp_path / "a.fits", array, fc.Gzip1(), (1, 23, 31)).read_bytes()

    class Reader:
        def size(self):
            return len(raw)

        def read_range(self, start, stop):
            assert stop <= len(raw)
            return raw[start:stop]

    assert same_bits(fc.open(Reader())[...], array)


def test_reader_that_ignores_the_range():
    class Reader:
        def read_range(self, start, stop):
            return bytes(10**6)

    with pytest.raises(OSError, match="does not support ranges"):
        fc.open(Reader())
