"""``optfair fit``, ``predict`` and ``audit`` on folders of Parquet files do what they do on one table."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair import load_model
from optfair.cli import folders
from optfair.storage.measure import PartMeasure
from optfair.utils.progress import Stage
from tests.cli.helpers import CLASSES, FEATURES, FIT, make_predictions, make_train
from tests.estimators.folder_people import keep_in_files, write_people

# That columns of other names are left out is said in a warning, which test_missing.py of the estimators looks at.
pytestmark = pytest.mark.filterwarnings("ignore:X. .* not read by the model, and left out")

pytest.importorskip("pyarrow", reason="folders hold Parquet files")

N, SAMPLE = 3_000, 600
AUDIT = ["--label", "truth", "--group", "race", "--prediction", "answer"]
VOLATILE = ("title", "inputs", "created", "optfair")


@pytest.fixture
def people():
    """Return people with texts, gaps, truth values, two attributes and a key."""
    return make_train(N, seed=2).assign(id=np.arange(N) // 2, w=np.random.default_rng(2).integers(1, 4, N))


@pytest.fixture
def both(people, tmp_path):
    """Write the same people as a table and as a folder; return the paths."""
    people.to_parquet(tmp_path / "people.parquet", index=False)
    return tmp_path / "people.parquet", write_people(tmp_path / "people", people)


FIT_ALL = [*FIT, "--drop", "race,id,w", "--no-path"]


@pytest.fixture
def saved(run, both, tmp_path):
    """Return a model that was fitted to the table."""
    pytest.importorskip("skops", reason="models are saved by skops")
    assert run("fit", both[0], *FIT_ALL, "-o", tmp_path / "m.skops")[0] == 0
    return tmp_path / "m.skops"


def read_answers(folder):
    return pd.read_parquet(folder).reset_index(drop=True)


# -- audit -------------------------------------------------------------------------------------------------------
def document(run, source, tmp_path, *options):
    """Return (exit code, the verdict line, the numbers) of an audit."""
    output = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
    code, out, _ = run("audit", source, *options, "--json", output)
    content = json.loads(output.read_text())
    return code, out.splitlines()[-1], {name: part for name, part in content.items() if name not in VOLATILE}


AUDITS = {
    "eo": (AUDIT, {}),
    "no labels": (["--group", "race", "--prediction", "answer"], {}),
    "two criteria": ([*AUDIT, "--criterion", "eo", "--criterion", "ratio", "--favourable", "high"], {}),
    "two attributes": ([*AUDIT, "--group", "sex", "--reference", "pairwise"], {}),
    "marginals": ([*AUDIT, "--group", "sex", "--attributes", "marginals"], {}),
    "before": ([*AUDIT, "--before", "earlier"], {}),
    "one outcome": ([*AUDIT, "--outcome", "high"], {}),
    "missing groups": ([*AUDIT, "--missing", "group"], {"race": "B"}),
    "left out": ([*AUDIT, "--missing", "drop"], {"race": "B"}),
    "placeholders": ([*AUDIT, "--missing", "drop", "--na", "C"], {}),
}


@pytest.mark.parametrize("name", AUDITS)
def test_an_audit_counts_a_folder_as_a_table(run, tmp_path, name):
    options, gaps = AUDITS[name]
    table = make_predictions().assign(earlier=lambda frame: np.roll(frame["answer"], 5))
    for column, value in gaps.items():
        table[column] = table[column].where(table[column] != value, None)
    table.to_parquet(tmp_path / "people.parquet", index=False)
    folder = write_people(tmp_path / "people", table, dictionaries=["race", "truth", "answer"])
    one, other = (document(run, source, tmp_path, *options) for source in (tmp_path / "people.parquet", folder))
    assert one == other


def test_classes_that_are_numbers_in_one_column_and_texts_in_another(run, tmp_path):
    table = make_predictions()
    codes = {name: k for k, name in enumerate(CLASSES)}
    table = table.assign(truth=table["truth"].map(codes), answer=table["answer"].map(codes).astype(str))
    table.loc[table["answer"] == "2", "answer"] = "K"
    table.loc[table.index % 9 == 0, "answer"] = "unheard"
    table.to_parquet(tmp_path / "people.parquet", index=False)
    folder = write_people(tmp_path / "people", table)
    results = [run("audit", source, *AUDIT) for source in (tmp_path / "people.parquet", folder)]
    assert results[0][0] == results[1][0] and results[0][2] == results[1][2]
    assert "is predicted but never a label" in results[1][2]


def test_the_title_tells_the_folder(run, tmp_path):
    folder = write_people(tmp_path / "people", make_predictions())
    code, out, err = run("audit", folder, *AUDIT)
    assert (code, err) == (1, "") and out.startswith("Audit of people, dp within 0.01")
    assert "predictions in column 'answer'" in out.splitlines()[0] + out.splitlines()[1]
    gaps = tmp_path / "gaps.csv"
    assert run("audit", folder, *AUDIT, "-o", gaps)[0] == 1
    assert len(pd.read_csv(gaps)) == 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weight", "w"], "--weight: is not for folders, whose rows are counted one by one; write it to one table"),
        (["--cluster", "w"], "--cluster: is not for folders, "),
        (["--missing", "infer"], "--missing infer: is not for folders; give drop or group."),
        (["--sample", "5"], "unrecognized arguments: --sample 5"),
        (["--tolerance", "2"], "--tolerance 2: must be a number in [0, 1]"),
        (["--outcome", "none"], "--outcome none: there is no such class; there are high, low, mid."),
        (["--before", "zzz"], "--before zzz: there is no such column"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_audits_that_are_refused(run, tmp_path, options, message):
    folder = write_people(tmp_path / "people", make_predictions())
    code, out, err = run("audit", folder, *AUDIT, *options)
    assert (code, out) == (2, "") and message in err
    if "unrecognized" not in message:
        assert err.count("\n") == 1 and err.startswith("optfair audit: ")


def test_audits_of_columns_that_are_refused(refuse, tmp_path):
    table = make_predictions()
    plain = write_people(tmp_path / "plain", table)
    assert "--prediction zzz: there is no such column" in refuse("audit", plain, *AUDIT[:4], "--prediction", "zzz")
    assert "--scores: is not for folders" in refuse("audit", plain, *AUDIT[:4], "--scores", "p_high,p_low,p_mid")
    unlabelled = ["--group", "race", "--prediction", "answer", "--criterion", "eop"]
    assert "--criterion eop: speaks of true classes; name their column by --label." in refuse(
        "audit", plain, *unlabelled
    )
    table = table.assign(number=np.arange(len(table)), one="x")
    folder = write_people(tmp_path / "odd", table)
    assert "there is one group; at least two" in refuse("audit", folder, *AUDIT[:2], "--group", "one", *AUDIT[4:])
    message = refuse("audit", folder, *AUDIT[:2], "--group", "number", *AUDIT[4:])
    assert "--group number: there are 1500 groups in 1500 rows; cut a number into a few bands." in message
    no_answers = ["--label", "truth", "--group", "race", "--prediction", "sex"]
    assert "have no class in common" in refuse("audit", folder, *no_answers)
    gaps = table.assign(
        **{name: table[name].where(table.index % 100 > 0, None) for name in ("race", "truth", "answer")}
    )
    folder = write_people(tmp_path / "gaps", gaps)
    whole = f"of {len(table):,} rows (empty cells and NA, NaN, None, null are read as missing); fill them in or drop"
    for option, name in (("--label", "truth"), ("--prediction", "answer")):
        complete = {other: table[other] for other in ("race", "truth", "answer") if other != name}
        folder = write_people(tmp_path / f"no {name}", gaps.assign(**complete))
        assert f"{folder}: {option} {name} is missing in 15 {whole} these rows." in refuse("audit", folder, *AUDIT)
    folder = write_people(tmp_path / "no race", gaps.assign(truth=table["truth"], answer=table["answer"]))
    step = "these rows, or make them a group by --missing group, or leave them out by --missing drop."
    assert f"{folder}: --group race is missing in 15 {whole} {step}" in refuse("audit", folder, *AUDIT)
    (tmp_path / "empty").mkdir()
    assert "empty: holds no Parquet files (.parquet, .pq, .parq); others are not read from folders." in refuse(
        "audit", tmp_path / "empty", *AUDIT
    )


# -- predict -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("keys", [[], ["--key", "id"], ["--key", "race,id"]], ids=["rows", "one key", "two keys"])
def test_answers_for_a_folder_are_those_for_a_table(run, both, saved, tmp_path, keys):
    options = [*keys, "--probabilities"]
    assert run("predict", saved, both[0], "-o", tmp_path / "out.parquet", *options)[0] == 0
    code, out, err = run("predict", saved, both[1], "-o", tmp_path / "out", *options)
    assert (code, err) == (0, "")
    assert out.startswith(f"Wrote {tmp_path / 'out'}: 3 files, {N:,} people (") and "a second)" in out
    table, answers = pd.read_parquet(tmp_path / "out.parquet"), read_answers(tmp_path / "out")
    assert list(table) == list(answers)
    pd.testing.assert_frame_equal(answers, table)
    code, out, _ = run("predict", saved, both[1], "-o", tmp_path / "out", *options)
    assert (code, out) == (0, f"Wrote {tmp_path / 'out'}: 0 files, 0 people; 3 files were there already\n")


def test_other_options_make_answers_anew(run, both, saved, tmp_path):
    predict = ["predict", saved, both[1], "-o", tmp_path / "out"]
    for options in ([], ["--key", "x1"], ["--key", "id"], ["--probabilities"], ["--only"], ["--na", "007"]):
        text = run(*predict, *options)[1]
        assert "3 files, 3,000 people" in text
        assert ("3 of another model, of other options or of older inputs were replaced" in text) == bool(options)
    assert list(read_answers(tmp_path / "out")) != ["prediction"]
    assert "3 files were there" in run(*predict, "--na", "007")[1]


def test_the_answers_for_a_folder_are_no_table(refuse, both, saved, tmp_path):
    assert "a.csv: is the name of a table; answers for a folder are" in refuse(
        "predict", saved, both[1], "-o", tmp_path / "a.csv"
    )


def test_answers_for_files_that_are_gone_are_told(run, both, saved, tmp_path):
    out = tmp_path / "out"
    assert run("predict", saved, both[1], "-o", out)[0] == 0
    name = sorted(path.name for path in both[1].rglob("*.parquet"))[-1]
    (both[1] / name).unlink()
    code, _, notes = run("predict", saved, both[1], "-o", out)
    assert code == 0 and f"out: 1 file is of inputs that are gone or empty, first {name!r}; remove them" in notes
    assert (out / name).exists()


def test_aware_models_find_their_groups_in_a_folder(run, refuse, both, people, tmp_path):
    """Groups that are numbers written as texts, and in another order of the options."""
    pytest.importorskip("skops", reason="models are saved by skops")
    table = people.assign(sex=people["sex"].map({"f": "1", "m": "2"}))
    table.to_parquet(tmp_path / "codes.parquet", index=False)
    folder, model = write_people(tmp_path / "codes", table), tmp_path / "aware.skops"
    assert run("fit", tmp_path / "codes.parquet", *FIT_ALL, "--aware", "-o", model)[0] == 0
    for source, output in ((tmp_path / "codes.parquet", "out.parquet"), (folder, "out")):
        assert run("predict", model, source, "-o", tmp_path / output, "--key", "id")[0] == 0
    pd.testing.assert_frame_equal(read_answers(tmp_path / "out"), pd.read_parquet(tmp_path / "out.parquet"))
    strangers = write_people(tmp_path / "strangers", table.assign(sex=table["sex"].where(table.index != N - 1, "3")))
    message = refuse("predict", model, strangers, "-o", tmp_path / "none")
    assert f"{strangers}/2.parquet: " in message and "3" in message
    renamed = write_people(tmp_path / "renamed", table.rename(columns={"sex": "gender"}))
    message = refuse("predict", model, renamed, "-o", tmp_path / "none")
    assert "the groups (sex) are needed" in message
    assert run("predict", model, renamed, "-o", tmp_path / "renamed out", "--group", "gender", "--key", "id")[0] == 0
    assert read_answers(tmp_path / "renamed out")["prediction"].equals(read_answers(tmp_path / "out")["prediction"])


def test_texts_that_a_model_has_not_seen(run, refuse, saved, people, tmp_path):
    strange = people.assign(code="new")
    folder = write_people(tmp_path / "strange", strange)
    message = refuse("predict", saved, folder, "-o", tmp_path / "out")
    assert "column 'code': the model has seen none of its texts, such as 'new'" in message
    few = people.assign(code=people["code"].where(people.index >= 100, "new"))
    folder = write_people(tmp_path / "few", few, n_files=30)  # the first file has none that the model knows
    code, _, err = run("predict", saved, folder, "-o", tmp_path / "out")
    assert code == 0
    assert err.startswith(
        "note: of the first rows of some files, column 'code': a text that the model has not seen in 100 of "
    )


def test_predictions_that_are_refused(refuse, both, saved, people, tmp_path):
    table, folder = both
    assert f"{folder}: is also the input; write to another folder." in refuse("predict", saved, folder, "-o", folder)
    message = refuse("predict", saved, folder, "-o", folder / "out")
    assert f"{folder / 'out'}: must be a folder outside of {folder}" in message
    assert "is a file; the answers for a folder are written to a folder" in refuse(
        "predict", saved, folder, "-o", table
    )
    message = refuse("predict", saved, folder, "-o", tmp_path / "no" / "out")
    assert f"the folder {tmp_path / 'no'} does not exist" in message
    assert "the name of a table must end in" in refuse("predict", saved, table, "-o", tmp_path / "out")
    out = tmp_path / "out"
    assert "--key ssn: there is no such column" in refuse("predict", saved, folder, "-o", out, "--key", "ssn")
    assert "the model does not use groups" in refuse("predict", saved, folder, "-o", out, "--group", "sex")
    assert "--scheduler a:1: is for folders" in refuse("predict", saved, table, "-o", "o.csv", "--scheduler", "a:1")
    answered = write_people(tmp_path / "answered", people.assign(prediction=1))
    assert "already has a column 'prediction'" in refuse("predict", saved, answered, "-o", out)
    narrow = write_people(tmp_path / "narrow", people.drop(columns="x1"))
    assert "has no column x1, which the model reads" in refuse("predict", saved, narrow, "-o", out)
    gaps = write_people(tmp_path / "gaps", people.assign(id=people["id"].where(people.index != 5)))
    message = f"{gaps}/0.parquet: --key id is missing in 1 rows; fill them in or drop these rows."
    assert not out.exists()
    assert message in refuse("predict", saved, gaps, "-o", out, "--key", "id")
    assert not (out / "0.parquet").exists()  # another, which was made meanwhile, may be there and is whole
    foreign = write_people(tmp_path / "foreign", people, 1)
    assert "is there, but does not hold such answers" in refuse("predict", saved, folder, "-o", foreign)


def test_an_answer_is_drawn_once_for_each_row_of_a_table(run, both, people, tmp_path, monkeypatch):
    """A model that samples, with a seed, gives a table that is read in slices what it gives in memory."""
    pytest.importorskip("skops", reason="models are saved by skops")
    X = people[["x1"]]
    model = optfair.OptFairPost(tolerance=0.1, cv=2, temperature=0.3, decision="sampled", random_state=0)
    model.fit(X, people["y"], sensitive_features=people["sex"]).save(tmp_path / "m.skops")
    monkeypatch.setattr("optfair.cli.counting.PART_ROWS", 500)
    monkeypatch.setattr("optfair.cli.counting.row_slices.__defaults__", (500,))
    assert run("predict", tmp_path / "m.skops", both[0], "-o", tmp_path / "out.csv")[0] == 0
    answers = pd.read_csv(tmp_path / "out.csv")["prediction"]
    np.testing.assert_array_equal(answers, model.predict(X))


def test_a_killed_prediction_goes_on(run, saved, people, tmp_path):
    """What is there when the power fails is whole, and is not made again."""
    table = pd.concat([people] * 60, ignore_index=True).assign(row=np.arange(60 * N))
    folder, out = write_people(tmp_path / "many", table, 60, 1_500), tmp_path / "out"
    command = [sys.executable, "-m", "optfair", "predict", str(saved), str(folder), "-o", str(out), "--key", "row"]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(out.glob("*.parquet")) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    there = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 0 < len(there) < 60
    for name in there:
        assert len(pd.read_parquet(out / name)) == N
    code, printed, _ = run("predict", saved, folder, "-o", out, "--key", "row")
    assert code == 0 and f"{60 - len(there)} files, " in printed
    assert f"; {len(there)} files were there already" in printed
    assert {name: (out / name).stat().st_mtime_ns for name in there} == there
    answers = read_answers(out).sort_values("row", ignore_index=True)
    assert answers["row"].tolist() == table["row"].tolist()
    expected = load_model(saved).predict(table[FEATURES], keys=table["row"].astype(str).tolist())
    np.testing.assert_array_equal(answers["prediction"], expected)


def test_progress_tells_rows_and_the_time_left(run, saved, people, tmp_path, monkeypatch):
    """The line of a folder: rows so far, how many a second, and what is left of the time."""
    lines, plain = [], Stage.advance

    def noted(stage, steps=1, **facts):
        plain(stage, steps, **facts)
        if stage.name == "answering":
            lines.append(stage.text())

    monkeypatch.setattr(Stage, "advance", noted)
    folder = write_people(tmp_path / "many", people, 6)
    assert run("predict", saved, folder, "-o", tmp_path / "out")[0] == 0
    assert len(lines) == 6 and all("of 3,000 rows" in line and " a second" in line for line in lines)
    assert any("left" in line for line in lines[:-1])


# -- fit ---------------------------------------------------------------------------------------------------------
def assert_same_rule(one, other):
    for name in ("weights", "temperatures"):
        np.testing.assert_array_equal(getattr(one.rule_, name), getattr(other.rule_, name))


@pytest.mark.parametrize("options", [[], ["--aware", "--criterion", "eo"], ["--weight", "w"]], ids=str)
def test_a_fit_to_a_folder_of_few_people_is_one_to_the_table(run, both, tmp_path, options):
    pytest.importorskip("skops", reason="models are saved by skops")
    fit = [*FIT, "--drop", "race,id" if "--weight" in options else "race,id,w", *options, "-o"]
    printed = [run("fit", source, *fit, tmp_path / f"{k}.skops") for k, source in enumerate(both)]
    assert [code for code, _, _ in printed] == [0, 0] and printed[0][2] == printed[1][2]
    assert_same_rule(*(load_model(tmp_path / f"{k}.skops") for k in range(2)))
    assert "optfair predict" in printed[1][1] and " NEW -o answers" in printed[1][1]


def test_scores_in_a_folder_of_few_people(run, people, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    P = np.random.default_rng(5).dirichlet([2.0, 2.0, 2.0], N)
    table = people.assign(**{f"p_{name}": P[:, k] for k, name in enumerate(["hi", "lo", "mid"])})
    table.to_parquet(tmp_path / "scored.parquet", index=False)
    folder = write_people(tmp_path / "scored", table)
    fit = [*FIT_ALL, "--scores", "p_hi,p_lo,p_mid", "-o"]
    for k, source in enumerate((tmp_path / "scored.parquet", folder)):
        assert run("fit", source, *fit, tmp_path / f"{k}.skops")[0] == 0
    models = [load_model(tmp_path / f"{k}.skops") for k in range(2)]
    assert_same_rule(*models)
    X = table[models[0].feature_names_in_]
    np.testing.assert_allclose(models[1].joint_posterior(X).sum(axis=1), P, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [[], ["--aware"], ["--weight", "w"], ["--cache"], ["--group", "race"], ["--criterion", "eo"]],
    ids=str,
)
def test_the_rule_is_of_everybody_in_the_folder(run, both, people, tmp_path, monkeypatch, options):
    pytest.importorskip("skops", reason="models are saved by skops")
    keep_in_files(monkeypatch)
    measures = []
    monkeypatch.setattr(folders, "solve_folder", _watched(folders.solve_folder, measures))
    cache = [str(tmp_path / "cache")] if "--cache" in options else []
    dropped = [name for name in ("race", "id", "w") if name not in options]
    fit = [*FIT, *options, *cache, "--drop", ",".join(dropped), "--no-path", "--sample", SAMPLE]
    code, out, err = run("fit", both[1], *fit, "-o", tmp_path / "m.skops")
    assert code == 0 and err.count("\n") == ("--weight" in options)  # a note on whole numbers as weights
    assert f"{SAMPLE} people fitted on (a sample of {N:,})" in " ".join(out.split())
    (measure,) = measures
    assert isinstance(measure, PartMeasure)
    if cache:
        assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) == N * 6 * 8
    model = load_model(tmp_path / "m.skops")
    groups = list(model.groups_.names)
    told = {"sensitive_features": people[groups]} if "--aware" in options else {}
    Z = model.joint_posterior(people, **told)
    weight = people["w"] if "--weight" in options else None
    names = {"groups": model.groups_, "classes": model.classes_}
    rule = optfair.solve(Z, model.constraints_, sample_weight=weight, random_state=0, n_jobs=1, **names)
    assert model.certificate_.gap <= 1e-4
    assert model.certificate_.upper_bound == pytest.approx(rule.certificate.upper_bound, abs=2e-4)


def _watched(function, measures):
    def solve(model, *arguments):
        result = function(model, *arguments)
        measures.append(model._fitted.problem.posterior)
        return result

    return solve


def test_other_tolerances_are_saved_with_the_model(run, both, people, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    fit = [*FIT, "--drop", "race,id,w", "--sample", SAMPLE]
    assert run("fit", both[1], *fit, "-o", tmp_path / "m.skops")[0] == 0
    model = load_model(tmp_path / "m.skops")
    assert len(model.path_.rules) > 5
    explanation = model.explain(people[:20])
    assert explanation.table["answer"].tolist() == model.predict(people[:20]).tolist()


def test_a_test_file_beside_a_folder(run, both, people, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    make_train(300, seed=9).assign(id=0, w=1).to_csv(tmp_path / "test.csv", index=False)
    fit = [*FIT_ALL, "--sample", SAMPLE, "--test", tmp_path / "test.csv"]
    code, out, _ = run("fit", both[1], *fit, "-o", tmp_path / "m.skops")
    assert code == 0 and f"On the people of {tmp_path / 'test.csv'}" in out and "300 people" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "in"], "--method in: trains on rows in memory; take a sample of the folder, or --method post."),
        (["--test-size", "0.3"], "--test-size 0.3: is not for folders; keep some files apart, and give one by --test."),
        (["--sample", "0"], "--sample 0: must be at least 1."),
        (["--drop", "zzz"], "--drop zzz: there is no such column"),
        (["--weight", "sex"], "column 'sex': is named twice"),
        (["--confidence", "0.3"], "--confidence 0.3: must be from 0.5 to below 1"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_fits_that_are_refused(refuse, both, tmp_path, options, message):
    pytest.importorskip("skops", reason="models are saved by skops")
    fit = [*FIT, "--drop", "race,id", *options, "-o", tmp_path / "m.skops"]
    assert message in refuse("fit", both[1], *fit)
    assert not (tmp_path / "m.skops").exists()


def test_folders_that_are_refused_by_fit(refuse, both, people, tmp_path):
    pytest.importorskip("skops", reason="models are saved by skops")
    table, folder = both
    output = ["-o", tmp_path / "m.skops"]
    for option in ("--sample", "--cache", "--scheduler"):
        assert f"{option} 9: is for folders of Parquet files; leave it out." in refuse(
            "fit", table, *FIT, option, "9", *output
        )
    assert "the name of a table must end in" in refuse("frontier", folder, *FIT[:4], "-o", tmp_path / "f.csv")
    assert "the name of a table must end in" in refuse("fit", table, *FIT, "--test", folder, *output)
    lists = write_people(tmp_path / "lists", people.assign(sex=[["f"]] * N))
    assert f"{lists}: column 'sex' holds lists" in refuse("fit", lists, *FIT, *output)
    other = write_people(tmp_path / "other", people)
    people.drop(columns="x2").to_parquet(other / "1.parquet", index=False)
    message = refuse("fit", other, *FIT_ALL, *output)
    assert f"{other}/1.parquet: has no column 'x2', which the first file has." in message
    gaps = write_people(tmp_path / "gaps", people.assign(y=people["y"].where(people.index % 50 > 0, None)))
    assert f"{gaps}: --label y is missing in 60 of {N} rows" in refuse("fit", gaps, *FIT_ALL, *output)


def test_strangers_in_other_rows_of_a_folder(refuse, people, tmp_path, monkeypatch):
    """A group that the sample does not have is told with its file."""
    pytest.importorskip("skops", reason="models are saved by skops")
    keep_in_files(monkeypatch)
    drawn = set(np.random.default_rng(0).choice(N, SAMPLE, replace=False, shuffle=False).tolist())
    row = next(row for row in range(N - 1, 0, -1) if row not in drawn)
    folder = write_people(tmp_path / "people", people.assign(sex=people["sex"].where(people.index != row, "x")))
    fit = [*FIT_ALL, "--aware", "--sample", SAMPLE, "-o", tmp_path / "m.skops"]
    message = refuse("fit", folder, *fit)
    assert f"{folder}/2.parquet, row group" in message and "'x'" in message
    assert not (tmp_path / "m.skops").exists()


# -- clusters ----------------------------------------------------------------------------------------------------
def test_a_scheduler_that_is_not_there(refuse, both, saved, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="schedulers are those of Dask")
    monkeypatch.setattr(folders, "CONNECT_SECONDS", 0.2)
    scheduler = ["--scheduler", "tcp://127.0.0.1:1"]
    message = "--scheduler tcp://127.0.0.1:1: cannot be reached ("
    folder = both[1]
    assert message in refuse("audit", folder, "--group", "sex", "--prediction", "y", *scheduler)
    assert message in refuse("predict", saved, folder, "-o", tmp_path / "out", *scheduler)
    assert message in refuse("fit", folder, *FIT_ALL, "-o", tmp_path / "new.skops", *scheduler)
    assert not (tmp_path / "new.skops").exists() and not (tmp_path / "out").exists()


def test_a_cluster_that_fails_is_one_line(refuse, both, monkeypatch):
    """The errors of a cluster are those of whoever runs it, not of the program."""
    pytest.importorskip("distributed", reason="schedulers are those of Dask")

    class Gone:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def map(self, function, parts):
            raise RuntimeError("client: the scheduler is gone.")

    monkeypatch.setattr("distributed.Client", lambda *_, **__: Gone())
    message = refuse("audit", both[1], "--group", "sex", "--prediction", "y", "--scheduler", "tcp://10.0.0.1:8786")
    assert message == "optfair audit: --scheduler tcp://10.0.0.1:8786: the scheduler is gone.\n"


@pytest.mark.slow
def test_commands_on_a_cluster_are_those_without(run, both, saved, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="schedulers are those of Dask")
    keep_in_files(monkeypatch)
    folder, audit = both[1], ["--label", "y", "--prediction", "y", "--group", "sex"]
    fit = [*FIT_ALL, "--sample", SAMPLE, "-o"]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        scheduler = ["--scheduler", cluster.scheduler_address]
        here, there = (document(run, folder, tmp_path, *audit, *extra) for extra in ([], scheduler))
        assert here == there
        for name, extra in (("here", []), ("there", scheduler)):
            assert run("predict", saved, folder, "-o", tmp_path / name, "--key", "id", *extra)[0] == 0
            assert run("fit", folder, *fit, tmp_path / f"{name}.skops", *extra)[0] == 0
    pd.testing.assert_frame_equal(read_answers(tmp_path / "here"), read_answers(tmp_path / "there"))
    assert_same_rule(*(load_model(tmp_path / f"{name}.skops") for name in ("here", "there")))
