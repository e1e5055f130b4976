"""Write a page: lines → cells → tables and figures → one Markdown file, complete or not written.

For the same lines it is the same, byte for byte. A number whose run is missing fails before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.catalogue import EXPERIMENTS, Experiment
from experiments.evaluate import MIN_CELL
from experiments.page.comparisons import installed, labels, networks
from experiments.page.extensions import calibration, growing_seconds, tolerance, truth
from experiments.page.figures import save
from experiments.page.frontiers import frontiers
from experiments.page.page import Page, Section
from experiments.page.paper import ablation, randomised, scalability
from experiments.page.provenance import data_table, hours_table, tuning_tables, warnings_table
from experiments.page.results import Results
from experiments.page.scaling import scaling
from experiments.page.tables import Figure
from experiments.page.tightening import tightening
from experiments.plan import TUNING_CRITERIA, TUNING_PLACES, Plan
from optfair.utils.files import write_atomically

SECTIONS: dict[str, Section] = {
    "frontiers": frontiers,
    "ablation": ablation,
    "randomised": randomised,
    "scalability": scalability,
    "tolerance": tolerance,
    "calibration": calibration,
    "truth": truth,
    "seconds": growing_seconds,
    "installed": installed,
    "labels": labels,
    "tightening": tightening,
    "scaling": scaling,
    "networks": networks,
}


@dataclass(frozen=True)
class Draft:
    """A page whose numbers have all been found; nothing is written yet. file : where it goes."""

    file: Path
    text: str
    figures: Sequence[Figure]

    def write(self) -> list[Path]:
        """Draw the figures into a folder of the page's name, write the page, and return the files."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        files = [figure_file(self.file, figure) for figure in self.figures]
        for figure, file in zip(self.figures, files, strict=True):
            file.parent.mkdir(exist_ok=True)
            save(figure.draw(), file)
        write_atomically(self.file, f"{self.text}\n".encode())
        return [*files, self.file]


def figure_file(page: Path, figure: Figure) -> Path:
    """Return the file of a figure, in a folder of the page's own: other pages may be made of the same lines."""
    return page.with_suffix("") / f"{figure.name}.png"


def draft_page(plan: Plan, experiments: Sequence[Experiment], folder: Path, file: Path, command: str) -> Draft:
    """Compose the page of these experiments, or raise `MissingRuns` where a run has no line.

    folder : of the lines, perhaps with notes. command : that of the lines and the page, without experiments, for
    captions.
    """

    def link(figure: Figure) -> str:
        return Path(os.path.relpath(figure_file(file, figure), file.parent)).as_posix()

    ordered = sorted(experiments, key=lambda experiment: EXPERIMENTS.index(experiment.name))
    page = Page(Results(plan, ordered, command), folder, link)
    return Draft(file, compose(page), page.figures)


def compose(page: Page) -> str:
    """Return the text of a page; every number has been found when this returns."""
    results = page.results
    (name,) = {experiment.page for experiment in results.experiments.values()}
    if name == "results":
        return page.render(f"pages/{name}", **_results_context(page))
    context = {"whole_command": results.whole_command}
    for experiment, cells in results.cells.items():
        context |= SECTIONS[experiment](results, cells)
    return page.render(f"pages/{name}", **context)


def _results_context(page: Page) -> dict[str, Any]:
    results = page.results

    def body(name: str) -> str:
        return page.render(f"sections/{name}", **SECTIONS[name](results, results.cells[name]))

    return {
        "whole_command": results.whole_command,
        "data_table": data_table(results),
        "min_cell": MIN_CELL,
        "sections": [experiment for name, experiment in results.experiments.items() if results.cells[name]],
        "body": body,
        "warnings": warnings_table(results),
        "tuning": tuning_tables(results),
        "tuning_criteria": " and ".join(TUNING_CRITERIA),
        "tuning_places": " and ".join(str(place + 1) for place in TUNING_PLACES),
        "hours": hours_table(results),
    }
