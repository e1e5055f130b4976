"""Test sketch and polish: the minimum over all rows, and where a neighbouring problem may go on."""

from dataclasses import replace

import numpy as np
import pytest

from optfair.dual import solver as module
from optfair.dual.penalty import Box
from optfair.dual.problem import DualProblem, TemperedDual
from optfair.dual.settings import SETTINGS
from optfair.dual.solver import Anchor, DualSolver
from tests.problems import KINDS, compiled

TAU, TOLERANCE = 0.01, 1e-4
SHAPE = np.ones(9)


def make_solver(kind="aware", criterion="dp", n=4000, **options):
    """Return a solver of a problem with more rows than its sketch, and the rows of the problem."""
    posterior, rows = compiled(KINDS[kind](1, n), criterion, 0.01, **options)
    measures = posterior.with_sample(0)
    assert measures[0] is not measures[1]
    utility = np.tile(np.eye(3), (3, 1))
    return DualSolver(*(DualProblem(m, rows.matrix(m.prior), utility) for m in measures)), rows


def cool(solver, box, tau=TAU, **options):
    return solver.cool(box, np.zeros(len(box.lower)), SHAPE, tau, TOLERANCE, 1e-3, **options)


def objective(solver, box, lam):
    """Return (F + σ, residual) over all rows."""
    evaluation = solver.problem.evaluate(lam, SHAPE * TAU)
    return evaluation.smooth + box.value(lam), box.residual(lam, evaluation.values)


# -- the minimum -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
@pytest.mark.parametrize("kind", KINDS)
def test_sketch_and_polish_find_the_minimum_over_all_rows(small_sketches, kind, criterion):
    solver, rows = make_solver(kind, criterion)
    box = Box(rows.lower, rows.upper)
    solution = cool(solver, box, trust=False)
    direct = cool(replace(solver, sketch=solver.problem), box)
    value, residual = objective(solver, box, solution.minimum.point.multipliers)
    assert solution.minimum.converged and solution.minimum.confirmed
    assert residual == pytest.approx(solution.minimum.residual, abs=1e-12)
    assert residual <= TOLERANCE
    # both are minima of one convex function, up to the residual they stop at
    other = direct.minimum.point.multipliers
    slack = TOLERANCE * np.abs(solution.minimum.point.multipliers - other).sum() + 1e-9
    assert value == pytest.approx(objective(solver, box, other)[0], abs=slack)
    assert value < objective(solver, box, np.zeros(len(rows)))[0] - 1e-3
    assert solution.passes < direct.passes
    assert direct.anchor is None and solution.anchor.point.multipliers is solution.minimum.point.multipliers


@pytest.mark.parametrize("cap", [np.inf, 0.05])
def test_many_multipliers_are_minimised_by_other_methods_to_the_same_value(small_sketches, monkeypatch, cap):
    solver, rows = make_solver()
    box = Box(rows.lower, rows.upper, cap)
    newton = cool(solver, box, trust=False).minimum.point.multipliers
    monkeypatch.setattr(module, "SETTINGS", replace(module.SETTINGS, newton_multipliers=0))
    for name in ("minimise_newton", "minimise_spectral" if np.isinf(cap) else "minimise_lbfgs"):
        monkeypatch.setattr(module, name, None)  # not called
    other = cool(solver, box, trust=False).minimum.point.multipliers
    assert np.abs(other).sum() <= cap + 1e-9
    slack = 2 * TOLERANCE * np.abs(newton - other).sum() + 1e-9
    assert objective(solver, box, other)[0] == pytest.approx(objective(solver, box, newton)[0], abs=slack)


def test_the_temperature_follows_the_gap_where_none_is_given(small_sketches):
    solver, rows = make_solver()
    box = Box(rows.lower, rows.upper)
    wide, narrow = (
        solver.cool(box, np.zeros(len(rows)), SHAPE, None, TOLERANCE, gap).temperature for gap in (1e-2, 1e-4)
    )
    assert SETTINGS.first_temperature > wide > narrow >= SETTINGS.last_temperature
    assert cool(solver, box).temperature == TAU


def test_a_sample_is_trusted_only_where_that_is_allowed(small_sketches):
    """With trust the last pass, which would only confirm, may be left out; then λ is not confirmed."""
    solver, rows = make_solver("blind", "dp", n=8000)
    box = Box(rows.lower, rows.upper)
    trusted, confirmed = cool(solver, box), cool(solver, box, trust=False)
    assert confirmed.minimum.confirmed
    assert not trusted.minimum.confirmed and trusted.passes < confirmed.passes
    # what the samples said is nearly true: the polish from there is short
    assert objective(solver, box, trusted.minimum.point.multipliers)[1] <= 10 * TOLERANCE


