"""Run ``optfair plan``: how many people an audit and a promise need, and what those there are allow."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.audit_data import check_groups
from optfair.cli.columns import check_not_missing, name_missing_groups, pick_columns, requested_criteria
from optfair.cli.console import heading, join_name, text_table
from optfair.cli.main import DONE
from optfair.cli.paths import InputError
from optfair.cli.pictures import check_picture_name, draw_plan, save_picture
from optfair.cli.placeholders import placeholder_notes
from optfair.cli.tables import CsvFormat, check_table_name, read_header, read_table, write_table
from optfair.errors import warn
from optfair.metrics.plans import Plan, plan

LEGEND = """\
to audit, to promise: people of the cell among people drawn in these shares
to audit alone: people of the cell for its own gaps, where only they are added and the others are many
audit from, promise from: smallest tolerance for the gaps of the cell with the people there are"""
PRINTED_COLUMNS = {"audit_tolerance": "audit from", "promise_tolerance": "promise from", "given": "true class"}


def run(arguments: Namespace) -> int:
    """Check, count, plan, write, print."""
    if arguments.output:
        check_table_name(arguments.output)
    if arguments.plot:
        check_picture_name(arguments.plot, "--plot")
    if arguments.rows < 0:
        raise InputError(f"--rows {arguments.rows}: must be at least 0.")
    criterion = requested_criteria(Namespace(criterion=[arguments.criterion]))[0]
    groups, classes = _read_people(arguments)
    result = plan(
        groups,
        classes,
        criterion,
        arguments.tolerance,
        confidence=arguments.confidence,
        power=arguments.power,
        gap=arguments.gap,
        rate=arguments.rate,
        reference=arguments.reference,
        n_people=arguments.people,
    )
    if arguments.output:
        write_table(result.table.assign(group=[join_name(name) for name in result.table["group"]]), arguments.output)
    if arguments.plot:
        save_picture(draw_plan(result), arguments.plot)
    _print_plan(result, arguments)
    return DONE


def _read_people(arguments: Namespace) -> tuple[Any, Any]:
    """Return groups and classes as `optfair.plan` takes them: numbers of the options, or labels of a table."""
    classes = None if arguments.classes is None else _read_classes(arguments.classes)
    if arguments.file is None:
        for option, value in (("--group", arguments.group), ("--label", arguments.label)):
            if value:
                raise InputError(f"{option}: names a column of a table; give FILE, or --groups and --classes instead.")
        if arguments.groups is None or classes is None:
            raise InputError("give --groups and --classes, or FILE with --group and --label.")
        return _read_numbers(arguments.groups, "--groups"), classes
    if arguments.groups is not None:
        raise InputError("--groups: the people of FILE are counted by --group; leave --groups out.")
    if arguments.group is None or (arguments.label is None) == (classes is None):
        raise InputError("FILE: give --group, and --label or --classes, to count its people by.")
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    names = pick_columns(arguments.group, header, "--group")
    label = pick_columns([arguments.label] if arguments.label else [], header, "--label")
    columns = list(dict.fromkeys([*label, *names]))
    table = read_table(arguments.file, columns, names=columns, csv_format=csv_format)
    check_not_missing(table, arguments.file, [("--label", name) for name in label])
    if arguments.missing == "error":
        step = ", or make them a group by --missing group"
        check_not_missing(table, arguments.file, [("--group", name) for name in names], step)
    check_groups(table[names])
    options = {**dict.fromkeys(names, "--group"), **dict.fromkeys(label, "--label")}
    for note in placeholder_notes(table, options):
        warn(note)
    groups = _join_columns(name_missing_groups(table[names]))
    return groups, table[label[0]] if label else classes


def _join_columns(groups: pd.DataFrame) -> pd.Series:
    """Return one name per row, "a × b" of several attributes."""
    columns = [groups[name] for name in groups.columns]
    if len(columns) == 1:
        return columns[0]
    return pd.Series([join_name(values) for values in zip(*columns, strict=True)])


def _read_classes(text: str) -> int | dict[str, float]:
    if "=" in text:
        return _read_numbers(text, "--classes")
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--classes {text}: must be a number of classes, or CLASS=SHARE,... .") from None


def _read_numbers(text: str, option: str) -> dict[str, float]:
    """Return the numbers of "A=1200,B=300" by name."""
    numbers: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            raise InputError(f"{option} {part.strip()}: must be NAME=NUMBER, several of them separated by commas.")
        if name.strip() in numbers:
            raise InputError(f"{option}: names {name.strip()} twice; give each once.")
        numbers[name.strip()] = number
    return numbers


def _print_plan(result: Plan, arguments: Namespace) -> None:
    table = result.table
    lines = table.assign(group=[join_name(name) for name in table["group"]]).sort_values("share", kind="stable")
    lines = lines.head(arguments.rows).dropna(axis="columns", how="all")
    for name in lines.columns.intersection(["audit_tolerance", "promise_tolerance"]):
        lines[name] = [f"{x:.4f}" if np.isfinite(x) else "  none" for x in lines[name]]
    if len(lines):
        print(heading(f"People by cell, the smallest first ({len(lines)} of {len(table)})"))
        print(text_table(lines.rename(columns=PRINTED_COLUMNS).rename(columns=lambda name: name.replace("_", " "))))
        print(f"\n{LEGEND}\n" if result.smallest else f"\n{LEGEND.rpartition(chr(10))[0]}\n")
    print(result)
    files = [path for path in (arguments.output, arguments.plot) if path]
    if files:
        print(f"\nWrote {' and '.join(files)}")
