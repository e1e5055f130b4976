"""Say how many people an audit or a promise needs, before there are any predictions.

With N people a row D_k = Σ_l C_kl p_l of rates among different people (`strata`), of shares π_l, has the standard error

    s_k = σ_k / √N,   σ_k² = p(1 − p) Σ_l C_kl² / π_l          (against everybody: p(1 − p)(1 − ω_k) / share_k)

Audit, of a rule not fitted on these people: it passes where every one-sided bound is within the tolerance ξ (`bounds`),

    Σ_k [Φ̄((ξ − D_k)/s_k − z_{1−δ}) + Φ̄((ξ + D_k)/s_k − z_{1−δ})] = 1 − power,    solved for N, or for ξ.

Promise at fitting: bounds are tightened by the noise of all K rows at once, and ρ of ξ is left for accuracy,

    z_{1−δ/2K} max_k s_k = ξ − ρ;   ρ → 0 gives the smallest ξ that can be promised.

Rows that are multiples of each other are one: with two groups those of either, with two classes those of both outcomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from optfair.constraints import RowSet
from optfair.metrics.strata import split_strata

N_PROBES = 3  # directions in which multiples are recognised; by chance no other rows agree in them


@dataclass(frozen=True, eq=False)
class RowNoise:
    """sigma : (K,) √N times the standard error. gap : (K,) true D_k. family : (K,) rows that are multiples of one."""

    sigma: np.ndarray
    gap: np.ndarray
    family: np.ndarray

    def part(self, index: np.ndarray) -> RowNoise:
        """Return one row of each family among those of an index, the noisiest; none of rows without noise."""
        index = index[self.sigma[index] > 0]
        order = index[np.argsort(-self.sigma[index], kind="stable")]
        rows = order[np.unique(self.family[order], return_index=True)[1]]
        return RowNoise(self.sigma[rows], self.gap[rows], self.family[rows])


@dataclass(frozen=True)
class Demand:
    """What is asked of an audit and of a promise; share_left = ρ/ξ."""

    confidence: float
    power: float
    share_left: float

    def audit_people(self, noise: RowNoise, tolerance: float) -> float:
        """Return N with which an audit passes; infinite where a true gap is as large as the tolerance."""
        room = tolerance - noise.gap.max()
        if room <= 0:
            return math.inf
        highest = self._union_quantile(len(noise.gap)) * noise.sigma.max() / room
        return self._root(lambda root_n: self._failure(noise, tolerance, root_n), 0.0, highest) ** 2

    def audit_tolerance(self, noise: RowNoise, people: float) -> float:
        """Return the smallest tolerance at which an audit of N people passes."""
        root_n, low = math.sqrt(people), float(noise.gap.max())
        highest = low + self._union_quantile(len(noise.gap)) * noise.sigma.max() / root_n
        return self._root(lambda tolerance: self._failure(noise, tolerance, root_n), low, highest)

    def promise_people(self, noise: RowNoise, tolerance: float) -> float:
        """Return N with which a fitted rule can be promised."""
        return (self.promise_tolerance(noise, 1.0) / (tolerance * (1 - self.share_left))) ** 2

    def promise_tolerance(self, noise: RowNoise, people: float, n_rows: int | None = None) -> float:
        """Return the smallest tolerance that can be promised with N people. n_rows : K, if these are not all rows."""
        z = stats.norm.isf((1 - self.confidence) / (2 * (n_rows or len(noise.sigma))))
        return float(z * noise.sigma.max() / math.sqrt(people))

    def people(self, noise: RowNoise, tolerance: float) -> tuple[float, float]:
        """Return N for an audit and for a promise."""
        return self.audit_people(noise, tolerance), self.promise_people(noise, tolerance)

    def _failure(self, noise: RowNoise, tolerance: float, root_n: float) -> float:
        z, sides = stats.norm.ppf(self.confidence), np.array([[1.0], [-1.0]])
        return float(stats.norm.sf((tolerance - sides * noise.gap) * root_n / noise.sigma - z).sum())

    def _union_quantile(self, n_rows: int) -> float:
        """Return the distance in standard errors at which each of K rows fails with probability (1 − power)/K."""
        return float(stats.norm.ppf(self.confidence) + stats.norm.isf((1 - self.power) / (2 * n_rows)))

    def _root(self, failure: Callable[[float], float], low: float, high: float) -> float:
        return float(optimize.brentq(lambda x: failure(x) - (1 - self.power), low, 1.01 * high, xtol=1e-9 * high))


def row_noise(rows: RowSet, prior: np.ndarray, rate: np.ndarray, gap: float = 0.0) -> RowNoise:
    """Return σ_k of rows whose rates are about `rate`, (K,), with a true gap where the fewest people are.

    The gap is up in one outcome and down in another of the noisiest cell: rates sum to one. prior : (A, m).
    """
    strata = split_strata(rows, prior)
    share = strata.conditions @ prior.ravel()
    inverse = np.divide(1.0, share, out=np.zeros_like(share), where=share > 0)
    sigma = np.sqrt(rate * (1 - rate) * (strata.combination.power(2) @ inverse))
    family = _families(rows, prior)
    noise = RowNoise(sigma, np.zeros_like(sigma), family)
    if gap == 0:
        return noise
    place = list(zip(rows.table["group"], rows.table["against"], cell_classes(rows), strict=True))
    members = np.array([k for k in range(len(rows)) if place[k] == place[int(sigma.argmax())]])
    order = members[np.argsort(-sigma[members], kind="stable")]
    true_gap = np.zeros(family.max() + 1)
    for k in [k for n, k in enumerate(order) if family[k] not in family[order[:n]]][:2]:
        true_gap[family[k]] = gap / sigma[k]
    return RowNoise(sigma, true_gap[family] * sigma, family)


def own_noise(rows: RowSet, rate: np.ndarray, noise: RowNoise) -> RowNoise:
    """Return σ_k per person of the cell that a row is about, where everybody else is so many that chance spares them.

    The rate of the cell is one side of the row; of the mean criterion it is half of it.
    """
    part = np.where(rows.table["criterion"] == "meo", 0.5, 1.0)
    return RowNoise(part * np.sqrt(rate * (1 - rate)), noise.gap, noise.family)


def cell_classes(rows: RowSet) -> list:
    """Return the true class whose people a row is about, None for all of them: for meo the class predicted."""
    column = np.where(rows.table["criterion"] == "meo", rows.table["outcome"], rows.table["given"])
    return list(column)


def _families(rows: RowSet, prior: np.ndarray) -> np.ndarray:
    """Return codes of rows, (K,), equal where the gap of one is a multiple of that of another, whatever the rule."""
    A, m = prior.shape
    probe = np.random.default_rng(0).standard_normal((A * m, m, N_PROBES))
    probe = (probe - probe.mean(1, keepdims=True)).reshape(-1, N_PROBES)  # what is the same for all outcomes is no gap
    values = rows.combination @ (rows.rate_matrix(prior) @ probe)
    ratios = np.divide(values[:, 1:], values[:, :1], out=np.zeros((len(rows), N_PROBES - 1)), where=values[:, :1] != 0)
    return np.asarray(np.unique(np.round(ratios, 8), axis=0, return_inverse=True)[1]).ravel()
