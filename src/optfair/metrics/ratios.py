"""Compare two rates by their ratio, as the four-fifths rule does: an interval of p₁ / p₂, and a test of p₁ = p₂.

Interval (MOVER for ratios, Donner and Zou 2012), from one-sided Clopper–Pearson limits l ≤ p ≤ u of both rates: the
ends are roots θ of the quadratics by which p₁ − θ p₂ is just not zero,

    low  = l₁(2p₁ − l₁) / (p₁p₂ + √((p₁p₂)² − l₁(2p₁ − l₁) u₂(2p₂ − u₂)))
    high = (p₁p₂ + √((p₁p₂)² − u₁(2p₁ − u₁) l₂(2p₂ − l₂))) / (l₂(2p₂ − l₂)).

Test: Fisher's exact one for whole numbers of people, else the score test with pooled rates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from optfair.metrics.bounds import rate_interval

MOST_EXACT = 1_000_000  # people up to whom the exact test is computed; beyond, it equals the other to many digits


class RateRatio(NamedTuple):
    """p₁ / p₂ with its interval, and the probability of so large a difference if the two rates were the same.

    value is NaN where p₂ is 0, and high infinite where p₂ may be. is_exact : which test p_value is of.
    """

    value: float
    low: float
    high: float
    p_value: float
    is_exact: bool


def rate_ratio(rates: tuple[float, float], people: tuple[float, float], level: float, *, exact: bool) -> RateRatio:
    """Return the ratio of two rates of different people, who may be counted in effect (weights, several rows).

    exact : whether hits and people are whole numbers.
    """
    p, n = np.array(rates, dtype=float), np.array(people, dtype=float)
    low, high = rate_interval(p, n, (1 - level) / 2)
    product = p[0] * p[1]
    lower, upper = low[0] * (2 * p[0] - low[0]), high[0] * (2 * p[0] - high[0])
    inner, outer = low[1] * (2 * p[1] - low[1]), high[1] * (2 * p[1] - high[1])
    root = np.sqrt(max(product**2 - lower * outer, 0.0))
    least = lower / (product + root) if product + root > 0 else 0.0
    most = (product + np.sqrt(max(product**2 - upper * inner, 0.0))) / inner if inner > 0 else np.inf
    value = p[0] / p[1] if p[1] > 0 else np.nan
    is_exact = exact and n.sum() <= MOST_EXACT
    p_value = _fisher(p, n) if is_exact else _score(p, n)
    return RateRatio(float(value), float(least), float(most), p_value, is_exact)


def _fisher(p: np.ndarray, n: np.ndarray) -> float:
    hits = np.rint(p * n)
    return float(stats.fisher_exact(np.column_stack([hits, n - hits]).astype(int)).pvalue)


def _score(p: np.ndarray, n: np.ndarray) -> float:
    """Return the two-sided p-value of (p₁ − p₂) / √(p̄(1 − p̄)(1/n₁ + 1/n₂))."""
    pooled = float((p * n).sum() / n.sum()) if n.sum() > 0 else 0.0
    variance = pooled * (1 - pooled) * float((1 / np.maximum(n, 1e-300)).sum())
    return float(2 * stats.norm.sf(abs(p[0] - p[1]) / np.sqrt(variance))) if variance > 0 else 1.0
