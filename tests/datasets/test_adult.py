"""Adult, against the counts of the paper's data."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from optfair import datasets
from tests.datasets.files import check_table

SHAPES = {"sex": (48_842, 106), "race": (48_842, 102), "sex-race": (46_447, 101)}  # of the paper's released code


@pytest.mark.parametrize("sensitive", SHAPES)
def test_adult_is_that_of_the_paper(adult, sensitive):
    data = check_table(adult(sensitive))
    assert data.X.shape == SHAPES[sensitive] and set(data.X.dtypes.astype(str)) == {"float64"}
    assert data.class_names == ["<=50K", ">50K"] and data.y.name == "income" and data.stand_in is None
    assert data.X.to_numpy().min() >= 0 and data.X.to_numpy().max() == 1
    levels = Counter(column.partition("=")[0] for column in data.X if "=" in column)
    common = {"workclass": 9, "education": 16, "marital-status": 7, "occupation": 15, "relationship": 6}
    extra = {"sex": {"race": 5}, "race": {"sex": 1}, "sex-race": {}}[sensitive]
    assert levels == {**common, "native-country": 42, **extra}


def test_adult_by_sex(adult):
    data = adult("sex")
    assert data.sensitive_features.name == "sex" and data.group_names == ["female", "male"]
    counts = pd.crosstab(data.sensitive_features, data.y)
    assert counts.loc["male"].tolist() == [22_732, 9_918] and counts.loc["female"].tolist() == [14_423, 1_769]
    first, second = data.X.iloc[:32_561], data.X.iloc[32_561:]
    for part in (first, second):  # each file by its own range
        numbers = part.iloc[:, :6]
        assert (numbers.min() == 0).all() and (numbers.max() == 1).all()
        assert (part.drop(columns=numbers.columns).filter(like="workclass=").sum(axis=1) == 1).all()
    assert first["age"][0] == (39 - 17) / (90 - 17) and first["hours-per-week"][0] == (40 - 1) / (99 - 1)
    assert first["native-country=Holand-Netherlands"].sum() == 1
    assert second["native-country=Holand-Netherlands"].sum() == 0
    assert data.X["workclass=?"].sum() == 2_799
    share = (data.sensitive_features == "male").mean(), (data.y == ">50K").mean()
    np.testing.assert_allclose(share, (0.6685, 0.2393), atol=5e-5)
    citation = ("CC BY 4.0", "Becker, B. and Kohavi, R. (1996)", "https://doi.org/10.24432/C5XW20")
    for words in (*citation, "14423", "48,842"):
        assert words in data.description
    assert max(map(len, data.description.splitlines())) <= 100


def test_adult_by_race_and_by_intersections(adult):
    by_sex, by_race, by_pair = (adult(sensitive) for sensitive in SHAPES)
    assert by_race.group_names == ["other", "white"]
    np.testing.assert_array_equal(by_race.sensitive_features == "white", by_sex.X["race=White"] == 1)
    np.testing.assert_array_equal(by_race.X["sex=female"] == 1, by_sex.sensitive_features == "female")
    assert by_pair.group_names == [(s, r) for s in ("female", "male") for r in ("black", "white")]
    rows = (by_sex.X["race=Black"] + by_sex.X["race=White"]).to_numpy() == 1
    pd.testing.assert_frame_equal(by_pair.X, by_sex.take(rows).X.drop(columns=by_sex.X.filter(like="race=").columns))
    np.testing.assert_array_equal(by_pair.sensitive_features["sex"], by_sex.sensitive_features[rows])
    np.testing.assert_array_equal(by_pair.sensitive_features["race"] == "black", by_sex.X["race=Black"][rows] == 1)


def test_occupation(adult):
    data, X = check_table(datasets.load("adult-occupation")), adult().X
    assert len(data) == 48_842 - X["occupation=?"].sum() == 46_033
    assert sorted(data.class_names) == sorted(["management", "professional", "clerical+sales", "manual", "service"])
    assert list(data.sensitive_features.columns) == ["sex", "race"] and len(data.group_names) == 4
    revealing = {column.partition("=")[0] for column in data.X} & {"sex", "race", "relationship", "occupation"}
    assert not revealing and "income=>50K" in data.X
    recorded = X["occupation=?"] == 0
    work = X.filter(like="occupation=").loc[recorded].idxmax(axis=1).str.removeprefix("occupation=").to_numpy()
    for kind, names in {
        "management": {"Exec-managerial"},
        "professional": {"Prof-specialty", "Tech-support"},
        "clerical+sales": {"Adm-clerical", "Sales"},
        "service": {"Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"},
    }.items():
        np.testing.assert_array_equal(data.y == kind, np.isin(work, list(names)))
    assert datasets.load("adult-occupation", sensitive="race", rows=100).group_names == ["other", "white"]
