"""The page of results: lines → cells → tables and figures → one Markdown file, which is whole or not there.

For the same lines it is the same, byte for byte. A number whose run is missing fails before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from optfair.benchmark.catalogue import EXPERIMENTS, Experiment
from optfair.benchmark.page.about import head, said, took, tuning
from optfair.benchmark.page.beyond import calibration, growing_seconds, tolerance, truth
from optfair.benchmark.page.figures import save
from optfair.benchmark.page.notes import Writer, read_notes
from optfair.benchmark.page.paper import ablation, randomised, scalability
from optfair.benchmark.page.results import Cell, Results
from optfair.benchmark.page.tables import Part, Picture
from optfair.benchmark.page.who_wins import frontiers
from optfair.benchmark.plan import Plan
from optfair.files import write_atomically

SECTIONS: dict[str, Callable[[Results, Sequence[Cell]], list[Part]]] = {
    "frontiers": frontiers,
    "ablation": ablation,
    "randomised": randomised,
    "scalability": scalability,
    "tolerance": tolerance,
    "calibration": calibration,
    "truth": truth,
    "seconds": growing_seconds,
}
NOTES = "notes.toml"


def write_page(plan: Plan, experiments: Sequence[Experiment], folder: Path, page: Path, command: str) -> list[Path]:
    """Write the page, and its pictures into a folder of its name; return the files.

    experiments : those of the page; their order is that of `EXPERIMENTS`. folder : of the lines, perhaps with
    notes.toml. command : `optfair bench` with its options, without experiments, for captions. Raises `MissingRuns`.
    """
    asked = sorted(experiments, key=lambda experiment: EXPERIMENTS.index(experiment.name))
    results = Results(plan, asked, command)
    parts = compose(results, folder)
    drawn = page.with_suffix("")  # its pictures are its own: other pages may be made of the same lines
    page.parent.mkdir(parents=True, exist_ok=True)
    written, text = [], []
    for part in parts:
        if isinstance(part, Picture):
            drawn.mkdir(exist_ok=True)
            file = drawn / f"{part.name}.png"
            save(part.draw(), file)
            written.append(file)
            text.append(f"![{part.alt}]({_link(file, page)})\n\n{part.caption}")
        else:
            text.append(part)
    write_atomically(page, ("\n\n".join(text) + "\n").encode())
    return [*written, page]


def compose(results: Results, folder: Path) -> list[Part]:
    """All parts of the page; every number has been found when this returns."""
    notes, writer = read_notes(folder / NOTES), Writer(results)

    def noted(section: str) -> list[Part]:
        if section not in notes:
            return []
        title, text = notes[section]
        written = writer.write(section, text)
        return [f"### {title}", written] if written else []

    parts: list[Part] = ["# Results", *head(results), *noted("head")]
    for name, experiment in results.experiments.items():
        cells = results.cells[name]
        if not cells:
            continue  # on none of the people asked for
        parts += [f"## {experiment.title}", experiment.question + _paper(experiment)]
        parts += [*SECTIONS[name](results, cells), *noted(name)]
    tried = tuning(results)
    warned = said(results)
    parts += ["## Warnings", *warned] if warned else []
    parts += ["## Tuning", *tried, *noted("tuning")] if tried else []
    time = took(results)
    return [*parts, *(["## What it took", *time, *noted("took")] if time else [])]


def _paper(experiment: Experiment) -> str:
    return f" In the paper: {experiment.paper}." if experiment.paper else " Not in the paper."


def _link(file: Path, page: Path) -> str:
    return Path(os.path.relpath(file, page.parent)).as_posix()
