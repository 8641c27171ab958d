# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How fast are the C routines, next to those of CFITSIO and to memcpy?

All tiles of an image through one routine after the other, in turn, in one thread, without files
and without Python between the tiles. Outputs are compared: pixels, and the streams of RICE_1,
HCOMPRESS_1 and the quantizer byte by byte.

Speeds are MB/s of uncompressed pixels; 'x cfitsio' and 'x memcpy' are medians of the ratios in
each round. What counts is the time of the thread, which other programs do not take away. A copy is
of as many bytes as the routine writes. Behind a tile, 'cached' is one tile again and again, 'to
cache' decodes to the same place again and again, and 'smooth' is lossy, with a decoder that
smooths. 'imagecodecs' is that package, called once a tile from
Python, if it is installed.

Needs a C compiler and CFITSIO with its headers (Debian: libcfitsio-dev). FITSCODECS_CPU=portable
and the other values of that variable choose the kernels.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import (
    ROOT,
    Goal,
    buffer,
    check,
    facts,
    image,
    interleave,
    judge,
    make_parser,
    parse,
    ratio,
    report,
    settings,
    speed,
    tiles,
    version,
)

EXAMPLES = """\
examples:
  python benchmarks/bench_codecs.py
  python benchmarks/bench_codecs.py --quick --codec plio --codec rice
  FITSCODECS_CPU=portable python benchmarks/bench_codecs.py --json portable.json
  CC=clang python benchmarks/bench_codecs.py --size 4096 --repeats 15
"""

LIBRARY = ROOT / "cextern" / "fitscodecs"
FLAGS = ["-O3", "-std=c11", "-ffp-contract=off"]  # those of setup.py
FEATURES = {"portable": 0, "sse41": 1, "avx2": 3, "avx512": 7, "neon": 8}

# Of the ratio to CFITSIO; what is not listed has no goal.
GOALS = {
    ("RICE_1", "int16", "decode"): 4.5,
    ("RICE_1", "int32", "decode"): 4,
    ("RICE_1", "uint8", "decode"): 4,
    ("RICE_1", "int16", "encode"): 8,
    ("RICE_1", "int32", "encode"): 5,
    ("RICE_1", "uint8", "encode"): 5,
    ("HCOMPRESS_1", "decode"): 7,
    ("HCOMPRESS_1", "encode"): 5,
    ("PLIO_1", "decode"): 2,
    ("PLIO_1", "encode"): 2,
    ("quantize", "float32", "rows"): 12,
    ("quantize", "float32", "tiles"): 6,
    ("quantize", "counts"): 2,
}
PORTABLE_GOALS = {("RICE_1",): 1.5, ("HCOMPRESS_1",): 1.5, ("quantize",): 1.5, ("PLIO_1",): 1}
COPY_GOAL = 0.5  # of memcpy: PLIO_1 decode, dequantize, byte order

# ------------------------------------------------------------------------- the C side


class Job(ctypes.Structure):
    """struct job of codecs.c."""

    _fields_ = [
        ("codec", ctypes.c_char_p),
        ("parameters", ctypes.c_int64 * 4),
        *((name, ctypes.c_int64) for name in ("nx", "ny", "ntiles")),
        *((name, ctypes.c_int64) for name in ("pixel_nbytes", "image_nbytes")),
        *((name, ctypes.c_int64) for name in ("room", "same_input", "same_output")),
        *((name, ctypes.c_void_p) for name in ("pixels", "streams", "stream_nbytes", "decoded")),
        *((name, ctypes.c_void_p) for name in ("scratch", "scales", "zeros")),
    ]


