# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""A cutout of a large image over HTTP: requests and bytes, for each way to refer to it.

    python tests/peers/zarr_requests.py

The image is 1024 x 1500 quantized floats. A first cutout of 40 x 200 pixels may take three requests
and 15 % of the file, a second one a single request; opening is not counted. The pixels must be
those that the reader of tests/oracles finds.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import icechunk
import numpy as np
import zarr
from proof import Claims, versions
from ref_tile import read

import fitscodecs as fc
from fitscodecs.adapters.icechunk import open_repository, quiet, write_icechunk
from fitscodecs.adapters.kerchunk import write_json, write_parquet
from fitscodecs.adapters.virtualizarr import FitsParser
from fitscodecs.references import describe_file
from tests.conftest import same_bits
from tests.folder_server import FolderServer
from tests.making import sample
from tests.test_kerchunk import open_references

FIRST, SECOND = np.s_[200:240, 300:500], np.s_[720:760, 100:300]
MOST_REQUESTS, MOST_SHARE = 3, 0.15


def from_json(url, folder):
    write_json(describe_file(url).group, folder / "refs.json")
    return open_references(folder / "refs.json")["A"]


def from_parquet(url, folder):
    write_parquet(describe_file(url).group, folder / "refs.parquet")
    return open_references(folder / "refs.parquet")["A"]


def from_manifests(url, folder, hints=False):
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import HTTPStore

    root = url.rpartition("/")[0]
    store = HTTPStore.from_url(root, client_options={"allow_http": True})
    made = FitsParser(hints=hints)(url, ObjectStoreRegistry({root: store}))
    return zarr.open_group(made, mode="r", zarr_format=3)["A"]


def from_icechunk(url, folder):
    write_icechunk(describe_file(url).group, folder / "refs.icechunk")
    store = open_repository(folder / "refs.icechunk").readonly_session("main").store
    return zarr.open_group(store, mode="r", zarr_format=3)["A"]


def from_xarray(url, folder):
    """Not in chunks of dask."""
    import xarray

    store = from_json(url, folder).store
    return xarray.open_zarr(store, consolidated=False, zarr_format=3, chunks=None)["A"]


def from_dask(url, folder):
    import dask.array

    return dask.array.from_zarr(from_json(url, folder), chunks=(40, 1500))


CARRIERS = {
    "JSON": from_json,
    "Parquet": from_parquet,
    "ManifestStore": from_manifests,
    "ManifestStore, hints": partial(from_manifests, hints=True),
    "Icechunk": from_icechunk,
    "xarray": from_xarray,
    "dask, rows of tiles": from_dask,
}


def serve(folder):
    """A server, on the port that URLs need not name if icechunk would lose another."""
    if hasattr(icechunk.credentials, "HttpAccess"):
        return FolderServer(folder)
    try:
        return FolderServer(folder, port=80)
    except OSError as error:
        raise SystemExit(f"icechunk {icechunk.__version__} loses ports of URLs, "
                         f"and port 80 is not free: {error}") from error  # fmt: skip


def url_of(server, name):
    parts = urlsplit(server.url(name))
    return parts._replace(netloc=parts.netloc.removesuffix(":80")).geturl()


def cutout(server, array, key, want):
    """Whether the pixels are right, the number of requests and their bytes."""
    server.log.clear()
    right = same_bits(np.asarray(array[key]), want[key])
    return right, len(server.log), sum(entry.nbytes for entry in server.log)


def measure(claims, server, carrier, opened, want, size):
    first = cutout(server, opened, FIRST, want)
    second = cutout(server, opened, SECOND, want)
    claims.check(first[0] and second[0], f"{carrier}: other pixels")
    claims.check(first[2] <= MOST_SHARE * size, f"{carrier}: {first[2]} of {size} bytes")
    claims.check(first[1] <= MOST_REQUESTS, f"{carrier}: {first[1]} requests")
    claims.check(second[1] == 1, f"{carrier}: {second[1]} requests for a second cutout")
    cells = "   ".join(f"{'right' if right else 'WRONG':6} {requests:8} {nbytes:9} "
                       f"{100 * nbytes / size:5.1f} %"
                       for right, requests, nbytes in (first, second))  # fmt: skip
    print(f"{carrier:22} {cells}")


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(versions("zarr", "fsspec", "virtualizarr", "icechunk", "xarray", "dask"))
    quiet()
    claims = Claims()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "served" / "image.fits"
        path.parent.mkdir()
        quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=3)
        fc.write(path, sample("float32", (1024, 1500)), {"EXTNAME": "A"}, quantize=quantize)
        want, size = read(path)[0], path.stat().st_size
        print(f"file of {size} bytes; 40 x 200 pixels of 1024 x 1500")
        heads = "   ".join(f"{n:6} requests     bytes of file" for n in ("first", "second"))
        print(f"{'':22} {heads}")
        with serve(path.parent) as server:
            for carrier, opened in CARRIERS.items():
                folder = Path(name) / carrier
                folder.mkdir()
                array = opened(url_of(server, "image.fits"), folder)
                measure(claims, server, carrier, array, want, size)
    return claims.end()


if __name__ == "__main__":
    sys.exit(main())
