# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Values for a picture: read with as few as the eye can tell, and their way to grey."""

import math

import numpy as np

__all__ = [
    "CURVED",
    "LIMIT",
    "STRETCHES",
    "as_floats",
    "block_mean",
    "mask_values",
    "normalize",
    "read_reduced",
]

# Straight lines between limits, and curves that show faint things and bright ones together.
STRAIGHT = ("zscale", "minmax", "percentile", "linear")
CURVED = ("sqrt", "log", "asinh")
STRETCHES = STRAIGHT + CURVED

# Pixels drawn along an axis, at most: more than the picture has.
LIMIT = 1500
# Integers of no more different values than this are drawn as a mask, with a legend.
MASK_VALUES = 8


def read_reduced(image, plane):
    """A plane with at most `LIMIT` pixels a side.

    Returns
    -------
    pixels : ndarray
        Means of blocks; of a mask, the first pixel of each block.
    block : tuple of int
        Shape of the blocks.
    how : str
        The same in words; empty if nothing was reduced.
    """
    height, width = image.shape[-2:]
    block = (max(1, -(-height // LIMIT)), max(1, -(-width // LIMIT)))
    if block == (1, 1):
        return image[plane], block, ""
    strip = block[0] * max(1, math.ceil(image.tile_shape[-2] / block[0]))
    means, first = [], []
    for start in range(0, height, strip):
        pixels = image[(*plane, slice(start, start + strip))]
        means.append(block_mean(pixels, block))
        first.append(pixels[:: block[0], :: block[1]].copy())
    size = f"{block[1]} x {block[0]} pixels"
    first = np.concatenate(first)
    if mask_values(first) is not None:
        return first, block, f"one pixel of each {block[1]} x {block[0]}"
    return np.concatenate(means), block, f"means of {size}"


def block_mean(pixels, block):
    """Means of blocks, without NaNs and infinities; blocks at the far edges may be smaller."""
    good = np.isfinite(pixels)
    rows, columns = (np.arange(0, n, b) for n, b in zip(pixels.shape, block, strict=True))

    def total(values):
        partial = np.add.reduceat(values, rows, axis=0, dtype=np.float64)
        return np.add.reduceat(partial, columns, axis=1)

    count = total(good)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return total(np.where(good, pixels, 0)) / np.where(count == 0, np.nan, count)


def as_floats(pixels):
    """Finite float64, NaN elsewhere; huge values are capped, so that their squares are too."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(pixels, np.float64)
    values = np.where(np.isfinite(values), values, np.nan)
    return np.clip(values, -1e150, 1e150)


def mask_values(pixels):
    """The different values of a mask; None if the image is no mask."""
    if pixels.dtype.kind not in "iub":
        return None
    values = np.unique(pixels)
    return values if 1 < len(values) <= MASK_VALUES else None


def limits(values, stretch):
    """Lowest and highest value to be told apart."""
    from astropy.visualization import ZScaleInterval

    if stretch == "zscale" and values.size > 2:
        low, high = ZScaleInterval().get_limits(values)
    elif stretch in ("minmax", "linear"):
        low, high = values.min(), values.max()
    else:
        low, high = np.percentile(values, [0.5, 99.8])
    if not high > low:  # a star on a constant sky leaves nothing between percentiles
        low, high = values.min(), values.max()
    if not high > low:
        margin = abs(low) * 1e-3 or 1.0
        low, high = low - margin, high + margin
    return float(low), float(high)


def normalize(values, stretch):
    """The way from values to grey."""
    from astropy import visualization as vis

    shapes = {"sqrt": vis.SqrtStretch, "log": vis.LogStretch, "asinh": vis.AsinhStretch}
    low, high = limits(values, stretch)
    shape = shapes.get(stretch, vis.LinearStretch)()
    return vis.ImageNormalize(vmin=low, vmax=high, stretch=shape, clip=False)
