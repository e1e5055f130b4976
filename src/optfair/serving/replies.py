"""Answer the bodies of several requests at once, each as if it had come alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from optfair.errors import brief_text
from optfair.serving.answering import Answer, ModelAnswers, NotAskedError, Reasons
from optfair.serving.counters import Counters
from optfair.serving.documents import document_bytes, read_document
from optfair.serving.envelopes import PEOPLE
from optfair.serving.log import log_failure
from optfair.serving.people import Person
from optfair.serving.refusals import FAILED, INVALID, Refusal
from optfair.serving.settings import MAX_EXPLAINED, PIECE_CALLS, PIECE_PEOPLE

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


@dataclass(eq=False)
class OpenQuestion:
    """The people of a question, notes on them, and what the model said of the first of them; or why it is refused."""

    kind: str
    people: list[Person] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    refusal: Refusal | None = None

    @property
    def n_left(self) -> int:
        """Return the number of people who are still to be asked about."""
        return len(self.rest)

    @property
    def rest(self) -> list[Person]:
        """Return these people."""
        return [] if self.refusal else self.people[len(self.outcomes) :]

    @property
    def is_done(self) -> bool:
        """Tell whether there is nothing left to ask."""
        return self.n_left == 0


class Replies:
    """Replies of one model: each question is opened, asked about, with others or in pieces, and closed.

    No question changes the reply to another. counters : of the people answered.
    """

    def __init__(self, answers: ModelAnswers, counters: Counters) -> None:
        self.answers, self.counters = answers, counters

    def open(self, question: Question) -> OpenQuestion:
        """Read a question; one that cannot be read is done."""
        try:
            document = read_document(question.content)
            if question.kind == EXPLAIN:
                _check_number(document)
            people, notes = self.answers.reader.read(document)
            return OpenQuestion(question.kind, people, notes)
        except Refusal as refusal:
            return OpenQuestion(question.kind, refusal=refusal)
        except Exception as error:
            return OpenQuestion(question.kind, refusal=_failure(error))

    def n_calls(self, question: OpenQuestion) -> int:
        """Return how many calls of the model the people of a question need."""
        return len({self.answers.kind(person) for person in question.rest})

    def advance(self, questions: Sequence[OpenQuestion]) -> None:
        """Ask about all people of questions of one kind who are left."""
        self._advance([(question, person) for question in questions for person in question.rest])

    def advance_piece(self, questions: Sequence[OpenQuestion]) -> None:
        """Ask about the first of them: so many people, in so many calls of the model."""
        pairs = [(question, person) for question in questions for person in question.rest][:PIECE_PEOPLE]
        kinds: set[Hashable] = set()
        for k, (_, person) in enumerate(pairs):
            kinds.add(self.answers.kind(person))
            if len(kinds) > PIECE_CALLS:
                pairs = pairs[:k]
                break
        self._advance(pairs)

    def _advance(self, pairs: Sequence[tuple[OpenQuestion, Person]]) -> None:
        if not pairs:
            return
        ask = self.answers.predict if pairs[0][0].kind == PREDICT else self.answers.explain
        people, owners = [person for _, person in pairs], [id(question) for question, _ in pairs]
        for (question, person), outcome in zip(pairs, ask(people, owners), strict=True):
            question.outcomes.append(outcome)
            if question.refusal is None and isinstance(outcome, Exception) and not isinstance(outcome, NotAskedError):
                question.refusal = _refusal_of(outcome, person.place)

    def close(self, question: OpenQuestion) -> Reply:
        """Return the reply to a question that is done."""
        if question.refusal is not None:
            return refusal_reply(question.refusal)
        try:
            return Reply(OK, document_bytes(self._content(question, question.outcomes)))
        except Exception as error:
            return refusal_reply(_failure(error))

    def _content(self, question: OpenQuestion, outcomes: Sequence[Any]) -> dict[str, Any]:
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
            self.counters.count_answer(name, answer.is_undecided, person.count_group)


def refusal_reply(refusal: Refusal) -> Reply:
    """Return what a client is sent that is not answered."""
    return Reply(refusal.status, document_bytes({"error": refusal.text}), refusal.headers, ends=refusal.ends)


def _check_number(document: Any) -> None:
    """Refuse to explain many people, before they are read."""
    people = document.get(PEOPLE) if isinstance(document, dict) else None
    if isinstance(people, list) and len(people) > MAX_EXPLAINED:
        rule = f"at most {MAX_EXPLAINED} are explained at a time; send the others in further requests."
        raise Refusal(INVALID, f"{PEOPLE}: are {len(people):,}; {rule}")


def _refusal_of(error: Exception, place: str) -> Refusal:
    """Return why a person is not answered: what the model cannot read is theirs, other errors are ours."""
    if isinstance(error, ValueError):
        return Refusal(INVALID, f"{place}: the model cannot answer: {brief_text(error)}")
    return _failure(error)


def _failure(error: Exception) -> Refusal:
    log_failure(error)
    return Refusal(FAILED, "internal error")
