"""FairBatch (Roh, Lee, Whang, Suh 2021): plain training, on batches in which groups are drawn by how badly they fare.

A batch of B people has S_y = B n_y/n of the label y, of whom the share λ_{y,a} is of the group a; Σ_a λ_{y,a} = 1, and
at first λ_{y,a} = n_{y,a}/n_y. After each epoch, by the model as it is then (whole training set, no dropout),

    eop, eo   L(y,a)   = Σ_{cell (y,a)} −log p_y(x) / n_{y,a}       Δ_y    = max_a L(y,a)   − min_a L(y,a)
    dp        Q_c(y,a) = Σ_{cell (y,a)} −log p_c(x) / n_a           Δ_{c,y} = max_a Q_c(y,a) − min_a Q_c(y,a)

and where Δ is largest, s = min(α, what is left) of λ_y moves between the two groups: to the one with the larger loss if
c = y (more of its people lower it), away from it if c ≠ y (fewer people who speak against c lower it, too).

With two classes and two groups this is the authors' method; dp compares for c the second class. Beyond that it is our
reading: their appendix on more classes was not seen, but they have said in public to compare the groups of one label in
turn, which is ``pairs="adjacent"``; to take the extremes is our own design. So is dp for more classes: c and the groups
are those whose totals Σ_y Q_c(y,a), what the criterion is about, differ most, and the share moves in the label y that
adds most to it. (The largest difference of a single Q_c(y,a) follows how often a group has the label y, which no share
can change: on five classes of Adult it takes whole cells out of training, and beyond small α the violation rises again.
With totals this is rarer, not gone.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from optfair.base import People
from optfair.baselines.base import check_choice, check_number
from optfair.baselines.networks.network import NetworkBaseline, Tensors
from optfair.nn.batches import Rows, block_rows, in_blocks
from optfair.nn.training import Lesson

PAIRS = ("extreme", "adjacent")


def spread(expected: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n times whole numbers of the given expectation, each rounded up or down; sums are kept if they are whole.

    expected : (cells,)  ->  (n, cells). Systematic sampling: the cells lie end to end, and a comb of teeth one apart is
    put down at random. So a cell of 0.1 people per batch is in one batch of ten.
    """
    ends = np.r_[0.0, np.cumsum(expected)]
    ends[-1] = np.rint(ends[-1]) if np.isclose(ends[-1], np.rint(ends[-1])) else ends[-1]
    counts = np.diff(np.floor(ends + rng.random((n, 1))), axis=1)
    # An empty cell has no length, but its two ends may differ by rounding.
    return np.where(expected > 0, counts, 0).astype(np.int64)


def best_move(
    losses: np.ndarray, there: np.ndarray, compared: Iterable[tuple[int, int]], pairs: str
) -> tuple[float, int, int, int] | None:
    """(Δ, y, from, to): of which label a share moves, from which group to which; None if there is no pair.

    losses : (m, m, A), Q_c(y,a), or L(y,a) where c = y. there : (m, A), cells with people. compared : the
    (c, y).
    """
    found: list[tuple[float, int, int, int]] = []
    for c, y in compared:
        for low, high in ordered(losses[c, y], there[y], pairs):
            found.append((float(losses[c, y, high] - losses[c, y, low]), y, *((low, high) if c == y else (high, low))))
    return max(found, key=lambda move: move[0], default=None)


def best_parity_move(
    losses: np.ndarray, there: np.ndarray, classes: Iterable[int], pairs: str
) -> tuple[float, int, int, int] | None:
    """(Δ, y, from, to) for dp with more than two classes; arguments as above, ``classes`` : the c."""
    found: list[tuple[float, int, int, int]] = []
    for c in classes:
        total = losses[c].sum(axis=0)
        for low, high in ordered(total, np.asarray(there.any(axis=0)), pairs):
            both = np.flatnonzero(there[:, low] & there[:, high])
            if len(both):
                y = int(both[np.argmax(losses[c, both, high] - losses[c, both, low])])
                found.append((float(total[high] - total[low]), y, *((low, high) if c == y else (high, low))))
    return max(found, key=lambda move: move[0], default=None)


