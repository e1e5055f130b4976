"""The steps of AdamW and SGD, and their rates."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optfair.nn.optimizers import Optimizer  # noqa: E402
from tests.nn.helpers import classification, quick  # noqa: E402


@pytest.mark.parametrize("name", ["adamw", "sgd"])
@pytest.mark.parametrize("function", ["fused", "public"])
def test_the_steps_are_those_of_torch(name, function, monkeypatch):
    if function == "public":
        monkeypatch.setattr("optfair.nn.optimizers._FUSED_ADAMW", None)
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal(9), rng.standard_normal((5, 9))
    theta, parameter = torch.from_numpy(start.copy()), torch.nn.Parameter(torch.from_numpy(start.copy()))
    options = {"lr": 0.1, "weight_decay": 0.2}
    reference = torch.optim.AdamW([parameter], **options)
    if name == "sgd":
        reference = torch.optim.SGD([parameter], momentum=0.9, **options)
    optimizer = Optimizer(name, theta)
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        reference.step()
        optimizer.step(theta, torch.from_numpy(gradient), 0.1, 0.2)
    torch.testing.assert_close(theta, parameter.data)


def test_rates_decay_within_a_call_and_begin_again_in_the_next(monkeypatch):
    X, y = classification()
    rates, step = [], Optimizer.step
    monkeypatch.setattr(
        Optimizer, "step", lambda self, theta, gradient, lr, wd: rates.append(lr) or step(self, theta, gradient, lr, wd)
    )
    model = quick(batch_size=100, lr=0.1, decay=0.5)
    model.fit_targets(X, y, np.eye(3), n_epochs=3).fit_targets(X, y, np.eye(3), n_epochs=1)
    np.testing.assert_allclose(rates, np.repeat([0.1, 0.05, 0.025, 0.1], 2))
