# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The parser of a command."""

import argparse

__all__ = ["CommandParser"]


class CommandParser(argparse.ArgumentParser):
    """A parser that takes options and files in any order.

    Attributes
    ----------
    prepare : function or None
        Changes the list of arguments before they are parsed, if a command wants that.
    """

    prepare = None
    _within = False

    def parse_known_args(self, args=None, namespace=None):
        # Options are found first and the rest after them, in two calls of this method.
        if self._within:
            return super().parse_known_args(args, namespace)
        self._within = True
        try:
            args = self.prepare(args) if self.prepare else args
            found, unknown = self.parse_known_intermixed_args(args, namespace)
            if unknown:  # else the first parser complains, with its own usage
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return found, unknown
        finally:
            self._within = False
