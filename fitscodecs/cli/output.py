# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files that commands write, and how they say that one must not be."""

import contextlib
import os

from .. import atomic
from .failures import CommandError

__all__ = ["refuse_target", "replacing"]


def refuse_target(path, overwrite):
    """Raise CommandError if a file is there and must not be replaced, or its folder is not."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise CommandError(f"{folder} is no folder to write to")
    if not overwrite and os.path.lexists(path):
        raise CommandError(f"{path} exists: choose another name, or say --overwrite")


@contextlib.contextmanager
def replacing(path, overwrite):
    """A binary file to write to, which becomes `path` when the block ends without an error.

    It is that of `fitscodecs.atomic`; only the refusal is said in other words.
    """
    refuse_target(path, overwrite)
    try:
        with atomic.replacing(path, overwrite) as file:
            yield file
    except FileExistsError:
        refuse_target(path, overwrite)
        raise
