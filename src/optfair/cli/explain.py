"""Run ``optfair explain``: say why the people in a table get their predictions from a saved model."""

from __future__ import annotations

import json
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from optfair.cli.columns import split_list
from optfair.cli.console import WIDTH, join_name
from optfair.cli.main import DONE
from optfair.cli.model_tables import load_fair_model, model_input, note_unseen, read_model_table
from optfair.cli.paths import InputError, check_distinct
from optfair.cli.tables import CsvFormat, check_table_name, read_header, write_table
from optfair.estimators.explanations import NO_PATH, NOT_KNOWN
from optfair.rule.explanation import Explanation
from optfair.utils.archives import need_skops
from optfair.utils.files import write_atomically

N_TERMS = 3  # constraints of each person that a table names
NO_PATH_HERE = f"{NOT_KNOWN} the model was saved without other tolerances. Fit it again without --no-path."


def run(arguments: Namespace) -> int:
    """Load, read, explain, write, print."""
    need_skops("optfair explain")
    if arguments.rows < 1:
        raise InputError(f"--rows {arguments.rows}: must be at least 1.")
    if arguments.output:
        check_table_name(arguments.output)
    check_distinct(arguments.output, arguments.json)
    model = load_fair_model(arguments.model, arguments.trust)
    if not hasattr(model, "rule_"):
        raise InputError(
            f"{arguments.model}: was trained by --method in; its answers are votes of trained models, and no sums of "
            "terms that could be shown. Fit with --method post."
        )
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    table, columns = read_model_table(model, arguments, header, csv_format)
    note_unseen(model, table, columns)
    rows = np.arange(len(table))
    if arguments.only:
        rows = _chosen_rows(model_input(model, table, columns).keys, len(table), arguments)
    n = len(rows)
    if not (arguments.output or arguments.json or arguments.only):
        rows = rows[: arguments.rows]
    table = table.iloc[rows]
    people = model_input(model, table, columns)
    explanation = model.explain(people.X, **people.arguments, keys=people.keys)
    if arguments.output:
        write_table(_person_table(explanation, table[columns.keys], rows), arguments.output, csv_format)
    if arguments.json:
        _write_json(explanation, people.keys, rows, arguments.json)
    _print(explanation if arguments.only else explanation[: arguments.rows], people.keys, rows, n)
    files = [path for path in (arguments.output, arguments.json) if path]
    if files:
        print(f"\nWrote {' and '.join(files)}: {n} people")
    return DONE


def _chosen_rows(keys: Sequence[object] | None, n: int, arguments: Namespace) -> np.ndarray:
    """Return the positions of the rows that --only names, by their keys or by their numbers, in the order of FILE."""
    names = [str(join_name(key)) for key in keys] if keys is not None else [str(row) for row in range(1, n + 1)]
    values = split_list(arguments.only, names)
    unknown = next((value for value in values if value not in names), None)
    if unknown is not None:
        if keys is None:
            raise InputError(f"--only {unknown}: must be the number of a row, from 1 to {n}, or give --key.")
        raise InputError(f"--only {unknown}: nobody in {arguments.file} has this --key.")
    return np.flatnonzero(np.isin(names, values))


def _person_table(explanation: Explanation, keys: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    """Return one line per person: row, keys, numbers, sentences and the largest terms."""
    table = explanation.table.copy()
    table.insert(0, "row", rows + 1)
    words, parts = np.array([*explanation.row_words(), ""], dtype=object), explanation.parts
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :N_TERMS]
    for rank in range(order.shape[1]):
        values = parts[np.arange(len(parts)), order[:, rank]]
        has_term = values != 0
        table[f"constraint_{rank + 1}"] = words[np.where(has_term, order[:, rank], -1)]
        table[f"part_{rank + 1}"] = np.where(has_term, values, np.nan)
    table["sentences"] = explanation.sentences
    repeated = next((name for name in keys.columns if name in table), None)
    if repeated is not None:
        raise InputError(f"--key {repeated}: a column of the output has the same name; rename it.")
    return pd.concat([table[["row"]], keys.reset_index(drop=True), table.drop(columns="row")], axis=1)


def _write_json(explanation: Explanation, keys: Sequence[object] | None, rows: np.ndarray, path: str) -> None:
    document = explanation.to_dict()
    for position, person in enumerate(document["people"]):
        person["person"] = int(rows[position]) + 1
        if keys is not None:
            person["key"] = keys[position]
    write_atomically(Path(path), (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def _print(explanation: Explanation, keys: Sequence[object] | None, rows: np.ndarray, n: int) -> None:
    """Print the sentences about the first people, and what holds for all of them."""
    for position, text in enumerate(explanation.sentences):
        name = f"Row {rows[position] + 1}" + ("" if keys is None else f" ({join_name(keys[position])})")
        print(textwrap.fill(f"{name}: {text}", WIDTH, subsequent_indent="  "))
    if len(explanation) < n:
        print(f"... and {n - len(explanation)} more people (--rows N shows more, -o OUT.csv writes all)")
    print()
    for note in explanation.notes:
        print(textwrap.fill(NO_PATH_HERE if note == NO_PATH else note, WIDTH, subsequent_indent="  "))
