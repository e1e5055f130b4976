"""Look up the numbers that templates name, as {{ accuracy(data="adult", method="OptFairPost", …) }}.

A name that no run of the page fits fails. On a page of some experiments or data only, a lookup of the others returns
`NOT_ON_THIS_PAGE`, and the paragraph around it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from experiments.catalogue import EXPERIMENTS, published, read_experiment
from experiments.page.panels import Panel, make_panels
from experiments.page.results import Cell, MissingRuns, Results, pick
from experiments.page.tables import DIGITS, cannot, number, seconds, within
from experiments.page.templates import NOT_ON_THIS_PAGE, PageTextError

QUANTITIES = ("accuracy", "violation", "floor", "seconds", "model_seconds", "regret", "true_violation")
GAIN_NAMES = {"kind", "data", "criterion", "against"}


class NotOnThisPage(Exception):
    """A template names runs of data or experiments that the page is not about."""


class Lookups:
    """The functions by which templates name numbers. template : returns the name of the one that is rendered."""

    def __init__(self, results: Results, template: Callable[[], str]) -> None:
        self.results, self._template = results, template
        self._panels: list[Panel] | None = None

    def functions(self) -> dict[str, Callable[..., str]]:
        """Return all functions by their names."""
        functions: dict[str, Callable[..., str]] = dict.fromkeys(QUANTITIES, self._quantity)
        functions |= {"gain": self._gain, "knob": self._knob, "published": self._published, "rows": self._rows}
        functions |= {"kept": self._kept}
        return {name: partial(self._look_up, name, function) for name, function in functions.items()}

    def _look_up(self, name: str, function: Callable[..., str], *values: Any, **names: Any) -> str:
        arguments = ", ".join([*map(repr, values), *(f"{key}={value!r}" for key, value in names.items())])
        call = f"{self._template()}: {name}({arguments})"
        takes_names = name in (*QUANTITIES, "gain", "kept")
        if takes_names and values:
            raise PageTextError(f"{call}: its arguments are name=value.")
        if not takes_names and (len(values) != 1 or names):
            raise PageTextError(f"{call}: takes one value.")
        try:
            return function(call, name, *values) if not takes_names else function(call, name, names)
        except NotOnThisPage:
            return NOT_ON_THIS_PAGE

    # -- a number of a cell --------------------------------------------------------------------------------
    def _quantity(self, call: str, quantity: str, names: dict[str, Any]) -> str:
        names = dict(names)
        decision, criterion = names.pop("decision", None), names.get("criterion")
        cell = self._cell(call, names)
        cell = cell if decision is None else cell.decided(decision)
        if len(cell.errors) == len(cell.lines):
            raise PageTextError(f"{call}: has no number, the method {cannot(cell.errors)}.")
        value = (cell.by(criterion) if criterion else cell).mean(quantity)
        return seconds(value) if "seconds" in quantity else number(value, DIGITS[quantity])

    def _cell(self, call: str, names: dict[str, Any]) -> Cell:
        """Return the only cell that fits, preferably one that was asked for with just these options."""
        fixed: dict[str, Any] = {
            name: names[name] for name in ("data", "method", "criterion", "value") if name in names
        }
        options = {name: value for name, value in names.items() if name not in fixed}
        fits = [
            cell
            for cell in self.results.all_cells
            if self._matches(cell, fixed) and all(cell.options.get(name) == value for name, value in options.items())
        ]
        exact = [cell for cell in fits if dict(cell.options) == options]
        cells = {tuple(map(id, cell.lines)): cell for cell in exact or fits}  # experiments share runs
        if len(cells) == 1:
            return next(iter(cells.values()))
        if not cells:
            self._check_page(fixed, options)
            raise MissingRuns(f"{call}: no run of these pages is like that.")
        raise PageTextError(f"{call}: {len(cells)} settings fit; say data, method, criterion, value and options.")

    def _matches(self, cell: Cell, fixed: Mapping[str, Any]) -> bool:
        method = self.results.plan.methods[cell.method]
        once = method.anchor or method.kind.knob is None  # one run for all criteria
        names = [name for name in fixed if not (once and name in ("criterion", "value"))]
        return all(getattr(cell, name) == fixed[name] for name in names)

    def _check_page(self, fixed: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Raise `NotOnThisPage` where these data, this method or these options exist, but not on this page."""
        if not self.results.is_partial:
            return
        plan, cells = self.results.plan, self.results.all_cells
        for name, names in (("data", plan.data), ("method", plan.methods)):
            if fixed.get(name) in names and all(getattr(cell, name) != fixed[name] for cell in cells):
                raise NotOnThisPage
        absent = [read_experiment(name) for name in EXPERIMENTS if name not in self.results.experiments]
        tables = [table for experiment in absent for table in experiment.tables]
        settings = [
            setting
            for table in tables
            if fixed.get("method") in table["methods"]
            for setting in table.get("options", ())
        ]
        if options and any(options.items() <= setting.items() for setting in settings):
            raise NotOnThisPage

    # -- other numbers -------------------------------------------------------------------------------------
    def _kept(self, call: str, _: str, names: dict[str, Any]) -> str:
        """Return how many of how many runs are within tolerance + noise floor, over all tolerances."""
        cells = pick(self.results.cells.get("tolerance", ()), **names)
        if not cells:
            self._check_page({name: names[name] for name in ("data", "method") if name in names}, {})
            raise MissingRuns(f"{call}: no run of these pages is like that.")
        return within(cells)

    def _gain(self, call: str, name: str, names: dict[str, Any]) -> str:
        if not set(names) >= GAIN_NAMES:
            raise PageTextError(f"{call}: needs kind, data, criterion and against.")
        if self._panels is None:
            if "frontiers" not in self.results.cells:
                raise NotOnThisPage
            self._panels = make_panels(self.results, self.results.cells["frontiers"])
        key = names["kind"], names["data"], names["criterion"]
        for panel in (panel for panel in self._panels if (panel.kind, panel.data, panel.criterion) == key):
            method = names.get("of", panel.optfair[0].method)
            rival = names["against"], names.get("decision", "answers")
            left = [side for side in panel.optfair if side.method == method]
            right = [side for side in panel.rivals if (side.method, side.decision) == rival]
            if left and right:
                gain = panel.gain(left[0], right[0])
                if gain is None:
                    raise PageTextError(f"{call}: has no number, one of the methods cannot.")
                return number(gain, DIGITS[name], sign=True)
        self._check_page({"data": names["data"]}, {})
        raise MissingRuns(f"{call}: no panel of these pages is like that.")

    def _knob(self, call: str, _: str, value: float) -> str:
        """Return a setting, not a result: one that was run."""
        cells = self.results.all_cells
        values: set[Any] = {cell.value for cell in cells}
        values |= {option for cell in cells for option in cell.options.values() if isinstance(option, float)}
        if value not in values:
            grids = {float(step) for method in self.results.plan.methods.values() for step in method.grid}
            if self.results.is_partial and value in grids:
                raise NotOnThisPage
            raise PageTextError(f"{call}: nothing on these pages was run with it.")
        return f"{value:g}"

    def _rows(self, call: str, _: str, data: str) -> str:
        """Return how many rows data have, training and test part together."""
        line = self.results.data_line(data)
        if line is None:
            self._check_page({"data": data}, {})
            raise MissingRuns(f"{call}: no run of these pages is on such data.")
        return f"{sum(line['n']):,}"

    def _published(self, call: str, _: str, key: str) -> str:
        """Return a number of published.toml by its dotted key."""
        entry: Any = published()
        for name in key.split("."):
            if not isinstance(entry, Mapping) or name not in entry:
                raise PageTextError(f"{call}: published.toml has no {key}.")
            entry = entry[name]
        if isinstance(entry, Mapping | list):
            raise PageTextError(f"{call}: is more than one number.")
        return str(entry)
