"""Report what a rule reaches, what it costs, and what it does to people, in words, tables and pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from optfair.constraints import AnyConstraint
from optfair.reporting.answers import class_answers
from optfair.reporting.document import make_document
from optfair.reporting.evidence import price_table
from optfair.reporting.facts import Facts, Reportable, RuleMetrics
from optfair.reporting.findings import Finding
from optfair.reporting.markdown import markdown_text
from optfair.reporting.page import notebook_html, page_html
from optfair.reporting.text import plain_text
from optfair.reporting.verdict import Verdict
from optfair.rule.promise import Promise
from optfair.utils.files import write_atomically


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What was asked for, what was reached, and at what price; ``print`` it, send it, or take its parts.

    `optfair.audit`, `optfair.compare` and the method ``report`` of classifiers make it. Text, page, Markdown and JSON
    are written from one document of numbers, `to_dict`.

    Attributes
    ----------
    facts : Facts
        What the report is made of.

    Examples
    --------
    >>> from optfair import OptFairPost
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, random_state=0)
    >>> model = OptFairPost(random_state=0).fit(data.X, data.y, sensitive_features=data.sensitive_features)
    >>> [metrics.name for metrics in model.report().measured]
    ['unconstrained, joint', 'recalibrated', 'fair rule']
    """

    facts: Facts

    # -- parts -----------------------------------------------------------------------------------------------
    @property
    def title(self) -> str:
        """What was fitted, or measured on whom."""
        return self.facts.title

    @property
    def rule(self) -> Reportable | None:
        """The rule with certificate and multipliers, or what training ended in; None for an audit."""
        return self.facts.rule

    @property
    def request(self) -> Sequence[AnyConstraint]:
        """What was asked for."""
        return self.facts.constraints

    @property
    def measured(self) -> tuple[RuleMetrics, ...]:
        """The rules, each with its accuracy, its violation and the counts of its predictions."""
        return self.facts.measured

    @property
    def constraints(self) -> pd.DataFrame | None:
        """One line per row asked for, by the rule that is judged: value, bounds, people, intervals, state, reason."""
        subject = self.facts.judged
        return None if subject is None or subject.rows is None else subject.rows.table

    @property
    def prices(self) -> pd.DataFrame:
        """Criterion, group, against, price: accuracy gained per unit of tolerance, of a group or a pair of groups."""
        return price_table(None if self.rule is None else self.rule.multipliers)

    @property
    def small(self) -> pd.DataFrame:
        """Comparisons that cannot be told because of too few people, the fewest first; n is of the smaller side."""
        return self.facts.small

    @property
    def answers(self) -> pd.DataFrame:
        """Rule, class, people, share, recall: P(Y=j), P(Ŷ=j) and P(Ŷ=j | Y=j) of each rule and class j."""
        return class_answers({m.name: m.counts for m in self.measured if m.counts.labelled})

    @property
    def promise(self) -> Promise | None:
        """What is promised to new people: by the people given, who were not fitted on, else as it was in fitting."""
        return self.facts.check or self.facts.promise

    @property
    def n_people(self) -> int:
        """The number of people measured on, each of whom may have several rows."""
        return self.facts.n_people

    @property
    def n_unknown(self) -> int:
        """The number of further people whose group is unknown; what is measured with labels is not of them."""
        return self.facts.n_unknown

    @cached_property
    def _document(self) -> tuple[dict[str, Any], Verdict | None, list[Finding]]:
        return make_document(self.facts)

    @property
    def verdict(self) -> Verdict | None:
        """Whether what was asked for is kept: surely within, surely beyond, or it cannot be told."""
        return self._document[1]

    @property
    def findings(self) -> list[Finding]:
        """What a reader should know, problems first; docs/guide/findings.md explains the codes."""
        return list(self._document[2])

    # -- forms -----------------------------------------------------------------------------------------------
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
        return plain_text(self._document[0])


def _text_or_file(text: str, path: str | Path | None) -> str | None:
    if path is None:
        return text
    write_atomically(Path(path), text.encode("utf-8"))
    return None
