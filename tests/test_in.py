"""`OptFairIn` as its user sees it: what it learns, answers and tells, and what it refuses."""

import pickle
import sys
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from problems import gaps, linear_rows
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from optfair import (
    Constraint,
    MinimumRate,
    ModelFileError,
    OptFairIn,
    OptFairPost,
    OptFairWarning,
    Ratio,
    load_model,
    metrics,
)
from optfair.inprocessing import start as start_module

# So few people are easily remembered; see test_a_learner_that_remembers_is_told.
# Few rounds, and few people: how close they come is the subject of few tests.
pytestmark = [
    pytest.mark.filterwarnings("ignore:estimator. remembers"),
    pytest.mark.filterwarnings("ignore:tolerance. training ended outside"),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


def people(n=240, seed=0):
    """Two groups that differ in x1, three classes that follow it."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex], "old": rng.random(n) < 0.5})
    return frame, np.array(list("abc"))[y]


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
XA, CODE = X.to_numpy(), np.searchsorted(["a", "b", "c"], Y)
X_NEW = people(seed=1)[0][["x1", "x2"]]
SEX_NEW = people(seed=1)[0]["sex"]
PRIOR = pd.crosstab(SEX, Y).to_numpy() / len(Y)


def quick(estimator=None, **options):
    base = LogisticRegression() if estimator is None else estimator
    return OptFairIn(base, **{"rounds": 4, "tolerance": 0.05, "random_state": 0, "step": 0.3} | options)


def tree(**options):
    return DecisionTreeClassifier(**{"max_depth": 3, "random_state": 0} | options)


def fit(model, **more):
    return model.fit(X, Y, sensitive_features=SEX, **more)


@pytest.fixture(scope="module")
def model():
    """Blind, all rounds mixed; the rounds disagree, so that hashed answers need the key."""
    return fit(quick(rounds=12, mixture="all", start="zero", step=1.0, max_multiplier=5.0))


# -- λ = 0 is plain training --------------------------------------------------------------------------------
FREE = {"tolerance": 1.0, "start": "zero", "max_multiplier": 1.0}
WEIGHT = np.random.default_rng(2).integers(1, 4, len(Y)).astype(float)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize("shift", ["cell", "global"])
def test_constraints_that_never_bind_leave_the_tree_as_it_is(weight, shift):
    model = fit(quick(tree(), shift=shift, **FREE), sample_weight=weight)
    plain = tree().fit(X, CODE, sample_weight=weight)
    assert not model.trace_.multipliers.any() and model.n_fits_ == 1
    for member in (*model.mixture_.members, *model.plain_.members):
        for part in ("children_left", "children_right", "feature", "threshold", "value", "weighted_n_node_samples"):
            np.testing.assert_array_equal(getattr(member.tree_, part), getattr(plain.tree_, part))
    np.testing.assert_array_equal(model.predict(X_NEW), np.array(list("abc"))[plain.predict(X_NEW)])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_constraints_that_never_bind_leave_logistic_regression_as_it_is(weight):
    model = fit(quick(**FREE), sample_weight=weight)
    plain = LogisticRegression().fit(X, CODE, sample_weight=weight)
    for member in model.mixture_.members:
        np.testing.assert_allclose(member.coef_, plain.coef_, atol=1e-4)
        np.testing.assert_allclose(member.intercept_, plain.intercept_, atol=1e-4)


class Counted(StandardScaler):
    """Says how often it was fitted."""

    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_a_pipeline_is_fitted_as_a_whole_and_its_transformers_once(weight):
    Counted.fits = 0
    model = fit(quick(make_pipeline(Counted(), LogisticRegression()), **FREE), sample_weight=weight)
    assert Counted.fits == 1
    given = (
        {} if weight is None else {"standardscaler__sample_weight": weight, "logisticregression__sample_weight": weight}
    )
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, CODE, **given)
    np.testing.assert_allclose(model.mixture_.front[0].mean_, plain[0].mean_)
    np.testing.assert_allclose(model.mixture_.members[0].coef_, plain[-1].coef_, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X_NEW), np.array(list("abc"))[plain.predict(X_NEW)])
    Counted.fits = 0
    fit(quick(make_pipeline(Counted(), LogisticRegression()), start="zero", max_multiplier=1.0))
    assert Counted.fits == 1  # also when the rounds differ


def test_pipelines_in_pipelines_and_texts():
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression()))
    flat = fit(quick(make_pipeline(StandardScaler(), LogisticRegression()), start="zero", max_multiplier=1.0))
    found = fit(quick(nested, start="zero", max_multiplier=1.0))
    np.testing.assert_allclose(found.trace_.multipliers, flat.trace_.multipliers, atol=1e-9)
    texts = ["often " * int(x > 0.5) + "always" for x in X["x1"]]
    words = quick(make_pipeline(CountVectorizer(), LogisticRegression())).fit(texts, Y, sensitive_features=SEX)
    assert words.predict_proba(["always", "often always"]).shape == (2, 3)
    assert np.isfinite(words.training_.gap)  # two distinct rows


def test_the_default_is_standardised_logistic_regression():
    model = fit(OptFairIn(rounds=3, start="zero", max_multiplier=1.0, step=0.3))
    same = fit(
        OptFairIn(
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            rounds=3,
            start="zero",
            max_multiplier=1.0,
            step=0.3,
        )
    )
    np.testing.assert_array_equal(model.trace_.multipliers, same.trace_.multipliers)
    rows = sparse.csr_array(np.abs(XA))
    assert OptFairIn(rounds=2).fit(rows, Y, sensitive_features=SEX).predict_proba(rows).shape == (len(Y), 3)
    with pytest.raises(ValueError, match=r"^estimator=None: .* cannot read the column 'sex', not a number"):
        OptFairIn(rounds=2).fit(FRAME[["x1", "sex"]], Y, sensitive_features=FRAME["old"])


# -- the mixture --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mixture", ["all", "last_half", "lp"])
def test_probabilities_are_the_weight_of_the_rounds_that_vote_for_a_class(mixture):
    model = fit(quick(rounds=9, mixture=mixture, step=1.0, start="zero", max_multiplier=5.0))
    members, w = model.mixture_.members, model.mixture_.weights
    assert len(members) == len(w) and w.sum() == pytest.approx(1) and (w > 0).all()
    if mixture != "lp":
        np.testing.assert_allclose(w, 1 / {"all": 9, "last_half": 5}[mixture])
    votes = np.array([member.predict(X_NEW) for member in members])
    h = np.stack([(w[:, None] * (votes == j)).sum(axis=0) for j in range(3)], axis=1)
    np.testing.assert_allclose(model.predict_proba(X_NEW), h, atol=1e-9)
    np.testing.assert_allclose(h.sum(axis=1), 1)
    assert model.training_.members == len(members)
    # what is said of the training people is what the mixture does to them
    h = model.predict_proba(X)
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(Y)), CODE].mean())
    found = metrics.violation(Y, h, sensitive_features=SEX, criterion="dp", classes=list("abc"))
    assert model.training_.violation == pytest.approx(found)


def test_history_is_about_each_round(model):
    table = model.history_
    assert table.columns.tolist() == [
        "round",
        "accuracy",
        "violation",
        "excess",
        "norm",
        "lagrangian",
        "equilibrium_gap",
        "step",
    ]
    assert table["round"].tolist() == list(range(1, 13))
    for t, member in enumerate(model.mixture_.members):
        votes = member.predict(X)
        assert table["accuracy"][t] == pytest.approx((votes == CODE).mean())
        found = metrics.violation(
            Y, np.array(list("abc"))[votes], sensitive_features=SEX, criterion="dp", classes=list("abc")
        )
        assert table["violation"][t] == pytest.approx(found)
        assert table["excess"][t] == pytest.approx(max(found - 0.05, 0))
        lam = model.trace_.multipliers[t]
        assert table["norm"][t] == pytest.approx(np.abs(lam).sum())
        J = np.array(
            [[(votes[SEX.eq(g) & np.equal(Y, c)] == j).sum() / len(Y) for j in range(3)] for g in "fm" for c in "abc"]
        )
        D = naive_rows("dp", model.multipliers_) @ J.ravel()
        value = (votes == CODE).mean() - lam @ D + 0.05 * np.abs(lam).sum()
        assert table["lagrangian"][t] == pytest.approx(value)
    np.testing.assert_array_equal(table["step"], model.trace_.steps)


def naive_rows(criterion, table):
    """D (K, A·m·m) from the definitions, in the order of the table."""
    D = linear_rows(lambda J, P: gaps(criterion, J, P).values(), PRIOR)
    names = list(gaps(criterion, np.zeros((2, 3, 3)), PRIOR))
    asked = zip(table["group"], table["outcome"], strict=True)
    return D[[names.index(("fm".index(g), "overall", None, "abc".index(j))) for g, j in asked]]


def test_multipliers_are_a_table_as_those_of_a_rule(model):
    table = model.multipliers_
    rule = OptFairPost(LogisticRegression(), cv=2).fit(X, Y, sensitive_features=SEX)
    assert table.columns.tolist() == rule.multipliers_.columns.tolist()
    np.testing.assert_allclose(table["multiplier"], model.trace_.multipliers.mean(axis=0))
    h = model.predict_proba(X)
    rates = {g: h[SEX.eq(g)].mean(axis=0) for g in "fm"}
    for row in table.itertuples():
        j = "abc".index(row.outcome)
        assert row.value == pytest.approx(rates[row.group][j] - h.mean(axis=0)[j])
        assert (row.lower, row.upper) == (-0.05, 0.05)
        assert row.price == pytest.approx(table["multiplier"][table["group"] == row.group].abs().sum())
    prices = model.report().prices
    np.testing.assert_allclose(prices["price"], [table["price"][table["group"] == g].iloc[0] for g in "fm"])


# -- one deterministic model --------------------------------------------------------------------------------
@pytest.mark.parametrize("mixture", ["all", "last_half"])
def test_the_deterministic_answer_is_one_fit_at_the_mean_multipliers(mixture):
    model = fit(quick(tree(), output="deterministic", mixture=mixture, rounds=7, start="zero", max_multiplier=3.0))
    h = model.predict_proba(X_NEW)
    assert ((h == 0) | (h == 1)).all() and (h.sum(axis=1) == 1).all()
    assert len(model.mixture_.members) == 1 and model.training_.members == 1
    assert "one fit at the mean multipliers, out of 1 model" in str(model.report())
    mean = model.trace_.multipliers[0 if mixture == "all" else 3 :].mean(axis=0)
    assert mean.any()
    np.testing.assert_allclose(model.multipliers_["multiplier"], mean)
    W = np.tile(np.eye(3), (2, 1)) - (mean @ naive_rows("dp", model.multipliers_)).reshape(6, 3)
    T = (W - W.min(axis=1, keepdims=True))[3 * (SEX == "m").to_numpy() + CODE]
    row, label = np.nonzero(T > 1e-12)
    weight = T[row, label] * len(Y) / T.sum()
    alone = tree().fit(XA[row], label, sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba(X_NEW).argmax(axis=1), alone.predict(X_NEW.to_numpy()))


# -- decisions ----------------------------------------------------------------------------------------------
def test_decisions(model):
    h = model.predict_proba(X_NEW)
    undecided = (h.max(axis=1) < 1).sum()
    assert undecided > 10
    first = model.predict(X_NEW)
    np.testing.assert_array_equal(first, model.predict(X_NEW))
    np.testing.assert_array_equal(first[::-1], model.predict(X_NEW[::-1]))  # by person, not by place
    certain = h.max(axis=1) == 1
    np.testing.assert_array_equal(first[certain], np.array(list("abc"))[h.argmax(axis=1)][certain])
    assert (h[np.arange(len(h)), np.searchsorted(list("abc"), first)] > 0).all()
    ids = [f"person {i}" for i in range(len(h))]
    by_id = model.predict(X_NEW, keys=ids)
    np.testing.assert_array_equal(by_id[certain], first[certain])
    np.testing.assert_array_equal(by_id, model.predict(X_NEW, keys=ids))
    often = pd.concat([X_NEW] * 100)
    many = model.predict(often, keys=np.arange(len(often))).reshape(100, -1)
    for j, name in enumerate("abc"):  # the hash follows h
        np.testing.assert_allclose((many == name).mean(axis=0), h[:, j], atol=0.25)


def test_other_decisions(model):
    h = model.predict_proba(X_NEW)
    other = pickle.loads(pickle.dumps(model)).set_params(decision="argmax")
    np.testing.assert_array_equal(other.predict(X_NEW), np.array(list("abc"))[h.argmax(axis=1)])
    assert other.score(X, Y) == pytest.approx(np.mean(other.predict(X) == Y))
    other.set_params(decision="sampled")
    np.testing.assert_array_equal(other.predict(X_NEW, random_state=1), other.predict(X_NEW, random_state=1))
    draws = other.predict(pd.concat([X_NEW] * 100), random_state=2).reshape(100, -1)
    np.testing.assert_allclose((draws == "b").mean(axis=0), h[:, 1], atol=0.25)
    assert (draws != draws[0]).any()


# -- weights ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [LogisticRegression, tree])
def test_whole_weights_are_copies(kind):
    settings = {"start": "zero", "max_multiplier": 2.0, "rounds": 6}
    model = fit(quick(kind(), **settings), sample_weight=WEIGHT)
    row = np.repeat(np.arange(len(Y)), WEIGHT.astype(int))
    copies = quick(kind(), **settings).fit(X.iloc[row], Y[row], sensitive_features=SEX.iloc[row])
    assert model.trace_.multipliers.any()
    np.testing.assert_allclose(model.trace_.multipliers, copies.trace_.multipliers, atol=1e-9)
    np.testing.assert_allclose(model.trace_.confusions, copies.trace_.confusions, atol=1e-12)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), copies.predict_proba(X_NEW))


@pytest.mark.parametrize("start", ["zero", "post"])
def test_whoever_has_no_weight_is_not_there(start):
    weight = WEIGHT * (np.arange(len(Y)) % 3 > 0)
    model = fit(quick(start=start), sample_weight=weight)
    there = np.flatnonzero(weight)
    alone = quick(start=start).fit(
        X.iloc[there], Y[there], sensitive_features=SEX.iloc[there], sample_weight=weight[there]
    )
    np.testing.assert_array_equal(model.trace_.multipliers, alone.trace_.multipliers)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))


# -- where it starts ----------------------------------------------------------------------------------------
def test_the_bound_is_twice_the_norm_of_post_processing():
    model = fit(quick(start="post", rounds=2, tolerance=0.01))
    norm = np.abs(model.trace_.multipliers[0]).sum()
    assert norm > 0
    assert model.training_.cap == pytest.approx(max(2.0, 2 * norm))
    zero = fit(quick(start="zero", rounds=2, tolerance=0.01))
    assert zero.training_.cap == pytest.approx(model.training_.cap) and not zero.trace_.multipliers[0].any()
    assert fit(quick(rounds=2, max_multiplier=7)).training_.cap == 7.0


def test_a_norm_above_one_raises_the_bound():
    """λ_0 of post-processing is the price of what is asked for, which may be dear."""
    x = np.repeat([1.0, 0.0, 0.0], [72, 8, 320])  # 72 of the 80 people of class 1 are told apart
    y = np.repeat([1, 1, 0], [72, 8, 320])
    wish = MinimumRate("recall", 0.95, by="overall", outcomes=[1])
    model = quick(LogisticRegression(C=1e3), criterion=wish, tolerance=0.01, rounds=2, step=0.01)
    model.fit(x[:, None], y, sensitive_features=np.arange(400) % 2)
    norm = np.abs(model.trace_.multipliers[0]).sum()
    # the tenth of them that is not: all 328 at x = 0 must be answered 1, and 312 of those wrongly
    assert norm == pytest.approx((312 / 400) / 0.1, rel=0.1)
    assert model.training_.cap == pytest.approx(2 * norm)


def test_a_rule_or_a_fitted_model_to_start_from(ends_on_bound):
    post = OptFairPost(LogisticRegression(), cv=2, tolerance=0.02, random_state=0).fit(X, Y, sensitive_features=SEX)
    lam = dict(
        zip(
            zip(post.multipliers_["group"], post.multipliers_["outcome"], strict=True),
            post.multipliers_["multiplier"],
            strict=True,
        )
    )
    for begin in (post, post.rule_):
        model = fit(quick(start=begin, rounds=2))
        table = model.multipliers_
        expected = [lam[key] for key in zip(table["group"], table["outcome"], strict=True)]
        np.testing.assert_allclose(model.trace_.multipliers[0], expected)
        assert np.any(expected)
        assert model.training_.cap == pytest.approx(max(2, 2 * np.abs(expected).sum()))
    small = fit(quick(start=post, rounds=1, max_multiplier=0.01, step=1e-9))
    np.testing.assert_allclose(np.abs(small.trace_.multipliers[0]).sum(), 0.01)  # shortened, in the same direction
    np.testing.assert_allclose(small.trace_.multipliers[0] / 0.01, np.array(expected) / np.abs(expected).sum())


@pytest.fixture
def ends_on_bound():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "max_multiplier", OptFairWarning)
        yield


def test_an_impossible_request_starts_at_zero(ends_on_bound):
    with pytest.warns(
        OptFairWarning, match=r"^start: post-processing found that no rule satisfies .* Starting at zero\.$"
    ):
        model = fit(quick(criterion=MinimumRate("recall", 0.99), tolerance=0.01))
    assert not model.trace_.multipliers[0].any() and model.training_.cap == 2.0
    assert model.training_.excess > 0 and "outside its bounds by" in str(model.report())


def test_a_run_that_ends_on_the_bound_says_so():
    with pytest.warns(OptFairWarning) as caught:
        model = fit(quick(tolerance=0.0, max_multiplier=0.05, rounds=8))
    missed, on_bound = (str(w.message) for w in caught)
    assert on_bound == "max_multiplier=0.05: the run ends on this bound, so the tolerance may be missed; raise it."
    assert missed.startswith(f"tolerance: training ended outside its bounds by {model.training_.excess:.4f} (dp: group")
    assert missed.endswith("raise rounds, try mixture='lp', or a learner that can express a fair rule.")
    assert model.training_.on_bound
    assert "the multipliers end on their bound: raise max_multiplier, or the tolerance cannot be met" in str(
        model.report()
    )
    free = fit(quick(rounds=3))
    assert not free.training_.on_bound and "end on their bound" not in str(free.report())


def test_post_processing_on_a_sample_stands_for_all():
    """All of the rare cells, the rest by chance, weighted so that each cell keeps its mass."""
    rng = np.random.default_rng(0)
    n = 60_000
    a = (rng.random(n) < 0.004).astype(int)
    y = rng.integers(0, 3, n)
    weight = rng.uniform(0.5, 2, n)
    everyone = OptFairIn()._people(np.arange(n)[:, None], y, a, None)
    some = start_module.sample(everyone, 0)
    assert 20_000 <= len(some.y) <= 21_000
    counts = np.bincount(everyone.cell)
    np.testing.assert_allclose(np.bincount(some.cell, some.weight), counts)
    np.testing.assert_array_equal(np.bincount(some.cell)[3:], np.minimum(counts[3:], start_module.CELL_ROWS))
    who = some.X[:, 0]
    assert len(np.unique(who)) == len(who)
    np.testing.assert_array_equal(some.y, y[who])
    np.testing.assert_array_equal(some.a, a[who])
    again = start_module.sample(everyone, 0)
    np.testing.assert_array_equal(again.X, some.X)
    weighted = start_module.sample(OptFairIn()._people(np.arange(n)[:, None], y, a, weight), 0)
    ratio = weighted.weight / weight[weighted.X[:, 0]]
    np.testing.assert_allclose(np.bincount(weighted.cell, ratio), counts * ratio.min() / ratio.min())
    small = OptFairIn()._people(XA, Y, SEX, None)
    assert start_module.sample(small, 0) is small


# -- people held out ----------------------------------------------------------------------------------------
def test_people_held_out_are_judged_and_not_learned_from():
    """The learner's own record of whom it saw; D, history and summary are about the others."""
    Seen.rows = []
    model = fit(quick(Seen(max_depth=3), held_out=0.25, start="zero", max_multiplier=2.0, rounds=6, mixture="all"))
    known = {row.tobytes() for rows in Seen.rows for row in np.asarray(rows)}
    trained = np.array([row.tobytes() in known for row in XA])
    assert (~trained).sum() == len(Y) // 4
    cell = 3 * (SEX == "m").to_numpy() + CODE
    share = np.bincount(cell[~trained], minlength=6) / np.bincount(cell)
    np.testing.assert_allclose(share, 0.25, atol=0.05)  # of every cell
    plain = tree().fit(X[trained], CODE[trained])
    np.testing.assert_array_equal(model.plain_(X_NEW).argmax(axis=1), plain.predict(X_NEW))
    for t, member in enumerate(model.mixture_.members):
        votes = member.predict(X[~trained])
        assert model.history_["accuracy"][t] == pytest.approx((votes == CODE[~trained]).mean())
        answers = np.array(list("abc"))[votes]
        found = metrics.violation(
            Y[~trained], answers, sensitive_features=SEX[~trained], criterion="dp", classes=list("abc")
        )
        assert model.history_["violation"][t] == pytest.approx(found)
    h = model.predict_proba(X[~trained])
    assert model.training_.accuracy == pytest.approx(h[np.arange(len(h)), CODE[~trained]].mean())
    assert "on the people held out: accuracy" in str(model.report())
    again = fit(quick(Seen(max_depth=3), held_out=0.25, start="zero", max_multiplier=2.0, rounds=6, mixture="all"))
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)


