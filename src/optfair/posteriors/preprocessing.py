"""Find preprocessing that models have in common, so that it runs once and not once for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from optfair.inputs.encoder import TableEncoder

# Steps that learn nothing from y: what they make of X is as useful to a model of the group as to one of the class.
BLIND_TO_Y = (FrozenEstimator, StandardScaler, TableEncoder)


def fitted_steps(model: Any) -> list[Any]:
    """Return the steps of a fitted Pipeline, those of Pipelines inside it too; any other model is one step.

    A sub-class of Pipeline is one step: it may predict in its own way.
    """
    if isinstance(model, FrozenEstimator):
        return fitted_steps(model.estimator)
    if type(model) is not Pipeline:
        return [model]
    return [part for _, step in model.steps if step not in (None, "passthrough") for part in fitted_steps(step)]


def count_shared(steps: Sequence[Any], other_steps: Sequence[Any]) -> int:
    """Return how many steps, from the first one on, are the same objects in both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], zip(steps, other_steps, strict=False)))


def count_leading(estimator: Any, *kinds: type) -> int:
    """Return how many steps of a Pipeline, from the first one on, are of these types; the last step is not counted.

    A step that writes into X (``copy=False``) ends them: run again, it would find another X.
    """
    if type(estimator) is not Pipeline:
        return 0
    steps = (step for _, step in estimator.steps[:-1])
    return sum(1 for _ in takewhile(lambda step: type(step) in kinds and not writes_into_rows(step), steps))


def writes_into_rows(model: Any) -> bool:
    """Tell whether a step of a model, or what is frozen in it, may change the rows it is given."""
    return any(getattr(part, "copy", True) is False for part in fitted_steps(model))


def transform(X: Any, steps: Iterable[Any]) -> Any:
    """Return what fitted steps make of X, one after the other."""
    for step in steps:
        X = step.transform(X)
    return X
