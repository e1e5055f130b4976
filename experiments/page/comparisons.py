"""Show the experiments that have a page of their own: methods as installed, the use of labels, and networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.page.extensions import CALIBRATIONS
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.tables import DASH, Table
from optfair.baselines.registry import METHODS


# -- methods as installed ------------------------------------------------------------------------------------
def installed(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the registry, a table of default settings per data, and the table along the knob."""
    defaults = [cell for cell in cells if cell.value is None]
    tables = [_defaults(results, data, pick(defaults, data=data)) for data in unique(cell.data for cell in defaults)]
    swept = [(label, cell) for label, along in _by_label(cells).items() for cell in along if cell.value]
    rows = [[label, f"{cell.value:g}", *_means(cell)] for label, cell in swept]
    sweep = Table(["method", "knob", "accuracy", "violation"], rows, left=1)
    return {"registry": _registry(), "defaults": tables, "sweep": sweep}


def _registry() -> Table:
    heads = ["method", "kind", "idea", "knob", "values, to the fairest", "bounds", "output"]
    rows = [
        [
            f"`{method.name}`" + (" (extra `torch`)" if method.needs else ""),
            method.kind,
            method.title,
            DASH if method.knob is None else f"`{method.knob}`",
            ", ".join(f"{value:g}" for value in method.grid) or DASH,
            method.bounds or DASH,
            method.output,
        ]
        for method in METHODS.values()
    ]
    return Table(heads, rows)


