# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files that appear whole or not at all."""

import contextlib
import os
import secrets

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

    The bytes go to a file beside it, and are on the disk before the name changes.
    """
    refuse_target(path, overwrite)
    folder, name = os.path.split(os.fspath(path))
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        refuse_target(path, overwrite)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
