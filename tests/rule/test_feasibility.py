"""Test infeasible requests: proven exactly when the linear program is infeasible, with the rows in conflict."""

import re

import numpy as np
import pytest
from scipy import optimize, sparse

from optfair import Constraint, InfeasibleError, MinimumRate, Rows, solve
from optfair.rule.certificate import Status
from tests.problems import CRITERIA, KINDS, aware, blind, compiled, linear_program

NEAR = 1e-9


def random_request(seed):
    """Return (Z, constraints): several minima, some of them too high, and rows of a user. About half are infeasible."""
    rng = np.random.default_rng(seed)
    Z = (aware if seed % 2 else blind)(seed, 80)
    constraints = [MinimumRate("recall", round(rng.uniform(0.2, 0.75), 2)), Constraint("dp", 0.05)]
    if seed % 3 == 0:
        constraints.append(MinimumRate("selection", round(rng.uniform(0.2, 0.36), 2)))
    if seed % 3 == 1:
        constraints.append(Rows(rng.standard_normal((2, 27)), lower=rng.uniform(-0.1, 0.4)))
    return Z, constraints


def program_with(posterior, rows, keep=slice(None), widened=0.0):
    """Return the result of the linear program with some of the rows, their bounds widened."""
    D = rows.matrix(posterior.prior).toarray()[keep]
    lower, upper = rows.lower[keep] - widened, rows.upper[keep] + widened
    return linear_program(posterior.Z, D, lower, upper)


def least_loosening(posterior, rows):
    """Return min_h of how far the worst row is outside: a linear program with a further variable, t."""
    Z, K = posterior.Z, len(rows)
    n, _, m = Z.shape
    D = rows.matrix(posterior.prior).toarray().reshape(K, *Z.shape[1:], m)
    G = np.einsum("xai,kaij->kxj", Z / n, D).reshape(K, n * m)
    up, low = np.isfinite(rows.upper), np.isfinite(rows.lower)
    left = np.concatenate([G[up], -G[low]])
    result = optimize.linprog(
        np.append(np.zeros(n * m), 1.0),
        A_ub=np.column_stack([left, -np.ones(len(left))]),
        b_ub=np.concatenate([rows.upper[up], -rows.lower[low]]),
        A_eq=sparse.hstack([sparse.kron(sparse.eye_array(n), np.ones((1, m))), sparse.csr_array((n, 1))]),
        b_eq=np.ones(n),
        bounds=[(0, None)] * (n * m) + [(None, None)],
    )
    return result.fun


@pytest.mark.parametrize("seed", range(14))
def test_infeasible_exactly_when_the_linear_program_is(seed):
    Z, constraints = random_request(seed)
    posterior, rows = compiled(Z, constraints)
    feasible = program_with(posterior, rows).success
    least = least_loosening(posterior, rows)
    # Within 1e-4 of the border neither can be shown with the digits asked for; no seed here is that close.
    assert abs(least) > 1e-4 and (least < 0) == feasible
    if feasible:
        c = solve(Z, constraints, n_jobs=1).certificate
        best = program_with(posterior, rows).value
        assert c.excess == 0.0 and c.value <= best + NEAR <= c.upper_bound + 2 * NEAR
        return
    with pytest.raises(InfeasibleError) as caught:
        solve(Z, constraints, n_jobs=1)
    error = caught.value
    # the rows named contradict each other; there may be other conflicts among the rest
    named = np.isin(rows.names, error.rows)
    assert named.any() and set(error.rows) <= set(rows.names)
    assert not program_with(posterior, rows, named).success
    # the loosening suffices, and less than the lower bound does not
    assert error.lower_bound <= least + NEAR and least <= error.loosening + NEAR
    assert program_with(posterior, rows, widened=error.loosening + 1e-9).success
    assert not program_with(posterior, rows, widened=0.9 * error.lower_bound).success
    assert 0 < error.lower_bound <= error.loosening
    assert error.lower_bound >= 0.5 * error.loosening
    assert error.rows[0] in str(error)
    printed = re.search(r"by (\S+) would do \(at least (\S+) is needed", str(error)).groups()
    # rounded to the safe side: the number printed does suffice
    assert error.loosening <= float(printed[0]) <= 1.02 * error.loosening
    assert 0.98 * error.lower_bound <= float(printed[1]) <= error.lower_bound
    with pytest.raises(InfeasibleError):
        solve(Z, constraints, method="lp", n_jobs=1)


