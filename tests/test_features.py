"""A person is the content of a row: not its container, not its place, not the company it keeps."""

import datetime
import importlib.util
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from optfair import people
from optfair.features import drop_columns, has_columns, read_groups, take_rows
from optfair.labels import encode_groups
from optfair.people import content_folds, row_bytes

NEEDS_POLARS = pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
NEEDS_PYARROW = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
NAN = struct.pack("<d", float("nan"))


def to_polars(rows, names=None):
    import polars as pl

    names = names or [f"c{k}" for k in range(len(rows[0]))]
    return pl.DataFrame({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def to_pandas(rows, names=None):
    names = names or [f"c{k}" for k in range(len(rows[0]))]
    return pd.DataFrame(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def to_objects(rows):
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for place in np.ndindex(array.shape):
        array[place] = rows[place[0]][place[1]]
    return array


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


def by_hand(rows):
    """The format, cell by cell, from its description alone (numbers, missing and text)."""

    def cell(value):
        if value is None:
            return NAN
        if isinstance(value, str):
            return b"s" + struct.pack("<q", len(value.encode())) + value.encode()
        return NAN if value != value else struct.pack("<d", value + 0.0)

    return [b"".join(map(cell, row)) for row in rows]


# ------------------------------------------------------------------------------------------- the same person


@pytest.mark.parametrize("container", NUMERIC_CONTAINERS)
def test_numbers_are_the_same_person_in_every_container(container):
    rows = [[1, -2, 0], [3, 4, 100], [0, 0, 0], [1, -2, 0]]
    assert list(row_bytes(container(rows))) == by_hand(rows)


@pytest.mark.parametrize("container", CONTAINERS)
def test_mixed_rows_are_the_same_person_in_every_container(container):
    rows = [["a", 1, 0.5, True, "é"], ["", -3, float("nan"), False, None], [None, 7, 1e300, True, "日本"]]
    assert list(row_bytes(container(rows))) == by_hand(rows)


PLAIN = st.one_of(
    st.text(max_size=3), st.floats(allow_subnormal=False), st.integers(-(2**60), 2**60), st.booleans(), st.none()
)


@given(st.data(), st.integers(1, 4))
def test_each_cell_by_its_own_type_in_columns_of_mixed_types(data, width):
    rows = data.draw(st.lists(st.lists(PLAIN, min_size=width, max_size=width), min_size=1, max_size=6))
    expected = by_hand(rows)
    assert list(row_bytes(rows)) == list(row_bytes(to_objects(rows))) == expected
    frame = pd.DataFrame({k: pd.Series([row[k] for row in rows], dtype=object) for k in range(width)})
    assert list(row_bytes(frame)) == expected


@given(st.lists(st.lists(PLAIN, min_size=2, max_size=2), min_size=1, max_size=6), st.randoms())
def test_the_company_does_not_matter_and_the_order_permutes(rows, random):
    together = list(row_bytes(rows))
    assert together == [next(iter(row_bytes([row]))) for row in rows]
    order = random.sample(range(len(rows)), len(rows))
    assert list(row_bytes(take_rows(rows, order))) == [together[i] for i in order]


def test_blocks_of_rows_do_not_show(monkeypatch):
    rows = [[f"t{i % 3}" if i % 4 else None, i, i % 2 == 0] for i in range(23)]
    frame = to_pandas(rows).astype({"c0": "category"})
    whole = list(row_bytes(frame))
    monkeypatch.setattr(people, "CELLS", 12)
    assert list(row_bytes(frame)) == list(row_bytes(rows)) == whole == by_hand(rows)
    # A block of numbers only, before one with text, in a column of objects.
    mixed = [[1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], [12], ["a"]]
    assert list(row_bytes(mixed)) == by_hand(mixed)


@given(st.lists(st.tuples(PLAIN, PLAIN, PLAIN), min_size=2, max_size=2))
def test_different_cells_are_different_bytes(rows):
    """b is one to one: equal bytes only for cells that are equal as numbers, as texts or as missing."""

    def canonical(cell):
        if cell is None or cell != cell:
            return ("missing",)
        return ("text", cell) if isinstance(cell, str) else ("number", float(cell))

    one, other = row_bytes([list(row) for row in rows])
    assert (one == other) == (list(map(canonical, rows[0])) == list(map(canonical, rows[1])))


def test_no_number_reads_as_the_head_of_a_text():
    """These two rows would have the same bytes if the number smaller than 2.2e−308 were kept."""
    head = struct.unpack("<d", b"s" + struct.pack("<q", 16)[:7])[0]
    assert 0 < head < 2.3e-308
    tail = struct.unpack("<d", b"\0" + b"abcdefg")[0]
    numbers_first = [head, tail, "x" * 16]
    inner = b"abcdefg" + b"s" + struct.pack("<q", 16)
    text_first = [inner.decode(), *struct.unpack("<dd", b"x" * 16)]
    assert next(iter(row_bytes([numbers_first]))) != next(iter(row_bytes([text_first])))


def test_texts_keep_their_borders_and_numbers_are_not_texts():
    split = list(row_bytes([["a", "bc"], ["ab", "c"], ["abc", ""], ["", "abc"]]))
    assert len(set(split)) == 4
    assert len(set(row_bytes([[1], ["1"], ["1.0"], [b"1"]]))) == 4
    assert len(set(row_bytes([["nan"], [""], ["None"], [None]]))) == 4


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_one_zero_and_one_nan(dtype):
    values = np.array([[0.0], [-0.0], [np.nan], [-np.nan]], dtype=dtype)
    zero, minus, nan, other = row_bytes(values)
    assert zero == minus == bytes(8) and nan == other == NAN


def test_nan_payloads_are_one_missing_value():
    payloads = np.array([0x7FF8000000000000, 0x7FF8000000000123, 0xFFF0000000000001], dtype=np.uint64).view(float)
    assert set(row_bytes(payloads[:, None])) == {NAN}
    assert set(row_bytes(pd.DataFrame({"a": payloads}))) == {NAN}
    assert set(row_bytes([[value] for value in payloads.tolist()])) == {NAN}


def test_all_that_is_missing_is_the_same():
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
        assert list(row_bytes(pl.DataFrame({"a": pl.Series([None], dtype=dtype)}))) == [NAN], dtype


def test_numbers_of_every_kind_are_one_number():
    ones = [1, 1.0, True, np.True_, np.int8(1), np.float16(1), np.uint64(1), Decimal(1), Fraction(1), np.longdouble(1)]
    assert set(row_bytes([[one] for one in ones])) == {struct.pack("<d", 1.0)}
    assert len(set(row_bytes(np.array([[np.float32(0.1)], [0.1]], dtype=object)))) == 2


def test_integers_beyond_float64():
    """Rounded to the nearest float64; beyond its range they are known by their digits."""
    near = [[2**53], [2**53 + 1]]
    assert len(set(row_bytes(near))) == len(set(row_bytes(np.array(near)))) == 1
    assert list(row_bytes(near)) == list(row_bytes(np.array(near, dtype=np.uint64)))
    huge, other, small = row_bytes([[10**400], [10**400 + 1], [1]])
    assert huge != other and small == struct.pack("<d", 1)


@pytest.mark.parametrize(
    "values", [["a", None, "b", "a"], [3, 1, None, 3], [True, False, True, None], [1.5, None, 2, 1]]
)
def test_a_category_is_its_value(values):
    plain = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": 1})
    category = plain.astype({"a": "category"})
    assert list(row_bytes(category)) == list(row_bytes(plain)) == by_hand([[v, 1] for v in values])
    # neither the order nor the number of the categories matters
    turned = category["a"].cat.reorder_categories(category["a"].cat.categories[::-1])
    assert list(row_bytes(category.assign(a=turned))) == list(row_bytes(plain))
    assert list(row_bytes(category.iloc[:1])) == list(row_bytes(plain))[:1]
    assert list(row_bytes(category["a"])) == list(row_bytes(plain["a"]))


@NEEDS_POLARS
def test_polars_categories_and_enums_are_their_values():
    import polars as pl

    plain = pl.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]})
    expected = by_hand(plain.rows())
    for dtype in (pl.Categorical, pl.Enum(["y", "x"])):
        assert list(row_bytes(plain.with_columns(pl.col("a").cast(dtype)))) == expected
    assert list(row_bytes(plain)) == list(row_bytes(to_pandas(plain.rows()))) == expected


