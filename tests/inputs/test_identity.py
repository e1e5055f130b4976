"""A row is identified by its content, not by its container, its position or the rows beside it."""

import datetime
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from optfair.inputs import identity
from optfair.inputs.containers import take_rows
from optfair.inputs.identity import duplicate_row_ids, key_bytes, posterior_bytes, row_bytes, row_hashes
from optfair.inputs.splits import content_folds
from tests.inputs.helpers import (
    NAN,
    NEEDS_POLARS,
    NEEDS_PYARROW,
    SPARSE_FORMATS,
    expected_bytes,
    to_objects,
    to_pandas,
    to_polars,
)


def encode(X):
    """Return the bytes of all rows."""
    return list(row_bytes(X))


CONTAINERS = [
    pytest.param(lambda rows: [list(row) for row in rows], id="list"),
    pytest.param(lambda rows: [tuple(row) for row in rows], id="tuples"),
    pytest.param(to_objects, id="objects"),
    pytest.param(to_pandas, id="pandas"),
    pytest.param(lambda rows: to_pandas(rows).astype(object), id="pandas objects"),
    pytest.param(to_polars, id="polars", marks=NEEDS_POLARS),
]
NUMERIC_CONTAINERS = [
    *CONTAINERS,
    pytest.param(lambda rows: np.array(rows, dtype=float), id="float64"),
    pytest.param(lambda rows: np.array(rows, dtype=np.float32), id="float32"),
    pytest.param(lambda rows: np.array(rows, dtype=np.int8), id="int8"),
    pytest.param(lambda rows: np.array(rows, dtype=">i4"), id="big-endian"),
    pytest.param(lambda rows: np.asfortranarray(rows, dtype=float), id="fortran"),
    pytest.param(lambda rows: to_pandas(rows).astype("Int64"), id="Int64"),
    pytest.param(lambda rows: to_pandas(rows).astype(pd.SparseDtype("float64", 0.0)), id="pandas sparse"),
    pytest.param(lambda rows: to_pandas(rows).astype({"c0": "float32", "c1": "category"}), id="mixed dtypes"),
    pytest.param(lambda rows: to_pandas(rows).astype("int64[pyarrow]"), id="arrow", marks=NEEDS_PYARROW),
    pytest.param(lambda rows: [np.array(row, dtype=np.int16) for row in rows], id="list of arrays"),
    pytest.param(lambda rows: np.array(rows).reshape(len(rows), 1, -1), id="3-d"),
]


# -- equal rows ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("container", NUMERIC_CONTAINERS)
def test_rows_of_numbers_have_the_same_bytes_in_every_container(container):
    rows = [[1, -2, 0], [3, 4, 100], [0, 0, 0], [1, -2, 0]]
    assert encode(container(rows)) == expected_bytes(rows)


@pytest.mark.parametrize("container", CONTAINERS)
def test_rows_of_mixed_types_have_the_same_bytes_in_every_container(container):
    rows = [["a", 1, 0.5, True, "é"], ["", -3, float("nan"), False, None], [None, 7, 1e300, True, "日本"]]
    assert encode(container(rows)) == expected_bytes(rows)


PLAIN = st.one_of(
    st.text(max_size=3), st.floats(allow_subnormal=False), st.integers(-(2**60), 2**60), st.booleans(), st.none()
)


@given(st.data(), st.integers(1, 4))
def test_each_cell_is_encoded_by_its_type_in_columns_of_mixed_types(data, width):
    rows = data.draw(st.lists(st.lists(PLAIN, min_size=width, max_size=width), min_size=1, max_size=6))
    expected = expected_bytes(rows)
    assert encode(rows) == encode(to_objects(rows)) == expected
    frame = pd.DataFrame({k: pd.Series([row[k] for row in rows], dtype=object) for k in range(width)})
    assert encode(frame) == expected


@given(st.lists(st.lists(PLAIN, min_size=2, max_size=2), min_size=1, max_size=6), st.randoms())
def test_rows_are_encoded_one_by_one_and_the_order_permutes(rows, random):
    whole = encode(rows)
    assert whole == [encode([row])[0] for row in rows]
    order = random.sample(range(len(rows)), len(rows))
    assert encode(take_rows(rows, order)) == [whole[i] for i in order]


