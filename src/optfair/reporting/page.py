"""Draw a document of numbers as one HTML page: no network, no library, readable without JavaScript."""

from __future__ import annotations

import base64
import csv
import gzip
import html
import io
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

from optfair.errors import need_extra
from optfair.reporting.drawing import path_drawing, rates_drawing
from optfair.reporting.findings import clear_change
from optfair.reporting.glossary import WORDS
from optfair.reporting.markdown import (
    IMPACT_MARKS,
    OPEN_QUESTIONS,
    STATES,
    impact_title,
    rate_of,
    ratio_end,
    role_names,
    roles_of,
    sure,
)
from optfair.reporting.summary import widest_gap
from optfair.reporting.text import gap_cells, gap_place, price_name, shown_ends
from optfair.reporting.wording import count_text, percent, points, size_text

CALLER = "Report.html"
LONGEST = 15  # lines of a table that is cut
MANY_GROUPS = 20  # from here on groups stand in the order of their distance from everybody, not of their names
LARGEST_FILE = 30_000  # characters of a download in the page as they are; a page stays below 300 kB
FRAME_HEIGHT = 720  # of the page inside a notebook, in pixels
MOST_CELLS = 600  # of the matrices of changes: of more groups only those that changed most have one
MOST_RADIOS = 8  # choices of a switch that are all shown; of more there is a list
URL_CHARACTERS = '"{}[]:,.-_/()=;! '  # that stay as they are in a data: URL, which is then hardly longer than its text
SIGNS = {"within": "✓", "beyond": "✗", "unknown": "?", None: ""}


def page_html(document: Mapping[str, Any]) -> str:
    """Return the page of a document."""
    page = _environment().get_template("report.html.j2").render(**page_context(document))
    return re.sub(r"\n\s+", "\n", str(page))


