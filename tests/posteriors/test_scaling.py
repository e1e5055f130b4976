"""A scaling is the optimum of its loss, and brings distorted probabilities back to the truth."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair.posteriors import multinomial as module
from optfair.posteriors.scaling import CLIP, Scaling, fit_scaling
from tests.posteriors.helpers import draw_cells
from tests.problems import softmax

N, K = 1200, 4


def truth(seed, n=N, k=K):
    """Return P (n, k) and cells drawn from it."""
    rng = np.random.default_rng(seed)
    P = softmax(rng.normal(size=(n, 3)) @ rng.normal(size=(3, k)) + 0.5 * rng.normal(size=k))
    return P, draw_cells(P, rng)


def power(P, exponent=1.7, shift=0.0):
    """Distort P: softmax(exponent · log P + shift)."""
    return softmax(exponent * np.log(P) + shift)


def divergence(P, Q):
    """Return mean KL(P ‖ Q), by which the log loss of Q is above that of the truth; labels add no noise to it."""
    return float((P * np.log(P / Q)).sum(axis=1).mean())


def freedom(k):
    """Return the number of parameters that matter: equal changes of all scores change nothing."""
    return (k + 1) * (k - 1)


def make_loss(Z, cell, w, ridge):
    """Return the loss of the module's equation as a function of (B, b)."""
    logs = np.log(np.maximum(Z, CLIP))

    def loss(B, b):
        likelihood = softmax(logs @ B + b)[np.arange(len(Z)), cell]
        return -np.average(np.log(likelihood), weights=w) + ridge / (2 * w.sum()) * ((B - np.eye(len(B))) ** 2).sum()

    return loss


# -- the optimum --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ridge", [0.1, 1.0, 50.0])
def test_no_change_of_a_parameter_lowers_the_loss(ridge):
    P, cell = truth(0)
    Z, w = power(P), 1 + np.random.default_rng(1).exponential(size=N)
    scaling = fit_scaling(Z, cell, w, ridge)
    loss = make_loss(Z, cell, w, ridge)
    B, b, step = scaling.slopes, scaling.intercepts, 1e-4
    for c in range(K):
        for j in range(K):
            E = np.zeros((K, K))
            E[c, j] = step
            assert abs(loss(B + E, b) - loss(B - E, b)) / (2 * step) < 1e-5
        e = np.eye(K)[c] * step
        assert abs(loss(B, b + e) - loss(B, b - e)) / (2 * step) < 1e-5
    assert loss(B, b) < loss(np.eye(K), np.zeros(K)) - 1e-3


def test_no_change_of_a_diagonal_parameter_lowers_the_loss(monkeypatch):
    monkeypatch.setattr(module, "SMALLEST_GAIN", 0.0)
    P, cell = truth(0)
    Z, w = power(P), 1 + np.random.default_rng(1).exponential(size=N)
    scaling = fit_scaling(Z, cell, w, 1.0, diagonal=True)
    loss = make_loss(Z, cell, w, 1.0)
    B, b, step = scaling.slopes, scaling.intercepts, 1e-4
    assert (np.diag(np.diag(B)) == B).all()
    for e in np.eye(K) * step:
        assert abs(loss(B + np.diag(e), b) - loss(B - np.diag(e), b)) / (2 * step) < 1e-5
        assert abs(loss(B, b + e) - loss(B, b - e)) / (2 * step) < 1e-5
    again = fit_scaling(Z, cell, w, 1.0, start=scaling, diagonal=True)
    np.testing.assert_allclose(again.slopes, B, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_moments_are_those_of_the_labels(weighted):
    """Intercepts are free, so cells agree on average; products with log z_c agree up to the gradient of the ridge."""
    P, cell = truth(2)
    Z, onehot = power(P), np.eye(K)[cell]
    w = np.random.default_rng(3).uniform(1, 4, N) if weighted else np.ones(N)
    scaling = fit_scaling(Z, cell, w if weighted else None)
    wrong = (scaling(Z) - onehot) * (w / w.sum())[:, None]
    np.testing.assert_allclose(wrong.sum(axis=0), 0, atol=1e-5)
    ridge_gradient = 10.0 * (scaling.slopes - np.eye(K)) / w.sum()
    np.testing.assert_allclose(np.log(np.maximum(Z, CLIP)).T @ wrong, -ridge_gradient, atol=1e-5)


def test_without_ridge_it_is_logistic_regression_on_log_z():
    P, cell = truth(4)
    Z = power(P, 0.6)
    model = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(np.log(Z), cell)
    np.testing.assert_allclose(fit_scaling(Z, cell, ridge=1e-9)(Z), model.predict_proba(np.log(Z)), atol=2e-5)


def test_with_a_large_ridge_only_the_shares_of_the_cells_are_corrected():
    P, cell = truth(5)
    Z = power(P)
    scaling = fit_scaling(Z, cell, ridge=1e9)
    np.testing.assert_allclose(scaling.slopes, np.eye(K), atol=1e-5)
    np.testing.assert_allclose(scaling(Z).mean(axis=0), np.bincount(cell) / N, atol=1e-5)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e6])
