"""Bounds corrected with labels: what the rule does to people is measured by their labels, not by Z.

    b_k = D_k(J with labels) − D_k(J with Z),   J with labels = mean_x onehot(a, y) ⊗ h(x)

is how far Z is wrong about row k of the rule h. The bounds of the plug-in problem are moved by −b and it is solved
again, until b stays: the rule keeps its form and its certificate (for the moved bounds), and its labelled values are
within the bounds asked for. b is an estimate: it is shrunk by ``(1 − se²/b²)₊``, since where labels are few it is
mostly noise, and following noise makes a rule worse for new people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optfair.constraints.criteria import AnyConstraint
from optfair.errors import InfeasibleError
from optfair.options import Options
from optfair.rule import FairRule
from optfair.task import Task

ROUNDS, SAMPLE_ROWS = 5, 50_000


def solve_with_labels(
    task: Task, options: Options, constraints: Sequence[AnyConstraint], cell: np.ndarray, start: FairRule | None = None
) -> FairRule:
    """The rule for bounds moved by what labels say; ``cell`` is the observed cell a·m + y of each row, (n,)."""
    rule = task.solve(options, constraints, start)
    lower, upper = task.rows.lower, task.rows.upper
    moved = np.zeros(len(lower))
    for _ in range(ROUNDS):
        bias = label_bias(task, rule, cell)
        step = bias - moved
        if np.abs(step).max() <= 1e-4:
            break
        for share in (1.0, 0.5, 0.25):  # noise may ask for what no rule can do: go as far as possible
            try:
                rule = task.with_bounds(lower - moved - share * step, upper - moved - share * step).solve(
                    options, constraints, rule
                )
            except InfeasibleError:
                continue
            moved = moved + share * step
            break
        else:
            break
    return rule


def label_bias(task: Task, rule: FairRule, cell: np.ndarray) -> np.ndarray:
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
    error = _errors(task, h, weight, cell)
    keep = 1.0 - np.divide(error**2, bias**2, out=np.ones_like(bias), where=bias != 0)
    return np.asarray(bias * np.maximum(keep, 0.0))


def _errors(task: Task, h: np.ndarray, weight: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Standard errors of b, (K,): b_k is the mean of w_x D_k · (onehot_x − z_x) ⊗ h_x."""
    n = len(h)
    index = np.arange(0, n, max(n // SAMPLE_ROWS, 1))
    wrong = -task.posterior.rows(index).astype(np.float64)
    wrong[np.arange(len(index)), cell[index]] += 1.0
    products = (wrong[:, :, None] * (h[index] * weight[index, None])[:, None, :]).reshape(len(index), -1)
    spread = products.T @ products / len(index)
    variance = np.asarray((task.matrix @ spread * task.matrix.toarray()).sum(axis=1)).ravel()
    return np.sqrt(variance / n)
