# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Tiles that need not be made again: an HDU of which only the header has changed.

astropy compresses an image again whenever its header was changed or its pixels were looked at. A
quantized image loses a little every time. Here the tiles of the file are kept as long as they are
what the image would have been compressed from.
"""

import numpy as np
from astropy.io.fits.hdu.compressed import _quantization, _tiled_compression, header, settings

from .reading import file_lock, row_bytes, rows_of, stored_pixels, tile_shape_of

__all__ = ["keep_tiles"]

# Pixels that are compared at once.
CHUNK_NPIXELS = 2**22

# Cards that tell how the pixels in the table are to be understood, and what their absence means.
SCALING = {"BSCALE": 1, "BZERO": 0, "BLANK": None}
SHAPE = ("ZBITPIX", "ZNAXIS")  # the same in both headers, but with comments of the image
TABLE = ("XTENSION", "BITPIX", "NAXIS", "NAXIS1", "NAXIS2", "PCOUNT", "GCOUNT")


def describes_tiles(keyword):
    """Whether a card of a table header belongs to the tiles, and not to the image."""
    if keyword in header.REMAPPED_KEYWORDS.values() and keyword not in ("ZBITPIX", "ZNAXIS"):
        return False
    return keyword in TABLE or header._is_reserved_keyword(keyword)


def same_settings(hdu):
    """Whether the image would be compressed as its tiles were."""
    table = hdu._bintable.header
    setting = _tiled_compression._get_compression_setting
    zcmptype = table.get("ZCMPTYPE", settings.DEFAULT_COMPRESSION_TYPE)
    aliases = getattr(settings, "CMTYPE_ALIASES", {})
    method = table.get("ZQUANTIZ", "NO_DITHER")
    return (
        hdu.compression_type == aliases.get(zcmptype, zcmptype)
        and tuple(hdu.tile_shape) == tuple(tile_shape_of(table))
        and hdu.hcomp_scale == int(setting(table, "SCALE", settings.DEFAULT_HCOMP_SCALE))
        and hdu.hcomp_smooth == setting(table, "SMOOTH", settings.DEFAULT_HCOMP_SMOOTH)
        and hdu.quantize_level == setting(table, "noisebit", settings.DEFAULT_QUANTIZE_LEVEL)
        and hdu.quantize_method == _quantization.DITHER_METHODS[method]
        and hdu.dither_seed == table.get("ZDITHER0", settings.DEFAULT_DITHER_SEED)
    )


def same_pixels(hdu):
    """Whether the array of an HDU still is what its tiles decode to, bit for bit."""
    array, bintable = hdu.data, hdu._bintable
    table = bintable.header
    shape = tuple(table[f"ZNAXIS{k}"] for k in range(table["ZNAXIS"], 0, -1))
    if array.shape != shape or array.size == 0 or isinstance(array, np.ma.MaskedArray):
        return False
    height = int(tile_shape_of(table)[0])
    height *= max(1, CHUNK_NPIXELS * shape[0] // (array.size * height))
    for start in range(0, shape[0], height):
        part = array[start : start + height]
        ranges = [range(start, start + len(part)), *(range(n) for n in shape[1:])]
        tiles = hdu._scale_data(stored_pixels(bintable, rows_of(bintable), table, ranges))
        if part.dtype.newbyteorder("=") != tiles.dtype.newbyteorder("="):
            return False
        part = np.ascontiguousarray(part, part.dtype.newbyteorder("="))
        if not np.array_equal(part.view(np.uint8), np.ascontiguousarray(tiles).view(np.uint8)):
            return False
    return True


def is_as_stored(bintable):
    """Whether the tiles are there to be read, and the rows of the table are those of the file."""
    file = bintable._file
    if not bintable._buffer and (file is None or file.closed):
        return False
    if not bintable._data_loaded:
        return True
    rows = row_bytes(bintable.data)
    with file_lock(bintable):
        stored = bintable._get_raw_data(rows.size, np.uint8, bintable._data_offset)
    return stored is not None and np.array_equal(rows, stored)


def merged(tiles_header, image_header):
    """The cards of the tiles from one table header, those of the image from the other.

    They stand in the order of the second; what only the first has stands behind what is before it
    there.
    """
    result = image_header.copy()
    for keyword in [keyword for keyword in result if describes_tiles(keyword)]:
        if keyword not in tiles_header:
            result.remove(keyword, ignore_missing=True, remove_all=True)
    previous = None
    for card in tiles_header.cards:
        if not describes_tiles(card.keyword):
            continue
        if card.keyword not in result:
            result.set(card.keyword, card.value, card.comment, after=previous)
        elif not card.keyword.startswith(SHAPE) and card.value != result[card.keyword]:
            result[card.keyword] = card.value, card.comment
        elif not card.keyword.startswith(SHAPE):
            result.comments[card.keyword] = card.comment
        previous = card.keyword
    return result


def same_description(hdu):
    """Whether the header of an image still says of its pixels what the header of its tiles says.

    astropy takes BSCALE, BZERO and BLANK out of the header when it has applied them to an array.
    """
    image, tiles = hdu.header, hdu._bintable.header
    pairs = [("BITPIX", "ZBITPIX"), ("NAXIS", "ZNAXIS")]
    pairs += [(f"NAXIS{k + 1}", f"ZNAXIS{k + 1}") for k in range(tiles["ZNAXIS"])]
    if any(image.get(a) != tiles[b] for a, b in pairs):
        return False
    if not hdu._has_data:
        return True
    for keyword, default in SCALING.items():
        found = image.get(keyword, tiles.get(keyword) if applied(hdu) else default)
        if found != tiles.get(keyword, default):
            return False
    return True


def applied(hdu):
    """Whether reading the array of an HDU took the scaling out of its header."""
    scaled = hdu._orig_bscale != 1 or hdu._orig_bzero != 0
    return scaled and not hdu._do_not_scale_image_data and hdu.data.dtype.kind != "u"


def kept_header(hdu):
    """The table header for an HDU that keeps its tiles; None if they are not those of the image."""
    bintable = hdu._bintable
    if bintable is None or hdu._scale_back or not is_as_stored(bintable):
        return None
    if not hdu._has_data and not hdu.header._modified:
        return bintable.header
    if not same_settings(hdu) or not same_description(hdu):
        return None
    if hdu._has_data and (hdu._data_replaced or not same_pixels(hdu)):
        return None
    new, old = hdu._get_bintable_without_data().header, bintable.header
    for keyword in SCALING if hdu._has_data and applied(hdu) else ():
        if keyword in old and keyword not in new:
            new.append((keyword, old[keyword], old.comments[keyword]))
    return merged(old, new)


def keep_tiles(hdu):
    """Give the table of an HDU the cards of its image, and leave its tiles, if that is all.

    The rows of the table are forgotten, so that its data unit will be copied as a whole: astropy
    leaves the heap out when it writes a table of which it has read the rows only.

    Parameters
    ----------
    hdu : astropy.io.fits.CompImageHDU

    Returns
    -------
    bool
        False if the tiles have to be made (again); nothing was changed then.
    """
    try:
        header = kept_header(hdu)
    except Exception:
        # Whatever stands in the way of keeping tiles, an HDU can still be written as astropy does
        # it; and if it cannot, that is where the error is to come from.
        return False
    if header is None:
        return False
    hdu._bintable.header = header
    vars(hdu._bintable).pop("data", None)
    return True
