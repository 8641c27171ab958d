# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What each algorithm would make of an image: sizes, speeds, and what quantization would save."""

import contextlib
import time
from dataclasses import replace

import numpy as np

from ..cards import cards_of
from ..codecs import CODECS, HCompress1, Quantize, Rice1
from ..encode import encode_tiles
from ..errors import EncodeError, FitsCodecsError
from ..hdu import walk
from ..header import is_compressed, is_plain_image
from ..image import TiledImage, open_image
from ..pack import PackOptions, plain_array
from ..settle import settle
from ..source import open_source
from ..writer import PRIMARY, compress
from .failures import CommandError
from .report import print_table, size_name

__all__ = ["print_trial", "saving"]

COLUMNS = ["algorithm", "tiles", "size", "ratio", "pack", "read", "lossy"]
# Tiles and pixels of the sample that an estimate is made from.
SAMPLE_NTILES, SAMPLE_NPIXELS = 32, 2**21


# ---------------------------------------------------------------------------- trial


def print_trial(path, options):
    """Print a table for each plain image of a file; gives the exit status."""
    count = 0
    with contextlib.closing(open_source(path)) as source:
        for hdu in walk(source):
            if not (is_plain_image(hdu.header) and hdu.data_nbytes):
                continue
            image = TiledImage(source, hdu, scaled=False)
            array = plain_array(image)
            rows = [trial_row(image, array, name, o) for name, o in candidates(image, options)]
            axes = " x ".join(str(n) for n in image.shape[::-1])
            title = f"{path} {hdu.label}: {axes} {image.dtype}, {size_name(array.nbytes)}"
            print_table(COLUMNS, rows, title)
            count += 1
    if not count:
        raise CommandError("no image to try")
    return 0


def candidates(image, options):
    """Names and `PackOptions` of what is tried."""
    base = PackOptions(tile_shape=options.tile_shape, whole=options.whole)
    floats = image.structure.bitpix < 0
    for codec in CODECS:
        if image.structure.bitpix in codec.bitpix:
            yield codec.zcmptype[0], replace(base, compression=codec.zcmptype[0])
    if not floats:
        return
    for codec, level in ((Rice1, 16.0), (Rice1, 4.0), (HCompress1, 4.0)):
        quantize = Quantize(level=level, method="SUBTRACTIVE_DITHER_1", seed="checksum")
        name = codec.zcmptype[0]
        yield f"{name} -q {level:g}", replace(base, compression=name, quantize=quantize)


def trial_row(image, array, name, options):
    """Cells of the table; the reason in place of figures where an algorithm is not possible."""
    try:
        settings = options.settings(image)
        began = time.perf_counter()
        raw = compress(settings, array, cards_of(image.hdu.raw)).tobytes()
        packed = time.perf_counter()
        with open_image(PRIMARY + raw, scaled=False) as written:
            written.read()
        read = time.perf_counter()
    except EncodeError as error:
        return [name, "", "", "", "", "", f"not possible: {error}"]
    shape = ",".join(str(n) for n in settings.tile_shape[::-1])
    return [
        name, shape, size_name(len(raw)), f"{array.nbytes / len(raw):.2f}",
        speed(array.nbytes, packed - began), speed(array.nbytes, read - packed),
        "yes" if settings.quantize is not None else "no",
    ]  # fmt: skip


def speed(nbytes, seconds):
    return f"{nbytes / 1e6 / max(seconds, 1e-9):.0f} MB/s"


# ---------------------------------------------------------------------------- an estimate


def saving(path, options):
    """How many times smaller the first image of floats in a packed file would be if quantized.

    Parameters
    ----------
    path : path-like
        A packed file whose floats were kept without loss.
    options : PackOptions
        With the quantization to judge.

    Returns
    -------
    float or None
        None if there is no such image, or nothing would be saved.
    """
    try:
        with contextlib.closing(open_source(path)) as source:
            for hdu in walk(source):
                if is_compressed(hdu.header):
                    image = TiledImage(source, hdu, scaled=False)
                    if image.structure.bitpix < 0 and image.quantize is None:
                        return sampled_saving(image, options)
    except (FitsCodecsError, OSError):
        pass
    return None


def sampled_saving(image, options):
    """Bytes of some tiles without loss, by their bytes when they are quantized."""
    before = after = npixels = 0
    chosen = np.unique(np.linspace(0, len(image.table) - 1, SAMPLE_NTILES).astype(int))
    entries = image.table.describe(chosen)
    for row, nbytes in zip(chosen.tolist(), entries.nbytes.tolist(), strict=True):
        pixels = image.blocks[tuple(int(i) for i in np.unravel_index(row, image.grid_shape))]
        before += nbytes
        after += quantized_nbytes(pixels, options.quantize)
        npixels += pixels.size
        if npixels > SAMPLE_NPIXELS:
            break
    return before / after if 0 < after < before else None


def quantized_nbytes(pixels, quantize):
    """Bytes of one tile, quantized, in the default algorithm for that."""
    settings = settle(pixels.shape, pixels.dtype, None, quantize, pixels.shape)
    return encode_tiles(settings, pixels).heap_nbytes + 16  # scale and zero
