"""Labels keep their names and types; invalid ones are refused in one line."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair.inputs.labels import (
    MISSING,
    check_names,
    check_weights,
    encode_classes,
    encode_groups,
    match_groups,
    mean_one_weights,
    name_index,
)


@pytest.mark.parametrize(
    "values",
    [
        ["b", "a", "b"],
        [3, 1, 3],
        [True, False, True],
        [-1, 1, 1],
        np.array(["b", "a", "b"]),
        np.array([3, 1, 3]),
        np.array([2.0, 1.0, 2.0]),
        pd.Series(["b", "a", "b"], index=[7, 5, 6]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series([3, 1, 3], dtype="Int64"),
        pd.Index([3, 1, 3]),
        (3, 1, 3),
    ],
)
@pytest.mark.parametrize("encode", [encode_groups, encode_classes])
def test_decoding_returns_the_values_with_plain_types(values, encode):
    codes, index = encode(values)
    decoded = [index[c] for c in codes]
    assert decoded == list(values)
    assert not any(isinstance(label, np.generic) for label in index.tolist())
    assert index.tolist() == sorted(set(values))


@given(st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=2)), min_size=1, max_size=12))
def test_values_of_mixed_types_keep_their_types(values):
    codes, index = encode_groups(values)
    assert [index.tolist()[c] for c in codes] == values
    assert len(set(index)) == len(index)


def test_labels_without_an_order_stay_in_the_order_of_the_rows():
    assert encode_groups(["x", 1, "x", 0])[1].tolist() == ["x", 1, 0]


def test_a_frame_gives_the_observed_combinations_and_keeps_the_names():
    frame = pd.DataFrame({"sex": ["M", "F", "M", "F"], "age": [2, 1, 2, 2]}, index=[3, 1, 0, 9])
    codes, index = encode_groups(frame, 4)
    assert index.names == ["sex", "age"]
    assert index.tolist() == [("F", 1), ("F", 2), ("M", 2)]  # there is no row (M, 1)
    assert codes.tolist() == [2, 0, 2, 1]


@pytest.mark.parametrize("values", [[["M", 2], ["F", 1]], np.array([["M", 2], ["F", 1]], dtype=object)])
def test_two_dimensional_arrays_are_several_attributes(values):
    codes, index = encode_groups(values)
    assert codes.tolist() == [1, 0] and index.tolist() == [("F", 1), ("M", 2)]


def test_one_column_is_one_attribute():
    codes, index = encode_groups(pd.DataFrame({"sex": ["M", "F"]}))
    assert not isinstance(index, pd.MultiIndex) and index.tolist() == ["F", "M"] and index.name == "sex"
    assert codes.tolist() == encode_groups(np.array([["M"], ["F"]]))[0].tolist() == [1, 0]


def test_a_multiindex_is_several_attributes():
    index = pd.MultiIndex.from_tuples([("M", 1), ("F", 2)], names=["sex", "age"])
    assert encode_groups(index)[1].names == ["sex", "age"]


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, "b", np.nan],
        [1.0, np.nan, 2.0, np.nan],
        [1, None, 2, None],
        pd.to_datetime(["2020-01-01", None, "2021-01-01", None]),
        pd.Series(["a", pd.NA, "b", None], dtype="string"),
    ],
)
def test_missing_groups_are_an_error_or_a_group(values):
    with pytest.raises(ValueError, match="sensitive_features: 2 of 4 rows have a missing value; drop"):
        encode_groups(values)
    codes, index = encode_groups(values, missing="group")
    assert codes.tolist() == [0, 2, 1, 2] and index[2] == MISSING


def test_missing_in_one_of_several_attributes():
    frame = pd.DataFrame({"sex": ["M", None, "F"], "age": [1, 1, 2]})
    with pytest.raises(ValueError, match="1 of 3 rows"):
        encode_groups(frame)
    assert encode_groups(frame, missing="group")[1].tolist() == [("F", 2), ("M", 1), (MISSING, 1)]


def test_missing_does_not_join_a_group_that_already_has_its_name():
    with pytest.raises(ValueError, match=r"^sensitive_features: has a group named '\(missing\)' beside missing values"):
        encode_groups(["a", None, MISSING], missing="group")
    assert encode_groups(["a", MISSING], missing="group")[1].tolist() == [MISSING, "a"]


SEX_AND_COLOUR = pd.MultiIndex.from_tuples([("F", 0), ("M", 0), ("M", 1)], names=["sex", "colour"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode_groups([1, 2], 3), "sensitive_features: has 2 rows, the data has 3"),
        (lambda: encode_groups(None), "sensitive_features: missing"),
        (lambda: encode_groups(np.zeros((2, 2, 2))), "sensitive_features: has 3 dimensions; must be 1-d"),
        (lambda: encode_groups(pd.DataFrame(index=[0, 1])), "sensitive_features: has no columns"),
        (lambda: encode_groups([1], missing="drop"), "missing='drop': must be one of 'error', 'group'"),
        (lambda: encode_groups([{}, {}]), "sensitive_features: holds values that cannot be labels"),
        (lambda: encode_groups([[1], [1, 2]]), "sensitive_features: holds values that cannot be labels"),
        (lambda: encode_classes(None), "y_true: missing"),
        (lambda: encode_classes([]), "y_true: has no rows"),
        (lambda: encode_classes([0, None, 1]), "y_true: 1 of 3 rows are missing"),
        (lambda: encode_classes([0.5, 1.0]), "y_true: 0.5 is not a class label"),
        (lambda: encode_classes(np.array([0, np.inf])), "y_true: inf is not a class label"),
        (lambda: encode_classes(np.zeros((2, 2))), r"y_true: has shape \(2, 2\); must be 1-d"),
        (lambda: encode_classes(pd.DataFrame({"y": [0, 1]})), r"y_true: has shape \(2, 1\); must be 1-d"),
        (lambda: encode_classes([0, 2], classes=[0, 1]), r"y_true: 2 is not in classes=\[0, 1\]"),
        (lambda: encode_classes([0], classes=[0, 0]), r"classes: holds a name twice, 0, among 2"),
        (lambda: name_index([], "groups"), r"groups=\[\]: is empty"),
        (lambda: name_index("ab", "classes"), "classes='ab': must be a list of names"),
        (lambda: check_weights([1.0], 2), r"sample_weight: has shape \(1,\); must be \(2,\)"),
        (lambda: check_weights([[1.0, 2.0]], 2), r"sample_weight: has shape \(1, 2\)"),
        (lambda: check_weights([1.0, np.nan], 2), "sample_weight: 1 values are NaN or infinite"),
        (lambda: check_weights([1.0, -2.0], 2), r"sample_weight: 1 values are negative \(the least is -2\)"),
        (lambda: check_weights([0, 0], 2), "sample_weight: all 2 values are zero"),
        (lambda: check_weights(["a", "b"], 2), "sample_weight: must be numbers"),
        (lambda: check_weights([1 + 2j, 1], 2), "sample_weight: holds complex numbers"),
        (lambda: check_names(["a"], 2, "groups"), "groups: 1 names given, but Z has 2 of them"),
        (lambda: check_names(["a", None], 2, "groups"), "groups: a name is missing"),
        (lambda: check_names(["a", "a"], 2, "groups"), "groups: holds a name twice, 'a', among 2"),
        (lambda: match_groups(["x"], pd.Index(["a"]), 1), "sensitive_features: 'x' is not in the groups seen in fit: "),
        (
            lambda: match_groups(pd.DataFrame({"sex": ["M"], "age": [1]}), SEX_AND_COLOUR, 1),
            r"sensitive_features: has the columns \['sex', 'age'\]; fit had \['sex', 'colour'\]",
        ),
    ],
)
def test_one_line_says_the_argument_the_value_and_the_rule(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_list_of_classes_sets_the_order_and_may_hold_absent_ones():
    codes, index = encode_classes(["a", "c"], classes=["c", "b", "a"])
    assert codes.tolist() == [2, 0] and index.tolist() == ["c", "b", "a"]
    # 1, 1.0 and True are one label.
    assert encode_classes([True, False], classes=[0, 1])[0].tolist() == [1, 0]
    assert encode_classes([1.0, 0.0], classes=[0, 1])[0].tolist() == [1, 0]


def test_weights_pass_through():
    assert check_weights(None, 3) is None
    assert check_weights(pd.Series([0, 1, 2]), 3).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("scale", [1, 4e307, 1e-310])
def test_weights_of_mean_one(scale):
    """Check the mean also where the sum of the weights overflows or is subnormal."""
    np.testing.assert_allclose(mean_one_weights(np.array([0, 1, 3, 4.0]) * scale, 4), [0, 0.5, 1.5, 2])
    assert mean_one_weights(None, 4) is None


def test_names_are_an_index_and_numbers_by_default():
    assert check_names(None, 3, "groups").tolist() == [0, 1, 2]
    assert check_names(["b", "a"], 2, "groups").tolist() == ["b", "a"]
    assert check_names([("a", 1), ("a", 2)], 2, "classes").nlevels == 1


def test_groups_are_matched_with_those_of_fit():
    groups = pd.Index(["b", "a"])
    assert match_groups(["a", "b", "a"], groups, 3).tolist() == [1, 0, 1]
    assert match_groups(["a", "x", "b"], groups, 3, unseen="blind").tolist() == [1, -1, 0]
    # Columns are matched by name; arrays have none and keep their order.
    columns = pd.DataFrame({"colour": [1, 0], "sex": ["M", "F"]})
    assert match_groups(columns, SEX_AND_COLOUR, 2).tolist() == [2, 0]
    assert match_groups([["M", 1], ["F", 1]], SEX_AND_COLOUR, 2, unseen="blind").tolist() == [2, -1]


# -- new rows --------------------------------------------------------------------------------------------------
def test_an_empty_text_is_missing_where_missing_ones_are_a_group_unless_it_is_one_itself():
    _, groups = encode_groups(["a", None, "b"], missing="group")
    values = ["a", "", None, np.nan, pd.NA]
    for unseen in ("error", "blind"):
        codes = match_groups(values, groups, 5, missing="group", unseen=unseen)
        assert groups[codes].tolist() == ["a", *[MISSING] * 4]
    _, groups = encode_groups(["a", None, ""], missing="group")
    assert groups[match_groups(["", None], groups, 2, missing="group")].tolist() == ["", MISSING]
    _, groups = encode_groups([["a", 1], ["a", None], [None, 1]], missing="group")
    codes = match_groups([["a", ""], ["", 1], ["", ""]], groups, 3, missing="group", unseen="blind")
    assert codes.tolist() == [groups.tolist().index(("a", MISSING)), groups.tolist().index((MISSING, 1)), -1]
    _, groups = encode_groups(["a", "b"])
    assert match_groups(["", "a"], groups, 2, unseen="blind").tolist() == [-1, 0]  # another group


@pytest.mark.parametrize("unseen", ["error", "blind"])
def test_a_group_has_all_attributes(unseen):
    _, pairs = encode_groups([["a", 1], ["b", 2]])
    _, singles = encode_groups(["a", "b"])
    for groups, value in ((pairs, "a"), (pairs, ["a"]), (pairs, ["a", 1, 2]), (singles, ["a", 1])):
        with pytest.raises(ValueError, match=r"^sensitive_features: .*the groups seen in fit: \["):
            match_groups([value], groups, 1, unseen=unseen)
    with pytest.raises(ValueError, match=r"^sensitive_features: 'a' has another number of attributes than the groups"):
        match_groups(["a"], pairs, 1, unseen="blind")
    assert match_groups([["a"]], singles, 1, unseen=unseen).tolist() == [0]
