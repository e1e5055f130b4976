"""Compile every request into one sparse matrix D.

For A groups and m classes J[a, i, j] = P(A=a, Y=i, Ŷ=j) is the joint confusion tensor of a rule, and
P[a, i] = P(A=a, Y=i) the prior of its cells (a, i). A *rate* is ``P(hit | group set, given classes) = N_r · vec(J) /
(G_r · P)``: which (group, true, predicted) triples count as hits, over the mass of the cells it is conditioned on. A
*row* is a fixed combination of rates, bounded from below and above. So, with the constant sparse matrices C (K × R),
N (R × A·m·m), G (R × A·m) and the rows E of a user,

    D(P) = C · diag(1 / (G P)) · N + E,        value of a rule = D(P) vec(J) = C (N vec(J) / G P) + E vec(J).

P is the cell prior of the measure J was taken with: the mean of Z for a solver, label frequencies for metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints.criteria import AnyConstraint, Constraint, MinimumRate, Ratio, Rows
from optfair.constraints.events import Event, GroupSet, criterion_events, group_families, outcome_positions
from optfair.errors import brief_names

# A rate conditioned on less than this share of the population cannot be formed.
EMPTY = 1e-9
# Values this close to a bound are on it: a rate is a sum of some thousand products of numbers near one.
ROUNDING = 1e-12
TABLE_COLUMNS = ("criterion", "group", "against", "given", "outcome")


@dataclass(frozen=True)
class RowSet:
    """K named rows with their bounds; `matrix(prior)` is D for the measure with that prior.

    combination C (K, R), hits N (R, A·m·m), conditions G (R, A·m), user_rows E (K, A·m·m): see the module's equation.
    lower, upper : (K,). source : (K,) index of the constraint each row came from. is_gap : (K,) |row| is a gap.
    table : criterion, group, against, given, outcome of each row. constraints : what the rows were compiled from.
    dropped : names of rows that cannot be formed, because nobody is in their cells. tolerances : as asked for, a
    number, or one per constraint (None where it has none).
    """

    combination: sparse.csr_array
    hits: sparse.csr_array
    conditions: sparse.csr_array
    user_rows: sparse.csr_array
    lower: np.ndarray
    upper: np.ndarray
    source: np.ndarray
    is_gap: np.ndarray
    table: pd.DataFrame
    constraints: tuple[AnyConstraint, ...] = ()
    dropped: tuple[str, ...] = ()
    tolerances: float | tuple[float | None, ...] | None = None

    def __len__(self) -> int:
        return len(self.lower)

    def matrix(self, prior: np.ndarray) -> sparse.csr_array:
        """Return D(P), (K, A·m·m). Rates of cells that are empty under this prior count as zero."""
        return sparse.csr_array(self.combination @ self.rate_matrix(prior) + self.user_rows)

    def rate_matrix(self, prior: np.ndarray) -> sparse.csr_array:
        """Return diag(1 / (G P)) N, (R, A·m·m): the rates that rows combine, as functions of vec(J)."""
        return sparse.csr_array(sparse.diags_array(self.rate_weights(prior)) @ self.hits)

    def rate_weights(self, prior: np.ndarray) -> np.ndarray:
        """Return 1 / (G P), (R,), zero where that divides by nothing."""
        mass = self.conditions @ np.ravel(prior)
        return np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)

    def rates(self, confusion: np.ndarray) -> np.ndarray:
        """Return the R rates of J, NaN where a cell is empty.   confusion: (..., A, m, m) -> (..., R)"""
        flat, prior = _flat(confusion)
        mass = prior @ self.conditions.T
        rates = np.divide(flat @ self.hits.T, mass, out=np.full_like(mass, np.nan), where=mass > 0)
        return rates.reshape(*confusion.shape[:-3], -1)

    def values(self, confusion: np.ndarray) -> np.ndarray:
        """Return D(P) vec(J) with the prior of J itself.   confusion: (..., A, m, m) -> (..., K)"""
        flat, prior = _flat(confusion)
        mass = prior @ self.conditions.T
        rates = np.divide(flat @ self.hits.T, mass, out=np.zeros_like(mass), where=mass > 0)
        values = rates @ self.combination.T + flat @ self.user_rows.T
        return np.asarray(values).reshape(*confusion.shape[:-3], -1)

    def violation(self, values: np.ndarray) -> np.ndarray:
        """Return max_k |value_k| over the rows that are gaps.   (..., K) -> (...)"""
        if not self.is_gap.any():
            return np.zeros(np.shape(values)[:-1])
        return np.abs(values[..., self.is_gap]).max(axis=-1)

    def excess(self, values: np.ndarray) -> np.ndarray:
        """Return how far the worst row is outside its bounds, 0 if none is.   (..., K) -> (...)"""
        outside = self.distances(values).max(axis=-1)
        return np.where(outside <= ROUNDING, 0.0, outside)

    def distances(self, values: np.ndarray) -> np.ndarray:
        """Return how far each row is outside its bounds, negative inside.   (..., K) -> (..., K)"""
        return np.maximum(values - self.upper, self.lower - values)

    def with_tolerance(self, constraints: Sequence[AnyConstraint], tolerance: float) -> RowSet:
        """Return the rows of the same constraints with gaps of at most ``tolerance``; the others stay as they are."""
        lower = np.where(self.is_gap, -tolerance, self.lower)
        upper = np.where(self.is_gap, tolerance, self.upper)
        stated = _stated_bounds(constraints)
        return replace(self, lower=lower, upper=upper, constraints=tuple(constraints), tolerances=stated)

    @cached_property
    def names(self) -> list[str]:
        """One line of text per row."""
        return [row_name(*key) for key in self.keys]

    @cached_property
    def keys(self) -> list[tuple[Hashable, ...]]:
        """What tells the rows apart: (criterion, group, against, given, outcome)."""
        return table_keys(self.table)


def accuracy(confusion: np.ndarray) -> float:
    """Return ``P(Ŷ=Y) = Σ_a Σ_i J[a, i, i]``.   confusion: (A, m, m)"""
    return float(np.trace(confusion.sum(axis=0)))


def centre(matrix: sparse.csr_array, n_outcomes: int) -> sparse.csr_array:
    """Return D̃, D less its mean over outcomes in each cell; a row of zeros has the same value whatever the rule."""
    projection = np.eye(n_outcomes) - 1.0 / n_outcomes
    return sparse.csr_array(
        matrix @ sparse.kron(sparse.eye_array(matrix.shape[1] // n_outcomes), projection, format="csr")
    )


def fixed_rows(matrix: sparse.csr_array, n_outcomes: int) -> np.ndarray:
    """Tell which rows of D have the same value whatever the rule, (K,): those equal over the outcomes of each cell."""
    D = sparse.coo_array(matrix)
    D.sum_duplicates()
    place = D.row.astype(np.int64) * (matrix.shape[1] // n_outcomes) + D.col // n_outcomes  # row and cell
    order = np.argsort(place, kind="stable")
    place, values = place[order], D.data[order]
    if not len(place):
        return np.ones(matrix.shape[0], dtype=bool)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    largest, least = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
    has_zero = np.diff(starts, append=len(place)) < n_outcomes
    spread = np.where(has_zero, np.maximum(largest, 0.0) - np.minimum(least, 0.0), largest - least)
    out = np.ones(matrix.shape[0], dtype=bool)
    out[place[starts][spread > ROUNDING] // (matrix.shape[1] // n_outcomes)] = False
    return out


def constant_values(matrix: sparse.csr_array, prior: np.ndarray) -> np.ndarray:
    """Return D of the rules that give everybody class j, (K, m).   matrix: (K, p·m)   prior: p numbers"""
    D, m = sparse.coo_array(matrix), matrix.shape[1] // np.size(prior)
    weighted = sparse.coo_array((D.data * np.ravel(prior)[D.col // m], (D.row, D.col % m)), (matrix.shape[0], m))
    return np.asarray(weighted.toarray())


def _flat(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return tensors and their priors as rows: (n, A·m·m) and (n, A·m)."""
    groups, classes, outcomes = confusion.shape[-3:]
    flat = confusion.reshape(-1, groups * classes * outcomes)
    return flat, flat.reshape(-1, groups * classes, outcomes).sum(-1)


