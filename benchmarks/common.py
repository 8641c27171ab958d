# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What the benchmarks share: options, arrays, peers, goals, tables, JSON.

How things are timed stands in `fitscodecs.cli.measure`, how programs are called in
`fitscodecs.cli.programs`: ``fitscodecs bench`` is a benchmark as well.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# One thread each, unless a benchmark asks for more; both are read when the packages are imported.
os.environ.setdefault("FITSCODECS_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

from fitscodecs.cli import measure
from fitscodecs.cli.measure import (
    cell,
    figures,
    image,
    interleave,
    ratio,
    speed,
    version,
)
from fitscodecs.cli.programs import Case, Ours, Packing, Program, scratch

__all__ = [
    "ROOT", "Goal", "Rustfits", "add_only", "add_options", "buffer", "cases_of", "check", "chosen",
    "facts", "figures", "image", "interleave", "judge", "make_parser", "parse", "ratio", "report",
    "scratch", "settings", "size_beside_peers", "speed", "table", "tiles", "version", "written",
]  # fmt: skip

ROOT = Path(__file__).resolve().parent.parent
QUICK_SIZE, QUICK_REPEATS = 1024, 3

# ------------------------------------------------------------------------------ options


def make_parser(text, examples, size=2048, repeats=7):
    """A parser with the options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, size, repeats)
    return parser


def add_options(parser, size=2048, repeats=7):
    """Options that all benchmarks have."""
    parser.add_argument(
        "--size", type=int, default=size, metavar="N",
        help="rows and columns of the images; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, default=repeats, metavar="N",
        help="rounds of each measurement; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true",
        help=f"--size {QUICK_SIZE} --repeats {QUICK_REPEATS}, whatever else is said",
    )  # fmt: skip
    parser.add_argument(
        "--cpu-time",
        action="store_const",
        dest="clock",
        const=cpu_time,
        default=time.perf_counter,
        help="count seconds of CPU, for a machine that is busy: what runs in one thread then is "
        "not charged for the work of others; for bench_image.py, bench_astropy.py and "
        "bench_tiles.py, the others have clocks of their own",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there as well")


def parse(parser):
    """Parse the command line; --quick decides about sizes and rounds."""
    args = parser.parse_args()
    if args.quick:
        args.size, args.repeats = QUICK_SIZE, QUICK_REPEATS
    if args.size < 512 or args.size % 256:
        parser.error("--size: wanted a multiple of 256 from 512 on")
    if args.repeats < 1:
        parser.error("--repeats: wanted at least 1")
    return args


def cpu_time():
    """Seconds of CPU of this process and of those that it ran."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def settings(args, own_clock=False):
    """What the figures depend on beside the machine, for the head of the table.

    Some figures have a clock of their own, or are no times, whatever --cpu-time says.
    """
    clock = {"clock": "CPU time"} if args.clock is cpu_time and not own_clock else {}
    return {"size": args.size, "repeats": args.repeats, **clock}


def add_only(parser):
    """The option --only, for `chosen`."""
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="only images, algorithms and tiles with this in their name; may be repeated",
    )


def chosen(cases, only, parser):
    """The cases with one of the texts in their name or tiles."""
    cases = list(cases)
    wanted = [text.upper() for text in only or [""]]
    found = [
        case for case in cases if any(text in f"{case.name} {case.tile}".upper() for text in wanted)
    ]
    if not found:
        names = dict.fromkeys(case.name for case in cases)
        parser.error(f"--only: wanted a part of {', '.join(names)}, or of a tile")
    return found


# ------------------------------------------------------------------------------- files


class Rustfits(Program):
    """rustfits, in one thread."""

    name = "rustfits"
    METHODS = {
        "RICE_1": "Rice1", "HCOMPRESS_1": "Hcompress1", "GZIP_1": "Gzip1", "GZIP_2": "Gzip2",
        "PLIO_1": "Plio1",
    }  # fmt: skip

    def __init__(self):
        import rustfits

        self.rustfits = rustfits

    def shape(self, path):
        """Shape of an image, without its pixels."""
        with self.rustfits.FITS(path) as hdus:
            return hdus[1].shape

    def read(self, path):
        """All pixels of an image."""
        with self.rustfits.FITS(path) as hdus:
            return hdus[1].read()

    def cutout(self, path, key):
        """The pixels at a tuple of slices."""
        with self.rustfits.FITS(path) as hdus:
            return hdus[1][key]

    def write(self, path, pixels, packing):
        """Compress an image into a file, which may exist."""
        method = getattr(self.rustfits, self.METHODS[packing.zcmptype])
        settings = {"compress": method(tile_shape=packing.tile)}
        if packing.level:
            settings["quantize"] = self.rustfits.Quantize(
                level=packing.level, method="dither1", seed=1
            )
        with self.rustfits.FITS(path, "w+") as hdus:
            hdus.write_image(pixels, **settings)


