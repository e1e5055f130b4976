"""Rows and columns of X are found and left out in every container, and X keeps its type."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from optfair.inputs.containers import as_table, drop_columns, has_columns, layout_of, read_groups, take_rows
from optfair.inputs.identity import row_bytes
from optfair.inputs.labels import encode_groups
from tests.inputs.helpers import NEEDS_POLARS, SPARSE_FORMATS, expected_bytes, to_objects, to_pandas, to_polars

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
        for form in SPARSE_FORMATS
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
    selection = take_rows(X, index)
    positions = np.flatnonzero(index) if isinstance(index, np.ndarray) else index
    assert type(selection) is type(X)
    assert cells(selection) == [rows[i] for i in positions]
    if isinstance(X, (pd.DataFrame, pd.Series)):
        assert selection.index.tolist() == [X.index[i] for i in positions]
    if isinstance(X, pd.DataFrame):
        assert selection.dtypes.equals(X.dtypes)
    if sparse.issparse(X):
        assert selection.format == X.format and selection.dtype == X.dtype


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
    remainder = drop_columns(X, source)
    assert type(remainder) is type(X)
    assert cells(remainder) == [[row[k] for k in range(width) if k not in positions] for row in rows]
    assert cells(X) == rows  # X is not changed
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
    blind = drop_columns(X, ["age", "sex"])
    assert type(blind) is type(X) and list(blind.columns) == ["score"] and cells(blind) == [[row[2]] for row in rows]
    assert list(row_bytes(blind)) == expected_bytes([[row[2]] for row in rows])
    assert has_columns(X, "sex") and has_columns(X, ["sex", "age"])
    assert not has_columns(blind, "sex") and not has_columns(blind, ["age", "sex"])
    assert not has_columns(blind, ["age", 0])
    with pytest.raises(ValueError, match="X has 'score' but not 'sex'; give all of them or none"):
        has_columns(blind, ["sex", "score"])


@pytest.mark.parametrize("make, rows", FRAMES)
def test_frames_keep_their_dtypes(make, rows):
    X = make()
    blind = drop_columns(X, "sex")
    assert list(blind.dtypes) == list(X.dtypes)[1:]
    if isinstance(X, pd.DataFrame):
        assert blind.index.equals(X.index)


@NEEDS_POLARS
def test_groups_from_polars_keep_types_and_missing_values():
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
    arguments = []

    def source(table):
        arguments.append(table)
        return "any result"

    assert read_groups(source, X) == "any result" and arguments[0] is X
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


def test_the_width_tells_arrays_without_the_sensitive_columns():
    X = np.zeros((2, 4))
    assert has_columns(X, [0, -1], 4) and not has_columns(drop_columns(X, [0, -1]), [0, -1], 4)
    assert not has_columns(X, 4) and not has_columns(X, [0, -5]) and not has_columns(X, "sex")


WIDE = pd.DataFrame(np.zeros((1, 9)), columns=list("abcdefghi"))
REPEATED_NAME = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"])


@pytest.mark.parametrize(
    ("source", "X", "message"),
    [
        (
            "sex",
            WIDE,
            "sensitive_features='sex': is not among the columns of X: 'a', 'b', 'c', 'd', 'e', 'f' and 3 more.",
        ),
        (["a", "sex"], WIDE[["a", "b"]], "sensitive_features='sex': is not among the columns of X: 'a', 'b'."),
        ("a", REPEATED_NAME, "sensitive_features='a': X has 2 columns of this name; must be one."),
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
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value).startswith(message) and "\n" not in str(error.value)
        assert len(str(error.value)) < 250


# -- kinds of containers -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("X", "layout"),
    [
        (np.zeros((2, 3)), "array"),
        (np.zeros((2, 3, 1)), "array"),
        (np.zeros(2), "flat"),
        (["a", "b"], "flat"),
        ([], "flat"),
        (pd.Series(["a"]), "flat"),
        ([["a"], ["b"]], "rows"),
        (((1, 2),), "rows"),
        (pd.DataFrame({"a": [1]}), "pandas"),
        (sparse.csr_array((2, 2)), "sparse"),
    ],
    ids=str,
)
def test_the_layout_of_a_container(X, layout):
    assert layout_of(X) == layout and as_table(X) is X


def test_what_numpy_can_read_becomes_an_array():
    class Readable:
        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 3))

    assert as_table(Readable()).shape == (2, 3)
    assert as_table(3) == 3  # refused by the functions that need columns
