"""Show how far work has come: a thread looks at the stages now and then, and writes to standard error.

On a terminal it draws a bar of tqdm, where that is installed; else it writes lines. What cannot be written is left out.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from optfair.errors import brief_repr, need_extra
from optfair.utils.progress import Stage, is_watched, watched

Function = TypeVar("Function", bound=Callable[..., Any])

LINE_SECONDS = 5.0  # between two lines, at least; work that ends sooner shows none
LINE_SHARE = 0.05  # of the time so far, where that is more: a night of work has some hundred lines, not thousands
BAR_DELAY, BAR_SECONDS = 1.0, 0.25  # until a bar appears, and between two looks at it
UNWRITABLE = (OSError, ValueError)  # a full disk, a closed pipe; a closed file
DEFAULT_WIDTH = 80
BAR, TEXT = "{desc} |{bar:20}| {unit}", "{desc}"  # formats of tqdm, whose postfix would begin with a comma


@contextmanager
def show_progress(visible: bool = True) -> Iterator[None]:
    """Show on standard error how far the work inside has come: what is done, how many of how many, the time left.

    On a terminal as a bar (extra ``cli``), elsewhere as a line at most every five seconds; work that ends sooner shows
    nothing. The time left is the mean of the steps so far, times those to come. ``progress=True`` of an estimator, of
    `solve` or of `frontier` does the same for one call. Work in other processes is counted when it comes back.

    Parameters
    ----------
    visible : bool, default True
        Whether to show anything.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> import optfair
    >>> from optfair.datasets import make_fair_classification
    >>> data = make_fair_classification(400, random_state=0)
    >>> with optfair.show_progress():
    ...     model = optfair.OptFairIn(tolerance=0.05, rounds=5, random_state=0)
    ...     model = model.fit(data.X, data.y, sensitive_features=data.sensitive_features)
    """
    if not visible or sys.stderr is None or is_watched():
        yield
        return
    display = Display(sys.stderr)
    with display, watched(display.root):
        yield


def with_progress(function: Function) -> Function:
    """Make a call show its progress where its keyword ``progress``, or ``self.progress`` of a method, says so."""
    is_keyword = "progress" in (function.__kwdefaults__ or {})

    @functools.wraps(function)
    def shown(*args: Any, **kwargs: Any) -> Any:
        value = kwargs.get("progress", False) if is_keyword else getattr(args[0], "progress", False)
        if not isinstance(value, bool):
            raise ValueError(f"progress={brief_repr(value)}: must be True or False.")
        with show_progress(value):
            return function(*args, **kwargs)

    return cast(Function, shown)


class _Root(Stage):
    """The stage that all others are opened in; it leaves a clean terminal behind each of them."""

    def __init__(self, clear: Callable[[], None]) -> None:
        super().__init__("")
        self.clear = clear

    def close(self, inner: Stage) -> None:
        """End a stage."""
        super().close(inner)
        self.clear()


class _Output:
    """A stream that drops what cannot be written, and everything after it: tqdm keeps its lock if a write fails."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.is_broken = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text, if that is possible."""
        self._try(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Write what is in the buffer, if that is possible."""
        self._try(self.stream.flush)

    def _try(self, function: Callable[..., Any], *arguments: str) -> None:
        try:
            if not self.is_broken:
                function(*arguments)
        except UNWRITABLE:
            self.is_broken = True


class Display:
    """A thread that shows on a stream, as long as its context is open, which stages are open within ``root``."""

    def __init__(self, stream: Any) -> None:
        self.root, self.stream, self.start = _Root(self.clear), _Output(stream), time.monotonic()
        self.has_bar, self.bar = _can_draw(stream), None
        self.end = threading.Event()
        self.lock = threading.Lock()  # of the bar and the stream
        self.thread = threading.Thread(target=self._watch, name="optfair-progress", daemon=True)

    def __enter__(self) -> Display:
        _DISPLAYS.append(self)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end.set()
        self.clear()
        self.thread.join()
        _DISPLAYS.remove(self)

    def clear(self) -> None:
        """Take the bar away; the next look draws it again, unless this is the end."""
        with self.lock:
            bar, self.bar = self.bar, None
            if bar is not None:
                bar.close()

    def _watch(self) -> None:
        """Look again and again, until the end or until nothing can be written any more."""
        pause = BAR_DELAY if self.has_bar else LINE_SECONDS
        while not self.stream.is_broken and not self.end.wait(pause):
            self._show()
            elapsed = time.monotonic() - self.start
            pause = BAR_SECONDS if self.has_bar else max(LINE_SECONDS, LINE_SHARE * elapsed)

    def _show(self) -> None:
        with self.lock:
            stages = _open_stages(self.root)  # within the lock: who has closed the last of them clears after this
            if not stages or self.end.is_set():
                return
            if self.has_bar:
                try:
                    self._draw(stages)
                except ImportError:  # no tqdm
                    self.has_bar = False
            else:
                print(f"... {_text(stages)}", file=self.stream, flush=True)

    def _draw(self, stages: list[Stage]) -> None:
        """Draw a bar of the outermost stage that has a number of steps, with the others as text."""
        bar: Any = self.bar
        if bar is None:
            tqdm = need_extra("tqdm", "a progress bar").tqdm
            kind = type("Bar", (tqdm,), {"monitor_interval": 0})  # no second thread that looks
            bar = self.bar = kind(file=self.stream, leave=False, bar_format=TEXT)
        width = _width(self.stream) - 1  # some terminals break a line that fills them
        counted = next((stage for stage in stages if stage.total), None)
        if counted is None or counted.total is None:
            bar.total, bar.bar_format, bar.desc = None, TEXT, _text(stages)[:width]
        else:
            name, _, state = _text(stages[stages.index(counted) :]).partition(": ")
            bar.total, bar.n = counted.total, min(counted.count, counted.total)
            bar.bar_format, bar.desc, bar.unit = BAR, name, state
        bar.ncols = width
        bar.refresh()


_DISPLAYS: list[Display] = []  # that are open


def clear_bars() -> None:
    """Take all bars away, before something else is written to the terminal."""
    for display in list(_DISPLAYS):
        display.clear()


def _open_stages(root: Stage) -> list[Stage]:
    """Return the stages under way, the outermost first; of several within one the last that was opened."""
    stages: list[Stage] = []
    latest = root.inner[-1:]
    while latest:
        stages += latest
        latest = stages[-1].inner[-1:]
    return stages


def _text(stages: list[Stage]) -> str:
    return "; ".join(stage.text() for stage in stages)


def _can_draw(stream: Any) -> bool:
    """Tell whether the stream is a terminal that nobody else draws on: workers in threads and processes write lines."""
    try:
        is_terminal = bool(stream.isatty()) and os.environ.get("TERM") != "dumb"
    except (AttributeError, *UNWRITABLE):
        return False
    processes: Any = sys.modules.get("multiprocessing")  # of a worker, this is imported
    is_worker = processes is not None and processes.parent_process() is not None
    return is_terminal and not is_worker and threading.current_thread() is threading.main_thread()


def _width(stream: Any) -> int:
    """Return the columns of a terminal."""
    with suppress(AttributeError, *UNWRITABLE):
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    return DEFAULT_WIDTH