def test_the_block_size_does_not_matter(monkeypatch):
    rows = [[f"t{i % 3}" if i % 4 else None, i, i % 2 == 0] for i in range(23)]
    frame = to_pandas(rows).astype({"c0": "category"})
    whole = encode(frame)
    monkeypatch.setattr(identity, "BLOCK_CELLS", 12)
    assert encode(frame) == encode(rows) == whole == expected_bytes(rows)
    # A block of numbers only, before one with text, in a column of objects.
    mixed = [[1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], [12], ["a"]]
    assert encode(mixed) == expected_bytes(mixed)


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=2, max_size=2))
def test_different_cells_are_different_bytes(rows):
    """Check that b is one to one: bytes are equal only for cells equal as numbers, as texts or as missing."""

    def canonical(cell):
        if cell is None or cell != cell or cell == "":
            return ("missing",)
        return ("text", cell) if isinstance(cell, str) else ("number", float(cell))

    first, second = row_bytes([list(row) for row in rows])
    assert (first == second) == (list(map(canonical, rows[0])) == list(map(canonical, rows[1])))


def test_no_number_reads_as_the_head_of_a_text():
    """Check two rows that would have the same bytes if numbers below 2.2e−308 were not rounded to zero."""
    head = struct.unpack("<d", b"s" + struct.pack("<q", 16)[:7])[0]
    assert 0 < head < 2.3e-308
    tail = struct.unpack("<d", b"\0" + b"abcdefg")[0]
    numbers_first = [head, tail, "x" * 16]
    inner = b"abcdefg" + b"s" + struct.pack("<q", 16)
    text_first = [inner.decode(), *struct.unpack("<dd", b"x" * 16)]
    assert encode([numbers_first])[0] != encode([text_first])[0]


def test_lengths_separate_texts_and_numbers_are_not_texts():
    split = encode([["a", "bc"], ["ab", "c"], ["abc", ""], ["", "abc"]])
    assert len(set(split)) == 4
    assert len(set(row_bytes([[1], ["1"], ["1.0"], [b"1"]]))) == 4
    assert len(set(row_bytes([["nan"], [""], ["None"], [None]]))) == 3  # an empty text is missing


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_one_zero_and_one_nan(dtype):
    values = np.array([[0.0], [-0.0], [np.nan], [-np.nan]], dtype=dtype)
    zero, minus_zero, nan, minus_nan = row_bytes(values)
    assert zero == minus_zero == bytes(8) and nan == minus_nan == NAN


def test_nan_payloads_are_one_missing_value():
    payloads = np.array([0x7FF8000000000000, 0x7FF8000000000123, 0xFFF0000000000001], dtype=np.uint64).view(float)
    assert set(row_bytes(payloads[:, None])) == {NAN}
    assert set(row_bytes(pd.DataFrame({"a": payloads}))) == {NAN}
    assert set(row_bytes([[value] for value in payloads.tolist()])) == {NAN}


def test_missing_values_of_every_type_are_one():
    nat = [np.datetime64("NaT"), np.timedelta64("NaT"), np.datetime64("NaT", "D")]
    missing = [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), *nat]
    assert set(row_bytes([[value] for value in missing])) == {NAN}
    for dtype in ["string", "category", "Int64", "boolean", "datetime64[ns]", "datetime64[ns, UTC]", "m8[s]"]:
        assert set(row_bytes(pd.DataFrame({"a": pd.Series([None, None], dtype=dtype)}))) == {NAN}, dtype


@NEEDS_POLARS
def test_polars_nulls_are_missing_in_columns_of_any_type():
    import polars as pl

    types = [pl.Int8, pl.Float32, pl.Boolean, pl.String, pl.Categorical, pl.Date, pl.Datetime("ns"), pl.Null, pl.Binary]
    types += [pl.Duration("ms"), pl.Datetime("us", "Europe/Paris"), pl.Decimal(10, 2), pl.List(pl.Int8), pl.Int128]
    for dtype in types:
        assert encode(pl.DataFrame({"a": pl.Series([None], dtype=dtype)})) == [NAN], dtype


def test_numbers_of_every_kind_are_one_number():
    ones = [1, 1.0, True, np.True_, np.int8(1), np.float16(1), np.uint64(1), Decimal(1), Fraction(1), np.longdouble(1)]
    assert set(row_bytes([[value] for value in ones])) == {struct.pack("<d", 1.0)}
    assert len(set(row_bytes(np.array([[np.float32(0.1)], [0.1]], dtype=object)))) == 2


def test_integers_beyond_float64():
    """Check that they are rounded to the nearest float64; beyond its range their digits identify them."""
    near = [[2**53], [2**53 + 1]]
    assert len(set(row_bytes(near))) == len(set(row_bytes(np.array(near)))) == 1
    assert encode(near) == encode(np.array(near, dtype=np.uint64))
    huge, other, small = row_bytes([[10**400], [10**400 + 1], [1]])
    assert huge != other and small == struct.pack("<d", 1)


