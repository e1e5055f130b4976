"""Show the path of tolerances: accuracy and violation on new people, for each use of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.areas import Mean, area, mean
from experiments.page.results import CRITERIA, Cell, Results, unique
from experiments.page.tables import Table, number

NAMES = {"both": "joint, moved bounds", "posterior and step": "posterior, one step"}  # of uses, in tables
START = "none"  # what the others are compared with
FAR = 0.01, 0.002  # of violation and accuracy: steps backward by more are no accident
KEYS = ["data", "seed", "question"]


def tightening(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables of all data, of each data set, of areas, and of steps that made a rule worse in both ways."""
    frame = path_frame(results, cells)
    uses = unique(frame["use"])
    heads = [NAMES.get(use, use) for use in uses]
    rules = frame[frame["tolerance"] < 1]

    def summary(part: pd.DataFrame) -> list[str]:
        by_data = part.groupby(["use", "data"])[["accuracy", "violation"]].mean()  # data sets count alike
        means = by_data.groupby(level="use").mean()
        return [f"{means['accuracy'][use]:.4f} / {means['violation'][use]:.4f}" for use in uses]

    def table(keys: list[str], names: list[str]) -> Table:
        rows = [[*map(str, key), *summary(part)] for key, part in rules.groupby(keys, sort=False)]
        return Table([*names, *heads], rows, left=len(names))

    free = frame[frame["tolerance"] == 1]
    plain = [["1", *summary(free)]]
    overall = table(["tolerance"], ["tolerance"])
    middle = sorted(rules["tolerance"].unique())[rules["tolerance"].nunique() // 2]
    at_middle = dict(zip(uses, summary(rules[rules["tolerance"] == middle]), strict=True))
    return {
        "middle": f"{middle:g}",
        "path_at": at_middle.__getitem__,
        "path": Table(overall.heads, [*plain, *overall.rows], left=1),
        "path_by_data": table(["data", "criterion", "tolerance"], ["data", "criterion", "tolerance"]),
        "areas": _areas(frame, uses),
        "backward": _backward(frame, uses),
        "n_seeds": " to ".join(map(str, unique(sorted(frame.groupby("data")["seed"].nunique())))),
        "far": [f"{limit:g}" for limit in FAR],
    }


def path_frame(results: Results, cells: Sequence[Cell]) -> pd.DataFrame:
    """Return a row per rule: data, use of labels, seed, question, criterion, tolerance, accuracy, violation."""
    rows = []
    for cell in cells:
        title, use = results.data_title(cell.data), cell.options["calibration"]
        for line in cell.lines:
            for question, points in line["path"].items():
                criterion = CRITERIA[question.split()[0]]
                for point in points:
                    rows.append([title, use, line["run"]["seed"], question, criterion, *point, line["constant"]])
    names = ["data", "use", "seed", "question", "criterion", "tolerance", "accuracy", "violation", "constant"]
    return pd.DataFrame(rows, columns=names)


def area_changes(frame: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracies over all violations up to that of the model, minus those without labels, in points.

    A row for data, seed and question, a column for each use.
    """
    limits = frame[(frame["use"] == START) & (frame["tolerance"] == 1)].set_index(KEYS)["violation"]
    areas: dict[tuple[Any, ...], float] = {}
    for key, part in frame.groupby([*KEYS, "use"], sort=False):
        points = list(zip(part["violation"], part["accuracy"], strict=True))
        areas[key] = 100 * area(points, float(limits[key[:3]]), float(part["constant"].iloc[0]))
    series = pd.Series(areas).rename_axis([*KEYS, "use"]).unstack("use")
    return series.sub(series[START], axis=0)


def _areas(frame: pd.DataFrame, uses: Sequence[str]) -> Table:
    rows = []
    for data, part in area_changes(frame).groupby(level="data", sort=False):
        by_seed = part.groupby(level="seed").mean()
        rows.append([str(data), *(number(_mean(by_seed[use]), 2, sign=True) for use in uses if use != START)])
    heads = ["data", *(NAMES.get(use, use) for use in uses if use != START)]
    return Table(heads, rows, left=1)


def _backward(frame: pd.DataFrame, uses: Sequence[str]) -> Table:
    """Return how often a tighter tolerance gave a rule that is less accurate and less fair, and by how much it was."""
    rows = []
    for use in uses:
        steps = []
        for _, part in frame[frame["use"] == use].groupby(KEYS, sort=False):
            path = part.sort_values("tolerance", ascending=False)[["accuracy", "violation"]].to_numpy()
            steps += list(path[1:] - path[:-1])
        table = pd.DataFrame(steps, columns=["accuracy", "violation"])
        worse = table[(table["accuracy"] < 0) & (table["violation"] > 0)]
        share = f"{len(worse)} of {len(table)}"
        largest = (worse["violation"].max(), -worse["accuracy"].min()) if len(worse) else (0.0, 0.0)
        far = int(((worse["violation"] > FAR[0]) & (worse["accuracy"] < -FAR[1])).sum())
        rows.append([NAMES.get(use, use), share, f"{far}", f"{largest[0]:.4f}", f"{largest[1]:.4f}"])
    heads = ["labels", "steps backward", f"by more than {FAR[0]:g} and {FAR[1]:g}", "largest rise", "largest fall"]
    return Table(heads, rows, left=1)


def _mean(values: pd.Series) -> Mean:
    return mean(values.tolist())
