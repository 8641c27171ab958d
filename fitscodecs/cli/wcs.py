# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Coordinates of a section: keywords that count pixels, and the way from the sky to pixels."""

import contextlib
import math
import re
import warnings

from .failures import CommandError

__all__ = ["around", "join_sizes", "move_coordinates"]

COORDINATES = re.compile(r"(?:CTYPE|CRVAL|CRPIX|CDELT|(?:CD|PC)\d+_)(\d+)([A-Z]?)")
MATRIX = r"{}(\d+)_(\d+){}"
SIP = re.compile(r"(A|B|AP|BP)_(\d+)_(\d+)")


# ---------------------------------------------------------------------------- keywords


def move_coordinates(header, ranges):
    """Change the keywords that count pixels to what they are in a section of the image.

    Pixel p of an axis becomes (p - first) / step + 1. CRPIX moves so, the matrix (CD, PC or CDELT)
    grows by the step, in all coordinate descriptions; so do SIP coefficients, and the LTV and LTM
    of the physical coordinates of IRAF. Lookup tables in other HDUs are left alone.

    Parameters
    ----------
    header : astropy.io.fits.Header
        Changed in place.
    ranges : sequence of range
        Pixels of each axis, from 0, NAXIS1 first.
    """
    moved = [axis for axis, r in enumerate(ranges, 1) if r[0] != 0 or r.step != 1]
    described = {
        (int(match[1]), match[2]) for match in map(COORDINATES.fullmatch, list(header)) if match
    }
    if uneven_rotation(header, ranges):
        matrix_of_rotation(header)
    for axis, version in sorted(described):
        if axis in moved:
            move_reference(header, axis, version, ranges[axis - 1])
            stretch(header, axis, version, ranges[axis - 1].step)
    if len(ranges) > 1:
        stretch_sip(header, ranges[0].step, ranges[1].step)
    for axis in moved:
        move_physical(header, axis, ranges[axis - 1], len(ranges))


