"""`FairBatch`: batches by hand, the rule of its shares, and the authors' numbers."""

import contextlib

import numpy as np
import pytest
from scipy.stats import multivariate_normal

torch = pytest.importorskip("torch")

from optfair import OptFairWarning  # noqa: E402
from optfair.baselines.erm import ERM  # noqa: E402
from optfair.baselines.networks import fair_batch  # noqa: E402
from optfair.baselines.networks.fair_batch import (  # noqa: E402
    FairBatch,
    FairBatchObjective,
    best_move,
    best_parity_move,
    draw_counts,
)
from optfair.baselines.networks.network import LabelTensors  # noqa: E402
from optfair.datasets import load  # noqa: E402
from optfair.nn import TorchClassifier  # noqa: E402
from optfair.nn.batches import ArrayRows  # noqa: E402
from tests.baselines.helpers import (  # noqa: E402
    CRITERIA,
    adult,
    coded_data,
    default_fit,
    evaluate,
    fit_rows,
    plain_network,
    three_by_three,
)


def quick(**options):
    return FairBatch(TorchClassifier(epochs=4, batch_size=32), **{"random_state": 0, "alpha": 0.05} | options)


def make_objective(y, a, criterion="eop", weight=None, index=None, **options):
    m, A = int(y.max()) + 1, int(a.max()) + 1
    weight = np.ones(len(y)) if weight is None else weight / weight.mean()
    targets = torch.from_numpy(np.eye(m)[y] * weight[:, None])
    labels = LabelTensors(torch.from_numpy(a), torch.from_numpy(y), A, m)
    index = torch.arange(len(y)) if index is None else index
    settings = {"alpha": 0.1, "pairs": "extreme", "compared": range(m), "stop_below": None} | options
    return FairBatchObjective(targets, index, labels, criterion, **settings)


def rows_of(X):
    """Return X as rows of a network."""
    return ArrayRows(np.ascontiguousarray(X, dtype=float), torch.device("cpu"))


def linear_network(W, b=None):
    """Return Wx + b, as it predicts."""
    W = torch.as_tensor(W, dtype=torch.float64)
    net = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
    with torch.no_grad():
        net.weight.copy_(W)
        net.bias.copy_(torch.zeros(len(W)) if b is None else torch.as_tensor(b))
    return net.eval()


# -- how many of each cell ------------------------------------------------------------------------------------
def test_counts_have_the_expectation_and_the_sum():
    rng = np.random.default_rng(0)
    expected = np.array([0.1, 2.5, 0.0, 7.0, 0.4, 0.0])  # ten in all
    counts = draw_counts(expected, 20_000, rng)
    assert (counts.sum(1) == 10).all()
    assert ((counts == np.floor(expected)) | (counts == np.ceil(expected))).all()
    np.testing.assert_allclose(counts.mean(0), expected, atol=5 * 0.5 / np.sqrt(20_000))


def test_counts_of_cells_without_a_share_are_zero():
    rng = np.random.default_rng(0)
    for _ in range(50):
        expected = rng.dirichlet(np.ones(9)) * 64 * (rng.random(9) > 0.4)
        assert (draw_counts(expected, 50, rng)[:, expected == 0] == 0).all()


def draw_batches(objective, size, seed=0):
    """Return the batches of one epoch."""
    return objective.batches(size, (4,), torch.Generator().manual_seed(seed))


