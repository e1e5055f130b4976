"""Labelled rows, populations with a known truth, and rates written out a second time."""

import numpy as np
import pandas as pd
import pytest

from optfair.constraints import Constraint, MinimumRate, Ratio, Rows
from optfair.metrics import GroupConfusion, group_confusion

KEY = ["criterion", "group", "against", "given", "outcome"]
KINDS = ["labels", "weighted", "soft"]
ROUNDING = 1e-12


def slow(*values):
    """Return parameters of a case that runs in the slow suite only."""
    return pytest.param(*values, marks=pytest.mark.slow)


# -- rows ----------------------------------------------------------------------------------------------------
def random_rows(seed, n=200, A=3, m=3):
    """Return (true classes, labels, probabilities, groups, weights); half of the weights are zero."""
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, A, n), rng.integers(0, m, n)
    label = np.where(rng.random(n) < 0.3 + 0.2 * (a == 0), y, rng.integers(0, m, n))
    return y, label, rng.dirichlet(np.ones(m), n), a, rng.random(n) * rng.integers(0, 2, n)


def biased_rows(rng, n):
    """Return (true classes, groups of unequal sizes, probabilities that depend on both)."""
    a, y = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(0, 3, n)
    logits = rng.standard_normal((n, 3)) + 1.5 * np.eye(3)[y] + 0.8 * np.eye(3)[a]
    return y, a, np.exp(logits) / np.exp(logits).sum(1, keepdims=True)


def rate(y, h, a, w, group, true_classes, outcome):
    """Return Σ w h[outcome] / Σ w over the rows of a group (None: all) with these true classes (None: any).

    outcome : a predicted class, or None for the true class of each row.
    """
    mask = np.ones(len(y), bool) if group is None else a == group
    mask = mask if true_classes is None else mask & np.isin(y, true_classes)
    hits = h[np.arange(len(y)), y] if outcome is None else h[:, outcome]
    return np.average(hits[mask], weights=w[mask])


def empty_cell():
    """Return (true classes, labels, groups): group "m" has no row of class 1."""
    return [0, 1, 0, 0], [0, 1, 1, 0], ["f", "f", "m", "m"]


# -- populations ---------------------------------------------------------------------------------------------
def from_counts(counts):
    """Return what group_confusion makes of unweighted labels with these counts.   counts: (A, m, m)"""
    n = counts.sum()
    groups, classes = (pd.Index(range(k)) for k in counts.shape[:2])
    return GroupConfusion(counts / n, groups, classes, counts.sum(-1), True, counts / n**2)


def draw_confusion(J, kind, rng, n):
    """Count n rows drawn from the population J; their predictions are labels, labels with weights, or soft."""
    if kind == "labels":
        return from_counts(rng.multinomial(n, J.ravel() / J.sum()).reshape(J.shape))
    return draw_rows(J, kind, rng, n)


def draw_rows(J, kind, rng, n):
    """Count n rows drawn one by one from the population J."""
    A, m, _ = J.shape
    P = J.sum(-1)
    cell = rng.choice(A * m, n, p=P.ravel() / P.sum())
    p = (J / P[..., None]).reshape(A * m, m)[cell]
    if kind == "soft":  # Dirichlet rows with mean p
        h = rng.gamma(4 * p)
        prediction = h / h.sum(1, keepdims=True)
    else:
        prediction = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    w = rng.lognormal(0, 0.7, n) if kind == "weighted" else None
    return group_confusion(
        cell % m, prediction, sensitive_features=cell // m, sample_weight=w, classes=range(m), groups=range(A)
    )


def random_prior(A, m, seed, groups=None):
    """Return P (A, m) with these shares of the groups, and the generator that drew it."""
    rng = np.random.default_rng(seed)
    groups = np.full(A, 1 / A) if groups is None else np.array(groups)
    return groups[:, None] * rng.dirichlet(np.full(m, 8.0), A), rng


def fair_population(criterion, A, m, groups=None, seed=0):
    """Return J in which the criterion holds exactly, and base rates differ between groups."""
    P, rng = random_prior(A, m, seed, groups)
    q = rng.dirichlet(np.full(m, 3.0), m)
    if criterion == "dp":
        q = np.broadcast_to(q[0], (m, m))
    if criterion in ("oae", "meo"):  # with these, every TPR, every FPR and the accuracy are the same in all groups
        q = np.where(np.eye(m) > 0, 0.7, 0.3 / (m - 1))
    return P[..., None] * q


def unfair_population(A, m, groups=None, seed=0):
    """Return J whose rates differ between groups."""
    P, rng = random_prior(A, m, seed, groups)
    return P[..., None] * (0.4 * np.eye(m) + 0.6 * rng.dirichlet(np.ones(m), (A, m)))


def population_with_a_distant_group():
    """Return J in which 90 % of the rows have error rates of 5 %, and predictions of one small group are coins."""
    P, _ = random_prior(4, 3, 0, [0.9, 0.04, 0.03, 0.03])
    q = np.broadcast_to(0.85 * np.eye(3) + 0.05, (4, 3, 3)).copy()
    q[1] = [0.5, 0.25, 0.25]
    return P[..., None] * q


# -- constraints ---------------------------------------------------------------------------------------------
def constraints_of_every_kind(A=3, m=3, seed=0):
    """Return gaps, ratios, minima and three rows of the user: random, one cell, the share of a group (a constant)."""
    D = np.zeros((3, A, m, m))
    D[0] = np.random.default_rng(seed).normal(size=(A, m, m))
    D[1, -1, 0, 1] = 1
    D[2, -1] = 1
    return [
        Constraint("eo", 0.1),
        Constraint("meo", 0.1, reference="pairwise", outcomes=[1]),
        Ratio("dp", 0.8),
        Ratio("eop", 0.5, reference="overall"),
        Ratio("oae", 0.9),
        MinimumRate("recall", 0.6),
        MinimumRate("selection", 0.2, outcomes=[0]),
        MinimumRate("accuracy", 0.6, by="overall"),
        Rows(D, lower=[-np.inf, 0.1, 0.2], upper=[0.1, np.inf, 0.3], names=["any", "dp", "share"]),
    ]
