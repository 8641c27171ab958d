# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The header of an image that the astropy adapter makes, card by card beside the one of astropy."""

import copy
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitscodecs.hdu import walk
from fitscodecs.header import is_compressed
from fitscodecs.source import open_source
from tests.conftest import HERE, shared_files

fits = pytest.importorskip("astropy.io.fits", reason="the adapter is for astropy")

from astropy.io.fits.hdu.compressed import compressed  # noqa: E402
from astropy.io.fits.hdu.compressed import header as astropy_header  # noqa: E402

from fitscodecs.adapters import astropy as fca  # noqa: E402
from fitscodecs.adapters.astropy import image_header  # noqa: E402

PLAIN = astropy_header._bintable_header_to_image_header
ODD = sorted((HERE / "data" / "odd").glob("*.fits"))
OF_ASTROPY = sorted((Path(compressed.__file__).parent / "tests" / "data").glob("*.fits"))
with fca.enabled():
    adapted = compressed._bintable_header_to_image_header  # what takes the place of PLAIN


# ---------------------------------------------------------------------------- all that users see


def outcome(function, *args):
    """What a function gives or raises, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*args), None
        except Exception as exception:
            result, error = None, (type(exception), str(exception))
    return result, error, [(w.category, str(w.message)) for w in caught]


ATTRIBUTES = ("is_blank", "keyword", "value", "comment", "rawkeyword", "rawvalue",
              "field_specifier", "image")  # fmt: skip


def seen_of_card(card):
    """The attributes of a card with their types, and whether it counts as changed.

    Empty cards that astropy adds do so, until the HDU that is made of them says otherwise.
    """
    modified = not card.is_blank and card._modified
    found = [outcome(getattr, card, name) for name in ATTRIBUTES]
    return modified, [(repr(value), type(value), *rest) for value, *rest in found]


def seen(header):
    """The cards of a header, its text, and where keywords are found."""
    cards = [seen_of_card(card) for card in header.cards]
    places = {name: list(at) for name, at in header._keyword_indices.items() if at}
    records = {name: list(at) for name, at in header._rvkc_indices.items() if at}
    return type(header), header._modified, cards, outcome(str, header), places, records


def edit(header):
    """Changes of many kinds."""
    steps = [
        lambda: header.__setitem__("NAXIS1", 77),
        lambda: header.comments.__setitem__("BITPIX", "changed"),
        lambda: header.append(("NEW", 1.5, "new")),
        lambda: header.set("MIDDLE", "x", after="NAXIS"),
        lambda: header.insert(3, ("THIRD", True)),
        lambda: header.add_history("later"),
        lambda: header.__setitem__("OBJECT", "M 13"),
        lambda: header.__delitem__("EXTNAME"),
        lambda: header.__setitem__(("COMMENT", 0), "another"),
        lambda: header.append(),
        lambda: header.strip(),
    ]
    return [outcome(step)[1:] for step in steps], outcome(str, header)


def as_read(raw):
    """The header of a table as it comes out of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fits.Header.fromstring(raw)


def assert_same(make):
    """Both functions make the same of equal headers, and share nothing with them."""
    tables = make(), make()
    plain, ours = outcome(PLAIN, tables[0]), outcome(adapted, tables[1])
    assert plain[1:] == ours[1:]
    assert seen(tables[0]) == seen(tables[1])
    if plain[0] is None:
        return
    assert seen(plain[0]) == seen(ours[0])
    for header in (plain[0], ours[0]):
        header._modified = False  # as a CompImageHDU does it
        for card in header._cards:
            card._modified = False
    copies = copy.copy(ours[0]), pickle.loads(pickle.dumps(ours[0]))
    assert all(seen(header) == seen(plain[0].copy()) for header in copies[:1])
    text = outcome(str, tables[1])
    assert edit(plain[0]) == edit(ours[0])
    assert outcome(str, tables[1]) == text
    text = outcome(str, ours[0])
    assert edit(tables[0]) == edit(tables[1])
    assert outcome(str, ours[0]) == text
    assert seen(plain[0]) == seen(ours[0])
    assert len(copies[1]) == len(copies[0])


