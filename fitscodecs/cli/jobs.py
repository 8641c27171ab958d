# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Jobs: which files are to be done, where to, and how one of them is done."""

import argparse
import contextlib
import errno
import functools
import os
import threading
from dataclasses import dataclass, replace

from ..errors import EncodeError, FitsCodecsError
from ..hdu import walk
from ..header import data_nbytes, image_structure, is_compressed, is_plain_image
from ..readback import compare_files
from ..source import InflatedSource, open_source
from .failures import TOLD, CommandError, missing, one_line
from .output import refuse_target

__all__ = [
    "Job",
    "Outcome",
    "add_common",
    "add_delete",
    "collect",
    "found",
    "is_url",
    "perform",
    "positive",
    "scheduler",
    "tiles",
]

FITS = (".fits", ".fit", ".fz", ".gz")  # of names that are no folders'

# ---------------------------------------------------------------------------- arguments


def add_common(parser, verb):
    """Arguments that pack, unpack and repack share.

    Parameters
    ----------
    parser : argparse.ArgumentParser
    verb : str
        What is done to files.
    """
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"file or folder to {verb}")
    parser.add_argument(
        "-o",
        "-O",
        "--output",
        metavar="OUT",
        help="file to write, or folder for all of them, which is made for several files, or if it "
        "ends in /",
    )
    parser.add_argument(
        "-F",
        "--in-place",
        action="store_true",
        help=f"{verb} the file itself: it is replaced once the new one is verified",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")
    parser.add_argument("--recursive", action="store_true", help="go into folders of folders")
    parser.add_argument(
        "-j",
        "--jobs",
        type=positive,
        metavar="N",
        help="processes; default: the number of CPUs, or of files if that is less",
    )
    parser.add_argument(
        "--scheduler",
        type=scheduler,
        metavar="ADDRESS",
        help="let a dask cluster do the work, such as tcp://host:8786; its workers have to see "
        "the files under the same paths",
    )
    parser.set_defaults(usage_error=parser.error)


def add_delete(parser):
    parser.add_argument(
        "-D",
        "--delete",
        action="store_true",
        help="delete the original once what was written is read back and verified",
    )


def positive(text):
    """A whole number above 0."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def scheduler(text):
    """The address of a dask cluster."""
    protocol, _, place = text.rpartition("://")
    port = place.rpartition(":")[2]
    if protocol in ("", "tcp", "tls", "ws", "wss") and not (port.isdigit() and port != place):
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as tcp://host:8786")
    return text


def tiles(text):
    """Lengths along the axes, NAXIS1 first, as a shape in C order."""
    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of lengths such as 100,100")
    return tuple(int(part) for part in reversed(parts))


# ---------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Job:
    """One file to be done, by whichever process; all of it can be pickled.

    Attributes
    ----------
    convert : callable
        Called with source and target, and `overwrite`, `threads`, `done` and `check`.
    needs : str
        "plain" or "compressed": without such images there is nothing to do. May be empty.
    in_folder : bool
        Whether the file was found in a folder: then it is skipped where there is nothing to do.
    """

    source: str
    target: str
    convert: object
    needs: str = ""
    in_folder: bool = False
    in_place: bool = False
    delete: bool = False
    overwrite: bool = False
    threads: int | None = None

    @property
    def nbytes(self):
        """Size of the source; 0 where it is not known."""
        try:
            return os.path.getsize(self.source)
        except OSError:
            return 0


@dataclass
class Outcome:
    """What became of a job."""

    report: object = None
    error: str = ""
    skipped: str = ""


def is_url(path):
    return "://" in path or "::" in path


def found(paths, suffixes, recursive):
    """Files of a command line: those in folders by their suffixes; whether they were in one."""
    result = []
    for path in paths:
        if is_url(path) or not os.path.isdir(path):
            result.append((path, False))
            continue
        inside = [
            os.path.join(folder, name)
            for folder, below, names in os.walk(path)
            if recursive or not below.clear()
            for name in names
            if name.lower().endswith(suffixes) and not name.startswith(".")
        ]
        if not inside:
            raise CommandError(
                f"{path} holds no files named {', '.join('*' + s for s in suffixes)}"
            )
        result += [(name, True) for name in sorted(inside)]
    return result


def collect(args, suffixes, target_name, convert, needs):
    """The jobs of a command line, and outcomes of those that cannot be started.

    Parameters
    ----------
    args : argparse.Namespace
    suffixes : tuple of str
        Of files to look for in folders.
    target_name : callable
        Name of the target from that of the source; may raise CommandError.
    convert, needs
        See `Job`.

    Returns
    -------
    list of (Job, Outcome or None)
    """
    if args.in_place and (args.output or args.delete):
        args.usage_error("--in-place goes without --output and --delete")
    files = found(args.files, suffixes, args.recursive)
    into = args.output and goes_into(args.output, len(files) > 1 or files[0][1])
    taken = {}
    sources = {} if args.in_place else {os.path.realpath(f): f for f, _ in files if not is_url(f)}
    jobs = []
    for source, in_folder in files:
        job = Job(source, source, convert, needs, in_folder, args.in_place,
                  getattr(args, "delete", False), args.overwrite)  # fmt: skip
        try:
            job = replace(job, target=target_of(args, source, into, target_name))
            check_target(job, taken, sources)
            jobs.append((job, None))
        except (CommandError, OSError) as error:
            jobs.append((job, Outcome(error=one_line(error))))
    return jobs


def goes_into(output, many):
    """Whether OUT is a folder, which is made if it is named as one, or needed for many files."""
    if os.path.isdir(output):
        return True
    named = output.endswith(("/", os.sep))
    if many and not named and (os.path.lexists(output) or output.lower().endswith(FITS)):
        raise CommandError(f"{output} is no folder, which many files need")
    if many or named:
        os.makedirs(output, exist_ok=True)
    return many or named


def target_of(args, source, into, target_name):
    if not is_url(source) and not os.path.lexists(source):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
    if args.in_place:
        if is_url(source):
            raise CommandError("a URL cannot be replaced: say -o")
        return os.path.realpath(source)
    if args.output and not into:
        return args.output
    if is_url(source) and not args.output:
        raise CommandError("say -o FILE for a URL")
    name = target_name(source)
    return os.path.join(args.output, os.path.basename(name)) if args.output else name


def check_target(job, taken, sources):
    """Refuse targets that are there, that are a source, or that another job writes."""
    if is_url(job.source) and job.delete:
        raise CommandError("a URL cannot be deleted")
    place = os.path.realpath(job.target)
    if place in taken:
        raise CommandError(f"{job.target} is what {taken[place]} becomes already")
    if sources.get(place, job.source) != job.source:
        raise CommandError(f"{job.target} is {sources[place]}, which is to be done as well")
    taken[place] = job.source
    if job.in_place:
        return
    if os.path.exists(job.target) and os.path.exists(job.source) and os.path.samefile(
        job.source, job.target
    ):  # fmt: skip
        raise CommandError(f"{job.target} is the file itself: say --in-place")
    refuse_target(job.target, job.overwrite)


# ---------------------------------------------------------------------------- one file


def perform(job, done=None):
    """Do one file.

    Parameters
    ----------
    job : Job
    done : callable, optional
        Called with numbers of bytes of the source, as they are done.

    Returns
    -------
    Outcome
        An error of the file is told there and not raised.
    """
    try:
        with contextlib.closing(open_source(job.source)) as source:
            nothing = nothing_to_do(job, source)
            expected = expected_nbytes(source)
        if nothing:
            return Outcome(skipped=nothing) if job.in_folder else Outcome(error=nothing)
        if done is not None:
            done = Meter(done, job.nbytes, expected * (2 if job.in_place or job.delete else 1))
        report = job.convert(
            job.source, job.target, overwrite=job.overwrite or job.in_place, threads=job.threads,
            done=done, check=checker(job, done),
        )  # fmt: skip
        if job.delete:
            os.unlink(job.source)
        return Outcome(report)
    except ImportError as error:
        return Outcome(error=missing(error))
    except TOLD as error:
        return Outcome(error=one_line(error))
    except Exception as error:  # whatever it is, other files are to be done
        return Outcome(error=f"{type(error).__name__}: {one_line(error)}")


def nothing_to_do(job, source):
    """Why there is nothing to do, or an empty string."""
    if job.in_place and isinstance(source, InflatedSource):
        raise EncodeError("gzipped as a whole, which cannot be replaced in place: say -o")
    headers = [hdu.header for hdu in walk(source)]
    packed = any(map(is_compressed, headers))
    plain = any(is_plain_image(h) and data_nbytes(h) for h in headers)
    if job.needs == "plain" and packed and not plain:
        return "packed already"
    return "holds no compressed image" if job.needs == "compressed" and not packed else ""


def expected_nbytes(source):
    """Bytes of the data units, of compressed images when they are restored."""
    total = 0
    for hdu in walk(source):
        total += hdu.data_nbytes
        if is_compressed(hdu.header):
            with contextlib.suppress(FitsCodecsError):
                structure = image_structure(hdu.header)
                npixels = functools.reduce(lambda a, b: a * b, structure.shape, 1)
                total += npixels * structure.dtype.itemsize - hdu.data_nbytes
    return total


def checker(job, done):
    """A function that verifies what was written, if the original is to go."""
    if not (job.in_place or job.delete):
        return None
    return lambda path: compare_files(job.source, path, job.threads, done)


class Meter:
    """Bytes that were worked on, as a part of the bytes of a source."""

    def __init__(self, done, nbytes, expected):
        self.done, self.nbytes, self.expected = done, nbytes, max(1, expected)
        self.worked = self.told = 0
        self.lock = threading.Lock()

    def __call__(self, nbytes):
        with self.lock:
            self.worked += nbytes
            now = min(self.nbytes, self.nbytes * self.worked // self.expected)
            step, self.told = now - self.told, now
        self.done(step)
