"""`OptFairIn` with all kinds of learners, and in scikit-learn's hands: its checks, searches and metadata routing."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from optfair import OptFairIn, OptFairPost, OptFairWarning, metrics
from optfair.inprocessing.game import soft_targets
from optfair.inprocessing.learners import make_learner, warn_if_counting
from optfair.metrics import ViolationScorer

# Few rounds, to save time: how close they come is the subject of few tests.
pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside")

FOLDS = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """The models are tiny: threads of BLAS would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.2 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": sex}), np.array(list("abc"))[y]


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"].map({0: "f", 1: "m"})
XA = X.to_numpy()
WEIGHT = np.random.default_rng(1).random(len(Y)) + 0.1


def quick(estimator=None, **options):
    base = LogisticRegression() if estimator is None else estimator
    settings = {"rounds": 3, "random_state": 0, "tolerance": 0.05, "start": "zero", "max_multiplier": 2.0, "step": 0.5}
    return OptFairIn(base, **settings | options)


# -- scikit-learn's own checks ------------------------------------------------------------------------------
def hundredths(X):
    """Two groups by the parity of ⌊100 x⌋ of the first feature, whatever the container: independent of the labels."""
    first = X.tocsc()[:, [0]].toarray().ravel() if sparse.issparse(X) else np.asarray(X).reshape(len(X), -1)[:, 0]
    return np.floor(100 * np.nan_to_num(first.astype(float), posinf=0, neginf=0)).astype(int) % 2


@pytest.mark.filterwarnings("ignore::optfair.OptFairWarning")  # their data are tiny
@pytest.mark.parametrize("decision", ["argmax", "hashed"])
def test_scikit_learns_checks(decision):
    """All of them, from start="zero". "post" fails two: copies of a row are dealt to different halves of the people, so
    that weights and copies start elsewhere; see test_weights_are_copies_from_the_same_start."""
    model = OptFairIn(sensitive_features=hundredths, decision=decision, rounds=2, start="zero", max_multiplier=1.0)
    results = check_estimator(model, on_fail=None, on_skip=None)
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], set()).add(result["check_name"])
    failures = [(r["check_name"], str(r["exception"])[:300]) for r in results if r["status"] == "failed"]
    assert failures == []
    assert by_status.get("skipped", set()) <= {"check_array_api_input"}
    assert len(by_status["passed"]) > 40


# -- learners -----------------------------------------------------------------------------------------------
LEARNERS = {
    "logistic": LogisticRegression(),
    "hinge": SGDClassifier(),
    "log loss": SGDClassifier(loss="log_loss"),
    "svm": LinearSVC(),
    "kernel": SVC(),
    "ridge": RidgeClassifier(),
    "perceptron": Perceptron(),
    "naive Bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(max_depth=3),
    "forest": RandomForestClassifier(5, max_depth=3),
    "extra trees": ExtraTreesClassifier(5, max_depth=3),
    "boosting": GradientBoostingClassifier(n_estimators=4),
    "histograms": HistGradientBoostingClassifier(max_iter=4),
    "AdaBoost": AdaBoostClassifier(n_estimators=3),
    "network": MLPClassifier((4,), max_iter=30, warm_start=True),
    "pipeline": make_pipeline(StandardScaler(), LinearSVC()),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")  # a network that is never done
@pytest.mark.filterwarnings("ignore:estimator. remembers")
@pytest.mark.parametrize("kind", LEARNERS)
def test_any_learner_will_do(kind):
    """For two classes and for three; "post" also where nothing but predict is there to be asked."""
    for labels, start in ((Y == "a", "zero"), (Y, "post")):
        model = quick(LEARNERS[kind], start=start, max_multiplier=2.0, mixture="all")
        model.fit(X, labels, sensitive_features=SEX)
        front, members = model.mixture_.front, model.mixture_.members
        rows = X if front is None else front.transform(X)
        votes = np.array([member.predict(rows) for member in members])
        shares = [(votes == j).mean(axis=0) for j in range(len(model.classes_))]
        np.testing.assert_allclose(model.predict_proba(X), np.transpose(shares), atol=1e-9)
        np.testing.assert_allclose(model.history_["accuracy"], [(model.classes_[v] == labels).mean() for v in votes])
    again = clone(model).fit(X, labels, sensitive_features=SEX)
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1, n_jobs=1)
    model = quick(booster, mixture="all", start="post").fit(X, Y, sensitive_features=SEX)
    assert all(member.n_estimators_ == 5 and member.random_state == 0 for member in model.mixture_.members)
    again = clone(model).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_array_equal(again.trace_.multipliers, model.trace_.multipliers)


