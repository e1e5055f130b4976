"""Correct bounds with labels: what was in the package once, and a guarded form of it. Neither paid; see the page.

    b_k = D_k(J with labels) − D_k(J with Z),   J with labels = mean_x onehot(a, y) ⊗ h(x)

is how far Z is wrong about row k of the rule h. The bounds of the plug-in problem are moved by −b and it is solved
again. b is an estimate: it is shrunk by ``(1 − 1/mean_k (b_k/se_k)²)₊`` over the rows of each constraint (James and
Stein), to nothing where the rows together are no larger than chance makes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from optfair.errors import InfeasibleError
from optfair.metrics.influence import rate_influence
from optfair.rule.driver import Solution, solve_problem
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule, probabilities_of

ROUNDS = 5  # of moving the bounds and solving again
SETTLED = 1e-4  # bounds that move by less are not moved again
CERTAIN = 2.0  # standard errors that labels must show
SHARE = 0.5  # of the tolerance, by which a bound may be moved beyond what is certain


def solve_in_rounds(problem: FairProblem, start: Solution | None) -> Solution:
    """Return the rule for bounds moved in rounds: b is measured again, and trusted again, on each corrected rule."""
    solution, shift = solve_problem(problem, start), np.zeros(len(problem.rows))
    for _ in range(ROUNDS):
        bias, error = label_bias(problem, solution.rule)
        step = bias * trust(bias, error, problem.rows.source) - shift
        if np.abs(step).max() <= SETTLED:
            break
        moved, share = move_bounds(problem, solution, shift, step)
        if moved is None:
            break
        solution, shift = moved, shift + share * step
    return solution


def solve_in_one_step(problem: FairProblem, start: Solution | None) -> Solution:
    """Return the rule for bounds moved once, within limits, and only if that pays on people not estimated from.

    b and its trust are measured on the uncorrected rule. No bound moves by more than what is certain plus a share of
    the tolerance. The people are halved: with b of one half, the labelled violation in the other must fall.
    """
    plain = solve_problem(problem, start)
    halves = np.arange(problem.posterior.n) % 2 == 0
    changes = []
    for half in (halves, ~halves):
        corrected = one_step(problem, plain, half)
        before, after = (labelled_violation(problem, solution.rule, ~half) for solution in (plain, corrected))
        changes.append(after - before)
    return one_step(problem, plain, None) if np.mean(changes) < 0 else plain


def one_step(problem: FairProblem, plain: Solution, members: np.ndarray | None) -> Solution:
    """Return the solution for bounds moved once, by the labels of these people."""
    bias, error = label_bias(problem, plain.rule, members)
    rows = problem.rows
    limit = np.maximum(np.abs(bias) - CERTAIN * error, 0.0) + SHARE * (rows.upper - rows.lower) / 2
    step = np.clip(bias * trust(bias, error, rows.source), -limit, limit)
    if np.abs(step).max() <= SETTLED:
        return plain
    moved, _ = move_bounds(problem, plain, np.zeros(len(rows)), step)
    return plain if moved is None else moved


def move_bounds(
    problem: FairProblem, solution: Solution, shift: np.ndarray, step: np.ndarray
) -> tuple[Solution | None, float]:
    """Return the solution for bounds moved by −(shift + share · step), and the largest share that any rule allows."""
    for share in (1.0, 0.5, 0.25):
        b = shift + share * step
        try:
            bounds = problem.rows.lower - b, problem.rows.upper - b
            return solve_problem(problem.with_bounds(*bounds), solution), share
        except InfeasibleError:
            continue
    return None, 0.0


# -- what labels say -----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Z (n, p), h (n, m) and the observed cell (n,) of people; equal weights."""

    Z: np.ndarray
    h: np.ndarray
    cell: np.ndarray
    shape: tuple[int, int]

    @property
    def plug_in(self) -> np.ndarray:
        """Return J by Z, (A, m, m)."""
        return (self.Z.T @ self.h / len(self.h)).reshape(*self.shape, -1)

    @property
    def labelled(self) -> np.ndarray:
        """Return J by labels, (A, m, m)."""
        A, m = self.shape
        columns = [np.bincount(self.cell, column, A * m) for column in self.h.T]
        return (np.column_stack(columns) / len(self.h)).reshape(A, m, m)


def labelled_rows(problem: FairProblem, rule: FairRule, members: np.ndarray | None) -> LabelledRows:
    """Return the people of a problem, or these of them, with what a rule does."""
    posterior: Any = problem.posterior  # rows in memory
    assert posterior.weight is None and not posterior.has_offset
    chosen = slice(None) if members is None else members
    Z = posterior.Z.reshape(posterior.n, -1)[chosen].astype(np.float64)
    A, m = posterior.prior.shape
    return LabelledRows(Z, np.asarray(probabilities_of(rule, Z, None)), posterior.cell[chosen], (A, m))


def labelled_violation(problem: FairProblem, rule: FairRule, members: np.ndarray) -> float:
    """Return the largest |D_k| of a rule by the labels of these people."""
    return float(np.abs(problem.rows.values(labelled_rows(problem, rule, members).labelled)).max())


def label_bias(
    problem: FairProblem, rule: FairRule, members: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return b and its standard error, (K,) each, by the labels of all people or these."""
    people, rows = labelled_rows(problem, rule, members), problem.rows
    labelled = people.labelled
    bias = rows.values(labelled) - rows.values(people.plug_in)
    mass = rows.conditions @ labelled.sum(axis=2).ravel()  # a rate whose cell has no labelled people says nothing
    bias[(abs(rows.combination) @ (mass <= 0)) > 0] = 0.0
    # To first order b is the mean of B · (onehot_x − z_x) ⊗ h_x, with B the derivative of the rows by J.
    B = rows.combination @ rate_influence(rows, labelled) + rows.user_rows
    return bias, np.sqrt(np.maximum(*_variances(people, B)) / len(people.h))


def trust(bias: np.ndarray, error: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return (1 − 1/mean (b/se)²)₊ of the rows of each constraint, (K,)."""
    positive = error > 0
    squares = np.divide(bias**2, error**2, out=np.zeros_like(bias), where=positive)
    total, count = (np.bincount(source, x, source.max() + 1) for x in (squares, positive))
    return np.maximum(0.0, 1.0 - count / np.maximum(total, 1e-300))[source]


def _variances(people: LabelledRows, B: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of one person's share in b as observed, and as z itself expects it, (K,) each.

    With e = onehot − z: observed E[(B · e ⊗ h)²]; expected Σ_c E[z_c (B_c · h)²] − E[(B · z ⊗ h)²]. In a cell of one or
    two people the observed one may be nothing at all by chance.
    """
    Z, h = people.Z, people.h
    n, m = h.shape
    wrong = -Z
    wrong[np.arange(n), people.cell] += 1.0

    def second_moment(factor: np.ndarray) -> np.ndarray:
        products = (factor[:, :, None] * h[:, None, :]).reshape(n, -1)
        return np.asarray(products.T @ products / n)

    dense = B.toarray()
    observed = ((B @ second_moment(wrong)) * dense).sum(axis=1)
    expected = -((B @ second_moment(Z)) * dense).sum(axis=1)
    rows = dense.reshape(len(dense), -1, m)
    for c in range(Z.shape[1]):
        curve = (h * Z[:, c : c + 1]).T @ h / n
        expected += np.einsum("kj,jl,kl->k", rows[:, c], curve, rows[:, c])
    return np.maximum(observed, 0.0), np.maximum(expected, 0.0)
