"""Ask the model about the people of several requests in one call, without one request being felt by another.

The answers are those of `predict`, and of `explain`, for each person alone. What a call cannot answer is asked about
again in halves, so that one person who cannot be answered costs the others a few calls, and no answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.naming import name_text
from optfair.estimators.new_rows import conform_rows
from optfair.rule.decisions import CERTAIN
from optfair.rule.explanation import json_value
from optfair.serving.people import PeopleReader, Person
from optfair.serving.settings import DIGITS

Call = Callable[[Sequence[Person]], list[Any]]


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer for one person. code : of the class. probabilities : (m,). is_drawn : whether a draw decided."""

    code: int
    probabilities: np.ndarray

    is_drawn: bool


@dataclass(frozen=True, eq=False)
class Reasons:
    """Why one person gets their answer, as JSON has it, and what holds for everybody."""

    content: dict[str, Any]
    notes: tuple[str, ...]


class ModelAnswers:
    """What a model says about people that a `PeopleReader` has read."""

    def __init__(self, model: Any, reader: PeopleReader) -> None:
        self.model, self.reader = model, reader
        self.labels = [json_value(label) for label in model.classes_.tolist()]
        texts = [name_text(label) for label in model.classes_.tolist()]
        # 1 and "1" may both be classes, and are one key of an object.
        self.class_names = texts if len(set(texts)) == len(texts) else [repr(x) for x in model.classes_.tolist()]
        # Sampled decisions are drawn anew: by the seed of the model every request would get the same numbers.
        self._rng = np.random.default_rng() if model.decision == "sampled" else None

    @property
    def explains(self) -> bool:
        """Whether the model can say why."""
        return hasattr(self.model, "rule_")

    # -- answers -----------------------------------------------------------------------------------------------
    def predict(self, people: Sequence[Person]) -> list[Answer | Exception]:
        """Return the answer for each person, or the exception that asking about them ended with."""
        return self._by_kind(people, self._predict)

    def _predict(self, people: Sequence[Person]) -> list[Answer]:
        model, arguments = self.model, self._arguments(people)
        X = conform_rows(model, self.reader.rows.table([person.cells for person in people]))
        h = model.predict_proba(X, **arguments)
        codes = model._decide(h, X, _keys(people), self._rng)
        draws = h.max(axis=1) < (-np.inf if model.decision == "argmax" else CERTAIN)
        return [Answer(int(code), row, bool(draw)) for code, row, draw in zip(codes, h, draws, strict=True)]

    def answer_content(self, answer: Answer) -> dict[str, Any]:
        """Return an answer as JSON has it."""
        numbers = [round(value, DIGITS) for value in answer.probabilities.tolist()]
        probabilities = dict(zip(self.class_names, numbers, strict=True))
        return {"answer": self.labels[answer.code], "drawn": answer.is_drawn, "probabilities": probabilities}

    def explain(self, people: Sequence[Person]) -> list[Reasons | Exception]:
        """Return the reasons for the answer of each person, or the exception that asking about them ended with."""
        return self._by_kind(people, self._explain)

    def _explain(self, people: Sequence[Person]) -> list[Reasons]:
        X = self.reader.rows.table([person.cells for person in people])
        content = self.model.explain(X, **self._arguments(people), keys=_keys(people)).to_dict()
        return [Reasons(entry, tuple(content["notes"])) for entry in content["people"]]

    # -- calls -------------------------------------------------------------------------------------------------
    def kind(self, person: Person) -> Hashable:
        """Return what is equal for people who are asked about in one call: keys or none, and values of these types."""
        return person.key is None, self.reader.rows.kind(person.cells)

    def _by_kind(self, people: Sequence[Person], ask: Call) -> list[Any]:
        places: dict[Hashable, list[int]] = {}
        for k, person in enumerate(people):
            places.setdefault(self.kind(person), []).append(k)
        outcomes: dict[int, Any] = {}
        for part in places.values():
            outcomes |= dict(zip(part, self._in_halves([people[k] for k in part], ask), strict=True))
        return [outcomes[k] for k in range(len(people))]

    def _in_halves(self, people: Sequence[Person], ask: Call) -> list[Any]:
        try:
            return list(ask(people))
        except Exception as error:  # of whatever kind: the others must not notice
            if len(people) == 1:
                return [error]
        middle = len(people) // 2
        return self._in_halves(people[:middle], ask) + self._in_halves(people[middle:], ask)

    def _arguments(self, people: Sequence[Person]) -> dict[str, Any]:
        """Return the groups, for a model that is told them."""
        if not self.reader.groups.is_told:
            return {}
        labels, names = [person.group for person in people], self.model.groups_.names
        if isinstance(self.model.groups_, pd.MultiIndex):
            return {"sensitive_features": pd.DataFrame(labels, columns=list(names), dtype=object)}
        return {"sensitive_features": pd.Series(labels, name=names[0], dtype=object)}


def content_bytes(content: Any) -> bytes:
    """Return JSON. A lone surrogate, in the name of a field, is written as the escape that it came as."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _keys(people: Sequence[Person]) -> list[Any] | None:
    return None if people[0].key is None else [person.key for person in people]
