"""Test `OptFairInPost`: training stops at a threshold, and the rule on top is fitted on rows it has not seen."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from optfair import MinimumRate, OptFairIn, OptFairInPost, OptFairPost, OptFairWarning, load_model, metrics
from optfair.inputs.splits import held_out_rows
from tests.inprocessing.helpers import CLASSES, FEW_ROUNDS, RecordingTree, draw_rows, quick

pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS)

ROWS, Y = draw_rows(400, shift=1.5)
NEW, Y_NEW = draw_rows(400, seed=1, shift=1.5)
X, SEX = ROWS[["x1", "x2"]], ROWS["sex"]
X_NEW, SEX_NEW = NEW[["x1", "x2"]], NEW["sex"]
CELL = 3 * (SEX == "m").to_numpy() + np.searchsorted(CLASSES, Y)
# With the group as a column of numbers.
FRAME, FRAME_NEW = (x.assign(sex=(sex == "m").astype(float)) for x, sex in ((X, SEX), (X_NEW, SEX_NEW)))


def trainer(estimator=None, **options):
    return quick(estimator, **{"rounds": 30, "step": 0.2, "max_multiplier": 4.0} | options)


def both(in_processing=None, post_processing=None, **options):
    settings = {"threshold": 0.15, "random_state": 0} | options
    return OptFairInPost(trainer() if in_processing is None else in_processing, post_processing, **settings)


def short(*parts, **options):
    """Return one whose training ends after the first round."""
    return both(*parts, **options, threshold=0.9)


def fit(model, **more):
    return model.fit(X, Y, sensitive_features=SEX, **more)


@pytest.fixture(scope="module")
def model():
    """Return a fitted model, only to be read."""
    return fit(both())


def held_out(share=0.3, seed=0):
    """Return a mask of the rows that are held out, by the same split of the cells."""
    return held_out_rows(CELL, share, seed)


# -- training stops ----------------------------------------------------------------------------------------
def test_training_stops_at_the_threshold(model):
    violation = model.in_.history_["violation"].to_numpy()
    assert model.n_rounds_ == len(violation) < 30
    assert violation[-1] < 0.15 and (violation[:-1] >= 0.15).all() and len(violation) > 1
    assert 1 < fit(both(threshold=0.25)).n_rounds_ < model.n_rounds_
    assert fit(short()).n_rounds_ == 1  # the plain model will do


def test_the_training_is_that_of_in_processing_alone(model):
    """The same rounds, as far as they go, on the rows that are not held out."""
    rest = held_out()
    alone = trainer(rounds=model.n_rounds_).fit(X[~rest], Y[~rest], sensitive_features=SEX[~rest])
    np.testing.assert_array_equal(alone.trace_.multipliers, model.in_.trace_.multipliers)


def test_a_threshold_that_is_not_reached_is_a_warning():
    with pytest.warns(OptFairWarning) as caught:
        model = fit(both(trainer(rounds=2), threshold=0.01))
    reached = model.in_.history_["violation"].iloc[-1]
    assert [str(warning.message) for warning in caught] == [
        f"threshold=0.01: training ended at a violation of {reached:.4f} after 2 rounds; post-processing goes on from "
        "there."
    ]
    assert model.n_rounds_ == 2 and model.post_.certificate_.excess == 0


def test_where_no_gap_is_asked_for_the_excess_is_compared_with_the_threshold():
    recall = MinimumRate("recall", 0.3)
    model = fit(short(trainer(criterion=recall)))
    assert model.n_rounds_ == 1 and model.in_.history_["excess"].iloc[-1] < 0.9
    assert model.post_.criterion == recall and model.post_.certificate_.excess == 0


# -- the rule on top ---------------------------------------------------------------------------------------
def test_the_rule_is_that_of_post_processing_on_the_last_model(model):
    """By hand: the softmax of the last round as a fitted model, on the rows held out."""
    rest = held_out()
    last = model.in_.mixture_.members[-1]
    np.testing.assert_array_equal(model.post_.estimator.predict_proba(X_NEW), last.predict_proba(X_NEW))
    by_hand = OptFairPost(last.predict_proba, tolerance=0.05, calibration="posterior", random_state=0)
    by_hand.fit(X[rest], Y[rest], sensitive_features=SEX[rest])
    np.testing.assert_allclose(model.predict_proba(X_NEW), by_hand.predict_proba(X_NEW), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X_NEW), by_hand.predict(X_NEW))
    assert model.score(X_NEW, Y_NEW) == pytest.approx(np.mean(model.predict(X_NEW) == Y_NEW))
    assert model.post_.certificate_.excess == 0
    assert model.classes_.tolist() == ["a", "b", "c"] and model.groups_.tolist() == ["f", "m"]


def test_the_rule_is_fairer_than_the_plain_model(model):
    def violation(h):
        return metrics.violation(Y_NEW, h, sensitive_features=SEX_NEW, criterion="dp", classes=list(CLASSES))

    assert violation(model.predict_proba(X_NEW)) < violation(model.in_.plain_(X_NEW))


def test_post_processing_asks_for_the_same_unless_it_is_given():
    asked = trainer(criterion="eo", tolerance=0.1, decision="argmax", reference="pairwise", outcomes=["a"])
    same = fit(short(asked)).post_
    for name in ("criterion", "tolerance", "decision", "reference", "outcomes"):
        assert getattr(same, name) == getattr(asked, name)
    other = fit(short(None, OptFairPost(criterion="oae", tolerance=0.2, cv=7, decision="argmax"))).post_
    assert (other.criterion, other.tolerance, other.decision) == ("oae", 0.2, "argmax")
    assert other.cv == "prefit" and set(other.multipliers_["criterion"]) == {"oae"}


def test_the_parts_that_were_given_are_left_as_they_were():
    first, second = trainer(stop_below=0.3, output="deterministic", mixture="lp"), OptFairPost(cv=3)
    model = fit(short(first, second))
    assert (first.stop_below, first.output, first.mixture) == (0.3, "deterministic", "lp")
    assert second.cv == 3 and second.estimator is None
    assert not hasattr(first, "mixture_") and not hasattr(second, "rule_")
    assert model.in_.stop_below == 0.9 and model.in_processing is first


# -- which rows each part sees -----------------------------------------------------------------------------
def test_training_does_not_see_the_rows_held_out():
    RecordingTree.fits.clear()
    model = fit(short(trainer(RecordingTree(max_depth=3))))
    seen = {row.tobytes() for rows, _, _ in RecordingTree.fits for row in np.asarray(rows)}
    rest = np.array([row.tobytes() not in seen for row in X.to_numpy()])
    assert rest.sum() == 120  # three in ten
    np.testing.assert_array_equal(rest, held_out())
    assert model.post_._fitted.problem.posterior.n == 120


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_the_same_share_of_every_cell_is_held_out(share):
    rest = held_out(share)
    assert abs(rest.sum() - share * len(Y)) <= 1
    assert (np.abs(np.bincount(CELL[rest], minlength=6) - share * np.bincount(CELL)) <= 1).all()
    assert (held_out(share, seed=1) != rest).any()
    np.testing.assert_array_equal(held_out(share), rest)


@pytest.mark.parametrize("share", [1e-6, 0.995])
def test_too_few_rows_to_hold_some_out(share):
    with pytest.raises(ValueError, match=r"held_out=.*there are too few of them to hold some out"):
        fit(both(held_out=share))


def test_both_parts_are_given_weights_and_no_row_of_weight_zero():
    weight = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    kept = weight > 0
    model = fit(both(), sample_weight=weight)
    alone = both().fit(X[kept], Y[kept], sensitive_features=SEX[kept], sample_weight=weight[kept])
    assert model.in_.trace_.multipliers.any()
    np.testing.assert_array_equal(model.in_.trace_.multipliers, alone.in_.trace_.multipliers)
    np.testing.assert_allclose(model.predict_proba(X_NEW), alone.predict_proba(X_NEW))
    unweighted = short().fit(X[kept], Y[kept], sensitive_features=SEX[kept])
    assert (unweighted.in_.trace_.confusions[0] != model.in_.trace_.confusions[0]).any()


def test_the_split_has_a_seed():
    one, two, other = (fit(short(random_state=seed)) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.predict(X_NEW), two.predict(X_NEW))
    assert (one.in_.trace_.confusions[0] != other.in_.trace_.confusions[0]).any()


# -- groups and containers ---------------------------------------------------------------------------------
def test_groups_named_in_the_constructor(model):
    frame, new = ROWS[["x1", "x2", "sex"]], NEW[["x1", "x2", "sex"]]
    named = both(trainer(sensitive_features="sex")).fit(frame, Y)
    np.testing.assert_allclose(named.predict_proba(X_NEW), model.predict_proba(X_NEW), atol=1e-9)
    np.testing.assert_allclose(named.predict_proba(new), model.predict_proba(X_NEW), atol=1e-9)


def test_a_rule_that_knows_the_group():
    """Training is blind; where the groups are columns of X, its model does not get them from the rule either."""
    post = OptFairPost(awareness="aware", tolerance=0.05, random_state=0)
    given = fit(both(None, post))
    h = given.predict_proba(X_NEW, sensitive_features=SEX_NEW)
    with pytest.raises(ValueError, match="sensitive_features: missing"):
        given.predict(X_NEW)
    accuracy = np.mean(given.predict(X_NEW, sensitive_features=SEX_NEW) == Y_NEW)
    assert given.score(X_NEW, Y_NEW, sensitive_features=SEX_NEW) == pytest.approx(accuracy)
    rates = [h[SEX_NEW.eq(g)].mean(axis=0) for g in "fm"]
    assert np.abs(rates[0] - rates[1]).max() < 0.3
    named = both(trainer(sensitive_features="sex"), post).fit(FRAME, Y)
    assert named.predict(FRAME_NEW).shape == (len(NEW),)
    scores = named.post_.estimator.predict_proba
    np.testing.assert_array_equal(scores(FRAME_NEW), scores(FRAME_NEW.assign(sex=0.0)))
    np.testing.assert_array_equal(named.in_.trace_.multipliers, given.in_.trace_.multipliers)


def test_lists_and_arrays(model):
    lists = both().fit(X.to_numpy().tolist(), Y.tolist(), sensitive_features=SEX.tolist())
    np.testing.assert_allclose(lists.predict_proba(X_NEW.to_numpy()), model.predict_proba(X_NEW), atol=1e-9)


def test_columns_of_text():
    """The model of the groups reads them through the encoder of the trained model."""
    table = X.assign(town=np.where(np.random.default_rng(0).random(len(X)) < 0.5, "east", "west"))
    encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = short(OptFairIn(encoder, rounds=2, start="zero"))
        model.fit(table, Y, sensitive_features=SEX)
    assert model.predict(table).shape == Y.shape


def test_pipelines_and_keys():
    model = fit(short(trainer(make_pipeline(StandardScaler(), LogisticRegression()))))
    ids = np.arange(len(X_NEW))
    np.testing.assert_array_equal(model.predict(X_NEW, keys=ids), model.predict(X_NEW, keys=ids))
    sampled = fit(short(trainer(decision="sampled")))
    np.testing.assert_array_equal(sampled.predict(X_NEW, random_state=3), sampled.predict(X_NEW, random_state=3))


# -- reports and files -------------------------------------------------------------------------------------
def test_the_report_is_about_the_rule(model):
    text = str(model.report())
    assert text.startswith("OptFairPost, dp within 0.05 of everybody, blind: 2 groups, 3 classes; 120 people fitted on")
    report = model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    assert [one.name for one in report.measured] == ["plain model", "recalibrated", "fair rule", "decisions (hashed)"]
    last = model.in_.mixture_.members[-1].predict_proba(X_NEW).argmax(axis=1)
    assert report.measured[0].accuracy == pytest.approx(np.mean(CLASSES[last] == Y_NEW))
    assert str(model.in_.report()).startswith("OptFairIn")


def test_the_file_is_that_of_a_rule(model, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    aware = short(trainer(sensitive_features="sex"), OptFairPost(awareness="aware")).fit(FRAME, Y)
    for saved, new in ((model, X_NEW), (aware, FRAME_NEW)):
        path = tmp_path / "model.skops"
        saved.save(path)
        other = load_model(path)
        assert isinstance(other, OptFairPost)
        np.testing.assert_array_equal(other.predict_proba(new), saved.predict_proba(new))
        np.testing.assert_array_equal(other.predict(new), saved.predict(new))


# -- arguments ---------------------------------------------------------------------------------------------
POSITIVE, SHARE = "must be a positive number.", "must be a number in (0, 1)."
BAD = [
    ({"in_processing": LogisticRegression()}, "in_processing=LogisticRegression(): must be an OptFairIn."),
    ({"in_processing": None}, "in_processing=None: must be an OptFairIn."),
    ({"post_processing": 3}, "post_processing=3: must be an OptFairPost or None."),
    ({"threshold": 0}, f"threshold=0: {POSITIVE}"),
    ({"threshold": "low"}, f"threshold='low': {POSITIVE}"),
    ({"threshold": np.inf}, f"threshold=inf: {POSITIVE}"),
    ({"threshold": True}, f"threshold=True: {POSITIVE}"),
    ({"held_out": 0}, f"held_out=0: {SHARE}"),
    ({"held_out": 1.0}, f"held_out=1.0: {SHARE}"),
    ({"held_out": None}, f"held_out=None: {SHARE}"),
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
    with pytest.raises(ValueError) as error:
        fit(both().set_params(**options))
    assert str(error.value) == message


def test_bad_rows():
    with pytest.raises(ValueError, match=r"^sensitive_features: missing"):
        both().fit(X, Y)
    with pytest.raises(ValueError, match=r"^y: has one class"):
        both().fit(X, ["a"] * len(Y), sensitive_features=SEX)


def test_nothing_can_be_asked_before_fit():
    for ask in ("predict", "predict_proba", "report", "save"):
        with pytest.raises(NotFittedError):
            getattr(both(), ask)(X)
    with pytest.raises(NotFittedError):
        both().score(X, Y)


def test_parameters_and_clone():
    model = both()
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert model.set_params(in_processing__estimator__C=0.1).in_processing.estimator.C == 0.1


def test_one_group_is_warned_about_by_each_of_the_two_parts():
    with pytest.warns(OptFairWarning) as caught:
        short().fit(X, Y, sensitive_features=np.full(len(Y), "f"))
    assert sum("there is one group" in str(warning.message) for warning in caught) == 2
