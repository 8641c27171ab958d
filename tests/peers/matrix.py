# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Every type, algorithm, tiling and content that can be written, read by every reader at hand.

    python tests/peers/matrix.py

Prints, for each reader, how many images it read as we do; what differs is either a deviation that
is known of that reader (docs/deviations.rst), named, or a fault, and then the exit status is 1.
Readers: astropy, fitsio, funpack (Debian: libcfitsio-bin) and rustfits, as far as installed.
"""

import collections
import itertools
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import fitscodecs as fc

SHAPES = {"rows": (1, 60), "strips": (8, 60), "squares": (20, 15), "whole": (40, 60)}
DTYPES = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
          "float64"]  # fmt: skip
QUANTIZE = [None, "NO_DITHER", "SUBTRACTIVE_DITHER_1", "SUBTRACTIVE_DITHER_2"]


def sample(dtype, content):
    rng = np.random.default_rng(11)
    pixels = np.clip(60 + rng.normal(0, 5, (40, 60)), 0, 120)
    pixels[rng.random(pixels.shape) < 0.03] = 0
    pixels = pixels.astype(dtype)
    if content == "NaN":
        pixels[rng.random(pixels.shape) < 0.05] = np.nan
        pixels[7] = np.nan
    if content == "Inf":
        pixels[3, 30] = np.inf
    return pixels


def cases():
    """Everything, legal or not."""
    names = [cls.zcmptype[0] for cls in fc.CODECS]
    for dtype, name, tiles in itertools.product(DTYPES, names, SHAPES):
        floats = np.dtype(dtype).kind == "f"
        for content in ("no NaN", "NaN", "Inf") if floats else ("no NaN",):
            for method in QUANTIZE if floats else (None,):
                yield dtype, name, tiles, content, method


def read_astropy(path):
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fits.getdata(path, 1)


def read_fitsio(path):
    import fitsio

    return fitsio.read(str(path), ext=1)


def read_funpack(path):
    from astropy.io import fits

    out = path.with_suffix(".out")
    out.unlink(missing_ok=True)
    done = subprocess.run(["funpack", "-O", str(out), str(path)], capture_output=True, text=True)
    if not out.exists():
        raise OSError(" ".join((done.stdout + done.stderr).split())[-100:])
    with fits.open(out) as hdus:
        return next(hdu.data for hdu in hdus if hdu.data is not None)


def read_rustfits(path):
    import rustfits

    return rustfits.read(str(path), ext=1)


READERS = {"astropy": read_astropy, "fitsio": read_fitsio, "funpack": read_funpack,
           "rustfits": read_rustfits}  # fmt: skip


def known(reader, dtype, name, tiles, content, method):
    """What is known of a reader that explains a difference, or None."""
    cfitsio = reader in ("fitsio", "funpack")
    bits = np.dtype(dtype).itemsize * 8
    if bits == 64 and np.dtype(dtype).kind in "iu" and reader != "astropy":
        return "has no 64-bit integers"
    if name == "NOCOMPRESS" and reader != "astropy":
        return "reads no NOCOMPRESS column"
    if name == "PLIO_1" and dtype == "uint16" and reader in ("astropy", "rustfits"):
        return "takes unsigned PLIO as signed"
    if cfitsio and content == "Inf":
        return "makes infinity NaN"
    if reader == "funpack" and content == "NaN" and tiles == "squares":
        return "misplaces pixels of square tiles with NaN"
    return None


def same(got, want):
    got = np.asarray(got)
    if got.shape != want.shape:
        return False
    return np.array_equal(got.astype(want.dtype), want, equal_nan=want.dtype.kind == "f")


def available():
    readers = dict(READERS)
    for name, module in (("astropy", "astropy"), ("fitsio", "fitsio"), ("rustfits", "rustfits")):
        try:
            __import__(module)
        except ImportError:
            print(f"{name} is not installed: left out")
            readers.pop(name)
    if subprocess.run(["which", "funpack"], capture_output=True).returncode:
        print("funpack is not installed: left out")
        readers.pop("funpack")
    return readers


def main():
    readers = available()
    legal = refused = faults = 0
    counts = {reader: collections.Counter() for reader in readers}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.fits"
        for dtype, name, tiles, content, method in cases():
            case = (dtype, name, tiles, content, method)
            pixels = sample(dtype, content)
            quantize = None if method is None else fc.Quantize(level=8, method=method, seed=99)
            try:
                fc.write(path, pixels, compression=name, tile_shape=SHAPES[tiles],
                         quantize=quantize, overwrite=True)  # fmt: skip
            except fc.EncodeError:
                refused += 1
                continue
            legal += 1
            want = fc.open(path)[...]
            if quantize is None and want.tobytes() != pixels.tobytes():
                faults += 1
                print("FAULT", *case, "is not read back bit by bit")
            for reader, read in readers.items():
                try:
                    good = same(read(path), want)
                except Exception as error:
                    good, why = False, f"{type(error).__name__}: {error}"
                else:
                    why = "other pixels"
                deviation = None if good else known(reader, *case)
                counts[reader]["equal" if good else deviation or "FAULT"] += 1
                if not good and deviation is None:
                    faults += 1
                    print("FAULT", reader, *case, str(why)[:150])
    print(f"{legal} legal images, {refused} refused with an EncodeError")
    for reader, counter in counts.items():
        print(f"  {reader}: " + ", ".join(f"{n} {what}" for what, n in counter.most_common()))
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
