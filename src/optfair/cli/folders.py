"""Run ``optfair fit``, ``predict`` and ``audit`` on folders of Parquet files, which need not fit in memory."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.audit_data import as_texts_like, check_groups, match_answers
from optfair.cli.columns import MISSING_VALUES, outcome_classes, pick_columns, requested_constraints
from optfair.cli.encoding import check_levels
from optfair.cli.model_tables import InputColumns, batch_input, input_columns, predict_people
from optfair.cli.paths import InputError
from optfair.cli.placeholders import remove_placeholders
from optfair.cli.tables import CsvFormat, convert_names, read_header
from optfair.errors import need_extra, warn
from optfair.estimators.folders import SAMPLE_ROWS, solve_folder, without_rows
from optfair.inputs.encoder import feature_table
from optfair.reporting.folder_audit import audit_combinations
from optfair.reporting.report import Report
from optfair.storage.counting import count_combinations
from optfair.storage.engines import as_engine
from optfair.storage.scoring import ScoredFiles, score_files
from optfair.storage.tables import batch_frame, find_table, sample_rows
from optfair.utils.progress import stage

AUDITED = ("label", "prediction", "before")  # options that name columns which a folder is counted by
CONNECT_SECONDS = 20  # until a scheduler that does not answer is given up
FIRST_PARTS, FIRST_ROWS = 16, 10_000  # that are looked at for texts which a model has not seen


@contextmanager
def cluster(address: str | None) -> Any:
    """Yield a client of the Dask scheduler at an address, or None."""
    if address is None:
        yield None
        return
    distributed = need_extra("distributed", "--scheduler")
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"--scheduler {address}: cannot be reached ({error}).") from None
    with client:
        try:
            yield client
        except RuntimeError as error:  # workers that died, a scheduler that is gone
            raise InputError(f"--scheduler {address}: {str(error).removeprefix('client: ')}") from error


# -- fit ---------------------------------------------------------------------------------------------------------
def check_folder_fit(arguments: Namespace) -> None:
    """Refuse what a folder is not fitted with."""
    if arguments.method == "in":
        raise InputError("--method in: trains on rows in memory; take a sample of the folder, or --method post.")
    for option, value in (("--test-size", arguments.test_size), ("--split-by", arguments.split_by)):
        if value is not None:
            raise InputError(f"{option} {value}: is not for folders; keep some files apart, and give one by --test.")
    if arguments.sample is not None and arguments.sample < 1:
        raise InputError(f"--sample {arguments.sample}: must be at least 1.")


def read_sample(arguments: Namespace, columns: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
    """Return rows of a folder that are drawn to fit models on. labels : columns of labels and groups."""
    csv_format, size = CsvFormat.from_arguments(arguments), arguments.sample or SAMPLE_ROWS
    files = find_table(arguments.file)
    files.check_columns("columns", columns)
    for name in labels:
        if files.is_nested(name):
            raise InputError(f"{arguments.file}: column {name!r} holds lists; it must hold one value in each row.")
    with cluster(arguments.scheduler) as client, stage(f"drawing {min(size, files.n):,} of {files.n:,} people"):
        table = sample_rows(files, columns, size, arguments.seed, as_engine(client))
    table = remove_placeholders(table, csv_format.na)
    return table.assign(**{name: convert_names(table[name], csv_format) for name in labels})


@dataclass(frozen=True, eq=False)
class FolderPosterior:
    """z of rows of a folder, read as the command reads tables; see `optfair.estimators.folders`."""

    model: Any
    columns: InputColumns
    csv_format: CsvFormat

    def __call__(self, rows: pd.DataFrame) -> np.ndarray:
        """Return z, (k, A, m)."""
        people = batch_input(self.model, rows, self.columns, self.csv_format)
        return np.asarray(self.model.joint_posterior(people.X, **people.arguments))


def solve_for_folder(model: Any, arguments: Namespace) -> str:
    """Give a model that was fitted to a sample of a folder the rule of everybody in it, and return what to know."""
    files, size = find_table(arguments.file), arguments.sample or SAMPLE_ROWS
    if files.n <= size or arguments.confidence is not None:
        return ""
    groups = list(model.groups_.names) if model._asks_for_groups() else []
    columns = InputColumns(model.feature_names_in_.tolist(), [], None, groups, [])
    posterior = FolderPosterior(without_rows(model), columns, CsvFormat.from_arguments(arguments))
    with cluster(arguments.scheduler) as client, stage(f"solving for {files.n:,} people"):
        solve_folder(model, files, posterior, columns.names, arguments.weight, arguments.cache, client)
    return (
        f"What the groups are was learned from {size:,} of {files.n:,} people. Gaps of everybody differ from those of\n"
        "the certificate by what chance does among these: --sample draws more, --confidence 0.95 allows for it, and\n"
        "`optfair audit` of the answers tells."
    )


# -- predict -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class FolderAnswers:
    """The answers of a model for rows of a folder. outputs : names of the new columns."""

    model: Any
    columns: InputColumns
    csv_format: CsvFormat
    outputs: Sequence[str]

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the new columns."""
        for name in self.columns.keys:
            if n_missing := int(rows[name].isna().sum()):
                raise ValueError(f"--key {name} is missing in {n_missing:,} rows; fill them in or drop these rows.")
        people = batch_input(self.model, rows, self.columns, self.csv_format)
        return predict_people(self.model, people, self.outputs, np.random.default_rng())


