"""Say what a report compares and what it takes as given: groups, favourable answers, a promise made before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optfair.constraints import AnyConstraint
from optfair.constraints.naming import name_text
from optfair.metrics.counts import ConfusionCounts
from optfair.reporting.evidence import promise_subject
from optfair.reporting.facts import Facts
from optfair.reporting.judging import NEAR, UNKNOWN
from optfair.reporting.rates import all_families, judged_labels
from optfair.reporting.verdict import Verdict
from optfair.reporting.wording import Mask, count_text, counted, level_text


def compared_part(constraints: Sequence[AnyConstraint], counts: ConfusionCounts) -> dict[str, Any]:
    """Return how many groups are compared, and the positions of their families among all."""
    labels = set().union(*(judged_labels(constraint, counts.groups) for constraint in constraints))
    families = all_families(counts.groups)
    places = [k for k, family in enumerate(families) if any(group.label in labels for group in family.groups)]
    return {"groups": len(labels), "families": places}


def groups_text(constraints: Sequence[AnyConstraint], counts: ConfusionCounts) -> str:
    """Say of how many groups a report is, and which of them are compared where these are others."""
    part, families = compared_part(constraints, counts), all_families(counts.groups)
    if part["families"] in ([], [0]):
        return counted(len(counts.groups), "group")
    names = ", ".join(families[k].name for k in part["families"])
    return f"{counted(part['groups'], 'group')} compared ({names})"


def favourable_note(names: Sequence[Any], *, is_named: bool) -> str:
    """Say that answers are taken as favourable because a criterion names them; nothing where a user named them."""
    if is_named or not names:
        return ""
    texts = " and ".join(f"“{name_text(name)}”" for name in names)
    if len(names) == 1:
        return f"{texts} is taken as favourable because the criterion names it; set favourable= if it is not."
    return f"{texts} are taken as favourable because the criterion names them; set favourable= if they are not."


def promise_sentence(facts: Facts, verdict: Verdict | None, mask: Mask) -> str:
    """Say beside a verdict that cannot tell what was promised when the rule was fitted; else nothing."""
    promise, is_open = facts.promise, verdict is not None and verdict.value == UNKNOWN
    if promise is None or not promise.kept or not is_open or facts.is_fitted:
        return ""
    people, metrics = count_text(mask.headcount(facts.n_people)), facts.judged
    is_near = metrics is not None and metrics.rows is not None and (metrics.rows.table["reason"] == NEAR).any()
    reach = "cannot confirm it by themselves" if is_near else "are too few to confirm it by themselves"
    return (
        f" When it was fitted it was promised, with {level_text(promise.confidence)} confidence, that "
        f"{promise_subject(promise)}; these {people} people {reach}."
    )
