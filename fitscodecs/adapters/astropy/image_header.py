# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The header of an image, from the header of its table, in one pass over the cards.

astropy looks up, deletes and inserts card by card, which takes longer than to decode many tiles.
The same header is put together here from a list of cards, if all is as programs that compress
images write it. Anything else is left to astropy, with its warnings and errors: `image_header_of`
then gives None, and has changed nothing.
"""

import functools
import re

from astropy.io.fits import Card, Header, conf
from astropy.io.fits.hdu.compressed.header import _is_reserved_keyword

__all__ = ["image_header_of"]

COMMENTARY = ("", "COMMENT", "HISTORY")
DEFAULT_NAME = "COMPRESSED_IMAGE"

# Cards that say how a table is stored, besides those that say so of its columns and its tiles.
OF_TABLE = ("SIMPLE", "XTENSION", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "PCOUNT", "GCOUNT",
            "GROUPS", "EXTEND", "BSCALE", "BZERO", "CHECKSUM", "DATASUM")  # fmt: skip

# Cards of which it is plain what astropy makes of them, and for which it takes 20 microseconds.
FIXED = re.compile(
    r"[A-Z0-9_ -]{8}= "
    r"(?: *(?P<integer>0|-?[1-9]\d{0,17})| {19}(?P<logical>[TF])|'(?P<text>\w+) *') *"
    r"(?:/ (?P<comment>[!-~](?:[ -~]*[!-~])?) *)?",
    re.ASCII,
)

# The longest value and comment with which a card of the image fits into 80 characters. astropy
# warns of those that do not while it makes the header.
VALUE_LENGTH = 18
COMMENT_LENGTH = 47


class Unusual(Exception):
    """A header that is left to astropy."""


@functools.lru_cache(2**13)
def fate(keyword):
    """The keyword by which a card is found, and whether it stays in the table."""
    name = Card.normalize_keyword(keyword)
    plain = name == keyword and re.fullmatch("[A-Z0-9_-]{1,8}", name)
    of_table = name in OF_TABLE or bool(_is_reserved_keyword(name))
    misleading = re.match(r"NAXIS.|THEAP.|END$", name) and name not in OF_TABLE
    if misleading or (not plain and (of_table or _is_reserved_keyword(keyword))):
        raise Unusual(keyword)
    return name, of_table


def check(card):
    """Refuse cards that are more than a keyword with a value, or are not as they were read."""
    sound = type(card) is Card and card._keyword is not None and card._field_specifier is None
    if not sound or card._modified or card._invalid:
        raise Unusual(card)


def sort_cards(table_header):
    """The cards that are the image's too, and those of the table by keyword."""
    of_image, of_table = [], {}
    for card in table_header._cards:
        check(card)
        name, stays = fate(card._keyword)
        if not stays:
            of_image.append((name, card))
        elif of_table.setdefault(name, card) is not card:
            raise Unusual(card)
    return of_image, of_table


def value_and_comment(card):
    """What a card holds. One that was not parsed yet, and need not be for this, stays so."""
    if card._value is None and card._comment is None and len(card._image) == Card.length:
        found = FIXED.fullmatch(card._image)
        if found:
            integer, logical, text, comment = found.groups()
            value = int(integer) if integer else logical == "T" if logical else text
            return value, comment or ""
    return card.value, card.comment


def new_card(keyword, value, comment=None):
    """A card as astropy makes it of these, without the checks and look-ups."""
    card = Card()
    card._keyword, card._value, card._comment = keyword, value, comment
    return card


def renamed(card, keyword, kind):
    """A card of the table as one of the image: the same value, of a type that is asked for."""
    value, comment = value_and_comment(card)
    if type(value) is not kind or len(str(value)) > VALUE_LENGTH:
        raise Unusual(card)
    if kind is str and not (value.isascii() and value.isalnum()):
        raise Unusual(card)
    if len(comment) > COMMENT_LENGTH or not (comment.isascii() and comment.isprintable()):
        raise Unusual(card)
    return new_card(keyword, value, comment)


def first_card(of_table):
    """SIMPLE or XTENSION, as the image had it."""
    if "ZSIMPLE" in of_table:
        return renamed(of_table["ZSIMPLE"], "SIMPLE", bool)
    if "ZTENSION" not in of_table:
        return new_card("XTENSION", "IMAGE")
    card = renamed(of_table["ZTENSION"], "XTENSION", str)
    if card._value != "IMAGE":
        raise Unusual(card)
    return card


def leading_cards(of_table):
    """The cards with which the header of an image begins."""
    cards = [first_card(of_table)]
    cards.append(renamed(of_table["ZBITPIX"], "BITPIX", int))
    cards.append(renamed(of_table["ZNAXIS"], "NAXIS", int))
    for k in range(1, cards[-1]._value + 1):
        cards.append(renamed(of_table[f"ZNAXIS{k}"], f"NAXIS{k}", int))
    if cards[0]._keyword == "XTENSION":
        for keyword, default in (("PCOUNT", 0), ("GCOUNT", 1)):
            card = of_table.get(f"Z{keyword}")
            cards.append(renamed(card, keyword, int) if card else new_card(keyword, default))
    return cards


def scale_card(card, keyword):
    """BSCALE or BZERO without its comment, in a list; an empty one if it is 0."""
    value = value_and_comment(card)[0]
    if type(value) not in (int, float) or not abs(value) < 1e17:  # or not a number
        raise Unusual(card)
    return [new_card(keyword, value)] if value else []


