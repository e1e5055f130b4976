"""Walk the path of tolerances: one fit, then a rule for each criterion, reference, grouping and tolerance.

Each rule is solved from the posteriors of that fit, and measured on people it was not fitted on: by their labels, or,
where the data are synthetic, by the true posteriors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from experiments.splits import TrainTestSplit
from optfair import Constraint, OptFairPost
from optfair.metrics import group_confusion

TRUTH_ROWS = 20_000  # by which a rule is measured where the truth is known
Scores = dict[str, list[list[float]]]


def walk(model: OptFairPost, split: TrainTestSplit, path: Mapping[str, Any]) -> dict[str, Any]:
    """Return, for each question, [tolerance, accuracy, violation] of its rules, and of the rule without constraints.

    And, by labels, the noise floor of its last rule; by the truth there is no noise.

    path : lists of criteria and of views, pairs (reference, attributes), all combined, and of tolerances, from the
    loosest. A question is a text, "criterion reference attributes". The rule without constraints has tolerance 1.
    """
    groups = split.test.attributes
    single = groups is None or groups.shape[1] == 1
    measure = _by_labels(model, split) if split.world is None else _by_truth(model, split)
    scores: Scores = {}
    floors: dict[str, float] = {}
    for criterion, (reference, attributes) in product(path["criteria"], path["views"]):
        attributes = "intersections" if single else attributes
        question = {"criterion": criterion, "reference": reference, "attributes": attributes}
        name, rule = " ".join(question.values()), model
        for tolerance in [1.0, *path["tolerances"]]:
            rule = rule.with_criterion(Constraint(tolerance=tolerance, **question))
            accuracy, violation, floor = measure(rule, question)
            scores.setdefault(name, []).append([tolerance, round(accuracy, 6), round(violation, 6)])
        if floor is not None:
            floors[name] = round(floor(), 6)
    return {"path": scores, "floors": floors}


Measured = tuple[float, float, Callable[[], float] | None]  # accuracy, violation, what tells the noise floor
Measure = Callable[[OptFairPost, Mapping[str, str]], Measured]


def _by_labels(model: OptFairPost, split: TrainTestSplit) -> Measure:
    """Return what measures rules by the labels of the test part."""
    test = split.test
    groups = test.group if test.attributes is None else test.attributes
    Z = model.joint_posterior(test.X)  # the same for all rules

    def measure(rule: OptFairPost, question: Mapping[str, str]) -> Measured:
        h = rule.rule_.predict_proba(Z)
        confusion = group_confusion(test.y, h, sensitive_features=groups, classes=model.classes_)
        accuracy = float(np.trace(confusion.tensor.sum(axis=0)))
        return accuracy, confusion.violation(**question), partial(confusion.noise_floor, **question)

    return measure


def _by_truth(model: OptFairPost, split: TrainTestSplit) -> Measure:
    """Return what measures rules by the true posteriors of new people; there is no noise."""

    def measure(rule: OptFairPost, question: Mapping[str, str]) -> Measured:
        criterion, reference = question["criterion"], question["reference"]
        result = split.world.evaluate(rule.predict_proba, criterion, reference=reference, n=TRUTH_ROWS)
        return result.accuracy, result.violation, None

    return measure
