"""scikit-learn calls the scorer, and every score is the number that metrics.violation gives by hand."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from optfair.constraints import Constraint
from optfair.errors import OptFairWarning
from optfair.metrics import ViolationScorer, violation

FOLDS = KFold(3, shuffle=True, random_state=0)


def make_data(n=400, m=3, seed=0):
    """Return (X, y): features x1, x2 and the columns sex and old; y depends on all of them."""
    rng = np.random.default_rng(seed)
    sex, old = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + np.c_[sex, old] * 0.7
    y = np.digitize(x[:, 0] + 0.5 * rng.standard_normal(n), np.linspace(-0.5, 1, m - 1))
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "sex": sex, "old": old}), np.array(list("abcdef"))[y]


class WithGroups(ClassifierMixin, BaseEstimator):
    """A classifier whose constructor says where its groups are, as those of optfair do."""

    def __init__(self, sensitive_features=None, C=1.0):
        self.sensitive_features = sensitive_features
        self.C = C

    def fit(self, X, y, sample_weight=None):
        self.model_ = LogisticRegression(C=self.C).fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict(X)

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


def fold_scores(estimator, X, y, groups, weights=None, method="predict", **question):
    """Return −violation of each fold, in a loop."""
    scores = []
    for train, test in FOLDS.split(X):
        fitted = clone(estimator).fit(X.iloc[train], y[train])
        scores.append(
            -violation(
                y[test],
                getattr(fitted, method)(X.iloc[test]),
                sensitive_features=groups.iloc[test],
                classes=fitted.classes_,
                sample_weight=None if weights is None else weights[test],
                **question,
            )
        )
    return scores


@pytest.fixture(scope="module")
def data():
    """(X, y) of 400 rows and three classes."""
    return make_data()


@pytest.fixture(scope="module")
def weights():
    """Random weights of these rows."""
    return np.random.default_rng(1).random(400)


@pytest.fixture(scope="module")
def model(data):
    """Logistic regression fitted on these rows."""
    return LogisticRegression().fit(*data)


@pytest.fixture
def routing():
    """Enable metadata routing."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
@pytest.mark.parametrize(
    "question",
    [
        {"criterion": "dp"},
        {"criterion": "eo", "reference": "pairwise"},
        {"criterion": "eop", "outcomes": ["b"]},
        {"criterion": ["dp", Constraint("oae", 0.2)]},
    ],
)
def test_the_score_is_minus_the_violation(method, question, data, model, weights):
    X, y = data
    scorer = ViolationScorer(method=method, **question)
    for w in (None, weights):
        expected = -violation(y, getattr(model, method)(X), sensitive_features=X["sex"], sample_weight=w, **question)
        assert expected < 0
        assert scorer(model, X, y, sensitive_features=X["sex"], sample_weight=w) == expected
        assert scorer.score(model, X, y, sensitive_features=X["sex"], sample_weight=w) == expected


def test_where_the_groups_come_from_and_in_which_order(data):
    X, y = data
    aware, blind = WithGroups("sex").fit(X, y), WithGroups().fit(X, y)
    groups = {"sex": X["sex"], "old": X["old"], "both": X[["sex", "old"]], "rich": X["x2"] > 1}
    scores = {name: -violation(y, blind.predict(X), sensitive_features=group) for name, group in groups.items()}
    assert len(set(scores.values())) == 4
    assert ViolationScorer()(aware, X, y) == scores["sex"]
    assert ViolationScorer(sensitive_features="old")(aware, X, y) == scores["old"]
    assert ViolationScorer(sensitive_features="old")(aware, X, y, sensitive_features=X["x2"] > 1) == scores["rich"]
    assert ViolationScorer(sensitive_features=["sex", "old"])(blind, X, y) == scores["both"]
    assert ViolationScorer(sensitive_features=lambda X: X["x2"] > 1)(blind, X, y) == scores["rich"]
    marginals = ViolationScorer(sensitive_features=["sex", "old"], attributes="marginals")(blind, X, y)
    assert marginals == pytest.approx(min(scores["sex"], scores["old"]))
    array = WithGroups(2).fit(X.to_numpy(), y)
    assert ViolationScorer()(array, X.to_numpy(), y) == scores["sex"]
    assert ViolationScorer(sensitive_features=3)(array, X.to_numpy(), y) == scores["old"]


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_cross_validation_with_a_column_of_x(enabled, method, data):
    X, y = data
    scorer = ViolationScorer("eo", sensitive_features="sex", method=method)
    with sklearn.config_context(enable_metadata_routing=enabled):
        model = LogisticRegression()
        expected = fold_scores(model, X, y, X["sex"], method=method, criterion="eo")
        np.testing.assert_allclose(cross_val_score(model, X, y, cv=FOLDS, scoring=scorer), expected)
        several = {"fair": scorer, "accuracy": "accuracy", "dp": ViolationScorer(sensitive_features="old")}
        results = cross_validate(model, X, y, cv=FOLDS, scoring=several, return_train_score=True)
        np.testing.assert_allclose(results["test_fair"], expected)
        np.testing.assert_allclose(results["test_dp"], fold_scores(model, X, y, X["old"]))
        np.testing.assert_allclose(results["test_accuracy"], cross_val_score(model, X, y, cv=FOLDS))
        assert (results["train_fair"] < 0).all()


