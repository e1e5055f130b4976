"""Watch a rule over time, from counts alone: `Monitor`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Rows, as_constraints
from optfair.errors import MonitorFileError, brief_names, brief_repr
from optfair.inputs.alignment import check_same_rows
from optfair.inputs.labels import MISSING_CHOICES, encode_classes, encode_groups, name_index
from optfair.metrics.counts import read_prediction
from optfair.monitoring.looks import EXCEEDS, WITHIN, change_table, gap_table, make_questions, needs_labels
from optfair.monitoring.report import MonitorReport
from optfair.monitoring.state import Period, State, Watched, check_period_name, read_state, write_state
from optfair.utils.checks import check_choice, check_number


class Monitor:
    """Watch the gaps between groups as people come by and by: look as often as you like.

    It keeps counts by period, never rows of people. Limits hold at all times at once, so that a look every day costs
    nothing, and nothing is assumed of how rates change, or of the rule, which may be replaced: what is bounded is the
    gap among the people who came, averaged over them. Rows are people, each counted once and with the same weight; a
    person with several rows, or a weighted sample, is for an audit (`optfair.metrics.violation_bound`).

    Parameters
    ----------
    criterion : str, Constraint, Ratio, MinimumRate, or list of these, default "dp"
        What is watched; a mapping goes from names to tolerances. Only "dp" and rates of selection need no labels.
    tolerance : float or mapping from group to float, default 0.01
        Bound on every gap of criteria given by name.
    confidence : float, default 0.95
        Probability that no flag of all looks is wrong, and, by itself, that no certificate and that no change is.
    classes : sequence of class labels, optional
        All classes; those of the first period by default.
    groups : sequence of group names or pandas.MultiIndex, optional
        All groups; those of the first period by default.
    reference : {"overall", "pairwise"}, optional
        What a group's rate is compared with.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of.
    attributes : str or sequence of attribute names, optional
        Which groups of several attributes are meant; see `optfair.Constraint`.
    missing : {"error", "group"}, default "error"
        Whether a missing group is an error or a group of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import Monitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor("dp", tolerance=0.05, groups=["A", "B"], classes=["no", "yes"])
    >>> for month, gap in [("2026-01", 0.0), ("2026-02", 0.3)]:
    ...     group = rng.choice(["A", "B"], 3000)
    ...     answer = np.where(rng.random(3000) < 0.3 + gap * (group == "A"), "yes", "no")
    ...     report = monitor.update(None, answer, sensitive_features=group, period=month).check()
    ...     print(month, report.flagged, report.certified)
    2026-01 False True
    2026-02 True False
    """

    def __init__(
        self,
        criterion: Any = "dp",
        tolerance: float | Mapping[Hashable, float] | None = None,
        confidence: float = 0.95,
        *,
        classes: Iterable[Hashable] | None = None,
        groups: Iterable[Hashable] | None = None,
        reference: str | None = None,
        outcomes: Sequence[Hashable] | None = None,
        attributes: str | Sequence[Hashable] | None = None,
        missing: str = "error",
    ) -> None:
        constraints: list[Watched] = []
        for constraint in as_constraints(criterion, tolerance, reference, outcomes, attributes):
            if isinstance(constraint, Rows):
                raise ValueError(
                    "criterion: Rows are no rates of people, whose limits hold at all times; watch a Constraint, Ratio "
                    "or MinimumRate."
                )
            constraints.append(constraint)
        self._set_state(
            State(
                constraints=tuple(constraints),
                confidence=check_number("confidence", confidence, "(0, 1)", ", e.g. 0.95"),
                missing=check_choice("missing", missing, MISSING_CHOICES),
                groups=None if groups is None else name_index(groups, "groups"),
                classes=None if classes is None else name_index(classes, "classes"),
            )
        )

    def __repr__(self) -> str:
        n = int(sum(period.people.sum() for period in self._state.periods))
        return f"<Monitor of {n} people in {len(self._state.periods)} periods; see .check()>"

    def _set_state(self, state: State) -> None:
        """Take a state, if its names fit its constraints."""
        if state.groups is not None and state.classes is not None:
            make_questions(state)
        self._state = state

    # -- what it knows -------------------------------------------------------------------------------------
    @property
    def constraints(self) -> list[Watched]:
        """What is watched."""
        return list(self._state.constraints)

    @property
    def confidence(self) -> float:
        """The level of flags, of certificates and of changes, each by itself."""
        return self._state.confidence

    @property
    def missing(self) -> str:
        """What a missing group is: an error, or a group of its own."""
        return self._state.missing

    @property
    def groups(self) -> pd.Index | None:
        """Names of the groups; None before the first period, unless they were given."""
        return self._state.groups

    @property
    def classes(self) -> pd.Index | None:
        """Names of the classes; None before the first period, unless they were given."""
        return self._state.classes

    @property
    def periods(self) -> pd.DataFrame:
        """One line per period: its name, people, those of them with labels, and whether looks count it."""
        state = self._state
        return pd.DataFrame(
            {
                "period": state.names,
                "people": [int(period.people.sum()) for period in state.periods],
                "labelled": [0 if period.cells is None else int(period.cells.sum()) for period in state.periods],
                "counted": [place >= state.start for place in range(len(state.periods))],
            }
        )

    # -- people come ---------------------------------------------------------------------------------------
    def update(
        self,
        y_true: Any,
        prediction: Any,
        *,
        sensitive_features: Any,
        period: str | None = None,
        plain: Any = None,
    ) -> Monitor:
        """Count the people of a period.

        Parameters
        ----------
        y_true : array-like of shape (n,) or None
            True classes; None where they are unknown. They may be counted later: give the people of the period whose
            labels have come, with their predictions, under the name of the period again.
        prediction : array-like of shape (n,) or (n, n_classes)
            What people were answered; or the probabilities of a randomised rule, in the order of the classes.
        sensitive_features : array-like of shape (n,) or (n, n_attributes)
            Group of each row.
        period : str, optional
            Name of the period, such as "2026-01"; its number by default. Nobody is counted twice under one name.
        plain : array-like of shape (n,) or (n, n_classes), optional
            What the model itself says, without constraints: its predictions, or P(Y | X).

        Returns
        -------
        Monitor
            The monitor itself.

        Examples
        --------
        >>> from optfair import Monitor
        >>> monitor = Monitor("eo", 0.1)
        >>> monitor.update([0, 1, 1, 0], [0, 1, 0, 0], sensitive_features=["A", "A", "B", "B"], period="2026-01")
        <Monitor of 4 people in 1 periods; see .check()>
        """
        state = self._state
        name = check_period_name(self._next_name() if period is None else period)
        n = check_same_rows(y_true=y_true, prediction=prediction, sensitive_features=sensitive_features, plain=plain)
        group, groups = self._group_codes(sensitive_features, n)
        answers, true, classes = self._class_codes(y_true, prediction)
        says = None if plain is None else _one_hot(*_fixed_classes(plain, classes, "plain"), len(classes))
        A, m = len(groups), len(classes)
        count = Period(name, np.bincount(group, minlength=A).astype(float), _sums(group, answers, A))
        if says is not None:
            count = replace(count, plain=says.sum(axis=0))
        if true is not None:
            cell = group * m + true
            cells = np.bincount(cell, minlength=A * m).reshape(A, m).astype(float)
            count = replace(count, cells=cells, confusion=_sums(cell, answers, A * m).reshape(A, m, m))
        state = replace(state, groups=groups, classes=classes)
        self._set_state(state.with_period(self._complete(count)))
        return self

    def _next_name(self) -> str:
        """Return the number of the next period, above those in use: only a name that is given completes a period."""
        names = {period.name for period in self._state.periods}
        return next(name for k in itertools.count(len(names) + 1) if (name := str(k)) not in names)

    def _complete(self, count: Period) -> Period:
        """Return a period that is counted for the first time, or the one counted before with the labels it lacked."""
        former = next((period for period in self._state.periods if period.name == count.name), None)
        if former is None:
            return count
        if former.cells is not None or count.cells is None:
            raise ValueError(
                f"period={count.name!r}: is counted already; give other people another name, such as "
                f"{count.name + ' b'!r}."
            )
        if (count.people > former.people).any():
            raise ValueError(
                f"period={count.name!r}: labels came for {int(count.people.sum())} people, more than the "
                f"{int(former.people.sum())} counted in some group; give labels of the same people, or another name."
            )
        return replace(former, cells=count.cells, confusion=count.confusion)

    def _group_codes(self, sensitive_features: Any, n: int) -> tuple[np.ndarray, pd.Index]:
        state = self._state
        if isinstance(sensitive_features, pd.DataFrame) and isinstance(state.groups, pd.MultiIndex):
            columns, attributes = list(sensitive_features.columns), list(state.groups.names)
            if set(columns) != set(attributes):
                raise ValueError(
                    f"sensitive_features: has the columns [{brief_names(columns)}], but the groups of this monitor are "
                    f"of [{brief_names(attributes)}]; rename them."
                )
            sensitive_features = sensitive_features[attributes]
        codes, names = encode_groups(sensitive_features, n, missing=state.missing)
        if state.groups is None:
            return codes, names
        if names.nlevels != state.groups.nlevels:
            raise ValueError(
                f"sensitive_features: has {names.nlevels} columns, but the groups of this monitor are of "
                f"{state.groups.nlevels}; give as many."
            )
        return _recode(codes, names, state.groups, "sensitive_features", "groups"), state.groups

    def _class_codes(self, y_true: Any, prediction: Any) -> tuple[np.ndarray, np.ndarray | None, pd.Index]:
        """Return the answers as probabilities (n, m), true classes or None, and the classes."""
        classes = self._state.classes
        if classes is None:
            classes = _first_classes(y_true, prediction)
        answers = _one_hot(*_fixed_classes(prediction, classes, "prediction"), len(classes))
        if y_true is None:
            return answers, None, classes
        true, _ = _fixed_classes(y_true, classes, "y_true")
        return answers, true, classes

    def reset(self) -> Monitor:
        """Begin anew with the next period: looks count from there, and it is the reference of changes.

        For a rule that was replaced, or a case that was settled. Levels are those of all looks until the next reset.

        Returns
        -------
        Monitor
            The monitor itself; earlier periods stay in ``periods``.

        Examples
        --------
        >>> from optfair import Monitor
        >>> monitor = Monitor("dp", 0.1).update(None, [0, 1], sensitive_features=["A", "B"])
        >>> monitor.reset().update(None, [0, 1], sensitive_features=["A", "B"]).check().n_people
        2
        """
        self._set_state(replace(self._state, start=len(self._state.periods)))
        return self

    # -- looks ---------------------------------------------------------------------------------------------
    def check(self, *, since: str | None = None, reference: str | Sequence[str] | None = None) -> MonitorReport:
        """Look: is some gap surely outside its bounds, are all surely within, what has changed.

        Flags are looked for among the people of all periods since the last reset, and of the last 1, 2, 4, ... periods,
        so that a change after a long quiet time is seen soon. The certificate is about all of them, averaged.

        Parameters
        ----------
        since : str, optional
            Look at the people since this period only. Levels are split over all starts, whichever is chosen, for the
            certificate too.
        reference : str or sequence of str, optional
            The period or periods with which later ones are compared; the first one since the last reset by default.

        Returns
        -------
        MonitorReport
            What was found; ``print`` it.

        Examples
        --------
        >>> from optfair import Monitor
        >>> monitor = Monitor("dp", 0.1).update(None, [0, 1], sensitive_features=["A", "B"], period="January")
        >>> print(monitor.check())
        2 people, 0 of them with labels, in January
        OPEN: 4 of 4 gaps may be within their bounds or not; least sure: dp: group 'A' against overall, ...
        No change can be seen before people come after the reference.
        """
        state = self._state
        periods = state.periods[state.start :]
        if not periods:
            raise ValueError("check: nobody is counted since the last reset; update first.")
        first = None if since is None else self._places([since], "since")[0] - state.start
        if first is not None and first < 0:
            raise ValueError(f"since={since!r}: is before the last reset; name a period since.")
        table = gap_table(state, first)
        places = [state.start] if reference is None else self._places(_as_list(reference), "reference")
        later = list(state.periods[max(places) + 1 :])
        changes = change_table(state, [state.periods[place] for place in places], later)
        counted = periods if first is None else periods[first:]
        flagged = bool((table["verdict"] == EXCEEDS).any())
        return MonitorReport(
            flagged=flagged,
            certified=not flagged and bool((table["verdict"] == WITHIN).all()),
            confidence=state.confidence,
            table=table,
            changes=changes,
            n_people=int(sum(period.people.sum() for period in counted)),
            n_labelled=int(sum(period.cells.sum() for period in counted if period.cells is not None)),
            periods=[period.name for period in counted],
        )

    def _places(self, names: Sequence[str], argument: str) -> list[int]:
        periods = self._state.names
        for name in names:
            if name not in periods:
                raise ValueError(
                    f"{argument}={brief_repr(name)}: there is no such period; there are [{brief_names(periods)}]."
                )
        return [periods.index(name) for name in names]

    @property
    def needs_labels(self) -> bool:
        """Whether some constraint speaks of true classes."""
        return any(needs_labels(constraint) for constraint in self._state.constraints)

    # -- files ---------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a JSON file, completely or not at all; no row of anybody is in it.

        Parameters
        ----------
        path : str or path
            The file.

        Examples
        --------
        >>> import os, tempfile
        >>> from optfair import Monitor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Monitor("dp", 0.1).save(os.path.join(folder, "state.json"))
        ...     os.listdir(folder)
        ['state.json']
        """
        write_state(Path(path), self._state)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Monitor:
        """Read a file written by `save`; what is not sound is refused, and nothing is executed.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Monitor
            The same monitor.

        Examples
        --------
        >>> import os, tempfile
        >>> from optfair import Monitor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Monitor("dp", 0.1).save(os.path.join(folder, "state.json"))
        ...     Monitor.load(os.path.join(folder, "state.json"))
        <Monitor of 0 people in 0 periods; see .check()>
        """
        monitor, file = cls.__new__(cls), Path(path)
        state = read_state(file)
        try:
            monitor._set_state(state)
        except ValueError as error:  # constraints of other groups or classes
            raise MonitorFileError(f"{file.name}: its content was altered or damaged ({error})") from None
        return monitor


