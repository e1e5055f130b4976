"""People with several rows are kept together wherever rows are divided."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairIn, OptFairInPost, metrics
from optfair.baselines import FairProjection, LinearPost
from tests.estimators.helpers import (
    SEX,
    SEX_NEW,
    X_NEW,
    Y_NEW,
    N,
    Recorder,
    X,
    Y,
    assert_same_predictions,
    make_post,
    out_of_fold_z,
)

TWICE = np.repeat(np.arange(N), 2)  # everybody has two rows, which are equal
ROWS = {"X": X.iloc[TWICE], "y": Y[TWICE], "sensitive_features": SEX.iloc[TWICE]}


class Watched(Recorder):
    """A nearest centroid, of those that take weights."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def test_posteriors_of_copies_are_those_of_strangers():
    """A nearest neighbour knows by heart whoever has a copy in another fold, and nobody who has none."""
    model = make_post(KNeighborsClassifier(1), calibration="none", tolerance=0.5)

    def share_known(**options):
        z = out_of_fold_z(model.fit(**ROWS, **options))
        cell = 3 * (SEX.iloc[TWICE] == "m").to_numpy() + np.unique(Y, return_inverse=True)[1][TWICE]
        return (z.reshape(len(z), -1).argmax(axis=1) == cell).mean()

    assert share_known() == 1.0  # copies of a row are dealt to different folds
    assert share_known(cluster=TWICE) < 0.7


def test_a_cluster_for_every_row_is_as_good_as_none_to_a_splitter():
    splitter = KFold(3, shuffle=True, random_state=0)
    one = make_post(cv=splitter).fit(X, Y, sensitive_features=SEX)
    assert_same_predictions(one, make_post(cv=splitter).fit(X, Y, sensitive_features=SEX, cluster=np.arange(N)))


def test_given_splits_that_cut_people_through_are_refused():
    with pytest.raises(ValueError, match=r"cv: cuts \d+ clusters through"):
        make_post(cv=KFold(3, shuffle=True, random_state=0)).fit(**ROWS, cluster=TWICE)
    make_post(cv=GroupKFold(3)).fit(**ROWS, cluster=TWICE)


@pytest.mark.parametrize("model", [LinearPost, FairProjection])
def test_baselines_fit_out_of_fold_by_people(model):
    """Check what the last of three folds was fitted on: whole people."""
    with pytest.raises(ValueError, match="cv=5: there are 2 clusters"):
        model().fit(X, Y, sensitive_features=SEX, cluster=np.arange(N) % 2)
    model(cv=2, random_state=0).fit(X, Y, sensitive_features=SEX, cluster=np.arange(N) % 2)


def test_people_held_out_from_training_are_strangers():
    """Check both rows of everybody on one side: copies have the same row label, and the cells say who is held out."""
    options = {"rounds": 1, "start": "zero", "max_multiplier": 1.0, "held_out": 0.3, "random_state": 0}
    model = OptFairIn(Watched(), tolerance=0.5, **options).fit(**ROWS, cluster=TWICE)
    n_held_out = len(model.game_.cell)
    assert abs(n_held_out - 0.3 * len(TWICE)) <= 2
    assert 2 * len({*model.plain_.members[0].fitted_on_.index}) == len(TWICE) - n_held_out


def test_in_processing_and_then_post_processing_divide_people_alike():
    trainer = OptFairIn(Watched(), tolerance=0.5, start="zero", max_multiplier=1.0, rounds=1, random_state=0)
    post = make_post(tolerance=0.5, cv="prefit")
    model = OptFairInPost(trainer, post, threshold=0.9, random_state=0).fit(**ROWS, cluster=TWICE)
    seen = model.in_.plain_.members[0].fitted_on_.index
    assert 2 * len({*seen}) == len(seen) == len(TWICE) - len(out_of_fold_z(model.post_))


