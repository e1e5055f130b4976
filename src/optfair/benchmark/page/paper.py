"""The paper's other experiments: the ablation, randomised against deterministic, and scalability."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optfair.benchmark.page.figures import draw_ablation
from optfair.benchmark.page.panels import sides
from optfair.benchmark.page.results import CRITERIA, Cell, Results, pick, published, unique
from optfair.benchmark.page.tables import Part, Picture, caption, change, details, floors, knob, score, table
from optfair.benchmark.people import SMALL

TOO_SMALL = f"fewer than {SMALL} judged"


# -- in, post, in-then-post ----------------------------------------------------------------------------------
def ablation(results: Results, cells: Sequence[Cell]) -> list[Part]:
    groups: dict[tuple[str, str], list[tuple[str, list[Cell]]]] = {}
    rows = []
    for data in unique(cell.data for cell in cells):
        for criterion in unique(cell.criterion for cell in pick(cells, data=data)):
            for method in unique(cell.method for cell in cells):
                own = pick(cells, data=data, criterion=criterion, method=method)
                for threshold in unique(cell.options.get("threshold") for cell in own):
                    along = [cell for cell in own if cell.options.get("threshold") == threshold]
                    label = results.title(method) + ("" if threshold is None else f", threshold {threshold:g}")
                    groups.setdefault((data, criterion), []).append((label, along))
                    points = [f"`{cell.value:g}`: {score(cell)}" for cell in along]
                    rows.append([results.data_title(data), CRITERIA[criterion], label, *points])
    most = max(len(row) for row in rows)
    rows = [[*row, *["–"] * (most - len(row))] for row in rows]
    says = "Accuracy against violation along the tolerance. The threshold is the violation at which training stops."
    picture = Picture(
        "ablation",
        "Training fairly, post-processing, and both",
        caption(
            results,
            "ablation",
            cells,
            f"{says} Grey: what a perfectly fair rule shows by chance (95 %). Means far outside are counted there.",
        ),
        partial(draw_ablation, results, groups),
    )
    heads = ["people", "criterion", "method", *(f"tolerance {k + 1}" for k in range(most - 3))]
    told = (
        "Accuracy (%) / violation for each `tolerance`; the threshold is the violation at which training stops. "
        f"{floors(results, cells)}"
    )
    return [picture, table(heads, rows, caption(results, "ablation", cells, told))]


# -- randomised against deterministic ------------------------------------------------------------------------
def randomised(results: Results, cells: Sequence[Cell]) -> list[Part]:
    known, rows = published()["randomised"], []
    for data in unique(cell.data for cell in cells):
        for method in unique(cell.method for cell in cells):
            drawn, fixed = _two_ways(results, pick(cells, data=data, method=method))
            kind = results.plan.methods[method].kind.kind
            # The paper's post-processor is the one on the posteriors as they are.
            own = known.get(data, {}).get(kind) if method in ("OptFairIn", "OptFairPost") else None
            for name, cell in (("randomised", drawn), ("deterministic", fixed)):
                theirs = "–" if own is None else f"{own[name]['accuracy']:.2f} / {own[name]['violation']:.4f}"
                changed = change(fixed, drawn) if cell is fixed else "–"
                rows.append([results.data_title(data), results.title(method), name, score(cell), theirs, changed])
    values = ", ".join(f"{value:g}" for value in unique(cell.value for cell in cells))
    says = (
        f"Accuracy (%) / violation, demographic parity, tolerance {values}. Deterministic: the likeliest class of the "
        "same post-processed rule; of training, one more fit at the mean multipliers. Change: paired, "
        f"of the same seed. {floors(results, cells)} Paper: {known['source']}."
    )
    heads = ["people", "method", "answers", "ours", "paper", "change"]
    return [table(heads, rows, caption(results, "randomised", cells, says))]


def _two_ways(results: Results, own: Sequence[Cell]) -> tuple[Cell, Cell]:
    """The same rule, drawn and not: training has a run for each, a post-processed rule has its argmax."""
    drawn = next(cell for cell in own if cell.options.get("output") is None)
    fixed = [cell for cell in own if cell.options.get("output") == "deterministic"]
    return drawn, fixed[0] if fixed else drawn.likeliest()


# -- more classes, more groups -------------------------------------------------------------------------------
def scalability(results: Results, cells: Sequence[Cell]) -> list[Part]:
    parts: list[Part] = []
    families = {"By attributes": "celeba-", "By images": "images-"}
    for title, start in families.items():
        own = [cell for cell in cells if cell.data.startswith(start)]
        if own:
            parts += [f"### {title}", _sizes_table(results, own), *_small_cells(results, own)]
    return parts


def _sizes_table(results: Results, cells: Sequence[Cell]) -> str:
    """A row per method, a column per size; the paper's beside it where it has one."""
    known = published()["scalability"]
    data = unique(cell.data for cell in cells)
    beside = any(name in known for name in data)
    heads = ["method", "knob"]
    for name in data:
        heads += [_size(results, name), *(["paper"] if beside else [])]
    rows = []
    for method in unique(cell.method for cell in cells):
        for side in sides(results, method):
            own = {cell.data: side.of(cell.by("eo")) for cell in pick(cells, method=method)}
            row = [side.title, knob(results, next(iter(own.values())))]
            for name in data:
                row.append(_with_seconds(own[name]) if name in own else "not run")
                theirs = known.get(name, {}).get(method)
                told = "–" if theirs is None else f"{theirs['accuracy']:.2f} / {theirs['violation']:.4f}"
                row += [told] if beside else []
            rows.append(row)
    floors = ["noise floor (of ERM's answers)", "–"]
    for name in data:
        floors += [score(pick(cells, data=name, method="ERM")[0].by("eo"), "floor"), *(["–"] if beside else [])]
    says = (
        "Groups × classes in the head. Accuracy (%) / violation by equalised odds; seconds of one processor: its own + "
        "of the models underneath, if any. Who bounds the gap to everybody is asked for it; LinearPost, which bounds "
        "the gap between two groups, for twice as much; who bounds nothing has the middle of its grid."
    )
    says += f" Paper: {known['source']}; its network is larger." if beside else ""
    return table(heads, [*rows, floors], caption(results, "scalability", cells, says))


