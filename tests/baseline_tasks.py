"""The tasks that every baseline is checked on: Adult as in the paper, and one with three classes and three groups."""

from functools import cache

import numpy as np

from optfair.datasets import load, make_fair_classification
from optfair.metrics import violation

CRITERIA = ("dp", "eop", "eo")


@cache
def three_by_three(n=4000, seed=0):
    """(X, y, groups) of n people for training, and as many for judging: 3 classes, 3 groups, a bias in the features."""
    world = make_fair_classification(2 * n, 6, n_classes=3, n_groups=3, bias=1.5, separation=1.0, random_state=seed)
    X, y, group = np.asarray(world.X), np.asarray(world.y), np.asarray(world.sensitive_features)
    return (X[:n], y[:n], group[:n]), (X[n:], y[n:], group[n:])


@cache
def adult(seed=1):
    """Train and test (X, y, groups) of Adult, in the authors' split: 60/40, numpy's legacy stream at 1 + seed."""
    data = load("adult")
    X = data.X.to_numpy(dtype=float)
    y, group = data.y.to_numpy(dtype=str), data.sensitive_features.to_numpy(dtype=str)
    order = np.random.RandomState(1 + seed).permutation(len(y))  # their generator, on purpose
    parts = order[: int(0.6 * len(y))], order[int(0.6 * len(y)) :]
    return tuple((X[part], y[part], group[part]) for part in parts)


def measured(model, people, criterion, reference="overall"):
    """(accuracy, violation) of a model's answers on labelled people."""
    X, y, group = people
    answers = model.predict(X)
    gap = violation(y, answers, sensitive_features=group, criterion=criterion, reference=reference)
    return float((answers == y).mean()), gap
