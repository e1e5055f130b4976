"""Learners: whatever can fit soft targets, row n being worth ``targets[cell[n], j]`` to class j.

`WeightedCopies` makes one copy of a row per class j with a positive target, labelled j and weighted by it, for any
classifier that takes ``sample_weight``; `SoftTargets` hands the targets to a model that takes them as they are
(`optfair.nn.TorchClassifier`). Transformers in front of the classifier are fitted once, to the rows as they came.
"""

from __future__ import annotations

import copy
import inspect
import io
import sys
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from optfair.base import People
from optfair.errors import need_extra, warn
from optfair.estimation.models import fit_model, takes_weights, weight_arguments, with_seeds
from optfair.estimation.recipe import check_estimator
from optfair.features import is_dataset, take_rows
from optfair.inprocessing.game import is_plain

WITHOUT_WEIGHTS = ("error", "resample")
LEAST_RATE = 0.1  # of networks in late rounds, in units of their lr
AUTO_EARLY_STOPPING = 10_000  # rows beyond which histogram boosting stops early by itself


def split_pipeline(estimator: Any) -> tuple[Pipeline | None, Any]:
    """(what transforms the rows, or None; the classifier at the end), unfitted."""
    steps: list[tuple[str, Any]] = []
    while isinstance(estimator, Pipeline):
        steps += [(f"{len(steps) + k}_{name}", part) for k, (name, part) in enumerate(estimator.steps[:-1])]
        estimator = estimator.steps[-1][1]
    return (Pipeline(steps) if steps else None), estimator


def seeded(estimator: Any, seed: int, argument: str = "estimator") -> Any:
    """A clone whose parts have a seed where they had none, if it can be trained at all."""
    final = split_pipeline(estimator)[1]
    tagged = hasattr(final, "__sklearn_tags__") and not isinstance(final, type)
    answers = hasattr(final, "predict") or (tagged and is_classifier(final))  # some have it once they are fitted
    if not hasattr(final, "fit") or not answers or isinstance(final, type) or (tagged and is_regressor(final)):
        raise ValueError(f"{argument}={estimator!r}: must be a classifier, not fitted, or a Pipeline that ends in one.")
    if isinstance(final, FrozenEstimator):
        instead = "; use OptFairPost on top" if argument == "estimator" else ""
        raise ValueError(f"{argument}: is a fitted model, frozen, and would have to be trained{instead}.")
    check_estimator(estimator, argument)
    return with_seeds(estimator, seed)


def with_probabilities(estimator: Any) -> Any:
    """The estimator, or logistic regression in its place (and behind its transformers) if it gives no probabilities."""
    front, final = split_pipeline(estimator)
    if hasattr(final, "predict_proba"):
        return estimator
    steps = [] if front is None else front.steps
    return clone(Pipeline([*steps, ("classifier", LogisticRegression(max_iter=1000))]))


def make_learner(
    estimator: Any, people: People, judged: Any, seed: int, inner_epochs: int, without_weights: str
) -> WeightedCopies | SoftTargets:
    """The learner an estimator stands for; the transformers in front of it are fitted here.

    people : to learn from. judged : X of those whose votes count; None: the same.
    """
    front, final = split_pipeline(estimator)
    X, judged = people.X, people.X if judged is None else judged
    if is_dataset(X) and (front is not None or not hasattr(final, "fit_targets")):
        raise ValueError(
            f"X: is a torch data set, which {type(estimator).__name__} cannot read; use optfair.nn.TorchClassifier as "
            "the estimator itself, or arrays."
        )
    if front is not None:
        arguments = {} if people.weight is None else weight_arguments(front, people.weight)
        with config_context(enable_metadata_routing=False):
            X = front.fit_transform(X, people.y, **arguments)
        judged = front.transform(judged)  # not what fit_transform gave: some transformers learn out of fold
        judged = X if _same(X, judged) else judged
    if hasattr(final, "fit_targets"):
        return SoftTargets(front, final, X, judged, people, inner_epochs)
    if getattr(final, "early_stopping", None) == "auto":  # decided by the people, not by their copies
        final = clone(final).set_params(early_stopping=len(people.y) > AUTO_EARLY_STOPPING)
    if without_weights == "error" and not takes_weights(final):
        raise ValueError(
            f"estimator: {type(final).__name__} takes no sample_weight, which carries the costs of mistakes; use one "
            "that does, or without_weights='resample' (rows are then drawn in proportion to their weights)."
        )
    return WeightedCopies(front, final, X, judged, people, seed, resample=not takes_weights(final))


def _same(X: Any, other: Any) -> bool:
    """Whether both hold the same numbers, so that one of them will do."""
    if sparse.issparse(X) and sparse.issparse(other) and X.format == other.format == "csr":
        return all(np.array_equal(getattr(X, part), getattr(other, part)) for part in ("data", "indices", "indptr"))
    if isinstance(X, np.ndarray) and isinstance(other, np.ndarray) and X.dtype.kind in "fiub":
        return np.array_equal(X, other, equal_nan=True)
    return bool(X.equals(other)) if isinstance(X, pd.DataFrame) else False


