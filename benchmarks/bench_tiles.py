# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What does a tile cost beside the decoding of its pixels?

Images with as many tiles of 64 pixels as fit, 65,536 by default, in RICE_1: opening the file,
opening it for one tile, reading and writing all of it, in one thread, by this package, astropy,
fitsio and rustfits. 'us/tile' is the time by the number of tiles. 'overhead' is what remains when
the C routine's own time is taken off: that of the same streams in a row, without files and Python,
in the same rounds.

Needs what bench_codecs.py needs.
"""

import statistics
import tempfile
from pathlib import Path

import numpy as np
from bench_codecs import Contestant, compile_library
from common import (
    Goal,
    Rustfits,
    check,
    facts,
    figures,
    interleave,
    judge,
    make_parser,
    parse,
    report,
    scratch,
    settings,
    tiles,
    written,
)

from fitscodecs.cli.programs import PEERS, Case, Ours, Packing, calls, installed

EXAMPLES = """\
examples:
  python benchmarks/bench_tiles.py
  python benchmarks/bench_tiles.py --quick --json tiles.json
  python benchmarks/bench_tiles.py --size 4096
"""

NPIXELS = 64  # of a tile
SHAPES = ((1, 64), (8, 8))
GOAL = 0.3  # microseconds of a tile, when reading


WORKS = {"open": "shape", "one tile": "cutout", "read": "read", "write": "write"}
ROUTINES = {"read": "decode", "write": "encode"}  # what of the C library does the same work
CORNER = (slice(0, 1), slice(0, 1))


def by_the_clock(run):
    """A routine of codecs.c whose own figure is not asked for: both sides need the same clock."""

    def call():
        run()

    return call


def measure(library, shape, programs, args):
    """Rows of the table for tiles of one shape."""
    case = Case("int16", Packing("RICE_1", shape))
    with scratch() as folder:
        pixels, path = written(case, args.size, folder)
        cut = tiles(pixels, shape)
        codec = Contestant(library, "RICE_1", (32, 2, 0, 0), cut, pixels.itemsize)
        for work in ("encode", "decode"):
            codec.run(work)()
        check(np.array_equal(codec.decoded, cut), "pixels of the C routine")
        for work, method in WORKS.items():
            contestants = calls(method, programs, path, pixels, case.packing, CORNER)
            if work in ROUTINES:
                contestants["routine"] = by_the_clock(codec.run(ROUTINES[work]))
            times = interleave(contestants, args.repeats, clock=args.clock)
            yield {"tile": case.tile, "work": work, **costs(times, len(cut), pixels.nbytes)}


def costs(times, ntiles, nbytes):
    """Milliseconds of a call, microseconds of a tile, and the ratios to the other programs."""
    routine = times.pop("routine", None)
    found = figures(times, nbytes)
    del found["MB/s"]
    result = {"ms": 1e3 * found["seconds"]["ours"]}
    if routine:
        pairs = zip(times["ours"], routine, strict=True)
        result["us/tile"] = 1e6 * found["seconds"]["ours"] / ntiles
        result["overhead"] = 1e6 * statistics.median(a - b for a, b in pairs) / ntiles
    return result | found


def main():
    args = parse(make_parser(__doc__, EXAMPLES))
    peers, absent = installed([*PEERS, Rustfits])
    programs = [Ours(), *(peer for peer in peers if peer.does("shape"))]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = compile_library(Path(folder))
        for shape in SHAPES:
            rows.extend(measure(library, shape, programs, args))
    # The goal is a time: that time by the overhead is a ratio that has to reach 1.
    goals = judge(
        (
            Goal(f"read {row['tile']}: {GOAL} us by the overhead", 1),
            GOAL / max(1e-3, row["overhead"]),
        )
        for row in rows
        if row["work"] == "read"
    )
    about = {**facts([peer.name for peer in peers]), **settings(args)}
    about["tiles"] = args.size * args.size // NPIXELS
    columns = ["tile", "work", "ms", "us/tile", "overhead", "x astropy", "x fitsio", "x rustfits"]
    report(rows, goals, about, args.json, [c for c in columns if c[2:] not in absent])


if __name__ == "__main__":
    main()
