# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Read back what was written, and compare it with the original.

Of two files with the same HDUs, each may hold an image compressed or plain. Whatever was stored
without loss has to be the same bit by bit; quantized pixels may differ by one step of their tile.
"""

import contextlib
from collections import Counter

import numpy as np

from .cards import cards_of, keyword_of, restored_cards
from .errors import DecodeError
from .header import is_compressed, is_plain_image
from .image import TiledImage
from .pack import CHUNK, SLAB_NPIXELS, original_hdus
from .source import open_source

__all__ = ["compare_files"]


def compare_files(original, written, threads=None, done=None):
    """Compare two files that should hold the same HDUs.

    Parameters
    ----------
    original, written : path-like
    threads : int, optional
        See `TiledImage.read`.
    done : callable, optional
        Called with numbers of bytes of plain pixels as they are compared.

    Raises
    ------
    DecodeError
        If something of the original is not in what was written.
    """
    with (
        contextlib.closing(open_source(original)) as a,
        contextlib.closing(open_source(written)) as b,
    ):
        before, after = original_hdus(a), original_hdus(b)
        if len(before) != len(after):
            raise DecodeError(f"read back {len(after)} HDUs, wanted {len(before)}")
        for hdu, other in zip(before, after, strict=True):
            try:
                compare_hdus(a, hdu, b, other, threads, done)
            except DecodeError as error:
                raise DecodeError(f"{hdu.label} read back: {error}") from error
        rest = [bytes(s.read_range(hdus[-1].stop, s.size)).strip(b"\0 ")
                for s, hdus in ((a, before), (b, after))]  # fmt: skip
        if rest[0] != rest[1]:
            raise DecodeError("what follows the last HDU was not written")


def compare_hdus(a, hdu, b, other, threads, done):
    """Compare an image with an image, anything else byte by byte."""
    if not (is_compressed(hdu.header) or is_compressed(other.header)):
        compare_bytes(a, hdu, b, other)
    elif all(is_compressed(h.header) or is_plain_image(h.header) for h in (hdu, other)):
        compare_cards(hdu, other)
        images = (TiledImage(s, h, scaled=False) for s, h in ((a, hdu), (b, other)))
        compare_pixels(*images, threads, done)
    else:
        raise DecodeError("found no image, wanted one")


def compare_bytes(a, hdu, b, other):
    """The header and the data unit; padding that the original lacks may be there."""
    nbytes = hdu.data_start - hdu.start + hdu.data_nbytes
    for first in range(0, nbytes, CHUNK):
        last = min(first + CHUNK, nbytes)
        ours = a.read_range(hdu.start + first, hdu.start + last)
        if bytes(ours) != bytes(b.read_range(other.start + first, other.start + last)):
            raise DecodeError("bytes differ")


def compare_cards(hdu, other):
    """Every card of the original image has to be there; lossy images have other checksums."""
    cards = [
        restored_cards(cards_of(h.raw)) if is_compressed(h.header) else cards_of(h.raw)
        for h in (hdu, other)
    ]
    own = ("SIMPLE", "XTENSION", "PCOUNT", "GCOUNT", "CHECKSUM", "DATASUM")
    wanted = Counter(line for line in cards[0] if keyword_of(line) not in own)
    lost = wanted - Counter(cards[1])
    if lost:
        line = next(iter(lost)).decode("latin-1").rstrip()
        raise DecodeError(f"a card of the header is lost: {line}")


# ---------------------------------------------------------------------------- pixels


def compare_pixels(image, other, threads, done):
    """Compare the stored pixels of two images, as closely as their compression promises."""
    if (image.shape, image.dtype) != (other.shape, other.dtype):
        raise DecodeError(
            f"found {other.shape} pixels of {other.dtype}, wanted {image.shape} of {image.dtype}"
        )
    lossy = next((i for i in (image, other) if i.compressed), image)
    same_kind = image.compressed and other.compressed
    limits = None if same_kind else tile_limits(lossy)
    height = lossy.tile_shape[0]
    rows = max(1, SLAB_NPIXELS // max(1, image.size // image.shape[0]) // height) * height
    for first in range(0, image.shape[0], rows):
        last = min(first + rows, image.shape[0])
        a, b = (i.read_rows(first, last, threads) for i in (image, other))
        limit = None
        if limits is not None:
            part = limits[first // height : -(-last // height)]
            limit = None if not part.any() else spread(part, lossy.tile_shape, a.shape)
        bad = ~agree(a, b, limit)
        if bad.any():
            place = [int(p) for p in np.unravel_index(np.argmax(bad), bad.shape)]
            place[0] += first
            count = f"{np.count_nonzero(bad)} of {bad.size} pixels"
            raise DecodeError(f"{count} differ, first at {tuple(place)}")
        if done is not None:
            done(a.nbytes)


def tile_limits(image):
    """How far pixels of each tile may be from the original, by tile coordinates."""
    with image._named():
        entries, streams = image._fetch(np.arange(len(image._table)))
    change = np.array([image.codec.largest_change(streams[i]) for i in range(len(entries.tiles))])
    limit = change.astype(np.float64)
    if image.quantize is not None:
        limit = np.abs(entries.scale) * (1 + change)
    limit[entries.column != 0] = 0
    return limit.reshape(image.grid_shape)


def spread(limits, tile_shape, shape):
    """Limits of tiles as limits of pixels."""
    for axis, (tile, n) in enumerate(zip(tile_shape, shape, strict=True)):
        limits = np.repeat(limits, tile, axis)[(slice(None),) * axis + (slice(n),)]
    return limits


def agree(a, b, limit):
    """Which pixels are the same: in every bit, or within a limit where that is not 0."""
    bits = f"u{a.itemsize}"
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    if limit is None:
        return same
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a.astype(np.float64) - b.astype(np.float64)) <= limit + rounding(a)
    if a.dtype.kind == "f":
        near |= np.isnan(a) & np.isnan(b)
    return same | (near & (limit > 0))


def rounding(pixels):
    """What floats of this size are rounded to."""
    if pixels.dtype.kind != "f":
        return 0
    return np.nan_to_num(np.spacing(np.abs(pixels)).astype(np.float64), posinf=0)
