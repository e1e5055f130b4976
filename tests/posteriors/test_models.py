"""Models are functions X -> z with probabilities and weights in the right places; what cannot be used is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OrdinalEncoder, PolynomialFeatures, StandardScaler

from optfair import OptFairPost, TableEncoder
from optfair.posteriors.models import (
    ClassModel,
    check_estimator,
    default_estimator,
    default_group_estimator,
    fit_model,
    model_probabilities,
    place_in_groups,
    refuse_text_columns,
    takes_weights,
    with_seeds,
)
from tests.inputs.helpers import N_CLASSES, N_GROUPS, random_data


# -- default models ------------------------------------------------------------------------------------------
def test_the_default_model_centres_dense_columns_only():
    X = sparse.eye_array(3).tocsr()
    assert not default_estimator(X)[0].with_mean and default_estimator(X.toarray())[0].with_mean


def test_the_default_model_encodes_frames_with_texts_or_gaps_only():
    numbers = pd.DataFrame({"a": [1.0, 2.0] * 20, "b": [True, False] * 20})
    for frame in (numbers, numbers.to_numpy(), numbers[["a"]].astype("category"), numbers.astype({"a": "Int64"})):
        assert [type(step) for step in default_estimator(frame)] == [StandardScaler, LogisticRegression]
    for frame in (numbers.assign(c=["x", "y"] * 20), numbers.mask(numbers.index.to_series() < 3), numbers.astype(str)):
        encoder = default_estimator(frame)[0]
        assert isinstance(encoder, TableEncoder) and encoder.fit(frame).transform(frame).shape[0] == 40


def test_the_default_model_encodes_frames_of_polars_too():
    polars = pytest.importorskip("polars")
    numbers = polars.DataFrame({"a": [1.0, 2.0] * 20, "b": [True, False] * 20})
    assert isinstance(default_estimator(numbers)[0], StandardScaler)
    column = polars.Series("a", [1.0, None, 2.0, 2.0] * 10)
    for frame in (numbers.with_columns(column), numbers.with_columns(column.fill_null(float("nan")))):
        assert isinstance(default_estimator(frame)[0], TableEncoder)
    assert isinstance(default_estimator(numbers.with_columns(polars.Series("c", ["x", "y"] * 20)))[0], TableEncoder)


def test_the_default_model_of_the_groups_shares_the_preprocessing_of_a_pipeline():
    texts, y = ["low", "high"] * 5, [0, 1] * 5
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, y)
    for estimator in (model, FrozenEstimator(model)):
        steps = default_group_estimator(estimator, texts)
        assert [type(step) for step in steps] == [FrozenEstimator, StandardScaler, LogisticRegression]
    plain = default_group_estimator(model[-1], model[0].transform(texts))  # no preprocessing to share
    assert [type(step) for step in plain] == [StandardScaler, LogisticRegression]


def test_the_default_model_of_the_groups_reads_gaps_that_a_fitted_pipeline_leaves_to_its_last_step():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=200), "c": rng.choice(["x", "y", None], 200)})
    table.loc[::3, "a"] = np.nan
    y, groups = rng.integers(0, 2, 200), np.where(table["a"].isna(), "g", "h")  # whom the gaps tell
    encoder = make_column_transformer((OrdinalEncoder(), ["c"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, HistGradientBoostingClassifier(max_iter=3)).fit(table, y)
    steps = default_group_estimator(FrozenEstimator(pipeline), table).fit(table, groups)
    assert (steps.predict(table) == groups).mean() > 0.95
    model = OptFairPost(FrozenEstimator(pipeline), tolerance=0.2, cv=2, random_state=0)
    assert len(model.fit(table, y, sensitive_features=groups).predict(table)) == 200


def test_columns_of_text_are_refused_by_a_default_network():
    numbers = pd.DataFrame({"a": [1, 2], "b": pd.Series([1.5, 2], dtype=object), "c": pd.Categorical([1, 2])})
    refuse_text_columns(numbers, "estimator", "network")
    message = (
        "estimator=None: the default network cannot read the column 'name', not a number; pass a Pipeline "
        "that encodes it."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        refuse_text_columns(numbers.assign(name=["x", "y"]), "estimator", "network")


# -- weights and seeds ---------------------------------------------------------------------------------------
def exact_regression():
    """Return logistic regression solved to many digits."""
    return LogisticRegression(tol=1e-10, max_iter=5000)


@pytest.mark.parametrize(
    "estimator",
    [
        exact_regression(),
        make_pipeline(StandardScaler(), exact_regression()),
        make_pipeline(PolynomialFeatures(2), make_pipeline(StandardScaler(), "passthrough"), exact_regression()),
        Pipeline([("none", None), ("scale", StandardScaler()), ("model", exact_regression())]),
    ],
    ids=["plain", "pipeline", "nested", "empty step"],
)
def test_weights_reach_every_step_as_repetitions_would(estimator):
    """Check the scaler too: without its weights the regularised model would be another one."""
    data = random_data(10, weighted=True)
    X = data.X * [1, 1, 30] + 5
    times = data.weight.astype(int)
    weighted = fit_model(estimator, X, data.y, data.weight)
    repeated = fit_model(estimator, np.repeat(X, times, axis=0), np.repeat(data.y, times), None)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)
    assert takes_weights(estimator)
    assert not hasattr(estimator, "classes_")  # a clone was fitted


def test_which_estimators_take_weights():
    assert takes_weights(LogisticRegression()) and not takes_weights(KNeighborsClassifier())
    assert takes_weights(make_pipeline(StandardScaler(), KNeighborsClassifier()))  # its scaler does
    assert not takes_weights(make_pipeline(PolynomialFeatures(), KNeighborsClassifier()))


def test_seeds_go_to_the_parts_that_have_none():
    model = make_pipeline(StandardScaler(), RandomForestClassifier())
    assert with_seeds(model, 7)[-1].random_state == 7 and model[-1].random_state is None
    assert with_seeds(RandomForestClassifier(random_state=3), 7).random_state == 3
    assert 0 <= with_seeds(RandomForestClassifier(), 2**40).random_state < 2**32  # as scikit-learn needs it
    assert with_seeds(len, 7) is len


def test_one_target_needs_no_model():
    model = fit_model(LogisticRegression(), np.zeros((3, 1)), np.array([2, 2, 2]), None)
    assert model.predict_proba(np.zeros((2, 1))).tolist() == [[1.0], [1.0]] and model.classes_.tolist() == [2]


# -- estimators that are refused -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            LogisticRegression(class_weight={0: 2}),
            "estimator: class_weight by class is not possible, models see codes; use sample_weight.",
        ),
        (
            make_pipeline(StandardScaler(), LogisticRegression(class_weight={0: 2})),
            "estimator: logisticregression__class_weight by class is not possible, models see codes",
        ),
        (
            make_pipeline(StandardScaler(), FrozenEstimator(LogisticRegression().fit([[0], [1]], [0, 1]))),
            "estimator: frozenestimator is a fitted classifier; freeze the whole: FrozenEstimator(estimator).",
        ),
    ],
    ids=["weights by class", "in a pipeline", "frozen part"],
)
def test_estimators_that_know_other_classes_are_refused(estimator, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_estimator(estimator)


def test_other_estimators_pass():
    for estimator in (None, len, LogisticRegression(class_weight="balanced"), make_pipeline(StandardScaler())):
        check_estimator(estimator)


def test_a_model_with_other_classes_than_its_targets_is_refused():
    class Stubborn(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y)
            self.classes_ = np.array([5, 6])
            return self

    with pytest.raises(ValueError, match="estimator: Stubborn knows other classes than it was fitted to"):
        fit_model(Stubborn(), np.arange(4.0)[:, None], np.array([0, 1, 0, 1]), None)


@pytest.mark.parametrize("argument", ["estimator", "group_estimator"])
def test_models_without_probabilities_are_refused(argument):
    X, y = np.arange(6.0)[:, None], [0, 1, 0, 1, 0, 1]
    message = (
        f"{argument}: RidgeClassifier has no predict_proba; use a classifier that has, or wrap it in "
        "sklearn.calibration.CalibratedClassifierCV."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model_probabilities(RidgeClassifier().fit(X, y), X, argument)


# -- probabilities -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "output, message",
    [
        (np.full(4, 0.5), "estimator: its probabilities have shape (4,); expected (4, n_classes)."),
        (np.full((3, 2), 0.5), "estimator: its probabilities have shape (3, 2); expected (4, n_classes)."),
        (
            np.array([[0.5, 0.5], [2.0, 1.0], [0.5, 0.5], [3.0, 1.0]]),
            "estimator: 2 rows of its output are not probabilities (row 1 sums to 3); give one column per "
            "class, after a softmax.",
        ),
        (
            np.array([[0.5, 0.5], [0.5, 0.5], [1.5, -0.5], [0.5, 0.5]]),
            "estimator: 1 rows of its output are not probabilities (row 2 sums to 1); give one column per "
            "class, after a softmax.",
        ),
        (
            np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [np.nan, 0.5]]),
            "estimator: 1 rows of its output are not probabilities (row 3 sums to nan); give one column per "
            "class, after a softmax.",
        ),
    ],
    ids=["1-d", "too few rows", "sums above one", "negative", "nan"],
)
def test_output_that_is_no_probabilities_is_refused(output, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model_probabilities(lambda X: output, np.zeros((4, 1)))


def test_probabilities_that_nearly_sum_to_one_are_normalised():
    P = model_probabilities(lambda X: np.float32([[0.3, 0.7003]] * 2), np.zeros((2, 1)))
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-15)


def test_a_function_with_columns_for_other_classes_is_refused():
    message = (
        "estimator: gives 2 columns of probabilities for 3 classes; a model without classes_ needs one column per "
        "class found in y, sorted."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        ClassModel(lambda X: np.full((len(X), 2), 0.5), np.arange(3), 3)(np.zeros((4, 1)))


# -- known groups --------------------------------------------------------------------------------------------
def test_rows_of_a_known_group_are_conditioned_on_it():
    rng = np.random.default_rng(22)
    Z = rng.dirichlet(np.ones(N_GROUPS * N_CLASSES), 50).reshape(50, N_GROUPS, N_CLASSES)
    group = rng.integers(-1, N_GROUPS, 50)
    before = Z.copy()
    out = place_in_groups(Z, group)
    np.testing.assert_allclose(out.sum(axis=(1, 2)), 1)
    assert (out[group < 0] == Z[group < 0]).all() and (before == Z).all()
    for a in range(N_GROUPS):
        mask = group == a
        np.testing.assert_allclose(out[mask, a], Z[mask, a] / Z[mask, a].sum(axis=1, keepdims=True))
        assert (np.delete(out[mask], a, axis=1) == 0).all()


def test_a_row_whose_group_the_model_rules_out_is_predicted_as_of_unknown_group():
    Z = np.zeros((1, N_GROUPS, N_CLASSES))
    Z[0, 0] = [0.2, 0.3, 0.5]
    np.testing.assert_allclose(place_in_groups(Z, np.array([1]))[0], [[0, 0, 0], [0.2, 0.3, 0.5]])
