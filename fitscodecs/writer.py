# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From an array to the bytes of a compressed HDU, and to files of them."""

import math
import os
import re
import time
from dataclasses import dataclass, replace

import numpy as np

from .atomic import replacing
from .cards import (
    DEFAULT_EXTNAME,
    card,
    cards_of,
    commentary,
    compressed_cards,
    header_block,
    keyword_of,
    restored_cards,
)
from .checksum import checksum_text, continued_sum, ones_sum
from .codecs.quantize import NULL_INTEGER
from .encode import encode_tiles
from .encoded import EncodedTiles
from .errors import EncodeError
from .header import BLOCK, CARD, ELEMENT_NBYTES
from .heap import Heap, HeapFile, put_together
from .scaling import offset_of
from .settle import settle
from .table import COLUMNS
from .threads import number_of_threads

__all__ = [
    "PRIMARY", "EncodedImage", "compress", "compress_to", "encode_image", "image_lines", "write",
]  # fmt: skip

# A heap that ends before this needs no 64-bit descriptors.
P_LIMIT = 2**31 - 1


# ---------------------------------------------------------------------------- headers


def structural_lines(shape, bitpix, primary):
    """The mandatory cards of an image."""
    first = card("SIMPLE", True, "a FITS file") if primary else card("XTENSION", "IMAGE")
    lines = [first, card("BITPIX", bitpix, "type of the pixels"), card("NAXIS", len(shape))]
    lines += [card(f"NAXIS{i + 1}", n) for i, n in enumerate(reversed(shape))]
    if not primary:
        lines += [card("PCOUNT", 0), card("GCOUNT", 1)]
    return lines


PRIMARY = header_block(
    [card("SIMPLE", True, "a FITS file"), card("BITPIX", 16), card("NAXIS", 0, "no pixels here"),
     card("EXTEND", True, "images are in extensions")]
)  # fmt: skip


def header_lines(header):
    """The cards of whatever a user has: an astropy Header, a mapping, bytes, or nothing."""
    if header is None:
        return []
    if isinstance(header, (bytes, bytearray)):
        return cards_of(bytes(header))
    if hasattr(header, "tostring"):
        return cards_of(header.tostring(endcard=True, padding=False).encode("latin-1"))
    return [line for keyword, value in dict(header).items() for line in lines_of(keyword, value)]


def lines_of(keyword, value):
    """The cards of an item of a mapping: a value, or a value and a comment."""
    keyword = str(keyword).upper()
    if keyword in ("COMMENT", "HISTORY"):
        texts = [value] if isinstance(value, str) else list(value)
        return [commentary(keyword, text) for text in texts]
    value, comment = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    if keyword in ("END", "CONTINUE", "HIERARCH", "") or not re.fullmatch("[A-Z0-9_-]+", keyword):
        raise EncodeError(f"{keyword!r} is no keyword for a value; use an astropy Header for more")
    return [card(keyword, value.item() if isinstance(value, np.generic) else value, comment)]


def image_lines(shape, dtype, header=None):
    """The cards of an image that holds values of a type.

    What describes an array is taken from the array: BITPIX, NAXIS, BSCALE, BZERO and checksums of
    `header` are not used, and neither are keywords of tables and compression.
    """
    lines = header_lines(header)
    keywords = {keyword_of(line) for line in lines}
    if "ZIMAGE" in keywords:
        lines = restored_cards(lines)
        keywords = {keyword_of(line) for line in lines}
    own = ("SIMPLE", "XTENSION", "BITPIX", "NAXIS", "PCOUNT", "GCOUNT", "GROUPS", "BSCALE", "BZERO",
           "CHECKSUM", "DATASUM")  # fmt: skip
    kept = [line for line in lines if not (keyword_of(line) in own
            or (keyword_of(line)[:5] == "NAXIS" and keyword_of(line)[5:].isdigit()))]  # fmt: skip
    dtype = np.dtype(dtype)
    bitpix = dtype.itemsize * (-8 if dtype.kind == "f" else 8)
    scaling = []
    if offset := offset_of(dtype):
        scaling = [card("BSCALE", 1), card("BZERO", offset)]
    return structural_lines(shape, bitpix, "SIMPLE" in keywords) + scaling + kept


# ---------------------------------------------------------------------------- the HDU


