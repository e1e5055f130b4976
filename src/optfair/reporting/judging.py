"""Judge every row asked for in three values: surely within, surely beyond, or it cannot be told, and then why.

Beyond, where the simultaneous interval of a row is outside its bounds: a wrong one has probability 1 − level in all.
Within, where the one-sided limits of every row are inside (intersection–union, `metrics.bounds`): these hold for people
whom the rule was not fitted on. For those fitted on, a promise that was made in fitting takes their place. Unless all
rows are, a single one is called within where its simultaneous interval is inside.

A row that cannot be told has *few* people, where its interval is so wide that it could not be told even if its true
value were halfway between equal rates and the bound; else what was measured is *near* the bound, or it depends on
people of unknown *groups*.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint, MinimumRate, Ratio, Rows, RowSet, compile_rows
from optfair.constraints.events import group_families
from optfair.constraints.naming import attribute_names
from optfair.constraints.rows import table_keys
from optfair.metrics.bounds import row_limits
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.group_bounds import UnknownGroupBounds
from optfair.metrics.influence import as_rates
from optfair.metrics.unknown_groups import DEPENDS
from optfair.reporting.wording import Mask, count_text
from optfair.rule.promise import Promise

WITHIN, BEYOND, UNKNOWN = "within", "beyond", "unknown"
SEVERITY = (WITHIN, UNKNOWN, BEYOND)  # the worst last
FEW, NEAR, GROUPS = "few", "near", "unknown groups"  # why it cannot be told
EVERYBODY = "overall"  # what tables of rows call everybody
HALFWAY = 0.5  # between equal rates and the bound: what more people are asked to tell


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The rows asked for, measured, each with its state.

    rows : compiled. table : of `metrics.constraint_table`, with least and most, one-sided limits of the row alone,
    state, the reason where that is unknown (see `FEW`, or ""), the rates compared, and of ratios the ratio. dropped :
    names of the rows that nobody is behind. attributes : names of those that groups are made of. people : (m,) by true
    class of every group compared. classes : their names. proviso : of the states, where some groups are unknown.
    confidence : of a promise that they rest on, or None. is_alone : whether all people are of one group, which is
    compared with nobody. chance : (K,) how far chance may move each row, where limits allow for unknown groups too.
    """

    rows: RowSet
    table: pd.DataFrame
    dropped: tuple[str, ...]
    attributes: tuple[Hashable, ...] = ()
    people: Mapping[Any, np.ndarray] = field(default_factory=dict)
    classes: tuple[Hashable, ...] = ()
    proviso: str = ""
    confidence: float | None = None
    is_alone: bool = False
    chance: np.ndarray | None = None

    @cached_property
    def _states(self) -> dict[tuple[Any, ...], str]:
        """The worst state of (source, group, given, outcome), of all the rows that speak of the group.

        A gap says the same of both groups of a pair; that a rate is too small a part of another says it of its own.
        """
        states: dict[tuple[Any, ...], str] = {}
        for source, row in zip(self.rows.source.tolist(), self.table.itertuples(), strict=True):
            constraint = self.rows.constraints[source]
            is_pair = isinstance(constraint, Constraint) and constraint.reference == "pairwise"
            for group in (row.group, row.against) if is_pair else (row.group,):
                key = (source, exact(group), *self._rate(source, row.given, row.outcome))
                states[key] = max(states.get(key, row.state), row.state, key=SEVERITY.index)
        return states

    @cached_property
    def _rooms(self) -> dict[tuple[Any, ...], float]:
        """How far the worst group of (source, given, outcome) is inside its bounds."""
        table = self.table
        rooms: dict[tuple[Any, ...], float] = {}
        room = np.minimum(table["upper"] - table["value"], table["value"] - table["lower"])
        columns = self.rows.source.tolist(), table["given"], table["outcome"], room
        for source, given, outcome, size in zip(*columns, strict=True):
            key = (source, *self._rate(source, given, outcome))
            rooms[key] = min(rooms.get(key, np.inf), float(size))
        return rooms

    def _rate(self, source: int, given: Any, outcome: Any) -> tuple[Any, Any]:
        """Return what tells a rate from others; the mean criterion has two in one, named here by their class."""
        if getattr(self.rows.constraints[source], "criterion", None) == "meo":
            given = outcome
        return exact(given), exact(outcome)

    def state_of(self, source: int, group: Any, given: Any, outcome: Any) -> str | None:
        """Return the state of a group in one question: the worst of the rows that speak of it."""
        return self._states.get((source, exact(group), *self._rate(source, given, outcome)))

    def room_of(self, source: int, given: Any, outcome: Any) -> float:
        """Return how far the worst group of a question is inside its bounds; negative outside."""
        return self._rooms.get((source, *self._rate(source, given, outcome)), np.inf)

    @cached_property
    def keys(self) -> list[tuple[Hashable, ...]]:
        """Criterion, group, against, given and outcome of each row."""
        return table_keys(self.table)

    def sides(self, k: int) -> tuple[int, int | None]:
        """Return the people behind the k-th row: of its group, and of the group that it is compared with, if any."""
        (_, group, against, given, outcome), constraint = self.keys[k], self.rows.constraints[self.rows.source[k]]
        if group is None:
            return int(self.table["n"].iat[k]), None
        is_pair = against is not None and exact(against) != exact(EVERYBODY)
        other = self._people_of(against, constraint, given, outcome) if is_pair else None
        return self._people_of(group, constraint, given, outcome), other

    def _people_of(self, group: Any, constraint: AnyConstraint, given: Any, outcome: Any) -> int:
        """Return the fewest people behind any rate of a group that a row speaks of."""
        people = self.people[exact(group)]
        if getattr(constraint, "criterion", None) == "meo":
            of_class = people[self.classes.index(outcome)]
            return int(min(of_class, people.sum() - of_class))
        return int(people.sum() if given is None else people[self.classes.index(given)])

    def people_needed(self) -> int | None:
        """Return how many people the rows with few would need, in each part compared, to two digits; None without."""
        width, target = self.chance, halfway_room(self.rows, self.table)
        width = interval_width(self.table) if width is None else width
        is_few = (self.table["reason"] == FEW).to_numpy() & (target > 0)
        if not is_few.any():
            return None
        n = self.table["n"].to_numpy(dtype=float)[is_few]
        people = float((n * (width[is_few] / target[is_few]) ** 2).max())
        unit = 10 ** max(int(np.floor(np.log10(people))) - 1, 0)
        return int(np.ceil(people / unit) * unit)


