"""Run ``optfair audit``: measure the gaps between groups, and whether they exceed the tolerance.

Exit 1 if max_k (|D̂_k| − t s_k) > tolerance: then at least one gap of the population exceeds it, or an event of
probability 5 % has happened (the bounds are simultaneous over all rows of all criteria asked for).

PASS if the bound of every gap by itself is within the tolerance: a wrong PASS needs a gap that exceeds it, and the
bound of that one gap fails with probability 5 %, however many others there are. The two never contradict each other,
because a bound is at least the gap that was measured.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

import numpy as np
import pandas as pd

from optfair.cli.audit_data import AuditData, read_audit_data
from optfair.cli.columns import check_seed, check_tolerance, outcome_classes, requested_criteria
from optfair.cli.console import heading, join_name, text_table
from optfair.cli.main import DONE, NEGATIVE
from optfair.cli.pages import check_pages, write_pages
from optfair.cli.paths import InputError
from optfair.cli.tables import check_table_name, write_table
from optfair.constraints import Constraint
from optfair.errors import warn
from optfair.estimators.auditing import report_counts
from optfair.estimators.report import small_cells
from optfair.metrics import GroupConfusion, ViolationInterval

FILE_COLUMNS = {
    "value": "gap",
    "n": "people",
    "lower": "abs_gap_from",
    "upper": "abs_gap_to",
    "bound": "abs_gap_at_most",
}
PRINTED_COLUMNS = {"value": "gap", "n": "people", "lower": "|gap| from", "upper": "to", "bound": "at most"}
SMALL_CELLS_SHOWN = 6


def run(arguments: Namespace) -> int:
    """Read, count, compare, print."""
    if arguments.output:
        check_table_name(arguments.output)
    if arguments.rows < 0:
        raise InputError(f"--rows {arguments.rows}: must be at least 0.")
    check_seed(arguments.seed)
    check_tolerance(arguments.tolerance)
    check_pages(arguments)
    data = read_audit_data(arguments)
    for note in data.notes:
        warn(note)
    constraints = _make_constraints(arguments, data.confusion)
    interval = data.confusion.violation_interval(constraints, level=arguments.level, random_state=arguments.seed)
    summary = _by_criterion(data.confusion, constraints, interval, arguments)
    if arguments.output:
        write_table(_with_joined_names(interval.table).rename(columns=FILE_COLUMNS), arguments.output)
    _print_report(data, constraints, interval, summary, arguments)
    if any((arguments.html, arguments.markdown, arguments.json)):
        options = {"level": arguments.level, "random_state": arguments.seed}
        report = report_counts({"predictions": data.confusion}, constraints, f"Audit of {arguments.file}", **options)
        print(f"\nWrote the report to {', '.join(write_pages(arguments, report))}")
    verdict, code = _decide(interval, arguments.tolerance, arguments.strict)
    print(f"\n{verdict} (exit {code})")
    return code


def _make_constraints(arguments: Namespace, confusion: GroupConfusion) -> list[Constraint]:
    outcomes = outcome_classes(arguments.outcome, confusion.classes)
    several = confusion.groups.nlevels > 1  # the marginals of one attribute are its groups
    constraints = [
        Constraint(
            name,
            arguments.tolerance,
            reference=arguments.reference,
            outcomes=outcomes,
            attributes=arguments.attributes if several else "intersections",
        )
        for name in requested_criteria(arguments)
    ]
    # "dp" and "demographic_parity" are the same criterion.
    return list({constraint.criterion: constraint for constraint in constraints}.values())


def _decide(interval: ViolationInterval, tolerance: float, is_strict: bool) -> tuple[str, int]:
    """Return (the verdict in words, the exit code)."""
    confidence = f"with {interval.level:.0%} confidence"
    if interval.lower > tolerance:
        return f"FAIL: at least one gap exceeds {tolerance:g} {confidence}", NEGATIVE
    if interval.bound <= tolerance:
        return (
            f"PASS: every gap is within {tolerance:g} {confidence} (the largest is at most {interval.bound:.4f})",
            DONE,
        )
    verdict = f"UNDECIDED: there are too few people to tell {confidence} whether a gap exceeds {tolerance:g}"
    return verdict, NEGATIVE if is_strict else DONE


def _by_criterion(
    confusion: GroupConfusion, constraints: Sequence[Constraint], interval: ViolationInterval, arguments: Namespace
) -> pd.DataFrame:
    """Return a line per criterion: the largest gap, its simultaneous bounds, the noise floor, the verdict."""
    lines = []
    for constraint in constraints:
        rows = interval.table[interval.table["criterion"] == constraint.criterion]
        low, high, bound = rows["lower"].max(), rows["upper"].max(), rows["bound"].max()
        n_exceeded = int((rows["lower"] > arguments.tolerance).sum())
        if n_exceeded:
            verdict = f"exceeded ({n_exceeded} gap{'s' * (n_exceeded > 1)})"
        else:
            verdict = "met" if bound <= arguments.tolerance else "undecided: too few people"
        lines.append(
            {
                "criterion": constraint.criterion,
                "gaps": len(rows),
                "largest": rows["value"].abs().max(),
                "low": low,
                "high": high,
                "at most": bound,
                "noise floor": confusion.noise_floor(constraint, level=arguments.level, random_state=arguments.seed),
                f"tolerance {arguments.tolerance:g}": verdict,
            }
        )
    return pd.DataFrame(lines)


def _with_joined_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that a file can hold: groups of several attributes as "a × b"."""
    return table.assign(**{name: [join_name(value) for value in table[name]] for name in ("group", "against")})