def test_batches_hold_the_shares():
    _, y, a = coded_data(1000)
    objective = make_objective(y, a)
    batches = draw_batches(objective, 128)
    assert [len(batch) for batch in batches] == [128] * (1000 // 128)
    counts = np.array([np.bincount((y * 3 + a)[batch], minlength=9) for batch in batches])
    expected = 128 * np.bincount(y * 3 + a, minlength=9) / 1000
    assert (np.abs(counts - expected) < 1).all()
    objective.share[1] = [0.0, 0.25, 0.75]
    counts = np.array([np.bincount((y * 3 + a)[batch], minlength=9) for batch in draw_batches(objective, 128)])
    expected[3:6] = 128 * (y == 1).mean() * objective.share[1]
    assert (np.abs(counts - expected) < 1).all() and (counts[:, 3] == 0).all()


def test_cells_are_read_in_turns():
    """No row is drawn a second time before all rows of the cell have been drawn once."""
    _, y, a = coded_data(200)
    objective = make_objective(y, a)
    objective.share[:] = [0.98, 0.01, 0.01]
    order = torch.cat(draw_batches(objective, 20)).numpy()
    for k in range(9):
        members = np.flatnonzero(y * 3 + a == k)
        times = np.bincount(order, minlength=200)[members]
        assert times.max() - times.min() <= 1
        cell_order = order[np.isin(order, members)]
        assert len(set(cell_order[: len(members)])) == min(len(members), len(cell_order))
    other = torch.cat(draw_batches(objective, 20, seed=1)).numpy()
    assert not np.array_equal(order, other)


def test_fewer_rows_than_a_batch_are_one_batch():
    _, y, a = coded_data(50)
    for size in (256, None):
        (batch,) = draw_batches(make_objective(y, a), size)
        assert sorted(batch.tolist()) == list(range(50))


def test_first_shares_are_plain_training():
    """Without a move the mean gradient of an epoch is that of L, weights included."""
    X, y, a = coded_data(80)
    weight = np.random.default_rng(1).integers(1, 4, 80).astype(float)
    objective = make_objective(y, a, weight=weight)
    net = linear_network(np.random.default_rng(2).standard_normal((3, 4)))
    x = torch.from_numpy(X)
    G = torch.softmax(net(x), 1).detach()
    epochs = 1000
    # Every batch has 40 rows: how often each was drawn gives the sum of their gradients.
    order = torch.cat([batch for seed in range(epochs) for batch in draw_batches(objective, 40, seed)])
    times = torch.bincount(order, minlength=80).double()
    T = objective.targets
    mean = ((G * T.sum(1, keepdim=True) - T) * times[:, None]).T @ x / (epochs * 2 * 40)
    copies = np.repeat(np.arange(80), weight.astype(int))
    exact = (G.numpy() - np.eye(3)[y])[copies].T @ X[copies] / len(copies)
    np.testing.assert_allclose(mean.numpy(), exact, atol=0.02)


# -- which share moves ----------------------------------------------------------------------------------------
ALL_CELLS = np.ones((2, 2), dtype=bool)


def test_the_group_with_the_larger_loss_gets_more_of_its_label():
    Q = np.zeros((2, 2, 2))
    Q[1, 1] = [2.0, 0.5]
    assert best_move(Q, ALL_CELLS, [(0, 0), (1, 1)], "extreme") == (1.5, 1, 1, 0)
    assert best_move(Q[:, :, ::-1], ALL_CELLS, [(0, 0), (1, 1)], "extreme") == (1.5, 1, 0, 1)


def test_of_other_labels_it_gets_less():
    Q = np.zeros((2, 2, 2))
    Q[1, 0], Q[1, 1] = [2.0, 0.5], [0.0, 0.1]
    assert best_move(Q, ALL_CELLS, [(1, 0), (1, 1)], "extreme") == (1.5, 0, 0, 1)


def test_extremes_or_neighbours():
    Q = np.zeros((1, 1, 4))
    Q[0, 0] = [0.0, 1.0, 3.0, 2.0]
    present = np.ones((1, 4), dtype=bool)
    assert best_move(Q, present, [(0, 0)], "extreme") == (3.0, 0, 0, 2)
    assert best_move(Q, present, [(0, 0)], "adjacent") == (2.0, 0, 1, 2)
    present[0, 0] = False  # an empty cell has no loss, and its neighbours are compared
    assert best_move(Q, present, [(0, 0)], "extreme") == (2.0, 0, 1, 2)
    present[0, 1:3] = False
    assert best_move(Q, present, [(0, 0)], "extreme") is None
    assert best_move(Q, present, [(0, 0)], "adjacent") is None


@pytest.mark.parametrize("criterion", CRITERIA)
def test_losses_are_those_of_the_definition(criterion):
    X, y, a = coded_data(100)
    weight = np.random.default_rng(1).random(100) + 0.1
    objective = make_objective(y, a, criterion, weight=weight)
    net = linear_network(np.random.default_rng(2).standard_normal((3, 4)))
    losses = objective.cell_losses(net, rows_of(X))
    surprise = -torch.log_softmax(net(rows_of(X)._tensor), 1).detach().numpy()
    for c in range(3):
        for k in range(3):
            for g in range(3):
                cell = (y == k) & (a == g)
                whole = weight[a == g] if criterion == "dp" else weight[cell]
                assert losses[c, k, g] == pytest.approx((weight * surprise[:, c])[cell].sum() / whole.sum())


@pytest.mark.parametrize("criterion", ["eop", "eo"])
def test_one_epoch_by_hand(criterion):
    """Group 0 has the larger loss of label 1: it gets α more of it. Beyond the end of the simplex nothing moves."""
    X = np.array([[1.0], [1.0], [-2.0], [2.0], [2.0]])
    y, a = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 1])
    objective = make_objective(y, a, criterion, alpha=0.4)
    net = linear_network([[0.0], [1.0]])
    np.testing.assert_allclose(objective.share, [[0.5, 0.5], [1 / 3, 2 / 3]])
    for expected in ([1 / 3 + 0.4, 2 / 3 - 0.4], [1.0, 0.0], [1.0, 0.0]):
        objective.end_epoch(net, rows_of(X))
        np.testing.assert_allclose(objective.share, [[0.5, 0.5], expected], atol=1e-12)
    assert [move[-1] for move in objective.moves] == pytest.approx([0.4, 2 / 3 - 0.4, 0.0])


