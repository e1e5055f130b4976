"""The frontiers: who wins first, then the figures, then every number; and Adult beside the released code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from optfair.benchmark.areas import Mean, mean
from optfair.benchmark.page.figures import draw_frontiers
from optfair.benchmark.page.panels import KINDS, Panel, Side, panels
from optfair.benchmark.page.results import CRITERIA, Cell, Results, pick, published, unique
from optfair.benchmark.page.tables import DIGITS, Part, Picture, cannot, caption, details, number, score, table
from optfair.benchmark.people import TRAIN

NAME = "frontiers"
LEARNED, JUDGED = TRAIN, 1 - TRAIN  # shares of the people


def frontiers(results: Results, cells: Sequence[Cell]) -> list[Part]:
    found = panels(results, cells)
    kinds = {kind: title for kind, title in KINDS.items() if any(panel.kind == kind for panel in found)}
    parts: list[Part] = ["### Who wins", WHO_WINS]
    for kind in kinds:
        parts += _who_wins(results, kind, [panel for panel in found if panel.kind == kind])
    parts.append("### Frontiers")
    for kind, title in kinds.items():
        own = [panel for panel in found if panel.kind == kind]
        says = (
            f"{title}: means over the seeds, a point for each value of a method's knob; up and to the left is better. "
            "Grey: what a perfectly fair rule shows by chance (95 %). Means far outside are counted in the panel and "
            "are in the tables below."
        )
        told = caption(results, NAME, cells, says)
        parts.append(
            Picture(
                f"frontiers-{kind}", f"{title}: accuracy against violation", told, partial(draw_frontiers, results, own)
            )
        )
    parts.append("### Every number")
    for data in unique(panel.data for panel in found):
        own = [panel for panel in found if panel.data == data]
        parts.append(details(results.data_title(data), "\n\n".join(_numbers(results, panel) for panel in own)))
    return parts + _released(results, cells)


WHO_WINS = (
    "One number for a frontier: the *area*, the mean accuracy over all violations from the noise floor to that of "
    "plain training. A method may answer by any of its rules, by the rule it starts from (plain training; of a "
    "post-processor that stands on one model of the pair of group and class, the argmax of that), by the most "
    "frequent class for everybody, or by a mixture of them. The table has OptFair's area minus the other method's, of "
    "the same people and split, and networks with the same settings, in points of accuracy: plus is for OptFair. Won "
    "and lost where the 90 % interval leaves out 0. Splits of the same people overlap, so that between equals this "
    "happens more often than one time in ten; in bold is what stays after the interval is widened for that (Nadeau "
    "and Bengio 2003). Equal opportunity of two classes is equalised odds, and is shown but not counted; of "
    "FairProjection's two ways to answer the better one is counted."
)


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


def _who_wins(results: Results, kind: str, own: Sequence[Panel]) -> list[Part]:
    parts: list[Part] = []
    for ours in own[0].ours:
        says = f"{KINDS[kind]}: area of {ours.title} minus area of the other, in points of accuracy"
        count = Count()
        parts += [f"**{ours.title}**", _gains(results, own, ours, count, f"{says}."), _counted(ours, count)]
        says += (
            ", over the violations from the fairest rule of either (or the noise floor) on: without what a method "
            "loses because its knob stops short."
        )
        count = Count()
        told = [_gains(results, own, ours, count, says, shared=True), _counted(ours, count)]
        parts.append(details(f"{ours.title}, where both have rules", "\n\n".join(told)))
    return parts + _unjudged(results, own) + ([_stands_on(results, own)] if kind == "post" else [])


def _gains(results: Results, own: Sequence[Panel], ours: Side, count: Count, says: str, *, shared: bool = False) -> str:
    """A row per criterion and other method, a column per people. shared : see `Panel.gain`."""
    data, rows = unique(panel.data for panel in own), []
    for criterion in unique(panel.criterion for panel in own):
        row_panels = [next(p for p in own if (p.data, p.criterion) == (name, criterion)) for name in data]
        for theirs in own[0].theirs:
            told = [_compared(results, panel, ours, theirs, count, shared=shared) for panel in row_panels]
            rows.append([CRITERIA[criterion], theirs.title, *told])
    heads = ["criterion", "against", *(results.data_title(name) for name in data)]
    cells = [cell for panel in own for some in panel.cells.values() for cell in some]
    return table(heads, rows, caption(results, NAME, cells, says))


def _compared(results: Results, panel: Panel, ours: Side, theirs: Side, count: Count, *, shared: bool = False) -> str:
    name = f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]}, against {theirs.title}"
    own = count if _counts(results, panel, theirs) else Count()
    if panel.judgeable is None:
        own.cannot.append(name)
        return f"{results.title(panel.plain.method)} {cannot(panel.plain.errors)}"
    for side in (ours, theirs):
        if not panel.areas(side):
            own.cannot.append(name)
            return f"{side.title} {cannot(panel.errors(side))}"
    if not panel.judgeable:
        return "nothing to judge"
    found = panel.gain(ours, theirs, shared=shared)
    if found is None:
        own.cannot.append(name)
        return "cannot: no seed at which both have a rule"
    failed = len(panel.errors(theirs)) + len(panel.errors(ours))
    some = f" (without {failed} runs that cannot)" if failed else ""
    return f"{_verdict(number(found, DIGITS['gain'], sign=True), found, name, own)}{some}"


def _verdict(value: str, found: Mean, name: str, count: Count) -> str:
    """Bold where it stays when the interval is widened for splits that overlap."""
    if found.n == 1:
        count.single += 1
        return f"{value} one seed"
    if found.verdict == "within noise":
        count.noise += 1
        return f"{value} within noise"
    bold = found.widened(JUDGED / LEARNED).verdict == found.verdict
    count.bold[found.verdict] += bold
    if found.verdict == "won":
        count.won += 1
    else:
        count.lost.append(name)
    told = f"{value} {found.verdict.upper() if found.verdict == 'lost' else found.verdict}"
    return f"**{told}**" if bold else told


def _counts(results: Results, panel: Panel, theirs: Side) -> bool:
    """Whether a comparison is one of its own.

    With two classes opportunity, asked of both, is odds. Of a method with two ways to answer the better one counts.
    """
    line = results.people(panel.data)
    if panel.criterion == "eop" and line is not None and line["classes"] == 2:
        return False
    ways = [side for side in panel.theirs if side.method == theirs.method]
    best = max(ways, key=lambda side: np.mean([*panel.areas(side).values()] or [-np.inf]))  # the first where none can
    return best == theirs


def _counted(ours: Side, count: Count) -> str:
    won, lost = (
        f" ({count.bold[word]} in bold)" if n else "" for word, n in (("won", count.won), ("lost", count.lost))
    )
    told = f"{ours.title}: {count.won} won{won}, {count.noise} within noise, {len(count.lost)} lost{lost}"
    told += f", {count.single} of one seed" if count.single else ""
    told += f", {len(count.cannot)} where somebody cannot" if count.cannot else ""
    lost_to = f" Lost: {'; '.join(count.lost)}." if count.lost else ""
    many = count.won + count.noise + len(count.lost)
    chance = f" Between equals {many / 10:.0f} of {many} or more would be won or lost by chance." if many else ""
    return f"{told}.{lost_to}{chance}"


def _stands_on(results: Results, own: Sequence[Panel]) -> str:
    """Which posterior the trials chose for each method, of each people."""
    plan, data = results.plan, unique(panel.data for panel in own)
    rows = []
    for method in unique(side.method for side in own[0].cells if not plan.methods[side.method].start):
        chosen = [plan.choice(name, method) for name in data]
        told = [str(c.get("posterior", "joint")) + (", in sample" if c.get("cv") == 1 else "") for c in chosen]
        rows.append([results.title(method), *told])
    says = (
        "The posterior that the trials of each method chose: joint, of one network of the pair (group, class), or "
        "factored, P(Y given X) P(A given X, Y)."
    )
    cells = [cell for panel in own for some in panel.cells.values() for cell in some]
    return table(["stands on", *map(results.data_title, data)], rows, caption(results, NAME, cells, says))


def _unjudged(results: Results, own: Sequence[Panel]) -> list[Part]:
    told = [
        f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]} ({number(panel.plain.mean('violation'), 4)} "
        f"against a noise floor of {number(panel.plain.mean('floor'), 4)})"
        for panel in own
        if panel.plain.each("violation") and not panel.judgeable
    ]
    title = results.title(own[0].plain.method)
    says = f"Nothing can be judged where {title} is as fair as chance lets one tell: {'; '.join(told)}."
    return [says] if told else []


# -- every number --------------------------------------------------------------------------------------------
def _numbers(results: Results, panel: Panel) -> str:
    """Area, and accuracy / violation at each value of the knob."""
    most = max(len(cells) for cells in panel.cells.values())
    heads = ["method", "area", *(f"knob {k + 1}" for k in range(most))]
    starts = {cell.method: cell for cell in (panel.plain, *panel.starts.values())}
    rows = [[results.title(cell.method), "–", score(cell), *["–"] * (most - 1)] for cell in starts.values()]
    for side, cells in panel.cells.items():
        areas = panel.areas(side)
        told = number(mean(list(areas.values())), 2) if areas else cannot(panel.errors(side) or panel.plain.errors)
        points = [f"`{cell.value:g}`: {score(cell)}" for cell in cells]
        rows.append([side.title, told, *points, *["–"] * (most - len(points))])
    says = (
        f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]}, {KINDS[panel.kind].lower()}: area (%), and "
        "for each `value` of the knob, in the order that should make it fairer, accuracy (%) / violation. Noise floor: "
        f"{score(panel.plain, 'floor')}."
    )
    cells_of = [*starts.values(), *(cell for some in panel.cells.values() for cell in some)]
    return table(heads, rows, caption(results, NAME, cells_of, says))


# -- the released code ---------------------------------------------------------------------------------------
def _released(results: Results, cells: Sequence[Cell]) -> list[Part]:
    """Others' numbers on Adult, and ours of the same seeds at the same value of the knob."""
    parts: list[Part] = []
    known = published()
    for source in (known["released"], known["linear_post"]):
        rows, used, left_out = [], [], []
        for method in (name for name, own in source.items() if isinstance(own, dict)):
            for own in (own for own in source[method].values() if isinstance(own, dict)):
                wanted = {"data": source["data"], "method": method, "value": own.get("value")}
                wanted |= {} if own.get("value") is None else {"criterion": own["criterion"]}
                found = [cell.by(own["criterion"]).on(source["seeds"]) for cell in pick(cells, **wanted)]
                setting = "" if own.get("value") is None else f" {own['value']:g}"
                asked = f"{results.title(method)}, {CRITERIA[own['criterion']]}{setting}"
                if not found:
                    left_out.append(asked)
                    continue
                theirs = f"{own['accuracy']:.2f} / {own['violation']:.4f}"
                rows.append([asked, theirs, score(found[0])])
                used.append(found[0])
        if not rows:
            if left_out and any(cell.data == source["data"] for cell in cells):
                parts.append(f"Of {source['source']} nothing is beside it: not run here: {'; '.join(left_out)}.")
            continue
        theirs_people = " / ".join(f"{n:,}" for n in source["people"])
        says = (
            f"Accuracy (%) / violation. Theirs: {source['source']}, {theirs_people} people. Ours: the same value of "
            "the knob and the same seeds."
        )
        if left_out:
            says += f" Not run here: {'; '.join(left_out)}."
        heads = ["", "theirs", "ours"]
        parts.append(table(heads, rows, caption(results, NAME, used, says)))
    return ["### Beside the released code", *parts] if parts else []
