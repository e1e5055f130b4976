"""What labels say about a rule: b is its definition, is trusted as far as it exceeds noise, and moves bounds so far."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.label_correction import (
    SHARE,
    label_bias,
    labelled_violation,
    one_step,
    solve_in_one_step,
    solve_in_rounds,
    trust,
)
from optfair.constraints import as_constraints
from optfair.dual.posterior import check_posterior
from optfair.rule.driver import solve_problem
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from optfair.rule.rule import probabilities_of
from tests.posteriors.helpers import draw_cells
from tests.problems import blind

A, M, N = 2, 3, 4000


def make_problem(seed, exponent=1.0, shift=0.0, tolerance=0.02):
    """Return the problem of labels drawn from the truth, with Z = P^exponent, group 0 and class 0 overestimated."""
    rng = np.random.default_rng(seed)
    P = blind(seed, N, A, M).reshape(N, -1)
    cell, Z = draw_cells(P, rng), P**exponent
    Z[:, 0] *= np.exp(shift)
    posterior = check_posterior((Z / Z.sum(axis=1, keepdims=True)).reshape(N, A, M))
    return FairProblem.prepare(
        replace(posterior, cell=cell), as_constraints("eo", tolerance), None, Options(random_state=0)
    )


def test_the_bias_is_the_labelled_value_minus_that_on_z():
    problem = make_problem(0, 1.5, 0.5)
    rule = solve_problem(problem).rule
    bias, error = label_bias(problem, rule)
    Z = problem.posterior.Z.reshape(N, -1)
    h, onehot = probabilities_of(rule, Z, None), np.eye(A * M)[problem.posterior.cell]
    J, plug_in = ((z.T @ h / N).reshape(A, M, M) for z in (onehot, Z))
    np.testing.assert_allclose(bias, problem.rows.values(J) - problem.rows.values(plug_in), atol=1e-12)
    assert (error > 0).all()


def test_where_z_is_the_truth_bias_is_noise_and_hardly_trusted():
    sizes = []
    for seed in range(6):
        problem = make_problem(seed)
        bias, error = label_bias(problem, solve_problem(problem).rule)
        sizes.append(np.mean((bias / error) ** 2))
        assert trust(bias, error, problem.rows.source).max() < 0.6
    assert 0.5 < np.mean(sizes) < 1.5  # in units of its standard error


@pytest.mark.parametrize(("solve", "share"), [(solve_in_rounds, 0.7), (solve_in_one_step, 0.9)])
def test_a_large_error_of_z_is_corrected(solve, share):
    """One step is capped by the tolerance, so that a part of the error stays."""
    problem = make_problem(1, 1.4, 0.6)
    everybody = np.ones(N, dtype=bool)
    before, after = (labelled_violation(problem, f(problem, None).rule, everybody) for f in (solve_problem, solve))
    assert after < share * before


def test_one_step_moves_no_bound_beyond_what_is_certain_and_a_share_of_the_tolerance():
    problem = make_problem(2, tolerance=0.05)
    plain = solve_problem(problem)
    corrected = one_step(problem, plain, None)
    Z = problem.posterior.Z.reshape(N, -1)
    J = (Z.T @ probabilities_of(corrected.rule, Z, None) / N).reshape(A, M, M)
    bias, error = label_bias(problem, plain.rule)
    certain = np.maximum(np.abs(bias) - 2 * error, 0)
    assert (np.abs(problem.rows.values(J)) <= 0.05 + certain + SHARE * 0.05 + 1e-6).all()