def _by_label(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Map methods, those that draw also by their likeliest class, to their swept cells, or else to the default ones."""
    labels = {}
    for name, method in METHODS.items():
        alike = pick(cells, method=name)
        selection = [cell for cell in alike if cell.value is not None] or alike
        if selection:
            labels[f"`{name}`"] = selection
        if selection and method.output == "randomised":
            labels[f"`{name}`, argmax"] = [cell.decided("argmax") for cell in selection]
    return labels


def _defaults(results: Results, data: str, cells: Sequence[Cell]) -> dict[str, Any]:
    rows, floors = [], []
    for criterion in unique(cell.criterion for cell in cells):
        for label, alike in _by_label(cells).items():
            seconds = np.median([line["wall_seconds"] for cell in alike for line in cell.lines])
            texts = _means_and_deviations(_scored_by(alike, criterion))
            rows.append([CRITERIA[criterion], label, *texts, f"{seconds:.1f}"])
        lines = [line for cell in cells for line in cell.lines]
        values = [scores["floor"][criterion] for scores in _answers(lines) if criterion in scores["floor"]]
        floors.append(f"{CRITERIA[criterion]} {np.mean(values):.3f}")
    heads = ["criterion", "method", "accuracy", "violation", "seconds"]
    return {"title": results.data_title(data), "table": Table(heads, rows, left=2), "floors": floors}


def _answers(lines: Sequence[Any]) -> list[Any]:
    return [line["scores"]["answers"] for line in lines if "error" not in line]


def _scored_by(cells: Sequence[Cell], criterion: str) -> Cell:
    """Return the cell of a criterion; plain training has one for all of them."""
    return (pick(cells, criterion=criterion) or list(cells))[0].by(criterion)


def _means_and_deviations(cell: Cell) -> list[str]:
    texts = []
    for quantity, scale in (("accuracy", 100), ("violation", 1)):
        values = np.array(list(cell.by_seed(quantity).values())) / scale
        deviation = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
        texts.append(f"{values.mean():.4f}{deviation}")
    return texts


def _means(cell: Cell) -> list[str]:
    return [f"{cell.mean('accuracy').value / 100:.4f}", f"{cell.mean('violation').value:.4f}"]


# -- the use of labels ---------------------------------------------------------------------------------------
def labels(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of violations and tolerances by the use of labels."""
    frame = _label_frame(results, cells)
    fair = frame[frame["calibration"] != "plain"]
    rows = []
    for (data, model, criterion), over in fair.groupby(["data", "model", "criterion"], sort=False):
        means = over.groupby("calibration")["over"].mean()
        best = means.min()
        texts = [f"**{means[k]:+.4f}**" if means[k] == best else f"{means[k]:+.4f}" for k in CALIBRATIONS]
        rows.append([data, model, criterion, *texts])
    overall = fair.groupby("calibration")["over"].mean()
    rows.append(["**all**", "", "", *(f"**{overall[k]:+.4f}**" for k in CALIBRATIONS)])
    heads = ["data", "model", "criterion", *CALIBRATIONS]
    tolerances = [f"{value:g}" for value in sorted(fair["tolerance"].unique())]
    tables = {"over": Table(heads, rows, left=3), "tolerances": tolerances}
    return tables | _within_floor(results, cells, frame)


def _label_frame(results: Results, cells: Sequence[Cell]) -> pd.DataFrame:
    """Return a row per run, with its violation beyond the tolerance."""
    rows: list[dict[str, Any]] = []
    for cell in cells:
        plan, anchor = results.plan.data[cell.data], results.plan.methods[cell.method].anchor
        for criterion in ("dp", "eop", "eo") if anchor else (cell.criterion,):
            for line in cell.lines:
                scores = line["scores"]["expected"]
                numbers = {name: scores[name][criterion] for name in ("violation", "floor")}
                calibration = "plain" if anchor else cell.options["calibration"]
                setting = {
                    "data": results.data_title(cell.data),
                    "model": (plan.model or {})["estimator"],
                    "criterion": criterion,
                }
                setting |= {"calibration": calibration, "tolerance": None if anchor else cell.value}
                rows.append(setting | {"accuracy": scores["accuracy"], **numbers})
    frame = pd.DataFrame(rows)
    frame["over"] = frame["violation"] - frame["tolerance"]
    return frame


def _within_floor(results: Results, cells: Sequence[Cell], frame: pd.DataFrame) -> dict[str, Any]:
    """Return the table of calibration="both" at each tolerance, and how many settings are within tolerance + floor."""
    sizes = {results.data_title(cell.data): results.data_line(cell.data) for cell in cells}
    quantities = ["accuracy", "violation", "floor"]
    rows, excess = [], []
    for (data, model, criterion), part in frame.groupby(["data", "model", "criterion"], sort=False):
        plain = part[part["calibration"] == "plain"][quantities].mean()
        hidden = " (within its floor)" if plain["violation"] <= plain["floor"] else ""
        train, test = (sizes[data] or {})["n"]
        for tolerance, runs in part[part["calibration"] == "both"].groupby("tolerance"):
            mean = runs[quantities].mean()
            over = runs["violation"] - tolerance - runs["floor"]
            verdict = "yes" if over.mean() <= 0 else f"**no: +{over.mean():.4f} ± {over.sem():.4f}**"
            excess.append(max(over.mean(), 0.0))
            rows.append(
                [
                    f"{data} ({train:,} / {test:,})",
                    model,
                    criterion,
                    f"{tolerance}",
                    f"{plain['accuracy']:.4f} / {plain['violation']:.4f}{hidden}",
                    f"{mean['accuracy']:.4f}",
                    f"{mean['violation']:.4f}",
                    f"{mean['floor']:.4f}",
                    f"{verdict} ({len(runs)})",
                ]
            )
    heads = ["data (rows for training / testing)", "model", "criterion", "tolerance", "no constraint", "accuracy"]
    table = Table([*heads, "violation", "noise floor", "within tolerance + floor (splits)"], rows, left=3)
    within = sum(value == 0 for value in excess)
    return {"kept": table, "within": within, "total": len(excess), "largest": f"{max(excess):.4f}"}


# -- networks ------------------------------------------------------------------------------------------------
def networks(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of in-processing beside post-processing on the test part: means over tolerances, and all."""
    rows, means = [], []
    training = [cell for cell in cells if cell.method == "OptFairIn"]
    # All criteria have been run with the usual share of rows held out, one of them also with another.
    order = unique(cell.data for cell in training)
    usual = {cell.data: cell.options["held_out"] for cell in training if cell.criterion == "eo"}
    for cell in sorted(training, key=lambda item: order.index(item.data)):
        held_out, title = cell.options["held_out"], results.data_title(cell.data)
        post = pick(cells, data=cell.data, criterion=cell.criterion, value=cell.value, method="OptFairPost")[0]
        measured = cell.lines[0]["training"]
        texts = [text for side in (cell.decided("plain"), cell, post) for text in _means(side)]
        other = "" if held_out == usual.get(cell.data, held_out) else f", held_out={held_out}"
        own = [f"{measured['accuracy']:.4f}", f"{measured['violation']:.4f}"]
        floor = f"{cell.mean('floor').value:.4f}"
        rows.append([title, CRITERIA[cell.criterion] + other, f"{cell.value}", *texts, floor, *own])
        if not other:
            means.append([title, CRITERIA[cell.criterion], *map(float, [*texts, floor])])
    frame = pd.DataFrame(means).groupby([0, 1], sort=False).mean()
    averages = [
        [*map(str, key), *(f"{value:.3f}" for value in row)]
        for key, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    sides = ["plain", "in-processing", "post-processing"]
    numbers = [f"{side}: {word}" for side in sides for word in ("accuracy", "violation")]
    whole = [*numbers, "noise floor", "in, as measured: accuracy", "violation"]
    return {
        "means": Table(["data", "criterion", *numbers, "noise floor"], averages, left=2),
        "table": Table(["data", "criterion", "tolerance", *whole], rows, left=2),
    }
