"""The loss of soft targets and its gradient, against autograd, finite differences and definitions."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.nn import make_module  # noqa: E402
from optfair.nn.batches import ArrayRows  # noqa: E402
from optfair.nn.full_batch import PenalisedLoss  # noqa: E402
from optfair.nn.loss import add_gradient, cross_entropy, mean_loss, weigh_targets  # noqa: E402
from optfair.nn.training import TrainingState  # noqa: E402
from tests.nn.helpers import CPU, classification, exact  # noqa: E402


@pytest.mark.parametrize("module", ["linear", "mlp"])
def test_the_gradient_is_that_of_autograd_and_of_finite_differences(module):
    rng = np.random.default_rng(0)
    net = make_module(module, (4,), 3, hidden=(5,), dropout=0.0).double()
    x, T = torch.from_numpy(rng.standard_normal((7, 4))), torch.from_numpy(rng.random((7, 3)))
    loss = -(torch.log_softmax(net(x), 1) * T).sum()
    autograd = torch.autograd.grad(loss, list(net.parameters()))
    training = TrainingState(net, 0)
    f = add_gradient(net, x, T)
    assert float(cross_entropy(f, T)) == pytest.approx(float(loss.detach()))
    for parameter, gradient in zip(net.parameters(), autograd, strict=True):
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
    X, y = classification(50)
    training = TrainingState(make_module("linear", (6,), 3).double(), 0)
    targets = torch.from_numpy(weigh_targets(y, np.random.default_rng(0).random((3, 3)), None))
    loss = PenalisedLoss(training, ArrayRows(X, CPU), torch.arange(5, 50), targets, 0.1)
    theta = np.random.default_rng(1).standard_normal(len(training.theta))
    v = np.random.default_rng(2).standard_normal(len(theta))
    v[training.theta.numpy() == 0] = 0  # the padding between the parameters
    difference = loss.value_gradient(theta + 1e-6 * v)[1] - loss.value_gradient(theta - 1e-6 * v)[1]
    np.testing.assert_allclose(loss.linear_curvature(theta).matvec(v), difference / 2e-6, atol=1e-7)


def test_rows_weigh_one_on_average_without_those_of_weight_zero():
    weight = np.array([0.0, 1.0, 3.0, 0.0])
    T = weigh_targets(np.array([0, 1, 1, 0]), np.array([[1.0, 0.0], [0.25, 0.75]]), weight)
    np.testing.assert_allclose(T.sum(axis=1), [0, 0.5, 1.5, 0])
    np.testing.assert_allclose(T[1:3] / T[1:3].sum(axis=1, keepdims=True), [[0.25, 0.75]] * 2)


def test_the_mean_loss_is_that_of_the_probabilities():
    X, y = classification()
    model = exact(epochs=1).fit(X, y)
    p = model.predict_proba(X)[np.arange(len(y)), y]
    loss = mean_loss(model.module_, ArrayRows(X, CPU), torch.from_numpy(np.eye(3)[y]))
    assert loss == pytest.approx(-np.log(p).mean())
