"""Read the tables of `fit` and `frontier`, and fit OptFair-post to them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.classifiers import make_classifier, make_estimator, with_fitted_steps
from optfair.cli.columns import (
    SEED_LIMIT,
    Roles,
    check_not_missing,
    check_roles,
    check_seed,
    check_tolerance,
    outcome_classes,
    pick_columns,
    read_roles,
    requested_criteria,
)
from optfair.cli.encoding import OPTIONS
from optfair.cli.folders import read_sample
from optfair.cli.held_out import check_held_out, held_out_people, rows_to_test, split_column
from optfair.cli.paths import InputError
from optfair.cli.placeholders import placeholder_notes
from optfair.cli.scores import check_scores, score_columns, sorted_scores
from optfair.cli.tables import CsvFormat, is_text, read_header, read_table
from optfair.cli.training_columns import check_label, check_values, distinct_values, label_classes, row_weights
from optfair.constraints import as_constraints
from optfair.estimators.post import OptFairPost
from optfair.inputs.encoder import feature_table
from optfair.inputs.schema import Schema, find_schema
from optfair.inputs.score_columns import ScoreColumns
from optfair.inputs.splits import DEFAULT_FOLDS
from optfair.utils.progress import Stage, stage


@dataclass(frozen=True, eq=False)
class TableData:
    """The rows of a table.

    X : the features, converted, and scores. y : (n,) classes. groups : a column per attribute. weight : (n,) or None.
    cluster : (n,) whose row each is, or None.
    """

    X: pd.DataFrame
    y: pd.Series
    groups: pd.DataFrame
    weight: pd.Series | None
    cluster: pd.Series | None = None

    def subset(self, rows: np.ndarray) -> TableData:
        """Return these rows."""
        weight, cluster = (None if part is None else part.iloc[rows] for part in (self.weight, self.cluster))
        return TableData(self.X.iloc[rows], self.y.iloc[rows], self.groups.iloc[rows], weight, cluster)

    @property
    def n_unknown(self) -> int:
        """Return the number of people who miss an attribute."""
        return int(self.groups.isna().any(axis=1).sum())

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit` and `report`."""
        columns = {"X": self.X, "y": self.y, "sensitive_features": self.groups, "sample_weight": self.weight}
        return {**columns, "cluster": self.cluster}


@dataclass(frozen=True, eq=False)
class TrainingTables:
    """The rows to fit on, those to test on (or None), which columns are features, and notes for the user.

    scores : the model of the user, whose probabilities are columns, or None. test_people : what those to test on are
    called, in a heading.
    """

    train: TableData
    test: TableData | None
    schema: Schema
    notes: Sequence[str]
    scores: ScoreColumns | None = None
    test_people: str = ""


def check_training(arguments: Namespace) -> None:
    """Check what can be checked before anything is read."""
    check_tolerance(arguments.tolerance)
    as_constraints(requested_criteria(arguments), arguments.tolerance, arguments.reference, arguments.outcome)
    make_classifier(arguments.estimator, arguments.seed)
    if arguments.missing == "infer" and arguments.aware:
        raise InputError("--missing infer: is for models that do not use the group; leave --aware out.")
    check_held_out(arguments)
    check_seed(arguments.seed, SEED_LIMIT)


def read_training(arguments: Namespace) -> TrainingTables:
    """Read the tables of the command line and check them."""
    csv_format = CsvFormat.from_arguments(arguments)
    roles = read_roles(arguments, csv_format)
    assert roles.label is not None, "--label is required"
    scored = score_columns(arguments.scores, roles.header) if arguments.scores else {}
    split, value = split_column(arguments, roles.header)
    names = [roles.label, *roles.groups]
    for name in [*roles.columns, *scored]:
        if [*names, *roles.weight, *roles.cluster, *scored].count(name) > 1:
            raise InputError(
                f"column {name!r}: is named twice; --label, --group, --weight, --cluster and --scores must differ."
            )
    set_columns = [*roles.columns, *roles.cluster, *([] if split is None else [split])]
    excluded = {*set_columns, *scored, *pick_columns(arguments.drop, roles.header, "--drop")}
    categories = pick_columns(arguments.category, roles.header, "--category")
    # A model of the user that is told the group needs nothing else.
    candidates = [] if scored and arguments.aware else [name for name in roles.header if name not in excluded]
    columns, texts = list(dict.fromkeys([*candidates, *scored, *set_columns])), [*categories, *roles.cluster]
    if Path(arguments.file).is_dir():
        table = read_sample(arguments, columns, names)
    else:
        table = read_table(arguments.file, columns, texts=texts, names=names, csv_format=csv_format)
    options = {roles.label: "--label", **dict.fromkeys(roles.groups, "--group")}
    notes = check_label(table[roles.label], arguments.file)
    notes += placeholder_notes(table, options, candidates)
    schema, schema_notes = _schema(table[[*candidates, *scored]], categories, list(scored))
    scores = sorted_scores(label_classes(table[roles.label].dropna()), scored) if scored else None
    train, weight_notes = _table_data(table, schema, roles, arguments, arguments.file, list(scored))
    mask = None
    if arguments.test is None:
        by = None if split is None else table[split]
        check_not_missing(table, arguments.file, [] if split is None else [("--split-by", split)])
        mask = rows_to_test(len(train.y), arguments, train.cluster, by, value)
    test = None
    if arguments.test is not None:
        texts = [name for name in names if is_text(table[name])]
        cluster = [name for name in roles.cluster if name in read_header(arguments.test, csv_format)]
        test_table = read_table(
            arguments.test,
            [*schema.columns, *roles.columns, *cluster],
            texts=[*schema.texts, *texts, *cluster],
            names=[name for name in names if name not in texts],
            csv_format=csv_format,
        )
        test, test_notes = _table_data(test_table, schema, roles, arguments, arguments.test, list(scored))
        weight_notes += test_notes
    elif mask is not None:
        train, test = train.subset(np.flatnonzero(~mask)), train.subset(np.flatnonzero(mask))
    if train.cluster is not None and train.cluster.nunique() < DEFAULT_FOLDS:
        raise InputError(
            f"--cluster {train.cluster.name}: has {train.cluster.nunique()} values in the rows to fit on; at least "
            f"{DEFAULT_FOLDS} are needed, one for each fold."
        )
    check_values("--label", roles.label, train.y, None if test is None else test.y)
    groups = train.groups.dropna() if arguments.missing == "infer" else train.groups
    check_values("--group", ",".join(roles.groups), groups, None if test is None else test.groups)
    if len(schema.columns) > len(train.y):
        notes.append(
            f"there are more columns ({len(schema.columns):,}) than people to fit on ({len(train.y):,}): a model can "
            "learn them by heart. Leave columns out by --drop, and judge the model on others by --test."
        )
    people = f"the people of {arguments.test}"
    if arguments.test is None:
        people = held_out_people(None if split is None else table[split], mask)
    return TrainingTables(train, test, schema, [*notes, *schema_notes, *weight_notes], scores, people)


