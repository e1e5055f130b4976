"""Give all pictures one look, and keep their data inside of them.

A picture is an SVG about as wide as a phone shows it, so that its text stays legible when it shrinks. Colours are those
of Okabe and Ito, which most colour-blind readers can tell apart; no colour is the only sign. The file holds the numbers
that are drawn, as JSON in its description, and is the same, byte for byte, whenever the numbers are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optfair.errors import need_extra
from optfair.utils.files import replacing

CALLER = "the pages of results"
WIDTH = 5.4  # inches; 350 pixels of a phone then show a letter of 11 points with 10 pixels
TEXT, SMALL = 11.0, 10.0  # points
BLUE, ORANGE, GREEN, RED, PINK, SKY, BLACK, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#000000",
    "#767676",
)
LOOK = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",  # dark pages show them on white
    "savefig.facecolor": "white",
    "svg.hashsalt": "optfair",
    "svg.fonttype": "none",  # text that can be found and copied; other fonts are narrower than the one of the layout
}
LEGEND_ROW = 0.2  # inches
DECIMALS = 6  # of the numbers kept in a file
PLACES = re.compile(r' (?:d|x|y)="[^"]*"')  # of an SVG; hundredths of a point are enough for them


@dataclass(frozen=True)
class Figure:
    """A picture of a page. data : what is drawn, as JSON can hold it. plot : draws it. alt : the finding in words."""

    name: str
    alt: str
    plot: Callable[[Any], Any]
    data: Any

    def draw(self) -> Any:
        """Return the figure of Matplotlib."""
        with _look():
            return self.plot(self.data)

    @property
    def description(self) -> str:
        """Return the data as text, as the file keeps it."""
        return json.dumps(_rounded(self.data), ensure_ascii=False, sort_keys=True)

    def save(self, file: Path) -> None:
        """Write the SVG, complete or not at all, without the date."""
        facts = {"Date": None, "Creator": None, "Description": self.description}
        with _look(), replacing(file) as temporary:
            figure = self.plot(self.data)
            figure.savefig(temporary, format="svg", metadata=facts)
            pyplot().close(figure)
            temporary.write_text(PLACES.sub(_shorter, temporary.read_text("utf-8")), "utf-8")


def _rounded(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _rounded(value) for key, value in data.items()}
    if isinstance(data, str) or data is None:
        return data
    return [_rounded(item) for item in data] if isinstance(data, Sequence) else round(float(data), DECIMALS)


def _shorter(place: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", place[0])


def pyplot() -> Any:
    """Return Matplotlib's pyplot, drawing into files only."""
    need_extra("matplotlib", CALLER).use("Agg")
    return need_extra("matplotlib.pyplot", CALLER)


@contextmanager
def _look() -> Iterator[None]:
    with pyplot().rc_context(LOOK):
        yield


# -- parts of pictures ---------------------------------------------------------------------------------------
def grid(rows: int, columns: int, height: float, **options: Any) -> tuple[Any, Any]:
    """Return (figure, axes by row and column) of the usual width. height : of one row, in inches."""
    size = (WIDTH, height * rows)
    return pyplot().subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)


def label_edges(axes: Any, x: str, y: str) -> None:
    """Say below the last row and beside the first column what the axes are."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for row in axes:
        row[0].set_ylabel(y)


def legend_below(figure: Any, axes: Sequence[Any], columns: int) -> None:
    """Put one legend for all panels below them, each label once, methods of OptFair first; the picture grows by it."""
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    ordered = dict(sorted(handles.items(), key=lambda item: not item[0].startswith("OptFair")))
    place = {"loc": "outside lower center", "ncols": columns, "handlelength": 2.2, "columnspacing": 1.2}
    figure.legend(ordered.values(), ordered.keys(), **place)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * -(-len(ordered) // columns))


def plain_numbers(axis: Any, values: Sequence[float] | None = None) -> None:
    """Label a logarithmic axis by 0.02, rather than by powers: at these values, or at 1, 2 and 5 of each decade."""
    ticker = need_extra("matplotlib.ticker", CALLER)
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)) if values is None else ticker.FixedLocator(values))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_locator(ticker.NullLocator())


def short(value: float) -> str:
    """Return 0.02, 200, 30k, 10M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
