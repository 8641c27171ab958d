# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Tables and pictures of the recorded benchmarks, written when the documentation is built.

The figures are those of benchmarks/results/recorded; nothing else says a speed.
"""

import csv
import io
import json
import math
import statistics
from pathlib import Path
from xml.sax.saxutils import escape

from fitscodecs.cli.measure import cell

__all__ = ["write_performance"]

# For each benchmark: what names a bar's group, what has a picture of its own, and the bars.
PICTURES = {
    "codecs": (("codec", "data"), "work", ("x cfitsio", "x imagecodecs")),
    "image": (("image",), "work", ("x astropy", "x fitsio", "x fpack", "x rustfits")),
    "astropy": (("image", "tile"), "work", ("x off",)),
    "threads": (("image", "tile"), "work", ("gain", "calibration", "copy")),
    "tiles": (("tile", "work"), None, ("x astropy", "x fitsio", "x rustfits")),
    "memory": ((), None, ()),
}
HIDDEN = {"seconds"}

# ---------------------------------------------------------------------------- pictures

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
WIDTH, LEFT, RIGHT, TOP = 720, 190, 60, 46
BAR, GAP = 11, 9  # heights of a bar and of the space between groups


def bars_of(rows, names, series):
    """Bars by group: the geometric mean of each series over the group's rows.

    What stands behind the size of a tile makes a group of its own: it is another kind of work.
    """
    groups = {}
    for row in rows:
        note = [] if "tile" in names else row["tile"].split()[1:]
        group = " ".join([*(str(row[name]) for name in names), *note])
        for name in series:
            if isinstance(row.get(name), float) and row[name] > 0:
                groups.setdefault(group, {}).setdefault(name, []).append(row[name])
    return {group: {name: statistics.geometric_mean(values) for name, values in bars.items()}
            for group, bars in groups.items()}  # fmt: skip


class Scale:
    """Places of ratios on a logarithmic axis, which holds all of them and 1."""

    def __init__(self, ratios):
        self.low = math.floor(math.log2(min([1, *ratios])))
        self.high = max(self.low + 1, math.ceil(math.log2(max([1, *ratios]))))

    def __call__(self, ratio):
        part = (math.log2(ratio) - self.low) / (self.high - self.low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self):
        return [2.0**n for n in range(self.low, self.high + 1)]


def text(x, y, content, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def box(x, y, width, height, color):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{color}"/>'


def line(x, bottom, color):
    return f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{color}"/>'


def picture(groups, series):
    """Bars that begin at 1, to the right where the ratio is above it, as SVG."""
    used = [name for name in series if any(name in bars for bars in groups.values())]
    colors = dict(zip(series, COLORS, strict=False))  # the same in all pictures of a benchmark
    scale = Scale([value for bars in groups.values() for value in bars.values()])
    bottom = TOP + sum(len(bars) * BAR + GAP for bars in groups.values())
    parts = [box(0, 0, WIDTH, bottom + 12, "white")]
    for i, name in enumerate(used):
        parts += [box(LEFT + 120 * i, 8, 10, 10, colors[name]), text(LEFT + 120 * i + 15, 17, name)]
    for tick in scale.ticks:
        parts.append(line(scale(tick), bottom, "black" if tick == 1 else "#dddddd"))
        parts.append(text(scale(tick), TOP - 10, f"{tick:g}", "middle"))
    y = TOP
    for group, bars in groups.items():
        parts.append(text(LEFT - 8, y + len(bars) * BAR / 2 + 4, group, "end"))
        for name, value in bars.items():
            ends = sorted((scale(1), scale(value)))
            parts.append(box(ends[0], y, ends[1] - ends[0], BAR - 1, colors[name]))
            parts.append(text(ends[1] + 4, y + BAR - 2, cell(value)))
            y += BAR
        y += GAP
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 12}" '
            'font-family="sans-serif" font-size="11">')  # fmt: skip
    return "\n".join([head, *parts, "</svg>\n"])


# ------------------------------------------------------------------------------ tables


def csv_table(rows):
    """Rows, which are dicts, as a table of reStructuredText."""
    columns = [name for name in dict.fromkeys(n for row in rows for n in row) if name not in HIDDEN]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row.get(column)) for column in columns] for row in rows)
    body = "".join(f"   {line}\n" for line in lines.getvalue().splitlines())
    return f".. csv-table::\n   :header-rows: 1\n\n{body}"


def pictures(name, rows, folder):
    """Write the pictures of a benchmark; gives the directives that show them."""
    names, split, series = PICTURES[name]
    if not series:
        return []
    shown = []
    for part in dict.fromkeys(row[split] for row in rows) if split else [None]:
        chosen = [row for row in rows if part is None or row[split] == part]
        groups = bars_of(chosen, names, series)
        if not groups:
            continue
        path = folder / f"{name}_{part or 'all'}.svg".replace(" ", "_")
        path.write_text(picture(groups, series), encoding="utf-8")
        title = f"{part}: ratios" if part else "Ratios"
        shown.append(f".. figure:: /{folder.name}/{path.name}\n   :alt: {title}\n\n   {title}\n")
    return shown


FOLD = ".. raw:: html\n\n   <details><summary>All rows</summary>\n"
UNFOLD = ".. raw:: html\n\n   </details>\n"


def page(name, result, folder):
    """What stands under the heading of a benchmark."""
    about = ", ".join(f"{key} {value}" for key, value in result["about"].items())
    parts = [f"*{about}*\n", *pictures(name, result["rows"], folder)]
    if result["goals"]:
        parts.append(csv_table(result["goals"]))
    return "\n".join([*parts, FOLD, csv_table(result["rows"]), UNFOLD])


def write_performance(recorded, folder):
    """Write a file to include, and pictures, for each benchmark of `PICTURES`.

    Parameters
    ----------
    recorded : pathlib.Path
        Folder with what the benchmarks write by ``--json``; those without a file are said to be
        missing.
    folder : pathlib.Path
        Made if absent, in the folder of the documentation.
    """
    folder.mkdir(exist_ok=True)
    for name in PICTURES:
        path = Path(recorded) / f"{name}.json"
        content = "Not recorded.\n"
        if path.exists():
            content = page(name, json.loads(path.read_text(encoding="utf-8")), folder)
        (folder / f"{name}.inc").write_text(content, encoding="utf-8")
