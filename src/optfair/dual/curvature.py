"""Form ∇²F and the metric of steps for some multipliers, from D taken class by class and a sample of rows.

With D_j (k, p) the columns of k active rows of D that belong to predicting class j, and g_j(x) = D_j z(x) (k,),

    ∇²F = mean_x (1/τ) [ Σ_j h_j g_j g_jᵀ − s sᵀ ],   s = Σ_j h_j g_j            all classes of a row at once, or
        = mean_x (1/τ) Σ_{j<l} h_j h_l (g_j − g_l)(g_j − g_l)ᵀ                   a sample of pairs of classes,

because most rows waver between two. A row of D mostly touches one class, so that no object is larger than (k, k).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from optfair.dual.settings import SETTINGS
from optfair.utils.sampling import systematic_draw

PAIR_COST = 40  # of drawing a pair of classes, in products


class ClassPart(NamedTuple):
    """D_j without its empty rows: which rows of D are left, (k_j,), and these, (k_j, p)."""

    rows: np.ndarray
    matrix: np.ndarray


def class_parts(matrix: sparse.csr_array, n_outcomes: int, dtype: np.dtype) -> list[ClassPart]:
    """Return D_j of each class, in a dtype.   matrix: (k, p·m)"""
    D, p = sparse.coo_array(matrix), matrix.shape[1] // n_outcomes
    order = np.lexsort((D.row, D.col % n_outcomes))
    row, column, data = D.row[order], D.col[order], D.data[order]
    ends = np.searchsorted(column % n_outcomes, np.arange(n_outcomes + 1))
    parts = []
    for start, end in pairwise(ends):
        rows, position = np.unique(row[start:end], return_inverse=True)
        part = np.zeros((len(rows), p), dtype=dtype)
        part[position, column[start:end] // n_outcomes] = data[start:end]
        parts.append(ClassPart(rows, part))
    return parts


def curvature(
    Z: np.ndarray,
    h: np.ndarray,
    scale: np.ndarray,
    importance: np.ndarray,
    parts: Sequence[ClassPart],
    k: int,
    n_pairs: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return Σ_x scale_x [Σ_j h_j g_j g_jᵀ − s sᵀ], (k, k), exactly or from a sample of pairs, whichever costs less.

    Z : (n, p). h : (m, n). scale, importance : (n,), see `pair_curvature`. parts : D_j of each class, k rows in all.
    """
    p, m = Z.shape[1], len(h)
    row_cost = k**2 + sum(len(part.rows) * p for part in parts)
    if len(Z) * row_cost <= n_pairs * p**2 + PAIR_COST * len(Z) * m**2 or m > SETTINGS.pair_classes:
        return row_curvature(Z, h, scale, parts, k)
    return pair_curvature(Z, h, scale, importance, parts, k, n_pairs, rng)


def row_curvature(Z: np.ndarray, h: np.ndarray, scale: np.ndarray, parts: Sequence[ClassPart], k: int) -> np.ndarray:
    """Return Σ_x scale_x [Σ_j h_j g_j g_jᵀ − s sᵀ], (k, k)."""
    root = np.sqrt(scale)
    out, S = np.zeros((k, k)), np.zeros((k, len(Z)), dtype=Z.dtype)
    for (rows, D), share in zip(parts, h, strict=True):
        G = D @ Z.T
        S[rows] += G * (share * root)
        G *= np.sqrt(share) * root
        out[np.ix_(rows, rows)] += G @ G.T
    return out - S @ S.T


def pair_curvature(
    Z: np.ndarray,
    h: np.ndarray,
    scale: np.ndarray,
    importance: np.ndarray,
    parts: Sequence[ClassPart],
    k: int,
    size: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return an estimate of `row_curvature` from about ``size`` pairs of classes of single rows.

    A pair is drawn ∝ scale · h_j h_l · importance.
    """
    first, second = np.triu_indices(len(h), 1)
    weight = h[first] * h[second] * scale
    index, inverse = systematic_draw((weight * importance).ravel(), size, rng)
    pair, row = np.divmod(index, len(Z))
    weight = (weight.ravel()[index] * inverse).astype(Z.dtype)
    out = np.zeros((k, k))
    ends = np.searchsorted(pair, np.arange(len(first) + 1))
    for j, other, (start, end) in zip(first.tolist(), second.tolist(), pairwise(ends), strict=True):
        if end > start:
            rows, position = np.unique(np.append(parts[j].rows, parts[other].rows), return_inverse=True)
            difference = np.zeros((len(rows), Z.shape[1]), dtype=Z.dtype)
            difference[position[: len(parts[j].rows)]] = parts[j].matrix
            difference[position[len(parts[j].rows) :]] -= parts[other].matrix
            sample = Z[row[start:end]]
            curve = (sample.T * weight[start:end]) @ sample
            out[np.ix_(rows, rows)] += difference @ curve @ difference.T
    return out


def score_change(gram: np.ndarray, parts: Sequence[ClassPart], K: int) -> np.ndarray:
    """Return M with δᵀMδ = mean_x ‖change of β(x), centred over classes‖² for a step δ in λ, (K, K).

    gram : the mean of z zᵀ, (p, p).
    """
    total, out = np.zeros((K, len(gram))), np.zeros((K, K))
    for rows, D in parts:
        total[rows] += D
        out[np.ix_(rows, rows)] += D @ gram @ D.T
    return out - total @ gram @ total.T / len(parts)