def test_a_posterior_that_agrees_with_the_labels_does_not_change(ridge):
    """Counts of cells at each x are exactly proportional to z(x): the identity is the optimum whatever the ridge."""
    counts = np.random.default_rng(6).integers(1, 9, (25, K))
    Z = np.repeat(counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1), axis=0)
    cell = np.concatenate([np.repeat(np.arange(K), row) for row in counts])
    scaling = fit_scaling(Z, cell, ridge=ridge)
    np.testing.assert_allclose(scaling.slopes, np.eye(K), atol=1e-9)
    np.testing.assert_allclose(scaling(Z), Z, atol=1e-9)


# -- rows and weights ----------------------------------------------------------------------------------------
def test_a_weight_of_two_is_two_rows():
    P, cell = truth(7, 400)
    Z, times = power(P), np.random.default_rng(8).integers(1, 4, 400)
    weighted = fit_scaling(Z, cell, times.astype(float))
    repeated = fit_scaling(np.repeat(Z, times, axis=0), np.repeat(cell, times))
    np.testing.assert_allclose(weighted(Z), repeated(Z), atol=1e-5)


@pytest.mark.parametrize("scale", [1 / 400, 1e-6])
def test_small_weights_stand_for_as_many_rows(scale):
    P, cell = truth(9, 400)
    Z = power(P)
    np.testing.assert_allclose(fit_scaling(Z, cell, np.full(400, scale))(Z), fit_scaling(Z, cell)(Z), atol=1e-6)


def test_the_order_of_rows_does_not_matter():
    P, cell = truth(10)
    Z, order = power(P), np.random.default_rng(11).permutation(N)
    np.testing.assert_allclose(fit_scaling(Z[order], cell[order])(Z), fit_scaling(Z, cell)(Z), atol=1e-5)


def test_cells_without_rows_stay_empty():
    P, cell = truth(12)
    Z = np.insert(power(P), [0, 2], 0.0, axis=1)  # cells 0 and 3 of six
    places = np.array([1, 2, 4, 5])
    scaling = fit_scaling(Z, places[cell])
    assert scaling.cells.tolist() == places.tolist()
    assert (scaling(Z)[:, [0, 3]] == 0).all()
    np.testing.assert_allclose(scaling(Z)[:, places], fit_scaling(power(P), cell)(power(P)), atol=1e-6)


def test_mass_on_a_cell_without_rows_goes_to_the_others():
    P, cell = truth(13)
    Q = fit_scaling(P, np.where(cell == 0, 1, cell))(P)
    assert (Q[:, 0] == 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1)


def test_one_cell_for_all_rows_is_certain():
    P, _ = truth(14, 50)
    assert (fit_scaling(P, np.full(50, 2))(P) == np.eye(K)[2]).all()