def test_one_epoch_by_hand_for_demographic_parity():
    """c = 1. Among label 0, group 0 is further from class 1: it gives some of its share of label 0."""
    X = np.array([[-4.0], [1.0], [1.0], [1.0]])
    y, a = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    objective = make_objective(y, a, "dp", alpha=0.2, compared=[1])
    objective.end_epoch(linear_network([[0.0], [1.0]]), rows_of(X))
    np.testing.assert_allclose(objective.share, [[0.3, 0.7], [0.5, 0.5]])


def test_parity_of_more_classes_is_about_totals():
    """Q_0 differs most in the label 1, but the totals of class 2 differ most, and there the label 0 adds most."""
    Q = np.zeros((3, 3, 2))
    Q[0, 1], Q[0, 2] = [5.0, 0.0], [0.0, 4.5]  # class 0: totals 5.0 and 4.5
    Q[2, 0], Q[2, 2] = [2.0, 0.0], [1.0, 0.5]  # class 2: totals 3.0 and 0.5
    present = np.ones((3, 2), dtype=bool)
    for pairs in ("extreme", "adjacent"):
        # The label is not the class: the group with the larger loss gives.
        assert best_parity_move(Q, present, [0, 1, 2], pairs) == (2.5, 0, 0, 1)
        assert best_parity_move(Q, present, [0], pairs) == (0.5, 1, 0, 1)
    present[0, 1] = False  # no group to give the share to: the next label, which is the class itself
    assert best_parity_move(Q, present, [2], "extreme") == (2.5, 2, 1, 0)
    assert best_parity_move(Q, present & [True, False], [2], "extreme") is None


