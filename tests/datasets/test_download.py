"""Downloads from a real server that misbehaves: interrupted, changed, wrong."""

import json
import os
import socket
import threading

import pytest

from optfair import __version__
from optfair.datasets import SourceFile, download, store
from tests.datasets.file_server import (
    CONTENT,
    NAME,
    NEW_CONTENT,
    SHA256,
    error_of,
    files_in,
    is_complete,
    missing_text,
    put,
)

pytest.importorskip("fcntl", reason="downloads of several processes are separated by fcntl")
pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def interrupted(remote, monkeypatch):
    """The server, after a download of 100,000 bytes that was not tried again; from now on there is one attempt."""
    monkeypatch.setattr(download, "MAX_ATTEMPTS", 1)
    remote.interruptions = [100_000]
    error_of(remote.file())
    return remote


def test_a_download(remote, cache, capfd):
    path = store.obtain(remote.file())
    assert path == cache / NAME and is_complete(cache)
    assert remote.requests[0]["User-Agent"] == f"optfair/{__version__}" and "Range" not in remote.requests[0]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert store.obtain(remote.file()) == store.obtain(remote.file(), download=False) == path
    assert len(remote.requests) == 1 and remote.bytes_sent == len(CONTENT)
    assert capfd.readouterr() == ("", "")  # stderr is no terminal


# -- interruptions ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("checks", ["etag", "modified", "checksum"])
def test_an_interrupted_connection_continues(checks, chunked, resets, remote, cache):
    """Every byte is sent once, whatever shows that the rest is of the same file."""
    remote.chunked, remote.resets, remote.interruptions = chunked, resets, [100_000, 1, 150_000]
    modified = "Sat, 06 Jun 2020 10:00:00 GMT"
    headers = {"etag": ('"one"', modified), "modified": ('W/"one"', modified), "checksum": (None, None)}
    remote.etag, remote.modified = headers[checks]
    store.obtain(remote.file(checksum=f"sha256:{SHA256}" if checks == "checksum" else None))
    assert (cache / NAME).read_bytes() == CONTENT
    validator = {"etag": '"one"', "modified": modified, "checksum": None}[checks]
    if not resets:  # bytes that were on their way when the connection was reset are lost
        starts = [headers.get("Range") for headers in remote.requests]
        assert starts == [None, "bytes=100000-", "bytes=100001-", "bytes=250001-"] and remote.bytes_sent == len(CONTENT)
        assert {headers.get("If-Range") for headers in remote.requests[1:]} == {validator}


def test_it_gives_up_and_the_next_call_continues(remote, cache):
    remote.interruptions = [50_000] * download.MAX_ATTEMPTS
    file = remote.file(by_hand="Ask for it.")
    reason = f"{remote.url} was interrupted after 200,000 of 300,000 bytes"
    part = cache / f"{NAME}.part"
    advice = f"Ask for it. The 200,000 bytes in {part} are kept: calling again continues from there."
    assert error_of(file) == f"{missing_text(cache, file, reason)} {advice}"
    assert part.read_bytes() == CONTENT[:200_000] and not (cache / NAME).exists()
    store.obtain(file)
    assert is_complete(cache) and remote.bytes_sent == len(CONTENT)


