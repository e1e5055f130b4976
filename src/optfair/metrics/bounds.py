"""Bound each gap on its own, with confidence, and the largest of them without paying for their number.

A row is a combination of independent rates, D_k = Σ_l c_l p_l (`strata`). With one-sided Clopper–Pearson limits
l ≤ p ≤ u of each rate at level 1 − δ (MOVER, the method of variance estimates recovery, Zou and Donner 2008)

    high_k = D̂_k + √Σ_l (c_l · arm_l)²,   arm_l = u_l − p̂_l where c_l > 0, p̂_l − l_l where c_l < 0;   low_k alike.

Intersection–union: max_k |D_k| ≤ U = max_k max(high_k, −low_k) with probability 1 − δ, for any number of rows. The row
k* where the population's gap is largest, and its sign, are not random; U is at least the bound of that one row, which
fails with probability δ. (A rule fitted to these same rows chooses k* by their noise: then this does not hold.)

Rows that differ in weight or are of one person count as n = (Σw)²/Σw² people, and their limits are no narrower than
those of a normal with the standard error of `noise`; those of a user's own row, which counts no hits, are just these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import special, stats

from optfair.constraints import RowSet
from optfair.constraints.rows import TABLE_COLUMNS, row_name
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import gap_table
from optfair.metrics.influence import as_rates, rate_limits
from optfair.metrics.noise import own_noise
from optfair.metrics.strata import split_strata
from optfair.utils.checks import check_number


@dataclass(frozen=True, eq=False)
class ViolationBound:
    """How large the violation can be in the population, for a rule that was not fitted on these people.

    Attributes
    ----------
    value : float
        Violation observed.
    bound : float
        The violation of the population is at most this, with probability ``level``.
    level : float
        Probability of the bound.
    table : pandas.DataFrame
        The gaps, each with one-sided limits ``low`` and ``high`` at ``level``, and ``bound``, the larger of high and
        −low.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import violation_bound
    >>> rng = np.random.default_rng(0)
    >>> y, prediction = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    >>> bound = violation_bound(y, prediction, sensitive_features=rng.choice(["A", "B"], 900))
    >>> bound.value <= bound.bound
    True
    """

    value: float
    bound: float
    level: float
    table: pd.DataFrame = field(repr=False)

    def __str__(self) -> str:
        worst = self.table.loc[self.table["bound"].idxmax()]
        place = row_name(*(worst[column] for column in TABLE_COLUMNS))
        return (
            f"violation {self.value:.4f}, in the population at most {self.bound:.4f} with confidence {self.level:.0%}; "
            f"the widest bound: {place}, {worst['n']:.0f} people"
        )


def largest_bound(counts: ConfusionCounts, rows: RowSet, level: float = 0.95) -> ViolationBound:
    """Return the bound of the violation, by the bounds of single rows."""
    low, high = row_limits(counts, rows, level)
    table = gap_table(counts, rows).assign(low=low, high=high, bound=np.maximum(high, -low))
    value, bound = table["value"].abs().max(), table["bound"].max()
    return ViolationBound(float(value), float(bound), float(level), table)


def row_limits(counts: ConfusionCounts, rows: RowSet, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return low_k and high_k, (K,) each: D_k ≥ low_k with probability `level`, and D_k ≤ high_k with the same."""
    check_number("level", level, "(0, 1)", ", e.g. 0.95")
    is_users = np.diff(rows.combination.indptr) == 0
    rows = as_rates(rows)
    value = rows.values(counts.tensor)
    below, above = _count_margins(counts, rows, level)
    if not counts.equal_weights or is_users.any():
        normal = float(stats.norm.ppf(level)) * own_noise(counts, rows).scale
        below, above = (
            np.where(is_users, normal, arm if counts.equal_weights else np.maximum(arm, normal))
            for arm in (below, above)
        )
    least, most = rate_limits(rows)
    return np.clip(value - below, least, most), np.clip(value + above, least, most)


def _count_margins(counts: ConfusionCounts, rows: RowSet, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each row may be below and above its value, (K,) each, by the limits of its rates."""
    strata = split_strata(rows, counts.prior)
    mass = strata.conditions @ counts.prior.ravel()
    rate = np.divide(strata.hits @ counts.tensor.ravel(), mass, out=np.zeros_like(mass), where=mass > 0)
    people = counts.effective_people(strata.conditions)
    low, high = rate_interval(np.clip(rate, 0, 1), people, 1 - level)
    up, down = np.square(high - rate), np.square(rate - low)
    C = strata.combination
    positive, negative = C.maximum(0).power(2), C.minimum(0).power(2)
    return np.sqrt(positive @ down + negative @ up), np.sqrt(positive @ up + negative @ down)


def rate_interval(rate: np.ndarray, people: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return one-sided Clopper–Pearson limits of rates, each missed with probability at most δ.

    People and hits need not be whole numbers: probabilities vary less than hits of the same mean.
    """
    hits = rate * people
    with np.errstate(divide="ignore", invalid="ignore"):
        low = special.betaincinv(hits, people - hits + 1, delta)
        high = special.betaincinv(hits + 1, people - hits, 1 - delta)
    tiny = 1e-9 * np.maximum(people, 1)
    return np.where(hits <= tiny, 0.0, low), np.where(people - hits <= tiny, 1.0, high)