@pytest.mark.slow
def test_five_classes(monkeypatch):
    """Adult's kinds of work by sex, three samples: totals lower the violation, and more than the single cells do."""

    def arrays(data):
        return data.X.to_numpy(float), data.y.to_numpy(str), data.sensitive_features["sex"].to_numpy(str)

    train, test = map(arrays, load("adult-occupation").split(0.7, random_state=0))
    samples = [tuple(values[start : start + 6000] for values in train) for start in (0, 6000, 12000)]

    def mean_result(model):
        return np.mean([evaluate(fit_rows(model, rows), test, "dp") for rows in samples], axis=0)

    plain, default, far = map(
        mean_result, (ERM(), FairBatch(alpha=0.01, random_state=0), FairBatch(alpha=0.05, random_state=0))
    )
    assert default[1] < 0.7 * plain[1] and default[0] > 0.8 * plain[0]

    def single_cells(losses, present, classes, pairs):
        return best_move(losses, present, [(c, y) for c in classes for y in range(len(losses))], pairs)

    monkeypatch.setattr(fair_batch, "best_parity_move", single_cells)
    assert far[1] < 0.9 * mean_result(FairBatch(alpha=0.05, random_state=0))[1]


def test_nothing_moves_below_the_threshold():
    X, y, a = coded_data(100)
    net = linear_network(np.random.default_rng(2).standard_normal((3, 4)))
    for limit, moves in ((100.0, False), (1e-6, True)):
        objective = make_objective(y, a, stop_below=limit)
        before = objective.share.copy()
        objective.end_epoch(net, rows_of(X))
        assert (objective.share != before).any() == moves


@pytest.mark.parametrize("pairs", ["extreme", "adjacent"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_shares_stay_on_the_simplex(criterion, pairs):
    X, y, a = coded_data(300)
    model = quick(criterion=criterion, pairs=pairs, alpha=0.3)
    model.set_params(estimator__epochs=12).fit(X, y, sensitive_features=a)
    assert model.shares_.shape == (12, 3, 3) and len(model.history_) == 12
    assert (model.shares_ >= 0).all()
    np.testing.assert_allclose(model.shares_.sum(2), 1.0)
    for e, (_, label, giver, taker, step) in enumerate(model.history_.itertuples(index=False)):
        expected = model.shares_[e].copy()
        expected[label, giver] -= step
        expected[label, taker] += step
        if e < 11:
            np.testing.assert_allclose(model.shares_[e + 1], expected)


# -- violations -----------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_without_moves_it_is_as_accurate_as_plain_training_on_adult():
    train, test = adult()
    plain = evaluate(plain_network(adult), test, "dp")
    unmoved = evaluate(fit_rows(FairBatch(alpha=0, random_state=0), train), test, "dp")
    assert unmoved[0] == pytest.approx(plain[0], abs=0.002)
    assert unmoved[1] == pytest.approx(plain[1], abs=0.02)


@pytest.mark.parametrize("criterion, factor", [("dp", 0.92), ("eop", 0.85)])
def test_defaults_lower_the_violation_of_three_classes_and_groups(criterion, factor):
    """Less than on Adult: batches cannot undo that groups differ in their features. eo is the rule of eop, and does not
    see the rates of mistakes, which are the largest here."""
    _, test = three_by_three()
    plain = evaluate(plain_network(three_by_three), test, criterion)
    accuracy, gap = evaluate(default_fit("FairBatch", criterion), test, criterion)
    assert gap < factor * plain[1] and accuracy > plain[0] - 0.04


@pytest.mark.slow
@pytest.mark.parametrize(
    "criterion, alpha, factor", [("dp", 0.01, 0.8), ("dp", 0.05, 0.3), ("eop", 0.01, 0.8), ("eo", 0.01, 0.8)]
)
def test_adult(criterion, alpha, factor):
    """A mean of three seeds: how far the shares are when training ends is partly chance."""
    train, test = adult()
    plain = evaluate(plain_network(adult), test, criterion)
    models = [fit_rows(FairBatch(criterion=criterion, alpha=alpha, random_state=k), train) for k in range(3)]
    accuracy, gap = np.mean([evaluate(model, test, criterion) for model in models], axis=0)
    assert gap < factor * plain[1] and accuracy > plain[0] - 0.025


def test_equalized_odds_is_the_rule_of_equal_opportunity():
    X, y, a = coded_data(300)
    models = [quick(criterion=c).fit(X, y, sensitive_features=a) for c in ("eop", "eo")]
    np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))


