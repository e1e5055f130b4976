"""Share among baselines that train a network: the estimator, its transformers, and an objective of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from torch import Tensor, nn

from optfair.baselines.base import Baseline
from optfair.errors import brief_repr
from optfair.inprocessing.learners import SoftTargets, make_learner, split_pipeline, trainable_clone
from optfair.inputs.containers import is_dataset
from optfair.inputs.features import check_numbers
from optfair.inputs.training_data import TrainingData
from optfair.nn.classifier import TorchClassifier
from optfair.nn.fitting import ObjectiveFactory
from optfair.nn.optimizers import Optimizer, flatten_parameters
from optfair.nn.training import TrainingObjective
from optfair.posteriors.models import refuse_text_columns

# A linear network needs about 2,000 steps to converge: fewer rows are passed more often, within these limits.
MIN_STEPS, MIN_EPOCHS, MAX_EPOCHS = 2_000, 20, 400


def default_network(n: int, **settings: Any) -> Any:
    """Return standardised features and a linear network, with more epochs where there are few rows.

    settings : of `TorchClassifier`, beyond those for n rows.
    """
    batch_size = int(settings.get("batch_size", 256))
    epochs = int(np.clip(MIN_STEPS * batch_size // n, MIN_EPOCHS, MAX_EPOCHS))
    schedule = {"lr": 0.01, "epochs": epochs, "decay": 0.95 ** (MIN_EPOCHS / epochs)}
    return make_pipeline(StandardScaler(), TorchClassifier(**schedule | settings))


def check_table(X: Any, argument: str) -> None:
    """Check that X is a table of numbers, which a default network can read."""
    if is_dataset(X) or getattr(X, "ndim", 2) > 2:
        raise ValueError(f"{argument}=None: the default network reads tables; use an optfair.nn.TorchClassifier.")
    refuse_text_columns(X, argument, "network")
    check_numbers(X, argument, "network")


def network_learner(estimator: Any, data: TrainingData, seed: int, argument: str = "estimator") -> SoftTargets:
    """Return a TorchClassifier, not yet trained, behind its fitted transformers, with its rows prepared."""
    if sparse.issparse(data.X):
        raise TypeError("X: is a sparse matrix; networks need dense rows: give X.toarray().")
    if not isinstance(split_pipeline(estimator)[1], TorchClassifier):
        raise ValueError(
            f"{argument}={brief_repr(estimator)}: must be an optfair.nn.TorchClassifier, alone or at the end of a "
            "Pipeline: its training is changed; it takes a module of your own as TorchClassifier(lambda shape, m: "
            "module)."
        )
    learner = make_learner(trainable_clone(estimator, seed, argument=argument), data, None, seed, 1, "error")
    assert isinstance(learner, SoftTargets)
    return learner


# -- objectives --------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class LabelTensors:
    """The codes a, y (n,) of groups and labels, and the numbers A, m of both. Weights are in the targets."""

    a: Tensor
    y: Tensor
    A: int
    m: int

    @classmethod
    def of(cls, data: TrainingData, like: Tensor) -> LabelTensors:
        """Return those of the training data, on the device of ``like``."""
        a, y = (torch.from_numpy(np.asarray(v, dtype=np.int64)).to(like.device) for v in (data.a, data.y))
        return cls(a, y, len(data.groups), len(data.classes))


class BatchObjective(TrainingObjective):
    """An objective whose gradient belongs to the batch as a whole, and is no sum over its rows.

    `add_gradient` takes the positions of the rows of the batch.
    """

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        """Return the positions of the rows of each step; without a size, all rows in one batch, not in blocks."""
        return [self.index] if size is None else super().batches(size, shape, generator)

    def batch_inputs(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the positions of the rows of each batch."""
        return batches


class AuxiliaryNetwork:
    """A small network that is trained beside the classifier, by AdamW without weight decay."""

    def __init__(self, net: nn.Module, lr: float) -> None:
        self.net, self.lr = net, lr
        self.theta, self.gradient = flatten_parameters(net)
        self.optimizer = Optimizer("adamw", self.theta)

    def descend(self, loss: Tensor, n: int = 1) -> None:
        """Take one step down ``loss`` / n; gradients of other losses do not count."""
        self.gradient.zero_()
        loss.backward()
        self.optimizer.step(self.theta, self.gradient.div_(n), self.lr, 0.0)


# -- baselines ---------------------------------------------------------------------------------------------
class NetworkModel(Baseline):
    """A baseline with a network behind transformers; it reads dense rows."""

    transformer_: Any
    network_: Any

    def _fit_network(
        self, learner: SoftTargets, codes: np.ndarray, make_objective: ObjectiveFactory, weight: np.ndarray | None
    ) -> None:
        """Train the network of ``learner``, and set ``network_`` and ``transformer_``."""
        self.network_ = learner.current_model.fit_objective(learner.X, codes, make_objective, weight)
        self.transformer_ = learner.transformer

    def _network_probabilities(self, X: Any) -> np.ndarray:
        """Return softmax of the outputs of the network, (n, m)."""
        rows = X if self.transformer_ is None else self.transformer_.transform(X)
        return np.asarray(self.network_.predict_proba(rows))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class NetworkBaseline(NetworkModel):
    """A network trained by `_objective`; it predicts by argmax.

    Attributes
    ----------
    transformer_ : fitted transformers, or None. network_ : TorchClassifier, fitted. classes_, groups_ : names.
    """

    _default_model = "network"
    network_settings: ClassVar[dict[str, Any]] = {}  # of the default network, where the method needs others

    def _objective(
        self, data: TrainingData, net: nn.Module, targets: Tensor, index: Tensor, seed: int
    ) -> TrainingObjective:
        """Return what to minimise; ``targets`` (n, m) are the labels times weights of mean one."""
        raise NotImplementedError

    def _set_results(self, objective: TrainingObjective) -> None:
        """Set attributes from an objective after training (not the objective: it holds the groups of all rows)."""

    def _learn(self, data: TrainingData, seed: int) -> None:
        self._rows(data)  # names the cells that are empty
        estimator = self.estimator
        if estimator is None:
            check_table(data.X, "estimator")
            estimator = default_network(len(data.y), **self.network_settings)
        learner = network_learner(estimator, data, seed)
        objectives: list[TrainingObjective] = []

        def make_objective(net: nn.Module, targets: Tensor, index: Tensor) -> TrainingObjective:
            objectives.append(self._objective(data, net, targets, index, seed))
            return objectives[0]

        self._fit_network(learner, data.y, make_objective, data.weight)
        self._set_results(objectives[0])

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """Return softmax(f(x)), the probabilities of the network.

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
        >>> from optfair.baselines import FairBatch
        >>> from optfair.datasets import make_fair_classification
        >>> from optfair.nn import TorchClassifier
        >>> data = make_fair_classification(300, 4, random_state=0)
        >>> model = FairBatch(TorchClassifier(epochs=2), random_state=0)
        >>> model.fit(data.X, data.y, sensitive_features=data.sensitive_features).predict_proba(data.X).shape
        (300, 3)
        """
        X, _ = self._check_new_rows(X, sensitive_features)
        return self._network_probabilities(X)
