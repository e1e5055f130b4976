"""Check limits over unknown groups: against those of the extreme assignment, and how often they fail."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, MinimumRate, Ratio
from optfair.constraints import compile_rows
from optfair.metrics import group_confusion, unknown_group_bounds
from optfair.metrics.assignments import share_out
from optfair.metrics.bounds import row_limits
from optfair.metrics.extreme_limits import standard_errors
from optfair.metrics.extremes import row_extremes
from optfair.metrics.group_sets import find_sets
from optfair.metrics.partial_counts import add_unknown, count_partial_rows
from optfair.metrics.unknown_groups import bound_unknown
from tests.metrics.helpers import from_counts
from tests.metrics.unknown_helpers import EVERY_KIND, GAPS, WAYS, draw, hide, row_values, table_keys

M = 3


def some_unknown(seed, n=600, A=3):
    y, answer, group = draw(seed, n, A, M)
    return y, answer, group, np.random.default_rng(seed + 100).random(n) < 0.2


def limits_of_assignment(y, answer, group, constraint, key, level):
    """Return the limits of one row where the groups of all people are known."""
    counts = group_confusion(y, answer, sensitive_features=group)
    rows = compile_rows([constraint], counts.groups, counts.classes, counts.prior)
    k = table_keys(rows.table).index(key)
    return tuple(limit[k] for limit in row_limits(counts, rows, level))


# -- the extreme assignment, made ----------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "oae"])
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("kind", [Constraint, Ratio])
def test_limits_are_those_of_the_extreme_assignment(criterion, reference, kind):
    """All unknown hits to the first group, all unknown misses to the second, or to another: then nobody is unknown."""
    y, answer, group, missing = some_unknown(0)
    constraint = kind(criterion, 0.5, reference=reference)
    bounds = unknown_group_bounds(y, answer, sensitive_features=hide(group, missing), criterion=constraint, level=0.9)
    for row in bounds.table.itertuples():
        key = (row.group, row.against, row.given, row.outcome)
        other = row.against if reference == "pairwise" else (row.group + 1) % 3
        hit = answer == (y if row.outcome is None else row.outcome)
        for sign, limit in ((True, row.high), (False, row.low)):
            complete = np.where(missing, np.where(hit == sign, row.group, other), group)
            limits = limits_of_assignment(y, answer, complete, constraint, key, 0.9)
            assert limits[int(sign)] == pytest.approx(limit, abs=1e-12)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
def test_limits_of_mean_equalized_odds_are_those_of_its_extreme_assignment(reference):
    y, answer, group, missing = some_unknown(1)
    constraint = Constraint("meo", 0.5, reference=reference)
    bounds = unknown_group_bounds(y, answer, sensitive_features=hide(group, missing), criterion=constraint, level=0.9)
    for row in bounds.table.itertuples():
        other = row.against if reference == "pairwise" else (row.group + 1) % 3
        slope = np.where(y == row.outcome, 1, 1 if row.given == "TPR+FPR" else -1)  # hits raise the row, or lower it
        raises = (answer == row.outcome) == (slope > 0)
        for sign, limit in ((True, row.high), (False, row.low)):
            complete = np.where(missing, np.where(raises == sign, row.group, other), group)
            key = (row.group, row.against, row.given, row.outcome)
            limits = limits_of_assignment(y, answer, complete, constraint, key, 0.9)
            assert limits[int(sign)] == pytest.approx(limit, abs=1e-12)


@pytest.mark.parametrize("constraint", EVERY_KIND, ids=repr)
@pytest.mark.parametrize("refusal", [1, 3, np.inf])
def test_nobody_unknown_gives_the_limits_of_known_groups(constraint, refusal):
    y, answer, group, _ = some_unknown(2)
    counts = group_confusion(y, answer, sensitive_features=group)
    rows = compile_rows([constraint], counts.groups, counts.classes, counts.prior)
    table = unknown_group_bounds(y, answer, sensitive_features=group, criterion=constraint, refusal=refusal).table
    np.testing.assert_allclose(table[["low", "high"]].T, row_limits(counts, rows, 0.95), atol=1e-12)


def test_limits_are_beyond_the_bounds_and_widen_with_the_level():
    y, answer, group, missing = some_unknown(3)
    for refusal in (1, 2, np.inf):
        tables = [
            unknown_group_bounds(
                y, answer, sensitive_features=hide(group, missing), criterion=GAPS, refusal=refusal, level=level
            ).table
            for level in (0.8, 0.95)
        ]
        assert (tables[0]["low"] <= tables[0]["least"]).all() and (tables[0]["high"] >= tables[0]["most"]).all()
        assert (tables[1]["low"] <= tables[0]["low"]).all() and (tables[1]["high"] >= tables[0]["high"]).all()


# -- standard errors -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("refusal", [1.0, 2.5])
@pytest.mark.parametrize("is_soft", [False, True])
def test_standard_errors_are_those_of_finite_differences(refusal, is_soft):
    """The variance of f(T) is Σ_s,i b S b with b the derivative of f by the cells of kind s and class i."""
    y, answer, group, missing = some_unknown(4)
    frame = pd.DataFrame({"a": hide(group, missing), "b": hide(y % 2, np.roll(missing, 3))})
    h = np.random.default_rng(0).dirichlet(np.ones(M), len(y)) if is_soft else answer
    counts = count_partial_rows(y, h, frame, np.random.default_rng(1).uniform(1, 2, len(y)))
    constraints = [Constraint("dp", 0.1, "pairwise"), Constraint("oae", 0.1, attributes="marginals"), Ratio("dp")]
    A, T = len(counts.groups), counts.kinds.tensor
    known = T[:A].sum(axis=2)
    rows = compile_rows(constraints, counts.groups, counts.kinds.classes, known / known.sum())
    sets = find_sets(rows, counts.attributes[:A], M)

    def extremes(tensor):
        moved = replace(counts, kinds=replace(counts.kinds, tensor=tensor))
        return row_extremes(moved.kinds, rows, sets, share_out(moved, sets, refusal))

    present, step = T.sum(axis=0) > 0, 1e-7
    B = np.zeros((2, len(rows), *T.shape))
    for s, i, j in np.argwhere(np.broadcast_to(present, T.shape) & (T > 0)):
        up, down = T.copy(), T.copy()
        up[s, i, j] += step
        down[s, i, j] -= step
        for side, name in enumerate(("least", "most")):
            B[side, :, s, i, j] = (getattr(extremes(up), name) - getattr(extremes(down), name)) / (2 * step)
    for side, sign in ((0, -1.0), (1, 1.0)):
        S = counts.kinds.moments
        variance = np.einsum("ksij,sijl,ksil->k", B[side], S, B[side])
        np.testing.assert_allclose(standard_errors(extremes(T), sign) ** 2, variance, rtol=1e-3)


# -- how often they fail -------------------------------------------------------------------------------------
SOME_KINDS = [*GAPS[:2], *GAPS[4::2], Ratio("dp"), MinimumRate("recall", 0.3), MinimumRate("selection", 0.2)]
RUNS = 300
SLACK = 0.05  # four standard errors of one in twenty in so many runs: there are some forty rows


def failures(J, openness, n, refusal, seed):
    """Return how often low is above the truth, and high below it, in each row, as a frame.

    J : (A, m, m) population. openness : (A, m, m) probability to be of known group, by group, true class and answer.
    """
    A, m, _ = J.shape
    truth = [value for constraint in SOME_KINDS for value in row_values(constraint, J).items()]
    values = np.array([value for _, value in truth])
    joint = np.concatenate([J * openness, J * (1 - openness)]).ravel()
    rng = np.random.default_rng(seed)
    counts, runs = np.zeros((2, len(truth))), 0
    for _ in range(RUNS):
        sample = rng.multinomial(n, joint / joint.sum()).reshape(2 * A, m, m)
        if (sample[:A].sum(axis=2) == 0).any():
            continue
        partial = add_unknown(from_counts(sample[:A]), sample[A:].sum(axis=0))
        table = bound_unknown(partial, SOME_KINDS, refusal=refusal).table
        assert table_keys(table) == [key for key, _ in truth]
        counts += [table["low"] > values + 1e-12, table["high"] < values - 1e-12]
        runs += 1
    assert runs > 0.8 * RUNS
    return table[["criterion", "group", "against", "given", "outcome"]].assign(
        below=counts[0] / runs, above=counts[1] / runs
    )


def population(seed=0, sizes=(0.6, 0.3, 0.1), m=2):
    rng = np.random.default_rng(seed)
    P = np.array(sizes)[:, None] * rng.dirichlet(np.full(m, 8.0), len(sizes))
    return P[..., None] * (0.4 * np.eye(m) + 0.6 * rng.dirichlet(np.ones(m), P.shape))


def openness_by(way, shape):
    """Return the probability to be of known group, by group, true class and answer."""
    a, i, j = np.indices(shape)
    return {
        "at random": np.full(shape, 0.6),
        "by group": np.where(a == 0, 0.4, 0.8),
        "by class": np.where(i == 0, 0.4, 0.9),
        "by answer": np.where(j == 0, 0.4, 0.9),
        "by an adversary": np.where((a == 0) == (j == 1), 0.5, 0.999),
    }[way]


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 1000])
@pytest.mark.parametrize("way", WAYS)
def test_the_truth_is_inside_whatever_the_groups_are(way, n):
    J = population()
    wrong = failures(J, openness_by(way, J.shape), n, np.inf, 0)
    assert wrong[["below", "above"]].to_numpy().max() <= 0.05 + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 1000])
def test_the_limit_is_hardly_wider_than_it_must_be(n):
    """An adversary who hides only hits of one group and misses of the others makes the truth the extreme."""
    J = population()
    a, _, j = np.indices(J.shape)
    wrong = failures(J, np.where((a == 0) == (j == 1), 0.6, 1.0), n, np.inf, 1)
    rate = wrong[(wrong["criterion"] == "minimum selection") & (wrong["group"] == 0) & (wrong["outcome"] == 1)]
    gap = wrong[(wrong["criterion"] == "dp") & (wrong["against"] == "overall") & (wrong["group"] == 0)]
    assert 0.02 <= rate["above"].item() <= 0.05 + SLACK
    assert 0.02 <= gap[gap["outcome"] == 1]["above"].item() <= 0.05 + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 2000])
@pytest.mark.parametrize(("refusal", "factor"), [(1.0, 1.0), (2.0, 2.0), (2.0, 0.5)])
def test_the_truth_is_inside_if_refusal_is_of_that_factor(n, refusal, factor):
    """In each cell the odds to tell are those of the cell, and group 0 tells with odds that differ by the factor."""
    J = population()
    a, i, j = np.indices(J.shape)
    odds = np.where(i == j, 1.5, 0.8) * np.where(a == 0, factor, 1.0)
    wrong = failures(J, odds / (1 + odds), n, refusal, 2)
    assert wrong[["below", "above"]].to_numpy().max() <= 0.05 + SLACK