def zafar(n, seed):
    """Return two Gaussians, and a group z that depends on x turned by π/4; z is the third feature."""
    rng = np.random.default_rng(seed)
    worlds = [
        multivariate_normal([-2, -2], [[10, 1], [1, 3]]),
        multivariate_normal([2, 2], [[5, 1], [1, 5]]),
    ]
    y = rng.permutation(np.arange(n) % 2)
    x = np.where(y[:, None] == 1, worlds[1].rvs(n, rng), worlds[0].rvs(n, rng))
    rotation = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    against, favour = (world.pdf(x @ rotation) for world in worlds)
    z = (rng.random(n) < favour / (favour + against)).astype(int)
    return np.c_[x, z], y, z


# The authors' settings: epochs, targets; and what they report on their own sample (accuracy, disparity).
REPORTED = {
    "dp": (450, None, 0.7942, 0.0400),
    "eop": (300, [1], 0.8552, 0.0123),
    "eo": (400, None, 0.8563, 0.0376),
}


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_authors_synthetic_data(criterion):
    """Their sample is not at hand: this is our reconstruction from the published recipe, two samples of it. Disparity
    is theirs, group against all, for eop of the second class only; the accuracy is theirs to a few hundredths."""
    epochs, targets, accuracy, disparity = REPORTED[criterion]
    net = TorchClassifier(epochs=epochs, batch_size=100, lr=5e-4, weight_decay=0.0, decay=1.0)

    def result(model, test):
        right, gap = evaluate(model, test, criterion)
        if criterion == "eop":
            X, _, z = (values[test[1] == 1] for values in test)
            rates = np.array([model.predict(X[z == k]).mean() for k in (0, 1)])
            gap = np.abs(rates - model.predict(X).mean()).max()
        return right, gap

    fair, plain = [], []
    for seed in range(2):
        train, test = zafar(2000, seed), zafar(1000, 100 + seed)
        model = FairBatch(net, criterion=criterion, alpha=0.005, targets=targets, random_state=seed)
        fair.append(result(fit_rows(model, train), test))
        plain.append(result(ERM(net, random_state=seed).fit(*train[:2]), test))
    (right, gap), (_, before) = np.mean(fair, axis=0), np.mean(plain, axis=0)
    assert right == pytest.approx(accuracy, abs=0.03)
    assert gap < disparity + 0.03 and gap < before / 3


# -- classes, weights, groups ---------------------------------------------------------------------------------
def test_targets_are_named_as_the_classes_are():
    X, y, a = coded_data(300)
    labels = np.array(["low", "mid", "top"])[y]
    default = quick().fit(X, labels, sensitive_features=a)
    named = quick(targets=["top", "low", "mid"]).fit(X, labels, sensitive_features=a)
    np.testing.assert_array_equal(default.shares_, named.shares_)
    only = quick(targets=["mid"], criterion="eop").fit(X, labels, sensitive_features=a)
    np.testing.assert_array_equal(only.history_["label"], 1)
    two = quick().fit(X, labels == "top", sensitive_features=a)
    second = quick(targets=[True]).fit(X, labels == "top", sensitive_features=a)
    np.testing.assert_array_equal(two.shares_, second.shares_)
    with pytest.raises(ValueError, match=r"targets=\['best'\]: must be some of the classes \['low', 'mid', 'top'\]"):
        quick(targets=["best"]).fit(X, labels, sensitive_features=a)


