"""`OptFairInPost`: training that stops when the worst is gone, and a rule on top, fitted on people it has not seen."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from optfair import OptFairIn, OptFairInPost, OptFairPost, OptFairWarning, load_model, metrics
from optfair.inprocessing.mixture import Scores
from optfair.people import held_out_rows

# Few rounds, to save time: how close they come is the subject of few tests.
pytestmark = pytest.mark.filterwarnings("ignore:tolerance. training ended outside")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    with threadpool_limits(1):
        yield


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[1.5 * sex, np.zeros(n)]
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), [0, 1.2])
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": np.array(["f", "m"])[sex]}), np.array(list("abc"))[y]


FRAME, Y = people()
X, SEX = FRAME[["x1", "x2"]], FRAME["sex"]
NEW, Y_NEW = people(seed=1)
X_NEW, SEX_NEW = NEW[["x1", "x2"]], NEW["sex"]


class Seen(LogisticRegression):
    """Notes the rows it was fitted to."""

    rows: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None):
        Seen.rows.append(np.asarray(X))
        return super().fit(X, y, sample_weight=sample_weight)


def trainer(estimator=None, **options):
    base = LogisticRegression() if estimator is None else estimator
    settings = {"rounds": 30, "random_state": 0, "tolerance": 0.05, "start": "zero", "step": 0.2, "max_multiplier": 4.0}
    return OptFairIn(base, **settings | options)


def both(in_processing=None, post_processing=None, **options):
    settings = {"threshold": 0.15, "random_state": 0} | options
    return OptFairInPost(trainer() if in_processing is None else in_processing, post_processing, **settings)


def fit(model, **more):
    return model.fit(X, Y, sensitive_features=SEX, **more)


@pytest.fixture(scope="module")
def model():
    return fit(both())


def in_numbers(frame):
    return frame.assign(sex=(frame["sex"] == "m").astype(float))


def rest_of(share=0.3, seed=0):
    """Who is held out, by the same split of the cells."""
    cell = 3 * (SEX == "m").to_numpy() + np.searchsorted(list("abc"), Y)
    return held_out_rows(cell, share, seed)


# -- training stops -----------------------------------------------------------------------------------------
def test_training_stops_at_the_threshold(model):
    found = model.in_.history_["violation"].to_numpy()
    assert model.n_rounds_ == len(found) < 30
    assert found[-1] < 0.15 and (found[:-1] >= 0.15).all() and len(found) > 1
    sooner = fit(both(threshold=0.25))
    assert 1 < sooner.n_rounds_ < model.n_rounds_
    easy = fit(both(threshold=0.9))
    assert easy.n_rounds_ == 1  # the plain model will do


def test_the_training_is_that_of_in_processing_alone(model):
    """The same rounds, as far as they go, on the people that are not held out."""
    rest = rest_of()
    alone = trainer().fit(X[~rest], Y[~rest], sensitive_features=SEX[~rest])
    np.testing.assert_array_equal(alone.trace_.multipliers[: model.n_rounds_], model.in_.trace_.multipliers)


def test_a_threshold_that_is_not_reached_is_said():
    with pytest.warns(OptFairWarning) as caught:
        model = fit(both(trainer(rounds=2), threshold=0.01))
    reached = model.in_.history_["violation"].iloc[-1]
    assert [str(w.message) for w in caught] == [
        f"threshold=0.01: training ended at a violation of {reached:.4f} after 2 rounds; post-processing goes on from "
        "there."
    ]
    assert model.n_rounds_ == 2 and model.post_.certificate_.excess == 0


# -- the rule on top ----------------------------------------------------------------------------------------
def test_the_rule_is_that_of_post_processing_on_the_last_model(model):
    """By hand: the last round's softmax as a fitted model, on those held out."""
    rest = rest_of()
    last = model.in_.mixture_.members[-1]
    np.testing.assert_array_equal(model.post_.estimator.predict_proba(X_NEW), last.predict_proba(X_NEW))
    by_hand = OptFairPost(last.predict_proba, tolerance=0.05, random_state=0)
    by_hand.fit(X[rest], Y[rest], sensitive_features=SEX[rest])
    np.testing.assert_allclose(model.predict_proba(X_NEW), by_hand.predict_proba(X_NEW), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X_NEW), by_hand.predict(X_NEW))
    assert model.score(X_NEW, Y_NEW) == pytest.approx(np.mean(model.predict(X_NEW) == Y_NEW))
    assert model.post_.certificate_.excess == 0
    assert model.classes_.tolist() == ["a", "b", "c"] and model.groups_.tolist() == ["f", "m"]


def test_fairer_than_training_stopped_at(model):
    def violation(h):
        return metrics.violation(Y_NEW, h, sensitive_features=SEX_NEW, criterion="dp", classes=list("abc"))

    assert violation(model.predict_proba(X_NEW)) < violation(model.in_.plain_(X_NEW))


