"""Find the columns that hold the scores of a model, and the class that each of them is of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.columns import check_not_missing, check_numeric, pick_columns, split_list
from optfair.cli.paths import InputError
from optfair.inputs.score_columns import ScoreColumns
from optfair.posteriors.models import check_probabilities


def score_columns(values: Sequence[str], header: Sequence[str]) -> dict[str, str | None]:
    """Return column → class if given as CLASS=COLUMN, else None."""
    score_classes: dict[str, str | None] = {}
    for part in split_list(values, header):
        name, equals, column = part.rpartition("=")
        if part in header or not equals:
            name, column = "", part
        score_classes[pick_columns([column], header, "--scores")[0]] = name or None
    if len(score_classes) < 2:
        raise InputError("--scores: name a column for each class; at least two are needed.")
    return score_classes


def sorted_scores(labels: pd.Series, scored: Mapping[str, str | None]) -> ScoreColumns:
    """Return the model whose probabilities the columns hold, in the order of its classes."""
    classes, columns = match_classes(labels, scored), list(scored)
    order = sorted(range(len(classes)), key=lambda k: classes[k])
    return ScoreColumns([columns[k] for k in order], [classes[k] for k in order])


def check_scores(table: pd.DataFrame, file: str, columns: Sequence[str]) -> None:
    """Refuse columns that are not probabilities, one for each class."""
    check_not_missing(table, file, [("--scores", name) for name in columns])
    for name in columns:
        check_numeric(table[name], file, "--scores")
    if columns:
        check_probabilities(table[list(columns)].to_numpy(dtype=float), len(table), f"{file}: --scores")


def named_classes(score_classes: Mapping[str, str | None]) -> list[Any]:
    """Return the class of each column of scores where there are no labels: as named, or without a common prefix."""
    names = list(score_classes.values())
    if None not in names:
        return names
    columns = list(score_classes)
    if any(names):
        raise InputError(f"--scores: give CLASS=COLUMN for every column or for none; {columns} is mixed.")
    prefixes = {re.sub(r"[a-zA-Z0-9]*$", "", column) for column in columns}
    prefix = prefixes.pop() if len(prefixes) == 1 else ""
    return [column[len(prefix) :] for column in columns]


def match_classes(labels: pd.Series, score_classes: Mapping[str, str | None]) -> list[Any]:
    """Return the class of each column of scores, as the labels hold it."""
    columns = list(score_classes)
    by_name = {str(value): value for value in pd.unique(labels)}
    names = list(score_classes.values())
    if not any(names):
        names = _without_prefix(columns, list(by_name))
    if None in names:
        raise InputError(f"--scores: give CLASS=COLUMN for every column or for none; {columns} is mixed.")
    absent = [name for name in by_name if name not in names]
    if absent:
        raise InputError(
            f"--scores: no column for class {absent[0]!r} of {labels.name!r} (columns {columns}); name the columns "
            "like the classes, with one prefix or none, or give CLASS=COLUMN."
        )
    if all(isinstance(value, bool | np.bool_) for value in by_name.values()):
        by_name |= {"True": True, "False": False}
    is_numeric = all(
        isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in by_name.values()
    )
    return [
        by_name[name] if name in by_name else _parse_number(name) if is_numeric else name for name in map(str, names)
    ]


def _without_prefix(columns: Sequence[str], classes: Sequence[str]) -> list[str | None]:
    """Return the columns without the shortest prefix under which most of the classes are columns."""
    prefixes = {column[: len(column) - len(name)] for column in columns for name in classes if column.endswith(name)}
    candidates = [prefix for prefix in prefixes | {""} if all(column.startswith(prefix) for column in columns)]
    best = max(sorted(candidates, key=len), key=lambda prefix: sum(prefix + name in columns for name in classes))
    return [column[len(best) :] for column in columns]


def _parse_number(name: str) -> float:
    try:
        return int(name)
    except ValueError:
        try:
            return float(name)
        except ValueError:
            raise InputError(f"--scores: class {name!r} is not a number like the labels.") from None
