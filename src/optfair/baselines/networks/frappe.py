"""FRAPPÉ: a fitted model, and a correction of its logits that matches the groups' outputs (Țifrea et al. 2024).

    p_fair(x) = softmax(log p(x) + T(x)) ∝ p(x) · exp T(x)
    min_T  E KL(p ‖ p_fair) + λ · mean over terms of MMD²(P, Q),    k(u, v) = mean over ℓ of exp(−‖u − v‖² / ℓ²)

p is the base model, which is only asked; T is a small network of x alone, which starts at zero. A term compares the
outputs p_fair of one group (P) with those of the other groups (Q): among all for dp, among those of one label for eo,
and there by the probability of that label alone for eop. With two groups both ways round are the same term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import Tags
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from optfair.base import People
from optfair.baselines.base import Baseline, check_number, check_whole, fit_plain
from optfair.baselines.networks.network import check_table, default_network, network_learner
from optfair.estimation.models import ClassModel
from optfair.estimation.recipe import is_fitted_model, naming_columns
from optfair.nn.training import Lesson

LEAST_WIDTH = 1e-3  # between probabilities
LEAST_PROBABILITY = 1e-6  # log p is a number
LEAST_EXPONENT = -80.0  # numbers below exp of it are denormal, and slow
ADJUSTMENT = {"module": "mlp", "hidden": (64,), "dropout": 0.0, "batch_size": 512, "lr": 0.01}


class MeanKernel(torch.autograd.Function):
    """mean k(u, v) over all pairs, of each term; its gradient in closed form takes about half the time of autograd's.

    ∂/∂u = −2 / (number of pairs) · Σ_v w(u, v) (u − v),   w = mean over ℓ of k_ℓ(u, v) / ℓ²   U, V : (terms, draws, k)
    """

    @staticmethod
    def forward(ctx: Any, U: Tensor, V: Tensor, bandwidths: Sequence[float]) -> Tensor:
        squares = U.square().sum(2)[:, :, None] + V.square().sum(2)[:, None]
        distance = torch.baddbmm(squares, U, V.mT, alpha=-2).clamp_min_(0)
        value, w = U.new_zeros(len(U)), torch.zeros_like(distance)
        for width in bandwidths:
            kernel = (distance * (-1 / width**2)).clamp_min_(LEAST_EXPONENT).exp_()
            value += kernel.mean((1, 2)) / len(bandwidths)
            w.add_(kernel, alpha=1 / (width**2 * len(bandwidths)))
        ctx.save_for_backward(U, V, w)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        U, V, w = ctx.saved_tensors
        scale = (gradients[0] * (2 / w[0].numel()))[:, None, None]
        of_U = torch.baddbmm(w.sum(2)[:, :, None] * U, w, V, beta=-1)
        of_V = torch.baddbmm(w.sum(1)[:, :, None] * V, w.mT, U, beta=-1)
        return scale * of_U, scale * of_V, None


def mmd2(U: Tensor, V: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """mean k(U, U) + mean k(V, V) − 2 mean k(U, V), of each term.   U, V : (terms, draws, k) -> (terms,)"""
    UU, VV, UV = (MeanKernel.apply(*pair, bandwidths) for pair in ((U, U), (V, V), (U, V)))
    return UU + VV - 2 * UV


class Side:
    """People of one side of a term, drawn with replacement, in proportion to their weights."""

    def __init__(self, index: Tensor, weight: Tensor) -> None:
        self.index, self.cumulated = index, weight[index].double().cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count,) positions."""
        u = torch.rand(count, generator=generator, dtype=torch.float64).to(self.cumulated) * self.cumulated[-1]
        place = torch.searchsorted(self.cumulated, u, right=True)
        return self.index[place.clamp_max(len(self.index) - 1)]