def test_passes_are_bounded(small_sketches):
    solver, rows = make_solver("blind", "eo")
    solution = cool(replace(solver, max_passes=2), Box(rows.lower, rows.upper), trust=False)
    assert solution.passes == 2 and not solution.minimum.converged


def test_the_same_seed_gives_the_same_multipliers(small_sketches):
    solver, rows = make_solver()
    box = Box(rows.lower, rows.upper)
    first, second = (cool(solver, box).minimum.point.multipliers for _ in range(2))
    assert first.tobytes() == second.tobytes()


# -- anchors -----------------------------------------------------------------------------------------------
def test_a_neighbour_goes_on_from_an_anchor_without_a_first_pass(small_sketches):
    solver, rows = make_solver()
    box = Box(rows.lower, rows.upper)
    solution = cool(solver, box, trust=False)
    lam = solution.minimum.point.multipliers
    same = solver.polish(box, lam, SHAPE, TAU, TOLERANCE, anchor=solution.anchor)
    assert same.passes == 0 and same.minimum.converged
    wider = Box(1.1 * rows.lower, 1.1 * rows.upper)
    with_anchor = solver.polish(wider, lam, SHAPE, TAU, TOLERANCE, anchor=solution.anchor, trust=False)
    without = solver.polish(wider, lam, SHAPE, TAU, TOLERANCE, trust=False)
    assert with_anchor.minimum.converged and without.minimum.converged
    assert with_anchor.passes <= without.passes
    first, second = (objective(solver, wider, s.minimum.point.multipliers)[0] for s in (with_anchor, without))
    assert first == pytest.approx(second, abs=1e-5)


@pytest.fixture
def anchor(make_dual):
    dual, rows = make_dual("aware", "dp")
    return Anchor(dual, dual.evaluate(np.zeros(len(rows))))


def test_an_anchor_fits_the_same_rows_of_z_and_d_at_the_same_temperatures(anchor):
    dual = anchor.dual
    problem, tau = dual.problem, dual.tau
    assert anchor.fits(problem, tau)
    assert anchor.fits(problem, tau.copy())
    sorted_entries = problem.matrix.copy()
    sorted_entries.sort_indices()
    assert anchor.fits(replace(problem, matrix=sorted_entries), tau)  # the same numbers, in another order


def test_an_anchor_does_not_fit_anything_else(anchor):
    problem, tau = anchor.dual.problem, anchor.dual.tau
    posterior, matrix = problem.posterior, problem.matrix
    assert not anchor.fits(problem, 2 * tau)
    assert not anchor.fits(replace(problem, matrix=2 * matrix), tau)
    assert not anchor.fits(replace(problem, matrix=matrix[:-1]), tau)
    assert not anchor.fits(replace(problem, matrix=matrix[::-1]), tau)
    assert not anchor.fits(replace(problem, posterior=replace(posterior, Z=posterior.Z.copy())), tau)
    offset = np.full((posterior.n, posterior.n_classes), 0.1)
    assert not anchor.fits(replace(problem, posterior=replace(posterior, offset=offset)), tau)
    assert not anchor.fits(replace(problem, utility=0.5 * problem.utility), tau)
    changed = matrix.tolil()
    changed[0, 0] += 1e-12
    assert not anchor.fits(replace(problem, matrix=changed.tocsr()), tau)


def test_asking_whether_an_anchor_fits_does_not_sort_a_matrix(anchor):
    """Sums would change in their last bit."""
    matrices = [anchor.dual.problem.matrix, anchor.dual.problem.matrix.copy()]
    before = [matrix.indices.copy() for matrix in matrices]
    assert not matrices[0].has_sorted_indices
    assert anchor.fits(replace(anchor.dual.problem, matrix=matrices[1]), anchor.dual.tau)
    for matrix, indices in zip(matrices, before, strict=True):
        np.testing.assert_array_equal(matrix.indices, indices)


def test_a_polish_does_not_go_on_from_an_anchor_of_another_matrix(small_sketches):
    solver, rows = make_solver()
    box = Box(rows.lower, rows.upper)
    solution = cool(solver, box, trust=False)
    lam = solution.minimum.point.multipliers
    other = replace(solver, problem=replace(solver.problem, matrix=-solver.problem.matrix))
    with_anchor = other.polish(box, lam, SHAPE, TAU, TOLERANCE, anchor=solution.anchor, trust=False)
    without = other.polish(box, lam, SHAPE, TAU, TOLERANCE, trust=False)
    assert with_anchor.passes == without.passes > 0
    assert with_anchor.minimum.point.multipliers.tobytes() == without.minimum.point.multipliers.tobytes()
    assert isinstance(with_anchor.anchor.dual, TemperedDual) and with_anchor.anchor.dual is not solution.anchor.dual
