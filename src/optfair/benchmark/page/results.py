"""What the lines say: a cell is one method with one setting on some people, a line per seed.

    number of a cell = mean over its seeds ± half a 90 % interval (Student's t)

A number is looked up by the run that makes it. A run without a line fails: nothing on the page is guessed, or blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from optfair.benchmark.areas import Mean, mean
from optfair.benchmark.catalogue import EXPERIMENTS, Experiment, read_plan
from optfair.benchmark.plan import Plan, Run, TrialsFirst

CRITERIA = {"dp": "demographic parity", "eop": "equal opportunity", "eo": "equalised odds"}
SECONDS = {"seconds": "cpu_seconds", "model_seconds": "model_cpu_seconds"}  # of the processor
Line = Mapping[str, Any]


class MissingRuns(ValueError):
    """The page needs runs that have no line."""


@dataclass(frozen=True, eq=False)
class Cell:
    """value : of the knob. options : what was asked for beyond the method's own. lines : in the order of the seeds.

    answers : "answers", what `predict` gave; or "argmax", the likeliest class where answers are drawn.
    """

    data: str
    method: str
    criterion: str
    value: float | None
    options: Mapping[str, Any]
    lines: tuple[Line, ...]
    answers: str = "answers"

    def likeliest(self) -> Cell:
        return replace(self, answers="argmax")

    def on(self, seeds: Iterable[int]) -> Cell:
        """Of these seeds only."""
        kept = set(seeds)
        return replace(self, lines=tuple(line for line in self.lines if line["run"]["seed"] in kept))

    def by(self, criterion: str) -> Cell:
        """Judged by another criterion than it was asked for: what has no knob is run once for all of them."""
        return replace(self, criterion=criterion)

    @property
    def seeds(self) -> list[int]:
        return [line["run"]["seed"] for line in self.lines]

    @property
    def errors(self) -> list[str]:
        return [line["error"] for line in self.lines if "error" in line]

    def each(self, what: str) -> dict[int, float]:
        """seed -> accuracy (%), violation, floor, seconds, model_seconds, regret (%) or true_violation."""
        return {line["run"]["seed"]: self._take(line, what) for line in self.lines if "error" not in line}

    def _take(self, line: Line, what: str) -> float:
        if what in SECONDS:
            if SECONDS[what] not in line:
                run = line["run"]
                raise MissingRuns(f"{run['method']} on {run['data']}, seed {run['seed']}: its line has no {what}.")
            return float(line[SECONDS[what]])
        if what in ("regret", "true_violation"):
            truth = line["truth"] if self.answers == "answers" else line["truth"][self.answers]
            return 100 * float(truth["regret"]) if what == "regret" else float(truth["violation"])
        own = line["scores"][self.answers]
        return 100 * float(own["accuracy"]) if what == "accuracy" else float(own[what][self.criterion])

    def mean(self, what: str) -> Mean:
        return mean(list(self.each(what).values()))


def difference(left: Mapping[int, float], right: Mapping[int, float]) -> list[float]:
    """left − right of the seeds that both have."""
    return [value - right[seed] for seed, value in left.items() if seed in right]


class Results:
    """The cells of the experiments of a page. command : `optfair bench` with its options, without experiments."""

    def __init__(self, plan: Plan, experiments: Sequence[Experiment], command: str) -> None:
        self.plan, self.command = plan, command
        self.experiments = {experiment.name: experiment for experiment in experiments}
        self.cells = {experiment.name: self._read(experiment) for experiment in experiments}
        self._people: dict[str, Line] = {}
        for line in (line for cells in self.cells.values() for cell in cells for line in cell.lines):
            if "n" in line:  # a run that was stopped cannot say
                self._people.setdefault(line["run"]["data"], line)

    def _read(self, experiment: Experiment) -> list[Cell]:
        try:
            runs = self.plan.runs(experiment)
        except TrialsFirst as first:
            raise self._missing(first.runs, experiment.name, "trials") from None
        missing = [run for run in runs if run.key not in self.plan.lines]
        if missing:
            raise self._missing(missing, experiment.name, "runs")
        found = {}
        for data, method, criterion, value, options in self.plan.asked(experiment):
            cell = self._cell(data, method, criterion, value, options)
            found[tuple(id(line) for line in cell.lines)] = cell  # tables may ask for the same twice
        return list(found.values())

    def _cell(self, data: str, method: str, criterion: str, value: float | None, options: Mapping[str, Any]) -> Cell:
        lines = []
        for seed in self.plan.seeds(self.plan.data[data]):
            run = self.plan.run(data, method, criterion, value, seed, options)
            lines.append(self.plan.lines[run.key])
        return Cell(data, method, criterion, value, options, tuple(lines))

    def _missing(self, runs: Sequence[Run], experiment: str, what: str) -> MissingRuns:
        return MissingRuns(
            f"{experiment}: {len(runs)} {what} have no line, the first of them {told(runs[0])}; "
            f"`{self.made_by(experiment)}` makes them."
        )

    def made_by(self, experiment: str) -> str:
        return " ".join([self.command, experiment, *self._only])

    @property
    def _only(self) -> list[str]:
        return [f"--data {quote(name)}" for name in self.plan.only]

    @property
    def is_partial(self) -> bool:
        """Of some experiments, or of some people only."""
        return bool(self.plan.only) or set(self.experiments) != set(EXPERIMENTS)

    @property
    def whole_command(self) -> str:
        """What writes this page, and no other: with its experiments and people, unless it has all of them."""
        names = () if set(self.experiments) == set(EXPERIMENTS) else tuple(self.experiments)
        return " ".join([self.command, *names, *self._only])

    # -- names and people ----------------------------------------------------------------------------------
    def title(self, method: str) -> str:
        return self.plan.methods[method].title

    def data_title(self, data: str) -> str:
        return self.plan.data[data].title

    def people(self, data: str) -> Line | None:
        """A line that says how many they are and what they stand in for; None where every run was stopped."""
        return self._people.get(data)

    def stand_in(self, data: str) -> str | None:
        line = self.people(data)
        return None if line is None else line["stand_in"]


def told(run: Run) -> str:
    value = "" if run.value is None else f" {run.value:g}"
    return f"{run.method} on {run.data}, {run.criterion}{value}, seed {run.seed} ({run.part})"


def pick(cells: Iterable[Cell], **wanted: Any) -> list[Cell]:
    """The cells with these attributes, in their order."""
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def unique(values: Iterable[Any]) -> list[Any]:
    """Each once, in the order in which they come."""
    return list(dict.fromkeys(values))


def published() -> dict[str, Any]:
    """The numbers of others, with their sources."""
    return read_plan("published")
