# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What the benchmarks share: images, timing side by side, goals, tables, JSON.

Machines are noisy, and one that is shared may slow down by half between two measurements. So only
ratios count, of contestants that take turns: `interleave` gives the seconds of each round, and
`ratio` the median over the rounds of one contestant's seconds over another's.
"""

import functools
import json
import os
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SEED = 20260101
QUICK_SIZE, QUICK_REPEATS = 1024, 3

# ------------------------------------------------------------------------------ options


def add_options(parser, size=2048, repeats=7):
    """Options that all benchmarks have."""
    parser.add_argument("--size", type=int, default=size, help="rows and columns of the images")
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds of each measurement")
    parser.add_argument("--quick", action="store_true", help="small images and few rounds")
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


# ------------------------------------------------------------------------------- images


def _stars(rng, size, brightest):
    """A field of point sources, one for each 1400 pixels, whose counts follow a power law."""
    image = np.zeros((size, size))
    number = size * size // 1400
    centers = rng.integers(20, size - 20, (number, 2))
    peaks = np.minimum(brightest, 30 * (rng.pareto(0.6, number) + 1))
    grid = np.arange(-12, 13)
    for (y, x), peak, (dy, dx) in zip(
        centers, peaks, rng.uniform(-0.5, 0.5, (number, 2)), strict=True
    ):
        profile_y = np.exp(-((grid - dy) ** 2) / 6.5)
        profile_x = np.exp(-((grid - dx) ** 2) / 6.5)
        image[y - 12 : y + 13, x - 12 : x + 13] += peak * np.outer(profile_y, profile_x)
    return image


def _noisy(rng, size, level, sigma, brightest):
    return level + rng.normal(0, sigma, (size, size)) + _stars(rng, size, brightest)


def _mask(rng, size):
    """Zeros, and discs of ones and twos that cover each other."""
    image = np.zeros((size, size), np.int32)
    y, x = np.mgrid[-60:61, -60:61]
    for _ in range(size * size // 5600):
        disc = y * y + x * x <= rng.integers(3, 60) ** 2
        top, left = rng.integers(0, size - 121, 2)
        image[top : top + 121, left : left + 121][disc] = rng.integers(1, 3)
    return image


IMAGES = {
    "int16": lambda rng, n: np.clip(np.rint(_noisy(rng, n, 1000, 10, 25000)), -32768, 32767),
    "int32": lambda rng, n: np.rint(_noisy(rng, n, 1000, 30, 2e7)),
    "uint8": lambda rng, n: np.clip(np.rint(_noisy(rng, n, 60, 4, 200)), 0, 255),
    "float32": lambda rng, n: _noisy(rng, n, 100, 5, 25000),
    "counts": lambda rng, n: np.rint(_noisy(rng, n, 100, 5, 25000)),
    "mask": _mask,
}
DTYPES = {"counts": "float32", "mask": "int32"}


@functools.lru_cache(maxsize=2)
def image(name, size):
    """One of `IMAGES`, the same in every run; 'counts' are floats without a fraction."""
    rng = np.random.default_rng([SEED, *IMAGES.keys()].index(name))
    return np.ascontiguousarray(IMAGES[name](rng, size), DTYPES.get(name, name))


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


# ------------------------------------------------------------------------------- timing


def seconds(run):
    """What one call takes: what it returns, if that is a number, or by the clock."""
    began = time.perf_counter()
    told = run()
    return told if isinstance(told, float) else time.perf_counter() - began


def interleave(contestants, repeats):
    """Seconds of each contestant in each round.

    Parameters
    ----------
    contestants : dict
        A function without arguments by name. It may return its seconds as a float, if it knows
        them better than the clock around it.
    repeats : int
        Rounds, after one that is not counted.

    Returns
    -------
    dict
        A list of ``repeats`` seconds by name.
    """
    times = {name: [] for name in contestants}
    order = list(contestants)
    for round_number in range(repeats + 1):
        for name in order:
            spent = seconds(contestants[name])
            if round_number > 0:
                times[name].append(spent)
        order.reverse()  # so that nobody always runs after the same one
    return times


def ratio(times, name, other):
    """How much faster one is than another: the median of the rounds."""
    return statistics.median(b / a for a, b in zip(times[name], times[other], strict=True))


def speed(times, name, nbytes):
    """Median MB/s, a MB being 1e6 bytes."""
    return nbytes / 1e6 / statistics.median(times[name])


# -------------------------------------------------------------------------------- goals

LOWEST_CELL = 0.75  # of the goal


@dataclass(frozen=True)
class Goal:
    """A ratio to be reached by a group of cells: by their geometric mean, and nearly by each."""

    group: str
    wanted: float

    def judge(self, ratios):
        """One row of the table of goals."""
        mean = statistics.geometric_mean(ratios)
        met = mean >= self.wanted and min(ratios) >= LOWEST_CELL * self.wanted
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


def _text(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def table(rows, columns=None):
    """Rows, which are dicts, as lines of aligned text; numbers to the right."""
    columns = columns or list(rows[0])
    cells = [[_text(row.get(column)) for column in columns] for row in rows]
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


def _cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "")


def first_line(*command):
    """First line that a command prints, '' if there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    except OSError:
        return ""
    return (done.stdout.splitlines() or [""])[0]


def version(package):
    """Version of a Python package, or None if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def facts(packages=()):
    """What a number depends on: the machine, compiler, versions and day."""
    versions = {name: version(name) for name in ("numpy", *packages)}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "kernels": os.environ.get("FITSCODECS_CPU") or "best",
        "compiler": first_line(*os.environ.get("CC", "cc").split(), "--version"),
        "python": platform.python_version(),
        "commit": first_line("git", "rev-parse", "--short", "HEAD"),
        **{name: found for name, found in versions.items() if found},
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
