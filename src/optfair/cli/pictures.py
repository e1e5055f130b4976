"""The pictures of the demo: the frontier, and the rates of the groups before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optfair.errors import need_extra
from optfair.files import replacing
from optfair.path import Frontier

FORMATS = (".png", ".svg", ".pdf")
# Blue, orange, green, … of Okabe and Ito: told apart by most of the colour-blind.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")


def draw_frontier(
    frontier: Frontier,
    marks: Mapping[str, tuple[str, Sequence[tuple[float, float]]]],
    title: str,
) -> Any:
    """Accuracy against violation on test people; marks : name -> (marker, [(violation, accuracy), ...])."""
    pyplot = _pyplot()
    figure, ax = pyplot.subplots(figsize=(7, 4.4), layout="constrained")
    table = frontier.table  # in the order of the tolerances
    floor = float(table["test_floor"].median())
    ax.axvspan(0, floor, color="0.9", zorder=0, label="within chance of 0 (noise floor, 95 %)")
    ax.plot(table["test_violation"], table["test_accuracy"], "o-", color=COLOURS[0], markersize=4, label="OptFair-post")
    for colour, (name, (marker, points)) in zip(COLOURS[1:], marks.items(), strict=False):
        x, y = zip(*points, strict=True)
        ax.plot(x, y, marker, color=colour, markersize=9, label=name)
    ax.set_xlim(left=0)
    ax.set_xlabel("violation: largest gap between a group and everybody (test people)")
    ax.set_ylabel("accuracy (test people)")
    ax.set_title(title, fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, loc="lower right")
    return figure


def draw_rates(rates: Mapping[str, pd.DataFrame], sizes: Mapping[str, int], title: str) -> Any:
    """P(Ŷ=j | a), a panel per rule: classes side by side, a bar per group, a line at the rate of everybody.

    rates : name of the rule -> DataFrame (groups and "everybody", classes). sizes : people of each group.
    """
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(1, len(rates), figsize=(5.4 * len(rates), 4.2), sharey=True, layout="constrained")
    for ax, (name, table) in zip(np.atleast_1d(panels), rates.items(), strict=True):
        groups = [group for group in table.index if group != "everybody"]
        place, width = np.arange(len(table.columns)), 0.8 / len(groups)
        for k, group in enumerate(groups):
            left = place - 0.4 + (k + 0.5) * width
            ax.bar(
                left,
                table.loc[group],
                0.92 * width,
                color=COLOURS[k % len(COLOURS)],
                label=f"{group} ({sizes[group]:,})",
            )
        ax.hlines(
            table.loc["everybody"],
            place - 0.42,
            place + 0.42,
            color="black",
            linewidth=1.2,
            label="everybody",
            zorder=3,
        )
        ax.set_xticks(place, [str(column) for column in table.columns], fontsize=9)
        ax.set_title(name, fontsize=10)
        ax.grid(alpha=0.3, axis="y")
    np.atleast_1d(panels)[0].set_ylabel("share of the group that gets the answer")
    np.atleast_1d(panels)[-1].legend(frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def save_picture(figure: Any, path: str | Path) -> None:
    """Write a picture that is whole, or not there."""
    file = Path(path)
    with replacing(file) as temporary:
        figure.savefig(temporary, format=file.suffix[1:].lower(), dpi=150)
    _pyplot().close(figure)


def _pyplot() -> Any:
    need_extra("matplotlib", "a picture").use("Agg")  # no window, no display needed
    return need_extra("matplotlib.pyplot", "a picture")
