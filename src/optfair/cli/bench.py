"""``optfair bench``: the experiments of the paper, and the page of their results."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optfair.benchmark.catalogue import EXPERIMENTS, read_experiment
from optfair.benchmark.ledger import Ledger
from optfair.benchmark.page.write import write_page
from optfair.benchmark.plan import Plan
from optfair.benchmark.run import run_all
from optfair.cli.main import DONE
from optfair.cli.paths import InputError
from optfair.errors import need_extra


def run(arguments: Namespace) -> int:
    """Run what is missing, then write the page."""
    for name in arguments.experiments:
        if name not in EXPERIMENTS:
            raise InputError(f"{name}: there is no such experiment; there are {', '.join(EXPERIMENTS)}.")
    if arguments.jobs < 1:
        raise InputError(f"--jobs {arguments.jobs}: must be at least 1.")
    if not 0 < arguments.limit < threading.TIMEOUT_MAX:
        raise InputError(f"--limit {arguments.limit:g}: must be above 0 seconds, and finite.")
    need_extra("matplotlib", "the page of results")  # now, and not after the last run
    folder, asked = Path(arguments.out), [read_experiment(name) for name in arguments.experiments or EXPERIMENTS]
    which: dict[str, Any] = {"smoke": arguments.smoke, "only": tuple(arguments.data or ())}
    for name in arguments.data or ():
        alone = Plan({}, smoke=arguments.smoke, only=(name,))
        if all(next(alone.asked(experiment), None) is None for experiment in asked):
            names = ", ".join(experiment.name for experiment in asked)
            raise InputError(f"--data {name}: is not among the people of {names}.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {arguments.out}: is a file; must be a folder.")
    page = Path(arguments.page) if arguments.page else folder / "results.md"
    _check_page(page)
    if arguments.only_page:
        if not any(folder.glob("*.jsonl")):
            raise InputError(f"{folder}: holds no lines of runs, *.jsonl.")
        plan = Plan(Ledger(folder).lines, done=True, **which)
    else:
        need_extra("torch", "optfair bench")
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        with _ending_workers():
            plan = run_all(asked, folder, jobs=arguments.jobs, limit=arguments.limit, say=_say, **which)
    for file in write_page(plan, asked, folder, page, _command(arguments)):
        print(file)
    return DONE


def _check_page(page: Path) -> None:
    """Now, and not after the last run. Its folder, and one of its name for pictures, are made when it is written."""
    if not page.suffix:
        raise InputError(f"--page {page}: give the name of a file with an ending, as results.md.")
    if page.is_dir():
        raise InputError(f"--page {page}: is a folder; give the name of a file.")
    there = next(folder for folder in page.absolute().parents if folder.exists())
    for folder in (there, page.with_suffix("")):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--page {page}: needs a folder {folder}, and that is a file.")
    if not os.access(there, os.W_OK):
        raise InputError(f"--page {page}: the folder {there} cannot be written to.")


def _command(arguments: Namespace) -> str:
    """What makes these lines, for captions."""
    smoke = ["--smoke"] if arguments.smoke else []
    page = ["--page", arguments.page] if arguments.page else []
    return shlex.join(["optfair", "bench", "--out", arguments.out, *page, *smoke])


@contextmanager
def _ending_workers() -> Iterator[None]:
    """SIGTERM ends this process as an exception does, so that its workers end too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
