# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Draw an image beside a map of its tiles.

The maps show what each tile costs, in bits for each pixel, and which column of the table holds it.
Of images with more than two axes the middle plane is drawn, of large ones means of blocks. Row 1
is at the bottom, and axes count as FITS does.
"""

import contextlib
import os

from ..source import open_source
from .failures import CommandError, naming
from .options import add_hdu, add_output, choose_image
from .output import refuse_target, replacing
from .picture import TileMap, draw_line, draw_plane
from .report import codec_name, dither_name, ratio
from .values import STRETCHES

EXAMPLES = """\
  fitscodecs preview image.fits.fz -o image.png
  fitscodecs preview image.fits.fz -o image.png --stretch log --overwrite
  fitscodecs preview image.fits.fz --hdu SCI,2 -o sci2.pdf"""

# Suffixes of pictures, the usual one first.
KINDS = ("png", "pdf", "svg")


def add_arguments(parser):
    parser.add_argument("file", metavar="FILE", help="path or URL")
    add_hdu(parser, "the first compressed image")
    parser.add_argument(
        "--stretch",
        choices=STRETCHES,
        default="zscale",
        help="how values become grey; default: %(default)s",
    )
    add_output(parser, "PNG", "picture to write: .png, .pdf or .svg")


def run(args):
    refuse_target(args.output, args.overwrite)
    kind_of_picture(args.output)
    with naming(args.file), contextlib.closing(open_source(args.file)) as source:
        image = choose_image(source, args.hdu)
        write_preview(image, args.file, args.output, args.stretch, args.overwrite)
    print(f"{args.output}: {image.hdu.label} of {args.file}")
    return 0


def kind_of_picture(path):
    """What to write, by the suffix of the name; CommandError if it is none of `KINDS`."""
    kind = os.path.splitext(path)[1][1:].lower()
    if kind not in KINDS:
        known = ", ".join(f".{kind}" for kind in KINDS)
        raise CommandError(f"{path}: pictures can be written with the suffixes {known}")
    return kind


def write_preview(image, name, path, stretch="zscale", overwrite=False):
    """Draw an image and the maps of its tiles into a file.

    Parameters
    ----------
    image : TiledImage
    name : str
        Of the file, for the title.
    path : path-like
        Its suffix is one of `KINDS`.
    stretch : str
        One of `STRETCHES`.
    overwrite : bool
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tiles = TileMap(image) if image.compressed and image.size else None
    figure = Figure(dpi=100)
    FigureCanvasAgg(figure)
    draw = draw_line if image.ndim == 1 else draw_plane
    draw(figure, image, tiles, stretch)
    place_title(figure, title(image, name))
    with replacing(path, overwrite) as file:
        figure.savefig(file, format=kind_of_picture(path))


def title(image, name):
    """What the picture shows: file and HDU, then how it is compressed."""
    name = name.rstrip("/").rpartition("/")[2] or name
    if len(name) > 60:
        name = f"{name[:28]}...{name[-28:]}"
    name = name.replace("$", r"\$")  # the dollar starts mathematics
    hdu = image.hdu.label.replace("$", r"\$")
    axes = " x ".join(map(str, reversed(image.shape)))
    first = f"{name}   {hdu}   {axes} pixels of {image.dtype}"
    if not image.compressed:
        return f"{first}\nnot compressed"
    factor = ratio(image)
    parts = [codec_name(image), dither_name(image.quantize)]
    parts.append(f"ratio {factor:.2f}" if factor else "")
    return f"{first}\n{'   '.join(part for part in parts if part)}"


def place_title(figure, text):
    """Two lines at the top, smaller where the picture is narrow."""
    text = text.encode("utf-8", "replace").decode()  # file names may be no text
    width = max(map(len, text.splitlines()))
    size = min(11, 11 * figure.get_figwidth() / (0.09 * width))
    top = 1 - 0.15 / figure.get_figheight()
    figure.suptitle(text, fontsize=size, y=top, verticalalignment="top")
