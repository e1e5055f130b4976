"""Run ``optfair monitor``: count the people of a period into a file of counts, and look at the gaps over time."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.audit_data import check_groups
from optfair.cli.columns import check_not_missing, check_tolerance, outcome_classes, pick_columns, requested_criteria
from optfair.cli.console import heading, join_name, join_names, text_table
from optfair.cli.main import DONE, NEGATIVE
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, check_table_name, read_header, read_table, write_table
from optfair.constraints import Constraint
from optfair.monitoring.monitor import Monitor
from optfair.monitoring.report import MonitorReport
from optfair.utils.files import exclusive

DEFAULTS = {"tolerance": 0.01, "reference": "overall", "attributes": "intersections", "missing": "error"}
CONFIDENCE = 0.95
PRINTED_COLUMNS = ["criterion", "group", "against", "given", "outcome", "value", "low", "high", "people", "since"]


def run(arguments: Namespace) -> int:
    """Read, count, write, look, print."""
    if arguments.output:
        check_table_name(arguments.output)
    if arguments.rows < 0:
        raise InputError(f"--rows {arguments.rows}: must be at least 0.")
    if arguments.tolerance is not None:
        check_tolerance(arguments.tolerance)
    with exclusive(Path(f"{arguments.state}.lock")):  # two commands at once: the second waits, and adds to the first
        report = _update(arguments)
    gaps = report.table.assign(**{name: [join_name(v) for v in report.table[name]] for name in ("group", "against")})
    if arguments.output:
        write_table(gaps, arguments.output)
    _print(report, gaps, arguments)
    code = NEGATIVE if report.flagged or (arguments.require_certified and not report.certified) else DONE
    print(f"\n(exit {code})")
    return code


def _update(arguments: Namespace) -> MonitorReport:
    """Add the people of the table to the state, and return what there is to say."""
    exists = Path(arguments.state).exists()
    monitor = Monitor.load(arguments.state) if exists else None
    table, groups = _read(arguments, monitor)
    if monitor is None:
        monitor = _begin(arguments, table)
    else:
        _check_options(arguments, monitor)
        if arguments.reset:
            monitor.reset()
    _count(monitor, table, groups, arguments)
    report = monitor.check()
    monitor.save(arguments.state)
    return report


def _read(arguments: Namespace, monitor: Monitor | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the table, with names written as the monitor knows them, and the columns of the groups."""
    csv_format = CsvFormat.from_arguments(arguments)
    header = read_header(arguments.file, csv_format)
    groups = pick_columns(arguments.group, header, "--group")
    options = {name: getattr(arguments, name) for name in ("prediction", "label", "plain")}
    classes = {f"--{name}": pick_columns([value], header, f"--{name}")[0] for name, value in options.items() if value}
    names = list(dict.fromkeys([*groups, *classes.values()]))
    table = read_table(arguments.file, names, names=names, csv_format=csv_format)
    check_not_missing(table, arguments.file, classes.items())
    if _missing(arguments, monitor) == "error":
        step = ", or make them a group by --missing group in the first call"
        check_not_missing(table, arguments.file, [("--group", name) for name in groups], step)
    if monitor is None or monitor.groups is None or monitor.classes is None:
        check_groups(table[groups])
        return table, groups
    if len(groups) != monitor.groups.nlevels:
        raise InputError(
            f"--group {','.join(groups)}: {arguments.state} was begun with {monitor.groups.nlevels} "
            f"({join_names(list(monitor.groups.names))}); give the same."
        )
    if monitor.groups.nlevels > 1:
        if set(groups) != set(monitor.groups.names):
            raise InputError(
                f"--group {','.join(groups)}: {arguments.state} was begun with "
                f"{join_names(list(monitor.groups.names))}; give the same."
            )
        groups = list(monitor.groups.names)
    for level, name in enumerate(groups):
        table[name] = _as_known(table[name], monitor.groups.get_level_values(level))
    for name in set(classes.values()):
        table[name] = _as_known(table[name], monitor.classes)
    return table, groups


def _missing(arguments: Namespace, monitor: Monitor | None) -> str:
    return str(arguments.missing or DEFAULTS["missing"]) if monitor is None else monitor.missing


