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

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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
        mass = self.conditions @ np.ravel(prior)
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
        return sparse.csr_array(self.combination @ sparse.diags_array(inverse) @ self.hits + self.user_rows)

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

    def finish(self, constraints: Sequence[AnyConstraint]) -> RowSet:
        """Return the rows added so far."""
        tolerances = tuple(_stated_bound(constraint) for constraint in constraints)
        K, R, A, m = len(self.rows), len(self.rates), len(self.groups), len(self.classes)
        if K == 0 and self.dropped:
            raise ValueError(
                f"criterion: none of its rows can be formed, their cells are empty: {self.dropped[0]}, ..."
            )
        if K == 0:
            raise ValueError("reference='pairwise': needs at least two groups to compare; there is one.")
        rates = self.rates.items()
        user_rows = sparse.lil_array((K, A * m * m))
        for start, matrix in self.user_rows:
            user_rows[start : start + matrix.shape[0]] = matrix
        return RowSet(
            combination=_coo(((k, r, c) for k, row in enumerate(self.rows) for c, r in row.terms), (K, R)),
            hits=_coo(
                (
                    (r, (a * m + i) * m + j, 1.0)
                    for (members, event), r in rates
                    for a in members
                    for i, j in event.hits
                ),
                (R, A * m * m),
            ),
            conditions=_coo(
                ((r, a * m + i, 1.0) for (groups, event), r in rates for a in groups for i in event.given),
                (R, A * m),
            ),
            user_rows=sparse.csr_array(user_rows),
            lower=np.array([row.lower for row in self.rows], float),
            upper=np.array([row.upper for row in self.rows], float),
            source=np.array([row.source for row in self.rows], int),
            is_gap=np.array([row.is_gap for row in self.rows], bool),
            table=object_frame(TABLE_COLUMNS, [row.names for row in self.rows]),
            constraints=tuple(constraints),
            dropped=tuple(self.dropped),
            tolerances=tolerances[0] if len(tolerances) == 1 else tolerances,
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


def _coo(entries: Iterable[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    """Return a sparse matrix from (row, column, value); repeated places add up."""
    triples = list(entries)
    rows, columns, values = zip(*triples, strict=True) if triples else ((), (), ())
    return sparse.csr_array(
        sparse.coo_array((np.array(values, float), (np.array(rows, int), np.array(columns, int))), shape)
    )


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
