# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Threads that read sections of one HCOMPRESS_1 image through astropy, with and without our codecs.

    python tests/peers/astropy_threads.py [--sections N] [--threads N]

Each of 4 threads reads 1,000 random sections, of one HDUList that all share or each of its own,
mapped to memory or not, and compares them with the pixels that were put in. Sections that are wrong
and errors are counted. Each run is a process of its own, so that a crash or a thread that never
ends is a line of the table as well.

The exit status is 1 if anything goes wrong with the adapter. What goes wrong without it is shown,
and is no fault here: the HCOMPRESS_1 decoder of astropy 8.0 keeps its state in global variables.
"""

import argparse
import collections
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import astropy
import numpy as np
from astropy.io import fits

SHAPE = (600, 600)
TILE_SHAPE = (40, 40)
MAX_LENGTH = 90  # of a section: up to 4 tiles along an axis
MAX_SECONDS = 300


def image():
    """A noisy slope with stars."""
    rng = np.random.default_rng(8)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    pixels = 500 + 0.3 * x + rng.normal(0, 6, SHAPE)
    for cy, cx in rng.integers(5, 595, (60, 2)):
        pixels += 900 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 8)
    return pixels.astype("i2")


def random_section(rng):
    start = [int(rng.integers(0, n - 1)) for n in SHAPE]
    stop = [min(n, s + int(rng.integers(1, MAX_LENGTH))) for n, s in zip(SHAPE, start, strict=True)]
    return tuple(slice(a, b) for a, b in zip(start, stop, strict=True))


class Reader(threading.Thread):
    """Reads sections and counts those that are wrong."""

    def __init__(self, number, hdus, truth, nsections, barrier):
        super().__init__()
        self.rng, self.hdus, self.truth = np.random.default_rng(number), hdus, truth
        self.nsections, self.barrier = nsections, barrier
        self.wrong, self.errors = 0, collections.Counter()

    def run(self):
        self.barrier.wait()
        for _ in range(self.nsections):
            where = random_section(self.rng)
            try:
                got = self.hdus[1].section[where]
            except Exception as error:
                self.errors[f"{type(error).__name__}: {error}"[:70]] += 1
            else:
                self.wrong += not np.array_equal(got, self.truth[where])


def read_sections(options):
    """One run in this process; prints its counts."""
    truth = image()
    sys.setswitchinterval(1e-5)
    if options.adapter:
        from fitscodecs.adapters import astropy as fca

        fca.enable()

    def opened():
        hdus = fits.open(options.path, memmap=options.memmap)
        hdus[1]  # a file is indexed when it is first asked for: no matter of codecs
        return hdus

    nlists = 1 if options.shared else options.threads
    lists = [opened() for _ in range(nlists)]
    barrier = threading.Barrier(options.threads)
    readers = [
        Reader(i, lists[i % nlists], truth, options.sections, barrier)
        for i in range(options.threads)
    ]
    start = time.perf_counter()
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    seconds = time.perf_counter() - start
    for hdus in lists:
        hdus.close()
    errors = sum((reader.errors for reader in readers), collections.Counter())
    result = {"wrong": sum(r.wrong for r in readers), "errors": errors, "seconds": seconds}
    if options.adapter:
        result["decoded"] = fca.counts().decoded
    print(json.dumps(result))


def run(path, adapter, shared, memmap, options):
    """One run in a process of its own: its counts, or a text that says how it ended."""
    command = [sys.executable, __file__, "--path", str(path), "--sections", str(options.sections),
               "--threads", str(options.threads)]  # fmt: skip
    flags = {"--adapter": adapter, "--shared": shared, "--memmap": memmap}
    command += [name for name, value in flags.items() if value]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        return f"did not end within {MAX_SECONDS} s"
    if done.returncode < 0:
        return f"crashed: {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return f"ended with status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
    return json.loads(done.stdout)


def main(options):
    print(f"astropy {astropy.__version__}, {options.threads} threads, "
          f"{options.sections} sections each")  # fmt: skip
    print(f"{'adapter':<9}{'HDUList':<12}{'memmap':<8}{'wrong':>7}{'errors':>8}{'seconds':>9}")
    nfaults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.fits"
        hdu = fits.CompImageHDU(image(), compression_type="HCOMPRESS_1", tile_shape=TILE_SHAPE)
        hdu.writeto(path)
        with fits.open(path) as hdus:
            if not np.array_equal(hdus[1].data, image()):
                print("FAULT: the file is wrong for one thread already")
                return 1
        for adapter, shared, memmap in itertools.product((False, True), repeat=3):
            result = run(path, adapter, shared, memmap, options)
            label = (f"{'with' if adapter else 'without':<9}"
                     f"{'shared' if shared else 'one each':<12}{memmap!s:<8}")  # fmt: skip
            if isinstance(result, str):
                print(f"{label}{result}", flush=True)
                nfaults += adapter
                continue
            nerrors = sum(result["errors"].values())
            print(f"{label}{result['wrong']:>7}{nerrors:>8}{result['seconds']:>9.1f}", flush=True)
            for text, n in result["errors"].items():
                print(f"{'':<29}{n} x {text}")
            if adapter:
                nfaults += bool(result["wrong"] or nerrors or not result["decoded"])
    return nfaults > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", type=int, default=1000, help="of each thread")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--path", help=argparse.SUPPRESS)  # this and the rest: of one run
    for flag in ("--adapter", "--shared", "--memmap"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.exit(read_sections(given) if given.path else main(given))
