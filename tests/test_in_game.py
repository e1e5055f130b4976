"""The game of in-processing: its loss is calibrated, its step is exact, its rounds converge, and its regret is bounded.

People are the cells (x, a, y) of a finite joint distribution P, with weights; the learner is a table of all x. So the
best answer is known for every λ, and a linear program knows the value of the game.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from problems import CRITERIA, gaps, linear_program, linear_rows
from scipy import optimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from optfair import Constraint, MinimumRate, OptFairIn, OptFairWarning, Ratio
from optfair.dual.penalty import Box
from optfair.inprocessing.game import Game, Trace, play, soft_targets, step_size
from optfair.inprocessing.learners import make_learner
from optfair.inprocessing.mixture import round_weights

# Few rounds, to save time: how close they come is the subject of few tests.
pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


class Table(ClassifierMixin, BaseEstimator):
    """The exact minimiser of the weighted cross-entropy when X is one-hot: the share of each class at each x."""

    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.classes_, code = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        mass = np.bincount(X.argmax(axis=1) * k + code, w, X.shape[1] * k).reshape(-1, k)
        self.shares_ = (mass + 1e-300) / (mass + 1e-300).sum(axis=1, keepdims=True)
        return self

    def predict_proba(self, X):
        return self.shares_[X.argmax(axis=1)]

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def world(seed, n_x=8, A=3, m=3):
    """P[x, a, i]: groups differ in their x and in their rates."""
    rng = np.random.default_rng(seed)
    given = rng.dirichlet(np.full(m, 1.0), (n_x, A))
    own = rng.dirichlet(np.full(n_x, 1.0), A).T * rng.dirichlet(np.full(A, 8.0))
    P = own[:, :, None] * given + 0.2 / (n_x * A * m)
    return P / P.sum()


def everybody(P, copies=2):
    """(X one-hot, y, groups, weights): so many people in each cell, who stand for a thousand times its share."""
    x, a, i = (np.repeat(index.ravel(), copies) for index in np.indices(P.shape))
    return np.eye(len(P))[x], i, a, 1000 * np.repeat(P.ravel(), copies) / copies


def fitted(P, **options):
    X, y, a, w = everybody(P)
    settings = {"estimator": Table(), "rounds": 1, "start": "zero", "max_multiplier": 3.0, "random_state": 0} | options
    return OptFairIn(**settings).fit(X, y, sensitive_features=a, sample_weight=w)


def game_of(P, **options):
    return fitted(P, **{"tolerance": 0.02} | options).game_


def naive_rows(criterion, P, table=None):
    """D (K, A, m, m) from the definitions, in the order of the library's table if one is given."""
    prior = P.sum(axis=0)
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), prior).reshape(-1, *prior.shape, prior.shape[1])
    if table is None:
        return D
    names = list(gaps(criterion, np.zeros((*prior.shape, prior.shape[1])), prior))
    asked = [
        (g, b, None if i is None else i, None if j is None else j)
        for g, b, i, j in zip(table["group"], table["against"], table["given"], table["outcome"], strict=True)
    ]
    return D[[names.index(name) for name in asked]]


def linear_answer(P, criterion, xi):
    """The value of the best rule within ±ξ, by scipy's linear program."""
    mass = P.sum(axis=(1, 2))
    D = naive_rows(criterion, P).reshape(-1, P[0].size * P.shape[2])
    return linear_program(P / mass[:, None, None], D, -xi, xi, mass).value


# -- the loss is calibrated (Theorem 5.1) -------------------------------------------------------------------
def scores(P, D, lam):
    """β^λ(x) = Σ over the cells (a, i) of x of their share times W(λ), (n_x, m), from the definitions."""
    W = np.eye(P.shape[2]) - np.einsum("k,kaij->aij", lam, D)
    return np.einsum("xai,aij->xj", P, W)


