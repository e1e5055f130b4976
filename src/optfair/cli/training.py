"""Read the tables of `fit` and `frontier`, and fit OptFair-post to them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.classifiers import make_classifier, make_estimator
from optfair.cli.columns import (
    SEED_LIMIT,
    Roles,
    check_not_missing,
    check_numeric,
    check_roles,
    check_seed,
    check_tolerance,
    name_missing_groups,
    outcome_classes,
    pick_columns,
    read_roles,
    requested_criteria,
)
from optfair.cli.console import join_names
from optfair.cli.encoding import OPTIONS
from optfair.cli.paths import InputError
from optfair.cli.placeholders import placeholder_notes
from optfair.cli.tables import CsvFormat, is_text, read_table
from optfair.constraints import as_constraints
from optfair.estimators.post import OptFairPost
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.encoder import feature_table
from optfair.inputs.schema import Schema, find_schema
from optfair.inputs.splits import DEFAULT_FOLDS, held_out_rows
from optfair.utils.progress import Stage, stage

MAX_CLASSES = 100  # a label with more values is refused: it is a number to predict, or an identifier
MANY_CLASSES = 30  # a numeric label with more values is noted: it may be an amount


@dataclass(frozen=True, eq=False)
class TableData:
    """The rows of a table.

    X : the features, converted. y : (n,) classes. groups : a column per attribute. weight : (n,) or None.
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
        """Return the arguments of `report`."""
        return {"X": self.X, "y": self.y, "sensitive_features": self.groups, "sample_weight": self.weight}

    @property
    def fit_arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit`."""
        return {**self.arguments, "cluster": self.cluster}


@dataclass(frozen=True, eq=False)
class TrainingTables:
    """The rows to fit on, those to test on (or None), which columns are features, and notes for the user."""

    train: TableData
    test: TableData | None
    schema: Schema
    notes: Sequence[str]


def check_training(arguments: Namespace) -> None:
    """Check what can be checked before anything is read."""
    check_tolerance(arguments.tolerance)
    as_constraints(requested_criteria(arguments), arguments.tolerance, arguments.reference, arguments.outcome)
    make_classifier(arguments.estimator, arguments.seed)
    if arguments.missing == "infer" and arguments.aware:
        raise InputError("--missing infer: is for models that do not use the group; leave --aware out.")
    if arguments.test_size is not None and not 0 < arguments.test_size < 1:
        raise InputError(f"--test-size {arguments.test_size:g}: must be a share between 0 and 1, such as 0.3.")
    check_seed(arguments.seed, SEED_LIMIT)


def read_training(arguments: Namespace) -> TrainingTables:
    """Read the tables of the command line and check them."""
    csv_format = CsvFormat.from_arguments(arguments)
    roles = read_roles(arguments, csv_format)
    assert roles.label is not None, "--label is required"
    names = [roles.label, *roles.groups]
    for name in roles.columns:
        if [*names, *roles.weight, *roles.cluster].count(name) > 1:
            raise InputError(f"column {name!r}: is named twice; --label, --group, --weight and --cluster must differ.")
    excluded = {*roles.columns, *roles.cluster, *pick_columns(arguments.drop, roles.header, "--drop")}
    categories = pick_columns(arguments.category, roles.header, "--category")
    candidates = [name for name in roles.header if name not in excluded]
    columns, texts = [*candidates, *roles.columns, *roles.cluster], [*categories, *roles.cluster]
    table = read_table(arguments.file, columns, texts=texts, names=names, csv_format=csv_format)
    options = {roles.label: "--label", **dict.fromkeys(roles.groups, "--group")}
    notes = _check_label(table[roles.label], arguments.file)
    notes += placeholder_notes(table, options, candidates)
    schema, schema_notes = find_schema(table[candidates], categories, OPTIONS)
    train, weight_notes = _table_data(table, schema, roles, arguments.missing, arguments.file)
    test = None
    if arguments.test is not None:
        texts = [name for name in names if is_text(table[name])]
        test_table = read_table(
            arguments.test,
            [*schema.columns, *roles.columns],
            texts=[*schema.texts, *texts],
            names=[name for name in names if name not in texts],
            csv_format=csv_format,
        )
        test, test_notes = _table_data(test_table, schema, roles, arguments.missing, arguments.test)
        weight_notes += test_notes
    elif arguments.test_size is not None:
        mask = _test_rows(train, arguments.test_size, arguments.seed)
        train, test = train.subset(np.flatnonzero(~mask)), train.subset(np.flatnonzero(mask))
    if train.cluster is not None and train.cluster.nunique() < DEFAULT_FOLDS:
        raise InputError(
            f"--cluster {train.cluster.name}: has {train.cluster.nunique()} values in the rows to fit on; at least "
            f"{DEFAULT_FOLDS} are needed, one for each fold."
        )
    _check_values("--label", roles.label, train.y, None if test is None else test.y)
    groups = train.groups.dropna() if arguments.missing == "infer" else train.groups
    _check_values("--group", ",".join(roles.groups), groups, None if test is None else test.groups)
    if len(schema.columns) > len(train.y):
        notes.append(
            f"there are more columns ({len(schema.columns):,}) than people to fit on ({len(train.y):,}): a model can "
            "learn them by heart. Leave columns out by --drop, and judge the model on others by --test."
        )
    return TrainingTables(train, test, schema, [*notes, *schema_notes, *weight_notes])


def _test_rows(data: TableData, share: float, seed: int) -> np.ndarray:
    """Return a mask, (n,), of a random share of the rows to test on: at least one, not all, and whole clusters."""
    n = len(data.y)
    if data.cluster is None:
        n_test = min(max(round(share * n), 1), n - 1)
        return np.isin(np.arange(n), np.random.default_rng(seed).permutation(n)[:n_test])
    mask = held_out_rows(np.zeros(n, dtype=int), share, seed, encode_clusters(data.cluster, n))
    if mask.all() or not mask.any():
        raise InputError(
            f"--test-size {share:g}: --cluster {data.cluster.name} has {data.cluster.nunique()} values, of which none "
            "can be held out in that share; give a --test file."
        )
    return mask


def fit_post(arguments: Namespace, tables: TrainingTables) -> OptFairPost:
    """Fit OptFair-post with the options of the command line."""
    estimator = make_estimator(arguments.estimator, tables.schema, arguments.seed)
    kind = _posterior_kind(arguments.estimator, tables.train)
    options = {name: getattr(arguments, name) for name in ("confidence", "unpromised") if hasattr(arguments, name)}
    model = OptFairPost(estimator, **fair_arguments(arguments, tables.train), posterior=kind, **options)
    with fitting(tables.train, arguments.missing):
        return model.fit(**tables.train.fit_arguments)


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
    }


def _posterior_kind(estimator: str, train: TableData) -> str:
    """Return the kind of posterior model: boosting grows a tree per output and round.

    With many pairs (group, class), a model of the groups and one of the classes are cheaper than one of the pairs.
    """
    A, m = len(_distinct(train.groups)), train.y.nunique()
    return "factored" if estimator == "boosting" and A * m > 2 * (A + m) else "auto"


def _table_data(
    table: pd.DataFrame, schema: Schema, roles: Roles, missing: str, file: str
) -> tuple[TableData, list[str]]:
    """Return the data of a table, and notes on its weights."""
    check_roles(table, file, roles, missing, ", or infer them by --missing infer")
    weight, notes = _weights(table[roles.weight[0]], file) if roles.weight else (None, [])
    cluster = table[roles.cluster[0]] if roles.cluster and roles.cluster[0] in table else None
    if cluster is not None:
        check_not_missing(table, file, [("--cluster", str(cluster.name))])
    X, y = feature_table(table, schema), _classes(table[roles.labels[0]])
    return TableData(X, y, table[roles.groups], weight, cluster), notes


def _classes(column: pd.Series) -> pd.Series:
    """Return the labels with a plain type: no categories, and 1.0 as 1."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.astype(bool)
    is_whole = pd.api.types.is_numeric_dtype(column.dtype) and not (column % 1).any()
    return column.astype(np.int64) if is_whole else column


def _check_label(column: pd.Series, file: str) -> list[str]:
    """Refuse a label that is not a class; return a note if it may not be one."""
    values = column[column.notna()]
    n, n_distinct = len(values), int(values.nunique())
    is_numeric = pd.api.types.is_numeric_dtype(values.dtype)
    has_fractions = pd.api.types.is_float_dtype(values.dtype) and bool((values != np.floor(values)).any())
    if has_fractions or n_distinct > MAX_CLASSES or n_distinct > max(2, n / 2):
        raise InputError(
            f"{file}: --label {column.name} looks like a number to predict, not a class ({n_distinct} different values "
            f"in {n} rows); cut it into a few classes."
        )
    if n_distinct < 2:
        raise InputError(f"{file}: --label {column.name} has {n_distinct} class; at least two are needed.")
    if n_distinct > MANY_CLASSES and is_numeric:
        return [
            f"--label {column.name}: {n_distinct} different numbers make {n_distinct} classes; if it is an amount, cut "
            "it into a few classes."
        ]
    return []


def _weights(column: pd.Series, file: str) -> tuple[pd.Series, list[str]]:
    """Return (weights, notes): whole numbers as they are, others with mean 1."""
    check_numeric(column, file, "--weight")
    if pd.api.types.is_bool_dtype(column.dtype):
        raise InputError(f"{file}: --weight {column.name} holds truth values; it must hold numbers.")
    weights = column.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(
            f"{file}: --weight {column.name}: weights must be finite, at least 0 and not all 0 (the least is "
            f"{weights.min():g})."
        )
    if (weights != np.floor(weights)).any():
        return weights / weights.mean(), []  # of a sample: a row stands for one person on average
    note = (
        f"--weight {column.name}: whole numbers are taken as numbers of people ({weights.sum():.0f} in all); if they "
        "are survey weights, divide them by their mean first."
    )
    return weights, [note]


def _check_values(
    option: str, name: str, train: pd.Series | pd.DataFrame, test: pd.Series | pd.DataFrame | None
) -> None:
    """Require two classes (or groups) to fit on, and no other class in the test; reports leave other groups out."""
    values = _distinct(train)
    if not values:
        raise InputError(f"{option} {name}: is missing in all rows to fit on; give the groups of at least some people.")
    if len(values) < 2:
        raise InputError(
            f"{option} {name} has only {join_names(sorted(values, key=str))} in the rows to fit on; give at least two."
        )
    unseen = sorted((set() if test is None else _distinct(test)) - values, key=str)
    if unseen and option == "--label":
        raise InputError(
            f"{option} {name}: {join_names(unseen)} occurs in the rows to test on but not in those to fit on; merge it "
            "with another, leave it out, or take another --seed."
        )


def _distinct(column: pd.Series | pd.DataFrame) -> set[Any]:
    """Return the distinct values, or combinations."""
    if isinstance(column, pd.Series):
        return set(column.unique())
    rows = name_missing_groups(column).drop_duplicates()
    return {row[0] if len(row) == 1 else row for row in rows.itertuples(index=False, name=None)}
