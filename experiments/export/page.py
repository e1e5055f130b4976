"""Write the page of exported models, every number from a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.export.cases import DATA, MODELS, SETTINGS
from optfair.errors import need_extra
from optfair.utils.files import write_atomically

TEMPLATE = Path(__file__).with_name("export.md.j2")
RUNTIMES = ("onnxruntime", "Python scorer", "JavaScript scorer (node)")
Line = Mapping[str, Any]


def write_page(lines: Sequence[Line], page: Path) -> None:
    """Write the page from all lines."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(page, draft_page(lines).encode())


def draft_page(lines: Sequence[Line]) -> str:
    """Return the text of the page."""
    jinja2 = need_extra("jinja2", "the page of exported models")
    options = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, **options).from_string(TEMPLATE.read_text("utf-8"))
    text: str = template.render(
        rows=[model_row(lines, model) for model in MODELS if any(line["model"] == model for line in lines)],
        data=[data_row(lines, data) for data in DATA if any(line["data"] == data for line in lines)],
        settings=list(SETTINGS),
        runtimes=RUNTIMES,
        n_cases=len(lines),
        answers=totals(lines, "people"),
        different=totals(lines, "different"),
        largest=max(largest_difference(line) for line in lines if "double" not in line),
        single=[data for data in DATA if any("double" in line for line in lines if line["data"] == data)],
        largest_single=max((largest_difference(line) for line in lines if "double" in line), default=0.0),
        double=max((line["double"] for line in lines if "double" in line), default=0.0),
    )
    return text


def largest_difference(line: Line) -> float:
    """Return the largest difference of a probability in a case."""
    return max(float(line[runtime]["largest"]) for runtime in RUNTIMES if runtime in line)


def totals(lines: Sequence[Line], name: str) -> dict[str, int]:
    """Return the sum of a number over all cases, by what ran them."""
    return {runtime: sum(line[runtime][name] for line in lines if runtime in line) for runtime in RUNTIMES}


def model_row(lines: Sequence[Line], model: str) -> Line:
    """Return what one kind of model came to, over data and settings."""
    mine = [line for line in lines if line["model"] == model]
    row: dict[str, Any] = {"model": model, "cases": len(mine), "graph_bytes": max(line["graph_bytes"] for line in mine)}
    for runtime in RUNTIMES:
        present = [line[runtime] for line in mine if runtime in line]
        row[runtime] = {
            "largest": max((entry["largest"] for entry in present), default=None),
            "different": sum(entry["different"] for entry in present),
            "people": sum(entry["people"] for entry in present),
        }
    names = ("native", *RUNTIMES)
    row["microseconds"] = {name: median_time(mine, name) for name in names}
    return row


def median_time(lines: Sequence[Line], name: str) -> float | None:
    """Return the median over cases of the microseconds of one row."""
    values = [line["microseconds"][name] for line in lines if line["microseconds"].get(name) is not None]
    return float(np.median(values)) if values else None


def data_row(lines: Sequence[Line], data: str) -> Line:
    """Return what the people of one data set are."""
    mine = [line for line in lines if line["data"] == data]
    first = mine[0]
    undecided = [line["undecided"] for line in mine]
    return {
        "data": data,
        "groups": first["groups"],
        "classes": first["classes"],
        "people": max(line["onnxruntime"]["people"] for line in mine),
        "undecided": (min(undecided), max(undecided)),
    }