@dataclass(frozen=True)
class EncodedImage:
    """A compressed HDU.

    Attributes
    ----------
    header : bytes
    table : bytes
    tiles : EncodedTiles
    """

    header: bytes
    table: bytes
    tiles: EncodedTiles

    @property
    def data_nbytes(self):
        """Bytes of table and heap."""
        return len(self.table) + self.tiles.heap_nbytes

    @property
    def padding(self):
        """Zeros to the end of a block."""
        return bytes(-self.data_nbytes % BLOCK)

    def pieces(self):
        """The bytes of the HDU as they lie in memory."""
        return [self.header, self.table, *self.tiles.heap, self.padding]

    def chunks(self):
        """The bytes of the HDU, in pieces that are worth a call."""
        return put_together(self.pieces())

    def tobytes(self):
        """The bytes of the HDU."""
        return b"".join(self.pieces())


def columns_of(settings, tiles):
    """Names and TFORMs of the table's columns, the fallback last."""
    sizes = [int(tiles.nbytes[tiles.column == i].max(initial=0)) for i in range(len(COLUMNS))]
    descriptor = "1P" if tiles.heap_nbytes <= P_LIMIT else "1Q"
    letter = settings.compression.heap_letter
    itemsize = {"B": 1, "I": 2, "J": 4}[letter]
    columns = [(COLUMNS[0], f"{descriptor}{letter}({sizes[0] // itemsize})")]
    if settings.quantize is not None:
        columns += [("ZSCALE", "1D"), ("ZZERO", "1D")]
    if tiles.blank is not None:
        columns.append(("ZBLANK", "1K"))
    if sizes[1]:
        columns.append((COLUMNS[1], f"{descriptor}B({sizes[1]})"))
    return columns


def row_nbytes(columns):
    """Bytes of a row of the table."""
    return sum(16 if form.startswith("1Q") else 8 for _, form in columns)


def table_of(settings, tiles, columns):
    """The rows of the table."""
    descriptor = ">i8" if columns[0][1].startswith("1Q") else ">i4"
    scalars = {"1D": ">f8", "1K": ">i8"}
    fields = [(name, scalars.get(form) or (descriptor, (2,))) for name, form in columns]
    rows = np.zeros(len(tiles), np.dtype(fields))
    put_tiles(rows, tiles, settings.compression.heap_letter)
    if "ZBLANK" in rows.dtype.names:
        rows["ZBLANK"] = [NULL_INTEGER if blank is None else blank for blank in tiles.blank]
    return rows.tobytes()


def put_tiles(rows, tiles, heap_letter):
    """Fill the descriptors, ZSCALE and ZZERO of rows whose tiles lie one after the other.

    Parameters
    ----------
    rows : ndarray
        One row per tile, with fields named after the columns that are needed.
    tiles : EncodedTiles
    heap_letter : str
        Type of the elements in COMPRESSED_DATA; those of other columns are bytes.

    Raises
    ------
    EncodeError
        If the descriptors are too short for the heap.
    """
    nbytes, column = tiles.nbytes, tiles.column
    offset = np.concatenate(([0], np.cumsum(nbytes)[:-1]))
    largest = np.iinfo(rows[COLUMNS[0]].dtype).max
    if offset[-1] > largest:
        raise EncodeError(
            f"compressed tiles of {offset[-1] + nbytes[-1]} bytes, wanted at most {largest}: the "
            "descriptors of this table have 32 bits"
        )
    for i, name in enumerate(COLUMNS):
        here = column == i
        if here.any():
            rows[name][here, 0] = nbytes[here] // (ELEMENT_NBYTES[heap_letter] if i == 0 else 1)
            rows[name][here, 1] = offset[here]
    if "ZSCALE" in rows.dtype.names:
        rows["ZSCALE"] = tiles.scale
        rows["ZZERO"] = tiles.zero


def compressed_header(settings, lines, tiles, columns, heap_nbytes, quantization=None):
    """The cards of the table that holds an image with these cards.

    Those that tell of quantization are made from the settings, unless they are given.
    """
    codec = settings.compression
    early = [c for c in columns if c[0] != COLUMNS[1]]
    result = [
        card("XTENSION", "BINTABLE", "a table of compressed tiles"),
        card("BITPIX", 8), card("NAXIS", 2),
        card("NAXIS1", row_nbytes(columns), "bytes of a row"), card("NAXIS2", len(tiles), "tiles"),
        card("PCOUNT", heap_nbytes, "bytes of compressed tiles"), card("GCOUNT", 1),
        card("TFIELDS", len(columns)),
    ]  # fmt: skip
    for i, (name, form) in enumerate(early, 1):
        result += [card(f"TTYPE{i}", name), card(f"TFORM{i}", form)]
    result.append(card("ZIMAGE", True, "the table is an image"))
    result += [card(f"ZTILE{i + 1}", n, f"pixels of a tile along axis {i + 1}")
               for i, n in enumerate(reversed(settings.tile_shape))]  # fmt: skip
    result.append(card("ZCMPTYPE", settings.zcmptype, "algorithm"))
    if tiles.has_nan.any():
        result.append(card("ZBLANK", NULL_INTEGER, "integer that stands for NaN"))
    for i, name in enumerate(codec.parameters, 1):
        value = settings.parameter(name)
        result += [card(f"ZNAME{i}", name), card(f"ZVAL{i}", value)]
    if "EXTNAME" not in {keyword_of(line) for line in lines}:
        result.append(card("EXTNAME", DEFAULT_EXTNAME))
    result += compressed_cards(lines)
    result += quantization_cards(settings) if quantization is None else quantization
    for i, (name, form) in enumerate(columns[len(early) :], len(early) + 1):
        result += [card(f"TTYPE{i}", name), card(f"TFORM{i}", form)]
    return result


