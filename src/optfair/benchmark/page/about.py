"""About the runs: how to read the page, whose people these are, what tuning tried and chose, and what it all took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optfair.benchmark.ledger import fit_seconds
from optfair.benchmark.page.results import Cell, Results, unique
from optfair.benchmark.page.tables import Part, cannot, caption, details, span, stand_in, table
from optfair.benchmark.people import SMALL
from optfair.benchmark.plan import TRIED, TRIED_VALUES, Run

HOW_TO_READ = """\
This page is written by `{command}`. Every number on it is from the line of a finished run (`*.jsonl`), or from a source
that is named beside it; a number without a run would not let it be written.

* **violation**: the largest |rate of a group − rate of everybody|, on people that the rule was not fitted on.
* **noise floor**: the violation that a perfectly fair rule stays below by chance alone, 19 times of 20. Below it,
  nobody can be told to be fairer than another.
* **accuracy**: in %, on the same people. Answers of randomised rules are one draw per person, scored like all
  others.
* **±**: half a 90 % interval over the seeds (Student's t). A seed is a split of the same people (of
  made-up ones: other people), a network and the draws; splits overlap, so it says how far another seed may be, and
  less than it should of other people.
* **knob**: the argument of a method that trades accuracy for fairness. Its other settings were tuned on a part of the
  training people of the first seed; what was tried is at the end.
* **stand-in**: other people in place of those of the paper. Their numbers are not comparable with the paper's."""


def head(results: Results) -> list[Part]:
    cells = [cell for own in results.cells.values() for cell in own]
    parts: list[Part] = [HOW_TO_READ.format(command=results.whole_command)]
    if results.plan.smoke:
        parts.append("**These are smoke runs: everything is tiny, and the numbers mean nothing.**")
    if not cells:
        return parts
    rows = [_row(results, data, [c for c in cells if c.data == data]) for data in unique(cell.data for cell in cells)]
    heads = ["people", "source", "learned from / judged on", "groups × classes", "seeds", "network", "small cells"]
    says = (
        "The people of this page. Network: the settings chosen for plain training, which all methods start from. Small "
        f"cells: group and class with fewer than {SMALL} judged people, and the fewest, over the seeds."
    )
    return [*parts, "### People", table(heads, rows, caption(results, " ".join(results.cells), cells, says))]


def _row(results: Results, data: str, cells: Sequence[Cell]) -> list[str]:
    line, plan = results.people(data), results.plan.data[data]
    seeds = span(seed for cell in cells for seed in cell.seeds)
    source = str(cells[0].lines[0]["run"]["source"])
    own = results.stand_in(data)
    source = f"`{source}`" + (f", **{stand_in(own)}**" if own else "")
    model = results.plan.run(data, "ERM", "dp", None, plan.seeds[0]).options["model"]
    if line is None:
        return [
            plan.title,
            source,
            "not known: every run was stopped",
            "not known",
            seeds,
            settings(model),
            "not known",
        ]
    title = plan.title if plan.made is None else f"{plan.title} (`{data}`)"
    n = " / ".join(f"{size:,}" for size in line["n"])
    shape = f"{line['groups']} × {line['classes']}"
    small = _small(cells, line["classes"] * line["groups"])
    return [title, source, n, shape, seeds, settings(model), small]


def _small(cells: Sequence[Cell], total: int) -> str:
    """3–4 of 16, fewest 7."""
    found = [line["small_cells"] for cell in cells for line in cell.lines if "small_cells" in line]
    if not found:
        return "not counted: plain training was not run"
    counts = [len(own) for own in found]
    told = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"
    fewest = [n for own in found for _, _, n in own]
    return f"{told} of {total}" + (f", fewest {min(fewest)}" if fewest else "")


def settings(options: Mapping[str, Any]) -> str:
    """lr 0.001, epochs 30; nested ones too."""
    told = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            told.append(settings(value))
        else:
            told.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(text for text in told if text) or "as it comes"


TUNED = (
    "Settings other than the knob, by a part of the training people of the first seed: nobody judged on at that seed "
    "took part. Each seed splits all people anew, so some who did are judged on at others; the same for every method."
)


# -- what methods said ---------------------------------------------------------------------------------------
def said(results: Results) -> list[Part]:
    """Warnings of the runs on this page: how many runs of a method had one, and one of them."""
    lines = {id(line): line for own in results.cells.values() for cell in own for line in cell.lines}
    found: dict[tuple[str, str], list[Any]] = {}
    for line in lines.values():
        found.setdefault((line["run"]["data"], line["run"]["method"]), []).append(line.get("notes", []))
    rows = []
    for (data, method), notes in found.items():
        some = [own for own in notes if own]
        if some:
            rows.append([results.data_title(data), results.title(method), f"{len(some)} of {len(notes)}", some[0][0]])
    cells = [cell for own in results.cells.values() for cell in own]
    says = "Runs in which a method warned, and the first warning of the first of them (at most 200 letters)."
    text = table(
        ["people", "method", "runs", "for example"], rows, caption(results, " ".join(results.cells), cells, says)
    )
    return [details("Warnings", text)] if rows else []


