"""Rows are matched by position, and row labels that contradict this are refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair.inputs.alignment import check_row_labels, check_same_rows

TABLE = pd.DataFrame({"x": np.arange(20.0), "group": list("ab") * 10})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y_true": [1, 2], "prediction": [1]}, "prediction: has 1 rows but y_true has 2; they must have the same"),
        ({"y_true": [1], "sample_weight": 3}, "sample_weight=3: must be an array, list or data frame with one entry"),
    ],
)
def test_numbers_of_rows_that_differ_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_same_rows(**arguments)


def test_rows_of_other_people_are_refused_in_one_line():
    """Check two slices of one table: the first of them has the default index."""
    with pytest.raises(ValueError) as caught:
        check_same_rows(X=TABLE[["x"]][:10], y=np.ones(10), sensitive_features=TABLE["group"][10:])
    assert str(caught.value) == (
        "sensitive_features: its row labels differ from those of X (first at position 0: 10, not 0); align them with "
        ".loc[X.index], or pass .to_numpy() to match rows by position."
    )
    # As it says.
    assert check_same_rows(X=TABLE[["x"]][:10], sensitive_features=TABLE["group"][10:].to_numpy()) == 10
    assert check_same_rows(X=TABLE[["x"]][10:], sensitive_features=TABLE["group"].loc[TABLE[10:].index]) == 10


@given(st.permutations(range(6)), st.lists(st.sampled_from("abcdef"), min_size=6, max_size=6))
def test_equal_labels_pass_and_every_other_order_is_refused(order, labels):
    """Check default, unique and repeated labels; an order that leaves the labels as they are is none."""
    for index in (range(6), range(10, 16), list("uvwxyz"), labels):
        one = pd.Series(0, index=index)
        other = one.iloc[order]
        check_row_labels(y=one, a=one.copy(), b=one.to_frame(), c=[0] * 6, d=None)
        if other.index.equals(one.index):
            check_row_labels(y=one, a=other)
        else:
            with pytest.raises(ValueError, match="a: has the row labels of y in another order"):
                check_row_labels(y=one, a=other)


@pytest.mark.parametrize(
    ("index", "other"),
    [
        ([3, 1, 7], [3, 1, 8]),
        (list("abc"), list("abd")),
        ([3, 1, 7], list("abc")),
        ([1, None, 3], [1, 2, None]),
        (pd.array([1, None, 3], dtype="Int64"), pd.array([1, 2, 3], dtype="Int64")),
        (pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), pd.MultiIndex.from_tuples([("a", 1)] * 3)),
        (pd.RangeIndex(3), pd.RangeIndex(1, 4)),
        (pd.RangeIndex(3), pd.RangeIndex(0, 6, 2)),
        (["x", 1, 2.5], [1, "x", 2.5]),
    ],
    ids=repr,
)
def test_labels_that_differ_are_refused_whoever_comes_first(index, other):
    one, two = pd.Series(0, index=index), pd.DataFrame({"c": 0}, index=other)
    for pair in ({"X": one, "y": two}, {"X": two, "y": one}):
        with pytest.raises(ValueError, match=r"y: (its row labels differ from those|has the row labels) of X") as error:
            check_row_labels(**pair)
        assert "np." not in str(error.value)


@pytest.mark.parametrize(
    "index",
    [[13, 2, 8], list("cab"), [1, 3, 4], pd.date_range("2024-01-01", periods=3), ["a", "a", "b"]],
    ids=["a sample", "names", "a filter", "dates", "repeated"],
)
def test_a_default_index_is_matched_by_position_with_labels_of_another_kind(index):
    """Check what arrays, `reset_index` and transformers leave beside rows that keep the labels of their table."""
    labelled = pd.Series(0, index=index)
    check_row_labels(X=labelled, y=pd.Series([1, 2, 3]), weight=pd.Series([1, 2, 3], index=[0, 1, 2]))
    check_row_labels(X=pd.DataFrame({"x": [1, 2, 3]}), y=labelled)
    # It hides no contradiction between the others.
    with pytest.raises(ValueError, match="b: its row labels differ from those of a"):
        check_row_labels(X=pd.Series([1, 2, 3]), a=labelled, b=pd.Series(0, index=[90, 80, 70]))


def test_one_row_has_no_order_and_equal_texts_of_several_types_are_equal():
    check_row_labels(X=TABLE[5:6], sensitive_features=pd.Series(["a"]))
    check_row_labels(X=pd.Series(0, index=pd.Index(["a", "b"], dtype=object)), y=pd.Series(0, index=["a", "b"]))
    check_row_labels(X=pd.Series(0, index=[1, 2]), y=pd.Series(0, index=[1.0, 2.0]))
    with pytest.raises(ValueError, match="y: its row labels differ from those of X"):
        check_row_labels(X=TABLE[5:6], y=TABLE[6:7])


def test_repeated_labels_cannot_be_aligned_by_name():
    one, other = pd.Series(0, index=[5, 5, 6]), pd.Series(0, index=[5, 6, 6])
    with pytest.raises(ValueError, match=r"first at position 1: 6, not 5\); align them, or pass .to_numpy"):
        check_row_labels(y=one, a=other)