def _print_report(
    data: AuditData,
    constraints: Sequence[Constraint],
    interval: ViolationInterval,
    summary: pd.DataFrame,
    arguments: Namespace,
) -> None:
    confusion = data.confusion
    n, A, m = int(confusion.n_people.sum()), len(confusion.groups), len(confusion.classes)
    print(f"{arguments.file}: {n:,} people, {m} classes, {A} groups ({' × '.join(data.groups)}); {data.source}")
    print(f"accuracy {np.einsum('aii->', confusion.tensor):.4f}\n")
    against = "everybody" if arguments.reference == "overall" else "every other group"
    bounds = f"{interval.level:.0%} bounds: low and high for all gaps at once, at most for the largest"
    print(heading(f"Violations (each group against {against}; {bounds})"))
    print(text_table(summary))
    gaps = _largest_gaps(interval, arguments)
    if len(gaps):
        print("\n" + heading(f"Gaps with the largest lower bounds ({len(gaps)} of {len(interval.table)})"))
        print(text_table(gaps))
    cells = small_cells(confusion, constraints)
    if len(cells):
        print(f"\nToo few people to resolve a gap of {arguments.tolerance:g}: {_cells_text(cells)}")
    if arguments.output:
        print(f"\nWrote every gap to {arguments.output}")


def _largest_gaps(interval: ViolationInterval, arguments: Namespace) -> pd.DataFrame:
    """Return the first --rows gaps, those with the largest lower bounds first."""
    table = _with_joined_names(interval.table).assign(size=interval.table["value"].abs())
    table = table.sort_values(["lower", "size"], ascending=False).head(arguments.rows)
    against = ["against"] if arguments.reference == "pairwise" else []
    columns = ["criterion", "group", *against, "given", "outcome", "value", "lower", "upper", "bound", "n"]
    return table[columns].assign(n=table["n"].round().astype(int)).rename(columns=PRINTED_COLUMNS)


def _cells_text(cells: pd.DataFrame) -> str:
    texts = [
        f"{join_name(cell.group)}{'' if cell.given is None else f', true {cell.given}'}: {cell.n}"
        for cell in cells.head(SMALL_CELLS_SHOWN).itertuples()
    ]
    ending = f"; and {len(cells) - SMALL_CELLS_SHOWN} more" if len(cells) > SMALL_CELLS_SHOWN else ""
    return "; ".join(texts) + ending
