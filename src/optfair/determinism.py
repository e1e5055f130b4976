"""What it would cost to answer everybody with their likeliest class, and how far hashed answers can stray.

A hashed rule gives the same answer to the same row. Where many people share a row they flip together: with unique
rows u of mass μ_u the confusion tensor is ``J + Σ_u μ_u z_u ⊗ (onehot_u − h_u)``, whose spread does not vanish with n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.decisions import choose
from optfair.dual.certificate import UNDECIDED, Assessment, Probabilities, accuracy
from optfair.posterior import Posterior

SAMPLE_ROWS, REPLICATES = 50_000, 200


@dataclass(frozen=True)
class Determinism:
    """The rule as it is (randomised), by argmax, and by hashed decisions without keys.

    undecided : share of people whose likeliest class has a probability below 0.99.
    distinct : distinct rows among the undecided ones, as a share of them (on at most 50 000 rows).
    violation_hashed : its 95 % point over secret keys; the randomised one when most rows are distinct.
    excess_argmax : how far the worst row of any kind (gap, ratio, minimum rate, own) is outside its bounds by argmax.
    """

    undecided: float
    distinct: float
    accuracy_randomised: float
    violation_randomised: float
    accuracy_argmax: float
    violation_argmax: float
    violation_hashed: float
    excess_argmax: float

    def __str__(self) -> str:
        lines = [
            f"{'':<12} accuracy  violation",
            f"{'randomised':<12} {self.accuracy_randomised:.6f}  {self.violation_randomised:.6f}",
            f"{'argmax':<12} {self.accuracy_argmax:.6f}  {self.violation_argmax:.6f}",
            f"argmax is outside the bounds by {self.excess_argmax:.6f}"
            if self.excess_argmax
            else "argmax is within bounds",
            f"undecided    {self.undecided:.2%} of people",
        ]
        if self.distinct < 0.5:
            lines.append(
                f"hashed       violation up to {self.violation_hashed:.6f}: only {self.distinct:.1%} of undecided rows "
                "are distinct, and people with the same row flip together; pass keys= to predict"
            )
        return "\n".join(lines)


def determinism(
    posterior: Posterior, rows: RowSet, matrix: sparse.csr_array, found: Assessment, probabilities: Probabilities
) -> Determinism:
    """Compare the assessed rule with its argmax and with hashed decisions."""
    randomised = float(rows.violation(matrix @ found.confusion.ravel()))
    distinct, hashed = 1.0, randomised
    if found.undecided > 0:
        distinct, hashed = _hashed(posterior, rows, matrix, found, probabilities, randomised)
    hard = matrix @ found.confusion_argmax.ravel()
    return Determinism(
        undecided=found.undecided,
        distinct=distinct,
        accuracy_randomised=accuracy(found.confusion),
        violation_randomised=randomised,
        accuracy_argmax=accuracy(found.confusion_argmax),
        violation_argmax=float(rows.violation(hard)),
        violation_hashed=hashed,
        excess_argmax=float(rows.excess(hard)),
    )


def _hashed(
    posterior: Posterior,
    rows: RowSet,
    matrix: sparse.csr_array,
    found: Assessment,
    probabilities: Probabilities,
    randomised: float,
) -> tuple[float, float]:
    """(share of distinct rows among the undecided, 95 % point of the hashed violation), on evenly spaced rows."""
    step = max(posterior.n // SAMPLE_ROWS, 1)
    Z = posterior.rows(slice(None, None, step)).astype(np.float64)
    weight = np.ones(len(Z)) if posterior.weight is None else posterior.weight[::step]
    offset = None if posterior.offset is None else posterior.offset[::step]
    h = probabilities(Z, offset)
    undecided = np.flatnonzero(h.max(axis=1) < UNDECIDED)
    if len(undecided) == 0:
        return 1.0, randomised
    # A random projection tells rows apart as well as all columns do, and sorts as one.
    mark = Z[undecided] @ np.random.default_rng(0).standard_normal(Z.shape[1])
    _, first, inverse = np.unique(mark, return_index=True, return_inverse=True)
    distinct = len(first) / len(mark)
    if distinct >= 0.5:
        return distinct, randomised
    mass = np.bincount(inverse, weight[undecided]) / weight.sum()
    h, Z = h[undecided[first]], Z[undecided[first]]
    rng = np.random.default_rng(0)
    found_values = []
    for _ in range(REPLICATES):
        answer = np.eye(h.shape[1])[choose(h, rng.random(len(h)))]
        moved = (Z * mass[:, None]).T @ (answer - h)
        found_values.append(matrix @ (found.confusion.ravel() + moved.ravel()))
    return distinct, float(np.quantile(rows.violation(np.array(found_values)), 0.95))
