"""Files of the data sets: a real server on 127.0.0.1 that misbehaves, killed processes, whole files or none."""

import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from optfair import OptFairWarning, __version__
from optfair.datasets import download, store
from optfair.datasets.dataset import SourceFile
from optfair.errors import DataFileError

fcntl = pytest.importorskip("fcntl", reason="downloads are kept apart by fcntl")
termios = pytest.importorskip("termios", reason="terminals of POSIX")
NAME = "enem/exam.zip"
CONTENT = np.random.default_rng(0).bytes(300_000)
OTHER = np.random.default_rng(1).bytes(300_000)
MD5, SHA256 = (hashlib.new(name, CONTENT).hexdigest() for name in ("md5", "sha256"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        remote = self.server
        remote.asked.append(dict(self.headers))
        status = remote.statuses.pop(0) if remote.statuses else 200
        if status != 200:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", remote.location)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, whole = 0, remote.content
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range") in (None, remote.etag, remote.modified)
        if wanted and not remote.ignores_range and (same or remote.ignores_if_range):
            start = int(wanted[1])
            if start >= len(whole):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(whole)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + remote.shift}-{len(whole) - 1}/{len(whole)}")
        for name, value in [("ETag", remote.etag), ("Last-Modified", remote.modified), ("Content-Type", remote.type)]:
            if value:
                self.send_header(name, value)
        self.send_header(
            *(("Transfer-Encoding", "chunked") if remote.chunked else ("Content-Length", len(whole) - start))
        )
        self.end_headers()
        stop = remote.drops.pop(0) if remote.drops else len(whole)
        for at in range(start, min(len(whole), start + stop), remote.block):
            block = whole[at : min(at + remote.block, start + stop)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if remote.chunked else block)
            remote.sent += len(block)
            time.sleep(remote.pause)
        if start + stop < len(whole):
            remote.stall.wait(10)
            if remote.resets:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
        elif remote.chunked:
            self.wfile.write(b"0\r\n\r\n")


class Remote(ThreadingHTTPServer):
    """A server of one file. drops : bytes after which each answer breaks off; statuses : of the next answers."""

    content, etag, modified, type = CONTENT, '"one"', None, "application/zip"
    ignores_range = ignores_if_range = chunked = resets = False
    pause, block, shift, sent, location = 0.0, 1 << 14, 0, 0, ""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.drops, self.statuses, self.stall = [], [], [], threading.Event()
        self.stall.set()
        self.url = f"http://127.0.0.1:{self.server_port}/exam.zip"

    def handle_error(self, request, address):
        """Who was killed does not listen any more."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, address)

    def file(self, **more):
        return SourceFile(NAME, **{"url": self.url} | more)


@pytest.fixture
def remote():
    server = Remote()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.stall.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, no data folder, no proxy between us and 127.0.0.1, and no patience."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("OPTFAIR_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "WAIT", 0.001)
    return tmp_path / "caches" / "optfair"


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("OPTFAIR_DATA", str(folder))
    return folder


def put(folder, content=CONTENT):
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def only_the_file(cache, content=CONTENT):
    """What a finished download leaves: the file and its digest."""
    digest = hashlib.sha256(content).hexdigest().encode()
    return files_in(cache) == {NAME: content, f"{NAME}.sha256": digest}


def fails(file, **options):
    with pytest.raises(DataFileError) as error:
        store.obtain(file, **options)
    return str(error.value)


def by_hand(cache, file, why, data="not set"):
    """The message for a file that is not there."""
    get = f"Download it from {file.url} and put it at" if file.url else "Put it at"
    return (
        f"{NAME}: not found in $OPTFAIR_DATA ({data}) nor in {cache}, and {why}. "
        f"{get} {cache}/{NAME}, or set OPTFAIR_DATA to a folder that holds {NAME}."
    )


def process(url, before="", **options):
    """Another process that obtains the file."""
    code = f"""
import sys
{before}
from optfair.datasets.dataset import SourceFile
from optfair.datasets import store
print(store.obtain(SourceFile({NAME!r}, {url!r})))
"""
    return subprocess.Popen([sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, text=True, **options)


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


# --- where things are


def test_the_data_folder(tmp_path, monkeypatch):
    assert store.data_folder() is None
    monkeypatch.setenv("OPTFAIR_DATA", "")
    assert store.data_folder() is None
    monkeypatch.setenv("OPTFAIR_DATA", str(tmp_path))
    assert store.data_folder() == tmp_path
    nowhere = str(tmp_path / "nowhere")
    monkeypatch.setenv("OPTFAIR_DATA", nowhere)
    for call in (store.data_folder, lambda: store.local("x"), lambda: store.find(SourceFile("x"))):
        with pytest.raises(DataFileError) as error:
            call()
        assert str(error.value) == f"OPTFAIR_DATA={nowhere!r}: must be an existing folder"


@pytest.mark.parametrize("platform, below", [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "local")])
def test_the_cache_folder(platform, below, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert store.cache_folder() == Path(os.environ["XDG_CACHE_HOME"]) / "optfair"
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert store.cache_folder() == tmp_path / below / "optfair"
    assert not (tmp_path / below).exists()


def test_no_home(data, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "~")  # so that it cannot be resolved
    with pytest.raises(DataFileError) as error:
        store.cache_folder()
    assert str(error.value) == "no home folder to keep downloads in: set XDG_CACHE_HOME or OPTFAIR_DATA"
    own = put(data)
    assert store.obtain(SourceFile(NAME)) == own


def test_the_users_own_come_first(data, cache, remote):
    assert store.find(remote.file()) is None and store.local(NAME) is None
    cached = put(cache)
    assert store.find(remote.file()) == store.obtain(remote.file()) == cached and store.local(NAME) is None
    own = put(data, OTHER)
    assert store.find(remote.file()) == store.obtain(remote.file()) == store.local(NAME) == own
    assert remote.asked == []


def test_a_folder_is_not_the_file(data, cache):
    (data / NAME).mkdir(parents=True)
    (cache / NAME).mkdir(parents=True)
    assert store.find(SourceFile(NAME)) is None


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "", ".", "a\\..\\x", "C:x", "x\0y"])
def test_refused_names(name, data, remote):
    for call in (
        store.local,
        lambda name: store.find(SourceFile(name)),
        lambda name: store.obtain(SourceFile(name, remote.url)),
    ):
        with pytest.raises(ValueError) as error:
            call(name)
        assert str(error.value) == f"name={name!r}: must be a path below the data folder, such as 'enem/x.zip'"
    assert remote.asked == []


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "/etc/passwd", ""])
def test_refused_urls(url, cache):
    with pytest.raises(ValueError) as error:
        store.obtain(SourceFile(NAME, url))
    assert str(error.value) == f"url={url!r}: must begin with http:// or https://"
    assert files_in(cache) == {}


@pytest.mark.parametrize("checksum", ["crc32:00000000", "md5", "md5:xyz", SHA256])
def test_refused_checksums(checksum, remote):
    with pytest.raises(ValueError) as error:
        store.obtain(remote.file(checksum=checksum))
    assert str(error.value) == f"checksum={checksum!r}: must be 'md5:...' or 'sha256:...', in hexadecimal digits"
    assert remote.asked == []


# --- downloads


def test_a_download(remote, cache, capfd):
    path = store.obtain(remote.file())
    assert path == cache / NAME and only_the_file(cache)
    assert remote.asked[0]["User-Agent"] == f"optfair/{__version__}" and "Range" not in remote.asked[0]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert store.obtain(remote.file()) == store.obtain(remote.file(), download=False) == path
    assert len(remote.asked) == 1 and remote.sent == len(CONTENT)
    assert capfd.readouterr() == ("", "")  # stderr is no terminal


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("checks", ["etag", "modified", "checksum"])
def test_a_connection_that_breaks_off_goes_on(checks, chunked, resets, remote, cache):
    """Every byte is sent once, by whatever it is known that the rest is of the same file."""
    remote.chunked, remote.resets, remote.drops = chunked, resets, [100_000, 1, 150_000]
    modified = "Sat, 06 Jun 2020 10:00:00 GMT"
    remote.etag, remote.modified = {"etag": ('"one"', modified), "modified": ('W/"one"', modified)}.get(
        checks, (None,) * 2
    )
    store.obtain(remote.file(checksum=f"sha256:{SHA256}" if checks == "checksum" else None))
    assert (cache / NAME).read_bytes() == CONTENT
    validator = {"etag": '"one"', "modified": modified, "checksum": None}[checks]
    if not resets:  # what was on its way when the connection was reset is lost
        starts = [asked.get("Range") for asked in remote.asked]
        assert starts == [None, "bytes=100000-", "bytes=100001-", "bytes=250001-"] and remote.sent == len(CONTENT)
        assert {asked.get("If-Range") for asked in remote.asked[1:]} == {validator}


def test_it_gives_up_and_the_next_call_goes_on(remote, cache):
    remote.drops = [50_000] * download.ATTEMPTS
    file = remote.file(by_hand="Ask for it.")
    why = f"{remote.url} broke off after 200,000 of 300,000 bytes"
    part = cache / f"{NAME}.part"
    kept = f"Ask for it. The 200,000 bytes in {part} are kept: calling again continues from there."
    assert fails(file) == f"{by_hand(cache, file, why)} {kept}"
    assert part.read_bytes() == CONTENT[:200_000] and not (cache / NAME).exists()
    store.obtain(file)
    assert only_the_file(cache) and remote.sent == len(CONTENT)


def test_a_server_that_stalls(remote, cache, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    remote.drops = [50_000]
    remote.stall.clear()
    message = fails(remote.file())
    assert f"{remote.url} broke off after 50,000 bytes (timed out). Download it from" in message
    assert message.endswith("are kept: calling again continues from there.")
    store.obtain(remote.file())
    assert only_the_file(cache) and remote.sent == len(CONTENT)


def test_without_a_validator_it_starts_afresh(remote, cache):
    """Nothing would tell whether the rest is of the same file; and no message promises to continue."""
    remote.etag, remote.drops = None, [50_000] * (download.ATTEMPTS + 1)
    assert fails(remote.file()) == by_hand(
        cache, remote.file(), f"{remote.url} broke off after 50,000 of 300,000 bytes"
    )
    store.obtain(remote.file())
    assert only_the_file(cache) and all("Range" not in asked for asked in remote.asked)


@pytest.mark.parametrize(
    "how", ["heeds If-Range", "ignores If-Range", "ignores Range", "wrong range", "shorter", "416"]
)
def test_a_remote_file_that_changed_starts_afresh(how, remote, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    remote.drops = [100_000]
    fails(remote.file())
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    remote.content, remote.etag = OTHER, '"two"'
    remote.ignores_if_range, remote.ignores_range = how == "ignores If-Range", how == "ignores Range"
    if how == "wrong range":
        remote.etag, remote.shift = '"one"', 1
    if how in ("shorter", "416"):  # than what is there
        remote.content, remote.ignores_if_range = OTHER[:70_000], how == "416"
    store.obtain(remote.file())
    assert only_the_file(cache, remote.content)
    assert remote.asked[1]["Range"] == "bytes=100000-" and remote.asked[1]["If-Range"] == '"one"'
    assert len(remote.asked) == (2 if how in ("heeds If-Range", "ignores Range", "shorter") else 3)


def test_a_remote_file_that_always_changes(remote, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    remote.drops = [100_000]
    fails(remote.file())
    remote.etag, remote.ignores_if_range = '"two"', True
    assert fails(remote.file()) == by_hand(cache, remote.file(), f"{remote.url} has changed meanwhile")
    assert files_in(cache) == {}


def test_another_url_starts_afresh(remote, cache, monkeypatch):
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    remote.drops = [100_000]
    fails(remote.file())
    store.obtain(remote.file(url=remote.url + "?mirror"))
    assert only_the_file(cache) and "Range" not in remote.asked[1]


@pytest.mark.parametrize("memo", [b"", b"[]", b"{}", b"{", b"\xff", "url", None])
def test_a_part_of_which_nothing_is_known_starts_afresh(memo, remote, cache):
    put(cache, OTHER[:1000]).rename(cache / f"{NAME}.part")
    if memo == "url":
        memo = json.dumps({"url": remote.url, "validator": '"one"'}).encode()
    if memo is not None:
        (cache / f"{NAME}.part.json").write_bytes(memo)
    store.obtain(remote.file())
    assert only_the_file(cache) and "Range" not in remote.asked[0]


def test_cut_off_between_the_last_byte_and_the_name(remote, cache):
    """A complete .part needs no network, whatever the server says now."""
    remote.drops = [299_999] + [0] * download.ATTEMPTS
    fails(remote.file())
    with open(cache / f"{NAME}.part", "ab") as part:
        part.write(CONTENT[-1:])
    asked = len(remote.asked)
    store.obtain(remote.file())
    assert only_the_file(cache) and len(remote.asked) == asked


def test_a_process_that_is_killed(remote, cache):
    """SIGKILL in the middle: no file under the final name, and the rest is all that the next process asks for."""
    remote.pause, part = 0.02, cache / f"{NAME}.part"
    with process(remote.url) as child:
        wait_for(lambda: part.exists() and part.stat().st_size > 60_000)
        child.send_signal(signal.SIGKILL)
        child.wait()
    received = part.stat().st_size
    assert 60_000 < received < len(CONTENT) and not (cache / NAME).exists()
    assert part.read_bytes() == CONTENT[:received]
    wait_for(lambda: len(remote.asked) == 1)
    remote.pause = 0.0
    store.obtain(remote.file())
    assert only_the_file(cache) and remote.asked[1]["Range"] == f"bytes={received}-"


def test_two_processes_at_once(remote, cache):
    """One downloads, the other waits for it; whoever looks sees the whole file or none."""
    remote.pause, remote.drops = 0.01, [100_000]
    with process(remote.url) as one, process(remote.url) as two:
        while one.poll() is None or two.poll() is None:
            assert not (cache / NAME).exists() or (cache / NAME).read_bytes() == CONTENT
            time.sleep(0.002)
        assert one.returncode == two.returncode == 0
        assert one.stdout.read() == two.stdout.read() == f"{cache / NAME}\n"
    assert only_the_file(cache) and remote.sent == len(CONTENT)


def test_many_threads_at_once(remote, cache):
    remote.drops = [100_000, 0, 7]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: store.obtain(remote.file()), range(16))) == {cache / NAME}
    assert only_the_file(cache) and remote.sent == len(CONTENT)


def test_who_waited_for_a_failure_tries_itself(remote, cache):
    """The .part is removed under the one who waits for its lock."""
    remote.statuses, remote.pause = [404], 0.001
    outcomes = []

    def call():
        try:
            outcomes.append(store.obtain(remote.file()))
        except DataFileError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes))[:3] == [str(cache / NAME)] * 3 and only_the_file(cache)
    assert any("HTTP 404" in str(outcome) for outcome in outcomes)


# --- what is shown


def on_a_terminal(url, before="", when_waiting=lambda: None):
    """What a process writes to stderr when that is a terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))  # tqdm needs some room
    shown = b""
    with process(url, before, stderr=theirs) as child:
        os.close(theirs)
        with suppress(OSError):  # when nobody writes there any more
            while block := os.read(ours, 4096):
                shown += block
                if b"waiting" in shown:
                    when_waiting()
        os.close(ours)
        assert child.wait() == 0, shown
    return shown.decode()


