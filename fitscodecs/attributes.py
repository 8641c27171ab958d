# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The cards of a header as attributes: names and values that JSON holds."""

import math
import re

from .cards import cards_of, keyword_of, restored_cards
from .header import is_compressed, parse_value

__all__ = ["image_attributes", "json_attributes", "primary_attributes"]

# What tells how an HDU is stored, which its reader has no use for.
OF_THE_STORAGE = frozenset(
    ["SIMPLE", "XTENSION", "BITPIX", "PCOUNT", "GCOUNT", "GROUPS", "EXTEND", "BLOCKED",
     "CHECKSUM", "DATASUM"]
)  # fmt: skip
OF_THE_SCALING = frozenset(["BSCALE", "BZERO", "BLANK"])
COMMENTARY = frozenset(["COMMENT", "HISTORY"])
HIERARCH = re.compile(r"HIERARCH\s+([^=]+?)\s*=(.*)")
COMPLEX = re.compile(r"\(\s*([^,\s]+)\s*,\s*([^)\s]+)\s*\)")


def image_attributes(hdu, scaled=True):
    """Attributes of an image HDU; of a compressed one, those of the image inside.

    Parameters
    ----------
    hdu : HDU
    scaled : bool
        Whether the pixels will be scaled, so that BSCALE, BZERO and BLANK are done with.

    Returns
    -------
    dict
        See `json_attributes`. Keywords that tell how the HDU is stored are left out.
    """
    lines = cards_of(hdu.raw)
    if is_compressed(hdu.header):
        lines = restored_cards(lines)
    done_with = OF_THE_STORAGE | (OF_THE_SCALING if scaled else frozenset())
    return {k: v for k, v in json_attributes(lines).items() if k not in done_with}


def primary_attributes(hdu):
    """Attributes of a primary HDU, for the whole file."""
    leave = OF_THE_STORAGE | OF_THE_SCALING
    found = json_attributes(cards_of(hdu.raw))
    return {k: v for k, v in found.items() if k not in leave and not re.fullmatch(r"NAXIS\d*", k)}


def json_attributes(lines):
    """Keywords and values of cards as str, bool, int, float or list of float.

    Of a keyword that stands several times the first value counts. The texts of all COMMENT cards
    are one string with line breaks, so are those of HISTORY. CONTINUE cards are joined to the
    string before. HIERARCH keywords are what follows that word. Complex numbers are lists of two.
    Cards without a value are left out.

    Parameters
    ----------
    lines : list of bytes
        Cards of 80 bytes.
    """
    found, texts, last = {}, {}, None
    for line in lines:
        text = line.decode("latin-1")
        keyword = keyword_of(line)
        if keyword in COMMENTARY:
            texts.setdefault(keyword, []).append(text[8:].rstrip())
        elif keyword == "CONTINUE":
            continue_string(found, last, text)
            continue
        last = None
        match = HIERARCH.match(text)
        if match:
            keyword, value = " ".join(match[1].split()).upper(), match[2]
        elif text[8:10] == "= ":
            value = text[10:]
        else:
            continue
        value = json_value(value)
        if value is not None and keyword not in found:
            found[keyword] = value
            last = keyword
    return found | {keyword: "\n".join(parts) for keyword, parts in texts.items()}


def continue_string(found, keyword, text):
    """Join a CONTINUE card to the value of the card before, if that says that it goes on."""
    more = parse_value(text[8:])
    before = found.get(keyword)
    if isinstance(before, str) and before.endswith("&") and isinstance(more, str):
        found[keyword] = before[:-1] + more


def json_value(text):
    """The value of a card as JSON holds it, or None if there is none that can be read."""
    value = parse_value(text)
    if isinstance(value, float) and not math.isfinite(value):
        return text.split("/")[0].strip()  # beyond the range of a double
    if value is None and (match := COMPLEX.match(text.strip())):
        parts = [parse_value(part) for part in match.groups()]
        if all(type(part) in (int, float) and math.isfinite(part) for part in parts):
            return [float(part) for part in parts]
    return value
