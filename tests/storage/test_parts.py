"""Find Parquet files wherever users keep them, cut them into parts, and say which of them cannot be read."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from optfair.storage.parts import (
    BatchPart,
    PartError,
    batch_rows,
    file_parts,
    find_files,
    number_parts,
    without_secrets,
)
from tests.storage.helpers import pa, pq, write_files


@pytest.fixture
def table():
    """Return a thousand numbered rows."""
    return pa.table({"row": np.arange(1_000), "name": [f"person {k}" for k in range(1_000)]})


def put(folder, table, *names):
    """Write the table under several names, and return the folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name)
    return folder


def below(folder, source):
    """The files that are found, as paths below a folder."""
    paths, system = find_files(source)
    assert system is None
    return [Path(path).relative_to(folder).as_posix() for path in paths]


# -- finding -----------------------------------------------------------------------------------------------------
def test_a_folder_is_all_that_is_in_it_but_what_writers_hide(tmp_path, table):
    names = ["b.parquet", "a.PQ", "year=2024/x.parquet", "year=2023/deep/with space and ü.parquet"]
    put(tmp_path, table, *names, "_temporary/x.parquet", ".hidden.parquet", ".staging/x.parquet", "_x.parquet")
    for name in ("_SUCCESS", ".b.parquet.crc", "README.txt"):
        (tmp_path / name).write_text("not rows")
    assert sorted(below(tmp_path, tmp_path)) == sorted(names)
    assert below(tmp_path, tmp_path) == below(tmp_path, str(tmp_path))


def test_a_folder_that_is_hidden_itself_can_be_named(tmp_path, table):
    put(tmp_path / "_rows", table, "a.parquet")
    assert below(tmp_path, tmp_path / "_rows") == ["_rows/a.parquet"]


def test_files_patterns_and_lists(tmp_path, table, monkeypatch):
    put(
        tmp_path,
        table,
        "2023/a.parquet",
        "2024/a.parquet",
        "2024/b.parquet",
        "2024/deep/c.parquet",
        "plain",
        "2024/_d.pq",
    )
    assert below(tmp_path, tmp_path / "plain") == ["plain"]  # whatever it is called
    assert below(tmp_path, tmp_path / "2024/*.parquet") == ["2024/a.parquet", "2024/b.parquet"]
    assert below(tmp_path, f"{tmp_path}/20*") == [
        "2023/a.parquet",
        "2024/a.parquet",
        "2024/b.parquet",
        "2024/deep/c.parquet",
    ]
    assert len(below(tmp_path, f"{tmp_path}/**/*.parquet")) == 4
    assert below(tmp_path, [tmp_path / "plain", tmp_path / "2023"]) == ["plain", "2023/a.parquet"]
    monkeypatch.chdir(tmp_path / "2024")
    assert find_files("*.parquet")[0] == ["a.parquet", "b.parquet"]
    assert find_files("../2023/*")[0] == ["../2023/a.parquet"]


def test_a_folder_whose_name_looks_like_a_pattern(tmp_path, table):
    put(tmp_path / "scores[1]*", table, "a.parquet")
    assert below(tmp_path, tmp_path / "scores[1]*") == ["scores[1]*/a.parquet"]


def test_addresses(tmp_path, table):
    put(tmp_path, table, "a.parquet", "deep/b.parquet", "_temporary/x.parquet", ".c.parquet")
    paths, system = find_files(tmp_path.as_uri())
    assert system is not None and [Path(path).name for path in paths] == ["a.parquet", "b.parquet"]
    assert find_files(f"{tmp_path.as_uri()}/a.parquet")[0] == paths[:1]
    part = file_parts(paths[0], system)[0][0]
    assert sum(batch.num_rows for batch in part.batches(["row"])) == 1_000
    Path(paths[0]).unlink()
    with pytest.raises(PartError, match=r"a\.parquet: is not there any more; leave files alone while they are read\."):
        list(part.batches(["row"]))


