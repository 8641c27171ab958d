# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Restore the images of packed files, as funpack does.

a.fits.fz becomes a.fits beside it. Images that were compressed without loss are restored bit by
bit, headers card by card; an image that was the primary HDU is that again. HDUs that are not
compressed are copied, and so are compressed tables, which are named.

A folder stands for every *.fits.fz and *.fz in it. Files appear whole or not at all, also if the
command is killed. A file that fails does not keep others from being done; the exit status is 0 only
if all were.
"""

import os

from ..pack import unpack_file
from .batch import run_jobs
from .failures import CommandError
from .jobs import add_common, add_delete, collect

EXAMPLES = """\
  fitscodecs unpack image.fits.fz
  fitscodecs unpack image.fits.fz -o other.fits
  fitscodecs unpack night/ -o unpacked/ --jobs 8
  fitscodecs unpack -D *.fits.fz"""

PACKED = (".fits.fz", ".fz")
ANY = (".fz", ".fits", ".fit")


def add_arguments(parser):
    add_common(parser, "unpack")
    add_delete(parser)


def run(args):
    suffixes = ANY if args.in_place else PACKED
    needs = "compressed" if args.in_place else ""
    jobs = collect(args, suffixes, unpacked_name, unpack_file, needs)
    return run_jobs(jobs, args, "unpack")[0]


def unpacked_name(path):
    """The name without .fz."""
    root, suffix = os.path.splitext(path)
    if suffix.lower() != ".fz":
        raise CommandError("the name does not end in .fz: say -o or --in-place")
    return root
