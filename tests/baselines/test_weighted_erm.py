"""WeightedERM: the weights of fairlearn's reductions, the optimum of the linear program, and its arguments."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from optfair import solve
from optfair.baselines import ERM, WeightedERM
from optfair.baselines.weighted_erm import softmax_multipliers
from optfair.constraints import Constraint, compile_rows
from optfair.inprocessing.game import Game, soft_targets
from optfair.metrics import gaps, violation
from optfair.rule.problem import make_utility
from tests.baselines.helpers import (
    CRITERIA,
    adult,
    default_fit,
    evaluate,
    fit_rows,
    soft_violation,
    three_by_three,
    two_group_data,
)


# -- check 1: without a bound it is plain training ----------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wide_tolerance_is_plain_training(criterion):
    train, test = three_by_three()
    plain = ERM(random_state=0).fit(*train[:2])
    model = fit_rows(WeightedERM(criterion=criterion, tolerance=1.0, rounds=20, random_state=0), train)
    assert model.multipliers_["multiplier"].abs().max() < 1e-3
    last = model.mixture_.members[-1].predict(model.mixture_.transformer.transform(test[0]))
    np.testing.assert_array_equal(last, plain.predict(test[0]))
    assert (model.predict_proba(test[0]).argmax(axis=1) == plain.predict(test[0])).mean() > 0.999


# -- check 2: the weights of fairlearn's reductions ---------------------------------------------------------
@pytest.mark.parametrize(
    "criterion, moment, outcome",
    [("dp", "DemographicParity", 1), ("eo", "EqualizedOdds", 1), ("eop", "TruePositiveRateParity", 1)],
)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_weights_are_those_of_the_reductions(criterion, moment, outcome, n_groups):
    """Two classes: label argmin_j c_ij and weight |c_i0 − c_i1|, for any multipliers of the rates of class 1."""
    reductions = pytest.importorskip("fairlearn.reductions")
    rng = np.random.default_rng(3)
    a, y = rng.integers(0, n_groups, 500), rng.integers(0, 2, 500)
    reference, error = getattr(reductions, moment)(difference_bound=0.01), reductions.ErrorRate()
    for loss in (reference, error):
        loss.load_data(np.zeros((500, 1)), pd.Series(y), sensitive_features=pd.Series(a))
    lam = pd.Series(rng.random(len(reference.index)), index=reference.index)
    signed = np.asarray(error.signed_weights() + reference.signed_weights(lam))

    prior = np.bincount(a * 2 + y, minlength=2 * n_groups).reshape(n_groups, 2) / 500
    groups, classes = pd.RangeIndex(n_groups), pd.RangeIndex(2)
    rows = compile_rows([Constraint(criterion, 0.01)], groups, classes, prior)
    multipliers = np.zeros(len(rows))
    for (sign, event, group), value in lam.items():
        label = None if criterion == "dp" or event == "all" else int(event.partition("=")[2] or -1)
        same = (rows.table["group"] == group) & (rows.table["outcome"] == outcome)
        same &= rows.table["given"].isna() if label is None else rows.table["given"] == label
        assert same.sum() == 1
        multipliers[np.flatnonzero(same)[0]] += value if sign == "+" else -value
    game = Game(rows, rows.matrix(prior), make_utility(None, n_groups, 2).matrix, 2.0, a * 2 + y, np.full(500, 1 / 500))
    T = soft_targets(game.weights(multipliers), game.share, "cell")[a * 2 + y]
    np.testing.assert_array_equal(T.argmax(axis=1), signed > 0)
    np.testing.assert_allclose(T.max(axis=1), np.abs(signed) / np.abs(signed).mean(), rtol=1e-9)
    np.testing.assert_allclose(T.min(axis=1), 0.0, atol=1e-12)


# -- check 3: a table of cells, against the linear program --------------------------------------------------
def table_data(shape, n, seed):
    """Return the best accuracy within .05 of a criterion, as a function, and rows whose X is one of 12 cells.

    Rows are (X, y, groups, weights): one row for each cell, label and group, weighted by how many of n rows it has.
    """
    rng = np.random.default_rng(seed)
    A, m = shape
    joint = rng.dirichlet(np.full(A * m, 0.4), size=12).reshape(12, A, m)
    x = rng.integers(0, 12, n)
    pair = np.array([rng.choice(A * m, p=joint[cell].ravel()) for cell in x])
    counts = np.zeros((12, A, m))
    np.add.at(counts, (x, pair // m, pair % m), 1.0)
    mass = counts.sum(axis=(1, 2))

    def best(criterion):
        Z = counts / mass[:, None, None]
        return solve(Z, criterion, 0.05, sample_weight=mass, method="lp").certificate.upper_bound

    x, a, y = np.nonzero(counts)
    return best, (x[:, None], y, a, counts[x, a, y])


def weighted_rates(model, rows, criterion):
    """Return (accuracy, violation) of the probabilities of a model on weighted rows."""
    X, y, a, weight = rows
    h = model.predict_proba(X)
    gap = violation(
        y, h, sensitive_features=a, criterion=criterion, classes=model.classes_.tolist(), sample_weight=weight
    )
    return np.average(h[np.arange(len(y)), y], weights=weight), gap


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Predict the label of the largest weight in each cell, as a tree with a leaf per cell does, but in less time."""

    def fit(self, X, y, sample_weight=None):
        self.classes_, codes = np.unique(y, return_inverse=True)
        weights = np.zeros((12, len(self.classes_)))
        np.add.at(weights, (X[:, 0], codes), 1.0 if sample_weight is None else sample_weight)
        self.labels_ = self.classes_[weights.argmax(axis=1)]
        return self

    def predict(self, X):
        return self.labels_[X[:, 0]]


