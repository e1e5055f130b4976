"""Audit predictions of any origin: the report of a model, without a model."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from optfair.constraints import AnyConstraint, as_constraints
from optfair.constraints.criteria import labelled_criterion
from optfair.estimators.report import Report, make_report
from optfair.inputs.labels import encode_groups
from optfair.metrics.counts import ConfusionCounts, count_rows, read_prediction
from optfair.reporting.rates import answer_changes
from optfair.reporting.wording import request_text


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
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
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
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group"}, default "error"
        What rows without a group are: an error, or a group of their own, named "(missing)".
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several.

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
    constraints = as_constraints(criterion, tolerance, reference, outcomes, attributes)
    options: dict[str, Any] = {"sample_weight": sample_weight, "missing": missing, "cluster": cluster}
    if y is None and (name := labelled_criterion(constraints)) is not None:
        raise ValueError(f"y=None: {name!r} speaks of true classes; give them, or ask for 'dp' or its ratio.")

    def count(values: Any, names: Iterable[Hashable] | None) -> ConfusionCounts:
        return count_rows(y, values, sensitive_features, classes=names, **options)

    counts = {"answers": count(prediction, classes)}
    changes = None
    if before is not None:
        earlier = count(before, classes)
        names = list(counts["answers"].classes)
        if list(earlier.classes) != names:  # an answer that only one of them gives
            names = sorted({*names, *earlier.classes})
        counts = {"previous answers": count(before, names), "answers": count(prediction, names)}
        index = counts["answers"].classes
        answers = [read_prediction(values, index, fixed=True) for values in (before, prediction)]
        earlier_codes, codes = (code if probabilities is None else probabilities for code, probabilities, _ in answers)
        group, _ = encode_groups(sensitive_features, len(codes), missing=missing)
        changes = answer_changes(group, earlier_codes, codes, len(counts["answers"].groups), len(index))
    return report_counts(counts, constraints, changes=changes)


def report_counts(
    predictions: dict[str, ConfusionCounts], constraints: Sequence[AnyConstraint], subject: str = "Audit", **facts: Any
) -> Report:
    """Report on counts of predictions, the last of them the one that is judged."""
    counts = list(predictions.values())[-1]
    A, m = counts.n_people.shape
    n = int(counts.n_people.sum())
    title = f"{subject}, {request_text(constraints)}: {A} groups, {m} classes; {n} people given"
    return make_report(title, None, constraints, predictions, n_people=n, **facts)
