"""Make learners: whatever can fit soft targets, row n being worth ``targets[cell[n], j]`` to class j.

`WeightedCopies` makes one copy of a row per class j with a positive target, labelled j and weighted by it, for any
classifier that takes ``sample_weight``; `SoftTargets` hands the targets to a model that takes them as they are
(`optfair.nn.TorchClassifier`). Transformers in front of the classifier are fitted once, to the rows as they came.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from optfair.errors import brief_repr, warn
from optfair.inprocessing.copies import AUTO_EARLY_STOPPING, WeightedCopies, class_codes
from optfair.inprocessing.game import is_plain
from optfair.inputs.containers import is_dataset
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import check_estimator, default_estimator, takes_weights, weight_arguments, with_seeds
from optfair.utils.archives import check_archive
from optfair.utils.parallel import one_blas_thread

WITHOUT_WEIGHTS = ("error", "resample")
LEAST_RATE = 0.1  # of networks in late rounds, in units of their lr: smaller ones no longer follow the multipliers


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """Return (what transforms the rows, or None; the classifier at the end), unfitted."""
    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline):
        steps += [(f"{len(steps) + k}_{name}", part) for k, (name, part) in enumerate(estimator.steps[:-1])]
        estimator = estimator.steps[-1][1]
    return (Pipeline(steps) if steps else None), estimator


def trainable_clone(estimator: Any, seed: int, X: Any = None, argument: str = "estimator") -> Any:
    """Return a clone whose parts have a seed where they had none; raise ValueError if it cannot be trained.

    estimator : None for the default one, which reads rows like X.
    """
    estimator = default_estimator(X, argument) if estimator is None else estimator
    final = split_pipeline(estimator)[1]
    tagged = hasattr(final, "__sklearn_tags__") and not isinstance(final, type)
    predicts = hasattr(final, "predict") or (tagged and is_classifier(final))  # some have it once they are fitted
    if not hasattr(final, "fit") or not predicts or isinstance(final, type) or (tagged and is_regressor(final)):
        raise ValueError(
            f"{argument}={brief_repr(estimator)}: must be a classifier, not fitted, or a Pipeline that ends in one."
        )
    if isinstance(final, FrozenEstimator):
        instead = "; use OptFairPost on top" if argument == "estimator" else ""
        raise ValueError(f"{argument}: is a fitted model, frozen, and would have to be trained{instead}.")
    check_estimator(estimator, argument)
    return with_seeds(estimator, seed)


def with_probabilities(estimator: Any) -> Any:
    """Return the estimator, or logistic regression behind its transformers if it gives no probabilities."""
    transformer, final = split_pipeline(estimator)
    if hasattr(final, "predict_proba"):
        return estimator
    steps = [] if transformer is None else transformer.steps
    return clone(Pipeline([*steps, ("classifier", LogisticRegression(max_iter=1000))]))


def make_learner(
    estimator: Any, data: TrainingData, X_measured: Any, seed: int, inner_epochs: int, without_weights: str
) -> WeightedCopies | SoftTargets:
    """Return the learner an estimator stands for; the transformers in front of it are fitted here.

    data : rows to learn from. X_measured : of the rows whose predictions count; None: the same.
    """
    transformer, final = split_pipeline(estimator)
    X, X_measured = data.X, data.X if X_measured is None else X_measured
    if is_dataset(X) and (transformer is not None or not hasattr(final, "fit_targets")):
        raise ValueError(
            f"X: is a torch data set, which {type(estimator).__name__} cannot read; use optfair.nn.TorchClassifier as "
            "the estimator itself, or arrays."
        )
    if transformer is not None:
        arguments = {} if data.weight is None else weight_arguments(transformer, data.weight)
        with one_blas_thread, config_context(enable_metadata_routing=False):
            X = transformer.fit_transform(X, data.y, **arguments)
        X_measured = transformer.transform(X_measured)  # fit_transform may differ: some transformers learn out of fold
        X_measured = X if _equal(X, X_measured) else X_measured
    if hasattr(final, "fit_targets"):
        return SoftTargets(transformer, final, X, X_measured, data, inner_epochs)
    if getattr(final, "early_stopping", None) == "auto":  # decided by the rows, not by their copies
        final = clone(final).set_params(early_stopping=len(data.y) > AUTO_EARLY_STOPPING)
    if without_weights == "error" and not takes_weights(final):
        raise ValueError(
            f"estimator: {type(final).__name__} takes no sample_weight, which carries the costs of mistakes; use one "
            "that does, or without_weights='resample' (rows are then drawn in proportion to their weights)."
        )
    return WeightedCopies(transformer, final, X, X_measured, data, seed, resample=not takes_weights(final))


def warn_about_copies(learner: Any, n_classes: int, settings: Sequence[str]) -> None:
    """Warn that copies of a row count as rows in some settings of the estimator."""
    warn(
        f"estimator: {type(learner.final).__name__} is fitted to up to {n_classes} weighted copies of each row, which "
        f"count as rows in {', '.join(settings)}."
    )


def _equal(X: Any, other: Any) -> bool:
    """Tell whether both hold the same numbers, so that one of them will do."""
    if sparse.issparse(X) and sparse.issparse(other) and X.format == other.format == "csr":
        return all(np.array_equal(getattr(X, part), getattr(other, part)) for part in ("data", "indices", "indptr"))
    if isinstance(X, np.ndarray) and isinstance(other, np.ndarray) and X.dtype.kind in "fiub":
        return np.array_equal(X, other, equal_nan=True)
    return bool(X.equals(other)) if isinstance(X, pd.DataFrame) else False


class SoftTargets:
    """A model with ``fit_targets``, which continues from round to round: parameters and optimizer are kept."""

    def __init__(
        self, transformer: Any, final: Any, X: Any, X_measured: Any, data: TrainingData, inner_epochs: int
    ) -> None:
        self.transformer, self.cell, self.weight = transformer, data.cell, data.weight
        self.current_model, self.inner_epochs = clone(final), inner_epochs
        self.X = self.current_model.prepare(X)  # checked once, not in every round
        self.X_measured = self.X if X_measured is X else self.current_model.prepare(X_measured)
        self.plain: Any = None
        self.n_fits = 0

    def best_response(self, targets: np.ndarray, round_index: int) -> Any:
        """Train on for ``inner_epochs``; the first call is plain training for the epochs of the model itself."""
        if round_index == 0 and is_plain(targets) and self.plain is not None:
            return self.plain  # the game starts at zero, with the model of plain training
        options = {} if self.plain is None else {"n_epochs": self.inner_epochs, "rate": self._rate(round_index)}
        self.current_model.fit_targets(self.X, self.cell, targets, self.weight, **options)
        self.n_fits += 1
        model = self.current_model.with_parameters(self.current_model.parameters_state())
        self.plain = model if self.plain is None else self.plain
        return model

    def _rate(self, round_index: int) -> float:
        """Return the learning rate: large where the multipliers still move, small in the rounds that are mixed."""
        return max(LEAST_RATE, float(self.current_model.decay) ** (round_index * self.inner_epochs))

    def peek(self, targets: np.ndarray, round_index: int) -> Any:
        """Return what `best_response` would, and go on as if it had not been called."""
        before, n_fits = self.current_model.training_state(), self.n_fits
        model = self.best_response(targets, round_index)
        self.current_model.restore_training(before)
        self.n_fits = n_fits
        return model

    def final_fit(self, targets: np.ndarray, round_index: int) -> Any:
        """Return the one model of a deterministic result: trained on for as long as the first was."""
        self.current_model.fit_targets(self.X, self.cell, targets, self.weight)
        self.n_fits += 1
        return self.current_model.with_parameters(self.current_model.parameters_state())

    def predict_codes(self, model: Any) -> np.ndarray:
        """Return the predicted classes of the rows measured on, (n,)."""
        return class_codes(model.predict(self.X_measured))

    # -- for a checkpoint ----------------------------------------------------------------------------------
    def pack(self, model: Any) -> bytes:
        """Return the parameters of a model as bytes."""
        return arrays_to_bytes(model.parameters_state())

    def unpack(self, content: bytes) -> Any:
        """Return the model that was packed."""
        return self.current_model.with_parameters(arrays_from_bytes(content))

    def state(self) -> bytes:
        """Return the state of the optimizer as bytes."""
        return arrays_to_bytes(self.current_model.training_state())

    def prepare(self, state: bytes) -> None:
        """Restore the state of the optimizer, before anything is unpacked."""
        self.current_model.restore_training(arrays_from_bytes(state))

    def restore(self, models: list[Any], targets: np.ndarray) -> None:
        """Go on from models that were unpacked."""
        self.plain = models[0]


def arrays_to_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    """Return arrays as an .npz file without pickles."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def arrays_from_bytes(content: bytes) -> dict[str, np.ndarray]:
    """Return what `arrays_to_bytes` was given."""
    check_archive(content)
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
