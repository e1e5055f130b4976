"""Test `optfair.solve`: optimality conditions, the form of the rule, symmetries, costs, temperatures and caps."""

import numpy as np
import pytest

from optfair import Constraint, MinimumRate, Ratio, Rows, solve
from optfair.rule.certificate import Status
from tests.problems import CRITERIA, KINDS, aware, blind, compiled, confusion, costs, linear_program, softmax, weights


def naive_scores(rule, Z, offset=None):
    """Return β_j(x) = Σ z[a,i] W[a,i,j] + offset_j(x) and τ(x) = Σ z[a,i] τ[a,i]."""
    beta = np.einsum("xai,aij->xj", Z.astype(np.float64), rule.weights) + (0.0 if offset is None else offset)
    return beta, np.einsum("xai,ai->x", Z.astype(np.float64), rule.temperatures)


def naive_rule(rule, Z, offset=None):
    beta, tau = naive_scores(rule, Z, offset)
    return (1 - rule.share) * softmax(beta / tau[:, None]) + rule.share * rule.constant


def multipliers(rule):
    return rule.multipliers["multiplier"].to_numpy(dtype=float)


def is_noted_as_outside(certificate):
    return any(note.startswith("outside its bounds by ") for note in certificate.notes)


# -- optimality ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_kkt_conditions_hold_at_the_solution(criterion, kind):
    """λ_k > 0 only where D_k is at its upper bound, < 0 only at its lower one, up to the 1 % aimed inside."""
    Z, xi = KINDS[kind](1, 300), 0.02
    rule = solve(Z, criterion, xi, n_jobs=1)
    rows = compiled(Z, criterion, xi)[1]
    values = rows.values(confusion(Z, rule.predict_proba(Z)))
    lam = multipliers(rule)
    slack = 0.03 * xi
    assert np.abs(values).max() <= xi + 1e-12
    np.testing.assert_allclose(values[lam > 1e-6], xi, atol=slack)
    np.testing.assert_allclose(values[lam < -1e-6], -xi, atol=slack)
    np.testing.assert_allclose(rule.multipliers["value"].astype(float), values, atol=1e-10)
    D = rows.matrix(Z.mean(axis=0)).toarray().reshape(len(rows), *rule.weights.shape)
    np.testing.assert_allclose(rule.weights, np.eye(3) - np.tensordot(lam, D, 1), atol=1e-10)


def test_one_sided_rows_keep_the_sign_of_their_multipliers():
    Z = aware(2, 300)
    rule = solve(Z, [Ratio("dp", 0.9), MinimumRate("recall", 0.3)], n_jobs=1)
    lam = multipliers(rule)
    assert rule.certificate.excess == 0.0
    assert (lam <= 0).all() and lam.min() < -1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_tolerance_gives_the_unconstrained_argmax(kind):
    Z = KINDS[kind](3, 200)
    rule = solve(Z, "dp", 1.0, n_jobs=1)
    assert not multipliers(rule).any()
    assert not rule.temperatures.any() and rule.certificate.temperature == 0.0
    h = rule.predict_proba(Z)
    best = Z.sum(axis=1)
    np.testing.assert_array_equal(h.argmax(axis=1), best.argmax(axis=1))
    assert set(np.unique(h)) == {0.0, 1.0}
    assert rule.certificate.accuracy == pytest.approx(best.max(axis=1).mean(), abs=1e-12)
    assert rule.certificate.status is Status.UNCONSTRAINED and rule.certificate.notes == ()
    assert rule.certificate.passes == 0


def test_the_smallest_tolerance_that_does_not_bind_is_the_violation_of_the_argmax():
    Z = aware(3, 200)
    free = solve(Z, "dp", 1.0, n_jobs=1).certificate.violation
    assert not multipliers(solve(Z, "dp", free + 1e-9, n_jobs=1)).any()
    assert multipliers(solve(Z, "dp", free - 1e-3, n_jobs=1)).any()


