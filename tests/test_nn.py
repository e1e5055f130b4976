"""The training of `TorchClassifier`: the loss and its gradient, optima known otherwise, seeds, early stopping."""

import threading

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

torch = pytest.importorskip("torch")

from optfair.nn import TorchClassifier, make_module  # noqa: E402
from optfair.nn.batches import ArrayRows, shuffled  # noqa: E402
from optfair.nn.full_batch import Objective  # noqa: E402
from optfair.nn.stopping import validation_rows  # noqa: E402
from optfair.nn.training import (  # noqa: E402
    Optimizer,
    Training,
    add_gradient,
    cross_entropy,
    mean_loss,
    seed_of,
    weigh_targets,
)

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)


def data(n=200, m=3, d=6, seed=0):
    return make_classification(n, d, n_informative=4, n_classes=m, flip_y=0.2, random_state=seed)


def exact(**options):
    """To the optimum, in float64."""
    return TorchClassifier(batch_size=None, dtype="float64", random_state=0, **{"weight_decay": 0.01} | options)


def quick(**options):
    return TorchClassifier(**{"epochs": 3, "batch_size": 32, "random_state": 0} | options)


def same(one, other):
    """Bit for bit the same parameters and buffers."""
    a, b = one.parameters_state(), other.parameters_state()
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- the loss and its gradient ------------------------------------------------------------------------------
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_the_gradient_is_that_of_autograd_and_of_finite_differences(module):
    rng = np.random.default_rng(0)
    net = make_module(module, (4,), 3, hidden=(5,), dropout=0.0).double()
    x, T = torch.from_numpy(rng.standard_normal((7, 4))), torch.from_numpy(rng.random((7, 3)))
    loss = -(torch.log_softmax(net(x), 1) * T).sum()
    by_autograd = torch.autograd.grad(loss, list(net.parameters()))
    training = Training(net, 0)
    f = add_gradient(net, x, T)
    assert float(cross_entropy(f, T)) == pytest.approx(float(loss.detach()))
    for parameter, gradient in zip(net.parameters(), by_autograd, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    before = training.gradient.clone()
    add_gradient(net, x, T)  # adds
    torch.testing.assert_close(training.gradient, 2 * before)
    step = torch.from_numpy(rng.standard_normal(len(before))) * 1e-6
    training.theta += step
    up = float(cross_entropy(net(x), T))
    training.theta -= 2 * step
    down = float(cross_entropy(net(x), T))
    assert up - down == pytest.approx(2 * float(before @ step), rel=1e-5)


def test_the_curvature_is_the_derivative_of_the_gradient():
    X, y = data(50)
    training = Training(make_module("linear", (6,), 3).double(), 0)
    targets = torch.from_numpy(weigh_targets(y, np.random.default_rng(0).random((3, 3)), None))
    objective = Objective(training, ArrayRows(X, CPU), torch.arange(5, 50), targets, 0.1)
    theta = np.random.default_rng(1).standard_normal(len(training.theta))
    v = np.random.default_rng(2).standard_normal(len(theta))
    v[training.theta.numpy() == 0] = 0  # between the parameters there is nothing
    difference = objective.value_gradient(theta + 1e-6 * v)[1] - objective.value_gradient(theta - 1e-6 * v)[1]
    np.testing.assert_allclose(objective.linear_curvature(theta).matvec(v), difference / 2e-6, atol=1e-7)


def test_rows_weigh_one_on_average_whatever_has_weight_zero():
    weight = np.array([0.0, 1.0, 3.0, 0.0])
    T = weigh_targets(np.array([0, 1, 1, 0]), np.array([[1.0, 0.0], [0.25, 0.75]]), weight)
    np.testing.assert_allclose(T.sum(axis=1), [0, 0.5, 1.5, 0])
    np.testing.assert_allclose(T[1:3] / T[1:3].sum(axis=1, keepdims=True), [[0.25, 0.75]] * 2)


def test_batches_of_an_epoch_hold_every_row_once_and_none_is_a_single_row():
    batches = shuffled(torch.arange(33), 8, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(33))
    assert [len(batch) for batch in batches] == [8, 8, 8, 9]


# -- optima known otherwise ---------------------------------------------------------------------------------
@pytest.mark.parametrize("m", [2, 3])
def test_the_linear_module_is_logistic_regression(m):
    """We minimise Σℓ/n + ½ wd ‖W‖², scikit-learn C Σℓ + ½ ‖V‖²: C = 1/(n wd).

    With two classes it has one vector v; our W has the rows ±v/2, ‖W‖² = ‖v‖²/2, and so C = 2/(n wd).
    """
    X, y = data(m=m)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    ours = exact().fit(X, y, weight)
    reference = LogisticRegression(C=(1 if m > 2 else 2) / (0.01 * weight.sum()), tol=1e-10, max_iter=10_000)
    reference.fit(X, y, weight)
    W, b = ours.module_.weight.detach().numpy(), ours.module_.bias.detach().numpy()
    V, c = reference.coef_, reference.intercept_
    if m == 2:
        np.testing.assert_allclose(W[1:] - W[:1], V, atol=1e-4)
        np.testing.assert_allclose(b[1:] - b[:1], c, atol=1e-4)
    else:
        np.testing.assert_allclose(W, V, atol=1e-4)
        np.testing.assert_allclose(b - b.mean(), c - c.mean(), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), reference.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), reference.predict(X))
    assert ours.converged_


