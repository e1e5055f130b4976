"""Hold what a report is made of: rules that were measured on people, and what is known of the last one."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint
from optfair.constraints.rows import TABLE_COLUMNS, object_frame
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.group_bounds import UnknownGroupBounds
from optfair.metrics.intervals import ViolationInterval
from optfair.reporting.judging import FEW, JudgedRows
from optfair.reporting.wording import MIN_CELL
from optfair.rule.promise import Promise

NO_GROUP = "their groups are missing"  # why people are left out
REPORT_LEVEL = 0.95  # of the intervals and promises of a report
BEFORE, AFTER = "before", "after"  # roles of two rules; of more that are compared they are numbered
SMALL_COLUMNS = (*TABLE_COLUMNS, "n")


class Reportable(Protocol):
    """What a report is about: a `FairRule`, or what training ended in, whose ``str`` tells how."""

    @property
    def groups(self) -> pd.Index:
        """Names of the groups."""

    @property
    def classes(self) -> pd.Index:
        """Names of the classes."""

    @property
    def multipliers(self) -> pd.DataFrame:
        """One line per constraint row."""

    @property
    def has_costs(self) -> bool:
        """Whether something else than the accuracy was maximised."""


@dataclass(frozen=True, eq=False)
class RuleMetrics:
    """One rule on the people of a report.

    name : of the rule. counts : of its predictions. accuracy : of them, NaN without labels. interval : of the
    violation, with its noise floor; None where no gap is asked for. rows : what was asked for, measured and judged;
    None where that was not needed. floor : the noise floor of the gaps of people enough to be shown, None without any.
    """

    name: str
    counts: ConfusionCounts
    accuracy: float
    interval: ViolationInterval | None
    rows: JudgedRows | None = None
    floor: float | None = None


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A rule of the path of tolerances, measured on the people of a report.

    metrics : of its predictions. price : d accuracy / d tolerance. undecided : share of people whose answer is drawn
    by lot. changes : (A, m, m) people of each group by answer before and with this rule, or None.
    """

    tolerance: float
    metrics: RuleMetrics
    price: float
    undecided: float
    changes: np.ndarray | None = None


@dataclass(frozen=True)
class InputFile:
    """A file that a report was made from: its name, and the SHA-256 of its content."""

    name: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything that a report says, before it is written down.

    measured : the rules. roles : the names of those whose rates are shown, by role: "before" and "after", or of several
    that are compared "rule 1", "rule 2", ... The last one of two is judged. rule : what was fitted, None for an audit.
    promise : made in fitting. check : what can be said by these people, who were not fitted on. seconds, n_fits : of
    fitting, where that is what is reported. changes : (A, m, m) people of each group by their answer before and after;
    paired : (A, m, m, m) the same by group and true class, weighted, None where these are unknown.
    path : rules of other tolerances. favourable : answers that a regulator asks about. left_out : why how many rows
    were left out. undecided : share of these people whose answer is drawn by lot, None where that is not known.
    n_unknown : further people, whose group is unknown. unknown : what can be said whatever their groups are, or None.
    awareness : "blind" or "aware", None where that is not known. n_fitted : people that the rule was fitted on, None
    where that is not known. keyed : whether keys of persons draw for each of them. default_tolerance : whether nobody
    chose the tolerance.
    """

    title: str
    constraints: Sequence[AnyConstraint]
    measured: tuple[RuleMetrics, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    rule: Reportable | None = None
    promise: Promise | None = None
    check: Promise | None = None
    seconds: Mapping[str, float] | None = None
    n_fits: int | None = None
    changes: np.ndarray | None = None
    paired: np.ndarray | None = None
    path: tuple[PathPoint, ...] = ()
    favourable: Sequence[Hashable] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    undecided: float | None = None
    n_unknown: int = 0
    unknown: UnknownGroupBounds | None = None
    awareness: str | None = None
    n_fitted: int | None = None
    keyed: bool = False
    default_tolerance: bool = False
    level: float = REPORT_LEVEL
    min_cell: int = MIN_CELL
    seed: Any = 0
    inputs: Sequence[InputFile] = ()
    date: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())

    @property
    def is_fitted(self) -> bool:
        """Whether the people are those that the rule was fitted on."""
        return self.seconds is not None

    @property
    def is_comparison(self) -> bool:
        """Whether several rules are compared, none of which is the one to be judged."""
        return bool(self.roles) and AFTER not in self.roles

    @property
    def shown(self) -> dict[str, RuleMetrics]:
        """The rules whose rates are shown, by role."""
        by_name = {metrics.name: metrics for metrics in self.measured}
        return {role: by_name[name] for role, name in self.roles.items()}

    @property
    def judged(self) -> RuleMetrics | None:
        """The rule that the verdict is about; None for a comparison, or where nothing was measured."""
        return None if self.is_comparison else self.shown.get(AFTER)

    @property
    def small(self) -> pd.DataFrame:
        """Criterion, group, against, given, outcome, n of the rows with too few people, the fewest first."""
        metrics = self.judged
        if metrics is None or metrics.rows is None:
            return object_frame(SMALL_COLUMNS, [])
        table = metrics.rows.table
        return table[table["reason"] == FEW].sort_values("n", kind="stable")[list(SMALL_COLUMNS)].reset_index(drop=True)

    @property
    def n_rows(self) -> int:
        """The number of rows measured on."""
        return int(self.measured[-1].counts.n_people.sum()) if self.measured else 0

    @property
    def n_people(self) -> int:
        """The number of people measured on, each of whom may have several rows."""
        return self.measured[-1].counts.n_persons if self.measured else 0
