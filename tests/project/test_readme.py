"""What the README and the guide print runs as printed, in order: Python in one session, shell in one process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)


BLOCKS = {"README.md": 1, "docs/guide.md": 8, "docs/datasets.md": 2, "docs/baselines.md": 1, "docs/large_data.md": 6}


@pytest.mark.parametrize("file", BLOCKS)
def test_python_blocks_run(tmp_path, monkeypatch, capsys, file):
    pytest.importorskip("skops", reason="the guide saves a model")
    pytest.importorskip("jinja2", reason="the guide writes a page")
    if file == "docs/large_data.md":
        pytest.importorskip("pyarrow", reason="rows are in Parquet files")
        pytest.importorskip("distributed", reason="one of its clusters is of Dask")
    monkeypatch.chdir(tmp_path)
    examples = blocks(file, "python")
    assert len(examples) >= BLOCKS[file]
    session: dict = {}
    for number, block in enumerate(examples):
        exec(compile(block, f"{file}, Python block {number}", "exec"), session)
    printed = capsys.readouterr().out
    if file in ("README.md", "docs/guide.md"):
        assert "upper bound" in printed and "interval" in printed


@pytest.mark.slow
def test_shell_blocks_of_the_readme_run(tmp_path):
    for extra in ("skops", "matplotlib", "jinja2"):
        pytest.importorskip(extra, reason="the README saves a model, draws and writes a page")
    scripts = [block for block in blocks("README.md", "sh") if "optfair fit" in block]
    assert len(scripts) == 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-e", "-c", re.sub(r"^(optfair audit .*)$", r"\1 || test $? -eq 1", scripts[0], flags=re.MULTILINE)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {
        "people.csv",
        "others.csv",
        "fair.skops",
        "fair.skops.key",
        "promised.skops",
        "promised.skops.key",
        "answers.csv",
        "report.html",
        "memo.html",
        "frontier.csv",
        "frontier.png",
    }


def test_the_commands_are_targets():
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = "\n".join(blocks("README.md", "sh"))
    for command in ("demo", "test"):
        assert f"make {command}" in readme
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for command in re.findall(r"^make ([a-z-]+)", f"{readme}\n{contributing}", flags=re.MULTILINE):
        assert re.search(rf"^{command}:", targets, flags=re.MULTILINE), command


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda path: path.name)
def test_links_to_files_of_the_project_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_every_data_set_is_in_the_docs():
    from optfair.datasets import entry, names

    text = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name in names():
        assert f"`{name}`" in text
        for file in entry(name).files[:3]:
            folder = file.name.split("/")[0]
            assert f"`{folder}/" in text
            if file.url and "google" not in file.url:
                assert file.url.rpartition("/")[0] in text
