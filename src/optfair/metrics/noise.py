"""Measure what chance does to the gaps of a rule: a standard error of every row, and draws of all rows together.

s_k is the larger of two standard errors: that of a fair rule, and that of the observed rates mixed with a few
pseudo-people. Either alone fails somewhere: the null one when a small group is far from the overall rate (in
16 % of runs some row's lower bound was then above the truth), the observed one when a cell has no hits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.influence import rate_influence, row_variances
from optfair.metrics.null_model import Cells, nulls_of, pooled_cells, size_noise, smoothed_cells, tensor_noise


@dataclass(frozen=True, eq=False)
class OwnNoise:
    """What chance does to the gaps of a rule, around its own rates.

    scale : (K,) s_k, the larger of the standard errors at the observed rates, observed_scale, and at the nulls.
    """

    counts: ConfusionCounts
    rows: RowSet
    cells: Cells
    influence: sparse.csr_array
    between: sparse.csr_array
    observed_scale: np.ndarray
    scale: np.ndarray

    def draws(self, n_replicates: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield batches of D* − E D*, cell sizes random, (K, batch), n_replicates columns in all."""
        for batch in tensor_noise(self.cells, self.counts, n_replicates, rng):
            sizes = rng.standard_normal((self.between.shape[1], batch.shape[1]))
            yield self.rows.combination @ (self.influence @ batch + self.between @ sizes)


def own_noise(counts: ConfusionCounts, rows: RowSet) -> OwnNoise:
    """Return the noise of K rows of any kind; rows that speak of no criterion have no null."""
    cells = smoothed_cells(counts)
    influence = rate_influence(rows, cells.mean * counts.prior[..., None])
    between = size_noise(cells, counts, influence)
    observed = row_variances(rows.combination, influence, cells.s[..., None, None] * cells.covariance)
    observed += np.asarray((rows.combination @ between).power(2).sum(axis=1))
    variance = observed.copy()
    for null in nulls_of(rows, counts.classes.tolist()):
        fair = pooled_cells(null, counts)
        at_null = row_variances(rows.combination[null.rows], influence, fair.s[..., None, None] * fair.covariance)
        variance[null.rows] = np.maximum(variance[null.rows], at_null)
    return OwnNoise(counts, rows, cells, influence, between, np.sqrt(observed), np.sqrt(variance))
