"""Violations against their definitions, fairlearn, and identities that must hold."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.metrics import gaps, group_confusion, violation
from tests.metrics.helpers import random_rows, rate
from tests.problems import CRITERIA


# -- definitions ---------------------------------------------------------------------------------------------
def largest_gap(y, h, a, w, criterion, reference):
    """Return max |gap| by the definitions of the criteria, from the rows."""
    classes, groups = range(h.shape[1]), sorted(set(a))
    pairs = itertools.combinations(groups, 2) if reference == "pairwise" else [(g, None) for g in groups]
    sizes = []
    for group, against in pairs:

        def gap(true_classes, outcome, sides=(group, against)):
            rates = [rate(y, h, a, w, side, true_classes, outcome) for side in sides]
            return abs(rates[0] - rates[1])

        for j in classes:
            if criterion == "dp":
                sizes.append(gap(None, j))
            elif criterion == "eop":
                sizes.append(gap([j], j))
            elif criterion == "eo":
                sizes += [gap([i], j) for i in classes]
            elif criterion == "meo":
                sizes.append((gap([j], j) + gap([i for i in classes if i != j], j)) / 2)
        if criterion == "oae":
            sizes.append(gap(None, None))
    return max(sizes)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize(("A", "m"), [(2, 2), (3, 2), (2, 4), (4, 3)])
def test_violation_is_the_definition(criterion, reference, A, m):
    y, label, h, a, w = random_rows(A * m, 120 * A, A, m)
    question = {"criterion": criterion, "reference": reference, "sensitive_features": a}
    onehot, ones = np.eye(m)[label], np.ones(len(y))
    assert violation(y, label, **question) == pytest.approx(
        largest_gap(y, onehot, a, ones, criterion, reference), abs=1e-12
    )
    assert violation(y, h, sample_weight=w, **question) == pytest.approx(
        largest_gap(y, h, a, w, criterion, reference), abs=1e-12
    )
    assert violation(y, label, sample_weight=w, **question) == pytest.approx(
        largest_gap(y, onehot, a, w, criterion, reference), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_fairlearn(seed, weighted):
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, label, _, a, w = random_rows(seed, 300, 2 + seed % 3, 2)
    weight = {"sample_weight": w} if weighted else {}
    for name, question in {
        "demographic_parity_difference": {"criterion": "dp"},
        "equalized_odds_difference": {"criterion": "eo"},
        "equal_opportunity_difference": {"criterion": "eop", "outcomes": [1]},
    }.items():
        expected = getattr(fairlearn, name)(y, label, sensitive_features=a, **weight)
        value = violation(y, label, sensitive_features=a, reference="pairwise", **question, **weight)
        assert value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo"])
def test_constants_and_coins_are_fair(criterion):
    y, _, _, a, w = random_rows(7)
    assert violation(y, np.full(len(y), 1), sensitive_features=a, criterion=criterion, sample_weight=w) < 1e-12
    coin = np.tile([0.2, 0.3, 0.5], (len(y), 1))
    assert violation(y, coin, sensitive_features=a, criterion=criterion, sample_weight=w) < 1e-12
    uniform = np.full((len(y), 3), 1 / 3)
    assert violation(y, uniform, sensitive_features=a, criterion="oae") < 1e-12


# -- questions -----------------------------------------------------------------------------------------------
def test_several_criteria_are_the_worst_of_each():
    y, label, _, a, _ = random_rows(8)
    values = [violation(y, label, sensitive_features=a, criterion=c) for c in ("dp", "eo")]
    assert violation(y, label, sensitive_features=a, criterion=["dp", "eo"]) == max(values)
    assert violation(y, label, sensitive_features=a, criterion=["dp", Constraint("eo", 0.3)]) == max(values)


def test_the_tolerance_of_a_constraint_is_irrelevant():
    y, label, _, a, _ = random_rows(9)
    expected = violation(y, label, sensitive_features=a, criterion="eo", reference="pairwise")
    assert violation(y, label, sensitive_features=a, criterion=Constraint("eo", 0.5, "pairwise")) == expected
    # The same holds for a tolerance of one group only, here of a group that is absent.
    partial = Constraint("eo", {"elsewhere": 0.1})
    assert violation(y, label, sensitive_features=a, criterion=partial) == violation(
        y, label, sensitive_features=a, criterion="eo"
    )


def test_no_reference_means_overall():
    y, label, _, a, _ = random_rows(9)
    plain, overall, pairwise = (
        violation(y, label, sensitive_features=a, **question)
        for question in ({}, {"reference": "overall"}, {"reference": "pairwise"})
    )
    assert plain == overall != pairwise


def test_marginal_groups_are_those_of_each_attribute():
    rng = np.random.default_rng(10)
    y, label, _, a, _ = random_rows(10)
    frame = pd.DataFrame({"sex": a, "age": rng.choice(["old", "young"], len(y))})
    marginals = [violation(y, label, sensitive_features=frame[c]) for c in frame]
    names = [f"{s}{g}" for s, g in zip(frame["sex"], frame["age"], strict=True)]
    intersections = violation(y, label, sensitive_features=names)
    assert violation(y, label, sensitive_features=frame) == pytest.approx(intersections)
    assert violation(y, label, sensitive_features=frame, attributes="marginals") == pytest.approx(max(marginals))
    assert violation(y, label, sensitive_features=frame, attributes=["age"]) == pytest.approx(marginals[1])
    largest = violation(y, label, sensitive_features=frame, attributes="both")
    assert largest == pytest.approx(max(*marginals, intersections))


def test_labels_of_any_kind_give_the_same_numbers():
    y, label, _, a, _ = random_rows(11, m=2)
    expected = gaps(y, label, sensitive_features=a, criterion="eo")
    for names in (np.array([-1, 1]), np.array(["no", "yes"]), np.array([False, True])):
        index = np.random.default_rng(0).permutation(len(y))
        table = gaps(
            pd.Series(names[y], index=index),
            list(names[label]),
            sensitive_features=pd.Series(np.array(["x", "y", "z"])[a], index=index),
            criterion="eo",
        )
        np.testing.assert_array_equal(table["value"], expected["value"])
        assert set(table["outcome"]) == set(names.tolist())


# -- small and invalid data ----------------------------------------------------------------------------------
@st.composite
def tiny_data(draw):
    """Draw (true classes, labels, groups, weights, criterion, whether the prediction is soft) of 1 to 9 rows."""
    n = draw(st.integers(1, 9))
    column = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    y, label, a = draw(column), draw(column), draw(column)
    w = draw(st.none() | st.lists(st.sampled_from([0.0, 1e-3, 1.0, 7.0]), min_size=n, max_size=n).filter(any))
    return y, label, a, w, draw(st.sampled_from(CRITERIA)), draw(st.booleans())


@given(tiny_data())
def test_tiny_data_get_a_number_or_one_line(case):
    y, label, a, w, criterion, soft = case
    prediction = 0.5 * np.eye(3)[label] + 0.5 / 3 if soft else label
    confusion = group_confusion(y, prediction, sensitive_features=a, sample_weight=w, classes=range(3))
    assert confusion.tensor.sum() == pytest.approx(1) and confusion.n_people.sum() <= len(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)
        confusion.group_rates()
        try:
            table = confusion.gaps(criterion)
        except ValueError as error:
            assert "none of its rows can be formed" in str(error)
            return
        assert np.isfinite(table[["value", "se"]].to_numpy(float)).all()
        assert table["value"].abs().max() <= 1 + 1e-9 and (table["n"] > 0).all()
        interval = confusion.violation_interval(criterion, n_replicates=20)
    assert 0 <= interval.lower <= interval.value + 1e-9 and interval.value <= interval.upper + 1e-9 <= 1 + 2e-9
    assert 0 <= interval.noise_floor <= 1 + 1e-9


Y, P, S = [0, 1, 1], [0, 1, 0], ["f", "m", "m"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prediction": [0, 1]}, "prediction: has 2 rows but y_true has 3"),
        ({"prediction": None}, "prediction: missing"),
        ({"sensitive_features": ["f", "m"]}, "sensitive_features: has 2 rows but y_true has 3"),
        ({"sensitive_features": ["f", None, "m"]}, "sensitive_features: 1 of 3 rows have a missing value"),
        ({"sensitive_features": None}, "sensitive_features: missing"),
        ({"y_true": [0, 1, None]}, "y_true: 1 of 3 rows are missing"),
        ({"prediction": [0.2, 0.7, 0.1]}, "prediction: 0.1 is not a class label"),
        ({"prediction": ["0", "1", "0"]}, "prediction: its labels, such as '0', are of another type"),
        ({"prediction": [0, 2, 1], "classes": [0, 1]}, r"prediction: 2 is not in classes=\[0, 1\]"),
        ({"classes": [0, 2]}, r"y_true: 1 is not in classes=\[0, 2\]"),
        ({"prediction": np.full((3, 3), 1 / 3)}, "prediction: has 3 columns for 2 classes"),
        ({"prediction": np.full((3, 2), 0.4)}, r"prediction: 3 rows are not probabilities \(row 0: sum 0.8"),
        ({"prediction": [[1.5, -0.5]] * 3}, r"3 rows are not probabilities .*least -0.5"),
        ({"prediction": [[np.nan, 1.0]] * 3}, "prediction: 3 rows hold NaN"),
        ({"prediction": [["a", "b"]] * 3}, "prediction: a 2-d prediction must hold probabilities"),
        (
            {"prediction": pd.DataFrame(np.full((3, 2), 0.5), columns=[1, 0])},
            "columns .* are not in the order",
        ),
        ({"prediction": np.zeros((3, 2, 2))}, r"prediction: has shape \(3, 2, 2\); must be 1-d"),
        ({"sample_weight": [1, 1, -1]}, "sample_weight: 1 values are negative"),
        ({"criterion": "fairness"}, "criterion='fairness': unknown"),
        ({"criterion": Ratio("dp")}, "criterion: Ratio is not a gap between groups"),
        ({"criterion": ["dp", MinimumRate("recall", 0.5)]}, "criterion: MinimumRate is not a gap"),
        ({"criterion": Rows(np.ones((1, 8)), upper=1)}, "criterion: Rows is not a gap"),
        ({"criterion": Constraint("dp"), "reference": "pairwise"}, "reference: already set"),
        ({"reference": "worst"}, "reference='worst': must be one of"),
        ({"outcomes": [5]}, "outcomes=.*5 is not a class"),
        ({"attributes": "marginals"}, "attributes='marginals': there is one attribute"),
        ({"sensitive_features": ["f"] * 3, "reference": "pairwise"}, "needs at least two groups"),
    ],
)
def test_errors_are_one_line_that_names_the_argument(change, message):
    arguments = {"y_true": Y, "prediction": P, "sensitive_features": S, **change}
    with pytest.raises(ValueError, match=message) as error:
        violation(arguments.pop("y_true"), arguments.pop("prediction"), **arguments)
    assert "\n" not in str(error.value)
