"""LinearPost against the program of its authors, solved by HiGHS in their form, and against the centre program."""

import warnings
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import optfair
from optfair import OptFairWarning
from optfair.baselines import linear_post
from optfair.baselines.linear_post import LinearPost
from optfair.constraints import Constraint, compile_rows
from optfair.datasets import load
from optfair.dual.exact import solve_exact
from optfair.dual.posterior import check_posterior
from optfair.metrics import violation
from tests.baselines.helpers import (
    CRITERIA,
    adult,
    default_fit,
    evaluate,
    fit_rows,
    plain_regression,
    quick_regression,
    three_by_three,
    three_group_data,
)
from tests.problems import blind


# -- X is z itself, so that the program can be written down a second time -------------------------------------------
class KnownPosterior(LinearPost):
    """LinearPost for rows of X that are z themselves, (A·m,): no model is fitted."""

    def _learn(self, data, seed):
        shape = -1, len(data.groups), len(data.classes)
        self._solve(np.asarray(data.X).reshape(shape), data, seed)
        self.posterior_model_ = lambda X: np.asarray(X).reshape(shape)


def solved(Z, criterion, alpha, **options):
    """Return the model of z; labels and groups only say how many there are."""
    n, A, m = Z.shape
    cell = np.r_[np.arange(A * m), np.zeros(n - A * m, dtype=int)]
    model = KnownPosterior(criterion=criterion, alpha=alpha, random_state=0, **options)
    return model.fit(Z.reshape(n, -1), cell % m, sensitive_features=cell // m)


def events(Z, criterion):
    """Return [(γ (n, A), class j)]: the rows of the program, one for every rate that is compared."""
    P = Z.mean(axis=0)
    m = Z.shape[2]
    if criterion == "dp":
        return [(Z.sum(axis=2) / P.sum(axis=1), j) for j in range(m)]
    pairs = [(y, y) for y in range(m)] if criterion == "eop" else list(np.ndindex(m, m))
    return [(Z[:, :, y] / P[:, y], j) for y, j in pairs]


def authors_program(Z, criterion, alpha):
    """Return (optimal risk, ψ (rows, A)): |mean_x γ_a π_j − q| ≤ α/2 with a free centre q ≥ 0 for every row."""
    n, A, m = Z.shape
    rows = events(Z, criterion)
    risk = 1.0 - Z.sum(axis=1)
    blocks = []
    for k, (gamma, j) in enumerate(rows):
        for a in range(A):
            pi = np.zeros((n, m))
            pi[:, j] = gamma[:, a] / n
            blocks.append(np.r_[pi.ravel(), -np.eye(len(rows))[k]])
    blocks = np.array(blocks)
    result = optimize.linprog(
        np.r_[risk.ravel() / n, np.zeros(len(rows))],
        A_ub=np.r_[blocks, -blocks],
        b_ub=np.full(2 * len(blocks), alpha / 2),
        A_eq=sparse.hstack([sparse.kron(sparse.eye_array(n), np.ones((1, m))), sparse.csr_array((n, len(rows)))]),
        b_eq=np.ones(n),
        method="highs",
        options={"presolve": alpha > 0},  # it gives up where both sides of a row are equal
    )
    upper, lower = np.split(result.ineqlin.marginals, 2)
    return result.fun, (upper - lower).reshape(len(rows), A)


def dual_objective(Z, criterion, alpha, psi):
    """Return mean_x min_j [r_j − Σ ψ γ] − α/2 ‖ψ‖₁"""
    scores = 1.0 - Z.sum(axis=1)
    for (gamma, j), price in zip(events(Z, criterion), psi, strict=True):
        scores[:, j] -= gamma @ price
    return scores.min(axis=1).mean() - alpha / 2 * np.abs(psi).sum()


def psi_of(model, Z, criterion):
    """Return our multipliers of pairs of groups as ψ: λ_ab on the gap a − b takes from a and gives to b."""
    A, m = Z.shape[1:]
    keys = {"dp": lambda i, j: (None, j), "eop": lambda i, j: (j, j), "eo": lambda i, j: (i, j)}[criterion]
    order = {"dp": [(None, j) for j in range(m)], "eop": [(j, j) for j in range(m)], "eo": list(np.ndindex(m, m))}
    psi = np.zeros((len(order[criterion]), A))
    for row in model.multipliers_.itertuples():
        k = order[criterion].index(keys(row.given, row.outcome))
        psi[k, row.group] -= row.multiplier
        psi[k, row.against] += row.multiplier
    return psi


def gaps(Z, criterion, h):
    """Return the largest gap between two groups, by Z, of one-hot or randomised predictions (n, m)."""
    rates = [(gamma * h[:, [j]]).mean(axis=0) for gamma, j in events(Z, criterion)]
    return max(np.ptp(rate) for rate in rates)


@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("shape", [(2, 2), (3, 3)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_strong_duality_with_the_authors_program(criterion, shape, alpha):
    Z = blind(1, 400, *shape)
    optimum, psi = authors_program(Z, criterion, alpha)
    assert optimum == pytest.approx(dual_objective(Z, criterion, alpha, psi), abs=1e-7)
    exact = solved(Z, criterion, alpha, solver="lp", noise=0.0)
    assert exact.solver_ == "lp"
    assert any("exact program" in note for note in exact.certificate_.notes)
    assert exact.multipliers_["multiplier"].abs().sum() > 0
    ours = psi_of(exact, Z, criterion)
    np.testing.assert_allclose(ours.sum(axis=1), 0.0, atol=1e-12)
    assert dual_objective(Z, criterion, alpha, ours) == pytest.approx(optimum, abs=1e-7)
    # The rule of the program is within α for every two groups, and its value is the optimum; no argmax is.
    measure = check_posterior(Z)
    rows = compile_rows([Constraint(criterion, alpha, "pairwise")], measure.groups, measure.classes, measure.prior)
    rule = solve_exact(measure, rows, np.tile(np.eye(shape[1]), (shape[0], 1))).probabilities
    assert gaps(Z, criterion, rule) <= alpha + 1e-7
    assert (rule * Z.sum(axis=1)).sum(axis=1).mean() == pytest.approx(1 - optimum, abs=1e-7)
    h = exact.predict_proba(Z.reshape(len(Z), -1))
    assert ((h != rule).any(axis=1)).sum() <= len(rows)  # but for at most one row of X per row of constraints
    assert exact.certificate_.accuracy == pytest.approx((h * Z.sum(axis=1)).sum(axis=1).mean(), abs=1e-12)
    smooth = solved(Z, criterion, alpha, solver="dual")
    assert smooth.certificate_.upper_bound >= 1 - optimum - 1e-9
    assert smooth.certificate_.accuracy <= 1 - optimum + 1e-9
    assert smooth.certificate_.gap < 1e-3
    assert smooth.certificate_.violation <= alpha + 1e-9


def dual_bound(model):
    """Return the bound of the program, from a certificate that compares with rules of the same excess."""
    certificate = model.certificate_
    return certificate.upper_bound - certificate.excess * model.multipliers_["multiplier"].abs().sum()


@pytest.mark.parametrize(
    ("Z", "alpha"),
    [
        *((partial(blind, seed, 500, 2, 3), 0.02) for seed in range(3)),
        pytest.param(lambda: adult_posterior(), 0.015, marks=pytest.mark.slow),
    ],
    ids=["random 0", "random 1", "random 2", "adult"],
)
def test_two_groups_and_the_centre(Z, alpha):
    """With two groups the distance of parity from the centre is max ω times the gap, so both programs are one."""
    Z = Z()
    exact = solved(Z, "dp", alpha, solver="lp", noise=0.0)
    centre = optfair.solve(Z, "dp", alpha * Z.sum(axis=2).mean(axis=0).max(), method="lp")
    assert dual_bound(exact) == pytest.approx(centre.certificate.upper_bound, abs=1e-7)


# -- limits ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", CRITERIA)
def test_without_need_it_is_the_plain_argmax(criterion):
    """From the gap of the likeliest classes on, λ = 0, and so with α of 1 and inf."""
    Z = blind(2, 300, 3, 3)
    plain = np.eye(3)[Z.sum(axis=1).argmax(axis=1)]
    gap = gaps(Z, criterion, plain)
    for alpha in (gap + 1e-9, 1.0, 3.0, np.inf):
        model = solved(Z, criterion, alpha)
        assert model.solver_ == "none"
        assert not model.multipliers_["multiplier"].any()
        np.testing.assert_array_equal(model.predict_proba(Z.reshape(len(Z), -1)), plain)
    assert solved(Z, criterion, 0.9 * gap).solver_ in ("lp", "dual")


def test_equal_rates():
    """α = 0 is feasible: constant predictions have equal rates."""
    Z = blind(3, 400, 3, 3)
    optimum, _ = authors_program(Z, "eo", 0.0)
    exact, smooth = solved(Z, "eo", 0.0, solver="lp", noise=0.0), solved(Z, "eo", 0.0, solver="dual")
    assert dual_objective(Z, "eo", 0.0, psi_of(exact, Z, "eo")) == pytest.approx(optimum, abs=1e-6)
    assert smooth.certificate_.violation < 1e-4
    assert smooth.certificate_.accuracy == pytest.approx(1 - optimum, abs=2e-3)


# -- ties -----------------------------------------------------------------------------------------------------
def tied_posterior(n=3000):
    """Return z of two groups with opposite labels, and two kinds of rows: by parity all of a kind are tied.

    Predicting by kind has a gap of .6 and an accuracy of .8, so at α = .3 half of that is gained over .5.
    """
    rng = np.random.default_rng(0)
    a = rng.random(n) < 0.5
    Z = np.zeros((n, 2, 2))
    Z[a, 0, 0], Z[a, 1, 1] = 0.8, 0.2
    Z[~a, 0, 0], Z[~a, 1, 1] = 0.2, 0.8
    return Z


@pytest.mark.parametrize("solver", ["lp", "dual"])
def test_noise_breaks_ties_at_random(solver):
    """Where thousands are tied exactly, predictions with noise meet the bound (up to chance), those without do not."""
    Z = tied_posterior()
    rows = Z.reshape(len(Z), -1)
    model, plain = (solved(Z, "dp", 0.3, solver=solver, noise=size) for size in (1e-4, 0.0))
    new = rows + np.random.default_rng(1).uniform(0, 1e-9, rows.shape)  # as many different rows
    h = model.predict_proba(new)
    assert gaps(Z, "dp", h) == pytest.approx(0.3, abs=3 / np.sqrt(len(Z)))
    assert (h * Z.sum(axis=1)).sum(axis=1).mean() == pytest.approx(0.65, abs=2 / np.sqrt(len(Z)))
    assert abs(gaps(Z, "dp", plain.predict_proba(rows)) - 0.3) > 0.25  # all of a kind together


def test_predictions_of_the_dual_have_the_law_of_its_rule():
    Z = blind(4, 20_000, 3, 3)
    model = solved(Z, "eo", 0.01, solver="dual")
    rows = Z.reshape(len(Z), -1)
    h, prediction = model.rule_.predict_proba(Z), model.predict_proba(rows)
    spread = np.sqrt((h * (1 - h)).sum(axis=0)) / len(Z)
    assert (np.abs((prediction - h).mean(axis=0)) <= 5 * spread + 1e-12).all()
    np.testing.assert_array_equal(prediction.max(axis=1), 1.0)
    np.testing.assert_array_equal(prediction.sum(axis=1), 1.0)


def test_noise_moves_only_the_undecided():
    Z = blind(5, 500, 3, 3)
    model = solved(Z, "eo", 0.02, solver="lp", noise=0.05)
    rows = Z.reshape(len(Z), -1)
    scores = rows @ model.rule_.weights.reshape(-1, 3)
    noise = model._row_noise(rows, scores)
    size = 0.05 * 2 / 3  # the mean risk of three classes is 2/3
    assert size * 0.9 < np.abs(noise).max() <= size
    ascending = np.sort(scores, axis=1)
    decided = ascending[:, -1] - ascending[:, -2] > 2 * size
    assert 0 < decided.sum() < len(Z)
    assert not noise[decided].any()
    assert noise[~decided].all()
    assert np.abs(np.corrcoef(noise[~decided].T) - np.eye(3)).max() < 0.3
    np.testing.assert_array_equal(model.predict_proba(rows), np.eye(3)[(scores + noise).argmax(axis=1)])


@pytest.mark.parametrize("solver", ["lp", "dual"])
def test_equal_rows_have_equal_predictions_in_every_batch(solver):
    Z = blind(6, 400, 3, 3)
    model = solved(Z, "eo", 0.02, solver=solver, noise=0.02)
    rows = Z.reshape(len(Z), -1)
    predictions = model.predict(rows)
    order = np.random.default_rng(0).permutation(len(Z))
    np.testing.assert_array_equal(model.predict(rows[order]), predictions[order])
    np.testing.assert_array_equal(np.concatenate([model.predict(rows[[i]]) for i in range(30)]), predictions[:30])


# -- violations -----------------------------------------------------------------------------------------------
SLOW = [pytest.param("auto", criterion, marks=pytest.mark.slow) for criterion in ("eop", "eo")]


@pytest.mark.parametrize(
    ("solver", "criterion"), [*(("dual", criterion) for criterion in CRITERIA), ("auto", "dp"), *SLOW]
)
def test_the_default_lowers_the_violation(solver, criterion):
    train, test = three_by_three()
    if solver == "auto":
        model = default_fit("LinearPost", criterion)
    else:
        model = fit_rows(LinearPost(criterion=criterion, solver=solver, random_state=0), train)
    assert model.solver_ == ("lp" if solver == "auto" else "dual")
    (accuracy, gap), (_, before) = evaluate(model, test, criterion), evaluate(plain_regression(), test, criterion)
    assert gap < 0.5 * before
    assert accuracy > 0.45
    # On the training rows: few ties are left.
    assert model.certificate_.violation < 0.013


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wider_bound_costs_less(criterion):
    train, _ = three_by_three(2000)
    values = [
        fit_rows(
            LinearPost(criterion=criterion, alpha=alpha, solver="dual", cv=2, random_state=0), train
        ).certificate_.accuracy
        for alpha in (0.0, 0.02, 0.1, np.inf)
    ]
    assert values == sorted(values)
    assert values[-1] - values[0] > 0.05


@cache
def fitted_on_adult(criterion):
    return fit_rows(LinearPost(quick_regression(), criterion=criterion, cv=2, random_state=0), adult()[0])


def adult_posterior():
    return fitted_on_adult("dp").joint_posterior(adult()[0][0])


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_adult_by_the_exact_program(criterion):
    """The authors' code reaches .8314 and .0072 for parity at .01, .8402 and .0308 for odds, on this split."""
    accuracy, gap = evaluate(fitted_on_adult(criterion), adult()[1], criterion)
    assert accuracy > {"dp": 0.8314, "eop": 0.8402, "eo": 0.8402}[criterion] - 0.004
    assert gap < {"dp": 0.0072, "eop": 0.0308, "eo": 0.0308}[criterion] + 0.005


@pytest.mark.slow
def test_adult_by_the_dual_with_and_without_its_noise():
    """Odds: a draw from softmax(β/τ) is fair; the argmax of the same multipliers is not."""
    model = LinearPost(quick_regression(), criterion="eo", alpha=0.01, solver="dual", cv=2, random_state=0)
    fit_rows(model, adult()[0])
    accuracy, gap = evaluate(model, adult()[1], "eo")
    assert accuracy > 0.8402 - 0.004
    assert gap < 0.0308
    _, hard = evaluate(model.set_params(noise=0.0), adult()[1], "eo")
    assert hard > 2 * gap


@pytest.mark.slow
def test_the_authors_table_of_adult():
    """Parity, blind logistic regression; accuracies within .004 and gaps between the two groups within .01.

    As in their notebooks: a model from 35 % of the rows, the program on another 35 %, the test on 30 %, mean of five
    splits with their seeds; fnlwgt is left out and "?" has no column. How they split is not known, and capital losses
    are scaled by the range of their own file first here.
    """
    table = {np.inf: (0.8511, 0.1802), 0.1: (0.8466, 0.1028), 0.02: (0.8355, 0.0248), 0.001: (0.8324, 0.0098)}
    data = load("adult")
    X = data.X.drop(columns=[c for c in data.X if c == "fnlwgt" or c.endswith("=?")]).to_numpy(dtype=float)
    y, group = (data.y == ">50K").to_numpy(dtype=int), (data.sensitive_features == "male").to_numpy(dtype=int)
    results = {alpha: [] for alpha in table}
    for seed in range(33, 38):
        order = np.random.RandomState(seed).permutation(len(y))
        pre, post, test = np.split(order, [int(0.35 * len(y)), int(0.7 * len(y))])
        base = quick_regression().fit(X[pre], (2 * group + y)[pre])
        Z = base.predict_proba(X[post]).reshape(-1, 2, 2)
        for alpha in table:
            predictions = solved(Z, "dp", alpha).predict(base.predict_proba(X[test]))
            gap = violation(y[test], predictions, sensitive_features=group[test], criterion="dp", reference="pairwise")
            results[alpha].append(((predictions == y[test]).mean(), gap))
    for alpha, (accuracy, gap) in table.items():
        assert np.mean(results[alpha], axis=0)[0] == pytest.approx(accuracy, abs=0.004)
        assert np.mean(results[alpha], axis=0)[1] == pytest.approx(gap, abs=0.01)


# -- as a classifier ------------------------------------------------------------------------------------------
def test_same_seed_same_predictions():
    X, y, group = three_group_data()
    tree = DecisionTreeClassifier(min_samples_leaf=20, max_features=1)  # random, and has no seed
    for solver in ("lp", "dual"):
        a, b, c = (
            LinearPost(tree, criterion="eo", solver=solver, random_state=s).fit(X, y, sensitive_features=group)
            for s in (1, 1, 2)
        )
        np.testing.assert_array_equal(a.predict(X), b.predict(X))
        pd.testing.assert_frame_equal(a.multipliers_, b.multipliers_)
        assert not a.multipliers_["multiplier"].equals(c.multipliers_["multiplier"])


def test_auto_takes_the_dual_where_the_program_is_large(monkeypatch):
    """And where there are few rows of X for the rows of constraints: 400 for 9 of parity and 27 of odds."""
    X, y, group = three_group_data()

    def solver(criterion):
        return LinearPost(criterion=criterion, random_state=0).fit(X, y, sensitive_features=group).solver_

    assert (solver("dp"), solver("eo")) == ("lp", "dual")
    monkeypatch.setattr(linear_post, "LP_MAX_SIZE", 400 * 3 * 9 - 1)
    assert solver("dp") == "dual"
    monkeypatch.setattr(linear_post, "LP_MAX_SIZE", 400 * 3 * 9)
    assert solver("dp") == "lp"
    monkeypatch.setattr(linear_post, "LP_MAX_PROBABILITIES", 400 * 3 - 1)
    assert solver("dp") == "dual"
    monkeypatch.setattr(linear_post, "LP_VARIABLES", 1000)
    with pytest.raises(ValueError, match="solver='lp': 1200 variables; it is for at most 1000"):
        LinearPost(criterion="eo", solver="lp", random_state=0).fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("solver", ["lp", "dual"])
def test_whole_weights_are_copies(solver):
    """λ is not unique where no row is tied, so values are compared: what the program gains."""
    X, y, group = three_group_data()
    w = np.random.default_rng(1).integers(0, 4, len(y))
    fold = np.arange(len(y)) % 3  # copies stay together

    def fitted(times, weight=None):
        part = np.repeat(fold, times)
        model = LinearPost(
            LogisticRegression(tol=1e-8, max_iter=1000),
            criterion="eo",
            solver=solver,
            cv=[(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)],
            random_state=0,
        )
        rows = (np.repeat(v, times, axis=0) for v in (X, y))
        return model.fit(*rows, sensitive_features=np.repeat(group, times), sample_weight=weight)

    once = np.ones(len(y), dtype=int)
    weighted, copies, plain = (dual_bound(model) for model in (fitted(once, w), fitted(w), fitted(once)))
    assert weighted == pytest.approx(copies, abs=2e-4)
    assert abs(weighted - plain) > 2e-3


def test_sensitive_columns_are_no_part_of_a_row():
    """Named columns are left out at fit and in prediction: with or without them the prediction is the same."""
    X, y, group = three_group_data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(place=group)
    model = LinearPost(sensitive_features="place", criterion="eo", noise=0.05, random_state=0).fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.drop(columns="place")))
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.assign(place=0)))


