"""The page of results: it only formats lines, so made-up lines of the plan's own runs are as good as real ones."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optfair.benchmark.catalogue import EXPERIMENTS, read_experiment, read_methods
from optfair.benchmark.page.panels import panels
from optfair.benchmark.page.results import MissingRuns, Results
from optfair.benchmark.page.tables import Picture
from optfair.benchmark.page.write import compose, write_page
from optfair.benchmark.plan import Plan, Run, TrialsFirst

COMMAND = "optfair bench --out results"
SOME = ("acs", "grow 10000 x 4 x 4", "grow 40000 x 4 x 4")  # for every picture, a few panels
Change = Callable[[Run, dict[str, Any]], None]


def made_up(run: Run) -> dict[str, Any]:
    """A line that a run might have: fairer along the knob, and less accurate; the noise is fixed by the run."""
    rng = np.random.default_rng(zlib.crc32(run.key.encode()))
    share = {"OptFair": 0.01, "Linear": 0.02}.get(run.method.removesuffix("Post")[:7], 0.03)
    value = 1.0 if run.value is None else run.value
    strength = min(1.0, np.log10(1 / value) / 3) if value < 1 else 0.0
    gap, accuracy = 0.12 * (1 - strength) + 0.006, 0.85 - share * strength
    own = {
        name: {
            "accuracy": round(accuracy + 0.001 * rng.normal() + extra, 6),
            "violation": {c: round(gap * (1 + extra) + 0.002 * rng.random(), 6) for c in ("dp", "eop", "eo")},
            "floor": {"dp": 0.01, "eop": 0.03, "eo": 0.03},
        }
        for name, extra in (("answers", 0.0), ("argmax", 0.002))
    }
    line: dict[str, Any] = {"run": run.as_dict(), "n": [900, 600], "stand_in": None, "classes": 3, "groups": 2}
    line |= {"constant": 0.76, "cpu_seconds": round(0.1 + rng.random(), 3), "model_cpu_seconds": 0.2, "scores": own}
    line |= {"truth": {"accuracy": accuracy, "violation": gap, "regret": 0.003 * rng.random()}}
    line["truth"]["argmax"] = {"accuracy": accuracy, "violation": gap, "regret": 0.004 * rng.random()}
    if run.method in ("ERM", "Posterior"):
        line["small_cells"] = [["a", "b", 7]]
    return line


def lines_of(
    names: tuple[str, ...], only: tuple[str, ...] = (), change: Change | None = None, smoke: bool = True
) -> Plan:
    """A plan that has a line for every run of these experiments, trials included."""
    lines: dict[str, dict[str, Any]] = {}
    plan = Plan(lines, smoke=smoke, only=only)
    for experiment in map(read_experiment, names):
        while True:
            try:
                runs, last = plan.runs(experiment), True
            except TrialsFirst as first:
                runs, last = first.runs, False
            for run in runs:
                if run.key not in lines:
                    lines[run.key] = json.loads(json.dumps(made_up(run)))
                    if change is not None:
                        change(run, lines[run.key])
            if last:
                break
    return plan


def composed(plan: Plan, names: tuple[str, ...], folder: Path) -> str:
    """The text of the page, captions of pictures included; nothing is drawn."""
    parts = compose(Results(plan, [read_experiment(name) for name in names], COMMAND), folder)
    return "\n\n".join(part.caption if isinstance(part, Picture) else part for part in parts)


def with_note(folder: Path, text: str, section: str = "frontiers") -> Path:
    (folder / "notes.toml").write_text(f'[{section}]\ntext = """{text}"""\n', "utf-8")
    return folder


@pytest.fixture(scope="module")
def adult() -> Plan:
    """Frontiers on Adult, all values of the knobs, five seeds."""
    return lines_of(("frontiers",), ("adult",), smoke=False)


# -- numbers come from lines ----------------------------------------------------------------------------------
def test_all_experiments_make_a_page(tmp_path):
    plan = lines_of(EXPERIMENTS)
    text = composed(plan, EXPERIMENTS, tmp_path)
    for name in EXPERIMENTS:
        assert f"## {read_experiment(name).title}\n" in text
    assert "## Tuning\n" in text and "nan" not in text
    titles = [read_experiment(name).title for name in EXPERIMENTS]
    assert [text.index(f"## {title}\n") for title in titles] == sorted(text.index(f"## {title}\n") for title in titles)


def test_scalability_says_who_was_not_run_and_names_no_models_where_there_are_none(tmp_path):
    def plain(run: Run, line: dict[str, Any]) -> None:
        line["model_cpu_seconds"] = 0.0 if run.method == "ERM" else 0.2

    people = ("images-c1", "images-c2", "images-c3")
    text = composed(lines_of(("scalability",), people, plain), ("scalability",), tmp_path)
    rows = {row.split(" | ")[0]: row for row in text[text.index("### By images") :].splitlines()}
    assert rows["| OptFair-post, calibrated"].count("not run") == 2  # on C1 only
    assert "not run" not in rows["| OptFair-post"]
    assert " + 0.200 s" in rows["| OptFair-post"] and " + " not in rows["| ERM"]


def test_what_is_not_asked_for_is_left_out(tmp_path):
    text = composed(lines_of(("randomised",), ("adult",)), ("randomised",), tmp_path)
    assert "Randomised against deterministic" in text and "Who wins" not in text


def test_people_who_are_in_no_experiment_make_no_section(tmp_path):
    text = composed(lines_of(("truth",), ("adult",)), ("truth",), tmp_path)
    assert "true optimum" not in text


def test_a_missing_run_fails(adult, tmp_path):
    run = adult.runs(read_experiment("frontiers"))[-1]
    lines = {key: line for key, line in adult.lines.items() if key != run.key}
    made_by = f"`{COMMAND} frontiers --data adult` makes them"
    told = rf"1 runs have no line, the first of them {run.method} on adult, .*{made_by}"
    page = tmp_path / "page.md"
    with pytest.raises(MissingRuns, match=told):
        write_page(Plan(lines, only=("adult",)), [read_experiment("frontiers")], tmp_path, page, COMMAND)
    assert not list(tmp_path.iterdir())


def test_missing_trials_fail(tmp_path):
    with pytest.raises(MissingRuns, match=r"\d+ trials have no line, the first of them ERM on adult.*\(validation\)"):
        write_page(Plan({}, only=("adult",)), [read_experiment("frontiers")], tmp_path, tmp_path / "page.md", COMMAND)


def test_means_and_intervals_are_those_of_the_lines(adult, tmp_path):
    cells = Results(adult, [read_experiment("frontiers")], COMMAND).cells["frontiers"]
    cell = next(cell for cell in cells if (cell.method, cell.criterion, cell.value) == ("LinearPost", "eo", 0.01))
    own = [
        line["scores"]["answers"]
        for line in adult.lines.values()
        if line["run"]["part"] == "test"
        and (line["run"]["method"], line["run"]["criterion"], line["run"]["value"]) == ("LinearPost", "eo", 0.01)
    ]
    accuracy = np.mean([100 * score["accuracy"] for score in own])
    violation = np.mean([score["violation"]["eo"] for score in own])
    assert len(own) == 5 and cell.mean("accuracy").value == pytest.approx(accuracy)
    assert re.search(
        rf"`0\.01`: {accuracy:.2f} ± \d\.\d\d / {violation:.4f} ± ", composed(adult, ("frontiers",), tmp_path)
    )


PLANNED = read_methods()


# -- who wins -------------------------------------------------------------------------------------------------
def shifted(by: float, spread: float = 0.0) -> Change:
    """LinearPost's accuracy is OptFair-post's and ``by`` more, on every run; spread : by which seeds differ."""

    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "test" and run.method in ("LinearPost", "OptFairPost", "Posterior", "ERM"):
            grid = list(PLANNED[run.method].grid)
            step = 4 - grid.index(run.value) if run.value in grid else 5
            extra = by + spread * (-1) ** run.seed if run.method == "LinearPost" else 0.0
            for own in line["scores"].values():
                own["accuracy"] = 0.80 + 0.01 * step**0.5 + (extra if step < 5 else 0.0)
                own["violation"] = dict.fromkeys(own["violation"], 0.01 + 0.02 * step)

    return change


@pytest.mark.parametrize(
    ("by", "spread", "told"),
    [(-0.01, 0.0, "won**"), (0.01, 0.0, "LOST**"), (0.0, 0.01, "within noise")],
)
def test_verdicts_are_those_of_paired_areas(by, spread, told, tmp_path):
    plan = lines_of(("frontiers",), ("adult",), shifted(by, spread), smoke=False)
    text = composed(plan, ("frontiers",), tmp_path)
    first = text.index("**OptFair-post**")
    row = next(line for line in text[first:].splitlines() if line.startswith("| demographic parity | LinearPost |"))
    assert told in row
    named = re.search(r"Lost: ([^.]*; )?Adult, demographic parity, against LinearPost[;.]", text[first:])
    assert (named is not None) == (told == "LOST**")


def test_the_counts_add_up(adult, tmp_path):
    found = [panel for panel in _panels(adult) if panel.kind == "in"]
    told = re.search(
        r"OptFair-in: (\d+) won(?: \((\d+) in bold\))?, (\d+) within noise, (\d+) lost(?: \((\d+) in bold\))?\.",
        text := composed(adult, ("frontiers",), tmp_path),
    )
    assert told is not None
    won, bold_won, noise, lost, bold_lost = (int(own or 0) for own in told.groups())
    assert won + noise + lost == sum(len(panel.theirs) for panel in found)
    own = text[text.index("**OptFair-in**") : told.start()]
    assert (bold_won, bold_lost) == (own.count(" won**"), own.count(" LOST**"))
    many = won + noise + lost
    chance = f"Between equals {many / 10:.0f} of {many} or more would be won or lost by chance."
    assert chance in text[told.end() : text.index("<summary>OptFair-in, where both have rules")]
    assert len(re.findall(r"OptFair-in: \d+ won", text)) == 2  # also of where both have rules


def test_methods_that_cannot_are_counted_once(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        line["classes"] = 2  # opportunity is odds then
        if run.method == "FairProjection" and run.part == "test":
            del line["scores"]
            line["error"] = "ValueError: too few"

    text = composed(lines_of(("frontiers",), ("adult",), broken, smoke=False), ("frontiers",), tmp_path)
    assert "2 where somebody cannot" in text  # parity and odds; of two ways to answer one


def test_where_nothing_is_plain_it_is_blamed_and_nobody_else(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "ERM" and run.part == "test":
            del line["scores"]
            line["error"] = "stopped after 5 seconds"

    text = composed(lines_of(("frontiers",), ("adult",), broken, smoke=False), ("frontiers",), tmp_path)
    assert "| demographic parity | FairBatch | ERM not finished: stopped after 5 seconds |" in text


def test_where_both_have_rules_nothing_below_the_fairest_of_either_counts(tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        """FairBatch stops at 0.06 and is as accurate as OptFair-in down to there."""
        if run.part == "test" and run.method in ("OptFairIn", "FairBatch", "ERM"):
            step = list(PLANNED[run.method].grid).index(run.value) if run.value else -1
            gap = 0.10 - 0.02 * min(step + 1, 2 if run.method == "FairBatch" else 5)
            for own in line["scores"].values():
                own["violation"], own["floor"] = dict.fromkeys(("dp", "eop", "eo"), gap), dict.fromkeys(own["floor"], 0)
                own["accuracy"] = 0.85 - (0.1 - gap) ** 2
            line["constant"] = 0.5

    plan = lines_of(("frontiers",), ("adult",), change, smoke=False)
    panel = next(own for own in _panels(plan) if (own.kind, own.criterion) == ("in", "dp"))
    ours, theirs = (next(s for s in panel.cells if s.method == name) for name in ("OptFairIn", "FairBatch"))
    assert panel.gain(ours, theirs).value > 1
    assert panel.gain(ours, theirs, shared=True).value == pytest.approx(0, abs=1e-9)
    assert "OptFair-in, where both have rules" in composed(plan, ("frontiers",), tmp_path)


@pytest.mark.parametrize("better", ["joint", "factored"])
def test_a_frontier_goes_through_the_rule_that_it_starts_from_and_through_no_other(better):
    accuracy = {"ERM": 0.90, "Posterior": 0.95, "Frappe": 0.80}

    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method == "LinearPost":
            line["scores"]["answers"]["accuracy"] = 0.9 if run.options["posterior"] == better else 0.1
        if run.part == "test" and run.method in accuracy:
            for own in line["scores"].values():
                own["accuracy"] = accuracy[run.method]
                own["violation"] = dict.fromkeys(own["violation"], 0.1)

    panel = next(p for p in _panels(lines_of(("frontiers",), ("adult",), change)) if p.kind == "post")
    frappe, other = (next(side for side in panel.cells if side.method == name) for name in ("Frappe", "LinearPost"))
    assert sorted(panel.points(frappe, 1))[-1] == (0.1, 90.0)
    # On P(Y|X) P(A|X,Y) it is plain training, on a network of the pair the argmax of that.
    own, not_own = (95.0, 90.0) if better == "joint" else (90.0, 95.0)
    assert (0.1, own) in panel.points(other, 1) and (0.1, not_own) not in panel.points(other, 1)


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_areas_reach_to_plain_training_whatever_a_method_stands_on(criterion):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method == "LinearPost":
            line["scores"]["answers"]["accuracy"] = 0.95 if run.options["posterior"] == "joint" else 0.1
        if run.part == "test" and run.method in ("ERM", "Posterior", "LinearPost"):
            for own in line["scores"].values():
                gap = {"ERM": 0.10, "Posterior": 0.20, "LinearPost": 0.0}[run.method]
                own["violation"], own["floor"] = dict.fromkeys(("dp", "eop", "eo"), gap), dict.fromkeys(own["floor"], 0)
                own["accuracy"] = {"ERM": 0.5, "Posterior": 0.9, "LinearPost": 0.7}[run.method]
            line["constant"] = 0.5

    found = _panels(lines_of(("frontiers",), ("adult",), change, smoke=False))
    panel = next(p for p in found if (p.kind, p.criterion) == ("post", criterion))
    own = next(side for side in panel.cells if side.method == "LinearPost")
    # From (0, 70) to its start at (0.2, 90), which is cut at 0.1: the mean of 70 and 80.
    assert panel.starts[own].method == "Posterior"
    assert all(value == pytest.approx(75.0) for value in panel.areas(own).values())


def test_which_posterior_was_chosen_is_told_beside_who_wins(tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method in ("LinearPost", "FairProjection"):
            best = run.options.get("posterior") == "factored" and (run.method == "LinearPost" or "cv" in run.options)
            for own in line["scores"].values():
                own["accuracy"] = 0.95 if best else 0.1

    text = composed(lines_of(("frontiers",), ("adult",), change, smoke=False), ("frontiers",), tmp_path)
    assert "| LinearPost | factored |" in text and "| FairProjection | factored, in sample |" in text
    assert "| OptFair-post |" in text[text.index("| stands on | Adult |") :] and "| FRAPPÉ | joint" not in text


@pytest.mark.parametrize("better", ["joint", "factored"])
def test_both_posteriors_are_told_and_which_was_chosen(better, tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.method == "OptFairPost":
            line["scores"]["answers"]["accuracy"] = 0.9 if run.options["posterior"] == better else 0.1

    text = composed(lines_of(("calibration",), ("adult",), change, smoke=False), ("calibration",), tmp_path)
    other = {"joint": "factored", "factored": "joint"}[better]
    assert f"| Adult | demographic parity | {better} | `none` | 90.00" in text
    assert f"| Adult | demographic parity | {other}, not chosen | `none` | 10.00" in text
    assert f"| {better} | `both` − `none` |" in text


def test_a_note_finds_the_run_that_two_experiments_ask_for(tmp_path):
    names = ("frontiers", "calibration")
    plan = lines_of(names, ("adult",), smoke=False)
    asked = "{accuracy data=adult method=OptFairPost criterion=eo value=0.05"
    chosen = plan.choice("adult", "OptFairPost")["posterior"]
    text = composed(plan, names, with_note(tmp_path, f"Plainly {asked}}}.\n\nChosen {asked} posterior={chosen}}}."))
    told = re.findall(r"(?:Plainly|Chosen) (\d\d\.\d\d ± \d\.\d\d)\.", text)
    assert len(told) == 2 and told[0] == told[1]
    # A page without the experiment that has both posteriors leaves that paragraph out.
    alone = composed(plan, ("frontiers",), tmp_path)
    assert "Plainly" in alone and "Chosen" not in alone
    with pytest.raises(MissingRuns, match="no run of this page is like that"):
        composed(plan, names, with_note(tmp_path, f"{asked} posterior=other}}."))


def _panels(plan: Plan) -> list[Any]:
    results = Results(plan, [read_experiment("frontiers")], COMMAND)
    return panels(results, results.cells["frontiers"])


def test_plain_within_chance_cannot_be_judged(tmp_path):
    def fair(run: Run, line: dict[str, Any]) -> None:
        if run.method == "ERM" and run.part == "test":
            line["scores"]["answers"]["violation"]["dp"] = 0.001

    text = composed(lines_of(("frontiers",), ("adult",), fair, smoke=False), ("frontiers",), tmp_path)
    assert "Nothing can be judged where ERM is as fair as chance lets one tell: Adult, demographic parity" in text
    assert "| demographic parity | AdvDebias | nothing to judge |" in text


def test_one_seed_is_not_judged(adult, tmp_path, monkeypatch):
    monkeypatch.setattr(Plan, "seeds", lambda self, data: data.seeds[:1])
    text = composed(adult, ("frontiers",), tmp_path)
    assert "One seed, so no interval." in text and " one seed |" in text
    assert "nan" not in text and "won** |" not in text


# -- errors, stand-ins, captions ------------------------------------------------------------------------------
def test_errors_are_told_and_are_no_numbers(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.criterion == "dp" and run.part == "test":
            del line["scores"]
            line["error"] = "ValueError: too few | people in group 'x'"

    text = composed(lines_of(("frontiers",), ("adult",), broken), ("frontiers",), tmp_path)
    assert r"| demographic parity | FRAPPÉ | FRAPPÉ cannot: too few \| people in group 'x' |" in text
    assert "1 where somebody cannot" in text


def test_a_stopped_run_has_no_people(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.part == "test":
            for name in set(line) - {"run"}:
                del line[name]
            line["error"] = "stopped after 5 seconds"

    text = composed(lines_of(("frontiers",), ("adult",), stopped), ("frontiers",), tmp_path)
    assert "not finished: stopped after 5 seconds" in text


def test_people_none_of_whose_runs_ended(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        if run.part == "test":
            for name in set(line) - {"run"}:
                del line[name]
            line["error"] = "stopped after 5 seconds"

    text = composed(lines_of(("frontiers", "tolerance"), ("adult",), stopped), ("frontiers", "tolerance"), tmp_path)
    assert "not known, as every run was stopped" in text and "nan" not in text


def stand_in(run: Run, line: dict[str, Any]) -> None:
    line["stand_in"] = "the people of the paper"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_caption_says_whose_numbers_these_are(name, tmp_path):
    plan = lines_of((name,), change=stand_in)
    parts = compose(Results(plan, [read_experiment(name)], COMMAND), tmp_path)
    text = "\n\n".join(part.caption if isinstance(part, Picture) else part for part in parts)
    captions = re.findall(r"<sub>.*?</sub>", text)
    pictures = [part for part in parts if isinstance(part, Picture)]
    assert len(captions) == text.count("| --- |\n") + len(pictures) > 0
    for told in captions:
        assert "a STAND-IN for the people of the paper" in told
        assert "900 / 600" in told and "seed" in told and "interval" in told
        assert f"Runs: `{COMMAND}" in told and "mean nothing" in told


def test_made_up_people_are_stand_ins_too(tmp_path):
    def made(run: Run, line: dict[str, Any]) -> None:
        line["stand_in"] = "made up"

    text = composed(lines_of(("randomised",), ("adult",), made), ("randomised",), tmp_path)
    assert text.count("a STAND-IN, people who are made up") >= 2


# -- beside others --------------------------------------------------------------------------------------------
def test_published_numbers_are_beside_ours_of_the_same_seeds(adult, tmp_path):
    text = composed(adult, ("frontiers",), tmp_path)
    own = text[text.index("### Beside the released code") :]
    assert "| OptFair-post, demographic parity 0.01 | 83.31 / 0.0134 |" in own
    assert "Adult 900 / 600 (seeds 1–3)" in own and "the authors' released code, run on Adult, seeds 1–3" in own


# -- what it took ---------------------------------------------------------------------------------------------
def test_hours_are_those_of_all_runs_and_each_counts_once(tmp_path):
    """Tolerance has no runs but those of the frontiers; old lines have other names; a stopped run took its limit."""
    names = ("frontiers", "tolerance")
    seconds = iter(range(1, 10_000))

    def clocked(run: Run, line: dict[str, Any]) -> None:
        own = next(seconds)
        line[("wall_seconds", "seconds", "limit")[own % 3]] = 36 * own

    plan = lines_of(names, ("adult",), clocked)
    runs = len(plan.lines)
    text = composed(plan, names, tmp_path).split("## What it took\n")[1]
    assert f"| **all** | **{runs}** | **{0.01 * runs * (runs + 1) / 2:.2f}** |" in text
    trials = sum(line["run"]["part"] == "validation" for line in plan.lines.values())
    assert f"| Tuning | {trials} | " in text and f"| {read_experiment('frontiers').title} | {runs - trials} | " in text
    assert read_experiment("tolerance").title not in text


# -- seconds --------------------------------------------------------------------------------------------------
def test_growth_is_the_exponent_of_the_law(tmp_path):
    def law(run: Run, line: dict[str, Any]) -> None:
        people, classes, groups = map(int, run.data.removeprefix("grow ").split(" x "))
        line["n"] = [people // 2, people // 2]
        line["cpu_seconds"] = people**1.25 * classes**2 * groups**0.5 / 1e4

    text = composed(lines_of(("seconds",), change=law, smoke=False), ("seconds",), tmp_path)
    assert re.search(r"\| LinearPost \| .* \| 1\.25 ± 0\.00 \| 2\.00 ± 0\.00 \| 0\.50 ± 0\.00 \|", text)


# -- notes ----------------------------------------------------------------------------------------------------
def test_notes_are_filled_in_from_lines(adult, tmp_path):
    cells = Results(adult, [read_experiment("frontiers")], COMMAND).cells["frontiers"]
    cell = next(cell for cell in cells if (cell.method, cell.criterion, cell.value) == ("OptFairPost", "dp", 0.01))
    where = "data=adult method=OptFairPost criterion=dp value=0.01"
    gain = "kind=post data=adult criterion=dp against"
    note = (
        f"A {{accuracy {where}}} B {{violation {where} answers=argmax}} C {{seconds {where}}} "
        f"D {{gain {gain}=LinearPost}} E {{gain {gain}=FairProjection answers=argmax of=OptFairPost-calibrated}} "
        "F {violation data=adult method=ERM criterion=eo} G {published released.OptFairPost.dp_01.accuracy} "
        "H {knob 0.01}."
    )
    text = composed(adult, ("frontiers",), with_note(tmp_path, note))
    accuracy = cell.mean("accuracy")
    violation = cell.likeliest().mean("violation").value
    assert f"### Reading notes\n\nA {accuracy.value:.2f} ± {accuracy.half:.2f} B {violation:.4f} ± " in text
    assert "G 83.31 H 0.01." in text and "{" not in text[text.index("Reading notes") :].split("\n## ")[0]


def test_a_note_may_name_options(tmp_path):
    plan = lines_of(("randomised",), ("adult",))
    note = "{accuracy data=adult method=OptFairIn criterion=dp value=0.001 output=deterministic}"
    assert "Reading notes" in composed(plan, ("randomised",), with_note(tmp_path, note, "randomised"))


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("It has 83.1 %.", r"note to frontiers: 83\.1 is a bare number; name it instead"),
        ("About 1e-3.", "1e-3 is a bare number"),
        ("It won 11 of C1's panels.", "11 is a bare number"),
        ("{accuracy data=adult method=OptFairPost criterion=dp value=0.5}", "no run of this page is like that"),
        ("{accuracy data=adult method=OptFairPost}", "settings fit; say data, method, criterion, value and options"),
        ("{beauty data=adult}", "unknown; there are accuracy"),
        ("{accuracy adult}", "arguments are name=value"),
        ("{published}", "takes one word, not 0"),
        ("{published a.b}", r"published\.toml has no a\.b"),
        ("{published released.OptFairPost}", "is more than one number"),
        ("{knob 0.77}", "nothing on this page was run with it"),
        ("{gain kind=post}", "needs kind, data, criterion and against"),
        ("{gain kind=post data=adult criterion=dp against=Nobody}", "no panel of this page is like that"),
    ],
)
def test_notes_that_fail_the_page(adult, note, told, tmp_path):
    with pytest.raises(ValueError, match=told):
        composed(adult, ("frontiers",), with_note(tmp_path, note))


def test_a_note_about_what_cannot_fails(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.part == "test":
            del line["scores"]
            line["error"] = "ValueError: too few"

    plan = lines_of(("frontiers",), ("adult",), broken)
    note = "{accuracy data=adult method=Frappe criterion=dp value=5.0}"
    with pytest.raises(ValueError, match="has no number, the method cannot: too few"):
        composed(plan, ("frontiers",), with_note(tmp_path, note))
    note = "{gain kind=post data=adult criterion=dp against=Frappe}"
    with pytest.raises(ValueError, match="has no number, one of the methods cannot"):
        composed(plan, ("frontiers",), with_note(tmp_path, note))


@pytest.mark.parametrize(
    "note",
    [
        "{gain kind=post data=adult criterion=dp against=LinearPost}",
        "{accuracy data=enem method=OptFairPost criterion=dp value=0.001}",
        "{accuracy data=adult method=Frappe criterion=dp value=5.0}",
        "{knob 0.05}",
    ],
)
def test_a_part_of_the_page_has_no_notes_about_the_rest(note, tmp_path):
    plan = lines_of(("randomised",), ("adult",))
    folder = with_note(tmp_path, f"Here.\n\nThere: {note}.", "randomised")
    text = composed(plan, ("randomised",), folder)
    assert "Here." in text and "There" not in text
    text = composed(plan, ("randomised",), with_note(tmp_path, f"There: {note}.", "randomised"))
    assert "There" not in text and "Reading notes" not in text


def test_a_note_about_seconds_that_old_lines_do_not_have(tmp_path):
    def old(run: Run, line: dict[str, Any]) -> None:
        line["seconds"] = line.pop("cpu_seconds")

    note = "{seconds data=adult method=ERM}"
    with pytest.raises(MissingRuns, match="ERM on adult, seed 1: its line has no seconds"):
        composed(lines_of(("frontiers",), ("adult",), old), ("frontiers",), with_note(tmp_path, note))


def test_the_ends_of_growth_say_their_size_and_who_did_not_get_there(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        line["n"] = [run.people.get("n_samples", 0) // 2] * 2
        if run.method == "Frappe" and line["n"][0] == 80_000:
            del line["scores"]
            line["error"] = "stopped after 5 seconds"

    text = composed(lines_of(("seconds",), (), stopped, smoke=False), ("seconds",), tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| FRAPPÉ"))
    assert "(5,000) → " in row and "(20,000); not finished: stopped after 5 seconds" in row


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[nowhere]\ntext = 'a'", r"\[nowhere\] is no section; there are head, frontiers"),
        ("[frontiers]\nwords = 'a'", r"\[frontiers\] needs text"),
        ("[frontiers", "is no TOML"),
    ],
)
def test_notes_files_that_fail_the_page(adult, content, told, tmp_path):
    (tmp_path / "notes.toml").write_text(content)
    with pytest.raises(ValueError, match=told):
        composed(adult, ("frontiers",), tmp_path)


# -- files ----------------------------------------------------------------------------------------------------
def test_the_same_lines_give_the_same_bytes_and_links_lead_to_pictures(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    names = ("frontiers", "seconds")
    asked = [read_experiment(name) for name in names]
    first, second = lines_of(names, SOME), lines_of(names[::-1], SOME)  # lines in another order
    page = tmp_path / "docs" / "page.md"
    written = write_page(first, asked, tmp_path / "docs" / "runs", page, COMMAND)
    before = {file: file.read_bytes() for file in written}
    assert written[-1] == page and len(written) == 4
    assert write_page(second, asked[::-1], tmp_path / "docs" / "runs", page, COMMAND) == written
    assert {file: file.read_bytes() for file in written} == before
    links = re.findall(r"\]\((.*\.png)\)", page.read_text("utf-8"))
    assert [page.parent / link for link in links] == written[:-1]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in written[:-1])


@pytest.mark.parametrize("data", [("adult",), ("adult", "enem"), ("adult", "enem", "acs", "celeba")])
@pytest.mark.parametrize("experiment", ["frontiers", "tolerance"])
def test_legends_fit_into_their_pictures(experiment, data, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    parts = compose(Results(lines_of((experiment,), data), [read_experiment(experiment)], COMMAND), tmp_path)
    pictures = [part for part in parts if isinstance(part, Picture)]
    assert pictures
    for picture in pictures:
        figure = picture.draw()
        (legend,) = figure.legends
        figure.draw_without_rendering()
        assert legend.get_window_extent().width <= figure.bbox.width


def test_pictures_of_what_cannot(tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")

    def stopped(run: Run, line: dict[str, Any]) -> None:
        if run.part == "test":
            del line["scores"]
            line["error"] = "stopped"

    names = ("frontiers", "ablation", "tolerance", "seconds")
    asked = [read_experiment(name) for name in names]
    assert len(write_page(lines_of(names, SOME, stopped), asked, tmp_path, tmp_path / "page.md", COMMAND)) == 6
