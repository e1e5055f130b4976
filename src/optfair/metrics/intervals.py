"""Tell how much of a violation is noise, and how large the true one can be.

Noise floor: the 95 % quantile of max_k |D_k| when every group has the overall rates.
Interval: simultaneous over rows, |D̂_k − D_k| ≤ t s_k for all k with probability 95 %, hence

    max_k(|D̂_k| − t s_k)₊ ≤ max_k |D_k| ≤ max_k(|D̂_k| + t s_k).

s_k is the standard error of `noise`, and t the larger of the quantiles of max_k |D*_k|/s_k among replicates of a fair
rule and of the observed one. (The percentile bootstrap of max_k |D_k| is biased upwards and does not cover.)

Weights that depend on the prediction or the label: a group without a heavy row by chance would seem certain, and a fair
rule was called unfair in up to 25 % of runs. The null therefore lends it the weights of all rows
(`null_model.spread`); in simulations with weights of 3 to 50 times and groups of 20 to 200 people, 0 to 3 % remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints import RowSet
from optfair.metrics.bounds import largest_bound
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.noise import own_noise
from optfair.metrics.null_model import nulls_of, pooled_cells, tensor_noise
from optfair.utils.checks import check_integer, check_number
from optfair.utils.html import card
from optfair.utils.seeds import as_generator


@dataclass(frozen=True, eq=False)
class ViolationInterval:
    """A confidence interval of the violation, ``lower ≤ violation ≤ upper``, and of every gap.

    Attributes
    ----------
    value : float
        Violation observed.
    lower : float
        Lower end of the interval of the true violation.
    upper : float
        Upper end of the interval of the true violation.
    level : float
        Probability of the interval.
    bound : float
        The true violation is at most this with probability ``level``, if nothing else is asked; see
        `violation_bound`. It is below ``upper``, which holds for every gap at once, and together with ``lower``.
    noise_floor : float
        A fair rule exceeds this with probability ``1 − level``. It is set by the smallest groups; a gap of a large
        group can be certain below it, which is what ``lower > 0`` says.
    n_replicates : int
        Replicates that the quantiles rest on.
    table : pandas.DataFrame
        The gaps with simultaneous bounds ``lower`` and ``upper`` on each absolute gap, and ``bound``, which holds for
        it alone.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import violation_interval
    >>> rng = np.random.default_rng(0)
    >>> y, prediction = rng.integers(0, 3, 900), rng.integers(0, 3, 900)
    >>> interval = violation_interval(y, prediction, sensitive_features=rng.choice(["A", "B"], 900))
    >>> interval.lower <= interval.value <= interval.upper
    True
    """

    value: float
    lower: float
    upper: float
    bound: float
    level: float
    noise_floor: float
    n_replicates: int
    table: pd.DataFrame = field(repr=False)

    def __str__(self) -> str:
        worst = self.table.loc[self.table["value"].abs().idxmax()]
        return (
            f"violation {self.value:.4f}, {self.level:.0%} interval [{self.lower:.4f}, {self.upper:.4f}]: "
            f"{self._judgement()}; largest gap: {worst['criterion']}, {_place(worst)}"
        )

    def _judgement(self) -> str:
        """Say whether it is chance, by the interval, and what the noise floor says of the largest gap."""
        floor = f"below {self.noise_floor:.4f} (noise floor)"
        if self.lower > 0 and self.value < self.noise_floor:
            clear = self.table.loc[self.table["lower"].idxmax()]
            return (
                f"more than chance, by the interval of {_place(clear)}; the largest gap of a fair rule, mostly that "
                f"of a small group, stays {floor}"
            )
        if self.lower == 0 and self.value > self.noise_floor:
            return f"could be chance, by the intervals of all gaps, although a fair rule mostly stays {floor}"
        return f"{'more than' if self.lower > 0 else 'could be'} chance; a fair rule stays {floor}"

    def _repr_html_(self) -> str:
        rows = [
            ("largest gap", f"{self.value:.4f}"),
            (f"{self.level:.0%} interval", f"{self.lower:.4f} to {self.upper:.4f}"),
            (f"at most, {self.level:.0%}", f"{self.bound:.4f}"),
            ("by chance alone up to", f"{self.noise_floor:.4f}"),
        ]
        return card("Violation: more than chance" if self.lower > 0 else "Violation: could be chance", rows, str(self))


def _place(row: pd.Series) -> str:
    """Name the group, true class and outcome of a gap."""
    return ", ".join(f"{name} {row[name]!r}" for name in ("group", "given", "outcome") if row[name] is not None)


def fair_quantile(
    counts: ConfusionCounts, rows: RowSet, level: float = 0.95, n_replicates: int = 1000, random_state: Any = 0
) -> float:
    """Return the noise floor: the ``level`` quantile of max_k |D_k| when every group has the overall rates."""
    check_replicates(level, n_replicates)
    largest, _ = _null_maxima(counts, rows, np.ones(len(rows)), n_replicates, as_generator(random_state))
    return min(float(np.quantile(largest, level)), 1.0)  # the Gaussian of a tiny cell knows no bounds


def simultaneous_interval(
    counts: ConfusionCounts, rows: RowSet, level: float = 0.95, n_replicates: int = 1000, random_state: Any = 0
) -> ViolationInterval:
    """Return the interval of the violation, and of every gap at once."""
    check_replicates(level, n_replicates)
    margin = margins(counts, rows, level, n_replicates, random_state)
    single = largest_bound(counts, rows, level)
    table = single.table.drop(columns=["low", "high"])
    size = table["value"].abs().to_numpy()
    lower, upper = np.clip(size - margin.width, 0, 1), np.clip(size + margin.width, 0, 1)
    return ViolationInterval(
        value=float(size.max()),
        lower=float(lower.max()),
        upper=float(upper.max()),
        bound=single.bound,
        level=float(level),
        noise_floor=margin.noise_floor,
        n_replicates=int(n_replicates),
        table=table.assign(lower=lower, upper=upper, bound=table.pop("bound")),
    )


@dataclass(frozen=True)
class Margins:
    """How far gaps may be off.

    width : (K,) t s_k, simultaneous over the rows. noise_floor : quantile of max_k |D*_k| at the nulls.
    """

    width: np.ndarray
    noise_floor: float


def margins(counts: ConfusionCounts, rows: RowSet, level: float, n_replicates: int, random_state: Any = 0) -> Margins:
    """Return |D̂_k − D_k| ≤ width_k for all K rows, of any kind, with probability `level`.

    Rows that speak of no criterion have no null, and the standard error of the observed rates alone.
    """
    rng = as_generator(random_state)
    noise = own_noise(counts, rows)
    largest, null_ratio = _null_maxima(counts, rows, noise.scale, n_replicates, rng)
    ratio = _maxima(noise.draws(n_replicates, rng), noise.scale)[1]
    t = max(np.quantile(ratio, level), np.quantile(null_ratio, level))
    return Margins(t * noise.scale, min(float(np.quantile(largest, level)), 1.0))


def _null_maxima(
    counts: ConfusionCounts, rows: RowSet, scale: np.ndarray, n_replicates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return max_k |D*_k| and max_k |D*_k|/scale_k of fair replicates, (n_replicates,) each."""
    absolute, relative = np.zeros(n_replicates), np.zeros(n_replicates)
    mass = rows.conditions @ counts.prior.ravel()
    per_rate = sparse.csr_array(sparse.diags_array(1 / mass) @ rows.hits)
    for null in nulls_of(rows, counts.classes.tolist()):
        noise = tensor_noise(pooled_cells(null, counts), counts, n_replicates, rng)
        C = rows.combination[null.rows]
        maxima = _maxima((C @ (per_rate @ batch) for batch in noise), scale[null.rows])
        absolute, relative = np.maximum(absolute, maxima[0]), np.maximum(relative, maxima[1])
    return absolute, relative


def _maxima(batches: Iterable[np.ndarray], scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return max_k |x_k| and max_k |x_k|/scale_k of each column; a row that cannot move (scale 0) counts as 0."""
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 1e-12)[:, None]
    maxima = [(np.abs(x).max(0), (np.abs(x) * inverse).max(0)) for x in batches]
    absolute, relative = zip(*maxima, strict=True)
    return np.concatenate(absolute), np.concatenate(relative)


def check_replicates(level: float, n_replicates: int) -> None:
    """Check the level of an interval and the number of its replicates."""
    check_number("level", level, "(0, 1)", ", e.g. 0.95")
    check_integer("n_replicates", n_replicates, 20, " (1000 is usual)")
