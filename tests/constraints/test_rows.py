"""Test rows of D against the definitions of the criteria, written out a second time in `problems`."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from optfair import Constraint, MinimumRate, OptFairWarning, Ratio, Rows, solve
from optfair.constraints import compile_rows
from optfair.constraints.rows import accuracy, centre
from tests.problems import (
    CRITERIA,
    KINDS,
    aware,
    blind,
    compiled,
    confusion,
    definition,
    false_positive_rate,
    gaps,
    group_accuracy,
    selection,
    softmax,
    true_class_rate,
    weights,
)

SIZES = [(2, 2), (2, 5), (3, 4), (4, 3), (6, 2), (5, 6)]


def random_rule(Z, seed=0):
    return softmax(2 * np.random.default_rng(seed).standard_normal((len(Z), Z.shape[2])))


def row_values(Z, criterion, **options):
    """{(group, against, given, outcome): D_k vec(J)} of a random rule, and its J and P."""
    posterior, rows = compiled(Z, criterion, **options)
    J = confusion(Z, random_rule(Z), options.get("w"))
    keys = rows.table[["group", "against", "given", "outcome"]].itertuples(index=False, name=None)
    return dict(zip(keys, rows.matrix(posterior.prior) @ J.ravel(), strict=True)), J, J.sum(axis=2)


def assert_same(values, expected):
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        assert values[key] == pytest.approx(value, abs=1e-12), key


@pytest.mark.parametrize("A, m", SIZES)
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_definition(kind, criterion, reference, A, m):
    Z = KINDS[kind](A + m, A=A, m=m)
    values, J, P = row_values(Z, criterion, reference=reference)
    assert_same(values, gaps(criterion, J, P, reference))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rows_are_the_definition_under_weights(criterion):
    Z, w = blind(5), weights(5)
    values, J, P = row_values(Z, criterion, w=w)
    np.testing.assert_allclose(P, np.average(Z, axis=0, weights=w))
    assert_same(values, gaps(criterion, J, P))


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo"])
def test_outcomes_keep_the_rows_of_these_classes(criterion, reference):
    Z = blind(6, A=3, m=4)
    values, J, P = row_values(Z, criterion, reference=reference, outcomes=[3, 1])
    assert_same(values, gaps(criterion, J, P, reference, outcomes=[1, 3]))


def test_outcomes_named_twice_count_once():
    Z = blind(6)
    values, J, P = row_values(Z, "dp", outcomes=[1, 1])
    assert_same(values, gaps("dp", J, P, outcomes=[1]))


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_two_rows_of_meo_say_half_the_sum_of_both_gaps(reference):
    """max(|½(ΔTPR + ΔFPR)|, |½(ΔTPR − ΔFPR)|) = ½(|ΔTPR| + |ΔFPR|)"""
    Z = blind(7, A=4, m=3)
    values, J, P = row_values(Z, "meo", reference=reference)
    for a, b, j in {(a, b, j) for a, b, _, j in values}:
        other = [0, 1, 2, 3] if b == "overall" else [b]
        tpr = true_class_rate(J, P, [a], j, j) - true_class_rate(J, P, other, j, j)
        fpr = false_positive_rate(J, P, [a], j) - false_positive_rate(J, P, other, j)
        pair = [abs(values[a, b, sign, j]) for sign in ("TPR+FPR", "TPR-FPR")]
        assert max(pair) == pytest.approx((abs(tpr) + abs(fpr)) / 2, abs=1e-12)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo"])
@pytest.mark.parametrize("kind", KINDS)
def test_constant_rules_are_fair_when_the_prior_is_the_mean_of_z(kind, criterion, reference):
    Z, w = KINDS[kind](8, A=4, m=3), weights(8)
    posterior, rows = compiled(Z, criterion, w=w, reference=reference)
    constant = np.broadcast_to(np.random.default_rng(0).dirichlet(np.ones(3)), (len(Z), 3))
    values = rows.matrix(posterior.prior) @ confusion(Z, constant, w).ravel()
    np.testing.assert_allclose(values, 0.0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_uniform_rule_has_equal_accuracy_everywhere(kind):
    Z = KINDS[kind](9, A=4, m=3)
    posterior, rows = compiled(Z, "oae")
    values = rows.matrix(posterior.prior) @ confusion(Z, np.full((len(Z), 3), 1 / 3)).ravel()
    np.testing.assert_allclose(values, 0.0, atol=1e-14)


def test_constant_rules_are_not_fair_under_another_prior():
    """Why P must be the mean of Z: with other frequencies even a constant rule has gaps."""
    Z = blind(9)
    posterior, rows = compiled(Z, "dp")
    other = np.random.default_rng(1).permuted(posterior.prior, axis=0)
    J = confusion(Z, np.tile([1.0, 0.0, 0.0], (len(Z), 1)))
    assert np.abs(rows.matrix(other) @ J.ravel()).max() > 1e-3


@pytest.mark.parametrize("A, m", SIZES)
def test_number_of_rows(A, m):
    Z = blind(10, A=A, m=m)
    pairs = A * (A - 1) // 2
    counts = {
        ("dp", "overall"): A * m,
        ("eop", "overall"): A * m,
        ("eo", "overall"): A * m * m,
        ("meo", "overall"): 2 * A * m,
        ("oae", "overall"): A,
        ("dp", "pairwise"): m * pairs,
        ("eo", "pairwise"): m * m * pairs,
        ("oae", "pairwise"): pairs,
    }
    for (criterion, reference), count in counts.items():
        assert len(compiled(Z, criterion, reference=reference)[1]) == count


# -- several attributes -------------------------------------------------------------------------------------
SEX_AND_AGE = pd.MultiIndex.from_product([["f", "m"], ["old", "young", "mid"]], names=["sex", "age"])
FAMILIES = {
    "sex": {("f", "*"): [0, 1, 2], ("m", "*"): [3, 4, 5]},
    "age": {("*", "old"): [0, 3], ("*", "young"): [1, 4], ("*", "mid"): [2, 5]},
    "cells": {name: [a] for a, name in enumerate(SEX_AND_AGE)},
}


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    "attributes, families",
    [
        ("marginals", ["sex", "age"]),
        ("both", ["cells", "sex", "age"]),
        ("intersections", ["cells"]),
        (["age"], ["age"]),
        (["age", "sex"], ["age", "sex"]),
    ],
)
def test_marginal_groups_are_sums_of_cells(attributes, families, criterion, reference):
    Z = blind(11, A=6, m=3)
    values, J, P = row_values(Z, criterion, groups=SEX_AND_AGE, attributes=attributes, reference=reference)
    expected = {}
    for family in (FAMILIES[name] for name in families):
        rates = {label: definition(criterion, J, P, cells, range(3)) for label, cells in family.items()}
        rates["overall"] = definition(criterion, J, P, list(range(6)), range(3))
        pairs = itertools.combinations(family, 2) if reference == "pairwise" else [(a, "overall") for a in family]
        expected |= {(a, b, *e): rates[a][e] - rates[b][e] for a, b in pairs for e in rates[a]}
    assert_same(values, expected)


# -- ratios, minima, rows of the user, tolerances -----------------------------------------------------------
def test_ratio_compares_every_ordered_pair_of_groups():
    Z = blind(12, A=3, m=3)
    values, J, P = row_values(Z, Ratio("dp", 0.8, outcomes=[2]))
    assert_same(
        values,
        {
            (a, b, None, 2): selection(J, P, [a], 2) - 0.8 * selection(J, P, [b], 2)
            for a, b in itertools.permutations(range(3), 2)
        },
    )
    rows = compiled(Z, Ratio("dp", 0.8, outcomes=[2]))[1]
    assert (rows.lower == 0).all() and (rows.upper == np.inf).all()
    assert not rows.is_gap.any()


@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "oae"])
def test_ratio_against_overall(criterion):
    Z = blind(12, A=3, m=3)
    values, J, P = row_values(Z, Ratio(criterion, 0.7, reference="overall"))
    rates = {a: definition(criterion, J, P, [a], range(3)) for a in range(3)}
    overall = definition(criterion, J, P, [0, 1, 2], range(3))
    assert_same(values, {(a, "overall", *e): rates[a][e] - 0.7 * overall[e] for a in rates for e in overall})


def test_minimum_rates():
    Z = blind(13, A=3, m=3)
    values, J, P = row_values(Z, MinimumRate("recall", 0.3))
    assert_same(values, {(a, None, j, j): true_class_rate(J, P, [a], j, j) for a in range(3) for j in range(3)})
    values, J, P = row_values(Z, MinimumRate("selection", 0.3, outcomes=[1]))
    assert_same(values, {(a, None, None, 1): selection(J, P, [a], 1) for a in range(3)})
    values, J, P = row_values(Z, MinimumRate("accuracy", 0.3))
    assert_same(values, {(a, None, None, None): group_accuracy(J, P, [a]) for a in range(3)})
    values, J, P = row_values(Z, MinimumRate("accuracy", 0.3, by="overall"))
    assert_same(values, {("overall", None, None, None): group_accuracy(J, P, [0, 1, 2])})
    rows = compiled(Z, MinimumRate("recall", 0.3))[1]
    assert (rows.lower == 0.3).all() and (rows.upper == np.inf).all()


def test_minimum_rates_of_marginal_groups():
    Z = blind(13, A=6, m=3)
    values, J, P = row_values(Z, MinimumRate("accuracy", 0.3, attributes=["sex"]), groups=SEX_AND_AGE)
    assert_same(values, {(g, None, None, None): group_accuracy(J, P, c) for g, c in FAMILIES["sex"].items()})


@pytest.mark.parametrize("form", ["4-d", "2-d", "sparse", "coo matrix"])
def test_rows_of_the_user_are_taken_as_given(form):
    D = np.random.default_rng(14).standard_normal((4, 3, 2, 2)) * (np.random.default_rng(15).random((4, 3, 2, 2)) > 0.5)
    flat = D.reshape(4, 12)
    matrix = {"4-d": D, "2-d": flat, "sparse": sparse.csr_array(flat), "coo matrix": sparse.coo_matrix(flat)}[form]
    Z = blind(14, A=3, m=2)
    posterior, rows = compiled(Z, Rows(matrix, lower=-0.2, upper=[0.1, 0.2, 0.3, np.inf]))
    np.testing.assert_array_equal(rows.matrix(posterior.prior).toarray(), flat)
    np.testing.assert_array_equal(rows.lower, np.full(4, -0.2))
    np.testing.assert_array_equal(rows.upper, [0.1, 0.2, 0.3, np.inf])
    assert rows.names == ["row 0", "row 1", "row 2", "row 3"]


def test_rows_of_the_user_between_other_constraints_keep_their_place_and_name():
    Z = blind(16, A=3, m=2)
    D = np.random.default_rng(16).standard_normal((2, 12))
    constraints = ["dp", Rows(D, upper=0.5, names=["first", "second"]), "oae"]
    posterior, rows = compiled(Z, constraints, 0.03)
    matrix = rows.matrix(posterior.prior).toarray()
    np.testing.assert_array_equal(matrix[6:8], D)
    assert rows.names[6:8] == ["first", "second"]
    np.testing.assert_array_equal(rows.source, [0] * 6 + [1] * 2 + [2] * 3)
    np.testing.assert_array_equal(matrix[:6], compiled(Z, "dp")[1].matrix(posterior.prior).toarray())
    np.testing.assert_array_equal(matrix[8:], compiled(Z, "oae")[1].matrix(posterior.prior).toarray())


def test_rows_of_the_user_do_not_change_the_callers_arrays():
    D = np.ones((1, 12))
    constraint = Rows(D, upper=np.array([0.5]))
    compiled(blind(16, A=3, m=2), [constraint, constraint])
    np.testing.assert_array_equal(D, np.ones((1, 12)))


def test_values_and_rates_of_many_confusions_at_once():
    """`RowSet.values` uses the prior of each J itself."""
    Z = blind(17, A=3, m=3)
    rows = compiled(Z, ["eo", MinimumRate("recall", 0.1)])[1]
    tensors = np.random.default_rng(0).dirichlet(np.ones(27), 5).reshape(5, 3, 3, 3)
    together = rows.values(tensors)
    for J, values in zip(tensors, together, strict=True):
        np.testing.assert_allclose(rows.matrix(J.sum(-1)) @ J.ravel(), values, atol=1e-12)
        np.testing.assert_allclose(values[:27], list(gaps("eo", J, J.sum(-1)).values()), atol=1e-12)
    rates = rows.rates(tensors)
    np.testing.assert_allclose(rates @ rows.combination.T, together, atol=1e-12)
    np.testing.assert_allclose(rows.violation(together), np.abs(together[..., :27]).max(-1))
    outside = np.maximum(together - rows.upper, rows.lower - together).max(-1)
    np.testing.assert_allclose(rows.excess(together), np.maximum(outside, 0.0))


def test_a_tolerance_per_group_bounds_the_groups_named_and_no_other():
    Z = blind(18, A=3, m=2)
    rows = compiled(Z, Constraint("dp", {2: 0.05, 0: 0.01}), groups=[0, 1, 2])[1]
    bounds = dict(zip(rows.table["group"], zip(rows.lower, rows.upper, strict=True), strict=True))
    assert bounds == {0: (-0.01, 0.01), 2: (-0.05, 0.05)}
    assert len(rows) == 4


def test_a_tolerance_per_marginal_group():
    rows = compiled(
        blind(18, A=6, m=2), Constraint("dp", {("f", "*"): 0.1}, attributes="marginals"), groups=SEX_AND_AGE
    )[1]
    assert set(rows.table["group"]) == {("f", "*")} and (rows.upper == 0.1).all()


# -- empty cells --------------------------------------------------------------------------------------------
def with_empty_cell():
    """Nobody of group 1 has class 2; groups f, g, h."""
    Z = blind(19, A=3, m=3)
    Z[:, 1, 2] = 0
    return Z / Z.sum((1, 2), keepdims=True)


def test_rows_of_empty_cells_are_dropped_named_and_the_rest_unchanged():
    Z = with_empty_cell()
    rows = compiled(Z, "eo", groups=["f", "g", "h"], classes=["x", "y", "z"])[1]
    assert len(rows) == 24
    assert rows.dropped == tuple(f"eo: group 'g' against overall, given 'z', outcome {j!r}" for j in "xyz")
    with np.errstate(invalid="ignore"):
        values, J, P = row_values(Z, "eo")
        expected = {key: gap for key, gap in gaps("eo", J, P).items() if np.isfinite(gap)}
    assert_same(values, expected)


def test_solve_warns_once_of_all_empty_cells():
    with pytest.warns(OptFairWarning, match=r"3 rates are left out.*group 1 against overall, given 2") as caught:
        rule = solve(with_empty_cell(), "eo", 0.05, n_jobs=1)
    assert len(caught) == 1
    assert len(rule.multipliers) == 24
    assert caught[0].filename == __file__


def test_long_lists_of_empty_cells_are_cut():
    Z = np.zeros((20, 4, 3))
    Z[:, 0] = 1 / 3
    with pytest.warns(OptFairWarning, match=r"^27 rates are left out, .*; and 21 more\.$"):
        solve(Z, "eo", 0.05, n_jobs=1)


# -- requests that do not fit the data ----------------------------------------------------------------------
PLAIN, SEVERAL = pd.RangeIndex(3), SEX_AND_AGE
BAD_REQUESTS = [
    (PLAIN, Constraint("dp", attributes="marginals"), r"attributes='marginals': there is one attribute"),
    (SEVERAL, Constraint("dp", attributes="all"), r"attributes='all': must be 'intersections', 'marginals', 'both' or"),
    (SEVERAL, Constraint("dp", attributes=["race"]), r"'race' is not an attribute; they are \['sex', 'age'\]"),
    (SEVERAL, Constraint("dp", attributes=[]), r"attributes=\[\]: the list is empty; they are \['sex', 'age'\]"),
    (PLAIN, Constraint("dp", outcomes="yes"), r"outcomes='yes': must be a list of classes, e\.g\. \['yes'\]"),
    (PLAIN, Constraint("dp", outcomes=1), r"outcomes=1: must be a list of classes"),
    (PLAIN, Constraint("dp", outcomes=[1, 9]), r"outcomes=\[1, 9\]: 9 is not a class; the classes are \[0, 1\]"),
    (PLAIN, Constraint("dp", outcomes=[]), r"outcomes=\[\]: the list is empty; the classes are \[0, 1\]"),
    (PLAIN, Constraint("dp", {7: 0.1}), r"tolerance: 7 is not a group; they are \[0, 1, 2\]"),
    (PLAIN, Rows(np.ones((1, 8)), upper=1), r"D has 8 columns; with 3 groups and 2 classes it needs 12"),
    (pd.RangeIndex(1), Constraint("dp", reference="pairwise"), r"reference='pairwise': needs at least two groups"),
    (pd.RangeIndex(1), Ratio("dp"), r"reference='pairwise': needs at least two groups"),
]


@pytest.mark.parametrize("groups, constraint, message", BAD_REQUESTS, ids=[message for *_, message in BAD_REQUESTS])
def test_requests_that_do_not_fit_the_data_are_refused(groups, constraint, message):
    prior = np.full((len(groups), 2), 0.5 / len(groups))
    with pytest.raises(ValueError, match=message):
        compile_rows([constraint], groups, pd.RangeIndex(2), prior)


def test_a_criterion_without_any_row_is_refused():
    prior = np.array([[0.5, 0.5], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"none of its rows can be formed.* empty: dp: group 0 against 1"):
        compile_rows([Constraint("dp", reference="pairwise")], pd.RangeIndex(2), pd.RangeIndex(2), prior)


def test_aware_rows_touch_their_own_group_only():
    """Attribute-aware D is the blind D: a row about group a weighs group a against all rows."""
    Z = aware(20, A=3, m=2)
    posterior, rows = compiled(Z, "dp", reference="pairwise")
    D = rows.matrix(posterior.prior).toarray().reshape(len(rows), 3, 2, 2)
    for k, (a, b) in enumerate(zip(rows.table["group"], rows.table["against"], strict=True)):
        assert {g for g in range(3) if D[k, g].any()} == {a, b}


# -- what the rows remember --------------------------------------------------------------------------------
def test_rows_remember_their_constraints_their_keys_and_their_tolerances():
    constraints = [
        Constraint("dp", {0: 0.01, 2: 0.05}),
        MinimumRate("accuracy", 0.3),
        Rows(np.ones((1, 12)), upper=2, names=["sum"]),
    ]
    rows = compiled(blind(21, A=3, m=2), constraints)[1]
    assert rows.constraints == tuple(constraints)
    assert rows.tolerances == (0.05, 0.3, None)  # of a mapping the largest
    assert compiled(blind(21, A=3, m=2), "dp", 0.02)[1].tolerances == 0.02
    assert rows.keys[0] == ("dp", 0, "overall", None, 0)
    assert rows.keys[4] == ("minimum accuracy", 0, None, None, None)
    assert rows.keys[-1] == ("sum", None, None, None, None)
    assert rows.names[0] == "dp: group 0 against overall, outcome 0"
    assert len(rows.keys) == len(rows.names) == len(set(rows.keys)) == len(rows) == 8


def test_a_centred_row_of_zeros_has_the_same_value_whatever_the_rule():
    Z = blind(22, A=3, m=2)
    D = np.random.default_rng(0).standard_normal((2, 3, 2, 2))
    D[0, ..., 1] = D[0, ..., 0]  # does not look at the prediction
    centred = centre(sparse.csr_array(D.reshape(2, 12)), 2)
    assert not centred[[0]].toarray().any() and centred[[1]].toarray().any()
    first, second = (D.reshape(2, 12) @ confusion(Z, random_rule(Z, seed)).ravel() for seed in (0, 1))
    assert first[0] == pytest.approx(second[0], abs=1e-14) and abs(first[1] - second[1]) > 1e-3
    # and what is taken away is a constant per cell
    cells = D.reshape(2, 6, 2)
    np.testing.assert_allclose(centred.toarray().reshape(2, 6, 2), cells - cells.mean(axis=-1, keepdims=True))


def test_accuracy_is_the_trace():
    Z = blind(23, A=3, m=4)
    h = random_rule(Z)
    assert accuracy(confusion(Z, h)) == pytest.approx((Z.sum(axis=1) * h).sum(axis=1).mean(), abs=1e-14)
