"""Bounds corrected with labels: what the rule does to people is measured by their labels, not by Z.

    b_k = D_k(J with labels) − D_k(J with Z),   J with labels = mean_x onehot(a, y) ⊗ h(x)

is how far Z is wrong about row k of the rule h. The bounds of the plug-in problem are moved by −b and it is solved
again, until b stays: the rule keeps its form and its certificate (for the moved bounds), and its labelled values are
within the bounds asked for. b is an estimate, and following its noise makes a rule worse for new people: it is shrunk
by ``(1 − 1/mean_k (b_k/se_k)²)₊`` over the rows of each constraint (James and Stein), to nothing where the rows
together are no larger than chance makes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse

from optfair.constraints.criteria import AnyConstraint
from optfair.errors import InfeasibleError
from optfair.metrics.influence import rate_influence
from optfair.options import Options
from optfair.posterior import Posterior
from optfair.rule import FairRule
from optfair.task import Task

ROUNDS, SAMPLE_ROWS = 5, 50_000
CLOSE = 1e-4
WORK = 20_000_000_000  # products for the second moments


def solve_with_labels(
    task: Task,
    options: Options,
    constraints: Sequence[AnyConstraint],
    cell: np.ndarray,
    start: FairRule | None = None,
    people: float | None = None,
) -> FairRule:
    """The rule for bounds moved by what labels say.

    cell : (n,) the observed cell a·m + y of each row. people : their number, where weights count people; else weights
    are those of a sample, and each row is one person.
    """
    rule = task.solve(options, constraints, start)
    lower, upper = task.rows.lower, task.rows.upper
    moved = np.zeros(len(lower))
    for _ in range(ROUNDS):
        step = label_bias(task, rule, cell, people) - moved
        if np.abs(step).max() <= CLOSE:
            break
        for share in (1.0, 0.5, 0.25):  # noise may ask for what no rule can do: go as far as possible
            b = moved + share * step
            try:
                rule = task.with_bounds(lower - b, upper - b).solve(options, constraints, rule)
            except InfeasibleError:
                continue
            moved = b
            break
        else:
            break
    if not moved.any():
        return rule
    note = f"for bounds moved by up to {np.abs(moved).max():.1e}, by which labels say that z(x) is wrong"
    certificate = rule.certificate
    return replace(rule, certificate=replace(certificate, status=f"{certificate.status}; {note}"))


def label_bias(task: Task, rule: FairRule, cell: np.ndarray, people: float | None = None) -> np.ndarray:
    """b, shrunk, (K,)."""
    posterior, rows = task.posterior, task.rows
    h = rule.predict_proba(posterior.Z, offset=posterior.offset)
    weight = np.ones(len(h)) if posterior.weight is None else posterior.weight
    A, m = posterior.prior.shape
    weighted = h * weight[:, None]
    plug_in = posterior.rows(slice(None)).T.astype(np.float64) @ weighted / len(h)
    labelled = np.column_stack([np.bincount(cell, weighted[:, j], A * m) for j in range(m)]) / len(h)
    bias = rows.values(labelled.reshape(A, m, m)) - rows.values(plug_in.reshape(A, m, m))
    mass = rows.conditions @ labelled.sum(axis=1)  # a rate whose cell has no labelled people says nothing
    bias[(abs(rows.combination) @ (mass <= 0)) > 0] = 0.0
    # To first order b is the mean of w_x B · (onehot_x − z_x) ⊗ h_x, with B the derivative of the rows by J.
    B = rows.combination @ rate_influence(rows, labelled.reshape(A, m, m)) + rows.own
    # Among people counted w times each has its own error; a weight of a sample multiplies one person's error.
    share, count = (weight, float(len(h))) if people is None else (np.sqrt(weight), people)
    error = np.sqrt(np.maximum(*_variances(posterior, h, share, cell, B)) / count)
    return np.asarray(bias * _trust(bias, error, rows.source))


def _trust(bias: np.ndarray, error: np.ndarray, source: np.ndarray) -> np.ndarray:
    """(1 − 1/mean (b/se)²)₊ of the rows of each constraint, (K,)."""
    known = error > 0
    squares = np.divide(bias**2, error**2, out=np.zeros_like(bias), where=known)
    total, count = (np.bincount(source, x, source.max() + 1) for x in (squares, known))
    return np.maximum(0.0, 1.0 - count / np.maximum(total, 1e-300))[source]


def _variances(
    posterior: Posterior, h: np.ndarray, share: np.ndarray, cell: np.ndarray, B: sparse.csr_array
) -> tuple[np.ndarray, np.ndarray]:
    """Variance of one person's share in b as observed, and as z itself expects it, (K,) each.

    With e = onehot − z: observed E[(B · e ⊗ h)²]; expected Σ_c E[z_c (B_c · h)²] − E[(B · z ⊗ h)²]. In a cell of one or
    two people the observed one may be nothing at all by chance.
    """
    n, m = h.shape
    rows_used = min(SAMPLE_ROWS, max(1_000, WORK // B.shape[1] ** 2))
    index = np.arange(0, n, max(n // rows_used, 1))
    Z, h, w = posterior.rows(index).astype(np.float64), h[index], share[index]
    wrong = -Z
    wrong[np.arange(len(index)), cell[index]] += 1.0

    def second_moment(left: np.ndarray) -> np.ndarray:
        products = (left[:, :, None] * (h * w[:, None])[:, None, :]).reshape(len(index), -1)
        return products.T @ products / len(index)

    dense = B.toarray()
    observed = ((B @ second_moment(wrong)) * dense).sum(axis=1)
    expected = -((B @ second_moment(Z)) * dense).sum(axis=1)
    rows = dense.reshape(len(dense), -1, m)
    for c in range(Z.shape[1]):
        curve = (h * (Z[:, c] * w * w)[:, None]).T @ h / len(index)
        expected += np.einsum("kj,jl,kl->k", rows[:, c], curve, rows[:, c])
    return np.maximum(observed, 0.0), np.maximum(expected, 0.0)