def ordered(loss: np.ndarray, there: np.ndarray, pairs: str) -> list[tuple[int, int]]:
    """(Group with the smaller loss, group with the larger) of each pair that is compared.   loss, there: (A,)"""
    groups = np.flatnonzero(there)
    if pairs == "extreme" and len(groups) > 1:
        groups = np.array([groups[loss[groups].argmin()], groups[loss[groups].argmax()]])
    return [(a, b) if loss[a] <= loss[b] else (b, a) for a, b in pairwise(groups.tolist())]


class FairBatchLesson(Lesson):
    """share : λ (m, A). shares, moves : of each epoch, the λ it was trained with, and what moved after it."""

    def __init__(
        self,
        targets: Tensor,
        kept: Tensor,
        people: Tensors,
        criterion: str,
        *,
        alpha: float,
        pairs: str,
        compared: Iterable[int],
        stop_below: float | None,
    ) -> None:
        m, A = people.m, people.A
        self.alpha, self.pairs, self.stop_below = alpha, pairs, stop_below
        self.by_group = criterion == "dp"
        self.classes = list(compared)
        self.compared = [(c, y) for c in self.classes for y in range(m) if self.by_group or c == y]
        self.cell = people.y * A + people.a  # label first, unlike those of `People`
        self.weight = targets.sum(1).double()
        code, weight = self.cell[kept].cpu().numpy(), self.weight[kept].cpu().numpy()
        self.members = [kept.cpu().numpy()[code == k] for k in range(m * A)]
        self.mass = np.bincount(code, weight, m * A).reshape(m, A)
        self.there = self.mass > 0
        self.share = self.mass / np.where(self.mass.sum(1) > 0, self.mass.sum(1), 1.0)[:, None]
        # Rows are drawn equally often within a cell; their weights there are one on average.
        mean = self.mass.ravel() / np.maximum(np.bincount(code, minlength=m * A), 1)
        super().__init__(targets / torch.from_numpy(np.where(mean > 0, mean, 1.0)).to(targets)[self.cell, None], kept)
        self.shares: list[np.ndarray] = []
        self.moves: list[tuple[float, int, int, int, float]] = []

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """⌊n/B⌋ batches of B, cell by cell; each cell is shuffled and read in turns."""
        n = len(self.kept)
        B = n if size is None else min(size, n)
        rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
        expected = B * self.share * (self.mass.sum(1, keepdims=True) / self.mass.sum())
        counts = spread(expected.ravel(), n // B, rng)
        rows = [
            np.resize(rng.permutation(members), total)
            for members, total in zip(self.members, counts.sum(0), strict=True)
        ]
        batch = np.concatenate([np.repeat(np.arange(n // B), count) for count in counts.T])
        drawn = torch.from_numpy(np.concatenate(rows)[np.argsort(batch, kind="stable")]).to(self.kept)
        self.shares.append(self.share.copy())
        return list(drawn.split(block_rows(shape)) if size is None else drawn.split(counts.sum(1).tolist()))

    def end_epoch(self, net: nn.Module, rows: Rows) -> None:
        losses = self._losses(net, rows)
        if self.by_group and len(losses) > 2:
            move = best_parity_move(losses, self.there, self.classes, self.pairs)
        else:
            move = best_move(losses, self.there, self.compared, self.pairs)
        if move is None:  # one group: nothing to compare
            return
        gap, y, giver, taker = move
        still = self.stop_below is not None and gap < self.stop_below
        step = 0.0 if still else min(self.alpha, float(self.share[y, giver]))
        self.share[y, giver] -= step
        self.share[y, taker] += step
        self.moves.append((gap, y, giver, taker, step))

    @torch.no_grad()
    def _losses(self, net: nn.Module, rows: Rows) -> np.ndarray:
        """Q_c(y,a) for dp, else L(y,a) wherever c = y, (m, m, A)."""
        m, A = self.mass.shape
        sums = torch.zeros(m * A, m, dtype=torch.float64, device=self.cell.device)
        blocks = in_blocks(len(rows) if len(rows) == len(self.kept) else self.kept, rows.shape)
        for x, block in zip(rows.batches(blocks), blocks, strict=True):
            sums.index_add_(0, self.cell[block], -torch.log_softmax(net(x).double(), 1) * self.weight[block, None])
        by_class = sums.cpu().numpy().reshape(m, A, m).transpose(2, 0, 1)
        size = self.mass.sum(0) if self.by_group else self.mass
        return by_class / np.where(size > 0, size, 1.0)


class FairBatch(NetworkBaseline):
    """A network trained on batches whose groups are drawn by their loss (see the module for the equations).

    It has no bound and no weight of fairness; what remains is decided by how far the shares get, α at a time. The
    losses of the true class say nothing of which mistakes are made: "eo" is the rule of "eop", and rates of
    mistakes (more than two classes) are not controlled. Where a linear model cannot tell the groups apart, drawing
    more of one of them may change little. Batch normalisation, if the network has any, keeps the statistics of the
    people drawn.

    Parameters
    ----------
    estimator : `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None: a linear one behind standardised
        features. Its ``batch_size`` is B.
    sensitive_features : None (then given to `fit`), or columns of X that are left out of the features.
    criterion : "demographic_parity", "equal_opportunity" or "equalized_odds" (dp, eop, eo).
    alpha : α, the share that moves after an epoch. The authors' is 0.005, for hundreds of epochs.
    pairs : the groups that are compared: those of the "extreme" losses, or "adjacent" ones, in order.
    targets : the classes c that are compared, for dp their rates, else their true rates; None: all (with two classes
        and dp, the second).
    stop_below : no share moves while the largest Δ is below this (our own addition); None: it always does.
    missing : a missing group is an "error", or a "group" of its own. random_state : seed of everything.

    Attributes
    ----------
    front_ : transformers, fitted, or None. network_ : TorchClassifier, fitted. classes_, groups_ : names.
    history_ : one line per epoch: the largest Δ after it, and what moved then (codes of the label and the groups).
    shares_ : (epochs, m, A), the λ each epoch was trained with; a zero is a cell that was not drawn at all.
    """

    why_not_others = "no shares are known that would serve it"

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
        check_number("alpha", self.alpha, most=1.0)
        check_choice("pairs", self.pairs, PAIRS)
        if self.stop_below is not None:
            check_number("stop_below", self.stop_below)
        if self.targets is not None and (isinstance(self.targets, str) or not np.iterable(self.targets)):
            raise ValueError(f"targets={self.targets!r}: must be a list of classes, or None for all.")

    def _compared(self, people: People) -> list[int]:
        """Codes of the classes c."""
        names = people.classes.tolist()
        if self.targets is None:
            return [1] if len(names) == 2 and self._criterion() == "dp" else [*range(len(names))]
        chosen = list(self.targets)
        strange = [name for name in chosen if name not in names]
        if strange or not chosen:
            raise ValueError(f"targets={self.targets!r}: must be some of the classes {names!r}, or None for all.")
        return sorted({names.index(name) for name in chosen})

    def _lesson(self, people: People, net: nn.Module, targets: Tensor, kept: Tensor, seed: int) -> Lesson:
        return FairBatchLesson(
            targets,
            kept,
            Tensors.of(people, targets),
            self._criterion(),
            alpha=float(self.alpha),
            pairs=self.pairs,
            compared=self._compared(people),
            stop_below=self.stop_below,
        )

    def _keep(self, lesson: Lesson) -> None:
        assert isinstance(lesson, FairBatchLesson)
        self.shares_ = np.array(lesson.shares)
        self.history_ = pd.DataFrame(lesson.moves, columns=["gap", "label", "from", "to", "moved"])