# ---------------------------------------------------------------------------- files


def table_headers(path):
    return [hdu.raw for hdu in walk(open_source(path)) if is_compressed(hdu.header)]


@pytest.mark.parametrize("path", ODD + OF_ASTROPY, ids=lambda p: p.name)
def test_files(path):
    for raw in table_headers(path):
        assert_same(lambda raw=raw: as_read(raw))


@pytest.mark.parametrize("folder", ["real", "odd"])
def test_shared_files(folder):
    """What fpack, fitsio, astropy and others wrote; all but a few are made in one pass."""
    raws = [raw for param in shared_files(folder) for raw in headers_of(param)]
    if not raws:
        pytest.skip("the shared data are absent: set FITSCODECS_SHARED to the shared folder")
    for raw in raws:
        assert_same(lambda raw=raw: as_read(raw))
    left = [raw for raw in raws if image_header.image_header_of(as_read(raw)) is None]
    assert len(left) <= len(raws) // 5


def headers_of(param):
    """Of the first images of a file: those that follow have the same cards."""
    path = param.values[0]
    return [] if path is None else table_headers(path)[:2]


# ---------------------------------------------------------------------------- cases


def card(keyword, value, comment=""):
    """80 characters in the fixed format."""
    text = f"'{value:8}'" if isinstance(value, str) else str(value)
    return raw_card(keyword, f"{text:20}" if isinstance(value, str) else text, comment)


def raw_card(keyword, text, comment=""):
    """The same, of a value that is text already."""
    return f"{keyword:8}= {text:>20}{' / ' + comment if comment else ''}".ljust(80)


TABLE = [
    card("XTENSION", "BINTABLE", "binary table extension"), card("BITPIX", 8), card("NAXIS", 2),
    card("NAXIS1", 8), card("NAXIS2", 60), card("PCOUNT", 99), card("GCOUNT", 1),
    card("TFIELDS", 1, "columns"), card("TTYPE1", "COMPRESSED_DATA"), card("TFORM1", "1PB(9)"),
]  # fmt: skip
IMAGE = [
    raw_card("ZIMAGE", "T"), card("ZTENSION", "IMAGE", "an image"), card("ZBITPIX", 16, "type"),
    card("ZNAXIS", 2, "axes"), card("ZNAXIS1", 70, "columns"), card("ZNAXIS2", 60),
    card("ZPCOUNT", 0), card("ZGCOUNT", 1), card("ZTILE1", 70), card("ZTILE2", 1),
    card("ZCMPTYPE", "RICE_1"), card("ZNAME1", "BLOCKSIZE"), card("ZVAL1", 32),
]  # fmt: skip
REST = [
    card("OBJECT", "M 13", "what"), "COMMENT   a comment".ljust(80), "HISTORY in between".ljust(80),
    raw_card("CRVAL1", "1.25E3"), card("DATE-OBS", "2020-01-01"),
]  # fmt: skip
COLUMNS = [
    card("TFIELDS", 4), *(card(f"TTYPE{k + 2}", t) for k, t in enumerate(("ZSCALE", "ZZERO", "X"))),
]  # fmt: skip
SUMS = [card("ZHECKSUM", "8eGd9bGb8bGb8bGb", "HDU"), card("ZDATASUM", "2503531142", "data")]
LONG = ["LONG    = '".ljust(78, "a") + "&'", "CONTINUE  'bbb' / end".ljust(80)]
COMMENTS = ["COMMENT one".ljust(80), "HISTORY two".ljust(80), " " * 10 + "three".ljust(70)]
EMPTY = " " * 80


def without(cards, *keywords):
    return [line for line in cards if line[:8].rstrip() not in keywords]


