"""Measure the rules of a path of tolerances on the people of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optfair.constraints import AnyConstraint
from optfair.estimators.labelled_rows import LabelledRows
from optfair.metrics.counts import count_codes
from optfair.reporting.changes import answer_changes
from optfair.reporting.facts import PathPoint
from optfair.reporting.measuring import PATH_REPLICATES, measure_rule, normalise_rows
from optfair.rule.certificate import UNDECIDED
from optfair.rule.frontier import Frontier
from optfair.rule.tolerance_path import with_tolerance
from optfair.utils.progress import stage


def path_points(
    path: Frontier,
    constraints: Sequence[AnyConstraint],
    posteriors: Sequence[np.ndarray],
    people: LabelledRows,
    plain: np.ndarray | None = None,
) -> tuple[PathPoint, ...]:
    """Return what every rule of a path does to these people.

    posteriors : z by each of the models whose rules are mixed, (n, A, m) each. plain : what they got
    before, (n,) codes, or None.
    """
    points = []
    with stage("measuring rules of other tolerances", len(path.rules)) as work:
        for rule, tolerance, price in zip(path.rules, path.table["tolerance"], path.table["price"], strict=True):
            h = normalise_rows(np.mean([rule.predict_proba(Z) for Z in posteriors], axis=0))
            names = people.weight, rule.groups, rule.classes, people.cluster
            counts = count_codes(people.group, people.label, h, *names)
            counts = counts if people.is_labelled else replace(counts, labelled=False)
            request = with_tolerance(constraints, float(tolerance))
            metrics = measure_rule(f"tolerance {tolerance:.4g}", counts, request, n_replicates=PATH_REPLICATES)
            undecided = float(np.average(h.max(axis=1) < UNDECIDED, weights=people.weight))
            changes = None if plain is None else answer_changes(people.group, plain, h, *rule.shape)
            points.append(PathPoint(float(tolerance), metrics, float(price), undecided, changes))
            work.advance()
    return tuple(points)
