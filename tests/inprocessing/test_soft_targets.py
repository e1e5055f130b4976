"""Test networks that fit soft targets: the same loss as weighted copies, rates that fall, and plain training first."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairIn
from optfair.inprocessing.game import soft_targets
from optfair.inprocessing.learners import make_learner
from tests.inprocessing.helpers import FEW_ROUNDS, draw_groups, read_rows

torch = pytest.importorskip("torch", reason="needs the extra torch")

from optfair.nn import TorchClassifier  # noqa: E402

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

FROM_ZERO = {"start": "zero", "max_multiplier": 2.0, "tolerance": 0.05, "random_state": 0}


@pytest.mark.parametrize(("criterion", "shift"), [("dp", "cell"), ("eo", "cell"), ("dp", "global")])
def test_copies_and_soft_targets_agree_on_a_linear_model(criterion, shift):
    """They are the same loss: n·mean loss + ‖W‖²/(2C), so weight_decay = 1/(C n)."""
    X, y, group = draw_groups(1500)
    options = {"criterion": criterion, "tolerance": 0.02, "rounds": 8, "shift": shift, "start": "zero"}
    copies = OptFairIn(LogisticRegression(C=10, tol=1e-10, max_iter=5000), max_multiplier=3.0, **options)
    linear = TorchClassifier("linear", batch_size=None, dtype="float64", weight_decay=1 / (10 * len(y)), random_state=0)
    soft = OptFairIn(linear, max_multiplier=3.0, inner_epochs=20, **options)
    for model in (copies, soft):
        model.fit(X, y, sensitive_features=group)
    assert np.abs(copies.trace_.multipliers[-1]).sum() > 0.1  # the constraints bind
    np.testing.assert_allclose(soft.trace_.multipliers, copies.trace_.multipliers, atol=2e-4)
    np.testing.assert_allclose(soft.trace_.confusions, copies.trace_.confusions, atol=2 / len(y))
    for one, other in zip(soft.mixture_.members, copies.mixture_.members, strict=True):
        W = one.parameters_state()["weight"]
        np.testing.assert_allclose(W - W.mean(axis=0), other.coef_ - other.coef_.mean(axis=0), atol=1e-3)


def test_plain_training_is_the_network_itself():
    X, y, group = draw_groups(400)
    network = TorchClassifier("mlp", hidden=(8,), epochs=3, batch_size=64, random_state=5)
    loose = OptFairIn(network, rounds=1, **FROM_ZERO | {"tolerance": 1.0}).fit(X, y, sensitive_features=group)
    assert loose.n_fits_ == 1
    for name, value in network.fit(X, y).parameters_state().items():
        np.testing.assert_array_equal(loose.mixture_.members[0].parameters_state()[name], value)


def test_a_deterministic_network_is_trained_as_long_as_the_first():
    X, y, group = draw_groups(400)
    network = TorchClassifier("linear", epochs=7, batch_size=100)
    model = OptFairIn(network, rounds=3, output="deterministic", **FROM_ZERO).fit(X, y, sensitive_features=group)
    assert model.mixture_.members[0].n_iter_ == 7


class RecordingNetwork(TorchClassifier):
    """Records (epochs, rate) of each fit."""

    fits = []  # noqa: RUF012

    def fit_targets(self, X, cell, table, sample_weight=None, *, rate=1.0, **how):
        self.fits.append((how.get("n_epochs"), rate))
        return super().fit_targets(X, cell, table, sample_weight, rate=rate, **how)


def test_rates_fall_over_the_rounds_to_a_tenth():
    X, y, group = draw_groups(200, classes=2)
    RecordingNetwork.fits.clear()
    network = RecordingNetwork(epochs=2, batch_size=50, decay=0.7)
    OptFairIn(network, rounds=8, inner_epochs=2, **FROM_ZERO).fit(X, y, sensitive_features=group)
    plain, *rounds = RecordingNetwork.fits
    assert plain == (None, 1.0)  # the first round is plain training, which ends at a rate of its own
    assert rounds == [(2, pytest.approx(max(0.1, 0.49**t))) for t in range(1, 8)]


def test_a_peek_changes_nothing():
    """It returns the next best response, and the network continues as if it had not been asked."""
    data = read_rows(*draw_groups(120))
    network = TorchClassifier("mlp", hidden=(6,), epochs=1, batch_size=30, dropout=0.3, random_state=0)
    learner, other = (make_learner(network, data, None, 0, 2, "error") for _ in range(2))
    plain = np.tile(np.eye(3), (2, 1))
    T = soft_targets(plain - 0.3 * np.random.default_rng(0).random((6, 3)), np.full(6, 1 / 6), "cell")
    for one in (learner, other):
        one.best_response(plain, -1)
    peeked = learner.peek(T, 1)
    assert learner.n_fits == 1
    expected = other.best_response(T, 1).parameters_state()
    for model in (peeked, learner.best_response(T, 1)):
        for name, value in expected.items():
            np.testing.assert_array_equal(model.parameters_state()[name], value)
