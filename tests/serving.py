# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""A web server with range requests and a log of them, and references to the HDUs it serves."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import fitscodecs as fc
from fitscodecs.hdu import find
from fitscodecs.source import open_source


class FileServer:
    """Files over HTTP, by name.

    Attributes
    ----------
    files : dict
        Contents; may be changed.
    log : list of (str, str, int, int)
        Method, name, and the range that was asked for, of each request.
    """

    def __init__(self, **files):
        self.files = files
        self.log = []
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def url(self, name):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"

    def ranges(self):
        """The ranges that were read, and forget them."""
        with self.lock:
            ranges = [(start, stop) for method, _, start, stop in self.log if method == "GET"]
            self.log.clear()
        return ranges

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def handler(server):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def start(self, body):
                content = server.files.get(self.path.strip("/"))
                if content is None:
                    self.send_response(404)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                start = int(match[1]) if match else 0
                stop = int(match[2]) + 1 if match and match[2] else len(content)
                part = content[start:stop]
                with server.lock:
                    server.log.append((self.command, self.path.strip("/"), start, stop))
                self.send_response(206 if match else 200)
                self.send_header("Content-Length", str(len(part)))
                self.send_header("Accept-Ranges", "bytes")
                self.send_header("ETag", f'"{hash(content):x}"')
                if match:
                    last = start + len(part) - 1
                    self.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
                self.end_headers()
                if body:
                    self.wfile.write(part)

            def do_GET(self):
                self.start(True)

            def do_HEAD(self):
                self.start(False)

            def log_message(self, *args):
                pass

        return Handler


# ---------------------------------------------------------------------------- references


def array_metadata(shape, chunks, dtype, config=None, name="fitscodecs.tiled", fill_value=0):
    """The text of a ``zarr.json`` of an array of HDUs."""
    return json.dumps({
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": np.dtype(dtype).name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_value,
        "codecs": [{"name": name, "configuration": {"layout": "hdu", **(config or {})}}],
        "attributes": {},
    })  # fmt: skip


def place(target, hdu=None):
    """Where an HDU is in its file: first byte and length."""
    found = find(open_source(target), hdu)
    return found.start, found.stop - found.start


def references(url, target, hdu=None, scaled=True, **config):
    """References to one image as the array SCI, version 0."""
    image = fc.open(target, hdu, scaled=scaled)
    metadata = array_metadata(image.shape, image.shape, image.dtype, {"scaled": scaled, **config})
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    chunk = "/".join(["c"] + ["0"] * image.ndim)
    return {"zarr.json": group, "SCI/zarr.json": metadata,
            f"SCI/{chunk}": [url, *place(target, hdu)]}  # fmt: skip


def reference_store(refs, protocol="http", scheme="reference", **settings):
    """A store of zarr over references."""
    import fsspec
    from zarr.storage import FsspecStore

    remote = {"remote_options": {"asynchronous": True}} if protocol == "http" else {}
    fs = fsspec.filesystem(scheme, fo=refs, remote_protocol=protocol, asynchronous=True,
                           **remote, **settings)  # fmt: skip
    return FsspecStore(fs, read_only=True, path="")


def open_references(refs, name="SCI", **settings):
    """An array of references."""
    import zarr

    store = reference_store(refs, **settings)
    return zarr.open_group(store, mode="r", zarr_format=3)[name]