def _as_known(column: pd.Series, names: pd.Index) -> pd.Series:
    """Return a column whose values are those of the monitor: 1 is "1" where it was read as a text in the first call."""
    by_text = {str(name): name for name in names}
    values = [value if pd.isna(value) else by_text.get(str(value), value) for value in column.tolist()]
    return pd.Series(values, index=column.index, name=column.name, dtype=object)


def _begin(arguments: Namespace, table: pd.DataFrame) -> Monitor:
    """Return a new monitor of what the options ask for."""
    options: dict[str, Any] = {name: getattr(arguments, name) or value for name, value in DEFAULTS.items()}
    if arguments.tolerance is not None:
        options["tolerance"] = arguments.tolerance
    columns = [name for name in (arguments.prediction, arguments.label, arguments.plain) if name]
    classes = sorted({value for name in columns for value in table[name].tolist()}, key=lambda v: (str(type(v)), v))
    if len(set(table[columns].map(lambda v: isinstance(v, str)).to_numpy().ravel())) > 1:
        raise InputError(
            f"{', '.join(columns)}: some hold texts and others numbers; are these the right columns of classes?"
        )
    constraints = [
        Constraint(
            name,
            options["tolerance"],
            options["reference"],
            outcome_classes(arguments.outcome, classes),
            options["attributes"],
        )
        for name in requested_criteria(arguments)
    ]
    constraints = list({constraint.criterion: constraint for constraint in constraints}.values())
    confidence = CONFIDENCE if arguments.confidence is None else arguments.confidence
    return Monitor(constraints, confidence=confidence, classes=classes, missing=options["missing"])


def _check_options(arguments: Namespace, monitor: Monitor) -> None:
    """Refuse options of the first call that differ from it; the same ones may be repeated."""
    constraints = [constraint for constraint in monitor.constraints if isinstance(constraint, Constraint)]
    if len(constraints) < len(monitor.constraints):
        raise InputError(f"{arguments.state}: holds constraints of the Python library; update it there.")
    begun: dict[str, Any] = {
        "criterion": [constraint.criterion for constraint in constraints],
        **{name: getattr(constraints[0], name) for name in ("tolerance", "reference", "attributes")},
        "confidence": monitor.confidence,
        "missing": monitor.missing,
    }
    options = {name: getattr(arguments, name) for name in begun}
    if options["criterion"] is not None:
        names = [Constraint(name).criterion for name in requested_criteria(arguments)]
        options["criterion"] = list(dict.fromkeys(names))
    for name, value in options.items():
        if value is not None and value != begun[name]:
            former = begun[name] if not isinstance(begun[name], list) else join_names(begun[name])
            raise InputError(
                f"--{name}: {arguments.state} was begun with {former}; leave the option out, or begin another file."
            )
    outcomes = outcome_classes(arguments.outcome, [] if monitor.classes is None else monitor.classes)
    if outcomes is not None and outcomes != constraints[0].outcomes:
        raise InputError(f"--outcome: {arguments.state} was begun with others; leave the option out.")


def _count(monitor: Monitor, table: pd.DataFrame, groups: list[str], arguments: Namespace) -> None:
    """Count the people of the table."""
    stem = Path(arguments.file).name.partition(".")[0]
    monitor.update(
        table[arguments.label] if arguments.label else None,
        table[arguments.prediction],
        sensitive_features=table[groups] if len(groups) > 1 else table[groups[0]],
        period=arguments.period or stem or arguments.file,
        plain=table[arguments.plain] if arguments.plain else None,
    )


def _print(report: MonitorReport, gaps: pd.DataFrame, arguments: Namespace) -> None:
    print(f"{arguments.state}: {report}")
    outside = np.maximum(gaps["high"] - gaps["upper"], gaps["lower"] - gaps["low"])
    lines = gaps.loc[outside.sort_values(ascending=False, kind="stable").index].head(arguments.rows)
    if len(lines):
        print(
            "\n" + heading(f"Gaps with the least room ({len(lines)} of {len(gaps)}; limits low and high of all looks)")
        )
        print(text_table(lines[[*PRINTED_COLUMNS, "verdict"]]))
    if arguments.output:
        print(f"\nWrote every gap to {arguments.output}")
