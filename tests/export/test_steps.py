"""Steps of tables as nodes: what scikit-learn makes of numbers, texts and gaps."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from optfair import TableEncoder
from optfair.errors import ExportError
from optfair.export.steps import StepWriter
from tests.export.helpers import probabilities, run_step, transformed

pytest.importorskip("onnx", reason="graphs are written by onnx")
pytest.importorskip("skl2onnx", reason="steps of scikit-learn are converted by skl2onnx")


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


@pytest.mark.parametrize("options", [{}, {"with_mean": False}, {"with_std": False}])
@pytest.mark.parametrize("names", [["x"], ["x", "k"]])
def test_scalers(options, names):
    """Of one column too, where other converters leave double precision."""
    table, new = TABLE[names].fillna(0.0) * 1e6, NEW[names].fillna(0.0) * 1e6
    assert_same(StandardScaler(**options).fit(table), new)


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


@pytest.mark.parametrize("classes", [["a", "b"], ["a", "b", "c"]])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("C", [1.0, 1e6])
def test_logistic_regression(classes, width, C):
    """In double precision, of one column too; of strong coefficients too."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, width)) * 100
    labels = np.array(classes)[np.digitize(rows[:, 0], np.linspace(-50, 50, len(classes) - 1))]
    model = LogisticRegression(C=C, max_iter=200).fit(rows, labels)
    np.testing.assert_allclose(probabilities(model, rows * 2), model.predict_proba(rows * 2), atol=1e-12)
