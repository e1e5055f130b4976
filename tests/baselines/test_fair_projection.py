"""FairProjection against its definition: ADMM as its authors have it, L-BFGS-B, the KKT conditions, closed forms."""

import copy
import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from optfair import OptFairWarning
from optfair.baselines.fair_projection import FairProjection, project, ratio_rows, smooth
from optfair.constraints import Constraint, compile_rows
from optfair.dual.posterior import check_posterior
from tests.baselines.helpers import (
    CRITERIA,
    adult,
    default_fit,
    evaluate,
    fit_rows,
    plain_regression,
    quick_regression,
    soft_violation,
    three_by_three,
    three_group_data,
)
from tests.problems import blind

KINDS = ("ratio", "difference")


# -- the definition, written out a second time ---------------------------------------------------------------
def definition(Z, criterion, alpha, kind="ratio", w=None):
    """Return G (n, m, K), all K rows ``mean_x Σ_j G[x, j, k] h_j(x) ≤ 0``: first upper bounds, then lower bounds."""
    n, A, m = Z.shape
    w = np.ones(n) if w is None else w
    eta, group = Z.sum(axis=1), Z.sum(axis=2)
    P = np.average(Z, axis=0, weights=w)
    rows = []
    for sign in (1, -1):
        for a in range(A):
            for y, c in np.ndindex(m, m) if criterion != "dp" else ((None, c) for c in range(m)):
                if criterion == "eop" and y != c:
                    continue
                if criterion == "dp":
                    rate, overall = group[:, a] / P[a].sum(), np.ones(n)
                else:
                    rate, overall = Z[:, a, y] / P[a, y], eta[:, y] / P[:, y].sum()
                column = np.zeros((n, m))
                column[:, c] = sign * (rate - overall)
                # A tolerance on the difference is the constant α: spread over the classes, as h sums to one.
                column -= alpha * (overall[:, None] * np.eye(m)[c] if kind == "ratio" else 1.0)
                rows.append(column)
    return np.stack(rows, axis=-1)


def dual_value(lam, log_p, G, zeta):
    """Return mean_x logsumexp(log p − Gλ) + ζ/2 (‖λ‖² + mean_x ‖Gλ‖²)."""
    price = G @ lam
    return special.logsumexp(log_p - price, axis=1).mean() + zeta / 2 * (lam @ lam + (price**2).sum(axis=1).mean())


def by_lbfgs(log_p, G, zeta):
    """Return λ ≥ 0 of the regularised dual, by L-BFGS-B."""

    def value_gradient(lam):
        price = G @ lam
        h = special.softmax(log_p - price, axis=1)
        gradient = -np.einsum("xjk,xj->k", G, h - zeta * price) / len(G) + zeta * lam
        return dual_value(lam, log_p, G, zeta), gradient

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    K = G.shape[-1]
    return optimize.minimize(value_gradient, np.zeros(K), jac=True, bounds=[(0, None)] * K, options=options).x


def by_admm(log_p, G, zeta, rho=2.0, iterations=2000):
    """Return λ ≥ 0 of the regularised dual, by the authors' splitting v(x) = −G(x) λ."""
    n, _, K = G.shape
    lam, mu = np.ones(K), np.ones(log_p.shape)
    Q = np.einsum("xjk,xjl->kl", G, G) / n
    root = np.linalg.cholesky(rho * Q + zeta * np.eye(K) + 1e-12 * np.eye(K))
    x = log_p.copy()
    for _ in range(iterations):
        c = mu + rho * G @ lam
        for _ in range(100):  # contracts by 1 / (2ρ) at least
            before, x = x, log_p - (special.softmax(x, axis=1) + c) / (rho + zeta)
            if np.abs(x - before).max() < 1e-12:
                break
        v = x - log_p
        d = np.einsum("xjk,xj->k", G, mu + rho * v) / n
        lam = optimize.nnls(root.T, -np.linalg.solve(root, d))[0]
        step = v + G @ lam
        mu = mu + rho * step
    return lam


def solved(Z, criterion, alpha, kind="ratio", w=None):
    """Return (λ ≥ 0 in the definition's order, h, log p) of our solver."""
    log_p = np.log(smooth(Z.sum(axis=1)))
    measure = check_posterior(Z, sample_weight=w, offset=log_p, n_jobs=1)
    rows = compile_rows([Constraint(criterion, min(alpha, 1.0))], measure.groups, measure.classes, measure.prior)
    if kind == "ratio":
        rows = ratio_rows(rows, alpha)
    lam = project(measure, rows).point.multipliers
    W = (rows.matrix(measure.prior).T @ lam).reshape(-1, Z.shape[2])
    h = special.softmax(log_p - Z.reshape(len(Z), -1) @ W, axis=1)
    if kind == "ratio":
        half = len(lam) // 2
        lam = np.concatenate([lam[:half], -lam[half:]])
    else:
        lam = np.concatenate([np.maximum(lam, 0), np.maximum(-lam, 0)])
    return lam, h, log_p