def _schema(table: pd.DataFrame, categories: Sequence[str], scored: Sequence[str]) -> tuple[Schema, list[str]]:
    """Return the features, and notes on columns that are left out; scores are numbers, whatever they hold."""
    schema, notes = find_schema(table, categories, OPTIONS)
    numbers = [*(name for name in schema.numbers if name not in scored), *scored]
    beginnings = tuple(f"column {name!r} " for name in scored)
    return Schema(numbers, schema.texts), [
        note for note in notes if not note.startswith(beginnings)
    ] if beginnings else notes


def fit_post(arguments: Namespace, tables: TrainingTables) -> OptFairPost:
    """Fit OptFair-post with the options of the command line."""
    estimator = make_estimator(arguments.estimator, tables.schema, arguments.seed)
    options = {name: getattr(arguments, name) for name in ("confidence", "unpromised") if hasattr(arguments, name)}
    if tables.scores is None:
        options |= {"estimator": estimator, "posterior": _posterior_kind(arguments.estimator, tables.train)}
    else:
        options["estimator"] = tables.scores
        if not arguments.aware:
            options["group_estimator"] = with_fitted_steps(estimator, tables.train.X)
    model = OptFairPost(**options, **fair_arguments(arguments, tables.train))
    with fitting(tables.train, arguments.missing):
        return model.fit(**tables.train.arguments)


def fitting(train: TableData, missing: str) -> AbstractContextManager[Stage]:
    """Return the stage in which a model is fitted. missing : what people without a group are."""
    n_unknown = train.n_unknown if missing == "infer" else 0
    unknown = f", the group of {n_unknown:,} unknown" if n_unknown else ""
    return stage(f"fitting to {len(train.y):,} people{unknown}, {train.X.shape[1]:,} features")


def fair_arguments(arguments: Namespace, train: TableData) -> dict[str, Any]:
    """Return the arguments that every fair classifier takes."""
    criteria = requested_criteria(arguments)
    return {
        "criterion": criteria[0] if len(criteria) == 1 else criteria,
        "tolerance": arguments.tolerance,
        "reference": arguments.reference,
        "outcomes": outcome_classes(arguments.outcome, sorted(train.y.unique().tolist())),
        "attributes": arguments.attributes if train.groups.shape[1] > 1 else None,
        "awareness": "aware" if arguments.aware else "blind",
        "missing": arguments.missing,
        "random_state": arguments.seed,
        **{name: getattr(arguments, name) for name in ("decision", "hashing") if getattr(arguments, name, None)},
    }


def _posterior_kind(estimator: str, train: TableData) -> str:
    """Return the kind of posterior model: boosting grows a tree per output and round.

    With many pairs (group, class), a model of the groups and one of the classes are cheaper than one of the pairs.
    """
    A, m = len(distinct_values(train.groups)), train.y.nunique()
    return "factored" if estimator == "boosting" and A * m > 2 * (A + m) else "auto"


def _table_data(
    table: pd.DataFrame, schema: Schema, roles: Roles, arguments: Namespace, file: str, scored: list[str]
) -> tuple[TableData, list[str]]:
    """Return the data of a table, and notes on its weights."""
    check_roles(table, file, roles, arguments.missing, ", or infer them by --missing infer")
    weight, notes = row_weights(table[roles.weight[0]], file) if roles.weight else (None, [])
    cluster = table[roles.cluster[0]] if roles.cluster and roles.cluster[0] in table else None
    if cluster is not None:
        check_not_missing(table, file, [("--cluster", str(cluster.name))])
    check_scores(table, file, scored)
    X, y = feature_table(table, schema), label_classes(table[roles.labels[0]])
    return TableData(X, y, table[roles.groups], weight, cluster), notes
