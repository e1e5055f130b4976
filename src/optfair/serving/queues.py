"""Hold what waits for the model: no more than can be answered in time, and only as long as somebody waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optfair.serving.replies import Question


@dataclass(frozen=True, eq=False)
class Job:
    """Work for the thread of a model, and where its result is awaited."""

    work: Question | Callable[[], Any]
    future: asyncio.Future[Any]

    @property
    def size(self) -> int:
        """Return the bytes of the body; other work has none."""
        return len(self.work.content) if isinstance(self.work, Question) else 0

    @property
    def is_awaited(self) -> bool:
        """Tell whether somebody waits for the result: the client is there, and was not told to come again."""
        return not self.future.done()


class JobQueue:
    """Jobs in the order in which they came. most : that may wait. Whoever uses it from two threads holds a lock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job, first: bool = False) -> None:
        """Let a job wait. first : before the others."""
        (self._jobs.appendleft if first else self._jobs.append)(job)

    def is_full(self) -> bool:
        """Tell whether as many wait as may; those that nobody waits for any more do not count, and go."""
        if len(self._jobs) >= self.most:
            self._jobs = deque(job for job in self._jobs if job.is_awaited)
        return len(self._jobs) >= self.most

    def take(self, most: int, n_bytes: int) -> list[Job]:
        """Return the next jobs that somebody waits for: at most so many, of so many bytes together, but for the first.

        Those that nobody waits for go.
        """
        jobs: list[Job] = []
        while self._jobs and len(jobs) < most:
            job = self._jobs[0]
            if job.is_awaited:
                n_bytes -= job.size
                if jobs and n_bytes < 0:
                    break
                jobs.append(job)
            self._jobs.popleft()
        return jobs
