"""Use fitted classifiers as functions X -> z(x) = P(A, Y | X=x).

joint     z[a, i] = P(pair (a, i) | x)                  one model of the pair
factored  z[a, i] = P(Y=i | x) · P(A=a | x, Y=i)        a model of Y, and one of A in each class
given A   z[a, i] = 1[a = A(x)] · P(Y=i | x)            where x holds the group
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_numeric_dtype
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from optfair.errors import warn
from optfair.inputs.containers import is_dataset, layout_of
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.features import check_numbers
from optfair.inputs.frames import as_frame
from optfair.inputs.schema import find_schema
from optfair.posteriors.logistic_stack import LogisticStack
from optfair.posteriors.preprocessing import count_shared, fitted_steps, transform, writes_into_rows
from optfair.utils.checks import ROW_SUM_SLACK
from optfair.utils.parallel import map_blocks, one_blas_thread, spare_cores
from optfair.utils.progress import tick
from optfair.utils.seeds import short_seed
from optfair.utils.thread_limits import openmp_limit

FITTING = "fitting models"  # the stage whose steps are models


def default_estimator(X: Any, argument: str = "estimator") -> Pipeline:
    """Return standardised multinomial logistic regression (not centred where X is sparse).

    Behind a `TableEncoder` where X is a data frame with columns that are not numbers, or with gaps; columns that it
    leaves out are named in a warning.
    """
    if is_dataset(X):
        raise ValueError(f"{argument}=None: cannot read a torch data set; use optfair.nn.TorchClassifier.")
    check_numbers(X, argument, "logistic regression")
    model = LogisticRegression(max_iter=1000)
    if needs_encoder(X):
        schema, notes = find_schema(as_frame(X))
        for note in notes:
            warn(note)
        return make_pipeline(TableEncoder(texts=schema.texts, numbers=schema.numbers), StandardScaler(), model)
    return make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), model)


def needs_encoder(X: Any) -> bool:
    """Tell whether X is a data frame that logistic regression cannot read as it is."""
    layout = layout_of(X)
    if layout == "polars":
        return any(_is_polars_text_or_gap(X[name]) for name in X.columns)
    return layout == "pandas" and bool(_text_columns(X) or X.isna().to_numpy().any())


def _is_polars_text_or_gap(column: Any) -> bool:
    dtype = column.dtype
    if not dtype.is_numeric() and str(dtype) != "Boolean":
        return True
    return bool(column.null_count() or (dtype.is_float() and column.is_nan().any()))


def refuse_text_columns(X: Any, argument: str, default: str) -> None:
    """Raise ValueError if X has a column that a default model, which reads numbers only, cannot take."""
    columns = _text_columns(X) if isinstance(X, pd.DataFrame) else []
    if columns:
        raise ValueError(
            f"{argument}=None: the default {default} cannot read the column {columns[0]!r}, not a number; pass a "
            "Pipeline that encodes it."
        )


def _text_columns(X: pd.DataFrame) -> list[Any]:
    """Return the columns that do not hold numbers."""
    return [name for k, name in enumerate(X.columns) if not _holds_numbers(X.iloc[:, k])]


def _holds_numbers(column: pd.Series) -> bool:
    """Tell whether a column holds numbers, also as objects or categories."""
    return is_numeric_dtype(column) or infer_dtype(column.astype(object)) in (
        "integer",
        "floating",
        "mixed-integer-float",
    )


def default_group_estimator(model: Any, X: Any) -> Pipeline:
    """Return logistic regression on X, after the preprocessing of ``model`` where that is a fitted Pipeline.

    Gaps that its last step can read, and logistic regression cannot, are zeros with an indicator.
    """
    model = getattr(model, "estimator", model) if isinstance(model, FrozenEstimator) else model
    if isinstance(model, Pipeline) and len(model) > 1:
        gaps = SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True, keep_empty_features=True)
        imputer = [gaps] if hasattr(model[-1], "fit") and get_tags(model[-1]).input_tags.allow_nan else []
        scaler = StandardScaler(with_mean=False)  # whatever comes out of it may be sparse
        return make_pipeline(FrozenEstimator(model[:-1]), *imputer, scaler, LogisticRegression(max_iter=1000))
    return default_estimator(X, "group_estimator")


# -- one model --------------------------------------------------------------------------------------------
def takes_weights(estimator: Any) -> bool:
    """Tell whether some part of the estimator that learns takes ``sample_weight``."""
    return bool(weight_arguments(estimator, True))


def weight_arguments(estimator: Any, weight: Any) -> dict[str, Any]:
    """Return arguments that hand ``weight`` to every step of a Pipeline that takes it, or to the estimator itself."""
    if not isinstance(estimator, Pipeline):
        return {"sample_weight": weight} if has_fit_parameter(estimator, "sample_weight") else {}
    arguments: dict[str, Any] = {}
    for name, step in estimator.steps:
        if step is not None and not isinstance(step, str):
            arguments |= {f"{name}__{key}": value for key, value in weight_arguments(step, weight).items()}
    return arguments


def check_estimator(estimator: Any, argument: str = "estimator") -> None:
    """Refuse what would take the codes that models are fitted to for classes; None passes."""
    for name, value in (estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}).items():
        if name.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping):
            raise ValueError(f"{argument}: {name} by class is not possible, models see codes; use sample_weight.")
        if isinstance(value, FrozenEstimator) and is_classifier(value):
            raise ValueError(
                f"{argument}: {name} is a fitted classifier; freeze the whole: FrozenEstimator(estimator)."
            )


def with_seeds(estimator: Any, seed: int) -> Any:
    """Return a clone whose parts have a seed where they had none; what cannot be cloned is returned as it is."""
    if not hasattr(estimator, "get_params") or isinstance(estimator, type):
        return estimator
    estimator = clone(estimator)
    params = estimator.get_params()
    unseeded = [k for k, v in params.items() if k.rpartition("__")[2] == "random_state" and v is None]
    # Seeds of scikit-learn have 32 bits, those of networks 63.
    owners = [params.get(k.rpartition("__")[0], estimator) for k in unseeded]
    short = seed if seed < 2**32 else short_seed(seed)
    seeds = [seed if hasattr(owner, "fit_targets") else short for owner in owners]
    return estimator.set_params(**dict(zip(unseeded, seeds, strict=True)))


def fit_model(estimator: Any, X: Any, target: np.ndarray, weight: np.ndarray | None, seed: int | None = None) -> Any:
    """Fit a clone of ``estimator``, with weights where it takes them; a constant if there is one target only.

    seed : of its parts that have none, or None.
    """
    if (target == target[0]).all():
        return DummyClassifier().fit(np.zeros((len(target), 1)), target)
    arguments = {} if weight is None else weight_arguments(estimator, weight)
    X = X.copy() if writes_into_rows(estimator) and hasattr(X, "copy") else X
    # Weights are handed to the steps by name.
    by_name = config_context(enable_metadata_routing=False)
    with model_threads(estimator), by_name, name_the_model(estimator, "fitted to"), _mention_rare(target):
        model = (clone(estimator) if seed is None else with_seeds(estimator, seed)).fit(X, target, **arguments)
    classes = getattr(model, "classes_", None)
    if classes is not None and not np.array_equal(np.sort(classes), np.unique(target)):
        raise ValueError(
            f"estimator: {type(model).__name__} knows other classes than it was fitted to; is a part frozen?"
        )
    tick(FITTING)
    return model


@contextmanager
def model_threads(model: Any) -> Iterator[None]:
    """Hold BLAS to one thread while a model is fitted or asked, and OpenMP of scikit-learn to `spare_cores`.

    What a model of another package does with OpenMP is its user's affair, unless scikit-learn wraps it.
    """
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not type(final).__module__.startswith("sklearn."):
        with one_blas_thread:
            yield
        return
    with one_blas_thread, openmp_limit(spare_cores()):
        yield


def is_of_sklearn(estimator: Any) -> bool:
    """Tell whether all parts are scikit-learn's (or a `TableEncoder`), and none is frozen or has threads of its own.

    Clones of it can be fitted side by side in threads. Nothing is known of others, and clones share what is frozen, on
    which a Pipeline writes while it is fitted.
    """
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    parts = [estimator, *(value for value in params.values() if hasattr(value, "fit"))]
    if any(name.rpartition("__")[2] == "n_jobs" and value not in (None, 1) for name, value in params.items()):
        return False
    kinds = [type(part) for part in parts]
    return FrozenEstimator not in kinds and all(k.__module__.startswith("sklearn.") or k is TableEncoder for k in kinds)


@contextmanager
def name_the_model(model: Any, action: str, argument: str = "estimator") -> Iterator[None]:
    """Add to the error of a model, whose type and words stay as they are, a note that says whose it is."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{argument}: this is the message of {type(model).__name__}, when it was {action} X as given.")
        raise


