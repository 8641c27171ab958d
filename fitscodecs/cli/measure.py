# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Speeds side by side: images to work on, contestants that take turns, and their ratios.

Machines are noisy, and one that is shared may slow down by half between two measurements. So only
ratios count, of contestants that take turns: `interleave` gives the seconds of each round, and
`ratio` the median over the rounds of one contestant's seconds over another's.
"""

import functools
import os
import platform
import statistics
import time
from importlib import metadata
from pathlib import Path

import numpy as np

from ..cpu import cpu_features

__all__ = [
    "IMAGES", "cell", "facts", "figures", "image", "interleave", "ratio", "seconds", "speed",
    "version",
]  # fmt: skip

SEED = 20260101

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
    """One of `IMAGES`, square, the same in every run; 'counts' are floats without a fraction.

    Parameters
    ----------
    name : str
    size : int
        Rows and columns, 128 or more.

    Returns
    -------
    ndarray
    """
    rng = np.random.default_rng([SEED, list(IMAGES).index(name)])
    return np.ascontiguousarray(IMAGES[name](rng, size), DTYPES.get(name, name))


# ------------------------------------------------------------------------------- timing


def seconds(run, clock=time.perf_counter):
    """What one call takes: what it returns, if that is a number, or by the clock."""
    began = clock()
    told = run()
    return told if isinstance(told, float) else clock() - began


def interleave(contestants, repeats, limit=None, clock=time.perf_counter):
    """Seconds of each contestant in each round.

    Parameters
    ----------
    contestants : dict
        A function without arguments by name. It may return its seconds as a float, if it knows
        them better than the clock around it.
    repeats : int
        Rounds, after one that is not counted.
    limit : float, optional
        No round begins that is not the first and would probably end after so many seconds.
    clock : callable
        What tells the seconds of contestants that do not know them better.

    Returns
    -------
    dict
        A list of the same length, up to ``repeats``, of seconds by name.
    """
    times = {name: [] for name in contestants}
    order = list(contestants)
    began = time.perf_counter()
    for round_number in range(repeats + 1):
        spent = time.perf_counter() - began
        if limit is not None and round_number > 1 and spent * (1 + 1 / round_number) > limit:
            break
        for name in order:
            took = seconds(contestants[name], clock)
            if round_number > 0:
                times[name].append(took)
        order.reverse()  # so that nobody always runs after the same one
    return times


def ratio(times, name, other):
    """How much faster one is than another: the median of the rounds."""
    return statistics.median(b / a for a, b in zip(times[name], times[other], strict=True))


def speed(times, name, nbytes):
    """Median MB/s, a MB being 1e6 bytes."""
    return nbytes / 1e6 / statistics.median(times[name])


def figures(times, nbytes):
    """What a table says of 'ours' and the other contestants of a round.

    Parameters
    ----------
    times : dict
        From `interleave`, with a contestant 'ours'.
    nbytes : int
        Bytes of the pixels that each call is about.

    Returns
    -------
    dict
        ``MB/s`` of ours; ``x NAME``, how much faster ours is, for each other; ``seconds``, the
        medians of all.
    """
    ratios = {f"x {name}": ratio(times, "ours", name) for name in times if name != "ours"}
    medians = {name: statistics.median(spent) for name, spent in times.items()}
    return {"MB/s": speed(times, "ours", nbytes), **ratios, "seconds": medians}


def cell(value):
    """A value of a table as text: numbers with about three digits, None as nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


# -------------------------------------------------------------------------------- facts


def cpu_model():
    """The name of the processor, as far as it is known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "")


def version(package):
    """Version of a Python package, or None if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def facts(packages=()):
    """What a number depends on: the machine, versions and day."""
    versions = {name: version(name) for name in ("numpy", *packages)}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "kernels": ", ".join(cpu_features()["used"]) or "portable",
        "python": platform.python_version(),
        **{name: found for name, found in versions.items() if found},
    }
