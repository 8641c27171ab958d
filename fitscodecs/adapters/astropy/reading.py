# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Pixels of a CompImageHDU: all tiles of a request in one batch.

The functions whose names and arguments are astropy's take the place of astropy's own.
"""

import contextlib
import threading
import weakref
from dataclasses import replace

import numpy as np
from astropy.io.fits.hdu.compressed import _tiled_compression
from astropy.io.fits.verify import VerifyError
from astropy.utils.shapes import simplify_basic_index

from ...errors import DecodeError, HeaderError
from ...grid import plan
from ...header import CARD, image_structure, parse_card
from ...scaling import Scaling
from ...source import coalesce
from ...table import TileTable
from ...threads import THREADS
from ...tile import Streams, decode_tiles
from .counting import count
from .errors import as_astropy
from .quantization import seed_of

__all__ = ["decompress_image_data_section", "section_getitem", "stored_pixels", "tile_shape_of"]

# Bytes between two streams that are better read than sought: for files that are not mapped, local
# or remote. What is mapped costs nothing to bridge.
GAP_NBYTES = 2**16

# How the keywords begin that say what is in a table. Most cards are about the image.
OF_TABLE = ("BITPIX", "BLANK", "BSCALE", "BZERO", "GCOUNT", "NAXIS", "PCOUNT", "SIMPLE", "T",
            "XTENSION", "Z")  # fmt: skip

# Kept beside the objects of astropy, not in them, so that those can be copied and pickled.
_lock = threading.Lock()
_file_locks = weakref.WeakKeyDictionary()
_structures = weakref.WeakKeyDictionary()


def tile_shape_of(header):
    """Tile shape of a compressed image in C order, with the standard's default (10.1.2).

    Parameters
    ----------
    header : astropy.io.fits.Header
        Of the table.

    Returns
    -------
    ndarray of int
        As `astropy.io.fits.hdu.compressed.utils._tile_shape`, which fails where ZTILEn is missing.
    """
    shape = []
    for k in range(value_of(header, "ZNAXIS"), 0, -1):
        if f"ZTILE{k}" in header:
            shape.append(value_of(header, f"ZTILE{k}"))
        else:
            shape.append(value_of(header, "ZNAXIS1") if k == 1 else 1)
    return np.array(shape, dtype=int)


def value_of(header, keyword):
    """A value of a header of astropy, which does not parse the card if it is as in the file."""
    parsed = keyword_and_value(header.cards[keyword])
    return header[keyword] if len(parsed) < 2 or parsed[1] is None else parsed[1]


def keyword_and_value(card):
    """Those of a card of astropy, which does not parse it for that if it is as in the file."""
    image = card._image
    if image is not None and len(image) == CARD and not card._modified:
        return parse_card(image.encode("latin-1"))
    value = card.value
    return card.keyword, value.item() if isinstance(value, np.generic) else value


def table_header(header):
    """The cards of a table that are not only the image's, in a dictionary, which is faster.

    As in astropy, keywords may have small letters, and a card without a sound value, such as a long
    text with a damaged CONTINUE, is no matter unless it is asked for.
    """
    values = {}
    for card in header._cards if hasattr(header, "_cards") else header.cards:
        if not card.keyword.upper().startswith(OF_TABLE):
            continue
        with contextlib.suppress(VerifyError):
            parsed = keyword_and_value(card)
            if len(parsed) == 2:
                values.setdefault(parsed[0].upper(), parsed[1])
    return values


def fingerprint(header):
    """All that the values of a header come from, to be compared; None if that cannot be seen."""
    try:
        return [(card._keyword, card._value, card._image) for card in header._cards]
    except AttributeError:
        return None


def structure_of(bintable, header):
    """The structure of a table, remembered for as long as its header does not change.

    To read a header takes longer than to decode a tile. A ZDITHER0 that is no seed counts from the
    start of the dither table, as in astropy.
    """
    seen = fingerprint(header)
    known, structure = _structures.get(bintable, (None, None))
    if known is None or known != seen:
        values = table_header(header)
        _tiled_compression._check_compressed_header(values)
        seed = values.get("ZDITHER0")
        if isinstance(seed, int):
            values["ZDITHER0"] = seed_of(seed)
        structure = image_structure(values)
        # Reading a value may make the card parse it, which shows in the fingerprint.
        with _lock:
            _structures[bintable] = fingerprint(header), structure
    return structure


def integers_as_floats(structure):
    """The structure with which floats are read that were stored as integers without a scale.

    None for all other images. astropy writes such files at quantize_level 0.
    """
    floats = structure.bitpix < 0 and structure.quantize is None
    if not floats or structure.bitpix in structure.codec.bitpix:
        return None
    return replace(structure, scaling=Scaling(bitpix=32))


def file_lock(bintable):
    """A lock for the file of an HDU: reading moves its position."""
    file = bintable._file
    if file is None:
        return contextlib.nullcontext()
    with _lock:
        return _file_locks.setdefault(file, threading.RLock())


def read_ranges(bintable, ranges):
    """Buffers for ranges of the data unit; one that passes the end of the file is short.

    A remote file is asked for all of them at once, and not through the cache of its file object,
    which would read megabytes ahead of each.
    """
    file, base = bintable._file, bintable._data_offset
    remote = getattr(file, "_file", None)
    fs = getattr(remote, "fs", None)
    if hasattr(fs, "cat_ranges") and not file.memmap and not bintable._buffer:
        starts, stops = ([int(base + pair[k]) for pair in ranges] for k in (0, 1))
        return fs.cat_ranges([remote.path] * len(ranges), starts, stops, on_error="raise")
    buffers = []
    for start, stop in ranges:
        try:
            with file_lock(bintable):
                raw = bintable._get_raw_data(stop - start, np.uint8, base + start)
        except (TypeError, ValueError):  # what numpy says where the file is shorter than that
            if file is not None and file.closed:
                raise
            raw = b""
        if raw is None:
            raise DecodeError("the HDU has neither a file nor a buffer with compressed tiles")
        buffers.append(raw)
    return buffers


def is_mapped(bintable):
    """Whether the bytes of an HDU can be had without reading."""
    return bool(bintable._buffer) or (bintable._file is not None and bintable._file.memmap)


def fetch(bintable, table, entries):
    """The streams of tiles, in as few reads as their places allow."""
    gap = 2**62 if is_mapped(bintable) else GAP_NBYTES
    ranges, which, begin = coalesce(entries.start, entries.start + entries.nbytes, gap)
    buffers = read_ranges(bintable, ranges)
    available = np.array([len(buffer) for buffer in buffers], np.int64)[which]
    short = begin + entries.nbytes > available
    if short.any():
        i = int(short.argmax())
        stop = bintable._data_offset + entries.start[i] + entries.nbytes[i]
        raise DecodeError(f"{table.place(entries.tiles[i])}: file ends before byte {stop}")
    return Streams(buffers, which, begin, entries.nbytes)


def check_ranges(ranges, shape):
    """IndexError for pixels outside the image: the array of an HDU may have become larger."""
    inside = len(ranges) == len(shape) and all(
        min(r[0], r[-1]) >= 0 and max(r[0], r[-1]) < n for r, n in zip(ranges, shape, strict=True)
    )
    if not inside:
        raise IndexError(f"found a section of {ranges}, wanted one of tiles of shape {shape}")


def row_bytes(compressed_data):
    """The rows of a table as they stand in the file."""
    return np.ascontiguousarray(compressed_data.view(np.ndarray)).view(np.uint8)


def rows_of(bintable):
    """The rows of a table as they stand in the file, from the array of astropy if there is one.

    To make that array takes longer than to decode a million pixels, and is only done where it saves
    reading the rows once more.
    """
    nbytes = bintable.header["NAXIS1"] * bintable.header["NAXIS2"]
    with file_lock(bintable):
        if bintable._data_loaded or not is_mapped(bintable) or nbytes == 0:
            return row_bytes(bintable.data)
        return bintable._get_raw_data(nbytes, np.uint8, bintable._data_offset)


def stored_pixels(bintable, rows, header, ranges):
    """Pixels as they are stored, before BSCALE, BZERO and BLANK.

    Parameters
    ----------
    bintable : astropy.io.fits.BinTableHDU
        Gives the bytes of the heap.
    rows : buffer
        The rows of the table as they stand in the file.
    header : astropy.io.fits.Header
        Of the table.
    ranges : list of range
        What is wanted along each axis, in C order.

    Returns
    -------
    ndarray
        Native, of the type of ZBITPIX.
    """
    out_shape = tuple(len(r) for r in ranges)
    if 0 in out_shape:  # an image without pixels has no structure
        _tiled_compression._check_compressed_header(header)
        return np.empty(out_shape, Scaling(bitpix=header["ZBITPIX"]).stored_dtype)
    structure = structure_of(bintable, header)
    check_ranges(ranges, structure.shape)
    out = np.empty(out_shape, structure.dtype)
    pieces = plan(structure.shape, structure.tile_shape, ranges)
    table = TileTable(structure)
    table.feed(0, rows)
    entries = table.describe(pieces.tiles)
    as_integers = integers_as_floats(structure)
    try:
        table.check(entries)
        streams = fetch(bintable, table, entries)
        if as_integers is None:
            decode_tiles(structure, entries, streams, pieces, out, THREADS)
        else:
            integers = np.empty(out_shape, as_integers.dtype)
            decode_tiles(as_integers, entries, streams, pieces, integers, THREADS)
            out[...] = integers
    except (DecodeError, HeaderError) as error:
        raise as_astropy(error, str(error).startswith("GZIP")) from error
    count(decoded=len(pieces))
    return out


def decompress_image_data_section(
    compressed_data,
    compression_type,
    compressed_header,
    bintable,
    image_header,
    first_tile_index,
    last_tile_index,
):
    """Stored pixels of a block of tiles.

    Parameters
    ----------
    compressed_data : astropy.io.fits.FITS_rec
        The rows of the table.
    compressed_header, bintable
        See `stored_pixels`.
    compression_type, image_header
        Not needed: the header of the table says it all.
    first_tile_index, last_tile_index : sequence of int
        Tiles along each axis, the last included.

    Returns
    -------
    ndarray
    """
    shape = [compressed_header[f"ZNAXIS{k}"] for k in range(compressed_header["ZNAXIS"], 0, -1)]
    ranges = [
        range(int(first) * int(t), min((int(last) + 1) * int(t), n))
        for first, last, t, n in zip(first_tile_index, last_tile_index,
                                     tile_shape_of(compressed_header), shape, strict=True)
    ]  # fmt: skip
    return stored_pixels(bintable, row_bytes(compressed_data), compressed_header, ranges)


def chosen(entry):
    """The pixels along an axis that an integer or a slice without negative numbers stands for.

    A stop of None is that of a negative step, and a start of -1 that of one before the first pixel.
    """
    if isinstance(entry, slice):
        return range(entry.start, -1 if entry.stop is None else entry.stop, entry.step)
    return range(entry, entry + 1)


def section_getitem(section, index):
    """Pixels of a section, scaled unless the HDU was opened without scaling.

    Only the pixels that are asked for are stored; tiles are decoded whole where their algorithm
    needs it.
    """
    hdu = section.hdu
    bintable = hdu._bintable
    if bintable is None:
        return hdu.data[index]
    index = simplify_basic_index(index, shape=section.shape)
    ranges = [chosen(entry) for entry in index]
    array = stored_pixels(bintable, rows_of(bintable), bintable.header, ranges)
    kept = [len(r) for r, e in zip(ranges, index, strict=True) if isinstance(e, slice)]
    array = array.reshape(kept) if kept else array.reshape(())[()]
    return array if hdu._do_not_scale_image_data else hdu._scale_data(array)
