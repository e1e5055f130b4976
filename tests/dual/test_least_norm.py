"""Test the multipliers of least norm: the same rule, at no higher price."""

import numpy as np
import pytest

from optfair.dual.least_norm import least_norm
from optfair.dual.newton import minimise_newton
from optfair.dual.penalty import Box
from optfair.dual.problem import cell_weights
from tests.problems import CRITERIA, aware, blind, compiled


def matrix_and_box(Z, criterion="dp"):
    posterior, rows = compiled(Z, criterion, 0.02)
    return rows.matrix(posterior.prior), Box(rows.lower, rows.upper)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("A, m", [(2, 2), (3, 3), (2, 4), (4, 2)])
def test_least_norm_keeps_the_rule_and_is_no_larger(make_dual, criterion, reference, A, m):
    """Same W up to a constant per cell (softmax does not see it), no larger ‖λ‖₂, no larger σ(λ)."""
    dual, rows = make_dual("aware", criterion, 0.01, seed=7, n=200, groups=A, classes=m, reference=reference)
    problem, box = dual.problem, Box(rows.lower, rows.upper)
    minimum = minimise_newton(dual, box, np.zeros(len(rows)), 1e-6, 200)
    assert minimum.converged
    lam, values = minimum.point.multipliers, minimum.point.values
    new = least_norm(problem.matrix, m, box, lam, values, 0.05)
    weights = [cell_weights(problem.utility, problem.matrix, multipliers) for multipliers in (new, lam)]
    change = weights[0] - weights[1]
    np.testing.assert_allclose(change, np.broadcast_to(change.mean(axis=1, keepdims=True), change.shape), atol=1e-6)
    assert np.linalg.norm(new) <= np.linalg.norm(lam) + 1e-9
    assert box.value(new) <= box.value(lam) + 1e-5 * np.abs(lam).sum() + 1e-9
    assert box.residual(new, values) <= 1e-5


def test_rows_that_say_the_same_share_their_multiplier_evenly():
    """With two classes the DP rows of outcomes 0 and 1 say the same: λ that is all on the first is shared out."""
    matrix, box = matrix_and_box(aware(7, 200, 3, 2))
    values = np.tile([0.02, -0.02], 3) * np.repeat([1, -1, 0], 2)  # group 0 at its upper, 1 at its lower bound
    lam = np.array([0.3, 0.0, 0.0, 0.1, 0.0, 0.0])
    new = least_norm(matrix, 2, box, lam, values, 0.05)
    np.testing.assert_allclose(new, [0.15, -0.15, -0.05, 0.05, 0.0, 0.0], atol=1e-6)


def test_multipliers_are_not_mutated_and_zero_stays_zero():
    matrix, box = matrix_and_box(blind(7))
    values = np.full(9, 0.02)
    lam = np.abs(np.random.default_rng(0).standard_normal(9))
    before = lam.copy()
    least_norm(matrix, 3, box, lam, values, 0.05)
    np.testing.assert_array_equal(lam, before)
    assert not least_norm(matrix, 3, box, np.zeros(9), values, 0.05).any()
