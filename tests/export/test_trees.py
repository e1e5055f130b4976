"""Trees as nodes: what scikit-learn and LightGBM give, at thresholds and for gaps too."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from optfair.errors import ExportError
from tests.export.helpers import probabilities

pytest.importorskip("onnx", reason="graphs are written by onnx")


def tree_data(seed=0, n=400, gaps=0.05):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 1) * [1, 1e6, 1e-6, 1]  # many equal values, next to thresholds
    y = np.digitize(X[:, 0] + X[:, 1] * 1e-6, [-0.5, 0.6])
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y


def at_thresholds(X, thresholds):
    """Rows with each threshold, and the next numbers of double and single precision on both sides."""
    t = np.asarray(thresholds, dtype=np.float64)
    t = t[np.abs(t) < 1e30]  # not those that part missing values from all others
    single = t.astype(np.float32)
    sides = [np.nextafter(single, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
    values = np.concatenate([t, np.nextafter(t, -np.inf), np.nextafter(t, np.inf), single, *sides])
    rows = np.repeat(X[:1], len(values), axis=0)
    return np.concatenate([np.where(np.arange(X.shape[1]) == k, values[:, None], rows) for k in range(X.shape[1])])


@pytest.mark.parametrize("gaps", [0.0, 0.05])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_forests_at_their_thresholds(n_classes, gaps):
    X, y = tree_data(gaps=gaps)
    model = RandomForestClassifier(5, min_samples_leaf=3, random_state=0).fit(X, np.minimum(y, n_classes - 1))
    thresholds = np.concatenate([tree.tree_.threshold[tree.tree_.feature >= 0] for tree in model.estimators_])
    rows = np.concatenate([at_thresholds(np.nan_to_num(X), thresholds), tree_data(1, gaps=gaps)[0]])
    np.testing.assert_allclose(probabilities(model, rows), model.predict_proba(rows), atol=1e-15)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_boosting_at_its_thresholds(n_classes, gaps):
    X, y = tree_data(gaps=gaps)
    model = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, np.minimum(y, n_classes - 1))
    nodes = np.concatenate([tree.nodes for iteration in model._predictors for tree in iteration])
    rows = np.concatenate([at_thresholds(np.nan_to_num(X), nodes["num_threshold"][nodes["is_leaf"] == 0]), X])
    np.testing.assert_allclose(probabilities(model, rows), model.predict_proba(rows), atol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_lightgbm_at_its_thresholds(n_classes, gaps):
    lightgbm = pytest.importorskip("lightgbm", reason="trees of LightGBM")
    X, y = tree_data(gaps=gaps)
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X, np.minimum(y, n_classes - 1))
    nodes, waiting = [], [tree["tree_structure"] for tree in model.booster_.dump_model()["tree_info"]]
    while waiting:
        node = waiting.pop()
        if "threshold" in node:
            nodes.append(node["threshold"])
            waiting += [node["left_child"], node["right_child"]]
    rows = np.concatenate([at_thresholds(np.nan_to_num(X), nodes), X, np.full((1, 4), np.nan), np.zeros((1, 4))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities(model, rows), expected, atol=1e-14)


@pytest.mark.parametrize("loss", ["log_loss", "exponential"])
def test_gradient_boosting(loss):
    X, y = tree_data(gaps=0.0)
    y = y if loss == "log_loss" else np.minimum(y, 1)
    for options in ({}, {"init": "zero"}):
        model = GradientBoostingClassifier(n_estimators=4, loss=loss, random_state=0, **options).fit(X, y)
        np.testing.assert_allclose(probabilities(model, X), model.predict_proba(X), atol=1e-14)
    other = GradientBoostingClassifier(n_estimators=2, init=DecisionTreeClassifier(max_depth=1)).fit(X, y)
    with pytest.raises(
        ExportError, match=r"starts from another model \(init=\), which is not exported\. Export the rule by itself"
    ):
        probabilities(other, X)


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_trees_of_any_depth(seed, depth):
    X, y = tree_data(seed, n=60)
    model = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y)
    rows = tree_data(seed + 1, n=60)[0]
    np.testing.assert_allclose(probabilities(model, rows), model.predict_proba(rows), atol=1e-15)


def test_a_tree_of_one_leaf():
    X, y = tree_data()
    for model in (
        DecisionTreeClassifier(min_samples_leaf=300).fit(X, y),
        RandomForestClassifier(3, min_samples_leaf=300).fit(X, y),
        HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=300).fit(X, y),
    ):
        np.testing.assert_allclose(probabilities(model, X), model.predict_proba(X), atol=1e-15)


def test_splits_by_categories_are_refused():
    X, y = tree_data(gaps=0.0)
    X[:, 0] = np.abs(np.round(X[:, 0]))
    model = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]).fit(X, y)
    with pytest.raises(ExportError, match=r"has categorical features, whose splits are not exported; "):
        probabilities(model, X)
    lightgbm = pytest.importorskip("lightgbm", reason="trees of LightGBM")
    trees = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1, min_data_per_group=1, cat_smooth=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees.fit(X, y, categorical_feature=[0])
        with pytest.raises(ExportError, match=r"a tree of LightGBM splits by categories, or takes zeros as missing"):
            probabilities(trees, X)
        forest = lightgbm.LGBMClassifier(
            n_estimators=2, verbose=-1, n_jobs=1, boosting_type="rf", bagging_freq=1, bagging_fraction=0.5
        ).fit(X, y)
        with pytest.raises(ExportError, match=r"LightGBM with objective .*, or as a forest, is not exported"):
            probabilities(forest, X)


def test_constants():
    X, y = tree_data()
    model = DummyClassifier().fit(X, y)
    np.testing.assert_allclose(probabilities(model, X[:7]), model.predict_proba(X[:7]), atol=1e-15)
