"""What a fitted rule promises, what it costs, and what it does to labelled people, in words and tables."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from optfair.constraints import Constraint
from optfair.constraints.criteria import AnyConstraint
from optfair.constraints.rows import object_frame
from optfair.dual.certificate import accuracy
from optfair.errors import SHOWN, OptFairWarning
from optfair.metrics import GroupConfusion, ViolationInterval, constraint_table, group_confusion
from optfair.rule import FairRule

LINES = 8


class Found(Protocol):
    """What a report is about: a `FairRule`, or what training ended in; ``str`` of the latter tells how."""

    @property
    def groups(self) -> pd.Index: ...

    @property
    def classes(self) -> pd.Index: ...

    @property
    def multipliers(self) -> pd.DataFrame: ...


NO_CELLS = object_frame(("group", "given", "n"), [])


@dataclass(frozen=True, eq=False)
class Measured:
    """One rule on labelled people. interval : of the violation, with its noise floor; None where there is no gap."""

    name: str
    accuracy: float
    interval: ViolationInterval | None


@dataclass(frozen=True, eq=False)
class Report:
    """`print` it, or take its parts.

    title : what was fitted, or measured on whom. rule : the rule with certificate, multipliers and determinism, or
    what training ended in.
    prices : criterion, group, price: accuracy gained per unit of tolerance. measured : the rules compared, by labels.
    constraints : one line per row asked for: value with labels, bounds, people behind it and simultaneous interval.
    small : cells so small that chance alone moves their rates by more than the tolerance.
    seconds, n_base_fits : what fitting took, if that is what is reported. n_people : those measured.
    """

    title: str
    rule: Found
    prices: pd.DataFrame
    measured: tuple[Measured, ...]
    constraints: pd.DataFrame | None
    small: pd.DataFrame
    seconds: dict[str, float] | None = None
    n_base_fits: int | None = None
    n_people: int = 0

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = [self.title, self._trust_text()]
        if self.seconds is not None and isinstance(self.rule, FairRule):
            parts += [
                _section("Certificate (on z(x), the estimates of P(A, Y | X), out of fold)", self.rule.certificate),
                self._prices_text(),
            ]
            parts.append(_section("Price of determinism", self.rule.determinism))
        elif self.seconds is not None:
            parts += [_section("Training", self.rule), self._prices_text()]
        parts += [self._measured_text(), self._worst_text(), self._small_text()]
        if self.seconds is not None:
            times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
            parts.append(f"Took: {times} ({self.n_base_fits} model fits)")
        return "\n\n".join(part for part in parts if part)

    def _trust_text(self) -> str:
        """A warning where z(x) and labels disagree about the accuracy by more than chance."""
        if self.seconds is None or not self.measured or self.n_people == 0 or not isinstance(self.rule, FairRule):
            return ""
        said, found = self.rule.certificate.accuracy, self.measured[-1].accuracy
        if abs(said - found) <= 3 * np.sqrt(max(found * (1 - found), 1e-9) / self.n_people):
            return ""
        return (
            f"NOTE: z(x) puts the accuracy at {said:.4f}, labels at {found:.4f}: the models misjudge their sureness. "
            "The certificate speaks of z(x), not of the labels. A better model of (group, class) would mend it."
        )

    def _prices_text(self) -> str:
        paid = self.prices[self.prices["price"] > 0].sort_values("price", ascending=False)
        if paid.empty:
            return "Prices: no constraint binds; the rule costs nothing."
        lines = [
            f"  {row.criterion}{'' if row.group is None else f', {_name(row.group)}'}: {row.price:.4f}"
            for row in paid.head(LINES).itertuples()
        ]
        unit = "accuracy gained"
        if isinstance(self.rule, FairRule):
            costs = abs(self.rule.certificate.value - self.rule.certificate.accuracy) > 1e-9
        else:
            costs = getattr(self.rule, "has_costs", False)
        if costs:
            unit = "value gained, in units of costs,"
        return "\n".join([f"Prices ({unit} per unit of tolerance)", *lines])

    def _measured_text(self) -> str:
        if not self.measured:
            return ""
        lines = [f"  {'':<22} accuracy  violation   95 % interval     noise floor"]
        for one in self.measured:
            line = f"  {one.name:<22} {one.accuracy:.4f}"
            if one.interval is not None:
                i = one.interval
                line += f"    {i.value:.4f}     {i.lower:.4f} to {i.upper:.4f}  {i.noise_floor:.4f}"
            lines.append(line)
        head = "With labels (largest gap of any group; a perfectly fair rule stays below the floor 19 times in 20)"
        return "\n".join([head, *lines])

    def _worst_text(self) -> str:
        table = self.constraints
        if table is None or table.empty:
            return ""
        missed = int(((table["low"] > table["upper"]) | (table["high"] < table["lower"])).sum())
        met = int(((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).sum())
        head = (
            f"Constraints with labels: {int((table['excess'] == 0).sum())} of {len(table)} values within bounds; "
            f"surely met {met}, surely missed {missed}, too few people to tell {len(table) - met - missed} "
            "(simultaneous 95 %)"
        )
        distance = np.maximum(table["value"] - table["upper"], table["lower"] - table["value"])
        worst = table.assign(distance=distance).sort_values("distance", ascending=False).head(LINES)
        lines = [
            f"  {_row(row):<46} {row.value:+.4f} (allowed {_bounds(row)}; "
            f"{row.low:+.4f} to {row.high:+.4f}; n={row.n:.0f})"
            for row in worst.itertuples()
        ]
        return "\n".join([head, *lines])

    def _small_text(self) -> str:
        if self.small.empty:
            return ""
        shown = [
            f"{_name(row.group)}{'' if row.given is None else f', {_name(row.given)}'}: {row.n}"
            for row in self.small.head(SHOWN).itertuples()
        ]
        more = f"; and {len(self.small) - SHOWN} more" if len(self.small) > SHOWN else ""
        head = "Cells too small to judge: chance moves their rates by more than the tolerance (people)"
        return f"{head}: {'; '.join(shown)}{more}"


def _name(value: Any) -> str:
    """A group or a class as a reader would write it: 'A', 3, 'female × white'."""
    value = " × ".join(map(str, value)) if isinstance(value, tuple) else value
    return repr(value.item() if isinstance(value, np.generic) else value)


def _section(head: str, content: Any) -> str:
    return "\n".join([head, *("  " + line for line in str(content).splitlines())])


def _row(row: Any) -> str:
    parts = [str(row.criterion)]
    parts += [_name(row.group)] if row.group is not None else []
    parts += [f"given {_name(row.given)}"] if row.given is not None else []
    parts += [f"-> {_name(row.outcome)}"] if row.outcome is not None else []
    return " ".join(parts)


def _bounds(row: Any) -> str:
    if np.isfinite(row.lower) and np.isfinite(row.upper):
        return f"{row.lower:+.4g} to {row.upper:+.4g}"
    return f"at least {row.lower:.4g}" if np.isfinite(row.lower) else f"at most {row.upper:.4g}"


def prices(rule: Found) -> pd.DataFrame:
    """criterion, group, price: d accuracy / d tolerance of each group's rows together (of a pair: its first group)."""
    table = rule.multipliers
    sums: dict[tuple[Hashable, ...], float] = {}
    for criterion, group, multiplier in zip(table["criterion"], table["group"], table["multiplier"], strict=True):
        sums[criterion, group] = sums.get((criterion, group), 0.0) + abs(multiplier)
    frame = object_frame(("criterion", "group"), list(sums))
    return frame.assign(price=list(sums.values()))


