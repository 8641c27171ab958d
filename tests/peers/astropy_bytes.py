# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files written through astropy with and without our codecs: the same bytes, the same pixels.

    python tests/peers/astropy_bytes.py [--part NAME]... [--every N] [--verbose]

Each image is written by ``astropy.io.fits.CompImageHDU`` twice, as astropy does it and with the
adapter on, and both files are read both ways. Where astropy raises an error, the adapter must raise
one of the same type, with the same text if that is astropy's own.

Files are compared byte by byte. Where they hold deflated streams, which depend on a library, the
streams are inflated and what tells their sizes is left out. Pixels are compared bit by bit, NaN
being NaN. A difference that is explained is counted under its cause, and only if the pixels prove
that astropy's do not give back what was put in; any other is a fault, and the exit status is 1.
"""

import argparse
import collections
import gzip
import io
import itertools
import os
import random
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor

import astropy
import numpy as np
from astropy.io import fits
from astropy_cases import PARTS, read, write

from fitscodecs.adapters import astropy as fca

NSECTIONS = 5  # of a file, read one by one
# Ways to open a file that make other pixels of it.
OPENINGS = [{"do_not_scale_image_data": True}, {"uint": False}, {"ignore_blank": True},
            {"scale_back": True}, {"memmap": False}]  # fmt: skip


def same_bits(a, b):
    """Whether two results of `read` are equal: type, shape, and bits, NaN being NaN."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(b, type(a)) and str(a) in str(b)
    if a is None or b is None:  # an image without pixels
        return a is b
    if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
        return False
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        if not np.array_equal(nan, np.isnan(b)):
            return False
        a, b = a[~nan], b[~nan]
    native = a.dtype.newbyteorder("=")
    return a.astype(native).tobytes() == b.astype(native).tobytes()


CAST_OF_NAN = {("RuntimeWarning", "invalid value encountered in cast")}
NO_PIXELS = "no pixels: astropy's heap holds an empty tile that no row names, ours holds nothing"
# Where a stream of HCOMPRESS_1 has its divisor: after 2 bytes that mark it and 2 sizes.
SCALE_BYTES = slice(10, 14)


class Table:
    """A compressed HDU in its parts: cards, numbers of the rows, what is in the streams."""

    def __init__(self, raw):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with fits.open(io.BytesIO(raw), disable_image_compression=True) as hdus:
                header, dtype = hdus[1].header, hdus[1].columns.dtype.newbyteorder(">")
                start = hdus.fileinfo(1)["datLoc"]
        nrows, width = header["NAXIS2"], header["NAXIS1"]
        rows = np.frombuffer(raw, dtype, nrows, start)
        heap = raw[start + nrows * width : start + nrows * width + header["PCOUNT"]]
        self.primary, self.zcmptype = raw[:2880], header["ZCMPTYPE"]
        self.deflated = header["ZCMPTYPE"].startswith("GZIP") or any(
            row["GZIP_COMPRESSED_DATA"][0] for row in rows
            if "GZIP_COMPRESSED_DATA" in dtype.names
        )  # fmt: skip
        self.cards = [card_without_sizes(card) for card in header.cards]
        self.numbers = [rows[name].tolist() for name in ("ZSCALE", "ZZERO") if name in dtype.names]
        self.streams = {}
        for name in ("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA"):
            if name in dtype.names:
                inflate = name[0] == "G" or header["ZCMPTYPE"].startswith("GZIP")
                itemsize = 2 if name[0] == "C" and header["ZCMPTYPE"] == "PLIO_1" else 1
                self.streams[name] = [
                    stream_of(heap, int(n) * itemsize, int(offset), inflate)
                    for n, offset in rows[name]
                ]

    def differences(self, other):
        """What differs, as a list of texts."""
        found = []
        if self.cards != other.cards:
            missing = [card for card in self.cards if card not in other.cards]
            surplus = [card for card in other.cards if card not in self.cards]
            found.append(f"cards {missing} became {surplus}" if missing or surplus
                         else "order of cards")  # fmt: skip
        if self.primary != other.primary:
            found.append("primary HDU")
        if self.numbers != other.numbers:
            found.append("ZSCALE or ZZERO")
        for name, streams in self.streams.items():
            pairs = itertools.zip_longest(streams, other.streams.get(name, []))
            n = sum(a != b for a, b in pairs)
            if n:
                found.append(f"streams in {name}")
        return found

    def names_another_scale(self, other):
        """The cause that HCOMPRESS_1 streams without loss differ in a number without meaning."""
        if self.zcmptype != "HCOMPRESS_1":
            return None
        name = "COMPRESSED_DATA"
        pairs = zip(self.streams[name], other.streams[name], strict=True)
        for a, b in pairs:
            scales = [
                int.from_bytes(stream[SCALE_BYTES], signed=True) for stream in (a, b) if stream
            ]
            if a != b and (max(scales) > 1 or without_scale(a) != without_scale(b)):
                return None
        return "HCOMPRESS_1 without loss: streams name another scale up to 1, and are the same else"


