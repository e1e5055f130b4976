"""Who else is asked about changes no value of a person, whatever type the values in a column have; at few calls."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair import OptFairPost, TableEncoder
from optfair.estimators.text_levels import fitted_encoder
from optfair.inputs.table_form import ColumnForm
from optfair.serving import singles
from optfair.serving.singles import KNOWN, SingleReader, joined_column
from tests.serving.helpers import FAST, array_case, mixed_encoder, serving
from tests.threads import single_thread

N = 400
NUMBERS = [1, 1.0, True, False, 0, 3, 7.5, None, -1]
STRANGE = [*NUMBERS, "3", "3.0", 7, 8, "x", "y", "nan", "2020-01-02", 2**53]


class Counted(LogisticRegression):
    """Logistic regression that counts how often it is asked."""

    n_calls = 0

    def predict_proba(self, X):
        Counted.n_calls += 1
        return super().predict_proba(X)


def make_people(seed, n=N):
    """Return a table with categories of every kind, dates, and codes that are numbers."""
    rng = np.random.default_rng(seed)
    mixture = np.array([1, "1", "a", 2.5], dtype=object)
    return pd.DataFrame(
        {
            "age": rng.normal(size=n).round(2),
            "grade": pd.Categorical(rng.integers(1, 5, n)),
            "mixture": pd.Categorical(mixture[rng.integers(0, 4, n)]),
            "zip": pd.Categorical(rng.permutation(n).astype(str)),  # too many to be remembered
            "kind": pd.Categorical(rng.choice(["a", "b", "3"], n)),
            "code": rng.integers(0, 4, n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, n), "D"),
        }
    )


def as_codes(X):
    """Return the columns as numbers, categories by the position that pandas gives them."""
    columns = {name: X[name].cat.codes if str(X[name].dtype) == "category" else X[name] for name in ("grade", "kind")}
    return pd.DataFrame({"age": X["age"].astype(float)} | columns)


ENCODERS = {
    "texts": lambda: TableEncoder(texts=["code"]),
    "positions of categories": lambda: FunctionTransformer(as_codes),
}


@pytest.fixture(scope="module", params=ENCODERS)
def model(request):
    table, rng = make_people(0), np.random.default_rng(1)
    group = rng.integers(0, 2, N)
    table["age"] += 2 * group  # so that the rule is a warm one, and few people are certain
    y = np.digitize(table["grade"].astype(int) + table["age"] + table["code"] / 2 + rng.standard_normal(N), [3, 5])
    with single_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on columns that are not used
        pipeline = make_pipeline(ENCODERS[request.param](), Counted(max_iter=200))
        return OptFairPost(pipeline, **FAST).fit(table, y, sensitive_features=group)


def as_record(row):
    return row | {"day": str(row["day"])[:10]}


@pytest.mark.filterwarnings("ignore")  # pandas, on True among the categories 1 and 2
def test_whoever_else_is_asked_about_an_answer_is_that_of_predict_alone(model):
    """Without keys, so that the draw is made from every value, also of columns that the model does not read."""
    chance = random.Random(0)
    people = [as_record(row) for row in make_people(2, 60).astype(object).to_dict("records")]
    for person in people[::2]:
        for name in chance.sample(list(person)[1:], chance.choice([1, 1, 2])):
            person[name] = chance.choice(NUMBERS if name == "code" else STRANGE)
    people += [
        people[0] | {name: value} for name in list(people[0])[1:] for value in (NUMBERS, STRANGE)[name != "code"]
    ]
    chance.shuffle(people)
    with serving(model) as service:
        status, content = service.ask("/predict", {"people": [{"features": person} for person in people]})
        assert status == 200, content
        some = list(range(0, len(people), 7))
        reasons = service.ask("/explain", {"people": [people[k] for k in some]})[1]["people"]
    for person, entry in zip(people, content["answers"], strict=True):
        h = model.predict_proba([person])[0]
        np.testing.assert_allclose(list(entry["probabilities"].values()), h, atol=2e-9, err_msg=str(person))
        assert entry["answer"] == model.predict([person])[0], person
    assert [entry["answer"] for entry in reasons] == [content["answers"][k]["answer"] for k in some]


def test_people_of_known_categories_are_asked_about_in_one_call(model):
    """A call for each takes four seconds for a thousand people."""
    people = [as_record(row) for row in make_people(3, 200).astype(object).to_dict("records")]
    with serving(model) as service:
        Counted.n_calls = 0
        service.answers([{"features": person} for person in people])
        assert Counted.n_calls == 1
        service.answers([{"features": person | {"grade": k % 2 + 8}} for k, person in enumerate(people)])
        assert Counted.n_calls == 3


def test_true_is_the_text_true_where_a_code_is_a_number(model):
    people = [as_record(row) for row in make_people(4, 200).astype(object).to_dict("records")]
    values = [True, 1, False, 0]
    h = [model.predict_proba([person | {"code": value} for person in people]) for value in values]
    k = int(np.abs(h[0] - h[1]).max(axis=1).argmax())  # whose answer depends on it most, if the model reads codes
    is_code = fitted_encoder(model) is not None
    with serving(model) as service:
        asked = [people[k] | {"code": value} for value in values]
        together = service.ask("/predict", {"people": asked})[1]["answers"]
        assert together == [service.ask("/predict", person)[1]["answers"][0] for person in asked]
    for entry, one_h in zip(together, h, strict=True):
        np.testing.assert_allclose(list(entry["probabilities"].values()), one_h[k], atol=2e-9)
    assert (together[0] != together[1]) == is_code and together[0] == (together[2] if is_code else together[1])


def test_arrays_with_values_of_several_types():
    asked = array_case(OptFairPost(mixed_encoder(), **FAST), text=True)
    people = [[0.5, value, 1] for value in ("u", None, "zz", True, 1, "w")] * 3
    with serving(asked.model) as service:
        together = service.ask("/predict", {"people": people})[1]["answers"]
        assert together == [service.ask("/predict", person)[1]["answers"][0] for person in people]


# -- columns of one value --------------------------------------------------------------------------------------
GRADE = ColumnForm("category", "category", categories=(1, 2, 3))


def test_values_of_one_column_stay_apart_if_one_would_change_another():
    reader = SingleReader("grade", GRADE, False)
    known = [reader.read(value) for value in (1, 3.0, None)]
    assert {single.kind for single in known} == {KNOWN}
    others = [reader.read(value) for value in (7, 7.0, "7", 8, "x")]
    assert len({single.kind for single in (*known, *others)}) == 1 + len(others)
    column = joined_column([*known, known[0], known[1]])
    assert column.isna().tolist() == [False, False, True, False, False] and column.dtype == known[0].column.dtype
    assert column.dropna().tolist() == [1, 3, 1, 3]
    assert joined_column([others[0]] * 3).tolist() == [7, 7, 7]


def test_what_the_form_of_a_column_cannot_hold_is_told_by_the_model():
    reader = SingleReader("day", ColumnForm("other", "datetime64[ns]"), False)
    assert reader.read(2**70).kind == (singles.UNREADABLE, int, 2**70)
    with pytest.raises(OverflowError):
        joined_column([reader.read(2**70)])
    assert reader.read("2020-01-02").kind == reader.read(None).kind == "datetime64[ns]"
    assert reader.read("x").kind not in ("datetime64[ns]", reader.read(2**70).kind)


def test_texts_of_too_many_categories_keep_their_types_and_pandas_is_not_asked_about_each(monkeypatch):
    reader = SingleReader("zip", ColumnForm("other", "category"), False)
    values = ["7", "x", 7, 8, 7.5, True, None, 2**63, 2**70]
    kinds = [reader.read(value).kind for value in values]
    assert len(set(kinds)) == 7 and kinds[0] == kinds[1] and kinds[2] == kinds[3]
    for value in values:
        assert joined_column([reader.read(value)]).dtype == reader.column(value).dtype
    monkeypatch.setattr(SingleReader, "column", None)
    assert joined_column([reader.read("7"), reader.read("x")]).tolist() == ["7", "x"]
    SingleReader("grade", GRADE, False).read("not seen before")
