"""Populations whose best response is known, rows drawn from a small world, and learners that tell what they were given.

A population is the joint distribution P[x, a, i] of finitely many x, groups and classes. Its rows are the cells, with
weights, and the learner is a table of all x: so the best response is known for every λ, and a linear program knows the
value of the game.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from optfair import OptFairIn
from optfair.constraints import as_constraints
from optfair.inprocessing.learners import make_learner
from optfair.inprocessing.setup import make_game
from optfair.inputs.reading import read_training_data
from tests.problems import gaps, linear_program, linear_rows

# Few rounds, to save time: how close they come to the bounds is the subject of few tests.
FEW_ROUNDS = "ignore:tolerance. training ended outside"
OVERFITS = "ignore:estimator. overfits"  # which is easy with so few rows


# -- populations -------------------------------------------------------------------------------------------
class TableClassifier(ClassifierMixin, BaseEstimator):
    """The exact minimiser of the weighted cross-entropy when X is one-hot: the share of each class at each x."""

    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.classes_, code = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        mass = np.bincount(X.argmax(axis=1) * k + code, w, X.shape[1] * k).reshape(-1, k)
        self.shares_ = (mass + 1e-300) / (mass + 1e-300).sum(axis=1, keepdims=True)
        return self

    def predict_proba(self, X):
        return self.shares_[X.argmax(axis=1)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def population(seed, n_x=8, A=3, m=3):
    """Return P[x, a, i]: groups differ in their x and in their rates."""
    rng = np.random.default_rng(seed)
    given = rng.dirichlet(np.full(m, 1.0), (n_x, A))
    own = rng.dirichlet(np.full(n_x, 1.0), A).T * rng.dirichlet(np.full(A, 8.0))
    P = own[:, :, None] * given + 0.2 / (n_x * A * m)
    return P / P.sum()


def population_rows(P, copies=2):
    """Return (X one-hot, y, groups, weights): so many rows of each cell, which weigh a thousand times its share."""
    x, a, i = (np.repeat(index.ravel(), copies) for index in np.indices(P.shape))
    return np.eye(len(P))[x], i, a, 1000 * np.repeat(P.ravel(), copies) / copies


def read_population(P):
    """Return the rows of a population as training data."""
    X, y, a, w = population_rows(P)
    return read_training_data(X, y, lambda: a, a, w, len(y), "the test")


def population_game(P, criterion="dp", tolerance=0.02, cap=3.0):
    """Return the game on a population."""
    return replace(make_game(read_population(P), as_constraints(criterion, tolerance), None), cap=cap)


def table_learner(P):
    """Return the learner whose responses are best."""
    return make_learner(TableClassifier(), read_population(P), None, 0, 1, "error")


def fit_population(P, **options):
    """Return `OptFairIn` with the table as its learner, fitted on a population."""
    X, y, a, w = population_rows(P)
    settings = {"rounds": 1, "start": "zero", "max_multiplier": 3.0, "random_state": 0} | options
    return OptFairIn(TableClassifier(), **settings).fit(X, y, sensitive_features=a, sample_weight=w)


def naive_rows(criterion, P, table=None):
    """Return D (K, A, m, m) from the definitions, in the order of the library's table if one is given."""
    prior = P.sum(axis=0)
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), prior).reshape(-1, *prior.shape, prior.shape[1])
    if table is None:
        return D
    names = list(gaps(criterion, np.zeros((*prior.shape, prior.shape[1])), prior))
    return D[[names.index(name) for name in table[["group", "against", "given", "outcome"]].itertuples(index=False)]]


def best_value(P, D, lower, upper, utility=None):
    """Return the value of the best rule with lower ≤ D vec(J) ≤ upper, by scipy's linear program."""
    mass = P.sum(axis=(1, 2))
    D = np.reshape(D, (-1, P[0].size * P.shape[2]))
    return linear_program(P / mass[:, None, None], D, lower, upper, mass, utility).value


def class_scores(P, D, lam):
    """Return β^λ(x) = Σ over the cells (a, i) of x of their share times W(λ), (n_x, m), from the definitions."""
    W = np.eye(P.shape[2]) - np.einsum("k,kaij->aij", lam, D)
    return np.einsum("xai,aij->xj", P, W)


# -- rows of a small world ---------------------------------------------------------------------------------
CLASSES = np.array(list("abc"))


def draw_rows(n=240, seed=0, shift=1.2):
    """Return (table, classes): two groups that differ in x1, three classes that follow it; "old" follows nothing."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[shift * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    old = rng.random(n) < 0.5
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex], "old": old}), CLASSES[y]


FRAME, Y = draw_rows()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
XA, CODE = X.to_numpy(), np.searchsorted(CLASSES, Y)
CELL = 3 * (SEX == "m").to_numpy() + CODE
X_NEW, SEX_NEW = draw_rows(seed=1)[0][["x1", "x2"]], draw_rows(seed=1)[0]["sex"]
WEIGHT = np.random.default_rng(2).integers(1, 4, len(Y)).astype(float)


def draw_groups(n, classes=3, seed=0):
    """Return (X of four columns, class codes, groups): the classes follow two columns, the groups differ in one."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n, p=[0.6, 0.4])
    X = rng.standard_normal((n, 4)) + np.outer(group == "b", [0.9, 0, 0, 0])
    edges = np.linspace(-0.8, 1.2, classes - 1)
    return X, np.digitize(X[:, 0] + X[:, 1] + 0.7 * rng.standard_normal(n), edges), group


def quick(estimator=None, **options):
    """Return an `OptFairIn` of few rounds that starts at zero, without a quick model."""
    estimator = LogisticRegression() if estimator is None else estimator
    settings = {"rounds": 3, "random_state": 0, "start": "zero", "max_multiplier": 2.0, "step": 0.5}
    if isinstance(options.get("criterion", "dp"), str):  # constraint objects have bounds of their own
        settings["tolerance"] = 0.05
    return OptFairIn(estimator, **settings | options)


def fit(model, **more):
    """Fit a model on the rows of the small world."""
    return model.fit(X, Y, sensitive_features=SEX, **more)


def read_rows(X=X, y=Y, groups=SEX, weight=None):
    """Return rows as training data."""
    return read_training_data(X, y, lambda: groups, groups, weight, len(y), "the test")


def same_run(one, other, rows=X):
    """Compare two fitted models bit for bit."""
    for name in ("multipliers", "confusions", "steps", "next"):
        np.testing.assert_array_equal(getattr(one.trace_, name), getattr(other.trace_, name))
    np.testing.assert_array_equal(one.predict_proba(rows), other.predict_proba(rows))
    np.testing.assert_array_equal(one.plain_(rows), other.plain_(rows))
    np.testing.assert_array_equal(one.predict(rows), other.predict(rows))


# -- learners ----------------------------------------------------------------------------------------------
class RecordingTree(DecisionTreeClassifier):
    """Records what each fit was given."""

    fits: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        self.fits.append((X, y, sample_weight))
        return super().fit(X, y, sample_weight=sample_weight)


def city_block_distance(a, b):
    return np.abs(a - b).sum()


def neighbours_by_function():
    """Return a classifier that was given a function, and takes no weights."""
    return KNeighborsClassifier(3, metric=city_block_distance)