def test_scikit_learn_passes_clusters_on():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_post().set_fit_request(sensitive_features=True, cluster=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(**ROWS, cluster=TWICE)
    other = make_post().fit(StandardScaler().fit_transform(ROWS["X"]), Y[TWICE], **groups(), cluster=TWICE)
    np.testing.assert_array_equal(pipeline[-1].rule_.weights, other.rule_.weights)


def groups():
    return {"sensitive_features": ROWS["sensitive_features"].to_numpy()}


def test_row_labels_of_clusters_are_those_of_x():
    with pytest.raises(ValueError, match="cluster: its row labels differ from those of X"):
        make_post().fit(X[:100], Y[:100], sensitive_features=SEX[:100], cluster=SEX[100:200])


# -- reports -------------------------------------------------------------------------------------------------
TIMES = 4  # rows of everybody
FOUR = np.repeat(np.arange(N), TIMES)
NEW_ROWS = {"X": X_NEW.iloc[FOUR], "y": Y_NEW[FOUR], "sensitive_features": SEX_NEW.iloc[FOUR]}


def fitted(kind):
    options = {"rounds": 2, "start": "zero", "max_multiplier": 1.0, "random_state": 0, "tolerance": 0.5}
    if kind == "post":
        return make_post(tolerance=0.1).fit(X, Y, sensitive_features=SEX)
    if kind == "in":
        return OptFairIn(**options).fit(X, Y, sensitive_features=SEX)
    post = make_post(tolerance=0.5, cv="prefit")
    return OptFairInPost(OptFairIn(**options), post, threshold=0.9, random_state=0).fit(X, Y, sensitive_features=SEX)


KINDS = ["post", "in", "in and post"]


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_a_report_are_those_of_the_metrics_with_clusters(kind):
    model = fitted(kind)
    report = model.report(**NEW_ROWS, cluster=FOUR)
    groups = {"sensitive_features": NEW_ROWS["sensitive_features"], "cluster": FOUR}
    decisions = model.predict(NEW_ROWS["X"])
    (line,) = [rule for rule in report.measured if rule.name == "decisions (hashed)"]
    expected = metrics.violation_interval(NEW_ROWS["y"], decisions, **groups, criterion="dp")
    for name in ("value", "lower", "upper", "noise_floor", "bound"):
        assert getattr(line.interval, name) == pytest.approx(getattr(expected, name), abs=1e-12), name
    bound = metrics.violation_bound(NEW_ROWS["y"], decisions, **groups, criterion="dp")
    assert report.promise.bound == pytest.approx(bound.bound)
    assert report.n_people == N and f"; {TIMES * N} rows of {N} people given" in report.title


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_people_tell_no_more_than_the_people_themselves(kind):
    """Counted as people, four copies of everybody look like four times as many, with intervals half as wide."""
    model = fitted(kind)
    once = model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW)
    copies, clusters = model.report(**NEW_ROWS), model.report(**NEW_ROWS, cluster=FOUR)
    width = [(table["high"] - table["low"]).to_numpy() for table in (r.constraints for r in (once, copies, clusters))]
    np.testing.assert_allclose(width[2], width[0], rtol=0.1)
    assert (width[1] < 0.65 * width[2]).all()
    for line, other in zip(clusters.measured, once.measured, strict=True):
        assert line.interval.value == pytest.approx(other.interval.value)
        assert line.interval.noise_floor == pytest.approx(other.interval.noise_floor, rel=0.2)


def test_a_report_on_people_fitted_on_counts_each_once():
    model = make_post(tolerance=0.2).fit(**ROWS, cluster=TWICE)
    clusters, copies = model.report(), make_post(tolerance=0.2).fit(**ROWS).report()
    assert f"; {2 * N} rows of {N} people fitted on, out of fold" in clusters.title and clusters.n_people == N
    assert f"; {2 * N} people fitted on, out of fold" in copies.title
    for line, other in zip(clusters.measured, copies.measured, strict=True):
        assert line.interval.noise_floor > 1.2 * other.interval.noise_floor
    assert len(model.with_tolerance(0.3).report().measured) == len(clusters.measured)


def test_the_noise_floor_of_a_frontier_counts_people():
    model = make_post(tolerance=0.2).fit(X, Y, sensitive_features=SEX)
    data = tuple(NEW_ROWS.values())
    paths = [model.frontier([0.2, 0.1], test=(*data, *rest)).table for rest in ([], [None, FOUR], [None, None])]
    assert (paths[1]["test_floor"] > 1.5 * paths[0]["test_floor"]).all()
    np.testing.assert_array_equal(paths[1]["test_violation"], paths[0]["test_violation"])
    np.testing.assert_array_equal(paths[2]["test_floor"], paths[0]["test_floor"])


def test_groups_that_were_not_seen_take_their_clusters_with_them():
    model = fitted("post")
    groups = np.where(np.arange(TIMES * N) < 2 * TIMES, "x", NEW_ROWS["sensitive_features"])
    with pytest.warns(match="8 of 960 rows are left out"):
        report = model.report(NEW_ROWS["X"], NEW_ROWS["y"], sensitive_features=groups, cluster=FOUR)
    assert report.n_people == N - 2


def test_clusters_of_a_report_are_checked():
    model = fitted("post")
    with pytest.raises(ValueError, match=r"^cluster: has 3 rows but X has 240; they must have the same rows\.$"):
        model.report(X_NEW, Y_NEW, sensitive_features=SEX_NEW, cluster=[1, 2, 3])
