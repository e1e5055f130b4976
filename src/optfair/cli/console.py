"""Format text for the terminal: paragraphs, headings, tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

WIDTH = 110


class Transcript:
    """Print lines, and keep them."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        """Print and keep one line, or several separated by newlines."""
        print(text, flush=True)
        self._lines.append(text)

    def paragraph(self, text: str, indent: int = 0) -> None:
        """Print wrapped text; lines after the first begin ``indent`` columns further in."""
        self.line(textwrap.fill(text, WIDTH, subsequent_indent=" " * indent))

    def title(self, text: str) -> None:
        """Print a heading after an empty line."""
        self.line(f"\n{heading(text)}")

    def text(self) -> str:
        """Return everything that was printed."""
        return "\n".join([*self._lines, ""])


def join_name(value: object) -> object:
    """Return a name that a file or a picture can hold: a tuple of several attributes becomes "a × b"."""
    return " × ".join(map(str, value)) if isinstance(value, tuple) else value


def join_names(names: Sequence[Any], limit: int = 20) -> str:
    """Return names separated by commas, cut after ``limit`` of them."""
    ending = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(str, names[:limit])) + ending


def heading(text: str) -> str:
    """Return a line that is underlined."""
    return f"{text}\n{'─' * min(len(text), WIDTH)}"


def text_table(table: pd.DataFrame, digits: int = 4) -> str:
    """Return columns side by side: texts to the left, numbers to the right; empty columns are left out."""
    columns = []
    for name in table.columns:
        values = table[name].tolist()
        if all(value is None or value == "" for value in values):
            continue
        is_number = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
        cells = [_cell(value, digits) for value in values]
        width = max(len(str(name)), *map(len, cells))
        columns.append([str.rjust(c, width) if is_number else str.ljust(c, width) for c in (str(name), *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _cell(value: object, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.{digits}f}"
    return str(value)
