"""`Frappe`: the correction it learns, what it leaves alone, and what it refuses."""

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

from baseline_tasks import CRITERIA, adult, measured, three_by_three  # noqa: E402

from optfair import OptFairWarning  # noqa: E402
from optfair.baselines.networks.frappe import Correction, Frappe, Side, _terms, log_base, mmd2  # noqa: E402
from optfair.nn import TorchClassifier  # noqa: E402

WIDTHS = (0.1, 0.3, 1.0)
TRAIN, TEST = three_by_three(2000)
BASE = make_pipeline(StandardScaler(), LogisticRegression()).fit(TRAIN[0], TRAIN[1])


def small(**settings):
    options = {"module": "mlp", "hidden": (16,), "dropout": 0.0, "batch_size": 512, "lr": 0.02, "epochs": 40}
    return make_pipeline(StandardScaler(), TorchClassifier(**options | settings))


def quick(estimator=None, **options):
    settings = {"fairness_weight": 10.0, "adjustment": small(), "group_batch": 32, "random_state": 0}
    return Frappe(FrozenEstimator(BASE) if estimator is None else estimator, **settings | options)


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * a, np.zeros(n)]
    return x, np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2]), np.array(["f", "m"])[a]


# -- the distance of two samples ---------------------------------------------------------------------------
def naive(U, V, widths):
    def k(S, T):
        return np.mean([[np.mean([np.exp(-((s - t) ** 2).sum() / w**2) for w in widths]) for t in T] for s in S])

    return k(U, U) + k(V, V) - 2 * k(U, V)


def test_the_distance_of_samples():
    rng = np.random.default_rng(0)
    U, V = rng.dirichlet([1, 2, 3], (2, 12)), rng.dirichlet([3, 2, 1], (2, 12))
    found = mmd2(torch.from_numpy(U), torch.from_numpy(V), WIDTHS)
    np.testing.assert_allclose(found, [naive(u, v, WIDTHS) for u, v in zip(U, V, strict=True)], atol=1e-12)
    np.testing.assert_allclose(mmd2(torch.from_numpy(U), torch.from_numpy(U), WIDTHS), 0, atol=1e-12)
    assert (found > 0).all()


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


# -- what is drawn and compared ----------------------------------------------------------------------------
def test_draws_are_in_proportion_to_weights():
    weight = torch.tensor([5.0, 1.0, 7.0, 3.0, 0.5])
    side = Side(torch.tensor([1, 3, 4]), weight)
    drawn = side.draw(40_000, torch.Generator().manual_seed(0))
    shares = np.bincount(drawn, minlength=5) / 40_000
    np.testing.assert_allclose(shares, [0, 1 / 4.5, 0, 3 / 4.5, 0.5 / 4.5], atol=0.01)
    # The same draws, whether three people are alike or one weighs three.
    copies = Side(torch.arange(3), torch.ones(3)).draw(100, torch.Generator().manual_seed(1))
    one = Side(torch.arange(2), torch.tensor([1.0, 2.0])).draw(100, torch.Generator().manual_seed(1))
    np.testing.assert_array_equal(copies > 0, one > 0)


def test_terms():
    there = Frappe()._people(np.zeros((9, 1)), list("xxyyzzxyz"), list("abababcca"), None)
    a, y = np.array(list("abababcca")), np.array(list("xxyyzzxyz"))
    for criterion in CRITERIA:
        found = _terms(there, criterion)
        expected = []
        for label in "xyz":
            inside = np.ones(9, bool) if criterion == "dp" else y == label
            for group in "abc":
                P, Q = np.flatnonzero(inside & (a == group)), np.flatnonzero(inside & (a != group))
                two = len(set(a[inside])) == 2
                if len(P) and len(Q) and not (two and group == "b"):
                    expected.append((P.tolist(), Q.tolist()))
        expected = expected[:3] if criterion == "dp" else expected
        assert [(P.tolist(), Q.tolist()) for P, Q, _ in found] == expected


