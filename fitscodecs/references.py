# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files to virtual arrays: what is in a file, where, and whether it still is.

Headers are read, pixels are not: about one request of a few kilobytes for each HDU of a file.
"""

import datetime
import email.utils
import math
import os
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from .attributes import image_attributes, primary_attributes
from .errors import FitsCodecsError, HeaderError
from .hdu import walk
from .header import image_structure, is_compressed, is_plain_image
from .image import Named
from .naming import ALL, Dims, Names, Wanted
from .source import FileSource, InflatedSource, open_source, raw_source
from .virtual import Place, VirtualArray, VirtualGroup

__all__ = [
    "ALL",
    "CONCURRENCY",
    "FileContents",
    "changed_targets",
    "describe_file",
    "describe_source",
    "each",
    "reference_url",
    "target_facts",
]

# Files that are asked at the same time. Each waits for its server nearly all the time; more gain
# little where a request takes 30 ms, and annoy servers.
CONCURRENCY = 32
AHEAD = 4  # times so many files wait for one that takes longer than others


@dataclass
class FileContents:
    """What a file holds.

    Attributes
    ----------
    group : VirtualGroup
        Its images.
    left_out : list of str
        HDUs with data that are no images, by label and kind.
    """

    group: VirtualGroup
    left_out: list = field(default_factory=list)


# ---------------------------------------------------------------------------- one file


def describe_file(url, extension=ALL, *, storage_options=None, **settings):
    """Images of a file as virtual arrays; see `describe_source`.

    Parameters
    ----------
    url : str or path-like
    storage_options : dict, optional
        For fsspec.

    Returns
    -------
    FileContents

    Raises
    ------
    HeaderError
        If this is no FITS file, has no such image, or is not the place where its bytes are: a chain
        of URLs, or a file that was gzipped as a whole.
    """
    url = reference_url(url)
    try:
        with closing(open_source(url, storage_options)) as source:
            return describe_source(source, url, extension, **settings)
    except OSError as error:
        text, hint, _ = str(error).partition("; copy the file first (with fsspec: simplecache::")
        if hint:  # a cache is no place to refer to
            raise OSError(f"{text}, which references need; copy the file elsewhere") from error
        raise


def reference_url(url):
    """A URL, or the absolute path of a local file: what holds wherever references are opened."""
    url = os.fspath(url)
    if "::" in url:
        raise HeaderError(f"{url}: a chain of URLs, wanted the file that holds the bytes")
    return url if "://" in url else os.path.abspath(url)


def describe_source(
    source, url, extension=ALL, *, scaled=True, primary_attr_to_group=False, inline_threshold=0
):
    """Images of an open file as virtual arrays.

    Parameters
    ----------
    source : Source
    url : str
        What references say.
    extension : None, int, str, (str, int) or list of these
        None: the first image with pixels; ``"*"``: all; positions, 0 being the primary HDU;
        EXTNAMEs; or EXTNAMEs with EXTVER.
    scaled : bool
        Whether to apply BSCALE, BZERO and BLANK, as `fitscodecs.open` does.
    primary_attr_to_group : bool
        Whether the cards of the primary HDU become attributes of the group.
    inline_threshold : int
        Chunks of at most so many bytes are kept in the references.

    Returns
    -------
    FileContents
    """
    if isinstance(source, InflatedSource):
        raise HeaderError(f"{url}: gzipped as a whole, so its images have no bytes to refer to")
    names, dims, arrays, left_out, attributes = Names(), Dims(), {}, [], {}
    wanted = Wanted(extension)
    for hdu in walk(source):
        name = names.of(hdu)
        if hdu.index == 0 and primary_attr_to_group:
            attributes = primary_attributes(hdu)
        image = is_compressed(hdu.header) or is_plain_image(hdu.header)
        if wanted.has(hdu, image):
            with Named(hdu):
                array = describe_hdu(source, hdu, url, scaled, inline_threshold)
            arrays[name] = replace(array, dims=dims.of(array.shape, name))
        elif hdu.data_nbytes and not image:
            left_out.append(f"{hdu.label}: {hdu.header.get('XTENSION', 'primary HDU')}, no image")
        if wanted.complete:
            break
    wanted.check(url)
    targets = {url: target_facts(source)}
    return FileContents(VirtualGroup(attributes, arrays, targets=targets), left_out)


def describe_hdu(source, hdu, url, scaled, inline_threshold):
    """The virtual array of one image HDU; its axes have no names yet."""
    structure = image_structure(hdu.header)
    stop, size = hdu.stop, source.size
    if size is not None:
        if size < hdu.data_start + hdu.data_nbytes:
            there = max(0, size - hdu.data_start)
            raise HeaderError(f"file ends after {there} of {hdu.data_nbytes} bytes of data")
        stop = min(stop, size)  # the last block may be cut short
    index_nbytes = hdu.data_start - hdu.start
    if is_compressed(hdu.header):
        index_nbytes += structure.row_nbytes * structure.nrows
    nbytes = stop - hdu.start
    data = bytes(source.read_range(hdu.start, stop)) if nbytes <= inline_threshold else None
    scaling = structure.scaling
    dtype = scaling.dtype if scaled else scaling.stored_dtype
    blank = undefined_value(scaling, scaled)
    linear = (scaling.bscale, scaling.bzero)
    left = not scaled and linear != (1, 0) and all(map(math.isfinite, linear))
    return VirtualArray(
        shape=structure.shape,
        chunks=tuple(max(1, n) for n in structure.shape),
        dtype=dtype,
        dims=(),
        fill_value=(float("nan") if dtype.kind == "f" else 0) if blank is None else blank,
        undefined=blank is not None,
        scaled=scaled,
        linear=linear if left else None,
        tile_shape=structure.tile_shape if is_compressed(hdu.header) else None,
        attributes=image_attributes(hdu, scaled),
        places={} if 0 in structure.shape else {
            (0,) * len(structure.shape): Place(url, hdu.start, nbytes, index_nbytes, data)
        },
    )  # fmt: skip


def undefined_value(scaling, scaled):
    """The integer that stands for undefined pixels, or None."""
    if not scaling.has_blank or (scaled and scaling.dtype.kind == "f"):
        return None
    info = dtype_range(scaling.stored_dtype)
    if scaling.blank not in info:
        return None  # no pixel can have it
    return scaling.blank + int(scaling.bzero) if scaled else scaling.blank


def dtype_range(dtype):
    limits = np.iinfo(dtype)
    return range(limits.min, limits.max + 1)


# ---------------------------------------------------------------------------- targets

MODIFIED = ("mtime", "Last-Modified", "LastModified", "last_modified", "updated", "created")


def target_facts(source):
    """What tells whether a file is still the same: size, and ETag and time of change if known."""
    facts = {"size": source.size}
    if isinstance(source, FileSource):
        facts["modified"] = time_text(source.opened.st_mtime)
    elif info := getattr(source, "info", None):
        tag = info.get("ETag") or info.get("etag") or info.get("e_tag")
        modified = next((info[key] for key in MODIFIED if info.get(key)), None)
        facts |= {"etag": tag and str(tag), "modified": time_text(modified)}
    return {key: value for key, value in facts.items() if value is not None}


def time_text(when):
    """A time as ISO text in UTC, from what file systems have: seconds, datetime or HTTP's text."""
    if isinstance(when, str):
        try:
            when = email.utils.parsedate_to_datetime(when)
        except ValueError:
            return when
    if isinstance(when, (int, float)):
        when = datetime.datetime.fromtimestamp(when, datetime.UTC)
    if not isinstance(when, datetime.datetime):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    return when.astimezone(datetime.UTC).isoformat()