def test_a_server_that_stalls(remote, cache, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    monkeypatch.setattr(download, "MAX_ATTEMPTS", 1)
    remote.interruptions = [50_000]
    remote.stall.clear()
    message = error_of(remote.file())
    assert f"{remote.url} was interrupted after 50,000 bytes (timed out). Download it from" in message
    assert message.endswith("are kept: calling again continues from there.")
    store.obtain(remote.file())
    assert is_complete(cache) and remote.bytes_sent == len(CONTENT)


def test_without_a_validator_it_starts_again(remote, cache):
    """Nothing would show whether the rest is of the same file; and no message promises to continue."""
    remote.etag, remote.interruptions = None, [50_000] * (download.MAX_ATTEMPTS + 1)
    reason = f"{remote.url} was interrupted after 50,000 of 300,000 bytes"
    assert error_of(remote.file()) == missing_text(cache, remote.file(), reason)
    store.obtain(remote.file())
    assert is_complete(cache) and all("Range" not in headers for headers in remote.requests)


@pytest.mark.parametrize(
    "server", ["respects If-Range", "ignores If-Range", "ignores Range", "wrong range", "shorter", "416"]
)
def test_a_remote_file_that_changed_starts_again(server, interrupted, cache, monkeypatch):
    remote = interrupted
    monkeypatch.setattr(download, "MAX_ATTEMPTS", 2)
    remote.content, remote.etag = NEW_CONTENT, '"two"'
    remote.ignores_if_range, remote.ignores_range = server == "ignores If-Range", server == "ignores Range"
    if server == "wrong range":
        remote.etag, remote.shift = '"one"', 1
    if server in ("shorter", "416"):  # than the part
        remote.content, remote.ignores_if_range = NEW_CONTENT[:70_000], server == "416"
    store.obtain(remote.file())
    assert is_complete(cache, remote.content)
    assert remote.requests[1]["Range"] == "bytes=100000-" and remote.requests[1]["If-Range"] == '"one"'
    assert len(remote.requests) == (2 if server in ("respects If-Range", "ignores Range", "shorter") else 3)


def test_a_remote_file_that_always_changes(interrupted, cache):
    interrupted.etag, interrupted.ignores_if_range = '"two"', True
    reason = f"{interrupted.url} has changed since the download began"
    assert error_of(interrupted.file()) == missing_text(cache, interrupted.file(), reason)
    assert files_in(cache) == {}


def test_another_url_starts_again(interrupted, cache):
    store.obtain(interrupted.file(url=interrupted.url + "?mirror"))
    assert is_complete(cache) and "Range" not in interrupted.requests[1]


@pytest.mark.parametrize("state", [b"", b"[]", b"{}", b"{", b"\xff", "url", None])
def test_a_part_of_an_unknown_version_starts_again(state, remote, cache):
    put(cache, NEW_CONTENT[:1000]).rename(cache / f"{NAME}.part")
    if state == "url":
        state = json.dumps({"url": remote.url, "validator": '"one"'}).encode()
    if state is not None:
        (cache / f"{NAME}.part.json").write_bytes(state)
    store.obtain(remote.file())
    assert is_complete(cache) and "Range" not in remote.requests[0]


def test_interrupted_between_the_last_byte_and_the_name(remote, cache):
    """A complete .part needs no network, whatever the server says now."""
    remote.interruptions = [299_999] + [0] * download.MAX_ATTEMPTS
    error_of(remote.file())
    with open(cache / f"{NAME}.part", "ab") as part:
        part.write(CONTENT[-1:])
    count = len(remote.requests)
    store.obtain(remote.file())
    assert is_complete(cache) and len(remote.requests) == count


def test_offline_in_the_middle(interrupted, cache, monkeypatch):
    """A download that has begun is tried again, and its bytes are kept."""
    monkeypatch.setattr(download, "MAX_ATTEMPTS", 2)
    interrupted.socket.close()  # refuses connections; the thread still runs
    message = error_of(interrupted.file())
    assert "could not be reached ([Errno 111] Connection refused)" in message
    assert message.endswith(f"The 100,000 bytes in {cache / NAME}.part are kept: calling again continues from there.")


# -- wrong answers ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("status, words", [(404, "Not Found"), (403, "Forbidden"), (204, "No Content")])
def test_http_errors(status, words, remote, cache):
    remote.statuses = [status]
    reason = f"{remote.url} could not be reached (HTTP {status} {words})"
    assert error_of(remote.file()) == missing_text(cache, remote.file(), reason)
    assert len(remote.requests) == 1 and files_in(cache) == {}


def test_transient_http_errors(remote, cache):
    remote.statuses = [500, 503, 429]
    store.obtain(remote.file())
    assert is_complete(cache)
    (cache / NAME).unlink()
    remote.statuses = [503] * download.MAX_ATTEMPTS
    reason = f"{remote.url} could not be reached (HTTP 503 Service Unavailable)"
    assert error_of(remote.file()) == missing_text(cache, remote.file(), reason)


def test_a_server_that_hangs_up(remote, cache):
    """A server that accepts connections, but does not speak HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.zip"

        def hang_up():
            for _ in range(download.MAX_ATTEMPTS):
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        message = error_of(remote.file(url=url))
        thread.join()
    assert f"{url} could not be reached (" in message and files_in(cache) == {}


def test_an_empty_answer(remote, cache):
    remote.content = b""
    reason = f"{remote.url} is empty"
    assert error_of(remote.file()) == missing_text(cache, remote.file(), reason) and files_in(cache) == {}


def test_a_web_page_instead_of_the_file(remote, cache):
    remote.type = "text/html; charset=utf-8"
    file = remote.file(by_hand="Open it in a browser.")
    reason = f"{remote.url} returned a web page (a confirmation, a login or a quota notice) instead of the file"
    assert error_of(file) == missing_text(cache, file, reason) + " Open it in a browser." and files_in(cache) == {}
    page = SourceFile("notes/page.HTML", remote.url)
    assert store.obtain(page).read_bytes() == CONTENT


def test_redirects(remote, cache):
    remote.statuses, remote.location = [302], remote.url + "?moved"
    store.obtain(remote.file())
    assert is_complete(cache)
    (cache / NAME).unlink()
    remote.statuses, remote.location = [302], "ftp://127.0.0.1/x.zip"
    assert "could not be reached (unknown url type: ftp)" in error_of(remote.file())
    remote.statuses, remote.location = [302], "file:///etc/passwd"
    assert "could not be reached (HTTP 302" in error_of(remote.file())
