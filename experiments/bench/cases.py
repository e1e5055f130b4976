"""List what is measured: tasks with their sizes, and what the project asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

TOLERANCE = 0.01
TIGHT = 0.001  # of a thousand classes no rate is far from another: with 0.01 hardly a bound would bind
LIMIT = 120.0  # seconds until a run is stopped
SHRINK = 20  # rows of --small
OURS = ("previous", "present")
PEERS = ("fairlearn", "oxonfair", "error-parity")  # what pip calls them


@dataclass(frozen=True)
class Goal:
    """Ask that a quantity of the present code is at most a bound."""

    quantity: str
    bound: float


@dataclass(frozen=True)
class Case:
    """A task on n people of A groups and m classes.

    task : a function of `experiments.bench.tasks`. options : its arguments. versions : who can do it. series : the
    growth that it is a point of, or "". scattered : posteriors of a model that knows no structure, which are harder.
    """

    name: str
    task: str
    n: int
    A: int
    m: int
    options: dict[str, Any] = field(default_factory=dict)
    goals: tuple[Goal, ...] = ()
    versions: tuple[str, ...] = OURS
    series: str = ""
    scattered: bool = False

    @property
    def data(self) -> tuple[str, int, int, int]:
        """What has to be on disk: posteriors or people, and how many."""
        kind = "posteriors" if self.task in ("solve", "frontier") else "people"
        return ("scattered" if self.scattered else kind, self.n, self.A, self.m)

    def small(self) -> Case:
        """Return the same on fewer people; nothing is asked of it."""
        return replace(self, n=max(self.n // SHRINK, 1000), goals=())


def _solve(
    n: int, A: int, m: int, criterion: str, *goals: Goal, gap: float = 1e-3, tolerance: float = TOLERANCE
) -> Case:
    marks = f"{'' if tolerance == TOLERANCE else f' tolerance {tolerance:g}'}{'' if gap == 1e-3 else f' gap {gap:g}'}"
    options = {"criterion": criterion, "tolerance": tolerance, "gap": gap}
    return Case(f"solve {rows(n)} {A}×{m} {criterion}{marks}", "solve", n, A, m, options, goals)


def _post(n: int, A: int, m: int, bound: float | None = None) -> Case:
    options = {"criterion": "dp", "tolerance": TOLERANCE}
    return Case(f"post {rows(n)} {A}×{m} dp", "post", n, A, m, options, () if bound is None else (_within(bound),))


def _within(bound: float) -> Goal:
    return Goal("seconds", bound)


def rows(n: int) -> str:
    """Return a number of rows in few letters: 1.6M, 200k."""
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n / 1e3:g}k"


def _solves() -> Iterator[Case]:
    for criterion in ("dp", "eo"):
        yield _solve(1_600_000, 5, 5, criterion, Goal("reads", 100.0), Goal("sums", 100.0))
    yield _solve(200_000, 50, 5, "dp", _within(2.0))
    yield _solve(200_000, 50, 5, "eo", _within(8.0))
    yield _solve(100_000, 100, 3, "dp", _within(3.0))
    yield _solve(200_000, 200, 4, "dp")
    yield _solve(200_000, 8, 16, "eo", _within(6.0))
    yield _solve(50_000, 2, 100, "dp", _within(2.0))
    yield _solve(20_000, 2, 1000, "dp", _within(20.0))


def _cases() -> Iterator[Case]:
    yield from _solves()
    for case in _solves():  # the data that the goals were set on
        yield replace(case, name=f"{case.name} scattered", scattered=True)
    for criterion in ("dp", "eo"):
        yield _solve(1_600_000, 5, 5, criterion, Goal("reads", 100.0), Goal("sums", 100.0), gap=1e-4)
    yield _solve(200_000, 50, 5, "dp", gap=1e-4)
    yield _solve(20_000, 2, 1000, "dp", tolerance=TIGHT)
    options = {"criterion": "dp", "tolerance": TOLERANCE, "points": 20}
    for criterion in ("dp", "eo"):
        own = options | {"criterion": criterion}
        yield Case(f"frontier 200k 5×5 {criterion}", "frontier", 200_000, 5, 5, own, (Goal("solves", 6.0),))
    yield _post(60_000, 20, 6, 10.0)
    yield _post(100_000, 50, 5, 20.0)
    yield _post(300_000, 20, 6)  # people enough to calibrate all cells at once
    quick = (Goal("after_models", 1.0),)
    for criterion in ("dp", "eo"):
        fitted = {"criterion": criterion, "tolerance": TOLERANCE}
        yield Case(f"fitted 1M 2×2 {criterion}", "fitted", 1_000_000, 2, 2, fitted, quick, (*OURS, *PEERS))
    blind = {"criterion": "dp", "tolerance": TOLERANCE, "aware": False}
    yield Case("fitted 1M 2×2 dp blind", "fitted", 1_000_000, 2, 2, blind, quick)
    goals = (Goal("over_thrice_base", 0.060), Goal("one_row_over_base", 0.0008))
    for A, m in ((2, 2), (5, 5)):
        yield Case(f"predict 100k {A}×{m}", "predict", 100_000, A, m, {}, goals)


def _growth() -> Iterator[Case]:
    for criterion in ("dp", "eo"):
        for A in (2, 5, 10, 20, 50, 100, 200):
            yield replace(_solve(100_000, A, 4, criterion), series=f"groups {criterion}")
    for m in (2, 5, 10, 20, 50, 100):
        yield replace(_solve(50_000, 2, m, "dp"), series="classes dp")
    for m in (2, 5, 10, 20, 50):  # K grows with m squared
        yield replace(_solve(50_000, 2, m, "eo"), series="classes eo")
    for criterion in ("dp", "eo"):
        for n in (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000):
            yield replace(_solve(n, 5, 5, criterion), series=f"rows {criterion}")


CASES = {case.name: case for case in _cases()}
GROWTH = {f"{case.name} ({case.series})": replace(case, name=f"{case.name} ({case.series})") for case in _growth()}


def size(case: Case) -> int:
    """Return what grows along the series of a case."""
    return {"groups": case.A, "classes": case.m, "rows": case.n}[case.series.split()[0]]
