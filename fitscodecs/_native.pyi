# Licensed under a 3-clause BSD style license - see LICENSE.rst
from typing_extensions import Buffer

from .tile import Batch, Jobs

FEATURES: dict[str, int]
MAX_DIMENSIONS: int
HAS_GZIP: bool
GZIP_LEAST: int

def cpu_features() -> int: ...
def init(features: int) -> None: ...
def dither_table() -> tuple[bytes, int]: ...
def codec_list() -> dict[str, tuple[str, ...]]: ...
def tiles_at_once(name: str) -> int: ...
def encode(
    name: str, where: str, pixels: Buffer, nx: int, ny: int, parameters: tuple[int, ...]
) -> bytes: ...
def decode(
    name: str,
    where: str,
    stream: Buffer,
    nx: int,
    ny: int,
    parameters: tuple[int, ...],
    out: Buffer,
) -> int: ...
def noise(pixels: Buffer, is_f64: bool, nx: int, ny: int) -> tuple[float, float, float]: ...
def quantize(
    where: str,
    pixels: Buffer,
    is_f64: bool,
    nx: int,
    ny: int,
    level: float,
    dither: int,
    seed: int,
    row: int,
    out: Buffer,
) -> tuple[float, float]: ...
def quantize_with(
    where: str,
    pixels: Buffer,
    is_f64: bool,
    npixels: int,
    dither: int,
    seed: int,
    row: int,
    scale: float,
    zero: float,
    out: Buffer,
) -> None: ...
def dequantize(
    where: str,
    integers: Buffer,
    pixel_type: int,
    npixels: int,
    dither: int,
    seed: int,
    row: int,
    scale: float,
    zero: float,
    blank: int | None,
    out: Buffer,
    is_f64: bool,
) -> None: ...
def deflate(data: Buffer, level: int) -> bytes: ...
def inflate(stream: Buffer, capacity: int) -> tuple[bytes, int] | None: ...
def decode_tiles(batch: Batch, jobs: Jobs, out: Buffer) -> list[int]: ...
