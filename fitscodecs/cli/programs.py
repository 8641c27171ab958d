# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""One way to call the programs that read and write compressed images: this one and its peers.

A program has a `name` and the methods of `Program`; its package is imported when it is made, so
that making one raises ImportError where it is not installed.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..cards import header_block
from ..codecs import Quantize
from ..header import BLOCK
from ..image import open_image
from ..writer import image_lines, write
from .measure import image

__all__ = [
    "PEERS", "WORKS", "Astropy", "Case", "Fitsio", "Fpack", "Ours", "Packing", "Program", "calls",
    "cutout_of", "different", "installed", "scratch", "write_plain",
]  # fmt: skip

WORKS = ("read", "cutout", "write")
MEMORY = "/dev/shm"  # where Linux has a file system in memory
DITHER = "SUBTRACTIVE_DITHER_1"
SEED = 1  # ZDITHER0


@dataclass(frozen=True)
class Packing:
    """How an image is compressed.

    Attributes
    ----------
    zcmptype : str
    tile : tuple of int
        Rows and columns of a tile.
    level : float or None
        Quantization of floats, dithered; None: without loss.
    """

    zcmptype: str
    tile: tuple
    level: float | None = None

    @property
    def keywords(self):
        """The same as arguments of `fitscodecs.write`."""
        lossless = self.level is None
        quantize = None if lossless else Quantize(level=self.level, method=DITHER, seed=SEED)
        return {"compression": self.zcmptype, "tile_shape": self.tile, "quantize": quantize}


@dataclass(frozen=True)
class Case:
    """One of the images of `measure`, and how it is compressed."""

    data: str
    packing: Packing

    @property
    def name(self):
        """Data, algorithm and quantization, without the tiles."""
        level = self.packing.level
        lossy = "" if level is None else f" q{level:g}"
        return f"{self.data} {self.packing.zcmptype}{lossy}"

    @property
    def tile(self):
        """Shape of the tiles as text, rows first."""
        return "x".join(str(n) for n in self.packing.tile)

    def pixels(self, size):
        """The image; masks are of 16 bits, since fpack takes no longer ones for PLIO_1."""
        pixels = image(self.data, size)
        return pixels.astype("int16") if self.data == "mask" else pixels


class Program:
    """What a program can do; what it cannot, it leaves out, and `does` tells.

    All methods open the file anew. Images are in HDU 1, after an empty primary HDU.
    """

    name = ""

    @classmethod
    def does(cls, work):
        """Whether the program has this method."""
        return hasattr(cls, work)

    def prepare(self, path, pixels):
        """Whatever `write` with the same arguments needs and is not to be timed for."""


class Ours(Program):
    """fitscodecs, with so many threads."""

    name = "ours"

    def __init__(self, threads=1):
        self.threads = threads

    def shape(self, path):
        """Shape of an image, without its pixels."""
        with open_image(path) as img:
            return img.shape

    def read(self, path):
        """All pixels of an image."""
        with open_image(path) as img:
            return img.read(threads=self.threads)

    def cutout(self, path, key):
        """The pixels at a tuple of slices."""
        with open_image(path) as img:
            return img.select(key, threads=self.threads)

    def write(self, path, pixels, packing):
        """Compress an image into a file, which may exist."""
        write(path, pixels, overwrite=True, threads=self.threads, **packing.keywords)


class Astropy(Program):
    """``astropy.io.fits``."""

    name = "astropy"

    def __init__(self):
        from astropy.io import fits

        self.fits = fits

    def shape(self, path):
        """Shape of an image, without its pixels."""
        with self.fits.open(path) as hdus:
            return hdus[1].shape

    def read(self, path):
        """All pixels of an image."""
        with self.fits.open(path) as hdus:
            return hdus[1].data

    def cutout(self, path, key):
        """The pixels at a tuple of slices."""
        with self.fits.open(path) as hdus:
            return hdus[1].section[key]

    def write(self, path, pixels, packing):
        """Compress an image into a file, which may exist."""
        settings = {"compression_type": packing.zcmptype, "tile_shape": packing.tile,
                    "quantize_level": packing.level or 0}  # fmt: skip
        if packing.level:
            settings |= {"quantize_method": 1, "dither_seed": SEED}
        hdu = self.fits.CompImageHDU(pixels, **settings)
        self.fits.HDUList([self.fits.PrimaryHDU(), hdu]).writeto(path, overwrite=True)


