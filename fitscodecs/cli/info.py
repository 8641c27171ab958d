# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Show what is in FITS files.

One line for each HDU, then for each compressed image where its tiles are.
Only headers and table rows are read, from a disk or a URL; no pixel is decoded.
Shapes are in numpy order, the slow axis first; axes are in FITS order, NAXIS1 first.
"""

import json
import math

import numpy as np

from ..check import heap_use
from ..errors import FitsCodecsError, HeaderError
from ..hdu import find, walk
from ..header import is_compressed, is_plain_image
from ..image import TiledImage
from ..source import open_source
from ..table import ABSENT, COLUMNS
from .failures import each_file, one_line
from .options import add_hdu
from .report import codec_name, codec_parameters, counted, dither_name, print_table, ratio

EXAMPLES = """\
  fitscodecs info image.fits.fz
  fitscodecs info --json *.fits.fz | jq '.[].hdus[].codec'
  fitscodecs info --hdu SCI --tiles image.fits.fz
  fitscodecs info https://example.org/image.fits.fz"""

TERMS = """\
words in the tables:
  ratio         bytes of the pixels, by bytes of the table and its heap
  heap used     bytes that belong to some tile
  gap           bytes between the table and its heap
  unreferenced  bytes of the heap that belong to no tile
  shared        bytes that are saved because tiles name the very same stream
  overlapping   bytes that belong to several streams, which are not the same: a fault"""


def add_arguments(parser):
    parser.epilog += f"\n\n{TERMS}"
    parser.add_argument("files", nargs="+", metavar="FILE", help="path or URL")
    add_hdu(parser, "all")
    parser.add_argument("--tiles", action="store_true", help="list every tile as well")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args):
    reports = []

    def work(file):
        report = describe_file(file, args.hdu, args.tiles)
        reports.append(report)
        if not args.json:
            print_report(report)
        return int(any("problem" in hdu for hdu in report["hdus"]))

    status = each_file(args.files, work)
    if args.json:
        print(json.dumps(reports, indent=1))
    return status


# ---------------------------------------------------------------------------- facts


def describe_file(file, which=None, tiles=False):
    """What is known of a file and its HDUs, as JSON types.

    Parameters
    ----------
    file : str
        Path or URL.
    which : None, int, str or (str, int)
        One HDU; by default all.
    tiles : bool
        Whether to list every tile.
    """
    source = open_source(file)
    try:
        hdus = walk(source) if which is None else [find(source, which)]
        return {"file": file, "hdus": list(describe_hdus(source, hdus, tiles))}
    finally:
        source.close()


def describe_hdus(source, hdus, tiles):
    """One dictionary for each HDU; the last one tells why no more can be found, if so."""
    index = -1
    try:
        for hdu in hdus:
            index = hdu.index
            yield describe_hdu(source, hdu, tiles)
    except HeaderError as error:
        if index < 0:
            raise
        yield {"index": index + 1, "name": "", "kind": "broken", "problem": one_line(error)}


def describe_hdu(source, hdu, tiles):
    """Facts of one HDU; a fault ends them with the entry "problem"."""
    facts = {"index": hdu.index, "name": hdu.name, "kind": kind_of(hdu)}
    size = source.size
    if size is not None and size < hdu.data_start + hdu.data_nbytes:
        there = max(0, size - hdu.data_start)
        facts["problem"] = f"file ends after {there} of {hdu.data_nbytes} bytes of data"
    try:
        if is_compressed(hdu.header) or is_plain_image(hdu.header):
            describe_image(facts, TiledImage(source, hdu), tiles)
        elif "table" in facts["kind"]:
            facts["rows"] = hdu.header.get("NAXIS2")
            facts["columns"] = hdu.header.get("TFIELDS")
    except FitsCodecsError as error:
        facts["problem"] = one_line(error).removeprefix(f"{hdu.label}: ")
    return facts


def kind_of(hdu):
    """What an HDU is, in a word or two."""
    header = hdu.header
    if is_compressed(header):
        return "compressed image"
    if header.get("GROUPS") is True:
        return "random groups"
    if is_plain_image(header):
        return "image" if hdu.index else "primary image"
    kinds = {"BINTABLE": "table", "A3DTABLE": "table", "TABLE": "ASCII table", "IMAGE": "no data"}
    return (
        kinds.get(header.get("XTENSION"), str(header.get("XTENSION"))) if hdu.index else "primary"
    )


def describe_image(facts, image, tiles):
    facts["shape"] = list(image.shape)
    facts["axes"] = list(reversed(image.shape))
    facts["bitpix"] = image.structure.bitpix
    facts["dtype"] = image.dtype.name
    if not image.compressed:
        return
    codec, quantize = image.codec, image.quantize
    facts["codec"] = codec.zcmptype[0]
    facts["parameters"] = codec_parameters(image)
    facts["codec_text"] = codec_name(image)
    facts["tile_shape"] = list(image.tile_shape)
    facts["grid_shape"] = list(image.grid_shape)
    facts["dither"] = quantize and quantize.method
    facts["seed"] = quantize.seed if quantize and quantize.dither else None
    facts["dither_text"] = dither_name(quantize)
    facts["ratio"] = ratio(image)
    describe_table(facts, image, tiles)


