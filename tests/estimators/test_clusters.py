"""People with several rows are kept together wherever rows are divided."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairIn, OptFairInPost
from optfair.baselines import FairProjection, LinearPost
from tests.estimators.helpers import SEX, N, Recorder, X, Y, assert_same_predictions, make_post, out_of_fold_z

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
