"""Folders of their own for the tests of the data sets, a server, and Adult loaded once."""

import functools
import threading
from dataclasses import replace

import pytest

from optfair import datasets
from optfair.datasets import download, entries
from tests.datasets.file_server import FileServer


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no data folder, no proxy for 127.0.0.1, and short waits between attempts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("OPTFAIR_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "FIRST_WAIT", 0.001)
    return tmp_path / "caches" / "optfair"


@pytest.fixture
def data_folder(tmp_path, monkeypatch, cache):
    """An empty $OPTFAIR_DATA, and an empty cache."""
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("OPTFAIR_DATA", str(path))
    return path


@pytest.fixture
def no_checksums(monkeypatch):
    """Entries without their checksums: files that tests write are not the published ones."""
    for name, entry in list(entries.ENTRIES.items()):
        files = tuple(replace(file, checksum=None, checksum_origin="") for file in entry.files)
        monkeypatch.setitem(entries.ENTRIES, name, replace(entry, files=files))


@pytest.fixture
def remote(cache):
    """A running server of one file, and an empty cache."""
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.stall.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def adult():
    """A function that loads Adult with given groups once."""
    return functools.cache(lambda sensitive="sex": datasets.load("adult", sensitive=sensitive))
