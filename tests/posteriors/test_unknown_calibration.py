"""Where some groups are unknown, classes are calibrated with everybody and groups with those who are known."""

import numpy as np
import pytest

from optfair.posteriors import calibration as module
from optfair.posteriors.calibration import (
    GROUP_RIDGE,
    FactorCalibration,
    calibrate_blind,
    class_probabilities,
    fit_factor,
    fit_shares,
    group_shares,
)
from optfair.posteriors.scaling import CLIP, Scaling, ShareScaling, fit_share_scaling, identity_share_scaling
from tests.posteriors.helpers import draw_cells
from tests.problems import softmax

N, A, M = 4000, 3, 2


def folds(n, k=5):
    """Return k splits by position."""
    part = np.arange(n) % k
    return [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(k)]


def people(seed, n=N):
    """Return a true joint posterior (n, A, m), groups and classes drawn from it, and who is of known group."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    P = softmax(x @ rng.normal(size=(3, A * M)))
    cell = draw_cells(P, rng)
    return P.reshape(n, A, M), cell // M, cell % M, rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))


def shares(Z, i):
    """Return P(A | X, Y=i), (n, A)."""
    return list(group_shares(Z))[i]


def blurred(Z):
    """Return Z with shares of groups whose odds are tilted by P(Y | X)."""
    P = Z.sum(axis=1)
    tilt = np.outer(np.log(P[:, 0]), [1.2, 0.0, -1.2])
    return np.stack([softmax(np.log(Q) + tilt) for Q in group_shares(Z)], axis=2) * P[:, None]


def divergence(P, Q):
    """Return mean KL(P ‖ Q)."""
    return float((P * np.log(P / Q)).sum(axis=1).mean())


# -- the scaling ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("ridge", [1.0, 100.0])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_no_change_of_a_parameter_lowers_the_loss(ridge, is_weighted):
    Z, a, y, _ = people(0, 1500)
    rows = y == 0
    Q, P, group = shares(Z, 0)[rows], Z.sum(axis=1)[rows], a[rows]
    w = np.random.default_rng(1).uniform(1, 3, rows.sum()) if is_weighted else np.ones(rows.sum())
    scaling = fit_share_scaling(Q, P, group, w if is_weighted else None, ridge)
    logs = np.log(np.maximum(np.column_stack([Q, P]), CLIP))

    def loss(slopes, intercepts):
        likelihood = softmax(logs @ slopes + intercepts)[np.arange(len(group)), group]
        shrinkage = ((slopes - np.eye(A + M, A)) ** 2).sum()
        return -np.average(np.log(likelihood), weights=w) + ridge / (2 * w.sum()) * shrinkage

    for place in np.ndindex(A + M, A):
        E = np.zeros((A + M, A))
        E[place] = 1e-4
        slope = loss(scaling.slopes + E, scaling.intercepts) - loss(scaling.slopes - E, scaling.intercepts)
        assert abs(slope) / 2e-4 < 1e-5
    for j in range(A):
        e = 1e-4 * np.eye(A)[j]
        slope = loss(scaling.slopes, scaling.intercepts + e) - loss(scaling.slopes, scaling.intercepts - e)
        assert abs(slope) / 2e-4 < 1e-5


def test_the_identity_changes_nothing():
    Z = people(1, 50)[0]
    for Q in group_shares(Z):
        np.testing.assert_allclose(identity_share_scaling(A, M).columns(Q, Z.sum(axis=1)).T, Q, atol=1e-12)


def test_groups_that_nobody_is_known_to_be_of_stay_impossible():
    Z, a, y, _ = people(2, 600)
    rows = (y == 0) & (a != 1)
    Q = shares(Z, 0)
    columns = fit_share_scaling(Q[rows], Z.sum(axis=1)[rows], a[rows]).columns(Q, Z.sum(axis=1))
    assert columns.shape == (A, 600) and not columns[1].any()
    np.testing.assert_allclose(columns.sum(axis=0), 1)


# -- the factors ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("keep_classes", [False, True])
def test_classes_are_those_of_everybody_and_groups_of_those_known(keep_classes):
    Z, a, y, is_known = people(3)
    Z = blurred(Z)
    partial, splits = np.where(is_known, a, -1), folds(N)
    calibration, out = calibrate_blind(Z, partial, y, None, splits, keep_classes=keep_classes)
    assert isinstance(calibration, FactorCalibration)
    P = class_probabilities(Z)
    expected = P if keep_classes else fit_factor(P, y, np.arange(N), None, splits, 0)[1]
    np.testing.assert_allclose(out.sum(axis=1), expected, atol=1e-12)
    for i, Q in enumerate(group_shares(Z)):
        rows = (y == i) & is_known
        alone = fit_share_scaling(Q[rows], P[rows], a[rows], None, GROUP_RIDGE)
        np.testing.assert_allclose(calibration.groups[i].slopes, alone.slopes, atol=1e-5)
        np.testing.assert_allclose(shares(out, i), alone.columns(Q, P).T, atol=1e-5)
    np.testing.assert_allclose(calibration(Z), out, atol=1e-12)


def test_what_the_classes_tell_about_groups_is_found():
    """Shares that miss it are brought back; a scaling of the shares alone cannot."""
    Z, a, y, is_known = people(4, 40_000)
    distorted, partial = blurred(Z), np.where(is_known, a, -1)
    out = calibrate_blind(distorted, partial, y, None, folds(40_000))[1]
    for i, Q in enumerate(group_shares(distorted)):
        alone = fit_factor(Q, a, np.flatnonzero((y == i) & is_known), None, folds(40_000), 0, GROUP_RIDGE)[1]
        errors = [divergence(shares(Z, i), other) for other in (shares(out, i), alone, Q)]
        assert errors[0] < 0.3 * min(errors[1:])


def test_with_few_people_nobody_is_calibrated_by_their_own_group(monkeypatch):
    monkeypatch.setattr(module, "RIDGES", (10.0,))  # else everybody has a say in the choice of ρ
    Z, a, y, is_known = people(5, 400)
    partial = np.where(is_known, a, -1)
    out = calibrate_blind(Z, partial, y, None, folds(400))[1]
    person = int(np.flatnonzero(is_known)[0])
    changed = partial.copy()
    changed[person] = (partial[person] + 1) % A
    other = calibrate_blind(Z, changed, y, None, folds(400))[1]
    assert np.abs(other - out).max() > 1e-4  # of others
    np.testing.assert_allclose(other[person], out[person], atol=1e-6)


def test_a_class_without_known_people_keeps_its_shares():
    Z, a, y, is_known = people(6)
    partial = np.where(is_known & (y == 0), a, -1)
    out = calibrate_blind(Z, partial, y, None, folds(N))[1]
    np.testing.assert_allclose(shares(out, 1), shares(Z, 1), atol=1e-4)
    assert np.abs(shares(out, 0) - shares(Z, 0)).max() > 1e-3


def test_very_many_groups_are_scaled_by_their_shares_alone(monkeypatch):
    Z, a, y, is_known = people(7)
    arguments = (
        Z.sum(axis=1),
        shares(Z, 0),
        a,
        np.flatnonzero((y == 0) & is_known),
        None,
        folds(N),
        0,
        1.0,
    )
    assert isinstance(fit_shares(*arguments)[0], ShareScaling)
    monkeypatch.setattr(module, "FIT_ROWS", 20 * A * (A + M + 1) - 1)
    assert isinstance(fit_shares(*arguments)[0], Scaling)