def predict_folder(model: Any, arguments: Namespace, outputs: list[str]) -> ScoredFiles:
    """Write the answers of a model for the files of a folder into another folder. outputs : names of new columns."""
    header = read_header(arguments.file)
    repeated = [] if arguments.only else [name for name in outputs if name in header]
    if repeated:
        raise InputError(
            f"{arguments.file}: already has a column {repeated[0]!r}; rename it, or write only the predictions by "
            "--only."
        )
    csv_format, columns = CsvFormat.from_arguments(arguments), input_columns(model, arguments, header)
    if columns.schema is not None:
        rows = remove_placeholders(first_rows(arguments.file, columns.features), csv_format.na)
        for note in check_levels(model, feature_table(rows, columns.schema)):
            warn(f"of the first rows of some files, {note}")
    digest = hashlib.sha256(Path(arguments.model).read_bytes())
    digest.update(repr((outputs, columns.features, columns.groups, columns.keys, csv_format)).encode())
    answers = FolderAnswers(without_rows(model), columns, csv_format, outputs)
    options = {"columns": columns.names, "only": arguments.only}
    with cluster(arguments.scheduler) as client:
        return score_files(arguments.file, arguments.output, answers, digest.hexdigest(), client=client, **options)


def first_rows(folder: str, columns: Sequence[str]) -> pd.DataFrame:
    """Return the first rows of some parts of a folder, evenly spaced."""
    files = find_table(folder)
    files.check_columns("columns", columns)
    step = -(-len(files.parts) // FIRST_PARTS)
    batches = [next(part.batches(list(columns), FIRST_ROWS)) for part in files.parts[::step]]
    return pd.concat([batch_frame(batch) for batch in batches], ignore_index=True)


# -- audit -------------------------------------------------------------------------------------------------------
def audit_folder(arguments: Namespace) -> Report:
    """Count the combinations of the columns that an audit is about, and report on them."""
    for option in ("scores", "weight", "cluster"):
        if getattr(arguments, option):
            raise InputError(
                f"--{option}: is not for folders, whose rows are counted one by one; write it to one table, or leave "
                "it out."
            )
    if arguments.missing == "infer":
        raise InputError("--missing infer: is not for folders; give drop or group.")
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file)
    roles: dict[str, Any] = {"groups": pick_columns(arguments.group, header, "--group")}
    for option in AUDITED:
        value = getattr(arguments, option)
        roles[option] = pick_columns([value], header, f"--{option}")[0] if value else None
    names = [*(roles[option] for option in AUDITED if roles[option]), *roles["groups"]]
    with cluster(arguments.scheduler) as client:
        table, times = count_combinations(arguments.file, names, client)
    table = remove_placeholders(table, csv_format.na)
    for name in table.columns:
        table[name] = convert_names(table[name], csv_format)
    _check_complete(arguments, table, times, roles)
    table = _match_classes(table, roles)
    groups = table[roles["groups"]]
    check_groups(groups.dropna() if arguments.missing == "drop" else groups, int(times.sum()))
    classes = {
        value for option in AUDITED if roles[option] for value in table[roles[option]].dropna().unique().tolist()
    }
    ordered = sorted(classes, key=lambda value: (isinstance(value, str), value))
    several = len(roles["groups"]) > 1
    outcomes = outcome_classes(arguments.outcome, ordered)
    question = requested_constraints(arguments, outcomes, arguments.attributes if several else "intersections")
    facts = {"level": arguments.level, "min_cell": arguments.min_cell, "random_state": arguments.seed}
    facts["favourable"] = outcome_classes(arguments.favourable, ordered, "--favourable")
    report = audit_combinations(
        table, times, roles, question=(question, None, None, None, None), facts=facts, missing=arguments.missing
    )
    name = Path(arguments.file).resolve().name
    title = report.title.replace("Audit", f"Audit of {name}", 1)
    return Report(replace(report.facts, title=f"{title}; predictions in column {roles['prediction']!r}"))


def _check_complete(arguments: Namespace, table: pd.DataFrame, times: np.ndarray, roles: dict[str, Any]) -> None:
    """Refuse missing values, as `optfair.cli.columns.check_roles` does for a table whose rows are people."""
    columns = [(f"--{option}", roles[option], "") for option in AUDITED if roles[option]]
    if arguments.missing == "error":
        step = ", or make them a group by --missing group, or leave them out by --missing drop"
        columns += [("--group", name, step) for name in roles["groups"]]
    for option, name, step in columns:
        if n_missing := int(times[table[name].isna().to_numpy()].sum()):
            raise InputError(
                f"{arguments.file}: {option} {name} is missing in {n_missing:,} of {times.sum():,} rows "
                f"({MISSING_VALUES}); fill them in or drop these rows{step}."
            )


def _match_classes(table: pd.DataFrame, roles: dict[str, Any]) -> pd.DataFrame:
    """Return the table with labels and answers of one type; note answers that are never a label."""
    labels = None if roles["label"] is None else table[roles["label"]]
    answers = match_answers(labels, table[roles["prediction"]])
    for note in answers.notes:
        warn(note)
    columns = {roles["prediction"]: answers.values}
    if labels is not None:
        columns[roles["label"]] = answers.labels
    if roles["before"] is not None:
        columns[roles["before"]] = as_texts_like(table[roles["before"]], answers)
    return table.assign(**columns)
