"""Ask a running model about the same people again: what it answered at the start it must answer at any time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optfair.serving.answering import Answer, ModelAnswers
from optfair.serving.documents import document_bytes, read_document
from optfair.serving.envelopes import PEOPLE
from optfair.serving.examples import ExamplePeople

N_PEOPLE = 8  # a call takes as long for one
SLACK = 1e-6  # of a probability: beyond what rounding in a batch can do


class SelfTest:
    """The answers for example people at the start. A model that does not answer them, or otherwise alone, is refused.

    Decisions that are drawn anew are not compared, their probabilities are.
    """

    def __init__(self, answers: ModelAnswers, examples: ExamplePeople) -> None:
        self._answers = answers
        body = {PEOPLE: examples.people(min(N_PEOPLE, answers.reader.max_people))}
        self._people, _ = answers.reader.read(read_document(document_bytes(body)))
        self._compares_codes = answers.model.decision != "sampled"
        self._expected = self._ask()
        alone = [self._ask([k])[0] for k in range(len(self._people))]
        if not self._are_equal(alone, self._expected):
            raise ValueError("the model answers people otherwise when it is asked about several at once.")

    def passes(self) -> bool:
        """Tell whether the model answers as at the start."""
        return self._are_equal(self._ask(), self._expected)

    def _ask(self, places: Sequence[int] | None = None) -> list[Answer]:
        people = self._people if places is None else [self._people[k] for k in places]
        outcomes = self._answers.predict(people)
        error = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
        if error is not None:
            raise error
        return [outcome for outcome in outcomes if isinstance(outcome, Answer)]

    def _are_equal(self, answers: Sequence[Answer], expected: Sequence[Answer]) -> bool:
        for answer, first in zip(answers, expected, strict=True):
            if self._compares_codes and answer.code != first.code:
                return False
            if not np.allclose(answer.probabilities, first.probabilities, rtol=0, atol=SLACK):
                return False
        return True
