"""OptFairIn on real people: Adult as the paper's authors prepare and split it."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from optfair import OptFairIn
from optfair.metrics import group_confusion

pytestmark = pytest.mark.data

# (accuracy, violation) of the authors' released in-processing on this split, mean of seeds 1-3, and the tolerance we
# ask for; one seed varies by .001 and .005.
RELEASED = {("dp", 0.001): (0.8261, 0.0067), ("dp", 0.01): (0.8294, 0.0157), ("eo", 0.025): (0.8495, 0.0301)}


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")
@pytest.mark.parametrize(("criterion", "tolerance"), RELEASED)
def test_adult_reaches_what_the_released_code_reaches(data_dir, criterion, tolerance):
    from splits import arrays, authors_split

    data = arrays("adult")
    X = sparse.csr_array(data.X)
    accuracies, violations = [], []
    for seed in (1, 2, 3):
        train, test = authors_split(len(data.y), seed)
        base = LogisticRegression(C=100, max_iter=20)
        model = OptFairIn(base, criterion=criterion, tolerance=tolerance, rounds=20, random_state=seed)
        model.fit(X[train], data.y[train], sensitive_features=data.group[train])
        found = group_confusion(
            data.y[test],
            model.predict_proba(X[test]),
            sensitive_features=data.group[test],
            classes=model.classes_,
        )
        accuracies.append(np.trace(found.tensor.sum(axis=0)))
        violations.append(found.violation(criterion))
    accuracy, violation = RELEASED[criterion, tolerance]
    assert np.mean(accuracies) > accuracy - 0.0015
    assert np.mean(violations) < violation + 0.003
