"""What the paper does not ask: tolerances kept, what labels mend, the distance to the truth, and seconds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from optfair.benchmark.areas import Mean, mean
from optfair.benchmark.page.figures import draw_seconds, draw_tolerances
from optfair.benchmark.page.panels import sides
from optfair.benchmark.page.results import CRITERIA, Cell, Results, pick, unique
from optfair.benchmark.page.tables import (
    Part,
    Picture,
    cannot,
    caption,
    change,
    details,
    floors,
    knob,
    number,
    score,
    seconds,
    table,
)


# -- what is asked for, and what new people get --------------------------------------------------------------
def tolerance(results: Results, cells: Sequence[Cell]) -> list[Part]:
    methods, data = unique(cell.method for cell in cells), unique(cell.data for cell in cells)
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in cells:
        groups.setdefault((cell.data, cell.criterion), {}).setdefault(cell.method, []).append(cell)
    says = (
        "Violation on people nobody was fitted on, against the tolerance asked for (means over the seeds). Dashed: the "
        "tolerance; grey: up to the noise floor above it."
    )
    told = caption(results, "tolerance", cells, says)
    picture = Picture(
        "tolerance", "Violation against tolerance", told, partial(draw_tolerances, results, groups, methods)
    )
    rows = []
    for method in methods:
        for criterion in unique(cell.criterion for cell in cells):
            own = [pick(cells, method=method, criterion=criterion, data=name) for name in data]
            rows.append([results.title(method), CRITERIA[criterion], *map(_kept, own)])
    says = (
        "Runs whose violation is at most tolerance + noise floor of the same run, of all tolerances and seeds. Where "
        f"the floor is above the tolerance that says little. {floors(results, cells)}"
    )
    heads = ["method", "criterion", *map(results.data_title, data)]
    parts: list[Part] = [picture, table(heads, rows, caption(results, "tolerance", cells, says))]
    for name in data:
        some = pick(cells, data=name)
        parts.append(details(results.data_title(name), _asked_and_got(results, some)))
    return parts


def _kept(cells: Sequence[Cell]) -> str:
    """k of n, and how many could not."""
    found, failed = [], []
    for cell in cells:
        floor = cell.each("floor")
        found += [gap <= float(cell.value or 0.0) + floor[seed] for seed, gap in cell.each("violation").items()]
        failed += cell.errors
    if not found:
        return cannot(failed)
    return f"{sum(found)} of {len(found)}" + (f" ({len(failed)} more: {cannot(failed)})" if failed else "")


def _asked_and_got(results: Results, cells: Sequence[Cell]) -> str:
    rows = []
    for cell in sorted(cells, key=lambda own: (list(CRITERIA).index(own.criterion), _place(results, own.method))):
        bound = "–"
        if cell.each("floor"):
            bound = f"{float(cell.value or 0.0) + cell.mean('floor').value:.4f}"
        asked = f"{cell.value:g}"
        rows.append(
            [
                CRITERIA[cell.criterion],
                results.title(cell.method),
                asked,
                score(cell, "violation"),
                bound,
                _kept([cell]),
            ]
        )
    says = f"{results.data_title(cells[0].data)}: violation on people nobody was fitted on, for each tolerance."
    heads = ["criterion", "method", "tolerance", "violation", "tolerance + noise floor", "runs within it"]
    return table(heads, rows, caption(results, "tolerance", cells, says))


def _place(results: Results, method: str) -> int:
    return list(results.plan.methods).index(method)


# -- what labels mend ----------------------------------------------------------------------------------------
ORDER = ("none", "posterior", "labels", "both")


def calibration(results: Results, cells: Sequence[Cell]) -> list[Part]:
    values = unique(cell.value for cell in cells)
    rows = []
    for data in unique(cell.data for cell in cells):
        for criterion in unique(cell.criterion for cell in cells):
            own = pick(cells, data=data, criterion=criterion)
            by = {(_posterior(cell), _calibration(results, cell), cell.value): cell for cell in own}
            head = [results.data_title(data), CRITERIA[criterion]]
            chosen = next(_posterior(cell) for cell in own if _calibration(results, cell) == "both")
            for name in ORDER:
                rows.append([*head, chosen, f"`{name}`", *(score(by[chosen, name, value]) for value in values)])
            changes = [change(by[chosen, "both", value], by[chosen, "none", value]) for value in values]
            rows.append([*head, chosen, "`both` − `none`", *changes])
            other = next(posterior for posterior in ("factored", "joint") if posterior != chosen)
            rows.append([*head, f"{other}, not chosen", "`none`", *(score(by[other, "none", v]) for v in values)])
    says = (
        "OptFair-post, accuracy (%) / violation for each tolerance. Posterior: joint, of one network of the pair; "
        "factored, P(Y given X) P(A given X, Y). `none`: posteriors as the models give them; "
        "`posterior`: calibrated; `labels`: bounds moved by what labels say; `both`: as installed; `both` − `none`: "
        f"paired, of the same seed. {floors(results, cells)}"
    )
    heads = ["people", "criterion", "posterior", "calibration", *(f"tolerance {value:g}" for value in values)]
    return [table(heads, rows, caption(results, "calibration", cells, says))]


def _posterior(cell: Cell) -> str:
    return str(cell.lines[0]["run"]["options"]["posterior"])


def _calibration(results: Results, cell: Cell) -> str:
    """What was asked for, or what the class does by itself."""
    method = results.plan.methods[cell.method]
    own = {**method.options, **cell.options}.get("calibration")
    return str(own or inspect.signature(method.kind.load()).parameters["calibration"].default)


# -- the truth -----------------------------------------------------------------------------------------------
def truth(results: Results, cells: Sequence[Cell]) -> list[Part]:
    data, methods = unique(cell.data for cell in cells), unique(cell.method for cell in cells)
    columns = [(name, criterion) for name in data for criterion in unique(c.criterion for c in cells)]
    rows = []
    for side in (side for method in methods for side in sides(results, method)):
        told = []
        for name, criterion in columns:
            own = pick(cells, data=name, method=side.method, criterion=criterion)
            # What has no knob is run once, and its truth is told by the criterion of that run.
            found = score(side.of(own[0]), "regret", "true_violation") if own else "not measured: has no criterion"
            told.append(found)
        rows.append([side.title, knob(results, pick(cells, method=side.method)[0]), *told])
    heads = ["method", "knob", *(f"{results.data_title(name)}: {CRITERIA[criterion]}" for name, criterion in columns)]
    says = (
        "Points of accuracy below the best rule of the same violation, by the true posteriors (smaller is better) / "
        "true violation. A regret says nothing about how fair the rule is; the violation beside it does."
    )
    return [table(heads, rows, caption(results, "truth", cells, says))]


# -- seconds -------------------------------------------------------------------------------------------------
GROWS = {"n_samples": "people", "n_classes": "classes", "n_groups": "groups"}
LEAST = 0.001  # seconds are kept to three places


def growth(
    results: Results, cells: Sequence[Cell], argument: str, method: str, what: str
) -> dict[float, Mapping[int, float]]:
    """size -> seed -> seconds, where only this argument differs from the family's first people."""
    family = {name: results.plan.data[name].made or {} for name in unique(cell.data for cell in cells)}
    # The plan they all vary from is the one whose arguments are the most frequent.
    usual = {name: _commonest([made[name] for made in family.values()]) for name in GROWS}
    found: dict[float, Mapping[int, float]] = {}
    for cell in pick(cells, method=method):
        made = family[cell.data]
        if all(made[name] == usual[name] for name in GROWS if name != argument) and cell.each(what):
            found[_grown(results, cell, argument)] = cell.each(what)
    return dict(sorted(found.items()))


