# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Write a section of an image as a plain FITS file.

SECTION counts as FITS does: from 1, both ends included, NAXIS1 first. [x1:x2,y1:y2] is a box, * a
whole axis, -* a whole axis reversed, a single number one pixel of an axis, x1:x2:s every s-th.
Instead of it, --center and --size choose a box on the sky; the center is ICRS, whatever the
coordinates of the image are.

Only the tiles that hold the section are read and decoded. Pixels are stored as they are in the
image, with its BSCALE, BZERO and BLANK; coordinates are those of the section.
"""

import contextlib
import os

import numpy as np

from ..errors import FitsCodecsError
from ..grid import plan
from ..header import BLOCK
from ..source import InflatedSource, Source, coalesce, open_source
from .failures import CommandError, naming
from .options import add_hdu, add_output, choose_image
from .output import refuse_target, replacing
from .report import counted, size_name
from .section import parse_section, resolve, section_text
from .wcs import around, join_sizes, move_coordinates

EXAMPLES = """\
  fitscodecs cutout image.fits.fz "[101:200,51:80]" -o cutout.fits
  fitscodecs cutout cube.fits.fz "*,*,17" -o plane.fits
  fitscodecs cutout image.fits.fz "[*:4,*:4]" -o every4th.fits
  fitscodecs cutout image.fits.fz --center 13:29:52.7 -47:11:43 --size 2arcmin -o m51.fits
  fitscodecs cutout image.fits.fz --center 202.47 47.195 --size 200 100 -o box.fits
  fitscodecs cutout https://example.org/image.fits.fz "[1:100,1:100]" -o corner.fits"""

# Keywords that say how a whole HDU is stored.
STORAGE = (
    "SIMPLE",
    "XTENSION",
    "BITPIX",
    "NAXIS",
    "PCOUNT",
    "GCOUNT",
    "GROUPS",
    "EXTEND",
    "BLOCKED",
    "INHERIT",
    "CHECKSUM",
    "DATASUM",
)

# Suffixes of files that are compressed, which cutouts are not.
PACKED = (".fz", ".gz", ".bz2", ".xz", ".z", ".zst", ".zip")


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="path or URL")
    parser.add_argument(
        "section",
        metavar="SECTION",
        nargs="?",
        type=parse_section,
        help="pixels, as [x1:x2,y1:y2]; brackets may be left out",
    )
    add_hdu(parser, "the first compressed image")
    parser.add_argument(
        "--center",
        nargs=2,
        metavar=("RA", "DEC"),
        help="middle of the box, ICRS: degrees, or hours and degrees",
    )
    parser.add_argument(
        "--size",
        metavar="SIZE",
        help="side of the box, or WIDTH,HEIGHT: pixels, or angles such as 2arcmin; a blank may "
        "stand for the comma",
    )
    parser.prepare = join_sizes
    add_output(parser, "OUT", "FITS file to write")
    parser.set_defaults(usage_error=parser.error)


def run(args):
    on_sky = bool(args.center or args.size)
    if on_sky and not (args.center and args.size):
        args.usage_error("--center RA DEC goes with --size SIZE")
    if on_sky == (args.section is not None):
        args.usage_error("wanted either SECTION or --center and --size")
    refuse_target(args.output, args.overwrite)
    refuse_suffix(args.output)
    with (
        naming(args.file),
        contextlib.closing(CountedSource(open_source(args.file))) as source,
    ):
        image = choose_image(source, args.hdu, scaled=False)
        if on_sky:
            with header_faults(image):
                ranges = around(image.header, image.shape, args.center, args.size)
        else:
            ranges = resolve(args.section, image.shape[::-1])
        write_cutout(image, ranges, args.output, args.overwrite)
        print(summary(image, ranges, source, args.output))
    return 0


def refuse_suffix(path):
    """Raise CommandError for a name that promises a compressed file."""
    suffix = os.path.splitext(path)[1]
    if suffix.lower() in PACKED:
        raise CommandError(f"{path}: a cutout is a plain FITS file: leave {suffix} out of its name")


