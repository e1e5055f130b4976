"""Check the instrument that counts broken promises: what a sample says, that it goes on, and its page."""

import json
from dataclasses import replace

import numpy as np
import pytest

from experiments.coverage import __main__ as command
from experiments.coverage import run as module
from experiments.coverage.page import by_setting, draft_page, share_text, smallest_points
from experiments.coverage.rules import METHODS
from experiments.coverage.run import FILE, SMALLEST, read_lines, run_missing, run_one
from experiments.coverage.settings import SETTINGS, make_world
from experiments.page.templates import PageTextError

LINES = command.ROOT / "experiments" / "results" / "coverage" / FILE


@pytest.fixture
def small(monkeypatch):
    """Make one world small, and Adult with it."""
    settings = {
        "dp-wrong": replace(SETTINGS["dp-wrong"], n=2500, tolerance=0.12, population=4000),
        "adult-dp": replace(SETTINGS["adult-dp"], n=6000, tolerance=0.1),
    }
    monkeypatch.setattr(module, "SETTINGS", settings)
    return settings


def test_a_sample_of_a_world_is_measured_for_every_method(small):
    line = run_one("dp-wrong", 0)
    assert set(line["scores"]) == set(METHODS)
    for scores in line["scores"].values():
        assert 0.3 < scores["accuracy"] < 1 and scores["ratio"] == pytest.approx(scores["violation"] / 0.12, abs=1e-4)
    scores = line["scores"]
    assert scores["promise"]["violation"] < scores["plain"]["violation"]
    assert scores["promise"]["tightening"] > 0 and scores["ensemble"]["tightening"] == scores["promise"]["tightening"]
    assert run_one("dp-wrong", 0)["scores"]["plain"] == scores["plain"] != run_one("dp-wrong", 1)["scores"]["plain"]


@pytest.mark.slow
def test_a_sample_of_real_people_is_measured_by_labels(small):
    line = run_one("adult-dp", 0)
    assert set(line["scores"]) == set(METHODS) - {"ensemble"}


def test_one_model_and_the_folds_answer_differently(small):
    """A forest on all rows is another rule than the mixture of those on the folds."""
    small["dp-wrong"] = replace(small["dp-wrong"], learner="forest")
    scores = run_one("dp-wrong", 0)["scores"]
    assert scores["promise"]["violation"] != scores["ensemble"]["violation"]


def test_the_truth_of_a_world_is_that_of_its_own_evaluation(small):
    X, Z = module.world_population((4, 3, 4000))
    world = make_world(4, 3)
    assert Z.shape == (4000, 4, 3)
    np.testing.assert_allclose(Z, world.joint_posterior(X))
    np.testing.assert_allclose(Z.mean(axis=0).sum(axis=1), world.group_sizes, atol=0.03)


def test_a_run_goes_on_where_it_was_stopped(small, tmp_path, capsys):
    file = tmp_path / FILE
    run_missing(file, ["dp-wrong"], 1, 1)
    first = file.read_text()
    file.write_text(first + '{"setting": "dp-wr')  # cut off in the middle of a line
    assert len(read_lines(file)) == 1
    file.write_text(first)
    run_missing(file, ["dp-wrong"], 2, 1)
    assert file.read_text().startswith(first) and [line["seed"] for line in read_lines(file)] == [0, 1]
    assert "1 of 1 samples" in capsys.readouterr().out


def made_up_lines():
    """Return two lines of every setting, in one of which the promise is broken."""
    values = {"accuracy": 0.5, "violation": 0.01, "seconds": 0.5, "share": 0.0, "tightening": 1.0}
    lines = [
        {"setting": name, "seed": seed, "scores": {method: {**values, "ratio": 0.5 + seed} for method in METHODS}}
        for name in SETTINGS
        for seed in (0, 1)
    ]
    sizes = [
        {"setting": SMALLEST, "seed": k, "n": n, "dp": n**-0.5, "eo": 2 * n**-0.5} for k, n in enumerate((1000, 4000))
    ]
    return lines + sizes


def test_the_page_says_what_the_lines_say(tmp_path):
    pytest.importorskip("jinja2", reason="pages are written by jinja2")
    page = draft_page(made_up_lines(), tmp_path / "promise.md")
    assert "50.0 % (1.3 to 98.7)" in page.text
    assert "A promise with `confidence=0.95` was broken in 12 of 24 runs" in " ".join(page.text.split())
    assert share_text([]) == "–"
    assert by_setting(made_up_lines())["dp-4x3"]["plain"][1]["ratio"] == 1.5
    pytest.importorskip("matplotlib", reason="pictures are drawn by matplotlib")
    names = ["promises.svg", "smallest-promises.svg", "promise.md"]
    assert [file.name for file in page.write()] == names
    assert all(row["promise"] == 50 and row["low"] < 50 < row["high"] for row in page.figures[0].data["rows"])
    (n, reached, formula), *_ = smallest_points(made_up_lines())
    assert n == 1000 and reached["dp"] == pytest.approx(1000**-0.5) and 0 < formula["dp"] < formula["eo"]


def test_a_page_needs_all_settings(tmp_path):
    with pytest.raises(PageTextError, match=r"has no line of .*adult-dp"):
        draft_page([line for line in made_up_lines() if line["setting"] != "adult-dp"], tmp_path / "promise.md")


def test_bad_input_is_refused(tmp_path, capsys):
    assert command.main(["nobody", "--out", str(tmp_path)]) == 2
    assert "nobody: there is no such setting; there are dp-4x3" in capsys.readouterr().err
    assert command.main(["--only-page", "--out", str(tmp_path), "--page", str(tmp_path / "p.md")]) == 2


def test_the_committed_lines_can_be_read():
    assert all(json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines())
