"""Let one thread ask the model about everybody who waits, while the event loop goes on reading and writing.

A call takes as long for thirty people as for one, so that predictions which wait are made together, all at once. What
takes long goes in pieces, with predictions in between: explanations, and predictions that need a call for each person.

    predictions wait          made, up to a bound          then a piece, if pieces had less than their share of the time
    none for a moment                                      a piece
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from optfair.serving.pieces import OpenJob, Pieces, Result, piece_results
from optfair.serving.queues import Job, JobQueue
from optfair.serving.refusals import busy
from optfair.serving.replies import EXPLAIN, Question, Replies, Reply
from optfair.serving.settings import (
    BATCH_BYTES,
    BATCH_REQUESTS,
    GATHER_SECONDS,
    MAX_IN_PIECES,
    MAX_WAITING,
    PIECE_SHARE,
)

ANSWERED_ALONE = 1


class Worker:
    """The thread of a model. replies : of the model. count : is told how many were answered together."""

    def __init__(self, replies: Replies, count: Callable[[int], None]) -> None:
        self._replies, self._count = replies, count
        self._predictions, self._explanations = JobQueue(MAX_WAITING), JobQueue(MAX_IN_PIECES)
        self._arrival = threading.Condition()
        self._pieces = Pieces(replies, self._explanations, self._arrival)
        self._is_stopping = False
        self._batch_size = ANSWERED_ALONE
        self._batch_time = self._piece_time = 0.0  # when predictions were made last; when the next piece is due
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
        return len(self._predictions) + len(self._explanations)

    def ask(self, question: Question) -> asyncio.Future[Reply]:
        """Return the reply to come; a Refusal if too many wait already. Whoever waits no longer cancels it."""
        is_explanation = question.kind == EXPLAIN
        queue = self._explanations if is_explanation else self._predictions
        with self._arrival:
            if queue.is_full():
                kind = "explanations" if is_explanation else "requests"
                raise busy(f"too many {kind} wait; try again in a second.")
            return self._submit(queue, question)

    def call(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Return the result to come of a function that asks the model; it goes before those who wait."""
        with self._arrival:
            return self._submit(self._predictions, function, first=True)

    def _submit(self, queue: JobQueue, work: Question | Callable[[], Any], first: bool = False) -> asyncio.Future[Any]:
        job = Job(work, self._loop.create_future())
        queue.add(job, first)
        self._arrival.notify()
        return job.future

    # -- the thread --------------------------------------------------------------------------------------------
    def _work(self) -> None:
        while self._wait():
            batch = self._next_batch()
            has_loop = self._deliver(self._results(batch))
            if batch:
                self._batch_time = time.monotonic()
            if self._pieces and self._pause() <= 0:
                has_loop = self._deliver(self._piece_results())
            if not has_loop:
                return
            del batch  # bodies of people are not kept while nobody asks

    def _wait(self) -> bool:
        """Wait until there is something to do; False at the end."""
        with self._arrival:
            while not self._predictions:
                if not self._pieces and self._is_stopping:
                    return False
                pause = self._pause() if self._pieces else None
                if pause is not None and pause <= 0:
                    break
                self._arrival.wait(pause)
        return True

    def _next_batch(self) -> list[Job]:
        """Return what waits to be answered at once, up to a bound."""
        with self._arrival:
            if self._predictions and self._batch_size > ANSWERED_ALONE:  # those who were answered ask again in a moment
                self._arrival.wait_for(lambda: len(self._predictions) >= self._batch_size, GATHER_SECONDS)
            return self._predictions.take(BATCH_REQUESTS, BATCH_BYTES)

    def _results(self, batch: Sequence[Job]) -> list[Result]:
        """Return the result of each job, beside its future, but of those that go in pieces."""
        results: list[Result] = []
        opened: list[OpenJob] = []
        for job in batch:
            if isinstance(job.work, Question):
                opened.append((job, self._replies.open(job.work)))
            else:
                results.append((job.future, _outcome(job.work)))
        if opened:
            self._batch_size = len(opened)
            self._count(len(opened))
            quick = [(job, question) for job, question in opened if not self._pieces.take(job, question)]
            results += piece_results(self._replies, quick, self._replies.advance)
        return results

    def _pause(self) -> float:
        """Return the seconds until a piece is due: predictions have had their share of the time, or none come."""
        return min(self._piece_time, self._batch_time + GATHER_SECONDS) - time.monotonic()

    def _piece_results(self) -> list[Result]:
        start = time.monotonic()
        number = self._pieces.open_explanations()
        if number:
            self._count(number)
        results = self._pieces.advance()
        end = time.monotonic()
        self._piece_time = end + (end - start) * (1 / PIECE_SHARE - 1)
        return results

    def _deliver(self, results: Sequence[Result]) -> bool:
        """Give results to the event loop; False if it has been closed, and nobody waits for answers any more."""
        try:
            if results:
                self._loop.call_soon_threadsafe(_set_results, results)
        except RuntimeError:
            return False
        return True


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return error


def _set_results(results: Sequence[Result]) -> None:
    """Give results to those who wait for them; some may have gone."""
    for future, result in results:
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
