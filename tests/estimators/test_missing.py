"""Missing is missing: a person gets one answer, however they are written, from every model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from optfair import OptFairInPost, OptFairPost, OptFairWarning, load_model
from optfair.estimators.loading import untrusted_types
from tests.estimators.helpers import FRAME, SEX, Recorder, X, Y, make_post
from tests.estimators.writings import NAMES, WAYS, make_table, python_models, to_records, typed, with_missing

# That columns of other names are left out is said in a warning, which has a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")

NEW = make_table(60, seed=1, gaps=0.3)[0]
MODELS = python_models()


def assert_same_answers(model, one, other):
    np.testing.assert_array_equal(model.predict_proba(one), model.predict_proba(other))
    np.testing.assert_array_equal(model.predict(one), model.predict(other))


# -- one answer ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["default", "own, None", "own, categories", "in-processing"])
def test_a_person_gets_one_answer_however_they_are_written(name, way):
    assert_same_answers(MODELS[name], typed(NEW), WAYS[way](NEW))


@pytest.mark.parametrize("name", MODELS)
def test_a_person_gets_one_answer_alone_and_among_others(name):
    model, probabilities = MODELS[name], MODELS[name].predict_proba(typed(NEW))
    for k, record in enumerate(to_records(NEW)[:3]):
        np.testing.assert_allclose(model.predict_proba(record)[0], probabilities[k], atol=1e-12)
        assert model.predict(record).shape == (1,)


def test_a_saved_model_gives_the_same_answers(tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    for name in ("default", "own, None", "own, categories"):
        MODELS[name].save(tmp_path / "m.skops")
        copy = load_model(tmp_path / "m.skops", trusted=untrusted_types(tmp_path / "m.skops"))
        for write in WAYS.values():
            np.testing.assert_array_equal(copy.predict(write(NEW)), MODELS[name].predict(typed(NEW)))


def test_answers_do_not_depend_on_how_the_people_fitted_on_were_written():
    """A level for what is missing is one level, whatever it was written as."""
    names = [name for name in MODELS if name.startswith("default")]
    for name in names[1:]:
        np.testing.assert_allclose(MODELS[name].predict_proba(NEW), MODELS["default"].predict_proba(NEW), atol=1e-7)


def test_one_column_with_none_and_nan_has_one_missing_level():
    table, groups, y = make_table(300)
    mixed = with_missing(np.nan)(table)
    mixed.loc[::2, "city"] = table["city"][::2]  # None in every other row
    encoder = ColumnTransformer([("city", OneHotEncoder(), ["city"])])
    model = make_post(make_pipeline(encoder, LogisticRegression())).fit(mixed, y, sensitive_features=groups)
    levels = model.posterior_model_.model[0].named_transformers_["city"].categories_[0].tolist()
    assert levels[:-1] == ["Bonn", "Oslo", "Rome"] and np.isnan(levels[-1])
    assert_same_answers(model, table, mixed)


def test_a_pipeline_that_knows_none_keeps_it():
    """What a model of the user's own was fitted on is not rewritten; what it is asked is."""
    table, groups, y = make_table(300)
    imputer = SimpleImputer(missing_values=None, strategy="most_frequent")
    encoder = ColumnTransformer([("city", make_pipeline(imputer, OneHotEncoder()), ["city"])])
    model = make_post(make_pipeline(encoder, LogisticRegression())).fit(table[["city"]], y, sensitive_features=groups)
    assert_same_answers(model, table[["city"]], with_missing(np.nan)(table)[["city"]])


def test_arrays_and_lists_of_objects():
    table, groups, y = make_table(300)
    rows = table[["age", "kids"]].to_numpy()
    model = make_post(make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())).fit(
        rows, y, sensitive_features=groups
    )
    numbers = rows.astype(float)
    mask = np.isnan(numbers)
    for other in (
        numbers,
        rows.tolist(),
        np.where(mask, pd.NA, rows),
        np.ma.array(np.where(mask, 99.0, numbers), mask=mask),
    ):
        assert_same_answers(model, rows, other)
    whole = np.ma.array(np.where(mask, 0, numbers).astype(int), mask=mask)
    assert_same_answers(model, np.where(mask, np.nan, np.floor(numbers)), whole)
    text = np.where(table[["city"]].isna(), None, table[["city"]]).astype(object)
    by_text = make_post(make_pipeline(OneHotEncoder(), LogisticRegression())).fit(text, y, sensitive_features=groups)
    assert_same_answers(by_text, text, np.where(pd.isna(text), np.nan, text))
    assert_same_answers(by_text, text, np.where(pd.isna(text), pd.NA, text).tolist())