def test_fairness_is_learned_by_all_of_them():
    """Strict tolerance, enough rounds: the violation of the mixture is far below that of plain training."""
    for kind in ("logistic", "tree", "histograms"):
        model = quick(LEARNERS[kind], rounds=25, step=0.3, tolerance=0.02, max_multiplier=3.0)
        model.fit(X, Y, sensitive_features=SEX)
        plain = metrics.violation(Y, model.plain_(X), sensitive_features=SEX, criterion="dp", classes=list("abc"))
        assert model.training_.violation < 0.5 * plain


# -- warm starts --------------------------------------------------------------------------------------------
def answers(learner, game, multipliers):
    return [
        learner.respond(soft_targets(game.weights(lam), game.share, "cell"), t) for t, lam in enumerate(multipliers)
    ]


def test_linear_learners_go_on_from_the_round_before():
    model = quick(LogisticRegression(tol=1e-6), rounds=12, step=0.02, mixture="all").fit(X, Y, sensitive_features=SEX)
    there = OptFairIn()._people(X, Y, SEX, None)
    cold = [
        answers(make_learner(LogisticRegression(tol=1e-6), there, None, 0, 1, "error"), model.game_, [lam])[0]
        for lam in model.trace_.multipliers[1:]
    ]
    warm = model.mixture_.members[1:]
    assert sum(m.n_iter_.max() for m in warm) < 0.8 * sum(m.n_iter_.max() for m in cold)
    for one, other in zip(warm, cold, strict=True):  # to the same end
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-2)
    assert not model.estimator.warm_start


def test_trees_are_grown_anew_in_every_round():
    for forest in (
        RandomForestClassifier(4, warm_start=True),
        GradientBoostingClassifier(n_estimators=4, warm_start=True),
    ):
        model = quick(forest, rounds=4, mixture="all").fit(X, Y, sensitive_features=SEX)
        members = model.mixture_.members
        assert [len(member.estimators_) for member in members] == [4] * 4
        assert len({id(member) for member in members}) > 1
        cold = clone(model).set_params(estimator__warm_start=False).fit(X, Y, sensitive_features=SEX)
        np.testing.assert_array_equal(model.trace_.multipliers, cold.trace_.multipliers)


def test_members_are_copies():
    """What goes on from a round leaves the round itself as it was."""
    model = quick(rounds=5, step=1.0, mixture="all").fit(X, Y, sensitive_features=SEX)
    coefficients = [member.coef_ for member in model.mixture_.members]
    assert len({c.tobytes() for c in coefficients}) > 1
    assert not any(np.shares_memory(a, b) for i, a in enumerate(coefficients) for b in coefficients[:i])


def test_a_class_that_is_worth_nothing_anywhere():
    """λ so large that one class has no copies: the learner knows fewer classes for a while."""
    there = OptFairIn()._people(X, Y, SEX, None)
    learner = make_learner(LogisticRegression(), there, None, 0, 1, "error")
    plain = np.tile(np.eye(3), (2, 1))
    two = np.tile([[0.5, 0.0, 0.0], [0.2, 0.3, 0.0], [0.0, 0.4, 0.0]], (2, 1))
    one = np.tile([[0.5, 0.0, 0.0]], (6, 1))
    for targets, classes in ((plain, 3), (two, 2), (one, 1), (plain * 0.5, 3)):
        votes = learner.votes(learner.respond(targets, 0))
        assert set(votes) <= set(range(classes)) and len(votes) == len(Y)


# -- copies -------------------------------------------------------------------------------------------------
COUNTING = [
    (HistGradientBoostingClassifier(max_iter=2, early_stopping=True), "early_stopping=True"),
    (DecisionTreeClassifier(min_samples_leaf=5), "min_samples_leaf=5"),
    (RandomForestClassifier(2, min_samples_split=7, min_samples_leaf=3), "min_samples_leaf=3, min_samples_split=7"),
    (make_pipeline(StandardScaler(), DecisionTreeClassifier(min_samples_leaf=5)), "min_samples_leaf=5"),
]


