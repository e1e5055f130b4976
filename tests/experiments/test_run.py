"""Check how runs are done: by workers that may be killed at any moment; finished runs are kept, none is done twice."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from pathlib import Path

import numpy as np
import pytest

from experiments.catalogue import Experiment, read_experiment
from experiments.evaluate import evaluate_run
from experiments.ledger import Ledger
from experiments.plan import Plan
from experiments.pool import Worker, WorkerDied, evaluate_all, units
from experiments.run import TUNING, run_all
from tests.experiments import stub

pytest.importorskip("torch", reason="the networks of the experiments")
pytest.importorskip("fcntl", reason="locks and signals of POSIX")

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
SMALL = Experiment(
    "small",
    "",
    "",
    "",
    (
        {"data": ["adult"], "methods": ["ERM"]},
        {"data": ["adult"], "methods": ["OptFairPost"], "criteria": ["dp"], "values": [0.02]},
        {"data": ["adult"], "methods": ["OptFairPost-calibrated"], "criteria": ["eo"], "values": [0.02]},
    ),
    "small",
)
N_RUNS = 6  # of it, with two seeds
# First of ERM, whose two trials differ in epochs only, which are the same in a smoke run; then of OptFairPost: two
# posteriors, each at a value for each criterion, and the joint one without constraints.
N_TRIALS = (1, 5)


def run_small(folder, **options):
    """Do the small experiment and return what was reported, a line each."""
    reported = []
    run_all([SMALL], folder, smoke=True, only=("adult",), **{"report": reported.append, "limit": 1800.0} | options)
    return reported


def live_workers():
    """Return the workers that are alive; other tests of this process may have left a pool of joblib."""
    return [child for child in multiprocessing.active_children() if isinstance(child, SpawnProcess)]


def scores(folder):
    return {key: line.get("scores", line.get("error")) for key, line in Ledger(folder).lines.items()}


def in_process(plan, runs, cache, jobs, limit):
    """Evaluate runs as workers do, but in this process."""
    for run in runs:
        yield evaluate_run(run, plan.data[run.data], plan.methods[run.method], cache)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return (folder, what was reported) of the small experiment, done in this process."""
    folder = tmp_path_factory.mktemp("whole") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.run.evaluate_all", in_process)
        return folder, run_small(folder)


@pytest.fixture(scope="module")
def by_worker(tmp_path_factory):
    """Return (folder, seconds) of the small experiment, done by one undisturbed worker."""
    folder = tmp_path_factory.mktemp("by_worker")
    clock = time.monotonic()
    run_small(folder)
    return folder, time.monotonic() - clock


# -- planning, writing and resuming -------------------------------------------------------------------------
def test_trials_and_runs_are_done_and_reported(whole):
    folder, reported = whole
    assert sorted(path.name for path in folder.glob("*.jsonl")) == ["small.jsonl", f"{TUNING}.jsonl"]
    lines = Ledger(folder).lines
    parts = [line["run"]["part"] for line in lines.values()]
    assert (parts.count("test"), parts.count("validation")) == (N_RUNS, sum(N_TRIALS))
    assert set(lines) >= {run.key for run in Plan(lines, smoke=True, only=("adult",)).runs(SMALL)}
    stages = [text for text in reported if text.endswith(" to do")]
    expected = [(TUNING, N_TRIALS[0]), (TUNING, N_TRIALS[1]), ("small", N_RUNS)]
    assert stages == [f"{name}: {runs} of {runs} runs to do" for name, runs in expected]
    progress = [text for text in reported if text.endswith(" left)")]
    assert len(progress) == N_RUNS + sum(N_TRIALS) == len(reported) - len(stages)
    assert progress[-1].startswith(f"small {N_RUNS}/{N_RUNS}  adult ") and progress[-1].endswith("(about 0 s left)")


def test_finished_runs_are_not_done_again(whole):
    folder, _ = whole
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.jsonl")}
    assert run_small(folder) == [f"small: 0 of {N_RUNS} runs to do"]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("*.jsonl")} == before