def _first_classes(y_true: Any, prediction: Any) -> pd.Index:
    """Return the classes of the first period, sorted."""
    if np.ndim(prediction) == 2:
        raise ValueError("classes: missing; name the classes that the columns of prediction stand for.")
    labels = [encode_classes(prediction, name="prediction")[1]]
    labels += [] if y_true is None else [encode_classes(y_true)[1]]
    names = list(dict.fromkeys(name for index in labels for name in index))
    try:
        return pd.Index(sorted(names), tupleize_cols=False)
    except TypeError:
        raise ValueError(
            "prediction: its labels are of another type than those of y_true; use the same labels, or give classes=."
        ) from None


def _fixed_classes(values: Any, classes: pd.Index, argument: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return (codes, None) of labels or (codes, probabilities), with respect to these classes."""
    if np.ndim(values) == 2 and argument != "y_true":
        codes, probabilities, _ = read_prediction(values, classes, fixed=True)
        return codes, probabilities
    codes, names = encode_classes(values, name=argument)
    return _recode(codes, names, classes, argument, "classes"), None


def _recode(codes: np.ndarray, names: pd.Index, index: pd.Index, argument: str, kind: str) -> np.ndarray:
    """Return the codes of the same rows with respect to the groups or classes of the monitor."""
    place = {name: position for position, name in enumerate(index)}
    strangers = [name for name in names if name not in place]
    if strangers:
        raise ValueError(
            f"{argument}: {brief_repr(strangers[0])} is not among the {kind} of this monitor, "
            f"[{brief_names(index.tolist())}]; rename it, or begin a new Monitor whose {kind}= name it from the first "
            "period on."
        )
    return np.array([place[name] for name in names], dtype=np.intp)[codes]


def _one_hot(codes: np.ndarray, probabilities: np.ndarray | None, m: int) -> np.ndarray:
    return np.eye(m)[codes] if probabilities is None else probabilities


def _sums(cell: np.ndarray, h: np.ndarray, n_cells: int) -> np.ndarray:
    """Return Σ h of each cell, (n_cells, m)."""
    return np.stack([np.bincount(cell, column, n_cells) for column in h.T], axis=1)


def _as_list(names: str | Sequence[str]) -> list[str]:
    if isinstance(names, str):
        return [names]
    if not names:
        raise ValueError("reference: the list is empty; name at least one period.")
    return list(names)
