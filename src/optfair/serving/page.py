"""Draw the page of a service: what it reads and answers, and a place to try it. No network, no library."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from string import Template

from optfair.serving.openapi import OpenApi, field_kind, known_text
from optfair.serving.replies import OK, Reply
from optfair.serving.settings import MAX_EXPLAINED

MEDIA_TYPE = "text/html; charset=utf-8"
MAX_LINES = 30  # of the example
MAX_SHOWN = 200  # features that have a line


def page_reply(openapi: OpenApi) -> Reply:
    """Return the page, with a policy that lets nothing run but what is in it."""
    style, script = _file("style.css"), _file("script.js")
    policy = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "img-src data:",
        "connect-src 'self'",
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
    ]
    text = Template(_file("page.html")).substitute(
        {name: html.escape(value) for name, value in _texts(openapi).items()},
        **_parts(openapi),
        style=style,
        script=script,
    )
    return Reply(OK, text.encode(), {"content-security-policy": "; ".join(policy)}, MEDIA_TYPE)


def _texts(openapi: OpenApi) -> dict[str, str]:
    """Return the texts of the page; they hold names that a user chose, and are escaped."""
    example = json.dumps(openapi.examples.body(), ensure_ascii=False, indent=1)
    rows, reader = openapi.reader.rows, openapi.reader
    reading = "A person is one object of features" if rows.names else "A person is a list of values, in this order"
    further = " and a key, who they are" if reader.decision == "hashed" else ""
    further += " and their group, which the model is told" if reader.groups.is_told else ""
    person = json.dumps(openapi.examples.people(1)[0])
    return {
        "title": openapi.title,
        "classes": ", ".join(openapi.answers.class_names),
        "decision": reader.decision,
        "example": example,
        "rows": str(min(example.count("\n") + 2, MAX_LINES)),
        "reading": f"{reading}{further}.",
        "naming": "feature" if rows.names else "position",
        "command": f"curl -H 'Content-Type: application/json' {_shell_argument(person)} http://localhost:8000/predict",
    }


def _parts(openapi: OpenApi) -> dict[str, str]:
    """Return the parts of the page that are HTML."""
    fields = openapi.reader.rows.read_fields
    lines = [_row([part.name or str(part.position), field_kind(part), known_text(part)]) for part in fields[:MAX_SHOWN]]
    if len(fields) > MAX_SHOWN:
        lines.append(_row([f"and {len(fields) - MAX_SHOWN:,} more", "", "see /openapi.json"]))
    paths = {"POST /predict": "answers people"}
    if openapi.explains:
        paths["POST /explain"] = f"says why they get their answers, at most {MAX_EXPLAINED} at a time"
    links = {"health": "asks the model about example people again", "metrics": "counts requests and answers"}
    links["openapi.json"] = "describes all of this to programs"
    rows = [_row([path, text]) for path, text in paths.items()]
    rows += [f'<tr><td><a href="/{p}">GET /{p}</a></td><td>{html.escape(text)}</td></tr>' for p, text in links.items()]
    names = ["predict", *(["explain"] if openapi.explains else [])]
    buttons = [f'<button type="button" data-path="/{name}">{name}</button>' for name in names]
    return {"features": "\n".join(lines), "paths": "\n".join(rows), "buttons": " ".join(buttons)}


def _row(cells: list[str]) -> str:
    return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def _shell_argument(text: str) -> str:
    return "-d '" + text.replace("'", "'\\''") + "'"


def _file(name: str) -> str:
    return resources.files("optfair.serving").joinpath("site", name).read_text("utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
