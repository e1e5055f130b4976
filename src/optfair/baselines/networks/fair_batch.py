"""FairBatch (Roh, Lee, Whang, Suh 2021): plain training, on batches in which groups are drawn by their loss.

A batch of B rows has S_y = B n_y/n of the label y, of which the share λ_{y,a} is of the group a; Σ_a λ_{y,a} = 1, and
at first λ_{y,a} = n_{y,a}/n_y. After each epoch, by the model as it is then (whole training set, no dropout),

    eop, eo   L(y,a)   = Σ_{cell (y,a)} −log p_y(x) / n_{y,a}       Δ_y    = max_a L(y,a)   − min_a L(y,a)
    dp        Q_c(y,a) = Σ_{cell (y,a)} −log p_c(x) / n_a           Δ_{c,y} = max_a Q_c(y,a) − min_a Q_c(y,a)

and where Δ is largest, s = min(α, what is left) of λ_y moves between the two groups: to the one with the larger loss if
c = y (more of its rows lower it), away from it if c ≠ y (fewer rows that speak against c lower it, too).

With two classes and two groups this is the authors' method; dp compares for c the second class. Beyond that it is our
reading: their appendix on more classes was not seen, but they have said in public to compare the groups of one label in
turn, which is ``pairs="adjacent"``; to take the extremes is our own design. So is dp for more classes: c and the groups
are those whose totals Σ_y Q_c(y,a), which the criterion is about, differ most, and the share moves in the label y that
adds most to it. (The largest difference of a single Q_c(y,a) follows how often a group has the label y, which no share
can change: on five classes of Adult it takes whole cells out of training, and beyond small α the violation rises again.
With totals this is rarer, not gone.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from optfair.baselines.networks.network import LabelTensors, NetworkBaseline
from optfair.errors import brief_names, brief_repr
from optfair.inputs.training_data import TrainingData
from optfair.nn.batches import RowSource, rows_per_block, split_in_blocks
from optfair.nn.training import TrainingObjective
from optfair.utils.checks import check_choice, check_number

PAIRS = ("extreme", "adjacent")


class Move(NamedTuple):
    """Between which groups a share of a label moves. gap : Δ, the difference of losses that it is to lower."""

    gap: float
    label: int
    giver: int
    taker: int


def draw_counts(expected: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw n times whole numbers of the given expectation, each rounded up or down; whole sums are kept.

    expected : (cells,)  ->  (n, cells). Systematic sampling: the cells lie end to end, and a comb of teeth one apart is
    put down at random. So a cell of 0.1 rows per batch is in one batch of ten.
    """
    ends = np.r_[0.0, np.cumsum(expected)]
    ends[-1] = np.rint(ends[-1]) if np.isclose(ends[-1], np.rint(ends[-1])) else ends[-1]
    counts = np.diff(np.floor(ends + rng.random((n, 1))), axis=1)
    # An empty cell has no length, but its two ends may differ by rounding.
    return np.where(expected > 0, counts, 0).astype(np.int64)


def best_move(losses: np.ndarray, present: np.ndarray, compared: Iterable[tuple[int, int]], pairs: str) -> Move | None:
    """Return the move of the largest Δ over single cells; None if there is no pair of groups.

    losses : (m, m, A), Q_c(y,a), or L(y,a) where c = y. present : (m, A), cells that have rows. compared : the (c, y).
    """
    moves = [
        _move(float(losses[c, y, high] - losses[c, y, low]), c, y, low, high)
        for c, y in compared
        for low, high in ordered_pairs(losses[c, y], present[y], pairs)
    ]
    return max(moves, key=lambda move: move.gap, default=None)


def best_parity_move(losses: np.ndarray, present: np.ndarray, classes: Iterable[int], pairs: str) -> Move | None:
    """Return the move of the largest Δ of totals, for dp with more than two classes.

    losses, present : as in `best_move`. classes : the c.
    """
    moves: list[Move] = []
    for c in classes:
        total = losses[c].sum(axis=0)
        for low, high in ordered_pairs(total, np.asarray(present.any(axis=0)), pairs):
            labels = np.flatnonzero(present[:, low] & present[:, high])
            if len(labels):
                y = int(labels[np.argmax(losses[c, labels, high] - losses[c, labels, low])])
                moves.append(_move(float(total[high] - total[low]), c, y, low, high))
    return max(moves, key=lambda move: move.gap, default=None)


def _move(gap: float, c: int, y: int, low: int, high: int) -> Move:
    """Return the move that lowers the loss of class c in the group ``high`` by a share of the label y."""
    return Move(gap, y, low, high) if c == y else Move(gap, y, high, low)


