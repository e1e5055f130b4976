"""Check what the models are given of X: every container as it is, without the sensitive columns when blind."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairPost
from tests.estimators.helpers import FRAME, NEW, SEX, Y_NEW, N, Recorder, X, Y, assert_error, make_people, make_post


# -- sensitive columns ---------------------------------------------------------------------------------------
def test_a_blind_model_is_not_given_the_sensitive_columns():
    model = make_post(Recorder(), sensitive_features=["sex", "old"]).fit(FRAME, Y)
    inner = model.posterior_model_.model
    assert list(inner.fitted_on_.columns) == ["x1", "x2"]
    model.predict(NEW)
    model.predict(NEW[["x1", "x2"]])  # a blind rule does not need the sensitive columns
    assert [list(asked.columns) for asked in inner.predicted_on_] == [["x1", "x2"]] * 2
    np.testing.assert_array_equal(model.predict(NEW), model.predict(NEW[["x1", "x2"]]))
    assert model.n_features_in_ == 4 and model.feature_names_in_.tolist() == list(FRAME)


def test_a_blind_model_is_not_given_a_sensitive_column_by_position():
    array = np.c_[SEX == "m", X]
    model = make_post(Recorder(), sensitive_features=0).fit(array, Y)
    np.testing.assert_array_equal(model.posterior_model_.model.fitted_on_, X.to_numpy())
    np.testing.assert_array_equal(model.predict(array), model.predict(array[:, 1:]))


def test_an_aware_model_is_given_all_columns():
    model = make_post(Recorder(), sensitive_features="sex", awareness="aware").fit(FRAME, Y)
    assert list(model.posterior_model_.classes.model.fitted_on_.columns) == list(FRAME)
    with pytest.raises(ValueError, match=r"The feature names should match|sex"):
        model.predict(NEW[["x1", "x2", "old"]])


def test_some_of_the_sensitive_columns_are_an_error():
    model = make_post(sensitive_features=["sex", "old"]).fit(FRAME, Y)
    assert_error(
        "sensitive_features=['sex', 'old']: X has 'sex' but not 'old'; give all of them or none.",
        model.predict,
        NEW[["x1", "x2", "sex"]],
    )


def test_a_frame_without_its_sensitive_column_has_the_others_in_order():
    model = make_post(sensitive_features="sex").fit(NEW[["x1", "x2", "sex"]], Y_NEW)
    assert_error(
        "X: has the columns ['x2', 'x1']; expected those of fit, in order: ['x1', 'x2'].",
        model.predict,
        NEW[["x2", "x1"]],
    )


# -- containers ----------------------------------------------------------------------------------------------
def make_texts(n=90):
    """Return people with a column of text that tells class and group, and labels."""
    frame, y = make_people(n)
    words = np.array(["apple pear", "plum fig", "kiwi lime"])
    frame["text"] = words[np.unique(y, return_inverse=True)[1]] + np.where(frame["sex"] == "m", " red", " blue")
    return frame, y


def text_pipeline():
    """Return a model of a text column and two numbers."""
    return make_pipeline(
        ColumnTransformer([("t", TfidfVectorizer(), "text"), ("n", StandardScaler(), ["x1", "x2"])]),
        LogisticRegression(),
    )


def test_text_columns_in_pandas_and_polars():
    polars = pytest.importorskip("polars")
    frame, y = make_texts()
    other = polars.DataFrame({c: frame[c].tolist() for c in frame})
    one = make_post(text_pipeline(), sensitive_features="sex").fit(frame, y)
    two = make_post(text_pipeline(), sensitive_features="sex").fit(other, y)
    np.testing.assert_allclose(one.predict_proba(frame), two.predict_proba(other), atol=1e-9)
    np.testing.assert_array_equal(one.predict(frame), two.predict(other))
    np.testing.assert_array_equal(one.predict(frame), one.predict(other))  # the same people in another container
    prefit = FrozenEstimator(text_pipeline().fit(frame, y))
    model = make_post(prefit, tolerance=1.0, calibration="none", sensitive_features="sex").fit(other, y)
    np.testing.assert_array_equal(model.predict(frame), prefit.predict(frame))


def test_a_list_of_texts():
    frame, y = make_texts()
    texts = frame["text"].tolist()
    base = make_pipeline(TfidfVectorizer(), LogisticRegression())
    model = make_post(base).fit(texts, y, sensitive_features=frame["sex"])
    assert model.predict_proba(texts[:5]).shape == (5, 3)
    np.testing.assert_array_equal(model.predict(texts), model.predict(frame["text"]))
    red = make_post(base, sensitive_features=lambda X: [text.endswith("red") for text in X]).fit(texts, y)
    assert red.groups_.tolist() == [False, True]
    np.testing.assert_allclose(red.predict_proba(texts), model.predict_proba(texts))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_x_stays_sparse(kind):
    table = kind(np.c_[X, SEX == "m"])
    folds = KFold(3)  # by position: a sparse row is another person than a dense one, and would be in another fold
    model = make_post(Recorder(), sensitive_features=2, cv=folds).fit(table, Y)
    inner_x = model.posterior_model_.model.fitted_on_
    assert sparse.issparse(inner_x) and inner_x.shape == (N, 2) and inner_x.format == table.format
    dense = make_post(Recorder(), cv=folds).fit(X, Y, sensitive_features=SEX)
    np.testing.assert_allclose(model.predict_proba(table), dense.predict_proba(X), atol=1e-9)
    default = OptFairPost(cv=3).fit(table, Y, sensitive_features=SEX)
    assert default.predict(table).shape == (N,)


def test_nan_reaches_a_model_that_takes_it():
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    base = HistGradientBoostingClassifier(max_iter=5, early_stopping=False)
    model = make_post(base).fit(holes, Y, sensitive_features=SEX)
    assert model.certificate_.violation <= 0.05
    np.testing.assert_array_equal(model.predict(holes), model.predict(holes[::-1])[::-1])
    assert model.__sklearn_tags__().input_tags.allow_nan


def test_nan_in_x_is_an_error_of_a_model_that_does_not_take_it():
    bad = X.copy()
    bad.iloc[0, 0] = np.nan
    with pytest.raises(ValueError) as ours:
        make_post().fit(bad, Y, sensitive_features=SEX)
    with pytest.raises(ValueError) as theirs:
        LogisticRegression().fit(bad, Y)
    assert str(ours.value) == str(theirs.value)


def test_three_dimensional_x():
    images = np.stack([X.to_numpy(), X.to_numpy() ** 2], axis=2)
    model = make_post(Recorder()).fit(images, Y, sensitive_features=SEX)
    assert model.posterior_model_.model.fitted_on_.shape == (N, 2, 2)
    np.testing.assert_array_equal(model.predict(images), model.predict(images[::-1])[::-1])
