# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What do two threads gain, next to what this machine gives to any two threads?

Two CPUs need not be twice one: they may be two halves of one core, or be shared with others. So in
the same rounds a calibration runs: the SHA-256 of a small buffer again and again, which is
arithmetic without the interpreter's lock, in one thread and the same work in two, or in as many as
--threads says. The gain of a calibration is what there is to be had; 'of it' is the gain of reading
or writing divided by it.

This arithmetic waits for itself, so that two halves of a core may do twice as much of it, and it
touches no memory. 'copy' is what two threads gain that copy the pixels to new memory, which each
read has to take from the system: work that is bound by memory cannot gain more than that.
"""

import hashlib
import statistics
import threading
import time
from functools import partial

import numpy as np
from common import (
    Goal,
    add_only,
    cases_of,
    chosen,
    facts,
    interleave,
    judge,
    make_parser,
    parse,
    ratio,
    report,
    scratch,
    settings,
    written,
)

from fitscodecs.cli.programs import Ours, calls

EXAMPLES = """\
examples:
  python benchmarks/bench_threads.py
  python benchmarks/bench_threads.py --quick --only rice
  python benchmarks/bench_threads.py --threads 4 --size 8192
"""

GOAL = 0.9  # of the calibration's gain
BUFFER = bytes(2**16)  # in cache
CALIBRATION_SECONDS = 0.05  # of one thread


FILES = (
    ("int16", "RICE_1", None),
    ("float32", "RICE_1", 4),
    ("int16", "HCOMPRESS_1", None),
    ("int16", "GZIP_2", None),
    ("mask", "PLIO_1", None),
)


def arithmetic(number):
    """So many times the checksum of the buffer."""
    for _ in range(number):
        hashlib.sha256(BUFFER).digest()


def in_parallel(work, parts):
    """Work on each part in a thread of its own."""
    threads = [threading.Thread(target=work, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def calibration(nthreads):
    """Contestants, of a length that can be timed."""
    began = time.perf_counter()
    arithmetic(8)
    number = round(8 * CALIBRATION_SECONDS / (time.perf_counter() - began))
    number = max(1, number // nthreads)
    return {
        "calibration": partial(in_parallel, arithmetic, [[number * nthreads]]),
        "calibrations": partial(in_parallel, arithmetic, [[number]] * nthreads),
    }


def copy(pixels, nthreads):
    """Copy an array to memory that is new, an equal part of the rows in each thread."""
    target = np.empty_like(pixels)
    rows = zip(np.array_split(target, nthreads), np.array_split(pixels, nthreads), strict=True)
    in_parallel(np.copyto, rows)
    return target


def copies(pixels, nthreads):
    """Contestants that do nothing but move memory."""
    return {"copy": partial(copy, pixels, 1), "copies": partial(copy, pixels, nthreads)}


def measure(case, args):
    """Rows of the table for one file."""
    with scratch() as folder:
        pixels, path = written(case, args.size, folder)
        for work in ("read", "write"):
            one, all_ = (
                calls(work, [Ours(n)], path, pixels, case.packing)["ours"]
                for n in (1, args.threads)
            )
            calibrations = {**calibration(args.threads), **copies(pixels, args.threads)}
            times = interleave({"one": one, "all": all_, **calibrations}, args.repeats)
            rounds = list(zip(*times.values(), strict=True))
            gains = [(a / b, c / d) for a, b, c, d, *_ in rounds]
            yield {
                "image": case.name,
                "tile": case.tile,
                "work": work,
                "gain": statistics.median(gain for gain, _ in gains),
                "calibration": statistics.median(possible for _, possible in gains),
                "of it": statistics.median(gain / possible for gain, possible in gains),
                "copy": ratio(times, "copies", "copy"),
            }


def main():
    parser = make_parser(__doc__, EXAMPLES, size=4096)
    add_only(parser)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default: 2")
    args = parse(parser)
    todo = chosen(cases_of(FILES, (256,), lambda zcmptype: args.size), args.only, parser)
    rows = [row for case in todo for row in measure(case, args)]
    goals = judge((Goal(f"{row['image']} {row['work']}", GOAL), row["of it"]) for row in rows)
    about = {**facts(), "threads": args.threads, **settings(args, own_clock=True)}
    report(rows, goals, about, args.json)


if __name__ == "__main__":
    main()
