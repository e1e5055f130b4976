"""Count requests and answers for Prometheus, in a registry of its own: two services of a process do not add up.

No label has values that a client chooses: paths, classes and groups are those of the service and the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
OTHER_PATH = "(other)"
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Counters:
    """What a service counts. paths, classes : names that requests and answers are counted under. model : its facts."""

    def __init__(self, paths: Iterable[str], classes: Iterable[str], model: Mapping[str, str]) -> None:
        self.registry = CollectorRegistry()
        self.paths = frozenset(paths)
        options: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter(
            "optfair_requests", "Requests by path and status; 0 where the client left.", ["path", "status"], **options
        )
        self._seconds = Histogram(
            "optfair_request_seconds", "Seconds from a request to its answer.", ["path"], buckets=SECONDS, **options
        )
        self._answers = Counter("optfair_answers", "People answered, by class.", ["answer"], **options)
        self._undecided = Counter("optfair_undecided", "People of whom no class had 99 %: they were drawn.", **options)
        self._refused = Counter("optfair_refused_connections", "Connections beyond the most at a time.", **options)
        self._by_group = Counter(
            "optfair_group_answers", "People whose group was given, by group and class.", ["group", "answer"], **options
        )
        self._batches = Histogram(
            "optfair_batch_requests", "Requests that the model answered together.", buckets=SIZES, **options
        )
        self._waiting = Gauge("optfair_waiting_requests", "Requests that wait for the model.", **options)
        ProcessCollector(registry=self.registry)
        Info("optfair_model", "The model that answers.", **options).info(dict(model))
        for name in classes:
            self._answers.labels(name)  # so that a class that nobody gets is seen to be at 0

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        label = path if path in self.paths else OTHER_PATH
        self._requests.labels(label, str(status)).inc()
        self._seconds.labels(label).observe(seconds)

    def count_answer(self, name: str, is_undecided: bool, group: str | None) -> None:
        """Count the answer for a person. group : None where it was not given."""
        self._answers.labels(name).inc()
        if is_undecided:
            self._undecided.inc()
        if group is not None:
            self._by_group.labels(group, name).inc()

    def count_refused(self) -> None:
        """Count a connection that was turned away."""
        self._refused.inc()

    def count_batch(self, n_requests: int) -> None:
        """Count requests that were answered together."""
        self._batches.observe(n_requests)

    def watch_queue(self, waiting: Any) -> None:
        """Tell how many requests wait, by a function."""
        self._waiting.set_function(waiting)

    def text(self) -> bytes:
        """Return everything as Prometheus reads it."""
        content: bytes = generate_latest(self.registry)
        return content
