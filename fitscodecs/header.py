# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Structural cards of a header, and what they say about an image (FITS Standard 4.0, 4 and 10).

Only the few dozen keywords that tell where pixels are and how they are coded are understood here.
A header is raw bytes, or any mapping from keyword to value.
"""

import functools
import math
import re
from dataclasses import dataclass, field

from ._native import MAX_DIMENSIONS
from .codecs import CODECS, Quantize, TileCodec, get_codec
from .codecs.quantize import METHODS
from .errors import HeaderError
from .scaling import Scaling

__all__ = [
    "BLOCK",
    "CARD",
    "Column",
    "ImageStructure",
    "data_nbytes",
    "image_structure",
    "is_compressed",
    "is_plain_image",
    "parse_card",
    "parse_header",
]

BLOCK = 2880
CARD = 80
BITPIX = (8, 16, 32, 64, -32, -64)

# What BLANK is in an image whose tiles have null integers of their own and whose header has none:
# the end of the type that is the least likely to be a pixel. Floats need none.
TILE_BLANK = {8: 2**8 - 1, 16: -(2**15), 32: -(2**31), 64: -(2**63), -32: None, -64: None}

# Bytes of one element of a binary table column, by the letter of its TFORM (section 7.3.1).
ELEMENT_NBYTES = {"L": 1, "B": 1, "A": 1, "I": 2, "J": 4, "K": 8, "E": 4, "D": 8, "C": 8, "M": 16}
TFORM = re.compile(r"(\d*)([LXBIJKAEDCMPQ])(.?)")


# ---------------------------------------------------------------------------- cards


def parse_value(text):
    """Value of a card: str, bool, int or float, or None if there is none that can be read."""
    text = text.strip()
    if text.startswith("'"):
        match = re.match(r"'((?:[^']|'')*)'", text)
        return match and match[1].replace("''", "'").rstrip()
    text = text.split("/")[0].strip()
    if text in ("T", "F"):
        return text == "T"
    if re.fullmatch(r"[+-]?\d{1,4000}", text):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([EeDd][+-]?\d+)?", text):
        return float(text.upper().replace("D", "E"))
    return None


@functools.lru_cache(2**13)
def parse_card(card):
    """Keyword and value of a card, which are in a tuple, or the keyword alone.

    Remembered, because most cards of a file are those of the one before it.
    """
    text = card.decode("latin-1")
    keyword = text[:8].rstrip()
    return (keyword, parse_value(text[10:])) if text[8:10] == "= " else (keyword,)


def parse_header(raw):
    """Keywords and values of the cards before END; the first card of a keyword counts.

    Parameters
    ----------
    raw : bytes
        Cards of 80 characters.
    """
    header = {}
    for start in range(0, len(raw) - CARD + 1, CARD):
        parsed = parse_card(raw[start : start + CARD])
        if len(parsed) == 2:
            header.setdefault(*parsed)
        elif parsed[0] == "END":
            break
    return header


def integer(header, keyword, default=None, low=None, high=2**63 - 1):
    """An integer of the header within bounds; without a default it must be there."""
    value = header.get(keyword)
    if value is None and default is not None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise HeaderError(f"{keyword} is {value!r}, wanted an integer")
    if (low is not None and value < low) or value > high:
        raise HeaderError(
            f"{keyword} is {value}, wanted {low if low is not None else ''} to {high}"
        )
    return value


def number(header, keyword, default=None):
    """A finite or infinite real number of the header, or the default if it is not there."""
    value = header.get(keyword)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise HeaderError(f"{keyword} is {value!r}, wanted a number")
    try:
        return float(value)
    except OverflowError as error:
        raise HeaderError(f"{keyword} is beyond the range of a double") from error


def axes(header, prefix):
    """Lengths of the axes, fast axis first, from NAXIS or ZNAXIS."""
    n = integer(header, prefix, low=0, high=999)
    return [integer(header, f"{prefix}{i + 1}", low=0) for i in range(n)]


# ---------------------------------------------------------------------------- HDUs


def data_nbytes(header):
    """Bytes of the data unit that belongs to a header, without padding (section 4.4.1)."""
    lengths = axes(header, "NAXIS")
    if not lengths:
        return 0
    if lengths[0] == 0 and header.get("GROUPS") is True:
        lengths = lengths[1:]
    bitpix = integer(header, "BITPIX", low=-64, high=64)
    if bitpix not in BITPIX:
        raise HeaderError(f"BITPIX is {bitpix}, wanted one of {BITPIX}")
    items = integer(header, "PCOUNT", 0, low=0) + math.prod(lengths)
    nbytes = abs(bitpix) // 8 * integer(header, "GCOUNT", 1, low=0) * items
    if nbytes >= 2**63:
        raise HeaderError(f"data unit of {nbytes} bytes, wanted less than 2**63")
    return nbytes


def is_compressed(header):
    """Whether the HDU is a tile-compressed image."""
    return header.get("XTENSION") in ("BINTABLE", "A3DTABLE") and header.get("ZIMAGE") is True


def is_plain_image(header):
    """Whether the HDU is an image with pixels, not compressed."""
    kind = header.get("XTENSION", "IMAGE" if "SIMPLE" in header else None)
    return (
        kind == "IMAGE"
        and header.get("GROUPS") is not True
        and isinstance(header.get("NAXIS"), int)
        and header["NAXIS"] > 0
    )


@dataclass(frozen=True)
class Column:
    """Where a table column is in a row, and what it holds."""

    offset: int  # bytes from the start of the row
    letter: str  # of its TFORM; P and Q are descriptors of the heap
    element: str  # what a descriptor points to, by letter
    repeat: int

    @property
    def nbytes(self):
        if self.letter == "X":
            return -(-self.repeat // 8)
        size = {"P": 8, "Q": 16}.get(self.letter) or ELEMENT_NBYTES[self.letter]
        return self.repeat * size

    @property
    def is_descriptor(self):
        return self.letter in "PQ"


@dataclass(frozen=True)
class ImageStructure:
    """Everything that a header says about the pixels of an image HDU; shapes in C order."""

    shape: tuple
    tile_shape: tuple
    scaling: Scaling
    codec: TileCodec | None  # None: a plain image
    quantize: Quantize | None  # None: pixels are not quantized
    columns: dict = field(default_factory=dict)
    row_nbytes: int = 0
    nrows: int = 0
    heap_start: int = 0  # bytes from the start of the data unit
    heap_nbytes: int = 0
    scale: float | None = None  # ZSCALE and ZZERO as keywords
    zero: float | None = None
    blank: int | None = None  # null integer of quantized tiles, as a keyword

    @property
    def bitpix(self):
        return self.scaling.bitpix

    @property
    def dtype(self):
        """Type of the pixels as stored."""
        return self.scaling.stored_dtype

    @property
    def grid_shape(self):
        """Number of tiles along each axis."""
        return tuple(-(-n // t) for n, t in zip(self.shape, self.tile_shape, strict=True))

    @property
    def codec_offset(self):
        """What to subtract from decoded integers to get stored ones.

        A codec of unsigned integers (PLIO_1) holds the physical values of unsigned 16-bit images.
        """
        unsigned = self.codec is not None and self.codec.unsigned_offset
        return 2**15 if unsigned and self.bitpix == 16 and self.scaling.is_offset else 0


def image_structure(header):
    """Structure of an image HDU, compressed or plain.

    Parameters
    ----------
    header : mapping
        Keywords and values, as `parse_header` gives them, or an `astropy.io.fits.Header` of the
        HDU as it is in the file.

    Raises
    ------
    HeaderError
        If the HDU is no image, or its header contradicts itself or the standard.
    """
    if is_compressed(header):
        return compressed_structure(header)
    if is_plain_image(header):
        return plain_structure(header)
    kind = header.get("XTENSION", "primary HDU" if "SIMPLE" in header else "unknown")
    raise HeaderError(f"found {kind} without pixels of an image, wanted an image HDU")


def image_scaling(header, prefix, blank_keywords, blank_default=None):
    bitpix = integer(header, f"{prefix}BITPIX", low=-64, high=64)
    if bitpix not in BITPIX:
        raise HeaderError(f"{prefix}BITPIX is {bitpix}, wanted one of {BITPIX}")
    blank = next((header.get(k) for k in blank_keywords if header.get(k) is not None), None)
    if blank is None and blank_default is not None:
        blank = blank_default[bitpix]
    return Scaling(
        bitpix=bitpix,
        bscale=number(header, "BSCALE", 1.0),
        bzero=number(header, "BZERO", 0.0),
        blank=blank if isinstance(blank, int) and not isinstance(blank, bool) else None,
    )


def image_shape(header, prefix, itemsize):
    lengths = axes(header, prefix)
    if not 1 <= len(lengths) <= MAX_DIMENSIONS:
        raise HeaderError(f"{prefix} is {len(lengths)}, wanted 1 to {MAX_DIMENSIONS}")
    if math.prod(lengths) * itemsize >= 2**63:
        raise HeaderError(f"image of {math.prod(lengths)} pixels, wanted less than 2**63 bytes")
    return tuple(reversed(lengths))


def plain_structure(header):
    """Structure of an uncompressed image: its tiles are made up, runs of whole rows."""
    scaling = image_scaling(header, "", ["BLANK"])
    shape = image_shape(header, "NAXIS", scaling.stored_dtype.itemsize)
    return ImageStructure(
        shape=shape,
        tile_shape=contiguous_tiles(shape, scaling.stored_dtype.itemsize),
        scaling=scaling,
        codec=None,
        quantize=None,
        heap_nbytes=math.prod(shape) * scaling.stored_dtype.itemsize,
    )


def contiguous_tiles(shape, itemsize, target_nbytes=2**18):
    """Tiles that are contiguous in the image and have about the target size.

    The size is a compromise: a tile is what a cutout reads at least, and costs its own overhead.
    """
    tile = [1] * len(shape)
    room = max(1, target_nbytes // itemsize)
    for k in reversed(range(len(shape))):
        tile[k] = max(1, min(shape[k], room if k < len(shape) - 1 else shape[k]))
        room //= tile[k]
        if tile[k] < shape[k] or room < 2:
            break
    return tuple(tile)


# ---------------------------------------------------------------------------- compressed images


def compressed_structure(header):
    """Structure of a tile-compressed image, from the header of its table."""
    columns, row_nbytes = table_columns(header)
    default = TILE_BLANK if "ZBLANK" in columns else None
    scaling = image_scaling(header, "Z", ["BLANK", "ZBLANK"], default)
    shape = image_shape(header, "ZNAXIS", 8)
    codec = tile_codec(header)
    if scaling.bitpix > 0 and scaling.bitpix not in codec.bitpix:
        raise HeaderError(
            f"ZBITPIX is {scaling.bitpix}, wanted one of {codec.bitpix} for {codec.zcmptype[0]}"
        )
    tile_shape = tuple(
        max(
            1,
            min(
                length,
                integer(
                    header,
                    f"ZTILE{len(shape) - k}",
                    length if k == len(shape) - 1 and length else 1,
                    low=1,
                ),
            ),
        )
        for k, length in enumerate(shape)
    )
    nrows = integer(header, "NAXIS2", low=0)
    ntiles = math.prod(-(-n // t) for n, t in zip(shape, tile_shape, strict=True))
    if nrows != ntiles:
        raise HeaderError(f"NAXIS2 is {nrows}, wanted one row for each of {ntiles} tiles")
    table_nbytes = row_nbytes * nrows
    heap_start = integer(header, "THEAP", table_nbytes, low=0)
    if heap_start < table_nbytes:
        raise HeaderError(f"THEAP is {heap_start}, wanted at least {table_nbytes}")
    heap_nbytes = integer(header, "PCOUNT", 0, low=0) - (heap_start - table_nbytes)
    if table_nbytes + heap_start + heap_nbytes >= 2**62:
        raise HeaderError(f"PCOUNT is {header.get('PCOUNT')}, wanted a data unit below 2**62 bytes")
    quantize = tile_quantize(header, scaling, columns)
    return ImageStructure(
        shape=shape,
        tile_shape=tile_shape,
        scaling=scaling,
        codec=codec,
        quantize=quantize,
        columns=columns,
        row_nbytes=row_nbytes,
        nrows=nrows,
        heap_start=heap_start,
        heap_nbytes=max(0, heap_nbytes),
        scale=number(header, "ZSCALE"),
        zero=number(header, "ZZERO"),
        blank=quantized_blank(header) if quantize else None,
    )


def quantized_blank(header):
    """The null integer of quantized tiles as a keyword: ZBLANK, else BLANK."""
    for keyword in ("ZBLANK", "BLANK"):
        if header.get(keyword) is not None:
            return integer(header, keyword, low=-(2**63))
    return None


def table_columns(header):
    """Columns by name in upper case, and the length of a row."""
    if integer(header, "BITPIX") != 8 or integer(header, "NAXIS") != 2:
        raise HeaderError("a compressed image is a table: wanted BITPIX 8 and NAXIS 2")
    columns, offset = {}, 0
    for i in range(1, integer(header, "TFIELDS", low=0, high=999) + 1):
        tform = header.get(f"TFORM{i}")
        match = TFORM.match(tform.strip()) if isinstance(tform, str) else None
        if match is None or (match[2] in "PQ" and match[3] not in (*ELEMENT_NBYTES, "X")):
            raise HeaderError(f"TFORM{i} is {tform!r}, wanted the form of a binary table column")
        column = Column(offset, match[2], match[3], int(match[1] or 1))
        name = header.get(f"TTYPE{i}")
        columns.setdefault(name.strip().upper() if isinstance(name, str) else f"#{i}", column)
        offset += column.nbytes
    row_nbytes = integer(header, "NAXIS1", low=0)
    if offset != row_nbytes:
        raise HeaderError(f"NAXIS1 is {row_nbytes}, wanted {offset} for these columns")
    for name in ("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA", "UNCOMPRESSED_DATA"):
        column = columns.get(name)
        if column is None and name == "COMPRESSED_DATA":
            raise HeaderError("no column COMPRESSED_DATA")
        if column is not None and not (
            column.is_descriptor and column.repeat == 1 and column.element in "BIJKED"
        ):
            raise HeaderError(
                f"column {name} of form {column.repeat}{column.letter}"
                f"{column.element}, wanted one descriptor of an array"
            )
    for name in ("ZSCALE", "ZZERO", "ZBLANK"):
        column = columns.get(name)
        if column is not None and (column.letter not in "BIJKED" or column.repeat < 1):
            raise HeaderError(f"column {name} of form {column.letter}, wanted one number")
    return columns, row_nbytes


def tile_codec(header):
    """The codec of ZCMPTYPE with its ZNAMEi and ZVALi, which may stand in any order."""
    zcmptype = header.get("ZCMPTYPE")
    known = [name for codec in CODECS for name in codec.zcmptype]
    if zcmptype not in known:
        raise HeaderError(f"ZCMPTYPE is {zcmptype!r}, wanted one of {', '.join(known)}")
    codec = get_codec(zcmptype)
    settings = {}
    try:
        for i in range(1, 1000):
            name = header.get(f"ZNAME{i}")
            if name is None:
                break
            name = str(name).strip().upper()
            if name in codec.parameters:
                settings.setdefault(name.lower(), codec.setting(name, header.get(f"ZVAL{i}")))
        return get_codec(zcmptype, **settings)
    except ValueError as error:
        raise HeaderError(f"parameters of {zcmptype}: {error}") from error


def tile_quantize(header, scaling, columns):
    """How floats were quantized, or None if they were not: without ZSCALE they are floats."""
    method = header.get("ZQUANTIZ")
    if scaling.bitpix > 0 or method == "NONE":
        return None
    known = [
        name for name in ("ZSCALE", "ZZERO") if name in columns or header.get(name) is not None
    ]
    if not known:
        return None
    if len(known) == 1:
        raise HeaderError(f"found {known[0]} alone, wanted ZSCALE and ZZERO")
    method = "NO_DITHER" if method is None else method
    if method not in METHODS:
        raise HeaderError(f"ZQUANTIZ is {method!r}, wanted one of {', '.join(METHODS)}")
    seed = 1
    if method != "NO_DITHER":
        seed = integer(header, "ZDITHER0", 1, low=1, high=10000)
    return Quantize(method=method, seed=seed)
