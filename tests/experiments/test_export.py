"""Exported models on real data: the page is made of its lines, no answer differs, and the script runs."""

from pathlib import Path

import pytest

from experiments.export.__main__ import LINES, main, read_lines
from experiments.export.cases import all_cases
from experiments.export.page import RUNTIMES, draft_page

PAGE = Path(__file__).parents[2] / "docs" / "results" / "export.md"


def test_the_page_is_made_of_its_lines():
    pytest.importorskip("jinja2", reason="the template of the page")
    assert PAGE.read_text("utf-8") == draft_page(list(read_lines(LINES).values()))


def test_every_case_was_measured_and_no_answer_differs():
    """What the pages say."""
    lines = read_lines(LINES)
    assert list(lines) == [case.name for case in all_cases()]
    for line in lines.values():
        for runtime in RUNTIMES:
            assert line[runtime]["different"] == 0 < line[runtime]["people"]
        assert line.get("double", line["onnxruntime"]["largest"]) < 1e-11


@pytest.mark.slow
def test_the_script_runs(tmp_path, capsys):
    for package in ("onnx", "onnxruntime", "skl2onnx", "jinja2"):
        pytest.importorskip(package, reason="models are exported")
    words = ["--small", "--only", "adult-occupation: logistic regression, blind", "--page", str(tmp_path / "page.md")]
    assert main([*words, "--lines", str(tmp_path / "lines.jsonl")]) == 0
    assert len(read_lines(tmp_path / "lines.jsonl")) == 2  # calibrated and not
    assert "adult-occupation" in (tmp_path / "page.md").read_text("utf-8")
    assert ", 0 others" in capsys.readouterr().out
