# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Pack and unpack generated files by the shell tool: the originals come back, bit by bit.

    python tests/peers/there_and_back.py [COUNT]

Files of one to six HDUs: images of all types and up to four axes, primary or not, tables, images
that are compressed already, and headers with every odd card. Floats are kept without loss. All
files, packed and restored, are judged by fitsverify (Debian: fitsverify), as far as it is at hand.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from astropy.io import fits

from fitscodecs.cli import main as fitscodecs

DTYPES = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "f4", "f8"]


def pixels(rng):
    dtype = np.dtype(rng.choice(DTYPES))
    ndim = int(rng.integers(1, 5))
    array = rng.normal(80, 6, tuple(rng.integers(1, 40 // ndim, ndim)))
    array = np.clip(array, 0, 127).astype(dtype)
    if dtype.kind == "f" and rng.random() < 0.5:
        array[rng.random(array.shape) < 0.1] = np.nan
        array.flat[0] = -0.0
    return array


def odd_cards(header, rng):
    """Cards of every kind, some of them several times."""
    header["OBJECT"] = ("M 13", "a comment")
    header["EXPTIME"] = 1.5e-7
    header["FLAG"] = bool(rng.random() < 0.5)
    header["EMPTY"] = ""
    header["UNDEF"] = fits.card.Undefined()
    header["QUOTED"] = "it's a 'name'"
    header["LONGTEXT"] = "word " * int(rng.integers(20, 60))
    header["HIERARCH ESO DET CHIP1 NAME"] = "chip"
    header["CRPIX1"], header["CRVAL1"], header["CDELT1"] = 10.5, 250.4, -0.001
    for text in ("first", "", "second " * 20):
        header.add_comment(text)
        header.add_history(text)
    header.append(("", "a blank keyword with text"), end=True)
    header.append(("", ""), end=True)
    header["ZEBRA"] = ("no Z keyword", "kept")
    header["TAIL"] = 3


def table(rng):
    n = int(rng.integers(1, 50))
    columns = [
        fits.Column("A", "J", array=rng.integers(0, 9, n)),
        fits.Column("B", "5A", array=["abc"] * n),
        fits.Column("C", "PE()", array=np.array([np.ones(k % 4, "f4") for k in range(n)], object)),
    ]
    return fits.BinTableHDU.from_columns(columns, name="TAB")


def extension(rng):
    kind = rng.choice(["image", "image", "table", "ascii", "compressed", "empty"])
    if kind == "image":
        return fits.ImageHDU(pixels(rng), name=rng.choice(["", "SCI", "ERR"]))
    if kind == "table":
        return table(rng)
    if kind == "ascii":
        return fits.TableHDU.from_columns([fits.Column("X", "I5", array=np.arange(7))])
    if kind == "compressed":
        return fits.CompImageHDU(rng.integers(0, 99, (20, 30)).astype("i2"), name="PACKED")
    return fits.ImageHDU()


def generate(path, rng):
    primary = fits.PrimaryHDU(pixels(rng) if rng.random() < 0.6 else None)
    hdus = fits.HDUList([primary, *(extension(rng) for _ in range(rng.integers(0, 6)))])
    for hdu in hdus:
        if rng.random() < 0.7 and not isinstance(hdu, fits.CompImageHDU):
            odd_cards(hdu.header, rng)
    hdus.writeto(path, checksum=bool(rng.random() < 0.5))


def originals_of(hdus):
    """Whether a file holds images that were compressed already: unpacking restores those too."""
    return any(isinstance(hdu, fits.CompImageHDU) for hdu in hdus)


def verify(paths):
    """Files in which fitsverify finds an error, or None without it."""
    try:
        done = subprocess.run(["fitsverify", "-q", *map(str, paths)], capture_output=True,
                              text=True)  # fmt: skip
    except FileNotFoundError:
        return None
    lines = done.stdout.splitlines()
    return [line for line in lines if "FAILED" in line and not line.endswith(" 0 errors")]


def main(count):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "packed").mkdir()
        (folder / "out").mkdir()
        paths = [folder / "in" / f"{i:03}.fits" for i in range(count)]
        for path in paths:
            generate(path, rng)
        bad = fitscodecs(["pack", str(folder / "in"), "-o", str(folder / "packed")])
        bad += fitscodecs(["unpack", str(folder / "packed"), "-o", str(folder / "out")])
        equal = different = restored = skipped = 0
        for path in paths:
            if not (folder / "packed" / f"{path.name}.fz").exists():
                skipped += 1  # it holds nothing but images that are compressed
                continue
            same = path.read_bytes() == (folder / "out" / path.name).read_bytes()
            with fits.open(path) as hdus:
                packed_before = originals_of(hdus)
            if same:
                equal += 1
            elif packed_before:
                restored += 1  # the image that was compressed is plain now
            else:
                different += 1
                print("DIFFERENT", path.name)
        before, failures = verify(paths), verify([*(folder / "packed").iterdir(),
                                                  *(folder / "out").iterdir()])  # fmt: skip
    print(f"{count} files: {equal} bit-identical, {restored} with an image that came compressed, "
        f"{skipped} skipped as packed already, "
          f"{different} different; exit status {bad}")  # fmt: skip
    if failures is None:
        print("fitsverify is not installed: left out")
    else:
        print(f"fitsverify: errors in {len(failures)} outputs, in {len(before)} of the originals")
        print("\n".join(failures[:20]))
    return different > 0 or bad > 0 or bool(failures and not before)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
