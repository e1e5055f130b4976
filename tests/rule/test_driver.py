"""Test how a problem is solved: warm starts, sketches and threads lead to the same answer; how a solve ends."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from optfair import Rows, solve
from optfair.constraints import Constraint
from optfair.dual.settings import SETTINGS
from optfair.rule.certificate import Status
from optfair.rule.driver import Solution, argmax_rule, solve_problem, unconstrained_rule, with_seconds
from tests.problems import KINDS, aware, blind, compiled


def assert_same_optimum(first, second):
    """Check that both are within bounds, each accuracy below each bound, and both within their gap of each other."""
    assert first.excess == second.excess == 0.0
    gap = max(first.gap, second.gap)
    assert min(first.gap, second.gap) >= -1e-12 and gap <= 1e-3
    assert first.accuracy <= second.upper_bound + 1e-9 and second.accuracy <= first.upper_bound + 1e-9
    assert abs(first.accuracy - second.accuracy) <= gap
    assert abs(first.upper_bound - second.upper_bound) <= gap


@pytest.fixture(scope="module")
def solve_many(many_rows):
    """Return a function that solves for many rows, once for each kind and criterion."""
    return cache(lambda kind, criterion: solve(many_rows[kind], criterion, 0.002, n_jobs=1, random_state=0))


# -- warm starts -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_warm_start_gives_the_same_answer_in_at_most_a_third_of_the_passes(criterion):
    Z = aware(22, 2000)
    cold = solve(Z, criterion, 0.01, n_jobs=1)
    near = solve(Z, criterion, 0.012, n_jobs=1)
    for start in (cold, near):
        warm = solve(Z, criterion, 0.01, start=start, n_jobs=1).certificate
        assert warm.passes <= cold.certificate.passes / 3
        assert_same_optimum(warm, cold.certificate)


def test_warm_start_matches_rows_by_name():
    """A start for other outcomes or without a common row is as good as none."""
    Z = aware(22, 500)
    cold = solve(Z, "dp", 0.01, n_jobs=1)
    for start in (solve(Z, "oae", 0.01, n_jobs=1), solve(Z, "dp", 0.01, outcomes=[1], n_jobs=1)):
        warm = solve(Z, "dp", 0.01, start=start, n_jobs=1)
        assert warm.certificate.excess == 0.0
        assert abs(warm.certificate.accuracy - cold.certificate.accuracy) <= 1e-3


def test_a_solution_can_be_resumed_twice(prepare, many_rows):
    """What a resumed solve draws and shifts is its own, so that the second answer is the first, bit by bit."""
    problem = prepare(many_rows["blind"], "eo", 0.004)
    start = solve_problem(problem)
    neighbour = problem.with_constraints([Constraint("eo", 0.003)])
    first, second = (solve_problem(neighbour, start).rule for _ in range(2))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert first.certificate.passes == second.certificate.passes > 0


def test_a_start_is_a_solution_or_a_rule_alone(prepare, many_rows):
    """With its anchor a neighbouring problem saves the first pass; a rule alone gives its multipliers."""
    problem = prepare(many_rows["aware"], "dp", 0.004)
    start = solve_problem(problem)
    neighbour = problem.with_constraints([Constraint("dp", 0.003)])
    cold, bare, resumed = (solve_problem(neighbour, s).rule for s in (None, Solution(start.rule), start))
    for warm in (bare, resumed):
        assert_same_optimum(warm.certificate, cold.certificate)
    assert start.anchor is not None and Solution(start.rule).anchor is None
    assert resumed.certificate.passes < bare.certificate.passes <= cold.certificate.passes


@pytest.mark.parametrize("seed", range(3))
def test_an_anchor_of_another_matrix_with_the_same_row_names_is_not_used(prepare, many_rows, seed):
    """Rows(D1), then Rows(D2) of the same names and shape: the same as solving for D2 from scratch."""
    Z, rng = many_rows["aware"], np.random.default_rng(seed)
    D1, D2 = (rng.standard_normal((2, 27)) for _ in range(2))
    uniform = np.repeat(Z.mean(axis=0).ravel(), 3) / 3  # J of the uniform rule, which is within the bounds

    def constraints(D):
        return [Rows(D, D @ uniform - 0.01, D @ uniform + 0.01, ["first", "second"])]

    problem = prepare(Z, constraints(D1))
    assert problem.sample is not problem.posterior  # more than 45,000 rows: anchors are used
    start = solve_problem(problem)
    other = problem.with_constraints(constraints(D2))
    warm, cold = solve_problem(other, start), solve_problem(other)
    assert start.rule.certificate.gap <= 1e-3
    assert_same_optimum(warm.rule.certificate, cold.rule.certificate)
    assert np.abs(cold.rule.multipliers["multiplier"]).max() > 1e-2  # there was something to do
    assert not start.anchor.fits(cold.anchor.dual.problem, start.anchor.dual.tau)
    assert warm.anchor.fits(cold.anchor.dual.problem, warm.anchor.dual.tau)


# -- sketches and threads ----------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
@pytest.mark.parametrize("kind", KINDS)
def test_sketch_and_polish_agree_with_a_direct_solve(many_rows, solve_many, kind, criterion, monkeypatch):
    sketched = solve_many(kind, criterion).certificate
    monkeypatch.setattr("optfair.dual.posterior.SETTINGS", replace(SETTINGS, sketch_rows=1_000_000))
    direct = solve(many_rows[kind], criterion, 0.002, n_jobs=1).certificate
    assert_same_optimum(sketched, direct)
    assert sketched.passes < direct.passes


def test_results_do_not_depend_on_the_number_of_threads(many_rows, solve_many):
    Z, first = many_rows["blind"], solve_many("blind", "eo")
    second = solve(Z, "eo", 0.002, n_jobs=2, random_state=0)
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(first.multipliers["multiplier"], second.multipliers["multiplier"])
    np.testing.assert_array_equal(first.predict_proba(Z, n_jobs=1), second.predict_proba(Z, n_jobs=2))
    assert first.certificate.upper_bound == second.certificate.upper_bound
    assert first.certificate.accuracy == second.certificate.accuracy


def test_the_seed_of_the_sketch_does_not_change_the_answer_beyond_the_gap(many_rows, solve_many):
    first = solve_many("aware", "dp").certificate
    second = solve(many_rows["aware"], "dp", 0.002, n_jobs=1, random_state=2).certificate
    assert first.accuracy != second.accuracy
    assert_same_optimum(first, second)


def test_weights_of_zero_leave_rows_out_of_a_sketch(many_rows):
    Z = many_rows["aware"]
    keep = np.arange(len(Z)) % 5 > 0
    weighted = solve(Z, "dp", 0.002, sample_weight=keep, n_jobs=1).certificate
    assert_same_optimum(weighted, solve(Z[keep], "dp", 0.002, n_jobs=1).certificate)


def test_float32_gives_the_same_answer_within_the_gap(many_rows, solve_many):
    wide = solve_many("blind", "eo").certificate
    narrow = solve(many_rows["blind"].astype(np.float32), "eo", 0.002, n_jobs=1).certificate
    assert narrow.excess == 0.0
    assert narrow.gap <= 1e-3
    assert abs(wide.accuracy - narrow.accuracy) <= max(wide.gap, narrow.gap) + 1e-6


# -- how a solve ends --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, Status.OPTIMAL),
        ({"tolerance": 1.0}, Status.UNCONSTRAINED),
        ({"temperature": 0.1}, Status.TEMPERATURE_COST),
        ({"temperature": 1e-3}, Status.OPTIMAL),
        ({"gap": 1e-9}, Status.COLDEST_REACHED),
        ({"max_multiplier": 0.05}, Status.OUTSIDE),
    ],
    ids=str,
)
def test_the_status_says_how_the_solve_ended(options, status):
    c = solve(aware(3, 300), "dp", **({"tolerance": 0.01} | options), n_jobs=1).certificate
    assert c.status is status
    assert (c.gap <= options.get("gap", 1e-3)) == (status in (Status.OPTIMAL, Status.UNCONSTRAINED, Status.OUTSIDE))
    assert (c.excess > 1e-4) == (status is Status.OUTSIDE)
    assert (c.temperature == 0) == (status is Status.UNCONSTRAINED)
    if status is Status.COLDEST_REACHED:
        assert c.temperature == SETTINGS.last_temperature
    assert ("because max_multiplier is active" in c.notes) == ("max_multiplier" in options)


def test_rules_without_a_temperature(prepare):
    """The unconstrained rule, and the argmax of any multipliers."""
    problem = prepare(aware(3, 300), "dp", 0.01)
    free = unconstrained_rule(problem)
    assert free.certificate.status is Status.UNCONSTRAINED and not free.temperatures.any()
    assert free.certificate.gap == 0 and free.certificate.excess > 0.01
    assert len(free.certificate.notes) == 1 and free.certificate.notes[0].startswith("outside its bounds by ")
    fair = solve_problem(problem).rule
    hard = argmax_rule(problem, fair.multipliers["multiplier"].to_numpy())
    assert hard.certificate.status is Status.ARGMAX and not hard.temperatures.any()
    np.testing.assert_allclose(hard.weights, fair.weights, atol=1e-12)
    assert hard.certificate.accuracy == pytest.approx(fair.determinism.accuracy_argmax, abs=1e-12)
    assert hard.certificate.violation == pytest.approx(fair.determinism.violation_argmax, abs=1e-12)


def test_seconds_are_those_of_the_solve(prepare):
    solution = solve_problem(prepare(blind(3, 100), "dp", 0.01))
    assert solution.rule.certificate.seconds > 0
    later = with_seconds(solution, -1e6)
    assert later.rule.certificate.seconds > 1e6 and later.anchor is solution.anchor
    assert replace(later.rule.certificate, seconds=0) == replace(solution.rule.certificate, seconds=0)


def test_the_rule_of_a_problem_is_that_of_solve(prepare):
    Z = aware(3, 200)
    direct = solve(Z, "eo", 0.01, random_state=0, n_jobs=1)
    solved = solve_problem(prepare(Z, "eo", 0.01, random_state=0)).rule
    assert solved.weights.tobytes() == direct.weights.tobytes() and solved.key == direct.key
    assert replace(solved.certificate, seconds=0) == replace(direct.certificate, seconds=0)


def test_bounds_given_directly_are_those_of_the_constraint(prepare):
    Z = aware(3, 200)
    loose, rows = prepare(Z, "dp", 0.5), compiled(Z, "dp", 0.01)[1]
    moved_bounds = solve_problem(loose.with_bounds(rows.lower, rows.upper)).rule
    direct = solve(Z, "dp", 0.01, random_state=0, n_jobs=1)
    assert moved_bounds.weights.tobytes() == direct.weights.tobytes()
    assert moved_bounds.certificate.excess == direct.certificate.excess == 0
