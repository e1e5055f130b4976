"""Test the kernel: blocks add up, arguments that say the same give the same, inputs are left alone."""

import numpy as np
import pytest

from optfair.dual import kernel
from tests.problems import blind, weights

N, A, m = 80, 3, 3


@pytest.fixture
def Z():
    return blind(0, N, A, m).reshape(N, -1)


@pytest.fixture
def W():
    return np.random.default_rng(0).standard_normal((A * m, m))


@pytest.fixture
def offset():
    return np.random.default_rng(3).normal(scale=0.3, size=(N, m))


@pytest.fixture
def tau(Z):
    """Return a temperature per row."""
    return Z @ np.random.default_rng(4).uniform(0.05, 0.3, A * m)


def test_blocks_add_up_to_the_whole(Z, W, tau, offset):
    w = weights(1, N)
    value, J = kernel.block_value_confusion(Z, W, tau, w, offset)
    h = kernel.softmax_scores(Z, W, tau, offset)[0]
    hessian = kernel.block_hessian(Z, h, tau, w)
    parts = [slice(0, 1), slice(1, 37), slice(37, N)]
    sums = [kernel.block_value_confusion(Z[p], W, tau[p], w[p], offset[p]) for p in parts]
    assert sum(v for v, _ in sums) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(sum(j for _, j in sums), J, rtol=1e-12)
    blocks = sum(kernel.block_hessian(Z[p], h[:, p], tau[p], w[p]) for p in parts)
    np.testing.assert_allclose(blocks, hessian, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("has_offset", [False, True])
def test_a_common_temperature_equals_the_same_for_every_row(Z, W, offset, has_offset):
    offset = offset if has_offset else None
    single = kernel.block_value_confusion(Z, W, 0.07, None, offset)
    per_row = kernel.block_value_confusion(Z, W, np.full(N, 0.07), None, offset)
    assert single[0] == pytest.approx(per_row[0], rel=1e-13)
    np.testing.assert_allclose(single[1], per_row[1], rtol=1e-12)


def test_weights_of_one_equal_no_weights(Z, W):
    with_ones = kernel.block_value_confusion(Z, W, 0.07, np.ones(N))
    without = kernel.block_value_confusion(Z, W, 0.07)
    assert with_ones[0] == pytest.approx(without[0], rel=1e-13)
    np.testing.assert_allclose(with_ones[1], without[1], rtol=1e-12)


def test_the_diagonal_is_that_of_the_hessian(Z, W, tau):
    w = weights(0, N)
    h, _, _ = kernel.softmax_scores(Z, W, tau)
    whole = kernel.block_hessian(Z, h, tau, w)
    diagonal = kernel.block_hessian_diagonal(Z, h, tau, w)
    np.testing.assert_allclose(diagonal.T.ravel(), np.diag(whole), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_weights", [False, True])
def test_inputs_are_not_mutated(Z, W, tau, offset, dtype, has_weights):
    Z, w = Z.astype(dtype), weights(0, N) if has_weights else None
    before = [None if x is None else x.copy() for x in (Z, W, tau, w, offset)]
    h, _, _ = kernel.softmax_scores(Z, W, tau, offset)
    h_before = h.copy()
    kernel.block_value_confusion(Z, W, tau, w, offset)
    kernel.block_hessian(Z, h, tau, w)
    kernel.block_hessian_diagonal(Z, h, tau, w)
    for old, new in zip([*before, h_before], [Z, W, tau, w, offset, h], strict=True):
        assert old is None or (old.dtype == new.dtype and np.array_equal(old, new))


@pytest.mark.parametrize("tau", [0.1, 0.01, 1e-3, 1e-4])
def test_float32_is_close_to_float64(tau):
    """Row by row β/τ carries an error of 1e-7/τ; averaged it stays below 1e-5 in rates, 1e-6 in the value."""
    rng = np.random.default_rng(0)
    Z = blind(0, 4000, A, m, np.float32).reshape(4000, -1)
    W = np.tile(np.eye(m), (A, 1)) - 0.3 * rng.standard_normal((A * m, m))
    narrow = kernel.block_value_confusion(Z, W, tau)
    wide = kernel.block_value_confusion(Z.astype(np.float64), W, tau)
    assert narrow[0] / 4000 == pytest.approx(wide[0] / 4000, abs=1e-6)
    np.testing.assert_allclose(narrow[1] / 4000, wide[1] / 4000, atol=1e-5)
    assert narrow[1].dtype == np.float64


def test_cold_scores_neither_overflow_nor_leave_the_simplex(Z, W):
    W = 1e3 * W
    with np.errstate(all="raise", under="ignore"):
        h, lse, largest = kernel.softmax_scores(Z, W, 1e-5)
    np.testing.assert_allclose(h.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(lse, (Z @ W).max(axis=1) / 1e-5, rtol=1e-6)
    np.testing.assert_allclose(largest, h.max(axis=0))


def test_low_temperature_approaches_the_maximum_from_above(Z, W):
    """mean max β ≤ F_τ ≤ mean max β + τ log m"""
    top = (Z @ W).max(axis=1).sum()
    for tau in (1.0, 0.1, 0.01, 1e-3):
        value, _ = kernel.block_value_confusion(Z, W, tau)
        assert top - 1e-9 <= value <= top + N * tau * np.log(m) + 1e-9
