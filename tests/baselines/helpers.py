"""Data, quick models and measures that the tests of the baselines share."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair.baselines import ERM, METHODS
from optfair.datasets import load, make_fair_classification
from optfair.metrics import violation

CRITERIA = ("dp", "eop", "eo")
PAPER = ("ERM", "AdvDebias", "WeightedERM", "FairBatch", "FDivergence", "FairProjection", "LinearPost", "Frappe")
COMPARING = [name for name in PAPER if METHODS[name].criteria]
NEED_TORCH = [name for name in PAPER if METHODS[name].needs == "torch"]
POSTERIOR = ("FairProjection", "LinearPost")


# -- data ---------------------------------------------------------------------------------------------------
@cache
def three_by_three(n=4000, seed=0):
    """Return (X, y, groups) of n rows for training, and as many for tests: 3 classes, 3 groups, biased features."""
    world = make_fair_classification(2 * n, 6, n_classes=3, n_groups=3, bias=1.5, separation=1.0, random_state=seed)
    X, y, group = np.asarray(world.X), np.asarray(world.y), np.asarray(world.sensitive_features)
    return (X[:n], y[:n], group[:n]), (X[n:], y[n:], group[n:])


@cache
def adult(seed=1):
    """Return train and test (X, y, groups) of Adult, in the authors' split: 60/40, numpy's legacy seed 1 + seed."""
    data = load("adult")
    X = data.X.to_numpy(dtype=float)
    y, group = data.y.to_numpy(dtype=str), data.sensitive_features.to_numpy(dtype=str)
    order = np.random.RandomState(1 + seed).permutation(len(y))  # their generator, on purpose
    parts = order[: int(0.6 * len(y))], order[int(0.6 * len(y)) :]
    return tuple((X[part], y[part], group[part]) for part in parts)


def two_group_data(n=240, seed=0):
    """Return (X, y, groups) of three classes and the groups "f" and "m"."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 2)) + np.c_[1.2 * a, np.zeros(n)]
    return X, np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2]), np.array(["f", "m"])[a]


def three_group_data(n=400, seed=0):
    """Return (X, y, groups) of three classes and three groups, which differ in one feature each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 3)) + 0.8 * np.eye(3)[group]
    return X, np.digitize(X[:, 0] + 0.5 * rng.standard_normal(n), [0, 1]), group


def three_group_frame(n=240, seed=0):
    """Return (X, y, groups) with names: a data frame, the classes "a", "b", "c", the groups "f", "m", "x"."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    x = rng.standard_normal((n, 2)) + np.c_[0.7 * group, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1]}), np.array(list("abc"))[y], np.array(["f", "m", "x"])[group]


def coded_data(n=200, seed=0, m=3, A=3):
    """Return (X, y, groups) as codes: three features tell of both, the fourth of neither."""
    rng = np.random.default_rng(seed)
    a, y = rng.integers(0, A, n), rng.integers(0, m, n)
    return rng.standard_normal((n, 4)) + np.c_[y, a, y * a, 0 * y], y, a


# -- models -------------------------------------------------------------------------------------------------
def load_method(name):
    """Return the class of a method; skip the test where the package that it needs is absent."""
    if METHODS[name].needs is not None:
        pytest.importorskip(METHODS[name].needs)
    return METHODS[name].load()


def quick_options(name, **settings):
    """Return arguments that make a method quick: few epochs, rounds or folds. settings : of TorchClassifier."""
    if METHODS[name].needs == "torch":
        from optfair.nn import TorchClassifier

        network = TorchClassifier(**{"epochs": 3, "batch_size": 64} | settings)
        return {"adjustment" if name == "Frappe" else "estimator": network}
    if name == "WeightedERM":
        return {"rounds": 3}
    return {"cv": 2} if name in POSTERIOR else {}


def quick(name, **options):
    """Return a method for tests of anything but its quality."""
    kind = load_method(name)
    return kind(**{"random_state": 0} | quick_options(name) | options)


def quick_regression():
    """Return the default estimator of the methods, to a tolerance that suffices for Adult in a third of the time."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, tol=1e-3))


def fit_rows(model, rows):
    """Return the model, fitted to (X, y, groups)."""
    X, y, group = rows
    return model.fit(X, y, sensitive_features=group)


@cache
def default_fit(name, criterion):
    """Return a method with its defaults, fitted to `three_by_three`."""
    # Terms by label are many: half the draws for each take half the time.
    options = {"group_batch": 32} if name == "Frappe" and criterion != "dp" else {}
    return fit_rows(load_method(name)(criterion=criterion, random_state=0, **options), three_by_three()[0])


@cache
def plain_regression():
    """Return logistic regression fitted to `three_by_three`."""
    X, y, _ = three_by_three()[0]
    return ERM(LogisticRegression()).fit(X, y)


@cache
def plain_network(data):
    """Return the default network of the baselines with plain training. data : `three_by_three` or `adult`."""
    from optfair.baselines.networks.network import default_network

    X, y, _ = data()[0]
    return ERM(default_network(len(y)), random_state=0).fit(X, y)


# -- measures -----------------------------------------------------------------------------------------------
def evaluate(model, rows, criterion, reference="overall"):
    """Return (accuracy, violation) of the predictions of a model on (X, y, groups)."""
    X, y, group = rows
    predictions = model.predict(X)
    gap = violation(y, predictions, sensitive_features=group, criterion=criterion, reference=reference)
    return float((predictions == y).mean()), gap


def soft_violation(model, rows, criterion):
    """Return the violation of the probabilities of a model on (X, y, groups)."""
    X, y, group = rows
    h = model.predict_proba(X)
    return violation(y, h, sensitive_features=group, criterion=criterion, classes=model.classes_.tolist())
