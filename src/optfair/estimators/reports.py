"""Report what a fitted classifier does to people: its rules, counted on the same rows, one before and one after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint
from optfair.estimators.labelled_rows import LabelledRows
from optfair.metrics.counts import count_codes, read_prediction
from optfair.reporting.auditing import PREVIOUS, favourable_facts
from optfair.reporting.changes import change_facts
from optfair.reporting.measuring import make_report
from optfair.reporting.report import Report
from optfair.reporting.rule_words import LIKELIEST_ANSWERS
from optfair.reporting.wording import MIN_CELL, Mask, count_text, rows_text
from optfair.rule.certificate import UNDECIDED

ARGMAX = LIKELIEST_ANSWERS


def previous_answers(values: Any, people: LabelledRows, classes: pd.Index) -> dict[str, np.ndarray]:
    """Return what people got before as a rule to report on, by its name; none where values is None."""
    if values is None:
        return {}
    codes, probabilities, _ = read_prediction(values, classes, fixed=True)
    answers = codes if probabilities is None else probabilities
    n = len(people.label) + people.n_strangers + people.n_unknown
    if len(answers) != n:
        raise ValueError(f"before: has {len(answers)} rows but X has {n}.")
    return {PREVIOUS: answers if people.positions is None else answers[people.positions]}


def with_favourable(report: Report, favourable: Any, classes: pd.Index) -> Report:
    """Return a report in which some answers are named as favourable; as it is where none are."""
    facts = favourable_facts(classes, favourable)
    return Report(replace(report.facts, **facts)) if facts else report


def report_people(
    title: str,
    constraints: Sequence[AnyConstraint],
    people: LabelledRows,
    rules: dict[str, np.ndarray],
    names: tuple[pd.Index, pd.Index],
    *,
    after: str,
    probabilities: np.ndarray,
    **facts: Any,
) -> Report:
    """Report on rules: what each answers, codes (n,) or probabilities (n, m), the first of them before the fair one.

    names : of groups and classes. after : the rule that is judged. probabilities : h of the fair rule, (n, m).
    facts : others of `Facts`.
    """
    weight, (groups, classes) = people.weight, names
    counts = {
        name: count_codes(people.group, people.label, answers, weight, groups, classes, people.cluster)
        for name, answers in rules.items()
    }
    if not people.is_labelled:
        counts = {name: replace(part, labelled=False) for name, part in counts.items()}
    before = next(iter(rules))
    label = people.label if people.is_labelled else None
    facts |= change_facts(people.group, label, rules[before], rules[after], weight, (len(groups), len(classes)))
    is_drawn = after != ARGMAX
    facts["undecided"] = float(np.average(is_drawn & (probabilities.max(axis=1) < UNDECIDED), weights=weight))
    if people.n_strangers:
        facts["left_out"] = {"their groups were not seen when the rule was fitted": people.n_strangers}
    facts["n_unknown"] = people.n_unknown
    n_unknown = count_text(Mask(facts.get("min_cell", MIN_CELL)).headcount(people.n_unknown))
    left_out = f", {n_unknown} more of unknown group left out" if people.n_unknown else ""
    title = f"{title}; {rows_text(len(people.label), people.n_people)} given{left_out}"
    return make_report(title, constraints, counts, before=before, after=after, **facts)
