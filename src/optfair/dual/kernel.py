"""Map a block of rows to one number and one matrix: the kernel. Blocks add up.

    scores  β = Z W + offset                         Z: (k, p)   W: (p, m)   offset: (k, m) or None
    rule    h = softmax(β / τ)                       τ: a number, or one per row (k,)
    value   Σ_x w_x τ_x logsumexp(β_x / τ_x)         w: (k,) or None for ones
    J       Σ_x w_x z_x ⊗ h_x                        (p, m): soft confusion tensor and gradient of the value in W

Scores are class-major, (m, k): reductions over a few classes are then long vector operations. Computed in the dtype
of Z, returned in float64.
"""

from __future__ import annotations

import numpy as np

# exp(-60) is nothing beside 1, and stays clear of float32's subnormal numbers, which are many times slower.
_FLOOR = -60.0


def softmax_scores(
    Z: np.ndarray, W: np.ndarray, tau: float | np.ndarray, offset: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return h, class-major (m, k); logsumexp(β/τ), (k,); and max_j h_j, (k,)."""
    if isinstance(tau, np.ndarray):
        S = W.T.astype(Z.dtype) @ Z.T
        if offset is not None:
            S += offset.T
        S /= tau.astype(Z.dtype)
    else:
        S = np.ascontiguousarray((W / tau).T, dtype=Z.dtype) @ Z.T
        if offset is not None:
            S += (offset / tau).T
    top = S.max(axis=0)
    S -= top
    np.maximum(S, _FLOOR, out=S)
    np.exp(S, out=S)
    total = S.sum(axis=0)
    largest = 1.0 / total  # the largest score was moved to 0
    S *= largest
    np.log(total, out=total)
    total += top
    return S, total, largest


def block_value_confusion(
    Z: np.ndarray,
    W: np.ndarray,
    tau: float | np.ndarray,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
    curvature: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Return (value, J) of a block; write 1 − max_j h_j into ``curvature`` (k,) when given."""
    h, lse, largest = softmax_scores(Z, W, tau, offset)
    if curvature is not None:
        np.subtract(1.0, largest, out=curvature, casting="same_kind")
    if isinstance(tau, np.ndarray):
        lse *= tau.astype(lse.dtype)
    if weight is None:
        value = float(lse.sum(dtype=np.float64))
    else:
        value = float(weight @ lse)
        h *= weight.astype(h.dtype)
    value *= 1.0 if isinstance(tau, np.ndarray) else tau
    return value, (h @ Z).T.astype(np.float64)


def block_temperature_cost(
    Z: np.ndarray,
    W: np.ndarray,
    tau: float | np.ndarray,
    weight: np.ndarray | None = None,
    offset: np.ndarray | None = None,
) -> float:
    """Return Σ_x w_x Σ_j h_j (max β − β_j); in terms of h, β_j = max β + τ log(h_j / max h)."""
    h, _, largest = softmax_scores(Z, W, tau, offset)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = -np.nan_to_num(h * np.log(h / largest)).sum(axis=0) * tau
    return float(lost.sum(dtype=np.float64) if weight is None else weight @ lost)


def block_hessian(
    Z: np.ndarray, h: np.ndarray, tau: float | np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return Σ_x (w_x/τ_x) h_j(δ_jk − h_k) z_c z_c', as (m·p, m·p) with index j·p + c.   h: (m, k)"""
    m, p = len(h), Z.shape[1]
    scale = np.broadcast_to(np.asarray((1.0 if weight is None else weight) / tau, dtype=Z.dtype), h.shape[1:])
    out = np.empty((m, p, m, p), dtype=Z.dtype)
    for j in range(m):
        for k in range(j, m):
            curve = h[j] * ((1.0 - h[j]) if j == k else -h[k]) * scale
            out[j, :, k, :] = (Z.T * curve) @ Z
            if k > j:
                out[k, :, j, :] = out[j, :, k, :].T
    return out.reshape(m * p, m * p)


def block_hessian_diagonal(
    Z: np.ndarray, h: np.ndarray, tau: float | np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the diagonal of `block_hessian`, (p, m)."""
    scale = np.asarray((1.0 if weight is None else weight) / tau, dtype=Z.dtype)
    return ((h * (1.0 - h) * scale) @ (Z * Z)).T.astype(np.float64)
