"""Read the command line of ``python -m experiments``, do the runs that are missing, and write the pages."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments.base_models import need_package
from experiments.catalogue import EXPERIMENTS, Experiment, read_experiment
from experiments.ledger import Ledger
from experiments.page.page import PICTURES
from experiments.page.results import Results
from experiments.page.write import draft_pages
from experiments.plan import Plan
from experiments.run import run_all
from optfair.errors import need_extra

SUCCESS, BAD_INPUT, FAULT, INTERRUPTED = 0, 2, 3, 130
COMMAND = "python -m experiments"
HELP = """\
Run the project's experiments and write the pages of their results. Finished runs are kept: started again, it goes on
where it was stopped. docs/results/experiments.md says what each experiment asks, and how."""
EXIT_CODES = "exit codes: 0 success; 2 bad input; 3 a fault of the experiments themselves; 130 interrupted."


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog=COMMAND, description=HELP, epilog=EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("experiments", nargs="*", metavar="EXPERIMENT", help=f"one of {', '.join(EXPERIMENTS)} (default: all)")
    add("--out", required=True, metavar="DIR", help="folder of the lines of finished runs, *.jsonl")
    add("--pages", metavar="FOLDER", help="folder of the pages (default: that of the lines)")
    add("--only-page", action="store_true", help="run nothing: write the pages from finished runs")
    add("--jobs", type=int, default=1, metavar="N", help="number of processes (default: %(default)s)")
    add("--smoke", action="store_true", help="make everything tiny: it takes minutes, and the numbers mean nothing")
    add("--data", metavar="NAME", action="append", help="use only these data: adult, enem, …; repeat it")
    limit = "stop a run after so many seconds, and report it as not finished (default: %(default)s)"
    add("--limit", type=float, default=3600, metavar="SECONDS", help=limit)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, default None
        The arguments; None takes those of the process.

    Returns
    -------
    int
        0 for success, 2 for bad input, 3 for a fault of the experiments, 130 if interrupted.
    """
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as end:  # argparse has said what is wrong, or printed the help
        return int(end.code or 0)
    try:
        for file in run(arguments):
            print(file)
        return SUCCESS
    except (ValueError, OSError, ImportError, MemoryError) as error:
        return _fail(str(error) or type(error).__name__, BAD_INPUT)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except Exception:
        traceback.print_exc()
        return _fail("this is a fault of the experiments; please report it with the lines above", FAULT)


def run(arguments: Namespace) -> list[Path]:
    """Do the runs that are missing, write the pages, and return the files written."""
    experiments = [read_experiment(name) for name in arguments.experiments or EXPERIMENTS]
    _check_numbers(arguments)
    for package in ("jinja2", "matplotlib"):  # now, and not after the last run
        need_extra(package, "the page of results")
    smoke, only = arguments.smoke, tuple(arguments.data or ())
    _check_data(only, experiments, smoke=smoke)
    experiments = [experiment for experiment in experiments if _has_settings(experiment, only, smoke=smoke)]
    folder = Path(arguments.out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {arguments.out}: is a file; must be a folder.")
    target = Path(arguments.pages) if arguments.pages else folder
    _check_target(target)
    if arguments.only_page:
        if not any(folder.glob("*.jsonl")):
            raise ValueError(f"{folder}: holds no lines of runs, *.jsonl.")
        plan = Plan(Ledger(folder).lines, finished=True, smoke=smoke, only=only)
    else:
        _check_packages(experiments, only, smoke=smoke)
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads do not spin
        with _ending_workers():
            plan = run_all(
                experiments,
                folder,
                jobs=arguments.jobs,
                limit=arguments.limit,
                smoke=smoke,
                only=only,
                report=lambda text: print(text, file=sys.stderr, flush=True),
            )
    results = Results(plan, experiments, _command(arguments))
    drafts = draft_pages(results, folder, target)  # all of them before any is written: a missing run changes no page
    return list(dict.fromkeys(path for draft in drafts for path in draft.write()))


def _check_numbers(arguments: Namespace) -> None:
    if arguments.jobs < 1:
        raise ValueError(f"--jobs {arguments.jobs}: must be at least 1.")
    if not 0 < arguments.limit < threading.TIMEOUT_MAX:
        raise ValueError(f"--limit {arguments.limit:g}: must be above 0 seconds, and finite.")


def _check_data(only: Sequence[str], experiments: Sequence[Experiment], *, smoke: bool) -> None:
    for name in only:
        if not any(_has_settings(experiment, (name,), smoke=smoke) for experiment in experiments):
            names = ", ".join(experiment.name for experiment in experiments)
            raise ValueError(f"--data {name}: is not among the data of {names}.")


def _has_settings(experiment: Experiment, only: tuple[str, ...], *, smoke: bool) -> bool:
    return next(Plan({}, smoke=smoke, only=only).settings(experiment), None) is not None


def _check_packages(experiments: Sequence[Experiment], only: tuple[str, ...], *, smoke: bool) -> None:
    """Check now, not at the first run that needs one."""
    need_extra("torch", COMMAND)  # every worker has it
    plan = Plan({}, smoke=smoke, only=only)
    for data in {setting.data for experiment in experiments for setting in plan.settings(experiment)}:
        need_package(plan.data[data].model or {})


def _check_target(target: Path) -> None:
    """Check now, not after the last run. The folder, and one of pictures in it, are made when pages are written."""
    for folder in (target, target / PICTURES):
        parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not parent.is_dir():
            raise ValueError(f"--pages {target}: needs a folder {parent}, and that is a file.")
        if not os.access(parent, os.W_OK):
            raise ValueError(f"--pages {target}: the folder {parent} cannot be written to.")


def _command(arguments: Namespace) -> str:
    """Return what makes these lines and pages."""
    smoke = ["--smoke"] if arguments.smoke else []
    pages = ["--pages", Path(arguments.pages).as_posix()] if arguments.pages else []
    return f"{COMMAND} {shlex.join(['--out', arguments.out, *pages, *smoke])}"


@contextmanager
def _ending_workers() -> Iterator[None]:
    """Let SIGTERM end this process as an exception does, so that its workers end too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int) -> int:
    print(f"experiments: {' '.join(message.split())}", file=sys.stderr)
    return code
