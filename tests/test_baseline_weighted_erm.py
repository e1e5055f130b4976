"""WeightedERM: the weights of fairlearn's reductions, the optimum of the linear program, and its arguments."""

import numpy as np
import pandas as pd
import pytest
from baseline_tasks import CRITERIA, adult, measured, three_by_three
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from optfair import solve
from optfair.baselines import ERM, WeightedERM
from optfair.baselines.weighted_erm import multipliers
from optfair.constraints import Constraint, compile_rows
from optfair.inprocessing.game import Game, soft_targets
from optfair.metrics import violation
from optfair.options import check_costs


def soft_violation(model, people, criterion):
    X, y, group = people
    h = model.predict_proba(X)
    return violation(y, h, sensitive_features=group, criterion=criterion, classes=model.classes_.tolist())


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * a, np.zeros(n)]
    return x, np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2]), a


# -- check 1: without a bound it is plain training ----------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wide_tolerance_is_plain_training(criterion):
    train, test = three_by_three()
    plain = ERM(random_state=0).fit(*train[:2])
    model = WeightedERM(criterion=criterion, tolerance=1.0, random_state=0).fit(*train[:2], sensitive_features=train[2])
    assert model.multipliers_["multiplier"].abs().max() < 1e-3
    last = model.mixture_.members[-1].predict(model.mixture_.front.transform(test[0]))
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
    theirs = getattr(reductions, moment)(difference_bound=0.01)
    theirs.load_data(np.zeros((500, 1)), pd.Series(y), sensitive_features=pd.Series(a))
    error = reductions.ErrorRate()
    error.load_data(np.zeros((500, 1)), pd.Series(y), sensitive_features=pd.Series(a))
    lam = pd.Series(rng.random(len(theirs.index)), index=theirs.index)
    signed = np.asarray(error.signed_weights() + theirs.signed_weights(lam))

    prior = np.bincount(a * 2 + y, minlength=2 * n_groups).reshape(n_groups, 2) / 500
    groups, classes = pd.RangeIndex(n_groups), pd.RangeIndex(2)
    rows = compile_rows([Constraint(criterion, 0.01)], groups, classes, prior)
    ours = np.zeros(len(rows))
    for (sign, event, group), value in lam.items():
        given = {"dp": None}.get(criterion, int(event.partition("=")[2] or -1) if event != "all" else None)
        same = (rows.table["group"] == group) & (rows.table["outcome"] == outcome)
        same &= rows.table["given"].isna() if given is None else rows.table["given"] == given
        assert same.sum() == 1
        ours[np.flatnonzero(same)[0]] += value if sign == "+" else -value
    game = Game(rows, rows.matrix(prior), check_costs(None, n_groups, 2)[0], 2.0, a * 2 + y, np.full(500, 1 / 500))
    T = soft_targets(game.weights(ours), game.share, "cell")[a * 2 + y]
    np.testing.assert_array_equal(T.argmax(axis=1), signed > 0)
    np.testing.assert_allclose(T.max(axis=1), np.abs(signed) / np.abs(signed).mean(), rtol=1e-9)
    np.testing.assert_allclose(T.min(axis=1), 0.0, atol=1e-12)


# -- check 3: a table of cells, against the linear program --------------------------------------------------
def table_people(shape, n, seed):
    """People whose X is one of 12 cells: (X one-hot numbers, y, a, exact posterior of each cell)."""
    rng = np.random.default_rng(seed)
    A, m = shape
    joint = rng.dirichlet(np.full(A * m, 0.4), size=12).reshape(12, A, m)
    x = rng.integers(0, 12, n)
    drawn = np.array([rng.choice(A * m, p=joint[cell].ravel()) for cell in x])
    return x, drawn % m, drawn // m


@pytest.mark.parametrize("shape", [(2, 2), (3, 3)])
@pytest.mark.parametrize("criterion", [*CRITERIA, "meo", "oae"])
def test_it_finds_the_optimum_of_a_table(criterion, shape):
    """A tree with a leaf per cell is the exact best response: the mixture is the optimum of the linear program."""
    x, y, a = table_people(shape, 1000, seed=5)
    Z = np.zeros((12, *shape))
    np.add.at(Z, (x, a, y), 1.0)
    mass = Z.sum(axis=(1, 2))
    best = solve(Z / mass[:, None, None], criterion, 0.05, sample_weight=mass, method="lp").certificate.upper_bound
    options = {"rounds": 400, "step": 8.0, "max_multiplier": 4.0, "mixture": "all", "random_state": 0}
    model = WeightedERM(DecisionTreeClassifier(), criterion=criterion, tolerance=0.05, **options)
    model.fit(x[:, None], y, sensitive_features=a)
    h = model.predict_proba(x[:, None])
    assert soft_violation(model, (x[:, None], y, a), criterion) <= 0.05 + 1e-2
    assert abs(h[np.arange(len(y)), y].mean() - best) <= 1e-2


