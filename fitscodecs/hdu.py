# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The HDUs of a file: headers only, data are skipped."""

import operator
from dataclasses import dataclass

from .errors import HeaderError
from .header import BLOCK, CARD, data_nbytes, is_compressed, parse_header
from .source import AHEAD_NBYTES, SIMPLE

__all__ = ["EXTENSION", "HDU", "find", "header_nbytes", "walk"]

EXTENSION = b"XTENSION="
END = b"END".ljust(CARD)


@dataclass(frozen=True)
class HDU:
    """One header, and where its data are."""

    index: int  # 0 is the primary HDU
    raw: bytes  # the cards, padding included
    header: dict
    start: int  # first byte of the header in the file
    data_start: int
    data_nbytes: int
    ahead: bytes = b""  # first bytes of the data unit, where they came with the header

    @property
    def name(self):
        """EXTNAME, or an empty string; what a header must not hold is shown as a question mark."""
        name = self.header.get("EXTNAME")
        if not isinstance(name, str):
            return ""
        return "".join(c if " " <= c <= "~" else "?" for c in name.strip())

    @property
    def version(self):
        """EXTVER, 1 if there is none."""
        version = self.header.get("EXTVER")
        return version if isinstance(version, int) else 1

    @property
    def label(self):
        """How errors name the HDU."""
        return f"HDU {self.index} ({self.name})" if self.name else f"HDU {self.index}"

    @property
    def stop(self):
        """First byte after the HDU, padding included."""
        return self.data_start + -(-self.data_nbytes // BLOCK) * BLOCK


class Window:
    """The bytes read last, so that neighbouring headers cost one read."""

    def __init__(self, source):
        self.source = source
        self.start, self.data = 0, source.first()
        self.ahead_nbytes = AHEAD_NBYTES

    def held(self, start, nbytes):
        """Those of the bytes from `start` that have been read already."""
        at = start - self.start
        return self.data[at : at + nbytes] if at >= 0 else b""

    def read(self, start, nbytes):
        """Bytes from `start`; fewer than asked at the end of the source."""
        if len(self.held(start, nbytes)) < nbytes:
            if start > 0 and self.source.size is not None and start >= self.source.size:
                return b""
            stop = start + max(nbytes, self.ahead_nbytes)
            if self.source.size is not None:
                stop = min(stop, self.source.size)
            self.data = bytes(self.source.read_range(start, stop))
            self.start = start
        return self.held(start, nbytes)


def header_nbytes(raw):
    """Length of the header that bytes start with, blocks with END included; None if it goes on."""
    for start in range(0, len(raw) - CARD + 1, CARD):
        if raw[start : start + CARD] == END:
            stop = start - start % BLOCK + BLOCK
            return stop if stop <= len(raw) else None
    return None


def read_header(window, start, index):
    """All blocks of one header, up to the one with END; None if there is no HDU here."""
    first = SIMPLE if index == 0 else EXTENSION
    parts = []
    while True:
        block = window.read(start + BLOCK * len(parts), BLOCK)
        if not parts and not block.startswith(first):
            if index == 0:
                raise HeaderError(
                    f"{window.source.name}: file starts with {block[:10]!r}, "
                    "wanted a FITS file ('SIMPLE  =')"
                )
            return None
        if len(block) < BLOCK:
            raise HeaderError(
                f"HDU {index}: header ends after {BLOCK * len(parts) + len(block)} "
                "bytes without END"
            )
        parts.append(block)
        if header_nbytes(block) is not None:
            return b"".join(parts)


def walk(source):
    """The HDUs of a source, one after the other, reading headers only.

    What follows the last HDU and is none (special records, padding) ends the walk.
    """
    window, start, index = Window(source), 0, 0
    while (raw := read_header(window, start, index)) is not None:
        header = parse_header(raw)
        try:
            nbytes = data_nbytes(header)
        except HeaderError as error:
            raise HeaderError(f"HDU {index}: {error}") from error
        data_start = start + len(raw)
        ahead = window.held(data_start, nbytes) if source.whole is None else b""
        hdu = HDU(index, raw, header, start, data_start, nbytes, ahead)
        yield hdu
        if index > 0:  # extensions of a file tend to have headers of one length
            window.ahead_nbytes = len(raw)
        start, index = hdu.stop, index + 1


def find(source, which):
    """The HDU that a user asks for.

    Parameters
    ----------
    source : Source
    which : None, int, str or (str, int)
        The first compressed image; a position (0 is the primary HDU, negative from the end); an
        EXTNAME, case-insensitive; or an EXTNAME and EXTVER.
    """
    if isinstance(which, (bool, float)) or (
        isinstance(which, tuple) and not (len(which) == 2 and isinstance(which[0], str))
    ):
        raise TypeError(f"hdu is {which!r}, wanted None, an int, a str or (str, int)")
    if which is None:
        wanted, test = "a compressed image", lambda hdu: is_compressed(hdu.header)
    elif isinstance(which, str):
        wanted, test = f"EXTNAME {which!r}", lambda hdu: hdu.name.upper() == which.strip().upper()
    elif isinstance(which, tuple):
        name, version = which
        wanted = f"EXTNAME {name!r} with EXTVER {version}"

        def test(hdu):
            return hdu.name.upper() == name.strip().upper() and hdu.version == version
    else:
        hdus = []
        position = operator.index(which)
        for hdu in walk(source):
            if hdu.index == position:
                return hdu
            hdus.append(hdu)
        if -len(hdus) <= position < 0:
            return hdus[position]
        raise HeaderError(f"{source.name}: found {len(hdus)} HDUs, wanted HDU {position}")
    count = 0
    for hdu in walk(source):
        if test(hdu):
            return hdu
        count += 1
    raise HeaderError(f"{source.name}: found none in {count} HDUs, wanted {wanted}")
