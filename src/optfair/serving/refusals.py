"""Refuse a request with a status and one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from optfair.serving.settings import RETRY_SECONDS

BAD_JSON, TOO_SLOW, TOO_LARGE, WRONG_TYPE, INVALID = 400, 408, 413, 415, 422
NOT_FOUND, WRONG_METHOD, CONFLICT, FAILED, BUSY = 404, 405, 409, 500, 503
LONGEST = 60  # characters of a value that a message quotes


class Refusal(Exception):
    """A request that is not answered. status : of HTTP. ends : whether the connection cannot be used any more."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None, ends: bool = False) -> None:
        self.status, self.text, self.headers, self.ends = status, text, dict(headers or {}), ends
        super().__init__(text)


def invalid(place: str, value: Any, rule: str) -> Refusal:
    """Return the refusal of a value: place=value: rule."""
    return Refusal(INVALID, f"{place}={json_text(value)}: {rule}")


def busy(text: str, ends: bool = False) -> Refusal:
    """Return the refusal of a request that may be sent again in a moment."""
    return Refusal(BUSY, text, {"Retry-After": str(RETRY_SECONDS)}, ends)


def json_text(value: Any) -> str:
    """Return a value as it stands in a request, in one short line of ASCII.

    >>> json_text({"a": [None, "ü"]})
    '{"a": [null, "\\\\u00fc"]}'
    """
    if isinstance(value, str) and len(value) > LONGEST:
        value = value[:LONGEST]  # before it is written: it may be a megabyte
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def member(name: str) -> str:
    """Return how a place names a member of an object: .age, or ["hours-per-week"].

    >>> member("age"), member("hours-per-week")
    ('.age', '["hours-per-week"]')
    """
    return f".{name}" if name.isidentifier() and name.isascii() and len(name) <= LONGEST else f"[{json_text(name)}]"