def quantization_cards(settings):
    """How floats were stored, and what was done to them."""
    quantize = settings.quantize
    if settings.dtype.kind != "f":
        return []
    if quantize is None:
        return [card("ZQUANTIZ", "NONE", "floats without loss")]
    history = [
        "Image was compressed by fitscodecs using scaled integer quantization:",
        f"  q = {quantize.level:f} / quantized level scaling parameter",
        f"'{quantize.method}' / Pixel Quantization Algorithm",
    ]
    result = [card("ZQUANTIZ", quantize.method, "quantization of floats")]
    result += [commentary("HISTORY", line) for line in history]
    if quantize.dither:
        result.append(card("ZDITHER0", quantize.seed, "seed of the dither values"))
    return result


def with_checksums(lines, data):
    """The header block with DATASUM and CHECKSUM, from the sum of the data unit."""
    datasum = card("DATASUM", str(data), "checksum of the data unit")
    zeros = header_block([*lines, card("CHECKSUM", "0" * 16, "checksum of the HDU"), datasum])
    text = checksum_text(ones_sum([zeros], data))
    return header_block([*lines, card("CHECKSUM", text, "checksum of the HDU"), datasum])


def compress(settings, array, lines, threads=None, done=None, clock=time.time, heap=None):
    """Compress an array into an HDU.

    Parameters
    ----------
    settings : Settings
    array : ndarray
        Of the settings' shape and type, of any byte order.
    lines : list of bytes
        Cards of the image.
    threads : int, optional
    done : callable, optional
        See `encode_tiles`.
    clock : callable
        For a seed that is to come from the clock.
    heap : Heap, optional
        What takes the streams; by default they stay in memory.

    Returns
    -------
    EncodedImage
    """
    if settings.quantize is not None:
        first = array[tuple(slice(0, n) for n in settings.tile_shape)]
        settings = replace(settings, quantize=settings.quantize.with_seed(first, clock()))
    heap = Heap() if heap is None else heap
    tiles = encode_tiles(settings, array, number_of_threads(threads), done, heap.take)
    return assemble(settings, tiles, lines, heap.total)


def compress_to(file, settings, array, lines, threads=None, done=None):
    """Compress an array into an HDU at the end of a file, which is written meanwhile.

    Parameters
    ----------
    file : binary file
        Writable and readable, at its end.
    settings, array, lines, threads, done
        See `compress`.
    """
    start = file.tell()
    heap = HeapFile(file, start + least_front_nbytes(settings, lines))
    image = compress(settings, array, lines, threads, done, heap=heap)
    heap.move(start + len(image.header) + len(image.table))
    file.seek(start)
    file.write(image.header)
    file.write(image.table)
    file.seek(0, os.SEEK_END)
    file.write(image.padding)


