# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The checksums of HDUs (FITS Standard 4.0, section 4.4.2.7 and appendix J)."""

import numpy as np

__all__ = ["ALL_ONES", "check_hdu", "ones_sum"]

# Minus zero: the sum over an HDU whose CHECKSUM is right.
ALL_ONES = 2**32 - 1
CHUNK = 2**24


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
        data = rest + bytes(chunk) if rest else chunk
        nbytes = len(data) // 4 * 4
        total = add_words(data[:nbytes], total)
        rest = bytes(data[nbytes:])
    return add_words(rest.ljust(4, b"\0"), total) if rest else total


def add_words(data, total):
    total += int(np.frombuffer(data, ">u4").sum(dtype=np.uint64))
    while total > ALL_ONES:  # carries go round to the other end
        total = (total & ALL_ONES) + (total >> 32)
    return total


def chunks_of(source, start, stop):
    for first in range(start, stop, CHUNK):
        yield source.read_range(first, min(first + CHUNK, stop))


def check_hdu(source, hdu):
    """Compare the checksums in a header with the bytes of the HDU.

    Returns
    -------
    present : list of str
        Which of DATASUM and CHECKSUM there are.
    faults : list of str
    """
    header = hdu.header
    present = [name for name in ("DATASUM", "CHECKSUM") if known(header.get(name))]
    if not present:
        return [], []
    faults = []
    data = ones_sum(chunks_of(source, hdu.data_start, hdu.stop))
    if "DATASUM" in present and str(header["DATASUM"]).strip() != str(data):
        faults.append(f"DATASUM is {header['DATASUM']}, the data sum to {data}")
    whole = ones_sum([hdu.raw], data)
    if "CHECKSUM" in present and whole not in (0, ALL_ONES):
        faults.append(f"CHECKSUM is wrong: the HDU sums to {whole:#010x}, wanted 0xffffffff")
    return present, faults


def known(value):
    """An empty string means that the checksum is not defined."""
    return value is not None and str(value).strip() != ""
