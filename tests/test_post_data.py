"""OptFairPost on real people: Adult as the paper's authors prepare and split it, and the ENEM exam."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from optfair import OptFairPost
from optfair.metrics import group_confusion

pytestmark = pytest.mark.data

# (accuracy, violation) of the authors' released code on this split, mean of seeds 1-3; one seed varies by .001, .005.
RELEASED = {("dp", 0.01): (0.8331, 0.0134), ("dp", 0.05): (0.8427, 0.0506), ("eo", 0.01): (0.8461, 0.0264)}


def measured(model, X, y, group):
    found = group_confusion(y, model.predict_proba(X), sensitive_features=group, classes=model.classes_)
    return float(np.trace(found.tensor.sum(axis=0))), found


@pytest.mark.slow
def test_adult_reaches_what_the_released_code_reaches_and_more(data_dir):
    from splits import arrays, authors_split

    data = arrays("adult")
    train, test = authors_split(len(data.y), 1)
    base = LogisticRegression(C=10, solver="newton-cholesky")
    model = OptFairPost(base, cv=2, random_state=0)
    model.fit(data.X[train], data.y[train], sensitive_features=data.group[train])
    for (criterion, _), (accuracy, violation) in RELEASED.items():
        ours = model.with_criterion(criterion, violation - 0.001)
        found, confusion = measured(ours, data.X[test], data.y[test], data.group[test])
        assert found >= accuracy - 0.004
        assert confusion.violation(criterion) <= violation + 0.008
    strict = model.with_criterion("eo", 0.005)
    found, confusion = measured(strict, data.X[test], data.y[test], data.group[test])
    assert confusion.violation("eo") < 0.015 and found > 0.83  # out of reach of the released code


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_enem_is_within_tolerance_and_noise(data_dir, criterion):
    from splits import arrays, random_split

    data = arrays("enem")
    train, test = random_split(len(data.y), 0)
    model = OptFairPost(
        LogisticRegression(C=0.01, max_iter=1000), criterion=criterion, tolerance=0.03, cv=2, random_state=0
    )
    model.fit(data.X[train], data.y[train], sensitive_features=data.group[train])
    report = model.report(data.X[test], data.y[test], sensitive_features=data.group[test])
    plain, decided, fair = (one.interval for one in report.measured)
    for ours in (decided, fair):
        assert ours.value <= 0.03 + ours.noise_floor
        assert ours.lower <= 0.03
    assert plain.value > ours.value and plain.value > plain.noise_floor