@pytest.mark.parametrize("enabled", [False, True])
def test_a_search_that_reads_the_groups_of_the_estimator(enabled, data):
    X, y = data
    grid = {"C": [0.001, 0.1, 10.0]}
    expected = [np.mean(fold_scores(WithGroups("sex", C), X, y, X["sex"])) for C in grid["C"]]
    with sklearn.config_context(enable_metadata_routing=enabled):
        search = GridSearchCV(WithGroups("sex"), grid, scoring=ViolationScorer(), cv=FOLDS, error_score="raise")
        search.fit(X, y)
        np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
        assert search.best_params_["C"] == grid["C"][int(np.argmax(expected))]
        assert search.score(X, y) == -violation(y, search.predict(X), sensitive_features=X["sex"])
        several = GridSearchCV(
            WithGroups("sex"), grid, scoring={"fair": ViolationScorer(), "acc": "accuracy"}, refit="acc", cv=FOLDS
        ).fit(X, y)
        np.testing.assert_allclose(several.cv_results_["mean_test_fair"], expected)
        # In a search inside a cross-validation the scorer gets the search, not the estimator.
        nested = cross_val_score(search, X, y, cv=2, scoring=ViolationScorer(), error_score="raise")
        assert (nested <= 0).all() and len(nested) == 2
    assert clone(search).get_params()["scoring__criterion"] == "dp"


def test_groups_and_weights_by_metadata_routing(routing, data, weights):
    X, y = data
    features, groups = X[["x1", "x2"]], X["sex"]
    scorer = ViolationScorer("eo").set_score_request(sensitive_features=True, sample_weight=True)
    model = LogisticRegression().set_fit_request(sample_weight=False)
    metadata = {"sensitive_features": groups, "sample_weight": weights}
    expected = fold_scores(model, features, y, groups, weights, criterion="eo")
    scores = cross_val_score(model, features, y, cv=FOLDS, scoring=scorer, params=metadata)
    np.testing.assert_allclose(scores, expected)
    several = {
        "fair": scorer,
        "acc": make_scorer(sklearn.metrics.accuracy_score).set_score_request(sample_weight=False),
    }
    results = cross_validate(model, features, y, cv=FOLDS, scoring=several, params=metadata)
    np.testing.assert_allclose(results["test_fair"], expected)
    for scoring, refit in ((scorer, True), (several, "fair")):
        search = GridSearchCV(model, {"C": [1.0]}, scoring=scoring, refit=refit, cv=FOLDS, error_score="raise")
        clone(search).fit(features, y, **metadata)
        search.fit(features, y, **metadata)
        name = "mean_test_score" if refit is True else "mean_test_fair"
        np.testing.assert_allclose(search.cv_results_[name], [np.mean(expected)])
        on_all = -violation(
            y, search.predict(features), sensitive_features=groups, criterion="eo", sample_weight=weights
        )
        assert search.score(features, y, **metadata) == pytest.approx(on_all)
    # The metadata can have another name; clones and pickles keep the request.
    renamed = ViolationScorer("eo").set_score_request(sensitive_features="sex")
    for copy in (renamed, clone(renamed), pickle.loads(pickle.dumps(renamed))):
        scores = cross_val_score(model, features, y, cv=FOLDS, scoring=copy, params={"sex": groups})
        np.testing.assert_allclose(scores, fold_scores(model, features, y, groups, criterion="eo"))


def test_metadata_without_a_request_is_an_error_of_scikit_learn(routing):
    X, y = make_data(60)
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        cross_val_score(LogisticRegression(), X, y, scoring=ViolationScorer(), params={"sensitive_features": X["sex"]})
    with pytest.raises(TypeError, match="Unexpected args"):  # the estimator is no metadata
        ViolationScorer().set_score_request(estimator=True)


def test_without_routing_a_search_passes_the_weights_on(data, weights):
    X, y = data
    scorer = ViolationScorer(sensitive_features="sex")
    expected = []
    for train, test in FOLDS.split(X):
        fitted = LogisticRegression().fit(X.iloc[train], y[train], weights[train])
        groups = X["sex"].iloc[test]
        expected.append(
            -violation(y[test], fitted.predict(X.iloc[test]), sensitive_features=groups, sample_weight=weights[test])
        )
    for scoring, refit, name in ((scorer, True, "score"), ({"fair": scorer, "acc": "accuracy"}, "fair", "fair")):
        search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scoring, refit=refit, cv=FOLDS)
        search.fit(X, y, sample_weight=weights)
        assert search.cv_results_[f"mean_test_{name}"][0] == pytest.approx(np.mean(expected))


