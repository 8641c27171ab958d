# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""A batch of jobs from beginning to end: the bar, a line for each file, and a summary."""

import contextlib
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace

from ..threads import THREADS
from .crew import outcomes
from .report import counted, size_name

__all__ = ["run_jobs"]


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
