"""Map a function over parts of rows on the workers of a Dask cluster, which may die, and come back or not."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from optfair.errors import brief_text, need_extra
from optfair.storage.parts import Part, PartError
from optfair.storage.tasks import READING, Task, count_rows, packed_part
from optfair.utils.checks import check_number
from optfair.utils.progress import stage

PATIENCE = 60.0  # seconds that a cluster may be without workers
RETRIES = 2  # of a part whose reading failed: networks do fail for a moment
INLINE_BYTES = 1 << 18  # of a function that travels with every part; a larger one is sent to the cluster once
PAUSE, QUESTION = 0.1, 1.0  # seconds between looks at what has arrived, and between questions to a silent scheduler


# -- on the workers ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Failure:
    """An error that another try would meet again."""

    error: PartError


def read_part(payload: bytes, task: Task) -> Any:
    """Apply a task to a part on a worker of Dask, which tries again what raises: final errors are returned instead."""
    part = pickle.loads(payload)
    try:
        return task(part)
    except PartError as error:
        if may_pass(error, part):
            raise
        return Failure(error)


def may_pass(error: PartError, part: Any) -> bool:
    """Tell whether an error may be one of the network or of a machine, and not of what a file holds."""
    cause = error.__context__
    # Errors of the operating system have a number; what cannot be decoded is an OSError of pyarrow without one.
    return isinstance(cause, OSError) and (cause.errno is not None or getattr(part, "filesystem", None) is not None)


def pass_on(task: Task) -> Task:
    """Return a task: workers that need it get it from each other, and one that dies has it sent again."""
    return task


# -- on this side ------------------------------------------------------------------------------------------------
class DaskWorkers:
    """An engine of the workers of a Dask cluster; give it as ``client=`` where a setting of it is to be changed.

    Results are collected as they come, and nothing is kept on workers: a part that was lost with its worker is read
    again by another one. Whatever ends a call, what it has asked of the cluster is taken back.

    Parameters
    ----------
    client : dask.distributed.Client
        One that waits, connected to the scheduler.
    patience : float, default 60
        Seconds that the cluster may be without workers before the call ends with a RuntimeError.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> from optfair.storage.engines import DaskWorkers
    >>> workers = DaskWorkers(Client("tcp://scheduler:8786"), patience=600)  # doctest: +SKIP
    """

    def __init__(self, client: Any, patience: float = PATIENCE) -> None:
        check_client(client)
        self.client, self.patience = client, check_number("patience", patience, "(0, inf)")

    def map(self, function: Callable[[Part], Any], parts: Sequence[Part]) -> list[Any]:
        """Return ``function(part)`` of every part, in order."""
        check_client(self.client)
        task = Task(function)
        copies = [task] if len(task.payload) <= INLINE_BYTES else self._send(task, len(parts))
        tasks = [copies[k % len(copies)] for k in range(len(parts))]
        payloads = [packed_part(part) for part in parts]
        futures = self.client.map(read_part, payloads, tasks, pure=False, retries=RETRIES)
        try:
            return self._collect(futures, parts)
        except BaseException:
            with suppress(Exception):  # of a client that was closed meanwhile: the scheduler forgets what it asked for
                self.client.cancel([*futures, *(copy for copy in copies if copy is not task)])
            raise

    def _send(self, task: Task, n_parts: int) -> list[Any]:
        """Return futures of a task that is sent once, and which workers get from each other."""
        config = need_extra("dask.config", "client=")
        with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):  # it advises what is done here
            first = self.client.submit(pass_on, task, pure=False)
        threads = running_threads(self.client)
        if not threads or n_parts > 2 * sum(threads.values()):
            return [first]
        # So few parts would queue up where the task is; 32 on 16 workers took twice as long.
        options = {"allow_other_workers": True, "pure": False}
        return [self.client.submit(pass_on, first, workers=[address], **options) for address in threads]

    def _collect(self, futures: Sequence[Any], parts: Sequence[Part]) -> list[Any]:
        """Wait for all results; an error is that of the first part that has one, as on threads."""
        distributed = need_extra("distributed", "client=")
        arrivals = distributed.as_completed(futures, self.client.loop, with_results=True, raise_errors=False)
        number = {future.key: k for k, future in enumerate(futures)}
        results: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}
        pending, vigil = set(range(len(parts))), Vigil(self.client, self.patience)
        with stage(READING, count_rows(parts), unit="rows") as work:
            while pending:
                batch = arrivals.next_batch(block=False)
                for future, result in batch:
                    k = number[future.key]
                    error = _error(future, result, parts[k])
                    if error is None:
                        results[k] = result
                        work.advance(parts[k].n or 0)
                        pending.discard(k)
                    else:
                        errors[k] = error
                        pending = {earlier for earlier in pending if earlier < k}
                if batch:
                    vigil.renew()
                elif pending:
                    vigil.check([futures[k] for k in pending])
                    with arrivals.thread_condition:
                        arrivals.thread_condition.wait(PAUSE)
        if errors:
            raise errors[min(errors)]
        return [results[k] for k in range(len(parts))]


class Vigil:
    """Watches a cluster that is silent, and gives up where nothing can come any more."""

    def __init__(self, client: Any, patience: float) -> None:
        self.client, self.patience = client, patience
        self.renew()

    def renew(self) -> None:
        """Begin to wait anew: the cluster works."""
        self.latest = self.question = time.monotonic()

    def check(self, futures: Sequence[Any]) -> None:
        """Raise a RuntimeError where the scheduler is gone, or where there were no workers for too long."""
        if self.client.status == "closed" or any(future.cancelled() for future in futures):
            raise _lost()
        if time.monotonic() - self.question < QUESTION:
            return
        if running_threads(self.client):
            self.renew()
        elif time.monotonic() - self.latest > self.patience:
            raise RuntimeError(
                f"client: the cluster has had no workers that run for {self.patience:g} seconds; start some and call "
                "again."
            )
        self.question = time.monotonic()


def running_threads(client: Any) -> dict[str, int]:
    """Return the threads of each worker that runs; none where the scheduler does not answer."""
    if client.status != "running":
        return {}
    try:
        return dict(client.sync(client.scheduler.ncores_running, callback_timeout=5 * QUESTION))
    except (OSError, TimeoutError):
        return {}


def _error(future: Any, result: Any, part: Part) -> BaseException | None:
    """Return the error that a future brought, in one line where its reason is known; None if it brought a result."""
    if isinstance(result, Failure):
        return result.error
    if future.status == "cancelled":
        return _lost()
    if future.status != "error":
        return None
    error: BaseException = result[1]
    name = getattr(part, "name", "a part")
    if isinstance(error, PartError):
        return error.with_traceback(None)
    if isinstance(error, need_extra("distributed", "client=").KilledWorker):
        return RuntimeError(
            f"client: {name}: the workers that read it were killed, one after the other; they may need more "
            "memory, or smaller parts (part_rows=)."
        )
    if isinstance(error, ImportError):
        return RuntimeError(
            f"client: a worker cannot import what it needs ({brief_text(error)}); install the same packages there."
        )
    error.add_note(f"This happened while a worker read {name}.")
    return error.with_traceback(result[2])


def _lost() -> RuntimeError:
    return RuntimeError(
        "client: the scheduler is gone, or has forgotten what was asked of it; connect a client to one that runs and "
        "call again."
    )


def check_client(client: Any) -> None:
    """Refuse a client that cannot be waited for."""
    if getattr(client, "asynchronous", False):
        raise ValueError("client: is asynchronous; give one that waits, Client(address).")
    if getattr(client, "status", None) in ("closing", "closed"):
        raise ValueError("client: is closed; connect another one, Client(address).")
