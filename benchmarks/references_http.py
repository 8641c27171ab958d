# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How long does it take to make references to many files on a slow server?

A web server in a process of its own answers each request after a delay. The shell tool makes one
cube of all files, in each of its formats::

    python benchmarks/references_http.py --files 2000 --latency 0.03

Printed are seconds, requests, bytes that were read, and the size of the references.
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "oracles")]


def serve(folder, latency, pipe):
    from tests.folder_server import FolderServer

    server = FolderServer(folder, latency)
    pipe.send(server.url(""))
    while pipe.recv():
        log = list(server.log)
        server.log.clear()
        pipe.send((len(log), sum(entry.nbytes for entry in log), server.busiest))


def make_files(folder, number):
    """Files of one shape; ten headers of different lengths take turns."""
    import numpy as np

    import fitscodecs as fc
    from tests.making import sample, write_compressed

    contents = []
    for i in range(10):
        cards = [("EXTNAME", "SCI"), ("DATE-OBS", f"2024-01-01T00:{i:02d}:00")]
        cards += [(f"KEY{n}", n) for n in range(9 * i)]
        path = write_compressed(folder / "a", sample("int16", (64, 80)) + np.int16(i),
                                fc.Rice1(bytepix=2), (1, 80), cards)  # fmt: skip
        contents.append(path.read_bytes())
    path.unlink()
    for i in range(number):
        (folder / f"{i:06d}.fits.fz").write_bytes(contents[i % 10])


def measure(urls, out, jobs, pipe):
    command = [sys.executable, "-m", "fitscodecs.cli", "references", "--from", urls, "-o", out,
               "--jobs", str(jobs), "--keep", "DATE-OBS"]  # fmt: skip
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    pipe.send(True)
    requests, nbytes, busiest = pipe.recv()
    size = done.stdout.splitlines()[0].split(": ")[1].split(",")[0]
    print(f"{out.suffix[1:]:9} {seconds:6.1f} s  {requests} requests, at most {busiest} at once, "
          f"{nbytes / 1e6:.1f} MB read, references of {size}")  # fmt: skip
    return seconds


@contextmanager
def slow_night(folder, number, latency):
    """A server of many files: the list of their URLs, and a pipe that tells what was asked for."""
    night = folder / "night"
    night.mkdir()
    make_files(night, number)
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(night, latency, there))
    server.start()
    root = here.recv()
    urls = folder / "urls.txt"
    urls.write_text("".join(f"{root}{path.name}\n" for path in sorted(night.iterdir())))
    try:
        yield urls, here
    finally:
        here.send(False)
        server.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.03, help="seconds")
    parser.add_argument("--jobs", type=int, default=32)
    parser.add_argument("--formats", default="json,parquet,icechunk")
    args = parser.parse_args()
    print(f"{args.files} files, {1000 * args.latency:g} ms latency")
    with (
        tempfile.TemporaryDirectory() as folder,
        slow_night(Path(folder), args.files, args.latency) as (urls, pipe),
    ):
        for suffix in args.formats.split(","):
            measure(urls, Path(folder) / f"refs.{suffix}", args.jobs, pipe)


if __name__ == "__main__":
    main()
