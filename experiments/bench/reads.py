"""Count how much of Z a solve reads; with `experiments.timings.internals` the only module that knows optfair.dual.

A *read* is as many numbers as Z has, however they are spread over passes: a pass over a sample counts by its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from optfair.dual.posterior import Posterior


@contextmanager
def counted_numbers() -> Iterator[list[int]]:
    """Fill a list with the numbers of Z in every block of rows that is read, or sampled, while the context lasts."""
    numbers: list[int] = []  # appended to by several threads, which a sum would not survive
    block, take = Posterior.block, Posterior.take

    def counted_block(self: Posterior, *args: Any, **options: Any) -> Any:
        result = block(self, *args, **options)
        numbers.append(result.Z.size)
        return result

    def counted_take(self: Posterior, chosen: Any) -> Any:
        result = take(self, chosen)
        if isinstance(chosen, np.ndarray):  # a slice is a view, and reads nothing
            numbers.append(result.Z.size)
        return result

    setattr(Posterior, "block", counted_block)  # noqa: B010 - mypy refuses the plain assignment
    setattr(Posterior, "take", counted_take)  # noqa: B010
    try:
        yield numbers
    finally:
        setattr(Posterior, "block", block)  # noqa: B010
        setattr(Posterior, "take", take)  # noqa: B010
