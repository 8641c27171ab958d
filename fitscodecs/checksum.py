# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The checksums of HDUs (FITS Standard 4.0, section 4.4.2.7 and appendix J)."""

from . import _native

__all__ = ["ALL_ONES", "checksum_text", "continued_sum", "ones_sum"]

# Minus zero: the sum over an HDU whose CHECKSUM is right.
ALL_ONES = 2**32 - 1


def ones_sum(chunks, total=0):
    """Sum of big-endian 32-bit words in ones' complement.

    Parameters
    ----------
    chunks : iterable of buffer
        Cut anywhere; the last word is filled up with zeros.
    total : int
        Sum to add to.
    """
    rest = b""
    for chunk in chunks:
        data = memoryview(rest + bytes(chunk) if rest else chunk).cast("B")
        whole = len(data) // 4 * 4
        total = _native.ones_sum(data[:whole], total)
        rest = bytes(data[whole:])
    return _native.ones_sum(rest.ljust(4, b"\0"), total) if rest else total


def continued_sum(total, position, further):
    """The sum of bytes and of those that follow them.

    Parameters
    ----------
    total : int
        Sum of the first bytes.
    position : int
        Their number.
    further : int
        Sum of what follows, by itself. In words that begin elsewhere each byte has another weight,
        and in ones' complement that turns the sum.
    """
    bits = position % 4 * 8
    turned = further >> bits | further << (32 - bits) & ALL_ONES
    return total + turned if total + turned <= ALL_ONES else total + turned - ALL_ONES


def checksum_text(total):
    """The 16 characters of CHECKSUM that bring an HDU to a sum of all ones.

    Parameters
    ----------
    total : int
        Sum of the HDU while CHECKSUM is 16 zeros ('0').

    Notes
    -----
    Each byte of the complement is a sum of four characters, which stand 4 places apart so that
    they meet in the same byte of a word. Characters that are no letters or digits are avoided by
    moving a pair of the four apart. The text is turned by one place, because the value of a card
    does not start at a multiple of 4.
    """
    places = [0] * 16
    for i, byte in enumerate((ALL_ONES - total).to_bytes(4, "big")):
        quarter, rest = divmod(byte, 4)
        four = [quarter + ord("0") + (rest if j == 0 else 0) for j in range(4)]
        for first in (0, 2):
            while not all(chr(c).isalnum() for c in four[first : first + 2]):
                four[first] += 1
                four[first + 1] -= 1
        places[i::4] = four
    return bytes(places[-1:] + places[:-1]).decode("ascii")