def test_a_group_of_one_and_one_group():
    X, y, group = three_group_data()
    lonely = np.where(np.arange(len(y)) == 0, 3, group)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptFairWarning)
        model = LinearPost(criterion="eo", random_state=0).fit(X, y, sensitive_features=lonely)
    assert np.isfinite(model.predict_proba(X)).all()
    with pytest.warns(OptFairWarning, match="one group"):
        alone = LinearPost(random_state=0).fit(X, y, sensitive_features=np.zeros(len(y)))
    np.testing.assert_array_equal(alone.predict(X), alone.joint_posterior(X).sum(axis=1).argmax(axis=1))


def test_without_folds_the_rule_is_of_the_z_that_predicts():
    X, y, group = three_group_data()
    model = LinearPost(LogisticRegression(), cv=1, alpha=0.1, random_state=0).fit(X, y, sensitive_features=group)
    pair = LogisticRegression().fit(X, np.unique(group, return_inverse=True)[1] * len(np.unique(y)) + y)
    np.testing.assert_allclose(model.joint_posterior(X).reshape(len(y), -1), pair.predict_proba(X), atol=1e-9)
    reference = KnownPosterior(alpha=0.1, random_state=0).fit(pair.predict_proba(X), y, sensitive_features=group)
    np.testing.assert_allclose(model.rule_.weights, reference.rule_.weights, atol=1e-6)
    out_of_fold = LinearPost(LogisticRegression(), alpha=0.1, random_state=0).fit(X, y, sensitive_features=group)
    assert np.abs(model.rule_.weights - out_of_fold.rule_.weights).max() > 1e-4


