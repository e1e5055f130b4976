"""Show what each way to scale z does to new people, compared with no calibration in the same split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.areas import mean
from experiments.page.results import CRITERIA, Cell, Results, unique
from experiments.page.tables import DASH, Table, number
from experiments.page.tightening import START, area_changes, path_frame
from optfair.posteriors.calibration import MIN_ROWS_FOR_CV, ROWS_PER_PARAMETER
from optfair.posteriors.multinomial import FIT_ROWS


def scaling(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of paired changes, of areas, and of seconds."""
    frame = path_frame(results, cells)
    uses = [use for use in unique(frame["use"]) if use != START]
    return {
        "changes": _changes(results, frame, uses, cells),
        "scaling_areas": _areas(frame, uses),
        "scaling_seeds": " to ".join(map(str, unique(sorted(frame.groupby("data")["seed"].nunique())))),
        "scaling_people": "; ".join(_people(results, cells)),
        "per_parameter": str(ROWS_PER_PARAMETER),
        "fit_rows": f"{FIT_ROWS:,}",
        "most_cells": str(int((FIT_ROWS / ROWS_PER_PARAMETER) ** 0.5)),  # k (k + 1) parameters
        "least_people": str(MIN_ROWS_FOR_CV),
    }


def _changes(results: Results, frame: pd.DataFrame, uses: Sequence[str], cells: Sequence[Cell]) -> Table:
    """Return accuracy / violation without calibration, and paired differences from it: points / violation."""
    rules, floors, rows = frame[frame["tolerance"] < 1], _floors(results, cells), []
    for (data, criterion, tolerance), part in rules.groupby(["data", "criterion", "tolerance"], sort=False):
        by_use = {use: block.set_index("seed")[["accuracy", "violation"]] for use, block in part.groupby("use")}
        plain = by_use[START]
        texts = []
        for use in uses:
            if use not in by_use:
                texts.append(DASH)
                continue
            change = by_use[use] - plain
            points, violation = (mean(change[name].tolist()) for name in change)
            texts.append(f"{100 * points.value:+.1f} / {number(violation, 3, sign=True)}".replace("-", "−"))
        start = f"{100 * plain['accuracy'].mean():.1f} / {plain['violation'].mean():.3f}"
        rows.append([data, criterion, f"{tolerance:g}", f"{floors[data, criterion]:.3f}", start, *texts])
    heads = ["data", "criterion", "tolerance", "noise floor", START, *uses]
    return Table(heads, rows, left=3)


def _areas(frame: pd.DataFrame, uses: Sequence[str]) -> Table:
    rows = []
    for data, part in area_changes(frame).groupby(level="data", sort=False):
        by_seed = part.groupby(level="seed").mean()
        present = [use for use in uses if by_seed[use].notna().all()]
        rows.append(
            [str(data), *(number(mean(by_seed[u].tolist()), 2, sign=True) if u in present else DASH for u in uses)]
        )
    return Table(["data", *uses], rows, left=1)


def _floors(results: Results, cells: Sequence[Cell]) -> dict[tuple[str, str], float]:
    """Return the mean noise floor of rules without calibration, by data and criterion."""
    rows = [
        (results.data_title(cell.data), CRITERIA[question.split()[0]], floor)
        for cell in cells
        if cell.options["calibration"] == START
        for line in cell.lines
        for question, floor in line["floors"].items()
    ]
    frame = pd.DataFrame(rows, columns=["data", "criterion", "floor"])
    return frame.groupby(["data", "criterion"])["floor"].mean().to_dict()


def _people(results: Results, cells: Sequence[Cell]) -> list[str]:
    """Return the people fitted to and measured by, for each data set."""
    sizes = {results.data_title(cell.data): cell.lines[0]["n"] for cell in cells}
    return [f"{title}: {train:,} and {test:,}" for title, (train, test) in sizes.items()]
