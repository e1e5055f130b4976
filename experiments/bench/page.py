"""Write the page of speed from the lines of a run; for the same lines it is the same, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.bench import worlds
from experiments.bench.cases import CASES, OURS, PEERS, Case, Goal, size
from experiments.bench.copies import peer_version
from experiments.bench.growth import AXES, CRITERIA, draw_growth, exponent, growth_data, points, series_cases
from experiments.bench.lines import Lines
from experiments.bench.people import TRAINING
from experiments.bench.run import ENOUGH, Line, is_finished, least
from experiments.bench.table import TITLES, amount, goal_text, outcome, proof, ratio, verdict
from experiments.page.page import NOTES, Draft, PageWriter
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table
from experiments.page.templates import PageTextError

TEMPLATE = "speed"
GROWTH = "Processor seconds of a solve as groups, classes and rows grow, for the previous release and the present one."


def draft_page(lines: Lines, file: Path) -> Draft:
    """Return the page; every number has been found when this returns. Its answer is a note beside the lines."""
    missing = [case.name for case in CASES.values() if "present" not in lines.of(case.name)]
    if missing:
        raise PageTextError(f"{lines.file}: has no line of {', '.join(missing)}; run them first.")
    found = Lookups(lines)
    functions = {name: getattr(found, name) for name in ("seconds", "faster", "power", "shape")}
    context = {
        "machine": lines.machine,
        "sources": {line["version"]: line["source"] for line in lines.lines.values()},
        "peer_versions": {name: peer_version(name) for name in PEERS},
        "cases": case_table(lines),
        "goals": goal_table(lines),
        "missed": sum(verdict(goal, lines.of(case.name).get("present")) != "met" for case, goal in _goals()),
        "asked": sum(1 for _ in _goals()),
        "peers": peer_tables(lines),
        "growth": [(axis, growth_table(lines, axis)) for axis in AXES],
        "exponents": exponent_table(lines),
        "growth_figure": Figure("growth", GROWTH, draw_growth, growth_data(lines)),
        "limit": f"{lines.machine['limit']:g}",
        "repeat": lines.machine["repeat"],
        "enough": f"{ENOUGH:g}",
        "training": f"{TRAINING:,}",
        "world": {name: f"{getattr(worlds, name):g}" for name in WORLD_NUMBERS},
    }
    return PageWriter(lines.file.parent / NOTES, functions).draft(TEMPLATE, file, **context)


WORLD_NUMBERS = ("FEATURES", "DISTANCE", "SEPARATION", "CLASS_EFFECT", "GROUP_EFFECT", "SMALLEST")


class Lookups:
    """Numbers that the text may ask for."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def seconds(self, case: str, version: str = "present", quantity: str = "seconds") -> str:
        """Return the least of a quantity of a case, or that it was stopped."""
        return outcome(self._line(case, version), quantity)

    def faster(self, case: str, quantity: str = "seconds", other: str = "previous") -> str:
        """Return how many times as long another version takes."""
        return ratio(self._line(case, other), self._line(case, "present"), quantity)

    def shape(self, case: str) -> str:
        """Return what a case is about."""
        return f"{CASES[case].n:,} rows, {CASES[case].A} groups and {CASES[case].m} classes"

    def power(self, series: str, version: str = "present") -> str:
        """Return the exponent of a series."""
        value = exponent(points(self.lines, series, version))
        if value is None:
            raise PageTextError(f"{series}: too few of its cases are finished for an exponent.")
        return f"{value:.2f}"

    def _line(self, case: str, version: str) -> Line:
        try:
            return self.lines.of(case)[version]
        except KeyError:
            raise PageTextError(f"{case}, {version}: is not in {self.lines.file}.") from None


# -- tables ------------------------------------------------------------------------------------------------
def case_table(lines: Lines) -> Table:
    """Return seconds of both releases and what the present one proves, a case per row."""
    heads = ["case", "previous", "present", "times as fast", "processor, present", "times as fast", "reads", "proof"]
    rows = []
    for case in CASES.values():
        previous, present = (lines.of(case.name).get(version) for version in OURS)
        reads = least(present, "reads") if present else None
        texts = [outcome(previous), outcome(present), ratio(previous, present) or DASH, outcome(present, "cpu")]
        texts += [ratio(previous, present, "cpu") or DASH, DASH if reads is None else f"{reads:.1f}"]
        rows.append([case.name, *texts, proof(present) or DASH])
    return Table(heads, rows)


def goal_table(lines: Lines) -> Table:
    """Return what is asked of the present code, and whether it is met."""
    rows = []
    for case, goal in _goals():
        line = lines.of(case.name).get("present")
        value = None if line is None else least(line, goal.quantity)
        measured = outcome(line) if value is None else amount(goal.quantity, value)
        rows.append([case.name, goal_text(goal), measured, verdict(goal, line)])
    return Table(["case", "asked for", "measured", "verdict"], rows)


def _goals() -> Iterator[tuple[Case, Goal]]:
    for case in CASES.values():
        for goal in case.goals:
            yield case, goal


def peer_tables(lines: Lines) -> Table:
    """Return the cases that other libraries can do, a version per row."""
    rows = []
    for case in CASES.values():
        for version in case.versions if set(case.versions) & set(PEERS) else ():
            line, present = (lines.of(case.name).get(name) for name in (version, "present"))
            scores = [DASH, DASH]
            if line is not None and is_finished(line):
                run = line["runs"][-1]
                scores = [f"{run['accuracy']:.4f}", f"{run['violation']:.4f}"]
            title = f"optfair, {version}" if version in OURS else TITLES[version]
            texts = [outcome(line), outcome(line, "cpu"), ratio(line, present) or DASH]
            rows.append([case.options["criterion"], title, *texts, *scores])
    heads = ["criterion", "who", "seconds", "processor", "times ours", "accuracy", "violation"]
    return Table(heads, rows, left=2)


def growth_table(lines: Lines, axis: str) -> Table:
    """Return wall-clock and processor seconds of both releases and criteria, a size per row."""
    sizes = sorted({size(case) for criterion in CRITERIA for case in series_cases(f"{axis} {criterion}")})
    rows = []
    for number in sizes:
        texts = [f"{number:,}"]
        for criterion in CRITERIA:
            cases = [case for case in series_cases(f"{axis} {criterion}") if size(case) == number]
            found = lines.of(cases[0].name) if cases else {}
            texts += [_bounds(found.get("present")), *(_both_seconds(found.get(version)) for version in OURS)]
        rows.append(texts)
    heads = [text for name in CRITERIA for text in (f"K, {name}", f"{name}, previous", f"{name}, present")]
    return Table([axis, *heads], rows, left=0)


def _bounds(line: Line | None) -> str:
    return DASH if line is None or not is_finished(line) else f"{line['runs'][-1]['bounds']:,}"


def _both_seconds(line: Line | None) -> str:
    """Return wall-clock (processor) seconds."""
    if line is None:
        return DASH
    return f"{outcome(line)} ({outcome(line, 'cpu')})" if is_finished(line) else outcome(line)


def exponent_table(lines: Lines) -> Table:
    """Return the exponents of all series."""
    rows = []
    for axis in AXES:
        texts = [axis]
        for criterion in CRITERIA:
            for version in OURS:
                value: Any = exponent(points(lines, f"{axis} {criterion}", version))
                texts.append(DASH if value is None else f"{value:.2f}")
        rows.append(texts)
    heads = [f"{criterion}, {version}" for criterion in CRITERIA for version in OURS]
    return Table(["seconds grow with", *heads], rows, left=1)
