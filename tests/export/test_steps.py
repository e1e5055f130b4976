"""Steps of tables and trees as nodes: what scikit-learn and LightGBM give, at thresholds and for gaps too."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from optfair import TableEncoder
from optfair.errors import ExportError
from optfair.export.steps import StepWriter
from tests.export.helpers import run_step

pytest.importorskip("onnx", reason="graphs are written by onnx")
pytest.importorskip("skl2onnx", reason="steps of scikit-learn are converted by skl2onnx")


def transformed(step, rows, opset=19):
    """What nodes give for a fitted transformer."""

    def write(graph, features):
        return StepWriter(graph).transform([step], features).matrix(graph)

    return run_step(write, rows, opset)


def probabilities(model, rows):
    """What nodes give for a fitted classifier."""
    return run_step(lambda graph, features: StepWriter(graph).probabilities(model, features), rows)


def assert_same(step, rows):
    expected = step.transform(rows)
    expected = expected.toarray() if hasattr(expected, "toarray") else np.asarray(expected, dtype=float)
    np.testing.assert_allclose(transformed(step, rows), expected, atol=1e-12)


def make_table(n=200, seed=0, gaps=0.1):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.normal(5, 3, n), "k": rng.integers(0, 4, n).astype(float)})
    table["city"] = rng.choice(np.array(["Rome", "Oslo", "Bern", "rare"], dtype=object), n, p=[0.5, 0.3, 0.18, 0.02])
    table["size"] = rng.choice(np.array(["S", "L"], dtype=object), n)
    for name in ("x", "k", "city"):
        table.loc[rng.random(n) < gaps, name] = None
    return table


TABLE, NEW = make_table(), make_table(seed=1)
TEXTS, NUMBERS = ["city", "size"], ["x", "k"]


# -- tables ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("add_indicator", [False, True])
def test_gaps_of_numbers(strategy, add_indicator):
    assert_same(SimpleImputer(strategy=strategy, add_indicator=add_indicator).fit(TABLE[NUMBERS]), NEW[NUMBERS])


def test_columns_without_values():
    empty = TABLE[NUMBERS].assign(y=np.nan)
    for keep in (False, True):
        step = SimpleImputer(keep_empty_features=keep)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step.fit(empty)
            assert_same(step, NEW[NUMBERS].assign(y=1.0))


def test_gaps_of_texts_are_filled_before_they_are_encoded():
    step = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    step.fit(TABLE[TEXTS].where(TABLE[TEXTS].notna(), np.nan))
    expected = step.transform(NEW[TEXTS].where(NEW[TEXTS].notna(), np.nan)).toarray()

    def write(graph, features):
        return StepWriter(graph).transform([part for _, part in step.steps], features).matrix(graph)

    np.testing.assert_array_equal(run_step(write, NEW[TEXTS]), expected)
    with pytest.raises(ExportError, match=r"^opset=18: missing texts are filled in from opset=19 on.$"):
        run_step(write, NEW[TEXTS], opset=18)


def test_other_missing_values_are_refused():
    step = SimpleImputer(missing_values=-1).fit(TABLE[NUMBERS].fillna(0))
    with pytest.raises(ExportError, match=r"^SimpleImputer: missing_values=-1 is not exported; use NaN.$"):
        transformed(step, TABLE[NUMBERS])


ONE_HOT = {
    "ignore": {"handle_unknown": "ignore"},
    "infrequent": {"handle_unknown": "infrequent_if_exist", "min_frequency": 10},
    "infrequent, ignored": {"handle_unknown": "ignore", "min_frequency": 10},
    "at most two": {"handle_unknown": "infrequent_if_exist", "max_categories": 2},
    "one dropped": {"handle_unknown": "ignore", "drop": "first"},
    "binary ones dropped": {"handle_unknown": "ignore", "drop": "if_binary"},
}


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", ONE_HOT)
def test_indicators_of_categories(name):
    strange = NEW[TEXTS].assign(city=np.where(np.arange(len(NEW)) % 5 == 0, "Perth", NEW["city"]))
    for table, new in ((TABLE[TEXTS], strange), (TABLE[["k"]], NEW[["k"]].replace(3.0, 9.0))):
        assert_same(OneHotEncoder(**ONE_HOT[name]).fit(table), new)


def test_what_an_encoder_refuses_is_not_a_number():
    strict = OneHotEncoder().fit(TABLE[["size"]])
    rows = pd.DataFrame({"size": np.array(["S", "XXL"], dtype=object)})
    assert np.isnan(transformed(strict, rows)).any(axis=1).tolist() == [False, True]
    ordinal = OrdinalEncoder().fit(TABLE[["size"]])
    assert np.isnan(transformed(ordinal, rows)).any(axis=1).tolist() == [False, True]


def test_codes_of_categories():
    options = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    strange = NEW[TEXTS].assign(size="XXL")
    assert_same(OrdinalEncoder(**options, encoded_missing_value=-2).fit(TABLE[TEXTS]), strange)
    assert_same(OrdinalEncoder(**options).fit(TABLE[["k"]]), NEW[["k"]])
    joined = OrdinalEncoder(**options, min_frequency=10).fit(TABLE[TEXTS])
    with pytest.raises(ExportError, match=r"^OrdinalEncoder: rare categories as one are not exported; "):
        transformed(joined, NEW[TEXTS])


def test_divided_tables():
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    for step in (
        make_column_transformer((numbers, ["x", "k"]), (texts, ["city", "size"])),
        make_column_transformer((texts, [2]), (numbers, slice(0, 2)), ("drop", ["size"])),
        make_column_transformer((texts, TEXTS), (StandardScaler(), []), remainder="passthrough"),
        make_column_transformer((texts, TEXTS), remainder=numbers),
        ColumnTransformer([("both", FeatureUnion([("a", SimpleImputer()), ("b", MinMaxScaler())]), ["x"])]),
    ):
        assert_same(step.fit(TABLE), NEW)


def test_weights_of_parts_are_refused():
    weighted = ColumnTransformer([("x", StandardScaler(), ["x"])], transformer_weights={"x": 2.0}).fit(TABLE)
    with pytest.raises(ExportError, match=r"^ColumnTransformer: transformer_weights are not exported; "):
        transformed(weighted, NEW)
    union = FeatureUnion([("x", StandardScaler())], transformer_weights={"x": 2.0}).fit(TABLE[["x"]])
    with pytest.raises(ExportError, match=r"^FeatureUnion: transformer_weights are not exported; "):
        transformed(union, NEW[["x"]])


def test_functions_are_refused_and_identities_pass():
    assert_same(FunctionTransformer().fit(TABLE[["x"]].fillna(0)), NEW[["x"]].fillna(0))
    with pytest.raises(ExportError, match=r"^FunctionTransformer: this step cannot be converted to ONNX "):
        transformed(FunctionTransformer(np.log1p).fit(TABLE[["x"]].fillna(0)), NEW[["x"]])


def test_texts_among_numbers():
    with pytest.raises(ExportError, match=r"^X: has texts among numbers, and a step reads them as one table of one "):
        transformed(StandardScaler().fit(TABLE[["x"]]), NEW)


@pytest.mark.parametrize("gaps", [0.0, 0.1])
def test_encoders_of_tables(gaps):
    encoder = TableEncoder().fit(make_table(gaps=gaps))
    for new in (NEW, NEW.assign(city="Perth"), NEW.assign(city=None, x=np.nan)[["size", "city", "k", "x"]]):
        expected = encoder.transform(new)
        np.testing.assert_allclose(transformed(encoder, new.astype({"city": object})), expected, atol=1e-12)
    passing = TableEncoder(numbers=["x"], texts=["city"], remainder="passthrough").fit(TABLE[["k", "x", "city"]])
    np.testing.assert_allclose(transformed(passing, NEW), passing.transform(NEW[["k", "x", "city"]]), equal_nan=True)


# -- trees -------------------------------------------------------------------------------------------------------
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