def test_the_gradient_is_that_of_the_objective():
    """By finite differences; without fairness it is zero at T = 0, where the KL is least."""
    rng = np.random.default_rng(0)
    P, X = rng.dirichlet([1, 1, 1], 20), torch.from_numpy(rng.standard_normal((20, 2)))
    weight = torch.from_numpy(rng.random(20) + 0.5)
    sides = [Side(torch.arange(0, 8), weight), Side(torch.arange(8, 20), weight)]
    net = torch.nn.Linear(2, 3).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    base = torch.from_numpy(log_base(P))

    def made(strength, own=None):
        return Correction(base, weight, torch.arange(20), sides, own, strength, WIDTHS, 5)

    (part,) = made(1.0).batches(20, (2,), torch.Generator().manual_seed(0))
    assert len(part) == 30 and set(part[20:25].tolist()) <= set(range(8)) and min(part[25:]) >= 8

    def objective(W, strength, own):
        f = log_base(P) + X.numpy() @ W.T
        fair = np.exp(f) / np.exp(f).sum(1, keepdims=True)
        KL = (weight.numpy()[part[:20]] * (P * (np.log(P) - np.log(fair))).sum(1)[part[:20]]).mean()
        seen = fair if own is None else fair[:, [own]]
        return KL + strength * naive(seen[part[20:25]], seen[part[25:]], WIDTHS)

    for strength, own in ((0.0, None), (2.0, None), (2.0, 1)):
        net.zero_grad()
        lesson = made(strength, None if own is None else torch.tensor([own]))
        lesson.add_gradient(net, X[part], part)
        found, expected = net.weight.grad.numpy() / len(part), np.zeros((3, 2))
        for place in np.ndindex(3, 2):
            step = np.zeros((3, 2))
            step[place] = 1e-6
            expected[place] = (objective(step, strength, own) - objective(-step, strength, own)) / 2e-6
        np.testing.assert_allclose(found, expected, atol=1e-8)
        assert (np.abs(found).max() < 1e-12) == (strength == 0)


# -- what it reaches ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimator", ["frozen", "function", "cloned"])
def test_without_weight_the_base_answers(estimator):
    given = {"frozen": FrozenEstimator(BASE), "function": BASE.predict_proba, "cloned": clone(BASE)}[estimator]
    model = quick(given, fairness_weight=0).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    # Rows that sum to one: whatever the base gives is divided by its sum, which moves the last digit.
    np.testing.assert_allclose(model.predict_proba(TEST[0]), BASE.predict_proba(TEST[0]), rtol=1e-15)
    np.testing.assert_array_equal(model.predict(TEST[0]), BASE.predict(TEST[0]))
    assert model.network_ is None


@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_weight_less_distance(criterion):
    """λ → ∞: the outputs of the groups can hardly be told apart, and the price is a larger KL."""
    there = Frappe()._people(*TRAIN, None)

    def distance(P):
        terms = _terms(there, criterion)
        seen = [(P[p], P[q]) if criterion != "eop" else (P[p][:, [y]], P[q][:, [y]]) for p, q, y in terms]
        return np.mean([float(mmd2(*(torch.from_numpy(s[None, :300]) for s in pair), WIDTHS)[0]) for pair in seen])

    P = BASE.predict_proba(TRAIN[0])
    found, price = [distance(P)], [0.0]
    for weight in (2.0, 100.0):
        model = quick(criterion=criterion, fairness_weight=weight).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
        fair = model.predict_proba(TRAIN[0])
        found.append(distance(fair))
        price.append((P * np.log(P / fair)).sum(1).mean())
    assert found[0] > found[1] > found[2] and found[2] < 0.1 * found[0]
    assert 0 < price[1] < price[2]


@pytest.mark.slow
def test_adult():
    """With a large weight the gap of demographic parity is nearly closed; the base does as it did."""
    train, test = adult()
    base = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train[0], train[1])
    assert measured(base, test, "dp")[1] > 0.1
    default = Frappe(FrozenEstimator(base), random_state=0).fit(train[0], train[1], sensitive_features=train[2])
    accuracy, gap = measured(default, test, "dp")
    assert gap < 0.03 and accuracy > 0.82
    strong = quick(FrozenEstimator(base), fairness_weight=100.0, adjustment=small(epochs=10))
    assert measured(strong.fit(train[0], train[1], sensitive_features=train[2]), test, "dp")[1] < 0.02


