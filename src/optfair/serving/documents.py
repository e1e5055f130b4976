"""Read the JSON of a request: strictly where two readers could disagree, and NaN, which many writers write.

Write that of a reply so that every reader reads it.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from optfair.serving.refusals import BAD_JSON, Refusal, json_text


def read_document(content: bytes) -> Any:
    """Return what a body says; a key that an object has twice, bytes that are not UTF-8 and deep nesting are refused.

    NaN and Infinity become floats: the first is a missing value, the second is refused where it is read.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(BAD_JSON, f"body: is not UTF-8 (byte {error.start + 1}).") from None
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Refusal(BAD_JSON, f"body: is not JSON: {error.msg} ({place}).") from None
    except RecursionError:
        raise Refusal(BAD_JSON, "body: is nested too deeply; a person is an object of single values.") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise Refusal(BAD_JSON, "body: holds a number of too many digits.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; which of two values of one key counts, readers do not agree on."""
    members = dict(pairs)
    if len(members) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise Refusal(BAD_JSON, f"body: an object has the key {json_text(twice)} twice; give it once.")
    return members


def document_bytes(document: Any) -> bytes:
    """Return JSON. A lone surrogate, in the name of a field, is written as the escape that it came as."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
