# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Who does jobs: this process, several processes, or a dask cluster."""

import contextlib
import os
import signal
import threading
from collections import Counter
from dataclasses import replace

from .failures import one_line
from .jobs import Outcome, is_url, perform

__all__ = ["outcomes"]

PROGRESS_SECONDS = 0.1


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
