"""Ask questions of labelled data that were counted once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import RowSet
from optfair.errors import warn_empty
from optfair.metrics.addition import add_counts, counts_document, read_counts
from optfair.metrics.bounds import ViolationBound, largest_bound
from optfair.metrics.counts import ConfusionCounts, count_rows, object_column
from optfair.metrics.gaps import gap_rows, gap_table, largest_gap, rate_table
from optfair.metrics.intervals import ViolationInterval, fair_quantile, simultaneous_interval


@dataclass(frozen=True, eq=False, repr=False)
class GroupConfusion(ConfusionCounts):
    """Who was predicted what: the joint confusion tensor of labelled data, ready for questions.

    `optfair.metrics.group_confusion` makes it. Its methods answer without reading the rows again.

    Attributes
    ----------
    tensor : ndarray of shape (n_groups, n_classes, n_classes)
        ``tensor[a, i, j]`` is the share of people of group a and true class i predicted as j; sums to 1.
    groups : pandas.Index
        Names of the groups.
    classes : pandas.Index
        Names of the classes.
    n_people : ndarray of shape (n_groups, n_classes)
        Rows of positive weight per group and true class.
    hard : bool
        Whether predictions are unweighted labels, whose counts are multinomial.
    second_moment : ndarray of shape (n_groups, n_classes, n_classes) or (n_groups, n_classes, n_classes, n_classes)
        Second moments of the predictions: a diagonal for labels, matrices for probabilities.
    equal_weights : bool
        Whether every row weighs the same and is another person.
    labelled : bool
        Whether true classes are known; if not, everybody is counted under the first.
    n_clusters : int or None
        Number of people, where some have several rows.

    Examples
    --------
    >>> from optfair.metrics import group_confusion
    >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
    >>> confusion.violation("dp")
    0.25
    """

    def __repr__(self) -> str:
        A, m = self.n_people.shape
        kind = "labels" if self.second_moment.ndim == 3 else "probabilities"
        people = int(self.n_people.sum())
        return f"<GroupConfusion of {people} people, {A} groups, {m} classes, by {kind}; see .to_frame()>"

    def to_frame(self) -> pd.DataFrame:
        """Return the tensor as a table.

        Returns
        -------
        pandas.DataFrame
            One line per cell: group, given (true class), outcome (predicted class), share, n.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> len(confusion.to_frame())
        8
        """
        A, m = self.n_people.shape
        group, given, outcome = (x.ravel() for x in np.indices((A, m, m)))
        return pd.DataFrame(
            {
                "group": object_column(self.groups, group),
                "given": object_column(self.classes, given),
                "outcome": object_column(self.classes, outcome),
                "share": self.tensor.ravel(),
                "n": np.repeat(self.n_people.ravel(), m),
            }
        )

    def __add__(self, other: object) -> GroupConfusion:
        """Return the counts of both, of people who are not the same; see `update`."""
        if not isinstance(other, GroupConfusion):
            return NotImplemented
        return _as_confusion(add_counts(self, other))

    def __radd__(self, other: object) -> GroupConfusion:
        """Let ``sum`` add several counts: it starts at 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def update(
        self, y_true: Any, prediction: Any, *, sensitive_features: Any, missing: str = "error"
    ) -> GroupConfusion:
        """Return these counts and those of further people: months, sites, or parts of a file larger than memory.

        Counts of labels are those of counting everybody at once, bit by bit. Two counts are added by ``+``; groups and
        classes are found by their names, in any order, as long as one of the two knows all of them.

        Parameters
        ----------
        y_true : array-like of shape (n,) or None
            True classes of people not counted so far; None if those counted have none either.
        prediction : array-like of shape (n,) or (n, n_classes)
            Predicted classes, or probabilities with columns in the order of ``classes``.
        sensitive_features : array-like of shape (n,) or (n, n_attributes)
            Group of each row, one of ``groups``.
        missing : {"error", "group", "drop"}, default "error"
            What rows without a group are; see `group_confusion`.

        Returns
        -------
        GroupConfusion
            The counts of all of them; this one stays as it is.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> january = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> january.update([0, 1], [1, 1], sensitive_features=["B", "A"])
        <GroupConfusion of 6 people, 2 groups, 2 classes, by labels; see .to_frame()>
        >>> (january + january).violation("dp")
        0.25
        """
        names = {"classes": self.classes, "groups": self.groups}
        return self + group_confusion(
            y_true, prediction, sensitive_features=sensitive_features, missing=missing, **names
        )

    def to_json(self) -> str:
        """Write the counts as text, without a row of anybody.

        Returns
        -------
        str
            A JSON document; names keep their type, and no digit is lost.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> confusion.to_json()[:28]
        '{"format": "optfair counts",'
        """
        return counts_document(self)

    @classmethod
    def from_json(cls, text: str) -> GroupConfusion:
        """Read counts that `to_json` has written; what is not sound is refused, and nothing is executed.

        Parameters
        ----------
        text : str
            The JSON document.

        Returns
        -------
        GroupConfusion
            The same counts.

        Examples
        --------
        >>> from optfair.metrics import GroupConfusion, group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> GroupConfusion.from_json(confusion.to_json()).violation("dp")
        0.25
        """
        return _as_confusion(read_counts(text))

    def violation(self, criterion: Any = "dp", **question: Any) -> float:
        """Measure the largest gap between a group's rate and the reference.

        Parameters
        ----------
        criterion : str, Constraint, or list of these, default "dp"
            What is compared; see `optfair.metrics.violation`.
        **question
            ``reference``, ``outcomes``, ``attributes`` as in `optfair.metrics.violation`.

        Returns
        -------
        float
            ``max_k |D_k|``.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> confusion.violation("eop", outcomes=[1])
        0.5
        """
        return largest_gap(self, self._rows(criterion, question))

    def gaps(self, criterion: Any = "dp", **question: Any) -> pd.DataFrame:
        """Return every gap with the people behind it and its standard error.

        Parameters
        ----------
        criterion : str, Constraint, or list of these, default "dp"
            What is compared; see `optfair.metrics.violation`.
        **question
            ``reference``, ``outcomes``, ``attributes`` as in `optfair.metrics.violation`.

        Returns
        -------
        pandas.DataFrame
            One line per row of D; see `optfair.metrics.gaps`.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> confusion.gaps("oae")["value"].tolist()
        [0.25, -0.25]
        """
        return gap_table(self, self._rows(criterion, question))

    def group_rates(self) -> pd.DataFrame:
        """Return selection rates, class-conditional rates and accuracy of every group.

        Returns
        -------
        pandas.DataFrame
            See `optfair.metrics.group_rates`.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
        >>> rates = confusion.group_rates()
        >>> rates[rates["rate"] == "accuracy"]["value"].tolist()
        [1.0, 0.5, 0.75]
        """
        table, empty = rate_table(self)
        warn_empty(empty)
        return table

    def noise_floor(self, criterion: Any = "dp", **question: Any) -> float:
        """Return the violation that a perfectly fair rule would show by chance.

        Parameters
        ----------
        criterion : str, Constraint, or list of these, default "dp"
            What is compared; see `optfair.metrics.violation`.
        **question
            ``reference``, ``outcomes``, ``attributes``, and ``level``, ``n_replicates``, ``random_state`` as in
            `optfair.metrics.noise_floor`.

        Returns
        -------
        float
            The quantile at ``level`` of the violation of a fair rule.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> 0 < confusion.noise_floor("dp") < 1
        True
        """
        rows, replicates = self._split(criterion, question)
        return fair_quantile(self, rows, **replicates)

    def violation_interval(self, criterion: Any = "dp", **question: Any) -> ViolationInterval:
        """Return a confidence interval of the violation.

        Parameters
        ----------
        criterion : str, Constraint, or list of these, default "dp"
            What is compared; see `optfair.metrics.violation`.
        **question
            ``reference``, ``outcomes``, ``attributes``, and ``level``, ``n_replicates``, ``random_state`` as in
            `optfair.metrics.violation_interval`.

        Returns
        -------
        ViolationInterval
            The interval, the noise floor, and simultaneous intervals of all gaps.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> confusion.violation_interval("dp").lower
        0.0
        """
        rows, replicates = self._split(criterion, question)
        return simultaneous_interval(self, rows, **replicates)

    def violation_bound(self, criterion: Any = "dp", *, level: float = 0.95, **question: Any) -> ViolationBound:
        """Bound the violation in the population, for a rule that was not fitted on these people.

        Parameters
        ----------
        criterion : str, Constraint, or list of these, default "dp"
            What is compared; see `optfair.metrics.violation`.
        level : float, default 0.95
            Probability of the bound.
        **question
            ``reference``, ``outcomes``, ``attributes`` as in `optfair.metrics.violation`.

        Returns
        -------
        ViolationBound
            The bound, and one-sided limits of every gap.

        Examples
        --------
        >>> from optfair.metrics import group_confusion
        >>> confusion = group_confusion([0, 1] * 50, [0, 0, 1, 1] * 25, sensitive_features=["A"] * 30 + ["B"] * 70)
        >>> confusion.violation_bound("dp").bound < confusion.violation_interval("dp").upper
        True
        """
        return largest_bound(self, self._rows(criterion, question), level)

    def _rows(self, criterion: Any, question: dict[str, Any]) -> RowSet:
        """Return the rows of a question; those nobody is in are named in a warning."""
        rows = gap_rows(self, criterion, **question)
        warn_empty(rows.dropped)
        return rows

    def _split(self, criterion: Any, question: dict[str, Any]) -> tuple[RowSet, dict[str, Any]]:
        """Return (the rows of a question, its arguments that speak of replicates)."""
        names = ("level", "n_replicates", "random_state")
        replicates = {name: question[name] for name in names if name in question}
        return self._rows(criterion, {k: v for k, v in question.items() if k not in names}), replicates


