"""Show the experiments that have a page of their own: methods as installed, the use of labels, and networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.page.extensions import CALIBRATIONS
from experiments.page.results import Cell, Results, pick, unique
from experiments.page.tables import DASH, Table, span
from optfair.baselines.registry import METHODS


# -- methods as installed ------------------------------------------------------------------------------------
def installed(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the registry, a table of default settings per data, and the table along the knob."""
    defaults = [cell for cell in cells if cell.value is None]
    tables = [_defaults(results, data, pick(defaults, data=data)) for data in unique(cell.data for cell in defaults)]
    heads = ["method", "value of the knob: accuracy / violation, from the least fair to the fairest (means)"]
    rows = [[label, "; ".join(map(_point, along))] for label, along in _by_label(cells).items() if along[0].value]
    return {"registry": _registry(), "defaults": tables, "sweep": Table(heads, rows, cells, "installed")}


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
    return Table(heads, rows, [], "installed")


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
    criteria = unique(cell.criterion for cell in cells)
    rows, floors = [], []
    for label, alike in _by_label(cells).items():
        texts = [_mean_and_deviation(_scored_by(alike, criterion)) for criterion in criteria]
        seconds = np.median([line["wall_seconds"] for cell in alike for line in cell.lines])
        rows.append([label, *texts, f"{seconds:.1f}"])
    for criterion in criteria:
        lines = [line for cell in cells for line in cell.lines]
        values = [scores["floor"][criterion] for scores in _answers(lines) if criterion in scores["floor"]]
        floors.append(f"{criterion} {np.mean(values):.3f}")
    heads = ["method", *(f"{criterion}: accuracy / violation" for criterion in criteria), "seconds"]
    line = results.data_line(data)
    return {
        "title": results.data_title(data),
        "rows": [] if line is None else [f"{size:,}" for size in line["n"]],
        "seeds": span(results.plan.seeds(results.plan.data[data])),
        "table": Table(heads, rows, cells, "installed"),
        "floors": floors,
    }


def _answers(lines: Sequence[Any]) -> list[Any]:
    return [line["scores"]["answers"] for line in lines if "error" not in line]


def _scored_by(cells: Sequence[Cell], criterion: str) -> Cell:
    """Return the cell of a criterion; plain training has one for all of them."""
    return (pick(cells, criterion=criterion) or list(cells))[0].by(criterion)


def _mean_and_deviation(cell: Cell) -> str:
    texts = []
    for quantity, scale in (("accuracy", 100), ("violation", 1)):
        values = np.array(list(cell.by_seed(quantity).values())) / scale
        deviation = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
        texts.append(f"{values.mean():.4f}{deviation}")
    return " / ".join(texts)


def _point(cell: Cell) -> str:
    return f"{cell.value:g}: {cell.mean('accuracy').value / 100:.4f} / {cell.mean('violation').value:.4f}"


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
    tables = {"over": Table(heads, rows, cells, "labels", right=3), "tolerances": tolerances}
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
                setting = {"data": plan.title, "model": (plan.model or {})["estimator"], "criterion": criterion}
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
                    f"{data} ({train:,}, {test:,})",
                    model,
                    criterion,
                    f"{tolerance}",
                    f"{plain['accuracy']:.4f}, {plain['violation']:.4f}{hidden}",
                    f"{mean['accuracy']:.4f}, {mean['violation']:.4f}",
                    f"{mean['floor']:.4f}",
                    f"{verdict} ({len(runs)})",
                ]
            )
    heads = ["data (train, test)", "model", "criterion", "ξ", "plain: accuracy, violation", "fair: accuracy, violation"]
    table = Table([*heads, "floor", "within ξ + floor (splits)"], rows, cells, "labels", right=8)
    within = sum(value == 0 for value in excess)
    return {"kept": table, "within": within, "total": len(excess), "largest": f"{max(excess):.4f}"}


# -- networks ------------------------------------------------------------------------------------------------
def networks(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the table of in-processing beside post-processing, accuracy / violation on the test part."""
    rows = []
    training = [cell for cell in cells if cell.method == "OptFairIn"]
    # All criteria have been run with the usual share of rows held out, one of them also with another.
    order = unique(cell.data for cell in training)
    usual = {cell.data: cell.options["held_out"] for cell in training if cell.criterion == "eo"}
    for cell in sorted(training, key=lambda item: order.index(item.data)):
        line = cell.lines[0]
        post = pick(cells, data=cell.data, criterion=cell.criterion, value=cell.value, method="OptFairPost")[0]
        held_out = cell.options["held_out"]
        other = "" if held_out == usual.get(cell.data, held_out) else f", held_out={held_out}"
        rows.append(
            [
                f"{results.data_title(cell.data)} ({line['n'][0]:,}, {line['n'][1]:,})",
                cell.criterion + other,
                f"{cell.value}",
                *map(_pair, (cell.decided("plain"), cell, post)),
                f"{cell.mean('floor').value:.4f}",
                f"{line['training']['accuracy']:.4f} / {line['training']['violation']:.4f}",
            ]
        )
    heads = ["data (train, test)", "criterion", "ξ", "plain", "in-processing", "post-processing", "floor"]
    return {"table": Table([*heads, "in, as measured"], rows, cells, "networks", right=2)}


def _pair(cell: Cell) -> str:
    return f"{cell.mean('accuracy').value / 100:.4f} / {cell.mean('violation').value:.4f}"