def _commonest(values: Sequence[int]) -> int:
    return max(unique(values), key=values.count)


def _grown(results: Results, cell: Cell, argument: str) -> float:
    if argument == "n_samples":  # as many as there were, which a smoke run cuts
        return float(next(line["n"][0] for line in cell.lines if "error" not in line))
    return float((results.plan.data[cell.data].made or {})[argument])


def exponent(found: Mapping[float, Mapping[int, float]]) -> Mean | None:
    """Slope of log seconds against log size, by least squares, of each seed; None for fewer than two sizes."""
    if len(found) < 2:
        return None
    shared = [seed for seed in next(iter(found.values())) if all(seed in own for own in found.values())]
    x = np.log(list(found))
    slopes = [float(np.polyfit(x, np.log([max(own[seed], LEAST) for own in found.values()]), 1)[0]) for seed in shared]
    return mean(slopes) if slopes else None


def growing_seconds(results: Results, cells: Sequence[Cell]) -> list[Part]:
    methods = unique(cell.method for cell in cells)
    training = [method for method in methods if results.plan.methods[method].kind.kind == "in"]
    titles = {method: results.title(method) for method in methods}
    drawn: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for argument, word in GROWS.items():
        for method in methods:
            own = growth(results, cells, argument, method, "seconds")
            means = [max(float(np.mean(list(seeds.values()))), LEAST) for seeds in own.values()]
            drawn.setdefault(f"{word}", {})[method] = list(own), means
    says = (
        "Seconds of a method's own, while one of people (learned from), classes and groups grows."
        " Dashed: methods that train."
    )
    told = caption(results, "seconds", cells, says)
    parts: list[Part] = [
        Picture("seconds", "Seconds against size", told, partial(draw_seconds, drawn, titles, training))
    ]
    for what, title in (("seconds", "its own"), ("model_seconds", "the models underneath")):
        rows = []
        for method in methods:
            own_cells = pick(cells, method=method)
            if what == "model_seconds" and not any(value for cell in own_cells for value in cell.each(what).values()):
                continue  # it trains its own
            rows.append([titles[method], *_row(results, cells, method, what)])
        heads = ["method", "seconds, smallest → largest", *(f"exponent of {word}" for word in GROWS.values())]
        says = (
            f"Seconds of {title}: at the least and at the most (people) it was finished with, and the exponent p of "
            "seconds ∝ sizeᵖ fitted to "
            "people, classes and groups, one growing at a time."
        )
        if rows:
            parts.append(table(heads, rows, caption(results, "seconds", cells, says)))
    return parts


def _row(results: Results, cells: Sequence[Cell], method: str, what: str) -> list[str]:
    errors = [error for cell in pick(cells, method=method) for error in cell.errors]
    own = growth(results, cells, "n_samples", method, what)
    sizes = unique([min(own), max(own)]) if own else []
    ends = " → ".join(f"{seconds(mean(list(own[size].values())))} ({size:,.0f})" for size in sizes)
    row = ["; ".join([*([ends] if ends else []), *([cannot(errors)] if errors else [])])]
    for argument in GROWS:
        found = exponent(growth(results, cells, argument, method, what))
        if found is not None:
            row.append(number(found, 2))
        else:
            row.append(cannot(errors) if errors else "one size only")
    return row