def test_tolerance_zero_is_met_to_the_digits_of_the_solver_and_the_rest_is_reported():
    """There is no room to aim inside, so what is left is the KKT residual the solver stops at, 1e-4."""
    c = solve(aware(3, 300), "dp", 0.0, n_jobs=1).certificate
    assert c.excess == c.violation <= 1e-4
    assert c.gap <= 1e-3
    assert (c.excess == 0.0) != is_noted_as_outside(c)


def test_tolerance_zero_is_met_to_a_millionth(make_tilted):
    assert solve(make_tilted(2000, 3, 3, 1), "dp", 0.0, n_jobs=1).certificate.excess <= 2e-6


# -- the form of the rule -----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_the_rule_is_the_softmax_of_linear_scores(criterion, kind):
    Z = KINDS[kind](4, 200)
    rule = solve(Z, criterion, 0.02, n_jobs=1)
    np.testing.assert_allclose(rule.predict_proba(Z), naive_rule(rule, Z), atol=1e-12)


def test_aware_rule_is_that_of_the_group_alone():
    """β(x,a) = M(a,λ)ᵀη(x,a): for a known group only that group's m × m block matters, without a factor ω_a."""
    Z = aware(5, 200, A=3, m=4)
    rule = solve(Z, "eo", 0.02, n_jobs=1)
    lam, P = rule.multipliers, Z.mean(axis=0)
    for x in range(0, 200, 20):
        a = int(Z[x].sum(axis=1).argmax())
        eta = Z[x, a]
        beta = eta.copy()
        for g, i, j, value in zip(lam["group"], lam["given"], lam["outcome"], lam["multiplier"], strict=True):
            beta[j] -= value * eta[i] * ((g == a) / P[a, i] - 1 / P[:, i].sum())
        h = softmax(beta / (eta @ rule.temperatures[a]))
        np.testing.assert_allclose(rule.predict_proba(Z[x : x + 1])[0], h, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_demographic_parity_in_closed_form(kind):
    """The paper's example: β_i(x) = η_i(x) + Σ_a λ'_{i,a} (1 − p_a(x)/ω_a), with λ' = λ here.

    D = group rate − overall rate, W = U − Dᵀλ: the row (a, j) adds −λ (p_a(x)/ω_a − 1) to score j.
    """
    Z = KINDS[kind](6, 300, A=3, m=4)
    rule = solve(Z, "dp", 0.01, n_jobs=1)
    eta, p = Z.sum(axis=1), Z.sum(axis=2)
    omega = p.mean(axis=0)
    lam = np.zeros((4, 3))
    for a, j, value in zip(*(rule.multipliers[c] for c in ("group", "outcome", "multiplier")), strict=True):
        lam[j, a] = value
    beta = eta + (1 - p / omega) @ lam.T
    np.testing.assert_allclose(naive_scores(rule, Z)[0], beta, atol=1e-12)
    assert np.abs(lam).max() > 1e-3


# -- symmetries ---------------------------------------------------------------------------------------------
# λ and h are unique only where the dual is strictly convex; the least-norm choice removes the ties that come from
# rows saying the same, and what is left is the solver's tolerance divided by the curvature: about 1e-3.
def by_name(rule):
    keys = rule.multipliers[["criterion", "group", "against", "given", "outcome"]].itertuples(index=False, name=None)
    return dict(zip(keys, multipliers(rule), strict=True))


@pytest.mark.parametrize("A, m", [(2, 2), (3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_relabelling_groups_and_classes_permutes_rule_and_multipliers(criterion, A, m):
    Z = blind(7, 400, A, m)
    rng = np.random.default_rng(0)
    g, c = rng.permutation(A), rng.permutation(m)
    options = {"tolerance": 0.005, "temperature": 0.01, "n_jobs": 1}
    rule = solve(Z, criterion, groups=list("fghk"[:A]), classes=list("stuv"[:m]), **options)
    permuted = Z[:, g][:, :, c]
    other = solve(permuted, criterion, groups=["fghk"[a] for a in g], classes=["stuv"[i] for i in c], **options)
    np.testing.assert_allclose(other.predict_proba(permuted), rule.predict_proba(Z)[:, c], atol=1e-3)
    first, second = by_name(rule), by_name(other)
    assert first.keys() == second.keys()
    for key in first:
        assert first[key] == pytest.approx(second[key], abs=1e-3), key
    assert max(map(abs, first.values())) > 1e-3


@pytest.mark.parametrize("A, m", [(2, 3), (3, 2), (4, 3)])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_relabelling_permutes_the_rule_of_pairwise_gaps(criterion, A, m):
    Z = aware(8, 400, A, m)
    g, c = np.random.default_rng(1).permutation(A), np.random.default_rng(2).permutation(m)
    options = {"tolerance": 0.02, "reference": "pairwise", "temperature": 0.01, "n_jobs": 1}
    rule = solve(Z, criterion, **options)
    other = solve(Z[:, g][:, :, c], criterion, **options)
    np.testing.assert_allclose(other.predict_proba(Z[:, g][:, :, c]), rule.predict_proba(Z)[:, c], atol=2e-3)


def test_the_order_of_rows_does_not_matter():
    Z = blind(9, 300)
    order = np.random.default_rng(0).permutation(300)
    first, second = (solve(z, "eo", 0.01, temperature=0.01, n_jobs=1) for z in (Z, Z[order]))
    np.testing.assert_allclose(first.predict_proba(Z), second.predict_proba(Z), atol=1e-3)
    assert first.certificate.accuracy == pytest.approx(second.certificate.accuracy, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_two_is_the_row_twice(kind):
    Z = KINDS[kind](10, 150)
    copies = np.random.default_rng(0).integers(0, 3, 150)
    options = {"temperature": 0.01, "n_jobs": 1}
    weighted = solve(Z, "eo", 0.02, sample_weight=copies, **options)
    repeated = solve(np.repeat(Z, copies, axis=0), "eo", 0.02, **options)
    np.testing.assert_allclose(weighted.predict_proba(Z), repeated.predict_proba(Z), atol=1e-3)
    for name in ("accuracy", "upper_bound", "violation"):
        assert getattr(weighted.certificate, name) == pytest.approx(getattr(repeated.certificate, name), abs=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1e300])
def test_only_the_ratios_of_weights_matter(scale):
    Z, w = blind(11, 150), weights(11, 150)
    first = solve(Z, "dp", 0.01, sample_weight=w, n_jobs=1)
    second = solve(Z, "dp", 0.01, sample_weight=scale * w, n_jobs=1)
    assert first.certificate.accuracy == pytest.approx(second.certificate.accuracy, abs=1e-6)


def test_equal_weights_are_no_weights():
    Z = blind(11, 150)
    first, second = (solve(Z, "dp", 0.01, sample_weight=w, n_jobs=1) for w in (None, np.full(150, 7.0)))
    np.testing.assert_allclose(first.predict_proba(Z), second.predict_proba(Z), atol=1e-6)


def test_a_criterion_named_twice_changes_nothing():
    Z = aware(12, 300)
    once = solve(Z, "dp", 0.02, n_jobs=1).certificate
    twice = solve(Z, ["dp", "dp"], 0.02, n_jobs=1).certificate
    assert twice.excess == 0.0
    assert abs(once.accuracy - twice.accuracy) <= max(once.gap, twice.gap) + 1e-9


def test_rows_of_the_user_equal_the_criterion_they_spell_out():
    Z = aware(12, 300)
    posterior, rows = compiled(Z, "eo", 0.02)
    D = rows.matrix(posterior.prior)
    named = solve(Z, "eo", 0.02, temperature=0.01, n_jobs=1)
    spelled_out = solve(Z, Rows(D, -0.02, 0.02), temperature=0.01, n_jobs=1)
    np.testing.assert_allclose(named.predict_proba(Z), spelled_out.predict_proba(Z), atol=1e-6)


# -- costs --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("per_group", [False, True])
def test_minimising_zero_one_costs_is_maximising_accuracy(per_group):
    Z = aware(13, 300)
    R = 1 - np.eye(3)
    first = solve(Z, "eo", 0.02, n_jobs=1)
    second = solve(Z, "eo", 0.02, costs=np.tile(R, (3, 1, 1)) if per_group else R, n_jobs=1)
    np.testing.assert_array_equal(first.predict_proba(Z), second.predict_proba(Z))
    np.testing.assert_array_equal(multipliers(first), multipliers(second))
    assert second.certificate.value == pytest.approx(first.certificate.accuracy - 1, abs=1e-12)
    assert second.certificate.gap == pytest.approx(first.certificate.gap, abs=1e-12)


@pytest.mark.parametrize("shape", ["(m, m)", "(A, m, m)"])
def test_scaling_costs_scales_value_gap_and_multipliers(shape):
    Z = aware(14, 300)
    R = costs(14) if shape == "(m, m)" else np.stack([costs(k) for k in range(3)])
    first, tenfold = (solve(Z, "dp", 0.02, costs=scale * R, n_jobs=1) for scale in (1.0, 10.0))
    np.testing.assert_allclose(first.predict_proba(Z), tenfold.predict_proba(Z), atol=1e-6)
    np.testing.assert_allclose(multipliers(tenfold), 10 * multipliers(first), atol=1e-4)
    for name in ("value", "gap", "upper_bound"):
        expected = 10 * getattr(first.certificate, name)
        assert getattr(tenfold.certificate, name) == pytest.approx(expected, abs=1e-6), name


def test_adding_a_constant_to_all_costs_moves_the_value_only():
    Z, R = aware(14, 300), costs(14)
    first, shifted = (solve(Z, "dp", 0.02, costs=R + shift, n_jobs=1) for shift in (0.0, 5.0))
    np.testing.assert_allclose(first.predict_proba(Z), shifted.predict_proba(Z), atol=1e-6)
    assert shifted.certificate.value == pytest.approx(first.certificate.value - 5, abs=1e-6)


def test_value_is_minus_the_expected_cost():
    Z, w = aware(15, 200), weights(15, 200)
    R = np.stack([costs(k) for k in range(3)])
    rule = solve(Z, "dp", 0.02, costs=R, sample_weight=w, n_jobs=1)
    J = confusion(Z, rule.predict_proba(Z), w)
    assert rule.certificate.value == pytest.approx(-(J * R).sum(), abs=1e-10)
    assert rule.certificate.accuracy == pytest.approx(np.trace(J.sum(axis=0)), abs=1e-10)


@pytest.mark.parametrize("mass", [1 - 9e-4, 1.0, 1 + 9e-4])
def test_the_cost_is_that_of_the_rule_also_where_rows_do_not_quite_sum_to_one(make_tilted, mass):
    Z, R = make_tilted(2000, 3, 3, 1) * mass, 1000 + (1 - np.eye(3))
    rule = solve(Z, "dp", 0.01, costs=R, n_jobs=1)
    expected = -np.einsum("xai,xj,ij->", Z, rule.predict_proba(Z), R) / len(Z)
    assert rule.certificate.value == pytest.approx(expected, abs=1e-8)
    assert rule.certificate.upper_bound >= expected


# -- temperatures, offset, caps -----------------------------------------------------------------------------
def test_a_given_temperature_is_used():
    Z = aware(16, 300)
    rule = solve(Z, "dp", 0.02, temperature=0.03, n_jobs=1)
    np.testing.assert_allclose(rule.temperatures, 0.03)
    assert rule.certificate.temperature == pytest.approx(0.03)
    expected = Status.OPTIMAL if rule.certificate.gap <= 1e-3 else Status.TEMPERATURE_COST
    assert rule.certificate.status is expected


def test_the_gap_falls_with_the_temperature():
    """T ≤ τ log m: the entropy bound of the softmax, plus what complementary slackness leaves."""
    Z = aware(16, 300)
    gaps = {tau: solve(Z, "dp", 0.02, temperature=tau, n_jobs=1).certificate.gap for tau in (0.1, 0.01, 0.001)}
    for tau, gap in gaps.items():
        assert -1e-9 <= gap <= tau * np.log(3) + 5e-4
    assert gaps[0.1] > gaps[0.01] > gaps[0.001]


@pytest.mark.parametrize("shape", [(3,), (3, 3)])
def test_temperatures_per_group_or_cell(shape):
    Z = blind(17, 300)
    tau = np.random.default_rng(0).uniform(0.01, 0.1, shape)
    rule = solve(Z, "dp", 0.02, temperature=tau, n_jobs=1)
    np.testing.assert_allclose(rule.temperatures, np.broadcast_to(tau.reshape(3, -1), (3, 3)))
    np.testing.assert_allclose(rule.predict_proba(Z), naive_rule(rule, Z), atol=1e-12)
    assert rule.certificate.excess == 0.0
    assert rule.certificate.temperature == pytest.approx(tau.min())


def test_offsets_are_added_to_the_scores():
    """A KL projection: with no utility but log p and τ = 1 the rule is p reweighted, p itself without constraints."""
    Z = aware(18, 300)
    p = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    options = {"costs": np.zeros((3, 3)), "offset": np.log(p), "temperature": 1.0, "n_jobs": 1}
    rule = solve(Z, "dp", 0.005, **options)
    h = rule.predict_proba(Z, offset=np.log(p))
    np.testing.assert_allclose(h, naive_rule(rule, Z, np.log(p)), atol=1e-10)
    values = compiled(Z, "dp", 0.005)[1].values(confusion(Z, h))
    assert np.abs(values).max() <= 0.005 + 1e-12
    assert rule.certificate.violation == pytest.approx(np.abs(values).max(), abs=1e-10)
    # of all fair rules it is the nearest to p: moving towards any other fair rule raises the divergence
    divergence = (h * np.log(h / p)).sum(axis=1).mean()
    constants = [np.tile(np.random.default_rng(k).dirichlet(np.ones(3)), (300, 1)) for k in range(20)]
    for other in constants:  # which are fair
        for share in (1e-2, 0.3):
            mixed = (1 - share) * h + share * other
            assert (mixed * np.log(mixed / p)).sum(axis=1).mean() >= divergence - 1e-4 * share


def test_an_offset_is_part_of_the_value():
    Z = aware(19, 300)
    offset = 0.3 * np.random.default_rng(1).standard_normal((300, 3))
    rule = solve(Z, "dp", 0.02, offset=offset, n_jobs=1)
    h = rule.predict_proba(Z, offset=offset)
    np.testing.assert_allclose(h, naive_rule(rule, Z, offset), atol=1e-10)
    value = ((Z.sum(axis=1) + offset) * h).sum(axis=1).mean()
    c = rule.certificate
    assert c.value == pytest.approx(value, abs=1e-10)
    posterior, rows = compiled(Z, "dp", 0.02)
    exact = linear_program(Z, rows.matrix(posterior.prior).toarray(), -0.02, 0.02, offset=offset).value
    assert c.excess == 0.0
    assert value <= exact + 1e-9 <= c.upper_bound + 2e-9
    assert c.gap <= 1e-3


def test_a_constant_offset_changes_nothing():
    Z = aware(19, 300)
    offset = np.repeat(np.random.default_rng(1).standard_normal((300, 1)), 3, axis=1)
    plain, shifted = (solve(Z, "dp", 0.02, offset=o, n_jobs=1) for o in (None, offset))
    np.testing.assert_allclose(plain.predict_proba(Z), shifted.predict_proba(Z, offset=offset), atol=1e-5)
    assert shifted.certificate.gap == pytest.approx(plain.certificate.gap, abs=1e-6)


@pytest.mark.parametrize("cap", [0.01, 0.05, 0.15])
def test_max_multiplier_bounds_the_multipliers_and_the_certificate_says_so(cap):
    Z, xi = aware(20, 300), 0.01
    free = np.abs(multipliers(solve(Z, "dp", xi, n_jobs=1))).sum()
    assert free > cap, "the cap must be active for this test"
    rule = solve(Z, "dp", xi, max_multiplier=cap, n_jobs=1)
    total = np.abs(multipliers(rule)).sum()
    c = rule.certificate
    assert total <= cap * (1 + 1e-6)
    assert c.excess > 0 and c.violation == pytest.approx(xi + c.excess, abs=1e-9)
    assert "because max_multiplier is active" in c.notes and is_noted_as_outside(c)
    # the bound holds for the rules that are allowed the same excess
    posterior, rows = compiled(Z, "dp", xi)
    D = rows.matrix(posterior.prior).toarray()
    assert linear_program(Z, D, -xi - c.excess, xi + c.excess).value <= c.upper_bound + 1e-9


def test_max_multiplier_is_in_the_units_of_the_costs():
    Z, R = aware(20, 300), costs(20)
    first = solve(Z, "dp", 0.01, costs=R, max_multiplier=0.1, n_jobs=1)
    second = solve(Z, "dp", 0.01, costs=10 * R, max_multiplier=1.0, n_jobs=1)
    assert np.abs(multipliers(first)).sum() == pytest.approx(0.1, rel=1e-3)
    assert np.abs(multipliers(second)).sum() == pytest.approx(1.0, rel=1e-3)
    np.testing.assert_allclose(first.predict_proba(Z), second.predict_proba(Z), atol=1e-4)


def test_a_max_multiplier_that_is_not_reached_changes_nothing():
    Z = aware(20, 300)
    free = solve(Z, "dp", 0.01, n_jobs=1)
    capped = solve(Z, "dp", 0.01, max_multiplier=100.0, n_jobs=1)
    np.testing.assert_allclose(free.predict_proba(Z), capped.predict_proba(Z), atol=1e-3)
    assert capped.certificate.status is Status.OPTIMAL and capped.certificate.notes == ()


def test_max_multiplier_is_kept_from_a_warm_start_and_with_several_constraints(make_tilted):
    Z = make_tilted(2000, 3, 3, 1)
    free = solve(Z, "dp", 0.001, n_jobs=1)
    capped = solve(Z, "dp", 0.001, max_multiplier=1e-3, start=free, n_jobs=1)
    constraints = [Constraint("eo", 0.0), Constraint("dp", 0.01)]
    several = solve(make_tilted(200, 3, 2, 10), constraints, max_multiplier=0.05, n_jobs=1)
    assert np.abs(multipliers(free)).sum() > 0.1
    assert np.abs(multipliers(capped)).sum() <= 1e-3 * (1 + 1e-6)
    assert "because max_multiplier is active" in capped.certificate.notes
    assert np.abs(multipliers(several)).sum() <= 0.05 * (1 + 1e-6)


@pytest.mark.parametrize("criterion", ["dp", "eo"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_still_returns_a_truthful_certificate(kind, criterion):
    Z, xi = KINDS[kind](21, 300), 0.005
    rule = solve(Z, criterion, xi, max_passes=1, n_jobs=1)
    c = rule.certificate
    posterior, rows = compiled(Z, criterion, xi)
    h = rule.predict_proba(Z)
    values = rows.values(confusion(Z, h))
    assert c.accuracy == pytest.approx((Z.sum(axis=1) * h).sum(axis=1).mean(), abs=1e-10)
    assert c.excess == pytest.approx(max(np.abs(values).max() - xi, 0), abs=1e-10)
    D = rows.matrix(posterior.prior).toarray()
    assert linear_program(Z, D, -xi - c.excess, xi + c.excess).value <= c.upper_bound + 1e-9


def test_inputs_are_not_mutated():
    Z, w, R = aware(27, 200), weights(27, 200), costs(27)
    offset = 0.1 * np.random.default_rng(0).standard_normal((200, 3))
    before = [x.copy() for x in (Z, w, R, offset)]
    solve(Z, "eo", 0.01, sample_weight=w, costs=R, offset=offset, n_jobs=1)
    for old, new in zip(before, (Z, w, R, offset), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_tolerance_per_group_is_kept_by_that_group():
    Z = aware(28, 300)
    rule = solve(Z, Constraint("dp", {0: 0.001, 1: 0.2, 2: 0.2}), n_jobs=1)
    values = rule.multipliers["value"].astype(float).abs()
    tight = (rule.multipliers["group"] == 0).to_numpy()
    assert rule.certificate.excess == 0.0
    assert values[tight].max() <= 0.001 < 0.01 < values[~tight].max()
