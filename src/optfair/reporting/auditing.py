"""Audit predictions of any origin: the report of a model, without a model; of one rule, or of several side by side."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, as_constraints
from optfair.constraints.criteria import labelled_criterion
from optfair.constraints.events import outcome_positions
from optfair.errors import OptFairWarning, brief_names, brief_repr
from optfair.inputs.labels import MISSING_CHOICES, check_weights, encode_groups, encode_partial_groups
from optfair.metrics.counts import ConfusionCounts, count_rows, read_labelled_rows
from optfair.metrics.partial_counts import count_partial_rows
from optfair.metrics.unknown_groups import bound_unknown
from optfair.reporting.changes import change_facts
from optfair.reporting.facts import NO_GROUP, REPORT_LEVEL
from optfair.reporting.measuring import compare_rules, make_report
from optfair.reporting.report import Report
from optfair.reporting.rule_words import PREVIOUS_ANSWERS
from optfair.reporting.wording import MIN_CELL, request_text, rows_text
from optfair.utils.checks import check_choice, check_integer

MOST_RULES = 6  # side by side: more cannot be told apart in a drawing
AUDIT_CHOICES = (*MISSING_CHOICES, "drop", "infer")  # what rows without a group can be
PREVIOUS, PRESENT = PREVIOUS_ANSWERS, "answers"  # the names of what is audited


def audit(
    y: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "dp",
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
    before: Any = None,
    favourable: Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    refusal: float = np.inf,
    group_probabilities: Any = None,
    cluster: Any = None,
    level: float = REPORT_LEVEL,
    min_cell: int = MIN_CELL,
    random_state: Any = 0,
) -> Report:
    """Report on predictions, whatever made them: who gets which answer, whose are right, and whether that is allowed.

    The people must not be those that a model was fitted on.

    Parameters
    ----------
    y : array-like of shape (n,) or None
        True classes; None where they are unknown, which is enough for demographic parity and its ratio.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, or list of these, default "dp"
        What is compared: "dp", "eop", "eo", "meo", "oae", or objects.
    tolerance : float or mapping from group to float, optional
        Largest gap allowed, 0.01 by default.
    reference : {"overall", "pairwise"}, optional
        Compare each group with everybody (the default), or every two groups with each other.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of; all by default.
    attributes : str or sequence of attribute names, optional
        With groups of several attributes: "intersections" (the default), "marginals", "both", or names.
    before : array-like of shape (n,) or (n, n_classes), optional
        What the same people got before, to be compared with.
    favourable : sequence of class labels, optional
        Answers for which the report has the tables of a regulator: selection rates and impact ratios; those that
        the criteria are limited to by default.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; by default that of ordered categories, else sorted.
    missing : {"error", "group", "drop", "infer"}, default "error"
        What rows without a group are: an error; a group of their own, named "(missing)"; left out; or people of an
        unknown group: rates are of the others, and the verdict holds whatever the unknown groups are.
    refusal : float, default inf
        With ``missing="infer"``: how much whether a group is known may depend on the group, as a factor of the odds of
        the groups. 1: not at all, for people of the same true class and answer. inf: in any way. See
        `optfair.metrics.unknown_group_bounds`.
    group_probabilities : array-like of shape (n, n_groups), optional
        With ``missing="infer"``: probabilities of the groups in sorted order, for rows of unknown group.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several.
    level : float, default 0.95
        Confidence of the intervals and of the verdict.
    min_cell : int, default 10
        Numbers about fewer people are not shown.
    random_state : int or Generator, default 0
        Seed of the replicates behind the intervals.

    Returns
    -------
    Report
        ``print`` it, or send it: ``html``, ``markdown`` and ``json`` write files.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import audit
    >>> rng = np.random.default_rng(0)
    >>> group, answer = rng.choice(["A", "B"], 4000), rng.choice(["no", "yes"], 4000)
    >>> report = audit(None, answer, sensitive_features=group, tolerance=0.05)
    >>> report.verdict.light
    'Surely within'
    """
    check_choice("missing", missing, AUDIT_CHOICES)
    if missing != "infer" and (refusal != np.inf or group_probabilities is not None):
        raise ValueError("refusal and group_probabilities: are for missing='infer'; leave them out.")
    constraints = requested(y, criterion, tolerance, reference, outcomes, attributes)
    rules = {PREVIOUS: before, PRESENT: prediction} if before is not None else {PRESENT: prediction}
    people = {"sample_weight": sample_weight, "missing": missing, "cluster": cluster}
    if missing in ("drop", "infer"):
        people["missing"] = "drop"
    with quiet_missing():
        counts = _count_rules(y, rules, sensitive_features, classes, people)
    facts = check_facts(counts[PRESENT], favourable, level, min_cell, random_state)
    facts["default_tolerance"] = is_default(criterion, tolerance)
    weight = check_weights(sample_weight, len(prediction))
    group, n_missing = _group_codes(sensitive_features, len(prediction), missing, weight)
    if before is not None:
        facts |= _changes(y, rules, counts[PRESENT], group, weight)
    if missing == "drop" and n_missing:
        facts["left_out"] = {NO_GROUP: n_missing}
    if missing == "infer" and n_missing:
        rest = sensitive_features, sample_weight, counts[PRESENT].classes, group_probabilities, cluster
        facts["bounds"] = {
            name: bound_unknown(count_partial_rows(y, answers, *rest), constraints, refusal=refusal, level=level)
            for name, answers in rules.items()
        }
        facts["n_unknown"] = n_missing
    return report_counts(counts, constraints, **facts)


def compare(
    rules: Mapping[str, Any],
    y: Any = None,
    *,
    sensitive_features: Any,
    X: Any = None,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "dp",
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
    level: float = REPORT_LEVEL,
    min_cell: int = MIN_CELL,
    random_state: Any = 0,
) -> Report:
    """Report on several rules side by side, on the same people: predictions of any origin, or fitted classifiers.

    Parameters
    ----------
    rules : mapping from name to predictions or classifier
        Predicted classes (n,), probabilities (n, n_classes) with columns in the order of ``classes``, or fitted
        classifiers, which are asked to predict ``X``.
    y : array-like of shape (n,), optional
        True classes; demographic parity and its ratio need none.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    X : array-like or data frame of n rows, optional
        Features, where ``rules`` has classifiers.
    criterion : str, Constraint, Ratio, MinimumRate, Rows, or list of these, default "dp"
        What is compared; see `optfair.audit`.
    tolerance : float or mapping from group to float, optional
        Largest gap allowed, 0.01 by default.
    reference : {"overall", "pairwise"}, optional
        Compare each group with everybody (the default), or every two groups with each other.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of; all by default.
    attributes : str or sequence of attribute names, optional
        With groups of several attributes: "intersections" (the default), "marginals", "both", or names.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; by default that of ordered categories, else sorted.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several.
    level : float, default 0.95
        Confidence of the intervals and of the verdicts, of each rule by itself.
    min_cell : int, default 10
        Numbers about fewer people are not shown.
    random_state : int or Generator, default 0
        Seed of the replicates behind the intervals.

    Returns
    -------
    Report
        A verdict for each rule, and their rates by group in one drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import compare
    >>> rng = np.random.default_rng(0)
    >>> group, y = rng.choice(["A", "B"], 400), rng.choice(["no", "yes"], 400)
    >>> report = compare({"always no": np.full(400, "no"), "the truth": y}, y, sensitive_features=group)
    >>> [line["rule"] for line in report.to_dict()["performance"]]
    ['always no', 'the truth']
    """
    if not isinstance(rules, Mapping) or not 2 <= len(rules) <= MOST_RULES:
        raise ValueError(
            f"rules={brief_repr(rules)}: must be a mapping from 2 to {MOST_RULES} names to predictions or classifiers."
        )
    constraints = requested(y, criterion, tolerance, reference, outcomes, attributes)
    if len({str(name) for name in rules}) < len(rules):
        raise ValueError(f"rules: two names are the same text, in [{brief_names(list(rules))}]; tell them apart.")
    predictions = {str(name): _predictions(name, rule, X, sensitive_features) for name, rule in rules.items()}
    people = {"sample_weight": sample_weight, "missing": missing, "cluster": cluster}
    counts = _count_rules(y, predictions, sensitive_features, classes, people)
    facts = check_facts(next(iter(counts.values())), None, level, min_cell, random_state)
    facts["default_tolerance"] = is_default(criterion, tolerance)
    return compare_rules(_title("Comparison", constraints, counts), constraints, counts, **facts)


def report_counts(
    predictions: Mapping[str, ConfusionCounts],
    constraints: Sequence[AnyConstraint],
    subject: str = "Audit",
    **facts: Any,
) -> Report:
    """Report on counts of predictions, the last of them the one that is judged."""
    return make_report(_title(subject, constraints, predictions), constraints, predictions, **facts)


# -- reading -----------------------------------------------------------------------------------------------------
def requested(y: Any, *question: Any) -> list[AnyConstraint]:
    """Return what is asked for; without labels, only what needs none."""
    constraints = as_constraints(*question)
    if y is None and (name := labelled_criterion(constraints)) is not None:
        raise ValueError(f"y=None: {name!r} speaks of true classes; give them, or ask for 'dp' or its ratio.")
    return constraints


def is_default(criterion: Any, tolerance: Any) -> bool:
    """Tell whether nobody chose a tolerance: criteria were named, and none was given."""
    names = [criterion] if isinstance(criterion, str) or not isinstance(criterion, Iterable) else list(criterion)
    is_mapping = isinstance(criterion, Mapping)
    return tolerance is None and not is_mapping and all(isinstance(name, str) for name in names)


def check_facts(
    counts: ConfusionCounts, favourable: Sequence[Hashable] | None, level: float, min_cell: int, random_state: Any
) -> dict[str, Any]:
    """Return the facts that the arguments of an audit say, checked."""
    check_integer("min_cell", min_cell, 1, " (10 is usual)")
    facts: dict[str, Any] = {"level": level, "min_cell": int(min_cell), "random_state": random_state}
    return facts | favourable_facts(counts.classes, favourable)


def favourable_facts(classes: Any, favourable: Sequence[Hashable] | None) -> dict[str, Any]:
    """Return which answers are named as favourable, if they are classes."""
    if favourable is None:
        return {}
    try:
        outcome_positions(classes, favourable)
    except ValueError as error:
        raise ValueError(str(error).replace("outcomes", "favourable", 1)) from None
    return {"favourable": list(favourable)}


def _predictions(name: Hashable, rule: Any, X: Any, groups: Any) -> Any:
    """Return predictions as they are, and those of a classifier for X."""
    if not hasattr(rule, "predict"):
        return rule
    if X is None:
        raise ValueError(f"X: missing; {name!r} is a classifier, which predicts from features.")
    asks_for_groups = getattr(rule, "_asks_for_groups", lambda: False)()
    return rule.predict(X, **({"sensitive_features": groups} if asks_for_groups else {}))


def _count_rules(
    y: Any, rules: Mapping[str, Any], groups: Any, classes: Iterable[Hashable] | None, people: dict[str, Any]
) -> dict[str, ConfusionCounts]:
    """Count every rule by the same classes: those named, or all that some rule or the labels have."""
    names = category_order(y, *rules.values()) if classes is None else list(classes)
    counts = {}
    for name, values in rules.items():
        try:
            counts[name] = count_rows(y, values, groups, classes=names, **people)
        except ValueError as error:
            argument = {PREVIOUS: "before", PRESENT: "prediction"}.get(name, f"rules, {name!r}")
            raise ValueError(f"{argument}:".join(str(error).split("prediction:", 1))) from None
    union = sorted({label for part in counts.values() for label in part.classes.tolist()}) if names is None else names
    return {
        name: part if part.classes.tolist() == union else count_rows(y, rules[name], groups, classes=union, **people)
        for name, part in counts.items()
    }


def category_order(*columns: Any) -> list[Hashable] | None:
    """Return the classes that columns hold in the order of their ordered categories, None where these have none."""
    series = [pd.Series(column) for column in columns if column is not None and np.ndim(column) == 1]
    orders = [s.cat.categories.tolist() for s in series if isinstance(s.dtype, pd.CategoricalDtype) and s.cat.ordered]
    if not orders or len(series) < sum(column is not None for column in columns):
        return None
    labels = {label for s in series for label in s.dropna().unique().tolist()}
    return [label for label in orders[0] if label in labels] if labels <= set(orders[0]) else None


def _group_codes(groups: Any, n: int, missing: str, weight: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Return the group of each row, (n,) codes, negative where it is missing, and how many of weight these are."""
    if missing in ("error", "group"):
        return encode_groups(groups, n, missing=missing)[0], 0
    codes = encode_partial_groups(groups, n).codes
    is_missing = codes < 0 if weight is None else (codes < 0) & (weight > 0)
    return codes, int(is_missing.sum())


def _changes(
    y: Any, rules: Mapping[str, Any], counts: ConfusionCounts, group: np.ndarray, weight: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Return how many people of each group, and of each true class, go from one answer to another."""
    before, after = (read_labelled_rows(y, values, counts.classes) for values in rules.values())
    label = after.true if after.labelled else None
    shape = len(counts.groups), len(counts.classes)
    return change_facts(group, label, before.prediction, after.prediction, weight, shape)


@contextmanager
def quiet_missing() -> Iterator[None]:
    """Leave out the warning about rows without a group, which the report itself counts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"sensitive_features: .* are left out", category=OptFairWarning)
        yield


def _title(subject: str, constraints: Sequence[AnyConstraint], counts: Mapping[str, ConfusionCounts]) -> str:
    last = list(counts.values())[-1]
    A, m = last.n_people.shape
    kinds = f"{A} group{'s' * (A != 1)}, {m} class{'es' * (m != 1)}"
    people = rows_text(int(last.n_people.sum()), last.n_persons)
    return f"{subject}, {request_text(constraints)}: {kinds}; {people} given"
