"""Compare `OptFairIn` on Adult with the numbers of the authors' released code, on their split."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from optfair import OptFairIn
from optfair.metrics import group_confusion

# (accuracy, violation) of the authors' released in-processing on this split, mean of seeds 1-3, and the tolerance we
# ask for; one seed varies by .001 and .005.
RELEASED = {("dp", 0.001): (0.8261, 0.0067), ("dp", 0.01): (0.8294, 0.0157), ("eo", 0.025): (0.8495, 0.0301)}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")
@pytest.mark.filterwarnings("ignore:tolerance. training ended outside")
@pytest.mark.parametrize(("criterion", "tolerance"), RELEASED)
def test_adult_reaches_what_the_released_code_reaches(data_dir, criterion, tolerance):
    from experiments.timings.adult import adult

    accuracies, violations = [], []
    for seed in (1, 2, 3):
        train, test = adult(seed)
        learner = LogisticRegression(C=100, max_iter=20)
        model = OptFairIn(learner, criterion=criterion, tolerance=tolerance, rounds=20, random_state=seed)
        model.fit(sparse.csr_array(train.X), train.y, sensitive_features=train.group)
        h = model.predict_proba(sparse.csr_array(test.X))
        confusion = group_confusion(test.y, h, sensitive_features=test.group, classes=model.classes_)
        accuracies.append(np.trace(confusion.tensor.sum(axis=0)))
        violations.append(confusion.violation(criterion))
    accuracy, violation = RELEASED[criterion, tolerance]
    assert np.mean(accuracies) > accuracy - 0.0015
    assert np.mean(violations) < violation + 0.003
