"""Place the marks of a document's drawings, in units of the drawing; every number comes from the document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

WIDTH, EDGE = 360, 8  # of a line of rates, and what is kept free at its sides
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)  # between ticks
TICKS = 6  # at most
PATH_WIDTH, PATH_HEIGHT = 520, 300  # of the picture of accuracy against fairness
PATH_MARGIN = (46, 14, 26, 40)  # left, right, top, bottom
Place = Callable[[float | None], int | None]


def nice_ticks(low: float, high: float, ticks: int = TICKS) -> np.ndarray:
    """Return round values, a few, from at most low to at least high."""
    step = next((step for step in STEPS if (high - low) / step <= ticks - 1), STEPS[-1])
    first, last = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    return np.arange(first, max(last, first + step) + step / 2, step)


def scale(ticks: np.ndarray, start: float, end: float) -> Place:
    """Return the function from values to places, which ends where the ticks end."""

    def place(value: float | None) -> int | None:
        if value is None:
            return None
        share = (min(max(value, ticks[0]), ticks[-1]) - ticks[0]) / (ticks[-1] - ticks[0])
        return round(start + (end - start) * float(share))

    return place


def tick_labels(ticks: Iterable[float], place: Place) -> list[tuple[int | None, str]]:
    """Return places and texts of ticks in per cent, with as many digits as they differ in."""
    values = [100 * tick for tick in ticks]
    digits = 0 if all(abs(value - round(value)) < 1e-6 for value in values) else 1
    return [(place(value / 100), f"{value:.{digits}f} %") for value in values]


def rates_drawing(view: Mapping[str, Any], roles: Sequence[str], floors: Sequence[float | None]) -> dict[str, Any]:
    """Return ticks, lanes (bands, everybody's rate, noise floor) and marks (low, value, high) of a view.

    floors : the noise floor of each rule, None where none is drawn.
    """
    inner = [value for role in roles for name in ("low", "high") for value in view[role][name] if value is not None]
    inner += [view[role]["overall"] for role in roles if view[role]["overall"] is not None]
    bands = [band for role in roles for band in view[role]["bands"] if band is not None]
    inner += [end for band in bands for end in band if end not in (None, 1.0)]  # a band up to 1 has no end to be shown
    ticks = nice_ticks(*((min(inner), max(inner)) if inner else (0.0, 1.0)))
    place = scale(ticks, EDGE, WIDTH - EDGE)
    lanes = []
    for role, floor in zip(roles, floors, strict=True):
        overall = view[role]["overall"]
        limits = [] if floor is None or overall is None else [overall - floor, overall + floor]
        lanes.append(
            {
                "overall": place(overall),
                "floor": [place(x) for x in limits if ticks[0] <= x <= ticks[-1]],
                "bands": [None if band is None else [place(end) for end in band] for band in view[role]["bands"]],
            }
        )
    marks = [
        [[place(view[role][name][k]) for name in ("low", "value", "high")] for role in roles]
        for k in range(len(view["groups"]))
    ]
    return {"ticks": tick_labels(ticks, place), "lanes": lanes, "marks": marks}


def path_drawing(
    path: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], tolerance: float | None
) -> dict[str, Any] | None:
    """Return the places of the rules of a path: the largest gap to the right, right answers upwards.

    rules : performance of the rules before and after, or of the one there is. None where nothing can be placed.
    """
    points = [point for point in path["points"] if point["violation"] is not None and point["accuracy"] is not None]
    if len(points) < len(path["points"]):
        return None
    marks_beside = [rule for rule in rules if rule["violation"] is not None and rule["accuracy"] is not None]
    marks = [*points, *marks_beside]
    reach = max([mark["violation"] for mark in marks] + [tolerance or 0.0])
    floor = max((point["noise_floor"] or 0.0 for point in points), default=0.0)
    x_ticks = nice_ticks(0.0, max(reach, floor), 7)
    heights = [mark["accuracy"] for mark in marks]
    y_ticks = nice_ticks(min(heights), max(heights), 5)
    left, right, top, bottom = PATH_MARGIN
    x, y = scale(x_ticks, left, PATH_WIDTH - right), scale(y_ticks, PATH_HEIGHT - bottom, top)
    return {
        "width": PATH_WIDTH,
        "height": PATH_HEIGHT,
        "left": left,
        "base": PATH_HEIGHT - bottom,
        "top": top,
        "end": PATH_WIDTH - right,
        "x_ticks": tick_labels(x_ticks, x),
        "y_ticks": tick_labels(y_ticks, y),
        "floor": x(floor),
        "tolerance": x(tolerance),
        "rules": [[x(rule["violation"]), y(rule["accuracy"]), rule["label"]] for rule in marks_beside],
        "points": [
            {"x": x(p["violation"]), "y": y(p["accuracy"]), "low": x(p["lower"]), "high": x(p["upper"])} for p in points
        ],
    }
