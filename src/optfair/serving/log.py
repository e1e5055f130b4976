"""Log what an operator needs, and nothing about people: a line for the start, the end, and every failure."""

from __future__ import annotations

import logging
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOGGER = logging.getLogger("optfair.serving")
# Their lines quote requests, and their tracebacks values.
FOREIGN = ("uvicorn.error", "uvicorn.access", "uvicorn.asgi", "asyncio")


@contextmanager
def logging_to_stderr(is_quiet: bool = False) -> Iterator[None]:
    """Write lines with the time, in UTC, to the standard error of the process. is_quiet : only failures."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)sZ optfair serve: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    foreign = [logging.getLogger(name) for name in FOREIGN]
    before = [(logger, logger.level, logger.propagate, logger.disabled) for logger in (LOGGER, *foreign)]
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.ERROR if is_quiet else logging.INFO)
    LOGGER.propagate = False
    for logger in foreign:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of a model, which may quote values too
            yield
    finally:
        LOGGER.removeHandler(handler)
        for logger, level, propagate, disabled in before:
            logger.setLevel(level)
            logger.propagate, logger.disabled = propagate, disabled


def log_failure(error: BaseException) -> None:
    """Log where an unexpected error came from: types and lines of code, not its message, which may quote values."""
    LOGGER.error("internal error: %s", failure_text(error))


def failure_text(error: BaseException) -> str:
    """Return an error with those that caused it, in one line without values, the first cause first."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "; then ".join(f"{type(link).__name__} at {_frames(link)}" for link in reversed(chain))


def _frames(error: BaseException) -> str:
    """Return the frames of an error, the outermost first, by the names of their files alone."""
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames) or "no line"