def without_scale(stream):
    return stream[: SCALE_BYTES.start] + stream[SCALE_BYTES.stop :]


def card_without_sizes(card):
    value = card.value
    if card.keyword == "PCOUNT":
        value = None
    elif card.keyword.startswith("TFORM"):
        value = value.partition("(")[0]
    return card.keyword, repr(value), card.comment


def stream_of(heap, nbytes, offset, inflate):
    """Bytes of one tile; None if it is in another column."""
    if nbytes == 0:
        return None
    stream = heap[offset : offset + nbytes]
    return gzip.decompress(stream) if inflate else stream


def distance(pixels, got):
    """Largest error of what was read; infinite if a NaN came up or got lost."""
    if isinstance(got, Exception):
        return np.inf
    a, b = pixels.astype("f8"), got.astype("f8")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b)
    off = off[(a != b) & ~np.isnan(a)]
    return off.max(initial=0)


class Tally:
    """Counts of cells by what became of them, with texts about those that are not the same."""

    def __init__(self):
        self.counts = collections.Counter()
        self.texts = collections.defaultdict(list)

    def add(self, kind, text=None):
        self.counts[kind] += 1
        if text is not None:
            self.texts[kind].append(text)

    def take(self, other):
        """Add the counts of another."""
        self.counts += other.counts
        for kind, texts in other.texts.items():
            self.texts[kind] += texts

    @property
    def nfaults(self):
        return sum(n for kind, n in self.counts.items() if kind.startswith("FAULT"))

    def show(self, verbose):
        for kind, n in self.counts.most_common():
            print(f"{n:>7}  {kind}")
            texts = self.texts[kind]
            limit = len(texts) if verbose else 20 if kind.startswith("FAULT") else 2
            for text in texts[:limit]:
                print(f"             {text}")
            if len(texts) > limit:
                print(f"             ... and {len(texts) - limit} more")


def compare_errors(case, theirs, ours, base, tally):
    """Cells in which at least one side raises."""
    a, b = theirs.error, ours.error
    if b is None and kept(case, ours.raw, base):
        tally.add(f"{KEPT}; astropy raises an error", f"{case}: {a!r}")
    elif b is None and case.action and "BLANK" in case.cards:
        tally.add(f"{UPDATED_BLANK}; astropy raises an error", f"{case}: {a!r}")
    elif b is None:
        tally.add("FAULT: only astropy raises", f"{case}: {a!r}")
    elif a is None:
        tally.add("FAULT: only the adapter raises", f"{case}: {b!r}")
    elif not isinstance(b, type(a)):
        tally.add("FAULT: an error of another type", f"{case}: {a!r} became {b!r}")
    elif str(a) in str(b):
        tally.add("the same error" + " with more text" * (str(a) != str(b)))
    elif str(a).partition(" (")[0] in str(b):
        tally.add("the same error with other details", f"{case}: {a!r} became {b!r}")
    else:
        tally.add("FAULT: an error with another text", f"{case}: {a!r} became {b!r}")


KEPT = "a file of which a card was changed: the adapter keeps the tiles"


def kept(case, raw, base):
    """Whether a file is one of which only a card was changed, and has the pixels that it had."""
    if case.action != "card":
        return False
    with fca.enabled():
        return same_bits(read(base), read(raw))


UPDATED_BLANK = "an integer image with BLANK, read as floats and written back"


