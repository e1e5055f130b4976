"""Audit predictions in files of any size: one reading counts all combinations of group, true class and answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint
from optfair.inputs.labels import encode_groups, recode
from optfair.metrics.counts import MEASURED_CHOICES, count_repeated, read_labelled_rows
from optfair.reporting.auditing import PRESENT, PREVIOUS, check_facts, is_default, report_counts, requested
from optfair.reporting.changes import answer_changes
from optfair.reporting.facts import NO_GROUP, REPORT_LEVEL
from optfair.reporting.report import Report
from optfair.reporting.wording import MIN_CELL
from optfair.storage.counting import count_combinations
from optfair.utils.checks import check_choice
from optfair.utils.display import with_progress


@with_progress
def audit_files(
    source: Any,
    *,
    prediction: str,
    sensitive_features: str | Sequence[str],
    y: str | None = None,
    before: str | None = None,
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint] = "dp",
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
    favourable: Sequence[Hashable] | None = None,
    missing: str = "error",
    level: float = REPORT_LEVEL,
    min_cell: int = MIN_CELL,
    random_state: Any = 0,
    client: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Report:
    """Report on predictions in Parquet files, as `optfair.audit` does for arrays; they are read once, part by part.

    Parameters
    ----------
    source : str, path, or list of these
        A folder, a file, a pattern or an address; see `optfair.read_parquet`.
    prediction : str
        Column of the predicted class.
    sensitive_features : str or sequence of str
        Columns of the groups.
    y : str, optional
        Column of the true class; demographic parity and its ratio need none.
    before : str, optional
        Column of what the same people got before.
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
    favourable : sequence of class labels, optional
        Answers for which the report has the tables of a regulator: selection rates and impact ratios; those that
        the criteria are limited to by default.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out.
    level : float, default 0.95
        Confidence of the intervals and of the verdict.
    min_cell : int, default 10
        Numbers about fewer people are not shown.
    random_state : int or Generator, default 0
        Seed of the replicates behind the intervals.
    client : dask.distributed.Client, executor, or object with an ordered ``map``, optional
        Cluster that reads the files.
    n_jobs : int, optional
        Threads, where there is no client.
    progress : bool, default False
        Whether to show on standard error how far it has come.

    Returns
    -------
    Report
        The report of `optfair.audit` for the same people.

    Examples
    --------
    >>> from optfair import audit_files
    >>> report = audit_files("answers/", prediction="answer", sensitive_features="sex", y="truth")  # doctest: +SKIP
    """
    groups = [sensitive_features] if isinstance(sensitive_features, str) else list(sensitive_features)
    if not groups:
        raise ValueError("sensitive_features=[]: names no column; give at least one.")
    check_choice("missing", missing, MEASURED_CHOICES)
    requested(y, criterion, tolerance, reference, outcomes, attributes)  # before anything is read
    columns = [name for name in (y, prediction, before) if name is not None]
    table, times = count_combinations(source, [*columns, *groups], client, n_jobs)
    return audit_combinations(
        table,
        times,
        {"label": y, "prediction": prediction, "before": before, "groups": groups},
        question=(criterion, tolerance, reference, outcomes, attributes),
        facts={"favourable": favourable, "level": level, "min_cell": min_cell, "random_state": random_state},
        missing=missing,
    )


def audit_combinations(
    table: pd.DataFrame,
    times: np.ndarray,
    roles: Mapping[str, Any],
    *,
    question: tuple[Any, ...],
    facts: Mapping[str, Any],
    missing: str,
) -> Report:
    """Report on combinations of values, each of which stands for many people.

    times : (n,) people of each row. roles : columns of label, prediction, before (None where there is none) and groups.
    question : criterion and so on. facts : favourable, level, min_cell and random_state of `optfair.audit`.
    """
    check_choice("missing", missing, MEASURED_CHOICES)
    left_out: dict[str, int] = {}
    is_missing, rows = table[roles["groups"]].isna().any(axis=1).to_numpy(), np.arange(len(table))
    for name in (roles["label"], roles["prediction"], roles["before"]):
        if name is not None and table[name].isna().any():
            n = int(times[table[name].isna().to_numpy()].sum())
            raise ValueError(f"column {name!r} is missing in {n:,} rows; fill them in or drop these rows.")
    if is_missing.any() and missing != "group":
        n = int(times[is_missing].sum())
        if missing == "error":
            raise ValueError(f"sensitive_features: {n:,} rows have a missing value; give missing='group' or 'drop'.")
        left_out, rows = {NO_GROUP: n}, rows[~is_missing]
        if not len(rows):
            raise ValueError("sensitive_features: is missing in all rows; give the groups of at least some people.")
    times, people = times[rows], table[roles["groups"]].iloc[rows]
    frame = people if len(roles["groups"]) > 1 else people.iloc[:, 0]
    group, names = encode_groups(frame, len(rows), missing="group" if missing == "group" else "error")
    labels = None if roles["label"] is None else table[roles["label"]]
    constraints = requested(labels, *question)
    answers = {PREVIOUS: roles["before"], PRESENT: roles["prediction"]}
    answers = {name: table[column] for name, column in answers.items() if column is not None}
    coded = {name: read_labelled_rows(labels, values) for name, values in answers.items()}
    classes = pd.Index(sorted({name for part in coded.values() for name in part.classes.tolist()}), tupleize_cols=False)
    counts, codes = {}, {}
    for name, part in coded.items():
        codes[name] = recode(part.prediction, list(part.classes), classes, "prediction", "classes=")[rows]
        true = recode(part.true, list(part.classes), classes, "y", "classes=") if part.labelled else part.true
        true = true[rows]
        total = count_repeated(group, true, codes[name], times, names, classes)
        counts[name] = total if part.labelled else total.without_labels()
    details = check_facts(counts[PRESENT], **facts)
    details["default_tolerance"] = is_default(*question[:2])
    if PREVIOUS in codes:
        shape, weight = (len(names), len(classes)), times.astype(float)
        details["changes"] = answer_changes(group, codes[PREVIOUS], codes[PRESENT], *shape, weight)
        if labels is not None:
            cells, m = group * shape[1] + true, shape[1]
            paired = answer_changes(cells, codes[PREVIOUS], codes[PRESENT], shape[0] * m, m, weight)
            details["paired"] = paired.reshape(shape[0], m, m, m)
    return report_counts(counts, constraints, left_out=left_out, **details)