class CountedSource(Source):
    """Another source, and what was read of it."""

    def __init__(self, source):
        self.source = source
        self.name, self.gap = source.name, source.gap
        self.ranges = [(0, len(source.first()))]  # which opening it has read

    @property
    def nbytes(self):
        """Bytes of the file that were read; None if it was inflated, all of it."""
        if isinstance(self.source, InflatedSource):
            return None
        start, stop = np.array(self.ranges, np.int64).T
        return sum(last - first for first, last in coalesce(start, stop, 0)[0])

    @property
    def size(self):
        return self.source.size

    def first(self):
        return self.source.first()

    def require_open(self):
        self.source.require_open()

    def read_ranges(self, ranges):
        buffers = self.source.read_ranges(ranges)
        self.ranges += [(r[0], r[0] + len(b)) for r, b in zip(ranges, buffers, strict=True)]
        return buffers

    def read_range(self, start, stop):
        return self.read_ranges([(start, stop)])[0]

    def close(self):
        self.source.close()


# ---------------------------------------------------------------------------- writing


def write_cutout(image, ranges, path, overwrite=False):
    """Write part of an image as the primary HDU of a plain file.

    Parameters
    ----------
    image : TiledImage
        Opened with ``scaled=False``, so that pixels are written as they are stored.
    ranges : sequence of range
        Pixels of each axis, from 0, NAXIS1 first.
    path : path-like
    overwrite : bool
    """
    header = cutout_header(image, ranges)
    pixels = image[tuple(as_slice(r) for r in reversed(ranges))]
    cards = header.tostring(endcard=True, padding=True).encode("ascii", "replace")
    with replacing(path, overwrite) as file:
        file.write(cards)
        file.write(np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")))
        file.write(bytes(-pixels.nbytes % BLOCK))


def as_slice(pixels):
    stop = pixels.stop if pixels.stop >= 0 else None  # -1 would mean the last pixel
    return slice(pixels.start, stop, pixels.step)


@contextlib.contextmanager
def header_faults(image):
    """Cards that astropy cannot read are found when they are looked at."""
    from astropy.io.fits.verify import VerifyError

    try:
        yield
    except FitsCodecsError:
        raise
    except (VerifyError, ValueError) as error:
        raise CommandError(f"{image.hdu.label}: {error}") from error


def cutout_header(image, ranges):
    """The header of a plain primary HDU that holds a section of an image."""
    from astropy.io.fits import Header

    header = Header()
    header["SIMPLE"] = (True, "conforms to FITS standard")
    header["BITPIX"] = (image.structure.bitpix, "data type of the pixels")
    header["NAXIS"] = (image.ndim, "number of axes")
    for i, pixels in enumerate(ranges, 1):
        header[f"NAXIS{i}"] = (len(pixels), f"length of axis {i}")
    with header_faults(image):
        for card in image.header.cards:
            if card.keyword not in STORAGE and not is_axis(card.keyword):
                header.append(card, end=True)
        set_blank(header, image.structure)
        move_coordinates(header, ranges)
        header.add_history(f"Section {section_text(ranges)} of HDU {image.hdu.index}")
        header.tostring()  # looks at every card
    return header


def is_axis(keyword):
    return keyword.startswith("NAXIS") and keyword[5:].isdigit()


def set_blank(header, structure):
    """BLANK belongs to integers only; compressed ones may name it ZBLANK."""
    if structure.bitpix < 0:
        header.remove("BLANK", ignore_missing=True)
    elif structure.scaling.has_blank:
        header["BLANK"] = structure.scaling.blank


def summary(image, ranges, source, path):
    pieces = plan(image.shape, image.tile_shape, list(reversed(ranges)))
    axes = " x ".join(str(len(r)) for r in ranges)
    costs = []
    if image.compressed:
        costs.append(f"{len(pieces)} of {counted(len(image._table), 'tile')} decoded")
    if source.nbytes is not None:
        whole = f" of {size_name(source.size)}" if source.size else ""
        costs.append(f"{size_name(source.nbytes)}{whole} read")
    written = f"{path}: {axes} pixels {section_text(ranges)} of {image.hdu.label}"
    return "; ".join(filter(None, [written, ", ".join(costs)]))
