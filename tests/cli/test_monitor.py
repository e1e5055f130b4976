"""``optfair monitor``: counts of every call add up in a file, and the exit code is the verdict."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from optfair import Constraint, Monitor, Ratio
from tests.cli.helpers import make_predictions

OPTIONS = ["--prediction", "answer", "--group", "race"]


@pytest.fixture
def month(tmp_path):
    """Return a function that writes the table of a month and returns its file."""

    def write(name, bias=0.0, seed=0, n=3000, **columns):
        path = tmp_path / f"{name}.csv"
        make_predictions(n, bias, seed).assign(**columns).to_csv(path, index=False)
        return path

    return write


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state.json"


def test_months_add_up_and_a_change_is_flagged(run, month, state, tmp_path):
    monitor = Monitor([Constraint("dp", 0.1)])
    for k, (bias, expected) in enumerate([(0.0, 0), (0.0, 0), (0.9, 1)]):
        file = month(f"2026-0{k + 1}", bias, k)
        code, out, err = run("monitor", state, file, *OPTIONS, "--tolerance", 0.1, "-o", tmp_path / "gaps.csv")
        table = pd.read_csv(file)
        monitor.update(None, table["answer"], sensitive_features=table["race"], period=f"2026-0{k + 1}")
        report = monitor.check()
        assert (code, err) == (expected, "") and str(report) in out and out.endswith(f"(exit {code})\n")
        np.testing.assert_allclose(pd.read_csv(tmp_path / "gaps.csv")["low"], report.table["low"])
    assert "FLAGGED" in out and "since 2026-03" in out and "Changed, what the rule does" in out
    pd.testing.assert_frame_equal(Monitor.load(state).check().table, report.table)
    code, out, _ = run("monitor", state, month("after", 0.0, 9), *OPTIONS, "--reset")
    assert code == 0 and "3,000 people" in out


def test_a_certificate_can_be_required(run, month, state):
    first = ["--tolerance", 0.2, "--require-certified"]
    code, out, _ = run("monitor", state, month("a", n=60), *OPTIONS, *first)
    assert code == 1 and "OPEN" in out
    code, out, _ = run("monitor", state, month("b", n=20_000), *OPTIONS, *first)
    assert code == 0 and "CERTIFIED" in out


def test_labels_may_come_later(run, month, state):
    file = month("May")
    options = [*OPTIONS, "--criterion", "eo", "--tolerance", 0.3]
    code, out, _ = run("monitor", state, file, *options)
    assert code == 0 and "0 of them with labels" in out
    code, out, _ = run("monitor", state, file, *options, "--label", "truth")
    assert code == 0 and "3,000 people, 3,000 of them with labels, in May" in out


def test_several_groups_and_criteria(run, month, state):
    options = ["--prediction", "answer", "--label", "truth", "--criterion", "dp", "--criterion", "equalized_odds"]
    for name, groups in (("a", "race,sex"), ("b", "sex,race")):
        code, out, _ = run("monitor", state, month(name), *options, "--group", groups, "--tolerance", 0.5)
        assert code == 0 and " × " in out
    code, out, _ = run("monitor", state, month("c"), *options, "--group", "race,sex", "--plain", "truth")
    assert code == 0 and len(Monitor.load(state).periods) == 3


def test_names_are_those_of_the_first_call(run, month, state):
    """A column of numbers stays what it was, though another file holds texts that look like numbers."""
    race = np.arange(3000) % 2
    run("monitor", state, month("a", race=np.where(race, "1", "x")), *OPTIONS)
    code, _, err = run("monitor", state, month("b", race="1"), *OPTIONS)
    assert (code, err) == (0, "") and list(Monitor.load(state).groups) == ["1", "x"]


def test_what_is_refused(run, refuse, month, state, tmp_path):
    first, other = month("first"), month("other")
    assert "there is no such column" in refuse("monitor", state, first, "--prediction", "x", "--group", "race")
    assert "is also an input file" in refuse("monitor", first, first, *OPTIONS)
    assert "must be a number in [0, 1]" in refuse("monitor", state, first, *OPTIONS, "--tolerance", 7)
    assert "confidence=95.0: must be" in refuse("monitor", state, first, *OPTIONS, "--confidence", 95)
    assert "some hold texts and others numbers" in refuse("monitor", state, first, *OPTIONS, "--label", "w")
    assert "cut a number into a few bands" in refuse("monitor", state, first, *OPTIONS[:2], "--group", "p_high")
    assert "the folder" in refuse("monitor", tmp_path / "no" / "s.json", first, *OPTIONS)
    assert "--rows -1: must be" in refuse("monitor", state, first, *OPTIONS, "--rows", -1)
    assert not state.exists()  # nothing of that was written
    assert run("monitor", state, first, *OPTIONS, "--tolerance", 0.3)[0] == 0
    before = state.read_bytes()
    assert "period='first': is counted already" in refuse("monitor", state, first, *OPTIONS)
    for option, value in [("tolerance", 0.2), ("criterion", "eo"), ("confidence", 0.9), ("reference", "pairwise")]:
        line = refuse("monitor", state, other, *OPTIONS, f"--{option}", value)
        assert f"--{option}: {state} was begun with" in line and "begin another file" in line
    assert "was begun with others" in refuse("monitor", state, other, *OPTIONS, "--outcome", "high")
    assert "was begun with 1 (race); give the same" in refuse("monitor", state, other, *OPTIONS, "--group", "sex")
    strangers = month("strangers", race="Z")
    assert "'Z' is not among the groups of this monitor" in refuse("monitor", state, strangers, *OPTIONS)
    holes = month("holes", race=np.where(np.arange(3000) < 9, None, "A"))
    assert "--missing group in the first call" in refuse("monitor", state, holes, *OPTIONS)
    assert "is also an input file" in refuse("monitor", state, other, *OPTIONS, "-o", other)
    assert state.read_bytes() == before
    state.write_bytes(before[:-20])
    assert "not a complete JSON file" in refuse("monitor", state, other, *OPTIONS)
    Monitor(Ratio("dp")).save(state)
    assert "holds constraints of the Python library" in refuse("monitor", state, other, *OPTIONS)


def test_missing_groups_may_be_a_group(run, month, state):
    holes = month("holes", race=np.where(np.arange(3000) < 900, None, "A"))
    assert run("monitor", state, holes, *OPTIONS, "--missing", "group")[0] == 0
    assert list(Monitor.load(state).groups) == ["A", "(missing)"]


def test_two_commands_at_once_lose_no_people(month, state):
    files = [month(f"part{k}", seed=k, n=500) for k in range(4)]
    command = [sys.executable, "-m", "optfair", "monitor", str(state)]
    subprocess.run([*command, str(month("first", n=500)), *OPTIONS], check=True, capture_output=True)
    processes = [subprocess.Popen([*command, str(file), *OPTIONS], stdout=subprocess.DEVNULL) for file in files]
    assert [process.wait(timeout=300) for process in processes] == [0] * 4
    assert sum(len(period.people) > 0 for period in Monitor.load(state)._state.periods) == 5