@pytest.mark.parametrize("shape", [(2, 2), (3, 3)])
@pytest.mark.parametrize("criterion", [*CRITERIA, "meo", "oae"])
def test_it_finds_the_optimum_of_a_table(criterion, shape):
    """The learner is the exact best response: the mixture is the optimum of the linear program."""
    best, rows = table_data(shape, 1000, seed=5)
    options = {"rounds": 300, "step": 8.0, "max_multiplier": 4.0, "mixture": "all", "random_state": 0}
    model = WeightedERM(TableClassifier(), criterion=criterion, tolerance=0.05, **options)
    X, y, a, weight = rows
    model.fit(X, y, sensitive_features=a, sample_weight=weight)
    accuracy, gap = weighted_rates(model, rows, criterion)
    assert gap <= 0.05 + 1e-2
    assert abs(accuracy - best(criterion)) <= 1e-2


# -- check 4: a mixture has the mean of the rates -----------------------------------------------------------
@pytest.mark.parametrize("mixture", ["last_half", "all", "best"])
def test_rates_of_the_mixture_are_the_means_of_its_rounds(mixture):
    X, y, a = two_group_data(600)
    model = WeightedERM(rounds=11, mixture=mixture, criterion="eo", random_state=0).fit(X, y, sensitive_features=a)
    rows = model.mixture_.transformer.transform(X)
    tables = [violations_table(member.predict(rows), y, a) for member in model.mixture_.members]
    assert len(tables) == {"last_half": 6, "all": 11, "best": 1}[mixture]
    np.testing.assert_allclose(model.multipliers_["value"], np.mean(tables, axis=0), atol=1e-12)
    np.testing.assert_allclose(violations_table(model.predict_proba(X), y, a), np.mean(tables, axis=0), atol=1e-9)


def violations_table(prediction, y, a):
    """Return the gaps of equalized odds, in one order."""
    table = gaps(y, prediction, sensitive_features=a, criterion="eo", classes=[0, 1, 2])
    return table.sort_values(["group", "given", "outcome"])["value"].to_numpy()


# -- violations --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_it_lowers_the_violation(criterion):
    train, test = three_by_three()
    plain, fair = ERM(random_state=0).fit(*train[:2]), default_fit("WeightedERM", criterion)
    assert soft_violation(fair, train, criterion) < 0.25 * soft_violation(plain, train, criterion)
    assert evaluate(fair, test, criterion)[1] < 0.5 * evaluate(plain, test, criterion)[1]
    assert set(fair.predict_proba(test[0]).argmax(axis=1)) == {0, 1, 2}  # not by a constant prediction


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["dp", "eo"])  # with two classes opportunity is odds
def test_adult(criterion):
    train, test = adult()
    plain = evaluate(ERM(random_state=0).fit(*train[:2]), test, criterion)
    fair = fit_rows(WeightedERM(criterion=criterion, random_state=0), train)
    accuracy, gap = evaluate(fair, test, criterion)
    assert gap < 0.03 < plain[1]
    assert accuracy > plain[0] - 0.03


def test_torch_networks_learn_too():
    nn = pytest.importorskip("optfair.nn", exc_type=ImportError)
    train, _ = three_by_three()
    network = make_pipeline(StandardScaler(), nn.TorchClassifier(epochs=10, batch_size=128))
    fair = fit_rows(WeightedERM(network, rounds=30, random_state=0), train)
    plain = ERM(network, random_state=0).fit(*train[:2])
    assert soft_violation(fair, train, "dp") < 0.5 * soft_violation(plain, train, "dp")


def test_the_best_round_is_deterministic_and_best():
    X, y, a = two_group_data(600)
    options = {"rounds": 20, "random_state": 0, "tolerance": 0.05}
    best = WeightedERM(mixture="best", **options).fit(X, y, sensitive_features=a)
    assert set(np.unique(best.predict_proba(X))) == {0.0, 1.0}
    worth = best.history_["accuracy"] - best.max_multiplier * best.history_["excess"]
    vote = (best.predict(X) == y).mean()
    assert vote == pytest.approx(best.history_["accuracy"][int(worth.argmax())])