def compile_library(folder):
    """Compile the library with codecs.c and load it."""
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        raise SystemExit(f"missing: a C compiler (no command {compiler[0]}; Debian: gcc)")
    probe = subprocess.run(
        [*compiler, "-E", "-xc", "-"], input="#include <fitsio2.h>", capture_output=True, text=True
    )
    if probe.returncode:
        raise SystemExit("missing: CFITSIO and its header fitsio2.h (Debian: libcfitsio-dev)")
    path = folder / "bench_codecs.so"
    sources = [Path(__file__).with_name("codecs.c"), *sorted(LIBRARY.glob("*.c"))]
    subprocess.run(
        [*compiler, *FLAGS, "-shared", "-fPIC", f"-I{LIBRARY}", "-o", path, *sources,
         "-lcfitsio", "-lm"], check=True)  # fmt: skip
    library = ctypes.CDLL(str(path))
    library.bench_noise_scratch.restype = ctypes.c_size_t
    level = os.environ.get("FITSCODECS_CPU") or None
    if level not in {None, *FEATURES}:
        raise SystemExit(f"FITSCODECS_CPU is {level!r}, wanted one of {', '.join(FEATURES)}")
    found = library.fitscodecs_cpu_features()
    library.bench_init(found if level is None else found & FEATURES[level])
    return library


