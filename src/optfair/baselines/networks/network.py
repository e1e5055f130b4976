"""What baselines that train a network share: the estimator, its transformers, and a lesson of their own."""

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

from optfair.base import People
from optfair.baselines.base import Baseline
from optfair.estimation.models import refuse_texts
from optfair.features import is_dataset
from optfair.inprocessing.learners import SoftTargets, make_learner, seeded, split_pipeline
from optfair.nn.classifier import TorchClassifier
from optfair.nn.training import Lesson

LEAST_STEPS, LEAST_EPOCHS, MOST_EPOCHS = 2_000, 20, 400


def default_network(n: int, **settings: Any) -> Any:
    """Standardised features and a linear network, trained for longer where there are few people.

    settings : of `TorchClassifier`, beyond those for n people.
    """
    batch_size = int(settings.get("batch_size", 256))
    epochs = int(np.clip(LEAST_STEPS * batch_size // n, LEAST_EPOCHS, MOST_EPOCHS))
    lasting = {"lr": 0.01, "epochs": epochs, "decay": 0.95 ** (LEAST_EPOCHS / epochs)}
    return make_pipeline(StandardScaler(), TorchClassifier(**lasting | settings))


def check_table(X: Any, argument: str) -> None:
    """A default network reads tables of numbers."""
    if is_dataset(X) or getattr(X, "ndim", 2) > 2:
        raise ValueError(f"{argument}=None: the default network reads tables; use an optfair.nn.TorchClassifier.")
    refuse_texts(X, argument, "network")


def network_learner(estimator: Any, people: People, seed: int, argument: str = "estimator") -> SoftTargets:
    """A TorchClassifier, not yet trained, behind its fitted transformers, with its rows prepared."""
    if sparse.issparse(people.X):
        raise TypeError("X: is a sparse matrix; networks need dense rows: give X.toarray().")
    if not isinstance(split_pipeline(estimator)[1], TorchClassifier):
        raise ValueError(
            f"{argument}={estimator!r}: must be an optfair.nn.TorchClassifier, alone or at the end of a Pipeline: its "
            "training is changed; it takes a module of your own as TorchClassifier(lambda shape, m: module)."
        )
    learner = make_learner(seeded(estimator, seed, argument), people, None, seed, 1, "error")
    assert isinstance(learner, SoftTargets)
    return learner


@dataclass(frozen=True, eq=False)
class Tensors:
    """Of the n people: a, y (n,) codes; A, m how many groups and classes. Weights are in the targets."""

    a: Tensor
    y: Tensor
    A: int
    m: int

    @classmethod
    def of(cls, people: People, like: Tensor) -> Tensors:
        """On the device of ``like``."""
        a, y = (torch.from_numpy(np.asarray(v, dtype=np.int64)).to(like.device) for v in (people.a, people.y))
        return cls(a, y, len(people.groups), len(people.classes))


class BatchLesson(Lesson):
    """A lesson whose gradient is one of the batch as a whole, and no sum over its rows; ``part`` : their positions."""

    def batches(self, size: int | None, shape: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
        # In one part where there is one step: what is found of parts is not that of the whole.
        return [self.kept] if size is None else super().batches(size, shape, generator)

    def parts(self, batches: Sequence[Tensor]) -> Sequence[Tensor]:
        return batches


class NetworkBaseline(Baseline):
    """A network trained by `_lesson`; it answers by argmax.

    Attributes
    ----------
    front_ : transformers, fitted, or None. network_ : TorchClassifier, fitted. classes_, groups_ : names.
    """

    network_settings: ClassVar[dict[str, Any]] = {}  # of the default network, where the method asks for others

    def _lesson(self, people: People, net: nn.Module, targets: Tensor, kept: Tensor, seed: int) -> Lesson:
        """What it is taught; ``targets`` (n, m) are the labels times weights of mean one."""
        raise NotImplementedError

    def _keep(self, lesson: Lesson) -> None:
        """What is worth knowing of a lesson that is over (not the lesson: it holds everybody's group)."""

    def _learn(self, people: People, seed: int) -> None:
        self._rows(people)  # says which cells are empty
        estimator = self.estimator
        if estimator is None:
            check_table(people.X, "estimator")
            estimator = default_network(len(people.y), **self.network_settings)
        learner = network_learner(estimator, people, seed)
        made: list[Lesson] = []

        def lesson(net: nn.Module, targets: Tensor, kept: Tensor) -> Lesson:
            made.append(self._lesson(people, net, targets, kept, seed))
            return made[0]

        self.network_ = learner.live.fit_lesson(learner.X, people.y, lesson, people.weight)
        self.front_ = learner.front
        self._keep(made[0])

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> np.ndarray:
        """softmax(f(x)), (n, n_classes) in the order of ``classes_``."""
        X, _ = self._new_people(X, sensitive_features)
        return np.asarray(self.network_.predict_proba(X if self.front_ is None else self.front_.transform(X)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
