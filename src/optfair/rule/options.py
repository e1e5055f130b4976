"""Check how to solve."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optfair.errors import brief_repr
from optfair.utils.checks import as_numbers, check_choice, check_integer, check_number


@dataclass(frozen=True)
class Options:
    """How to solve; see `optfair.solve`. seed : of samples, 0 unless one was given. automatic : τ follows the gap."""

    temperature: Any = "auto"
    gap: float = 1e-4
    max_multiplier: float | None = None
    method: str = "dual"
    max_passes: int = 60
    random_state: int | None = None
    seed: int = field(init=False)
    automatic: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "automatic", isinstance(self.temperature, str))
        if not self.automatic or self.temperature != "auto":
            tau = as_numbers(self.temperature)
            if tau is None or not (np.isfinite(tau).all() and (tau > 0).all()):
                raise ValueError(f"temperature={brief_repr(self.temperature)}: must be 'auto' or positive numbers.")
        check_number("gap", self.gap, "(0, inf)")
        if self.max_multiplier is not None:
            check_number("max_multiplier", self.max_multiplier, "(0, inf)")
        check_choice("method", self.method, ("dual", "lp"))
        if self.method == "lp" and self.max_multiplier is not None:
            raise ValueError("max_multiplier: the exact program has no bound on its multipliers; use method='dual'.")
        check_integer("max_passes", self.max_passes, 1)
        seed = 0 if self.random_state is None else check_integer("random_state", self.random_state, 0)
        object.__setattr__(self, "seed", seed)
