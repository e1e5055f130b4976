"""Measure fairness on labelled data in one call: count the rows, ask the question."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pandas as pd

from optfair.metrics.bounds import ViolationBound
from optfair.metrics.confusion import group_confusion
from optfair.metrics.gaps import Attributes
from optfair.metrics.intervals import ViolationInterval


def violation(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
) -> float:
    """Measure the largest gap between a group's rate and the reference: ``max_k |D_k|``.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, or list of these, default "dp"
        "dp", "eop", "eo", "meo", "oae" or a long name; the tolerance of a Constraint is not used.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant, e.g. the favourable one for the usual equal opportunity.
    attributes : str or sequence of attribute names, default "intersections"
        With several sensitive columns: their "intersections", "marginals", "both", or a list of columns.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.

    Returns
    -------
    float
        The violation, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import violation
    >>> rng = np.random.default_rng(0)
    >>> y, prediction, group = rng.integers(0, 3, 900), rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> round(violation(y, prediction, sensitive_features=group, criterion="eo"), 3)
    0.033
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing,
    )  # fmt: skip
    return confusion.violation(criterion, reference=reference, outcomes=outcomes, attributes=attributes)


def gaps(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
) -> pd.DataFrame:
    """List every gap with the people behind it and its standard error.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, or list of these, default "dp"
        "dp", "eop", "eo", "meo", "oae" or a long name; the tolerance of a Constraint is not used.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant, e.g. the favourable one for the usual equal opportunity.
    attributes : str or sequence of attribute names, default "intersections"
        With several sensitive columns: their "intersections", "marginals", "both", or a list of columns.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several; see `group_confusion`.

    Returns
    -------
    pandas.DataFrame
        One line per row of D: criterion, group, against, given, outcome, value, n, se. n are the people behind the
        group's side (the smaller side of a pair). se is the standard error of the value; it is far too small where a
        few people were all hits or none was, which `violation_interval` allows for.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import gaps
    >>> rng = np.random.default_rng(0)
    >>> y, prediction, group = rng.integers(0, 3, 900), rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> gaps(y, prediction, sensitive_features=group).columns.tolist()
    ['criterion', 'group', 'against', 'given', 'outcome', 'value', 'n', 'se']
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing, cluster=cluster,
    )  # fmt: skip
    return confusion.gaps(criterion, reference=reference, outcomes=outcomes, attributes=attributes)


def group_rates(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
) -> pd.DataFrame:
    """List the rates of each group and of everybody.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.

    Returns
    -------
    pandas.DataFrame
        Columns rate, group ("overall" is everybody), given, outcome, value, n. The rate is "selection" P(Ŷ=j∣a),
        "conditional" P(Ŷ=j∣a, Y=i) or "accuracy" P(Ŷ=Y∣a), with given i and outcome j.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import group_rates
    >>> rng = np.random.default_rng(0)
    >>> y, prediction, group = rng.integers(0, 3, 900), rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> group_rates(y, prediction, sensitive_features=group)["rate"].value_counts().to_dict()
    {'conditional': 27, 'selection': 9, 'accuracy': 3}
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing,
    )  # fmt: skip
    return confusion.group_rates()


