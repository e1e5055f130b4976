"""New rows in the form of those that a model was fitted on."""

import numpy as np
import pandas as pd
import pytest

from optfair.inputs.cells import mark_missing, missing_marker
from optfair.inputs.frames import as_known_table, read_records
from optfair.inputs.table_form import TableForm, read_training_table
from tests.estimators.writings import make_table, typed


def test_what_has_the_form_is_the_same_object():
    for X in (typed(make_table(50)[0]), np.eye(3), [[1.0, None], [2.0, 3.0]], np.array([["a", None]], dtype=object)):
        assert read_training_table(X) is X and TableForm.of(X).conform(X) is X


def test_numbers_keep_all_their_digits():
    large = 2**60 + 1
    form = TableForm.of(pd.DataFrame({"a": [1, 2]}))
    column = form.conform(pd.DataFrame({"a": pd.array([large, 2], dtype="Int64")}))["a"]
    assert column.tolist() == [large, 2] and column.dtype == np.int64
    huge = form.conform(pd.DataFrame({"a": pd.array([2**63 + 1], dtype="UInt64")}))["a"]
    assert huge.tolist() == [2**63 + 1]


@pytest.mark.parametrize(
    "dtype", ["float64", "int64", "bool", "object", "str", "string", "category", "Int64", "boolean"]
)
def test_a_column_gets_back_the_type_that_it_had(dtype):
    values = {"bool": [True, False], "boolean": [True, False]}.get(dtype, [1, 2] if "t64" in dtype else ["a", "b"])
    table = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
    form = TableForm.of(table)
    for other in ("object", "category"):
        column = form.conform(table.astype(other))["a"]
        assert column.tolist() == values
        assert column.dtype == table["a"].dtype or column.dtype.kind == "f"  # sklearn reads nullable types as floats


def test_categories_keep_their_order_and_new_ones_come_last():
    form = TableForm.of(pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["y", "x"])}))
    column = form.conform(pd.DataFrame({"a": ["z", "x", None]}))["a"]
    assert column.cat.categories.tolist() == ["y", "x", "z"] and column.cat.codes.tolist() == [2, 1, -1]
    codes = TableForm.of(pd.DataFrame({"a": pd.Categorical(["7", "8"])}))
    assert codes.conform(pd.DataFrame({"a": pd.Categorical([8, 7])}))["a"].tolist() == ["8", "7"]
    bands = TableForm.of(pd.DataFrame({"a": pd.cut([1, 5], [0, 3, 9])}))  # no file holds intervals
    assert bands.columns[0].categories == () and bands.conform(pd.DataFrame({"a": ["x"]}))["a"].tolist() == ["x"]


def test_dates_and_what_cannot_be_converted():
    form = TableForm.of(pd.DataFrame({"day": pd.to_datetime(["2026-01-01", None])}))
    column = form.conform(pd.DataFrame({"day": pd.Series(["2026-02-01", None], dtype=object)}))["day"]
    assert column.tolist() == [pd.Timestamp("2026-02-01"), pd.NaT]
    assert form.conform(pd.DataFrame({"day": ["soon"]}))["day"].tolist() == ["soon"]


@pytest.mark.parametrize("dtype", ["object", "str", "string"])
def test_a_code_with_a_point_is_the_same_text_unless_there_were_such_texts(dtype):
    table = pd.DataFrame({"a": pd.Series(["7", "x"], dtype=dtype)})
    point = pd.DataFrame({"a": pd.Series(["7.0", "x.0"], dtype=dtype)})
    assert TableForm.of(table).conform(point)["a"].tolist() == ["7", "x.0"]
    assert TableForm.of(point).conform(point) is point
    for other in ("object", "str", "string", "category"):  # versions, say: 7.0 is not 7
        assert TableForm.of(point).conform(point.astype(other))["a"].tolist() == ["7.0", "x.0"]
        assert TableForm.of(point.astype("category")).conform(point.astype(other))["a"].tolist() == ["7.0", "x.0"]


def test_tables_without_texts_as_names_are_passed_on():
    table = pd.DataFrame([[1, 2]], columns=[0, 1])
    form = TableForm.of(table)
    assert form.names == () and form.conform(table) is table and form.texts == []


def test_markers():
    assert missing_marker(np.array([None, "x"], dtype=object)) == "None"
    assert missing_marker(np.array([None, np.nan], dtype=object)) == "NaN"
    assert missing_marker(np.array(["x"], object)) == "unknown"  # a fitted model may know either of them
    mixed = np.array([None, np.nan, pd.NA, "x"], dtype=object)
    assert [type(value) for value in mark_missing(mixed, "unknown")] == [type(None), float, float, str]
    values = np.array([None, "x", pd.NA], dtype=object)
    assert mark_missing(values, "None").tolist() == [None, "x", None]
    assert values.tolist() == [None, "x", pd.NA]  # which is not changed


def test_masked_entries_are_missing():
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(as_known_table(masked), [[1.0, np.nan], [3.0, 4.0]])
    assert as_known_table(np.ma.array([[1, 2]])).dtype.kind == "i"


def test_records_leave_out_optional_names():
    assert read_records({"a": 1}, ["a", "b", "sex"], ["sex"]).columns.tolist() == ["a", "b"]
    assert read_records([{"a": 1, "sex": "f"}], ["a", "sex"], ["sex"]).columns.tolist() == ["a", "sex"]
