"""Report what a fitted rule reaches, what it costs, and what it does to labelled people, in words and tables."""

from __future__ import annotations

import datetime
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from optfair.constraints import AnyConstraint, Constraint
from optfair.constraints.rows import accuracy, object_frame
from optfair.errors import SHOWN, warn_empty
from optfair.estimators.answers import answers_text, class_answers
from optfair.metrics.constraint_table import measure_constraints
from optfair.metrics.counts import ConfusionCounts
from optfair.metrics.gaps import gap_rows
from optfair.metrics.intervals import ViolationInterval, simultaneous_interval
from optfair.reporting.document import Facts, make_document
from optfair.reporting.findings import Finding
from optfair.reporting.markdown import markdown_text
from optfair.reporting.page import notebook_html, page_html
from optfair.reporting.verdict import Verdict
from optfair.rule.promise import Promise, held_out_promise
from optfair.rule.rule import FairRule
from optfair.utils.files import write_atomically

LINES = 8  # of a table, in text
REPORT_LEVEL = 0.95  # of the intervals and promises of a report
HALF_WIDTH = 0.98  # the 95 % half-width of a rate of one half among n people is 0.98/√n


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


NO_CELLS = object_frame(("group", "given", "n"), [])


@dataclass(frozen=True, eq=False)
class RuleMetrics:
    """One rule on labelled people.

    name : of the rule. accuracy : of its predictions. interval : of the violation, with its noise floor; None where no
    gap is asked for.
    """

    name: str
    accuracy: float
    interval: ViolationInterval | None