def exact(value: Any) -> tuple[type, Any]:
    """Return a key that tells 1 from True and from 1.0."""
    return type(value), value


# -- judging -----------------------------------------------------------------------------------------------------
def judge_rows(
    counts: ConfusionCounts,
    constraints: list[Any],
    table: pd.DataFrame,
    level: float,
    promise: Promise | None,
    fitted: bool,
) -> JudgedRows:
    """Return the state of every row of a table of constraints.

    fitted : whether the people are those fitted on, whom limits of single rows would flatter: then promise decides.
    """
    compiled = compile_rows(constraints, counts.groups, counts.classes, counts.prior)
    rows = as_rates(compiled)
    least, most = row_limits(counts, compiled, level)
    if fitted and promise is not None and len(promise.table) == len(rows):  # its limits, which allow for the fitting
        least, most = (promise.table[name].to_numpy(dtype=float) for name in ("low", "high"))
    limits = {"low": table["low"].to_numpy(), "high": table["high"].to_numpy(), "least": least, "most": most}
    is_alone = int((counts.n_people.sum(axis=1) > 0).sum()) < 2
    table = table.assign(**limits, **_compared_rates(rows, counts, limits))
    inside = np.full(len(rows), promise is not None and promise.kept) if fitted else _inside(table)
    if is_alone:
        inside &= [isinstance(rows.constraints[source], MinimumRate) for source in rows.source]
    table = _with_states(table, rows, inside, has_reason=not is_alone, is_near_known=not fitted)
    return JudgedRows(
        rows,
        table,
        compiled.dropped,
        attributes=tuple(attribute_names(counts.groups)),
        people=_people_by_class(counts, constraints),
        classes=tuple(counts.classes.tolist()),
        confidence=promise.confidence if fitted and promise is not None else None,
        is_alone=is_alone,
    )