def test_it_stops_at_the_gap():
    """The gap bounds how far the mixture's accuracy less B · excess is from the optimum, which a table makes exact."""
    best, rows = table_data((2, 3), 2000, seed=1)
    X, y, a, weight = rows
    options = {"rounds": 400, "max_multiplier": 3.0, "mixture": "all", "random_state": 0, "tolerance": 0.05}
    model, whole = (
        WeightedERM(DecisionTreeClassifier(), stop_gap=gap, **options).fit(
            X, y, sensitive_features=a, sample_weight=weight
        )
        for gap in (0.02, None)
    )
    assert model.gap_ <= 0.02 and len(model.history_) < 400 and len(model.history_) % 5 == 0
    assert np.isnan(whole.gap_) and len(whole.history_) == 400
    accuracy, gap = weighted_rates(model, rows, "dp")
    assert best("dp") - (accuracy - 3.0 * max(0.0, gap - 0.05)) <= 0.02 + 1e-9


@pytest.mark.parametrize("learner", ["steps", "network"])
def test_checks_of_the_gap_change_nothing(learner):
    """A gap of zero is never reached: both run all rounds, one with checks of the gap."""
    X, y, a = two_group_data(600)
    base = SGDClassifier(
        loss="log_loss", random_state=0
    )  # continues from its parameters, and does not end at an optimum
    if learner == "network":
        base = pytest.importorskip("optfair.nn", exc_type=ImportError).TorchClassifier(epochs=3, batch_size=64)
    plain = WeightedERM(base, rounds=12, random_state=0).fit(X, y, sensitive_features=a)
    checked = WeightedERM(base, rounds=12, stop_gap=0.0, random_state=0).fit(X, y, sensitive_features=a)
    assert checked.gap_ > 0 and len(checked.history_) == 12
    np.testing.assert_array_equal(checked.predict_proba(X), plain.predict_proba(X))
    pd.testing.assert_frame_equal(checked.history_, plain.history_)


def test_multipliers_are_bounded_and_start_at_zero():
    theta = np.random.default_rng(0).normal(scale=300, size=(2, 7))
    assert np.abs(softmax_multipliers(theta, 2.5)).sum() <= 2.5 + 1e-12
    assert not softmax_multipliers(np.zeros((2, 7)), 2.5).any()
    upper, lower = np.exp(theta / 300) / (1 + np.exp(theta / 300).sum())
    np.testing.assert_allclose(softmax_multipliers(theta / 300, 2.0), 2.0 * (upper - lower))


# -- weights and arguments -----------------------------------------------------------------------------------
def test_weights_are_copies():
    X, y, a = two_group_data(200)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weight[[np.flatnonzero(y == k)[0] for k in range(3)]] = 1
    base = LogisticRegression(tol=1e-10, max_iter=1000)
    weighted = WeightedERM(base, rounds=6, random_state=0).fit(X, y, sensitive_features=a, sample_weight=weight)
    index = np.repeat(np.arange(len(y)), weight)
    copies = WeightedERM(base, rounds=6, random_state=0).fit(X[index], y[index], sensitive_features=a[index])
    np.testing.assert_allclose(weighted.history_["violation"], copies.history_["violation"], atol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X), copies.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tolerance": -0.1}, "tolerance=-0.1: must be a number in [0, 1]."),
        ({"tolerance": 1.5}, "tolerance=1.5: must be a number in [0, 1]; did you mean 0.015?"),
        ({"tolerance": "x"}, "tolerance='x': must be a number"),
        ({"rounds": 0}, "rounds=0: must be an integer >= 1."),
        ({"inner_epochs": 1.5}, "inner_epochs=1.5: must be an integer >= 1."),
        ({"step": 0}, "step=0: must be a positive number."),
        ({"max_multiplier": np.inf}, "max_multiplier=inf: must be a positive number."),
        ({"mixture": "lp"}, "mixture='lp': must be one of 'last_half', 'all', 'best'."),
        ({"stop_gap": -1}, "stop_gap=-1: must be a number >= 0."),
        ({"without_weights": "no"}, "without_weights='no': must be one of 'error', 'resample'."),
        ({"decision": "no"}, "decision='no': must be one of"),
        ({"missing": "no"}, "missing='no': must be one of"),
        ({"criterion": "ppv"}, "criterion='ppv': predictive values divide"),
        ({"criterion": "xx"}, "criterion='xx': unknown; use one of 'dp', 'eop', 'eo', 'meo', 'oae'."),
        ({"estimator": KNeighborsClassifier()}, "estimator: KNeighborsClassifier takes no sample_weight"),
    ],
)
def test_arguments(change, message):
    X, y, a = two_group_data(60)
    with pytest.raises(ValueError) as error:
        WeightedERM(**change).fit(X, y, sensitive_features=a)
    assert str(error.value).startswith(message)
