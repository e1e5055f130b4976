"""Show where the numbers come from: the data, the warnings of the runs, the trials of tuning, and the hours."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from experiments.areas import LEVEL
from experiments.data_plan import SYNTHETIC, DataPlan
from experiments.evaluate import MIN_CELL
from experiments.ledger import fit_seconds
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.tables import Table, cannot, extent, span
from experiments.plan import PLAIN, TUNING_CRITERIA, TUNING_PLACES, Run, Setting
from experiments.splits import TRAIN_SHARE
from optfair.metrics import noise_floor


def constants() -> dict[str, str]:
    """Return the numbers that are settings of the pages themselves."""
    floor_level = inspect.signature(noise_floor).parameters["level"].default
    shares = {"level": LEVEL, "floor_level": floor_level, "train_share": TRAIN_SHARE}
    return {name: f"{100 * share:.0f} %" for name, share in shares.items()} | {"min_cell": str(MIN_CELL)}


def data_context(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return whose numbers a page shows: rows, seeds and stand-ins of its data, and how to get its noise floors."""
    return {
        "data": data_sizes(results, cells),
        "seeds": {len(cell.lines) for cell in cells},
        "stand_ins": stand_ins(results, unique(cell.data for cell in cells)),
        "noise_floors": partial(noise_floors, results, cells),
    }


def data_sizes(results: Results, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return title, rows and seeds of the data; those that differ in size only are one."""
    by_title: dict[str, list[str]] = {}
    for data in unique(cell.data for cell in cells):
        by_title.setdefault(results.data_title(data), []).append(data)
    sizes = []
    for title, names in by_title.items():
        seeds = {seed for cell in cells if cell.data in names for seed in cell.seeds}
        lines = [line for name in names if (line := results.data_line(name)) is not None]
        rows = [extent([line["n"][part] for line in lines]) for part in (0, 1)] if lines else None
        sizes.append({"title": title, "rows": rows, "n_seeds": len(seeds), "seeds": span(seeds)})
    return sizes


def stand_ins(results: Results, data: Sequence[str]) -> list[dict[str, Any]]:
    """Return titles of data that are not those of the paper, by what they stand in for."""
    titles: dict[str, list[str]] = {}
    for name in data:
        original = results.stand_in(name)
        if original:
            titles.setdefault(stand_in(original), []).append(results.data_title(name))
    return [{"titles": unique(names), "original": original} for original, names in titles.items()]


def stand_in(original: str) -> str:
    """Say what data stand in for."""
    return "synthetic data" if original == SYNTHETIC else original


def noise_floors(results: Results, cells: Sequence[Cell]) -> list[str]:
    """Return the mean noise floor of these runs, by criterion and data."""
    texts = []
    for criterion in unique(cell.criterion for cell in cells if cell.value is not None):
        by_data = []
        for data in unique(cell.data for cell in cells):
            alike = [cell for cell in cells if (cell.data, cell.criterion) == (data, criterion)]
            values = [value for cell in alike for value in cell.by_seed("floor").values()]
            by_data += [f"{results.data_title(data)} {sum(values) / len(values):.4f}"] if values else []
        texts += [f"{CRITERIA[criterion]}: {', '.join(by_data)}"] if by_data else []
    return texts


# -- the data ------------------------------------------------------------------------------------------------
def data_and_settings(results: Results) -> dict[str, Any]:
    """Return a row per data of all pages."""
    cells = results.all_cells
    rows = [_data_row(results, data, pick(cells, data=data)) for data in unique(cell.data for cell in cells)]
    heads = ["data", "source", "stands in for", "training / test rows", "groups × classes", "seeds", "model"]
    return {"data_table": Table([*heads, "small cells"], rows)}


def _data_row(results: Results, data: str, cells: Sequence[Cell]) -> list[str]:
    line, plan = results.data_line(data), results.plan.data[data]
    seeds = span(seed for cell in cells for seed in cell.seeds)
    original = results.stand_in(data)
    source = "synthetic" if plan.synthetic is not None else f"`{cells[0].lines[0]['run']['source']}`"
    model = settings_text(_plain_run(results, data, plan).options.get("model", {}))
    title = plan.title if plan.synthetic is None else f"{plan.title} (`{data}`)"
    head = [title, source, f"**{stand_in(original)}**" if original else "–"]
    if line is None:
        return [*head, "unknown: every run was stopped", "unknown", seeds, model, "unknown"]
    rows = " / ".join(f"{size:,}" for size in line["n"])
    shape = f"{line['groups']} × {line['classes']}" if "groups" in line else "–"
    return [*head, rows, shape, seeds, model, _small_cells(cells, line)]


def _plain_run(results: Results, data: str, plan: DataPlan) -> Run:
    return results.plan.run(Setting(data, PLAIN, "dp", None, {}), plan.seeds[0])


def _small_cells(cells: Sequence[Cell], line: Mapping[str, Any]) -> str:
    """Return how many cells are small, and the smallest, as 3–4 of 16, smallest 7."""
    lists = [line["small_cells"] for cell in cells for line in cell.lines if "small_cells" in line]
    if not lists:
        return "not counted"
    sizes = [n for small in lists for _, _, n in small]
    total = line["classes"] * line["groups"]
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


# -- warnings and hours --------------------------------------------------------------------------------------
def runs(results: Results) -> dict[str, Any]:
    """Return how many runs of a method warned, one of the warnings, and the hours of every experiment."""
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
    warnings = Table(["data", "method", "runs", "first warning"], rows) if rows else None
    return {"warnings": warnings, "hours": _hours_table(results)}


def _hours_table(results: Results) -> Table:
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
        if any(hours.values()):  # lines of the oldest runs do not say
            total += hours.values()
            rows.append([title, f"{len(hours):,}", f"{sum(hours.values()):.2f}"])
    rows.append(["**all**", f"**{len(total):,}**", f"**{sum(total):.2f}**"])
    return Table(["experiment", "runs", "hours"], rows, left=1)


# -- tuning --------------------------------------------------------------------------------------------------
def tuning(results: Results) -> dict[str, Any]:
    """Return for each data every trial, its score on the validation part, and which was chosen."""
    pairs, tables = _tuned(results), []
    for data in unique(name for name, _ in pairs):
        rows, lines = [], []
        for method in (method for name, method in pairs if name == data):
            choice = results.plan.choice(data, method)
            for trial in results.plan.trials(data, method):
                lines += [results.plan.lines[run.key] for run in results.plan.trial_runs(data, method, trial)]
                mark = "**chosen**" if trial is choice else ""
                score = _trial_score(results, data, method, trial)
                rows.append([results.title(method), settings_text(trial), score, mark])
        sizes = next((" / ".join(f"{size:,}" for size in line["n"]) for line in lines if "n" in line), "unknown")
        table = Table(["method", "trial", "score", "chosen"], rows, left=2)
        tables.append({"title": results.data_title(data), "rows": sizes, "table": table})
    criteria = " and ".join(CRITERIA[name] for name in TUNING_CRITERIA)
    places = " and ".join(str(place + 1) for place in TUNING_PLACES)
    return {"tuning": tables, "criteria": criteria, "places": places}


def _tuned(results: Results) -> list[tuple[str, str]]:
    """Return (data, method) with more than one trial: those of the pages, and the networks they stand on."""
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
