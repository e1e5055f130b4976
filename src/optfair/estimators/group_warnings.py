"""Warn about groups that look like missing values, and about features that give a group away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import PlaceholderWarning, warn
from optfair.inputs.cells import mark_missing
from optfair.inputs.placeholders import is_placeholder


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
    columns = columns[[name for name in columns.columns if columns[name].nunique(dropna=False) > 1]]
    same = [
        feature
        for feature in X.columns
        if any(
            (isinstance(name, str) and feature == name)
            or np.array_equal(_comparable(X[feature]), _comparable(columns[name]))
            for name in columns.columns
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
