"""One sparse matrix for every request.

A *rate* is ``P(hit | group set, given classes) = N_r · vec(J) / (G_r · P)``: which (group, true, predicted) cells
count as hits, over the mass of the (group, true) cells it is conditioned on. A *row* is a fixed combination of
rates. So, with the constant sparse matrices C (K × R), N (R × A·m·m), G (R × A·m) and a user's own rows E,

    D(P) = C · diag(1 / (G P)) · N + E,        value of a rule = D(P) vec(J) = C (N vec(J) / G P) + E vec(J).

P is the cell prior of the measure J was taken with: the mean of Z for a solver, label frequencies for metrics.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from optfair.constraints.criteria import AnyConstraint, Constraint, MinimumRate, Ratio, Rows

# A rate conditioned on less than this share of the population cannot be formed.
EMPTY = 1e-9
TABLE_COLUMNS = ("criterion", "group", "against", "given", "outcome")
Event = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]  # (given true classes, (true, predicted) hits)


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
        return np.divide(flat @ self.hits.T, mass, out=np.full_like(mass, np.nan), where=mass > 0)

    def values(self, confusion: np.ndarray) -> np.ndarray:
        """D(P) vec(J) with the prior of J itself.   confusion: (..., A, m, m) -> (..., K)"""
        flat, prior = _flat(confusion)
        mass = prior @ self.conditions.T
        rates = np.divide(flat @ self.hits.T, mass, out=np.zeros_like(mass), where=mass > 0)
        return rates @ self.combination.T + flat @ self.own.T

    def violation(self, values: np.ndarray) -> np.ndarray:
        """max_k |value_k| over the rows that are gaps.   (..., K) -> (...)"""
        if not self.is_gap.any():
            return np.zeros(np.shape(values)[:-1])
        return np.abs(values[..., self.is_gap]).max(axis=-1)

    def excess(self, values: np.ndarray) -> np.ndarray:
        """How far the worst row is outside its bounds, 0 if none is.   (..., K) -> (...)"""
        return np.maximum(np.maximum(values - self.upper, self.lower - values).max(axis=-1), 0.0)

    @cached_property
    def names(self) -> list[str]:
        return [row_name(*row) for row in self.table[list(TABLE_COLUMNS)].itertuples(index=False, name=None)]

    def keys(self) -> list[tuple[Any, ...]]:
        """What identifies each row from one solve to another."""
        return list(zip(self.source.tolist(), *(self.table[c] for c in TABLE_COLUMNS), strict=True))


def _flat(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    *lead, groups, classes, outcomes = confusion.shape
    return confusion.reshape(*lead, groups * classes * outcomes), confusion.sum(-1).reshape(*lead, groups * classes)


def row_name(criterion: str, group: Hashable, against: Hashable, given: Hashable, outcome: Hashable) -> str:
    """One line that names a row, e.g. ``eo: group 'F' against overall, given 'low', outcome 'high'``."""
    parts = [] if group is None else [f"group {group!r}" + ("" if against is None else f" against {against}")]
    parts += [] if given is None else [f"given {given!r}"]
    parts += [] if outcome is None else [f"outcome {outcome!r}"]
    return f"{criterion}: {', '.join(parts)}" if parts else criterion


class _Builder:
    """Collects rates once and rows as combinations of them."""

    def __init__(self, groups: pd.Index, classes: pd.Index, prior: np.ndarray) -> None:
        self.groups, self.classes, self.prior = groups, classes, prior
        self.everyone = tuple(range(len(groups)))
        self.rate_index: dict[tuple[tuple[int, ...], Event], int] = {}
        self.rows: list[dict[str, Any]] = []
        self.own: list[tuple[int, sparse.csr_array]] = []
        self.dropped: list[str] = []

    # -- names ---------------------------------------------------------------------------------------------
    def group_sets(self, attributes: str | Sequence[Hashable]) -> list[list[tuple[Hashable, tuple[int, ...]]]]:
        """Families of (label, cells): groups are compared with each other within a family."""
        cells = [(label, (a,)) for a, label in enumerate(self.groups)]
        if not isinstance(self.groups, pd.MultiIndex):
            if attributes != "intersections":
                raise ValueError(f"attributes={attributes!r}: needs groups= as a pandas MultiIndex of several attributes.")
            return [cells]
        levels = list(self.groups.names)
        if isinstance(attributes, str) and attributes in ("intersections", "marginals", "both"):
            chosen = [] if attributes == "intersections" else list(range(len(levels)))
        elif isinstance(attributes, Iterable) and not isinstance(attributes, str):
            unknown = [name for name in attributes if name not in levels]
            if unknown:
                raise ValueError(f"attributes={list(attributes)!r}: {unknown[0]!r} is not an attribute; they are {levels!r}.")
            chosen = [levels.index(name) for name in attributes]
        else:
            raise ValueError(
                f"attributes={attributes!r}: must be 'intersections', 'marginals', 'both' or a list of attribute names."
            )
        families = [cells] if attributes in ("intersections", "both") else []
        for level in chosen:
            values = self.groups.get_level_values(level)
            family = []
            for value in values.unique():
                label = tuple(value if i == level else "*" for i in range(len(levels)))
                family.append((label, tuple(np.flatnonzero(values == value).tolist())))
            families.append(family)
        return families

    def outcomes(self, chosen: Sequence[Hashable] | None) -> list[int]:
        if chosen is None:
            return list(range(len(self.classes)))
        if isinstance(chosen, (str, bytes)) or not isinstance(chosen, Iterable):
            raise ValueError(f"outcomes={chosen!r}: must be a list of classes, e.g. [{chosen!r}].")
        chosen = list(chosen)
        unknown = [c for c in chosen if c not in self.classes]
        if unknown or not chosen:
            what = f"{unknown[0]!r} is not a class" if unknown else "the list is empty"
            raise ValueError(f"outcomes={chosen!r}: {what}; the classes are {self.classes.tolist()!r}.")
        return [int(self.classes.get_loc(c)) for c in chosen]

    def events(self, criterion: str, outcomes: list[int]) -> list[tuple[Hashable, Hashable, list[tuple[float, Event]]]]:
        """(given label, outcome label, [(coefficient, event), ...]) for each comparison a criterion makes."""
        every = tuple(range(len(self.classes)))
        name = self.classes.tolist()

        def hit(given: Iterable[int], j: int) -> Event:
            given = tuple(given)
            return given, tuple((i, j) for i in given)

        if criterion == "dp":
            return [(None, name[j], [(1.0, hit(every, j))]) for j in outcomes]
        if criterion == "eop":
            return [(name[j], name[j], [(1.0, hit((j,), j))]) for j in outcomes]
        if criterion == "eo":
            return [(name[i], name[j], [(1.0, hit((i,), j))]) for i in every for j in outcomes]
        if criterion == "oae":
            return [(None, None, [(1.0, (every, tuple((i, i) for i in every)))])]
        return [
            (label, name[j], [(0.5, hit((j,), j)), (sign * 0.5, hit((i for i in every if i != j), j))])
            for j in outcomes
            for label, sign in (("TPR+FPR", 1.0), ("TPR-FPR", -1.0))
        ]

    # -- rows ----------------------------------------------------------------------------------------------
    def rate(self, cells: tuple[int, ...], event: Event) -> int:
        return self.rate_index.setdefault((cells, event), len(self.rate_index))

    def mass(self, cells: tuple[int, ...], event: Event) -> float:
        return float(self.prior[np.ix_(cells, event[0])].sum())

    def add(
        self, terms: list[tuple[float, tuple[int, ...], Event]], source: int, names: tuple[Hashable, ...],
        lower: float, upper: float, is_gap: bool,
    ) -> None:  # fmt: skip
        if any(self.mass(cells, event) <= EMPTY for _, cells, event in terms):
            self.dropped.append(row_name(*names))  # type: ignore[arg-type]
            return
        rates = [(coefficient, self.rate(cells, event)) for coefficient, cells, event in terms]
        self.rows.append(
            {"terms": rates, "source": source, "names": names, "lower": lower, "upper": upper, "is_gap": is_gap}
        )

    def add_constraint(self, source: int, wish: Constraint | Ratio) -> None:
        is_ratio = isinstance(wish, Ratio)
        label = f"{wish.criterion} ratio" if is_ratio else wish.criterion
        families = self.group_sets(wish.attributes)
        if isinstance(wish, Constraint) and isinstance(wish.tolerance, dict):
            known = [group for family in families for group, _ in family]
            unknown = [group for group in wish.tolerance if group not in known]
            if unknown:
                raise ValueError(f"tolerance: {unknown[0]!r} is not a group; they are {known!r}.")
        for family in families:
            if wish.reference == "overall":
                pairs = [(a, ("overall", self.everyone)) for a in family]
            elif is_ratio:
                pairs = [(a, b) for a in family for b in family if a != b]
            else:
                pairs = [(a, b) for i, a in enumerate(family) for b in family[i + 1 :]]
            for (group, cells), (against, other) in pairs:
                for given, outcome, events in self.events(wish.criterion, self.outcomes(wish.outcomes)):
                    if isinstance(wish, Ratio):
                        factor, lower, upper = wish.minimum, 0.0, np.inf
                    else:
                        factor = 1.0
                        bound = wish.tolerance
                        upper = bound.get(group, np.inf) if isinstance(bound, dict) else float(bound)  # type: ignore
                        lower = -upper
                    if np.isfinite(upper) or np.isfinite(lower):
                        terms = [(c, cells, e) for c, e in events] + [(-factor * c, other, e) for c, e in events]
                        self.add(terms, source, (label, group, against, given, outcome), lower, upper, not is_ratio)

    def add_minimum(self, source: int, wish: MinimumRate) -> None:
        criterion = {"recall": "eop", "selection": "dp", "accuracy": "oae"}[wish.rate]
        families = [[("overall", self.everyone)]] if wish.by == "overall" else self.group_sets(wish.attributes)
        for family in families:
            for group, cells in family:
                for given, outcome, events in self.events(criterion, self.outcomes(wish.outcomes)):
                    names = (f"minimum {wish.rate}", group, None, given, outcome)
                    self.add([(c, cells, e) for c, e in events], source, names, wish.minimum, np.inf, False)

    def add_own(self, source: int, wish: Rows) -> None:
        width = len(self.groups) * len(self.classes) ** 2
        if wish.D.shape[1] != width:
            raise ValueError(
                f"Rows: D has {wish.D.shape[1]} columns; with {len(self.groups)} groups and {len(self.classes)} "
                f"classes it needs {width}."
            )
        self.own.append((len(self.rows), wish.D))
        for name, lower, upper in zip(wish.names or (), wish.lower, wish.upper, strict=True):
            self.rows.append(
                {"terms": [], "source": source, "names": (name, None, None, None, None), "lower": lower,
                 "upper": upper, "is_gap": False}
            )  # fmt: skip

    # -- matrices ------------------------------------------------------------------------------------------
    def finish(self) -> RowSet:
        K, A, m = len(self.rows), len(self.groups), len(self.classes)
        if K == 0 and not self.dropped:
            raise ValueError("reference='pairwise': needs at least two groups to compare; there is one.")
        if K == 0:
            raise ValueError(f"criterion: none of its rows can be formed, their cells are empty: {self.dropped[0]}, ...")
        C = _coo(((k, r, c) for k, row in enumerate(self.rows) for c, r in row["terms"]), (K, len(self.rate_index)))
        N = _coo(
            ((r, (a * m + i) * m + j, 1.0) for (cells, event), r in self.rate_index.items() for a in cells for i, j in event[1]),
            (len(self.rate_index), A * m * m),
        )  # fmt: skip
        G = _coo(
            ((r, a * m + i, 1.0) for (cells, event), r in self.rate_index.items() for a in cells for i in event[0]),
            (len(self.rate_index), A * m),
        )
        own = sparse.lil_array((K, A * m * m))
        for start, matrix in self.own:
            own[start : start + matrix.shape[0]] = matrix
        return RowSet(
            combination=C,
            hits=N,
            conditions=G,
            own=sparse.csr_array(own),
            lower=np.array([row["lower"] for row in self.rows], float),
            upper=np.array([row["upper"] for row in self.rows], float),
            source=np.array([row["source"] for row in self.rows], int),
            is_gap=np.array([row["is_gap"] for row in self.rows], bool),
            table=_object_frame([row["names"] for row in self.rows]),
            dropped=tuple(self.dropped),
        )


def _coo(entries: Iterable[tuple[int, int, float]], shape: tuple[int, int]) -> sparse.csr_array:
    """A sparse matrix from (row, column, value); repeated places add up."""
    triples = list(entries)
    rows, columns, values = zip(*triples, strict=True) if triples else ((), (), ())
    return sparse.csr_array(sparse.coo_array((np.array(values, float), (np.array(rows, int), np.array(columns, int))), shape))


def _object_frame(names: list[tuple[Hashable, ...]]) -> pd.DataFrame:
    """A frame whose cells keep their Python type (tuples, ints and None included)."""
    columns = {}
    for position, column in enumerate(TABLE_COLUMNS):
        cells = np.empty(len(names), dtype=object)
        for k, row in enumerate(names):
            cells[k] = row[position]
        columns[column] = pd.Series(cells, dtype=object)
    return pd.DataFrame(columns)


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
            builder.add_constraint(source, wish)
    return builder.finish()
