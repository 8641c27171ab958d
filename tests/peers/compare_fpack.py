# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Compare what fpack writes with what we write from the same image, settings and seed.

    python tests/peers/compare_fpack.py [FILE...]

Compared are the streams of all tiles, the columns that hold them, ZSCALE, ZZERO, and all keywords
with their values in their order. Left out are comments of cards, the text of HISTORY cards, dates
and checksums. Deflated streams are compared by what is in them: their bytes, and with them PCOUNT
and the lengths in TFORM, depend on the library. Two differences are meant and counted apart: a
lossless NaN keeps its bits (fpack writes one of its own, and a ZBLANK), and a tile with NaN in a
lossy HCOMPRESS_1 image is stored without loss (the NaNs of fpack do not survive).

Without arguments, images of all types are generated. FILEs are compressed files of others, whose
images are restored first. Needs fpack and funpack (Debian: libcfitsio-bin).
"""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fitscodecs as fc
from fitscodecs.cards import cards_of, keyword_of
from fitscodecs.hdu import walk
from fitscodecs.header import is_plain_image, parse_value
from fitscodecs.image import TiledImage
from fitscodecs.pack import plain_array, unpack_file
from fitscodecs.settle import settle
from fitscodecs.source import open_source
from fitscodecs.writer import PRIMARY, compress, image_lines

SHAPE = (106, 130)
DTYPES = ["uint8", "int16", "uint16", "int32", "float32", "float64"]
TILES = {"rows": None, "30x20": (20, 30), "whole rows": (16, 130)}
INTEGER_OPTIONS = [
    ("-r", {}),
    ("-g1", {"compression": "GZIP_1"}),
    ("-g2", {"compression": "GZIP_2"}),
    ("-p", {"compression": "PLIO_1"}),
    ("-h", {"compression": "HCOMPRESS_1", "scale_request": 0.0}),
    ("-h -s 2", {"compression": "HCOMPRESS_1", "scale_request": 2.0}),
    ("-h -s -5", {"compression": "HCOMPRESS_1", "scale_request": -5.0}),
]
FLOAT_OPTIONS = [
    ("-r -q 4", 4, {}),
    ("-r -q 16", 16, {}),
    ("-r -q0 4", 4, {}),
    ("-r -qz 4", 4, {"as_cfitsio": True}),
    ("-r -q -0.5", -0.5, {}),
    ("-g1 -q 4", 4, {"compression": "GZIP_1"}),
    ("-g2 -q 4", 4, {"compression": "GZIP_2"}),
    ("-h -q 4", 4, {"compression": "HCOMPRESS_1", "scale_request": 0.0}),
    ("-h -s 2 -q 4", 4, {"compression": "HCOMPRESS_1", "scale_request": 2.0}),
    ("-g2 -q 0", None, {"compression": "GZIP_2"}),
]
MEANT = "NaN is kept"
NOT_COMPARED = ("CHECKSUM", "DATASUM", "DATE", "END")


def sample(dtype, nan):
    """A noisy slope with stars, some zeros, and, if wanted, undefined pixels."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    pixels = 100 + 0.1 * x + rng.normal(0, 4, SHAPE)
    for cy, cx in rng.integers(5, 90, (12, 2)):
        pixels += 80 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 6)
    pixels[rng.random(SHAPE) < 0.02] = 0
    pixels = np.clip(pixels, 0, 255).astype(dtype)
    if nan:
        pixels[rng.random(SHAPE) < 0.02] = np.nan
        pixels[40] = np.nan
        pixels[50] = 7
    return pixels


def value(line):
    """Keyword and value of a card, without its comment."""
    keyword, text = keyword_of(line), line[8:].decode("latin-1")
    if keyword in ("HISTORY", "COMMENT", ""):
        return keyword, "" if keyword == "HISTORY" else text.strip()
    if text.startswith("= "):
        found = parse_value(text[2:])
        return keyword, float(found) if isinstance(found, (int, float)) else found
    return keyword, text.rstrip()


def comparable(raw, deflated):
    """Keywords and values; without what depends on a deflate library."""
    pairs = [value(line) for line in cards_of(raw) if keyword_of(line) not in NOT_COMPARED]
    pairs = [pair for pair in pairs if pair != ("", "")]  # fpack drops blank cards at the end
    if not deflated:
        return pairs
    return [
        (k, None if k == "PCOUNT" else v.partition("(")[0] if k.startswith("TFORM") else v)
        for k, v in pairs
    ]


def contents(codec, column, stream):
    """What a stream holds: itself, or what is deflated in it."""
    if column == 1 or codec.wrapped:
        return fc.Gzip1().unpack(stream, None, "a stream")[0]
    return bytes(stream)


def meant(theirs, tile, ours):
    """Whether a stream may differ: it holds NaN, which we keep and fpack does not."""
    if ours.quantize is None or tile.column == 1:
        return ours.dtype.kind == "f" and theirs.codec.wrapped
    return tile.has_nan and bool(ours.lossy_integers)


