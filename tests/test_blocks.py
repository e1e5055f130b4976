"""Blocks add up: the size of a block, the number of threads and where the rows lie change nothing."""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from problems import aware, blind
from threadpoolctl import threadpool_info, threadpool_limits

import optfair
from optfair import parallel
from optfair.parallel import block_slices, map_blocks, n_threads
from optfair.posterior import check_posterior


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(parallel, "BLOCK_ROWS", 256)


# -- slices -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 32_768, 100_001])
@pytest.mark.parametrize("width", [1, 25, 1000, 10**7])
def test_slices_cover_every_row_once_in_order(n, width):
    blocks = block_slices(n, width)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n))
    assert all((block.stop - block.start) * width <= max(parallel.BLOCK_NUMBERS, 256 * width) for block in blocks)


# -- blocks equal whole -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [blind, aware])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_equal_whole(kind, weighted, monkeypatch):
    Z = kind(0, n=3000)
    weight = np.random.default_rng(0).random(3000) if weighted else None

    def everything():
        rule = optfair.solve(Z, "eo", 0.01, sample_weight=weight, temperature=0.02, random_state=0, n_jobs=2)
        return rule, rule.predict_proba(Z, n_jobs=2), check_posterior(Z, sample_weight=weight).prior

    assert len(block_slices(3000, 9)) == 1
    whole = everything()
    monkeypatch.setattr(parallel, "BLOCK_ROWS", 256)
    assert len(block_slices(3000, 9)) == 12
    parts = everything()
    np.testing.assert_allclose(parts[0].weights, whole[0].weights, atol=1e-10)
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-10)
    np.testing.assert_allclose(parts[2], whole[2], atol=1e-14)
    for name in ("accuracy", "upper_bound", "gap", "violation", "residual"):
        assert getattr(parts[0].certificate, name) == pytest.approx(getattr(whole[0].certificate, name), abs=1e-10)


def test_the_number_of_threads_changes_no_bit(small_blocks):
    Z = blind(1, n=3000)
    one, two, four = (optfair.solve(Z, "eo", 0.01, random_state=0, n_jobs=k) for k in (1, 2, 4))
    assert one.weights.tobytes() == two.weights.tobytes() == four.weights.tobytes()
    assert one.certificate.gap == two.certificate.gap == four.certificate.gap


def test_the_prior_is_the_weighted_mean(small_blocks):
    Z, weight = blind(2, n=1000, dtype=np.float32), np.random.default_rng(0).random(1000)
    prior = check_posterior(Z, sample_weight=weight, n_jobs=2).prior
    np.testing.assert_allclose(prior, np.average(Z.astype(float), axis=0, weights=weight), atol=1e-14)


# -- threads ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_jobs", [1, 2, 8])
def test_results_come_in_the_order_of_the_blocks(small_blocks, n_jobs):
    def slow_first(block):
        time.sleep(0.02 if block.start == 0 else 0.0)
        return block.start

    assert map_blocks(slow_first, 2000, 1, n_jobs) == list(range(0, 2000, 256))


def test_blocks_run_on_several_threads(small_blocks):
    barrier = threading.Barrier(2, timeout=10)  # broken, hence an error, unless two blocks are under way at once
    map_blocks(lambda block: barrier.wait(), 512, 1, 2)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_block_comes_out_and_blas_is_restored(small_blocks, n_jobs):
    before, seen = blas_threads(), []
    assert before

    def fail_late(block):
        seen.extend(blas_threads())
        if block.start == 512:
            raise ZeroDivisionError("block 512")

    with pytest.raises(ZeroDivisionError, match="block 512"):
        map_blocks(fail_late, 2000, 1, n_jobs)
    assert set(seen) == {1}
    assert blas_threads() == before


def test_blas_is_restored_after_passes_within_passes(small_blocks):
    before = blas_threads()
    inside = map_blocks(lambda block: map_blocks(lambda inner: blas_threads(), 300, 1, 2), 600, 1, 2)
    assert {count for outer in inside for inner in outer for count in inner} == {1}
    assert blas_threads() == before


def test_blas_is_restored_whichever_of_two_passes_ends_first(small_blocks):
    """The pass that began first ends first: the limit outlives it, and is taken back by the other."""
    before, began, first_over = blas_threads(), threading.Event(), threading.Event()

    def second():
        def wait(block):
            began.set()
            assert first_over.wait(10)
            return blas_threads()

        seen.extend(map_blocks(wait, 100, 1, 1))

    seen = []
    other = threading.Thread(target=second)
    map_blocks(lambda block: (other.start(), began.wait(10)), 100, 1, 1)
    first_over.set()
    other.join()
    assert seen and {count for counts in seen for count in counts} == {1}
    assert blas_threads() == before


def test_a_limit_that_the_caller_holds_is_left_as_it_was(small_blocks):
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        map_blocks(lambda block: block.start, 2000, 1, 2)
        assert blas_threads() == before


def test_n_threads():
    assert n_threads(3) == 3 and n_threads(np.int64(2)) == 2
    assert n_threads(None) == n_threads(-1) >= 1
    if hasattr(os, "sched_getaffinity"):
        assert n_threads(None) == len(os.sched_getaffinity(0))


# -- larger than memory -------------------------------------------------------------------------------------
ROWS, BLOCK = 3_000_000, 100_000
# One thread: each further one has a stack and blocks of its own, about 30 MB.
LIMITED = """
import json, resource, sys
import numpy as np
import optfair

Z = np.load(sys.argv[1], mmap_mode="r")
optfair.solve(np.array(Z[:2000]), "dp", 0.01, n_jobs=1)  # everything imported, nothing left to load
with open("/proc/self/status") as status:
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData")) * 1024
limit = used + int(sys.argv[2])
assert Z.nbytes > int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
if sys.argv[3] == "copy":
    np.array(Z)
    print("copied")
else:
    rule = optfair.solve(Z, "dp", 0.01, random_state=0, n_jobs=1)
    c = rule.certificate
    print(json.dumps([c.accuracy, c.gap, c.violation, c.excess]))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """300 MB of float32 rows, written block by block; removed at the end."""
    path = tmp_path_factory.mktemp("large") / "Z.npy"
    Z = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(ROWS, 5, 5))
    rng = np.random.default_rng(0)
    lean = 1 + np.eye(5, dtype=np.float32)  # group a leans to class a
    for start in range(0, ROWS, BLOCK):
        block = rng.random((BLOCK, 5, 5), dtype=np.float32) ** 4 * lean
        Z[start : start + BLOCK] = block / block.sum((1, 2), keepdims=True)
    Z.flush()
    del Z
    yield path
    path.unlink()


def run_limited(path, what, megabytes=150):
    command = [sys.executable, "-c", LIMITED, str(path), str(megabytes * 2**20), what]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts the memory of a process on Linux only")
def test_a_memory_map_larger_than_the_memory_allowed(large):
    copied = run_limited(large, "copy")
    assert copied.returncode != 0 and "MemoryError" in copied.stderr, copied  # the limit bites
    done = run_limited(large, "solve")
    assert done.returncode == 0, done.stderr
    accuracy, gap, violation, excess = json.loads(done.stdout)
    rule = optfair.solve(np.load(large), "dp", 0.01, random_state=0, n_jobs=2)
    assert excess == rule.certificate.excess == 0 and violation <= 0.01
    assert abs(accuracy - rule.certificate.accuracy) <= max(gap, rule.certificate.gap)
    assert rule.multipliers["multiplier"].abs().max() > 0  # there was something to do