def page_context(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the templates are filled with: the document, the places of marks, tables cut to a readable length."""
    roles = roles_of(document)
    by_rule = {line["rule"]: line for line in document["performance"]}
    measures = [by_rule[rule["name"]] for rule in document["rules"]]
    path = document["path"]
    return {
        "report": document,
        "roles": roles,
        "names": role_names(document),
        "shown": measures,
        "charts": [_chart(index, document, measures) for index in range(len(document["asked"]))],
        "quality": _quality(document),
        "matrices": _matrices(document),
        "gaps": document["gaps"][:LONGEST],
        "ends": shown_ends(document),
        "path": path,
        "drawing": None if path is None else path_drawing(path, measures, document["tolerance"]),
        "start": None if path is None else _nearest(path, document["tolerance"]),
        "files": [
            {"id": "json", "label": "JSON", **_file("report.json", "application/json", _compact(document))},
            {"id": "csv", "label": "CSV of the rates", **_file("rates.csv", "text/csv", csv_text(document))},
        ],
    }


def notebook_html(document: Mapping[str, Any], text: str) -> str:
    """Return the page in a frame of its own, so that no style of a notebook breaks it; without jinja2 the text."""
    try:
        page = page_html(document)
    except ImportError:
        return f"<pre>{html.escape(text)}</pre>"
    return (
        f'<iframe title="Fairness report" sandbox="allow-scripts allow-downloads allow-modals" style="width:100%;'
        f'border:0;height:{FRAME_HEIGHT}px" srcdoc="{html.escape(page)}"></iframe>'
    )


@cache
def _environment() -> Any:
    jinja2 = need_extra("jinja2", CALLER)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "points": points, "interval": _interval, "size": size_text}
    environment.filters |= {"count": count_text}
    environment.globals |= {"states": STATES, "signs": SIGNS, "level_text": sure, "words": WORDS}
    environment.globals |= {"gap_place": gap_place, "gap_cells": gap_cells, "price_name": price_name}
    environment.globals |= {"impact_title": impact_title, "ratio_end": ratio_end, "impact_marks": IMPACT_MARKS}
    environment.globals |= {"open_questions": OPEN_QUESTIONS, "longest": LONGEST}
    return environment


def _template(name: str) -> str:
    return (resources.files("optfair.reporting") / "templates" / name).read_text(encoding="utf-8")


def _interval(rate: Any) -> str:
    """Return the ends of an interval in per cent, without the sign."""
    return "" if rate is None or rate[0] is None else f"{100 * rate[1]:.1f}–{100 * rate[2]:.1f}"


# -- rates -------------------------------------------------------------------------------------------------------
def _chart(index: int, document: Mapping[str, Any], measures: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the views of one constraint with the places of their marks, and the switches between them."""
    views = [view for view in document["rates"] if view["asked"] == index]
    roles, request = roles_of(document), document["asked"][index]
    switches, keys = _switches(views)
    widest = widest_gap(views, roles[0]) if roles else None
    key = None if widest is None else next(key for view, key in zip(views, keys, strict=True) if view is widest.view)
    for k, switch in enumerate(switches):
        switch["start"] = 0 if key is None else int(key.split("-")[k])
    is_gap = request["kind"] == "Constraint" and request["reference"] == "overall" and request["criterion"] != "meo"
    floors = [line["noise_floor"] if is_gap else None for line in measures]
    panels = []
    for k, (view, key) in enumerate(zip(views, keys, strict=True)):
        drawing = rates_drawing(view, roles, floors)
        panels.append(
            {"id": f"v{index}-{k}", "view": view, "key": key, "lines": _lines(view, roles, drawing), **drawing}
        )
    return {"asked": request, "switches": switches, "panels": panels, "several": len(panels) > 1}


def _switches(views: list[Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the switches between views, and of each view its positions in them, as "0-2"."""
    given = list(dict.fromkeys(view["given"] for view in views))
    outcome = list(dict.fromkeys(view["outcome"] for view in views))
    if len(given) * len(outcome) == len(views):
        keys = [f"{given.index(view['given'])}-{outcome.index(view['outcome'])}" for view in views]
        names = [("True class", given), ("Answer", outcome)]
    else:
        keys = [str(k) for k in range(len(views))]
        is_recall = len(outcome) == len(views)
        names = [("Class", outcome)] if is_recall else [("Question", [view["question"] for view in views])]
    switches = [
        {"label": label, "names": texts, "radio": len(texts) <= MOST_RADIOS and label != "Question"}
        for label, texts in names
    ]
    return switches, keys


def _lines(view: Mapping[str, Any], roles: list[str], drawing: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of a view, one line each, family by family; of many the furthest from everybody first."""
    lines = [
        {
            "group": group,
            "people": view["people"][k],
            "family": view["family"][k],
            "marks": drawing["marks"][k],
            "cells": [{"rate": rate_of(view, role, k), "state": view[role]["state"][k]} for role in roles],
            "distance": _distance(view, roles[-1], k),
        }
        for k, group in enumerate(view["groups"])
    ]
    if max((view["family"].count(family) for family in set(view["family"])), default=0) > MANY_GROUPS:
        lines.sort(key=lambda line: (line["family"], -line["distance"]))
    return lines


def _distance(view: Mapping[str, Any], role: str, k: int) -> float:
    value, overall = view[role]["value"][k], view[role]["overall"]
    return -1.0 if value is None or overall is None else abs(value - overall)


def _nearest(path: Mapping[str, Any], tolerance: float | None) -> int:
    """Return the position of the rule of a path whose tolerance is nearest to the one asked for."""
    distances = [abs(point["tolerance"] - (tolerance or 0.0)) for point in path["points"]]
    return distances.index(min(distances))


def _matrices(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return from which answer to which people went: everybody, then the groups that changed most, as many as fit."""
    if not document["changes"]:
        return []
    *groups, total = document["changes"]
    room = max(MOST_CELLS // len(document["classes"]) ** 2, 3)
    groups = sorted(groups, key=lambda line: -(line["changed"] or 0.0))[:room] if len(groups) > room else groups
    return [total, *groups]


def _quality(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return right and wrong answers, each as a table of groups by classes."""
    parts = []
    for kinds, title in ((("accuracy", "recall"), "Right answers"), (("wrong",), "Wrong answers")):
        lines = [line for line in document["quality"] if line["rate"] in kinds]
        rows: dict[str, list[Any]] = {}
        for line in lines:
            rows.setdefault(line["group"], []).append({**line, "sign": clear_change(line)})
        if lines:
            parts.append(
                {"title": title, "columns": list(dict.fromkeys(line["class"] for line in lines)), "rows": rows}
            )
    return parts


# -- downloads -----------------------------------------------------------------------------------------------
def csv_text(document: Mapping[str, Any]) -> str:
    """Return the rates of all groups as CSV, a line per group and question."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    roles, names = roles_of(document), role_names(document)
    numbers = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    writer.writerow([_safe_cell(cell) for cell in ["rate", "true_class", "answer", "group", "people", *numbers]])
    keys = set()
    for view in document["rates"]:
        for k, group in enumerate(view["groups"]):
            key = view["given"], view["outcome"], group
            if key in keys:  # by another constraint
                continue
            keys.add(key)
            rates = [number for role in roles for number in rate_of(view, role, k)]
            row = ["answer", view["given"], view["outcome"], group, view["people"][k], *rates]
            writer.writerow([_safe_cell(cell) for cell in row])
    for line in document["quality"]:
        given = f"not {line['class']}" if line["rate"] == "wrong" else line["class"]
        if (given, line["class"], line["group"]) in keys:
            continue
        rates = [number for role in roles for number in line[role]]
        row = [line["rate"], given, line["class"], line["group"], line["people"], *rates]
        writer.writerow([_safe_cell(cell) for cell in row])
    return file.getvalue()


def _safe_cell(cell: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _file(name: str, kind: str, text: str) -> dict[str, Any]:
    """Return name and data: URL of a file, packed where it is large; a browser with JavaScript unpacks it."""
    if len(text) <= LARGEST_FILE:
        return {"name": name, "url": _data_url(kind, text)}
    packed = base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")
    return {"name": f"{name}.gz", "url": f"data:application/gzip;base64,{packed}"}


def _data_url(kind: str, text: str) -> Any:
    """Return a data: URL for an attribute in single quotes: every character that could end it is written as %XX."""
    address = f"data:{kind};charset=utf-8,{quote(text, safe=URL_CHARACTERS)}"
    assert not set(address) & set("'<>&#\n"), "quote leaves only what is safe"
    return need_extra("jinja2.utils", CALLER).markupsafe.Markup(address)
