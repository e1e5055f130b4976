"""Show the paper's other experiments: the ablation, randomised against deterministic, and scalability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.catalogue import published
from experiments.evaluate import MIN_CELL
from experiments.page.figures import draw_frontiers, is_thick
from experiments.page.panels import Competitor, competitors, curve
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table, both, change, extent, knob, score
from experiments.plan import PLAIN

ABLATION = "Accuracy against violation of training, of post-processing, and of both one after the other."


# -- in, post, in-then-post ----------------------------------------------------------------------------------
def ablation(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the figure and the table of the ablation."""
    data, criteria = (unique(getattr(cell, name) for cell in cells) for name in ("data", "criterion"))
    panels, rows = [], []
    for row, name in enumerate(data):
        for column, criterion in enumerate(criteria):
            alike, curves = pick(cells, data=name, criterion=criterion), list[dict[str, Any]]()
            for method, threshold in unique((cell.method, cell.options.get("threshold")) for cell in alike):
                along = [c for c in alike if (c.method, c.options.get("threshold")) == (method, threshold)]
                title, text = results.title(method), DASH if threshold is None else f"{threshold:g}"
                order = sum(drawn["method"] == method for drawn in curves)
                drawn = curve(Competitor(method, _label(title, threshold, order), True), along)
                curves.append(drawn | ({} if threshold is None else {"decision": ("first", "second")[order]}))
                setting = [results.data_title(name), CRITERIA[criterion], title, text]
                rows += [[*setting, f"{cell.value:g}", *both(cell)] for cell in along]
            floor = float(np.mean([cell.mean("floor").value for cell in alike if cell.by_seed("floor")] or [0.0]))
            panel = {"title": f"{results.data_title(name)}, {criterion}", "curves": curves, "plain": None}
            panels.append(panel | {"floor": floor, "row": row, "column": column})
    layout = {"rows": len(data), "columns": len(criteria), "panels": panels}
    heads = ["data", "criterion", "method", "threshold", "tolerance", "accuracy, %", "violation"]
    return {"figure": Figure("ablation", ABLATION, draw_frontiers, layout), "table": Table(heads, rows, left=3)}


def _label(title: str, threshold: float | None, order: int) -> str:
    return title if threshold is None else f"both, {('larger', 'smaller')[order]} threshold"


