"""Find the columns, classes and criteria that the options name, and check what the columns hold."""

from __future__ import annotations

import difflib
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from optfair.cli.console import join_names
from optfair.cli.options import DEFAULT_CRITERION
from optfair.cli.paths import InputError
from optfair.cli.tables import CsvFormat, read_header
from optfair.constraints import Constraint, Ratio
from optfair.constraints.criteria import CRITERIA, short_name
from optfair.errors import NotLinearError, warn
from optfair.utils.checks import share_hint

MISSING_GROUP = "(missing)"  # the name of the group of those whose group is missing
MISSING_VALUES = "empty cells and NA, NaN, None, null are read as missing"
OTHER_SEPARATORS = (";", "\t", "|")
SEED_LIMIT = 2**32  # of scikit-learn
RATIO = "ratio"  # as a criterion: the ratio of two rates instead of their difference
# Options that name columns of the table, by command, in the order in which they are checked.
COLUMN_OPTIONS = {
    "audit": ("label", "group", "weight", "cluster", "prediction", "before"),
    "fit": ("label", "group", "weight", "cluster", "drop", "category"),
    "frontier": ("label", "group", "weight", "cluster", "drop", "category"),
    "plan": ("label", "group"),
    "monitor": ("label", "group", "prediction", "plain"),
    "predict": ("key",),
    "report": ("label", "weight", "cluster", "key"),
    "explain": ("key",),
    "export": ("key",),
}


class Roles(NamedTuple):
    """The columns of label, groups, weight and cluster (none or one each) of a table with these column names."""

    label: str | None
    groups: list[str]
    weight: list[str]
    header: list[str]
    cluster: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """Return label, groups and weight, each once."""
        return list(dict.fromkeys([*self.labels, *self.groups, *self.weight]))

    @property
    def labels(self) -> list[str]:
        """Return the column of the label, if there is one."""
        return [] if self.label is None else [self.label]


def read_roles(arguments: Namespace, csv_format: CsvFormat) -> Roles:
    """Return the columns that --label, --group, --weight and, where there is such an option, --cluster name."""
    header = read_header(arguments.file, csv_format)
    cluster = getattr(arguments, "cluster", None)
    return Roles(
        label=pick_columns([arguments.label], header, "--label")[0] if arguments.label else None,
        groups=pick_columns(arguments.group, header, "--group"),
        weight=pick_columns([arguments.weight] if arguments.weight else [], header, "--weight"),
        header=header,
        cluster=pick_columns([cluster] if cluster else [], header, "--cluster"),
    )


def check_named_columns(arguments: Namespace) -> None:
    """Check the columns that options name by the header of the table alone: a slip is reported at once.

    The modules of the commands import scikit-learn, which takes a second; this one does with pandas.
    """
    options = [(name, getattr(arguments, name, None)) for name in COLUMN_OPTIONS.get(arguments.command, ())]
    if any(value for _, value in options):
        header = read_header(arguments.file, CsvFormat.from_arguments(arguments))
        for name, value in options:
            pick_columns([value] if isinstance(value, str) else value, header, f"--{name}")


def split_list(values: Iterable[str], header: Sequence[str]) -> list[str]:
    """Return the parts of an option that is repeated or separated by commas; a column may itself hold a comma."""
    return [part for value in values for part in ([value] if value in header else map(str.strip, value.split(",")))]


def pick_columns(values: Sequence[str] | None, header: Sequence[str], option: str) -> list[str]:
    """Return the columns that an option names, each once."""
    columns = list(dict.fromkeys(split_list(values or (), header)))
    for name in columns:
        if name not in header:
            hint = _column_hint(name, header)
            raise InputError(f"{option} {name}: there is no such column; the table has {join_names(header)}.{hint}")
    return columns


def _column_hint(name: str, header: Sequence[str]) -> str:
    """Return a question about a column that does not exist, or ""."""
    separator = next((mark for mark in OTHER_SEPARATORS if len(header) == 1 and mark in header[0]), None)
    if separator:
        return f" Is it separated by {separator!r}? Then add --separator {separator!r}."
    similar = difflib.get_close_matches(name, header, n=1)
    return f" Did you mean {similar[0]}?" if similar else ""