def test_the_base_is_only_asked():
    final = BASE[-1]
    before = final.coef_.tobytes(), final.intercept_.tobytes(), BASE[0].mean_.tobytes()
    asked = []

    class Watched:
        classes_ = final.classes_

        def __call__(self, X):
            asked.append(len(X))
            return BASE.predict_proba(X)

    frozen = quick().fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    assert (final.coef_.tobytes(), final.intercept_.tobytes(), BASE[0].mean_.tobytes()) == before
    assert frozen.base_.model.estimator is BASE
    asking = quick(Watched()).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    assert asked == [len(TRAIN[1])]  # once, for everybody
    np.testing.assert_array_equal(asking.predict_proba(TEST[0]), frozen.predict_proba(TEST[0]))
    assert (frozen.predict_proba(TEST[0]) != BASE.predict_proba(TEST[0])).any()
    torch_base = TorchClassifier(epochs=2, random_state=0).fit(TRAIN[0], TRAIN[1])
    theta = torch_base.parameters_state()
    quick(FrozenEstimator(torch_base)).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    for name, array in torch_base.parameters_state().items():
        np.testing.assert_array_equal(array, theta[name])


def test_answers_are_the_corrected_logits():
    model = quick().fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    with torch.no_grad():
        T = model.network_.module_.double()(torch.from_numpy(model.front_.transform(TEST[0]))).numpy()
    f = BASE.predict_log_proba(TEST[0]) + T
    np.testing.assert_allclose(
        model.predict_proba(TEST[0]), np.exp(f) / np.exp(f).sum(1, keepdims=True), atol=1e-4
    )  # 1e-6 is the least probability


# -- people ------------------------------------------------------------------------------------------------
def test_seeds():
    X, y, group = people()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, same, other = (
        quick(DecisionTreeClassifier(max_depth=3, max_features=1), random_state=seed)
        .fit(X, y, sensitive_features=group)
        .predict_proba(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert torch.equal(torch.get_rng_state(), state[0]) and (np.random.get_state()[1] == state[1]).all()  # noqa: NPY002


def test_weights():
    """Whoever weighs nothing is not there, and what weighs much is what is corrected."""
    X, y, group = people()
    weight = np.where(np.arange(len(y)) % 3, 2.0, 0.0)
    ask = LogisticRegression().fit(X, y).predict_proba
    one = quick(ask).fit(X, y, sensitive_features=group, sample_weight=weight)
    there = weight > 0
    two = quick(ask).fit(X[there], y[there], sensitive_features=group[there])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)
    # Weights under which the groups are alike leave little to correct.
    X = np.repeat([[0.0, 0.0], [1.0, 0.0]], 200, axis=0)
    y = np.tile([0, 1], 200)
    group = np.r_[np.repeat(["f", "m"], [150, 50]), np.repeat(["f", "m"], [50, 150])]
    alike = np.where((group == "f") == (X[:, 0] == 0), 1.0, 3.0)

    def p(X):
        return np.c_[0.8 - 0.6 * X[:, 0], 0.2 + 0.6 * X[:, 0]]

    moved = [
        np.abs(quick(p).fit(X, y, sensitive_features=group, sample_weight=w).predict_proba(X) - p(X)).max()
        for w in (None, alike)
    ]
    assert moved[1] < 0.5 * moved[0]


def test_texts_go_through_the_transformers_of_the_base():
    X, y, group = people()
    frame = pd.DataFrame({"u": X[:, 0], "word": np.where(X[:, 1] > 0, "yes", "no")})
    encode = make_column_transformer((OneHotEncoder(), ["word"]), remainder="passthrough", sparse_threshold=1.0)
    base = make_pipeline(encode, LogisticRegression()).fit(frame, y)
    for estimator in (base, FrozenEstimator(base)):
        model = Frappe(estimator, random_state=0).fit(frame, y, sensitive_features=group)
        assert (model.predict_proba(frame) != base.predict_proba(frame)).any()
    with pytest.raises(ValueError, match="adjustment=None: the default network cannot read the column 'word'"):
        Frappe(base.predict_proba, random_state=0).fit(frame, y, sensitive_features=group)


def test_a_fitted_model_stays_the_one_it_is():
    X, y, group = people()
    base = LogisticRegression().fit(X, np.array(list("dbc"))[y])  # knows b, c, d
    model = clone(quick(FrozenEstimator(base)))
    assert model.estimator.estimator is base
    some = y > 0  # b and c only
    with pytest.warns(OptFairWarning, match="cannot be formed"):
        model.set_params(criterion="eo").fit(X[some], np.array(list("dbc"))[y[some]], sensitive_features=group[some])
    assert model.classes_.tolist() == ["b", "c", "d"] and model.predict_proba(X).shape == (len(X), 3)
    asking = clone(quick(base.predict_proba)).fit(X, y, sensitive_features=group)
    assert asking.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="X: has 2 rows and the fitted model 3 classes"):
        quick(FrozenEstimator(base)).fit(X[:2], ["b", "c"], sensitive_features=["f", "m"])