def differences(path, hdu, image, settings):
    """What differs between an HDU of fpack and ours: a list of texts."""
    theirs = fc.open(path, hdu=hdu)
    raw, table = theirs._source.whole, theirs.table.describe()
    seed = theirs.hdu.header.get("ZDITHER0", 1)
    quantize = settings.pop("quantize", None)
    if theirs.quantize is None:
        quantize = None
    if quantize is not None:
        quantize = fc.Quantize(level=quantize, method=theirs.quantize.method, seed=seed)
    structure = image.structure
    blank = structure.scaling.blank if structure.scaling.has_blank else None
    settled = settle(image.shape, structure.dtype, quantize=quantize, blank=blank,
               unsigned=structure.scaling.is_offset, **settings)  # fmt: skip
    ours = compress(settled, plain_array(image), cards_of(image.hdu.raw))
    found, nmeant = [], 0
    free = theirs.codec.wrapped or any(tile.column == 1 for tile in ours.tiles)
    free = free or any(meant(theirs, tile, settled) for tile in ours.tiles)
    a, b = comparable(theirs.hdu.raw, free), comparable(ours.header, free)
    if settled.quantize is None and settled.dtype.kind == "f":
        a = [pair for pair in a if pair[0] != "ZBLANK"]  # there are no integers to be null
    if a != b:
        pairs = itertools.zip_longest(a, b)
        found.append("card: fpack {}, ours {}".format(*next((a, b) for a, b in pairs if a != b)))
    bad = {"stream": 0, "column": 0, "scale": 0, "zero": 0}
    for i, tile in enumerate(ours.tiles):
        start = theirs.hdu.data_start + table.start[i]
        stream = raw[start : start + table.nbytes[i]]
        bad["column"] += table.column[i] != tile.column
        bad["scale"] += table.scale[i] != tile.scale
        bad["zero"] += table.zero[i] != tile.zero
        if table.column[i] == tile.column and contents(
            theirs.codec, tile.column, stream
        ) != contents(theirs.codec, tile.column, tile.stream):
            if meant(theirs, tile, settled):
                nmeant += 1
            else:
                bad["stream"] += 1
    if nmeant and same_pixels(theirs, ours):
        found.append(MEANT)
    elif nmeant:
        bad["stream"] += nmeant
    return found + [f"{n} of {len(ours.tiles)} {name}s" for name, n in bad.items() if n]


def same_pixels(theirs, ours):
    """Whether both decode to the same, where fpack's pixels are not NaN that it made up or lost."""
    a = theirs[...]
    b = fc.open(PRIMARY + ours.tobytes())[...]
    lossy = "scale" in theirs.codec.per_tile
    return lossy or np.array_equal(a, b, equal_nan=True)


def fpack(path, options):
    """The packed file, or None with what fpack said."""
    packed = Path(f"{path}.fz")
    packed.unlink(missing_ok=True)
    done = subprocess.run(["fpack", *options, str(path)], capture_output=True, text=True)
    return (packed, "") if packed.exists() else (None, (done.stdout + done.stderr).strip())


def compare(name, path, option, tiles, settings, counts):
    """One file: print a line for what differs."""
    options = option.split()
    if tiles is not None:
        options += ["-t", ",".join(str(n) for n in reversed(tiles))]
        settings = {**settings, "tile_shape": tiles}
    packed, said = fpack(path, options)
    if packed is None:
        counts["fpack refuses"] += 1
        print(f"  {name} {' '.join(options)}: fpack refuses: {' '.join(said.split())[-70:]}")
        return
    source = open_source(path)
    images = [h for h in walk(source) if is_plain_image(h.header) and h.data_nbytes]
    shift = int(bool(images) and images[0].index == 0)  # a primary image becomes an extension
    for hdu in images:
        image = TiledImage(source, hdu, scaled=False)
        try:
            found = differences(packed, hdu.index + shift, image, dict(settings))
        except fc.EncodeError as error:
            counts["we refuse"] += 1
            print(f"  {name} {' '.join(options)}: we refuse: {error}")
            continue
        kind = "equal but for NaN" if found == [MEANT] else "different" if found else "equal"
        counts[kind] += 1
        if kind == "different":
            print(f"  {name} {hdu.label} {' '.join(options)}: DIFFERENT {'; '.join(found)}")


def generated(folder, counts):
    """All types, tilings, algorithms and contents."""
    for dtype, nan in itertools.product(DTYPES, [False, True]):
        floats = np.dtype(dtype).kind == "f"
        if nan and not floats:
            continue
        path = folder / f"{dtype}{'_nan' if nan else ''}.fits"
        pixels = sample(dtype, nan)
        lines = image_lines(pixels.shape, pixels.dtype, {"SIMPLE": True, "OBJECT": "sky"})
        path.write_bytes(plain_file(pixels, lines))
        for tiles in TILES.values():
            todo = [(o, {**s, "quantize": q}) for o, q, s in FLOAT_OPTIONS] if floats \
                else INTEGER_OPTIONS  # fmt: skip
            for option, settings in todo:
                compare(path.name, path, option, tiles, settings, counts)


def plain_file(pixels, lines):
    from fitscodecs.cards import header_block
    from fitscodecs.scaling import to_stored

    stored = to_stored(np.ascontiguousarray(pixels))
    raw = stored.astype(stored.dtype.newbyteorder(">")).tobytes()
    return header_block(lines) + raw + bytes(-len(raw) % 2880)


def restored(folder, files, counts):
    """Images of other people, restored and compressed again."""
    for file in files:
        path = folder / f"{Path(file).name.removesuffix('.fz')}.plain.fits"
        try:
            unpack_file(file, path)
        except fc.FitsCodecsError as error:
            print(f"  {file}: {error}")
            continue
        source = open_source(path)
        floats = any(
            h.header.get("BITPIX", 8) < 0 for h in walk(source) if is_plain_image(h.header)
        )
        option, settings = ("-r -q 4", {"quantize": 4}) if floats else ("-r", {})
        compare(path.name, path, option, None, settings, counts)
        path.unlink()


def main(files):
    counts = dict.fromkeys(
        ["equal", "equal but for NaN", "different", "fpack refuses", "we refuse"], 0
    )
    with tempfile.TemporaryDirectory() as folder:
        if files:
            restored(Path(folder), files, counts)
        else:
            generated(Path(folder), counts)
    print(", ".join(f"{n} {name}" for name, n in counts.items()))
    return counts["different"] > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
