"""One sparse matrix for every request.

A *rate* is ``P(hit | group set, given classes) = N_r · vec(J) / (G_r · P)``: which (group, true, predicted) cells
count as hits, over the mass of the (group, true) cells it is conditioned on. A *row* is a fixed combination of
rates. So, with the constant sparse matrices C (K × R), N (R × A·m·m), G (R × A·m) and a user's own rows E,

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

from optfair.constraints.comparisons import Event, GroupSet, criterion_events, group_families, outcome_positions
from optfair.constraints.criteria import AnyConstraint, Constraint, MinimumRate, Ratio, Rows

# A rate conditioned on less than this share of the population cannot be formed.
EMPTY = 1e-9
ROUNDING = 1e-12
TABLE_COLUMNS = ("criterion", "group", "against", "given", "outcome")


@dataclass(frozen=True)
class RowSet:
    """K named rows with their bounds; `matrix(prior)` is D for the measure with that prior.

    combination (K, R), hits (R, A·m·m), conditions (R, A·m), own (K, A·m·m): see the module's equation.
    lower, upper : (K,). source : (K,) index of the constraint each row came from. is_gap : (K,) |row| is a gap.
    table : criterion, group, against, given, outcome of each row. dropped : names of rows that cannot be formed.
    """

    combination: sparse.csr_array
    hits: sparse.csr_array
    conditions: sparse.csr_array
    own: sparse.csr_array
    lower: np.ndarray
    upper: np.ndarray
    source: np.ndarray
    is_gap: np.ndarray
    table: pd.DataFrame
    dropped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lower)

    def matrix(self, prior: np.ndarray) -> sparse.csr_array:
        """D(P), (K, A·m·m). Rates of cells that are empty under this prior count as zero."""
        mass = self.conditions @ np.ravel(prior)
        inverse = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
        return sparse.csr_array(self.combination @ sparse.diags_array(inverse) @ self.hits + self.own)

    def rates(self, confusion: np.ndarray) -> np.ndarray:
        """The R rates of J, NaN where a cell is empty.   confusion: (..., A, m, m) -> (..., R)"""
        flat, prior = _flat(confusion)
        mass = prior @ self.conditions.T
        rates = np.divide(flat @ self.hits.T, mass, out=np.full_like(mass, np.nan), where=mass > 0)
        return rates.reshape(*confusion.shape[:-3], -1)

    def values(self, confusion: np.ndarray) -> np.ndarray:
        """D(P) vec(J) with the prior of J itself.   confusion: (..., A, m, m) -> (..., K)"""
        flat, prior = _flat(confusion)
        mass = prior @ self.conditions.T
        rates = np.divide(flat @ self.hits.T, mass, out=np.zeros_like(mass), where=mass > 0)
        values = rates @ self.combination.T + flat @ self.own.T
        return np.asarray(values).reshape(*confusion.shape[:-3], -1)

    def violation(self, values: np.ndarray) -> np.ndarray:
        """max_k |value_k| over the rows that are gaps.   (..., K) -> (...)"""
        if not self.is_gap.any():
            return np.zeros(np.shape(values)[:-1])
        return np.abs(values[..., self.is_gap]).max(axis=-1)

    def distances(self, values: np.ndarray) -> np.ndarray:
        """How far each row is outside its bounds, negative inside.   (..., K) -> (..., K)"""
        return np.maximum(values - self.upper, self.lower - values)

    def excess(self, values: np.ndarray) -> np.ndarray:
        """How far the worst row is outside its bounds, 0 if none is.   (..., K) -> (...)"""
        outside = self.distances(values).max(axis=-1)
        return np.where(outside <= ROUNDING, 0.0, outside)

    @cached_property
    def names(self) -> list[str]:
        return [row_name(*row) for row in self.table[list(TABLE_COLUMNS)].itertuples(index=False, name=None)]


def _flat(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tensors and their priors as rows: (n, A·m·m) and (n, A·m)."""
    groups, classes, outcomes = confusion.shape[-3:]
    flat = confusion.reshape(-1, groups * classes * outcomes)
    return flat, flat.reshape(-1, groups * classes, outcomes).sum(-1)


