"""Draw the figures: frontiers, ablation, tolerances, seconds. Means over the seeds; OptFair has thick lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.page.panels import Competitor, Panel
from experiments.page.results import CRITERIA, Cell, Results, unique
from optfair.errors import need_extra
from optfair.utils.files import replacing

DPI = 110
MAX_COLUMNS = 5  # of a legend
CHANCE = "below the noise floor (95 %)"
CALLER = "the page of results"
Style = tuple[str, str, str]  # colour, marker, line
# The colours of Okabe and Ito, which most colour-blind readers can tell apart. A method has one style in all figures.
BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
)
STYLES: dict[tuple[str, str], Style] = {
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
OTHER_STYLE: Style = (BLACK, ".", "--")
WHITE_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
REACH = 2.5  # a panel reaches this many times as far down as OptFair's rules do, below the rule without constraints


@dataclass(frozen=True)
class Curve:
    """x, y : means over the seeds, in the order of the knob. thick : for methods of OptFair."""

    label: str
    style: Style
    thick: bool
    x: Sequence[float]
    y: Sequence[float]


def curve(label: str, style: Style, thick: bool, cells: Sequence[Cell], x: str, y: str) -> Curve:
    """Return the curve of cells along a knob, without those that have no number."""
    scored = [cell for cell in cells if cell.by_seed(y)]
    xs = [float(cell.value or 0.0) if x == "value" else cell.mean(x).value for cell in scored]
    return Curve(label, style, thick, xs, [cell.mean(y).value for cell in scored])


# -- accuracy against violation ------------------------------------------------------------------------------
def draw_frontiers(results: Results, panels: Sequence[Panel]) -> Any:
    """Draw a row of panels per criterion, a column per data."""
    criteria, data = unique([panel.criterion for panel in panels]), unique([panel.data for panel in panels])
    figure, axes = _grid(len(criteria), len(data))
    for panel in panels:
        ax = axes[criteria.index(panel.criterion)][data.index(panel.data)]
        curves = [_competitor_curve(competitor, cells) for competitor, cells in panel.cells.items()]
        plain = panel.plain if panel.plain.by_seed("accuracy") else None
        star = None if plain is None else (plain.mean("violation").value, plain.mean("accuracy").value)
        _frontier(ax, curves, panel.floor, star)
        ax.set_title(f"{_title(results, panel.data)}: {CRITERIA[panel.criterion]}", fontsize=9)
    plain_title = results.title(panels[0].plain.method)
    _finish(figure, axes, "violation on test rows", "accuracy, %", {"plain": f"{plain_title} (plain)"})
    return figure


def draw_ablation(results: Results, groups: Mapping[tuple[str, str], Sequence[tuple[str, Sequence[Cell]]]]) -> Any:
    """Draw the ablation. groups : (data, criterion) -> [(label, cells along the tolerance)]."""
    data, criteria = unique([key[0] for key in groups]), unique([key[1] for key in groups])
    figure, axes = _grid(len(criteria), len(data), width=4.4, height=3.0)
    single = {"OptFairIn": (BLUE, "o", "-"), "OptFairPost": (ORANGE, "v", "-")}
    for (name, criterion), labelled in groups.items():
        ax = axes[criteria.index(criterion)][data.index(name)]
        styles = [(GREEN, "s", "--"), (PINK, "D", "-."), (RED, "^", ":")]  # of both in turn
        curves = []
        for label, cells in labelled:
            style = single.get(cells[0].method) or styles.pop(0)
            curves.append(curve(label, style, cells[0].method in single, cells, "violation", "accuracy"))
        floor = _floor([cell for _, cells in labelled for cell in cells])
        _frontier(ax, curves, floor, None)
        ax.set_title(f"{_title(results, name)}: {CRITERIA[criterion]}", fontsize=9)
        entries = [(h, text) for h, text in zip(*ax.get_legend_handles_labels(), strict=True) if text != CHANCE]
        ax.legend(*zip(*entries, strict=True), frameon=False, fontsize=7)
    _finish(figure, axes, "violation on test rows", "accuracy, %", {}, legend=False)
    return figure


def _competitor_curve(competitor: Competitor, cells: Sequence[Cell]) -> Curve:
    style = STYLES.get((competitor.method, competitor.decision), OTHER_STYLE)
    return curve(competitor.title, style, competitor.is_optfair, cells, "violation", "accuracy")


def _frontier(ax: Any, curves: Sequence[Curve], floor: float, plain: tuple[float, float] | None) -> None:
    ax.axvspan(0, floor, color="0.91", zorder=0, label=CHANCE)
    _draw(ax, curves)
    if plain is not None:
        ax.plot(*plain, "*", color=BLACK, markersize=11, zorder=6, label="plain")
    xs = [x for item in curves for x in item.x]
    ys = [y for item in curves for y in item.y]
    if not xs:
        return
    # One bad rule of one method must not squeeze all others into a line: it is counted here, and in the table.
    thick = [y for item in curves if item.thick for y in item.y] or ys
    top = max([*ys, plain[1]] if plain else ys)
    bottom = max(min(ys), top - REACH * max(top - min(thick), 0.2))
    bottom = min([bottom, plain[1]] if plain else [bottom])
    right = max(xs)
    if plain:
        right = max(1.3 * plain[0], floor, max([x for item in curves if item.thick for x in item.x] or xs))
    right = min(right, max([*xs, plain[0], floor] if plain else [*xs, floor]))
    ax.set_xlim(0, 1.06 * right if right > 0 else 1)
    ax.locator_params(axis="x", nbins=6, prune="upper")  # its number would be cut off
    ax.ticklabel_format(useOffset=False)
    room = 0.06 * max(top - bottom, 0.1)
    ax.set_ylim(bottom - room, top + room)
    points = [point for item in curves for point in zip(item.x, item.y, strict=True)]
    outside = sum(x > 1.06 * right or y < bottom - room for x, y in points)
    if outside:
        text = f"{outside} mean{'s' if outside > 1 else ''} outside"
        ax.text(0.98, 0.03, text, transform=ax.transAxes, ha="right", fontsize=7, color="0.35", bbox=WHITE_BOX)


# -- violation against tolerance -----------------------------------------------------------------------------
def draw_tolerances(
    results: Results, groups: Mapping[tuple[str, str], Mapping[str, Sequence[Cell]]], methods: Sequence[str]
) -> Any:
    """Draw violations. groups : (data, criterion) -> method -> cells along the tolerance. methods : in order."""
    data, criteria = unique([key[0] for key in groups]), unique([key[1] for key in groups])
    figure, axes = _grid(len(criteria), len(data))
    for (name, criterion), by_method in groups.items():
        ax = axes[criteria.index(criterion)][data.index(name)]
        cells = [cell for item in by_method.values() for cell in item]
        tolerances = np.array(sorted({float(cell.value or 0.0) for cell in cells}))
        bound = tolerances + _floor(cells)
        ax.fill_between(tolerances, tolerances, bound, color="0.88", zorder=0, label="tolerance + noise floor (95 %)")
        ax.plot(tolerances, tolerances, color="0.45", linewidth=1, linestyle="--", label="tolerance")
        curves = []
        for method in (item for item in methods if item in by_method):
            thick = method.startswith("OptFair")
            style = _distinct(method)
            curves.append(curve(results.title(method), style, thick, by_method[method], "value", "violation"))
        _draw(ax, curves)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(tolerances, [f"{value:g}" for value in tolerances], fontsize=7)
        ax.xaxis.minorticks_off()
        _plain_numbers(ax)
        ax.set_title(f"{_title(results, name)}: {CRITERIA[criterion]}", fontsize=9)
    _finish(figure, axes, "requested tolerance", "violation on test rows", {})
    return figure


def _distinct(method: str) -> Style:
    """Return a style that tells OptFair-in from -post, which have the same colour where they are never together."""
    return (PINK, "s", "-") if method == "OptFairIn" else STYLES.get((method, "answers"), OTHER_STYLE)


# -- seconds -------------------------------------------------------------------------------------------------
def draw_seconds(
    sizes: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    titles: Mapping[str, str],
    training: Sequence[str],
) -> Any:
    """Draw seconds. sizes : what grows -> method -> (sizes, mean seconds). training : methods drawn dashed."""
    figure, axes = _grid(1, len(sizes), width=4.2, height=3.4)
    for ax, (title, by_method) in zip(axes[0], sizes.items(), strict=True):
        curves = []
        for method, (x, y) in by_method.items():
            colour, marker, line = _distinct(method)
            if method in training:
                line = "--"  # eleven methods have fewer colours
            curves.append(Curve(titles[method], (colour, marker, line), method.startswith("OptFair"), x, y))
        ax.set_title(title, fontsize=10)
        if not any(item.x for item in curves):
            continue  # no run ended: nothing to put on a logarithmic axis
        _draw(ax, curves)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ticks = sorted({size for x, _ in by_method.values() for size in x})
        ax.set_xticks(ticks, [f"{size:,.0f}" for size in ticks], fontsize=8)
        ax.xaxis.minorticks_off()
        _plain_numbers(ax)
    _finish(figure, axes, "", "processor seconds", {})
    return figure


def _plain_numbers(ax: Any) -> None:
    """Label a logarithmic axis by 0.02, rather than by powers; 1, 2 and 5 of each decade."""
    ticker = need_extra("matplotlib.ticker", CALLER)
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())


# -- shared --------------------------------------------------------------------------------------------------
def _draw(ax: Any, curves: Sequence[Curve]) -> None:
    for item in sorted(curves, key=lambda curve: curve.thick):  # thick ones on top
        colour, marker, line = item.style
        width, size, order = (2.6, 6, 5) if item.thick else (1.3, 5.5, 3)
        look = {"color": colour, "linestyle": line, "linewidth": width, "marker": marker, "markersize": size}
        ax.plot(item.x, item.y, zorder=order, label=item.label, markeredgecolor="white", markeredgewidth=0.5, **look)


def _grid(rows: int, columns: int, width: float = 3.5, height: float = 2.7) -> tuple[Any, Any]:
    """Return (figure, axes by row and column); a single column is laid out as a row."""
    transposed = columns == 1
    rows, columns = (1, rows) if transposed else (rows, columns)
    size = (max(width * columns, 6.4), height * rows + 0.8)
    figure, axes = _pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, axes.T if transposed else axes


def _finish(figure: Any, axes: Any, x: str, y: str, names: Mapping[str, str], *, legend: bool = True) -> None:
    """Put labels at the edges, and one legend for all panels."""
    handles: dict[str, Any] = {}
    for ax in axes.flat:
        if not ax.has_data():
            ax.set_axis_off()
            continue
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(names.get(label, label), handle)
        ax.grid(alpha=0.25)
        ax.tick_params(labelsize=8)
    handles = dict(sorted(handles.items(), key=lambda item: not item[0].startswith("OptFair")))  # OptFair first
    figure.supxlabel(x, fontsize=10)
    figure.supylabel(y, fontsize=10)
    if not legend:
        return
    look: dict[str, Any] = {"loc": "outside upper center", "frameon": False, "fontsize": 9}
    for columns in range(min(len(handles), MAX_COLUMNS), 0, -1):  # as many as fit beside item other
        box = figure.legend(handles.values(), handles.keys(), ncols=columns, **look)
        if columns == 1 or box.get_window_extent().width <= figure.bbox.width:
            return
        box.remove()


def _floor(cells: Sequence[Cell]) -> float:
    return float(np.mean([cell.mean("floor").value for cell in cells if cell.by_seed("floor")] or [0.0]))


def _title(results: Results, data: str) -> str:
    return results.data_title(data) + (" (stand-in)" if results.stand_in(data) else "")


def save(figure: Any, file: Path) -> None:
    """Write a PNG, complete or not at all; without the date, so that the same lines give the same file."""
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
    _pyplot().close(figure)


def _pyplot() -> Any:
    need_extra("matplotlib", CALLER).use("Agg")  # no window, no display needed
    return need_extra("matplotlib.pyplot", CALLER)