def test_zeros_in_z_give_finite_probabilities():
    """Forests predict 0 and 1 where the truth is neither; some of these are wrong, and no row may become NaN."""
    P, cell = truth(15)
    Z = np.where(P < 0.1, 0.0, P)
    Z[:40] = np.eye(K)[(cell[:40] + 1) % K]
    Z /= Z.sum(axis=1, keepdims=True)
    Q = fit_scaling(Z, cell)(Z)
    assert np.isfinite(Q).all() and (Q > 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    np.testing.assert_allclose(Q.mean(axis=0), np.bincount(cell) / N, atol=1e-5)


# -- the same optimum by every path --------------------------------------------------------------------------
def test_the_optimum_does_not_depend_on_the_preconditioner(monkeypatch):
    P, cell = truth(16)
    Z = power(P)
    full = fit_scaling(Z, cell)
    monkeypatch.setattr(module, "FULL_HESSIAN_CELLS", 2)
    monkeypatch.setattr(module, "SMALLEST_GAIN", 0.0)
    blocks = fit_scaling(Z, cell)
    loss = make_loss(Z, cell, np.ones(N), 1.0)
    assert loss(blocks.slopes, blocks.intercepts) < loss(full.slopes, full.intercepts) + 1e-6
    np.testing.assert_allclose(blocks(Z), full(Z), atol=1e-3)


@pytest.mark.parametrize(("constant", "value"), [("FULL_HESSIAN_CELLS", 2), ("SINGLE_PRECISION_NUMBERS", 1)])
def test_a_large_fit_ends_where_labels_tell_no_more_apart(constant, value, monkeypatch):
    P, cell = truth(16)
    Z = power(P)
    exact = fit_scaling(Z, cell)
    monkeypatch.setattr(module, constant, value)
    quick = fit_scaling(Z, cell)
    loss = make_loss(Z, cell, np.ones(N), 10.0)
    assert (quick.slopes != exact.slopes).any()
    assert loss(quick.slopes, quick.intercepts) < loss(exact.slopes, exact.intercepts) + 0.01 * freedom(K) / (2 * N)


def test_the_start_changes_the_way_and_not_the_end():
    """Also where the start knows other cells, and is not taken."""
    P, cell = truth(30)
    Z, half = power(P), slice(0, N // 2)
    expected = fit_scaling(Z[half], cell[half])(Z)
    others = fit_scaling(Z, np.where(cell == 0, 1, cell))
    for start in (fit_scaling(Z, cell), others):
        np.testing.assert_allclose(fit_scaling(Z[half], cell[half], start=start)(Z), expected, atol=2e-5)


def test_many_cells_need_little_memory():
    """The curvature of 150 cells as one matrix would be 4 GB."""
    rng = np.random.default_rng(17)
    Z = rng.dirichlet(np.ones(150), 300)
    cell = np.concatenate([np.arange(150), draw_cells(Z[150:], rng)])
    Q = fit_scaling(Z, cell, ridge=1e4)(Z)
    np.testing.assert_allclose(Q.mean(axis=0), np.bincount(cell) / 300, atol=1e-3)


def test_a_start_from_a_sketch_ends_at_the_same_optimum(monkeypatch):
    P, cell = truth(18)
    Z = power(P)
    plain = fit_scaling(Z, cell)(Z)
    monkeypatch.setattr(module, "SKETCH_ROWS", N // 4)
    np.testing.assert_allclose(fit_scaling(Z, cell)(Z), plain, atol=2e-5)


def test_a_sample_of_the_rows_gives_nearly_the_same_scaling(monkeypatch):
    """Check half of 8 000 rows: the distance to the full fit is that of so many rows, and a rare cell is present."""
    P, cell = truth(19, 8000)
    Z = np.column_stack([power(P), np.full(8000, 1e-3)])  # and a sixth cell without rows
    Z = np.insert(Z / Z.sum(axis=1, keepdims=True), 2, 1e-3, axis=1) / 1.001
    cell = np.where(cell >= 2, cell + 1, cell)
    cell[:6] = 2
    full = fit_scaling(Z, cell)
    monkeypatch.setattr(module, "FIT_ROWS", 4000)
    sampled = fit_scaling(Z, cell)
    assert sampled.cells.tolist() == full.cells.tolist() == [0, 1, 2, 3, 4]
    Q, R = full(Z)[:, :5], sampled(Z)[:, :5]
    assert divergence(Q, R) < 3 * freedom(5) / (2 * 4000)
    assert 3 < 8000 * R[:, 2].mean() < 12


def test_samples_have_the_shares_of_the_rows_they_come_from():
    rng = np.random.default_rng(20)
    target, w = rng.choice(4, 5000, p=[0.9, 0.05, 0.049, 0.001]), rng.uniform(0.5, 2, 5000)
    index, weight = module._sample(target, w, 1000, rng)
    assert len(np.unique(index)) == len(index) <= 1000
    share = np.bincount(target[index], weight, 4) / weight.sum()
    np.testing.assert_allclose(share, np.bincount(target, w, 4) / w.sum(), rtol=0.1)
    assert set(np.flatnonzero(target == 3)) <= set(index)


# -- the truth ----------------------------------------------------------------------------------------------
def test_a_calibrated_z_changes_no_more_than_by_chance():
    P, cell = truth(21, 4000)
    assert divergence(P, fit_scaling(P, cell)(P)) < 2 * freedom(K) / (2 * 4000)


@pytest.mark.parametrize(
    "distort",
    [
        lambda P: power(P, 1.8),
        lambda P: power(P, 0.5),
        lambda P: power(P, 1.0, np.repeat([0.6, -0.6], 3)),  # the first group is overestimated
        lambda P: power(P, 1.5, np.array([0.5, 0.0, -0.5, 0.2, -0.2, 0.0])),
    ],
    ids=["overconfident", "underconfident", "group shift", "all three"],
)
def test_a_distorted_z_is_brought_back_to_the_truth(distort):
    """Check that on new rows the log loss is that of the truth, up to the cost of estimating so many parameters."""
    n, k = 3000, 6
    rng = np.random.default_rng(22)
    P = softmax(rng.normal(size=(2 * n, 3)) @ rng.normal(size=(3, k)))
    cell, Z = draw_cells(P, rng), distort(P)
    scaling = fit_scaling(Z[:n], cell[:n])
    after, chance = divergence(P[n:], scaling(Z[n:])), freedom(k) / (2 * n)
    assert after < 2.5 * chance < 0.5 * divergence(P[n:], Z[n:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    P, cell = truth(28)
    Z = power(P).astype(dtype)
    Q = fit_scaling(Z, cell)(Z)
    assert Q.dtype == dtype
    np.testing.assert_allclose(Q, fit_scaling(power(P), cell)(power(P)), atol=1e-5)


def test_rows_are_scaled_one_by_one():
    """Check it for rows of several blocks, and that Z does not change."""
    P, _ = truth(29, 70_000)
    scaling = Scaling(0.5 * np.eye(K), np.arange(K) / 2.0, np.arange(K), K)
    before = P.copy()
    np.testing.assert_allclose(scaling(P), softmax(0.5 * np.log(np.maximum(P, CLIP)) + np.arange(K) / 2), atol=1e-12)
    assert (before == P).all()
