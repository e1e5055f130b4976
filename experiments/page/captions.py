"""Say under each table and figure whose numbers it shows: the data, the seeds, the stand-ins and the command."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from experiments.areas import LEVEL
from experiments.data_plan import SYNTHETIC
from experiments.page.results import CRITERIA, Cell, Results, unique
from experiments.page.tables import extent, span
from experiments.splits import TRAIN_SHARE
from optfair.metrics import noise_floor


def caption_context(results: Results, experiment: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return what the template of captions needs."""
    data = unique(cell.data for cell in cells)
    return {
        "data": data_sizes(results, cells),
        "seeds": {len(cell.lines) for cell in cells},
        "stand_ins": stand_ins(results, data),
        "command": results.made_by(experiment),
    }


def constants() -> dict[str, str]:
    """Return the numbers that are settings of the pages themselves."""
    floor_level = inspect.signature(noise_floor).parameters["level"].default
    shares = {"level": LEVEL, "floor_level": floor_level, "train_share": TRAIN_SHARE}
    return {name: percent(share) for name, share in shares.items()}


def percent(share: float) -> str:
    """Return 90 % for 0.9."""
    return f"{100 * share:.0f} %"


def stand_ins(results: Results, data: Iterable[str]) -> list[dict[str, Any]]:
    """Return titles of data that are not those of the paper, by what they stand in for."""
    titles: dict[str, list[str]] = {}
    for name in data:
        original = results.stand_in(name)
        if original:
            titles.setdefault(original, []).append(results.data_title(name))
    return [{"titles": unique(names), "original": original} for original, names in titles.items()]


def stand_in(original: str) -> str:
    """Say what data stand in for."""
    return "a STAND-IN, synthetic data" if original == SYNTHETIC else f"a STAND-IN for {original}"


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


def noise_floors(results: Results, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return the mean noise floor of these runs, by criterion and data."""
    floors = []
    for criterion in unique(cell.criterion for cell in cells):
        by_data = []
        for data in unique(cell.data for cell in cells):
            alike = [cell for cell in cells if (cell.data, cell.criterion) == (data, criterion)]
            values = [value for cell in alike for value in cell.by_seed("floor").values()]
            by_data += [f"{results.data_title(data)} {sum(values) / len(values):.4f}"] if values else []
        floors += [{"criterion": CRITERIA[criterion], "by_data": by_data}] if by_data else []
    return floors