@pytest.mark.parametrize("estimator, words", COUNTING, ids=range(len(COUNTING)))
def test_copies_count_as_rows(estimator, words):
    final = estimator[-1] if hasattr(estimator, "steps") else estimator
    with pytest.warns(OptFairWarning) as caught:
        quick(estimator).fit(X, Y, sensitive_features=SEX)
    said = [str(w.message) for w in caught if "training ended outside" not in str(w.message)]
    assert said == [
        f"estimator: {type(final).__name__} is fitted to up to 3 weighted copies of each row, which count as rows "
        f"in {words}."
    ]
    quick(estimator).fit(X, Y == "a", sensitive_features=SEX)  # two classes: one copy of each row
    with pytest.warns(OptFairWarning, match="up to 2 weighted copies"):
        quick(estimator, shift="global").fit(X, Y == "a", sensitive_features=SEX)


def test_inner_cross_validation_counts_copies_too():
    with pytest.warns(OptFairWarning, match=r"which count as rows in cv=3\.$"):
        warn_if_counting(LogisticRegressionCV(cv=3), 3, "cell")
    for silent in (
        LogisticRegression(),
        RandomForestClassifier(),
        HistGradientBoostingClassifier(early_stopping=False),
    ):
        warn_if_counting(silent, 3, "cell")


