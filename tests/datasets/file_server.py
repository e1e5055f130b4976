"""Serve one file on 127.0.0.1 and misbehave as told; check what a download leaves in the cache."""

import hashlib
import re
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from optfair.datasets import SourceFile, store
from optfair.errors import DataFileError

NAME = "enem/exam.zip"
CONTENT = np.random.default_rng(0).bytes(300_000)
NEW_CONTENT = np.random.default_rng(1).bytes(300_000)
MD5, SHA256 = (hashlib.new(name, CONTENT).hexdigest() for name in ("md5", "sha256"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        remote = self.server
        remote.requests.append(dict(self.headers))
        status = remote.statuses.pop(0) if remote.statuses else 200
        if status != 200:
            self._send_empty(status, *([("Location", remote.location)] if status == 302 else []))
            return
        content = remote.content
        start = self._start()
        if start and start >= len(content):
            self._send_empty(416, ("Content-Range", f"bytes */{len(content)}"))
            return
        self._send_head(start)
        stop = remote.interruptions.pop(0) if remote.interruptions else len(content)
        for position in range(start, min(len(content), start + stop), remote.block):
            block = content[position : min(position + remote.block, start + stop)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if remote.chunked else block)
            remote.bytes_sent += len(block)
            time.sleep(remote.pause)
        if start + stop < len(content):
            remote.stall.wait(10)
            if remote.resets:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif remote.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _start(self):
        """Return the first byte of the answer, by the headers Range and If-Range."""
        remote = self.server
        position = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") in (None, remote.etag, remote.modified)
        return int(position[1]) if position and not remote.ignores_range and (same or remote.ignores_if_range) else 0

    def _send_empty(self, status, *headers):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", "0")]:
            self.send_header(name, value)
        self.end_headers()

    def _send_head(self, start):
        remote, size = self.server, len(self.server.content)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + remote.shift}-{size - 1}/{size}")
        for name, value in [("ETag", remote.etag), ("Last-Modified", remote.modified), ("Content-Type", remote.type)]:
            if value:
                self.send_header(name, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if remote.chunked else ("Content-Length", size - start)))
        self.end_headers()


class FileServer(ThreadingHTTPServer):
    """Serve one file. interruptions : bytes after which each answer stops; statuses : of the next answers."""

    content, etag, modified, type = CONTENT, '"one"', None, "application/zip"
    ignores_range = ignores_if_range = chunked = resets = False
    pause, block, shift, bytes_sent, location = 0.0, 1 << 14, 0, 0, ""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.interruptions, self.statuses, self.stall = [], [], [], threading.Event()
        self.stall.set()
        self.url = f"http://127.0.0.1:{self.server_port}/exam.zip"

    def handle_error(self, request, address):
        """Ignore that a killed process does not listen any more."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, address)

    def file(self, **fields):
        return SourceFile(NAME, **{"url": self.url} | fields)


# -- what there is before and after a download ----------------------------------------------------------------
def put(folder, content=CONTENT):
    """Write the file into a folder and return its path."""
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_complete(cache, content=CONTENT):
    """Return whether the cache holds what a finished download leaves: the file and its digest, nothing else."""
    digest = hashlib.sha256(content).hexdigest().encode()
    return files_in(cache) == {NAME: content, f"{NAME}.sha256": digest}


def error_of(file, **options):
    """Return the message with which `store.obtain` refuses a file."""
    with pytest.raises(DataFileError) as error:
        store.obtain(file, **options)
    return str(error.value)


def missing_text(cache, file, reason, data_folder="not set"):
    """Return the message about a missing file."""
    action = f"Download it from {file.url} and put it at" if file.url else "Put it at"
    return (
        f"{NAME}: not found in $OPTFAIR_DATA ({data_folder}) nor in {cache}, and {reason}. "
        f"{action} {cache}/{NAME}, or set OPTFAIR_DATA to a folder that holds {NAME}."
    )
