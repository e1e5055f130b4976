"""Show where the numbers come from: the data, the warnings of the runs, the trials of tuning, and the hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.data_plan import DataPlan
from experiments.ledger import fit_seconds
from experiments.page.captions import stand_in
from experiments.page.results import Cell, Results, pick, unique
from experiments.page.tables import Table, cannot, extent, span
from experiments.plan import PLAIN, Run, Setting


def data_table(results: Results) -> Table | None:
    """Return a row per data of the page, or None without any."""
    cells = results.all_cells
    rows = [_data_row(results, data, pick(cells, data=data)) for data in unique(cell.data for cell in cells)]
    heads = ["data", "source", "training / test rows", "groups × classes", "seeds", "network", "small cells"]
    return Table(heads, rows, cells, " ".join(results.cells)) if cells else None


def _data_row(results: Results, data: str, cells: Sequence[Cell]) -> list[str]:
    line, plan = results.data_line(data), results.plan.data[data]
    seeds = span(seed for cell in cells for seed in cell.seeds)
    original = results.stand_in(data)
    source = "synthetic" if plan.synthetic is not None else f"`{cells[0].lines[0]['run']['source']}`"
    source += f", **{stand_in(original)}**" if original else ""
    model = settings_text(_plain_run(results, data, plan).options["model"])
    if line is None:
        return [plan.title, source, "unknown: every run was stopped", "unknown", seeds, model, "unknown"]
    title = plan.title if plan.synthetic is None else f"{plan.title} (`{data}`)"
    rows = " / ".join(f"{size:,}" for size in line["n"])
    shape = f"{line['groups']} × {line['classes']}"
    return [title, source, rows, shape, seeds, model, _small_cells(cells, line["classes"] * line["groups"])]


def _plain_run(results: Results, data: str, plan: DataPlan) -> Run:
    return results.plan.run(Setting(data, PLAIN, "dp", None, {}), plan.seeds[0])


def _small_cells(cells: Sequence[Cell], total: int) -> str:
    """Return how many cells are small, and the smallest, as 3–4 of 16, smallest 7."""
    lists = [line["small_cells"] for cell in cells for line in cell.lines if "small_cells" in line]
    if not lists:
        return "not counted: no run of plain training"
    sizes = [n for small in lists for _, _, n in small]
    return f"{extent([len(small) for small in lists])} of {total}" + (f", smallest {min(sizes)}" if sizes else "")


def settings_text(options: Mapping[str, Any]) -> str:
    """Return settings in words, as lr 0.001, epochs 30; nested ones too."""
    texts = []
    for name, value in options.items():
        if isinstance(value, Mapping):
            texts.append(settings_text(value))
        else:
            texts.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(text for text in texts if text) or "default"


# -- warnings ------------------------------------------------------------------------------------------------
def warnings_table(results: Results) -> Table | None:
    """Return how many runs of a method warned, and one of the warnings; None without any."""
    lines = {id(line): line for cell in results.all_cells for line in cell.lines}
    notes: dict[tuple[str, str], list[Any]] = {}
    for line in lines.values():
        notes.setdefault((line["run"]["data"], line["run"]["method"]), []).append(line.get("notes", []))
    rows = []
    for (data, method), by_run in notes.items():
        warned = [messages for messages in by_run if messages]
        if warned:
            share = f"{len(warned)} of {len(by_run)}"
            rows.append([results.data_title(data), results.title(method), share, warned[0][0]])
    heads = ["data", "method", "runs", "example"]
    return Table(heads, rows, results.all_cells, " ".join(results.cells)) if rows else None


# -- tuning --------------------------------------------------------------------------------------------------
def tuning_tables(results: Results) -> list[dict[str, Any]]:
    """Return for each data every trial, its score on the validation part, and which was chosen."""
    pairs = _tuned(results)
    tables = []
    for data in unique(name for name, _ in pairs):
        rows, runs = [], []
        for method in (method for name, method in pairs if name == data):
            choice = results.plan.choice(data, method)
            for trial in results.plan.trials(data, method):
                runs += results.plan.trial_runs(data, method, trial)
                mark = "**chosen**" if trial is choice else ""
                score = _trial_score(results, data, method, trial)
                rows.append([results.title(method), settings_text(trial), score, mark])
        table = Table(["method", "trial", "score", ""], rows, [], " ".join(results.cells))
        title = results.data_title(data)
        tables.append({"title": title, "table": table, "caption": _validation_caption(results, title, runs)})
    return tables


def _validation_caption(results: Results, title: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Return what the caption says of the validation part."""
    lines = [line for run in runs if "n" in (line := results.plan.lines[run.key])]
    rows = [f"{size:,}" for size in lines[0]["n"]] if lines else None
    original = lines[0]["stand_in"] if lines else None
    return {
        "data": [{"title": title, "rows": rows, "n_seeds": 1, "seeds": str(runs[0].seed)}],
        "seeds": {1},
        "stand_ins": [{"titles": [title], "original": original}] if original else [],
    }


def _tuned(results: Results) -> list[tuple[str, str]]:
    """Return (data, method) with more than one trial: those of the page, and the networks they stand on."""
    plans, pairs = results.plan.data, []
    for cell in results.all_cells:
        network = plans[cell.data].features_of
        below = [] if network is None else [(network, PLAIN)]
        pairs += [*below, (cell.data, PLAIN), (cell.data, results.plan.methods[cell.method].like)]
    tuned = unique((plans[data].tuned_on or data, method) for data, method in pairs if plans[data].tuned)
    return [(data, method) for data, method in tuned if len(results.plan.trials(data, method)) > 1]


def _trial_score(results: Results, data: str, method: str, trial: Mapping[str, Any]) -> str:
    runs = results.plan.trial_runs(data, method, trial)
    errors = [error for run in runs if (error := results.plan.lines[run.key].get("error"))]
    return cannot(errors) if errors else f"{100 * results.plan.trial_score(data, method, trial):.2f}"


# -- hours ---------------------------------------------------------------------------------------------------
def hours_table(results: Results) -> Table | None:
    """Return the hours in `fit`, of the trials and of each experiment; a shared run counts for the first."""
    plan = results.plan
    parts = {"Tuning": [plan.lines[run.key] for pair in _tuned(results) for run in plan.tuning_runs(*pair)]}
    for name, experiment in results.experiments.items():
        parts[experiment.title] = [line for cell in results.cells[name] for line in cell.lines]
    counted: set[int] = set()
    rows: list[list[str]] = []
    total: list[float] = []
    for title, lines in parts.items():
        hours = {id(line): fit_seconds(line) / 3600 for line in lines if id(line) not in counted}
        counted |= set(hours)
        total += hours.values()
        rows += [[title, f"{len(hours):,}", f"{sum(hours.values()):.2f}"]] if hours else []
    if not rows:
        return None
    rows.append(["**all**", f"**{len(total):,}**", f"**{sum(total):.2f}**"])
    return Table(["experiment", "runs", "hours"], rows, results.all_cells, " ".join(results.cells))
