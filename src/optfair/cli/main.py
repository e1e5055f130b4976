"""Runs a command, and turns what goes wrong into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, TextIO

from optfair.cli.arguments import make_parser
from optfair.cli.paths import check_paths
from optfair.errors import InfeasibleError

DONE, NO, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of ``optfair argv``; see `arguments.EXIT_CODES`."""
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong, or printed the help
        return int(stop.code or 0)
    command = arguments.command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no "×" shows "?"
    listener = nullcontext() if sys.stdout is None else redirect_stdout(_Listener(sys.stdout))
    with warnings.catch_warnings(), listener:
        warnings.simplefilter("default")
        warnings.showwarning = _Notes()
        try:
            check_paths(arguments)
            _calm_threads()
            code = importlib.import_module(f"optfair.cli.{command}").run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where what goes wrong is told
            return code
        except InfeasibleError as error:
            return _say(command, error, NO)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            return _say(command, error, BAD_INPUT)
        except KeyboardInterrupt:
            return _say(command, "interrupted", INTERRUPTED)
        except Exception:
            traceback.print_exc()
            return _say(command, "this is a fault of optfair; please report it with the lines above", FAULT)


def _calm_threads() -> None:
    """One thread for BLAS, and waiting threads that do not spin, unless the user has said otherwise.

    The matrices are small. On a machine that is busy with other things, threads that wait for each other made the demo
    ten times slower (nine minutes of CPU instead of 47 seconds); alone on two cores they gain nothing.
    """
    if "numpy" not in sys.modules and "OMP_NUM_THREADS" not in os.environ:
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _say(command: str, error: BaseException | str, code: int) -> int:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    print(f"optfair {command}: {' '.join(text.split())}", file=sys.stderr)
    return code


class _Listener:
    """stdout; where nobody listens any more (`optfair ... | head`) the command goes on, and its exit code counts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._without_listener():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._without_listener():
            self._stream.flush()

    @contextmanager
    def _without_listener(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


class _Notes:
    """A warning is one line for the user, without the place in the code, and said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        if text not in self._said:
            print(f"note: {text}", file=sys.stderr)
        self._said.add(text)
