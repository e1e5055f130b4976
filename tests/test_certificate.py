"""The proof: true for any multipliers and any rule, and every number in it recomputed by naive code."""

import numpy as np
import pytest
from problems import (
    CRITERIA,
    KINDS,
    aware,
    blind,
    compiled,
    confusion,
    costs,
    gaps,
    linear_program,
    linear_rows,
    softmax,
    weights,
)

from optfair import MinimumRate, Ratio, Rows, solve
from optfair.dual.certificate import assess, upper_bound
from optfair.dual.exact import solve_exact

DRAWS = 40
OFFSET = 0.2 * np.random.default_rng(9).standard_normal((80, 3))
SETTINGS = {
    "dp": ("dp", 0.01, {}),
    "eo": ("eo", 0.05, {"w": weights(0)}),
    "oae pairwise": ("oae", 0.02, {"reference": "pairwise"}),
    "meo with offset": ("meo", 0.02, {"offset": OFFSET}),
    "one-sided": ([Ratio("dp", 0.9), MinimumRate("recall", 0.1)], None, {"w": weights(1)}),
    "own": (Rows(np.random.default_rng(2).standard_normal((3, 27)), -0.3, [0.2, 0.1, np.inf]), None, {}),
}


@pytest.fixture(params=[(kind, name) for kind in KINDS for name in SETTINGS], ids=lambda p: f"{p[0]}-{p[1]}")
def case(request):
    """(posterior, rows, utility, U) of one small problem."""
    kind, name = request.param
    criterion, tolerance, options = SETTINGS[name]
    posterior, rows = compiled(KINDS[kind](3), criterion, tolerance, **options)
    U = 1 - costs(3) / 3 if name == "dp" else np.eye(3)
    return posterior, rows, np.tile(U, (3, 1)), U


def some_rule(Z, offset):
    return softmax(Z[:, :3])


def naive_upper_bound(posterior, rows, U, lam, excess=0.0):
    """mean_x max_j β_j + Σ_k (upper_k λ_k⁺ − lower_k λ_k⁻)"""
    D = rows.matrix(posterior.prior).toarray().reshape(len(rows), 3, 3, 3)
    beta = np.einsum("xai,aij->xj", posterior.Z, U[None] - np.tensordot(lam, D, 1))
    beta += 0.0 if posterior.offset is None else posterior.offset
    return np.average(beta.max(axis=1), weights=posterior.weight) + sum(
        x * (up + excess) if x > 0 else x * (low - excess) if x < 0 else 0.0
        for x, low, up in zip(lam, rows.lower, rows.upper, strict=True)
    )


def allowed(rows, lam):
    """λ with the sign that infinite bounds demand."""
    lam = np.where(np.isinf(rows.upper), np.minimum(lam, 0), lam)
    return np.where(np.isinf(rows.lower), np.maximum(lam, 0), lam)


def bound_at(posterior, rows, utility, lam, excess=0.0):
    W = utility - (rows.matrix(posterior.prior).T @ lam).reshape(utility.shape)
    return upper_bound(assess(posterior, some_rule, W), rows, lam, excess)


def exact_value(posterior, rows, U, widened=0.0):
    D = rows.matrix(posterior.prior).toarray()
    lower, upper = rows.lower - widened, rows.upper + widened
    utility = np.broadcast_to(U, (3, 3, 3))
    return linear_program(posterior.Z, D, lower, upper, posterior.weight, utility, posterior.offset)


def test_two_linear_programs_agree(case):
    posterior, rows, utility, U = case
    exact = solve_exact(posterior, rows, utility)
    assert exact.value == pytest.approx(exact_value(posterior, rows, U).value, abs=1e-8)
    np.testing.assert_allclose(exact.probabilities.sum(axis=1), 1, atol=1e-8)
    assert rows.excess(rows.values(confusion(posterior.Z, exact.probabilities, posterior.weight))) <= 1e-7


def test_the_upper_bound_is_true_for_any_multipliers(case):
    """Weak duality: however wrong λ is, no rule within the bounds is better than upper(λ)."""
    posterior, rows, utility, U = case
    exact = solve_exact(posterior, rows, utility)
    rng = np.random.default_rng(0)
    slack = []
    for draw in range(DRAWS):
        noise = allowed(rows, rng.standard_normal(len(rows)) * 10.0 ** rng.uniform(-5, 1))
        lam = noise if draw % 2 else allowed(rows, exact.multipliers + noise)
        bound = bound_at(posterior, rows, utility, lam)
        assert bound == pytest.approx(naive_upper_bound(posterior, rows, U, lam), rel=1e-10)
        slack.append(bound - exact.value)
    assert min(slack) >= -1e-8
    assert max(slack) > 1e-2, "some of these multipliers are far off"