@pytest.mark.parametrize("seed", range(6))
def test_without_the_rows_of_the_only_conflict_the_rest_is_feasible(seed):
    """Demographic parity, and a row that wants class 0 for more people than another allows."""
    Z = KINDS["aware" if seed % 2 else "blind"](100 + seed, 80)
    D = np.zeros((2, 3, 3, 3))
    D[:, :, :, 0] = 1.0  # P(Ŷ=0), twice
    constraints = [Constraint("dp", 0.02), Rows(D, [0.5, -np.inf], [np.inf, 0.4], ["at least", "at most"])]
    with pytest.raises(InfeasibleError) as caught:
        solve(Z, constraints, n_jobs=1)
    posterior, rows = compiled(Z, constraints)
    named = np.isin(rows.names, caught.value.rows)
    assert {"at least", "at most"} <= set(caught.value.rows)
    assert program_with(posterior, rows, ~named).success
    assert not program_with(posterior, rows, named).success
    # half of the contradiction for each
    assert caught.value.loosening == pytest.approx(0.05, abs=1e-3)
    assert caught.value.lower_bound == pytest.approx(0.05, abs=1e-3)


def test_requests_of_both_kinds_were_tried():
    feasible = [program_with(*compiled(*random_request(seed))).success for seed in range(14)]
    assert 4 <= sum(feasible) <= 10


def test_many_infeasible_rows():
    """The weights are too many for a Hessian. Twenty classes cannot each be given to 6 % of every group."""
    Z = aware(3, 1500, 26, 20)
    with pytest.raises(InfeasibleError) as caught:
        solve(Z, MinimumRate("selection", 0.06), n_jobs=1)
    # The best loosening is to give each class to 1/20.
    assert caught.value.lower_bound <= 0.01 + NEAR <= caught.value.loosening + 1e-6
    assert caught.value.lower_bound >= 0.009


def test_the_margin_aimed_at_does_not_make_a_tight_request_infeasible():
    """Each of three classes to exactly a third of every group: feasible, but with no room inside."""
    Z = aware(4, 150)
    rule = solve(Z, MinimumRate("selection", 1 / 3 - 1e-4), n_jobs=1)
    assert rule.certificate.excess <= 1e-4


@pytest.mark.parametrize("method", ["dual", "lp"])
def test_gap_criteria_are_never_infeasible(method):
    for criterion in CRITERIA:
        solve(aware(5, 60), criterion, 0.0005, method=method, n_jobs=1)


def test_a_row_that_no_rule_can_move_does_not_hide_the_rest_of_the_conflict(make_tilted):
    Z = make_tilted(500, 3, 3, 1)
    D = np.zeros((1, 3, 3, 3))
    D[0, 0] = 1
    share = Z.mean(axis=0).sum(axis=1)[0]

    def constraints(width):
        return [Rows(D, lower=share + 0.01 - width), MinimumRate("recall", 0.95 - width)]

    with pytest.raises(InfeasibleError) as error:
        solve(Z, constraints(0.0), n_jobs=1)
    solve(Z, constraints(error.value.loosening * 1.01), n_jobs=1)
    with pytest.raises(InfeasibleError):
        solve(Z, constraints(error.value.lower_bound * 0.95), n_jobs=1)
    with pytest.raises(InfeasibleError, match=r"Widening every bound by \d"):
        solve(Z, MinimumRate("recall", 0.95), method="lp", n_jobs=1)


@pytest.mark.parametrize("method", ["dual", "lp"])
@pytest.mark.parametrize(
    ("shape", "best"), [((12, 1, 4), 0.25), ((12, 2, 2), 0.5), ((50_000, 1, 4), 0.25)], ids=["one group", "two", "many"]
)
def test_rows_that_are_all_alike(shape, best, method):
    """Whatever the rule, its accuracy is that of a guess: no curvature, multipliers go straight to the cap."""
    if shape[0] > 1000 and method == "lp":
        pytest.skip("the exact program is for few rows")
    Z = np.full(shape, 1 / (shape[1] * shape[2]))
    solve(Z, MinimumRate("accuracy", best), n_jobs=1)
    with pytest.raises(InfeasibleError) as error:
        solve(Z, MinimumRate("accuracy", best + 0.05), method=method, n_jobs=1)
    np.testing.assert_allclose([error.value.loosening, error.value.lower_bound], 0.05, atol=1e-9)


def test_a_rule_far_outside_of_its_bounds_is_never_called_optimal(monkeypatch):
    """If the caps told nothing, the last rule would: it is outside, and the proof is looked for then."""
    Z = aware(1, 200)
    monkeypatch.setattr("optfair.rule.driver.Search.is_capped", lambda search: False)
    with pytest.raises(InfeasibleError):
        solve(Z, MinimumRate("recall", 0.99), n_jobs=1)
    rule = solve(Z, MinimumRate("recall", 0.99), max_multiplier=2.0, n_jobs=1)
    assert rule.certificate.excess > 0.01 and rule.certificate.status is not Status.OPTIMAL
