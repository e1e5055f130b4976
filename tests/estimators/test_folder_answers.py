"""Fair classifiers answer for people in folders as they do in memory, file by file, and go on where they stopped."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from optfair import OptFairIn, load_model
from optfair.storage.parts import PartError
from tests.estimators.folder_people import FEATURES, PEOPLE, SAMPLE, N, make_post, write_people
from tests.estimators.helpers import assert_error
from tests.utils.stages import recorded

pytest.importorskip("pyarrow", reason="people are in Parquet files")


# -- answering ---------------------------------------------------------------------------------------------------
def read_answers(folder):
    return pd.read_parquet(folder).reset_index(drop=True)


@pytest.fixture(scope="module")
def classifiers():
    """Return fair classifiers by name, and the groups that they are told."""
    features, rows = PEOPLE[FEATURES][:SAMPLE], PEOPLE[:SAMPLE]
    sex, y = rows["sex"], rows["y"]
    blind = make_post().fit(features, y, sensitive_features=sex)
    aware = make_post(awareness="aware").fit(features, y, sensitive_features=rows[["sex", "old"]])
    inside = make_post(sensitive_features="sex").fit(rows[[*FEATURES, "sex"]], y)
    options = {"tolerance": 0.05, "rounds": 20, "random_state": 0}
    learner = OptFairIn(LogisticRegression(), **options).fit(features, y, sensitive_features=sex)
    plain = make_post().fit(features.to_numpy(), y.to_numpy(), sensitive_features=sex)
    named = {"blind": blind, "in X": inside, "OptFairIn": learner, "without names": plain}
    return {name: (model, []) for name, model in named.items()} | {"aware": (aware, ["sex", "old"])}


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Return a folder with what the classifiers read and a key, in another order of columns."""
    columns = ["id", "sex", *FEATURES[::-1], "old"]
    return write_people(tmp_path_factory.mktemp("some") / "all", PEOPLE[columns], 3, 500)


NAMES = ["blind", "in X", "OptFairIn", "aware"]