class Correction(Lesson):
    """The lesson of T: each batch is followed by the people drawn for the terms, side by side.

    base : log p, (n, m). sides : two for each term, one after the other. own : (terms,) the one class whose probability
    is compared, or None for all of them.
    """

    def __init__(
        self,
        base: Tensor,
        weight: Tensor,
        kept: Tensor,
        sides: Sequence[Side],
        own: Tensor | None,
        strength: float,
        bandwidths: Sequence[float],
        draws: int,
    ) -> None:
        # −Σ p log p_fair is the KL but for a constant.
        super().__init__(base.exp() * weight[:, None], kept)
        self.base, self.sides, self.own = base, sides, own
        self.strength, self.bandwidths, self.draws = strength, bandwidths, draws

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        ordinary = super().batches(size, shape, generator)
        drawn = torch.stack(
            [side.draw(len(ordinary) * self.draws, generator).view(len(ordinary), self.draws) for side in self.sides], 1
        )  # (batches, sides, draws)
        return [torch.cat([batch, more.reshape(-1)]) for batch, more in zip(ordinary, drawn, strict=True)]

    def parts(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        return batches

    @torch.enable_grad()
    def add_gradient(self, net: nn.Module, x: Tensor, part: Tensor) -> None:
        n = len(part) - len(self.sides) * self.draws
        log_fair = torch.log_softmax(self.base[part] + net(x), 1)
        KL = -(self.targets[part[:n]] * log_fair[:n]).sum() / n
        p = log_fair[n:].exp().view(-1, 2, self.draws, log_fair.shape[1])
        if self.own is not None:
            p = p.gather(3, self.own.view(-1, 1, 1, 1).expand(-1, 2, self.draws, 1))
        gap = mmd2(p[:, 0], p[:, 1], self.bandwidths).mean()
        (len(part) * (KL + self.strength * gap)).backward()  # a step divides by the rows that it was given


class Frappe(Baseline):
    """A model corrected by a small network that learns without labels where the criterion needs none.

    Parameters
    ----------
    estimator : the base: any classifier with predict_proba (None: standardised multinomial logistic regression),
        cloned and fitted; or a fitted one as ``FrozenEstimator(model)``, or a function X -> probabilities: these are
        only ever asked. A model that remembers the people it was fitted on (deep trees) should come fitted, on others.
    sensitive_features : None (give groups to ``fit``); or columns of X (names, positions or a function of X), which are
        left out of the features.
    criterion : "dp", "eop" or "eo". The source has two classes and two groups, and compares within one label or both;
        dp, more classes, and a group against all others are our own design.
    fairness_weight : λ ≥ 0. At 0 the base answers as it is. The authors' code has weight s = 1/λ on the KL instead.
    adjustment : T, an `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None: one hidden layer of 64,
        behind the transformers of the base where that is a Pipeline. Its last layer starts at zero (our own design).
    bandwidths : ℓ of the kernels. The source has 0.1 alone, whose gradient vanishes between outputs that are far
        apart; several, averaged, are our own design.
    group_batch : people drawn from each side of a term, in each step.
    missing : a missing group is an "error", or a "group" of its own. random_state : seed of the base (where it has
        none), the network, the batches and the draws.

    Attributes
    ----------
    base_ : X -> p(x); ``base_.model`` is the model. front_ : transformers of T, fitted, or None.
    network_ : T, a TorchClassifier; None where nothing is corrected (λ = 0, or one group). classes_, groups_ : names.
    """

    why_not_others = "MMD compares how one group's outputs are distributed, and it is no such comparison"

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive_features: Any = None,
        criterion: str = "demographic_parity",
        fairness_weight: float = 10.0,
        adjustment: Any = None,
        bandwidths: Sequence[float] = (0.1, 0.3, 1.0),
        group_batch: int = 64,
        missing: str = "error",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_features = sensitive_features
        self.criterion = criterion
        self.fairness_weight = fairness_weight
        self.adjustment = adjustment
        self.bandwidths = bandwidths
        self.group_batch = group_batch
        self.missing = missing
        self.random_state = random_state

    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_number("fairness_weight", self.fairness_weight)
        check_whole("group_batch", self.group_batch)
        if np.ndim(self.bandwidths) != 1:
            raise ValueError(f"bandwidths={self.bandwidths!r}: must be a list of numbers.")
        if len(self.bandwidths) == 0:
            raise ValueError(f"bandwidths={self.bandwidths!r}: must have at least one number.")
        for width in self.bandwidths:
            check_number("bandwidths", width, LEAST_WIDTH)

    def _known_classes(self) -> Any:
        return getattr(self.estimator, "classes_", None) if is_fitted_model(self.estimator, None) else None

    # -- fitting -------------------------------------------------------------------------------------------
    def _learn(self, people: People, seed: int) -> None:
        self._rows(people)  # says which cells are empty
        self.base_ = self._base(people, seed)
        self.front_ = self.network_ = None
        fitted = is_fitted_model(self.estimator, None)
        with naming_columns(self.sensitive_features if fitted else None):
            P = self.base_(people.X)
        learner = network_learner(self._adjustment(people), people, seed, "adjustment")
        n, m = P.shape
        terms = _terms(people, self._criterion())
        if self.fairness_weight == 0 or not terms:
            return  # exactly: AdamW would make steps of the rounding of a gradient that is zero
        if n < m:
            raise ValueError(f"X: has {n} rows and the fitted model {m} classes; give at least as many rows.")

        def lesson(net: nn.Module, targets: Tensor, kept: Tensor) -> Lesson:
            start_at_zero(net)
            weight = targets.sum(1)
            sides = [Side(torch.from_numpy(side).to(kept), weight) for P, Q, _ in terms for side in (P, Q)]
            own = torch.tensor([label for *_, label in terms]).to(kept) if self._criterion() == "eop" else None
            base = torch.from_numpy(log_base(P)).to(targets)
            how = float(self.fairness_weight), tuple(map(float, self.bandwidths)), int(self.group_batch)
            return Correction(base, weight, kept, sides, own, *how)

        # T has an output per class, and no labels: these only number the outputs.
        self.network_ = learner.live.fit_lesson(learner.X, np.arange(n) % m, lesson, people.weight)
        self.front_ = learner.front

    def _base(self, people: People, seed: int) -> ClassModel:
        m = len(people.classes)
        if is_fitted_model(self.estimator, None):
            return ClassModel(self.estimator, np.arange(m), m)
        model = fit_plain(self.estimator, people, seed)
        return ClassModel(model, np.asarray(getattr(model, "classes_", np.arange(m)), dtype=int), m)

    def _adjustment(self, people: People) -> Any:
        """T, with the transformers of the base in front where nothing else was asked for."""
        if self.adjustment is not None:
            return self.adjustment
        model = self.base_.model
        model = model.estimator if isinstance(model, FrozenEstimator) else model
        network = default_network(len(people.y), **ADJUSTMENT)
        if not isinstance(model, Pipeline) or len(model) < 2:
            check_table(people.X, "adjustment")
            return network
        return make_pipeline(FrozenEstimator(model[:-1]), FunctionTransformer(dense, accept_sparse=True), *network)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """softmax(log p(x) + T(x)), (n, n_classes) in the order of ``classes_``."""
        X, _ = self._new_people(X, sensitive_features)
        P = self.base_(X)
        if self.network_ is None:
            return P
        T = self.network_.predict_proba(X if self.front_ is None else self.front_.transform(X))  # softmax(T) ∝ exp T
        fair = np.exp(log_base(P)) * T
        return np.asarray(fair / fair.sum(axis=1, keepdims=True))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


def _terms(people: People, criterion: str) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """(people of a group, people of the others, their label) of each term; those with an empty side are left out."""
    found = []
    for label in [0] if criterion == "dp" else range(len(people.classes)):
        there = np.ones(len(people.y), dtype=bool) if criterion == "dp" else people.y == label
        groups = np.unique(people.a[there])
        for a in groups[:1] if len(groups) == 2 else groups:
            P, Q = (np.flatnonzero(there & side) for side in (people.a == a, people.a != a))
            if len(Q):
                found.append((P, Q, label))
    return found


def log_base(P: np.ndarray) -> np.ndarray:
    """log p, (n, m), of probabilities that are not quite zero."""
    P = np.maximum(P, LEAST_PROBABILITY)
    return np.asarray(np.log(P / P.sum(axis=1, keepdims=True)))


@torch.no_grad()
def start_at_zero(net: nn.Module) -> None:
    """T ≡ 0: the last layer, weights and bias."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError("adjustment: its module has no torch.nn.Linear; the last one is set to zero at the start.")
    for parameter in layers[-1].parameters():
        parameter.zero_()


def dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X