def test_strong_duality_the_programs_own_multipliers_give_a_tight_bound(case):
    posterior, rows, utility, _ = case
    exact = solve_exact(posterior, rows, utility)
    assert bound_at(posterior, rows, utility, exact.multipliers) == pytest.approx(exact.value, abs=1e-7)


def test_no_feasible_rule_beats_the_bound(case):
    """Feasible rules at random: mixtures of optima for other utilities. gap = upper(λ) − value ≥ 0 for all of them."""
    posterior, rows, utility, U = case
    rng = np.random.default_rng(1)
    others = [solve_exact(posterior, rows, rng.random(utility.shape)).probabilities for _ in range(4)]
    others.append(solve_exact(posterior, rows, utility).probabilities)
    gain = np.einsum("xai,ij->xj", posterior.Z, U) + (0.0 if posterior.offset is None else posterior.offset)
    for _ in range(DRAWS):
        h = np.tensordot(rng.dirichlet(np.full(5, 0.3)), others, 1)
        assert rows.excess(rows.values(confusion(posterior.Z, h, posterior.weight))) <= 1e-7
        value = np.average((gain * h).sum(axis=1), weights=posterior.weight)
        lam = allowed(rows, 0.1 * rng.standard_normal(len(rows)))
        assert bound_at(posterior, rows, utility, lam) >= value - 1e-7


def test_the_bound_of_wider_tolerances_holds_for_them(case):
    """upper(λ) + t‖λ‖₁ bounds the rules that are outside by at most t."""
    posterior, rows, utility, U = case
    rng = np.random.default_rng(2)
    for t in (0.003, 0.03):
        best = exact_value(posterior, rows, U, widened=t).value
        for _ in range(5):
            lam = allowed(rows, 0.1 * rng.standard_normal(len(rows)))
            wider = bound_at(posterior, rows, utility, lam, t)
            assert wider == pytest.approx(bound_at(posterior, rows, utility, lam) + t * np.abs(lam).sum(), abs=1e-10)
            assert wider >= best - 1e-8


def test_a_multiplier_that_leans_on_an_infinite_bound_proves_nothing():
    posterior, rows = compiled(blind(3), Ratio("dp", 0.9))
    lam = np.zeros(len(rows))
    lam[0] = 0.1
    assert bound_at(posterior, rows, np.tile(np.eye(3), (3, 1)), lam) == np.inf


def test_gap_splits_into_temperature_and_slackness():
    """gap = T + S:  T = mean Σ_j h_j (max β − β_j),  S = σ(λ) − λ·D(h)."""
    Z, xi = aware(4, 300), 0.02
    rule = solve(Z, "eo", xi, temperature=0.02, n_jobs=1)
    h, lam = rule.predict_proba(Z), rule.multipliers["multiplier"].to_numpy(float)
    beta = np.einsum("xai,aij->xj", Z, rule.weights)
    T = (h * (beta.max(axis=1, keepdims=True) - beta)).sum(axis=1).mean()
    values = compiled(Z, "eo", xi)[1].values(confusion(Z, h))
    S = xi * np.abs(lam).sum() - lam @ values
    assert rule.certificate.excess == 0.0
    assert rule.certificate.gap == pytest.approx(T + S, abs=1e-9)
    assert min(T, S) >= 0


# -- the certificate of a rule, recomputed ------------------------------------------------------------------
def naive_excess(table):
    outside = np.maximum(table["value"] - table["upper"], table["lower"] - table["value"]).astype(float)
    return max(outside.max(), 0.0)


