"""Learn z: which models, on which rows.

A recipe is fitted once per fold, so that every row's z comes from models that have not seen it, and once on all rows
for the people to come. X goes to the models as it is: only rows are selected.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from optfair.errors import brief_repr, warn
from optfair.inputs.containers import take_rows
from optfair.inputs.splits import Splits, make_splits
from optfair.inputs.training_data import TrainingData
from optfair.inputs.values import check_columns
from optfair.posteriors.models import (
    FITTING,
    ClassModel,
    FactoredModel,
    GivenGroupModel,
    GroupModels,
    JointModel,
    check_estimator,
    default_estimator,
    default_group_estimator,
    fit_model,
    is_of_sklearn,
    name_the_model,
    takes_weights,
    weight_arguments,
    with_seeds,
)
from optfair.posteriors.preprocessing import BLIND_TO_Y, count_leading
from optfair.utils.checks import check_choice
from optfair.utils.parallel import cores, n_threads
from optfair.utils.progress import Stage, carried, stage

COPIED_NUMBERS = 125_000_000  # of X, a gigabyte, that folds side by side may copy at once where nobody asked for it
POSTERIORS = ("auto", "joint", "factored")
PosteriorModel = Callable[[Any], np.ndarray]


def is_fitted_model(estimator: Any, cv: Any) -> bool:
    """Tell whether the estimator is only asked for probabilities, never fitted."""
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"cv={cv!r}: must be a number of folds, a splitter, a list of splits, or 'prefit'.")
    plain_function = callable(estimator) and not hasattr(estimator, "fit")
    return isinstance(estimator, FrozenEstimator) or isinstance(cv, str) or plain_function


@dataclass(frozen=True, eq=False)
class PosteriorRecipe:
    """How z is learned from rows with X, group codes a (n,), −1 where unknown, class codes y (n,) and weights.

    kind : "joint", "factored" or "given". fixed : a fitted ClassModel that is never refitted, or None.
    shape : (A, m). seed : of the models' parts that have none, or None. shared_steps : how many of the first steps of
    the group_estimator all classes have in common. Where it is the estimator itself, steps that learn nothing from y
    are those of the fitted model of Y.
    """

    kind: str
    estimator: Any
    group_estimator: Any
    fixed: ClassModel | None
    shape: tuple[int, int]
    seed: int | None = None
    shared_steps: int = 0

    @property
    def unweighted(self) -> tuple[str, ...]:
        """Names of the estimators that take no weights."""
        models = [self.estimator, self.group_estimator if self.kind == "factored" else None]
        names = {type(model).__name__ for model in models if model is not None and not takes_weights(model)}
        return tuple(sorted(names))

    @property
    def n_models(self) -> int:
        """Number of models that a fit has."""
        return (self.fixed is None) + (self.shape[1] if self.kind == "factored" else 0)

    @property
    def is_of_sklearn(self) -> bool:
        """Tell whether threads may fit and ask all models side by side; a fitted one is only asked."""
        fixed = None if self.fixed is None else self.fixed.model
        fixed = fixed.estimator if isinstance(fixed, FrozenEstimator) else fixed
        models = self.estimator, self.group_estimator if self.kind == "factored" else None, fixed
        return all(model is None or is_of_sklearn(model) for model in models)

    def fit(self, X: Any, a: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> PosteriorModel:
        """Fit the models; return X -> z."""
        A, m = self.shape
        if self.kind == "joint":
            cells, pair = np.unique(a * m + y, return_inverse=True)
            return JointModel(fit_model(self.estimator, X, pair, weight, self.seed), cells, self.shape)
        classes = self.fixed
        if classes is None:
            labels, codes = np.unique(y, return_inverse=True)
            model = fit_model(self.estimator, X, codes, weight, self.seed)
            classes = ClassModel(model, labels[np.asarray(model.classes_, dtype=int)], m)
        if self.kind == "given":
            return GivenGroupModel(classes, A)
        return FactoredModel(classes, self._fit_groups(X, a, y, weight, classes.model))

    def _fit_groups(
        self, X: Any, a: np.ndarray, y: np.ndarray, weight: np.ndarray | None, class_model: Any
    ) -> GroupModels:
        """Fit a model of the group in each class, behind preprocessing that all of them have in common, if any.

        Only rows of known group have something to say about groups; preprocessing learns from all.
        """
        (A, m), is_known = self.shape, a >= 0
        if not is_known.any():
            raise ValueError("cv: nobody in a training part is of known group; use fewer folds, or a number of them.")
        transformer, X, estimator = self._preprocess(X, weight, class_model)
        models, columns, shares = [], [], np.empty((m, A))
        all_shares = np.bincount(a[is_known], None if weight is None else weight[is_known], A)
        for i in range(m):
            rows = np.flatnonzero((y == i) & is_known)
            w = None if weight is None else weight[rows]
            shares[i] = np.bincount(a[rows], w, A) if len(rows) else all_shares
            shares[i] /= shares[i].sum()
            groups, codes = np.unique(a[rows], return_inverse=True)
            model = fit_model(estimator, take_rows(X, rows), codes, w, self.seed) if len(rows) else None
            models.append(model)
            columns.append(groups if model is None else groups[np.asarray(model.classes_, dtype=int)])
        return GroupModels(tuple(models), tuple(columns), shares, transformer)

    def _preprocess(self, X: Any, weight: np.ndarray | None, class_model: Any) -> tuple[Any, Any, Any]:
        """Return preprocessing that all classes have in common, fitted, what it makes of X, and what comes behind it.

        None, X and the whole group_estimator where there is none.
        """
        estimator, n_shared, transformer, features = self.group_estimator, self.shared_steps, None, X
        if estimator is self.estimator and isinstance(class_model, Pipeline):
            n_shared = count_leading(estimator, *BLIND_TO_Y)
            if n_shared:
                transformer = class_model[:n_shared]
                features = transformer.transform(X)
        elif n_shared:
            transformer, features = _fit_transformer(estimator[:n_shared], X, weight, self.seed)
        rest = estimator[n_shared:] if n_shared else [estimator]
        return transformer, features, rest if len(rest) > 1 else rest[0]


def _fit_transformer(transformer: Pipeline, X: Any, weight: np.ndarray | None, seed: int | None) -> tuple[Any, Any]:
    """Fit a clone of preprocessing, with weights where it takes them; return it and what it makes of X."""
    arguments = {} if weight is None else weight_arguments(transformer, weight)
    with config_context(enable_metadata_routing=False), name_the_model(transformer, "fitted to", "group_estimator"):
        transformer = clone(transformer) if seed is None else with_seeds(transformer, seed)
        return transformer, transformer.fit_transform(X, **arguments)


def make_recipe(
    estimator: Any,
    group_estimator: Any,
    posterior: str,
    cv: Any,
    data: TrainingData,
    seed: int | None = None,
    *,
    holds_group: bool,
) -> PosteriorRecipe:
    """Return the recipe that the arguments of an estimator stand for. holds_group : aware, and X tells the group."""
    check_choice("posterior", posterior, POSTERIORS)
    shape = len(data.groups), len(data.classes)
    if posterior == "joint" and data.n_unknown:
        raise ValueError(
            f"posterior='joint': needs the group of everybody, and {data.n_unknown} of {len(data.y)} rows have none; "
            "use 'factored' or 'auto'."
        )
    if group_estimator is not None and (not hasattr(group_estimator, "fit") or isinstance(group_estimator, type)):
        raise ValueError(
            f"group_estimator={brief_repr(group_estimator)}: must be a classifier; it is fitted to the groups."
        )
    if is_fitted_model(estimator, cv):
        if estimator is None:
            raise ValueError("estimator=None: cv='prefit' needs a fitted model.")
        if posterior == "joint":
            raise ValueError("posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.")
        if callable(estimator) and not hasattr(estimator, "predict_proba"):  # its data frame may name its columns
            check_columns(estimator(take_rows(data.X, [0])), data.class_index, "estimator")
        fixed = ClassModel(estimator, np.arange(shape[1]), shape[1])
        if group_estimator is None and not holds_group:
            group_estimator = default_group_estimator(estimator, data.X)
            n_shared = len(group_estimator) - 1
        else:
            n_shared = count_leading(group_estimator, FrozenEstimator)
        kind = "given" if holds_group else "factored"
        recipe = PosteriorRecipe(kind, None, group_estimator, fixed, shape, seed, n_shared)
    else:
        estimator = default_estimator(data.X) if estimator is None else estimator
        if not hasattr(estimator, "fit") or isinstance(estimator, type):
            raise ValueError(
                f"estimator={brief_repr(estimator)}: must be a classifier, or a function that gives probabilities."
            )
        group_estimator = estimator if group_estimator is None else group_estimator
        # "auto" is joint for networks too: factored ones take twice the seconds and are no more accurate at equal
        # violation (`python -m experiments.timings posterior`; "Joint or factored?" in docs/results/choices.md).
        is_factored = posterior == "factored" or data.n_unknown > 0
        kind = "given" if holds_group else "factored" if is_factored else "joint"
        n_frozen = count_leading(group_estimator, FrozenEstimator)
        recipe = PosteriorRecipe(kind, estimator, group_estimator, None, shape, seed, n_frozen)
    models = [recipe.estimator, recipe.group_estimator if recipe.kind == "factored" else None]
    for model, argument in zip(models, ("estimator", "group_estimator"), strict=True):
        check_estimator(model, argument if model is not recipe.estimator else "estimator")
    return recipe


def warn_unweighted(names: Sequence[str]) -> None:
    """Warn about estimators that are fitted without the weights that were given."""
    for name in names:
        warn(f"sample_weight: {name} takes none, so it is fitted without; calibration and constraints honour them.")


@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """Posteriors of the rows fitted on, and the model of new rows.

    Z : (n, A, m), out of fold where there are folds. model : X -> z, fitted on all rows. splits : the folds.
    n_fits : models fitted in all. unweighted : names of the estimators that took no weights, where there were any.
    fold_models : those that Z is from, one for each of the splits, where they were to be kept.
    """

    Z: np.ndarray
    model: PosteriorModel
    splits: Splits
    n_fits: int
    unweighted: tuple[str, ...] = ()
    fold_models: tuple[PosteriorModel, ...] = ()


def fit_posteriors(
    estimator: Any,
    group_estimator: Any,
    posterior: str,
    cv: Any,
    data: TrainingData,
    n_jobs: int | None,
    seed: int | None = None,
    *,
    holds_group: bool = False,
    left_out: Any = None,
    in_sample: bool = False,
    keep_folds: bool = False,
) -> PosteriorFit:
    """Learn z of the rows fitted on and of those to come, from the arguments of an estimator; see `make_recipe`.

    seed : of the models' parts that have none. left_out : sensitive columns that are not in X, if any. in_sample : both
    from the same models, whatever ``cv`` is. keep_folds : whether to keep the models of the folds.
    """
    recipe = make_recipe(estimator, group_estimator, posterior, cv, data, seed, holds_group=holds_group)
    splits = [] if in_sample else make_splits(cv, data)
    unweighted = () if data.weight is None else recipe.unweighted
    with explain_missing_column(left_out if recipe.fixed is not None else None):
        if in_sample:
            with stage(FITTING, recipe.n_models):
                model = recipe.fit(data.X, data.a, data.y, data.weight)
            return PosteriorFit(model(data.X), model, splits, recipe.n_models, unweighted)
        Z, model, fold_models = out_of_fold(recipe, data, splits, n_jobs)
    n_fits = recipe.n_models * (len(splits) + 1)
    return PosteriorFit(Z, model, splits, n_fits, unweighted, fold_models if keep_folds else ())


@contextmanager
def explain_missing_column(left_out: Any) -> Iterator[None]:
    """Explain in one line the error of a fitted model that misses a sensitive column."""
    try:
        yield
    except (KeyError, ValueError) as error:
        for name in left_out if isinstance(left_out, list) else [left_out]:
            # Quoted, or a line of scikit-learn's list of features: a word alone may be any word.
            if isinstance(name, str) and re.search(
                rf"['\"]{re.escape(name)}['\"]|^- {re.escape(name)}$", str(error), re.M
            ):
                raise ValueError(
                    f"estimator: the fitted model seems to need the sensitive column {str(name)!r}, which a blind rule "
                    "leaves out; give the groups to fit instead, or use OptFairPost with awareness='aware'."
                ) from error
        raise


def out_of_fold(
    recipe: PosteriorRecipe, data: TrainingData, splits: Splits, n_jobs: int | None
) -> tuple[np.ndarray, PosteriorModel, tuple[PosteriorModel, ...]]:
    """Return (Z of every row from models that have not seen it, (n, A, m); the model of all rows; of the folds)."""
    n = len(data.y)
    if recipe.kind == "given" and recipe.fixed is not None:
        model = recipe.fit(data.X, data.a, data.y, data.weight)
        return model(data.X), model, ()
    all_rows = np.arange(n)
    folds = [*splits, (all_rows, None)]
    n_jobs, kind = _workers(recipe, data, len(folds), n_jobs)
    with warnings.catch_warnings(), stage(FITTING, recipe.n_models * len(folds)) as work:
        # Filters are kept: tasks in threads exchange the list of them, and the last may keep another's.
        fit = carried(_fit_and_predict if n_jobs == 1 else _fit_on_one_core)
        jobs = (delayed(fit)(recipe, data, train, test) for train, test in folds)
        *parts, (model, _) = _CountingParallel(work, recipe.n_models, n_jobs=n_jobs, prefer=kind)(jobs)
    Z = np.empty((n, *recipe.shape))
    for (_, test), (_, rows) in zip(splits, parts, strict=True):
        Z[test] = rows
    return Z, model, tuple(fold_model for fold_model, _ in parts)


class _CountingParallel(Parallel):
    """Workers whose finished tasks, of so many models each, count in a stage, also those in other processes."""

    def __init__(self, work: Stage, n_models: int, **options: Any) -> None:
        super().__init__(**options)
        self.work, self.n_models = work, n_models

    def print_progress(self) -> None:
        """Count, where joblib would print."""
        self.work.reach(self.n_models * self.n_completed_tasks)


def _workers(recipe: PosteriorRecipe, data: TrainingData, n_fits: int, n_jobs: int | None) -> tuple[int, str]:
    """Return how many models are fitted side by side, and whether that is in "threads" or in "processes".

    In threads where models are scikit-learn's, which needs no start and no copies: two threads took 0.51 (boosting),
    0.52 (forest) and 0.66 to 0.83 (logistic) of the time of one. Others may share a state or have threads of their own:
    they have processes, and these only where they are asked for.
    """
    is_of_sklearn = recipe.is_of_sklearn
    kind = "threads" if is_of_sklearn else "processes"
    if n_jobs is not None:
        return min(n_threads(n_jobs), n_fits), kind
    if not is_of_sklearn:
        return effective_n_jobs(None), kind
    size = math.prod(getattr(data.X, "shape", ())) if not sparse.issparse(data.X) else data.X.nnz
    return max(1, min(n_threads(None), n_fits, COPIED_NUMBERS // max(size, 1))), kind


def _fit_on_one_core(*arguments: Any) -> Any:
    with cores(1):
        return _fit_and_predict(*arguments)


def _fit_and_predict(recipe: PosteriorRecipe, data: TrainingData, train: np.ndarray, test: np.ndarray | None) -> Any:
    """Return the model fitted on ``train``, and its z of the rows in ``test``, None if there are none."""
    X = data.X if test is None else take_rows(data.X, train)
    weight = None if data.weight is None else data.weight[train]
    model = recipe.fit(X, data.a[train], data.y[train], weight)
    return model, None if test is None else model(take_rows(data.X, test))
