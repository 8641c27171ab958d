# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""What commands show: tables, progress, and how an image is named."""

import contextlib
import math
import sys

__all__ = [
    "codec_name",
    "codec_parameters",
    "counted",
    "dither_name",
    "print_table",
    "progress",
    "ratio",
    "size_name",
]


# ---------------------------------------------------------------------------- words


def codec_parameters(image):
    """Parameters of the codec by their names in the header; none for a plain image.

    What differs from tile to tile is known to the streams alone, and a codec leaves it out: here
    it is what the header says, a number that may stand for pixels or for multiples of the noise.
    """
    codec = image.codec
    if codec is None:
        return {}
    told = {name: getattr(codec, name.lower()) for name in codec.parameters}
    for name in codec.parameters:
        value = header_parameter(image.hdu.header, name)
        if name.lower() in codec.per_tile and is_number(value):
            told[name] = value
    return told


def header_parameter(header, name):
    """ZVALn of the parameter that ZNAMEn names; None if there is none."""
    i = 1
    while f"ZNAME{i}" in header:
        if str(header[f"ZNAME{i}"]).strip().upper() == name:
            return header.get(f"ZVAL{i}")
        i += 1
    return None


def is_number(value):
    """Whether this is a number that JSON can hold."""
    return isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)


def codec_name(image):
    """ZCMPTYPE and the parameters; an empty string for a plain image."""
    if image.codec is None:
        return ""
    settings = [f"{name}={value:g}" for name, value in codec_parameters(image).items()]
    return " ".join([image.codec.zcmptype[0], *settings])


def dither_name(quantize):
    """ZQUANTIZ, with ZDITHER0 where it matters; an empty string for pixels not quantized."""
    if quantize is None:
        return ""
    return quantize.method + (f" seed {quantize.seed}" if quantize.dither else "")


def ratio(image):
    """Bytes of the pixels by bytes of the table and heap; None for a plain image."""
    if not image.compressed or not image.hdu.data_nbytes:
        return None
    return image.size * image.structure.dtype.itemsize / image.hdu.data_nbytes


def counted(n, what):
    """A number and what it counts, in the plural where that is due."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def size_name(nbytes):
    """A number of bytes with a unit."""
    if nbytes < 1000:
        return f"{nbytes} bytes"
    power = min((len(str(nbytes)) - 1) // 3, 4)
    return f"{nbytes / 1000**power:.1f} {'kMGT'[power - 1]}B"


# ---------------------------------------------------------------------------- tables


def print_table(columns, rows, title=None):
    """Print rows of strings: framed on a terminal, aligned and never cut elsewhere.

    Columns without any entry are left out.
    """
    used = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    columns = [columns[i] for i in used]
    rows = [[row[i] for i in used] for row in rows]
    show = framed_table if sys.stdout.isatty() else plain_table
    show(columns, rows, title)


def framed_table(columns, rows, title):
    """Frames as wide as the terminal: columns that do not fit go to another table below."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if title:
        console.print(Text(title))
    for part in fitting(columns, rows, console.width):
        table = Table(box=box.ROUNDED)
        for i in part:
            table.add_column(Text(columns[i]), overflow="fold")
        for row in rows:
            table.add_row(*(Text(row[i]) for i in part))
        console.print(table)


def fitting(columns, rows, width):
    """Groups of columns that fit side by side; the first column is in each of them."""
    room = [max(map(len, cells)) + 3 for cells in zip(columns, *rows, strict=True)]
    groups, used = [[0]], 1 + room[0]
    for i in range(1, len(columns)):
        if used + room[i] > width and len(groups[-1]) > 1:
            groups.append([0])
            used = 1 + room[0]
        groups[-1].append(i)
        used += room[i]
    return groups


def plain_table(columns, rows, title):
    if title:
        print(title)
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


# ---------------------------------------------------------------------------- progress


@contextlib.contextmanager
def progress(what, total):
    """A function to call with the number of steps done: a bar on a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what.replace("[", "\\["), total=total)
        yield lambda steps: bar.advance(task, steps)
