# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Put the adapter's functions in the place of astropy's, and back."""

import contextlib
import functools
import threading

from .names import find_seams

__all__ = ["disable", "enable", "enabled", "is_enabled"]

_lock = threading.RLock()
_originals = []  # (holder, name, function) while the adapter is on
# Methods that ask whether it is on. They stay: of a class that changes a thousand times, Python
# 3.13 calls a method that is no longer there.
_methods = set()
_for_good = False  # whether enable() put it there
_blocks = 0  # of enabled(), under way


def replacements(originals):
    """The adapter's function for each name; those that go on to astropy's own get it from here."""
    from . import reading, writing
    from .image_header import image_header_of
    from .keeping import keep_tiles

    prewriteto, add_data = originals["_prewriteto"], originals["_add_data_to_bintable"]
    to_image_header = originals["_bintable_header_to_image_header"]

    @functools.wraps(prewriteto)
    def _prewriteto(self, *args, **kwargs):
        if not keep_tiles(self):
            return prewriteto(self, *args, **kwargs)
        self._tmp_bintable = self._bintable
        self._tmp_bintable._output_checksum = self._output_checksum
        return self._tmp_bintable._prewriteto(*args, **kwargs)

    @functools.wraps(add_data)
    def _add_data_to_bintable(self, bintable):
        if self.data is not None and self.data.size:  # astropy takes the largest of all rows
            bintable._data_type = writing.TileRows
        return add_data(self, bintable)

    @functools.wraps(to_image_header)
    def _bintable_header_to_image_header(bintable_header):
        header = image_header_of(bintable_header)
        return to_image_header(bintable_header) if header is None else header

    return {
        "decompress_image_data_section": reading.decompress_image_data_section,
        "compress_image_data": writing.compress_image_data,
        "__getitem__": reading.section_getitem,
        "_tile_shape": reading.tile_shape_of,
        "_bintable_header_to_image_header": _bintable_header_to_image_header,
        "_prewriteto": _prewriteto,
        "_add_data_to_bintable": _add_data_to_bintable,
    }


def enable():
    """Let every ``CompImageHDU`` of `astropy.io.fits` decode and encode with fitscodecs.

    Images that are open already are included. Calling it again changes nothing.

    Raises
    ------
    ImportError
        If astropy is not installed, or is one whose private names are not known; astropy is left
        as it is.
    """
    global _for_good
    with _lock:
        put_in()
        _for_good = True


def put_in():
    """Replace the functions of astropy, unless they are replaced."""
    if _originals:
        return
    seams = [(seam, holder, original(function)) for seam, holder, function in find_seams()]
    ours = replacements({seam.name: function for seam, _, function in seams})
    for seam, holder, function in seams:
        if not seam.owner:
            _originals.append((holder, seam.name, function))
            setattr(holder, seam.name, ours[seam.name])
        elif getattr(holder, seam.name) not in _methods:
            method = asking(function, ours[seam.name])
            _methods.add(method)
            setattr(holder, seam.name, method)


def original(function):
    """The function of astropy, where one that asks stands in its place."""
    return function.__wrapped__ if function in _methods else function


def asking(theirs, ours):
    """A method that is ours while the adapter is on, and else theirs."""

    @functools.wraps(theirs)
    def method(*args, **kwargs):
        return (ours if _originals else theirs)(*args, **kwargs)

    return method


def disable():
    """Let astropy decode and encode on its own again. Calling it again changes nothing.

    `enabled` blocks that are under way lose the adapter too.
    """
    global _for_good
    with _lock:
        _for_good = False
        while _originals:
            holder, name, function = _originals.pop()
            setattr(holder, name, function)


def is_enabled():
    """Whether the adapter is on."""
    return bool(_originals)


@contextlib.contextmanager
def enabled():
    """The adapter, on for a ``with`` block of the whole process: all threads see it.

    It goes off with the last block of any thread, unless `enable` was called.
    """
    global _blocks
    with _lock:
        put_in()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks and not _for_good:
                disable()
