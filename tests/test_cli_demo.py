"""``optfair demo`` as a process, on a part of its people: what it shows is there, and true."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import optfair
from optfair.cli.main import main
from optfair.datasets import load

pytest.importorskip("matplotlib", reason="the demo draws")
pytest.importorskip("skops", reason="the demo saves a model")
FILES = ["answers.csv", "frontier.csv", "frontier.png", "in_processing.csv", "model.skops", "model.skops.key"]
FILES += ["rates.csv", "rates.png", "report.txt"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    command = [sys.executable, "-m", "optfair", "demo", "-o", str(folder), "--people", "8000", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_everything_is_shown_and_written(demo):
    folder, out = demo
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert str(folder) in out and (folder / "report.txt").read_text(encoding="utf-8") == out
    for part in ("Unfair:", "Mended:", "Cost:", "Proof:", "upper bound", "Prices", "noise floor"):
        assert part in out
    assert len(pd.read_csv(folder / "frontier.csv")) == 20
    assert len(pd.read_csv(folder / "in_processing.csv")) == 3


def test_unfairness_is_removed_at_a_cost(demo):
    folder, _ = demo
    answers = pd.read_csv(folder / "answers.csv")
    groups = answers[["sex", "race"]]
    before, after = (
        optfair.metrics.violation(answers["occupation"], answers[name], sensitive_features=groups)
        for name in ("plain", "prediction")
    )
    assert after < 0.6 * before
    frontier = pd.read_csv(folder / "frontier.csv")
    assert (frontier["gap"] < 5e-3).all() and (frontier["accuracy"] <= frontier["upper_bound"] + 1e-9).all()
    assert frontier["accuracy"].is_monotonic_decreasing


def test_the_model_answers_as_in_the_table(demo):
    folder, _ = demo
    model = optfair.load_model(folder / "model.skops")
    _, test = load("adult-occupation", rows=8000, random_state=1).split(0.6, random_state=1)
    answers = pd.read_csv(folder / "answers.csv")
    assert (answers["occupation"].to_numpy() == test.y.to_numpy()).all()
    assert (model.predict(test.X) == answers["prediction"].to_numpy()).all()
    assert model.certificate_.gap < 5e-3 and model.certificate_.excess < 1e-6


def test_the_audit_says_so_too(demo, capsys):
    folder, _ = demo
    asked = [
        "audit",
        str(folder / "answers.csv"),
        "--label",
        "occupation",
        "--group",
        "sex,race",
        "--tolerance",
        "0.05",
    ]
    assert main([*asked, "--prediction", "plain"]) == 1
    assert main([*asked, "--prediction", "prediction"]) == 0


@pytest.mark.parametrize("name", ["frontier.png", "rates.png"])
def test_pictures_show_something(demo, name):
    image = pytest.importorskip("matplotlib.image").imread(demo[0] / name)
    assert min(image.shape[:2]) > 400
    colours = np.unique((image[..., :3] * 255).astype(int).reshape(-1, 3), axis=0)
    assert len(colours) > 20 and image[..., :3].std() > 0.05


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
    assert main(["demo", "-o", str(tmp_path / "new"), "--people", "0"]) == 2
    assert "--people 0: must be at least 2000" in capsys.readouterr().err and not (tmp_path / "new").exists()