@pytest.mark.parametrize(
    "values", [["a", None, "b", "a"], [3, 1, None, 3], [True, False, True, None], [1.5, None, 2, 1]]
)
def test_a_category_is_its_value(values):
    plain = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": 1})
    category = plain.astype({"a": "category"})
    assert encode(category) == encode(plain) == expected_bytes([[v, 1] for v in values])
    # Neither the order nor the number of the categories matters.
    reordered = category["a"].cat.reorder_categories(category["a"].cat.categories[::-1])
    assert encode(category.assign(a=reordered)) == encode(plain)
    assert encode(category.iloc[:1]) == encode(plain)[:1]
    assert encode(category["a"]) == encode(plain["a"])


@NEEDS_POLARS
def test_polars_categories_and_enums_are_their_values():
    import polars as pl

    plain = pl.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]})
    expected = expected_bytes(plain.rows())
    for dtype in (pl.Categorical, pl.Enum(["y", "x"])):
        assert encode(plain.with_columns(pl.col("a").cast(dtype))) == expected
    assert encode(plain) == encode(to_pandas(plain.rows())) == expected


@NEEDS_POLARS
def test_wide_integers_and_decimals_of_polars():
    import polars as pl

    frame = pl.DataFrame({"a": pl.Series([2**53 + 1, None], dtype=pl.Int128), "b": [Decimal("0.1"), Decimal("-7.35")]})
    assert encode(frame) == expected_bytes([[2**53 + 1, 0.1], [None, -7.35]])


NAIVE = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))


