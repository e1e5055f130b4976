"""One answer from a model of `optfair fit`, whether it is asked in Python or by `optfair predict`, and how."""

import numpy as np
import pandas as pd
import pytest

from optfair import OptFairPost, load_model
from tests.estimators.writings import WAYS, make_table, to_nullable, typed

# That columns of other names are left out is said in a warning, which test_missing.py of the estimators looks at.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")

NEW = make_table(150, seed=1, gaps=0.3)[0]


@pytest.fixture
def fitted(run, tmp_path):
    """Fit by the command line and return the file of the model."""
    pytest.importorskip("skops", reason="models are saved by skops")
    table, groups, y = make_table(300)
    typed(table).assign(g=groups, y=y).to_csv(tmp_path / "people.csv", index=False)
    options = ["--label", "y", "--group", "g", "--category", "code", "--tolerance", "0.02"]
    assert run("fit", tmp_path / "people.csv", *options, "-o", tmp_path / "m.skops")[0] == 0
    return tmp_path / "m.skops"


def file_answers(run, model, path):
    """Return the predictions of `optfair predict`."""
    out = path.with_suffix(".out.csv")
    assert run("predict", model, path, "--only", "-o", out)[0] == 0
    return pd.read_csv(out)["prediction"].tolist()


def test_python_and_files_give_one_answer(fitted, run, tmp_path):
    model = load_model(fitted)
    answers = model.predict(typed(NEW)).tolist()
    assert (model.predict_proba(typed(NEW)).max(axis=1) < 0.99).mean() > 0.02  # the hash decides for some
    for write in WAYS.values():
        np.testing.assert_array_equal(model.predict(write(NEW)), answers)
    typed(NEW).to_csv(tmp_path / "new.csv", index=False)
    assert file_answers(run, fitted, tmp_path / "new.csv") == answers
    to_nullable(NEW).iloc[:, ::-1].assign(more=1).to_csv(tmp_path / "more.csv", index=False)
    assert file_answers(run, fitted, tmp_path / "more.csv") == answers


@pytest.mark.parametrize("way", ["None", "nullable", "categories", "arrow types"])
def test_parquet_gives_the_same_answer(fitted, run, tmp_path, way):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    table = WAYS[way](NEW)
    table.to_parquet(tmp_path / "new.parquet")
    assert file_answers(run, fitted, tmp_path / "new.parquet") == load_model(fitted).predict(typed(NEW)).tolist()


def test_a_model_made_in_python_reads_texts_that_look_like_numbers(run, tmp_path):
    """Its columns are read from a file as what they were, also those that its encoder leaves out."""
    pytest.importorskip("skops", reason="models are saved by skops")
    table, groups, y = make_table(300)
    codes = table["code"].map({"7": "007", "12": "012", "40": "7"}, na_action="ignore")
    people = typed(table).assign(code=codes, same="x")
    with pytest.warns(UserWarning, match="column 'same' is 'x' in every row"):
        model = OptFairPost(cv=2, tolerance=0.02, random_state=0).fit(people, y, sensitive_features=groups)
    model.save(tmp_path / "m.skops")
    people.to_csv(tmp_path / "people.csv", index=False)
    assert file_answers(run, tmp_path / "m.skops", tmp_path / "people.csv") == model.predict(people).tolist()
