"""Check that the committed pages are made of the committed lines, by the command that they name."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from experiments.catalogue import PAGES, experiments_of, read_experiment
from experiments.command import main
from experiments.ledger import Ledger
from experiments.page.write import draft_page
from experiments.plan import Plan

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


@pytest.fixture(scope="module")
def plan():
    return Plan(Ledger(RESULTS).lines, finished=True)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_made_of_its_lines(page, plan, monkeypatch):
    """Compare the text byte for byte; figures are drawn in a slow test."""
    pytest.importorskip("jinja2", reason="the templates of the pages")
    monkeypatch.chdir(ROOT)
    experiments = [read_experiment(name) for name in experiments_of(page)]
    file = Path("docs/results") / f"{page}.md"
    command = f"python -m experiments --out experiments/results --page {file.as_posix()}"
    draft = draft_page(plan, experiments, Path("experiments/results"), file, command)
    assert file.read_text("utf-8") == f"{draft.text}\n"
    names = {figure.name for figure in draft.figures}
    assert {path.stem for path in file.with_suffix("").glob("*.png")} == names


@pytest.mark.parametrize("name", ["installed", "labels", "networks"])
def test_the_lines_carried_over_are_those_of_the_plan(name, plan):
    """All of them, and no others: the results page may also have lines of settings that were given up."""
    texts = (RESULTS / f"{name}.jsonl").read_text("utf-8").splitlines()
    keys = {json.dumps(json.loads(text)["run"], sort_keys=True) for text in texts}
    assert keys == {run.key for run in plan.runs(read_experiment(name))} and len(keys) == len(texts)


@pytest.mark.slow
def test_the_command_that_the_page_names_writes_all_pages(tmp_path, monkeypatch):
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package, reason="the pages and their figures")
    page = (ROOT / "docs" / "results" / "results.md").read_text("utf-8")
    shutil.copytree(RESULTS, tmp_path / "experiments" / "results", ignore=shutil.ignore_patterns("cache", ".lock"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTFAIR_DATA", str(tmp_path))  # the lines say where the data came from
    command = re.search(r"written by `python -m experiments ([^`]+)`", page).group(1)
    assert main([*shlex.split(command), "--only-page"]) == 0
    for name in PAGES:
        assert (tmp_path / "docs/results" / f"{name}.md").read_text("utf-8") == (
            ROOT / "docs/results" / f"{name}.md"
        ).read_text("utf-8")
    files = {file.name: file for file in (tmp_path / "docs" / "results" / "results").glob("*.png")}
    assert set(files) == {file.name for file in (ROOT / "docs" / "results" / "results").glob("*.png")} and files
    matplotlib = pytest.importorskip("matplotlib")
    pinned = re.search(r"^matplotlib==(.*)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE).group(1)
    if matplotlib.__version__ == pinned:  # another version may draw other pixels
        same = [
            name
            for name, file in files.items()
            if file.read_bytes() == (ROOT / "docs/results/results" / name).read_bytes()
        ]
        assert sorted(same) == sorted(files)
