# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The adapter as a pytest plugin: on for the whole run, with a line of what it did at the end."""

from .counting import TileCounts, counts
from .switch import disable, enable

__all__ = ["pytest_configure", "pytest_sessionfinish", "pytest_terminal_summary",
           "pytest_unconfigure"]  # fmt: skip

KEY = "fitscodecs_tiles"
_of_workers = []


class Workers:
    """Listens to the processes of pytest-xdist."""

    def pytest_testnodedown(self, node, error):
        """Take the counts of a worker that has finished."""
        _of_workers.append(getattr(node, "workeroutput", {}).get(KEY, (0, 0)))


def pytest_configure(config):
    """Switch on before tests are collected."""
    enable()
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Workers())


def pytest_sessionfinish(session):
    """Send the counts of a worker to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[KEY] = tuple(counts())


def pytest_terminal_summary(terminalreporter):
    """Say how many tiles went through the adapter."""
    total = TileCounts(*map(sum, zip(counts(), *_of_workers, strict=True)))
    terminalreporter.write_line(
        f"fitscodecs: decoded {total.decoded} tiles, encoded {total.encoded} tiles"
    )


def pytest_unconfigure(config):
    """Give astropy its own functions back."""
    disable()
