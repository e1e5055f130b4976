"""A tighter tolerance never gives a rule that is less accurate and less fair on new people, beyond noise."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, OptFairPost
from optfair.datasets import load
from optfair.metrics import group_confusion

QUESTIONS = (
    {"criterion": "eo", "reference": "pairwise", "attributes": "marginals"},
    {"criterion": "dp", "reference": "overall", "attributes": "intersections"},
)
TOLERANCES = (0.1, 0.03, 0.01, 0.003, 0.001)
# With 10 splits a rise is .013 or none, by how chance deals people to folds.
N_TRAIN, N_TEST, SEEDS = 4000, 20_000, 20
NOISE = 0.01  # of a mean over these splits, beside its standard error


@pytest.fixture(scope="module")
def people():
    """Return X, y, and groups by sex, race and thirds of age: twelve, some of a hundred people."""
    data = load("adult-occupation")
    groups = data.sensitive_features.reset_index(drop=True).astype(str)
    groups["age"] = pd.qcut(data.X["age"].to_numpy(), 3, labels=False).astype(str)
    return data.X.to_numpy(float), np.asarray(data.y), groups


def paths(people, calibration):
    """Return accuracy and violation on new people, (questions, seeds, tolerances, 2); a model answers all questions."""
    X, y, groups = people
    out = np.empty((len(QUESTIONS), SEEDS, len(TOLERANCES), 2))
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:N_TRAIN], order[N_TRAIN : N_TRAIN + N_TEST]
        options = {"calibration": calibration, "posterior": "factored", "cv": 3, "tolerance": 0.5, "random_state": 0}
        model = OptFairPost(**options).fit(X[train], y[train], sensitive_features=groups.iloc[train])
        Z = model.joint_posterior(X[test])
        features, classes = groups.iloc[test], model.classes_.tolist()
        for (q, question), (k, tolerance) in product(enumerate(QUESTIONS), enumerate(TOLERANCES)):
            h = model.with_criterion(Constraint(tolerance=tolerance, **question)).rule_.predict_proba(Z)
            confusion = group_confusion(y[test], h, sensitive_features=features, classes=classes)
            out[q, seed, k] = np.trace(confusion.tensor.sum(axis=0)), confusion.violation(**question)
    return out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rates are left out", "ignore:.*hardly anybody a class")
@pytest.mark.parametrize("calibration", ["posterior", "groups"])
def test_tightening_never_makes_a_rule_both_less_accurate_and_less_fair(people, calibration):
    """Bounds moved by labels in rounds failed this: .0195 and .0147 of violation, nearly four points of accuracy."""
    for path in paths(people, calibration):
        for loose, tight in combinations(range(len(TOLERANCES)), 2):
            change = path[:, tight] - path[:, loose]
            mean, error = change.mean(axis=0), change.std(axis=0, ddof=1) / np.sqrt(SEEDS)
            assert mean[0] > -2 * error[0] or mean[1] < 2 * error[1] or mean[1] < NOISE
        assert path[:, -1, 1].mean() < path[:, 0, 1].mean()  # and the tightest is fairer than the loosest
