"""Fit where some groups are unknown: who each model learns from, who is counted, and what comes after fit."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold

from optfair import OptFairInPost, OptFairPost, OptFairWarning, load_model
from optfair.estimators.in_then_post import OptFairIn
from optfair.inputs.labels import EVERYBODY
from optfair.metrics import ViolationScorer, group_confusion, unknown_group_bounds
from optfair.posteriors.models import FactoredModel, JointModel
from tests.estimators.helpers import (
    FRAME,
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    Recorder,
    X,
    Y,
    assert_error,
    assert_same_predictions,
    make_people,
    make_post,
    out_of_fold_z,
)

IS_KNOWN = np.random.default_rng(0).random(N) < 0.6
KNOWN = np.flatnonzero(IS_KNOWN)
PARTIAL = SEX.where(IS_KNOWN)
IS_KNOWN_NEW = np.arange(N) % 4 > 0
PARTIAL_NEW = SEX_NEW.where(IS_KNOWN_NEW)
LEFT_OUT = r"^sensitive_features: 60 of 240 rows have a missing value and are left out of what is measured; optfair.m"


def infer(estimator=None, **options):
    return make_post(estimator, missing="infer", **options)


@pytest.fixture(scope="module")
def model():
    return infer().fit(X, Y, sensitive_features=PARTIAL)


# -- who learns from whom ------------------------------------------------------------------------------------
def test_classes_are_learned_from_everybody_and_groups_from_those_known():
    model = infer(Recorder(), calibration="none").fit(X, Y, sensitive_features=PARTIAL).posterior_model_
    assert isinstance(model, FactoredModel)
    assert model.classes.model.fitted_on_.equals(X)
    for label, groups in zip("abc", model.groups.models, strict=True):
        assert groups.fitted_on_.index.tolist() == np.flatnonzero((label == Y) & IS_KNOWN).tolist()


def test_posteriors_out_of_fold_are_those_of_models_fitted_by_hand():
    folds = list(KFold(3).split(X))
    model = infer(cv=KFold(3), calibration="none").fit(X, Y, sensitive_features=PARTIAL)
    Z = np.empty((N, 2, 3))
    for train, test in folds:
        P = LogisticRegression().fit(X.iloc[train], Y[train]).predict_proba(X.iloc[test])
        for i, label in enumerate("abc"):
            rows = train[(Y[train] == label) & IS_KNOWN[train]]
            Q = LogisticRegression().fit(X.iloc[rows], SEX.iloc[rows]).predict_proba(X.iloc[test])
            Z[test, :, i] = P[:, [i]] * Q
    np.testing.assert_allclose(out_of_fold_z(model), Z, atol=1e-6)


def test_the_rule_is_solved_on_everybody(model):
    posterior = model._fitted.problem.posterior
    assert posterior.n == N and model.n_unknown_ == N - len(KNOWN)
    np.testing.assert_allclose(posterior.Z.sum(axis=(1, 2)), 1)
    assert model.certificate_.excess == 0 and model.predict(X_NEW).shape == (N,)


@pytest.mark.parametrize("posterior", ["auto", "joint"])
def test_where_no_group_is_missing_nothing_is_inferred(posterior):
    one, other = (
        make_post(missing=missing, posterior=posterior).fit(X, Y, sensitive_features=SEX)
        for missing in ("infer", "error")
    )
    assert_same_predictions(one, other)
    assert isinstance(one.posterior_model_, JointModel) and one.n_unknown_ == 0
    assert one.report().title == other.report().title and one.report().n_unknown == 0


def test_missing_is_missing_however_it_is_written(model):
    for partial in (
        PARTIAL.where(PARTIAL.notna(), None).tolist(),
        PARTIAL.astype("category"),
        PARTIAL.astype("string"),
        PARTIAL.to_frame(),
    ):
        assert_same_predictions(infer().fit(X, Y, sensitive_features=partial), model)


def test_groups_in_a_column_of_x():
    frame = X.assign(sex=PARTIAL)
    model = infer(sensitive_features="sex").fit(frame, Y)
    assert_same_predictions(model, infer().fit(X, Y, sensitive_features=PARTIAL))
    with pytest.warns(OptFairWarning, match=LEFT_OUT):
        report = model.report(X_NEW.assign(sex=PARTIAL_NEW), Y_NEW)
    assert report.n_unknown == 60


def test_a_fitted_model_stays_as_it_is():
    black_box = LogisticRegression().fit(X_NEW, Y_NEW)
    model = infer(FrozenEstimator(black_box), tolerance=1.0).fit(X, Y, sensitive_features=PARTIAL)
    assert (model.predict(X) == black_box.predict(X)).all()
    np.testing.assert_allclose(model.joint_posterior(X).sum(axis=1), black_box.predict_proba(X), atol=1e-12)
    groups = model.posterior_model_.groups.models
    assert all(list(group.classes_) == [0, 1] for group in groups)


def test_whoever_misses_one_of_several_attributes_is_of_unknown_group():
    frame = FRAME[["sex", "old"]].astype(object)
    frame.loc[:29, "sex"] = None
    frame.loc[20:49, "old"] = np.nan
    model = infer(attributes="both").fit(X, Y, sensitive_features=frame)
    assert model.n_unknown_ == 50 and len(model.groups_) == 4 and list(model.groups_.names) == ["sex", "old"]
    alone = frame.copy()
    alone.loc[:49] = None
    assert_same_predictions(model, infer(attributes="both").fit(X, Y, sensitive_features=alone))


def test_weights():
    weight = np.random.default_rng(1).integers(1, 4, N)
    rows = np.repeat(np.arange(N), weight)
    one = infer(calibration="none", cv=KFold(3)).fit(X, Y, sensitive_features=PARTIAL, sample_weight=weight)
    folds = [tuple(np.flatnonzero(np.isin(rows, part)) for part in split) for split in KFold(3).split(X)]
    other = infer(calibration="none", cv=folds).fit(X.iloc[rows], Y[rows], sensitive_features=PARTIAL.iloc[rows])
    np.testing.assert_allclose(out_of_fold_z(other), out_of_fold_z(one)[rows], atol=1e-4)
    assert one.certificate_.accuracy == pytest.approx(other.certificate_.accuracy, abs=1e-3)


def test_rows_of_weight_zero_are_nobody():
    weight = (np.arange(N) % 5 > 0).astype(float)
    rows = np.flatnonzero(weight)
    one = infer().fit(X, Y, sensitive_features=PARTIAL, sample_weight=weight)
    other = infer().fit(X.iloc[rows], Y[rows], sensitive_features=PARTIAL.iloc[rows])
    assert one.n_unknown_ == other.n_unknown_ == (~IS_KNOWN[rows]).sum()
    np.testing.assert_allclose(one.predict_proba(X_NEW), other.predict_proba(X_NEW), atol=1e-6)


def test_a_group_whose_known_people_weigh_nothing_is_no_group():
    groups = PARTIAL.where(np.arange(N) >= 5, "x")
    model = infer().fit(X, Y, sensitive_features=groups, sample_weight=(np.arange(N) >= 5).astype(float))
    assert model.groups_.tolist() == ["f", "m"]


def test_clusters_are_not_cut():
    cluster = np.arange(N) // 3
    model = infer(Recorder(), calibration="none", ensemble=True)
    model.fit(X, Y, sensitive_features=PARTIAL, cluster=cluster)
    for fold in model.fold_models_:
        rows = fold.classes.model.fitted_on_.index
        assert not set(cluster[rows]) & set(np.delete(cluster, rows))


def test_a_class_of_which_nobody_is_known_has_the_shares_of_all():
    partial = SEX.where(IS_KNOWN & (Y != "b"))
    model = infer(calibration="none").fit(X, Y, sensitive_features=partial)
    Q = model.joint_posterior(X_NEW)[:, :, 1]
    shares = np.array([(partial == sex).sum() for sex in "fm"]) / partial.notna().sum()
    np.testing.assert_allclose(Q / Q.sum(axis=1, keepdims=True), np.tile(shares, (N, 1)), atol=1e-12)


def test_small_groups_are_those_of_few_known_people():
    groups = SEX.where(np.arange(N) < 120, None).where(np.arange(N) > 3, "x")
    with pytest.warns(OptFairWarning, match=r"groups with fewer than 10 people, .*: 'x' \(4\)"):
        infer().fit(X, Y, sensitive_features=groups)


def test_columns_of_x_that_hold_the_groups_are_noticed():
    with pytest.warns(OptFairWarning, match="X holds them too, as 'sex', so the rule is not blind"):
        OptFairPost(missing="infer", cv=2, random_state=0).fit(X.assign(sex=PARTIAL), Y, sensitive_features=PARTIAL)


# -- after fit -----------------------------------------------------------------------------------------------
def test_the_report_of_people_fitted_on_measures_those_known(model):
    report = model.report()
    text, n_unknown = " ".join(str(report).split()), N - len(KNOWN)
    assert report.n_people == len(KNOWN) and report.n_unknown == n_unknown
    assert f"{len(KNOWN)} people fitted on, out of fold, and {n_unknown} of unknown group" in text
    assert (
        f"Groups: unknown for {n_unknown} people ({100 * n_unknown / N:.1f} %); what is measured with labels is of the "
        f"{len(KNOWN)} others. The rule and its certificate are of all of them."
    ) in text
    predictions = {metrics.name: metrics.counts for metrics in report.measured}
    counts = predictions["fair rule"]
    h = model.rule_.predict_proba(out_of_fold_z(model)[KNOWN])
    alone = group_confusion(Y[KNOWN], h / h.sum(axis=1, keepdims=True), sensitive_features=SEX.iloc[KNOWN])
    np.testing.assert_allclose(counts.tensor, alone.tensor, atol=1e-12)
    assert counts.n_people.sum() == predictions["plain model"].n_people.sum() == len(KNOWN)
    assert report.to_dict()["n_people"] == len(KNOWN) and "of unknown group" in report.markdown()


def test_the_report_of_people_given_measures_those_known(model):
    with pytest.warns(OptFairWarning, match=LEFT_OUT):
        report = model.report(X_NEW, Y_NEW, sensitive_features=PARTIAL_NEW, keys=range(N))
    rows = np.flatnonzero(IS_KNOWN_NEW)
    alone = model.report(X_NEW.iloc[rows], Y_NEW[rows], sensitive_features=SEX_NEW.iloc[rows], keys=rows)
    assert "180 people given, 60 more of unknown group left out" in report.title
    text = " ".join(str(report).split())
    assert "Groups: unknown for 60 people (25.0 %); what is measured with labels is of the 180 others." in text
    for metrics, other in zip(report.measured, alone.measured, strict=True):
        assert metrics.name == other.name
        np.testing.assert_array_equal(metrics.counts.tensor, other.counts.tensor)
    assert report.promise is None and alone.promise is not None  # nothing is promised by a part of the people


def test_unknown_and_unseen_groups_are_counted_apart(model):
    groups = PARTIAL_NEW.where(np.arange(N) > 9, "x")
    with pytest.warns(OptFairWarning) as caught:
        report = model.report(X_NEW, Y_NEW, sensitive_features=groups)
    text = "; ".join(str(warning.message) for warning in caught)
    n_unknown = int(groups.isna().sum())
    assert f"{n_unknown} of 240 rows have a missing value and are left out" in text
    assert "10 of 240 rows are left out, because their groups were not seen in fit" in text
    assert report.n_people == N - n_unknown - 10


def test_new_people_of_whom_nobody_is_known(model):
    message = "sensitive_features: all 240 rows have a missing value; give the groups of at least some people."
    assert_error(message, model.report, X_NEW, Y_NEW, sensitive_features=[None] * N)


def test_frontier_and_tolerance(model):
    strict = model.with_tolerance(0.01)
    assert strict.certificate_.violation <= 0.01 + 1e-9 and strict.n_unknown_ == model.n_unknown_
    with pytest.warns(OptFairWarning, match=LEFT_OUT):
        path = model.frontier([0.1, 0.05], test=(X_NEW, Y_NEW, PARTIAL_NEW))
    rows = np.flatnonzero(IS_KNOWN_NEW)
    alone = model.frontier([0.1, 0.05], test=(X_NEW.iloc[rows], Y_NEW[rows], SEX_NEW.iloc[rows]))
    np.testing.assert_allclose(path.table["test_violation"], alone.table["test_violation"], atol=1e-9)


def test_save_load_and_clone(model, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    model.save(tmp_path / "model.skops")
    copy = load_model(tmp_path / "model.skops")
    assert_same_predictions(copy, model)
    assert copy.missing == "infer" and copy.n_unknown_ == model.n_unknown_
    assert clone(model).missing == "infer"


def test_searches():
    frame = X.assign(sex=PARTIAL)
    scorer = ViolationScorer("dp", missing="drop", method="predict_proba")
    search = GridSearchCV(infer(sensitive_features="sex"), {"tolerance": [0.02, 1.0]}, scoring=scorer, cv=2)
    with pytest.warns(
        OptFairWarning, match="rows have a missing value and are left out; optfair.metrics.unknown_group"
    ):
        search.fit(frame, Y)
    assert search.best_params_ == {"tolerance": 0.02} and np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_trained_model_with_unknown_groups_is_refused():
    model = OptFairInPost(OptFairIn(start="zero"), make_post(missing="infer"), threshold=0.5)
    with pytest.raises(ValueError, match=f"^sensitive_features: {N - len(KNOWN)} of {N} rows have a missing value"):
        model.fit(X, Y, sensitive_features=PARTIAL)


def test_classes_that_vanish_are_told_by_the_answers_of_everybody(model):
    total, free = model._fitted.free_answers
    assert total.n_people.sum() == free.n_people.sum() == N and total.groups.tolist() == [EVERYBODY]
    known = make_post().fit(X, Y, sensitive_features=SEX)._fitted
    np.testing.assert_allclose(known.free_answers[0].tensor[0], known.plain.tensor.sum(axis=0), atol=1e-12)


# -- probabilities of groups ---------------------------------------------------------------------------------
def test_probabilities_of_groups_are_those_of_the_posterior(model):
    Z = model.joint_posterior(X_NEW)
    np.testing.assert_allclose(model.group_probabilities(X_NEW), Z.sum(axis=2))
    P = model.group_probabilities(X_NEW, Y_NEW)
    for i, label in enumerate("abc"):
        rows = label == Y_NEW
        np.testing.assert_allclose(P[rows], Z[rows, :, i] / Z[rows, :, i].sum(axis=1, keepdims=True))
    np.testing.assert_allclose(P.sum(axis=1), 1)


def test_a_class_that_the_model_holds_for_impossible_has_the_probabilities_without_it():
    box = FrozenEstimator(LogisticRegression().fit(X_NEW, Y_NEW))

    def never_c(rows):
        P = box.predict_proba(rows) * [1, 1, 0]
        return P / P.sum(axis=1, keepdims=True)

    with pytest.warns(OptFairWarning, match=r"left out, because nobody is in the group and class"):
        model = infer(never_c, criterion="eop").fit(X, Y, sensitive_features=PARTIAL)
    P = model.group_probabilities(X_NEW, Y_NEW)
    rows = Y_NEW == "c"
    np.testing.assert_allclose(P[rows], model.group_probabilities(X_NEW)[rows])


def test_probabilities_of_groups_serve_the_bounds():
    frame, y = make_people(3000, seed=2)
    missing = np.random.default_rng(3).random(3000) < 0.5
    partial = frame["sex"].mask(missing)
    model = OptFairPost(missing="infer", random_state=0, tolerance=0.05)
    model.fit(frame[["x1", "x2"]], y, sensitive_features=partial)
    new, y_new = make_people(3000, seed=4)
    answers = model.predict(new[["x1", "x2"]])
    P = model.group_probabilities(new[["x1", "x2"]], y_new)
    question = {"criterion": "eo", "tolerance": 0.1, "group_probabilities": P}
    bounds = unknown_group_bounds(y_new, answers, sensitive_features=new["sex"].mask(missing), **question)
    truth = group_confusion(y_new, answers, sensitive_features=new["sex"]).gaps("eo")["value"]
    assert (bounds.table["inferred"] - truth).abs().max() < 0.05
    assert ((bounds.table["least"] <= truth) & (truth <= bounds.table["most"])).all()


# -- what it is worth ----------------------------------------------------------------------------------------
def hide(way, data, rng):
    """Return who is of unknown group: half of the people at random, or mostly those who lean to one group."""
    if way == "at random":
        return rng.random(len(data.y)) < 0.5
    score = data.X.to_numpy() @ (data.world.centres[0] - data.world.centres[1])
    return rng.random(len(data.y)) < np.where(score > np.median(score), 0.9, 0.1)


@pytest.mark.parametrize("way", ["at random", "by features"])
def test_the_rule_is_about_as_fair_as_with_all_groups_and_fairer_than_without_these_people(way):
    """In a world whose truth is known, so that accuracy and violation have no noise of labels."""
    from optfair.datasets import make_fair_classification

    scores = {name: [] for name in ("all", "inferred", "left out")}
    for seed in range(3):
        data = make_fair_classification(8000, n_classes=3, n_groups=3, bias=1.5, direct_bias=0.5, random_state=seed)
        missing = hide(way, data, np.random.default_rng(seed))
        group = np.asarray(data.sensitive_features, dtype=object)
        rows = np.flatnonzero(~missing)
        options = {"tolerance": 0.02, "cv": 3, "random_state": 0, "posterior": "factored"}
        models = {
            "all": OptFairPost(**options).fit(data.X, data.y, sensitive_features=group),
            "inferred": OptFairPost(**options, missing="infer").fit(
                data.X, data.y, sensitive_features=np.where(missing, None, group)
            ),
            "left out": OptFairPost(**options).fit(
                data.X.iloc[rows], np.asarray(data.y)[rows], sensitive_features=group[rows]
            ),
        }
        for name, model in models.items():
            result = data.world.evaluate(model.predict_proba, n=20_000)
            scores[name].append((result.accuracy, result.violation))
    accuracy, violation = ({name: np.mean(values, axis=0)[k] for name, values in scores.items()} for k in (0, 1))
    assert abs(accuracy["inferred"] - accuracy["all"]) < 0.015
    assert violation["inferred"] < violation["all"] + 0.01
    assert violation["inferred"] < violation["left out"] + (0.005 if way == "at random" else -0.01)
    if way == "by features":
        assert accuracy["inferred"] > accuracy["left out"] + 0.03
