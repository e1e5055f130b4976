"""What the README and the guide print runs as printed, in order: Python in one session, shell in one process."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    ("file", "least"), [("README.md", 1), ("docs/guide.md", 8), ("docs/datasets.md", 2), ("docs/baselines.md", 1)]
)
def test_python_blocks_run(tmp_path, monkeypatch, capsys, file, least):
    pytest.importorskip("skops", reason="the guide saves a model")
    monkeypatch.chdir(tmp_path)
    found = blocks(file, "python")
    assert len(found) >= least
    session: dict = {}
    for number, block in enumerate(found):
        exec(compile(block, f"{file}, Python block {number}", "exec"), session)
    printed = capsys.readouterr().out
    if file in ("README.md", "docs/guide.md"):
        assert "upper bound" in printed and "interval" in printed


def test_shell_blocks_of_the_readme_run(tmp_path):
    for extra in ("skops", "matplotlib"):
        pytest.importorskip(extra, reason="the README saves a model and draws")
    found = [block for block in blocks("README.md", "sh") if "optfair fit" in block]
    assert len(found) == 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", re.sub(r"^(optfair audit .*)$", r"\1 || test $? -eq 1", found[0], flags=re.MULTILINE)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        "people.csv",
        "others.csv",
        "fair.skops",
        "fair.skops.key",
        "answers.csv",
        "frontier.csv",
        "frontier.png",
    }


def test_the_two_commands_are_targets_and_ci_runs_them():
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    printed = "\n".join(blocks("README.md", "sh"))
    for command in ("demo", "test"):
        assert f"make {command}" in printed and re.search(rf"^{command}:", targets, flags=re.MULTILINE)


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


def test_the_page_of_the_baselines_is_made_from_its_runs():
    """The table of methods is the registry's, and every number is that of committed runs of all of them."""
    import methods

    lines = ROOT / "docs" / "baselines.jsonl"
    found = {methods.key(json.loads(text)) for text in lines.read_text(encoding="utf-8").splitlines()}
    wanted = {(name, seed, method.name, criterion, value) for name, seed, method, criterion, value in methods.runs()}
    assert found == wanted
    assert (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8") == methods.page(lines)


def test_the_page_of_results_is_made_from_its_runs(tmp_path, monkeypatch, capsys):
    """The command that the page names, asked for the page alone, writes the same page; and its pictures are there."""
    pytest.importorskip("matplotlib", reason="the pictures of the page")
    from optfair.cli.main import main

    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results", ignore=shutil.ignore_patterns("*.png"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPTFAIR_DATA", str(tmp_path))  # the lines say who the people were
    command = re.search(r"written by `optfair ([^`]+)`", page).group(1)
    assert main([*shlex.split(command), "--only-page"]) == 0
    assert (tmp_path / "docs" / "results.md").read_text(encoding="utf-8") == page
    drawn = {file.name for file in (tmp_path / "docs" / "results").glob("*.png")}
    assert drawn == {file.name for file in (ROOT / "docs" / "results").glob("*.png")} and drawn
