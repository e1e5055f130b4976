"""Check that lines are complete or absent, whatever kills the process, and that locks end with it."""

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.ledger import Ledger
from experiments.plan import Run
from optfair.errors import DataFileError
from optfair.utils.files import exclusive
from tests.experiments.lines import constant_line

ROOT = Path(__file__).parents[2]


def runs(n):
    return [Run("adult", "adult", "ERM", "dp", None, seed, options={"model": {"lr": 0.1}}) for seed in range(n)]


def test_lines_of_all_files_are_read(tmp_path):
    ledger = Ledger(tmp_path)
    for run, name in zip(runs(4), ("a", "b", "a", "tuning"), strict=True):
        ledger.add(name, constant_line(run) | {"notes": ["Țifrea × \u2028 \x85 \n ü"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "tuning.jsonl"]
    assert (tmp_path / "a.jsonl").read_bytes().count(b"\n") == 2
    second = Ledger(tmp_path)
    assert second.lines == ledger.lines and set(second.lines) == {run.key for run in runs(4)}
    before = (tmp_path / "a.jsonl").read_bytes()
    second.add("a", constant_line(runs(5)[4]))
    assert (tmp_path / "a.jsonl").read_bytes().startswith(before) and len(Ledger(tmp_path).lines) == 5


RUN = runs(1)[0]


def changed(**values):
    """Return a line whose run has other values, or lacks what is None."""
    run = {name: value for name, value in (RUN.as_dict() | values).items() if values.get(name, 0) is not None}
    return json.dumps(constant_line(RUN) | {"run": run}).encode()


TORN = {
    "torn": b'{"run": {"data": "ad',
    "garbage": b"hello",
    "no run": b'{"scores": 1}',
    "a list": b"[1]",
    "zeros": bytes(40),
    "no text": b'{"run": "\xff\xfe"}',
    "an empty run": b'{"run": {}, "scores": {}}',
    "a run that is text": b'{"run": "x", "scores": {}}',
    "a run that is a list": b'{"run": [1], "scores": {}}',
    "a run without data": changed(data=None),
    "a run with more": changed(colour="red"),
    "data that are a list": changed(data=["adult"]),
    "a seed that is text": changed(seed="1"),
    "neither scores nor error": json.dumps({"run": RUN.as_dict()}).encode(),
    "no scores": json.dumps({"run": RUN.as_dict(), "scores": {}}).encode(),
    "scores that are numbers": json.dumps({"run": RUN.as_dict(), "scores": {"answers": 1}}).encode(),
    "scores without a violation": json.dumps({"run": RUN.as_dict(), "scores": {"answers": {"accuracy": 1}}}).encode(),
    "a violation that is text": json.dumps(constant_line(RUN, violation="small")).encode(),
    "seconds that are text": json.dumps(constant_line(RUN) | {"cpu_seconds": "long"}).encode(),
    "lists in lists": b"[" * 100_000,
    "a limit that is text": json.dumps({"run": RUN.as_dict(), "error": "stopped", "limit": "1"}).encode(),
}


@pytest.mark.parametrize("kind", TORN)
@pytest.mark.parametrize("gap", [b"", b"\n"])
def test_a_torn_line_is_named(tmp_path, kind, gap):
    first, second = (json.dumps(constant_line(run)).encode() + b"\n" for run in runs(2))
    file = tmp_path / "frontiers.jsonl"
    file.write_bytes(first + gap + TORN[kind] + b"\n" + second)
    with pytest.raises(DataFileError) as caught:
        Ledger(tmp_path)
    assert str(caught.value).startswith(f"{file}, line {3 if gap else 2}: is no line of a run")
    file.write_bytes(first + gap + second)  # as the message says
    assert set(Ledger(tmp_path).lines) == {run.key for run in runs(2)}


def test_a_run_that_was_stopped_and_finished_elsewhere_is_finished(tmp_path):
    run = runs(1)[0]
    stopped = {"run": run.as_dict(), "error": "stopped after 10 seconds", "limit": 10.0}
    for names in (("a", "b"), ("b", "a")):
        for file in tmp_path.glob("*.jsonl"):
            file.unlink()
        ledger = Ledger(tmp_path)
        ledger.add(names[0], stopped)
        ledger.add(names[1], constant_line(run))
        assert "scores" in ledger.lines[run.key] and "scores" in Ledger(tmp_path).lines[run.key]
        ledger.add(names[0], stopped)
        assert "scores" in ledger.lines[run.key] and "scores" in Ledger(tmp_path).lines[run.key]


# -- other processes ----------------------------------------------------------------------------------------
def start(script, **streams):
    """Start Python on a script that can import experiments."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, **streams)


ADDING = """
import sys
from pathlib import Path
from experiments.ledger import Ledger
ledger = Ledger(Path({folder!r}))
for number in range(100_000):
    ledger.add("x", {{"run": {run!r} | {{"seed": number}}, "error": "none", "text": "x" * 300}})
    print(number + 1, flush=True)
"""


def test_a_line_is_on_disk_when_add_returns(tmp_path):
    """Kill the process anywhere: the lines that it has reported are there, and those that are there are complete."""
    with start(ADDING.format(folder=str(tmp_path), run=RUN.as_dict()), stdout=subprocess.PIPE) as process:
        stop = int(np.random.default_rng().integers(1, 60))
        reported = 0
        for text in process.stdout:
            reported = int(text)
            if reported >= stop:
                break
        process.send_signal(signal.SIGKILL)
        reported = max([reported, *map(int, process.stdout.read().split(b"\n")[:-1])])
    assert reported >= stop, "it has not started"
    ledger = Ledger(tmp_path)
    assert reported <= len(ledger.lines) <= reported + 1
    assert set(ledger.lines) == {replace(RUN, seed=number).key for number in range(len(ledger.lines))}
    ledger.add("x", constant_line(replace(RUN, seed=-1)))
    assert len(Ledger(tmp_path).lines) == len(ledger.lines)


HOLDING = """
from pathlib import Path
from optfair.utils.files import exclusive
print("asking", flush=True)
with exclusive(Path({file!r})):
    print("mine", flush=True)
    input()
"""


def test_one_process_at_a_time_holds_a_lock(tmp_path):
    pytest.importorskip("fcntl", reason="locks of POSIX")
    file = tmp_path / ".lock"
    script, pipes = HOLDING.format(file=str(file)), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start(script, **pipes) as holder:
        assert [holder.stdout.readline() for _ in range(2)] == [b"asking\n", b"mine\n"]
        with pytest.raises(BlockingIOError), exclusive(file, wait=False):
            pass
        with start(script, **pipes) as other:
            assert other.stdout.readline() == b"asking\n"
            assert select.select([other.stdout], [], [], 0.5)[0] == [], "it does not wait"
            holder.send_signal(signal.SIGKILL)
            assert other.stdout.readline() == b"mine\n"  # free, though the holder has not released it
            other.communicate(b"\n")
            assert other.returncode == 0
    with exclusive(file, wait=False), pytest.raises(BlockingIOError), exclusive(file, wait=False):
        pass