class Seen(DecisionTreeClassifier):
    """Notes the rows it was fitted to."""

    rows: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Seen.rows.append(X)
        return super().fit(X, y, sample_weight=sample_weight)


def test_a_pipeline_learns_its_transformers_from_the_others():
    base = make_pipeline(StandardScaler(), LogisticRegression())
    model = fit(quick(base, held_out=0.5, start="zero", max_multiplier=2.0))
    assert model.mixture_.front[0].n_samples_seen_ == len(Y) // 2
    weighted = fit(quick(base, held_out=0.5, start="post"), sample_weight=WEIGHT)
    assert weighted.predict_proba(X_NEW).shape == (len(X_NEW), 3)


def test_a_learner_that_remembers_is_told():
    noise = np.random.default_rng(0).permutation(Y)
    with pytest.warns(OptFairWarning) as caught:
        quick(tree(max_depth=None), rounds=2).fit(X, noise, sensitive_features=SEX)
    message, *_ = (str(w.message) for w in caught)
    assert message.startswith("estimator: remembers the people it has seen (accuracy 1.00 on them, 0.")
    assert message.endswith(
        "so that being fair to them says little about others; try held_out=0.25, or a simpler model."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "tolerance")
        quick(tree(max_depth=None), rounds=2, held_out=0.25).fit(X, noise, sensitive_features=SEX)
        fit(quick(rounds=2))  # two coefficients remember nobody
        unknown = quick(tree(max_depth=None), rounds=2, start="zero", max_multiplier=1.0)
        unknown.fit(X, noise, sensitive_features=SEX)  # nothing was fitted out of fold to compare with


