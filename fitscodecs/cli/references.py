# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Write references to the images of files, so that they are read as zarr.

The images stay where they are: what is written says in which file, and at which of its bytes, each
image is. Headers are read, pixels are not. OUT is a JSON file of kerchunk (.json), a folder of
Parquet files (.parquet), or an icechunk repository (.icechunk).

The images of one file become arrays, named by EXTNAME or position. Many files become one cube,
along a new axis in the order of the files, if their images have the same names, shapes and types;
headers, tiles and algorithms may differ. Files that cannot be read, or are not like most others,
are refused and listed; references to the rest are written, and the exit status is 1.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import replace

from ..references import ALL, CONCURRENCY, changed_targets
from .failures import CommandError, each_file, one_line
from .jobs import found, is_url, positive, scheduler
from .options import add_hdu
from .output import refuse_target
from .report import counted, size_name
from .survey import Describe, as_groups, as_one, survey

EXAMPLES = """\
  fitscodecs references image.fits.fz -o refs.json
  fitscodecs references night/*.fits.fz -o night.parquet --new-axis time --keep DATE-OBS
  fitscodecs references --from urls.txt -o cube.icechunk --jobs 64
  fitscodecs references s3://bucket/a.fits --storage-options '{"anon": true}' -o refs.json
  fitscodecs references --check refs.json"""

SUFFIXES = (".fits", ".fit", ".fz")


def add_arguments(parser):
    parser.add_argument("files", nargs="*", metavar="FILE", help="path, folder or URL")
    parser.add_argument("-o", "--output", metavar="OUT", help="name.json, .parquet or .icechunk")
    parser.add_argument("--overwrite", action="store_true", help="replace references that exist")
    parser.add_argument(
        "--from", dest="lists", action="append", default=[], metavar="LIST",
        help="take names of files from a text file, one in a line; - is standard input",
    )  # fmt: skip
    parser.add_argument("--recursive", action="store_true", help="go into folders of folders")
    add_hdu(parser, "all images")
    parser.add_argument(
        "--unscaled", action="store_true",
        help="pixels as stored; BSCALE, BZERO and BLANK become attributes",
    )  # fmt: skip
    add_together(parser)
    parser.add_argument(
        "--zarr-format", type=int, choices=(2, 3), default=3,
        help="2 is for older readers, which read whole images; default: 3 (Parquet: both)",
    )  # fmt: skip
    parser.add_argument(
        "--storage-options", type=options, default={}, metavar="JSON",
        help="settings of fsspec for URLs",
    )  # fmt: skip
    parser.add_argument(
        "-j", "--jobs", type=positive, metavar="N", default=CONCURRENCY,
        help=f"files that are asked at the same time; default: {CONCURRENCY}",
    )  # fmt: skip
    parser.add_argument(
        "--scheduler", type=scheduler, metavar="ADDRESS",
        help="let a dask cluster read the headers, such as tcp://host:8786",
    )  # fmt: skip
    parser.add_argument(
        "--no-record", action="store_true",
        help="do not record size and ETag of each file, some 100 bytes, which --check compares",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing: tell which files of references, FILE, have changed since",
    )  # fmt: skip
    parser.set_defaults(usage_error=parser.error)


def add_together(parser):
    """Arguments that tell how files go together."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--new-axis", metavar="NAME",
        help="name of the axis that files are stacked along; default for many files: file",
    )  # fmt: skip
    how.add_argument("--axis", metavar="NAME", help="put files behind each other along this axis")
    how.add_argument("--groups", action="store_true", help="a group for each file, of any shape")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="KEYWORD",
        help="keep the values of this keyword, as a variable along the new axis; may be repeated",
    )  # fmt: skip


def options(text):
    """A dictionary in JSON."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'{text!r} is no dictionary such as {{"anon": true}}')
    return value