def ordered_pairs(loss: np.ndarray, present: np.ndarray, pairs: str) -> list[tuple[int, int]]:
    """Return (group of the smaller loss, group of the larger) of each pair that is compared.   loss, present: (A,)"""
    groups = np.flatnonzero(present)
    if pairs == "extreme" and len(groups) > 1:
        groups = np.array([groups[loss[groups].argmin()], groups[loss[groups].argmax()]])
    return [(a, b) if loss[a] <= loss[b] else (b, a) for a, b in pairwise(groups.tolist())]


class FairBatchObjective(TrainingObjective):
    """Plain training on batches drawn by shares.

    share : λ (m, A). shares, moves : of each epoch, the λ it was trained with, and the move after it with its size.
    """

    def __init__(
        self,
        targets: Tensor,
        index: Tensor,
        labels: LabelTensors,
        criterion: str,
        *,
        alpha: float,
        pairs: str,
        compared: Iterable[int],
        stop_below: float | None,
    ) -> None:
        m, A = labels.m, labels.A
        self.alpha, self.pairs, self.stop_below = alpha, pairs, stop_below
        self.by_group = criterion == "dp"
        self.classes = list(compared)
        self.compared = [(c, y) for c in self.classes for y in range(m) if self.by_group or c == y]
        self.cell = labels.y * A + labels.a  # label first, unlike those of `TrainingData`
        self.weight = targets.sum(1).double()
        code, weight = self.cell[index].cpu().numpy(), self.weight[index].cpu().numpy()
        self.members = [index.cpu().numpy()[code == k] for k in range(m * A)]
        self.mass = np.bincount(code, weight, m * A).reshape(m, A)
        self.present = self.mass > 0
        self.share = self.mass / np.where(self.mass.sum(1) > 0, self.mass.sum(1), 1.0)[:, None]
        # Rows are drawn equally often within a cell; their weights there are one on average.
        mean = self.mass.ravel() / np.maximum(np.bincount(code, minlength=m * A), 1)
        super().__init__(targets / torch.from_numpy(np.where(mean > 0, mean, 1.0)).to(targets)[self.cell, None], index)
        self.shares: list[np.ndarray] = []
        self.moves: list[tuple[float, int, int, int, float]] = []

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """Return ⌊n/B⌋ batches of B, cell by cell; each cell is shuffled and read in turns."""
        n = len(self.index)
        B = n if size is None else min(size, n)
        rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
        expected = B * self.share * (self.mass.sum(1, keepdims=True) / self.mass.sum())
        counts = draw_counts(expected.ravel(), n // B, rng)
        rows = [
            np.resize(rng.permutation(members), total)
            for members, total in zip(self.members, counts.sum(0), strict=True)
        ]
        batch = np.concatenate([np.repeat(np.arange(n // B), count) for count in counts.T])
        order = torch.from_numpy(np.concatenate(rows)[np.argsort(batch, kind="stable")]).to(self.index)
        self.shares.append(self.share.copy())
        return list(order.split(rows_per_block(shape)) if size is None else order.split(counts.sum(1).tolist()))

    def end_epoch(self, net: nn.Module, rows: RowSource) -> None:
        """Move a share between two groups, by the losses of the network as it is now."""
        losses = self.cell_losses(net, rows)
        if self.by_group and len(losses) > 2:
            move = best_parity_move(losses, self.present, self.classes, self.pairs)
        else:
            move = best_move(losses, self.present, self.compared, self.pairs)
        if move is None:  # one group: nothing to compare
            return
        small = self.stop_below is not None and move.gap < self.stop_below
        step = 0.0 if small else min(self.alpha, float(self.share[move.label, move.giver]))
        self.share[move.label, move.giver] -= step
        self.share[move.label, move.taker] += step
        self.moves.append((*move, step))

    @torch.no_grad()
    def cell_losses(self, net: nn.Module, rows: RowSource) -> np.ndarray:
        """Return Q_c(y,a) for dp, else L(y,a) wherever c = y, (m, m, A)."""
        m, A = self.mass.shape
        sums = torch.zeros(m * A, m, dtype=torch.float64, device=self.cell.device)
        blocks = split_in_blocks(len(rows) if len(rows) == len(self.index) else self.index, rows.shape)
        for x, block in zip(rows.batches(blocks), blocks, strict=True):
            sums.index_add_(0, self.cell[block], -torch.log_softmax(net(x).double(), 1) * self.weight[block, None])
        by_class = sums.cpu().numpy().reshape(m, A, m).transpose(2, 0, 1)
        size = self.mass.sum(0) if self.by_group else self.mass
        return by_class / np.where(size > 0, size, 1.0)


class FairBatch(NetworkBaseline):
    """Train a network on batches whose groups are drawn by their loss (equations in the module).

    It has no bound and no weight of fairness; how far the shares get, α at a time, decides what remains. The losses of
    the true class say nothing of which mistakes are made: "eo" is the rule of "eop", and rates of mistakes (more than
    two classes) are not controlled. Where a linear model cannot tell the groups apart, drawing more of one of them may
    change little. Batch normalisation, if the network has any, keeps the statistics of the rows drawn.

    Parameters
    ----------
    estimator : TorchClassifier or Pipeline, default None
        An `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None is a linear one behind standardised
        features. Its ``batch_size`` is B.
    sensitive_features : str, int, list or callable, default None
        Columns of X that are left out of the features; None where groups are passed to `fit`.
    criterion : str, default "demographic_parity"
        The criterion: "demographic_parity", "equal_opportunity" or "equalized_odds" (dp, eop, eo).
    alpha : float, default 0.01
        Share α that moves after an epoch. The authors' is 0.005, for hundreds of epochs.
    pairs : {"extreme", "adjacent"}, default "extreme"
        The groups that are compared: those of the extreme losses, or adjacent ones, in order.
    targets : iterable of labels, default None
        The classes c that are compared, for dp their rates, else their true rates; None is all (with two classes and
        dp, the second).
    stop_below : float, default None
        No share moves while the largest Δ is below this (our own addition); None moves always.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    random_state : int, numpy generator or None, default None
        Seed of the network, the batches and the dropout.

    Attributes
    ----------
    transformer_ : Pipeline or None
        The fitted transformers, if any.
    network_ : TorchClassifier
        The fitted network.
    history_ : DataFrame
        One line per epoch: the largest Δ after it, and what moved then (codes of the label and the groups).
    shares_ : ndarray of shape (epochs, n_classes, n_groups)
        The λ each epoch was trained with; a zero is a cell that was not drawn at all.
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import FairBatch
    >>> from optfair.datasets import make_fair_classification
    >>> from optfair.nn import TorchClassifier
    >>> data = make_fair_classification(300, 4, random_state=0)
    >>> model = FairBatch(TorchClassifier(epochs=3), criterion="eop", random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.shares_.shape
    (3, 3, 2)
    """

    refusal = "no shares are known that would serve it"

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: Any = "demographic_parity",
        alpha: float = 0.01,
        pairs: str = "extreme",
        targets: Any = None,
        stop_below: float | None = None,
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.alpha = alpha
        self.pairs = pairs
        self.targets = targets
        self.stop_below = stop_below
        self.missing = missing
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_number("alpha", self.alpha, "[0, 1]")
        check_choice("pairs", self.pairs, PAIRS)
        if self.stop_below is not None:
            check_number("stop_below", self.stop_below, "[0, inf)")
        if self.targets is not None and (isinstance(self.targets, str) or not np.iterable(self.targets)):
            raise ValueError(f"targets={brief_repr(self.targets)}: must be a list of classes, or None for all.")

    def _compared_classes(self, data: TrainingData) -> list[int]:
        """Return the codes of the classes c."""
        names = data.classes.tolist()
        if self.targets is None:
            return [1] if len(names) == 2 and self._criterion_name() == "dp" else [*range(len(names))]
        targets = list(self.targets)
        unknown = [name for name in targets if name not in names]
        if unknown or not targets:
            raise ValueError(
                f"targets={brief_repr(self.targets)}: must be some of the classes [{brief_names(names)}], or None for "
                "all."
            )
        return sorted({names.index(name) for name in targets})

    def _objective(
        self, data: TrainingData, net: nn.Module, targets: Tensor, index: Tensor, seed: int
    ) -> TrainingObjective:
        return FairBatchObjective(
            targets,
            index,
            LabelTensors.of(data, targets),
            self._criterion_name(),
            alpha=float(self.alpha),
            pairs=self.pairs,
            compared=self._compared_classes(data),
            stop_below=self.stop_below,
        )

    def _set_results(self, objective: TrainingObjective) -> None:
        assert isinstance(objective, FairBatchObjective)
        self.shares_ = np.array(objective.shares)
        self.history_ = pd.DataFrame(objective.moves, columns=["gap", "label", "from", "to", "moved"])
