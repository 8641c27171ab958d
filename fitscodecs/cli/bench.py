# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Measure how fast this machine reads and writes compressed images.

Images of noise and stars, and a mask, are written, read, and a box of 512 x 512 pixels is cut out
of each, by this package and by its peers that are installed: astropy, fitsio, and the commands
fpack and funpack. All take turns, and all are shown the same files, in memory where there is a
file system for that.

MB/s are 10^6 bytes of pixels a second, in one thread and in all of them. 'x astropy' is how many
times faster one thread is than astropy, the median over the rounds; so for the others. fpack and
funpack are processes that read and write plain files as well. Single figures of a machine that is
busy say little, ratios more.
"""

import json
from pathlib import Path

from ..threads import THREADS
from .failures import CommandError
from .measure import cell, facts, figures, interleave, speed
from .programs import (
    PEERS,
    WORKS,
    Case,
    Ours,
    Packing,
    calls,
    cutout_of,
    different,
    installed,
    scratch,
)
from .report import print_table, progress

EXAMPLES = """\
  fitscodecs bench
  fitscodecs bench --only gzip --only plio
  fitscodecs bench --size 4096 --seconds 120 --json bench.json
  FITSCODECS_CPU=portable fitscodecs bench --seconds 5"""

SMALLEST = 256
MOST_ROUNDS = 25


def cases(size):
    """What is measured, in the order of the table: tiles are rows, or strips of 16."""
    row, strip = (1, size), (16, size)
    yield Case("int16", Packing("RICE_1", row))
    yield Case("float32", Packing("RICE_1", row, 4))
    yield Case("int16", Packing("GZIP_1", row))
    yield Case("float32", Packing("GZIP_2", row))
    yield Case("int16", Packing("HCOMPRESS_1", strip))
    yield Case("mask", Packing("PLIO_1", row))


def add_arguments(parser):
    parser.add_argument(
        "--size", type=int, default=2048, metavar="N", help="rows and columns; default: 2048"
    )
    parser.add_argument(
        "--seconds", type=float, default=20, metavar="S",
        help="about how long to measure; slow programs may take longer; default: 20",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", metavar="NAME",
        help="only images and algorithms with this in their name; may be repeated",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write all figures there as well")
    parser.set_defaults(usage_error=parser.error)


def run(args):
    if args.size < SMALLEST:
        args.usage_error(f"--size: wanted {SMALLEST} or more")
    wanted = [name.upper() for name in args.only or [""]]
    known = list(cases(args.size))
    chosen = [case for case in known if any(name in case.name.upper() for name in wanted)]
    if not chosen:
        args.usage_error(f"--only: wanted a part of {', '.join(case.name for case in known)}")
    peers, absent = installed(PEERS)
    rows = []
    limit = args.seconds / len(chosen) / len(WORKS)
    with scratch() as folder, progress("measuring", len(chosen) * len(WORKS)) as done:
        for case in chosen:
            for row in measured(case, peers, folder, args.size, limit):
                rows.append(row)
                done(1)
    about = {**facts([peer.name for peer in peers]), "threads": THREADS, "size": args.size}
    show(rows, about, absent)
    if args.json:
        content = {"about": about, "rows": rows}
        Path(args.json).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def measured(case, peers, folder, size, limit):
    """Rows of the table; reading is of the file that this package wrote."""
    pixels, packing, path = case.pixels(size), case.packing, folder / "image.fits.fz"
    everyone = [Ours(), *peers]
    everyone[0].write(path, pixels, packing)
    if names := different(everyone, path, pixels, packing):
        raise CommandError(f"{case.name}: other pixels are read by {', '.join(names)}")
    for work in WORKS:
        box = pixels[cutout_of(pixels.shape)] if work == "cutout" else pixels
        contestants = calls(work, everyone, path, pixels, packing)
        if THREADS > 1:
            contestants |= {"threads": calls(work, [Ours(THREADS)], path, pixels, packing)["ours"]}
        times = interleave(contestants, MOST_ROUNDS, limit)
        threaded = times.pop("threads", None)
        row = {"image": case.name, "work": work, **figures(times, box.nbytes)}
        if threaded:
            row["threads MB/s"] = speed({"ours": threaded}, "ours", box.nbytes)
        yield row


def show(rows, about, absent):
    """Print what was measured, where, and beside whom."""
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    columns = ["image", "work", "MB/s", "threads MB/s", "x astropy", "x fitsio", "x fpack"]
    titles = {"threads MB/s": f"{THREADS} threads"}
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    print_table([titles.get(column, column) for column in columns], cells)
    if absent:
        print(f"not installed: {', '.join(absent)}")
