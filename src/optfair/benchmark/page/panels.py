"""A panel: the frontiers of all methods of one kind, for one criterion on some people; and who wins there.

    gain = area of ours − area of theirs, of the same seed, in points of accuracy

Areas reach to the violation of plain training of the same seed. A frontier goes through the rule that its method starts
from: plain training, unless it stands on one model of the pair (group, class); then the argmax of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optfair.benchmark.areas import Mean, area, mean
from optfair.benchmark.page.results import Cell, Results, difference, pick, unique
from optfair.benchmark.plan import PAIR, PLAIN

KINDS = {"in": "In-processing", "post": "Post-processing"}


@dataclass(frozen=True)
class Side:
    """Who takes part: a method, by what it answers or by its likeliest class."""

    method: str
    title: str
    ours: bool
    answers: str = "answers"

    def of(self, cell: Cell) -> Cell:
        """The cell, judged by what this side answers."""
        return cell.likeliest() if self.answers == "argmax" else cell


@dataclass(frozen=True, eq=False)
class Panel:
    """plain : plain training. cells : of each side, along its knob. starts : the rule that each side starts from."""

    data: str
    criterion: str
    kind: str
    plain: Cell
    cells: dict[Side, list[Cell]]
    starts: dict[Side, Cell]

    @property
    def ours(self) -> list[Side]:
        return [side for side in self.cells if side.ours]

    @property
    def theirs(self) -> list[Side]:
        return [side for side in self.cells if not side.ours]

    @property
    def judgeable(self) -> bool | None:
        """Whether plain training is less fair than chance makes a fair one look; None: there is none."""
        return self.plain.mean("violation").value > self.floor if self.plain.each("floor") else None

    @property
    def floor(self) -> float:
        return self.plain.mean("floor").value if self.plain.each("floor") else 0.0

    def points(self, side: Side, seed: int) -> list[tuple[float, float]]:
        """(violation, accuracy in %) along the knob, and where it starts; without what a method cannot."""
        own = _points(self.cells[side], seed)
        return own + _points([self.starts[side]], seed) if own else own

    def areas(self, side: Side, other: Side | None = None) -> dict[int, float]:
        """seed -> area in %, of the seeds with at least one rule. other : only where both it and this have rules."""
        violation, floor = self.plain.each("violation"), self.plain.each("floor")
        found = {}
        for line in self.plain.lines:
            seed = line["run"]["seed"]
            sides = [self.points(each, seed) for each in (side, other) if each is not None]
            if seed in violation and all(sides):
                fairest = [min(v for v, _ in points) for points in sides if other is not None]
                low = max([floor[seed], *fairest])
                found[seed] = area(sides[0], violation[seed], 100 * line["constant"], low)
        return found

    def gain(self, ours: Side, theirs: Side, *, shared: bool = False) -> Mean | None:
        """Paired, over the seeds; None where one of them has no rule at any. shared : only where both have rules."""
        both = (ours, theirs) if shared else (None, None)
        found = difference(self.areas(ours, both[1]), self.areas(theirs, both[0]))
        return mean(found) if found else None

    def errors(self, side: Side) -> list[str]:
        return [error for cell in self.cells[side] for error in cell.errors]


def _points(cells: Sequence[Cell], seed: int) -> list[tuple[float, float]]:
    found = [(cell.each("violation"), cell.each("accuracy")) for cell in cells]
    return [(violation[seed], accuracy[seed]) for violation, accuracy in found if seed in violation]


def panels(results: Results, cells: Sequence[Cell]) -> list[Panel]:
    """Every panel of the frontiers, kind by kind."""
    found = []
    for kind in KINDS:
        methods = [name for name in unique(cell.method for cell in cells) if _swept(results, name, kind)]
        for criterion in unique(cell.criterion for cell in cells if cell.method in methods):
            for data in unique(cell.data for cell in cells):
                plain = {name: pick(cells, data=data, method=name)[0].by(criterion) for name in (PLAIN, PAIR)}
                own: dict[Side, list[Cell]] = {}
                starts: dict[Side, Cell] = {}
                for method in methods:
                    along = pick(cells, data=data, method=method, criterion=criterion)
                    for side in sides(results, method):
                        own[side] = [side.of(cell) for cell in along]
                        starts[side] = plain[results.plan.start(method, results.plan.choice(data, method))]
                found.append(Panel(data, criterion, kind, plain[PLAIN], own, starts))
    return found


def _swept(results: Results, method: str, kind: str) -> bool:
    known = results.plan.methods[method]
    return known.kind.kind == kind and known.kind.knob is not None and not known.anchor


def sides(results: Results, method: str) -> list[Side]:
    """A method, in each of its ways to answer."""
    known = results.plan.methods[method]
    if len(known.ways) == 1:
        return [Side(method, known.title, known.ours)]
    words = {"answers": "drawn", "argmax": "argmax"}
    return [Side(method, f"{known.title}, {words[way]}", known.ours, way) for way in known.ways]