# -- stopping -----------------------------------------------------------------------------------------------
def test_stopping_early():
    model = fit(quick(rounds=30, start="zero", stop_below=0.1, step=0.5, max_multiplier=5.0))
    found = model.history_["violation"].to_numpy()
    assert len(found) < 30 and found[-1] < 0.1 and (found[:-1] >= 0.1).all()
    assert len(model.trace_) == model.training_.rounds == len(found)
    assert len(fit(quick(rounds=3, stop_below=1e-9)).history_) == 3


def test_stopping_early_with_no_gap_to_speak_of(ends_on_bound):
    """Minimum rates have no violation; their excess is what is waited for."""
    wish = MinimumRate("recall", 0.95)
    model = fit(quick(criterion=wish, tolerance=0.01, rounds=3, start="zero", stop_below=0.01, max_multiplier=1.0))
    assert len(model.history_) == 3 and (model.history_["excess"] > 0.01).all()


# -- who the groups are -------------------------------------------------------------------------------------
def test_aware_sees_the_group_as_columns():
    model = fit(quick(awareness="aware", start="zero", max_multiplier=1.0))
    columns = np.eye(2)[(SEX == "m").astype(int)]
    by_hand = quick(start="zero", max_multiplier=1.0).fit(np.hstack([XA, columns]), Y, sensitive_features=SEX)
    np.testing.assert_allclose(model.trace_.multipliers, by_hand.trace_.multipliers, atol=1e-9)
    new = np.hstack([X_NEW, np.eye(2)[(SEX_NEW == "m").astype(int)]])
    np.testing.assert_allclose(model.predict_proba(X_NEW, sensitive_features=SEX_NEW), by_hand.predict_proba(new))
    arrays = quick(awareness="aware", start="zero", max_multiplier=1.0).fit(XA, Y, sensitive_features=SEX)
    np.testing.assert_allclose(arrays.trace_.multipliers, by_hand.trace_.multipliers, atol=1e-9)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        rows = quick(awareness="aware", start="zero", max_multiplier=1.0).fit(kind(XA), Y, sensitive_features=SEX)
        np.testing.assert_allclose(rows.trace_.multipliers, by_hand.trace_.multipliers, atol=1e-6)
        found = rows.predict_proba(kind(X_NEW.to_numpy()), sensitive_features=SEX_NEW)
        np.testing.assert_allclose(found, by_hand.predict_proba(new))
    numbered = X.set_axis([3, 7], axis=1)  # names that are numbers
    frame = quick(awareness="aware", start="zero", max_multiplier=1.0).fit(numbered, Y, sensitive_features=SEX)
    np.testing.assert_allclose(frame.trace_.multipliers, by_hand.trace_.multipliers, atol=1e-9)
    assert frame.predict(X_NEW.set_axis([3, 7], axis=1), sensitive_features=SEX_NEW).shape == (len(X_NEW),)


