# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The checksums in headers, compared with the bytes of their HDUs."""

from ..checksum import ALL_ONES, ones_sum

__all__ = ["check_hdu", "known"]

CHUNK = 2**24


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
