"""Test bounds as their multipliers see them: the support function, its prox, and the KKT residual."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from optfair.dual.penalty import Box


def random_box(seed, K=4, cap=np.inf):
    """Return two-sided, one-sided and shifted bounds."""
    rng = np.random.default_rng(seed)
    lower, upper = -rng.uniform(0, 0.3, K), rng.uniform(0, 0.3, K)
    lower[1], upper[2] = -np.inf, np.inf
    lower[3] = upper[3] - 0.05
    upper[2], lower[2] = np.inf, 0.2
    return Box(lower, upper, cap)


@pytest.mark.parametrize("cap", [np.inf, 1.0, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_prox_minimises_its_objective(seed, cap):
    """Against SLSQP on the smooth split form λ = p − q, p, q ≥ 0 (and Σ p + q ≤ cap)."""
    rng = np.random.default_rng(seed + 50)
    box = random_box(seed, cap=cap)
    v, step = rng.normal(scale=1.0, size=4), rng.uniform(0.2, 2.0, 4)
    lam = box.prox(v, step)

    def objective(x):
        return box.value(x) + ((x - v) ** 2 / (2 * step)).sum()

    up, down = np.isfinite(box.upper), np.isfinite(box.lower)
    linear = np.concatenate([np.where(up, box.upper, 0), np.where(down, -box.lower, 0)])
    numeric = optimize.minimize(
        lambda y: linear @ y + ((y[:4] - y[4:] - v) ** 2 / (2 * step)).sum(),
        np.full(8, 0.01),
        bounds=[(0, None if ok else 0) for ok in [*up, *down]],
        constraints=[] if np.isinf(cap) else [{"type": "ineq", "fun": lambda y: cap - y.sum()}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    other = numeric.x[:4] - numeric.x[4:]
    assert np.abs(lam).sum() <= cap + 1e-9
    assert objective(lam) <= objective(other) + 1e-9
    np.testing.assert_allclose(lam, other, atol=1e-4)
    if cap < np.inf:
        assert np.abs(box.prox(v, step)).sum() <= np.abs(replace(box, cap=np.inf).prox(v, step)).sum() + 1e-12


def test_sigma_is_the_support_function_of_the_box():
    """σ(λ) = max of λ·v over lower ≤ v ≤ upper, +inf where λ leans on an open side."""
    rng = np.random.default_rng(0)
    lower, upper = -rng.random(3), rng.random(3)
    box, lam = Box(lower, upper), rng.standard_normal(3)
    corners = np.stack(np.meshgrid(*zip(lower, upper, strict=True)), axis=-1).reshape(-1, 3)
    assert box.value(lam) == pytest.approx((corners @ lam).max())
    assert random_box(0).value(np.array([0, -1.0, 0, 0])) == np.inf
    assert random_box(0).value(np.array([0, 0, 1.0, 0])) == np.inf
    assert np.isfinite(random_box(0).value(np.array([1.0, 1.0, -1.0, -1.0])))


def test_residual_is_zero_exactly_where_the_multiplier_allows_the_value():
    box = Box(np.full(3, -0.1), np.full(3, 0.2))
    for lam, value in [(0.5, 0.2), (-0.5, -0.1), (0.0, 0.2), (0.0, -0.1), (0.0, 0.03)]:
        assert box.residual(np.full(3, lam), np.full(3, value)) == 0.0
    for lam, value, distance in [(0.5, 0.05, 0.15), (-0.5, 0.05, 0.15), (0.0, 0.25, 0.05), (0.5, 0.3, 0.1)]:
        assert box.residual(np.full(3, lam), np.full(3, value)) == pytest.approx(distance)


def test_residual_under_an_active_cap_allows_one_common_loosening():
    box = Box(np.full(3, -0.1), np.full(3, 0.1), cap=1.0)
    lam = np.array([0.5, -0.5, 0.0])
    assert box.residual(lam, np.array([0.3, -0.3, 0.25])) == pytest.approx(0.0, abs=1e-15)
    assert box.residual(lam, np.array([0.3, -0.3, 0.35])) == pytest.approx(0.05)
    assert box.residual(0.5 * lam, np.array([0.3, -0.3, 0.0])) == pytest.approx(0.2)  # below the cap: no excuse
