"""One posterior and one set of rows, solved, certified and turned into a rule."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints import Constraint, MinimumRate, Ratio, RowSet, compile_rows
from optfair.constraints.criteria import AnyConstraint
from optfair.constraints.rows import ROUNDING, TABLE_COLUMNS
from optfair.decisions import new_key
from optfair.determinism import determinism
from optfair.dual.canonical import centre, least_norm
from optfair.dual.certificate import Assessment, Certificate, accuracy, assess, upper_bound
from optfair.dual.exact import solve_exact
from optfair.dual.feasibility import best_mixture, constant_values, prove_infeasible, surely_feasible
from optfair.dual.penalty import Box
from optfair.dual.solver import LAST_TAU, DualSolver
from optfair.errors import InfeasibleError, warn_empty
from optfair.options import Options, check_costs
from optfair.parallel import one_blas_thread
from optfair.posterior import Posterior
from optfair.rule import FairRule, flat, rule_probabilities
from optfair.rule_file import multiplier_frame

# ‖λ‖₁ while it is not known whether the request is feasible, and when that could not be disproved.
SAFE_CAP, LAST_CAP = 50.0, 1e4
SMOOTH_PEOPLE = 100  # a group of n_a people gets temperatures of at least about SMOOTH_PEOPLE / n_a, relative to 0.01


@dataclass(eq=False)
class Task:
    """One posterior and its rows, ready to be solved for one set of bounds after another."""

    posterior: Posterior
    rows: RowSet
    utility: np.ndarray
    scale: float
    top: float
    has_costs: bool
    solver: DualSolver

    def __post_init__(self) -> None:
        self.matrix = self.rows.matrix(self.posterior.prior)
        self.constants = constant_values(self.matrix, self.posterior.prior)
        self.fixed = abs(centre(self.matrix, self.utility.shape[1])).max(axis=1).toarray().ravel() <= 1e-12

    def with_constraints(self, constraints: Sequence[AnyConstraint]) -> Task:
        """The same task with other bounds: the sketch and all that depends on D alone is kept."""
        return self._with_rows(
            compile_rows(constraints, self.posterior.groups, self.posterior.classes, self.posterior.prior)
        )

    def with_bounds(self, lower: np.ndarray, upper: np.ndarray) -> Task:
        """The same rows with other bounds, (K,) each."""
        return self._with_rows(replace(self.rows, lower=lower, upper=upper))

    def _with_rows(self, rows: RowSet) -> Task:
        other = replace(self, rows=rows, solver=copy.copy(self.solver))
        other.solver.rows = rows
        if _table_keys(rows.table) != _table_keys(self.rows.table):
            other.solver.anchor = None  # what it remembers is about another D
        return other

    def unconstrained(self, options: Options, constraints: Sequence[AnyConstraint]) -> FairRule:
        """The most accurate rule of all, a plain argmax."""
        return self.argmax_rule(np.zeros(len(self.rows)), options, constraints, time.perf_counter())

    def argmax_rule(
        self, lam: np.ndarray, options: Options, constraints: Sequence[AnyConstraint], clock: float
    ) -> FairRule:
        """The rule argmax z W(λ), and what is known about it."""
        draft = self._draft(lam, np.zeros(self.utility.shape[0]))
        return self._finish(draft, options, constraints, new_key(options.random_state), 0, clock)

    @classmethod
    def prepare(cls, posterior: Posterior, constraints: Sequence[AnyConstraint], costs: Any, options: Options) -> Task:
        A, m = posterior.prior.shape
        rows = compile_rows(constraints, posterior.groups, posterior.classes, posterior.prior)
        warn_empty(rows.dropped)
        utility, scale, top = check_costs(costs, A, m)
        solver = DualSolver(posterior, rows, utility, options.seed, options.max_passes)
        return cls(posterior, rows, utility, scale, top, costs is not None, solver)

    # -- solving -------------------------------------------------------------------------------------------
    def solve(
        self,
        options: Options,
        constraints: Sequence[AnyConstraint],
        start: FairRule | None = None,
        clock: float | None = None,
    ) -> FairRule:
        """The rule for ``self.rows``' bounds."""
        clock = time.perf_counter() if clock is None else clock
        self._check_fixed_rows()
        key = new_key(options.random_state)
        free = self._draft(np.zeros(len(self.rows)), np.zeros(self.utility.shape[0]))
        if self._maybe_unconstrained(free):
            rule = self._finish(free, options, constraints, key, 0, clock)
            if rule.certificate.excess == 0.0:
                return rule
        return self._constrained(options, constraints, start, key, clock)

    def _check_fixed_rows(self) -> None:
        """Rows that no rule can move (own rows, mostly) are within their bounds or the request is infeasible."""
        outside = np.maximum(self.constants[:, 0] - self.rows.upper, self.rows.lower - self.constants[:, 0])
        broken = np.flatnonzero(self.fixed & (outside > ROUNDING))
        if len(broken):
            enough = needed = float(outside[broken].max())
            names = [self.rows.names[k] for k in broken]
            wider = replace(self.rows, lower=self.rows.lower - needed, upper=self.rows.upper + needed)
            try:
                prove_infeasible(self.posterior, wider, self.solver.seed, self.solver.max_passes)
            except InfeasibleError as more:
                names, enough, needed = names + more.rows, enough + more.loosening, needed + more.lower_bound
            raise InfeasibleError(names, enough, needed)

    def _maybe_unconstrained(self, free: _Draft) -> bool:
        """Whether the unconstrained rule looks fair enough on the sketch to be looked at on all rows."""
        sample = self.solver.sample
        confusion = assess(sample, free.probabilities, free.weights).confusion
        return float(self.rows.excess(self.rows.matrix(sample.prior) @ confusion.ravel())) <= 0.02

    def _constrained(
        self, options: Options, constraints: Sequence[AnyConstraint], start: Any, key: bytes, clock: float
    ) -> FairRule:
        bound_lam = None
        lam = self._starting_point(start)
        shape, tau = self._temperatures(options)
        if options.method == "lp":
            try:
                lam = bound_lam = solve_exact(self.posterior, self.rows, self.utility).multipliers
            except InfeasibleError:
                prove_infeasible(self.posterior, self.rows, options.seed, options.max_passes)
                raise
            tau = LAST_TAU if tau is None else tau
        box, tolerance = self._aim(options, self.scale * float(np.abs(lam).sum()))
        lam = lam * min(1.0, box.cap / max(float(np.abs(lam).sum()), 1e-300))
        solver, minimum, passes = self.solver, None, 0
        if start is not None and lam.any():
            # Neighbours on a path share their temperature, and the local sketches of the polish bridge the rest.
            tau_now = start.certificate.temperature if tau is None else tau
            minimum, passes = solver.polish(box, lam, shape * tau_now, tolerance, resume=True)
        if minimum is None or not minimum.converged:
            lam, tau_now, used = solver.cool(box, lam, shape, tau, tolerance, options.gap)
            minimum, more = solver.polish(box, lam, shape * tau_now, tolerance)
            passes += used + more
        while True:
            lam = minimum.multipliers
            if options.max_multiplier is None and np.abs(lam).sum() >= 0.99 * box.cap and box.cap < LAST_CAP:
                # Either nothing is within the stated bounds, or the price is high, or only the margin is out of reach.
                prove_infeasible(self.posterior, self.rows, options.seed, options.max_passes)
                box, tolerance = Box(self.rows.lower, self.rows.upper, LAST_CAP), max(tolerance, 1e-5)
                minimum, more = solver.polish(box, lam, shape * tau_now, tolerance, trust=False)
                passes += more
                continue
            with one_blas_thread():
                canonical = least_norm(self.matrix, self.utility.shape[1], box, lam, minimum.evaluation.values, tau_now)
            draft = self._draft(canonical, shape * tau_now)
            rule = self._finish(draft, options, constraints, key, passes, clock, box, bound_lam)
            wide = rule.certificate.gap > options.gap * self.scale
            if not minimum.confirmed and (wide or rule.certificate.excess > 0 or rule.share > 0):
                minimum, more = solver.polish(box, lam, shape * tau_now, tolerance, trust=False)
                passes += more
                continue
            capped = np.abs(lam).sum() >= 0.99 * box.cap and not minimum.converged  # cooling would not help
            if tau is not None or not wide or tau_now <= LAST_TAU or capped:
                return rule
            if box.cap < LAST_CAP or np.isinf(box.cap):  # else the margin was given up already
                # Prices above the one expected make the margin dear too.
                box, tolerance = self._aim(options, self.scale * float(np.abs(lam).sum()))
            lam, tau_now, used = solver.cool(box, lam, shape, max(tau_now / 4, LAST_TAU), tolerance, options.gap)
            minimum, more = solver.polish(box, lam, shape * tau_now, tolerance)
            passes += used + more

    def _aim(self, options: Options, price: float) -> tuple[Box, float]:
        """Bounds a little inside the stated ones, and the KKT residual that then keeps the rule within.

        The margin is 1 % of the tolerance, or what costs a quarter of the gap at the price expected, if that is less.
        """
        lower, upper = self.rows.lower, self.rows.upper
        half = np.where(np.isfinite(lower) & np.isfinite(upper), (upper - lower) / 2, 1.0)
        most = 0.25 * options.gap / np.clip(price or 2.5, 0.25, 1e3)
        margin = np.where(self.fixed, 0.0, np.minimum(most, 0.01 * half))
        noise = 2e-6 if self.posterior.rows(slice(0, 1)).dtype == np.float32 else 1e-8
        tolerance = max(float(margin[margin > 0].min(initial=1e-6 if (half == 0).any() else most)), noise)
        lower, upper = lower + margin, upper - margin
        if options.max_multiplier is not None:
            return Box(lower, upper, options.max_multiplier / self.scale), tolerance
        # Where some constant rule is inside, multipliers are bounded by themselves.
        return Box(lower, upper, np.inf if surely_feasible(lower, upper, self.constants) else SAFE_CAP), tolerance

    def _temperatures(self, options: Options) -> tuple[np.ndarray, float | None]:
        """(factors per cell ≥ 1, common temperature or None for "auto")."""
        A, m = self.posterior.prior.shape
        if isinstance(options.temperature, str):
            people = np.maximum(self.posterior.n * self.posterior.prior.sum(axis=1), 1e-9)
            shape = np.clip(SMOOTH_PEOPLE / people / 0.01, 1.0, 20.0)
            return np.repeat(shape / shape.min(), m), None
        tau = np.asarray(options.temperature, dtype=np.float64)
        if tau.shape not in ((), (A,), (A, m)):
            raise ValueError(f"temperature: has shape {tau.shape}; expected a number, ({A},) or ({A}, {m}).")
        if not (np.isfinite(tau).all() and (tau > 0).all()):
            raise ValueError(f"temperature={options.temperature!r}: must be 'auto' or positive numbers.")
        cells = np.broadcast_to(tau if tau.ndim != 1 else tau[:, None], (A, m)).ravel()
        return cells / cells.min(), float(cells.min())

    def _starting_point(self, start: Any) -> np.ndarray:
        if start is None:
            return np.zeros(len(self.rows))
        if not isinstance(start, FairRule):
            raise ValueError(f"start: must be a FairRule, got {type(start).__name__}.")
        return carried_over(start.multipliers, self.rows) / self.scale

    # -- the rule and its proof ----------------------------------------------------------------------------
    def _draft(self, lam: np.ndarray, tau: np.ndarray) -> _Draft:
        W = self.utility - (self.matrix.T @ lam).reshape(self.utility.shape)
        m = self.utility.shape[1]
        return _Draft(lam, W, tau, 0.0, np.full(m, 1.0 / m))

    def _finish(
        self,
        draft: _Draft,
        options: Options,
        constraints: Sequence[AnyConstraint],
        key: bytes,
        passes: int,
        clock: float,
        box: Box | None = None,
        bound_lam: np.ndarray | None = None,
    ) -> FairRule:
        """The rule of a draft with its proof; mixed with a constant if that restores the tolerance for less than gap.

        box : the bounds aimed at, None for the unconstrained rule. bound_lam : λ of the upper bound, if not the rule's.
        """
        rows = self.rows
        bound_lam = draft.multipliers if bound_lam is None else bound_lam
        bound_weights = self._draft(bound_lam, draft.tau).weights
        found = assess(self.posterior, draft.probabilities, bound_weights)
        values = self.matrix @ found.confusion.ravel()
        residual = 0.0 if box is None else box.residual(draft.multipliers, values)
        if box is not None and rows.excess(values) > 0:
            mixed = self._mix(draft, found, values, options.gap)
            if mixed is not None:
                draft, found = mixed, assess(self.posterior, mixed.probabilities, bound_weights)
                values = self.matrix @ found.confusion.ravel()
        excess = float(rows.excess(values))
        utility = float((flat(found.confusion) * self.utility).sum()) + found.offset_value
        bound = upper_bound(found, rows, bound_lam, excess)
        if bound - utility > 0.1:  # λ proves little: the unconstrained optimum is a bound too
            bound = min(bound, assess(self.posterior, draft.probabilities, self.utility).top)
        value, bound = (self.in_units(x, float(self.posterior.prior.sum())) for x in (utility, bound))
        A, m = self.posterior.prior.shape
        certificate = Certificate(
            accuracy=accuracy(found.confusion),
            value=value,
            upper_bound=bound,
            gap=0.0 if abs(bound - value) < ROUNDING else bound - value,
            violation=float(rows.violation(values)),
            excess=excess,
            tolerance=_tolerances(constraints),
            temperature=float(draft.tau.min()),
            passes=passes,
            residual=residual,
            seconds=time.perf_counter() - clock,
            status="",
        )
        certificate = replace(certificate, status=self._status(certificate, draft, options))
        return FairRule(
            weights=draft.weights.reshape(A, m, m),
            temperatures=draft.tau.reshape(A, m),
            share=draft.share,
            constant=draft.constant,
            groups=self.posterior.groups,
            classes=self.posterior.classes,
            multipliers=multiplier_table(rows, bound_lam * self.scale, values),
            certificate=certificate,
            determinism=determinism(self.posterior, rows, self.matrix, found, draft.probabilities),
            key=key,
        )

    def _mix(self, draft: _Draft, found: Assessment, values: np.ndarray, gap: float) -> _Draft | None:
        gains = self.constant_gains()
        utility = float((flat(found.confusion) * self.utility).sum()) + found.offset_value
        slack = 1e-12  # so that rounding does not leave the mixture outside
        best = best_mixture(self.rows.lower + slack, self.rows.upper - slack, values, utility, self.constants, gains)
        if best is None or best[0] * (utility - float(best[1] @ gains)) > gap:
            return None
        return replace(draft, share=best[0], constant=best[1])

    def in_units(self, utility: float, mass: float = 1.0) -> float:
        """A utility in the user's units: the accuracy, or minus the expected cost over people of that total mass."""
        return self.scale * utility - (self.top * mass if self.has_costs else 0.0)

    def constant_gains(self) -> np.ndarray:
        """Expected utility of giving everybody class j, (m,)."""
        gains = self.posterior.prior.ravel() @ self.utility
        if self.posterior.offset is None:
            return gains
        return gains + np.average(self.posterior.offset, axis=0, weights=self.posterior.weight)

    def _status(self, certificate: Certificate, draft: _Draft, options: Options) -> str:
        if not draft.multipliers.any() and not draft.tau.any():
            words = ["the unconstrained rule is already within tolerance"]
        elif certificate.gap <= options.gap * self.scale:
            words = ["optimal within the requested gap"]
        elif not isinstance(options.temperature, str):
            words = ["the gap is the cost of the temperature asked for; lower it or use temperature='auto'"]
        elif certificate.temperature <= LAST_TAU:
            words = ["the requested gap was not reached at the lowest temperature; raise gap, or use method='lp'"]
        else:
            words = ["the requested gap was not reached; raise max_passes or gap"]
        if certificate.excess > 0:
            words.append(f"outside its bounds by {certificate.excess:.1e}, compared with rules allowed the same")
            total = self.scale * float(np.abs(draft.multipliers).sum())
            if options.max_multiplier is not None and total >= 0.99 * options.max_multiplier:
                words.append("because max_multiplier is active")
        if draft.share > 0:
            words.append(f"mixed with a constant rule for {draft.share:.2%} of decisions to stay within tolerance")
        return "; ".join(words)


