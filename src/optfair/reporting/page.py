"""Draw a document of numbers as one HTML page: no network, no library, readable without JavaScript."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from optfair.errors import need_extra
from optfair.reporting.downloads import download_files
from optfair.reporting.drawing import path_drawing, rates_drawing
from optfair.reporting.glossary import WORDS
from optfair.reporting.markdown import (
    IMPACT_MARKS,
    OPEN_QUESTIONS,
    impact_title,
    rate_of,
    ratio_end,
    role_names,
    roles_of,
    sure,
)
from optfair.reporting.observations import clear_change
from optfair.reporting.rule_words import NO_PROMISE, measured_words
from optfair.reporting.summary import has_previous, headline_line
from optfair.reporting.table_words import (
    LIMITS_NOTE,
    STATES,
    gap_cells,
    gap_place,
    hidden_gaps_text,
    hidden_text,
    price_name,
    shown_ends,
    small_comparisons,
    state_words,
    unasked_text,
)
from optfair.reporting.wording import commonest_text, count_text, p_text, percent, points, sides_text, size_text

CALLER = "Report.html"
LONGEST = 15  # lines of a table that is cut
MANY_GROUPS = 20  # from here on groups stand in the order of their distance from everybody, not of their names
FRAME_HEIGHT = 720  # of the page inside a notebook, in pixels
MOST_CELLS = 600  # of the matrices of changes: of more groups only those that changed most have one
MOST_RADIOS = 8  # choices of a switch that are all shown; of more there is a list
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
        "lead": headline_line(document, roles[-1]) if roles else None,
        "previous": has_previous(document),
        "unasked": unasked_text(document),
        **_compared(document),
        "no_promise": NO_PROMISE if document["kind"] == "model" and document["promise"] is None else "",
        "commonest": commonest_text(document["commonest"]),
        "hidden": hidden_text(document),
        "charts": [_chart(index, document, measures) for index in range(len(document["asked"]))],
        "quality": _quality(document),
        "favourable": _favourable(document),
        "matrices": _matrices(document),
        "gaps": document["gaps"][:LONGEST],
        "hidden_gaps": hidden_gaps_text(document),
        "ends": shown_ends(document),
        "path": path,
        "drawing": None if path is None else path_drawing(path, measures, document["tolerance"]),
        "obstacle": None if path is None else _path_obstacle(path),
        "start": None if path is None else _nearest(path, document["tolerance"]),
        "files": download_files(document, CALLER),
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
    environment.filters |= {"count": count_text, "p_text": p_text, "sides": sides_text}
    environment.globals |= {"states": STATES, "signs": SIGNS, "level_text": sure, "words": WORDS}
    environment.globals |= {"state_words": state_words, "small_comparisons": small_comparisons}
    environment.globals |= {"measured_words": measured_words, "limits_note": LIMITS_NOTE}
    environment.globals |= {"gap_place": gap_place, "gap_cells": gap_cells, "price_name": price_name}
    environment.globals |= {"impact_title": impact_title, "ratio_end": ratio_end, "impact_marks": IMPACT_MARKS}
    environment.globals |= {"open_questions": OPEN_QUESTIONS, "longest": LONGEST}
    return environment


def _template(name: str) -> str:
    return (resources.files("optfair.reporting") / "templates" / name).read_text(encoding="utf-8")


def _interval(rate: Any) -> str:
    """Return the ends of an interval in per cent, without the sign."""
    return "" if rate is None or rate[0] is None else f"{100 * rate[1]:.1f}–{100 * rate[2]:.1f}"


def _compared(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return which family of groups a page opens with, and the names of those compared where it is not the first."""
    places = [] if document["compared"] is None else document["compared"]["families"]
    names = [] if places in ([], [0]) else [document["families"][k] for k in places]
    return {"first_family": places[0] if places else 0, "compared_names": ", ".join(names)}


# -- rates -------------------------------------------------------------------------------------------------------
def _chart(index: int, document: Mapping[str, Any], measures: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the views of one constraint with the places of their marks, and the switches between them."""
    views = [view for view in document["rates"] if view["asked"] == index]
    roles, request = roles_of(document), document["asked"][index]
    switches, keys = _switches(views)
    clearest = clearest_view(views, roles[0]) if roles else None
    key = None if clearest is None else keys[clearest]
    for k, switch in enumerate(switches):
        switch["start"] = 0 if key is None else int(key.split("-")[k])
    is_gap = request["kind"] == "Constraint" and request["reference"] == "overall" and request["criterion"] != "meo"
    floors = [line["noise_floor"] if is_gap else None for line in measures]
    panels = []
    for k, (view, key) in enumerate(zip(views, keys, strict=True)):
        drawing = rates_drawing(view, roles, floors)
        lines = _lines(view, roles, drawing)
        other_forms = ",".join(cell["other_forms"] for line in lines for cell in line["cells"])
        panels.append(
            {
                "id": f"v{k}{f'-{index}' if index else ''}",
                "view": view,
                "key": key,
                "lines": lines,
                "other_forms": other_forms,
                **drawing,
            }
        )
    return {"asked": request, "switches": switches, "panels": panels, "several": len(panels) > 1}


def clearest_view(views: list[Any], role: str) -> int | None:
    """Return the question with the clearest difference from everybody by a rule, which a page begins with."""
    best, place = -np.inf, None
    for position, rates in enumerate(view[role] for view in views):
        for k, state in enumerate(rates["state"]):
            if state is None or rates["difference"][k] is None:
                continue
            surplus = abs(rates["difference"][k]) - (rates["high"][k] - rates["low"][k]) / 2
            if surplus > best:
                best, place = surplus, position
    return place


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
            "cells": [_cell(view, role, k) for role in roles],
            "distance": abs(view[roles[-1]]["difference"][k] or 0.0),
        }
        for k, group in enumerate(view["groups"])
    ]
    if max((view["family"].count(family) for family in set(view["family"])), default=0) > MANY_GROUPS:
        lines.sort(key=lambda line: (line["family"], -line["distance"]))
    return lines


def _cell(view: Mapping[str, Any], role: str, k: int) -> dict[str, Any]:
    """Return a rate as it is shown, and for the script its difference from everybody and its ratio to the highest."""
    difference, ratio = view[role]["difference"][k], view[role]["ratio"][k]
    other_forms = ""
    if difference is not None:
        other_forms = (
            f"{points(difference).replace('−', '-')}|{'–' if ratio is None else f'{ratio:.2f}'.removeprefix('0')}"
        )
    return {"rate": rate_of(view, role, k), "other_forms": other_forms, "state": view[role]["state"][k]}


def _path_obstacle(path: Mapping[str, Any]) -> str:
    """Say why the rules of a path cannot be drawn; nothing where they can."""
    names = {
        "accuracy": "the true classes of these people are not known",
        "violation": "every group has too few people",
    }
    reasons = [text for name, text in names.items() if any(point[name] is None for point in path["points"])]
    return " and ".join(reasons)


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


def _favourable(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return who gets and who is denied each favourable answer, as a table of groups by rates."""
    parts = []
    for name in dict.fromkeys(line["class"] for line in document["favourable"]):
        lines = [line for line in document["favourable"] if line["class"] == name]
        rows: dict[str, list[Any]] = {}
        for line in lines:
            rows.setdefault(line["group"], []).append({**line, "sign": clear_change(line)})
        parts.append({"outcome": name, "columns": list(dict.fromkeys(line["rate"] for line in lines)), "rows": rows})
    return parts
