"""`FDivergence`: its divergences, what they bring about, and what it refuses."""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")

from optfair import Constraint, OptFairWarning  # noqa: E402
from optfair.baselines.erm import ERM  # noqa: E402
from optfair.baselines.networks.f_divergence import (  # noqa: E402
    DIVERGENCES,
    ESTIMATES,
    Critic,
    DivergencePenalty,
    FDivergence,
    rate_divergence,
    variational_divergence,
)
from optfair.baselines.networks.network import LabelTensors  # noqa: E402
from optfair.constraints import compile_rows  # noqa: E402
from optfair.nn import TorchClassifier  # noqa: E402
from tests.baselines.helpers import (  # noqa: E402
    CRITERIA,
    adult,
    evaluate,
    fit_rows,
    three_by_three,
    two_group_data,
)

TRAIN, TEST = three_by_three(1000)


def network(**settings):
    return make_pipeline(
        StandardScaler(), TorchClassifier(**{"lr": 0.02, "epochs": 8, "batch_size": 512, "random_state": 0} | settings)
    )


def quick(**options):
    return FDivergence(**{"estimator": network(), "random_state": 0} | options)


def check_same_parameters(model, plain):
    """Check that the parameters are those of plain training, bit for bit."""
    fair, reference = model.network_.parameters_state(), plain.estimator_[-1].parameters_state()
    assert fair.keys() == reference.keys() and all((fair[name] == reference[name]).all() for name in fair)


# -- divergences -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", DIVERGENCES)
def test_conjugates(name):
    """f*(t) = sup_u u t − f(u) for every t that act returns, and f(1) = 0: T at P = Q finds no divergence."""
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
    """P = N(0, 1), Q = N(1, 1), each by its quantiles. Rows of P weigh next to nothing in Q."""
    n, tiny = 1500, 1e-12
    z = norm.ppf((np.arange(n) + 0.5) / n)
    s = torch.from_numpy(np.r_[z, 1 + z])[:, None]
    from_p = torch.arange(2 * n)[:, None] < n
    arguments = DIVERGENCES[name], s, from_p.double() / tiny, torch.where(from_p, tiny, 1.0).double()
    critic = Critic(3, (5, 5), 1e-2, 0, s)
    start = float(critic.value(*arguments).detach())
    for _ in range(400):
        critic.climb(*arguments)
    estimate = float(critic.value(*arguments).detach())
    assert estimate > start and estimate == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_best_T_gives_the_divergence(name):
    """On finitely many outputs D_f is known, T = f'(dP/dQ) attains it, and no other T exceeds it."""
    kind = DIVERGENCES[name]
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    weight = rng.random(300) + 0.5
    member, condition = torch.from_numpy(np.eye(2)[a]), torch.from_numpy(weight[:, None])
    P = np.array([np.bincount(s[a == g], weight[a == g], 3) / weight[a == g].sum() for g in (0, 1)])
    Q = np.bincount(s, weight, 3) / weight.sum()
    ratio = torch.from_numpy(P / Q).requires_grad_()
    D = (torch.from_numpy(Q) * kind.f(ratio)).sum(1)
    best = torch.autograd.grad(kind.f(ratio).sum(), ratio)[0].T.numpy()[s]  # f'(dP/dQ), (n, 2)

    def estimate(T):
        raw = kind._replace(act=lambda t: t)
        return float(variational_divergence(raw, torch.from_numpy(T), member, condition))

    assert estimate(best) == pytest.approx(float(D.detach().mean()), abs=1e-9)
    for _ in range(20):
        T = kind.act(torch.from_numpy(rng.standard_normal((3, 2)))).numpy()[s]
        assert estimate(T) <= estimate(best) + 1e-12
    # And the same divergence between rates, of outputs that are certain: here groups count by their share.
    share = np.array([weight[a == g].sum() for g in (0, 1)]) / weight.sum()
    value = rate_divergence(kind, torch.from_numpy(np.eye(3)[s]), member, condition)
    assert float(value) == pytest.approx(float((torch.from_numpy(share) * D.detach()).sum()), abs=1e-9)


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
    # Of each row: the rate of the group, the overall rate, and the masses of both.
    group, overall = rows.combination.maximum(0), (-rows.combination).maximum(0)
    rates, mass = rows.rates(J), rows.conditions @ J.sum(2).ravel()
    r, q, share = group @ rates, overall @ rates, (group @ mass) / (overall @ mass)
    terms = share * (r - q) ** 2 * (1 / q + (1 / (1 - q) if criterion == "eop" else 0))
    expected = terms.sum() / (1 if criterion == "dp" else m)

    targets = torch.from_numpy(np.eye(m)[y] * weight[:, None])
    labels = LabelTensors(torch.from_numpy(a), torch.from_numpy(y), A, m)
    objective = DivergencePenalty(targets, torch.arange(n), labels, criterion, DIVERGENCES["chi2"], 1.0, None, 0)
    net = torch.nn.Linear(m, m).double()
    with torch.no_grad():
        net.weight.copy_(torch.eye(m))
        net.bias.zero_()
    objective.add_gradient(net, torch.from_numpy(np.log(p)), torch.arange(n))  # softmax(log p) = p
    assert objective.batch_values[0] == pytest.approx(expected, rel=1e-9)


