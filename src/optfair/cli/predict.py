"""Run ``optfair predict``: predict the classes of the people in a table with a saved model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.counting import row_slices
from optfair.cli.main import DONE
from optfair.cli.model_tables import (
    InputColumns,
    ModelInput,
    load_fair_model,
    model_input,
    note_unseen,
    read_model_table,
)
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, check_table_name, read_header, read_table, write_table
from optfair.utils.archives import need_skops
from optfair.utils.progress import stage

PREDICTION, PROBABILITY_PREFIX = "prediction", "p_"


def run(arguments: Namespace) -> int:
    """Load, read, predict, write."""
    with stage("loading skops"):
        need_skops("optfair predict")
    check_table_name(arguments.output)
    model = load_fair_model(arguments.model, arguments.trust)
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    outputs = [PREDICTION]
    if arguments.probabilities:
        outputs += [f"{PROBABILITY_PREFIX}{name}" for name in model.classes_.tolist()]
    repeated = [] if arguments.only else [name for name in outputs if name in header]
    if repeated:
        raise InputError(
            f"{arguments.file}: already has a column {repeated[0]!r}; rename it, or write only the predictions by "
            "--only."
        )
    table, columns = read_model_table(model, arguments, header, csv_format)
    note_unseen(model, table, columns)
    predictions = _predict(model, table, columns, outputs)
    if not arguments.only:  # the other columns as they are written
        predictions = pd.concat([read_table(arguments.file, verbatim=True, csv_format=csv_format), predictions], axis=1)
    write_table(predictions, arguments.output, csv_format)
    counts = predictions[PREDICTION].value_counts()
    shares = join_names([f"{name}: {count / len(table):.1%}" for name, count in counts.items()], 10)
    print(f"Wrote {arguments.output}: {len(table)} people, column {PREDICTION!r} ({shares})")
    return DONE


def _predict(model: Any, table: pd.DataFrame, columns: InputColumns, outputs: Sequence[str]) -> pd.DataFrame:
    """Return the output columns: the prediction, and the probabilities if there are names for them."""
    parts = []
    with stage("predicting", len(table), unit="people") as work:
        for rows in row_slices(len(table)):  # an answer does not depend on who else is asked about
            parts.append(_predict_part(model, model_input(model, table.iloc[rows], columns), outputs))
            work.advance(len(parts[-1]))
    return pd.concat(parts, ignore_index=True)


def _predict_part(model: Any, people: ModelInput, outputs: Sequence[str]) -> pd.DataFrame:
    values = {outputs[0]: model.predict(people.X, **people.arguments, keys=people.keys)}
    if len(outputs) > 1:
        h = model.predict_proba(people.X, **people.arguments)
        values |= {name: h[:, k] for k, name in enumerate(outputs[1:])}
    return pd.DataFrame(values)