def violations(G, h, w=None):
    """Return mean_x Gᵀh, (K,): at most 0 where the constraints hold."""
    return np.average(np.einsum("xjk,xj->xk", G, h), axis=0, weights=w)


# -- against independent solvers ------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(3, 3), (2, 2)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_two_referees_agree_on_the_regularised_dual(criterion, shape):
    Z = blind(1, 60, *shape)
    G, log_p, zeta = definition(Z, criterion, 0.02), np.log(smooth(Z.sum(axis=1))), 60**-0.5
    admm, lbfgs = by_admm(log_p, G, zeta), by_lbfgs(log_p, G, zeta)
    assert lbfgs.any()
    assert dual_value(admm, log_p, G, zeta) == pytest.approx(dual_value(lbfgs, log_p, G, zeta), abs=1e-6)
    h = [special.softmax(log_p - G @ lam, axis=1) for lam in (admm, lbfgs)]
    assert np.abs(h[0] - h[1]).max() < 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.02, 0.005, 0.0])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_without_regularisation_our_solver_agrees_with_lbfgs(criterion, alpha, kind):
    Z = blind(2, 80, 3, 3)
    G = definition(Z, criterion, alpha, kind)
    lam, h, log_p = solved(Z, criterion, alpha, kind)
    assert lam.any()
    assert lam.min() >= 0
    referee = by_lbfgs(log_p, G, 0.0)
    assert dual_value(lam, log_p, G, 0.0) <= dual_value(referee, log_p, G, 0.0) + 1e-7
    np.testing.assert_allclose(h, special.softmax(log_p - G @ referee, axis=1), atol=1e-3)


