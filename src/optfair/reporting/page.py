"""Draw a document of numbers as one HTML page: no network, no library, readable without JavaScript.

Every number comes from the document; here are only the places of marks, in units of the drawing.
"""

from __future__ import annotations

import base64
import csv
import gzip
import html
import io
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np

from optfair.errors import need_extra
from optfair.reporting.markdown import STATES, gap_cells, gap_place, rate_of, sure
from optfair.reporting.wording import percent, points

CALLER = "Report.html"
WIDTH = 300  # of a drawing
EDGE = 8  # kept free at its sides
LONGEST = 15  # lines of the table of comparisons
LARGEST_JSON = 40_000  # characters of the document in the page as they are; a page stays below 300 kB
FRAME_HEIGHT = 720  # of the page inside a notebook, in pixels
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)  # between ticks
TICKS = 6  # at most
MOST_RADIOS = 8  # choices of a switch that are all shown; of more there is a list
URL_CHARACTERS = '"{}[]:,.-_/()=;! '  # that stay as they are in a data: URL, which is then hardly longer than its text


def page_html(document: Mapping[str, Any]) -> str:
    """Return the page of a document."""
    template = _environment().get_template("report.html.j2")
    return str(
        template.render(
            report=document,
            charts=[_chart(index, document) for index in range(len(document["asked"]))],
            quality=_quality(document),
            gaps=document["gaps"][:LONGEST],
            ends=["least", "most"] if _is_within(document) else ["low", "high"],
            json_file=_json_file(json.dumps(document, ensure_ascii=False, separators=(",", ":"))),
            csv_url=_data_url("text/csv", csv_text(document)),
        )
    )


def notebook_html(document: Mapping[str, Any], text: str) -> str:
    """Return the page in a frame of its own, so that no style of a notebook breaks it; without jinja2 the text."""
    try:
        page = page_html(document)
    except ImportError:
        return f"<pre>{html.escape(text)}</pre>"
    return (
        f'<iframe title="Fairness report" sandbox="allow-scripts allow-downloads" style="width:100%;border:0;'
        f'height:{FRAME_HEIGHT}px" srcdoc="{html.escape(page)}"></iframe>'
    )


def _is_within(document: Mapping[str, Any]) -> bool:
    """Tell whether limits of single comparisons decide that all of them are within."""
    return document["verdict"] is not None and document["verdict"]["value"] == "within" and not document["fitted_on"]


@cache
def _environment() -> Any:
    jinja2 = need_extra("jinja2", CALLER)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _template(name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "points": points, "interval": _interval}
    environment.globals |= {"states": STATES, "gap_place": gap_place, "gap_cells": gap_cells, "level_text": sure}
    return environment


def _template(name: str) -> str:
    return (resources.files("optfair.reporting") / "templates" / name).read_text(encoding="utf-8")


def _interval(rate: Any) -> str:
    """Return the ends of an interval in per cent, without the sign."""
    return "" if rate is None or rate[0] is None else f"{100 * rate[1]:.1f}–{100 * rate[2]:.1f}"


