# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""500 images as one array: on a cluster of two processes, and what zarr costs beside a loop.

    python tests/peers/zarr_stack.py

Prints times per image and their ratio to a loop of ``fitscodecs.open(path).read()``, medians of
repeats that take turns. The whole array may take 1.3 times as long as the loop.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from proof import Claims, versions

import fitscodecs as fc
from fitscodecs.adapters.kerchunk import process_files
from tests.conftest import same_bits
from tests.making import sample
from tests.test_kerchunk import open_references

MOST = 1.3


def write_images(folder, number, side):
    """Files of RICE_1, int16; every pixel differs from file to file."""
    folder.mkdir()
    for i in range(number):
        fc.write(folder / f"{i:04}.fits", sample("int16", (side, side), i), {"EXTNAME": "A"},
                 compression="RICE_1")  # fmt: skip
    return sorted(folder.iterdir())


def on_a_cluster(claims, refs, want):
    """Two worker processes read the stack in chunks of images, and sum it."""
    import dask.array
    from dask.distributed import Client, LocalCluster

    array = open_references(refs)["A"]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                     dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        lazy = dask.array.from_zarr(array, chunks=(25, *want.shape[1:]))
        found, total = client.compute([lazy, lazy.sum(axis=0, dtype="i8")], sync=True)
        tasks = client.run(lambda dask_worker: dask_worker.state.executed_count)
    claims.check(same_bits(found, want), "pixels of the cluster differ")
    claims.check(np.array_equal(total, want.sum(axis=0, dtype="i8")), "the sum differs")
    claims.check(len(tasks) == 2 and all(tasks.values()), "a worker was idle")
    shares = " and ".join(map(str, tasks.values()))
    print(f"cluster of {len(tasks)} processes, {shares} tasks: stack of {want.shape} "
          f"{'equals' if same_bits(found, want) else 'DIFFERS FROM'} numpy's")  # fmt: skip


def timed(ways, repeats):
    """Wall and CPU time of functions that take turns: an array of one row for each repeat."""
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: np.array(rows) for name, rows in times.items()}


def cost(claims, paths, refs, repeats):
    """Time of each way to all pixels, per image and as a multiple of the loop's."""
    array = open_references(refs)["A"]
    ways = {
        "loop of open().read()": lambda: [fc.open(path).read() for path in paths],
        "zarr, array[...]": lambda: array[...],
        "zarr, array[i] in a loop": lambda: [array[i] for i in range(len(paths))],
    }
    claims.check(same_bits(ways["zarr, array[...]"](), np.array([fc.open(p)[...] for p in paths])),
                 "pixels of zarr differ")  # fmt: skip
    times = timed(ways, repeats)
    loop = times["loop of open().read()"]
    print(f"{len(paths)} images of {array.shape[1:]}, medians of {repeats} repeats:")
    for name, rows in times.items():
        wall, cpu = 1000 * np.median(rows, axis=0) / len(paths)
        # Of the two in one turn, so that what else the machine does is in both.
        more_wall, more_cpu = np.median(rows / loop, axis=0)
        print(f"  {name:26} wall {wall:6.2f} ms {more_wall:5.2f} x   "
              f"CPU {cpu:6.2f} ms {more_cpu:5.2f} x")  # fmt: skip
        if name == "zarr, array[...]":
            claims.check(more_wall <= MOST, f"zarr takes {more_wall:.2f} times as long")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--sides", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    print(versions("zarr", "dask", "distributed"))
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        for side in args.sides:
            paths = write_images(Path(name) / str(side), args.files, side)
            refs = Path(name) / f"{side}.json"
            refs.write_text(json.dumps({"version": 1, "refs": process_files(paths, new_axis="t")}))
            cost(claims, paths, refs, args.repeats)
            if side == args.sides[0]:
                want = np.array([fc.open(path).read() for path in paths])
                on_a_cluster(claims, refs, want)
    return claims.end()


if __name__ == "__main__":
    sys.exit(main())
