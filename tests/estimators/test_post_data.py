"""Check `OptFairPost` on real data: Adult as the authors of the paper prepare and split it, and the ENEM exam."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from optfair.datasets import load
from optfair.metrics import group_confusion

pytestmark = pytest.mark.data

# (accuracy, violation) of the authors' released code on this split, mean of seeds 1-3; one seed varies by .001, .005.
RELEASED = {("dp", 0.01): (0.8331, 0.0134), ("dp", 0.05): (0.8427, 0.0506), ("eo", 0.01): (0.8461, 0.0264)}


def load_parts(name, order_of):
    """Return X, y and groups of 60 % of the rows, for training, and of the others; order_of : n -> order of rows."""
    data = load(name)
    # float64 whatever `load` chose: solvers compute in the precision they are given.
    columns = data.X.to_numpy(dtype=float), data.y.to_numpy(dtype=str), data.sensitive_features.to_numpy(dtype=str)
    order = order_of(len(data.y))
    cut = int(0.6 * len(order))
    return tuple(tuple(column[rows] for column in columns) for rows in (order[:cut], order[cut:]))


def measure(model, X, y, groups):
    """Return the accuracy of the probabilities of a model, and its confusion with groups."""
    confusion = group_confusion(y, model.predict_proba(X), sensitive_features=groups, classes=model.classes_)
    return float(np.trace(confusion.tensor.sum(axis=0))), confusion


@pytest.mark.slow
def test_adult_reaches_what_the_released_code_reaches_and_more(data_dir):
    train, test = load_parts("adult", np.random.RandomState(2).permutation)  # the authors' generator, at 1 + seed
    model = OptFairPost(LogisticRegression(C=10, solver="newton-cholesky"), cv=2, random_state=0)
    model.fit(train[0], train[1], sensitive_features=train[2])
    for (criterion, _), (accuracy, violation) in RELEASED.items():
        ours, confusion = measure(model.with_criterion(criterion, violation - 0.001), *test)
        assert ours >= accuracy - 0.004
        assert confusion.violation(criterion) <= violation + 0.008
    found = [measure(model.with_criterion("eo", 0.005), *test)]
    for seed in (3, 4):  # one split shows .004 to .025
        train, test = load_parts("adult", np.random.RandomState(seed).permutation)
        model.fit(train[0], train[1], sensitive_features=train[2])
        found.append(measure(model.with_criterion("eo", 0.005), *test))
    violation = np.mean([confusion.violation("eo") for _, confusion in found])
    assert violation < 0.015 and min(ours for ours, _ in found) > 0.83  # out of reach of the released code


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_enem_is_within_tolerance_and_noise(data_dir, criterion):
    pytest.importorskip("pyarrow")
    train, test = load_parts("enem-2019", np.random.default_rng(0).permutation)
    base = LogisticRegression(C=0.01, max_iter=1000)
    model = OptFairPost(base, criterion=criterion, tolerance=0.03, cv=2, random_state=0)
    model.fit(train[0], train[1], sensitive_features=train[2])
    report = model.report(test[0], test[1], sensitive_features=test[2])
    plain, _, decided, fair = (metrics.interval for metrics in report.measured)
    for ours in (decided, fair):
        assert ours.value <= 0.03 + ours.noise_floor
        assert ours.lower <= 0.03
        assert plain.value > ours.value
    assert plain.value > plain.noise_floor