@NEEDS_POLARS
def test_wide_integers_and_decimals_of_polars():
    import polars as pl

    frame = pl.DataFrame({"a": pl.Series([2**53 + 1, None], dtype=pl.Int128), "b": [Decimal("0.1"), Decimal("-7.35")]})
    assert list(row_bytes(frame)) == by_hand([[2**53 + 1, 0.1], [None, -7.35]])


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
        assert list(row_bytes(X)) == expected


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
    # beyond what int64 nanoseconds can say
    assert list(row_bytes(np.array(["9999-01-01"], dtype="M8[s]"))) == list(row_bytes([datetime.date(9999, 1, 1)]))
    # a nanosecond is a difference
    assert len(set(row_bytes([pd.Timestamp(0), pd.Timestamp(1), np.datetime64(1, "ns")]))) == 2


@NEEDS_POLARS
def test_polars_times_are_those_of_pandas():
    import polars as pl

    moments = [datetime.datetime(1901, 2, 3, 4, 5, 6, 7), None, datetime.datetime(2020, 1, 1)]
    days = [datetime.date(1901, 2, 3), None, datetime.date(2020, 1, 1)]
    spans = [datetime.timedelta(days=-1, microseconds=3), None, datetime.timedelta(1)]
    names = ["moment", "day", "span"]
    rows = list(zip(moments, days, spans, strict=True))
    expected = list(row_bytes([list(row) for row in rows]))
    frame = to_polars(rows, names)
    assert list(row_bytes(frame)) == expected
    assert list(row_bytes(frame.with_columns(pl.col("moment").cast(pl.Datetime("ns"))))) == expected
    zoned = pl.Series(moments).dt.replace_time_zone("UTC").dt.convert_time_zone("America/Lima")
    aware = [moment and moment.replace(tzinfo=datetime.UTC) for moment in moments]
    assert list(row_bytes(zoned)) == list(row_bytes(aware))


