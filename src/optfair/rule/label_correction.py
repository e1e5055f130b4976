"""Correct bounds with labels: what the rule does is measured by labels, not by Z.

    b_k = D_k(J with labels) − D_k(J with Z),   J with labels = mean_x onehot(a, y) ⊗ h(x)

is how far Z is wrong about row k of the rule h. The bounds of the plug-in problem are moved by −b and it is solved
again, until b stays: the rule keeps its form and its certificate (for the moved bounds), and its labelled values are
within the bounds asked for. b is an estimate, and following its noise makes a rule worse for new people: it is shrunk
by ``(1 − 1/mean_k (b_k/se_k)²)₊`` over the rows of each constraint (James and Stein), to nothing where the rows
together are no larger than chance makes them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from optfair.dual.measure import Block, Measure
from optfair.errors import InfeasibleError
from optfair.metrics.influence import rate_influence
from optfair.rule.driver import Solution, solve_problem
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule, probabilities_of

ROUNDS = 5  # of moving the bounds and solving again; b settles after two or three
SAMPLE_ROWS = 50_000  # rows behind the second moments
SETTLED = 1e-4  # bounds that move by less are not moved again
MAX_PRODUCTS = 20_000_000_000  # multiplications for the second moments: some seconds


def solve_with_labels(problem: FairProblem, start: Solution | None = None, n_people: float | None = None) -> Solution:
    """Return the rule for bounds moved by what labels say; the posterior knows the observed cells.

    n_people : their number, where weights count people; else weights are those of a survey, and each row is a person.
    """
    solution = solve_problem(problem, start)
    lower, upper = problem.rows.lower, problem.rows.upper
    shift = np.zeros(len(lower))
    for _ in range(ROUNDS):
        step = label_bias(problem, solution.rule, n_people) - shift
        if np.abs(step).max() <= SETTLED:
            break
        for share in (1.0, 0.5, 0.25):  # noise may ask for what no rule can do: go as far as possible
            b = shift + share * step
            try:
                solution = solve_problem(problem.with_bounds(lower - b, upper - b), solution)
            except InfeasibleError:
                continue
            shift = b
            break
        else:
            break
    if not shift.any():
        return solution
    certificate, size = solution.rule.certificate, float(np.abs(shift).max())
    note = f"labels show that z(x) is wrong by up to {size:.1e}, so the bounds on z(x) were moved by as much"
    certificate = replace(certificate, notes=(*certificate.notes, note), bounds_moved=size)
    return replace(solution, rule=replace(solution.rule, certificate=certificate))


def label_bias(problem: FairProblem, rule: FairRule, n_people: float | None = None) -> np.ndarray:
    """Return b, shrunk, (K,)."""
    posterior, rows = problem.posterior, problem.rows
    A, m = posterior.prior.shape

    def confusions(block: Block) -> tuple[np.ndarray, np.ndarray]:
        weighted = _probabilities(rule, block) * block.weights[:, None]
        plug_in = block.Z.T.astype(np.float64) @ weighted
        labelled = [np.bincount(np.asarray(block.cell), weighted[:, j], A * m) for j in range(m)]
        return plug_in, np.column_stack(labelled)

    plug_in, labelled = (total / posterior.n for total in posterior.sum_blocks(confusions, 2 * posterior.n_cells))
    bias = rows.values(labelled.reshape(A, m, m)) - rows.values(plug_in.reshape(A, m, m))
    mass = rows.conditions @ labelled.sum(axis=1)  # a rate whose cell has no labelled people says nothing
    bias[(abs(rows.combination) @ (mass <= 0)) > 0] = 0.0
    # To first order b is the mean of w_x B · (onehot_x − z_x) ⊗ h_x, with B the derivative of the rows by J.
    B = rows.combination @ rate_influence(rows, labelled.reshape(A, m, m)) + rows.user_rows
    # Among people counted w times each has its own error; a survey weight multiplies one person's error.
    survey = n_people is None
    error = np.sqrt(np.maximum(*_variances(posterior, rule, B, survey)) / (posterior.n if survey else n_people))
    return np.asarray(bias * _trust(bias, error, rows.source))


def _probabilities(rule: FairRule, block: Block) -> np.ndarray:
    """Return h of a block, (k, m)."""
    offset = None if block.offset is None else np.asarray(block.offset, dtype=np.float64)
    return np.ascontiguousarray(probabilities_of(rule, block.Z.astype(np.float64), offset))


def _trust(bias: np.ndarray, error: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return (1 − 1/mean (b/se)²)₊ of the rows of each constraint, (K,)."""
    positive = error > 0
    squares = np.divide(bias**2, error**2, out=np.zeros_like(bias), where=positive)
    total, count = (np.bincount(source, x, source.max() + 1) for x in (squares, positive))
    return np.maximum(0.0, 1.0 - count / np.maximum(total, 1e-300))[source]


def _variances(posterior: Measure, rule: FairRule, B: sparse.csr_array, survey: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of one person's share in b as observed, and as z itself expects it, (K,) each.

    With e = onehot − z: observed E[(B · e ⊗ h)²]; expected Σ_c E[z_c (B_c · h)²] − E[(B · z ⊗ h)²]. In a cell of one or
    two people the observed one may be nothing at all by chance.
    """
    sample = posterior.draw(min(SAMPLE_ROWS, max(1_000, MAX_PRODUCTS // B.shape[1] ** 2))).block(slice(None))
    h, Z = _probabilities(rule, sample), sample.Z.astype(np.float64)
    w, n, m = sample.weights if survey else np.sqrt(sample.weights), len(Z), posterior.n_classes
    wrong = -Z
    wrong[np.arange(n), np.asarray(sample.cell)] += 1.0

    def second_moment(factor: np.ndarray) -> np.ndarray:
        products = (factor[:, :, None] * (h * w[:, None])[:, None, :]).reshape(n, -1)
        return products.T @ products / n

    dense = B.toarray()
    observed = ((B @ second_moment(wrong)) * dense).sum(axis=1)
    expected = -((B @ second_moment(Z)) * dense).sum(axis=1)
    rows = dense.reshape(len(dense), -1, m)
    for c in range(Z.shape[1]):
        curve = (h * (Z[:, c] * w * w)[:, None]).T @ h / n
        expected += np.einsum("kj,jl,kl->k", rows[:, c], curve, rows[:, c])
    return np.maximum(observed, 0.0), np.maximum(expected, 0.0)
