"""Sample rows with unequal probabilities."""

from __future__ import annotations

import numpy as np


def systematic_draw(mass: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``size`` rows ∝ mass at equal distances, or all with any mass if there are no more.

    Return the rows, and the inverse of how often each was expected.
    """
    positive = np.flatnonzero(mass)
    if len(positive) <= size:
        return positive, np.ones(len(positive))
    cumulative = np.cumsum(mass, dtype=np.float64)
    step = cumulative[-1] / size
    index = np.searchsorted(cumulative, (np.arange(size) + rng.random()) * step, side="right")
    index = np.minimum(index, len(mass) - 1)
    index = index[mass[index] > 0]
    return index, step / mass[index].astype(np.float64)
