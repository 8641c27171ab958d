# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Sections of an image as FITS software writes them: ``[x1:x2,y1:y2]``."""

import argparse
import re

from .failures import CommandError

__all__ = ["parse_section", "resolve", "section_text"]

PART = re.compile(
    r"(?P<flip>-?)\*(:(?P<every>\d+))?"
    r"|(?P<first>\d+)(:(?P<last>\d+)(:(?P<step>\d+))?)?"
)


def parse_section(text):
    """A section as typed: for each axis, NAXIS1 first, ``(first, last, step)``.

    Parameters
    ----------
    text : str
        Counted from 1, both ends included, brackets optional. ``*`` is a whole axis and ``-*`` a
        whole axis from its far end (first and last are None then, and the step is negative);
        a single number keeps the axis, with a length of 1; a second colon is followed by a step.

    Raises
    ------
    argparse.ArgumentTypeError
        If this is no section.
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    return [parse_part(part.replace(" ", ""), text) for part in inner.split(",")]


def parse_part(part, text):
    match = PART.fullmatch(part)
    if match is None or "0" in (match["every"], match["step"]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no section: wanted [x1:x2,y1:y2], * for an axis, x1:x2:step"
        )
    if match["first"] is None:
        step = int(match["every"] or 1)
        return None, None, -step if match["flip"] else step
    first = int(match["first"])
    return first, int(match["last"] or first), int(match["step"] or 1)


def resolve(section, lengths):
    """Pixels of a section, as one range for each axis, from 0, NAXIS1 first.

    Parameters
    ----------
    section : list
        From `parse_section`.
    lengths : sequence of int
        NAXIS1, NAXIS2, ...

    Raises
    ------
    CommandError
        If the image has other axes, or does not hold the section.
    """
    if len(section) != len(lengths):
        axes = "axis" if len(section) == 1 else "axes"
        raise CommandError(
            f"section of {len(section)} {axes}, wanted {len(lengths)}: "
            f"the image has {' x '.join(map(str, lengths))} pixels"
        )
    return [axis_range(i + 1, part, lengths[i]) for i, part in enumerate(section)]


def axis_range(axis, part, length):
    first, last, step = part
    if first is None:
        whole = range(0, length, abs(step))
        pixels = whole if step > 0 else range(length - 1, -1, step)
    elif not (1 <= first <= length and 1 <= last <= length):
        raise CommandError(
            f"section {first}:{last} of axis {axis} leaves the image, wanted it within 1:{length}"
        )
    elif first <= last:
        pixels = range(first - 1, last, step)
    else:
        pixels = range(first - 1, last - 2, -step)
    if not pixels:
        raise CommandError(f"axis {axis} of the image has no pixels")
    return pixels


def section_text(ranges):
    """The section of some ranges, as `parse_section` takes it."""
    return f"[{','.join(axis_text(r) for r in ranges)}]"


def axis_text(pixels):
    step = f":{abs(pixels.step)}" if abs(pixels.step) != 1 else ""
    return f"{pixels[0] + 1}:{pixels[-1] + 1}{step}"
