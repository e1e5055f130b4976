"""Count combinations as pandas does, whatever the types of the columns are and however the files are cut."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from optfair.storage import counting
from optfair.storage.counting import CombinationCounter, count_combinations
from optfair.storage.engines import Threads
from optfair.storage.parts import BatchPart, PartError
from optfair.storage.tables import find_table, sample_rows
from tests.storage.helpers import WatchedThreads, pa, pq, write_files

N = 2_000


def some(rng, values, missing=0.1):
    """Values drawn at random, some of them missing."""
    chosen = [values[k] for k in rng.integers(0, len(values), N)]
    return [None if gap else value for gap, value in zip(rng.random(N) < missing, chosen, strict=True)]


DATES = [datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]
TIMES = [datetime.datetime(2024, 2, 29, 12, 30), datetime.datetime(1969, 12, 31)]
KINDS = {
    "texts": (pa.string(), ["a", "b", "", "with space", "ü", "None"]),
    "large texts": (pa.large_string(), ["a", "b"]),
    "truth values": (pa.bool_(), [True, False]),
    "integers": (pa.int64(), [0, 1, -5, 2**60]),
    "small integers": (pa.int8(), [0, 1, -5]),
    "numbers": (pa.float64(), [0.0, 1.0, 0.5, -2.25, float("nan")]),
    "single numbers": (pa.float32(), [0.0, 0.5]),
    "categories": (pa.dictionary(pa.int8(), pa.string()), ["x", "y", "z"]),
    "categories of numbers": (pa.dictionary(pa.int8(), pa.int64()), [3, 4]),
    "dates": (pa.date32(), DATES),
    "times": (pa.timestamp("us"), TIMES),
    "nanoseconds": (pa.timestamp("ns"), TIMES),
    "zones": (pa.timestamp("us", tz="Europe/Berlin"), TIMES),
    "durations": (pa.duration("ms"), [datetime.timedelta(1), datetime.timedelta(0, 1)]),
    "decimals": (pa.decimal128(5, 2), [decimal.Decimal("1.50"), decimal.Decimal("-2.25")]),
    "bytes": (pa.binary(), [b"a", b"\xff"]),
    "nothing": (pa.null(), [None]),
}


def is_missing(value):
    return value is None or value is pd.NaT or value != value


def naive_counts(columns):
    """{combination: rows}, one row at a time."""
    counts = {}
    for row in zip(*columns, strict=True):
        key = tuple(None if is_missing(value) else value for value in row)
        counts[key] = counts.get(key, 0) + 1
    return counts


def counts_of(table, times):
    """The same of what was counted; no combination is there twice."""
    rows = list(table.itertuples(index=False, name=None))
    counts = {
        tuple(None if is_missing(value) else value for value in row): int(n) for row, n in zip(rows, times, strict=True)
    }
    assert len(counts) == len(rows) and times.dtype == np.int64
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_any_type_are_counted(kind, tmp_path):
    kind, values = KINDS[kind]
    rng = np.random.default_rng(0)
    table = pa.table({"value": pa.array(some(rng, values), kind), "g": pa.array(some(rng, ["f", "m"]))})
    folder = write_files(tmp_path / "rows", table, 3, 300)
    expected = naive_counts([table.column(name).to_pylist() for name in ("value", "g")])
    assert counts_of(*count_combinations(folder, ["value", "g"])) == expected
    assert sum(expected.values()) == N


def test_counts_are_those_of_pandas(tmp_path):
    rng = np.random.default_rng(1)
    values = {"y": [0, 1, 2], "the answer.given": ["no", "yes"], "sex": ["f", "m"], "old": [True, False]}
    frame = pd.DataFrame({name: some(rng, choices, missing=0) for name, choices in values.items()})
    folder = write_files(tmp_path / "rows", pa.Table.from_pandas(frame), 4, 123)
    table, times = count_combinations(folder, list(values))
    expected = frame.groupby(list(values)).size()
    pd.testing.assert_series_equal(
        table.assign(n=times).set_index(list(frame.columns))["n"], expected, check_names=False
    )
    assert table["y"].dtype == np.int64 and table["old"].dtype == bool


CUTS = {"one": (1, 10**6), "row groups": (1, 97), "files": (7, 10**6), "both": (5, 41)}


def test_counts_do_not_depend_on_how_the_files_are_cut(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    table = pa.table(
        {name: pa.array(some(rng, values)) for name, values in (("g", ["b", "a"]), ("y", [1, 0]), ("h", [0.5, None]))}
    )
    results = []
    for rows in (64, 131_072):
        monkeypatch.setattr("optfair.storage.parts.BATCH_ROWS", rows)
        for name, (n_files, group_rows) in CUTS.items():
            folder = write_files(tmp_path / f"{name} {rows}", table, n_files, group_rows)
            results += [count_combinations(folder, ["g", "y", "h"], n_jobs=n_jobs) for n_jobs in (1, 2)]
            results.append(count_combinations(folder, ["g", "y", "h"], WatchedThreads()))
    for counts, times in results[1:]:
        pd.testing.assert_frame_equal(counts, results[0][0])
        np.testing.assert_array_equal(times, results[0][1])


def test_types_may_differ_between_files(tmp_path):
    """Categories in another order, numbers of another size; 1 and 1.0 are one value, and nothing is of any type."""
    columns = [
        pa.array(["a", "b", None, "a"]).dictionary_encode(),
        pa.array(["b", "c", "b"]),
        pa.array(["c", "a"]).dictionary_encode(),
        pa.array([None, None], pa.null()),
    ]
    numbers = [
        pa.array([1, 0, 2, 1], pa.int8()),
        pa.array([1.0, 0.5, float("nan")]),
        pa.nulls(2),
        pa.array([1, None], pa.uint64()),
    ]
    (tmp_path / "rows").mkdir()
    for k, (column, number) in enumerate(zip(columns, numbers, strict=True)):
        pq.write_table(pa.table({"g": column, "y": number}), tmp_path / "rows" / f"{k}.parquet")
    expected = naive_counts(
        [[value for array in arrays for value in array.to_pylist()] for arrays in (columns, numbers)]
    )
    assert counts_of(*count_combinations(tmp_path / "rows", ["g", "y"])) == expected
    assert expected["a", 1] == 2 and expected["b", 1] == 1 and expected[None, 1] == 1


OTHER_KINDS = {
    "texts of digits": (pa.array([1, 2]), pa.array(["1", "2"]), "of type string; in the first file it is int64"),
    "truth values": (pa.array([True, False]), pa.array([1, 0]), "of type int64; in the first file it is bool"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_values_of_another_kind_are_not_counted_together(kind, tmp_path):
    *columns, message = OTHER_KINDS[kind]
    (tmp_path / "rows").mkdir()
    for k, column in enumerate([pa.nulls(2), *columns]):
        pq.write_table(pa.table({"g": column}), tmp_path / "rows" / f"{k}.parquet")
    with pytest.raises(PartError, match=r"2\.parquet: column 'g' is of type .*; in .*1\.parquet it is "):
        count_combinations(tmp_path / "rows", ["g"])
    (tmp_path / "rows" / "0.parquet").unlink()
    with pytest.raises(PartError, match=rf"2\.parquet: column 'g' is {message}\.$"):
        count_combinations(tmp_path / "rows", ["g"])


def test_long_and_short_texts_are_of_one_type(tmp_path):
    texts = pa.array(["a", "b"])
    kinds = [texts, texts.cast(pa.large_string()), texts.dictionary_encode()]
    kinds.append(kinds[1].dictionary_encode())
    (tmp_path / "rows").mkdir()
    for k, column in enumerate(kinds):
        pq.write_table(pa.table({"g": column}), tmp_path / "rows" / f"{k}.parquet")
    assert counts_of(*count_combinations(tmp_path / "rows", ["g"])) == {("a",): 4, ("b",): 4}
    table = find_table(tmp_path / "rows")
    table.check_columns("columns", ["g"])
    assert sample_rows(table, ["g"], 100, 0, Threads(1))["g"].tolist() == ["a", "b"] * 4


def part_of(table):
    return BatchPart(lambda: table, table.num_rows, 0, "source 0")


def test_a_dictionary_may_hold_what_no_row_has_and_what_is_missing(tmp_path):
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 2, None, 1, 0], pa.int8()), pa.array(["a", None, "a", "unused"])
    )
    with pytest.raises(pa.ArrowNotImplementedError):
        pq.write_table(pa.table({"g": column}), tmp_path / "rows.parquet")
    assert CombinationCounter(("g",))(part_of(pa.table({"g": column}))) == {("a",): 3, (None,): 2}


def test_many_categories_and_missing_ones(tmp_path):
    """The codes of 127 categories fill their eight bits, so that no number is left for what is missing."""
    words = [f"w{k}" for k in range(127)]
    column = pa.DictionaryArray.from_arrays(pa.array([*range(127), None], pa.int8()), pa.array(words))
    pq.write_table(pa.table({"g": column}), tmp_path / "rows.parquet")
    assert counts_of(*count_combinations(tmp_path / "rows.parquet", ["g"])) == {(word,): 1 for word in [*words, None]}
    assert CombinationCounter(("g",))(part_of(pa.table({"g": column}))) == {(word,): 1 for word in [*words, None]}


def test_a_column_may_be_named_twice(tmp_path):
    pq.write_table(pa.table({"g": ["a", "b", "a"]}), tmp_path / "rows.parquet")
    table, times = count_combinations(tmp_path / "rows.parquet", ["g", "g"])
    assert list(table.columns) == ["g"] and times.tolist() == [2, 1]


@pytest.mark.parametrize("sizes", [(3, 4), (3, 300, 7_000), (2_000_000, 3_000_000, 2_000_000, 3)])
def test_any_number_of_combinations_is_counted(sizes):
    """A table, numbers, and rows where even these would overflow."""
    rng = np.random.default_rng(3)
    codes = [rng.choice(rng.integers(0, size, 3), N) for size in sizes]
    counted = dict(counting._count_codes(codes, sizes))
    assert counted == naive_counts([code.tolist() for code in codes])


def test_columns_of_too_many_values_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "MOST_VALUES", 100)
    monkeypatch.setattr(counting, "MOST_COMBINATIONS", 1_000)
    k = np.arange(N)
    pq.write_table(pa.table({"id": k, "a": k % 50, "b": k // 50}), tmp_path / "rows.parquet")
    with pytest.raises(
        PartError, match=r"rows\.parquet, row group 0: column 'id' has more than 100 values; cut it into"
    ):
        count_combinations(tmp_path / "rows.parquet", ["id"])
    for rows in (131_072, 700):
        monkeypatch.setattr("optfair.storage.parts.BATCH_ROWS", rows)
        with pytest.raises(ValueError, match=r"columns \['a', 'b'\] have more than 1,000 combinations of values; cut"):
            count_combinations(tmp_path / "rows.parquet", ["a", "b"])
    folder = write_files(tmp_path / "rows", pq.read_table(tmp_path / "rows.parquet"), 4)
    with pytest.raises(ValueError, match=r"have more than 1,000 combinations"):  # of all files together
        count_combinations(folder, ["a", "b"])


@pytest.mark.parametrize(
    "value", [[["a"], ["b", "c"]], [{"x": 1}, {"x": 2}], [[1.0], []]], ids=["lists", "structs", "lists of numbers"]
)
def test_columns_of_several_values_a_row_are_refused(tmp_path, value):
    pq.write_table(pa.table({"g": value}), tmp_path / "rows.parquet")
    with pytest.raises(PartError, match=r"rows\.parquet: column 'g' holds .*; it must hold one value a row\."):
        count_combinations(tmp_path / "rows.parquet", ["g"])


def test_columns_and_rows_must_be_there(tmp_path):
    pq.write_table(pa.table({"g": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"h": ["a"]}), tmp_path / "b.parquet")
    with pytest.raises(PartError, match=r"b\.parquet: has no column 'g'; there are \['h'\]\."):
        count_combinations(tmp_path, ["g"])
    pq.write_table(pa.table({"g": pa.array([], pa.string())}), tmp_path / "b.parquet")
    assert count_combinations(tmp_path, ["g"])[1].tolist() == [1]
    with pytest.raises(ValueError, match=r"source: the files have no rows\."):
        count_combinations(tmp_path / "b.parquet", ["g"])


def test_nothing_but_the_columns_is_read(tmp_path):
    """Another column cannot be decoded, and nobody notices."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"g": ["a", "b"] * 500, "x": np.arange(1_000)}), path, use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 100] = bytes(100)
    path.write_bytes(content)
    assert count_combinations(path, ["g"])[1].tolist() == [500, 500]
    with pytest.raises(PartError, match="cannot be read"):
        count_combinations(path, ["g", "x"])
