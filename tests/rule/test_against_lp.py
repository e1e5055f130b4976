"""Test agreement with the linear program, whose rows and optimum are computed a second time (`problems`)."""

import itertools

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Ratio, Rows, solve
from tests.problems import (
    CRITERIA,
    KINDS,
    aware,
    costs,
    definition,
    gaps,
    group_accuracy,
    linear_program,
    linear_rows,
    selection,
    true_class_rate,
    weights,
)

NEAR = 1e-9
SIZES = [(2, 2), (3, 2), (2, 3), (4, 4), (6, 2), (2, 6), (5, 3)]
TOLERANCES = [0.001, 0.01, 0.05, 0.2]


def check(rule, program, lower, upper, gap=1e-3):
    """Check that the rule is feasible and within its gap of the optimum, which is below the bound; return the optimum.

    program : (lower, upper) -> optimal value.
    """
    c = rule.certificate
    assert c.excess == 0.0, c.status
    best = program(lower, upper)
    assert c.value <= best + NEAR
    assert best <= c.upper_bound + NEAR
    assert -NEAR <= c.gap <= gap
    return best


def program_of(Z, rows, w=None, costs=None):
    """Return the optimal value as a function of the bounds; rows: (J, P) -> values."""
    P = np.average(Z, axis=0, weights=w)
    D = linear_rows(rows, P)
    m = Z.shape[2]
    utility = None if costs is None else -np.broadcast_to(costs, (Z.shape[1], m, m))
    return lambda lower, upper: linear_program(Z, D, lower, upper, w, utility).value


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("A, m", SIZES)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_criteria(kind, criterion, A, m, reference):
    """Weights, costs and the tolerance vary from case to case."""
    seed = SIZES.index((A, m)) + 10 * CRITERIA.index(criterion) + 100 * (reference == "pairwise")
    n = 90
    Z = KINDS[kind](seed, n, A, m)
    xi = TOLERANCES[seed % 4] if (A, m) != (4, 4) else 0.005
    w = weights(seed, n) if seed % 2 else None
    R = costs(seed, m) if seed % 3 == 0 else None
    rule = solve(Z, criterion, xi, reference=reference, sample_weight=w, costs=R, n_jobs=1)
    program = program_of(Z, lambda J, P: gaps(criterion, J, P, reference).values(), w, R)
    check(rule, program, -xi, xi, 1e-3 * (1.0 if R is None else R.max() - R.min()))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
def test_six_groups_and_six_classes(kind, criterion):
    Z = KINDS[kind](1, 100, 6, 6)
    rule = solve(Z, criterion, 0.03, n_jobs=1)
    check(rule, program_of(Z, lambda J, P: gaps(criterion, J, P).values()), -0.03, 0.03)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_tolerances_from_small_to_large(criterion):
    """Also: the optimum rises with the tolerance, and the rules follow it."""
    Z, optima = aware(2, 150), []
    program = program_of(Z, lambda J, P: gaps(criterion, J, P).values())
    for xi in (0.001, 0.003, 0.01, 0.03, 0.1, 0.2):
        rule = solve(Z, criterion, xi, n_jobs=1)
        optima += [program(-xi / 2, xi / 2), check(rule, program, -xi, xi)]
        assert optima[-2] <= optima[-1] + NEAR
    # The problem is hard enough: at ξ = .01 it costs accuracy, so that this is not agreement on the argmax.
    assert optima[5] < Z.sum(axis=1).max(axis=1).mean() - 5e-3


# -- other requests -----------------------------------------------------------------------------------------
def ratio_rows(J, P, factor=0.9):
    return [
        selection(J, P, [a], j) - factor * selection(J, P, [b], j)
        for a, b in itertools.permutations(range(3), 2)
        for j in range(3)
    ]


