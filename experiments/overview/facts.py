"""Gather what the overview shows from the lines of all experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.bench.cases import CASES, PEERS
from experiments.bench.growth import points
from experiments.bench.lines import Lines
from experiments.bench.page import Lookups as SpeedLookups
from experiments.bench.run import least
from experiments.coverage import page as promises
from experiments.export.page import RUNTIMES, largest_difference, totals
from experiments.overview.pictures import draw_peers, draw_scale, draw_wins
from experiments.page.contests import Contest, verdict_table
from experiments.page.extensions import tolerance, truth
from experiments.page.frontiers import find_contests
from experiments.page.panels import make_panels
from experiments.page.results import Results
from experiments.page.style import Figure
from experiments.page.tables import DASH, Table

METHODS = ("OptFairIn", "OptFairPost")  # the forms of the paper, in the order of the picture
PEER_NAMES = {"present": "optfair", "error-parity": "error-parity", "oxonfair": "OxonFair", "fairlearn": "fairlearn"}
WINS = "Comparisons of OptFair with each other method that were won, within noise and lost."
PEER_SECONDS = (
    "Seconds of optfair, error-parity, OxonFair and fairlearn on a million rows of two groups and two classes."
)
ROWS = "Seconds of a solve as the rows grow from ten thousand in memory to a hundred million in files."
Line = Mapping[str, Any]


def comparisons(results: Results) -> dict[str, Any]:
    """Return who is more accurate at the same violation, how close to the optimum, and whether tolerances are kept."""
    contests = find_contests(results, make_panels(results, results.cells["frontiers"]))
    main = [contest for contest in contests if contest.optfair.method in METHODS]
    wins = [{"title": contest.optfair.title, "rivals": _by_rival(results, contest)} for contest in main]
    return {
        "wins": Figure("wins", WINS, draw_wins, wins),
        "verdicts": verdict_table(main),
        "counts": {contest.optfair.method: contest.count for contest in main},
        "regrets": truth(results, results.cells["truth"])["figure"],
        "tolerances": tolerance(results, results.cells["tolerance"])["figure"],
    }


def _by_rival(results: Results, contest: Contest) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for each in contest.comparisons:
        if each.counted and each.gain is not None:
            own = counts.setdefault(results.title(each.rival.method), {})
            own[each.verdict] = own.get(each.verdict, 0) + 1
    return counts


def promise_facts(lines: Sequence[promises.Line]) -> dict[str, Any]:
    """Return how often tolerances are exceeded, without and with a promise."""
    scores = promises.by_setting(lines)
    return {
        "promises": promises.broken_figure(scores),
        "broken": {method: promises.total_text(scores, method) for method in ("plain", "half", promises.SHIPPED)},
        "cost": {method: _accuracy(scores["adult-dp"][method]) for method in ("plain", "promise")},
    }


def _accuracy(values: Sequence[Mapping[str, float]]) -> str:
    return f"{100 * sum(run['accuracy'] for run in values) / len(values):.1f} %"


def speed_facts(lines: Lines, files: Sequence[Line]) -> dict[str, Any]:
    """Return seconds beside those of other libraries, and as rows grow. files : the lines of folders of many rows."""
    by_name = {(line["name"], line["n"]): line for line in files}
    sizes = sorted({line["n"] for line in files})
    curves = {}
    for criterion in ("dp", "eo"):
        curves[criterion] = {
            "in memory": points(lines, f"rows {criterion}", "present", "seconds"),
            "in files": [(n, by_name[criterion, n]["seconds"]) for n in sizes],
            "reading the files once": [(n, by_name["read", n]["seconds"]) for n in sizes],
        }
    largest = {criterion: by_name[criterion, sizes[-1]] for criterion in ("dp", "eo")}
    return {
        "speed": SpeedLookups(lines),
        "peers": Figure("libraries", PEER_SECONDS, draw_peers, _peers(lines)),
        "scale": Figure("scale", ROWS, draw_scale, curves),
        "large": {
            "rows": f"{sizes[-1]:,}",
            "seconds": {criterion: f"{line['seconds']:.0f} s" for criterion, line in largest.items()},
            "memory": f"{max(line['driver_bytes'] for line in largest.values()) / 1e6:.0f} MB",
        },
    }


def _peers(lines: Lines) -> dict[str, list[tuple[str, float]]]:
    """Return the seconds of every library, by criterion, in the one case that all can do."""
    bars: dict[str, list[tuple[str, float]]] = {}
    for case in CASES.values():
        if set(case.versions) & set(PEERS):
            found = lines.of(case.name)
            seconds = {name: least(found[version], "seconds") for version, name in PEER_NAMES.items()}
            bars[case.options["criterion"]] = [(name, value) for name, value in seconds.items() if value is not None]
    return bars


def production_table(exported: Sequence[Line], served: Sequence[Line]) -> Table:
    """Return how many predictions were made outside of optfair, and how many of them differ.

    Probabilities are compared where models compute in double precision, as graphs and scorers do.
    """
    people, different = totals(exported, "people"), totals(exported, "different")
    rows = []
    for runtime in RUNTIMES:
        alike = [line for line in exported if runtime in line and "double" not in line]
        largest = max(largest_difference({runtime: line[runtime]}) for line in alike)
        rows.append([runtime, f"{people[runtime]:,}", str(different[runtime]), f"{largest:.0e}"])
    load = [line for line in served if line["name"] in ("load", "alone")]
    requests, wrong = (sum(line[name] for line in load) for name in ("requests", "wrong"))
    rows.append(["HTTP service", f"{requests:,}", str(wrong), DASH])
    return Table(["where", "predictions compared", "different", "largest difference of a probability"], rows, left=1)


def production_facts(exported: Sequence[Line], served: Sequence[Line]) -> dict[str, Any]:
    """Return the table of predictions made elsewhere, and the speed of the service."""
    load = next(line for line in served if line["name"] == "load")
    service = {"rate": f"{load['rate']:,.0f}", "median": f"{load['p50']:.0f} ms", "p99": f"{load['p99']:.0f} ms"}
    service["at_once"] = str(load["at_once"])
    single = max(largest_difference(line) for line in exported if "double" in line)
    return {"single": f"{single:.0e}", "production": production_table(exported, served), "service": service}
