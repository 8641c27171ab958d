# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Many files: which ones, where to, over how many processes, and what is said about them."""

import argparse
import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from ..errors import EncodeError, FitsCodecsError
from ..hdu import walk
from ..header import data_nbytes, image_structure, is_compressed, is_plain_image
from ..image import THREADS
from ..readback import compare_files
from ..source import InflatedSource, open_source
from .failures import TOLD, CommandError, missing, one_line
from .output import refuse_target
from .report import counted, size_name

__all__ = ["Job", "Outcome", "add_common", "collect", "perform", "run_jobs"]

PROGRESS_SECONDS = 0.1


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
        "-o", "-O", "--output", metavar="OUT", help="file to write, or folder for all of them"
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
    into = args.output and (os.path.isdir(args.output) or args.output.endswith(("/", os.sep)))
    if args.output and not into and (len(files) > 1 or files[0][1]):
        raise CommandError(f"{args.output} is no folder, which many files need")
    taken, jobs = {}, []
    for source, in_folder in files:
        job = Job(source, source, convert, needs, in_folder, args.in_place,
                  getattr(args, "delete", False), args.overwrite)  # fmt: skip
        try:
            job = replace(job, target=target_of(args, source, into, target_name))
            check_target(job, taken)
            jobs.append((job, None))
        except (CommandError, OSError) as error:
            jobs.append((job, Outcome(error=one_line(error))))
    return jobs


def target_of(args, source, into, target_name):
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


def check_target(job, taken):
    """Refuse targets that are there, that are the source, or that another job writes."""
    if is_url(job.source) and job.delete:
        raise CommandError("a URL cannot be deleted")
    place = os.path.realpath(job.target)
    if place in taken:
        raise CommandError(f"{job.target} is what {taken[place]} becomes already")
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


# ---------------------------------------------------------------------------- many files


def outcomes(jobs, njobs, scheduler, advance):
    """Outcomes of jobs in their order, as soon as they are there."""
    if scheduler:
        yield from on_cluster(jobs, scheduler, advance)
    elif njobs > 1:
        yield from in_processes(jobs, njobs, advance)
    else:
        for job in jobs:
            told = Counter()

            def done(nbytes, told=told):
                told["bytes"] += nbytes
                advance(nbytes)

            nbytes = job.nbytes  # before the file may be deleted
            outcome = perform(job, done)
            advance(nbytes - told["bytes"])
            yield outcome


# What a process has from the one that started it: bytes done by all, and whether to stop.
shared = {}