def added_cards(of_table):
    """The cards that go behind those of the image."""
    cards = []
    for keyword in ("BSCALE", "BZERO"):
        if keyword in of_table:
            cards += scale_card(of_table[keyword], keyword)
    for keyword, name, kind in (
        ("EXTEND", "ZEXTEND", bool),
        ("BLOCKED", "ZBLOCKED", bool),
        ("CHECKSUM", "ZHECKSUM", str),
        ("DATASUM", "ZDATASUM", str),
    ):
        if name in of_table:
            cards.append(renamed(of_table[name], keyword, kind))
    return cards


def blank_cards(of_table, bitpix):
    """BLANK for integers that have none, in a list; an empty one if they need none."""
    if bitpix < 0:
        return []
    if "ZBLANK" in of_table:
        return [new_card("BLANK", renamed(of_table["ZBLANK"], "BLANK", int)._value)]
    ncolumns = value_and_comment(of_table["TFIELDS"])[0]
    names = [value_and_comment(of_table[f"TTYPE{k + 1}"])[0] for k in range(ncolumns)]
    if "ZBLANK" in names:
        raise Unusual("a default BLANK, of which astropy warns")
    return []


def copy_of(card):
    """The same card, to be changed on its own."""
    copied = Card.__new__(Card)
    vars(copied).update(vars(card))
    return copied


def insert(cards, new):
    """Put cards of the image where astropy appends: before comments that close the header."""
    place = len(cards)
    while place and cards[place - 1][0] in COMMENTARY:
        place -= 1
    cards[place:place] = [(card._keyword, card) for card in new]


def count_empty(cards):
    """How many empty cards a list of cards ends with."""
    count = 0
    while count < len(cards) and cards[-1 - count].is_blank:
        count += 1
    return count


def drop_empty(cards, nadded, of_table):
    """Drop empty cards at the end.

    Each card that astropy adds takes the place of one; of those that the table ends with, none is
    missing in the image.
    """
    found = count_empty([card for _, card in cards])
    del cards[len(cards) - found + max(of_table, found - nadded) :]


def without_name(cards):
    """The cards but EXTNAME, if that is the one a table without a name is given."""
    name = next((card for name, card in cards if name == "EXTNAME"), None)
    if name is None or value_and_comment(name)[0] != DEFAULT_NAME:
        return cards
    remaining = [pair for pair in cards if pair[0] != "EXTNAME"]
    if cards[-1][1].is_blank or (remaining and remaining[-1][1].is_blank):
        raise Unusual("empty cards at the end, which become more")
    return remaining


def image_cards(table_header):
    """All cards of the image, each with the keyword by which it is found."""
    of_image, of_table = sort_cards(table_header)
    if value_and_comment(of_table["NAXIS"])[0] != 2 or not {"NAXIS1", "NAXIS2"} <= of_table.keys():
        raise Unusual("a table that is none")
    if "TFIELDS" in of_table and type(value_and_comment(of_table["TFIELDS"])[0]) is not int:
        raise Unusual("a number of columns that astropy cannot count to")
    names = {name for name, _ in of_image}
    if "BLOCKED" in names and "ZBLOCKED" in of_table:
        raise Unusual("BLOCKED twice")
    if names == {""}:
        raise Unusual("no card with a keyword, where astropy counts empty cards in another way")
    lead, added = leading_cards(of_table), added_cards(of_table)
    blank = [] if "BLANK" in names else blank_cards(of_table, lead[1]._value)
    cards = [(name, copy_of(card)) for name, card in of_image]
    insert(cards, added)
    cards = without_name(cards)
    insert(cards, blank)
    if cards and cards[-1][1].is_blank:
        nadded = 5 + lead[2]._value + len(added) + len(blank)  # PCOUNT and GCOUNT even if dropped
        drop_empty(cards, nadded, count_empty(table_header._cards))
    return [(card._keyword, card) for card in lead] + cards


def header_of(cards):
    """A header of cards that come with the keywords by which they are found."""
    header = Header()
    header._cards = [card for _, card in cards]
    for index, (name, _) in enumerate(cards):
        header._keyword_indices[name].append(index)
    return header


@functools.cache
def astropy_is_known():
    """Whether cards and headers that astropy makes hold what they are given here, and no more."""
    made = [Card("BITPIX", 16, "a comment"), Card("XTENSION", "IMAGE")]
    ours = [new_card("BITPIX", 16, "a comment"), new_card("XTENSION", "IMAGE")]
    headers = Header(made), header_of([(card.keyword, card) for card in made])
    return [*map(vars, made)] == [*map(vars, ours)] and vars(headers[0]) == vars(headers[1])


def image_header_of(table_header):
    """The header of a compressed image, as astropy makes it of the header of its table.

    Parameters
    ----------
    table_header : astropy.io.fits.Header
        Is not changed.

    Returns
    -------
    astropy.io.fits.Header or None
        Shares no card with the other. None if astropy has to make it.
    """
    try:
        usual = type(table_header) is Header and conf.strip_header_whitespace
        if not usual or not astropy_is_known():
            return None
        header = header_of(image_cards(table_header))
    except Exception:
        # Whatever is wrong with a header, astropy is to say so, in its own words.
        return None
    header._modified = True  # as after the edits that astropy makes
    return header
