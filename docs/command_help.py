# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The help texts of the shell tool, as a file to include in a page."""

import os
from pathlib import Path

__all__ = ["write_help"]


def sections(parser):
    """Heading and help text of each command."""
    commands = next(a for a in parser._actions if a.choices)
    for name, command in commands.choices.items():
        yield f"{parser.prog} {name}", command.format_help()


def write_help(parser, path):
    """Write the help of each command as a section with a literal block.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        With subparsers.
    path : path-like
    """
    os.environ["COLUMNS"] = "90"
    os.environ["NO_COLOR"] = "1"
    parts = []
    for title, text in sections(parser):
        literal = "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())
        parts.append(f"{title}\n{'^' * len(title)}\n\n.. code-block:: text\n\n{literal}\n")
    Path(path).write_text("\n".join(parts), encoding="utf-8")
