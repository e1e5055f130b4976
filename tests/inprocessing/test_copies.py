"""Test weighted copies of the rows: what the classifier is given, where it continues from, and what counts copies."""

import sys
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from optfair.inprocessing.copies import _is_part_of, settings_that_count_copies
from optfair.inprocessing.game import soft_targets
from optfair.inprocessing.learners import make_learner
from tests.inprocessing.helpers import (
    CODE,
    FEW_ROUNDS,
    SEX,
    WEIGHT,
    X_NEW,
    XA,
    RecordingTree,
    Y,
    draw_groups,
    draw_rows,
    fit,
    quick,
    read_rows,
)

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

PLAIN = np.tile(np.eye(3), (2, 1))


def learner_of(estimator, data=None, without_weights="error"):
    return make_learner(estimator, read_rows() if data is None else data, None, 0, 1, without_weights)


# -- copies and their weights ------------------------------------------------------------------------------
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_copies_carry_the_weight_of_the_rows(weight):
    """One copy per class with a positive target, and the total weight of the rows."""
    RecordingTree.fits.clear()
    model = quick(RecordingTree(max_depth=3)).fit(XA, Y, sensitive_features=SEX, sample_weight=weight)
    total = len(Y) if weight is None else weight.sum()
    plain, *rounds = RecordingTree.fits
    np.testing.assert_array_equal(plain[0], XA)
    np.testing.assert_array_equal(plain[1], CODE)
    assert (plain[2] is None) if weight is None else np.array_equal(plain[2], weight)
    assert rounds and len(rounds) == model.n_fits_ - 1
    for rows, labels, w in rounds:
        assert (w > 0).all() and w.sum() == pytest.approx(total)
        assert len(rows) == len(labels) == len(w) and len(Y) <= len(w) <= 2 * len(Y)  # the worst class has none


def test_copies_carry_the_weight_of_the_rows_learned_from():
    """With rows held out the cells of the learner are not quite those of D."""
    RecordingTree.fits.clear()
    quick(RecordingTree(max_depth=3), held_out=0.3).fit(XA, Y, sensitive_features=SEX)
    plain, *rounds = RecordingTree.fits
    assert rounds and all(w.sum() == pytest.approx(len(plain[1])) for _, _, w in rounds)


def test_with_two_classes_no_row_is_copied():
    RecordingTree.fits.clear()
    quick(RecordingTree(max_depth=3)).fit(XA, Y == "a", sensitive_features=SEX)
    first = RecordingTree.fits[0][0]
    assert len(RecordingTree.fits) > 1 and all(rows is first for rows, _, _ in RecordingTree.fits)


def test_a_class_that_is_worth_nothing_in_any_cell():
    """λ so large that one class has no copies: the learner knows fewer classes for a while."""
    learner = learner_of(LogisticRegression())
    two = np.tile([[0.5, 0.0, 0.0], [0.2, 0.3, 0.0], [0.0, 0.4, 0.0]], (2, 1))
    one = np.tile([[0.5, 0.0, 0.0]], (6, 1))
    for targets, classes in ((PLAIN, 3), (two, 2), (one, 1), (PLAIN * 0.5, 3)):
        codes = learner.predict_codes(learner.best_response(targets, 0))
        assert set(codes) <= set(range(classes)) and len(codes) == len(Y)


