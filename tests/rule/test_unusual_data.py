"""Test data of any shape, type and emptiness: a documented error, or a rule whose proof is sound."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import optfair
from optfair import InfeasibleError, OptFairWarning
from tests.problems import CRITERIA, confusion, gaps

DOCUMENTED = ("reference='pairwise': needs at least two groups", "criterion: none of its rows can be formed")


def layout(Z, kind):
    """Return the same numbers in another place or order of memory."""
    if kind == "read-only":
        Z = Z.copy()
        Z.flags.writeable = False
    elif kind == "fortran":
        Z = np.asfortranarray(Z)
    elif kind == "strided":
        Z = np.repeat(np.repeat(Z, 2, axis=0), 2, axis=2)[::2, :, ::2]
    elif kind == "reversed":
        Z = Z[::-1].copy()[::-1]
    elif kind == "big-endian":
        Z = Z.astype(Z.dtype.newbyteorder(">"))
    return Z


@st.composite
def problems(draw):
    """Draw Z and weights with empty cells, groups of a single row, certain rows, zero weights."""
    n, A, m = draw(st.integers(1, 40)), draw(st.integers(1, 4)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    Z = rng.dirichlet(np.full(A * m, draw(st.sampled_from([0.05, 0.3, 1.0, 5.0]))), n).reshape(n, A, m)
    for trait in draw(st.sets(st.sampled_from(["aware", "empty cell", "empty group", "one row", "certain", "equal"]))):
        if trait == "aware":
            Z = Z * (np.arange(A) == rng.integers(0, A, n)[:, None])[:, :, None]
        elif trait == "empty cell":
            Z[:, rng.integers(A), rng.integers(m)] = 0
        elif trait == "empty group":
            Z[:, rng.integers(A)] = 0
        elif trait == "one row":
            Z[1:, 0] = 0
            Z[0, 1:] = 0
        elif trait == "certain":
            sure = rng.random(n) < 0.5
            Z[sure] = np.eye(A * m)[rng.integers(0, A * m, sure.sum())].reshape(-1, A, m)
        else:
            Z[:] = Z[0]
    Z[Z.sum((1, 2)) < 1e-12] = np.full((A, m), 1 / (A * m))
    Z /= Z.sum((1, 2), keepdims=True)
    dtype = draw(st.sampled_from(["f8", "f4", "f2", "longdouble", "one-hot"]))
    if dtype == "one-hot":
        Z = np.eye(A * m, dtype=draw(st.sampled_from(["i8", "u1", "?"])))[rng.integers(0, A * m, n)].reshape(n, A, m)
    else:
        Z = Z.astype(dtype)
    Z = layout(Z, draw(st.sampled_from(["plain", "read-only", "fortran", "strided", "reversed", "big-endian"])))
    weight = draw(st.sampled_from([None, "some zero", "one row", "huge", "tiny"]))
    if weight is not None:
        w = rng.exponential(size=n)
        w *= {"some zero": rng.random(n) < 0.6, "one row": np.arange(n) == n // 2, "huge": 1e300, "tiny": 1e-300}[
            weight
        ]
        weight = w if w.any() else np.ones(n)
    return Z, weight


REQUESTS = {
    "problem": problems(),
    "criterion": st.sampled_from(CRITERIA),
    "reference": st.sampled_from(["overall", "pairwise"]),
    "tolerance": st.sampled_from([0, 1e-3, 0.01, 0.1, 1.0]),
}


def relative(weight):
    """Return weights whose sum does not overflow."""
    return None if weight is None else weight / weight.max()


def check_error_or_sound_rule(problem, criterion, reference, tolerance):
    """Solve, and check that the error is documented, or that the rule is what its certificate says."""
    Z, weight = problem
    before = Z.copy(), None if weight is None else weight.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)
        try:
            rule = optfair.solve(Z, criterion, tolerance, reference=reference, sample_weight=weight, n_jobs=1)
        except ValueError as error:
            assert type(error) is ValueError and str(error).startswith(DOCUMENTED)
            return
    np.testing.assert_array_equal(Z, before[0])
    if weight is not None:
        np.testing.assert_array_equal(weight, before[1])
    c = rule.certificate
    numbers = [c.accuracy, c.value, c.upper_bound, c.gap, c.violation, c.excess, c.temperature, c.residual, c.seconds]
    assert np.isfinite(numbers).all() and np.isfinite(rule.weights).all()
    assert c.gap >= -1e-6 and 0 <= c.accuracy <= 1 + 1e-3
    assert c.gap == pytest.approx(c.upper_bound - c.value, abs=1e-9)
    assert (c.excess > 0) == any(note.startswith("outside its bounds by ") for note in c.notes)
    assert c.violation <= tolerance + c.excess + 1e-9
    h = rule.predict_proba(Z)
    assert np.isfinite(h).all() and (h >= 0).all()
    np.testing.assert_allclose(h.sum(axis=1), 1, atol=1e-9)
    J = confusion(Z.astype(float), h, relative(weight))
    assert np.trace(J.sum(axis=0)) == pytest.approx(c.accuracy, abs=1e-6)
    numbers = rule.multipliers[["multiplier", "price", "value"]].to_numpy()
    assert np.isfinite(numbers).all()
    answers = rule.predict(Z)
    assert set(answers) <= set(rule.classes)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(**REQUESTS)
def test_an_error_or_a_sound_rule(problem, criterion, reference, tolerance):
    check_error_or_sound_rule(problem, criterion, reference, tolerance)


@pytest.mark.slow
@settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])
@given(**REQUESTS)
def test_an_error_or_a_sound_rule_of_many_problems(problem, criterion, reference, tolerance):
    check_error_or_sound_rule(problem, criterion, reference, tolerance)


def check_violation(problem, criterion, tolerance):
    """Check that the definition of the criterion, written out, agrees with the certificate where no cell is empty."""
    Z, weight = problem
    prior = confusion(Z.astype(float), np.ones((len(Z), 1)), relative(weight))[:, :, 0]
    if prior.min() < 1e-6:
        Z = 0.9 * Z.astype(float) + 0.1 / prior.size
        Z /= Z.sum((1, 2), keepdims=True)
    rule = optfair.solve(Z, criterion, tolerance, sample_weight=weight, n_jobs=1)
    J = confusion(Z.astype(float), rule.predict_proba(Z), relative(weight))
    worst = max(map(abs, gaps(criterion, J, J.sum(axis=2)).values()))
    assert worst == pytest.approx(rule.certificate.violation, abs=1e-6)


@settings(max_examples=20)
@given(problem=problems(), criterion=st.sampled_from(CRITERIA), tolerance=st.sampled_from([0.02, 0.1]))
def test_the_violation_is_that_of_the_definition(problem, criterion, tolerance):
    check_violation(problem, criterion, tolerance)


@pytest.mark.slow
@settings(max_examples=200)
@given(problem=problems(), criterion=st.sampled_from(CRITERIA), tolerance=st.sampled_from([0.02, 0.1]))
def test_the_violation_of_many_problems_is_that_of_the_definition(problem, criterion, tolerance):
    check_violation(problem, criterion, tolerance)


@settings(max_examples=10)
@given(problem=problems(), minimum=st.sampled_from([0.3, 0.6, 0.9]))
def test_minimum_rates_are_met_or_proven_impossible(problem, minimum):
    Z, weight = problem
    Z, weight = Z[:15, :3, :3].astype(float) + 0.01, None if weight is None else weight[:15]
    Z /= Z.sum((1, 2), keepdims=True)
    weight = None if weight is None or not weight.any() else weight
    constraint = optfair.MinimumRate("recall", minimum)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)
        try:
            rule = optfair.solve(Z, constraint, sample_weight=weight, n_jobs=1)
        except InfeasibleError as error:
            assert error.rows and 0 < error.lower_bound <= error.loosening + 1e-6
            return
    c = rule.certificate
    assert np.isfinite(c.gap) and c.gap >= -1e-6
    least = rule.multipliers["value"].min()
    assert least >= minimum - c.excess - 1e-9


# -- single cases ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_row(criterion):
    Z = np.array([[[0.2, 0.1], [0.3, 0.4]]])
    rule = optfair.solve(Z, criterion, 0.1, n_jobs=1)
    assert rule.certificate.excess == 0
    if criterion not in ("oae",):  # a single row is treated as all rows: nothing to constrain
        assert rule.certificate.accuracy == pytest.approx(0.5)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_group_needs_no_constraint_and_cannot_be_compared(criterion):
    Z = np.random.default_rng(0).dirichlet(np.ones(3), 20)[:, None, :]
    rule = optfair.solve(Z, criterion, 0, n_jobs=1)
    assert rule.certificate.accuracy == pytest.approx(Z.max(axis=(1, 2)).mean()) and rule.certificate.violation < 1e-12
    with pytest.raises(
        ValueError, match=r"^reference='pairwise': needs at least two groups to compare; there is one\.$"
    ):
        optfair.solve(Z, criterion, 0.1, reference="pairwise", n_jobs=1)


def test_an_empty_cell_is_named_once():
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 50).reshape(50, 3, 2)
    Z[:, 1, 0] = 0
    Z /= Z.sum((1, 2), keepdims=True)
    with pytest.warns(OptFairWarning, match="group 'b' against overall, given 'no'") as caught:
        rule = optfair.solve(Z, "eo", 0.01, groups=["a", "b", "c"], classes=["no", "yes"], n_jobs=1)
    assert len(caught) == 1 and caught[0].filename == __file__
    table = rule.multipliers
    assert not ((table["group"] == "b") & (table["given"] == "no")).any()
    assert ((table["group"] == "b") & (table["given"] == "yes")).any()


@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "f2", "f4", "f8", ">f4", ">f8"])
def test_one_hot_rows_of_any_type_give_the_same_certificate(dtype):
    """Known labels: the best rule without constraint is always right."""
    cells = np.random.default_rng(0).integers(0, 6, 60)
    Z = np.eye(6, dtype=dtype)[cells].reshape(60, 3, 2)
    assert optfair.solve(Z, "dp", 1.0, n_jobs=1).certificate.accuracy == pytest.approx(1)
    fair, reference = (optfair.solve(z, "dp", 0.01, n_jobs=1).certificate for z in (Z, Z.astype("f8")))
    assert abs(fair.accuracy - reference.accuracy) <= fair.gap + reference.gap + 1e-6


@pytest.mark.parametrize("kind", ["read-only", "fortran", "strided", "reversed", "big-endian"])
def test_the_layout_in_memory_does_not_matter(kind):
    Z = np.random.default_rng(0).dirichlet(np.ones(9), 200).reshape(200, 3, 3)
    plain, other = (optfair.solve(z, "eo", 0.01, random_state=0, n_jobs=1) for z in (Z, layout(Z, kind)))
    np.testing.assert_allclose(other.weights, plain.weights, atol=1e-9)
    np.testing.assert_array_equal(other.predict(Z), plain.predict(Z))


def test_rows_of_weight_zero_do_not_count():
    rng = np.random.default_rng(0)
    Z = rng.dirichlet(np.ones(6), 120).reshape(120, 3, 2)
    weight = rng.random(120) * (np.arange(120) < 80)
    with_zeros = optfair.solve(Z, "eo", 0.01, sample_weight=weight, n_jobs=1).certificate
    without = optfair.solve(Z[:80], "eo", 0.01, sample_weight=weight[:80], n_jobs=1).certificate
    assert abs(with_zeros.accuracy - without.accuracy) <= with_zeros.gap + without.gap
    assert with_zeros.excess == without.excess == 0


def test_the_multipliers_of_least_norm_keep_the_rule_within_tolerance():
    """The solver's λ is within tolerance here (KKT residual 5e-5); the λ of least norm must be the same rule."""
    Z = np.random.default_rng(115).dirichlet(np.full(12, 0.1), 8).reshape(8, 3, 4)
    assert optfair.solve(Z, "meo", 0.01, n_jobs=1).certificate.excess == 0
