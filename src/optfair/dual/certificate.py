"""The proof that travels with a rule, by code that no solver uses, in float64, over all rows.

Weak duality: for every λ and every rule h' within the bounds,

    value(h') ≤ upper(λ) = mean_x max_j β_j(x) + Σ_k (upper_k λ_k⁺ − lower_k λ_k⁻),   β = Z (U − reshape(Dᵀλ)) + offset.

So ``gap = upper(λ) − value(h)`` bounds what any other rule could still gain. If h is outside by t, it is compared
with the rules that are allowed the same t: upper(λ) + t‖λ‖₁.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optfair.constraints import RowSet
from optfair.decisions import TIE
from optfair.parallel import map_blocks
from optfair.posterior import Posterior

UNDECIDED = 0.99
Probabilities = Callable[[np.ndarray, np.ndarray | None], np.ndarray]


@dataclass(frozen=True)
class Certificate:
    """What is proven about a rule on the measure it was solved for.

    accuracy : plug-in accuracy. value : what was maximised, in the user's units: the accuracy, or minus the expected
    cost. upper_bound : no rule within ``tolerance + excess`` has a higher value. gap : upper_bound − value.
    violation : the largest |gap between rates| among the rows asked for. excess : how far the worst row of any kind is
    outside its bounds (0: within).
    tolerance : as asked for: a number, or one per constraint. temperature : that of the common groups.
    passes : over all rows. residual : of the KKT conditions, in units of rates. seconds, status: in words.
    """

    accuracy: float
    value: float
    upper_bound: float
    gap: float
    violation: float
    excess: float
    tolerance: float | tuple[float | None, ...] | None
    temperature: float
    passes: int
    residual: float
    seconds: float
    status: str

    def __str__(self) -> str:
        tolerance = self.tolerance
        shown = ", ".join(
            "–" if t is None else f"{t:g}" for t in (tolerance if isinstance(tolerance, tuple) else (tolerance,))
        )
        if "bounds moved" in self.status:
            shown += ", of bounds that labels have moved (see status)"
        lines = [("accuracy", f"{self.accuracy:.6f}")]
        if abs(self.value - self.accuracy) > 1e-9:
            lines.append(("value", f"{self.value:.6f}"))
        lines += [
            ("upper bound", f"{self.upper_bound:.6f}"),
            ("gap", f"{self.gap:.2e}"),
            ("violation", f"{self.violation:.6f}"),
            ("tolerance", shown),
            ("excess", f"{self.excess:.2e}"),
            ("temperature", f"{self.temperature:g}"),
            ("passes", f"{self.passes}"),
            ("KKT residual", f"{self.residual:.1e}"),
            ("seconds", f"{self.seconds:.3f}"),
            ("status", self.status),
        ]
        return "\n".join(f"{name:<13} {value}" for name, value in lines)


@dataclass(frozen=True, eq=False)
class Assessment:
    """One pass over all rows with a rule: J of the rule and of its argmax, mean max β, offset gained, undecided."""

    confusion: np.ndarray
    confusion_argmax: np.ndarray
    top: float
    offset_value: float
    undecided: float


def assess(posterior: Posterior, probabilities: Probabilities, bound_weights: np.ndarray) -> Assessment:
    """Averages over all rows of what the rule ``probabilities(Z, offset) -> (k, m)`` does.

    bound_weights : (p, m), the W(λ) of the upper bound.
    """
    m = posterior.n_classes

    def block(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Z = posterior.rows(part).astype(np.float64)
        offset = None if posterior.offset is None else np.asarray(posterior.offset[part], dtype=np.float64)
        weight = np.ones(len(Z)) if posterior.weight is None else posterior.weight[part]
        h = probabilities(Z, offset).T
        beta = bound_weights.T @ Z.T
        if offset is not None:
            beta += offset.T
        gained = 0.0 if offset is None else float(weight @ (h * offset.T).sum(axis=0))
        both = np.empty((2, *h.shape))  # the rule and its argmax side by side: one product instead of two
        largest = h.max(axis=0)
        both[0] = h
        np.greater_equal(h, largest - TIE, out=both[1])
        if both[1].sum() > len(Z):  # ties go to the first
            np.equal(both[1].argmax(axis=0), np.arange(m)[:, None], out=both[1])
        if posterior.weight is not None:
            both *= weight
        numbers = np.array([weight @ beta.max(axis=0), gained, weight @ (largest < UNDECIDED)])
        soft, hard = (both.reshape(2 * m, -1) @ Z).reshape(2, m, -1)
        return soft, hard, numbers

    parts = map_blocks(block, posterior.n, 2 * posterior.n_cells, posterior.n_jobs)
    soft, hard, numbers = (np.sum([part[i] for part in parts], axis=0) / posterior.n for i in range(3))
    shape = (*posterior.prior.shape, m)
    return Assessment(soft.T.reshape(shape), hard.T.reshape(shape), *(float(x) for x in numbers))


def accuracy(confusion: np.ndarray) -> float:
    return float(np.trace(confusion.sum(axis=0)))


def upper_bound(assessment: Assessment, rows: RowSet, lam: np.ndarray, excess: float = 0.0) -> float:
    """upper(λ) for bounds widened by ``excess``; +inf where λ leans on an infinite bound."""
    bound = np.where(lam > 0, rows.upper + excess, rows.lower - excess)
    return assessment.top + float(np.sum(bound[lam != 0] * lam[lam != 0]))
