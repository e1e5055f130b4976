"""Plan an audit or a promise: `plan` works out how many people are needed, a `Plan` tells, tabulates and draws it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, RowSet, compile_rows
from optfair.constraints.criteria import CRITERIA
from optfair.constraints.rows import object_frame
from optfair.errors import need_extra, warn_empty
from optfair.metrics.composition import Composition, read_composition
from optfair.metrics.planning import Demand, RowNoise, cell_classes, own_noise, row_noise
from optfair.utils.checks import check_number, share_hint
from optfair.utils.pictures import picture_axes, write_picture

WORST_RATE = 0.5  # p(1 − p) is largest there
AUDIT_COLOUR, PROMISE_COLOUR = "#0072B2", "#D55E00"  # of Okabe and Ito: most colour-blind people can tell them apart


@dataclass(frozen=True, eq=False)
class Plan:
    """How many people an audit and a promise need; `optfair.plan` returns it.

    Attributes
    ----------
    criterion : str
        Short name of the criterion.
    reference : str
        "overall" or "pairwise".
    tolerance : float
        Largest gap allowed.
    total : dict
        People needed for an "audit" and for a "promise", all cells together.
    smallest : dict
        Smallest tolerance of an "audit" and of a "promise" (with nothing left to accuracy) for the people there are,
        infinite where there is none below 1; empty where they are unknown.
    n_people : int or None
        People there are.
    table : pandas.DataFrame
        One line per cell: group, given (the true class, None where the criterion takes all together), share; people
        (there are); to_audit and to_promise, how many of the cell are needed among people drawn in these shares;
        to_audit_alone, how many of the cell its own comparisons need where only they are added and the others are many;
        audit_tolerance and promise_tolerance, the smallest for the gaps of this cell with the people there are, as in
        `smallest`.
    confidence : float
        Probability that audit and promise are right.
    power : float
        Probability that the audit passes.
    gap : float
        True gap for which it does.

    Examples
    --------
    >>> import optfair
    >>> optfair.plan({"A": 1200, "B": 300}, classes=5, criterion="dp", tolerance=0.05).total["audit"]
    3502
    """

    criterion: str
    reference: str
    tolerance: float
    total: dict[str, int]
    smallest: dict[str, float]
    n_people: int | None
    table: pd.DataFrame = field(repr=False)
    confidence: float = 0.95
    power: float = 0.8
    gap: float = 0.0
    _noise: Any = field(default=None, repr=False)
    _demand: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        requirement = " and ".join(f"{people:,} people to {name}" for name, people in self.total.items())
        text = f"{self.criterion} within {self.tolerance:g}: {requirement}"
        return f"<Plan of {len(self.table)} cells, {text}; see .table, .curve(), .plot()>"

    def __str__(self) -> str:
        least = self.table.loc[self.table["share"].idxmin()]
        place = f"{least['group']!r}" + ("" if least["given"] is None else f" with true class {least['given']!r}")
        against = "everybody" if self.reference == "overall" else "every other group"
        lines = [
            f"{CRITERIA[self.criterion]}, each group against {against}, tolerance {self.tolerance:g}, "
            f"confidence {self.confidence:.0%}; fewest people: {place}, {least['share']:.2%} of all",
            _need("audit", self.total["audit"], least["to_audit"], f", to pass with probability {self.power:.0%}"),
            _need("promise at fitting", self.total["promise"], least["to_promise"], self._room_text()),
        ]
        if self.smallest:
            audit, promise = (
                f"{x:.3f}" if math.isfinite(x) else "none below 1"
                for x in (self.smallest["audit"], self.smallest["promise"])
            )
            lines.append(
                f"with the {self.n_people:,} people there are, the smallest tolerance is {audit} "
                f"for an audit, {promise} for a promise that leaves nothing to accuracy"
            )
        return "\n".join(lines)

    def _room_text(self) -> str:
        """Say what the number of people for a promise leaves to accuracy."""
        return (
            "" if self._demand is None else f", which leaves {self._demand.share_left:.0%} of the tolerance to accuracy"
        )

    def curve(self, tolerances: Iterable[float]) -> pd.DataFrame:
        """Return how many people other tolerances need.

        Parameters
        ----------
        tolerances : iterable of float
            Tolerances in (0, 1).

        Returns
        -------
        pandas.DataFrame
            One line per tolerance: tolerance, audit and promise, people of all cells together; infinite where the true
            gap that was assumed is as large as the tolerance.

        Examples
        --------
        >>> import optfair
        >>> plan = optfair.plan({"A": 0.8, "B": 0.2}, classes=5)
        >>> plan.curve([0.02, 0.05])["audit"].tolist()
        [21888.0, 3502.0]
        """
        lines = []
        for value in tolerances:
            tolerance = check_number("tolerances", value, "(0, 1)", share_hint(value))
            lines.append((tolerance, *np.ceil(self._demand.people(self._noise, tolerance))))
        return pd.DataFrame(lines, columns=["tolerance", "audit", "promise"], dtype=float)

    def plot(self, path: str | Path | None = None, ax: Any = None) -> Any:
        """Plot people against tolerance; this needs matplotlib (extra ``plot``).

        Parameters
        ----------
        path : str or Path, optional
            File to write the picture to (.png, .svg, .pdf).
        ax : matplotlib Axes, optional
            Where to plot; new axes by default.

        Returns
        -------
        matplotlib Axes
            The axes plotted on.

        Examples
        --------
        >>> import optfair
        >>> plan = optfair.plan({"A": 1200, "B": 300}, classes=5)
        >>> axes = plan.plot("plan.png")  # doctest: +SKIP
        """
        ax = picture_axes("Plan.plot", path, ax, (7, 4.6))
        _draw(self, ax)
        if path is not None:
            write_picture(ax.figure, path)
        return ax


def plan(
    groups: Any,
    classes: Any = None,
    criterion: str = "dp",
    tolerance: float = 0.05,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    gap: float = 0.0,
    room: float | None = None,
    rate: float | None = None,
    reference: str = "overall",
    n_people: int | None = None,
) -> Plan:
    """Plan how many people an audit and a promise need, and the smallest tolerance for those there are.

    An audit is of people whom the rule was not fitted on, and passes where `optfair.metrics.violation_bound` is within
    the tolerance. A promise is made for a rule at fitting, from the people fitted on. Both need people of every group
    (and of every true class in it, for "eop", "eo" and "meo"), so that the smallest cell decides. These are normal
    approximations: where fewer than about ten hits are expected in the smallest cell, audits need more.

    Parameters
    ----------
    groups : mapping from group to share or number of people, array of labels, or GroupConfusion
        Shares sum to 1; other numbers are counts of people. Labels, one per person, are counted.
    classes : int, mapping from class to share, table of shape (n_groups, n_classes), or array of labels
        How many classes there are, equally frequent; or how frequent they are, the same in all groups; or people by
        group and true class, as `pandas.crosstab` counts them; or, beside labels of groups, the label of each person.
        A `GroupConfusion` knows them.
    criterion : str, default "dp"
        "dp", "eop", "eo", "meo", "oae", or the long name of one of these.
    tolerance : float, default 0.05
        Largest gap allowed.
    confidence : float, default 0.95
        Probability that an audit that passes, or a promise, is right.
    power : float, default 0.8
        Probability that the audit passes, where the true gaps are as assumed.
    gap : float, default 0.0
        True gap that the audited rule is assumed to have where people are fewest (up in one outcome, down in another);
        below the tolerance.
    room : float, optional
        Part of the tolerance that a promise leaves to accuracy; half of it by default.
    rate : float, optional
        Rate that is compared, in (0, 1). 0.5 needs the most people. By default that for all criteria but "dp", whose
        rates are taken to be the shares of the classes: 1 / n_classes where only their number is given.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups with each other.
    n_people : int, optional
        People there are, where groups are shares.

    Returns
    -------
    Plan
        People needed, as a text, a table and a picture.

    Examples
    --------
    >>> import optfair
    >>> plan = optfair.plan({"A": 1200, "B": 300}, classes=5, criterion="eo", tolerance=0.05)
    >>> plan.total["audit"] > 1500
    True
    >>> plan.table.columns.tolist()[:5]
    ['group', 'given', 'share', 'people', 'to_audit']
    """
    check_number("tolerance", tolerance, "[0.0001, 1)", share_hint(tolerance))
    check_number("confidence", confidence, "(0.5, 1)", share_hint(confidence))
    check_number("power", power, "(0, 1)", share_hint(power))
    for name, value in (("gap", gap), ("room", tolerance / 2 if room is None else room)):
        check_number(name, value, f"[0, {tolerance:g})", ", below the tolerance")
    if rate is not None:
        check_number("rate", rate, "(0, 1)", share_hint(rate))
    constraint = Constraint(criterion, float(tolerance), reference)
    people = read_composition(groups, classes, n_people)
    if not people.labelled and constraint.criterion != "dp":
        raise ValueError(
            f"criterion={criterion!r}: speaks of true classes, which groups= does not know; give them, or 'dp'."
        )
    rows = compile_rows([constraint], people.groups, people.classes, people.prior)
    warn_empty(rows.dropped)
    rates = _rates(rows, people, rate)
    noise = row_noise(rows, people.prior, rates, gap)
    demand = Demand(float(confidence), float(power), (0.5 if room is None else room / tolerance))
    distinct = noise.part(np.arange(len(rows)))
    if not len(distinct.sigma):
        raise ValueError("groups: no two of them have people of the same class, so that there is nothing to compare.")
    requirement, smallest = demand.people(distinct, tolerance), {}
    if people.people is not None:
        smallest = {
            "audit": _possible(demand.audit_tolerance(distinct, people.people)),
            "promise": _possible(demand.promise_tolerance(distinct, people.people)),
        }
    return Plan(
        criterion=constraint.criterion,
        reference=reference,
        tolerance=float(tolerance),
        total=dict(zip(("audit", "promise"), (math.ceil(people) for people in requirement), strict=True)),
        smallest=smallest,
        n_people=people.people,
        table=_cell_table(rows, people, (noise, own_noise(rows, rates, noise)), demand, requirement),
        confidence=float(confidence),
        power=float(power),
        gap=float(gap),
        _noise=distinct,
        _demand=demand,
    )


def _rates(rows: RowSet, people: Composition, rate: float | None) -> np.ndarray:
    """Return the rate that each row compares, (K,)."""
    if rate is not None or rows.table["criterion"].iloc[0] != "dp":
        return np.full(len(rows), WORST_RATE if rate is None else rate)
    m = len(people.classes)
    share = people.prior.sum(0) if people.labelled else np.full(m, 1 / m)
    place = {name: position for position, name in enumerate(people.classes)}
    return np.asarray(share[[place[name] for name in rows.table["outcome"]]])


def _cell_table(
    rows: RowSet,
    people: Composition,
    noises: tuple[RowNoise, RowNoise],
    demand: Demand,
    requirement: tuple[float, float],
) -> pd.DataFrame:
    """Return a line per cell that rows are about; see `Plan`. noises : of people, and of a cell's own people alone.

    requirement : people of all cells.
    """
    noise, single_noise = noises
    tolerance = float(rows.upper.max())
    n_rows = len(noise.part(np.arange(len(rows))).sigma)
    members: dict[tuple, list[int]] = {}
    for k, (group, against, given) in enumerate(
        zip(rows.table["group"], rows.table["against"], cell_classes(rows), strict=True)
    ):
        for name in (group,) if against == "overall" else (group, against):
            members.setdefault((name, given), []).append(k)
    group_place, class_place = (
        {name: position for position, name in enumerate(names.tolist())} for names in (people.groups, people.classes)
    )
    cells = sorted(members, key=lambda cell: (group_place[cell[0]], class_place.get(cell[1], 0)))
    numbers = []
    for cell in cells:
        prior = people.prior[group_place[cell[0]]]
        share = float(prior.sum() if cell[1] is None else prior[class_place[cell[1]]])
        cell_noise, alone_noise = (part.part(np.array(members[cell])) for part in (noise, single_noise))
        alone = math.ceil(demand.audit_people(alone_noise, tolerance)) if len(alone_noise.sigma) else math.nan
        tolerances = [math.nan, math.nan]
        if people.people is not None and len(cell_noise.sigma):
            tolerances = [
                _possible(demand.audit_tolerance(cell_noise, people.people)),
                _possible(demand.promise_tolerance(cell_noise, people.people, n_rows)),
            ]
        count = math.nan if people.people is None else round(share * people.people)
        numbers.append([share, count, *(math.ceil(share * n) for n in requirement), alone, *tolerances])
    columns = ["share", "people", "to_audit", "to_promise", "to_audit_alone", "audit_tolerance", "promise_tolerance"]
    return pd.concat([object_frame(["group", "given"], cells), pd.DataFrame(numbers, columns=columns)], axis=1)


def _possible(tolerance: float) -> float:
    """Return a tolerance, infinite where it is none: no two rates differ by 1 or more."""
    return tolerance if tolerance < 1 else math.inf


def _need(purpose: str, total: int, least: int, ending: str) -> str:
    return f"{purpose}: {total:,} people, {least:,} of them there{ending}"


def _draw(plan: Plan, ax: Any) -> None:
    """Draw the curves of people against tolerance, what is asked for, and what the people there are allow."""
    marks = [plan.tolerance, *filter(math.isfinite, plan.smallest.values())]
    curve = plan.curve(np.geomspace(min(marks) / 2, min(max(marks) * 2.5, 0.999), 100)).replace(np.inf, np.nan)
    x, promise = curve["tolerance"], curve["promise"]
    line = {"color": PROMISE_COLOUR, "linewidth": 2}
    ax.plot(x, promise, label=f"to promise, {plan._demand.share_left:.0%} of the tolerance left to accuracy", **line)
    strictest = promise * (1 - plan._demand.share_left) ** 2
    ax.plot(x, strictest, color=PROMISE_COLOUR, linestyle="--", label="to promise, nothing left to accuracy")
    audit = f"to audit: a rule {'without gaps' if plan.gap == 0 else f'with a gap of {plan.gap:g}'} passes "
    ax.plot(x, curve["audit"], color=AUDIT_COLOUR, linewidth=2, label=f"{audit}in {plan.power:.0%} of audits")
    ax.axvline(plan.tolerance, color="0.5", linestyle=":", label=f"tolerance asked for: {plan.tolerance:g}", zorder=0)
    if plan.n_people is not None:
        ax.axhline(plan.n_people, color="black", linewidth=1, label=f"people there are: {plan.n_people:,}", zorder=0)
    for name, colour in (("audit", AUDIT_COLOUR), ("promise", PROMISE_COLOUR)):
        below = (name == "audit") == (plan.total["audit"] < plan.total["promise"])
        _mark(ax, "o", plan.tolerance, plan.total[name], f"{plan.total[name]:,}", colour, below)
        if plan.n_people is not None and math.isfinite(plan.smallest[name]):
            left = plan.smallest[name] == min(plan.smallest.values())
            _mark(ax, "s", plan.smallest[name], plan.n_people, f"{plan.smallest[name]:.3f}", colour, left)
    ticker = need_extra("matplotlib.ticker", "Plan.plot")
    for axis, scale, form, digits in (
        (ax.xaxis, ax.set_xscale, "g", (1, 2, 3, 5, 7)),
        (ax.yaxis, ax.set_yscale, ",.0f", (1, 2, 5)),
    ):
        scale("log")
        axis.set_major_locator(ticker.LogLocator(subs=digits))
        axis.set_major_formatter(ticker.StrMethodFormatter(f"{{x:{form}}}"))
        axis.set_minor_locator(ticker.NullLocator())
    against = "everybody" if plan.reference == "overall" else "any other group"
    ax.set_xlabel(f"tolerance: largest gap allowed between a group and {against}")
    ax.set_ylabel("people needed, all groups together")
    ax.set_title(f"How many people: {CRITERIA[plan.criterion].replace('_', ' ')}, confidence {plan.confidence:.0%}")
    ax.grid(alpha=0.3)
    ax.legend(loc="upper right", edgecolor="none", framealpha=0.9, fontsize=9)


def _mark(ax: Any, marker: str, x: float, y: float, text: str, colour: str, below: bool) -> None:
    """Mark a point and write its number beside it, below to the left or above to the right, on paper of its own."""
    ax.plot(x, y, marker, color=colour)
    place = {"xytext": (-7, -12) if below else (7, 5), "ha": "right" if below else "left", "fontweight": "bold"}
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
    ax.annotate(text, (x, y), color=colour, bbox=paper, textcoords="offset points", fontsize=9, **place)
