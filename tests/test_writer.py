# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Writing: every legal image comes back bit by bit, every illegal one is refused."""

import itertools
import re
import warnings

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.cards import card, cards_of, compressed_cards, restored_cards
from fitscodecs.checksum import ALL_ONES, checksum_text, continued_sum, ones_sum
from fitscodecs.encode import noise
from fitscodecs.heap import put_together
from fitscodecs.settle import settle
from fitscodecs.writer import PRIMARY, compress, image_lines
from tests.conftest import same_bits
from tests.making import sample

DTYPES = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
          "float64"]  # fmt: skip
ALGORITHMS = [name for cls in fc.CODECS for name in cls.zcmptype[:1]]
SHAPE = (33, 40)
TILES = {"default": None, "rows": (2, 40), "squares": (8, 8), "whole": SHAPE}


def pixels_of(dtype, content="plain"):
    array = sample(dtype, SHAPE, seed=5)
    if content == "NaN":
        array[4:6, 7:30] = np.nan
        array[20] = np.nan
    if content == "Inf":
        array[3, 3] = np.inf
    if content == "bits":
        array[0, :6] = [-0.0, 1e-40, np.nan, np.inf, -np.inf, 0]
        array.view(f"u{array.itemsize}")[1, 1] |= 1
    return array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
@pytest.mark.parametrize("tiles", TILES)
def test_matrix(tmp_path, dtype, algorithm, tiles):
    """What can be written is read back bit by bit; what cannot is refused before it exists."""
    array = pixels_of(dtype, "bits" if np.dtype(dtype).kind == "f" else "plain")
    path = tmp_path / "a.fits"
    try:
        fc.write(path, array, compression=algorithm, tile_shape=TILES[tiles])
    except fc.EncodeError as error:
        assert algorithm is not None
        assert algorithm in str(error)
        assert list(tmp_path.iterdir()) == []
        cls = fc.codecs.codec_class(algorithm)
        stored = 8 * np.dtype(dtype).itemsize * (-1 if np.dtype(dtype).kind == "f" else 1)
        assert (
            stored not in cls.bitpix
            or (cls.needs_2d and tiles in ("rows", "squares"))
            or not cls.holds_negative
        )
        return
    with fc.open(path) as image:
        assert image.dtype == array.dtype
        assert image[...].tobytes() == array.tobytes()
        assert image.tile_shape == (TILES[tiles] or image.codec.default_tile_shape(SHAPE))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("content", ["plain", "NaN", "Inf"])
