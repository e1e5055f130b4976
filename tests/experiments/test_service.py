"""The service under load: the page is made of its lines, and a small load, with an end in the middle of it, is run."""

from pathlib import Path

import pytest

from experiments.service.__main__ import LINES, main, read_lines
from experiments.service.page import draft_page

PAGE = Path(__file__).parents[2] / "docs" / "results" / "service.md"


def by_name(lines):
    return {line["name"]: line for line in lines}


def check_lines(lines):
    """Check what a service must never do, however fast it is."""
    table = by_name(lines)
    for name in ("load", "alone"):
        line = table[name]
        assert line["requests"] == line["right"] > 0 == line["refused"]
    assert table["bulk"]["wrong"] == 0
    malformed = table["malformed"]
    assert malformed["crashes"] == malformed["wrong_after"] == 0 and malformed["health"] == 200
    assert malformed["surprises"] == []
    for name in ("stop", "stop, a connection each"):
        line = table[name]
        assert set(line["codes"]) == {0}
        assert line["lost"] == line["broken"] == line["unanswered"] == line["wrong"] == line["other"] == 0


def test_the_page_is_made_of_its_lines():
    pytest.importorskip("jinja2", reason="the template of the page")
    assert PAGE.read_text("utf-8") == draft_page(read_lines(LINES))


def test_what_the_page_says_of_its_lines():
    lines = read_lines(LINES)
    check_lines(lines)
    table = by_name(lines)
    memory = table["load"]["memory"]
    assert table["load"]["requests"] >= 10_000 and table["malformed"]["requests"] >= 200
    assert memory["10000"] < 1.05 * memory["1000"]  # steady


@pytest.mark.slow
def test_a_small_load(tmp_path):
    for package in ("starlette", "uvicorn", "prometheus_client", "skops", "jinja2"):
        pytest.importorskip(package, reason="the service")
    words = ["--small", "--page", str(tmp_path / "page.md"), "--lines", str(tmp_path / "lines.jsonl")]
    assert main(words) == 0
    check_lines(read_lines(tmp_path / "lines.jsonl"))
