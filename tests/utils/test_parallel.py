"""Test that blocks add up: the size of a block, the number of threads and where the rows lie change nothing."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import optfair
from optfair import solve
from optfair.dual.posterior import check_posterior
from optfair.utils import parallel
from optfair.utils.parallel import block_slices, cores, map_blocks, n_threads, one_blas_thread, uses_cores
from tests.problems import aware, blind

ROOT = Path(__file__).parents[2]
ONE_THREAD_ONLY = "BLAS has one thread only: there is nothing to restore"


def threads_by_library():
    return {
        library["filepath"]: library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def blas_threads():
    return list(threads_by_library().values())


BEFORE = threads_by_library()  # before any test: one that leaves a limit behind must not hide the next that does


@pytest.fixture
def threads_restored():
    """Check that BLAS has as many threads after the test as before all tests (it may have one; see below)."""
    yield
    after = threads_by_library()  # with libraries that other tests have loaded
    assert BEFORE and {file: after[file] for file in BEFORE} == BEFORE


# -- slices ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 32_768, 100_001])
@pytest.mark.parametrize("width", [1, 25, 1000, 10**7])
def test_slices_cover_every_row_once_in_order(n, width):
    blocks = block_slices(n, width)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n))
    assert all((block.stop - block.start) * width <= max(parallel.BLOCK_NUMBERS, 256 * width) for block in blocks)


# -- solve on blocks ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [blind, aware])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_equal_whole(kind, weighted, request):
    Z = kind(0, n=3000)
    weight = np.random.default_rng(0).random(3000) if weighted else None

    def results():
        rule = solve(Z, "eo", 0.01, sample_weight=weight, temperature=0.02, random_state=0, n_jobs=2)
        return rule, rule.predict_proba(Z, n_jobs=2), check_posterior(Z, sample_weight=weight).prior

    assert len(block_slices(3000, 9)) == 1
    whole = results()
    request.getfixturevalue("small_blocks")
    assert len(block_slices(3000, 9)) == 12
    parts = results()
    np.testing.assert_allclose(parts[0].weights, whole[0].weights, atol=1e-10)
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-10)
    np.testing.assert_allclose(parts[2], whole[2], atol=1e-14)
    for name in ("accuracy", "upper_bound", "gap", "violation", "residual"):
        assert getattr(parts[0].certificate, name) == pytest.approx(getattr(whole[0].certificate, name), abs=1e-10)


def test_the_number_of_threads_changes_no_bit(small_blocks):
    Z = blind(1, n=3000)
    first, second, third = (solve(Z, "eo", 0.01, random_state=0, n_jobs=k) for k in (1, 2, 4))
    assert first.weights.tobytes() == second.weights.tobytes() == third.weights.tobytes()
    assert first.certificate.gap == second.certificate.gap == third.certificate.gap


# -- threads -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_jobs", [1, 2, 8])
def test_results_come_in_the_order_of_the_blocks(small_blocks, n_jobs):
    def slow_first(block):
        time.sleep(0.02 if block.start == 0 else 0.0)
        return block.start

    assert map_blocks(slow_first, 2000, 1, n_jobs) == list(range(0, 2000, 256))


def test_blocks_run_on_several_threads(small_blocks):
    barrier = threading.Barrier(2, timeout=10)  # broken, hence an error, unless two blocks are under way at once
    map_blocks(lambda block: barrier.wait(), 512, 1, 2)


def test_threads_are_kept_and_no_more_than_asked_for(small_blocks, monkeypatch):
    """Many passes, and passes within passes, never run on more than two threads at once; few are ever started."""
    monkeypatch.setattr(parallel._POOL, "executor", ThreadPoolExecutor(8))  # without the threads of other tests
    lock, at_work, most, names = threading.Lock(), set(), [], set()

    def note(block):
        name = threading.current_thread().name
        with lock:
            at_work.add(name)
            names.add(name)
            most.append(len(at_work))
        map_blocks(lambda inner: names.add(threading.current_thread().name), 600, 1)
        with lock:
            at_work.discard(name)

    for _ in range(100):
        map_blocks(note, 4000, 1, 2)
    assert max(most) <= 2
    assert len(names) <= 9, "the caller and a kept pool, which may start one before another is idle again"


def test_a_pass_does_not_wait_for_threads_that_are_busy_elsewhere(small_blocks, monkeypatch):
    monkeypatch.setattr(parallel._POOL, "executor", ThreadPoolExecutor(1))
    free = threading.Event()
    parallel._POOL.executor.submit(free.wait, 10)
    assert map_blocks(lambda block: block.start, 1000, 1, 2) == [0, 256, 512, 768]
    free.set()


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_the_error_of_the_first_block_that_has_one_is_raised(small_blocks, n_jobs):
    def fail(block):
        time.sleep(0.02 if block.start == 256 else 0.0)
        if block.start >= 256:
            raise ValueError(block.start)

    with pytest.raises(ValueError, match=r"^256$"):
        map_blocks(fail, 2000, 1, n_jobs)


def test_every_thread_has_the_context_of_the_caller(small_blocks):
    barrier = threading.Barrier(2, timeout=10)

    def divide(block):
        barrier.wait()
        return np.geterr()["divide"]

    with np.errstate(divide="raise"):
        assert map_blocks(divide, 512, 1, 2) == ["raise", "raise"]


def test_one_block_takes_no_thread_and_microseconds(monkeypatch):
    """The least of many calls, which load on the machine does not change."""
    monkeypatch.setattr(parallel._POOL, "executor", None)
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        map_blocks(lambda block: None, 1, 10)
        times.append(time.perf_counter() - start)
    assert min(times) < 60e-6  # to start a thread takes longer


# -- cores -------------------------------------------------------------------------------------------------
@pytest.fixture
def four_cores(monkeypatch):
    """Four cores, and nothing about threads in the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(parallel, "_available_cores", lambda: 4)


