"""Plan an audit or a promise: `optfair.plan` counts people, and a `Plan` tells, tabulates and draws how many are needed."""

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
from optfair.metrics.planning import Demand, RowNoise, cell_classes, row_noise
from optfair.utils.checks import check_number, share_hint
from optfair.utils.files import replacing

WORST_RATE = 0.5  # p(1 − p) is largest there


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
        Smallest tolerance for an "audit" and for a "promise" of the people there are; empty where they are unknown.
    n_people : int or None
        People there are.
    table : pandas.DataFrame
        One line per cell: group, given (the true class, None where the criterion takes all together), share; people
        (there are); to_audit and to_promise, how many of the cell are needed among people drawn in these shares;
        audit_tolerance and promise_tolerance, the smallest for the gaps of this cell with the people there are.
    confidence : float
        Probability that audit and promise are right.
    power : float
        Probability that the audit passes.

    Examples
    --------
    >>> import optfair
    >>> optfair.plan({"A": 1200, "B": 300}, classes=5, criterion="dp", tolerance=0.05).total["audit"]
    2410
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
    _noise: Any = field(default=None, repr=False)
    _demand: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        needed = " and ".join(f"{people:,} people to {name}" for name, people in self.total.items())
        text = f"{self.criterion} within {self.tolerance:g}: {needed}"
        return f"<Plan of {len(self.table)} cells, {text}; see .table, .curve(), .plot()>"

    def __str__(self) -> str:
        least = self.table.loc[self.table["share"].idxmin()]
        place = f"{least['group']!r}" + ("" if least["given"] is None else f" with true class {least['given']!r}")
        against = "everybody" if self.reference == "overall" else "every other group"
        lines = [
            f"{CRITERIA[self.criterion]}, each group against {against}, tolerance {self.tolerance:g}, "
            f"confidence {self.confidence:.0%}; fewest people: {place}, {least['share']:.2%} of all",
            _need("audit", self.total["audit"], least["to_audit"], f", to pass with probability {self.power:.0%}"),
            _need("promise at fitting", self.total["promise"], least["to_promise"], ""),
        ]
        if self.smallest:
            lines.append(
                f"with the {self.n_people:,} people there are, the smallest tolerance is {self.smallest['audit']:.3f} "
                f"for an audit and {self.smallest['promise']:.3f} for a promise"
            )
        return "\n".join(lines)

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
        [15048.0, 2408.0]
        """
        lines = []
        for value in tolerances:
            tolerance = check_number("tolerances", value, "(0, 1)", share_hint(value))
            promise = self._demand.promise_people(self._noise.sigma.max(), len(self._noise.sigma), tolerance)
            audit = self._demand.audit_people(self._noise, tolerance)
            lines.append((tolerance, *(people if math.isinf(people) else math.ceil(people) for people in (audit, promise))))
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
        pyplot = need_extra("matplotlib.pyplot", "Plan.plot")
        ax = pyplot.subplots(figsize=(7, 4.6), layout="constrained")[1] if ax is None else ax
        _draw(self, ax)
        if path is not None:
            with replacing(Path(path)) as temporary:
                ax.figure.savefig(temporary, format=Path(path).suffix[1:].lower() or "png", dpi=150)
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
    (and of every true class in it, for "eop", "eo" and "meo"), so that the smallest cell decides.

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
    check_number("tolerance", tolerance, "(0, 1)", share_hint(tolerance))
    check_number("confidence", confidence, "(0.5, 1)", share_hint(confidence))
    check_number("power", power, "(0, 1)", share_hint(power))
    for name, value in (("gap", gap), ("room", tolerance / 2 if room is None else room)):
        check_number(name, value, f"[0, {tolerance:g})", ", below the tolerance")
    if rate is not None:
        check_number("rate", rate, "(0, 1)", share_hint(rate))
    constraint = Constraint(criterion, float(tolerance), reference)
    people = read_composition(groups, classes, n_people)
    if not people.labelled and constraint.criterion != "dp":
        raise ValueError(f"criterion={criterion!r}: speaks of true classes, which groups= does not know; give them, or 'dp'.")
    rows = compile_rows([constraint], people.groups, people.classes, people.prior)
    warn_empty(rows.dropped)
    noise = row_noise(rows, people.prior, _rates(rows, people, rate), gap)
    demand = Demand(float(confidence), float(power), (0.5 if room is None else room / tolerance))
    distinct = noise.part(np.arange(len(rows)))
    if not len(distinct.sigma):
        raise ValueError("groups: no two of them have people of the same class, so that there is nothing to compare.")
    table = _cell_table(rows, people, noise, demand, float(tolerance))
    smallest: dict[str, float] = {}
    if people.people is not None:
        smallest = {
            "audit": demand.audit_tolerance(distinct, people.people),
            "promise": demand.promise_tolerance(distinct.sigma.max(), len(distinct.sigma), people.people),
        }
    return Plan(
        criterion=constraint.criterion,
        reference=reference,
        tolerance=float(tolerance),
        total={name: int(table[f"to_{name}"].sum()) for name in ("audit", "promise")},
        smallest=smallest,
        n_people=people.people,
        table=table,
        confidence=float(confidence),
        power=float(power),
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


def _cell_table(rows: RowSet, people: Composition, noise: RowNoise, demand: Demand, tolerance: float) -> pd.DataFrame:
    """Return a line per cell that rows are about; see `Plan`."""
    distinct = noise.part(np.arange(len(rows)))
    sigma, n_rows = float(distinct.sigma.max()), len(distinct.sigma)
    needed = (demand.audit_people(distinct, tolerance), demand.promise_people(sigma, n_rows, tolerance))
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
        own = noise.part(np.array(members[cell]))
        tolerances = [math.nan, math.nan]
        if people.people is not None and len(own.sigma):
            tolerances = [
                demand.audit_tolerance(own, people.people),
                demand.promise_tolerance(float(own.sigma.max()), n_rows, people.people),
            ]
        count = math.nan if people.people is None else round(share * people.people)
        numbers.append([share, count, *(math.ceil(share * n) for n in needed), *tolerances])
    columns = ["share", "people", "to_audit", "to_promise", "audit_tolerance", "promise_tolerance"]
    return pd.concat([object_frame(["group", "given"], cells), pd.DataFrame(numbers, columns=columns)], axis=1)


def _need(purpose: str, total: int, least: int, ending: str) -> str:
    return f"{purpose}: {total:,} people, {least:,} of them there{ending}"


def _draw(plan: Plan, ax: Any) -> None:
    """Draw the curves of people against tolerance, what is asked for, and what the people there are allow."""
    marks = [plan.tolerance, *plan.smallest.values()]
    curve = plan.curve(np.linspace(min(marks) / 1.6, min(max(marks) * 1.6, 0.999), 80))
    curve = curve[np.isfinite(curve["audit"])]
    for name, colour, label in (
        ("promise", "#D55E00", "to promise it when a rule is fitted"),
        ("audit", "#0072B2", f"to pass an audit (in {plan.power:.0%} of audits)"),
    ):
        total = plan.total[name]
        ax.plot(curve["tolerance"], curve[name], color=colour, linewidth=2, label=label)
        ax.plot(plan.tolerance, total, "o", color=colour)
        text = {"xytext": (8, 6), "textcoords": "offset points", "color": colour, "fontweight": "bold"}
        ax.annotate(f"{total:,}", (plan.tolerance, total), **text)
    ax.axvline(plan.tolerance, color="0.6", linewidth=1, linestyle=":", label=f"tolerance asked for: {plan.tolerance:g}")
    if plan.n_people is not None:
        ax.axhline(plan.n_people, color="black", linewidth=1, label=f"people there are: {plan.n_people:,}")
        for name, colour in (("audit", "#0072B2"), ("promise", "#D55E00")):
            ax.plot(plan.smallest[name], plan.n_people, "s", color=colour)
            text = {"xytext": (4, 7), "textcoords": "offset points", "color": colour}
            ax.annotate(f"{plan.smallest[name]:.3f}", (plan.smallest[name], plan.n_people), **text)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlim(left=0)
    ax.set_xlabel("tolerance: largest gap between groups")
    ax.set_ylabel("people needed, all groups together")
    ax.grid(alpha=0.3, which="both")
    ax.legend(edgecolor="none", framealpha=0.9)