def listed(path):
    """Names in a text file, one in a line; empty lines and those with # do not count."""
    if path == "-":
        lines = sys.stdin.read().splitlines()
    else:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def run(args):
    if args.check:
        if args.output:
            args.usage_error("--check goes without --output")
        return each_file(args.files, lambda path: check(path, args))
    if not args.output:
        args.usage_error("the following arguments are required: -o/--output")
    if args.keep and (args.axis or args.groups):
        args.usage_error("--keep goes with --new-axis")
    write = writer(args)
    refuse_target(args.output, args.overwrite)
    names = args.files + [name for path in args.lists for name in listed(path)]
    files = [file for file, _ in found(names, SUFFIXES, args.recursive)]
    if not files:
        args.usage_error("no FILE")
    refuse_places(args, files)
    began = time.perf_counter()
    extension = ALL if args.hdu is None else args.hdu
    describe = Describe(extension, not args.unscaled, args.storage_options)
    one_by_one = args.groups or (len(files) == 1 and not (args.new_axis or args.axis or args.keep))
    keep = None if one_by_one else args.keep
    survey_of = survey(files, describe, args.jobs, args.scheduler, keep)
    if survey_of.groups:
        group = together(survey_of, args)
        if args.no_record:
            group = replace(group, targets={})
        write(group)
        tell(args.output, group, survey_of, time.perf_counter() - began)
    return tell_refused(survey_of, len(files))


def together(survey_of, args):
    """One group of all files, in the way that was asked for."""
    if args.groups:
        return as_groups(survey_of)
    if survey_of.keep is None:
        return survey_of.groups[0][1]
    return as_one(survey_of, None if args.axis else args.new_axis or "file", args.axis)


# ---------------------------------------------------------------------------- formats


def kind(path):
    """The format of references, by the suffix of their name."""
    suffix = os.path.splitext(path.rstrip("/"))[1].lower()
    kinds = {".json": "json", ".parquet": "parquet", ".parq": "parquet", ".icechunk": "icechunk"}
    if suffix not in kinds:
        raise CommandError(f"{path}: suffix {suffix!r}, wanted .json, .parquet or .icechunk")
    if "://" in path:
        raise CommandError(f"{path}: references are written to a disk: wanted a path")
    return kinds[suffix]


def writer(args):
    """A function that writes a group."""
    what = kind(args.output)
    if what == "icechunk":
        if args.zarr_format == 2:
            args.usage_error("--zarr-format 2: icechunk has the format 3 alone")
        return to_icechunk(args)
    if what == "parquet" and args.groups:
        args.usage_error("--groups is none of Parquet: say .json or .icechunk")
    from ..adapters.kerchunk import parquet_engine, write_json, write_parquet

    if what == "parquet":
        parquet_engine()  # said before many files are read
    write = write_json if what == "json" else write_parquet
    return lambda group: write(
        group, args.output, zarr_format=args.zarr_format, overwrite=args.overwrite
    )


def to_icechunk(args):
    """A function that writes a group to icechunk."""
    from icechunk import IcechunkError

    from ..adapters.icechunk import quiet, write_icechunk

    quiet()

    def write(group):
        try:
            write_icechunk(group, args.output, overwrite=args.overwrite,
                           storage_options=args.storage_options)  # fmt: skip
        except (IcechunkError, ValueError) as error:
            raise CommandError(f"{args.output}: {one_line(error)}") from error

    return write


def refuse_places(args, files):
    """Raise CommandError if the format cannot refer to a file, before headers are read."""
    if kind(args.output) != "icechunk":
        return
    from ..adapters.icechunk import refuse_url

    for file in files:
        if "::" in file:
            continue  # refused in its turn, with what is wrong with it
        try:
            refuse_url(file if is_url(file) else os.path.abspath(file))
        except ValueError as error:
            raise CommandError(f"{args.output}: {error}") from error


# ---------------------------------------------------------------------------- report


def tell(path, group, survey_of, seconds):
    """What was written."""
    nbytes = disk_nbytes(path)
    nfiles = len(survey_of.groups)
    print(f"{path}: {size_name(nbytes)}, {counted(nfiles, 'file')} in {seconds:.1f} s")
    for name, array in walk_arrays(group):
        axes = ", ".join(f"{d} {n}" for d, n in zip(array.dims, array.shape, strict=True))
        print(f"  {name}: {axes}; {array.dtype.name}, {counted(len(array.places), 'HDU')}")
    for name, (values, _) in group.literals.items():
        print(f"  {name}: {len(values)} values")
    for what, number in survey_of.left_out.items():
        print(f"left out: {what}" + (f" ({number} files)" if number > 1 else ""))