# -- rows drawn instead of weights -------------------------------------------------------------------------
def test_rows_are_drawn_in_proportion_to_their_weights():
    """Of many equal rows, the share of those drawn is the share of the weight."""
    n, drawn = 20_000, []

    class RecordingNeighbours(KNeighborsClassifier):
        def fit(self, X, y):
            drawn.append(y)
            return super().fit(X[:50], y[:50])

    data = read_rows(np.zeros((n, 1)), np.arange(n) % 2, np.repeat([0, 1], n // 2))
    targets = np.array([[0.9, 0.0], [0.0, 0.1], [0.3, 0.0], [0.5, 0.2]])  # four cells of the same size
    learner_of(RecordingNeighbours(), data, "resample").best_response(targets, 0)
    assert len(drawn[0]) == n
    assert np.mean(drawn[0] == 1) == pytest.approx((0.1 + 0.2) / targets.sum(), abs=0.02)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_draws_depend_on_the_seed_and_are_for_learners_without_weights(weight):
    def fitted(estimator, **options):
        return fit(quick(estimator, **options), sample_weight=weight)

    neighbours = KNeighborsClassifier(9)
    one, two = (fitted(neighbours, without_weights="resample") for _ in range(2))
    np.testing.assert_array_equal(one.trace_.multipliers, two.trace_.multipliers)
    np.testing.assert_array_equal(one.predict(X_NEW), two.predict(X_NEW))
    other = fitted(neighbours, without_weights="resample", random_state=1)
    assert (other.trace_.confusions[1:] != one.trace_.confusions[1:]).any()
    weighted = fitted(LogisticRegression(), without_weights="resample")  # takes weights: nothing is drawn
    np.testing.assert_array_equal(weighted.trace_.multipliers, fitted(LogisticRegression()).trace_.multipliers)


# -- warm starts -------------------------------------------------------------------------------------------
def test_linear_learners_continue_from_the_round_before():
    estimator = LogisticRegression(tol=1e-6)
    model = fit(quick(estimator, rounds=12, step=0.02, mixture="all"))
    game, warm = model.game_, model.mixture_.members[1:]
    targets = [soft_targets(game.weights(lam), game.share, "cell") for lam in model.trace_.multipliers[1:]]
    cold = [learner_of(estimator).best_response(T, t) for t, T in enumerate(targets)]
    assert sum(m.n_iter_.max() for m in warm) < 0.8 * sum(m.n_iter_.max() for m in cold)
    for one, other in zip(warm, cold, strict=True):  # to the same end
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-2)
    assert not model.estimator.warm_start


@pytest.mark.parametrize(
    "ensemble",
    [RandomForestClassifier(4, warm_start=True), GradientBoostingClassifier(n_estimators=4, warm_start=True)],
    ids=["forest", "boosting"],
)
def test_trees_are_grown_anew_in_every_round(ensemble):
    model = fit(quick(ensemble, rounds=4, mixture="all"))
    members = model.mixture_.members
    assert [len(member.estimators_) for member in members] == [4] * 4
    assert len({id(member) for member in members}) > 1
    cold = fit(clone(model).set_params(estimator__warm_start=False))
    np.testing.assert_array_equal(model.trace_.multipliers, cold.trace_.multipliers)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_of_scikit_learn_are_trained_in_every_round():
    """With warm_start they remember that they have converged, and stop after one pass."""
    X, y, group = draw_groups(400)
    network = MLPClassifier((8,), max_iter=60, learning_rate_init=0.02)
    model = quick(network, tolerance=0.0, rounds=12, max_multiplier=3.0, step="theorem")
    model.fit(X, y, sensitive_features=group)
    assert min(member.n_iter_ for member in model.mixture_.members) > 5
    assert model.history_["violation"].iloc[-4:].mean() < 0.5 * model.history_["violation"].iloc[0]


def test_members_are_copies():
    """What continues from a round leaves the model of that round as it was."""
    coefficients = [member.coef_ for member in fit(quick(rounds=5, step=1.0, mixture="all")).mixture_.members]
    assert len({c.tobytes() for c in coefficients}) > 1
    assert not any(np.shares_memory(a, b) for i, a in enumerate(coefficients) for b in coefficients[:i])


def test_a_peek_changes_nothing():
    """It returns the next best response, and the learner continues as if it had not been asked."""
    learner, other = learner_of(LogisticRegression()), learner_of(LogisticRegression())
    T = soft_targets(PLAIN - 0.3 * np.random.default_rng(0).random((6, 3)), np.full(6, 1 / 6), "cell")
    for one in (learner, other):
        one.best_response(PLAIN, -1)
    peeked = learner.peek(T, 0)
    assert learner.n_fits == 1
    for model in (peeked, learner.best_response(T, 0)):
        np.testing.assert_array_equal(model.coef_, other.best_response(T, 0).coef_)


# -- settings that count copies ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "estimator, settings",
    [
        (LogisticRegressionCV(cv=3), ("cv=3",)),
        (LogisticRegression(), ()),
        (RandomForestClassifier(), ()),
        (HistGradientBoostingClassifier(early_stopping=False), ()),
    ],
    ids=["inner folds", "linear", "forest", "no early stopping"],
)
def test_settings_in_which_copies_count_as_rows(estimator, settings):
    assert settings_that_count_copies(estimator, 3, "cell") == settings
    assert settings_that_count_copies(estimator, 2, "cell") == ()  # one copy of each row
    assert settings_that_count_copies(estimator, 2, "global") == settings


def test_early_stopping_by_size_counts_rows_and_not_copies():
    estimator, (frame, y) = HistGradientBoostingClassifier(max_iter=3), draw_rows(6_000)
    model = quick(estimator, rounds=2).fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
    assert model.n_fits_ == 2 and not any(member.do_early_stopping_ for member in model.mixture_.members)
    assert settings_that_count_copies(estimator, 3, "cell", 10_500) == ("early_stopping='auto'",)
    assert settings_that_count_copies(estimator, 3, "cell", 6_000) == ()


# -- what a checkpoint may hold ----------------------------------------------------------------------------
def test_a_checkpoint_does_not_choose_what_is_imported(monkeypatch):
    package = ModuleType("another_package")
    package.Thing = type("Thing", (), {"__module__": "another_package"})
    monkeypatch.setitem(sys.modules, "another_package", package)
    assert not _is_part_of(LogisticRegression(), "another_package.Thing")
    assert _is_part_of(package.Thing(), "another_package.Thing")
    assert not _is_part_of(LogisticRegression(), "sklearn.no_such_module_yet.Thing")
    assert "sklearn.no_such_module_yet" not in sys.modules
    name = "sklearn.experimental.enable_halving_search_cv"
    monkeypatch.delitem(sys.modules, name, raising=False)
    assert not _is_part_of(LogisticRegression(), f"{name}.HalvingGridSearchCV") and name not in sys.modules