@pytest.mark.parametrize("shift", ["cell", "global"])
@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_the_minimiser_of_the_loss_answers_as_the_scores_do(shift, criterion):
    P = world(1, n_x=12, A=3, m=4)
    model = fitted(P, criterion=criterion, tolerance=0.02)
    game, rng, compared = model.game_, np.random.default_rng(0), 0
    D = naive_rows(criterion, P, game.rows.table)
    learner = make_learner(Table(), _people(P), None, 0, 1, "error")
    for _ in range(60):
        lam = rng.normal(size=len(game.rows)) * rng.choice([0.02, 0.1, 0.5, 2.0])
        beta = scores(P, D, lam)
        targets = soft_targets(game.weights(lam), game.share, shift)
        assert (targets >= 0).all()
        votes = learner.respond(targets, 0).predict(np.eye(len(P)))
        best = beta.max(axis=1)
        second = np.sort(beta, axis=1)[:, -2]
        clear = best - second > 1e-9
        np.testing.assert_array_equal(votes[clear], beta.argmax(axis=1)[clear])
        compared += clear.sum()
    assert compared > 600


def _people(P):
    """As the learner sees them."""
    X, y, a, w = everybody(P)
    return OptFairIn(Table())._people(X, y, a, w)


@pytest.mark.parametrize("shift", ["cell", "global"])
def test_logistic_regression_finds_the_same_answers(shift):
    """Its scores are free, one row of weights for every x: it minimises the same loss by iterations."""
    P = world(2, n_x=12, A=3, m=4)
    game, rng = game_of(P, criterion="dp"), np.random.default_rng(1)
    model = LogisticRegression(C=1e6, tol=1e-9, max_iter=5000, fit_intercept=False)
    D = naive_rows("dp", P, game.rows.table)
    learner = make_learner(model, _people(P), None, 0, 1, "error")
    for _ in range(4):
        lam = 0.3 * rng.normal(size=len(game.rows))
        beta = scores(P, D, lam)
        answer = learner.respond(soft_targets(game.weights(lam), game.share, shift), 0)
        clear = np.diff(np.sort(beta, axis=1)[:, -2:])[:, 0] > 1e-4
        assert clear.sum() > 8
        np.testing.assert_array_equal(answer.predict(np.eye(12))[clear], beta.argmax(axis=1)[clear])


@given(st.integers(0, 10**6), st.floats(0.0, 3.0), st.sampled_from(["cell", "global"]))
def test_targets_differ_from_the_weights_by_a_number_per_cell(seed, size, shift):
    """So that in any mixture of cells the order of the classes is that of W; and their total is one."""
    rng = np.random.default_rng(seed)
    A, m = rng.integers(1, 4), rng.integers(2, 5)
    W = np.tile(np.eye(m), (A, 1)) - size * rng.normal(size=(A * m, m))
    share = rng.dirichlet(np.ones(A * m))
    T = soft_targets(W, share, shift)
    assert (T >= 0).all()
    assume(not np.array_equal(T, np.tile(np.eye(m), (A, 1))))
    assert share @ T.sum(axis=1) == pytest.approx(1)
    factor = np.ptp(T) / np.ptp(W - (W.min(axis=1, keepdims=True) if shift == "cell" else 0.0))
    moved = T / factor - W
    np.testing.assert_allclose(moved, np.broadcast_to(moved[:, :1], moved.shape), atol=1e-9)
    if shift == "global":
        np.testing.assert_allclose(moved, moved[0, 0], atol=1e-9)
    else:
        assert (T.min(axis=1) == 0).all()


def test_multipliers_of_zero_give_the_labels():
    for A, m in ((2, 2), (3, 4)):
        labels = np.tile(np.eye(m), (A, 1))
        for shift in ("cell", "global"):
            np.testing.assert_array_equal(soft_targets(labels, np.full(A * m, 1 / (A * m)), shift), labels)


