"""Gather every number of a report in one document that JSON can hold; text, tables and pages are made of it.

`report.schema.json` beside this module describes it, and every number appears in one place only.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import scipy
import sklearn

import optfair
from optfair.constraints import AnyConstraint, Constraint
from optfair.constraints.criteria import DEFAULT_TOLERANCE
from optfair.constraints.naming import attribute_names, name_text
from optfair.metrics.counts import ConfusionCounts
from optfair.reporting.comparisons import comparison_lines, headline, n_hidden_comparisons, small_lines
from optfair.reporting.estimates import estimate_findings
from optfair.reporting.evidence import (
    agreement,
    certificate_part,
    determinism_part,
    group_prices,
    price_lines,
    price_table,
    promise_part,
)
from optfair.reporting.facts import AFTER, NO_GROUP, Facts, Reportable, RuleMetrics
from optfair.reporting.findings import Finding, finding_document
from optfair.reporting.impact import favourable_outcomes, impact_tables, people_without_group
from optfair.reporting.judging import BEYOND, FEW, GROUPS, NEAR, UNKNOWN, WITHIN, JudgedRows
from optfair.reporting.observations import list_findings
from optfair.reporting.people import (
    answer_lines,
    change_lines,
    commonest_part,
    group_lines,
    path_lines,
    performance_line,
    selection_lines,
    unknown_part,
)
from optfair.reporting.rates import (
    accuracy_change,
    all_families,
    constraint_questions,
    favourable_table,
    quality_table,
    rate_view,
)
from optfair.reporting.rule_words import AWARENESS_WORDS, RULE_LABELS, RULE_WORDS
from optfair.reporting.scope import compared_part, favourable_note, groups_text, promise_sentence
from optfair.reporting.summary import summary_lines
from optfair.reporting.verdict import Verdict, verdict_of
from optfair.reporting.wording import (
    Mask,
    constraint_sentence,
    count_text,
    counted,
    request_words,
)

FORMAT, VERSION = "optfair report", 1
# Rates by group in a document, and four more for the head of each question; of more questions those are left out that
# leave the most room.
MAX_RATES = 600
MIN_QUESTIONS = 12  # that are never left out, however many groups there are
UNITS = {
    "rate": "share of people, from 0 to 1, with the ends low and high of its interval at `level`",
    "gap": "difference of two rates, from -1 to 1; of kind 'ratio' the rate less the minimum of the other's",
    "people": "number of people; fewer than `min_cell` are written as '< 10' and have no other numbers",
}


def make_document(facts: Facts) -> tuple[dict[str, Any], Verdict | None, list[Finding]]:
    """Return the document of a report, its verdict and its findings."""
    mask, subject, by_role = Mask(facts.min_cell), facts.judged, facts.shown
    document = _heading(facts, mask)
    verdicts = {metrics.name: _verdict(metrics, facts, mask) for metrics in facts.measured}
    verdict = None if subject is None else verdicts[subject.name]
    if verdict is not None:
        verdict = replace(verdict, sentence=verdict.sentence + promise_sentence(facts, verdict, mask))
    document["verdict"] = None if verdict is None else asdict(verdict)
    document["performance"] = [performance_line(metrics, verdicts[metrics.name], mask) for metrics in facts.measured]
    counts = {role: metrics.counts for role, metrics in by_role.items()}
    last = list(by_role.values())[-1] if by_role else None
    if last is not None and last.rows is not None:
        if subject is not None:
            document["states"], document["reasons"] = _states(last.rows)
        document["rates"], document["rates_left_out"] = _views(facts, mask)
        document["gaps"] = [] if facts.is_comparison else comparison_lines(last.rows, mask)
        document["gaps_hidden"] = 0 if facts.is_comparison else n_hidden_comparisons(last.rows, mask)
        document["small"] = [] if facts.is_comparison else small_lines(last.rows, mask)
        document["people_needed"] = None if facts.is_comparison else last.rows.people_needed()
        document["headlines"] = _headlines(facts, mask)
        document["commonest"] = commonest_part(last.counts, mask)
        document["answers"] = answer_lines(counts, mask)
        document["selection"] = selection_lines(counts, mask)
        document["quality"] = quality_table(counts, facts.level, mask, facts.paired) if last.counts.labelled else []
        document["accuracy_change"] = accuracy_change(facts.paired, last.counts, facts.level, mask)
        document["changes"] = None if facts.changes is None else change_lines(facts.changes, last.counts, mask)
        favourable = favourable_outcomes(facts.constraints, facts.favourable)
        if favourable and not facts.is_comparison:
            document["favourable_note"] = favourable_note(favourable, is_named=facts.favourable is not None)
            document["impact"] = impact_tables(last.counts, favourable, facts.level, mask)
            if last.counts.labelled or len(counts) > 1:  # else the rates say it all
                document["favourable"] = favourable_table(counts, favourable, facts.level, mask, facts.paired)
    document["unknown"] = unknown_part(facts, mask)
    document["path"] = path_lines(facts, mask)
    multipliers = None if facts.rule is None else facts.rule.multipliers
    attributes = () if facts.rule is None else attribute_names(facts.rule.groups)
    document["prices"] = price_lines(price_table(multipliers), attributes)
    document["group_prices"] = group_prices(document["prices"])
    document["certificate"] = certificate_part(getattr(facts.rule, "certificate", None))
    draws = getattr(facts.rule, "determinism", None), facts.undecided, mask
    document["determinism"] = determinism_part(*draws, keyed=facts.keyed)
    document["training"] = None if facts.rule is None or document["certificate"] is not None else str(facts.rule)
    document["promise"], document["check"] = (promise_part(part, mask) for part in (facts.promise, facts.check))
    if facts.promise is not None and document["check"] is not None and verdict is not None:
        document["check"]["sentence"] += agreement(facts.promise, verdict.value)
    dropped = () if last is None or last.rows is None else last.rows.dropped
    findings = list_findings(document, dropped, estimate_findings(facts, mask))
    document["findings"] = [finding_document(finding) for finding in findings]
    document["summary"] = summary_lines(document)
    return document, verdict, findings


def _heading(facts: Facts, mask: Mask) -> dict[str, Any]:
    """Return what a document begins with: what was asked, of whom, when, and the places of everything else."""
    last = facts.measured[-1].counts if facts.measured else None
    kind = "comparison" if facts.is_comparison else "audit" if facts.rule is None else "model"
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "title": facts.title,
        "subtitle": _subtitle(facts, mask),
        "date": facts.date,
        "versions": _versions(),
        "seed": facts.seed if isinstance(facts.seed, int) else None,
        "inputs": [asdict(file) for file in facts.inputs],
        "units": UNITS | {"price": _price_unit(facts.rule)},
        "level": facts.level,
        "min_cell": facts.min_cell,
        "n_people": mask.headcount(facts.n_people),
        "n_rows": mask.headcount(facts.n_rows),
        "left_out": {reason: mask.headcount(n) for reason, n in facts.left_out.items()},
        "without_group": _without_group(facts, mask),
        "fitted_on": facts.is_fitted,
        "n_fitted": None if facts.n_fitted is None else mask.headcount(facts.n_fitted),
        "fitting": _fitting(facts),
        "labelled": last is None or last.labelled,
        "rules": [
            {"role": role, "name": name, "label": RULE_LABELS.get(name, name), "words": RULE_WORDS.get(name, "")}
            for role, name in facts.roles.items()
        ],
        "asked": [_asked(constraint, facts.default_tolerance) for constraint in facts.constraints],
        "tolerance": _single_tolerance(facts.constraints),
        "families": [] if last is None else [family.name for family in all_families(last.groups)],
        "compared": None if last is None else compared_part(facts.constraints, last),
        "groups": [] if last is None else group_lines(last, mask),
        "classes": [] if last is None else [name_text(name) for name in last.classes.tolist()],
        "undecided": None if facts.undecided is None else mask.number(facts.undecided, facts.n_people),
        "verdict": None,
        "summary": [],
        "findings": [],
        "states": None,
        "reasons": None,
        "people_needed": None,
        "performance": [],
        "headlines": {},
        "accuracy_change": None,
        "commonest": None,
        "rates": [],
        "rates_left_out": 0,
        "gaps": [],
        "gaps_hidden": 0,
        "small": [],
        "answers": [],
        "selection": [],
        "quality": [],
        "changes": None,
        "impact": [],
        "favourable_note": "",
        "favourable": [],
        "unknown": None,
    }


def _without_group(facts: Facts, mask: Mask) -> int | str:
    """Return the people whose group is not known: unknown, left out for it, or in a group named "(missing)"."""
    named = people_without_group(facts.measured[-1].counts) if facts.measured else 0
    return mask.headcount(facts.n_unknown + facts.left_out.get(NO_GROUP, 0) + named)


def _fitting(facts: Facts) -> dict[str, Any] | None:
    if facts.seconds is None:
        return None
    return {"seconds": {name: round(value, 4) for name, value in facts.seconds.items()}, "models": facts.n_fits}


def _versions() -> dict[str, str]:
    modules = {"numpy": np, "pandas": pd, "scipy": scipy, "scikit-learn": sklearn}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {"optfair": optfair.__version__, "python": platform.python_version(), **versions}


def _subtitle(facts: Facts, mask: Mask) -> str:
    """Say in plain words what the page is about: what was asked for, of whom."""
    last = facts.measured[-1].counts if facts.measured else None
    kind = "Fair rule" if facts.rule is not None else "Audit of answers"
    text = f"{f'{len(facts.roles)} rules side by side' if facts.is_comparison else kind}: "
    text += request_words(facts.constraints)
    text += "" if facts.awareness is None else f"; {AWARENESS_WORDS[facts.awareness]}"
    if last is None:
        return f"{text}."
    groups, answers = groups_text(facts.constraints, last), counted(len(last.classes), "possible answer")
    joint = "," if groups.endswith(")") else " in"
    text = f"{text}. {count_text(mask.headcount(facts.n_people))} people{joint} {groups}, {answers}"
    if facts.n_fitted is None or facts.is_fitted:
        return f"{text}."
    return f"{text}; the model was fitted on {count_text(mask.headcount(facts.n_fitted))} people."


def _headlines(facts: Facts, mask: Mask) -> dict[str, Any]:
    """Return by role the clearest and the largest comparison of each rule that is shown."""
    rows = {role: metrics.rows for role, metrics in facts.shown.items() if metrics.rows is not None}
    return {role: headline(verdicts, rows, mask) for role, verdicts in rows.items()}


def _asked(constraint: AnyConstraint, is_default: bool) -> dict[str, Any]:
    is_default &= getattr(constraint, "tolerance", None) == DEFAULT_TOLERANCE
    tolerance = getattr(constraint, "tolerance", None)
    if isinstance(tolerance, Mapping):
        tolerance = {name_text(group): float(bound) for group, bound in tolerance.items()}
    return {
        "kind": type(constraint).__name__,
        "criterion": getattr(constraint, "criterion", getattr(constraint, "rate", None)),
        "tolerance": tolerance,
        "minimum": getattr(constraint, "minimum", None),
        "reference": getattr(constraint, "reference", None),
        "default": is_default,
        "sentence": constraint_sentence(constraint, is_default=is_default),
    }


def _single_tolerance(constraints: Sequence[AnyConstraint]) -> float | None:
    bounds = [constraint.strictest for constraint in constraints if isinstance(constraint, Constraint)]
    return min(bounds) if bounds else None


def _verdict(metrics: RuleMetrics, facts: Facts, mask: Mask) -> Verdict | None:
    if metrics.rows is None:
        return None
    is_fitted = facts.is_fitted and metrics.name == facts.roles.get(AFTER)
    return verdict_of(metrics.rows, facts.level, is_fitted, mask)


def _states(rows: JudgedRows) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of rows by state, and of those that cannot be told by reason."""
    states = {name: int((rows.table["state"] == name).sum()) for name in (WITHIN, BEYOND, UNKNOWN)}
    return states, {name: int((rows.table["reason"] == name).sum()) for name in (FEW, NEAR, GROUPS)}