def test_copies_carry_the_weight_of_the_people():
    """What the learner sees: one copy per class with a positive target, and the total weight of the people."""
    seen = []

    class Watching(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            seen.append((X, y, sample_weight))
            return super().fit(X, y, sample_weight)

    for weight in (None, np.ceil(3 * WEIGHT)):
        seen.clear()
        model = quick(Watching(), rounds=3).fit(XA, Y, sensitive_features=SEX, sample_weight=weight)
        total = len(Y) if weight is None else weight.sum()
        plain, *rounds = seen
        np.testing.assert_array_equal(plain[0], XA)
        np.testing.assert_array_equal(plain[1], np.searchsorted(["a", "b", "c"], Y))
        assert (plain[2] is None) if weight is None else np.array_equal(plain[2], weight)
        assert rounds and len(rounds) == model.n_fits_ - 1
        for rows, labels, w in rounds:
            assert (w > 0).all() and w.sum() == pytest.approx(total)
            assert len(rows) == len(labels) == len(w) and len(Y) <= len(w) <= 2 * len(Y)  # the worst class has none
    seen.clear()
    quick(Watching(), rounds=3, held_out=0.3).fit(XA, Y, sensitive_features=SEX)  # its cells are not quite those of D
    assert len(seen) > 1 and all(w.sum() == pytest.approx(len(seen[0][1])) for _, _, w in seen[1:])
    seen.clear()
    quick(Watching(), rounds=3).fit(XA, Y == "a", sensitive_features=SEX)
    assert all(rows is seen[0][0] for rows, _, _ in seen)  # two classes: in place, nothing is copied


# -- learners without weights -------------------------------------------------------------------------------
def test_learners_without_weights():
    with pytest.raises(ValueError) as caught:
        quick(KNeighborsClassifier()).fit(X, Y, sensitive_features=SEX)
    assert str(caught.value) == (
        "estimator: KNeighborsClassifier takes no sample_weight, which carries the costs of mistakes; use one that "
        "does, or without_weights='resample' (rows are then drawn in proportion to their weights)."
    )
    with pytest.raises(ValueError, match=r"^estimator: KNeighborsClassifier takes no sample_weight"):
        quick(make_pipeline(StandardScaler(), KNeighborsClassifier())).fit(X, Y, sensitive_features=SEX)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_drawing_rows_instead(weight):
    given = {"sensitive_features": SEX, "sample_weight": weight}
    one, two = (quick(KNeighborsClassifier(9), without_weights="resample").fit(X, Y, **given) for _ in range(2))
    np.testing.assert_array_equal(one.trace_.multipliers, two.trace_.multipliers)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    other = quick(KNeighborsClassifier(9), without_weights="resample", random_state=1).fit(X, Y, **given)
    assert (other.trace_.confusions[1:] != one.trace_.confusions[1:]).any()
    weighted = quick(without_weights="resample").fit(X, Y, **given)  # takes weights: nothing is drawn
    np.testing.assert_array_equal(weighted.trace_.multipliers, quick().fit(X, Y, **given).trace_.multipliers)


def test_rows_are_drawn_in_proportion_to_their_weights():
    """Of many people alike, the share of those drawn is the share of the weight."""
    n = 20_000
    x, y, a = np.zeros((n, 1)), np.arange(n) % 2, np.repeat([0, 1], n // 2)
    seen = []

    class Watching(KNeighborsClassifier):
        def fit(self, X, y):
            seen.append(y)
            return super().fit(X[:50], y[:50])

    there = OptFairIn()._people(x, y, a, None)
    learner = make_learner(Watching(), there, None, 0, 1, "resample")
    targets = np.array([[0.9, 0.0], [0.0, 0.1], [0.3, 0.0], [0.5, 0.2]])
    learner.respond(targets, 0)
    total = targets.sum()  # four cells of the same size
    assert len(seen[0]) == n
    assert np.mean(seen[0] == 1) == pytest.approx((0.1 + 0.2) / total, abs=0.02)


def test_weights_are_copies_from_the_same_start():
    weight = np.random.default_rng(3).integers(1, 4, len(Y))
    row = np.repeat(np.arange(len(Y)), weight)
    begin = OptFairPost(LogisticRegression(), cv=2, random_state=0).fit(X, Y, sensitive_features=SEX).rule_
    one = quick(start=begin).fit(X, Y, sensitive_features=SEX, sample_weight=weight)
    two = quick(start=begin).fit(X.iloc[row], Y[row], sensitive_features=SEX.iloc[row])
    assert one.trace_.multipliers[0].any()
    np.testing.assert_allclose(one.trace_.multipliers, two.trace_.multipliers, atol=1e-9)


# -- pipelines and searches ---------------------------------------------------------------------------------
def test_parameters_and_clone():
    model = quick(criterion="eo", sensitive_features="sex")
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(estimator__C=0.1).estimator.C == 0.1
    assert repr(OptFairIn()) == "OptFairIn()"


def test_pickles_answer_the_same():
    model = quick().fit(X, Y, sensitive_features=SEX)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    pd.testing.assert_frame_equal(other.history_, model.history_)
    pickle.loads(pickle.dumps(OptFairIn()))


def test_without_routing_the_constructor_knows_where_the_groups_are():
    model = quick(sensitive_features="sex")
    by_hand = []
    for train, test in FOLDS.split(FRAME):
        fitted = clone(model).fit(FRAME.iloc[train], Y[train])
        by_hand.append(np.mean(fitted.predict(FRAME.iloc[test]) == Y[test]))
    np.testing.assert_allclose(cross_val_score(model, FRAME, Y, cv=FOLDS), by_hand)
    search = GridSearchCV(model, {"tolerance": [0.05, 1.0], "estimator__C": [1.0]}, cv=FOLDS, error_score="raise")
    search.fit(FRAME, Y)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    assert search.predict(FRAME[["x1", "x2"]]).shape == (len(Y),)


def test_a_pipeline_around_it():
    scale = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scale, quick(sensitive_features="sex")).fit(FRAME, Y)
    alone = quick(sensitive_features="sex").fit(scale.transform(FRAME), Y)
    np.testing.assert_array_equal(pipeline.predict(FRAME), alone.predict(scale.transform(FRAME)))
    np.testing.assert_array_equal(pipeline[-1].classes_, pipeline.classes_)


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_the_violation_scorer_reads_the_groups_from_the_model(method):
    scorer = ViolationScorer(method=method)
    found = cross_val_score(quick(sensitive_features="sex"), FRAME, Y, scoring=scorer, cv=FOLDS, error_score="raise")
    by_hand = []
    for train, test in FOLDS.split(FRAME):
        fitted = quick(sensitive_features="sex").fit(FRAME.iloc[train], Y[train])
        given = getattr(fitted, method)(FRAME.iloc[test])
        groups = FRAME["sex"].iloc[test]
        by_hand.append(-metrics.violation(Y[test], given, sensitive_features=groups, classes=fitted.classes_))
    np.testing.assert_allclose(found, by_hand)


# -- metadata routing ---------------------------------------------------------------------------------------
def asking():
    return quick().set_fit_request(sensitive_features=True, sample_weight=True).set_score_request(sample_weight=False)


def test_a_pipeline_hands_groups_and_weights_on(routing):
    scale = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scale, asking()).fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    scaled = StandardScaler().fit_transform(X)
    alone = quick().fit(scaled, Y, sensitive_features=SEX, sample_weight=WEIGHT)
    np.testing.assert_allclose(pipeline.predict_proba(X), alone.predict_proba(scaled))
    inner = quick(make_pipeline(StandardScaler(), LogisticRegression()))  # needs no requests of its parts
    inner.fit(X, Y, sensitive_features=SEX, sample_weight=WEIGHT)


