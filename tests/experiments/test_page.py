"""Check the sections of the pages. They only format lines, so plausible lines of the plan's own runs will do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from experiments.catalogue import EXPERIMENTS, SHARED_PAGES, pages_of, read_experiment, read_methods
from experiments.page.panels import Panel, make_panels
from experiments.page.provenance import runs
from experiments.page.results import MissingRuns, Results
from experiments.plan import Plan, Run
from tests.experiments.lines import (
    COMMAND,
    as_experiments,
    draft,
    failed_line,
    finished_plan,
    page_text,
    small_frontiers,
    stopped_line,
)

pytest.importorskip("jinja2", reason="the templates of the pages")
PLANNED = read_methods()


def results_of(plan: Plan, experiment: Any = "frontiers") -> Results:
    experiment = read_experiment(experiment) if isinstance(experiment, str) else experiment
    return Results(plan, [experiment], COMMAND)


def panels_of(plan: Plan, experiment: Any = "frontiers") -> list[Panel]:
    results = results_of(plan, experiment)
    return make_panels(results, results.cells["frontiers"])


def frontiers_text(experiment, change, folder) -> str:
    """Return the page of the frontiers of some methods on Adult, whose lines were changed."""
    return page_text(finished_plan((experiment,), ("adult",), change, smoke=False), (experiment,), folder)


# -- numbers come from lines ----------------------------------------------------------------------------------
def test_all_experiments_make_pages(tmp_path):
    drafts = draft(finished_plan(EXPERIMENTS, smoke=False), EXPERIMENTS, tmp_path)
    pages = pages_of(as_experiments(EXPERIMENTS))
    assert [page.file.stem for page in drafts] == [*pages, *SHARED_PAGES]
    for page in drafts:
        assert page.text.startswith("# ") and "nan" not in page.text and "\0" not in page.text
    for name, members in pages.items():
        text = next(page.text for page in drafts if page.file.stem == name)
        assert "**Question.** " in text and "## How to read these tables\n" in text.replace("\n### How", "\n## How")
        assert f"`{COMMAND} {' '.join(member.name for member in members)}`" in " ".join(text.split())


def test_a_heading_is_a_paragraph_of_its_own(tmp_path):
    for page in draft(finished_plan(EXPERIMENTS, smoke=False), EXPERIMENTS, tmp_path):
        prose = re.sub(r"```.*?```", "", page.text, flags=re.DOTALL)
        assert not re.search(r"[^\n#]#{2,} |[^\n]\n#{1,6} ", prose), page.file


def test_pages_of_some_experiments_are_without_those_about_all(tmp_path):
    drafts = draft(finished_plan(("randomised", "truth"), smoke=False), ("randomised", "truth"), tmp_path)
    assert [page.file.stem for page in drafts] == ["randomised", "truth"]


def test_scalability_says_what_was_not_run_and_names_no_models_where_there_are_none(tmp_path):
    def plain(run: Run, line: dict[str, Any]) -> None:
        line["model_cpu_seconds"] = 0.0 if run.method == "ERM" else 0.2

    data = ("images-c1", "images-c2", "images-c3")
    text = page_text(finished_plan(("scalability",), data, plain), ("scalability",), tmp_path)
    floors = text[text.index("| accuracy, % / violation |") :].split("\n\n")[0]
    rows = {row.split(" | ")[0]: row for row in floors.splitlines()}
    assert rows["| OptFair-post, calibrated"].count("not run") == 2  # on C1 only
    assert "not run" not in rows["| OptFair-post"]
    every = {row.split(" | ")[1]: row for row in text.splitlines() if row.startswith("| CelebA images, C1 (")}
    assert every["OptFair-post"].count(" 0.200") == 1 and " 0.200" not in every["ERM"]


def test_data_that_are_in_no_experiment_make_no_page(tmp_path):
    assert draft(finished_plan(("truth",), ("adult",)), ("truth",), tmp_path) == []


def test_a_missing_run_fails_before_anything_is_written(adult_plan, tmp_path):
    run = adult_plan.runs(read_experiment("frontiers"))[-1]
    lines = {key: line for key, line in adult_plan.lines.items() if key != run.key}
    made_by = f"`{COMMAND} frontiers --data adult` makes it"
    message = rf"^frontiers: 1 run has no line, {run.method} on adult, .*{made_by}\.$"
    with pytest.raises(MissingRuns, match=message):
        draft(Plan(lines, only=("adult",)), ["frontiers"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_trials_fail(tmp_path):
    message = r"\d+ trials have no line, the first of them ERM on adult.*\(validation\)"
    with pytest.raises(MissingRuns, match=message):
        draft(Plan({}, only=("adult",)), ["frontiers"], tmp_path)


def test_means_and_intervals_are_those_of_the_lines(adult_plan, tmp_path):
    cells = results_of(adult_plan).cells["frontiers"]
    setting = ("LinearPost", "eo", 0.01)
    cell = next(cell for cell in cells if (cell.method, cell.criterion, cell.value) == setting)
    scores = [
        line["scores"]["answers"]
        for line in adult_plan.lines.values()
        if line["run"]["part"] == "test"
        and (line["run"]["method"], line["run"]["criterion"], line["run"]["value"]) == setting
    ]
    accuracy = np.mean([100 * score["accuracy"] for score in scores])
    violation = np.mean([score["violation"]["eo"] for score in scores])
    assert len(scores) == 5 and cell.mean("accuracy").value == pytest.approx(accuracy)
    assert re.search(
        rf"\| LinearPost \| 0\.01 \| {accuracy:.2f} ± \d\.\d\d \| {violation:.4f} ± ",
        page_text(adult_plan, ("frontiers",), tmp_path),
    )


# -- who wins -------------------------------------------------------------------------------------------------
def shifted(by: float, spread: float = 0.0):
    """Return a change that makes LinearPost more accurate than OptFair-post by ``by``; spread : between seeds."""

    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "test" and run.method in ("LinearPost", "OptFairPost", "Posterior", "ERM"):
            grid = list(PLANNED[run.method].grid)
            step = 4 - grid.index(run.value) if run.value in grid else 5
            extra = by + spread * (-1) ** run.seed if run.method == "LinearPost" else 0.0
            for scores in line["scores"].values():
                scores["accuracy"] = 0.80 + 0.01 * step**0.5 + (extra if step < 5 else 0.0)
                scores["violation"] = dict.fromkeys(scores["violation"], 0.01 + 0.02 * step)

    return change


@pytest.mark.parametrize(
    ("by", "spread", "verdict"),
    [(-0.01, 0.0, "won**"), (0.01, 0.0, "LOST**"), (0.0, 0.01, "within noise")],
)
def test_verdicts_are_those_of_paired_areas(by, spread, verdict, tmp_path):
    text = frontiers_text(small_frontiers("OptFairPost", "LinearPost"), shifted(by, spread), tmp_path)
    first = text.index("<summary>OptFair-post against every method")
    row = next(line for line in text[first:].splitlines() if line.startswith("| demographic parity | LinearPost |"))
    assert verdict in row
    lost = re.search(r"Lost: ([^.]*; )?Adult, demographic parity, against LinearPost[;.]", text[first:])
    assert (lost is not None) == (verdict == "LOST**")


def test_the_counts_add_up(adult_plan, tmp_path):
    panels = [panel for panel in panels_of(adult_plan) if panel.kind == "in"]
    text = page_text(adult_plan, ("frontiers",), tmp_path)
    part = text[text.index("<summary>OptFair-in against") : text.index("<summary>OptFair-post against")]
    part = " ".join(part.split())
    pattern = r"(\d+) won(?: \((\d+) in bold\))?, (\d+) within noise, (\d+) lost(?: \((\d+) in bold\))?\."
    found = list(re.finditer(pattern, part))
    assert len(found) == 2  # over all violations, and where both have rules
    won, bold_won, noise, lost, bold_lost = (int(count or 0) for count in found[0].groups())
    assert won + noise + lost == sum(len(panel.rivals) for panel in panels)
    table = part[: found[1].start()]
    assert (bold_won, bold_lost) == (table.count(" won**"), table.count(" LOST**"))
    total = won + noise + lost
    assert f"at least {total / 10:.0f} of {total} would be won or lost by chance." in table
    verdicts = next(line for line in text.splitlines() if line.startswith("| OptFair-in | "))
    assert f"**{won} / {noise} / {lost}**" in verdicts


def test_methods_that_cannot_are_counted_once(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        line["classes"] = 2  # opportunity is odds then
        if run.method == "FairProjection" and run.part == "test":
            failed_line(line)

    experiment = small_frontiers("OptFairPost", "FairProjection", criteria=("dp", "eo", "eop"))
    text = frontiers_text(experiment, broken, tmp_path)
    assert "2 not possible because a method failed" in text  # parity and odds; of two ways to decide one


def test_where_plain_training_failed_it_is_named_and_no_other_method(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "ERM" and run.part == "test":
            failed_line(line, "stopped after 5 seconds")

    text = frontiers_text(small_frontiers("OptFairIn", "FairBatch"), broken, tmp_path)
    assert "| demographic parity | FairBatch | ERM not finished: stopped after 5 seconds |" in text


def test_where_both_have_rules_violations_below_the_fairest_of_either_do_not_count(tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        """Let FairBatch stop at 0.06 and be as accurate as OptFair-in down to there."""
        if run.part == "test" and run.method in ("OptFairIn", "FairBatch", "ERM"):
            step = list(PLANNED[run.method].grid).index(run.value) if run.value else -1
            gap = 0.10 - 0.02 * min(step + 1, 2 if run.method == "FairBatch" else 5)
            for scores in line["scores"].values():
                scores["violation"] = dict.fromkeys(("dp", "eop", "eo"), gap)
                scores["floor"] = dict.fromkeys(scores["floor"], 0)
                scores["accuracy"] = 0.85 - (0.1 - gap) ** 2
            line["constant"] = 0.5

    experiment = small_frontiers("OptFairIn", "FairBatch")
    plan = finished_plan((experiment,), ("adult",), change, smoke=False)
    panel = next(panel for panel in panels_of(plan, experiment) if (panel.kind, panel.criterion) == ("in", "dp"))
    optfair, rival = (next(c for c in panel.cells if c.method == name) for name in ("OptFairIn", "FairBatch"))
    assert panel.gain(optfair, rival).value > 1
    assert panel.gain(optfair, rival, common=True).value == pytest.approx(0, abs=1e-9)
    assert "only over violations that both methods reach" in page_text(plan, (experiment,), tmp_path)


@pytest.mark.parametrize("better", ["joint", "factored"])
def test_a_frontier_contains_the_rule_that_it_starts_from_and_no_other(better):
    accuracy = {"ERM": 0.90, "Posterior": 0.95, "Frappe": 0.80}

    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method == "LinearPost":
            line["scores"]["answers"]["accuracy"] = 0.9 if run.options["posterior"] == better else 0.1
        if run.part == "test" and run.method in accuracy:
            for scores in line["scores"].values():
                scores["accuracy"] = accuracy[run.method]
                scores["violation"] = dict.fromkeys(scores["violation"], 0.1)

    experiment = small_frontiers("OptFairPost", "LinearPost", "Frappe")
    panels = panels_of(finished_plan((experiment,), ("adult",), change), experiment)
    panel = next(panel for panel in panels if panel.kind == "post")
    frappe, linear = (next(c for c in panel.cells if c.method == name) for name in ("Frappe", "LinearPost"))
    assert sorted(panel.points(frappe, 1))[-1] == (0.1, 90.0)
    # On P(Y|X) P(A|X,Y) it is plain training, on a network of the pair the argmax of that.
    start, other = (95.0, 90.0) if better == "joint" else (90.0, 95.0)
    assert (0.1, start) in panel.points(linear, 1) and (0.1, other) not in panel.points(linear, 1)


@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_areas_reach_to_plain_training_whatever_a_method_starts_from(criterion):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method == "LinearPost":
            line["scores"]["answers"]["accuracy"] = 0.95 if run.options["posterior"] == "joint" else 0.1
        if run.part == "test" and run.method in ("ERM", "Posterior", "LinearPost"):
            for scores in line["scores"].values():
                gap = {"ERM": 0.10, "Posterior": 0.20, "LinearPost": 0.0}[run.method]
                scores["violation"] = dict.fromkeys(("dp", "eop", "eo"), gap)
                scores["floor"] = dict.fromkeys(scores["floor"], 0)
                scores["accuracy"] = {"ERM": 0.5, "Posterior": 0.9, "LinearPost": 0.7}[run.method]
            line["constant"] = 0.5

    experiment = small_frontiers("OptFairPost", "LinearPost", criteria=(criterion,))
    panels = panels_of(finished_plan((experiment,), ("adult",), change, smoke=False), experiment)
    panel = next(panel for panel in panels if (panel.kind, panel.criterion) == ("post", criterion))
    linear = next(competitor for competitor in panel.cells if competitor.method == "LinearPost")
    # From (0, 70) to its start at (0.2, 90), which is cut at 0.1: the mean of 70 and 80.
    assert panel.starts[linear].method == "Posterior"
    assert all(value == pytest.approx(75.0) for value in panel.areas(linear).values())


def test_which_posterior_was_chosen_is_shown_beside_who_wins(tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.part == "validation" and run.method in ("LinearPost", "FairProjection"):
            best = run.options.get("posterior") == "factored" and (run.method == "LinearPost" or "cv" in run.options)
            for scores in line["scores"].values():
                scores["accuracy"] = 0.95 if best else 0.1

    text = frontiers_text(small_frontiers("OptFairPost", "LinearPost", "FairProjection", "Frappe"), change, tmp_path)
    assert "| LinearPost | factored |" in text and "| FairProjection | factored, in sample |" in text
    assert "| OptFair-post |" in text[text.index("| posterior of | Adult |") :] and "| FRAPPÉ | joint" not in text


@pytest.mark.parametrize("better", ["joint", "factored"])
def test_both_posteriors_are_shown_and_which_was_chosen(better, tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        if run.method == "OptFairPost":
            line["scores"]["answers"]["accuracy"] = 0.9 if run.options["posterior"] == better else 0.1

    text = page_text(finished_plan(("calibration",), ("adult",), change, smoke=False), ("calibration",), tmp_path)
    other = {"joint": "factored", "factored": "joint"}[better]
    assert f"| Adult | demographic parity | {better} | `none` | 0.05 | 90.00" in text
    assert f"| Adult | demographic parity | {other}, not chosen | `none` | 0.05 | 10.00" in text
    assert "| data | criterion | tolerance 0.05 |" in text[text.index("What `both` adds to `none`") :]


def test_plain_training_within_the_noise_floor_cannot_be_judged(tmp_path):
    def fair(run: Run, line: dict[str, Any]) -> None:
        if run.method == "ERM" and run.part == "test":
            line["scores"]["answers"]["violation"]["dp"] = 0.001

    text = frontiers_text(small_frontiers("OptFairIn", "AdvDebias"), fair, tmp_path)
    text = " ".join(text.split())
    assert "where the violation of ERM is within its noise floor: Adult, demographic parity (0.0010" in text
    assert "| demographic parity | AdvDebias | not judged |" in text


def test_one_seed_is_not_judged(adult_plan, tmp_path, monkeypatch):
    monkeypatch.setattr(Plan, "seeds", lambda self, data: data.seeds[:1])
    text = page_text(adult_plan, ("frontiers",), tmp_path)
    assert "There is one seed, so there are no intervals." in " ".join(text.split()) and " one seed |" in text
    assert "nan" not in text and "won** |" not in text


# -- errors, stand-ins, captions ------------------------------------------------------------------------------
def test_errors_are_shown_and_are_no_numbers(tmp_path):
    def broken(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.criterion == "dp" and run.part == "test":
            failed_line(line, "ValueError: too few | rows in group 'x'")

    text = frontiers_text(small_frontiers("OptFairPost", "Frappe"), broken, tmp_path)
    assert r"| demographic parity | FRAPPÉ | FRAPPÉ cannot: too few \| rows in group 'x' |" in text
    assert "1 not possible because a method failed" in text


def test_a_stopped_run_has_no_numbers_of_rows(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        if run.method == "Frappe" and run.part == "test":
            stopped_line(line)

    text = frontiers_text(small_frontiers("OptFairPost", "Frappe"), stopped, tmp_path)
    assert "not finished: stopped after 5 seconds" in text


def test_data_none_of_whose_runs_ended(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        if run.part == "test":
            stopped_line(line)

    names = ("frontiers", "tolerance")
    text = page_text(finished_plan(names, ("adult",), stopped), names, tmp_path)
    assert "unknown, as every run was stopped" in text and "nan" not in text


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if read_experiment(name).paper])
def test_every_page_of_the_paper_says_whose_numbers_these_are(name, tmp_path):
    def stand_in(run: Run, line: dict[str, Any]) -> None:
        line["stand_in"] = "the data of the paper"

    text = " ".join(page_text(finished_plan((name,), change=stand_in), (name,), tmp_path).split())
    assert "† " in text and "stand in for the data of the paper" in text.replace("stands in", "stand in")
    assert "900 / 600 (seed" in text and "mean nothing" in text
    assert f"`{COMMAND} --smoke" in text or f"`{COMMAND} {name}`" in text


def test_synthetic_data_are_stand_ins_too(tmp_path):
    def synthetic(run: Run, line: dict[str, Any]) -> None:
        line["stand_in"] = "made up"

    text = page_text(finished_plan(("randomised",), ("adult",), synthetic), ("randomised",), tmp_path)
    assert "Adult† stands in for synthetic data." in " ".join(text.split()) and "| Adult† |" in text


# -- beside others --------------------------------------------------------------------------------------------
def test_published_numbers_are_beside_ours_of_the_same_seeds(adult_plan, tmp_path):
    text = page_text(adult_plan, ("frontiers",), tmp_path)
    section = text[text.index("## Beside the released code") :]
    assert "| OptFair-post | demographic parity | 0.01 | 83.31 / 0.0134 |" in section
    assert "the authors' released code, run on Adult" in section and "seeds 1, 2, 3." in " ".join(section.split())


# -- computing time -------------------------------------------------------------------------------------------
def test_hours_are_those_of_all_runs_and_each_counts_once(tmp_path):
    """Tolerance has no runs but those of the frontiers; old lines have other names; a stopped run took its limit."""
    names = ("frontiers", "tolerance")
    seconds = iter(range(1, 10_000))

    def clocked(run: Run, line: dict[str, Any]) -> None:
        del line["wall_seconds"]
        number = next(seconds)
        line[("wall_seconds", "seconds", "limit")[number % 3]] = 36 * number

    plan = finished_plan(names, ("adult",), clocked)
    n_runs = len(plan.lines)
    text = str(runs(Results(plan, as_experiments(names), COMMAND))["hours"])
    assert f"| **all** | **{n_runs}** | **{0.01 * n_runs * (n_runs + 1) / 2:.2f}** |" in text
    trials = sum(line["run"]["part"] == "validation" for line in plan.lines.values())
    assert (
        f"| Tuning | {trials} | " in text and f"| {read_experiment('frontiers').title} | {n_runs - trials} | " in text
    )
    assert read_experiment("tolerance").title not in text


# -- seconds --------------------------------------------------------------------------------------------------
def test_growth_is_the_exponent_of_the_law(tmp_path):
    def law(run: Run, line: dict[str, Any]) -> None:
        rows, classes, groups = map(int, run.data.removeprefix("grow ").split(" x "))
        line["n"] = [rows // 2, rows // 2]
        line["cpu_seconds"] = rows**1.25 * classes**2 * groups**0.5 / 1e4

    text = page_text(finished_plan(("seconds",), change=law, smoke=False), ("seconds",), tmp_path)
    assert re.search(r"\| LinearPost \| .* \| 1\.25 ± 0\.00 \| 2\.00 ± 0\.00 \| 0\.50 ± 0\.00 \|", text)


def test_the_ends_of_growth_show_their_size_and_which_method_did_not_finish(tmp_path):
    def stopped(run: Run, line: dict[str, Any]) -> None:
        line["n"] = [run.load_arguments.get("n_samples", 0) // 2] * 2
        if run.method == "Frappe" and line["n"][0] == 80_000:
            failed_line(line, "stopped after 5 seconds")

    text = page_text(finished_plan(("seconds",), (), stopped, smoke=False), ("seconds",), tmp_path)
    row = next(line for line in text.splitlines() if line.startswith("| FRAPPÉ"))
    assert "(5,000) | " in row and "(20,000); not finished: stopped after 5 seconds" in row


# -- pages of one experiment ----------------------------------------------------------------------------------
def test_the_table_of_labels_is_that_of_the_lines(tmp_path):
    def change(run: Run, line: dict[str, Any]) -> None:
        over = {"none": 0.04, "joint": 0.03, "labels": 0.02, "both": 0.01}[run.options["calibration"]]
        line["scores"]["expected"]["violation"] = dict.fromkeys(("dp", "eop", "eo"), run.value + over)
        line["scores"]["expected"]["floor"] = dict.fromkeys(("dp", "eop", "eo"), 0.004 if run.value == 0.05 else 0.02)

    text = page_text(finished_plan(("labels",), ("enem-logistic",), change, smoke=False), ("labels",), tmp_path)
    assert "| ENEM 2019 | logistic | dp | +0.0400 | +0.0300 | +0.0200 | **+0.0100** |" in text
    assert "**no: +0.0060 ± 0.0000** (5) |" in text and "6 of 9 settings are within" in text
    assert "exceed it by at most 0.0060" in " ".join(text.split())


def test_the_table_of_networks_has_both_methods_and_the_share_held_out(tmp_path):
    text = page_text(finished_plan(("networks",), ("enem-network",), smoke=False), ("networks",), tmp_path)
    text = text[text.index("<summary>Every data set") :]
    rows = [row for row in text.splitlines() if row.startswith("| ENEM 2019 |")]
    assert len(rows) == 10 and sum("demographic parity, held_out=0.0 | 0.03" in row for row in rows) == 1