def test_the_global_shift_is_set_by_the_cells_somebody_is_in():
    W = np.array([[1.0, 0.0], [0.5, 0.25], [0.3, 0.7], [-100.0, 1.0]])
    share = np.array([0.5, 0.25, 0.25, 0.0])
    np.testing.assert_array_equal(soft_targets(W, share, "global")[:3], W[:3] / (share @ W.sum(axis=1)))
    W[1, 1] = -1.0
    T = soft_targets(W, share, "global")
    assert T[1, 1] > 0 and T[1, 1] == pytest.approx(1e-5 * T[0, 0] / (2 + 1e-5))  # κ = 1 + 1e-5


def test_targets_that_say_nothing_are_uniform():
    W = np.full((4, 2), 0.3)
    np.testing.assert_array_equal(soft_targets(W, np.full(4, 0.25), "cell"), np.full((4, 2), 0.5))


# -- the step of the multipliers ----------------------------------------------------------------------------
def bounds(rng, K):
    """Some two-sided, some one-sided either way."""
    half = rng.uniform(0, 0.3, K)
    lower, upper = -half + rng.choice([0.0, 0.1], K), half + rng.choice([0.0, 0.1], K)
    kind = rng.choice(4, K, p=[0.5, 0.2, 0.2, 0.1])
    lower[kind == 1] = -np.inf
    upper[kind == 2] = np.inf
    return np.minimum(lower, upper), upper