def test_it_asks_for_the_same_unless_told_otherwise(model):
    asked = trainer(criterion="eo", tolerance=0.1, decision="argmax", reference="pairwise", outcomes=["a"])
    found = fit(both(asked, threshold=0.9)).post_
    for name in ("criterion", "tolerance", "decision", "reference", "outcomes"):
        assert getattr(found, name) == getattr(asked, name)
    other = fit(both(post_processing=OptFairPost(criterion="oae", tolerance=0.2, cv=7, decision="argmax")))
    assert (other.post_.criterion, other.post_.tolerance, other.post_.decision) == ("oae", 0.2, "argmax")
    assert other.post_.cv == "prefit" and set(other.post_.multipliers_["criterion"]) == {"oae"}


def test_what_was_given_is_left_as_it_was():
    first, second = trainer(stop_below=0.3, output="deterministic", mixture="lp"), OptFairPost(cv=3)
    model = fit(both(first, second))
    assert (first.stop_below, first.output, first.mixture) == (0.3, "deterministic", "lp")
    assert second.cv == 3 and second.estimator is None
    assert not hasattr(first, "mixture_") and not hasattr(second, "rule_")
    assert model.in_.stop_below == 0.15 and model.in_processing is first


# -- who sees whom ------------------------------------------------------------------------------------------
def test_training_does_not_see_those_held_out():
    Seen.rows = []
    model = fit(both(trainer(Seen())))
    seen = {row.tobytes() for rows in Seen.rows for row in rows}
    rest = np.array([row.tobytes() not in seen for row in X.to_numpy()])
    assert rest.sum() == 120  # three in ten
    np.testing.assert_array_equal(rest, rest_of())
    assert model.post_._kept.task.posterior.n == 120


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_every_cell_gives_its_share(share):
    cell = 3 * (SEX == "m").to_numpy() + np.searchsorted(list("abc"), Y)
    rest = rest_of(share)
    assert abs(rest.sum() - share * len(Y)) <= 1
    counts, kept = np.bincount(cell), np.bincount(cell[rest], minlength=6)
    assert (np.abs(kept - share * counts) <= 1).all()
    assert (rest_of(share, seed=1) != rest).any()
    np.testing.assert_array_equal(rest_of(share), rest)


def test_weights_go_both_ways_and_nobody_without_is_anywhere():
    weight = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    model = fit(both(), sample_weight=weight)
    there = weight > 0
    alone = both().fit(X[there], Y[there], sensitive_features=SEX[there], sample_weight=weight[there])
    np.testing.assert_array_equal(model.in_.trace_.multipliers, alone.in_.trace_.multipliers)
    np.testing.assert_allclose(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))
    unweighted = both().fit(X[there], Y[there], sensitive_features=SEX[there])
    assert (unweighted.in_.trace_.confusions[0] != model.in_.trace_.confusions[0]).any()


def test_the_split_has_a_seed():
    one, two, other = (fit(both(random_state=seed)) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.predict(X_NEW), two.predict(X_NEW))
    assert (one.in_.trace_.confusions[0] != other.in_.trace_.confusions[0]).any()


# -- groups -------------------------------------------------------------------------------------------------
def test_groups_named_in_the_constructor(model):
    named = both(trainer(sensitive_features="sex")).fit(FRAME, Y)
    np.testing.assert_allclose(named.predict_proba(X_NEW), model.predict_proba(X_NEW), atol=1e-9)
    np.testing.assert_allclose(named.predict_proba(NEW), model.predict_proba(X_NEW), atol=1e-9)


def test_a_rule_that_knows_the_group():
    """Training is blind; where the groups are columns of X, its model does not get them from the rule either."""
    given = fit(both(post_processing=OptFairPost(awareness="aware", tolerance=0.05, random_state=0)))
    h = given.predict_proba(X_NEW, sensitive_features=SEX_NEW)
    with pytest.raises(ValueError, match="sensitive_features: missing"):
        given.predict(X_NEW)
    assert given.score(X_NEW, Y_NEW, sensitive_features=SEX_NEW) == pytest.approx(
        np.mean(given.predict(X_NEW, sensitive_features=SEX_NEW) == Y_NEW)
    )
    rates = [h[SEX_NEW.eq(g)].mean(axis=0) for g in "fm"]
    assert np.abs(rates[0] - rates[1]).max() < 0.3
    named = both(trainer(sensitive_features="sex"), OptFairPost(awareness="aware", tolerance=0.05, random_state=0))
    named.fit(in_numbers(FRAME), Y)
    assert named.predict(in_numbers(NEW)).shape == (len(NEW),)
    asked = named.post_.estimator.predict_proba
    np.testing.assert_array_equal(asked(in_numbers(NEW)), asked(in_numbers(NEW).assign(sex=0.0)))
    np.testing.assert_array_equal(named.in_.trace_.multipliers, given.in_.trace_.multipliers)


