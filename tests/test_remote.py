# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Remote files: a cutout reads its bytes and little more, in few requests."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import fitscodecs as fc
from tests.conftest import same_bits
from tests.making import sample, write_compressed

pytest.importorskip("fsspec", reason="remote files need fsspec")
pytest.importorskip("aiohttp", reason="HTTP needs aiohttp")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


class Server:
    """One file over HTTP with range requests, and a log of (start, stop) of each."""

    def __init__(self, content, ranges=True):
        self.log = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Accept-Ranges", "bytes")
                self.end_headers()

            def do_GET(self):
                match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "") * ranges)
                start = int(match[1]) if match else 0
                stop = min(int(match[2]) + 1, len(content)) if match and match[2] else len(content)
                server.log.append((start, stop))
                body = content[start:stop]
                self.send_response(206 if match else 200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/a.fits.fz"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def nbytes(self):
        return sum(stop - start for start, stop in self.log)

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def serve():
    servers = []

    def start(content, **settings):
        servers.append(Server(content, **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_cutout(tmp_path, serve):
    array = sample("float32", (1024, 1500))
    quantize = fc.Quantize(level=4, method="SUBTRACTIVE_DITHER_1", seed=7)
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(), (1, 1500), quantize=quantize)
    want = fc.open(path)[300:340, 700:900]
    server = serve(path.read_bytes())
    image = fc.open(server.url)
    assert same_bits(image[300:340, 700:900], want)
    assert len(server.log) <= 3, server.log
    assert server.nbytes() <= 0.15 * path.stat().st_size
    server.log.clear()
    assert same_bits(image[300:340, 700:900], want)
    assert len(server.log) == 1


def test_scattered_tiles_are_coalesced(tmp_path, serve):
    array = sample("int16", (512, 512))
    path = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=2), (32, 32))
    server = serve(path.read_bytes())
    image = fc.open(server.url)
    points = (np.array([0, 500, 3]), np.array([9, 511, 300]))
    assert same_bits(image[points], array[points])
    assert same_bits(image[...], array)
    assert len(server.log) <= 8


def test_walking_reads_headers_only(tmp_path, serve):
    array = sample("int16", (200, 300))
    part = write_compressed(tmp_path / "a.fits", array, fc.Gzip1(), (200, 300),
                            [("EXTNAME", "CCD")]).read_bytes()  # fmt: skip
    content = part[:2880] + 60 * part[2880:]
    server = serve(content)
    images = fc.open_all(server.url)
    assert len(images) == 60
    headers = 8 * 2880 + sum(image.hdu.data_start - image.hdu.start for image in images)
    assert server.nbytes() <= headers + 8 * 2880 < 0.1 * len(content)
    server.log.clear()
    assert same_bits(images[42][50:60, 3], array[50:60, 3])
    assert len(server.log) <= 2


def test_absent_file(serve):
    server = serve(b"")
    with pytest.raises((fc.HeaderError, OSError)):
        fc.open(server.url)


def test_object_with_ranges(tmp_path):
    array = sample("int16", (64, 64))
    raw = write_compressed(tmp_path / "a.fits", array, fc.Rice1(bytepix=2), (1, 64)).read_bytes()
    log = []

    class Reader:
        def read_range(self, start, stop):
            log.append((start, stop))
            return raw[start:stop]

    image = fc.open(Reader())
    assert same_bits(image[7], array[7])
    assert all(0 <= start <= stop for start, stop in log)
    assert same_bits(image[::9], array[::9])


def test_server_without_ranges(tmp_path, serve):
    """It sends the whole file for each range: an error, unless the file is so small anyway."""
    array = sample("int16", (300, 200))
    path = write_compressed(tmp_path / "a.fits", array, fc.NoCompress(), (1, 200))
    server = serve(path.read_bytes(), ranges=False)
    with pytest.raises(OSError, match="does not support ranges"):
        fc.open(server.url)
    assert same_bits(fc.open("simplecache::" + server.url)[...], array)
    small = write_compressed(tmp_path / "b.fits", array[:9], fc.NoCompress(), (1, 200))
    server = serve(small.read_bytes(), ranges=False)
    assert same_bits(fc.open(server.url)[3:5], array[3:5])
