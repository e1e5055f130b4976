"""Fit where the groups of some people are unknown: what is refused, who is counted, and how likely each group is."""

from __future__ import annotations

import numpy as np
import pandas as pd

from optfair.dual.posterior import Posterior
from optfair.errors import brief_repr
from optfair.inputs.alignment import check_same_rows
from optfair.inputs.labels import EVERYBODY, MISSING_CHOICES
from optfair.inputs.training_data import TrainingData
from optfair.metrics.counts import ConfusionCounts, count_codes

CHOICES_WITH_INFER = (*MISSING_CHOICES, "infer")


def check_inference(data: TrainingData, confidence: float | None) -> None:
    """Refuse to promise anything where some groups are unknown: the error of what is inferred cannot be told."""
    if confidence is not None and data.n_unknown:
        raise ValueError(
            f"confidence={brief_repr(confidence)}: nothing is promised where groups are inferred, and {data.n_unknown} "
            f"of {len(data.y)} rows have none; leave it out, or fit on those of known group."
        )


def count_answers(
    data: TrainingData, posterior: Posterior, codes: np.ndarray
) -> tuple[ConfusionCounts, ConfusionCounts]:
    """Count predictions, (n,) codes, of people of known group by group, and of everybody as one group."""
    weight, classes, cluster = posterior.weight, posterior.classes, data.cluster
    total = count_codes(np.zeros_like(data.y), data.y, codes, weight, pd.Index([EVERYBODY]), classes, cluster)
    index = np.flatnonzero(data.is_known)
    weight, cluster = (None if part is None else part[index] for part in (weight, cluster))
    return count_codes(data.a[index], data.y[index], codes[index], weight, posterior.groups, classes, cluster), total


def group_posterior(Z: np.ndarray, label: np.ndarray | None) -> np.ndarray:
    """Return P(A | X, Y), (n, A), from z(x), (n, A, m), and true classes (n,); P(A | X) without them.

    P(A | X) too where the model holds the true class for impossible.
    """
    P = Z.sum(axis=2)
    if label is None:
        return np.asarray(P)
    check_same_rows(X=P, y=label)
    joint = Z[np.arange(len(Z)), :, label]
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(joint, total, out=P, where=total > 0))