# -- check 4: a mixture has the mean of the rates -----------------------------------------------------------
@pytest.mark.parametrize("mixture", ["last_half", "all", "best"])
def test_rates_of_the_mixture_are_the_means_of_its_rounds(mixture):
    X, y, a = people()
    model = WeightedERM(rounds=11, mixture=mixture, criterion="eo", random_state=0).fit(X, y, sensitive_features=a)
    rows = model.mixture_.front.transform(X)
    one = [violations_table(member.predict(rows), y, a) for member in model.mixture_.members]
    assert len(one) == {"last_half": 6, "all": 11, "best": 1}[mixture]
    np.testing.assert_allclose(model.multipliers_["value"], np.mean(one, axis=0), atol=1e-12)
    np.testing.assert_allclose(violations_table(model.predict_proba(X), y, a), np.mean(one, axis=0), atol=1e-9)


def violations_table(prediction, y, a):
    from optfair.metrics import gaps

    table = gaps(y, prediction, sensitive_features=a, criterion="eo", classes=[0, 1, 2])
    return table.sort_values(["group", "given", "outcome"])["value"].to_numpy()


# -- what it is for -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_it_lowers_the_violation(criterion):
    train, test = three_by_three()
    plain = ERM(random_state=0).fit(*train[:2])
    fair = WeightedERM(criterion=criterion, random_state=0).fit(*train[:2], sensitive_features=train[2])
    assert soft_violation(fair, train, criterion) < 0.25 * soft_violation(plain, train, criterion)
    assert measured(fair, test, criterion)[1] < 0.5 * measured(plain, test, criterion)[1]
    assert set(fair.predict_proba(test[0]).argmax(axis=1)) == {0, 1, 2}  # not by answering the same to everybody


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["dp", "eo"])  # with two classes opportunity is odds
def test_adult(criterion):
    train, test = adult()
    plain = measured(ERM(random_state=0).fit(*train[:2]), test, criterion)
    fair = WeightedERM(criterion=criterion, random_state=0).fit(*train[:2], sensitive_features=train[2])
    accuracy, gap = measured(fair, test, criterion)
    assert gap < 0.03 < plain[1]
    assert accuracy > plain[0] - 0.03


def test_torch_networks_learn_too():
    nn = pytest.importorskip("optfair.nn", exc_type=ImportError)
    train, _ = three_by_three()
    network = make_pipeline(StandardScaler(), nn.TorchClassifier(epochs=10, batch_size=128))
    fair = WeightedERM(network, rounds=30, random_state=0).fit(*train[:2], sensitive_features=train[2])
    plain = ERM(network, random_state=0).fit(*train[:2])
    assert soft_violation(fair, train, "dp") < 0.5 * soft_violation(plain, train, "dp")


def test_the_best_round_is_deterministic_and_best():
    X, y, a = people()
    options = {"rounds": 20, "random_state": 0, "tolerance": 0.05}
    best = WeightedERM(mixture="best", **options).fit(X, y, sensitive_features=a)
    assert set(np.unique(best.predict_proba(X))) == {0.0, 1.0}
    worth = best.history_["accuracy"] - best.max_multiplier * best.history_["excess"]
    vote = (best.predict(X) == y).mean()
    assert vote == pytest.approx(best.history_["accuracy"][int(worth.argmax())])


def test_it_stops_at_the_gap():
    """The gap bounds how far the mixture's accuracy less B · excess is from the optimum, which a table makes exact."""
    x, y, a = table_people((2, 3), 2000, seed=1)
    options = {"rounds": 400, "max_multiplier": 3.0, "mixture": "all", "random_state": 0, "tolerance": 0.05}
    model = WeightedERM(DecisionTreeClassifier(), stop_gap=0.02, **options).fit(x[:, None], y, sensitive_features=a)
    whole = WeightedERM(DecisionTreeClassifier(), **options).fit(x[:, None], y, sensitive_features=a)
    assert model.gap_ <= 0.02 and len(model.history_) < 400 and len(model.history_) % 5 == 0
    assert np.isnan(whole.gap_) and len(whole.history_) == 400
    Z = np.zeros((12, 2, 3))
    np.add.at(Z, (x, a, y), 1.0)
    mass = Z.sum(axis=(1, 2))
    best = solve(Z / mass[:, None, None], "dp", 0.05, sample_weight=mass, method="lp").certificate.upper_bound
    h = model.predict_proba(x[:, None])
    excess = max(0.0, soft_violation(model, (x[:, None], y, a), "dp") - 0.05)
    assert best - (h[np.arange(len(y)), y].mean() - 3.0 * excess) <= 0.02 + 1e-9


