# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The header of an image from the header of its table (FITS Standard 4.0, section 10.1.2)."""

import re

from .header import is_compressed

__all__ = ["image_header"]

# What describes the table or its compression, and not the image.
TABLE_KEYWORDS = re.compile(
    r"XTENSION|BITPIX|NAXIS\d*|PCOUNT|GCOUNT|TFIELDS|THEAP|CHECKSUM|DATASUM"
    r"|(TTYPE|TFORM|TUNIT|TDIM|TSCAL|TZERO|TNULL|TDISP)\d+"
    r"|ZIMAGE|ZCMPTYPE|ZBITPIX|ZNAXIS\d*|ZTILE\d+|ZNAME\d+|ZVAL\d+|ZQUANTIZ|ZDITHER0|ZBLANK"
    r"|ZSCALE|ZZERO|ZMASKCMP|ZSIMPLE|ZTENSION|ZEXTEND|ZBLOCKED|ZPCOUNT|ZGCOUNT|ZHECKSUM|ZDATASUM"
)
DEFAULT_EXTNAME = "COMPRESSED_IMAGE"


def image_header(raw):
    """An `astropy.io.fits.Header` of an image HDU.

    Parameters
    ----------
    raw : bytes
        The cards in the file. Those of a compressed image are turned into the ones of the image
        that was compressed; others are as they are.
    """
    try:
        from astropy.io.fits import Header
    except ImportError as error:
        raise ImportError("full headers need astropy: pip install fitscodecs[astropy]") from error
    table = Header.fromstring(raw.decode("latin-1"))
    return restored(table, Header) if is_compressed(table) else table


def restored(table, header_class):
    header = header_class()
    structure = [("XTENSION", table.get("ZTENSION", "IMAGE"), "image extension")]
    if "ZSIMPLE" in table:
        structure = [("SIMPLE", table["ZSIMPLE"], "conforms to FITS standard")]
    naxis = table["ZNAXIS"]
    structure += [
        ("BITPIX", table["ZBITPIX"], "data type of the pixels"),
        ("NAXIS", naxis, "number of axes"),
    ]
    structure += [
        (f"NAXIS{i}", table[f"ZNAXIS{i}"], f"length of axis {i}") for i in range(1, naxis + 1)
    ]
    if "ZSIMPLE" not in table or "ZPCOUNT" in table:
        structure.append(("PCOUNT", table.get("ZPCOUNT", 0), "number of parameters"))
        structure.append(("GCOUNT", table.get("ZGCOUNT", 1), "number of groups"))
    for keyword, original in (("EXTEND", "ZEXTEND"), ("BLOCKED", "ZBLOCKED")):
        if original in table:
            structure.append((keyword, table[original], table.comments[original]))
    for card in structure:
        header.append(card, end=True)
    for card in table.cards:
        keyword = card.keyword
        if TABLE_KEYWORDS.fullmatch(keyword) or (
            keyword in header and keyword in {name for name, _, _ in structure}
        ):
            continue
        if keyword == "EXTNAME" and card.value == DEFAULT_EXTNAME:
            continue
        header.append(card, end=True)
    for keyword, original in (("CHECKSUM", "ZHECKSUM"), ("DATASUM", "ZDATASUM")):
        if original in table:
            header.append((keyword, table[original], table.comments[original]), end=True)
    return header
