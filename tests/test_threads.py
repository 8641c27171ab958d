# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""One limit on threads for the whole process."""

import contextvars
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.threads import THREADS, Crew, Task, in_threads, number_of_threads


@pytest.fixture
def crew():
    return Crew(3)


class Gauge:
    """Work that knows how many threads do it at once."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.threads = set()

    def __call__(self, part):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
        time.sleep(0.002)
        with self.lock:
            self.now -= 1
        return part * part


@pytest.mark.parametrize("wanted", [0, 1, 2, 7])
def test_results_in_order(crew, wanted):
    gauge = Gauge()
    assert crew.run(Task(gauge, range(50)), wanted) == [i * i for i in range(50)]
    assert gauge.most <= wanted + 1
    assert threading.get_ident() in gauge.threads  # who asks does some of it
    assert crew._working == 0


def test_limit_over_all_work(crew):
    """Six callers at once: each works itself, and gets no helpers while three are at work."""
    gauge, done = Gauge(), []

    def call():
        done.append(crew.run(Task(gauge, range(30)), 2))

    callers = [threading.Thread(target=call) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert done == [[i * i for i in range(30)]] * 6
    # Helpers that the first callers got finish the part they are at when others come.
    assert gauge.most <= 6 + 2
    assert crew._working == 0


def test_first_error_in_order(crew):
    """Whichever thread is first: what is raised is the error of the first part at fault."""

    def work(part):
        time.sleep(0.001 * (5 - part % 5))
        if part >= 7:
            raise ValueError(part)

    for _ in range(10):
        with pytest.raises(ValueError, match=r"^7$"):
            crew.run(Task(work, range(40)), 2)
        assert crew._working == 0


@pytest.mark.parametrize("threads", [1, 4])
def test_results_are_handed_on_in_order(threads):
    """Each as soon as those before it are, and one at a time; the work goes on meanwhile."""
    gauge, handed = Gauge(), []

    def work(part):
        time.sleep(0.001 * (5 - part % 5))
        return part

    def then(result):
        handed.append(result)
        return gauge(result)

    assert in_threads(work, range(40), threads, then) == [i * i for i in range(40)]
    assert handed == list(range(40))
    assert gauge.most == 1


def test_first_error_in_order_while_handing_on(crew):
    def fail(wanted):
        def call(part):
            if part == wanted:
                raise ValueError(part)
            return part

        return call

    for work, then, want in ((9, 20, 9), (20, 9, 9), (None, 0, 0), (9, 9, 9)):
        handed = []
        task = Task(fail(work), range(40), lambda r, t=then, h=handed: h.append(fail(t)(r)))
        with pytest.raises(ValueError, match=f"^{want}$"):
            crew.run(task, 2)
        assert handed == list(range(len(handed)))
        assert len(handed) <= want
        assert crew._working == 0


def test_work_within_work():
    """A function that is called for a tile may itself decode."""

    def outer(part):
        return sum(in_threads(lambda x: x + part, range(5), 4))

    assert in_threads(outer, range(6), 4) == [10 + 5 * i for i in range(6)]


def test_context_is_seen():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(5)
    assert set(in_threads(lambda _: variable.get(), range(20), 4)) == {5}


def test_numbers():
    assert number_of_threads(None) == THREADS
    assert number_of_threads(0) == number_of_threads(-3) == 1
    assert number_of_threads(7) == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork()")
def test_child_of_a_fork(tmp_path):
    """A child has none of the threads of its parent, and must not wait for them."""
    path = tmp_path / "a.fits"
    fc.write(path, np.arange(2**21, dtype="i4").reshape(1024, 2048))
    code = f"""
import os, sys, warnings
import fitscodecs as fc
warnings.simplefilter("ignore")  # of Python: a process with threads that forks
image = fc.open({str(path)!r})
want = int(image.read(threads=4).sum())
child = os.fork()
if child == 0:
    os._exit(0 if int(image.read(threads=4).sum()) == want else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_after_the_main_thread(tmp_path):
    """At exit there are no new threads to be had: the work is done all the same."""
    path = tmp_path / "a.fits"
    fc.write(path, np.arange(2**21, dtype="i4").reshape(1024, 2048))
    code = f"""
import atexit
import fitscodecs as fc
image = fc.open({str(path)!r})
atexit.register(lambda: print(image.read(threads=4).sum()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == sum(range(2**21))