def judge_again(verdicts: JudgedRows, constraints: Sequence[AnyConstraint]) -> JudgedRows:
    """Return the same rows, of people not fitted on, judged by the tolerances of other constraints of the same kinds.

    Rows of groups that a mapping of tolerances does not name are asked for nothing.
    """
    table, rows = verdicts.table, verdicts.rows
    upper, lower = table["upper"].to_numpy(dtype=float).copy(), table["lower"].to_numpy(dtype=float).copy()
    for k, (source, group) in enumerate(zip(rows.source.tolist(), table["group"], strict=True)):
        constraint = constraints[source]
        if isinstance(constraint, Constraint):
            bounds = constraint.tolerance
            upper[k] = bounds.get(group, np.inf) if isinstance(bounds, Mapping) else bounds
            lower[k] = -upper[k]
    rows = replace(rows, lower=lower, upper=upper, constraints=tuple(constraints))
    table = table.assign(lower=lower, upper=upper)
    inside = _inside(table)
    if verdicts.is_alone:
        inside &= False
    table = _with_states(table, rows, inside, has_reason=not verdicts.is_alone)
    return replace(verdicts, rows=rows, table=table)


def _inside(table: pd.DataFrame) -> np.ndarray:
    """Tell which rows are surely inside: all by their own limits, or some by those that hold for all at once."""
    if ((table["least"] >= table["lower"]) & (table["most"] <= table["upper"])).all():
        return np.ones(len(table), dtype=bool)
    return ((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).to_numpy()


def _with_states(
    table: pd.DataFrame, rows: RowSet, inside: np.ndarray, *, has_reason: bool, is_near_known: bool = True
) -> pd.DataFrame:
    """Return a table with the state of each row, and why it is unknown. is_near_known : whether near is a reason."""
    outside = (table["low"] > table["upper"]) | (table["high"] < table["lower"])
    table = table.assign(state=np.where(outside, BEYOND, np.where(inside, WITHIN, UNKNOWN)))
    return table.assign(reason=_reasons(table, rows, interval_width(table), is_near_known) if has_reason else "")


def _reasons(table: pd.DataFrame, rows: RowSet, width: np.ndarray, is_near_known: bool = True) -> np.ndarray:
    """Return why each row cannot be told, (K,): few, near, or "" where it can or neither is known; width by chance."""
    target = halfway_room(rows, table)
    is_open = (table["state"] == UNKNOWN).to_numpy() & ~np.isnan(target)
    is_few = is_open & (width > np.nan_to_num(target))
    return np.where(is_few, FEW, np.where(is_open & is_near_known, NEAR, ""))


def interval_width(table: pd.DataFrame) -> np.ndarray:
    """Return how far chance may move each row, all of them at once, (K,)."""
    width = np.maximum(table["high"] - table["value"], table["value"] - table["low"])
    return np.asarray(width, dtype=float)


def halfway_room(rows: RowSet, table: pd.DataFrame) -> np.ndarray:
    """Return how far the bound of each row is from halfway to it, (K,); NaN where no rates are compared."""
    kinds = [type(rows.constraints[source]) for source in rows.source]
    minimum = np.array([getattr(rows.constraints[source], "minimum", np.nan) for source in rows.source], dtype=float)
    gap = np.where([kind is Constraint for kind in kinds], rows.upper, np.nan)
    ratio = (1 - minimum) * table["rate_against"].to_numpy(dtype=float)
    return np.asarray(HALFWAY * np.where([kind is Ratio for kind in kinds], ratio, gap))


# -- what rows are made of ---------------------------------------------------------------------------------------
def _people_by_class(counts: ConfusionCounts, constraints: Sequence[AnyConstraint]) -> dict[Any, np.ndarray]:
    """Return the people of every group that constraints compare, and of everybody, (m,) each."""
    people = {exact(EVERYBODY): counts.n_people.sum(axis=0)}
    for constraint in constraints:
        if not isinstance(constraint, Rows):
            for group in (group for family in group_families(counts.groups, constraint.attributes) for group in family):
                people[exact(group.label)] = counts.n_people[list(group.members)].sum(axis=0)
    return people


def _compared_rates(rows: RowSet, counts: ConfusionCounts, limits: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the rate of each row's group, the one it is compared with, and of a `Ratio` their ratio, else NaN.

    The row of a ratio is r_a − c r_b with limits such as low and high; in units of r_b as measured these are
    c + low / r_b and so on, so that the interval of the ratio is beyond c exactly where that of the row is beyond 0.
    """
    mass = rows.conditions @ counts.prior.ravel()
    rates = np.divide(rows.hits @ counts.tensor.ravel(), mass, out=np.zeros_like(mass), where=mass > 0)
    kinds = [rows.constraints[source] for source in rows.source]
    minimum = np.array([getattr(kind, "minimum", np.nan) for kind in kinds], dtype=float)
    is_ratio = np.array([isinstance(kind, Ratio) for kind in kinds], dtype=bool)
    is_single = np.array([not isinstance(kind, Rows) and getattr(kind, "criterion", "") != "meo" for kind in kinds])
    has_other = is_single & ~np.array([isinstance(kind, MinimumRate) for kind in kinds], dtype=bool)
    rate = np.where(is_single, rows.combination.maximum(0) @ rates, np.nan)
    other = np.where(has_other, -(rows.combination.minimum(0) @ rates) / np.where(is_ratio, minimum, 1.0), np.nan)
    unit = np.where(is_ratio & (other > 0), other, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = {f"ratio_{name}": np.maximum(minimum + end / unit, 0) for name, end in limits.items()}
        return {"rate": rate, "rate_against": other, "ratio": rate / unit, **ends}


def with_unknown(verdicts: JudgedRows, bounds: UnknownGroupBounds, counts: ConfusionCounts, mask: Mask) -> JudgedRows:
    """Return the same rows, judged so that it holds whatever the unknown groups are.

    Limits are those of the worst and the best case; what depends on the unknown groups cannot be told. counts : of
    the people whose groups are known.
    """
    table = bounds.table
    state = np.where(table["state"].isin([WITHIN, BEYOND]), table["state"], UNKNOWN)
    limits = {"least": "low", "most": "high", "low": "all_low", "high": "all_high"}
    columns = {name: table[source].to_numpy() for name, source in limits.items()}
    columns |= _compared_rates(verdicts.rows, counts, columns)
    people = f"{count_text(mask.headcount(bounds.n_unknown))} people"
    proviso = f"whatever the groups of {people} are"
    if bounds.refusal == 1:
        proviso = f"if the unknown groups of {people} are as is likely"
    elif np.isfinite(bounds.refusal):
        factor = f"a factor of {bounds.refusal:g} of the likely ones"
        proviso = f"if the odds of the unknown groups of {people} are within {factor}"
    limited = verdicts.table.assign(**columns, state=state)
    chance = interval_width(verdicts.table)  # among those of known group
    reason = _reasons(limited, verdicts.rows, chance)
    is_in_the_way = (table["state"] == DEPENDS).to_numpy() | (verdicts.table["state"] != UNKNOWN).to_numpy()
    reason = np.where((state == UNKNOWN) & (reason != FEW) & is_in_the_way, GROUPS, reason)
    return replace(verdicts, table=limited.assign(reason=reason), proviso=proviso, chance=chance)
