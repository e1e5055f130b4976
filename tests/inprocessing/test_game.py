"""Test the game by its definitions, and that the loss its learner minimises is calibrated (Theorem 5.1)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from optfair.inprocessing.game import is_plain, soft_targets
from optfair.inprocessing.learners import make_learner
from tests.inprocessing.helpers import (
    class_scores,
    naive_rows,
    population,
    population_game,
    population_rows,
    read_population,
    table_learner,
)


# -- definitions -------------------------------------------------------------------------------------------
def test_confusion_values_and_lagrangian_by_their_definitions():
    P = population(15)
    game = population_game(P, "eo", cap=2.0)
    rng = np.random.default_rng(0)
    _, i, a, w = population_rows(P)
    codes, lam = rng.integers(0, 3, len(i)), rng.normal(size=len(game.rows))
    J = np.einsum("n,na,ni,nj->aij", w / w.sum(), *(np.eye(3)[v] for v in (a, i, codes)))
    np.testing.assert_allclose(game.confusion(codes), J.reshape(9, 3), atol=1e-12)
    np.testing.assert_allclose(game.share, P.sum(axis=0).ravel())
    D = naive_rows("eo", P, game.rows.table)
    np.testing.assert_allclose(game.values(J.reshape(9, 3)), np.einsum("kaij,aij->k", D, J), atol=1e-12)
    assert game.accuracy(J.reshape(9, 3)) == pytest.approx(np.einsum("aii->", J))
    L = np.einsum("aii->", J) - lam @ np.einsum("kaij,aij->k", D, J) + 0.02 * np.abs(lam).sum()
    assert game.lagrangian(J.reshape(9, 3), lam) == pytest.approx(L)
    x = population_rows(P)[0].argmax(axis=1)
    same_row = game.duplicate_row_ids[:, None] == game.duplicate_row_ids
    np.testing.assert_array_equal(same_row, x[:, None] == x)


# -- soft targets ------------------------------------------------------------------------------------------
@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.sampled_from(["cell", "global"]))
def test_targets_differ_from_the_weights_by_a_number_per_cell(seed, size, shift):
    """So that in any mixture of cells the order of the classes is that of W; and their total is one."""
    rng = np.random.default_rng(seed)
    A, m = rng.integers(1, 4), rng.integers(2, 5)
    W = np.tile(np.eye(m), (A, 1)) - size * rng.normal(size=(A * m, m))
    share = rng.dirichlet(np.ones(A * m))
    T = soft_targets(W, share, shift)
    assert (T >= 0).all()
    assume(not is_plain(T))
    assert share @ T.sum(axis=1) == pytest.approx(1)
    factor = np.ptp(T) / np.ptp(W - (W.min(axis=1, keepdims=True) if shift == "cell" else 0.0))
    moved = T / factor - W
    np.testing.assert_allclose(moved, np.broadcast_to(moved[:, :1], moved.shape), atol=1e-9)
    if shift == "global":
        np.testing.assert_allclose(moved, moved[0, 0], atol=1e-9)
    else:
        assert (T.min(axis=1) == 0).all()


def test_multipliers_of_zero_give_the_labels():
    for A, m in ((2, 2), (3, 4)):
        labels = np.tile(np.eye(m), (A, 1))
        for shift in ("cell", "global"):
            np.testing.assert_array_equal(soft_targets(labels, np.full(A * m, 1 / (A * m)), shift), labels)
        assert is_plain(labels) and not is_plain(labels[::-1])


def test_the_global_shift_is_set_by_cells_that_are_not_empty():
    W = np.array([[1.0, 0.0], [0.5, 0.25], [0.3, 0.7], [-100.0, 1.0]])
    share = np.array([0.5, 0.25, 0.25, 0.0])
    np.testing.assert_array_equal(soft_targets(W, share, "global")[:3], W[:3] / (share @ W.sum(axis=1)))
    W[1, 1] = -1.0
    T = soft_targets(W, share, "global")
    assert T[1, 1] > 0 and T[1, 1] == pytest.approx(1e-5 * T[0, 0] / (2 + 1e-5))  # κ = 1 + 1e-5


def test_targets_of_equal_weights_are_uniform():
    W = np.full((4, 2), 0.3)
    np.testing.assert_array_equal(soft_targets(W, np.full(4, 0.25), "cell"), np.full((4, 2), 0.5))


# -- the loss is calibrated (Theorem 5.1) ------------------------------------------------------------------
@pytest.mark.parametrize("shift", ["cell", "global"])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_the_minimiser_of_the_loss_predicts_the_class_of_the_best_score(shift, criterion):
    P = population(1, n_x=12, A=3, m=4)
    game, learner = population_game(P, criterion), table_learner(P)
    D, rng, compared = naive_rows(criterion, P, game.rows.table), np.random.default_rng(0), 0
    for _ in range(60):
        lam = rng.normal(size=len(game.rows)) * rng.choice([0.02, 0.1, 0.5, 2.0])
        beta = class_scores(P, D, lam)
        targets = soft_targets(game.weights(lam), game.share, shift)
        assert (targets >= 0).all()
        codes = learner.best_response(targets, 0).predict(np.eye(len(P)))
        clear = np.diff(np.sort(beta, axis=1)[:, -2:])[:, 0] > 1e-9
        np.testing.assert_array_equal(codes[clear], beta.argmax(axis=1)[clear])
        compared += clear.sum()
    assert compared > 600


@pytest.mark.parametrize("shift", ["cell", "global"])
def test_logistic_regression_finds_the_same_predictions(shift):
    """Its scores are free, one row of weights for every x: it minimises the same loss by iterations."""
    P = population(2, n_x=12, A=3, m=4)
    game, rng = population_game(P, "dp"), np.random.default_rng(1)
    D = naive_rows("dp", P, game.rows.table)
    estimator = LogisticRegression(C=1e6, tol=1e-9, max_iter=5000, fit_intercept=False)
    learner = make_learner(estimator, read_population(P), None, 0, 1, "error")
    for _ in range(4):
        lam = 0.3 * rng.normal(size=len(game.rows))
        beta = class_scores(P, D, lam)
        model = learner.best_response(soft_targets(game.weights(lam), game.share, shift), 0)
        clear = np.diff(np.sort(beta, axis=1)[:, -2:])[:, 0] > 1e-4
        assert clear.sum() > 8
        np.testing.assert_array_equal(model.predict(np.eye(12))[clear], beta.argmax(axis=1)[clear])
