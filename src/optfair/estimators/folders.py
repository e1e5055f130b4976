"""Fit to people in folders of Parquet files, and answer for them, part by part."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, warn_empty
from optfair.rule.driver import Solution
from optfair.rule.problem import FairProblem
from optfair.storage.answers import answer_frame, as_names, content_digest, key_values, output_names
from optfair.storage.engines import as_engine
from optfair.storage.model_columns import ModelColumns
from optfair.storage.row_files import RowFiles
from optfair.storage.scoring import ScoredFiles, score_files
from optfair.storage.tables import TableFiles, find_table, sample_rows
from optfair.utils.checks import check_integer
from optfair.utils.progress import stage
from optfair.utils.seeds import as_seed

if TYPE_CHECKING:
    from optfair.estimators.base import FairClassifier
    from optfair.estimators.post import OptFairPost

NOT_OF_Z = ("rule_", "seconds_", "criterion", "tolerance", "constraints_")  # what the same z serves for
SAMPLE_ROWS = 200_000  # that models of the groups are fitted on: a group of a thousandth still has 200
ROW_LABELS = r"__index_level_\d+__"  # a column that pandas adds of labels without a name: it is not one of the user
SINGLE_PRECISION_NUMBERS = 20_000_000  # beyond this many entries, 160 megabytes, Z is kept in float32


@dataclass(frozen=True)
class FolderRoles:
    """What the columns of a folder are. label, weight, cluster : a column, or none. groups, features : columns."""

    label: list[str]
    groups: list[str]
    weight: list[str]
    cluster: list[str]
    features: list[str]

    @property
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys([*self.features, *self.label, *self.groups, *self.weight, *self.cluster]))


def folder_roles(table: TableFiles, model: OptFairPost, features: Any, **roles: Any) -> FolderRoles:
    """Return what the columns are."""
    columns = {name: as_names(value, name) for name, value in roles.items()}
    for name, values in columns.items():
        table.check_columns(name, values)
    role_names = [name for values in columns.values() for name in values]
    names = _default_features(table, model, role_names) if features is None else as_names(features, "features")
    table.check_columns("features", names)
    return FolderRoles(columns["y"], columns["sensitive_features"], columns["sample_weight"], columns["cluster"], names)


def _default_features(table: TableFiles, model: OptFairPost, role_names: Sequence[str]) -> list[str]:
    """Return the columns of X: those that a fitted model names and the groups in X, or all that have no other role."""
    fitted = getattr(model.estimator, "feature_names_in_", None)
    if fitted is None:
        return [name for name in plain_columns(table) if name not in role_names]
    return list(dict.fromkeys([*fitted, *_source_columns(model)]))


def _source_columns(model: Any) -> list[str]:
    """Return the columns of X that a classifier finds its groups in, where they are named."""
    source = model.sensitive_features
    return [name for name in (source if isinstance(source, list) else [source]) if isinstance(name, str)]


def plain_columns(table: TableFiles) -> list[str]:
    """Return the columns of a table without row labels."""
    return [name for name in table.columns if not re.fullmatch(ROW_LABELS, name)]


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """z of a data frame of rows, by a fitted classifier. groups : columns of the groups, where it is told them."""

    model: Any
    features: list[str]
    groups: list[str]

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Return z, (k, A, m)."""
        arguments = {"sensitive_features": group_columns(frame, self.groups)} if self.groups else {}
        return np.asarray(self.model.joint_posterior(frame[self.features], **arguments))