def noise_floor(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> float:
    """Return the violation that a perfectly fair rule would show by chance.

    It is the ``level`` quantile of ``max_k |D_k|`` when every group has the overall rates, with cells as large as here.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, or list of these, default "dp"
        "dp", "eop", "eo", "meo", "oae" or a long name; the tolerance of a Constraint is not used.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant, e.g. the favourable one for the usual equal opportunity.
    attributes : str or sequence of attribute names, default "intersections"
        With several sensitive columns: their "intersections", "marginals", "both", or a list of columns.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several; see `group_confusion`.
    level : float, default 0.95
        Probability of the floor: a fair rule stays below it that often.
    n_replicates : int, default 1000
        Replicates that the quantiles rest on.
    random_state : int or Generator, default 0
        Seed of the replicates.

    Returns
    -------
    float
        The noise floor; a violation below it may be chance.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import noise_floor
    >>> rng = np.random.default_rng(0)
    >>> y, prediction, group = rng.integers(0, 3, 900), rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> round(noise_floor(y, prediction, sensitive_features=group), 2)
    0.04
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing, cluster=cluster,
    )  # fmt: skip
    return confusion.noise_floor(
        criterion, reference=reference, outcomes=outcomes, attributes=attributes, level=level,
        n_replicates=n_replicates, random_state=random_state,
    )  # fmt: skip


def violation_interval(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
    level: float = 0.95,
    n_replicates: int = 1000,
    random_state: Any = 0,
) -> ViolationInterval:
    """Return a confidence interval of the violation in the population these rows were drawn from, and of every gap.

    The rows are taken to be independent, and the rule not to be fitted on them. Weights may depend on group, label and
    prediction. The probability is approximate. It is known to fall short (89 % for ``lower``) where weights depend
    strongly on the prediction and the true gap is large: 100 people with 3 % hits among 2000 with 20 %, hits weighing
    20 times; too few heavy rows then look like a group whose weights are light.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True classes.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, or list of these, default "dp"
        "dp", "eop", "eo", "meo", "oae" or a long name; the tolerance of a Constraint is not used.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant, e.g. the favourable one for the usual equal opportunity.
    attributes : str or sequence of attribute names, default "intersections"
        With several sensitive columns: their "intersections", "marginals", "both", or a list of columns.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several; see `group_confusion`.
    level : float, default 0.95
        Probability of the interval.
    n_replicates : int, default 1000
        Replicates that the quantiles rest on.
    random_state : int or Generator, default 0
        Seed of the replicates.

    Returns
    -------
    ViolationInterval
        The interval, the noise floor, and simultaneous intervals of all gaps.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import violation_interval
    >>> rng = np.random.default_rng(0)
    >>> y, prediction, group = rng.integers(0, 3, 900), rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> interval = violation_interval(y, prediction, sensitive_features=group)
    >>> interval.lower <= interval.value <= interval.upper
    True
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing, cluster=cluster,
    )  # fmt: skip
    return confusion.violation_interval(
        criterion, reference=reference, outcomes=outcomes, attributes=attributes, level=level,
        n_replicates=n_replicates, random_state=random_state,
    )  # fmt: skip


def violation_bound(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    criterion: Any = "dp",
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: Attributes | None = None,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
    level: float = 0.95,
) -> ViolationBound:
    """Bound the violation in the population these rows were drawn from, whatever the number of gaps.

    The rule must not have been fitted on these rows, nor chosen by them among others. It takes two to three times fewer
    people than the upper end of `violation_interval`, because it does not say where the largest gap is.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        True classes; None where they are unknown, which is enough for "dp".
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    criterion : str, Constraint, or list of these, default "dp"
        "dp", "eop", "eo", "meo", "oae" or a long name; the tolerance of a Constraint is not used.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups.
    outcomes : sequence of class labels, optional
        Predicted classes that are meant, e.g. the favourable one for the usual equal opportunity.
    attributes : str or sequence of attribute names, default "intersections"
        With several sensitive columns: their "intersections", "marginals", "both", or a list of columns.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several; see `group_confusion`.
    level : float, default 0.95
        Probability of the bound.

    Returns
    -------
    ViolationBound
        The bound, and one-sided limits of every gap.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair.metrics import violation_bound
    >>> rng = np.random.default_rng(0)
    >>> prediction, group = rng.integers(0, 3, 900), rng.choice(["A", "B"], 900)
    >>> violation_bound(None, prediction, sensitive_features=group).bound < 0.1
    True
    """
    confusion = group_confusion(
        y_true, prediction, sensitive_features=sensitive_features, sample_weight=sample_weight, classes=classes,
        missing=missing, cluster=cluster,
    )  # fmt: skip
    return confusion.violation_bound(
        criterion, reference=reference, outcomes=outcomes, attributes=attributes, level=level
    )
