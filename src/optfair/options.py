"""How to solve, and what to maximise: checked once."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Options:
    """How to solve; checked here."""

    temperature: Any = "auto"
    gap: float = 1e-3
    max_multiplier: float | None = None
    method: str = "dual"
    max_passes: int = 60
    random_state: int | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, str) and self.temperature == "auto"):
            tau = as_numbers(self.temperature)
            if tau is None or not (np.isfinite(tau).all() and (tau > 0).all()):
                raise ValueError(f"temperature={self.temperature!r}: must be 'auto' or positive numbers.")
        _check_positive("gap", self.gap)
        if self.max_multiplier is not None:
            _check_positive("max_multiplier", self.max_multiplier)
        if self.method not in ("dual", "lp"):
            raise ValueError(f"method={self.method!r}: must be 'dual' or 'lp'.")
        if self.method == "lp" and self.max_multiplier is not None:
            raise ValueError("max_multiplier: the exact program has no bound on its multipliers; use method='dual'.")
        for name, least in (("max_passes", 1), ("random_state", 0)):
            value = getattr(self, name)
            if name == "random_state" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name}={value!r}: must be an integer >= {least}.")

    @property
    def seed(self) -> int:
        return 0 if self.random_state is None else int(self.random_state)


def as_numbers(values: Any) -> np.ndarray | None:
    """The values as float64, None if they are not numbers (or ragged)."""
    try:
        array = np.asarray(values)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except ValueError:
        return None


def _check_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (Real, np.number)) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name}={value!r}: must be a positive number.")


def check_costs(costs: Any, A: int, m: int) -> tuple[np.ndarray, float, float]:
    """(utility (A·m, m) in [0, 1], scale, top): expected cost = top − scale · expected utility."""
    if costs is None:
        return np.tile(np.eye(m), (A, 1)), 1.0, 1.0
    R = as_numbers(costs)
    if R is None:
        raise ValueError("costs: must be numbers, true class by predicted.")
    if R.shape not in ((m, m), (A, m, m)):
        raise ValueError(
            f"costs: has shape {R.shape}; expected ({m}, {m}) or ({A}, {m}, {m}), true class by predicted."
        )
    if not np.isfinite(R).all():
        raise ValueError("costs: holds NaN or infinite values.")
    R = np.broadcast_to(R, (A, m, m)).reshape(A * m, m)
    scale = float(R.max() - R.min()) or 1.0
    return (R.max() - R) / scale, scale, float(R.max())
