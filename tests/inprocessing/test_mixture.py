"""Test how rounds are mixed: weights against the program written out, probabilities against each member."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression

from optfair import OptFairWarning, metrics
from optfair.inprocessing.game import Trace
from optfair.inprocessing.mixture import Mixture, ModelScores, round_weights
from tests.inprocessing.helpers import (
    CLASSES,
    CODE,
    FEW_ROUNDS,
    SEX,
    X_NEW,
    XA,
    X,
    Y,
    fit,
    fit_population,
    population,
    quick,
)

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- weights of the rounds ---------------------------------------------------------------------------------
def test_equal_weights_of_all_rounds_or_of_the_last_half():
    model = fit_population(population(6), rounds=5)
    np.testing.assert_allclose(round_weights("all", model.game_, model.trace_), np.full(5, 0.2))
    np.testing.assert_allclose(round_weights("last_half", model.game_, model.trace_), [0, 0, 1 / 3, 1 / 3, 1 / 3])
    one = fit_population(population(6), rounds=1)
    np.testing.assert_array_equal(round_weights("last_half", one.game_, one.trace_), [1.0])


def test_no_mixture_of_the_rounds_is_better_than_the_lp_mixture():
    """Against the same program written out: no mixture of the rounds within tolerance is more accurate."""
    model = fit_population(population(6), criterion="dp", tolerance=0.05, rounds=40, step=0.1)
    game, trace = model.game_, model.trace_
    D = np.array([game.values(J) for J in trace.confusions])
    gain = np.array([J.reshape(3, 3, 3).trace(axis1=1, axis2=2).sum() for J in trace.confusions])
    program = optimize.linprog(
        -gain, np.vstack([D.T, -D.T]), np.full(2 * D.shape[1], 0.05), np.ones((1, 40)), [1.0], method="highs"
    )
    w = round_weights("lp", game, trace)
    assert w @ gain == pytest.approx(-program.fun, abs=1e-6)
    assert np.abs(w @ D).max() <= 0.05 + 1e-8
    # where no mixture is within tolerance, the least excess comes first
    few = Trace(trace.multipliers[:2], trace.confusions[:2], trace.steps[:2], trace.next)
    w = round_weights("lp", game, few)
    least = min(np.abs(s * D[0] + (1 - s) * D[1]).max() for s in np.linspace(0, 1, 2001))
    assert np.abs(w @ D[:2]).max() <= least + 1e-6


def test_the_lp_mixture_pays_no_more_than_the_bound_for_its_excess():
    """Against random mixtures: none has a larger min over multipliers of the Lagrangian."""
    model = fit(quick(mixture="lp", rounds=12, tolerance=0.01))
    assert model.mixture_.weights.sum() == pytest.approx(1, abs=1e-15)
    game, trace = model.game_, model.trace_

    def worth(w):
        J = np.tensordot(w, trace.confusions, axes=1)
        return (game.utility * J).sum() - game.cap * game.rows.excess(game.values(J))

    weights = np.random.default_rng(0).dirichlet(np.full(len(trace), 0.3), 300)
    best = max(worth(w) for w in [*weights, *np.eye(len(trace))])
    assert best <= model.training_.accuracy - game.cap * model.training_.excess + 1e-9


def test_the_lp_mixture_where_every_row_is_far_inside():
    """Rows at distance one from both bounds: once taken for the column of another variable."""
    P = population(6, A=1)
    with pytest.warns(OptFairWarning, match="there is one group"):
        model = fit_population(P, criterion="dp", tolerance=1.0, rounds=3, mixture="lp")
    np.testing.assert_allclose(model.mixture_.weights.sum(), 1)
    assert model.training_.accuracy == pytest.approx(P.sum(axis=1).max(axis=1).sum())


# -- probabilities -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("mixture", ["all", "last_half", "lp"])
def test_probabilities_are_the_weight_of_the_rounds_that_predict_a_class(mixture):
    model = fit(quick(rounds=9, mixture=mixture, step=1.0, max_multiplier=5.0))
    members, w = model.mixture_.members, model.mixture_.weights
    assert len(members) == len(w) and w.sum() == pytest.approx(1) and (w > 0).all()
    if mixture != "lp":
        np.testing.assert_allclose(w, 1 / {"all": 9, "last_half": 5}[mixture])
    codes = np.array([member.predict(X_NEW) for member in members])
    h = np.stack([(w[:, None] * (codes == j)).sum(axis=0) for j in range(3)], axis=1)
    np.testing.assert_allclose(model.predict_proba(X_NEW), h, atol=1e-9)
    np.testing.assert_allclose(h.sum(axis=1), 1)
    # what the summary says of the rows trained on is what the mixture predicts for them
    h = model.predict_proba(X)
    assert model.training_.members == len(members)
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(Y)), CODE].mean())
    violation = metrics.violation(Y, h, sensitive_features=SEX, criterion="dp", classes=list(CLASSES))
    assert model.training_.violation == pytest.approx(violation)


def test_a_class_that_all_members_predict_is_certain():
    """Sums of weights are one only up to rounding; certainty is exact."""
    member = LogisticRegression().fit(XA, CODE)
    h = Mixture(None, (member,) * 10, np.full(10, 0.1), 3)(XA)
    np.testing.assert_array_equal(h, np.eye(3)[member.predict(XA)])


def test_scores_of_a_model_that_knows_fewer_classes():
    """Scores for classes it has never seen are zero."""
    two = LogisticRegression().fit(XA, np.where(Y == "b", 1, 2))
    scores = ModelScores(None, two, CLASSES).predict_proba(X_NEW.to_numpy())
    assert scores.shape == (len(X_NEW), 3) and (scores[:, 0] == 0).all()
    np.testing.assert_allclose(scores.sum(axis=1), 1)
    np.testing.assert_array_equal(scores[:, 1:], two.predict_proba(X_NEW.to_numpy()))
