"""Describe what a user can ask for: gap criteria, the ratio rule, minimum rates, and rows of their own.

These are plain descriptions; `optfair.constraints.rows` turns a list of them into one matrix.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from optfair.errors import NotLinearError, brief_repr, warn
from optfair.utils.checks import check_choice, check_number, share_hint

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
SMALLEST_COEFFICIENT = 1e-9  # of rows of a user: values are then within rounding of their bounds, whatever the rule
LARGEST_COEFFICIENT = 1e30  # of rows of a user: the fourth power, which the solver takes, stays far below overflow


def short_name(criterion: object) -> str:
    """Return the short name of a criterion that is given by its short or long name."""
    if isinstance(criterion, str):
        name = criterion.strip().lower().replace("-", "_").replace(" ", "_")
        if name in _SHORT:
            return _SHORT[name]
        if name in _NOT_LINEAR:
            raise NotLinearError(
                f"criterion={criterion!r}: predictive values divide by the rule's own predictions, so they are "
                "not linear in the confusion tensor and cannot be constrained; use 'eo' or 'eop' instead."
            )
    raise ValueError(
        f"criterion={brief_repr(criterion)}: unknown. Use one of {', '.join(CRITERIA)} (or "
        f"{', '.join(CRITERIA.values())}), a Constraint, Ratio, MinimumRate or Rows, or a list of these."
    )


def check_tolerance(name: str, value: Any) -> float:
    """Return a tolerance as a float in [0, 1]; percentages are refused, or 1 at least questioned.

    1.0 is how one says that nothing is constrained; the integer 1 rather means one per cent.
    """
    tolerance = check_number(name, value, "[0, 1]", share_hint(value))
    if tolerance == 1 and isinstance(value, Integral):
        warn(
            f"{name}=1: constrains nothing, because no two rates differ by more; did you mean 0.01? (Write 1.0 if not.)"
        )
    return tolerance


@dataclass(frozen=True)
class Constraint:
    """Bound the gap between the rate of every group and a reference rate.

    ``|rate of a group − reference rate| ≤ tolerance`` for every group, predicted class and (for "eo") true class.

    Parameters
    ----------
    criterion : str
        "dp", "eop", "eo", "meo", "oae", or the long name of one of these.
    tolerance : float or mapping from group to float, default 0.01
        Bound on each gap, a share in [0, 1]; 1.0 constrains nothing. A mapping bounds the groups it names and leaves
        the others free; it needs ``reference="overall"``.
    reference : {"overall", "pairwise"}, default "overall"
        Compare each group with everybody, or every two groups with each other.
    outcomes : sequence of class labels, optional
        Predicted classes that the criterion speaks of; all classes by default.
    attributes : str or sequence of attribute names, default "intersections"
        With groups of several attributes: constrain their "intersections", their "marginals", "both", or each of the
        attributes that are named.

    Examples
    --------
    >>> from optfair import Constraint
    >>> Constraint("equalized_odds", 0.05)
    Constraint(criterion='eo', tolerance=0.05, reference='overall', outcomes=None, attributes='intersections')
    """

    criterion: str
    tolerance: float | Mapping[Hashable, float] = DEFAULT_TOLERANCE
    reference: str = "overall"
    outcomes: Sequence[Hashable] | None = None
    attributes: str | Sequence[Hashable] = "intersections"

    def __post_init__(self) -> None:
        object.__setattr__(self, "criterion", short_name(self.criterion))
        _check_outcomes_of_accuracy(self.criterion, self.outcomes)
        check_choice("reference", self.reference, REFERENCES)
        if isinstance(self.tolerance, Mapping):
            if self.reference != "overall":
                raise ValueError("tolerance: a tolerance per group needs reference='overall'.")
            if not self.tolerance:
                raise ValueError("tolerance: the mapping is empty; give at least one group its tolerance.")
            bounds = {g: check_tolerance(f"tolerance[{g!r}]", t) for g, t in self.tolerance.items()}
            object.__setattr__(self, "tolerance", bounds)
        else:
            object.__setattr__(self, "tolerance", check_tolerance("tolerance", self.tolerance))

    @property
    def strictest(self) -> float:
        """The tolerance, or the smallest of a mapping."""
        return min(self.tolerance.values()) if isinstance(self.tolerance, Mapping) else float(self.tolerance)


@dataclass(frozen=True)
class Ratio:
    """Bound the ratio between the rates of two groups from below; ``Ratio("dp", 0.8)`` is the 80 % rule.

    ``rate of a ≥ minimum · rate of b`` for every ordered pair of groups.

    Parameters
    ----------
    criterion : str
        "dp", "eop", "eo" or "oae", or the long name of one of these.
    minimum : float, default 0.8
        Smallest ratio allowed, in (0, 1].
    reference : {"pairwise", "overall"}, default "pairwise"
        Compare every two groups, or each group with everybody, which is a weaker rule.
    outcomes : sequence of class labels, optional
        Predicted classes that the rule speaks of, such as the favourable one; all classes by default.
    attributes : str or sequence of attribute names, default "intersections"
        See `Constraint`.

    Examples
    --------
    >>> from optfair import Ratio
    >>> Ratio("dp", 0.8, outcomes=["hired"]).minimum
    0.8
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
        _check_outcomes_of_accuracy(self.criterion, self.outcomes)
        object.__setattr__(self, "minimum", check_number("minimum", self.minimum, "(0, 1]"))
        check_choice("reference", self.reference, REFERENCES)