def test_lists_and_arrays(model):
    lists = both().fit(X.to_numpy().tolist(), Y.tolist(), sensitive_features=SEX.tolist())
    np.testing.assert_allclose(lists.predict_proba(X_NEW.to_numpy()), model.predict_proba(X_NEW), atol=1e-9)


def test_pipelines_and_keys():
    model = fit(both(trainer(make_pipeline(StandardScaler(), LogisticRegression()))))
    ids = np.arange(len(X_NEW))
    np.testing.assert_array_equal(model.predict(X_NEW, keys=ids), model.predict(X_NEW, keys=ids))
    sampled = fit(both(trainer(decision="sampled")))
    np.testing.assert_array_equal(sampled.predict(X_NEW, random_state=3), sampled.predict(X_NEW, random_state=3))


def test_a_last_round_that_knows_fewer_classes():
    """Scores for classes it has never seen are zero."""
    two = LogisticRegression().fit(X.to_numpy(), np.where(Y == "b", 1, 2))
    P = Scores(None, two, np.array(list("abc"))).predict_proba(X_NEW.to_numpy())
    assert P.shape == (len(X_NEW), 3) and (P[:, 0] == 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(P[:, 1:], two.predict_proba(X_NEW.to_numpy()))


# -- what it tells ------------------------------------------------------------------------------------------
def test_the_report_is_about_the_rule(model):
    text = str(model.report())
    assert text.startswith("OptFairPost, dp within 0.05 of overall, blind: 2 groups, 3 classes; 120 people fitted on")
    report = model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    names = [one.name for one in report.measured]
    assert names == ["plain model", "decisions (hashed)", "fair rule"]
    last = model.in_.mixture_.members[-1].predict_proba(X_NEW).argmax(axis=1)
    assert report.measured[0].accuracy == pytest.approx(np.mean(np.array(list("abc"))[last] == Y_NEW))
    assert str(model.in_.report()).startswith("OptFairIn")


def test_the_file_is_that_of_a_rule(model, tmp_path):
    pytest.importorskip("skops")
    aware = both(trainer(sensitive_features="sex"), OptFairPost(awareness="aware")).fit(in_numbers(FRAME), Y)
    for kind, new in ((model, X_NEW), (aware, in_numbers(NEW))):
        path = tmp_path / "model.skops"
        kind.save(path)
        other = load_model(path)
        assert isinstance(other, OptFairPost)
        np.testing.assert_array_equal(other.predict_proba(new), kind.predict_proba(new))
        np.testing.assert_array_equal(other.predict(new), kind.predict(new))


# -- what is refused ----------------------------------------------------------------------------------------
BAD = [
    ({"in_processing": LogisticRegression()}, "in_processing=LogisticRegression(): must be an OptFairIn."),
    ({"in_processing": None}, "in_processing=None: must be an OptFairIn."),
    ({"post_processing": 3}, "post_processing=3: must be an OptFairPost or None."),
    ({"threshold": 0}, "threshold=0: must be a number above 0."),
    ({"threshold": "low"}, "threshold='low': must be a number above 0."),
    ({"threshold": np.inf}, "threshold=inf: must be a number above 0."),
    ({"threshold": True}, "threshold=True: must be a number above 0."),
    ({"held_out": 0}, "held_out=0: must be a number above 0 and below 1."),
    ({"held_out": 1.0}, "held_out=1.0: must be a number above 0 and below 1."),
    ({"held_out": None}, "held_out=None: must be a number above 0 and below 1."),
    (
        {"in_processing": OptFairIn(awareness="aware")},
        "in_processing: must have awareness='blind'; let post_processing use the group.",
    ),
    (
        {"in_processing": OptFairIn(make_pipeline(StandardScaler(), LinearSVC()))},
        "in_processing: LinearSVC has no predict_proba, which post-processing needs.",
    ),
]


@pytest.mark.parametrize("options, message", BAD, ids=range(len(BAD)))
def test_bad_arguments(options, message):
    with pytest.raises(ValueError) as caught:
        fit(both().set_params(**options))
    assert str(caught.value) == message


def test_bad_people():
    with pytest.raises(ValueError, match=r"^sensitive_features: missing"):
        both().fit(X, Y)
    with pytest.raises(ValueError, match=r"^y: has one class"):
        both().fit(X, ["a"] * len(Y), sensitive_features=SEX)


def test_before_fit():
    for ask in ("predict", "predict_proba", "report", "save"):
        with pytest.raises(NotFittedError):
            getattr(both(), ask)(X)
    with pytest.raises(NotFittedError):
        both().score(X, Y)


def test_parameters_and_clone():
    model = both()
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(in_processing__estimator__C=0.1).in_processing.estimator.C == 0.1
