"""Check the pictures: files that repeat byte for byte and hold their numbers, legends that fit, runs that failed."""

import json
import re
from xml.etree import ElementTree

import pytest

from experiments.page.style import Figure, short
from tests.experiments.lines import draft, failed_line, finished_plan

pytest.importorskip("jinja2", reason="the templates of the pages")
pytest.importorskip("matplotlib", reason="the figures of the pages")

DATA = ("acs", "grow 10000 x 4 x 4", "grow 40000 x 4 x 4")  # for every figure, a few panels


def test_the_same_lines_give_the_same_bytes_and_links_lead_to_pictures(tmp_path):
    names = ("ablation", "seconds")
    first, second = finished_plan(names, DATA), finished_plan(names[::-1], DATA)  # lines in another order
    files = [file for page in draft(first, names, tmp_path) for file in page.write()]
    before = {file: file.read_bytes() for file in files}
    assert [file.name for file in files] == ["ablation.svg", "ablation.md", "seconds.svg", "seconds.md"]
    assert [file for page in draft(second, names[::-1], tmp_path) for file in page.write()] == files
    assert {file: file.read_bytes() for file in files} == before
    for page, picture in ((files[1], files[0]), (files[3], files[2])):
        links = re.findall(r"!\[[^\]]{20,}\]\((.*\.svg)\)", page.read_text("utf-8"))
        assert [page.parent / link for link in links] == [picture]


def test_a_picture_holds_the_numbers_that_it_shows(tmp_path):
    (page,) = draft(finished_plan(("seconds",), DATA), ("seconds",), tmp_path)
    file, _ = page.write()
    tree = ElementTree.parse(file)
    description = next(element.text for element in tree.iter() if element.tag.endswith("description"))
    assert json.loads(description) == json.loads(page.figures[0].description)
    assert not re.search(rb"<dc:date>|file:|/home", file.read_bytes())


@pytest.mark.parametrize("data", [("adult",), ("adult", "enem"), ("adult", "enem", "acs", "celeba")])
@pytest.mark.parametrize("experiment", ["frontiers", "tolerance"])
def test_legends_fit_into_their_pictures(experiment, data, tmp_path):
    (page,) = draft(finished_plan((experiment,), data), (experiment,), tmp_path)
    assert page.figures
    for item in page.figures:
        figure = item.draw()
        (legend,) = figure.legends
        figure.draw_without_rendering()
        assert legend.get_window_extent().width <= figure.bbox.width


def test_pictures_of_runs_that_failed(tmp_path):
    def stopped(run, line):
        if run.part == "test":
            failed_line(line, "stopped")

    names = ("frontiers", "ablation", "tolerance", "seconds")
    drafts = draft(finished_plan(names, DATA, stopped), names, tmp_path)
    files = [file for page in drafts for file in page.write()]
    assert sum(file.suffix == ".svg" for file in files) == 5 and sum(file.suffix == ".md" for file in files) == 4


def test_numbers_are_rounded_alike_on_all_machines():
    figure = Figure("name", "alt", lambda data: None, {"x": [0.1 + 0.2, 1], "title": "Größe", "none": None})
    assert figure.description == '{"none": null, "title": "Größe", "x": [0.3, 1.0]}'


@pytest.mark.parametrize(("value", "text"), [(0.02, "0.02"), (200, "200"), (30_000, "30k"), (1e7, "10M"), (2e9, "2G")])
def test_sizes_are_short(value, text):
    assert short(value) == text
