"""Check that the committed pages are made of the committed lines, by the commands that they name."""

import json
import re
import shutil
from pathlib import Path

import pytest

from experiments.bench.lines import Lines
from experiments.bench.page import draft_page as draft_speed
from experiments.catalogue import EXPERIMENTS, SHARED_PAGES, pages_of, read_experiment
from experiments.command import main
from experiments.coverage.page import draft_page as draft_promise
from experiments.coverage.run import read_lines
from experiments.ledger import Ledger
from experiments.overview.__main__ import draft_page as draft_overview
from experiments.page.page import PICTURES
from experiments.page.results import Results
from experiments.page.write import draft_pages
from experiments.plan import Plan

ROOT = Path(__file__).parents[2]
RESULTS, DOCS = Path("experiments/results"), Path("docs/results")
COMMAND = "python -m experiments --out experiments/results --pages docs/results"


@pytest.fixture(scope="module")
def plan():
    return Plan(Ledger(ROOT / RESULTS).lines, finished=True)


@pytest.fixture(scope="module")
def drafts(plan):
    """Return all pages whose numbers are looked up by one writer, with their pictures."""
    pytest.importorskip("jinja2", reason="the templates of the pages")
    experiments = [read_experiment(name) for name in EXPERIMENTS]
    pages = draft_pages(Results(plan, experiments, COMMAND), ROOT / RESULTS, DOCS)
    pages.append(draft_promise(read_lines(ROOT / RESULTS / "coverage" / "coverage.jsonl"), DOCS / "promise.md"))
    pages.append(draft_speed(Lines(ROOT / RESULTS / "speed"), DOCS / "speed.md"))
    pages.append(draft_overview(ROOT / RESULTS, DOCS / "index.md"))
    return {page.file.stem: page for page in pages}


def test_the_pages_are_made_of_their_lines(drafts):
    """Compare the texts byte for byte."""
    names = {*pages_of(read_experiment(name) for name in EXPERIMENTS), *SHARED_PAGES, "promise", "speed", "index"}
    assert set(drafts) == names
    stale = [name for name, page in drafts.items() if (ROOT / page.file).read_text("utf-8") != f"{page.text}\n"]
    assert not stale, "make pages writes them"


def test_the_pictures_show_the_numbers_of_the_lines(drafts):
    """Compare what they hold: another version of Matplotlib draws the same numbers in other strokes."""
    figures = {figure.name: figure for page in drafts.values() for figure in page.figures}
    files = {file.stem: file for file in (ROOT / DOCS / PICTURES).iterdir()}
    assert set(files) == set(figures) and len(files) > 10
    for name, file in files.items():
        (description,) = re.findall(r"<dc:description>(.*?)</dc:description>", file.read_text("utf-8"), re.DOTALL)
        plain = description.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        assert json.loads(plain) == json.loads(figures[name].description), name


@pytest.mark.parametrize("name", ["installed", "labels", "networks"])
def test_the_lines_carried_over_are_those_of_the_plan(name, plan):
    """All of them, and no others: other experiments may also have lines of settings that were given up."""
    texts = (ROOT / RESULTS / f"{name}.jsonl").read_text("utf-8").splitlines()
    keys = {json.dumps(json.loads(text)["run"], sort_keys=True) for text in texts}
    assert keys == {run.key for run in plan.runs(read_experiment(name))} and len(keys) == len(texts)


@pytest.mark.slow
def test_the_command_that_the_pages_name_writes_them(tmp_path, monkeypatch):
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package, reason="the pages and their figures")
    shutil.copytree(ROOT / RESULTS, tmp_path / RESULTS, ignore=shutil.ignore_patterns("cache", ".lock"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTFAIR_DATA", str(tmp_path))  # the lines say where the data came from
    assert main(["--out", str(RESULTS), "--pages", str(DOCS), "--only-page"]) == 0
    written = sorted(path for path in DOCS.rglob("*") if path.is_file())
    assert len(written) > 20
    matplotlib = pytest.importorskip("matplotlib")
    pinned = re.search(r"^matplotlib==(.*)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE).group(1)
    for path in written:
        if path.suffix == ".md" or matplotlib.__version__ == pinned:  # another version may draw other strokes
            assert path.read_bytes() == (ROOT / path).read_bytes(), path
