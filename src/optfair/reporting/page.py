"""Draw a document of numbers as one HTML page: no network, no library, readable without JavaScript.

Every number comes from the document; here are only the places of marks, in units of the drawing.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote

import numpy as np

from optfair.errors import need_extra
from optfair.reporting.markdown import STATES
from optfair.reporting.wording import percent, points

CALLER = "Report.html"
WIDTH = 300  # of a drawing
EDGE = 8  # kept free at its sides
LONGEST = 15  # lines of the table of comparisons
FRAME_HEIGHT = 720  # of the page inside a notebook, in pixels
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)  # between ticks
TICKS = 6  # at most
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
            json_url=_data_url("application/json", json.dumps(document, ensure_ascii=False, separators=(",", ":"))),
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
    environment.globals |= {"states": STATES}
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
    keys = [(view["given"], view["outcome"]) for view in views]
    given, outcome = (list(dict.fromkeys(names)) for names in zip(*keys, strict=True)) if keys else ([], [])
    is_product = len(given) * len(outcome) == len(keys)
    switches = [("True class", given), ("Answer", outcome)] if is_product else [("Class", outcome)]
    panels = [
        {
            "id": f"v{index}-{k}",
            "view": view,
            "key": _key(given, outcome, view, is_product),
            "drawing": _drawing(view, list(document["rules"])),
        }
        for k, view in enumerate(views)
    ]
    choices = [{"label": label, "names": names} for label, names in switches]
    return {"asked": document["asked"][index], "switches": choices, "panels": panels, "several": len(panels) > 1}


def _key(given: list[Any], outcome: list[Any], view: Mapping[str, Any], is_product: bool) -> str:
    """Return the positions of a view in the switches, as "0-2"."""
    places = [given.index(view["given"])] if is_product else []
    return "-".join(map(str, [*places, outcome.index(view["outcome"])]))


def _drawing(view: Mapping[str, Any], roles: Iterable[str]) -> dict[str, Any]:
    """Return ticks, bands, overall rates and marks of a view, in units of the drawing."""
    roles = list(roles)
    values = [value for line in view["groups"] for role in roles for value in line[role] if value is not None]
    drawn = [value for role in roles for value in [*(view[role]["band"] or []), view[role]["overall"]]]
    values += [value for value in drawn if value is not None]
    bands = {role: view[role]["band"] for role in roles}
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if any(band is not None and band[1] == 1 for band in bands.values()):  # a band without an end: leave it out
        inner = [value for line in view["groups"] for role in roles for value in line[role] if value is not None]
        inner += [band[0] for band in bands.values() if band is not None]
        low, high = min(inner), max(inner)
    step = next((step for step in STEPS if (high - low) / step <= TICKS - 1), STEPS[-1])
    first, last = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    last = last if last > first else first + step

    def place(value: float) -> int:
        share = (min(max(value, first), last) - first) / (last - first)
        return round(EDGE + (WIDTH - 2 * EDGE) * float(share))

    ticks = [(place(tick), f"{100 * tick:.0f} %") for tick in np.arange(first, last + step / 2, step)]
    return {
        "ticks": ticks,
        "lanes": {
            role: {
                "band": None if bands[role] is None else [place(value) for value in bands[role]],
                "overall": None if view[role]["overall"] is None else place(view[role]["overall"]),
            }
            for role in roles
        },
        "marks": [
            {role: None if line[role][0] is None else [place(value) for value in line[role]] for role in roles}
            for line in view["groups"]
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
    """Return the rates of all groups as CSV, a line per group, question and rule."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["rate", "true_class", "answer", "group", "people", "rule", "value", "low", "high"])
    seen = set()
    for view in document["rates"]:
        for line in view["groups"]:
            for role in document["rules"]:
                row = ["answer", view["given"], view["outcome"], line["group"], line["people"], role, *line[role]]
                if tuple(row) not in seen:
                    seen.add(tuple(row))
                    writer.writerow([_safe_cell(cell) for cell in row])
    for line in document["quality"]:
        for role in document["rules"]:
            row = [line["rate"], line["class"], line["class"], line["group"], line["people"], role, *line[role]]
            writer.writerow([_safe_cell(cell) for cell in row])
    return file.getvalue()


def _safe_cell(cell: Any) -> Any:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _data_url(kind: str, text: str) -> Any:
    """Return a data: URL for an attribute in single quotes: every character that could end it is written as %XX."""
    address = f"data:{kind};charset=utf-8,{quote(text, safe=URL_CHARACTERS)}"
    assert not set(address) & set("'<>&#\n"), "quote leaves only what is safe"
    return need_extra("jinja2.utils", CALLER).markupsafe.Markup(address)

