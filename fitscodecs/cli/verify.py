# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Check compressed images: tiles, heap, checksums, pixels.

Every tile is decoded. Tiles at fault are told by their table row, counted from 0; after the first
ten of an HDU the others are summed up, unless --all is given. The checksums in the headers are
compared with the bytes of their HDUs. With --against, all pixels are compared with those of another
file, images in order, bit by bit; NaN equals NaN.

Each file has a line that sums up, and below it lines for what was found. Those that start with
"note" tell what is unusual and no fault: bytes after streams, bytes of the heap without an owner,
and a ZDATASUM that differs, as it does after lossy compression.
The exit status is 0 only if nothing is at fault. A file without compressed images and checksums has
"nothing to verify", which is no fault.
"""

import contextlib
import re
from dataclasses import dataclass, field

import numpy as np

from ..check import check_tiles, heap_use
from ..checksum import ones_sum
from ..errors import FitsCodecsError, HeaderError
from ..hdu import find, walk
from ..header import is_compressed, is_plain_image
from ..image import TiledImage
from ..source import open_source
from .checksum import check_hdu, known
from .failures import each_file, one_line
from .options import add_hdu
from .report import counted, progress

EXAMPLES = """\
  fitscodecs verify image.fits.fz
  fitscodecs verify *.fits.fz
  fitscodecs verify image.fits.fz --against image.fits
  fitscodecs verify image.fits.fz --hdu SCI"""

# Pixels that are read at once for comparing.
SLAB_NPIXELS = 2**24
# Bad tiles of an HDU that get a line each, and ranges of others that are named.
TILES_TOLD, RANGES_TOLD = 10, 10


def add_arguments(parser):
    parser.add_argument("files", nargs="+", metavar="FILE", help="path or URL")
    parser.add_argument(
        "--against", metavar="F", help="file with the same pixels, compressed or not"
    )
    add_hdu(parser, "all")
    parser.add_argument("--all", action="store_true", help="tell every bad tile")


def run(args):
    def work(file):
        with contextlib.closing(open_source(file)) as source:
            findings = Findings(every_tile=args.all)
            examine(source, args.hdu, args.against, findings)
        findings.show(file)
        return int(findings.nfaults > 0)

    return each_file(args.files, work)


@dataclass
class Findings:
    """What was seen in a file."""

    every_tile: bool = False
    nfaults: int = 0  # those that are summed up count one by one
    faults: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    nimages: int = 0
    ntiles: int = 0
    nbad: int = 0
    nsums: int = 0
    ncompared: int = 0

    def fault(self, hdu, message):
        self.fault_of_file(f"{hdu.label}: {one_line(message).removeprefix(f'{hdu.label}: ')}")

    def fault_of_file(self, message):
        self.nfaults += 1
        self.faults.append(message)

    def bad_tiles(self, hdu, messages):
        """Tell tiles at fault, by their table rows; many of them in short."""
        rows = sorted(messages)
        told = len(rows) if self.every_tile else TILES_TOLD
        for row in rows[:told]:
            self.fault(hdu, with_tile(row, messages[row]))
        if rest := rows[told:]:
            self.nfaults += len(rest)
            tiles = "tile" if len(rest) == 1 else "tiles"
            self.faults.append(f"{hdu.label}: ... and {len(rest)} more: {tiles} {row_ranges(rest)}")
        self.nbad += len(rows)

    def note(self, hdu, message):
        self.notes.append(f"{hdu.label}: {message}")

    def show(self, file):
        """Print a line that sums up, then faults and notes."""
        print(f"{file}: {self.summary()}")
        for fault in self.faults:
            print(f"  fault: {fault}")
        for note in self.notes:
            print(f"  note: {note}")

    def summary(self):
        if not (self.nfaults or self.nimages or self.nsums or self.ncompared):
            return "nothing to verify: no compressed image and no checksum"
        seen = [counted(self.nimages, "compressed image"), counted(self.ntiles, "tile")]
        if self.nbad:
            seen[-1] += f" ({self.nbad} bad)"
        seen.append(counted(self.nsums, "checksum"))
        if self.ncompared:
            seen.append(f"{counted(self.ncompared, 'image')} compared")
        verdict = counted(self.nfaults, "fault").upper() if self.nfaults else "ok"
        return f"{verdict}: {', '.join(seen)}"


def with_tile(row, message):
    """What is wrong with a tile, and which one it is."""
    named = re.search(rf"\btile {row}\b", message)
    return message if named else f"tile {row}: {message}"


def row_ranges(rows):
    """Ascending numbers as ranges, the first of them if they are many."""
    rows = np.array(rows)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(texts[:RANGES_TOLD] + ["..."] * (len(texts) > RANGES_TOLD))


# ---------------------------------------------------------------------------- a file


def examine(source, which, against, findings):
    """All checks of one file."""
    other = images_of(against) if against else contextlib.nullcontext()
    with other as references:
        nimages = 0
        for hdu in hdus_of(source, findings):
            is_image = is_compressed(hdu.header) or is_plain_image(hdu.header)
            nimages += is_image
            if which is not None and hdu.index != find(source, which).index:
                continue
            examine_hdu(source, hdu, findings)
            if is_image and against:
                alone = which is not None and len(references) == 1
                reference = pick(references, 0 if alone else nimages - 1)
                examine_pixels(source, hdu, reference, against, findings)
        if against and which is None and nimages != len(references):
            findings.fault_of_file(f"{counted(nimages, 'image')}, {against} has {len(references)}")


def hdus_of(source, findings):
    """The HDUs up to the first header that cannot be read."""
    index = -1
    try:
        for hdu in walk(source):
            index = hdu.index
            yield hdu
    except HeaderError as error:
        if index < 0:
            raise
        findings.fault_of_file(one_line(error))


@contextlib.contextmanager
def images_of(file):
    """All images of a file that are open for comparing."""
    with contextlib.closing(open_source(file)) as source:
        yield [
            TiledImage(source, hdu)
            for hdu in walk(source)
            if is_compressed(hdu.header) or is_plain_image(hdu.header)
        ]


def pick(items, i):
    return items[i] if i < len(items) else None


# ---------------------------------------------------------------------------- an HDU


def examine_hdu(source, hdu, findings):
    """Length, checksums, and what there is in a compressed image."""
    size = source.size
    if size is not None and size < hdu.data_start + hdu.data_nbytes:
        there = max(0, size - hdu.data_start)
        findings.fault(hdu, f"file ends after {there} of {hdu.data_nbytes} bytes of data")
    present, faults = check_hdu(source, hdu)
    findings.nsums += len(present)
    for fault in faults:
        findings.fault(hdu, fault)
    if not is_compressed(hdu.header):
        return
    findings.nimages += 1
    try:
        image = TiledImage(source, hdu, scaled=False)
        examine_heap(image, findings)
        nbad = examine_tiles(image, findings)
        if not nbad:
            examine_datasum(image, findings)
    except FitsCodecsError as error:
        findings.fault(hdu, error)


def examine_heap(image, findings):
    use = heap_use(image)
    if use.overlapping:
        findings.fault(
            image.hdu, f"streams overlap by {counted(use.overlapping, 'byte')} of the heap"
        )
    if use.shared:
        findings.note(image.hdu, f"tiles share streams, which saves {counted(use.shared, 'byte')}")
    if use.unreferenced:
        findings.note(image.hdu, f"no tile owns {counted(use.unreferenced, 'byte')} of the heap")
    if use.gap:
        findings.note(image.hdu, f"{counted(use.gap, 'byte')} between the table and the heap")


def examine_tiles(image, findings):
    """Decode all tiles; gives the number of bad ones."""
    bad, surplus, nlonger = {}, 0, 0
    with progress(f"{image.hdu.label}: tiles", len(image.table)) as advance:
        for part in check_tiles(image):
            bad |= part.faults
            surplus += int(part.surplus.sum())
            nlonger += int(np.count_nonzero(part.surplus))
            advance(len(part.tiles))
    findings.ntiles += len(image.table)
    findings.bad_tiles(image.hdu, bad)
    if surplus:
        after = f"after the end of {counted(nlonger, 'stream')}"
        findings.note(image.hdu, f"{counted(surplus, 'byte')} {after}")
    return len(bad)


def examine_datasum(image, findings):
    """Compare ZDATASUM with the restored image; it tells nothing of floats that were quantized."""
    wanted = image.hdu.header.get("ZDATASUM")
    if image.structure.bitpix < 0 or not known(wanted):
        return
    found = ones_sum(
        np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")).reshape(-1).view(np.uint8)
        for _, pixels in slabs(image)
    )
    if str(wanted).strip() != str(found):
        findings.note(image.hdu, f"ZDATASUM is {wanted}, the restored image sums to {found}")


# ---------------------------------------------------------------------------- pixels


def slabs(image):
    """An image in pieces along its first axis, which end where tiles end: start and pixels."""
    per_row = max(1, image.size // max(1, image.shape[0]))
    tile = image.tile_shape[0]
    step = max(1, SLAB_NPIXELS // (per_row * tile)) * tile
    for start in range(0, image.shape[0], step):
        yield start, image[start : start + step]


def examine_pixels(source, hdu, reference, against, findings):
    """Compare all pixels of an image with those of its reference."""
    if reference is None:
        findings.fault(hdu, f"no image to compare with in {against}")
        return
    try:
        image = TiledImage(source, hdu)
        findings.ncompared += 1
        message = difference(image, reference)
    except FitsCodecsError as error:
        message = f"cannot be compared: {one_line(error)}"
    if message:
        findings.fault(hdu, f"{message} {reference.hdu.label} of {against}")


def difference(image, reference):
    """In words how the pixels differ; None if they do not."""
    if (image.shape, image.dtype) != (reference.shape, reference.dtype):
        return (
            f"{image.shape} pixels of {image.dtype}, "
            f"{reference.shape} pixels of {reference.dtype} in"
        )
    count, first, largest = 0, None, 0.0
    with progress(f"{image.hdu.label}: pixels", image.shape[0]) as advance:
        for start, pixels in slabs(image):
            other = reference[start : start + len(pixels)]
            different = differing(pixels, other)
            if different.any():
                count += int(np.count_nonzero(different))
                largest = max(largest, largest_step(pixels[different], other[different]))
                if first is None:
                    place = np.unravel_index(np.argmax(different), different.shape)
                    first = (start + int(place[0]), *(int(p) for p in place[1:]))
            advance(len(pixels))
    if not count:
        return None
    return f"{count} of {image.size} pixels differ, first at {first}, by {largest:g} at most, from"


def differing(a, b):
    """Where the bits of two arrays of a type differ, except where both are NaN."""
    bits = f"u{a.itemsize}"
    different = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    if a.dtype.kind == "f":
        different &= ~(np.isnan(a) & np.isnan(b))
    return different


def largest_step(a, b):
    with np.errstate(invalid="ignore", over="ignore"):
        step = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(np.max(step, initial=0, where=~np.isnan(step)))
