"""Prove what a rule reaches, by code that no solver uses, in float64, over all rows.

Weak duality: for every λ and every rule h' within the bounds,

    value(h') ≤ upper(λ) = mean_x max_j β_j(x) + Σ_k (upper_k λ_k⁺ − lower_k λ_k⁻),   β = Z (U − reshape(Dᵀλ)) + offset.

So ``gap = upper(λ) − value(h)`` bounds what any other rule could still gain. If h is outside by t, it is compared
with the rules that are allowed the same t: upper(λ) + t‖λ‖₁.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.constraints.rows import accuracy
from optfair.dual.measure import Block, Measure
from optfair.rule.decisions import TIE
from optfair.utils.html import card

UNDECIDED = 0.99  # a row whose likeliest class has less than this probability counts as undecided
Probabilities = Callable[..., np.ndarray]


class Status(Enum):
    """How a solve ended; the value says what it means, and what to do where the gap was not reached.

    Examples
    --------
    >>> from optfair.rule.certificate import Status
    >>> Status.OPTIMAL.value
    'optimal within the requested gap'
    """

    OPTIMAL = "optimal within the requested gap"
    UNCONSTRAINED = "the unconstrained rule is already within tolerance"
    ARGMAX = "the likeliest class of everybody; the gap is the cost of deterministic predictions"
    MIXED = "mixed with a constant, so that the promise to new people is kept; the gap is what that costs"
    TEMPERATURE_COST = "the gap is the cost of the temperature asked for; lower it or use temperature='auto'"
    COLDEST_REACHED = "the requested gap was not reached at the lowest temperature; raise gap, or use method='lp'"
    OUTSIDE = "outside of the bounds asked for; widen them, or raise max_multiplier or max_passes"
    MAX_PASSES = "the requested gap was not reached; raise max_passes or gap"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Certificate:
    """The proof that travels with a rule: what is known about it on the measure it was solved for.

    Attributes
    ----------
    accuracy : float
        Plug-in accuracy of the rule.
    value : float
        What was maximised, in the user's units: the accuracy, or minus the expected cost.
    upper_bound : float
        No rule within ``tolerance + excess`` has a higher value.
    gap : float
        ``upper_bound − value``.
    violation : float
        Largest absolute gap between rates among the rows asked for.
    excess : float
        How far the worst row of any kind is outside its bounds; 0 if all are within.
    tolerance : float, tuple of float or None
        As asked for: a number, or one per constraint (None where a constraint has none).
    temperature : float
        Temperature τ of the common groups; 0 for a plain argmax.
    passes : int
        Passes over all rows.
    residual : float
        Residual of the KKT conditions, in units of rates.
    seconds : float
        Time that the solve took.
    status : Status
        How the solve ended.
    notes : tuple of str
        What else a reader should know, one sentence each.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> certificate = solve(Z, "dp", 0.01, random_state=0).certificate
    >>> certificate.gap <= 1e-4, certificate.excess == 0
    (True, True)
    >>> print(certificate.status)
    optimal within the requested gap
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
    status: Status
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        bounds = self.tolerance if isinstance(self.tolerance, tuple) else (self.tolerance,)
        tolerance = ", ".join("–" if bound is None else f"{bound:g}" for bound in bounds)
        lines = [("accuracy", f"{self.accuracy:.6f}")]
        if self.has_costs:
            lines.append(("value", f"{self.value:.6f}"))
        lines += [
            ("upper bound", f"{self.upper_bound:.6f}"),
            ("gap", f"{self.gap:.2e}"),
            ("violation", f"{self.violation:.6f}"),
            ("tolerance", tolerance),
            ("excess", f"{self.excess:.2e}"),
            ("temperature", f"{self.temperature:g}"),
            ("passes", f"{self.passes}"),
            ("KKT residual", f"{self.residual:.1e}"),
            ("seconds", f"{self.seconds:.3f}"),
            ("status", "; ".join([self.status.value, *self.notes])),
        ]
        return "\n".join(f"{name:<13} {text}" for name, text in lines)

    def _repr_html_(self) -> str:
        rows = [(line[:13].strip(), line[14:]) for line in str(self).splitlines()]
        return card("Certificate", rows, "No rule within the same bounds has a higher value than the upper bound.")

    @property
    def has_costs(self) -> bool:
        """Whether something else than the accuracy was maximised."""
        return abs(self.value - self.accuracy) > 1e-9


