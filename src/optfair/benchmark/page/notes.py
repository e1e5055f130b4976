"""Notes to a section, written by hand in notes.toml; their numbers are not: they are named, and looked up.

    [frontiers]
    text = "On Adult it has {accuracy data=adult method=OptFairPost criterion=dp value=0.01} %."

A bare number is refused: it would stay as it is when the runs change. ``title`` heads it. On a page of some experiments
or people only, paragraphs that name runs of others are left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optfair.benchmark.catalogue import EXPERIMENTS, read_experiment
from optfair.benchmark.page.panels import Panel, panels
from optfair.benchmark.page.results import Cell, MissingRuns, Results, published
from optfair.benchmark.page.tables import DIGITS, cannot, number, seconds

NAMED = re.compile(r"\{([^{}]*)\}")
BARE = re.compile(r"(?<![A-Za-z\d])\.?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")  # C1 is a name
QUANTITIES = ("accuracy", "violation", "floor", "seconds", "model_seconds", "regret", "true_violation")
SECTIONS = ("head", *EXPERIMENTS, "tuning", "took")


class NoteError(ValueError):
    """A note that cannot be printed as it is."""


class Elsewhere(Exception):
    """A note names runs of people or experiments that this page is not about."""


def read_notes(file: Path) -> dict[str, tuple[str, str]]:
    """section -> (title, text); none where there is no such file."""
    if not file.exists():
        return {}
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NoteError(f"{file}: is no TOML ({error}).") from None
    notes = {}
    for section, own in found.items():
        if section not in SECTIONS:
            raise NoteError(f"{file}: [{section}] is no section; there are {', '.join(SECTIONS)}.")
        if not isinstance(own, dict) or not isinstance(own.get("text"), str):
            raise NoteError(f'{file}: [{section}] needs text = "…".')
        title = str(own.get("title", "Reading notes"))
        if BARE.search(title):
            raise NoteError(f"{file}: [{section}] has a number in its title.")
        notes[section] = title, own["text"]
    return notes


class Writer:
    """Puts the numbers of the lines into notes."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._panels: list[Panel] | None = None

    def write(self, section: str, text: str) -> str:
        bare = BARE.search(NAMED.sub("", text))
        if bare:
            raise NoteError(
                f"note to {section}: {bare.group()} is a bare number; name it instead, as in "
                "{accuracy data=adult method=OptFairPost criterion=dp value=0.01}."
            )
        written = []
        for paragraph in re.split(r"\n\s*\n", text.strip()):
            try:
                written.append(NAMED.sub(lambda match: self._resolve(section, match.group(1)), paragraph))
            except Elsewhere:
                continue
        return "\n\n".join(written)

    def _resolve(self, section: str, text: str) -> str:
        what, *words = text.split() or [""]
        where = f"note to {section}: {{{text}}}"
        if what in ("published", "knob"):
            if len(words) != 1:
                raise NoteError(f"{where}: takes one word, not {len(words)}.")
            return _published(words[0], where) if what == "published" else self._knob(words[0], where)
        pairs = [word.partition("=") for word in words]
        if not all(equals and value for _, equals, value in pairs):
            raise NoteError(f"{where}: arguments are name=value.")
        given = {name: value for name, _, value in pairs}
        if what == "gain":
            return self._gain(given, where)
        if what not in QUANTITIES:
            raise NoteError(f"{where}: unknown; there are {', '.join((*QUANTITIES, 'gain', 'knob', 'published'))}.")
        answers, criterion = given.pop("answers", "answers"), given.get("criterion")
        cell = self._cell(given, where)
        if not cell.each("accuracy"):
            raise NoteError(f"{where}: has no number, the method {cannot(cell.errors)}.")
        cell = cell.likeliest() if answers == "argmax" else cell
        found = (cell.by(criterion) if criterion else cell).mean(what)
        return seconds(found) if "seconds" in what else number(found, DIGITS[what])

    def _cell(self, given: dict[str, str], where: str) -> Cell:
        """The only cell that fits; one that was asked for with just these options before others."""
        asked = {name: _value(text) for name, text in given.items()}
        fixed: dict[str, Any] = {
            name: asked.pop(name) for name in ("data", "method", "criterion", "value") if name in asked
        }
        plans, found = self.results.plan.methods, []
        for cell in (cell for cells in self.results.cells.values() for cell in cells):
            method = plans[cell.method]
            alike = dict(fixed)
            if method.anchor or method.kind.knob is None:  # one run for all criteria
                alike = {name: value for name, value in fixed.items() if name not in ("criterion", "value")}
            own = all(getattr(cell, name) == value for name, value in alike.items())
            if own and all(cell.options.get(name) == value for name, value in asked.items()):
                found.append(cell)
        exact = [cell for cell in found if dict(cell.options) == asked]
        fit = {tuple(map(id, cell.lines)): cell for cell in exact or found}  # experiments share runs
        if len(fit) == 1:
            return next(iter(fit.values()))
        if not fit:
            self._elsewhere(fixed, asked, where)
            raise MissingRuns(f"{where}: no run of this page is like that.")
        raise NoteError(f"{where}: {len(fit)} settings fit; say data, method, criterion, value and options.")

    def _elsewhere(self, fixed: Mapping[str, Any], options: Mapping[str, Any], where: str) -> None:
        """Raise where these people, this method or these options are known, but not on this page."""
        if self.results.is_partial:
            cells = [cell for own in self.results.cells.values() for cell in own]
            for name, known in (("data", self.results.plan.data), ("method", self.results.plan.methods)):
                if fixed.get(name) in known and all(getattr(cell, name) != fixed[name] for cell in cells):
                    raise Elsewhere(where)
            others = [read_experiment(name) for name in EXPERIMENTS if name not in self.results.experiments]
            tables = [
                own for experiment in others for own in experiment.tables if fixed.get("method") in own["methods"]
            ]
            if options and any(options.items() <= own.items() for table in tables for own in table.get("options", ())):
                raise Elsewhere(where)

    def _gain(self, given: dict[str, str], where: str) -> str:
        if not {"kind", "data", "criterion", "against"} <= set(given):
            raise NoteError(f"{where}: needs kind, data, criterion and against.")
        if self._panels is None:
            cells = self.results.cells.get("frontiers")
            if cells is None:
                raise Elsewhere(where)
            self._panels = panels(self.results, cells)
        key = given["kind"], given["data"], given["criterion"]
        for panel in (panel for panel in self._panels if (panel.kind, panel.data, panel.criterion) == key):
            ours = [side for side in panel.ours if side.method == given.get("of", panel.ours[0].method)]
            answers = given.get("answers", "answers")
            theirs = [side for side in panel.theirs if (side.method, side.answers) == (given["against"], answers)]
            if ours and theirs:
                found = panel.gain(ours[0], theirs[0])
                if found is None:
                    raise NoteError(f"{where}: has no number, one of the methods cannot.")
                return number(found, DIGITS["gain"], sign=True)
        self._elsewhere({"data": given["data"]}, {}, where)
        raise MissingRuns(f"{where}: no panel of this page is like that.")

    def _knob(self, text: str, where: str) -> str:
        """A setting, not a result: one that was run."""
        cells = [cell for cells in self.results.cells.values() for cell in cells]
        settings: set[Any] = {cell.value for cell in cells}
        settings |= {value for cell in cells for value in cell.options.values() if isinstance(value, float)}
        if _value(text) not in settings:
            known = {float(value) for method in self.results.plan.methods.values() for value in method.grid}
            if self.results.is_partial and _value(text) in known:
                raise Elsewhere(where)
            raise NoteError(f"{where}: nothing on this page was run with it.")
        return text


def _published(key: str, where: str) -> str:
    found: Any = published()
    for name in key.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise NoteError(f"{where}: published.toml has no {key}.")
        found = found[name]
    if isinstance(found, Mapping | list):
        raise NoteError(f"{where}: is more than one number.")
    return str(found)


def _value(text: str) -> Any:
    """What the text would be in TOML; a word is a word."""
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else found