def test_soft_targets_are_weighted_copies():
    """Σ_j T_j (−log p_j) is the loss of m copies of the row, labelled j with weight T_j."""
    X, y = data()
    rng = np.random.default_rng(0)
    cell, table, weight = rng.integers(0, 4, len(y)), rng.random((4, 3)), rng.random(len(y))
    # The copies weigh Σ_j T_nj w_n in all and the rows w_n, so that the same decay is another fraction of the whole.
    copies = (table[cell] * weight[:, None]).ravel()
    soft = exact().fit_targets(X, cell, table, weight)
    hard = exact(weight_decay=0.01 * weight.sum() / copies.sum())
    hard.fit(np.repeat(X, 3, axis=0), np.tile(np.arange(3), len(y)), copies)
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=1e-8)


def test_weights_are_repetitions_and_zero_is_absence():
    X, y = data()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = exact().fit(X, y, weight)
    repeated = exact().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    # With batches: rows of weight zero may as well not be there. (One batch, so that the order does not matter.)
    there = np.where(weight > 0, 2.0, 0.0)
    one = quick(batch_size=1000).fit(X, y, there)
    other = quick(batch_size=1000).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-5)


def test_small_batches_come_close_to_the_optimum():
    X, y = data(400)
    best = exact(weight_decay=0.0).fit(X, y)
    rows, targets = ArrayRows(X, CPU), torch.from_numpy(np.eye(3)[y])
    least = mean_loss(best.module_, rows, targets)
    p = best.predict_proba(X)
    assert least == pytest.approx(-np.log(p[np.arange(400), y]).mean())
    for optimizer in ("adamw", "sgd"):
        model = quick(epochs=40, optimizer=optimizer, dtype="float64", weight_decay=0.0, lr=0.02).fit(X, y)
        assert least <= mean_loss(model.module_, rows, targets) < least + 0.002
        assert model.n_iter_ == 40 and not hasattr(model, "converged_")


def test_all_rows_in_one_step_is_a_batch_of_all_rows(monkeypatch):
    X, y = data()
    one = quick(batch_size=len(y), optimizer="adamw", dtype="float64").fit(X, y)
    monkeypatch.setattr("optfair.nn.batches.BLOCK_ROWS", 33)  # from the sum over seven blocks
    other = quick(batch_size=None, optimizer="adamw", dtype="float64").fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
