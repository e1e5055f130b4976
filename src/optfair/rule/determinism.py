"""Measure what deterministic predictions would cost, and how far hashed ones can stray.

A hashed rule gives the same prediction to the same row. Where many people share a row they flip together: with unique
rows u of mass μ_u the confusion tensor is ``J + Σ_u μ_u z_u ⊗ (onehot_u − h_u)``, whose spread does not vanish with n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.constraints.rows import accuracy
from optfair.dual.measure import Measure
from optfair.rule.certificate import UNDECIDED, Assessment, Probabilities
from optfair.rule.decisions import choose

SAMPLE_ROWS = 50_000  # evenly spaced; enough to tell 1 % of distinct rows from 2 %
SAMPLE_NUMBERS, LEAST_ROWS = 2_500_000, 10_000  # of a sample: fewer rows where there are many cells, but no less
REPLICATES = 200  # secret keys tried; the 95 % point then rests on ten of them
FEW_DISTINCT = 0.5  # where less than this share of the undecided rows is distinct, people flip together


@dataclass(frozen=True)
class Determinism:
    """A rule as it is (randomised), by argmax, and by hashed decisions without keys.

    Attributes
    ----------
    undecided : float
        Share of people whose likeliest class has a probability below 0.99.
    distinct : float
        Distinct rows among the undecided ones, as a share of them (on at most 50,000 rows).
    accuracy_randomised : float
        Accuracy of the rule.
    violation_randomised : float
        Largest gap of the rule.
    accuracy_argmax : float
        Accuracy if everybody gets the likeliest class.
    violation_argmax : float
        Largest gap if everybody gets the likeliest class.
    violation_hashed : float
        Largest gap of hashed decisions, its 95 % point over secret keys; that of the randomised rule when most rows
        are distinct.
    excess_argmax : float
        How far the worst row of any kind (gap, ratio, minimum rate, own) is outside its bounds by argmax; of a rule
        with a promise these are the tightened bounds, which are narrower than what was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> determinism = solve(Z, "dp", 0.01, random_state=0).determinism
    >>> 0 <= determinism.undecided <= 1
    True
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
            f"argmax is outside the bounds by {self.excess_argmax:.6f} (with a promise: the tightened bounds)"
            if self.excess_argmax
            else "argmax is within bounds",
            f"undecided    {self.undecided:.2%} of people",
        ]
        if self.distinct < FEW_DISTINCT:
            lines.append(
                f"hashed       violation up to {self.violation_hashed:.6f}: only {self.distinct:.1%} of undecided rows "
                "are distinct, and people with the same row flip together; pass keys= to predict"
            )
        return "\n".join(lines)


def determinism(
    posterior: Measure, rows: RowSet, matrix: sparse.csr_array, assessment: Assessment, probabilities: Probabilities
) -> Determinism:
    """Compare the assessed rule with its argmax and with hashed decisions."""
    distinct, hashed = _hashed(posterior, rows, matrix, assessment, probabilities)
    hard = matrix @ assessment.confusion_argmax.ravel()
    return Determinism(
        undecided=assessment.undecided,
        distinct=distinct,
        accuracy_randomised=assessment.accuracy,
        violation_randomised=assessment.violation,
        accuracy_argmax=accuracy(assessment.confusion_argmax),
        violation_argmax=float(rows.violation(hard)),
        violation_hashed=hashed,
        excess_argmax=float(rows.excess(hard)),
    )


def _hashed(
    posterior: Measure,
    rows: RowSet,
    matrix: sparse.csr_array,
    assessment: Assessment,
    probabilities: Probabilities,
) -> tuple[float, float]:
    """Return (share of distinct rows among the undecided, 95 % point of the hashed violation), from a sample."""
    if assessment.undecided == 0:
        return 1.0, assessment.violation
    size = int(np.clip(SAMPLE_NUMBERS // posterior.n_cells, LEAST_ROWS, SAMPLE_ROWS))
    sample = posterior.draw(size).block(slice(None))
    if not sample.weights.any():  # all others count
        sample = posterior.draw(size, lambda block: block.weights, np.random.default_rng(0)).block(slice(None))
    Z, weight = sample.Z.astype(np.float64), sample.weights
    h = probabilities(Z, sample.offset)
    undecided = np.flatnonzero(h.max(axis=1) < UNDECIDED)
    if len(undecided) == 0:
        return 1.0, assessment.violation
    # A random projection tells rows apart as well as all columns do, and sorts as one.
    mark = Z[undecided] @ np.random.default_rng(0).standard_normal(Z.shape[1])
    _, first, inverse = np.unique(mark, return_index=True, return_inverse=True)
    distinct = len(first) / len(mark)
    if distinct >= FEW_DISTINCT:
        return distinct, assessment.violation
    mass = np.bincount(inverse, weight[undecided]) / weight.sum()
    h, Z = h[undecided[first]], Z[undecided[first]]
    rng = np.random.default_rng(0)
    values = []
    for _ in range(REPLICATES):
        onehot = np.eye(h.shape[1])[choose(h, rng.random(len(h)))]
        shift = (Z * mass[:, None]).T @ (onehot - h)
        values.append(matrix @ (assessment.confusion.ravel() + shift.ravel()))
    return distinct, float(np.quantile(rows.violation(np.array(values)), 0.95))
