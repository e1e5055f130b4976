"""Test the step of the multipliers: its prox against a solver, its size, and a whole run replayed by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse

from optfair import MinimumRate, Rows
from optfair.dual.penalty import Box
from optfair.inprocessing.game import step_size
from tests.inprocessing.helpers import FEW_ROUNDS, class_scores, fit_population, naive_rows, population, population_game

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- prox --------------------------------------------------------------------------------------------------
def random_bounds(rng, K):
    """Return bounds, some two-sided, some one-sided either way."""
    half = rng.uniform(0, 0.3, K)
    lower, upper = -half + rng.choice([0.0, 0.1], K), half + rng.choice([0.0, 0.1], K)
    kind = rng.choice(4, K, p=[0.5, 0.2, 0.2, 0.1])
    lower[kind == 1] = -np.inf
    upper[kind == 2] = np.inf
    return np.minimum(lower, upper), upper


def solve_prox(v, step, lower, upper, cap):
    """Return (λ, value) of the same quadratic program in λ = p − q, p, q ≥ 0, by SLSQP."""
    K = len(v)
    high, low = np.where(np.isfinite(upper), upper, 0.0), np.where(np.isfinite(lower), lower, 0.0)

    def value(z):
        lam = z[:K] - z[K:]
        return high @ z[:K] - low @ z[K:] + ((lam - v) ** 2 / (2 * step)).sum()

    def slope(z):
        pull = (z[:K] - z[K:] - v) / step
        return np.concatenate([high + pull, -low - pull])

    solution = optimize.minimize(
        value,
        np.zeros(2 * K),
        jac=slope,
        bounds=[(0, None if np.isfinite(bound) else 0) for bound in [*upper, *lower]],
        constraints=[{"type": "ineq", "fun": lambda z: cap - z.sum(), "jac": lambda z: -np.ones(2 * K)}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return solution.x[:K] - solution.x[K:], solution.fun


@pytest.mark.parametrize("seed", range(40))
def test_the_prox_against_a_solver(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 7))
    lower, upper = random_bounds(rng, K)
    v, eta = rng.normal(size=K), rng.uniform(0.2, 2.0)
    cap = np.inf if seed % 5 == 0 else rng.uniform(0.1, 1.5)
    box, step = Box(lower, upper, cap), np.full(K, eta)
    lam = box.prox(v, step)
    assert np.abs(lam).sum() <= cap * (1 + 1e-9)
    assert not (lam[np.isinf(upper)] > 0).any() and not (lam[np.isinf(lower)] < 0).any()
    solved, value = solve_prox(v, step, lower, upper, min(cap, 1e6))
    assert box.value(lam) + ((lam - v) ** 2 / (2 * step)).sum() <= value + 1e-9
    np.testing.assert_allclose(lam, solved, atol=1e-4)


def threshold_then_project(v, threshold, cap):
    """Return the soft threshold of v, then its projection on the L1 ball, by bisection of the ball's own threshold."""
    soft = np.sign(v) * np.maximum(np.abs(v) - threshold, 0)
    if np.abs(soft).sum() <= cap:
        return soft
    level = optimize.brentq(lambda s: np.maximum(np.abs(soft) - s, 0).sum() - cap, 0, np.abs(soft).max(), xtol=1e-14)
    return np.sign(soft) * np.maximum(np.abs(soft) - level, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_prox_is_a_threshold_and_then_a_projection(seed):
    rng = np.random.default_rng(100 + seed)
    K, xi, eta, cap = 8, 0.1, rng.uniform(0.1, 3.0), rng.uniform(0.2, 2.0)
    v = 2 * rng.normal(size=K)
    lam = Box(np.full(K, -xi), np.full(K, xi), cap).prox(v, np.full(K, eta))
    np.testing.assert_allclose(lam, threshold_then_project(v, eta * xi, cap), atol=1e-9)


# -- the size of the step ----------------------------------------------------------------------------------
def test_step_sizes():
    game = population_game(population(3), "dp", 0.07, cap=2.5)
    K = len(game.rows)
    values = np.random.default_rng(0).normal(size=(40, K))
    assert step_size("theorem", game, 25)(values) == pytest.approx(2.5 / (1.07 * np.sqrt(K * 25)))
    assert step_size(0.3, game, 25)(values) == 0.3
    assert step_size(0.3, replace(game, scale=10.0), 25)(values) == pytest.approx(0.03)  # a unit of U is worth ten
    adaptive = step_size("adaptive", game, 25)
    sizes = np.array([adaptive(values[:t]) for t in range(1, 41)])
    assert (np.diff(sizes) <= 0).all()
    assert sizes[-1] == pytest.approx(2.5 / np.sqrt(2 * (values**2).sum()))
    theorem_of_one_row = 2.5 / (1.07 * np.sqrt(25))
    assert adaptive(0 * values[:1]) == pytest.approx(theorem_of_one_row)  # nothing is violated yet
    one_sided = population_game(population(3), MinimumRate("recall", 0.3), None)
    constant = 3.0 / (1.3 * np.sqrt(len(one_sided.rows) * 25))  # the infinite bounds do not count
    assert step_size("theorem", one_sided, 25)(values) == pytest.approx(constant)


def test_steps_know_the_size_of_rows_that_the_user_gives():
    D = sparse.random_array((2, 2 * 3 * 3), density=0.5, random_state=0).tocsr() * 1000
    game = population_game(population(3, A=2), Rows(D, lower=[-5, -5], upper=[5, 5]), None, cap=2.0)
    expected = 2.0 / ((abs(D).max() + 5) * np.sqrt(2 * 4))
    assert step_size("theorem", game, 4)(np.zeros((1, 2))) == pytest.approx(expected)


# -- rounds ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", ["theorem", "adaptive", 0.11])
def test_every_round_is_a_best_response_and_a_prox(step):
    """The recorded run, replayed from the definitions."""
    P = population(4)
    model = fit_population(P, criterion="eop", tolerance=0.02, rounds=15, step=step, max_multiplier=1.0)
    trace, game = model.trace_, model.game_
    D = naive_rows("eop", P, game.rows.table)
    size, lam, values = step_size(step, game, 15), np.zeros(len(D)), []
    for t in range(15):
        np.testing.assert_allclose(trace.multipliers[t], lam, atol=1e-9)
        J = np.einsum("xai,xj->aij", P, np.eye(3)[class_scores(P, D, lam).argmax(axis=1)])
        np.testing.assert_allclose(trace.confusions[t], J.reshape(9, 3), atol=1e-12)
        values.append(np.einsum("kaij,aij->k", D, J))
        eta = size(np.array(values))
        assert trace.steps[t] == pytest.approx(eta)
        lam = threshold_then_project(lam + eta * values[-1], 0.02 * eta, 1.0)
    np.testing.assert_allclose(trace.next, lam, atol=1e-9)