# -- weights of fairness -----------------------------------------------------------------------------------
@cache
def plain(module, **settings):
    """Return plain training of the network of these tests."""
    return fit_rows(ERM(network(module=module, **settings), random_state=0), TRAIN)


@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_without_weight_it_is_plain_training(estimate, module):
    model = fit_rows(quick(estimator=network(module=module), fairness_weight=0, estimate=estimate), TRAIN)
    check_same_parameters(model, plain(module))
    np.testing.assert_array_equal(model.predict(TEST[0]), plain(module).predict(TEST[0]))
    assert model.divergence_ is None


CASES = [("rates", criterion) for criterion in CRITERIA] + [("variational", "dp")]
CASES += [pytest.param("variational", criterion, marks=pytest.mark.slow) for criterion in ("eop", "eo")]


@pytest.mark.parametrize(("estimate", "criterion"), CASES)
def test_more_weight_less_divergence(estimate, criterion):
    train, _ = three_by_three()
    divergences = []
    for weight in (1e-6, 10.0, 300.0) if estimate == "rates" else (1e-6, 5.0):
        estimator = network(batch_size=1024, epochs=20)
        model = quick(criterion=criterion, fairness_weight=weight, estimate=estimate, estimator=estimator)
        divergences.append(fit_rows(model, train).divergence_)
    assert all(heavy < 0.8 * light for light, heavy in pairwise(divergences))


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_every_divergence_trains(name, estimate):
    settings = {"epochs": 15, "batch_size": 250, "lr": 0.04}
    weight = 30.0 if estimate == "rates" else 10.0
    model = quick(divergence=name, estimate=estimate, fairness_weight=weight, estimator=network(**settings))
    _, gap = evaluate(plain("linear", **settings), TEST, "dp")
    assert evaluate(fit_rows(model, TRAIN), TEST, "dp")[1] < 0.9 * gap


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_random_groups_have_no_divergence(estimate, criterion):
    X, y, _ = three_by_three(4000)[0]
    group = np.random.default_rng(0).integers(0, 3, len(y))
    model = quick(criterion=criterion, estimate=estimate, fairness_weight=0.01, estimator=network(batch_size=4000))
    assert fit_rows(model, (X, y, group)).divergence_ < 0.01


@pytest.mark.slow
def test_adult():
    train, test = adult()
    models = [fit_rows(FDivergence(fairness_weight=weight, random_state=0), train) for weight in (0.0, 3.0, 30.0)]
    accuracies, gaps = np.transpose([evaluate(model, test, "dp") for model in models])
    assert gaps[0] > 0.1 and gaps[1] < 0.6 * gaps[0] and gaps[2] < 0.6 * gaps[1]
    assert min(accuracies) > 0.8


