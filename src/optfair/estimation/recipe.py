"""How z is learned: which models, on which rows.

A recipe is fitted once per fold, so that every row's z comes from models that have not seen it, and once on all rows
for the people to come. X goes to the models as it is: only rows are selected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed

from optfair.base import People
from optfair.errors import warn
from optfair.estimation.models import (
    ClassModel,
    FactoredModel,
    GivenGroupModel,
    GroupModels,
    JointModel,
    default_estimator,
    default_group_estimator,
    fit_model,
    takes_weights,
)
from optfair.features import take_rows
from optfair.people import content_folds

DEFAULT_FOLDS = 5


def is_fitted_model(estimator: Any, cv: Any) -> bool:
    """Whether the estimator is to be asked only, never fitted."""
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"cv={cv!r}: must be a number of folds, a splitter, a list of splits, or 'prefit'.")
    only_a_function = callable(estimator) and not hasattr(estimator, "fit")
    return isinstance(estimator, FrozenEstimator) or isinstance(cv, str) or only_a_function


def make_splits(cv: Any, people: People) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) positions; each row is in exactly one test part.

    A number of folds deals the rows out by content (`content_folds`). Splits that the caller made speak of all the
    rows given.
    """
    cell, n = people.cell, people.n_given
    if cv is None or (isinstance(cv, str) and cv == "prefit"):
        cv = DEFAULT_FOLDS
    if isinstance(cv, (int, np.integer)) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv={cv!r}: must be at least 2 folds, a splitter, a list of splits, or 'prefit'.")
        fold = content_folds(people.X, cell, int(cv))
        parts = [np.flatnonzero(fold == k) for k in np.unique(fold)]
        return [(np.flatnonzero(fold != k), part) for k, part in zip(np.unique(fold), parts, strict=True)]
    place, full = np.full(n, -1), np.zeros(n, dtype=int)
    place[people.kept], full[people.kept] = np.arange(len(cell)), cell
    try:
        given = [(place[train], place[test]) for train, test in check_cv(cv).split(np.zeros(n), full)]
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"cv={cv!r}: must be a number of folds, a splitter, a list of splits, or 'prefit' ({error})."
        ) from None
    splits = [(train[train >= 0], test[test >= 0]) for train, test in given]
    splits = [(train, test) for train, test in splits if len(test)]
    if any(len(train) == 0 or np.intersect1d(train, test).size for train, test in splits):
        raise ValueError("cv: a training part is empty, or holds people of its test part; they must be apart.")
    counts = np.bincount(np.concatenate([test for _, test in splits] or [cell[:0]]), minlength=len(cell))
    if (counts != 1).any():
        raise ValueError(
            f"cv: {int((counts != 1).sum())} rows are not in exactly one test part; out-of-fold posteriors need a "
            "partition, such as KFold gives."
        )
    return splits


def make_recipe(
    estimator: Any, group_estimator: Any, posterior: str, cv: Any, people: People, *, holds_group: bool
) -> Recipe:
    """The recipe that the arguments of an estimator stand for. holds_group : aware, and X itself tells the group."""
    if posterior not in ("auto", "joint", "factored"):
        raise ValueError(f"posterior={posterior!r}: must be 'auto', 'joint' or 'factored'.")
    shape = len(people.groups), len(people.classes)
    if group_estimator is not None and (not hasattr(group_estimator, "fit") or isinstance(group_estimator, type)):
        raise ValueError(f"group_estimator={group_estimator!r}: must be a classifier; it is fitted to the groups.")
    if is_fitted_model(estimator, cv):
        if estimator is None:
            raise ValueError("estimator=None: cv='prefit' needs a fitted model.")
        if posterior == "joint":
            raise ValueError("posterior='joint': a fitted model knows the classes only; use 'factored' or 'auto'.")
        fixed = ClassModel(estimator, np.arange(shape[1]), shape[1])
        if group_estimator is None and not holds_group:
            group_estimator = default_group_estimator(estimator, people.X)
        recipe = Recipe("given" if holds_group else "factored", None, group_estimator, fixed, shape)
    else:
        estimator = default_estimator(people.X) if estimator is None else estimator
        if not hasattr(estimator, "fit") or isinstance(estimator, type):
            raise ValueError(f"estimator={estimator!r}: must be a classifier, or a function that gives probabilities.")
        group_estimator = estimator if group_estimator is None else group_estimator
        kind = "given" if holds_group else "factored" if posterior == "factored" else "joint"
        recipe = Recipe(kind, estimator, group_estimator, None, shape)
    learned = [recipe.estimator, recipe.group_estimator if recipe.kind == "factored" else None]
    for model, argument in zip(learned, ("estimator", "group_estimator"), strict=True):
        check_estimator(model, argument if model is not recipe.estimator else "estimator")
    if people.weight is not None:
        _warn_unweighted(learned)
    return recipe


def check_estimator(estimator: Any, argument: str = "estimator") -> None:
    """Refuse what would take the codes that models are fitted to for classes; None passes."""
    for name, value in (estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}).items():
        if name.rpartition("__")[2] == "class_weight" and isinstance(value, Mapping):
            raise ValueError(f"{argument}: {name} by class is not possible, models see codes; use sample_weight.")
        if isinstance(value, FrozenEstimator) and is_classifier(value):
            raise ValueError(
                f"{argument}: {name} is a fitted classifier; freeze the whole: FrozenEstimator(estimator)."
            )