ORDINARY = {
    "plain": TABLE + IMAGE + REST,
    "no rest": TABLE + IMAGE,
    "primary": [
        *TABLE,
        raw_card("ZSIMPLE", "T"),
        *IMAGE,
        raw_card("ZEXTEND", "T"),
        raw_card("ZBLOCKED", "T"),
    ],
    "neither": TABLE + without(IMAGE, "ZTENSION", "ZPCOUNT", "ZGCOUNT") + REST,
    "unsigned": TABLE
    + IMAGE
    + [raw_card("BZERO", "32768", "offset"), raw_card("BSCALE", "1")]
    + REST,
    "scaled": TABLE + IMAGE + [raw_card("BSCALE", "2.5E-3"), raw_card("BZERO", "0.0")] + COMMENTS,
    "scaled by 0": TABLE + IMAGE + [raw_card("BSCALE", "0"), raw_card("BZERO", "-0.0")],
    "floats": without(TABLE, "TFIELDS")
    + COLUMNS
    + [card("TTYPE5", "ZBLANK")]
    + [line.replace("  16", " -32") for line in IMAGE]
    + REST,
    "BLANK": without(TABLE, "TFIELDS") + COLUMNS + IMAGE + [raw_card("BLANK", "-999")],
    "ZBLANK": TABLE + IMAGE + [raw_card("ZBLANK", "-32768", "null")] + REST + COMMENTS,
    "sums": TABLE + IMAGE + REST + [card("CHECKSUM", "abc"), card("DATASUM", "1")] + SUMS,
    "sums, comments": TABLE + IMAGE + SUMS + REST + COMMENTS,
    "only comments": TABLE + IMAGE + COMMENTS + SUMS + [raw_card("BSCALE", "3.0")],
    "name": [*TABLE, card("EXTNAME", "SCI", "name"), *IMAGE, *REST],
    "default name": [*TABLE, card("EXTNAME", "COMPRESSED_IMAGE"), *IMAGE, *SUMS, *COMMENTS],
    "default name last": TABLE
    + IMAGE
    + REST
    + COMMENTS
    + [card("EXTNAME", "COMPRESSED_IMAGE")]
    + COMMENTS
    + [raw_card("ZBLANK", "7")]
    + SUMS,
    "names": TABLE + IMAGE + [card("EXTNAME", "A"), card("EXTNAME", "COMPRESSED_IMAGE")],
    "default names": TABLE + IMAGE + [card("EXTNAME", "COMPRESSED_IMAGE"), card("EXTNAME", "A")],
    "long": TABLE + IMAGE + LONG + REST + LONG + COMMENTS + [raw_card("ZBLANK", "1")],
    "HIERARCH": TABLE + IMAGE + ["HIERARCH ESO Det Chip = 5 / x".ljust(80)] * 2 + REST,
    "duplicates": TABLE + IMAGE + REST + REST,
    "cube": TABLE
    + [line.replace("   2", "   3") if line.startswith("ZNAXIS ") else line for line in IMAGE]
    + [raw_card("ZNAXIS3", "5")]
    + REST,
    "no axes": TABLE
    + [line.replace("   2", "   0") if line.startswith("ZNAXIS ") else line for line in IMAGE]
    + REST,
    "BLOCKED": TABLE
    + IMAGE
    + [raw_card("BLOCKED", "T"), raw_card("GROUPS", "T"), raw_card("EXTEND", "T")]
    + SUMS,
    "empty inside": TABLE + IMAGE + [EMPTY, *REST, EMPTY] + COMMENTS,
    "free format": [*TABLE, *without(IMAGE, "ZNAXIS1"), "ZNAXIS1 = 70/columns".ljust(80), *REST],
    "not parsed": TABLE + IMAGE + ["BAD     = what is this / ?".ljust(80)] + REST,
    **{f"{n} empty": TABLE + IMAGE + REST + SUMS + [EMPTY] * n for n in (1, 5, 7, 9, 10, 60)},
    **{
        f"{n} empty inside": TABLE + REST + [EMPTY] * n + IMAGE + SUMS for n in (1, 5, 7, 9, 10, 60)
    },
    **{
        f"{n} empty, comments": TABLE + REST + COMMENTS + [EMPTY] * n + IMAGE + [EMPTY] * 3
        for n in (1, 5, 60)
    },
}

