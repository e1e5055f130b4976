"""Warn before a fit about groups, features and estimators that are allowed and rarely meant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Rows
from optfair.constraints.events import group_families
from optfair.errors import PlaceholderWarning, first_names, warn
from optfair.inputs.cells import mark_missing
from optfair.inputs.encoder import TableEncoder
from optfair.inputs.id_columns import id_columns
from optfair.inputs.placeholders import is_placeholder
from optfair.inputs.schema import find_schema
from optfair.inputs.training_data import TrainingData
from optfair.posteriors.models import needs_encoder

MANY_NUMBERS = 20  # groups that are so many numbers, or half as many with fractions, are rather an amount than codes
HANDFUL = 10  # in a group of fewer people one of them moves every rate by more than a tenth


def warn_about_groups(data: TrainingData, constraints: Sequence[AnyConstraint]) -> None:
    """Warn where there is nothing to compare, where groups are values of a number, or of a handful of people."""
    if len(data.groups) == 1:
        warn(f"sensitive_features: there is one group, {data.groups.tolist()[0]!r}; nothing is compared.")
        return
    for level in range(data.groups.nlevels):
        values = data.groups.get_level_values(level).unique()
        if _is_amount(values):
            number = "a number" if values.name is None else f"the number {values.name!r}"
            warn(
                f"sensitive_features: {len(values)} groups are values of {number}; cut it into bands, e.g. by pd.cut, "
                "or give codes as texts."
            )
    sizes = compared_sizes(data, constraints)
    small = [f"{name!r} ({size:.0f})" for name, size in sizes.items() if size < HANDFUL]
    if small and sum(sizes.values()) >= HANDFUL * len(sizes):  # else the whole table is a toy
        warn(
            f"sensitive_features: groups with fewer than {HANDFUL} people, whose rates nobody can tell: "
            f"{first_names(small)}. Merge them with others, or constrain the others only (tolerance={{group: bound}})."
        )


def compared_sizes(data: TrainingData, constraints: Sequence[AnyConstraint]) -> dict[Hashable, float]:
    """Return the number of people in each group that a constraint speaks of."""
    people = data.counts.sum(axis=1) if data.n_people is not None else np.bincount(data.a[data.is_known])
    sizes: dict[Hashable, float] = {}
    for constraint in constraints:
        if isinstance(constraint, Rows) or (isinstance(constraint, MinimumRate) and constraint.by == "overall"):
            continue
        named = constraint.tolerance if isinstance(constraint, Constraint) else None
        for family in group_families(data.groups, constraint.attributes):
            for label, members in family:
                if not isinstance(named, Mapping) or label in named:
                    sizes[label] = float(people[list(members)].sum())
    return sizes


def _is_amount(values: pd.Index) -> bool:
    """Tell whether the values of an attribute are so many numbers that they are hardly codes."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    whole = all(float(number).is_integer() for number in numbers)
    return len(numbers) > (MANY_NUMBERS if whole else MANY_NUMBERS / 2)


def warn_about_placeholders(groups: pd.Index) -> None:
    """Warn if a group, or a value of one attribute, has a name such as "?"."""
    names = [part for name in groups for part in (name if isinstance(name, tuple) else (name,))]
    for text in filter(is_placeholder, dict.fromkeys(names)):
        warn(
            f"sensitive_features: {text!r} is a group like any other; if it means missing, give "
            f"replace({text!r}, None), and missing='group' to keep these rows.",
            PlaceholderWarning,
        )


def warn_if_among_features(X: pd.DataFrame, groups: Any) -> None:
    """Warn if X holds the groups of a rule that is meant to be blind."""
    if isinstance(groups, pd.DataFrame):
        columns = groups
    elif np.ndim(groups) == 2:
        columns = pd.DataFrame(np.asarray(groups))
    else:
        columns = pd.DataFrame({getattr(groups, "name", None): np.asarray(groups)})
    # A constant column is no secret.
    columns = columns.loc[:, (columns.nunique(dropna=False) > 1).to_numpy()]
    same = [
        feature
        for feature in X.columns
        if any(
            (isinstance(name, str) and feature == name)
            or np.array_equal(_comparable(X[feature]), _comparable(columns.iloc[:, k]))
            for k, name in enumerate(columns.columns)
        )
    ]
    if same:
        warn(
            f"sensitive_features: X holds them too, as {same[0]!r}, so the rule is not blind; leave the column out, or "
            "name it in the constructor."
        )


def _comparable(column: pd.Series) -> np.ndarray:
    """Return values that can be compared: NA is neither equal to anything nor different from it."""
    values = column.to_numpy()
    return mark_missing(values, "NaN") if values.dtype.kind == "O" else values


def warn_about_ids(X: Any, estimator: Any) -> None:
    """Warn about columns of a data frame that look like ids, unless the estimator chooses its columns itself."""
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    if not isinstance(X, pd.DataFrame) or any(isinstance(step, ColumnTransformer | TableEncoder) for step in steps):
        return
    if estimator is None and needs_encoder(X):  # which names the columns that it leaves out
        X = X[find_schema(X)[0].columns]
    for name, n_values in id_columns(X).items():
        warn(
            f"X: the column {name!r} looks like an id ({n_values} values among {len(X)} rows); leave it out, and where "
            "a person has several rows give it as cluster=."
        )


def warn_if_fitted(estimator: Any, advice: str) -> None:
    """Warn about an estimator that was fitted by the user, where only a clone of it is; advice : how to keep it."""
    if is_fitted(estimator):
        warn(f"estimator: is fitted already, and a clone of it is fitted again; to keep it as it is, {advice}.")


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator, or the last step of a pipeline, holds something that a fit has found and may lose."""
    if isinstance(estimator, Pipeline):
        return is_fitted(estimator.steps[-1][1])
    if isinstance(estimator, type | FrozenEstimator):
        return False
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return bool(estimator.__sklearn_is_fitted__())
    return any(name.endswith("_") and not name.startswith("_") for name in getattr(estimator, "__dict__", ()))