@dataclass(frozen=True, eq=False)
class _Draft:
    """A rule in the making: λ, W (p, m), τ (p,), and the constant it is mixed with."""

    multipliers: np.ndarray
    weights: np.ndarray
    tau: np.ndarray
    share: float
    constant: np.ndarray

    def probabilities(self, Z: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
        return rule_probabilities(Z, self.weights, self.tau, self.share, self.constant, offset)


def carried_over(multipliers: pd.DataFrame, rows: RowSet) -> np.ndarray:
    """The multipliers of a table for rows of the same names, zero where it has none or the sign is forbidden, (K,)."""
    old = dict(zip(_table_keys(multipliers), multipliers["multiplier"], strict=True))
    lam = np.array([old.get(name, 0.0) for name in _table_keys(rows.table)])
    forbidden = ((lam > 0) & np.isinf(rows.upper)) | ((lam < 0) & np.isinf(rows.lower))
    return np.where(forbidden, 0.0, lam)


def multiplier_table(rows: RowSet, lam: np.ndarray, values: np.ndarray) -> pd.DataFrame:
    """Multipliers in the user's units; price = Σ|λ| over the rows of the same criterion and group."""
    columns = {name: rows.table[name].tolist() for name in rows.table}
    sums: dict[Any, float] = {}
    owners = list(zip(rows.source.tolist(), columns["group"], strict=True))
    for owner, size in zip(owners, np.abs(lam), strict=True):
        sums[owner] = sums.get(owner, 0.0) + float(size)
    columns["multiplier"] = lam.tolist()
    columns["price"] = [sums[owner] for owner in owners]
    columns["value"], columns["lower"], columns["upper"] = values.tolist(), rows.lower.tolist(), rows.upper.tolist()
    return multiplier_frame(columns)


def _table_keys(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c] for c in TABLE_COLUMNS), strict=True))


def _tolerances(constraints: Sequence[AnyConstraint]) -> float | tuple[float | None, ...] | None:
    """The tolerance asked for: one number, or one per constraint (None where it has none, the largest of a mapping)."""
    listed: list[float | None] = []
    for wish in constraints:
        if isinstance(wish, Constraint):
            bound = wish.tolerance
            listed.append(max(bound.values()) if isinstance(bound, Mapping) else float(bound))
        elif isinstance(wish, (Ratio, MinimumRate)):
            listed.append(wish.minimum)
        else:
            listed.append(None)
    return listed[0] if len(listed) == 1 else tuple(listed)
