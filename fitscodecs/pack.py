# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Whole files: what fpack and funpack do, one file at a time.

Everything here can be pickled, so that files can be spread over processes and machines.
"""

import os
import re
from dataclasses import dataclass, field

import numpy as np

from .atomic import replacing
from .cards import (
    card,
    cards_of,
    compressed_cards,
    header_block,
    keyword_of,
    restored_cards,
)
from .checksum import checksum_text, ones_sum
from .codecs import Gzip2, Quantize, TileCodec, codec_class
from .errors import FitsCodecsError, HeaderError
from .hdu import walk
from .header import BLOCK, is_compressed, is_plain_image
from .image import TiledImage
from .settle import settle
from .source import open_source
from .writer import PRIMARY, compress_to

__all__ = ["HDUReport", "PackOptions", "Report", "pack_file", "unpack_file"]

CHUNK = 2**24
# The comment that cfitsio puts into every primary header.
ABOUT_FITS = re.compile(
    rb"COMMENT   (FITS \(Flexible Image Transport System\) format is defined in 'Astronomy"
    rb"|and Astrophysics', volume 376, page 359; bibcode: 2001A&A...376..359H)"
)
# Mapped bytes that are read before the process lets go of them.
RELEASE_NBYTES = 2**26
# Pixels that unpacking decodes at a time.
SLAB_NPIXELS = 2**22


@dataclass(frozen=True)
class PackOptions:
    """How to compress the images of a file.

    Attributes
    ----------
    compression : str, TileCodec or None
        For integers and quantized floats; None: RICE_1, GZIP_2 for 64-bit integers.
    tile_shape : tuple of int or None
        In C order; for images with fewer axes its last lengths are used, for images with more it
        is filled up with 1. None: the codec's default.
    quantize : Quantize or None
        For floats; None: they are kept without loss, in GZIP_2 unless `compression` holds floats.
    scale_request : float or None
        See `Settings`.
    whole : bool
        One tile for each image, or for each plane of a cube.
    as_cfitsio : bool
        See `settle`.
    """

    compression: str | TileCodec | None = None
    tile_shape: tuple | None = None
    quantize: Quantize | None = None
    scale_request: float | None = None
    whole: bool = False
    as_cfitsio: bool = False

    def settings(self, image):
        """Settings for one plain image."""
        structure = image.structure
        floats = structure.bitpix < 0
        lossless = floats and self.quantize is None
        return settle(
            image.shape,
            structure.dtype,
            lossless_codec(self.compression, structure.bitpix) if lossless else self.compression,
            self.quantize if floats else None,
            self.tiles(image.shape),
            None if lossless else self.scale_request,
            blank=structure.scaling.blank if structure.scaling.has_blank else None,
            unsigned=structure.scaling.is_offset and structure.bitpix == 16,
            as_cfitsio=self.as_cfitsio,
        )

    def tiles(self, shape):
        """Tile shape for an image, or None."""
        if self.whole:
            return (1,) * (len(shape) - 2) + tuple(shape[-2:])
        if self.tile_shape is None:
            return None
        tiles = tuple(self.tile_shape)[-len(shape) :]
        return (1,) * (len(shape) - len(tiles)) + tiles


def lossless_codec(compression, bitpix, otherwise=Gzip2):
    """The codec that is wanted, if it holds floats, or another one that does."""
    wanted = codec_class(compression) if isinstance(compression, str) else compression
    return compression if wanted is not None and bitpix in wanted.bitpix else otherwise


@dataclass(frozen=True)
class HDUReport:
    """What became of one HDU."""

    label: str
    what: str  # "compressed", "restored", "copied"
    how: str = ""  # the codec
    in_nbytes: int = 0
    out_nbytes: int = 0
    lossy: bool = False
    floats: bool = False


@dataclass
class Report:
    """What became of one file."""

    source: str
    target: str
    hdus: list = field(default_factory=list)
    in_nbytes: int = 0
    out_nbytes: int = 0

    @property
    def lossy(self):
        """Labels of the images whose pixels are not those of the original."""
        return [hdu.label for hdu in self.hdus if hdu.lossy]


# ---------------------------------------------------------------------------- pieces


def plain_array(image):
    """The stored pixels of a plain image, over the bytes of its file where that is possible."""
    dtype = image.structure.dtype.newbyteorder(">")
    start, source = image.hdu.data_start, image._source
    raw = source.read_range(start, start + image.size * dtype.itemsize)
    return np.frombuffer(raw, dtype).reshape(image.shape)


def copy_bytes(source, start, stop, file):
    """Copy a part of a source."""
    for first in range(start, stop, CHUNK):
        file.write(source.read_range(first, min(first + CHUNK, stop)))


def copy_hdu(source, hdu, file):
    """Copy an HDU byte for byte; padding that its file lacks is added."""
    stop = min(hdu.stop, source.size)
    if stop < hdu.data_start + hdu.data_nbytes:
        raise HeaderError(
            f"{hdu.label}: file ends after {source.size} bytes, "
            f"wanted {hdu.data_start + hdu.data_nbytes}"
        )
    copy_bytes(source, hdu.start, stop, file)
    file.write(bytes(hdu.stop - stop))


def copy_rest(source, start, file):
    """Copy what follows the last HDU, unless it is padding."""
    rest = bytes(source.read_range(start, source.size))
    if rest.strip(b"\0 "):
        file.write(rest)


def named(hdu, error):
    """The error with the name of its HDU."""
    text = str(error)
    return error if text.startswith(hdu.label) else type(error)(f"{hdu.label}: {text}")


def convert_file(source_path, target_path, convert_hdu, overwrite, check, hdus_of=walk):
    """Convert the HDUs of a file one by one, and keep what follows them.

    Parameters
    ----------
    source_path, target_path, overwrite, check
        See `pack_file`.
    convert_hdu : callable
        Called with the source, an HDU and the file to write it to; gives an `HDUReport`.
    hdus_of : callable
        Gives the HDUs of a source.

    Returns
    -------
    Report
    """
    source = open_source(source_path)
    report = Report(os.fspath(source_path), os.fspath(target_path), in_nbytes=source.size)
    try:
        with replacing(target_path, overwrite) as file:
            stop = 0
            for hdu in hdus_of(source):
                report.hdus.append(convert_hdu(source, hdu, file))
                stop = hdu.stop
            copy_rest(source, stop, file)
            finish(report, file, check)
    finally:
        source.close()
    return report


# ---------------------------------------------------------------------------- pack


class Advance:
    """Count the pixels that are finished; tell the bytes, and let go of those of a mapped file."""

    def __init__(self, source, itemsize, done):
        self.source, self.itemsize, self.done = source, itemsize, done
        self.pending = 0

    def __call__(self, npixels):
        nbytes = npixels * self.itemsize
        self.pending += nbytes
        if self.pending > RELEASE_NBYTES:
            self.pending = 0
            self.source.release()
        if self.done is not None:
            self.done(nbytes)


def pack_file(source_path, target_path, options, overwrite=False, threads=None, done=None,
              check=None):  # fmt: skip
    """Compress every image of a file; all other HDUs are copied byte for byte.

    A primary image becomes the first extension, behind an empty primary HDU.

    Parameters
    ----------
    source_path, target_path : path-like
        May be the same file.
    options : PackOptions
    overwrite : bool
    threads : int, optional
    done : callable, optional
        Called with numbers of bytes of the source as they are finished.
    check : callable, optional
        Called with the path of what was written, before it gets its name. If it raises, nothing
        is written.

    Returns
    -------
    Report

    Raises
    ------
    FitsCodecsError
        If an image cannot be compressed as wanted. Nothing is written then.
    """

    def convert(source, hdu, file):
        return pack_hdu(source, hdu, file, options, threads, done)

    return convert_file(source_path, target_path, convert, overwrite, check)


def finish(report, file, check):
    """Note the size of a file, and look at it before it gets its name."""
    report.out_nbytes = file.tell()
    if check is not None:
        file.flush()
        check(file.name)


def why_kept(hdu):
    """Why an HDU is copied and not compressed; None if it is an image to compress."""
    header = hdu.header
    if header.get("ZTABLE") is True:
        return "kept, a compressed table"
    if is_compressed(header):
        return "kept, compressed already"
    if not (is_plain_image(header) and hdu.data_nbytes):
        return ""
    if header.get("PCOUNT", 0) != 0 or header.get("GCOUNT", 1) != 1:
        return "kept, it holds more than an image"
    lines = cards_of(hdu.raw)
    if restored_cards(compressed_cards(lines), primary=hdu.index == 0) != lines:
        return "kept, its cards could not be restored from those of a table"
    return None


def pack_hdu(source, hdu, file, options, threads, done):
    """Compress or copy one HDU."""
    before = file.tell()
    kept = why_kept(hdu)
    if kept is not None:
        copy_hdu(source, hdu, file)
        if done is not None:
            done(hdu.data_nbytes)
        kind = kept
        nbytes = file.tell() - before
        return HDUReport(hdu.label, "copied", kind, hdu.stop - hdu.start, nbytes)
    try:
        image = TiledImage(source, hdu, scaled=False)
        settings = options.settings(image)
        advance = Advance(source, image.structure.dtype.itemsize, done)
        if hdu.index == 0:
            file.write(PRIMARY)
        compress_to(file, settings, plain_array(image), cards_of(hdu.raw), threads, advance)
    except FitsCodecsError as error:
        raise named(hdu, error) from error
    lossy = settings.quantize is not None or bool(settings.lossy_integers)
    return HDUReport(
        hdu.label,
        "compressed",
        settings.compression.zcmptype[0],
        hdu.stop - hdu.start,
        file.tell() - before,
        lossy,
        settings.dtype.kind == "f",
    )


# ---------------------------------------------------------------------------- unpack


def unpack_file(source_path, target_path, overwrite=False, threads=None, done=None, check=None):
    """Restore every compressed image of a file; all other HDUs are copied byte for byte.

    An image that was the primary HDU becomes the primary HDU again. Headers are restored card by
    card, so that a file of images that were compressed without loss is the original, bit by bit.

    Parameters
    ----------
    source_path, target_path, overwrite, threads, check
        See `pack_file`.
    done : callable, optional
        Called with numbers of bytes of the target as they are finished.

    Returns
    -------
    Report
    """

    def convert(source, hdu, file):
        return unpack_hdu(source, hdu, file, threads, done)

    return convert_file(source_path, target_path, convert, overwrite, check, original_hdus)


def original_hdus(source):
    """The HDUs without the empty primary one that packing put before a primary image."""
    hdus = list(walk(source))
    if len(hdus) < 2 or not says_nothing(hdus[0]):
        return hdus
    second = hdus[1].header
    was_primary = is_compressed(second) and second.get("ZSIMPLE") is not None
    return hdus[1:] if was_primary else hdus


def says_nothing(hdu):
    """Whether an HDU has no data, and no card that only its owner could have written."""
    usual = ("SIMPLE", "BITPIX", "NAXIS", "EXTEND", "CHECKSUM", "DATASUM")
    return not hdu.data_nbytes and all(
        keyword_of(line) in usual or not line.strip() or ABOUT_FITS.match(line)
        for line in cards_of(hdu.raw)
    )


def unpack_hdu(source, hdu, file, threads, done):
    """Restore or copy one HDU."""
    before = file.tell()
    if not is_compressed(hdu.header):
        copy_hdu(source, hdu, file)
        return HDUReport(hdu.label, "copied", "", hdu.stop - hdu.start, file.tell() - before)
    image = TiledImage(source, hdu, scaled=False)
    lines = restored_cards(cards_of(hdu.raw), primary=before == 0)
    lossy = is_lossy(image)
    if lossy and any(keyword_of(line) in ("CHECKSUM", "DATASUM") for line in lines):
        write_with_checksums(image, lines, file, threads, done)
    else:
        file.write(header_block(lines))
        for _ in written(image, file, threads, done):
            pass
    nbytes = file.tell() - before
    codec = image.codec.zcmptype[0]
    floats = image.structure.bitpix < 0
    return HDUReport(hdu.label, "restored", codec, hdu.stop - hdu.start, nbytes, lossy, floats)


def is_lossy(image):
    """Whether the pixels differ from those that were compressed."""
    if image.quantize is not None:
        return True
    header = image.hdu.header
    values = {header.get(f"ZNAME{i}"): header.get(f"ZVAL{i}") for i in range(1, 10)}
    return "scale" in image.codec.per_tile and values.get("SCALE", 0) != 0


def slabs(image, threads):
    """The stored pixels, big-endian, in contiguous parts of whole tiles."""
    rows = max(1, SLAB_NPIXELS // max(1, image.size // max(1, image.shape[0])))
    rows = -(-rows // image.tile_shape[0]) * image.tile_shape[0]
    for first in range(0, image.shape[0], rows):
        pixels = image.read_rows(first, min(first + rows, image.shape[0]), threads)
        yield pixels.astype(pixels.dtype.newbyteorder(">")).reshape(-1).view(np.uint8)


def written(image, file, threads, done):
    """Write the data unit of a restored image, and pass its parts on."""
    nbytes = 0
    for part in slabs(image, threads):
        file.write(part)
        nbytes += part.nbytes
        if done is not None:
            done(part.nbytes)
        yield part
    file.write(bytes(-nbytes % BLOCK))


def write_with_checksums(image, lines, file, threads, done):
    """Write an image whose checksums are not those of the original any more."""
    kept = [line for line in lines if keyword_of(line) not in ("CHECKSUM", "DATASUM")]
    start = file.tell()

    def block(checksum, datasum):
        return header_block([
            *kept,
            card("CHECKSUM", checksum, "checksum of the HDU"),
            card("DATASUM", str(datasum), "checksum of the data unit"),
        ])  # fmt: skip

    file.write(block("0" * 16, 2**32 - 1))  # as long as it will be
    total = ones_sum(written(image, file, threads, done))
    text = checksum_text(ones_sum([block("0" * 16, total)], total))
    end = file.tell()
    file.seek(start)
    file.write(block(text, total))
    file.seek(end)
