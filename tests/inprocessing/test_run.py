"""Test runs: plain training comes first, constraints that never bind change nothing, and where a run ends."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import MinimumRate
from optfair.inprocessing.game import Trace, play
from optfair.inprocessing.run import run
from tests.inprocessing.helpers import (
    CLASSES,
    CODE,
    FEW_ROUNDS,
    WEIGHT,
    X_NEW,
    X,
    fit,
    population,
    population_game,
    quick,
    table_learner,
)

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)


# -- λ = 0 is plain training -------------------------------------------------------------------------------
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("shift", ["cell", "global"])
def test_constraints_that_never_bind_leave_a_tree_as_it_is(weight, shift):
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    model = fit(quick(tree, shift=shift, tolerance=1.0), sample_weight=weight)
    plain = tree.fit(X, CODE, sample_weight=weight)
    assert not model.trace_.multipliers.any() and model.n_fits_ == 1
    for member in (*model.mixture_.members, *model.plain_.members):
        for part in ("children_left", "children_right", "feature", "threshold", "value", "weighted_n_node_samples"):
            np.testing.assert_array_equal(getattr(member.tree_, part), getattr(plain.tree_, part))
    np.testing.assert_array_equal(model.predict(X_NEW), CLASSES[plain.predict(X_NEW)])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_constraints_that_never_bind_leave_logistic_regression_as_it_is(weight):
    model = fit(quick(tolerance=1.0), sample_weight=weight)
    plain = LogisticRegression().fit(X, CODE, sample_weight=weight)
    for member in model.mixture_.members:
        np.testing.assert_allclose(member.coef_, plain.coef_, atol=1e-4)
        np.testing.assert_allclose(member.intercept_, plain.intercept_, atol=1e-4)


# -- rounds ------------------------------------------------------------------------------------------------
def test_a_run_has_a_model_of_each_round_and_the_plain_one():
    P = population(10)
    game, learner = population_game(P, cap=2.0), table_learner(P)
    start = np.zeros(len(game.rows))
    trace, models, plain = run(game, learner, start, 10, "adaptive", "cell")
    *_, (_, played) = play(game, table_learner(P), Trace.empty(game, start), 10, "adaptive")
    np.testing.assert_array_equal(trace.multipliers, played.multipliers)
    np.testing.assert_array_equal(trace.next, played.next)
    for model, J in zip(models, trace.confusions, strict=True):
        np.testing.assert_array_equal(game.confusion(learner.predict_codes(model)), J)
    np.testing.assert_array_equal(plain.predict(np.eye(8)), P.sum(axis=1).argmax(axis=1))


def test_a_run_continues_from_its_trace():
    """Ten rounds, or four and then six."""
    P = population(10)
    game, learner = population_game(P, cap=2.0), table_learner(P)
    empty = Trace.empty(game, np.zeros(len(game.rows)))
    *_, (_, whole) = play(game, learner, empty, 10, "adaptive")
    first = next(itertools.islice(play(game, learner, empty, 10, "adaptive"), 3, None))[1]
    *_, (_, rest) = play(game, learner, first, 10, "adaptive")
    assert len(first) == 4 and len(rest) == len(whole) == 10
    np.testing.assert_array_equal(rest.multipliers, whole.multipliers)
    np.testing.assert_array_equal(rest.next, whole.next)


# -- stopping early ----------------------------------------------------------------------------------------
def test_a_run_ends_once_the_violation_of_a_round_is_below_the_limit():
    model = fit(quick(rounds=30, stop_below=0.1, max_multiplier=5.0))
    violation = model.history_["violation"].to_numpy()
    assert len(violation) < 30 and violation[-1] < 0.1 and (violation[:-1] >= 0.1).all()
    assert len(model.trace_) == model.training_.rounds == len(violation)
    assert len(fit(quick(rounds=3, stop_below=1e-9)).history_) == 3


@pytest.mark.filterwarnings("ignore:max_multiplier")
def test_where_no_gap_is_asked_for_the_excess_decides():
    """Minimum rates have no violation."""
    model = fit(quick(criterion=MinimumRate("recall", 0.95), stop_below=0.01, max_multiplier=1.0, step=0.3))
    assert len(model.history_) == 3 and (model.history_["excess"] > 0.01).all()
