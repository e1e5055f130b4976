"""`make bench-baselines`: how fast the baselines that stand on posteriors are solved, beside their authors' solvers.

FairProjection: seconds and KKT residual on many rows; ADMM as its authors have it (no regularisation, so that both
solve the same problem) on fewer, until it is as accurate. LinearPost: the smoothed dual beside HiGHS, where HiGHS is
possible. Models are not fitted: z is synthetic.

    python benchmarks/baselines.py [--small] [--repeat 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special
from solver import best, synthetic

import optfair
from optfair.baselines.fair_projection import project, ratio_rows, smoothed
from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.dual.exact import solve_exact
from optfair.dual.penalty import Box
from optfair.dual.solver import LAST_TAU
from optfair.parallel import n_threads
from optfair.posterior import Posterior, check_posterior

RHO = 2.0


def projection(Z: np.ndarray, criterion: str, alpha: float) -> tuple[Posterior, RowSet]:
    """The measure and the rows of FairProjection."""
    measure = check_posterior(Z, offset=np.log(smoothed(Z.sum(axis=1))))
    rows = compile_rows([Constraint(criterion, 1.0)], measure.groups, measure.classes, measure.prior)
    return measure, ratio_rows(rows, alpha)


def admm(measure: Posterior, rows: RowSet, goal: float, limit: float) -> tuple[int, float, float, bool]:
    """(iterations, seconds, KKT residual, whether it is at most ``goal``) of the authors' splitting v(x) = −G(x) λ.

    v is found by fixed-point steps for all rows at once, λ by non-negative least squares; rows with an upper bound have
    λ ≥ 0, the others λ ≤ 0. The residual is looked at every ten iterations and not timed.
    """
    n, m = measure.n, measure.n_classes
    Z, log_p = measure.rows(slice(None)).astype(np.float64), np.asarray(measure.offset)
    sign = np.where(np.isfinite(rows.upper), 1.0, -1.0)
    D = rows.matrix(measure.prior).toarray().reshape(len(rows), measure.n_cells, m) * sign[:, None, None]
    box = Box(rows.lower, rows.upper)

    def scores(lam: np.ndarray) -> np.ndarray:
        """G(x) λ, (n, m)."""
        return np.asarray(Z @ np.tensordot(lam, D, 1))

    def mean(V: np.ndarray) -> np.ndarray:
        """mean_x G(x)ᵀ V(x), (K,)."""
        return np.tensordot(D, Z.T @ V / n, 2)

    gram = np.einsum("kcj,cd,ldj->kl", D, Z.T @ Z / n, D, optimize=True)
    root = np.linalg.cholesky(RHO * gram + 1e-10 * np.eye(len(rows)))
    lam, mu, x = np.ones(len(rows)), np.ones((n, m)), log_p.copy()
    seconds, iterations, residual = 0.0, 0, np.inf
    while residual > goal and seconds < limit:
        start = time.perf_counter()
        c = mu + RHO * scores(lam)
        for _ in range(100):
            before, x = x, log_p - (special.softmax(x, axis=1) + c) / RHO
            if np.abs(x - before).max() < 1e-10:
                break
        v = x - log_p
        lam = optimize.nnls(root.T, -np.linalg.solve(root, mean(mu + RHO * v)), maxiter=100 * len(rows))[0]
        mu = mu + RHO * (v + scores(lam))
        seconds += time.perf_counter() - start
        iterations += 1
        if iterations % 10 == 0:
            values = sign * mean(special.softmax(log_p - scores(lam), axis=1))
            residual = box.residual(sign * lam, values)
    return iterations, seconds, residual, residual <= goal


def timed(function: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """(best seconds, the last answer)."""
    answers: list[Any] = []
    return best(lambda: answers.append(function()), repeat), answers[-1]


def projection_lines(n: int, small_n: int, limit: float, repeat: int) -> None:
    Z = synthetic(n, 5, 5).astype(np.float64)
    print(f"\nFairProjection, {n} people, 5 groups × 5 classes, float64")
    for criterion in ("dp", "eo"):
        for alpha in (0.1, 0.01):
            measure, rows = projection(Z, criterion, alpha)
            seconds, found = timed(lambda measure=measure, rows=rows: project(measure, rows), repeat)
            print(
                f"{criterion}, alpha {alpha:g}: {len(rows)} rows, {seconds:.2f} s, KKT {found.residual:.1e}",
                flush=True,
            )
    print(f"beside ADMM, {small_n} people, alpha 0.1, both to the same KKT residual")
    for criterion in ("dp", "eo"):
        measure, rows = projection(Z[:small_n], criterion, 0.1)
        for goal in (1e-3, 1e-4):
            seconds, found = timed(lambda m=measure, r=rows, g=goal: project(m, r, tolerance=g), repeat)
            iterations, theirs, residual, done = admm(measure, rows, goal, limit)
            more = "" if done else " at least, as it had not finished:"
            print(
                f"{criterion}, KKT {goal:g}: ours {seconds:.3f} s ({found.residual:.1e}); ADMM {theirs:.1f} s, "
                f"{iterations} iterations of {theirs / iterations:.3f} s ({residual:.1e});{more} "
                f"{theirs / seconds:.0f} times as long, one iteration {theirs / iterations / seconds:.2f} of our solve",
                flush=True,
            )


def linear_lines(n: int, sizes: list[tuple[int, int, int]], limit: float, repeat: int) -> None:
    print("\nLinearPost, pairs of groups within 0.01; the dual at its temperature, 1e-4, and at 1e-3")
    for size, A, m in [*sizes, (n, 5, 5)]:
        Z = synthetic(size, A, m).astype(np.float64)
        for criterion in ("dp", "eo"):
            measure = check_posterior(Z)
            wish = Constraint(criterion, 0.01, "pairwise")
            rows = compile_rows([wish], measure.groups, measure.classes, measure.prior)
            text = f"{criterion}, {size} people, {A} × {m}, n·m·rows {size * m * len(rows) / 1e6:.2f} M: "
            for tau in (LAST_TAU, 1e-3):
                seconds, rule = timed(
                    lambda Z=Z, w=wish, t=tau: optfair.solve(Z, w, temperature=t, random_state=0), repeat
                )
                c = rule.certificate
                text += f"dual {tau:g} {seconds:.2f} s, accuracy {c.accuracy:.5f}, bound {c.upper_bound:.5f}; "
            if (size, A, m) in sizes:
                start = time.perf_counter()
                try:
                    exact = solve_exact(measure, rows, np.tile(np.eye(m), (A, 1)), limit)
                    text += f"HiGHS {time.perf_counter() - start:.1f} s, {exact.value:.5f}"
                except TimeoutError:
                    text += f"HiGHS not finished after {limit:g} s"
            print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, to try the script")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    shrink = 10 if arguments.small else 1
    limit = 60.0 / shrink
    print(f"optfair {optfair.__version__}, numpy {np.__version__}, {n_threads(None)} threads")
    projection_lines(200_000 // shrink, 20_000 // shrink, limit, arguments.repeat)
    sizes = [(30_000 // shrink, 2, 2), (5_000 // shrink, 3, 3), (3_000 // shrink, 5, 5)]
    linear_lines(200_000 // shrink, sizes, limit, arguments.repeat)


if __name__ == "__main__":
    main()
