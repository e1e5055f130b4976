"""`FDivergence`: its divergences, what they bring about, and what it refuses."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from baseline_tasks import CRITERIA, adult, measured, three_by_three  # noqa: E402

from optfair import Constraint, OptFairWarning  # noqa: E402
from optfair.baselines.erm import ERM  # noqa: E402
from optfair.baselines.networks.f_divergence import (  # noqa: E402
    DIVERGENCES,
    ESTIMATES,
    Alike,
    Critic,
    FDivergence,
    between_rates,
    variational,
)
from optfair.baselines.networks.network import Tensors  # noqa: E402
from optfair.constraints import compile_rows  # noqa: E402
from optfair.nn import TorchClassifier  # noqa: E402

TRAIN, TEST = three_by_three()


def network(**settings):
    return make_pipeline(
        StandardScaler(), TorchClassifier(**{"lr": 0.02, "epochs": 8, "batch_size": 512, "random_state": 0} | settings)
    )


def quick(**options):
    return FDivergence(**{"estimator": network(), "random_state": 0} | options)


def people(n=240, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * a, np.zeros(n)]
    return x, np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2]), np.array(["f", "m"])[a]


def same_parameters(model, plain):
    """Bit for bit, those of the network and those of plain training."""
    one, other = model.network_.parameters_state(), plain.estimator_[-1].parameters_state()
    assert one.keys() == other.keys() and all((one[name] == other[name]).all() for name in one)


# -- divergences -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DIVERGENCES)
def test_conjugates(name):
    """f*(t) = sup_u u t − f(u) for every t that act gives, and f(1) = 0: T at P = Q finds no divergence."""
    kind = DIVERGENCES[name]
    u = torch.logspace(-7, 4, 400_001, dtype=torch.float64)
    assert float(kind.f(torch.ones(1, dtype=torch.float64))) == 0
    for v in np.linspace(-1.5, 1.5, 7):
        t = kind.act(torch.tensor([v], dtype=torch.float64))
        assert float((u * t - kind.f(u)).max()) == pytest.approx(float(kind.conjugate(t)), abs=1e-4)
    for v in (-1e6, 1e6):  # nothing overflows
        assert torch.isfinite(kind.conjugate(kind.act(torch.tensor([v], dtype=torch.float32)))).all()


@pytest.mark.parametrize(("name", "truth"), [("kl", 0.5), ("chi2", np.e - 1)])
def test_a_critic_finds_the_divergence_of_two_normals(name, truth):
    """P = N(0, 1), Q = N(1, 1), each by its quantiles. Whoever is of P weighs next to nothing in Q."""
    n, tiny = 1500, 1e-12
    z = norm.ppf((np.arange(n) + 0.5) / n)
    s = torch.from_numpy(np.r_[z, 1 + z])[:, None]
    from_p = torch.arange(2 * n)[:, None] < n
    own, given = from_p.double() / tiny, torch.where(from_p, tiny, 1.0).double()
    critic = Critic(3, (5, 5), 1e-2, 0, s)
    first = float(critic.value(DIVERGENCES[name], s, own, given).detach())
    for _ in range(400):
        critic.climb(DIVERGENCES[name], s, own, given)
    found = float(critic.value(DIVERGENCES[name], s, own, given).detach())
    assert found > first and found == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_best_T_gives_the_divergence(name):
    """On finitely many answers D_f is known, T = f'(dP/dQ) attains it, and no other T exceeds it."""
    kind = DIVERGENCES[name]
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    weight = rng.random(300) + 0.5
    own, given = torch.from_numpy(np.eye(2)[a]), torch.from_numpy(weight[:, None])
    P = np.array([np.bincount(s[a == g], weight[a == g], 3) / weight[a == g].sum() for g in (0, 1)])
    Q = np.bincount(s, weight, 3) / weight.sum()
    ratio = torch.from_numpy(P / Q).requires_grad_()
    D = (torch.from_numpy(Q) * kind.f(ratio)).sum(1)
    best = torch.autograd.grad(kind.f(ratio).sum(), ratio)[0].T.numpy()[s]  # f'(dP/dQ), (n, 2)

    def value(T):
        raw = kind._replace(act=lambda t: t)
        return float(variational(raw, torch.from_numpy(T), own, given))

    assert value(best) == pytest.approx(float(D.detach().mean()), abs=1e-9)
    for _ in range(20):
        T = kind.act(torch.from_numpy(rng.standard_normal((3, 2)))).numpy()[s]
        assert value(T) <= value(best) + 1e-12
    # And the same distance between rates, of answers that are certain: here groups count by their share.
    share = np.array([weight[a == g].sum() for g in (0, 1)]) / weight.sum()
    found = between_rates(kind, torch.from_numpy(np.eye(3)[s]), own, given)
    assert float(found) == pytest.approx(float((torch.from_numpy(share) * D.detach()).sum()), abs=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rates_are_those_of_the_core(criterion):
    """R of χ² from the rows of the criterion: Σ P(a | c) (rate − overall)² / overall, for eop with its complement."""
    rng = np.random.default_rng(0)
    n, A, m = 500, 3, 3
    a, y, p = rng.integers(0, A, n), rng.integers(0, m, n), rng.dirichlet([1, 1, 1], n)
    a[(a == 2) & (y == 1)] = 0  # an empty cell
    weight = rng.random(n) + 0.5
    weight /= weight.mean()
    J = np.zeros((A, m, m))
    np.add.at(J, (a, y), weight[:, None] * p / n)
    index = pd.RangeIndex(3)
    rows = compile_rows([Constraint(criterion, 1.0)], index, index, J.sum(2))
    # Of each row: the rate of the group, that of everybody, and the masses of both.
    group, overall = rows.combination.maximum(0), (-rows.combination).maximum(0)
    rates, mass = rows.rates(J), rows.conditions @ J.sum(2).ravel()
    r, q, share = group @ rates, overall @ rates, (group @ mass) / (overall @ mass)
    terms = share * (r - q) ** 2 * (1 / q + (1 / (1 - q) if criterion == "eop" else 0))
    expected = terms.sum() / (1 if criterion == "dp" else m)

    targets = torch.from_numpy(np.eye(m)[y] * weight[:, None])
    codes = Tensors(torch.from_numpy(a), torch.from_numpy(y), A, m)
    lesson = Alike(targets, torch.arange(n), codes, criterion, DIVERGENCES["chi2"], 1.0, None, 0)
    net = torch.nn.Linear(m, m).double()
    with torch.no_grad():
        net.weight.copy_(torch.eye(m))
        net.bias.zero_()
    lesson.add_gradient(net, torch.from_numpy(np.log(p)), torch.arange(n))  # softmax(log p) = p
    assert lesson.seen[0] == pytest.approx(expected, rel=1e-9)


# -- what it brings about ----------------------------------------------------------------------------------
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_without_weight_it_is_plain_training(estimate, module):
    plain = ERM(network(module=module), random_state=0).fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    model = quick(estimator=network(module=module), fairness_weight=0, estimate=estimate)
    model.fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
    same_parameters(model, plain)
    np.testing.assert_array_equal(model.predict(TEST[0]), plain.predict(TEST[0]))
    assert model.divergence_ is None


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_more_weight_less_divergence(estimate, criterion):
    found = []
    for weight in (1e-6, 10.0, 300.0) if estimate == "rates" else (1e-6, 5.0):
        estimator = network(batch_size=1024, epochs=20)
        model = quick(criterion=criterion, fairness_weight=weight, estimate=estimate, estimator=estimator)
        model.fit(TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2])
        found.append(model.divergence_)
    assert all(more < 0.8 * less for less, more in pairwise(found))


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_every_divergence_trains(name, estimate):
    plain, model = (
        quick(divergence=name, estimate=estimate, fairness_weight=weight, estimator=network(epochs=15)).fit(
            TRAIN[0], TRAIN[1], sensitive_features=TRAIN[2]
        )
        for weight in (0.0, 30.0 if estimate == "rates" else 10.0)
    )
    assert measured(model, TEST, "dp")[1] < 0.9 * measured(plain, TEST, "dp")[1]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_groups_at_random_are_alike(estimate, criterion):
    group = np.random.default_rng(0).integers(0, 3, len(TRAIN[1]))
    model = quick(criterion=criterion, estimate=estimate, fairness_weight=0.01, estimator=network(batch_size=4000))
    model.fit(TRAIN[0], TRAIN[1], sensitive_features=group)
    assert model.divergence_ < 0.01