def class_codes(predicted: Any) -> np.ndarray:
    """What a model predicts as codes, (n,); some give a column."""
    return np.asarray(predicted).reshape(-1).astype(np.intp)


class WeightedCopies:
    """Any scikit-learn classifier: rows (n, j) with label j and weight ∝ w_n T[cell_n, j], Σ of weights kept."""

    def __init__(
        self, front: Any, final: Any, X: Any, judged: Any, people: People, seed: int, *, resample: bool
    ) -> None:
        self.front, self.final, self.X, self.judged = front, final, X, judged
        self.cell, self.y, self.weight = people.cell, people.y, people.weight
        self.seed, self.resample = seed, resample
        self.live: Any = None
        self.last: tuple[np.ndarray, Any] | None = None
        self.n_fits = 0

    def respond(self, targets: np.ndarray, turn: int) -> Any:
        if self.last is not None and np.array_equal(self.last[0], targets):
            return self.last[1]
        if is_plain(targets):
            X, label, weight = self.X, self.y, self.weight
            if self.resample and weight is not None:
                X, label, weight = self._drawn(np.arange(len(label)), label, weight, turn)
        else:
            T = targets[self.cell] if self.weight is None else targets[self.cell] * self.weight[:, None]
            row, label = np.nonzero(T > 0)
            weight = T[row, label]
            if self.resample:
                X, label, weight = self._drawn(row, label, weight, turn)
            else:
                total = len(self.cell) if self.weight is None else float(self.weight.sum())
                weight *= total / weight.sum()
                # Two classes: each row has one copy, in its place.
                X = self.X if len(row) == len(self.cell) and (np.diff(row) == 1).all() else take_rows(self.X, row)
        model = self._fitted(X, label, weight)
        self.last = targets, model
        self.n_fits += 1
        return model

    def aside(self, targets: np.ndarray, turn: int) -> Any:
        """What it would answer; it goes on as if it had not been asked."""
        other = copy.copy(self)
        other.live = copy.deepcopy(self.live)
        return other.respond(targets, turn)

    def _drawn(self, row: np.ndarray, label: np.ndarray, weight: np.ndarray, turn: int) -> tuple[Any, np.ndarray, None]:
        """As many rows as there are people, drawn in proportion to their weights."""
        rng = np.random.default_rng([self.seed, turn + 1])  # plain training is turn −1
        drawn = np.sort(rng.choice(len(row), len(self.cell), p=weight / weight.sum()))
        return take_rows(self.X, row[drawn]), label[drawn], None

    def _fitted(self, X: Any, label: np.ndarray, weight: np.ndarray | None) -> Any:
        known = getattr(self.live, "classes_", None)
        if known is None or not np.array_equal(known, np.unique(label)):
            model = fit_model(self._warm() if self.live is not None else self.final, X, label, weight)
            if reuses_parameters(model):
                self.live = model.set_params(warm_start=True)
                return copy.deepcopy(model)
            return model
        arguments = {} if weight is None else weight_arguments(self.live, weight)
        with config_context(enable_metadata_routing=False):
            self.live.fit(X, label, **arguments)
        return copy.deepcopy(self.live)

    def _warm(self) -> Any:
        return clone(self.final).set_params(warm_start=True)

    def settle(self, targets: np.ndarray, turn: int) -> Any:
        """The one model of a deterministic answer."""
        return self.respond(targets, turn)

    def votes(self, model: Any) -> np.ndarray:
        return class_codes(model.predict(self.judged))

    # -- for a checkpoint ----------------------------------------------------------------------------------
    def pack(self, model: Any) -> bytes:
        skops = need_extra("skops.io", "checkpoint")
        content: bytes = skops.dumps(model)
        return content

    def unpack(self, content: bytes) -> Any:
        skops = need_extra("skops.io", "checkpoint")
        found = skops.get_untrusted_types(data=content)
        strange = [name for name in found if not _is_part_of(self.final, name)]
        if strange:
            raise ValueError(f"holds types that are not of the estimator: {', '.join(strange)}")
        return skops.loads(content, trusted=found)

    def state(self) -> bytes:
        return b""  # warm starts go on from the last model

    def prepare(self, state: bytes) -> None:
        """Before anything is unpacked."""

    def restore(self, models: list[Any], targets: np.ndarray) -> None:
        """models : all that were fitted, in order; the last of them to ``targets``."""
        self.last = targets, models[-1]
        self.live = copy.deepcopy(next((model for model in reversed(models) if reuses_parameters(model)), None))


