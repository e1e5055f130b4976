"""Compose a page: sections of tables and figures, their text from templates, numbers only from lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.catalogue import EXPERIMENTS, PAGES
from experiments.page.captions import caption_context, constants, noise_floors, stand_in
from experiments.page.lookups import Lookups
from experiments.page.results import Cell, Results
from experiments.page.tables import Figure, Table
from experiments.page.templates import (
    NOT_ON_THIS_PAGE,
    SUFFIX,
    PageTextError,
    Renderer,
    on_this_page,
    oneline,
    rewrapped,
)

NOTES = "notes"  # the folder beside the lines
Section = Callable[[Results, Sequence[Cell]], dict[str, Any]]


class Page:
    """A page in the making; ``figures`` are those that its text shows. link : where the file of a figure will be."""

    def __init__(self, results: Results, folder: Path, link: Callable[[Figure], str]) -> None:
        self.results, self._notes, self._link = results, folder / NOTES, link
        self.figures: list[Figure] = []
        lookups = Lookups(results, lambda: self.renderer.template)
        functions = {"show": self._show, "notes": self.note, "stand_in": stand_in, "floors": self._floors}
        settings = constants() | {"smoke": results.plan.smoke}
        self.renderer = Renderer(self._notes, functions | lookups.functions() | settings)
        self._check_notes()

    def render(self, template: str, **context: Any) -> str:
        """Return the text of a template; every number has been found when this returns."""
        text = self.renderer.render(template, **context)
        return on_this_page(text) if NOT_ON_THIS_PAGE in text else text

    def note(self, section: str) -> str:
        """Return the note of a section, if there is one beside the lines."""
        if not (self._notes / f"{section}{SUFFIX}").exists():
            return ""
        return rewrapped(on_this_page(self.renderer.render(f"notes/{section}")))

    def _check_notes(self) -> None:
        names = {*EXPERIMENTS, *PAGES, "tuning", "hours"}
        for file in sorted(self._notes.glob(f"*{SUFFIX}")):
            if file.name.removesuffix(SUFFIX) not in names:
                raise PageTextError(f"{file}: is the note of no section; there are {', '.join(sorted(names))}.")

    # -- functions that templates call ---------------------------------------------------------------------
    def _show(self, item: Table | Figure, *, caller: Callable[[], str], **changes: Any) -> str:
        """Show a table or a figure, with its caption around the text given. changes : of what the caption says."""
        context = caption_context(self.results, item.experiment, item.cells) | changes
        caption = oneline(self.renderer.render("caption", text=oneline(caller()), **context))
        if isinstance(item, Figure):
            self.figures.append(item)
            return f"\n\n![{item.alt}]({self._link(item)})\n\n{caption}\n\n"
        return f"\n\n{item.markdown()}\n\n{caption}\n\n"

    def _floors(self, cells: Sequence[Cell]) -> str:
        return self.renderer.render("floors", floors=noise_floors(self.results, cells))
