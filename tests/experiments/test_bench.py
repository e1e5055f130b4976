"""Check the instrument that compares releases: what it counts, what it stops, what it says, and its page."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import optfair
from experiments.bench import __main__ as command
from experiments.bench import copies, peers, tasks
from experiments.bench.cases import CASES, GROWTH, OURS, PEERS, Case, Goal, size
from experiments.bench.clock import measured, scores
from experiments.bench.copies import PREVIOUS, ROOT, previous_source
from experiments.bench.growth import exponent, points
from experiments.bench.lines import Lines, machine
from experiments.bench.page import draft_page
from experiments.bench.people import write_data
from experiments.bench.reads import counted_numbers
from experiments.bench.run import Bench, run_process
from experiments.bench.table import goal_text, outcome, proof, ratio, report, verdict
from experiments.bench.worlds import make_posteriors
from experiments.page.templates import PageTextError
from optfair.dual.posterior import Posterior, check_posterior
from optfair.errors import DataFileError

RESULTS = ROOT / "experiments" / "results" / "speed"


def line(version="present", *runs, case="x", **facts):
    return {"case": case, "version": version, "source": "abc", "series": "", "runs": list(runs), **facts}


# -- cases -------------------------------------------------------------------------------------------------
def test_cases_have_tasks_and_only_those_with_two_groups_and_classes_have_peers():
    for name, case in (CASES | GROWTH).items():
        assert case.name == name and case.task in tasks.TASKS
        assert set(OURS) <= set(case.versions) <= {*OURS, *PEERS}
        assert set(case.versions) == set(OURS) or (case.A, case.m) == (2, 2)
    assert set(peers.PEERS) == set(PEERS)
    assert not CASES.keys() & GROWTH.keys()


def test_series_grow_in_what_they_are_called_after():
    for series in {case.series for case in GROWTH.values()}:
        sizes = [size(case) for case in GROWTH.values() if case.series == series]
        assert sizes == sorted(set(sizes)) and len(sizes) >= 4


# -- what is measured --------------------------------------------------------------------------------------
def test_a_check_reads_all_numbers_once_and_counting_ends():
    before = Posterior.block, Posterior.take
    Z = make_posteriors(5000, 3, 2)
    with counted_numbers() as numbers:
        posterior = check_posterior(Z)
        assert sum(numbers) == Z.size
        posterior.take(slice(None, None, 2))  # a view
        assert sum(numbers) == Z.size
        posterior.take(np.arange(10))
        assert sum(numbers) == Z.size + 60
    assert (Posterior.block, Posterior.take) == before


def test_seconds_are_those_of_the_wall_and_of_the_processor():
    with measured() as slept:
        time.sleep(1.0)  # threads that other tests have left may spin for a while
    with measured() as busy:
        start = time.process_time()
        while time.process_time() - start < 0.2:
            pass
    assert slept["seconds"] >= 1.0 > 0.9 > slept["cpu"]
    assert busy["cpu"] >= 0.2 and busy["seconds"] >= 0.19


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_scores_are_those_of_the_metrics(criterion):
    rng = np.random.default_rng(0)
    y, prediction, a = rng.integers(0, 2, 900), rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    found = scores(prediction, a, y, criterion)
    assert found["violation"] == pytest.approx(
        optfair.metrics.violation(y, prediction, sensitive_features=a, criterion=criterion)
    )
    assert found["accuracy"] == pytest.approx(np.mean(y == prediction))


@pytest.fixture(scope="module")
def posteriors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("posteriors")
    write_data(folder, "posteriors", 3000, 3, 3)
    return folder


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    write_data(folder, "people", 3000, 2, 2)
    return folder


def test_a_solve_is_proven_on_all_rows(posteriors):
    facts = tasks.solve(posteriors, "dp", 0.01, 1e-3)
    assert facts["proven"] and facts["gap"] <= 1e-3 and facts["excess"] <= 1e-5
    assert facts["bounds"] == 9 and 0 < facts["active"] <= 9
    assert facts["reads"] >= 2 and facts["seconds"] > 0  # at least to check rows and to certify


def test_a_frontier_is_counted_in_solves(posteriors):
    facts = tasks.frontier(posteriors, "dp", 0.01, 4)
    assert facts["points"] == 4 and facts["solves"] == pytest.approx(facts["seconds"] / facts["solve_seconds"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("aware", [True, False])
def test_a_fitted_model_is_made_fair(people, aware):
    facts = tasks.fitted(people, "dp", 0.01, aware)
    assert facts["after_models"] < facts["seconds"] and facts["violation"] < 0.06


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_is_judged_by_the_same_scorer(name, people, capsys):
    pytest.importorskip(name.replace("-", "_"), reason="a library to compare with")
    peers.main(name, str(people), json.dumps({"criterion": "dp", "tolerance": 0.01}))
    facts = json.loads(capsys.readouterr().out)
    assert facts["violation"] < 0.05 and facts["accuracy"] > 0.6 and facts["after_models"] < facts["seconds"]


# -- processes ---------------------------------------------------------------------------------------------
def python(text, limit=30.0):
    return run_process([sys.executable, "-c", text], str(ROOT), limit)


def test_a_process_answers_is_stopped_or_fails_in_one_line():
    assert python("print('noise'); print('{\"seconds\": 1}')") == {"seconds": 1}
    assert python("import time; time.sleep(60)", limit=0.5) == {"stopped": 0.5}
    assert python("raise ValueError('no\\nsense')")["error"].endswith("sense")
    assert python("raise MemoryError") == {"error": "out of memory"}


def test_what_a_stopped_process_has_started_is_stopped_too(tmp_path):
    mark = tmp_path / "mark"
    inner = f"import time, pathlib; time.sleep(2); pathlib.Path({str(mark)!r}).touch()"
    python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])", limit=0.7)
    time.sleep(2.5)
    assert not mark.exists()


class Recorded(Bench):
    """A bench whose runs take what is written down, by version."""

    def __init__(self, outcomes, repeat=3):
        super().__init__({}, dict.fromkeys(OURS, "abc"), None, {}, repeat, 9.0)
        self.outcomes, self.order = outcomes, []

    def _run(self, case, version, folder):
        self.order.append((case.A, version))
        return self.outcomes[version]


def test_versions_take_turns_and_long_runs_are_not_repeated():
    case = Case("x", "solve", 100, 2, 2)
    bench = Recorded({"previous": {"seconds": 30.0}, "present": {"seconds": 1.0}})
    ((_, (previous, present)),) = bench.lines([case])
    assert [version for _, version in bench.order] == ["previous", "present", "present", "present"]
    assert len(previous["runs"]) == 1 and len(present["runs"]) == 3


def test_a_version_that_was_stopped_is_not_given_larger_sizes():
    cases = [Case(f"{A}", "solve", 100, A, 2, series="groups dp") for A in (2, 3)]
    bench = Recorded({"previous": {"stopped": 9.0}, "present": {"seconds": 1.0}}, repeat=1)
    assert [len(lines) for _, lines in bench.lines(cases)] == [2, 1]
    assert bench.order == [(2, "previous"), (2, "present"), (3, "present")]


def test_the_previous_release_is_the_one_of_its_commit(tmp_path):
    try:
        shown = subprocess.run(
            ["git", "show", f"{PREVIOUS}:src/optfair/__init__.py"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git, or not the whole repository")
    source = previous_source(PREVIOUS, tmp_path)
    assert (source / "optfair" / "__init__.py").read_bytes() == shown.stdout
    assert previous_source(PREVIOUS, tmp_path) == source  # not unpacked again
    with pytest.raises(DataFileError, match=r"^--previous nothing: is no commit of this repository; git log"):
        previous_source("nothing", tmp_path)


def test_a_peer_that_cannot_be_installed_says_why(tmp_path, monkeypatch):
    requirements = tmp_path / "peers.txt"
    requirements.write_text("fairlearn==0\n")
    monkeypatch.setattr(copies, "REQUIREMENTS", requirements)
    monkeypatch.setattr(copies, "PEERS", ("fairlearn",))
    monkeypatch.setattr(copies.venv, "create", lambda folder, with_pip: folder.mkdir())
    monkeypatch.setattr(
        copies.subprocess,
        "run",
        lambda *_, **__: subprocess.CompletedProcess([], 1, "", "WARNING: x\nERROR: No matching distribution"),
    )
    _, reasons = copies.peer_python(tmp_path)
    assert reasons == {"fairlearn": "not installed: ERROR: No matching distribution"}
    bench = Bench({}, {}, None, reasons, 1, 1.0)
    assert bench._run(Case("x", "fitted", 1, 2, 2), "fairlearn", tmp_path) == {"error": reasons["fairlearn"]}


# -- words -------------------------------------------------------------------------------------------------
def test_goals_are_met_or_missed_by_so_much():
    goal = Goal("seconds", 2.0)
    assert verdict(goal, line("present", {"seconds": 3.0}, {"seconds": 2.0})) == "met"  # the best counts
    assert verdict(goal, line("present", {"seconds": 3.0})) == "missed by 50 %"
    assert verdict(goal, line("present", {"stopped": 120.0})) == verdict(goal, None) == "missed"
    assert goal_text(goal) == "≤ 2 s" and goal_text(Goal("reads", 100.0)) == "≤ 100 reads"
    assert goal_text(Goal("one_row_over_base", 0.0008)) == "one row beyond base ≤ 0.8 ms"


def test_ratios_are_of_the_best_and_at_least_where_a_run_was_stopped():
    present = line("present", {"seconds": 2.0}, {"seconds": 4.0})
    assert ratio(line("previous", {"seconds": 6.0}), present) == "3"
    assert ratio(line("previous", {"stopped": 120.0}), present) == "> 60"
    assert ratio(line("previous", {"error": "no"}), present) == ratio(None, present) == ""
    assert outcome(line("previous", {"stopped": 120.0})) == "> 120 s"
    assert outcome(line("previous", {"error": "no"})) == "no" and outcome(None) == "not run"


def test_a_report_says_what_is_not_proven():
    run = {"seconds": 1.0, "gap": 2e-3, "excess": 0.0, "active": 3, "bounds": 9}
    run |= {"proven": False, "status": "MAX_PASSES"}
    text = report(CASES["solve 50k 2×100 dp"], [line("present", run)])
    assert "NOT PROVEN (MAX_PASSES)" in text and "≤ 2 s: MET" in text
    assert "proven; 3 of K = 9 active" in proof(line("present", run | {"proven": True}))


# -- command -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repeat", "0"], "bench: --repeat 0: must be at least 1."),
        (["--limit", "0"], "bench: --limit 0: must be positive."),
        (["--only", "solvr"], "bench: --only solvr: no case has this in its name; --list shows them."),
    ],
)
def test_wrong_arguments_are_one_line(arguments, message, capsys):
    assert command.main(arguments) == 2
    assert capsys.readouterr() == ("", f"{message}\n")


def test_the_cases_are_listed(capsys):
    assert command.main(["--list"]) == 0
    assert {*CASES, *GROWTH} <= set(capsys.readouterr().out.splitlines())


@pytest.mark.slow
def test_a_small_case_runs_with_both_releases(capsys, monkeypatch, tmp_path):
    try:
        copies.commit_of(PREVIOUS)
    except (OSError, DataFileError):
        pytest.skip("no git, or not the whole repository")
    monkeypatch.setattr(command, "previous_source", lambda ref: previous_source(ref, tmp_path))
    assert command.main(["--small", "--repeat", "1", "--only", "solve 10k 5×5 dp", "predict 100k 2×2"]) == 0
    printed = capsys.readouterr().out
    assert "proven" in printed and "base" in printed and "not run" not in printed


# -- lines and page ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("power", [0.5, 1.0, 2.3])
def test_exponents_are_those_of_the_larger_half(power):
    sizes = np.array([2, 4, 8, 16, 32, 64])
    seconds = 0.1 * sizes**power
    seconds[:3] = 7.0  # what costs the same at any size
    assert exponent(list(zip(sizes.tolist(), seconds.tolist(), strict=True))) == pytest.approx(power)
    assert exponent([(1, 1.0), (2, 2.0)]) is None


def made_up_lines(folder):
    lines = Lines(folder)
    lines.machine = machine()["machine"] | {"repeat": 3, "limit": 120.0}
    for case in (CASES | GROWTH).values():
        made = []
        for number, version in enumerate(case.versions, 1):
            run = {"seconds": 1.0 * number, "cpu": 1e-6 * case.n * case.A / number}
            run |= {"reads": 9.5, "bounds": 4, "active": 2}
            run |= {"gap": 1e-4, "excess": 0.0, "proven": True, "status": "OPTIMAL", "solves": 3.0, "sums": 80.0}
            run |= {"accuracy": 0.7, "violation": 0.01, "after_models": 0.5, "over_thrice_base": 0.01}
            run |= {"one_row_over_base": 0.0001}
            made.append(line(version, run, case=case.name) | {"series": case.series})
        lines.put(case.name, made)
    return lines


def test_lines_are_kept_replaced_and_refused(tmp_path):
    lines = Lines(tmp_path)
    lines.put("x", [line("previous"), line("present")])
    lines.put("y", [line("present", case="y")])
    lines.put("x", [line("present", {"seconds": 1.0})])
    again = Lines(tmp_path)
    assert again.lines == lines.lines and {name for name, _ in again.lines} == {"x", "y"}
    assert list(again.of("x")) == ["present"]
    lines.file.write_text("{}\n")
    with pytest.raises(DataFileError, match=r"bench.jsonl, line 1: is no line of a run; mend or remove it\.$"):
        Lines(tmp_path)


def write_note(folder, text):
    (folder / "notes").mkdir(exist_ok=True)
    (folder / "notes" / "speed.md.j2").write_text(text)


def test_the_page_has_every_case_and_the_exponents(tmp_path):
    pytest.importorskip("jinja2", reason="the template of the page")
    lines = made_up_lines(tmp_path)
    write_note(tmp_path, 'Groups: {{ power("groups dp") }}, {{ faster("post 60k 20×6 dp") }}, {{ missed }}.')
    slow = lines.of("solve 200k 50×5 dp")["present"]
    slow["runs"] = [run | {"seconds": 4.0} for run in slow["runs"]]  # twice what is asked for
    text = draft_page(lines, Path("docs/results/speed.md")).text
    assert all(f"| {name} |" in text for name in CASES)
    assert exponent(points(lines, "groups dp", "present")) == pytest.approx(1)
    assert "**Answer.** Groups: 1.00, 0.5, 1." in text and text.count("| missed by 100 %") == 1
    assert "| groups | 1.00 | 1.00 | 1.00 | 1.00 |" in text


def test_a_page_without_a_case_or_with_a_bare_number_is_not_written(tmp_path):
    pytest.importorskip("jinja2", reason="the template of the page")
    lines = made_up_lines(tmp_path)
    write_note(tmp_path, "It is 3 times as fast.")
    with pytest.raises(PageTextError, match="3 is a bare number"):
        draft_page(lines, Path("docs/results/speed.md"))
    write_note(tmp_path, '{{ seconds("nothing") }}')
    with pytest.raises(PageTextError, match="nothing, present: is not in"):
        draft_page(lines, Path("docs/results/speed.md"))
    with pytest.raises(PageTextError, match="has no line of solve"):
        draft_page(Lines(tmp_path / "empty"), Path("docs/results/speed.md"))


def test_the_page_and_its_picture_are_written(tmp_path):
    for package in ("jinja2", "matplotlib"):
        pytest.importorskip(package, reason="the page and its picture")
    picture, page = draft_page(made_up_lines(tmp_path), tmp_path / "results" / "speed.md").write()
    assert page.read_text("utf-8").startswith("# Speed\n")
    assert picture == tmp_path / "results" / "pictures" / "growth.svg" and picture.stat().st_size > 10_000
