"""Show the paper's other experiments: the ablation, randomised against deterministic, and scalability."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from experiments.catalogue import published
from experiments.evaluate import MIN_CELL
from experiments.page.figures import draw_ablation
from experiments.page.panels import competitors
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.tables import DASH, Figure, Table, change, extent, knob, score
from experiments.plan import PLAIN


# -- in, post, in-then-post ----------------------------------------------------------------------------------
def ablation(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the figure and the table of the ablation."""
    groups: dict[tuple[str, str], list[tuple[str, list[Cell]]]] = {}
    rows = []
    for data in unique(cell.data for cell in cells):
        for criterion in unique(cell.criterion for cell in pick(cells, data=data)):
            for method in unique(cell.method for cell in cells):
                alike = pick(cells, data=data, criterion=criterion, method=method)
                for threshold in unique(cell.options.get("threshold") for cell in alike):
                    along = [cell for cell in alike if cell.options.get("threshold") == threshold]
                    label = results.title(method) + ("" if threshold is None else f", threshold {threshold:g}")
                    groups.setdefault((data, criterion), []).append((label, along))
                    points = [f"`{cell.value:g}`: {score(cell)}" for cell in along]
                    rows.append([results.data_title(data), CRITERIA[criterion], label, *points])
    width = max(len(row) for row in rows)
    rows = [[*row, *[DASH] * (width - len(row))] for row in rows]
    heads = ["data", "criterion", "method", *(f"tolerance {k + 1}" for k in range(width - 3))]
    draw = partial(draw_ablation, results, groups)
    return {
        "figure": Figure("ablation", "In-processing, post-processing, and both", draw, cells, "ablation"),
        "table": Table(heads, rows, cells, "ablation"),
    }


# -- randomised against deterministic ------------------------------------------------------------------------
def randomised(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the table of drawn and deterministic rules."""
    paper, rows = published()["randomised"], []
    for data in unique(cell.data for cell in cells):
        for method in unique(cell.method for cell in cells):
            randomised_cell, deterministic_cell = _two_decisions(pick(cells, data=data, method=method))
            kind = results.plan.methods[method].kind.kind
            # The paper's post-processor is the one on the posteriors as they are.
            entry = paper.get(data, {}).get(kind) if method in ("OptFairIn", "OptFairPost") else None
            for name, cell in (("randomised", randomised_cell), ("deterministic", deterministic_cell)):
                theirs = DASH if entry is None else f"{entry[name]['accuracy']:.2f} / {entry[name]['violation']:.4f}"
                difference = change(deterministic_cell, randomised_cell) if cell is deterministic_cell else DASH
                rows.append([results.data_title(data), results.title(method), name, score(cell), theirs, difference])
    values = ", ".join(f"{value:g}" for value in unique(cell.value for cell in cells))
    heads = ["data", "method", "rule", "ours", "paper", "change"]
    return {"table": Table(heads, rows, cells, "randomised"), "values": values, "source": paper["source"]}


def _two_decisions(cells: Sequence[Cell]) -> tuple[Cell, Cell]:
    """Return the same rule, drawn and not: training has a run for each, a post-processed rule has its argmax."""
    randomised_cell = next(cell for cell in cells if cell.options.get("output") is None)
    deterministic_cells = [cell for cell in cells if cell.options.get("output") == "deterministic"]
    return randomised_cell, deterministic_cells[0] if deterministic_cells else randomised_cell.decided("argmax")


# -- more classes, more groups -------------------------------------------------------------------------------
def scalability(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of growing numbers of groups and classes."""
    families = []
    for title, prefix in {"By attributes": "celeba-", "By images": "images-"}.items():
        members = [cell for cell in cells if cell.data.startswith(prefix)]
        if members:
            small = _small_cells(results, members)
            families.append({"title": title, "sizes": _sizes_table(results, members), **small})
    paper = published()["scalability"]
    for family in families:
        family["source"] = paper["source"] if any(cell.data in paper for cell in family["sizes"].cells) else None
    return {"families": families, "min_cell": MIN_CELL}


def _sizes_table(results: Results, cells: Sequence[Cell]) -> Table:
    """Return a row per method, a column per size; the paper's numbers beside it where it has some."""
    paper = published()["scalability"]
    data = unique(cell.data for cell in cells)
    beside = any(name in paper for name in data)
    heads = ["method", "knob"]
    for name in data:
        heads += [_title_and_shape(results, name), *(["paper"] if beside else [])]
    rows = []
    for method in unique(cell.method for cell in cells):
        for competitor in competitors(results, method):
            by_data = {cell.data: competitor.of(cell.by("eo")) for cell in pick(cells, method=method)}
            row = [competitor.title, knob(results, next(iter(by_data.values())))]
            for name in data:
                row.append(_with_seconds(by_data[name]) if name in by_data else "not run")
                entry = paper.get(name, {}).get(method)
                text = DASH if entry is None else f"{entry['accuracy']:.2f} / {entry['violation']:.4f}"
                row += [text] if beside else []
            rows.append(row)
    floors = ["noise floor (of ERM)", DASH]
    for name in data:
        floors += [score(pick(cells, data=name, method=PLAIN)[0].by("eo"), "floor"), *([DASH] if beside else [])]
    return Table(heads, [*rows, floors], cells, "scalability")


def _with_seconds(cell: Cell) -> str:
    text = score(cell)
    if not cell.by_seed("seconds"):
        return text
    models = f" + {score(cell, 'model_seconds')}" if any(cell.by_seed("model_seconds").values()) else ""
    return f"{text}; {score(cell, 'seconds')}{models} s"


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
    small = Table(["data", "group", "class", "test rows"], rows, cells, "scalability") if rows else None
    return {"counts": counts, "small": small}