# -- seeds, weights, groups --------------------------------------------------------------------------------
@pytest.mark.parametrize("estimate", ESTIMATES)
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_seeds(estimate, module):
    X, y, group = two_group_data()
    state = torch.get_rng_state()
    first, same, other = (
        quick(estimate=estimate, estimator=network(module=module, random_state=None), random_state=seed)
        .fit(X, y, sensitive_features=group)
        .predict_proba(X)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimate", ESTIMATES)
def test_weights_are_copies(estimate, criterion):
    """In one batch, where the order does not matter; without a critic also step for step."""
    X, y, group = two_group_data()
    weight = np.random.default_rng(1).integers(1, 4, len(y))
    row = np.repeat(np.arange(len(y)), weight)
    alone = TorchClassifier(batch_size=10_000, epochs=15, lr=0.05, dtype="float64", random_state=0)
    model = quick(estimator=alone, estimate=estimate, criterion=criterion)
    weighted = model.fit(X, y, sensitive_features=group, sample_weight=weight).predict_proba(X)
    copies = model.fit(X[row], y[row], sensitive_features=group[row]).predict_proba(X)
    np.testing.assert_allclose(weighted, copies, atol=1e-9)
    unweighted = model.fit(X, y, sensitive_features=group).predict_proba(X)
    assert np.abs(weighted - unweighted).max() > 1e-3


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_one_group_and_empty_cells(estimate):
    X, y, group = two_group_data()
    with pytest.warns(OptFairWarning, match="there is one group, 'all'; nothing is compared"):
        model = quick(estimate=estimate).fit(X, y, sensitive_features=["all"] * len(y))
    check_same_parameters(model, ERM(network()).fit(X, y, sensitive_features=group))
    keep = (y != 2) | (group == "m")
    lonely = np.where(np.arange(len(y)) == 5, "x", group)
    for criterion in ("eop", "eo"):
        with pytest.warns(OptFairWarning, match="rates? (is|are) left out"):
            model = quick(estimate=estimate, criterion=criterion)
            model.fit(X[keep], y[keep], sensitive_features=group[keep])
        assert np.isfinite(model.predict_proba(X)).all() and model.divergence_ is not None
        with pytest.warns(OptFairWarning, match="rates? (is|are) left out"):
            model.fit(X, y, sensitive_features=lonely)
        assert np.isfinite(model.predict_proba(X)).all()
    tiny = quick(estimate=estimate, estimator=network(batch_size=2, epochs=1)).fit(X, y, sensitive_features=group)
    assert np.isfinite(tiny.predict_proba(X)).all()  # batches without some groups


# -- arguments ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fairness_weight": -1}, "fairness_weight=-1: must be a number >= 0."),
        ({"fairness_weight": "1"}, "fairness_weight='1': must be a number >= 0."),
        ({"divergence": "l2"}, "divergence='l2': must be one of 'kl', 'reverse_kl', 'chi2', 'hellinger', 'js', 'tv'."),
        ({"estimate": "mean"}, "estimate='mean': must be one of 'rates', 'variational'."),
        ({"hidden": 5}, "hidden=5: must be a list of widths, each an integer >= 1."),
        ({"hidden": (5, 0)}, "hidden=0: must be an integer >= 1."),
        ({"critic_steps": 0}, "critic_steps=0: must be an integer >= 1."),
        ({"critic_lr": 0}, "critic_lr=0: must be a positive number."),
        ({"criterion": "oae"}, "criterion='oae': "),
        ({"estimator": LogisticRegression()}, "estimator=LogisticRegression(): must be an optfair.nn.TorchClassifier"),
    ],
)
def test_bad_arguments(options, message):
    X, y, group = two_group_data()
    with pytest.raises(ValueError) as error:
        quick(**options).fit(X, y, sensitive_features=group)
    assert str(error.value).startswith(message)
