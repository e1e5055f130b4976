"""L-BFGS and Newton steps on all rows: optima that are known otherwise."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

torch = pytest.importorskip("torch")

from tests.nn.helpers import classification, exact, quick, same_parameters  # noqa: E402


@pytest.mark.parametrize("m", [2, 3])
def test_the_linear_module_is_logistic_regression(m):
    """We minimise Σℓ/n + ½ wd ‖W‖², scikit-learn C Σℓ + ½ ‖V‖²: C = 1/(n wd).

    With two classes it has one vector v; our W has the rows ±v/2, ‖W‖² = ‖v‖²/2, and so C = 2/(n wd).
    """
    X, y = classification(m=m)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    model = exact().fit(X, y, weight)
    reference = LogisticRegression(C=(1 if m > 2 else 2) / (0.01 * weight.sum()), tol=1e-10, max_iter=10_000)
    reference.fit(X, y, weight)
    W, b = model.module_.weight.detach().numpy(), model.module_.bias.detach().numpy()
    V, c = reference.coef_, reference.intercept_
    if m == 2:
        np.testing.assert_allclose(W[1:] - W[:1], V, atol=1e-4)
        np.testing.assert_allclose(b[1:] - b[:1], c, atol=1e-4)
    else:
        np.testing.assert_allclose(W, V, atol=1e-4)
        np.testing.assert_allclose(b - b.mean(), c - c.mean(), atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), reference.predict(X))
    assert model.converged_


def test_soft_targets_are_weighted_copies():
    """Σ_j T_j (−log p_j) is the loss of m copies of the row, labelled j with weight T_j."""
    X, y = classification()
    rng = np.random.default_rng(0)
    cell, table, weight = rng.integers(0, 4, len(y)), rng.random((4, 3)), rng.random(len(y))
    # The copies weigh Σ_j T_nj w_n in all and the rows w_n, so that the same decay is another fraction of the whole.
    copies = (table[cell] * weight[:, None]).ravel()
    soft = exact().fit_targets(X, cell, table, weight)
    hard = exact(weight_decay=0.01 * weight.sum() / copies.sum())
    hard.fit(np.repeat(X, 3, axis=0), np.tile(np.arange(3), len(y)), copies)
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=1e-8)


def test_weights_are_repetitions_and_zero_is_absence():
    X, y = classification()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = exact().fit(X, y, weight)
    repeated = exact().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    # With batches: rows of weight zero may as well be absent. (One batch, so that the order does not matter.)
    zeros = quick(batch_size=1000).fit(X, y, np.where(weight > 0, 2.0, 0.0))
    absent = quick(batch_size=1000).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(zeros.predict_proba(X), absent.predict_proba(X), atol=1e-5)


def test_lbfgs_goes_on_from_where_it_was_and_says_if_it_was_not_enough():
    X, y = classification()
    model = exact().fit(X, y)
    first = model.parameters_state()
    assert model.fit_targets(X, y, np.eye(3)).n_iter_ <= 1  # it starts at the optimum
    np.testing.assert_allclose(model.parameters_state()["weight"], first["weight"], atol=1e-8)
    with pytest.warns(ConvergenceWarning, match="epochs=1: L-BFGS has not converged in 50 iterations; raise epochs"):
        exact(epochs=1, weight_decay=0.0).fit(X * np.logspace(-4, 0, 6), y)
    # No warning where the number of epochs is that of the call.
    exact(weight_decay=0.0).fit_targets(X * np.logspace(-4, 0, 6), y, np.eye(3), n_epochs=1)


def test_lbfgs_trains_networks_too_without_dropout():
    X, y = classification()
    models = [exact(module="mlp", hidden=(8,), dropout=p, epochs=4) for p in (0.0, 0.9)]
    plain, dropout = (model.fit_targets(X, y, np.eye(3), n_epochs=4) for model in models)
    assert same_parameters(plain, dropout) and plain.score(X, y) > exact().fit(X, y).score(X, y)
    assert plain.module_[2].training is False
