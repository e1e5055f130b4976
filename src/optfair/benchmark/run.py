"""All runs that are wanted and not yet there: trials first, then the experiments; with the time that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optfair.benchmark.catalogue import Experiment
from optfair.benchmark.ledger import Ledger, alone, fit_seconds
from optfair.benchmark.people import MADE_UP
from optfair.benchmark.plan import Plan, Run, TrialsFirst, finished
from optfair.benchmark.pool import work

TUNING = "tuning"  # the file of the trials


def run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    limit: float,
    jobs: int = 1,
    smoke: bool = False,
    only: tuple[str, ...] = (),
    say: Callable[[str], None] = print,
) -> Plan:
    """Do what is missing of the experiments, into ``folder``; the plan knows all lines then."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with alone(folder / ".lock", wait=False):
            return _run_all(experiments, folder, jobs, smoke, only, limit, say)
    except BlockingIOError:
        raise ValueError(f"{folder}: another `optfair bench` is writing there; wait for it, or take another.") from None


def _run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    jobs: int,
    smoke: bool,
    only: tuple[str, ...],
    limit: float,
    say: Callable[[str], None],
) -> Plan:
    ledger = Ledger(folder)
    plan = Plan(ledger.lines, smoke=smoke, only=only, limit=limit)
    for experiment in experiments:
        while True:  # trials may need trials: those of the network come before those of the methods on it
            try:
                name, runs = experiment.name, plan.runs(experiment)
            except TrialsFirst as first:
                name, runs = TUNING, first.runs
            missing = [run for run in runs if not finished(ledger.lines.get(run.key), limit)]
            for title in _made_up(plan, missing):
                say(f"{name}: {title} is not here; made-up people take its place (--smoke)")
            progress = Progress(ledger.lines, name, missing, len(runs), jobs, say)
            for line in work(plan, missing, folder / "cache", jobs, limit):
                ledger.add(name, line)
                progress.tell(line)
            if name == experiment.name:
                break
    return plan


def _made_up(plan: Plan, runs: Sequence[Run]) -> list[str]:
    """Titles of the people that are not here."""
    data = [plan.data[name] for name in dict.fromkeys(run.data for run in runs if run.source == MADE_UP)]
    return [own.title for own in data if own.made is None]


class Progress:
    """A line per finished run, with the time that is left by what such runs have taken."""

    def __init__(
        self,
        lines: dict[str, Any],
        name: str,
        missing: Sequence[Run],
        total: int,
        jobs: int,
        say: Callable[[str], None],
    ) -> None:
        self.lines, self.name, self.jobs, self.say = lines, name, jobs, say
        self.left, self.total = list(missing), total
        say(f"{name}: {len(missing)} of {total} runs to do")

    def tell(self, line: dict[str, Any]) -> None:
        run = line["run"]
        self.left = [other for other in self.left if other.as_dict() != run]
        value = "" if run["value"] is None else f" {run['value']:g}"
        found = line.get("scores", {}).get("answers")
        what = f"{found['accuracy']:.4f} / {found['violation'][run['criterion']]:.4f}" if found else line["error"]
        self.say(
            f"{self.name} {self.total - len(self.left)}/{self.total}  {run['data']} {run['seed']} {run['method']} "
            f"{run['criterion']}{value}: {what}  (about {_clock(self._remaining())} left)"
        )

    def _remaining(self) -> float:
        """Seconds: of each run those of finished ones with the same method and data, or method, or any."""
        taken: dict[tuple[str, ...], list[float]] = {}
        for line in self.lines.values():
            for key in ((line["run"]["method"], line["run"]["data"]), (line["run"]["method"],), ()):
                taken.setdefault(key, []).append(fit_seconds(line))
        mean = {key: float(np.mean(values)) for key, values in taken.items()}
        guesses = [mean.get((r.method, r.data), mean.get((r.method,), mean.get((), 1.0))) for r in self.left]
        return sum(guesses) / self.jobs


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
