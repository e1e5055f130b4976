"""Test the dual function and its derivatives against the formula, row by row, and finite differences."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from optfair.dual.problem import TemperedDual, cell_weights
from optfair.dual.settings import SETTINGS
from tests.problems import confusion, softmax


def naive_value(dual, lam):
    """Return mean_x τ(x) log Σ_j exp(β_j(x)/τ(x)), τ(x) = Σ_c z_c τ_c, row by row."""
    problem, measure = dual.problem, dual.problem.posterior
    D = problem.matrix.toarray().reshape(len(lam), *problem.utility.shape)
    W = problem.utility - np.tensordot(lam, D, 1)
    w = np.ones(measure.n) if measure.weight is None else measure.weight
    total = 0.0
    for x in range(measure.n):
        z = measure.Z[x].astype(float).ravel()
        beta = z @ W + (0.0 if measure.offset is None else measure.offset[x])
        total += w[x] * (z @ dual.tau) * np.logaddexp.reduce(beta / (z @ dual.tau))
    return total / w.sum()


def naive_rule(dual, lam):
    """Return h, (n, m), of the softmax rule of λ."""
    problem, measure = dual.problem, dual.problem.posterior
    Z = measure.Z.reshape(measure.n, -1)
    scores = Z @ cell_weights(problem.utility, problem.matrix, lam)
    scores += 0.0 if measure.offset is None else measure.offset
    return softmax(scores / (Z @ dual.tau)[:, None])


# -- value, gradient, Hessian ------------------------------------------------------------------------------
def test_the_value_is_the_formula(case, lam):
    dual, _ = case
    assert dual.evaluate(lam).smooth == pytest.approx(naive_value(dual, lam), abs=1e-12)


def test_the_gradient_is_the_finite_difference_of_the_value(case, lam):
    dual, step = case[0], 1e-5
    gradient = -dual.evaluate(lam).values
    unit = step * np.eye(len(lam))
    difference = [(naive_value(dual, lam + e) - naive_value(dual, lam - e)) / (2 * step) for e in unit]
    np.testing.assert_allclose(gradient, difference, atol=1e-8)
    assert np.abs(gradient).max() > 1e-2


def test_the_hessian_is_the_finite_difference_of_the_gradient(case, lam):
    dual, step = case[0], 1e-5
    evaluation = dual.evaluate(lam)
    hessian = dual.hessian(evaluation)
    n = dual.problem.posterior.n
    assert n <= SETTINGS.hessian_rows, "no row is sampled here"
    assert (evaluation.curvature.numbers > SETTINGS.least_curvature).sum() > 0.9 * n, "most rows are curved here"
    difference = [
        (dual.evaluate(lam - e).values - dual.evaluate(lam + e).values) / (2 * step) for e in step * np.eye(len(lam))
    ]
    np.testing.assert_allclose(hessian, np.array(difference), atol=1e-5 * np.abs(hessian).max())
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12 * np.abs(hessian).max())
    assert np.linalg.eigvalsh(hessian).min() > -1e-10 * np.abs(hessian).max()


def test_the_confusion_is_that_of_the_softmax_rule(case, lam):
    dual, rows = case
    measure = dual.problem.posterior
    J = confusion(measure.Z, naive_rule(dual, lam), measure.weight)
    evaluation = dual.evaluate(lam)
    np.testing.assert_allclose(evaluation.confusion.reshape(J.shape), J, atol=1e-12)
    np.testing.assert_allclose(evaluation.values, rows.values(J), atol=1e-12)


def test_the_curvature_is_one_minus_the_largest_probability(case, lam):
    dual, _ = case
    curvature = dual.evaluate(lam).curvature.numbers
    assert curvature.dtype == np.float32
    np.testing.assert_allclose(curvature, 1 - naive_rule(dual, lam).max(axis=1), atol=1e-6)


def test_the_score_metric_is_the_mean_change_of_the_centred_scores(case, lam):
    dual, _ = case
    problem, measure = dual.problem, dual.problem.posterior
    change = measure.Z.reshape(measure.n, -1) @ (problem.matrix.T @ -lam).reshape(problem.utility.shape)
    change -= change.mean(axis=1, keepdims=True)
    expected = np.average((change**2).sum(axis=1), weights=measure.weight) / dual.tau.mean()
    assert lam @ dual.score_metric() @ lam == pytest.approx(expected, rel=1e-10)


def test_the_temperature_cost_is_what_the_softmax_loses_against_the_maximum(case, lam):
    """T = mean_x Σ_j h_j (max β − β_j)"""
    dual, _ = case
    problem, measure = dual.problem, dual.problem.posterior
    beta = measure.Z.reshape(measure.n, -1) @ cell_weights(problem.utility, problem.matrix, lam)
    beta += 0.0 if measure.offset is None else measure.offset
    lost = (naive_rule(dual, lam) * (beta.max(axis=1, keepdims=True) - beta)).sum(axis=1)
    assert dual.temperature_cost(lam) == pytest.approx(np.average(lost, weights=measure.weight), rel=1e-9)
    assert dual.passes == 1


# -- samples that agree with all rows ----------------------------------------------------------------------
def test_the_shift_makes_a_sample_agree_with_the_whole(case, lam):
    """A local sketch has the D(h) of all rows at λ, and its values are still the gradient of its value."""
    dual, _ = case
    evaluation = dual.evaluate(lam)
    sketch = TemperedDual(dual.problem.local_sketch(evaluation, 40, dual.rng), dual.tau, dual.rng)
    assert sketch.problem.posterior.n <= 40
    before = sketch.evaluate(lam).values
    assert np.abs(before - evaluation.values).max() > 1e-3
    sketch.agree_with(evaluation)
    np.testing.assert_allclose(sketch.evaluate(lam).values, evaluation.values, atol=1e-12)
    sketch.agree_with(evaluation)  # agreeing twice is agreeing once
    np.testing.assert_allclose(sketch.evaluate(lam).values, evaluation.values, atol=1e-12)
    unit = np.zeros_like(lam)
    unit[4] = 1e-5
    slope = (sketch.evaluate(lam + unit).smooth - sketch.evaluate(lam - unit).smooth) / 2e-5
    assert slope == pytest.approx(-evaluation.values[4], abs=1e-8)


def test_the_sketch_keeps_the_rows_of_the_problem(case, lam):
    dual, _ = case
    sketch = dual.problem.local_sketch(dual.evaluate(lam), 40, dual.rng)
    assert sketch.matrix is dual.problem.matrix and sketch.utility is dual.problem.utility
    assert sketch.posterior.weight.mean() == pytest.approx(1, abs=1e-12)


# -- purity ------------------------------------------------------------------------------------------------
def test_evaluating_elsewhere_does_not_change_what_belongs_to_an_evaluation(case, lam):
    """The Hessian and the local sketch are those of the evaluation they are asked for, to the last bit."""
    problem, tau = case[0].problem, case[0].tau

    def parts(evaluation):
        sketch = problem.local_sketch(evaluation, 40, np.random.default_rng(2)).posterior
        return problem.hessian(evaluation, np.random.default_rng(0)), sketch.Z, sketch.weight

    evaluation = problem.evaluate(lam, tau)
    before = parts(evaluation)
    for other, temperature in ((-3 * lam, tau), (0 * lam, 10 * tau), (lam, 1e-3 * tau)):
        elsewhere = problem.evaluate(other, temperature)
        assert not np.array_equal(parts(elsewhere)[0], before[0])
        assert all(np.array_equal(old, new) for old, new in zip(before, parts(evaluation), strict=True))
    repeated = problem.evaluate(lam, tau)
    assert (repeated.smooth, repeated.values.tobytes()) == (evaluation.smooth, evaluation.values.tobytes())
    assert repeated.curvature.numbers.tobytes() == evaluation.curvature.numbers.tobytes()
    # The diagonal sorts the entries of D in place: the same up to rounding.
    diagonal = problem.hessian_diagonal(evaluation, np.random.default_rng(0))
    assert not np.allclose(problem.hessian_diagonal(elsewhere, np.random.default_rng(0)), diagonal)
    np.testing.assert_allclose(problem.hessian_diagonal(evaluation, np.random.default_rng(0)), diagonal, rtol=1e-12)
    np.testing.assert_allclose(parts(evaluation)[0], before[0], rtol=1e-9, atol=1e-12)


def test_problems_and_evaluations_are_frozen(make_dual):
    dual, rows = make_dual()
    evaluation = dual.evaluate(np.zeros(len(rows)))
    for thing, name in ((dual.problem, "matrix"), (evaluation, "curvature"), (dual.problem.posterior, "prior")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, None)


def test_what_a_search_remembers_is_in_the_tempered_problem(make_dual):
    dual, rows = make_dual()
    other = TemperedDual(dual.problem, dual.tau, np.random.default_rng(0))
    for _ in range(3):
        dual.evaluate(np.zeros(len(rows)))
    assert (dual.passes, other.passes) == (3, 0)
    assert dual.shift is None