class SoftTargets:
    """A model with ``fit_targets``, which goes on from where it was: parameters and optimizer are kept."""

    def __init__(self, front: Any, final: Any, X: Any, judged: Any, people: People, inner_epochs: int) -> None:
        self.front, self.cell, self.weight = front, people.cell, people.weight
        self.live, self.inner_epochs = clone(final), inner_epochs
        self.X = self.live.prepare(X)  # checked once, not in every round
        self.judged = self.X if judged is X else self.live.prepare(judged)
        self.plain: Any = None
        self.n_fits = 0

    def respond(self, targets: np.ndarray, turn: int) -> Any:
        if turn == 0 and is_plain(targets) and self.plain is not None:
            return self.plain  # the game starts at zero, with what plain training found
        how = {} if self.plain is None else {"n_epochs": self.inner_epochs, "rate": self._rate(turn)}
        self.live.fit_targets(self.X, self.cell, targets, self.weight, **how)
        self.n_fits += 1
        model = self.live.with_parameters(self.live.parameters_state())
        self.plain = model if self.plain is None else self.plain
        return model

    def _rate(self, turn: int) -> float:
        """Large where the multipliers still move, small in the rounds that are mixed: steps of one size leave noise."""
        return max(LEAST_RATE, float(self.live.decay) ** (turn * self.inner_epochs))

    def aside(self, targets: np.ndarray, turn: int) -> Any:
        """What it would answer; it goes on as if it had not been asked."""
        before, n_fits = self.live.training_state(), self.n_fits
        model = self.respond(targets, turn)
        self.live.restore_training(before)
        self.n_fits = n_fits
        return model

    def settle(self, targets: np.ndarray, turn: int) -> Any:
        """The one model of a deterministic answer: trained on for as long as the first was."""
        self.live.fit_targets(self.X, self.cell, targets, self.weight)
        self.n_fits += 1
        return self.live.with_parameters(self.live.parameters_state())

    def votes(self, model: Any) -> np.ndarray:
        return class_codes(model.predict(self.judged))

    # -- for a checkpoint ----------------------------------------------------------------------------------
    def pack(self, model: Any) -> bytes:
        return arrays_to_bytes(model.parameters_state())

    def unpack(self, content: bytes) -> Any:
        return self.live.with_parameters(arrays_from_bytes(content))

    def state(self) -> bytes:
        return arrays_to_bytes(self.live.training_state())

    def prepare(self, state: bytes) -> None:
        self.live.restore_training(arrays_from_bytes(state))

    def restore(self, models: list[Any], targets: np.ndarray) -> None:
        self.plain = models[0]


def arrays_to_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def arrays_from_bytes(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def reuses_parameters(model: Any) -> bool:
    """Whether ``warm_start`` goes on from the coefficients of a linear model.

    With trees it would add more of them, and scikit-learn's networks remember that they have converged, and stop.
    """
    return hasattr(model, "coef_") and "warm_start" in getattr(model, "get_params", dict)()


def _is_part_of(estimator: Any, name: str) -> bool:
    """Whether ``name`` is a class that a package of the estimator defines, or a function that it was given.

    Not whatever a module of the package can be asked for: some have imported functions that delete files.
    """
    values = list(estimator.get_params().values()) if hasattr(estimator, "get_params") else []
    given = {f"{v.__module__}.{v.__qualname__}" for v in values if inspect.isfunction(v)}
    parts = [estimator, *(value for value in values if hasattr(value, "get_params"))]
    packages = {kind.__module__.partition(".")[0] for part in parts for kind in type(part).__mro__}
    packages = packages - {"builtins"} | {"collections"}
    module, _, attribute = name.rpartition(".")
    if name in given or module.partition(".")[0] not in packages:
        return name in given
    # Only what is imported already: a file does not choose what is.
    found = getattr(sys.modules.get(module), attribute, None)
    return isinstance(found, type) and found.__module__ == module


def warn_if_counting(estimator: Any, n_classes: int, shift: str, n: int = 0) -> None:
    """Copies of a row count as rows in early stopping, inner cross-validation and ``min_samples_*``."""
    _, final = split_pipeline(estimator)
    if (n_classes == 2 and shift == "cell") or hasattr(final, "fit_targets"):
        return  # one copy per row
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(type(final).__init__).parameters.items()
    }
    given = final.get_params(deep=False) if hasattr(final, "get_params") else {}
    counting = [
        f"{name}={value!r}"
        for name, value in given.items()
        if (name in ("early_stopping", "cv") and value is not False and (value != "auto" or n > AUTO_EARLY_STOPPING))
        or (name.startswith(("min_samples", "min_child_samples")) and value != defaults.get(name))
    ]
    if counting:
        warn(
            f"estimator: {type(final).__name__} is fitted to up to {n_classes} weighted copies of each row, which "
            f"count as rows in {', '.join(counting)}."
        )