def _views(facts: Facts, mask: Mask) -> tuple[list[dict[str, Any]], int]:
    """Return the questions, as far as there is room for them, and how many are left out."""
    by_role = facts.shown
    rules: dict[str, ConfusionCounts] = {role: metrics.counts for role, metrics in by_role.items()}
    last = list(by_role.values())[-1]
    assert last.rows is not None
    questions = list(constraint_questions(facts.constraints, last.counts))
    families = all_families(last.counts.groups)
    labels = [group.label for family in families for group in family.groups]
    room = max(MAX_RATES // (len(labels) + 4), MIN_QUESTIONS)
    left_out = max(len(questions) - room, 0)
    if left_out:
        rooms = [last.rows.room_of(q.source, q.given, q.outcome) for q in questions]
        questions = [questions[k] for k in sorted(np.argsort(rooms, kind="stable")[:room])]
    views = []
    for question in questions:
        view = rate_view(question, rules, facts.level, mask)
        for role, metrics in by_role.items():
            if metrics.rows is not None:
                place = question.source, question.given, question.outcome
                view[role]["state"] = [metrics.rows.state_of(place[0], label, *place[1:]) for label in labels]
        views.append(view)
    return views, left_out


def _price_unit(rule: Reportable | None) -> str:
    gain = "value gained, in units of costs," if rule is not None and rule.has_costs else "accuracy gained"
    return f"{gain} per unit of tolerance"
