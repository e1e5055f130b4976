"""Test the curvature of the dual in multipliers against the (p·m)² form that it avoids."""

import numpy as np
import pytest
from scipy import sparse

from optfair.constraints import as_constraints, compile_rows
from optfair.dual import kernel
from optfair.dual.curvature import class_parts, pair_curvature, row_curvature, score_change
from optfair.dual.posterior import check_posterior
from tests.problems import blind

N, A, M = 60, 3, 4
CRITERIA = ["dp", "eo", "eop", "oae", "meo"]  # rows of oae touch all classes, the others one


@pytest.fixture(params=CRITERIA)
def parts(request):
    """Return (Z, h, scale, D, D by classes) of a criterion."""
    Z = blind(0, N, A, M)
    posterior = check_posterior(Z)
    D = compile_rows(as_constraints(request.param, 0.01), posterior.groups, posterior.classes, posterior.prior)
    matrix = D.matrix(posterior.prior)
    rng = np.random.default_rng(1)
    h = rng.dirichlet(np.full(M, 0.5), N).T
    return Z.reshape(N, -1), h, rng.uniform(0.5, 2, N), matrix, class_parts(matrix, M, np.dtype(float))


def projected(matrix, Z, h, scale):
    """Return D · [Σ_x scale z zᵀ ⊗ (diag h − h hᵀ)] · Dᵀ, row by row."""
    D, total = matrix.toarray(), 0.0
    for z, share, weight in zip(Z, h.T, scale, strict=True):
        total = total + weight * np.kron(np.outer(z, z), np.diag(share) - np.outer(share, share))
    return D @ total @ D.T


def test_all_classes_of_a_row_at_once_give_the_hessian(parts):
    Z, h, scale, matrix, classes = parts
    expected = projected(matrix, Z, h, scale)
    np.testing.assert_allclose(
        row_curvature(Z, h, scale, classes, len(expected)), expected, atol=1e-10 * expected.max()
    )


def test_all_pairs_of_classes_give_the_hessian_and_a_sample_gives_it_on_average(parts):
    """diag h − h hᵀ = Σ_{j<l} h_j h_l (e_j − e_l)(e_j − e_l)ᵀ"""
    Z, h, scale, matrix, classes = parts
    expected, rng = projected(matrix, Z, h, scale), np.random.default_rng(0)
    arguments = Z, h, scale, np.ones(N), classes, len(expected)
    np.testing.assert_allclose(pair_curvature(*arguments, N * M * M, rng), expected, atol=1e-10 * expected.max())
    samples = [pair_curvature(*arguments, N, rng) for _ in range(200)]
    error = np.abs(np.mean(samples, axis=0) - expected).max()
    assert error < 0.3 * np.mean([np.abs(sample - expected).max() for sample in samples])


def test_the_part_of_some_multipliers_is_that_part_of_the_whole(parts):
    Z, h, scale, matrix, classes = parts
    whole, active = row_curvature(Z, h, scale, classes, matrix.shape[0]), np.array([0, 2])
    part = row_curvature(Z, h, scale, class_parts(matrix[active], M, np.dtype(float)), 2)
    np.testing.assert_allclose(part, whole[np.ix_(active, active)], atol=1e-10 * whole.max())


def test_the_metric_is_the_mean_square_of_centred_changes_of_scores(parts):
    Z, _, _, matrix, classes = parts
    K = matrix.shape[0]
    step = np.random.default_rng(2).standard_normal(K)
    change = Z @ (matrix.T @ step).reshape(A * M, M)
    change -= change.mean(axis=1, keepdims=True)
    metric = score_change(Z.T @ Z / N, classes, K)
    assert step @ metric @ step == pytest.approx((change**2).sum(axis=1).mean(), rel=1e-10)


def test_the_kernel_form_in_cells_projects_to_the_same(parts):
    """`block_hessian` has index j·p + c, D has c·m + j."""
    Z, h, scale, matrix, classes = parts
    p = A * M
    columns = np.arange(p * M).reshape(p, M).T.ravel()
    D = sparse.csc_array(matrix)[:, columns].toarray()
    expected = D @ kernel.block_hessian(Z, h, 1.0, scale) @ D.T
    found = row_curvature(Z, h, scale, classes, len(expected))
    np.testing.assert_allclose(found, expected, atol=1e-10 * expected.max())
