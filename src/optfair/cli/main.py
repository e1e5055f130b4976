"""Run a command, and turn errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from optfair.cli.arguments import make_parser
from optfair.cli.paths import check_paths
from optfair.errors import InfeasibleError, PlaceholderWarning, PromiseError
from optfair.utils.display import clear_bars, show_progress

DONE, NEGATIVE, INVALID_INPUT, INTERNAL_ERROR, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run an ``optfair`` command and return its exit code.

    Results are printed to stdout; notes, progress and errors to stderr. An error of the user is one line.

    Parameters
    ----------
    argv : sequence of str or None, default None
        The command and its options. None takes those of the process, ``sys.argv[1:]``.

    Returns
    -------
    int
        0 for success, 1 for a negative result (a gap exceeds the tolerance, or no rule satisfies the constraints),
        2 for invalid input, 3 for an internal error and 130 for an interruption.

    Examples
    --------
    >>> from optfair.cli.main import main
    >>> main(["predict", "no-such-model.skops", "no-such-table.csv", "-o", "predictions.csv"])
    2
    """
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the error or the help
        return int(stop.code or 0)
    command = arguments.command
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without "×" shows "?"
    output = nullcontext() if sys.stdout is None else redirect_stdout(_PipeSafeOutput(sys.stdout))
    notes = nullcontext() if sys.stderr is None else redirect_stderr(_DispensableOutput(sys.stderr))
    with warnings.catch_warnings(), output, notes:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", PlaceholderWarning)  # the commands have a note on it, with advice of their own
        warnings.showwarning = _WarningPrinter()
        try:
            check_paths(arguments)
            _limit_threads()
            if getattr(arguments, "file", None) is not None:
                importlib.import_module("optfair.cli.columns").check_named_columns(arguments)
            with show_progress(not arguments.quiet):
                code = importlib.import_module(f"optfair.cli.{command}").run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, so that a full disk is reported as an error
            return code
        except PromiseError as error:
            return _print_error(command, _as_options(error), NEGATIVE)
        except InfeasibleError as error:
            return _print_error(command, error, NEGATIVE)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            return _print_error(command, error, INVALID_INPUT)
        except KeyboardInterrupt:
            return _print_error(command, "interrupted", INTERRUPTED)
        except Exception:
            traceback.print_exc()
            return _print_error(
                command, "this is an internal error; please report it with the lines above", INTERNAL_ERROR
            )


def _as_options(error: PromiseError) -> str:
    """Return the message with options in place of arguments; a tolerance for each group is for Python only."""
    text = str(error).replace(f"a tolerance for each group, tolerance={error.tolerances!r}; ", "")
    return re.sub(r"\bunpromised='(\w+)'", r"--unpromised \1", text)


def _limit_threads() -> None:
    """Use one BLAS thread, and waiting threads that do not spin, unless the user has set OMP_NUM_THREADS.

    The matrices are small. On a machine that is busy with other things, threads that wait for each other made the demo
    ten times slower (nine minutes of CPU instead of 47 seconds); alone on two cores they gain nothing.
    """
    if "numpy" not in sys.modules and "OMP_NUM_THREADS" not in os.environ:
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _print_error(command: str, error: BaseException | str, code: int) -> int:
    """Print one line to stderr and return the exit code."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    print(f"optfair {command}: {' '.join(text.split())}", file=sys.stderr)
    return code


class _PipeSafeOutput:
    """Write to stdout; once its reader has gone (`optfair ... | head`), drop the output and let the command finish."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._discard_on_error():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discard_on_error():
            self._stream.flush()

    @contextmanager
    def _discard_on_error(self) -> Iterator[None]:
        """Send what is left in the buffer nowhere: Python flushes it at its end, and would exit with 120."""
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if not self._is_dispensable(error):
                raise

    def _is_dispensable(self, error: OSError) -> bool:
        """Tell whether the command may go on without its output."""
        return isinstance(error, BrokenPipeError)


class _DispensableOutput(_PipeSafeOutput):
    """Write to stderr; where notes and progress cannot be printed (a full disk), drop them and go on."""

    def _is_dispensable(self, error: OSError) -> bool:
        return True


class _WarningPrinter:
    """Print each warning once, as one line to stderr, without its place in the code."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

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
        if text not in self._printed:
            clear_bars()
            print(f"note: {text}", file=sys.stderr)
        self._printed.add(text)
