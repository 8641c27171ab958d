# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files and tiles for tests: compressed HDUs from explicit parts, plain HDUs, sample pixels."""

import itertools
import math

import numpy as np
import ref_build

import fitscodecs as fc

BITPIX = {"uint8": 8, "int16": 16, "int32": 32, "int64": 64, "float32": -32, "float64": -64}


def tiles_of(shape, tile_shape):
    """Slices of the tiles in the order of table rows: the fast axis changes first."""
    grid = [range(0, n, t) for n, t in zip(shape, tile_shape, strict=True)]
    for corner in itertools.product(*grid):
        yield tuple(
            slice(a, min(a + t, n)) for a, t, n in zip(corner, tile_shape, shape, strict=True)
        )


def image_cards(array, tile_shape, codec, more=()):
    """Z keywords of an image, with the parameters of its codec."""
    parameters = [(name, int(getattr(codec, name.lower()))) for name in codec.parameters]
    return ref_build.image_cards(
        BITPIX[array.dtype.name], array.shape[::-1], tile_shape and tile_shape[::-1],
        codec.zcmptype[0], parameters, more,
    )  # fmt: skip


def write_compressed(path, array, codec, tile_shape, more=(), quantize=None, wide=False, gap=0):
    """A file whose HDU 1 is `array`, compressed tile by tile."""
    letter = ("Q" if wide else "P") + codec.heap_letter
    columns, rows = [("COMPRESSED_DATA", letter)], []
    if quantize is not None:
        columns += [("ZSCALE", "D"), ("ZZERO", "D")]
        more = [("ZQUANTIZ", quantize.method), ("ZDITHER0", quantize.seed),
                ("ZBLANK", -2147483647), *more]  # fmt: skip
    for row, where in enumerate(tiles_of(array.shape, tile_shape)):
        tile = array[where]
        context = fc.DecodeContext(row=row, shape=tile.shape, dtype=array.dtype)
        if quantize is None:
            rows.append([bytes(codec.encode(tile, context=context))])
        else:
            integers = quantize.encode(tile, context=context)
            rows.append([bytes(codec.encode(integers)), context.scale, context.zero])
    ref_build.build(path, columns, rows, image_cards(array, tile_shape, codec, more), gap, wide)
    return path


def plain_hdu(array, primary=False, more=()):
    """The bytes of an uncompressed image HDU."""
    first = ("SIMPLE", True) if primary else ("XTENSION", "IMAGE")
    cards = [first, ("BITPIX", BITPIX[array.dtype.name]), ("NAXIS", array.ndim)]
    cards += [(f"NAXIS{i + 1}", n) for i, n in enumerate(array.shape[::-1])]
    cards += [] if primary else [("PCOUNT", 0), ("GCOUNT", 1)]
    header = ref_build.block([ref_build.card(*card) for card in [*cards, *more]])
    return header + ref_build.pad(array.astype(array.dtype.newbyteorder(">")).tobytes())


def sample(dtype, shape, seed=0):
    """Pixels that every codec of their type can hold: noise on a slope, and some zeros."""
    rng = np.random.default_rng(seed)
    npixels = math.prod(shape)
    values = 100 + np.linspace(0, 20, npixels) + rng.normal(0, 3, npixels)
    values[rng.random(npixels) < 0.05] = 0
    return values.reshape(shape).astype(dtype)
