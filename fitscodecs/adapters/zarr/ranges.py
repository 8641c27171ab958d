# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Ranges from zarr's stores: several at a time, not too many, from a coroutine or a thread."""

import asyncio
import threading
from weakref import WeakKeyDictionary

from zarr.abc.store import RangeByteRequest
from zarr.core.config import config

from ...threads import start_anew_in_children

__all__ = ["Missing", "Requests", "fetch_sync"]


class Missing(Exception):
    """The store has no such chunk."""


def contents(buffer):
    """The bytes of a buffer of zarr, without a copy."""
    if buffer is None:
        raise Missing
    return memoryview(buffer.as_numpy_array()).cast("B")


class Requests:
    """Reads ranges in coroutines; all readers of an event loop share its number of requests."""

    def __init__(self):
        self.forget()
        start_anew_in_children(self)

    def forget(self):
        """Start anew, without event loops."""
        self._semaphores = WeakKeyDictionary()
        self._lock = threading.Lock()

    def _semaphore(self):
        loop = asyncio.get_running_loop()
        with self._lock:
            semaphore = self._semaphores.get(loop)
            if semaphore is None:
                semaphore = asyncio.Semaphore(int(config.get("async.concurrency")))
                self._semaphores[loop] = semaphore
        return semaphore

    async def one(self, byte_getter, prototype, start, stop):
        """The bytes of one range; of the whole chunk if both ends are None."""
        request = None if start is None else RangeByteRequest(start, stop)
        async with self._semaphore():
            return contents(await byte_getter.get(prototype, request))

    async def many(self, byte_getter, prototype, ranges):
        """The bytes of several ranges; if one fails, the others are not waited for."""
        if len(ranges) == 1:
            return [await self.one(byte_getter, prototype, *ranges[0])]
        tasks = [asyncio.ensure_future(self.one(byte_getter, prototype, *r)) for r in ranges]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise


def fetch_sync(byte_getter, prototype, ranges):
    """The bytes of ranges from a store that is read without an event loop."""
    return [
        contents(byte_getter.get_sync(prototype=prototype, byte_range=RangeByteRequest(*r)))
        for r in ranges
    ]
