"""Compare the frontiers of all methods of one kind, for one criterion on some data: a panel.

    gain = area of OptFair − area of the rival, of the same seed, in points of accuracy

Areas reach to the violation of plain training of the same seed. A frontier goes through the rule that its method starts
from: plain training, unless it stands on one model of the pair (group, class); then the argmax of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.areas import Mean, area, mean
from experiments.page.results import Cell, Results, difference, pick, unique
from experiments.plan import JOINT, PLAIN

KINDS = {"in": "In-processing", "post": "Post-processing"}
DECISIONS = {"answers": "drawn", "argmax": "argmax"}


@dataclass(frozen=True)
class Competitor:
    """A method, scored by its predictions or by its likeliest class."""

    method: str
    title: str
    is_optfair: bool
    decision: str = "answers"

    def of(self, cell: Cell) -> Cell:
        """Return the cell, scored by the decision of this competitor."""
        return cell.decided(self.decision)


@dataclass(frozen=True, eq=False)
class Panel:
    """plain : plain training. cells : of each competitor, along its knob. starts : the rule that each starts from."""

    data: str
    criterion: str
    kind: str
    plain: Cell
    cells: dict[Competitor, list[Cell]]
    starts: dict[Competitor, Cell]
    _areas: dict[tuple[Competitor, Competitor | None], dict[int, float]] = field(default_factory=dict)  # computed once

    @property
    def optfair(self) -> list[Competitor]:
        """Return the methods of this library."""
        return [competitor for competitor in self.cells if competitor.is_optfair]

    @property
    def rivals(self) -> list[Competitor]:
        """Return the methods of others."""
        return [competitor for competitor in self.cells if not competitor.is_optfair]

    @property
    def judgeable(self) -> bool | None:
        """Tell whether the violation of plain training is above its noise floor; None if it has no number."""
        return self.plain.mean("violation").value > self.floor if self.plain.by_seed("floor") else None

    @property
    def floor(self) -> float:
        """Return the noise floor of plain training."""
        return self.plain.mean("floor").value if self.plain.by_seed("floor") else 0.0

    def points(self, competitor: Competitor, seed: int) -> list[tuple[float, float]]:
        """Return (violation, accuracy in %) along the knob, and of the start; without runs that failed."""
        points = _points(self.cells[competitor], seed)
        return points + _points([self.starts[competitor]], seed) if points else points

    def areas(self, competitor: Competitor, other: Competitor | None = None) -> dict[int, float]:
        """Map seeds to the area in %, where there is a rule. other : only above the fairest rule of either."""
        if (competitor, other) not in self._areas:
            self._areas[competitor, other] = self._compute_areas(competitor, other)
        return self._areas[competitor, other]

    def _compute_areas(self, competitor: Competitor, other: Competitor | None) -> dict[int, float]:
        violation, floor = self.plain.by_seed("violation"), self.plain.by_seed("floor")
        areas = {}
        for line in self.plain.lines:
            seed = line["run"]["seed"]
            frontiers = [self.points(side, seed) for side in (competitor, other) if side is not None]
            if seed in violation and all(frontiers):
                fairest = [min(v for v, _ in points) for points in frontiers if other is not None]
                low = max([floor[seed], *fairest])
                areas[seed] = area(frontiers[0], violation[seed], 100 * line["constant"], low)
        return areas

    def gain(self, optfair: Competitor, rival: Competitor, *, common: bool = False) -> Mean | None:
        """Return the paired gain over the seeds, or None without pairs. common : only where both have rules."""
        left, right = (rival, optfair) if common else (None, None)
        gains = difference(self.areas(optfair, left), self.areas(rival, right))
        return mean(gains) if gains else None

    def errors(self, competitor: Competitor) -> list[str]:
        """Return the errors of the runs of a competitor."""
        return [error for cell in self.cells[competitor] for error in cell.errors]


def _points(cells: Sequence[Cell], seed: int) -> list[tuple[float, float]]:
    pairs = [(cell.by_seed("violation"), cell.by_seed("accuracy")) for cell in cells]
    return [(violation[seed], accuracy[seed]) for violation, accuracy in pairs if seed in violation]


def make_panels(results: Results, cells: Sequence[Cell]) -> list[Panel]:
    """Return every panel of the frontiers, kind by kind."""
    panels = []
    for kind in KINDS:
        methods = [name for name in unique(cell.method for cell in cells) if _is_swept(results, name, kind)]
        for criterion in unique(cell.criterion for cell in cells if cell.method in methods):
            for data in unique(cell.data for cell in cells):
                plain = {name: pick(cells, data=data, method=name)[0].by(criterion) for name in (PLAIN, JOINT)}
                frontiers: dict[Competitor, list[Cell]] = {}
                starts: dict[Competitor, Cell] = {}
                for method in methods:
                    along = pick(cells, data=data, method=method, criterion=criterion)
                    start = results.plan.start_method(method, results.plan.choice(data, method))
                    for competitor in competitors(results, method):
                        frontiers[competitor] = [competitor.of(cell) for cell in along]
                        starts[competitor] = plain[start]
                panels.append(Panel(data, criterion, kind, plain[PLAIN], frontiers, starts))
    return panels


def _is_swept(results: Results, method: str, kind: str) -> bool:
    plan = results.plan.methods[method]
    return plan.kind.kind == kind and plan.kind.knob is not None and not plan.anchor


def competitors(results: Results, method: str) -> list[Competitor]:
    """Return a method in each of its ways to decide."""
    plan = results.plan.methods[method]
    if len(plan.decisions) == 1:
        return [Competitor(method, plan.title, plan.is_optfair)]
    return [
        Competitor(method, f"{plan.title}, {DECISIONS[decision]}", plan.is_optfair, decision)
        for decision in plan.decisions
    ]


def curve(side: Competitor, cells: Sequence[Cell], x: str = "violation", y: str = "accuracy") -> dict[str, Any]:
    """Return means along a knob, as pictures take them, without cells that have no number."""
    scored = [cell for cell in cells if cell.by_seed(y)]
    xs = [float(cell.value or 0.0) if x == "value" else cell.mean(x).value for cell in scored]
    ys = [cell.mean(y).value for cell in scored]
    return {"method": side.method, "decision": side.decision, "label": side.title, "x": xs, "y": ys}
