"""Measure how good a frontier is by one number: the mean accuracy over all violations above the noise floor.

    f = the least concave, nowhere falling function above (0, accuracy of the best constant) and all (v_k, accuracy_k)
    area = mean of f over [v_min, v_max]

The points are a method's rules along its knob and the rule that it starts from, without constraints. Every value of f
is attainable: a random choice between two rules has the mean of their accuracies, and at most the mean of their
violations. v_min is the noise floor: differences below it are chance. v_max is the violation of a rule without
constraints, the same for all methods that are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.stats import t as student

LEVEL = 0.90  # of the intervals
Point = tuple[float, float]  # (violation, accuracy)


def envelope(points: Iterable[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Return (v, f) of the corners of the least concave function that nowhere falls and lies below no point."""
    best: dict[float, float] = {}
    for v, f in points:
        best[float(v)] = max(float(f), best.get(float(v), -np.inf))
    corners: list[Point] = []
    for v in sorted(best):
        f = best[v]
        if corners and f <= corners[-1][1]:
            continue  # more violation, no more accuracy
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], (v, f)):
            corners.pop()
        corners.append((v, f))
    table = np.array(corners)
    return table[:, 0], table[:, 1]


def _slope(left: Point, right: Point) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def area(points: Sequence[Point], v_max: float, constant: float, floor: float = 0.0) -> float:
    """Return the mean of f over [floor, v_max], or f(v_max) where that interval is empty.

    points : (violation, accuracy), with the rule that the method starts from. constant : accuracy at no violation.
    """
    v, f = envelope([(0.0, constant), *points])
    if v_max <= floor:
        return float(np.interp(v_max, v, f))
    grid = np.concatenate([[floor], v[(v > floor) & (v < v_max)], [v_max]])
    return float(np.trapezoid(np.interp(grid, v, f), grid) / (v_max - floor))  # linear between corners: exact


@dataclass(frozen=True)
class Mean:
    """A mean over n seeds and half the width of its 90 % interval (Student's t; NaN for one seed)."""

    value: float
    half: float
    n: int

    def widened(self, ratio: float) -> Mean:
        """Return the interval for seeds that split the same rows: variance (1/n + test/train) s² instead of s²/n.

        ratio : test rows / training rows. See Nadeau and Bengio, "Inference for the generalization error", 2003.
        """
        return replace(self, half=self.half * float(np.sqrt(1 + self.n * ratio)))

    @property
    def verdict(self) -> str:
        """Return "won", "lost" or "within noise", of a paired difference."""
        if not self.n > 1 or abs(self.value) <= self.half:
            return "within noise"
        return "won" if self.value > 0 else "lost"


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of one value per seed, with its interval."""
    n = len(values)
    spread = float(np.std(values, ddof=1)) / np.sqrt(n) if n > 1 else np.nan
    return Mean(float(np.mean(values)), _quantile(n) * spread if n > 1 else np.nan, n)


@lru_cache
def _quantile(n: int) -> float:
    """Return Student's quantile for n seeds; a page asks for it thousands of times (0.6 of 3.5 s)."""
    return float(student.ppf(0.5 + LEVEL / 2, n - 1))
