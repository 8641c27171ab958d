# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What does ``fitscodecs.adapters.astropy`` bring to programs that use ``astropy.io.fits``?

The same calls of astropy, with the adapter on and off in turn, in one thread; FITSCODECS_THREADS=2
in the environment gives the adapter two.

* read: a file is opened, and all of an image is read.
* cutout: a file is opened, and 512 x 512 pixels are read by ``.section``. What astropy does for
  that before it asks for pixels, to open the file and to make the header of an image out of that
  of a table, takes as long on both sides.
* section: the same cutout of an image that is open.
* write: an image is written.

Files are written by astropy alone, and both sides have to give the same pixels. Images of
HCOMPRESS_1 and GZIP_2, for which astropy takes seconds, have half as many rows and columns.
"""

import contextlib
from functools import partial
from operator import getitem

import numpy as np
from common import (
    Goal,
    add_only,
    cases_of,
    check,
    chosen,
    facts,
    figures,
    interleave,
    judge,
    make_parser,
    parse,
    report,
    scratch,
    settings,
    size_beside_peers,
)

from fitscodecs.adapters import astropy as adapter
from fitscodecs.cli.programs import WORKS, Astropy, calls, cutout_of
from fitscodecs.threads import THREADS

EXAMPLES = """\
examples:
  python benchmarks/bench_astropy.py
  python benchmarks/bench_astropy.py --quick --only rice
  FITSCODECS_THREADS=2 python benchmarks/bench_astropy.py --size 8192
"""

FILES = (
    ("int16", "RICE_1", None),
    ("float32", "RICE_1", 4),
    ("int16", "GZIP_2", None),
    ("int16", "HCOMPRESS_1", None),
    ("mask", "PLIO_1", None),
)
# Of the RICE_1 files.
READ_GOALS = {"rows": 4, "256x256": 3}
CUTOUT_GOALS = {"cutout": "RICE_1 cutout, with opening the file", "section": "RICE_1 cutout"}
CUTOUT_GOAL, FLOAT_WRITE_GOAL = 5, 6


def switched(on, call):
    """A call with the adapter on or off; switching takes microseconds."""
    with adapter.enabled() if on else contextlib.nullcontext():
        return call()


def same_pixels(path, key):
    """Whether the adapter changes nothing but the time."""
    program = Astropy()
    reads = [partial(program.read, path), partial(program.cutout, path, key)]
    return all(np.array_equal(switched(True, read), switched(False, read)) for read in reads)


def measure(case, args):
    """Rows of the table for one file."""
    program = Astropy()
    with scratch() as folder, contextlib.ExitStack() as opened:
        size = size_beside_peers(case.packing.zcmptype, args.size)
        pixels, path = case.pixels(size), folder / "image.fits.fz"
        program.write(path, pixels, case.packing)
        key = cutout_of(pixels.shape)
        check(same_pixels(path, key), f"pixels of {case.name} {case.tile}")
        hdus = opened.enter_context(program.fits.open(path))
        works = {work: calls(work, [program], path, pixels, case.packing)[program.name]
                 for work in WORKS}  # fmt: skip
        works["section"] = partial(getitem, hdus[1].section, key)
        for work, call in works.items():
            sides = {"ours": partial(switched, True, call), "off": partial(switched, False, call)}
            nbytes = pixels[key].nbytes if work in CUTOUT_GOALS else pixels.nbytes
            times = interleave(sides, args.repeats, clock=args.clock)
            yield {"image": case.name, "tile": case.tile, "work": work, **figures(times, nbytes)}


def goals_of(row):
    """Pairs of a goal and the ratio that counts for it."""
    image, work, gain = row["image"], row["work"], row["x off"]
    if "RICE_1" in image and work == "read":
        tile = "256x256" if row["tile"] == "256x256" else "rows"
        yield Goal(f"RICE_1 read, {tile}", READ_GOALS[tile]), gain
    elif "RICE_1" in image and work in CUTOUT_GOALS:
        yield Goal(CUTOUT_GOALS[work], CUTOUT_GOAL), gain
    elif image.startswith("float32") and work == "write":
        yield Goal(f"{image} write", FLOAT_WRITE_GOAL), gain


def main():
    parser = make_parser(__doc__, EXAMPLES, size=4096)
    add_only(parser)
    args = parse(parser)
    size = partial(size_beside_peers, size=args.size)
    todo = chosen(cases_of(FILES, (256,), size), args.only, parser)
    rows = [row for case in todo for row in measure(case, args)]
    goals = judge(pair for row in rows for pair in goals_of(row))
    about = {**facts(["astropy"]), "threads": THREADS, **settings(args)}
    report(rows, goals, about, args.json, ["image", "tile", "work", "MB/s", "x off"])


if __name__ == "__main__":
    main()
