"""One row of data, written in every way a user could write it, gives one answer: 1,000 tables of 5,000 people."""

import importlib.util
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optfair import load_model
from optfair.cli.main import main
from tests.estimators.writings import NAMES, WAYS, make_table, python_models, typed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out"),
]

PEOPLE = make_table(200, seed=3, gaps=0.3)[0]
MISSING = [None, np.nan, pd.NA, pd.NaT, np.float32("nan"), Decimal("nan"), np.datetime64("NaT")]
# Other writings of one value. float32 only where it has all digits.
EQUIVALENTS = {
    "age": [float, np.float64, Decimal, str, lambda v: f"{v:.4f}", lambda v: f"{v:e}"],
    "kids": [int, float, np.int8, np.uint64, np.float32, Decimal, str, lambda v: f"{v}.0"],
    "flag": [bool, np.bool, int, float, np.int8, lambda v: str(int(v))],
    "city": [str, np.str_],
    "code": [str, np.str_, int, float, np.int32, np.float32, lambda v: f"{v}.0"],
    "word": [str, np.str_],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return models by name: fitted in Python, read from a file, and fitted by the command line."""
    models = python_models(300)
    if importlib.util.find_spec("skops") is not None:
        folder = tmp_path_factory.mktemp("models")
        models["default"].save(folder / "default.skops")
        models["from a file"] = load_model(folder / "default.skops")
        table, groups, y = make_table(300)
        typed(table).assign(g=groups, y=y).to_csv(folder / "people.csv", index=False)
        for method in ("post", "in"):
            words = ["fit", folder / "people.csv", "--label", "y", "--group", "g", "--category", "code"]
            words += ["--tolerance", "0.05", "--method", method, "-o", folder / f"{method}.skops"]
            assert main([*map(str, words), *(["--rounds", "4"] if method == "in" else [])]) == 0
            models[f"by the command line, {method}"] = load_model(folder / f"{method}.skops")
    return models


@pytest.fixture(scope="module")
def answers(models):
    """Return the classes and probabilities of all people, written in the ordinary way, by model."""
    return {name: (model.predict(typed(PEOPLE)), model.predict_proba(typed(PEOPLE))) for name, model in models.items()}


@st.composite
def patchworks(draw, table):
    """Draw a table of objects, or records, in which every cell is written in a way of its own."""
    records = []
    for row in table.itertuples(index=False, name=None):
        record = {}
        for name, value in zip(table, row, strict=True):
            if value is not None:
                record[name] = draw(st.sampled_from(EQUIVALENTS[name]))(value)
            elif draw(st.booleans()) or not record:
                record[name] = draw(st.sampled_from(MISSING))
        records.append(record)
    shape = draw(st.sampled_from(["records", "frame", "inferred frame", "one"]))
    if shape == "records":
        return records
    if shape == "one" and len(records) == 1:
        return records[0]
    columns = {name: [record.get(name) for record in records] for name in NAMES}
    if shape == "frame":
        return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return pd.DataFrame(columns)


@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_person_one_answer(models, answers, data):
    name = data.draw(st.sampled_from(sorted(models)))
    size = data.draw(st.sampled_from([1, 1, 2, 16]))  # 5 on average; alone a person's columns have types of their own
    rows = data.draw(st.lists(st.integers(0, len(PEOPLE) - 1), min_size=size, max_size=size))
    table = PEOPLE.iloc[rows]
    way = data.draw(st.sampled_from([*WAYS, *["patchwork"] * len(WAYS)]))
    X = data.draw(patchworks(table)) if way == "patchwork" else WAYS[way](table)
    classes, probabilities = answers[name]
    np.testing.assert_allclose(models[name].predict_proba(X), probabilities[rows], atol=1e-9)
    np.testing.assert_array_equal(models[name].predict(X), classes[rows])
