"""Find the models of a classifier that are linear in encoded features, and write them as JSON for the scorers.

    P = softmax(x · slopes + intercepts),   x: the columns of a `TableEncoder`, or the features themselves

Scalers are multiplied out. Where some model is not linear there is nothing to write, and the scorers are given
posteriors instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.preprocessing import StandardScaler

from optfair.errors import ExportError
from optfair.export.encoder_plan import encoder_plan
from optfair.inputs.encoder import TableEncoder
from optfair.posteriors.logistic_stack import is_plain
from optfair.posteriors.models import FactoredModel, GivenGroupModel, JointModel
from optfair.posteriors.preprocessing import fitted_steps

SMALLEST = 1e-300  # a share of zero has no logarithm
Content = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Head:
    """Fitted steps of which the last one is a classifier, or none and constant shares; its classes are these cells."""

    steps: Sequence[Any]
    cells: np.ndarray
    size: int
    shares: np.ndarray | None = None

    @classmethod
    def of(cls, steps: Sequence[Any], cells: Any, size: int) -> Head:
        """Return the head of a model; a `DummyClassifier` says the same of everybody."""
        final, cells = steps[-1], np.asarray(cells)
        if type(final) is DummyClassifier:
            return cls((), cells, size, np.atleast_1d(np.asarray(final.class_prior_, dtype=np.float64)))
        return cls(steps, cells, size)


def linear_posterior(model: Any) -> Content | None:
    """Return the models of a fitted `OptFairPost` as the scorers read them; None where one of them is not linear."""
    posterior = model.posterior_model_
    if model.fold_models_ or not isinstance(posterior, JointModel | FactoredModel | GivenGroupModel):
        return None
    heads = _heads(posterior, len(model.groups_), len(model.classes_))
    all_heads = [heads["joint"], heads["classes"], *heads["groups"]]
    steps = [head.steps for head in all_heads if head is not None and head.steps]
    encoders = {id(part[0]): part[0] for part in steps if isinstance(part[0], TableEncoder)}
    if len(encoders) > 1 or (encoders and not all(isinstance(part[0], TableEncoder) for part in steps)):
        return None
    try:
        columns, size = _encoded(next(iter(encoders.values()))) if encoders else _plain(model)
    except ExportError:
        return None
    joint, classes, *groups = (None if head is None else _content(head, size) for head in all_heads)
    if not columns or not all([joint or classes, *groups]):
        return None
    names = {column["name"] for column in columns}
    unread = [str(name) for name in model._form.names if name not in names]  # known, such as the group, and left out
    return {"columns": columns, "unread": unread, "size": size, "joint": joint, "classes": classes, "groups": groups}


def _heads(posterior: Any, A: int, m: int) -> dict[str, Any]:
    """Return the models of a posterior: of the pair, or of the class and of the group in each class."""
    if isinstance(posterior, JointModel):
        cells = posterior.cells[np.asarray(posterior.model.classes_, dtype=int)]
        return {"joint": Head.of(fitted_steps(posterior.model), cells, A * m), "classes": None, "groups": []}
    classes = Head.of(fitted_steps(posterior.classes.model), posterior.classes.columns, m)
    if isinstance(posterior, GivenGroupModel):
        return {"joint": None, "classes": classes, "groups": [Head((), np.arange(A), A, np.full(A, 1 / A))] * m}
    models = posterior.groups
    common_steps = [] if models.transformer is None else fitted_steps(models.transformer)
    groups = [
        Head((), np.arange(A), A, shares) if inner is None else Head.of([*common_steps, *fitted_steps(inner)], cells, A)
        for inner, cells, shares in zip(models.models, models.columns, models.shares, strict=True)
    ]
    return {"joint": None, "classes": classes, "groups": groups}


def _content(head: Head, size: int) -> Content | None:
    """Return a head as a softmax of sums of ``size`` columns; None where it is none."""
    cells = {"cells": head.cells.tolist(), "size": head.size}
    if head.shares is not None:
        logs = np.log(np.maximum(head.shares, SMALLEST)).tolist()
        return {"slopes": np.zeros((size, len(logs))).tolist(), "intercepts": logs, **cells}
    *steps, final = head.steps
    scalers = [step for step in steps if type(step) is not TableEncoder]
    if not is_plain(final, size) or not all(type(step) is StandardScaler for step in scalers):
        return None
    n_zeros = len(final.classes_) - len(final.coef_)  # two classes have one score: that of the other is zero
    slopes = np.vstack([np.zeros((n_zeros, size)), final.coef_])
    intercepts = np.append(np.zeros(n_zeros), final.intercept_)
    for scaler in reversed(scalers):
        slopes = slopes if scaler.scale_ is None else slopes / scaler.scale_
        intercepts = intercepts if scaler.mean_ is None or not scaler.with_mean else intercepts - slopes @ scaler.mean_
    return {"slopes": slopes.T.tolist(), "intercepts": intercepts.tolist(), **cells}


def _encoded(encoder: TableEncoder) -> tuple[list[Content], int]:
    """Return what the scorers make of each column of an encoder, and how many columns that gives."""
    plan = encoder_plan(encoder)
    columns: list[Content] = [
        {"name": number.name, "place": k, "median": number.median, "gap": number.gap}
        for k, number in enumerate(plan.numbers)
    ]
    for text in plan.texts:
        levels = {"levels": text.places, "other": text.other, "missing": text.missing}
        columns.append({"name": text.name, "place": None, "median": None, "gap": None, **levels})
    return columns, plan.size


def _plain(model: Any) -> tuple[list[Content], int]:
    """Return the columns of a table of numbers, or of an array, without those that a blind rule leaves out."""
    source, form = model.sensitive_features, model._form
    left_out = source if isinstance(source, list) else [source]
    if model.awareness == "aware" or source is None:
        left_out = []
    elif not form.names or not all(isinstance(name, str) for name in left_out):
        return [], 0
    names: list[Any] = [n for n in form.names if n not in left_out] or [None] * int(getattr(model, "n_features_in_", 0))
    column = {"median": None, "gap": None}
    return [{"name": name, "place": k, **column} for k, name in enumerate(names)], len(names)
