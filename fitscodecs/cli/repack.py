# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Change the algorithm or the tiles of packed images, without further loss.

Every image has the same pixels afterwards, bit by bit. Quantized floats are not quantized again:
the integers, scale, zero point and dither of each tile stay, which is why their tiles cannot be cut
in another way. Floats without loss keep their algorithm if the new one holds only integers.
Integers that a lossy HCOMPRESS_1 has changed are kept as they are, without loss from then on.

Tiles that are not asked for stay as they are if the algorithm can hold them. A folder stands for
every *.fits, *.fit and *.fz in it that holds compressed images.
"""

import functools

from ..repack import RepackOptions, repack_file
from .batch import run_jobs
from .jobs import add_common, add_delete, collect
from .pack import add_algorithms, add_tiles, chosen_codec

EXAMPLES = """\
  fitscodecs repack --algorithm gzip2 image.fits.fz -o smaller.fits.fz
  fitscodecs repack -t 256,256 -F image.fits.fz
  fitscodecs repack --hcompress -F night/"""

ANY = (".fz", ".fits", ".fit")


def add_arguments(parser):
    add_algorithms(parser)
    add_tiles(parser)
    add_common(parser, "repack")
    add_delete(parser)


def run(args):
    if not (args.output or args.in_place):
        args.usage_error("wanted -o OUT or --in-place")
    codec = chosen_codec(args)
    if codec is None and args.tiles is None and not args.whole:
        args.usage_error("wanted an algorithm, or tiles")
    options = RepackOptions(codec, args.tiles, args.whole)
    convert = functools.partial(repack_file, options=options)
    jobs = collect(args, ANY, lambda path: path, convert, "compressed")
    return run_jobs(jobs, args, "repack")[0]
