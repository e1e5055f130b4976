"""Columns of labels are read exactly."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from optfair.inputs.labels import encode_classes, encode_groups
from optfair.inputs.values import check_columns, exact_column, refuse_equal_types, several_types
from optfair.metrics import ViolationScorer, group_confusion

LARGE = 2**53  # the last integer before float64 leaves some out
NULLABLE = ["Int64", "int64[pyarrow]", "UInt64", "uint64[pyarrow]"]
CONTAINERS = [pd.array, pd.Series, pd.Index]


def nullable(values, dtype, container=pd.array):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow", reason="the dtype is Arrow's")
    return container(values, dtype=dtype)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("dtype", NULLABLE)
def test_integers_keep_their_digits(dtype, container):
    values = nullable([LARGE, LARGE + 1, LARGE + 2], dtype, container)
    assert exact_column(values).tolist() == [LARGE, LARGE + 1, LARGE + 2]
    assert exact_column(values).dtype.kind in "iu"
    for encode in (encode_classes, encode_groups):
        codes, index = encode(values)
        assert (codes.tolist(), index.tolist()) == ([0, 1, 2], [LARGE, LARGE + 1, LARGE + 2])


@pytest.mark.parametrize("dtype", NULLABLE)
def test_integers_keep_their_digits_beside_missing_ones(dtype):
    codes, index = encode_groups(nullable([LARGE, None, LARGE + 1], dtype), missing="group")
    assert codes.tolist() == [0, 2, 1]
    assert index.tolist() == [LARGE, LARGE + 1, "(missing)"]


def test_polars_integers_keep_their_digits_beside_missing_ones():
    polars = pytest.importorskip("polars", reason="a column of polars")
    codes, index = encode_groups(polars.Series([LARGE, None, LARGE + 1]), missing="group")
    assert (codes.tolist(), index.tolist()) == ([0, 2, 1], [LARGE, LARGE + 1, "(missing)"])


def labelled(n=60):
    y = np.arange(n) % 3
    return np.random.default_rng(0).normal(size=(n, 2)) + y[:, None], y, np.arange(n) // 3 % 2


@pytest.mark.parametrize("dtype", NULLABLE)
def test_estimators_and_metrics_tell_large_integers_apart(dtype):
    X, y, group = labelled()
    labels = nullable(LARGE + y, dtype, pd.Series)
    model = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, labels, sensitive_features=group)
    assert model.classes_.tolist() == [LARGE, LARGE + 1, LARGE + 2]
    plain = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, LARGE + y, sensitive_features=group)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert model.score(X, labels) == plain.score(X, LARGE + y) > 0.4
    assert ViolationScorer()(model, X, labels, sensitive_features=group) == ViolationScorer()(
        plain, X, LARGE + y, sensitive_features=group
    )
    confusion = group_confusion(labels, labels, sensitive_features=labels)
    assert confusion.classes.tolist() == confusion.groups.tolist() == [LARGE, LARGE + 1, LARGE + 2]


@pytest.mark.parametrize("dtype", ["boolean", "bool[pyarrow]"])
def test_booleans_stay_booleans(dtype):
    X, y, group = labelled()
    labels = nullable(y > 0, dtype)
    model = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, labels, sensitive_features=group)
    assert model.classes_.dtype == bool
    assert model.predict(X).dtype == bool


def test_a_frame_of_one_nullable_column_is_a_column():
    X, y, group = labelled()
    frame = pd.DataFrame({"y": pd.array(LARGE + y, "Int64")})
    with pytest.warns(UserWarning, match="column-vector"):
        model = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, frame, sensitive_features=group)
    assert model.classes_.tolist() == [LARGE, LARGE + 1, LARGE + 2]


@pytest.mark.parametrize("labels", [[0, 1, 2], [False, True, 2.5], ["a", "b", "c"]])
def test_labels_as_objects_are_what_they_are(labels):
    X, y, group = labelled()
    y, labels = (y % 2, labels[:2]) if labels[1] is True else (y, labels)
    column = np.array(labels, dtype=object)[y]
    model = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, column, sensitive_features=group)
    assert model.classes_.tolist() == labels
    assert type(model.classes_.tolist()[0]) is type(labels[0])


@pytest.mark.parametrize("values", [[1, 2, True], [0, False], [1.0, np.True_], [np.int64(0), False]])
def test_equal_values_of_two_types_are_refused(values):
    with pytest.raises(ValueError, match=r"^y: holds both .*, which are equal in Python and would become one"):
        refuse_equal_types(np.array(values, dtype=object), "y")


@pytest.mark.parametrize("values", [[0, True], [2, True, False], [1, 1.0], ["True", True], [None, True, 5]])
def test_different_values_pass(values):
    refuse_equal_types(np.array(values, dtype=object), "y")


@pytest.mark.parametrize("labels", [[], [1], ["a", "b"], [1, 2.5, True], [(1, "a"), (2, "b")]])
def test_labels_with_an_order(labels):
    assert several_types(labels) == ""


def test_polars_columns_are_matched_by_name_too():
    polars = pytest.importorskip("polars", reason="a frame of polars")
    with pytest.raises(ValueError, match=r"^h: columns 'u', 'v' are not the classes 'a', 'b'"):
        check_columns(polars.DataFrame({"u": [1.0], "v": [0.0]}), pd.Index(["a", "b"]), "h")
