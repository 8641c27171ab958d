# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Pack files on a dask cluster of two workers, and in one process: the same bytes.

python tests/peers/cluster.py [COUNT]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from dask.distributed import LocalCluster

from fitscodecs.cards import header_block
from fitscodecs.cli import main as fitscodecs
from fitscodecs.writer import image_lines


def write_files(folder, count):
    rng = np.random.default_rng(6)
    for i in range(count):
        dtype = ["i2", "f4", "u1", "i4"][i % 4]
        pixels = rng.normal(100, 8, (60 + i, 120)).astype(dtype)
        raw = header_block(image_lines(pixels.shape, dtype, {"SIMPLE": True}))
        raw += pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()
        (folder / f"{i:03}.fits").write_bytes(raw + bytes(-len(raw) % 2880))


def main(count):
    with tempfile.TemporaryDirectory() as name:
        folders = {part: Path(name) / part for part in ("in", "one", "cluster")}
        for folder in folders.values():
            folder.mkdir()
        write_files(folders["in"], count)
        settings = ["-q", "4", str(folders["in"])]
        status = fitscodecs(["pack", "--jobs", "1", *settings, "-o", str(folders["one"])])
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                          dashboard_address=None) as cluster:  # fmt: skip
            status += fitscodecs(["pack", "--scheduler", cluster.scheduler_address, *settings,
                                  "-o", str(folders["cluster"])])  # fmt: skip
        names = sorted(path.name for path in folders["one"].iterdir())
        equal = sum((folders["one"] / n).read_bytes() == (folders["cluster"] / n).read_bytes()
                    for n in names)  # fmt: skip
    print(f"{len(names)} files packed, {equal} the same bytes on the cluster; exit status {status}")
    return status or equal != count


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
