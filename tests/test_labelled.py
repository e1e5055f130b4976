"""Bounds move by what labels say, as far as labels can tell, and the rule then keeps them for the labels."""

import numpy as np
import pytest
from problems import blind, confusion, linear_program

from optfair.constraints import Constraint, MinimumRate, Rows, as_constraints
from optfair.labelled import _variances, label_bias, solve_with_labels
from optfair.metrics.influence import rate_influence
from optfair.options import Options
from optfair.posterior import check_posterior
from optfair.task import Task

A, M = 2, 3
OPTIONS = Options(random_state=0)


def finite(seed, people=12_000, distinct=40):
    """(P of each distinct x, x of each person, cell of each person): counts at x are exactly proportional to P(x)."""
    rng = np.random.default_rng(seed)
    counts = np.maximum(np.rint(blind(seed, distinct, A, M).reshape(distinct, -1) * people / distinct), 1).astype(int)
    counts = counts[rng.permutation(distinct)]
    x, cell = np.nonzero(counts)
    times = counts[x, cell]
    return counts / counts.sum(axis=1, keepdims=True), np.repeat(x, times), np.repeat(cell, times)


def distorted(P, exponent=1.4):
    """Too sure or not sure enough, and group 0 class 0 is overrated."""
    Z = P**exponent
    Z[:, 0] *= np.exp(0.6)
    return Z / Z.sum(axis=1, keepdims=True)


def task_of(Z, wishes, weight=None):
    return Task.prepare(check_posterior(Z.reshape(-1, A, M), sample_weight=weight), wishes, None, OPTIONS)


def labelled_confusion(rule, task, cell):
    """J of the rule with labels in place of z."""
    onehot = np.eye(A * M)[cell].reshape(-1, A, M)
    return confusion(onehot, rule.predict_proba(task.posterior.Z), task.posterior.weight)


def raw_bias(rule, task, cell):
    """b before it is shrunk: D of the labelled tensor minus D of the plug-in one."""
    plug_in = confusion(task.posterior.Z, rule.predict_proba(task.posterior.Z), task.posterior.weight)
    return task.rows.values(labelled_confusion(rule, task, cell)) - task.rows.values(plug_in)


def excess_with_labels(rule, task, cell):
    return float(task.rows.excess(task.rows.values(labelled_confusion(rule, task, cell))))