def check_not_missing(table: pd.DataFrame, file: str, columns: Iterable[tuple[str, str]], step: str = "") -> None:
    """Refuse missing values. columns : (option, name). step : what else the user can do."""
    for option, name in columns:
        if n_missing := int(table[name].isna().sum()):
            raise InputError(
                f"{file}: {option} {name} is missing in {n_missing} of {len(table)} rows ({MISSING_VALUES}); fill them "
                f"in or drop these rows{step}."
            )


def check_roles(table: pd.DataFrame, file: str, roles: Roles, missing: str, step: str = "") -> None:
    """Refuse missing labels and weights, and with missing="error" missing groups. step : what else a user can do."""
    labels = [("--label", name) for name in roles.labels]
    check_not_missing(table, file, [*labels, *(("--weight", name) for name in roles.weight)])
    if missing == "error":
        groups = [("--group", name) for name in roles.groups]
        check_not_missing(table, file, groups, f", or make them a group by --missing group{step}")


def name_missing_groups(groups: pd.DataFrame) -> pd.DataFrame:
    """Return the groups with a name for those that are missing."""
    return groups.astype(object).where(groups.notna(), MISSING_GROUP)


def check_numeric(column: pd.Series, file: str, option: str) -> None:
    """Refuse a column that does not hold numbers."""
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise InputError(
            f"{file}: {option} {column.name} holds texts, such as {column.iloc[0]!r}; it must hold numbers."
        )


def requested_criteria(arguments: Namespace) -> list[str]:
    """Return the criteria that --criterion names, or the default one."""
    names = list(dict.fromkeys(arguments.criterion or [DEFAULT_CRITERION]))
    for name in names:
        try:
            short_name(name)
        except NotLinearError:  # its message says why
            raise
        except ValueError:
            choices = f"{', '.join(CRITERIA)} (or {', '.join(CRITERIA.values())})"
            raise InputError(f"--criterion {name}: unknown; use one of {choices}.") from None
    return names


def requested_constraints(
    arguments: Namespace, outcomes: Sequence[Any] | None, attributes: str
) -> list[Constraint | Ratio]:
    """Return what --criterion and its companions ask for, each once; "ratio" is the 80 % rule.

    outcomes : the classes that --outcome names, or None. attributes : of the groups.
    """
    common: dict[str, Any] = {"outcomes": outcomes, "attributes": attributes}
    names = list(dict.fromkeys(arguments.criterion or [DEFAULT_CRITERION]))
    constraints: dict[str, Constraint | Ratio] = {}
    for name in names:
        if name == RATIO:
            if not 0 < arguments.minimum <= 1:
                raise InputError(f"--minimum {arguments.minimum:g}: must be a share above 0, at most 1, such as 0.8.")
            constraints[name] = Ratio("dp", arguments.minimum, **common)
        else:
            (name,) = requested_criteria(Namespace(criterion=[name]))
            constraint = Constraint(name, arguments.tolerance, reference=arguments.reference, **common)
            constraints[constraint.criterion] = constraint  # "dp" and "demographic_parity" are the same
    return list(constraints.values())


def check_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that no gap between rates can have, and question one that every gap has."""
    if not 0 <= tolerance <= 1:
        raise InputError(f"--tolerance {tolerance:g}: must be a number in [0, 1]{share_hint(tolerance) or '.'}")
    if tolerance == 1:
        warn("--tolerance 1: constrains nothing, because no two rates differ by more; did you mean 0.01?")


def check_seed(seed: int, limit: int | None = None) -> None:
    """Refuse a seed that is negative, or not below the limit of scikit-learn."""
    if seed < 0 or (limit is not None and seed >= limit):
        rule = "of at least 0" if limit is None else f"from 0 to {limit - 1}"
        raise InputError(f"--seed {seed}: must be a whole number {rule}.")


def outcome_classes(
    names: Sequence[str] | None, classes: Iterable[Any], option: str = "--outcome", noun: str = "class"
) -> list[Any] | None:
    """Return the classes that an option names, as the table holds them; None if it was not given."""
    if not names:
        return None
    by_name = {str(value): value for value in classes}
    values = [by_name.get(name, _number_among(name, by_name.values())) for name in names]
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise InputError(f"{option} {name}: there is no such {noun}; there are {join_names(list(by_name))}.")
    return list(dict.fromkeys(values))


def _number_among(name: str, classes: Iterable[Any]) -> Any:
    """Return the class that is this number, however it is written (1.0 is read as 1), or None."""
    try:
        number = float(name)
    except ValueError:
        return None
    return next((value for value in classes if not isinstance(value, str | bool | np.bool) and value == number), None)
