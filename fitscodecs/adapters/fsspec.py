# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""fsspec: references that are only followed while the files they refer to are the same."""

import asyncio
import json
import math
import time
from functools import partial
from weakref import WeakKeyDictionary

from fsspec.asyn import sync
from fsspec.core import split_protocol
from fsspec.implementations.reference import ReferenceFileSystem

from ..references import MODIFIED, time_text

__all__ = ["CheckedReferences", "TargetChanged"]

ATTRIBUTE = "fitscodecs_targets"


class TargetChanged(OSError):
    """A file is not the one that it was when references to it were made."""


class CheckedReferences(ReferenceFileSystem):
    """fsspec's reference file system, which compares files with what was recorded of them.

    Its protocol is ``fitsref``; it takes the arguments and the references of ``reference``. Before
    bytes of a file are read, its size and ETag are compared with the recorded ones, or its time of
    change where no ETag was recorded. If one differs, or the file is gone, or a recorded fact can
    not be found out any more, `TargetChanged` is raised and nothing is read.

    Parameters
    ----------
    fo : str or mapping
        See `fsspec.implementations.reference.ReferenceFileSystem`.
    targets : mapping, optional
        ``{url: {"size": ..., "etag": ..., "modified": ...}}``, each fact optional. By default it is
        the attribute ``fitscodecs_targets`` of the root group of the references.
    recheck : float
        Seconds after which a file is compared again. A comparison of a URL is one HEAD request. 0:
        before each read.
    **kwargs
        See `fsspec.implementations.reference.ReferenceFileSystem`.

    Raises
    ------
    ValueError
        If nothing is recorded of any file.

    Notes
    -----
    A file that nothing was recorded of is not read either. Not detected is a change that keeps all
    recorded facts, and one that happens after a comparison and before the next.

    Examples
    --------
    >>> import zarr                                                          # doctest: +SKIP
    >>> group = zarr.open_group("fitsref://", mode="r", storage_options={    # doctest: +SKIP
    ...     "fo": "refs.json", "remote_protocol": "https"})
    """

    protocol = "fitsref"

    def __init__(self, fo, *args, targets=None, recheck=60.0, **kwargs):
        super().__init__(fo, *args, **kwargs)
        self.targets = dict(self._recorded() if targets is None else targets)
        if not self.targets:
            raise ValueError(f"found no attribute {ATTRIBUTE} in the root group of the references, "
                             "wanted it, or targets")  # fmt: skip
        self.recheck = float(recheck)
        self._checks = WeakKeyDictionary()  # event loop: {url: (when it was begun, task or None)}

    def _recorded(self):
        """What the attributes of the root group say of the files."""
        for key in ("zarr.json", ".zattrs"):
            text = self.references.get(key)
            if isinstance(text, (str, bytes)):
                text = json.loads(text)
            if isinstance(text, dict):
                attributes = text.get("attributes", {}) if key == "zarr.json" else text
                if ATTRIBUTE in attributes:
                    return attributes[ATTRIBUTE]
        return {}

    # ------------------------------------------------------------------ comparing

    async def _check(self, path):
        """Compare the file that a key refers to, unless that was done a short time ago."""
        url, _, _ = self._cat_common(self._strip_protocol(path))
        if isinstance(url, bytes):
            return
        checks = self._checks.setdefault(asyncio.get_running_loop(), {})
        now = time.monotonic()
        began, task = checks.get(url, (-math.inf, None))
        if now - began > self.recheck:
            task = asyncio.ensure_future(self._compare(url))
            checks[url] = now, task
            task.add_done_callback(partial(settle, checks, url))
        if task is not None:
            await asyncio.shield(task)

    async def _compare(self, url):
        recorded = self.targets.get(url)
        if not recorded:
            raise TargetChanged(f"{url}: nothing was recorded of this file")
        protocol, _ = split_protocol(url)
        try:
            info = await self.fss[protocol]._info(url)
        except Exception as error:
            raise TargetChanged(f"{url}: cannot be compared: {error!r}") from error
        found = facts(info)
        keys = ("size", "etag") if "etag" in recorded else ("size", "modified")
        for key in keys:
            if key in recorded and found[key] != recorded[key]:
                raise TargetChanged(f"{url}: found {key} {found[key]!r}, wanted {recorded[key]!r} "
                                    "as it was when the references were made")  # fmt: skip

    def _check_sync(self, path):
        sync(self.loop, self._check, path)

    # ------------------------------------------------------------------ reading

    async def _cat_file(self, path, start=None, end=None, **kwargs):
        await self._check(path)
        return await super()._cat_file(path, start=start, end=end, **kwargs)

    def cat_file(self, path, start=None, end=None, **kwargs):
        """The bytes of a key, after a comparison of the file that holds them."""
        self._check_sync(path)
        return super().cat_file(path, start=start, end=end, **kwargs)

    def cat(self, path, recursive=False, on_error="raise", **kwargs):
        """The bytes of one key or several, after a comparison of the files that hold them."""
        for one in [path] if isinstance(path, str) else path:
            if self._strip_protocol(one) in self.references:
                self._check_sync(one)
        return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)

    def _open(self, path, *args, **kwargs):
        self._check_sync(path)
        return super()._open(path, *args, **kwargs)


def settle(checks, url, task):
    """Note that a comparison has ended well, or forget it. The task would keep its loop alive."""
    began, latest = checks.get(url, (None, None))
    if latest is task:
        if task.cancelled() or task.exception() is not None:
            del checks[url]
        else:
            checks[url] = began, None


def facts(info):
    """Size, ETag and time of change from what a file system tells of a file."""
    tag = info.get("ETag") or info.get("etag")
    modified = next((info[key] for key in MODIFIED if info.get(key)), None)
    return {"size": info.get("size"), "etag": tag and str(tag), "modified": time_text(modified)}
