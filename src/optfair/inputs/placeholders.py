"""Recognise texts that often stand for a missing value."""

from __future__ import annotations

from typing import Any

# Words for "nothing is known" only: "None" and "Other" are answers as often as not.
PLACEHOLDERS = frozenset(
    {
        *("?", "??", "-", "--", ".", "..", "*", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null"),
        *("unknown", "missing", "not available", "not known", "not specified", "unspecified", "undefined"),
    }
)


def is_placeholder(value: Any) -> bool:
    """Tell whether a value is a text such as "?", "-" or "unknown"."""
    return isinstance(value, str) and value.strip().casefold() in PLACEHOLDERS
