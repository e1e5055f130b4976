"""Put lines into words: seconds of each version, ratios, what was proven, and whether goals are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.bench.cases import OURS, PEERS, Case, Goal
from experiments.bench.run import Line, is_finished, least

TITLES = {
    "previous": "previous",
    "present": "present",
    "fairlearn": "fairlearn ThresholdOptimizer",
    "oxonfair": "OxonFair FairPredictor",
    "error-parity": "error-parity RelaxedThresholdOptimizer",
}
NOT_RUN = "not run"
COUNTS = ("reads", "solves", "sums")  # not seconds
WIDTH = 38  # of the name of a case


def amount(quantity: str, value: float) -> str:
    """Return a quantity with its unit."""
    if quantity in COUNTS:
        return f"{value:.1f} {quantity}"
    return f"{value * 1e3:.3g} ms" if value < 0.1 else f"{value:.3g} s"


def goal_text(goal: Goal) -> str:
    """Return what is asked for, in words."""
    words = {
        "seconds": "",
        "reads": "",
        "solves": "",
        "sums": "",
        "after_models": "after the model ",
        "over_thrice_base": "beyond 3 × base ",
        "one_row_over_base": "one row beyond base ",
    }
    unit = f"{goal.bound:g} {goal.quantity}" if goal.quantity in COUNTS else amount("", goal.bound)
    return f"{words[goal.quantity]}≤ {unit}"


def verdict(goal: Goal, line: Line | None) -> str:
    """Return whether a line is within a goal, and by how much not."""
    value = None if line is None else least(line, goal.quantity)
    if value is None:
        return "missed"
    if value <= goal.bound:
        return "met"
    return f"missed by {100 * (value / goal.bound - 1):.0f} %"


def outcome(line: Line | None, quantity: str = "seconds") -> str:
    """Return the least of a quantity, or why there is none."""
    if line is None:
        return NOT_RUN
    value = least(line, quantity)
    if value is not None:
        return amount(quantity, value)
    if quantity != "seconds":
        return "–"
    failed: Line = next((run for run in line["runs"] if "seconds" not in run), {})
    return f"> {failed['stopped']:g} s" if "stopped" in failed else str(failed.get("error", NOT_RUN))


def ratio(previous: Line | None, present: Line | None, quantity: str = "seconds") -> str:
    """Return how many times as long the previous release takes; at least, where it was stopped."""
    if present is None or previous is None:
        return ""
    after, before = least(present, quantity), least(previous, quantity)
    if before is None:
        limits = [run["stopped"] for run in previous["runs"] if "stopped" in run]
        return f"> {limits[0] / after:.3g}" if limits and after else ""
    return f"{before / after:.3g}" if after else ""


def proof(line: Line | None) -> str:
    """Return the certificate of the last run in few words; empty where there is none."""
    if line is None or not is_finished(line) or "gap" not in line["runs"][-1]:
        return ""
    run = line["runs"][-1]
    proven = "proven" if run["proven"] else f"NOT PROVEN ({run['status']})"
    outside = f", outside by {run['excess']:.0e}" if run["excess"] > 0 else ""
    return f"gap {run['gap']:.1e}, {proven}{outside}; {run['active']} of K = {run['bounds']} active"


def report(case: Case, lines: Sequence[Line]) -> str:
    """Return the text of a case for the terminal."""
    by_version: Mapping[str, Line] = {line["version"]: line for line in lines}
    previous, present = (by_version.get(version) for version in OURS)
    head = f"{case.name:<{WIDTH}}"
    for quantity, name in (("seconds", ""), ("cpu", "; processor: ")):
        before, after = outcome(previous, quantity), outcome(present, quantity)
        head += f"{name}{before:>9} → {after:<9} ratio {ratio(previous, present, quantity) or '–':<6}"
    details = [_details(present), proof(present), _decisions(present)]
    details += [f"{goal_text(goal)}: {verdict(goal, present).upper()}" for goal in case.goals]
    texts = [head, *(f"    {detail}" for detail in details if detail)]
    for name in PEERS:
        if name in by_version:
            texts.append(f"    {TITLES[name]}: {outcome(by_version[name])}{_against(by_version[name], present)}")
            texts[-1] += f"; {_decisions(by_version[name])}" if is_finished(by_version[name]) else ""
    return "\n".join(texts)


def _against(peer: Line, present: Line | None) -> str:
    text = ratio(peer, present)
    return f", {text} times ours" if text else ""


def _decisions(line: Line | None) -> str:
    if line is None or not is_finished(line) or "violation" not in line["runs"][-1]:
        return ""
    run = line["runs"][-1]
    return f"decisions: accuracy {run['accuracy']:.4f}, violation {run['violation']:.4f}"


def _details(line: Line | None) -> str:
    if line is None or not is_finished(line):
        return ""
    best = min(line["runs"], key=lambda run: run["seconds"])
    texts = [amount(name, best[name]) for name in ("reads", "sums", "solves") if name in best]
    texts += [f"{best['passes']} passes"] if "passes" in best else []
    names = {"base": "base", "one_row": "one row", "one_row_over_base": "over base", "after_models": "after the model"}
    texts += [f"{text} {amount(name, best[name])}" for name, text in names.items() if name in best]
    texts += [f"{name} {amount(name, value)}" for name, value in best.get("stages", {}).items()]
    return ", ".join(texts)