def solved_numerically(v, step, lower, upper, cap):
    """argmin over λ = p − q, p, q ≥ 0 of the same quadratic program, by SLSQP."""
    K = len(v)
    high, low = np.where(np.isfinite(upper), upper, 0.0), np.where(np.isfinite(lower), lower, 0.0)

    def value(z):
        lam = z[:K] - z[K:]
        return high @ z[:K] - low @ z[K:] + ((lam - v) ** 2 / (2 * step)).sum()

    def slope(z):
        pull = (z[:K] - z[K:] - v) / step
        return np.concatenate([high + pull, -low - pull])

    limits = [(0, None if np.isfinite(b) else 0) for b in upper] + [(0, None if np.isfinite(b) else 0) for b in lower]
    inside = {"type": "ineq", "fun": lambda z: cap - z.sum(), "jac": lambda z: -np.ones(2 * K)}
    found = optimize.minimize(
        value,
        np.zeros(2 * K),
        jac=slope,
        bounds=limits,
        constraints=[inside],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x[:K] - found.x[K:], found.fun


@pytest.mark.parametrize("seed", range(40))
def test_the_prox_against_a_solver(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 7))
    lower, upper = bounds(rng, K)
    v, eta = rng.normal(size=K), rng.uniform(0.2, 2.0)
    cap = np.inf if seed % 5 == 0 else rng.uniform(0.1, 1.5)
    step = np.full(K, eta)
    box = Box(lower, upper, cap)
    lam = box.prox(v, step)
    assert np.abs(lam).sum() <= cap * (1 + 1e-9)
    assert not (lam[np.isinf(upper)] > 0).any() and not (lam[np.isinf(lower)] < 0).any()
    other, value = solved_numerically(v, step, lower, upper, min(cap, 1e6))
    mine = box.value(lam) + ((lam - v) ** 2 / (2 * step)).sum()
    assert mine <= value + 1e-9
    np.testing.assert_allclose(lam, other, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_the_prox_is_threshold_then_projection(seed):
    """With ±ξ: soft threshold by ηξ, then the projection on the L1 ball, by bisection of its own threshold."""
    rng = np.random.default_rng(100 + seed)
    K, xi, eta, cap = 8, 0.1, rng.uniform(0.1, 3.0), rng.uniform(0.2, 2.0)
    v = 2 * rng.normal(size=K)
    soft = np.sign(v) * np.maximum(np.abs(v) - eta * xi, 0)
    if np.abs(soft).sum() > cap:
        level = optimize.brentq(lambda s: np.maximum(np.abs(soft) - s, 0).sum() - cap, 0, np.abs(soft).max())
        soft = np.sign(soft) * np.maximum(np.abs(soft) - level, 0)
    lam = Box(np.full(K, -xi), np.full(K, xi), cap).prox(v, np.full(K, eta))
    np.testing.assert_allclose(lam, soft, atol=1e-9)


def test_step_sizes():
    game = replace(game_of(world(3), criterion="dp", tolerance=0.07), cap=2.5)
    K = len(game.rows)
    values = np.random.default_rng(0).normal(size=(40, K))
    assert step_size("theorem", game, 25)(values) == pytest.approx(2.5 / (1.07 * np.sqrt(K * 25)))
    assert step_size(0.3, game, 25)(values) == 0.3
    adaptive = step_size("adaptive", game, 25)
    sizes = np.array([adaptive(values[:t]) for t in range(1, 41)])
    assert (np.diff(sizes) <= 0).all()
    assert sizes[-1] == pytest.approx(2.5 / np.sqrt(2 * (values**2).sum()))
    assert adaptive(0 * values[:1]) == pytest.approx(
        2.5 / (1.07 * np.sqrt(25))
    )  # nothing seen: the theorem's for K = 1
    one_sided = game_of(world(3), criterion=MinimumRate("recall", 0.3), tolerance=0.01)
    constant = 3.0 / (1.3 * np.sqrt(len(one_sided.rows) * 25))  # the infinite bounds do not count
    assert step_size("theorem", one_sided, 25)(values) == pytest.approx(constant)


@pytest.mark.parametrize("step", ["theorem", "adaptive", 0.11])
def test_every_round_is_a_best_answer_and_a_prox(step):
    """The recorded run, replayed from the definitions."""
    P = world(4)
    model = fitted(P, criterion="eop", tolerance=0.02, rounds=15, step=step, max_multiplier=1.0)
    trace, game = model.trace_, model.game_
    D = naive_rows("eop", P, game.rows.table)
    size, lam, seen = step_size(step, game, 15), np.zeros(len(D)), []
    for t in range(15):
        np.testing.assert_allclose(trace.multipliers[t], lam, atol=1e-9)
        J = np.einsum("xai,xj->aij", P, np.eye(3)[scores(P, D, lam).argmax(axis=1)])
        np.testing.assert_allclose(trace.confusions[t], J.reshape(9, 3), atol=1e-12)
        seen.append(np.einsum("kaij,aij->k", D, J))
        eta = size(np.array(seen))
        assert trace.steps[t] == pytest.approx(eta)
        v = lam + eta * seen[-1]
        lam = np.sign(v) * np.maximum(np.abs(v) - 0.02 * eta, 0)
        if np.abs(lam).sum() > 1.0:
            soft = lam
            level = optimize.brentq(lambda s, x=soft: np.maximum(np.abs(x) - s, 0).sum() - 1, 0, 1e3, xtol=1e-14)
            lam = np.sign(soft) * np.maximum(np.abs(soft) - level, 0)
    np.testing.assert_allclose(trace.next, lam, atol=1e-9)


# -- convergence --------------------------------------------------------------------------------------------
SIZES = {"2 by 2": (2, 2), "3 by 3": (3, 3), "4 groups, 2 classes": (4, 2), "2 groups, 4 classes": (2, 4)}


@pytest.mark.parametrize(
    "size, start", [*((size, "zero") for size in SIZES), ("3 by 3", "post"), ("2 groups, 4 classes", "post")]
)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_mixtures_converge_to_the_linear_program(criterion, size, start):
    """Each of them: within a hundredth of the best accuracy, and of the tolerance."""
    A, m = SIZES[size]
    P, xi = world(19, A=A, m=m), 0.02
    best = linear_answer(P, criterion, xi)
    assert P.sum(axis=1).max(axis=1).sum() > best + 2e-3  # fairness costs something
    step = min(0.2, 1.5 / len(naive_rows(criterion, P)))  # a constant step leaves an error of η/2 Σ D_k²
    model = fitted(P, criterion=criterion, tolerance=xi, rounds=300, start=start, step=step, mixture="lp")
    game, trace = model.game_, model.trace_
    assert (start == "post") == bool(trace.multipliers[0].any())
    for mixture in ("all", "last_half", "lp"):
        w = round_weights(mixture, game, trace)
        assert w.sum() == pytest.approx(1) and (w >= 0).all()
        J = np.tensordot(w, trace.confusions, axes=1).reshape(A, m, m)
        violation = max(abs(g) for g in gaps(criterion, J, P.sum(axis=0)).values())
        assert abs(np.einsum("aii->", J) - best) <= 1e-2, mixture
        assert violation <= xi + 1e-2, mixture
        if mixture == "lp":
            assert np.einsum("aii->", J) <= best + 1e-6 and violation <= xi + 1e-6
    assert model.training_.violation == pytest.approx(violation, abs=1e-9)


def test_the_lp_mixture_is_the_best_of_these_rounds():
    """Against the same program written out: no mixture of the rounds within tolerance is more accurate."""
    P = world(6)
    model = fitted(P, criterion="dp", tolerance=0.05, rounds=40, step=0.1)
    game, trace = model.game_, model.trace_
    D = np.array([game.values(J) for J in trace.confusions])
    gain = np.array([J.reshape(3, 3, 3).trace(axis1=1, axis2=2).sum() for J in trace.confusions])
    found = optimize.linprog(
        -gain, np.vstack([D.T, -D.T]), np.full(2 * D.shape[1], 0.05), np.ones((1, 40)), [1.0], method="highs"
    )
    w = round_weights("lp", game, trace)
    assert w @ gain == pytest.approx(-found.fun, abs=1e-6)
    assert np.abs(w @ D).max() <= 0.05 + 1e-8
    # where no mixture is within tolerance, the least excess comes first
    few = Trace(trace.multipliers[:2], trace.confusions[:2], trace.steps[:2], trace.next)
    w = round_weights("lp", game, few)
    grid = np.linspace(0, 1, 2001)
    least = min(np.abs(s * D[0] + (1 - s) * D[1]).max() for s in grid)
    assert np.abs(w @ D[:2]).max() <= least + 1e-6


def test_the_lp_mixture_where_every_row_is_far_inside():
    """Rows at distance one from both bounds: once taken for the column of another variable."""
    P = world(6, A=1)
    with pytest.warns(OptFairWarning, match="there is one group"):
        model = fitted(P, criterion="dp", tolerance=1.0, rounds=3, mixture="lp")
    np.testing.assert_allclose(model.mixture_.weights.sum(), 1)
    assert model.training_.accuracy == pytest.approx(P.sum(axis=1).max(axis=1).sum())


def test_weights_of_the_other_mixtures():
    model = fitted(world(6), rounds=5)
    np.testing.assert_allclose(round_weights("all", model.game_, model.trace_), np.full(5, 0.2))
    np.testing.assert_allclose(round_weights("last_half", model.game_, model.trace_), [0, 0, 1 / 3, 1 / 3, 1 / 3])
    one = fitted(world(6), rounds=1)
    np.testing.assert_array_equal(round_weights("last_half", one.game_, one.trace_), [1.0])


# -- the distance from an equilibrium -----------------------------------------------------------------------
def brute_gap(P, criterion, xi, B, J, lam, table):
    """max over all deterministic rules of L(h, λ), minus min over ‖λ'‖₁ ≤ B of L(h̄, λ'), by enumeration."""
    D = naive_rows(criterion, P, table)
    m = P.shape[2]

    def lagrangian(J, lam):
        return np.einsum("aii->", J) - lam @ np.einsum("kaij,aij->k", D, J) + xi * np.abs(lam).sum()

    rules = itertools.product(range(m), repeat=len(P))
    best = max(lagrangian(np.einsum("xai,xj->aij", P, np.eye(m)[list(h)]), lam) for h in rules)
    # L is linear between the corners of the ball and zero: the least is at one of them
    corners = [np.zeros(len(D)), *(s * B * e for e in np.eye(len(D)) for s in (1, -1))]
    return best - min(lagrangian(J, corner) for corner in corners)


@pytest.mark.parametrize("criterion", ["dp", "eo", "oae"])
def test_the_gap_is_that_of_all_deterministic_rules(criterion):
    P, xi, B = world(7, n_x=5, A=2, m=3), 0.02, 2.0
    model = fitted(P, criterion=criterion, tolerance=xi, rounds=30, step=0.1, max_multiplier=B)
    trace = model.trace_
    for t in (1, 2, 7, 30):
        J, lam = trace.confusions[:t].mean(axis=0), trace.multipliers[:t].mean(axis=0)
        true = brute_gap(P, criterion, xi, B, J.reshape(2, 3, 3), lam, model.game_.rows.table)
        assert true >= -1e-12
        assert model.history_["equilibrium_gap"][t - 1] == pytest.approx(true, abs=1e-9)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_gap_shrinks_below_the_theorems_bound(criterion):
    """Theorem 5.2 with exact answers: gap ≤ u B √(K/T) at the theorem's step."""
    P, xi, B, T = world(8), 0.02, 1.5, 300
    model = fitted(P, criterion=criterion, tolerance=xi, rounds=T, max_multiplier=B)
    found = model.history_["equilibrium_gap"].to_numpy()
    K = len(model.game_.rows)
    assert found[-1] <= (1 + xi) * B * np.sqrt(K / T)
    assert found[-1] < 0.5 * found[: T // 10].mean() and found[-1] < 0.1
    assert (found >= -1e-12).all()


def test_no_gap_where_rows_do_not_repeat():
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    y = (X[:, 0] + a > 0.5).astype(int)
    model = OptFairIn(LogisticRegression(), rounds=2, start="zero", max_multiplier=1.0).fit(X, y, sensitive_features=a)
    assert model.history_["equilibrium_gap"].isna().all() and np.isnan(model.training_.gap)
    assert "equilibrium" not in str(model.report())
    assert "distance from an equilibrium: at most" in str(fitted(world(0), rounds=3).report())


# -- regret -------------------------------------------------------------------------------------------------
def both_sides(model, P, criterion, xi):
    """(Regret against every fixed λ, B²/2η + η/2 Σ‖D‖²) of a run from zero, from the recorded numbers alone."""
    trace, B = model.trace_, model.game_.cap
    D = naive_rows(criterion, P, model.game_.rows.table)
    J = trace.confusions.reshape(len(trace), *P.shape[1:], P.shape[2])
    values = np.einsum("kaij,taij->tk", D, J)
    gained = (trace.multipliers * values).sum() - xi * np.abs(trace.multipliers).sum()
    # the best fixed λ puts all of B on the row that is furthest out on average, or is zero
    best = max(0.0, B * (np.abs(values.sum(axis=0)) - len(trace) * xi).max())
    eta = trace.steps[0]
    return best - gained, B**2 / (2 * eta) + eta / 2 * (values**2).sum()


@pytest.mark.filterwarnings("ignore:max_multiplier")  # large steps end on the bound
@pytest.mark.parametrize("step", ["theorem", 0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_regret_is_bounded(criterion, step):
    P, xi = world(9), 0.02
    model = fitted(P, criterion=criterion, tolerance=xi, rounds=60, step=step, max_multiplier=2.0)
    regret, bound = both_sides(model, P, criterion, xi)
    assert regret <= bound + 1e-9
    assert model.trace_.regret(model.game_) == pytest.approx(regret, abs=1e-9)
    end = model.trace_.next
    own = model.trace_.regret_bound(model.game_)
    assert own == pytest.approx(bound - xi * np.abs(end).sum(), abs=1e-9)
    assert regret <= own + 1e-9


@pytest.mark.parametrize("start", ["zero", "post"])
@pytest.mark.parametrize("step", ["adaptive", 0.3])
def test_regret_is_bounded_from_elsewhere_and_with_steps_that_shrink(start, step):
    P = world(9)
    model = fitted(P, criterion="eo", tolerance=0.02, rounds=60, step=step, max_multiplier=2.0, start=start)
    assert (start == "post") == bool(model.trace_.multipliers[0].any())
    assert model.trace_.regret(model.game_) <= model.trace_.regret_bound(model.game_) + 1e-9


def test_the_reversed_step_breaks_the_bound():
    """The same pieces with λ − ηD: whoever turns the sign is found out."""
    P, xi, T, eta = world(9), 0.02, 300, 0.1
    model = fitted(P, criterion="dp", tolerance=xi, rounds=T, step=eta, max_multiplier=2.0)
    game = model.game_
    learner = make_learner(Table(), _people(P), None, 0, 1, "error")
    trace = Trace.empty(game, np.zeros(len(game.rows)))
    for turn in range(T):
        J = game.confusion(
            learner.votes(learner.respond(soft_targets(game.weights(trace.next), game.share, "cell"), turn))
        )
        trace = trace.grown(J, eta, game.box.prox(trace.next - eta * game.values(J), np.full(len(game.rows), eta)))
    assert trace.regret(game) > trace.regret_bound(game) + 1
    model.trace_ = trace
    regret, bound = both_sides(model, P, "dp", xi)
    assert regret > bound + 1


def test_a_run_goes_on_from_its_trace():
    """Ten rounds, or four and then six."""
    P = world(10)
    game = replace(game_of(P, criterion="dp"), cap=2.0)
    empty = Trace.empty(game, np.zeros(len(game.rows)))
    learner = make_learner(Table(), _people(P), None, 0, 1, "error")
    *_, (_, whole) = play(game, learner, empty, 10, "adaptive")
    first = next(itertools.islice(play(game, learner, empty, 10, "adaptive"), 3, None))[1]
    *_, (_, rest) = play(game, learner, first, 10, "adaptive")
    assert len(first) == 4 and len(rest) == len(whole) == 10
    np.testing.assert_array_equal(rest.multipliers, whole.multipliers)
    np.testing.assert_array_equal(rest.next, whole.next)


# -- other requests -----------------------------------------------------------------------------------------
def test_one_sided_rows_move_one_way():
    P = world(11, A=2, m=3)
    wishes = [MinimumRate("recall", 0.4), Ratio("dp", 0.7)]
    model = fitted(P, criterion=wishes, tolerance=0.01, rounds=300, step=0.05, mixture="lp")
    assert (model.trace_.multipliers <= 0).all()  # all have lower bounds only
    assert model.training_.excess <= 1e-6
    J = np.tensordot(round_weights("lp", model.game_, model.trace_), model.trace_.confusions, axes=1).reshape(2, 3, 3)
    prior = P.sum(axis=0)
    assert (np.einsum("aii->ai", J) / prior).min() >= 0.4 - 1e-6
    rates = J.sum(axis=1) / prior.sum(axis=1)[:, None]
    assert (rates[0] >= 0.7 * rates[1] - 1e-6).all() and (rates[1] >= 0.7 * rates[0] - 1e-6).all()
    D = np.concatenate([_recalls(prior), _ratios(prior, 0.7)])
    mass = P.sum(axis=(1, 2))
    low = np.r_[np.full(6, 0.4), np.zeros(6)]
    best = linear_program(P / mass[:, None, None], D, low, np.inf, mass).value
    assert model.training_.accuracy == pytest.approx(best, abs=1e-2)


def _recalls(prior):
    return linear_rows(lambda J, P: (np.einsum("aii->ai", J) / P).ravel(), prior)


def _ratios(prior, factor):
    def rows(J, P):
        r = J.sum(axis=1) / P.sum(axis=1)[:, None]
        return np.concatenate([r[0] - factor * r[1], r[1] - factor * r[0]])

    return linear_rows(rows, prior)


def test_a_tolerance_per_group():
    P = world(12)
    wish = Constraint("dp", {0: 0.02, 1: 0.1})
    model = fitted(P, criterion=wish, tolerance=0.01, rounds=300, step=0.05, mixture="lp")
    table = model.multipliers_
    assert set(table["group"]) == {0, 1}
    assert (table["value"].abs() <= table["upper"] + 1e-6).all()
    D = [
        row
        for row, name in zip(naive_rows("dp", P), gaps("dp", np.zeros((3, 3, 3)), P.sum(axis=0)), strict=True)
        if name[0] < 2
    ]
    limits = np.repeat([0.02, 0.1], 3)
    mass = P.sum(axis=(1, 2))
    best = linear_program(P / mass[:, None, None], np.reshape(D, (6, -1)), -limits, limits, mass).value
    assert model.training_.accuracy == pytest.approx(best, abs=1e-2)
    same = fitted(P, tolerance={0: 0.02, 1: 0.1}, rounds=300, step=0.05)
    np.testing.assert_array_equal(same.trace_.multipliers, model.trace_.multipliers)


def test_several_criteria_at_once():
    P = world(13)
    model = fitted(P, criterion=["dp", "oae"], tolerance=0.03, rounds=400, step=0.05, mixture="lp")
    D = np.concatenate([naive_rows(c, P).reshape(-1, 27) for c in ("dp", "oae")])
    mass = P.sum(axis=(1, 2))
    best = linear_program(P / mass[:, None, None], D, -0.03, 0.03, mass).value
    assert model.training_.accuracy == pytest.approx(best, abs=1e-2)
    assert model.training_.violation <= 0.03 + 1e-6
    assert set(model.multipliers_["criterion"]) == {"dp", "oae"}


def test_costs():
    """Expected costs of the mixture against the linear program; multipliers are in units of costs."""
    P = world(14)
    R = np.random.default_rng(0).uniform(1, 4, (3, 3)) * (1 - np.eye(3))
    model = fitted(P, costs=R, criterion="dp", tolerance=0.03, rounds=400, step=0.05, mixture="lp")
    mass = P.sum(axis=(1, 2))
    D = naive_rows("dp", P).reshape(-1, 27)
    best = linear_program(P / mass[:, None, None], D, -0.03, 0.03, mass, -np.broadcast_to(R, (3, 3, 3))).value
    J = np.tensordot(round_weights("lp", model.game_, model.trace_), model.trace_.confusions, axes=1).reshape(3, 3, 3)
    assert -(J * R).sum() == pytest.approx(best, abs=1e-2 * R.max())
    mean = model.trace_.multipliers[200:].mean(axis=0)
    np.testing.assert_allclose(model.multipliers_["multiplier"], mean * R.max(), atol=1e-12)
    # λ = 0 with costs is the cheapest answer, not the likeliest
    cheapest = -np.einsum("xai,ij->xj", P, R)
    np.testing.assert_array_equal(model.plain_(np.eye(8)).argmax(axis=1), cheapest.argmax(axis=1))


def test_the_game_by_its_definitions():
    P = world(15)
    game = replace(game_of(P, criterion="eo"), cap=2.0)
    rng = np.random.default_rng(0)
    _, i, a, w = everybody(P)
    votes, lam = rng.integers(0, 3, len(i)), rng.normal(size=len(game.rows))
    J = np.einsum("n,na,ni,nj->aij", w / w.sum(), *(np.eye(3)[v] for v in (a, i, votes)))
    np.testing.assert_allclose(game.confusion(votes), J.reshape(9, 3), atol=1e-12)
    np.testing.assert_allclose(game.share, P.sum(axis=0).ravel())
    D = naive_rows("eo", P, game.rows.table)
    np.testing.assert_allclose(game.values(J.reshape(9, 3)), np.einsum("kaij,aij->k", D, J), atol=1e-12)
    assert game.accuracy(J.reshape(9, 3)) == pytest.approx(np.einsum("aii->", J))
    L = np.einsum("aii->", J) - lam @ np.einsum("kaij,aij->k", D, J) + 0.02 * np.abs(lam).sum()
    assert game.lagrangian(J.reshape(9, 3), lam) == pytest.approx(L)
    assert isinstance(game, Game) and game.twins is not None
