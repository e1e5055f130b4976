"""Read the tables of people that a saved model is asked about, for `predict`, `explain` and `report`."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.columns import check_not_missing, pick_columns
from optfair.cli.console import join_names
from optfair.cli.encoding import check_levels, model_schema
from optfair.cli.paths import InputError, swap_hint
from optfair.cli.placeholders import remove_placeholders
from optfair.cli.tables import CsvFormat, convert_names, read_table
from optfair.errors import ModelFileError, RuleFileError, UntrustedTypesError, warn
from optfair.estimators.folders import answer_people
from optfair.estimators.loading import load_model
from optfair.inputs.cells import as_texts
from optfair.inputs.encoder import feature_table
from optfair.inputs.schema import Schema
from optfair.inputs.table_form import TableForm

KEY_VARIABLE = "OPTFAIR_KEY"  # for places without files for secrets, as in the scorers of one file


@dataclass(frozen=True)
class InputColumns:
    """The columns of a table that a model reads.

    texts : features that are texts, also where they look like numbers. schema : None for a model without an encoder.
    """

    features: list[str]
    texts: list[str]
    schema: Schema | None
    groups: list[str]
    keys: list[str]

    @property
    def names(self) -> list[str]:
        """Return all of them, each once."""
        return list(dict.fromkeys([*self.features, *self.groups, *self.keys]))


@dataclass(frozen=True, eq=False)
class ModelInput:
    """What a model is asked about. keys : of the people, or None. arguments : further ones of `predict`."""

    X: Any
    keys: list[Any] | None
    arguments: dict[str, Any]


def read_model_table(
    model: Any, arguments: Namespace, header: list[str], csv_format: CsvFormat
) -> tuple[pd.DataFrame, InputColumns]:
    """Read the columns that the model and the options ask for."""
    columns = input_columns(model, arguments, header)
    text_columns = text_groups(model, columns.groups)
    table = read_table(
        arguments.file,
        columns.names,
        texts=[*columns.texts, *text_columns, *columns.keys],
        names=[name for name in columns.groups if name not in text_columns],
        csv_format=csv_format,
    )
    check_not_missing(table, arguments.file, [("--key", name) for name in columns.keys])
    return table, columns


def note_unseen(model: Any, table: pd.DataFrame, columns: InputColumns) -> None:
    """Note texts that a model has not seen; refuse a column of nothing else."""
    if columns.schema is not None:
        for note in check_levels(model, feature_table(table, columns.schema)):
            warn(note)


def model_input(model: Any, table: pd.DataFrame, columns: InputColumns) -> ModelInput:
    """Return the rows of a table as a model takes them."""
    X: Any = table[columns.features]
    if not hasattr(model, "feature_names_in_"):
        X = X.to_numpy()
    arguments: dict[str, Any] = {}
    if columns.groups:
        arguments["sensitive_features"] = table[columns.groups].set_axis(list(model.groups_.names), axis=1)
    return ModelInput(X, _person_keys(table[columns.keys]) if columns.keys else None, arguments)


def batch_input(model: Any, rows: pd.DataFrame, columns: InputColumns, csv_format: CsvFormat) -> ModelInput:
    """Return rows of a Parquet file, as they stand there, as a model takes them."""
    table = remove_placeholders(rows[columns.names], csv_format.na)
    text_columns = text_groups(model, columns.groups)
    for name in columns.groups:
        if name not in text_columns:
            table = table.assign(**{name: convert_names(table[name], csv_format)})
    return model_input(model, table, columns)


def predict_people(model: Any, people: ModelInput, outputs: Sequence[str], rng: np.random.Generator) -> pd.DataFrame:
    """Return the output columns: the prediction, and the probabilities if there are names for them. rng : for draws."""
    return answer_people(model, people.X, people.keys, outputs, random_state=rng, **people.arguments)


def _person_keys(table: pd.DataFrame) -> list[Any]:
    """Return keys as texts, so that a person is the same in every kind of file."""
    columns = [as_texts(table[name]).tolist() for name in table.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def input_columns(model: Any, arguments: Namespace, header: list[str]) -> InputColumns:
    """Return what the model reads, after checking that the table has it."""
    groups = _group_columns(model, arguments, header)
    keys = pick_columns(arguments.key, header, "--key")
    features = header
    if hasattr(model, "feature_names_in_"):
        # A blind model may be fitted to a table that holds its groups, and does not need them here.
        is_blind = model.awareness == "blind"
        optional = np.ravel(np.array(model.sensitive_features, dtype=object)).tolist() if is_blind else []
        features = [name for name in model.feature_names_in_.tolist() if name in header or name not in optional]
    absent = [name for name in features if name not in header]
    if absent:
        raise InputError(
            f"{arguments.file}: has no column {join_names(absent)}, which the model reads; it has {join_names(header)}."
        )
    form, schema = getattr(model, "_form", TableForm("unknown")), model_schema(model)
    texts = form.texts if schema is None else list(dict.fromkeys([*form.texts, *schema.texts]))
    return InputColumns(features, [name for name in texts if name in features], schema, groups, keys)


def _group_columns(model: Any, arguments: Namespace, header: list[str]) -> list[str]:
    """Return the columns of the groups, if the model asks for them."""
    if not model._asks_for_groups():
        if arguments.group:
            reason = "does not use groups" if model.awareness == "blind" else "reads the groups from its features"
            raise InputError(f"--group {arguments.group[0]}: the model {reason}; leave the option out.")
        return []
    return named_groups(model, arguments, header)


def named_groups(model: Any, arguments: Namespace, header: list[str]) -> list[str]:
    """Return the columns of the groups: those that --group names, or that the model was fitted with."""
    names = list(model.groups_.names)
    if not arguments.group:
        if all(name in header for name in names):
            return names
        raise InputError(
            f"{arguments.file}: the groups ({join_names(names)}) are needed, and the table has no such columns; name "
            "them by --group."
        )
    groups = pick_columns(arguments.group, header, "--group")
    if len(groups) != len(names):
        raise InputError(
            f"--group {','.join(groups)}: the model was fitted with {len(names)} ({join_names(names)}); give as many, "
            "in this order."
        )
    return names if set(groups) == set(names) else groups


def text_groups(model: Any, groups: list[str]) -> list[str]:
    """Return the columns whose groups are texts, even if these look like numbers."""
    levels = [model.groups_.get_level_values(k) for k in range(len(groups))]
    return [name for name, level in zip(groups, levels, strict=True) if all(isinstance(v, str) for v in level)]


def load_fair_model(path: str, trusted: Iterable[str]) -> Any:
    """Return the model in a file, with the key of the environment or else that beside it; errors name options."""
    variable = os.environ.get(KEY_VARIABLE)  # before the file, which may be somebody else's in a container
    try:
        model = load_model(path, trusted=trusted, key=variable)
    except RuleFileError as error:
        raise InputError(str(error) if variable is None else f"{KEY_VARIABLE} in the environment: {error}") from None
    except UntrustedTypesError as error:
        options = " ".join(f"--trust {name}" for name in error.types)
        raise InputError(
            f"{path}: holds types that are not loaded without your consent: {join_names(error.types)}. If you trust "
            f"the source of the file, add {options}."
        ) from None
    except ModelFileError as error:
        raise InputError(f"{error}{swap_hint(path)}") from None
    if model.decision == "hashed" and model._key() is None:
        raise InputError(
            f"{path}.key: there is no such file. It was written with the model and fixes the predictions that are "
            f"randomised; put it next to the model again, set {KEY_VARIABLE} to it, or fit the model again."
        )
    return model
