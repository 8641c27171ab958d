# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Work in several threads, with one limit on them for the whole process."""

import contextvars
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from weakref import WeakSet

__all__ = ["THREADS", "in_threads", "number_of_threads", "start_anew_in_children"]


def default_threads():
    """FITSCODECS_THREADS, or the number of CPUs that this process may use."""
    wanted = os.environ.get("FITSCODECS_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


forgetful = WeakSet()


def start_anew_in_children(thing):
    """Have ``thing.forget()`` called in each process that is forked from this one.

    A child has none of the threads that hold locks or were about to finish something.
    """
    forgetful.add(thing)


def forget():
    for thing in list(forgetful):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)


THREADS = default_threads()
MOST_HELPERS = 256  # whatever a caller asks for


def number_of_threads(threads):
    """A number of threads, where None is the default one."""
    return THREADS if threads is None else max(1, int(threads))


class Task:
    """The parts of one piece of work, taken one after the other by whichever thread is free.

    See `in_threads` for what `work` and `then` are.
    """

    def __init__(self, work, parts, then=None):
        self._work, self._parts, self._then = work, parts, then
        self._lock = threading.Lock()
        self._next = 0
        self._error = None  # that of the first part at fault
        self._waiting = set()  # parts that are done and were not handed to `then`
        self._handed, self._is_handing = 0, False
        self.results = [None] * len(parts)

    def _take(self):
        """The number of the next part; None if there is none, or one was at fault."""
        with self._lock:
            if self._error is not None or self._next == len(self._parts):
                return None
            self._next += 1
            return self._next - 1

    def run(self, may_go_on=None):
        """Work on parts until none is left, or this thread may no longer help."""
        while may_go_on is None or may_go_on():
            i = self._take()
            if i is None or not self._try(i, self._work, self._parts[i]):
                return
            if self._then is not None:
                with self._lock:
                    self._waiting.add(i)
                self._hand_over()

    def _try(self, i, function, argument):
        """Have the result of part `i` made; whether that went well."""
        try:
            self.results[i] = function(argument)
        except BaseException as error:  # to be raised where the work was asked for
            with self._lock:
                if self._error is None or i < self._error[0]:
                    self._error = (i, error)
            return False
        return True

    def _hand_over(self):
        """Hand the results that are next in order to `then`, unless another thread does so."""
        while True:
            with self._lock:
                i = self._handed
                if self._is_handing or i not in self._waiting:
                    return
                self._is_handing = True
            if not self._try(i, self._then, self.results[i]):
                return  # and no other thread goes on with it
            with self._lock:
                self._handed, self._is_handing = i + 1, False

    def end(self):
        """The results, when all threads have left; the first error in the order of the parts."""
        if self._error is not None:
            raise self._error[1]
        return self.results


class Crew:
    """The threads of this process that work for it, and helpers that any piece of work may have.

    A thread that asks for work does its part itself. It gets helpers only while fewer threads than
    the limit are at work, and they leave when others come: several blocks that a scheduler decodes
    at once use the CPUs once.
    """

    def __init__(self, limit):
        self._limit = limit
        self.forget()

    def forget(self):
        """Start anew, without threads."""
        self._lock = threading.Lock()
        self._working = 0
        self._pool = None

    def _enter(self, wanted):
        """Count a thread that has work, and take the helpers that are left for it."""
        with self._lock:
            self._working += 1
            helpers = max(0, min(wanted, max(self._limit, wanted + 1) - self._working))
            self._working += helpers
            if helpers and self._pool is None:
                self._pool = ThreadPoolExecutor(MOST_HELPERS, "fitscodecs")
        return helpers

    def _leave(self, n=1):
        with self._lock:
            self._working -= n

    def _help(self, task, limit):
        try:
            task.run(lambda: self._working <= limit)
        finally:
            self._leave()

    def run(self, task, wanted):
        """Run a task in this thread and up to `wanted` helpers."""
        helpers, futures = self._enter(wanted), []
        limit = max(self._limit, wanted + 1)
        try:
            for _ in range(helpers):
                context = contextvars.copy_context()
                futures.append(self._pool.submit(context.run, self._help, task, limit))
        except RuntimeError:  # the main thread has ended: there are no new threads to be had
            self._leave(helpers - len(futures))
        try:
            task.run()
        finally:
            self._leave()
            for future in futures:
                if future.cancel():  # it has not begun, and there is nothing left for it
                    self._leave()
                else:
                    future.result()
        return task.end()


crew = Crew(THREADS)
start_anew_in_children(crew)


def in_threads(work, parts, threads, then=None):
    """Results of a function of one argument, in the order of the parts.

    Parameters
    ----------
    work : callable
        Called in this thread and others, which see the context variables that hold here.
    parts : sequence
    threads : int
        Largest number of threads, this one included. What other work of the process has taken is
        not to be had; a number above the default one is an order, though.
    then : callable, optional
        Called with each result in the order of the parts, in one thread at a time, while others
        work on other parts. What it returns takes the place of the result.

    Raises
    ------
    Exception
        That of the first part at fault; parts after it may not have been tried.
    """
    if threads <= 1 or len(parts) <= 1:
        return [work(part) if then is None else then(work(part)) for part in parts]
    return crew.run(Task(work, parts, then), min(threads, len(parts), MOST_HELPERS) - 1)
