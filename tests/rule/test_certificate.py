"""Test the proof: true for any multipliers and any rule, and every number in it recomputed by naive code."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from optfair import MinimumRate, Ratio, Rows, solve
from optfair.dual.exact import solve_exact
from optfair.rule.certificate import Certificate, Status, assess
from tests.problems import (
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

DRAWS = 40
OFFSET = 0.2 * np.random.default_rng(9).standard_normal((80, 3))
CASES = {
    "dp": ("dp", 0.01, {}),
    "eo": ("eo", 0.05, {"w": weights(0)}),
    "oae pairwise": ("oae", 0.02, {"reference": "pairwise"}),
    "meo with offset": ("meo", 0.02, {"offset": OFFSET}),
    "one-sided": ([Ratio("dp", 0.9), MinimumRate("recall", 0.1)], None, {"w": weights(1)}),
    "rows of the user": (Rows(np.random.default_rng(2).standard_normal((3, 27)), -0.3, [0.2, 0.1, np.inf]), None, {}),
}


@pytest.fixture(scope="module", params=itertools.product(KINDS, CASES), ids="-".join)
def case(request):
    """Return (posterior, rows, utility, U) of a small problem."""
    kind, name = request.param
    criterion, tolerance, options = CASES[name]
    posterior, rows = compiled(KINDS[kind](3), criterion, tolerance, **options)
    U = 1 - costs(3) / 3 if name == "dp" else np.eye(3)
    return posterior, rows, np.tile(U, (3, 1)), U


@pytest.fixture(scope="module")
def exact(case):
    """Return the solution of the linear program of the case."""
    posterior, rows, utility, _ = case
    return solve_exact(posterior, rows, utility)


def random_rule(Z, offset):
    return softmax(Z[:, :3])


def naive_upper_bound(posterior, rows, U, lam, excess=0.0):
    """Return mean_x max_j β_j + Σ_k (upper_k λ_k⁺ − lower_k λ_k⁻)."""
    D = rows.matrix(posterior.prior).toarray().reshape(len(rows), 3, 3, 3)
    beta = np.einsum("xai,aij->xj", posterior.Z, U[None] - np.tensordot(lam, D, 1))
    beta += 0.0 if posterior.offset is None else posterior.offset
    return np.average(beta.max(axis=1), weights=posterior.weight) + sum(
        x * (up + excess) if x > 0 else x * (low - excess) if x < 0 else 0.0
        for x, low, up in zip(lam, rows.lower, rows.upper, strict=True)
    )


def with_signs(rows, lam):
    """Return λ with the sign that infinite bounds demand."""
    lam = np.where(np.isinf(rows.upper), np.minimum(lam, 0), lam)
    return np.where(np.isinf(rows.lower), np.maximum(lam, 0), lam)


def assess_at(posterior, rows, utility, lam, rule=random_rule):
    """Return the assessment of a rule with multipliers λ."""
    matrix = rows.matrix(posterior.prior)
    return assess(posterior, rows, matrix, rule, utility, lam)


def bound_at(posterior, rows, utility, lam):
    """Return upper(λ)."""
    return assess_at(posterior, rows, utility, lam).dual_value


def exact_value(posterior, rows, U, widened=0.0):
    D = rows.matrix(posterior.prior).toarray()
    lower, upper = rows.lower - widened, rows.upper + widened
    utility = np.broadcast_to(U, (3, 3, 3))
    return linear_program(posterior.Z, D, lower, upper, posterior.weight, utility, posterior.offset)


def test_two_linear_programs_agree(case, exact):
    posterior, rows, _, U = case
    assert exact.value == pytest.approx(exact_value(posterior, rows, U).value, abs=1e-8)
    np.testing.assert_allclose(exact.probabilities.sum(axis=1), 1, atol=1e-8)
    assert rows.excess(rows.values(confusion(posterior.Z, exact.probabilities, posterior.weight))) <= 1e-7


def test_the_upper_bound_is_true_for_any_multipliers(case, exact):
    """Weak duality: however wrong λ is, no rule within the bounds is better than upper(λ)."""
    posterior, rows, utility, U = case
    rng = np.random.default_rng(0)
    slack = []
    for draw in range(DRAWS):
        noise = with_signs(rows, rng.standard_normal(len(rows)) * 10.0 ** rng.uniform(-5, 1))
        lam = noise if draw % 2 else with_signs(rows, exact.multipliers + noise)
        bound = bound_at(posterior, rows, utility, lam)
        assert bound == pytest.approx(naive_upper_bound(posterior, rows, U, lam), rel=1e-10)
        slack.append(bound - exact.value)
    assert min(slack) >= -1e-8
    assert max(slack) > 1e-2, "some of these multipliers are far off"


def test_strong_duality_the_programs_own_multipliers_give_a_tight_bound(case, exact):
    posterior, rows, utility, _ = case
    assert bound_at(posterior, rows, utility, exact.multipliers) == pytest.approx(exact.value, abs=1e-7)


def test_no_feasible_rule_beats_the_bound(case, exact):
    """Feasible rules at random: mixtures of optima for other utilities. gap = upper(λ) − value ≥ 0 for all of them."""
    posterior, rows, utility, U = case
    rng = np.random.default_rng(1)
    optima = [solve_exact(posterior, rows, rng.random(utility.shape)).probabilities for _ in range(4)]
    optima.append(exact.probabilities)
    gain = np.einsum("xai,ij->xj", posterior.Z, U) + (0.0 if posterior.offset is None else posterior.offset)
    for _ in range(DRAWS):
        h = np.tensordot(rng.dirichlet(np.full(5, 0.3)), optima, 1)
        assert rows.excess(rows.values(confusion(posterior.Z, h, posterior.weight))) <= 1e-7
        value = np.average((gain * h).sum(axis=1), weights=posterior.weight)
        lam = with_signs(rows, 0.1 * rng.standard_normal(len(rows)))
        assert bound_at(posterior, rows, utility, lam) >= value - 1e-7


def test_the_bound_of_wider_tolerances_holds_for_them(case, exact):
    """A rule that is outside by t is compared with those that are allowed the same t: upper(λ) + t‖λ‖₁."""
    posterior, rows, utility, U = case
    rng = np.random.default_rng(2)
    row = rows.matrix(posterior.prior).toarray()[0].reshape(3, 3, 3) * (1 if np.isfinite(rows.upper[0]) else -1)
    outside = np.eye(3)[np.einsum("xai,aij->xj", posterior.Z, row).argmax(axis=1)]  # as far beyond a bound as can be
    widths = []
    for share in (0.3, 0.6, 1.0):
        h = (1 - share) * exact.probabilities + share * outside
        t = float(rows.excess(rows.values(confusion(posterior.Z, h, posterior.weight))))
        widths.append(t)
        best = exact_value(posterior, rows, U, widened=t).value
        for _ in range(5):
            lam = with_signs(rows, 0.1 * rng.standard_normal(len(rows)))
            proof = assess_at(posterior, rows, utility, lam, lambda Z, offset, h=h: h)
            assert proof.excess == pytest.approx(t, abs=1e-12)
            assert proof.bound == pytest.approx(proof.dual_value + t * np.abs(lam).sum(), abs=1e-10)
            assert proof.bound == pytest.approx(naive_upper_bound(posterior, rows, U, lam, t), rel=1e-10)
            assert proof.bound >= best - 1e-8
    assert widths[2] > widths[1] > 1e-3, "bounds of several widths are tried"


def test_every_number_of_an_assessment(case):
    posterior, rows, utility, U = case
    lam = with_signs(rows, 0.1 * np.random.default_rng(3).standard_normal(len(rows)))
    proof = assess_at(posterior, rows, utility, lam)
    Z, w = posterior.Z, posterior.weight
    h = random_rule(Z.reshape(len(Z), -1), None)
    J, hard = confusion(Z, h, w), confusion(Z, np.eye(3)[h.argmax(axis=1)], w)
    np.testing.assert_allclose(proof.confusion, J, atol=1e-12)
    np.testing.assert_allclose(proof.confusion_argmax, hard, atol=1e-12)
    np.testing.assert_allclose(proof.values, rows.values(J), atol=1e-10)
    assert proof.accuracy == pytest.approx(np.trace(J.sum(axis=0)), abs=1e-12)
    assert proof.violation == pytest.approx(np.abs(proof.values[rows.is_gap]).max(initial=0), abs=1e-12)
    gain = np.einsum("xai,ij->xj", Z, U) + (0.0 if posterior.offset is None else posterior.offset)
    assert proof.gain == pytest.approx(np.average((gain * h).sum(axis=1), weights=w), abs=1e-12)
    assert proof.undecided == pytest.approx(np.average(h.max(axis=1) < 0.99, weights=w), abs=1e-12)


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


# -- what the certificate says -----------------------------------------------------------------------------
def test_the_certificate_prints_every_field():
    certificate = solve(aware(11), ["dp", MinimumRate("recall", 0.05)], 0.05, costs=costs(11), n_jobs=1).certificate
    labels = {"upper_bound": "upper bound", "residual": "KKT residual"}
    text = str(certificate)
    for name in {field.name for field in fields(Certificate)} - {"notes", "bounds_moved"}:
        assert f"\n{labels.get(name, name)} " in f"\n{text}"
    assert certificate.tolerance == (0.05, 0.05) and "0.05, 0.05" in text
    assert certificate.status.value in text


def test_notes_are_printed_after_the_status():
    certificate = replace(solve(aware(11), "dp", 0.05, n_jobs=1).certificate, notes=("first note", "second note"))
    assert str(certificate).endswith(f"{certificate.status}; first note; second note")


def test_a_tolerance_of_rows_without_one_is_printed_as_a_dash():
    rule = solve(aware(11), ["dp", Rows(np.ones((1, 27)), upper=2)], 0.05, n_jobs=1)
    assert rule.certificate.tolerance == (0.05, None)
    assert "\ntolerance     0.05, –\n" in str(rule.certificate)


def test_a_status_is_its_advice():
    assert [str(status) for status in Status] == [status.value for status in Status]
    assert len({status.value for status in Status}) == len(Status) == 8
    assert f"{Status.OPTIMAL}" == "optimal within the requested gap"


# -- independence -------------------------------------------------------------------------------------------
def test_a_solver_that_is_wrong_about_its_weights_cannot_move_the_bound(monkeypatch):
    """W(λ) of the proof is its own: whatever the solver makes of λ, the bound stays above the linear program."""
    Z = blind(3, 200)

    def wrong(utility, matrix, lam):
        return utility - (matrix.T @ lam).reshape(utility.shape) - 0.05 * np.arange(3)

    best = solve(Z, "dp", 0.02, n_jobs=1, method="lp").certificate
    for module in ("dual.problem", "rule.draft", "rule.feasibility"):
        monkeypatch.setattr(f"optfair.{module}.cell_weights", wrong)
    certificate = solve(Z, "dp", 0.02, n_jobs=1).certificate
    assert certificate.upper_bound >= best.accuracy - 1e-9
    assert certificate.gap > 1e-3  # and the proof shows that the rule is not the best one


def test_a_bound_below_the_value_of_the_rule_is_never_reported(monkeypatch):
    def lower(*arguments):
        proof = assess(*arguments)
        return replace(proof, bound=proof.gain - 0.01, dual_value=proof.gain - 0.01)

    monkeypatch.setattr("optfair.rule.draft.assess", lower)
    with pytest.raises(
        RuntimeError, match=r"^certificate: the upper bound .* is below the value .*please report it\.$"
    ):
        solve(blind(3, 200), "dp", 0.02, n_jobs=1)