SOURCES = {
    "no such folder": (lambda folder: folder / "absent", r"absent: there is no such file or folder\."),
    "no match": (lambda folder: folder / "*.parquet", r"\*\.parquet: there is no such file or folder\."),
    "nothing in it": (lambda folder: folder, r": holds no Parquet files \(\.parquet, \.pq, \.parq\); others are not"),
    "folders with nothing in them": (lambda folder: f"{folder}/emp*", r"emp\*: holds no Parquet files"),
    "an empty list": (lambda folder: [], r"source: is an empty list; name at least one file or folder\."),
    "not a path": (lambda folder: 3, r"source=3: must be a folder, a file, a pattern, or a list of these\."),
    "twice": (lambda folder: [folder / "x", f"{folder}/x"], r"source: names .*x twice; its rows would be counted"),
    "several systems": (lambda folder: [folder / "x", (folder / "x").as_uri()], r"source: names files of several sys"),
    "no such address": (lambda folder: (folder / "absent").as_uri(), r"absent: there is no such file or folder\."),
    "an empty address": (lambda folder: (folder / "empty").as_uri(), r"empty: holds no Parquet files"),
    "no such system": (lambda folder: "nowhere://rows", r"nowhere://rows: cannot be reached \(.*nowhere.*\)\."),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_what_is_no_source(kind, tmp_path):
    source, message = SOURCES[kind]
    (tmp_path / "empty").mkdir()
    (tmp_path / "x").write_text("rows")
    with pytest.raises(ValueError, match=message) as error:
        find_files(source(tmp_path))
    assert "\n" not in str(error.value)


def test_links_are_followed_and_end(tmp_path, table):
    put(tmp_path, table, "rows/a.parquet", "rows/deep/b.PARQ", "elsewhere/c.parquet")
    (tmp_path / "rows" / "year=2").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "rows" / "deep" / "up").symlink_to(tmp_path / "rows", target_is_directory=True)
    (tmp_path / "elsewhere" / "all").symlink_to(tmp_path, target_is_directory=True)
    paths = below(tmp_path, tmp_path / "rows")
    assert paths == ["rows/a.parquet", "rows/deep/b.PARQ", "rows/year=2/c.parquet"]


@pytest.mark.parametrize(
    "source, names",
    [
        (lambda folder: [folder / "rows", f"{folder}/./rows"], "rows/a.parquet and .*/./rows/a.parquet"),
        (lambda folder: folder / "links", "links/a.parquet and .*links/latest.parquet"),
        (lambda folder: [folder / "rows", folder / "links" / "latest.parquet"], "rows/a.parquet and .*latest.parquet"),
        (lambda folder: (folder / "links").as_uri(), "links/a.parquet and .*links/latest.parquet"),
    ],
    ids=["another spelling", "a link beside it", "a link elsewhere", "an address"],
)
def test_one_file_by_two_names_is_refused(tmp_path, table, source, names):
    put(tmp_path, table, "rows/a.parquet")
    (tmp_path / "links").mkdir()
    for name in ("a.parquet", "latest.parquet"):
        (tmp_path / "links" / name).symlink_to(tmp_path / "rows" / "a.parquet")
    with pytest.raises(ValueError, match=rf"source: names one file twice, as .*{names}; its rows would be counted"):
        find_files(source(tmp_path))


LOCKED = """
import os, sys
from optfair.storage.parts import find_files
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    find_files(sys.argv[1])
except ValueError as error:
    print(error)
"""


def test_a_folder_that_cannot_be_read_is_named(tmp_path, table):
    """Nobody's eyes, since root reads everything."""
    rows = Path(tempfile.mkdtemp())  # the folders above it are open to all
    try:
        put(rows, table, "a.parquet", "locked/b.parquet", "_locked/c.parquet")
        rows.chmod(0o755)
        for name in ("locked", "_locked"):
            (rows / name).chmod(0)
        run = subprocess.run([sys.executable, "-c", LOCKED, rows], capture_output=True, text=True, check=True)
        message = f"{rows}/locked: cannot be read (Permission denied); its rows would be missing.\n"
        assert run.stdout == message
    finally:
        for name in ("locked", "_locked"):
            (rows / name).chmod(0o755)
        shutil.rmtree(rows)


