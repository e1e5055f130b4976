"""Lines that runs might have left, and pages made of them, for the tests of experiments/."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.catalogue import Experiment, read_experiment
from experiments.page.page import Draft
from experiments.page.results import Results
from experiments.page.write import draft_pages
from experiments.plan import Plan, Run, TrialsNeeded

COMMAND = "python -m experiments --out results"
CRITERIA = ("dp", "eop", "eo")
Line = dict[str, Any]
Change = Callable[[Run, Line], None]


def constant_line(run: Run, accuracy: float = 0.8, violation: float = 0.1) -> Line:
    """Return a line with the same numbers whatever the run."""
    answers = {"accuracy": accuracy, "violation": dict.fromkeys(CRITERIA, violation)}
    answers["floor"] = dict.fromkeys(CRITERIA, 0.01)
    scores = {"answers": answers, "argmax": json.loads(json.dumps(answers))}
    return {"run": run.as_dict(), "constant": 0.5, "scores": scores}


def plausible_line(run: Run) -> Line:
    """Return a line that is fairer along the knob, and less accurate; the noise is fixed by the run."""
    rng = np.random.default_rng(zlib.crc32(run.key.encode()))
    share = {"OptFair": 0.01, "Linear": 0.02}.get(run.method.removesuffix("Post")[:7], 0.03)
    value = 1.0 if run.value is None else run.value
    strength = min(1.0, np.log10(1 / value) / 3) if value < 1 else 0.0
    gap, accuracy = 0.12 * (1 - strength) + 0.006, 0.85 - share * strength
    scores = {
        name: {
            "accuracy": round(accuracy + 0.001 * rng.normal() + extra, 6),
            "violation": {c: round(gap * (1 + extra) + 0.002 * rng.random(), 6) for c in CRITERIA},
            "floor": {"dp": 0.01, "eop": 0.03, "eo": 0.03},
        }
        for name, extra in (("answers", 0.0), ("argmax", 0.002), ("expected", 0.0), ("plain", 0.0))
    }
    line: Line = {"run": run.as_dict(), "n": [900, 600], "stand_in": None, "classes": 3, "groups": 2}
    line |= {"constant": 0.76, "cpu_seconds": round(0.1 + rng.random(), 3), "model_cpu_seconds": 0.2, "scores": scores}
    line |= {"wall_seconds": 0.5, "training": {"accuracy": accuracy, "violation": gap}}
    line |= {"truth": {"accuracy": accuracy, "violation": gap, "regret": 0.003 * rng.random()}}
    line["truth"]["argmax"] = {"accuracy": accuracy, "violation": gap, "regret": 0.004 * rng.random()}
    if "path" in run.options:
        path = run.options["path"]
        views = [f"{criterion} {' '.join(view)}" for criterion in path["criteria"] for view in path["views"]]
        line["path"] = {
            view: [[t, 0.6 + 0.1 * t, 0.02 + 0.2 * t] for t in (1.0, *path["tolerances"])] for view in views
        }
        line["floors"] = {view: 0.05 for view in views}
    if run.method in ("ERM", "Posterior"):
        line["small_cells"] = [["a", "b", 7]]
    return line


def stopped_line(line: Line, error: str = "stopped after 5 seconds") -> None:
    """Turn a line into that of a run that was stopped."""
    for name in set(line) - {"run"}:
        del line[name]
    line["error"] = error


def failed_line(line: Line, error: str = "ValueError: too few") -> None:
    """Turn a line into that of a method that cannot."""
    del line["scores"]
    line["error"] = error


def lay_out(
    plan: Plan, experiment: Experiment, make_line: Callable[[Run], Line] = constant_line
) -> tuple[list[list[Run]], list[Run]]:
    """Return (the trials that are needed, one list after the other; the runs), with lines for all trials."""
    stages = []
    while True:
        try:
            return stages, plan.runs(experiment)
        except TrialsNeeded as needed:
            stages.append(needed.runs)
            assert all(run.key not in plan.lines for run in needed.runs)
            plan.lines |= {run.key: make_line(run) for run in needed.runs}


def table_of(*methods: str, data: Sequence[str] = ("adult",), criteria: Sequence[str] = ("dp",), values: Any = "grid"):
    """Return a table of an experiment."""
    return {"data": list(data), "methods": list(methods), "criteria": list(criteria), "values": values}


def small_frontiers(*methods: str, criteria: Sequence[str] = ("dp",)) -> Experiment:
    """Return the frontiers of some methods on Adult."""
    base = {"data": ["adult"], "methods": ["ERM", "Posterior"]}
    experiment = read_experiment("frontiers")
    tables = (base, table_of(*methods, criteria=criteria))
    return Experiment("frontiers", experiment.title, experiment.question, experiment.paper, tables, "frontiers")


def as_experiments(names: Sequence[str | Experiment]) -> list[Experiment]:
    """Return experiments, read where only a name is given."""
    return [read_experiment(name) if isinstance(name, str) else name for name in names]


def finished_plan(
    names: Sequence[str | Experiment],
    only: tuple[str, ...] = (),
    change: Change | None = None,
    *,
    smoke: bool = True,
) -> Plan:
    """Return a plan that has a line for every run of these experiments, trials included."""
    lines: dict[str, Line] = {}

    def add(run: Run) -> Line:
        line = plausible_line(run)
        if change is not None:
            change(run, line)
        return line

    plan = Plan(lines, smoke=smoke, only=only)
    if not smoke:  # the same whatever data this machine has
        plan._sources = {name: str(data.sources[0]["name"]) for name, data in plan.data.items() if data.sources}
    for experiment in as_experiments(names):
        _, runs = lay_out(plan, experiment, add)
        for run in runs:
            if run.key not in lines:
                lines[run.key] = add(run)
    return plan


def draft(plan: Plan, names: Sequence[str | Experiment], folder: Path) -> list[Draft]:
    """Return the pages of these experiments; nothing is drawn. folder : of the lines, perhaps with notes."""
    return draft_pages(Results(plan, as_experiments(names), COMMAND), folder, folder / "pages")


def page_text(plan: Plan, names: Sequence[str | Experiment], folder: Path) -> str:
    """Return the text of the pages, one after the other."""
    return "\n".join(page.text for page in draft(plan, names, folder))
