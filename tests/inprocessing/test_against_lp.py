"""Test that the mixture of the rounds converges to the solution of a linear program, whatever is asked for."""

import numpy as np
import pytest

from optfair import Constraint, MinimumRate, Ratio
from optfair.inprocessing.mixture import round_weights
from tests.inprocessing.helpers import FEW_ROUNDS, best_value, fit_population, naive_rows, population
from tests.problems import CRITERIA, gaps, linear_rows

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

SIZES = {"2 by 2": (2, 2), "3 by 3": (3, 3), "4 groups, 2 classes": (4, 2), "2 groups, 4 classes": (2, 4)}


def mixed(model, mixture, shape):
    """Return J (A, m, m) of a mixture of the rounds."""
    w = round_weights(mixture, model.game_, model.trace_)
    assert w.sum() == pytest.approx(1) and (w >= 0).all()
    return np.tensordot(w, model.trace_.confusions, axes=1).reshape(shape)


@pytest.mark.parametrize(
    "size, start", [*((size, "zero") for size in SIZES), ("3 by 3", "post"), ("2 groups, 4 classes", "post")]
)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_mixtures_converge_to_the_linear_program(criterion, size, start):
    """Each of them: within a hundredth of the best accuracy, and of the tolerance."""
    A, m = SIZES[size]
    P, xi = population(19, A=A, m=m), 0.02
    D = naive_rows(criterion, P)
    best = best_value(P, D, -xi, xi)
    assert P.sum(axis=1).max(axis=1).sum() > best + 2e-3  # fairness costs something
    step = min(0.2, 1.5 / len(D))  # a constant step leaves an error of η/2 Σ D_k²
    model = fit_population(P, criterion=criterion, tolerance=xi, rounds=300, start=start, step=step, mixture="lp")
    assert (start == "post") == bool(model.trace_.multipliers[0].any())
    for mixture in ("all", "last_half", "lp"):
        J = mixed(model, mixture, (A, m, m))
        violation = max(abs(gap) for gap in gaps(criterion, J, P.sum(axis=0)).values())
        assert abs(np.einsum("aii->", J) - best) <= 1e-2, mixture
        assert violation <= xi + 1e-2, mixture
        if mixture == "lp":
            assert np.einsum("aii->", J) <= best + 1e-6 and violation <= xi + 1e-6
    assert model.training_.violation == pytest.approx(violation, abs=1e-9)


def test_one_sided_rows_move_one_way():
    P = population(11, A=2, m=3)
    constraints = [MinimumRate("recall", 0.4), Ratio("dp", 0.7)]
    model = fit_population(P, criterion=constraints, rounds=300, step=0.05, mixture="lp")
    assert (model.trace_.multipliers <= 0).all()  # all have lower bounds only
    assert model.training_.excess <= 1e-6
    J, prior = mixed(model, "lp", (2, 3, 3)), P.sum(axis=0)
    assert (np.einsum("aii->ai", J) / prior).min() >= 0.4 - 1e-6
    rates = J.sum(axis=1) / prior.sum(axis=1)[:, None]
    assert (rates[0] >= 0.7 * rates[1] - 1e-6).all() and (rates[1] >= 0.7 * rates[0] - 1e-6).all()

    def recalls(J, P):
        return (np.einsum("aii->ai", J) / P).ravel()

    def ratios(J, P):
        r = J.sum(axis=1) / P.sum(axis=1)[:, None]
        return np.concatenate([r[0] - 0.7 * r[1], r[1] - 0.7 * r[0]])

    D = np.concatenate([linear_rows(recalls, prior), linear_rows(ratios, prior)])
    best = best_value(P, D, np.r_[np.full(6, 0.4), np.zeros(6)], np.inf)
    assert model.training_.accuracy == pytest.approx(best, abs=1e-2)


def test_a_tolerance_per_group():
    P, tolerance = population(12), {0: 0.02, 1: 0.1}
    options = {"rounds": 300, "step": 0.05}
    model = fit_population(P, criterion=Constraint("dp", tolerance), mixture="lp", **options)
    table = model.multipliers_
    assert set(table["group"]) == {0, 1}
    assert (table["value"].abs() <= table["upper"] + 1e-6).all()
    names = gaps("dp", np.zeros((3, 3, 3)), P.sum(axis=0))
    D = [row for row, name in zip(naive_rows("dp", P), names, strict=True) if name[0] < 2]
    limits = np.repeat([0.02, 0.1], 3)
    assert model.training_.accuracy == pytest.approx(best_value(P, D, -limits, limits), abs=1e-2)
    same = fit_population(P, tolerance=tolerance, **options)
    np.testing.assert_array_equal(same.trace_.multipliers, model.trace_.multipliers)


def test_several_criteria_at_once():
    P = population(13)
    model = fit_population(P, criterion=["dp", "oae"], tolerance=0.03, rounds=400, step=0.05, mixture="lp")
    D = np.concatenate([naive_rows(criterion, P) for criterion in ("dp", "oae")])
    assert model.training_.accuracy == pytest.approx(best_value(P, D, -0.03, 0.03), abs=1e-2)
    assert model.training_.violation <= 0.03 + 1e-6
    assert set(model.multipliers_["criterion"]) == {"dp", "oae"}


def test_costs():
    """Expected costs of the mixture against the linear program; multipliers are in units of costs."""
    P = population(14)
    R = np.random.default_rng(0).uniform(1, 4, (3, 3)) * (1 - np.eye(3))
    model = fit_population(P, costs=R, criterion="dp", tolerance=0.03, rounds=400, step=0.05, mixture="lp")
    best = best_value(P, naive_rows("dp", P), -0.03, 0.03, -np.broadcast_to(R, (3, 3, 3)))
    assert -(mixed(model, "lp", (3, 3, 3)) * R).sum() == pytest.approx(best, abs=1e-2 * R.max())
    mean = model.trace_.multipliers[200:].mean(axis=0)
    np.testing.assert_allclose(model.multipliers_["multiplier"], mean * R.max(), atol=1e-12)
    # λ = 0 with costs gives the cheapest prediction, not the likeliest
    cheapest = -np.einsum("xai,ij->xj", P, R)
    np.testing.assert_array_equal(model.plain_(np.eye(8)).argmax(axis=1), cheapest.argmax(axis=1))
