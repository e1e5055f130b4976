"""A calibration scales each factor of z by the people it speaks of, and follows labels only as far as they go."""

import numpy as np
import pytest

from optfair.posteriors import calibration as module
from optfair.posteriors.calibration import (
    GROUP_RIDGE,
    ROWS_PER_PARAMETER,
    AwareCalibration,
    FactorCalibration,
    JointCalibration,
    calibrate_aware,
    calibrate_blind,
    fit_factor,
    group_shares,
    join_factors,
)
from optfair.posteriors.scaling import fit_scaling, identity_scaling
from tests.posteriors.helpers import draw_cells
from tests.problems import softmax


def folds(n, k=5):
    """Return k splits by position."""
    part = np.arange(n) % k
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(k)]


def joint(seed, n=6000, A=3, m=3):
    """Return a true joint posterior (n, A, m), and groups and classes drawn from it."""
    rng = np.random.default_rng(seed)
    P = softmax(rng.normal(size=(n, 3)) @ rng.normal(size=(3, A * m)))
    cell = draw_cells(P, rng)
    return P.reshape(n, A, m), cell // m, cell % m


def grouped(seed, n=3000, A=3, m=3):
    """Return Z (n, A, m) of rows with known groups, distorted differently in each; a, y."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, A, n)
    P = softmax(rng.normal(size=(n, m)) * 1.5)
    y = draw_cells(P, rng)
    Z = np.zeros((n, A, m))
    Z[np.arange(n), a] = softmax((1.0 + 0.4 * a)[:, None] * np.log(P) + a[:, None] * np.eye(m)[0])
    return Z, a, y


def divergence(P, Q):
    """Return mean KL(P ‖ Q)."""
    return float((P * np.log(P / Q)).sum(axis=(1, 2)).mean())


@pytest.fixture
def by_factors(monkeypatch):
    """Let people be too few for a scaling of all cells."""
    monkeypatch.setattr(module, "ROWS_PER_PARAMETER", 150)


# -- all cells ----------------------------------------------------------------------------------------------
def test_where_people_are_plenty_all_cells_are_scaled_at_once():
    Z, a, y = joint(29)
    calibration, out = calibrate_blind(Z, a, y, None, folds(len(a)))
    assert isinstance(calibration, JointCalibration)
    expected = fit_scaling(Z.reshape(len(a), -1), a * 3 + y)(Z.reshape(len(a), -1)).reshape(Z.shape)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    few = slice(0, 20 * 9 * 10 - 1)
    assert isinstance(calibrate_blind(Z[few], a[few], y[few], None, folds(1799))[0], FactorCalibration)


def test_cells_too_many_for_the_rows_of_a_fit_are_scaled_by_factors(monkeypatch):
    """However many the people are: a fit of all cells would cost more than the rule."""
    Z, a, y = joint(31)
    monkeypatch.setattr(module, "FIT_ROWS", 20 * 9 * 10 - 1)
    assert isinstance(calibrate_blind(Z, a, y, None, folds(len(a)))[0], FactorCalibration)


def test_of_all_cells_only_the_split_over_groups_may_be_taken():
    Z, a, y = joint(30)
    (kept, whole) = (calibrate_blind(Z, a, y, None, folds(len(a)), keep_classes=keep)[1] for keep in (True, False))
    np.testing.assert_allclose(kept.sum(axis=1), Z.sum(axis=1), rtol=1e-14)
    for share, expected in zip(group_shares(kept), group_shares(whole), strict=True):
        np.testing.assert_allclose(share, expected, rtol=1e-9)


# -- factors ------------------------------------------------------------------------------------------------
def test_factors_of_z_join_to_z():
    Z, _, _ = joint(0, 50)
    np.testing.assert_allclose(join_factors(Z.sum(axis=1), list(group_shares(Z))), Z, rtol=1e-12)


def test_groups_of_an_impossible_class_have_equal_shares():
    Z, _, _ = joint(1, 5)
    Z[:, :, 1] = 0.0
    assert (list(group_shares(Z))[1] == 1 / 3).all()


def test_each_factor_is_scaled_by_the_people_it_speaks_of(by_factors):
    """P(A | X, Y=i) is fitted to people of class i alone, P(Y | X) to everybody."""
    Z, a, y = joint(2)
    weight = np.random.default_rng(3).uniform(1, 3, len(a))
    calibration, out = calibrate_blind(Z, a, y, weight, folds(len(a)))
    for i, share in enumerate(group_shares(Z)):
        rows = y == i
        scaling = fit_scaling(share[rows], a[rows], weight[rows], GROUP_RIDGE)
        np.testing.assert_allclose(list(group_shares(out))[i], scaling(share), atol=1e-6)
    np.testing.assert_allclose(out.sum(axis=1), fit_scaling(Z.sum(axis=1), y, weight)(Z.sum(axis=1)), atol=1e-6)
    np.testing.assert_allclose(calibration(Z), out, atol=1e-12)


def test_the_model_s_own_probabilities_of_the_classes_can_be_kept(by_factors):
    Z, a, y = joint(4)
    Z = Z**1.5 / (Z**1.5).sum(axis=(1, 2), keepdims=True)
    calibration, out = calibrate_blind(Z, a, y, None, folds(len(a)), keep_classes=True)
    assert calibration.classes is None
    np.testing.assert_allclose(out.sum(axis=1), Z.sum(axis=1), rtol=1e-14)
    assert np.abs(out - Z).max() > 0.01


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.8])
def test_a_z_whose_factors_are_distorted_is_brought_back_to_the_truth(exponent, by_factors):
    """On new rows, up to the cost of estimating so many parameters."""
    P, a, y = joint(5, 12_000)
    shares = [softmax(exponent * np.log(share) + 0.4 * np.arange(3)) for share in group_shares(P)]
    Z = join_factors(softmax(exponent * np.log(P.sum(axis=1))), shares)
    train, test = slice(0, 6000), slice(6000, None)
    calibration, _ = calibrate_blind(Z[train], a[train], y[train], None, folds(6000))
    n_parameters = 4 * 3 * 4
    assert divergence(P[test], calibration(Z[test])) < 2 * n_parameters / (2 * 6000) < divergence(P[test], Z[test])


def test_very_many_groups_are_scaled_one_by_one(monkeypatch):
    """Maps of all pairs of groups would cost more than the rule; shares that are powers of the truth need none."""
    P, a, y = joint(12, 8000, A=8, m=2)
    Z = join_factors(P.sum(axis=1), [softmax(1.8 * np.log(share)) for share in group_shares(P)])
    monkeypatch.setattr(module, "FIT_ROWS", 20 * 8 * 9 - 1)
    calibration, out = calibrate_blind(Z, a, y, None, folds(8000))
    assert all((scaling.slopes == np.diag(np.diag(scaling.slopes))).all() for scaling in calibration.groups)
    assert divergence(P, out) < 2 * (2 * 2 * 8 + 2 * 3) / (2 * 8000) < 0.5 * divergence(P, Z)


def test_cells_without_people_stay_empty(by_factors):
    Z, a, y = joint(6)
    y[(a == 1) & (y == 2)] = 0
    _, out = calibrate_blind(Z, a, y, None, folds(len(a)))
    assert (out[:, 1, 2] == 0).all() and (np.delete(out.reshape(len(a), -1), 5, axis=1) > 0).all()
    np.testing.assert_allclose(out.sum(axis=(1, 2)), 1)


# -- aware ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
def test_aware_is_one_scaling_for_each_group(weighted):
    Z, a, y = grouped(24)
    w = np.random.default_rng(25).uniform(1, 3, len(a)) if weighted else None
    calibration, out = calibrate_aware(Z, a, y, w, folds(len(a)))
    for group in range(3):
        rows = a == group
        scaling = fit_scaling(Z[rows, group], y[rows], None if w is None else w[rows])
        np.testing.assert_allclose(out[rows, group], scaling(Z[rows, group]), atol=1e-7)
        assert (np.delete(out[rows], group, axis=1) == 0).all()
    assert (calibration(Z, a) == out).all()


def test_rows_of_unknown_group_do_not_change():
    Z, a, y = grouped(26)
    calibration, _ = calibrate_aware(Z, a, y, None, folds(len(a)))
    blind = np.full((5, 3, 3), 1 / 9)
    Q = calibration(np.concatenate([Z[:5], blind]), np.concatenate([a[:5], np.full(5, -1)]))
    assert (Q[5:] == blind).all() and (Q[:5] != Z[:5]).any(axis=(1, 2)).all()


def test_a_group_with_one_class_does_not_change():
    """Labels without a class cannot say how likely it is."""
    Z, a, y = grouped(27)
    y[a == 2] = 1
    calibration, out = calibrate_aware(Z, a, y, None, folds(len(a)))
    assert (out[a == 2] == Z[a == 2]).all()
    np.testing.assert_allclose(calibration(Z, a)[a == 2], Z[a == 2], atol=1e-4)
    assert np.abs(out[a == 0] - Z[a == 0]).max() > 1e-3
    np.testing.assert_allclose(out.sum(axis=(1, 2)), 1)


def test_the_model_s_own_probabilities_are_in_the_block_of_the_group():
    Z, a, _ = grouped(28)
    group, pooled = np.where(np.arange(len(a)) < 5, -1, a), np.random.default_rng(0).dirichlet(np.ones(3), len(a))
    kept = AwareCalibration(None)(Z, group, pooled)
    assert (kept[:5] == Z[:5]).all()
    assert (kept[np.arange(5, len(a)), a[5:]] == pooled[5:]).all()
    np.testing.assert_allclose(kept.sum(axis=(1, 2)), 1)


# -- few rows -------------------------------------------------------------------------------------------------
def test_a_factor_does_not_overfit_labels_that_are_noise():
    """P is uninformative and the labels are noise: P̂ out of fold predicts them no better than chance."""
    n, k = 1000, 15
    rng = np.random.default_rng(3)
    P, target = rng.dirichlet(np.ones(k), n), rng.integers(0, k, n)
    _, out = fit_factor(P, target, np.arange(n), None, folds(n), 0)
    hits = [np.mean(q.argmax(axis=1) == target) for q in (fit_scaling(P, target)(P), out)]
    chance = 3 * np.sqrt((1 / k) * (1 - 1 / k) / n)
    assert hits[0] > 1 / k + 2 * chance  # the test can fail
    assert abs(hits[1] - 1 / k) < chance
    np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-9)


def test_with_many_rows_none_are_held_out():
    Z, _, y = joint(7, 4000)
    P, everybody = Z.sum(axis=1), np.arange(4000)
    scaling, out = fit_factor(P, y, everybody, None, folds(4000), 0)
    assert (out == fit_scaling(P, y)(P)).all() and (scaling(P) == out).all()


def test_few_rows_of_a_good_model_are_still_calibrated():
    """P is a power of the truth: also with few rows per parameter, P̂ out of fold is nearer to it than P."""
    n, k = 2000, 12
    rng = np.random.default_rng(1)
    truth = rng.dirichlet(np.full(k, 0.5), n)
    target, P = draw_cells(truth, rng), softmax(1.7 * np.log(truth))
    assert n < ROWS_PER_PARAMETER * k * (k + 1)
    _, out = fit_factor(P, target, np.arange(n), None, folds(n), 0)
    truth, P, out = (array[:, None, :] for array in (truth, P, out))
    assert divergence(truth, out) < 0.5 * divergence(truth, P)


def test_of_a_handful_of_people_only_the_shares_are_believed():
    """With forty people of a class, the slopes stay those of no calibration."""
    Z, a, _ = joint(8, 40)
    (share, *_) = group_shares(Z)
    scaling, _ = fit_factor(share, a, np.arange(40), None, folds(40), 0)
    np.testing.assert_allclose(scaling.slopes, np.eye(3), atol=1e-3)
    np.testing.assert_allclose(scaling(share).mean(axis=0), np.bincount(a, minlength=3) / 40, atol=1e-4)


@pytest.mark.parametrize("rows", [[], [7]])
def test_a_factor_of_nobody_or_one_person_gives_probabilities(rows):
    Z, a, _ = joint(9, 60)
    (share, *_) = group_shares(Z)
    scaling, out = fit_factor(share, a, np.array(rows, dtype=int), None, folds(60), 0)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    if not rows:
        np.testing.assert_allclose(scaling(share), share, rtol=1e-10)


def test_a_part_without_people_of_the_class_leaves_the_factor_as_it_is():
    """All people of the class are in one fold: the others' scaling has nobody to learn from."""
    Z, a, _ = joint(10, 1000)
    (share, *_) = group_shares(Z)
    rows = np.arange(0, 1000, 5)  # fold 0
    _, out = fit_factor(share, a, rows, None, folds(1000), 0)
    np.testing.assert_allclose(out[rows], share[rows], rtol=1e-10)
    assert np.abs(out[1::5] - share[1::5]).max() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept(dtype):
    Z, _, _ = joint(11, 20)
    calibration = FactorCalibration(identity_scaling(3), (identity_scaling(3),) * 3)
    out = calibration(Z.astype(dtype))
    assert out.dtype == dtype
    np.testing.assert_allclose(out, Z, rtol=1e-5)