@given(st.lists(NAIVE, min_size=1, max_size=4))
def test_an_instant_is_its_nanoseconds_in_every_container(moments):
    epoch = datetime.datetime(1970, 1, 1)
    digits = [b"%d" % ((moment - epoch) // datetime.timedelta(microseconds=1) * 1000) for moment in moments]
    expected = [b"d" + struct.pack("<q", len(text)) + text for text in digits]
    array = np.array(moments, dtype="datetime64[us]")
    for X in (
        [[moment] for moment in moments],
        moments,
        array,
        array[:, None].astype("datetime64[ns]"),
        array.astype(object)[:, None],
        pd.DataFrame({"t": array}),
        pd.Series(array.astype("datetime64[ns]")),
        pd.Series(moments, dtype=object),
        [[pd.Timestamp(moment)] for moment in moments],
        list(array),
        pd.Series(array, dtype="category"),
    ):
        assert encode(X) == expected


def test_dates_zones_and_durations():
    day = datetime.date(2020, 3, 1)
    noon = datetime.datetime(2020, 3, 1, 12, tzinfo=datetime.UTC)
    paris = datetime.timezone(datetime.timedelta(hours=1))
    midnights = [
        day,
        datetime.datetime(2020, 3, 1),
        pd.Timestamp(day),
        np.datetime64("2020-03-01"),
        np.datetime64("2020-03"),
    ]
    assert len(set(row_bytes([[value] for value in midnights]))) == 1
    aware = [noon, noon.astimezone(paris), pd.Timestamp(noon), pd.Timestamp(noon).tz_convert("Asia/Tokyo")]
    column = pd.Series([noon]).dt.tz_convert("Asia/Tokyo")
    cells = {*row_bytes([[value] for value in aware]), *row_bytes(column), *row_bytes(column.to_frame())}
    cells |= {*row_bytes(column.astype("category"))}
    assert len(cells) == 1
    assert cells.isdisjoint(row_bytes([[noon.replace(tzinfo=None)]]))
    hour = datetime.timedelta(hours=-1)
    durations = [hour, pd.Timedelta(hour), np.timedelta64(-1, "h"), np.timedelta64(-3600 * 10**9, "ns")]
    column = pd.Series([hour])
    assert len({*row_bytes([[value] for value in durations]), *row_bytes(column), *row_bytes(column.to_numpy())}) == 1
    # Beyond the range of int64 nanoseconds.
    assert encode(np.array(["9999-01-01"], dtype="M8[s]")) == encode([datetime.date(9999, 1, 1)])
    # One nanosecond is a difference.
    assert len(set(row_bytes([pd.Timestamp(0), pd.Timestamp(1), np.datetime64(1, "ns")]))) == 2


@NEEDS_POLARS
def test_polars_times_are_those_of_pandas():
    import polars as pl

    moments = [datetime.datetime(1901, 2, 3, 4, 5, 6, 7), None, datetime.datetime(2020, 1, 1)]
    days = [datetime.date(1901, 2, 3), None, datetime.date(2020, 1, 1)]
    spans = [datetime.timedelta(days=-1, microseconds=3), None, datetime.timedelta(1)]
    names = ["moment", "day", "span"]
    rows = list(zip(moments, days, spans, strict=True))
    expected = encode([list(row) for row in rows])
    frame = to_polars(rows, names)
    assert encode(frame) == expected
    assert encode(frame.with_columns(pl.col("moment").cast(pl.Datetime("ns")))) == expected
    zoned = pl.Series(moments).dt.replace_time_zone("UTC").dt.convert_time_zone("America/Lima")
    aware = [moment and moment.replace(tzinfo=datetime.UTC) for moment in moments]
    assert encode(zoned) == encode(aware)


def test_bytes_and_other_objects_have_tags_of_their_own():
    cells = ["a", b"a", ("a",), {"a": 1}, 1j, ["a"]]
    assert len({encode([[cell]])[0] for cell in cells}) == len(cells)
    assert encode(np.array([["ab"]], dtype="S2")) == [b"b" + struct.pack("<q", 2) + b"ab"]
    assert encode([[1j]]) == [b"o" + struct.pack("<q", 2) + b"1j"]
    # numpy's str of a long array leaves values out.
    zeros = np.zeros(5000)
    column = np.empty((2, 1), dtype=object)
    column[0, 0], column[1, 0] = zeros, np.where(np.arange(5000) == 2500, 1.0, zeros)
    assert len(set(row_bytes(column))) == 2


def test_any_text_can_be_encoded():
    assert len(set(row_bytes(["\ud800", "\ud801", "?", "\x00", "", "\U0010ffff"]))) == 6


def test_one_text_per_row_is_a_row_of_one_column():
    texts = ["the cat", "", "the dog", "the cat"]
    expected = expected_bytes([[text] for text in texts])
    for X in (texts, tuple(texts), np.array(texts), np.array(texts, dtype=object), pd.Series(texts), pd.Index(texts)):
        assert encode(X) == expected
    assert encode(pd.DataFrame({"text": texts})) == expected
    assert encode([None, "a"]) == expected_bytes([[None], ["a"]])


@NEEDS_POLARS
def test_a_polars_series_of_texts():
    import polars as pl

    assert encode(pl.Series(["a", None])) == expected_bytes([["a"], [None]])


def test_rows_without_columns_and_tables_without_rows():
    assert encode(np.empty((3, 0))) == encode(pd.DataFrame(index=range(3))) == [b""] * 3
    for empty in ([], np.empty((0, 2)), pd.DataFrame({"a": [], "b": []}), pd.Series([], dtype=object)):
        assert encode(empty) == []
    assert encode(sparse.csr_array((2, 3))) == [b"S", b"S"]


@pytest.mark.parametrize("form", SPARSE_FORMATS)
@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_a_sparse_row_is_its_nonzeros(form, kind):
    dense = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [5, 0, 0, 0]])
    pair = struct.Struct("<qd").pack
    expected = [b"S" + pair(1, 2.0) + pair(3, -1.0), b"S", b"S" + pair(0, 5.0)]
    for dtype in (np.int8, np.float32, float):
        assert encode(kind(dense.astype(dtype)).asformat(form)) == expected
    assert set(row_bytes(dense)).isdisjoint(expected)


def test_the_storage_of_a_sparse_matrix_does_not_matter():
    plain = sparse.csr_array(np.array([[3.0, 0.0, np.nan]]))
    # Unsorted, with duplicates, explicit zeros and another NaN.
    data = np.array([-np.nan, 1.0, 2.0, -0.0, 7.0, -7.0])
    loose = sparse.csr_array((data, np.array([2, 0, 0, 1, 1, 1]), np.array([0, 6])), shape=(1, 3))
    assert encode(loose) == encode(plain)
    assert loose.nnz == 6 and loose.indices.tolist() == [2, 0, 0, 1, 1, 1]  # X is not changed


@given(st.lists(st.lists(st.floats(), min_size=2, max_size=2), min_size=1, max_size=4))
def test_x_is_not_changed(rows):
    X = np.array(rows)
    before = X.tobytes()
    frame = pd.DataFrame(X)
    encode(X), encode(frame), content_folds(X, np.zeros(len(X), int), 2)
    assert X.tobytes() == before == frame.to_numpy().tobytes()


