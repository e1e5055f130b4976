"""Share people, predictions and reports among the tests of `optfair.reporting`."""

import numpy as np

from optfair import audit

CLASSES = np.array(["low", "mid", "high"])
GROUPS = np.array(["A", "B", "C"])


def people(n=1500, seed=0, groups=GROUPS, classes=CLASSES):
    """Return (group, true class, answer before, answer after) of n people, a third of the answers random."""
    rng = np.random.default_rng(seed)
    group, y = groups[rng.integers(0, len(groups), n)], classes[rng.integers(0, len(classes), n)]
    before, after = (np.where(rng.random(n) < 0.65, y, classes[rng.integers(0, len(classes), n)]) for _ in range(2))
    return group, y, before, after


def report_of(criterion="dp", tolerance=0.1, n=1500, seed=0, groups=GROUPS, classes=CLASSES, **options):
    """Return the report of an audit, before and after."""
    group, y, before, after = people(n, seed, groups, classes)
    question = {"criterion": criterion, "tolerance": tolerance, **options}
    return audit(y, after, before=before, sensitive_features=group, **question)
