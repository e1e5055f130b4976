"""Solve a fair problem: from the unconstrained rule to a certified one, in phases that have names.

unconstrained? → aim inside the bounds → cool on a sketch, or resume; polish on all rows → certify
→ [raise cap | confirm | cool further]*
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from optfair.constraints.rows import ROUNDING
from optfair.dual.exact import solve_exact
from optfair.dual.least_norm import least_norm
from optfair.dual.measure import Measure
from optfair.dual.merging import merge_problems
from optfair.dual.penalty import Box
from optfair.dual.problem import SOLVING, DualProblem, Minimum
from optfair.dual.settings import DRIVER, SETTINGS
from optfair.dual.solver import Anchor, DualSolution, DualSolver
from optfair.errors import InfeasibleError
from optfair.rule.draft import certify, make_draft
from optfair.rule.feasibility import refuse_if_infeasible, surely_feasible
from optfair.rule.multipliers import matching_multipliers
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule
from optfair.utils.parallel import one_blas_thread
from optfair.utils.progress import stage, tick


@dataclass(frozen=True, eq=False)
class Solution:
    """A certified rule, and where the solver stood when it was found: a neighbouring problem may resume there."""

    rule: FairRule
    anchor: Anchor | None = None
    problem: FairProblem | None = None

    def is_wider(self, problem: FairProblem) -> bool:
        """Tell whether this is the rule, with a price, of the same rows with bounds that are no narrower."""
        mine = self.problem
        if mine is None or mine.matrix is not problem.matrix or not self.rule.multipliers["multiplier"].any():
            return False
        wide = (mine.rows.lower <= problem.rows.lower) & (mine.rows.upper >= problem.rows.upper)
        return bool(wide.all())


@stage(SOLVING)
def solve_problem(problem: FairProblem, start: Solution | None = None) -> Solution:
    """Return the most accurate rule within the bounds of ``problem``; start : the solution of a similar problem.

    Where the bounds could not be kept to the last digit the certificate says by how much (``excess``); where no rule
    keeps them InfeasibleError is raised. The loop ends: the cap is raised once, a rule is confirmed once per
    temperature, and temperatures fall to the last.
    """
    clock = time.perf_counter()
    refuse_fixed_rows(problem)
    search = Search(problem, start)
    rule = search.unconstrained_rule()
    if rule is not None:
        return with_seconds(Solution(rule, search.anchor, problem), clock)
    search.cool_or_resume()
    while True:
        if search.is_capped():
            search.raise_cap()
            continue
        rule = search.certified_rule()
        if search.needs_confirmation(rule):
            search.confirm()
        elif search.is_finished(rule):
            search.refuse_if_outside(rule)
            return with_seconds(Solution(rule, search.anchor, problem), clock)
        else:
            search.cool_further()


def with_seconds(solution: Solution, clock: float) -> Solution:
    """Return the same solution; its certificate says the seconds since ``clock``."""
    certificate = replace(solution.rule.certificate, seconds=time.perf_counter() - clock)
    return replace(solution, rule=replace(solution.rule, certificate=certificate))


def refuse_fixed_rows(problem: FairProblem) -> None:
    """Raise InfeasibleError if a row that no rule can move (rows of the user, mostly) is outside its bounds."""
    rows, values = problem.rows, problem.constants[:, 0]
    outside = np.maximum(values - rows.upper, rows.lower - values)
    broken = np.flatnonzero(problem.fixed & (outside > ROUNDING))
    if len(broken):
        loosening = least = float(outside[broken].max())
        names = [rows.names[k] for k in broken]
        wider = replace(rows, lower=rows.lower - least, upper=rows.upper + least)
        try:
            refuse_if_infeasible(problem.posterior, wider, problem.options)
        except InfeasibleError as error:
            names, loosening, least = names + error.rows, loosening + error.loosening, least + error.lower_bound
        raise InfeasibleError(names, loosening, least)


def unconstrained_rule(problem: FairProblem) -> FairRule:
    """Return the most accurate rule of all, a plain argmax."""
    return argmax_rule(problem, np.zeros(problem.matrix.shape[0]))


def argmax_rule(problem: FairProblem, lam: np.ndarray) -> FairRule:
    """Return the rule argmax z W(λ), with what is known about it."""
    return certify(problem, make_draft(problem, lam, np.zeros(problem.posterior.n_cells)))


class Search:
    """The state of one solve: what `solve_problem` has found so far, and the phases that change it.

    minimum : the best multipliers so far. temperature : τ they belong to. passes : over all rows. anchor : where the
    last polish ended. box, max_residual : the bounds that the solver aims at, and the KKT residual that keeps the rule
    within the stated ones; `aim` sets both. fixed_temperature : the one asked for, or None. bound_multipliers : λ of
    the exact program, where that was solved: it proves the best upper bound.
    """

    minimum: Minimum
    box: Box
    max_residual: float

    def __init__(self, problem: FairProblem, start: Solution | None) -> None:
        self.problem, self.options, self.start = problem, problem.options, start
        self.anchor = None if start is None else start.anchor
        self.factors, self.fixed_temperature = cell_temperatures(problem)
        measures = [problem.posterior] + ([] if problem.sample is problem.posterior else [problem.sample])
        duals, self.dual_factors = merge_problems([self.dual(m) for m in measures], self.factors, problem.merged)
        self.solver = DualSolver(duals[0], duals[-1], self.options.seed, self.options.max_passes)
        self.bound_multipliers: np.ndarray | None = None
        self.temperature, self.passes = 0.0, 0
        self.has_proof_search = False  # whether it was asked already if any rule is within the bounds

    def dual(self, measure: Measure) -> DualProblem:
        """Return the dual problem on a measure, with a D of its own.

        Not the problem's: other operations sort the entries of that one in place, which changes the last bit of sums.
        """
        return DualProblem(measure, self.problem.rows.matrix(measure.prior), self.problem.utility.matrix)

    def unconstrained_rule(self) -> FairRule | None:
        """Return the unconstrained rule if it is within the bounds; on all rows only where the sketch gives hope.

        Where a rule with wider bounds already had a price, there is none.
        """
        if self.start is not None and self.start.is_wider(self.problem):
            return None
        tau = SETTINGS.argmax_temperature * self.dual_factors
        values = self.solver.sketch.evaluate(np.zeros(self.problem.matrix.shape[0]), tau).values
        if self.problem.rows.excess(values) > DRIVER.promising_excess:
            return None
        rule = unconstrained_rule(self.problem)
        return rule if rule.certificate.excess == 0.0 else None

    # -- the first multipliers -----------------------------------------------------------------------------
    def cool_or_resume(self) -> None:
        """Find multipliers: by polishing those of the start if that converges, else by cooling a sketch."""
        lam = self.first_multipliers()
        if self.start is not None and lam.any():
            # Neighbours on a path share their temperature, and the local sketches of the polish bridge the rest.
            tau = self.fixed_temperature
            self.temperature = self.start.rule.certificate.temperature if tau is None else tau
            self.polish(self.aim(lam), anchor=self.anchor)
            if self.minimum.converged:
                return
        self.cool(lam, self.fixed_temperature)

    def first_multipliers(self) -> np.ndarray:
        """Return λ to begin with, (K,): of the exact program, of the start, or zero."""
        problem = self.problem
        if self.options.method == "lp":
            try:
                lam = solve_exact(problem.posterior, problem.rows, problem.utility.matrix).multipliers
            except InfeasibleError:
                refuse_if_infeasible(problem.posterior, problem.rows, self.options)
                raise
            self.bound_multipliers = lam
            if self.fixed_temperature is None:
                self.fixed_temperature = SETTINGS.last_temperature
            return lam
        if self.start is None:
            return np.zeros(problem.matrix.shape[0])
        return matching_multipliers(self.start.rule.multipliers, problem.rows) / problem.utility.scale

    def aim(self, lam: np.ndarray) -> np.ndarray:
        """Aim a little inside the stated bounds, so that a rule which misses its aim is still within; return λ, capped.

        The margin is a hundredth of the tolerance, or less where multipliers are large: it costs margin · ‖λ‖₁ of
        accuracy, which must stay a small share of the gap (`DriverSettings`). ‖λ‖₁ is capped where no constant rule is
        inside: the request may then be infeasible, and multipliers would grow without end.
        """
        rows, options = self.problem.rows, self.options
        norm = self.problem.utility.scale * float(np.abs(lam).sum())
        two_sided = np.isfinite(rows.lower) & np.isfinite(rows.upper)
        half = np.where(two_sided, (rows.upper - rows.lower) / 2, 1.0)
        norm = np.clip(norm or DRIVER.expected_price, DRIVER.least_price, DRIVER.largest_price)
        most = DRIVER.margin_of_gap * options.gap / norm
        margin = np.where(self.problem.fixed, 0.0, np.minimum(most, DRIVER.margin * half))
        single = self.problem.posterior.dtype == np.float32
        noise = DRIVER.least_residual_single if single else DRIVER.least_residual_double
        equality = DRIVER.equality_residual if (half == 0).any() else most
        self.max_residual = max(float(margin[margin > 0].min(initial=equality)), noise)
        lower, upper = rows.lower + margin, rows.upper - margin
        if options.max_multiplier is not None:
            cap = options.max_multiplier / self.problem.utility.scale
        else:
            cap = np.inf if surely_feasible(lower, upper, self.problem.constants) else DRIVER.first_cap
        self.box = Box(lower, upper, cap)
        return lam * min(1.0, cap / max(float(np.abs(lam).sum()), 1e-300))

    # -- phases --------------------------------------------------------------------------------------------
    def cool(self, lam: np.ndarray, tau: float | None, *, aim: bool = True) -> None:
        """Aim, then solve on the sketch down to temperature τ (None: as the gap asks for) and on all rows."""
        lam = self.aim(lam) if aim else lam
        self.accept(self.solver.cool(self.box, lam, self.dual_factors, tau, self.max_residual, self.options.gap))

    def polish(self, lam: np.ndarray, anchor: Anchor | None = None, *, trust: bool = True) -> None:
        """Solve on all rows at the present temperature."""
        arguments = self.box, lam, self.dual_factors, self.temperature, self.max_residual
        self.accept(self.solver.polish(*arguments, anchor=anchor, trust=trust))

    def accept(self, solution: DualSolution) -> None:
        """Go on from a solution of the dual."""
        self.minimum, self.temperature, self.anchor = solution.minimum, solution.temperature, solution.anchor
        self.passes += solution.passes
        tick(SOLVING, 0, passes=self.passes)

    def is_capped(self) -> bool:
        """Tell whether the multipliers have reached a cap that only stands for not knowing whether a rule exists."""
        cap = self.box.cap
        return self.options.max_multiplier is None and self.norm() >= DRIVER.at_cap * cap and cap < DRIVER.last_cap

    def raise_cap(self) -> None:
        """Refuse the request if it is proven infeasible; else give up the margin, which may be out of reach."""
        problem = self.problem
        self.look_for_proof()
        self.box = Box(problem.rows.lower, problem.rows.upper, DRIVER.last_cap)
        self.max_residual = max(self.max_residual, DRIVER.relaxed_residual)
        self.polish(self.minimum.point.multipliers, trust=False)

    def look_for_proof(self) -> None:
        """Refuse the request if it is proven infeasible; once is enough."""
        if not self.has_proof_search:
            refuse_if_infeasible(self.problem.posterior, self.problem.rows, self.options)
        self.has_proof_search = True

    def refuse_if_outside(self, rule: FairRule) -> None:
        """Refuse the request if the last rule is outside its bounds because no rule is within them."""
        if self.options.max_multiplier is None and rule.certificate.excess > DRIVER.slack:
            self.look_for_proof()

    def certified_rule(self) -> FairRule:
        """Return the rule of the multipliers of least norm, with its proof."""
        problem, point = self.problem, self.minimum.point
        m = problem.posterior.n_classes
        with one_blas_thread():
            lam = least_norm(self.solver.problem.matrix, m, self.box, point.multipliers, point.values, self.temperature)
        draft = make_draft(problem, lam, self.factors * self.temperature)
        rule = certify(problem, draft, self.passes, self.box, self.bound_multipliers)
        tick(SOLVING, 0, gap=rule.certificate.gap)
        return rule

    def needs_confirmation(self, rule: FairRule) -> bool:
        """Tell whether multipliers that are known from a sketch alone gave a rule that is not good enough."""
        missed = self.is_wide(rule) or rule.certificate.excess > 0 or rule.share > 0
        return missed and not self.minimum.confirmed

    def confirm(self) -> None:
        """Polish once more, to the last pass."""
        self.polish(self.minimum.point.multipliers, trust=False)

    def is_finished(self, rule: FairRule) -> bool:
        """Tell whether the gap is reached, or cooling would not help to reach it."""
        stuck = self.norm() >= DRIVER.at_cap * self.box.cap and not self.minimum.converged
        coldest = self.fixed_temperature is not None or self.temperature <= SETTINGS.last_temperature
        return coldest or stuck or not self.is_wide(rule)

    def cool_further(self) -> None:
        """Lower the temperature by a factor; aim again, since prices above the expected one make the margin dear."""
        tau = max(self.temperature / DRIVER.colder, SETTINGS.last_temperature)
        has_margin = self.box.cap < DRIVER.last_cap or np.isinf(self.box.cap)  # else it was given up already
        self.cool(self.minimum.point.multipliers, tau, aim=has_margin)

    def is_wide(self, rule: FairRule) -> bool:
        """Tell whether the certified gap is above the one asked for."""
        return rule.certificate.gap > self.options.gap * self.problem.utility.scale

    def norm(self) -> float:
        """Return ‖λ‖₁."""
        return float(np.abs(self.minimum.point.multipliers).sum())


def cell_temperatures(problem: FairProblem) -> tuple[np.ndarray, float | None]:
    """Return (factors per cell ≥ 1, (p,); the common temperature, or None where the gap decides)."""
    A, m = problem.posterior.prior.shape
    if problem.options.automatic:
        people = np.maximum(problem.posterior.n * problem.posterior.prior.sum(axis=1), 1e-9)
        factors = np.clip(DRIVER.smooth_people / people / DRIVER.smooth_temperature, 1.0, DRIVER.max_smoothing)
        return np.repeat(factors / factors.min(), m), None
    tau = np.asarray(problem.options.temperature, dtype=np.float64)
    if tau.shape not in ((), (A,), (A, m)):
        raise ValueError(f"temperature: has shape {tau.shape}; expected a number, ({A},) or ({A}, {m}).")
    cells = np.broadcast_to(tau if tau.ndim != 1 else tau[:, None], (A, m)).ravel()
    return cells / cells.min(), float(cells.min())