def test_bytes_and_other_objects_have_tags_of_their_own():
    cells = ["a", b"a", ("a",), {"a": 1}, 1j, ["a"]]
    assert len({next(iter(row_bytes([[cell]]))) for cell in cells}) == len(cells)
    assert list(row_bytes(np.array([["ab"]], dtype="S2"))) == [b"b" + struct.pack("<q", 2) + b"ab"]
    assert list(row_bytes([[1j]])) == [b"o" + struct.pack("<q", 2) + b"1j"]
    # numpy's str of a long array leaves values out
    long = np.zeros(5000)
    column = np.empty((2, 1), dtype=object)
    column[0, 0], column[1, 0] = long, np.where(np.arange(5000) == 2500, 1.0, long)
    assert len(set(row_bytes(column))) == 2


def test_any_text_can_be_encoded():
    assert len(set(row_bytes(["\ud800", "\ud801", "?", "\x00", "", "\U0010ffff"]))) == 6


def test_one_text_per_row_is_a_row_of_one_column():
    texts = ["the cat", "", "the dog", "the cat"]
    expected = by_hand([[text] for text in texts])
    for X in (texts, tuple(texts), np.array(texts), np.array(texts, dtype=object), pd.Series(texts), pd.Index(texts)):
        assert list(row_bytes(X)) == expected
    assert list(row_bytes(pd.DataFrame({"text": texts}))) == expected
    assert list(row_bytes([None, "a"])) == by_hand([[None], ["a"]])


@NEEDS_POLARS
def test_a_polars_series_of_texts():
    import polars as pl

    assert list(row_bytes(pl.Series(["a", None]))) == by_hand([["a"], [None]])


def test_nothing_to_tell_apart():
    assert list(row_bytes(np.empty((3, 0)))) == list(row_bytes(pd.DataFrame(index=range(3)))) == [b""] * 3
    for empty in ([], np.empty((0, 2)), pd.DataFrame({"a": [], "b": []}), pd.Series([], dtype=object)):
        assert list(row_bytes(empty)) == []
    assert list(row_bytes(sparse.csr_array((2, 3)))) == [b"S", b"S"]


FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.coo_matrix])
def test_a_sparse_row_is_its_nonzeros(form, kind):
    dense = np.array([[0, 2, 0, -1], [0, 0, 0, 0], [5, 0, 0, 0]])
    pair = struct.Struct("<qd").pack
    expected = [b"S" + pair(1, 2.0) + pair(3, -1.0), b"S", b"S" + pair(0, 5.0)]
    for dtype in (np.int8, np.float32, float):
        assert list(row_bytes(kind(dense.astype(dtype)).asformat(form))) == expected
    assert set(row_bytes(dense)).isdisjoint(expected)


def test_how_a_sparse_matrix_is_stored_does_not_matter():
    plain = sparse.csr_array(np.array([[3.0, 0.0, np.nan]]))
    # unsorted, with duplicates, explicit zeros and another NaN
    data = np.array([-np.nan, 1.0, 2.0, -0.0, 7.0, -7.0])
    loose = sparse.csr_array((data, np.array([2, 0, 0, 1, 1, 1]), np.array([0, 6])), shape=(1, 3))
    assert list(row_bytes(loose)) == list(row_bytes(plain))
    assert loose.nnz == 6 and loose.indices.tolist() == [2, 0, 0, 1, 1, 1]  # X is left alone


@given(st.lists(st.lists(st.floats(), min_size=2, max_size=2), min_size=1, max_size=4))
def test_x_is_left_alone(rows):
    X = np.array(rows)
    before = X.tobytes()
    frame = pd.DataFrame(X)
    list(row_bytes(X)), list(row_bytes(frame)), content_folds(X, np.zeros(len(X), int), 2)
    assert X.tobytes() == before == frame.to_numpy().tobytes()


# ------------------------------------------------------------------------------------------- rows and columns

ROWS = [["M", 1, 0.5], ["F", 2, 1.5], ["M", 3, 2.5], ["F", 4, 3.5]]
NAMES = ["sex", "age", "score"]


NUMBERS = [row[1:] for row in ROWS]
TEXTS = [row[0] for row in ROWS]
FRAMES = [
    pytest.param(lambda: to_pandas(ROWS, NAMES).set_index(pd.Index([7, 7, 5, 1])), ROWS, id="pandas"),
    pytest.param(lambda: to_polars(ROWS, NAMES), ROWS, id="polars", marks=NEEDS_POLARS),
]
TABLES = [
    *FRAMES,
    pytest.param(lambda: np.array(NUMBERS), NUMBERS, id="array"),
    pytest.param(lambda: to_objects(ROWS), ROWS, id="objects"),
    pytest.param(lambda: [list(row) for row in ROWS], ROWS, id="list"),
    pytest.param(lambda: tuple(tuple(row) for row in ROWS), ROWS, id="tuples"),
    pytest.param(lambda: [np.array(row) for row in NUMBERS], NUMBERS, id="list of arrays"),
    *(
        pytest.param(lambda form=form, kind=kind: kind(np.array(NUMBERS)).asformat(form), NUMBERS, id=f"{name} {form}")
        for form in FORMATS
        for name, kind in [("array", sparse.coo_array), ("matrix", sparse.coo_matrix)]
    ),
]
FLAT = [
    pytest.param(lambda: list(TEXTS), [[text] for text in TEXTS], id="texts"),
    pytest.param(lambda: np.array(TEXTS, dtype=object), [[text] for text in TEXTS], id="text objects"),
    pytest.param(lambda: pd.Series(TEXTS, index=[3, 1, 2, 0]), [[text] for text in TEXTS], id="text series"),
    pytest.param(lambda: pd.Index(TEXTS), [[text] for text in TEXTS], id="text index"),
    pytest.param(lambda: to_polars(ROWS)["c0"], [[text] for text in TEXTS], id="polars series", marks=NEEDS_POLARS),
]


def cells(X):
    if sparse.issparse(X):
        return X.toarray().tolist()
    if isinstance(X, (pd.DataFrame, pd.Series, pd.Index)):
        X = X.to_numpy().tolist()
    elif type(X).__module__.startswith("polars"):
        X = X.rows() if type(X).__name__ == "DataFrame" else X.to_list()
    return [[row] if isinstance(row, str) else list(row) for row in X]