def least_front_nbytes(settings, lines):
    """Bytes of header and table if no tile needs a column or a card of its own."""
    none = EncodedTiles.of([])
    columns = columns_of(settings, none)
    cards = compressed_header(settings, lines, none, columns, 0)
    header = header_block([*cards, *[bytes(CARD)] * 2])  # and the checksums
    tiles = zip(settings.shape, settings.tile_shape, strict=True)
    return len(header) + math.prod(-(-n // t) for n, t in tiles) * row_nbytes(columns)


def assemble(settings, tiles, lines, heap_sum, quantization=None):
    """The HDU of tiles that are encoded, whose streams have this checksum.

    See `compressed_header` for the rest.
    """
    columns = columns_of(settings, tiles)
    table = table_of(settings, tiles, columns)
    cards = compressed_header(settings, lines, tiles, columns, tiles.heap_nbytes, quantization)
    data_sum = continued_sum(ones_sum([table]), len(table), heap_sum)
    return EncodedImage(with_checksums(cards, data_sum), table, tiles)


# ---------------------------------------------------------------------------- for users


def without_mask(array):
    """The array; masked pixels of floats are NaN."""
    if not isinstance(array, np.ma.MaskedArray):
        return np.asanyarray(array)
    if not np.ma.is_masked(array):
        return array.data
    if array.dtype.kind != "f":
        raise EncodeError(f"masked pixels of {array.dtype}: fill them, and say BLANK in the header")
    return array.filled(np.nan)


def prepared(array, header, compression, tile_shape, quantize):
    """Settings and cards for an array; all that can be refused before work starts, is."""
    array = without_mask(array)
    blank = None
    lines = image_lines(array.shape, array.dtype, header)
    for line in lines:
        if keyword_of(line) == "BLANK" and array.dtype.kind != "f":
            text = line[10:].split(b"/")[0].strip()
            blank = int(text) if text.lstrip(b"-+").isdigit() else None
    settings = settle(array.shape, array.dtype, compression, quantize, tile_shape, blank=blank)
    return array, settings, lines


def encode_image(array, header=None, compression=None, tile_shape=None, quantize=None,
                 threads=None):  # fmt: skip
    """Compress an array into the bytes of one HDU, an image extension.

    Parameters
    ----------
    array : ndarray
        Integers of 8 to 64 bits, signed or not, or float32 or float64, of either byte order.
    header : astropy.io.fits.Header, mapping or bytes, optional
        Cards to keep. What describes the array (BITPIX, NAXIS, BSCALE, BZERO, checksums) is taken
        from the array.
    compression : str or TileCodec, optional
        A ZCMPTYPE or a codec, such as ``HCompress1(scale=2)``. None: RICE_1 for integers up to 32
        bits and for quantized floats, GZIP_2 for the rest.
    tile_shape : tuple of int, optional
        In C order. None: rows, or strips of rows for HCOMPRESS_1.
    quantize : Quantize, optional
        How to quantize floats. None: every bit is kept.
    threads : int, optional
        By default FITSCODECS_THREADS, or the number of CPUs that this process may use.

    Returns
    -------
    bytes
        Header and data unit, padded, with CHECKSUM and DATASUM.

    Raises
    ------
    EncodeError
        If the codec cannot hold the pixels or tiles of this shape.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> hdu = fc.encode_image(np.arange(12, dtype="i2").reshape(3, 4))
    >>> hdu[:30].decode(), len(hdu) % 2880
    ("XTENSION= 'BINTABLE'          ", 0)
    """
    array, settings, lines = prepared(array, header, compression, tile_shape, quantize)
    return compress(settings, array, lines, threads).tobytes()


def write(target, images, header=None, compression=None, tile_shape=None, quantize=None,
          overwrite=False, threads=None):  # fmt: skip
    """Write a file of compressed images: an empty primary HDU, then the images from HDU 1 on.

    The file appears whole or not at all: a write that is killed leaves the old file, or none.

    Parameters
    ----------
    target : path-like
    images : ndarray or list of ndarray
    header : Header, mapping or bytes, or list of them, optional
        One for all images, or one for each.
    compression, tile_shape, quantize, threads
        See `encode_image`.
    overwrite : bool
        Whether a file that is there may be replaced.

    Raises
    ------
    EncodeError
        If the codec cannot hold an image; nothing is written then.
    FileExistsError
        If the file is there and `overwrite` is false.

    Examples
    --------
    >>> import fitscodecs as fc, numpy as np
    >>> pixels = np.random.default_rng(1).normal(100, 5, (20, 300)).astype("f4")
    >>> fc.write("noise.fits.fz", pixels, {"OBJECT": "noise"}, quantize=fc.Quantize(level=16))
    >>> bool(abs(fc.open("noise.fits.fz")[...] - pixels).max() < 0.5)
    True
    """
    images = list(images) if isinstance(images, (list, tuple)) else [images]
    headers = list(header) if isinstance(header, (list, tuple)) else [header] * len(images)
    if len(headers) != len(images) or not images:
        raise EncodeError(f"{len(images)} images and {len(headers)} headers")
    todo = [prepared(image, h, compression, tile_shape, quantize)
            for image, h in zip(images, headers, strict=True)]  # fmt: skip
    with replacing(target, overwrite) as file:
        file.write(PRIMARY)
        for array, settings, lines in todo:
            compress_to(file, settings, array, lines, threads)
