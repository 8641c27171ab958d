# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Compress the images of files into tiles, as fpack does.

a.fits becomes a.fits.fz beside it. Integers are kept without loss, in RICE_1 unless another
algorithm is asked for. Floats are kept without loss too, in GZIP_2, unless -q asks for
quantization; what that would save is told. --like-fpack quantizes floats as fpack does when nothing
is said. HDUs that are no images, and images that are packed already, are copied byte for byte.

A folder stands for every *.fits and *.fit in it; those that are packed already are skipped. A file
that was gzipped as a whole is read through: a.fits.gz becomes a.fits.fz. Files appear whole or not
at all, also if the command is killed. A file that fails does not keep others from being done; the
exit status is 0 only if all were.
"""

import argparse
import functools
from dataclasses import replace

from ..codecs import CODECS, Quantize, codec_class
from ..pack import PackOptions, pack_file
from .batch import run_jobs
from .failures import CommandError, each_file
from .jobs import add_common, add_delete, collect, found, tiles
from .trial import print_trial, saving

EXAMPLES = """\
  fitscodecs pack image.fits
  fitscodecs pack -q 4 image.fits -o smaller.fits.fz
  fitscodecs pack --hcompress -s 2.5 -t 200,200 image.fits
  fitscodecs pack --trial image.fits
  fitscodecs pack night/ -o packed/ --jobs 8
  fitscodecs pack -D *.fits"""

PLAIN = (".fits", ".fit")
LEVEL = 4.0  # of quantization, as fpack has it
UNSUPPORTED = {
    "-n": "rescaling integers changes them for good",
    "-i2f": "integers are not turned into floats: use --hcompress -s for lossy integers",
}


# ---------------------------------------------------------------------------- arguments


def algorithms():
    """The codecs by their short names: that of ZCMPTYPE, with its number where two share it."""
    names = [codec.zcmptype[0].lower() for codec in CODECS]
    stems = [name.rpartition("_")[0] or name for name in names]
    return {
        stem if stems.count(stem) == 1 else name.replace("_", ""): codec.zcmptype[0]
        for name, stem, codec in zip(names, stems, CODECS, strict=True)
    }


class Refused(argparse.Action):
    """An option of fpack that is not taken over, and why."""

    def __call__(self, parser, namespace, values, option_string=None):
        parser.error(f"{option_string} is not supported: {UNSUPPORTED[option_string]}")


def add_algorithms(parser):
    """The choice of an algorithm, by its name or as fpack has it."""
    known = algorithms()
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--algorithm", choices=sorted(known), help="for all images that it can hold")
    for flags, name in (
        (["-r"], "rice"),
        (["-g", "-g1"], "gzip1"),
        (["-g2"], "gzip2"),
        (["-p"], "plio"),
        (["--hcompress"], "hcompress"),
    ):
        group.add_argument(*flags, dest="algorithm", action="store_const", const=name,
                           help=known[name])  # fmt: skip


def add_tiles(parser):
    """The choice of tiles."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-t", "--tiles", type=tiles, metavar="NX,NY", help="tiles; NAXIS1 first, such as 100,100"
    )
    group.add_argument(
        "-w", "--whole", action="store_true", help="one tile for each image or plane of a cube"
    )


def add_quantization(parser):
    """How floats are quantized, as fpack has it."""
    group = parser.add_mutually_exclusive_group()
    for flag, help_text in (
        ("-q", "quantize floats in steps of noise / LEVEL, or of -LEVEL if negative; 0: no loss"),
        ("-q0", "like -q, without dithering"),
        ("-qz", "like -q; pixels that are exactly 0 stay so"),
    ):
        dest = {"-q": "dither1", "-q0": "no_dither", "-qz": "dither2"}[flag]
        group.add_argument(flag, dest=dest, type=float, metavar="LEVEL", help=help_text)
    parser.add_argument(
        "--seed",
        type=seed,
        default="checksum",
        metavar="N",
        help="of the dithering: 1 to 10000, 'checksum' (of the first tile, the default) or 'clock'",
    )


