"""Readable tables and pictures' names on a terminal."""

from __future__ import annotations

import importlib.util
import sys
import textwrap

import numpy as np
import pandas as pd

WIDTH = 110


class Transcript:
    """Prints lines, and keeps them."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self._lines.append(line)

    def paragraph(self, text: str, indent: int = 0) -> None:
        """Wrapped; lines after the first begin ``indent`` further in."""
        self(textwrap.fill(text, WIDTH, subsequent_indent=" " * indent))

    def title(self, text: str) -> None:
        self(f"\n{heading(text)}")

    def text(self) -> str:
        return "\n".join([*self._lines, ""])


def plain(value: object) -> object:
    """A name a file or a picture can hold: a tuple of several attributes as "a × b"."""
    return " × ".join(map(str, value)) if isinstance(value, tuple) else value


def status(text: str) -> None:
    """What is being done now, where it is not part of the answer."""
    print(f"... {text}", file=sys.stderr, flush=True)


def shows_progress() -> bool:
    """Whether bars can be seen: on a terminal, with tqdm."""
    return sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None


def heading(text: str) -> str:
    """A line that stands above a table."""
    return f"{text}\n{'─' * min(len(text), WIDTH)}"


def text_table(table: pd.DataFrame, digits: int = 4) -> str:
    """Columns side by side: texts to the left, numbers to the right with the same digits, empty columns left out."""
    columns = []
    for name in table.columns:
        values = table[name].tolist()
        if all(value is None or value == "" for value in values):
            continue
        numbers = all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values)
        cells = [_cell(value, digits) for value in values]
        width = max(len(str(name)), *map(len, cells))
        columns.append([str.rjust(c, width) if numbers else str.ljust(c, width) for c in (str(name), *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _cell(value: object, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.{digits}f}"
    return str(value)
