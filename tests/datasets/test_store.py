"""Where files are found, which checksums count, and what the errors advise."""

import hashlib
import os
import socket
import sys
from pathlib import Path

import pytest

from optfair import OptFairWarning
from optfair.datasets import SourceFile, download, store
from optfair.errors import DataFileError
from tests.datasets.file_server import (
    CONTENT,
    MD5,
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


# -- places -----------------------------------------------------------------------------------------------------
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


def test_no_home(data_folder, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "~")  # so that it cannot be resolved
    with pytest.raises(DataFileError) as error:
        store.cache_folder()
    assert str(error.value) == "no home folder for downloads: set XDG_CACHE_HOME or OPTFAIR_DATA"
    path = put(data_folder)
    assert store.obtain(SourceFile(NAME)) == path


def test_the_data_folder_comes_before_the_cache(data_folder, cache, remote):
    assert store.find(remote.file()) is None and store.local(NAME) is None
    cached = put(cache)
    assert store.find(remote.file()) == store.obtain(remote.file()) == cached and store.local(NAME) is None
    path = put(data_folder, NEW_CONTENT)
    assert store.find(remote.file()) == store.obtain(remote.file()) == store.local(NAME) == path
    assert remote.requests == []


def test_a_folder_is_not_the_file(data_folder, cache):
    (data_folder / NAME).mkdir(parents=True)
    (cache / NAME).mkdir(parents=True)
    assert store.find(SourceFile(NAME)) is None


# -- refusals ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "", ".", "a\\..\\x", "C:x", "x\0y"])
def test_refused_names(name, data_folder, remote):
    for call in (
        store.local,
        lambda name: store.find(SourceFile(name)),
        lambda name: store.obtain(SourceFile(name, remote.url)),
    ):
        with pytest.raises(ValueError) as error:
            call(name)
        assert str(error.value) == f"name={name!r}: must be a path below the data folder, such as 'enem/x.zip'"
    assert remote.requests == []


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
    assert remote.requests == []


# -- checksums --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("checksum", [f"md5:{MD5}", f"sha256:{SHA256}", f"sha256:{SHA256.upper()}"])
def test_the_right_checksum(checksum, remote, cache):
    file = remote.file(checksum=checksum)
    assert store.obtain(file) == store.obtain(file) == cache / NAME
    assert files_in(cache) == {NAME: CONTENT} and len(remote.requests) == 1  # nothing to record


def test_the_wrong_checksum(remote, cache):
    remote.content = NEW_CONTENT
    digest = hashlib.md5(NEW_CONTENT).hexdigest()
    file = remote.file(checksum=f"md5:{MD5}", checksum_origin="its page", by_hand="Ask for it.")
    assert error_of(file) == (
        f"{cache / NAME}.part: its md5 is {digest}, must be {MD5} (published by its page). "
        f"It was downloaded from {remote.url} and has been deleted. Ask for it."
    )
    assert files_in(cache) == {}
    remote.content = CONTENT
    store.obtain(file)
    path = put(cache, NEW_CONTENT)
    assert error_of(file) == (
        f"{path}: its md5 is {digest}, must be {MD5} (published by its page). Delete {path} to download it again."
    )


def test_the_recorded_digest(remote, cache):
    path = store.obtain(remote.file())
    altered = bytearray(CONTENT)
    altered[123] ^= 1
    path.write_bytes(altered)
    assert error_of(remote.file()) == (
        f"{path}: its sha256 is {hashlib.sha256(altered).hexdigest()}, was {SHA256} when it was recorded: the file has "
        f"been altered. Delete {path} to download it again, or {path}.sha256 if you have replaced the file yourself."
    )
    path.unlink()  # the message's advice
    assert store.obtain(remote.file()) == path and is_complete(cache)
    put(cache, NEW_CONTENT)
    Path(f"{path}.sha256").unlink()  # its other advice
    assert store.obtain(remote.file()) == path and is_complete(cache, NEW_CONTENT)


def test_put_into_the_cache_by_hand(cache):
    path = put(cache)
    assert store.obtain(SourceFile(NAME)) == path and is_complete(cache)
    path.write_bytes(NEW_CONTENT)
    assert "the file has been altered" in error_of(SourceFile(NAME))


def test_a_new_version_warns(remote, cache):
    path = store.obtain(remote.file())
    path.unlink()
    remote.content, remote.etag = NEW_CONTENT, '"two"'
    digest = hashlib.sha256(NEW_CONTENT).hexdigest()
    with pytest.warns(OptFairWarning) as record:
        store.obtain(remote.file())
    assert [str(warning.message) for warning in record] == [
        f"{path}: its sha256 is {digest}, was {SHA256} at the previous download: {remote.url} has changed."
    ]
    assert is_complete(cache, NEW_CONTENT)


def test_nothing_is_written_into_the_data_folder(data_folder, cache, remote):
    path = put(data_folder)
    before = path.parent.stat().st_mtime_ns
    assert store.obtain(remote.file()) == store.obtain(remote.file(checksum=f"md5:{MD5}")) == path
    path.write_bytes(NEW_CONTENT)  # the user may change it where no checksum is published
    assert store.obtain(remote.file()) == path
    digest = hashlib.md5(NEW_CONTENT).hexdigest()
    assert error_of(remote.file(checksum=f"md5:{MD5}")) == (
        f"{path}: its md5 is {digest}, must be {MD5}. Put the published file at {path}, or remove the one there."
    )
    path.unlink()
    after = path.parent.stat().st_mtime_ns
    assert store.obtain(remote.file()) == cache / NAME
    assert path.parent.stat().st_mtime_ns == after > before and files_in(data_folder) == {}


# -- missing files ----------------------------------------------------------------------------------------------
def test_offline(cache, data_folder, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    file = SourceFile(NAME, f"http://127.0.0.1:{port}/x.zip", by_hand="Ask for it.")
    monkeypatch.setattr(download, "FIRST_WAIT", 100.0)  # it fails at once
    reason = f"{file.url} could not be reached ([Errno 111] Connection refused)"
    assert error_of(file) == missing_text(cache, file, reason, data_folder) + " Ask for it."
    monkeypatch.delenv("OPTFAIR_DATA")
    assert error_of(file) == missing_text(cache, file, reason) + " Ask for it."
    assert error_of(file, download=False) == missing_text(cache, file, "download=False") + " Ask for it."
    assert files_in(cache) == {}
    put(cache)  # the message's advice
    assert store.obtain(file) == cache / NAME


def test_no_url(cache):
    file = SourceFile(NAME, by_hand="Accept its licence at its page.")
    reason = "it cannot be downloaded automatically"
    assert error_of(file) == missing_text(cache, file, reason) + " Accept its licence at its page."


def test_a_cache_that_is_no_folder(remote, cache):
    cache.parent.mkdir()
    cache.write_text("")
    assert error_of(remote.file()) == f"{cache / NAME}.part: cannot be written (Not a directory)."


def test_several_files(remote, cache):
    files = [SourceFile(f"acs/{state}.zip", remote.url) for state in range(10)]
    paths = store.obtain_all(files)
    assert paths == [cache / f"acs/{state}.zip" for state in range(10)] and len(remote.requests) == 10
    assert store.obtain_all(iter(files)) == paths and len(remote.requests) == 10
    for path in paths[1:]:
        path.unlink()
    with pytest.raises(DataFileError, match=r"^acs/1.zip: not found .*download=False") as error:
        store.obtain_all(files, download=False)
    names = ", ".join(f"acs/{state}.zip" for state in range(2, 8))
    assert str(error.value).endswith(f" Also missing: {names} and 2 more.")
    with pytest.raises(DataFileError) as error:
        store.obtain_all(files[:2], download=False)
    assert "Also missing" not in str(error.value)