def test_a_fitted_model_is_only_asked():
    X, y, group = three_group_data()
    base = LogisticRegression().fit(X, y)
    model = LinearPost(FrozenEstimator(base), alpha=np.inf, random_state=0).fit(X, y, sensitive_features=group)
    np.testing.assert_array_equal(model.predict(X), base.predict(X))
    assert clone(LinearPost(base.predict_proba)).estimator == base.predict_proba
    assert clone(LinearPost(base, cv="prefit")).estimator is base
    assert clone(LinearPost(base)).estimator is not base


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -0.1}, r"alpha=-0\.1: must be a number >= 0"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"alpha": "much"}, "alpha='much'"),
        ({"alpha": True}, "alpha=True"),
        ({"noise": -1.0}, r"noise=-1\.0: must be a number in \[0, 0\.1\]"),
        ({"noise": 0.5}, r"noise=0\.5"),
        ({"solver": "simplex"}, "solver='simplex': must be one of 'auto', 'lp', 'dual'"),
        ({"criterion": "meo"}, "criterion='meo': it does not compare single rates"),
        ({"criterion": "oae"}, "criterion='oae'"),
        ({"missing": "maybe"}, "missing='maybe'"),
        ({"posterior": "guess"}, "posterior='guess'"),
        ({"cv": 0}, "cv=0"),
        ({"estimator": 3}, "estimator=3"),
        ({"group_estimator": 3}, "group_estimator=3"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    X, y, group = three_group_data(60)
    with pytest.raises(ValueError, match=message):
        LinearPost(**arguments).fit(X, y, sensitive_features=group)
