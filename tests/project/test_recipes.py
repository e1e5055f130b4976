"""The query of the recipe for databases gives the answers of every model that it says it is for."""

import json
import re
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairPost, TableEncoder
from optfair.portable.scorer_file import scorer_module

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "production.md"
FEW, MANY = 900, 4_000  # people: their factors are calibrated, or all cells at once


def fair_query(*arguments):
    """Return the query by the function that the page prints."""
    [source] = re.findall(r"```python\n(def fair_query.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    names: dict = {}
    exec(compile(source, "production.md", "exec"), names)
    return names["fair_query"](*arguments)


def make_people(n, seed):
    """Return people with gaps, rare texts and names that need quotes; their groups, and their classes."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    table = pd.DataFrame({'the "age"': rng.normal(40, 9, n) + 4 * (group == "b"), "kids": rng.integers(0, 4, n)})
    table["city"] = rng.choice(
        ["Rome", "L'Aquila", None, *(f"village {k}" for k in range(30))], n, p=[0.4, 0.3, 0.1, *[0.2 / 30] * 30]
    )
    table["plain"] = rng.choice(["x", "y"], n)
    table.loc[rng.random(n) < 0.2, 'the "age"'] = np.nan
    score = (table['the "age"'].fillna(40) - 42) / 9 + (table["city"] == "Rome") + 0.7 * rng.standard_normal(n)
    return table, group, np.array(["no", "it's", "yes"])[np.digitize(score, [-0.3, 0.9])]


PEOPLE, GROUPS, Y = make_people(MANY, 0)
NEW, _, _ = make_people(300, 1)
NEW.loc[0, "plain"] = "never seen"
NEW.loc[1, "plain"] = None
NEW.loc[2, "city"] = ""
LOGISTIC = make_pipeline(TableEncoder(), StandardScaler(), LogisticRegression(max_iter=500))
MODELS = {
    "joint": {},
    "factored": {"posterior": "factored"},
    "not calibrated": {"calibration": "none"},
    "factored, not calibrated": {"posterior": "factored", "calibration": "none"},
    "fitted": {"estimator": FrozenEstimator(LOGISTIC.fit(PEOPLE, Y))},
    "a fitted model, recalibrated": {"estimator": FrozenEstimator(LOGISTIC.fit(PEOPLE, Y)), "calibration": "posterior"},
    "groups of a joint model": {"calibration": "groups"},
}


def fit_model(name, n):
    settings = {"tolerance": 0.03, "cv": 2, "random_state": 0, "temperature": 0.02}
    return OptFairPost(**settings, **MODELS[name]).fit(PEOPLE[:n], Y[:n], sensitive_features=GROUPS[:n])


@pytest.mark.parametrize("n", [FEW, MANY])
@pytest.mark.parametrize("name", MODELS)
def test_the_query_gives_the_answers_of_the_model(name, n, tmp_path):
    model = fit_model(name, n)
    model.export(tmp_path / "fair.json")
    document = json.loads((tmp_path / "fair.json").read_text("utf-8"))
    keys = [f"id-{k}" for k in range(len(NEW))]
    draws = [scorer_module().draw(model.rule_.key, key, "blake2b") for key in keys]
    database = sqlite3.connect(":memory:")
    NEW.assign(id=keys, u=draws).to_sql("people", database, index=False)
    rows = pd.read_sql(fair_query(document, "people", "id", "u"), database)
    np.testing.assert_allclose(rows[["h0", "h1", "h2"]], model.predict_proba(NEW), atol=1e-9)
    assert rows["answer"].tolist() == model.predict(NEW, keys=keys).tolist()


def test_a_model_that_no_query_is_for_is_refused(tmp_path):
    numbers = PEOPLE[["kids"]]
    model = OptFairPost(GaussianNB(), cv=2, random_state=0).fit(numbers, Y, sensitive_features=GROUPS)
    model.export(tmp_path / "fair.json")
    with pytest.raises(ValueError, match="this is for blind rules on linear models"):
        fair_query(json.loads((tmp_path / "fair.json").read_text("utf-8")), "people", "id", "u")


def test_every_kind_of_calibration_is_among_the_models(tmp_path):
    kinds = set()
    for name in MODELS:
        for n in (FEW, MANY):
            fit_model(name, n).export(tmp_path / "fair.json")
            calibration = json.loads((tmp_path / "fair.json").read_text("utf-8"))["calibration"] or {}
            keeps, classes = bool(calibration.get("keeps_classes")), bool(calibration.get("classes"))
            kinds.add((calibration.get("kind"), keeps, classes))
    assert kinds >= {(None, False, False), ("joint", False, False), ("joint", True, False), ("factors", False, True)}
