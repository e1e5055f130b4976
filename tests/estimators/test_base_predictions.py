"""Check predictions: the same person always gets the same class, and everybody together follows the rule."""

import copy

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.estimators.helpers import NEW, SEX, SEX_NEW, X_NEW, Y_NEW, N, X, Y, assert_error, make_people, make_post


def test_there_is_one_column_per_class(blind_post):
    assert blind_post.classes_.tolist() == ["a", "b", "c"]
    h = blind_post.predict_proba(X_NEW)
    assert h.shape == (N, 3) and blind_post.decision_function(X_NEW).shape == (N, 3)
    np.testing.assert_allclose(h.sum(axis=1), 1)
    assert set(blind_post.predict(X_NEW)) == {"a", "b", "c"}


# -- hashed --------------------------------------------------------------------------------------------------
def test_a_person_gets_the_same_class_in_any_batch_and_order(undecided_post):
    predictions = undecided_post.predict(X_NEW)
    likeliest = undecided_post.classes_[undecided_post.predict_proba(X_NEW).argmax(axis=1)]
    assert (predictions != likeliest).mean() > 0.05
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(undecided_post.predict(X_NEW.iloc[order]), predictions[order])
    alone = np.concatenate([undecided_post.predict(X_NEW.iloc[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(alone, predictions[:40])


@pytest.mark.parametrize("kind", ["joint", "factored", "fitted"])
@pytest.mark.parametrize("has_keys", [False, True])
def test_one_row_and_a_batch_give_one_answer(kind, has_keys):
    """Models that share their preprocessing, calibration of both kinds and hashes see a row as they see a batch."""
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    if kind == "fitted":
        pipeline = FrozenEstimator(pipeline.fit(X, Y))
    model = make_post(pipeline, posterior="auto" if kind == "fitted" else kind, temperature=0.3)
    model.fit(X, Y, sensitive_features=SEX)
    keys = np.arange(N) if has_keys else None
    predictions = model.predict(X_NEW, keys=keys)
    assert (predictions != model.classes_[model.predict_proba(X_NEW).argmax(axis=1)]).any()
    for size in (1, 7):
        parts = [slice(start, start + size) for start in range(0, 70, size)]
        alone = [model.predict(X_NEW[part], keys=None if keys is None else keys[part]) for part in parts]
        np.testing.assert_array_equal(np.concatenate(alone), predictions[:70])
    records = [model.predict(X_NEW.iloc[row].to_dict(), keys=None if keys is None else [row])[0] for row in range(20)]
    assert records == predictions[:20].tolist()


def test_a_person_gets_the_same_class_in_an_array_and_in_a_list():
    table = np.c_[X_NEW, SEX_NEW == "m"]
    model = make_post(sensitive_features=2, temperature=0.3).fit(table, Y_NEW)
    np.testing.assert_array_equal(model.predict(table), model.predict(table.tolist()))


def test_a_person_gets_the_same_class_in_pandas_and_polars(undecided_post):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({c: X_NEW[c].to_numpy() for c in X_NEW})
    np.testing.assert_array_equal(undecided_post.predict(frame), undecided_post.predict(X_NEW))


def test_a_blind_prediction_does_not_depend_on_the_group(undecided_post):
    table = NEW[["x1", "x2", "sex"]]
    exchanged = table.assign(sex=np.where(SEX_NEW == "f", "m", "f"))
    for other in (exchanged, exchanged.assign(sex="neither"), X_NEW):
        np.testing.assert_array_equal(undecided_post.predict(other), undecided_post.predict(table))


def test_keys_say_who_a_person_is(undecided_post):
    model, keys = undecided_post, [f"person {i}" for i in range(N)]
    predictions = model.predict(X_NEW, keys=keys)
    order = np.random.default_rng(0).permutation(N)
    shuffled = model.predict(X_NEW.iloc[order], keys=[keys[i] for i in order])
    np.testing.assert_array_equal(shuffled, predictions[order])
    assert (predictions != model.predict(X_NEW)).any() and (predictions != model.predict(X_NEW, keys=range(N))).any()
    copies = X_NEW.iloc[[int(model.predict_proba(X_NEW).max(axis=1).argmin())] * 100]
    assert len(set(model.predict(copies))) == 1  # one row, one person
    assert len(set(model.predict(copies, keys=range(100)))) > 1  # a hundred people with the same x
    message = f"keys: 1 of {N} are missing (None, NaN or empty); every person needs one."
    assert_error(message, model.predict, X_NEW, keys=[None, *keys[1:]])
    for part in (None, np.nan, ""):
        assert_error(message, model.predict, X_NEW, keys=[(part, 1), *((key, 1) for key in keys[1:])])


def test_hashed_predictions_have_the_rates_of_the_rule(undecided_post):
    many = make_people(4000, seed=9)[0][["x1", "x2"]]
    h, predictions = undecided_post.predict_proba(many), undecided_post.predict(many)
    for j, name in enumerate(undecided_post.classes_):
        error = np.sqrt((h[:, j] * (1 - h[:, j])).sum()) / len(h)
        assert abs((predictions == name).mean() - h[:, j].mean()) < 4 * error


def test_the_key_is_fresh_unless_there_is_a_seed():
    keys = [make_post(random_state=seed).fit(X, Y, sensitive_features=SEX).rule_.key for seed in (None, None, 0, 0)]
    assert keys[0] != keys[1] and keys[2] == keys[3]


# -- sampled and argmax --------------------------------------------------------------------------------------
def test_sampled_predictions_depend_on_the_seed(undecided_post):
    sampled = copy.copy(undecided_post).set_params(decision="sampled")
    first = sampled.predict(X_NEW, random_state=1)
    np.testing.assert_array_equal(first, sampled.predict(X_NEW, random_state=1))
    assert (first != sampled.predict(X_NEW, random_state=2)).any()
    np.testing.assert_array_equal(sampled.predict(X_NEW), sampled.predict(X_NEW, random_state=0))  # the constructor's
    message = "keys: only decision='hashed' uses them; got decision='sampled'."
    assert_error(message, sampled.predict, X, keys=range(N))
    message = "random_state: only decision='sampled' draws; got decision='hashed'."
    assert_error(message, undecided_post.predict, X, random_state=1)


def test_argmax_predicts_the_likeliest_class(undecided_post):
    likeliest = copy.copy(undecided_post).set_params(decision="argmax")
    h = undecided_post.predict_proba(X_NEW)
    np.testing.assert_array_equal(likeliest.predict(X_NEW), undecided_post.classes_[h.argmax(axis=1)])
    scores = undecided_post.decision_function(X_NEW)
    assert undecided_post.rule_.share == 0  # the rule is not mixed with a constant one
    np.testing.assert_array_equal(h.argmax(axis=1), scores.argmax(axis=1))
    assert undecided_post.determinism_.undecided > 0.2
