"""Say what a look has shown, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.rows import TABLE_COLUMNS, row_name
from optfair.errors import first_names
from optfair.monitoring.looks import EXCEEDS, WITHIN


@dataclass(frozen=True, eq=False)
class MonitorReport:
    """What a look at a monitor has shown; ``print`` it.

    Attributes
    ----------
    flagged : bool
        Whether some gap is outside its bounds. Wrong in any of all looks since the last reset with probability at most
        1 − ``confidence``.
    certified : bool
        Whether every gap, averaged over the people counted, is within its bounds. Wrong in any of all looks since the
        last reset with probability at most 1 − ``confidence`` while rates are constant, and in any one look where they
        drift. Never together with ``flagged``.
    confidence : float
        Probability that no flag, and that no certificate, is wrong.
    table : pandas.DataFrame
        One line per gap: its names; ``lower`` and ``upper``, its bounds; ``since`` which period its people are counted;
        ``value``; ``people``, the fewest behind one of its rates; limits ``low`` and ``high``, which hold for all gaps,
        at all times and since every start at once; ``surely_from`` and ``surely_to``, those of the certificate;
        ``verdict``: exceeds, within or open.
    changes : pandas.DataFrame
        One line per share: ``kind`` (who comes, what the model says, what the rule does), group, outcome, its value and
        limits in the reference and ``since`` a later period, and ``changed``, where the limits are disjoint.
    n_people : int
        People counted since the last reset.
    n_labelled : int
        Those of them whose true class is known.
    periods : list of str
        Names of the periods they came in.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import Monitor
    >>> monitor = Monitor("dp", 0.05)
    >>> group, answer = np.repeat(["A", "B"], 2000), np.tile([0, 1], 2000)
    >>> monitor.update(None, answer, sensitive_features=group, period="January").check().certified
    True
    """

    flagged: bool
    certified: bool
    confidence: float
    table: pd.DataFrame = field(repr=False)
    changes: pd.DataFrame = field(repr=False)
    n_people: int
    n_labelled: int
    periods: list[str] = field(repr=False)

    def __str__(self) -> str:
        ends = self.periods[0] if len(self.periods) == 1 else f"{self.periods[0]} to {self.periods[-1]}"
        lines = [f"{self.n_people:,} people, {self.n_labelled:,} of them with labels, in {ends}"]
        lines += [self._gap_text(), *self._change_texts()]
        return "\n".join(lines)

    def _gap_text(self) -> str:
        level = f"confidence {self.confidence:.4g}, at all looks together"
        outside = self.table[self.table["verdict"] == EXCEEDS]
        if self.flagged:
            worst = outside.loc[_excess(outside).idxmax()]
            rest = f"; and {len(outside) - 1} more" if len(outside) > 1 else ""
            return f"FLAGGED: {_row_text(worst)}{rest} ({level})"
        if self.certified:
            return (
                f"CERTIFIED: all {len(self.table)} gaps are within their bounds, averaged over the people since "
                f"{self.table['since'].iloc[0]} ({level})"
            )
        undecided = self.table[self.table["verdict"] != WITHIN]
        reach = np.maximum(undecided["surely_to"] - undecided["upper"], undecided["lower"] - undecided["surely_from"])
        widest = undecided.loc[reach.idxmax()]
        return (
            f"OPEN: {len(undecided)} of {len(self.table)} gaps may be within their bounds or not; least sure: "
            f"{_row_text(widest, 'surely_from', 'surely_to')} ({level})"
        )

    def _change_texts(self) -> list[str]:
        if self.changes.empty:
            return ["No change can be seen before people come after the reference."]
        lines = []
        for kind, part in self.changes[self.changes["changed"]].groupby("kind", sort=False):
            size = (part["value"] - part["reference"]).abs().sort_values(ascending=False).index
            lines.append(f"Changed, {kind}: {first_names([_change_text(part.loc[k]) for k in size])}")
        return lines or ["Nothing has surely changed since the reference."]


def _excess(table: pd.DataFrame) -> pd.Series:
    return pd.Series(np.maximum(table["low"] - table["upper"], table["lower"] - table["high"]), index=table.index)


def _row_text(line: pd.Series, low: str = "low", high: str = "high") -> str:
    place = row_name(*(line[column] for column in TABLE_COLUMNS))
    value = "unknown" if np.isnan(line["value"]) else f"{line['value']:.4f}"
    return (
        f"{place} is {value}, surely {line[low]:.4f} to {line[high]:.4f}, allowed {_bounds_text(line)}, "
        f"{line['people']:,} people since {line['since']}"
    )


def _bounds_text(line: pd.Series) -> str:
    if np.isinf(line["upper"]):
        return f"at least {line['lower']:g}"
    return f"{line['lower']:g} to {line['upper']:g}"


def _change_text(line: pd.Series) -> str:
    names: list[Any] = [name for name in (line["group"], line["outcome"]) if name is not None]
    return f"{', '.join(map(repr, names))} {line['reference']:.3f} → {line['value']:.3f} since {line['since']}"
