"""Decode rows once: the same answer from plain numbers, made again where anything is not as it was."""

import os
import stat
import time
from dataclasses import replace

import numpy as np
import pytest

from optfair import read_parquet, solve
from optfair.storage.cache import ENDING, RowCache
from optfair.storage.parts import BatchPart, FilePart, PartError
from tests.problems import blind, weights
from tests.storage.helpers import NAMES, WatchedThreads, pa, pq, row_table, write_files

N = 60_000


@pytest.fixture(scope="module")
def table():
    """Return rows with weights and offsets."""
    return row_table(blind(7, N, 3, 3), weights(7, N), np.random.default_rng(7).normal(0, 0.05, (N, 3)))


@pytest.fixture
def folder(table, tmp_path):
    """Return the folder of these rows, in three files of two parts each."""
    return write_files(tmp_path / "rows", table, 3, 10_000)


@pytest.fixture
def decoded(monkeypatch):
    """Return a list of the parts whose Parquet is decoded from now on."""
    names, plain = [], FilePart.batches

    def batches(part, *arguments):
        names.append(part.name)
        return plain(part, *arguments)

    monkeypatch.setattr(FilePart, "batches", batches)
    return names


def rows(folder, cache=None, **columns):
    return read_parquet(folder, part_rows=10_000, cache=cache, **columns)


def arrays_of(files):
    """Z, weights and offsets of all rows, as the solver gets them."""
    measure = files.as_measure(n_jobs=1)
    blocks = []
    measure.sum_blocks(lambda block: (blocks.append((block.Z, block.weight, block.offset)) or 0,))
    return [None if column[0] is None else np.concatenate(column) for column in zip(*blocks, strict=True)]


def assert_same_rows(files, others):
    for array, other in zip(arrays_of(files), arrays_of(others), strict=True):
        np.testing.assert_array_equal(array, other)


COLUMNS = {
    "z": {},
    "weights": {"weight": "w"},
    "offsets": {"offset": "u_*"},
    "both": {"weight": "w", "offset": ["u_2", "u_0", "u_1"]},
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_cache_holds_what_the_files_hold(kind, folder, tmp_path):
    columns = COLUMNS[kind]
    for _ in range(2):  # made, and found
        assert_same_rows(rows(folder, tmp_path / "cache", **columns), rows(folder, **columns))


def test_single_precision_and_lists(tmp_path):
    Z = blind(7, N, 3, 3, np.float32)
    single = write_files(tmp_path / "single", row_table(Z), 2)
    listed = tmp_path / "listed.parquet"
    pq.write_table(pa.table({"z": pa.FixedSizeListArray.from_arrays(Z.ravel(), 9)}), listed)
    for _ in range(2):
        assert_same_rows(rows(single, tmp_path / "cache"), rows(listed, tmp_path / "cache", z="z", **NAMES))
    sizes = {path.stat().st_size for path in (tmp_path / "cache").iterdir()}
    assert sizes == {N * 9 * 4, N // 2 * 9 * 4}


def test_the_answer_is_the_same_bit_by_bit_and_decodes_once(folder, tmp_path, decoded):
    question = {"criterion": "eo", "tolerance": 0.02, "random_state": 0}
    rule = solve(rows(folder, weight="w"), **question)
    n_readings = len(decoded) // 6
    decoded.clear()
    for n_decoded in (6, 0):
        other = solve(rows(folder, str(tmp_path / "cache"), weight="w"), **question)
        np.testing.assert_array_equal(rule.weights, other.weights)
        assert rule.certificate.upper_bound == other.certificate.upper_bound
        assert len(decoded) == n_decoded
        decoded.clear()
    assert n_readings > 4
    files = list((tmp_path / "cache").iterdir())
    assert len(files) == 6 and {path.suffix for path in files} == {ENDING}
    assert sum(path.stat().st_size for path in files) == N * 10 * 8


def test_other_columns_are_other_files(folder, tmp_path, decoded):
    cache = tmp_path / "cache"
    plain, weighted = rows(folder, cache), rows(folder, cache, weight="w")
    turned = rows(folder, cache, z=list(reversed(plain.columns.z)))
    assert_same_rows(plain, rows(folder))
    assert_same_rows(weighted, rows(folder, weight="w"))
    np.testing.assert_array_equal(arrays_of(turned)[0], arrays_of(plain)[0][:, ::-1])
    assert len(list(cache.iterdir())) == 18


def test_a_file_that_changed_is_decoded_again(folder, table, tmp_path, decoded):
    cache = tmp_path / "cache"
    assert_same_rows(rows(folder, cache), rows(folder))
    pq.write_table(table.slice(0, 20_000), folder / "part-002.parquet", row_group_size=10_000)
    decoded.clear()
    arrays = arrays_of(rows(folder, cache))
    assert {name.split(",")[0] for name in decoded} == {str(folder / "part-002.parquet")}
    np.testing.assert_array_equal(arrays[0][40_000:], arrays[0][:20_000])


WRECKS = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-8]),
    "empty": lambda path: path.write_bytes(b""),
    "too long": lambda path: path.write_bytes(path.read_bytes() + b"12345678"),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("kind", WRECKS)
