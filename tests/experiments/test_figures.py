"""Check the figures: files that repeat byte for byte, legends that fit, and panels without numbers."""

import re

import pytest

from experiments.catalogue import read_experiment
from experiments.page.write import compose, draft_page
from tests.experiments.lines import COMMAND, failed_line, finished_plan, make_page

pytest.importorskip("jinja2", reason="the templates of the pages")
pytest.importorskip("matplotlib", reason="the figures of the pages")

DATA = ("acs", "grow 10000 x 4 x 4", "grow 40000 x 4 x 4")  # for every figure, a few panels


@pytest.fixture
def coarse(monkeypatch):
    """Draw few pixels, to save time."""
    monkeypatch.setattr("experiments.page.figures.DPI", 40)


def test_the_same_lines_give_the_same_bytes_and_links_lead_to_figures(tmp_path, coarse):
    names = ("ablation", "seconds")
    experiments = [read_experiment(name) for name in names]
    first, second = finished_plan(names, DATA), finished_plan(names[::-1], DATA)  # lines in another order
    page = tmp_path / "docs" / "page.md"
    files = draft_page(first, experiments, tmp_path / "docs" / "runs", page, COMMAND).write()
    before = {file: file.read_bytes() for file in files}
    assert files[-1] == page and len(files) == 3
    assert draft_page(second, experiments[::-1], tmp_path / "docs" / "runs", page, COMMAND).write() == files
    assert {file: file.read_bytes() for file in files} == before
    links = re.findall(r"\]\((.*\.png)\)", page.read_text("utf-8"))
    assert [page.parent / link for link in links] == files[:-1]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files[:-1])


@pytest.mark.parametrize("data", [("adult",), ("adult", "enem"), ("adult", "enem", "acs", "celeba")])
@pytest.mark.parametrize("experiment", ["frontiers", "tolerance"])
def test_legends_fit_into_their_figures(experiment, data, tmp_path):
    page = make_page(finished_plan((experiment,), data), (experiment,), tmp_path)
    compose(page)
    assert page.figures
    for item in page.figures:
        figure = item.draw()
        (legend,) = figure.legends
        figure.draw_without_rendering()
        assert legend.get_window_extent().width <= figure.bbox.width


def test_figures_of_runs_that_failed(tmp_path, coarse):
    def stopped(run, line):
        if run.part == "test":
            failed_line(line, "stopped")

    names = ("frontiers", "ablation", "tolerance", "seconds")
    experiments = [read_experiment(name) for name in names]
    draft = draft_page(finished_plan(names, DATA, stopped), experiments, tmp_path, tmp_path / "page.md", COMMAND)
    assert len(draft.write()) == 6