def test_killed_at_any_moment_it_goes_on_where_it_was(tmp_path, monkeypatch):
    """Replace the evaluation by a stub, so that only planning, writing and resuming are real."""
    command = [sys.executable, stub.__file__, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": PATH}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        stop = int(np.random.default_rng().integers(1, 100))
        reported = [text for text, _ in zip(process.stdout, range(stop), strict=False)]
        process.kill()
    assert reported, "it has not started"
    before = {file.name: file.read_bytes() for file in tmp_path.glob("*.jsonl")}
    assert sum(" left)" in text for text in reported) <= len(Ledger(tmp_path).lines)
    (tmp_path / ".tuning.jsonl.0123456789ab").write_bytes(b"{torn")  # killed while it wrote
    monkeypatch.setattr("experiments.run.evaluate_all", stub.evaluate_at_once)
    resumed: list[str] = []
    stub.run_calibration(tmp_path, resumed.append)
    after = {file.name: file.read_bytes() for file in tmp_path.glob("*.jsonl")}
    assert all(after[name].startswith(text) for name, text in before.items())
    lines = Ledger(tmp_path).lines
    assert len(lines) == sum(text.count(b"\n") for text in after.values())  # none twice
    missing = len(lines) - sum(text.count(b"\n") for text in before.values())
    assert sum(text.endswith(" left)") for text in resumed) == missing > 0
    assert {run.key for run in Plan(lines, only=("adult",)).runs(read_experiment("calibration"))} <= set(lines)


def test_units_are_runs_that_share_models(whole):
    plan = Plan(Ledger(whole[0]).lines, smoke=True, only=("adult",))
    runs = plan.runs(SMALL)
    groups = units(plan, runs)
    assert sorted(map(len, groups)) == [1, 1, 2, 2]  # of each seed: plain training, and all post-processing
    assert sorted(run.key for unit in groups for run in unit) == sorted(run.key for run in runs)
    assert all(len({run.seed for run in unit}) == 1 for unit in groups)


@pytest.mark.slow
def test_smoke_reports_which_data_are_synthetic(tmp_path, no_data):
    plain = Experiment("plain", "", "", "", ({"data": ["acs", "world-3x3"], "methods": ["ERM"]},), "plain")
    reported: list[str] = []
    run_all([plain], tmp_path, smoke=True, only=("acs", "world-3x3"), report=reported.append, limit=1800.0)
    assert "plain: ACSIncome is not available; synthetic data take its place (--smoke)" in reported
    assert len([text for text in reported if "synthetic" in text]) == 2  # for the trials, and for the runs


@pytest.mark.slow
def test_workers_give_the_same_scores_whatever_their_number(whole, by_worker, tmp_path):
    assert scores(by_worker[0]) == scores(whole[0])
    shutil.copy(whole[0] / f"{TUNING}.jsonl", tmp_path)
    run_small(tmp_path, jobs=2)
    assert scores(tmp_path) == scores(whole[0])
    assert not live_workers()


# -- workers that take too long, or die ---------------------------------------------------------------------
def runs_of_training(whole, *rounds):
    """Return (plan, runs of OptFairIn with so many rounds: one unit)."""
    plan = Plan(Ledger(whole[0]).lines, smoke=True, only=("adult",))
    run = next(run for run in plan.runs(SMALL) if run.method == "ERM")
    run = replace(run, method="OptFairIn", value=0.02)
    return plan, [replace(run, options={**run.options, "rounds": n, "stop_below": None}) for n in rounds]


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_stopped_and_the_others_go_on(whole, by_worker, tmp_path):
    limit = max(3.0, 0.6 * by_worker[1])  # enough to start a worker and for half a dozen quick runs, on this machine
    plan, runs = runs_of_training(whole, 10_000_000, 2, 3)
    clock = time.monotonic()
    long, *quick = evaluate_all(plan, runs, tmp_path, 1, limit)
    assert time.monotonic() - clock < 3 * limit
    assert long == {"run": runs[0].as_dict(), "error": f"stopped after {limit:g} seconds", "limit": limit}
    assert [line["run"] for line in quick] == [run.as_dict() for run in runs[1:]]
    assert all("scores" in line for line in quick)
    assert not live_workers()


def test_the_clock_starts_when_the_data_are_loaded(whole):
    _, (run,) = runs_of_training(whole, 2)
    pipe, worker_end = multiprocessing.Pipe()
    worker = Worker(None, pipe, [run], started=-1000.0)
    worker_end.send(None)  # as `evaluate_run` does
    assert worker.receive() is None and worker.unit == [run]
    assert time.monotonic() - worker.started < 100
    worker_end.send({"run": run.as_dict()})
    assert worker.receive() == {"run": run.as_dict()}


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_finished_runs_are_kept(whole, tmp_path):
    shutil.copy(whole[0] / f"{TUNING}.jsonl", tmp_path)

    def report(text):
        if text.startswith("small 3/"):
            (worker,) = live_workers()
            os.kill(worker.pid, signal.SIGKILL)

    message = r"^a worker ended with -9 at [\w-]+ on adult, seed \d; .*start again to go on\.$"
    with pytest.raises(WorkerDied, match=message):
        run_small(tmp_path, report=report)
    before = (tmp_path / "small.jsonl").read_bytes()
    assert 3 <= before.count(b"\n") < N_RUNS and not live_workers()
    run_small(tmp_path)
    assert (tmp_path / "small.jsonl").read_bytes().startswith(before) and scores(tmp_path) == scores(whole[0])


@pytest.mark.slow
def test_a_worker_that_dies_between_units_is_reported_too(whole, tmp_path):
    plan, (run,) = runs_of_training(whole, 1)
    lines = evaluate_all(plan, [run, replace(run, seed=2)], tmp_path, 1, 600.0)
    assert "scores" in next(lines)
    (worker,) = live_workers()
    worker.kill()
    worker.join()
    with pytest.raises(WorkerDied, match="seed 2"):
        next(lines)


@pytest.mark.slow
def test_a_fault_gives_no_line(whole, tmp_path):
    plan, (run,) = runs_of_training(whole, 1)
    wrong = replace(run, options={**run.options, "no_such_option": 1})
    with pytest.raises(RuntimeError, match=r"^OptFairIn on adult, seed 1: TypeError: .*no_such_option"):
        list(evaluate_all(plan, [wrong], tmp_path, 1, 600.0))


# -- the command with its workers, killed -------------------------------------------------------------------
NAME = "calibration"
needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks /proc for children")


@pytest.fixture
def start():
    """Return a function that starts the command in a process group of its own, which ends with the test."""
    processes = []

    def begin(folder, jobs):
        command = [sys.executable, "-m", "experiments", NAME, "--smoke", "--data", "adult", "--out", str(folder)]
        environment = {**os.environ, "PYTHONPATH": PATH}
        options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True, "env": environment}
        processes.append(subprocess.Popen([*command, "--jobs", str(jobs)], **options))
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def read_until(process, n_lines):
    """Wait until so many runs of the experiment are reported."""
    reported = []
    for text in process.stderr:
        reported.append(text)
        if sum(line.startswith(f"{NAME} ") for line in reported) >= n_lines:
            return
    pytest.fail(f"it ended before {n_lines} runs: {''.join(reported)}")


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}