@pytest.mark.parametrize("criterion", ["dp", "eop"])
def test_our_solver_agrees_with_admm_without_regularisation(criterion):
    Z = blind(3, 50, 3, 3)
    G = definition(Z, criterion, 0.1)
    _, h, log_p = solved(Z, criterion, 0.1)
    np.testing.assert_allclose(h, special.softmax(log_p - G @ by_admm(log_p, G, 0.0), axis=1), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alpha", [0.2, 0.01, 0.0])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (4, 5)])
def test_kkt_conditions_by_the_definition(shape, criterion, alpha, kind):
    """Primal and dual feasible, no slack where there is a price, and the distance equals the dual bound."""
    Z = blind(4, 400, *shape)
    w = np.random.default_rng(4).exponential(size=400)
    w /= w.mean()
    G = definition(Z, criterion, alpha, kind, w)
    lam, h, log_p = solved(Z, criterion, alpha, kind, w)
    value = violations(G, h, w)
    assert lam.any() == (violations(G, np.exp(log_p), w).max() > 0)
    assert value.max() <= 1e-6
    assert np.abs(lam * value).max() <= 1e-6 * max(1.0, lam.max())
    divergence = np.average((h * (np.log(h) - log_p)).sum(axis=1), weights=w)
    bound = -np.average(special.logsumexp(log_p - G @ lam, axis=1), weights=w)
    assert divergence == pytest.approx(bound, abs=1e-6 * max(1.0, lam.sum()))


def test_many_rows_are_solved_to_the_same_accuracy():
    """Beyond 45,000 rows the solver works on sketches; all rows decide when it stops."""
    Z = blind(5, 60_000, 3, 3)
    G = definition(Z, "eop", 0.02)
    lam, h, _ = solved(Z, "eop", 0.02)
    assert lam.any()
    assert violations(G, h).max() <= 1e-6


def test_accuracies_are_compared_by_ratio_too():
    Z = blind(6, 300, 3, 3)
    _, h, log_p = solved(Z, "oae", 0.01)
    accuracy = np.einsum("xai,xi->a", Z, h) / Z.sum(axis=(0, 2))
    overall = np.einsum("xai,xi->", Z, h) / len(Z)
    free = np.einsum("xai,xi->a", Z, np.exp(log_p)) / Z.sum(axis=(0, 2))
    assert np.abs(free / np.einsum("xai,xi->", Z, np.exp(log_p)) * len(Z) - 1).max() > 0.02
    assert np.abs(accuracy / overall - 1).max() == pytest.approx(0.01, abs=1e-5)


# -- closed forms and limits ----------------------------------------------------------------------------------
def test_a_known_group_and_nothing_else_gives_the_geometric_mean():
    """All of a group are alike and α = 0: the common h minimises Σ_a ω_a KL(h ‖ p_a), so h ∝ Π_a p_a^ω_a."""
    group = np.repeat([0, 1, 2], [50, 30, 20])
    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.5, 0.1, 0.4]])
    y = np.concatenate([np.repeat(np.arange(3), np.rint(p[a] * (group == a).sum()).astype(int)) for a in range(3)])
    X = np.eye(3)[group]
    model = FairProjection(
        lambda rows: p[np.asarray(rows).argmax(axis=1)],
        group_estimator=DecisionTreeClassifier(),
        alpha=0.0,
        random_state=0,
    ).fit(X, y, sensitive_features=group)
    common = np.exp(np.array([0.5, 0.3, 0.2]) @ np.log(smooth(p)))
    np.testing.assert_allclose(model.predict_proba(np.eye(3)), np.tile(common / common.sum(), (3, 1)), atol=1e-6)
    loss = np.array([0.5, 0.3, 0.2]) @ (common / common.sum() * np.log(common / common.sum() / smooth(p))).sum(axis=1)
    assert model.divergence_ == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wide_tolerance_changes_nothing(criterion, kind):
    train, (new, _, _) = three_by_three(1000)
    model = fit_rows(FairProjection(criterion=criterion, alpha=10, tolerance=kind, cv=2, random_state=0), train)
    assert not model.multipliers_["multiplier"].any()
    assert model.divergence_ < 1e-12
    np.testing.assert_allclose(model.predict_proba(new), smooth(model.joint_posterior(new).sum(axis=1)), atol=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_fairer_is_further_away(criterion):
    train, _ = three_by_three(2000)
    models = [FairProjection(criterion=criterion, alpha=alpha, cv=2, random_state=0) for alpha in (0.3, 0.1, 0.03, 0.0)]
    distances = [fit_rows(model, train).divergence_ for model in models]
    assert all(a <= b + 1e-7 for a, b in itertools.pairwise(distances))
    assert distances[-1] > 0.05


def test_the_table_names_every_bound():
    model = fit_rows(FairProjection(criterion="eop", alpha=0.1, random_state=0), three_by_three()[0])
    table = model.multipliers_
    assert len(table) == 18
    assert set(table["against"]) == {"1.1 overall", "0.9 overall"}
    assert set(table["criterion"]) == {"eop ratio"}
    assert not table.duplicated(["group", "against", "given", "outcome"]).any()
    assert (table["value"] <= table["upper"] + 1e-6).all()
    assert (table["value"] >= table["lower"] - 1e-6).all()
    assert model.residual_ <= 1e-6


# -- violations -----------------------------------------------------------------------------------------------
@cache
def unconstrained(data):
    """Return what is projected: the model's probabilities, which are the same for every criterion."""
    options = {"estimator": quick_regression(), "cv": 2} if data is adult else {}
    return fit_rows(FairProjection(alpha=10, random_state=0, **options), data()[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_default_lowers_the_violation(criterion, kind):
    """Of the randomised predictions below half of the model's probabilities', of their argmax well below ERM's."""
    train, test = three_by_three()
    if kind == "ratio":
        model = copy.copy(default_fit("FairProjection", criterion))  # an argument changes below
    else:
        model = fit_rows(FairProjection(criterion=criterion, tolerance=kind, random_state=0), train)
    free = unconstrained(three_by_three)
    assert soft_violation(model, test, criterion) < 0.4 * soft_violation(free, test, criterion)
    assert evaluate(model, test, criterion)[1] < 0.4 * evaluate(free, test, criterion)[1]
    accuracy, gap = evaluate(model.set_params(decision="argmax"), test, criterion)
    assert gap < 0.5 * evaluate(plain_regression(), test, criterion)[1]
    assert accuracy > 0.43


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "alpha"), [("dp", 0.1), *((criterion, 0.01) for criterion in CRITERIA)])
def test_adult(criterion, alpha):
    train, test = adult()
    model = FairProjection(quick_regression(), criterion=criterion, alpha=alpha, cv=2, random_state=0)
    fit_rows(model, train)
    free = unconstrained(adult)
    assert model.residual_ <= 1e-6
    assert soft_violation(model, test, criterion) < 0.4 * soft_violation(free, test, criterion)
    assert evaluate(model, test, criterion)[1] < 0.4 * evaluate(free, test, criterion)[1]
    accuracy, gap = evaluate(model.set_params(decision="argmax"), test, criterion)
    assert accuracy > 0.815
    if alpha == 0.1:  # a trial of the method had .8320 and .0058 by argmax
        assert accuracy == pytest.approx(0.832, abs=0.004)
        assert gap < 0.02


# -- as a classifier ------------------------------------------------------------------------------------------
def test_same_seed_and_equal_rows_have_equal_predictions():
    X, y, group = three_group_data()
    forest = DecisionTreeClassifier(min_samples_leaf=20, max_features=1)  # random, and has no seed
    fits = [FairProjection(forest, random_state=s).fit(X, y, sensitive_features=group) for s in (1, 1, 2)]
    np.testing.assert_array_equal(fits[0].predict_proba(X), fits[1].predict_proba(X))
    np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))
    assert (fits[0].predict_proba(X) != fits[2].predict_proba(X)).any()
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(fits[0].predict(X)[order], fits[0].predict(X[order]))