def group_columns(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Return one column, or several as a frame; None for none."""
    return None if not names else frame[names[0]] if len(names) == 1 else frame[list(names)]


# -- fitting -------------------------------------------------------------------------------------------------
def fit_folder(
    model: OptFairPost, source: Any, roles: dict[str, Any], sample: int, cache: Any, client: Any
) -> OptFairPost:
    """Fit models on a sample of a folder, and solve for the rule of all of its rows; see `OptFairPost.fit_parts`."""
    check_integer("sample", sample, 1)
    if model.ensemble is True:
        raise ValueError("ensemble=True: the models of the folds are asked about people in memory; leave it out.")
    engine, table = as_engine(client, model.n_jobs), find_table(source)
    columns = folder_roles(table, model, **roles)
    if not columns.label:
        raise ValueError("y: missing; name the column of the true classes.")
    with stage(f"drawing {min(sample, table.n):,} of {table.n:,} people"):
        people = sample_rows(table, columns.names, sample, as_seed(model.random_state), engine)
    arguments = {"sensitive_features": columns.groups, "sample_weight": columns.weight, "cluster": columns.cluster}
    model.fit(
        people[columns.features],
        people[columns.label[0]],
        **{name: group_columns(people, values) for name, values in arguments.items()},
    )
    if table.n <= sample or model.confidence is not None:
        return model  # a promise that people of the sample give is one to everybody whom they were drawn from
    groups = columns.groups if model._asks_for_groups() else []
    posterior = RowPosterior(without_rows(model), columns.features, groups)
    read, weight = list(dict.fromkeys([*columns.features, *groups])), columns.weight
    return solve_folder(model, table, posterior, read, weight[0] if weight else None, cache, client)


def solve_folder(
    model: OptFairPost,
    table: TableFiles,
    posterior: Any,
    columns: Sequence[str],
    weight: str | None,
    cache: Any,
    client: Any,
) -> OptFairPost:
    """Give a fitted classifier the rule of all rows of a folder, and the key that it has.

    posterior : a dataclass around the model, which returns z of rows of these columns. weight : column, or None.
    """
    rule = model.rule_
    is_large = table.n * rule.temperatures.size > SINGLE_PRECISION_NUMBERS
    dtype = np.dtype(np.float32 if is_large else np.float64)
    parts = {name: value for name, value in vars(without_rows(model)).items() if name not in NOT_OF_Z}
    mark = content_digest([type(model).__name__, parts, replace(posterior, model=None)])
    z = ModelColumns(posterior, tuple(columns), weight, rule.groups, rule.classes, dtype, mark)
    files = RowFiles(table.parts, z, client, None if cache is None else os.fspath(cache))
    measure = files.as_measure(n_jobs=model.n_jobs)
    problem = FairProblem.prepare(measure, model.constraints_, model.costs, model._options())
    warn_empty(problem.rows.dropped)
    solution = model._solve(problem, Solution(rule))
    model.rule_ = replace(solution.rule, key=rule.key)
    model.seconds_ = {**model.seconds_, "solve": model.seconds_["solve"] + solution.rule.certificate.seconds}
    if model._fitted is not None:
        model._fitted = replace(model._fitted, problem=problem, solution=solution)
    return model


def without_rows(model: Any) -> Any:
    """Return a copy that holds nothing of the people fitted on, and can be sent to other machines.

    Two copies are told apart by what they answer: not by cores, progress, or rules that somebody has asked for since.
    """
    kind: Any = type(model)
    other = kind.__new__(kind)
    other.__dict__.update(model.__dict__)
    other.__dict__.update({"_fitted": None, "path_": None, "n_jobs": None, "progress": False})
    return other


# -- answering -----------------------------------------------------------------------------------------------
def answer_people(
    model: Any, X: Any, keys: Any, outputs: Sequence[str], *, random_state: Any, **groups: Any
) -> pd.DataFrame:
    """Return the prediction for rows, and probabilities where there are names for them. random_state : see `predict`.

    Rows that come in parts need a generator: by the seed of the model each part would be drawn with the same numbers.
    """
    options = {"random_state": random_state} if model.decision == "sampled" else {}
    answers = model.predict(X, **groups, keys=keys, **options)
    probabilities = model.predict_proba(X, **groups) if len(outputs) > 1 else None
    return answer_frame(outputs, answers, probabilities)


@dataclass(frozen=True, eq=False)
class RowAnswers:
    """The answers of a fair classifier for a data frame of rows.

    features : columns of X. is_named : whether the model knows them by name. groups, keys : columns. outputs : new
    columns.
    """

    model: Any
    features: list[str]
    is_named: bool
    groups: list[str]
    keys: list[str]
    outputs: list[str]

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the prediction, and probabilities where there are names for them."""
        X = frame[self.features] if self.is_named else frame[self.features].to_numpy()
        groups = {"sensitive_features": group_columns(frame, self.groups)} if self.groups else {}
        keys, rng = key_values(frame, self.keys), np.random.default_rng()
        return answer_people(self.model, X, keys, self.outputs, random_state=rng, **groups)


def score_folder(
    model: FairClassifier,
    source: Any,
    out: Any,
    roles: dict[str, Any],
    *,
    probabilities: bool,
    only: bool,
    client: Any,
) -> ScoredFiles:
    """Write the answers of a classifier beside the rows of a folder; see `FairClassifier.score_parts`."""
    model._check_fitted()
    table = find_table(source)
    columns = {name: as_names(value, name) for name, value in roles.items()}
    for name, values in columns.items():
        table.check_columns(name, values)
    if columns["sensitive_features"] and not model._asks_for_groups():
        raise ValueError("sensitive_features: is for aware classifiers whose groups are not in X; leave it out.")
    if not columns["sensitive_features"] and model._asks_for_groups():
        raise ValueError("sensitive_features: missing; name the columns of the groups, which this rule is told.")
    outputs = output_names(model.classes_.tolist(), probabilities)
    groups, keys, is_named = columns["sensitive_features"], columns["keys"], hasattr(model, "feature_names_in_")
    names = list(model.feature_names_in_) if is_named else plain_columns(table)
    features = [name for name in names if (name in table.columns if is_named else name not in (*groups, *keys))]
    optional = _source_columns(model) if model.awareness == "blind" else []
    absent = [name for name in names if name not in (*table.columns, *optional)]
    if absent:
        raise ValueError(
            f"X: has no column {absent[0]!r}, which the model reads; there are [{brief_names(table.columns)}]."
        )
    answers = RowAnswers(without_rows(model), features, is_named, groups, keys, outputs)
    options: dict[str, Any] = {"only": only, "client": client, "n_jobs": getattr(model, "n_jobs", None)}
    read = list(dict.fromkeys([*features, *groups, *keys]))
    return score_files(source, out, answers, content_digest(answers), columns=read, **options)
