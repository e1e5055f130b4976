"""Show a result in a notebook: a small table with every text escaped, in the colours of the page around it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

BOX = "display:inline-block;border:1px solid rgba(128,128,128,.5);border-radius:6px;padding:.5em .9em;margin:.25em 0"
CELL = "text-align:{side};padding:.1em 1em .1em 0;background:none;color:inherit;border:0"


def card(title: str, rows: Iterable[tuple[str, str]], note: str = "") -> str:
    """Return a titled list of names and values, and a note below it."""
    lines = [
        f'<tr style="background:none"><td style="{CELL.format(side="left")};opacity:.75">{html.escape(name)}</td>'
        f'<td style="{CELL.format(side="left")}">{html.escape(value)}</td></tr>'
        for name, value in rows
    ]
    return box(title, f'<table style="border-collapse:collapse;margin:.3em 0">{"".join(lines)}</table>', note)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a titled table, its first column to the left and the others to the right."""
    sides = ["left", *["right"] * (len(head) - 1)]
    top = "".join(
        f'<th style="{CELL.format(side=side)};opacity:.75">{html.escape(name)}</th>'
        for name, side in zip(head, sides, strict=True)
    )
    lines = [
        '<tr style="background:none">'
        + "".join(
            f'<td style="{CELL.format(side=side)}">{html.escape(cell)}</td>'
            for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    content = f'<table style="border-collapse:collapse;margin:.3em 0"><tr>{top}</tr>{"".join(lines)}</table>'
    return box(title, content, note)


def box(title: str, content: str, note: str = "") -> str:
    """Return content in a frame. content : HTML whose texts are escaped."""
    end = f'<div style="opacity:.75;max-width:46em">{html.escape(note)}</div>' if note else ""
    return f'<div style="{BOX}"><b>{html.escape(title)}</b>{content}{end}</div>'