def test_what_has_the_form_fitted_on_reaches_the_model_as_it_is():
    model = make_post(Recorder()).fit(X, Y, sensitive_features=SEX)
    model.predict_proba(X)
    assert model.posterior_model_.model.predicted_on_[-1] is X
    array = make_post(Recorder()).fit(X.to_numpy(), Y, sensitive_features=SEX)
    rows = X.to_numpy()
    array.predict_proba(rows)
    assert array.posterior_model_.model.predicted_on_[-1] is rows


def test_in_then_post_too():
    table, groups, y = make_table(400)
    model = OptFairInPost(MODELS["in-processing"], threshold=0.9, random_state=0)
    model.fit(typed(table), y, sensitive_features=groups)
    for way in ("None", "nullable", "records", "further columns"):
        assert_same_answers(model, typed(NEW), WAYS[way](NEW))


# -- records and further columns -------------------------------------------------------------------------------
def test_records_need_column_names():
    model = make_post().fit(X.to_numpy(), Y, sensitive_features=SEX)
    for records in ({"x1": 1.0, "x2": 2.0}, [{"x1": 1.0, "x2": 2.0}]):
        with pytest.raises(
            ValueError, match=r"^X: is a dict, or a list of them, but the model was fitted without column names; "
        ):
            model.predict(records)


def test_records_whose_keys_are_not_those_of_the_model():
    model = make_post().fit(X, Y, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"^X: a record has the keys 'a', and none that the model reads: 'x1', 'x2'.$"):
        model.predict({"a": 1})
    with pytest.raises(
        ValueError, match=r"^X: a record has 'X1', which the model does not read, and not 'x1'; rename the key, "
    ):
        model.predict({"X1": 1.0, "x2": 0.0})
    with pytest.raises(
        ValueError, match=r"^X: 'x1' of a record is a list; give one value, and several people as a data frame "
    ):
        model.predict({"x1": [1.0, 2.0], "x2": [1.0, 2.0]})
    np.testing.assert_array_equal(
        model.predict({"x1": 1.0, "x2": 0.0, "name": "Ann"}), model.predict({"x1": 1.0, "x2": 0.0})
    )


def test_records_to_fit_on():
    table, groups, y = make_table(300)
    model = OptFairPost(cv=2, random_state=0).fit(to_records(table), y, sensitive_features=groups)
    assert model.feature_names_in_.tolist() == NAMES
    assert_same_answers(model, table, to_records(table))
    with pytest.raises(
        ValueError, match=r"^X: is one record, a dict; give a data frame or a list of dicts, one for each person.$"
    ):
        OptFairPost().fit(to_records(table)[0], y, sensitive_features=groups)


def test_further_columns_are_left_out_and_absent_ones_named():
    model = make_post().fit(X, Y, sensitive_features=SEX)
    wide = X.assign(note="text")[["note", "x2", "x1"]]
    assert_same_answers(model, X, wide)
    with pytest.raises(ValueError, match="seen at fit time, yet now missing:\n- x2"):
        model.predict(wide[["note", "x1"]])
    with pytest.raises(ValueError, match=r"^X: has 2 columns named 'x1'; give every column a name of its own.$"):
        model.predict(pd.concat([wide, wide[["x1"]]], axis=1))


@pytest.mark.filterwarnings("error::optfair.OptFairWarning")
def test_further_columns_are_named_in_a_warning():
    model = make_post(sensitive_features="sex").fit(X.assign(sex=SEX), Y)
    for rows in (X, X.assign(sex=SEX), X[["x1", "x2"]].to_dict("records")):
        model.predict(rows)
    one = r"^X: 1 column is not read by the model, and left out: 'note'.$"
    for rows in (X.assign(note=1), X.assign(note=1).to_dict("records"), {"x1": 1.0, "x2": 0.0, "note": None}):
        with pytest.warns(OptFairWarning, match=one):
            model.predict(rows)
    with pytest.warns(OptFairWarning, match=r"^X: 2 columns are not read by the model, and left out: 'note', 'b'.$"):
        model.predict(X.assign(note=1, b=2))


def test_further_columns_beside_sensitive_ones():
    frame = X.assign(sex=SEX)
    model = make_post(sensitive_features="sex").fit(frame, Y)
    for other in (frame.assign(note=1)[["note", "sex", "x2", "x1"]], X.assign(note=1), X.to_dict("records")):
        assert_same_answers(model, frame, other)