def spoiled(case, base, got):
    """Whether an image with BLANK has lost more than the one pixel that was changed."""
    if "BLANK" not in case.cards or case.action not in ("pixel", "pixel and card", "scale back"):
        return False
    wanted = read(base)
    if isinstance(wanted, np.ndarray):
        wanted[2, 3] = 77
    return not same_bits(wanted, got)


LARGEST_INTEGER = 2**31 - 1  # of a tile


def explanation(case, pixels, found, results):
    """What is known to make a difference, if the pixels prove that it did here; else None.

    Parameters
    ----------
    found : list of str
        What differs.
    results : dict of str
        Pixels, or an error: ``"a of A"`` is astropy's reading of astropy's file, ``"o of A"`` ours
        of that file, and so on.
    """
    theirs, ours = results["a of A"], results["o of O"]
    lossy = case.compression == "HCOMPRESS_1" and case.options.get("hcomp_scale", 0) > 1
    off, our_off = distance(pixels, theirs), distance(pixels, ours)
    clear = same_bits(results["a of O"], ours)  # what is in the file of ours
    undefined = not np.isfinite(pixels).all() if pixels.dtype.kind == "f" else False
    if case.compression == "PLIO_1":
        if off > 0 and our_off == 0 and clear:
            return "PLIO_1: astropy's file has lost zeros before a single pixel"
    elif found == ["pixels read"] and lossy and wraps(pixels, theirs, ours):
        return "lossy HCOMPRESS_1: astropy lets pixels outside their type wrap around"
    elif case.options.get("quantize_level") == 0 and case.compression == "HCOMPRESS_1":
        if min(off, our_off) > LARGEST_INTEGER:
            return "HCOMPRESS_1 at quantize_level 0, pixels that are no integer: kept by neither"
    elif undefined and lossy and clear and our_off < np.inf:
        if off == np.inf or off > our_off:
            return "lossy HCOMPRESS_1 with NaN: astropy's file has lost NaN or pixels"
        if same_bits(theirs, ours):
            return "lossy HCOMPRESS_1 with NaN: a stream without loss, the same pixels"
    elif found == ["pixels read"] and unreadable_blank(case, theirs):
        return "BLANK that is no value of the type: astropy cannot read its own file"
    return None


def unreadable_blank(case, theirs):
    """Whether astropy cannot read its own file, as BLANK is no value of the type of the pixels."""
    return "BLANK" in case.cards and isinstance(theirs, OverflowError)


