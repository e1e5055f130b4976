"""The figures of the page: frontiers, ablation, tolerances kept, seconds. Means over seeds; ours are thick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optfair.benchmark.page.panels import Panel, Side
from optfair.benchmark.page.results import CRITERIA, Cell, Results, unique
from optfair.errors import need_extra
from optfair.files import replacing

DPI = 110
MOST_COLUMNS = 5  # of a legend
CHANCE = "within chance of 0 (noise floor, 95 %)"
CALLER = "the page of optfair bench"
# Of Okabe and Ito: told apart by most of the colour-blind. (colour, marker, line) of each method, in all figures.
BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
STYLES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("OptFairIn", "answers"): (BLUE, "o", "-"),
    ("OptFairPost", "answers"): (BLUE, "o", "-"),
    ("OptFairPost-calibrated", "answers"): (SKY, "D", "-"),
    ("OptFairInPost", "answers"): (PINK, "s", "-"),
    ("AdvDebias", "answers"): (ORANGE, "v", "-"),
    ("WeightedERM", "answers"): (GREEN, "s", "-"),
    ("FairBatch", "answers"): (RED, "^", "-"),
    ("FDivergence", "answers"): (PINK, "X", "-"),
    ("LinearPost", "answers"): (ORANGE, "<", "-"),
    ("LinearPost-in-sample", "answers"): (ORANGE, "<", ":"),
    ("Frappe", "answers"): (GREEN, "P", "-"),
    ("FairProjection", "answers"): (RED, ">", "-"),
    ("FairProjection", "argmax"): (RED, ">", ":"),
    ("ERM", "answers"): (BLACK, "*", "-"),
}
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
FAR = 2.5  # a panel reaches so many times as far down as ours do, below the rule without constraints


@dataclass(frozen=True)
class Curve:
    """x, y : means over the seeds, in the order of the knob."""

    label: str
    style: tuple[str, str, str]
    ours: bool
    x: Sequence[float]
    y: Sequence[float]


def curve(label: str, style: tuple[str, str, str], ours: bool, cells: Sequence[Cell], x: str, y: str) -> Curve:
    """Of cells along a knob; what a method cannot is left out."""
    done = [cell for cell in cells if cell.each(y)]
    xs = [float(cell.value or 0.0) if x == "value" else cell.mean(x).value for cell in done]
    return Curve(label, style, ours, xs, [cell.mean(y).value for cell in done])


# -- accuracy against violation ------------------------------------------------------------------------------
def draw_frontiers(results: Results, panels: Sequence[Panel]) -> Any:
    """A row of panels per criterion, a column per people."""
    criteria, data = unique([panel.criterion for panel in panels]), unique([panel.data for panel in panels])
    figure, axes = _grid(len(criteria), len(data))
    for panel in panels:
        ax = axes[criteria.index(panel.criterion)][data.index(panel.data)]
        curves = [_of_side(side, cells) for side, cells in panel.cells.items()]
        plain = panel.plain if panel.plain.each("accuracy") else None
        star = None if plain is None else (plain.mean("violation").value, plain.mean("accuracy").value)
        _frontier(ax, curves, panel.floor, star)
        ax.set_title(f"{_name(results, panel.data)}: {CRITERIA[panel.criterion]}", fontsize=9)
    plain_title = results.title(panels[0].plain.method)
    _finish(figure, axes, "violation on people not fitted on", "accuracy, %", {"plain": f"{plain_title} (plain)"})
    return figure


def draw_ablation(results: Results, groups: Mapping[tuple[str, str], Sequence[tuple[str, Sequence[Cell]]]]) -> Any:
    """groups : (data, criterion) -> [(label, cells along the tolerance)]."""
    data, criteria = unique([key[0] for key in groups]), unique([key[1] for key in groups])
    figure, axes = _grid(len(criteria), len(data), width=4.4, height=3.0)
    shades = {"OptFairIn": (BLUE, "o", "-"), "OptFairPost": (ORANGE, "v", "-")}
    for (name, criterion), own in groups.items():
        ax = axes[criteria.index(criterion)][data.index(name)]
        both = [(GREEN, "s", "--"), (PINK, "D", "-."), (RED, "^", ":")]
        curves = []
        for label, cells in own:
            style = shades.get(cells[0].method) or both.pop(0)
            curves.append(curve(label, style, cells[0].method in shades, cells, "violation", "accuracy"))
        floor = _floor([cell for _, cells in own for cell in cells])
        _frontier(ax, curves, floor, None)
        ax.set_title(f"{_name(results, name)}: {CRITERIA[criterion]}", fontsize=9)
        told = [(h, text) for h, text in zip(*ax.get_legend_handles_labels(), strict=True) if text != CHANCE]
        ax.legend(*zip(*told, strict=True), frameon=False, fontsize=7)
    _finish(figure, axes, "violation on people not fitted on", "accuracy, %", {}, legend=False)
    return figure


def _of_side(side: Side, cells: Sequence[Cell]) -> Curve:
    style = STYLES.get((side.method, side.answers), (BLACK, ".", "--"))
    return curve(side.title, style, side.ours, cells, "violation", "accuracy")


def _frontier(ax: Any, curves: Sequence[Curve], floor: float, plain: tuple[float, float] | None) -> None:
    ax.axvspan(0, floor, color="0.91", zorder=0, label=CHANCE)
    _lines(ax, curves)
    if plain is not None:
        ax.plot(*plain, "*", color=BLACK, markersize=11, zorder=6, label="plain")
    xs = [x for own in curves for x in own.x]
    ys = [y for own in curves for y in own.y]
    if not xs:
        return
    # One bad rule of one method must not squeeze all others into a line: it is told, and in the table.
    ours = [y for own in curves if own.ours for y in own.y] or ys
    top = max([*ys, plain[1]] if plain else ys)
    bottom = max(min(ys), top - FAR * max(top - min(ours), 0.2))
    bottom = min([bottom, plain[1]] if plain else [bottom])
    right = (
        max(1.3 * plain[0], floor, max([x for own in curves if own.ours for x in own.x] or xs)) if plain else max(xs)
    )
    right = min(right, max([*xs, plain[0], floor] if plain else [*xs, floor]))
    ax.set_xlim(0, 1.06 * right if right > 0 else 1)
    ax.locator_params(axis="x", nbins=6, prune="upper")  # its number would be cut off
    ax.ticklabel_format(useOffset=False)
    room = 0.06 * max(top - bottom, 0.1)
    ax.set_ylim(bottom - room, top + room)
    outside = sum(x > 1.06 * right or y < bottom - room for own in curves for x, y in zip(own.x, own.y, strict=True))
    if outside:
        told = f"{outside} mean{'s' if outside > 1 else ''} outside"
        ax.text(0.98, 0.03, told, transform=ax.transAxes, ha="right", fontsize=7, color="0.35", bbox=_PAPER)


# -- what is asked for, and what people get ------------------------------------------------------------------
def draw_tolerances(
    results: Results, groups: Mapping[tuple[str, str], Mapping[str, Sequence[Cell]]], names: Sequence[str]
) -> Any:
    """groups : (data, criterion) -> method -> cells along the tolerance; names : of the methods, in order."""
    data, criteria = unique([key[0] for key in groups]), unique([key[1] for key in groups])
    figure, axes = _grid(len(criteria), len(data))
    for (name, criterion), own in groups.items():
        ax = axes[criteria.index(criterion)][data.index(name)]
        cells = [cell for some in own.values() for cell in some]
        asked = np.array(sorted({float(cell.value or 0.0) for cell in cells}))
        floor = _floor(cells)
        ax.fill_between(asked, asked, asked + floor, color="0.88", zorder=0, label="tolerance + noise floor (95 %)")
        ax.plot(asked, asked, color="0.45", linewidth=1, linestyle="--", label="tolerance")
        _lines(
            ax,
            [
                curve(
                    results.title(method),
                    _distinct(method),
                    method.startswith("OptFair"),
                    own[method],
                    "value",
                    "violation",
                )
                for method in names
                if method in own
            ],
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(asked, [f"{value:g}" for value in asked], fontsize=7)
        ax.xaxis.minorticks_off()
        _plain_numbers(ax)
        ax.set_title(f"{_name(results, name)}: {CRITERIA[criterion]}", fontsize=9)
    _finish(figure, axes, "tolerance asked for", "violation on new people", {})
    return figure


def _distinct(method: str) -> tuple[str, str, str]:
    """OptFair-in and -post have the same colour elsewhere, where they never meet."""
    return (PINK, "s", "-") if method == "OptFairIn" else STYLES.get((method, "answers"), (BLACK, ".", "--"))


# -- seconds -------------------------------------------------------------------------------------------------
def draw_seconds(
    axes_of: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    titles: Mapping[str, str],
    training: Sequence[str],
) -> Any:
    """axes_of : what grows -> method -> (sizes, mean seconds). titles : of methods. training : those drawn dashed."""
    figure, axes = _grid(1, len(axes_of), width=4.2, height=3.4)
    for ax, (what, own) in zip(axes[0], axes_of.items(), strict=True):
        curves = []
        for method, (x, y) in own.items():
            colour, marker, line = _distinct(method)
            if method in training:
                line = "--"  # eleven methods have fewer colours
            curves.append(Curve(titles[method], (colour, marker, line), method.startswith("OptFair"), x, y))
        ax.set_title(what, fontsize=10)
        if not any(each.x for each in curves):
            continue  # nobody ended: nothing to put on a logarithmic axis
        _lines(ax, curves)
        ax.set_xscale("log")
        ax.set_yscale("log")
        sizes = sorted({size for x, _ in own.values() for size in x})
        ax.set_xticks(sizes, [f"{size:,.0f}" for size in sizes], fontsize=8)
        ax.xaxis.minorticks_off()
        _plain_numbers(ax)
    _finish(figure, axes, "", "seconds of its own", {})
    return figure


def _plain_numbers(ax: Any) -> None:
    """0.02 on a logarithmic axis, rather than powers; 1, 2 and 5 of each decade."""
    ticker = need_extra("matplotlib.ticker", CALLER)
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())


# -- shared --------------------------------------------------------------------------------------------------
def _lines(ax: Any, curves: Sequence[Curve]) -> None:
    for own in sorted(curves, key=lambda each: each.ours):  # ours on top
        colour, marker, line = own.style
        wide, size, order = (2.6, 6, 5) if own.ours else (1.3, 5.5, 3)
        look = {"color": colour, "linestyle": line, "linewidth": wide, "marker": marker, "markersize": size}
        ax.plot(own.x, own.y, zorder=order, label=own.label, markeredgecolor="white", markeredgewidth=0.5, **look)


def _grid(rows: int, columns: int, width: float = 3.5, height: float = 2.7) -> tuple[Any, Any]:
    """(figure, axes by row and column); a single column is laid out as a row."""
    turned = columns == 1
    rows, columns = (1, rows) if turned else (rows, columns)
    size = (max(width * columns, 6.4), height * rows + 0.8)
    figure, axes = _pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, axes.T if turned else axes


def _finish(figure: Any, axes: Any, x: str, y: str, names: Mapping[str, str], *, legend: bool = True) -> None:
    """Labels at the edges, one legend for all panels."""
    found: dict[str, Any] = {}
    for ax in axes.flat:
        if not ax.has_data():
            ax.set_axis_off()
            continue
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(names.get(label, label), handle)
        ax.grid(alpha=0.25)
        ax.tick_params(labelsize=8)
    found = dict(sorted(found.items(), key=lambda item: not item[0].startswith("OptFair")))  # ours first
    figure.supxlabel(x, fontsize=10)
    figure.supylabel(y, fontsize=10)
    if not legend:
        return
    how: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "fontsize": 9}
    for columns in range(min(len(found), MOST_COLUMNS), 0, -1):  # as many as fit beside each other
        told = figure.legend(found.values(), found.keys(), ncols=columns, **how)
        if columns == 1 or told.get_window_extent().width <= figure.bbox.width:
            return
        told.remove()


def _floor(cells: Sequence[Cell]) -> float:
    return float(np.mean([cell.mean("floor").value for cell in cells if cell.each("floor")] or [0.0]))


def _name(results: Results, data: str) -> str:
    return results.data_title(data) + (" (stand-in)" if results.stand_in(data) else "")


def save(figure: Any, file: Path) -> None:
    """A PNG that is whole, or not there; without the date, so that the same lines give the same file."""
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
    _pyplot().close(figure)


def _pyplot() -> Any:
    need_extra("matplotlib", CALLER).use("Agg")  # no window, no display needed
    return need_extra("matplotlib.pyplot", CALLER)