@dataclass(frozen=True)
class MinimumRate:
    """Bound a rate from below, for every group or for everybody together.

    Parameters
    ----------
    rate : {"recall", "selection", "accuracy"}
        P(Ŷ=j | Y=j) of each class j, P(Ŷ=j) of each class j, or P(Ŷ=Y).
    minimum : float
        Smallest rate allowed, in [0, 1].
    by : {"group", "overall"}, default "group"
        Bound the rate of every group, or of everybody together.
    outcomes : sequence of class labels, optional
        Classes j that are meant; all classes by default.
    attributes : str or sequence of attribute names, default "intersections"
        See `Constraint`.

    Examples
    --------
    >>> from optfair import MinimumRate
    >>> MinimumRate("recall", 0.5, outcomes=["high"]).by
    'group'
    """

    rate: str
    minimum: float
    by: str = "group"
    outcomes: Sequence[Hashable] | None = None
    attributes: str | Sequence[Hashable] = "intersections"

    def __post_init__(self) -> None:
        check_choice("rate", self.rate, RATES)
        object.__setattr__(self, "minimum", check_number("minimum", self.minimum, "[0, 1]"))
        check_choice("by", self.by, ("group", "overall"))
        if self.rate == "accuracy" and self.outcomes is not None:
            raise ValueError("outcomes: accuracy speaks of all classes; leave outcomes=None.")


def _check_outcomes_of_accuracy(criterion: str, outcomes: Sequence[Hashable] | None) -> None:
    if criterion == "oae" and outcomes is not None:
        raise ValueError("outcomes: overall accuracy equality speaks of all classes; leave outcomes=None.")


@dataclass(frozen=True, eq=False)
class Rows:
    """Constrain the joint confusion tensor by rows of your own.

    ``lower ≤ D · vec(J) ≤ upper`` with ``J[a, i, j] = P(A=a, Y=i, Ŷ=j)``.

    Parameters
    ----------
    D : array or sparse matrix of shape (K, n_groups, n_classes, n_classes) or (K, n_groups * n_classes ** 2)
        One row per constraint.
    lower : float or array of shape (K,), default -inf
        Lower bounds; −inf leaves a side open.
    upper : float or array of shape (K,), default inf
        Upper bounds; +inf leaves a side open.
    names : sequence of str, optional
        Names of the rows in tables and messages; "row 0", "row 1", ... by default.

    Examples
    --------
    >>> import numpy as np
    >>> from optfair import Rows
    >>> third_class = np.zeros((1, 2, 3, 3))
    >>> third_class[0, :, :, 2] = 1  # P(Ŷ=2), of everybody
    >>> Rows(third_class, upper=0.25, names=["third class"]).names
    ['third class']
    """

    D: Any
    lower: Any = -np.inf
    upper: Any = np.inf
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        flat = self.D if sparse.issparse(self.D) else _as_floats("D", self.D)
        if flat.dtype.kind == "c":
            raise ValueError("Rows: D is complex; must be real numbers.")
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
        for row, size in enumerate(abs(flat).max(axis=1).toarray().ravel()):
            if size > LARGEST_COEFFICIENT or 0 < size < SMALLEST_COEFFICIENT:
                raise ValueError(
                    f"Rows: the largest entry of row {row} of D is {size:.3g}; must be between "
                    f"{SMALLEST_COEFFICIENT:g} and {LARGEST_COEFFICIENT:g}; divide the row and its bounds by it."
                )
        lower, upper = (_check_bound(side, getattr(self, side), k) for side in ("lower", "upper"))
        if np.isnan(lower).any() or np.isnan(upper).any() or (lower > upper).any():
            raise ValueError("Rows: every lower bound must be a number at most its upper bound.")
        if (np.isinf(lower) & np.isinf(upper)).any():
            raise ValueError("Rows: a row with two infinite bounds constrains nothing; remove it.")
        names = [f"row {i}" for i in range(k)] if self.names is None else [str(name) for name in self.names]
        if len(names) != k:
            raise ValueError(f"Rows: {len(names)} names for {k} rows.")
        for field, value in (("D", flat), ("lower", lower), ("upper", upper), ("names", names)):
            object.__setattr__(self, field, value)


