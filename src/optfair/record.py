"""What a fair classifier that can be written to a file shares: its record, as JSON, and nobody's data.

A record is an attribute with the names, the numbers and the secret key of an answer; everything else that a model needs
to predict is scikit-learn's, NumPy's, or a type of ours that `optfair.model_file` knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from optfair.base import FairClassifier


class RecordedClassifier(FairClassifier):
    """A `FairClassifier` with `save`, whose copies and files hold no personal data."""

    # What is written as JSON: an attribute with the names, the numbers and the key, and the way there and back.
    _record: str
    _record_content: Callable[[Any], dict[str, Any]]
    _record_from: Callable[[dict[str, Any]], Any]
    _personal: tuple[str, ...] = ()  # attributes that are about the people fitted on

    def save(self, path: Any) -> None:
        """Write the model as a skops archive, and the secret key of its decisions beside it in ``path`` + ".key".

        `optfair.load_model` reads it and runs no code from it; types that scikit-learn, NumPy and optfair do not define
        must be named to it as ``trusted=`` (and trees, whose files could crash it). What optfair itself keeps of the
        people fitted on is not written; some models hold rows of theirs (nearest neighbours, support vectors).
        """
        from optfair.model_file import save_model

        save_model(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and skops: the record as JSON and its key, and no personal data."""
        state = {k: v for k, v in super().__getstate__().items() if k not in self._personal}
        if self._record in state:
            record = state[self._record]
            with suppress(ValueError):  # names that JSON cannot hold, such as intervals: pickle can
                content = json.dumps(type(self)._record_content(record), allow_nan=False)
                state[self._record] = {"json": content, "key": record.key}
                del state["groups_"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state, written = dict(state), state.get(self._record)
        if isinstance(written, dict):
            record = replace(type(self)._record_from(json.loads(written["json"])), key=written["key"])
            state[self._record], state["groups_"] = record, record.groups
        super().__setstate__(state)
