"""Ask the model about the people of several requests in one call, without one request being felt by another.

The answers are those of `predict`, and of `explain`, for each person alone. What a call cannot answer is asked about
again in halves, so that one person who cannot be answered costs the others a few calls, and no answer. A request is
refused for the first such person, so that nobody else of it is asked about after that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optfair.constraints.naming import name_text
from optfair.estimators.new_rows import conform_rows
from optfair.rule.certificate import UNDECIDED
from optfair.rule.explanation import json_value
from optfair.serving.people import PeopleReader, Person
from optfair.serving.settings import DIGITS

Call = Callable[[Sequence[Person]], list[Any]]


class NotAskedError(Exception):
    """The outcome of people who were not asked about, since others of their request cannot be answered."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer for one person. code : of the class. probabilities : (m,). is_undecided : as in reports."""

    code: int
    probabilities: np.ndarray

    is_undecided: bool


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
    def predict(self, people: Sequence[Person], owners: Sequence[int] | None = None) -> list[Answer | Exception]:
        """Return the answer for each person, or the exception that asking about them ended with.

        owners : the request that each belongs to, by number; None: each is one.
        """
        return self._by_kind(people, owners, self._predict)

    def _predict(self, people: Sequence[Person]) -> list[Answer]:
        model, arguments = self.model, self._arguments(people)
        X = conform_rows(model, self.reader.rows.table([person.cells for person in people]))
        h = model.predict_proba(X, **arguments)
        codes = model._decide(h, X, _keys(people), self._rng)
        undecided = h.max(axis=1) < (-np.inf if model.decision == "argmax" else UNDECIDED)
        return [Answer(int(code), row, bool(flag)) for code, row, flag in zip(codes, h, undecided, strict=True)]

    def answer_content(self, answer: Answer) -> dict[str, Any]:
        """Return an answer as JSON has it."""
        numbers = [round(value, DIGITS) for value in answer.probabilities.tolist()]
        probabilities = dict(zip(self.class_names, numbers, strict=True))
        return {"answer": self.labels[answer.code], "undecided": answer.is_undecided, "probabilities": probabilities}

    def explain(self, people: Sequence[Person], owners: Sequence[int] | None = None) -> list[Reasons | Exception]:
        """Return the reasons for the answer of each person, or the exception that asking about them ended with."""
        return self._by_kind(people, owners, self._explain)

    def _explain(self, people: Sequence[Person]) -> list[Reasons]:
        X = self.reader.rows.table([person.cells for person in people])
        content = self.model.explain(X, **self._arguments(people), keys=_keys(people)).to_dict()
        return [Reasons(entry, tuple(content["notes"])) for entry in content["people"]]

    # -- calls -------------------------------------------------------------------------------------------------
    def kind(self, person: Person) -> Hashable:
        """Return what is equal for people who are asked about in one call: keys or none, and values of these types."""
        return person.key is None, self.reader.rows.kind(person.cells)

    def _by_kind(self, people: Sequence[Person], owners: Sequence[int] | None, ask: Call) -> list[Any]:
        places: dict[Hashable, list[int]] = {}
        for k, person in enumerate(people):
            places.setdefault(self.kind(person), []).append(k)
        questions = PeopleOfRequests(people, range(len(people)) if owners is None else owners, ask)
        for part in places.values():
            questions.ask_about(part)
        return questions.outcomes

    def _arguments(self, people: Sequence[Person]) -> dict[str, Any]:
        """Return the groups, for a model that is told them."""
        if not self.reader.groups.is_told:
            return {}
        labels, names = [person.group for person in people], self.model.groups_.names
        if isinstance(self.model.groups_, pd.MultiIndex):
            return {"sensitive_features": pd.DataFrame(labels, columns=list(names), dtype=object)}
        return {"sensitive_features": pd.Series(labels, name=names[0], dtype=object)}


class PeopleOfRequests:
    """People, the number of the request of each, and what asking about them ended with."""

    def __init__(self, people: Sequence[Person], owners: Sequence[int], ask: Call) -> None:
        self._people, self._owners, self._ask = people, owners, ask
        self._refused: set[int] = set()
        self.outcomes: list[Any] = [NotAskedError()] * len(people)

    def ask_about(self, places: Sequence[int]) -> None:
        """Ask about people in one call, or in halves of it, but for those whose request is refused anyway."""
        places = [k for k in places if self._owners[k] not in self._refused]
        if not places:
            return
        try:
            outcomes = self._ask([self._people[k] for k in places])
        except Exception as error:  # of whatever kind: the others must not notice
            if len(places) > 1:
                self.ask_about(places[: len(places) // 2])
                self.ask_about(places[len(places) // 2 :])
                return
            outcomes = [error]
            self._refused.add(self._owners[places[0]])
        for k, outcome in zip(places, outcomes, strict=True):
            self.outcomes[k] = outcome


def _keys(people: Sequence[Person]) -> list[Any] | None:
    return None if people[0].key is None else [person.key for person in people]