class Contestant:
    """A job with its arrays, and the functions of codecs.c that work on it."""

    def __init__(self, library, codec, parameters, pixels, image_nbytes):
        ntiles, ny, nx = pixels.shape
        self.library = library
        self.pixels = buffer(pixels.shape, pixels.dtype)
        self.pixels[:] = pixels
        self.job = Job(codec.encode(), tuple(parameters), nx, ny, ntiles, pixels.itemsize,
                       image_nbytes)  # fmt: skip
        room, scratch = self._sizes(codec, 8 * nx * ny)
        self.job.room = room
        self.streams = buffer((ntiles, room), np.uint8, 2)
        self.stream_nbytes = np.zeros(ntiles, np.int64)
        self.decoded = buffer(pixels.shape, pixels.dtype, 4)
        self.scratch = buffer(scratch // 8 + 8, np.int64, 6)
        self.scales, self.zeros = np.zeros((2, ntiles))
        names = ("pixels", "streams", "stream_nbytes", "decoded", "scratch", "scales", "zeros")
        for name in names:
            setattr(self.job, name, getattr(self, name).ctypes.data)

    def _sizes(self, codec, tile_nbytes):
        """Bytes for a stream and for scratch; CFITSIO needs more than a tile for either."""
        bound, scratch = ctypes.c_int64(), ctypes.c_int64()
        if codec == "quantize":
            return 8, self.library.bench_noise_scratch(ctypes.byref(self.job))
        self.library.bench_sizes(ctypes.byref(self.job), ctypes.byref(bound), ctypes.byref(scratch))
        return (max(bound.value, tile_nbytes // 2) + 64) // 8 * 8, max(scratch.value, tile_nbytes)

    def run(self, name):
        """Run `bench_NAME`; a function for `interleave`."""
        function = getattr(self.library, f"bench_{name}")
        function.restype = ctypes.c_double

        def run():
            spent = function(ctypes.byref(self.job))
            if spent < 0:
                raise SystemExit(f"{name}: a tile fails with status {-spent:.0f}")
            return spent

        return run

    def stream(self, i):
        return self.streams[i, : self.stream_nbytes[i]]


# ------------------------------------------------------------------------ measurements


def race(contestants, args):
    """Seconds of each in each round: routines of codecs.c tell those of their thread."""
    return interleave(contestants, args.repeats, clock=time.thread_time)


NOTES = ("cached", "to cache", "smooth")  # the head of this file says what they are


@dataclass(frozen=True)
class Case:
    """One image in one tiling through one codec."""

    codec: str
    data: str
    tile: tuple
    parameters: tuple = (0, 0, 0, 0)
    note: str = ""  # behind the tile: one of NOTES, if this is not the plain case

    @property
    def shape(self):
        return f"{'x'.join(map(str, self.tile))} {self.note}".rstrip()

    def row(self, work, times, nbytes):
        """One row of the table; whoever is in 'times' gets a column."""
        row = {"codec": self.codec, "data": self.data, "tile": self.shape, "work": work}
        row["MB/s"] = speed(times, "ours", nbytes)
        if "cfitsio" in times:
            row["cfitsio MB/s"] = speed(times, "cfitsio", nbytes)
            row["x cfitsio"] = ratio(times, "ours", "cfitsio")
        if "memcpy" in times:
            row["x memcpy"] = ratio(times, "ours", "memcpy")
        if "imagecodecs" in times:
            row["x imagecodecs"] = ratio(times, "ours", "imagecodecs")
        return row


def imagecodecs_rice(case, pixels, streams):
    """Encoder and decoder of imagecodecs as contestants; nothing if there is no such package."""
    try:
        import imagecodecs
    except ImportError:
        return {}, {}
    blocksize = case.parameters[0]

    def encode():
        for tile in pixels:
            imagecodecs.rcomp_encode(tile, nblock=blocksize)

    def decode():
        for stream in streams:
            imagecodecs.rcomp_decode(
                stream, shape=pixels.shape[1:], dtype=pixels.dtype, nblock=blocksize
            )

    return {"imagecodecs": encode}, {"imagecodecs": decode}


def measure_codec(library, case, args, routines, as_int32, same_streams):
    """Encode and decode with this library and CFITSIO's routines, whose names are given."""
    pixels = tiles(image(case.data, args.size), case.tile)
    nbytes, itemsize = pixels.nbytes, pixels.itemsize
    if as_int32:
        pixels = pixels.astype(np.int32)
    ours, peer = (
        Contestant(library, case.codec, case.parameters, pixels, itemsize) for _ in range(2)
    )
    for contestant, encode, decode in ((ours, "encode", "decode"), (peer, *routines)):
        contestant.run(encode)()
        contestant.run(decode)()
        wanted = ours.decoded if case.note == "smooth" else pixels
        check(np.array_equal(contestant.decoded, wanted), f"pixels of {case}, {decode}")
    streams = [ours.stream(i).tobytes() for i in range(len(pixels))]
    if same_streams:
        check(
            all(stream == peer.stream(i).tobytes() for i, stream in enumerate(streams)),
            f"streams of {case}",
        )
    encoder, decoder = (
        imagecodecs_rice(case, pixels, streams) if case.codec == "RICE_1" else ({}, {})
    )
    ours.job.same_output = peer.job.same_output = case.note == "to cache"
    for work, routine, other in (
        ("encode", routines[0], encoder),
        ("decode", routines[1], decoder),
    ):
        if work == "encode" and case.note in {"to cache", "smooth"}:
            continue
        contestants = {"ours": ours.run(work), "cfitsio": peer.run(routine), **other}
        if work == "decode":
            contestants["memcpy"] = peer.run("copy")
        yield case.row(work, race(contestants, args), nbytes)


def measure_rice(library, case, args):
    return measure_codec(
        library, case, args, ("cfitsio_rice", "cfitsio_unrice"), as_int32=False, same_streams=True
    )


def measure_hcompress(library, case, args):
    routines = ("cfitsio_hcompress", "cfitsio_unhcompress")
    return measure_codec(library, case, args, routines, as_int32=True, same_streams=True)


def measure_plio(library, case, args):
    """CFITSIO gives words in native byte order, and some wrong ones: only pixels are compared."""
    routines = ("cfitsio_plio", "cfitsio_unplio")
    return measure_codec(library, case, args, routines, as_int32=True, same_streams=False)


def measure_quantize(library, case, args):
    pixels = tiles(image(case.data, args.size), case.tile)
    ours, peer = (Contestant(library, "quantize", (), pixels, 4) for _ in range(2))
    ours.run("quantize")()
    peer.run("cfitsio_quantize")()
    for name in ("decoded", "scales", "zeros"):
        check(getattr(ours, name).tobytes() == getattr(peer, name).tobytes(), f"{name} of {case}")
    contestants = {"ours": ours.run("quantize"), "cfitsio": peer.run("cfitsio_quantize")}
    yield case.row("encode", race(contestants, args), pixels.nbytes)


def measure_dequantize(library, case, args):
    pixels = tiles(image("int32", args.size), case.tile)
    ours = Contestant(library, "quantize", (), pixels, 4)
    ours.scales[:], ours.zeros[:] = 0.37, 12.5
    contestants = {"ours": ours.run("dequantize"), "memcpy": ours.run("copy")}
    yield case.row("decode", race(contestants, args), pixels.nbytes)


def measure_bytes(library, case, args):
    """Native pixels to big-endian bytes and back, plain or shuffled."""
    pixels = tiles(image("float32", args.size), case.tile).astype(case.data)
    ours = Contestant(library, "NOCOMPRESS", case.parameters, pixels, 4)
    ours.job.same_input = ours.job.same_output = case.note == "cached"
    ours.run("encode")()
    ours.run("decode")()
    used = slice(0, 1 if case.note else None)
    check(np.array_equal(ours.decoded[used], pixels[used]), f"pixels of {case}")
    for work in ("encode", "decode"):
        contestants = {"ours": ours.run(work), "memcpy": ours.run("copy")}
        yield case.row(work, race(contestants, args), pixels.nbytes)


MEASURES = {
    "RICE_1": measure_rice,
    "HCOMPRESS_1": measure_hcompress,
    "PLIO_1": measure_plio,
    "quantize": measure_quantize,
    "dequantize": measure_dequantize,
    "swap": measure_bytes,
    "shuffle": measure_bytes,
}


def cases(size):
    """Everything that is measured, in the order of the table."""
    plain = [(1, size), (128, 128), (256, 256)]
    integers = {"int16": 2, "int32": 4, "uint8": 1}
    for data, nbytes in integers.items():
        yield from (Case("RICE_1", data, tile, (32, nbytes)) for tile in plain)
    for data in integers:
        yield from (Case("HCOMPRESS_1", data, tile) for tile in [(16, size), *plain[1:]])
    for data in integers:
        yield from (Case("HCOMPRESS_1", data, tile, (8, 1, 0, 0), "smooth") for tile in plain[1:])
    for note in ("", "to cache"):
        yield from (Case("PLIO_1", "mask", tile, note=note) for tile in plain)
    for data in ("float32", "counts"):
        yield from (Case("quantize", data, tile) for tile in plain)
    yield from (Case("dequantize", "float32", tile) for tile in plain)
    for codec, shuffled in (("swap", 0), ("shuffle", 1)):
        for data, nbytes in {"int16": 2, "int32": 4, "float64": 8}.items():
            for tile, note in ((plain[0], ""), (plain[2], ""), (plain[1], "cached")):
                yield Case(codec, data, tile, (nbytes, shuffled), note)


def goals_of(row):
    """Pairs of a goal and the ratio that counts for it."""
    codec, data, work = row["codec"], row["data"], row["work"]
    is_portable = os.environ.get("FITSCODECS_CPU") == "portable"
    shape = "rows" if row["tile"].startswith("1x") else "tiles"
    note = next((f" {name}" for name in ("to cache", "smooth") if row["tile"].endswith(name)), "")
    for key, wanted in (PORTABLE_GOALS if is_portable else GOALS).items():
        if {codec, data, work, shape}.issuperset(key):
            group = " ".join(
                name for name in (codec, data, work, shape) if name in {*key, data, work}
            )
            yield Goal(f"{group}{note}, x cfitsio", wanted), row["x cfitsio"]
    copies = codec in {"dequantize", "swap", "shuffle"} or (codec, work) == ("PLIO_1", "decode")
    if copies and not is_portable:
        yield Goal(f"{codec} {data} {work}{note}, x memcpy", COPY_GOAL), row["x memcpy"]


def main():
    parser = make_parser(__doc__, EXAMPLES)
    parser.add_argument(
        "--codec",
        action="append",
        metavar="NAME",
        help=f"only what has this in its name, of {', '.join(MEASURES)}; may be repeated",
    )
    args = parse(parser)
    wanted = [name.upper() for name in args.codec or [""]]
    chosen = [c for c in cases(args.size) if any(name in c.codec.upper() for name in wanted)]
    if not chosen:
        parser.error(f"--codec: wanted a part of one of {', '.join(MEASURES)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = compile_library(Path(folder))
        for case in chosen:
            rows.extend(MEASURES[case.codec](library, case, args))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    goals = judge(pair for row in rows for pair in goals_of(row))
    about = {**facts(), **settings(args, own_clock=True)}
    if version("imagecodecs"):
        about["imagecodecs"] = version("imagecodecs")
    report(rows, goals, about, args.json, columns)


if __name__ == "__main__":
    main()
