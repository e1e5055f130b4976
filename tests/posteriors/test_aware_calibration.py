"""P(Y | X, A) is joined with P(Y | X) at the optimum of a loss that groups share."""

import numpy as np
import pytest

from optfair.posteriors.calibration import calibrate_aware
from optfair.posteriors.scaling import CLIP, AwareScaling, fit_aware_scaling
from tests.posteriors.helpers import draw_cells
from tests.problems import softmax

N, A, M = 3000, 3, 3


def people(seed, noise=0.0, n=N):
    """Return (P(Y | X, A) with noise in its logs, P(Y | X, A) itself, groups, classes)."""
    rng = np.random.default_rng(seed)
    a = rng.choice(A, n, p=[0.6, 0.3, 0.1])
    scores = rng.standard_normal((n, 4)) @ rng.standard_normal((4, M)) + 0.5 * rng.standard_normal((A, M))[a]
    P = softmax(scores)
    return softmax(scores + noise * rng.standard_normal((n, M))), P, a, draw_cells(P, rng)


def placed(P, a):
    """Return z of rows whose group is known, (n, A, m)."""
    return np.eye(A)[a][:, :, None] * P[:, None, :]


def divergence(P, Q):
    """Return mean KL(P ‖ Q)."""
    return float((P * np.log(P / Q)).sum(axis=1).mean())


# -- the optimum ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
def test_no_change_of_a_parameter_lowers_the_loss(weighted):
    own, pooled, a, y = people(0, noise=1.0)
    w = np.random.default_rng(1).integers(1, 4, N).astype(float) if weighted else np.ones(N)
    ridge = 25.0
    scaling = fit_aware_scaling(own, pooled, a, y, A, w if weighted else None, ridge)
    logs = np.log(np.maximum(np.column_stack([own, pooled]), CLIP))
    centre = np.eye(2 * M, M)

    def loss(slopes, intercepts):
        likelihood = softmax(logs @ slopes + intercepts[a])[np.arange(N), y]
        # The best common part b is the mean of b + b_a over groups: only the rest is penalised.
        deviation = intercepts - intercepts.mean(axis=0)
        penalty = ((slopes - centre) ** 2).sum() + (deviation**2).sum()
        return -np.average(np.log(likelihood), weights=w) + ridge / (2 * w.sum()) * penalty

    step = 1e-4
    for shape, at in ((scaling.slopes.shape, 0), (scaling.intercepts.shape, 1)):
        for index in np.ndindex(*shape):
            change = np.zeros(shape)
            change[index] = step
            sides = [[scaling.slopes, scaling.intercepts] for _ in range(2)]
            sides[0][at], sides[1][at] = sides[0][at] + change, sides[1][at] - change
            assert abs(loss(*sides[0]) - loss(*sides[1])) / (2 * step) < 2e-5


def test_noise_of_small_groups_is_left_out_where_everybody_tells_more():
    own, P, a, y = people(2, noise=2.0)
    pooled = softmax(np.log(P) - 0.3 * np.arange(M))  # the truth but for intercepts
    joined = fit_aware_scaling(own, pooled, a, y, A)(own, pooled, a)
    _, by_group = calibrate_aware(placed(own, a), a, y, None, folds(N))
    assert divergence(P, joined) < 0.01 < 0.1 < divergence(P, by_group.sum(axis=1)) < divergence(P, own)


def test_what_groups_know_is_kept_where_it_is_right():
    _, P, a, y = people(3)
    pooled = np.tile(P.mean(axis=0), (N, 1))
    joined = fit_aware_scaling(P, pooled, a, y, A)(P, pooled, a)
    assert divergence(P, joined) < 2 * 20 / (2 * N)  # a parameter costs 1/(2n) on average; there are twenty that matter


def test_a_class_without_rows_stays_impossible_and_a_group_without_rows_is_an_average_one():
    own, P, a, y = people(4)
    keep = (y != 1) & (a != 2)
    scaling = fit_aware_scaling(own[keep], P[keep], a[keep], y[keep], A)
    Q = scaling(own, P, a)
    assert (Q[:, 1] == 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    np.testing.assert_allclose(scaling.intercepts[2], scaling.intercepts[:2].mean(axis=0), atol=1e-3)


# -- posteriors ----------------------------------------------------------------------------------------------
def folds(n, k=4):
    """Return k splits by position."""
    part = np.arange(n) % k
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(k)]


def test_rows_of_unknown_group_do_not_change():
    own, pooled, a, y = people(5, noise=1.0)
    Z = placed(own, a)
    calibration, _ = calibrate_aware(Z, a, y, None, folds(N), pooled=pooled)
    assert isinstance(calibration.classes, AwareScaling)
    group = np.where(np.arange(N) < 10, -1, a)
    Q = calibration(Z, group, pooled)
    assert (Q[:10] == Z[:10]).all() and (Q[10:] != Z[10:]).any()
    np.testing.assert_allclose(Q[10:], placed(calibration.classes(own, pooled, a), a)[10:])


def test_few_rows_are_calibrated_by_scalings_that_have_not_seen_them():
    own, pooled, a, y = people(6, noise=1.0, n=200)  # fewer than twenty for a parameter
    Z = placed(own, a)
    calibration, out = calibrate_aware(Z, a, y, None, folds(200), pooled=pooled)
    likelihood = [q[np.arange(200), a, y] for q in (calibration(Z, a, pooled), out)]
    assert np.log(likelihood[0]).mean() > np.log(likelihood[1]).mean()
    np.testing.assert_allclose(out.sum(axis=(1, 2)), 1)
