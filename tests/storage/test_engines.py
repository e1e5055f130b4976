"""Engines map functions over parts: in order, on one core each; executors solve as threads do, bit by bit."""

import multiprocessing
import os
import pickle
import random
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import optfair
from optfair.storage.dask_workers import may_pass
from optfair.storage.engines import DaskWorkers, Threads, Workers, as_engine
from optfair.storage.parts import BatchPart, PartError
from optfair.storage.tasks import Task
from optfair.utils.parallel import n_threads
from optfair.utils.progress import Stage, watched
from tests.storage.clusters import N, assert_same, numbered, write_rows

pytest.importorskip("cloudpickle", reason="functions are sent by it")


class Backwards:
    """Returns results in the reverse order."""

    def map(self, function, parts):
        return [function(part) for part in reversed(list(parts))]


class Forgetful:
    """Returns all results but the last, or the first one twice."""

    def __init__(self, twice=False):
        self.twice = twice

    def map(self, function, parts):
        results = [function(part) for part in list(parts)[:-1]]
        return [*results, results[0]] if self.twice else results


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pyarrow", reason="rows are in Parquet files")
    return write_rows(tmp_path_factory.mktemp("rows") / "scores")


@pytest.fixture
def engine(request, processes):
    with ThreadPoolExecutor(2) as threads:
        engines = {"threads": Threads(2), "thread pool": Workers(threads), "processes": Workers(processes)}
        yield (engines | {"backwards": Workers(Backwards())})[request.param]


ENGINES = pytest.mark.parametrize("engine", ["threads", "thread pool", "processes", "backwards"], indirect=True)


# -- the contract ------------------------------------------------------------------------------------------------
@ENGINES
def test_results_are_in_the_order_of_the_parts(engine):
    factor = 3
    assert list(engine.map(lambda part: factor * part.start, numbered(40))) == [3 * k for k in range(40)]


@ENGINES
def test_rows_are_counted(engine):
    root = Stage("test")
    with watched(root):
        steps = []
        root.open = lambda inner: steps.append(inner)
        root.close = lambda inner: None
        engine.map(lambda part: None, numbered(7))
    assert [(stage.name, stage.count, stage.total) for stage in steps] == [("reading rows", 7, 7)]


@ENGINES
def test_an_error_in_a_part_comes_as_it_was_raised(engine):
    def fail(part):
        try:
            raise KeyError("reason")
        except KeyError:
            raise PartError(f"{part.name}: cannot be read.") from None

    with pytest.raises(PartError) as caught:
        engine.map(fail, numbered(1))
    assert str(caught.value) == "part 0: cannot be read."
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None


def test_a_client_must_return_one_result_for_each_part():
    with pytest.raises(
        ValueError, match=r"^client: its map returned 4 results for 5 parts; it must return one for each\.$"
    ):
        Workers(Forgetful()).map(str, numbered(5))
    with pytest.raises(ValueError, match=r"^client: its map returned 5 results for 5 parts"):
        Workers(Forgetful(twice=True)).map(str, numbered(5))


def test_a_process_that_dies_is_told_in_one_line():
    message = r"^client: a process of the executor died while it read a part; .*part_rows=\)\.$"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as executor, pytest.raises(RuntimeError, match=message):
        Workers(executor).map(lambda part: os._exit(1), numbered(2))


# -- what is sent ------------------------------------------------------------------------------------------------
def test_a_task_sends_its_function_packed_and_unpacks_it_once():
    task = Task(lambda part: (part, random.random()))
    copy = pickle.loads(pickle.dumps(task))
    assert copy.payload == task.payload and copy.function is None
    assert copy(1)[0] == 1
    function = copy.function
    copy(2)
    assert copy.function is function
    assert pickle.loads(pickle.dumps(copy)).function is None


def test_a_task_uses_one_core():
    def look(part):
        return [library["num_threads"] for library in threadpool_info()], n_threads(None)

    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        limits, cores = Task(look)(None)
        after = [library["num_threads"] for library in threadpool_info()]
    assert set(limits) == {1} and cores == 1
    assert before == after


@pytest.mark.parametrize("engine", ["thread pool", "processes"], indirect=True)
def test_what_cannot_be_sent_is_named(engine):
    lock = threading.Lock()
    message = r"^client: {} cannot be sent to another process \(cannot pickle '_thread.lock' object\); give functi"
    with pytest.raises(ValueError, match=message.format("what is asked of the rows")):
        engine.map(lambda part: lock, numbered(2))
    with pytest.raises(ValueError, match=message.format("source 7")):
        engine.map(str, [BatchPart(lambda: lock, 1, 0, "source 7")])


@ENGINES
def test_sources_may_be_closures(engine):
    numbers = [1, 2, 3]
    assert list(engine.map(lambda part: part.source(), [BatchPart(lambda: numbers, 1, 0, "a")])) == [numbers]


def test_packing_functions_needs_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ImportError, match=r'^client= needs cloudpickle: pip install "optfair\[dask\]"$'):
        Task(str)


# -- which engine ------------------------------------------------------------------------------------------------
def test_the_engine_of_a_client():
    assert isinstance(as_engine(None), Threads)
    executor = ThreadPoolExecutor(1)
    workers = as_engine(executor)
    assert isinstance(workers, Workers) and workers.client is executor
    assert as_engine(workers) is workers
    with pytest.raises(
        ValueError, match=r"^client: is a str; must be a Dask client, an executor, or an object with a m"
    ):
        as_engine("tcp://scheduler:8786")


@pytest.mark.parametrize("patience", [0, -1, "long", float("nan")])
def test_patience_is_a_positive_number(patience):
    with pytest.raises(ValueError, match=r"^patience=.*: must be a positive number"):
        DaskWorkers(None, patience)


@pytest.mark.parametrize(
    "cause, filesystem, passes",
    [
        (OSError(5, "Input/output error"), None, True),
        (TimeoutError(110, "timed out"), None, True),
        (OSError("Unexpected end of stream"), None, False),
        (OSError("AWS Error NETWORK_CONNECTION"), "s3", True),
        (ValueError("Couldn't deserialize thrift"), "s3", False),
        (None, "s3", False),
    ],
)
def test_which_errors_are_worth_another_try(cause, filesystem, passes):
    class Remote:
        pass

    part, error = Remote(), PartError("x")
    part.filesystem = filesystem
    error.__context__ = cause
    assert may_pass(error, part) is passes


# -- solving -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_executors_solve_as_threads_do_bit_by_bit(folder, processes, criterion):
    files = optfair.read_parquet(folder, weight="w", part_rows=N // 10)
    rule = optfair.solve(files, criterion, 0.01, n_jobs=1)
    assert rule.certificate.gap <= 1e-3 and rule.certificate.excess == 0
    with ThreadPoolExecutor(2) as threads:
        for client in (threads, processes, Backwards()):
            assert_same(rule, optfair.solve(files, criterion, 0.01, client=client))
    assert_same(rule, optfair.solve(files.on(processes), criterion, 0.01))
    assert_same(rule, optfair.solve(files, criterion, 0.01, n_jobs=2))


def test_a_file_that_is_no_parquet_is_named(folder, processes, tmp_path):
    rows = write_rows(tmp_path / "scores", files=2, n=1000)
    files = optfair.read_parquet(rows)
    path = rows / "1.parquet"
    state = path.stat()
    path.write_bytes(path.read_bytes()[:-8] + b"no footer"[:8])
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    for client in (None, processes):
        with pytest.raises(PartError, match=rf"^{path}, row groups 0 to 3: cannot be read \(") as caught:
            optfair.solve(files, "dp", client=client)
        assert "\n" not in str(caught.value)
