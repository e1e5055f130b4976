"""Do all runs that have no line yet: trials first, then the experiments; report the time that remains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.catalogue import Experiment
from experiments.data_plan import SYNTHETIC
from experiments.ledger import Ledger, fit_seconds
from experiments.plan import Plan, Run, TrialsNeeded, is_finished
from experiments.pool import evaluate_all
from optfair.utils.files import exclusive

TUNING = "tuning"  # the file of the trials


def run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    limit: float,
    jobs: int = 1,
    smoke: bool = False,
    only: tuple[str, ...] = (),
    report: Callable[[str], None] = print,
) -> Plan:
    """Do what is missing of the experiments, into ``folder``, and return the plan with all lines."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(folder / ".lock", wait=False):
            return _run_all(experiments, folder, jobs, smoke, only, limit, report)
    except BlockingIOError:
        raise ValueError(
            f"{folder}: another `python -m experiments` is writing there; wait for it, or take another folder."
        ) from None


def _run_all(
    experiments: Sequence[Experiment],
    folder: Path,
    jobs: int,
    smoke: bool,
    only: tuple[str, ...],
    limit: float,
    report: Callable[[str], None],
) -> Plan:
    ledger = Ledger(folder)
    plan = Plan(ledger.lines, smoke=smoke, only=only, limit=limit)
    for experiment in experiments:
        while True:  # trials may need trials: those of the network come before those of the methods on it
            try:
                name, runs = experiment.name, plan.runs(experiment)
            except TrialsNeeded as needed:
                name, runs = TUNING, needed.runs
            missing = [run for run in runs if not is_finished(ledger.lines.get(run.key), limit)]
            for title in _replaced_data(plan, missing):
                report(f"{name}: {title} is not available; synthetic data take its place (--smoke)")
            progress = Progress(ledger.lines, name, missing, len(runs), jobs, report)
            for line in evaluate_all(plan, missing, folder / "cache", jobs, limit):
                ledger.add(name, line)
                progress.add(line)
            if name == experiment.name:
                break
    return plan


def _replaced_data(plan: Plan, runs: Sequence[Run]) -> list[str]:
    """Return the titles of the data in whose place synthetic ones are taken."""
    names = dict.fromkeys(run.data for run in runs if run.source == SYNTHETIC)
    return [plan.data[name].title for name in names if plan.data[name].synthetic is None]


class Progress:
    """Reports a line per finished run, with the time that remains, judged by what such runs have taken."""

    def __init__(
        self,
        lines: dict[str, Any],
        name: str,
        missing: Sequence[Run],
        total: int,
        jobs: int,
        report: Callable[[str], None],
    ) -> None:
        self.lines, self.name, self.jobs, self.report = lines, name, jobs, report
        self.remaining, self.total = list(missing), total
        report(f"{name}: {len(missing)} of {total} runs to do")

    def add(self, line: dict[str, Any]) -> None:
        """Report a finished run."""
        run = line["run"]
        self.remaining = [other for other in self.remaining if other.as_dict() != run]
        value = "" if run["value"] is None else f" {run['value']:g}"
        scores = next(iter(line.get("scores", {}).values()), None)
        result = f"{scores['accuracy']:.4f} / {scores['violation'][run['criterion']]:.4f}" if scores else line["error"]
        self.report(
            f"{self.name} {self.total - len(self.remaining)}/{self.total}  {run['data']} {run['seed']} {run['method']} "
            f"{run['criterion']}{value}: {result}  (about {_clock(self._seconds())} left)"
        )

    def _seconds(self) -> float:
        """Estimate each run by the mean of finished ones with the same method and data, or method, or of all."""
        seconds: dict[tuple[str, ...], list[float]] = {}
        for line in self.lines.values():
            for key in ((line["run"]["method"], line["run"]["data"]), (line["run"]["method"],), ()):
                seconds.setdefault(key, []).append(fit_seconds(line))
        mean = {key: float(np.mean(values)) for key, values in seconds.items()}
        guesses = [mean.get((r.method, r.data), mean.get((r.method,), mean.get((), 1.0))) for r in self.remaining]
        return sum(guesses) / self.jobs


def _clock(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