def _with_seconds(cell: Cell) -> str:
    told = score(cell)
    if not cell.each("seconds"):
        return told
    models = f" + {score(cell, 'model_seconds')}" if any(cell.each("model_seconds").values()) else ""
    return f"{told}; {score(cell, 'seconds')}{models} s"


def _size(results: Results, data: str) -> str:
    line = results.people(data)
    return results.data_title(data) + ("" if line is None else f" ({line['groups']} × {line['classes']})")


def _small_cells(results: Results, cells: Sequence[Cell]) -> list[Part]:
    """group × class with too few judged people to say anything, over all seeds."""
    counted, rows = [], []
    for data in unique(cell.data for cell in cells):
        found: dict[tuple[str, str], list[int]] = {}
        lines = pick(cells, data=data, method="ERM")[0].lines
        if not any("small_cells" in line for line in lines):
            counted.append(f"{results.data_title(data)} not counted, as every run was stopped")
            continue
        for line in lines:
            for group, label, n in line.get("small_cells", ()):  # a run that was stopped cannot say
                found.setdefault((group, label), []).append(n)
        known = results.people(data)
        total = "" if known is None else f" of {known['groups'] * known['classes']}"
        counted.append(f"{results.data_title(data)} {len(found)}{total}")
        for (group, label), own in sorted(found.items()):
            told = f"{min(own)}" if min(own) == max(own) else f"{min(own)}–{max(own)}"
            rows.append([results.data_title(data), group, label, told])
    parts: list[Part] = [f"Cells (group and class) with {TOO_SMALL} people, at any seed: {', '.join(counted)}."]
    if rows:
        says = f"Cells with {TOO_SMALL} people at one seed or more; the violation is the largest gap of any cell."
        heads = ["people", "group", "class", "judged"]
        parts.append(details("Which cells", table(heads, rows, caption(results, "scalability", cells, says))))
    return parts
