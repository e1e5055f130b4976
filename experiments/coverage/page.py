"""Write the page of promises from the lines of its runs; for the same lines it is the same, byte for byte."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.coverage.pictures import draw_broken, draw_smallest
from experiments.coverage.rules import METHODS
from experiments.coverage.run import SMALLEST, Line
from experiments.coverage.settings import CONFIDENCE, CONTROL, SETTINGS, SHARES
from experiments.page.page import Draft, PageWriter
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table
from experiments.page.templates import PageTextError
from optfair import plan

TEMPLATE = "promise"
SHIPPED = "shipped"  # what `confidence=` does by default
MIXED = 0.005  # a smaller share of decisions that are drawn from a constant is rounding
Scores = dict[str, dict[str, list[dict[str, float]]]]
BROKEN = "Share of runs in which the tolerance is exceeded in the population, by setting, without and with a promise."
LEAST = "The smallest tolerance that can be promised falls as people are added, as the formula of optfair.plan says."


def draft_page(lines: Sequence[Line], file: Path) -> Draft:
    """Return the page; every number has been found when this returns."""
    scores = by_setting(lines)
    if missing := [name for name in (*SETTINGS, SMALLEST) if name not in {line["setting"] for line in lines}]:
        raise PageTextError(f"coverage.jsonl: has no line of {', '.join(missing)}; run them first.")
    context = {
        "confidence": f"{100 * CONFIDENCE:g} %",
        "control": f"{CONTROL:g}",
        "methods": [f"*{name}*: {text}" for name, text in METHODS.items()],
        "broken": broken_table(scores),
        "broken_figure": broken_figure(scores),
        "costs": [(title(name), cost_table(scores[name])) for name in SETTINGS],
        "smallest": smallest_table(lines),
        "smallest_figure": Figure("smallest-promises", LEAST, draw_smallest, smallest_data(lines)),
        "totals": {method: total_text(scores, method) for method in (*METHODS, SHIPPED)},
        "seconds": seconds_text(scores),
        "most": most_text(scores),
    }
    return PageWriter().draft(TEMPLATE, file, **context)


def by_setting(lines: Sequence[Line]) -> Scores:
    """Return the scores of every setting and method, in the order of the seeds."""
    scores: Scores = defaultdict(lambda: defaultdict(list))
    for line in sorted(lines, key=lambda line: (line["setting"], line["seed"])):
        for method, values in line.get("scores", {}).items():
            scores[line["setting"]][method].append(values)
    return scores


def title(name: str) -> str:
    """Return who is promised what."""
    setting = SETTINGS[name]
    return f"{setting.title}: {setting.criterion} within {setting.tolerance:g}, {setting.n:,} people"


def n_broken(values: Sequence[dict[str, float]]) -> int:
    """Return in how many runs the largest gap of the population is above its tolerance."""
    return sum(run["ratio"] > 1 for run in values)


def share_text(values: Sequence[dict[str, float]]) -> str:
    """Return the share of broken promises with its exact interval."""
    if not values:
        return DASH
    broken, n = n_broken(values), len(values)
    interval = stats.binomtest(broken, n).proportion_ci(0.95)
    return f"{100 * broken / n:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def broken_table(scores: Scores) -> Table:
    """Return how often each method breaks its tolerance."""
    rows = []
    for name in SETTINGS:
        methods = scores[name]
        shares = [share_text(methods.get(method, [])) for method in METHODS]
        rows.append([title(name), str(len(methods["promise"])), *shares])
    return Table(["setting", "runs", *METHODS], rows, left=1)


def broken_figure(scores: Scores) -> Figure:
    """Return the picture of broken tolerances: a row for each setting, in percent, with the interval of the promise."""
    rows = []
    for name, setting in SETTINGS.items():
        runs = {"promise": runs_of(scores, name, SHIPPED)}
        runs |= {method: scores[name].get(method, []) for method in ("plain", "half", "control")}
        shares = {method: 100 * n_broken(values) / len(values) for method, values in runs.items() if values}
        interval = stats.binomtest(n_broken(runs["promise"]), len(runs["promise"])).proportion_ci(0.95)
        bounds = {"low": 100 * interval.low, "high": 100 * interval.high}
        rows.append({"title": f"{setting.title}: {setting.criterion} {setting.tolerance:g}", **shares, **bounds})
    return Figure("promises", BROKEN, draw_broken, {"rows": rows, "promised": 100 * (1 - CONFIDENCE)})


def cost_table(methods: dict[str, list[dict[str, float]]]) -> Table:
    """Return what each method costs in one setting."""
    rows = []
    for method in METHODS:
        values = methods.get(method, [])
        if values:
            accuracy = np.array([run["accuracy"] for run in values])
            mixed = [run["share"] for run in values if run["share"] > MIXED]
            rows.append(
                [
                    method,
                    f"{accuracy.mean():.4f} ± {1.96 * accuracy.std(ddof=1) / math.sqrt(len(accuracy)):.4f}",
                    f"{np.mean([run['violation'] for run in values]):.4f}",
                    f"{100 * n_broken(values) / len(values):.1f} %",
                    f"{100 * len(mixed) / len(values):.0f} %" + (f", {np.mean(mixed):.2f} each" if mixed else ""),
                ]
            )
    return Table(["method", "accuracy", "mean violation", "broken", "mixed"], rows, left=1)


def runs_of(scores: Scores, name: str, method: str) -> list[dict[str, float]]:
    """Return the runs of a method in a setting; as shipped, the folds answer for models whose folds differ much."""
    if method == SHIPPED:
        method = "ensemble" if SETTINGS[name].learner == "forest" else "promise"
    return scores[name].get(method, [])


def total_text(scores: Scores, method: str) -> str:
    """Return how often a method breaks its tolerance over all settings."""
    values = [run for name in SETTINGS for run in runs_of(scores, name, method)]
    return f"{n_broken(values)} of {len(values)} runs, {share_text(values)}"


def most_text(scores: Scores) -> str:
    """Return the largest share of broken promises of any setting."""
    runs = [runs_of(scores, name, SHIPPED) for name in SETTINGS]
    shares = [n_broken(values) / len(values) for values in runs]
    return f"{100 * max(shares):.1f} %"


def seconds_text(scores: Scores) -> str:
    """Return the least and largest mean of the seconds that a promise takes after the fit."""
    seconds = [np.mean([run["seconds"] for run in scores[name]["promise"]]) for name in SETTINGS]
    return f"{min(seconds):.1f} to {max(seconds):.1f} s"


# -- the smallest tolerance ----------------------------------------------------------------------------------
def smallest_points(lines: Sequence[Line]) -> list[tuple[int, dict[str, float], dict[str, float]]]:
    """Return (people, smallest tolerance reached by criterion, and by the formula of `optfair.plan`)."""
    groups = dict(zip("ABCD", SHARES[4], strict=True))
    points = []
    for line in sorted((line for line in lines if line["setting"] == SMALLEST), key=lambda line: line["n"]):
        n = line["n"]
        formula = {
            criterion: plan({name: share * n for name, share in groups.items()}, 3, criterion).smallest["promise"]
            for criterion in ("dp", "eo")
        }
        points.append((n, {criterion: line[criterion] for criterion in formula}, formula))
    return points


def smallest_table(lines: Sequence[Line]) -> Table:
    """Return the smallest tolerances against the number of people."""
    rows = [
        [f"{n:,}", *(f"{values[criterion]:.4f}" for criterion in ("dp", "eo") for values in (reached, formula))]
        for n, reached, formula in smallest_points(lines)
    ]
    heads = ["people", "dp", "dp, formula", "eo", "eo, formula"]
    return Table(heads, rows, left=0)


def smallest_data(lines: Sequence[Line]) -> dict[str, dict[str, list[float]]]:
    """Return what the picture shows by criterion: people, tolerances that were reached, and those of the formula."""
    points = smallest_points(lines)
    return {
        criterion: {
            "people": [float(n) for n, _, _ in points],
            "reached": [reached[criterion] for _, reached, _ in points],
            "formula": [formula[criterion] for _, _, formula in points],
        }
        for criterion in ("dp", "eo")
    }