def table_keys(table: pd.DataFrame) -> list[tuple[Hashable, ...]]:
    """Return (criterion, group, against, given, outcome) of each line of a table."""
    return list(zip(*(table[column] for column in TABLE_COLUMNS), strict=True))


def _stated_bound(constraint: AnyConstraint) -> float | None:
    """Return the bound a constraint states: the largest of a mapping, None for rows of the user."""
    if isinstance(constraint, Constraint):
        bound = constraint.tolerance
        return max(bound.values()) if isinstance(bound, Mapping) else float(bound)
    return None if isinstance(constraint, Rows) else constraint.minimum


def _stated_bounds(constraints: Sequence[AnyConstraint]) -> float | tuple[float | None, ...] | None:
    """Return the bounds that constraints state: a number, or one per constraint."""
    bounds = tuple(_stated_bound(constraint) for constraint in constraints)
    return bounds[0] if len(bounds) == 1 else bounds


def row_name(criterion: Hashable, group: Hashable, against: Hashable, given: Hashable, outcome: Hashable) -> str:
    """Name a row in one line, e.g. ``eo: group 'F' against overall, given 'low', outcome 'high'``."""
    parts = [] if group is None else [f"group {group!r}" + ("" if against is None else f" against {against}")]
    parts += [] if given is None else [f"given {given!r}"]
    parts += [] if outcome is None else [f"outcome {outcome!r}"]
    return f"{criterion}: {', '.join(parts)}" if parts else str(criterion)


