# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Images, and ways to write them with astropy: what astropy_bytes.py goes through."""

import io
import itertools
import warnings
from dataclasses import dataclass, field

import numpy as np
from astropy.io import fits

COMPRESSIONS = ["RICE_1", "HCOMPRESS_1", "PLIO_1", "GZIP_1", "GZIP_2", "NOCOMPRESS"]
INTEGERS = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8"]
# Shape of the image and of its tiles; the last tiles of squares and strips are smaller.
TILES = {
    "rows": ((22, 28), None),
    "squares": ((22, 28), (8, 8)),
    "strips": ((22, 28), (6, 28)),
    "cubes": ((4, 9, 10), (2, 4, 5)),
    "planes": ((3, 9, 10), (1, 5, 5)),
    "line": ((50,), None),
    "large": ((22, 28), (30, 40)),
    "one pixel": ((1, 1), None),
    "no pixel": ((0, 10), None),
}
LEVELS = [16, 4, 0, -0.5]
METHODS = [-1, 1, 2]
SEEDS = [1, 42, -1]
SCALES = [0, 1, 2.5, 4, -2]
CONTENTS = ["noise", "constant", "zeros", "extremes"]
FLOAT_CONTENTS = ["noise", "some NaN", "a tile of NaN", "infinity", "constant", "zeros", "wide"]
LAYOUTS = ["C", "F", "strided"]
ACTIONS = ["pixel", "card", "pixel and card", "another array", "another shape", "scale back"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One image and how to write it."""

    dtype: str
    content: str
    compression: str
    tiles: str
    order: str = "<"
    layout: str = "C"
    action: str = ""  # what is done to a file of astropy's that is opened again
    options: dict = field(default_factory=dict, hash=False)
    cards: dict = field(default_factory=dict, hash=False)

    def __str__(self):
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        cards = "".join(f" {name}:{value}" for name, value in self.cards.items())
        return (
            f"{self.compression} {self.order}{self.dtype} {self.layout} {self.content} "
            f"{self.tiles}{options}{cards}{' then: ' * bool(self.action)}{self.action}"
        )

    def pixels(self):
        shape = SPECIAL_SHAPES.get(self.content) or TILES[self.tiles][0]
        tile_shape = TILES[self.tiles][1] or (*[1] * (len(shape) - 1), shape[-1])
        first_tile = tuple(slice(n) for n in tile_shape)
        array = sample(self.content, np.dtype(self.dtype), shape, first_tile)
        return laid_out(array.astype(array.dtype.newbyteorder(self.order)), self.layout)

    def header(self):
        return fits.Header([(name, value) for name, value in self.cards.items()])


def sample(content, dtype, shape, first_tile):
    """Pixels of some type; what is not extreme is within 0 to 120."""
    rng = np.random.default_rng(5)
    pixels = np.clip(60 + rng.normal(0, 5, shape), 0, 120)
    pixels[rng.random(shape) < 0.05] = 0
    if content == "constant":
        pixels[...] = 7
    elif content == "zeros":
        pixels[...] = 0
    elif content == "a tile of NaN":
        pixels[first_tile] = np.nan
    elif content == "some NaN":
        pixels[rng.random(shape) < 0.05] = np.nan
    elif content == "infinity":
        pixels.flat[pixels.size // 3 :: pixels.size + 1] = np.inf
    elif content == "wide":
        pixels *= 10.0 ** rng.integers(-42, 34, shape)
        pixels.flat[1::9] = -0.0
    elif content == "extremes":
        info = np.iinfo(dtype)
        return rng.choice(np.array([info.min, info.max, 0, 1], dtype), shape)
    elif content in SPECIAL:
        pixels[...] = 0
        SPECIAL[content](pixels)
    with np.errstate(over="ignore"):
        return pixels.astype(dtype)


def laid_out(array, layout):
    """The same pixels, in another order in memory."""
    if layout == "strided":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.asarray(array, order=layout)


def lone_pixel(pixels):
    """4095 zeros, then a run of one pixel: what the PLIO encoder of the field gets wrong."""
    pixels.flat[4095] = 5


def lone_pixels(pixels):
    pixels.flat[[4095, 2 * 4095 + 1, 4 * 4095 + 2]] = [5, 5, 9]


def pair_of_pixels(pixels):
    """As above, but for two pixels, which it gets right."""
    pixels.flat[4095:4097] = 5


def blobs(pixels):
    """A mask as programs make them."""
    pixels[3:9, 4:60] = 1
    pixels[20:40, 30:33] = 4
    pixels[25:27, 500:] = 2**15


SPECIAL = {"lone pixel": lone_pixel, "lone pixels": lone_pixels, "pair": pair_of_pixels,
           "blobs": blobs}  # fmt: skip
SPECIAL_SHAPES = dict.fromkeys(SPECIAL, (50, 600))


def integer_cases(rng):
    for dtype, content, compression, tiles in itertools.product(
        INTEGERS, CONTENTS, COMPRESSIONS, TILES
    ):
        yield Case(dtype=dtype, content=content, compression=compression, tiles=tiles,
                   order=rng.choice("<>"), layout=rng.choice(LAYOUTS))  # fmt: skip


def float_cases(rng):
    for dtype, content, compression, level, method in itertools.product(
        FLOATS, FLOAT_CONTENTS, COMPRESSIONS, LEVELS, METHODS
    ):
        for tiles in rng.sample(list(TILES), 2):
            options = {"quantize_level": level, "quantize_method": method}
            if method != -1:
                options["dither_seed"] = rng.choice(SEEDS)
            yield Case(dtype=dtype, content=content, compression=compression, tiles=tiles,
                       order=rng.choice("<>"), layout=rng.choice(LAYOUTS),
                       options=options)  # fmt: skip


def hcompress_cases(rng):
    tiles = ["rows", "squares", "strips", "planes"]
    for dtype, scale, smooth, tile in itertools.product(INTEGERS + FLOATS, SCALES, (0, 1), tiles):
        floats = dtype in FLOATS
        for content in FLOAT_CONTENTS if floats else CONTENTS:
            options = {"hcomp_scale": scale, "hcomp_smooth": smooth}
            if floats:
                options |= {"quantize_level": rng.choice(LEVELS),
                            "quantize_method": rng.choice(METHODS), "dither_seed": 9}  # fmt: skip
            yield Case(dtype=dtype, content=content, compression="HCOMPRESS_1", tiles=tile,
                       order=rng.choice("<>"), options=options)  # fmt: skip


def header_cases(rng):
    """Headers with BLANK, BSCALE and BZERO."""
    sets = [{"BLANK": 0}, {"BLANK": 60}, {"BLANK": -32768}, {"BSCALE": 0.5, "BZERO": 10},
            {"BSCALE": 2.0, "BLANK": 0}, {"BZERO": 32768}]  # fmt: skip
    for dtype, compression, cards, raw in itertools.product(
        INTEGERS + FLOATS, COMPRESSIONS, sets, (False, True)
    ):
        content = rng.choice(FLOAT_CONTENTS[:2] if dtype in FLOATS else CONTENTS)
        options = {"do_not_scale_image_data": True} if raw else {}
        yield Case(dtype=dtype, content=content, compression=compression, order=rng.choice("<>"),
                   tiles=rng.choice(["rows", "squares"]), options=options, cards=cards)  # fmt: skip


def mask_cases(rng):
    for content, dtype, compression in itertools.product(
        SPECIAL, ["u1", "i2", "i4", "i8"], ["PLIO_1", "RICE_1", "HCOMPRESS_1"]
    ):
        if content == "blobs" and dtype in ("u1", "i2"):
            continue
        for shape in ((50, 600), (10, 600)):
            yield Case(dtype=dtype, content=content, compression=compression, tiles="rows",
                       order=rng.choice("<>"), options={"tile_shape": shape})  # fmt: skip


def update_cases(rng):
    """Files that are opened again, changed, and written back."""
    for dtype, compression, action, cards in itertools.product(
        INTEGERS + FLOATS, COMPRESSIONS, ACTIONS, ({}, {"BLANK": 60}, {"BSCALE": 0.5, "BZERO": 10})
    ):
        options = {"quantize_method": rng.choice(METHODS), "dither_seed": 9}
        yield Case(dtype=dtype, content=rng.choice(["noise", "zeros"]), compression=compression,
                   tiles=rng.choice(["rows", "squares", "strips"]), action=action, cards=cards,
                   options=options if dtype in FLOATS else {})  # fmt: skip


PARTS = {"integers": integer_cases, "floats": float_cases, "hcompress": hcompress_cases,
         "headers": header_cases, "masks": mask_cases, "updates": update_cases}  # fmt: skip


@dataclass
class Written:
    """A file, or the error that came instead, and the warnings on the way."""

    raw: bytes | None
    error: Exception | None
    warnings: set


def write(case, pixels, base=None):
    """Write an image to memory; or change one that was written, and write it back."""
    options = {"tile_shape": TILES[case.tiles][1], **case.options}
    out, error = io.BytesIO(), None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if base is None:
                hdu = fits.CompImageHDU(pixels, case.header(), compression_type=case.compression,
                                        **options)  # fmt: skip
                fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(out)
            else:
                out.write(changed(base, case.action))
        except Exception as caught_error:
            error = caught_error
    texts = {(w.category.__name__, str(w.message)) for w in caught  # some come once for every tile
             if not issubclass(w.category, ResourceWarning)}  # fmt: skip
    return Written(None if error else out.getvalue(), error, texts)


class Kept(io.BytesIO):
    """A file whose contents outlive it."""

    def close(self):
        if not self.closed:
            self.content = self.getvalue()
        super().close()


def changed(raw, action):
    """Open a file, do something to its image, and write it back; gives what is in the file then."""
    file = Kept(raw)
    scale_back = {"scale_back": True} if action == "scale back" else {}
    hdus = fits.open(file, mode="update", **scale_back)  # left open where anything fails
    hdu = hdus[1]
    if action in ("pixel", "pixel and card", "scale back"):
        hdu.data[2, 3] = 77
    if action in ("card", "pixel and card"):
        hdu.header["OBJECT"] = "another"
    if action == "another array":
        hdu.data = np.arange(hdu.data.size).reshape(hdu.data.shape).astype("i2")
    if action == "another shape":
        hdu.data = hdu.data[:14, :20].copy()
    hdus.flush()
    hdus.close()  # flushes again
    return file.content


def read(raw, **options):
    """Pixels of HDU 1, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with fits.open(io.BytesIO(raw), **options) as hdus:
                return hdus[1].data
        except Exception as error:
            return error
