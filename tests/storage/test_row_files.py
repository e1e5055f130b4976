"""Find rows of Z in whatever users have: folders, lists of files, datasets, queries; refuse what cannot be rows."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair import frontier, read_batches, read_parquet, solve
from optfair.dual.posterior import check_posterior
from optfair.storage.measure import PartMeasure
from optfair.storage.parts import FilePart, PartError
from tests.problems import blind, weights
from tests.storage.helpers import CLASSES, GROUPS, NAMES, WatchedThreads, cell_names, pa, pq, row_table, write_files

ds = pytest.importorskip("pyarrow.dataset", reason="needs the extra parquet")
FEW, MANY = 600, 46_000  # rows; many are not taken into memory


@pytest.fixture(scope="module")
def Z():
    """Return many rows of Z."""
    return blind(3, MANY, 3, 3)


@pytest.fixture
def few(Z, tmp_path):
    """Return few rows of Z, and the folder of them."""
    return Z[:FEW], write_files(tmp_path / "rows", row_table(Z[:FEW]), 3, 100)


def rows_of(files):
    """All rows of few, as the solver gets them."""
    return files.as_measure(n_jobs=1).Z


# -- where rows come from ----------------------------------------------------------------------------------------
def test_nothing_but_footers_is_read(few, monkeypatch):
    folder = few[1]
    monkeypatch.setattr(FilePart, "batches", None)
    files = read_parquet(folder)
    assert files.n == FEW and repr(files) == "<RowFiles: 600 rows in 3 parts, 3 groups, 3 classes>"
    assert len(read_parquet(folder, part_rows=1).parts) == 6
    assert [part.start for part in files.parts] == [0, 200, 400]


def test_the_same_rows_from_wherever(few, tmp_path):
    Z, folder = few
    listed = pa.table({"z": pa.FixedSizeListArray.from_arrays(Z.ravel(), 9), "note": ["x"] * FEW})
    pq.write_table(listed, tmp_path / "listed.parquet", row_group_size=77)
    pd.DataFrame({"z": list(Z.reshape(FEW, 9))}).to_parquet(tmp_path / "pandas.parquet")
    by_name = cell_names()
    sources = {
        "a folder": read_parquet(folder),
        "text": read_parquet(str(folder)),
        "a pattern": read_parquet(f"{folder}/part-*.parquet"),
        "a list": read_parquet(sorted(folder.iterdir())),
        "an address": read_parquet(folder.as_uri()),
        "names": read_parquet(folder, by_name),
        "lists of a fixed length": read_parquet(tmp_path / "listed.parquet", "z", **NAMES),
        "lists of pandas": read_parquet(tmp_path / "pandas.parquet", "z", **NAMES),
        "a dataset": read_parquet(ds.dataset(folder)),
        "tables": read_batches([lambda: row_table(Z[:200]), lambda: [row_table(Z[200:])]]),
    }
    for name, files in sources.items():
        measure = files.as_measure(n_jobs=1)
        np.testing.assert_array_equal(measure.Z, Z, err_msg=name)
        assert measure.groups.tolist() == GROUPS and measure.classes.tolist() == CLASSES, name
        assert pickle.loads(pickle.dumps(files.columns)).names == files.columns.names


def test_partitioned_datasets(Z, tmp_path):
    table = row_table(Z[:FEW]).append_column("year", pa.array(np.arange(FEW) % 3 + 2021))
    ds.write_dataset(
        table,
        tmp_path / "rows",
        partitioning=ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive"),
        format="parquet",
    )
    expected = np.concatenate([Z[:FEW][np.arange(FEW) % 3 == k] for k in range(3)])
    for source in (tmp_path / "rows", ds.dataset(tmp_path / "rows", partitioning="hive")):
        np.testing.assert_array_equal(rows_of(read_parquet(source)), expected)
    files = read_parquet(ds.dataset(tmp_path / "rows", partitioning="hive"), part_rows=50)
    assert len(files.parts) == 3 and files.n == FEW  # a row group each
    with pytest.raises(PartError, match=r"has no column 'year', which the dataset has\."):
        read_parquet(ds.dataset(tmp_path / "rows", partitioning="hive"), weight="year")


def test_datasets_of_other_formats(Z, tmp_path):
    table = row_table(Z[:FEW])
    for name in ("feather", "csv"):
        ds.write_dataset(table, tmp_path / name, format=name)
        files = read_parquet(ds.dataset(tmp_path / name, format=name))
        assert files.n is None and repr(files).startswith("<RowFiles: rows not counted yet in 1 parts")
        np.testing.assert_allclose(rows_of(files), Z[:FEW])
    np.testing.assert_array_equal(rows_of(read_parquet(ds.dataset(table))), Z[:FEW])
    with pytest.raises(ValueError, match=r"cache: is for files of Parquet; leave it out\."):
        read_parquet(ds.dataset(table), cache=tmp_path / "cache")


def test_types_of_a_dataset_may_differ_where_all_are_numbers(Z, tmp_path):
    folder = write_files(tmp_path / "rows", row_table(Z[:300].astype(np.float32)))
    pq.write_table(row_table(Z[300:FEW]), folder / "part-b.parquet")
    with pytest.raises(PartError, match=r"b\.parquet: column 'z_a_low' is of type double; in the first file it is fl"):
        read_parquet(folder)
    files = read_parquet(ds.dataset(folder, schema=row_table(Z[:1]).schema))
    np.testing.assert_allclose(rows_of(files), Z[:FEW], atol=1e-7)


def test_a_file_with_more_columns_of_z_is_refused(few):
    folder = few[1]
    path = folder / "part-001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("z_d_low", table["z_a_low"]), path)
    for source in (folder, ds.dataset(folder)):
        with pytest.raises(PartError, match=r"part-001\.parquet: column 'z_d_low' matches z='z_\*', and the first fil"):
            read_parquet(source)
    assert read_parquet(folder, cell_names()).n == FEW
    pq.write_table(table.append_column("z_weight", table["z_a_low"]), path)
    with pytest.raises(PartError, match=r"column 'z_weight' matches"):
        read_parquet(folder)


def test_a_cache_is_where_the_user_is(few, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_parquet(few[1], cache="cache").cache == str(tmp_path / "cache")


def test_readers_and_other_queries_are_parts(Z):
    table = row_table(Z[:FEW])

    def query(low, high):
        return lambda: pa.RecordBatchReader.from_batches(table.schema, table.slice(low, high - low).to_batches(97))

    files = read_batches([query(0, 0), query(0, 350), query(350, 350), query(350, FEW)])
    np.testing.assert_array_equal(rows_of(files), Z[:FEW])
    assert files.n is None and len(files.parts) == 4


# -- few rows ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_rows_have_exactly_the_answer_of_an_array(Z, tmp_path, dtype):
    rows, weight = Z[:FEW].astype(dtype), weights(0, FEW)
    offset = np.random.default_rng(1).normal(0, 0.1, (FEW, 3))
    folder = write_files(tmp_path / "rows", row_table(rows, weight, offset), 3, 100)
    files = read_parquet(folder, weight="w", offset="u_*", part_rows=70)
    question = {"criterion": "eo", "tolerance": 0.01, "random_state": 0, "n_jobs": 1}
    rule = solve(rows, sample_weight=weight, offset=offset, **NAMES, **question)
    other = solve(files, **question)
    np.testing.assert_array_equal(rule.weights, other.weights)
    pd.testing.assert_frame_equal(rule.multipliers, other.multipliers)
    assert rule.determinism == other.determinism
    for name in ("upper_bound", "accuracy", "violation", "residual", "passes", "status"):
        assert getattr(rule.certificate, name) == getattr(other.certificate, name)
    assert solve(files, method="lp", **question).certificate.gap == pytest.approx(
        solve(rows, sample_weight=weight, offset=offset, method="lp", **NAMES, **question).certificate.gap, abs=1e-12
    )


def test_other_names_are_given_to_the_solver(few):
    folder = few[1]
    rule = solve(read_parquet(folder), "dp", 0.01, groups=["A", "B", "C"], classes=[1, 2, 3], random_state=0)
    assert rule.groups.tolist() == ["A", "B", "C"] and rule.classes.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"groups: \['c', 'b', 'a'\] is not the order of the columns"):
        solve(read_parquet(folder), groups=["c", "b", "a"])
    with pytest.raises(ValueError, match="groups: 2 names given, but Z has 3 of them"):
        solve(read_parquet(folder), groups=["A", "B"])


# -- what is refused ---------------------------------------------------------------------------------------------
def test_arguments_that_do_not_go_with_files(few):
    Z, folder = few
    for name, column in (("sample_weight", "weight"), ("offset", "offset")):
        with pytest.raises(ValueError, match=rf"{name}: rows in files have a column of it; name it as {column}= where"):
            solve(read_parquet(folder), **{name: np.ones(FEW)})
    with pytest.raises(ValueError, match=r"client: reads rows in files; give Z as optfair\.read_parquet finds them\."):
        solve(Z, client=WatchedThreads())
    with pytest.raises(ValueError, match=r"client: reads rows in files"):
        frontier(Z, client=WatchedThreads())
    with pytest.raises(ValueError, match=r"client: is a str; must be a Dask client, an executor, or an object with"):
        read_parquet(folder).on("tcp://scheduler:8786")
    with pytest.raises(ValueError, match="part_rows=0: must be"):
        read_parquet(folder, part_rows=0)


@pytest.mark.parametrize(
    "sources, message",
    [
        ([], r"sources: must be a list of functions that take nothing and return record batches\."),
        (lambda: [], r"sources: must be a list of functions"),
        ([pa.table({"z": [1]})], r"sources: must be a list of functions"),
        ([lambda: []], r"sources: return no record batches of Arrow\."),
        ([lambda: [1]], r"source 0: returns int; it must return record batches of Arrow\."),
        ([lambda: pd.DataFrame({"z_a_low": [1]})], r"source 0: returns str; it must return record batches of Arrow\."),
    ],
    ids=["none", "a function", "a table", "nothing", "numbers", "pandas"],
)
def test_sources_that_are_none(sources, message):
    with pytest.raises(ValueError, match=message):
        read_batches(sources)


def test_filtered_datasets_are_refused(few):
    with pytest.raises(ValueError, match=r"source: .*filter"):
        read_parquet(ds.dataset(few[1]).filter(ds.field("z_a_low") > 0.1))


def test_files_without_rows(Z, tmp_path):
    empty = write_files(tmp_path / "empty", row_table(Z[:0]))
    with pytest.raises(ValueError, match=r"Z: the files have no rows\."):
        solve(read_parquet(empty))
    pq.write_table(row_table(Z[:FEW]), empty / "rows.parquet")
    np.testing.assert_array_equal(rows_of(read_parquet(empty)), Z[:FEW])


def changed(column, row, value):
    """A change of one number in a table, which is cut into parts of fifty rows afterwards."""

    def change(table):
        values = table.column(column).to_numpy().copy()
        values[row] = value
        return table.set_column(table.schema.get_field_index(column), column, pa.array(values))

    return change


def without(column):
    return lambda table: table.drop_columns([column])


def as_text(column):
    return lambda table: table.set_column(0, column, table.column(column).cast("string"))


def with_missing(column):
    def change(table):
        values = [None, *table.column(column).to_pylist()[1:]]
        return table.set_column(table.schema.get_field_index(column), column, pa.array(values, pa.float64()))

    return change


TABLES = {  # of the second of three files, each with four row groups of fifty rows
    "a sum": (changed("z_a_low", 123, 0.9), r"part-001\.parquet, row group 2: Z: row 23 sums to 1\.\d+; each row must"),
    "NaN": (changed("z_b_low", 0, np.nan), r"part-001\.parquet, row group 0: Z: row 0 holds NaN or infinite values"),
    "infinite": (changed("z_b_low", 199, np.inf), r"part-001\.parquet, row group 3: Z: row 49 holds NaN or infinite"),
    "missing": (with_missing("z_c_high"), r"part-001\.parquet, row group 0: column 'z_c_high' has 1 missing values"),
    "a negative weight": (changed("w", 51, -1), r"part-001\.parquet, row group 1: weight='w': row 1 holds -1; weights"),
    "no weight": (changed("w", 60, np.nan), r"row group 1: weight='w': row 10 holds nan; weights must be finite and"),
    "infinite weights": (changed("w", 60, np.inf), r"row group 1: weight='w': row 10 holds inf; weights must be"),
    "no offset": (changed("u_2", 60, np.nan), r"row group 1: offset='u_2': row 10 holds nan; must be a number of at"),
    "a large offset": (changed("u_1", 60, -1e101), r"offset='u_1': row 10 holds -1e\+101; must be a number of at"),
    "no column": (without("z_a_mid"), r"part-001\.parquet: has no column 'z_a_mid', which the first file has\."),
    "no weights": (without("w"), r"part-001\.parquet: has no column 'w', which the first file has\."),
    "text": (as_text("z_a_low"), r"part-001\.parquet: column 'z_a_low' is of type string; in the first file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_rows_that_cannot_be_rows_are_found(kind, Z, tmp_path):
    change, message = TABLES[kind]
    table = row_table(Z[:FEW], weights(0, FEW), np.zeros((FEW, 3)))
    folder = write_files(tmp_path / "rows", table, 3)
    pq.write_table(change(table.slice(200, 200)), folder / "part-001.parquet", row_group_size=50)
    with pytest.raises(PartError, match=message) as error:
        read_parquet(folder, weight="w", offset="u_*", part_rows=50).as_measure()
    assert "\n" not in str(error.value)


def test_a_negative_number_that_another_one_hides(Z, tmp_path):
    rows = Z[:FEW].copy()
    rows[350, 0, 0], rows[350, 0, 1] = -0.25, rows[350, 0, :2].sum() + 0.25
    folder = write_files(tmp_path / "rows", row_table(rows), 2)
    with pytest.raises(
        PartError, match=r"part-001\.parquet, row group 0: Z: row 50 holds -0\.25; probabilities cannot"
    ):
        solve(read_parquet(folder))


@pytest.mark.parametrize(
    "weight, message",
    [
        (0.0, "is zero in all rows; at least some must count"),
        (1e-300, "has the mean 1e-300; divide all weights by one"),
    ],
)
@pytest.mark.parametrize("n", [FEW, MANY])
def test_weights_that_weigh_nothing(Z, tmp_path, weight, message, n):
    folder = write_files(tmp_path / "rows", row_table(Z[:n], np.full(n, weight)), 2)
    with pytest.raises(ValueError, match=rf"weight='w': {message}"):
        solve(read_parquet(folder, weight="w"))


# -- while rows are read -----------------------------------------------------------------------------------------
def remove(path):
    path.unlink()


def rewrite(path):
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)


def touch(path):
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    "change, message",
    [(remove, "is not there any more"), (rewrite, "has changed since it was"), (touch, "has changed since it was")],
    ids=["removed", "rewritten", "touched"],
)
def test_files_that_change_between_two_readings_end_the_solve(Z, tmp_path, change, message, number):
    folder = write_files(tmp_path / "rows", row_table(Z), 3)
    client = WatchedThreads(lambda n: change(folder / "part-002.parquet") if n == number else None)
    with pytest.raises(PartError, match=rf"part-002\.parquet: {message}"):
        solve(read_parquet(folder), "dp", 0.01, random_state=0, client=client)
    assert client.n_readings == number


def test_the_measure_stays_where_it_is(Z, tmp_path):
    measure = read_parquet(write_files(tmp_path / "rows", row_table(Z))).as_measure()
    assert isinstance(measure, PartMeasure)
    with pytest.raises(TypeError, match="a measure holds its cluster and cannot be sent to it"):
        pickle.dumps(measure)


def test_the_door_asks_for_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'read_parquet needs pyarrow: pip install "optfair\[parquet\]"'):
        optfair.read_parquet("scores")


def test_the_prior_is_that_of_an_array(Z, tmp_path):
    weight = weights(1, MANY)
    folder = write_files(tmp_path / "rows", row_table(Z, weight), 2, 5_000)
    measure = read_parquet(folder, weight="w").as_measure()
    array = check_posterior(Z, sample_weight=weight)
    np.testing.assert_allclose(measure.prior, array.prior, rtol=1e-12)
    assert measure.n == MANY and measure.dtype == array.dtype and measure.value_noise == array.value_noise
