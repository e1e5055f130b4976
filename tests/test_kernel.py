"""The dual function, its derivatives, and the small minimisers under it, each against an independent answer."""

from dataclasses import replace

import numpy as np
import pytest
from problems import CRITERIA, KINDS, aware, blind, compiled, confusion, softmax, weights
from scipy import optimize

from optfair import MinimumRate, Ratio
from optfair.dual import kernel
from optfair.dual.canonical import least_norm
from optfair.dual.lbfgs import minimise_lbfgs
from optfair.dual.newton import minimise_newton, quadratic_step
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem, systematic_draw
from optfair.dual.spectral import minimise_spectral

A, m, N = 3, 3, 80


def dual_problem(kind="blind", criterion="eo", tau=0.1, w=None, offset=None, seed=0, dtype=np.float64):
    Z = KINDS[kind](seed, N, A, m, dtype)
    posterior, rows = compiled(Z, criterion, 0.02 if isinstance(criterion, str) else None, w=w, offset=offset)
    cells = np.full(A * m, tau) if np.isscalar(tau) else np.asarray(tau)
    return DualProblem(posterior, rows, np.tile(np.eye(m), (A, 1)), cells)


def naive_value(problem, lam):
    """mean_x τ(x) log Σ_j exp(β_j(x)/τ(x)), τ(x) = Σ_c z_c τ_c, row by row."""
    measure = problem.posterior
    D = problem.rows.matrix(measure.prior).toarray().reshape(len(lam), A * m, m)
    W = problem.utility - np.tensordot(lam, D, 1)
    w = np.ones(measure.n) if measure.weight is None else measure.weight
    total = 0.0
    for x in range(measure.n):
        z = measure.Z[x].astype(float).ravel()
        beta = z @ W + (0.0 if measure.offset is None else measure.offset[x])
        total += w[x] * (z @ problem.tau) * np.logaddexp.reduce(beta / (z @ problem.tau))
    return total / w.sum()


OFFSET = np.random.default_rng(3).normal(scale=0.3, size=(N, m))
CELL_TAU = np.random.default_rng(4).uniform(0.05, 0.3, A * m)
SETTINGS = {
    "plain": {},
    "weights": {"w": weights(0, N)},
    "offset": {"offset": OFFSET},
    "temperatures": {"tau": CELL_TAU},
    "all": {"w": weights(1, N), "offset": OFFSET, "tau": CELL_TAU},
    "aware": {"kind": "aware", "tau": CELL_TAU},
    "one-sided": {"criterion": [Ratio("dp"), MinimumRate("recall", 0.2)], "w": weights(2, N)},
}


@pytest.fixture(params=SETTINGS, name="problem")
def problem_of_setting(request):
    return dual_problem(**SETTINGS[request.param])


def some_lambda(problem, scale=0.05):
    return scale * np.random.default_rng(5).standard_normal(len(problem.rows))


# -- value, gradient, Hessian -------------------------------------------------------------------------------
def test_value_is_the_formula(problem):
    lam = some_lambda(problem)
    assert problem.evaluate(lam).smooth == pytest.approx(naive_value(problem, lam), abs=1e-12)