def test_the_progress_bar(remote, cache):
    pytest.importorskip("tqdm", reason="the bar is tqdm's")
    remote.pause = 0.01
    shown = on_a_terminal(remote.url)
    assert f"{NAME}:" in shown and re.search(r"\d+%\|.*/300k", shown) and only_the_file(cache)


def test_without_tqdm_and_waiting(remote, cache):
    """The lock is held here until the other process has said that it waits."""
    part = cache / f"{NAME}.part"
    part.parent.mkdir(parents=True)
    with open(part, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        shown = on_a_terminal(remote.url, "sys.modules['tqdm'] = None", held.close)
    assert shown.splitlines() == [f"{NAME}: another process downloads it; waiting", f"{NAME}: downloading 0.3 MB"]
    assert only_the_file(cache)


# --- checksums


@pytest.mark.parametrize("checksum", [f"md5:{MD5}", f"sha256:{SHA256}", f"sha256:{SHA256.upper()}"])
def test_the_right_checksum(checksum, remote, cache):
    file = remote.file(checksum=checksum)
    assert store.obtain(file) == store.obtain(file) == cache / NAME
    assert files_in(cache) == {NAME: CONTENT} and len(remote.asked) == 1  # nothing to record


def test_the_wrong_checksum(remote, cache):
    remote.content = OTHER
    found = hashlib.md5(OTHER).hexdigest()
    file = remote.file(checksum=f"md5:{MD5}", checksum_origin="its page", by_hand="Ask for it.")
    assert fails(file) == (
        f"{cache / NAME}.part: its md5 is {found}, must be {MD5} (published by its page). "
        f"It came from {remote.url} and has been deleted. Ask for it."
    )
    assert files_in(cache) == {}
    remote.content = CONTENT
    store.obtain(file)
    path = put(cache, OTHER)
    assert fails(file) == (
        f"{path}: its md5 is {found}, must be {MD5} (published by its page). Delete {path} to download it again."
    )


def test_the_recorded_digest(remote, cache):
    path = store.obtain(remote.file())
    altered = bytearray(CONTENT)
    altered[123] ^= 1
    path.write_bytes(altered)
    assert fails(remote.file()) == (
        f"{path}: its sha256 is {hashlib.sha256(altered).hexdigest()}, was {SHA256} when it came: the file has been "
        f"altered. Delete {path} to download it again, or {path}.sha256 if you have put another file there yourself."
    )
    path.unlink()  # the message's advice
    assert store.obtain(remote.file()) == path and only_the_file(cache)
    put(cache, OTHER)
    Path(f"{path}.sha256").unlink()  # its other advice
    assert store.obtain(remote.file()) == path and only_the_file(cache, OTHER)


def test_put_into_the_cache_by_hand(cache):
    path = put(cache)
    assert store.obtain(SourceFile(NAME)) == path and only_the_file(cache)
    path.write_bytes(OTHER)
    assert "the file has been altered" in fails(SourceFile(NAME))


def test_a_new_version_is_told(remote, cache):
    path = store.obtain(remote.file())
    path.unlink()
    remote.content, remote.etag = OTHER, '"two"'
    new = hashlib.sha256(OTHER).hexdigest()
    with pytest.warns(OptFairWarning) as told:
        store.obtain(remote.file())
    assert [str(warning.message) for warning in told] == [
        f"{path}: its sha256 is {new}, was {SHA256} when it came before: {remote.url} has changed."
    ]
    assert only_the_file(cache, OTHER)


def test_nothing_is_written_beside_the_users_own(data, cache, remote):
    own = put(data)
    before = own.parent.stat().st_mtime_ns
    assert store.obtain(remote.file()) == store.obtain(remote.file(checksum=f"md5:{MD5}")) == own
    own.write_bytes(OTHER)  # theirs to change, where no checksum is published
    assert store.obtain(remote.file()) == own
    found = hashlib.md5(OTHER).hexdigest()
    assert fails(remote.file(checksum=f"md5:{MD5}")) == (
        f"{own}: its md5 is {found}, must be {MD5}. Put the published file at {own}, or remove it there."
    )
    own.unlink()
    after = own.parent.stat().st_mtime_ns
    assert store.obtain(remote.file()) == cache / NAME
    assert own.parent.stat().st_mtime_ns == after > before and files_in(data) == {}


# --- what cannot be had


def test_offline(cache, data, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    file = SourceFile(NAME, f"http://127.0.0.1:{port}/x.zip", by_hand="Ask for it.")
    monkeypatch.setattr(download, "WAIT", 100.0)  # it is told at once
    why = f"{file.url} could not be reached ([Errno 111] Connection refused)"
    assert fails(file) == by_hand(cache, file, why, data) + " Ask for it."
    monkeypatch.delenv("OPTFAIR_DATA")
    assert fails(file) == by_hand(cache, file, why) + " Ask for it."
    assert fails(file, download=False) == by_hand(cache, file, "download=False") + " Ask for it."
    assert files_in(cache) == {}
    put(cache)  # the message's advice
    assert store.obtain(file) == cache / NAME


def test_offline_in_the_middle(remote, cache, monkeypatch):
    """What has begun is tried again, and kept."""
    monkeypatch.setattr(download, "ATTEMPTS", 1)
    remote.drops = [100_000]
    fails(remote.file())
    monkeypatch.setattr(download, "ATTEMPTS", 2)
    remote.socket.close()  # refuses; the thread still serves nobody
    message = fails(remote.file())
    assert "could not be reached ([Errno 111] Connection refused)" in message
    assert message.endswith(f"The 100,000 bytes in {cache / NAME}.part are kept: calling again continues from there.")


def test_no_url(cache):
    file = SourceFile(NAME, by_hand="Accept its licence at its page.")
    why = "it cannot be downloaded without a person"
    assert fails(file) == by_hand(cache, file, why) + " Accept its licence at its page."


@pytest.mark.parametrize("status, words", [(404, "Not Found"), (403, "Forbidden"), (204, "No Content")])
def test_http_errors(status, words, remote, cache):
    remote.statuses = [status]
    why = f"{remote.url} could not be reached (HTTP {status} {words})"
    assert fails(remote.file()) == by_hand(cache, remote.file(), why)
    assert len(remote.asked) == 1 and files_in(cache) == {}


def test_http_errors_that_pass(remote, cache):
    remote.statuses = [500, 503, 429]
    store.obtain(remote.file())
    assert only_the_file(cache)
    (cache / NAME).unlink()
    remote.statuses = [503] * download.ATTEMPTS
    why = f"{remote.url} could not be reached (HTTP 503 Service Unavailable)"
    assert fails(remote.file()) == by_hand(cache, remote.file(), why)


def test_a_server_that_hangs_up(remote, cache):
    """Something that speaks, but not HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.zip"

        def hang_up():
            for _ in range(download.ATTEMPTS):
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        message = fails(remote.file(url=url))
        thread.join()
    assert f"{url} could not be reached (" in message and files_in(cache) == {}


def test_an_empty_answer(remote, cache):
    remote.content = b""
    why = f"{remote.url} is empty"
    assert fails(remote.file()) == by_hand(cache, remote.file(), why) and files_in(cache) == {}


def test_a_web_page_instead_of_the_file(remote, cache):
    remote.type = "text/html; charset=utf-8"
    file = remote.file(by_hand="Open it in a browser.")
    why = f"{remote.url} answered with a web page (to confirm, to log in, a quota?) instead of the file"
    assert fails(file) == by_hand(cache, file, why) + " Open it in a browser." and files_in(cache) == {}
    page = SourceFile("notes/page.HTML", remote.url)
    assert store.obtain(page).read_bytes() == CONTENT


def test_redirects(remote, cache):
    remote.statuses, remote.location = [302], remote.url + "?moved"
    store.obtain(remote.file())
    assert only_the_file(cache)
    (cache / NAME).unlink()
    remote.statuses, remote.location = [302], "ftp://127.0.0.1/x.zip"
    assert "could not be reached (unknown url type: ftp)" in fails(remote.file())
    remote.statuses, remote.location = [302], "file:///etc/passwd"
    assert "could not be reached (HTTP 302" in fails(remote.file())


def test_a_cache_that_is_no_folder(remote, cache):
    cache.parent.mkdir()
    cache.write_text("")
    assert fails(remote.file()) == f"{cache / NAME}.part: cannot be written (Not a directory)."


def test_a_full_disk(remote, cache):
    """Files may not grow beyond 100,000 bytes in that process: what is there is kept, the next one goes on."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
    with process(remote.url, limit, stderr=subprocess.PIPE) as child:
        told = child.communicate()[1]
    assert told.splitlines()[-1].endswith(f"DataFileError: {cache / NAME}.part: cannot be written (File too large).")
    assert (cache / f"{NAME}.part").read_bytes() == CONTENT[:100_000] and not (cache / NAME).exists()
    store.obtain(remote.file())
    assert only_the_file(cache) and remote.asked[-1]["Range"] == "bytes=100000-"


# --- several


def test_several(remote, cache):
    files = [SourceFile(f"acs/{state}.zip", remote.url) for state in range(10)]
    paths = store.obtain_all(files)
    assert paths == [cache / f"acs/{state}.zip" for state in range(10)] and len(remote.asked) == 10
    assert store.obtain_all(iter(files)) == paths and len(remote.asked) == 10
    for path in paths[1:]:
        path.unlink()
    with pytest.raises(DataFileError, match=r"^acs/1.zip: not found .*download=False") as error:
        store.obtain_all(files, download=False)
    others = ", ".join(f"acs/{state}.zip" for state in range(2, 8))
    assert str(error.value).endswith(f" Also missing: {others} and 2 more.")
    with pytest.raises(DataFileError) as error:
        store.obtain_all(files[:2], download=False)
    assert "Also missing" not in str(error.value)
