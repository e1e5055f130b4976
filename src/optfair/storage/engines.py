"""Map a function over parts of rows: on threads, in the processes of an executor, or on the workers of a cluster.

An *engine* has one method, ``map(function, parts)``, which returns the results in the order of the parts. Functions and
results are small. Whoever has one brings another cluster in: docs/guide/large_data.md has those of Ray and Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any, Protocol

from optfair.storage.dask_workers import DaskWorkers
from optfair.storage.parts import Part, PartError
from optfair.storage.tasks import READING, Task, count_rows, packed_part
from optfair.utils.parallel import map_items
from optfair.utils.progress import stage

__all__ = ["DaskWorkers", "Engine", "Threads", "Workers", "as_engine"]


class Engine(Protocol):
    """Whatever maps functions over parts, in order."""

    def map(self, function: Callable[[Any], Any], parts: Sequence[Any]) -> Iterable[Any]:
        """Return ``function(part)`` of every part, in order."""


class Threads:
    """An engine of threads of this process; they decode and compute outside of Python's lock."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs

    def map(self, function: Callable[[Part], Any], parts: Sequence[Part]) -> list[Any]:
        """Return ``function(part)`` of every part, in order."""
        with stage(READING, count_rows(parts), unit="rows") as work:

            def counted(part: Part) -> Any:
                result = function(part)
                work.advance(part.n or 0)
                return result

            return map_items(counted, parts, self.n_jobs)


class Numbered:
    """A task for numbered parts, whose results are numbered too."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def __call__(self, item: tuple[int, bytes]) -> tuple[int, Any]:
        """Return the number of a part and the result for it."""
        return item[0], self.task(pickle.loads(item[1]))


class Workers:
    """An engine of processes behind anything with a ``map``: executors, or an adapter of the user's.

    Results are put in order by their numbers, so that a client that mixes them up changes nothing.
    """

    def __init__(self, client: Engine) -> None:
        self.client = client

    def map(self, function: Callable[[Part], Any], parts: Sequence[Part]) -> list[Any]:
        """Return ``function(part)`` of every part, in order."""
        results: dict[int, Any] = {}
        n_results, items = 0, [(k, packed_part(part)) for k, part in enumerate(parts)]
        with stage(READING, count_rows(parts), unit="rows") as work:
            try:
                for k, result in self.client.map(Numbered(Task(function)), items):
                    results[k], n_results = result, n_results + 1
                    work.advance(parts[k].n or 0)
            except PartError as error:
                raise error.with_traceback(None) from None
            except BrokenExecutor:
                raise RuntimeError(
                    "client: a process of the executor died while it read a part; it may need more memory, or smaller "
                    "parts (part_rows=)."
                ) from None
        if len(results) != len(parts) or n_results != len(parts):
            raise ValueError(
                f"client: its map returned {n_results} results for {len(parts)} parts; it must return one for each."
            )
        return [results[k] for k in range(len(parts))]


def as_engine(client: Any, n_jobs: int | None = None) -> Engine:
    """Return the engine of a client: a Dask client, an executor, anything with a ``map``; None: threads."""
    if client is None:
        return Threads(n_jobs)
    if not callable(getattr(client, "map", None)):
        raise ValueError(
            f"client: is a {type(client).__name__}; must be a Dask client, an executor, or an object with a method "
            "map(function, parts)."
        )
    if hasattr(client, "gather") and hasattr(client, "scheduler"):
        return DaskWorkers(client)
    return client if isinstance(client, (Threads, Workers, DaskWorkers)) else Workers(client)
