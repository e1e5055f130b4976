"""FRAPPÉ: a fitted model, and a correction of its logits that matches the groups' outputs (Țifrea et al. 2024).

    p_fair(x) = softmax(log p(x) + T(x)) ∝ p(x) · exp T(x)
    min_T  E KL(p ‖ p_fair) + λ · mean over terms of MMD²(P, Q),    k(u, v) = mean over ℓ of exp(−‖u − v‖² / ℓ²)

p is the base model, which is never trained here; T is a small network of x alone, which starts at zero. A term compares
the outputs p_fair of one group (P) with those of the other groups (Q): among all rows for dp, among those of one label
for eo, and there by the probability of that label alone for eop. With two groups both directions are the same term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from optfair.baselines.base import fit_plain
from optfair.baselines.networks.network import NetworkModel, check_table, default_network, network_learner
from optfair.inputs.training_data import TrainingData
from optfair.nn.training import TrainingObjective
from optfair.posteriors.models import ClassModel
from optfair.posteriors.out_of_fold import explain_missing_column, is_fitted_model
from optfair.utils.checks import check_integer, check_number

MIN_BANDWIDTH = 1e-3  # between probabilities
MIN_PROBABILITY = 1e-6  # so that log p is finite
MIN_EXPONENT = -80.0  # numbers below exp of it are denormal, and slow
ADJUSTMENT_SETTINGS = {"module": "mlp", "hidden": (64,), "dropout": 0.0, "batch_size": 512, "lr": 0.01}


class MeanKernel(torch.autograd.Function):
    """mean k(u, v) over all pairs, of each term; its gradient in closed form takes about half the time of autograd's.

    ∂/∂u = −2 / (number of pairs) · Σ_v w(u, v) (u − v),   w = mean over ℓ of k_ℓ(u, v) / ℓ²   U, V : (terms, draws, k)
    """

    @staticmethod
    def forward(ctx: Any, U: Tensor, V: Tensor, bandwidths: Sequence[float]) -> Tensor:
        """Return the mean of the kernel over all pairs, (terms,)."""
        squares = U.square().sum(2)[:, :, None] + V.square().sum(2)[:, None]
        distance = torch.baddbmm(squares, U, V.mT, alpha=-2).clamp_min_(0)
        value, w = U.new_zeros(len(U)), torch.zeros_like(distance)
        for width in bandwidths:
            kernel = (distance * (-1 / width**2)).clamp_min_(MIN_EXPONENT).exp_()
            value += kernel.mean((1, 2)) / len(bandwidths)
            w.add_(kernel, alpha=1 / (width**2 * len(bandwidths)))
        ctx.save_for_backward(U, V, w)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of U and V."""
        U, V, w = ctx.saved_tensors
        scale = (gradients[0] * (2 / w[0].numel()))[:, None, None]
        gradient_U = torch.baddbmm(w.sum(2)[:, :, None] * U, w, V, beta=-1)
        gradient_V = torch.baddbmm(w.sum(1)[:, :, None] * V, w.mT, U, beta=-1)
        return scale * gradient_U, scale * gradient_V, None


def mmd2(U: Tensor, V: Tensor, bandwidths: Sequence[float]) -> Tensor:
    """Return mean k(U, U) + mean k(V, V) − 2 mean k(U, V), of each term.   U, V : (terms, draws, k) -> (terms,)"""
    UU, VV, UV = (MeanKernel.apply(*pair, bandwidths) for pair in ((U, U), (V, V), (U, V)))
    return UU + VV - 2 * UV


class Term(NamedTuple):
    """The positions of the rows that one term compares, and their label (0 for dp)."""

    group: np.ndarray
    others: np.ndarray
    label: int


def comparison_terms(data: TrainingData, criterion: str) -> list[Term]:
    """Return the terms of a criterion; those with an empty side are left out."""
    terms = []
    for label in [0] if criterion == "dp" else range(len(data.classes)):
        included = np.ones(len(data.y), dtype=bool) if criterion == "dp" else data.y == label
        groups = np.unique(data.a[included])
        for a in groups[:1] if len(groups) == 2 else groups:
            P, Q = (np.flatnonzero(included & mask) for mask in (data.a == a, data.a != a))
            if len(Q):
                terms.append(Term(P, Q, label))
    return terms


