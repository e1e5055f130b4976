"""Test the linear program: a second program agrees, and what cannot be solved is said."""

from dataclasses import replace

import numpy as np
import pytest

from optfair.dual import exact
from optfair.dual.exact import solve_exact
from optfair.errors import InfeasibleError
from tests.problems import confusion, linear_program


def test_the_optimum_is_that_of_a_second_program(case):
    dual, rows = case
    problem, measure = dual.problem, dual.problem.posterior
    solution = solve_exact(measure, rows, problem.utility)
    D, U = problem.matrix.toarray(), problem.utility.reshape(3, 3, 3)
    program = linear_program(measure.Z, D, rows.lower, rows.upper, measure.weight, U, measure.offset)
    assert solution.value == pytest.approx(program.value, abs=1e-8)
    np.testing.assert_allclose(solution.probabilities.sum(axis=1), 1, atol=1e-8)
    assert rows.excess(rows.values(confusion(measure.Z, solution.probabilities, measure.weight))) <= 1e-7


def test_multipliers_have_the_sign_of_the_bound_that_is_active(case):
    dual, rows = case
    solution = solve_exact(dual.problem.posterior, rows, dual.problem.utility)
    values = rows.values(confusion(dual.problem.posterior.Z, solution.probabilities, dual.problem.posterior.weight))
    lam = solution.multipliers
    np.testing.assert_allclose(values[lam > 1e-7], rows.upper[lam > 1e-7], atol=1e-7)
    np.testing.assert_allclose(values[lam < -1e-7], rows.lower[lam < -1e-7], atol=1e-7)
    assert np.abs(lam).max() > 1e-3


def test_an_infeasible_program_names_its_rows(make_dual):
    dual, rows = make_dual()
    impossible = replace(rows, lower=np.full(len(rows), 0.5), upper=np.full(len(rows), 0.6))
    with pytest.raises(InfeasibleError) as caught:
        solve_exact(dual.problem.posterior, impossible, dual.problem.utility)
    assert caught.value.rows == rows.names


def test_a_program_that_takes_too_long_is_stopped(make_dual):
    dual, rows = make_dual(n=2000)
    with pytest.raises(TimeoutError, match=r"^HiGHS did not finish within 1e-06 seconds\.$"):
        solve_exact(dual.problem.posterior, rows, dual.problem.utility, time_limit=1e-6)


def test_a_program_that_is_too_large_is_refused(make_dual, monkeypatch):
    monkeypatch.setattr(exact, "LP_VARIABLES", 239)
    dual, rows = make_dual()
    with pytest.raises(ValueError, match=r"^method='lp': 240 variables; it is for at most 239\. Use method='dual'\.$"):
        solve_exact(dual.problem.posterior, rows, dual.problem.utility)
