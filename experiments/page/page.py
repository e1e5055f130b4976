"""Compose a page: its text from a template, numbers only from lines, its pictures in a folder beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.page.style import Figure
from experiments.page.templates import SUFFIX, PageTextError, Renderer, on_this_page, rewrapped
from optfair.utils.files import write_atomically

PICTURES = "pictures"  # the folder beside the pages
NOTES = "notes"  # the folder beside the lines


@dataclass(frozen=True)
class Draft:
    """A page whose numbers have all been found; nothing is written yet. file : where it goes."""

    file: Path
    text: str
    figures: tuple[Figure, ...] = field(default=())

    def write(self) -> list[Path]:
        """Draw the pictures, write the page, and return the files."""
        folder = self.file.parent / PICTURES
        (folder if self.figures else self.file.parent).mkdir(parents=True, exist_ok=True)
        files = [folder / f"{figure.name}.svg" for figure in self.figures]
        for figure, file in zip(self.figures, files, strict=True):
            figure.save(file)
        write_atomically(self.file, f"{self.text}\n".encode())
        return [*files, self.file]


class PageWriter:
    """Drafts pages. notes : folder of the texts beside the lines, or None. functions : what all templates may use."""

    def __init__(self, notes: Path | None = None, functions: Mapping[str, Any] | None = None) -> None:
        self._notes, self._figures = notes, list[Figure]()
        self.renderer = Renderer(notes, {"picture": self._picture, **(functions or {})})

    def draft(self, template: str, file: Path, **context: Any) -> Draft:
        """Return the page of a template; every number has been found when this returns."""
        self._figures = []
        answer, findings = self.note(file.stem, **context)
        whole = {"answer": answer, "findings": findings, "note": self.note, **context}
        text = self.renderer.render(f"pages/{template}", **whole)
        return Draft(file, rewrapped(on_this_page(text)), tuple(self._figures))

    def note(self, name: str, **context: Any) -> tuple[str, str]:
        """Return the answer and the findings of a note, the text before and from its first heading; or nothing."""
        if self._notes is None or not (self._notes / f"{name}{SUFFIX}").exists():
            return "", ""
        text = on_this_page(self.renderer.render(f"{NOTES}/{name}", **context))
        answer, mark, findings = f"\n{text}".partition("\n## ")
        return answer.strip(), f"{mark}{findings}".strip()

    def check_notes(self, names: set[str]) -> None:
        """Raise `PageTextError` where there is a note of nothing."""
        for file in sorted(self._notes.glob(f"*{SUFFIX}")) if self._notes else ():
            if file.name.removesuffix(SUFFIX) not in names:
                raise PageTextError(f"{file}: is the note of no page; there are {', '.join(sorted(names))}.")

    def _picture(self, figure: Figure) -> str:
        """Show a picture, here and in the folder of pictures."""
        if figure.name not in {drawn.name for drawn in self._figures}:
            self._figures.append(figure)
        return f"![{figure.alt}]({PICTURES}/{figure.name}.svg)"