def test_a_search_hands_groups_and_weights_on(routing):
    scorer = ViolationScorer("dp").set_score_request(sensitive_features=True, sample_weight=True)
    given = {"sensitive_features": SEX, "sample_weight": WEIGHT}
    search = GridSearchCV(asking(), {"tolerance": [0.05, 0.5]}, scoring=scorer, cv=FOLDS, error_score="raise")
    search.fit(X, Y, **given)
    found = cross_validate(asking(), X, Y, cv=FOLDS, scoring=scorer, params=given, error_score="raise")
    by_hand = []
    for train, test in FOLDS.split(X):
        fitted = quick().fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train], sample_weight=WEIGHT[train])
        by_hand.append(
            -metrics.violation(
                Y[test],
                fitted.predict(X.iloc[test]),
                sensitive_features=SEX.iloc[test],
                sample_weight=WEIGHT[test],
                classes=fitted.classes_,
            )
        )
    np.testing.assert_allclose(found["test_score"], by_hand)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))


def test_an_aware_model_is_given_the_groups_at_scoring_too(routing):
    model = quick(awareness="aware").set_fit_request(sensitive_features=True)
    model.set_score_request(sensitive_features=True, sample_weight=False)
    found = cross_validate(model, X, Y, cv=FOLDS, params={"sensitive_features": SEX}, error_score="raise")
    by_hand = []
    for train, test in FOLDS.split(X):
        fitted = quick(awareness="aware").fit(X.iloc[train], Y[train], sensitive_features=SEX.iloc[train])
        by_hand.append(np.mean(fitted.predict(X.iloc[test], sensitive_features=SEX.iloc[test]) == Y[test]))
    np.testing.assert_allclose(found["test_score"], by_hand)


def test_groups_nobody_asked_for_are_scikit_learns_error(routing):
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        cross_val_score(quick(), X, Y, cv=FOLDS, params={"sensitive_features": SEX})


# -- containers ---------------------------------------------------------------------------------------------
def test_containers_do_not_matter():
    frame = quick().fit(X, Y, sensitive_features=SEX)
    rows = {"array": XA, "lists": XA.tolist(), "sparse": sparse.csr_array(XA), "matrix": sparse.csc_matrix(XA)}
    for kind, given in rows.items():
        model = quick().fit(given, Y, sensitive_features=SEX.tolist())
        np.testing.assert_allclose(model.trace_.multipliers, frame.trace_.multipliers, atol=1e-9, err_msg=kind)
        np.testing.assert_allclose(model.predict_proba(given), frame.predict_proba(X), atol=1e-9)


def test_polars():
    pl = pytest.importorskip("polars")
    frame, whole = quick().fit(X, Y, sensitive_features=SEX), pl.DataFrame(FRAME.to_dict("list"))
    model = quick().fit(whole.select("x1", "x2"), pl.Series(Y.tolist()), sensitive_features=pl.Series(SEX.tolist()))
    np.testing.assert_allclose(model.trace_.multipliers, frame.trace_.multipliers, atol=1e-9)
    np.testing.assert_array_equal(model.predict_proba(whole.select("x1", "x2")), frame.predict_proba(X))
    named = quick(sensitive_features="sex").fit(whole, Y)
    np.testing.assert_array_equal(named.predict_proba(whole), frame.predict_proba(X))


def test_models_fitted_side_by_side_are_the_same_models():
    with joblib.parallel_config(backend="threading"):
        jobs = (joblib.delayed(quick().fit)(X, Y, sensitive_features=SEX) for _ in range(2))
        one, two = joblib.Parallel(n_jobs=2)(jobs)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
