# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Write the stored vectors as inputs of fuzz.c, to start a corpus from.

    python tests/c/make_corpus.py FOLDER

The committed corpus is what libFuzzer keeps of such a folder after some fuzzing::

    make -C tests/c fuzz BUILD=/somewhere CORPUS=FOLDER SECONDS=600
    make -C tests/c merge BUILD=/somewhere CORPUS=FOLDER
"""

import json
import struct
import sys
from gzip import compress
from pathlib import Path

import numpy as np

VECTORS = Path(__file__).parent.parent / "oracles" / "vectors"

# Positions in fitscodecs_codecs, and of values in the parameter_table of testing.h.
RICE, PLIO, HCOMPRESS, NOCOMPRESS = range(4)
BLOCKSIZE = [32, 16, 1, 2, 33]
BYTEPIX = [1, 2, 4]
SCALE = [0, 1, 2, 17, 1000]
ITEMSIZE = [1, 2, 4, 8]
U8, I16, I32, I64, F32, F64 = range(6)

CLIP, QUANTIZED, HAS_BLANK, FLOAT_TILE, BACKWARD = 1, 2, 4, 8, 16
ALL = 255  # count: as many pixels as there are from start on
MAX_LENGTH = 4096


def fuzz_input(
    stream,
    codec,
    parameters,
    shape,
    image_type,
    *,
    flags=0,
    dither=0,
    seed=1,
    row=0,
    scale=1.0,
    zero=0.0,
    blank=-2147483647,
    offset=0,
    part=(0, 1, ALL),
    njobs=1,
):
    """A stream and its settings, in the order of read_settings() in fuzz.c; shape in C order."""
    lengths = [n - 1 for n in reversed(shape)]
    return stream + struct.pack(
        "<B4BB3H9BBBHiddqqB",
        codec,
        *parameters,
        *[0] * (4 - len(parameters)),
        len(shape),
        *lengths,
        *[0] * (3 - len(shape)),
        *part * 3,
        image_type,
        flags | dither << 5,
        seed,
        row,
        scale,
        zero,
        blank,
        offset,
        njobs - 1,
    )


def load(group):
    """Name, settings and arrays of each vector of a group."""
    index = json.loads((VECTORS / "index.json").read_text())
    with np.load(VECTORS / f"{group}.npz") as arrays:
        for item in index:
            if item["group"] == group:
                name = item["name"]
                yield name, item["params"], {k: arrays[f"{name}.{k}"] for k in item["arrays"]}


def rice():
    """Streams of all block sizes and widths, which decode to the whole tile."""
    types = {1: U8, 2: I16, 4: I32}
    for name, params, arrays in load("rice"):
        if params["blocksize"] in BLOCKSIZE:
            parameters = [BLOCKSIZE.index(params["blocksize"]), BYTEPIX.index(params["bytepix"])]
            yield (
                name,
                fuzz_input(
                    arrays["bytes"].tobytes(),
                    RICE,
                    parameters,
                    (params["npix"],),
                    types[params["bytepix"]],
                ),
            )


def plio():
    """Lists, with the offset that images of unsigned pixels have."""
    for name, params, arrays in load("plio"):
        stream = arrays["words"].astype(">i2").tobytes()
        yield name, fuzz_input(stream, PLIO, [], (params["npix"],), I16, flags=CLIP, offset=32768)


def hcompress():
    """Streams with and without smoothing, of which every second column is wanted, backward."""
    for name, params, arrays in load("hcompress"):
        for smooth in range(2):
            parameters = [SCALE.index(params["scale"]) if params["scale"] in SCALE else 0, smooth]
            yield (
                f"{name}_{smooth}",
                fuzz_input(
                    arrays["bytes"].tobytes(),
                    HCOMPRESS,
                    parameters,
                    (params["rows"], params["cols"]),
                    I32,
                    flags=CLIP | BACKWARD,
                    part=(0, 2, ALL),
                    njobs=2,
                ),
            )


def thin():
    """HCOMPRESS_1 tiles of one row or column, all pixels alike: no bit planes, no signs."""
    for rows, cols in ((1, 1), (1, 6), (6, 1)):
        stream = struct.pack(">H3iq4B", 0xDD99, rows, cols, 0, 1024, 0, 0, 0, 0)
        yield f"{rows}x{cols}", fuzz_input(stream, HCOMPRESS, [0, 0], (rows, cols), I32)


def quantize():
    """Quantized pixels as they are, to be dequantized."""
    dithers = {"NO_DITHER": 0, "SUBTRACTIVE_DITHER_1": 1, "SUBTRACTIVE_DITHER_2": 2}
    for name, params, arrays in load("quantize"):
        if params["quantizable"]:
            scale, zero = arrays["scale_zero"].tolist()
            yield (
                name,
                fuzz_input(
                    arrays["quantized"].astype(">i4").tobytes(),
                    NOCOMPRESS,
                    [ITEMSIZE.index(4), 0],
                    (params["ny"], params["nx"]),
                    F64 if arrays["pixels"].dtype.itemsize == 8 else F32,
                    flags=QUANTIZED | HAS_BLANK,
                    dither=dithers.get(params["method"], 0),
                    seed=params["zdither0"] or 1,
                    row=params["tile0"],
                    scale=scale,
                    zero=zero,
                ),
            )


def members():
    """Gzip members that hold as many bytes as the tile has pixels."""
    pixels = bytes(range(60)) * 4
    for cut in (0, 100):
        stream = b"".join(compress(part, mtime=0) for part in (pixels[:cut], pixels[cut:]))
        yield str(cut), fuzz_input(stream, NOCOMPRESS, [0, 0], (6, 40), U8)


def main(folder):
    """Write the inputs that are short enough to fuzz well."""
    folder.mkdir(parents=True, exist_ok=True)
    for group in (rice, plio, hcompress, thin, quantize, members):
        for name, data in group():
            if len(data) <= MAX_LENGTH:
                (folder / f"{group.__name__}_{name}").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
