# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Every image HDU of other people's files through references, as `fitscodecs.open` reads it.

    FITSCODECS_SHARED=... python tests/peers/zarr_real.py

References of each kind are read by stock fsspec, VirtualiZarr, icechunk and zarr: all of an image
and, in zarr v3, a part of it. Of v2 there are JSON and Parquet, whose chunks are whole HDUs. Counts
of image HDUs with equal bits are printed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import zarr
from proof import SHARED, Claims, versions

import fitscodecs as fc
from fitscodecs.adapters.icechunk import open_repository, quiet, write_icechunk
from fitscodecs.adapters.kerchunk import write_json, write_parquet
from fitscodecs.adapters.virtualizarr import FitsParser
from fitscodecs.references import describe_file
from tests.conftest import same_bits
from tests.test_kerchunk import image_hdus, open_references
from tests.test_virtualizarr import REGISTRY, uri


def json_of(zarr_format):
    def opened(path, group, folder):
        write_json(group, folder / "refs.json", zarr_format=zarr_format, overwrite=True)
        return open_references(folder / "refs.json", zarr_format)

    return opened


def parquet_of(zarr_format):
    settings = {"use_consolidated": False} if zarr_format == 2 else {}

    def opened(path, group, folder):
        # A folder of the format 2 alone as well as one that both formats read.
        write_parquet(group, folder / "refs.parquet", zarr_format=zarr_format, overwrite=True)
        return open_references(folder / "refs.parquet", zarr_format, **settings)

    return opened


def manifests(path, group, folder):
    return zarr.open_group(FitsParser()(uri(path), REGISTRY), mode="r", zarr_format=3)


def repository(path, group, folder):
    write_icechunk(group, folder / "refs.icechunk", overwrite=True)
    store = open_repository(folder / "refs.icechunk").readonly_session("main").store
    return zarr.open_group(store, mode="r", zarr_format=3)


CARRIERS = {
    "v3 JSON": json_of(3),
    "v3 Parquet": parquet_of(3),
    "v3 ManifestStore": manifests,
    "v3 Icechunk": repository,
    "v2 JSON": json_of(2),
    "v2 Parquet": parquet_of(2),
}


def part(shape):
    """A block of the inside."""
    return tuple(slice(n // 3, max(n // 3 + 1, 2 * n // 3)) for n in shape)


def read_file(path, folder, claims, counts):
    """Read all images of a file through all carriers; their number."""
    hdus = image_hdus(path)
    if not hdus:
        return 0
    group = describe_file(path).group
    wanted = [fc.open(path, hdu=hdu.index)[...] for hdu in hdus]
    for carrier, opened in CARRIERS.items():
        arrays = opened(path, group, folder)
        for name, want in zip(group.arrays, wanted, strict=True):
            found = arrays[name]
            good = same_bits(found[...], want)
            if carrier.startswith("v3"):
                good = good and same_bits(found[part(want.shape)], want[part(want.shape)])
            claims.check(good, f"{carrier}: {path.name}, {name}")
            counts[carrier] += good
    return len(hdus)


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(versions("zarr", "fsspec", "virtualizarr", "icechunk"))
    quiet()
    files = sorted((SHARED / "data" / "real").glob("*.f*"))
    if not files:
        print(f"no files in {SHARED / 'data' / 'real'}: set FITSCODECS_SHARED")
        return 1
    claims, counts, numbers = Claims(), dict.fromkeys(CARRIERS, 0), []
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            numbers.append(read_file(path, Path(folder), claims, counts))
    with_images = sum(n > 0 for n in numbers)
    print(f"{len(files)} files, {with_images} with images, {sum(numbers)} image HDUs; equal:")
    for carrier, count in counts.items():
        print(f"  {carrier:18} {count}")
    return claims.end()


if __name__ == "__main__":
    sys.exit(main())
