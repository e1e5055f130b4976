"""Draw the pictures of `frontier`, `plan` and `demo`, without a display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.cli.paths import InputError
from optfair.errors import need_extra
from optfair.metrics.plans import Plan
from optfair.rule.frontier import Frontier
from optfair.utils.pictures import PICTURE_FORMATS, write_picture

# Blue, orange, green, … of Okabe and Ito, which most colour-blind people can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")


def check_picture_name(path: str, option: str) -> None:
    """Check, before long work, that a picture of this name can be drawn."""
    if Path(path).suffix.lower() not in PICTURE_FORMATS:
        raise InputError(f"{option} {path}: the name of a picture must end in {', '.join(PICTURE_FORMATS)}.")
    need_extra("matplotlib", option)


def draw_curve(frontier: Frontier, title: str) -> Any:
    """Return a figure with the frontier alone."""
    figure, axes = _pyplot().subplots(figsize=(6, 4), layout="constrained")
    frontier.plot(ax=axes)
    axes.set_title(title, fontsize=10)
    return figure


def draw_plan(plan: Plan) -> Any:
    """Return a figure of people against tolerance."""
    figure, axes = _pyplot().subplots(figsize=(7.5, 5), layout="constrained")
    plan.plot(ax=axes)
    return figure


def draw_frontier(
    frontier: Frontier,
    marks: Mapping[str, tuple[str, Sequence[tuple[float, float]]]],
    title: str,
) -> Any:
    """Return a figure of test accuracy against test violation; marks : name -> (marker, [(violation, accuracy), …])."""
    figure, axes = _pyplot().subplots(figsize=(7, 4.4), layout="constrained")
    table = frontier.table  # in the order of the tolerances
    x, y = table["test_violation"], table["test_accuracy"]
    floor = float(table["test_floor"].median())
    axes.axvspan(0, floor, color="0.9", zorder=0, label="within chance of 0 (noise floor, 95 %)")
    axes.plot(x, y, "o-", color=COLOURS[0], markersize=4, label="OptFair-post")
    for colour, (name, (marker, points)) in zip(COLOURS[1:], marks.items(), strict=False):
        violations, accuracies = zip(*points, strict=True)
        axes.plot(violations, accuracies, marker, color=colour, markersize=9, label=name)
    axes.set_xlim(left=0)
    axes.set_xlabel("violation: largest gap between a group and everybody (test people)")
    axes.set_ylabel("accuracy (test people)")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", edgecolor="none", framealpha=0.9)
    return figure


def draw_rates(rates: Mapping[str, pd.DataFrame], sizes: Mapping[str, int], title: str) -> Any:
    """Return a figure of P(Ŷ=j | a): a panel per rule, a bar per group and class, a line at the rate of everybody.

    rates : name of the rule -> DataFrame (groups and "everybody", classes). sizes : people of each group.
    """
    figure, panels = _pyplot().subplots(
        1, len(rates), figsize=(5.4 * len(rates), 4.2), sharey=True, layout="constrained", squeeze=False
    )
    for axes, (name, table) in zip(panels[0], rates.items(), strict=True):
        groups = [group for group in table.index if group != "everybody"]
        centres, width = np.arange(len(table.columns)), 0.8 / len(groups)
        for k, group in enumerate(groups):
            x, colour = centres - 0.4 + (k + 0.5) * width, COLOURS[k % len(COLOURS)]
            axes.bar(x, table.loc[group], 0.92 * width, color=colour, label=f"{group} ({sizes[group]:,})")
        line = {"color": "black", "linewidth": 1.2, "label": "everybody", "zorder": 3}
        axes.hlines(table.loc["everybody"], centres - 0.42, centres + 0.42, **line)
        axes.set_xticks(centres, [str(column) for column in table.columns], fontsize=9)
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.3, axis="y")
    panels[0, 0].set_ylabel("share of the group with this prediction")
    panels[0, -1].legend(frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def save_picture(figure: Any, path: str | Path) -> None:
    """Write a picture to a file, completely or not at all."""
    write_picture(figure, path)
    _pyplot().close(figure)


def _pyplot() -> Any:
    need_extra("matplotlib", "a picture").use("Agg")  # needs no display
    return need_extra("matplotlib.pyplot", "a picture")