UNUSUAL = {
    "null integers in column 4": without(TABLE, "TFIELDS")
    + [line.replace("'X     ", "'ZBLANK") for line in COLUMNS]
    + IMAGE,
    "TTYPE1 twice": [*TABLE, card("TTYPE1", "ZBLANK"), *IMAGE],
    "null integers": [line.replace("COMPRESSED_DATA", "ZBLANK         ") for line in TABLE] + IMAGE,
    "ZTENSION": TABLE + [line.replace("IMAGE   ", "BINTABLE") for line in IMAGE] + REST,
    "ZSIMPLE text": [*TABLE, card("ZSIMPLE", "T"), *IMAGE],
    "no ZBITPIX": TABLE + without(IMAGE, "ZBITPIX"),
    "no ZNAXIS2": TABLE + without(IMAGE, "ZNAXIS2"),
    "no TFIELDS": without(TABLE, "TFIELDS") + IMAGE,
    "text TFIELDS": [
        *without(TABLE, "TFIELDS"),
        card("TFIELDS", "1"),
        *IMAGE,
        raw_card("BLANK", "-999"),
    ],
    "undefined TFIELDS": without(TABLE, "TFIELDS")
    + [raw_card("TFIELDS", "")]
    + [line.replace("  16", " -32") for line in IMAGE],
    "no TTYPE1": without(TABLE, "TTYPE1") + IMAGE,
    "no NAXIS2": without(TABLE, "NAXIS2") + IMAGE + REST,
    "NAXIS3": [*TABLE, raw_card("NAXIS3", "5"), *IMAGE, *REST],
    "THEAP1": [*TABLE, raw_card("THEAP1", "5"), *IMAGE, *REST],
    "NAXISX": TABLE + IMAGE + [raw_card("NAXISX", "5")] + REST,
    "float axis": [*TABLE, *without(IMAGE, "ZNAXIS1"), raw_card("ZNAXIS1", "70.0"), *REST],
    "logical axis": [*TABLE, *without(IMAGE, "ZNAXIS1"), raw_card("ZNAXIS1", "T"), *REST],
    "undefined axis": [*TABLE, *without(IMAGE, "ZNAXIS1"), raw_card("ZNAXIS1", ""), *REST],
    "text axis": [*TABLE, *without(IMAGE, "ZNAXIS"), card("ZNAXIS", "2"), *REST],
    "axis twice": TABLE + IMAGE + [raw_card("ZNAXIS1", "71")] + REST,
    "BITPIX twice": [*TABLE, raw_card("BITPIX", "8"), *IMAGE, *REST],
    "BSCALE twice": TABLE + IMAGE + [raw_card("BSCALE", "2"), raw_card("BSCALE", "3")] + REST,
    "BSCALE text": TABLE + IMAGE + [card("BSCALE", "2")] + REST,
    "BSCALE huge": TABLE + IMAGE + [raw_card("BSCALE", "1E999")] + REST,
    "BZERO of 20 digits": TABLE + IMAGE + [raw_card("BZERO", "9" * 20)] + REST,
    "BZERO of 30 digits": TABLE + IMAGE + ["BZERO   = ".ljust(40, "9").ljust(80)] + REST,
    "not a value": [*TABLE, *without(IMAGE, "ZNAXIS"), raw_card("ZNAXIS", "two", "x"), *REST],
    "BLOCKED twice": TABLE + IMAGE + [raw_card("BLOCKED", "F"), raw_card("ZBLOCKED", "T")] + REST,
    "long comment": [*TABLE, *without(IMAGE, "ZNAXIS1"), "ZNAXIS1 = 70 / " + "x" * 65, *REST],
    "tab in comment": [*TABLE, *without(IMAGE, "ZNAXIS1"), raw_card("ZNAXIS1", "70", "a\tb")],
    "record": TABLE + IMAGE + ["DP1     = 'AXIS.1: 2' / x".ljust(80)] + REST,
    "no keyword": TABLE + IMAGE + ["what is this".ljust(80)] + REST,
    "sum with a colon": TABLE + IMAGE + [card("ZDATASUM", "a.1: 5")],
    "long sum": TABLE + IMAGE + [card("ZHECKSUM", "a" * 40)] + REST,
    "HIERARCH naxis": TABLE + IMAGE + ["HIERARCH naxis1 = 5".ljust(80)] + REST,
    "HIERARCH zname": TABLE
    + IMAGE
    + ["HIERARCH zname x = 5".ljust(80), "HIERARCH ZNAME X = 5".ljust(80)]
    + REST,
    "HIERARCH *": TABLE + IMAGE + ["HIERARCH ZVAL* = 5".ljust(80)] + REST,
    "HIERARCH ?": TABLE + IMAGE + ["HIERARCH ZNAME? = 5".ljust(80)] + REST,
    "END": TABLE + IMAGE + ["END     = 5".ljust(80)] + REST,
    "default name, empty": TABLE + IMAGE + [EMPTY, card("EXTNAME", "COMPRESSED_IMAGE")],
    "default name, empty, too": TABLE
    + IMAGE
    + [EMPTY] * 9
    + [card("EXTNAME", "COMPRESSED_IMAGE")]
    + [EMPTY] * 2,
    "empty only": TABLE + IMAGE + [raw_card("BSCALE", "2")] + [EMPTY] * 20 + SUMS,
    "not a table": IMAGE + REST,
    "nothing": [],
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary(name):
    raw = "".join(ORDINARY[name])
    assert_same(lambda: as_read(raw))
    assert image_header.image_header_of(as_read(raw)) is not None


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual(name):
    raw = "".join(UNUSUAL[name])
    assert_same(lambda: as_read(raw))
    assert image_header.image_header_of(as_read(raw)) is None


@pytest.mark.parametrize("name", ORDINARY | UNUSUAL)
def test_parsed_before(name):
    """Cards that were looked at come out the same."""

    def looked_at():
        header = as_read("".join((ORDINARY | UNUSUAL)[name]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen(header)
        return header

    assert_same(looked_at)


def test_changed_before():
    def changed():
        header = as_read("".join(TABLE + IMAGE + REST))
        header["OBJECT"] = "M 31"
        header["ZNAXIS1"] = np.int64(5)
        return header

    assert_same(changed)
    assert image_header.image_header_of(changed()) is None


def test_changed_and_written_before():
    """A card whose image is that of an earlier value."""

    def changed():
        header = as_read("".join(TABLE + IMAGE + REST))
        header["ZNAXIS1"], header["OBJECT"] = 5, "M 31"
        for line in header._cards:
            line._modified = False
        return header

    assert_same(changed)


class Own(fits.Header):
    """A header of another class."""


def test_header_of_another_class():
    def own():
        return Own(as_read("".join(TABLE + IMAGE + REST)))

    assert_same(own)
    assert isinstance(adapted(own()), Own)


@pytest.mark.parametrize("name", ["plain", "sums", "long"])
def test_made_in_memory(name):
    """Cards that were never text."""

    def made():
        cards = as_read("".join(ORDINARY[name])).cards
        return fits.Header([(line.keyword, line.value, line.comment) for line in cards])

    assert_same(made)
    assert image_header.image_header_of(made()) is not None


@pytest.mark.parametrize(
    "setting", ["strip_header_whitespace", "enable_record_valued_keyword_cards"]
)
@pytest.mark.parametrize("name", ["plain", "default name", "ZTENSION", "record"])
def test_settings_of_astropy(setting, name):
    with fits.conf.set_temp(setting, False):
        assert_same(lambda: as_read("".join((ORDINARY | UNUSUAL)[name])))


# ---------------------------------------------------------------------------- any header

VOCABULARY = sorted(
    {*TABLE, *IMAGE, *(c for cards in (ORDINARY | UNUSUAL).values() for c in cards)}
)
EXTRA = st.sampled_from([*VOCABULARY, EMPTY, EMPTY, *COMMENTS, *LONG])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_header(data):
    """A table with cards taken out, others put in, and some damaged."""
    cards = TABLE + IMAGE
    for place in data.draw(st.lists(st.integers(0, len(cards) - 1), max_size=2)):
        cards = cards[:place] + cards[place + 1 :]
    for line in data.draw(st.lists(EXTRA, max_size=12)):
        place = data.draw(st.integers(len(cards) // 2, len(cards)))
        cards.insert(place, line)
    cards += [EMPTY] * data.draw(st.sampled_from([0, 0, 1, 3, 12]))
    raw = "".join(cards)
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=2)):
        raw = raw[:place] + data.draw(st.sampled_from("A9 '=/z.\t&-")) + raw[place + 1 :]
    assert_same(lambda: as_read(raw))


@settings(max_examples=100, deadline=None)
@given(
    st.permutations(IMAGE + REST + SUMS + COMMENTS + [EMPTY] * 3),
    st.lists(st.sampled_from(ORDINARY["scaled"] + ORDINARY["default name"]), unique=True),
)
def test_any_order(cards, more):
    more = [line for line in more if line not in TABLE + cards]
    assert_same(lambda: as_read("".join(TABLE + cards + more)))


# ---------------------------------------------------------------------------- in its place


@pytest.fixture
def no_original(monkeypatch):
    """astropy's own function is not called."""

    def fail(bintable_header):
        raise AssertionError("left to astropy")

    monkeypatch.setattr(compressed, "_bintable_header_to_image_header", fail)
    with fca.enabled():
        yield


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "f4", "f8"])
@pytest.mark.parametrize("checksum", [False, True])
def test_files_of_astropy_are_ordinary(tmp_path, no_original, dtype, checksum):
    header = fits.Header({"OBJECT": "M 13", "LONG": "x" * 200, "HIERARCH ESO DET": 1.5})
    header["HISTORY"] = "y" * 100
    array = np.arange(4000).reshape(50, 80).astype(dtype)
    hdu = fits.CompImageHDU(array, header, name="SCI")
    hdu.writeto(tmp_path / "a.fits", checksum=checksum)
    with fits.open(tmp_path / "a.fits") as hdul:
        assert hdul[1].header["OBJECT"] == "M 13"
        assert not hdul[1].header._modified
        assert np.array_equal(hdul[1].section[3:5], array[3:5]) or dtype.startswith("f")


@pytest.mark.parametrize("dtype", ["i2", "u2", "f4"])
def test_files_of_this_package_are_ordinary(tmp_path, no_original, dtype):
    import fitscodecs as fc

    array = np.arange(4000).reshape(50, 80).astype(dtype)
    fc.write(tmp_path / "a.fits", array)
    with fits.open(tmp_path / "a.fits") as hdul:
        assert np.array_equal(hdul[1].data, array)


def test_update_mode(tmp_path):
    """A file that was only looked at is not written, and a changed header is."""
    path = tmp_path / "a.fits"
    fits.CompImageHDU(np.zeros((20, 30), "i2")).writeto(path)
    before = path.read_bytes()
    with fca.enabled():
        with fits.open(path, mode="update") as hdul:
            str(hdul[1].header)
        assert path.read_bytes() == before
        with fits.open(path, mode="update") as hdul:
            hdul[1].header["OBJECT"] = "M 13"
    with fits.open(path) as hdul:
        assert hdul[1].header["OBJECT"] == "M 13"


def test_astropy_that_is_not_known(monkeypatch):
    """Where astropy's cards hold more than they are given here, astropy makes them."""
    header = as_read("".join(TABLE + IMAGE + REST))
    plain = fits.Card.__init__

    def init(self, *args, **kwargs):
        plain(self, *args, **kwargs)
        self._length = len(args)

    image_header.astropy_is_known.cache_clear()
    monkeypatch.setattr(fits.Card, "__init__", init)
    assert image_header.image_header_of(header) is None
    image_header.astropy_is_known.cache_clear()
