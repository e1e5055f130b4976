"""Gaps and rates against loops over rows, fairlearn, and identities that must hold."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.errors import OptFairWarning
from optfair.metrics import gaps, group_confusion, group_rates, violation

CRITERIA = ("dp", "eop", "eo", "meo", "oae")


def sample(seed, n=200, A=3, m=3):
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, A, n), rng.integers(0, m, n)
    label = np.where(rng.random(n) < 0.3 + 0.2 * (a == 0), y, rng.integers(0, m, n))
    return y, label, rng.dirichlet(np.ones(m), n), a, rng.random(n) * rng.integers(0, 2, n)


def rate(y, h, a, w, group, given, hit):
    """Σ w h[hit] / Σ w over the rows of a group (None: all) with a true class in `given`, row by row."""
    top = bottom = 0.0
    for k in range(len(y)):
        if (group is None or a[k] == group) and y[k] in given:
            bottom += w[k]
            top += w[k] * sum(h[k][j] for j in hit(y[k]))
    return top / bottom


def naive(y, h, a, w, criterion, reference):
    """max |gap| by the definitions of the criteria, row by row."""
    classes, groups = range(h.shape[1]), sorted(set(a))
    pairs = itertools.combinations(groups, 2) if reference == "pairwise" else [(g, None) for g in groups]
    worst = 0.0
    for one, other in pairs:

        def gap(given, hit, one=one, other=other):
            return rate(y, h, a, w, one, given, hit) - rate(y, h, a, w, other, given, hit)

        for j in classes:
            tpr = gap([j], lambda _, j=j: [j])
            fpr = gap([i for i in classes if i != j], lambda _, j=j: [j])
            worst = max(
                worst,
                {
                    "dp": abs(gap(classes, lambda _, j=j: [j])),
                    "eop": abs(tpr),
                    "eo": max(abs(gap([i], lambda _, j=j: [j])) for i in classes),
                    "meo": (abs(tpr) + abs(fpr)) / 2,
                    "oae": abs(gap(classes, lambda i: [i])),
                }[criterion],
            )
    return worst


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize(("A", "m"), [(2, 2), (3, 2), (2, 4), (4, 3)])
def test_violation_is_the_definition(criterion, reference, A, m):
    y, label, h, a, w = sample(A * m, 120 * A, A, m)
    question = {"criterion": criterion, "reference": reference, "sensitive_features": a}
    one = np.ones(len(y))
    assert violation(y, label, **question) == pytest.approx(
        naive(y, np.eye(m)[label], a, one, criterion, reference), abs=1e-12
    )
    assert violation(y, h, sample_weight=w, **question) == pytest.approx(
        naive(y, h, a, w, criterion, reference), abs=1e-12
    )
    assert violation(y, label, sample_weight=w, **question) == pytest.approx(
        naive(y, np.eye(m)[label], a, w, criterion, reference), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_fairlearn(seed, weighted):
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, label, _, a, w = sample(seed, 300, 2 + seed % 3, 2)
    weight = {"sample_weight": w} if weighted else {}
    for name, question in {
        "demographic_parity_difference": {"criterion": "dp"},
        "equalized_odds_difference": {"criterion": "eo"},
        "equal_opportunity_difference": {"criterion": "eop", "outcomes": [1]},
    }.items():
        theirs = getattr(fairlearn, name)(y, label, sensitive_features=a, **weight)
        ours = violation(y, label, sensitive_features=a, reference="pairwise", **question, **weight)
        assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_hot_probabilities_are_labels(criterion):
    y, label, _, a, w = sample(1)
    for weight in (None, w):
        hard = group_confusion(y, label, sensitive_features=a, sample_weight=weight)
        soft = group_confusion(y, np.eye(3)[label], sensitive_features=a, sample_weight=weight)
        pd.testing.assert_frame_equal(hard.gaps(criterion), soft.gaps(criterion))
        assert hard.hard == soft.hard == (weight is None)


def test_soft_moments_of_nearly_one_hot_rows_are_those_of_labels():
    y, label, _, a, w = sample(2)
    nearly = (1 - 1e-9) * np.eye(3)[label] + 1e-9 / 3
    hard = group_confusion(y, label, sensitive_features=a, sample_weight=w)
    soft = group_confusion(y, nearly, sensitive_features=a, sample_weight=w)
    assert soft.second_moment.shape == (3, 3, 3, 3)
    np.testing.assert_allclose(soft.moments, hard.moments, atol=1e-8)


def test_weight_two_is_the_row_twice_for_values_but_not_for_errors():
    y, label, _, a, _ = sample(3)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = gaps(y, label, sensitive_features=a, criterion="eo", sample_weight=times)
    repeated = gaps(*(np.repeat(x, times) for x in (y, label)), sensitive_features=np.repeat(a, times), criterion="eo")
    np.testing.assert_allclose(weighted["value"], repeated["value"], atol=1e-12)
    # A weight says how much one person counts; copies claim to be that many independent people.
    assert (weighted["se"] > repeated["se"]).all()
    # Multiplying all the weights says nothing at all; repeating all the rows k times claims √k less error.
    plain = gaps(y, label, sensitive_features=a, criterion="eo")
    tripled = gaps(y, label, sensitive_features=a, criterion="eo", sample_weight=np.full(len(y), 3.0))
    pd.testing.assert_frame_equal(plain, tripled)
    thrice = gaps(*(np.tile(x, 3) for x in (y, label)), sensitive_features=np.tile(a, 3), criterion="eo")
    np.testing.assert_allclose(thrice["se"] * np.sqrt(3), plain["se"], atol=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_zero_weights_are_absent_rows(criterion):
    y, _, h, a, w = sample(4)
    keep = w > 0
    pd.testing.assert_frame_equal(
        gaps(y, h, sensitive_features=a, criterion=criterion, sample_weight=w),
        gaps(y[keep], h[keep], sensitive_features=a[keep], criterion=criterion, sample_weight=w[keep]),
    )


@pytest.mark.parametrize("criterion", CRITERIA)
def test_order_of_rows_classes_and_groups_does_not_matter(criterion):
    y, _, h, a, w = sample(5)
    base = gaps(y, h, sensitive_features=a, criterion=criterion, sample_weight=w)
    shuffle = np.random.default_rng(0).permutation(len(y))
    mixed = gaps(y[shuffle], h[shuffle], sensitive_features=a[shuffle], criterion=criterion, sample_weight=w[shuffle])
    pd.testing.assert_frame_equal(base, mixed)
    new = np.array([2, 0, 1])
    renamed = gaps(
        new[y],
        h[:, np.argsort(new)],
        sensitive_features=new[a],
        criterion=criterion,
        sample_weight=w,
        classes=range(3),
    )
    for column in ("group", "given", "outcome"):
        base[column] = [new[x] if isinstance(x, int) else x for x in base[column]]
    key = ["group", "given", "outcome"]
    base, renamed = (
        t.assign(**{k: t[k].astype(str) for k in key}).sort_values(key, ignore_index=True) for t in (base, renamed)
    )
    pd.testing.assert_frame_equal(base[[*key, "value", "n", "se"]], renamed[[*key, "value", "n", "se"]])


def test_mean_equalized_odds_is_the_mean_of_the_two_absolute_differences():
    y, label, _, a, _ = sample(6, m=4)
    table = gaps(y, label, sensitive_features=a, criterion="meo")
    for (group, j), rows in table.groupby(["group", "outcome"]):
        tpr, fpr = (np.mean(label[(a == group) & side] == j) - np.mean(label[side] == j) for side in (y == j, y != j))
        assert rows["value"].abs().max() == pytest.approx((abs(tpr) + abs(fpr)) / 2)


@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo"])
def test_constants_and_coins_are_fair(criterion):
    y, _, _, a, w = sample(7)
    assert violation(y, np.full(len(y), 1), sensitive_features=a, criterion=criterion, sample_weight=w) < 1e-12
    coin = np.tile([0.2, 0.3, 0.5], (len(y), 1))
    assert violation(y, coin, sensitive_features=a, criterion=criterion, sample_weight=w) < 1e-12
    uniform = np.full((len(y), 3), 1 / 3)
    assert violation(y, uniform, sensitive_features=a, criterion="oae") < 1e-12


def test_several_criteria_are_the_worst_of_each():
    y, label, _, a, _ = sample(8)
    each = [violation(y, label, sensitive_features=a, criterion=c) for c in ("dp", "eo")]
    assert violation(y, label, sensitive_features=a, criterion=["dp", "eo"]) == max(each)
    assert violation(y, label, sensitive_features=a, criterion=["dp", Constraint("eo", 0.3)]) == max(each)


def test_the_tolerance_of_a_constraint_is_irrelevant():
    y, label, _, a, _ = sample(9)
    expected = violation(y, label, sensitive_features=a, criterion="eo", reference="pairwise")
    assert violation(y, label, sensitive_features=a, criterion=Constraint("eo", 0.5, "pairwise")) == expected
    # ... also when it speaks of one group only, or of one that is not here
    only = Constraint("eo", {"elsewhere": 0.1})
    assert violation(y, label, sensitive_features=a, criterion=only) == violation(
        y, label, sensitive_features=a, criterion="eo"
    )


def test_marginal_groups_are_each_attribute_alone():
    rng = np.random.default_rng(10)
    y, label, _, a, _ = sample(10)
    frame = pd.DataFrame({"sex": a, "age": rng.choice(["old", "young"], len(y))})
    alone = [violation(y, label, sensitive_features=frame[c]) for c in frame]
    cells = violation(y, label, sensitive_features=[f"{s}{g}" for s, g in zip(frame["sex"], frame["age"], strict=True)])
    assert violation(y, label, sensitive_features=frame) == pytest.approx(cells)
    assert violation(y, label, sensitive_features=frame, attributes="marginals") == pytest.approx(max(alone))
    assert violation(y, label, sensitive_features=frame, attributes=["age"]) == pytest.approx(alone[1])
    both = violation(y, label, sensitive_features=frame, attributes="both")
    assert both == pytest.approx(max(*alone, cells))


def test_labels_of_any_kind_give_the_same_numbers():
    y, label, _, a, _ = sample(11, m=2)
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


def test_group_rates_are_frequencies():
    y, label, _, a, w = sample(12)
    table = group_rates(y, label, sensitive_features=a, sample_weight=w)
    assert list(table.columns) == ["rate", "group", "given", "outcome", "value", "n"]
    assert len(table) == 4 * (3 + 9 + 1)
    for row in table.itertuples():
        rows = np.ones(len(y), bool) if row.group == "overall" else a == row.group
        rows = rows if row.given is None else rows & (y == row.given)
        hit = label == (y if row.rate == "accuracy" else row.outcome)
        assert row.value == pytest.approx(np.average(hit[rows], weights=w[rows]))
        assert row.n == np.sum(rows & (w > 0))


def test_the_frame_of_the_confusion_is_the_tensor():
    y, label, _, a, _ = sample(13)
    confusion = group_confusion(y, label, sensitive_features=a)
    assert confusion.tensor.sum() == pytest.approx(1)
    for row in confusion.to_frame().itertuples():
        cell = (a == row.group) & (y == row.given)
        assert row.share == pytest.approx(np.mean(cell & (label == row.outcome)))
        assert row.n == cell.sum()


def test_tuples_can_name_groups_in_every_table():
    y, label, _, a, _ = sample(14)
    confusion = group_confusion(y, label, sensitive_features=pd.DataFrame({"a": a, "b": a % 2}))
    assert confusion.to_frame()["group"][0] == (0, 0)
    assert confusion.gaps("dp")["group"][0] == (0, 0)
    assert set(confusion.group_rates()["group"]) == {(0, 0), (1, 1), (2, 0), "overall"}


def test_given_groups_fix_the_order_and_may_be_empty():
    y, label, _, a, _ = sample(15)
    confusion = group_confusion(y, label, sensitive_features=a, groups=[2, 7, 1, 0])
    assert confusion.groups.tolist() == [2, 7, 1, 0] and confusion.n_people[1].sum() == 0
    with pytest.warns(OptFairWarning, match=r"3 rows cannot be formed.*group 7 against overall, outcome 0"):
        assert confusion.violation("dp") == violation(y, label, sensitive_features=a)
    with pytest.warns(OptFairWarning, match=r"5 rows cannot be formed.*conditional of 7 given 2"):
        assert 7 not in set(confusion.group_rates()["group"])


def test_empty_cells_are_named_in_one_warning():
    y, label, a = [0, 1, 0, 0], [0, 1, 1, 0], ["f", "f", "m", "m"]
    with pytest.warns(OptFairWarning) as caught:
        table = gaps(y, label, sensitive_features=a, criterion="eo")
    assert len(caught) == 1 and "2 rows cannot be formed" in str(caught[0].message)
    assert "eo: group 'm' against overall, given 1, outcome 0" in str(caught[0].message)
    assert len(table) == 6
    # the overall rate keeps the mass of everyone
    assert table["value"].abs().max() == pytest.approx(1 / 3)


def test_n_is_the_people_behind_the_smaller_side():
    y, label, _, a, _ = sample(16)
    for row in gaps(y, label, sensitive_features=a, criterion="eo", reference="pairwise").itertuples():
        assert row.n == min(np.sum((a == g) & (y == row.given)) for g in (row.group, row.against))
    for row in gaps(y, label, sensitive_features=a, criterion="dp").itertuples():
        assert row.n == np.sum(a == row.group)


@pytest.mark.parametrize("kind", ["labels", "weighted", "soft"])
def test_standard_errors_are_the_spread_over_data_sets(kind):
    runs, n, values, errors = 300, 1500, [], []
    rng = np.random.default_rng(17)
    for _ in range(runs):
        a, y = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(0, 3, n)
        logits = rng.standard_normal((n, 3)) + 1.5 * np.eye(3)[y] + 0.8 * np.eye(3)[a]
        h = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        # weights that depend on the prediction, so that the pairing of w and h matters
        w = rng.exponential(1 + h[:, 0]) if kind == "weighted" else None
        prediction = h if kind == "soft" else h.argmax(1)
        confusion = group_confusion(y, prediction, sensitive_features=a, sample_weight=w, classes=range(3))
        table = confusion.gaps(CRITERIA)
        values.append(table["value"])
        errors.append(table["se"])
    spread, claimed = np.std(values, axis=0), np.mean(errors, axis=0)
    # A standard deviation over 300 runs is known to 4 %; the delta method is first order.
    np.testing.assert_allclose(claimed, spread, rtol=0.16)


@st.composite
def nasty(draw):
    n = draw(st.integers(1, 9))
    column = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    y, label, a = draw(column), draw(column), draw(column)
    w = draw(st.none() | st.lists(st.sampled_from([0.0, 1e-3, 1.0, 7.0]), min_size=n, max_size=n).filter(any))
    return y, label, a, w, draw(st.sampled_from(CRITERIA)), draw(st.booleans())


@given(nasty())
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
        ({"criterion": Constraint("dp"), "reference": "pairwise"}, "reference: already said"),
        ({"reference": "worst"}, "reference='worst': must be one of"),
        ({"outcomes": [5]}, "outcomes=.*5 is not a class"),
        ({"attributes": "marginals"}, "attributes='marginals': needs"),
        ({"sensitive_features": ["f"] * 3, "reference": "pairwise"}, "needs at least two groups"),
    ],
)
def test_errors_are_one_line_that_names_the_argument(change, message):
    arguments = {"y_true": Y, "prediction": P, "sensitive_features": S, **change}
    with pytest.raises(ValueError, match=message) as caught:
        violation(arguments.pop("y_true"), arguments.pop("prediction"), **arguments)
    assert "\n" not in str(caught.value)


def test_groups_not_listed_are_an_error():
    with pytest.raises(ValueError, match=r"sensitive_features: 'm' is not in groups=\['f'\]"):
        group_confusion(Y, P, sensitive_features=S, groups=["f"])


def test_shuffled_pandas_rows_are_an_error():
    y = pd.Series(Y)
    with pytest.raises(ValueError, match="prediction: has the row labels of y_true in another order"):
        violation(y, y.iloc[::-1], sensitive_features=S)


def test_inputs_are_not_changed():
    y, label, h, a, w = sample(18)
    before = [x.copy() for x in (y, label, h, a, w)]
    group_confusion(y, h, sensitive_features=a, sample_weight=w).violation_interval("eo", n_replicates=20)
    for x, old in zip((y, label, h, a, w), before, strict=True):
        np.testing.assert_array_equal(x, old)
