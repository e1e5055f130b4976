"""Test how multipliers become a certified rule: the status, the notes, and the mixture with a constant."""

from dataclasses import replace

import numpy as np
import pytest

from optfair.constraints import as_constraints
from optfair.dual.penalty import Box
from optfair.dual.settings import SETTINGS
from optfair.rule.certificate import Status
from optfair.rule.draft import certify, make_draft, outcome
from optfair.rule.driver import solve_problem
from tests.problems import aware

COLDEST = SETTINGS.last_temperature
LAM = np.array([0.5, *np.zeros(8)])


@pytest.fixture(scope="module")
def problem(prepare):
    return prepare(aware(3, 300), "dp", 0.01, gap=1e-3)


@pytest.mark.parametrize(
    ("lam", "tau", "gap", "temperature", "status"),
    [
        (0 * LAM, 0.0, 0.0, "auto", Status.UNCONSTRAINED),
        (LAM, 0.0, 0.5, "auto", Status.ARGMAX),
        (LAM, 0.1, 1e-3, "auto", Status.OPTIMAL),
        (LAM, COLDEST, 1e-3, "auto", Status.OPTIMAL),
        (LAM, 0.1, 1e-3, 0.1, Status.OPTIMAL),
        (LAM, 0.1, 1.1e-3, 0.1, Status.TEMPERATURE_COST),
        (LAM, COLDEST, 1.1e-3, COLDEST, Status.TEMPERATURE_COST),
        (LAM, COLDEST, 1.1e-3, "auto", Status.COLDEST_REACHED),
        (LAM, 2 * COLDEST, 1.1e-3, "auto", Status.MAX_PASSES),
    ],
)
def test_the_status_of_a_certified_gap(problem, lam, tau, gap, temperature, status):
    problem = replace(problem, options=replace(problem.options, temperature=temperature))
    assert outcome(problem, make_draft(problem, lam, np.full(9, tau)), gap, 0.0) == (status, ())


def test_a_rule_outside_its_bounds_is_not_called_optimal(problem):
    draft = make_draft(problem, LAM, np.full(9, 0.1))
    for excess, status in ((0.0, Status.OPTIMAL), (1e-4, Status.OPTIMAL), (1.1e-4, Status.OUTSIDE)):
        assert outcome(problem, draft, 1e-3, excess)[0] is status


def test_notes_say_what_else_a_reader_should_know(problem):
    tau = np.full(9, 0.1)
    plain, mixed = make_draft(problem, LAM, tau), make_draft(problem, LAM, tau, 0.0125)
    outside = "outside its bounds by 2.0e-03; the upper bound is for rules that are allowed the same"
    mixture = "mixed with a constant rule for 1.25% of decisions to stay within tolerance"
    assert outcome(problem, plain, 0.0, 2e-3)[1] == (outside,)
    assert outcome(problem, mixed, 0.0, 0.0)[1] == (mixture,)
    assert outcome(problem, mixed, 0.0, 2e-3)[1] == (outside, mixture)
    for cap, is_active in ((0.5, True), (0.505, True), (0.51, False)):  # ‖λ‖₁ is 0.5, at 99 % it counts as capped
        capped = replace(problem, options=replace(problem.options, max_multiplier=cap))
        notes = outcome(capped, plain, 0.0, 2e-3)[1]
        assert notes == ((outside, "because max_multiplier is active") if is_active else (outside,))
        assert outcome(capped, plain, 0.0, 0.0)[1] == ()


def test_a_rule_that_is_a_little_outside_is_mixed_with_a_constant(problem):
    """The mixture is within the bounds, and costs less than the gap."""
    fair = certify(problem, *fair_draft(problem, 0.01))
    assert fair.certificate.excess == 0
    draft, passes, box = fair_draft(problem, 0.0101)
    rule = certify(problem, draft, passes, box)
    assert 0 < rule.share < 0.02 and rule.certificate.excess == 0
    assert rule.certificate.notes == (
        f"mixed with a constant rule for {rule.share:.2%} of decisions to stay within tolerance",
    )
    Z = problem.posterior.Z
    pure = draft.probabilities(Z.reshape(len(Z), -1), None)
    np.testing.assert_allclose(rule.predict_proba(Z), (1 - rule.share) * pure + rule.share * rule.constant, atol=1e-12)
    # where the mixture would cost more than the gap, the rule stays as it is and says that it is outside
    strict = replace(problem, options=replace(problem.options, gap=1e-7))
    outside = certify(strict, draft, passes, box)
    assert outside.share == 0 and outside.certificate.excess > 0


def fair_draft(problem, tolerance):
    """Return (the draft of the rule that `solve` finds for a tolerance, passes, the bounds)."""
    rule = solve_problem(problem.with_constraints(as_constraints("dp", tolerance))).rule
    draft = make_draft(problem, rule.multipliers["multiplier"].to_numpy(), rule.temperatures.ravel())
    return draft, 0, Box(problem.rows.lower, problem.rows.upper)
