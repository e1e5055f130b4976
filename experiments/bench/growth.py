"""Say how seconds grow with groups, classes and rows: the points of each series, their exponents, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.bench.cases import GROWTH, OURS, Case, rows, size
from experiments.bench.lines import Lines
from experiments.bench.run import least
from experiments.page.figures import BLUE, RED
from experiments.page.figures import CALLER as CALLER_OF_FIGURES
from optfair.errors import need_extra

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


def draw_growth(lines: Lines) -> Any:
    """Draw processor seconds against groups, classes and rows; dashed for the previous release."""
    need_extra("matplotlib", CALLER_OF_FIGURES).use("Agg")
    pyplot, ticker = (need_extra(f"matplotlib.{name}", CALLER_OF_FIGURES) for name in ("pyplot", "ticker"))
    figure, axes = pyplot.subplots(1, len(AXES), figsize=(11.5, 4.0), layout="constrained", sharey=True)
    for ax, axis in zip(axes, AXES, strict=True):
        sizes: set[int] = set()
        for criterion in CRITERIA:
            for version in OURS:
                found = points(lines, f"{axis} {criterion}", version)
                style, marker, face = LOOKS[version]
                look = {"color": COLOURS[criterion], "linestyle": style, "marker": marker, "markersize": 5}
                label = f"{criterion}, {version}"
                ax.plot(*np.reshape(found, (-1, 2)).T, label=label, markerfacecolor=face or COLOURS[criterion], **look)
                sizes |= {point[0] for point in found}
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(_axis_title(axis))
        ax.set_xticks(sorted(sizes), [_tick(number) for number in sorted(sizes)])
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
    axes[0].yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].set_ylabel("processor seconds")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, ncols=len(handles[0]), loc="outside upper center", frameon=False, fontsize=9)
    return figure


def _axis_title(axis: str) -> str:
    """Return what grows and what stays as it is."""
    case = series_cases(f"{axis} dp")[0]
    kept = {"rows": f"{case.n:,} rows", "groups": f"{case.A} groups", "classes": f"{case.m} classes"}
    return f"{axis} ({', '.join(text for name, text in kept.items() if name != axis)})"


def _tick(number: int) -> str:
    """Return 200, 30k, 10M."""
    return rows(number) if number >= 1000 else str(number)