@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
@pytest.mark.parametrize("method", ["NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"])
def test_quantized(tmp_path, dtype, content, algorithm, method):
    """Within half a step, NaN where NaN was, zeros exact where promised; as astropy reads it."""
    array = pixels_of(dtype, content)
    quantize = fc.Quantize(level=16, method=method, seed=77)
    path = tmp_path / "a.fits"
    try:
        fc.write(path, array, compression=algorithm, tile_shape=(11, 40), quantize=quantize)
    except fc.EncodeError:
        cls = fc.codecs.codec_class(algorithm)
        assert not cls.holds_negative or (cls.clips and method.endswith("2"))
        assert list(tmp_path.iterdir()) == []
        return
    with fc.open(path) as image:
        got = image[...]
        table = image.table
        limit = np.repeat(table.scale, 11)[:, np.newaxis] * (0.5 + 1e-6)
    assert np.array_equal(np.isnan(got), np.isnan(array))
    good = np.isfinite(array)
    limit = np.broadcast_to(limit + 1e-6, SHAPE)[good]
    assert (abs(got[good] - array[good]) <= limit).all()
    assert np.array_equal(got[np.isinf(array)], array[np.isinf(array)])
    if method.endswith("2"):
        assert (got[array == 0] == 0).all()
    fits = pytest.importorskip("astropy.io.fits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = fits.getdata(path, 1)
    assert same_bits(got, want.astype(got.dtype))


@pytest.mark.parametrize(
    ("dtype", "settings", "said"),
    [
        ("i8", {"compression": "RICE_1"}, "RICE_1 cannot hold int64"),
        ("u8", {"compression": "PLIO_1"}, "PLIO_1 cannot hold uint64"),
        ("f4", {"compression": "RICE_1"}, "RICE_1 cannot hold float32 pixels; quantize"),
        ("f4", {"compression": "PLIO_1", "quantize": fc.Quantize()}, "may be negative"),
        ("i2", {"quantize": fc.Quantize()}, "quantize is for floats"),
        ("i2", {"tile_shape": (3,)}, "wanted 2 positive lengths"),
        ("i2", {"tile_shape": (0, 4)}, "positive lengths"),
        ("i2", {"compression": "HCOMPRESS_1", "tile_shape": (10, 40)}, "4 pixels or more"),
        ("i2", {"compression": "HCOMPRESS_1", "tile_shape": (33, 1)}, "two axes"),
        ("f2", {}, "which FITS does not hold"),
        ("c8", {}, "which FITS does not hold"),
        ("?", {}, "which FITS does not hold"),
        ("f4", {"compression": "HCOMPRESS_1",
                "quantize": fc.Quantize(method="SUBTRACTIVE_DITHER_2")}, "DITHER_2"),
    ],
)  # fmt: skip
def test_refused(tmp_path, dtype, settings, said):
    array = np.zeros(SHAPE, dtype)
    with pytest.raises(fc.EncodeError, match=said):
        fc.write(tmp_path / "a.fits", array, **settings)
    with pytest.raises(fc.EncodeError, match=said):
        fc.encode_image(array, **settings)
    assert list(tmp_path.iterdir()) == []


def test_refused_by_their_values(tmp_path):
    for value in (-1, 2**24):
        array = np.zeros(SHAPE, "i4")
        array[20, 5] = value
        with pytest.raises(fc.EncodeError, match="PLIO_1 tile 20: pixel value"):
            fc.write(tmp_path / "a.fits", array, compression="PLIO_1")
    with pytest.raises(fc.EncodeError, match="has no pixels"):
        fc.write(tmp_path / "a.fits", np.zeros((0, 4)))
    with pytest.raises(ValueError, match="no codec for ZCMPTYPE"):
        fc.write(tmp_path / "a.fits", np.zeros((3, 4)), compression="BZIP2_1")
    with pytest.raises(TypeError, match="wanted a ZCMPTYPE"):
        fc.write(tmp_path / "a.fits", np.zeros((3, 4)), compression=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ndim", range(1, 10))
def test_dimensions(ndim):
    shape = (2, 1, 3, 2, 1, 2, 3, 4, 5)[-ndim:]
    array = sample("int16", shape)
    for tiles in (None, tuple(max(1, n - 1) for n in shape)):
        hdu = fc.encode_image(array, tile_shape=tiles)
        assert len(hdu) % 2880 == 0
        assert same_bits(fc.open(empty_primary() + hdu)[...], array)


def empty_primary():
    from fitscodecs.writer import PRIMARY

    return PRIMARY


def test_any_array(tmp_path):
    """Byte order, strides, memory maps and subclasses make no difference to the bytes."""
    array = sample("int32", (50, 60))
    want = fc.encode_image(array)
    wide = np.zeros((100, 60), "i4")
    wide[::2] = array
    mapped = np.memmap(tmp_path / "m", ">i4", "w+", shape=array.shape)
    mapped[...] = array
    for same in (
        array.astype(">i4"),
        wide[::2],
        np.asfortranarray(array),
        mapped,
        array[::-1][::-1],
    ):
        assert fc.encode_image(same) == want
    for threads in (1, 2, 7):
        assert fc.encode_image(array, threads=threads) == want
    big = sample("float32", (700, 900))
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1")
    assert fc.encode_image(big, quantize=quantize, threads=1) == fc.encode_image(
        big, quantize=quantize, threads=5
    )


def test_several_images(tmp_path):
    path = tmp_path / "a.fits"
    arrays = [sample("int16", (5, 6)), sample("float32", (7, 8)), sample("uint8", (9,))]
    headers = [{"EXTNAME": "A"}, None, {"EXTNAME": "C"}]
    fc.write(path, arrays, headers)
    images = fc.open_all(path)
    assert [image.hdu.index for image in images] == [1, 2, 3]
    for image, array in zip(images, arrays, strict=True):
        assert same_bits(image[...], array)
    assert fc.open(path, hdu="C").shape == (9,)
    with pytest.raises(fc.EncodeError, match="3 images and 2 headers"):
        fc.write(tmp_path / "b.fits", arrays, headers[:2])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("content", ["plain", "constant"])
def test_file_holds_what_is_encoded(tmp_path, monkeypatch, content, threads):
    """Tiles that cannot be quantized need a column, behind which the heap has to move."""
    monkeypatch.setattr("fitscodecs.heap.CHUNK", 10_007)
    pixels = sample("float32", (1030, 1100), seed=6)
    if content == "constant":
        pixels[600:605] = 7
    images = [pixels, pixels[::2]]
    settings = {"quantize": fc.Quantize(level=8, seed=5), "threads": threads}
    fc.write(tmp_path / "a.fits", images, **settings)
    hdus = [fc.encode_image(image, **settings) for image in images]
    assert (b"GZIP_COMPRESSED_DATA" in hdus[0]) == (content == "constant")
    assert (tmp_path / "a.fits").read_bytes() == PRIMARY + b"".join(hdus)


def test_file_whose_header_becomes_longer(tmp_path):
    """NaN needs a card, and for some number of other cards another block."""
    pixels = sample("float32", (20, 300), seed=6)
    quantize = fc.Quantize(level=8, seed=5)
    longer = 0
    for ncards in range(36):
        header = {f"CARD{i}": i for i in range(ncards)}
        nbytes = len(fc.encode_image(pixels, header, quantize=quantize))
        image = pixels.copy()
        image[7, 3] = np.nan
        fc.write(tmp_path / "a.fits", image, header, quantize=quantize, overwrite=True)
        hdu = fc.encode_image(image, header, quantize=quantize)
        assert (tmp_path / "a.fits").read_bytes() == PRIMARY + hdu
        longer += len(hdu) > nbytes
    assert longer == 1


def test_overwrite(tmp_path):
    path = tmp_path / "a.fits"
    fc.write(path, np.zeros((3, 4)))
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        fc.write(path, np.ones((3, 4)))
    assert path.read_bytes() == before
    with pytest.raises(fc.EncodeError):
        fc.write(path, np.full((3, 4), -1, "i4"), compression="PLIO_1", overwrite=True)
    assert path.read_bytes() == before
    fc.write(path, np.ones((3, 4)), overwrite=True)
    assert (fc.open(path)[...] == 1).all()
    assert list(tmp_path.iterdir()) == [path]


def test_seeds():
    array = sample("float32", (20, 100))

    def seed(**settings):
        quantize = fc.Quantize(method="SUBTRACTIVE_DITHER_1", **settings)
        return fc.open(empty_primary() + fc.encode_image(array, quantize=quantize)).quantize.seed

    assert seed(seed=4321) == 4321
    first = array[:1].tobytes()
    assert seed(seed="checksum") == sum(first) % 10000 + 1
    assert 1 <= seed(seed="clock") <= 10000
    with pytest.raises(fc.EncodeError, match="wanted a number"):
        fc.Quantize(method="SUBTRACTIVE_DITHER_1", seed="clock").encode(
            array, context=fc.DecodeContext()
        )


def test_lossy_hcompress():
    array = sample("int16", (64, 64))
    array[40, 3] = -999
    hdu = fc.encode_image(array, {"BLANK": -999}, compression=fc.HCompress1(scale=8),
                          tile_shape=(16, 64))  # fmt: skip
    image = fc.open(empty_primary() + hdu, scaled=False)
    assert same_bits(image[32:48], array[32:48])  # the tile with an undefined pixel
    assert not same_bits(image[:32], array[:32])
    assert abs(image[...].astype("i4") - array).max() <= 8


def test_noise_relative_scale():
    array = sample("int32", (64, 64))
    settings = settle(array.shape, array.dtype, "HCOMPRESS_1", tile_shape=(16, 64),
                      scale_request=2.0)  # fmt: skip
    encoded = compress(settings, array, image_lines(array.shape, array.dtype))
    image = fc.open(empty_primary() + encoded.tobytes())
    for row, tile in enumerate(encoded.tiles):
        scale = int.from_bytes(tile.stream[10:14], "big")
        assert scale == int(np.float32(2 * noise(array[16 * row : 16 * row + 16])) + 0.5)
    assert image.hdu.header["ZVAL1"] == 2.0


def test_tile_options():
    """A function sees where each tile is and what is in it; threads see it too."""
    array = np.random.default_rng(3).normal(0, 1, (512, 600)).astype("f4")
    array[:, 300:] *= 50
    seen = []

    def finer(context):
        seen.append((context.row, context.position, context.shape))
        return {"level": 64} if context.noise > 10 else {}

    settings = {"quantize": fc.Quantize(level=4), "tile_shape": (64, 100)}
    plain = fc.open(empty_primary() + fc.encode_image(array, **settings))
    with fc.tile_options(finer):
        image = fc.open(empty_primary() + fc.encode_image(array, threads=3, **settings))
    assert sorted(seen)[7] == (7, (64, 100), (64, 100))
    noisy = np.arange(48) % 6 >= 3
    assert np.allclose(image.table.scale[~noisy], plain.table.scale[~noisy])
    assert np.allclose(image.table.scale[noisy] * 16, plain.table.scale[noisy])
    with fc.tile_options(lambda context: {"seed": 5}), pytest.raises(fc.EncodeError, match="seed"):
        fc.encode_image(array, **settings)


# ---------------------------------------------------------------------------- headers


def test_cards_survive(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    header = fits.Header()
    header["SIMPLE"] = True
    header["BITPIX"] = 8
    header["EXTEND"] = True
    header["HIERARCH ESO DET ID"] = 3
    header["LONGSTR"] = "x" * 200
    header["CTYPE1"] = ("RA---TAN", "a comment")
    header.add_comment("first")
    header.append(("", ""), end=True)
    header.add_history("second")
    header["BSCALE"], header["BZERO"], header["CHECKSUM"] = 2.0, 7.0, "stale"
    array = sample("uint16", (10, 12))
    path = tmp_path / "a.fits"
    fc.write(path, array, header)
    got = fc.open(path).header
    assert (got["SIMPLE"], got["BITPIX"], got["NAXIS1"], got["EXTEND"]) == (True, 16, 12, True)
    assert (got["BSCALE"], got["BZERO"]) == (1, 32768)
    assert "CHECKSUM" not in got
    for keyword in ("ESO DET ID", "LONGSTR", "CTYPE1"):
        assert got[keyword] == header[keyword]
    kept = [c.image for c in header.cards if c.keyword in ("", "COMMENT", "HISTORY", "CTYPE1")]
    assert [c.image for c in got.cards if c.keyword in ("", "COMMENT", "HISTORY", "CTYPE1")] == kept
    again = fc.encode_image(array, fits.getheader(path, 1))
    assert same_bits(fc.open(empty_primary() + again)[...], array)


def test_header_of_a_compressed_image():
    """Cards of a table and of a compression do not get into the image."""
    first = fc.encode_image(sample("int16", (10, 12)), {"OBJECT": "M13", "EXTNAME": "SCI"})
    cards = first[: first.index(b"END" + b" " * 77) + 80]
    second = fc.encode_image(sample("float64", (7, 5)), cards)
    names = [line[:8].decode().strip() for line in cards_of(second)]
    assert names.count("ZBITPIX") == names.count("ZNAXIS1") == names.count("EXTNAME") == 1
    image = fc.open(empty_primary() + second)
    assert (image.shape, image.dtype, image.hdu.header["OBJECT"]) == ((7, 5), np.float64, "M13")


def test_cards_there_and_back():
    lines = [card("XTENSION", "IMAGE"), card("BITPIX", 16), card("NAXIS", 2), card("NAXIS1", 3),
             card("NAXIS2", 4), card("PCOUNT", 0), card("GCOUNT", 1), b" " * 80,
             card("OBJECT", "it's"), b"COMMENT hello".ljust(80), card("CHECKSUM", "abc"),
             b"HIERARCH A B = 3".ljust(80), b" " * 80]  # fmt: skip
    assert restored_cards([card("XTENSION", "BINTABLE"), *compressed_cards(lines)]) == lines
    as_primary = restored_cards(compressed_cards(lines), primary=True)
    assert as_primary[0].startswith(b"SIMPLE  =                    T")
    assert [line[:8].strip() for line in as_primary[:5]] == [
        b"SIMPLE", b"BITPIX", b"NAXIS", b"NAXIS1", b"NAXIS2"]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "                   T"), (-7, "                  -7"), (0.1, "                 0.1"),
     (1e300, "              1E+300"), (2.0, "                 2.0"), ("a", "'a       '          "),
     ("it's", "'it''s   '          ")],
)  # fmt: skip
def test_card(value, text):
    line = card("KEY", value, "why")
    assert len(line) == 80
    assert line.decode() == f"KEY     = {text} / why".ljust(80)


