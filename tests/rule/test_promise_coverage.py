"""Count broken promises in worlds with a known truth, beside the control that must break more of them.

A small version of `python -m experiments.coverage`: 60 samples of two worlds.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from experiments.coverage.settings import CONFIDENCE, CONTROL, make_world
from optfair import Constraint, OptFairPost
from optfair.constraints import compile_rows
from optfair.rule.tightening import FittedRows, PromiseSearch

RUNS, POPULATION = 60, 50_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "classes", "criterion", "tolerance", "n"), [(4, 3, "dp", 0.05, 10_000), (3, 3, "eo", 0.08, 16_000)]
)
def test_promises_are_kept_and_the_control_is_not(groups, classes, criterion, tolerance, n):
    world = make_world(groups, classes)
    X = world.sample(POPULATION, random_state=10**6).X.to_numpy()
    Z = world.joint_posterior(X)
    broken = {"plain": 0, "control": 0, "promise": 0}
    for seed in range(RUNS):
        data = world.sample(n, random_state=10_000 + seed)
        question = {"criterion": criterion, "tolerance": tolerance, "random_state": 0}
        model = OptFairPost(LogisticRegression(), **question)
        model.fit(data.X.to_numpy(), data.y, sensitive_features=data.sensitive_features)
        problem, plain = model._fitted.problem, model._fitted.solution
        search = PromiseSearch(problem, FittedRows(), CONFIDENCE, "sampled")
        first = search.trial(plain)
        promised, _ = search.search(first)
        assert promised is not None  # the tolerance is above the noise of the smallest group
        rules = {
            "plain": plain.rule,
            "control": search.tightened(first, CONTROL)[-1].solution.rule,
            "promise": promised.solution.rule,
        }
        posteriors = model.joint_posterior(X)
        rows = compile_rows([Constraint(criterion, tolerance)], plain.rule.groups, plain.rule.classes, Z.mean(axis=0))
        for name, rule in rules.items():
            J = np.einsum("xai,xj->aij", Z, rule.predict_proba(posteriors), optimize=True) / len(Z)
            broken[name] += bool(np.abs(rows.values(J)).max() > tolerance)
    limit = RUNS * (1 - CONFIDENCE) + 3 * np.sqrt(RUNS * CONFIDENCE * (1 - CONFIDENCE))
    assert broken["promise"] <= limit
    assert broken["promise"] < broken["control"] < broken["plain"], broken
