# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How much memory do whole files take, beside what they may take?

Each piece of work is done by a process of its own. Counted is the most memory that it had at any
time, mapped files included, above what it had when its packages were loaded. It may be

* reading: the pixels, the mapped file, and the room for work;
* writing: the pixels, the compressed file, and the room for work;
* encoding to bytes: as writing, with the compressed file twice;
* packing a file: the mapped file, the compressed one, and the room for work;

where the room for work is 8 MiB, and for each thread three times the largest tile as int64.

'of bound' is the part of that which was used, which must not be above 1.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from common import (
    Goal,
    add_only,
    chosen,
    facts,
    judge,
    make_parser,
    parse,
    report,
    scratch,
    settings,
    written,
)

import fitscodecs as fc
from fitscodecs.cli.programs import Case, Packing, write_plain
from fitscodecs.pack import PackOptions, pack_file

EXAMPLES = """\
examples:
  python benchmarks/bench_memory.py
  python benchmarks/bench_memory.py --only rice --threads 1
  python benchmarks/bench_memory.py --size 16384
"""

MIB = 2**20
ROOM = 8 * MIB
WORKS = ("read", "write", "encode", "pack")

# ------------------------------------------------------------- in a process of its own


def status(name):
    """A number of bytes from Linux's status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def do(work, folder, packing, threads):
    """One piece of work on the files of `prepare`; the bytes of memory that it took."""
    target = folder / "new.fits.fz"
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the most that there was is forgotten
    if work == "read":
        fc.open(folder / "image.fits.fz").read(threads=threads)
    elif work == "pack":
        pack_file(folder / "image.plain", target, PackOptions(**packing.keywords), True, threads)
    elif work == "write":
        pixels = np.load(folder / "pixels.npy")
        fc.write(target, pixels, overwrite=True, threads=threads, **packing.keywords)
    else:
        fc.encode_image(np.load(folder / "pixels.npy"), threads=threads, **packing.keywords)
    return status("VmHWM") - before


# ------------------------------------------------------------------------- in this one


def cases(size):
    """What is measured, in the order of the table; the last is a tile as large as the image."""
    yield Case("int16", Packing("RICE_1", (1, size)))
    yield Case("int16", Packing("RICE_1", (256, 256)))
    yield Case("float32", Packing("RICE_1", (1, size), 4))
    yield Case("float32", Packing("GZIP_2", (256, 256)))
    yield Case("int16", Packing("HCOMPRESS_1", (256, 256)))
    yield Case("int16", Packing("GZIP_1", (size, size)))


def prepare(case, size, folder):
    """Write the pixels and both files; gives their numbers of bytes."""
    pixels, path = written(case, size, folder)
    write_plain(folder / "image.plain", pixels)
    np.save(folder / "pixels.npy", pixels)
    return pixels.nbytes, path.stat().st_size


def bound(work, pixels, packed, room):
    """Bytes that a piece of work may take; pixels of plain files are as many as in memory."""
    return {
        "read": pixels + packed,
        "write": pixels + packed,
        "encode": pixels + 2 * packed,
        "pack": pixels + packed,
    }[work] + room


def measure(case, args):
    """Rows of the table for one image: the most of all rounds counts."""
    rows, columns = case.packing.tile
    room = ROOM + args.threads * 3 * 8 * rows * columns
    with scratch() as folder:
        sizes = prepare(case, args.size, folder)
        (folder / "packing.json").write_text(json.dumps(asdict(case.packing)))
        for work in WORKS:
            command = [sys.executable, __file__, "--do", work, folder, str(args.threads)]
            used = max(int(subprocess.check_output(command)) for _ in range(args.repeats))
            allowed = bound(work, *sizes, room)
            yield {
                "image": case.name,
                "tile": case.tile,
                "work": work,
                "MiB": used / MIB,
                "bound MiB": allowed / MIB,
                "of bound": used / allowed,
            }


def child(work, folder, threads):
    """What a process of its own does: it prints the bytes that it took."""
    packing = json.loads(Path(folder, "packing.json").read_text())
    packing = Packing(packing["zcmptype"], tuple(packing["tile"]), packing["level"])
    print(do(work, Path(folder), packing, int(threads)))


def main():
    parser = make_parser(__doc__, EXAMPLES, size=4096, repeats=1)
    add_only(parser)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default: 2")
    args = parse(parser)
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("missing: /proc of Linux, which tells how much memory a process had")
    todo = chosen(cases(args.size), args.only, parser)
    rows = [row for case in todo for row in measure(case, args)]
    goals = judge(
        (Goal(f"{row['work']}, bound by what is used", 1, lowest=1), 1 / row["of bound"])
        for row in rows
    )
    about = {**facts(), "threads": args.threads, **settings(args, own_clock=True)}
    report(rows, goals, about, args.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--do"]:
        child(*sys.argv[2:])
    else:
        main()
