"""Every page of the site runs as printed: blocks of Python in one session, of shell in one folder, in their order.

Blocks marked ``python`` and ``sh`` are run, and a block ``text`` right behind one is its output (see ``pages.py``).
``py`` and ``console`` show what cannot be run here, or is elsewhere.
"""

import os
import re
from pathlib import Path

import pytest

from tests.project.pages import OUTPUT, is_shown, read_blocks, run_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages of the site that need more than the core and the extras below, by their path.
ALL_NEED = ("skops", "jinja2", "matplotlib", "pyarrow")
NEEDS = {
    "guide/large_data.md": ("distributed",),
    "guide/migrating.md": ("fairlearn",),
    "guide/production.md": ("onnx", "onnxruntime", "skl2onnx", "fastapi", "mlflow"),
    "guide/training.md": ("torch",),
}
ELSEWHERE = {"results/experiments.md"}  # commands of days


def page_name(path):
    return path.relative_to(DOCS).as_posix()


def source_pages():
    """Return the pages that somebody wrote, those with blocks that run."""
    pages = [path for path in DOCS.rglob("*.md") if not {"gallery", "generated"} & {*path.relative_to(DOCS).parts}]
    return sorted(path for path in pages if page_name(path) not in ELSEWHERE and read_blocks(path.read_text("utf-8")))


PAGES = [
    pytest.param(path, id=page_name(path), marks=[pytest.mark.slow] if "```sh\n" in path.read_text("utf-8") else [])
    for path in source_pages()
]


@pytest.fixture(autouse=True)
def environment():
    """Take back what a page does to the environment, such as a key: other pages have keys of their own."""
    before = dict(os.environ)
    os.environ.pop("OPTFAIR_KEY", None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.filterwarnings("ignore")  # those of other packages, and ours, which pages show
@pytest.mark.parametrize("path", PAGES)
def test_a_page_runs_as_printed(path, tmp_path, monkeypatch):
    for package in (*ALL_NEED, *NEEDS.get(page_name(path), ())):
        pytest.importorskip(package, reason="the page uses it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # what a page writes may be imported
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for block, printed in run_page(path, tmp_path):
        assert block.shown is None or is_shown(block.shown, printed), f"shown:\n{block.shown}\nprinted:\n{printed}"


def test_the_pages_are_found():
    assert {"guide/large_data.md", "guide/production.md"} <= {page_name(path) for path in source_pages()}


LANGUAGES = {"python", "sh", "py", "console", "text", "json", "js", "sql", "html", "toml", "dockerfile", "yaml", "csv"}


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=page_name)
def test_blocks_have_a_language(path):
    """Else a block might be code that nobody runs."""
    if {"gallery", "generated"} & {*path.relative_to(DOCS).parts}:
        return
    text = path.read_text("utf-8")
    opening = re.findall(r"^ *```+(.*)$", text, flags=re.MULTILINE)[::2]
    strange = [word for word in opening if word.strip() not in LANGUAGES and not word.startswith("{")]
    assert strange == [] or page_name(path).startswith("results/"), strange


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=page_name)
def test_blocks_that_run_are_not_indented(path):
    """Else nobody would run them: those inside of lists, for example."""
    if not {"gallery", "generated"} & {*path.relative_to(DOCS).parts}:
        assert re.findall(r"^ +```(?:python|sh)$", path.read_text("utf-8"), flags=re.MULTILINE) == []


def test_outputs_are_compared():
    page = "```python\nprint(1.25)\n```\n\n```text\n1.2...\n```\n\n```sh\ntrue\n```\ntext\n```text\nno output\n```\n"
    first, second = read_blocks(page)
    assert (first.code, first.shown, second.shown) == ("print(1.25)\n", "1.2...\n", None)
    assert OUTPUT == "text" and is_shown(first.shown, "1.25\n") and not is_shown(first.shown, "2.25\n")