def test_weights_count_as_rows():
    """Losses and first shares are those of copies; rows of weight zero are absent."""
    X, y, a = coded_data(120)
    weight = np.random.default_rng(1).integers(0, 4, 120)
    copies, keep = np.repeat(np.arange(120), weight), weight > 0
    model = quick().fit(X, y, sensitive_features=a, sample_weight=weight)
    other = quick().fit(X[copies], y[copies], sensitive_features=a[copies])
    np.testing.assert_allclose(model.shares_[0], other.shares_[0])
    same = quick().fit(X[keep], y[keep], sensitive_features=a[keep], sample_weight=weight[keep])
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    net = linear_network(np.random.default_rng(2).standard_normal((3, 4)))
    for criterion in ("dp", "eop"):
        weighted = make_objective(y[keep], a[keep], criterion, weight=weight[keep])
        repeated = make_objective(y[copies], a[copies], criterion)
        losses = weighted.cell_losses(net, rows_of(X[keep])), repeated.cell_losses(net, rows_of(X[copies]))
        np.testing.assert_allclose(*losses)


def test_rows_of_weight_zero_are_not_drawn():
    X, y, a = coded_data(300)
    index = torch.arange(0, 300, 2)
    weight = 2.0 * (np.arange(300) % 2 == 0)
    objective = make_objective(y, a, weight=weight, index=index)
    assert set(torch.cat(draw_batches(objective, 32)).tolist()) <= set(index.tolist())
    net = linear_network(np.random.default_rng(2).standard_normal((3, 4)))
    half = make_objective(y[::2], a[::2])
    np.testing.assert_allclose(objective.cell_losses(net, rows_of(X)), half.cell_losses(net, rows_of(X[::2])))
    without = make_objective(y, a, weight=weight, index=index[y[index] != 1])  # a label without rows
    assert not without.share[1].any() and np.isfinite(without.share).all() and len(draw_batches(without, 32)) > 1


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_cell_that_is_empty(criterion):
    """It has no share, gets none, and is never the giver or the taker."""
    X, y, a = coded_data(300)
    keep = (y != 2) | (a != 1)
    model = quick(criterion=criterion, alpha=0.2)
    with contextlib.nullcontext() if criterion == "dp" else pytest.warns(OptFairWarning, match="nobody"):
        model.fit(X[keep], y[keep], sensitive_features=a[keep])
    assert (model.shares_[:, 2, 1] == 0).all()
    np.testing.assert_allclose(model.shares_.sum(2), 1.0)
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_group_of_one_and_one_group():
    X, y, _ = coded_data(300)
    lonely = np.where(np.arange(len(y)) == 7, 9, 0)
    with pytest.warns(OptFairWarning, match="nobody"):
        model = quick(criterion="eop").fit(X, y, sensitive_features=lonely)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.warns(OptFairWarning, match="one group"):
        alone = quick().fit(X, y, sensitive_features=np.zeros(len(y)))
    assert len(alone.history_) == 0 and (alone.shares_ == 1).all()


ARGUMENTS = [
    ({"alpha": -1}, "alpha=-1: must be a number in [0, 1]."),
    ({"alpha": 1.5}, "alpha=1.5: must be a number in [0, 1]."),
    ({"alpha": True}, "alpha=True: must be a number in [0, 1]."),
    ({"pairs": "all"}, "pairs='all': must be one of 'extreme', 'adjacent'."),
    ({"stop_below": -0.1}, "stop_below=-0.1: must be a number >= 0."),
    ({"targets": "0"}, "targets='0': must be a list of classes, or None for all."),
    ({"targets": 1}, "targets=1: must be a list of classes, or None for all."),
    ({"targets": [7]}, "targets=[7]: must be some of the classes [0, 1, 2], or None for all."),
    ({"targets": []}, "targets=[]: must be some of the classes [0, 1, 2], or None for all."),
]


@pytest.mark.parametrize("options, message", ARGUMENTS, ids=lambda v: str(v) if isinstance(v, dict) else "")
def test_arguments(options, message):
    X, y, a = coded_data(300)
    with pytest.raises(ValueError) as error:
        quick(**options).fit(X, y, sensitive_features=a)
    assert str(error.value) == message


def test_criteria_it_cannot_use():
    X, y, a = coded_data(300)
    with pytest.raises(ValueError, match=r"criterion='oae': .*use one of 'dp', 'eop', 'eo'"):
        quick(criterion="oae").fit(X, y, sensitive_features=a)
