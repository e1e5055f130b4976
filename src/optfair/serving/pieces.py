"""Answer questions that take long a few people at a time, so that predictions can be made in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from optfair.serving.log import log_failure
from optfair.serving.queues import Job, JobQueue
from optfair.serving.refusals import FAILED, Refusal, busy
from optfair.serving.replies import EXPLAIN, PREDICT, OpenQuestion, Question, Replies, refusal_reply
from optfair.serving.settings import (
    BATCH_BYTES,
    BATCH_REQUESTS,
    MAX_IN_PIECES,
    PIECE_CALLS,
    PIECE_PEOPLE,
)

OpenJob = tuple[Job, OpenQuestion]
Result = tuple[asyncio.Future[Any], Any]
TOO_MANY = "too many requests that take long wait; try again in a second."


class Pieces:
    """Questions of which some people have been asked about, and explanations that wait. Predictions go first.

    queue : the explanations. lock : for it.
    """

    def __init__(self, replies: Replies, queue: JobQueue, lock: AbstractContextManager[Any]) -> None:
        self._replies, self._queue, self._lock = replies, queue, lock
        self._opened: list[OpenJob] = []

    def __bool__(self) -> bool:
        return bool(self._opened) or bool(self._queue)

    def take(self, job: Job, question: OpenQuestion) -> bool:
        """Take a prediction that needs many calls of the model, and tell so; where there are too many it is refused."""
        if self._replies.n_calls(question) <= PIECE_CALLS:
            return False
        if len(self._opened_of(PREDICT)) >= MAX_IN_PIECES:
            question.refusal = busy(TOO_MANY)
            return False
        self._opened.append((job, question))
        return True

    def open_explanations(self) -> int:
        """Begin with explanations that wait, until there are people enough for a piece; return how many."""
        number = 0
        while number < BATCH_REQUESTS and self._has_room():
            with self._lock:
                jobs = self._queue.take(1, BATCH_BYTES)
            for job in jobs:
                if isinstance(job.work, Question):
                    self._opened.append((job, self._replies.open(job.work)))
                    number += 1
            if not jobs:
                break
        return number

    def advance(self) -> list[Result]:
        """Ask about the people of one piece, and return the replies to questions that are answered by it."""
        results = piece_results(self._replies, self._next_jobs(), self._replies.advance_piece)
        ended = {id(future) for future, _ in results}
        self._opened = [(job, question) for job, question in self._opened if id(job.future) not in ended]
        return results

    def _opened_of(self, kind: str) -> list[OpenJob]:
        """Return what is open of a kind, but for what nobody waits for any more."""
        self._opened = [(job, question) for job, question in self._opened if job.is_awaited]
        return [(job, question) for job, question in self._opened if question.kind == kind]

    def _has_room(self) -> bool:
        n_left = sum(question.n_left for _, question in self._opened_of(EXPLAIN))
        return n_left < PIECE_PEOPLE and not self._opened_of(PREDICT)

    def _next_jobs(self) -> list[OpenJob]:
        """Return the questions of the next piece, all of one kind."""
        opened = self._opened_of(PREDICT) or self._opened_of(EXPLAIN)
        part: list[OpenJob] = []
        n_left = 0
        for job, question in opened:
            if part and n_left >= PIECE_PEOPLE:
                break
            part.append((job, question))
            n_left += question.n_left
        return part


def piece_results(
    replies: Replies, opened: Sequence[OpenJob], advance: Callable[[Sequence[OpenQuestion]], None]
) -> list[Result]:
    """Ask about people of questions of one kind, and return the replies to those that are answered then."""
    try:
        advance([question for _, question in opened])
        return [(job.future, replies.close(question)) for job, question in opened if question.is_done]
    except Exception as error:
        log_failure(error)
        reply = refusal_reply(Refusal(FAILED, "internal error"))
        return [(job.future, reply) for job, _ in opened]
