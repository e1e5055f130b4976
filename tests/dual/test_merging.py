"""Test that merged cells change no number that the dual knows."""

import numpy as np
import pytest

from optfair import MinimumRate
from optfair.constraints import as_constraints, compile_rows
from optfair.dual.merging import MergedMeasure, find_merge, merge_problems
from optfair.dual.posterior import check_posterior
from optfair.dual.problem import DualProblem
from tests.problems import blind, weights

N, A, M = 500, 4, 5
COSTS = np.random.default_rng(0).random((A * M, M))
OFFSET = np.random.default_rng(1).normal(scale=0.2, size=(N, M))


def problem_of(criterion, utility=None, offset=None, sample_weight=None):
    Z = blind(0, N, A, M)
    posterior = check_posterior(Z, sample_weight=sample_weight, offset=offset)
    constraints = as_constraints(criterion, 0.01 if isinstance(criterion, str) else None)
    rows = compile_rows(constraints, posterior.groups, posterior.classes, posterior.prior)
    identity = np.tile(np.eye(M), (A, 1))
    return DualProblem(posterior, rows.matrix(posterior.prior), identity if utility is None else utility)


@pytest.mark.parametrize("common", [True, False], ids=["common", "groups"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"offset": OFFSET}, {"utility": COSTS}, {"utility": np.zeros((A * M, M))}, {"sample_weight": weights(0, N)}],
    ids=["plain", "offset", "costs", "nothing", "weights"],
)
def test_merged_cells_have_the_same_value_gradient_and_hessian(arguments, common):
    problem = problem_of("dp", **arguments)
    factors = np.ones(A * M) if common else np.repeat([1.0, 2.0, 1.0, 5.0], M)
    (merged,), merged_factors = merge_problems([problem], factors, {})
    assert merged.posterior.n_cells == A, "the classes of a group are alike for demographic parity"
    lam = 0.05 * np.random.default_rng(2).standard_normal(problem.matrix.shape[0])
    before, after = problem.evaluate(lam, 0.05 * factors), merged.evaluate(lam, 0.05 * merged_factors)
    assert after.smooth == pytest.approx(before.smooth, abs=1e-12)
    np.testing.assert_allclose(after.values, before.values, atol=1e-12)
    np.testing.assert_allclose(after.curvature.numbers, before.curvature.numbers, atol=1e-6)
    hessians = [p.hessian(e, np.random.default_rng(0)) for p, e in ((problem, before), (merged, after))]
    np.testing.assert_allclose(*hessians, atol=1e-9 * np.abs(hessians[0]).max())
    np.testing.assert_allclose(merged.score_metric, problem.score_metric, atol=1e-10)


def test_cells_that_are_told_apart_are_not_merged():
    for criterion in ("eo", "eop", "oae"):
        assert len(find_merge([problem_of(criterion)], np.ones(A * M)).starts) == A * M
    mixed = [*as_constraints("dp", 0.01), MinimumRate("recall", 0.2, outcomes=[0])]
    merge = find_merge([problem_of(mixed)], np.ones(A * M))
    assert len(merge.starts) == 2 * A, "the class whose recall is bounded, and the others, in each group"


def test_temperatures_tell_cells_apart():
    factors = np.ones(A * M)
    factors[1] = 2.0
    assert len(find_merge([problem_of("dp")], factors).starts) == A + 1


def test_what_does_not_pay_is_left_as_it_is():
    problem, factors = problem_of("eo"), np.ones(A * M)
    problems, same = merge_problems([problem], factors, {})
    assert problems[0] is problem and same is factors


def test_neighbouring_problems_share_the_merged_rows():
    store, factors = {}, np.ones(A * M)
    first = problem_of("dp")
    second = DualProblem(first.posterior, first.matrix, first.utility)
    (a,), _ = merge_problems([first], factors, store)
    (b,), _ = merge_problems([second], factors, store)
    assert a.posterior is b.posterior
    (c,), _ = merge_problems([DualProblem(first.posterior, first.matrix, COSTS)], factors, store)
    assert c.posterior is not a.posterior


@pytest.mark.parametrize("arguments", [{}, {"offset": OFFSET}, {"sample_weight": weights(0, N)}])
def test_rows_merged_as_they_are_read_equal_those_merged_in_memory(arguments):
    problem = problem_of("dp", **arguments)
    merge = find_merge([problem], np.ones(A * M))
    lazy, kept = MergedMeasure(problem.posterior, merge), merge.posterior(problem.posterior)
    matrix, nothing = merge.matrix(problem.matrix, M), np.zeros((A, M))
    lam, tau = 0.05 * np.ones(problem.matrix.shape[0]), np.full(A, 0.05)
    one, other = (DualProblem(measure, matrix, nothing).evaluate(lam, tau) for measure in (lazy, kept))
    assert one.smooth == other.smooth
    np.testing.assert_array_equal(one.values, other.values)
    samples = [measure.draw(50, lambda block: block.Z[:, 0].astype(float)) for measure in (lazy, kept)]
    np.testing.assert_array_equal(samples[0].Z, samples[1].Z)
    np.testing.assert_array_equal(samples[0].prior, samples[1].prior)
    assert lazy.has_offset and not lazy.without_offset().has_offset
    assert lazy.with_sample(0)[1].n_cells == A