@needs_proc
@pytest.mark.slow
def test_killed_with_its_workers_the_command_goes_on_where_it_was(start, tmp_path):
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
            assert not any(map(alive, workers)), "workers outlive the process that started them"
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.stderr.close()
        assert process.wait() == -signal.SIGKILL
        after = contents(folder)
        assert all(after[name].startswith(text) for name, text in before.items()) and after != before
        assert len(Ledger(folder).lines) == sum(text.count(b"\n") for text in after.values())
        before = after
    (folder / f".{NAME}.jsonl.0123456789ab").write_bytes(before[f"{NAME}.jsonl"][:-20])  # killed while it wrote

    process = start(folder, jobs=2)
    _, reported = process.communicate(timeout=300)
    assert process.returncode == 0, reported
    after = contents(folder)
    assert all(after[name].startswith(text) for name, text in before.items())
    lines = Ledger(folder).lines
    assert len(lines) == sum(text.count(b"\n") for text in after.values())  # none twice
    expected = Plan(lines, smoke=True, only=("adult",)).runs(read_experiment(NAME))
    runs = [json.loads(text)["run"] for text in after[f"{NAME}.jsonl"].decode().splitlines()]
    assert sorted(json.dumps(run, sort_keys=True) for run in runs) == sorted(run.key for run in expected)
    assert all("error" not in line for line in lines.values())
    missing = len(expected) - before[f"{NAME}.jsonl"].count(b"\n")
    assert f"{NAME}: {missing} of {len(expected)} runs to do\n" in reported and reported.count(" left)\n") == missing


@needs_proc
@pytest.mark.slow
def test_asked_to_end_the_command_ends_with_its_workers(start, tmp_path):
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