@pytest.mark.parametrize("reference", ["overall", "pairwise"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_the_certificate(dtype, kind, criterion, reference):
    Z, w, xi = KINDS[kind](5, 200, dtype=dtype), weights(5, 200), 0.02
    rule = solve(Z, criterion, xi, reference=reference, sample_weight=w, n_jobs=1)
    c, Z = rule.certificate, Z.astype(np.float64)
    h = rule.predict_proba(Z)
    J = confusion(Z, h, w)
    values = np.array(list(gaps(criterion, J, J.sum(axis=2), reference).values()))
    accuracy = np.average((Z.sum(axis=1) * h).sum(axis=1), weights=w)
    # float32 rows do not sum to 1 exactly, so P and mean Z differ in the 8th digit
    close = 1e-10 if dtype == np.float64 else 1e-6
    assert c.accuracy == pytest.approx(accuracy, abs=close)
    assert c.value == c.accuracy or c.value == pytest.approx(accuracy, abs=close)
    assert c.violation == pytest.approx(np.abs(values).max(), abs=close)
    assert c.excess == pytest.approx(max(np.abs(values).max() - xi, 0.0), abs=close)
    assert c.gap == pytest.approx(c.upper_bound - c.value, abs=1e-12)
    # the reported multipliers prove the reported bound
    lam = rule.multipliers["multiplier"].to_numpy(float)
    P = np.average(Z, axis=0, weights=w)
    D = linear_rows(lambda J, P: gaps(criterion, J, P, reference).values(), P).reshape(-1, 3, 3, 3)
    beta = np.einsum("xai,aij->xj", Z, np.eye(3) - np.tensordot(lam, D, 1))
    bound = np.average(beta.max(axis=1), weights=w) + (xi + c.excess) * np.abs(lam).sum()
    assert c.upper_bound == pytest.approx(bound, abs=close)
    assert (c.tolerance, c.temperature) == (xi, rule.temperatures.min())
    assert c.passes >= 0 and c.seconds > 0 and c.residual >= 0
    assert naive_excess(rule.multipliers) == pytest.approx(c.excess, abs=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"costs": costs(6)}, {"sample_weight": weights(6, 200)}], ids=["plain", "costs", "weights"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_every_number_of_determinism(kind, options):
    Z = KINDS[kind](6, 200)
    w = options.get("sample_weight", np.ones(200))
    rule = solve(Z, "eo", 0.01, temperature=0.02, n_jobs=1, **options)
    d = rule.determinism
    h = rule.predict_proba(Z)
    hard = np.eye(3)[h.argmax(axis=1)]
    for rate, accuracy, violation in (
        (h, d.accuracy_randomised, d.violation_randomised),
        (hard, d.accuracy_argmax, d.violation_argmax),
    ):
        J = confusion(Z, rate, w)
        assert accuracy == pytest.approx(np.trace(J.sum(axis=0)), abs=1e-10)
        assert violation == pytest.approx(np.abs(list(gaps("eo", J, J.sum(axis=2)).values())).max(), abs=1e-10)
    undecided = h.max(axis=1) < 0.99
    assert d.undecided == pytest.approx(np.average(undecided, weights=w), abs=1e-12)
    assert 0 < d.undecided < 1
    assert d.distinct == len(np.unique(Z[undecided].reshape(undecided.sum(), -1), axis=0)) / undecided.sum() == 1.0


def test_distinct_counts_people_with_the_same_row_once():
    Z = np.repeat(aware(7, 60), 5, axis=0)
    d = solve(Z, "eo", 0.01, temperature=0.02, n_jobs=1).determinism
    assert d.distinct == pytest.approx(1 / 5)


def test_determinism_of_a_plain_argmax():
    Z = aware(7, 60)
    d = solve(Z, "dp", 1.0, n_jobs=1).determinism
    assert (d.undecided, d.distinct) == (0.0, 1.0)
    assert d.accuracy_argmax == d.accuracy_randomised and d.violation_argmax == d.violation_randomised


def test_determinism_with_an_offset_counts_the_rows_the_rule_is_undecided_on():
    Z = np.repeat(aware(8, 60), 5, axis=0)
    Z[0::5] = aware(9, 60)  # one row in five is someone else
    offset = np.zeros((300, 3))
    offset[0::5, 0] = 5.0  # and is decided by its offset
    rule = solve(Z, "eo", 0.01, offset=offset, temperature=0.02, n_jobs=1)
    undecided = rule.predict_proba(Z, offset=offset).max(axis=1) < 0.99
    assert rule.determinism.undecided == pytest.approx(undecided.mean())
    expected = len(np.unique(Z[undecided].reshape(undecided.sum(), -1), axis=0)) / undecided.sum()
    assert rule.determinism.distinct == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_method_lp_reports_the_exact_optimum(seed):
    """The rule is the dual's at a low temperature, the bound and the multipliers are the program's."""
    Z, xi = aware(10 + seed, 150), 0.03
    c = solve(Z, "eo", xi, method="lp", n_jobs=1).certificate
    posterior, rows = compiled(Z, "eo", xi)
    best = linear_program(Z, rows.matrix(posterior.prior).toarray(), -xi, xi).value
    if c.excess == 0:
        assert c.upper_bound == pytest.approx(best, abs=1e-7)
        assert c.accuracy <= best + 1e-9
    assert c.gap <= 1e-3


def test_the_certificate_prints_every_field():
    c = solve(aware(11), ["dp", MinimumRate("recall", 0.05)], 0.05, costs=costs(11), n_jobs=1).certificate
    text = str(c)
    for word in (
        "accuracy",
        "value",
        "upper bound",
        "gap",
        "violation",
        "tolerance",
        "excess",
        "temperature",
        "status",
    ):
        assert word in text
    assert "0.05, 0.05" in text
    assert "upper bound" in str(c) and c.tolerance == (0.05, 0.05)
