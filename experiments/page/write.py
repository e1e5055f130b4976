"""Draft the pages of all experiments asked for: lines → cells → tables and figures → Markdown, complete or not written.

For the same lines they are the same, byte for byte. A number whose run is missing fails before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.catalogue import EXPERIMENTS, SHARED_PAGES, Experiment, pages_of
from experiments.page.comparisons import installed, labels, networks
from experiments.page.extensions import growing_seconds, posteriors, tolerance, truth
from experiments.page.frontiers import frontiers
from experiments.page.lookups import Lookups
from experiments.page.page import NOTES, Draft, PageWriter
from experiments.page.paper import ablation, randomised, scalability
from experiments.page.provenance import constants, data_and_settings, data_context, runs, tuning
from experiments.page.results import Cell, Results
from experiments.page.scaling import scaling
from experiments.page.tightening import tightening

SECTIONS: dict[str, Callable[[Results, Sequence[Cell]], dict[str, Any]]] = {
    "frontiers": frontiers,
    "ablation": ablation,
    "randomised": randomised,
    "scalability": scalability,
    "tolerance": tolerance,
    "calibration": posteriors,
    "truth": truth,
    "seconds": growing_seconds,
    "installed": installed,
    "labels": labels,
    "tightening": tightening,
    "scaling": scaling,
    "networks": networks,
}
SHARED = dict(zip(SHARED_PAGES, (data_and_settings, tuning, runs), strict=True))


def draft_pages(results: Results, lines: Path, target: Path) -> list[Draft]:
    """Return the pages of these experiments, or raise `MissingRuns` where a run has no line.

    lines : the folder of the lines, perhaps with notes. target : the folder of the pages.
    """
    writer = make_writer(results, lines)
    drafts = [
        writer.draft(page, target / f"{page}.md", **page_context(results, members))
        for page, members in pages_of(results.experiments.values()).items()
        if any(results.cells[member.name] for member in members)
    ]
    if set(results.experiments) == set(EXPERIMENTS):
        facts = {"command": results.made_by()}
        drafts += [writer.draft(page, target / f"{page}.md", **facts, **make(results)) for page, make in SHARED.items()]
    return drafts


def make_writer(results: Results, lines: Path) -> PageWriter:
    """Return the writer of pages whose texts look up numbers of these results."""
    lookups = Lookups(results, lambda: writer.renderer.template)
    settings = {**constants(), "smoke": results.plan.smoke}
    writer = PageWriter(lines / NOTES, lookups.functions() | settings)
    writer.check_notes({*EXPERIMENTS, *pages_of(results.experiments.values()), *SHARED_PAGES, "posteriors"})
    return writer


def page_context(results: Results, members: Sequence[Experiment]) -> dict[str, Any]:
    """Return what the template of a page needs."""
    names = [member.name for member in members]
    cells = [cell for name in names for cell in results.cells[name]]
    titles = {"title": members[0].title, "question": members[0].question, "paper": members[0].paper}
    context = titles | data_context(results, cells) | {"command": results.made_by(*names)}
    for name in names:
        context |= SECTIONS[name](results, results.cells[name])
    return context
