"""How good a frontier is, as one number: the mean accuracy over all violations that can be told from none.

    f = the least concave, nowhere falling function above (0, accuracy of the best constant) and all (v_k, accuracy_k)
    area = mean of f over [v_min, v_max]

The points are a method's rules along its knob and the rule that it starts from, without constraints. All of f can be
had: answering by one rule or another at random has the mean of their accuracies, and no more than the mean of their
violations. v_min is the noise floor: below it nobody can be told to be fairer than another, so nothing is gained or
lost there. v_max is the violation of a rule without constraints, the same for all methods that are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

LEVEL = 0.90
Point = tuple[float, float]  # (violation, accuracy)


def envelope(points: Iterable[Point]) -> tuple[np.ndarray, np.ndarray]:
    """(v, f) of the corners of the least concave function that nowhere falls and lies below no point."""
    best: dict[float, float] = {}
    for v, f in points:
        best[float(v)] = max(float(f), best.get(float(v), -np.inf))
    corners: list[Point] = []
    for v in sorted(best):
        f = best[v]
        if corners and f <= corners[-1][1]:
            continue  # more violation for nothing
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) <= _slope(corners[-1], (v, f)):
            corners.pop()
        corners.append((v, f))
    found = np.array(corners)
    return found[:, 0], found[:, 1]


def _slope(left: Point, right: Point) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def area(points: Sequence[Point], v_max: float, constant: float, floor: float = 0.0) -> float:
    """Mean of f over [floor, v_max], or f(v_max) where that is empty.

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
        """The interval for seeds that split the same people: variance (1/n + judged/learned) s² instead of s²/n.

        ratio : judged on / learned from. See Nadeau and Bengio, "Inference for the generalization error", 2003.
        """
        return replace(self, half=self.half * float(np.sqrt(1 + self.n * ratio)))

    @property
    def verdict(self) -> str:
        """Of a paired difference: won, lost, or within noise."""
        if not self.n > 1 or abs(self.value) <= self.half:
            return "within noise"
        return "won" if self.value > 0 else "lost"


def mean(values: Sequence[float]) -> Mean:
    n = len(values)
    spread = float(np.std(values, ddof=1)) / np.sqrt(n) if n > 1 else np.nan
    return Mean(float(np.mean(values)), float(student.ppf(0.5 + LEVEL / 2, n - 1)) * spread if n > 1 else np.nan, n)