def make_report(
    title: str,
    rule: Found,
    constraints: Sequence[AnyConstraint],
    answers: dict[str, np.ndarray],
    y: np.ndarray | None = None,
    group: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    **fitted: Any,
) -> Report:
    """answers : class probabilities (n, m) of each rule to compare, the fair rule last; y, group : (n,) codes."""
    measured: list[Measured] = []
    lines, small = None, NO_CELLS
    for name, h in answers.items():
        confusion = group_confusion(
            y,
            h,
            sensitive_features=group,
            sample_weight=weight,
            classes=range(len(rule.classes)),
            groups=range(len(rule.groups)),
        )
        confusion = replace(confusion, groups=rule.groups, classes=rule.classes)
        gaps = [wish for wish in constraints if isinstance(wish, Constraint)]
        with warnings.catch_warnings():
            if measured:  # the same empty cells for every rule: said once
                warnings.simplefilter("ignore", OptFairWarning)
            interval = confusion.violation_interval(gaps) if gaps else None
        measured.append(Measured(name, accuracy(confusion.tensor), interval))
    if measured:  # of the last one, the fair rule
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptFairWarning)
            lines, small = constraint_table(confusion, constraints), small_cells(confusion, constraints)
    n = 0 if y is None else len(y)
    return Report(title, rule, prices(rule), tuple(measured), lines, small, n_people=n, **fitted)


def small_cells(confusion: GroupConfusion, constraints: Sequence[AnyConstraint]) -> pd.DataFrame:
    """group, given, n of the cells whose rates chance moves by more than the smallest tolerance.

    The 95 % half-width of a rate of one half among n people is 0.98/√n. Criteria that do not condition on the true
    class (dp, oae) speak of whole groups: given is then empty.
    """
    wishes = [wish for wish in constraints if isinstance(wish, Constraint)]
    if not wishes:
        return NO_CELLS
    bounds = [t for w in wishes for t in (w.tolerance.values() if isinstance(w.tolerance, Mapping) else [w.tolerance])]
    least = max(min(map(float, bounds)), 1e-9)
    n = confusion.n_people
    given: list[Any] = list(confusion.classes)
    if all(wish.criterion in ("dp", "oae") for wish in wishes):
        n, given = n.sum(axis=1, keepdims=True), [None]
    few = np.argwhere(0.98 / np.sqrt(np.maximum(n, 1)) > least)
    few = few[np.argsort(n[tuple(few.T)], kind="stable")]
    return object_frame(("group", "given", "n"), [(confusion.groups[a], given[i], int(n[a, i])) for a, i in few])