def add_arguments(parser):
    add_algorithms(parser)
    add_tiles(parser)
    add_quantization(parser)
    parser.add_argument(
        "-s",
        dest="scale",
        type=float,
        metavar="SCALE",
        help="let HCOMPRESS lose: times the noise of a tile, or the scale itself if negative",
    )
    parser.add_argument(
        "--smooth", action="store_true", help="let readers smooth what HCOMPRESS has lost"
    )
    parser.add_argument(
        "--like-fpack",
        action="store_true",
        help="quantize floats with level 4 and dithering unless -q says otherwise",
    )
    parser.add_argument(
        "--trial", action="store_true", help="compare all algorithms on these files; write nothing"
    )
    for flag in UNSUPPORTED:
        parser.add_argument(flag, nargs="?", action=Refused, help=argparse.SUPPRESS)
    add_common(parser, "pack")
    add_delete(parser)


def seed(text):
    """A seed of `Quantize`."""
    value = int(text) if text.isdigit() else text
    try:
        return Quantize(seed=value).seed
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


# ---------------------------------------------------------------------------- what was asked for


def chosen_codec(args):
    """The name of the algorithm, or None."""
    return args.algorithm and algorithms()[args.algorithm]


def quantization(args):
    """How to quantize floats, or None."""
    asked = {
        "SUBTRACTIVE_DITHER_1": args.dither1,
        "NO_DITHER": args.no_dither,
        "SUBTRACTIVE_DITHER_2": args.dither2,
    }
    for method, level in asked.items():
        if level is not None:
            return quantize_with(args, level, method)
    return quantize_with(args, LEVEL, "SUBTRACTIVE_DITHER_1") if args.like_fpack else None


def quantize_with(args, level, method):
    codec = chosen_codec(args)
    if args.like_fpack and codec and codec_class(codec).clips and method.endswith("2"):
        method = "SUBTRACTIVE_DITHER_1"  # fpack says nothing and does this
    try:
        return Quantize(level=level, method=method, seed=args.seed) if level else None
    except ValueError as error:
        args.usage_error(str(error))


def pack_options(args):
    """`PackOptions` of a command line."""
    codec = chosen_codec(args)
    if (args.scale is not None or args.smooth) and not (
        codec and "scale" in codec_class(codec).per_tile
    ):
        args.usage_error("-s and --smooth go with --hcompress")
    if args.smooth:
        codec = codec_class(codec)(smooth=1)
    return PackOptions(
        codec, args.tiles, quantization(args), args.scale, args.whole, args.like_fpack
    )


def packed_name(path):
    """The name with .fz, which stands for .gz as well."""
    if path.lower().endswith(".fz"):
        raise CommandError("the name ends in .fz: say -o or --in-place")
    return (path[:-3] if path.lower().endswith(".gz") else path) + ".fz"


def run(args):
    options = pack_options(args)
    if args.trial:
        files = [file for file, _ in found(args.files, PLAIN, args.recursive)]
        return each_file(files, lambda file: print_trial(file, options))
    convert = functools.partial(pack_file, options=options)
    jobs = collect(args, PLAIN, packed_name, convert, "plain")
    status, finished = run_jobs(jobs, args, "pack")
    if options.quantize is None:
        tell_saving(finished, options)
    elif any(hdu.lossy and hdu.floats for report in reports(finished) for hdu in report.hdus):
        quantize = options.quantize
        print(f"lossy floats: quantized at level {quantize.level:g}, {quantize.method}")
    elif not args.like_fpack and not any(
        hdu.floats for report in reports(finished) for hdu in report.hdus
    ):
        print("nothing was quantized: -q is for floats, and there are none; for lossy integers say "
              "--hcompress -s")  # fmt: skip
    return status


def reports(finished):
    return (outcome.report for _, outcome in finished if outcome.report)


def tell_saving(finished, options):
    """What quantization would save, estimated from some tiles of the first image of floats."""
    for job, outcome in finished:
        for hdu in outcome.report.hdus if outcome.report else ():
            if hdu.what == "compressed" and hdu.floats:
                quantize = Quantize(level=LEVEL, method="SUBTRACTIVE_DITHER_1")
                factor = saving(job.target, replace(options, quantize=quantize))
                would = f"make them about {factor:.1f} times smaller" if factor else "save nothing"
                print(
                    f"floats were kept without loss; -q {LEVEL:g} would {would} "
                    f"(an estimate from some tiles of {job.source}, {hdu.label})"
                )
                return
