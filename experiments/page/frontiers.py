"""Show the frontiers of all methods: who wins, every number, and Adult beside the released code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.areas import mean
from experiments.catalogue import published
from experiments.page.contests import Contest, differences, verdict_table
from experiments.page.figures import draw_differences, draw_frontiers
from experiments.page.panels import KINDS, Panel, curve, make_panels
from experiments.page.results import CRITERIA, Cell, Results, pick, unique
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table, both, cannot, number, score

DIFFERENCES = (
    "Differences of accuracy between OptFair and every other method, with intervals, by data set and criterion."
)


def frontiers(results: Results, cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the tables and figures of the page."""
    panels = make_panels(results, cells)
    kinds = [kind for kind in KINDS if any(panel.kind == kind for panel in panels)]
    post = [panel for panel in panels if panel.kind == "post"]
    contests = find_contests(results, panels)
    shown = [contest for contest in contests if contest.optfair.method in ("OptFairIn", "OptFairPost")]
    return {
        "contests": contests,
        "counts": {contest.optfair.method: contest.count for contest in contests},
        "verdicts": verdict_table(contests),
        "differences": Figure("differences", DIFFERENCES, draw_differences, differences(results, shown)),
        "unjudged": _unjudged(results, panels),
        "posteriors": _posteriors(results, post) if post else None,
        "plain": results.title(panels[0].plain.method),
        "numbers": [_numbers(results, name, kinds, panels) for name in unique(panel.data for panel in panels)],
        "released": _released(results, cells),
    }


def find_contests(results: Results, panels: Sequence[Panel]) -> list[Contest]:
    """Return the contests of every method of OptFair, training first."""
    by_kind = [[panel for panel in panels if panel.kind == kind] for kind in KINDS]
    return [Contest.between(results, own, optfair) for own in by_kind if own for optfair in own[0].optfair]


def _posteriors(results: Results, panels: Sequence[Panel]) -> Table:
    """Return which posterior the trials chose for each method, on each data set."""
    plan, data = results.plan, unique(panel.data for panel in panels)
    rows = []
    for method in unique(side.method for side in panels[0].cells if not plan.methods[side.method].start):
        choices = [plan.choice(name, method) for name in data]
        texts = [str(c.get("posterior", "joint")) + (", in sample" if c.get("cv") == 1 else "") for c in choices]
        rows.append([results.title(method), *texts])
    return Table(["posterior of", *map(results.data_title, data)], rows)


def _unjudged(results: Results, panels: Sequence[Panel]) -> list[str]:
    return [
        f"{results.data_title(panel.data)}, {CRITERIA[panel.criterion]} ({number(panel.plain.mean('violation'), 4)} "
        f"against a noise floor of {number(panel.plain.mean('floor'), 4)})"
        for panel in panels
        if panel.plain.by_seed("violation") and not panel.judgeable
    ]


# -- every number --------------------------------------------------------------------------------------------
def _numbers(results: Results, data: str, kinds: Sequence[str], panels: Sequence[Panel]) -> dict[str, Any]:
    """Return the picture and the tables of one data set."""
    own, title = [panel for panel in panels if panel.data == data], results.data_title(data)
    criteria = unique(panel.criterion for panel in own)
    drawn = [
        _drawn(panel) | {"row": criteria.index(panel.criterion), "column": kinds.index(panel.kind)} for panel in own
    ]
    layout = {"rows": len(criteria), "columns": len(kinds), "panels": drawn}
    alt = f"{title}: accuracy against violation of every method, training on the left and post-processing on the right."
    parts = []
    for kind in kinds:
        alike = [panel for panel in own if panel.kind == kind]
        tables = [(CRITERIA[p.criterion], score(p.plain, "floor"), _panel_table(results, p)) for p in alike]
        parts.append({"title": KINDS[kind], "areas": _area_table(alike), "panels": tables})
    return {"title": title, "figure": Figure(f"frontiers-{data}", alt, draw_frontiers, layout), "parts": parts}


def _drawn(panel: Panel) -> dict[str, Any]:
    """Return what the picture shows of a panel."""
    plain = panel.plain if panel.plain.by_seed("accuracy") else None
    star = None if plain is None else [plain.mean("violation").value, plain.mean("accuracy").value]
    curves = [curve(side, cells) for side, cells in panel.cells.items()]
    kind = KINDS[panel.kind].partition("-")[0]
    return {"title": f"{kind}, {panel.criterion}", "curves": curves, "plain": star, "floor": panel.floor}


def _area_table(panels: Sequence[Panel]) -> Table:
    """Return the area of every method, a column for each criterion."""
    rows = []
    for side in panels[0].cells:
        texts = []
        for panel in panels:
            areas = panel.areas(side)
            errors = panel.errors(side) or panel.plain.errors
            texts.append(number(mean(list(areas.values())), 2) if areas else cannot(errors))
        rows.append([side.title, *texts])
    return Table(["area of", *(CRITERIA[panel.criterion] for panel in panels)], rows, left=1)


def _panel_table(results: Results, panel: Panel) -> Table:
    """Return accuracy and violation at each value of the knob."""
    starts = {cell.method: cell for cell in (panel.plain, *panel.starts.values())}
    rows = [[results.title(cell.method), DASH, *both(cell)] for cell in starts.values()]
    rows += [[side.title, f"{cell.value:g}", *both(cell)] for side, cells in panel.cells.items() for cell in cells]
    return Table(["method", "knob", "accuracy, %", "violation"], rows, left=1)


# -- the released code ---------------------------------------------------------------------------------------
def _released(results: Results, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return others' numbers on Adult beside ours of the same seeds at the same value of the knob."""
    sources = [published()[name] for name in ("released", "linear_post")]
    return [entry for source in sources if (entry := _beside(results, cells, source)) is not None]


def _beside(results: Results, cells: Sequence[Cell], source: Mapping[str, Any]) -> dict[str, Any] | None:
    rows, missing = [], []
    for method in (name for name, entry in source.items() if isinstance(entry, dict)):
        for entry in (entry for entry in source[method].values() if isinstance(entry, dict)):
            value, criterion = entry.get("value"), entry["criterion"]
            attributes = {"data": source["data"], "method": method, "value": value}
            attributes |= {} if value is None else {"criterion": criterion}
            fits = [cell.by(criterion).at_seeds(source["seeds"]) for cell in pick(cells, **attributes)]
            setting = [results.title(method), CRITERIA[criterion], DASH if value is None else f"{value:g}"]
            if fits:
                rows.append([*setting, f"{entry['accuracy']:.2f} / {entry['violation']:.4f}", score(fits[0])])
            else:
                missing.append(", ".join(setting))
    if not rows and not (missing and any(cell.data == source["data"] for cell in cells)):
        return None
    rows_of_source = " / ".join(f"{n:,}" for n in source["rows"])
    heads = ["method", "criterion", "knob", "theirs: accuracy, % / violation", "ours"]
    table = Table(heads, rows, left=2) if rows else None
    seeds = ", ".join(map(str, source["seeds"]))
    return {"source": source["source"], "rows": rows_of_source, "seeds": seeds, "missing": missing, "table": table}
