"""Test the distance from an equilibrium and the regret: both against enumeration, both within their theorem's bound."""

import itertools

import numpy as np
import pytest

from optfair.inprocessing.game import Trace, soft_targets
from tests.inprocessing.helpers import (
    FEW_ROUNDS,
    fit,
    fit_population,
    naive_rows,
    population,
    population_game,
    quick,
    table_learner,
)
from tests.problems import CRITERIA

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- the distance from an equilibrium ----------------------------------------------------------------------
def enumerated_gap(P, criterion, xi, B, J, lam, table):
    """Return max over all deterministic rules of L(h, λ), minus min over ‖λ'‖₁ ≤ B of L(h̄, λ')."""
    D = naive_rows(criterion, P, table)
    m = P.shape[2]

    def lagrangian(J, lam):
        return np.einsum("aii->", J) - lam @ np.einsum("kaij,aij->k", D, J) + xi * np.abs(lam).sum()

    rules = itertools.product(range(m), repeat=len(P))
    best = max(lagrangian(np.einsum("xai,xj->aij", P, np.eye(m)[list(h)]), lam) for h in rules)
    # L is linear between the corners of the ball and zero: the least is at one of them
    corners = [np.zeros(len(D)), *(s * B * e for e in np.eye(len(D)) for s in (1, -1))]
    return best - min(lagrangian(J, corner) for corner in corners)


@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_the_gap_is_that_of_all_deterministic_rules(criterion):
    P, xi, B = population(7, n_x=5, A=2, m=3), 0.02, 2.0
    model = fit_population(P, criterion=criterion, tolerance=xi, rounds=30, step=0.1, max_multiplier=B)
    trace = model.trace_
    for t in (1, 2, 7, 30):
        J, lam = trace.confusions[:t].mean(axis=0), trace.multipliers[:t].mean(axis=0)
        expected = enumerated_gap(P, criterion, xi, B, J.reshape(2, 3, 3), lam, model.game_.rows.table)
        assert expected >= -1e-12
        assert model.history_["equilibrium_gap"][t - 1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_gap_shrinks_below_the_theorems_bound(criterion):
    """Theorem 5.2 with best responses: gap ≤ u B √(K/T) at the theorem's step."""
    P, xi, B, T = population(8), 0.02, 1.5, 300
    model = fit_population(P, criterion=criterion, tolerance=xi, rounds=T, max_multiplier=B)
    gap = model.history_["equilibrium_gap"].to_numpy()
    K = len(model.game_.rows)
    assert gap[-1] <= (1 + xi) * B * np.sqrt(K / T)
    assert gap[-1] < 0.5 * gap[: T // 10].mean() and gap[-1] < 0.1
    assert (gap >= -1e-12).all()


def test_the_gap_is_unknown_where_rows_do_not_repeat():
    model = fit(quick(rounds=2))
    assert model.history_["equilibrium_gap"].isna().all() and np.isnan(model.training_.gap)
    assert "equilibrium" not in str(model.report())
    assert "distance from an equilibrium: at most" in str(fit_population(population(0), rounds=3).report())


# -- regret ------------------------------------------------------------------------------------------------
def regret_and_bound(game, trace, P, criterion, xi):
    """Return (regret against every fixed λ, B²/2η + η/2 Σ‖D‖²) of a run from zero, from the recorded numbers alone."""
    D = naive_rows(criterion, P, game.rows.table)
    J = trace.confusions.reshape(len(trace), *P.shape[1:], P.shape[2])
    values = np.einsum("kaij,taij->tk", D, J)
    gained = (trace.multipliers * values).sum() - xi * np.abs(trace.multipliers).sum()
    # the best fixed λ puts all of B on the row that is furthest out on average, or is zero
    best = max(0.0, game.cap * (np.abs(values.sum(axis=0)) - len(trace) * xi).max())
    eta = trace.steps[0]
    return best - gained, game.cap**2 / (2 * eta) + eta / 2 * (values**2).sum()


@pytest.mark.filterwarnings("ignore:max_multiplier")  # large steps end on the bound
@pytest.mark.parametrize("step", ["theorem", 0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_regret_is_bounded(criterion, step):
    P, xi = population(9), 0.02
    model = fit_population(P, criterion=criterion, tolerance=xi, rounds=60, step=step, max_multiplier=2.0)
    game, trace = model.game_, model.trace_
    regret, bound = regret_and_bound(game, trace, P, criterion, xi)
    assert regret <= bound + 1e-9
    assert trace.regret(game) == pytest.approx(regret, abs=1e-9)
    recorded = trace.regret_bound(game)
    assert recorded == pytest.approx(bound - xi * np.abs(trace.next).sum(), abs=1e-9)
    assert regret <= recorded + 1e-9


@pytest.mark.parametrize("start", ["zero", "post"])
@pytest.mark.parametrize("step", ["adaptive", 0.3])
def test_regret_is_bounded_from_any_start_and_with_steps_that_shrink(start, step):
    options = {"tolerance": 0.02, "rounds": 60, "step": step, "max_multiplier": 2.0, "start": start}
    model = fit_population(population(9), criterion="eo", **options)
    assert (start == "post") == bool(model.trace_.multipliers[0].any())
    assert model.trace_.regret(model.game_) <= model.trace_.regret_bound(model.game_) + 1e-9


def test_a_step_in_the_wrong_direction_breaks_the_bound():
    """The same pieces with λ − ηD: a wrong sign would be noticed."""
    P, xi, eta = population(9), 0.02, 0.1
    game, learner = population_game(P, "dp", xi, cap=2.0), table_learner(P)
    trace = Trace.empty(game, np.zeros(len(game.rows)))
    for t in range(300):
        targets = soft_targets(game.weights(trace.next), game.share, "cell")
        J = game.confusion(learner.predict_codes(learner.best_response(targets, t)))
        trace = trace.grown(J, eta, game.box.prox(trace.next - eta * game.values(J), np.full(len(game.rows), eta)))
    assert trace.regret(game) > trace.regret_bound(game) + 1
    regret, bound = regret_and_bound(game, trace, P, "dp", xi)
    assert regret > bound + 1
