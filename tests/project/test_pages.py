"""Every page of the site runs as printed: blocks of Python in one session, of shell in one folder, in their order.

Blocks marked ``python`` and ``sh`` are run; ``py`` and ``console`` show what cannot be run here, or is elsewhere.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
# Pages of the site that need more than the core and the extras below, by their path.
ALL_NEED = ("skops", "jinja2", "matplotlib", "pyarrow")
NEEDS = {
    "guide/large_data.md": ("distributed",),
    "guide/production.md": ("onnx", "onnxruntime", "skl2onnx", "fastapi", "mlflow"),
    "guide.md": ("torch",),
}
ELSEWHERE = {"results/experiments.md"}  # commands of days
SECONDS = 300


def page_name(path):
    return path.relative_to(DOCS).as_posix()


def source_pages():
    """Return the pages that somebody wrote, those with blocks that run."""
    pages = [path for path in DOCS.rglob("*.md") if not {"gallery", "generated"} & {*path.relative_to(DOCS).parts}]
    return sorted(path for path in pages if page_name(path) not in ELSEWHERE and BLOCK.search(path.read_text("utf-8")))


PAGES = [
    pytest.param(path, id=page_name(path), marks=[pytest.mark.slow] if "```sh\n" in path.read_text("utf-8") else [])
    for path in source_pages()
]


def run_shell(script, folder):
    """Run a block of shell; an audit may say no."""
    script = re.sub(r"^(optfair (?:audit|monitor) .*)$", r"\1 || test $? -eq 1", script, flags=re.MULTILINE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert process.returncode == 0, f"{script}\n{process.stdout}\n{process.stderr}"


@pytest.mark.filterwarnings("ignore")  # those of other packages, and ours, which pages show
@pytest.mark.parametrize("path", PAGES)
def test_a_page_runs_as_printed(path, tmp_path, monkeypatch):
    for package in (*ALL_NEED, *NEEDS.get(page_name(path), ())):
        pytest.importorskip(package, reason="the page uses it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # what a page writes may be imported
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    session: dict = {"__name__": "page"}
    for number, (language, code) in enumerate(BLOCK.findall(path.read_text("utf-8"))):
        if language == "python":
            exec(compile(code, f"{page_name(path)}, block {number}", "exec"), session)
        else:
            run_shell(code, tmp_path)


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
