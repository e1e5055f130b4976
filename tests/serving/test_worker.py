"""The thread of a model: what goes first, what goes together, what waits for how long, and what is not done at all."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("uvicorn", reason="the service runs on uvicorn")

from optfair.serving import pieces, worker
from optfair.serving.pieces import TOO_MANY
from optfair.serving.queues import Job, JobQueue
from optfair.serving.refusals import BUSY, FAILED, Refusal
from optfair.serving.replies import EXPLAIN, PREDICT, OpenQuestion, Question, Reply, refusal_reply
from optfair.serving.settings import ANSWER_SECONDS, BODY_SECONDS, PIECE_CALLS, PIECE_PEOPLE, REQUEST_SECONDS
from optfair.serving.worker import Worker

SECONDS = 20


class SlowReplies:
    """Replies of a model that waits until it may go on.

    A body is a number of people: "5", "5!apart" where each needs a call, "5!fail" where calls fail.
    """

    def __init__(self):
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()
        self.calls = []  # (kind, number of people)

    def open(self, question):
        number, _, call = question.content.decode().partition("!")
        return OpenQuestion(question.kind, [call] * int(number))

    def n_calls(self, question):
        return 1 if question.people[0] == "" else len(question.people)

    def advance(self, questions):
        self._ask(questions, None)

    def advance_piece(self, questions):
        self._ask(questions, PIECE_PEOPLE)

    def _ask(self, questions, most):
        people = [question for question in questions for _ in question.rest][:most]
        if not people:
            return
        self.entered.set()
        assert self.gate.wait(SECONDS)
        self.calls.append((people[0].kind, len(people)))
        if "fail" in people[0].people:
            raise RuntimeError("x1y2z3")
        for question in people:
            question.outcomes.append(None)

    def close(self, question):
        if question.refusal is not None:
            return refusal_reply(question.refusal)
        return Reply(200, b"%s %d" % (question.kind.encode(), len(question.people)))


@asynccontextmanager
async def working(counts=None):
    """Run a worker with such replies; its model is held until `gate` is set."""
    replies = SlowReplies()
    thread = Worker(replies, [].append if counts is None else counts.append)
    thread.start()
    try:
        yield thread, replies
    finally:
        replies.gate.set()
        assert thread.stop(SECONDS)


async def held(thread, replies, kind=PREDICT, content=b"1"):
    """Let the model begin with a question, and hold it there."""
    replies.entered.clear()
    replies.gate.clear()
    future = thread.ask(Question(kind, content))
    assert await asyncio.to_thread(replies.entered.wait, SECONDS)
    return future


def predict(content=b"1"):
    return Question(PREDICT, content)


def explain(content=b"1"):
    return Question(EXPLAIN, content)


# -- turns -----------------------------------------------------------------------------------------------------
def test_predictions_are_made_before_explanations_and_between_their_pieces(monkeypatch):
    monkeypatch.setattr(worker, "PIECE_SHARE", 1e-3)  # no second piece as long as predictions come

    async def run():
        async with working() as (thread, replies):
            first = await held(thread, replies, EXPLAIN, b"%d" % (3 * PIECE_PEOPLE))
            asked = [thread.ask(explain()), *(thread.ask(predict()) for _ in range(3))]
            order = []
            for k, future in enumerate([first, *asked]):
                future.add_done_callback(lambda _, k=k: order.append(k))
            replies.gate.set()
            contents = [(await future).content for future in (first, *asked)]
            assert contents == [b"explain 75", b"explain 1", *[b"predict 1"] * 3]
            await asyncio.sleep(0)
            assert order == [2, 3, 4, 0, 1]
            assert replies.calls[:2] == [(EXPLAIN, PIECE_PEOPLE), (PREDICT, 3)]
            assert replies.calls[2:] == [(EXPLAIN, PIECE_PEOPLE), (EXPLAIN, PIECE_PEOPLE), (EXPLAIN, 1)]

    asyncio.run(run())


def test_explanations_have_their_share_of_the_time_while_predictions_come_without_a_pause():
    async def run():
        async with working() as (thread, replies):
            explanation = await held(thread, replies, EXPLAIN, b"%d" % (2 * PIECE_PEOPLE))
            predictions = [thread.ask(predict()) for _ in range(2)]
            replies.gate.set()
            end = time.monotonic() + SECONDS
            while not explanation.done():  # there are always some that wait
                assert time.monotonic() < end
                await predictions.pop(0)
                predictions.append(thread.ask(predict()))
            await asyncio.gather(*predictions)

    asyncio.run(run())


def test_what_checks_the_model_goes_before_all_others():
    async def run():
        async with working() as (thread, replies):
            first = await held(thread, replies, EXPLAIN, b"%d" % (2 * PIECE_PEOPLE))
            waiting = [thread.ask(predict(b"7")), thread.call(lambda: len(replies.calls))]
            replies.gate.set()
            assert await waiting[1] == 1  # behind the piece that was under way
            await asyncio.gather(first, *waiting)
            with pytest.raises(ZeroDivisionError):
                await thread.call(lambda: 1 / 0)

    asyncio.run(run())


def test_predictions_that_need_many_calls_go_in_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "MAX_IN_PIECES", 1)

    async def run():
        counts = []
        async with working(counts) as (thread, replies):
            first = await held(thread, replies)
            large, refused = (thread.ask(predict(b"%d!" % (PIECE_PEOPLE + 5) + b"apart")) for _ in range(2))
            explanation, small = thread.ask(explain()), thread.ask(predict(b"%d!apart" % PIECE_CALLS))
            replies.gate.set()
            assert (await refused).content == refusal_reply(Refusal(BUSY, TOO_MANY)).content
            replies_in_time = await asyncio.gather(first, large, small, explanation)
            assert [reply.status for reply in replies_in_time] == [200] * 4
            assert (EXPLAIN, 1) in replies.calls
            calls = [number for kind, number in replies.calls if kind == PREDICT]
            assert calls == [1, PIECE_CALLS, PIECE_PEOPLE, 5]
        assert sorted(counts) == [1, 1, 3]

    asyncio.run(run())


@pytest.mark.parametrize("kind", [PREDICT, EXPLAIN])
def test_an_error_of_ours_is_a_reply_and_not_the_end_of_the_thread(kind, caplog):
    async def run():
        async with working() as (thread, replies):
            first = await held(thread, replies)
            failing = [thread.ask(Question(kind, b"3!fail")), thread.ask(Question(kind, b"1"))]
            replies.gate.set()
            assert (await first).status == 200
            assert [(await future).status for future in failing] == [FAILED, FAILED]  # they were asked about together
            assert (await thread.ask(Question(kind, b"1"))).status == 200

    asyncio.run(run())
    assert "x1y2z3" not in caplog.text


# -- whom nobody waits for -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [PREDICT, EXPLAIN])
def test_what_nobody_waits_for_is_not_begun(kind):
    async def run():
        async with working() as (thread, replies):
            first = await held(thread, replies)
            futures = [thread.ask(Question(kind, b"%d" % number)) for number in (2, 3, 4)]
            futures[1].cancel()
            replies.gate.set()
            await asyncio.gather(first, futures[0], futures[2])
            assert sum(number for _, number in replies.calls) == 1 + 2 + 4

    asyncio.run(run())


def test_an_explanation_that_nobody_waits_for_is_not_gone_on_with():
    async def run():
        async with working() as (thread, replies):
            future = await held(thread, replies, EXPLAIN, b"%d" % (4 * PIECE_PEOPLE))
            future.cancel()
            other = thread.ask(explain())
            replies.gate.set()
            assert (await other).status == 200
            assert replies.calls == [(EXPLAIN, PIECE_PEOPLE), (EXPLAIN, 1)]

    asyncio.run(run())


# -- how many wait ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "word"), [(PREDICT, "requests"), (EXPLAIN, "explanations")])
def test_a_full_queue_is_one_of_those_who_still_wait(monkeypatch, kind, word):
    monkeypatch.setattr(worker, "MAX_WAITING" if kind == PREDICT else "MAX_IN_PIECES", 2)

    async def run():
        async with working() as (thread, replies):
            first = await held(thread, replies)
            futures = [thread.ask(Question(kind, b"1")) for _ in range(2)]
            with pytest.raises(Refusal) as error:
                thread.ask(Question(kind, b"1"))
            assert (error.value.status, error.value.headers) == (BUSY, {"Retry-After": "1"})
            assert error.value.text == f"too many {word} wait; try again in a second."
            other = thread.ask(Question(EXPLAIN if kind == PREDICT else PREDICT, b"1"))  # has a queue of its own
            futures[0].cancel()
            futures[0] = thread.ask(Question(kind, b"1"))
            assert thread.n_waiting() == 3
            replies.gate.set()
            await asyncio.gather(first, other, *futures)

    asyncio.run(run())


def test_jobs_are_taken_in_order_up_to_a_number_and_a_size():
    async def run():
        loop = asyncio.get_running_loop()
        queue = JobQueue(9)
        jobs = [Job(predict(b"x" * size), loop.create_future()) for size in (50, 10, 10, 10, 90)]
        for job in jobs:
            queue.add(job)
        jobs[2].future.cancel()
        assert queue.take(5, 30) == jobs[:1]  # the first, whatever its size
        assert queue.take(1, 30) == jobs[1:2]
        assert queue.take(5, 99) == jobs[3:4] and len(queue) == 1
        check = Job(len, loop.create_future())
        queue.add(check, first=True)
        assert queue.take(5, 90) == [check, jobs[4]] and queue.take(5, 90) == []

    asyncio.run(run())


def test_whoever_waits_too_long_is_told_before_the_connection_is_cut():
    assert BODY_SECONDS + ANSWER_SECONDS + 5 < REQUEST_SECONDS
