"""Check the command line: wrong arguments are one line, before anything runs; and which pages go where."""

import json
import re
import sys
from pathlib import Path

import pytest

from experiments.catalogue import EXPERIMENTS
from experiments.command import main
from optfair.utils.files import exclusive

for package in ("jinja2", "matplotlib", "torch"):
    pytest.importorskip(package, reason="what the experiments need")

WRONG = {
    "experiment": (["nothing"], "nothing: there is no such experiment; there are frontiers, "),
    "jobs": (["truth", "--jobs", "0"], "--jobs 0: must be at least 1."),
    "limit": (["truth", "--limit", "0"], "--limit 0: must be "),
    "no number": (["truth", "--limit", "nan"], "--limit nan: must be "),
    "infinite": (["truth", "--limit", "inf"], "--limit inf: must be "),
    "data": (["truth", "--data", "unknown"], "--data unknown: there is no such data; there are adult, "),
    "families": (["truth", "--data", "unknown"], ", world-5x5, grow, "),
    "other data": (["ablation", "--data", "adult"], "--data adult: is not among the data of ablation."),
    "some other data": (["truth", "--data", "world-3x3", "--data", "adult"], "--data adult: is not among the data of "),
    "no lines": (["truth", "--only-page"], ": holds no lines of runs, *.jsonl."),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_one_line(name, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("it has begun")

    monkeypatch.setattr("experiments.run.evaluate_all", fail)
    arguments, message = WRONG[name]
    assert main([*arguments, "--smoke", "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("experiments: ") and message in printed and printed.count("\n") == 1
    assert not list(tmp_path.rglob("*.jsonl"))


def test_folders_of_pages_that_cannot_be_written_are_refused_before_anything_runs(tmp_path, capsys, monkeypatch):
    def refusal(pages):
        assert main(["truth", "--smoke", "--out", str(tmp_path / "out"), "--pages", str(pages)]) == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    (tmp_path / "file").write_text("")
    for pages in (tmp_path / "file", tmp_path / "file" / "deeper"):
        message = f"needs a folder {tmp_path / 'file'}, and that is a file."
        assert refusal(pages) == f"experiments: --pages {pages}: {message}\n"
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    pages = tmp_path / "new"
    assert refusal(pages) == f"experiments: --pages {pages}: the folder {tmp_path} cannot be written to.\n"


def test_the_help_names_every_experiment(capsys):
    assert main(["--help"]) == 0
    assert f"one of {', '.join(EXPERIMENTS)} (default: all)" in " ".join(capsys.readouterr().out.split())


def test_a_folder_that_another_process_writes_to(tmp_path, capsys):
    with exclusive(tmp_path / ".lock"):
        assert main(["truth", "--smoke", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"experiments: {tmp_path}: another `python -m experiments` is writing there")
    assert printed.count("\n") == 1 and not list(tmp_path.glob("*.jsonl"))


def test_folders_and_lines_that_cannot_be_read(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["truth", "--smoke", "--out", str(file)]) == 2
    assert capsys.readouterr().err == f"experiments: --out {file}: is a file; must be a folder.\n"
    (tmp_path / "truth.jsonl").write_text('{"run": {"da\n')
    assert main(["truth", "--smoke", "--out", str(tmp_path)]) == 2
    message = f"experiments: {tmp_path / 'truth.jsonl'}, line 1: is no line of a run; mend or remove it.\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("package", ["jinja2", "matplotlib", "torch", "lightgbm"])
def test_a_missing_package_is_named_before_anything_runs(package, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    name = "labels" if package == "lightgbm" else "truth"
    assert main([name, "--smoke", "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert f"needs {package}: pip install " in printed and printed.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["truth"], ["labels", "--data", "enem-logistic"], ["labels", "--data", "enem-boosted", "--only-page"]]
)
def test_boosted_trees_are_needed_where_they_are_trained_only(arguments, tmp_path, capsys, monkeypatch):
    def begin(*_, **__):
        raise ValueError("it has begun")

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setattr("experiments.command.run_all", begin)
    monkeypatch.setattr("experiments.command.Ledger", begin)
    (tmp_path / "labels.jsonl").write_text("")
    assert main([*arguments, "--smoke", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "experiments: it has begun\n"


def test_pages_of_lines_that_lack_some_data_name_the_runs_and_not_the_data(no_data, adult_plan, tmp_path, capsys):
    lines = "".join(f"{json.dumps(line)}\n" for line in adult_plan.lines.values())
    (tmp_path / "frontiers.jsonl").write_text(lines)
    page = ["frontiers", "--only-page", "--out", str(tmp_path)]
    for more in (["--data", "adult", "--data", "enem"], []):
        assert main([*page, *more]) == 2
        words = r"\d+ trials have no line, the first of them ERM on enem, dp, seed 1 .* makes them"
        assert re.fullmatch(rf"experiments: frontiers: {words}\.\n", capsys.readouterr().err)
    assert main([*page, "--data", "adult"]) == 0


@pytest.mark.parametrize("line", ['{"run": {}}', '{"run": "x"}', '{"run": {"data": "adult"}, "scores": {}}'])
@pytest.mark.parametrize("more", [["--only-page"], []])
def test_lines_that_are_none_are_refused(line, more, tmp_path, capsys):
    file = tmp_path / "truth.jsonl"
    file.write_text(f"{line}\n")
    assert main(["truth", "--smoke", "--out", str(tmp_path), *more]) == 2
    assert capsys.readouterr().err == f"experiments: {file}, line 1: is no line of a run; mend or remove it.\n"


def test_a_fault_is_reported_as_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.command.run", lambda arguments: 1 / 0)
    assert main(["--out", str(tmp_path)]) == 3
    assert (
        "ZeroDivisionError" in (printed := capsys.readouterr().err) and "this is a fault of the experiments" in printed
    )
