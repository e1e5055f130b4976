"""`Frappe`: the correction it learns, what it leaves alone, and what it refuses."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

torch = pytest.importorskip("torch")

from optfair import OptFairWarning  # noqa: E402
from optfair.baselines.networks.frappe import (  # noqa: E402
    Frappe,
    GroupSampler,
    MMDCorrection,
    comparison_terms,
    log_base,
    mmd2,
)
from optfair.nn import TorchClassifier  # noqa: E402
from tests.baselines.helpers import (  # noqa: E402
    CRITERIA,
    adult,
    evaluate,
    fit_rows,
    three_by_three,
    two_group_data,
)

WIDTHS = (0.1, 0.3, 1.0)
TRAIN, TEST = three_by_three(2000)
BASE = make_pipeline(StandardScaler(), LogisticRegression()).fit(TRAIN[0], TRAIN[1])


def small_network(**settings):
    options = {"module": "mlp", "hidden": (16,), "dropout": 0.0, "batch_size": 512, "lr": 0.02, "epochs": 40}
    return make_pipeline(StandardScaler(), TorchClassifier(**options | settings))


def quick(estimator=None, **options):
    settings = {"fairness_weight": 10.0, "adjustment": small_network(), "group_batch": 32, "random_state": 0}
    return Frappe(FrozenEstimator(BASE) if estimator is None else estimator, **settings | options)


@cache
def default_weight_fit():
    """Return the quick model, fitted to the training rows of this module."""
    return fit_rows(quick(), TRAIN)


# -- the distance of two samples ---------------------------------------------------------------------------
def naive_mmd2(U, V, widths):
    """Return MMD² of two samples by its definition."""

    def k(S, T):
        return np.mean([[np.mean([np.exp(-((s - t) ** 2).sum() / w**2) for w in widths]) for t in T] for s in S])

    return k(U, U) + k(V, V) - 2 * k(U, V)


def test_the_distance_of_samples():
    rng = np.random.default_rng(0)
    U, V = rng.dirichlet([1, 2, 3], (2, 12)), rng.dirichlet([3, 2, 1], (2, 12))
    distance = mmd2(torch.from_numpy(U), torch.from_numpy(V), WIDTHS)
    np.testing.assert_allclose(distance, [naive_mmd2(u, v, WIDTHS) for u, v in zip(U, V, strict=True)], atol=1e-12)
    np.testing.assert_allclose(mmd2(torch.from_numpy(U), torch.from_numpy(U), WIDTHS), 0, atol=1e-12)
    assert (distance > 0).all()


@pytest.mark.parametrize("width", [0.1, 0.5])
def test_the_distance_of_two_points(width):
    u, v = np.array([0.2, 0.8]), np.array([0.25, 0.75])
    U, V = (torch.from_numpy(np.tile(point, (1, 5, 1))) for point in (u, v))
    expected = 2 - 2 * np.exp(-((u - v) ** 2).sum() / width**2)
    assert float(mmd2(U, V, [width])[0]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("widths", [(0.1,), WIDTHS])
def test_the_gradient_of_the_distance(widths):
    rng = np.random.default_rng(0)
    U, V = (torch.from_numpy(rng.dirichlet([1, 2, 3], (2, 4))).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda U, V: mmd2(U, V, widths), (U, V))


# -- draws and terms -------------------------------------------------------------------------------
def test_draws_are_in_proportion_to_weights():
    weight = torch.tensor([5.0, 1.0, 7.0, 3.0, 0.5])
    sampler = GroupSampler(torch.tensor([1, 3, 4]), weight)
    shares = np.bincount(sampler.draw(40_000, torch.Generator().manual_seed(0)), minlength=5) / 40_000
    np.testing.assert_allclose(shares, [0, 1 / 4.5, 0, 3 / 4.5, 0.5 / 4.5], atol=0.01)
    # The same draws, whether two rows are alike or one has weight two.
    copies = GroupSampler(torch.arange(3), torch.ones(3)).draw(100, torch.Generator().manual_seed(1))
    weighted = GroupSampler(torch.arange(2), torch.tensor([1.0, 2.0])).draw(100, torch.Generator().manual_seed(1))
    np.testing.assert_array_equal(copies > 0, weighted > 0)


def testcomparison_terms():
    data = Frappe()._training_data(np.zeros((9, 1)), list("xxyyzzxyz"), list("abababcca"), None)
    a, y = np.array(list("abababcca")), np.array(list("xxyyzzxyz"))
    for criterion in CRITERIA:
        terms = comparison_terms(data, criterion)
        expected = []
        for label in "xyz":
            included = np.ones(9, bool) if criterion == "dp" else y == label
            for group in "abc":
                P, Q = np.flatnonzero(included & (a == group)), np.flatnonzero(included & (a != group))
                two = len(set(a[included])) == 2
                if len(P) and len(Q) and not (two and group == "b"):
                    expected.append((P.tolist(), Q.tolist()))
        expected = expected[:3] if criterion == "dp" else expected
        assert [(P.tolist(), Q.tolist()) for P, Q, _ in terms] == expected


def test_the_gradient_is_that_of_the_objective():
    """By finite differences; without fairness it is zero at T = 0, where the KL is least."""
    rng = np.random.default_rng(0)
    P, X = rng.dirichlet([1, 1, 1], 20), torch.from_numpy(rng.standard_normal((20, 2)))
    weight = torch.from_numpy(rng.random(20) + 0.5)
    samplers = [GroupSampler(torch.arange(0, 8), weight), GroupSampler(torch.arange(8, 20), weight)]
    net = torch.nn.Linear(2, 3).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    base = torch.from_numpy(log_base(P))

    def make_objective(strength, label=None):
        return MMDCorrection(base, weight, torch.arange(20), samplers, label, strength, WIDTHS, 5)

    (batch,) = make_objective(1.0).batches(20, (2,), torch.Generator().manual_seed(0))
    assert len(batch) == 30 and set(batch[20:25].tolist()) <= set(range(8)) and min(batch[25:]) >= 8

    def value(W, strength, label):
        f = log_base(P) + X.numpy() @ W.T
        fair = np.exp(f) / np.exp(f).sum(1, keepdims=True)
        KL = (weight.numpy()[batch[:20]] * (P * (np.log(P) - np.log(fair))).sum(1)[batch[:20]]).mean()
        compared = fair if label is None else fair[:, [label]]
        return KL + strength * naive_mmd2(compared[batch[20:25]], compared[batch[25:]], WIDTHS)

    for strength, label in ((0.0, None), (2.0, None), (2.0, 1)):
        net.zero_grad()
        objective = make_objective(strength, None if label is None else torch.tensor([label]))
        objective.add_gradient(net, X[batch], batch)
        gradient, expected = net.weight.grad.numpy() / len(batch), np.zeros((3, 2))
        for place in np.ndindex(3, 2):
            step = np.zeros((3, 2))
            step[place] = 1e-6
            expected[place] = (value(step, strength, label) - value(-step, strength, label)) / 2e-6
        np.testing.assert_allclose(gradient, expected, atol=1e-8)
        assert (np.abs(gradient).max() < 1e-12) == (strength == 0)


# -- weights of fairness -----------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", ["frozen", "function", "cloned"])
def test_without_weight_the_base_predicts(estimator):
    base = {"frozen": FrozenEstimator(BASE), "function": BASE.predict_proba, "cloned": clone(BASE)}[estimator]
    model = fit_rows(quick(base, fairness_weight=0), TRAIN)
    # Rows that sum to one: the probabilities of the base are divided by their sum, which moves the last digit.
    np.testing.assert_allclose(model.predict_proba(TEST[0]), BASE.predict_proba(TEST[0]), rtol=1e-15)
    np.testing.assert_array_equal(model.predict(TEST[0]), BASE.predict(TEST[0]))
    assert model.network_ is None


@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_weight_less_distance(criterion):
    """λ → ∞: the outputs of the groups can hardly be told apart, and the price is a larger KL. On test rows the
    violation falls, too."""
    terms = comparison_terms(Frappe()._training_data(*TRAIN, None), criterion)

    def distance(P):
        samples = [(P[p], P[q]) if criterion != "eop" else (P[p][:, [y]], P[q][:, [y]]) for p, q, y in terms]
        return np.mean([float(mmd2(*(torch.from_numpy(s[None, :300]) for s in pair), WIDTHS)[0]) for pair in samples])

    P = BASE.predict_proba(TRAIN[0])
    distances, prices = [distance(P)], [0.0]
    for weight in (2.0, 100.0):
        model = fit_rows(quick(criterion=criterion, fairness_weight=weight), TRAIN)
        fair = model.predict_proba(TRAIN[0])
        distances.append(distance(fair))
        prices.append((P * np.log(P / fair)).sum(1).mean())
    assert distances[0] > distances[1] > distances[2] and distances[2] < 0.1 * distances[0]
    assert 0 < prices[1] < prices[2]
    assert evaluate(model, TEST, criterion)[1] < 0.75 * evaluate(BASE, TEST, criterion)[1]


@pytest.mark.slow
def test_adult():
    """With a large weight the gap of demographic parity is nearly closed; the base stays as it was."""
    train, test = adult()
    base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train[0], train[1])
    assert evaluate(base, test, "dp")[1] > 0.1
    accuracy, gap = evaluate(fit_rows(Frappe(FrozenEstimator(base), random_state=0), train), test, "dp")
    assert gap < 0.03 and accuracy > 0.82
    strong = quick(FrozenEstimator(base), fairness_weight=100.0, adjustment=small_network(epochs=10))
    assert evaluate(fit_rows(strong, train), test, "dp")[1] < 0.02


def test_the_base_is_only_asked():
    final = BASE[-1]
    before = final.coef_.tobytes(), final.intercept_.tobytes(), BASE[0].mean_.tobytes()
    sizes = []

    class RecordedBase:
        classes_ = final.classes_

        def __call__(self, X):
            sizes.append(len(X))
            return BASE.predict_proba(X)

    frozen = default_weight_fit()
    assert (final.coef_.tobytes(), final.intercept_.tobytes(), BASE[0].mean_.tobytes()) == before
    assert frozen.base_.model.estimator is BASE
    function = fit_rows(quick(RecordedBase()), TRAIN)
    assert sizes == [len(TRAIN[1])]  # once, for all rows
    np.testing.assert_array_equal(function.predict_proba(TEST[0]), frozen.predict_proba(TEST[0]))
    assert (frozen.predict_proba(TEST[0]) != BASE.predict_proba(TEST[0])).any()
    torch_base = TorchClassifier(epochs=2, random_state=0).fit(TRAIN[0], TRAIN[1])
    theta = torch_base.parameters_state()
    fit_rows(quick(FrozenEstimator(torch_base), adjustment=small_network(epochs=2)), TRAIN)
    for name, array in torch_base.parameters_state().items():
        np.testing.assert_array_equal(array, theta[name])


def test_predictions_are_the_corrected_logits():
    model = default_weight_fit()
    with torch.no_grad():
        net = copy.deepcopy(model.network_.module_).double()
        T = net(torch.from_numpy(model.transformer_.transform(TEST[0]))).numpy()
    f = BASE.predict_log_proba(TEST[0]) + T
    np.testing.assert_allclose(
        model.predict_proba(TEST[0]), np.exp(f) / np.exp(f).sum(1, keepdims=True), atol=1e-4
    )  # 1e-6 is the least probability


# -- seeds, weights, bases, groups -------------------------------------------------------------------------
def test_seeds():
    X, y, group = two_group_data()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, same, other = (
        quick(DecisionTreeClassifier(max_depth=3, max_features=1), random_state=seed)
        .fit(X, y, sensitive_features=group)
        .predict_proba(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert torch.equal(torch.get_rng_state(), state[0]) and (np.random.get_state()[1] == state[1]).all()  # noqa: NPY002


def test_weights():
    """Rows of weight zero are absent, and heavy rows decide what is corrected."""
    X, y, group = two_group_data()
    weight = np.where(np.arange(len(y)) % 3, 2.0, 0.0)
    ask = LogisticRegression().fit(X, y).predict_proba
    weighted = quick(ask).fit(X, y, sensitive_features=group, sample_weight=weight)
    keep = weight > 0
    without = quick(ask).fit(X[keep], y[keep], sensitive_features=group[keep])
    np.testing.assert_allclose(weighted.predict_proba(X), without.predict_proba(X), atol=1e-6)
    # Weights under which the groups are alike leave little to correct.
    X = np.repeat([[0.0, 0.0], [1.0, 0.0]], 200, axis=0)
    y = np.tile([0, 1], 200)
    group = np.r_[np.repeat(["f", "m"], [150, 50]), np.repeat(["f", "m"], [50, 150])]
    alike = np.where((group == "f") == (X[:, 0] == 0), 1.0, 3.0)

    def p(X):
        return np.c_[0.8 - 0.6 * X[:, 0], 0.2 + 0.6 * X[:, 0]]

    corrections = [
        np.abs(quick(p).fit(X, y, sensitive_features=group, sample_weight=w).predict_proba(X) - p(X)).max()
        for w in (None, alike)
    ]
    assert corrections[1] < 0.5 * corrections[0]


def test_texts_go_through_the_transformers_of_the_base(monkeypatch):
    monkeypatch.setattr("optfair.baselines.networks.network.MAX_EPOCHS", 20)
    X, y, group = two_group_data()
    frame = pd.DataFrame({"u": X[:, 0], "word": np.where(X[:, 1] > 0, "yes", "no")})
    encode = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough", sparse_threshold=1.0)
    base = make_pipeline(encode, LogisticRegression()).fit(frame, y)
    for estimator in (base, FrozenEstimator(base)):
        model = Frappe(estimator, random_state=0).fit(frame, y, sensitive_features=group)
        assert (model.predict_proba(frame) != base.predict_proba(frame)).any()
    with pytest.raises(ValueError, match="adjustment=None: the default network cannot read the column 'word'"):
        Frappe(base.predict_proba, random_state=0).fit(frame, y, sensitive_features=group)


def test_a_fitted_model_stays_the_same_object():
    X, y, group = two_group_data()
    base = LogisticRegression().fit(X, np.array(list("dbc"))[y])  # knows b, c, d
    model = clone(quick(FrozenEstimator(base)))
    assert model.estimator.estimator is base
    keep = y > 0  # b and c only
    with pytest.warns(OptFairWarning, match="left out, because nobody"):
        model.set_params(criterion="eo").fit(X[keep], np.array(list("dbc"))[y[keep]], sensitive_features=group[keep])
    assert model.classes_.tolist() == ["b", "c", "d"] and model.predict_proba(X).shape == (len(X), 3)
    function = clone(quick(base.predict_proba)).fit(X, y, sensitive_features=group)
    assert function.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="X: has 2 rows, but the fitted model has 3 classes; give at least 3 rows"):
        quick(FrozenEstimator(base)).fit(X[:2], ["b", "c"], sensitive_features=["f", "m"])


def test_one_group_and_empty_cells():
    X, y, group = two_group_data()
    with pytest.warns(OptFairWarning, match="there is one group, 'all'; nothing is compared"):
        model = quick(LogisticRegression()).fit(X, y, sensitive_features=["all"] * len(y))
    np.testing.assert_allclose(model.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X), rtol=1e-15)
    keep = (y != 2) | (group == "m")
    with pytest.warns(OptFairWarning, match="rates? (is|are) left out, because nobody is in the group and class"):
        model = quick(LogisticRegression(), criterion="eop").fit(X[keep], y[keep], sensitive_features=group[keep])
    assert np.isfinite(model.predict_proba(X)).all()
    lonely = np.where(np.arange(len(y)) == 5, "x", group)
    with pytest.warns(OptFairWarning, match="rates? (is|are) left out"):
        model = quick(LogisticRegression(), criterion="eo").fit(X, y, sensitive_features=lonely)
    assert np.isfinite(model.predict_proba(X)).all()


# -- arguments ---------------------------------------------------------------------------------------------
class Scaled(torch.nn.Module):
    """A module without a linear layer."""

    def __init__(self, m):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(m))

    def forward(self, x):
        return x[:, :1] * self.scale


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fairness_weight": -1}, "fairness_weight=-1: must be a number >= 0."),
        ({"fairness_weight": np.inf}, "fairness_weight=inf: must be a number >= 0."),
        ({"group_batch": 0}, "group_batch=0: must be an integer >= 1."),
        ({"bandwidths": ()}, "bandwidths=(): must have at least one number."),
        ({"bandwidths": 0.1}, "bandwidths=0.1: must be a list of numbers."),
        ({"bandwidths": (0.1, 0)}, "bandwidths=0: must be a number in [0.001, inf)."),
        ({"bandwidths": {0.1}}, "bandwidths={0.1}: must be a list of numbers."),
        ({"bandwidths": np.array(0.1)}, "bandwidths=array(0.1): must be a list of numbers."),
        ({"criterion": "oae"}, "criterion='oae': MMD compares how one group's outputs are distributed"),
        ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group'."),
        (
            {"adjustment": LogisticRegression()},
            "adjustment=LogisticRegression(): must be an optfair.nn.TorchClassifier",
        ),
        (
            {"adjustment": small_network(early_stopping=True)},
            "early_stopping=True: keeps the parameters of the least plain loss",
        ),
        ({"adjustment": TorchClassifier(lambda shape, m: Scaled(m))}, "adjustment: its module has no torch.nn.Linear"),
        ({"estimator": Ridge()}, "estimator=Ridge(): must be a classifier"),
        ({"estimator": LinearSVC()}, "estimator: LinearSVC has no predict_proba"),
        ({"estimator": lambda X: np.ones((len(X), 3))}, "estimator: 240 rows of its output are not probabilities"),
        ({"estimator": lambda X: np.full((len(X), 2), 0.5)}, "estimator: gives 2 columns of probabilities for 3"),
    ],
)
def test_bad_arguments(options, message):
    X, y, group = two_group_data()
    with pytest.raises(ValueError) as error:
        quick(**{"estimator": LogisticRegression()} | options).fit(X, y, sensitive_features=group)
    assert str(error.value).startswith(message)
