"""What is kept of the columns fitted on: kinds, ranges and common texts, and nothing of single people."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from optfair.inputs.feature_schema import MAX_COLUMNS, Feature, describe_features, feature_frame

N = 400


def make_table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, N),
            "income": np.where(rng.random(N) < 0.1, np.nan, rng.lognormal(8, 1, N)),
            "owner": rng.random(N) < 0.3,
            "city": np.where(rng.random(N) < 0.2, None, rng.choice(["Rome", "Oslo"], N)),
            "name": [f"Person {k}" for k in range(N)],
            "band": pd.Categorical(rng.choice(["x", "y"], N)),
            "day": pd.date_range("2026-01-01", periods=N),
        }
    )


def test_each_kind_of_column():
    table = make_table()
    kinds = {feature.name: feature.kind for feature in describe_features(table)}
    assert kinds == {
        "age": "integer",
        "income": "number",
        "owner": "boolean",
        "city": "text",
        "name": "text",
        "band": "text",
        "day": "other",
    }
    features = {feature.name: feature for feature in describe_features(table)}
    assert features["income"].has_gaps and features["city"].has_gaps and not features["age"].has_gaps
    assert set(features["city"].levels) == {"Rome", "Oslo"} and features["name"].levels == ()


def test_ranges_hold_nine_of_ten_numbers():
    table = make_table()
    age = describe_features(table)[0]
    assert np.mean((table["age"] >= age.low) & (table["age"] <= age.high)) == pytest.approx(0.9, abs=0.03)
    for feature in describe_features(table.head(99)):  # a quantile of few people would be somebody's number
        assert feature.low is None and feature.high is None


def test_texts_of_few_people_are_not_kept():
    table = pd.DataFrame({"city": ["Rome"] * 300 + ["Oslo"] * 10 + ["Bern"] * 9})
    assert describe_features(table)[0].levels == ("Rome", "Oslo")


@pytest.mark.parametrize(
    "write", [np.asarray, sparse.csr_matrix, lambda X: X.tolist()], ids=["array", "sparse", "list"]
)
def test_tables_without_names(write):
    X = np.random.default_rng(0).normal(size=(N, 3))
    features = describe_features(write(X))
    assert [feature.name for feature in features] == [None] * 3
    np.testing.assert_allclose([f.low for f in features], np.quantile(X, 0.05, axis=0), rtol=0.01)


def test_polars_too():
    polars = pytest.importorskip("polars")
    table = make_table().drop(columns=["band", "day"])
    assert [f.kind for f in describe_features(polars.from_pandas(table))] == [f.kind for f in describe_features(table)]


def test_what_has_no_columns():
    assert describe_features(np.zeros((5, 3, 8, 8))) == ()
    assert describe_features(np.zeros((5, MAX_COLUMNS + 1))) == ()
    assert [feature.kind for feature in describe_features(np.array(["a", "b"]))] == ["text"]
    assert describe_features(pd.DataFrame({"x": [np.inf] * 200}))[0].high == 1.0
    assert describe_features(pd.DataFrame({"x": [None] * 20}))[0].has_gaps


def test_as_a_table():
    frame = feature_frame([Feature("a", "number", low=0.0, high=1.0)])
    assert frame.iloc[0].tolist() == ["a", "number", 0.0, 1.0, False, []]