def test_gradient_is_the_finite_difference_of_the_value(problem):
    lam, step = some_lambda(problem), 1e-5
    gradient = -problem.evaluate(lam).values
    unit = step * np.eye(len(lam))
    difference = [(naive_value(problem, lam + e) - naive_value(problem, lam - e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(gradient, difference, atol=1e-8)
    assert np.abs(gradient).max() > 1e-2


def test_hessian_is_the_finite_difference_of_the_gradient(problem):
    lam, step = some_lambda(problem), 1e-5
    problem.evaluate(lam)
    hessian = problem.hessian(lam)
    assert len(problem._undecided()[0]) > 0.9 * N, "most rows are curved here, and none is sampled"
    difference = [
        (problem.evaluate(lam - e).values - problem.evaluate(lam + e).values) / (2 * step)
        for e in step * np.eye(len(lam))
    ]
    np.testing.assert_allclose(hessian, np.array(difference), atol=1e-5 * np.abs(hessian).max())
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12 * np.abs(hessian).max())
    assert np.linalg.eigvalsh(hessian).min() > -1e-10 * np.abs(hessian).max()


def test_confusion_is_that_of_the_softmax_rule(problem):
    lam = some_lambda(problem)
    measure = problem.posterior
    Z = measure.Z.reshape(N, -1)
    scores = Z @ problem.weights(lam) + (0.0 if measure.offset is None else measure.offset)
    J = confusion(measure.Z, softmax(scores / (Z @ problem.tau)[:, None]), measure.weight)
    found = problem.evaluate(lam)
    np.testing.assert_allclose(found.confusion.reshape(J.shape), J, atol=1e-12)
    np.testing.assert_allclose(found.values, problem.rows.values(J), atol=1e-12)


def test_hessian_diagonal_of_the_kernel():
    problem = dual_problem(tau=CELL_TAU)
    Z = problem.posterior.rows(slice(None))
    tau, w = Z @ CELL_TAU, weights(0, N)
    h, _, _ = kernel.softmax_scores(Z, problem.utility, tau)
    whole = kernel.block_hessian(Z, h, tau, w)
    np.testing.assert_allclose(kernel.block_hessian_diagonal(Z, h, tau, w).ravel(), np.diag(whole), rtol=1e-12)


def test_score_metric_is_the_mean_change_of_the_centred_scores():
    problem = dual_problem(w=weights(0, N))
    step = some_lambda(problem)
    change = problem.posterior.rows(slice(None)) @ (problem.weights(step) - problem.weights(0 * step))
    change -= change.mean(axis=1, keepdims=True)
    expected = np.average((change**2).sum(axis=1), weights=problem.posterior.weight) / 0.1
    assert step @ problem.score_metric() @ step == pytest.approx(expected, rel=1e-10)


def test_shift_makes_a_sample_agree_with_the_whole():
    problem, lam = dual_problem(), np.full(27, 0.01)
    wanted = np.linspace(-0.1, 0.1, 27)
    problem.agree(lam, wanted)
    np.testing.assert_allclose(problem.evaluate(lam).values, wanted, atol=1e-14)
    # still a gradient: of the value from which shift·λ is taken
    e = np.zeros(27)
    e[4] = 1e-5
    slope = (problem.evaluate(lam + e).smooth - problem.evaluate(lam - e).smooth) / 2e-5
    assert slope == pytest.approx(-wanted[4], abs=1e-8)


# -- blocks, types, inputs ----------------------------------------------------------------------------------
def test_blocks_add_up_to_the_whole():
    problem = dual_problem(**SETTINGS["all"])
    measure, W = problem.posterior, problem.weights(some_lambda(problem))
    Z, tau = measure.rows(slice(None)), measure.rows(slice(None)) @ CELL_TAU
    value, J = kernel.block_value_confusion(Z, W, tau, measure.weight, OFFSET)
    h = kernel.softmax_scores(Z, W, tau, OFFSET)[0]
    hessian = kernel.block_hessian(Z, h, tau, measure.weight)
    parts = [slice(0, 1), slice(1, 37), slice(37, N)]
    sums = [kernel.block_value_confusion(Z[p], W, tau[p], measure.weight[p], OFFSET[p]) for p in parts]
    assert sum(v for v, _ in sums) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(sum(j for _, j in sums), J, rtol=1e-12)
    blocks = sum(kernel.block_hessian(Z[p], h[:, p], tau[p], measure.weight[p]) for p in parts)
    np.testing.assert_allclose(blocks, hessian, rtol=1e-10, atol=1e-12)


def test_one_temperature_or_the_same_for_every_row_is_the_same():
    Z = blind(0, N, A, m).reshape(N, -1)
    W = np.random.default_rng(0).standard_normal((A * m, m))
    for offset in (None, OFFSET):
        single = kernel.block_value_confusion(Z, W, 0.07, None, offset)
        perrow = kernel.block_value_confusion(Z, W, np.full(N, 0.07), None, offset)
        assert single[0] == pytest.approx(perrow[0], rel=1e-13)
        np.testing.assert_allclose(single[1], perrow[1], rtol=1e-12)


def test_weights_of_one_are_no_weights():
    Z = blind(0, N, A, m).reshape(N, -1)
    W = np.random.default_rng(0).standard_normal((A * m, m))
    with_ones = kernel.block_value_confusion(Z, W, 0.07, np.ones(N))
    without = kernel.block_value_confusion(Z, W, 0.07)
    assert with_ones[0] == pytest.approx(without[0], rel=1e-13)
    np.testing.assert_allclose(with_ones[1], without[1], rtol=1e-12)


def test_curvature_is_one_minus_the_largest_probability():
    problem = dual_problem()
    lam = some_lambda(problem)
    problem.evaluate(lam)
    h = softmax(problem.posterior.rows(slice(None)) @ problem.weights(lam) / 0.1)
    np.testing.assert_allclose(problem.curvature, 1 - h.max(axis=1), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("with_weights", [False, True])
def test_inputs_are_not_mutated(dtype, with_weights):
    Z = blind(0, N, A, m, dtype).reshape(N, -1)
    W = np.random.default_rng(0).standard_normal((A * m, m))
    tau, offset = np.full(N, 0.1), OFFSET.copy()
    w = weights(0, N) if with_weights else None
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
    Z = blind(0, 4000, A, m, np.float32)
    W = np.tile(np.eye(m), (A, 1)) - 0.3 * rng.standard_normal((A * m, m))
    narrow = kernel.block_value_confusion(Z.reshape(4000, -1), W, tau)
    wide = kernel.block_value_confusion(Z.reshape(4000, -1).astype(np.float64), W, tau)
    assert narrow[0] / 4000 == pytest.approx(wide[0] / 4000, abs=1e-6)
    np.testing.assert_allclose(narrow[1] / 4000, wide[1] / 4000, atol=1e-5)
    assert narrow[1].dtype == np.float64


def test_cold_scores_neither_overflow_nor_leave_the_simplex():
    Z = blind(0, N, A, m).reshape(N, -1)
    W = 1e3 * np.random.default_rng(0).standard_normal((A * m, m))
    with np.errstate(all="raise", under="ignore"):
        h, lse, largest = kernel.softmax_scores(Z, W, 1e-5)
    np.testing.assert_allclose(h.sum(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(lse, (Z @ W).max(axis=1) / 1e-5, rtol=1e-6)
    np.testing.assert_allclose(largest, h.max(axis=0))


def test_low_temperature_approaches_the_maximum_from_above():
    """mean max β ≤ F_τ ≤ mean max β + τ log m"""
    Z = blind(0, N, A, m).reshape(N, -1)
    W = np.random.default_rng(0).standard_normal((A * m, m))
    top = (Z @ W).max(axis=1).sum()
    for tau in (1.0, 0.1, 0.01, 1e-3):
        value, _ = kernel.block_value_confusion(Z, W, tau)
        assert top - 1e-9 <= value <= top + N * tau * np.log(m) + 1e-9


# -- samples ------------------------------------------------------------------------------------------------
def test_systematic_draw_has_the_right_expectation():
    """Each row is expected size·mass/Σmass times, and weighs the inverse: weighted sums are unbiased."""
    rng = np.random.default_rng(0)
    mass = rng.exponential(size=200) * (rng.random(200) > 0.2)
    values = rng.random(200)
    counts, estimate = np.zeros(200), 0.0
    draws = 400
    for _ in range(draws):
        index, weight = systematic_draw(mass, 50, rng)
        np.add.at(counts, index, 1)
        estimate += (weight * values[index]).sum() / draws
    expected = 50 * mass / mass.sum()
    assert (counts[mass == 0] == 0).all()
    # equal distances: a row is drawn ⌊e⌋ or ⌈e⌉ times, so its variance is below 1/4
    assert np.abs(counts / draws - expected).max() < 5 * 0.5 / np.sqrt(draws)
    assert estimate == pytest.approx(values[mass > 0].sum(), rel=0.02)


def test_local_sketch_has_the_gradient_of_the_whole_at_lambda():
    problem = dual_problem(w=weights(0, N))
    lam = some_lambda(problem)
    values = problem.evaluate(lam).values
    sketch = problem.local_sketch(40)
    sketch.agree(lam, values)
    assert sketch.posterior.n <= 40
    np.testing.assert_allclose(sketch.evaluate(lam).values, values, atol=1e-12)


# -- least norm ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("A_, m_", [(2, 2), (3, 3), (2, 4), (4, 2)])
def test_least_norm_keeps_the_rule_and_is_no_larger(criterion, reference, A_, m_):
    """Same W up to a constant per cell (softmax does not see it), no larger ‖λ‖₂, no larger σ(λ)."""
    Z = aware(7, 200, A_, m_)
    posterior, rows = compiled(Z, criterion, 0.02, reference=reference)
    problem = DualProblem(posterior, rows, np.tile(np.eye(m_), (A_, 1)), np.full(A_ * m_, 0.01))
    box = Box(rows.lower, rows.upper)
    minimum = minimise_newton(problem, box, np.zeros(len(rows)), 1e-6, 200)
    assert minimum.converged
    lam = minimum.multipliers
    new = least_norm(problem.matrix, m_, box, lam, minimum.evaluation.values, 0.05)
    change = problem.weights(new) - problem.weights(lam)
    np.testing.assert_allclose(change, np.broadcast_to(change.mean(axis=1, keepdims=True), change.shape), atol=1e-6)
    assert np.linalg.norm(new) <= np.linalg.norm(lam) + 1e-9
    assert box.value(new) <= box.value(lam) + 1e-5 * np.abs(lam).sum() + 1e-9
    assert box.residual(new, minimum.evaluation.values) <= 1e-5


def test_least_norm_splits_twin_rows_evenly():
    """With two classes the DP rows of outcomes 0 and 1 say the same: λ all on one is shared out."""
    posterior, rows = compiled(aware(7, 200, 3, 2), "dp", 0.02)
    matrix, box = rows.matrix(posterior.prior), Box(rows.lower, rows.upper)
    values = np.tile([0.02, -0.02], 3) * np.repeat([1, -1, 0], 2)  # group 0 at its upper, 1 at its lower bound
    lam = np.array([0.3, 0.0, 0.0, 0.1, 0.0, 0.0])
    new = least_norm(matrix, 2, box, lam, values, 0.05)
    np.testing.assert_allclose(new, [0.15, -0.15, -0.05, 0.05, 0.0, 0.0], atol=1e-6)


def test_least_norm_does_not_mutate_and_leaves_zero_alone():
    posterior, rows = compiled(blind(7), "dp", 0.02)
    matrix, box = rows.matrix(posterior.prior), Box(rows.lower, rows.upper)
    values = np.full(9, 0.02)
    lam = np.abs(np.random.default_rng(0).standard_normal(9))
    before = lam.copy()
    least_norm(matrix, 3, box, lam, values, 0.05)
    np.testing.assert_array_equal(lam, before)
    assert not least_norm(matrix, 3, box, np.zeros(9), values, 0.05).any()


# -- the penalty --------------------------------------------------------------------------------------------
def random_box(seed, K=4, cap=np.inf):
    """Two-sided, one-sided and shifted bounds."""
    rng = np.random.default_rng(seed)
    lower, upper = -rng.uniform(0, 0.3, K), rng.uniform(0, 0.3, K)
    lower[1], upper[2] = -np.inf, np.inf
    lower[3] = upper[3] - 0.05
    upper[2], lower[2] = np.inf, 0.2
    return Box(lower, upper, cap)


@pytest.mark.parametrize("cap", [np.inf, 1.0, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_prox_minimises_its_objective(seed, cap):
    """Against SLSQP on the smooth split form λ = p − q, p, q ≥ 0 (and Σ p + q ≤ cap)."""
    rng = np.random.default_rng(seed + 50)
    box = random_box(seed, cap=cap)
    v, step = rng.normal(scale=1.0, size=4), rng.uniform(0.2, 2.0, 4)
    lam = box.prox(v, step)

    def objective(x):
        return box.value(x) + ((x - v) ** 2 / (2 * step)).sum()

    up, down = np.isfinite(box.upper), np.isfinite(box.lower)
    linear = np.concatenate([np.where(up, box.upper, 0), np.where(down, -box.lower, 0)])
    numeric = optimize.minimize(
        lambda y: linear @ y + ((y[:4] - y[4:] - v) ** 2 / (2 * step)).sum(),
        np.full(8, 0.01),
        bounds=[(0, None if ok else 0) for ok in [*up, *down]],
        constraints=[] if np.isinf(cap) else [{"type": "ineq", "fun": lambda y: cap - y.sum()}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    other = numeric.x[:4] - numeric.x[4:]
    assert np.abs(lam).sum() <= cap + 1e-9
    assert objective(lam) <= objective(other) + 1e-9
    np.testing.assert_allclose(lam, other, atol=1e-4)
    if cap < np.inf:
        assert np.abs(box.prox(v, step)).sum() <= np.abs(replace(box, cap=np.inf).prox(v, step)).sum() + 1e-12


def test_sigma_is_the_support_function_of_the_box():
    """σ(λ) = max of λ·v over lower ≤ v ≤ upper, +inf where λ leans on an open side."""
    rng = np.random.default_rng(0)
    lower, upper = -rng.random(3), rng.random(3)
    box, lam = Box(lower, upper), rng.standard_normal(3)
    corners = np.stack(np.meshgrid(*zip(lower, upper, strict=True)), axis=-1).reshape(-1, 3)
    assert box.value(lam) == pytest.approx((corners @ lam).max())
    assert random_box(0).value(np.array([0, -1.0, 0, 0])) == np.inf
    assert random_box(0).value(np.array([0, 0, 1.0, 0])) == np.inf
    assert np.isfinite(random_box(0).value(np.array([1.0, 1.0, -1.0, -1.0])))


def test_residual_is_zero_exactly_where_the_multiplier_allows_the_value():
    box = Box(np.full(3, -0.1), np.full(3, 0.2))
    allowed = [(0.5, 0.2), (-0.5, -0.1), (0.0, 0.2), (0.0, -0.1), (0.0, 0.03)]
    for lam, value in allowed:
        assert box.residual(np.full(3, lam), np.full(3, value)) == 0.0
    for lam, value, distance in [(0.5, 0.05, 0.15), (-0.5, 0.05, 0.15), (0.0, 0.25, 0.05), (0.5, 0.3, 0.1)]:
        assert box.residual(np.full(3, lam), np.full(3, value)) == pytest.approx(distance)


def test_residual_under_an_active_cap_allows_one_common_loosening():
    box = Box(np.full(3, -0.1), np.full(3, 0.1), cap=1.0)
    lam = np.array([0.5, -0.5, 0.0])
    assert box.residual(lam, np.array([0.3, -0.3, 0.25])) == pytest.approx(0.0, abs=1e-15)
    assert box.residual(lam, np.array([0.3, -0.3, 0.35])) == pytest.approx(0.05)
    assert box.residual(0.5 * lam, np.array([0.3, -0.3, 0.0])) == pytest.approx(0.2)  # below the cap: no excuse


@pytest.mark.parametrize("cap", [np.inf, 0.3])
@pytest.mark.parametrize("seed", range(10))
def test_quadratic_step_satisfies_its_kkt_conditions(seed, cap):
    """−∇ of the quadratic at λ lies in ∂σ(λ), also when Q is singular."""
    rng = np.random.default_rng(seed)
    K = 12
    half = rng.standard_normal((K, K - 4 if seed % 2 else K)) * np.geomspace(1, 30, K)[:, None]
    Q, q = half @ half.T, 0.1 * rng.standard_normal(K)
    if seed % 2:
        q = Q @ rng.standard_normal(K) * 0.1  # in the range of Q: bounded below
    box = Box(np.full(K, -0.05), np.full(K, 0.05), cap)
    tolerance = 1e-6
    lam = quadratic_step(Q, q, box, np.zeros(K), tolerance, 20_000)
    gradient = Q @ lam + q
    total = np.abs(lam).sum()
    assert total <= cap + 1e-9
    # the multiplier of the cap: a common ν ≥ 0, zero unless the cap is active
    nu = 0.0 if total < cap * (1 - 1e-6) else max(0.0, -(gradient @ lam) / total - 0.05)
    assert np.abs(gradient[lam == 0]).max(initial=0) <= 0.05 + nu + 2 * tolerance
    np.testing.assert_allclose(gradient[lam != 0], -(0.05 + nu) * np.sign(lam[lam != 0]), atol=2 * tolerance)
    assert lam.any()


def minimum_by(method, setting, cap, tolerance):
    """(residual, value, value at λ = 0) of one method on a fresh problem."""
    problem = dual_problem(**SETTINGS[setting])
    box = Box(problem.rows.lower, problem.rows.upper, cap)
    nothing = problem.evaluate(np.zeros(len(problem.rows))).smooth
    minimum = method(problem, box, np.zeros(len(problem.rows)), tolerance, 5000)
    assert np.abs(minimum.multipliers).sum() <= cap + 1e-9
    return minimum.residual, minimum.evaluation.smooth + box.value(minimum.multipliers), nothing


@pytest.mark.parametrize("setting", SETTINGS)
def test_newton_and_lbfgs_find_the_same_minimum(setting):
    """Both minimise the same convex function; λ may differ (twin rows), the value may not."""
    newton, lbfgs = (minimum_by(method, setting, np.inf, 1e-5) for method in (minimise_newton, minimise_lbfgs))
    assert max(newton[0], lbfgs[0]) <= 1e-5
    assert newton[1] == pytest.approx(lbfgs[1], abs=1e-5)
    assert newton[1] < newton[2] - 1e-4


@pytest.mark.parametrize("setting", SETTINGS)
def test_newton_and_spectral_find_the_same_minimum_under_a_cap(setting):
    newton, spectral = (minimum_by(method, setting, 0.1, 1e-4) for method in (minimise_newton, minimise_spectral))
    assert max(newton[0], spectral[0]) <= 1e-4
    assert newton[1] < newton[2] - 1e-4
    assert newton[1] == pytest.approx(spectral[1], abs=1e-4)
