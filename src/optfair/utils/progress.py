"""Say how far long work has come, where somebody looks.

`stage` opens a piece of work, with its number of steps where that is known; `tick` counts a step of the stage under
way, from however deep inside. Whether somebody looks is said once, at the door, by `show_progress` (`display`). Where
nobody does, a stage costs a look at one variable. That variable belongs to a thread: what other threads do for a stage
they count in it if they call a function that is `carried`. Nothing of it reaches another process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any


class Stage:
    """A piece of work under way.

    name : what is done. total : how many steps it has, or None. count : how many are over; the ``first`` of them were
    when it was opened. unit : of steps, where the name does not say it. facts : numbers that say how it goes. inner :
    stages that are open within it, the last of them is the one to show.
    """

    def __init__(self, name: str, total: int | None = None, count: int = 0, unit: str = "") -> None:
        self.name, self.total, self.count, self.first, self.unit = name, total, count, count, unit
        self.start = self.latest = time.monotonic()  # when it was opened, and when a step was counted
        self.facts, self.inner, self.lock = dict[str, float](), list[Stage](), threading.Lock()

    def advance(self, steps: int = 1, **facts: float) -> None:
        """Count steps that are over, and say how it goes."""
        with self.lock:
            self._set(self.count + steps)
            self.facts.update(facts)

    def reach(self, count: int) -> None:
        """Say how many steps are over, unless more were counted already."""
        with self.lock:
            self._set(max(count, self.count))

    def _set(self, count: int) -> None:
        if count > self.count:
            self.count, self.latest = count, time.monotonic()

    def open(self, inner: Stage) -> None:
        """Begin a stage within this one."""
        self.inner.append(inner)

    def close(self, inner: Stage) -> None:
        """End a stage within this one."""
        self.inner.remove(inner)

    def seconds_left(self) -> float | None:
        """Return steps left · mean seconds of those so far − seconds since the latest; None where that says nothing.

        It says nothing before the first step, and once steps take longer than they did so far.
        """
        steps = self.count - self.first
        if self.total is None or steps <= 0:
            return None
        expected = (self.latest - self.start) / steps * max(self.total - self.count, 0)
        waiting = time.monotonic() - self.latest
        return expected - waiting if waiting <= expected else None

    def rate(self) -> float | None:
        """Return steps a second until the latest one; None before it."""
        steps, seconds = self.count - self.first, self.latest - self.start
        return steps / seconds if steps > 0 and seconds > 0 else None

    def text(self) -> str:
        """Return what is done, how many of how many, how it goes and how long it may take."""
        with self.lock:
            count, facts, left, rate = self.count, dict(self.facts), self.seconds_left(), self.rate()
        parts = [f"step {count:,}"] if self.total is None and count else []
        parts += [] if self.total is None else [f"{count:,} of {self.total:,} {self.unit}".rstrip()]
        parts += [f"{name.replace('_', ' ')} {number:.3g}" for name, number in facts.items()]
        parts += [f"{rate:,.0f} a second"] if self.unit == "rows" and rate is not None else []
        seconds = time.monotonic() - self.start
        parts.append(f"about {duration(left)} left" if left is not None else f"{duration(seconds)} so far")
        return f"{self.name}: {', '.join(parts)}"


class _Silence(Stage):
    """The stage of work that nobody looks at."""

    def __init__(self) -> None:
        """Hold nothing."""

    def advance(self, steps: int = 1, **facts: float) -> None:
        """Do nothing."""

    def reach(self, count: int) -> None:
        """Do nothing."""


_SILENCE = _Silence()
_STAGE: ContextVar[Stage | None] = ContextVar("stage", default=None)  # the innermost one; None: nobody looks
if hasattr(os, "register_at_fork"):  # a forked child does not have the thread that shows, and locks may be held
    os.register_at_fork(after_in_child=lambda: _STAGE.set(None))


@contextmanager
def stage(name: str, total: int | None = None, count: int = 0, unit: str = "") -> Iterator[Stage]:
    """Open a piece of work, and yield the `Stage` to count its steps on."""
    outer = _STAGE.get()
    if outer is None:
        yield _SILENCE
        return
    inner = Stage(name, total, count, unit)
    outer.open(inner)
    token = _STAGE.set(inner)
    try:
        yield inner
    finally:
        _STAGE.reset(token)
        outer.close(inner)


def tick(name: str, steps: int = 1, **facts: float) -> None:
    """Count steps of the innermost stage, and say how it goes, if it has this name."""
    current = _STAGE.get()
    if current is not None and current.name == name:
        current.advance(steps, **facts)


@contextmanager
def watched(root: Stage) -> Iterator[None]:
    """Let stages be opened within ``root``, which somebody looks at."""
    token = _STAGE.set(root)
    try:
        yield
    finally:
        _STAGE.reset(token)


def is_watched() -> bool:
    """Tell whether somebody looks."""
    return _STAGE.get() is not None


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for other threads to call, which counts in the stage of here and now."""
    return _Carried(function)


class _Carried:
    """A function and the stage that it counts in. Pickled for another process it is the function alone."""

    __slots__ = "function", "stage"  # no __dict__, which `functools.update_wrapper` would copy

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.stage = function, _STAGE.get()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        token = _STAGE.set(self.stage)
        try:
            return self.function(*args, **kwargs)
        finally:
            _STAGE.reset(token)

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        return _itself, (self.function,)


def _itself(function: Any) -> Any:
    return function


def duration(seconds: float) -> str:
    """Return a time as one says it.

    >>> duration(7.4), duration(47.1), duration(200), duration(9000)
    ('7 s', '45 s', '3 min', '2.5 h')
    """
    if seconds < 20:
        return f"{seconds:.0f} s"
    if seconds < 120:
        return f"{5 * round(seconds / 5)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
