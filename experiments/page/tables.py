"""Format numbers as text and tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.areas import Mean, mean
from experiments.page.results import Cell, Results, difference
from experiments.pool import STOPPED

REASON_LENGTH = 90  # letters of the reason why a method cannot
DIGITS = {"accuracy": 2, "regret": 2, "violation": 4, "floor": 4, "true_violation": 4, "gain": 3}
DASH = "–"  # for what does not apply


@dataclass(frozen=True)
class Table:
    """A table whose cells are texts. left : columns aligned to the left; those after them hold numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int | None = None

    def __str__(self) -> str:
        """Return the table as Markdown."""
        left = len(self.heads) if self.left is None else self.left
        rule = "|" + " --- |" * left + " ---: |" * (len(self.heads) - left)
        body = [_line(text.replace("|", "\\|") for text in row) for row in self.rows]
        return "\n".join([_line(self.heads), rule, *body])


def _line(row: Iterable[str]) -> str:
    return "| " + " | ".join(row) + " |"


# -- numbers -----------------------------------------------------------------------------------------------
def number(value: Mean, digits: int, *, sign: bool = False) -> str:
    """Return mean ± half; of one seed the mean alone."""
    text = _plain(value.value, digits, sign)
    return text if value.n == 1 else f"{text} ± {value.half:.{digits}f}"


def _plain(value: float, digits: int, sign: bool = False) -> str:
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def seconds(value: Mean) -> str:
    """Return seconds with three significant digits."""
    digits = 1 if value.value >= 10 else 2 if value.value >= 1 else 3
    return number(value, digits)


def score(cell: Cell, *quantities: str) -> str:
    """Return the numbers of a cell, "accuracy / violation" unless others are named; or why there are none."""
    if len(cell.errors) == len(cell.lines):
        return cannot(cell.errors)
    texts = []
    for quantity in quantities or ("accuracy", "violation"):
        value = cell.mean(quantity)
        texts.append(seconds(value) if "seconds" in quantity else number(value, DIGITS[quantity]))
    failed = f" ({cannot(cell.errors)}, at {len(cell.errors)} of {len(cell.lines)} seeds)" if cell.errors else ""
    return " / ".join(texts) + failed


def change(left: Cell, right: Cell, *quantities: str) -> str:
    """Return left − right, of the same seed; of accuracy / violation unless others are named."""
    texts = []
    for quantity in quantities or ("accuracy", "violation"):
        values = difference(left.by_seed(quantity), right.by_seed(quantity))
        if not values:
            return cannot([*left.errors, *right.errors, "no seed has both"])
        texts.append(number(mean(values), DIGITS[quantity], sign=True))
    return " / ".join(texts)


def both(cell: Cell) -> list[str]:
    """Return accuracy and violation of a cell, or once why there are none."""
    text = score(cell, "accuracy")
    return [text, score(cell, "violation") if cell.by_seed("accuracy") else DASH]


def within(cells: Sequence[Cell]) -> str:
    """Return how many of how many runs are within tolerance + noise floor, and how many cannot."""
    inside = inside_bounds(cells)
    failed = [error for cell in cells for error in cell.errors]
    if not inside:
        return cannot(failed)
    return f"{sum(inside)} of {len(inside)}" + (f" ({len(failed)} more: {cannot(failed)})" if failed else "")


def inside_bounds(cells: Sequence[Cell]) -> list[bool]:
    """Tell of every run whether its violation is within tolerance + noise floor."""
    inside: list[bool] = []
    for cell in cells:
        floor = cell.by_seed("floor")
        inside += [gap <= float(cell.value or 0.0) + floor[seed] for seed, gap in cell.by_seed("violation").items()]
    return inside


def knob(results: Results, cell: Cell) -> str:
    """Return the knob and its value, as `alpha` 0.1; a dash where there is none."""
    method = results.plan.methods[cell.method]
    return DASH if method.anchor or cell.value is None else f"`{method.kind.knob}` {cell.value:g}"


def cannot(errors: Sequence[str]) -> str:
    """Return the first reason, short, without the name of the exception."""
    reason = " ".join(errors[0].split())
    name, colon, text = reason.partition(": ")
    if colon and name.isidentifier() and name[0].isupper():
        reason = text
    if len(reason) > REASON_LENGTH:
        reason = reason[:REASON_LENGTH].rsplit(" ", 1)[0] + " …"
    return f"not finished: {reason}" if reason.startswith(STOPPED) else f"cannot: {reason}"


def span(values: Iterable[int]) -> str:
    """Return 1–5 of neighbours, else 1, 3, 4."""
    numbers = sorted(set(values))
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}–{numbers[-1]}"
    return ", ".join(map(str, numbers))


def extent(values: Sequence[int]) -> str:
    """Return 3–7, or 3 where all are equal."""
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,}–{max(values):,}"
