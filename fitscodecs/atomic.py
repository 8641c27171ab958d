# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Files and folders that appear whole or not at all."""

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import socket
import tempfile

__all__ = ["replacing", "replacing_folder"]

LONGEST_NAME = 150
counter = itertools.count()  # several threads may write the same file: the last one stays


@contextlib.contextmanager
def replacing(path, overwrite=False):
    """A binary file to write and read, which becomes `path` when the block ends without an error.

    The bytes go to a file beside it and are on the disk before the name changes, so that at every
    moment there is the old file, or none, or the new one. A process that is killed leaves its
    part behind; the next one that writes the same file removes it.

    Parameters
    ----------
    path : path-like
    overwrite : bool
        Whether a file that is there may be replaced.

    Raises
    ------
    FileExistsError
        If there is one and it must not be replaced.
    """
    path = os.fspath(path)
    refuse_existing(path, overwrite)
    folder, name = os.path.split(path)
    folder = folder or "."
    remove_abandoned(folder, name)
    part = os.path.join(folder, f"{stem(name)}.{os.getpid()}-{next(counter)}.part")
    try:
        with open(part, "x+b") as file:
            yield file
            file.flush()
            with contextlib.suppress(OSError):  # who may read it stays as it was
                shutil.copymode(path, part)
            os.fsync(file.fileno())
        refuse_existing(path, overwrite)
        os.replace(part, path)
        sync_folder(folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


@contextlib.contextmanager
def replacing_folder(path, overwrite, mark, kind):
    """The path of a folder to make, which becomes `path` when the block ends without an error.

    Parameters
    ----------
    path : path-like
    overwrite : bool
        Whether a folder that is there may be replaced.
    mark : str
        What a folder of this kind has in it: others are not replaced.
    kind : str
        What such a folder is called, for errors.

    Raises
    ------
    FileExistsError
        If there is something that must not be replaced.
    """
    path = os.fspath(path)
    refuse_other(path, overwrite, mark, kind)
    folder, name = os.path.split(os.path.abspath(path))
    with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".part", dir=folder) as part:
        new, old = os.path.join(part, "new"), os.path.join(part, "old")
        yield new
        refuse_other(path, overwrite, mark, kind)  # something may have come meanwhile
        there = os.path.lexists(path)
        if there:
            os.replace(path, old)
        try:
            os.rename(new, path)
        except BaseException as error:
            if there and not os.path.lexists(path):
                os.replace(old, path)
            if isinstance(error, OSError) and os.path.lexists(path):
                raise FileExistsError(f"{path} exists") from error
            raise
        shutil.rmtree(old, ignore_errors=True)


def refuse_other(path, overwrite, mark, kind):
    """Raise if there is something that must not be replaced by a folder of this kind."""
    refuse_existing(path, overwrite)
    if os.path.lexists(path) and not os.path.lexists(os.path.join(path, mark)):
        raise FileExistsError(f"{path} is no {kind}, so it is not replaced")


def refuse_existing(path, overwrite):
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{path} exists")


def host():
    """The name of this machine, in letters that go into a file name."""
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def stem(name):
    """How the parts of a file start, on this machine; short enough for any file system."""
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}.{host()[:40]}"


def remove_abandoned(folder, name):
    """Remove parts of this file whose process, on this machine, is gone."""
    pattern = re.compile(re.escape(stem(name)) + r"\.(\d+)-\d+\.part")
    for other in os.listdir(folder):
        match = pattern.fullmatch(other)
        if match and not is_alive(int(match[1])):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, other))


def is_alive(pid):
    if os.name != "posix":
        return True  # there is no way to ask that does no harm
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return not is_zombie(pid)


def is_zombie(pid):
    """Whether a process has ended, and nobody has asked how: so it may stay in a container."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False


def sync_folder(folder):
    """Bring the new name to the disk, where folders can be synchronised."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
