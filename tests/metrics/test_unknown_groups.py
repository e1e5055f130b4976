"""Check bounds over unknown groups: every assignment tried, limits of models of refusal, and the words."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, OptFairWarning, Ratio, Rows
from optfair.constraints import as_constraints
from optfair.metrics import UnknownGroupBounds, group_confusion, unknown_group_bounds
from optfair.metrics.constraint_table import measure_constraints
from optfair.metrics.partial_counts import add_unknown
from optfair.metrics.unknown_groups import bound_unknown
from tests.metrics.unknown_helpers import (
    EVERY_KIND,
    GAPS,
    WAYS,
    draw,
    extremes_by_trying,
    fill,
    hide,
    row_values,
    table_keys,
    tensor,
)

A, M = 3, 2


def some_unknown(seed, n=45, n_missing=4):
    """Return (y, answers, groups, which are missing)."""
    y, answer, group = draw(seed, n, A, M)
    missing = np.zeros(n, dtype=bool)
    missing[np.random.default_rng(seed + 100).choice(n, n_missing, replace=False)] = True
    return y, answer, group, missing


def measured(y, answer, group, missing, constraint, **options):
    return unknown_group_bounds(y, answer, sensitive_features=hide(group, missing), criterion=constraint, **options)


# -- sharpness -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("constraint", EVERY_KIND, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_some_assignment_attains_the_bounds_and_none_is_beyond(constraint, seed, is_weighted):
    y, answer, group, missing = some_unknown(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 3, len(y)) if is_weighted else None
    table = measured(y, answer, group, missing, constraint, sample_weight=weight).table
    truth = extremes_by_trying(constraint, y, answer, fill(group, missing, A), A, M, weight)
    assert len(table) == len(truth)
    for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
        assert (least, most) == pytest.approx(truth[key], abs=1e-12)


def test_bounds_without_labels():
    y, answer, group, missing = some_unknown(2)
    table = measured(None, answer, group, missing, Constraint("dp", 0.1)).table
    labelled = measured(y, answer, group, missing, Constraint("dp", 0.1)).table
    for column in ("least", "most", "value", "low", "high"):
        np.testing.assert_allclose(table[column], labelled[column], atol=1e-12)


def test_probabilities_are_within_the_bounds():
    y, _, group, missing = some_unknown(3)
    h = np.random.default_rng(0).dirichlet(np.ones(M), len(y))
    for constraint in EVERY_KIND:
        table = measured(y, h, group, missing, constraint).table
        truth = extremes_by_trying(constraint, y, h, fill(group, missing, A), A, M)
        for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
            assert least <= truth[key][0] + 1e-12 and truth[key][1] <= most + 1e-12


def test_hard_probabilities_are_labels():
    y, answer, group, missing = some_unknown(3)
    one, other = (measured(y, h, group, missing, "eo").table for h in (answer, np.eye(M)[answer]))
    pd.testing.assert_frame_equal(one, other)


# -- several attributes --------------------------------------------------------------------------------------
PAIRS = [(s, o) for s in range(2) for o in range(3)]  # (sex, age); groups in this order


def two_attributes(seed, n=150):
    """Return (y, answer, frame of sex and age with gaps, completions of the codes of PAIRS)."""
    y, answer, code = draw(seed, n, len(PAIRS), M)
    rng = np.random.default_rng(seed + 7)
    values = np.array(PAIRS)[code].astype(object)
    for row, columns in zip(rng.choice(n, 5, replace=False), ([0], [1], [0], [1], [0, 1]), strict=True):
        values[row, columns] = None
    frame = pd.DataFrame(values, columns=["sex", "age"])
    fits = [
        [k for k, pair in enumerate(PAIRS) if all(v is None or v == x for v, x in zip(row, pair, strict=True))]
        for row in values
    ]
    return y, answer, frame, [np.array(choice) for choice in itertools.product(*fits)]


SETS = {
    "intersections": {pair: [k] for k, pair in enumerate(PAIRS)},
    "sex": {(s, "*"): [k for k, pair in enumerate(PAIRS) if pair[0] == s] for s in range(2)},
    "age": {("*", o): [k for k, pair in enumerate(PAIRS) if pair[1] == o] for o in range(3)},
}


@pytest.mark.parametrize("attributes", [["sex"], ["age"], "intersections", "both"], ids=str)
@pytest.mark.parametrize("constraint", GAPS, ids=lambda c: f"{c.criterion} {c.reference}")
def test_whoever_misses_one_attribute_still_tells_the_others(attributes, constraint):
    y, answer, frame, completions = two_attributes(4)
    asked = Constraint(constraint.criterion, 0.1, constraint.reference, attributes=attributes)
    families = ["intersections", "sex", "age"] if attributes == "both" else np.ravel(attributes).tolist()
    truth = {}
    for family in families:
        truth |= extremes_by_trying(constraint, y, answer, completions, len(PAIRS), M, sets=SETS[family])
    table = unknown_group_bounds(y, answer, sensitive_features=frame, criterion=asked).table
    assert len(table) == len(truth)
    for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
        assert (least, most) == pytest.approx(truth[key], abs=1e-12)


def test_the_value_of_an_attribute_is_that_of_whoever_told_it():
    y, answer, frame, _ = two_attributes(5)
    table = unknown_group_bounds(
        y, answer, sensitive_features=frame, criterion="eo", attributes=["sex", "age"], tolerance=0.1
    ).table
    for name in ("sex", "age"):
        rows = frame[name].notna().to_numpy()
        counts = group_confusion(y[rows], answer[rows], sensitive_features=frame[name][rows])
        alone = counts.gaps("eo")
        part = table[[group[name == "age"] != "*" for group in table["group"]]]
        np.testing.assert_allclose(part["value"], alone["value"], atol=1e-12)
        assert part["n"].tolist() == alone["n"].tolist()


def test_a_value_that_only_incomplete_rows_have_rules_no_group_out():
    """Whoever told a sex that nobody with a known age has may be anyone."""
    sex, age = [0, 0, 1, 1, 2], [0, 1, 0, 1, None]
    frame = pd.DataFrame({"sex": sex, "age": age}, dtype=object)
    plain = pd.DataFrame({"sex": [0, 0, 1, 1, None], "age": age}, dtype=object)
    one, other = (
        unknown_group_bounds(None, [0, 1, 0, 0, 1], sensitive_features=f, attributes="both", tolerance=0.1).table
        for f in (frame, plain)
    )
    pd.testing.assert_frame_equal(one, other)


def test_one_attribute_may_come_as_a_frame():
    y, answer, group, missing = some_unknown(6)
    values = hide(group, missing)
    one = unknown_group_bounds(y, answer, sensitive_features=values)
    other = unknown_group_bounds(y, answer, sensitive_features=pd.DataFrame({"g": values}))
    pd.testing.assert_frame_equal(one.table, other.table)


# -- what is likely, and refusal -----------------------------------------------------------------------------
def test_unknown_people_are_shared_out_as_those_of_the_same_class_and_answer():
    y, answer, group, missing = some_unknown(7, 200, 80)
    J = tensor(y[~missing], answer[~missing], group[~missing], A, M) * (~missing).sum()
    for i, j in itertools.product(range(M), range(M)):
        J[:, i, j] *= 1 + (missing & (y == i) & (answer == j)).sum() / J[:, i, j].sum()
    for constraint in EVERY_KIND:
        bounds = measured(y, answer, group, missing, constraint, refusal=1)
        truth = row_values(constraint, J / len(y))
        for key, inferred in zip(table_keys(bounds.table), bounds.table["inferred"], strict=True):
            assert inferred == pytest.approx(truth[key], abs=1e-12)
        np.testing.assert_allclose(bounds.table[["least", "most"]].T, [bounds.table["inferred"]] * 2, atol=1e-12)


def test_where_nobody_of_the_cell_is_known_the_class_is_asked_and_then_everybody():
    group = np.array(["A", "A", "A", "B", None, None], dtype=object)
    y, answer = [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1]
    table = unknown_group_bounds(y, answer, sensitive_features=group, tolerance=0.5, outcomes=[1]).table
    np.testing.assert_allclose(table["inferred"] + 2 / 6, [(2 * 3 / 4) / 4.5, (2 * 1 / 4) / 1.5], atol=1e-12)


def test_given_probabilities_are_those_of_the_rows():
    y, answer, group, missing = some_unknown(8, 150, 60)
    P = np.random.default_rng(0).dirichlet(np.ones(A), len(y))
    P[~missing] = np.nan  # not looked at
    h = np.where(missing[:, None], P, np.eye(A)[group])
    J = np.einsum("na,ni,nj->aij", h, np.eye(M)[y], np.eye(M)[answer]) / len(y)
    for soft in (answer, np.eye(M)[answer] * 0.8 + 0.1):
        H = np.eye(M)[soft] if soft.ndim == 1 else soft
        J = np.einsum("na,ni,nj->aij", h, np.eye(M)[y], H) / len(y)
        for constraint in EVERY_KIND:
            table = measured(y, soft, group, missing, constraint, group_probabilities=P).table
            truth = row_values(constraint, J)
            for key, inferred in zip(table_keys(table), table["inferred"], strict=True):
                assert inferred == pytest.approx(truth[key], abs=1e-12)


def test_probabilities_that_are_sure_give_the_truth_whatever_the_refusal():
    y, answer, group, missing = some_unknown(9, 150, 60)
    P = pd.DataFrame(np.eye(A)[group])
    full = measure_constraints(group_confusion(y, answer, sensitive_features=group), as_constraints("eo"))[0]
    for refusal in (1, 3, 1e300):
        table = measured(y, answer, group, missing, "eo", group_probabilities=P, refusal=refusal).table
        for column in ("inferred", "least", "most"):
            np.testing.assert_allclose(table[column], full["value"], atol=1e-12)


@pytest.mark.parametrize("has_probabilities", [False, True])
@pytest.mark.parametrize("constraint", EVERY_KIND, ids=repr)
def test_bounds_widen_with_refusal_around_what_is_likely(constraint, has_probabilities):
    y, answer, group, missing = some_unknown(10, 150, 60)
    P = np.random.default_rng(1).dirichlet(np.ones(A), len(y)) if has_probabilities else None
    tables = [
        measured(y, answer, group, missing, constraint, refusal=r, group_probabilities=P).table
        for r in (1, 1.2, 2, 10, 1e6, np.inf)
    ]
    for table, wider in itertools.pairwise(tables):
        assert (wider["least"] <= table["least"] + 1e-12).all() and (wider["most"] >= table["most"] - 1e-12).all()
        assert (table["least"] <= table["inferred"] + 1e-12).all()
        assert (table["inferred"] <= table["most"] + 1e-12).all()
    np.testing.assert_allclose(tables[-2][["least", "most"]], tables[-1][["least", "most"]], atol=1e-3)


@pytest.mark.parametrize("constraint", EVERY_KIND, ids=repr)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_no_refusal_by_group_of_that_factor_is_beyond_and_some_attains_it(constraint, n_groups):
    """In each cell the groups tell with odds that differ by a factor of Γ at most: q_a ∝ p_a g_a, 1 ≤ g_a ≤ Γ."""
    y, answer, group = draw(11, 300, n_groups, M)
    missing, factor = np.arange(300) % 3 == 0, 2.5
    table = measured(y, answer, group, missing, constraint, refusal=factor).table
    known = tensor(y[~missing], answer[~missing], group[~missing], n_groups, M) * (~missing).sum()
    unknown = tensor(y[missing], answer[missing], np.zeros(100, int), 1, M)[0] * 100
    rng = np.random.default_rng(0)
    shape = known.shape
    corners = [np.where(rng.random(shape) < 0.5, factor, 1.0) for _ in range(200)]
    if n_groups == 2:  # all 16 patterns of four cells
        corners = [
            np.array([b, 1 - b]).reshape(shape) * (factor - 1) + 1
            for b in itertools.product((0, 1), repeat=4)
            for b in [np.array(b)]
        ]
    corners += [rng.uniform(1, factor, shape) for _ in range(50)]
    values = []
    for g in corners:
        q = known * g
        values.append(row_values(constraint, (known + unknown * q / q.sum(axis=0)) / 300))
    is_attained = n_groups == 2
    for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
        observed = [v[key] for v in values]
        assert least - 1e-12 <= min(observed) and max(observed) <= most + 1e-12
        if is_attained:
            assert (min(observed), max(observed)) == pytest.approx((least, most), abs=1e-12)


def test_a_group_against_everybody_attains_the_bounds_with_three_groups_too():
    y, answer, group = draw(12, 300, 3, M)
    missing, factor = np.arange(300) % 3 == 0, 2.5
    table = measured(y, answer, group, missing, Constraint("dp", 0.1), refusal=factor).table
    known = tensor(y[~missing], answer[~missing], group[~missing], 3, M) * (~missing).sum()
    unknown = tensor(y[missing], answer[missing], np.zeros(100, int), 1, M)[0] * 100
    for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
        for sign, extreme in ((1, most), (-1, least)):
            g = np.ones((3, M, M))
            is_hit = np.arange(M) == key[3]
            g[key[0]] = np.where(is_hit == (sign > 0), factor, 1 / factor)
            q = known * g
            J = (known + unknown * q / q.sum(axis=0)) / 300
            assert row_values(Constraint("dp", 0.1), J)[key] == pytest.approx(extreme, abs=1e-12)


# -- the truth is inside -------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
def test_bounds_hold_the_truth_in_every_run(way):
    for seed in range(30):
        y, answer, group = draw(seed, 120, A, M)
        missing = WAYS[way](np.random.default_rng(seed), y, answer, group)
        if len(np.unique(group[~missing])) < A:
            continue
        P = np.random.default_rng(seed).dirichlet(np.ones(A), len(y)) if seed % 2 else None
        J = tensor(y, answer, group, A, M)
        for constraint in EVERY_KIND[seed % 3 :: 3]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OptFairWarning)  # nobody known in some group and class
                table = measured(y, answer, group, missing, constraint, group_probabilities=P).table
            truth = row_values(constraint, J)
            for key, least, most in zip(table_keys(table), table["least"], table["most"], strict=True):
                assert least - 1e-12 <= truth[key] <= most + 1e-12


# -- counts --------------------------------------------------------------------------------------------------
def test_counts_of_known_people_and_numbers_of_others_are_enough():
    y, answer, group, missing = some_unknown(13, 200, 70)
    constraints = as_constraints(["eo", "oae"], 0.1)
    rows = measured(y, answer, group, missing, constraints)
    known = group_confusion(y[~missing], answer[~missing], sensitive_features=group[~missing])
    numbers = np.zeros((M, M), dtype=int)
    np.add.at(numbers, (y[missing], answer[missing]), 1)
    counts = bound_unknown(add_unknown(known, numbers), constraints)
    pd.testing.assert_frame_equal(rows.table, counts.table)
    pd.testing.assert_frame_equal(rows.unknown, counts.unknown)
    assert rows.unknown["n"].tolist() == numbers.ravel().tolist()
    assert (counts.n_people, counts.n_unknown) == (200, 70)


def test_numbers_of_others_without_labels():
    _, answer, group, missing = some_unknown(14, 200, 70)
    known = group_confusion(None, answer[~missing], sensitive_features=group[~missing])
    counts = bound_unknown(add_unknown(known, np.bincount(answer[missing])), as_constraints("dp"))
    rows = measured(None, answer, group, missing, "dp")
    pd.testing.assert_frame_equal(rows.table, counts.table)
    assert rows.unknown["given"].tolist() == [None] * M
    assert rows.unknown["n"].tolist() == np.bincount(answer[missing]).tolist()


def test_people_of_each_row_are_counted():
    y, answer, group, missing = some_unknown(15, 200, 70)
    table = measured(y, answer, group, missing, "eo").table
    for row in table.itertuples():
        assert row.n == (~missing & (group == row.group) & (y == row.given)).sum()
        assert row.unknown == (missing & (y == row.given)).sum()
    pairs = measured(y, answer, group, missing, Constraint("meo", 0.1, "pairwise")).table
    assert (pairs["unknown"] == missing.sum()).all()


def test_rows_of_weight_zero_are_nobody():
    y, answer, group, missing = some_unknown(16, 120, 30)
    weight = (np.arange(120) % 4 > 0).astype(float)
    rows = weight > 0
    one = measured(y, answer, group, missing, "eo", sample_weight=weight)
    other = measured(y[rows], answer[rows], group[rows], missing[rows], "eo")
    pd.testing.assert_frame_equal(one.table, other.table)
    pd.testing.assert_frame_equal(one.unknown, other.unknown)
    assert one.n_unknown == other.n_unknown == (missing & rows).sum()


def test_nobody_unknown():
    y, answer, group, _ = some_unknown(17, 200)
    bounds = measured(y, answer, group, np.zeros(200, bool), "dp", refusal=2)
    for column in ("inferred", "least", "most"):
        np.testing.assert_allclose(bounds.table[column], bounds.table["value"], atol=1e-12)
    assert str(bounds).startswith("The group of all 200 people is known. The largest gap is ")


# -- states and words ----------------------------------------------------------------------------------------
def many(n_unknown, shift=0.0, n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["A", "B"], n).astype(object)
    answer = (rng.random(n) < np.where(group == "A", 0.5 + shift, 0.5)).astype(int)
    group[:n_unknown] = None
    return answer, group


@pytest.mark.parametrize(
    ("n_unknown", "shift", "n", "state"),
    [(100, 0, 20_000, "within"), (100, 0.3, 20_000, "beyond"), (8000, 0, 20_000, "depends"), (1, 0, 120, "few")],
)
def test_states(n_unknown, shift, n, state):
    answer, group = many(n_unknown, shift, n)
    bounds = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.1)
    assert bounds.state == state and (bounds.table["state"] == state).all()
    table = bounds.table
    inside = (table["least"] >= table["lower"]) & (table["most"] <= table["upper"])
    outside = (table["least"] > table["upper"]) | (table["most"] < table["lower"])
    assert inside.all() == (state in ("within", "few")) and outside.all() == (state == "beyond")


def test_one_row_alone_is_within_only_if_it_is_among_many():
    """Beside a row that is beyond, the others are judged by limits that hold for all rows together."""
    rng = np.random.default_rng(0)
    group = np.repeat(["A", "B", "C"], [4000, 4000, 100])
    answer = (rng.random(8100) < np.where(group == "C", 0.9, 0.5)).astype(int)
    bounds = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.03, outcomes=[1])
    assert bounds.state == "beyond" and bounds.table["state"].tolist() == ["within", "within", "beyond"]
    edge = float(bounds.table["high"][0]) + 1e-6  # within by itself, not with the confidence of three rows
    alone = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=edge, outcomes=[1])
    assert alone.table["state"][0] == "few" and alone.table["high"][0] <= edge


def test_the_sentence_says_how_many_and_how_far():
    answer, group = many(1000)
    bounds = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.2)
    size = bounds.violation
    assert size["least"] <= size["value"] <= size["most"]
    assert size["most"] == max(bounds.table["most"].max(), -bounds.table["least"].min())
    assert str(bounds) == (
        "The group of 1,000 of 20,000 people (5.0 %) is unknown. "
        f"The largest gap is {size['value']:.4f} among those of known group, {size['inferred']:.4f} with the others "
        f"shared out as is likely, and between {size['least']:.4f} and {size['most']:.4f} whatever the unknown groups "
        "are. Of 4 comparisons: 4 surely within (confidence 95 %)."
    )
    finite = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.2, refusal=3, level=0.9)
    assert "if their odds differ from the likely ones by a factor of at most 3. Of" in str(finite)
    assert str(finite).endswith("(confidence 90 %).")
    likely = unknown_group_bounds(None, answer, sensitive_features=group, tolerance=0.2, refusal=1)
    assert "as is likely. Of 4 comparisons" in str(likely)
    rates = unknown_group_bounds(None, answer, sensitive_features=group, criterion=MinimumRate("selection", 0.9))
    assert "largest gap" not in str(rates) and np.isnan(rates.violation["most"])
    assert "surely beyond" in str(rates)


def test_the_smallest_violation_is_a_bound_of_every_assignment():
    y, answer, group, missing = some_unknown(18)
    bounds = measured(y, answer, group, missing, Constraint("dp", 0.1))
    J = [tensor(y, answer, complete, A, M) for complete in fill(group, missing, A)]
    sizes = [max(map(abs, row_values(Constraint("dp", 0.1), tensor_).values())) for tensor_ in J]
    assert bounds.violation["least"] <= min(sizes) + 1e-12
    assert bounds.violation["most"] == pytest.approx(max(sizes), abs=1e-12)


def test_rows_that_nobody_known_is_behind_are_named():
    y, group = [0, 0, 1, 0, 1], ["A", "A", "A", "B", None]
    with pytest.warns(UserWarning, match="2 rates are left out, because nobody is in the group and class: eop: group"):
        bounds = unknown_group_bounds(y, y, sensitive_features=group, criterion=["eop", "eo"], outcomes=[1])
    assert len(bounds.dropped) == 2 and isinstance(bounds, UnknownGroupBounds)


# -- bad calls -----------------------------------------------------------------------------------------------
ANSWER, GROUP = [0, 1, 0, 1], ["A", "B", None, None]
P = np.full((4, 2), 0.5)
BAD = {
    "refusal": ({"refusal": 0.5}, r"^refusal=0.5: must be a number in \[1, inf\], e.g. 2\.$"),
    "refusal, NaN": ({"refusal": np.nan}, r"^refusal=nan: must be a number in \[1, inf\], e.g. 2\.$"),
    "level": ({"level": 1.0}, r"^level=1.0: must be a number in \(0, 1\), e.g. 0.95\.$"),
    "own rows": (
        {"criterion": Rows(np.ones((1, 2, 2, 2)), upper=1)},
        r"^criterion: Rows combine no rates of groups; ask for a Constraint, Ratio or MinimumRate\.$",
    ),
    "no labels": ({"criterion": "eo"}, r"^y_true=None: 'eo' speaks of true classes; give them, or ask for 'dp'"),
    "nobody known": (
        {"sensitive_features": [None] * 4},
        r"^sensitive_features: all 4 rows have a missing value; give the groups of at least some people\.$",
    ),
    "one group": (
        {"sensitive_features": ["A", "A", None, None]},
        r"^sensitive_features: the only group that is known is 'A'; at least two are needed\.$",
    ),
    "weights of nobody known": (
        {"sample_weight": [0, 0, 1, 1]},
        r"^sample_weight: is zero for everybody whose group is known; at least some must count\.$",
    ),
    "texts": (
        {"group_probabilities": [["a", "b"]] * 4},
        r"^group_probabilities: are not numbers; must be numbers, with a column for each of the 2 groups, \['A', 'B'\]",
    ),
    "one column": (
        {"group_probabilities": P[:, :1]},
        r"^group_probabilities: are of shape \(4, 1\); must be numbers, with a column for each of the 2 groups",
    ),
    "columns in another order": (
        {"group_probabilities": pd.DataFrame(P, columns=["B", "A"])},
        r"^group_probabilities: its columns are \['B', 'A'\]; must be the groups in their order, \['A', 'B'\]\.$",
    ),
    "no probabilities": (
        {"group_probabilities": P * [[1], [1], [1], [3]]},
        r"^group_probabilities: 1 rows of unknown group do not hold probabilities \(row 3 sums to 3\); they must be",
    ),
    "NaN": (
        {"group_probabilities": np.full((4, 2), np.nan)},
        r"^group_probabilities: 2 rows of unknown group do not hold probabilities \(row 2 sums to nan\); they must be",
    ),
    "too few rows": (
        {"group_probabilities": P[:3]},
        r"^group_probabilities: has 3 rows but prediction has 4; they must have the same rows\.$",
    ),
    "what is known ruled out": (
        {
            "sensitive_features": pd.DataFrame({"a": [0, 1, 0, None], "b": [0, 1, None, None]}, dtype=object),
            "group_probabilities": P * 2 * [0, 1],
        },
        r"^group_probabilities: row 2 rules out every group that fits what is known of the person; give one of them",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls(name):
    options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        unknown_group_bounds(None, ANSWER, **{"sensitive_features": GROUP} | options)


@pytest.mark.parametrize("unknown", [[1, 2, 3], [[0.5, 1], [1, 1]], [[-1, 0], [0, 0]], "two", np.ones((2, 3))])
def test_numbers_of_others_must_be_numbers_of_people(unknown):
    counts = group_confusion([0, 1], [0, 1], sensitive_features=["A", "B"])
    message = r"^unknown=.*: must be whole numbers of people by true class and answer, of shape \(2, 2\)\.$"
    with pytest.raises(ValueError, match=message):
        add_unknown(counts, unknown)


def test_numbers_are_added_to_unweighted_labels_only():
    counts = group_confusion([0, 1], [0, 1], sensitive_features=["A", "B"], sample_weight=[1, 2])
    message = r"^counts: are of weights or probabilities; numbers of people are added to unweighted labels\.$"
    with pytest.raises(ValueError, match=message):
        add_unknown(counts, np.zeros((2, 2)))


def test_ratio_and_minimum_are_bounded_too():
    y, answer, group, missing = some_unknown(19, 300, 60)
    bounds = measured(y, answer, group, missing, [Ratio("dp"), MinimumRate("accuracy", 0.1)])
    assert not bounds.table["is_gap"].any() and set(bounds.table["state"]) <= {"within", "beyond", "depends", "few"}
