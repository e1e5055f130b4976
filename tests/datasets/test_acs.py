"""The American Community Survey, on small files written as its source does."""

import numpy as np
import pandas as pd
import pytest

from optfair import datasets
from tests.datasets.files import check_table, write_census


def test_acs_income(data_folder):
    people = write_census(data_folder)
    data = check_table(datasets.load("acs-income", download=False))
    complete = [p for p in people if all(p[c] != "" for c in ("PINCP", "WKHP"))]
    eligible = [p for p in complete if p["AGEP"] > 16 and p["PINCP"] > 100 and p["WKHP"] > 0 and p["PWGTP"] >= 1]
    assert len(data) == len(eligible) == 104
    incomes = sorted(p["PINCP"] for p in eligible)
    edges = [incomes[int(np.ceil(104 * k / 5)) - 1] for k in (1, 2, 3, 4)]  # the smallest with rank/n ≥ k/5
    assert [int(name[0]) for name in data.y] == [1 + sum(p["PINCP"] >= edge for edge in edges) for p in eligible]
    races = {1: "white", 2: "black", 3: "AIAN", 4: "AIAN", 5: "AIAN", 6: "asian+NHOPI", 7: "asian+NHOPI"}
    assert data.sensitive_features.tolist() == [races.get(p["RAC1P"], "other+mix") for p in eligible]
    assert data.group_names == ["AIAN", "asian+NHOPI", "black", "other+mix", "white"]
    numbers = ["AGEP", "OCCP", "POBP", "RELP", "WKHP"]
    codes = ["COW=-1", "COW=1", "COW=8", "SCHL=-1", "SCHL=16", "SCHL=24", "MAR=1", "MAR=5", "SEX=1", "SEX=2"]
    assert list(data.X.columns) == [*numbers, *codes] and set(data.X.dtypes.astype(str)) == {"float32"}
    np.testing.assert_array_equal(
        data.X[numbers], [[-1 if p[c] == "" else int(p[c]) for c in numbers] for p in eligible]
    )
    for code in codes:
        column, _, level = code.partition("=")
        expected = [str(p[column] if p[column] != "" else -1) == level for p in eligible]
        np.testing.assert_array_equal(data.X[code], expected)


def test_acs_income_by_sex_and_of_some_states(data_folder):
    write_census(data_folder, states=("AL", "WY", "PR"))
    data = check_table(datasets.load("acs-income", sensitive="sex", states=["WY", "AL"]))
    assert len(data) == 6 and data.group_names == ["female", "male"] and "States: WY, AL." in data.description
    assert not data.X.filter(like="SEX").columns.size and "race=white" in data.X
    assert len(datasets.load("acs-income", states="PR")) == 2


def test_acs_stand_ins(data_folder):
    pytest.importorskip("pyarrow")
    schl = [1, 15, 16, 17, 18, 20, 21, 22, 24]
    columns = {"AGEP": 30, "COW": 1, "MAR": 5, "OCCP": 4999, "POBP": 399, "RELP": 17, "WKHP": 40, "SEX": [1, 2, 1] * 3}
    frame = pd.DataFrame(
        {"SCHL": schl, "RAC1P": range(1, 10), "STATE": "AK", "PINCP_gt_50k": [True, False, True] * 3, **columns}
    )
    (data_folder / "acsincome2018").mkdir()
    frame.to_parquet(data_folder / "acsincome2018" / "acsincome2018_46states_binary.parquet")
    levels = ["0 no diploma"] * 2 + ["1 high school"] * 2 + ["2 some college"] * 2 + ["3 bachelor"] + ["4 higher"] * 2
    races = ["white", "black", *["AIAN"] * 3, *["asian+NHOPI"] * 2, *["other+mix"] * 2]
    school = check_table(datasets.load("acs-education"))
    assert school.y.tolist() == levels and school.sensitive_features.tolist() == races
    assert "OCCP=9" in school.X and "POBP=3" in school.X and not school.X.filter(regex="SCHL|RAC1P|STATE").size
    income = check_table(datasets.load("acs-income-binary"))
    assert income.y.tolist() == [">50K", "<=50K", ">50K"] * 3 and income.sensitive_features.tolist() == races
    assert "SCHL=24" in income.X and not income.X.filter(regex="PINCP|RAC1P|STATE").size
    assert income.stand_in and datasets.load("acs-education", sensitive="sex").group_names == ["female", "male"]
