"""Train any scikit-learn classifier on soft targets, through weighted copies of the rows."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone

from optfair.inprocessing.game import is_plain
from optfair.inputs.containers import take_rows
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import fit_model, model_threads, weight_arguments
from optfair.utils.archives import check_archive, need_skops

AUTO_EARLY_STOPPING = 10_000  # rows beyond which scikit-learn's histogram boosting stops early by itself


class WeightedCopies:
    """Any scikit-learn classifier: rows (n, j) with label j and weight ∝ w_n T[cell_n, j], Σ of weights kept."""

    def __init__(
        self, transformer: Any, final: Any, X: Any, X_measured: Any, data: TrainingData, seed: int, *, resample: bool
    ) -> None:
        self.transformer, self.final, self.X, self.X_measured = transformer, final, X, X_measured
        self.cell, self.y, self.weight = data.cell, data.y, data.weight
        self.seed, self.resample = seed, resample
        self.current_model: Any = None
        self.last: tuple[np.ndarray, Any] | None = None
        self.n_fits = 0

    def best_response(self, targets: np.ndarray, round_index: int) -> Any:
        """Fit the classifier to weighted copies; plain targets are the original rows."""
        if self.last is not None and np.array_equal(self.last[0], targets):
            return self.last[1]
        if is_plain(targets):
            X, label, weight = self.X, self.y, self.weight
            if self.resample and weight is not None:
                X, label, weight = self._resample(np.arange(len(label)), label, weight, round_index)
        else:
            T = targets[self.cell] if self.weight is None else targets[self.cell] * self.weight[:, None]
            row, label = np.nonzero(T > 0)
            weight = T[row, label]
            if self.resample:
                X, label, weight = self._resample(row, label, weight, round_index)
            else:
                total = len(self.cell) if self.weight is None else float(self.weight.sum())
                weight *= total / weight.sum()
                # Two classes: each row has one copy, in its place.
                X = self.X if len(row) == len(self.cell) and (np.diff(row) == 1).all() else take_rows(self.X, row)
        model = self._fit(X, label, weight)
        self.last = targets, model
        self.n_fits += 1
        return model

    def peek(self, targets: np.ndarray, round_index: int) -> Any:
        """Return what `best_response` would, and go on as if it had not been called."""
        other = copy.copy(self)
        other.current_model = copy.deepcopy(self.current_model)
        return other.best_response(targets, round_index)

    def _resample(
        self, row: np.ndarray, label: np.ndarray, weight: np.ndarray, round_index: int
    ) -> tuple[Any, np.ndarray, None]:
        """Draw as many rows as there were, in proportion to their weights."""
        rng = np.random.default_rng([self.seed, round_index + 1])  # plain training is round −1
        index = np.sort(rng.choice(len(row), len(self.cell), p=weight / weight.sum()))
        return take_rows(self.X, row[index]), label[index], None

    def _fit(self, X: Any, label: np.ndarray, weight: np.ndarray | None) -> Any:
        """Fit a model, from the parameters of the last one where that helps."""
        classes = getattr(self.current_model, "classes_", None)
        if classes is None or not np.array_equal(classes, np.unique(label)):
            first = self.current_model is None
            model = fit_model(self.final if first else clone(self.final).set_params(warm_start=True), X, label, weight)
            if reuses_parameters(model):
                self.current_model = model.set_params(warm_start=True)
                return copy.deepcopy(model)
            return model
        arguments = {} if weight is None else weight_arguments(self.current_model, weight)
        with model_threads(self.current_model), config_context(enable_metadata_routing=False):
            self.current_model.fit(X, label, **arguments)
        return copy.deepcopy(self.current_model)

    def final_fit(self, targets: np.ndarray, round_index: int) -> Any:
        """Return the one model of a deterministic result."""
        return self.best_response(targets, round_index)

    def predict_codes(self, model: Any) -> np.ndarray:
        """Return the predicted classes of the rows measured on, (n,)."""
        with model_threads(model):
            return class_codes(model.predict(self.X_measured))

    # -- for a checkpoint ----------------------------------------------------------------------------------
    def pack(self, model: Any) -> bytes:
        """Return a model as a skops archive."""
        skops = need_skops("checkpoint")
        content: bytes = skops.dumps(model)
        return content

    def unpack(self, content: bytes) -> Any:
        """Return the model that was packed; types that are not of the estimator are refused."""
        from optfair.utils.loaded_models import check_model  # here: it imports a good part of scikit-learn

        skops = need_skops("checkpoint")
        check_archive(content)
        types = skops.get_untrusted_types(data=content)
        strange = [name for name in types if not _is_part_of(self.final, name)]
        if strange:
            raise ValueError(f"holds types that are not of the estimator: {', '.join(strange)}")
        model = skops.loads(content, trusted=types)
        check_model(model)
        return model

    def state(self) -> bytes:
        """Return nothing: warm starts go on from the last model."""
        return b""

    def prepare(self, state: bytes) -> None:
        """Prepare to unpack; there is nothing to do."""

    def restore(self, models: list[Any], targets: np.ndarray) -> None:
        """Go on from models that were unpacked, in their order; the last of them was fitted to ``targets``."""
        self.last = targets, models[-1]
        reusable = next((model for model in reversed(models) if reuses_parameters(model)), None)
        self.current_model = copy.deepcopy(reusable)


def class_codes(prediction: Any) -> np.ndarray:
    """Return predictions as codes, (n,); some models predict a column."""
    return np.asarray(prediction).reshape(-1).astype(np.intp)


def reuses_parameters(model: Any) -> bool:
    """Tell whether ``warm_start`` continues from the coefficients of a linear model.

    With trees it would add more of them, and scikit-learn's networks remember that they have converged, and stop.
    """
    return hasattr(model, "coef_") and "warm_start" in getattr(model, "get_params", dict)()


def _is_part_of(estimator: Any, name: str) -> bool:
    """Tell whether ``name`` is a class that a package of the estimator defines, or a function that it was given.

    Not whatever a module of the package can be asked for: some have imported functions that delete files.
    """
    values = list(estimator.get_params().values()) if hasattr(estimator, "get_params") else []
    functions = {f"{v.__module__}.{v.__qualname__}" for v in values if inspect.isfunction(v)}
    parts = [estimator, *(value for value in values if hasattr(value, "get_params"))]
    packages = {kind.__module__.partition(".")[0] for part in parts for kind in type(part).__mro__}
    packages = packages - {"builtins"} | {"collections"}
    module, _, attribute = name.rpartition(".")
    if name in functions or module.partition(".")[0] not in packages:
        return name in functions
    # Only what is imported already: a file does not choose what is.
    member = getattr(sys.modules.get(module), attribute, None)
    return isinstance(member, type) and member.__module__ == module


def settings_that_count_copies(final: Any, n_classes: int, shift: str, n: int = 0) -> tuple[str, ...]:
    """Return the settings in which copies of a row count as rows: early stopping, inner folds, ``min_samples_*``."""
    if n_classes == 2 and shift == "cell":
        return ()  # one copy per row
    signature = inspect.signature(type(final).__init__).parameters
    defaults = {name: parameter.default for name, parameter in signature.items()}
    parameters = final.get_params(deep=False) if hasattr(final, "get_params") else {}
    return tuple(
        f"{name}={value!r}"
        for name, value in parameters.items()
        if (name in ("early_stopping", "cv") and value is not False and (value != "auto" or n > AUTO_EARLY_STOPPING))
        or (name.startswith(("min_samples", "min_child_samples")) and value != defaults.get(name))
    )
