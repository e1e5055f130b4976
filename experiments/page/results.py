"""Read what the lines say: a cell is one method with one setting on some data, a line per seed.

    number of a cell = mean over its seeds ± half a 90 % interval (Student's t)

A number is looked up by the run that makes it. A run without a line fails: nothing on a page is guessed, or blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from experiments.areas import Mean, mean
from experiments.catalogue import EXPERIMENTS, Experiment
from experiments.plan import Plan, Run, Setting, TrialsNeeded

CRITERIA = {"dp": "demographic parity", "eop": "equal opportunity", "eo": "equalized odds"}
SECONDS = {"seconds": "cpu_seconds", "model_seconds": "model_cpu_seconds"}  # of the processor
STAND_IN = "†"  # marks data in place of the paper's
Line = Mapping[str, Any]


class MissingRuns(ValueError):
    """The pages need runs that have no line."""


@dataclass(frozen=True, eq=False)
class Cell:
    """value : of the knob. options : those asked for beyond the method's own. lines : in the order of the seeds.

    decision : "answers", the predictions; "argmax", the likeliest class where predictions are drawn; "expected", the
    probabilities; "plain", the model that training began with.
    """

    data: str
    method: str
    criterion: str
    value: float | None
    options: Mapping[str, Any]
    lines: tuple[Line, ...]
    decision: str = "answers"

    def decided(self, decision: str) -> Cell:
        """Return the cell, scored by another way to decide."""
        return replace(self, decision=decision)

    def at_seeds(self, seeds: Iterable[int]) -> Cell:
        """Return the cell of these seeds only."""
        selected = set(seeds)
        return replace(self, lines=tuple(line for line in self.lines if line["run"]["seed"] in selected))

    def by(self, criterion: str) -> Cell:
        """Return the cell, scored by another criterion; a method without a knob is run once for all criteria."""
        return replace(self, criterion=criterion)

    @property
    def seeds(self) -> list[int]:
        """Return the seeds of the lines."""
        return [line["run"]["seed"] for line in self.lines]

    @property
    def errors(self) -> list[str]:
        """Return the errors of the lines that have one."""
        return [line["error"] for line in self.lines if "error" in line]

    def by_seed(self, quantity: str) -> dict[int, float]:
        """Map seeds to accuracy (%), violation, floor, seconds, model_seconds, regret (%) or true_violation."""
        return {line["run"]["seed"]: self._number(line, quantity) for line in self.lines if "error" not in line}

    def _number(self, line: Line, quantity: str) -> float:
        try:
            return self._lookup(line, quantity)
        except (KeyError, TypeError, OverflowError):
            run, decision = line["run"], "" if self.decision == "answers" else f" of {self.decision}"
            raise MissingRuns(
                f"{run['method']} on {run['data']}, seed {run['seed']}: its line has no {quantity}{decision}; mend or "
                "remove the line."
            ) from None

    def _lookup(self, line: Line, quantity: str) -> float:
        if quantity in SECONDS:
            return float(line[SECONDS[quantity]])
        if quantity in ("regret", "true_violation"):
            truth = line["truth"] if self.decision == "answers" else line["truth"][self.decision]
            return 100 * float(truth["regret"]) if quantity == "regret" else float(truth["violation"])
        scores = line["scores"][self.decision]
        return 100 * float(scores["accuracy"]) if quantity == "accuracy" else float(scores[quantity][self.criterion])

    def mean(self, quantity: str) -> Mean:
        """Return the mean over the seeds."""
        return mean(list(self.by_seed(quantity).values()))


def difference(left: Mapping[int, float], right: Mapping[int, float]) -> list[float]:
    """Return left − right of the seeds that both have."""
    return [value - right[seed] for seed, value in left.items() if seed in right]


class Results:
    """The cells of all experiments asked for. command : that of the lines and the pages, without experiments."""

    def __init__(self, plan: Plan, experiments: Sequence[Experiment], command: str) -> None:
        self.plan, self.command = plan, command
        ordered = sorted(experiments, key=lambda experiment: EXPERIMENTS.index(experiment.name))
        self.experiments = {experiment.name: experiment for experiment in ordered}
        self.cells = {experiment.name: self._read(experiment) for experiment in ordered}
        self._lines: dict[str, Line] = {}
        for line in (line for cell in self.all_cells for line in cell.lines):
            if "n" in line:  # a run that was stopped does not say
                self._lines.setdefault(line["run"]["data"], line)

    def _read(self, experiment: Experiment) -> list[Cell]:
        try:
            runs = self.plan.runs(experiment)
        except TrialsNeeded as needed:
            raise self._missing(needed.runs, experiment.name, "trial") from None
        missing = [run for run in runs if run.key not in self.plan.lines]
        if missing:
            raise self._missing(missing, experiment.name, "run")
        cells = {}
        for setting in self.plan.settings(experiment):
            cell = self._cell(setting)
            cells[tuple(id(line) for line in cell.lines)] = cell  # tables may ask for the same twice
        return list(cells.values())

    def _cell(self, setting: Setting) -> Cell:
        data = self.plan.data[setting.data]
        lines = [self.plan.lines[self.plan.run(setting, seed).key] for seed in self.plan.seeds(data)]
        return Cell(*setting, tuple(lines), "expected" if data.expected else "answers")

    def _missing(self, runs: Sequence[Run], experiment: str, word: str) -> MissingRuns:
        first, command = described(runs[0]), f"`{self.made_by(experiment)}`"
        if len(runs) == 1:
            return MissingRuns(f"{experiment}: 1 {word} has no line, {first}; {command} makes it.")
        return MissingRuns(
            f"{experiment}: {len(runs)} {word}s have no line, the first of them {first}; {command} makes them."
        )

    @property
    def all_cells(self) -> list[Cell]:
        """Return the cells of all experiments."""
        return [cell for cells in self.cells.values() for cell in cells]

    def made_by(self, *experiments: str) -> str:
        """Return the command that makes the runs of these experiments, and their pages."""
        data = [f"--data {quote(name)}" for name in self.plan.only]
        return " ".join([self.command, *experiments, *data])

    @property
    def is_partial(self) -> bool:
        """Tell whether experiments or data are lacking."""
        return bool(self.plan.only) or set(self.experiments) != set(EXPERIMENTS)

    # -- titles and data -----------------------------------------------------------------------------------
    def title(self, method: str) -> str:
        """Return the title of a method."""
        return self.plan.methods[method].title

    def data_title(self, data: str) -> str:
        """Return the title of data, marked where they are a stand-in."""
        return self.plan.data[data].title + (STAND_IN if self.stand_in(data) else "")

    def data_line(self, data: str) -> Line | None:
        """Return a line that says how many rows there are, and what they stand in for; None if all were stopped."""
        return self._lines.get(data)

    def stand_in(self, data: str) -> str | None:
        """Return what the data stand in for, or None."""
        line = self.data_line(data)
        return None if line is None else line.get("stand_in")


def described(run: Run) -> str:
    """Return a run in words."""
    value = "" if run.value is None else f" {run.value:g}"
    return f"{run.method} on {run.data}, {run.criterion}{value}, seed {run.seed} ({run.part})"


def pick(cells: Iterable[Cell], **attributes: Any) -> list[Cell]:
    """Return the cells with these attributes, in their order."""
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in attributes.items())]


def unique(values: Iterable[Any]) -> list[Any]:
    """Return each value once, in order."""
    return list(dict.fromkeys(values))