def test_aware_needs_the_groups_at_prediction_too():
    model = fit(quick(awareness="aware", rounds=2))
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        model.predict(X_NEW)
    with pytest.raises(ValueError, match=r"sensitive_features.*'x'"):
        model.predict(X_NEW, sensitive_features=["x"] * len(X_NEW))
    blind = fit(quick(rounds=2))
    with pytest.raises(ValueError, match=r"^sensitive_features: a blind rule does not use it"):
        blind.predict(X_NEW, sensitive_features=SEX_NEW)


def test_aware_with_what_cannot_take_columns():
    for rows, kind in ((X.to_numpy().tolist(), "lists"), (["x y"] * len(Y), "texts")):
        with pytest.raises(ValueError) as caught:
            quick(awareness="aware").fit(rows, Y, sensitive_features=SEX)
        assert str(caught.value) == (
            "awareness='aware': groups given to fit can be added to a 2-d array, a sparse matrix or a pandas frame "
            "only; name the columns of X that hold them in the constructor."
        ), kind
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=r"^awareness='aware': groups given to fit can be added"):
        quick(awareness="aware").fit(pl.DataFrame(X.to_dict("list")), Y, sensitive_features=SEX)


def test_groups_named_in_the_constructor():
    frame = FRAME.assign(sex=(SEX == "m").astype(float)).drop(columns="old")
    blind = quick(sensitive_features="sex").fit(frame, Y)
    outside = quick().fit(X, Y, sensitive_features=frame["sex"])
    np.testing.assert_array_equal(blind.trace_.multipliers, outside.trace_.multipliers)
    np.testing.assert_array_equal(blind.predict(frame), blind.predict(frame[["x1", "x2"]]))
    aware = quick(sensitive_features="sex", awareness="aware").fit(frame, Y)
    assert aware.mixture_.members[0].n_features_in_ == 3  # it is among the features, nothing is added
    assert aware.predict(frame).shape == (len(Y),)
    by_place = quick(sensitive_features=2).fit(frame.to_numpy(), Y)
    np.testing.assert_array_equal(by_place.trace_.multipliers, outside.trace_.multipliers)
    with pytest.raises(ValueError, match="given here and in the constructor"):
        quick(sensitive_features="sex").fit(frame, Y, sensitive_features=SEX)


