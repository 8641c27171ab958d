# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""astropy's own tests, on astropy's codecs and on ours: the same outcome, test by test.

    python tests/peers/astropy_suite.py [--astropy MAJOR]... [--suite NAME]...

Runs the tests of astropy.io.fits.hdu.compressed and of astropy.io.fits with the interpreter that
runs this program, first as they are, then with ``-p fitscodecs.adapters.astropy``. Each
``--astropy 8`` or ``--astropy 7`` runs them in place of that in a fresh virtual environment with
the newest astropy of this major version and this checkout.

The exit status is 0 if with the adapter no test fails that passed without, no test is skipped or
left out that was not, and tiles were both decoded and encoded.

Needed are pytest and, to leave out tests that are slow or need a network, pytest-skip-slow and
pytest-remotedata, which are in ``astropy[test]``; no other plugin makes a difference. Runs with and
without the adapter go on side by side, each in one process: pytest-xdist would deal the tests out
anew each time, and some depend on what ran before them (they draw pixels from one generator of the
session, or are skipped where a test before them has started threads). For the same reason the
examples of hypothesis are always the same ones, and have no time limit.
"""

import argparse
import collections
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from venvs import build_wheel, make_venv

SUITES = ["astropy.io.fits.hdu.compressed", "astropy.io.fits"]
# pytest-remotedata 0.4 does not work with pytest 9.2; astropy 7 is older than pytest 9.
REQUIREMENTS = {
    "8": ["astropy[test]==8.*", "pytest<9.2", "fitsio>=1.2"],
    "7": ["astropy[test]==7.*", "pytest<9", "fitsio>=1.2"],
}
OUTCOMES = ["passed", "skipped", "xfailed", "failed"]
MAX_SECONDS = 1800
MAX_LISTED = 20


def outcome_of(case):
    """What became of a test, and why, from its element in a junit file."""
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed", child.get("message", "").partition("\n")[0]
        if child.tag == "skipped":
            outcome = "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
            return outcome, child.get("message", "")
    return "passed", ""


def read_outcomes(path):
    """Outcome of each test, and why, by its name; a test that failed twice counts once."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        name, outcome = f"{case.get('classname')}.{case.get('name')}", outcome_of(case)
        if found.get(name, ("", ""))[0] != "failed":
            found[name] = outcome
    outcomes = {name: outcome for name, (outcome, _) in found.items()}
    return outcomes, {name: why for name, (_, why) in found.items()}


class Run:
    """One run of a suite: outcomes, tiles, seconds; or why there is none."""

    def __init__(self, python, suite, adapter, folder):
        folder.mkdir()  # empty: no conftest.py and no settings of ours may reach the tests
        junit = folder / "junit.xml"
        command = [str(python), "-m", "pytest", "-q", "--pyargs", suite, "--junitxml", str(junit),
                   "-p", "no:cacheprovider", "-p", "no:xdist",
                   "--hypothesis-profile=ci"]  # fmt: skip
        command += ["-p", "fitscodecs.adapters.astropy"] if adapter else []
        start = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                              timeout=MAX_SECONDS)  # fmt: skip
        self.seconds = time.perf_counter() - start
        self.outcomes, self.reasons = read_outcomes(junit) if junit.exists() else ({}, {})
        self.counts = collections.Counter(self.outcomes.values())
        found = re.search(r"fitscodecs: decoded (\d+) tiles, encoded (\d+) tiles", done.stdout)
        self.tiles = tuple(map(int, found.groups())) if found else None
        self.fault = None
        if done.returncode not in (0, 1) or not self.outcomes:  # 1: some test has failed
            self.fault = f"pytest ended with status {done.returncode}\n" + "\n".join(
                (done.stdout + done.stderr).splitlines()[-15:]
            )

    def row(self):
        counts = "".join(f"{self.counts[name]:>9}" for name in OUTCOMES)
        tiles = "".join(f"{n:>9}" for n in self.tiles or ("-", "-"))
        return f"{counts}{tiles}{self.seconds:>9.0f}"


def faults_between(without, with_):
    """What is worse with the adapter than without: a list of texts."""
    faults = [run.fault for run in (without, with_) if run.fault]
    if not with_.tiles or not all(with_.tiles):
        faults.append(f"the adapter was not in use: tiles {with_.tiles}")
    if without.tiles:
        faults.append("the adapter was in use in the run without it")
    changed = []
    for name in sorted(without.outcomes.keys() | with_.outcomes.keys()):
        before = without.outcomes.get(name, "not run")
        after = with_.outcomes.get(name, "not run")
        if before == "failed" and after == "passed":
            print(f"    mended: {name}")
        elif before != after:
            why = (with_ if after != "passed" else without).reasons.get(name, "")
            changed.append(f"{name}: {before} without, {after} with the adapter: {why}")
    if len(changed) > MAX_LISTED:
        changed[MAX_LISTED:] = [f"... and {len(changed) - MAX_LISTED} more"]
    return faults + changed


def examine(python, suites, folder):
    """Run the suites with one interpreter; gives the number of faults."""
    code = "import astropy, pytest; print(astropy.__version__, pytest.__version__)"
    asked = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    version, pytest_version = asked.stdout.split()
    folder.mkdir(exist_ok=True)
    nfaults = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = {
            (suite, adapter): pool.submit(
                Run, python, suite, adapter, folder / f"{suite}-{adapter}"
            )
            for suite, adapter in itertools.product(suites, (False, True))
        }
        for suite in suites:
            pair = [runs[suite, adapter].result() for adapter in (False, True)]
            for run, label in zip(pair, ("without", "with"), strict=True):
                print(f"{version:<9}{pytest_version:<8}{suite:<32}{label:<8}{run.row()}")
            faults = faults_between(*pair)
            nfaults += len(faults)
            for fault in faults:
                print(f"    FAULT: {fault}")
            if not faults:
                failed = [name for name, outcome in pair[0].outcomes.items() if outcome == "failed"]
                also = f"; failed without the adapter: {', '.join(failed)}" if failed else ""
                print(f"    {len(pair[0].outcomes)} tests, each with the same outcome{also}")
            sys.stdout.flush()
    return nfaults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--astropy", action="append", choices=REQUIREMENTS, default=[],
                        help="major version, in an environment made for it")  # fmt: skip
    parser.add_argument("--suite", action="append", metavar="PACKAGE",
                        help=f"default: {' and '.join(SUITES)}")  # fmt: skip
    options = parser.parse_args()
    suites = options.suite or SUITES
    print(f"{'astropy':<9}{'pytest':<8}{'suite':<32}{'adapter':<8}"
          + "".join(f"{o:>9}" for o in [*OUTCOMES, "decoded", "encoded", "seconds"]))  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not options.astropy:
            return examine(sys.executable, suites, folder / "runs") > 0
        wheel = build_wheel(folder)
        nfaults = 0
        for major in options.astropy:
            python = make_venv(folder / f"astropy{major}", [*REQUIREMENTS[major], wheel])
            nfaults += examine(python, suites, folder / f"runs{major}")
    return nfaults > 0


if __name__ == "__main__":
    sys.exit(main())
