# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Read the compressed images that come with astropy, and draw them.

For each image this prints what it is, draws a preview, and takes a small cutout, which is compared
in time with decoding everything. Pictures and cutouts go to OUTDIR.
"""

import sys
import time
from pathlib import Path

import numpy as np

from ..image import open_image
from .cutout import write_cutout
from .failures import CommandError
from .info import describe_file, print_report
from .preview import write_preview

EXAMPLES = """\
  fitscodecs demo demo
  python -m fitscodecs.cli.demo demo"""

# Folders of astropy.io.fits with test data, and the images in them.
IMAGES = (
    ("tests/data", "comp.fits"),
    ("hdu/compressed/tests/data", "m13_*.fits"),
)
BLOCK_ROWS, BLOCK_COLUMNS = 5, 8


def add_arguments(parser):
    parser.add_argument(
        "outdir", metavar="OUTDIR", help="folder for what is written; made if absent"
    )


def run(args):
    began = time.perf_counter()
    images = find_images()
    outdir = Path(args.outdir)
    outdir.mkdir(parents=True, exist_ok=True)
    print(f"{len(images)} compressed images that come with astropy\n")
    written = []
    for path in images:
        print_report(describe_file(str(path)))
        written += show_image(path, outdir)
        print()
    print(f"Written in {time.perf_counter() - began:.1f} s:")
    for path, what in written:
        print(f"  {path}  {what}")
    return 0


def find_images():
    """Paths of the compressed images in astropy's package, which tests of astropy use."""
    import astropy.io.fits

    base = Path(astropy.io.fits.__file__).parent
    images = [path for folder, name in IMAGES for path in sorted((base / folder).glob(name))]
    if not images:
        raise CommandError(
            f"astropy in {base} comes without its test data: nothing to show; "
            "try 'fitscodecs preview' on a file of yours"
        )
    return images


def show_image(path, outdir):
    """Preview and cutout of one image; gives the files written and what they are."""
    picture, cutout = outdir / f"{path.stem}.png", outdir / f"{path.stem}_cutout.fits"
    with open_image(path) as image:
        write_preview(image, path.name, picture, overwrite=True)
        corner = show_cutout(image)
    with open_image(path, scaled=False) as stored:
        write_cutout(stored, corner, cutout, overwrite=True)
    return [
        (picture, "image, and maps of its tiles"),
        (cutout, f"{' x '.join(str(len(r)) for r in corner)} pixels, a plain FITS image"),
    ]


def show_cutout(image):
    """Print a block of pixels from the middle, and times; gives ranges of 50 x 50 pixels."""
    rows, columns = (slice(n // 2 - 25, n // 2 + 25) for n in image.shape)
    seconds, pixels = timed(lambda: image[rows, columns])
    whole, _ = timed(image.read)
    print(
        f"img[{rows.start}:{rows.stop}, {columns.start}:{columns.stop}] "
        f"in {seconds * 1e3:.2f} ms, all pixels in {whole * 1e3:.2f} ms; its corner:"
    )
    print(block_text(pixels[:BLOCK_ROWS, :BLOCK_COLUMNS]))
    return [range(axis.start, axis.stop) for axis in (columns, rows)]


def timed(work):
    """Best time of three, and the result."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def block_text(pixels):
    width = max(len(str(value)) for value in np.ravel(pixels)) + 2
    return "\n".join("".join(str(value).rjust(width) for value in row) for row in pixels)


if __name__ == "__main__":
    from . import main

    sys.exit(main(["demo", *sys.argv[1:]]))
