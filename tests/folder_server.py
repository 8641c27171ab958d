# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""A web server for tests: a folder with range requests, ETags, a log, and a delay."""

import email.utils
import re
import threading
import time
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["FolderServer"]

Entry = namedtuple("Entry", "method name start nbytes")


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # as many clients may knock at the same moment
    daemon_threads = True


class FolderServer:
    """The files of a folder over HTTP.

    Parameters
    ----------
    folder : pathlib.Path
    latency : float
        Seconds that every answer takes longer.
    port : int
        0: one that is free.

    Attributes
    ----------
    log : list of Entry
        What was asked for: method, name, first byte and number of bytes.
    busiest : int
        Largest number of answers that were in the making at the same moment.
    """

    def __init__(self, folder, latency=0, port=0):
        self.folder, self.latency, self.log = folder, latency, []
        self.busy = self.busiest = 0
        self.lock = threading.Lock()
        self.http = Server(("127.0.0.1", port), type("Bound", (Handler,), {"outer": self}))
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, name):
        return f"http://127.0.0.1:{self.http.server_port}/{name}"

    def etag(self, name):
        status = (self.folder / name).stat()
        return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'

    def count(self, change):
        with self.lock:
            self.busy += change
            self.busiest = max(self.busiest, self.busy)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.http.shutdown()
        self.http.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        self.outer.count(1)
        time.sleep(self.outer.latency)
        self.outer.count(-1)
        path = self.outer.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.changed(path):
            self.send_response(412)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        stop = min(int(match[2]) + 1, size) if match and match[2] else size
        self.head(path, start, stop, size, match)
        nbytes = stop - start if self.command == "GET" else 0
        self.outer.log.append(Entry(self.command, path.name, start, nbytes))
        if nbytes:
            with path.open("rb") as file:
                file.seek(start)
                self.wfile.write(file.read(nbytes))

    def etag(self, path):
        return self.outer.etag(path.relative_to(self.outer.folder))

    def changed(self, path):
        """Whether a client wants another version of the file."""
        if self.headers.get("If-Match", "*") not in (
            "*",
            self.outer.etag(path.relative_to(self.outer.folder)),
        ):
            return True
        since = self.headers.get("If-Unmodified-Since")
        return since is not None and (
            int(path.stat().st_mtime) > email.utils.parsedate_to_datetime(since).timestamp()
        )

    def head(self, path, start, stop, size, partial):
        self.send_response(206 if partial else 200)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", self.etag(path))
        modified = email.utils.formatdate(path.stat().st_mtime, usegmt=True)
        self.send_header("Last-Modified", modified)
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()

    def log_message(self, *args):
        pass