def walk_arrays(group, prefix=""):
    yield from ((prefix + name, array) for name, array in group.arrays.items())
    for name, inner in group.groups.items():
        yield from walk_arrays(inner, f"{prefix}{name}/")


def disk_nbytes(path):
    """Size of a file, or of all files in a folder."""
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )


def tell_refused(survey_of, nfiles):
    """A line for each file that was refused; the exit status."""
    for file, reason in survey_of.refused:
        print(f"fitscodecs: {file}: {reason}", file=sys.stderr)
    if survey_of.refused and nfiles > 1:
        text = f"{len(survey_of.refused)} of {nfiles} files refused"
        nothing = "" if survey_of.groups else "; nothing was written"
        print(f"fitscodecs: {text}{nothing}", file=sys.stderr)
    return int(bool(survey_of.refused))


# ---------------------------------------------------------------------------- check


def check(path, args):
    """Tell which targets of references have changed, or are not recorded; the exit status."""
    targets, urls = targets_of(path)
    changed = changed_targets(targets, args.storage_options, args.jobs)
    for url, what in changed.items():
        print(f"{url}: {what.removeprefix(f'{url}: ')}")
    unknown = sorted({local(url) for url in urls} - {local(url) for url in targets})
    for url in unknown:
        print(f"{url}: nothing is recorded of it")
    state = f"{len(changed)} of {counted(len(targets), 'file')} changed" if changed else (
        f"{counted(len(targets), 'file')} unchanged"
    )  # fmt: skip
    print(f"{path}: {state}" + (f", {len(unknown)} not recorded" if unknown else ""))
    return int(bool(changed or unknown))


def targets_of(path):
    """The facts of targets that references hold, and the URLs they refer to."""
    what = kind(path)
    if what == "icechunk":
        attributes, urls = held_by_icechunk(path)
    else:
        attributes, urls = held_by_kerchunk(path, what)
    targets = attributes.get("fitscodecs_targets")
    if not isinstance(targets, dict):
        raise CommandError(f"{path}: no fitscodecs_targets among its attributes")
    return targets, urls


def held_by_icechunk(path):
    """The attributes of the group, and the URLs, those of local files not quoted."""
    from urllib.parse import unquote

    import zarr

    from ..adapters.icechunk import open_repository, quiet

    quiet()
    try:
        session = open_repository(path).readonly_session("main")
    except ValueError as error:
        raise CommandError(str(error)) from error
    urls = [
        unquote(url) if url != local(url) else url for url in session.all_virtual_chunk_locations()
    ]
    return dict(zarr.open_group(session.store, mode="r", zarr_format=3).attrs), urls


def local(url):
    """A URL, or the path of a local file, whichever way it is recorded."""
    return url.removeprefix("file://") if url.startswith("file:///") else url


def held_by_kerchunk(path, what):
    """The attributes of the group that JSON or Parquet references hold, and the URLs."""
    try:
        with open(os.path.join(path, ".zmetadata") if what == "parquet" else path, "rb") as file:
            content = json.load(file)
        if what == "parquet":
            return content["metadata"][".zattrs"], parquet_urls(path)
        refs = content.get("refs", content)
        urls = [value[0] for value in refs.values() if isinstance(value, list)]
        if "zarr.json" in refs:
            return json.loads(refs["zarr.json"]).get("attributes", {}), urls
        return json.loads(refs[".zattrs"]), urls
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{path}: no references: {one_line(error)}") from error


def parquet_urls(path):
    """The URLs in a folder of Parquet files, of which those of variables have empty ones."""
    import pandas as pd

    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".parq"):
                paths = pd.read_parquet(os.path.join(folder, name), columns=["path"])["path"]
                yield from (url for url in paths.dropna().unique() if url)
