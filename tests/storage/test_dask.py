"""Rows in files on a real Dask cluster: the answer of threads bit by bit, also where workers are killed."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
import warnings

import pytest

distributed = pytest.importorskip("distributed", reason="the cluster is one of Dask")
pytest.importorskip("pyarrow", reason="rows are in Parquet files")

import optfair  # noqa: E402
from optfair.storage.dask_workers import INLINE_BYTES, DaskWorkers, Vigil  # noqa: E402
from optfair.storage.engines import Threads, as_engine  # noqa: E402
from optfair.storage.parts import BatchPart, PartError  # noqa: E402
from tests.storage.clusters import (  # noqa: E402
    NAMES,
    BareCluster,
    N,
    assert_same,
    numbered,
    once,
    sent_bytes,
    within,
    write_rows,
)

LARGE = 4 * INLINE_BYTES  # bytes of a function that is sent to the cluster once


def local_cluster():
    options = {"processes": True, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    return distributed.LocalCluster(**options, silence_logs=logging.CRITICAL)


@pytest.fixture(scope="module")
def cluster():
    """Return the cluster of the tests that leave its workers alive."""
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def workers(client):
    return DaskWorkers(client)


@pytest.fixture
def mortal_cluster():
    """Return a cluster of one test: where machines are busy, Dask may not bring back a worker that was killed."""
    with local_cluster() as cluster:
        yield cluster


@pytest.fixture
def mortal_workers(mortal_cluster):
    with distributed.Client(mortal_cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield DaskWorkers(client)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows") / "scores")


def is_clean(cluster):
    """Tell whether the scheduler has been asked for nothing, or has forgotten it soon."""
    return within(30, lambda: not cluster.scheduler.tasks)


# -- the same answer ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_a_cluster_solves_as_threads_do_bit_by_bit(folder, client, cluster, criterion):
    files = optfair.read_parquet(folder, weight="w", part_rows=N // 10)
    rule = optfair.solve(files, criterion, 0.01)
    assert rule.certificate.gap <= 1e-3 and rule.certificate.excess == 0
    assert_same(rule, optfair.solve(files, criterion, 0.01, client=client))
    assert_same(rule, optfair.solve(files.on(DaskWorkers(client, patience=5)), criterion, 0.01))
    assert is_clean(cluster)


def test_a_frontier_is_that_of_threads(folder, client):
    files = optfair.read_parquet(folder, part_rows=N // 4)
    path, other = (optfair.frontier(files, "dp", [0.05, 0.01], client=engine) for engine in (None, client))
    for rule, twin in zip(path.rules, other.rules, strict=True):
        assert_same(rule, twin)
    assert path.table.drop(columns="seconds").equals(other.table.drop(columns="seconds"))


@pytest.mark.parametrize("size", [0, LARGE])
def test_results_are_in_the_order_of_the_parts_whoever_is_first(workers, size):
    ballast = os.urandom(size)

    def late(part):
        time.sleep(0.1 * (part.start % 2 == 0))
        return part.start, len(ballast)

    assert workers.map(late, numbered(6)) == Threads(1).map(late, numbered(6)) == [(k, size) for k in range(6)]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads peaks of memory as Linux tells them")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Ten times the rows, 288 MB of Z, in the same memory of the driver and of a worker."""

    def forget_peak():
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def peak():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000

    few, many = (write_rows(tmp_path / f"{files}", 400_000 * files, files) for files in (1, 10))
    options = {"processes": True, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    peaks = []
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        for folder in (few, few, many):  # the first one is to have everything loaded
            client.run(forget_peak), forget_peak()
            optfair.solve(optfair.read_parquet(folder, part_rows=200_000), "dp", 0.01, client=client)
            peaks.append((peak(), *client.run(peak).values()))
    print("peaks of driver and worker, MB:", peaks)
    for small, large in zip(peaks[1], peaks[2], strict=True):
        assert large < small + 60


# -- what travels ------------------------------------------------------------------------------------------------
@pytest.mark.skipif(sys.platform != "linux", reason="counts the bytes of sockets as Linux tells them")
@pytest.mark.parametrize("n_parts", [50, 4])
def test_a_large_function_is_sent_once(workers, cluster, n_parts):
    ballast = os.urandom(20_000_000)

    def size(part):
        return len(ballast), os.getpid()

    before = sent_bytes()  # of this process: from the client to the scheduler, and from there to the workers
    results = workers.map(size, numbered(n_parts))
    assert [n for n, _ in results] == [len(ballast)] * n_parts
    assert is_clean(cluster)
    assert 2 * len(ballast) <= sent_bytes() - before < 2.05 * len(ballast)


def test_few_parts_are_shared_out_though_a_large_function_is_where_it_was_sent(workers):
    ballast = os.urandom(LARGE)

    def process(part):
        time.sleep(0.2)
        return os.getpid(), len(ballast)

    processes = [pid for pid, _ in workers.map(process, numbered(4))]
    assert sorted(processes.count(pid) for pid in set(processes)) == [2, 2]


def test_workers_compute_on_one_core(workers):
    from optfair.utils.parallel import n_threads

    assert set(workers.map(lambda part: n_threads(None), numbered(4))) == {1}


# -- workers that die --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, LARGE])
def test_a_worker_that_is_killed_changes_nothing(mortal_workers, mortal_cluster, tmp_path, size):
    """Where few parts share a large function, its copies die with the worker too."""
    ballast, flag = os.urandom(size), tmp_path / "killed"

    def deadly(part):
        if part.start == 3 and once(flag):
            os.kill(os.getpid(), signal.SIGKILL)
        return part.start, len(ballast)

    assert mortal_workers.map(deadly, numbered(4 if size else 12)) == [(k, size) for k in range(4 if size else 12)]
    assert flag.exists() and is_clean(mortal_cluster)


@pytest.mark.slow
def test_a_large_function_survives_the_worker_that_it_was_sent_to(mortal_workers, mortal_cluster, tmp_path):
    ballast, flag = os.urandom(LARGE), tmp_path / "killed"

    def slow(part):
        time.sleep(0.05)
        return part.start, len(ballast)

    def kill():
        def has_function():
            return [
                task for task in list(mortal_cluster.scheduler.tasks.values()) if "pass_on" in task.key and task.who_has
            ]

        assert within(10, has_function)
        (task,) = has_function()
        holders = {worker.address for worker in task.who_has}
        pids = mortal_workers.client.run(os.getpid, workers=list(holders))
        flag.touch()
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    assert mortal_workers.map(slow, numbered(60)) == [(k, LARGE) for k in range(60)]
    thread.join()
    assert flag.exists()


def test_a_solve_survives_a_killed_worker(mortal_workers, tmp_path):
    """The third reading of the second part kills its worker, in the middle of the solve."""
    import pyarrow

    from tests.problems import blind

    driver, rows, flags = os.getpid(), 20_000, [tmp_path / name for name in ("first", "second", "killed")]

    def source(k):
        def batches():
            if k == 1 and os.getpid() != driver and next(filter(once, flags), None) == flags[2]:
                os.kill(os.getpid(), signal.SIGKILL)
            columns = blind(k, rows, 3, 3).reshape(-1, 9).T
            return [pyarrow.record_batch(list(columns), NAMES)]

        return batches

    files = optfair.read_batches([source(k) for k in range(4)])
    rule = optfair.solve(files, "dp", 0.01)
    assert_same(rule, optfair.solve(files, "dp", 0.01, client=mortal_workers))
    assert (tmp_path / "killed").exists()


@pytest.mark.slow
def test_a_part_that_kills_its_workers_is_named(mortal_workers, mortal_cluster):
    def deadly(part):
        if part.start == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return part.start

    message = r"^client: part 2: the workers that read it were killed, one after the other; .*part_rows=\)\.$"
    with pytest.raises(RuntimeError, match=message):
        mortal_workers.map(deadly, numbered(8))
    assert is_clean(mortal_cluster)
    mortal_workers.client.wait_for_workers(1, timeout=60)
    assert mortal_workers.map(lambda part: part.start, numbered(3)) == [0, 1, 2]


def test_a_cluster_without_workers_is_given_up_and_may_come_back(tmp_path):
    started = tmp_path / "started"

    def slow(part):
        started.touch()
        time.sleep(0.2)
        return part.start

    def kill_all():
        assert within(60, started.exists)
        bare.kill(bare.workers)

    with BareCluster(tmp_path, 2) as bare, distributed.Client(bare.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        threads = set(threading.enumerate())
        thread = threading.Thread(target=kill_all)
        thread.start()
        with pytest.raises(RuntimeError, match=r"^client: the cluster has had no workers that run for 1 sec"):
            DaskWorkers(client, patience=1).map(slow, numbered(40))
        thread.join()
        assert set(threading.enumerate()) <= threads  # none of ours is left
        bare.add(1)
        assert DaskWorkers(client).map(slow, numbered(3)) == [0, 1, 2]
        assert within(30, lambda: not client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def test_a_scheduler_that_is_killed_is_told(tmp_path):
    started = tmp_path / "started"

    def slow(part):
        started.touch()
        time.sleep(0.2)

    def kill_scheduler():
        assert within(60, started.exists)
        bare.kill([bare.scheduler])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Dask leaves the socket of a lost scheduler to the collector
        with BareCluster(tmp_path, 1) as bare, distributed.Client(bare.address, set_as_default=False) as client:
            thread = threading.Thread(target=kill_scheduler)
            thread.start()
            with pytest.raises(RuntimeError, match=r"^client: the scheduler is gone, or has forgotten what was asked"):
                DaskWorkers(client).map(slow, numbered(40))
            thread.join()
        gc.collect()


def test_workers_that_are_paused_do_not_count(workers, cluster):
    """Dask pauses workers that run out of memory."""

    def pause_at(dask_worker, share):
        dask_worker.memory_manager.memory_pause_fraction = share

    workers.client.run(pause_at, share=1e-9)
    try:
        assert within(10, lambda: not cluster.scheduler.running)
        with pytest.raises(RuntimeError, match=r"^client: the cluster has had no workers that run for 0\.5 seconds"):
            DaskWorkers(workers.client, patience=0.5).map(str, numbered(2))
    finally:
        workers.client.run(pause_at, share=0.8)
    assert is_clean(cluster)
    assert workers.map(lambda part: part.start, numbered(3)) == [0, 1, 2]


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_given_up(tmp_path):
    with BareCluster(tmp_path, 1) as bare, distributed.Client(bare.address, set_as_default=False) as client:
        client.wait_for_workers(1)
        bare.scheduler.send_signal(signal.SIGSTOP)
        try:
            for size in (0, LARGE):
                ballast = os.urandom(size)
                begin = time.monotonic()
                with pytest.raises(RuntimeError, match=r"^client: the cluster has had no workers that run for 1 sec"):
                    DaskWorkers(client, patience=1).map(lambda part, ballast=ballast: len(ballast), numbered(3))
                assert time.monotonic() - begin < 20
        finally:
            bare.scheduler.send_signal(signal.SIGCONT)
        assert DaskWorkers(client).map(lambda part: part.start, numbered(3)) == [0, 1, 2]


@pytest.mark.parametrize("end", [lambda client: client.restart(wait_for_workers=False), lambda client: client.close()])
def test_a_request_that_somebody_ends_is_told(mortal_workers, mortal_cluster, tmp_path, end):
    started = tmp_path / "started"

    def slow(part):
        started.touch()
        time.sleep(0.1)

    def end_soon():
        assert within(60, started.exists)
        end(mortal_workers.client)

    thread = threading.Thread(target=end_soon)
    thread.start()
    with pytest.raises(RuntimeError, match=r"^client: the scheduler is gone, or has forgotten what was asked of it"):
        mortal_workers.map(slow, numbered(100))
    thread.join()
    assert is_clean(mortal_cluster)


def test_a_silent_cluster_is_looked_at(workers):
    """Where Dask gave up on a request, and told nobody."""
    future = workers.client.submit(str, 0, resources={"that nobody has": 1}, pure=False)
    vigil = Vigil(workers.client, 5)
    vigil.check([future])
    future.cancel()
    with pytest.raises(RuntimeError, match=r"^client: the scheduler is gone, or has forgotten what was asked of it"):
        vigil.check([future])


# -- errors ------------------------------------------------------------------------------------------------------
def attempts(path):
    """Return a function that counts how often it was called, in any process."""

    def count():
        k = 0
        while not once(path / f"{k}"):
            k += 1
        return k

    return count


def test_an_error_of_the_content_comes_once_and_as_it_was_raised(workers, cluster, tmp_path):
    count = attempts(tmp_path)

    def fail(part):
        if part.start == 3:
            count()
            raise PartError("rows.parquet, row group 3: column 'w' must hold finite numbers of at least 0.")
        return part.start

    with pytest.raises(PartError) as caught:
        workers.map(fail, numbered(8))
    assert str(caught.value) == "rows.parquet, row group 3: column 'w' must hold finite numbers of at least 0."
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert len(list(tmp_path.iterdir())) == 1
    assert caught.traceback[-1].path.name == "dask_workers.py"  # not a line of the worker, nor of Dask
    assert is_clean(cluster)


def test_the_first_of_several_errors_is_raised(workers):
    def fail(part):
        time.sleep(0.3 * (part.start == 2))
        if part.start >= 2:
            raise PartError(f"{part.name}: cannot be read.")

    with pytest.raises(PartError, match=r"^part 2: cannot be read\.$"):
        workers.map(fail, numbered(6))


def test_files_that_change_or_break_are_named(folder, client, tmp_path):
    rows = write_rows(tmp_path / "scores")
    files = optfair.read_parquet(rows)
    path = rows / "2.parquet"
    content, state = path.read_bytes(), path.stat()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    with pytest.raises(PartError, match=rf"^{path}: has changed since it was first read; leave files alone"):
        optfair.solve(files, "dp", client=client)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(PartError, match=rf"^{path}, row groups 0 to 3: cannot be read \(") as caught:
        optfair.solve(files, "dp", client=client)
    assert "\n" not in str(caught.value)


def test_a_disk_that_fails_for_a_moment_is_read_again(workers, tmp_path):
    import pyarrow

    def flaky():
        if once(tmp_path / "failed"):
            raise OSError(5, "Input/output error")
        return [pyarrow.record_batch([[1.0, 2.0]], ["x"])]

    parts = [BatchPart(flaky, 2, 0, "a")]
    sums = workers.map(lambda part: sum(batch.column(0).to_numpy().sum() for batch in part.batches(["x"])), parts)
    assert sums == [3.0] and (tmp_path / "failed").exists()


def test_an_unknown_error_says_which_part_it_was(workers):
    def fail(part):
        return 1 / (part.start - 1)

    with pytest.raises(ZeroDivisionError) as caught:
        workers.map(fail, numbered(3))
    assert caught.value.__notes__ == ["This happened while a worker read part 1."]
    assert caught.traceback[-1].name == "fail"  # on the worker


def test_a_module_that_workers_lack_is_named(workers, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def function(part):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    message = r"^client: a worker cannot import what it needs \(No module named 'only_here'\); install the same pack"
    with pytest.raises(RuntimeError, match=message):
        workers.map(only_here.function, numbered(2))


def test_control_c_takes_back_what_was_sent(workers, cluster, tmp_path):
    def slow(part):
        (tmp_path / part.name).touch()
        time.sleep(0.1)

    def n_started():
        return len(list(tmp_path.iterdir()))

    def interrupt():
        assert within(60, lambda: n_started() > 5)
        os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    thread = threading.Thread(target=interrupt)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background may ignore it
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            workers.map(slow, numbered(1000))
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert is_clean(cluster) and n_started() < 500


# -- clients -----------------------------------------------------------------------------------------------------
def test_clients_that_cannot_be_waited_for_are_refused(cluster, folder):
    async def asynchronous():
        async with distributed.Client(cluster.scheduler_address, asynchronous=True, set_as_default=False) as client:
            with pytest.raises(ValueError, match=r"^client: is asynchronous; give one that waits, Client\(a"):
                as_engine(client)

    asyncio.run(asynchronous())
    client = distributed.Client(cluster, set_as_default=False)
    workers = DaskWorkers(client)
    client.close()
    message = r"^client: is closed; connect another one, Client\(address\)\.$"
    with pytest.raises(ValueError, match=message):
        optfair.solve(optfair.read_parquet(folder), "dp", client=client)
    with pytest.raises(ValueError, match=message):
        workers.map(str, numbered(1))


def test_no_parts_need_no_cluster(workers):
    assert workers.map(str, []) == []
