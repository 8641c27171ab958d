# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How fast are whole files and cutouts read, and files written, next to other programs?

Each file is opened anew in every call, in one thread, and lies in memory if there is a file system
for that. All programs read the file that fitscodecs wrote, which is that of fpack but for deflate
streams; their pixels are compared once. A cutout is a box of 512 x 512 pixels that begins inside
of tiles. 'x copy' is beside a copy of the pixels by numpy. Images of HCOMPRESS_1, GZIP_1 and
GZIP_2, for which other programs take seconds, have half as many rows and columns.

Speeds are MB/s of uncompressed pixels, ratios medians over the rounds. fitscodecs writes checksums,
astropy and fitsio do not. fpack and funpack are processes from file to file: fpack reads a plain
file, funpack writes one to nowhere. What is not installed is left out.
"""

from functools import partial

from common import (
    Goal,
    Rustfits,
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
    written,
)

from fitscodecs.cli.programs import (
    PEERS,
    WORKS,
    Ours,
    calls,
    cutout_of,
    different,
    installed,
)

EXAMPLES = """\
examples:
  python benchmarks/bench_image.py
  python benchmarks/bench_image.py --quick --only rice --only 256x256
  python benchmarks/bench_image.py --work cutout --size 8192
  FITSCODECS_CPU=portable python benchmarks/bench_image.py --json portable.json
"""

FILES = (
    ("int16", "RICE_1", None),
    ("int32", "RICE_1", None),
    ("uint8", "RICE_1", None),
    ("float32", "RICE_1", 4),
    ("int16", "GZIP_1", None),
    ("int16", "GZIP_2", None),
    ("float32", "GZIP_2", None),
    ("int16", "HCOMPRESS_1", None),
    ("float32", "HCOMPRESS_1", 4),
    ("mask", "PLIO_1", None),
)

# How much faster than whom; of several lines for a row the first one counts.
GOALS = {
    ("float32", "RICE_1", "read"): {"astropy": 5, "fitsio": 6},
    ("float32", "RICE_1", "write"): {"astropy": 8, "fitsio": 8},
    ("float32", "RICE_1", "cutout"): {},
    ("RICE_1", "read"): {"astropy": 5, "fitsio": 7, "copy": 0.12},
    ("RICE_1", "cutout"): {"astropy": 8, "fitsio": 6},
    ("RICE_1", "write"): {"astropy": 6, "fitsio": 7},
    ("HCOMPRESS_1", "read"): {"astropy": 7, "fitsio": 9},
    ("HCOMPRESS_1", "write"): {"astropy": 4, "fitsio": 7},
    ("PLIO_1", "read"): {"astropy": 4, "fitsio": 4},
    ("GZIP_1", "read"): {"astropy": 3, "fitsio": 3},
    ("GZIP_1", "write"): {"astropy": 6, "fitsio": 4},
    ("GZIP_2", "read"): {"astropy": 3, "fitsio": 3},
    ("GZIP_2", "write"): {"astropy": 6, "fitsio": 4},
}


def measure(case, programs, works, args):
    """Rows of the table for one file."""
    with scratch() as folder:
        size = size_beside_peers(case.packing.zcmptype, args.size)
        pixels, path = written(case, size, folder)
        others = different(programs, path, pixels, case.packing)
        check(not others, f"pixels of {case.name} {case.tile}: {', '.join(others)}")
        for work in works:
            contestants = calls(work, programs, path, pixels, case.packing)
            box = pixels[cutout_of(pixels.shape)] if work == "cutout" else pixels
            if work == "read":
                contestants["copy"] = pixels.copy
            found = figures(interleave(contestants, args.repeats, clock=args.clock), box.nbytes)
            yield {"image": case.name, "tile": case.tile, "work": work, **found}


def goals_of(row):
    """Pairs of a goal and the ratio that counts for it."""
    words = {*row["image"].split(), row["work"]}
    wanted = next((goals for key, goals in GOALS.items() if words.issuperset(key)), {})
    for name, goal in wanted.items():
        if f"x {name}" in row:
            yield Goal(f"{row['image']} {row['work']}, x {name}", goal), row[f"x {name}"]


def main():
    parser = make_parser(__doc__, EXAMPLES, size=4096, repeats=5)
    add_only(parser)
    parser.add_argument("--work", action="append", choices=WORKS, help="only this; may be repeated")
    args = parse(parser)
    size = partial(size_beside_peers, size=args.size)
    todo = chosen(cases_of(FILES, (128, 256), size), args.only, parser)
    works = [work for work in WORKS if work in (args.work or WORKS)]
    peers, absent = installed([*PEERS, Rustfits])
    rows = [row for case in todo for row in measure(case, [Ours(), *peers], works, args)]
    columns = [name for name in dict.fromkeys(n for row in rows for n in row) if name != "seconds"]
    goals = judge(pair for row in rows for pair in goals_of(row))
    about = {**facts([peer.name for peer in peers]), **settings(args)}
    if absent:
        about["not installed"] = " ".join(absent)
    report(rows, goals, about, args.json, columns)


if __name__ == "__main__":
    main()
