"""Play the game whose equilibrium is the fairest model at the least cost (Algorithm 1 of the paper).

    L(h, λ) = <U, J(h)> − λ·D(h) + σ(λ),      J(h) = confusion with labels,   D(h) = D vec J(h)

The learner maximises L over h, the other side minimises it over ‖λ‖₁ ≤ B. A round: the learner responds to λ by fitting
soft targets made from W(λ) = U − Dᵀλ, its predictions on the training rows give J and D(h), and

    λ ← argmin_λ σ(λ) − λ·D(h) + ‖λ − λ_old‖² / (2η)   subject to ‖λ‖₁ ≤ B       (`Box.prox`).

Shapes: c = A·m cells (group, true class), K rows; U, W, J (c, m), D (K, c·m), λ (K,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from optfair.constraints import RowSet
from optfair.constraints.rows import accuracy
from optfair.dual.penalty import Box
from optfair.dual.problem import cell_weights


class Learner(Protocol):
    """Whatever can fit soft targets: row n is to be predicted in the proportions ``targets[cell[n]]``."""

    def best_response(self, targets: np.ndarray, round_index: int) -> Any:
        """Fit the targets; return the model."""

    def peek(self, targets: np.ndarray, round_index: int) -> Any:
        """Return what `best_response` would, and go on as if it had not been called."""

    def predict_codes(self, model: Any) -> np.ndarray:
        """Return the classes that a model predicts for the rows it is measured on, (n,)."""


@dataclass(frozen=True, eq=False)
class Game:
    """rows, matrix : D for the labels' own prior. utility : U. cap : B. cell, weight : (n,), weights sum to 1.

    scale : what a unit of U, and so of λ, is worth in the user's costs.
    duplicate_row_ids : (n,) number of the distinct row of X that each row is, None where (nearly) all rows differ.
    """

    rows: RowSet
    matrix: sparse.csr_array
    utility: np.ndarray
    cap: float
    cell: np.ndarray
    weight: np.ndarray
    duplicate_row_ids: np.ndarray | None = None
    scale: float = 1.0

    @property
    def box(self) -> Box:
        """The bounds, with ‖λ‖₁ ≤ B."""
        return Box(self.rows.lower, self.rows.upper, self.cap)

    @property
    def share(self) -> np.ndarray:
        """The mass of each cell, (c,)."""
        return np.bincount(self.cell, self.weight, len(self.utility))

    def weights(self, lam: np.ndarray) -> np.ndarray:
        """Return W(λ), (c, m)."""
        return cell_weights(self.utility, self.matrix, lam)

    def confusion(self, codes: np.ndarray) -> np.ndarray:
        """Return J, (c, m), of one predicted class per row."""
        c, m = self.utility.shape
        return np.bincount(self.cell * m + codes, self.weight, c * m).reshape(c, m)

    def values(self, J: np.ndarray) -> np.ndarray:
        """Return D(h), (K,)."""
        return np.asarray(self.matrix @ J.ravel())

    def accuracy(self, J: np.ndarray) -> float:
        """Return P(Ŷ=Y)."""
        m = J.shape[1]
        return accuracy(J.reshape(-1, m, m))

    def violation(self, J: np.ndarray) -> float:
        """Return the largest gap; the largest excess where no gap is asked for."""
        values = self.values(J)
        return float(self.rows.violation(values) if self.rows.is_gap.any() else self.rows.excess(values))

    def lagrangian(self, J: np.ndarray, lam: np.ndarray) -> float:
        """Return L(h, λ)."""
        return float((self.utility * J).sum() - lam @ self.values(J)) + self.box.value(lam)

    def gap(self, J: np.ndarray, lam: np.ndarray) -> float:
        """Return how far (h, λ) is from an equilibrium: max_h' L(h', λ) − min_λ' L(h, λ').

        No function of x can do better than the best class of each distinct row; where rows hardly repeat that says
        nothing, and the gap is unknown (NaN).
        """
        if self.duplicate_row_ids is None:
            return np.nan
        W = self.weights(lam)[self.cell] * self.weight[:, None]
        pooled = np.stack([np.bincount(self.duplicate_row_ids, column) for column in W.T])
        best_response = float(pooled.max(axis=0).sum()) + self.box.value(lam)
        worst_multipliers = float((self.utility * J).sum()) - self.cap * float(self.rows.excess(self.values(J)))
        return best_response - worst_multipliers


@dataclass(frozen=True, eq=False)
class Trace:
    """What was played. multipliers : (T, K) those the learner responded to. confusions : (T, c, m) of its models.

    steps : (T,) η of the step after each round. next : (K,) the multipliers of the round to come.
    """

    multipliers: np.ndarray
    confusions: np.ndarray
    steps: np.ndarray
    next: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def empty(cls, game: Game, start: np.ndarray) -> Trace:
        """Return the trace before the first round."""
        return cls(np.empty((0, len(start))), np.empty((0, *game.utility.shape)), np.empty(0), start)

    def grown(self, J: np.ndarray, step: float, after: np.ndarray) -> Trace:
        """Return the trace with one more round."""
        return Trace(
            np.concatenate([self.multipliers, self.next[None]]),
            np.concatenate([self.confusions, J[None]]),
            np.append(self.steps, step),
            after,
        )

    def regret(self, game: Game) -> float:
        """Return max_λ Σ_t [λ·D_t − σ(λ)] − Σ_t [λ_t·D_t − σ(λ_t)]: what fixed multipliers would have gained."""
        values = np.array([game.values(J) for J in self.confusions])
        best = game.cap * len(self) * float(game.rows.excess(values.mean(axis=0)))
        return best - sum(float(lam @ D) - game.box.value(lam) for lam, D in zip(self.multipliers, values, strict=True))

    def regret_bound(self, game: Game) -> float:
        """Return (B + ‖λ_0‖)² / 2η + ½ Σ η ‖D_t‖² + σ(λ_0) − σ(λ_T): composite mirror descent with a constant step.

        With steps that shrink the first term is (2B)² / 2η_T. From λ_0 = 0 it is the bound behind Theorem 5.2.
        """
        norms = np.array([float(game.values(J) @ game.values(J)) for J in self.confusions])
        constant = bool((self.steps == self.steps[0]).all())
        reach = game.cap + float(np.linalg.norm(self.multipliers[0])) if constant else 2 * game.cap
        ends = game.box.value(self.multipliers[0]) - game.box.value(self.next)
        return reach**2 / (2 * float(self.steps[-1])) + 0.5 * float(self.steps @ norms) + ends


def step_size(step: str | float, game: Game, rounds: int) -> Callable[[np.ndarray], float]:
    """Return the function that gives η of a round in units of U, from the D(h) seen so far, (t, K).

    "theorem" : B / (u √(K T)), u = 1 + the largest bound (Theorem 5.2). "adaptive" : B / √(2 Σ ‖D_t‖²), no larger than
    at the first round of the theorem with K = 1. A number : itself.
    """
    if not isinstance(step, str):
        return lambda values: float(step) / game.scale
    bounds = np.abs(np.concatenate([game.rows.lower, game.rows.upper]))
    # Rates and their differences are at most one; rows of the user may be larger.
    largest = abs(game.rows.user_rows).max(axis=1).toarray().max(initial=0.0)
    u = max(1.0, float(largest)) + float(bounds[np.isfinite(bounds)].max(initial=0.0))
    if step == "theorem":
        constant = game.cap / (u * np.sqrt(game.matrix.shape[0] * rounds))
        return lambda values: float(constant)
    return lambda values: float(game.cap / np.sqrt(max(2 * (values**2).sum(), u * u * rounds)))


def soft_targets(W: np.ndarray, share: np.ndarray, shift: str) -> np.ndarray:
    """Return T ≥ 0 with the argmax of W in every mixture of cells, (c, m), scaled to Σ_c share_c Σ_j T_cj = 1.

    "cell"   : T = W − min_j W of each cell.
    "global" : T = W + κ, one κ = −min W + 1e-5 if anything is negative (the paper's); the rarest cell sets it for all.

    The identity stays as it is, so that λ = 0 is plain training.
    """
    if shift == "cell":
        T = W - W.min(axis=1, keepdims=True)
    else:
        least = float(W[share > 0].min())
        T = np.maximum(W - least + 1e-5, 0.0) if least < 0 else W
    if is_plain(T):
        return T
    total = float(share @ T.sum(axis=1))
    return T / total if total > 0 else np.full_like(T, 1.0 / T.shape[1])


def is_plain(T: np.ndarray) -> bool:
    """Tell whether the targets are the labels themselves."""
    m = T.shape[1]
    return np.array_equal(T, np.tile(np.eye(m), (len(T) // m, 1)))


def play(
    game: Game,
    learner: Learner,
    trace: Trace,
    rounds: int,
    step: str | float,
    shift: str = "cell",
) -> Iterator[tuple[Any, Trace]]:
    """Play the rounds from ``trace`` on; yield (the learner's model, the trace with it) of each."""
    size = step_size(step, game, rounds)
    share, values = game.share, [game.values(J) for J in trace.confusions]
    for round_index in range(len(trace), rounds):
        targets = soft_targets(game.weights(trace.next), share, shift)
        model = learner.best_response(targets, round_index)
        J = game.confusion(learner.predict_codes(model))
        values.append(game.values(J))
        eta = size(np.array(values))
        after = game.box.prox(trace.next + eta * values[-1], np.full(game.matrix.shape[0], eta))
        trace = trace.grown(J, eta, after)
        yield model, trace
