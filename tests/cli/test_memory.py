"""Check that what a table unpacks to counts, not the size of its file."""

import bz2
import gzip
import lzma

import numpy as np
import pandas as pd
import pytest

from optfair.cli import memory
from optfair.cli.tables import read_header, read_table

PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
MEGABYTE = 1 << 20


@pytest.fixture
def small_machine(monkeypatch):
    """Let this machine have 20 MB."""
    monkeypatch.setattr(memory, "free_memory", lambda: 20 * MEGABYTE)
    monkeypatch.setattr(memory, "MIN_MEMORY_LIMIT", MEGABYTE)


def refuse(path):
    for read in (read_table, read_header):
        with pytest.raises(
            ValueError, match=r"table\..*: reading its 0\.0 GB takes about \d+ GB of memory or more, and 0"
        ):
            read(str(path))


@pytest.mark.parametrize("kind", PACK)
def test_a_compressed_table_that_unpacks_to_more_than_the_memory(kind, tmp_path, small_machine):
    path = tmp_path / f"table.csv.{kind}"
    path.write_bytes(PACK[kind](b"a,b\n" + b"1,2\n" * 10))
    assert len(read_table(str(path))) == 10
    path.write_bytes(PACK[kind](b"a,b\n" + b"1,2\n" * (4 * MEGABYTE)))
    assert path.stat().st_size < 0.1 * MEGABYTE
    refuse(path)


def test_counting_ends_at_the_limit(tmp_path, small_machine):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + bytes(64 * MEGABYTE)))
    status = path.stat()
    counted = memory._unpacked_size(path, 8 * MEGABYTE, status.st_size, status.st_mtime_ns)
    assert 8 * MEGABYTE < counted <= 8 * MEGABYTE + memory.CHUNK


def test_a_damaged_compressed_table_is_refused_by_its_reader(tmp_path, small_machine):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(MEGABYTE))[: MEGABYTE // 2])
    with pytest.raises(ValueError, match=r"cannot be read as CSV|is not encoded in"):
        read_table(str(path))


def test_a_parquet_file_that_unpacks_to_more_than_the_memory(tmp_path, small_machine):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    path = tmp_path / "table.parquet"
    pd.DataFrame({"a": np.zeros(1000)}).to_parquet(path)
    assert len(read_table(str(path))) == 1000
    pd.DataFrame({name: np.zeros(MEGABYTE) for name in "abcd"}).to_parquet(path)
    assert path.stat().st_size < 0.1 * MEGABYTE  # repeated numbers
    refuse(path)


def test_where_the_system_does_not_tell_tables_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n")
    assert len(read_table(str(path))) == 1
