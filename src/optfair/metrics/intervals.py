"""How much of a violation is noise, and how large the true one can be.

Noise floor: the 95 % quantile of max_k |D_k| when every group has the overall rates.
Interval: simultaneous over rows, |D̂_k − D_k| ≤ t s_k for all k with probability 95 %, hence

    max_k(|D̂_k| − t s_k)₊ ≤ max_k |D_k| ≤ max_k(|D̂_k| + t s_k).

s_k is the larger of two standard errors: that of a fair rule, and that of the observed rates mixed with a few
pseudo-people. Either alone fails somewhere: the null one when a small group is far from the overall rate (in
16 % of runs some row's lower bound was then above the truth), the observed one when a cell has no hits. t is
the larger of the quantiles of max_k |D*_k|/s_k among replicates of the two. (The percentile bootstrap of
max_k |D_k| is biased upwards and does not cover.)

Weights that depend on the answer or the label: a group that drew no heavy row by chance would seem certain, and a fair
rule was called unfair in up to 25 % of runs. The null therefore lends it the weights of everybody (`nulls.spread`);
in simulations with weights of 3 to 50 times and groups of 20 to 200 people, 0 to 3 % remain.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints import RowSet
from optfair.metrics.confusion import GroupConfusion, group_confusion
from optfair.metrics.gaps import Attributes, gap_rows, gap_table
from optfair.metrics.influence import rate_influence, row_variances
from optfair.metrics.nulls import Cells, nulls_of, pooled, shrunk, size_noise, tensor_noise


@dataclass(frozen=True, eq=False)
class ViolationInterval:
    """`lower ≤ violation ≤ upper` with probability `level`; `value` is the violation observed.

    noise_floor : a fair rule exceeds this with probability 1 − level. It is set by the smallest groups; a gap of a
        large group can be certain below it, which is what `lower` > 0 says.
    table : the gaps with simultaneous bounds `lower`, `upper` on each |gap|.
    """

    value: float
    lower: float
    upper: float
    level: float
    noise_floor: float
    n_replicates: int
    table: pd.DataFrame = field(repr=False)

    def __str__(self) -> str:
        worst = self.table.loc[self.table["value"].abs().idxmax()]
        place = ", ".join(f"{c} {worst[c]!r}" for c in ("group", "given", "outcome") if worst[c] is not None)
        verdict = "more than chance" if self.lower > 0 else "could be chance"
        return (
            f"violation {self.value:.4f}, {self.level:.0%} interval [{self.lower:.4f}, {self.upper:.4f}]: {verdict}; "
            f"a fair rule stays below {self.noise_floor:.4f} (noise floor); largest gap: {worst['criterion']}, {place}"
        )


def noise_floor(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str = "overall",
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes = "intersections",
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> float:
    """The `level` quantile of max_k |D_k| when every group has the overall rates; cell sizes as given.

    A violation below it is what a perfectly fair rule would show. Arguments: see `violation`.
    """
    confusion = group_confusion(
        y_true,
        prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        classes=classes,
    )
    return floor_of(
        confusion, criterion, reference=reference, outcomes=outcomes, attributes=attributes, level=level,
        n_replicates=n_replicates, random_state=random_state,
    )  # fmt: skip


def violation_interval(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str = "overall",
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes = "intersections",
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> ViolationInterval:
    """A confidence interval of the violation in the population these rows were drawn from, and of every gap.

    Arguments: see `violation`. The rows are taken to be independent, and the rule not to be fitted on them.
    Weights may depend on group, label and answer. The probability is approximate. It is known to fall short (89 % for
    `lower`) where weights depend strongly on the answer and the true gap is large: 100 people with 3 % hits among
    2000 with 20 %, hits weighing 20 times; too few heavy rows then look like a group whose weights are light.
    """
    confusion = group_confusion(
        y_true,
        prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        classes=classes,
    )
    return interval_of(
        confusion, criterion, reference=reference, outcomes=outcomes, attributes=attributes, level=level,
        n_replicates=n_replicates, random_state=random_state,
    )  # fmt: skip


def floor_of(
    confusion: GroupConfusion,
    criterion: Any = "dp",
    *,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
    **question: Any,
) -> float:
    """`noise_floor` of data that are already counted."""
    check_replicates(level, n_replicates)
    rows = gap_rows(confusion, criterion, **question)
    largest, _ = _null_maxima(confusion, rows, np.ones(len(rows)), n_replicates, np.random.default_rng(random_state))
    return min(float(np.quantile(largest, level)), 1.0)  # the Gaussian of a tiny cell knows no bounds


def interval_of(
    confusion: GroupConfusion,
    criterion: Any = "dp",
    *,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
    **question: Any,
) -> ViolationInterval:
    """`violation_interval` of data that are already counted."""
    check_replicates(level, n_replicates)
    rows = gap_rows(confusion, criterion, **question)
    found = margins(confusion, rows, level, n_replicates, random_state)
    table = gap_table(confusion, rows)
    size = table["value"].abs().to_numpy()
    lower, upper = np.clip(size - found.width, 0, 1), np.clip(size + found.width, 0, 1)
    return ViolationInterval(
        value=float(size.max()),
        lower=float(lower.max()),
        upper=float(upper.max()),
        level=float(level),
        noise_floor=found.noise_floor,
        n_replicates=int(n_replicates),
        table=table.assign(lower=lower, upper=upper),
    )


@dataclass(frozen=True)
class Margins:
    """width : (K,) t s_k, simultaneous over the rows. noise_floor : quantile of max_k |D*_k| at the nulls."""

    width: np.ndarray
    noise_floor: float


def margins(confusion: GroupConfusion, rows: RowSet, level: float, n_replicates: int, random_state: Any = 0) -> Margins:
    """|D̂_k − D_k| ≤ width_k for all K rows, of any kind, with probability `level`.

    Rows that speak of no criterion have no null, and the standard error of the observed rates alone.
    """
    rng = np.random.default_rng(random_state)
    cells = shrunk(confusion)
    influence = rate_influence(rows, cells.mean * confusion.prior[..., None])
    between = size_noise(cells, confusion, influence)
    variance = row_variances(rows.combination, influence, cells.s[..., None, None] * cells.covariance)
    variance += np.asarray((rows.combination @ between).power(2).sum(axis=1))
    for null in nulls_of(rows, confusion.classes.tolist()):
        fair = pooled(null, confusion)
        at_null = row_variances(rows.combination[null.rows], influence, fair.s[..., None, None] * fair.covariance)
        variance[null.rows] = np.maximum(variance[null.rows], at_null)
    scale = np.sqrt(variance)

    largest, null_ratio = _null_maxima(confusion, rows, scale, n_replicates, rng)
    ratio = _maxima(_own_noise(confusion, rows, cells, influence, between, n_replicates, rng), scale)[1]
    t = max(np.quantile(ratio, level), np.quantile(null_ratio, level))
    return Margins(t * scale, min(float(np.quantile(largest, level)), 1.0))


def _null_maxima(
    confusion: GroupConfusion, rows: RowSet, scale: np.ndarray, n_replicates: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """max_k |D*_k| and max_k |D*_k|/scale_k of fair replicates, (n_replicates,) each."""
    absolute, relative = np.zeros(n_replicates), np.zeros(n_replicates)
    mass = rows.conditions @ confusion.prior.ravel()
    per_rate = sparse.csr_array(sparse.diags_array(1 / mass) @ rows.hits)
    for null in nulls_of(rows, confusion.classes.tolist()):
        noise = tensor_noise(pooled(null, confusion), confusion, n_replicates, rng)
        C = rows.combination[null.rows]
        found = _maxima((C @ (per_rate @ batch) for batch in noise), scale[null.rows])
        absolute, relative = np.maximum(absolute, found[0]), np.maximum(relative, found[1])
    return absolute, relative


def _own_noise(
    confusion: GroupConfusion,
    rows: RowSet,
    cells: Cells,
    influence: sparse.csr_array,
    between: sparse.csr_array,
    n_replicates: int,
    rng: np.random.Generator,
) -> Iterator[np.ndarray]:
    """Batches of D* − E D* around the observed rates, cell sizes random, (K, batch)."""
    for batch in tensor_noise(cells, confusion, n_replicates, rng):
        rates = influence @ batch + between @ rng.standard_normal((between.shape[1], batch.shape[1]))
        yield rows.combination @ rates


def _maxima(batches: Iterable[np.ndarray], scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max_k |x_k| and max_k |x_k|/scale_k of each column; a row that cannot move (scale 0) counts as 0."""
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 1e-12)[:, None]
    found = [(np.abs(x).max(0), (np.abs(x) * inverse).max(0)) for x in batches]
    absolute, relative = zip(*found, strict=True)
    return np.concatenate(absolute), np.concatenate(relative)


def check_replicates(level: float, n_replicates: int) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level!r}: must be between 0 and 1, e.g. 0.95.")
    if int(n_replicates) != n_replicates or n_replicates < 20:
        raise ValueError(f"n_replicates={n_replicates!r}: must be a whole number, at least 20 (1000 is usual).")
