# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""zarr reads every codec, type and tiling as the oracles do, and as astropy where it should.

    python tests/peers/zarr_matrix.py

Each image is read by tests/oracles/ref_tile.py. Every selection of tests/test_zarr_matrix.py must
give the oracle's pixels, of references and of chunks in memory and in a folder, on each pipeline of
zarr: its own, and that of zarrs, which leaves FITS to zarr's. So must all of the image from
astropy, unless docs/deviations.rst names a difference. There are images that must be refused: when
they are encoded, and when zarr writes them. Counts are printed.
"""

import argparse
import collections
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import zarr
from matrix import known, read_astropy
from proof import Claims, versions
from ref_tile import read

import fitscodecs as fc
from fitscodecs.adapters.zarr import FitsTiled
from fitscodecs.writer import PRIMARY
from tests.conftest import same_bits
from tests.test_zarr_matrix import (
    ALGORITHMS,
    DITHER,
    KINDS,
    PIPELINES,
    TILINGS,
    check,
    image,
    pixels,
)

ZARRS = "zarrs.ZarrsCodecPipeline"
CONTENT = {"dither 1": "NaN", "dither 2": "NaN", "fallback": "Inf"}


def refused(algorithm, kind):
    """What the refusal of an image that cannot be says, or None."""
    if algorithm == "PLIO_1" and kind in CONTENT:
        return "cannot hold quantized floats"
    if algorithm == "HCOMPRESS_1" and kind == "dither 2":
        return "does not go with SUBTRACTIVE_DITHER_2"
    return None


def oracle(path):
    """Pixels that the oracle finds, with the offset of unsigned integers."""
    stored, header = read(path)
    offset = header.get("BZERO", 0)
    return (stored + np.int32(offset)).astype("u2") if offset == 32768 else stored


def zarr_write(algorithm, kind, tiling):
    """What zarr says when it is to write such an image."""
    shape, tile_shape = TILINGS[tiling]
    array = pixels(kind, shape)
    quantize = DITHER["SUBTRACTIVE_DITHER_2" if kind == "dither 2" else "SUBTRACTIVE_DITHER_1"]
    try:
        codec = FitsTiled(tile_shape=tile_shape, encode={
            "compression": algorithm, "quantize": quantize.get_config()})  # fmt: skip
        zarr.create_array({}, shape=shape, chunks=shape, dtype=array.dtype, serializer=codec,
                          compressors=None, filters=None)[...] = array  # fmt: skip
    except (fc.EncodeError, ValueError) as error:
        return str(error)
    return "nothing"


def through_zarrs(folder, hdu, expected):
    """Number of equal reads, and whether zarrs said that it leaves the image to zarr's pipeline."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        count = check(folder, hdu, expected, [ZARRS])
    return count, any("unsupported by ZarrsCodecPipeline" in str(w.message) for w in said)


class Matrix:
    """The cells and what was counted in them."""

    def __init__(self, claims, zarrs):
        self.claims, self.zarrs = claims, zarrs
        self.counts = collections.defaultdict(collections.Counter)

    def cell(self, folder, *where):
        reason, count = refused(*where[:2]), self.counts[where[0]]
        try:
            array, hdu = image(*where)
        except fc.EncodeError as error:
            written = zarr_write(*where)
            good = reason is not None and reason in str(error) and reason in written
            self.claims.check(good, f"{where}: refused, {error}; zarr says {written}")
            count["refused"] += 1
            return
        self.claims.check(reason is None, f"{where}: not refused")
        path = folder / "image.fits"
        path.write_bytes(PRIMARY + hdu)
        expected = oracle(path)
        if array.dtype.kind != "f":
            self.claims.check(same_bits(expected, array), f"{where}: the oracle has other pixels")
        self.read(folder, hdu, expected, where)
        self.astropy(path, expected, where)
        count["legal"] += 1

    def read(self, folder, hdu, expected, where):
        """All selections, on all pipelines."""
        count = self.counts[where[0]]
        try:
            for pipeline in PIPELINES:
                count[pipeline.rpartition(".")[2]] += check(folder, hdu, expected, [pipeline])
            if self.zarrs:
                reads, said = through_zarrs(folder, hdu, expected)
                count["zarrs, left to zarr"] += reads
                self.claims.check(said, f"{where}: zarrs does not say that it leaves it to zarr")
        except AssertionError as error:
            self.claims.check(False, f"{where}: {str(error).splitlines()[0]}")
        else:
            self.claims.check(True, where)

    def astropy(self, path, expected, where):
        algorithm, kind, tiling = where
        found = np.asarray(read_astropy(path))
        equal = same_bits(found.astype(found.dtype.newbyteorder("=")), expected)
        dtype = "float32" if kind in CONTENT else kind
        deviation = known("astropy", dtype, algorithm, tiling, CONTENT.get(kind), kind)
        self.counts[algorithm]["astropy" if equal else "astropy deviates"] += 1
        self.claims.check(equal or deviation, f"{where}: astropy has other pixels")


def table(counts):
    columns = list(dict.fromkeys(name for counter in counts.values() for name in counter))
    print("  ".join([f"{'':12}", *columns]))
    total = sum(counts.values(), collections.Counter())
    for algorithm, counter in [*counts.items(), ("all", total)]:
        numbers = [f"{counter[name]:{len(name)}}" for name in columns]
        print("  ".join([f"{algorithm:12}", *numbers]))


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(versions("zarr", "zarrs", "astropy"))
    claims = Claims()
    try:
        import zarrs
    except ImportError:
        zarrs = None
        print("zarrs is not installed: left out")
    matrix = Matrix(claims, zarrs)
    with tempfile.TemporaryDirectory() as folder:
        for algorithm in ALGORITHMS:
            for kind in KINDS:
                for tiling in TILINGS:
                    matrix.cell(Path(folder), algorithm, kind, tiling)
    print("images, and reads that were equal:")
    table(matrix.counts)
    return claims.end()


if __name__ == "__main__":
    sys.exit(main())
