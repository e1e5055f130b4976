"""Show what the paper does not ask: tolerances met, the use of labels, the distance to the truth, and seconds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.areas import Mean, mean
from experiments.page.figures import draw_regrets, draw_seconds, draw_tolerances
from experiments.page.panels import Competitor, competitors, curve
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table, both, cannot, change, knob, number, score, seconds, within

TOLERANCES = (
    "Violation on new people against the tolerance asked for, beside the noise floor, by data set and criterion."
)
REGRETS = "Points of accuracy below the true optimum against the true violation, for every method in four cases."
SECONDS = "Processor seconds of every method as rows, classes and groups grow."


# -- the tolerance asked for, and the violation on new data --------------------------------------------------
def tolerance(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the figures and tables of tolerances and violations."""
    data, criteria = (unique(getattr(cell, name) for cell in cells) for name in ("data", "criterion"))
    rows = [
        [results.title(method), CRITERIA[criterion], *(within(pick(alike, data=name)) for name in data)]
        for method in unique(cell.method for cell in cells)
        for criterion in criteria
        if (alike := pick(cells, method=method, criterion=criterion))
    ]
    main = [criterion for criterion in criteria if criterion != "eop"]
    return {
        "figure": _tolerance_figure(results, cells, "tolerance", main),
        "more": _tolerance_figure(results, cells, "tolerance-eop", ["eop"]) if "eop" in criteria else None,
        "table": Table(["method", "criterion", *map(results.data_title, data)], rows, left=2),
        "by_data": [(results.data_title(name), _violations(results, pick(cells, data=name))) for name in data],
    }


