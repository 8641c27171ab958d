# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Many files as one virtual array: 200 that differ, and 2000 on a slow server.

    python tests/peers/zarr_cube.py

Prints how large the references are, how many pixels are those that the reader of tests/oracles
finds, and how long the shell tool takes for the files on the server.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from proof import Claims, versions
from ref_tile import read

from benchmarks.references_http import measure, slow_night
from fitscodecs.adapters.kerchunk import process_files
from fitscodecs.hdu import walk
from fitscodecs.source import open_source
from tests.conftest import same_bits
from tests.making import sample
from tests.test_kerchunk import open_references, write_night

MOST_NBYTES = 100_000
MOST_SECONDS = 60


def unlike_files(claims, folder):
    """A cube of 200 files that have nothing but the shape in common."""
    paths = write_night(folder, 200)
    hdus = [list(walk(open_source(path)))[1] for path in paths]
    lengths = {hdu.data_start for hdu in hdus}
    seeds = {hdu.header.get("ZDITHER0") for hdu in hdus}
    columns = {hdu.header["TTYPE1"] for hdu in hdus}
    claims.check(min(len(lengths), len(columns)) > 1 and len(seeds) > 100, "files are alike")
    refs = process_files(paths, new_axis="time")
    nbytes = len(json.dumps(refs))
    claims.check(nbytes < MOST_NBYTES, f"references of {nbytes} bytes")
    cube = open_references(refs)["SCI"]
    want = np.array([read(path)[0] for path in paths])
    claims.check(same_bits(cube[...], want), "the cube differs from the oracle's")
    part = np.s_[17:190:13, 3:9, ::7]
    claims.check(same_bits(cube[part], want[part]), "a cutout differs from the oracle's")
    equal = sum(same_bits(cube[i], want[i]) for i in range(len(paths)))
    claims.check(equal == len(paths), "an image differs from the oracle's")
    print(f"{len(paths)} files, {len(lengths)} lengths of header, {len(seeds)} seeds, "
          f"{len(columns)} orders of columns: one array of {cube.shape}, {equal} images equal the "
          f"oracle's, references of {nbytes / 1000:.1f} kB")  # fmt: skip


def slow_files(claims, folder, number, latency, jobs):
    """References to many files on a server that takes its time, in each format."""
    print(f"{number} files over HTTP, {1000 * latency:g} ms latency, {jobs} at a time; "
          f"two requests each one after the other take {2 * number * latency:.0f} s")  # fmt: skip
    with slow_night(folder, number, latency) as (urls, pipe):
        for suffix in ("json", "parquet"):
            refs = folder / f"refs.{suffix}"
            seconds = measure(urls, refs, jobs, pipe)
            claims.check(seconds < MOST_SECONDS, f"{suffix} took {seconds:.1f} s")
            cube = open_references(refs)["SCI"]
            claims.check(cube.shape == (number, 64, 80), f"{suffix}: array of {cube.shape}")
            for i in (0, number // 2, number - 1):
                want = sample("int16", (64, 80)) + np.int16(i % 10)
                claims.check(same_bits(cube[i, 5:9], want[5:9]), f"{suffix}: image {i} differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds")
    parser.add_argument("--jobs", type=int, default=32)
    args = parser.parse_args()
    print(versions("zarr", "fsspec", "kerchunk"))
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        for part in ("unlike", "slow"):
            (Path(name) / part).mkdir()
        unlike_files(claims, Path(name) / "unlike")
        slow_files(claims, Path(name) / "slow", args.files, args.latency, args.jobs)
    return claims.end()


if __name__ == "__main__":
    sys.exit(main())
