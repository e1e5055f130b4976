"""See the bounds ``lower ≤ D(h) ≤ upper`` as their multipliers λ (K,) do.

    σ(λ) = Σ_k (upper_k λ_k⁺ − lower_k λ_k⁻),   λ⁺ = max(λ, 0),  λ⁻ = max(−λ, 0)

With ±ξ it is ξ‖λ‖₁. An infinite bound fixes the sign of its multiplier. ``cap`` adds ‖λ‖₁ ≤ cap, whose own
multiplier ν is a uniform loosening: the capped problem is the one with bounds [lower − ν, upper + ν].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of K rows, (K,) each, and a cap on ‖λ‖₁."""

    lower: np.ndarray
    upper: np.ndarray
    cap: float = np.inf

    def part(self, rows: np.ndarray) -> Box:
        """Return the bounds of some rows, with the same cap."""
        return Box(self.lower[rows], self.upper[rows], self.cap)

    def value(self, lam: np.ndarray) -> float:
        """Return σ(λ), whatever the cap; +inf where an infinite bound forbids the sign."""
        up, down = np.maximum(lam, 0), np.maximum(-lam, 0)
        terms = np.where(up > 0, self.upper, 0) * up - np.where(down > 0, self.lower, 0) * down
        return float(terms.sum())

    def prox(self, v: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Return argmin_λ σ(λ) + Σ (λ − v)²/(2 step) subject to ‖λ‖₁ ≤ cap.   v, step: (K,)"""
        lam = _threshold(v, step, self.lower, self.upper)
        if np.abs(lam).sum() <= self.cap:
            return lam
        # ‖λ(ν)‖₁ is convex, decreasing and piecewise linear in ν: Newton from the left meets the cap exactly.
        nu = 0.0
        for _ in range(len(v) + 1):
            over = float(np.abs(lam).sum()) - self.cap
            if over <= 1e-12 * self.cap:
                break
            nu += over / float(step[lam != 0].sum())
            lam = _threshold(v, step, self.lower - nu, self.upper + nu)
        return lam

    def loosening(self, lam: np.ndarray, values: np.ndarray) -> float:
        """Return ν at λ: how far beyond its bounds D(h) may be because the cap is active, 0 when it is not."""
        if np.abs(lam).sum() < self.cap * (1 - 1e-9):
            return 0.0
        beyond = np.where(lam > 0, values - self.upper, self.lower - values)[lam != 0]
        weight = np.abs(lam[lam != 0])
        return max(float(weight @ beyond / weight.sum()), 0.0) if len(beyond) else 0.0

    def residual(self, lam: np.ndarray, values: np.ndarray) -> float:
        """Return the largest distance of D_k(h) from where λ_k allows it to be, in units of rates."""
        nu = self.loosening(lam, values) if np.isfinite(self.cap) else 0.0
        lower, upper = self.lower - nu, self.upper + nu
        outside = np.maximum(np.maximum(values - upper, lower - values), 0.0)
        distance = np.where(lam > 0, np.abs(values - upper), np.where(lam < 0, np.abs(values - lower), outside))
        return float(distance.max(initial=0.0))


def _threshold(v: np.ndarray, step: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return v − step·upper above, v − step·lower below, 0 between."""
    return np.maximum(v - step * upper, 0.0) + np.minimum(v - step * lower, 0.0)
