"""Draw the pictures that only the overview has, from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.page.figures import VERDICTS
from experiments.page.results import CRITERIA
from experiments.page.style import BLUE, GREY, ORANGE, SMALL, grid, legend_below, plain_numbers, short

LINES = {"in memory": (BLUE, "o", "-"), "in files": (ORANGE, "s", "-"), "reading the files once": (GREY, "^", "--")}
HATCHES = {"won": "", "within noise": "", "lost": "///"}


def draw_wins(data: Sequence[Mapping[str, Any]]) -> Any:
    """Draw how many comparisons with each rival were won, within noise, and lost: a bar for each, by kind."""
    heights = [0.7 + 0.33 * len(block["rivals"]) for block in data]
    figure, axes = grid(len(data), 1, sum(heights) / len(data), sharex=True, height_ratios=heights)
    for ax, block in zip(axes[:, 0], data, strict=True):
        names = list(block["rivals"])
        left = [0] * len(names)
        for verdict, (colour, face) in VERDICTS.items():
            counts = [block["rivals"][name].get(verdict, 0) for name in names]
            if not any(counts):
                continue
            style = {"facecolor": "0.88" if face == "white" else colour, "hatch": HATCHES.get(verdict, "")}
            ax.barh(names, counts, left=left, label=verdict, edgecolor="white", **style)
            for place, (start, count) in enumerate(zip(left, counts, strict=True)):
                if count:
                    ink = "0.2" if face == "white" else "white"
                    ax.text(start + count / 2, place, str(count), ha="center", va="center", color=ink, fontsize=SMALL)
            left = [start + count for start, count in zip(left, counts, strict=True)]
        ax.invert_yaxis()
        ax.grid(visible=False)
        ax.set_title(f"{block['title']} against")
    axes[-1, 0].set_xlabel("comparisons")
    legend_below(figure, axes.flat, 3)
    return figure


def draw_peers(data: Mapping[str, Sequence[tuple[str, float]]]) -> Any:
    """Draw the seconds of each library, a panel for each criterion."""
    figure, axes = grid(1, len(data), 2.2, sharey=True)
    for ax, (criterion, bars) in zip(axes[0], data.items(), strict=True):
        names, seconds = [name for name, _ in bars], [value for _, value in bars]
        ax.barh(names, seconds, color=[BLUE if name == "optfair" else GREY for name in names])
        for place, value in enumerate(seconds):
            ax.text(value * 1.1, place, f"{value:.2g} s", va="center", fontsize=SMALL)
        ax.set_xscale("log")
        ax.set_xlim(0.1, 4 * max(seconds))
        plain_numbers(ax.xaxis, [0.1, 1, 10])
        ax.grid(axis="y", visible=False)
        ax.set_title(CRITERIA[criterion])
        ax.set_xlabel("seconds")
    axes[0, 0].invert_yaxis()
    return figure


def draw_scale(data: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> Any:
    """Draw seconds against rows, in memory and in files, a panel for each criterion."""
    figure, axes = grid(1, len(data), 2.9, sharey=True)
    for ax, (criterion, curves) in zip(axes[0], data.items(), strict=True):
        for name, points in curves.items():
            colour, marker, line = LINES[name]
            xs, ys = ([point[place] for point in points] for place in (0, 1))
            ax.plot(xs, ys, marker, color=colour, linestyle=line, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        sizes = [10.0**power for power in range(4, 9)]
        ax.set_xticks(sizes, [short(size) for size in sizes])
        plain_numbers(ax.yaxis, [0.1, 1, 10, 60])
        ax.set_title(CRITERIA[criterion])
        ax.set_xlabel("rows")
    axes[0, 0].set_ylabel("seconds")
    legend_below(figure, axes.flat, 3)
    return figure
