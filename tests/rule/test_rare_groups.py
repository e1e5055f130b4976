"""Test a group of one in a thousand, and a group of three people: within tolerance like any other."""

from functools import cache

import numpy as np
import pytest

from optfair import solve
from optfair.rule.certificate import Status
from tests.problems import KINDS, aware, compiled, confusion, gaps, linear_program, linear_rows

N, A, m, XI = 60_000, 4, 4, 0.01
SHARE = [0.6, 0.3, 0.099, 0.001]


def rare_blind(seed):
    """Return Z (N, A, m) whose last group is 0.1 % of the mass, and rarely certain."""
    Z = KINDS["blind"](seed, N, A, m)
    group = np.random.default_rng(seed + 1).dirichlet(2 * np.array(SHARE), N)
    Z = Z / Z.sum(axis=2, keepdims=True) * group[:, :, None]
    return Z / Z.sum((1, 2), keepdims=True)


def rare_aware(seed):
    return aware(seed, N, A, m, share=SHARE)


RARE = {"blind": rare_blind, "aware": rare_aware}


@pytest.fixture(scope="module", params=RARE)
def Z(request):
    return RARE[request.param](0)


@pytest.fixture(scope="module")
def solve_rare(Z):
    """Return a function that solves for the rows with a rare group, once for each criterion and dtype."""
    return cache(lambda criterion, dtype: solve(Z.astype(dtype), criterion, XI, n_jobs=1))


def test_the_last_group_is_rare_and_treated_differently(Z):
    """The problem is not trivial: the plain argmax is far outside for the rare group."""
    size = Z.mean(axis=0).sum(axis=1)
    assert size[3] == pytest.approx(0.001, rel=0.35)
    h = np.eye(m)[Z.sum(axis=1).argmax(axis=1)]
    J = confusion(Z, h)
    worst = max(abs(gap) for (a, *_), gap in gaps("dp", J, J.sum(axis=2)).items() if a == 3)
    assert worst > 3 * XI


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_a_group_of_one_in_a_thousand(Z, solve_rare, criterion, dtype):
    rule = solve_rare(criterion, dtype)
    c = rule.certificate
    h = rule.predict_proba(Z)
    J = confusion(Z, h)
    values = gaps(criterion, J, J.sum(axis=2))
    rare = max(abs(gap) for (a, *_), gap in values.items() if a == 3)
    close = 1e-9 if dtype == np.float64 else 1e-5  # rows rounded to float32 weigh a rare cell a little differently
    assert c.excess == 0.0
    assert rare <= XI + close
    assert c.violation == pytest.approx(max(map(abs, values.values())), abs=close)
    assert c.accuracy == pytest.approx(np.trace(J.sum(axis=0)), abs=1e-6)
    assert c.gap >= -1e-9
    expected = (Status.OPTIMAL,) if c.gap <= 1e-3 else (Status.COLDEST_REACHED, Status.MAX_PASSES)
    assert c.status in expected
    # and not because the rule was mixed with a constant beyond recognition
    assert rule.share <= 0.01


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_the_price_of_smoothing_a_rare_group_is_within_the_gap(Z, solve_rare, criterion):
    """ "auto" gives rare groups a higher temperature; the bound is still that of the exact problem."""
    rule = solve_rare(criterion, np.float64)
    assert rule.temperatures[3].min() >= rule.temperatures[:3].max()
    cold = solve(Z, criterion, XI, temperature=1e-3, n_jobs=1).certificate
    if cold.excess == 0.0:
        assert cold.accuracy <= rule.certificate.upper_bound + 1e-9


# -- three people -------------------------------------------------------------------------------------------
def three_people(seed, n=120):
    """Return aware rows: a group of n − 3 people, and three people who are nearly certain of a class each."""
    Z = aware(seed, n, 2, 3, share=[1.0, 0.0])
    Z[:3] = 0.0
    Z[:3, 1] = 0.9 * np.eye(3) + 0.1 / 3
    return Z


@pytest.mark.parametrize("n", [120, 6000, 50_000])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_a_group_of_three_people(criterion, n):
    Z = three_people(3, n)
    rule = solve(Z, criterion, 0.02, n_jobs=1)
    c = rule.certificate
    J = confusion(Z, rule.predict_proba(Z))
    values = gaps(criterion, J, J.sum(axis=2))
    assert c.excess == 0.0
    assert max(map(abs, values.values())) <= 0.02 + 1e-9
    assert -1e-9 <= c.gap <= 1e-3


@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_a_group_of_three_people_against_the_linear_program(criterion):
    Z = three_people(4)
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), Z.mean(axis=0))
    best = linear_program(Z, D, -0.02, 0.02).value
    c = solve(Z, criterion, 0.02, n_jobs=1).certificate
    assert c.accuracy <= best + 1e-9 <= c.upper_bound + 2e-9
    assert c.gap <= 1e-3


def test_one_person_alone_in_a_cell():
    """One person is all of a group; its rates are then that person's own probabilities."""
    Z = aware(5, 200, 2, 3, share=[1.0, 0.0])
    Z[0] = [[0, 0, 0], [0.2, 0.5, 0.3]]
    rule = solve(Z, "dp", 0.01, n_jobs=1)
    h = rule.predict_proba(Z)
    assert rule.certificate.excess == 0.0
    np.testing.assert_allclose(h[0], h.mean(axis=0), atol=0.01 + 1e-9)
    posterior, rows = compiled(Z, "dp", 0.01)
    assert np.abs(rows.matrix(posterior.prior) @ confusion(Z, h).ravel()).max() <= 0.01 + 1e-12
