# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The shell tool: ``fitscodecs COMMAND ...``, one module per command.

A command is a module with a docstring (its description), `EXAMPLES`, ``add_arguments(parser)`` and
``run(args)``, which gives the exit status. What it needs beyond numpy it imports when it runs.
"""

import argparse
import importlib
import os
import re
import sys

from .._version import __version__
from .failures import TOLD, missing, one_line
from .parsing import CommandParser

__all__ = ["COMMANDS", "main"]

# Modules of this package, in the order of the help.
COMMANDS = (
    "info",
    "cutout",
    "preview",
    "verify",
    "pack",
    "unpack",
    "repack",
    "references",
    "export",
    "bench",
    "demo",
)


def make_parser():
    """The parser of the command line, with one parser below it for each command."""
    parser = argparse.ArgumentParser(
        prog="fitscodecs",
        description="Pack FITS images into compressed tiles, look into them, and check them.",
        epilog="'fitscodecs COMMAND --help' describes a command, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"fitscodecs {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for name in COMMANDS:
        add_command(commands, name, importlib.import_module(f".{name}", __name__))
    return parser


def add_command(commands, name, module):
    """The parser of one command."""
    parser = commands.add_parser(
        name,
        help=module.__doc__.splitlines()[0],
        description=module.__doc__,
        epilog=f"examples:\n{module.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Declinations such as -41:10:00 and sections such as -*,* are values and not options.
    parser._negative_number_matcher = re.compile(r"-[\d.*]")
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)


def complain(message):
    """One line for the user, on standard error."""
    print(f"fitscodecs: {message}", file=sys.stderr)


def leave_pipe():
    """Nobody reads any more: keep the interpreter from complaining when it flushes at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


def main(argv=None):
    """Run the shell tool.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit status: 0 if all went well, 1 if something failed, 2 for a wrong command line.
    """
    for stream in (sys.stdout, sys.stderr):  # names and cards may hold what a terminal cannot show
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        args = make_parser().parse_args(argv)
        status = args.run(args)
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse has said what there is to say
        return stop.code or 0
    except BrokenPipeError:
        leave_pipe()
    except TOLD as error:
        complain(one_line(error))
    except ImportError as error:
        complain(missing(error))
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    return 1