@dataclass(frozen=True)
class _Row:
    """A row in the making: terms (coefficient, rate), its names, its bounds and where it came from."""

    terms: list[tuple[float, int]]
    names: tuple[Hashable, ...]
    lower: float
    upper: float
    source: int
    is_gap: bool = False


class _Builder:
    """Collects every rate once, and rows as combinations of rates."""

    def __init__(self, groups: pd.Index, classes: pd.Index, prior: np.ndarray) -> None:
        self.groups, self.classes, self.prior = groups, classes, prior
        self.everyone = GroupSet("overall", tuple(range(len(groups))))
        self.rates: dict[tuple[tuple[int, ...], Event], int] = {}
        self.rows: list[_Row] = []
        self.user_rows: list[tuple[int, sparse.csr_array]] = []
        self.dropped: list[str] = []

    def add(
        self,
        terms: list[tuple[float, GroupSet, Event]],
        names: tuple[Hashable, ...],
        bounds: tuple[float, float],
        source: int,
        is_gap: bool = False,
    ) -> None:
        """Add a row, or drop and name it if a rate in it is conditioned on an empty cell."""
        if any(self.prior[np.ix_(group.members, event.given)].sum() <= EMPTY for _, group, event in terms):
            self.dropped.append(row_name(*names))
            return
        rates = [(c, self.rates.setdefault((group.members, event), len(self.rates))) for c, group, event in terms]
        self.rows.append(_Row(rates, names, *bounds, source, is_gap))

    def add_comparison(self, source: int, constraint: Constraint | Ratio) -> None:
        """Add rate of a group − factor · rate of the reference, for every pair and event of the criterion."""
        is_gap = isinstance(constraint, Constraint)
        label = constraint.criterion if is_gap else f"{constraint.criterion} ratio"
        factor = 1.0 if isinstance(constraint, Constraint) else constraint.minimum
        events = criterion_events(
            constraint.criterion, self.classes, outcome_positions(self.classes, constraint.outcomes)
        )
        families = group_families(self.groups, constraint.attributes)
        bounds_of = _bounds(constraint, [group.label for family in families for group in family])
        for family in families:
            if constraint.reference == "overall":
                pairs = [(a, self.everyone) for a in family]
            else:  # a gap looks the same from both sides, a ratio does not
                pairs = [(a, b) for i, a in enumerate(family) for b in family[i + 1 if is_gap else 0 :] if a != b]
            for a, b in pairs:
                bounds = bounds_of(a.label)
                if bounds is None:
                    continue
                for given, outcome, parts in events:
                    terms = [(c, a, e) for c, e in parts] + [(-factor * c, b, e) for c, e in parts]
                    self.add(terms, (label, a.label, b.label, given, outcome), bounds, source, is_gap)

    def add_minimum(self, source: int, constraint: MinimumRate) -> None:
        """Add the rate of every group, bounded from below."""
        criterion = {"recall": "eop", "selection": "dp", "accuracy": "oae"}[constraint.rate]
        events = criterion_events(criterion, self.classes, outcome_positions(self.classes, constraint.outcomes))
        families = (
            [[self.everyone]] if constraint.by == "overall" else group_families(self.groups, constraint.attributes)
        )
        for group in (group for family in families for group in family):
            for given, outcome, parts in events:
                names = (f"minimum {constraint.rate}", group.label, None, given, outcome)
                self.add([(c, group, e) for c, e in parts], names, (constraint.minimum, np.inf), source)

    def add_user_rows(self, source: int, constraint: Rows) -> None:
        """Add the rows of a user as they are."""
        width = len(self.groups) * len(self.classes) ** 2
        if constraint.D.shape[1] != width:
            raise ValueError(
                f"Rows: D has {constraint.D.shape[1]} columns; with {len(self.groups)} groups and {len(self.classes)} "
                f"classes it needs {width}."
            )
        self.user_rows.append((len(self.rows), constraint.D))
        for name, lower, upper in zip(constraint.names or (), constraint.lower, constraint.upper, strict=True):
            self.rows.append(_Row([], (name, None, None, None, None), lower, upper, source))

    def _columns(self, members: tuple[int, ...], *indices: Sequence[int]) -> np.ndarray:
        """Return where a tensor (A, m, ...) holds the members of a group and (true, ...) indices, as flat positions."""
        m = len(self.classes)
        flat = np.asarray(members)[:, None] * np.ones(len(indices[0]), dtype=int)
        for index in indices:
            flat = flat * m + np.asarray(index)
        return np.asarray(flat.ravel())

    def finish(self, constraints: Sequence[AnyConstraint]) -> RowSet:
        """Return the rows added so far."""
        K, R, A, m = len(self.rows), len(self.rates), len(self.groups), len(self.classes)
        if K == 0 and self.dropped:
            raise ValueError(
                f"criterion: none of its rows can be formed, their cells are empty: {self.dropped[0]}, ..."
            )
        if K == 0:
            raise ValueError("reference='pairwise': needs at least two groups to compare; there is one.")
        hits = [self._columns(members, *zip(*event.hits, strict=True)) for members, event in self.rates]
        conditions = [self._columns(members, event.given) for members, event in self.rates]
        user_rows = sparse.lil_array((K, A * m * m))
        for start, matrix in self.user_rows:
            user_rows[start : start + matrix.shape[0]] = matrix
        return RowSet(
            combination=_from_entries(
                [len(row.terms) for row in self.rows],
                [r for row in self.rows for _, r in row.terms],
                (K, R),
                [c for row in self.rows for c, _ in row.terms],
            ),
            hits=_from_entries([len(place) for place in hits], _joined(hits), (R, A * m * m)),
            conditions=_from_entries([len(place) for place in conditions], _joined(conditions), (R, A * m)),
            user_rows=sparse.csr_array(user_rows),
            lower=np.array([row.lower for row in self.rows], float),
            upper=np.array([row.upper for row in self.rows], float),
            source=np.array([row.source for row in self.rows], int),
            is_gap=np.array([row.is_gap for row in self.rows], bool),
            table=object_frame(TABLE_COLUMNS, [row.names for row in self.rows]),
            constraints=tuple(constraints),
            dropped=tuple(self.dropped),
            tolerances=_stated_bounds(constraints),
        )