@pytest.mark.slow
def test_adult():
    train, test = adult()
    found = [
        measured(
            FDivergence(fairness_weight=weight, random_state=0).fit(train[0], train[1], sensitive_features=train[2]),
            test,
            "dp",
        )
        for weight in (0.0, 3.0, 30.0)
    ]
    gaps = [gap for _, gap in found]
    assert gaps[0] > 0.1 and gaps[1] < 0.6 * gaps[0] and gaps[2] < 0.6 * gaps[1]
    assert min(accuracy for accuracy, _ in found) > 0.8


# -- people ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_seeds(estimate, module):
    X, y, group = people()
    state = torch.get_rng_state()
    one, same, other = (
        quick(estimate=estimate, estimator=network(module=module, random_state=None), random_state=seed)
        .fit(X, y, sensitive_features=group)
        .predict_proba(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_weights_are_copies(estimate, criterion):
    """In one batch, where the order does not matter; without a critic also step for step."""
    X, y, group = people()
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    row = np.repeat(np.arange(len(y)), weight)
    alone = TorchClassifier(batch_size=10_000, epochs=15, lr=0.05, dtype="float64", random_state=0)
    model = quick(estimator=alone, estimate=estimate, criterion=criterion)
    one = model.fit(X, y, sensitive_features=group, sample_weight=weight).predict_proba(X)
    two = model.fit(X[row], y[row], sensitive_features=group[row]).predict_proba(X)
    np.testing.assert_allclose(one, two, atol=1e-9)
    plain = model.fit(X, y, sensitive_features=group).predict_proba(X)
    assert np.abs(one - plain).max() > 1e-3


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_one_group_and_empty_cells(estimate):
    X, y, group = people()
    with pytest.warns(OptFairWarning, match="there is one group, 'all'; nothing is compared"):
        model = quick(estimate=estimate).fit(X, y, sensitive_features=["all"] * len(y))
    plain = ERM(network()).fit(X, y, sensitive_features=group)
    same_parameters(model, plain)
    kept = (y != 2) | (group == "m")
    lonely = np.where(np.arange(len(y)) == 5, "x", group)
    for criterion in ("eop", "eo"):
        with pytest.warns(OptFairWarning, match="rows cannot be formed"):
            model = quick(estimate=estimate, criterion=criterion)
            model.fit(X[kept], y[kept], sensitive_features=group[kept])
        assert np.isfinite(model.predict_proba(X)).all() and model.divergence_ is not None
        with pytest.warns(OptFairWarning, match="rows cannot be formed"):
            model.fit(X, y, sensitive_features=lonely)
        assert np.isfinite(model.predict_proba(X)).all()
    tiny = quick(estimate=estimate, estimator=network(batch_size=2, epochs=1)).fit(X, y, sensitive_features=group)
    assert np.isfinite(tiny.predict_proba(X)).all()  # batches without some groups


# -- arguments ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fairness_weight": -1}, "fairness_weight=-1: must be a finite number of at least 0."),
        ({"fairness_weight": "1"}, "fairness_weight='1': must be a finite number of at least 0."),
        ({"divergence": "l2"}, "divergence='l2': must be one of 'kl', 'reverse_kl', 'chi2', 'hellinger', 'js', 'tv'."),
        ({"estimate": "mean"}, "estimate='mean': must be one of 'rates', 'variational'."),
        ({"hidden": 5}, "hidden=5: must be a list of widths, whole numbers of at least 1."),
        ({"hidden": (5, 0)}, "hidden=0: must be a whole number of at least 1."),
        ({"critic_steps": 0}, "critic_steps=0: must be a whole number of at least 1."),
        ({"critic_lr": 0}, "critic_lr=0: must be a finite number above 0."),
        ({"criterion": "oae"}, "criterion='oae': "),
        ({"estimator": LogisticRegression()}, "estimator=LogisticRegression(): must be an optfair.nn.TorchClassifier"),
    ],
)
def test_bad_arguments(options, words):
    X, y, group = people()
    with pytest.raises(ValueError) as caught:
        quick(**options).fit(X, y, sensitive_features=group)
    assert str(caught.value).startswith(words)