def _tolerance_figure(results: Results, cells: Sequence[Cell], name: str, criteria: Sequence[str]) -> Figure:
    """Return the picture of these criteria, beside each other; of one criterion the data sets are in two columns."""
    data, panels = unique(cell.data for cell in cells), []
    columns = len(criteria) if len(criteria) > 1 else min(2, len(data))
    for place, (key, criterion) in enumerate((key, criterion) for key in data for criterion in criteria):
        alike = pick(cells, data=key, criterion=criterion)
        methods = unique(cell.method for cell in alike)
        sides = [(Competitor(method, results.title(method), True), pick(alike, method=method)) for method in methods]
        floors = [cell.mean("floor").value for cell in alike if cell.by_seed("floor")]
        panel = {"title": f"{results.data_title(key)}, {criterion}", "row": place // columns, "column": place % columns}
        panel["tolerances"] = sorted({float(cell.value or 0.0) for cell in alike})
        panel["floor"] = float(np.mean(floors)) if floors else 0.0
        panels.append(panel | {"curves": [curve(side, along, "value", "violation") for side, along in sides]})
    layout = {"rows": -(-len(panels) // columns), "columns": columns, "panels": panels}
    return Figure(name, TOLERANCES, draw_tolerances, layout)


def _violations(results: Results, cells: Sequence[Cell]) -> Table:
    criteria, methods = list(CRITERIA), list(results.plan.methods)
    rows = []
    for cell in sorted(cells, key=lambda item: (criteria.index(item.criterion), methods.index(item.method))):
        bound = f"{float(cell.value or 0.0) + cell.mean('floor').value:.4f}" if cell.by_seed("floor") else DASH
        setting = [CRITERIA[cell.criterion], results.title(cell.method), f"{cell.value:g}"]
        rows.append([*setting, score(cell, "violation"), bound, within([cell])])
    heads = ["criterion", "method", "tolerance", "violation", "tolerance + noise floor", "runs within it"]
    return Table(heads, rows, left=2)


# -- calibration and posteriors ------------------------------------------------------------------------------
CALIBRATIONS = ("none", "joint", "labels", "both")


def posteriors(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of OptFair-post with and without calibration, on both posteriors."""
    values = unique(cell.value for cell in cells)
    rows, changes = [], []
    for data, criterion in unique((cell.data, cell.criterion) for cell in cells):
        alike = pick(cells, data=data, criterion=criterion)
        by = {(_posterior(cell), _calibration(results, cell), cell.value): cell for cell in alike}
        head = [results.data_title(data), CRITERIA[criterion]]
        choice = next(_posterior(cell) for cell in alike if _calibration(results, cell) == "both")
        other = next(posterior for posterior in ("factored", "joint") if posterior != choice)
        for posterior, names in ((choice, CALIBRATIONS), (other, CALIBRATIONS[:1])):
            text = posterior if posterior == choice else f"{posterior}, not chosen"
            rows += [
                [*head, text, f"`{name}`", f"{value:g}", *both(by[posterior, name, value])]
                for name in names
                for value in values
            ]
        changes.append([*head, *(change(by[choice, "both", value], by[choice, "none", value]) for value in values)])
    heads = ["data", "criterion", "posterior", "calibration", "tolerance", "accuracy, %", "violation"]
    tolerances = [f"tolerance {value:g}" for value in values]
    return {
        "table": Table(heads, rows, left=4),
        "changes": Table(["data", "criterion", *tolerances], changes, left=2),
    }


def _posterior(cell: Cell) -> str:
    return str(cell.lines[0]["run"]["options"]["posterior"])


def _calibration(results: Results, cell: Cell) -> str:
    """Return the calibration asked for, or the default of the class."""
    method = results.plan.methods[cell.method]
    option = {**method.options, **cell.options}.get("calibration")
    return str(option or inspect.signature(method.kind.load()).parameters["calibration"].default)


# -- the truth -----------------------------------------------------------------------------------------------
def truth(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the picture and the table of distances to the true optimum."""
    data, criteria = (unique(getattr(cell, name) for cell in cells) for name in ("data", "criterion"))
    panels, rows = [], []
    for row, name in enumerate(data):
        for column, criterion in enumerate(criteria):
            curves, bounds = [], []
            for cell in pick(cells, data=name):
                if cell.criterion != criterion:
                    continue
                bounds += [cell.value] if cell.method == "OptFairPost" else []
                for side in competitors(results, cell.method):
                    scored = side.of(cell)
                    curves.append(curve(side, [scored], "true_violation", "regret"))
                    texts = [score(scored, "regret"), score(scored, "true_violation")]
                    rows.append(
                        [results.data_title(name), CRITERIA[criterion], side.title, knob(results, cell), *texts]
                    )
            title = f"{results.data_title(name).partition(', ')[2]}, {criterion}"
            panel = {"title": title, "curves": curves, "tolerance": bounds[0] if bounds else None}
            panels.append(panel | {"row": row, "column": column})
    layout = {"rows": len(data), "columns": len(criteria), "panels": panels}
    heads = ["data", "criterion", "method", "knob", "regret, points", "true violation"]
    return {"figure": Figure("regrets", REGRETS, draw_regrets, layout), "table": Table(heads, rows, left=4)}


# -- seconds -------------------------------------------------------------------------------------------------
SIZES = {"n_samples": "rows", "n_classes": "classes", "n_groups": "groups"}
RESOLUTION = 0.001  # seconds are kept to three places


def growth(
    results: Results, cells: Sequence[Cell], argument: str, method: str, quantity: str
) -> dict[float, Mapping[int, float]]:
    """Map sizes to seconds by seed, where only this argument differs from the usual ones."""
    family = {name: results.plan.data[name].synthetic or {} for name in unique(cell.data for cell in cells)}
    # The plan that all of them vary has the most frequent arguments.
    usual = {name: _most_frequent([arguments[name] for arguments in family.values()]) for name in SIZES}
    sizes: dict[float, Mapping[int, float]] = {}
    for cell in pick(cells, method=method):
        arguments = family[cell.data]
        if all(arguments[name] == usual[name] for name in SIZES if name != argument) and cell.by_seed(quantity):
            sizes[_size(results, cell, argument)] = cell.by_seed(quantity)
    return dict(sorted(sizes.items()))


def _most_frequent(values: Sequence[int]) -> int:
    return max(unique(values), key=values.count)


def _size(results: Results, cell: Cell, argument: str) -> float:
    if argument == "n_samples":  # the training rows, which a smoke run cuts
        return float(next(line["n"][0] for line in cell.lines if "error" not in line))
    return float((results.plan.data[cell.data].synthetic or {})[argument])


def exponent(sizes: Mapping[float, Mapping[int, float]]) -> Mean | None:
    """Return the slope of log seconds against log size, by least squares, over the seeds; None below two sizes."""
    if len(sizes) < 2:
        return None
    seeds = [seed for seed in next(iter(sizes.values())) if all(seed in by_seed for by_seed in sizes.values())]
    x = np.log(list(sizes))
    slopes = [
        float(np.polyfit(x, np.log([max(by_seed[seed], RESOLUTION) for by_seed in sizes.values()]), 1)[0])
        for seed in seeds
    ]
    return mean(slopes) if slopes else None


def growing_seconds(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the figure and the tables of seconds against size."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for argument, word in SIZES.items():
        for method in unique(cell.method for cell in cells):
            sizes = growth(results, cells, argument, method, "seconds")
            means = [max(float(np.mean(list(by_seed.values()))), RESOLUTION) for by_seed in sizes.values()]
            drawn = {"method": method, "label": results.title(method), "x": list(sizes), "y": means}
            curves.setdefault(word, []).append(drawn)
    quantities = {"The method itself": "seconds", "The models underneath": "model_seconds"}
    tables = {title: _seconds_table(results, cells, quantity) for title, quantity in quantities.items()}
    return {
        "figure": Figure("seconds", SECONDS, draw_seconds, curves),
        "tables": {title: table for title, table in tables.items() if table.rows},
    }


def _seconds_table(results: Results, cells: Sequence[Cell], quantity: str) -> Table:
    rows = []
    for method in unique(cell.method for cell in cells):
        values = [value for cell in pick(cells, method=method) for value in cell.by_seed(quantity).values()]
        if quantity == "model_seconds" and not any(values):
            continue  # it trains its own
        rows.append([results.title(method), *_seconds_row(results, cells, method, quantity)])
    heads = ["method", "smallest", "largest", *(f"exponent of {word}" for word in SIZES.values())]
    return Table(heads, rows, left=1)


def _seconds_row(results: Results, cells: Sequence[Cell], method: str, quantity: str) -> list[str]:
    errors = [error for cell in pick(cells, method=method) for error in cell.errors]
    sizes = growth(results, cells, "n_samples", method, quantity)
    texts = [f"{seconds(mean(list(by_seed.values())))} ({size:,.0f})" for size, by_seed in sizes.items()]
    row = [texts[0], texts[-1]] if texts else [DASH, DASH]
    row[1] += f"; {cannot(errors)}" if errors else ""
    for argument in SIZES:
        slope = exponent(growth(results, cells, argument, method, quantity))
        if slope is not None:
            row.append(number(slope, 2))
        else:
            row.append(cannot(errors) if errors else "one size only")
    return row
