"""Draw the pictures of the page of promises, from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.page.results import CRITERIA
from experiments.page.style import BLUE, GREEN, GREY, ORANGE, RED, grid, legend_below, plain_numbers

LOOKS = {"plain": (RED, "X"), "half": (ORANGE, "s"), "control": (GREEN, "^"), "promise": (BLUE, "o")}
NAMES = {
    "plain": "no promise",
    "half": "half of the tolerance",
    "control": "1.645 standard errors",
    "promise": "promise, with its interval",
}


def draw_broken(data: Mapping[str, Any]) -> Any:
    """Draw the share of broken tolerances, a row for each setting. The axis is that of square roots: 5 % is visible."""
    rows = data["rows"]
    figure, axes = grid(1, 1, 0.7 + 0.27 * len(rows))
    ax = axes[0, 0]
    ax.axvspan(0, data["promised"], color="0.9", zorder=0, label=f"at most {data['promised']:g} %, as promised")
    for place, row in enumerate(rows):
        ax.plot([row["low"], row["high"]], [place, place], color=BLUE, linewidth=3, alpha=0.35, zorder=2)
    for method, (colour, marker) in LOOKS.items():
        found = [(row[method], place) for place, row in enumerate(rows) if method in row]
        style = {"color": colour, "markersize": 7, "markeredgecolor": "white", "markeredgewidth": 0.5}
        ax.plot(*zip(*found, strict=True), marker, label=NAMES[method], zorder=4, clip_on=False, **style)
    ax.set_xscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 5, 20, 50, 100])
    ax.set_yticks(range(len(rows)), [row["title"] for row in rows], fontsize=8.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("runs beyond the tolerance, %", loc="right")
    legend_below(figure, axes.flat, 2)
    return figure


def draw_smallest(data: Mapping[str, Any]) -> Any:
    """Draw the smallest tolerance that can be promised against the number of people."""
    figure, axes = grid(1, 1, 3.4)
    ax = axes[0, 0]
    for (criterion, numbers), colour, marker in zip(data.items(), (BLUE, RED), "os", strict=True):
        name = CRITERIA[criterion]
        ax.loglog(numbers["people"], numbers["reached"], f"{marker}-", color=colour, label=name)
        ax.loglog(numbers["people"], numbers["formula"], ":", color=colour, label=f"{name}: formula")
    plain_numbers(ax.yaxis)
    plain_numbers(ax.xaxis, numbers["people"])
    ax.set_xlabel("people fitted on")
    ax.set_ylabel("smallest tolerance")
    ax.tick_params(axis="both", color=GREY)
    legend_below(figure, axes.flat, 2)
    return figure