# What other programs take seconds for.
SLOW = ("HCOMPRESS_1", "GZIP_1", "GZIP_2")


def size_beside_peers(zcmptype, size):
    """Rows and columns of images that other programs work on as well, half of them if slowly."""
    return size // 2 if zcmptype in SLOW else size


def cases_of(files, squares, size):
    """A case for each file and each shape of tiles.

    Parameters
    ----------
    files : iterable
        Image, ZCMPTYPE and level of quantization, or None.
    squares : iterable of int
        Sides of square tiles, which come after rows, or strips of 16 rows where single ones
        cannot be compressed.
    size : callable
        Columns of the image, by ZCMPTYPE.
    """
    for data, zcmptype, level in files:
        rows = 16 if zcmptype == "HCOMPRESS_1" else 1
        for tile in ((rows, size(zcmptype)), *((side, side) for side in squares)):
            yield Case(data, Packing(zcmptype, tile, level))


def written(case, size, folder):
    """The pixels of a case, and the file of them that fitscodecs writes."""
    pixels, path = case.pixels(size), folder / "image.fits.fz"
    Ours().write(path, pixels, case.packing)
    return pixels, path


def check(truth, what):
    """End the benchmark if something does not hold that has to."""
    if not truth:
        raise SystemExit(f"not equal: {what}")


# ------------------------------------------------------------------------------- arrays


def tiles(pixels, shape):
    """The pixels in the order of their tiles: an array of (number of tiles, rows, columns)."""
    ny, nx = shape
    rows, columns = pixels.shape
    cut = pixels.reshape(rows // ny, ny, columns // nx, nx).swapaxes(1, 2)
    return np.ascontiguousarray(cut).reshape(-1, ny, nx)


PAGE = 4096


def buffer(shape, dtype, index=0):
    """An array of zeros whose place in its page depends on 'index', 0 to 7.

    Arrays that are copied to each other get different ones: some machines copy five times slower
    where two addresses are nearly the same within a page, which is where large arrays tend to be.
    """
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(nbytes + 2 * PAGE, np.uint8)
    first = -memory.ctypes.data % PAGE + index * (PAGE // 8)
    return memory[first : first + nbytes].view(dtype).reshape(shape)


# -------------------------------------------------------------------------------- goals

LOWEST_CELL = 0.75  # of the goal


@dataclass(frozen=True)
class Goal:
    """A ratio to be reached by a group of cells: by their geometric mean, and nearly by each."""

    group: str
    wanted: float
    lowest: float = LOWEST_CELL

    def judge(self, ratios):
        """One row of the table of goals."""
        mean = statistics.geometric_mean(ratios)
        met = mean >= self.wanted and min(ratios) >= self.lowest * self.wanted
        return {
            "group": self.group,
            "mean": mean,
            "lowest": min(ratios),
            "goal": self.wanted,
            "met": "yes" if met else "NO",
        }


def judge(cells):
    """Judge all goals; cells are pairs of a goal and a ratio, those of one goal in any order."""
    ratios = {}
    for goal, found in cells:
        ratios.setdefault(goal, []).append(found)
    return [goal.judge(found) for goal, found in ratios.items()]


# ------------------------------------------------------------------------------- output


def table(rows, columns=None):
    """Rows, which are dicts, as lines of aligned text; numbers to the right."""
    columns = columns or list(rows[0])
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    numeric = [any(isinstance(row.get(column), float) for row in rows) for column in columns]
    lines = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [columns, ["-" * width for width in widths], *cells]
    ]
    return "\n".join(lines)


def first_line(*command):
    """First line that a command prints, '' if there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0]


def facts(packages=()):
    """What a number depends on: the machine, compiler, versions, commit and day."""
    return {
        **measure.facts(packages),
        "compiler": first_line(*os.environ.get("CC", "cc").split(), "--version"),
        "commit": first_line("git", "rev-parse", "--short", "HEAD"),
    }


def write_json(path, rows, goals, about):
    """Everything that was printed, for a program to read."""
    content = {"about": about, "rows": rows, "goals": goals}
    path.write_text(json.dumps(content, indent=1) + "\n")


def report(rows, goals, about, path=None, columns=None):
    """Print the facts and tables, and write them to a file if there is a path."""
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print()
    print(table(rows, columns))
    if goals:
        print()
        print(table(goals))
    if path:
        write_json(path, rows, goals, about)