@pytest.mark.parametrize("learner", ["steps", "network"])
def test_looking_at_the_gap_changes_nothing(learner):
    """A gap of zero is never reached: both play all rounds, one with a look at the gap after every few."""
    X, y, a = people()
    base = SGDClassifier(loss="log_loss", random_state=0)  # goes on from where it is, and does not end at an optimum
    if learner == "network":
        base = pytest.importorskip("optfair.nn", exc_type=ImportError).TorchClassifier(epochs=3, batch_size=64)
    plain = WeightedERM(base, rounds=12, random_state=0).fit(X, y, sensitive_features=a)
    looking = WeightedERM(base, rounds=12, stop_gap=0.0, random_state=0).fit(X, y, sensitive_features=a)
    assert looking.gap_ > 0 and len(looking.history_) == 12
    np.testing.assert_array_equal(looking.predict_proba(X), plain.predict_proba(X))
    pd.testing.assert_frame_equal(looking.history_, plain.history_)


def test_multipliers_are_bounded_and_start_at_zero():
    theta = np.random.default_rng(0).normal(scale=300, size=(2, 7))
    assert np.abs(multipliers(theta, 2.5)).sum() <= 2.5 + 1e-12
    assert not multipliers(np.zeros((2, 7)), 2.5).any()
    up, down = np.exp(theta / 300) / (1 + np.exp(theta / 300).sum())
    np.testing.assert_allclose(multipliers(theta / 300, 2.0), 2.0 * (up - down))


# -- seeds, weights, input ----------------------------------------------------------------------------------


def test_weights_are_copies():
    X, y, a = people(200)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weight[[np.flatnonzero(y == k)[0] for k in range(3)]] = 1
    base = LogisticRegression(tol=1e-10, max_iter=1000)
    weighted = WeightedERM(base, rounds=6, random_state=0).fit(X, y, sensitive_features=a, sample_weight=weight)
    copied = np.repeat(np.arange(len(y)), weight)
    copies = WeightedERM(base, rounds=6, random_state=0).fit(X[copied], y[copied], sensitive_features=a[copied])
    np.testing.assert_allclose(weighted.history_["violation"], copies.history_["violation"], atol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X), copies.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"tolerance": -0.1}, "tolerance=-0.1: must be a number of at least 0 and at most 1."),
        ({"tolerance": 1.5}, "tolerance=1.5: must be a number of at least 0 and at most 1."),
        ({"tolerance": "x"}, "tolerance='x': must be a number"),
        ({"rounds": 0}, "rounds=0: must be a whole number of at least 1."),
        ({"inner_epochs": 1.5}, "inner_epochs=1.5: must be a whole number of at least 1."),
        ({"step": 0}, "step=0: must be a finite number above 0."),
        ({"max_multiplier": np.inf}, "max_multiplier=inf: must be a finite number above 0."),
        ({"mixture": "lp"}, "mixture='lp': must be one of 'last_half', 'all', 'best'."),
        ({"stop_gap": -1}, "stop_gap=-1: must be a finite number of at least 0."),
        ({"without_weights": "no"}, "without_weights='no': must be one of 'error', 'resample'."),
        ({"decision": "no"}, "decision='no': must be one of"),
        ({"missing": "no"}, "missing='no': must be one of"),
        ({"criterion": "ppv"}, "criterion='ppv': predictive values divide"),
        ({"criterion": "xx"}, "criterion='xx': unknown; use one of 'dp', 'eop', 'eo', 'meo', 'oae'."),
        ({"estimator": KNeighborsClassifier()}, "estimator: KNeighborsClassifier takes no sample_weight"),
    ],
)
def test_arguments(change, message):
    X, y, a = people(60)
    with pytest.raises(ValueError) as error:
        WeightedERM(**change).fit(X, y, sensitive_features=a)
    assert str(error.value).startswith(message)
