# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Peak memory of packing a large image, beside what it may be.

    python tests/peers/memory.py [GIGABYTES]

The bound: input (mapped) + compressed output + 8 MiB + threads x 3 x the largest tile as int64,
above what the interpreter has after its imports.
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fitscodecs.cards import header_block
from fitscodecs.pack import PackOptions, pack_file
from fitscodecs.threads import THREADS
from fitscodecs.writer import image_lines

MIB = 2**20


def write_plain(path, gigabytes):
    """A noisy int16 image, written in parts."""
    ncols = 16384
    nrows = int(gigabytes * 2**30 // (2 * ncols))
    rng = np.random.default_rng(1)
    block = rng.normal(1000, 10, (256, ncols)).astype(">i2")
    with open(path, "wb") as file:
        file.write(header_block(image_lines((nrows, ncols), "i2", {"SIMPLE": True})))
        for start in range(0, nrows, 256):
            part = np.roll(block, start, axis=1)[: nrows - start]
            file.write(part.tobytes())
        file.write(bytes(-file.tell() % 2880))
    return 8 * ncols


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(gigabytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.fits"
        child = os.fork()
        if child == 0:  # what generating needs must not count
            write_plain(path, gigabytes)
            os._exit(0)
        os.waitpid(child, 0)
        tile = 8 * 16384
        before, start = peak(), time.perf_counter()
        report = pack_file(path, Path(folder) / "a.fits.fz", PackOptions())
        seconds = time.perf_counter() - start
        used = peak() - before
        bound = report.in_nbytes + report.out_nbytes + 8 * MIB + THREADS * 3 * tile
        speed = report.in_nbytes / seconds / 1e6
        print(
            f"input {report.in_nbytes / MIB:.0f} MiB, output {report.out_nbytes / MIB:.0f} MiB, "
            f"{THREADS} threads, {seconds:.0f} s ({speed:.0f} MB/s)"
        )
        print(f"peak {used / MIB:.0f} MiB above the imports, bound {bound / MIB:.0f} MiB")
    return used > bound


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 2))
