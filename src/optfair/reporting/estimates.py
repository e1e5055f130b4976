"""Say where what the model estimates and what is counted on people differ by more than chance: accuracy, largest gap.

A certificate speaks of the estimates z(x). A rule that keeps its tolerance by them may be far from it on people.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optfair.constraints import Constraint
from optfair.reporting.facts import Facts
from optfair.reporting.findings import Finding, finding
from optfair.reporting.rule_words import LIKELIEST_ANSWERS
from optfair.reporting.wording import Mask, points_text, size_text, tolerance_text

LEAST_EXCESS = 0.001  # of a gap surely beyond its estimate: less is lost where numbers are rounded


def estimate_findings(facts: Facts, mask: Mask) -> Iterator[Finding]:
    """Yield findings about estimates that what is counted contradicts."""
    certificate = getattr(facts.rule, "certificate", None)
    if certificate is None or facts.judged is None or facts.n_unknown:  # those counted are others than those estimated
        return
    yield from _about_accuracy(facts, certificate.accuracy)
    estimated, determinism = certificate.violation, getattr(facts.rule, "determinism", None)
    if determinism is not None and facts.judged.name == LIKELIEST_ANSWERS:
        estimated = determinism.violation_argmax
    yield from _about_gaps(facts, estimated, mask)


def _about_accuracy(facts: Facts, claimed: float) -> Iterator[Finding]:
    """Compare the accuracy among the people fitted on."""
    assert facts.judged is not None
    observed = facts.judged.accuracy
    if not facts.is_fitted or np.isnan(observed):
        return
    if abs(claimed - observed) > 3 * np.sqrt(max(observed * (1 - observed), 1e-9) / facts.n_people):
        yield finding(
            "OF013",
            f"z(x) puts the accuracy at {claimed:.4f}, labels at {observed:.4f}: the models misjudge how certain they "
            "are. The certificate speaks of z(x), not of the labels. A better model of (group, class) would help; "
            "around a classifier that was fitted before, calibration='posterior' of OptFairPost does, too.",
        )


def _about_gaps(facts: Facts, estimated: float, mask: Mask) -> Iterator[Finding]:
    """Compare the largest gap; with a promise gaps were measured with labels, and the estimates moved on purpose."""
    assert facts.judged is not None
    rows = facts.judged.rows
    if rows is None or facts.promise is not None:
        return
    table = rows.table[rows.rows.is_gap & (rows.table["n"].to_numpy(dtype=float) >= mask.least)]
    if table.empty:
        return
    measured = float(table["value"].abs().max())
    surely = float(np.maximum(table["low"], -table["high"]).max())
    if surely < estimated + LEAST_EXCESS:
        return
    sentence = (
        f"By the model's own estimates the largest gap is {points_text(size_text(estimated))}; counted on these people "
        f"it is {size_text(measured)}, and surely more than {size_text(surely)} in their population."
    )
    bounds = {constraint.strictest for constraint in facts.constraints if isinstance(constraint, Constraint)}
    if len(bounds) == 1 and estimated <= (tolerance := bounds.pop()) + LEAST_EXCESS and surely > tolerance:
        sentence += f" The tolerance of {tolerance_text(tolerance)} is kept on paper only."
    else:
        sentence += " Certificate and prices speak of the estimates."
    sentence += (
        " Use confidence=, which measures gaps with labels, another model of the groups (group_estimator=), or more "
        "people."
    )
    yield finding("OF021", sentence, estimated=estimated, measured=measured, surely=surely)
