"""Say how the gallery looks: the order of its pages, and the style of the pictures that its scripts draw.

Pictures are as wide as a phone and have a transparent background. On dark pages ``site.css`` inverts their lightness
and keeps their hues.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

# From the first model to the questions of specialists.
ORDER = (
    "first_fair_model",
    "black_box",
    "which_criterion",
    "which_tolerance",
    "explain_a_decision",
    "audit_hiring",
    "promise_to_new_people",
    "small_groups",
    "unknown_groups",
    "costs_in_triage",
    "own_criterion",
    "train_a_fair_model",
    "over_time",
    "other_methods",
)
INK, SOFT = "#1b1f24", "#8a9099"
# Okabe and Ito (2008), "Color Universal Design": told apart by colour-blind readers; without their yellow and black.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLE = {
    "figure.figsize": (4.8, 3.3),  # inches of 100 pixels: text of 10 points is legible where this is 350 pixels wide
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "savefig.transparent": True,
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 2,
}


def set_style(gallery_conf: dict[str, Any], name: str | None) -> None:
    """Set the style of pictures before a script runs."""
    mpl.rcParams.update(STYLE)


class QuestionOrder:
    """The place of a script in ``ORDER``; sphinx-gallery sorts by it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return "<QuestionOrder>"

    def __call__(self, name: str) -> int:
        """Return the place of a script."""
        return ORDER.index(Path(name).stem.removeprefix("plot_"))
