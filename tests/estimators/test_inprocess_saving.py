"""Test files of `OptFairIn`: read again they predict and report the same, and hold neither rows nor keys."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import Constraint, MinimumRate, ModelFileError, OptFairIn, OptFairPost, load_model
from tests.estimators.in_processing_helpers import FailingBayes, undecided_model
from tests.inprocessing.helpers import (
    FEW_ROUNDS,
    FRAME,
    OVERFITS,
    SEX,
    SEX_NEW,
    X_NEW,
    X,
    Y,
    draw_rows,
    fit,
    quick,
)

pytest.importorskip("skops", reason="models are saved by skops")
pytestmark = pytest.mark.filterwarnings(FEW_ROUNDS, OVERFITS)

OBJECTS = [Constraint("dp", 0.1), MinimumRate("recall", 0.1)]
MODELS = {
    "blind": lambda: undecided_model(),
    "aware": lambda: fit(quick(awareness="aware")),
    "deterministic": lambda: fit(quick(output="deterministic")),
    "held out": lambda: fit(quick(held_out=0.3)),
    "trees": lambda: fit(quick(HistGradientBoostingClassifier(max_iter=3))),
    "a pipeline": lambda: fit(quick(make_pipeline(StandardScaler(), LogisticRegression()))),
    "default": lambda: fit(OptFairIn(rounds=2)),
    "intersections": lambda: quick(tolerance=0.2).fit(X, Y, sensitive_features=FRAME[["sex", "old"]]),
    "truth values": lambda: quick().fit(X, Y == "a", sensitive_features=SEX == "m"),
    "distinct rows": lambda: quick().fit(np.sign(X), Y, sensitive_features=SEX),
    "constraint objects": lambda: fit(quick(criterion=OBJECTS)),
    "costs": lambda: fit(quick(costs=1 - np.eye(3))),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_is_read_predicts_and_reports_as_the_one_that_was_written(kind, tmp_path):
    model, path = MODELS[kind](), tmp_path / "model.skops"
    model.save(path)
    other = load_model(path)
    groups = {"sensitive_features": SEX_NEW} if kind == "aware" else {}
    new = np.sign(X_NEW) if kind == "distinct rows" else X_NEW
    np.testing.assert_array_equal(other.predict_proba(new, **groups), model.predict_proba(new, **groups))
    np.testing.assert_array_equal(other.predict(new, **groups), model.predict(new, **groups))
    assert other.predict(new, **groups).dtype == model.predict(new, **groups).dtype
    assert other.groups_.equals(model.groups_) and other.groups_.names == model.groups_.names
    pd.testing.assert_frame_equal(other.multipliers_, model.multipliers_)
    pd.testing.assert_frame_equal(other.history_, model.history_)
    assert str(other.report()) == str(model.report())
    assert not hasattr(other, "game_")  # it has the cell of every row
    for copy in (pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(other))):
        np.testing.assert_array_equal(copy.predict(new, **groups), model.predict(new, **groups))
        assert not hasattr(copy, "game_")


def test_the_file_does_not_grow_with_the_rows(tmp_path):
    sizes = []
    for n in (300, 3000):
        frame, y = draw_rows(n)
        model = quick(rounds=4).fit(frame[["x1", "x2"]], y, sensitive_features=frame["sex"])
        model.save(tmp_path / "model.skops")
        sizes.append((tmp_path / "model.skops").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 1350  # a byte for each of the further rows would be more


def test_types_of_the_users_own_must_be_named(tmp_path):
    FailingBayes.fits = -100
    model, path = fit(quick(FailingBayes(), decision="argmax")), tmp_path / "model.skops"
    model.save(path)
    name = f"{FailingBayes.__module__}.FailingBayes"
    message = rf"^model\.skops: holds types that are not trusted: {name}\. If you know"
    with pytest.raises(ModelFileError, match=message):
        load_model(path)
    np.testing.assert_array_equal(load_model(path, trusted=[name]).predict(X_NEW), model.predict(X_NEW))


# -- keys --------------------------------------------------------------------------------------------------
def test_the_key_is_in_a_file_of_its_own(tmp_path):
    model, path = undecided_model(), tmp_path / "model.skops"
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


def test_the_key_of_a_rule_to_start_from_is_not_in_the_file(tmp_path):
    post = OptFairPost(cv=2, tolerance=0.05, random_state=None).fit(X, Y, sensitive_features=SEX)
    for start in (post, post.rule_):
        model = fit(quick(start=start, max_multiplier="auto"))
        model.save(tmp_path / "model.skops")
        assert post.rule_.key not in (tmp_path / "model.skops").read_bytes()
        np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X), model.predict(X))
        assert model.start is start  # what was given is left as it is
