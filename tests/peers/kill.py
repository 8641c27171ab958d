# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Kill a pack in place again and again: no file is lost or half written, and a rerun completes.

    python tests/peers/kill.py [KILLS]

20 files are packed in place (pack -F). The process, with all of its workers, gets SIGKILL at a
random moment; then every file must be the original or a whole packed file with its pixels. The run
goes on with what is left, and starts anew with fresh files when all are done.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fitscodecs as fc
from fitscodecs.cards import header_block
from fitscodecs.writer import image_lines

NFILES = 20
SHAPE = (600, 1000)


def write_files(folder):
    """Plain files; gives their bytes and pixels by name."""
    rng = np.random.default_rng(4)
    originals = {}
    for i in range(NFILES):
        pixels = rng.normal(1000, 8, SHAPE).astype("i2")
        raw = header_block(image_lines(SHAPE, "i2", {"SIMPLE": True, "NUMBER": i}))
        raw += pixels.astype(">i2").tobytes()
        raw += bytes(-len(raw) % 2880)
        (folder / f"{i:02}.fits").write_bytes(raw)
        originals[f"{i:02}.fits"] = raw, pixels
    return originals


def examine(folder, originals):
    """How many files are packed; every one must be the original or a whole packed file."""
    packed = 0
    for name, (raw, pixels) in originals.items():
        found = (folder / name).read_bytes()
        if found == raw:
            continue
        with fc.open(found) as image:
            assert image.compressed
            assert np.array_equal(image[...], pixels), f"{name} has other pixels"
        packed += 1
    return packed


def pack(folder, *options):
    command = [sys.executable, "-m", "fitscodecs.cli", "pack", "-F", *options, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            start_new_session=True)  # fmt: skip


def main(kills):
    rng = np.random.default_rng(9)
    done = rounds = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals = write_files(folder)
        start = time.perf_counter()
        assert pack(folder).wait() == 0
        whole = time.perf_counter() - start
        assert examine(folder, originals) == NFILES
        originals = write_files(folder)
        while done < kills:
            process = pack(folder)
            time.sleep(rng.uniform(0.2, 1.0) * whole)
            running = process.poll() is None
            if running:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done += running
            if examine(folder, originals) == NFILES:
                rounds += 1
                originals = write_files(folder)
        assert pack(folder).wait() == 0
        packed = examine(folder, originals)
        left = sorted(path.name for path in folder.iterdir() if path.name not in originals)
    print(
        f"{done} kills, {rounds + 1} sets of {NFILES} files completed ({whole:.1f} s unkilled): "
        f"no file lost or half written; {packed} packed at the end, {len(left)} files left over"
    )
    return packed != NFILES or bool(left)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
