"""Write the page of promises from the lines of its runs; for the same lines it is the same, byte for byte."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments.coverage.rules import METHODS
from experiments.coverage.run import SMALLEST, Line
from experiments.coverage.settings import CONFIDENCE, CONTROL, SETTINGS, SHARES
from experiments.page.figures import save
from experiments.page.tables import DASH, Table
from experiments.page.templates import PageTextError, Renderer, rewrapped
from optfair import plan
from optfair.errors import need_extra
from optfair.utils.files import write_atomically

TEMPLATE, PICTURE, CALLER = "pages/promise", "smallest.png", "the page of promises"
SHIPPED = "shipped"  # what `confidence=` does by default
MIXED = 0.005  # a smaller share of decisions that are drawn from a constant is rounding
Scores = dict[str, dict[str, list[dict[str, float]]]]


def write_page(lines: Sequence[Line], file: Path) -> Path:
    """Write the page and its picture, and return its file."""
    text = page_text(lines, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    picture = file.with_suffix("") / PICTURE
    picture.parent.mkdir(exist_ok=True)
    save(draw_smallest(lines), picture)
    write_atomically(file, f"{text}\n".encode())
    return file


def page_text(lines: Sequence[Line], file: Path) -> str:
    """Return the text of the page; every number has been found when this returns."""
    scores = by_setting(lines)
    if missing := [name for name in (*SETTINGS, SMALLEST) if name not in {line["setting"] for line in lines}]:
        raise PageTextError(f"coverage.jsonl: has no line of {', '.join(missing)}; run them first.")
    context = {
        "confidence": f"{CONFIDENCE:g}",
        "control": f"{CONTROL:g}",
        "methods": [f"*{name}*: {text}" for name, text in METHODS.items()],
        "broken": broken_table(scores),
        "costs": [(title(name), cost_table(scores[name])) for name in SETTINGS],
        "smallest": smallest_table(lines),
        "picture": f"{file.stem}/{PICTURE}",
        "totals": {method: total_text(scores, method) for method in (*METHODS, SHIPPED)},
        "seconds": seconds_text(scores),
        "most": most_text(scores),
    }
    return rewrapped(Renderer(file.parent, {}).render(TEMPLATE, **context))


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
    return Table(["setting", "runs", *METHODS], rows, (), "coverage", right=1)


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
    return Table(["method", "accuracy", "mean violation", "broken", "mixed"], rows, (), "coverage", right=1)


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
    return Table(heads, rows, (), "coverage", right=0)


def draw_smallest(lines: Sequence[Line]) -> Any:
    """Draw the smallest tolerance that can be promised against the number of people."""
    need_extra("matplotlib", CALLER).use("Agg")
    figure, axes = need_extra("matplotlib.pyplot", CALLER).subplots(figsize=(6.4, 4), layout="constrained")
    points = smallest_points(lines)
    for criterion, colour, name in (("dp", "C0", "demographic parity"), ("eo", "C3", "equalized odds")):
        people = [n for n, _, _ in points]
        axes.loglog(people, [reached[criterion] for _, reached, _ in points], "o-", color=colour, label=name)
        formula = [formula[criterion] for _, _, formula in points]
        axes.loglog(people, formula, ":", color=colour, label=f"{name}, formula of optfair.plan")
    axes.set_xlabel("people fitted on")
    axes.set_ylabel("smallest tolerance that can be promised")
    axes.set_title("Four groups (the smallest 10 %), three classes, confidence 95 %", fontsize=10)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
