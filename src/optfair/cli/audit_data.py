"""Read the table of ``optfair audit``: labels, groups, and predictions or the scores behind them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.cli.columns import (
    check_not_missing,
    check_numeric,
    check_roles,
    pick_columns,
    read_roles,
)
from optfair.cli.console import join_names
from optfair.cli.paths import InputError
from optfair.cli.placeholders import placeholder_notes
from optfair.cli.scores import match_classes, named_classes, score_columns
from optfair.cli.tables import CsvFormat, is_text, read_table

MAX_GROUPS = 1000  # a column with more values is refused: it is a number or an identifier
MANY_GROUPS = 20  # so is one with more values than this, if there are fewer than two rows for each


class AuditData(NamedTuple):
    """The rows of a table that is audited, where its predictions come from, and notes for the user.

    labels : (n,), or None. values : (n,) classes or (n, m) probabilities. before : (n,) classes, or None. classes : of
    the columns of values, or None. groups : a column per attribute. weight, cluster : (n,) or None.
    """

    labels: pd.Series | None
    values: Any
    before: pd.Series | None
    classes: list[Any] | None
    groups: pd.DataFrame
    weight: pd.Series | None
    cluster: pd.Series | None
    source: str
    notes: Sequence[str]

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `optfair.audit` that are rows."""
        groups = self.groups if self.groups.shape[1] > 1 else self.groups.iloc[:, 0]
        return {
            "y": self.labels,
            "prediction": self.values,
            "before": self.before,
            "classes": self.classes,
            "sensitive_features": groups,
            "sample_weight": self.weight,
            "cluster": self.cluster,
        }


class Predictions(NamedTuple):
    """The predictions of a table, and its labels, in one type.

    labels : (n,) or None. values : (n,) classes or (n, m) probabilities. classes : of the columns of values, or None.
    """

    labels: pd.Series | None
    values: Any
    classes: list[Any] | None
    source: str
    notes: Sequence[str]


def read_audit_data(arguments: Namespace) -> AuditData:
    """Read the table, and what its columns are."""
    csv_format = CsvFormat.from_arguments(arguments)
    roles = read_roles(arguments, csv_format)
    if arguments.scores:
        option, score_classes = "--scores", score_columns(arguments.scores, roles.header)
        columns = list(score_classes)
    else:
        option, score_classes = "--prediction", {}
        columns = pick_columns([arguments.prediction], roles.header, "--prediction")
    before = pick_columns([arguments.before] if arguments.before else [], roles.header, "--before")
    table = read_table(
        arguments.file,
        list(dict.fromkeys([*roles.columns, *roles.cluster, *columns, *before])),
        names=[*roles.labels, *roles.groups, *before, *([] if arguments.scores else columns)],
        csv_format=csv_format,
    )
    check_roles(table, arguments.file, roles, arguments.missing, ", or allow for any by --missing infer")
    check_not_missing(table, arguments.file, [(option, name) for name in columns])
    check_not_missing(table, arguments.file, [("--before", name) for name in before])
    check_not_missing(table, arguments.file, [("--cluster", name) for name in roles.cluster])
    labels = table[roles.label] if roles.label is not None else None
    if arguments.scores:
        predictions = _from_scores(table, arguments, labels, score_classes)
    else:
        predictions = match_answers(labels, table[columns[0]])
    for name in roles.weight:
        check_numeric(table[name], arguments.file, "--weight")
    counted = table[(table[roles.weight] > 0).all(axis=1)] if roles.weight else table
    groups = counted[roles.groups]
    check_groups(groups.dropna() if arguments.missing in ("drop", "infer") else groups)
    options = {**dict.fromkeys(roles.labels, "--label"), **dict.fromkeys(roles.groups, "--group")}
    notes = placeholder_notes(table, options)
    return AuditData(
        labels=predictions.labels,
        values=predictions.values,
        before=as_texts_like(table[before[0]], predictions) if before else None,
        classes=predictions.classes,
        groups=table[roles.groups],
        weight=table[roles.weight[0]] if roles.weight else None,
        cluster=table[roles.cluster[0]] if roles.cluster else None,
        source=predictions.source,
        notes=[*predictions.notes, *notes],
    )


def as_texts_like(column: pd.Series, predictions: Predictions) -> pd.Series:
    """Return previous answers as texts where the present ones are: "K" among 0, 1, 2."""
    answers = predictions.values if predictions.classes is None else pd.Series(predictions.classes)
    return column.astype(str) if is_text(answers) and not is_text(column) else column


def check_groups(groups: pd.DataFrame, n_rows: int | None = None) -> None:
    """Refuse one group, and columns that have about as many values as rows. n_rows : that the table stands for."""
    n_groups, n = len(groups.drop_duplicates()), len(groups) if n_rows is None else n_rows
    option = f"--group {','.join(groups.columns)}"
    if n_groups < 2:
        raise InputError(f"{option}: there is {'one' if n_groups else 'no'} group; at least two are needed.")
    if n_groups > MAX_GROUPS or (n_groups > MANY_GROUPS and n_groups > n / 2):
        raise InputError(f"{option}: there are {n_groups} groups in {n} rows; cut a number into a few bands.")


# -- predicted classes ----------------------------------------------------------------------------------------
def match_answers(labels: pd.Series | None, values: pd.Series) -> Predictions:
    """Return labels, if there are any, and predictions in one type; check that they are about the same classes."""
    source = f"predictions in column {values.name!r}"
    if labels is None:
        return Predictions(None, values, None, source, [])
    if is_text(labels) != is_text(values):  # "K" among 0, 1, 2: then both are texts
        labels, values = labels.astype(str), values.astype(str)
    classes, predicted_classes = set(labels.unique()), set(values.unique())
    if not classes & predicted_classes:
        raise InputError(
            f"--label {labels.name} and --prediction {values.name} have no class in common (labels such as "
            f"{labels.tolist()[0]!r}, predictions such as {values.tolist()[0]!r}); are these the right columns?"
        )
    notes = []
    if unseen := sorted(predicted_classes - classes, key=str):
        notes.append(
            f"--prediction {values.name}: {join_names(unseen, 5)} is predicted but never a label; is it the right "
            "column?"
        )
    return Predictions(labels, values, None, source, notes)


# -- scores ---------------------------------------------------------------------------------------------------
def _from_scores(
    table: pd.DataFrame, arguments: Namespace, labels: pd.Series | None, score_classes: Mapping[str, str | None]
) -> Predictions:
    """Return probabilities, or the class of the largest score as probabilities 0 and 1."""
    columns = list(score_classes)
    classes = named_classes(score_classes) if labels is None else match_classes(labels, score_classes)
    for name in columns:
        check_numeric(table[name], arguments.file, "--scores")
    order = sorted(range(len(classes)), key=lambda k: classes[k])
    classes, columns = [classes[k] for k in order], [columns[k] for k in order]
    scores = table[columns].to_numpy(dtype=float)
    if arguments.decision == "sampled":
        source = "predictions drawn with the probabilities in --scores"
        return Predictions(labels, scores, classes, source, [])
    if n_infinite := int((~np.isfinite(scores)).any(1).sum()):
        raise InputError(f"--scores: {n_infinite} rows hold infinite values; give finite numbers.")
    source = "prediction: the class with the largest of --scores"
    return Predictions(labels, np.eye(len(columns))[scores.argmax(axis=1)], classes, source, [])
