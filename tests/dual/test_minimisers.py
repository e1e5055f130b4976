"""Test the minimisers of one dual problem: they satisfy the KKT conditions, and agree with each other."""

from dataclasses import replace

import numpy as np
import pytest

from optfair.dual import admm, newton
from optfair.dual.admm import _inverse, quadratic_step
from optfair.dual.lbfgs import minimise_lbfgs
from optfair.dual.newton import minimise_newton, near_rows
from optfair.dual.penalty import Box
from optfair.dual.settings import NEWTON
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_is_one_in_either_precision(dtype):
    half = np.random.default_rng(0).standard_normal((8, 8))
    Q = (half @ half.T).astype(dtype)
    inverse = _inverse(Q, 0.1)
    assert inverse.dtype == dtype
    np.testing.assert_allclose((Q + 0.1 * np.eye(8)) @ inverse, np.eye(8), atol=2000 * np.finfo(dtype).eps)


def test_float32_goes_on_in_float64_where_its_iterations_are_not_enough(monkeypatch):
    """The step is the same, whatever float32 has reached before."""
    rng = np.random.default_rng(0)
    K = 12
    half = rng.standard_normal((K, K))
    Q, q, box = half @ half.T, rng.standard_normal(K), Box(np.full(K, -0.05), np.full(K, 0.05))
    steps = []
    for settings in ({"large_system": 1}, {"large_system": 1, "single_iterations": 10}, {}):
        monkeypatch.setattr(admm, "NEWTON", replace(NEWTON, **settings))
        steps.append(quadratic_step(Q, q, box, np.zeros(K), 1e-5))
        assert box.residual(steps[-1], -(Q @ steps[-1] + q)) <= 1.1e-5
    np.testing.assert_allclose(steps[0], steps[2], atol=1e-3)
    np.testing.assert_allclose(steps[1], steps[2], atol=1e-3)


def test_rows_without_price_and_far_from_their_bounds_are_left_alone(monkeypatch):
    box = Box(np.array([-0.1, -0.1, -0.1, 0.2, 0.2]), np.array([0.1, 0.1, 0.1, np.inf, np.inf]))
    lam, values = np.array([0.0, 0.3, 0.0, 0.0, 0.0]), np.array([0.01, 0.0, 0.09, 0.25, 0.9])
    assert near_rows(box, lam, values).tolist() == [0, 1, 2, 3, 4], "few are all moved"
    monkeypatch.setattr(newton, "NEWTON", replace(NEWTON, large_system=1))
    assert near_rows(box, lam, values).tolist() == [1, 2, 3]


def test_newton_finds_the_minimum_by_moving_near_rows_alone(make_case, monkeypatch):
    everywhere = minimise(minimise_newton, make_case, np.inf, 1e-5)
    monkeypatch.setattr(newton, "NEWTON", replace(NEWTON, large_system=1, near_share=0.05, near_rate=0.01))
    near = minimise(minimise_newton, make_case, np.inf, 1e-5)
    assert near[0] <= 1e-5
    assert near[1] == pytest.approx(everywhere[1], abs=1e-5)


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
