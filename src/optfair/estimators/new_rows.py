"""Bring rows to be predicted into the form of those that a classifier was fitted on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optfair.errors import brief_names, warn
from optfair.inputs.containers import has_columns

if TYPE_CHECKING:
    from optfair.estimators.base import FairClassifier


def conform_rows(model: FairClassifier, X: Any) -> Any:
    """Return rows in the form of those fitted on: columns by name, missing values written as they were.

    Columns that the model does not read are left out, and named in a warning.
    """
    optional = [name for name in _sources(model) if isinstance(name, str)] if model.awareness == "blind" else []
    further = model._form.further_columns(X)
    rows = model._form.conform(X, optional)
    if further and rows is not X:
        columns = "1 column is" if len(further) == 1 else f"{len(further)} columns are"
        warn(f"X: {columns} not read by the model, and left out: {brief_names(further)}.")
    return rows


def is_complete(model: FairClassifier, X: Any) -> bool:
    """Tell whether X has its sensitive columns, if any: a blind rule does without them."""
    source = model.sensitive_features
    return source is None or has_columns(X, source, getattr(model, "n_features_in_", None))


def check_other_columns(model: FairClassifier, X: Any) -> None:
    """Check that a frame without its sensitive columns has all the others, in order."""
    source = _sources(model)
    expected = [name for name in getattr(model, "feature_names_in_", ()) if name not in source]
    columns = list(getattr(X, "columns", expected))
    if expected and columns != expected and all(isinstance(name, str) for name in source):
        raise ValueError(f"X: has the columns {columns!r}; expected those of fit, in order: {expected!r}.")


def _sources(model: FairClassifier) -> list[Any]:
    source = model.sensitive_features
    return source if isinstance(source, list) else [source]
