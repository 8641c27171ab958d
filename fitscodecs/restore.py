# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The header of an image from the header of its table, for users."""

from .cards import cards_of, restored_cards
from .header import is_compressed, parse_header

__all__ = ["image_header"]


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
        raise ImportError("full headers need astropy: pip install 'fitscodecs[astropy]'") from error
    if is_compressed(parse_header(raw)):
        raw = b"".join(restored_cards(cards_of(raw)))
    return Header.fromstring(raw.decode("latin-1"))
