"""Run ``optfair predict``: predict the classes of the people in a table with a saved model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.counting import row_slices
from optfair.cli.folders import predict_folder
from optfair.cli.main import DONE
from optfair.cli.model_tables import (
    InputColumns,
    load_fair_model,
    model_input,
    note_unseen,
    predict_people,
    read_model_table,
)
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, check_table_name, read_header, read_table, write_table
from optfair.storage.answers import PREDICTION, output_names
from optfair.utils.archives import need_skops
from optfair.utils.progress import stage
from optfair.utils.seeds import as_generator, as_seed


def run(arguments: Namespace) -> int:
    """Load, read, predict, write."""
    with stage("loading skops"):
        need_skops("optfair predict")
    is_folder = Path(arguments.file).is_dir()
    if not is_folder:
        check_table_name(arguments.output)
    model = load_fair_model(arguments.model, arguments.trust)
    if is_folder:
        return _predict_folder(model, arguments)
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    outputs = _outputs(model, arguments)
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


def _predict_folder(model: Any, arguments: Namespace) -> int:
    """Predict file by file; those that are there already, made by the same model from the same file, are left alone."""
    result = predict_folder(model, arguments, _outputs(model, arguments))
    rate = f" ({result.n_rows / max(result.seconds, 1e-9):,.0f} a second)" if result.n_rows else ""
    note = f"; {len(result.kept)} files were there already" if result.kept else ""
    if result.replaced:
        note += f"; {len(result.replaced)} of another model, of other options or of older inputs were replaced"
    print(f"Wrote {arguments.output}: {len(result.written)} files, {result.n_rows:,} people{rate}{note}")
    return DONE


def _outputs(model: Any, arguments: Namespace) -> list[str]:
    return output_names(model.classes_.tolist(), arguments.probabilities)


def _predict(model: Any, table: pd.DataFrame, columns: InputColumns, outputs: Sequence[str]) -> pd.DataFrame:
    """Return the output columns: the prediction, and the probabilities if there are names for them."""
    parts, rng = [], as_generator(as_seed(model.random_state))
    with stage("predicting", len(table), unit="people") as work:
        for rows in row_slices(len(table)):  # an answer does not depend on who else is asked about
            parts.append(predict_people(model, model_input(model, table.iloc[rows], columns), outputs, rng))
            work.advance(len(parts[-1]))
    return pd.concat(parts, ignore_index=True)