@pytest.mark.parametrize("function", ["fused", "public"])
def test_the_steps_are_those_of_torch(name, function, monkeypatch):
    if function == "public":
        monkeypatch.setattr("optfair.nn.training._FUSED_ADAMW", None)
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(9), rng.standard_normal((5, 9))
    theta, parameter = torch.from_numpy(start.copy()), torch.nn.Parameter(torch.from_numpy(start.copy()))
    options = {"lr": 0.1, "weight_decay": 0.2}
    torchs = torch.optim.AdamW([parameter], **options)
    if name == "sgd":
        torchs = torch.optim.SGD([parameter], momentum=0.9, **options)
    ours = Optimizer(name, theta)
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        torchs.step()
        ours.step(theta, torch.from_numpy(gradient), 0.1, 0.2)
    torch.testing.assert_close(theta, parameter.data)


def test_rates_decay_within_a_call_and_begin_again_in_the_next(monkeypatch):
    X, y = data()
    rates, step = [], Optimizer.step
    monkeypatch.setattr(
        Optimizer, "step", lambda self, theta, gradient, lr, wd: rates.append(lr) or step(self, theta, gradient, lr, wd)
    )
    model = quick(batch_size=100, lr=0.1, decay=0.5)
    model.fit_targets(X, y, np.eye(3), n_epochs=3).fit_targets(X, y, np.eye(3), n_epochs=1)
    np.testing.assert_allclose(rates, np.repeat([0.1, 0.05, 0.025, 0.1], 2))


def test_a_training_that_diverges_says_so():
    X, y = data()
    with pytest.raises(ValueError, match=r"lr=1e\+38: the parameters have grown beyond all numbers; lower lr"):
        quick(optimizer="sgd", lr=1e38, epochs=20).fit(X, y)


# -- continuing ---------------------------------------------------------------------------------------------
def test_partial_fit_is_an_epoch_of_fit_without_decay():
    X, y = data()
    whole = quick(decay=1.0).fit(X, y)
    parts = quick(decay=1.0)
    for _ in range(3):
        parts.partial_fit(X, y, classes=[0, 1, 2])
    assert same(whole, parts)
    again = quick(decay=1.0, epochs=1, warm_start=True)
    for _ in range(3):
        again.fit(X, y)
    assert same(whole, again)
    assert not same(whole.fit_targets(X, y, np.eye(3)), parts)  # it went on
    assert same(whole.fit_targets(X, y, np.eye(3), reset=True), parts)  # and began again


def test_partial_fit_may_see_some_classes_only():
    X, y = data()
    model = quick().partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2]).partial_fit(X[y == 2], y[y == 2])
    assert model.classes_.tolist() == [0, 1, 2] and model.predict_proba(X).shape == (200, 3)


def test_fit_targets_names_the_classes_if_nobody_did():
    X, y = data()
    model = quick().fit_targets(X, y, np.eye(3))
    assert model.classes_.tolist() == [0, 1, 2]
    named = quick().fit(X, np.array(list("abc"))[y]).fit_targets(X, y, np.eye(3), reset=True)
    assert named.classes_.tolist() == list("abc")


def test_prepared_rows_are_rows():
    X, y = data()
    one, two = (quick().fit_targets(X, y, np.eye(3)) for _ in range(2))
    rows = one.prepare(X)
    assert same(one.fit_targets(rows, y, np.eye(3)), two.fit_targets(X, y, np.eye(3)))
    np.testing.assert_array_equal(one.predict_proba(rows), two.predict_proba(X))
    assert same(quick().fit(rows, y), quick().fit(X, y))
    with pytest.raises(ValueError, match=r"X: prepared as torch\.float32 on cpu, this is torch\.float64 on cpu; prep"):
        quick(dtype="float64").fit(rows, y)