def few_people(seed, n=2000, weighted=False, criterion="eo"):
    """Labels drawn from the truth, and a Z that is distorted."""
    rng = np.random.default_rng(seed)
    P = blind(seed, n, A, M).reshape(n, -1)
    cell = (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    wishes = as_constraints(criterion, 0.02 if isinstance(criterion, str) else None)
    task = task_of(distorted(P), wishes, rng.exponential(size=n) if weighted else None)
    return task, task.solve(OPTIONS, wishes), cell


def standard_errors(rule, task, cell):
    """As observed, and as z expects them, (K,) each."""
    weight = np.ones(len(cell)) if task.posterior.weight is None else task.posterior.weight
    h, rows = rule.predict_proba(task.posterior.Z), task.rows
    B = rows.combination @ rate_influence(rows, labelled_confusion(rule, task, cell)) + rows.own
    return tuple(np.sqrt(v / len(cell)) for v in _variances(task.posterior, h, weight, cell, B))


# -- the bias -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_labels_that_agree_with_z_say_nothing(criterion):
    P, x, cell = finite(0, 3000)
    wishes = as_constraints(criterion, 0.01)
    task = task_of(P[x], wishes)
    rule = task.solve(OPTIONS, wishes)
    np.testing.assert_allclose(raw_bias(rule, task, cell), 0, atol=1e-12)
    assert (label_bias(task, rule, cell) == 0).all()
    other = solve_with_labels(task, OPTIONS, wishes, cell)
    assert (other.weights == rule.weights).all()


@pytest.mark.parametrize("wishes", [["dp"], ["eo"], ["dp", "eo"]], ids=str)
def test_the_bias_of_a_constraint_is_shrunk_by_how_much_of_it_is_noise(wishes):
    """b (1 − 1/mean (b/se)²)₊ over its rows (James and Stein), se the larger of the two standard errors."""
    wishes = as_constraints(wishes, 0.02)
    task, rule, cell = few_people(4, 3000, criterion=wishes)
    raw, found = raw_bias(rule, task, cell), label_bias(task, rule, cell)
    error = np.maximum(*standard_errors(rule, task, cell))
    for source in range(len(wishes)):
        rows = task.rows.source == source
        keep = max(0.0, 1 - 1 / np.mean((raw[rows] / error[rows]) ** 2))
        np.testing.assert_allclose(found[rows], keep * raw[rows], atol=1e-12)
    assert found.any()


def test_noise_alone_moves_nothing_mostly():
    """Labels drawn from Z itself: of many samples few look like more than chance, and these move little."""
    moved = []
    for seed in range(40):
        task, rule, _ = few_people(seed, 400)
        Z = task.posterior.Z.reshape(-1, A * M)
        cell = (Z.cumsum(axis=1) > np.random.default_rng(seed).random((len(Z), 1))).argmax(axis=1)
        b, raw = label_bias(task, rule, cell), raw_bias(rule, task, cell)
        moved.append(np.linalg.norm(b) / np.linalg.norm(raw))
    assert np.mean(np.array(moved) == 0) > 0.4 and np.mean(moved) < 0.3


def test_weights_are_people():
    """A weight of two is two people, in b and in its standard error."""
    task, rule, cell = few_people(2, 600)
    times = np.random.default_rng(0).integers(1, 4, 600)
    Z, wishes = task.posterior.Z.reshape(600, -1), as_constraints("eo", 0.02)
    once = label_bias(task_of(Z, wishes, times.astype(float)), rule, cell, people=float(times.sum()))
    often = label_bias(task_of(np.repeat(Z, times, axis=0), wishes), rule, np.repeat(cell, times))
    assert once.any()
    np.testing.assert_allclose(once, often, atol=1e-12)


@pytest.mark.parametrize("criterion", ["dp", "eop", "eo", "meo", "oae", "own"])
def test_standard_errors_are_those_of_the_bootstrap(criterion):
    """Observed: people drawn again. Expected: their labels drawn again, from z."""
    own = Rows(np.random.default_rng(2).normal(size=(3, A, M, M)), upper=1.0)
    task, rule, cell = few_people(3, 3000, criterion=own if criterion == "own" else criterion)
    Z, h, n = task.posterior.Z.reshape(-1, A * M), rule.predict_proba(task.posterior.Z), len(cell)
    rng = np.random.default_rng(4)
    plug_in = (Z.T @ h / n).reshape(A, M, M)
    observed, expected = [], []
    products = np.concatenate(
        [(o[:, :, None] * h[:, None, :]).reshape(n, -1) for o in (np.eye(A * M)[cell], Z)], axis=1
    )
    for _ in range(300):
        w = rng.multinomial(n, np.full(n, 1 / n))
        again, z_again = (w / n @ products).reshape(2, A, M, M)
        observed.append(task.rows.values(again) - task.rows.values(z_again))
        drawn = (Z.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        J = np.column_stack([np.bincount(drawn, h[:, j], A * M) for j in range(M)]).reshape(A, M, M) / n
        expected.append(task.rows.values(J) - task.rows.values(plug_in))
    np.testing.assert_allclose(standard_errors(rule, task, cell)[0], np.std(observed, axis=0), rtol=0.15, atol=1e-9)
    # Those expected are taken at the rates of one draw of labels: those of small cells are themselves uncertain.
    drawn = (Z.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    np.testing.assert_allclose(standard_errors(rule, task, drawn)[1], np.std(expected, axis=0), rtol=0.3, atol=1e-9)


def test_a_cell_without_labelled_people_says_nothing():
    task, rule, cell = few_people(5)
    cell = np.where(cell == 2, 1, cell)  # (0, 2) is in Z only
    found = label_bias(task, rule, cell)
    empty = (task.rows.table["group"] == 0) & (task.rows.table["given"] == 2)
    assert empty.any() and (found[empty.to_numpy()] == 0).all() and found.any()


def test_a_fairer_rule_than_asked_for_is_left_alone():
    """Nothing binds before, and nothing after the bounds have moved."""
    P, x, cell = finite(6, 4000)
    wishes = as_constraints("dp", 0.9)
    task = task_of(distorted(P)[x], wishes)
    found = solve_with_labels(task, OPTIONS, wishes, cell)
    assert (found.multipliers["multiplier"] == 0).all()
    assert (found.predict_proba(task.posterior.Z) == task.solve(OPTIONS, wishes).predict_proba(task.posterior.Z)).all()


# -- the rule -----------------------------------------------------------------------------------------------
def moved_bounds(rule, task):
    """By how much the bounds that the rule was solved for differ from those asked for, (K,)."""
    both = task.rows.upper - rule.multipliers["upper"], task.rows.lower - rule.multipliers["lower"]
    return np.where(np.isfinite(task.rows.upper), *(side.to_numpy() for side in both))


@pytest.mark.parametrize(
    "seed, exponent, wishes",
    [
        (9, 0.4, as_constraints("dp", 0.01)),
        (9, 1.4, as_constraints("eop", 0.02)),
        (14, 1.4, as_constraints("eo", 0.02)),
        (9, 0.4, [Constraint("dp", 0.01), MinimumRate("accuracy", 0.3)]),
    ],
    ids=["dp", "eop", "eo", "several"],
)
def test_the_rule_ends_within_the_bounds_for_the_labels(seed, exponent, wishes):
    """Up to what was held to be noise: plug-in values are ≤ upper − kept part of b, so labelled ones are ≤ upper + the
    rest of b, and how far the bounds are from their fixed point."""
    P, x, cell = finite(seed)
    task = task_of(distorted(P, exponent)[x], wishes)
    plain = task.solve(OPTIONS, wishes)
    found = solve_with_labels(task, OPTIONS, wishes, cell)
    before, after = excess_with_labels(plain, task, cell), excess_with_labels(found, task, cell)
    noise = np.abs(raw_bias(found, task, cell) - label_bias(task, found, cell)).max()
    step = np.abs(label_bias(task, found, cell) - moved_bounds(found, task)).max()
    assert after <= noise + step + found.certificate.excess + 1e-9
    assert before > 0.02 and after < before / 3
    # On the same people, no rule at all that is within the same bounds is more accurate.
    J = labelled_confusion(found, task, cell)
    D = task.rows.matrix(J.sum(axis=2)).toarray()
    share = np.bincount(x) / len(x)
    best = linear_program(P.reshape(-1, A, M), D, task.rows.lower - after, task.rows.upper + after, share)
    assert np.trace(J.sum(axis=0)) <= best.value + 1e-9


def test_the_bounds_have_moved_by_the_bias_of_the_rule_found():
    """The fixed point: the bounds that the rule was solved for are those asked for, minus its own b."""
    P, x, cell = finite(9)
    wishes = as_constraints("eop", 0.02)
    task = task_of(distorted(P)[x], wishes)
    found = solve_with_labels(task, OPTIONS, wishes, cell)
    moved = moved_bounds(found, task)
    np.testing.assert_allclose(task.rows.lower - found.multipliers["lower"].to_numpy(), moved, atol=1e-12)
    assert np.abs(moved).max() > 0.02
    np.testing.assert_allclose(label_bias(task, found, cell), moved, atol=3e-4)
    assert found.certificate.excess == 0 and found.certificate.gap <= OPTIONS.gap


def test_bounds_no_rule_can_keep_are_not_moved_to():
    """Z is far too sure of itself: nobody is as accurate as the labels would have it. The rule is the plain one."""
    P, x, cell = finite(9, 4000)
    Z = P**6
    Z /= Z.sum(axis=1, keepdims=True)
    top = np.add.reduce(Z[x].reshape(-1, A, M), axis=1).max(axis=1).mean()
    wishes = [MinimumRate("accuracy", float(top) - 0.005, by="overall")]
    task = task_of(Z[x], wishes)
    plain, found = task.solve(OPTIONS, wishes), solve_with_labels(task, OPTIONS, wishes, cell)
    assert label_bias(task, plain, cell)[0] < -0.1
    assert (found.weights == plain.weights).all()


def test_a_move_that_goes_too_far_is_made_in_part():
    """The accuracy that labels ask for is out of reach, but some of the way towards it is not."""
    P, x, cell = finite(10, 8000)
    Z = distorted(P, 1.5)
    top = float(np.add.reduce(Z[x].reshape(-1, A, M), axis=1).max(axis=1).mean())
    wishes = [MinimumRate("accuracy", top - 0.06, by="overall")]
    task = task_of(Z[x], wishes)
    found = solve_with_labels(task, OPTIONS, wishes, cell)
    (moved,), (bias,) = moved_bounds(found, task), label_bias(task, found, cell)
    assert top - 0.06 - bias > top  # beyond the most accurate rule of all
    assert bias < moved < -0.02 and found.certificate.excess == 0


def test_float32_posteriors_are_measured_as_well():
    P, x, cell = finite(11, 4000)
    wishes = as_constraints("dp", 0.02)
    Z = distorted(P)[x]
    rules = [solve_with_labels(task_of(Z.astype(d), wishes), OPTIONS, wishes, cell) for d in (np.float32, np.float64)]
    single, double = (rule.multipliers["upper"].to_numpy() for rule in rules)
    np.testing.assert_allclose(single, double, atol=1e-3)
