# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Do the faults that docs/upstream describes still exist?

The example of each report runs in an empty folder; what it prints is shown below what the report
says::

    python tests/peers/upstream.py
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

REPORTS = Path(__file__).resolve().parents[2] / "docs" / "upstream"


def block(text, language):
    """The first block of a language."""
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


def main():
    for path in sorted(REPORTS.glob("*-*.md")):
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", block(text, "python")], cwd=folder, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        print(f"==== {path.name}: the report says\n{block(text, 'text')}")
        print(f"---- now, with exit status {done.returncode}\n{done.stdout}")


if __name__ == "__main__":
    main()