@pytest.mark.parametrize("make, rows", TABLES + FLAT)
@pytest.mark.parametrize("index", [[2, 0, 2], [], [3], np.array([True, False, False, True])])
def test_take_rows_keeps_the_type(make, rows, index):
    X = make()
    taken = take_rows(X, index)
    positions = np.flatnonzero(index) if isinstance(index, np.ndarray) else index
    assert type(taken) is type(X)
    assert cells(taken) == [rows[i] for i in positions]
    if isinstance(X, (pd.DataFrame, pd.Series)):
        assert taken.index.tolist() == [X.index[i] for i in positions]
    if isinstance(X, pd.DataFrame):
        assert taken.dtypes.equals(X.dtypes)
    if sparse.issparse(X):
        assert taken.format == X.format and taken.dtype == X.dtype


@pytest.mark.parametrize("make, rows", TABLES)
@pytest.mark.parametrize("source", [0, 1, -1, -2, [0], [1, 0], np.int64(1)])
def test_positions_find_and_drop_columns(make, rows, source):
    X, width = make(), len(rows[0])
    positions = [k % width for k in (source if isinstance(source, list) else [source])]
    assert has_columns(X, source) and has_columns(X, source, width) and not has_columns(X, source, width + 1)
    groups = read_groups(source, X)
    if isinstance(source, list):
        assert isinstance(groups, pd.DataFrame)
        assert groups.to_numpy().tolist() == [[row[k] for k in positions] for row in rows]
        assert list(groups.columns) == ([NAMES[k] for k in positions] if hasattr(X, "columns") else positions)
    else:
        assert list(groups) == [row[positions[0]] for row in rows]
    left = drop_columns(X, source)
    assert type(left) is type(X)
    assert cells(left) == [[row[k] for k in range(width) if k not in positions] for row in rows]
    assert cells(X) == rows  # X is left alone
    encode_groups(groups, len(rows))


@pytest.mark.parametrize("make, rows", FRAMES)
def test_names_find_and_drop_columns_and_name_the_attributes(make, rows):
    X = make()
    codes, index = encode_groups(read_groups("sex", X), 4)
    assert index.name == "sex" and index.tolist() == ["F", "M"] and codes.tolist() == [1, 0, 1, 0]
    codes, index = encode_groups(read_groups(["age", "sex"], X), 4)
    assert index.names == ["age", "sex"] and [index[c] for c in codes] == [(row[1], row[0]) for row in rows]
    assert encode_groups(read_groups(["sex"], X))[1].name == "sex"
    assert encode_groups(read_groups(["score", 0], X))[1].names == ["score", "sex"]
    left = drop_columns(X, ["age", "sex"])
    assert type(left) is type(X) and list(left.columns) == ["score"] and cells(left) == [[row[2]] for row in rows]
    assert list(row_bytes(left)) == by_hand([[row[2]] for row in rows])
    assert has_columns(X, "sex") and has_columns(X, ["sex", "age"])
    assert not has_columns(left, "sex") and not has_columns(left, ["age", "sex"])
    assert not has_columns(left, ["age", 0])
    with pytest.raises(ValueError, match="X has 'score' but not 'sex'; give all of them or none"):
        has_columns(left, ["sex", "score"])


@pytest.mark.parametrize("make, rows", FRAMES)
def test_frames_keep_their_dtypes(make, rows):
    X = make()
    left = drop_columns(X, "sex")
    assert list(left.dtypes) == list(X.dtypes)[1:]
    if isinstance(X, pd.DataFrame):
        assert left.index.equals(X.index)


@NEEDS_POLARS
def test_groups_from_polars_keep_types_and_holes():
    X = to_polars([["M", 1, True], [None, None, None], ["F", 3, False]], ["sex", "age", "old"])
    for name, labels in {"sex": ["F", "M"], "age": [1, 3], "old": [False, True]}.items():
        codes, index = encode_groups(read_groups(name, X), missing="group")
        assert index.tolist() == [*labels, "(missing)"] and codes[1] == 2
        assert [type(label) for label in index.tolist()[:2]] == [type(label) for label in labels]