# -- drawings ------------------------------------------------------------------------------------------------
def _chart(index: int, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the views of one constraint with the places of their marks, and the switches between them."""
    views = [view for view in document["rates"] if view["asked"] == index]
    switches, keys = _switches(views)
    roles = list(document["rules"])
    panels = [
        {"id": f"v{index}-{k}", "view": view, "key": key, "lines": _lines(view, roles), **_drawing(view, roles)}
        for k, (view, key) in enumerate(zip(views, keys, strict=True))
    ]
    return {"asked": document["asked"][index], "switches": switches, "panels": panels, "several": len(panels) > 1}


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


def _lines(view: Mapping[str, Any], roles: list[str]) -> list[dict[str, Any]]:
    """Return the groups of a view, one line each."""
    return [
        {
            "group": group,
            "people": view["people"][k],
            "state": view["state"][k],
            "rates": [rate_of(view, role, k) for role in roles],
        }
        for k, group in enumerate(view["groups"])
    ]


def _drawing(view: Mapping[str, Any], roles: list[str]) -> dict[str, Any]:
    """Return ticks, lanes (band, overall rate) and marks (low, value, high) of a view, in units of the drawing."""
    bands = [view[role]["band"] for role in roles if view[role]["band"] is not None]
    inner = [value for role in roles for name in ("low", "high") for value in view[role][name] if value is not None]
    inner += [view[role]["overall"] for role in roles if view[role]["overall"] is not None]
    inner += [end for band in bands for end in band if end not in (None, 1.0)]  # a band up to 1 has no end to be shown
    low, high = (min(inner), max(inner)) if inner else (0.0, 1.0)
    step = next((step for step in STEPS if (high - low) / step <= TICKS - 1), STEPS[-1])
    first, last = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    last = last if last > first else first + step

    def place(value: float | None) -> int | None:
        if value is None:
            return None
        share = (min(max(value, first), last) - first) / (last - first)
        return round(EDGE + (WIDTH - 2 * EDGE) * float(share))

    def band(role: str) -> list[int | None] | None:
        return None if view[role]["band"] is None else [place(value) for value in view[role]["band"]]

    return {
        "ticks": [(place(tick), f"{100 * tick:.0f} %") for tick in np.arange(first, last + step / 2, step)],
        "lanes": {role: {"band": band(role), "overall": place(view[role]["overall"])} for role in roles},
        "marks": [
            [[place(view[role][name][k]) for name in ("low", "value", "high")] for role in roles]
            for k in range(len(view["groups"]))
        ],
    }


def _quality(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return right answers as a table of groups by accuracy and recalls."""
    if not document["quality"]:
        return None
    columns = list(dict.fromkeys(line["class"] for line in document["quality"]))
    rows: dict[str, list[Any]] = {}
    for line in document["quality"]:
        rows.setdefault(line["group"], []).append({**line, "sign": _sign(line)})
    return {"columns": columns, "rows": rows}


def _sign(line: Mapping[str, Any]) -> str:
    """Return "up" or "down" where the intervals before and after do not overlap, else ""."""
    before, after = line.get("before"), line["after"]
    if before is None or before[0] is None or after[0] is None:
        return ""
    return "down" if after[2] < before[1] else "up" if after[1] > before[2] else ""


# -- downloads -----------------------------------------------------------------------------------------------
def csv_text(document: Mapping[str, Any]) -> str:
    """Return the rates of all groups as CSV, a line per group and question."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    numbers = [f"{role}{name}" for role in document["rules"] for name in ("", "_low", "_high")]
    writer.writerow(["rate", "true_class", "answer", "group", "people", *numbers])
    keys = set()
    for view in document["rates"]:
        for k, group in enumerate(view["groups"]):
            key = view["given"], view["outcome"], group
            if key in keys:  # by another constraint
                continue
            keys.add(key)
            rates = [number for role in document["rules"] for number in rate_of(view, role, k)]
            row = ["answer", view["given"], view["outcome"], group, view["people"][k], *rates]
            writer.writerow([_safe_cell(cell) for cell in row])
    for line in document["quality"]:
        if (line["class"], line["class"], line["group"]) in keys:
            continue
        rates = [number for role in document["rules"] for number in line[role]]
        row = [line["rate"], line["class"], line["class"], line["group"], line["people"], *rates]
        writer.writerow([_safe_cell(cell) for cell in row])
    return file.getvalue()


def _safe_cell(cell: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _json_file(text: str) -> dict[str, Any]:
    """Return name and data: URL of the document, packed where it is large; a browser with JavaScript unpacks it."""
    if len(text) <= LARGEST_JSON:
        return {"name": "report.json", "url": _data_url("application/json", text)}
    packed = base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")
    return {"name": "report.json.gz", "url": f"data:application/gzip;base64,{packed}"}


def _data_url(kind: str, text: str) -> Any:
    """Return a data: URL for an attribute in single quotes: every character that could end it is written as %XX."""
    address = f"data:{kind};charset=utf-8,{quote(text, safe=URL_CHARACTERS)}"
    assert not set(address) & set("'<>&#\n"), "quote leaves only what is safe"
    return need_extra("jinja2.utils", CALLER).markupsafe.Markup(address)
