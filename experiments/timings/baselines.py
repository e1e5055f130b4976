"""Time the baselines that stand on posteriors, beside their authors' solvers.

FairProjection: seconds and KKT residual on many rows; ADMM as its authors have it (no regularisation, so that both
solve the same problem) on fewer, until it is as accurate. LinearPost: the smoothed dual beside HiGHS, where HiGHS is
possible. Models are not fitted: z is synthetic.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from scipy import optimize, special

import optfair
from experiments.timings.clock import best_seconds, synthetic_posteriors
from experiments.timings.internals import LAST_TAU, Projection, exact_optimum, n_rows, n_threads
from optfair import Constraint

RHO = 2.0  # the penalty of ADMM, as its authors have it


def run(*, small: bool, repeat: int) -> None:
    """Print all timings. small : a tenth of the rows."""
    shrink = 10 if small else 1
    limit = 60.0 / shrink
    print(f"optfair {optfair.__version__}, numpy {np.__version__}, {n_threads(None)} threads")
    _fair_projection(200_000 // shrink, 20_000 // shrink, limit, repeat)
    sizes = [(30_000 // shrink, 2, 2), (5_000 // shrink, 3, 3), (3_000 // shrink, 5, 5)]
    _linear_post(200_000 // shrink, sizes, limit, repeat)


def admm(problem: Projection, goal: float, limit: float) -> tuple[int, float, float, bool]:
    """Return (iterations, seconds, KKT residual, whether it is at most ``goal``) of the splitting v(x) = −G(x) λ.

    v is computed by fixed-point steps for all rows at once, λ by non-negative least squares; rows with an upper bound
    have λ ≥ 0, the others λ ≤ 0. The residual is computed every ten iterations and not timed.
    """
    Z, log_p, sign, D = problem.arrays()
    n, m = log_p.shape

    def scores(lam: np.ndarray) -> np.ndarray:
        """Return G(x) λ, (n, m)."""
        return np.asarray(Z @ np.tensordot(lam, D, 1))

    def mean(V: np.ndarray) -> np.ndarray:
        """Return mean_x G(x)ᵀ V(x), (K,)."""
        return np.tensordot(D, Z.T @ V / n, 2)

    K = len(sign)
    gram = np.einsum("kcj,cd,ldj->kl", D, Z.T @ Z / n, D, optimize=True)
    root = np.linalg.cholesky(RHO * gram + 1e-10 * np.eye(K))
    lam, mu, x = np.ones(K), np.ones((n, m)), log_p.copy()
    seconds, iterations, residual = 0.0, 0, np.inf
    while residual > goal and seconds < limit:
        start = time.perf_counter()
        c = mu + RHO * scores(lam)
        for _ in range(100):
            before, x = x, log_p - (special.softmax(x, axis=1) + c) / RHO
            if np.abs(x - before).max() < 1e-10:
                break
        v = x - log_p
        lam = optimize.nnls(root.T, -np.linalg.solve(root, mean(mu + RHO * v)), maxiter=100 * K)[0]
        mu = mu + RHO * (v + scores(lam))
        seconds += time.perf_counter() - start
        iterations += 1
        if iterations % 10 == 0:
            values = sign * mean(special.softmax(log_p - scores(lam), axis=1))
            residual = problem.residual(sign * lam, values)
    return iterations, seconds, residual, residual <= goal


def _fair_projection(n: int, small_n: int, limit: float, repeat: int) -> None:
    Z = synthetic_posteriors(n, 5, 5).astype(np.float64)
    print(f"\nFairProjection, {n} rows, 5 groups × 5 classes, float64")
    for criterion in ("dp", "eo"):
        for alpha in (0.1, 0.01):
            problem = Projection.of(Z, criterion, alpha)
            seconds, minimum = best_seconds(problem.solve, repeat)
            print(
                f"{criterion}, alpha {alpha:g}: {len(problem.rows)} constraints, {seconds:.2f} s, "
                f"KKT {minimum.residual:.1e}",
                flush=True,
            )
    print(f"beside ADMM, {small_n} rows, alpha 0.1, both to the same KKT residual")
    for criterion in ("dp", "eo"):
        problem = Projection.of(Z[:small_n], criterion, 0.1)
        for goal in (1e-3, 1e-4):
            seconds, minimum = best_seconds(partial(problem.solve, tolerance=goal), repeat)
            iterations, theirs, residual, reached = admm(problem, goal, limit)
            unfinished = "" if reached else " at least, as it had not finished:"
            print(
                f"{criterion}, KKT {goal:g}: ours {seconds:.3f} s ({minimum.residual:.1e}); ADMM {theirs:.1f} s, "
                f"{iterations} iterations of {theirs / iterations:.3f} s ({residual:.1e});{unfinished} "
                f"{theirs / seconds:.0f} times as long, one iteration {theirs / iterations / seconds:.2f} of our solve",
                flush=True,
            )


def _linear_post(n: int, sizes: list[tuple[int, int, int]], limit: float, repeat: int) -> None:
    print("\nLinearPost, pairs of groups within 0.01; the dual at its temperature, 1e-4, and at 1e-3")
    for size, A, m in [*sizes, (n, 5, 5)]:
        Z = synthetic_posteriors(size, A, m).astype(np.float64)
        for criterion in ("dp", "eo"):
            constraint = Constraint(criterion, 0.01, "pairwise")
            K = n_rows(Z, constraint)
            text = f"{criterion}, {size} rows, {A} × {m}, n·m·constraints {size * m * K / 1e6:.2f} M: "
            for tau in (LAST_TAU, 1e-3):
                solve = partial(optfair.solve, Z, constraint, temperature=tau, random_state=0)
                seconds, rule = best_seconds(solve, repeat)
                c = rule.certificate
                text += f"dual {tau:g} {seconds:.2f} s, accuracy {c.accuracy:.5f}, bound {c.upper_bound:.5f}; "
            if (size, A, m) in sizes:
                start = time.perf_counter()
                try:
                    value = exact_optimum(Z, constraint, limit)
                    text += f"HiGHS {time.perf_counter() - start:.1f} s, {value:.5f}"
                except TimeoutError:
                    text += f"HiGHS not finished after {limit:g} s"
            print(text, flush=True)