# -- tuning --------------------------------------------------------------------------------------------------
def tuning(results: Results) -> list[Part]:
    """Every trial, its score on the validation part, and the one chosen."""
    asked = _tuned(results)
    parts: list[Part] = []
    for data in unique(name for name, _ in asked):
        rows, cells = [], []
        for method in (method for name, method in asked if name == data):
            trials = results.plan.trials(data, method)
            chosen = results.plan.choice(data, method)
            for trial in trials:
                runs = results.plan.trial_runs(data, method, trial)
                cells += [_trial_cell(results, run) for run in runs]
                best = "**chosen**" if trial is chosen else ""
                rows.append([results.title(method), settings(trial), _score(results, data, method, trial), best])
        says = (
            "Score on the validation part, of the training people of the first seed only: accuracy (%) of plain "
            f"training; of the others the mean of the areas (%) by {' and '.join(TRIED)}, of the rules at the values "
            f"{' and '.join(str(k + 1) for k in TRIED_VALUES)} of the knob and of the one it starts from. Where plain "
            "training is below the noise floor of so few people, the area is the accuracy reached at its violation. "
            "FairProjection: drawn or by argmax, whichever is more."
        )
        text = table(["method", "tried", "score", ""], rows, _validation_caption(results, data, cells, says))
        parts.append(details(results.data_title(data), text))
    if not parts:
        return []
    return [
        TUNED,
        *parts,
    ]


def _tuned(results: Results) -> list[tuple[str, str]]:
    """(data, method) with more than one trial: those of the page, and the networks they stand on."""
    found = []
    for cell in (cell for own in results.cells.values() for cell in own):
        plan = results.plan.data[cell.data]
        below = [] if plan.features_of is None else [(plan.features_of, "ERM")]
        found += [*below, (cell.data, "ERM"), (cell.data, results.plan.methods[cell.method].like)]
    kept = unique(
        (results.plan.data[data].tuned_on or data, method) for data, method in found if results.plan.data[data].tuned
    )
    return [(data, method) for data, method in kept if len(results.plan.trials(data, method)) > 1]


def _trial_cell(results: Results, run: Run) -> Cell:
    return Cell(run.data, run.method, run.criterion, run.value, {}, (results.plan.lines[run.key],))


def _score(results: Results, data: str, method: str, trial: Mapping[str, Any]) -> str:
    runs = results.plan.trial_runs(data, method, trial)
    errors = [error for run in runs if (error := results.plan.lines[run.key].get("error"))]
    return cannot(errors) if errors else f"{100 * results.plan.trial_score(data, method, trial):.2f}"


def _validation_caption(results: Results, data: str, cells: Sequence[Cell], says: str) -> str:
    """As other captions; the people are those of the validation part."""
    lines = [line for cell in cells for line in cell.lines if "n" in line]
    parts = [says]
    if lines:
        n = " / ".join(f"{size:,}" for size in lines[0]["n"])
        parts.append(f"Learned from / judged on: {results.data_title(data)} {n} (seed {cells[0].seeds[0]}).")
        if lines[0]["stand_in"]:
            parts.append(f"**{results.data_title(data)}: {stand_in(lines[0]['stand_in'])}.**")
    parts.append("One seed, so no interval.")
    if results.plan.smoke:
        parts.append("**Smoke runs: these numbers mean nothing.**")
    names = " ".join(results.cells)
    return "<sub>" + " ".join(parts) + f" Runs: `{results.made_by(names)}`.</sub>"


# -- time ----------------------------------------------------------------------------------------------------
def took(results: Results) -> list[Part]:
    """Hours in `fit`, of the trials and of each experiment; a run that two of them share counts for the first."""
    trials = [
        results.plan.lines[run.key] for data, method in _tuned(results) for run in results.plan.needed(data, method)
    ]
    parts = {"Tuning": trials}
    for name, experiment in results.experiments.items():
        parts[experiment.title] = [line for cell in results.cells[name] for line in cell.lines]
    known: set[int] = set()
    rows: list[list[str]] = []
    hours: list[float] = []
    for title, lines in parts.items():
        own = {id(line): fit_seconds(line) / 3600 for line in lines if id(line) not in known}
        known |= set(own)
        hours += own.values()
        rows += [[title, f"{len(own):,}", f"{sum(own.values()):.2f}"]] if own else []
    if not rows:
        return []
    rows.append(["**all**", f"**{len(hours):,}**", f"**{sum(hours):.2f}**"])
    cells = [cell for own in results.cells.values() for cell in own]
    says = (
        "Hours that these runs spent in `fit`, one after the other: half of it with `--jobs 2`. To read the people, to "
        "answer and to score comes on top, and so does a network of pictures whose features others use. A run that "
        "experiments share is counted with the first."
    )
    return [table(["experiment", "runs", "hours"], rows, caption(results, " ".join(results.cells), cells, says))]