def _warn_unweighted(models: Sequence[Any]) -> None:
    names = {type(model).__name__ for model in models if model is not None and not takes_weights(model)}
    for name in sorted(names):
        warn(f"sample_weight: {name} takes none, so it is fitted without; calibration and constraints honour them.")


@dataclass(frozen=True, eq=False)
class Recipe:
    """How z is learned from people with X, group codes a (n,), class codes y (n,) and weights.

    kind : "joint", "factored" or "given". fixed : a fitted ClassModel that is never refitted, or None.
    shape : (A, m).
    """

    kind: str
    estimator: Any
    group_estimator: Any
    fixed: ClassModel | None
    shape: tuple[int, int]

    @property
    def fits(self) -> int:
        """Models fitted each time."""
        classes = 0 if self.fixed is not None else 1
        return classes + (self.shape[1] if self.kind == "factored" else 0)

    def fit(self, X: Any, a: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Callable[[Any], np.ndarray]:
        A, m = self.shape
        if self.kind == "joint":
            cells, pair = np.unique(a * m + y, return_inverse=True)
            return JointModel(fit_model(self.estimator, X, pair, weight), cells, self.shape)
        classes = self.fixed
        if classes is None:
            found, label = np.unique(y, return_inverse=True)
            model = fit_model(self.estimator, X, label, weight)
            classes = ClassModel(model, found[np.asarray(model.classes_, dtype=int)], m)
        if self.kind == "given":
            return GivenGroupModel(classes, A)
        return FactoredModel(classes, self._fit_groups(X, a, y, weight))

    def _fit_groups(self, X: Any, a: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> GroupModels:
        A, m = self.shape
        models, columns, shares = [], [], np.empty((m, A))
        for i in range(m):
            rows = np.flatnonzero(y == i)
            w = None if weight is None else weight[rows]
            shares[i] = np.bincount(a[rows], w, A) if len(rows) else np.bincount(a, weight, A)
            shares[i] /= shares[i].sum()
            found, label = np.unique(a[rows], return_inverse=True)
            model = fit_model(self.group_estimator, take_rows(X, rows), label, w) if len(rows) else None
            models.append(model)
            columns.append(found if model is None else found[np.asarray(model.classes_, dtype=int)])
        return GroupModels(tuple(models), tuple(columns), shares)


@dataclass(frozen=True, eq=False)
class Learned:
    """Z : (n, A, m), out of fold where there are folds. model : X -> z, fitted on all rows. splits : the folds.

    n_fits : models fitted in all.
    """

    Z: np.ndarray
    model: Callable[[Any], np.ndarray]
    splits: list[tuple[np.ndarray, np.ndarray]]
    n_fits: int


def learn_posteriors(
    estimator: Any,
    group_estimator: Any,
    posterior: str,
    cv: Any,
    people: People,
    n_jobs: int | None,
    *,
    holds_group: bool = False,
    left_out: Any = None,
    in_sample: bool = False,
) -> Learned:
    """z of the people fitted on and of those to come, from the arguments of an estimator; see `make_recipe`.

    left_out : sensitive columns that are not in X, if any. in_sample : both from the same models, whatever ``cv`` is.
    """
    recipe = make_recipe(estimator, group_estimator, posterior, cv, people, holds_group=holds_group)
    splits = [] if in_sample else make_splits(cv, people)
    with naming_columns(left_out if recipe.fixed is not None else None):
        if in_sample:
            model = recipe.fit(people.X, people.a, people.y, people.weight)
            return Learned(model(people.X), model, splits, recipe.fits)
        Z, model = out_of_fold(recipe, people, splits, n_jobs)
    return Learned(Z, model, splits, recipe.fits * (len(splits) + 1))


@contextmanager
def naming_columns(left_out: Any) -> Iterator[None]:
    """An error of a fitted model that misses a sensitive column is told in one line."""
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
    recipe: Recipe, people: People, splits: Sequence[tuple[np.ndarray, np.ndarray]], n_jobs: int | None
) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
    """(Z of every row from models that have not seen it, (n, A, m); the model fitted on all rows)."""
    n = len(people.y)
    if recipe.kind == "given" and recipe.fixed is not None:
        model = recipe.fit(people.X, people.a, people.y, people.weight)
        return model(people.X), model
    everybody = np.arange(n)
    jobs = (delayed(_fit_and_ask)(recipe, people, train, test) for train, test in [*splits, (everybody, None)])
    *folds, model = Parallel(n_jobs=n_jobs)(jobs)
    Z = np.empty((n, *recipe.shape))
    for (_, test), rows in zip(splits, folds, strict=True):
        Z[test] = rows
    return Z, model


def _fit_and_ask(recipe: Recipe, people: People, train: np.ndarray, test: np.ndarray | None) -> Any:
    """z of the rows in ``test`` from models fitted on ``train``; the model itself if there is nobody to test."""
    X = people.X if test is None else take_rows(people.X, train)
    weight = None if people.weight is None else people.weight[train]
    model = recipe.fit(X, people.a[train], people.y[train], weight)
    return model if test is None else model(take_rows(people.X, test))