def wraps(pixels, theirs, ours):
    """Whether results differ only where ours is at a limit of the type, and nearer to the truth."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return False
    where = theirs != ours
    info = np.iinfo(pixels.dtype)
    off, our_off = (np.abs(pixels.astype("f8") - got.astype("f8")) for got in (theirs, ours))
    return np.isin(ours[where], (info.min, info.max)).all() and (our_off < off)[where].all()


def compare_files(case, pixels, theirs, ours, base, tally):
    """Cells in which both sides write a file."""
    equal = theirs.raw == ours.raw
    found = []
    if not equal:
        tables = Table(theirs.raw), Table(ours.raw)
        found = tables[0].differences(tables[1])
        if not found and not tables[0].deflated:
            found = ["sizes or padding"]
    results = {"a of A": read(theirs.raw)}
    results["a of O"] = results["a of A"] if equal else read(ours.raw)
    with fca.enabled():
        results["o of A"] = read(theirs.raw)
        results["o of O"] = results["o of A"] if equal else read(ours.raw)
    if not all(same_bits(results["a of A"], other) for other in results.values()):
        found.append("pixels read")
    if not found:
        tally.add("the same bytes" if equal else "the same but for deflate")
        return
    if all(got is None for got in results.values()):
        kind = NO_PIXELS
    elif kept(case, ours.raw, base):
        kind = KEPT
    elif spoiled(case, base, results["a of A"]):
        kind = f"{UPDATED_BLANK}; astropy's file has other pixels"
    else:
        kind = explanation(case, pixels, found, results)
    if kind is None and not equal and found == ["streams in COMPRESSED_DATA"]:
        kind = tables[0].names_another_scale(tables[1])
    kind = kind or "FAULT: " + ", ".join(found)
    described = "; ".join(
        f"{name} {described_result(pixels, got)}" for name, got in results.items()
    )
    tally.add(kind, f"{case}: errors: {described}")


def described_result(pixels, got):
    if got is None or isinstance(got, Exception):
        return repr(got)[:90]
    return f"{distance(pixels, got):.3g}"


def compare_openings(case, raw, tally):
    """Read a file in other ways, and parts of it."""
    for options in OPENINGS:
        theirs = read(raw, **options)
        with fca.enabled():
            ours = read(raw, **options)
        if not same_bits(theirs, ours) and not unreadable_blank(case, theirs):
            tally.add(f"FAULT: pixels read with {options}", str(case))
    with fca.enabled():
        compare_sections(case, raw, tally)


def compare_sections(case, raw, tally):
    """Read parts of a file with the adapter on: the same as parts of the whole."""
    whole = read(raw)
    if isinstance(whole, Exception):  # what astropy makes of some BLANKs
        return
    rng = random.Random(str(case))
    with warnings.catch_warnings(), fits.open(io.BytesIO(raw)) as hdus:
        warnings.simplefilter("ignore")
        for _ in range(NSECTIONS):
            index = tuple(random_index(rng, n) for n in whole.shape)
            if not same_bits(np.asarray(whole[index]), np.asarray(hdus[1].section[index])):
                tally.add("FAULT: a section is another one than of the whole", f"{case}: {index}")


def random_index(rng, n):
    """An integer within an axis, or a slice that may begin and end anywhere."""
    if rng.random() < 0.2:
        return rng.randrange(-n, n)
    start, stop = (rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2))
    return slice(start, stop, rng.choice([None, 1, 2, 5, -1, -3]))


def compare(case):
    """One cell: its tally."""
    tally = Tally()
    pixels = case.pixels()
    before = pixels.tobytes()
    base = None
    if case.action:
        base = write(case, pixels).raw
        if base is None:
            tally.add("not written in the first place")
            return tally
    theirs = write(case, pixels, base)
    pixels = case.pixels()
    with fca.enabled():
        ours = write(case, pixels, base)
    if pixels.tobytes() != before:
        tally.add("FAULT: the adapter changed its input", str(case))
    # NaN that stands for BLANK is cast to an integer by astropy, which numpy warns of.
    casts = CAST_OF_NAN if "BLANK" in case.cards and case.action else set()
    if theirs.warnings - casts != ours.warnings and not kept(case, ours.raw or b"", base):
        tally.add("FAULT: other warnings", f"{case}: {theirs.warnings} became {ours.warnings}")
    if theirs.error or ours.error:
        compare_errors(case, theirs, ours, base, tally)
    else:
        compare_files(case, pixels, theirs, ours, base, tally)
        if case.cards and not case.action:
            compare_openings(case, theirs.raw, tally)
    return tally


def compare_some(cases):
    """Some cells, in a process of its own: astropy's side must not have a second thread."""
    tally = Tally()
    before = fca.counts()
    for case in cases:
        tally.take(compare(case))
    return tally, [b - a for a, b in zip(before, fca.counts(), strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one of N cells only")
    parser.add_argument("--verbose", action="store_true", help="list all that is not the same")
    options = parser.parse_args()
    print(f"astropy {astropy.__version__}, numpy {np.__version__}")
    cases = []
    for part in options.part or PARTS:
        some = list(PARTS[part](random.Random(part)))[:: options.every]
        print(f"{part}: {len(some)} cells", flush=True)
        cases += some
    tally, decoded, encoded = Tally(), 0, 0
    ncpus = len(os.sched_getaffinity(0))
    # astropy leaves a file behind, where it runs, for each update of a file in memory.
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(ncpus, initializer=os.chdir, initargs=(folder,)) as pool,
    ):
        parts = [cases[i : i + 50] for i in range(0, len(cases), 50)]
        for found, tiles in pool.map(compare_some, parts):
            tally.take(found)
            decoded, encoded = decoded + tiles[0], encoded + tiles[1]
    tally.show(options.verbose)
    print(f"the adapter decoded {decoded} tiles, encoded {encoded} tiles")
    return tally.nfaults > 0 or not (decoded and encoded)


if __name__ == "__main__":
    sys.exit(main())