def test_available_cores_are_those_of_joblib():
    assert 1 <= parallel._available_cores() <= joblib.cpu_count()


@pytest.mark.parametrize(
    ("n_jobs", "expected"), [(3, 3), (np.int64(2), 2), (9, 9), (None, 4), (-1, 4), (-2, 3), (-9, 1)]
)
def test_n_threads(four_cores, n_jobs, expected):
    assert n_threads(n_jobs) == expected


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("3", 3), ("9", 4), ("", 4), ("2,1", 4), ("0", 4)])
def test_by_default_the_environment_limits_openmp_and_us(four_cores, monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert n_threads(None) == expected and n_threads(-1) == 4


def test_joblib_says_how_many_cores_are_meant(four_cores):
    with joblib.parallel_config(n_jobs=3):
        assert n_threads(None) == 3 and n_threads(2) == 2
    with joblib.parallel_config(backend="threading", n_jobs=-1):
        assert n_threads(None) == 4
    with joblib.parallel_config(backend="threading"):
        assert n_threads(None) == 4
        # A worker of joblib has no cores but its own.
        assert joblib.Parallel(n_jobs=2)(joblib.delayed(n_threads)(None) for _ in range(4)) == [1] * 4


def test_a_call_tells_all_that_it_calls_how_many_cores_it_may_use(four_cores):
    class Model:
        n_jobs = 2

        @uses_cores
        def fit(self):
            return n_threads(None), n_threads(3), self.inner()

        @uses_cores
        def inner(self):
            with cores(None):
                return n_threads(None)

    @uses_cores
    def inverse(*, n_jobs=None):
        return n_threads(None)

    assert Model().fit() == (2, 3, 2) and n_threads(None) == 4
    assert inverse(n_jobs=3) == 3 and inverse() == 4
    with pytest.raises(ZeroDivisionError), cores(1):
        raise ZeroDivisionError
    assert n_threads(None) == 4


def test_one_core_is_left_to_others_by_threads_that_wait_for_each_other(four_cores, monkeypatch):
    assert parallel.spare_cores() == 3
    with cores(2):
        assert parallel.spare_cores() == 2
    monkeypatch.setattr(parallel, "_available_cores", lambda: 1)
    assert parallel.spare_cores() == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
def test_a_number_of_threads_that_is_none_is_refused(n_jobs):
    with pytest.raises(ValueError, match=rf"^n_jobs={n_jobs!r}: must be None, -1 or a positive integer\.$"):
        n_threads(n_jobs)


# -- threads of BLAS ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_block_is_raised_and_blas_is_restored(small_blocks, threads_restored, n_jobs):
    counts = []

    def fail_late(block):
        counts.extend(blas_threads())
        if block.start == 512:
            raise ZeroDivisionError("block 512")

    with pytest.raises(ZeroDivisionError, match="block 512"):
        map_blocks(fail_late, 2000, 1, n_jobs)
    assert set(counts) == {1}


def test_blas_is_restored_after_passes_within_passes(small_blocks, threads_restored):
    inside = map_blocks(lambda block: map_blocks(lambda inner: blas_threads(), 300, 1, 2), 600, 1, 2)
    assert {count for outer in inside for inner in outer for count in inner} == {1}


def test_blas_is_restored_whichever_of_two_passes_ends_first(small_blocks, threads_restored):
    """The pass that began first ends first: the limit outlives it, and is taken back by the other."""
    began, first_over, counts = threading.Event(), threading.Event(), []

    def second():
        def wait(block):
            began.set()
            assert first_over.wait(10)
            return blas_threads()

        counts.extend(map_blocks(wait, 100, 1, 1))

    thread = threading.Thread(target=second)
    map_blocks(lambda block: (thread.start(), began.wait(10)), 100, 1, 1)
    first_over.set()
    thread.join()
    assert counts and {count for block in counts for count in block} == {1}


def test_blas_is_restored_when_passes_overlap(threads_restored):
    """Thread A enters, B enters, A leaves, B leaves last: BLAS has the threads it had."""
    if max(BEFORE.values()) == 1:
        pytest.skip(ONE_THREAD_ONLY)
    a_in, b_in, a_out, b_out = (threading.Event() for _ in range(4))

    def first():
        with one_blas_thread():
            a_in.set()
            b_in.wait(10)
        a_out.set()
        b_out.wait(10)  # A is still alive when B leaves

    thread = threading.Thread(target=first)
    thread.start()
    a_in.wait(10)
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        b_in.set()
        a_out.wait(10)
    b_out.set()
    thread.join()


def test_a_limit_that_the_caller_holds_is_left_as_it_was(small_blocks):
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        map_blocks(lambda block: block.start, 2000, 1, 2)
        assert blas_threads() == before


def test_blas_is_restored_after_an_error_of_solve(threads_restored):
    bad = blind(26, 100)
    bad[50] *= 2
    with pytest.raises(ValueError, match="row 50"):
        solve(bad, "dp", n_jobs=2)


def test_blas_is_restored_after_a_solve(threads_restored):
    solve(aware(26, 200), "eo", 0.01, n_jobs=2)


@pytest.mark.slow
@pytest.mark.skipif(n_threads(-1) == 1, reason="needs two cores: on one, BLAS has one thread whatever is asked for")
def test_the_tests_of_this_file_pass_where_blas_has_two_threads():
    """With one thread, by the environment, nothing needs to be restored, and no test could notice."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "2")
    environment = os.environ | threads | {"PYTHONPATH": str(Path(optfair.__file__).parents[1])}
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", __file__]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    assert " passed" in process.stdout and ONE_THREAD_ONLY not in process.stdout, process.stdout


def test_solving_from_several_threads_at_once_gives_the_same_answers():
    requests = [(blind(23, 46_000), "dp", 0.002), (aware(24, 500), "eo", 0.01), (blind(25, 900), "oae", 0.001)]

    def run(request):
        return solve(*request, n_jobs=2, random_state=0)

    expected = [run(request) for request in requests]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(run, requests * 2))
    for rule, alone in zip(together, expected * 2, strict=True):
        # Not bit for bit: products outside the passes run with as many BLAS threads as are free just then.
        np.testing.assert_allclose(rule.weights, alone.weights, atol=1e-9)
        assert rule.certificate.upper_bound == pytest.approx(alone.certificate.upper_bound, abs=1e-9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_pass_of_its_parent():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            map_blocks(lambda block: 0, 10, 1, 1)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                map_blocks(lambda block: 0, 10, 1, 1)
                os._exit(0)
            deadline = time.monotonic() + 20
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    pytest.fail("the child hangs")
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
