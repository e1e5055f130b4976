"""The benchmark as it runs: real workers, killed at any moment; what is finished is kept, and nothing is done twice."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optfair.benchmark.catalogue import EXPERIMENTS, Experiment, read_experiment
from optfair.benchmark.ledger import Ledger, alone
from optfair.benchmark.plan import Plan
from optfair.benchmark.pool import Worker, WorkerDied, units, work
from optfair.benchmark.run import TUNING, finished, run_all
from optfair.cli.main import main

pytest.importorskip("torch", reason="the networks of the benchmark")
pytest.importorskip("fcntl", reason="locks and signals of POSIX")

SMALL = Experiment(
    "small",
    "",
    "",
    "",
    (
        {"data": ["adult"], "methods": ["ERM"]},
        {"data": ["adult"], "methods": ["OptFairPost", "OptFairPost-calibrated"], "criteria": ["dp"], "values": [0.02]},
        {"data": ["adult"], "methods": ["OptFairPost", "OptFairPost-calibrated"], "criteria": ["eo"], "values": [0.02]},
    ),
)
RUNS = 10  # of it, with two seeds
# First of ERM, whose two trials differ in epochs only, which are the same in a smoke run; then of OptFairPost: two
# posteriors, each at a value for each criterion, and what the joint one says before it is made fair.
TRIALS = (1, 5)


def run_small(folder, **options):
    """What was said, a line each."""
    said = []
    run_all([SMALL], folder, smoke=True, only=("adult",), **{"say": said.append, "limit": 1800.0} | options)
    return said


def scores(folder):
    return {key: line.get("scores", line.get("error")) for key, line in Ledger(folder).lines.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(folder, what was said, seconds) of a run by one worker, that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "new" / "folder"
    clock = time.monotonic()
    said = run_small(folder)
    return folder, said, time.monotonic() - clock


def tuned(whole, folder):
    """Take over the trials, which saves time."""
    shutil.copy(whole[0] / f"{TUNING}.jsonl", folder)


# -- all runs -----------------------------------------------------------------------------------------------
def test_trials_and_runs_are_done_and_told(whole):
    folder, said, _ = whole
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["small.jsonl", f"{TUNING}.jsonl"]
    lines = Ledger(folder).lines
    parts = [line["run"]["part"] for line in lines.values()]
    assert (parts.count("test"), parts.count("validation")) == (RUNS, sum(TRIALS))
    assert set(lines) >= {run.key for run in Plan(lines, smoke=True, only=("adult",)).runs(SMALL)}
    stages = [text for text in said if text.endswith(" to do")]
    expected = [(TUNING, TRIALS[0]), (TUNING, TRIALS[1]), ("small", RUNS)]
    assert stages == [f"{name}: {runs} of {runs} runs to do" for name, runs in expected]
    told = [text for text in said if text.endswith(" left)")]
    assert len(told) == RUNS + sum(TRIALS) == len(said) - len(stages)
    assert told[-1].startswith(f"small {RUNS}/{RUNS}  adult ") and told[-1].endswith("(about 0 s left)")


def test_what_is_finished_is_not_done_again(whole):
    folder, _, _ = whole
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.jsonl")}
    assert run_small(folder) == [f"small: 0 of {RUNS} runs to do"]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.jsonl")} == before


def test_smoke_says_whose_people_are_made_up(tmp_path, monkeypatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    for name in ("OPTFAIR_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(empty))
    plain = Experiment("plain", "", "", "", ({"data": ["acs", "world-3x3"], "methods": ["ERM"]},))
    said: list[str] = []
    run_all([plain], tmp_path, smoke=True, only=("acs", "world-3x3"), say=said.append, limit=1800.0)
    assert "plain: ACSIncome is not here; made-up people take its place (--smoke)" in said
    assert len([text for text in said if "made-up" in text]) == 2  # for the trials, and for the runs; of no others


def test_two_workers_find_what_one_finds(whole, tmp_path):
    tuned(whole, tmp_path)
    run_small(tmp_path, jobs=2)
    assert scores(tmp_path) == scores(whole[0])
    assert not multiprocessing.active_children()


def test_units_are_runs_that_share_models(whole):
    plan = Plan(Ledger(whole[0]).lines, smoke=True, only=("adult",))
    runs = plan.runs(SMALL)
    found = units(plan, runs)
    assert sorted(map(len, found)) == [1, 1, 4, 4]  # of each seed: plain training, and all that is post-processed
    assert sorted(run.key for unit in found for run in unit) == sorted(run.key for run in runs)
    assert all(len({run.seed for run in unit}) == 1 for unit in found)


# -- workers that take too long, or die ---------------------------------------------------------------------
def by_hand(whole, *rounds):
    """(plan, runs of OptFairIn with so many rounds: one unit)."""
    plan = Plan(Ledger(whole[0]).lines, smoke=True, only=("adult",))
    run = next(run for run in plan.runs(SMALL) if run.method == "ERM")
    run = replace(run, method="OptFairIn", value=0.02)
    return plan, [replace(run, options={**run.options, "rounds": n, "stop_below": None}) for n in rounds]


def test_a_run_that_takes_too_long_is_stopped_and_the_others_go_on(whole, tmp_path):
    limit = max(3.0, 0.6 * whole[2])  # enough to start a worker and for half a dozen quick runs, on this machine
    plan, runs = by_hand(whole, 10_000_000, 2, 3)
    clock = time.monotonic()
    slow, *quick = work(plan, runs, tmp_path, 1, limit)
    assert time.monotonic() - clock < 3 * limit
    assert slow == {"run": runs[0].as_dict(), "error": f"stopped after {limit:g} seconds", "limit": limit}
    assert [line["run"] for line in quick] == [run.as_dict() for run in runs[1:]]
    assert all("scores" in line for line in quick)
    assert not multiprocessing.active_children()


def test_the_clock_starts_when_the_people_are_there(whole):
    _, (run,) = by_hand(whole, 2)
    here, there = multiprocessing.Pipe()
    worker = Worker(None, here, [run], started=-1000.0)
    there.send(None)  # as `perform` does
    assert worker.answer() is None and worker.unit == [run]
    assert time.monotonic() - worker.started < 100
    there.send({"run": run.as_dict()})
    assert worker.answer() == {"run": run.as_dict()}


def test_a_run_that_was_stopped_is_tried_again_where_it_may_take_longer():
    stopped = {"error": "stopped after 10 seconds", "limit": 10.0}
    assert finished(stopped, 10.0) and finished(stopped, 5.0) and not finished(stopped, 11.0)
    assert finished({"error": "ValueError: no"}, 11.0) and not finished(None, 11.0)


def test_a_worker_that_dies_is_told_and_what_is_finished_is_kept(whole, tmp_path):
    tuned(whole, tmp_path)

    def say(text):
        if text.startswith("small 3/"):
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGKILL)

    with pytest.raises(
        WorkerDied, match=r"^a worker ended with -9 at [\w-]+ on adult, seed \d; .*start again to go on\.$"
    ):
        run_small(tmp_path, say=say)
    kept = (tmp_path / "small.jsonl").read_bytes()
    assert 3 <= kept.count(b"\n") < RUNS and not multiprocessing.active_children()
    run_small(tmp_path)
    assert (tmp_path / "small.jsonl").read_bytes().startswith(kept) and scores(tmp_path) == scores(whole[0])


def test_a_worker_that_dies_between_units_is_told_too(whole, tmp_path):
    plan, (run,) = by_hand(whole, 1)
    lines = work(plan, [run, replace(run, seed=2)], tmp_path, 1, 600.0)
    assert "scores" in next(lines)
    (worker,) = multiprocessing.active_children()
    worker.kill()
    worker.join()
    with pytest.raises(WorkerDied, match="seed 2"):
        next(lines)


def test_a_fault_is_no_line(whole, tmp_path):
    plan, (run,) = by_hand(whole, 1)
    wrong = replace(run, options={**run.options, "no_such_option": 1})
    with pytest.raises(RuntimeError, match=r"^OptFairIn on adult, seed 1: TypeError: .*no_such_option"):
        list(work(plan, [wrong], tmp_path, 1, 600.0))


# -- the command, killed ------------------------------------------------------------------------------------
NAME = "calibration"


@pytest.fixture
def start():
    """Starts the command in a group of its own, which ends with the test."""
    started = []

    def begin(folder, jobs):
        command = [sys.executable, "-m", "optfair", "bench", NAME, "--smoke", "--data", "adult", "--out", str(folder)]
        command += ["--jobs", str(jobs)]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def read_until(process, lines):
    """Wait until so many runs of the experiment are told."""
    said = []
    for text in process.stderr:
        said.append(text)
        if sum(own.startswith(f"{NAME} ") for own in said) >= lines:
            return
    pytest.fail(f"it ended before {lines} runs: {''.join(said)}")


def children(pid):
    return [int(own) for own in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks /proc for children")
def test_killed_at_any_moment_it_goes_on_where_it_was(start, tmp_path):
    rng = np.random.default_rng()
    folder = tmp_path / "out"
    before = {}
    for only_parent in (True, False):
        process = start(folder, jobs=1 if only_parent else 2)
        read_until(process, int(rng.integers(1, 5)))
        workers = children(process.pid)
        assert workers
        if only_parent:
            os.kill(process.pid, signal.SIGKILL)
            limit = time.monotonic() + 60
            while any(map(alive, workers)) and time.monotonic() < limit:
                time.sleep(0.05)
            assert not any(map(alive, workers)), "workers outlive the one they work for"
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.stderr.close()
        assert process.wait() == -signal.SIGKILL
        now = contents(folder)
        assert all(now[name].startswith(text) for name, text in before.items()) and now != before
        assert len(Ledger(folder).lines) == sum(text.count(b"\n") for text in now.values())
        before = now
    (folder / f".{NAME}.jsonl.0123456789ab").write_bytes(before[f"{NAME}.jsonl"][:-20])  # killed while it wrote

    process = start(folder, jobs=2)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    now = contents(folder)
    assert all(now[name].startswith(text) for name, text in before.items())
    lines = Ledger(folder).lines
    assert len(lines) == sum(text.count(b"\n") for text in now.values())  # nothing twice
    expected = Plan(lines, smoke=True, only=("adult",)).runs(read_experiment(NAME))
    of_it = [json.loads(text)["run"] for text in now[f"{NAME}.jsonl"].decode().splitlines()]
    assert sorted(json.dumps(run, sort_keys=True) for run in of_it) == sorted(run.key for run in expected)
    assert all("error" not in line for line in lines.values())
    todo = len(expected) - before[f"{NAME}.jsonl"].count(b"\n")
    assert f"{NAME}: {todo} of {len(expected)} runs to do\n" in said and said.count(" left)\n") == todo


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks /proc for children")
def test_asked_to_end_it_ends_with_its_workers(start, tmp_path):
    process = start(tmp_path / "out", jobs=1)
    read_until(process, 1)
    workers = children(process.pid)
    process.terminate()
    process.stderr.close()
    assert process.wait(60) == 128 + signal.SIGTERM  # by the way out, and not by the signal
    limit = time.monotonic() + 5  # one of them is no worker but tidies up after them
    while any(map(alive, workers)) and time.monotonic() < limit:
        time.sleep(0.02)
    assert workers and not any(map(alive, workers))


# -- what the user gave is wrong ----------------------------------------------------------------------------
WRONG = {
    "experiment": (["nothing"], "nothing: there is no such experiment; there are frontiers, "),
    "jobs": (["truth", "--jobs", "0"], "--jobs 0: must be at least 1."),
    "limit": (["truth", "--limit", "0"], "--limit 0: must be "),
    "no number": (["truth", "--limit", "nan"], "--limit nan: must be "),
    "for ever": (["truth", "--limit", "inf"], "--limit inf: must be "),
    "data": (["truth", "--data", "nobody"], "--data nobody: there is no such data; there are adult, "),
    "families": (["truth", "--data", "nobody"], ", world-5x5, grow.\n"),
    "nobody": (["ablation", "--data", "adult"], "--data adult: is not among the people of ablation."),
    "one is nobody": (["truth", "--data", "world-3x3", "--data", "adult"], "--data adult: is not among the people of "),
    "page without ending": (["truth", "--page", "page"], "--page page: give the name of a file with an ending"),
    "no lines": (["truth", "--only-page"], ": holds no lines of runs, *.jsonl."),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_one_line(what, tmp_path, capsys, monkeypatch):
    def nothing(*_, **__):
        raise AssertionError("it has begun")

    monkeypatch.setattr("optfair.benchmark.run.work", nothing)
    arguments, message = WRONG[what]
    assert main(["bench", *arguments, "--smoke", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("optfair bench: ") and message in said and said.count("\n") == 1
    assert not list(tmp_path.rglob("*.jsonl"))


def test_pages_that_cannot_be_written_are_refused_before_anything_runs(tmp_path, capsys, monkeypatch):
    def refused(page):
        assert main(["bench", "truth", "--smoke", "--out", str(tmp_path / "out"), "--page", str(page)]) == 2
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    (tmp_path / "folder.md").mkdir()
    (tmp_path / "file").write_text("")
    page = tmp_path / "folder.md"
    assert refused(page) == f"optfair bench: --page {page}: is a folder; give the name of a file.\n"
    for page in (tmp_path / "file" / "page.md", tmp_path / "file.md", tmp_path / "file" / "deeper" / "page.md"):
        told = f"needs a folder {tmp_path / 'file'}, and that is a file."
        assert refused(page) == f"optfair bench: --page {page}: {told}\n"
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    page = tmp_path / "new" / "page.md"
    assert refused(page) == f"optfair bench: --page {page}: the folder {tmp_path} cannot be written to.\n"


def test_the_help_names_every_experiment(capsys):
    assert main(["bench", "--help"]) == 0
    assert f"of {', '.join(EXPERIMENTS)} (default: all)" in " ".join(capsys.readouterr().out.split())


def test_a_folder_that_another_writes_to(tmp_path, capsys):
    asked = ["bench", "truth", "--smoke", "--out", str(tmp_path)]
    with alone(tmp_path / ".lock"):
        assert main(asked) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"optfair bench: {tmp_path}: another `optfair bench` is writing there")
    assert said.count("\n") == 1 and not list(tmp_path.glob("*.jsonl"))


def test_folders_and_lines_that_cannot_be_read(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["bench", "truth", "--smoke", "--out", str(file)]) == 2
    assert capsys.readouterr().err == f"optfair bench: --out {file}: is a file; must be a folder.\n"
    (tmp_path / "truth.jsonl").write_text('{"run": {"da\n')
    assert main(["bench", "truth", "--smoke", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"optfair bench: {tmp_path / 'truth.jsonl'}, line 1: is no line of a run; mend or remove it.\n"
