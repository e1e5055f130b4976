"""Check arguments, and derive independent random streams from one seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.utils.checks import as_numbers
from optfair.utils.seeds import as_generator

# Three independent streams of one seed: parameters of the world, samples of it, and the population for evaluations.
WORLD_STREAM, SAMPLE_STREAM, POPULATION_STREAM = range(3)


def stream(random_state: Any, purpose: int) -> np.random.Generator:
    """Return the generator of one of the three streams of a seed."""
    return as_generator(random_state).spawn(3)[purpose]


def check_sizes(name: str, sizes: Any, k: int) -> np.ndarray:
    """Return (k,) shares that sum to 1; None stands for equal shares."""
    if sizes is None:
        return np.full(k, 1.0 / k)
    shares = as_numbers(sizes)
    if shares is None or shares.shape != (k,) or not (shares > 0).all() or not abs(shares.sum() - 1) <= 1e-6:
        raise ValueError(f"{name}={sizes!r}: must be {k} positive numbers that sum to 1.")
    return shares / shares.sum()
