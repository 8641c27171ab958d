# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Decoding off the event loop."""

import asyncio
import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor

from ...threads import THREADS, start_anew_in_children

__all__ = ["off_the_loop"]


class Workers:
    """A few threads that decode chunks.

    The event loop and the threads that fetch chunks need a CPU as well, and where more threads run
    Python than there are CPUs they wait for each other: with one thread on two CPUs arrays of small
    chunks are read a tenth faster than with as many as asyncio has. A large chunk gets
    helpers from the crew of the process.
    """

    def __init__(self):
        self.forget()
        start_anew_in_children(self)

    def forget(self):
        """Start anew: a process that was forked has none of the threads."""
        self._pool = ThreadPoolExecutor(max(1, THREADS // 2), "fitscodecs-zarr")

    async def run(self, function, *args):
        """What a function gives, called in one of the threads with the context that holds here."""
        call = functools.partial(contextvars.copy_context().run, function, *args)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)


workers = Workers()
off_the_loop = workers.run
