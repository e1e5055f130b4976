"""Check the command of the timings: what cannot run is one line and an exit code, and the others run."""

import importlib

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from experiments.timings import busy
from experiments.timings.__main__ import NAMES, main
from experiments.timings.clock import one_thread, synthetic_posteriors
from optfair.errors import DataFileError


def absent_package(**_):
    raise ImportError("timings need\n torch")


def absent_file(**_):
    raise FileNotFoundError(2, "No such file or directory", "acs.parquet")


def absent_data(**_):
    raise DataFileError("enem-2019: is not in $OPTFAIR_DATA.")


ABSENT = {
    absent_package: "timings need torch",
    absent_file: "[Errno 2] No such file or directory: 'acs.parquet'",
    absent_data: "enem-2019: is not in $OPTFAIR_DATA.",
}


@pytest.fixture
def calls(monkeypatch):
    """Put in place of each timing one that only notes how it was called."""
    calls = {}
    for name in NAMES:
        timing = importlib.import_module(f"experiments.timings.{name}")
        monkeypatch.setattr(timing, "run", lambda name=name, **options: calls.update({name: options}))
    return calls


def test_all_timings_run_or_those_that_are_named(calls):
    assert main([]) == 0
    assert calls == {name: {"small": False, "repeat": 3} for name in NAMES}
    calls.clear()
    assert main(["images", "solver", "--small", "--repeat", "1"]) == 0
    assert list(calls.items()) == [(name, {"small": True, "repeat": 1}) for name in ("images", "solver")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeat", "0"], "timings: --repeat 0: must be at least 1."),
        (["solver", "--repeat", "-3"], "timings: --repeat -3: must be at least 1."),
        (["solver", "solvr"], f"timings: solvr: there is no such timing; there are {', '.join(NAMES)}."),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, calls, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"{message}\n") and not calls


@pytest.mark.parametrize("absent", ABSENT)
def test_a_timing_that_cannot_run_is_one_line_and_the_others_run(absent, calls, capsys, monkeypatch):
    monkeypatch.setattr("experiments.timings.baselines.run", absent)
    assert main([]) == 1
    assert set(calls) == NAMES.keys() - {"baselines"}
    assert capsys.readouterr().err == f"baselines: {ABSENT[absent]}\n"


def test_faults_are_not_hidden(calls, monkeypatch):
    monkeypatch.setattr("experiments.timings.solver.run", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["solver"])


@pytest.mark.parametrize("folder", [True, False])
def test_the_rows_of_acs_may_be_missing(folder, tmp_path, capsys, monkeypatch):
    """Without $OPTFAIR_DATA, or without the file in it."""
    monkeypatch.delenv("OPTFAIR_DATA", raising=False)
    if folder:
        monkeypatch.setenv("OPTFAIR_DATA", str(tmp_path))
    monkeypatch.setattr("experiments.timings.solver._five_by_five", lambda n, repeat: None)
    monkeypatch.setattr(
        "experiments.timings.solver.synthetic_posteriors", lambda n, A, m: synthetic_posteriors(99, 2, 2)
    )
    assert main(["solver", "--small"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("solver: ") and printed.err.count("\n") == 1
    assert "criterion  tau" in printed.out  # what could run has run


def test_processor_seconds_are_those_of_one_thread(capsys):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_thread():
            np.linalg.inv(np.eye(100))
            assert set(threads()) == {1}
        assert threads() == before
    assert capsys.readouterr().out == "processor seconds; BLAS has one thread\n"


@pytest.mark.parametrize("name", ["adult_in", "warm_start"])
def test_timings_that_print_processor_seconds_have_one_thread(name, monkeypatch):
    if name == "adult_in":
        pytest.importorskip("torch")
    timing, seen = importlib.import_module(f"experiments.timings.{name}"), []
    monkeypatch.setattr(timing, "_run", lambda _: seen.extend(library["num_threads"] for library in threadpool_info()))
    with threadpool_limits(2):
        timing.run(small=True, repeat=1)
    assert seen and set(seen) == {1}


def test_torch_has_one_thread_too_and_then_as_many_as_before():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread(torch):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_spinning_processes_end_with_what_they_were_started_for(monkeypatch):
    processes, start = [], busy.subprocess.Popen
    monkeypatch.setattr(busy.subprocess, "Popen", lambda *args: processes.append(start(*args)) or processes[-1])
    with pytest.raises(ZeroDivisionError), busy.spinning(2):
        assert [process.poll() for process in processes] == [None, None]
        raise ZeroDivisionError
    assert None not in [process.poll() for process in processes]


def test_fits_are_timed_in_turn():
    calls = []
    seconds = busy.in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b", "a", "b"] and set(seconds) == {"a", "b"}
