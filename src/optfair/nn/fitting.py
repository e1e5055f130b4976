"""Run one fit of a network: L-BFGS or epochs, with or without early stopping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from optfair.nn.batches import RowSource
from optfair.nn.early_stopping import EarlyStopping, validation_rows
from optfair.nn.full_batch import minimise
from optfair.nn.loss import weigh_targets
from optfair.nn.optimizers import OptimizerSettings
from optfair.nn.training import TrainingObjective, TrainingState, derive_seed

# (network, targets (n, m), positions of the rows to train on (N,)) -> what to minimise.
ObjectiveFactory: TypeAlias = Callable[[Module, Tensor, Tensor], TrainingObjective]


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """The targets table[cell_n] with the weights w_n.   cell: (n,)  table: (cells, m)  weight: (n,) or None"""

    cell: np.ndarray
    table: np.ndarray
    weight: np.ndarray | None

    @property
    def index(self) -> np.ndarray:
        """The positions of the rows of positive weight, (N,)."""
        return np.arange(len(self.cell)) if self.weight is None else np.flatnonzero(self.weight)

    def with_weight(self, weight: np.ndarray) -> SoftLabels:
        """Return the same targets with other weights."""
        return SoftLabels(self.cell, self.table, weight)

    def tensor(self, like: Tensor) -> Tensor:
        """Return T (n, m), see `weigh_targets`, of the type and on the device of ``like``."""
        return torch.from_numpy(weigh_targets(self.cell, self.table, self.weight)).to(like.device).to(like.dtype)

    def index_tensor(self, like: Tensor) -> Tensor:
        """Return ``index`` on the device of ``like``."""
        return torch.from_numpy(self.index).to(like.device)


def fit_full_batch(
    training: TrainingState, rows: RowSource, labels: SoftLabels, settings: OptimizerSettings, n_epochs: int
) -> tuple[int, bool]:
    """Minimise the plain loss over all rows by L-BFGS, and return (iterations, whether it has converged)."""
    index = None if len(labels.index) == len(rows) else labels.index_tensor(training.theta)
    targets = labels.tensor(training.theta)
    return minimise(training, rows, index, targets, settings.weight_decay, n_epochs)


def fit_epochs(
    training: TrainingState,
    rows: RowSource,
    labels: SoftLabels,
    settings: OptimizerSettings,
    n_epochs: int,
    make_objective: ObjectiveFactory | None = None,
) -> int:
    """Run ``n_epochs`` epochs of plain training, or of the objective of ``make_objective``; return their number."""
    return training.run_epochs(rows, _objective(training, labels, make_objective), settings, n_epochs)


def fit_early_stopping(
    training: TrainingState,
    rows: RowSource,
    labels: SoftLabels,
    settings: OptimizerSettings,
    n_epochs: int,
    fraction: float,
    patience: int,
    make_objective: ObjectiveFactory | None = None,
) -> tuple[int, list[float]]:
    """Run up to ``n_epochs`` epochs, restore the best parameters, and return (epochs, validation losses)."""
    weight = np.ones(len(rows)) if labels.weight is None else labels.weight
    seed = derive_seed(training.seed, 0, 1)
    held_out = labels.index[validation_rows(labels.cell[labels.index], fraction, seed)]
    is_held_out = np.isin(np.arange(len(rows)), held_out)
    validation = labels.with_weight(weight * is_held_out)
    index = torch.from_numpy(held_out).to(training.theta.device)
    stop = EarlyStopping(training.net, rows, index, validation.tensor(training.theta), patience)
    objective = _objective(training, labels.with_weight(np.where(is_held_out, 0.0, weight)), make_objective)
    if type(objective) is not TrainingObjective:
        raise ValueError(
            "early_stopping=True: keeps the parameters of the least plain loss, which is not what is minimised here; "
            "set it to False."
        )
    n_iter = training.run_epochs(rows, objective, settings, n_epochs, stop)
    stop.restore_best()
    return n_iter, stop.losses


def _objective(
    training: TrainingState, labels: SoftLabels, make_objective: ObjectiveFactory | None
) -> TrainingObjective:
    targets, index = labels.tensor(training.theta), labels.index_tensor(training.theta)
    if make_objective is None:
        return TrainingObjective(targets, index)
    return make_objective(training.net, targets, index)