class Fitsio(Program):
    """fitsio, with the CFITSIO that it brings."""

    name = "fitsio"

    def __init__(self):
        import fitsio

        self.fits = fitsio.FITS

    def shape(self, path):
        """Shape of an image, without its pixels."""
        with self.fits(path) as hdus:
            return tuple(hdus[1].get_dims())

    def read(self, path):
        """All pixels of an image."""
        with self.fits(path) as hdus:
            return hdus[1].read()

    def cutout(self, path, key):
        """The pixels at a tuple of slices."""
        with self.fits(path) as hdus:
            return hdus[1][key]

    def write(self, path, pixels, packing):
        """Compress an image into a file, which may exist."""
        settings = {"compress": packing.zcmptype.removesuffix("_1"), "tile_dims": packing.tile,
                    "qlevel": packing.level or 0, "hcomp_scale": 0}  # fmt: skip
        if packing.level:
            settings |= {"qmethod": DITHER, "dither_seed": SEED}
        with self.fits(path, "rw", clobber=True) as hdus:
            hdus.write_image(pixels, **settings)


class Fpack(Program):
    """The commands fpack and funpack, from file to file: processes of their own."""

    name = "fpack"
    FLAGS = {
        "RICE_1": "-r", "HCOMPRESS_1": "-h", "GZIP_1": "-g1", "GZIP_2": "-g2", "PLIO_1": "-p",
    }  # fmt: skip

    def __init__(self):
        for command in ("fpack", "funpack"):
            if shutil.which(command) is None:
                raise ImportError(f"no command {command}")

    @staticmethod
    def _plain(path):
        return f"{path}.plain"

    def prepare(self, path, pixels):
        """Write the plain file that `write` compresses."""
        write_plain(self._plain(path), pixels)

    def read(self, path):
        """All pixels, to a plain file that nobody keeps."""
        self._run("funpack", "-S", str(path))

    def write(self, path, pixels, packing):
        """Compress the plain file that was prepared for this path."""
        if os.path.lexists(path):
            os.remove(path)
        level = ["-q0", "0"] if packing.level is None else [f"-q{SEED}", f"{packing.level:g}"]
        tile = ",".join(str(n) for n in reversed(packing.tile))
        flags = [self.FLAGS[packing.zcmptype], "-t", tile, *level * (pixels.dtype.kind == "f")]
        self._run("fpack", *flags, "-O", str(path), self._plain(path))

    @staticmethod
    def _run(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


PEERS = (Astropy, Fitsio, Fpack)


def installed(classes):
    """Programs of these classes, and the names of those that are not installed."""
    programs, absent = [], []
    for cls in classes:
        try:
            programs.append(cls())
        except ImportError:
            absent.append(cls.name)
    return programs, absent


# ------------------------------------------------------------------- what they are to do


def write_plain(path, pixels):
    """Write a file with an image that is not compressed, in its primary HDU."""
    lines = image_lines(pixels.shape, pixels.dtype, {"SIMPLE": True})
    with open(path, "wb") as file:
        file.write(header_block(lines))
        file.write(np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")))
        file.write(bytes(-file.tell() % BLOCK))


@contextlib.contextmanager
def scratch():
    """A folder for files, in memory where there is a file system for that."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        yield Path(folder)


def cutout_of(shape, side=512):
    """Slices of a box that begins inside of tiles, with at most half of each side."""
    return tuple(slice(n // 3, n // 3 + min(side, n // 2)) for n in shape)


def calls(work, programs, path, pixels, packing, key=None):
    """Functions without arguments that do some work, for `measure.interleave`.

    Parameters
    ----------
    work : str
        One of `WORKS`, or 'shape'.
    programs : iterable of Program
        With different names. Those that do not do this work are left out.
    path : pathlib.Path
        File to read; what is written goes beside it, a file for each program.
    pixels : ndarray
    packing : Packing
    key : tuple of slice, optional
        What to cut out; by default that of `cutout_of`.

    Returns
    -------
    dict
        By the name of the program.
    """
    able = [program for program in programs if program.does(work)]
    if work in ("shape", "read"):
        return {program.name: partial(getattr(program, work), path) for program in able}
    if work == "cutout":
        key = key or cutout_of(pixels.shape)
        return {program.name: partial(program.cutout, path, key) for program in able}
    targets = {program: path.with_name(f"by {program.name}.fits.fz") for program in able}
    for program, target in targets.items():
        program.prepare(target, pixels)
    return {program.name: partial(program.write, target, pixels, packing)
            for program, target in targets.items()}  # fmt: skip


def different(programs, path, pixels, packing):
    """Check a file, and give the names of the programs that see other pixels in it.

    Those of a file without loss must be the ones that were written.
    """
    expected = pixels if packing.level is None else Ours().read(path)
    key = cutout_of(pixels.shape)
    names = []
    for program in programs:
        whole = program.read(path)
        same = whole is None or np.array_equal(whole, expected)
        if program.does("cutout"):
            same = same and np.array_equal(program.cutout(path, key), expected[key])
        if not same:
            names.append(program.name)
    return names
