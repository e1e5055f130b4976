"""The one object everything is linear in: ``Z[x, a, i] = P(A=a, Y=i | X=x)``.

Z : (n, A, m), each row a probability vector over the A·m cells. The measure it is averaged with gives the cell
prior ``P[a, i] = Σ_x w_x Z[x, a, i] / Σ_x w_x``, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.labels import check_weights, name_index
from optfair.parallel import map_blocks, n_threads

ROW_SUM_SLACK = 1e-3


@dataclass(frozen=True, eq=False)
class Posterior:
    """A validated measure: rows of Z (an array or a memory map, never copied whole) with weights of mean one.

    Z : (n, A, m). weight : (n,) float64 of mean 1, or None for equal weights. offset : (n, m) utilities added to the
    scores, or None. prior : (A, m). groups, classes : names.
    """

    Z: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    prior: np.ndarray
    groups: pd.Index
    classes: pd.Index
    n_jobs: int

    @property
    def n(self) -> int:
        return len(self.Z)

    @property
    def n_cells(self) -> int:
        return self.Z.shape[1] * self.Z.shape[2]

    @property
    def n_classes(self) -> int:
        return self.Z.shape[2]

    def rows(self, block: slice | np.ndarray) -> np.ndarray:
        """(rows, A·m), contiguous floats; a view wherever Z allows it."""
        return _as_rows(self.Z[block])

    def take(self, index: np.ndarray, weight: np.ndarray) -> Posterior:
        """The measure of some rows with weights of their own: it has its own prior."""
        Z = self.rows(index)
        weight = weight / weight.mean()
        prior = (weight @ Z.astype(np.float64)) / len(Z)
        offset = None if self.offset is None else self.offset[index]
        shape = self.Z.shape[1:]
        return Posterior(
            Z.reshape(-1, *shape),
            weight,
            offset,
            prior.reshape(shape),
            self.groups,
            self.classes,
            self.n_jobs,
        )

    def leverage(self) -> np.ndarray:
        """ℓ(x) = mean over cells of z_c / P_c: large for rows that speak of rare cells.   (n,) float32"""
        inverse = np.divide(1.0, self.prior.ravel(), out=np.zeros(self.n_cells), where=self.prior.ravel() > 0)
        inverse /= max(np.count_nonzero(inverse), 1)
        out = np.empty(self.n, dtype=np.float32)

        def fill(block: slice) -> None:
            rows = self.rows(block)
            out[block] = rows @ inverse.astype(rows.dtype)

        map_blocks(fill, self.n, self.n_cells, self.n_jobs)
        return out


def _as_rows(Z: np.ndarray) -> np.ndarray:
    rows = Z.reshape(len(Z), Z.shape[1] * Z.shape[2])
    dtype = np.float32 if rows.dtype.itemsize <= 4 and rows.dtype.kind == "f" else np.float64
    return np.ascontiguousarray(rows, dtype=dtype)


def check_names(names: Sequence[Any] | pd.Index | None, size: int, argument: str) -> pd.Index:
    """Names of groups or classes as an Index: unique, none missing, as many as there are; 0, 1, ... by default."""
    if names is None:
        return pd.RangeIndex(size)
    index = name_index(names, argument)
    if len(index) != size:
        raise ValueError(f"{argument}: {len(index)} names given, but Z has {size} of them.")
    if index.to_frame(index=False).isna().to_numpy().any():
        raise ValueError(f"{argument}: a name is missing (NaN or None); give every one a name.")
    return index


def check_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights of mean one, float64, or None."""
    weight = check_weights(sample_weight, n)
    if weight is None:
        return None
    # Divide by the largest first: the mean of subnormal weights would lose its digits.
    weight = weight / weight.max()
    return weight / weight.mean()


def check_rows(Z: Any, shape: tuple[int, int] | None = None) -> np.ndarray:
    """Z as a (n, A, m) array of floats, shape and type checked, values not yet."""
    try:
        Z = np.asanyarray(Z)
    except ValueError:
        raise ValueError("Z: its rows have different lengths; expected (n, n_groups, n_classes).") from None
    if Z.dtype.kind not in "fiub":
        raise ValueError(f"Z: has dtype {Z.dtype}; expected an array of probabilities.")
    if Z.ndim != 3:
        raise ValueError(f"Z: has shape {Z.shape}; expected (n, n_groups, n_classes).")
    if shape is not None and Z.shape[1:] != shape:
        raise ValueError(f"Z: has shape {Z.shape}; this rule was solved for (n, {shape[0]}, {shape[1]}).")
    if shape is None and (Z.shape[0] == 0 or Z.shape[1] == 0):
        raise ValueError(f"Z: has shape {Z.shape}; it needs at least one row and one group.")
    if shape is None and Z.shape[2] < 2:
        raise ValueError(f"Z: has shape {Z.shape}; at least two classes are needed to choose from.")
    return Z


def check_values(rows: np.ndarray, start: int) -> None:
    """Refuse a block of rows (k, A·m) that are not probability vectors; ``start`` is the number of its first row."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = rows @ np.ones(rows.shape[1], rows.dtype)
    if not (np.abs(total - 1) <= ROW_SUM_SLACK).all():  # NaN and inf fail here too
        bad = int(np.flatnonzero(~(np.abs(total - 1) <= ROW_SUM_SLACK))[0])
        what = f"sums to {total[bad]:.6g}" if np.isfinite(total[bad]) else "holds NaN or infinite values"
        raise ValueError(f"Z: row {start + bad} {what}; each row must be probabilities that sum to 1.")
    if rows.size and rows.min() < 0:
        bad = int(np.flatnonzero((rows < 0).any(axis=1))[0])
        raise ValueError(f"Z: row {start + bad} holds {rows[bad].min():.6g}; probabilities cannot be negative.")


def check_offset(offset: Any, n: int, n_classes: int) -> np.ndarray | None:
    if offset is None:
        return None
    offset = np.asanyarray(offset)
    if offset.shape != (n, n_classes) or offset.dtype.kind not in "fiub":
        raise ValueError(f"offset: has shape {offset.shape}; expected numbers of shape ({n}, {n_classes}).")
    if not np.isfinite(offset).all():
        raise ValueError("offset: holds NaN or infinite values.")
    return offset


def check_posterior(
    Z: Any,
    groups: Sequence[Any] | pd.Index | None = None,
    classes: Sequence[Any] | pd.Index | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    n_jobs: int | None = None,
) -> Posterior:
    """Validate Z once, in one pass over its rows that also gives the prior."""
    Z = check_rows(Z)
    n, A, m = Z.shape
    weight = check_weight(sample_weight, n)
    group_names, class_names = check_names(groups, A, "groups"), check_names(classes, m, "classes")
    if class_names.nlevels > 1:
        raise ValueError("classes: must be plain names, not a MultiIndex.")
    threads = n_threads(n_jobs)

    def total(block: slice) -> np.ndarray:
        rows = _as_rows(Z[block])
        check_values(rows, block.start)
        weights = np.ones(len(rows)) if weight is None else weight[block]
        return weights @ rows.astype(np.float64)

    prior = np.sum(map_blocks(total, n, A * m, threads), axis=0) / n
    return Posterior(Z, weight, check_offset(offset, n, m), prior.reshape(A, m), group_names, class_names, threads)
