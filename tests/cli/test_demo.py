"""``optfair demo``: what it shows is there, and true."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair.cli import demo as demo_module
from optfair.cli.main import main
from optfair.datasets import load

FILES = ["answers.csv", "frontier.csv", "frontier.png", "in_processing.csv", "model.skops", "model.skops.key"]
FILES += ["rates.csv", "rates.png", *(["report.html"] if find_spec("jinja2") else []), "report.txt"]
PARTS = ("Before:", "After:", "Cost:", "Proof:", "upper bound", "Prices", "noise floor")


@pytest.fixture(autouse=True, scope="module")
def extras():
    pytest.importorskip("matplotlib", reason="the demo draws")
    pytest.importorskip("skops", reason="the demo saves a model")


def check_folder(folder, out):
    """Check that everything is printed and written."""
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert str(folder) in out and (folder / "report.txt").read_text(encoding="utf-8") == out
    for part in PARTS:
        assert part in out


def test_a_small_demo_shows_and_writes_everything(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_module, "N_TOLERANCES", 3)
    monkeypatch.setattr(demo_module, "IN_ROUNDS", 2)
    folder = tmp_path / "new" / "folder"
    code, out, _ = run("demo", "-o", folder, "--people", 2000)
    assert code == 0
    check_folder(folder, out)


def test_a_folder_that_cannot_be_made(refuse, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file: is a file; give a folder" in refuse("demo", "-o", tmp_path / "file")
    assert "Not a directory" in refuse("demo", "-o", tmp_path / "file" / "folder", "--people", "2000")
    assert "--seed -1: must be a whole number from 0" in refuse("demo", "-o", tmp_path / "new", "--seed", "-1")
    message = refuse("demo", "-o", tmp_path / "new", "--people", "0")
    assert "--people 0: must be at least 2000" in message and not (tmp_path / "new").exists()


def test_a_demo_that_fails_leaves_no_empty_folder(run, tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("no")

    monkeypatch.setattr(demo_module, "_run_workflow", fail)
    assert run("demo", "-o", tmp_path / "new", "--people", 2000)[0] == 2 and not (tmp_path / "new").exists()


# -- the whole demo, on a part of its people --------------------------------------------------------------------
@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run a demo and return its folder and its output."""
    folder = tmp_path_factory.mktemp("demo") / "folder"
    with pytest.MonkeyPatch.context() as patch, open(folder.with_suffix(".txt"), "w+", encoding="utf-8") as stdout:
        patch.setattr("sys.stdout", stdout)
        assert main(["demo", "-o", str(folder), "--people", "8000", "--seed", "1"]) == 0
        stdout.seek(0)
        return folder, stdout.read()


@pytest.mark.slow
def test_everything_is_shown_and_written(demo):
    folder, out = demo
    check_folder(folder, out)
    assert len(pd.read_csv(folder / "frontier.csv")) == 20
    assert len(pd.read_csv(folder / "in_processing.csv")) == 3


@pytest.mark.slow
def test_unfairness_is_removed_at_a_cost(demo):
    folder, _ = demo
    answers = pd.read_csv(folder / "answers.csv")
    before, after = (
        optfair.metrics.violation(answers["occupation"], answers[name], sensitive_features=answers[["sex", "race"]])
        for name in ("plain", "prediction")
    )
    assert after < 0.6 * before
    frontier = pd.read_csv(folder / "frontier.csv")
    assert (frontier["gap"] < 5e-3).all() and (frontier["accuracy"] <= frontier["upper_bound"] + 1e-9).all()
    assert frontier["accuracy"].is_monotonic_decreasing


@pytest.mark.slow
def test_the_model_predicts_what_the_table_says(demo):
    folder, _ = demo
    model = optfair.load_model(folder / "model.skops")
    _, test = load("adult-occupation", rows=8000, random_state=1).split(0.6, random_state=1)
    answers = pd.read_csv(folder / "answers.csv")
    assert (answers["occupation"].to_numpy() == test.y.to_numpy()).all()
    assert (model.predict(test.X) == answers["prediction"].to_numpy()).all()
    assert model.certificate_.gap < 5e-3 and model.certificate_.excess < 1e-6


@pytest.mark.slow
def test_the_audit_agrees(demo, run):
    audit = ["audit", demo[0] / "answers.csv", "--label", "occupation", "--group", "sex,race", "--tolerance", "0.05"]
    assert run(*audit, "--prediction", "plain")[0] == 1
    assert run(*audit, "--prediction", "prediction")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["frontier.png", "rates.png"])
def test_pictures_show_something(demo, name):
    image = pytest.importorskip("matplotlib.image").imread(demo[0] / name)
    assert min(image.shape[:2]) > 400
    colours = np.unique((image[..., :3] * 255).astype(int).reshape(-1, 3), axis=0)
    assert len(colours) > 20 and image[..., :3].std() > 0.05
