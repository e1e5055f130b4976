"""Test the minimisers of one dual problem: they satisfy the KKT conditions, and agree with each other."""

import numpy as np
import pytest

from optfair.dual.lbfgs import minimise_lbfgs
from optfair.dual.newton import _inverse, minimise_newton, quadratic_step
from optfair.dual.penalty import Box
from optfair.dual.spectral import minimise_spectral


@pytest.mark.parametrize("cap", [np.inf, 0.3])
@pytest.mark.parametrize("seed", range(10))
def test_quadratic_step_satisfies_its_kkt_conditions(seed, cap):
    """−∇ of the quadratic at λ lies in ∂σ(λ), also when Q is singular."""
    rng = np.random.default_rng(seed)
    K = 12
    half = rng.standard_normal((K, K - 4 if seed % 2 else K)) * np.geomspace(1, 30, K)[:, None]
    Q, q = half @ half.T, 0.1 * rng.standard_normal(K)
    if seed % 2:
        q = Q @ rng.standard_normal(K) * 0.1  # in the range of Q: bounded below
    box = Box(np.full(K, -0.05), np.full(K, 0.05), cap)
    tolerance = 1e-6
    lam = quadratic_step(Q, q, box, np.zeros(K), tolerance, 20_000)
    gradient = Q @ lam + q
    total = np.abs(lam).sum()
    assert total <= cap + 1e-9
    # the multiplier of the cap: a common ν ≥ 0, zero unless the cap is active
    nu = 0.0 if total < cap * (1 - 1e-6) else max(0.0, -(gradient @ lam) / total - 0.05)
    assert np.abs(gradient[lam == 0]).max(initial=0) <= 0.05 + nu + 2 * tolerance
    np.testing.assert_allclose(gradient[lam != 0], -(0.05 + nu) * np.sign(lam[lam != 0]), atol=2 * tolerance)
    assert lam.any()


def test_a_matrix_that_is_indefinite_by_rounding_is_inverted():
    """ADMM lowers its penalty until the matrix of a singular problem is no longer positive definite in floats."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 3))
    Q = root @ root.T - 1e-9 * np.eye(6)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(Q + 1e-10 * np.eye(6))
    inverse = _inverse(Q, 1e-10)
    b = root @ rng.normal(size=3)  # in the range of Q, where the answer is that of the singular problem
    np.testing.assert_allclose(Q @ (inverse @ b), b, rtol=1e-3)


def minimise(method, make_case, cap, tolerance):
    """Return (residual, value, value at λ = 0) of a method on a new problem."""
    dual, rows = make_case()
    box, zero = Box(rows.lower, rows.upper, cap), np.zeros(len(rows))
    minimum = method(dual, box, zero, tolerance, 5000)
    lam = minimum.point.multipliers
    assert np.abs(lam).sum() <= cap + 1e-9
    assert minimum.converged and minimum.confirmed
    assert minimum.residual == box.residual(lam, minimum.point.values)
    return minimum.residual, minimum.point.smooth + box.value(lam), dual.evaluate(zero).smooth


def test_newton_and_lbfgs_find_the_same_minimum(make_case):
    """Both minimise the same convex function; λ may differ (rows that say the same), the value may not."""
    newton, lbfgs = (minimise(method, make_case, np.inf, 1e-5) for method in (minimise_newton, minimise_lbfgs))
    assert max(newton[0], lbfgs[0]) <= 1e-5
    assert newton[1] == pytest.approx(lbfgs[1], abs=1e-5)
    assert newton[1] < newton[2] - 1e-4


def test_newton_and_spectral_find_the_same_minimum_under_a_cap(make_case):
    newton, spectral = (minimise(method, make_case, 0.1, 1e-4) for method in (minimise_newton, minimise_spectral))
    assert max(newton[0], spectral[0]) <= 1e-4
    assert newton[1] < newton[2] - 1e-4
    assert newton[1] == pytest.approx(spectral[1], abs=1e-4)


@pytest.mark.parametrize(
    ("method", "line_search"),
    [(minimise_newton, 0), (minimise_spectral, 0), (minimise_lbfgs, 20)],  # L-BFGS-B ends its line search first
)
def test_a_method_stops_after_the_passes_it_may_take(method, line_search, make_dual):
    for passes in (1, 2, 5):
        dual, rows = make_dual()
        minimum = method(dual, Box(rows.lower, rows.upper), np.zeros(len(rows)), 1e-9, passes)
        assert dual.passes <= passes + (line_search if passes > 1 else 0)
        assert not minimum.converged and minimum.residual > 1e-9
