# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""dask: images as arrays whose blocks are decoded where they are needed."""

import math
import os
import sys
import uuid
import warnings

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from ..grid import block_shape, times_decoded
from ..references import target_facts
from ..source import BytesSource, FileSource, InflatedSource, UrlSource
from ..threads import THREADS

__all__ = ["dask_array"]


def dask_array(image, chunks="auto"):
    """An array of dask over an image; see `fitscodecs.TiledImage.to_dask`."""
    chunks = blocks_of(chunks, image.shape, image.tile_shape, image.dtype)
    if image.compressed:
        warn_of_cuts(chunks, image.tile_shape)
    pixels = ImagePixels(image, facts_of(image))
    token = dask.base.tokenize(pixels, chunks)
    meta = np.empty((0,) * image.ndim, image.dtype)
    return da.from_array(pixels, chunks, name=f"fits-image-{token}", meta=meta)


# ---------------------------------------------------------------------------- pixels


class ImagePixels:
    """What tasks index: an image that shares the threads of its process with others.

    Parameters
    ----------
    image : TiledImage
    facts : dict
        What tells that the file is the same, see `facts_of`.
    checked : bool
        Whether the image is that of these facts.
    """

    def __init__(self, image, facts, checked=True):
        self.image, self.facts, self.checked = image, facts, checked
        self.shape, self.dtype, self.ndim = image.shape, image.dtype, image.ndim

    def __getitem__(self, key):
        self.check()
        return self.image.select(key, allotted_threads())

    def check(self):
        """Raise if the file that was opened again is not the one that the array is of."""
        source = self.image._source
        changed = isinstance(source, FileSource) and source.overwritten
        if changed or (not self.checked and facts_of(self.image) != self.facts):
            raise OSError(f"{self.image!r}: the file has changed since the dask array was made")
        self.checked = True

    def __reduce__(self):
        source = self.image._source
        sent = isinstance(source, BytesSource) and not isinstance(source, InflatedSource)
        return ImagePixels, (self.image, self.facts, sent)

    def __dask_tokenize__(self):
        image = self.image
        return type(self).__name__, self.facts, number_of(image), image.hdu.index, image.scaled


def facts_of(image):
    """What tells one file from another, and from an earlier one of its name."""
    source = image._source
    if isinstance(source, BytesSource):
        return {"content": dask.base.tokenize(bytes(source.whole))}
    if isinstance(source, FileSource):
        ns = source.opened.st_mtime_ns  # exactly, as the text is not
        return {"path": os.path.abspath(source.path), "mtime_ns": ns, **target_facts(source)}
    if isinstance(source, UrlSource):
        facts = {"url": source.url, **target_facts(source)}
        if facts.keys() & {"etag", "modified"}:
            return facts
    return {"content": uuid.uuid4().hex}  # nothing tells


def number_of(image):
    """What tells a local file from one of its name, size and time; a worker may have a copy."""
    opened = getattr(image._source, "opened", None)
    return opened and opened.st_ino


def allotted_threads():
    """How many threads this process may have: in a worker of a cluster, those of the worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return THREADS
    try:
        return min(THREADS, distributed.get_worker().state.nthreads)
    except ValueError:
        return THREADS


# ---------------------------------------------------------------------------- blocks


def blocks_of(chunks, shape, tile_shape, dtype):
    """The lengths of blocks along each axis, as dask has them."""
    limit = parse_bytes(dask.config.get("array.chunk-size"))
    if isinstance(chunks, str) and chunks not in ("auto", "tiles"):
        limit, chunks = parse_bytes(chunks), "auto"
    if isinstance(chunks, dict):
        chunks = tuple(chunks.get(axis) for axis in range(len(shape)))
    elif not isinstance(chunks, (tuple, list)):
        chunks = (chunks,) * len(shape)
    elif len(shape) == 1 and all(isinstance(n, int) for n in chunks) and sum(chunks) == shape[0]:
        chunks = (tuple(chunks),)
    if len(chunks) != len(shape):
        raise ValueError(f"found chunks for {len(chunks)} axes, wanted {len(shape)}")
    chunks = [t if c == "tiles" else c for c, t in zip(chunks, tile_shape, strict=True)]
    free = [axis for axis, c in enumerate(chunks) if isinstance(c, str) and c == "auto"]
    whole = [shape[axis] if axis in free else c for axis, c in enumerate(chunks)]
    lengths = da.core.normalize_chunks(tuple(whole), shape, dtype=dtype)
    fixed = math.prod(max(n) for axis, n in enumerate(lengths) if axis not in free)
    npixels = limit // dtype.itemsize // max(1, fixed)
    chosen = block_shape([shape[a] for a in free], [tile_shape[a] for a in free], npixels)
    for axis, length in zip(free, chosen, strict=True):
        whole[axis] = max(1, length)
    return da.core.normalize_chunks(tuple(whole), shape, dtype=dtype)


def warn_of_cuts(chunks, tile_shape):
    """Warn of blocks that share tiles."""
    ntiles, ndecoded = times_decoded(chunks, tile_shape)
    if ndecoded > ntiles:
        largest = tuple(max(lengths) for lengths in chunks)
        warnings.warn(
            f"blocks of {largest} pixels cut tiles of {tile_shape}: {ntiles} tiles are decoded "
            f"{ndecoded} times in all; wanted multiples of the tiles, as chunks='auto' makes them",
            da.PerformanceWarning,
            stacklevel=4,
        )
