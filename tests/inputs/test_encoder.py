"""The encoder of tables: what it reads, how it writes it, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from optfair import OptFairPost, TableEncoder
from optfair.inputs.cells import cell_text
from tests.estimators.writings import TEXTS, WAYS, make_table, typed

TABLE, GROUPS, Y = make_table(200)


@pytest.mark.parametrize("way", WAYS)
def test_the_numbers_do_not_depend_on_the_writing(way):
    encoder = TableEncoder(texts=["code"]).fit(typed(TABLE))
    np.testing.assert_array_equal(encoder.transform(WAYS[way](TABLE)), encoder.transform(typed(TABLE)))
    if way not in ("numbers", "texts", "categories", "further columns"):  # which are other tables to learn from
        other = TableEncoder(texts=["code"]).fit(WAYS[way](TABLE))
        np.testing.assert_array_equal(other.transform(typed(TABLE)), encoder.transform(typed(TABLE)))


def test_every_row_is_one_level_and_gaps_are_marked():
    encoder = TableEncoder().fit(TABLE)
    assert encoder.numbers_ == ["age", "kids", "flag"] and encoder.texts_ == TEXTS and encoder.notes_ == []
    out = pd.DataFrame(encoder.transform(TABLE), columns=encoder.get_feature_names_out())
    for name in TEXTS:
        levels = out.loc[:, [column.startswith(f"{name}_") for column in out]]
        assert (levels.sum(axis=1) == 1).all()
        assert (levels[f"{name}_nan"] == TABLE[name].isna()).all()
    assert (out["missingindicator_age"] == TABLE["age"].isna()).all()
    assert out["age"][TABLE["age"].isna()].unique().tolist() == [np.median(TABLE["age"].dropna().tolist())]


def test_columns_that_are_named_are_all_that_is_read():
    encoder = TableEncoder(texts=["city"], numbers=["age"]).fit(TABLE)
    assert encoder.transform(TABLE).shape[1] == 2 + 4
    passing = TableEncoder(texts=TEXTS, numbers=["age"], remainder="passthrough").fit(TABLE.fillna(0))
    assert passing.get_feature_names_out()[-2:].tolist() == ["kids", "flag"]


def test_a_pipeline_of_the_user_s_own():
    model = OptFairPost(make_pipeline(TableEncoder(), LogisticRegression(max_iter=2000)), cv=2, random_state=0)
    model.fit(TABLE, Y, sensitive_features=GROUPS)
    np.testing.assert_array_equal(model.predict(TABLE), model.predict(typed(TABLE)))
    assert clone(model.estimator[0]).get_params() == TableEncoder().get_params()


def test_what_is_refused():
    cases = [
        (lambda: TableEncoder().fit(np.zeros((3, 2))), "X: is a ndarray without column names; give a data frame."),
        (
            lambda: TableEncoder().fit(pd.DataFrame(np.eye(2), columns=["a", "a"])),
            "X: has two columns named 'a'; rename one of them.",
        ),
        (lambda: TableEncoder(texts=["b"]).fit(TABLE), "texts, numbers: 'b' is not among the columns of X."),
        (
            lambda: TableEncoder().fit(TABLE).transform(TABLE[["age"]]),
            "X: has no column 'kids', which was there when the encoder was fitted; add it.",
        ),
        (
            lambda: TableEncoder().fit(TABLE.assign(age=np.inf)[["age", "kids"]].assign(age=[np.inf, 1.0] * 100)),
            "column 'age': 100 values are infinite (the first in row 1); give a number or leave the cell empty.",
        ),
        (
            lambda: TableEncoder().fit(pd.DataFrame({"a": ["1,5", "2,5"] * 20})),
            "column 'a': holds numbers with decimal commas, such as '1,5'; convert them to numbers, or name the column "
            "in TableEncoder(texts=['a']) if they are codes.",
        ),
        (
            lambda: TableEncoder().fit(pd.DataFrame({"a": [[1], [2]]})),
            "column 'a': holds values of type mixed, which cannot be a feature; convert them to numbers or texts, or "
            "leave the column out.",
        ),
        (lambda: TableEncoder(remainder="keep").fit(TABLE), "remainder='keep': must be one of 'drop', 'passthrough'."),
    ]
    for call, message in cases:
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == message


@pytest.mark.parametrize("points", [False, True])
def test_a_zero_has_no_sign(points):
    assert cell_text(-0.0, points=points) == cell_text(0.0, points=points) == ("0.0" if points else "0")
    assert cell_text("-0.0", points=True) == "-0.0" and cell_text(-1.0) == "-1"