def test_the_last_step_of_a_pipeline_gets_the_output_of_the_others(data):
    X, y = data
    expected = -violation(
        y, make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y).predict(X), sensitive_features=X["sex"]
    )
    # The column of sex, standardised, has two values; the scorer's column is one of the X that the pipeline gets.
    scaled = make_pipeline(StandardScaler(), WithGroups(2)).fit(X, y)
    assert ViolationScorer()(scaled, X, y) == pytest.approx(expected)
    assert ViolationScorer(sensitive_features="sex")(scaled, X, y) == pytest.approx(expected)
    nested = make_pipeline("passthrough", make_pipeline(StandardScaler(), WithGroups(2))).fit(X, y)
    assert ViolationScorer()(nested, X, y) == pytest.approx(expected)
    single = make_pipeline(WithGroups("sex")).fit(X, y)
    assert ViolationScorer()(single, X, y) == ViolationScorer()(WithGroups("sex").fit(X, y), X, y)
    # A name that only the earlier steps make.
    columns = ColumnTransformer(
        [("x", StandardScaler(), ["x1", "x2"]), ("group", OneHotEncoder(drop="first", sparse_output=False), ["sex"])]
    ).set_output(transform="pandas")
    encoded = make_pipeline(columns, WithGroups("group__sex_1")).fit(X, y)
    assert ViolationScorer()(encoded, X, y) == -violation(y, encoded.predict(X), sensitive_features=X["sex"])
    search = GridSearchCV(encoded, {"withgroups__C": [0.1, 1.0]}, scoring=ViolationScorer(), cv=FOLDS).fit(X, y)
    expected = [np.mean(fold_scores(clone(encoded).set_params(withgroups__C=C), X, y, X["sex"])) for C in (0.1, 1.0)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)


def test_classes_of_the_estimator_and_of_the_fold_need_not_agree(data, model):
    X, y = data
    mask = y != "c"
    narrow = LogisticRegression().fit(X[mask], y[mask])
    padded = np.c_[narrow.predict_proba(X), np.zeros(len(y))]
    for method, prediction in (("predict", narrow.predict(X)), ("predict_proba", padded)):
        scorer = ViolationScorer("eo", sensitive_features="sex", method=method)
        assert scorer(narrow, X, y) == -violation(y, prediction, sensitive_features=X["sex"], criterion="eo")
    # A class that no row here has or gets is still a valid outcome.
    mask = y == "a"
    scorer = ViolationScorer(outcomes=["c"], sensitive_features="sex")
    assert scorer(DecisionTreeClassifier().fit(X, y), X[mask], y[mask]) == 0
    with pytest.warns(OptFairWarning, match="rates are left out") as record:
        ViolationScorer("eo", sensitive_features="sex")(model, X[mask], y[mask])
    assert len(record) == 1


def test_an_estimator_without_classes_is_scored_by_its_labels():
    class Constant(BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[["sex"]].to_numpy()  # a column, as some boosters predict

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    X, y = make_data(m=2)
    y = (y == "a").astype(int)
    scorer = ViolationScorer(sensitive_features="sex", reference="pairwise")
    assert scorer(Constant(), X, y) == -1
    with pytest.raises(ValueError, match="method='predict_proba': Constant has no classes_"):
        scorer.set_params(method="predict_proba")(Constant(), X, y)


def test_it_can_be_cloned_pickled_and_printed(data, model):
    X, y = data
    scorer = ViolationScorer(
        Constraint("eo", 0.1, "pairwise"), sensitive_features=["sex", "old"], method="predict_proba"
    )
    for copy in (clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert copy.get_params() == scorer.get_params() and copy(model, X, y) == scorer(model, X, y)
    assert repr(ViolationScorer("eo", sensitive_features="sex")) == (
        "ViolationScorer(criterion='eo', sensitive_features='sex')"
    )
    assert repr(ViolationScorer()) == "ViolationScorer()"


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (ViolationScorer(), "sensitive_features: neither the scorer nor LogisticRegression says where the groups are"),
        (ViolationScorer(method="decision_function"), "method='decision_function': must be one of 'predict'"),
        (ViolationScorer("ppv", sensitive_features="sex"), "criterion='ppv': predictive values"),
        (
            ViolationScorer(Constraint("dp", 0.1), reference="overall", sensitive_features="sex"),
            "reference: already set in the constraint objects",
        ),
        (ViolationScorer(outcomes=["z"], sensitive_features="sex"), "outcomes=.*'z' is not a class"),
    ],
)
def test_errors_are_one_line(scorer, message, data, model):
    with pytest.raises(ValueError, match=message) as error:
        scorer(model, *data)
    assert "\n" not in str(error.value)