def test_predictions_follow_the_probabilities():
    X, y, group = three_group_data(4000)
    model = FairProjection(cv=2, random_state=0).fit(X, y, sensitive_features=group)
    h = model.predict_proba(X)
    np.testing.assert_allclose(h.sum(axis=1), 1.0)
    hashed = np.eye(3)[model.predict(X)]
    assert np.abs((hashed - h).mean(axis=0)).max() < 4 * np.sqrt(0.25 / len(X))
    sampled = model.set_params(decision="sampled").predict(X, random_state=1)
    assert np.abs((np.eye(3)[sampled] - h).mean(axis=0)).max() < 4 * np.sqrt(0.25 / len(X))
    np.testing.assert_array_equal(model.set_params(decision="argmax").predict(X), h.argmax(axis=1))


def test_whole_weights_are_copies():
    X, y, group = three_group_data()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    fold = np.arange(len(y)) % 3  # copies stay together

    def fitted(times, weight=None):
        part = np.repeat(fold, times)
        model = FairProjection(
            LogisticRegression(tol=1e-8, max_iter=1000),
            criterion="eo",
            cv=[(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)],
            random_state=0,
        )
        rows = (np.repeat(v, times, axis=0) for v in (X, y))
        return model.fit(*rows, sensitive_features=np.repeat(group, times), sample_weight=weight)

    once = np.ones(len(y), dtype=int)
    weighted, copies, plain = fitted(once, w), fitted(w), fitted(once)
    np.testing.assert_allclose(weighted.predict_proba(X), copies.predict_proba(X), atol=1e-4)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 0.01


def test_a_group_of_one_and_one_group():
    X, y, group = three_group_data()
    group = np.where(np.arange(len(y)) == 0, 3, group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)
        model = FairProjection(criterion="eo", random_state=0).fit(X, y, sensitive_features=group)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.warns(OptFairWarning, match="one group"):
        alone = FairProjection(random_state=0).fit(X, y, sensitive_features=np.zeros(len(y)))
    np.testing.assert_allclose(alone.predict_proba(X), smooth(alone.joint_posterior(X).sum(axis=1)), atol=1e-12)


def test_a_fitted_model_is_only_asked():
    X, y, group = three_group_data()
    named = np.array(list("xyz"))[y]
    base = LogisticRegression().fit(X, named)
    model = FairProjection(FrozenEstimator(base), random_state=0).fit(X, named, sensitive_features=group)
    np.testing.assert_allclose(model.joint_posterior(X).sum(axis=1), base.predict_proba(X), atol=1e-9)
    assert clone(FairProjection(base.predict_proba)).estimator == base.predict_proba
    prefit = clone(FairProjection(base, cv="prefit", random_state=0))
    assert prefit.estimator is base
    prefit.fit(X, named, sensitive_features=group)
    np.testing.assert_allclose(prefit.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -0.1}, r"alpha=-0\.1: must be a number >= 0"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"alpha": "much"}, "alpha='much'"),
        ({"tolerance": 0.1}, r"tolerance=0\.1: must be one of 'ratio', 'difference'"),
        ({"criterion": "meo"}, "criterion='meo': it compares sums of two rates"),
        ({"criterion": "ppv"}, "criterion='ppv'"),
        ({"decision": "coin"}, "decision='coin'"),
        ({"missing": "maybe"}, "missing='maybe'"),
        ({"posterior": "guess"}, "posterior='guess'"),
        ({"cv": 0}, "cv=0"),
        ({"cv": "prefit"}, "estimator=None: cv='prefit' needs a fitted model"),
        ({"estimator": 3}, "estimator=3"),
        ({"group_estimator": 3}, "group_estimator=3"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    X, y, group = three_group_data(60)
    with pytest.raises(ValueError, match=message):
        FairProjection(**arguments).fit(X, y, sensitive_features=group)