# -- early stopping -----------------------------------------------------------------------------------------
def test_validation_rows_are_a_share_of_every_class():
    codes = np.repeat([0, 1, 2], [100, 50, 7])
    rows = validation_rows(codes, 0.2, seed=0)
    assert len(rows) == 31 and len(set(rows)) == 31
    assert all(abs(count - share) <= 1 for count, share in zip(np.bincount(codes[rows]), [20, 10, 1.4], strict=True))
    assert not np.array_equal(rows, validation_rows(codes, 0.2, seed=1))


def test_early_stopping_keeps_the_best_parameters():
    """Noise for labels: the loss on rows kept apart soon rises."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 20)), rng.integers(0, 2, 120)
    options = {"module": "mlp", "hidden": (50,), "lr": 0.02, "decay": 1.0, "epochs": 50}
    model = quick(early_stopping=True, validation_fraction=0.3, patience=4, **options).fit(X, y)
    losses = model.validation_losses_
    best = int(np.argmin(losses))
    assert model.n_iter_ == len(losses) == best + 5 < 50
    apart = validation_rows(y, 0.3, seed_of(0, 0, 1))
    p = model.predict_proba(X[apart])[np.arange(len(apart)), y[apart]]
    assert -np.log(p).mean() == pytest.approx(losses[best], rel=1e-5)
    # The rows kept apart taught it nothing: without them, as many epochs give the same network.
    weight = np.ones(len(y))
    weight[apart] = 0
    assert same(model, quick(**options | {"epochs": best + 1}).fit(X, y, weight))


# -- seeds --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_the_seed_decides_and_global_states_are_left_alone(module):
    X, y = data()
    torch.manual_seed(1)
    before, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one = quick(module=module).fit(X, y)
    torch.rand(3)
    two = quick(module=module).fit(X, y)
    assert same(one, two) and not same(one, quick(module=module, random_state=1).fit(X, y))
    assert not same(quick(random_state=None).fit(X, y), quick(random_state=None).fit(X, y))
    torch.manual_seed(1)
    quick(module=module, random_state=None).fit(X, y).predict(X)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpys, np.random.get_state()[1])  # noqa: NPY002


def test_generators_give_seeds():
    X, y = data()
    for make in (np.random.RandomState, np.random.default_rng):
        assert same(quick(random_state=make(3)).fit(X, y), quick(random_state=make(3)).fit(X, y))


def test_threads_do_not_disturb_each_other():
    """Dropout draws from torch's global generator."""
    X, y = data()
    alone = [quick(module="mlp", random_state=k).fit(X, y) for k in range(3)]
    together = [quick(module="mlp", random_state=k) for k in range(3)]
    threads = [threading.Thread(target=model.fit, args=(X, y)) for model in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(one, other) for one, other in zip(alone, together, strict=True))


# -- L-BFGS -------------------------------------------------------------------------------------------------
def test_lbfgs_goes_on_from_where_it_was_and_says_if_it_was_not_enough():
    X, y = data()
    model = exact().fit(X, y)
    first = model.parameters_state()
    assert model.fit_targets(X, y, np.eye(3)).n_iter_ <= 1  # it was there already
    np.testing.assert_allclose(model.parameters_state()["weight"], first["weight"], atol=1e-8)
    with pytest.warns(ConvergenceWarning, match="epochs=1: L-BFGS has not converged in 50 iterations; raise epochs"):
        exact(epochs=1, weight_decay=0.0).fit(X * np.logspace(-4, 0, 6), y)
    exact(weight_decay=0.0).fit_targets(X * np.logspace(-4, 0, 6), y, np.eye(3), n_epochs=1)  # as asked, no warning


def test_lbfgs_trains_networks_too_without_dropout():
    X, y = data()
    models = [exact(module="mlp", hidden=(8,), dropout=p, epochs=4) for p in (0.0, 0.9)]
    one, other = (model.fit_targets(X, y, np.eye(3), n_epochs=4) for model in models)
    assert same(one, other) and one.score(X, y) > exact().fit(X, y).score(X, y)
    assert one.module_[2].training is False
