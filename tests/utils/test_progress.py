"""Stages: what is counted, by whom, and what is said of the time left."""

import multiprocessing
import pickle
import threading
import timeit
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from optfair.utils import progress
from optfair.utils.progress import Stage, carried, duration, is_watched, stage, tick, watched
from tests.utils.stages import recorded


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def work_for(clock, work, seconds, steps=1):
    clock.now += seconds
    work.advance(steps)


# -- time left -----------------------------------------------------------------------------------------------
def test_time_left_is_the_mean_of_the_steps_so_far_times_those_to_come(clock):
    work = Stage("x", 10)
    assert work.seconds_left() is None  # nothing is known yet
    for count, seconds in enumerate((2.0, 4.0, 6.0), 1):
        work_for(clock, work, seconds)
        assert work.seconds_left() == pytest.approx({1: 2, 2: 3, 3: 4}[count] * (10 - count))


def test_it_runs_down_until_the_next_step_and_is_not_told_once_that_is_late(clock):
    work = Stage("x", 3)
    work_for(clock, work, 5.0)
    clock.now += 4
    assert work.seconds_left() == pytest.approx(10 - 4)
    clock.now += 7
    assert work.seconds_left() is None and work.text() == "x: 1 of 3, 16 s so far"
    work.advance()
    assert work.seconds_left() == pytest.approx(16 / 2)


def test_steps_of_an_earlier_run_do_not_count_as_quick_ones(clock):
    work = Stage("rounds", 50, count=40)
    assert work.seconds_left() is None
    work_for(clock, work, 3.0)
    assert work.seconds_left() == pytest.approx(9 * 3)


def test_without_a_total_only_what_was_done_is_said(clock):
    work = Stage("solving")
    assert work.text() == "solving: 0 s so far"
    work_for(clock, work, 7.0, steps=41)
    work.advance(0, passes=7, gap=0.000314159)
    assert work.seconds_left() is None
    assert work.text() == "solving: step 41, passes 7, gap 0.000314, 7 s so far"


def test_the_text_says_how_many_of_how_many(clock):
    work = Stage("reading people.csv", 1200, unit="MB")
    work_for(clock, work, 20.0, steps=1000)
    assert work.text() == "reading people.csv: 1,000 of 1,200 MB, about 4 s left"
    work.advance(500)
    assert work.text().endswith("1,500 of 1,200 MB, about 0 s left")  # never negative


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (7.4, "7 s"), (23, "25 s"), (119, "120 s"), (121, "2 min"), (3600, "60 min"), (9000, "2.5 h")],
)
def test_durations_are_rounded(seconds, text):
    assert duration(seconds) == text


# -- who counts ----------------------------------------------------------------------------------------------
def test_where_nobody_looks_nothing_is_counted():
    with stage("outer", 3) as work:
        work.advance(2, fact=1.0)
        work.reach(3)
        tick("outer")
        assert not is_watched() and not hasattr(work, "count")


def test_where_nobody_looks_a_stage_costs_microseconds():
    def body():
        with stage("x"):
            tick("x")

    assert min(timeit.repeat(body, number=2000, repeat=5)) / 2000 < 50e-6  # some 2 µs on an idle machine


def test_stages_are_open_within_each_other():
    with recorded() as root:
        with stage("outer") as outer, stage("inner") as inner:
            assert root.inner == [outer] and outer.inner == [inner]
        assert root.inner == [] and outer.inner == []
        with suppress(ValueError), stage("other"):
            raise ValueError
        assert root.inner == []
    assert not is_watched()
    assert [(record.name, record.depth) for record in root.records] == [("outer", 0), ("inner", 1), ("other", 0)]


def test_a_tick_counts_in_the_innermost_stage_of_its_name_only():
    with recorded(), stage("fitting") as outer:
        tick("fitting")
        with stage("solving") as inner:
            tick("fitting")
            tick("solving", 2, gap=0.5)
    assert (outer.count, inner.count, inner.facts) == (1, 2, {"gap": 0.5})


def test_steps_are_not_counted_back():
    with recorded(), stage("fitting", 10) as work:
        work.advance(4)
        work.reach(3)
        assert work.count == 4
        work.reach(6)
        assert work.count == 6


def test_other_threads_count_where_they_are_told_to():
    n_threads, n_steps = 4, 500
    with recorded(), stage("fitting") as work, ThreadPoolExecutor(n_threads) as pool:
        plain = [pool.submit(tick, "fitting") for _ in range(10)]
        assert all(future.result() is None for future in plain) and work.count == 0  # a context of their own
        function = carried(lambda: [tick("fitting") for _ in range(n_steps)])
        for future in [pool.submit(function) for _ in range(n_threads)]:
            future.result()
    assert work.count == n_threads * n_steps


def test_a_carried_function_leaves_its_thread_as_it_was():
    states = []
    with recorded(), stage("fitting"):
        function = carried(lambda: states.append(is_watched()))
    thread = threading.Thread(target=lambda: (function(), states.append(is_watched())))
    thread.start()
    thread.join()
    assert states == [True, False]


def test_another_process_gets_the_function_alone():
    with recorded(), stage("fitting"):
        function = carried(duration)
        assert pickle.loads(pickle.dumps(function)) is duration
        assert function(3) == "3 s" and not hasattr(function, "__dict__")


def watched_in_a_child(queue):
    with stage("x") as work:
        work.advance()
    queue.put(is_watched())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_not_watched():
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    with watched(Stage("")), stage("x"):
        child = context.Process(target=watched_in_a_child, args=(queue,))
        child.start()
        assert queue.get() is False
        child.join()
        assert is_watched()
