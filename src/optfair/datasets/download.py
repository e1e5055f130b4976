"""A file over HTTP, into a .part that a later call, or another process, goes on with.

<name>.part is locked by whoever writes it; <name>.part.json beside it says of which version of the remote file it is.
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

from optfair.datasets.dataset import SourceFile
from optfair.errors import need_extra
from optfair.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows: two processes that download the same file at once are not kept apart there
    fcntl = None  # type: ignore[assignment]

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 4
WAIT = 1.0  # seconds before the second attempt, doubled before each further one
PASSING = {408, 425, 429, 500, 502, 503, 504}  # what a server may answer differently in a second


class Failed(Exception):
    """A download that failed; ``again`` where another attempt may succeed, ``kept`` says what is there already."""

    def __init__(self, reason: str, again: bool = False, kept: str = "") -> None:
        super().__init__(reason)
        self.again, self.kept = again, kept


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


@contextmanager
def locked(part: Path, waiting: str) -> Iterator[BinaryIO]:
    """The .part, open, and ours alone until the block ends; removed then if it is empty."""

    def still_there() -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(part.stat(), os.fstat(handle.fileno()))
        return False

    while True:
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as handle:
            if fcntl is not None:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if waiting:
                        print(waiting, file=sys.stderr)
                    fcntl.flock(handle, fcntl.LOCK_EX)
                except OSError:  # some file systems of clusters know no locks
                    pass
            if not still_there():  # renamed or removed while we waited: this is no longer the .part
                continue
            try:
                yield handle
            finally:
                if not handle.closed and still_there() and os.fstat(handle.fileno()).st_size == 0:
                    with suppress(OSError):  # Windows does not remove what is open
                        part.unlink()
                        beside(part, ".json").unlink(missing_ok=True)
            return


def fetch(file: SourceFile, handle: BinaryIO, part: Path, shown: bool) -> None:
    """Fetch what is missing in the .part, in a few attempts."""
    for attempt in range(ATTEMPTS):
        try:
            return _attempt(file, handle, beside(part, ".json"), shown)
        except Failed as error:
            if not error.again or attempt == ATTEMPTS - 1:
                size = handle.seek(0, os.SEEK_END) if _state(file, beside(part, ".json")) else 0
                kept = f"The {size:,} bytes in {part} are kept: calling again continues from there." if size else ""
                raise Failed(str(error), kept=kept) from error.__cause__
            time.sleep(WAIT * 2**attempt)


def _attempt(file: SourceFile, handle: BinaryIO, memo: Path, shown: bool) -> None:
    """One attempt: the bytes that the .part has not, if they are still of the same remote file; else all of them."""
    from optfair import __version__

    state = _state(file, memo)
    received = handle.seek(0, os.SEEK_END) if state else 0
    if received and received == state["size"]:
        return  # cut off between its last byte and its name
    ask = request.Request(str(file.url), headers={"User-Agent": f"optfair/{__version__}"})
    if received:
        ask.add_header("Range", f"bytes={received}-")
        if state["validator"]:
            ask.add_header("If-Range", state["validator"])
    try:
        response = _opener().open(ask, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and received:
            handle.truncate(0)
            raise Failed(f"{file.url} has changed meanwhile", again=True) from error
        reason = f"{file.url} could not be reached (HTTP {error.code} {error.reason})"
        raise Failed(reason, again=error.code in PASSING) from error
    except (OSError, HTTPException) as error:
        offline = isinstance(error, URLError) and not received  # is told at once; what has begun is tried again
        reason = f"{file.url} could not be reached ({getattr(error, 'reason', error)})"
        raise Failed(reason, again=not offline) from error
    with response:
        if response.headers.get_content_type() == "text/html" and not file.name.lower().endswith((".html", ".htm")):
            raise Failed(f"{file.url} answered with a web page (to confirm, to log in, a quota?) instead of the file")
        if response.status == 200:
            received = 0
            handle.truncate(0)  # before the state is written: killed in between, no byte is taken for the new version
            state = {"url": file.url, "validator": _validator(response.headers), "size": response.length}
            write_atomically(memo, json.dumps(state).encode())
        elif response.status != 206 or not received:
            raise Failed(f"{file.url} could not be reached (HTTP {response.status} {response.reason})")
        size = state["size"] if response.length is None else received + response.length
        if response.status == 206 and not (
            response.headers.get("Content-Range", "").startswith(f"bytes {received}-")
            and state["validator"] == (_validator(response.headers) or state["validator"])
            and size == (state["size"] or size)
        ):  # a server that does not heed If-Range
            handle.truncate(0)
            raise Failed(f"{file.url} has changed meanwhile", again=True)
        handle.seek(received)
        with _bar(file.name, received, size, shown) as bar:
            while True:
                try:
                    block = response.read1(1 << 18)  # what has come: little is lost if no more does
                except (OSError, HTTPException) as error:
                    raise Failed(f"{file.url} broke off after {received:,} bytes ({error})", again=True) from error
                if not block:
                    break
                handle.write(block)
                received += len(block)
                if bar is not None:
                    bar.update(len(block))
        handle.flush()
    if size is not None and received != size:
        raise Failed(f"{file.url} broke off after {received:,} of {size:,} bytes", again=True)
    if not received:
        raise Failed(f"{file.url} is empty", again=True)


def _state(file: SourceFile, memo: Path) -> dict[str, Any]:
    """What is known of the version in the .part: url, validator, size; empty where it cannot be continued."""
    try:
        known = json.loads(memo.read_bytes())
        state = {key: known[key] for key in ("url", "validator", "size")}
        # Bytes of two versions must not meet: without a validator only a published checksum would tell.
        return state if state["url"] == file.url and (state["validator"] or file.checksum) else {}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        return {}


def _validator(headers: Message) -> str | None:
    """What If-Range may hold: an ETag that is not weak, or the date of the last change."""
    etag = headers.get("ETag", "W/")
    return headers.get("Last-Modified") if etag.startswith("W/") else etag


def _bar(name: str, received: int, size: int | None, shown: bool) -> Any:
    """tqdm's bar; a line where there is no tqdm."""
    if shown:
        try:
            tqdm = need_extra("tqdm", "a progress bar").tqdm
            return tqdm(desc=name, initial=received, total=size, unit="B", unit_scale=True, leave=False)
        except ImportError:
            print(f"{name}: downloading {(size or 0) / 1e6:,.1f} MB", file=sys.stderr)
    return nullcontext()


class _Redirects(request.HTTPRedirectHandler):
    """Those that do not leave https for http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise HTTPError(req.full_url, code, f"redirected to {newurl}, which is not secure", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """urllib without ftp, to which a server could redirect."""
    opener = request.OpenerDirector()
    web = [request.ProxyHandler(), request.UnknownHandler(), request.HTTPHandler(), request.HTTPSHandler()]
    answers = [request.HTTPDefaultErrorHandler(), _Redirects(), request.HTTPErrorProcessor()]
    for handler in [*web, *answers]:
        opener.add_handler(handler)
    return opener