@pytest.mark.parametrize(
    "address, text",
    [
        ("s3://me:pass/word@bucket/rows", "s3://***@bucket/rows"),
        ("s3://token@bucket/a@b", "s3://***@bucket/a@b"),
        ("s3://bucket/rows?secret_key=abc&region=x", "s3://bucket/rows?secret_key=***&region=x"),
        ("s3://bucket/rows", "s3://bucket/rows"),
    ],
)
def test_passwords_of_addresses_are_not_shown(address, text):
    assert without_secrets(address) == text
    with pytest.raises(ValueError, match=r"nowhere://\*\*\*@host/rows: cannot be reached") as error:
        find_files("nowhere://me:hidden@host/rows")
    assert "hidden" not in str(error.value)


# -- parts -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "group_rows, part_rows, lengths",
    [
        (1_000, 10**6, [1_000]),
        (300, 10**6, [1_000]),
        (300, 600, [600, 400]),
        (300, 599, [300, 300, 400]),
        (300, 1, [300, 300, 300, 100]),  # a row group is never cut
    ],
)
def test_parts_are_whole_row_groups(tmp_path, table, group_rows, part_rows, lengths):
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=group_rows)
    parts, schema = file_parts(str(tmp_path / "a.parquet"), None, part_rows)
    assert [part.n for part in parts] == lengths and schema.names == ["row", "name"]
    numbered, n = number_parts([*parts, *parts])
    assert n == 2_000 and [part.start for part in numbered] == np.cumsum([0, *lengths, *lengths[:-1]]).tolist()
    rows = [batch.column("row").to_numpy() for part in parts for batch in part.batches(["row"], 128)]
    assert max(map(len, rows)) <= 128
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(1_000))


def test_a_file_without_rows_has_no_parts(tmp_path, table):
    pq.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    assert file_parts(str(tmp_path / "a.parquet"), None)[0] == []


def test_some_row_groups(tmp_path, table):
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=300)
    (part,), _ = file_parts(str(tmp_path / "a.parquet"), None, row_groups=[1, 3])
    rows = np.concatenate([batch.column("row").to_numpy() for batch in part.batches(["row"])])
    np.testing.assert_array_equal(rows, [*range(300, 600), *range(900, 1_000)])
    assert part.n == 400 and part.name.endswith("a.parquet, row groups 1 to 3")


def test_rows_of_many_numbers_are_decoded_by_fewer():
    sizes = [batch_rows(width) for width in (0, 9, 25, 100, 10_000, 10**9)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 131_072 and sizes[-1] == 1_024
    assert all(batch_rows(width) * width <= 4_194_304 for width in range(32, 4_096))


# -- what cannot be read -----------------------------------------------------------------------------------------
def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


WRECKS = {
    "empty": lambda path: path.write_bytes(b""),
    "truncated": cut,
    "text": lambda path: path.write_text("group,answer\na,yes\n" * 100),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("kind", WRECKS)
def test_what_is_no_parquet_file_is_named(kind, tmp_path, table):
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    WRECKS[kind](path)
    with pytest.raises(PartError, match=r"a\.parquet: cannot be read as Parquet \(.+\)\.$") as error:
        file_parts(str(path), None)
    assert "\n" not in str(error.value)


def test_a_part_that_is_damaged_is_named(tmp_path, table):
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=500, use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 200] = bytes(200)
    path.write_bytes(content)
    good, bad = file_parts(str(path), None, 500)[0]
    assert sum(batch.num_rows for batch in good.batches(["row"])) == 500
    with pytest.raises(PartError, match=r"a\.parquet, row group 1: cannot be read \(.+\)\.$"):
        list(bad.batches(["row"]))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "has changed since it was first read"),
        (lambda path: os.utime(path, ns=(0, 0)), "has changed since it was first read"),
        (lambda path: path.unlink(), "is not there any more"),
    ],
    ids=["longer", "touched", "removed"],
)
def test_a_file_that_changes_is_not_read(tmp_path, table, change, message):
    folder = write_files(tmp_path / "rows", table)
    part = file_parts(find_files(folder)[0][0], None)[0][0]
    change(folder / "part-000.parquet")
    with pytest.raises(PartError, match=rf"part-000\.parquet: {message}; leave files alone while they are read\.$"):
        list(part.batches(["row"]))


