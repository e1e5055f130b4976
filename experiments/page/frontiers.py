"""Compare all methods by their frontiers: who wins, the figures, every number; and Adult beside the released code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from experiments.areas import Mean, mean
from experiments.catalogue import published
from experiments.page.figures import draw_frontiers
from experiments.page.panels import KINDS, Competitor, Panel, make_panels
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.tables import DASH, DIGITS, Figure, Table, cannot, number, score
from experiments.splits import TRAIN_SHARE

NAME = "frontiers"
TEST_RATIO = (1 - TRAIN_SHARE) / TRAIN_SHARE  # test rows / training rows


def frontiers(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables and figures of the section."""
    panels = make_panels(results, cells)
    kinds = []
    for kind, title in KINDS.items():
        own_panels = [panel for panel in panels if panel.kind == kind]
        if own_panels:
            draw = partial(draw_frontiers, results, own_panels)
            figure = Figure(f"frontiers-{kind}", f"{title}: accuracy against violation", draw, cells, NAME)
            contests = [Contest.between(results, own_panels, optfair) for optfair in own_panels[0].optfair]
            posteriors = _posteriors(results, own_panels) if kind == "post" else None
            kinds.append(
                {
                    "title": title,
                    "figure": figure,
                    "contests": contests,
                    "unjudged": _unjudged(results, own_panels),
                    "posteriors": posteriors,
                }
            )
    return {
        "kinds": kinds,
        "plain": results.title(panels[0].plain.method),
        "numbers": _numbers(results, panels),
        "released": _released(results, cells),
    }


# -- who wins ------------------------------------------------------------------------------------------------
@dataclass
class Count:
    """Of comparisons: won, within noise, of one seed; the names of those lost and of those that cannot be made.

    bold : of those won and lost the ones that stay when the interval is widened.
    """

    won: int = 0
    noise: int = 0
    lost: list[str] = field(default_factory=list)
    bold: dict[str, int] = field(default_factory=lambda: {"won": 0, "lost": 0})
    cannot: list[str] = field(default_factory=list)
    single: int = 0

    @property
    def total(self) -> int:
        """Return the number of comparisons with a verdict."""
        return self.won + self.noise + len(self.lost)

    @property
    def by_chance(self) -> str:
        """Return how many of them a tenth is."""
        return f"{self.total / 10:.0f}"


@dataclass(frozen=True)
class Contest:
    """A method of OptFair against all rivals: over all violations, and only where both have rules."""

    title: str
    gains: Table
    count: Count
    common_gains: Table
    common_count: Count

    @classmethod
    def between(cls, results: Results, panels: Sequence[Panel], optfair: Competitor) -> Contest:
        """Compare on all panels."""
        counts = Count(), Count()
        tables = [_gains(results, panels, optfair, counts[common], common=bool(common)) for common in (0, 1)]
        return cls(optfair.title, tables[0], counts[0], tables[1], counts[1])


def _gains(results: Results, panels: Sequence[Panel], optfair: Competitor, count: Count, *, common: bool) -> Table:
    """Return a row per criterion and rival, a column per data. common : see `Panel.gain`."""
    data, rows = unique(panel.data for panel in panels), []
    for criterion in unique(panel.criterion for panel in panels):
        row_panels = [next(p for p in panels if (p.data, p.criterion) == (name, criterion)) for name in data]
        for rival in panels[0].rivals:
            texts = [_gain(results, panel, optfair, rival, count, common=common) for panel in row_panels]
            rows.append([CRITERIA[criterion], rival.title, *texts])
    heads = ["criterion", "against", *(results.data_title(name) for name in data)]
    return Table(heads, rows, _cells_of(panels), NAME)


def _cells_of(panels: Sequence[Panel]) -> list[Cell]:
    return [cell for panel in panels for cells in panel.cells.values() for cell in cells]


def _gain(results: Results, panel: Panel, optfair: Competitor, rival: Competitor, count: Count, *, common: bool) -> str:
    name = f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]}, against {rival.title}"
    count = count if _counts(results, panel, rival) else Count()
    if panel.judgeable is None:
        count.cannot.append(name)
        return f"{results.title(panel.plain.method)} {cannot(panel.plain.errors)}"
    for competitor in (optfair, rival):
        if not panel.areas(competitor):
            count.cannot.append(name)
            return f"{competitor.title} {cannot(panel.errors(competitor))}"
    if not panel.judgeable:
        return "not judged"
    gain = panel.gain(optfair, rival, common=common)
    if gain is None:
        count.cannot.append(name)
        return "cannot: no seed has rules of both"
    failed = len(panel.errors(rival)) + len(panel.errors(optfair))
    without = f" (without {failed} failed runs)" if failed else ""
    return f"{_verdict(gain, name, count)}{without}"