def test_intersections_and_missing_groups():
    model = quick(tolerance=0.2, rounds=2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]])
    assert len(model.groups_) == 4 and model.groups_.names == ["sex", "old"]
    some = SEX.astype(object).where(np.arange(len(Y)) % 10 > 0, None)
    with pytest.raises(ValueError, match=r"^sensitive_features: .* missing"):
        quick().fit(X, Y, sensitive_features=some)
    assert len(quick(missing="group", tolerance=0.2, rounds=2).fit(X, Y, sensitive_features=some).groups_) == 3


def test_one_group_and_empty_cells():
    with pytest.warns(OptFairWarning, match=r"^sensitive_features: there is one group, 'f'; nothing is compared\.$"):
        model = quick(rounds=2).fit(X, Y, sensitive_features=["f"] * len(Y))
    assert model.training_.violation == 0
    keep = ~((SEX == "f") & (Y == "c"))
    with pytest.warns(
        OptFairWarning, match=r"rows cannot be formed, nobody is in their cells; left out: eop: group 'f'"
    ) as caught:
        quick(criterion="eop", rounds=2, start="zero").fit(X[keep], Y[keep], sensitive_features=SEX[keep])
    said = [str(w.message) for w in caught if "nobody is in their cells" in str(w.message)]
    assert len(said) == 1  # not once more by post-processing


