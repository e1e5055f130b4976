"""Stop early: hold validation rows out, and restore the parameters that were best for them."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor, nn

from optfair.nn.batches import RowSource
from optfair.nn.loss import mean_loss


def validation_rows(codes: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Return ⌊fraction · n⌋ positions, drawn at random, of each class its share up to one row.   codes: (n,)"""
    n = len(codes)
    if not 1 <= math.floor(fraction * n) < n:
        raise ValueError(
            f"validation_fraction={fraction!r}: keeps {math.floor(fraction * n)} of {n} rows apart; must leave at "
            "least one row on either side."
        )
    # Classes one after the other, each shuffled: then every (1/fraction)-th row.
    order = np.lexsort((np.random.default_rng(seed).random(n), codes))
    counts = np.floor(fraction * np.arange(n + 1))
    return np.sort(order[np.diff(counts) > 0])


class EarlyStopping:
    """Stop after ``patience`` epochs without a smaller loss on the rows ``index``.   targets: (n, m)"""

    def __init__(self, net: nn.Module, rows: RowSource, index: Tensor, targets: Tensor, patience: int) -> None:
        self._net, self._rows, self._index, self._targets, self._patience = net, rows, index, targets, patience
        self._best: dict[str, Tensor] = {}
        self.losses: list[float] = []

    def __call__(self) -> bool:
        """Return whether to stop after the epoch that has just ended."""
        self.losses.append(mean_loss(self._net, self._rows, self._targets, self._index))
        best = int(np.argmin(self.losses))
        if best == len(self.losses) - 1:
            self._best = {name: tensor.clone() for name, tensor in self._net.state_dict().items()}
        return len(self.losses) - 1 - best >= self._patience

    def restore_best(self) -> None:
        """Copy the best parameters back into the network."""
        # In place: the parameters are views of the vector that the optimizer moves.
        for name, tensor in self._net.state_dict().items():
            tensor.copy_(self._best[name])
