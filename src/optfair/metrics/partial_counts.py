"""Count labelled rows of which some miss their group, or one of several attributes.

Rows are counted by *kind*: the first A kinds are the groups; every other kind is the rows that miss the same attributes
and agree in the others, a single kind where there is one attribute. T[s, i, j] is the share of kind s and true class i
that is predicted as j. Bounds that hold whatever the unknown groups are need nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import brief_names, brief_repr
from optfair.inputs.alignment import check_same_rows
from optfair.inputs.clusters import encode_clusters
from optfair.inputs.labels import PartialGroups, check_weights, encode_partial_groups
from optfair.metrics.counts import ConfusionCounts, count_codes, read_labelled_rows
from optfair.utils.checks import ROW_SUM_SLACK, as_numbers


@dataclass(frozen=True, eq=False)
class UnknownRows:
    """Rows of unknown group with the probabilities of their groups: personal data, never written out.

    kind, true : (u,) codes. prediction : (u,) codes or (u, m) probabilities. weight : (u,). probabilities : (u, A),
    zero for groups that do not fit what is known of a row.
    """

    kind: np.ndarray
    true: np.ndarray
    prediction: np.ndarray
    weight: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True, eq=False)
class PartialCounts:
    """Labelled rows, counted by kind.

    kinds : counts of the S kinds in place of groups. groups : names of the A groups, the first kinds.
    attributes : (S, L) codes of the attributes of each kind, −1 where one is missing. unknown : (m, m) people who miss
    an attribute, by true class and answer. n_strangers : rows that fit no group, with an attribute that nobody of known
    group has. rows : of unknown group, where group probabilities were given, or None.
    """

    kinds: ConfusionCounts
    groups: pd.Index
    attributes: np.ndarray
    unknown: np.ndarray
    n_strangers: int = 0
    rows: UnknownRows | None = None

    @property
    def n_people(self) -> int:
        """The number of rows of positive weight."""
        return int(self.kinds.n_people.sum())

    @property
    def n_unknown(self) -> int:
        """The number of those that miss an attribute."""
        return int(self.kinds.n_people[len(self.groups) :].sum())

    @property
    def compatible(self) -> np.ndarray:
        """Which groups fit what is known of each kind, (S, A); only groups of positive weight."""
        A = len(self.groups)
        return _fitting(self.attributes, self.attributes[:A]) & (self.kinds.n_people[:A].sum(axis=1) > 0)


def count_partial_rows(
    y_true: Any,
    prediction: Any,
    sensitive_features: Any,
    sample_weight: Any = None,
    classes: Iterable[Hashable] | None = None,
    group_probabilities: Any = None,
    cluster: Any = None,
) -> PartialCounts:
    """Read and count rows, some without their group; see `optfair.metrics.unknown_group_bounds`."""
    n = check_same_rows(
        y_true=y_true,
        prediction=prediction,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        group_probabilities=group_probabilities,
        cluster=cluster,
    )
    partial = encode_partial_groups(sensitive_features, n)
    weight, people = check_weights(sample_weight, n), encode_clusters(cluster, n)
    rows = read_labelled_rows(y_true, prediction, classes)
    P = None if group_probabilities is None else _check_probabilities(group_probabilities, partial)
    positions = np.arange(n) if weight is None else np.flatnonzero(weight)
    if not (partial.codes[positions] >= 0).any():
        raise ValueError("sample_weight: is zero for everybody whose group is known; at least some must count.")
    kind, attributes, n_strangers = _find_kinds(partial, positions)
    w = None if weight is None else weight[positions]
    people = None if people is None else people[positions]
    true, h = rows.true[positions], rows.prediction[positions]
    names = pd.RangeIndex(len(attributes))
    kinds = replace(count_codes(kind, true, h, w, names, rows.classes, people), labelled=rows.labelled)
    unknown = kind >= len(partial.names)
    cells = _people_by_cell(true[unknown], h[unknown], kinds)
    counts = PartialCounts(kinds, partial.names, attributes, cells, n_strangers)
    if P is None:
        return counts
    P = _fitting_probabilities(P[positions[unknown]], counts.compatible[kind[unknown]], positions[unknown])
    w = np.ones(len(kind)) if w is None else w
    return replace(counts, rows=UnknownRows(kind[unknown], true[unknown], h[unknown], w[unknown], P))


def add_unknown(counts: ConfusionCounts, unknown: Any) -> PartialCounts:
    """Return counts of people of known group together with numbers of others, (m, m) by true class and answer.

    The others miss every attribute; counts must be of unweighted labels. Without true classes the numbers are (m,).
    """
    if not counts.hard:
        raise ValueError("counts: are of weights or probabilities; numbers of people are added to unweighted labels.")
    m, numbers = len(counts.classes), as_numbers(unknown)
    shape = (m, m) if counts.labelled else (m,)
    if numbers is None or numbers.shape != shape or (numbers < 0).any() or (numbers != np.rint(numbers)).any():
        axes = "true class and answer" if counts.labelled else "answer"
        raise ValueError(f"unknown={brief_repr(unknown)}: must be whole numbers of people by {axes}, of shape {shape}.")
    if not counts.labelled:  # everybody is counted under the first class
        numbers = np.vstack([numbers, np.zeros((m - 1, m))])
    people = np.concatenate([np.rint(counts.tensor * counts.n_people.sum()), numbers[None]])
    total, n_people = people.sum(), people.sum(axis=2).astype(int)
    names = pd.RangeIndex(len(people))
    kinds = replace(counts, tensor=people / total, groups=names, n_people=n_people, second_moment=people / total**2)
    levels = [counts.groups.get_level_values(level) for level in range(counts.groups.nlevels)]
    attributes = np.column_stack([np.append(pd.factorize(values)[0], -1) for values in levels])
    return PartialCounts(kinds, counts.groups, attributes, numbers)


# -- kinds ---------------------------------------------------------------------------------------------------
def _find_kinds(partial: PartialGroups, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the kind of the rows at some positions, the attributes of each kind, (S, L), and who fits no group."""
    A, complete = len(partial.names), partial.codes >= 0
    attributes = np.empty((A, partial.attributes.shape[1]), dtype=np.intp)
    attributes[partial.codes[complete]] = partial.attributes[complete]
    kind = partial.codes[positions]
    incomplete = kind < 0
    present = np.unique(kind[~incomplete])
    patterns, codes = np.unique(partial.attributes[positions[incomplete]], axis=0, return_inverse=True)
    # Whoever fits no group that occurs says nothing about those that do: every one of them stays possible.
    is_strange = np.asarray(~_fitting(patterns, attributes[present]).any(axis=1))
    patterns[is_strange] = -1
    patterns, merged = np.unique(patterns, axis=0, return_inverse=True)
    kind[incomplete] = A + merged.ravel()[codes.ravel()]
    return kind, np.vstack([attributes, patterns]), int(is_strange[codes.ravel()].sum())