def test_an_int_is_a_name_where_columns_have_such_names():
    X = pd.DataFrame([[1, 2], [3, 4]], columns=[1, 0])
    assert read_groups(0, X).tolist() == [2, 4] and list(drop_columns(X, 0).columns) == [1]
    assert not has_columns(drop_columns(X, 0), 0) and not has_columns(X, 5)
    with pytest.raises(ValueError, match=r"sensitive_features=-1: is not among the columns of X: 1, 0\."):
        read_groups(-1, X)


def test_callables_and_none():
    X = pd.DataFrame({"a": [1, 2]})
    seen = []

    def source(given):
        seen.append(given)
        return "whatever it says"

    assert read_groups(source, X) == "whatever it says" and seen[0] is X
    assert drop_columns(X, source) is X and drop_columns(X, None) is X and read_groups(None, X) is None
    assert has_columns(X, source) and not has_columns(X, None)
    assert read_groups(lambda texts: [text[0] for text in texts], ["ab", "cd"]) == ["a", "c"]


@pytest.mark.parametrize("make, rows", FLAT)
def test_texts_have_no_columns(make, rows):
    for source in ("sex", 0, ["sex", "age"]):
        assert not has_columns(make(), source)
        for call in (lambda source=source: read_groups(source, make()), lambda s=source: drop_columns(make(), s)):
            with pytest.raises(ValueError, match=r"^sensitive_features=.*: X is one value per row and has no columns"):
                call()


def test_blind_arrays_are_known_by_their_width():
    X = np.zeros((2, 4))
    assert has_columns(X, [0, -1], 4) and not has_columns(drop_columns(X, [0, -1]), [0, -1], 4)
    assert not has_columns(X, 4) and not has_columns(X, [0, -5]) and not has_columns(X, "sex")


WIDE = pd.DataFrame(np.zeros((1, 9)), columns=list("abcdefghi"))
TWICE = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])


@pytest.mark.parametrize(
    ("source", "X", "message"),
    [
        (
            "sex",
            WIDE,
            "sensitive_features='sex': is not among the columns of X: 'a', 'b', 'c', 'd', 'e', 'f' and 3 more.",
        ),
        (["a", "sex"], WIDE[["a", "b"]], "sensitive_features='sex': is not among the columns of X: 'a', 'b'."),
        ("a", TWICE, "sensitive_features='a': X has 2 columns of this name; must be one."),
        ("sex", np.zeros((2, 2)), "sensitive_features='sex': X is a ndarray without column names; give a position"),
        ("sex", sparse.csr_array((2, 2)), "sensitive_features='sex': X is a csr_array without column names"),
        ("sex", [[1, 2]], "sensitive_features='sex': X is a list without column names"),
        (2, np.zeros((1, 2)), "sensitive_features=2: is not a position in X, which has 2 columns; must be at least -2"),
        (-3, sparse.csr_array((1, 2)), "sensitive_features=-3: is not a position in X, which has 2 columns"),
        ([0, 9], WIDE, "sensitive_features=9: is not a position in X, which has 9 columns"),
        ([0, 7], [[1, 2]], "sensitive_features=7: is not a position in X"),
        (
            True,
            WIDE,
            "sensitive_features=True: must be None, a column name, a position, a list of these, or a callable",
        ),
        ([0, np.True_], WIDE, "sensitive_features=[0, np.True_]: must be None, a column name"),
        (1.5, WIDE, "sensitive_features=1.5: must be None"),
        (("a", "b"), WIDE, "sensitive_features=('a', 'b'): must be None"),
        ([["a"]], WIDE, "sensitive_features=[['a']]: must be None"),
        (pd.Series(["M", "F"] * 50), WIDE, "sensitive_features=0 M 1 F"),
        (np.zeros((40, 2)), WIDE, "sensitive_features=array([[0., 0.], [0., 0.]"),
        ([], WIDE, "sensitive_features=[]: is empty; name at least one column, or give None."),
        (["a", "b", "a"], WIDE, "sensitive_features=['a', 'b', 'a']: has column 'a' twice; give each one once."),
        (["a", 0], WIDE, "sensitive_features=['a', 0]: has column 0 twice"),
        ([1, -1], np.zeros((1, 2)), "sensitive_features=[1, -1]: has column -1 twice"),
        (0, [[1, 2], [1]], "X: has rows of 1 and of 2 values; all must have the same number."),
        (0, np.zeros((2, 2, 2)), "X: has 3 dimensions; must have 2 for sensitive_features to be among its columns."),
        ("a", {"a": [1]}, "X: is a dict; must be a 2-d array, a sparse matrix, a pandas or polars data frame"),
        ("a", None, "X: is a NoneType; must be a 2-d array"),
    ],
)
def test_one_line_says_the_argument_the_value_and_the_rule(source, X, message):
    for call in (lambda: read_groups(source, X), lambda: drop_columns(X, source)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("X", [[["a"], ["a", "b"]], "text", 3, np.array(3.0), {"a": 1}])
def test_bytes_of_what_is_no_table(X):
    with pytest.raises(ValueError, match=r"^X: "):
        row_bytes(X)


@NEEDS_POLARS
def test_lazy_frames_are_refused():
    with pytest.raises(ValueError, match="X: is a LazyFrame; must be"):
        row_bytes(to_polars(ROWS).lazy())


# ------------------------------------------------------------------------------------------- folds


@st.composite
def problems(draw):
    """(rows, strata, number of folds)."""
    row = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "c"]))
    rows = draw(st.lists(row, min_size=1, max_size=40))
    strata = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return [list(row) for row in rows], np.array(strata), draw(st.integers(2, 5))