def _verdict(gain: Mean, name: str, count: Count) -> str:
    """Return the gain with its verdict, bold where it stays when the interval is widened for overlapping splits."""
    value, verdict = number(gain, DIGITS["gain"], sign=True), gain.verdict
    if gain.n == 1:
        count.single += 1
        return f"{value} one seed"
    if verdict == "within noise":
        count.noise += 1
        return f"{value} within noise"
    bold = gain.widened(TEST_RATIO).verdict == verdict
    count.bold[verdict] += bold
    if verdict == "won":
        count.won += 1
    else:
        count.lost.append(name)
    text = f"{value} {verdict.upper() if verdict == 'lost' else verdict}"
    return f"**{text}**" if bold else text


def _counts(results: Results, panel: Panel, rival: Competitor) -> bool:
    """Tell whether a comparison counts.

    With two classes opportunity, asked of both, is odds. Of a method with two ways to decide the better one counts.
    """
    line = results.data_line(panel.data)
    if panel.criterion == "eop" and line is not None and line["classes"] == 2:
        return False
    variants = [competitor for competitor in panel.rivals if competitor.method == rival.method]
    best = max(
        variants, key=lambda competitor: np.mean([*panel.areas(competitor).values()] or [-np.inf])
    )  # the first if no area
    return best == rival


def _posteriors(results: Results, panels: Sequence[Panel]) -> Table:
    """Return which posterior the trials chose for competitor method, on competitor data."""
    plan, data = results.plan, unique(panel.data for panel in panels)
    rows = []
    for method in unique(
        competitor.method for competitor in panels[0].cells if not plan.methods[competitor.method].start
    ):
        choices = [plan.choice(name, method) for name in data]
        texts = [str(c.get("posterior", "joint")) + (", in sample" if c.get("cv") == 1 else "") for c in choices]
        rows.append([results.title(method), *texts])
    return Table(["posterior of", *map(results.data_title, data)], rows, _cells_of(panels), NAME)


def _unjudged(results: Results, panels: Sequence[Panel]) -> list[str]:
    return [
        f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]} ({number(panel.plain.mean('violation'), 4)} "
        f"against a noise floor of {number(panel.plain.mean('floor'), 4)})"
        for panel in panels
        if panel.plain.by_seed("violation") and not panel.judgeable
    ]


# -- every number --------------------------------------------------------------------------------------------
def _numbers(results: Results, panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return the panels of competitor data with their tables."""
    numbers = []
    for data in unique(panel.data for panel in panels):
        tables = [
            {
                "table": _panel_table(results, panel),
                "criterion": CRITERIA[panel.criterion],
                "kind": KINDS[panel.kind].lower(),
                "floor": score(panel.plain, "floor"),
            }
            for panel in panels
            if panel.data == data
        ]
        numbers.append({"title": results.data_title(data), "panels": tables})
    return numbers


def _panel_table(results: Results, panel: Panel) -> Table:
    """Return area, and accuracy / violation at competitor value of the knob."""
    width = max(len(cells) for cells in panel.cells.values())
    heads = ["method", "area", *(f"knob {k + 1}" for k in range(width))]
    starts = {cell.method: cell for cell in (panel.plain, *panel.starts.values())}
    rows = [[results.title(cell.method), DASH, score(cell), *[DASH] * (width - 1)] for cell in starts.values()]
    for competitor, cells in panel.cells.items():
        areas = panel.areas(competitor)
        errors = panel.errors(competitor) or panel.plain.errors
        text = number(mean(list(areas.values())), 2) if areas else cannot(errors)
        points = [f"`{cell.value:g}`: {score(cell)}" for cell in cells]
        rows.append([competitor.title, text, *points, *[DASH] * (width - len(points))])
    table_cells = [*starts.values(), *(cell for cells in panel.cells.values() for cell in cells)]
    return Table(heads, rows, table_cells, NAME)


# -- the released code ---------------------------------------------------------------------------------------
def _released(results: Results, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return others' numbers on Adult beside ours of the same seeds at the same value of the knob."""
    sources = [published()[name] for name in ("released", "linear_post")]
    return [entry for source in sources if (entry := _beside(results, cells, source)) is not None]


def _beside(results: Results, cells: Sequence[Cell], source: Mapping[str, Any]) -> dict[str, Any] | None:
    rows, table_cells, missing = [], [], []
    for method in (name for name, entry in source.items() if isinstance(entry, dict)):
        for entry in (entry for entry in source[method].values() if isinstance(entry, dict)):
            value, criterion = entry.get("value"), entry["criterion"]
            attributes = {"data": source["data"], "method": method, "value": value}
            attributes |= {} if value is None else {"criterion": criterion}
            fits = [cell.by(criterion).at_seeds(source["seeds"]) for cell in pick(cells, **attributes)]
            setting = f"{results.title(method)}, {CRITERIA[criterion]}" + ("" if value is None else f" {value:g}")
            if fits:
                rows.append([setting, f"{entry['accuracy']:.2f} / {entry['violation']:.4f}", score(fits[0])])
                table_cells.append(fits[0])
            else:
                missing.append(setting)
    if not rows and not (missing and any(cell.data == source["data"] for cell in cells)):
        return None
    rows_of_source = " / ".join(f"{n:,}" for n in source["rows"])
    table = Table(["", "theirs", "ours"], rows, table_cells, NAME) if rows else None
    return {"source": source["source"], "rows": rows_of_source, "missing": missing, "table": table}