def describe_table(facts, image, tiles):
    """Where the tiles are."""
    entries = image.table.describe()
    facts["tiles"] = {name: int(np.sum(entries.column == i)) for i, name in enumerate(COLUMNS)}
    facts["tiles"]["absent"] = int(np.sum(entries.column == ABSENT))
    outside = int(np.sum((entries.column != ABSENT) & (entries.start < 0)))
    use = heap_use(image)
    facts["heap"] = {
        "used": use.used,
        "gap": use.gap,
        "unreferenced": use.unreferenced,
        "shared": use.shared,
        "overlapping": use.overlapping,
    }
    quantized = entries.scale[entries.column == 0] if image.quantize else entries.scale[:0]
    if quantized.size:
        facts["zscale"] = [number(quantized.min()), number(quantized.max())]
    if outside:
        facts["problem"] = f"descriptors of {counted(outside, 'tile')} leave the heap"
    if tiles:
        facts["tile_list"] = [describe_tile(image, entries, i) for i in range(len(entries.tiles))]


def describe_tile(image, entries, i):
    column = int(entries.column[i])
    quantized = image.quantize is not None and column == 0
    return {
        "row": i,
        "block": [int(n) for n in np.unravel_index(i, image.grid_shape)],
        "column": None if column == ABSENT else COLUMNS[column],
        "start": int(entries.start[i]),
        "nbytes": int(entries.nbytes[i]),
        "zscale": number(entries.scale[i]) if quantized else None,
        "zzero": number(entries.zero[i]) if quantized else None,
        "zblank": int(entries.blank[i]) if quantized and entries.has_blank[i] else None,
    }


def number(value):
    """A float that JSON can hold."""
    return float(value) if math.isfinite(value) else None


# ---------------------------------------------------------------------------- tables


def print_report(report):
    hdus = report["hdus"]
    print_table(
        [
            "HDU",
            "name",
            "kind",
            "shape (numpy)",
            "axes (FITS)",
            "type",
            "codec",
            "tile (numpy)",
            "grid",
            "dither",
            "ratio",
            "problem",
        ],
        [hdu_line(hdu) for hdu in hdus],
        report["file"],
    )
    images = [hdu for hdu in hdus if "tiles" in hdu]
    if images:
        print_table(
            [
                "HDU",
                "tiles",
                *COLUMNS,
                "absent",
                "heap used",
                "gap",
                "unreferenced",
                "shared",
                "overlapping",
                "ZSCALE",
            ],
            [table_line(hdu) for hdu in images],
            "\ntiles by the column that holds them, and bytes of the heap",
        )
    for hdu in images:
        if "tile_list" in hdu:
            print_tiles(hdu)
    print()


def hdu_line(hdu):
    shape = times(hdu.get("shape"))
    if "rows" in hdu:
        shape = f"{counted(hdu['rows'], 'row')}, {counted(hdu['columns'], 'column')}"
    factor = hdu.get("ratio")
    return [
        str(hdu["index"]),
        hdu["name"],
        hdu["kind"],
        shape,
        times(hdu.get("axes"), " x "),
        hdu.get("dtype", ""),
        hdu.get("codec_text", ""),
        times(hdu.get("tile_shape")),
        times(hdu.get("grid_shape")),
        hdu.get("dither_text", ""),
        f"{factor:.2f}" if factor else "",
        hdu.get("problem", ""),
    ]


def times(lengths, between=", "):
    """A shape as a tuple, or as a product."""
    if lengths is None:
        return ""
    text = between.join(map(str, lengths))
    return f"({text})" if between == ", " else text


def table_line(hdu):
    heap, low_high = hdu["heap"], hdu.get("zscale")
    scale = (
        ""
        if low_high is None
        else " to ".join("NaN" if x is None else f"{x:.6g}" for x in low_high)
    )
    surplus = [
        str(heap["gap"]),
        str(heap["unreferenced"]),
        *(str(heap[name] or "") for name in ("shared", "overlapping")),
    ]
    counts = [str(n or "") for n in hdu["tiles"].values()]
    total = str(sum(hdu["tiles"].values()))
    return [str(hdu["index"]), total, *counts, str(heap["used"]), *surplus, scale]


def print_tiles(hdu):
    rows = [
        [
            str(tile["row"]),
            times(tile["block"]),
            tile["column"] or "absent",
            str(tile["start"]),
            str(tile["nbytes"]),
            *(
                "" if tile[key] is None else f"{tile[key]:.9g}"
                for key in ("zscale", "zzero", "zblank")
            ),
        ]
        for tile in hdu["tile_list"]
    ]
    columns = ["row", "block", "column", "start", "bytes", "ZSCALE", "ZZERO", "ZBLANK"]
    print_table(columns, rows, f"\ntiles of HDU {hdu['index']}; start counts from its data unit")