class GroupSampler:
    """Draw rows of one side of a term, with replacement, in proportion to their weights."""

    def __init__(self, index: Tensor, weight: Tensor) -> None:
        self.index, self.cumulated = index, weight[index].double().cumsum(0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Return (count,) positions."""
        u = torch.rand(count, generator=generator, dtype=torch.float64).to(self.cumulated) * self.cumulated[-1]
        place = torch.searchsorted(self.cumulated, u, right=True)
        return self.index[place.clamp_max(len(self.index) - 1)]


class MMDCorrection(TrainingObjective):
    """The objective of T: each batch is followed by the rows drawn for the terms, sampler by sampler.

    base : log p, (n, m). samplers : two for each term, one after the other. label : (terms,) the one class whose
    probability is compared, or None for all of them.
    """

    def __init__(
        self,
        base: Tensor,
        weight: Tensor,
        index: Tensor,
        samplers: Sequence[GroupSampler],
        label: Tensor | None,
        strength: float,
        bandwidths: Sequence[float],
        draws: int,
    ) -> None:
        # −Σ p log p_fair is the KL but for a constant.
        super().__init__(base.exp() * weight[:, None], index)
        self.base, self.samplers, self.label = base, samplers, label
        self.strength, self.bandwidths, self.draws = strength, bandwidths, draws

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """Return the positions of the rows of each step, those of the KL first."""
        batches = super().batches(size, shape, generator)
        draws = torch.stack(
            [sampler.draw(len(batches) * self.draws, generator).view(-1, self.draws) for sampler in self.samplers], 1
        )  # (batches, samplers, draws)
        return [torch.cat([batch, rows.reshape(-1)]) for batch, rows in zip(batches, draws, strict=True)]

    def batch_inputs(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the positions of the rows of each batch."""
        return batches

    @torch.enable_grad()
    def add_gradient(self, net: nn.Module, x: Tensor, batch_input: Tensor) -> None:
        """Add the gradient of the KL of the batch and the MMD² of the rows drawn after it."""
        n = len(batch_input) - len(self.samplers) * self.draws
        log_fair = torch.log_softmax(self.base[batch_input] + net(x), 1)
        KL = -(self.targets[batch_input[:n]] * log_fair[:n]).sum() / n
        p = log_fair[n:].exp().view(-1, 2, self.draws, log_fair.shape[1])
        if self.label is not None:
            p = p.gather(3, self.label.view(-1, 1, 1, 1).expand(-1, 2, self.draws, 1))
        gap = mmd2(p[:, 0], p[:, 1], self.bandwidths).mean()
        (len(batch_input) * (KL + self.strength * gap)).backward()  # a step divides by the number of its rows


class Frappe(NetworkModel):
    """Correct a model by a small network that is trained without labels where the criterion needs none.

    Parameters
    ----------
    estimator : classifier or callable, default None
        The base: any classifier with predict_proba (None: standardised multinomial logistic regression), cloned and
        fitted; or a fitted one as ``FrozenEstimator(model)``, or a function X -> probabilities: these are never fitted.
        A model that overfits its training rows (deep trees) should come fitted, on other rows.
    sensitive_features : str, int, list or callable, default None
        Columns of X (names, positions or a function of X), which are left out of the features; None where groups are
        passed to ``fit``.
    criterion : str, default "demographic_parity"
        The criterion: "dp", "eop" or "eo". The source has two classes and two groups, and compares within one label or
        both; dp, more classes, and a group against all others are our own design.
    fairness_weight : float, default 10.0
        Weight λ ≥ 0. At 0 the base predicts as it is. The authors' code has weight s = 1/λ on the KL instead.
    adjustment : TorchClassifier or Pipeline, default None
        T, an `optfair.nn.TorchClassifier`, alone or at the end of a Pipeline; None is one hidden layer of 64, behind
        the transformers of the base where that is a Pipeline. Its last layer starts at zero (our own design).
    bandwidths : sequence of float, default (0.1, 0.3, 1.0)
        Widths ℓ of the kernels. The source has 0.1 alone, whose gradient vanishes between outputs that are far apart;
        several, averaged, are our own design.
    group_batch : int, default 64
        Rows drawn from each side of a term, in each step.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.
    random_state : int, numpy generator or None, default None
        Seed of the base (where it has none), the network, the batches and the draws.

    Attributes
    ----------
    base_ : callable
        X -> p(x); ``base_.model`` is the model.
    transformer_ : Pipeline or None
        The fitted transformers of T, if any.
    network_ : TorchClassifier or None
        T; None where nothing is corrected (λ = 0, or one group).
    classes_ : ndarray of shape (n_classes,)
        Names of the classes.
    groups_ : Index
        Names of the groups.

    Examples
    --------
    >>> from optfair.baselines import Frappe
    >>> from optfair.datasets import make_fair_classification
    >>> from optfair.nn import TorchClassifier
    >>> data = make_fair_classification(300, 4, random_state=0)
    >>> model = Frappe(adjustment=TorchClassifier(epochs=3), random_state=0)
    >>> model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> model.predict(data.X).shape
    (300,)
    """

    refusal = "MMD compares how one group's outputs are distributed, and it is no such comparison"

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
        check_number("fairness_weight", self.fairness_weight, "[0, inf)")
        check_integer("group_batch", self.group_batch, 1)
        if np.ndim(self.bandwidths) != 1:
            raise ValueError(f"bandwidths={self.bandwidths!r}: must be a list of numbers.")
        if len(self.bandwidths) == 0:
            raise ValueError(f"bandwidths={self.bandwidths!r}: must have at least one number.")
        for width in self.bandwidths:
            check_number("bandwidths", width, f"[{MIN_BANDWIDTH}, inf)")

    def _prefit_classes(self) -> Any:
        return getattr(self.estimator, "classes_", None) if is_fitted_model(self.estimator, None) else None

    # -- fitting -------------------------------------------------------------------------------------------
    def _learn(self, data: TrainingData, seed: int) -> None:
        self._rows(data)  # names the cells that are empty
        self.base_ = self._fit_base(data, seed)
        self.transformer_ = self.network_ = None
        prefit = is_fitted_model(self.estimator, None)
        with explain_missing_column(self.sensitive_features if prefit else None):
            P = self.base_(data.X)
        learner = network_learner(self._adjustment(data), data, seed, "adjustment")
        n, m = P.shape
        terms = comparison_terms(data, self._criterion_name())
        if self.fairness_weight == 0 or not terms:
            return  # exactly: AdamW would make steps of the rounding of a gradient that is zero
        if n < m:
            raise ValueError(f"X: has {n} rows, but the fitted model has {m} classes; give at least {m} rows.")

        def make_objective(net: nn.Module, targets: Tensor, index: Tensor) -> TrainingObjective:
            start_at_zero(net)
            weight = targets.sum(1)
            samplers = [
                GroupSampler(torch.from_numpy(rows).to(index), weight)
                for term in terms
                for rows in (term.group, term.others)
            ]
            label = None
            if self._criterion_name() == "eop":
                label = torch.tensor([term.label for term in terms]).to(index)
            return MMDCorrection(
                torch.from_numpy(log_base(P)).to(targets),
                weight,
                index,
                samplers,
                label,
                float(self.fairness_weight),
                tuple(map(float, self.bandwidths)),
                int(self.group_batch),
            )

        # T has an output per class, and no labels: these only number the outputs.
        self._fit_network(learner, np.arange(n) % m, make_objective, data.weight)

    def _fit_base(self, data: TrainingData, seed: int) -> ClassModel:
        m = len(data.classes)
        if is_fitted_model(self.estimator, None):
            return ClassModel(self.estimator, np.arange(m), m)
        model = fit_plain(self.estimator, data, seed)
        return ClassModel(model, np.asarray(getattr(model, "classes_", np.arange(m)), dtype=int), m)

    def _adjustment(self, data: TrainingData) -> Any:
        """Return T; the default is behind the transformers of the base where that is a Pipeline."""
        if self.adjustment is not None:
            return self.adjustment
        model = self.base_.model
        model = model.estimator if isinstance(model, FrozenEstimator) else model
        network = default_network(len(data.y), **ADJUSTMENT_SETTINGS)
        if not isinstance(model, Pipeline) or len(model) < 2:
            check_table(data.X, "adjustment")
            return network
        return make_pipeline(FrozenEstimator(model[:-1]), FunctionTransformer(to_dense, accept_sparse=True), *network)

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return softmax(log p(x) + T(x)), the corrected probabilities.

        Parameters
        ----------
        X : array-like, DataFrame, or torch Dataset
            The n rows.
        sensitive_features : None, default None
            Must be None: the method is blind.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of ``classes_``.

        Examples
        --------
        >>> from optfair.baselines import Frappe
        >>> from optfair.datasets import make_fair_classification
        >>> from optfair.nn import TorchClassifier
        >>> data = make_fair_classification(300, 4, random_state=0)
        >>> model = Frappe(adjustment=TorchClassifier(epochs=2), random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X).shape
        (300, 3)
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        P = self.base_(X)
        if self.network_ is None:
            return P
        fair = np.exp(log_base(P)) * self._network_probabilities(X)  # softmax(T) ∝ exp T
        return np.asarray(fair / fair.sum(axis=1, keepdims=True))


def log_base(P: np.ndarray) -> np.ndarray:
    """Return log p, (n, m), of probabilities that are not quite zero."""
    P = np.maximum(P, MIN_PROBABILITY)
    return np.asarray(np.log(P / P.sum(axis=1, keepdims=True)))


@torch.no_grad()
def start_at_zero(net: nn.Module) -> None:
    """Set T ≡ 0: the last layer, weights and bias."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise ValueError("adjustment: its module has no torch.nn.Linear; the last one is set to zero at the start.")
    for parameter in layers[-1].parameters():
        parameter.zero_()


def to_dense(X: Any) -> Any:
    """Return a sparse matrix as an array, other rows as they are."""
    return X.toarray() if sparse.issparse(X) else X