def row_name(criterion: Hashable, group: Hashable, against: Hashable, given: Hashable, outcome: Hashable) -> str:
    """One line that names a row, e.g. ``eo: group 'F' against overall, given 'low', outcome 'high'``."""
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
        self.everyone: GroupSet = ("overall", tuple(range(len(groups))))
        self.rates: dict[tuple[tuple[int, ...], Event], int] = {}
        self.rows: list[_Row] = []
        self.own: list[tuple[int, sparse.csr_array]] = []
        self.dropped: list[str] = []

    def add(
        self,
        terms: list[tuple[float, GroupSet, Event]],
        names: tuple[Hashable, ...],
        bounds: tuple[float, float],
        source: int,
        is_gap: bool = False,
    ) -> None:
        """One row; dropped and named if a rate in it is conditioned on nobody."""
        if any(self.prior[np.ix_(cells, event[0])].sum() <= EMPTY for _, (_, cells), event in terms):
            self.dropped.append(row_name(*names))
            return
        rates = [(c, self.rates.setdefault((cells, event), len(self.rates))) for c, (_, cells), event in terms]
        self.rows.append(_Row(rates, names, *bounds, source, is_gap))

    def add_comparison(self, source: int, wish: Constraint | Ratio) -> None:
        """rate of a group − factor · rate of the reference, for every pair and event of the criterion."""
        is_gap = isinstance(wish, Constraint)
        label = wish.criterion if is_gap else f"{wish.criterion} ratio"
        factor = 1.0 if isinstance(wish, Constraint) else wish.minimum
        events = criterion_events(wish.criterion, self.classes, outcome_positions(self.classes, wish.outcomes))
        families = group_families(self.groups, wish.attributes)
        bounds_of = _bounds(wish, [label for family in families for label, _ in family])
        for family in families:
            if wish.reference == "overall":
                pairs = [(a, self.everyone) for a in family]
            else:  # a gap looks the same from both sides, a ratio does not
                pairs = [(a, b) for i, a in enumerate(family) for b in family[i + 1 if is_gap else 0 :] if a != b]
            for a, b in pairs:
                bounds = bounds_of(a[0])
                if bounds is None:
                    continue
                for given, outcome, parts in events:
                    terms = [(c, a, e) for c, e in parts] + [(-factor * c, b, e) for c, e in parts]
                    self.add(terms, (label, a[0], b[0], given, outcome), bounds, source, is_gap)

    def add_minimum(self, source: int, wish: MinimumRate) -> None:
        criterion = {"recall": "eop", "selection": "dp", "accuracy": "oae"}[wish.rate]
        events = criterion_events(criterion, self.classes, outcome_positions(self.classes, wish.outcomes))
        families = [[self.everyone]] if wish.by == "overall" else group_families(self.groups, wish.attributes)
        for group in (group for family in families for group in family):
            for given, outcome, parts in events:
                names = (f"minimum {wish.rate}", group[0], None, given, outcome)
                self.add([(c, group, e) for c, e in parts], names, (wish.minimum, np.inf), source)

    def add_own(self, source: int, wish: Rows) -> None:
        width = len(self.groups) * len(self.classes) ** 2
        if wish.D.shape[1] != width:
            raise ValueError(
                f"Rows: D has {wish.D.shape[1]} columns; with {len(self.groups)} groups and {len(self.classes)} "
                f"classes it needs {width}."
            )
        self.own.append((len(self.rows), wish.D))
        for name, lower, upper in zip(wish.names or (), wish.lower, wish.upper, strict=True):
            self.rows.append(_Row([], (name, None, None, None, None), lower, upper, source))

    def finish(self) -> RowSet:
        K, R, A, m = len(self.rows), len(self.rates), len(self.groups), len(self.classes)
        if K == 0 and self.dropped:
            raise ValueError(
                f"criterion: none of its rows can be formed, their cells are empty: {self.dropped[0]}, ..."
            )
        if K == 0:
            raise ValueError("reference='pairwise': needs at least two groups to compare; there is one.")
        rates = self.rates.items()
        own = sparse.lil_array((K, A * m * m))
        for start, matrix in self.own:
            own[start : start + matrix.shape[0]] = matrix
        return RowSet(
            combination=_coo(((k, r, c) for k, row in enumerate(self.rows) for c, r in row.terms), (K, R)),
            hits=_coo(
                ((r, (a * m + i) * m + j, 1.0) for (cells, (_, hits)), r in rates for a in cells for i, j in hits),
                (R, A * m * m),
            ),
            conditions=_coo(
                ((r, a * m + i, 1.0) for (cells, (given, _)), r in rates for a in cells for i in given), (R, A * m)
            ),
            own=sparse.csr_array(own),
            lower=np.array([row.lower for row in self.rows], float),
            upper=np.array([row.upper for row in self.rows], float),
            source=np.array([row.source for row in self.rows], int),
            is_gap=np.array([row.is_gap for row in self.rows], bool),
            table=object_frame(TABLE_COLUMNS, [row.names for row in self.rows]),
            dropped=tuple(self.dropped),
        )


def _bounds(wish: Constraint | Ratio, known: list[Hashable]) -> Callable[[Hashable], tuple[float, float] | None]:
    """The bounds of a group's rows; None where it has none."""
    if isinstance(wish, Ratio):
        return lambda group: (0.0, np.inf)
    tolerance = wish.tolerance
    if not isinstance(tolerance, Mapping):
        return lambda group: (-tolerance, tolerance)
    unknown = [group for group in tolerance if group not in known]
    if unknown:
        raise ValueError(f"tolerance: {unknown[0]!r} is not a group; they are {known!r}.")
    return lambda group: (-tolerance[group], tolerance[group]) if group in tolerance else None


def _coo(entries: Iterable[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    """A sparse matrix from (row, column, value); repeated places add up."""
    triples = list(entries)
    rows, columns, values = zip(*triples, strict=True) if triples else ((), (), ())
    return sparse.csr_array(
        sparse.coo_array((np.array(values, float), (np.array(rows, int), np.array(columns, int))), shape)
    )


def object_frame(columns: Sequence[str], rows: Sequence[tuple[Hashable, ...]]) -> pd.DataFrame:
    """A frame whose cells keep their Python type (tuples, ints and None included)."""
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
    """Rows, bounds and names of a list of constraints.   prior: (A, m), decides which rows can be formed"""
    builder = _Builder(groups, classes, np.asarray(prior, float))
    for source, wish in enumerate(constraints):
        if isinstance(wish, Rows):
            builder.add_own(source, wish)
        elif isinstance(wish, MinimumRate):
            builder.add_minimum(source, wish)
        else:
            builder.add_comparison(source, wish)
    return builder.finish()