def test_a_cache_that_is_not_whole_is_made_again(kind, folder, tmp_path, decoded):
    cache = tmp_path / "cache"
    assert_same_rows(rows(folder, cache), rows(folder))
    WRECKS[kind](sorted(cache.iterdir())[2])
    decoded.clear()
    arrays = arrays_of(rows(folder, cache))
    assert len(decoded) == 1 and len(list(cache.iterdir())) == 6
    np.testing.assert_array_equal(arrays[0], arrays_of(rows(folder))[0])


def test_a_reading_that_fails_leaves_no_file(folder, tmp_path):
    path = folder / "part-001.parquet"
    start = pq.ParquetFile(path).metadata.row_group(1).column(8).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(PartError, match=r"part-001\.parquet, row group 1: cannot be read"):
        rows(folder, tmp_path / "cache").as_measure(n_jobs=1)
    names = [path.name for path in (tmp_path / "cache").iterdir()]
    assert len(names) == 3 and not any(name.startswith(".") for name in names)


def test_a_file_that_vanishes_is_missed_although_its_rows_are_kept(folder, tmp_path):
    client = WatchedThreads(lambda number: (folder / "part-001.parquet").unlink() if number == 3 else None)
    with pytest.raises(PartError, match=r"part-001\.parquet: is not there any more"):
        solve(rows(folder, tmp_path / "cache"), "dp", 0.01, random_state=0, client=client)


# -- where there can be no cache ---------------------------------------------------------------------------------
def test_a_cache_that_cannot_be_written(folder, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for cache in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(PartError, match=r"^cache='.*file.*': cannot be used \(.+\)\.$"):
            rows(folder, cache).as_measure()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_on_a_read_only_folder(folder, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(PartError, match=r"cache=.*: cannot be used \(Permission denied\)\."):
        rows(folder, cache).as_measure()


def test_only_files_have_a_cache(folder, tmp_path):
    columns, part = rows(folder).columns, BatchPart(lambda: [], 3, 0, "source 0")
    with pytest.raises(
        ValueError, match=r"cache: is for Parquet files, which can be told apart by name and time; leave"
    ):
        next(RowCache(str(tmp_path)).arrays(part, columns))


def test_another_part_of_the_same_file_is_another_file(folder, tmp_path):
    files, cache = rows(folder), RowCache(str(tmp_path / "cache"))
    first, second = files.parts[:2]
    arrays = [np.concatenate([Z for Z, _, _ in cache.arrays(part, files.columns)]) for part in (first, second)]
    assert len(arrays[0]) == len(arrays[1]) == 10_000 and not np.array_equal(*arrays)
    moved = replace(first, start=123)  # the number of its first row changes nothing in a part
    cache_time = max(path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir())
    time.sleep(0.01)
    np.testing.assert_array_equal(np.concatenate([Z for Z, _, _ in cache.arrays(moved, files.columns)]), arrays[0])
    assert cache_time == max(path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir())
