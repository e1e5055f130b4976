"""Bounds move by the bias that labels show, as far as it is more than noise; the rule then keeps them for labels."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from optfair.constraints import Constraint, MinimumRate, Rows, as_constraints
from optfair.dual.posterior import check_posterior
from optfair.metrics.influence import rate_influence
from optfair.rule.certificate import Status
from optfair.rule.driver import solve_problem
from optfair.rule.label_correction import _variances, label_bias, solve_with_labels
from optfair.rule.options import Options
from optfair.rule.problem import FairProblem
from tests.posteriors.helpers import draw_cells
from tests.problems import blind, confusion, linear_program

A, M = 2, 3
OPTIONS = Options(random_state=0)


# -- problems ------------------------------------------------------------------------------------------------
def make_problem(Z, cell, constraints, weight=None):
    """Return the problem of rows Z (n, p) with these observed cells."""
    posterior = check_posterior(Z.reshape(-1, A, M), sample_weight=weight)
    return FairProblem.prepare(replace(posterior, cell=cell), constraints, None, OPTIONS)


def with_cells(problem, cell):
    """Return the same problem with other observed cells."""
    return replace(problem, posterior=replace(problem.posterior, cell=cell))


def exact_sample(seed, n=12_000, distinct=40):
    """Return (P of each distinct x, x of each row, cell of each row): counts at x are exactly proportional to P(x)."""
    rng = np.random.default_rng(seed)
    counts = np.maximum(np.rint(blind(seed, distinct, A, M).reshape(distinct, -1) * n / distinct), 1).astype(int)
    counts = counts[rng.permutation(distinct)]
    x, cell = np.nonzero(counts)
    times = counts[x, cell]
    return counts / counts.sum(axis=1, keepdims=True), np.repeat(x, times), np.repeat(cell, times)


def distorted(P, exponent=1.4):
    """Make P overconfident or underconfident, and overestimate group 0, class 0."""
    Z = P**exponent
    Z[:, 0] *= np.exp(0.6)
    return Z / Z.sum(axis=1, keepdims=True)


def random_problem(seed, n=2000, weight=None, criterion="eo"):
    """Return (problem, its plain rule): cells are drawn from the truth, and Z is distorted."""
    rng = np.random.default_rng(seed)
    P = blind(seed, n, A, M).reshape(n, -1)
    cell = draw_cells(P, rng)
    constraints = as_constraints(criterion, 0.02 if isinstance(criterion, str) else None)
    problem = make_problem(distorted(P), cell, constraints, weight)
    return problem, solve_problem(problem).rule


# -- definitions ---------------------------------------------------------------------------------------------
def labelled_confusion(problem, rule):
    """Return J of the rule with labels in place of z."""
    posterior = problem.posterior
    onehot = np.eye(A * M)[posterior.cell].reshape(-1, A, M)
    return confusion(onehot, rule.predict_proba(posterior.Z), posterior.weight)


def raw_bias(problem, rule):
    """Return b before it is shrunk: D of the labelled tensor minus D of the plug-in one."""
    posterior, rows = problem.posterior, problem.rows
    plug_in = confusion(posterior.Z, rule.predict_proba(posterior.Z), posterior.weight)
    return rows.values(labelled_confusion(problem, rule)) - rows.values(plug_in)


def labelled_excess(problem, rule):
    """Return how far the labelled values are outside the bounds."""
    return float(problem.rows.excess(problem.rows.values(labelled_confusion(problem, rule))))


def standard_errors(problem, rule):
    """Return the standard errors of b as observed, and as z expects them, (K,) each."""
    rows = problem.rows
    B = rows.combination @ rate_influence(rows, labelled_confusion(problem, rule)) + rows.user_rows
    return tuple(np.sqrt(v / problem.posterior.n) for v in _variances(problem.posterior, rule, B, survey=True))


def bias_by_definition(problem, rule, n_people=None):
    """Return b (1 − 1/mean (b/se)²)₊ of the rows of each constraint, from all rows of Z with plain numpy.

    se² is the larger of E[(B · e ⊗ h)²] and Σ_c E[z_c (B_c · h)²] − E[(B · z ⊗ h)²] over the number of people, with
    e = onehot − z and B the derivative of the rows at the labelled tensor, by central differences.
    """
    posterior, rows = problem.posterior, problem.rows
    Z, h = posterior.Z.reshape(posterior.n, -1), rule.predict_proba(posterior.Z)
    J, step = labelled_confusion(problem, rule), 1e-6
    directions = step * np.eye(J.size).reshape(-1, *J.shape)
    B = ((rows.values(J + directions) - rows.values(J - directions)) / (2 * step)).T.reshape(len(rows), -1, M)
    w = np.ones(posterior.n) if posterior.weight is None else posterior.weight
    share = w**2 if n_people is None else w  # a survey weight multiplies the error of one person
    scores = np.einsum("kcj,xj->xkc", B, h)  # B_c · h of each row x
    by_labels, by_z = scores[np.arange(posterior.n), :, posterior.cell], np.einsum("xkc,xc->xk", scores, Z)
    observed = share @ (by_labels - by_z) ** 2
    expected = share @ (np.einsum("xkc,xc->xk", scores**2, Z) - by_z**2)
    squared_error = np.maximum(observed, expected) / posterior.n / (n_people or posterior.n)
    bias = raw_bias(problem, rule)
    for source in np.unique(rows.source):
        mask = rows.source == source
        bias[mask] *= max(0.0, 1 - 1 / np.mean(bias[mask] ** 2 / squared_error[mask]))
    return bias


# -- the bias ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_labels_that_agree_with_z_change_nothing(criterion):
    P, x, cell = exact_sample(0, 3000)
    problem = make_problem(P[x], cell, as_constraints(criterion, 0.01))
    rule = solve_problem(problem).rule
    np.testing.assert_allclose(raw_bias(problem, rule), 0, atol=1e-12)
    assert (label_bias(problem, rule) == 0).all()
    corrected = solve_with_labels(problem).rule
    assert (corrected.weights == rule.weights).all()
    assert corrected.certificate.bounds_moved == 0 and corrected.certificate.notes == rule.certificate.notes


@pytest.mark.parametrize("criteria", [["dp"], ["eo"], ["dp", "eo"]], ids=str)
def test_the_bias_of_a_constraint_is_shrunk_by_its_share_of_noise(criteria):
    """b (1 − 1/mean (b/se)²)₊ over its rows (James and Stein), se the larger of the two standard errors."""
    problem, rule = random_problem(4, 3000, criterion=as_constraints(criteria, 0.02))
    raw, bias = raw_bias(problem, rule), label_bias(problem, rule)
    error = np.maximum(*standard_errors(problem, rule))
    for source in range(len(criteria)):
        rows = problem.rows.source == source
        factor = max(0.0, 1 - 1 / np.mean((raw[rows] / error[rows]) ** 2))
        np.testing.assert_allclose(bias[rows], factor * raw[rows], atol=1e-12)
    assert bias.any()


@pytest.mark.parametrize("weights", ["none", "counts", "survey"])
@pytest.mark.parametrize("criteria", [["eo"], ["dp", "oae"]], ids=str)
def test_the_bias_by_blocks_is_its_definition_on_all_rows(criteria, weights, monkeypatch):
    """Check eight blocks of 256 rows against plain numpy; derivatives by differences are exact to 1e-7."""
    monkeypatch.setattr("optfair.utils.parallel.BLOCK_ROWS", 256)
    rng = np.random.default_rng(1)
    weight = {"none": None, "counts": rng.integers(1, 4, 2000).astype(float), "survey": rng.uniform(0.5, 2, 2000)}
    weight = weight[weights]
    n_people = float(weight.sum()) if weights == "counts" else None
    problem, rule = random_problem(4, 2000, weight, as_constraints(criteria, 0.02))
    bias = label_bias(problem, rule, n_people)
    assert bias.any()
    np.testing.assert_allclose(bias, bias_by_definition(problem, rule, n_people), atol=1e-6)


def test_noise_alone_mostly_moves_nothing():
    """Labels drawn from Z itself: few of many samples look like more than chance, and these move the bounds little."""
    shares = []
    for seed in range(40):
        problem, rule = random_problem(seed, 400)
        cell = draw_cells(problem.posterior.Z.reshape(-1, A * M), np.random.default_rng(seed))
        problem = with_cells(problem, cell)
        shares.append(np.linalg.norm(label_bias(problem, rule)) / np.linalg.norm(raw_bias(problem, rule)))
    assert np.mean(np.array(shares) == 0) > 0.4 and np.mean(shares) < 0.3


def test_weights_count_people():
    """A weight of two is two people, in b and in its standard error."""
    problem, rule = random_problem(2, 600)
    times = np.random.default_rng(0).integers(1, 4, 600)
    Z, cell, constraints = problem.posterior.Z.reshape(600, -1), problem.posterior.cell, as_constraints("eo", 0.02)
    weighted = make_problem(Z, cell, constraints, times.astype(float))
    repeated = make_problem(np.repeat(Z, times, axis=0), np.repeat(cell, times), constraints)
    bias = label_bias(weighted, rule, n_people=float(times.sum()))
    assert bias.any()
    np.testing.assert_allclose(bias, label_bias(repeated, rule), atol=1e-12)


@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo", "oae", "user rows"])
def test_standard_errors_are_those_of_the_bootstrap(criterion):
    """Observed: rows are drawn with replacement. Expected: labels are drawn from z."""
    user_rows = Rows(np.random.default_rng(2).normal(size=(3, A, M, M)), upper=1.0)
    problem, rule = random_problem(3, 3000, criterion=user_rows if criterion == "user rows" else criterion)
    Z, h = problem.posterior.Z.reshape(-1, A * M), rule.predict_proba(problem.posterior.Z)
    n, rng, onehot = len(h), np.random.default_rng(4), np.eye(A * M)[problem.posterior.cell]
    products = [(factor[:, :, None] * h[:, None, :]).reshape(n, -1) for factor in (onehot, Z)]
    counts, tensors = [], []
    for _ in range(300):
        counts.append(rng.multinomial(n, np.full(n, 1 / n)))
        cell = draw_cells(Z, rng)
        tensors.append(np.column_stack([np.bincount(cell, h[:, j], A * M) for j in range(M)]).reshape(A, M, M) / n)
    labelled, plug_in = ((np.array(counts) @ product / n).reshape(-1, A, M, M) for product in products)
    observed = problem.rows.values(labelled) - problem.rows.values(plug_in)
    expected = problem.rows.values(np.array(tensors)) - problem.rows.values((Z.T @ h / n).reshape(A, M, M))
    np.testing.assert_allclose(standard_errors(problem, rule)[0], np.std(observed, axis=0), rtol=0.15, atol=1e-9)
    # The expected errors are taken at the rates of one draw of labels; those of small cells are themselves uncertain.
    problem = with_cells(problem, draw_cells(Z, rng))
    np.testing.assert_allclose(standard_errors(problem, rule)[1], np.std(expected, axis=0), rtol=0.3, atol=1e-9)


def test_a_cell_without_labels_has_no_bias():
    problem, rule = random_problem(5)
    cell = problem.posterior.cell
    bias = label_bias(with_cells(problem, np.where(cell == 2, 1, cell)), rule)  # (0, 2) is in Z only
    table = problem.rows.table
    empty = ((table["group"] == 0) & (table["given"] == 2)).to_numpy()
    assert empty.any() and (bias[empty] == 0).all() and bias.any()


# -- the rule ------------------------------------------------------------------------------------------------
def moved_bounds(problem, rule):
    """Return by how much the bounds that the rule was solved for differ from those of the problem, (K,)."""
    rows, bounds = problem.rows, rule.multipliers
    return np.where(np.isfinite(rows.upper), rows.upper - bounds["upper"], rows.lower - bounds["lower"])


CASES = {
    "dp": (9, 0.4, as_constraints("dp", 0.01)),
    "eop": (9, 1.4, as_constraints("eop", 0.02)),
    "eo": (14, 1.4, as_constraints("eo", 0.02)),
    "several": (9, 0.4, [Constraint("dp", 0.01), MinimumRate("accuracy", 0.3)]),
}


@functools.cache
def corrected_case(name):
    """Return (problem, its rule with labels, P of each distinct x, x of each row), made once."""
    seed, exponent, constraints = CASES[name]
    P, x, cell = exact_sample(seed)
    problem = make_problem(distorted(P, exponent)[x], cell, constraints)
    return problem, solve_with_labels(problem).rule, P, x


@pytest.mark.parametrize("name", CASES)
def test_the_rule_is_within_the_bounds_for_the_labels(name):
    """Check it up to what counts as noise, and to the distance of the bounds from their fixed point.

    Plug-in values are ≤ upper − the shrunk b, so labelled values are ≤ upper + the rest of b.
    """
    problem, rule, P, x = corrected_case(name)
    before, after = labelled_excess(problem, solve_problem(problem).rule), labelled_excess(problem, rule)
    bias = label_bias(problem, rule)
    noise = np.abs(raw_bias(problem, rule) - bias).max()
    step = np.abs(bias - moved_bounds(problem, rule)).max()
    assert after <= noise + step + rule.certificate.excess + 1e-9
    assert before > 0.02 and after < before / 3
    # On the same rows, no rule at all that is within the same bounds is more accurate.
    J = labelled_confusion(problem, rule)
    D = problem.rows.matrix(J.sum(axis=2)).toarray()
    share = np.bincount(x) / len(x)
    best = linear_program(P.reshape(-1, A, M), D, problem.rows.lower - after, problem.rows.upper + after, share)
    assert np.trace(J.sum(axis=0)) <= best.value + 1e-9


def test_the_bounds_move_by_the_bias_of_the_rule():
    """Check the fixed point: the rule was solved for the bounds of the problem minus its own b."""
    problem, rule, _, _ = corrected_case("eop")
    shift = moved_bounds(problem, rule)
    np.testing.assert_allclose(problem.rows.lower - rule.multipliers["lower"].to_numpy(), shift, atol=1e-12)
    assert np.abs(shift).max() > 0.02
    np.testing.assert_allclose(label_bias(problem, rule), shift, atol=3e-4)
    assert rule.certificate.excess == 0 and rule.certificate.gap <= OPTIONS.gap


@pytest.mark.parametrize("name", CASES)
def test_the_certificate_says_by_how_much_the_bounds_moved(name):
    problem, rule, _, _ = corrected_case(name)
    certificate, size = rule.certificate, np.abs(moved_bounds(problem, rule)).max()
    assert certificate.bounds_moved == pytest.approx(size, abs=1e-12) and size > 0
    note = f"labels show that z(x) is wrong by up to {size:.1e}, so the bounds on z(x) were moved by as much"
    assert certificate.notes[-1] == note
    assert certificate.status is Status.OPTIMAL and "the bounds on z(x) were moved" in str(certificate)


def test_a_start_leads_to_the_same_bounds():
    problem, rule, _, _ = corrected_case("eop")
    resumed = solve_with_labels(problem, solve_problem(problem)).rule
    np.testing.assert_allclose(moved_bounds(problem, resumed), moved_bounds(problem, rule), atol=3e-4)


def test_a_rule_fairer_than_required_does_not_change():
    """No bound is active before, and none after the bounds have moved."""
    P, x, cell = exact_sample(6, 4000)
    problem = make_problem(distorted(P)[x], cell, as_constraints("dp", 0.9))
    rule, Z = solve_with_labels(problem).rule, problem.posterior.Z
    assert (rule.multipliers["multiplier"] == 0).all()
    assert (rule.predict_proba(Z) == solve_problem(problem).rule.predict_proba(Z)).all()


def best_accuracy(Z):
    """Return the plug-in accuracy of the argmax of z."""
    return float(Z.reshape(-1, A, M).sum(axis=1).max(axis=1).mean())


def test_bounds_do_not_move_to_where_no_rule_is():
    """Z is far too confident: no rule is as accurate as the labels would require, and the rule is the plain one."""
    P, x, cell = exact_sample(9, 4000)
    Z = P**6
    Z = (Z / Z.sum(axis=1, keepdims=True))[x]
    problem = make_problem(Z, cell, [MinimumRate("accuracy", best_accuracy(Z) - 0.005, by="overall")])
    plain, rule = solve_problem(problem).rule, solve_with_labels(problem).rule
    assert label_bias(problem, plain)[0] < -0.1
    assert (rule.weights == plain.weights).all() and rule.certificate.bounds_moved == 0


def test_a_move_that_goes_too_far_is_made_in_part():
    """The accuracy that labels require is out of reach, but part of the way to it is not."""
    P, x, cell = exact_sample(10, 8000)
    Z = distorted(P, 1.5)[x]
    minimum = best_accuracy(Z) - 0.06
    problem = make_problem(Z, cell, [MinimumRate("accuracy", minimum, by="overall")])
    rule = solve_with_labels(problem).rule
    (shift,), (bias,) = moved_bounds(problem, rule), label_bias(problem, rule)
    assert minimum - bias > best_accuracy(Z)
    assert bias < shift < -0.02 and rule.certificate.excess == 0


def test_float32_posteriors_have_the_same_bounds():
    P, x, cell = exact_sample(11, 4000)
    Z, constraints = distorted(P)[x], as_constraints("dp", 0.02)
    single, double = (
        solve_with_labels(make_problem(Z.astype(dtype), cell, constraints)).rule.multipliers["upper"].to_numpy()
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(single, double, atol=1e-3)
