"""Test that files are whole or absent."""

import os
import stat

import pytest

from optfair.utils.files import replacing, write_atomically

OLD, NEW = b"old", b"new content"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


def test_a_file_is_written_and_replaced(path):
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    write_atomically(path.with_name("other"), b"")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["file", "other"]


def test_the_old_file_stays_until_the_new_one_is_whole(path):
    with replacing(path) as temporary:
        temporary.write_bytes(NEW)
        assert path.read_bytes() == OLD
        assert temporary.parent == path.parent  # a rename within one file system is atomic
    assert path.read_bytes() == NEW and not temporary.exists()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(path, error):
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_bytes(NEW)
        raise error
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


def test_a_temporary_file_that_the_block_removed_is_an_error_and_the_old_file_stays(path):
    with pytest.raises(FileNotFoundError), replacing(path) as temporary:
        temporary.unlink()
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file_and_nothing_else(path, monkeypatch, step):
    def fail(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, NEW)
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_is_never_readable_by_more_than_its_mode(path, mode):
    old = os.umask(0)
    try:
        with replacing(path, mode) as temporary:
            assert stat.S_IMODE(temporary.stat().st_mode) == mode
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_names_as_long_as_a_file_system_allows(tmp_path):
    path = tmp_path / ("x" * 255)
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