@contextmanager
def _mention_rare(target: np.ndarray) -> Iterator[None]:
    """Add to the error of a model that some target has one row, if so: many ways to hold rows out need two."""
    try:
        yield
    except ValueError as error:
        if np.unique(target, return_counts=True)[1].min() == 1:
            error.add_note(
                "a group has one row of some class here, which cannot be both fitted on and held out: turn early "
                "stopping off, join small groups, or use posterior='factored'."
            )
        raise


def probability_function(model: Any, argument: str = "estimator") -> Callable[[Any], Any]:
    """Return what gives the probabilities of a model, or of a plain function of X."""
    function = getattr(model, "predict_proba", model)
    if not callable(function):
        raise ValueError(
            f"{argument}: {type(model).__name__} has no predict_proba; use a classifier that has, or wrap it in "
            "sklearn.calibration.CalibratedClassifierCV."
        )
    return function


def model_probabilities(model: Any, X: Any, argument: str = "estimator") -> np.ndarray:
    """Return (n, k) probabilities of a model with ``predict_proba``, or of a plain function of X."""
    function = probability_function(model, argument)
    X = X.copy() if writes_into_rows(model) and hasattr(X, "copy") else X
    with model_threads(model), name_the_model(model, "asked about", argument):
        P = function(X)
    return check_probabilities(P, X.shape[0] if hasattr(X, "shape") else len(X), argument)