@pytest.mark.parametrize(("key", "value"), [("KEYWORDTOOLONG", 1), ("K", "x" * 80), ("K", np.nan)])
def test_bad_card(key, value):
    with pytest.raises(fc.EncodeError):
        card(key, float(value) if value != value else value)


def test_checksums(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    path = tmp_path / "a.fits"
    for seed, dtype in itertools.product(range(8), ["uint8", "int16", "float32"]):
        fc.write(path, sample(dtype, (5 + seed, 7), seed), overwrite=True)
        with fc.open(path) as image:
            raw = path.read_bytes()[image.hdu.start :]
            assert ones_sum([raw]) == ALL_ONES
            assert ones_sum([raw[len(image.hdu.raw) :]]) == int(image.hdu.header["DATASUM"])
            assert re.fullmatch(r"[0-9A-Za-z]{16}", image.hdu.header["CHECKSUM"])
        with fits.open(path, checksum=True):
            pass  # a wrong one is a warning, and warnings are errors


def test_checksum_text_has_letters_and_digits_only():
    rng = np.random.default_rng(1)
    for total in [0, 1, ALL_ONES, ALL_ONES - 1, *rng.integers(0, 2**32, 3000).tolist()]:
        assert checksum_text(total).isalnum()


def test_chunks_of_a_sum_may_be_cut_anywhere():
    raw = np.random.default_rng(2).integers(0, 256, 1000, np.uint8).tobytes()
    want = ones_sum([raw])
    for cut in (1, 2, 3, 5, 499, 997):
        assert ones_sum([raw[:cut], raw[cut : cut + 1], raw[cut + 1 :]]) == want


def test_sums_of_parts_make_the_sum():
    raw = np.random.default_rng(3).integers(0, 256, 1000, np.uint8).tobytes()
    for cut in range(8, 16):
        first = ones_sum([raw[:cut]])
        assert continued_sum(first, cut, ones_sum([raw[cut:]])) == ones_sum([raw])
    assert continued_sum(ones_sum([bytes(3)]), 3, ones_sum([bytes(9)])) == 0  # not minus zero
    assert continued_sum(ALL_ONES, 5, ALL_ONES) == ALL_ONES


def test_large_pieces_are_not_copied():
    """A copy would be held beside the streams and the file: three times the compressed image."""
    large = bytes(2**18)
    given = [b"a", b"bc", large, large, b"d", large, b"", b"e"]
    found = list(put_together(given))
    assert b"".join(found) == b"".join(given)
    assert [len(piece) for piece in found] == [3, 2**18, 2**18, 1, 2**18, 1]
    assert sum(piece is large for piece in found) == 3


def test_headers_from_mappings():
    hdu = fc.encode_image(np.zeros((3, 4), "i2"), {
        "a": np.float64(1.5), "B": np.int64(5), "C": np.bool_(True), "D": (2.5, "a comment"),
        "COMMENT": ["one", "two"], "HISTORY": "three",
    })  # fmt: skip
    fits = pytest.importorskip("astropy.io.fits")
    header = fits.Header.fromstring(hdu[: 5 * 2880].decode("latin-1"))
    assert [header[k] for k in "ABCD"] == [1.5, 5, True, 2.5]
    assert header.comments["D"] == "a comment"
    assert list(header["COMMENT"]) == ["one", "two"]
    assert list(header["HISTORY"]) == ["three"]


@pytest.mark.parametrize(
    "header",
    [{"A": None}, {"A": 1j}, {"A": [1]}, {"A": "café"}, {"A": "a\nb"}, {"END": 5}, {"A=": 2},
     {"A B": 1}, {"CONTINUE": "x"}, {"": 1}, {"COMMENT": "x" * 80}],
)  # fmt: skip
def test_bad_headers_from_mappings(header):
    with pytest.raises(fc.EncodeError):
        fc.encode_image(np.zeros((3, 4), "i2"), header)


def test_masked_arrays():
    pixels = np.ma.masked_greater(np.arange(12, dtype="f4").reshape(3, 4), 7)
    got = fc.open(empty_primary() + fc.encode_image(pixels))[...]
    assert same_bits(got, pixels.filled(np.nan))
    with pytest.raises(fc.EncodeError, match="masked pixels"):
        fc.encode_image(np.ma.masked_greater(np.arange(12), 7))
    assert fc.encode_image(np.ma.array([1, 2])) == fc.encode_image(np.array([1, 2]))


def test_options_cannot_change_the_array():
    array = np.ones((20, 30), "f4")

    def spoil(context):
        context.pixels[...] = 0

    with fc.tile_options(spoil), pytest.raises(ValueError, match="read-only"):
        fc.encode_image(array)
    assert (array == 1).all()


@pytest.mark.parametrize("request_", [float("nan"), float("inf"), 1e30, -1e30])
def test_impossible_scales(request_):
    with pytest.raises(fc.EncodeError, match="scale"):
        settle((64, 64), "i2", "HCOMPRESS_1", scale_request=request_)