# -- rows that are refused -----------------------------------------------------------------------------------
@pytest.mark.parametrize("X", [[["a"], ["a", "b"]], "text", 3, np.array(3.0), {"a": 1}])
def test_bytes_of_what_is_no_table(X):
    with pytest.raises(ValueError, match=r"^X: "):
        row_bytes(X)


@NEEDS_POLARS
def test_lazy_frames_are_refused():
    with pytest.raises(ValueError, match="X: is a LazyFrame; must be"):
        row_bytes(to_polars([["M", 1, 0.5]]).lazy())


# -- other identities ----------------------------------------------------------------------------------------
def test_a_posterior_identifies_a_row_up_to_float32():
    Z = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    assert list(posterior_bytes(Z)) == list(posterior_bytes(Z + 1e-12)) == list(posterior_bytes(Z.astype(np.float32)))
    assert len(set(posterior_bytes(Z))) == 5
    assert list(posterior_bytes(np.array([[0.0, 1.0]]))) == list(posterior_bytes(np.array([[-0.0, 1.0]])))


def test_a_whole_number_is_its_digits_and_other_keys_differ():
    ones = [1, 1.0, True, np.int8(1), np.float32(1), np.True_, "1", "1.0", Decimal("1"), Decimal("1.00")]
    assert len({key_bytes(key) for key in ones}) == 1
    assert key_bytes(Decimal("2.5")) == key_bytes(2.5) and key_bytes(bytearray(b"a")) == key_bytes(b"a")
    assert key_bytes((1, (2, "a"))) == key_bytes([1.0, ["2", "a"]])
    keys = [
        1,
        "01",
        "1.00",
        "1.0 ",
        b"1",
        1.5,
        "1.5",
        (1,),
        (1, 2),
        ((1, 2),),
        (1, (2,)),
        ("a", "bc"),
        ("ab", "c"),
        None,
    ]
    assert len({key_bytes(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("probe_rows", [2, 2_000])
def test_duplicate_row_ids_number_the_distinct_rows(probe_rows, monkeypatch):
    """Check the numbers where rows repeat, and None where each distinct row comes less than twice on average."""
    monkeypatch.setattr(identity, "PROBE_ROWS", probe_rows)
    X = np.tile([[3], [1]], (4, 1))
    expected = [0, 1] * 4
    assert duplicate_row_ids(X).tolist() == duplicate_row_ids(pd.DataFrame({"a": list("xy" * 4)})).tolist() == expected
    assert duplicate_row_ids(np.arange(8)[:, None]) is None
    almost_distinct = np.array([[0], [1], [2], [3], [0], [4], [5], [6]])  # the rows that a probe of two sees are equal
    assert duplicate_row_ids(almost_distinct) is None


# -- numbers for the content of rows -------------------------------------------------------------------------
def test_equal_rows_have_equal_hashes_in_every_container_and_others_differ():
    numbers = np.random.default_rng(0).standard_normal((300, 3)).round(1)
    frame = pd.DataFrame(numbers, columns=list("abc"))
    expected = row_hashes(numbers)
    assert expected.dtype == np.uint64
    assert len(np.unique(expected)) == len(np.unique(numbers, axis=0))
    for container in (frame, numbers.tolist(), frame.astype(object), numbers.astype(object)):
        np.testing.assert_array_equal(row_hashes(container), expected)
    order = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(row_hashes(numbers[order]), expected[order])


def test_rows_of_texts_are_hashed_one_by_one():
    texts = [f"{'x' * (i % 9)}{i}" for i in range(200)]
    frame = pd.DataFrame({"text": texts, "number": np.arange(200.0)})
    hashes = row_hashes(frame)
    assert len(np.unique(hashes)) == 200
    np.testing.assert_array_equal(row_hashes(frame.iloc[::-1])[::-1], hashes)
    np.testing.assert_array_equal(row_hashes(frame.iloc[[7]]), hashes[[7]])


def test_hashes_are_spread_evenly_whatever_the_numbers():
    """Small integers differ in few bits; each bit of their hash is still one for about half of them."""
    hashes = row_hashes(np.arange(4096.0)[:, None])
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5 * 0.5 / 64


def test_hashes_of_numbers_take_the_memory_of_a_block(monkeypatch):
    import tracemalloc

    from optfair.inputs import identity

    monkeypatch.setattr(identity, "BLOCK_CELLS", 2**14)
    X = np.random.default_rng(0).random((40_000, 50)).astype(np.float32)
    whole = identity.row_hashes(X[:3])
    tracemalloc.start()
    hashes = identity.row_hashes(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 2 and np.array_equal(hashes[:3], whole)