@dataclass(frozen=True, eq=False)
class Assessment:
    """One pass over all rows with a rule h, and what follows from it and λ.

    confusion, confusion_argmax : J of the rule and of its argmax, (A, m, m). values : D(h), (K,). accuracy, violation,
    excess : of the rule. gain : its expected utility. dual_value : upper(λ). bound : upper(λ) for bounds widened by the
    excess. undecided : share of rows whose likeliest class has a probability below 0.99.
    """

    confusion: np.ndarray
    confusion_argmax: np.ndarray
    values: np.ndarray
    accuracy: float
    violation: float
    excess: float
    gain: float
    dual_value: float
    bound: float
    undecided: float


def assess(
    posterior: Measure,
    rows: RowSet,
    matrix: sparse.csr_array,
    probabilities: Probabilities,
    utility: np.ndarray,
    lam: np.ndarray,
    weights: np.ndarray | None = None,
) -> Assessment:
    """Assess the rule ``probabilities(Z, offset) -> (k, m)`` on all rows, with the upper bound that λ gives.

    matrix : D of this measure, (K, p·m). utility : U, (p, m). lam : λ, (K,). weights : W of the rule, (p, m), if it can
    be given its scores, ``probabilities(Z, offset, scores=β)``: where they are those of λ, they are computed once.
    """
    m, shape = posterior.n_classes, (*posterior.prior.shape, posterior.n_classes)
    W = utility - (matrix.T @ lam).reshape(utility.shape)  # not by `cell_weights`, which is the solver's
    is_shared = weights is not None and np.array_equal(weights, W)

    def averages(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        Z, weight = block.Z.astype(np.float64), block.weights
        offset = None if block.offset is None else np.asarray(block.offset, dtype=np.float64)
        beta = W.T @ Z.T
        if offset is not None:
            beta += offset.T
        top = weight @ beta.max(axis=0)
        h = (probabilities(Z, offset, scores=beta) if is_shared else probabilities(Z, offset)).T
        gained = 0.0 if offset is None else float(weight @ (h * offset.T).sum(axis=0))
        pair = np.empty((2, *h.shape))  # the rule and its argmax side by side: one product instead of two
        largest = h.max(axis=0)
        pair[0] = h
        np.greater_equal(h, largest - TIE, out=pair[1])
        if pair[1].sum() > len(Z):  # ties go to the first
            np.equal(pair[1].argmax(axis=0), np.arange(m)[:, None], out=pair[1])
        if block.weight is not None:
            pair *= weight
        numbers = np.array([top, gained, weight @ (largest < UNDECIDED)])
        soft, hard = (pair.reshape(2 * m, -1) @ Z).reshape(2, m, -1)
        return soft, hard, numbers

    sums = posterior.sum_blocks(averages, 2 * posterior.n_cells)
    soft, hard, (top, offset_gain, undecided) = (total / posterior.n for total in sums)
    J = soft.T.reshape(shape)
    values = matrix @ J.ravel()
    excess = float(rows.excess(values))
    bounds = [np.where(lam > 0, rows.upper + slack, rows.lower - slack) for slack in (0.0, excess)]
    dual_value, bound = (float(top) + float(np.sum(b[lam != 0] * lam[lam != 0])) for b in bounds)
    return Assessment(
        confusion=J,
        confusion_argmax=hard.T.reshape(shape),
        values=values,
        accuracy=accuracy(J),
        violation=float(rows.violation(values)),
        excess=excess,
        gain=float((J.reshape(utility.shape) * utility).sum()) + float(offset_gain),
        dual_value=dual_value,
        bound=bound,
        undecided=float(undecided),
    )