def _bounds(constraint: Constraint | Ratio, names: list[Hashable]) -> Callable[[Hashable], tuple[float, float] | None]:
    """Return the function that gives the bounds of a group's rows, None where it has none."""
    if isinstance(constraint, Ratio):
        return lambda group: (0.0, np.inf)
    tolerance = constraint.tolerance
    if not isinstance(tolerance, Mapping):
        return lambda group: (-tolerance, tolerance)
    unknown = [group for group in tolerance if group not in names]
    if unknown:
        raise ValueError(f"tolerance: {unknown[0]!r} is not a group; they are [{brief_names(names)}].")
    return lambda group: (-tolerance[group], tolerance[group]) if group in tolerance else None


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) else np.zeros(0, dtype=int)


def _from_entries(
    counts: Sequence[int], columns: Any, shape: tuple[int, int], values: Sequence[float] | None = None
) -> sparse.csr_array:
    """Return a sparse matrix with so many entries in each row; repeated places add up. values : ones by default."""
    rows = np.repeat(np.arange(shape[0]), np.asarray(counts, dtype=int))
    data = np.ones(len(rows)) if values is None else np.array(values, dtype=float)
    return sparse.csr_array(sparse.coo_array((data, (rows, np.asarray(columns, dtype=int))), shape))


def object_frame(columns: Sequence[str], rows: Sequence[tuple[Hashable, ...]]) -> pd.DataFrame:
    """Return a frame whose cells keep their Python type (tuples, ints and None included)."""
    frame = {}
    for position, column in enumerate(columns):
        cells = np.empty(len(rows), dtype=object)
        for k, row in enumerate(rows):
            cells[k] = row[position]
        frame[column] = pd.Series(cells, dtype=object)
    return pd.DataFrame(frame)


def compile_rows(
    constraints: Sequence[AnyConstraint], groups: pd.Index, classes: pd.Index, prior: np.ndarray
) -> RowSet:
    """Compile constraints into rows.   prior: (A, m), decides which rows can be formed"""
    builder = _Builder(groups, classes, np.asarray(prior, float))
    for source, constraint in enumerate(constraints):
        if isinstance(constraint, Rows):
            builder.add_user_rows(source, constraint)
        elif isinstance(constraint, MinimumRate):
            builder.add_minimum(source, constraint)
        elif isinstance(constraint, (Constraint, Ratio)):
            builder.add_comparison(source, constraint)
        else:
            raise ValueError(f"criterion: {type(constraint).__name__} cannot be compiled into rows.")
    return builder.finish(constraints)
