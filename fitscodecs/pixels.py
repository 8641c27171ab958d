# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""From streams to pixels as users see them: decoded, scaled, and put where they belong.

No I/O happens here; images and chunks differ only in who reads the streams.
"""

import numpy as np

from .codecs.buffers import allocate
from .tile import decode_tiles

__all__ = ["decode_block", "decode_points"]


def decode_block(structure, scaled, entries, streams, pieces, out=None, threads=1):
    """Decoded pixels of a plan, scaled if that is wanted.

    Parameters
    ----------
    structure : ImageStructure
    scaled : bool
        Whether to apply BSCALE, BZERO and BLANK.
    entries : Entries
        The rows of the plan's tiles, checked.
    streams : Streams
        Their bytes.
    pieces : Plan
    out : ndarray, optional
        Where stored pixels may be decoded, if it can hold them.
    threads : int

    Returns
    -------
    ndarray
        `out` itself if that was used.
    """
    scaling = structure.scaling
    stored = scaling.stored_dtype
    direct = (
        out is not None
        and out.flags.c_contiguous
        and out.flags.aligned
        and out.dtype.isnative
        and out.itemsize == stored.itemsize
        and (out.dtype == stored or scaling.is_offset)
    )
    work = out.view(stored) if direct else allocate(pieces.out_shape, stored, "image")
    # Null integers that differ from tile to tile have to be unified before.
    flip = scaled and scaling.is_offset and "ZBLANK" not in structure.columns
    decode_tiles(structure, entries, streams, pieces, work, threads, flip)
    if direct and flip:
        return out
    if flip:
        return work.view(scaling.dtype)
    result = scaling.apply(work) if scaled else work
    return out if direct else result


def decode_points(structure, scaled, entries, streams, todo, threads=1):
    """Pixels that index arrays pick.

    Parameters
    ----------
    structure, scaled, threads
        See `decode_block`.
    entries, streams
        Of the tiles ``todo.tiles``.
    todo : Gather

    Returns
    -------
    ndarray
        Of the shape that numpy defines for the index.
    """
    result = todo.empty(structure.scaling.dtype if scaled else structure.scaling.stored_dtype)
    tiles = todo.tiles
    for group in todo.groups:
        chosen = np.searchsorted(tiles, group.plan.tiles)
        block = decode_block(structure, scaled, entries.part(chosen), streams.part(chosen),
                             group.plan, None, threads)  # fmt: skip
        todo.put(group, block, result)
    return todo.shaped(result)
