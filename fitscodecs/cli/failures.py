# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""How commands fail: one line each."""

import contextlib
import sys

from ..errors import FitsCodecsError

__all__ = ["CommandError", "each_file", "missing", "naming", "one_line"]

# The extra that brings a package.
EXTRA = {
    "astropy": "cli",
    "matplotlib": "cli",
    "rich": "cli",
    "dask": "dask",
    "distributed": "dask",
    "fastparquet": "kerchunk",
    "icechunk": "icechunk",
    "kerchunk": "kerchunk",
    "pandas": "kerchunk",
    "pyarrow": "kerchunk",
    "zarr": "zarr",
}


class CommandError(Exception):
    """What a user asked for cannot be done; the message is all there is to say."""


# What a file or a command line can be at fault for: said in one line, without a traceback.
TOLD = (FitsCodecsError, CommandError, OSError, MemoryError, ArithmeticError, UnicodeError)


def one_line(error):
    """The message of an error, without line breaks."""
    if isinstance(error, IsADirectoryError) and error.filename:
        return f"{error.filename} is a folder, wanted a file"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    lines = (line.strip() for line in str(error).splitlines())
    return " ".join(filter(None, lines)) or type(error).__name__


def missing(error):
    """What to install, from an ImportError."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRA:
        return f"missing: {package}: pip install 'fitscodecs[{EXTRA[package]}]'"
    return f"missing: {one_line(error)}"


@contextlib.contextmanager
def naming(file):
    """A block in which faults of a file are told with its name."""
    try:
        yield
    except FitsCodecsError as error:
        message = one_line(error)
        raise CommandError(message if file in message else f"{file}: {message}") from error


def each_file(files, work):
    """Call ``work(file)`` for each; a file that fails does not keep others from being done.

    Returns
    -------
    int
        Exit status, the largest one.
    """
    status = 0
    for file in files:
        try:
            status = max(status, work(file))
        except BrokenPipeError:
            raise
        except TOLD as error:
            message = one_line(error)
            if file not in message:
                message = f"{file}: {message}"
            print(f"fitscodecs: {message}", file=sys.stderr)
            status = 1
    return status
