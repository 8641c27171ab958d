# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Write the chunks of a zarr array of HDUs as FITS files.

Every chunk of an array with the codec fitscodecs.tiled is a complete image HDU. With an empty
primary HDU in front of it, it is a FITS file that every reader knows. Pixels are not decoded, and
the files hold the bytes of the chunks. Arrays of references can be exported as well.

The files are called NAME_0_1.fits after the array and the position of the chunk; of an array with
one chunk, NAME.fits. Chunks that were never written have no file. Files appear whole or not at all.
"""

import os

from .failures import CommandError
from .output import replacing
from .references import options
from .report import counted

EXAMPLES = """\
  fitscodecs export image.zarr -o images/
  fitscodecs export cube.zarr/SCI -o planes/ --overwrite
  fitscodecs export s3://bucket/cube.zarr -o planes/ --storage-options '{"anon": true}'
  fitscodecs export reference://SCI -o planes/ --storage-options '{"fo": "refs.json"}'"""


def add_arguments(parser):
    parser.add_argument("array", metavar="ARRAY", help="path or URL of a zarr array")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        default=".",
        help="where to write; made for several files, or if it ends in /; default: here",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    parser.add_argument(
        "--storage-options", type=options, metavar="JSON", help="settings of fsspec for URLs"
    )


def run(args):
    from ..adapters.zarr.export import chunk_files

    array = opened(args.array, args.storage_options)
    made = array.nchunks > 1 or args.output.endswith(("/", os.sep))
    if not made and not os.path.isdir(args.output):
        raise CommandError(f"{args.output} is no folder to write to")
    whole = args.array if "://" in args.array else os.path.abspath(args.array)
    stem = os.path.basename(whole.rstrip("/")).removesuffix(".zarr") or "chunk"
    written = missing = 0
    try:
        for position, file in chunk_files(array):
            if file is None:
                missing += 1
                continue
            os.makedirs(args.output, exist_ok=True)
            name = stem if array.nchunks == 1 else "_".join(map(str, (stem, *position)))
            with replacing(os.path.join(args.output, f"{name}.fits"), args.overwrite) as target:
                target.writelines(file)
            written += 1
    except ValueError as error:
        raise CommandError(f"{args.array}: {error}") from error
    absent = f", {counted(missing, 'chunk')} never written" if missing else ""
    print(f"{counted(written, 'file')} in {args.output}{absent}")
    return 0


def opened(name, storage_options):
    """The array of a name, for reading."""
    import zarr

    try:
        return zarr.open_array(name, mode="r", storage_options=storage_options)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise CommandError(f"{name}: cannot be opened as a zarr array: {error}") from error
