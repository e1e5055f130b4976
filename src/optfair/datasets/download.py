"""Download a file over HTTP into a .part file, which a later call or another process can continue.

The process that writes <name>.part holds a lock on it. <name>.part.json records which version of the remote file the
.part belongs to.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO
from urllib import request
from urllib.error import HTTPError, URLError

from optfair.datasets.schema import SourceFile
from optfair.errors import need_extra
from optfair.utils.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows has no such locks: two processes that download the same file there are not separated
    fcntl = None  # type: ignore[assignment]

TIMEOUT = 30.0  # seconds without a byte
MAX_ATTEMPTS = 4  # with the waits below, a server has 7 s to recover
FIRST_WAIT = 1.0  # seconds before the second attempt, doubled before each further one
TRANSIENT_STATUSES = {408, 425, 429, 500, 502, 503, 504}  # the server may answer differently a second later
BLOCK_BYTES = 1 << 18


class DownloadError(Exception):
    """A download that failed.

    reason : the cause. retry : whether another attempt may succeed. resume_hint : which bytes the next call can use.
    """

    def __init__(self, reason: str, retry: bool = False, resume_hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.retry, self.resume_hint = reason, retry, resume_hint


def append_suffix(path: Path, suffix: str) -> Path:
    """Return the path with a suffix appended to its name."""
    return path.with_name(path.name + suffix)


@contextmanager
def locked(part: Path, notice: str) -> Iterator[BinaryIO]:
    """Open the .part and lock it until the block ends; remove it then if it is empty.

    notice : printed on stderr if another process holds the lock; "" prints nothing.
    """

    def is_current() -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(part.stat(), os.fstat(handle.fileno()))
        return False

    while True:
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as handle:
            if fcntl is not None:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if notice:
                        print(notice, file=sys.stderr)
                    fcntl.flock(handle, fcntl.LOCK_EX)
                except OSError:  # some file systems of clusters have no locks
                    pass
            if not is_current():  # renamed or removed during the wait: this is no longer the .part
                continue
            try:
                yield handle
            finally:
                if not handle.closed and is_current() and os.fstat(handle.fileno()).st_size == 0:
                    with suppress(OSError):  # Windows does not remove an open file
                        part.unlink()
                        append_suffix(part, ".json").unlink(missing_ok=True)
            return


def fetch(file: SourceFile, handle: BinaryIO, part: Path, progress: bool) -> None:
    """Fetch the bytes that the .part lacks, in at most `MAX_ATTEMPTS` attempts."""
    for attempt in range(MAX_ATTEMPTS):
        try:
            return _attempt(file, handle, append_suffix(part, ".json"), progress)
        except DownloadError as error:
            if not error.retry or attempt == MAX_ATTEMPTS - 1:
                size = handle.seek(0, os.SEEK_END) if _state(file, append_suffix(part, ".json")) else 0
                hint = f"The {size:,} bytes in {part} are kept: calling again continues from there." if size else ""
                raise DownloadError(error.reason, resume_hint=hint) from error.__cause__
            time.sleep(FIRST_WAIT * 2**attempt)


def _attempt(file: SourceFile, handle: BinaryIO, state_file: Path, progress: bool) -> None:
    """Fetch the bytes that the .part lacks if they are of the same remote file, else all bytes."""
    state = _state(file, state_file)
    received = handle.seek(0, os.SEEK_END) if state else 0
    if received and received == state["size"]:
        return  # interrupted between the last byte and the renaming
    with _open(file, handle, state, received) as response:
        if response.headers.get_content_type() == "text/html" and not file.name.lower().endswith((".html", ".htm")):
            raise DownloadError(
                f"{file.url} returned a web page (a confirmation, a login or a quota notice) instead of the file"
            )
        if response.status == 200:
            received = 0
            # Before the state is written: a process killed in between leaves no byte that counts for the new version.
            handle.truncate(0)
            state = {"url": file.url, "validator": _validator(response.headers), "size": response.length}
            write_atomically(state_file, json.dumps(state).encode())
        elif response.status != 206 or not received:
            raise DownloadError(f"{file.url} could not be reached (HTTP {response.status} {response.reason})")
        size = state["size"] if response.length is None else received + response.length
        if response.status == 206 and not _continues(response.headers, state, received, size):
            handle.truncate(0)
            raise DownloadError(f"{file.url} has changed since the download began", retry=True)
        handle.seek(received)
        received = _copy(file, response, handle, received, size, progress)
    if size is not None and received != size:
        raise DownloadError(f"{file.url} was interrupted after {received:,} of {size:,} bytes", retry=True)
    if not received:
        raise DownloadError(f"{file.url} is empty", retry=True)


def _open(file: SourceFile, handle: BinaryIO, state: dict[str, Any], received: int) -> Any:
    """Return the response to a request for the bytes from `received` on."""
    from optfair import __version__

    message = request.Request(str(file.url), headers={"User-Agent": f"optfair/{__version__}"})
    if received:
        message.add_header("Range", f"bytes={received}-")
        if state["validator"]:
            message.add_header("If-Range", state["validator"])
    try:
        return _opener().open(message, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and received:
            handle.truncate(0)
            raise DownloadError(f"{file.url} has changed since the download began", retry=True) from error
        reason = f"{file.url} could not be reached (HTTP {error.code} {error.reason})"
        raise DownloadError(reason, retry=error.code in TRANSIENT_STATUSES) from error
    except (OSError, HTTPException) as error:
        # Without a network the first request fails at once. A download that has begun is worth further attempts.
        offline = isinstance(error, URLError) and not received
        reason = f"{file.url} could not be reached ({getattr(error, 'reason', error)})"
        raise DownloadError(reason, retry=not offline) from error


def _continues(headers: Message, state: dict[str, Any], received: int, size: int | None) -> bool:
    """Return whether a partial answer continues the .part; not every server respects If-Range."""
    return (
        headers.get("Content-Range", "").startswith(f"bytes {received}-")
        and state["validator"] == (_validator(headers) or state["validator"])
        and size == (state["size"] or size)
    )


def _copy(file: SourceFile, response: Any, handle: BinaryIO, received: int, size: int | None, progress: bool) -> int:
    """Append the response to the .part and return the number of bytes that the .part then has."""
    with _bar(file.name, received, size, progress) as bar:
        while True:
            try:
                block = response.read1(BLOCK_BYTES)  # the bytes that have arrived: few are lost if no more follow
            except (OSError, HTTPException) as error:
                reason = f"{file.url} was interrupted after {received:,} bytes ({error})"
                raise DownloadError(reason, retry=True) from error
            if not block:
                break
            handle.write(block)
            received += len(block)
            if bar is not None:
                bar.update(len(block))
    handle.flush()
    return received


def _state(file: SourceFile, state_file: Path) -> dict[str, Any]:
    """Return url, validator and size of the version in the .part; an empty dict where it cannot be continued."""
    try:
        record = json.loads(state_file.read_bytes())
        state = {key: record[key] for key in ("url", "validator", "size")}
        # Bytes of two versions must not mix: without a validator only a published checksum would detect it.
        return state if state["url"] == file.url and (state["validator"] or file.checksum) else {}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return {}


def _validator(headers: Message) -> str | None:
    """Return a value that If-Range may have: a strong ETag, or else the date of the last change."""
    etag = headers.get("ETag", "W/")
    return headers.get("Last-Modified") if etag.startswith("W/") else etag


def _bar(name: str, received: int, size: int | None, progress: bool) -> Any:
    """Return a progress bar of tqdm; without tqdm, print a line."""
    if progress:
        try:
            tqdm = need_extra("tqdm", "a progress bar").tqdm
            return tqdm(desc=name, initial=received, total=size, unit="B", unit_scale=True, leave=False)
        except ImportError:
            print(f"{name}: downloading {(size or 0) / 1e6:,.1f} MB", file=sys.stderr)
    return nullcontext()


class _Redirects(request.HTTPRedirectHandler):
    """Follow redirects, but none that leaves https for http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise HTTPError(req.full_url, code, f"redirected to {newurl}, which is not secure", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Return an opener of urllib without ftp, to which a server could redirect."""
    opener = request.OpenerDirector()
    connections = [request.ProxyHandler(), request.UnknownHandler(), request.HTTPHandler(), request.HTTPSHandler()]
    answers = [request.HTTPDefaultErrorHandler(), _Redirects(), request.HTTPErrorProcessor()]
    for handler in [*connections, *answers]:
        opener.add_handler(handler)
    return opener
