"""Show what the paper does not ask: tolerances met, the use of labels, the distance to the truth, and seconds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from experiments.areas import Mean, mean
from experiments.page.figures import draw_seconds, draw_tolerances
from experiments.page.panels import competitors
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.tables import DASH, Figure, Table, cannot, change, knob, number, score, seconds


# -- the tolerance asked for, and the violation on new data --------------------------------------------------
def tolerance(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the figure and tables of tolerances and violations."""
    methods, data = unique(cell.method for cell in cells), unique(cell.data for cell in cells)
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.criterion), {}).setdefault(cell.method, []).append(cell)
    draw = partial(draw_tolerances, results, groups, methods)
    rows = []
    for method in methods:
        for criterion in unique(cell.criterion for cell in cells):
            by_data = [pick(cells, method=method, criterion=criterion, data=name) for name in data]
            rows.append([results.title(method), CRITERIA[criterion], *map(_within, by_data)])
    heads = ["method", "criterion", *map(results.data_title, data)]
    return {
        "figure": Figure("tolerance", "Violation against tolerance", draw, cells, "tolerance"),
        "table": Table(heads, rows, cells, "tolerance"),
        "by_data": [(results.data_title(name), _violations(results, pick(cells, data=name))) for name in data],
    }


def _within(cells: Sequence[Cell]) -> str:
    """Return how many of how many runs are within tolerance + noise floor, and how many cannot."""
    within: list[bool] = []
    failed: list[str] = []
    for cell in cells:
        floor = cell.by_seed("floor")
        within += [gap <= float(cell.value or 0.0) + floor[seed] for seed, gap in cell.by_seed("violation").items()]
        failed += cell.errors
    if not within:
        return cannot(failed)
    return f"{sum(within)} of {len(within)}" + (f" ({len(failed)} more: {cannot(failed)})" if failed else "")


def _violations(results: Results, cells: Sequence[Cell]) -> Table:
    criteria, methods = list(CRITERIA), list(results.plan.methods)
    rows = []
    for cell in sorted(cells, key=lambda item: (criteria.index(item.criterion), methods.index(item.method))):
        bound = f"{float(cell.value or 0.0) + cell.mean('floor').value:.4f}" if cell.by_seed("floor") else DASH
        setting = [CRITERIA[cell.criterion], results.title(cell.method), f"{cell.value:g}"]
        rows.append([*setting, score(cell, "violation"), bound, _within([cell])])
    heads = ["criterion", "method", "tolerance", "violation", "tolerance + noise floor", "runs within it"]
    return Table(heads, rows, cells, "tolerance")


# -- calibration and labels ----------------------------------------------------------------------------------
CALIBRATIONS = ("none", "joint", "labels", "both")


def calibration(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the table of OptFair-post with and without calibration, on both posteriors."""
    values = unique(cell.value for cell in cells)
    rows = []
    for data in unique(cell.data for cell in cells):
        for criterion in unique(cell.criterion for cell in cells):
            alike = pick(cells, data=data, criterion=criterion)
            by = {(_posterior(cell), _calibration(results, cell), cell.value): cell for cell in alike}
            head = [results.data_title(data), CRITERIA[criterion]]
            choice = next(_posterior(cell) for cell in alike if _calibration(results, cell) == "both")
            for name in CALIBRATIONS:
                rows.append([*head, choice, f"`{name}`", *(score(by[choice, name, value]) for value in values)])
            changes = [change(by[choice, "both", value], by[choice, "none", value]) for value in values]
            rows.append([*head, choice, "`both` − `none`", *changes])
            other = next(posterior for posterior in ("factored", "joint") if posterior != choice)
            rows.append([*head, f"{other}, not chosen", "`none`", *(score(by[other, "none", v]) for v in values)])
    heads = ["data", "criterion", "posterior", "calibration", *(f"tolerance {value:g}" for value in values)]
    return {"table": Table(heads, rows, cells, "calibration")}


def _posterior(cell: Cell) -> str:
    return str(cell.lines[0]["run"]["options"]["posterior"])


def _calibration(results: Results, cell: Cell) -> str:
    """Return the calibration asked for, or the default of the class."""
    method = results.plan.methods[cell.method]
    option = {**method.options, **cell.options}.get("calibration")
    return str(option or inspect.signature(method.kind.load()).parameters["calibration"].default)


# -- the truth -----------------------------------------------------------------------------------------------
def truth(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the table of distances to the true optimum."""
    data, methods = unique(cell.data for cell in cells), unique(cell.method for cell in cells)
    columns = [(name, criterion) for name in data for criterion in unique(c.criterion for c in cells)]
    rows = []
    for competitor in chain.from_iterable(competitors(results, method) for method in methods):
        texts = []
        for name, criterion in columns:
            fits = pick(cells, data=name, method=competitor.method, criterion=criterion)
            # A method without a knob is run once, and its truth is by the criterion of that run.
            regret = score(competitor.of(fits[0]), "regret", "true_violation") if fits else None
            texts.append(regret or "not measured: no criterion")
        rows.append([competitor.title, knob(results, pick(cells, method=competitor.method)[0]), *texts])
    heads = ["method", "knob", *(f"{results.data_title(name)}: {CRITERIA[criterion]}" for name, criterion in columns)]
    return {"table": Table(heads, rows, cells, "truth")}


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
    methods = unique(cell.method for cell in cells)
    training = [method for method in methods if results.plan.methods[method].kind.kind == "in"]
    titles = {method: results.title(method) for method in methods}
    curves: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for argument, word in SIZES.items():
        for method in methods:
            sizes = growth(results, cells, argument, method, "seconds")
            means = [max(float(np.mean(list(by_seed.values()))), RESOLUTION) for by_seed in sizes.values()]
            curves.setdefault(word, {})[method] = list(sizes), means
    draw = partial(draw_seconds, curves, titles, training)
    quantities = {"the method": "seconds", "the models underneath": "model_seconds"}
    tables = {title: _seconds_table(results, cells, quantity) for title, quantity in quantities.items()}
    return {
        "figure": Figure("seconds", "Seconds against size", draw, cells, "seconds"),
        "tables": {title: table for title, table in tables.items() if table.rows},
    }


def _seconds_table(results: Results, cells: Sequence[Cell], quantity: str) -> Table:
    rows = []
    for method in unique(cell.method for cell in cells):
        values = [value for cell in pick(cells, method=method) for value in cell.by_seed(quantity).values()]
        if quantity == "model_seconds" and not any(values):
            continue  # it trains its own
        rows.append([results.title(method), *_seconds_row(results, cells, method, quantity)])
    heads = ["method", "seconds, smallest → largest", *(f"exponent of {word}" for word in SIZES.values())]
    return Table(heads, rows, cells, "seconds")


def _seconds_row(results: Results, cells: Sequence[Cell], method: str, quantity: str) -> list[str]:
    errors = [error for cell in pick(cells, method=method) for error in cell.errors]
    sizes = growth(results, cells, "n_samples", method, quantity)
    ends = unique([min(sizes), max(sizes)]) if sizes else []
    text = " → ".join(f"{seconds(mean(list(sizes[size].values())))} ({size:,.0f})" for size in ends)
    row = ["; ".join([*([text] if text else []), *([cannot(errors)] if errors else [])])]
    for argument in SIZES:
        slope = exponent(growth(results, cells, argument, method, quantity))
        if slope is not None:
            row.append(number(slope, 2))
        else:
            row.append(cannot(errors) if errors else "one size only")
    return row
