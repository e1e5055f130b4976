"""Bound a rate at all times at once: a look every day costs nothing, and the rate may drift.

X_1, X_2, ... in [0, 1] are hits, or probabilities of a hit, p_i = E[X_i | the past], x = Σ X_i and p̄ = Σ p_i / n. For
every λ > 0 convexity gives E[exp(λ X_i) | the past] ≤ 1 − p_i + p_i e^λ, and concavity of the logarithm

    Π_i (1 − p_i + p_i e^λ) ≤ (1 − p̄ + p̄ e^λ)^n.

So M_n(p̄) = Σ_k π_k exp(λ_k x − n log(1 − p̄ + p̄ e^λ_k)) is at most a supermartingale that starts at 1 (the method of
mixtures, Robbins 1970), which ever reaches 1/α with probability at most α (Ville 1939). M_n(p) falls in p, hence

    l_n = min {p : M_n(p) ≤ 1/α} ≤ p̄_n for all n at once, with probability at least 1 − α,

and u_n = 1 − l_n of the misses. Nothing is assumed of the p_i: they may change with the people who come, and with a
rule that is replaced. A beta mixture of binomials is closed but holds for constant rates only, and is wider beyond some
thousand people.
"""

from __future__ import annotations

import numpy as np

# A λ serves sizes n near 2 log(1/α) / (λ² p (1 − p)), and steps of √2 are at most 1.5 % off the best width: from a
# handful of people to some ten million; beyond, limits hold but hardly narrow.
RATES_OF_GROWTH = 8.0 * 2.0 ** (-np.arange(25) / 2)
BISECTIONS = 50  # of [0, x/n], to 1e-15 of it


def rate_limits(hits: np.ndarray, people: np.ndarray, alpha: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of rates, each missed at some time with probability at most α.   hits x, people n: (L,)

    Without people they are 0 and 1. Both limits together are missed with probability at most 2α.
    """
    hits, people, alpha = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (hits, people, alpha)))
    hits = np.clip(hits, 0.0, people)
    return _low(hits, people, alpha), 1.0 - _low(people - hits, people, alpha)


def log_wealth(rate: np.ndarray, hits: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Return log M_n(p), (L,), with equal weights of the λ_k.   rate p, hits x, people n: (L,)"""
    lam = RATES_OF_GROWTH[:, None]
    exponents = lam * hits - people * np.log1p(rate * np.expm1(lam))
    top = exponents.max(axis=0)
    return np.asarray(top + np.log(np.exp(exponents - top).mean(axis=0)))


def _low(hits: np.ndarray, people: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return l_n by bisection, from below, so that rounding never narrows it.   (L,) each"""
    high = np.divide(hits, people, out=np.zeros(hits.shape), where=people > 0)
    low, limit = np.zeros(hits.shape), -np.log(alpha)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        outside = log_wealth(middle, hits, people) >= limit
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low