def test_one_group_and_empty_cells():
    X, y, group = people()
    with pytest.warns(OptFairWarning, match="there is one group, 'all'; nothing is compared"):
        model = quick(LogisticRegression()).fit(X, y, sensitive_features=["all"] * len(y))
    np.testing.assert_allclose(model.predict_proba(X), LogisticRegression().fit(X, y).predict_proba(X), rtol=1e-15)
    kept = (y != 2) | (group == "m")
    with pytest.warns(OptFairWarning, match="rows cannot be formed, nobody is in their cells"):
        model = quick(LogisticRegression(), criterion="eop").fit(X[kept], y[kept], sensitive_features=group[kept])
    assert np.isfinite(model.predict_proba(X)).all()
    lonely = np.where(np.arange(len(y)) == 5, "x", group)
    with pytest.warns(OptFairWarning, match="rows cannot be formed"):
        model = quick(LogisticRegression(), criterion="eo").fit(X, y, sensitive_features=lonely)
    assert np.isfinite(model.predict_proba(X)).all()


# -- arguments ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fairness_weight": -1}, "fairness_weight=-1: must be a finite number of at least 0."),
        ({"fairness_weight": np.inf}, "fairness_weight=inf: must be a finite number of at least 0."),
        ({"group_batch": 0}, "group_batch=0: must be a whole number of at least 1."),
        ({"bandwidths": ()}, "bandwidths=(): must have at least one number."),
        ({"bandwidths": 0.1}, "bandwidths=0.1: must be a list of numbers."),
        ({"bandwidths": (0.1, 0)}, "bandwidths=0: must be a finite number of at least 0.001."),
        ({"bandwidths": {0.1}}, "bandwidths={0.1}: must be a list of numbers."),
        ({"bandwidths": np.array(0.1)}, "bandwidths=array(0.1): must be a list of numbers."),
        ({"criterion": "oae"}, "criterion='oae': MMD compares how one group's outputs are distributed"),
        ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group'."),
        (
            {"adjustment": LogisticRegression()},
            "adjustment=LogisticRegression(): must be an optfair.nn.TorchClassifier",
        ),
        (
            {"adjustment": small(early_stopping=True)},
            "early_stopping=True: keeps the parameters of the least plain loss",
        ),
        ({"adjustment": TorchClassifier(lambda shape, m: Scaled(m))}, "adjustment: its module has no torch.nn.Linear"),
        ({"estimator": Ridge()}, "estimator=Ridge(): must be a classifier"),
        ({"estimator": LinearSVC()}, "estimator: LinearSVC has no predict_proba"),
        ({"estimator": lambda X: np.ones((len(X), 3))}, "estimator: 240 rows of its output are not probabilities"),
        ({"estimator": lambda X: np.full((len(X), 2), 0.5)}, "estimator: gives 2 columns of probabilities for 3"),
    ],
)
def test_bad_arguments(options, words):
    X, y, group = people()
    with pytest.raises(ValueError) as caught:
        quick(**{"estimator": LogisticRegression()} | options).fit(X, y, sensitive_features=group)
    assert str(caught.value).startswith(words)


class Scaled(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(m))

    def forward(self, x):
        return x[:, :1] * self.scale
