# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Another algorithm or other tiles for images that are compressed already, without further loss.

Quantized floats are not quantized again: the integers of each tile move from codec to codec, and
scale, zero point, null integer, seed and row stay, so that every pixel is the same bit by bit.
"""

from dataclasses import dataclass

import numpy as np

from .cards import card, cards_of, keyword_of, restored_cards
from .checksum import ones_sum
from .codecs import Gzip1, TileCodec
from .encoded import EncodedTile, EncodedTiles
from .errors import EncodeError, FitsCodecsError
from .header import is_compressed
from .heap import put_together
from .image import TiledImage
from .pack import (
    HDUReport,
    PackOptions,
    convert_file,
    copy_hdu,
    is_lossy,
    lossless_codec,
    named,
)
from .settle import settle
from .table import COLUMNS
from .threads import in_threads, number_of_threads
from .writer import assemble, compress

__all__ = ["RepackOptions", "repack_file"]


@dataclass(frozen=True)
class RepackOptions:
    """What to change about compressed images; what is None stays as it is.

    Attributes
    ----------
    compression : str, TileCodec or None
        Floats without loss keep their codec if this one does not hold floats.
    tile_shape : tuple of int or None
        In C order; see `PackOptions`.
    whole : bool
        One tile for each image, or for each plane of a cube.
    """

    compression: str | TileCodec | None = None
    tile_shape: tuple | None = None
    whole: bool = False

    def settings(self, image):
        """Settings for one compressed image.

        Tiles that were not asked for stay if the codec can hold them.
        """
        structure = image.structure
        floats = structure.bitpix < 0 and image.quantize is None
        codec = self.compression or image.codec
        codec = lossless_codec(codec, structure.bitpix, image.codec) if floats else codec
        wanted = PackOptions(tile_shape=self.tile_shape, whole=self.whole).tiles(image.shape)
        if image.quantize is not None:
            require_same_tiles(image, wanted)
            return self.settled(image, codec, image.tile_shape)
        if wanted is not None:
            return self.settled(image, codec, wanted)
        try:
            return self.settled(image, codec, image.tile_shape)
        except EncodeError:
            return self.settled(image, codec, None)

    def settled(self, image, codec, tile_shape):
        scaling = image.structure.scaling
        return settle(
            image.shape,
            image.structure.dtype,
            codec,
            image.quantize,
            tile_shape,
            blank=scaling.blank if scaling.has_blank else None,
            unsigned=scaling.is_offset and image.structure.bitpix == 16,
        )


def require_same_tiles(image, wanted):
    """EncodeError if quantized tiles are to be cut in another way."""
    if wanted is None:
        return
    wanted = tuple(min(t, n) for t, n in zip(wanted, image.shape, strict=True))
    if wanted != image.tile_shape:
        raise EncodeError(
            f"quantized tiles of shape {image.tile_shape} cannot become {wanted}: each tile has a "
            "scale and dither of its own, and to quantize again would lose more"
        )


def repack_file(source_path, target_path, options, overwrite=False, threads=None, done=None,
                check=None):  # fmt: skip
    """Compress the compressed images of a file in another way; all other HDUs are copied.

    Every image has the same pixels afterwards, bit by bit.

    Parameters
    ----------
    source_path, target_path : path-like
        May be the same file.
    options : RepackOptions
    overwrite, threads, check
        See `pack_file`.
    done : callable, optional
        Called with numbers of bytes of pixels as they are finished.

    Returns
    -------
    Report

    Raises
    ------
    FitsCodecsError
        If an image cannot be compressed as wanted. Nothing is written then.
    """

    def convert(source, hdu, file):
        return repack_hdu(source, hdu, file, options, threads, done)

    return convert_file(source_path, target_path, convert, overwrite, check)


def repack_hdu(source, hdu, file, options, threads, done):
    """Compress an image again, or copy an HDU."""
    before = file.tell()
    in_nbytes = hdu.stop - hdu.start
    if not is_compressed(hdu.header):
        copy_hdu(source, hdu, file)
        return HDUReport(hdu.label, "copied", "", in_nbytes, file.tell() - before)
    try:
        image = TiledImage(source, hdu, scaled=False)
        settings = options.settings(image)
        work = moved if image.quantize is not None else decoded
        encoded = work(image, settings, threads, done)
    except FitsCodecsError as error:
        raise named(hdu, error) from error
    for chunk in encoded.chunks():
        file.write(chunk)
    codec = settings.compression.zcmptype[0]
    return HDUReport(hdu.label, "compressed", codec, in_nbytes, file.tell() - before)


def decoded(image, settings, threads, done):
    """Integers, or floats without loss: decode and encode."""
    lines = restored_cards(cards_of(image.hdu.raw))
    if is_lossy(image):  # and not so any more: the checksums of the original are not those of this
        lines = [line for line in lines if keyword_of(line) not in ("CHECKSUM", "DATASUM")]
    advance = None if done is None else lambda npixels: done(npixels * image.dtype.itemsize)
    return compress(settings, image.read(threads=threads), lines, threads, advance)


# ---------------------------------------------------------------------------- quantized floats


def moved(image, settings, threads, done):
    """Quantized floats: the integers of each tile, from the old codec to the new one."""
    lines = restored_cards(cards_of(image.hdu.raw))
    entries, streams = image._fetch(np.arange(len(image._table)))
    blanks = np.unique(entries.blank) if entries.has_blank.any() else []

    def work(row):
        context = image._table.context(row)
        blank = int(entries.blank[row]) if len(blanks) > 1 else None
        tile = moved_tile(image, settings, streams[row], context, blank)
        if done is not None:
            done(context.npixels * image.dtype.itemsize)
        return tile

    tiles = in_threads(work, range(len(entries.tiles)), number_of_threads(threads))
    tiles = EncodedTiles.of(tiles)
    total = ones_sum(put_together(tiles.heap))
    return assemble(settings, tiles, lines, total, quantization_cards(image, blanks))


def moved_tile(image, settings, stream, context, blank):
    """One tile; what could not be quantized is copied."""
    if context.column != COLUMNS[0]:
        raw = bytes(stream)
        if context.column != COLUMNS[1]:  # not compressed at all, which no writer does any more
            raw = Gzip1().wrap(raw)
        return EncodedTile(1, raw, blank=blank)
    integers = np.asarray(image.codec.decode(stream, context=context)).astype(np.int32, copy=False)
    stream = bytes(settings.compression.encode(integers, context=context))
    return EncodedTile(0, stream, context.scale, context.zero, blank=blank)


def quantization_cards(image, blanks):
    """How the floats are stored, as before; what was done to them is in HISTORY already."""
    cards = [card("ZQUANTIZ", image.quantize.method, "quantization of floats")]
    if image.quantize.dither:
        cards.append(card("ZDITHER0", image.quantize.seed, "seed of the dither values"))
    if len(blanks) == 1:
        cards.append(card("ZBLANK", int(blanks[0]), "integer that stands for NaN"))
    return cards
