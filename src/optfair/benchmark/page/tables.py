"""Numbers as text, tables as Markdown, and captions that say whose numbers they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from optfair.benchmark.areas import LEVEL, Mean, mean
from optfair.benchmark.page.results import CRITERIA, Cell, Results, difference, unique
from optfair.benchmark.people import MADE_UP
from optfair.benchmark.pool import STOPPED

SHORT = 90  # letters of a reason why a method cannot
DIGITS = {"accuracy": 2, "regret": 2, "violation": 4, "floor": 4, "true_violation": 4, "gain": 3}


@dataclass(frozen=True)
class Picture:
    """A figure of the page; drawn only when all numbers have been found."""

    name: str
    alt: str
    caption: str
    draw: Callable[[], Any]


Part = str | Picture


# -- numbers -----------------------------------------------------------------------------------------------
def number(found: Mean, digits: int, *, sign: bool = False) -> str:
    """mean ± half; of one seed the mean alone."""
    value = _plain(found.value, digits, sign)
    return value if found.n == 1 else f"{value} ± {found.half:.{digits}f}"


def _plain(value: float, digits: int, sign: bool = False) -> str:
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def seconds(found: Mean) -> str:
    """Three digits that count."""
    digits = 1 if found.value >= 10 else 2 if found.value >= 1 else 3
    return number(found, digits)


def score(cell: Cell, *names: str) -> str:
    """The cell's numbers, as "accuracy / violation" unless others are named; or why there are none."""
    done = len(cell.lines) - len(cell.errors)
    if not done:
        return cannot(cell.errors)
    told = []
    for name in names or ("accuracy", "violation"):
        found = cell.mean(name)
        told.append(seconds(found) if "seconds" in name else number(found, DIGITS[name]))
    failed = f" ({cannot(cell.errors)}, at {len(cell.errors)} of {len(cell.lines)} seeds)" if cell.errors else ""
    return " / ".join(told) + failed


def change(left: Cell, right: Cell) -> str:
    """left − right of accuracy / violation, of the same seed."""
    told = []
    for what in ("accuracy", "violation"):
        found = difference(left.each(what), right.each(what))
        if not found:
            return cannot([*left.errors, *right.errors, "no seed has both"])
        told.append(number(mean(found), DIGITS[what], sign=True))
    return " / ".join(told)


def knob(results: Results, cell: Cell) -> str:
    """`alpha` 0.1; a dash where there is none to turn."""
    method = results.plan.methods[cell.method]
    return "–" if method.anchor or cell.value is None else f"`{method.kind.knob}` {cell.value:g}"


def cannot(errors: Sequence[str]) -> str:
    """The first reason, short; without the name of the exception."""
    reason = " ".join(errors[0].split())
    head, colon, rest = reason.partition(": ")
    if colon and head.isidentifier() and head[0].isupper():
        reason = rest
    if len(reason) > SHORT:
        reason = reason[:SHORT].rsplit(" ", 1)[0] + " …"
    return f"not finished: {reason}" if reason.startswith(STOPPED) else f"cannot: {reason}"


def floors(results: Results, cells: Sequence[Cell]) -> str:
    """Noise floor: dp Adult 0.0077, ENEM 0.0492; eo …"""
    told = []
    for criterion in unique(cell.criterion for cell in cells):
        own = []
        for data in unique(cell.data for cell in cells):
            found = [v for c in cells if (c.data, c.criterion) == (data, criterion) for v in c.each("floor").values()]
            own += [f"{results.data_title(data)} {sum(found) / len(found):.4f}"] if found else []
        told += [f"{CRITERIA[criterion]} {', '.join(own)}"] if own else []
    return f"Noise floor, the mean of these runs: {'; '.join(told)}." if told else ""


def span(values: Iterable[int]) -> str:
    """1–5 of neighbours, else 1, 3, 4."""
    own = sorted(set(values))
    if len(own) > 2 and own[-1] - own[0] == len(own) - 1:
        return f"{own[0]}–{own[-1]}"
    return ", ".join(map(str, own))


# -- Markdown ----------------------------------------------------------------------------------------------
def table(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in [list(heads), ["---"] * len(heads), *body]]
    return "\n".join(lines) + f"\n\n{caption}"


def details(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


# -- captions ----------------------------------------------------------------------------------------------
def caption(results: Results, experiment: str, cells: Sequence[Cell], says: str) -> str:
    """What is shown; of how many people, by which seeds; what ± is; what makes the runs; who stands in for whom."""
    parts = [says, f"Learned from / judged on: {_people(results, cells)}.", interval(cells)]
    parts += stand_ins(results, unique(cell.data for cell in cells))
    if results.plan.smoke:
        parts.append("**Smoke runs: these numbers mean nothing.**")
    parts.append(f"Runs: `{results.made_by(experiment)}`.")
    return "<sub>" + " ".join(part for part in parts if part) + "</sub>"


def interval(cells: Sequence[Cell]) -> str:
    counts = {len(cell.lines) for cell in cells}
    if counts == {1}:
        return "One seed, so no interval."
    only = " Of one seed there is none." if 1 in counts else ""
    return f"± is half a {LEVEL:.0%} interval over the seeds (Student's t).".replace("%", " %") + only


def stand_ins(results: Results, data: Iterable[str]) -> list[str]:
    """A sentence for all people that are not those of the paper."""
    told: dict[str, list[str]] = {}
    for name in data:
        own = results.stand_in(name)
        if own:
            told.setdefault(own, []).append(results.data_title(name))
    return [f"**{', '.join(unique(titles))}: {stand_in(own)}.**" for own, titles in told.items()]


def stand_in(text: str) -> str:
    return "a STAND-IN, people who are made up" if text == MADE_UP else f"a STAND-IN for {text}"


def _people(results: Results, cells: Sequence[Cell]) -> str:
    """Adult 29,305 / 19,537 (seeds 1–5); people that differ in size only are told as one."""
    by_title: dict[str, list[str]] = {}
    for data in unique(cell.data for cell in cells):
        by_title.setdefault(results.data_title(data), []).append(data)
    told = []
    for title, names in by_title.items():
        seeds = [seed for cell in cells if cell.data in names for seed in cell.seeds]
        word = "seed" if len(set(seeds)) == 1 else "seeds"
        told.append(f"{title} {_sizes(results, names)} ({word} {span(seeds)})")
    return ", ".join(told)


def _sizes(results: Results, names: Sequence[str]) -> str:
    lines = [line for name in names if (line := results.people(name)) is not None]
    if not lines:
        return "not known, as every run was stopped"
    sizes = []
    for part in (0, 1):
        own = [line["n"][part] for line in lines]
        sizes.append(f"{min(own):,}" if min(own) == max(own) else f"{min(own):,}–{max(own):,}")
    return " / ".join(sizes)
