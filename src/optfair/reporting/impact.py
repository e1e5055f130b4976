"""Compute what a regulator asks for: selection rates and impact ratios, by attribute and for their intersections.

Each group is compared with the group of the same family that is selected most often, unless it is that of people
whose group is missing. A ratio below four fifths is marked, and beside it whether the difference could be chance.
Categories of less than 2 % of the people are marked too: some rules let an auditor leave them out.

Whoever has the highest of k rates is far from the others by chance, so that the p-value p of a pair says too much. What
is judged by is min(1, p T k(k − 1)/2) in T tables: the pair is one of those that could have been compared, whichever
was highest, and where all groups are treated alike, any of all these is below α with a probability of at most α
(Bonferroni, an equal part of α for each table).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from optfair.constraints import AnyConstraint, Rows
from optfair.constraints.events import GroupSet, criterion_events, outcome_positions
from optfair.constraints.naming import attribute_names, name_text
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.ratios import rate_ratio
from optfair.reporting.findings import Finding, finding
from optfair.reporting.rates import Family, all_families, is_missing, rate_values
from optfair.reporting.wording import Mask, counted

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
    families = all_families(counts.groups)
    n_tables = len(events) * len(families)
    return [
        {
            "outcome": name_text(outcome),
            "family": family.name,
            "rows": _rows(counts, family, parts[0][1], level, mask, n_tables),
        }
        for _, outcome, parts in events
        for family in families
    ]


def _rows(
    counts: ConfusionCounts, family: Family, event: Any, level: float, mask: Mask, n_tables: int
) -> list[dict[str, Any]]:
    rates = rate_values(counts, family.groups, event, level)
    total, names = counts.n_people.sum(), attribute_names(counts.groups)
    people = _effective(counts, family)
    is_shown = rates.people >= mask.least
    pairs = int(is_shown.sum() * (is_shown.sum() - 1) // 2)
    selected = np.where(is_shown & [not is_missing(group) for group in family.groups], rates.value, np.nan)
    top = int(np.nanargmax(selected)) if np.isfinite(selected).any() else None
    lines = []
    for k, group in enumerate(family.groups):
        n, value = rates.people[k], rates.value[k]
        line: dict[str, Any] = {"group": name_text(group.label, names), "people": mask.headcount(n)}
        n_selected = value * n if counts.equal_weights else np.nan  # rates of weights are no numbers of people
        line |= {"selected": mask.number(n_selected, n), "share": mask.number(n / total, n)}
        line |= {name: mask.number(getattr(rates, name)[k], n) for name in ("value", "low", "high")}
        line |= {"is_small": bool(n < SMALL_SHARE * total), "is_reference": k == top}
        line |= dict.fromkeys(("ratio", "ratio_low", "ratio_high", "p_value", "p_all", "test", "below"))
        if top is not None and n >= mask.least and k != top:
            ratio = rate_ratio((value, rates.value[top]), (people[k], people[top]), level, exact=counts.hard)
            line |= {"ratio": mask.number(ratio.value), "ratio_low": mask.number(ratio.low)}
            line |= {"ratio_high": mask.number(ratio.high), "p_value": float(f"{ratio.p_value:.2g}")}
            line["p_all"] = float(f"{min(ratio.p_value * pairs * n_tables, 1.0):.2g}")
            line |= {"test": "Fisher" if ratio.is_exact else "score"}
            line["below"] = None if np.isnan(ratio.value) else bool(ratio.value < FOUR_FIFTHS)
        elif top is not None and k == top:
            line["ratio"] = 1.0
        lines.append(line)
    return lines


def people_without_group(counts: ConfusionCounts) -> int:
    """Return the people in groups named "(missing)", or in intersections with one."""
    groups = [GroupSet(label, ()) for label in counts.groups.tolist()]
    return int(sum(n for group, n in zip(groups, counts.n_people.sum(axis=1), strict=True) if is_missing(group)))


def _effective(counts: ConfusionCounts, family: Family) -> np.ndarray:
    """Return the people of each group, in effect, where they have weights or several rows."""
    A, m = counts.n_people.shape
    conditions = np.zeros((len(family.groups), A, m))
    for k, group in enumerate(family.groups):
        conditions[k, list(group.members)] = 1
    return counts.effective_people(conditions.reshape(len(family.groups), A * m))


# -- what is said of them ----------------------------------------------------------------------------------------
def impact_findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Say how many ratios are below four fifths, of how many of these chance is not the reason, and the lowest."""
    rows = [(table, row) for table in document["impact"] for row in table["rows"] if row["below"]]
    if not rows:
        return
    table, worst = min(rows, key=lambda pair: pair[1]["ratio"])
    limit = 1 - document["level"]
    n_sure = sum(row["p_all"] < limit for _, row in rows)
    top = next(row["group"] for row in table["rows"] if row["is_reference"])
    yield finding(
        "OF017",
        f"Below four fifths: {counted(len(rows), 'impact ratio')}. Allowing for all pairs of groups in all tables, "
        f"{_share_of(n_sure, len(rows))} unlike 1 by more than chance (p below {limit:.2g}). The lowest: "
        f"“{worst['group']}” gets “{table['outcome']}” {worst['ratio']:.2f} times as often as “{top}”.",
        ratios=len(rows),
        significant=n_sure,
        lowest=worst["ratio"],
    )


def _share_of(n: int, total: int) -> str:
    """Say how many of so many ratios are something, up to the verb."""
    if total == 1:
        return "it is" if n else "it is not"
    return f"{'none' if n == 0 else f'{n:,}'} of them {'is' if n < 2 else 'are'}"