def test_classes_of_any_kind():
    for labels in (CODE, CODE.astype(float), CODE == 1, Y.astype(object)):
        model = quick(rounds=2).fit(X, labels, sensitive_features=SEX)
        assert model.predict(X_NEW).dtype == labels.dtype
        np.testing.assert_array_equal(model.classes_, np.unique(labels))


# -- what it tells ------------------------------------------------------------------------------------------
def test_the_report_of_the_training(model):
    text = str(model.report())
    assert text.startswith(
        "OptFairIn, dp within 0.05 of overall, blind: 2 groups, 3 classes\n\nTraining\n  12 rounds; "
    )
    assert "the answer is a mixture of 12 models" in text
    t = model.training_
    assert f"accuracy {t.accuracy:.4f}, violation {t.violation:.4f}, " in text
    assert f"multipliers: ‖λ‖₁ = {t.norm:.4f}, bounded by 5" in text
    assert f"({model.n_fits_} model fits)" in text and "Prices (accuracy gained per unit of tolerance)" in text
    assert t.norm == pytest.approx(np.abs(model.trace_.multipliers[-1]).sum())
    assert ("within its bounds" in text) == (t.excess == 0)
    free = fit(quick(**FREE))
    assert "within its bounds" in str(free.report()) and "no constraint binds" in str(free.report())


def test_the_report_on_people_given(model):
    frame, y = people(seed=5)
    x, sex = frame[["x1", "x2"]], frame["sex"]
    report = model.report(x, y, sensitive_features=sex)
    plain, decided, fair = report.measured
    assert [one.name for one in report.measured] == ["plain model", "decisions (hashed)", "fair model"]
    alone = LogisticRegression().fit(X, Y)
    assert plain.accuracy == pytest.approx(np.mean(alone.predict(x) == y))
    assert decided.accuracy == pytest.approx(np.mean(model.predict(x) == y))
    h = model.predict_proba(x)
    assert fair.accuracy == pytest.approx(h[np.arange(len(y)), np.searchsorted(list("abc"), y)].mean())
    assert fair.interval.value == pytest.approx(
        metrics.violation(y, h, sensitive_features=sex, criterion="dp", classes=list("abc"))
    )
    text = str(report)
    assert text.splitlines()[0].endswith("; 240 people given") and "Training" not in text
    ids = np.arange(len(y))
    keyed = model.report(x, y, sensitive_features=sex, keys=ids)
    assert keyed.measured[1].accuracy == pytest.approx(np.mean(model.predict(x, keys=ids) == y))
    weighted = model.report(x, y, sensitive_features=sex, sample_weight=np.arange(1.0, 241))
    assert weighted.measured[1].accuracy == pytest.approx(np.average(model.predict(x) == y, weights=np.arange(1, 241)))
    aware = fit(quick(awareness="aware", rounds=2)).report(x, y, sensitive_features=sex)
    assert len(aware.measured) == 3


def test_constraints_of_every_kind_in_one_request(ends_on_bound):
    wishes = [Constraint("dp", {"f": 0.1}), Constraint("eo", 0.2), MinimumRate("recall", 0.2), Ratio("dp", 0.5)]
    model = fit(quick(criterion=wishes, tolerance=0.01, rounds=3))
    assert set(model.multipliers_["criterion"]) >= {"dp", "eo", "dp ratio"}
    assert len(model.report(X, Y, sensitive_features=SEX).constraints) == len(model.multipliers_)


def test_costs_change_what_is_learned():
    R = 1 - np.eye(3)
    R[2] *= 20
    dear = fit(quick(costs=R, tolerance=1.0, start="zero", max_multiplier=1.0, rounds=2))
    plain = fit(quick(tolerance=1.0, start="zero", max_multiplier=1.0, rounds=2))
    assert dear.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean()
    # 0-1 costs are accuracy
    same = fit(quick(costs=1 - np.eye(3), rounds=3))
    np.testing.assert_array_equal(same.trace_.multipliers, fit(quick(rounds=3)).trace_.multipliers)


