"""Answer the bodies of several requests at once, each as if it had come alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from optfair.errors import brief_text
from optfair.serving.answering import Answer, ModelAnswers, Reasons, content_bytes
from optfair.serving.counters import Counters
from optfair.serving.documents import read_document
from optfair.serving.log import log_failure
from optfair.serving.people import Person
from optfair.serving.refusals import FAILED, INVALID, Refusal
from optfair.serving.settings import EXPLAINED_TOGETHER, MAX_EXPLAINED

OK = 200
PREDICT, EXPLAIN = "predict", "explain"
JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """What a client is sent. ends : whether the connection cannot be used any more."""

    status: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = JSON
    ends: bool = False


@dataclass(frozen=True)
class Question:
    """What a client asks. kind : PREDICT or EXPLAIN. content : the body, as it came."""

    kind: str
    content: bytes


@dataclass(frozen=True, eq=False)
class ReadQuestion:
    """The people of a question and notes on them, or why it is not answered."""

    kind: str
    people: list[Person] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusal: Refusal | None = None


class Replies:
    """Replies of one model. counters : of the people answered."""

    def __init__(self, answers: ModelAnswers, counters: Counters) -> None:
        self.answers, self.counters = answers, counters

    def reply(self, questions: Sequence[Question]) -> list[Reply]:
        """Return a reply to each question; no question changes the reply to another."""
        read = [self._read(question) for question in questions]
        predictions = iter(self._ask(self.answers.predict, PREDICT, read))
        reasons = iter(self._ask(self.answers.explain, EXPLAIN, read, EXPLAINED_TOGETHER))
        replies = []
        for question in read:
            outcomes = predictions if question.kind == PREDICT else reasons
            replies.append(self._write(question, [next(outcomes) for _ in question.people]))
        return replies

    def _read(self, question: Question) -> ReadQuestion:
        try:
            people, notes = self.answers.reader.read(read_document(question.content))
            if question.kind == EXPLAIN and len(people) > MAX_EXPLAINED:
                rule = f"at most {MAX_EXPLAINED} are explained at a time; send the others in further requests."
                raise Refusal(INVALID, f"people: are {len(people):,}; {rule}")
            return ReadQuestion(question.kind, people, notes)
        except Refusal as refusal:
            return ReadQuestion(question.kind, refusal=refusal)
        except Exception as error:
            return ReadQuestion(question.kind, refusal=_failure(error))

    def _ask(
        self,
        ask: Callable[[Sequence[Person]], list[Any]],
        kind: str,
        questions: Sequence[ReadQuestion],
        together: int | None = None,
    ) -> list[Any]:
        """Return the outcomes for the people of all questions of a kind. together : people of one call; None: all."""
        people = [person for question in questions if question.kind == kind for person in question.people]
        step = together or max(len(people), 1)
        return [outcome for k in range(0, len(people), step) for outcome in ask(people[k : k + step])]

    # -- one question ------------------------------------------------------------------------------------------
    def _write(self, question: ReadQuestion, outcomes: list[Any]) -> Reply:
        refusal = question.refusal
        for person, outcome in zip(question.people, outcomes, strict=True):
            if refusal is None and isinstance(outcome, Exception):
                refusal = _refusal_of(outcome, person.place)
        if refusal is not None:
            return refusal_reply(refusal)
        try:
            content = self._content(question, outcomes)
            return Reply(OK, content_bytes(content))
        except Exception as error:
            return refusal_reply(_failure(error))

    def _content(self, question: ReadQuestion, outcomes: Sequence[Any]) -> dict[str, Any]:
        if question.kind == PREDICT:
            contents = [self.answers.answer_content(answer) for answer in outcomes]
            self._count(question.people, outcomes)
            return {"answers": contents, "notes": question.notes}
        reasons: Sequence[Reasons] = outcomes
        people = [{**part.content, "person": k} for k, part in enumerate(reasons)]
        return {"people": people, "notes": [*reasons[0].notes, *question.notes]}

    def _count(self, people: Sequence[Person], answers: Sequence[Answer]) -> None:
        for person, answer in zip(people, answers, strict=True):
            name = self.answers.class_names[answer.code]
            self.counters.count_answer(name, answer.is_drawn, person.count_group)


def refusal_reply(refusal: Refusal) -> Reply:
    """Return what a client is sent that is not answered."""
    return Reply(refusal.status, content_bytes({"error": refusal.text}), refusal.headers, ends=refusal.ends)


def _refusal_of(error: Exception, place: str) -> Refusal:
    """Return why a person is not answered: what the model cannot read is theirs, other errors are ours."""
    if isinstance(error, ValueError):
        return Refusal(INVALID, f"{place}: the model cannot answer: {brief_text(error)}")
    return _failure(error)


def _failure(error: Exception) -> Refusal:
    log_failure(error)
    return Refusal(FAILED, "internal error")
