# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Where in astropy the adapter takes hold: private names, looked up before anything is changed."""

import importlib
import inspect
from dataclasses import dataclass

__all__ = ["NEEDED", "SEAMS", "Seam", "find_seams"]

ROOT = "astropy.io.fits.hdu.compressed"


@dataclass(frozen=True)
class Seam:
    """A function or method of astropy that is replaced."""

    module: str
    owner: str  # class in the module, or nothing
    name: str
    parameters: tuple
    earlier: tuple = ()  # what the parameters were in some version that is supported

    def holder(self):
        """The module or class that holds it."""
        module = importlib.import_module(self.module)
        return getattr(module, self.owner) if self.owner else module

    def __str__(self):
        return ".".join(part for part in (self.module, self.owner, self.name) if part)


SECTION = (
    "compressed_data", "compression_type", "compressed_header", "bintable", "image_header",
    "first_tile_index", "last_tile_index",
)  # fmt: skip
IMAGE = ("image_data", "compression_type", "compressed_header", "compressed_coldefs")

SEAMS = [
    Seam(f"{ROOT}._tiled_compression", "", "decompress_image_data_section", SECTION),
    Seam(f"{ROOT}.section", "", "decompress_image_data_section", SECTION),
    Seam(f"{ROOT}.section", "CompImageSection", "__getitem__", ("self", "index")),
    Seam(f"{ROOT}._tiled_compression", "", "compress_image_data", IMAGE),
    Seam(f"{ROOT}.compressed", "", "compress_image_data", IMAGE),
    Seam(f"{ROOT}.compressed", "", "_tile_shape", ("header",)),
    Seam(f"{ROOT}.compressed", "", "_bintable_header_to_image_header", ("bintable_header",)),
    Seam(f"{ROOT}.compressed", "CompImageHDU", "_prewriteto", ("self", "inplace"),
         ("self", "checksum", "inplace")),
    Seam(f"{ROOT}.compressed", "CompImageHDU", "_add_data_to_bintable", ("self", "bintable")),
]  # fmt: skip

# What the adapter calls, and leaves as it is.
NEEDED = [
    f"{ROOT}._compression:CfitsioException",
    f"{ROOT}._quantization:DITHER_METHODS",
    f"{ROOT}._tiled_compression:_check_compressed_header",
    f"{ROOT}._tiled_compression:_get_compression_setting",
    f"{ROOT}.compressed:CompImageHDU._get_bintable_without_data",
    f"{ROOT}.compressed:CompImageHDU._has_data",
    f"{ROOT}.compressed:CompImageHDU._scale_data",
    f"{ROOT}.header:REMAPPED_KEYWORDS",
    f"{ROOT}.header:_is_reserved_keyword",
    f"{ROOT}.settings:DEFAULT_COMPRESSION_TYPE",
    f"{ROOT}.settings:DEFAULT_DITHER_SEED",
    f"{ROOT}.settings:DEFAULT_HCOMP_SCALE",
    f"{ROOT}.settings:DEFAULT_HCOMP_SMOOTH",
    f"{ROOT}.settings:DEFAULT_QUANTIZE_LEVEL",
    "astropy.io.fits:BinTableHDU._data_type",
    "astropy.io.fits:BinTableHDU._get_raw_data",
    "astropy.io.fits:BinTableHDU._prewriteto",
    "astropy.utils.shapes:simplify_basic_index",
]


def missing(path):
    """What is wrong with a name, or None."""
    module, _, attributes = path.partition(":")
    try:
        found = importlib.import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError):
        return f"{module}.{attributes} is not there"
    return None


def wrong(seam):
    """What is wrong with a seam, or None."""
    try:
        found = getattr(seam.holder(), seam.name)
    except (ImportError, AttributeError):
        return f"{seam} is not there"
    parameters = tuple(inspect.signature(found).parameters)
    if parameters not in (seam.parameters, seam.earlier):
        return f"{seam} takes ({', '.join(parameters)}), wanted ({', '.join(seam.parameters)})"
    return None


def find_seams():
    """The seams, each with the function that is there now.

    Returns
    -------
    list of (Seam, holder, function)

    Raises
    ------
    ImportError
        If a private name of astropy is not there, or not what it was.
    """
    faults = [fault for fault in map(missing, NEEDED) if fault]
    faults += [fault for fault in map(wrong, SEAMS) if fault]
    if faults:
        import astropy

        raise ImportError(
            f"astropy {astropy.__version__} is not one that this version of fitscodecs can work "
            f"in; nothing was changed. Found: {'; '.join(faults)}. Wanted: astropy 7 or 8."
        )
    return [(seam, seam.holder(), getattr(seam.holder(), seam.name)) for seam in SEAMS]
