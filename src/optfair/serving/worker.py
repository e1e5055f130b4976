"""Let one thread ask the model about everybody who waits, while the event loop goes on reading and writing.

A call takes as long for thirty people as for one, so that requests which wait are answered together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from optfair.serving.log import log_failure
from optfair.serving.refusals import FAILED, Refusal, busy
from optfair.serving.replies import Question, Reply, refusal_reply
from optfair.serving.settings import BATCH_BYTES, BATCH_REQUESTS, GATHER_SECONDS, MAX_WAITING

ANSWERED_ALONE = 1


@dataclass(frozen=True, eq=False)
class Job:
    """Work for the thread, and where its result is awaited. size : bytes."""

    work: Question | Callable[[], Any]
    future: asyncio.Future[Any]

    @property
    def size(self) -> int:
        """Return the bytes of the body; other work has none."""
        return len(self.work.content) if isinstance(self.work, Question) else 0


class Worker:
    """The thread of a model. reply : answers questions, in order. count : is told how many were answered together."""

    def __init__(self, reply: Callable[[Sequence[Question]], list[Reply]], count: Callable[[int], None]) -> None:
        self._reply, self._count = reply, count
        self._jobs: deque[Job] = deque()
        self._arrival = threading.Condition()
        self._is_stopping = False
        self._batch_size = ANSWERED_ALONE
        # A daemon: a second signal ends the process, whatever the model is doing.
        self._thread = threading.Thread(target=self._work, name="optfair model", daemon=True)

    def start(self) -> None:
        """Start the thread; the event loop must be running."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """End the thread after what it has in hand, and tell whether it ended in this time."""
        with self._arrival:
            self._is_stopping = True
            self._arrival.notify()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def n_waiting(self) -> int:
        """Return how many requests wait."""
        return len(self._jobs)

    def ask(self, question: Question) -> asyncio.Future[Reply]:
        """Return the reply to come; a Refusal if too many wait already."""
        if len(self._jobs) >= MAX_WAITING:
            raise busy("too many requests wait; try again in a second.")
        return self._submit(question)

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return the result to come of a function that asks the model; it goes before those who wait."""
        return self._submit(function, first=True)

    def _submit(self, work: Question | Callable[[], Any], first: bool = False) -> asyncio.Future[Any]:
        job = Job(work, self._loop.create_future())
        with self._arrival:
            (self._jobs.appendleft if first else self._jobs.append)(job)
            self._arrival.notify()
        return job.future

    # -- the thread --------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while batch := self._next_batch():
            results = self._results(batch)
            try:
                self._loop.call_soon_threadsafe(_deliver, results)
            except RuntimeError:  # the loop has been closed: nobody waits for answers any more
                return
            del batch, results  # bodies and answers of people are not kept while nobody asks

    def _next_batch(self) -> list[Job]:
        """Return what waits, up to a bound; nothing at the end."""
        with self._arrival:
            self._arrival.wait_for(lambda: self._jobs or self._is_stopping)
            if self._batch_size > ANSWERED_ALONE:  # those who were answered ask again within a moment
                self._arrival.wait_for(lambda: len(self._jobs) >= self._batch_size, GATHER_SECONDS)
            batch: list[Job] = []
            size = 0
            while (
                self._jobs and len(batch) < BATCH_REQUESTS and (not batch or size + self._jobs[0].size <= BATCH_BYTES)
            ):
                batch.append(self._jobs.popleft())
                size += batch[-1].size
            return batch

    def _results(self, batch: Sequence[Job]) -> list[tuple[asyncio.Future[Any], Any]]:
        """Return the result of each job, beside its future; an exception is the result of one that fails."""
        results: list[tuple[asyncio.Future[Any], Any]] = []
        questions = [(job.future, job.work) for job in batch if isinstance(job.work, Question)]
        for job in batch:
            if not isinstance(job.work, Question):
                results.append((job.future, _outcome(job.work)))
        if questions:
            self._batch_size = len(questions)
            self._count(len(questions))
            replies = _outcome(lambda: self._reply([question for _, question in questions]))
            if isinstance(replies, Exception):
                log_failure(replies)
                replies = [refusal_reply(Refusal(FAILED, "internal error"))] * len(questions)
            results += zip([future for future, _ in questions], replies, strict=True)
        return results


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return error


def _deliver(results: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    """Give results to those who wait for them; some may have gone."""
    for future, result in results:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
