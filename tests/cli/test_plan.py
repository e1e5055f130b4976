"""``optfair plan``: what it prints and writes is what Python plans, from numbers or from a table."""

import sys

import numpy as np
import pandas as pd
import pytest

import optfair

NUMBERS = ["--groups", "A=1200,B=300", "--classes", "5"]


def test_numbers(run, tmp_path):
    options = ["--criterion", "eo", "--tolerance", "0.1", "--power", "0.9", "--gap", "0.01", "--rate", "0.2"]
    code, out, err = run("plan", *NUMBERS, *options, "--rows", 3, "-o", tmp_path / "plan.csv")
    assert (code, err) == (0, "")
    plan = optfair.plan({"A": 1200, "B": 300}, 5, "eo", 0.1, power=0.9, gap=0.01, rate=0.2)
    assert str(plan) in out and "(3 of 10)" in out and f"Wrote {tmp_path / 'plan.csv'}" in out
    table = pd.read_csv(tmp_path / "plan.csv")
    assert list(table.columns) == list(plan.table.columns) and len(table) == 10
    np.testing.assert_allclose(table.iloc[:, 2:].astype(float), plan.table.iloc[:, 2:].astype(float))
    assert max(map(len, out.splitlines())) <= 130


def test_shares(run):
    shares = ["--groups", "A=0.8, B=0.2", "--classes", "no=0.7,yes=0.3", "--reference", "pairwise"]
    code, out, _ = run("plan", *shares)
    plan = optfair.plan({"A": 0.8, "B": 0.2}, {"no": 0.7, "yes": 0.3}, reference="pairwise")
    assert code == 0 and str(plan) in out and "audit from" not in out
    assert "smallest tolerance" in run("plan", *shares, "--people", 4000)[1]


def test_no_tolerance_of_one_or_more_is_printed(run):
    _, out, _ = run("plan", "--groups", "A=4000,B=7,C=2", "--classes", 2)
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line[:2] in ("B ", "C ")}
    assert lines["C"][-2] == "none" and lines["B"][-2] != "none" and "to audit alone" in out


def test_a_table_is_counted(run, predictions_file, predictions):
    code, out, err = run("plan", predictions_file, "--group", "race,sex", "--label", "truth", "--criterion", "eo")
    assert (code, err) == (0, "")
    group = predictions["race"] + " × " + predictions["sex"]
    assert str(optfair.plan(group, predictions["truth"], "eo")) in out
    out = run("plan", predictions_file, "--group", "race", "--classes", 3)[1]
    assert str(optfair.plan(predictions["race"], 3)) in out


def test_missing_groups_and_placeholders(run, refuse, tmp_path):
    people = tmp_path / "people.csv"
    pd.DataFrame({"g": ["a", "b", None, "?"] * 10, "y": [0, 1] * 20}).to_csv(people, index=False)
    table = ["plan", people, "--group", "g", "--label", "y"]
    assert "or make them a group by --missing group" in refuse(*table)
    code, out, err = run(*table, "--missing", "group")
    assert code == 0 and "(missing)" in out and "?" in err and "--na" in err


def test_the_picture(run, refuse, tmp_path, monkeypatch):
    message = refuse("plan", *NUMBERS, "--plot", tmp_path / "plan.gif")
    assert "--plot" in message and "the name of a picture must end in .png, .svg, .pdf" in message
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    assert run("plan", *NUMBERS, "--plot", tmp_path / "plan.png")[0] == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert 'needs matplotlib: pip install "optfair[plot]"' in refuse("plan", *NUMBERS, "--plot", tmp_path / "p.png")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --groups and --classes, or FILE with --group and --label."),
        (["--groups", "A=5,B=5"], "give --groups and --classes, or FILE"),
        (["--group", "sex"], "--group: names a column of a table; give FILE, or --groups and --classes instead."),
        ([*NUMBERS, "--label", "y"], "--label: names a column of a table"),
        (
            ["--groups", "sex", "--classes", "2"],
            "--groups sex: must be NAME=NUMBER, several of them separated by commas",
        ),
        (["--groups", "A=5,B=x", "--classes", "2"], "--groups B=x: must be NAME=NUMBER"),
        (["--groups", "A=5,=4", "--classes", "2"], "--groups =4: must be NAME=NUMBER"),
        (["--groups", "A=5,A=6", "--classes", "2"], "--groups: names A twice; give each once."),
        (["--groups", "A=5,B=nan", "--classes", "2"], "groups['B']=nan: must be a positive number"),
        (["--groups", "A=5,B=5", "--classes", "few"], "--classes few: must be a number of classes, or CLASS=SHARE"),
        ([*NUMBERS, "--criterion", "fair"], "--criterion fair: unknown; use one of dp"),
        ([*NUMBERS, "--tolerance", "5"], "tolerance=5.0: must be a number in [0.0001, 1); did you mean 0.05?"),
        ([*NUMBERS, "--rows", "-1"], "--rows -1: must be at least 0."),
        ([*NUMBERS, "-o", "plan.xls"], "plan.xls: the name of a table must end in"),
    ],
)
def test_refusals(refuse, options, message):
    assert message in refuse("plan", *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "race", "--label", "truth", "--groups", "A=5,B=5"], "--groups: the people of FILE are counted by"),
        (["--group", "race"], "FILE: give --group, and --label or --classes, to count its people by."),
        (["--group", "race", "--label", "truth", "--classes", "3"], "FILE: give --group, and --label or --classes"),
        (["--group", "rase", "--label", "truth"], "--group rase: there is no such column"),
    ],
)
def test_refusals_of_a_table(refuse, predictions_file, options, message):
    assert message in refuse("plan", predictions_file, *options)