def changed_targets(targets, storage_options=None, concurrency=CONCURRENCY):
    """Files that are not what they were when references to them were made.

    Parameters
    ----------
    targets : dict
        Facts by URL, from the attribute ``fitscodecs_targets``.
    storage_options : dict, optional
        For fsspec.
    concurrency : int
        Number of files that are asked at the same time.

    Returns
    -------
    dict
        What has changed, by URL. A file that is the same, or of which nothing can be told, is not
        there.
    """

    def facts(url):
        with closing(raw_source(url, storage_options)) as source:
            return target_facts(source)

    changed = {}
    for url, now in each(facts, targets, concurrency):
        if isinstance(now, Exception):
            changed[url] = f"cannot be read: {now}"
            continue
        before = targets[url]
        keys = [key for key in before if key in now and before[key] != now[key]]
        if "etag" in before and before.get("etag") == now.get("etag"):
            keys = [key for key in keys if key == "size"]  # a copy that was touched is the same
        if keys:
            changed[url] = ", ".join(f"{k} is {now[k]}, was {before[k]}" for k in keys)
    return changed


def each(work, items, concurrency=CONCURRENCY):
    """Call ``work(item)`` for each, many at the same time.

    Yields
    ------
    item, result
        In order. Where the file, its header or its server is at fault, the result is the exception.
    """
    from collections import deque
    from concurrent.futures import ThreadPoolExecutor

    def attempt(item):
        try:
            return work(item)
        except (FitsCodecsError, OSError) as error:
            return error

    items, pending = iter(items), deque()
    pool = ThreadPoolExecutor(concurrency, "fitscodecs")
    try:
        while True:
            while len(pending) < AHEAD * concurrency:  # so that millions need little memory
                item = next(items, pending)
                if item is pending:
                    break
                pending.append((item, pool.submit(attempt, item)))
            if not pending:
                return
            item, future = pending.popleft()
            yield item, future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
