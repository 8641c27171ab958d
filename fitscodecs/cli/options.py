# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Arguments that several commands take."""

from ..hdu import find, walk
from ..header import is_compressed, is_plain_image
from ..image import TiledImage

__all__ = ["add_hdu", "add_output", "choose_image"]


def hdu_choice(text):
    """A position, an EXTNAME, or ``EXTNAME,EXTVER``."""
    if text.lstrip("+-").isdigit():
        return int(text)
    name, comma, version = text.rpartition(",")
    return (name, int(version)) if comma and version.strip().isdigit() else text


def add_hdu(parser, default):
    parser.add_argument(
        "--hdu",
        type=hdu_choice,
        metavar="H",
        help=f"position (0 is the primary HDU), EXTNAME or EXTNAME,EXTVER; default: {default}",
    )


def add_output(parser, metavar, what):
    parser.add_argument("-o", "--output", metavar=metavar, required=True, help=what)
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it exists")


def choose_image(source, which, scaled=True):
    """The image of an HDU; without a choice the first compressed one, else the first plain one."""
    if which is not None:
        return TiledImage(source, find(source, which), scaled)
    hdus = list(walk(source))
    for test in (is_compressed, is_plain_image):
        for hdu in hdus:
            if test(hdu.header):
                return TiledImage(source, hdu, scaled)
    return TiledImage(source, find(source, None), scaled)
