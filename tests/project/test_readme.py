"""What the README prints runs as printed, in order: Python in one session, shell in one process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)


GENERATED = {"gallery", "generated"}  # by a build of the site
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not GENERATED & {*path.relative_to(ROOT).parts}
)


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    for extra in ("jinja2", "skops"):
        pytest.importorskip(extra, reason="the README writes a page and saves a model")
    monkeypatch.chdir(tmp_path)
    session: dict = {}
    for number, block in enumerate(blocks("README.md", "python")):
        exec(compile(block, f"README.md, Python block {number}", "exec"), session)
    assert "upper bound" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "fair.skops", "fair.skops.key"}


def test_published_draws_come_out():
    """The table of docs/guide/production.md is what other languages are tested against."""
    from optfair.portable.scorer_file import scorer_module

    scorer, key = scorer_module(), bytes(range(32))
    text = (ROOT / "docs" / "guide" / "production.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| `(\w+)` \| `(\w+)` \| (0\.\d+) \| `(\w+)` \| (0\.\d+) \|$", text, flags=re.M)
    assert len(rows) == 7
    for person, content, blake, u, sha, v in rows:
        who = json.loads(person)
        assert (b"k" + scorer.person_bytes(who)).hex() == content
        for hashing, digest, number in (("blake2b", blake, u), ("hmac-sha256", sha, v)):
            assert scorer.keyed(key, bytes.fromhex(content), hashing).hex() == digest
            assert scorer.draw(key, who, hashing) == float(number)


@pytest.mark.slow
def test_shell_blocks_of_the_readme_run(tmp_path):
    for extra in ("skops", "jinja2"):
        pytest.importorskip(extra, reason="the README saves a model and writes a page")
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
    assert files == {"people.csv", "others.csv", "fair.skops", "fair.skops.key", "predictions.csv", "audit.html"}


def test_the_commands_are_targets():
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = "\n".join(blocks("README.md", "sh"))
    for command in ("demo", "test"):
        assert f"make {command}" in readme
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for command in re.findall(r"^make ([a-z-]+)", f"{readme}\n{contributing}", flags=re.MULTILINE):
        assert re.search(rf"^{command}:", targets, flags=re.MULTILINE), command


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_files_of_the_project_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert source_of(path.parent / target).exists(), target


def source_of(page: Path) -> Path:
    """Return the file that a page is made of: those of the gallery are made of scripts when the site is built."""
    page = page.resolve()
    if page.parent != ROOT / "docs" / "gallery":
        return page
    return ROOT / "examples" / "gallery" / ("GALLERY_HEADER.rst" if page.stem == "index" else f"{page.stem}.py")


def test_every_data_set_is_in_the_docs():
    from optfair.datasets import entry, names

    text = (ROOT / "docs" / "theory" / "datasets.md").read_text(encoding="utf-8")
    for name in names():
        assert f"`{name}`" in text
        for file in entry(name).files[:3]:
            folder = file.name.split("/")[0]
            assert f"`{folder}/" in text
            if file.url and "google" not in file.url:
                assert file.url.rpartition("/")[0] in text


def test_version_and_date_are_the_same_everywhere():
    from optfair import __version__

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    date = re.search(r"^date-released: (\d{4}-\d\d-\d\d)$", citation, flags=re.MULTILINE)
    assert re.search(rf"^version: {re.escape(__version__)}$", citation, flags=re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert date is not None and f"## [{__version__}] - {date[1]}\n" in changelog