def _people_by_cell(true: np.ndarray, prediction: np.ndarray, kinds: ConfusionCounts) -> np.ndarray:
    """Return the number of rows by true class and answer, (m, m)."""
    m = len(kinds.classes)
    people = np.zeros((m, m))
    np.add.at(people, true, np.eye(m)[prediction] if prediction.ndim == 1 else prediction)
    return people


def _fitting(attributes: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Tell which groups (A, L) fit which attributes (S, L), of which some are missing: (S, A)."""
    return np.asarray(((attributes[:, None] == -1) | (attributes[:, None] == groups)).all(axis=2))


# -- probabilities of groups ---------------------------------------------------------------------------------
def _check_probabilities(values: Any, partial: PartialGroups) -> np.ndarray:
    """Return the probabilities of the groups, (n, A); those of rows of known group may be NaN."""
    name, groups, A = "group_probabilities", partial.names, len(partial.names)
    P = as_numbers(values)
    if P is None or P.ndim != 2 or P.shape[1] != A:
        shape = "not numbers" if P is None else f"of shape {P.shape}"
        raise ValueError(
            f"{name}: are {shape}; must be numbers, with a column for each of the {A} groups, "
            f"[{brief_names(groups.tolist())}]."
        )
    columns = getattr(values, "columns", None)
    if isinstance(columns, pd.Index) and not columns.equals(pd.RangeIndex(A)) and list(columns) != list(groups):
        raise ValueError(
            f"{name}: its columns are [{brief_names(columns.tolist())}]; must be the groups in their order, "
            f"[{brief_names(groups.tolist())}]."
        )
    total = P.sum(axis=1)
    is_sound = (np.abs(total - 1) <= ROW_SUM_SLACK) & (P >= 0).all(axis=1)  # not of NaN
    bad = np.flatnonzero(~is_sound & (partial.codes < 0))
    if len(bad):
        raise ValueError(
            f"{name}: {len(bad)} rows of unknown group do not hold probabilities (row {bad[0]} sums to "
            f"{total[bad[0]]:.4g}); they must be at least 0 and sum to 1."
        )
    return P


def _fitting_probabilities(P: np.ndarray, fits: np.ndarray, unknown: np.ndarray) -> np.ndarray:
    """Return the probabilities given what is known of each row.   P, fits: (u, A)"""
    P = np.where(fits, P, 0.0)
    total = P.sum(axis=1)
    if (total <= 0).any():
        row = int(unknown[np.argmin(total)])
        raise ValueError(
            f"group_probabilities: row {row} rules out every group that fits what is known of the person; give one of "
            "them a probability above 0."
        )
    return np.asarray(P / total[:, None])