@pytest.mark.parametrize("keys", [None, "id", ["old", "id"]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_in_memory(classifiers, some, tmp_path, name, keys):
    model, groups = classifiers[name]
    result = model.score_parts(some, tmp_path / "out", sensitive_features=groups or None, keys=keys, probabilities=True)
    assert (result.n_rows, len(result.written), result.kept) == (N, 3, [])
    answers = read_answers(tmp_path / "out")
    told = {"sensitive_features": PEOPLE[groups]} if groups else {}
    X = PEOPLE[[*FEATURES, *(["sex"] if name == "in X" else [])]]
    persons = None
    if keys is not None:
        persons = PEOPLE["id"] if keys == "id" else list(zip(PEOPLE["old"], PEOPLE["id"], strict=True))
    np.testing.assert_array_equal(answers["prediction"], model.predict(X, keys=persons, **told))
    h = answers[[f"p_{k}" for k in model.classes_]].to_numpy()
    np.testing.assert_allclose(h, model.predict_proba(X, **told), rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(answers[["id", "sex", "x2", "x1", "old"]], PEOPLE[["id", "sex", "x2", "x1", "old"]])


def test_a_model_without_names_takes_all_columns_but_keys(classifiers, tmp_path):
    model, _ = classifiers["without names"]
    folder = write_people(tmp_path / "all", PEOPLE[[*FEATURES, "id"]])
    model.score_parts(folder, tmp_path / "out", keys="id")
    expected = model.predict(PEOPLE[FEATURES].to_numpy(), keys=PEOPLE["id"])
    np.testing.assert_array_equal(read_answers(tmp_path / "out")["prediction"], expected)


def test_undecided_people_are_drawn_for_by_their_keys(undecided_post, tmp_path):
    """With a rule that is randomised for most rows, keys matter; an id is the same as a number and as a text."""
    table = PEOPLE[["x1", "x2", "id"]].assign(id=PEOPLE["id"] // 4)
    folder = write_people(tmp_path / "all", table)
    answers = {}
    for name, keys in (("rows", None), ("ids", "id")):
        undecided_post.score_parts(folder, tmp_path / name, keys=keys, only=True)
        answers[name] = read_answers(tmp_path / name)
        assert list(answers[name]) == ["prediction"]
    X = table[FEATURES]
    np.testing.assert_array_equal(answers["rows"]["prediction"], undecided_post.predict(X))
    np.testing.assert_array_equal(answers["ids"]["prediction"], undecided_post.predict(X, keys=table["id"]))
    as_texts = undecided_post.predict(X, keys=table["id"].astype(str))
    np.testing.assert_array_equal(as_texts, answers["ids"]["prediction"])
    assert (answers["rows"]["prediction"] != answers["ids"]["prediction"]).any()


def test_sampled_answers_are_drawn_anew_for_every_part(undecided_post, tmp_path):
    """A seed must not give the people of each file the same numbers: identical people then all get one answer."""
    alike = pd.DataFrame({"x1": np.zeros(60), "x2": np.zeros(60)})
    folder = write_people(tmp_path / "all", alike, n_files=60)
    model = pickle.loads(pickle.dumps(undecided_post)).set_params(decision="sampled", random_state=0)
    h = model.predict_proba(alike)[0]
    assert h.max() < 0.9  # 60 equal answers by chance: less than 0.2 %
    model.score_parts(folder, tmp_path / "out")
    assert read_answers(tmp_path / "out")["prediction"].nunique() > 1


# -- resuming ----------------------------------------------------------------------------------------------------
def test_a_second_call_makes_what_is_not_there(classifiers, some, tmp_path):
    model, _ = classifiers["blind"]
    source, out = tmp_path / "source", tmp_path / "out"
    write_people(source, PEOPLE[[*FEATURES, "id"]])
    first = model.score_parts(source, out)
    states = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert first.written == ["0.parquet", "1.parquet", "2.parquet"] == sorted(states)
    os.unlink(out / "1.parquet")
    model.predict(PEOPLE[FEATURES])  # an answer leaves the model what it is
    again = model.score_parts(source, out)
    assert (again.written, again.kept) == (["1.parquet"], ["0.parquet", "2.parquet"])
    assert (out / "0.parquet").stat().st_mtime_ns == states["0.parquet"]
    os.utime(source / "2.parquet", ns=(1, 1))  # has changed
    assert model.score_parts(source, out).written == ["2.parquet"]
    assert model.score_parts(source, out).written == []
    for other in (model.with_tolerance(0.2), pickle.loads(pickle.dumps(model)).set_params(decision="argmax")):
        assert len(other.score_parts(source, out).written) == 3
    assert len(model.score_parts(source, out, keys="id").written) == 3
    assert len(model.score_parts(source, out, keys="x1").written) == 3  # which is read as a feature anyway
    assert len(model.score_parts(source, out, keys="x1", only=True).written) == 3
    assert len(model.score_parts(source, out, keys="x1", only=True, probabilities=True).written) == 3


def test_rules_that_are_asked_for_since_change_no_answer(some, tmp_path):
    model = make_post().fit(PEOPLE[FEATURES][:SAMPLE], PEOPLE["y"][:SAMPLE], sensitive_features=PEOPLE["sex"][:SAMPLE])
    assert len(model.score_parts(some, tmp_path / "out").written) == 3
    model.path([0.1, 0.05])
    model.set_params(n_jobs=1, progress=True)
    assert model.score_parts(some, tmp_path / "out").written == []


def test_a_stop_leaves_whole_files(classifiers, tmp_path):
    model, _ = classifiers["blind"]
    table = PEOPLE[[*FEATURES, "id"]].copy()
    table.loc[N - 1, "x1"] = np.nan
    source, out = write_people(tmp_path / "source", table), tmp_path / "out"
    with pytest.raises(PartError) as caught:
        model.score_parts(source, out)
    assert str(caught.value).startswith(f"{source}/2.parquet: ") and "NaN" in str(caught.value)
    assert {path.name for path in out.iterdir()} <= {"0.parquet", "1.parquet", "_UNFINISHED"}
    n_there = len(list(out.glob("*.parquet")))
    write_people(tmp_path / "whole", PEOPLE[[*FEATURES, "id"]])
    os.replace(tmp_path / "whole" / "2.parquet", source / "2.parquet")
    result = model.score_parts(source, out)
    assert (len(result.kept), len(result.written)) == (n_there, 3 - n_there)
    np.testing.assert_array_equal(read_answers(out)["prediction"], model.predict(PEOPLE[FEATURES]))


DIGEST = """
import json, sys
from optfair import load_model
model = load_model(sys.argv[1])
print(json.dumps(model.score_parts(sys.argv[2], sys.argv[3], keys="id").written))
"""


@pytest.mark.parametrize("name", ["blind", "OptFairIn"])
def test_a_saved_model_is_known_again_in_another_process(classifiers, some, tmp_path, name):
    pytest.importorskip("skops", reason="models are saved by skops")
    model, out = classifiers[name][0], tmp_path / "out"
    model.save(tmp_path / "m.skops")
    load_model(tmp_path / "m.skops").score_parts(some, out, keys="id")
    command = [sys.executable, "-c", DIGEST, str(tmp_path / "m.skops"), str(some), str(out)]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONHASHSEED": "1"})
    assert json.loads(result.stdout or "null") == [], result.stderr


# -- refusals of answers -----------------------------------------------------------------------------------------
def test_questions_that_are_refused(classifiers, some, tmp_path):
    blind, aware, inside = (classifiers[name][0] for name in ("blind", "aware", "in X"))
    out = tmp_path / "out"
    step = "is for aware classifiers whose groups are not in X; leave it out."
    for model in (blind, inside):
        assert_error(f"sensitive_features: {step}", model.score_parts, some, out, sensitive_features="sex")
    message = "sensitive_features: missing; name the columns of the groups, which this rule is told."
    assert_error(message, aware.score_parts, some, out)
    message = "keys='ssn': is not a column; there are ['id', 'sex', 'x2', 'x1', 'old']."
    assert_error(message, blind.score_parts, some, out, keys="ssn")
    assert_error("keys=[3]: must name columns of the files.", blind.score_parts, some, out, keys=[3])
    for target in (some, some / "out", some / "0.parquet"):
        message = f"{target}: must be a folder outside of {some}, or one that is not there yet."
        assert_error(message, blind.score_parts, some, target)
    with pytest.raises(ValueError, match="must be a folder of this machine"):
        blind.score_parts(some / "0.parquet", out)
    with pytest.raises(ValueError, match="must be a folder of this machine"):
        blind.score_parts([str(some)], out)
    assert not out.exists()
    with pytest.raises(NotFittedError):
        make_post().score_parts(some, out)


def test_columns_that_are_there_already(classifiers, tmp_path):
    model, _ = classifiers["blind"]
    folder = write_people(tmp_path / "all", PEOPLE[FEATURES].assign(prediction=1))
    with pytest.raises(PartError) as caught:
        model.score_parts(folder, tmp_path / "out")
    assert str(caught.value).endswith(".parquet: already has a column 'prediction'; rename it, or write only answers.")
    assert not (tmp_path / "out").exists()
    model.score_parts(folder, tmp_path / "out", only=True)


def test_files_of_others_are_not_replaced(classifiers, some, tmp_path):
    model, _ = classifiers["blind"]
    out = write_people(tmp_path / "out", PEOPLE[FEATURES], 1)
    message = f"{out}/0.parquet: is there, but does not hold such answers; remove it, or write to another folder."
    assert_error(message, model.score_parts, some, out)
    (out / "0.parquet").write_bytes(b"half")
    assert_error(message, model.score_parts, some, out)


def test_columns_and_keys_that_are_missing_name_their_file(classifiers, tmp_path):
    model, _ = classifiers["blind"]
    folder = write_people(tmp_path / "all", PEOPLE[["x1", "id"]])
    message = "X: has no column 'x2', which the model reads; there are ['x1', 'id']."
    assert_error(message, model.score_parts, folder, tmp_path / "out")
    folder = write_people(tmp_path / "gaps", PEOPLE[[*FEATURES, "id"]].assign(id=PEOPLE["id"].where(PEOPLE["id"] != 7)))
    with pytest.raises(PartError) as caught:
        model.score_parts(folder, tmp_path / "out", keys="id")
    message = f"{folder}/0.parquet: keys: 1 of 1334 are missing (None, NaN or empty); every person needs one."
    assert str(caught.value) == message


def test_rows_are_counted_while_they_are_answered_for(classifiers, some, tmp_path):
    with recorded() as stages:
        classifiers["blind"][0].score_parts(some, tmp_path / "out")
    (work,) = stages.named("answering")
    assert (work.count, work.total, work.unit) == (N, N, "rows")
    assert work.rate() > 0
