# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Speeds to follow from commit to commit with asv: whole files, cutouts, and many small tiles.

They are of this package alone and use only what is public, so that old commits can be measured.
"""

import tempfile
from pathlib import Path

import numpy as np

import fitscodecs as fc

SIZE = 2048
CUTOUT = (slice(700, 1212), slice(700, 1212))
DITHERED = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1")


def noise(dtype):
    """Background and noise of an exposure."""
    return np.random.default_rng(1).normal(1000, 10, (SIZE, SIZE)).astype(dtype)


def mask():
    """Rectangles of ones on zeros."""
    pixels = np.zeros((SIZE, SIZE), np.int16)
    for y, x in np.random.default_rng(1).integers(0, SIZE - 40, (700, 2)):
        pixels[y : y + 40, x : x + 40] = 1
    return pixels


FILES = {
    "RICE_1 int16": lambda: (noise("int16"), {"compression": "RICE_1"}),
    "RICE_1 float32 quantized": lambda: (noise("float32"), {"quantize": DITHERED}),
    "HCOMPRESS_1 int16": lambda: (noise("int16"), {"compression": "HCOMPRESS_1"}),
    "GZIP_2 float32": lambda: (noise("float32"), {"compression": "GZIP_2"}),
    "PLIO_1 mask": lambda: (mask(), {"compression": "PLIO_1"}),
    "RICE_1 int16, 65536 tiles": lambda: (
        noise("int16"),
        {"compression": "RICE_1", "tile_shape": (8, 8)},
    ),
}


class Files:
    """Each kind of file in one thread."""

    params = list(FILES)
    param_names = ["file"]

    def setup(self, kind):
        """Write the file, in a folder of its own."""
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "image.fits.fz"
        self.pixels, self.keywords = FILES[kind]()
        self.time_write(kind)

    def teardown(self, kind):
        """Remove the folder."""
        self.folder.cleanup()

    def time_open(self, kind):
        """Open a file."""
        fc.open(self.path).close()

    def time_read(self, kind):
        """Open a file and read all of it."""
        with fc.open(self.path) as img:
            img.read(threads=1)

    def time_cutout(self, kind):
        """Open a file and read a part of it."""
        with fc.open(self.path) as img:
            img.select(CUTOUT, threads=1)

    def time_write(self, kind):
        """Write a file."""
        fc.write(self.path, self.pixels, overwrite=True, threads=1, **self.keywords)

    def track_nbytes(self, kind):
        """Size of the file."""
        return self.path.stat().st_size

    track_nbytes.unit = "bytes"
