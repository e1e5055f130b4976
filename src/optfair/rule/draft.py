"""Turn multipliers and temperatures into a certified rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from optfair.constraints.rows import ROUNDING
from optfair.dual.penalty import Box
from optfair.dual.problem import cell_weights
from optfair.dual.settings import DRIVER, SETTINGS
from optfair.rule.certificate import Assessment, Certificate, Probabilities, Status, assess
from optfair.rule.determinism import determinism
from optfair.rule.feasibility import best_mixture
from optfair.rule.keys import new_key
from optfair.rule.multipliers import multiplier_table
from optfair.rule.problem import FairProblem
from optfair.rule.rule import FairRule, rule_probabilities
from optfair.rule.score_terms import ScoreTerms

IMPOSSIBLE = 1e-9  # weak duality leaves no bound further below the value than rounding, which grows with ‖λ‖₁


@dataclass(frozen=True, eq=False)
class RuleDraft:
    """A rule that is not yet certified: λ (K,), W (p, m), τ (p,), and the constant (m,) that it is mixed with.

    probabilities : the function (Z, offset) -> h(x).
    """

    multipliers: np.ndarray
    weights: np.ndarray
    tau: np.ndarray
    share: float
    constant: np.ndarray
    probabilities: Probabilities


def make_draft(
    problem: FairProblem, lam: np.ndarray, tau: np.ndarray, share: float = 0.0, constant: np.ndarray | None = None
) -> RuleDraft:
    """Return the rule of multipliers λ (K,) at temperatures τ (p,), all zero for an argmax; mixed with a constant."""
    m, U = problem.posterior.n_classes, problem.utility.matrix
    W = cell_weights(U, problem.matrix, lam) if lam.any() else U
    q = np.full(m, 1.0 / m) if constant is None else constant
    return RuleDraft(lam, W, tau, share, q, partial(rule_probabilities, W=W, tau=tau, share=share, constant=q))


def certify(
    problem: FairProblem,
    draft: RuleDraft,
    passes: int = 0,
    box: Box | None = None,
    bound_multipliers: np.ndarray | None = None,
) -> FairRule:
    """Return the rule of a draft with its proof, mixed with a constant if that restores the tolerance for little.

    box : the bounds aimed at, None for a plain argmax. bound_multipliers : λ of the upper bound, if not the draft's.
    """
    posterior, rows, utility = problem.posterior, problem.rows, problem.utility
    lam = draft.multipliers if bound_multipliers is None else bound_multipliers
    parts = posterior, rows, problem.matrix
    proof = assess(*parts, draft.probabilities, utility.matrix, lam, draft.weights)
    residual = 0.0 if box is None else box.residual(draft.multipliers, proof.values)
    if box is not None and proof.excess > 0:
        mixture = mix_with_constant(problem, draft, proof)
        if mixture is not None:
            draft, proof = mixture, assess(*parts, mixture.probabilities, utility.matrix, lam, mixture.weights)
    bound = proof.bound
    if bound - proof.gain > DRIVER.loose_bound:  # λ proves little: the unconstrained optimum is a bound too
        free = np.zeros_like(lam)
        bound = min(bound, assess(*parts, draft.probabilities, utility.matrix, free).dual_value)
    if bound < proof.gain - IMPOSSIBLE * max(1.0, float(np.abs(lam).sum())):
        raise RuntimeError(
            f"certificate: the upper bound {bound!r} is below the value {proof.gain!r} of the rule itself; this is an "
            "error of optfair, please report it."
        )
    status, notes = outcome(problem, draft, bound - proof.gain, proof.excess)
    mass = float(posterior.prior.sum())
    value, bound = utility.in_units(proof.gain, mass), utility.in_units(bound, mass)
    A, m = posterior.prior.shape
    return FairRule(
        weights=draft.weights.reshape(A, m, m),
        temperatures=draft.tau.reshape(A, m),
        share=draft.share,
        constant=draft.constant,
        groups=posterior.groups,
        classes=posterior.classes,
        multipliers=multiplier_table(rows, lam * utility.scale, proof.values),
        terms=ScoreTerms.of_rows(rows, posterior.prior, utility.matrix, draft.multipliers),
        key=new_key(problem.options.random_state),
        determinism=determinism(posterior, rows, problem.matrix, proof, draft.probabilities),
        certificate=Certificate(
            accuracy=proof.accuracy,
            value=value,
            upper_bound=bound,
            gap=0.0 if abs(bound - value) < ROUNDING else bound - value,
            violation=proof.violation,
            excess=proof.excess,
            tolerance=rows.tolerances,
            temperature=float(draft.tau.min()),
            passes=passes,
            residual=residual,
            seconds=0.0,
            status=status,
            notes=notes,
        ),
    )


def mix_with_constant(problem: FairProblem, draft: RuleDraft, proof: Assessment) -> RuleDraft | None:
    """Return the draft mixed with the best constant that restores its bounds, if that costs less than the gap."""
    rows, gains = problem.rows, problem.constant_gains()
    lower, upper = rows.lower + ROUNDING, rows.upper - ROUNDING  # rounding must not leave the mixture outside
    mixture = best_mixture(lower, upper, proof.values, proof.gain, problem.constants, gains)
    if mixture is None or mixture[0] * (proof.gain - float(mixture[1] @ gains)) > problem.options.gap:
        return None
    return make_draft(problem, draft.multipliers, draft.tau, *mixture)


def outcome(problem: FairProblem, draft: RuleDraft, gap: float, excess: float) -> tuple[Status, tuple[str, ...]]:
    """Return the status that a certified gap, in units of the utility, means, and notes."""
    options = problem.options
    if not draft.tau.any():
        status = Status.ARGMAX if draft.multipliers.any() else Status.UNCONSTRAINED
    elif gap <= options.gap:
        status = Status.OPTIMAL if excess <= DRIVER.slack else Status.OUTSIDE
    elif not options.automatic:
        status = Status.TEMPERATURE_COST
    elif draft.tau.min() <= SETTINGS.last_temperature:
        status = Status.COLDEST_REACHED
    else:
        status = Status.MAX_PASSES
    notes = []
    if excess > 0:
        notes.append(f"outside its bounds by {excess:.1e}; the upper bound is for rules that are allowed the same")
        norm = problem.utility.scale * float(np.abs(draft.multipliers).sum())
        if options.max_multiplier is not None and norm >= DRIVER.at_cap * options.max_multiplier:
            notes.append("because max_multiplier is active")
    if draft.share > 0:
        notes.append(f"mixed with a constant rule for {draft.share:.2%} of decisions to stay within tolerance")
    return status, tuple(notes)