def number(header, keyword, default):
    """A number of the header; whatever else stands there cannot be moved."""
    value = header.get(keyword, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CommandError(f"{keyword} is {value!r}, wanted a number")
    return float(value)


def move_reference(header, axis, version, pixels):
    keyword = f"CRPIX{axis}{version}"
    header[keyword] = (number(header, keyword, 0) - 1 - pixels[0]) / pixels.step + 1


def stretch(header, axis, version, step):
    """Multiply by the step what one pixel along an axis adds to the coordinates."""
    if step == 1:
        return
    for kind in ("CD", "PC"):
        pattern = re.compile(MATRIX.format(kind, version))
        elements = [match for match in map(pattern.fullmatch, list(header)) if match]
        if not elements:
            continue
        if kind == "PC":  # its diagonal is 1 where nothing is said
            header.setdefault(f"PC{axis}_{axis}{version}", 1.0)
            elements.append(pattern.fullmatch(f"PC{axis}_{axis}{version}"))
        for keyword in {match[0] for match in elements if int(match[2]) == axis}:
            header[keyword] = number(header, keyword, 0) * step
        return
    header[f"CDELT{axis}{version}"] = number(header, f"CDELT{axis}{version}", 1) * step


def uneven_rotation(header, ranges):
    """Whether CROTA2 cannot describe the section, as its pixels are stretched unevenly."""
    if len(ranges) < 2 or ranges[0].step == ranges[1].step or not number(header, "CROTA2", 0):
        return False
    if not number(header, "CDELT1", 1) or not number(header, "CDELT2", 1):
        return False  # no WCS: pixels of no size
    return not any(re.fullmatch(r"(CD|PC)\d+_\d+", keyword) for keyword in header)


def matrix_of_rotation(header):
    """Replace CROTA2 by the matrix PC (Calabretta and Greisen 2002, section 6.1)."""
    angle = math.radians(number(header, "CROTA2", 0))
    ratio = number(header, "CDELT2", 1) / number(header, "CDELT1", 1)
    header["PC1_1"], header["PC2_2"] = math.cos(angle), math.cos(angle)
    header["PC1_2"] = -math.sin(angle) * ratio
    header["PC2_1"] = math.sin(angle) / ratio
    for keyword in ("CROTA1", "CROTA2"):
        header.remove(keyword, ignore_missing=True)


def stretch_sip(header, step1, step2):
    """SIP polynomials take and give pixels: x to the p becomes (x step) to the p."""
    if step1 == step2 == 1:
        return
    for keyword in list(header):
        if match := SIP.fullmatch(keyword):
            own = step1 if match[1].startswith("A") else step2
            factor = step1 ** int(match[2]) * step2 ** int(match[3]) / own
            header[keyword] = number(header, keyword, 0) * factor


def move_physical(header, axis, pixels, naxis):
    """IRAF: image pixel = LTM * physical pixel + LTV."""
    rows = [f"LTM{axis}_{other}" for other in range(1, naxis + 1)]
    offset, diagonal = f"LTV{axis}", f"LTM{axis}_{axis}"
    if offset not in header and not any(keyword in header for keyword in rows):
        return
    header[offset] = (number(header, offset, 0) - 1 - pixels[0]) / pixels.step + 1
    if pixels.step != 1:
        header.setdefault(diagonal, 1.0)
        for keyword in rows:
            if keyword in header:
                header[keyword] = number(header, keyword, 0) / pixels.step


# ---------------------------------------------------------------------------- the sky


def around(header, shape, center, size):
    """Pixels around a place on the sky, cut off where the image ends.

    Parameters
    ----------
    header : astropy.io.fits.Header
        Of the whole image.
    shape : tuple of int
        Of the whole image, in C order.
    center : (str, str)
        Right ascension and declination, ICRS: degrees, sexagesimal (hours and degrees), or with
        units.
    size : str
        Width and, if it differs, a comma and height: pixels, or angles with units.

    Returns
    -------
    list of range
        One for each axis, NAXIS1 first; axes that are not on the sky are whole.
    """
    from astropy.wcs import WCS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # WCS tells what it repairs, which changes no pixel here
        try:
            coordinates = WCS(header)
            celestial = coordinates.celestial if coordinates.has_celestial else None
            place = celestial and pixel_of(celestial, center)
        except CommandError:
            raise
        except Exception as error:
            raise CommandError(f"the image's coordinates cannot be used: {error}") from error
    if celestial is None:
        raise CommandError("the image has no celestial coordinates: give a section of pixels")
    axes = sorted([coordinates.wcs.lng, coordinates.wcs.lat])
    extent = size_in_pixels(celestial, size)
    ranges = [range(n) for n in reversed(shape)]
    for axis, middle, width in zip(axes, place, extent, strict=True):
        start = math.ceil(middle - width / 2)
        ranges[axis] = range(max(0, start), min(start + width, len(ranges[axis])))
        if not ranges[axis]:
            raise CommandError(
                f"{' '.join(center)} is at pixel {place[0] + 1:.1f}, "
                f"{place[1] + 1:.1f}: outside the image"
            )
    return ranges


def pixel_of(celestial, center):
    """Pixel of a place on the sky, from 0."""
    from astropy.coordinates import SkyCoord

    try:
        degrees = all(math.isfinite(float(text)) for text in center)
    except ValueError:
        degrees = False
    try:
        sky = SkyCoord(*center, unit="deg" if degrees else ("hourangle", "deg"))
    except Exception as error:
        raise CommandError(f"{' '.join(center)} is no place on the sky: {error}") from error
    place = [float(x) for x in celestial.world_to_pixel(sky)]
    if not all(math.isfinite(x) for x in place):
        raise CommandError(f"{' '.join(center)} is outside the image's projection")
    return place


def join_sizes(args):
    """Arguments where a second one that is a size, after --size, follows the first and a comma.

    So --size takes two, and leaves alone what else stands behind it.
    """
    args = list(args)
    for i in range(len(args) - 3, -1, -1):
        option, first, second = args[i : i + 3]
        if len(option) > 2 and "--size".startswith(option) and is_size(first) and is_size(second):
            args[i + 1 : i + 3] = [f"{first},{second}"]
    return args


def is_size(text):
    """Whether this is a number, with or without a unit."""
    from astropy.units import Quantity

    with contextlib.suppress(TypeError, ValueError):
        Quantity(text)
        return True
    return False


def size_in_pixels(celestial, size):
    """Width and height in whole pixels, at least 1."""
    from astropy.units import Quantity, deg, dimensionless_unscaled
    from astropy.wcs.utils import proj_plane_pixel_scales

    texts = size.split(",")
    if len(texts) > 2:
        raise CommandError(f"--size {size}: wanted a width, or a width and a height")
    texts = texts * (2 // len(texts))
    extent = []
    for text, scale in zip(texts, proj_plane_pixel_scales(celestial), strict=True):
        try:
            quantity = Quantity(text)
            if quantity.unit in (dimensionless_unscaled, "pix"):
                pixels = quantity.value
            else:
                pixels = quantity.to_value(deg) / scale
            extent.append(max(1, round(float(pixels))))
        except (TypeError, ValueError, OverflowError) as error:
            raise CommandError(f"--size {text}: {error}") from error
        if pixels <= 0:
            raise CommandError(f"--size {text}: wanted more than 0")
    return extent
