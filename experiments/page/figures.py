"""Draw the pictures of the pages of experiments, from plain data: means over the seeds; OptFair has thick lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.page.results import CRITERIA
from experiments.page.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    RED,
    SKY,
    grid,
    label_edges,
    legend_below,
    plain_numbers,
)

Data = Mapping[str, Any]
Look = tuple[str, str, str]  # colour, marker, line
CHANCE = "below the noise floor"
# A method has one look in all pictures; OptFair-in and -post have the same colour where they are never together.
LOOKS: dict[tuple[str, str], Look] = {
    ("OptFairIn", "answers"): (PINK, "s", "-"),
    ("OptFairPost", "answers"): (BLUE, "o", "-"),
    ("OptFairPost-calibrated", "answers"): (SKY, "D", "-"),
    ("AdvDebias", "answers"): (ORANGE, "v", "-"),
    ("WeightedERM", "answers"): (GREEN, "h", "-"),
    ("FairBatch", "answers"): (RED, "^", "-"),
    ("FDivergence", "answers"): (SKY, "X", "-"),
    ("LinearPost", "answers"): (ORANGE, "<", "-"),
    ("LinearPost-in-sample", "answers"): (ORANGE, "<", ":"),
    ("Frappe", "answers"): (GREEN, "P", "-"),
    ("FairProjection", "answers"): (RED, ">", "-"),
    ("FairProjection", "argmax"): (RED, ">", ":"),
    ("OptFairInPost", "first"): (GREEN, "s", "--"),
    ("OptFairInPost", "second"): (RED, "^", ":"),
    ("ERM", "answers"): (BLACK, "*", "-"),
    ("Posterior", "answers"): (GREY, "d", "--"),
}
OTHER_LOOK: Look = (BLACK, ".", "--")
REACH = 2.5  # a panel reaches this many times as far down as OptFair's rules do, below the rule without constraints
VERDICTS = {"won": (BLUE, BLUE), "within noise": (GREY, "white"), "lost": (RED, RED), "one seed": (GREY, "white")}
MARKERS = {"dp": "o", "eo": "s", "eop": "^"}


def is_thick(method: str) -> bool:
    """Tell whether a method is one of OptFair."""
    return method.startswith("OptFair") and method != "OptFairInPost"


def draw_curves(ax: Any, curves: Sequence[Data], *, lines: bool = True) -> None:
    """Draw curves, those of OptFair on top. A curve has method, decision, label, x and y. lines : or marks only."""
    for curve in sorted(curves, key=lambda curve: is_thick(curve["method"])):
        colour, marker, line = LOOKS.get((curve["method"], curve.get("decision", "answers")), OTHER_LOOK)
        width, size, order = (2.6, 6, 5) if is_thick(curve["method"]) else (1.3, 5.5, 3)
        look = {"color": colour, "linestyle": line if lines else "", "linewidth": width, "zorder": order}
        look |= {"marker": marker, "markersize": size, "markeredgecolor": "white", "markeredgewidth": 0.5}
        ax.plot(curve["x"], curve["y"], label=curve["label"], **look)


# -- who wins ------------------------------------------------------------------------------------------------
def draw_differences(data: Data) -> Any:
    """Draw differences of areas with their intervals: a panel for each data set, a block of rows for each rival."""
    rivals = [(title, rival) for title, names in data["rivals"] for rival in names]
    places = {rival: k for k, (_, rival) in enumerate(rivals)}
    panels, offsets = data["panels"], dict(zip(("dp", "eo", "eop"), (-0.25, 0.0, 0.25), strict=True))
    n_rows = max(1, -(-len(panels) // 2))
    figure, axes = grid(n_rows, max(1, min(len(panels), 2)), 0.5 + 0.36 * len(rivals), sharex=True, sharey=True)
    for ax, (title, entries) in zip(axes.flat, panels.items(), strict=False):
        for criterion, verdict in dict.fromkeys((entry["criterion"], entry["verdict"]) for entry in entries):
            alike = [entry for entry in entries if (entry["criterion"], entry["verdict"]) == (criterion, verdict)]
            x, half = ([entry[name] for entry in alike] for name in ("gain", "half"))
            y = [places[entry["against"]] + offsets[criterion] for entry in alike]
            colour, face = VERDICTS[verdict]
            look = {"color": colour, "markerfacecolor": face, "markersize": 5, "elinewidth": 1.2}
            ax.errorbar(x, y, xerr=half, fmt=MARKERS[criterion], **look)
        ax.axvline(0, color=BLACK, linewidth=1)
        for k in range(1, len(rivals)):
            ax.axhline(k - 0.5, color="0.85", linewidth=0.6)
            if rivals[k][0] != rivals[k - 1][0]:  # training above, post-processing below
                ax.axhline(k - 0.5, color=BLACK, linewidth=0.8)
        ax.set_xscale("symlog", linthresh=0.1, linscale=0.6)
        ax.set_xticks([-1, 0, 1, 10], ["−1", "0", "1", "10"])
        ax.set_xticks([-0.1, 0.1], minor=True)
        ax.set_yticks(range(len(rivals)), [rival for _, rival in rivals])
        ax.set_ylim(len(rivals) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_title(title)
    label_edges(axes, "points gained", "")
    for criterion, marker in MARKERS.items():
        axes[0, 0].plot([], [], marker, color=GREY, label=CRITERIA[criterion])
    for verdict in ("won", "within noise", "lost"):
        colour, face = VERDICTS[verdict]
        axes[0, 0].plot([], [], "o", color=colour, markerfacecolor=face, label=verdict)
    legend_below(figure, axes.flat, 2)
    return figure


# -- accuracy against violation ------------------------------------------------------------------------------
def draw_frontiers(data: Data) -> Any:
    """Draw panels of accuracy against violation. rows, columns : how many; every panel has its place and title."""
    figure, axes = grid(data["rows"], data["columns"], 2.0)
    for panel in data["panels"]:
        _frontier(axes[panel["row"]][panel["column"]], panel)
    label_edges(axes, "violation on test rows", "accuracy, %")
    legend_below(figure, axes.flat, 2)
    return figure


def _frontier(ax: Any, panel: Data) -> None:
    """Draw one panel: curves, noise floor, and plain training, which is a pair or None."""
    curves, plain, floor = panel["curves"], panel["plain"], panel["floor"]
    ax.set_title(panel["title"])
    ax.axvspan(0, floor, color="0.91", zorder=0, label=CHANCE)
    draw_curves(ax, curves)
    if plain:
        ax.plot(*plain, "*", color=BLACK, markersize=11, zorder=6, label="ERM (plain)")
    xs = [x for curve in curves for x in curve["x"]]
    ys = [y for curve in curves for y in curve["y"]]
    if not xs:
        return
    # One bad rule of one method must not squeeze all others into a line: it is counted here, and in the table.
    thick = [curve for curve in curves if is_thick(curve["method"])]
    top = max([*ys, plain[1]] if plain else ys)
    lowest = min([y for curve in thick for y in curve["y"]] or ys)
    bottom = max(min(ys), top - REACH * max(top - lowest, 0.2))
    bottom = min([bottom, plain[1]] if plain else [bottom])
    right = max(xs)
    if plain:
        right = min(max(*xs, plain[0], floor), max([1.3 * plain[0], floor, *(x for c in thick for x in c["x"])]))
    ax.set_xlim(0, 1.06 * right if right > 0 else 1)
    ax.locator_params(axis="x", nbins=4)
    ax.locator_params(axis="y", nbins=5)
    ax.ticklabel_format(useOffset=False)
    room = 0.06 * max(top - bottom, 0.1)
    ax.set_ylim(bottom - room, top + room)
    outside = sum(x > 1.06 * right or y < bottom - room for c in curves for x, y in zip(c["x"], c["y"], strict=True))
    if outside:
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        ax.text(0.98, 0.03, f"{outside} outside", transform=ax.transAxes, ha="right", color="0.35", bbox=box)


# -- violation against tolerance -----------------------------------------------------------------------------
def draw_tolerances(data: Data) -> Any:
    """Draw violations against the tolerance asked for: a row of panels per data set, a column per criterion."""
    figure, axes = grid(data["rows"], data["columns"], 1.75, sharex=True)
    for panel in data["panels"]:
        ax, tolerances = axes[panel["row"]][panel["column"]], panel["tolerances"]
        bound = [tolerance + panel["floor"] for tolerance in tolerances]
        ax.fill_between(tolerances, tolerances, bound, color="0.86", zorder=0, label="tolerance + noise floor")
        ax.plot(tolerances, tolerances, color=GREY, linewidth=1.2, linestyle="--", label="tolerance")
        draw_curves(ax, panel["curves"])
        ax.locator_params(axis="y", nbins=4)
        ax.set_ylim(bottom=0)
        ax.set_title(panel["title"])
    label_edges(axes, "tolerance asked for", "violation")
    legend_below(figure, axes.flat, 2)
    return figure


# -- distance to the optimum ---------------------------------------------------------------------------------
def draw_regrets(data: Data) -> Any:
    """Draw points of accuracy below the optimum against the true violation, a panel for each world and criterion."""
    figure, axes = grid(data["rows"], data["columns"], 2.3)
    for panel in data["panels"]:
        ax = axes[panel["row"]][panel["column"]]
        if panel["tolerance"]:
            ax.axvline(panel["tolerance"], color=GREY, linestyle="--", linewidth=1.2, label="tolerance of OptFair")
        draw_curves(ax, panel["curves"], lines=False)
        ax.set_xscale("log")
        ax.set_xlim(0.008, 0.35)
        plain_numbers(ax.xaxis, [0.01, 0.03, 0.1, 0.3])
        ax.set_title(panel["title"])
    label_edges(axes, "true violation", "points lost")
    legend_below(figure, axes.flat, 2)
    return figure


# -- seconds -------------------------------------------------------------------------------------------------
def draw_seconds(data: Data) -> Any:
    """Draw seconds against each size that grows; the legend takes the place of a fourth panel."""
    figure, axes = grid(2, 2, 2.5)
    for ax, (title, curves) in zip(axes.flat, data.items(), strict=False):
        drawn = [curve for curve in curves if curve["x"]]
        ax.set_title(title)
        if drawn:  # else no run ended: nothing to put on a logarithmic axis
            draw_curves(ax, drawn)
            ax.set_xscale("log")
            ax.set_yscale("log")
            plain_numbers(ax.xaxis, sorted({size for curve in drawn for size in curve["x"]}))
            plain_numbers(ax.yaxis, [0.1, 1, 10, 100])
    last = axes.flat[len(data)]
    last.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    last.legend(handles[::-1], labels[::-1], loc="center", borderaxespad=0)
    for ax in axes[:, 0]:
        ax.set_ylabel("processor seconds")
    return figure