def group_confusion(
    y_true: Any,
    prediction: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    groups: Iterable[Hashable] | None = None,
    missing: str = "error",
    cluster: Any = None,
) -> GroupConfusion:
    """Count labelled data once, for all questions about it.

    Parameters
    ----------
    y_true : array-like of shape (n,) or None
        True classes; None where they are unknown, which is enough for questions about "dp" and selection rates.
    prediction : array-like of shape (n,) or (n, n_classes)
        Predicted classes, or probabilities of a randomised rule with columns in the order of ``classes``.
    sensitive_features : array-like of shape (n,) or (n, n_attributes)
        Group of each row; several columns make intersections.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights of the rows.
    classes : sequence of class labels, optional
        Order of the classes; sorted by default, for labels those of ``y_true`` and ``prediction`` together.
    groups : sequence of group names, optional
        Order of the groups; may hold groups that have no rows here.
    missing : {"error", "group", "drop"}, default "error"
        What rows without a group are: an error, a group of their own, named "(missing)", or left out with a warning.
    cluster : array-like of shape (n,), optional
        The person of each row, where some have several. All uncertainty then is as if the rows of a person were one,
        with their weights together: never too little, however alike they are.

    Returns
    -------
    GroupConfusion
        The confusion tensor of each group, with what its uncertainty needs.

    Examples
    --------
    >>> from optfair.metrics import group_confusion
    >>> confusion = group_confusion([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"])
    >>> confusion.tensor.sum(axis=(1, 2)).tolist()
    [0.5, 0.5]
    """
    counts = count_rows(y_true, prediction, sensitive_features, sample_weight, classes, groups, missing, cluster)
    return _as_confusion(counts)


def _as_confusion(counts: ConfusionCounts) -> GroupConfusion:
    return GroupConfusion(**{field.name: getattr(counts, field.name) for field in fields(counts)})