def test_parts_are_found_from_any_folder(tmp_path, table, monkeypatch):
    put(tmp_path, table, "rows/a.parquet")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    (part,) = file_parts("rows/a.parquet", None)[0]
    monkeypatch.chdir(tmp_path / "work")
    assert sum(batch.num_rows for batch in part.batches(["row"])) == 1_000


def test_a_folder_that_a_machine_does_not_have(tmp_path, table):
    (part,) = file_parts(str(put(tmp_path, table, "rows/a.parquet") / "rows/a.parquet"), None)[0]
    (tmp_path / "rows").rename(tmp_path / "elsewhere")
    with pytest.raises(PartError, match=r"rows/a\.parquet: this machine does not see it; keep files where all machi"):
        list(part.batches(["row"]))
    (tmp_path / "rows").write_text("a file")
    with pytest.raises(PartError, match=r"rows/a\.parquet: cannot be reached \(Not a directory\)\."):
        list(part.batches(["row"]))


def test_columns_of_one_name_are_refused(tmp_path, table):
    twice = pa.Table.from_arrays([table["row"], table["name"], table["row"]], names=["row", "name", "row"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(PartError, match=r"a\.parquet: has several columns 'row'; rename all but one\.$"):
        file_parts(str(tmp_path / "a.parquet"), None)


# -- batches of others -------------------------------------------------------------------------------------------
def as_reader(table):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=170))


SERIES = {
    "batches": lambda table: table.to_batches(max_chunksize=170),
    "a reader": as_reader,
    "a table": lambda table: table,
    "tables": lambda table: [table.slice(0, 10), table.slice(10)],
    "empty batches among them": lambda table: [
        batch.slice(0, n) for batch in table.to_batches() for n in (0, 1_000, 0)
    ],
}


@pytest.mark.parametrize("kind", SERIES)
def test_whatever_yields_batches_is_a_part(kind, table):
    part = BatchPart(lambda: SERIES[kind](table), 1_000, 0, "source 0")
    for _ in range(2):
        batches = list(part.batches(["row"], 64))
        assert max(batch.num_rows for batch in batches) <= 64 and batches[0].schema.names == ["row"]
        np.testing.assert_array_equal(np.concatenate([b.column("row").to_numpy() for b in batches]), np.arange(1_000))
    assert sum(batch.num_rows for batch in part.batches([])) == 1_000


def test_sources_that_do_not_repeat_themselves_are_refused(table):
    reader = as_reader(table)
    part = BatchPart(lambda: reader, 1_000, 0, "source 3")
    list(part.batches(["row"]))
    with pytest.raises(PartError, match=r"source 3: had 1,000 rows and now has 0; a source must repeat itself\."):
        list(part.batches(["row"]))


def fail():
    raise OSError("the network\nis down")


@pytest.mark.parametrize(
    "source, message",
    [
        (fail, r"source 3: cannot be read \(the network is down\)\."),
        (lambda: [1, 2], r"source 3: returns int; it must return record batches of Arrow\."),
        (lambda: None, r"source 3: returns NoneType; it must return record batches of Arrow\."),
        (lambda: pa.table({"other": [1]}), r"source 3: cannot be read \(.*row.*\)\."),
    ],
    ids=["error", "numbers", "nothing", "without the column"],
)
def test_sources_that_fail_are_named(source, message):
    with pytest.raises(PartError, match=message):
        list(BatchPart(source, None, 0, "source 3").batches(["row"]))


@pytest.mark.parametrize(("kind", "mark"), [("Delta", "_delta_log/0.json"), ("Iceberg", "metadata/v1.metadata.json")])
def test_tables_with_a_log_of_their_own_are_refused(tmp_path, kind, mark):
    """Their folders hold files whose rows are gone."""
    (tmp_path / "rows.parquet").touch()
    assert find_files(tmp_path)[0] == [str(tmp_path / "rows.parquet")]
    (tmp_path / mark).parent.mkdir()
    (tmp_path / mark).touch()
    with pytest.raises(ValueError, match=f"is a table of {kind}, whose folder also holds rows that were replaced"):
        find_files(tmp_path)
