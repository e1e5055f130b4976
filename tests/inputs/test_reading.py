"""What `fit` is given is read once into codes, names and weights; bad input is refused in one line."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from optfair.inputs.labels import MISSING
from optfair.inputs.reading import read_training_data

X = np.arange(12.0).reshape(6, 2)
Y = ["no", "yes", "no", "yes", "no", "maybe"]
GROUPS = ["m", "f", "m", "f", "m", "m"]


def read(X=X, y=Y, groups=GROUPS, sample_weight=None, n=None, **options):
    """Read as a fair classifier does whose groups are an argument of `fit`; the arguments have valid defaults."""
    columns = y, lambda: groups, groups, sample_weight
    return read_training_data(X, *columns, len(X) if n is None else n, "OptFairPost", **options)


# -- what is read --------------------------------------------------------------------------------------------
def test_names_become_codes():
    data = read()
    assert data.X is X and data.weight is None and data.n_given == 6 and data.positions.tolist() == list(range(6))
    assert [data.classes[code] for code in data.y] == Y and data.classes.tolist() == ["maybe", "no", "yes"]
    assert [data.groups[code] for code in data.a] == GROUPS and data.groups.tolist() == ["f", "m"]
    assert data.counts.tolist() == [[0, 0, 2], [1, 3, 0]]


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (np.array([0, 1, 2, 0, 1, 2], dtype=np.int8), np.int8),
        (np.array([0.0, 1, 2, 0, 1, 2]), np.float64),
        (np.array([True, False] * 3), np.bool_),
        (np.array(["a", "bc", "d"] * 2), np.dtype("U2")),
        (np.array(["a", "bc", "d"] * 2, dtype=object), np.dtype("O")),
        (pd.Series(["a", "bc", "d"] * 2, dtype="category"), np.dtype("O")),
    ],
    ids=["int8", "float", "bool", "text", "objects", "category"],
)
def test_classes_keep_the_dtype_of_y(y, dtype):
    data = read(y=y)
    assert data.classes.dtype == dtype
    assert [data.classes[code] for code in data.y] == list(y)


def test_classes_of_a_fitted_model_set_the_order_and_may_be_absent():
    data = read(classes=["yes", "no", "maybe", "somewhat"])
    assert data.classes.tolist() == ["yes", "no", "maybe", "somewhat"] and data.counts[:, 3].sum() == 0
    # The dtype is wide enough for names that y does not have.
    assert read(y=np.array(["a", "b"] * 3), classes=["a", "b", "long name"]).classes.tolist() == ["a", "b", "long name"]
    wide = read(y=np.array([0, 1] * 3, dtype=np.int8), classes=[0, 1, 1000]).classes
    assert wide.tolist() == [0, 1, 1000] and wide.dtype == np.int64


def test_rows_of_weight_zero_are_left_out():
    weight = np.array([1.0, 2, 0, 1, 3, 0])
    data = read(pd.DataFrame(X), sample_weight=weight)
    assert data.positions.tolist() == [0, 1, 3, 4] and data.n_given == 6
    np.testing.assert_array_equal(data.X, X[[0, 1, 3, 4]])
    assert data.weight.tolist() == [1, 2, 1, 3] and data.classes.tolist() == ["no", "yes"]
    # A group or a class whose rows all have weight zero is absent.
    only_men = read(y=["no", "yes", "yes", "yes", "no", "no"], sample_weight=[1, 0, 1, 0, 1, 1])
    assert only_men.groups.tolist() == ["m"] and set(only_men.a) == {0}


def test_small_weights_count_as_the_people_they_stand_for_in_effect():
    """Σw = (Σw)² / Σw² for weights that sum to less; larger weights stay as they are."""
    weight = np.array([1.0, 2, 1, 1, 3, 1]) / 9
    data = read(sample_weight=weight)
    np.testing.assert_allclose(data.weight / data.weight.sum(), weight)
    assert data.weight.sum() == pytest.approx(weight.sum() ** 2 / (weight @ weight))
    np.testing.assert_allclose(read(sample_weight=np.full(6, 1 / 6)).weight, 1)
    assert read(sample_weight=9 * weight).weight.tolist() == [1, 2, 1, 1, 3, 1]


def test_missing_groups_are_a_group_where_this_is_asked_for():
    groups = ["m", None, "m", "f", np.nan, "m"]
    data = read(groups=groups, missing="group")
    assert data.groups.tolist() == ["f", "m", MISSING] and (data.a == 2).tolist() == [False, True] + [False] * 2 + [
        True,
        False,
    ]
    with pytest.raises(ValueError, match="sensitive_features: 2 of 6 rows have a missing value"):
        read(groups=groups)


def test_several_columns_are_intersections():
    data = read(groups=pd.DataFrame({"sex": GROUPS, "old": [0, 0, 1, 1, 1, 0]}))
    assert data.groups.names == ["sex", "old"] and data.groups.tolist() == [("f", 0), ("f", 1), ("m", 0), ("m", 1)]


def test_a_column_of_labels_is_read_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert read(y=np.array(Y)[:, None]).y.tolist() == read().y.tolist()


# -- what is refused -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "OptFairPost requires y to be passed, but the target y is None"),
        ({"y": ["no", None, "no", "yes", None, "no"]}, "y: 2 of 6 rows are missing; drop them or fill them in."),
        ({"y": np.linspace(0, 1, 6)}, "y: 0.2 is not a class label \\(continuous values\\); give classes as strings"),
        ({"y": np.array([0, 1, np.nan, 0, 1, 0])}, "y: 1 of 6 rows are NaN or infinite; drop them or fill them in."),
        ({"y": np.array([0, 1, np.inf, 0, 1, 0])}, "y: 1 of 6 rows are NaN or infinite"),
        ({"y": np.zeros((6, 2))}, "y: should be a 1d array"),
        ({"y": ["no"] * 6}, "y: has one class, 'no'; at least two classes are needed to choose from."),
        ({"y": Y[:5]}, "y: has 5 rows but X has 6"),
        ({"classes": ["no", "yes"]}, r"y: 'maybe' is not in classes=\['no', 'yes'\]"),
        ({"groups": None}, "sensitive_features: missing; give the group of every row."),
        ({"groups": GROUPS[:5]}, "sensitive_features: has 5 rows but X has 6"),
        ({"sample_weight": [1.0] * 5}, r"sample_weight: has shape \(5,\); must be \(6,\)"),
        ({"sample_weight": [1.0] * 5 + [-1.0]}, "sample_weight: 1 values are negative"),
        ({"sample_weight": [0.0] * 6}, "sample_weight: all 6 values are zero"),
        # Classes are counted among the rows that have a weight.
        ({"sample_weight": [1, 0, 1, 0, 1, 0]}, "y: has one class, 'no'"),
    ],
)
def test_errors_are_one_line_that_names_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        read(**arguments)


def test_a_continuous_attribute_is_refused():
    values = np.arange(40.0)
    with pytest.raises(ValueError, match="sensitive_features: 40 groups among 40 rows; cut a continuous attribute"):
        read(values[:, None], np.arange(40) % 2, values)
    assert len(read(values[:, None], np.arange(40) % 2, values % 13).groups) == 13  # a third of the rows
    assert len(read(values[:10, None], np.arange(10) % 2, values[:10]).groups) == 10  # ten are always allowed


def test_pandas_rows_in_another_order_are_refused():
    frame = pd.DataFrame(X, index=list("abcdef"))
    y = pd.Series(Y, index=frame.index)
    assert read(frame, y, pd.Series(GROUPS, index=frame.index)).y.tolist() == read().y.tolist()
    with pytest.raises(ValueError, match="y: has the row labels of X in another order"):
        read(frame, y.iloc[::-1])
    with pytest.raises(ValueError, match="sensitive_features: has the row labels of X in another order"):
        read(frame, y, pd.Series(GROUPS, index=frame.index[::-1]))
    with pytest.raises(ValueError, match="sample_weight: has the row labels of X in another order"):
        read(frame, y, sample_weight=pd.Series(np.ones(6), index=frame.index[::-1]))
