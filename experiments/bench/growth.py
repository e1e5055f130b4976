"""Say how seconds grow with groups, classes and rows: the points of each series, their exponents, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.bench.cases import GROWTH, OURS, Case, rows, size
from experiments.bench.lines import Lines
from experiments.bench.run import least
from experiments.page.style import BLUE, RED, SMALL, grid, plain_numbers

AXES = ("groups", "classes", "rows")
CRITERIA = ("dp", "eo")
COLOURS = {"dp": BLUE, "eo": RED}
LOOKS = {"previous": ("--", "o", "white"), "present": ("-", "o", None)}  # line, marker, its face


def series_cases(series: str) -> list[Case]:
    """Return the cases of a series, such as "groups dp", as they grow."""
    return [case for case in GROWTH.values() if case.series == series]


def points(lines: Lines, series: str, version: str, quantity: str = "cpu") -> list[tuple[int, float]]:
    """Return (size, least seconds) of the cases that a version has finished."""
    found = []
    for case in series_cases(series):
        line = lines.of(case.name).get(version)
        value = None if line is None else least(line, quantity)
        if value is not None:
            found.append((size(case), value))
    return found


def exponent(found: Sequence[tuple[int, float]]) -> float | None:
    """Return b of seconds ∝ size^b, by least squares of logarithms over the larger half; None of under 3 points."""
    if len(found) < 3:
        return None
    sizes, seconds = np.log(np.array(found[len(found) // 2 :], dtype=float).T)
    return float(np.polyfit(sizes, seconds, 1)[0])


def growth_data(lines: Lines) -> dict[str, Any]:
    """Return what the picture shows: of every axis what stays as it is, and the points of each series."""
    data = {}
    for axis in AXES:
        case = series_cases(f"{axis} dp")[0]
        kept = {"rows": f"{rows(case.n)} rows", "groups": f"{case.A} groups", "classes": f"{case.m} classes"}
        curves = [
            {"criterion": criterion, "version": version, "points": points(lines, f"{axis} {criterion}", version)}
            for criterion in CRITERIA
            for version in OURS
        ]
        data[axis] = {"kept": ", ".join(text for name, text in kept.items() if name != axis), "curves": curves}
    return data


def draw_growth(data: Mapping[str, Any]) -> Any:
    """Draw processor seconds against groups, classes and rows; dashed for the previous release."""
    figure, axes = grid(2, 2, 2.6)
    for ax, (axis, panel) in zip(axes.flat, data.items(), strict=False):
        for curve in panel["curves"]:
            style, marker, face = LOOKS[curve["version"]]
            colour = COLOURS[curve["criterion"]]
            look = {"color": colour, "linestyle": style, "marker": marker, "markersize": 5}
            label = f"{curve['criterion']}, {curve['version']}"
            ax.plot(*np.reshape(curve["points"], (-1, 2)).T, label=label, markerfacecolor=face or colour, **look)
        ax.set_xscale("log")
        ax.set_yscale("log")
        sizes = sorted({size for curve in panel["curves"] for size, _ in curve["points"]})
        plain_numbers(ax.xaxis, sizes[:: 2 if len(sizes) > 5 else 1])
        plain_numbers(ax.yaxis, [0.1, 1, 10])
        ax.set_title(f"{axis}\n({panel['kept']})", fontsize=SMALL)
    last = axes.flat[len(data)]
    last.set_axis_off()
    last.legend(*axes.flat[0].get_legend_handles_labels(), loc="center")
    for ax in axes[:, 0]:
        ax.set_ylabel("processor seconds")
    return figure
