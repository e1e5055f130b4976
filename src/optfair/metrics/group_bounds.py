"""Hold what can be said of constraints while the groups of some people are unknown, and say it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

WITHIN, BEYOND, DEPENDS, FEW = "within", "beyond", "depends", "few"
STATES = {
    WITHIN: "surely within",
    BEYOND: "surely beyond",
    DEPENDS: "dependent on the unknown groups",
    FEW: "with too few people to tell",
}


@dataclass(frozen=True, eq=False)
class UnknownGroupBounds:
    """What can be said of constraints while the groups of some people are unknown.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per row of the constraints; see `unknown_group_bounds`.
    unknown : pandas.DataFrame
        given, outcome, n: people whose group is unknown by true class and answer; with several attributes, whoever
        misses one.
    n_people : int
        People counted.
    n_unknown : int
        Those whose group is unknown.
    refusal : float
        By how much the odds of the groups may differ between people of known and of unknown group; inf: by anything.
    level : float
        Confidence of ``low`` and ``high``.
    dropped : tuple of str
        Names of the rows left out, because nobody is known to be in the group and class.
    n_strangers : int
        Of those of unknown group, who have an attribute that nobody of known group has. They may be of further groups,
        of which nothing is measured: then no row is called within.

    Examples
    --------
    >>> from optfair.metrics import unknown_group_bounds
    >>> bounds = unknown_group_bounds(None, [0, 1, 1, 0, 1], sensitive_features=["A", "A", "B", "B", None])
    >>> bounds.n_unknown, bounds.state
    (1, 'depends')
    """

    table: pd.DataFrame = field(repr=False)
    unknown: pd.DataFrame = field(repr=False)
    n_people: int
    n_unknown: int
    refusal: float
    level: float
    dropped: tuple[str, ...] = ()
    n_strangers: int = 0

    @property
    def state(self) -> str:
        """The worst state of a row: "beyond", "depends", "few", or "within" where all are."""
        states = set(self.table["state"])
        return next(state for state in (BEYOND, DEPENDS, FEW, WITHIN) if state in states)

    @property
    def violation(self) -> dict[str, float]:
        """The largest gap: "value", "inferred", at "least" and at "most"; NaN where no constraint is a gap."""
        gaps = self.table[self.table["is_gap"]]
        if gaps.empty:
            return dict.fromkeys(("value", "inferred", "least", "most"), np.nan)
        sizes = {name: float(gaps[name].abs().max()) for name in ("value", "inferred")}
        least = np.maximum(gaps["least"], -gaps["most"]).clip(lower=0).max()
        return {**sizes, "least": float(least), "most": float(np.maximum(gaps["most"], -gaps["least"]).max())}

    def __str__(self) -> str:
        return self.summary()

    def summary(self, min_cell: int = 1) -> str:
        """Return what is known in a few sentences; numbers of fewer than ``min_cell`` people are not told.

        Parameters
        ----------
        min_cell : int, default 1
            The least number of people that is told.

        Returns
        -------
        str
            Sentences.

        Examples
        --------
        >>> from optfair.metrics import unknown_group_bounds
        >>> bounds = unknown_group_bounds(None, [0, 1, 1, 0, 1], sensitive_features=["A", "A", "B", "B", None])
        >>> bounds.summary(10).partition(".")[0]
        'The group of fewer than 10 of 5 people is unknown'
        """

        def count(n: int) -> str:
            return f"{n:,}" if n >= min_cell else f"fewer than {min_cell}"

        if not self.n_unknown:
            sentences = [f"The group of all {self.n_people:,} people is known."]
        else:
            share = f" ({100 * self.n_unknown / self.n_people:.1f} %)" if self.n_unknown >= min_cell else ""
            people = f"{count(self.n_unknown)} of {self.n_people:,} people{share}"
            sentences = [f"The group of {people} is unknown."]
        if self.n_strangers:
            sentences.append(
                f"Of these, {count(self.n_strangers)} have an attribute that nobody of known group has: they may be of "
                "further groups, and nothing is called within."
            )
        if np.isfinite(self.violation["value"]):
            sentences.append(self._violation_text())
        numbers = self.table["state"].value_counts()
        parts = [f"{int(numbers[state]):,} {text}" for state, text in STATES.items() if state in numbers]
        sentences.append(f"Of {len(self.table):,} comparisons: {', '.join(parts)} (confidence {100 * self.level:g} %).")
        return " ".join(sentences)

    def _violation_text(self) -> str:
        size = self.violation
        text = f"The largest gap is {size['value']:.4f}"
        if not self.n_unknown:
            return f"{text}."
        text += f" among those of known group, {size['inferred']:.4f} with the others shared out as is likely"
        if self.refusal == 1:
            return f"{text}."
        odds = "whatever the unknown groups are"
        if np.isfinite(self.refusal):
            odds = f"if their odds differ from the likely ones by a factor of at most {self.refusal:g}"
        return f"{text}, and between {size['least']:.4f} and {size['most']:.4f} {odds}."