def _as_floats(field: str, values: Any) -> np.ndarray:
    if np.iscomplexobj(values):
        raise ValueError(f"Rows: {field} is complex; must be real numbers.")
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"Rows: {field}={brief_repr(values)} must be numbers, in rows of one length.") from None


def _check_bound(side: str, value: Any, k: int) -> np.ndarray:
    """Return one bound per row, (k,)."""
    bound = _as_floats(side, value)
    if bound.shape not in ((), (k,)):
        raise ValueError(f"Rows: {side} has shape {bound.shape}; expected a number or ({k},).")
    return np.broadcast_to(bound, (k,)).copy()


AnyConstraint = Constraint | Ratio | MinimumRate | Rows


def labelled_criterion(constraints: Iterable[AnyConstraint]) -> str | None:
    """Return the name of the first constraint that speaks of true classes, None where none does."""
    for constraint in constraints:
        name = constraint.rate if isinstance(constraint, MinimumRate) else getattr(constraint, "criterion", "Rows")
        if name not in ("dp", "selection"):
            return name
    return None


def as_constraints(
    criterion: str | AnyConstraint | Iterable[str | AnyConstraint],
    tolerance: float | Mapping[Hashable, float] | None = None,
    reference: str | None = None,
    outcomes: Sequence[Hashable] | None = None,
    attributes: str | Sequence[Hashable] | None = None,
) -> list[AnyConstraint]:
    """Return the list of constraints that a ``criterion`` argument stands for.

    tolerance, reference, outcomes and attributes complete criteria given by name (None: unsaid); an object says all of
    its own, and a mapping from names to tolerances says these.
    """
    arguments = {"tolerance": tolerance, "reference": reference, "outcomes": outcomes, "attributes": attributes}
    options: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(criterion, Mapping) and criterion:
        return _constraints_of_mapping(criterion, options)
    if isinstance(criterion, (str, AnyConstraint)) or not isinstance(criterion, Iterable):
        items: list[Any] = [criterion]
    else:
        items = list(criterion)
    if not items:
        raise ValueError("criterion: the list is empty; give at least one constraint.")
    if options and all(isinstance(item, AnyConstraint) for item in items):
        raise ValueError(f"{next(iter(options))}: already set in the constraint objects; leave it out here.")
    return [item if isinstance(item, AnyConstraint) else Constraint(item, **options) for item in items]


def _constraints_of_mapping(criterion: Mapping[Any, Any], options: dict[str, Any]) -> list[AnyConstraint]:
    """Return a constraint per name, with its own tolerance."""
    if "tolerance" in options:
        raise ValueError("tolerance: already set in the mapping of criteria to tolerances; leave it out here.")
    objects = [name for name in criterion if not isinstance(name, str)]
    if objects:
        raise ValueError(
            f"criterion: a mapping goes from names of criteria to tolerances, and {objects[0]!r} is no name; give "
            "constraint objects as a list."
        )
    return [Constraint(name, tolerance, **options) for name, tolerance in criterion.items()]