def test_a_text_among_numbers_is_named_by_the_encoder_and_left_to_other_models():
    model = MODELS["own, None"]
    with pytest.raises(ValueError, match="could not convert string to float: 'many'"):
        model.predict({"age": "many", "city": "Rome"})
    table, groups, y = make_table(300)
    ids = table[["age"]].astype(float).fillna(0).assign(id=np.arange(300))
    encoder = ColumnTransformer([("age", StandardScaler(), ["age"])])
    unread = make_post(make_pipeline(encoder, LogisticRegression())).fit(ids, y, sensitive_features=groups)
    np.testing.assert_array_equal(unread.predict_proba(ids.assign(id="A12")), unread.predict_proba(ids))
    with pytest.raises(
        ValueError, match=r"^column 'age': 'many' \(row 2\) is not a number, and the column held numbers"
    ):
        MODELS["default"].predict([{"age": 1, "kids": 2}, {"age": "many", "kids": 2}])


# -- the default estimator -------------------------------------------------------------------------------------
def test_the_default_estimator_reads_texts_and_gaps_and_says_what_it_leaves_out():
    table, groups, y = make_table(300)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(300) % 50, "D")
    with pytest.warns(
        UserWarning, match=r"^column 'day' holds dates, such as '2026-01-01 00:00:00', which do not recur"
    ):
        model = OptFairPost(cv=2, random_state=0).fit(table.assign(day=days), y, sensitive_features=groups)
    plain = OptFairPost(cv=2, random_state=0).fit(table, y, sensitive_features=groups)
    Z = model.joint_posterior(table.assign(day=days))
    assert Z.shape == plain.joint_posterior(table).shape == (300, 3, 3)


def test_a_fitted_model_is_shown_what_was_written():
    """Where the rows fitted on have no gaps, and no text with a point, the model itself may still know both."""
    rng = np.random.default_rng(0)
    city = np.array(["A", None, "7.0", "7"], dtype=object)[rng.integers(0, 4, 800)]
    table = pd.DataFrame({"city": pd.Series(city, dtype=object), "x": rng.standard_normal(800)})
    y = np.where(pd.isna(table["city"]) | (table["city"] == "7.0"), "yes", "no")
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["city"]), remainder="passthrough")
    own = make_pipeline(encoder, LogisticRegression()).fit(table, y)
    groups = rng.integers(0, 2, 800)
    plain = (table["city"] == "A") | (table["city"] == "7")
    model = OptFairPost(own, cv="prefit", tolerance=1.0, group_estimator=clone(own), random_state=0)
    model.fit(table[plain], y[plain.to_numpy()], sensitive_features=groups[plain.to_numpy()])
    np.testing.assert_allclose(model.joint_posterior(table).sum(axis=1), own.predict_proba(table), rtol=1e-9)


def test_columns_in_another_order_are_refused_with_the_way_out():
    table = FRAME[["x1", "x2"]]
    model = make_post().fit(table, Y, sensitive_features=SEX)
    with pytest.raises(ValueError, match=r"same order as they were in fit. Give X\[list\(model.feature_names_in_\)\]"):
        model.predict(table[["x2", "x1"]])
    turned = table[["x2", "x1"]][list(model.feature_names_in_)]
    assert (model.predict(turned) == model.predict(table)).all()


def test_a_column_may_be_named_self():
    table = FRAME[["x1"]].copy()
    table["self"] = np.arange(len(FRAME)) % 3
    model = make_post().fit(table, Y, sensitive_features=SEX)
    assert (model.predict(table.astype({"self": "Int64"})) == model.predict(table)).all()


def test_an_empty_text_is_a_missing_number():
    table = FRAME[["x1", "x2"]].copy()
    table.loc[:9, "x1"] = np.nan
    model = OptFairPost(tolerance=0.1, random_state=0, cv=2).fit(table, Y, sensitive_features=SEX)
    records = [{"x1": "" if np.isnan(a) else str(a), "x2": str(b)} for a, b in table.head(20).to_numpy()]
    assert (model.predict(records) == model.predict(table.head(20))).all()


def test_categories_of_a_column_of_names_are_not_remembered(tmp_path):
    pytest.importorskip("skops")
    names = pd.Series([f"person {i}" for i in range(len(FRAME))], dtype="category")
    table = FRAME[["x1", "x2"]].assign(name=names.to_numpy())
    table["name"] = table["name"].astype("category")
    chosen = make_column_transformer((StandardScaler(), ["x1", "x2"]))
    model = make_post(make_pipeline(chosen, LogisticRegression())).fit(table, Y, sensitive_features=SEX)
    model.save(tmp_path / "model.skops")
    assert b"person 7" not in (tmp_path / "model.skops").read_bytes()