# -- seeds --------------------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_run():
    forest = RandomForestClassifier(3, max_depth=3)
    one, two = (fit(quick(forest, random_state=5)) for _ in range(2))
    np.testing.assert_array_equal(one.trace_.multipliers, two.trace_.multipliers)
    np.testing.assert_array_equal(one.predict_proba(X_NEW), two.predict_proba(X_NEW))
    np.testing.assert_array_equal(one.predict(X_NEW), two.predict(X_NEW))  # the key too
    assert forest.random_state is None and one.estimator.random_state is None  # what was given is left alone
    assert all(member.random_state == 5 for member in one.mixture_.members)
    own = fit(quick(RandomForestClassifier(3, max_depth=3, random_state=9), random_state=5))
    assert all(member.random_state == 9 for member in own.mixture_.members)
    free = fit(quick(forest, random_state=None))
    assert free.mixture_.members[0].random_state is not None  # drawn, so that a checkpoint can go on with it
    for seed in (np.random.default_rng(3), np.random.RandomState(3), np.int64(3)):
        assert fit(quick(forest, random_state=seed, rounds=1)).mixture_.members[0].random_state is not None


def test_global_random_states_are_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit(quick(tree(random_state=None)))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# -- progress -----------------------------------------------------------------------------------------------
def test_progress_is_a_bar_or_nothing(capsys):
    fit(quick(rounds=3))
    assert capsys.readouterr() == ("", "")
    pytest.importorskip("tqdm")
    fit(quick(rounds=3, progress=True))
    out, err = capsys.readouterr()
    assert out == "" and "3/3" in err and "violation=" in err


def test_without_tqdm_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError) as caught:
        fit(quick(progress=True))
    assert str(caught.value) == 'progress=True needs tqdm: pip install "optfair[cli]"'


# -- what is refused ----------------------------------------------------------------------------------------
POSITIVE = "must be 'theorem', 'adaptive' or a positive number."
BAD = [
    ({"rounds": 0}, "rounds=0: must be an integer >= 1."),
    ({"rounds": 2.5}, "rounds=2.5: must be an integer >= 1."),
    ({"rounds": True}, "rounds=True: must be an integer >= 1."),
    ({"inner_epochs": 0}, "inner_epochs=0: must be an integer >= 1."),
    ({"step": 0}, f"step=0: {POSITIVE}"),
    ({"step": -1.0}, f"step=-1.0: {POSITIVE}"),
    ({"step": np.inf}, f"step=inf: {POSITIVE}"),
    ({"step": True}, f"step=True: {POSITIVE}"),
    ({"step": None}, f"step=None: {POSITIVE}"),
    ({"step": [1]}, f"step=[1]: {POSITIVE}"),
    ({"step": "auto"}, f"step='auto': {POSITIVE}"),
    ({"max_multiplier": 0}, "max_multiplier=0: must be 'auto' or a positive number."),
    ({"max_multiplier": None}, "max_multiplier=None: must be 'auto' or a positive number."),
    ({"max_multiplier": "two"}, "max_multiplier='two': must be 'auto' or a positive number."),
    ({"stop_below": 0}, "stop_below=0: must be None or a positive number."),
    ({"stop_below": "auto"}, "stop_below='auto': must be None or a positive number."),
    ({"held_out": 1}, "held_out=1: must be a number from 0 to below 1."),
    ({"held_out": -0.1}, "held_out=-0.1: must be a number from 0 to below 1."),
    ({"held_out": True}, "held_out=True: must be a number from 0 to below 1."),
    ({"held_out": "some"}, "held_out='some': must be a number from 0 to below 1."),
    ({"shift": "row"}, "shift='row': must be one of 'cell', 'global'."),
    ({"output": "last"}, "output='last': must be one of 'mixture', 'deterministic'."),
    ({"mixture": "best"}, "mixture='best': must be one of 'last_half', 'all', 'lp'."),
    ({"without_weights": None}, "without_weights=None: must be one of 'error', 'resample'."),
    ({"decision": "coin"}, "decision='coin': must be one of"),
    ({"missing": "drop"}, "missing='drop': must be one of 'error', 'group'."),
    ({"awareness": "both"}, "awareness='both': must be one of 'blind', 'aware'."),
    ({"start": "mean"}, "start='mean': must be 'post', 'zero', a FairRule or a fitted OptFairPost."),
    ({"start": 0}, "start=0: must be 'post', 'zero', a FairRule or a fitted OptFairPost."),
    ({"start": OptFairPost()}, "start=OptFairPost(): must be 'post', 'zero', a FairRule or a fitted OptFairPost."),
    ({"criterion": "ppv"}, "criterion='ppv': predictive values divide"),
    ({"tolerance": -0.1}, "tolerance=-0.1: must be a number in [0, 1]."),
    ({"costs": np.ones((2, 2))}, "costs: has shape (2, 2); expected (3, 3)"),
    ({"estimator": 3}, "estimator=3: must be a classifier, not fitted, or a Pipeline that ends in one."),
    ({"estimator": LogisticRegression}, "estimator=<class "),
    ({"reference": "pairwise", "tolerance": {"f": 0.1}}, "tolerance: a tolerance per group needs reference='overall'."),
]


