"""Test the statement of the problem: frozen, its parts are what they say, costs become a utility."""

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from optfair import Constraint, MinimumRate, Rows
from optfair.constraints import as_constraints
from optfair.dual.posterior import check_posterior
from optfair.dual.settings import SETTINGS
from optfair.rule.driver import solve_problem
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem, make_utility
from tests.problems import blind, confusion, costs, weights

N = 80
OFFSET = np.random.default_rng(0).standard_normal((N, 3))


@pytest.fixture(params=["plain", "weights", "offset", "costs"])
def problem(request, prepare):
    measure = {"weights": {"sample_weight": weights(0)}, "offset": {"offset": OFFSET}}.get(request.param)
    return prepare(blind(1), "eo", 0.02, costs(1) if request.param == "costs" else None, measure)


def constant_rule(j):
    return np.tile(np.eye(3)[j], (N, 1))


def test_a_problem_is_frozen(problem):
    for field in fields(FairProblem):
        with pytest.raises(FrozenInstanceError):
            setattr(problem, field.name, None)
    for part in (problem.options, problem.utility, problem.rows, problem.posterior):
        with pytest.raises(FrozenInstanceError):
            part.anything = 1


def test_other_constraints_and_bounds_are_other_problems(problem):
    before = {field.name: getattr(problem, field.name) for field in fields(FairProblem)}
    lower, upper = before["rows"].lower.copy(), before["rows"].upper.copy()
    options = Options(gap=0.5)
    other = problem.with_constraints([Constraint("dp", 0.1)], options)
    wider = problem.with_bounds(lower - 1, upper + 1)
    assert all(getattr(problem, name) is value for name, value in before.items())
    np.testing.assert_array_equal(problem.rows.lower, lower)
    assert other.options is options and len(other.rows) == 9 and other.matrix.shape == (9, 27)
    assert problem.with_constraints([Constraint("dp", 0.1)]).options is problem.options
    assert other.posterior is wider.posterior is problem.posterior and other.sample is problem.sample
    np.testing.assert_array_equal(wider.rows.lower, lower - 1)
    np.testing.assert_array_equal(wider.rows.upper, upper + 1)
    assert wider.matrix is problem.matrix and wider.rows.names == problem.rows.names


def test_constants_are_the_values_of_constant_rules(problem):
    measure = problem.posterior
    for j in range(3):
        J = confusion(measure.Z, constant_rule(j), measure.weight)
        np.testing.assert_allclose(problem.constants[:, j], problem.matrix @ J.ravel(), atol=1e-12)
        offset = 0.0 if measure.offset is None else measure.offset[:, j].mean()
        gain = (J.reshape(9, 3) * problem.utility.matrix).sum() + offset
        assert problem.constant_gains()[j] == pytest.approx(gain, abs=1e-12)


def test_fixed_rows_are_those_that_no_rule_can_move(problem):
    D = np.zeros((2, 3, 3, 3))
    D[0, 0] = 1  # the share of a group
    D[1, 0, 0, 0] = 1
    other = problem.with_constraints([Constraint("dp"), Rows(D, upper=2), MinimumRate("recall", 0.1)])
    np.testing.assert_array_equal(np.flatnonzero(other.fixed), [9])


def test_many_rows_have_a_sample(prepare, monkeypatch):
    small = prepare(blind(1), "dp")
    assert small.sample is small.posterior
    monkeypatch.setattr("optfair.dual.posterior.SETTINGS", replace(SETTINGS, sketch_rows=20))
    problem = prepare(blind(1), "dp", random_state=3)
    assert problem.sample.n == 20 and problem.posterior.leverage is not None
    np.testing.assert_array_equal(problem.sample.Z, small.posterior.with_sample(3)[1].Z)


# -- utilities ---------------------------------------------------------------------------------------------
def test_accuracy_is_the_utility_without_costs():
    utility = make_utility(None, 2, 3)
    np.testing.assert_array_equal(utility.matrix, np.tile(np.eye(3), (2, 1)))
    assert (utility.scale, utility.from_costs) == (1.0, False)
    assert utility.in_units(0.7) == 0.7 == utility.in_units(0.7, mass=0.9)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_a_utility_from_costs_is_between_zero_and_one_and_has_their_units(shape):
    R = np.random.default_rng(0).uniform(-5, 20, shape)
    utility = make_utility(R, 2, 3)
    assert utility.matrix.shape == (6, 3) and utility.from_costs
    assert utility.matrix.min() == 0 and utility.matrix.max() == 1
    J = np.random.default_rng(1).dirichlet(np.ones(18)).reshape(2, 3, 3)
    for mass in (1.0, 0.9995):
        gain = (utility.matrix.reshape(2, 3, 3) * J * mass).sum()
        assert utility.in_units(gain, mass) == pytest.approx(-(np.broadcast_to(R, J.shape) * J * mass).sum(), abs=1e-12)


def test_costs_that_are_all_equal_make_every_rule_as_good():
    utility = make_utility(np.full((3, 3), 4.0), 2, 3)
    assert not utility.matrix.any() and utility.scale == 1.0
    assert utility.in_units(0.0) == -4.0


@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 1e-3])
def test_few_rows_are_made_precise(tolerance):
    """In float32 these took up to 45 s, and the gap asked for was not reached."""
    Z = np.random.default_rng(62).dirichlet(np.full(16, 0.05), 15).reshape(15, 4, 4).astype(np.float32)
    options = Options(random_state=0)
    problem = FairProblem.prepare(check_posterior(Z), as_constraints(["eo", "oae"], tolerance), None, options)
    assert problem.posterior.dtype == np.float64
    certificate = solve_problem(problem).rule.certificate
    assert certificate.gap <= 1e-4 and certificate.excess <= 1e-6


def test_many_rows_stay_in_single_precision_unless_bounds_are_narrower_than_their_digits():
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 20_000).reshape(-1, 2, 3).astype(np.float32)
    for tolerance, dtype in ((1e-3, np.float32), (1e-12, np.float64)):
        constraints = as_constraints("dp", tolerance)
        problem = FairProblem.prepare(check_posterior(Z), constraints, None, Options(random_state=0))
        assert problem.posterior.dtype == dtype