def check_probabilities(P: Any, n: int, argument: str = "estimator") -> np.ndarray:
    """Return the output of a model as (n, k) probabilities that sum to one in every row."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or len(P) != n:
        raise ValueError(f"{argument}: its probabilities have shape {P.shape}; expected ({n}, n_classes).")
    with np.errstate(invalid="ignore", over="ignore"):
        total = P @ np.ones(P.shape[1])  # several times faster than a sum over so few columns
    is_sound = np.abs(total - 1) <= ROW_SUM_SLACK  # not of NaN and inf
    if not is_sound.all() or (P.size and P.min() < 0):
        bad = ~is_sound | (P < 0).any(axis=1)
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{argument}: {int(bad.sum())} rows of its output are not probabilities (row {row} sums to "
            f"{total[row]:.4g}); give one column per class, after a softmax."
        )
    return np.asarray(P / total[:, None])


# -- fitted posteriors ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class JointModel:
    """One model of the pair; its class k is cell ``cells[k]`` of the A·m. Cells without rows stay zero."""

    model: Any
    cells: np.ndarray
    shape: tuple[int, int]

    def __call__(self, X: Any) -> np.ndarray:
        P = model_probabilities(self.model, X)
        Z = np.zeros((len(P), self.shape[0] * self.shape[1]))
        Z[:, self.cells[np.asarray(self.model.classes_, dtype=int)]] = P
        return Z.reshape(-1, *self.shape)


@dataclass(frozen=True, eq=False)
class ClassModel:
    """A model of Y; its column k is class ``columns[k]`` of the m."""

    model: Any
    columns: np.ndarray
    m: int

    def __call__(self, X: Any) -> np.ndarray:
        return self.place(model_probabilities(self.model, X))

    def place(self, P: np.ndarray) -> np.ndarray:
        """Return the columns of the model, (n, k), as those of the m classes."""
        if P.shape[1] != len(self.columns):
            raise ValueError(
                f"estimator: gives {P.shape[1]} columns of probabilities for {len(self.columns)} classes; a model "
                "without classes_ needs one column per class found in y, sorted."
            )
        out = np.zeros((len(P), self.m))
        out[:, self.columns] = P
        return out


@dataclass(frozen=True, eq=False)
class GroupModels:
    """P(A | X, Y=i) of each class i: a model whose column k is group ``columns[i][k]``.

    None, and the shares of the groups among everybody, where the class had no rows. transformer : a fitted Pipeline of
    what comes before all of the models, or None.
    """

    models: tuple[Any, ...]
    columns: tuple[np.ndarray, ...]
    shares: np.ndarray  # (m, A)
    transformer: Any = None

    def __call__(self, X: Any, P: np.ndarray) -> np.ndarray:
        """Return z, (n, A, m), from P(Y | X), (n, m).   X: as the transformer, if there is one, made it"""
        (n, m), A = P.shape, self.shares.shape[1]
        stack, Z = LogisticStack.of(self.models, X), np.empty((n, A * m))
        probabilities = {
            i: model_probabilities(model, X, "group_estimator")
            for i, model in enumerate(self.models)
            if model is not None and i not in stack.parts
        }

        def fill(block: slice) -> None:
            cells = np.zeros((A, m, block.stop - block.start))
            stacked = stack.columns(X[block]) if stack.parts else {}
            for i, (model, columns) in enumerate(zip(self.models, self.columns, strict=True)):
                if model is None:
                    cells[:, i] = self.shares[i][:, None]
                else:
                    cells[columns, i] = stacked[i] if i in stacked else probabilities[i][block].T
            cells *= P[block].T
            Z[block] = cells.reshape(A * m, -1).T

        map_blocks(fill, n, 4 * A * m)
        return Z.reshape(n, A, m)


@dataclass(frozen=True, eq=False)
class FactoredModel:
    """A model of Y, and models of A in each class; preprocessing that they have in common runs once."""

    classes: ClassModel
    groups: GroupModels

    def __call__(self, X: Any) -> np.ndarray:
        if self.groups.transformer is None:
            return self.groups(X, self.classes(X))
        model, steps = self.classes.model, fitted_steps(self.groups.transformer)
        *own_steps, head = fitted_steps(model)
        n_shared = count_shared(steps, own_steps) if hasattr(model, "predict_proba") else 0
        if n_shared:
            with model_threads(model), name_the_model(model, "asked about"):
                features = transform(X, steps[:n_shared])
                output = head.predict_proba(transform(features, own_steps[n_shared:]))
            P = self.classes.place(check_probabilities(output, X.shape[0] if hasattr(X, "shape") else len(X)))
        else:
            features, P = X, self.classes(X)
        with name_the_model(self.groups.transformer, "asked about", "group_estimator"):
            features = transform(features, steps[n_shared:])
        return self.groups(features, P)


@dataclass(frozen=True, eq=False)
class GivenGroupModel:
    """A model of Y where X holds the group: the same P(Y | X) for every group, for `place_in_groups`."""

    classes: ClassModel
    n_groups: int

    def __call__(self, X: Any) -> np.ndarray:
        P = self.classes(X)
        return np.repeat(P[:, None, :], self.n_groups, axis=1) / self.n_groups


def place_in_groups(Z: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Put P(Y | X, A=a) into the block of each row's group a, zero elsewhere; rows with group −1 stay as they are."""
    rows = np.flatnonzero(group >= 0)
    block = Z[rows, group[rows]]
    total = block.sum(axis=1, keepdims=True)
    # A model that rules the row's group out says nothing about it: predict as if the group were unknown.
    block = np.where(total > 0, block / np.where(total > 0, total, 1.0), Z[rows].sum(axis=1))
    out = Z.copy()
    out[rows] = 0.0
    out[rows, group[rows]] = block
    return out


def own_posterior(model: Any, Z: np.ndarray, Z_aware: np.ndarray) -> np.ndarray:
    """Return the z whose likeliest class is what predicts by itself: a model of Y whatever the group of a row is.

    Z, Z_aware : (n, A, m) of the model, and with the groups of the rows where these are known. A model of the pair
    predicts nothing by itself, so that it is told them.
    """
    return Z_aware if isinstance(model, JointModel) else Z


def likeliest_classes(Z: np.ndarray) -> np.ndarray:
    """Return argmax_i P(Y=i | x), (n,)."""
    return np.asarray(Z.sum(axis=1).argmax(axis=1))


def pooled_posterior(model: Any, Z: np.ndarray) -> np.ndarray | None:
    """Return P(Y | X), (n, m), for P(Y | X, A) to be joined with; None where the model of Y knows the group anyway."""
    return None if isinstance(model, GivenGroupModel) else Z.sum(axis=1)
