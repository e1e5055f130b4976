"""Run ``optfair report``: what a saved model does to the people of a table, as a page, Markdown or JSON."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.cli.columns import check_not_missing, check_numeric, outcome_classes, pick_columns
from optfair.cli.main import DONE
from optfair.cli.model_tables import (
    load_fair_model,
    model_input,
    named_groups,
    note_unseen,
    read_model_table,
    text_groups,
)
from optfair.cli.pages import input_files
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, read_header, read_table
from optfair.constraints.criteria import labelled_criterion
from optfair.errors import need_extra
from optfair.reporting.report import Report
from optfair.utils.archives import need_skops

FORMS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}  # of the output, by the end of its name


def run(arguments: Namespace) -> int:
    """Load, read, measure, write, print."""
    need_skops("optfair report")
    form = FORMS.get(Path(arguments.output).suffix.lower()) if arguments.output else None
    if arguments.output and form is None:
        raise InputError(f"{arguments.output}: the name of a report must end in .html, .md or .json.")
    if form == "html":
        need_extra("jinja2", "optfair report")
    model = load_fair_model(arguments.model, arguments.trust)
    report = _report(model, arguments)
    print(report)
    if arguments.output:
        getattr(report, str(form))(arguments.output)
        print(f"\nWrote the report to {arguments.output}")
    return DONE


def _report(model: Any, arguments: Namespace) -> Report:
    """Measure the model on the people of the table."""
    name = labelled_criterion(model.constraints_)
    if arguments.label is None and name is not None:
        raise InputError(f"--label: is missing; the model was fitted for {name}, which speaks of true classes.")
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    groups = named_groups(model, arguments, header)
    # The model itself needs the groups only where it is aware, and finds them by its own names.
    question = Namespace(**{**vars(arguments), "group": arguments.group if model._asks_for_groups() else None})
    table, columns = read_model_table(model, question, header, csv_format)
    options = {name: pick_columns([value] if value else [], header, f"--{name}") for name, value in _named(arguments)}
    texts = text_groups(model, groups)
    texts += options["label"] if all(isinstance(name, str) for name in model.classes_.tolist()) else []
    extra = read_table(
        arguments.file,
        list(dict.fromkeys([*groups, *(name for names in options.values() for name in names)])),
        texts=[*texts, *options["cluster"]],
        names=[name for name in [*groups, *options["label"]] if name not in texts],
        csv_format=csv_format,
    )
    required = options if getattr(model, "missing", "error") != "error" else {"group": groups, **options}
    columns_named = [(f"--{key}", name) for key, names in required.items() for name in names]
    check_not_missing(extra, arguments.file, columns_named)
    for column in options["weight"]:
        check_numeric(extra[column], arguments.file, "--weight")
    note_unseen(model, table, columns)
    people = model_input(model, table, columns)
    features = extra[groups].set_axis(list(model.groups_.names), axis=1)
    favourable = outcome_classes(arguments.favourable, model.classes_.tolist(), "--favourable")
    report: Report = model.report(
        people.X,
        _only(extra, options["label"]),
        sensitive_features=features if len(groups) > 1 else features.iloc[:, 0],
        sample_weight=_only(extra, options["weight"]),
        cluster=_only(extra, options["cluster"]),
        keys=people.keys,
        favourable=favourable,
    )
    inputs = input_files(arguments.model, arguments.file)
    subject = "" if arguments.label is None else f"{arguments.label}: "
    title = f"{subject}{report.title}: {Path(arguments.file).name}"
    return Report(replace(report.facts, title=title, inputs=inputs))


def _named(arguments: Namespace) -> list[tuple[str, str | None]]:
    return [(name, getattr(arguments, name)) for name in ("label", "weight", "cluster")]


def _only(table: pd.DataFrame, names: list[str]) -> pd.Series | None:
    return table[names[0]] if names else None