@given(problems(), st.randoms())
def test_folds_go_with_the_rows_not_with_their_places(problem, random):
    rows, strata, k = problem
    order = random.sample(range(len(rows)), len(rows))
    here, there = content_folds(rows, strata, k), content_folds(take_rows(rows, order), strata[order], k)
    assert here.shape == (len(rows),) and here.min() >= 0 and here.max() < k

    def held(folds, people, groups):
        return sorted((tuple(row), int(s), int(f)) for row, s, f in zip(people, groups, folds, strict=True))

    # Copies in one stratum are the same person to everybody, so which of them is where does not matter.
    assert held(here, rows, strata) == held(there, take_rows(rows, order), strata[order])


@given(problems())
def test_folds_are_balanced_in_every_stratum_and_for_every_row_of_it(problem):
    rows, strata, k = problem
    folds = content_folds(rows, strata, k)
    pairs = [(tuple(row), s) for row, s in zip(rows, strata, strict=True)]
    masks = [strata == s for s in np.unique(strata)] + [np.ones(len(rows), bool)]
    masks += [np.array([other == pair for other in pairs]) for pair in set(pairs)]
    for members in masks:
        counts = np.bincount(folds[members], minlength=k)
        assert counts.max() - counts.min() <= 1


def test_small_strata_do_not_all_land_in_one_fold():
    folds = content_folds(np.arange(10)[:, None], np.arange(10), 5)
    assert np.bincount(folds).tolist() == [2, 2, 2, 2, 2]


def test_folds_do_not_depend_on_the_container():
    rows, strata = [[f"t{i % 7}", i % 5] for i in range(60)], np.arange(60) % 3
    expected = content_folds(rows, strata, 4)
    assert len(set(expected)) == 4
    for X in (to_objects(rows), to_pandas(rows), to_pandas(rows).astype({"c0": "category", "c1": float})):
        assert np.array_equal(content_folds(X, strata, 4), expected)
    texts = [row[0] for row in rows]
    assert np.array_equal(content_folds(texts, strata, 4), content_folds(np.array(texts), strata, 4))
    assert content_folds(sparse.eye_array(6).tocsr(), np.zeros(6, int), 3).tolist().count(0) == 2


def test_few_distinct_rows_are_still_learnt_from():
    """What is learnt out of fold about those who share x must agree with what is true of them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 23, (4000, 1))
    y = (rng.random(4000) < rng.uniform(0.2, 0.8, 23)[X[:, 0]]).astype(int)
    folds = content_folds(X, y, 5)
    learnt = np.empty(4000)
    for k in range(5):
        for x in range(23):
            learnt[(X[:, 0] == x) & (folds == k)] = y[(X[:, 0] == x) & (folds != k)].mean()
    assert np.corrcoef(learnt, y)[0, 1] > 0.25
