"""Compute what a regulator asks for: selection rates and impact ratios, by attribute and for their intersections.

Each group is compared with the group of the same family that is selected most often. A ratio below four fifths is
marked, and beside it whether the difference could be chance. Categories of less than 2 % of the people are marked too:
some rules let an auditor leave them out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, Rows
from optfair.constraints.events import criterion_events, outcome_positions
from optfair.constraints.naming import attribute_names, name_text
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.ratios import rate_ratio
from optfair.reporting.rates import Family, all_families, rate_values
from optfair.reporting.wording import Mask

FOUR_FIFTHS = 0.8
SMALL_SHARE = 0.02  # of the people: a category below it may be left out by some rules (New York City, 6 RCNY § 5-301)


def favourable_outcomes(constraints: Sequence[AnyConstraint], favourable: Sequence[Hashable] | None) -> list[Hashable]:
    """Return the answers named as favourable: those given, or those that constraints are limited to."""
    if favourable is not None:
        return list(dict.fromkeys(favourable))
    outcomes = [constraint.outcomes or () for constraint in constraints if not isinstance(constraint, Rows)]
    return list(dict.fromkeys(name for names in outcomes for name in names))


def impact_tables(
    counts: ConfusionCounts, outcomes: Sequence[Hashable], level: float, mask: Mask
) -> list[dict[str, Any]]:
    """Return a table per favourable answer and family of groups."""
    positions = outcome_positions(counts.classes, outcomes)
    events = criterion_events("dp", counts.classes, positions)
    return [
        {"outcome": name_text(outcome), "family": family.name, "rows": _rows(counts, family, parts[0][1], level, mask)}
        for _, outcome, parts in events
        for family in all_families(counts.groups)
    ]


def _rows(counts: ConfusionCounts, family: Family, event: Any, level: float, mask: Mask) -> list[dict[str, Any]]:
    rates = rate_values(counts, family.groups, event, level)
    total, names = counts.n_people.sum(), attribute_names(counts.groups)
    people = _effective(counts, family)
    selected = np.where(rates.people >= mask.least, rates.value, np.nan)
    top = int(np.nanargmax(selected)) if np.isfinite(selected).any() else None
    lines = []
    for k, group in enumerate(family.groups):
        n, value = rates.people[k], rates.value[k]
        line: dict[str, Any] = {"group": name_text(group.label, names), "people": mask.headcount(n)}
        n_selected = value * n if counts.equal_weights else np.nan  # rates of weights are no numbers of people
        line |= {"selected": mask.number(n_selected, n), "share": mask.number(n / total, n)}
        line |= {name: mask.number(getattr(rates, name)[k], n) for name in ("value", "low", "high")}
        line |= {"is_small": bool(n < SMALL_SHARE * total), "is_reference": k == top}
        line |= dict.fromkeys(("ratio", "ratio_low", "ratio_high", "p_value", "test", "below"))
        if top is not None and n >= mask.least and k != top:
            ratio = rate_ratio((value, rates.value[top]), (people[k], people[top]), level, exact=counts.hard)
            line |= {"ratio": mask.number(ratio.value), "ratio_low": mask.number(ratio.low)}
            line |= {"ratio_high": mask.number(ratio.high), "p_value": float(f"{ratio.p_value:.2g}")}
            line |= {"test": "Fisher" if ratio.is_exact else "score"}
            line["below"] = None if np.isnan(ratio.value) else bool(ratio.value < FOUR_FIFTHS)
        elif k == top:
            line["ratio"] = 1.0
        lines.append(line)
    return lines


def _effective(counts: ConfusionCounts, family: Family) -> np.ndarray:
    """Return the people of each group, in effect, where they have weights or several rows."""
    A, m = counts.n_people.shape
    conditions = np.zeros((len(family.groups), A, m))
    for k, group in enumerate(family.groups):
        conditions[k, list(group.members)] = 1
    return counts.effective_people(conditions.reshape(len(family.groups), A * m))