# -- randomised against deterministic ------------------------------------------------------------------------
def randomised(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of drawn and deterministic rules: the changes alone, and everything."""
    paper = published()["randomised"]
    rows, changes = [], []
    for data in unique(cell.data for cell in cells):
        for method in unique(cell.method for cell in cells):
            pair = _two_decisions(pick(cells, data=data, method=method))
            setting = [results.data_title(data), results.title(method)]
            kind = results.plan.methods[method].kind.kind
            # The paper's post-processor is the one on the posteriors as they are.
            entry = paper.get(data, {}).get(kind) if method in ("OptFairIn", "OptFairPost") else None
            for name, cell in zip(("randomised", "deterministic"), pair, strict=True):
                theirs = DASH if entry is None else f"{entry[name]['accuracy']:.2f} / {entry[name]['violation']:.4f}"
                rows.append([*setting, name, *both(cell), theirs])
            changes.append([*setting, *(change(pair[1], pair[0], quantity) for quantity in ("accuracy", "violation"))])
    heads = ["data", "method", "rule", "accuracy, %", "violation", "paper: accuracy, % / violation"]
    return {
        "changes": Table(["data", "method", "change of accuracy, points", "change of violation"], changes, left=2),
        "table": Table(heads, rows, left=3),
        "values": ", ".join(f"{value:g}" for value in unique(cell.value for cell in cells)),
        "source": paper["source"],
    }


def _two_decisions(cells: Sequence[Cell]) -> tuple[Cell, Cell]:
    """Return the same rule, drawn and not: training has a run for each, a post-processed rule has its argmax."""
    drawn = next(cell for cell in cells if cell.options.get("output") is None)
    deterministic = [cell for cell in cells if cell.options.get("output") == "deterministic"]
    return drawn, deterministic[0] if deterministic else drawn.decided("argmax")


# -- more classes, more groups -------------------------------------------------------------------------------
def scalability(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of growing numbers of groups and classes."""
    paper, families = published()["scalability"], []
    for title, prefix in {"By attributes": "celeba-", "By images": "images-"}.items():
        members = [cell for cell in cells if cell.data.startswith(prefix)]
        if members:
            source = paper["source"] if any(cell.data in paper for cell in members) else None
            tables = {"sizes": _sizes_table(results, members), "floors": _floors_table(results, members)}
            families.append({"title": title, "source": source, **tables, **_small_cells(results, members)})
    return {"families": families, "min_cell": MIN_CELL}


def _sizes_table(results: Results, cells: Sequence[Cell]) -> Table:
    """Return a row per size and method; the paper's numbers beside it where it has some."""
    paper, rows = published()["scalability"], []
    data = unique(cell.data for cell in cells)
    beside = any(name in paper for name in data)
    for name in data:
        for cell in pick(cells, data=name):
            entry = paper.get(name, {}).get(cell.method)
            theirs = DASH if entry is None else f"{entry['accuracy']:.2f} / {entry['violation']:.4f}"
            for side in competitors(results, cell.method):
                scored = side.of(cell.by("eo"))
                setting = [_title_and_shape(results, name), side.title, knob(results, cell)]
                rows.append([*setting, *both(scored), *_seconds(scored), *([theirs] if beside else [])])
    heads = ["data (groups × classes)", "method", "knob", "accuracy, %", "violation", "seconds", "seconds of models"]
    return Table([*heads, *(["paper: accuracy, % / violation"] if beside else [])], rows, left=3)


def _seconds(cell: Cell) -> list[str]:
    if not cell.by_seed("seconds"):
        return [DASH, DASH]
    models = score(cell, "model_seconds") if any(cell.by_seed("model_seconds").values()) else DASH
    return [score(cell, "seconds"), models]


def _floors_table(results: Results, cells: Sequence[Cell]) -> Table:
    """Return plain training and OptFair beside the noise floor, a column per size."""
    data = unique(cell.data for cell in cells)
    rows = []
    for method in (name for name in unique(cell.method for cell in cells) if name == PLAIN or is_thick(name)):
        found = {cell.data: cell.by("eo") for cell in pick(cells, method=method)}
        rows.append([results.title(method), *(score(found[name]) if name in found else "not run" for name in data)])
    floors = [score(pick(cells, data=name, method=PLAIN)[0].by("eo"), "floor") for name in data]
    heads = ["accuracy, % / violation", *(_title_and_shape(results, name) for name in data)]
    return Table(heads, [*rows, ["noise floor of the violation", *floors]], left=1)


def _title_and_shape(results: Results, data: str) -> str:
    line = results.data_line(data)
    return results.data_title(data) + ("" if line is None else f" ({line['groups']} × {line['classes']})")


def _small_cells(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the cells (group × class) with too few test rows to say anything, over all seeds."""
    counts, rows = [], []
    for data in unique(cell.data for cell in cells):
        title, lines = results.data_title(data), pick(cells, data=data, method=PLAIN)[0].lines
        if not any("small_cells" in line for line in lines):
            counts.append(f"{title} not counted, as every run was stopped")
            continue
        sizes: dict[tuple[str, str], list[int]] = {}
        for line in lines:
            for group, label, n in line.get("small_cells", ()):  # a run that was stopped does not say
                sizes.setdefault((group, label), []).append(n)
        shape = results.data_line(data)
        total = "" if shape is None else f" of {shape['groups'] * shape['classes']}"
        counts.append(f"{title} {len(sizes)}{total}")
        rows += [[title, group, label, extent(ns)] for (group, label), ns in sorted(sizes.items())]
    return {"counts": counts, "small": Table(["data", "group", "class", "test rows"], rows, left=3) if rows else None}
