"""Hold why people got their answers: a line per person, the terms that decided, and sentences for a letter."""

from __future__ import annotations

import html
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.naming import name_text
from optfair.constraints.rows import TABLE_COLUMNS, object_frame, table_keys
from optfair.rule.sentences import Setting, person_sentences, row_namer

SHOWN = 5  # people that `print` shows
SHOWN_TERMS = 8  # terms that `print` shows of a single person
SHOWN_HTML = 20  # people in a notebook
HTML_COLUMNS = {"plain": "without constraints", "answer": "answer", "probability": "probability"}


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why people got their answers; `FairRule.explain` and `OptFairPost.explain` return it.

    A difference of scores is exactly the sum of what the model itself prefers and one part for every constraint row:
    ``margin = preference + constraints``, and ``constraints`` is the sum of the person's ``terms``. Scores are in units
    of probability, or of the range of the costs. ``len`` is the number of people; ``explanation[3]`` and
    ``explanation[2:5]`` are the explanations of these people; ``print`` it.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per person, in order: model (the answer of the model itself; not of a bare rule), plain (the best
        answer without constraints), answer, its probability, against (the class it is compared with: the plain answer
        where that is another, else the runner-up), margin (score of the answer minus score of against), preference and
        constraints (its two parts), undecided, draw (the person's number of a hashed decision, NaN where none was
        needed) with the interval from draw_low up to draw_high that gives this answer, and tolerance_other and
        answer_other (the nearest tolerance looked at that gives another answer, and that answer).
    parts : ndarray of shape (n, n_rows)
        What each constraint row adds to the margin of each person.
    rows : pandas.DataFrame
        criterion, group, against, given and outcome of these rows.
    setting : Setting
        What the sentences have in common.
    notes : tuple of str
        What is to be said once.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import solve
    >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
    >>> rule = solve(Z, "dp", 0.01, groups=["A", "B"], classes=["low", "mid", "high"], random_state=0)
    >>> explanation = rule.explain(Z)
    >>> len(explanation)
    500
    >>> table = explanation.table
    >>> bool(np.allclose(table["margin"], table["preference"] + table["constraints"], atol=1e-9))
    True
    """

    table: pd.DataFrame
    parts: np.ndarray
    rows: pd.DataFrame
    setting: Setting
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int | slice) -> Explanation:
        if isinstance(index, slice):
            return replace(self, table=self.table.iloc[index], parts=self.parts[index])
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise TypeError(f"explanation[{index!r}]: give the position of a person, or a slice.")
        if not -len(self) <= index < len(self):
            raise IndexError(f"explanation[{index}]: there are {len(self)} people, from 0 on.")
        position = int(index) % len(self)
        return self[position : position + 1]

    # -- terms ---------------------------------------------------------------------------------------------
    @cached_property
    def terms(self) -> pd.DataFrame:
        """One line per person and constraint row: its names, part of the margin, share of Σ|part|; largest first."""
        return _tidy(self.table.index, self.parts, self.rows)

    @cached_property
    def totals(self) -> pd.DataFrame:
        """The terms summed by criterion, group and against, over true classes and outcomes; largest first."""
        columns = TABLE_COLUMNS[:3]
        positions: dict[tuple[Hashable, ...], int] = {}
        codes = [positions.setdefault(key[:3], len(positions)) for key in table_keys(self.rows)]
        sums = np.zeros((len(self), len(positions)))
        np.add.at(sums.T, codes, self.parts.T)
        return _tidy(self.table.index, sums, object_frame(columns, list(positions)))

    # -- words ---------------------------------------------------------------------------------------------
    @cached_property
    def sentences(self) -> list[str]:
        """A few sentences about each person, fit for a letter."""
        words = self.row_words()
        people = self.table.itertuples(index=False)
        return [
            person_sentences(person, parts, words.__getitem__, self.setting)
            for person, parts in zip(people, self.parts, strict=True)
        ]

    def row_words(self) -> list[str]:
        """Return what each of the rows is, in words.

        Returns
        -------
        list of str
            One text per line of ``rows``.

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> rule = solve(Z, "dp", 0.01, groups=["A", "B"], classes=["low", "mid", "high"], random_state=0)
        >>> rule.explain(Z[:2]).row_words()[0]
        'the rate of “low” among “B” against everybody (demographic parity)'
        """
        namer = row_namer(self.setting.groups)
        return [namer(key) for key in table_keys(self.rows)]

    def __str__(self) -> str:
        n, first = len(self), self[:SHOWN]
        n_changes = int((self.table["answer"] != self.table["plain"]).sum())
        n_undecided = int(self.table["undecided"].sum())
        lines = []
        if n != 1:
            changes = f"{n_changes:,} with another answer than without constraints"
            lines.append(f"{n:,} people: {changes}, {n_undecided:,} undecided")
        lines += [
            f"  {person}: {text}" for person, text in zip(first.table.index.tolist(), first.sentences, strict=True)
        ]
        if n > SHOWN:
            lines.append(f"  and {n - SHOWN:,} more: see .table, .terms, .sentences, and [i] for the terms of one")
        if n == 1:
            lines += self._terms_text()
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return f"<Explanation of {len(self):,} people; print it, or see .table, .terms, .totals and .sentences>"

    def _terms_text(self) -> list[str]:
        """Return the margin of one person, term by term."""
        person, words, parts = next(self.table.itertuples()), self.row_words(), self.parts[0]
        order = [k for k in np.argsort(-np.abs(parts), kind="stable").tolist() if parts[k] != 0]
        lines = [f"“{name_text(person.answer)}” minus “{name_text(person.against)}”: {person.margin:+.4f}"]
        lines.append(f"  {person.preference:+.4f}  without constraints")
        lines += [f"  {parts[k]:+.4f}  {words[k]}" for k in order[:SHOWN_TERMS]]
        if len(order) > SHOWN_TERMS:
            lines.append(f"  {parts[order[SHOWN_TERMS:]].sum():+.4f}  {len(order) - SHOWN_TERMS} further constraints")
        return lines

    def _repr_html_(self) -> str:
        first = self[:SHOWN_HTML]
        head = ["person", *HTML_COLUMNS.values(), "in words"]
        lines = []
        for position, person, text in zip(
            first.table.index.tolist(), first.table.itertuples(index=False), first.sentences, strict=True
        ):
            lines.append(
                [position, name_text(person.plain), name_text(person.answer), f"{person.probability:.3f}", text]
            )
        body = "".join(f"<tr>{_cells(line, 'td')}</tr>" for line in lines)
        rest = f"<p>and {len(self) - SHOWN_HTML:,} more</p>" if len(self) > SHOWN_HTML else ""
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{_cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>{rest}{notes}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as what JSON can hold: one entry per person, with the sentences and all terms.

        Returns
        -------
        dict
            Keys "notes" and "people".

        Examples
        --------
        >>> import numpy as np
        >>> from optfair import solve
        >>> Z = np.random.default_rng(0).dirichlet(np.ones(6), 500).reshape(-1, 2, 3)
        >>> people = solve(Z, "dp", 0.01, random_state=0).explain(Z[:2]).to_dict()["people"]
        >>> people[0]["answer"] == people[0]["plain"]
        True
        """
        people = []
        columns, terms = self.table.columns, dict(iter(self.terms.groupby("person")))
        for position, line in zip(self.table.index.tolist(), self.table.itertuples(index=False), strict=True):
            person = {"person": position} | {name: json_value(value) for name, value in zip(columns, line, strict=True)}
            mine = terms.get(position, self.terms.iloc[:0]).drop(columns="person")
            person["terms"] = [
                {name: json_value(value) for name, value in zip(mine.columns, term, strict=True)}
                for term in mine.itertuples(index=False)
            ]
            people.append(person)
        for person, text in zip(people, self.sentences, strict=True):
            person["sentences"] = text
        return {"notes": list(self.notes), "people": people}


def json_value(value: Any) -> Any:
    """Return a name or number as JSON has it: groups of several attributes as text, no number as None."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return name_text(value)


def _cells(values: Sequence[Any], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values)


def _tidy(people: pd.Index, parts: np.ndarray, names: pd.DataFrame) -> pd.DataFrame:
    """Return person, names, part and share of the parts that are not zero, the largest first.   parts: (n, K)"""
    person, row = np.nonzero(parts)
    values = parts[person, row]
    order = np.lexsort((-np.abs(values), person))
    person, row, values = person[order], row[order], values[order]
    sizes = np.bincount(person, np.abs(values), minlength=len(parts))
    table = names.iloc[row].reset_index(drop=True)
    table.insert(0, "person", people.to_numpy()[person])
    return table.assign(part=values, share=np.abs(values) / sizes[person])
