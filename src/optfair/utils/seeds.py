"""Turn a ``random_state`` argument into an integer seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from optfair.errors import brief_repr

DRAWN_SEEDS = 2**31 - 1  # seeds drawn from a generator fit into 31 bits, which every library accepts


def as_seed(random_state: Any) -> int | None:
    """Return the seed that ``random_state`` stands for: itself, or a number drawn from a generator; None for None."""
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(DRAWN_SEEDS))
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:  # scikit-learn takes both
        return int(random_state.randint(DRAWN_SEEDS))
    raise _seed_error(random_state)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return NumPy's generator of a seed; a generator is returned as it is."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise _seed_error(random_state) from None


def _seed_error(random_state: Any) -> ValueError:
    return ValueError(f"random_state={brief_repr(random_state)}: must be None, an integer >= 0, or a NumPy generator.")


def fresh_seed() -> int:
    """Return a 32-bit seed from the system's randomness."""
    return int(np.random.SeedSequence().generate_state(1)[0])


def short_seed(seed: int) -> int:
    """Return a seed of 32 bits, which is what scikit-learn takes, made from a longer one."""
    return int(np.random.SeedSequence(seed).generate_state(1)[0])
