"""Run ``optfair audit``: measure the gaps between groups, and whether they exceed the tolerance.

Exit 1 if the simultaneous interval of some comparison is outside of what is allowed: then at least one of the
population is, or an event of probability 5 % has happened (over all rows of all criteria asked for).

PASS if the limits of every comparison by itself are inside: a wrong PASS needs one that is outside, and the limit of
that one fails with probability 5 %, however many others there are. The two never contradict each other, because a limit
is at least what was measured.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.audit_data import read_audit_data
from optfair.cli.columns import check_seed, check_tolerance, outcome_classes, requested_constraints
from optfair.cli.console import join_name
from optfair.cli.folders import audit_folder
from optfair.cli.main import DONE, NEGATIVE
from optfair.cli.pages import check_pages, input_files, write_pages
from optfair.cli.paths import InputError
from optfair.cli.tables import check_table_name, write_table
from optfair.constraints.criteria import DEFAULT_TOLERANCE, labelled_criterion
from optfair.errors import warn
from optfair.reporting.auditing import audit
from optfair.reporting.report import Report
from optfair.reporting.text import plain_text
from optfair.reporting.verdict import BEYOND, UNKNOWN, WITHIN

# Columns of the table of comparisons, and what they are called in a file.
FILE_COLUMNS = {
    "criterion": "criterion",
    "group": "group",
    "against": "against",
    "given": "given",
    "outcome": "outcome",
    "value": "value",
    "ratio": "ratio",
    "n": "people",
    "low": "from",
    "high": "to",
    "least": "at_least",
    "most": "at_most",
    "lower": "allowed_from",
    "upper": "allowed_to",
    "state": "verdict",
}
VERDICTS = {WITHIN: "PASS", BEYOND: "FAIL", UNKNOWN: "UNDECIDED"}


def run(arguments: Namespace) -> int:
    """Read, count, compare, print."""
    if arguments.output:
        check_table_name(arguments.output)
    if arguments.rows < 0:
        raise InputError(f"--rows {arguments.rows}: must be at least 0.")
    if arguments.min_cell < 1:
        raise InputError(f"--min-cell {arguments.min_cell}: must be at least 1.")
    if arguments.refusal is not None and not (arguments.refusal >= 1 and arguments.missing == "infer"):
        raise InputError(f"--refusal {arguments.refusal:g}: must be at least 1, and is for --missing infer only.")
    check_seed(arguments.seed)
    is_default = arguments.tolerance is None
    arguments.tolerance = DEFAULT_TOLERANCE if is_default else arguments.tolerance
    check_tolerance(arguments.tolerance)
    check_pages(arguments)
    report = _audit(arguments)
    report = Report(replace(report.facts, default_tolerance=is_default))
    if arguments.output:
        write_table(_comparisons(report), arguments.output)
    print(plain_text(report.to_dict(), arguments.rows))
    if arguments.output:
        print(f"\nWrote every comparison to {arguments.output}")
    if pages := write_pages(arguments, report):
        print(f"\nWrote the report to {', '.join(pages)}")
    verdict, code = _decide(report, arguments.strict)
    print(f"\n{verdict} (exit {code})")
    return code


def _audit(arguments: Namespace) -> Report:
    """Read the table and audit it."""
    if arguments.label is None:
        constraints = requested_constraints(arguments, None, "intersections")
        if (name := labelled_criterion(constraints)) is not None:
            raise InputError(f"--criterion {name}: speaks of true classes; name their column by --label.")
    if Path(arguments.file).is_dir():
        return audit_folder(arguments)
    data = read_audit_data(arguments)
    for note in data.notes:
        warn(note)
    several = data.groups.shape[1] > 1  # the marginals of one attribute are its groups
    classes = _classes(data.labels, data.values, data.before, data.classes)
    outcomes = outcome_classes(arguments.outcome, classes)
    constraints = requested_constraints(arguments, outcomes, arguments.attributes if several else "intersections")
    report = audit(
        **data.arguments,
        criterion=constraints,
        favourable=outcome_classes(arguments.favourable, classes, "--favourable"),
        missing=arguments.missing,
        refusal=np.inf if arguments.refusal is None else arguments.refusal,
        level=arguments.level,
        min_cell=arguments.min_cell,
        random_state=arguments.seed,
    )
    title = f"{report.title.replace('Audit', f'Audit of {Path(arguments.file).name}', 1)}; {data.source}"
    return Report(replace(report.facts, title=title, inputs=input_files(arguments.file)))


def _classes(labels: pd.Series | None, values: Any, before: pd.Series | None, names: list[Any] | None) -> list[Any]:
    """Return the classes of a table: of its labels and answers, or those that scores are of."""
    columns = [column for column in (labels, values, before) if isinstance(column, pd.Series)]
    classes = {*(names or ()), *(value for column in columns for value in column.unique().tolist())}
    return sorted(classes, key=lambda value: (isinstance(value, str), value))


def _comparisons(report: Report) -> pd.DataFrame:
    """Return every comparison as a file can hold it: groups of several attributes as "a × b"."""
    table = report.constraints
    assert table is not None
    names = {name: [join_name(value) for value in table[name]] for name in ("group", "against")}
    table = table.assign(**names)[list(FILE_COLUMNS)].rename(columns=FILE_COLUMNS)
    return table.drop(columns="ratio") if table["ratio"].isna().all() else table


def _decide(report: Report, is_strict: bool) -> tuple[str, int]:
    """Return (the verdict in words, the exit code)."""
    verdict = report.verdict
    assert verdict is not None
    code = NEGATIVE if verdict.value == BEYOND or (verdict.value == UNKNOWN and is_strict) else DONE
    return f"{VERDICTS[verdict.value]}: {verdict.sentence}", code
