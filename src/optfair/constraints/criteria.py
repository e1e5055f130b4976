"""What a user can ask for: gap criteria, the ratio rule, minimum rates, and rows of their own.

These are plain descriptions; `optfair.constraints.rows` turns a list of them into one matrix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

CRITERIA = {
    "dp": "demographic_parity",
    "eop": "equal_opportunity",
    "eo": "equalized_odds",
    "meo": "mean_equalized_odds",
    "oae": "overall_accuracy_equality",
}
_SHORT = {**{short: short for short in CRITERIA}, **{long: short for short, long in CRITERIA.items()}}
_NOT_LINEAR = {
    "ppv",
    "npv",
    "predictive_parity",
    "predictive_value_parity",
    "predictive_equality_ppv",
    "precision",
}
RATES = ("recall", "selection", "accuracy")
REFERENCES = ("overall", "pairwise")
DEFAULT_TOLERANCE = 0.01


def short_name(criterion: object) -> str:
    """The short name of a criterion given by its short or long name."""
    if isinstance(criterion, str):
        name = criterion.strip().lower().replace("-", "_").replace(" ", "_")
        if name in _SHORT:
            return _SHORT[name]
        if name in _NOT_LINEAR:
            raise ValueError(
                f"criterion={criterion!r}: predictive values divide by the rule's own predictions, so they are "
                "not linear in the confusion tensor and cannot be constrained here."
            )
    raise ValueError(
        f"criterion={criterion!r}: unknown. Use one of {', '.join(CRITERIA)} (or "
        f"{', '.join(CRITERIA.values())}), a Constraint, Ratio, MinimumRate or Rows, or a list of these."
    )


def _check_fraction(name: str, value: object, *, low_open: bool = False) -> float:
    rule = "a number in (0, 1]" if low_open else "a number in [0, 1]"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, np.number)):
        raise ValueError(f"{name}={value!r}: must be {rule}.")
    number = float(value)
    if not (0 <= number <= 1) or (low_open and number == 0):
        raise ValueError(f"{name}={value!r}: must be {rule}.")
    return number


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, choices))}.")


@dataclass(frozen=True)
class Constraint:
    """``|rate of a group − reference rate| ≤ tolerance`` for every group, outcome and (for eo) true class.

    criterion : "dp", "eop", "eo", "meo", "oae" or the long name.
    tolerance : the bound on each gap, in [0, 1]; or a mapping group → bound (reference "overall" only; groups that it
        does not name are not constrained).
    reference : "overall" compares each group with everybody, "pairwise" every two groups.
    outcomes : restrict the criterion to these predicted classes (default: all of them).
    attributes : with groups given as a MultiIndex: "intersections" (default), "marginals", "both", or a list
        of attribute names, each constrained on its own.
    """

    criterion: str
    tolerance: float | Mapping[Hashable, float] = DEFAULT_TOLERANCE
    reference: str = "overall"
    outcomes: Sequence[Hashable] | None = None
    attributes: str | Sequence[Hashable] = "intersections"

    def __post_init__(self) -> None:
        object.__setattr__(self, "criterion", short_name(self.criterion))
        _check_choice("reference", self.reference, REFERENCES)
        if isinstance(self.tolerance, Mapping):
            if self.reference != "overall":
                raise ValueError("tolerance: a tolerance per group needs reference='overall'.")
            if not self.tolerance:
                raise ValueError("tolerance: the mapping is empty; give at least one group its tolerance.")
            checked = {g: _check_fraction(f"tolerance[{g!r}]", t) for g, t in self.tolerance.items()}
            object.__setattr__(self, "tolerance", checked)
        else:
            object.__setattr__(self, "tolerance", _check_fraction("tolerance", self.tolerance))
        if self.criterion == "oae" and self.outcomes is not None:
            raise ValueError("outcomes: overall accuracy equality speaks of all classes; leave outcomes=None.")


@dataclass(frozen=True)
class Ratio:
    """``rate_a ≥ minimum · rate_b`` for every ordered pair of groups (the 80 % rule: ``Ratio("dp", 0.8)``).

    With ``reference="overall"`` each group is compared with everybody, which is a weaker rule.
    """

    criterion: str
    minimum: float = 0.8
    reference: str = "pairwise"
    outcomes: Sequence[Hashable] | None = None
    attributes: str | Sequence[Hashable] = "intersections"

    def __post_init__(self) -> None:
        object.__setattr__(self, "criterion", short_name(self.criterion))
        if self.criterion == "meo":
            raise ValueError("criterion='meo': the ratio rule compares single rates; use dp, eop, eo or oae.")
        if self.criterion == "oae" and self.outcomes is not None:
            raise ValueError("outcomes: overall accuracy equality speaks of all classes; leave outcomes=None.")
        object.__setattr__(self, "minimum", _check_fraction("minimum", self.minimum, low_open=True))
        _check_choice("reference", self.reference, REFERENCES)


@dataclass(frozen=True)
class MinimumRate:
    """``rate ≥ minimum`` for every group (``by="group"``) or for everybody together (``by="overall"``).

    rate : "recall" P(Ŷ=j | Y=j) for each class j, "selection" P(Ŷ=j) for each j, or "accuracy" P(Ŷ=Y).
    """

    rate: str
    minimum: float
    by: str = "group"
    outcomes: Sequence[Hashable] | None = None
    attributes: str | Sequence[Hashable] = "intersections"

    def __post_init__(self) -> None:
        _check_choice("rate", self.rate, RATES)
        object.__setattr__(self, "minimum", _check_fraction("minimum", self.minimum))
        _check_choice("by", self.by, ("group", "overall"))
        if self.rate == "accuracy" and self.outcomes is not None:
            raise ValueError("outcomes: accuracy speaks of all classes; leave outcomes=None.")


@dataclass(frozen=True, eq=False)
class Rows:
    """A user's own rows: ``lower ≤ D · vec(J) ≤ upper``, ``J[a, i, j] = P(A=a, Y=i, Ŷ=j)``.

    D : (K, n_groups, n_classes, n_classes), or (K, n_groups·n_classes²) dense or sparse.
    lower, upper : numbers or (K,) arrays; −inf and +inf leave a side open.
    names : K names for tables and messages (default "row 0", "row 1", ...).
    """

    D: Any
    lower: Any = -np.inf
    upper: Any = np.inf
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        flat = self.D if sparse.issparse(self.D) else np.asarray(self.D, dtype=float)
        if not sparse.issparse(flat):
            if flat.ndim not in (2, 4):
                raise ValueError(
                    f"Rows: D has shape {flat.shape}; expected (K, n_groups, n_classes, n_classes) or 2-d."
                )
            flat = flat.reshape(len(flat), int(np.prod(flat.shape[1:])))  # -1 cannot be worked out for no rows
        flat = sparse.csr_array(flat, dtype=float)
        k = flat.shape[0]
        if k == 0:
            raise ValueError("Rows: D has no rows.")
        if not np.isfinite(flat.data).all():
            raise ValueError("Rows: D holds NaN or infinite entries.")
        bounds = []
        for side, value in (("lower", self.lower), ("upper", self.upper)):
            bound = np.asarray(value, dtype=float)
            if bound.shape not in ((), (k,)):
                raise ValueError(f"Rows: {side} has shape {bound.shape}; expected a number or ({k},).")
            bounds.append(np.broadcast_to(bound, (k,)).copy())
        lower, upper = bounds
        if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
            raise ValueError("Rows: every lower bound must be a number at most its upper bound.")
        if (np.isinf(lower) & np.isinf(upper)).any():
            raise ValueError("Rows: a row with two infinite bounds constrains nothing; remove it.")
        names = [f"row {i}" for i in range(k)] if self.names is None else [str(name) for name in self.names]
        if len(names) != k:
            raise ValueError(f"Rows: {len(names)} names for {k} rows.")
        for field, value in (("D", flat), ("lower", lower), ("upper", upper), ("names", names)):
            object.__setattr__(self, field, value)


AnyConstraint = Constraint | Ratio | MinimumRate | Rows


def as_constraints(
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint],
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
) -> list[AnyConstraint]:
    """The list of constraints that a ``criterion`` argument stands for.

    tolerance, reference, outcomes and attributes complete criteria given by name; an object says all of its own.
    """
    said = {"tolerance": tolerance, "reference": reference, "outcomes": outcomes, "attributes": attributes}
    options: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if isinstance(criterion, (str, AnyConstraint)) or not isinstance(criterion, Iterable):
        items: list[Any] = [criterion]
    else:
        items = list(criterion)
    if not items:
        raise ValueError("criterion: the list is empty; give at least one constraint.")
    if options and all(isinstance(item, AnyConstraint) for item in items):
        raise ValueError(f"{next(iter(options))}: already said by the constraint objects; leave it out here.")
    return [item if isinstance(item, AnyConstraint) else Constraint(item, **options) for item in items]
