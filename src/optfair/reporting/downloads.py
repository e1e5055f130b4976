"""Put the numbers of a page in files that it holds itself: JSON, and the rates as CSV."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from optfair.errors import need_extra
from optfair.reporting.markdown import rate_of, role_names, roles_of

LARGEST_FILE = 30_000  # characters of a download in the page as they are; a page stays below 300 kB
URL_CHARACTERS = '"{}[]:,.-_/()=;! '  # that stay as they are in a data: URL, which is then hardly longer than its text


def download_files(document: Mapping[str, Any], caller: str) -> list[dict[str, Any]]:
    """Return the files of a page, each with its data: URL; needs jinja2, for the caller named."""
    numbers = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return [
        {"id": "json", "label": "JSON", **_file("report.json", "application/json", numbers, caller)},
        {"id": "csv", "label": "CSV of the rates", **_file("rates.csv", "text/csv", csv_text(document), caller)},
    ]


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


def _file(name: str, kind: str, text: str, caller: str) -> dict[str, Any]:
    """Return name and data: URL of a file, packed where it is large; a browser with JavaScript unpacks it."""
    if len(text) <= LARGEST_FILE:
        return {"name": name, "url": _data_url(kind, text, caller)}
    packed = base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")
    return {"name": f"{name}.gz", "url": f"data:application/gzip;base64,{packed}"}


def _data_url(kind: str, text: str, caller: str) -> Any:
    """Return a data: URL for an attribute in single quotes: every character that could end it is written as %XX."""
    address = f"data:{kind};charset=utf-8,{quote(text, safe=URL_CHARACTERS)}"
    assert not set(address) & set("'<>&#\n"), "quote leaves only what is safe"
    return need_extra("jinja2.utils", caller).markupsafe.Markup(address)