def start_worker(counter, stop):
    """Prepare a process for work; it ends with the one that started it."""
    import multiprocessing

    shared.update(counter=counter, stop=stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process tells when to stop
    parent = multiprocessing.parent_process()

    def follow():
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def work(job):
    """Do one file in a process of a pool."""
    told = Counter()

    def done(nbytes):
        if shared["stop"].value:
            raise KeyboardInterrupt
        told["bytes"] += nbytes
        with shared["counter"].get_lock():
            shared["counter"].value += nbytes

    nbytes = job.nbytes
    done(0)
    outcome = perform(job, done)
    done(nbytes - told["bytes"])
    return outcome


class Crew:
    """Processes that do files.

    Parameters
    ----------
    nprocesses : int
    advance : callable
        Called with numbers of bytes while results are waited for.
    """

    def __init__(self, nprocesses, advance):
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context = multiprocessing.get_context("spawn")
        self.counter, self.stop = context.Value("q", 0), context.Value("b", 0)
        self.advance, self.told = advance, 0
        self.pool = ProcessPoolExecutor(
            nprocesses, context, start_worker, (self.counter, self.stop)
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.stop.value = 1  # for those that still work, if this ends early
        self.pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, jobs):
        """Futures of jobs."""
        with deaf_to_interrupts():  # processes are born with it
            return [self.pool.submit(work, job) for job in jobs]

    def result(self, future):
        """The outcome of a job; None if some process was ended from outside."""
        from concurrent.futures import wait
        from concurrent.futures.process import BrokenProcessPool

        done = False
        while not done:
            done = bool(wait([future], PROGRESS_SECONDS).done)
            now = self.counter.value
            self.advance(now - self.told)
            self.told = now
        try:
            return future.result()
        except BrokenProcessPool:
            return None


@contextlib.contextmanager
def deaf_to_interrupts():
    """A block in which Ctrl-C does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def in_processes(jobs, nprocesses, advance):
    """Do files in several processes.

    If one of them is ended from outside, as happens for lack of memory, the others end with it.
    Which file is at fault is not known: each that was not done gets a process of its own.
    """
    with Crew(nprocesses, advance) as crew:
        for job, future in zip(jobs, crew.submit(jobs), strict=True):
            outcome = crew.result(future)
            if outcome is None:
                with Crew(1, advance) as alone:
                    outcome = alone.result(*alone.submit([job]))
            yield outcome or Outcome(error="its process was ended, perhaps for lack of memory")


def on_cluster(jobs, scheduler, advance):
    """Let a dask cluster do the files."""
    from distributed import Client

    sizes = [job.nbytes for job in jobs]
    there = [
        job if is_url(job.source) else replace(job, source=os.path.abspath(job.source),
                                               target=os.path.abspath(job.target))
        for job in jobs
    ]  # fmt: skip
    with Client(scheduler, set_as_default=False) as client:
        futures = client.map(perform, there, pure=False, retries=0)
        try:
            for future, nbytes in zip(futures, sizes, strict=True):
                error = future.exception()
                advance(nbytes)
                if error is not None:
                    yield Outcome(error=f"{type(error).__name__}: {one_line(error)}")
                else:
                    yield future.result()
        finally:
            client.cancel(futures)


def run_jobs(jobs, args, what):
    """Do all files, and say what became of them.

    Parameters
    ----------
    jobs : list of (Job, Outcome or None)
        See `collect`.
    args : argparse.Namespace
    what : str
        What is done, for the bar.

    Returns
    -------
    status : int
    finished : list of (Job, Outcome)
    """
    todo = [job for job, outcome in jobs if outcome is None]
    njobs = min(args.jobs or THREADS, len(todo))
    if njobs > 1 or args.scheduler:
        todo = [replace(job, threads=1) for job in todo]
    began = time.perf_counter()
    summary = Summary()
    with (
        byte_progress(what, sum(job.nbytes for job in todo)) as advance,
        contextlib.closing(outcomes(todo, njobs, args.scheduler, advance)) as results,
    ):
        for job, outcome in jobs:
            summary.add(job, next(results) if outcome is None else outcome)
    summary.close(time.perf_counter() - began)
    return int(bool(summary.failed)), summary.finished


# ---------------------------------------------------------------------------- what is said


@dataclass
class Summary:
    """Lines for files as they are done, and a line for all of them."""

    finished: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    nskipped: int = 0

    def add(self, job, outcome):
        self.finished.append((job, outcome))
        if outcome.error:
            self.failed.append(job.source)
            message = outcome.error.removeprefix(f"{job.source}: ")
            print(f"fitscodecs: {job.source}: {message}", file=sys.stderr)
        elif outcome.skipped:
            self.nskipped += 1
            print(f"{job.source}: skipped: {outcome.skipped}")
        else:
            print(file_line(job, outcome.report))

    def close(self, seconds):
        reports = [outcome.report for _, outcome in self.finished if outcome.report]
        nfiles = len(self.finished)
        if nfiles > 1:
            parts = [f"{counted(len(reports), 'file')} done"]
            if self.nskipped:
                parts.append(f"{self.nskipped} skipped")
            if reports:
                nbytes = sum(report.in_nbytes for report in reports)
                speed = f"{size_name(int(nbytes / max(seconds, 1e-9)))}/s"
                parts.append(f"{sizes_text(reports)} in {seconds:.1f} s, {speed}")
            print(", ".join(parts))
        if self.failed and nfiles > 1:
            failed = f"{len(self.failed)} of {nfiles} files failed: {', '.join(self.failed)}"
            print(f"fitscodecs: {failed}", file=sys.stderr)


def sizes_text(reports):
    """Sizes before and after, and by how much the packed files are smaller."""
    before = sum(report.in_nbytes for report in reports)
    after = sum(report.out_nbytes for report in reports)
    restored = any(hdu.what == "restored" for report in reports for hdu in report.hdus)
    ratio = after / max(1, before) if restored else before / max(1, after)
    return f"{size_name(before)} -> {size_name(after)} (ratio {ratio:.2f})"


def file_line(job, report):
    """What became of a file, in one line."""
    arrow = "in place" if job.in_place else f"-> {job.target}"
    parts = [f"{job.source} {arrow}: {sizes_text([report])}"]
    for what in ("compressed", "restored"):
        codecs = Counter(hdu.how for hdu in report.hdus if hdu.what == what)
        if codecs:
            names = ", ".join(codecs)
            parts.append(f"{counted(codecs.total(), 'image')} {what} ({names})")
    copied = [hdu for hdu in report.hdus if hdu.what == "copied"]
    if copied:
        parts.append(f"{counted(len(copied), 'HDU')} copied")
    parts += [f"{hdu.label} {hdu.how}" for hdu in copied if hdu.how]
    if report.lossy:
        parts.append(f"LOSSY: {', '.join(report.lossy)}")
    if job.delete:
        parts.append("verified, original deleted")
    return "; ".join([", ".join(parts[:2]), *parts[2:]])


@contextlib.contextmanager
def byte_progress(what, total):
    """A function to call with numbers of bytes: a bar with speed and time on a terminal."""
    if not sys.stderr.isatty():
        yield lambda nbytes: None
        return
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.DownloadColumn(),
        progress.TransferSpeedColumn(), progress.TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty(),
    )  # fmt: skip
    with bar:
        task = bar.add_task(what, total=max(1, total))
        yield lambda nbytes: bar.advance(task, nbytes)
