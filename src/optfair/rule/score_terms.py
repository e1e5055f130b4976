"""Take the scores of a rule apart: what the model itself prefers, and one term for every constraint row.

    W = U − Σ_k λ_k D_k,   so that for any two classes j and i

    β_j − β_i  =  Σ_c z_c (U_cj − U_ci)  −  Σ_k λ_k Σ_c z_c (D_kcj − D_kci)
                  preference                part of row k

D is kept in the factors it was compiled from (`optfair.constraints.rows`), which are about as large as W:
D = C diag(v) N + E.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from optfair.constraints.rows import RowSet
from optfair.dual.problem import cell_weights

BLOCK_NUMBERS = 4_000_000  # of a block of rows times rates: 32 megabytes


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """What the weights of a rule are made of, for p cells, m classes, K constraint rows and R rates.

    utility : U, (p, m). multipliers : λ, (K,), in units of the utility. combination : C, (K, R). rate_weights : v,
    (R,), one over the mass that each rate is conditioned on. hits : N, (R, p·m), zeros and ones. user_rows : E,
    (K, p·m).
    """

    utility: np.ndarray
    multipliers: np.ndarray
    combination: sparse.csr_array
    rate_weights: np.ndarray
    hits: sparse.csr_array
    user_rows: sparse.csr_array

    @classmethod
    def of_rows(cls, rows: RowSet, prior: np.ndarray, utility: np.ndarray, multipliers: np.ndarray) -> Self:
        """Return the terms of multipliers λ (K,) for rows on the measure with this prior of its cells."""
        weights = rows.rate_weights(prior)
        return cls(utility, multipliers, rows.combination, weights, rows.hits, rows.user_rows)

    def with_multipliers(self, multipliers: np.ndarray) -> Self:
        """Return the terms of other multipliers for the same rows."""
        return replace(self, multipliers=multipliers)

    @cached_property
    def active(self) -> np.ndarray:
        """Positions of the rows that have a term, λ_k ≠ 0."""
        return np.flatnonzero(self.multipliers)

    @cached_property
    def has_costs(self) -> bool:
        """Whether something else than the accuracy is maximised."""
        m = self.utility.shape[1]
        return not np.array_equal(self.utility, np.tile(np.eye(m), (len(self.utility) // m, 1)))

    def matrix(self) -> sparse.csr_array:
        """Return D, (K, p·m)."""
        rates = sparse.csr_array(sparse.diags_array(self.rate_weights) @ self.hits)
        return sparse.csr_array(self.combination @ rates + self.user_rows)

    def weights(self) -> np.ndarray:
        """Return W = U − reshape(Dᵀλ), (p, m)."""
        return cell_weights(self.utility, self.matrix(), self.multipliers)

    def preference(self, Z: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        """Return z U + offset, the scores without constraints, (n, m).   Z: (n, p)   offset: (n, m) or None"""
        scores = Z @ self.utility
        return scores if offset is None else scores + offset

    def parts(self, Z: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return −λ_k Σ_c z_c (D_kcj − D_kci) of the active rows k, (n, K₁).   Z: (n, p)   first j, second i: (n,)"""
        n, m = len(Z), self.utility.shape[1]
        rates, coefficients, user_rows = self._active_factors
        out = np.empty((n, len(self.active)))
        size = max(1, BLOCK_NUMBERS // max(1, (len(rates) if user_rows is None else len(rates) + out.shape[1]) * m))
        for start in range(0, n, size):
            part = slice(start, start + size)
            pair = first[part], second[part]
            out[part] = -_differences(Z[part], rates, *pair) @ coefficients.T
            if user_rows is not None:
                out[part] -= _differences(Z[part], user_rows, *pair)
        return out

    @cached_property
    def _active_factors(self) -> tuple[_CellValues, sparse.csr_array, _CellValues | None]:
        """Return the rates that active rows combine, λ_k C_kr of these (K₁, R₁), and λ_k E_k, None where all are zero.

        Rates first and their combinations then: a rate of everybody, say, is in the row of every group.
        """
        scale = sparse.diags_array(self.multipliers[self.active])
        coefficients = sparse.csr_array(scale @ self.combination[self.active])
        used = np.unique(coefficients.indices)
        rates = sparse.csr_array(sparse.diags_array(self.rate_weights[used]) @ self.hits[used])
        user_rows = sparse.csr_array(scale @ self.user_rows[self.active])
        m = self.utility.shape[1]
        extra = _CellValues.of(user_rows, m) if user_rows.nnz else None
        return _CellValues.of(rates, m), sparse.csr_array(coefficients[:, used]), extra


@dataclass(frozen=True, eq=False)
class _CellValues:
    """Rows (R, p·m) so arranged that one product with z gives their values of every outcome: (p, R·m)."""

    matrix: sparse.csc_array
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    @classmethod
    def of(cls, rows: sparse.csr_array, m: int) -> _CellValues:
        entries = sparse.coo_array(rows)
        cell, outcome = np.divmod(entries.col, m)
        place = cell, entries.row.astype(np.int64) * m + outcome
        shape = rows.shape[1] // m, rows.shape[0] * m
        return cls(sparse.csc_array(sparse.coo_array((entries.data, place), shape)), rows.shape[0])


def _differences(Z: np.ndarray, rows: _CellValues, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Σ_c z_c (rows_rcj − rows_rci), (n, R), of classes j and i of each row of Z."""
    if rows.n_rows == 0:
        return np.zeros((len(Z), 0))
    values = np.asarray(Z @ rows.matrix).reshape(len(Z), rows.n_rows, rows.matrix.shape[1] // rows.n_rows)
    index = np.arange(len(Z))
    return np.asarray(values[index, :, first] - values[index, :, second])
