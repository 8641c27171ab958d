# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Which HDUs of a file are asked for, and what their arrays and axes are called."""

import itertools
import operator
import re

from .errors import HeaderError
from .header import image_structure

__all__ = ["ALL", "Dims", "Names", "Wanted", "storable"]

ALL = "*"  # as an extension: every image
AXES = "xyz"  # of NAXIS1, NAXIS2, NAXIS3; further ones are axis4, axis5 ...


def storable(name):
    """A name as a node of zarr can have it: one that is no path, and that zarr does not keep.

    Stores take a backslash for a separator as well.
    """
    name = re.sub(r"[/\\\x00-\x1f\x7f]", "_", name).lstrip(".")
    return f"HDU{name}" if name.startswith("__") else name


class Names:
    """A name for each HDU, as the field's software has them: EXTNAME in capitals, or the position.

    A name that is taken gets the EXTVER behind it, or the position if that is taken too.
    """

    def __init__(self):
        self.taken = set()

    def of(self, hdu):
        own = storable(hdu.name.upper())
        own = own or ("PRIMARY" if hdu.index == 0 else str(hdu.index))
        tries = itertools.chain(
            [own, f"{own}_{hdu.version}"], (f"{own}_{n}" for n in itertools.count(hdu.index))
        )
        name = next(name for name in tries if name not in self.taken)
        self.taken.add(name)
        return name


class Dims:
    """Names of axes: x, y, z from NAXIS1 on, then axis4 and so on.

    One name has one length in a group. An image that wants another one gets its own, such as x_DQ.
    """

    def __init__(self):
        self.lengths = {}

    def of(self, shape, name):
        result = []
        for axis in reversed(range(len(shape))):
            number = len(shape) - axis
            own = AXES[number - 1] if number <= len(AXES) else f"axis{number}"
            if self.lengths.setdefault(own, shape[axis]) != shape[axis]:
                own = f"{own}_{name}"
                self.lengths[own] = shape[axis]
            result.append(own)
        return tuple(reversed(result))


class Wanted:
    """Which HDUs are asked for, and which have been found."""

    def __init__(self, extension):
        self.first, self.all = extension is None, extension == ALL
        if self.first or self.all:
            extension = []
        elif isinstance(extension, (str, tuple)) or hasattr(extension, "__index__"):
            extension = [extension]
        self.open = [self.checked(item) for item in extension]
        if not (self.first or self.all or self.open):
            raise ValueError("extension is an empty list, wanted HDUs")
        self.count, self.images = 0, 0

    @staticmethod
    def checked(item):
        if isinstance(item, str):
            return (item.strip().upper(), None)
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            return (item[0].strip().upper(), operator.index(item[1]))
        if isinstance(item, bool) or not hasattr(item, "__index__"):
            raise TypeError(
                f"extension {item!r}, wanted a position, an EXTNAME or (EXTNAME, EXTVER)"
            )
        if operator.index(item) < 0:
            raise ValueError(f"extension {item}, wanted a position from the start of the file")
        return operator.index(item)

    @property
    def complete(self):
        """Whether nothing more has to be looked for."""
        return bool(self.images) if self.first else not (self.all or self.open)

    def has(self, hdu, image):
        """Whether this one is to be described."""
        self.count += 1
        if self.first or self.all:
            found = image and (self.all or 0 not in image_lengths(hdu))
        else:
            asked = [item for item in self.open if self.means(item, hdu)]
            self.open = [item for item in self.open if item not in asked]
            found = bool(asked)
            if found and not image:
                raise HeaderError(f"{hdu.label}: no image, wanted one with pixels")
        self.images += found
        return found

    @staticmethod
    def means(item, hdu):
        if isinstance(item, int):
            return item == hdu.index
        name, version = item
        own = hdu.name.upper() or ("PRIMARY" if hdu.index == 0 else "")
        return name == own and version in (None, hdu.version)

    def check(self, url):
        """Raise if something was not found."""
        if self.open:
            text = ", ".join(
                f"HDU {i}" if isinstance(i, int) else f"EXTNAME {i[0]!r}"
                + (f" with EXTVER {i[1]}" if i[1] is not None else "")
                for i in self.open
            )  # fmt: skip
            raise HeaderError(f"{url}: found none in {self.count} HDUs, wanted {text}")
        if not self.images:
            raise HeaderError(f"{url}: found no image in {self.count} HDUs")


def image_lengths(hdu):
    """The lengths of the axes of an image HDU, or nothing where its header cannot be read."""
    try:
        return image_structure(hdu.header).shape
    except HeaderError:
        return ()  # told when it is described
