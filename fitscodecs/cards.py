# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Cards of 80 characters: making them, and turning those of an image into those of its table.

The header of a compressed image is the header of the image with its structural keywords renamed
(FITS Standard 4.0, section 10.1.2), beside the keywords of the table. Both directions keep every
other card as it is, byte for byte and in order.
"""

import re

from .errors import EncodeError
from .header import BLOCK, CARD, parse_value

__all__ = ["card", "cards_of", "compressed_cards", "header_block", "keyword_of", "restored_cards"]

# Structural keywords of an image, and what they are called while it is compressed.
RENAMED = {
    "SIMPLE": "ZSIMPLE", "XTENSION": "ZTENSION", "BITPIX": "ZBITPIX", "NAXIS": "ZNAXIS",
    "EXTEND": "ZEXTEND", "BLOCKED": "ZBLOCKED", "PCOUNT": "ZPCOUNT", "GCOUNT": "ZGCOUNT",
    "CHECKSUM": "ZHECKSUM", "DATASUM": "ZDATASUM",
}  # fmt: skip
ORIGINAL = {z: name for name, z in RENAMED.items()}

# What describes a table or a compression, and not an image.
OF_THE_TABLE = re.compile(
    r"XTENSION|BITPIX|NAXIS\d*|PCOUNT|GCOUNT|TFIELDS|THEAP|CHECKSUM|DATASUM"
    r"|(TTYPE|TFORM|TUNIT|TDIM|TSCAL|TZERO|TNULL|TDISP)\d+"
)
OF_THE_COMPRESSION = re.compile(
    r"ZIMAGE|ZCMPTYPE|ZTILE\d+|ZNAME\d+|ZVAL\d+|ZQUANTIZ|ZDITHER0|ZBLANK|ZSCALE|ZZERO|ZMASKCMP"
)
DEFAULT_EXTNAME = "COMPRESSED_IMAGE"


def card(keyword, value, comment=""):
    """One card of 80 bytes in fixed format.

    Parameters
    ----------
    keyword : str
        At most 8 characters.
    value : bool, int, float or str
    comment : str
        Cut where the card ends.
    """
    if isinstance(value, bool):
        text = ("T" if value else "F").rjust(20)
    elif isinstance(value, int):
        text = str(value).rjust(20)
    elif isinstance(value, float):
        text = float_text(value).rjust(20)
    elif isinstance(value, str):
        text = ("'" + value.replace("'", "''").ljust(8) + "'").ljust(20)
    else:
        raise EncodeError(f"card {keyword} = {value!r}: wanted a bool, int, float or str")
    line = f"{keyword:8}= {text}" + (f" / {comment}" if comment else "")
    if len(keyword) > 8 or len(f"{keyword:8}= {text}") > CARD:
        raise EncodeError(f"card {keyword} = {value!r} is longer than {CARD} characters")
    return printable(keyword, line)


def commentary(keyword, text):
    """One card of 80 bytes without a value: COMMENT or HISTORY."""
    if len(str(text)) > CARD - 8:
        raise EncodeError(f"{keyword} of {len(str(text))} characters, wanted {CARD - 8} or less")
    return printable(keyword, f"{keyword:8}{text}")


def printable(keyword, line):
    """A card as bytes, if all its characters are ones that a header may hold."""
    if not (line.isascii() and line.isprintable()):
        raise EncodeError(f"card {keyword} has characters that a header cannot hold: {line!r}")
    return line.ljust(CARD)[:CARD].encode("ascii")


def float_text(value):
    """A number that reads back the same, with a point or an exponent."""
    if value != value or value in (float("inf"), float("-inf")):
        raise EncodeError(f"{value} cannot be written in a header")
    text = repr(value).upper()
    return text if "." in text or "E" in text else text + ".0"


def keyword_of(line):
    """The keyword of a card; those of HIERARCH cards are HIERARCH."""
    return line[:8].decode("latin-1").rstrip()


def cards_of(raw):
    """The cards of a header in order, without END and what follows it."""
    lines = [raw[i : i + CARD] for i in range(0, len(raw) - CARD + 1, CARD)]
    ends = (i for i, line in enumerate(lines) if keyword_of(line) == "END")
    return lines[: next(ends, len(lines))]


def header_block(lines):
    """A header of whole blocks: the cards, END, and blanks."""
    raw = b"".join(lines) + b"END".ljust(CARD)
    return raw + b" " * (-len(raw) % BLOCK)


def renamed(line, name):
    return name.ljust(8).encode() + line[8:]


def compressed_cards(lines):
    """The cards of an image as they stand in the header of its table.

    Parameters
    ----------
    lines : list of bytes
        Cards of the image. Those that describe a table or a compression are left out.

    Returns
    -------
    list of bytes
    """
    result = []
    for line in lines:
        keyword = keyword_of(line)
        if re.fullmatch(r"NAXIS\d+", keyword):
            result.append(renamed(line, "Z" + keyword))
        elif keyword in RENAMED:
            result.append(renamed(line, RENAMED[keyword]))
        elif not (OF_THE_TABLE.fullmatch(keyword) or OF_THE_COMPRESSION.fullmatch(keyword)
                  or keyword in ORIGINAL or re.fullmatch(r"ZNAXIS\d+", keyword)):  # fmt: skip
            result.append(line)
    return result


def restored_cards(lines, primary=None):
    """The cards of an image from those of its table.

    Structural ones come first and in the order that the standard wants; what a file does not tell
    (PCOUNT and GCOUNT of an extension) is filled in.

    Parameters
    ----------
    lines : list of bytes
    primary : bool, optional
        Whether the image will be the primary HDU; by default it is what it was before.
    """
    names = {ORIGINAL.get(keyword_of(line), "") for line in lines}
    if primary is None:
        primary = "SIMPLE" in names
    head = ["SIMPLE" if primary else "XTENSION", "BITPIX", "NAXIS"]
    if not primary:  # where the standard wants them; a primary image may have them anywhere
        head += ["PCOUNT", "GCOUNT"]
    structure, rest = {}, []
    for line in lines:
        keyword = keyword_of(line)
        if re.fullmatch(r"ZNAXIS\d+", keyword):
            structure.setdefault(keyword[1:], renamed(line, keyword[1:]))
        elif keyword in ORIGINAL:
            name = ORIGINAL[keyword]
            if name in head:
                structure.setdefault(name, renamed(line, name))
            elif name not in ("SIMPLE", "XTENSION"):
                rest.append(renamed(line, name))
        elif not (OF_THE_TABLE.fullmatch(keyword) or OF_THE_COMPRESSION.fullmatch(keyword)
                  or is_default_extname(line)):  # fmt: skip
            rest.append(line)
    for line in (card("SIMPLE", True, "conforms to FITS standard"),
                 card("XTENSION", "IMAGE", "image extension"),
                 card("PCOUNT", 0, "number of parameters"),
                 card("GCOUNT", 1, "number of groups")):  # fmt: skip
        if keyword_of(line) in head:
            structure.setdefault(keyword_of(line), line)
    lengths = sorted((k for k in structure if re.fullmatch(r"NAXIS\d+", k)),
                     key=lambda k: int(k[5:]))  # fmt: skip
    order = [*head[:3], *lengths, *head[3:]]
    return [structure[k] for k in order if k in structure] + rest


def is_default_extname(line):
    """Whether a writer put this name where the image had none."""
    if keyword_of(line) != "EXTNAME":
        return False
    return parse_value(line[10:].decode("latin-1")) == DEFAULT_EXTNAME