@pytest.mark.parametrize("options, message", BAD, ids=[f"{k}" for k in range(len(BAD))])
def test_bad_arguments(options, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        fit(quick().set_params(**options))
    assert str(caught.value).startswith(message)


def test_bad_people():
    with pytest.raises(ValueError, match=r"^sensitive_features: missing; give the group of every row"):
        quick().fit(X, Y)
    with pytest.raises(ValueError, match=r"^OptFairIn requires y to be passed"):
        quick().fit(X, None, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^y: has one class"):
        quick().fit(X, ["a"] * len(Y), sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"groups among 240 rows; cut a continuous attribute"):
        quick().fit(X, Y, sensitive_features=np.arange(len(Y)))
    with pytest.warns(OptFairWarning, match=r"^sensitive_features: X holds them too, as 'old'"):
        quick(rounds=1).fit(FRAME[["x1", "old"]], Y, sensitive_features=FRAME["old"])


def test_before_fit():
    for ask in ("predict", "predict_proba", "report"):
        with pytest.raises(NotFittedError):
            getattr(quick(), ask)(*([X] if ask != "report" else []))
    for name in ("history_", "multipliers_"):
        with pytest.raises(NotFittedError):
            getattr(quick(), name)
    pytest.importorskip("skops")
    with pytest.raises(NotFittedError):
        quick().save("model.skops")


def test_a_fit_that_fails_leaves_the_earlier_one_whole():
    model = fit(quick())
    before = model.predict_proba(X_NEW)
    text = str(model.report())
    for wrong in ({"y": ["a"] * len(Y)}, {"sensitive_features": None}, {"sample_weight": -np.ones(len(Y))}):
        given = {"y": Y, "sensitive_features": SEX} | wrong
        with pytest.raises(ValueError):
            model.fit(X, **given)
    model.set_params(estimator=Failing(fail_at=3))
    with pytest.raises(ValueError, match="no more"):
        fit(model)
    np.testing.assert_array_equal(model.predict_proba(X_NEW), before)
    assert str(model.report()) == text


class Failing(GaussianNB):
    """Gives up after so many fits."""

    fits = 0

    def __init__(self, fail_at=3):
        super().__init__()
        self.fail_at = fail_at

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        if type(self).fits >= self.fail_at:
            raise ValueError("no more")
        return super().fit(X, y, sample_weight)


# -- files --------------------------------------------------------------------------------------------------
MODELS = {
    "blind": lambda: fit(quick()),
    "aware": lambda: fit(quick(awareness="aware")),
    "deterministic": lambda: fit(quick(output="deterministic")),
    "held out": lambda: fit(quick(held_out=0.3)),
    "trees": lambda: fit(quick(HistGradientBoostingClassifier(max_iter=3))),
    "a pipeline": lambda: fit(quick(make_pipeline(StandardScaler(), LogisticRegression()))),
    "default": lambda: fit(OptFairIn(rounds=2)),
    "intersections": lambda: quick(tolerance=0.2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]]),
    "truth values": lambda: quick().fit(X, Y == "a", sensitive_features=SEX == "m"),
    "distinct rows": lambda: quick().fit(np.sign(X), Y, sensitive_features=SEX),
    "constraint objects": lambda: fit(
        quick(criterion=[Constraint("dp", 0.1), MinimumRate("recall", 0.1)], tolerance=0.01)
    ),
    "a rule to start from": lambda: fit(quick(start="zero", costs=1 - np.eye(3))),
}


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_read_answers_as_what_was_written(kind, tmp_path):
    pytest.importorskip("skops")
    model = MODELS[kind]()
    path = tmp_path / "model.skops"
    model.save(path)
    other = load_model(path)
    asked = {"sensitive_features": SEX_NEW} if kind == "aware" else {}
    new = np.sign(X_NEW) if kind == "distinct rows" else X_NEW
    np.testing.assert_array_equal(other.predict_proba(new, **asked), model.predict_proba(new, **asked))
    np.testing.assert_array_equal(other.predict(new, **asked), model.predict(new, **asked))
    assert other.predict(new, **asked).dtype == model.predict(new, **asked).dtype
    assert other.groups_.equals(model.groups_) and other.groups_.names == model.groups_.names
    pd.testing.assert_frame_equal(other.multipliers_, model.multipliers_)
    pd.testing.assert_frame_equal(other.history_, model.history_)
    assert str(other.report()) == str(model.report())
    assert not hasattr(other, "game_")  # it knows every person's cell
    for copy in (pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(other))):
        np.testing.assert_array_equal(copy.predict(new, **asked), model.predict(new, **asked))
        assert not hasattr(copy, "game_")


def test_nobody_is_in_the_file(tmp_path):
    pytest.importorskip("skops")
    sizes = []
    for n in (300, 3000):
        frame, y = people(n)
        model = quick().fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
        model.save(tmp_path / "model.skops")
        sizes.append((tmp_path / "model.skops").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 1350  # a byte for each of the further people would be more


def test_types_of_ones_own_must_be_named(tmp_path):
    pytest.importorskip("skops")
    Failing.fits = -100
    model = fit(quick(Failing(), decision="argmax"))
    path = tmp_path / "model.skops"
    model.save(path)
    name = f"{__name__}.Failing"
    with pytest.raises(ModelFileError, match=rf"^model\.skops: holds types that are not trusted: {name}\. If you know"):
        load_model(path)
    np.testing.assert_array_equal(load_model(path, trusted=[name]).predict(X_NEW), model.predict(X_NEW))


def test_the_key_is_apart(model, tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    model.save(path)
    key = path.with_name("model.skops.key")
    assert model.training_.key.hex() in key.read_text()
    assert model.training_.key not in path.read_bytes()
    key.unlink()
    locked = load_model(path)
    np.testing.assert_array_equal(locked.predict_proba(X_NEW), model.predict_proba(X_NEW))
    with pytest.raises(ValueError, match="loaded without its key"):
        locked.predict(X_NEW)
    np.testing.assert_array_equal(load_model(path, key=model.training_.key).predict(X_NEW), model.predict(X_NEW))