@dataclass(frozen=True, eq=False)
class Report:
    """What was asked for, what was reached, and at what price; ``print`` it, or take its parts.

    Attributes
    ----------
    title : str
        What was fitted, or measured on whom.
    rule : FairRule, TrainingSummary or None
        The rule with certificate, multipliers and determinism, or what training ended in; None for an audit.
    prices : pandas.DataFrame
        criterion, group, price: accuracy gained per unit of tolerance.
    measured : tuple of RuleMetrics
        The rules compared, by labels.
    constraints : pandas.DataFrame or None
        One line per row asked for: value with labels, bounds, people behind it and simultaneous interval.
    small : pandas.DataFrame
        Cells so small that chance alone moves their rates by more than the tolerance.
    seconds : dict or None
        What fitting took, if that is what is reported.
    n_base_fits : int or None
        Models fitted, if fitting is what is reported.
    n_people : int
        People measured on.
    promise : Promise or None
        What is promised to new people; of people given, what can be said by them, who were not fitted on.
    answers : pandas.DataFrame
        rule, class, people, share, recall: P(Y=j), P(Ŷ=j) and P(Ŷ=j | Y=j) of each rule compared and class j.
    request : tuple of Constraint, Ratio, MinimumRate or Rows
        What was asked for.
    predictions : mapping
        Counts of each rule compared, by its name.
    changes : ndarray of shape (n_groups, n_classes, n_classes) or None
        People of each group by their answer before and after.
    date : str
        Day of the report.
    level : float
        Confidence of its intervals.

    Examples
    --------
    >>> from optfair import OptFairPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, random_state=0)
    >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> [metrics.name for metrics in model.report().measured]
    ['unconstrained, joint', 'recalibrated', 'fair rule']
    """

    title: str
    rule: Reportable | None
    prices: pd.DataFrame
    measured: tuple[RuleMetrics, ...]
    constraints: pd.DataFrame | None
    small: pd.DataFrame
    seconds: dict[str, float] | None = None
    n_base_fits: int | None = None
    n_people: int = 0
    promise: Promise | None = None
    answers: pd.DataFrame = field(default_factory=lambda: class_answers({}))
    request: tuple[AnyConstraint, ...] = ()
    predictions: Mapping[str, ConfusionCounts] = field(default_factory=dict)
    changes: np.ndarray | None = None
    date: str = field(default_factory=lambda: datetime.datetime.now(datetime.UTC).date().isoformat())
    level: float = REPORT_LEVEL

    @cached_property
    def _document(self) -> tuple[dict[str, Any], Verdict | None, list[Finding]]:
        facts = Facts(
            title=self.title,
            date=self.date,
            constraints=self.request,
            predictions=self.predictions,
            intervals={metrics.name: metrics.interval for metrics in self.measured},
            table=self.constraints,
            small=self.small,
            changes=self.changes,
            multipliers=None if self.rule is None else self.rule.multipliers,
            certificate=getattr(self.rule, "certificate", None),
            determinism=getattr(self.rule, "determinism", None),
            promise=self.promise,
            fitted=self.seconds is not None,
            disagreement=self._disagreement_text().removeprefix("NOTE: "),
            level=self.level,
        )
        return make_document(facts)

    @property
    def verdict(self) -> Verdict | None:
        """Whether what was asked for is kept: surely within, surely beyond, or it cannot be told."""
        return self._document[1]

    @property
    def findings(self) -> list[Finding]:
        """What a reader should know, problems first; docs/findings.md explains the codes."""
        return list(self._document[2])

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the report as JSON can hold it; all pages are made of it.

        Returns
        -------
        dict
            Format and version, units, what was asked for, verdict, findings, rates by group before and after,
            comparisons, right answers by group, changes of answers, prices, certificate and promise. Numbers about
            fewer than ten people are None, and their number is "< 10".

        Examples
        --------
        >>> from optfair import audit
        >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> document = report.to_dict()
        >>> document["format"], document["version"], document["n_people"]
        ('optfair report', 1, 100)
        """
        document: dict[str, Any] = json.loads(json.dumps(self._document[0]))  # a copy
        return document

    def json(self, path: str | Path | None = None) -> str | None:
        """Return the document of `to_dict` as text, or write it to a file.

        Parameters
        ----------
        path : str or Path, optional
            File to write, whole or not at all.

        Returns
        -------
        str or None
            The text, unless it was written.

        Examples
        --------
        >>> from optfair import audit
        >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> report.json()[:1]
        '{'
        """
        return _text_or_file(json.dumps(self._document[0], ensure_ascii=False, indent=1) + "\n", path)

    def markdown(self, path: str | Path | None = None) -> str | None:
        """Return the report as Markdown, or write it to a file.

        Parameters
        ----------
        path : str or Path, optional
            File to write, whole or not at all.

        Returns
        -------
        str or None
            The text, unless it was written.

        Examples
        --------
        >>> from optfair import audit
        >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> report.markdown().startswith("# Fairness report")
        True
        """
        return _text_or_file(markdown_text(self._document[0]), path)

    def html(self, path: str | Path | None = None) -> str | None:
        """Return the report as one page that needs no network, or write it to a file; needs jinja2.

        Parameters
        ----------
        path : str or Path, optional
            File to write, whole or not at all.

        Returns
        -------
        str or None
            The page, unless it was written.

        Examples
        --------
        >>> from optfair import audit
        >>> report = audit([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> report.html("report.html")  # doctest: +SKIP
        """
        return _text_or_file(page_html(self._document[0]), path)

    def _repr_html_(self) -> str:
        return notebook_html(self._document[0], str(self))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        parts = [self.title, self._disagreement_text()]
        if self.seconds is not None and isinstance(self.rule, FairRule):
            parts += [
                _section("Certificate (on z(x), the estimates of P(A, Y | X), out of fold)", self.rule.certificate),
                self._promise_text(),
                self._prices_text(),
            ]
            parts.append(_section("Price of determinism", self.rule.determinism))
        elif self.seconds is not None:
            parts += [_section("Training", self.rule), self._prices_text()]
        parts += [self._measured_text(), answers_text(self.answers, LINES), self._worst_text(), self._small_text()]
        parts += [] if self.seconds is not None else [self._promise_text()]
        if self.seconds is not None:
            times = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.seconds.items())
            parts.append(f"Took: {times} ({self.n_base_fits} model fits)")
        return "\n\n".join(part for part in parts if part)

    def _disagreement_text(self) -> str:
        """Return a note where z(x) and labels disagree about the accuracy by more than chance."""
        if self.seconds is None or not self.measured or self.n_people == 0 or not isinstance(self.rule, FairRule):
            return ""
        claimed, observed = self.rule.certificate.accuracy, self.measured[-1].accuracy
        if abs(claimed - observed) <= 3 * np.sqrt(max(observed * (1 - observed), 1e-9) / self.n_people):
            return ""
        return (
            f"NOTE: z(x) puts the accuracy at {claimed:.4f}, labels at {observed:.4f}: the models misjudge how certain "
            "they are. The certificate speaks of z(x), not of the labels. A better model of (group, class) would help, "
            "and for a fitted one calibration='posterior'."
        )

    def _promise_text(self) -> str:
        if self.promise is None:
            return ""
        return f"{'Promise' if self.promise.method == 'fitted' else 'By these people alone'}: {self.promise}"

    def _prices_text(self) -> str:
        positive = self.prices[self.prices["price"] > 0].sort_values("price", ascending=False)
        if positive.empty:
            return "Prices: no constraint binds; the rule costs nothing."
        lines = [
            f"  {row.criterion}{'' if row.group is None else f', {_name(row.group)}'}: {row.price:.4f}"
            for row in positive.head(LINES).itertuples()
        ]
        unit = "accuracy gained"
        costs = self.rule.certificate if isinstance(self.rule, FairRule) else self.rule
        if getattr(costs, "has_costs", False):
            unit = "value gained, in units of costs,"
        return "\n".join([f"Prices ({unit} per unit of tolerance)", *lines])

    def _measured_text(self) -> str:
        if not self.measured:
            return ""
        lines = [f"  {'':<22} accuracy  violation   95 % interval     noise floor"]
        for metrics in self.measured:
            line = f"  {metrics.name:<22} {'  –   ' if np.isnan(metrics.accuracy) else f'{metrics.accuracy:.4f}'}"
            if metrics.interval is not None:
                i = metrics.interval
                line += f"    {i.value:.4f}     {i.lower:.4f} to {i.upper:.4f}  {i.noise_floor:.4f}"
            lines.append(line)
        source = "With labels" if all(counts.labelled for counts in self.predictions.values()) else "Without labels"
        head = f"{source} (largest gap of any group; a perfectly fair rule stays below the floor 19 times in 20)"
        return "\n".join([head, *lines])

    def _worst_text(self) -> str:
        table = self.constraints
        if table is None or table.empty:
            return ""
        outside = int(((table["low"] > table["upper"]) | (table["high"] < table["lower"])).sum())
        inside = int(((table["low"] >= table["lower"]) & (table["high"] <= table["upper"])).sum())
        head = (
            f"Constraints with labels: {int((table['excess'] == 0).sum())} of {len(table)} values within bounds; "
            f"surely met {inside}, surely missed {outside}, too few people to tell {len(table) - inside - outside} "
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
        cells = [
            f"{_name(row.group)}{'' if row.given is None else f', {_name(row.given)}'}: {row.n} people"
            for row in self.small.head(SHOWN).itertuples()
        ]
        rest = f"; and {len(self.small) - SHOWN} more" if len(self.small) > SHOWN else ""
        head = "Too few people to judge, since chance moves their rates by more than the tolerance"
        return f"{head}: {'; '.join(cells)}{rest}"


def _text_or_file(text: str, path: str | Path | None) -> str | None:
    if path is None:
        return text
    write_atomically(Path(path), text.encode("utf-8"))
    return None


def _name(value: Any) -> str:
    """Return a group or a class as a reader would write it: 'A', 3, 'female × white'."""
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


def prices(rule: Reportable | None) -> pd.DataFrame:
    """Return criterion, group, price: d accuracy / d tolerance of each group's rows (of a pair: its first group)."""
    sums: dict[tuple[Hashable, ...], float] = {}
    table = object_frame(("criterion", "group", "multiplier"), []) if rule is None else rule.multipliers
    for criterion, group, multiplier in zip(table["criterion"], table["group"], table["multiplier"], strict=True):
        sums[criterion, group] = sums.get((criterion, group), 0.0) + abs(multiplier)
    frame = object_frame(("criterion", "group"), list(sums))
    return frame.assign(price=list(sums.values()))


def make_report(
    title: str,
    rule: Reportable | None,
    constraints: Sequence[AnyConstraint],
    predictions: dict[str, ConfusionCounts],
    *,
    decided: str | None = None,
    level: float = REPORT_LEVEL,
    random_state: Any = 0,
    **facts: Any,
) -> Report:
    """Measure rules on labelled rows and report on the last of them, the fair rule.

    predictions : of each rule to compare, by its name, counted. decided : the name of those that are decisions for
    people who are given, and say whether the tolerance is kept in their population; the last by default. level,
    random_state : of the intervals. facts : n_people, seconds, n_base_fits, changes, promise.
    """
    metrics: list[RuleMetrics] = []
    table, small = None, NO_CELLS
    gaps = [constraint for constraint in constraints if isinstance(constraint, Constraint)]
    for name, counts in predictions.items():
        interval = None
        if gaps:
            rows = gap_rows(counts, gaps)
            if not metrics:  # the same cells are empty for every rule: warn once
                warn_empty(rows.dropped)
            interval = simultaneous_interval(counts, rows, level, random_state=random_state)
        metrics.append(RuleMetrics(name, accuracy(counts.tensor) if counts.labelled else np.nan, interval))
    if metrics:
        table, dropped = measure_constraints(counts, list(constraints), level, random_state=random_state)
        small = small_cells(counts, gaps)
    facts |= {"request": tuple(constraints), "predictions": predictions, "level": float(level)}
    facts["answers"] = class_answers({name: counts for name, counts in predictions.items() if counts.labelled})
    if metrics and "seconds" not in facts and not dropped:
        facts["promise"] = held_out_promise(predictions[decided or metrics[-1].name], constraints, level, "")
    return Report(title, rule, prices(rule), tuple(metrics), table, small, **facts)


def normalise_rows(h: np.ndarray) -> np.ndarray:
    """Return probabilities whose rows sum to one exactly, as far as rounding allows."""
    return np.asarray(h / h.sum(axis=1, keepdims=True))


def small_cells(counts: ConfusionCounts, gaps: Sequence[Constraint]) -> pd.DataFrame:
    """Return group, given, n of the cells whose rates chance moves by more than the smallest tolerance.

    Criteria that do not condition on the true class (dp, oae) speak of whole groups: given is then empty.
    """
    if not gaps:
        return NO_CELLS
    tolerance = max(min(constraint.strictest for constraint in gaps), 1e-9)
    n, given = counts.n_people, list(counts.classes)
    if all(constraint.criterion in ("dp", "oae") for constraint in gaps):
        n, given = n.sum(axis=1, keepdims=True), [None]
    cells = np.argwhere(HALF_WIDTH / np.sqrt(np.maximum(n, 1)) > tolerance)
    cells = cells[np.argsort(n[tuple(cells.T)], kind="stable")]
    return object_frame(("group", "given", "n"), [(counts.groups[a], given[i], int(n[a, i])) for a, i in cells])