def recalls(J, P):
    return [true_class_rate(J, P, [a], j, j) for a in range(3) for j in range(3)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_ratio(kind, seed):
    Z = KINDS[kind](20 + seed, 120)
    check(solve(Z, Ratio("dp", 0.9), n_jobs=1), program_of(Z, ratio_rows), 0, np.inf)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("criterion", ["dp", "eop", "oae"])
def test_ratio_against_overall(criterion, seed):
    Z = aware(20 + seed, 120)

    def rows(J, P):
        overall = definition(criterion, J, P, [0, 1, 2], range(3))
        return [definition(criterion, J, P, [a], range(3))[e] - 0.8 * overall[e] for a in range(3) for e in overall]

    check(solve(Z, Ratio(criterion, 0.8, reference="overall"), n_jobs=1), program_of(Z, rows), 0, np.inf)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_minimum_rates(kind, seed):
    Z, w = KINDS[kind](30 + seed, 120), weights(30 + seed, 120)
    rule = solve(Z, MinimumRate("recall", 0.3), sample_weight=w, n_jobs=1)
    check(rule, program_of(Z, recalls, w), 0.3, np.inf)
    rule = solve(Z, MinimumRate("selection", 0.25), costs=costs(seed), n_jobs=1)
    rows = lambda J, P: [selection(J, P, [a], j) for a in range(3) for j in range(3)]  # noqa: E731
    check(rule, program_of(Z, rows, costs=costs(seed)), 0.25, np.inf, 1e-3 * costs(seed).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_the_user(kind, seed):
    Z = KINDS[kind](40 + seed, 120)
    D = np.random.default_rng(seed).standard_normal((4, 27))
    # around the values of the uniform rule, so that the request is feasible
    middle = D @ np.repeat(Z.mean(axis=0).ravel(), 3) / 3
    lower, upper = middle - 0.02, middle + np.array([0.05, 0.02, np.inf, 0.01])
    rule = solve(Z, Rows(D, lower, upper), n_jobs=1)
    check(rule, lambda low, up: linear_program(Z, D, low, up).value, lower, upper)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_several_requests_at_once(kind, seed):
    Z, w = KINDS[kind](50 + seed, 120), weights(50 + seed, 120)
    D = np.random.default_rng(seed).standard_normal((1, 27))
    top = (D @ np.repeat(np.average(Z, axis=0, weights=w).ravel(), 3)).item() / 3 + 0.01
    constraints = [
        Constraint("eo", 0.1),
        "dp",
        Ratio("dp", 0.8, outcomes=[1]),
        MinimumRate("recall", 0.2, by="overall"),
        Rows(D, upper=top),
    ]
    rule = solve(Z, constraints, 0.03, sample_weight=w, n_jobs=1)

    def rows(J, P):
        shares = [selection(J, P, [a], 1) for a in range(3)]
        ratio = [a - 0.8 * b for a, b in itertools.permutations(shares, 2)]
        recall = [true_class_rate(J, P, [0, 1, 2], j, j) for j in range(3)]
        return [*gaps("eo", J, P).values(), *gaps("dp", J, P).values(), *ratio, *recall, (D @ J.ravel())[0]]

    lower = np.repeat([-0.1, -0.03, 0.0, 0.2, -np.inf], [27, 9, 6, 3, 1])
    upper = np.repeat([0.1, 0.03, np.inf, np.inf, top], [27, 9, 6, 3, 1])
    check(rule, program_of(Z, rows, w), lower, upper)


@pytest.mark.parametrize("pair", list(itertools.combinations(CRITERIA, 2)))
def test_two_criteria_with_different_tolerances(pair):
    Z = aware(60, 120)
    rule = solve(Z, [Constraint(pair[0], 0.05), Constraint(pair[1], 0.01, "pairwise")], n_jobs=1)
    P = Z.mean(axis=0)
    sizes = [len(gaps(pair[0], np.zeros((3, 3, 3)), P)), len(gaps(pair[1], np.zeros((3, 3, 3)), P, "pairwise"))]
    bound = np.repeat([0.05, 0.01], sizes)
    program = program_of(Z, lambda J, P: [*gaps(pair[0], J, P).values(), *gaps(pair[1], J, P, "pairwise").values()])
    check(rule, program, -bound, bound)


CELLS = pd.MultiIndex.from_product([["f", "m"], ["old", "young"]], names=["sex", "age"])
MARGINALS = [[0, 1], [2, 3], [0, 2], [1, 3]]


@pytest.mark.parametrize("attributes", ["marginals", "both"])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
@pytest.mark.parametrize("kind", KINDS)
def test_several_attributes(kind, criterion, attributes):
    Z, xi = KINDS[kind](70, 120, A=4, m=3), 0.01
    rule = solve(Z, criterion, xi, groups=CELLS, attributes=attributes, n_jobs=1)
    sets = MARGINALS + ([[0], [1], [2], [3]] if attributes == "both" else [])

    def rows(J, P):
        overall = definition(criterion, J, P, [0, 1, 2, 3], range(3))
        return [definition(criterion, J, P, g, range(3))[e] - overall[e] for g in sets for e in overall]

    check(rule, program_of(Z, rows), -xi, xi)


def test_several_attributes_and_a_second_request():
    Z, xi = aware(71, 150, A=4, m=3), 0.02
    constraints = [Constraint("dp", xi, attributes="marginals"), MinimumRate("accuracy", 0.4)]
    rule = solve(Z, constraints, groups=CELLS, n_jobs=1)

    def rows(J, P):
        overall = definition("dp", J, P, [0, 1, 2, 3], range(3))
        gap = [definition("dp", J, P, g, range(3))[e] - overall[e] for g in MARGINALS for e in overall]
        return [*gap, *(group_accuracy(J, P, [a]) for a in range(4))]

    lower, upper = np.repeat([-xi, 0.4], [12, 4]), np.repeat([xi, np.inf], [12, 4])
    check(rule, program_of(Z, rows), lower, upper)


def test_a_tolerance_per_group():
    Z = aware(72, 150)
    constraint = Constraint("dp", {0: 0.001, 2: 0.1})

    def rows(J, P):
        return [gap for (a, *_), gap in gaps("dp", J, P).items() if a in (0, 2)]

    bound = np.repeat([0.001, 0.1], 3)
    check(solve(Z, constraint, n_jobs=1), program_of(Z, rows), -bound, bound)


def test_costs_per_group():
    Z, xi = aware(73, 150), 0.02
    R = np.stack([costs(k) for k in range(3)])
    rule = solve(Z, "eo", xi, costs=R, n_jobs=1)
    check(rule, program_of(Z, lambda J, P: gaps("eo", J, P).values(), costs=R), -xi, xi, 1e-3 * R.max())


# -- prices -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", range(4))
def test_price_is_the_derivative_of_the_optimum_in_the_tolerance(criterion, seed):
    """The optimum is concave and piecewise linear in ξ: away from its kinks Σ|λ| is the slope, on both sides."""
    Z, xi, step = aware(80 + seed, 100), 0.01, 1e-6
    program = program_of(Z, lambda J, P: gaps(criterion, J, P).values())
    before, at, after = (program(-x, x) for x in (xi - step, xi, xi + step))
    left, right = (at - before) / step, (after - at) / step
    assert left == pytest.approx(right, abs=1e-3), "a kink: choose another seed"
    rule = solve(Z, criterion, xi, method="lp", n_jobs=1)
    table = rule.multipliers
    assert table["multiplier"].astype(float).abs().sum() == pytest.approx(left, abs=1e-3)
    assert left > 0.01
    # the price of a group is the sum over its rows, and all groups together make the slope
    sizes = table["multiplier"].astype(float).abs()
    for group, rows in table.groupby("group"):
        assert rows["price"].nunique() == 1
        assert rows["price"].iloc[0] == pytest.approx(sizes[table["group"] == group].sum())
    assert table.drop_duplicates("group")["price"].astype(float).sum() == pytest.approx(left, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_price_of_one_group_is_the_derivative_in_its_own_tolerance(seed):
    Z, step = aware(90 + seed, 100), 1e-6
    program = program_of(Z, lambda J, P: gaps("dp", J, P).values())
    at = np.repeat([0.03, 0.04, 0.05], 3)
    table = solve(Z, Constraint("dp", {0: 0.03, 1: 0.04, 2: 0.05}), method="lp", n_jobs=1).multipliers
    for group in range(3):
        unit = step * np.repeat(np.arange(3) == group, 3)
        before, middle, after = (program(-bound, bound) for bound in (at - unit, at, at + unit))
        left, right = (middle - before) / step, (after - middle) / step
        if abs(left - right) > 1e-3:
            continue  # a kink: any price between the two is right
        assert table["price"][table["group"] == group].iloc[0] == pytest.approx(left, abs=1e-3)


def test_prices_of_costs_are_in_the_units_of_the_costs():
    Z, R, xi, step = aware(84, 100), 7 * costs(84), 0.03, 1e-6
    program = program_of(Z, lambda J, P: gaps("dp", J, P).values(), costs=R)
    slope = (program(-xi - step, xi + step) - program(-xi + step, xi - step)) / (2 * step)
    table = solve(Z, "dp", xi, costs=R, method="lp", n_jobs=1).multipliers
    assert table["multiplier"].astype(float).abs().sum() == pytest.approx(slope, rel=1e-3)


def test_prices_of_two_constraints_are_kept_apart():
    Z = aware(81, 100)
    table = solve(Z, [Constraint("dp", 0.02), Constraint("oae", 0.02)], method="lp", n_jobs=1).multipliers
    for (_criterion, _group), rows in table.groupby(["criterion", "group"]):
        assert set(rows["price"]) == {rows["price"].iloc[0]}
        assert rows["price"].iloc[0] == pytest.approx(rows["multiplier"].astype(float).abs().sum())
    assert set(table["criterion"][table["price"] > 0]) == {"dp", "oae"}


def test_the_exact_multipliers_have_the_signs_that_their_bounds_allow(make_tilted):
    Z = make_tilted(300, 3, 3, 11)
    exact = solve(Z, Ratio("eo", 0.9965, "overall"), method="lp", random_state=0)
    dual = solve(Z, Ratio("eo", 0.9965, "overall"), random_state=0)
    assert (exact.multipliers["multiplier"] <= 0).all()
    assert exact.certificate.accuracy == pytest.approx(dual.certificate.accuracy, abs=2e-3)
    assert dual.certificate.upper_bound >= exact.certificate.upper_bound - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_linear_program_and_the_dual_agree_when_both_are_asked(seed):
    Z = aware(29 + seed, 200)
    dual, lp = (solve(Z, "eo", 0.02, method=method, n_jobs=1).certificate for method in ("dual", "lp"))
    assert lp.upper_bound <= dual.upper_bound + 1e-9, "the program's own multipliers give the least bound"
    assert abs(dual.accuracy - lp.accuracy) <= 1e-3
    assert lp.excess == dual.excess == 0.0
